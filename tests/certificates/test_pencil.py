"""Claims of the pencil certificate against exact values: singular values and correlations, right and wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from linspec._new.operators import as_operator
from linspec.certificates import Euclidean, Metric, Products, certify_pencil
from linspec.certificates.metric import SKETCH_ROWS
from linspec.rows import Moments

rng = np.random.default_rng(3)
n, p, k = 250, 40, 5


def orthonormal(rows: int, columns: int) -> Any:
    return np.linalg.qr(rng.standard_normal((rows, columns)))[0]


SPECTRA = {
    "flat": np.linspace(2, 1, p),
    "decay": np.geomspace(1, 1e-8, p),
    "ties": np.append(np.full(3, 4.0), np.geomspace(1, 0.1, p - 3)),
    "cluster at the cut": np.append([9.0, 8, 7, 6], 5 + 1e-7 * np.arange(p - 4, 0, -1)),
    "rank 3": np.append([3.0, 2, 1], np.zeros(p - 3)),
}


def judged_svd(A: Any, s: Any, V: Any, search: int = 0) -> Any:
    moments = Moments([as_operator(A)])
    return certify_pencil(
        lambda Z: Products([[moments.gram_product(Z[0])]], [Z[0]]),
        [V],
        s**2,
        k,
        [Euclidean(p)],
        search=search,
    )


@pytest.mark.parametrize("name", SPECTRA)
def test_singular_values(name: str) -> None:
    exact = SPECTRA[name]
    V = orthonormal(p, p)
    A = orthonormal(n, p) * exact @ V.T
    first = exact[0] ** 2
    right = judged_svd(A, exact[:k], V[:, :k])
    assert right.status == "CONVERGED"
    assert right.values < 1e-13
    for size in (1e-10, 1e-6, 1e-2):
        W, _ = np.linalg.qr(V[:, :k] + size * rng.standard_normal((p, k)))
        left, s, turn = np.linalg.svd(A @ W, full_matrices=False)
        assert left.shape == (n, k)
        found = judged_svd(A, s, W @ turn.T)
        off = np.abs(s**2 - exact[:k] ** 2).max() / first
        assert off <= 10 * found.values + 1e-15
        assert found.status != "CONVERGED" or off <= 1e-6
    shifted = judged_svd(A, exact[:k] * [1.01, 1, 1, 1, 1], V[:, :k])
    assert shifted.status == "INACCURATE"
    assert shifted.values >= 1e-3


def test_a_missing_triplet_is_found_by_a_search() -> None:
    exact = np.append([10.0, 6, 5, 4, 3, 2], np.geomspace(1, 0.1, p - 6))
    V = orthonormal(p, p)
    A = orthonormal(n, p) * exact @ V.T
    found = judged_svd(A, exact[1 : k + 1], V[:, 1 : k + 1], search=2)
    assert found.status == "INCOMPLETE"
    assert "larger values exist: the sum is at least" in found.notes[-1]
    none = judged_svd(A, exact[:k], V[:, :k], search=2)
    assert none.status == "CONVERGED"
    assert none.words.endswith("searched 2 passes for larger ones, found none")


def test_a_tie_at_the_cut_is_told() -> None:
    exact = np.append([5.0, 4, 3, 2, 1, 1], np.geomspace(0.5, 0.1, p - 6))
    V = orthonormal(p, p)
    found = judged_svd(orthonormal(n, p) * exact @ V.T, exact[:k], V[:, :k], search=3)
    assert found.status == "CONVERGED"
    assert "the span at the cut is a choice" in found.notes[-1]


def canonical(X: Any, Y: Any, ridge: float) -> tuple[Any, Any, Any]:
    """Correlations and weights by QR factors in double precision."""
    factors = [np.linalg.qr(np.vstack([M, np.sqrt(ridge) * np.eye(M.shape[1])])) for M in (X, Y)]
    (Qx, Rx), (Qy, Ry) = factors
    U, rho, Vt = np.linalg.svd(Qx[: len(X)].T @ Qy[: len(X)])
    return rho, np.linalg.solve(Rx, U), np.linalg.solve(Ry, Vt.T)


@pytest.mark.parametrize("ridge", [0.0, 0.1])
@pytest.mark.parametrize("condition", [1e1, 1e6])
def test_canonical_correlations(condition: float, ridge: float) -> None:
    common = rng.standard_normal((n, 4))
    units = np.geomspace(1, 1 / condition, 12)
    X = (common @ rng.standard_normal((4, 12)) + rng.standard_normal((n, 12))) * units
    Y = common @ rng.standard_normal((4, 9)) + rng.standard_normal((n, 9))
    rho, Wx, Wy = canonical(X, Y, ridge)
    moments = Moments([as_operator(X), as_operator(Y)], sketch_rows=SKETCH_ROWS * 12)
    metrics = [
        Metric.of_rows(S, ridge, moments.fitted[i].squares, 2.0**-52, exact=False)
        for i, S in enumerate(moments.sketch())
    ]

    def products(Z: list[Any]) -> Products:
        (Sx, Cx), (Cy, Sy) = moments.products(*Z)
        return Products([[None, Cy], [Cx, None]], [Sx + ridge * Z[0], Sy + ridge * Z[1]])

    def judged(values: Any, a: Any, b: Any, search: int = 1) -> Any:
        half = np.sqrt(0.5)
        return certify_pencil(products, [a * half, b * half], values, 3, metrics, search=search)

    assert judged(rho[:3], Wx[:, :3], Wy[:, :3]).status == "CONVERGED"
    for size in (1e-8, 1e-4, 1e-1):
        a = Wx[:, :3] + size * Wx[:, 3:6]
        found = judged(rho[:3], a / np.sqrt(1 + size**2), Wy[:, :3])
        assert size**2 * (rho[2] - rho[5]) <= 10 * found.values
        assert found.vectors >= size / 10
        assert found.status != "CONVERGED" or size <= 1e-3
    assert judged(rho[1:4], Wx[:, 1:4], Wy[:, 1:4], search=3).status == "INCOMPLETE"
    assert judged(
        np.repeat(rho[:1], 3), np.repeat(Wx[:, :1], 3, axis=1), np.repeat(Wy[:, :1], 3, axis=1)
    ).status in {
        "INACCURATE",
        "INCOMPLETE",
    }
