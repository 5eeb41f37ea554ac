"""A kind of data is one file of a class with few methods; everything else follows from them."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from in_blocks import rows_of
from one_hot import OneHot

from linspec.linalg import block_krylov
from linspec.rows import Moments, Preprocessing

rng = np.random.default_rng(0)
n, p = 3000, 6
codes = rng.integers(0, p, n)
Y = rng.standard_normal((n, 3)) + codes[:, None]
w, confounds = rng.random(n), rng.standard_normal((n, 2))
V, U = rng.standard_normal((p, 2)), rng.standard_normal((3, 2))


def test_the_file_has_at_most_sixty_statements() -> None:
    source = Path(__file__).parents[1].joinpath("one_hot.py").read_text("utf-8")
    assert sum(isinstance(node, ast.stmt) for node in ast.walk(ast.parse(source))) <= 60


@pytest.mark.parametrize(
    "asked",
    [{}, {"center": True}, {"center": True, "weights": w, "confounds": confounds, "scale": True}],
    ids=["plain", "center", "all"],
)
def test_it_gives_what_the_array_gives(asked: dict[str, Any]) -> None:
    kinds = [OneHot(codes, p), rows_of(np.eye(p)[codes])]
    found = []
    for kind in kinds:
        first, second = (Moments([kind, rows_of(Y)], Preprocessing.of(**asked)) for _ in range(2))
        held, products = first.gram(), second.products(V, U)
        found.append([held[0][0], held[0][1], *products[0], *products[1], second.operator(0).rmatmat(Y)])
        R = Moments([kind], Preprocessing.of(**asked)).triangle()
        found[-1].append(R.T @ R)
    for one, other in zip(*found, strict=True):
        assert np.abs(one - other).max() <= 1e-11 * np.abs(other).max()


def test_methods_run_on_it() -> None:
    moments = Moments([OneHot(codes, p)], Preprocessing(center=True))
    steps = block_krylov(moments.gram_product, rng.standard_normal((p, 3)), 3, rng)
    exact = np.linalg.svd(np.eye(p)[codes] - np.bincount(codes) / n, compute_uv=False)[:3]
    assert np.sqrt(list(steps)[-1].values) == pytest.approx(exact, rel=1e-12)
