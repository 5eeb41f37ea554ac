"""Kernel CCA: identities with CCA of features, the law and its bounds, new rows, and the words for what is wrong."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from planted import related
from truths import kernel_matrix

import linspec as ls
from linspec.errors import InvalidProblem, MissingCapability
from linspec.rows import Passes
from linspec_kernel.certificate import functions, residuals
from linspec_kernel.moments import Nystrom
from linspec_kernel.problem import KernelCCA

RBF = ls.kernels.rbf(factor=0.5)
SOLVERS = ("kcca", "nystrom-kcca", "nystrom-lobpcg")


def views(n=200, p=6, q=5, seed=0):
    return related(n, p, q, seed)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("center", [True, False])
def test_with_the_linear_kernel_it_is_cca(solver, center):
    X, Y = views()
    problem = KernelCCA(X, Y, 3, "linear", ridge=(0.5, 2.0), center=center)
    found = ls.solve(problem, solver, rng=0)
    expected = ls.solve(ls.CCA(X, Y, 3, ridge=(0.5, 2.0), center=center), "direct")
    np.testing.assert_allclose(found.correlations, expected.correlations, rtol=0, atol=1e-10)
    signs = np.sign(np.sum(found.transform(X) * expected.transform(X), axis=0))
    np.testing.assert_allclose(found.transform(X), expected.transform(X) * signs, atol=1e-8)


def test_half_way_between_two_pairs_the_bound_is_the_distance():
    """A symmetric matrix with eigenvalues a and b: half-way the residual is as long as the distance to either."""
    X, Y = views()
    problem = KernelCCA(X, Y, 2, "linear", ridge=0.5)
    exact = ls.solve(ls.CCA(X, Y, 2, ridge=0.5), "direct")
    halves = []
    for A, W in ((X, exact.x_weights), (Y, exact.y_weights)):
        A = A - A.mean(axis=0)
        halves.append(np.linalg.lstsq(A.T, (W[:, :1] + W[:, 1:]) / np.sqrt(2), rcond=None)[0])
    moments = problem.moments_of_its_own(Passes())
    moments.settle()
    rows = np.arange(len(X))
    moments.nearest = [
        Nystrom(op, r, rows, 0) for op, r in zip(moments.operators, moments.ridges, strict=True)
    ]
    x, y = (functions(op, a) for op, a in zip(moments.operators, halves, strict=True))
    rho = exact.correlations.mean(keepdims=True)
    bounds = np.sqrt(residuals(x, y, rho, moments)[0] / 2)
    distance = np.ptp(exact.correlations) / 2
    assert distance > 1e-3
    np.testing.assert_allclose(bounds, [distance], rtol=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
def test_with_a_polynomial_kernel_it_is_cca_of_the_monomials(solver):
    X, Y = views()

    def monomials(A):
        pairs = itertools.combinations(range(A.shape[1]), 2)
        crossed = [np.sqrt(2) * A[:, i] * A[:, j] for i, j in pairs]
        return np.column_stack([np.ones(len(A)), np.sqrt(2) * A, A**2, *crossed])

    problem = KernelCCA(X, Y, 4, ls.kernels.polynomial(2, 1.0, 1.0), ridge=3.0)
    found = ls.solve(problem, solver, rng=0)
    expected = ls.solve(ls.CCA(monomials(X), monomials(Y), 4, ridge=3.0), "direct")
    np.testing.assert_allclose(found.correlations, expected.correlations, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kernel", [RBF, ls.kernels.laplacian()], ids=["rbf", "laplacian"])
@pytest.mark.slow(keep=1)
def test_all_landmarks_and_the_preconditioner_give_the_answer_of_the_eigenvectors(kernel):
    problem = KernelCCA(*views(300), 5, kernel, ridge=0.05)
    exact = ls.solve(problem, "kcca", rng=0).correlations
    every = ls.solve(problem, "nystrom-kcca", rng=0, landmarks=300)
    np.testing.assert_allclose(every.correlations, exact, rtol=0, atol=1e-10)
    for options in (
        {"landmarks": 60},
        {"landmarks": 60, "storage": "tiled"},
    ):
        found = ls.solve(problem, "nystrom-lobpcg", rng=0, tol=1e-16, extra=10, **options)
        assert found.iterations > 1
        np.testing.assert_allclose(found.correlations, exact, rtol=0, atol=1e-10)


def exact(X, Y, kernel, ridge):
    """All correlations, and the function that computes ΣRᵀK(K + r)⁻¹R / Σρ of an answer, from the kernel matrices."""
    K = [np.asarray(kernel_matrix(kernel, A), float) for A in (X, Y)]
    K = [M - M.mean(axis=0) - M.mean(axis=1)[:, None] + M.mean() for M in K]
    split = [np.linalg.eigh(M) for M in K]
    roots = [(U * np.sqrt(np.maximum(w, 0) / (np.maximum(w, 0) + ridge))) @ U.T for w, U in split]

    def law(found):
        pair = [W - W.mean(axis=0) for W in (found.x_dual, found.y_dual)]
        images = [M @ W for M, W in zip(K, pair, strict=True)]
        rho = found.correlations
        gaps = [images[1 - i] - rho * (images[i] + ridge * pair[i]) for i in (0, 1)]
        return sum(np.sum((root @ R) ** 2) for root, R in zip(roots, gaps, strict=True)) / rho.sum()

    return np.linalg.svd(roots[0] @ roots[1], compute_uv=False), law


@pytest.mark.slow
def test_the_law_is_above_the_exact_norm_and_near_it_and_bounds_hold():
    """On answers of the iteration that was cut short, whatever the kernel and the ridge."""
    ratios = []
    for seed, ridge in itertools.product(range(5), (0.01, 0.1, 1.0)):
        X, Y = views(120, seed=seed)
        correlations, law = exact(X, Y, RBF, ridge)
        for passes, landmarks in itertools.product((7, 9), (20, 60)):
            problem = KernelCCA(X, Y, 3, RBF, ridge=ridge)
            found = ls.solve(
                problem, "nystrom-lobpcg", rng=seed, landmarks=landmarks, extra=4, max_passes=passes
            )
            rough = ls.solve(problem, "nystrom-kcca", rng=seed, landmarks=landmarks)
            for answer in (found, rough):
                nearest = np.abs(correlations[:, None] - answer.correlations).min(axis=0)
                assert np.all(nearest <= answer.bounds + 1e-12)
                assert np.all(answer.correlations <= correlations[:3] + 1e-12)
                assert answer.residual >= law(answer) * (1 - 1e-6) - 1e-20
            if found.residual > 1e-20:
                ratios.append(found.residual / law(found))
    assert len(ratios) > 20
    assert np.median(ratios) < 1.35
    assert max(ratios) < 1.6  # with 20 landmarks in the preconditioner


def test_landmarks_and_duals_are_two_forms_of_one_function():
    X, Y = views(150)
    new = views(40, seed=1)[0]
    found = ls.solve(KernelCCA(X, Y, 3, RBF, ridge=0.1), "nystrom-kcca", rng=0, landmarks=50)
    assert found.x_weights.shape == (50, 3)
    assert found.x_dual.shape == (150, 3)
    assert found.residual_kind == "bound"
    assert found.status is ls.Status.APPROXIMATE
    variates = found.transform(X)
    np.testing.assert_allclose(variates.mean(axis=0), 0, atol=1e-12)
    op = ls.KernelOperator(X, found.kernel_x)
    np.testing.assert_allclose(op.matmat(found.x_dual), variates, atol=1e-10)
    np.testing.assert_allclose(
        found.transform(new), op.cross(new).matmat(found.x_dual) - found.x_mean, atol=1e-10
    )


@pytest.mark.parametrize("solver", [*SOLVERS, "rff-kcca", "kernel-appgrad", "knoi"])
@pytest.mark.slow(keep=2)
def test_functions_hold_on_new_rows(solver):
    X, Y = views(600)
    train, test = slice(0, 400), slice(400, 600)
    found = ls.solve(KernelCCA(X[train], Y[train], 2, ls.kernels.rbf(), ridge=1.0), solver, rng=0)
    linear = ls.solve(ls.CCA(X[train], Y[train], 2, ridge=1.0))
    correlations, total = found.score(X[test], Y[test])
    assert found.kernel_x.scale == pytest.approx(3.6, abs=0.5)
    assert total > 1.2 > 1.1 * linear.score(X[test], Y[test])[1]  # the square is no linear relation
    assert np.all(correlations > 0.4)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_precomputed_kernel_takes_the_cross_kernel_of_new_rows(solver):
    X, Y = views(150)
    new = views(30, seed=1)
    kernels = [ls.KernelOperator(A, ls.kernels.rbf(2.0), center=False) for A in (X, Y)]
    given = [op.columns(range(150)) for op in kernels]
    crossed = [op.cross(A).dense() for op, A in zip(kernels, new, strict=True)]
    named = ls.solve(KernelCCA(X, Y, 2, ls.kernels.rbf(2.0), ridge=0.3), solver, rng=0)
    found = ls.solve(KernelCCA(*given, 2, "precomputed", ridge=0.3), solver, rng=0)
    np.testing.assert_allclose(found.correlations, named.correlations, atol=1e-9)
    for one, other in zip(found.transform(*crossed), named.transform(*new), strict=True):
        signs = np.sign(np.sum(one * other, axis=0))
        np.testing.assert_allclose(one, other * signs, atol=1e-6)


def test_what_cannot_be_solved_is_said():
    X, Y = views(60)
    with pytest.raises(InvalidProblem, match="every correlation is 1"):
        KernelCCA(X, Y, 2)
    with pytest.raises(InvalidProblem, match="k must be between 1 and 59 for 59 rows, centred"):
        KernelCCA(X, Y, 60, ridge=1.0)
    with pytest.raises(InvalidProblem, match="equally many rows"):
        KernelCCA(X, Y[:50], 2, ridge=1.0)
    with pytest.raises(InvalidProblem, match="kernel_y must be a kernel"):
        KernelCCA(X, Y, 2, kernel_y="gauss", ridge=1.0)
    with pytest.raises(InvalidProblem, match="n x n; got 60 x 6"):
        KernelCCA(X, Y, 2, "precomputed", ridge=1.0)
    with pytest.raises(InvalidProblem, match="k must be between 1 and"):
        ls.solve(KernelCCA(X, Y, 5, RBF, ridge=1.0), "nystrom-kcca", landmarks=4)
    with pytest.raises(InvalidProblem, match="k must be between 1 and 4"):
        ls.solve(KernelCCA(X, Y, 5, RBF, ridge=1.0), "rff-kcca", features=4)
    with pytest.raises(MissingCapability, match="kernels of differences"):
        ls.solve(KernelCCA(X, Y, 2, "polynomial", ridge=1.0), "rff-kcca")
    indefinite = lambda A, B: np.tanh(5 * A @ B.T - 1) ** 3  # noqa: E731
    for solver in ("kcca", "nystrom-kcca", "nystrom-lobpcg"):
        with pytest.raises(InvalidProblem, match="not positive semidefinite"):
            ls.solve(KernelCCA(X, Y, 2, indefinite, ridge=1.0), solver, rng=0)


def test_rff_says_that_it_has_no_residual():
    found = ls.solve(KernelCCA(*views(100), 2, RBF, ridge=1.0), "rff-kcca", rng=0)
    assert np.isnan(found.residual)
    assert found.residual_kind == "unavailable"
    assert not found.converged
    with pytest.raises(InvalidProblem, match="made of kernel functions"):
        _ = found.x_dual


@pytest.mark.slow
def test_the_flagship_is_right_where_it_iterates(monkeypatch):
    """Planted cases are small: with few landmarks and a narrow block they take iterations."""
    from linspec_kernel import moments, nystrom_lobpcg

    monkeypatch.setattr(nystrom_lobpcg, "default_landmarks", lambda n: n // 2)
    monkeypatch.setattr(moments, "PROBED", 20)
    X, Y = views(60)
    for kernel in (RBF, ls.kernels.laplacian(), ls.kernels.polynomial(2, 1.0, 0.2)):
        found = ls.solve(KernelCCA(X, Y, 3, kernel, ridge=0.6), "nystrom-lobpcg", rng=0, tol=1e-12)
        assert found.converged
        np.testing.assert_allclose(found.correlations, exact(X, Y, kernel, 0.6)[0][:3], atol=1e-6)


def test_iterates_are_scored_with_the_kernels_of_the_run():
    """More rows than a scale is taken from: each draw has its own."""
    X, Y = views(1100)
    problem = KernelCCA(X, Y, 2, "rbf", ridge=1.0)
    seen = []
    found = ls.solve(
        problem, "nystrom-lobpcg", rng=3, landmarks=50, extra=4, callback=lambda p: seen.append(p.current())
    )
    certificate = problem.certify(problem.moments_of_its_own(Passes()), seen[-1], 1e-6)
    assert certificate.fields["x_map"].kernel == found.kernel_x
    np.testing.assert_allclose(certificate.fields["correlations"], found.correlations, rtol=1e-12)
    assert certificate.residual == pytest.approx(found.residual, rel=0.5)  # other landmarks, another bound


@pytest.mark.parametrize("solver", SOLVERS)
def test_rows_that_are_all_far_apart_have_a_kernel_matrix_near_the_identity(solver):
    """All its eigenvalues are 1, but for the constant: all correlations are 1 / (1 + ridge), and none is missed."""
    rng = np.random.default_rng(0)
    X, Y = 3 * rng.standard_normal((300, 12)), 3 * rng.standard_normal((300, 9))
    kernel = ls.kernels.rbf(0.1)
    found = ls.solve(KernelCCA(X, Y, 2, kernel, kernel, ridge=1.0), solver, rng=0)
    np.testing.assert_allclose(found.correlations, [0.5, 0.5], atol=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("power", [-90, 90])
@pytest.mark.parametrize("kernel", [RBF, ls.kernels.laplacian()])
def test_float32_in_other_units_with_kernels_of_distances(kernel, power, solver):
    """Powers of two change no digit, and the median of the distances has the unit of the rows."""
    X, Y = (A.astype(np.float32) for A in views(60))
    unit = np.float32(2.0**power)
    pairs = (X * unit, Y * unit), (X.astype(float), Y.astype(float))
    found, wanted = (ls.solve(KernelCCA(*pair, 2, kernel, ridge=1e-2), solver, rng=0) for pair in pairs)
    np.testing.assert_allclose(found.correlations, wanted.correlations, atol=1e-6)


@pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")
@pytest.mark.parametrize("ridge", [1e-4, 1e-2, 1.0])
@pytest.mark.parametrize("seed", range(6))
def test_functions_between_ridge_and_rounding_are_found_or_said_to_be_missing(seed, ridge):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((17, 2)).astype(np.float32)
    X[0] *= 30
    Y = np.column_stack([X[:, 0], rng.standard_normal(17)]).astype(np.float32)
    given = {"kernel_x": ls.kernels.polynomial(degree=3, offset=1.0), "ridge": ridge}
    exact = ls.solve(KernelCCA(X.astype(float), Y.astype(float), 4, **given), "kcca")
    found = ls.solve(KernelCCA(X, Y, 4, **given), "kcca")
    assert exact.converged
    missing = exact.correlations[len(found.correlations) :]
    assert not found.converged or missing.max(initial=0.0) < 0.02


@pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")
@pytest.mark.parametrize("ridge", [1e-3, 1e-2, 0.1])
@pytest.mark.parametrize("seed", range(20))
def test_pairs_in_the_rounding_of_float32_are_found_or_said_to_be_missing(seed, ridge):
    """A wide Gaussian kernel has eigenvalues that fall fast; the exact correlations come from the definition."""
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((9, 1)).astype(np.float32), rng.standard_normal((9, 3)).astype(np.float32)
    Y[:, 0] += X[:, 0]
    found = ls.solve(KernelCCA(X, Y, 5, ls.kernels.rbf(3.0), ridge=ridge), "kcca")
    roots, centring = [], np.eye(9) - 1 / 9
    for A in (X.astype(float), Y.astype(float)):
        K = centring @ np.exp(-np.sum((A[:, None] - A) ** 2, axis=2) / 18) @ centring
        w, U = np.linalg.eigh(K)
        w = np.maximum(w, 0.0)
        roots.append((U * np.sqrt(w / (w + ridge))) @ U.T)
    exact = np.linalg.svd(roots[0] @ roots[1], compute_uv=False)[:5].sum()
    assert not found.converged or found.correlations.sum() >= 0.999 * exact


@pytest.mark.parametrize("seed", range(4))
def test_an_iteration_estimates_what_close_correlations_hide(seed):
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((25, 1)) @ np.ones((1, 2)), rng.standard_normal((25, 2))
    problem = KernelCCA(X, Y, 5, "laplacian", ridge=2.5e-5)  # correlations that differ by 1e-5
    exact = ls.solve(problem, "kcca").correlations.sum()
    found = ls.solve(problem, "kernel-appgrad", rng=seed)
    loss = 1 - found.correlations.sum() / exact
    assert loss > 10 * found.residual
    assert found.status is ls.Status.CLUSTERED
    assert loss <= found.loss_estimate <= 20 * loss


@pytest.mark.parametrize("seed", range(4))
def test_a_correlation_that_the_landmarks_do_not_show_is_found(seed):
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((42, 1)), rng.standard_normal((42, 1))
    Y[7] *= 1e10  # the kernel of Y is a peak at this row: one pair has nearly all
    far = ls.kernels.laplacian(float(abs(Y[7, 0])))
    problem = KernelCCA(X, Y, 2, "laplacian", ridge=(13.0, 0.84), kernel_y=far)
    exact = ls.solve(problem, "kcca").correlations
    found = ls.solve(problem, "nystrom-lobpcg", rng=seed)
    assert exact[1] < 2e-4 * exact[0]
    np.testing.assert_allclose(found.correlations, exact, atol=1e-5 * exact.sum())


@pytest.mark.parametrize("solver", ["kcca", "nystrom-lobpcg", "kernel-appgrad"])
def test_coefficients_have_no_part_that_the_kernel_annihilates(solver):
    """Eight different rows make a matrix of rank seven: the equations of a pair determine the rest of a and b."""
    rng = np.random.default_rng(0)
    X, Y = (np.asarray(rng.random((43, p)) < 0.5, dtype=float) for p in (4, 3))
    X[:, 0] = Y[:, 0]
    found = ls.solve(KernelCCA(X, Y, 2, RBF, ridge=2.0), solver, rng=0)
    K = [ls.KernelOperator(A, RBF).dense() for A in (X, Y)]
    a, b = found.x_weights, found.y_weights
    np.testing.assert_allclose(K[1] @ b, found.correlations * (K[0] @ a + 2 * a), atol=2e-3)
    np.testing.assert_allclose(K[0] @ a, found.correlations * (K[1] @ b + 2 * b), atol=2e-3)


@pytest.mark.parametrize(("solver", "most"), [("rff-kcca", 3), ("nystrom-kcca", 6)])
def test_features_are_read_as_rows_by_the_solver_of_their_cca(solver, most):
    """Once, and once for means and for the certificate: products with unit columns would read them fifty times."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((2, 400, 6))
    Y[:, 0] = X[:, 0] ** 2
    found = ls.solve(ls.KernelCCA(X, Y, 2, ridge=1.0), solver, rng=0)
    assert found.passes <= most


@pytest.mark.parametrize("solver", ["kernel-appgrad", "kcca", "nystrom-lobpcg"])
@pytest.mark.parametrize("seed", range(3))
def test_functions_of_narrow_rows_are_of_unit_length(solver, seed):
    """Kernel functions of one column are nearly dependent, and those of many columns of a block cancel."""
    rng, scale, ridge = np.random.default_rng(seed), 1.0, 0.1
    x = rng.uniform(-0.7, 0.7, (30, 1)).astype(np.float32)
    y = np.hstack([np.sin(4 * x), rng.standard_normal((30, 5))]).astype(np.float32)
    kernel = ls.kernels.rbf(scale)
    problem = ls.get_problem("kernel-cca")(y, x, 1, kernel, kernel, ridge=ridge, center=False)
    found = ls.solve(problem, solver, rng=0)
    for A, a in ((y, found.x_weights), (x, found.y_weights)):
        A, a = A.astype(np.float64), np.asarray(a, dtype=np.float64)
        K = np.exp(-((A[:, None] - A[None]) ** 2).sum(axis=2) / (2 * scale**2))
        assert abs((a.T @ K @ (K @ a + ridge * a)).item() - 1) < 1e-4
