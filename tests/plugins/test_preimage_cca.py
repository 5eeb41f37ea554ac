"""Preimage CCA: nearest points, the criterion HSIC, planted relations, and preimages of functions."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from planted import planted_cca
from truths import extended, kernel_matrix

import linspec as ls
from linspec.arrays import HOST
from linspec.errors import InvalidOption, InvalidProblem, MissingCapability, NonFiniteData
from linspec_kernel.preimage.bounds import Bound
from linspec_kernel.preimage.objectives import HSIC
from linspec_kernel.preimage.problem import PreimageCCA

SQUARE, LINEAR, CUBIC = ls.kernels.polynomial(2, 0.0), ls.kernels.linear(), ls.kernels.polynomial(3, 0.5, 0.3)
SPARSEST = {"bound_x": ("ratio", 1.5)}


def views(n=300, p=8, f=np.square, seed=None):
    """Y1 = f(X1 + X2) - Y2, z-scored: columns 0 and 1 of both views are related."""
    rng = np.random.default_rng([0, n, p] if seed is None else seed)
    X, Y = rng.uniform(-1, 1, (n, p)), rng.uniform(-1, 1, (n, p))
    Y[:, 0] = f(X[:, :2].sum(axis=1)) - Y[:, 1] + 0.05 * rng.standard_normal(n)
    return tuple((A - A.mean(axis=0)) / A.std(axis=0) for A in (X, Y))


def derivative(f, t=1e-3):
    """f'(0) by differences of the sixth order."""
    return (45 * (f(t) - f(-t)) - 9 * (f(2 * t) - f(-2 * t)) + (f(3 * t) - f(-3 * t))) / (60 * t)


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


@pytest.mark.parametrize("p", [1, 2, 3, 7])
def test_a_bound_that_every_vector_meets_changes_no_direction(p):
    y = np.ones((p, 1))
    y[-1] -= 1e-9  # |y|₁ is above √p |y|₂ by rounding alone
    u = Bound("ratio", np.sqrt(p)).nearest(y)
    np.testing.assert_allclose(u, y / np.linalg.norm(y), rtol=1e-12)


def test_the_nearest_point_of_the_ratio_set_keeps_nearly_equal_entries():
    y = np.array([1.0, 1.0 - 3e-16, 1.0 - 1e-9, 0.5])
    u = Bound("ratio", 1.2).nearest(y[:, None])[:, 0]
    assert abs(np.abs(u).sum() - 1.2) < 1e-6
    assert abs(np.linalg.norm(u) - 1) < 1e-12


def test_nearest_points_of_balls_are_in_them_and_in_the_direction_of_steepest_approach():
    """In a convex set the nearest point u of y is the one with (y − u)ᵀ(v − u) ≤ 0 for all its corners v."""
    Y = np.random.default_rng(4).standard_normal((6, 5))
    for kind, order, dual in (("l1", 1, np.inf), ("l2", 2, 2)):
        for y, u in zip(Y.T, Bound(kind, 1.3).nearest(Y).T, strict=True):
            assert np.linalg.norm(u, order) <= 1.3 + 1e-12
            assert 1.3 * np.linalg.norm(y - u, dual) <= (y - u) @ u + 1e-12


def exact_hsic(p, q):
    """tr(KHLH)/(n − 1)² from the n x n matrices of Gaussian kernels over the standard deviations."""
    K, L = (np.exp(-((z[:, None] - z) ** 2) / (2 * np.mean(z**2))) for z in (p, q))
    K = K - K.mean(axis=0)
    return float(np.sum((K - K.mean(axis=1)[:, None]) * L)) / (len(p) - 1) ** 2


def variates():
    """Centred pairs, one of them with heavy tails; the second of a pair is a function of the first."""
    rng = np.random.default_rng(0)
    P = rng.standard_normal((400, 3))
    P[:, -1] = rng.standard_t(3, 400)
    Q = np.column_stack([P[:, 0] ** 2, np.sin(3 * P[:, 1]), np.abs(P[:, 2])])
    Q += 0.3 * rng.standard_normal((400, 3))
    return P - P.mean(axis=0), Q - Q.mean(axis=0)


