"""Block Krylov iteration against LAPACK: clusters, copies, low rank, restarts, products that are counted."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest

from linspec.linalg import block_krylov

p, k = 150, 5


def spectrum(values: Any) -> Any:
    rng = np.random.default_rng(7)
    Q, _ = np.linalg.qr(rng.standard_normal((p, len(values))))
    return Q * values @ Q.T


SPECTRA = {
    "flat": np.linspace(1.0, 2.0, p),
    "decay": np.geomspace(1.0, 1e-12, p),
    "six copies": np.append(np.full(6, 16.0), np.geomspace(1, 0.01, p - 6)),
    "thirty copies": np.append(np.full(30, 16.0), np.geomspace(1, 0.01, p - 30)),
    "cluster": np.append([100.0, 25.0], np.append(9 + 1e-6 * np.arange(6), np.geomspace(1, 0.01, p - 8))),
    "rank 3": np.array([9.0, 4.0, 1.0]),
    "identity": np.ones(p),
}


def converged(S: Any, width: int, **options: Any) -> tuple[Any, int]:
    rng, products = np.random.default_rng(width), 0
    for pairs in islice(
        block_krylov(lambda V: S @ V, rng.standard_normal((p, width)), k, rng, **options), 200
    ):
        products += 1
        if len(pairs.values) == k and pairs.residuals.max() <= 1e-9 * pairs.values[0]:
            break
    return pairs, products


ONCE = ("flat", "decay", "rank 3")  # whose values one column finds, since they occur once


@pytest.mark.parametrize(
    ("name", "width"),
    [*((name, width) for name in SPECTRA for width in (8, 15)), *((name, 1) for name in ONCE)],
)
def test_leading_pairs(name: str, width: int) -> None:
    S = spectrum(SPECTRA[name])
    exact = np.sort(np.append(SPECTRA[name], np.zeros(p - len(SPECTRA[name]))))[::-1]
    pairs, _ = converged(S, width)
    V = pairs.vectors()
    assert np.abs(pairs.values - exact[:k]).max() <= 1e-13 * exact[0]
    assert np.abs(V.T @ V - np.eye(k)).max() <= 1e-12
    left = np.linalg.norm(S @ V - V * pairs.values, axis=0)
    assert np.abs(left - pairs.residuals).max() <= 1e-12 * exact[0]


def test_restarts_keep_the_basis_small_and_cost_few_products() -> None:
    S = spectrum(SPECTRA["flat"])
    roomy, many = converged(S, 10, room=p)
    tight, more = converged(S, 10, room=65)
    assert np.abs(tight.values - roomy.values).max() <= 1e-13
    assert many <= more <= 2.5 * many


def test_the_whole_space_ends_it() -> None:
    rng = np.random.default_rng(0)
    S = np.diag(np.arange(1.0, 7.0))
    steps = list(block_krylov(lambda V: S @ V, rng.standard_normal((6, 2)), 4, rng))
    assert steps[-1].values.tolist() == pytest.approx([6, 5, 4, 3])
    zero = list(block_krylov(lambda V: 0 * V, rng.standard_normal((6, 2)), 4, rng))
    assert zero[-1].values.tolist() == [0, 0, 0, 0]
    assert zero[-1].exhausted
