"""A kind of data is one file of a class with few methods; the laws of rows hold for it, and methods run on it."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
from one_hot import OneHot

from linspec.linalg import block_krylov
from linspec.rows import Moments, Preprocessing


def test_the_file_has_at_most_sixty_statements() -> None:
    source = Path(__file__).parents[1].joinpath("one_hot.py").read_text("utf-8")
    assert sum(isinstance(node, ast.stmt) for node in ast.walk(ast.parse(source))) <= 60


def test_methods_run_on_it() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 6, 3000)
    moments = Moments([OneHot(codes, 6)], Preprocessing(center=True))
    steps = block_krylov(moments.gram_product, rng.standard_normal((6, 3)), 3, rng)
    exact = np.linalg.svd(np.eye(6)[codes] - np.bincount(codes) / 3000, compute_uv=False)[:3]
    assert np.sqrt(list(steps)[-1].values) == pytest.approx(exact, rel=1e-12)