@pytest.mark.parametrize(("features", "error"), [(16, 0.01), (32, 2e-4), (56, 1e-6), (128, 1e-7)])
def test_quadrature_gives_the_criterion_of_the_kernel_matrices_and_its_derivatives(features, error):
    (P, Q), objective, rng = variates(), HSIC(features), np.random.default_rng(2)
    exact = [exact_hsic(p, q) for p, q in zip(P.T, Q.T, strict=True)]
    np.testing.assert_allclose(objective.values(P, Q, HOST), exact, rtol=error)
    for i, slope in enumerate(objective.slopes(P, Q, HOST)):
        D = rng.standard_normal(P.shape)
        E, F = (D, 0 * D) if i == 0 else (0 * D, D)
        moved = derivative(lambda t, E=E, F=F: objective.values(P + t * E, Q + t * F, HOST))
        found, scale = np.sum(slope * D, axis=0), np.linalg.norm(slope, axis=0) * np.linalg.norm(D, axis=0)
        assert np.abs(found - moved).max() <= 1e-8 * scale.max()


def test_hsic_finds_a_relation_that_is_not_monotone_with_the_linear_kernel():
    X, Y = views(500)
    found = ls.solve(PreimageCCA(X, Y, 1, **SPARSEST, objective="hsic"), rng=0)
    assert found.converged
    for side in found.supports(0.3):
        np.testing.assert_array_equal(np.flatnonzero(side[:, 0]), [0, 1])
    x, y = X @ found.x_preimages[:, 0], Y @ found.y_preimages[:, 0]
    assert found.values[0] == pytest.approx(exact_hsic(x, y), rel=1e-6)
    assert found.values[0] > max(exact_hsic(a, b) for a in X[:, :3].T for b in Y[:, :3].T)
    assert abs(np.corrcoef(x, y)[0, 1]) < 0.3  # the correlation does not show it


@pytest.mark.parametrize(
    ("kernel", "f", "least"), [(SQUARE, np.square, 0.7), (LINEAR, np.exp, 0.85)], ids=["square", "exp"]
)
def test_planted_columns_are_found_among_many(kernel, f, least):
    X, Y = views(900, 40, f)
    found = ls.solve(PreimageCCA(X[:600], Y[:600], 1, kernel, **SPARSEST), "gradkcca", rng=0)
    assert found.converged
    for side in found.supports(0.2):
        np.testing.assert_array_equal(np.flatnonzero(side[:, 0]), [0, 1])
    assert found.score(X[600:], Y[600:]).total > least
    linear = ls.solve(ls.CCA(X[:600], Y[:600], 1))
    assert linear.score(X[600:], Y[600:]).total < 0.3 or kernel is LINEAR


@pytest.mark.parametrize("center", [True, False])
def test_with_the_linear_kernel_and_no_bound_it_is_cca(center):
    X, Y = planted_cca(60, 5, 4, (0.95, 0.8, 0.5, 0.2), 3, center=center).arrays.values()
    found = ls.solve(PreimageCCA(X, Y, 3, center=center), rng=0, tol=1e-7)
    exact = ls.solve(ls.CCA(X, Y, 3, center=center), "direct")
    assert found.converged
    np.testing.assert_allclose(found.correlations, exact.correlations, atol=1e-10)
    mine, theirs = found.transform(X), exact.transform(X)
    np.testing.assert_allclose(mine, theirs * np.sign(np.sum(mine * theirs, axis=0)), atol=1e-4)


@pytest.mark.parametrize("kernel", [SQUARE, CUBIC, ls.kernels.rbf(2.0)], ids=str)
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
    found = ls.solve(PreimageCCA(X, Y, 2, CUBIC, bound_x=("ratio", 1.7)), "gradkcca", rng=0)
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


