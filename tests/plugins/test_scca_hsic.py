"""HSIC of one-dimensional variates, the solver that maximises it, and preimages of the functions of kernel CCA."""

from types import SimpleNamespace

import numpy as np
import pytest
from in_blocks import rows_of

import linspec as ls
from linspec.arrays import HOST
from linspec.rows import Moments
from linspec_kernel.preimage.bounds import Bound
from linspec_kernel.preimage.kcca_preimage import Nearness
from linspec_kernel.preimage.objectives import HSIC
from linspec_kernel.preimage.views import PreimageMoments

PreimageCCA, KernelCCA = ls.get_problem("preimage-cca"), ls.get_problem("kernel-cca")


def gaussian(z):
    """The kernel matrix of a variate over its standard deviation."""
    z = z / np.sqrt(np.mean(z**2))
    return np.exp(-((z[:, None] - z[None, :]) ** 2) / 2)


def exact_hsic(p, q):
    """tr(KHLH)/(n − 1)² from the n x n matrices."""
    K, L = gaussian(p), gaussian(q)
    K = K - K.mean(axis=0)
    return float(np.sum((K - K.mean(axis=1)[:, None]) * L)) / (len(p) - 1) ** 2


def variates(n=400, columns=3, seed=0):
    """Centred pairs, one of them with heavy tails; the second of a pair is a function of the first."""
    rng = np.random.default_rng(seed)
    P = rng.standard_normal((n, columns))
    P[:, -1] = rng.standard_t(3, n)
    Q = np.column_stack([P[:, 0] ** 2, np.sin(3 * P[:, 1]), np.abs(P[:, 2])]) + 0.3 * rng.standard_normal(
        (n, 3)
    )
    return P - P.mean(axis=0), Q - Q.mean(axis=0)


def quadratic_relation(n, p, seed):
    """Y₁ = (X₁ + X₂)² − Y₂ and noise in both views, columns standardised."""
    rng = np.random.default_rng(seed)
    X, Y = rng.uniform(-1, 1, (n, p)), rng.uniform(-1, 1, (n, p))
    Y[:, 0] = (X[:, 0] + X[:, 1]) ** 2 - Y[:, 1] + 0.05 * rng.standard_normal(n)
    return tuple((A - A.mean(axis=0)) / A.std(axis=0) for A in (X, Y))


def derivative(f, t=1e-3):
    """f'(0) by differences of the sixth order."""
    return (45 * (f(t) - f(-t)) - 9 * (f(2 * t) - f(-2 * t)) + (f(3 * t) - f(-3 * t))) / (60 * t)


# ---- the criterion ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("features", "error"), [(16, 0.01), (32, 2e-4), (56, 1e-6), (128, 1e-7)])
def test_quadrature_gives_the_criterion_of_the_kernel_matrices(features, error):
    P, Q = variates()
    exact = [exact_hsic(p, q) for p, q in zip(P.T, Q.T, strict=True)]
    np.testing.assert_allclose(HSIC(features).values(P, Q, HOST), exact, rtol=error)


@pytest.mark.parametrize("objective", [HSIC(16), HSIC(), HSIC(128)])
def test_slopes_are_the_derivatives_of_values(objective):
    (P, Q), rng = variates(), np.random.default_rng(2)
    slopes = objective.slopes(P, Q, HOST)
    for i, slope in enumerate(slopes):
        D = rng.standard_normal(P.shape)
        E, F = (D, 0 * D) if i == 0 else (0 * D, D)
        moved = derivative(lambda t, E=E, F=F: objective.values(P + t * E, Q + t * F, HOST))
        found, scale = np.sum(slope * D, axis=0), np.linalg.norm(slope, axis=0) * np.linalg.norm(D, axis=0)
        assert np.abs(found - moved).max() <= 1e-8 * scale.max()


# ---- the solver ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_columns_that_are_related_by_a_square_are_found():
    X, Y = quadratic_relation(800, 30, seed=3)
    problem = PreimageCCA(X, Y, 1, bound_x=("ratio", 1.5), objective="hsic")
    found = ls.solve(problem, "scca-hsic", rng=0)
    assert found.converged
    for U in (found.x_preimages, found.y_preimages):
        assert ls.metrics.auc(U, [0, 1]) == 1.0
        assert ls.metrics.f1(U, [0, 1]) >= 0.8
    x, y = X @ found.x_preimages[:, 0], Y @ found.y_preimages[:, 0]
    assert found.values[0] == pytest.approx(exact_hsic(x, y), rel=1e-6)
    assert abs(np.corrcoef(x, y)[0, 1]) < 0.3  # the correlation does not show it
    single = max(exact_hsic(a, b) for a in X[:, :4].T for b in Y[:, :4].T)
    assert found.values[0] > single


def test_a_problem_of_correlations_is_solved_as_by_gradkcca():
    X, Y = quadratic_relation(200, 5, seed=5)
    found = ls.solve(PreimageCCA(X, Y, 1), "scca-hsic", rng=0)
    np.testing.assert_allclose(
        found.correlations, ls.solve(PreimageCCA(X, Y, 1), "gradkcca", rng=0).correlations
    )


# ---- preimages of kernel CCA -----------------------------------------------------------------------


