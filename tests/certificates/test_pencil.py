"""The enclosure of values of a pencil against exact ones: singular values and correlations, right and wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from linspec.certificates import Metric, enclosure

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


def nearest(values: Any, exact: Any) -> Any:
    return np.abs(np.asarray(values)[:, None] - exact).min(axis=1)


@pytest.mark.parametrize("name", SPECTRA)
def test_squares_of_singular_values(name: str) -> None:
    exact = SPECTRA[name] ** 2
    V = orthonormal(p, p)
    S = V * exact @ V.T
    for size in (0.0, 1e-10, 1e-6, 1e-2):
        W, _ = np.linalg.qr(V[:, :k] + size * rng.standard_normal((p, k)))
        theta = np.sum(W * (S @ W), axis=0)
        delta, least = enclosure([None], [S @ W - W * theta], W.T @ W)
        assert (nearest(theta, exact) <= delta + 1e-14 * exact[0]).all()
        assert delta <= 10 * p * size * exact[0] + 1e-13
        assert least == pytest.approx(1.0)
    assert enclosure([None], [0 * V[:, :2]], np.ones((2, 2)))[1] == pytest.approx(0.0, abs=1e-12)
    assert enclosure([None], [V[:, :0]], np.zeros((0, 0))) == (0.0, 1.0)


@pytest.mark.parametrize("ridge", [0.0, 0.1])
@pytest.mark.parametrize("condition", [1e1, 1e6])
def test_canonical_correlations(condition: float, ridge: float) -> None:
    common = rng.standard_normal((n, 4))
    units = np.geomspace(1, 1 / condition, 12)
    X = (common @ rng.standard_normal((4, 12)) + rng.standard_normal((n, 12))) * units
    Y = common @ rng.standard_normal((4, 9)) + rng.standard_normal((n, 9))
    below = [np.vstack([M, np.sqrt(ridge) * np.eye(M.shape[1])]) for M in (X, Y)]
    (Qx, Rx), (Qy, Ry) = map(np.linalg.qr, below)
    U, rho, Vt = np.linalg.svd(Qx[:n].T @ Qy[:n])
    a, b = np.linalg.solve(Rx, U[:, :6]) / np.sqrt(2), np.linalg.solve(Ry, Vt.T[:, :6]) / np.sqrt(2)
    (Sx, Sy), C = (M.T @ M for M in below), X.T @ Y
    metrics = [Metric.of_rows(M, 0.0, np.sum(M**2, axis=0), 2.0**-52, exact=True) for M in below]
    for size in (0.0, 1e-8, 1e-4, 1e-1):
        W = a[:, :3] + size * a[:, 3:6], b[:, :3]
        theta = 2 * np.sum(W[0] * (C @ W[1]), axis=0)
        gaps = [C @ W[1] - Sx @ W[0] * theta, C.T @ W[0] - Sy @ W[1] * theta]
        delta, _ = enclosure(metrics, gaps, W[0].T @ Sx @ W[0] + W[1].T @ Sy @ W[1])
        assert (nearest(theta, rho) <= delta + 1e-14 * condition).all()
        assert delta <= 4 * size + 1e-15 * condition**2
