"""Preimage CCA: nearest points, the theorem of the linear kernel, planted relations, rows of all kinds, refusals."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
from planted import planted_cca
from truths import extended, kernel_matrix

import linspec as ls
from linspec.arrays import HOST
from linspec.errors import ConvergenceWarning, InvalidProblem, MissingCapability
from linspec_kernel.preimage.bounds import Bound
from linspec_kernel.preimage.objectives import HSIC
from linspec_kernel.preimage.problem import PreimageCCA

SQUARE, LINEAR = ls.kernels.polynomial(2, 0.0), ls.kernels.linear()


def views(n=300, p=12, f=np.square, seed=0):
    """Y1 = f(X1 + X2) - Y2, z-scored: columns 0 and 1 of both views are related."""
    rng = np.random.default_rng([seed, n, p])
    X, Y = rng.uniform(-1, 1, (n, p)), rng.uniform(-1, 1, (n, p))
    Y[:, 0] = f(X[:, :2].sum(axis=1)) - Y[:, 1] + 0.05 * rng.standard_normal(n)
    return tuple((A - A.mean(axis=0)) / A.std(axis=0) for A in (X, Y))


# ---- nearest points ---------------------------------------------------------------------------


def gain_by_bisection(y, s):
    """The largest uᵀy over {|u|₂ = 1, |u|₁ ≤ s}: nearest points are the largest, since all have length 1."""
    a, ties = np.abs(y), int(np.sum(np.abs(y) == np.abs(y).max()))
    if a.sum() <= s * np.linalg.norm(a):
        return float(np.linalg.norm(a))
    if ties >= s * s:
        return s * float(a.max())
    low, high = 0.0, float(a.max())
    for _ in range(200):
        middle = (low + high) / 2
        w = np.maximum(a - middle, 0)
        low, high = (middle, high) if w.sum() > s * np.linalg.norm(w) else (low, middle)
    w = np.maximum(a - low, 0)
    return float(w @ a / np.linalg.norm(w))


@pytest.mark.parametrize("s", [1.0, 1.2, 1.5, 2.0, 3.7])
def test_the_nearest_point_of_the_ratio_set_is_that_of_a_bisection(s):
    rng = np.random.default_rng(3)
    for p in (1, 2, 3, 14, 60):
        Y = rng.standard_normal((p, 40)) * 10.0 ** rng.integers(-9, 9, 40)
        Y[:, ::3] = np.rint(Y[:, ::3] / np.abs(Y[:, ::3]).max(axis=0) * 3)  # ties and zeros
        U = Bound("ratio", s).nearest(Y)
        np.testing.assert_allclose(np.linalg.norm(U, axis=0), 1.0, atol=1e-12)
        assert np.abs(U).sum(axis=0).max() <= s + 1e-9
        best = np.array([gain_by_bisection(y, s) for y in Y.T])
        np.testing.assert_allclose(np.sum(U * Y, axis=0), best, rtol=1e-10)


def test_the_nearest_point_of_the_ratio_set_keeps_nearly_equal_entries():
    y = np.array([1.0, 1.0 - 3e-16, 1.0 - 1e-9, 0.5])
    u = Bound("ratio", 1.2).nearest(y[:, None])[:, 0]
    assert abs(np.abs(u).sum() - 1.2) < 1e-6
    assert abs(np.linalg.norm(u) - 1) < 1e-12


@pytest.mark.parametrize(("kind", "order"), [("l1", 1), ("l2", 2)])
def test_nearest_points_of_balls_are_those_of_an_optimiser(kind, order):
    rng = np.random.default_rng(4)
    Y = rng.standard_normal((6, 5))
    U = Bound(kind, 1.3).nearest(Y)
    for y, u in zip(Y.T, U.T, strict=True):
        # Both signs of an entry are variables of their own, so that |u|₁ is a sum.
        room = {
            "type": "ineq",
            "fun": lambda w: 1.3 - (w.sum() if order == 1 else np.linalg.norm(w[:6] - w[6:])),
        }
        found = scipy.optimize.minimize(
            lambda w, y=y: np.sum((w[:6] - w[6:] - y) ** 2),
            np.full(12, 0.05) + 0.01 * np.arange(12),
            bounds=[(0, None)] * 12,
            constraints=[room],
            options={"ftol": 1e-14, "maxiter": 500},
        )
        assert np.linalg.norm(u, order) <= 1.3 + 1e-12
        np.testing.assert_allclose(np.sum((u - y) ** 2), found.fun, rtol=1e-5)


# ---- objectives -------------------------------------------------------------------------------


def test_the_criterion_of_independence_is_that_of_the_kernel_matrices():
    rng = np.random.default_rng(5)
    P = rng.standard_t(3, (200, 2))  # heavy tails: some rows are ten standard deviations away
    Q = P**2 + 0.3 * rng.standard_normal((200, 2))
    P, Q = P - P.mean(axis=0), Q - Q.mean(axis=0)
    H, exact = np.eye(200) - 1 / 200, []
    for c, d in zip(P.T, Q.T, strict=True):
        K, L = (np.exp(-((z[:, None] - z) ** 2) / (2 * np.mean(z**2))) for z in (c, d))
        exact.append(np.trace(K @ H @ L @ H) / 199**2)
    np.testing.assert_allclose(HSIC().values(P, Q, HOST), exact, rtol=1e-6)


# ---- what is known of answers -----------------------------------------------------------------


@pytest.mark.parametrize("center", [True, False])
def test_with_the_linear_kernel_and_no_bound_it_is_cca(center):
    X, Y = planted_cca(60, 5, 4, (0.95, 0.8, 0.5, 0.2), 3, center=center).arrays.values()
    found = ls.solve(PreimageCCA(X, Y, 3, center=center), rng=0, tol=1e-7)
    exact = ls.solve(ls.CCA(X, Y, 3, center=center), "direct")
    assert found.converged
    np.testing.assert_allclose(found.correlations, exact.correlations, atol=1e-10)
    mine, theirs = found.transform(X), exact.transform(X)
    signs = np.sign(np.sum(mine * theirs, axis=0))
    np.testing.assert_allclose(mine, theirs * signs, atol=1e-4)


@pytest.mark.parametrize(
    ("kernel", "f", "least"), [(SQUARE, np.square, 0.7), (LINEAR, np.exp, 0.85)], ids=["square", "exp"]
)
def test_planted_columns_are_found_among_many(kernel, f, least):
    X, Y = views(900, 40, f)
    train, test = slice(0, 600), slice(600, 900)
    problem = PreimageCCA(X[train], Y[train], 1, kernel, bound_x=("ratio", 1.5))
    found = ls.solve(problem, "gradkcca", rng=0)
    assert found.converged
    for side in found.supports(0.2):
        np.testing.assert_array_equal(np.flatnonzero(side[:, 0]), [0, 1])
    assert found.score(X[test], Y[test]).total > least
    if kernel is SQUARE:
        linear = ls.solve(ls.CCA(X[train], Y[train], 1))
        assert linear.score(X[test], Y[test]).total < 0.3


def test_hsic_finds_a_relation_that_is_not_monotone_with_the_linear_kernel():
    X, Y = views(500, 8)
    found = ls.solve(PreimageCCA(X, Y, 1, bound_x=("ratio", 1.5), objective="hsic"), rng=0)
    assert found.converged
    for side in found.supports(0.3):
        np.testing.assert_array_equal(np.flatnonzero(side[:, 0]), [0, 1])
    assert abs(found.correlations[0]) < found.values[0] + 0.3


@pytest.mark.parametrize("kernel", [SQUARE, ls.kernels.polynomial(3, 0.5, 0.3), ls.kernels.rbf(2.0)], ids=str)
def test_variates_are_uncorrelated_on_the_training_rows_though_functions_are_not(kernel):
    X, Y = views(200, 6)
    found = ls.solve(PreimageCCA(X, Y, 3, kernel, bound_x=("ratio", 2.0)), rng=0)
    P, Q = found.transform(X, Y)
    for Z in (P, Q):
        np.testing.assert_allclose(Z.T @ Z, np.eye(3), atol=1e-8)
        np.testing.assert_allclose(Z.sum(axis=0), 0, atol=1e-8)
    np.testing.assert_allclose(np.sum(P * Q, axis=0), found.correlations, atol=1e-10)
    assert np.array_equal(found.x_weights, np.triu(found.x_weights))


def test_a_later_point_gains_nothing_by_coming_near_an_earlier_one():
    # Of k(·, u + d) the function of u leaves a multiple of a derivative, whose own length does not vanish with d.
    X, Y = (np.where(np.abs(A) < 0.8, 0.0, A) for A in views(400, 8, np.exp))
    problem = PreimageCCA(X, Y, 2, ls.kernels.polynomial(3, 0.5, 0.3), bound_x=("ratio", 1.7))
    found = ls.solve(problem, "gradkcca", rng=0)
    assert found.converged
    for U in (found.x_preimages, found.y_preimages):
        assert abs(U[:, 0] @ U[:, 1]) < 0.5


def test_a_point_that_a_step_leads_back_to_has_residual_zero():
    # The gradient along the sparsest points cannot lead to another one unless it is longer than the point.
    X, Y = views(300, 5, np.exp)
    found = ls.solve(PreimageCCA(X, Y, 1, bound_x=("ratio", 1.0)), rng=0)
    assert found.residual == 0
    single = np.abs(np.corrcoef(X, Y, rowvar=False)[:5, 5:]).max()
    np.testing.assert_allclose(found.correlations[0], single, rtol=1e-12)


# ---- balls ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [LINEAR, SQUARE], ids=str)
def test_a_ball_that_restricts_nothing_is_said_to(kernel):
    X, Y = views(200, 6, np.exp)
    found = ls.solve(PreimageCCA(X, Y, 1, kernel, bound_x=("l1", 1.0)), rng=0)
    assert "restricts nothing for X and Y" in found.message
    free = ls.solve(PreimageCCA(X, Y, 1, kernel), rng=0)
    np.testing.assert_allclose(found.correlations, free.correlations, atol=1e-5)
    assert "restricts nothing" not in free.message


def test_a_ball_restricts_a_polynomial_with_an_offset():
    X, Y = views(200, 6)
    kernel = ls.kernels.polynomial(2, 1.0, 1.0)
    small, large = (ls.solve(PreimageCCA(X, Y, 1, kernel, bound_x=("l2", b)), rng=0) for b in (0.1, 3.0))
    assert "restricts" not in small.message
    assert np.linalg.norm(small.x_preimages) <= 0.1 + 1e-12
    assert small.correlations[0] < large.correlations[0] - 0.05


# ---- data -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_sparse_streamed_and_products_alone_give_the_answer_of_the_array():
    X, Y = (np.where(np.abs(A) < 0.8, 0.0, A) for A in views(400, 8, np.exp))
    kernel = ls.kernels.polynomial(3, 0.5, 0.3)
    kinds = {
        "sparse": scipy.sparse.csr_array,
        "streamed": lambda A: lambda: iter([A[:150], A[150:]]),
        "products": scipy.sparse.linalg.aslinearoperator,
    }
    made = {
        name: ls.solve(PreimageCCA(of(X), of(Y), 2, kernel, bound_x=("ratio", 1.7)), "gradkcca", rng=0)
        for name, of in {"array": np.asarray, **kinds}.items()
    }
    for found in made.values():
        np.testing.assert_allclose(found.correlations, made["array"].correlations, atol=1e-6)
        assert abs(found.passes - made["array"].passes) <= 40
    with pytest.raises(MissingCapability, match="known by its products only"):
        ls.solve(PreimageCCA(*(scipy.sparse.linalg.aslinearoperator(A) for A in (X, Y)), 1, "rbf"), rng=0)


def test_nothing_left_for_another_pair_is_said():
    X, Y = planted_cca(60, 5, 4, (0.95, 0.8), 1, values_x=(3, 3), values_y=(2, 2)).arrays.values()
    found = ls.solve(PreimageCCA(X, Y, 4), rng=0)
    assert len(found.correlations) == 2
    assert found.status is ls.Status.RANK_DEFICIENT


# ---- options ----------------------------------------------------------------------------------


def test_an_earlier_answer_is_polished():
    X, Y = views(300, 8)
    problem = PreimageCCA(X, Y, 2, SQUARE, bound_x=("ratio", 1.5))
    cold = ls.solve(problem, "gradkcca", rng=0)
    warm = ls.solve(problem, "gradkcca", rng=5, start=cold)
    assert warm.passes < cold.passes / 3
    np.testing.assert_allclose(warm.correlations, cold.correlations, atol=1e-7)
    with pytest.raises(InvalidProblem, match=r"x_preimages with the columns, \[8\]"):
        ls.solve(problem, "gradkcca", start={"x_preimages": np.ones((3, 1)), "y_preimages": np.ones((8, 1))})


def test_a_run_cut_short_has_all_pairs_and_an_honest_residual():
    X, Y = views(300, 8)
    problem = PreimageCCA(X, Y, 3, SQUARE, bound_x=("ratio", 1.5))
    found = ls.solve(problem, "gradkcca", rng=0, max_passes=12)
    assert found.status is ls.Status.BUDGET
    assert found.passes <= 12
    assert len(found.correlations) == 3
    assert not found.converged


# ---- words ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"kernel_x": "laplacian"}, "linear, polynomial or rbf"),
        ({"kernel_x": "precomputed"}, "linear, polynomial or rbf"),
        ({"kernel_x": lambda A, B: A @ B.T}, "linear, polynomial or rbf"),
        ({"bound_x": ("ratio", 0.9)}, "at least 1"),
        ({"bound_y": ("l1", 0.0)}, "above 0"),
        ({"bound_x": ("l1", math.nan)}, "above 0"),
        ({"bound_x": 1.5}, "pair such as"),
        ({"bound_x": ("l0", 3)}, "ratio, l1, l2"),
        ({"objective": "covariance"}, "correlation, hsic"),
        ({"center": 1}, "True or False"),
        ({"k": 0}, "between 1 and 29"),
        ({"k": 30}, "between 1 and 29"),
        ({"Y": np.ones((29, 4))}, "equally many rows"),
    ],
)
def test_wrong_parameters_are_refused_with_a_remedy(given, words):
    rng = np.random.default_rng(0)
    arguments = {"X": rng.standard_normal((30, 4)), "Y": rng.standard_normal((30, 4)), "k": 1, **given}
    with pytest.raises(InvalidProblem, match=words):
        PreimageCCA(**arguments)


def test_values_of_kernels_that_overflow_are_refused():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 4)) * 1e50
    with pytest.raises(ls.errors.NonFiniteData, match="overflow"):
        ls.solve(PreimageCCA(X, X, 1, ls.kernels.polynomial(7, 0.0, 1.0)), rng=0)


@pytest.mark.parametrize("kernel", [ls.kernels.rbf(30.0), SQUARE])
def test_sparse_integers_give_what_their_numbers_give(kernel):
    """Squares of 8-bit integers are no 8-bit integers."""
    rng = np.random.default_rng(3)
    X, Y = rng.standard_normal((40, 3)), rng.integers(-100, 100, (40, 4)).astype(np.int8)
    found, wanted = (
        ls.solve(PreimageCCA(X, made, 1, kernel), "gradkcca", rng=0)
        for made in (scipy.sparse.csr_array(Y), Y.astype(float))
    )
    np.testing.assert_allclose(found.correlations, wanted.correlations, rtol=1e-5)


@pytest.mark.parametrize(
    ("kernel", "solver"),
    [
        (LINEAR, "kcca-preimage"),
        *((kernel, name) for kernel in (LINEAR, SQUARE) for name in ("gradkcca", "scca-hsic")),
    ],
)
@pytest.mark.parametrize("power", [-20, 20])
@pytest.mark.slow(keep=3)
def test_float32_in_other_units_has_the_answer_of_its_numbers(kernel, power, solver):
    """Powers of two change no digit, and correlations of these kernels have no unit."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3)).astype(np.float32)
    Y = (X[:, :2] @ rng.standard_normal((2, 3)) + rng.standard_normal((40, 3))).astype(np.float32)
    unit = np.float32(2.0**power)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        far, near = (
            ls.solve(PreimageCCA(X * u, Y * u, 1, kernel), solver, rng=0) for u in (unit, np.float32(1.0))
        )
    np.testing.assert_allclose(far.correlations, near.correlations, atol=2e-3)


@pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")
@pytest.mark.parametrize("factor", [1e-10, 1e10])
@pytest.mark.parametrize("solver", ["kcca-preimage", "gradkcca"])
def test_pairs_of_columns_of_any_size_are_those_of_cca_or_have_not_converged(solver, factor):
    """A residual relative to |u| does not show what a small column would add."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        X, Y = rng.standard_normal((27, 2)), rng.standard_normal((27, 4))
        Y[:, 0] += X[:, 0]
        Y[:, 2] *= factor
        found = ls.solve(PreimageCCA(X, Y, 1), solver, rng=seed)
        exact = ls.solve(ls.CCA(X, Y, 1), "direct").correlations
        assert not found.converged or np.allclose(found.correlations, exact, atol=1e-3)


def test_a_point_from_which_all_rows_are_too_far_makes_no_variate():
    """The values of its function are no ordinary numbers."""
    X = np.array([[49.6, 32.0, 12.4, 47.6], [50.7, 33.2, 11.9, 45.0]])
    Y = np.array([[-0.4, 0.2], [-0.7, 4.6]])
    problem = PreimageCCA(X, Y, 1, kernel_x=ls.kernels.rbf(scale=2.0), center=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = ls.solve(problem, "kcca-preimage", rng=0)
    assert np.isfinite(found.correlations).all()


def test_the_residual_of_float32_rows_far_from_zero_is_that_of_float64():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2)).astype(np.float32)
    Y = (0.3 * rng.standard_normal((40, 5)) + 17 + X[:, :1]).astype(np.float32)
    given = {"k": 1, "kernel_x": ls.kernels.rbf(scale=2.0)}
    found = ls.solve(PreimageCCA(X, Y, **given), "gradkcca", rng=0)
    own = found.x_preimages[:, 0], found.y_preimages[:, 0]

    def correlation(u, v):
        c, d = (
            kernel_matrix(given["kernel_x"], extended(np.vstack([A, w])))[:-1, -1]
            for A, w in ((X, u), (Y, v))
        )
        return np.corrcoef(c, d)[0, 1]

    law = []
    for i, u in enumerate(own):  # |Proj(u + ∇) − u|, by differences
        ends = [[u + h for h in step * np.eye(len(u))] for step in (1e-6, -1e-6)]
        up, down = ([correlation(*own[:i], w, *own[i + 1 :]) for w in each] for each in ends)
        step = u + np.subtract(up, down) / 2e-6
        law.append(np.linalg.norm(step / np.linalg.norm(step) - u))
    assert found.residual == pytest.approx(max(law), rel=0.05, abs=1e-7)
