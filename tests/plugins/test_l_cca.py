"""`l-cca` and `g-cca`: the algorithms as printed, their error bounds, what their parameters are worth."""

from __future__ import annotations

import numpy as np
import pytest

import linspec as ls
from linspec_sketches.gaussian import Gaussian

RHO = np.array([0.95, 0.9, 0.5, 0.3, 0.2, *np.full(10, 0.1)])
K, P = 2, 15


def planted(sizes_x, sizes_y, n=200, seed=0):
    """Views with correlations RHO between directions that are no principal components, and the true variables."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((n, 2 * P)))[0]
    U, V = Q[:, :P], Q[:, :P] * RHO + Q[:, P:] * np.sqrt(1 - RHO**2)

    def view(basis, sizes):
        left, right = (np.linalg.qr(rng.standard_normal((P, P)))[0] for _ in range(2))
        return basis @ (left * sizes) @ right

    return view(U, sizes_x), view(V, sizes_y), U, V


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


def solved(X, Y, name="l-cca", k=K, **options):
    options = {"inner_start": "zero", "form": "implicit"} | options
    return ls.solve(ls.CCA(X, Y, k, center=False), name, rng=3, **options)


MILD = np.r_[np.linspace(6, 4, 5), np.linspace(2, 1, 10)]
SPREAD = np.r_[np.geomspace(100, 30, 5), np.geomspace(2, 1, 10)]


@pytest.mark.parametrize(("components", "name"), [(5, "l-cca"), (0, "g-cca")])
@pytest.mark.parametrize(("t1", "t2"), [(1, 1), (2, 3), (5, 6)])
def test_the_steps_are_those_of_the_algorithm(components, name, t1, t2):
    X, Y, *_ = planted(MILD, MILD[::-1])
    options = {"components": components, "ling_variant": "projection"} if components else {}
    found = solved(X, Y, name, iterations=t1, inner_iterations=t2, **options)
    Xt, Yt = by_dense_matrices(X, Y, t1, t2, components, drawn(3))
    assert ls.metrics.subspace_distance(X @ found.x_weights, Xt) < 1e-7
    assert ls.metrics.subspace_distance(Y @ found.y_weights, Yt) < 1e-7
    assert found.iterations == t1


def rate(sizes, components):
    """r of Theorem 3.4.2."""
    a, b = sizes[components] ** 2, sizes[-1] ** 2
    return (a - b) / (a + b)


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


@pytest.mark.parametrize("t2", [2, 4, 6, 8, 12])
@pytest.mark.parametrize("t1", [1, 2, 4, 8])
@pytest.mark.parametrize("start", ["zero", "last"])
@pytest.mark.slow(keep=10)
def test_error_bound_of_l_cca(t1, t2, start):
    """Theorem 3.4.5, its constants written out, and with r^t₂, which is what the proof gives for r^(2 t₂).

    With as many random columns as the views have, the principal components are exact. The form "simplified" is the one
    of the theorem in exact arithmetic, and keeps rounding out of the long directions.
    """
    X, Y, U, V = planted(SPREAD, SPREAD)
    found = solved(
        X,
        Y,
        iterations=t1,
        inner_iterations=t2,
        components=5,
        ling_variant="simplified",
        inner_start=start,
        tol=1e-30,
    )
    W = V.T @ np.linalg.qr(Y @ drawn(3)[1])[0]
    tangent = np.linalg.norm(W[K:] @ np.linalg.inv(W[:K]), 2)
    error = np.sqrt(K) * rate(SPREAD, 5) ** t2  # of a block, from that of each column
    assert ls.metrics.subspace_distance(Y @ found.y_weights, V[:, :K]) <= bound(t1, error, tangent) + 1e-12
    assert ls.metrics.subspace_distance(X @ found.x_weights, U[:, :K]) <= bound(t1, error, tangent) / (
        RHO[K - 1]
    ) + error / (RHO[K - 1] - error)


@pytest.mark.slow
def test_the_bound_says_something_and_the_exponent_is_not_twice_the_steps():
    """For many outer iterations the error is that of the inner ones: it falls as r^t₂ and not as its square."""
    sizes = np.r_[np.geomspace(100, 30, 5), 3.0, np.full(8, 2.0), 1.0]
    X, Y, _, V = planted(sizes, sizes, seed=1)
    r = rate(sizes, 5)
    steps = np.array([10, 20, 30, 40])
    errors = []
    for t2 in steps:
        options = {"iterations": 60, "inner_iterations": int(t2), "tol": 1e-30}
        found = solved(X, Y, components=5, ling_variant="simplified", **options)
        errors.append(ls.metrics.subspace_distance(Y @ found.y_weights, V[:, :K]))
    slope = np.polyfit(steps, np.log(errors), 1)[0]
    assert errors[-1] < 1e-3
    assert slope / np.log(r) == pytest.approx(1, abs=0.05)


def test_long_directions_slow_gradient_steps_down_and_ling_takes_them_out():
    """Remark 3.4.3: κ of the whole view against that of what the components leave."""
    X, Y, *_ = planted(SPREAD, SPREAD)
    found = {name: solved(X, Y, name, iterations=5, inner_iterations=5) for name in ("l-cca", "g-cca")}
    assert found["l-cca"].correlations.sum() > 0.999 * RHO[:K].sum()
    assert found["g-cca"].correlations.sum() < 0.9 * RHO[:K].sum()
    flat = planted(np.ones(P), np.ones(P))[:2]
    assert solved(*flat, "g-cca", iterations=20, inner_iterations=1, tol=1e-10).correlations.sum() == (
        pytest.approx(RHO[:K].sum(), rel=1e-9)
    )


def test_beginning_at_the_last_answer_gains_and_costs_nothing():
    X, Y, *_ = planted(SPREAD, np.sqrt(SPREAD))
    last, zero = (
        solved(X, Y, "g-cca", iterations=5, inner_iterations=6, inner_start=start)
        for start in ("last", "zero")
    )
    assert last.correlations.sum() > zero.correlations.sum()
    assert last.passes == zero.passes