def test_a_ball_that_restricts_nothing_is_said_to():
    X, Y = views(200, 6)
    found, free = (ls.solve(PreimageCCA(X, Y, 1, SQUARE, bound_x=b), rng=0) for b in (("l1", 1.0), None))
    assert "restricts nothing for X and Y" in found.message
    np.testing.assert_allclose(found.correlations, free.correlations, atol=1e-5)
    offset = ls.kernels.polynomial(2, 1.0, 1.0)  # the length of a point counts
    small, large = (ls.solve(PreimageCCA(X, Y, 1, offset, bound_x=("l2", b)), rng=0) for b in (0.1, 3.0))
    assert not any("restricts" in answer.message for answer in (free, small))
    assert np.linalg.norm(small.x_preimages) <= 0.1 + 1e-12
    assert small.correlations[0] < large.correlations[0] - 0.05


def test_nothing_left_for_another_pair_is_said():
    X, Y = planted_cca(60, 5, 4, (0.95, 0.8), 1, values_x=(3, 3), values_y=(2, 2)).arrays.values()
    found = ls.solve(PreimageCCA(X, Y, 4), rng=0)
    assert len(found.correlations) == 2
    assert found.status is ls.Status.RANK_DEFICIENT


def test_the_preimage_of_a_linear_function_is_its_direction():
    rng = np.random.default_rng(6)
    shared = rng.standard_normal((300, 2))
    X, Y = (shared @ rng.standard_normal((2, p)) + rng.standard_normal((300, p)) for p in (5, 4))
    found = ls.solve(PreimageCCA(X, Y, 1), "kcca-preimage", rng=0, penalty=0.05, tol=1e-9)
    assert found.status is ls.Status.APPROXIMATE
    ridge = tuple(0.05 * float(np.sum(A**2)) for A in (X, Y))
    exact = ls.solve(ls.CCA(X, Y, 1, ridge=ridge), "direct")
    for U, W in ((found.x_preimages, exact.x_weights), (found.y_preimages, exact.y_weights)):
        assert abs(float(U[:, 0] @ W[:, 0])) / np.linalg.norm(W) == pytest.approx(1, abs=1e-10)


def test_the_preimage_of_a_quadratic_function_is_an_eigenvector():
    X, Y = views(300, 4)
    kernel, penalty = ls.kernels.polynomial(2, 0.0, 1.0), 1e-2
    found = ls.solve(PreimageCCA(X, Y, 1, kernel), "kcca-preimage", rng=0, penalty=penalty, tol=1e-8)
    ridge = tuple(penalty * float(np.sum(np.sum(A**2, axis=1) ** 2)) for A in (X, Y))
    functions = ls.solve(ls.KernelCCA(X, Y, 1, kernel, ridge=ridge), "kcca")
    # f(u) = uᵀ(Σ aᵢ xᵢxᵢᵀ)u, and k(u, u) is 1; f and g have one sign in common.
    forms, reach = [], []
    for A, a in ((X, functions.x_dual), (Y, functions.y_dual)):
        M = (A * (a - a.mean())).T @ A
        values, vectors = np.linalg.eigh(M / np.sqrt(np.sum(M**2)))  # ‖f‖ is the Frobenius norm of M
        forms.append(vectors)
        reach.append((values[-1], -values[0]))
    place = -1 if np.argmax(np.sum(reach, axis=0)) == 0 else 0
    for U, vectors in zip((found.x_preimages, found.y_preimages), forms, strict=True):
        assert abs(float(U[:, 0] @ vectors[:, place])) == pytest.approx(1, abs=1e-6)


def test_gradkcca_goes_on_from_a_preimage_to_a_stationary_point():
    problem = PreimageCCA(*views(600, 6), 1, SQUARE, **SPARSEST)
    near = ls.solve(problem, "kcca-preimage", rng=0)
    polished = ls.solve(problem, "gradkcca", start=near)
    assert polished.converged
    assert polished.correlations[0] > near.correlations[0]


