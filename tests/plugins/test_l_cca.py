"""`l-cca` and `g-cca`: the algorithms as printed, their error bounds, what their parameters are worth."""

from __future__ import annotations

import numpy as np
import pytest
from planted import planted_cca

import linspec as ls
from linspec.metrics import subspace_distance
from linspec_sketches.gaussian import Gaussian

RHO = np.array([0.95, 0.9, 0.5, 0.3, 0.2, *np.full(10, 0.1)])
K, P = 2, 15
MILD = np.r_[np.linspace(6, 4, 5), np.linspace(2, 1, 10)]
SPREAD = np.r_[np.geomspace(100, 30, 5), np.geomspace(2, 1, 10)]
FLAT = np.ones(P)


def planted(sizes_x, sizes_y):
    """Views with correlations RHO between directions that are no principal components."""
    X, Y = planted_cca(200, P, P, RHO, K, center=False).arrays.values()
    rng = np.random.default_rng(0)
    turn = [np.linalg.qr(rng.standard_normal((P, P)))[0] for _ in range(2)]
    return X @ turn[0] * sizes_x @ turn[1], Y @ turn[1] * sizes_y @ turn[0]


def projection_by_ling(A, T, components, steps):
    """Algorithm 5 of the thesis: projection on leading left singular vectors, gradient descent for the rest."""
    U = np.linalg.svd(A, full_matrices=False)[0][:, :components]
    first = U @ (U.T @ T)
    B, w = np.zeros((A.shape[1], T.shape[1])), A.T @ (T - first)
    for _ in range(steps):
        s = (w * w).sum(axis=0) / ((A @ w) ** 2).sum(axis=0)
        B, w = B + w * s, w - A.T @ (A @ (w * s))
    return first + A @ B


def by_dense_matrices(X, Y, t1, t2, components, starts):
    """Algorithm 6 of the thesis, X first, its bases turned to canonical pairs: those of the two views."""

    def turned(Xt, Yt):
        Xt, Yt = np.linalg.qr(Xt)[0], np.linalg.qr(Yt)[0]
        left, _, right = np.linalg.svd(Xt.T @ Yt)
        return Xt @ left, Yt @ right.T

    Xt, Yt = turned(X @ starts[0], Y @ starts[1])
    for _ in range(t1):
        Xt, Yt = turned(projection_by_ling(X, Yt, components, t2), Yt)
        Xt, Yt = turned(Xt, projection_by_ling(Y, Xt, components, t2))
    return Xt, Yt


def drawn(seed):
    """The starts of X and Y."""
    rng = np.random.default_rng(seed)
    return [Gaussian().draw(P, K, rng) for _ in range(2)]


def solved(X, Y, name="l-cca", **options):
    options = {"inner_start": "zero", "form": "implicit"} | options
    return ls.solve(ls.CCA(X, Y, K, center=False), name, rng=3, **options)


@pytest.mark.parametrize(("components", "name"), [(5, "l-cca"), (0, "g-cca")])
@pytest.mark.parametrize(("t1", "t2"), [(1, 1), (2, 3), (5, 6)])
def test_the_steps_are_those_of_the_algorithm(components, name, t1, t2):
    X, Y = planted(MILD, MILD[::-1])
    options = {"components": components, "ling_variant": "projection"} if components else {}
    found = solved(X, Y, name, iterations=t1, inner_iterations=t2, **options)
    Xt, Yt = by_dense_matrices(X, Y, t1, t2, components, drawn(3))
    assert subspace_distance(X @ found.x_weights, Xt) < 1e-7
    assert subspace_distance(Y @ found.y_weights, Yt) < 1e-7
    assert found.iterations == t1


def bound(t1, error, tangent):
    """The recursion in the proof of Lemma A.5.2, second-order terms kept: sines of the largest angle.

    A half step turns (cos θ, sin θ) into (≥ d_k cos θ - ε, ≤ d_(k+1) sin θ + ε).
    """
    for _ in range(2 * t1):
        if not np.isfinite(tangent):
            return 1.0
        sine, cosine = tangent / np.hypot(1, tangent), 1 / np.hypot(1, tangent)
        reached = RHO[K - 1] * cosine - error
        tangent = (RHO[K] * sine + error) / reached if reached > 0 else np.inf
    return tangent / np.hypot(1, tangent)


@pytest.mark.parametrize(("t1", "t2"), [(1, 4), (2, 8), (4, 6), (8, 12)])
@pytest.mark.parametrize("start", ["zero", "last"])
def test_error_bound_of_l_cca(t1, t2, start):
    """Theorem 3.4.5, its constants written out, and with r^t₂, which is what the proof gives for r^(2 t₂).

    With as many random columns as the views have, the principal components are exact. The form "simplified" is the one
    of the theorem in exact arithmetic, and keeps rounding out of the long directions.
    """
    X, Y = planted(SPREAD, SPREAD)
    bases = [np.linalg.qr(A)[0] for A in (X, Y)]
    left, _, right = np.linalg.svd(bases[0].T @ bases[1])
    U, V = bases[0] @ left, bases[1] @ right.T
    options = {"components": 5, "ling_variant": "simplified", "inner_start": start, "tol": 1e-30}
    found = solved(X, Y, iterations=t1, inner_iterations=t2, **options)
    W = V.T @ np.linalg.qr(Y @ drawn(3)[1])[0]
    tangent = np.linalg.norm(W[K:] @ np.linalg.inv(W[:K]), 2)
    a, b = SPREAD[5] ** 2, SPREAD[-1] ** 2
    error = np.sqrt(K) * ((a - b) / (a + b)) ** t2  # of a block, from r of each column
    most = bound(t1, error, tangent)
    assert subspace_distance(Y @ found.y_weights, V[:, :K]) <= most + 1e-12
    also = most / RHO[K - 1] + error / (RHO[K - 1] - error)
    assert subspace_distance(X @ found.x_weights, U[:, :K]) <= also


def test_long_directions_slow_gradient_steps_down_and_ling_takes_them_out():
    """Remark 3.4.3: κ of the whole view against that of what the components leave."""
    views, most = planted(SPREAD, SPREAD), RHO[:K].sum()
    found = {name: solved(*views, name, iterations=5, inner_iterations=5) for name in ("l-cca", "g-cca")}
    assert found["l-cca"].correlations.sum() > 0.999 * most
    assert found["g-cca"].correlations.sum() < 0.9 * most
    flat = solved(*planted(FLAT, FLAT), "g-cca", iterations=20, inner_iterations=1, tol=1e-10)
    assert flat.correlations.sum() == pytest.approx(most, rel=1e-9)


def test_beginning_at_the_last_answer_gains_and_costs_nothing():
    options = {"iterations": 5, "inner_iterations": 6}
    views = planted(SPREAD, np.sqrt(SPREAD))
    last, zero = (solved(*views, "g-cca", inner_start=start, **options) for start in ("last", "zero"))
    assert last.correlations.sum() > zero.correlations.sum()
    assert last.passes == zero.passes
