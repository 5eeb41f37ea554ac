"""Alternating least squares, by all its parts and as printed in `l-cca` and `g-cca`; `lobpcg` among equal pairs."""

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


@pytest.mark.parametrize("ridge", [0.0, 1.0])
@pytest.mark.parametrize("name", ["cg", "direct", "gd", "ling", "lsqr", "nystrom-pcg"])
def test_als_finds_the_exact_pairs_by_any_part(name, ridge):
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((500, 3))
    X, Y = (shared @ rng.standard_normal((3, p)) + rng.standard_normal((500, p)) for p in (20, 12))
    problem = ls.CCA(X * np.geomspace(1, 10, 20), Y, k=2, ridge=ridge)
    found = ls.solve(problem, "als", lstsq=name, form="implicit", rng=0)
    assert found.converged
    np.testing.assert_allclose(found.correlations, ls.solve(problem, "direct").correlations, atol=3e-6)


def planted(sizes_x, sizes_y, seed=0):
    """Views with correlations RHO between directions that are no principal components."""
    X, Y = planted_cca(200, P, P, RHO, K, center=False, seed=seed).arrays.values()
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


@pytest.mark.slow
def test_the_error_falls_with_the_steps_and_not_with_twice_the_steps():
    """Theorem 3.4.5 says r^(2 t₂) of t₂ inner steps; its proof gives r^t₂, and for many outer steps so it is."""
    sizes = np.r_[np.geomspace(100, 30, 5), 3.0, np.full(8, 2.0), 1.0]
    X, Y = planted(sizes, sizes, seed=1)
    exact = ls.solve(ls.CCA(X, Y, K, center=False), "direct").y_weights
    steps, errors = np.array([10, 20, 30, 40]), []
    for t2 in steps:
        options = {"iterations": 60, "inner_iterations": int(t2), "tol": 1e-30, "ling_variant": "simplified"}
        found = solved(X, Y, components=5, **options)
        errors.append(subspace_distance(Y @ found.y_weights, Y @ exact))
    assert errors[-1] < 1e-3
    slope = np.polyfit(steps, np.log(errors), 1)[0]
    assert slope / np.log((9 - 1) / (9 + 1)) == pytest.approx(1, abs=0.05)


def test_beginning_at_the_last_answer_gains_and_costs_nothing():
    options = {"iterations": 5, "inner_iterations": 6}
    views = planted(SPREAD, np.sqrt(SPREAD))
    last, zero = (solved(*views, "g-cca", inner_start=start, **options) for start in ("last", "zero"))
    assert last.correlations.sum() > zero.correlations.sum()
    assert last.passes == zero.passes


# ---- lobpcg ------------------------------------------------------------------------------------


LOBPCG_RHO = (0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2)
TIED = (0.9, 0.8, 0.8, 0.8, 0.8, 0.3, 0.2)


def lobpcg_planted(rho=LOBPCG_RHO, **options):
    """300 x 80 and 300 x 60."""
    options |= {"values_x": np.geomspace(3, 1, 80), "values_y": np.geomspace(1, 3, 60)}
    return planted_cca(300, 80, 60, rho, 4, **options).arrays.values()


@pytest.mark.parametrize("oversample", [15, 56])
def test_what_a_whole_subspace_leaves_of_a_block_is_rounding(oversample):
    """With float32 data it is long, and is not reported as columns that depend on others."""
    problem = ls.CCA(*(A.astype(np.float32) for A in lobpcg_planted()), 4)
    found = ls.solve(problem, "lobpcg", rng=0, form="implicit", oversample=oversample)
    assert found.status is ls.Status.CONVERGED
    np.testing.assert_allclose(found.correlations, LOBPCG_RHO[:4], atol=1e-5)


@pytest.mark.parametrize("form", ["implicit", "dense"])
@pytest.mark.parametrize("lacking", [0, 2])
def test_a_start_that_lacks_a_pair_finds_it(form, lacking):
    """All pairs of the start are exact, so its residual is zero."""
    X, Y = lobpcg_planted()
    exact = ls.solve(ls.CCA(X, Y, 9), "direct")
    some = [i for i in range(5) if i != lacking]
    start = {"x_weights": exact.x_weights[:, some], "y_weights": exact.y_weights[:, some]}
    for seed in range(3):
        found = ls.solve(ls.CCA(X, Y, 4), "lobpcg", rng=seed, form=form, start=start)
        assert found.converged
        np.testing.assert_allclose(found.correlations, LOBPCG_RHO[:4], atol=1e-5)


@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("oversample", [0, 2, 15])
@pytest.mark.slow(keep=3)
def test_all_copies_of_a_correlation_are_found(k, oversample):
    """Four equal ones; with k = 2 there is no gap behind the last, with k = 5 there is one."""
    X, Y = lobpcg_planted(TIED)
    exact = ls.solve(ls.CCA(X, Y, k), "direct")
    for seed in range(3):
        options = {"rng": seed, "form": "implicit", "oversample": oversample, "tol": 1e-10}
        found = ls.solve(ls.CCA(X, Y, k), "lobpcg", **options)
        np.testing.assert_allclose(found.correlations, TIED[:k], atol=1e-7)
        for A, name in ((X, "x_weights"), (Y, "y_weights")) if k == 5 else ():
            variates = ((A - A.mean(axis=0)) @ getattr(answer, name) for answer in (found, exact))
            assert subspace_distance(*variates) < 1e-3


def test_stopped_early_it_is_honest():
    """Correlations below the exact ones, each within its bound of one of them, a residual near the loss."""
    X, Y = lobpcg_planted(ridge=1.0)
    exact = ls.solve(ls.CCA(X, Y, 60, ridge=1.0), "gram").correlations
    for stop in (1, 2, 3, 5, 8):
        options = {"form": "implicit", "max_iterations": stop, "tol": 1e-14, "oversample": 4}
        with pytest.warns(ls.errors.ConvergenceWarning):
            found = ls.solve(ls.CCA(X, Y, 4, ridge=1.0), "lobpcg", rng=0, **options)
        assert found.status is ls.Status.ITERATION_LIMIT
        assert (found.correlations <= exact[:4] + 1e-12).all()
        apart = np.abs(found.correlations[:, None] - exact).min(axis=1)
        assert (apart <= found.bounds + 1e-12).all()
        loss = 1 - found.correlations.sum() / exact[:4].sum()
        assert loss <= 10 * found.residual + 1e-13