def test_functions_of_landmarks_serve_and_random_features_do_not():
    problem = PreimageCCA(*views(300, 4), 1, ls.kernels.rbf(3.0))
    whole = ls.solve(problem, "kcca-preimage", rng=0)
    landmarks = ls.solve(problem, "kcca-preimage", rng=0, kcca=ls.get_solver("nystrom-kcca")(landmarks=200))
    np.testing.assert_allclose(landmarks.correlations, whole.correlations, rtol=1e-3)
    with pytest.raises(InvalidOption, match="kcca must find combinations"):
        ls.solve(problem, "kcca-preimage", rng=0, kcca="rff-kcca")


def test_a_run_goes_on_in_the_midst_of_a_pair_and_climbs_nothing_again(tmp_path):
    kernel, path = ls.kernels.polynomial(2, 0.0, 1.0), tmp_path / "run.ckpt"
    problem = PreimageCCA(*views(200, 6, seed=0), 2, kernel, **SPARSEST)
    whole = ls.solve(problem, "gradkcca", rng=0, tol=1e-7)
    for stop in (0, whole.iterations // 2, whole.iterations - 2):
        cut = {"checkpoint": path, "callback": lambda progress, stop=stop: progress.iteration >= stop}
        ls.solve(problem, "gradkcca", rng=0, tol=1e-7, **cut)
        found = ls.solve(problem, "gradkcca", start=path, tol=1e-7)
        np.testing.assert_allclose(found.correlations, whole.correlations, rtol=1e-6)
        assert found.iterations <= whole.iterations - stop + 15


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


def test_the_residual_of_float32_rows_far_from_zero_is_that_of_float64():
    rng, kernel = np.random.default_rng(0), ls.kernels.rbf(scale=2.0)
    X = rng.standard_normal((40, 2)).astype(np.float32)
    Y = (0.3 * rng.standard_normal((40, 5)) + 17 + X[:, :1]).astype(np.float32)
    found = ls.solve(PreimageCCA(X, Y, 1, kernel), "gradkcca", rng=0)
    own = found.x_preimages[:, 0], found.y_preimages[:, 0]

    def correlation(*points):
        pairs = zip((X, Y), points, strict=True)
        return np.corrcoef([kernel_matrix(kernel, extended(np.vstack(pair)))[:-1, -1] for pair in pairs])[
            0, 1
        ]

    law = []
    for i, u in enumerate(own):  # |Proj(u + ∇) − u|, by differences
        ends = [[u + h for h in step * np.eye(len(u))] for step in (1e-6, -1e-6)]
        up, down = ([correlation(*own[:i], w, *own[i + 1 :]) for w in each] for each in ends)
        step = u + np.subtract(up, down) / 2e-6
        law.append(np.linalg.norm(step / np.linalg.norm(step) - u))
    assert found.residual == pytest.approx(max(law), rel=0.05, abs=1e-7)


X0, Y0 = np.random.default_rng(0).standard_normal((2, 30, 4))
PRODUCTS = {name: scipy.sparse.linalg.aslinearoperator(A) for name, A in (("X", X0), ("Y", Y0))}


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"kernel_x": "laplacian"}, InvalidProblem, "linear, polynomial or rbf"),
        ({"bound_x": ("l0", 3)}, InvalidProblem, "ratio, l1, l2"),
        ({**PRODUCTS, "kernel_x": "rbf"}, MissingCapability, "known by its products only"),
        ({"X": X0 * 1e50, "kernel_x": ls.kernels.polynomial(7, 0.0, 1.0)}, NonFiniteData, "overflow"),
    ],
)
def test_wrong_parameters_are_refused_with_a_remedy(given, error, words):
    with pytest.raises(error, match=words):
        ls.solve(PreimageCCA(**{"X": X0, "Y": Y0, "k": 1, **given}), rng=0)