def test_the_preimage_of_a_linear_function_is_its_direction():
    rng = np.random.default_rng(6)
    shared = rng.standard_normal((300, 2))
    X, Y = (shared @ rng.standard_normal((2, p)) + rng.standard_normal((300, p)) for p in (5, 4))
    found = ls.solve(PreimageCCA(X, Y, 1), "kcca-preimage", rng=0, penalty=0.05, tol=1e-9)
    ridge = tuple(0.05 * float(np.sum(A**2)) for A in (X, Y))
    exact = ls.solve(ls.CCA(X, Y, 1, ridge=ridge), "direct")
    for U, W in ((found.x_preimages, exact.x_weights), (found.y_preimages, exact.y_weights)):
        assert abs(float(U[:, 0] @ W[:, 0])) / np.linalg.norm(W) == pytest.approx(1, abs=1e-10)
    assert not found.converged
    assert found.status is ls.Status.APPROXIMATE


def test_the_preimage_of_a_quadratic_function_is_an_eigenvector():
    X, Y = quadratic_relation(300, 4, seed=7)
    kernel, penalty = ls.kernels.polynomial(2, 0.0, 1.0), 1e-2
    found = ls.solve(PreimageCCA(X, Y, 1, kernel), "kcca-preimage", rng=0, penalty=penalty, tol=1e-8)
    ridge = tuple(penalty * float(np.sum(np.sum(A**2, axis=1) ** 2)) for A in (X, Y))
    functions = ls.solve(KernelCCA(X, Y, 1, kernel, ridge=ridge), "kcca")
    # f(u) = uᵀ(Σ aᵢ xᵢxᵢᵀ)u, and k(u, u) is 1; f and g have one sign in common.
    forms, reach = [], []
    for A, a in ((X, functions.x_dual), (Y, functions.y_dual)):
        a = a[:, 0] - a[:, 0].mean()
        M = (A * a[:, None]).T @ A
        values, vectors = np.linalg.eigh(M / np.sqrt(np.sum(M**2)))  # ‖f‖ is the Frobenius norm of M
        forms.append((values, vectors))
        reach.append((values[-1], -values[0]))
    sign = int(np.argmax(np.sum(reach, axis=0)))
    for U, (_, vectors) in zip((found.x_preimages, found.y_preimages), forms, strict=True):
        assert abs(float(U[:, 0] @ vectors[:, -1 if sign == 0 else 0])) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    "kernel", [ls.kernels.linear(), ls.kernels.polynomial(3, 0.7, 0.2), ls.kernels.rbf(1.5)], ids=str
)
def test_the_gradient_of_the_distance_is_that_of_its_value(kernel):
    rng = np.random.default_rng(8)
    X, Y = rng.standard_normal((60, 5)), rng.standard_normal((60, 4))
    rows = Moments([rows_of(ls.as_operator(A)) for A in (X, Y)])
    stated = SimpleNamespace(bounds=(Bound("l2", 2.0),) * 2, center=True)
    moments = PreimageMoments(rows, stated, (kernel, kernel))
    moments.settle(rng)
    duals = tuple(rng.standard_normal((60, 1)) for _ in range(2))
    search, both = Nearness(moments, 1e-4, duals, 2), np.arange(2)
    W = rng.standard_normal((9, 2))
    G = search.gradients(moments.at(W), both)
    for some in (slice(0, 5), slice(5, 9)):
        D = np.zeros_like(W)
        D[some] = rng.standard_normal(W[some].shape)
        np.testing.assert_allclose(
            np.sum(G * D, axis=0),
            derivative(lambda t, D=D: search.values(moments.at(W + t * D), both)),
            rtol=1e-8,
        )
    # The value is 1 less the squared distance, but for ‖f‖², of centred functions.
    K = kernel.tile(X, X)
    a = duals[0][:, 0] - duals[0][:, 0].mean()
    U, _ = moments.split(W)
    for j, u in enumerate(U.T):
        distance = a @ K @ a - 2 * a @ kernel.tile(X, u[None, :])[:, 0] + kernel.diagonal(u[None, :])[0]
        assert a @ K @ a - distance == pytest.approx(search.of_view(0, moments.views[0].at(U), both)[j])


def test_gradkcca_goes_on_to_a_stationary_point():
    X, Y = quadratic_relation(600, 6, seed=9)
    problem = PreimageCCA(X, Y, 1, ls.kernels.polynomial(2, 0.0), bound_x=("ratio", 1.5))
    near = ls.solve(problem, "kcca-preimage", rng=0)
    polished = ls.solve(problem, "gradkcca", start=near)
    assert polished.converged
    assert polished.correlations[0] > near.correlations[0]


def test_functions_of_landmarks_serve_and_random_features_do_not():
    X, Y = quadratic_relation(300, 4, seed=10)
    problem = PreimageCCA(X, Y, 1, ls.kernels.rbf(3.0))
    whole = ls.solve(problem, "kcca-preimage", rng=0)
    landmarks = ls.solve(problem, "kcca-preimage", rng=0, kcca=ls.get_solver("nystrom-kcca")(landmarks=200))
    np.testing.assert_allclose(landmarks.correlations, whole.correlations, rtol=1e-3)
    with pytest.raises(ls.errors.InvalidOption, match="kcca must find combinations"):
        ls.solve(problem, "kcca-preimage", rng=0, kcca="rff-kcca")
