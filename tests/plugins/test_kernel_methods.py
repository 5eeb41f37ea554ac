"""Kernel CCA and kernel ridge regression: identities, peers, published iterates, bounds, hard numbers, and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from planted import Case, curved, related
from truths import kernel_matrix, truth_of

import linspec as ls
from linspec import Status
from linspec.errors import InvalidOption, InvalidProblem, NonFiniteData
from linspec.rows import Passes
from linspec_kernel.certificate import functions, residuals
from linspec_kernel.knoi import SeededFourierMap
from linspec_kernel.moments import Nystrom
from linspec_kernel.problem import KernelCCA
from linspec_kernel.ridge.problem import KernelRidge

RBF, QUADRATIC = ls.kernels.rbf(factor=0.5), ls.kernels.polynomial(2, 1.0, 0.2)
SOLVERS = ("kcca", "nystrom-kcca", "nystrom-lobpcg")

each_solver = pytest.mark.parametrize("solver", SOLVERS)
may_fall_short = pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")


def views(n=200, seed=0):
    return related(n, 6, 5, seed)


def exact(X, Y, kernel, ridge):
    """All correlations, from the kernel matrices."""
    given = {"k": 1, "kernel_x": kernel, "ridge": ridge}
    return truth_of(Case("kernel-cca", {"X": X, "Y": Y}, given)).s.astype(float)


@may_fall_short  # of a tolerance below rounding
@pytest.mark.parametrize("kernel", [RBF, ls.kernels.laplacian(), QUADRATIC])
@pytest.mark.slow(keep=1)
def test_all_landmarks_and_the_iterations_give_the_answer_of_the_kernel_matrices(kernel):
    problem = KernelCCA(*views(120), 3, kernel, ridge=0.5)
    wanted = exact(*views(120), kernel, 0.5)[:3]
    lobpcg = {"tol": 1e-16, "landmarks": 20, "extra": 5}
    for solver, options in (
        ("kcca", {}),
        ("nystrom-kcca", {"landmarks": 120}),
        *(("nystrom-lobpcg", {**lobpcg, "storage": form}) for form in ("held", "tiled")),
        *(("kernel-appgrad", {"tol": 1e-11, "storage": form}) for form in ("held", "tiled")),
    ):
        if (solver, kernel) == ("kernel-appgrad", QUADRATIC):
            continue  # of thousands of steps
        found = ls.solve(problem, solver, rng=0, **options)
        assert found.iterations > 1 or "storage" not in options
        np.testing.assert_allclose(found.correlations, wanted, rtol=0, atol=1e-9)


def test_landmarks_and_duals_are_two_forms_of_one_function():
    X, Y = views(150)
    new = views(40, seed=1)[0]
    found = ls.solve(KernelCCA(X, Y, 3, RBF, ridge=0.1), "nystrom-kcca", rng=0, landmarks=50)
    assert found.x_weights.shape == (50, 3)
    assert found.x_dual.shape == (150, 3)
    assert (found.residual_kind, found.status) == ("bound", ls.Status.APPROXIMATE)
    variates = found.transform(X)
    np.testing.assert_allclose(variates.mean(axis=0), 0, atol=1e-12)
    op = ls.KernelOperator(X, found.kernel_x)
    np.testing.assert_allclose(op.matmat(found.x_dual), variates, atol=1e-10)
    np.testing.assert_allclose(
        found.transform(new), op.cross(new).matmat(found.x_dual) - found.x_mean, atol=1e-10
    )


@each_solver
def test_a_precomputed_kernel_takes_the_cross_kernel_of_new_rows(solver):
    X, Y = views(150)
    new = views(30, seed=1)
    kernels = [ls.KernelOperator(A, ls.kernels.rbf(2.0), center=False) for A in (X, Y)]
    named = ls.solve(KernelCCA(X, Y, 2, ls.kernels.rbf(2.0), ridge=0.3), solver, rng=0)
    given = [op.columns(range(150)) for op in kernels]
    found = ls.solve(KernelCCA(*given, 2, "precomputed", ridge=0.3), solver, rng=0)
    np.testing.assert_allclose(found.correlations, named.correlations, atol=1e-9)
    crossed = [op.cross(A).dense() for op, A in zip(kernels, new, strict=True)]
    for one, other in zip(found.transform(*crossed), named.transform(*new), strict=True):
        np.testing.assert_allclose(one, other * np.sign(np.sum(one * other, axis=0)), atol=1e-6)


@each_solver
def test_rows_that_are_all_far_apart_have_a_kernel_matrix_near_the_identity(solver):
    """All its eigenvalues are 1, but for the constant: all correlations are 1 / (1 + ridge), and none is missed."""
    rng = np.random.default_rng(0)
    X, Y = 3 * rng.standard_normal((300, 12)), 3 * rng.standard_normal((300, 9))
    found = ls.solve(KernelCCA(X, Y, 2, ls.kernels.rbf(0.1), ridge=1.0), solver, rng=0)
    np.testing.assert_allclose(found.correlations, [0.5, 0.5], atol=1e-6)


@may_fall_short
@pytest.mark.parametrize("ridge", [1e-4, 1e-3, 1e-2, 0.1, 1.0])
@pytest.mark.parametrize("seed", range(8))
def test_pairs_in_the_rounding_of_float32_are_found_or_said_to_be_missing(seed, ridge):
    rng = np.random.default_rng(seed)
    far, x, y = rng.standard_normal((17, 2)), rng.standard_normal((9, 1)), rng.standard_normal((9, 3))
    far[0] *= 30
    beside = np.column_stack([far[:, 0], rng.standard_normal(17)])
    y[:, 0] += x[:, 0]
    wide = ls.kernels.rbf(3.0)  # has eigenvalues that fall fast
    for X, Y, kernel, k in ((far, beside, ls.kernels.polynomial(3, 1.0), 4), (x, y, wide, 5)):
        X, Y = X.astype(np.float32), Y.astype(np.float32)
        found = ls.solve(KernelCCA(X, Y, k, kernel, ridge=ridge), "kcca")
        wanted = exact(X, Y, kernel, ridge)[:k]
        assert not found.converged or wanted[len(found.correlations) :].max(initial=0.0) < 0.02
        if kernel is wide:
            assert not found.converged or found.correlations.sum() >= 0.999 * wanted.sum()


@pytest.mark.parametrize("seed", range(2))
def test_an_iteration_estimates_what_close_correlations_hide(seed):
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((25, 1)) @ np.ones((1, 2)), rng.standard_normal((25, 2))
    problem = KernelCCA(X, Y, 5, "laplacian", ridge=2.5e-5)  # correlations that differ by 1e-5
    total = ls.solve(problem, "kcca").correlations.sum()
    found = ls.solve(problem, "kernel-appgrad", rng=seed)
    loss = 1 - found.correlations.sum() / total
    assert loss > 10 * found.residual
    assert found.status is ls.Status.CLUSTERED
    assert loss <= found.loss_estimate <= 20 * loss


@pytest.mark.parametrize("seed", range(2))
def test_a_correlation_that_the_landmarks_do_not_show_is_found(seed):
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((42, 1)), rng.standard_normal((42, 1))
    Y[7] *= 1e10  # the kernel of Y is a peak at this row: one pair has nearly all
    far = ls.kernels.laplacian(float(abs(Y[7, 0])))
    problem = KernelCCA(X, Y, 2, "laplacian", ridge=(13.0, 0.84), kernel_y=far)
    wanted = ls.solve(problem, "kcca").correlations
    assert wanted[1] < 2e-4 * wanted[0]
    found = ls.solve(problem, "nystrom-lobpcg", rng=seed)
    np.testing.assert_allclose(found.correlations, wanted, atol=1e-5 * wanted.sum())


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


@pytest.mark.parametrize("solver", ["kernel-appgrad", "kcca", "nystrom-lobpcg"])
@pytest.mark.parametrize("seed", range(3))
def test_functions_of_narrow_rows_are_of_unit_length(solver, seed):
    """Kernel functions of one column are nearly dependent, and those of many columns of a block cancel."""
    rng, kernel, ridge = np.random.default_rng(seed), ls.kernels.rbf(1.0), 0.1
    x = rng.uniform(-0.7, 0.7, (30, 1)).astype(np.float32)
    y = np.hstack([np.sin(4 * x), rng.standard_normal((30, 5))]).astype(np.float32)
    found = ls.solve(KernelCCA(y, x, 1, kernel, ridge=ridge, center=False), solver, rng=0)
    for A, a in ((y, found.x_weights), (x, found.y_weights)):
        K, a = kernel_matrix(kernel, A.astype(float)), a.astype(float)
        assert abs((a.T @ K @ (K @ a + ridge * a)).item() - 1) < 1e-4


def test_half_way_between_two_pairs_the_bound_is_the_distance():
    """A symmetric matrix with eigenvalues a and b: half-way the residual is as long as the distance to either."""
    X, Y = views()
    problem = KernelCCA(X, Y, 2, "linear", ridge=0.5)
    pairs = ls.solve(ls.CCA(X, Y, 2, ridge=0.5), "direct")
    halves = []
    for A, W in ((X, pairs.x_weights), (Y, pairs.y_weights)):
        A = A - A.mean(axis=0)
        halves.append(np.linalg.lstsq(A.T, (W[:, :1] + W[:, 1:]) / np.sqrt(2), rcond=None)[0])
    moments = problem.moments_of_its_own(Passes())
    moments.fit()
    sides = list(zip(moments.operators, moments.ridges, strict=True))
    moments.nearest = [Nystrom(op, r, np.arange(len(X)), 0) for op, r in sides]
    x, y = (functions(op, a) for op, a in zip(moments.operators, halves, strict=True))
    bounds = np.sqrt(residuals(x, y, pairs.correlations.mean(keepdims=True), moments)[0] / 2)
    distance = np.ptp(pairs.correlations) / 2
    assert distance > 1e-3
    np.testing.assert_allclose(bounds, [distance], rtol=1e-6)


@pytest.mark.parametrize(("solver", "most"), [("rff-kcca", 3), ("nystrom-kcca", 6)])
def test_features_are_read_as_rows_by_the_solver_of_their_cca(solver, most):
    """Once, and once for means and for the certificate: products with unit columns would read them fifty times."""
    X, Y = np.random.default_rng(0).standard_normal((2, 400, 6))
    Y[:, 0] = X[:, 0] ** 2
    assert ls.solve(KernelCCA(X, Y, 2, ridge=1.0), solver, rng=0).passes <= most


def published(blocks, starts, metrics, step, *, steps):
    """Algorithm 4 of Ma, Lu & Foster (2015): the sum of the correlations within the blocks after each step."""

    def normalized(V, i):
        values, vectors = np.linalg.eigh(V.T @ metrics[i] @ V)
        return V @ (vectors / np.sqrt(values)) @ vectors.T

    (X, Y), tilde = blocks, [0 * V for V in starts]
    normal = [normalized(V, i) for i, V in enumerate(starts)]
    found = []
    for _ in range(steps):
        tilde[0] = tilde[0] - step * (metrics[0] @ tilde[0] - X.T @ (Y @ normal[1]))
        normal[0] = normalized(tilde[0], 0)
        tilde[1] = tilde[1] - step * (metrics[1] @ tilde[1] - Y.T @ (X @ normal[0]))
        normal[1] = normalized(tilde[1], 1)
        found.append(np.linalg.svd((X @ normal[0]).T @ (Y @ normal[1]), compute_uv=False).sum())
    return found


def test_iterates_of_appgrad_are_those_of_the_published_algorithm():
    """On the columns with the linear kernel."""
    blocks = [A - A.mean(axis=0) for A in related(120, 4, 3)]
    problem = KernelCCA(*blocks, 2, "linear", ridge=0.5)
    moments, seen = problem.moments_of_its_own(Passes()), []

    def watch(progress):
        seen.append(progress.current())
        return progress.iteration == 6

    options = {"rng": 0, "extra": 0, "step": 1e-4, "tol": 1e-30}
    ls.solve(problem, "kernel-appgrad", callback=watch, **options)
    sums = [problem.certify(moments, now, 1e-6).fields["correlations"].sum() for now in seen[1:]]
    starts = [A.T @ seen[0][name] for A, name in zip(blocks, ("x_weights", "y_weights"), strict=True)]
    metrics = [A.T @ A + 0.5 * np.eye(A.shape[1]) for A in blocks]
    signed = [published(blocks, [starts[0], sign * starts[1]], metrics, 1e-4, steps=6) for sign in (1, -1)]
    assert min(np.abs(np.subtract(sums, expected)).max() for expected in signed) < 1e-8


@may_fall_short
def test_the_residual_of_a_step_is_above_the_law_and_a_step_beyond_stability_is_not_taken():
    """It comes from a product that is one iteration old, by Jensen's inequality; the certificate's bound is tighter."""
    problem = KernelCCA(*related(120, 4, 3), 3, ls.kernels.rbf(), ridge=0.5)
    for limit in (10, 30, 50):
        options = {"rng": 0, "tol": 1e-12, "max_iterations": limit}
        found, wild = (ls.solve(problem, "kernel-appgrad", **options, **step) for step in ({}, {"step": 1e9}))
        assert found.residual < 1.2 * found.history["residual"][-1] < 4 * found.residual
        np.testing.assert_allclose(wild.correlations, found.correlations, atol=1e-12)


@pytest.mark.parametrize("kernel", [ls.kernels.rbf(2.0), ls.kernels.laplacian(4.0)], ids=["rbf", "laplacian"])
def test_inner_products_of_features_drawn_anew_are_the_kernel(kernel):
    X = views(30)[0]
    F = SeededFourierMap(kernel, 6, 100_000, seed=3)(X).dense()
    np.testing.assert_allclose(F @ F.T, kernel_matrix(kernel, X), atol=0.02)  # five standard deviations


@pytest.mark.parametrize("options", [{}, {"center": False}, {"memory": 0.5}, {"momentum": 0.0}, {"n": 2000}])
@pytest.mark.slow(keep=2)
def test_knoi_tends_to_the_exact_cca_of_its_features_and_minibatches_come_near(options):
    center, n = options.get("center", True), options.get("n", 200)
    X, Y = views(n)
    problem = KernelCCA(X, Y, 2, ls.kernels.rbf(2.0), ridge=1.0, center=center)
    given = {name: value for name, value in options.items() if name in ("memory", "momentum")}
    given |= {"features": 40, "batch": 200, "epochs": 400} if n == 200 else {"features": 100}
    found = ls.solve(problem, "knoi", rng=0, **given)
    features = found.x_map.map(X), found.y_map.map(Y)
    wanted = ls.solve(ls.CCA(*features, 2, ridge=1.0, center=center), "direct").correlations
    assert np.all(found.correlations <= wanted + 1e-12)
    if n == 200:
        np.testing.assert_allclose(found.correlations, wanted, rtol=0, atol=1e-3)
    assert found.correlations.sum() > 0.97 * wanted.sum()


@pytest.mark.parametrize("solver", ["rff-kcca", "knoi"])
def test_solvers_with_random_features_have_no_residual_and_no_dual(solver):
    found = ls.solve(KernelCCA(*views(100), 2, RBF, ridge=1.0), solver, rng=0)
    assert np.isnan(found.residual)
    assert (found.residual_kind, found.status) == ("unavailable", ls.Status.APPROXIMATE)
    assert not found.converged
    with pytest.raises(InvalidProblem, match="made of kernel functions"):
        _ = found.x_dual


@may_fall_short
def test_knoi_says_where_steps_were_too_long_and_features_too_few():
    X, Y = views()
    options = {"features": 40, "step": 1e30, "epochs": 50, "batch": 20}
    wild = ls.solve(KernelCCA(X, Y, 2, RBF, ridge=1.0), "knoi", rng=0, **options)
    assert wild.status is ls.Status.BREAKDOWN
    assert np.isfinite(wild.x_weights).all()
    found = ls.solve(KernelCCA(X, Y, 5, RBF, ridge=1.0), "knoi", rng=0, features=4)
    assert len(found.correlations) == 4
    assert found.status is ls.Status.RANK_DEFICIENT


ITERATIONS = {
    "kernel-appgrad": {"max_iterations": 12},
    "nystrom-lobpcg": {"landmarks": 20, "extra": 3, "tol": 1e-9},
    "knoi": {"features": 30, "batch": 60, "epochs": 7},
}


@may_fall_short
@pytest.mark.parametrize("solver", [*ITERATIONS, "nystrom-pcg"])
def test_scales_from_rows_that_were_drawn_stay(solver, tmp_path):
    X, Y = views(1200)  # more rows than a scale is taken from
    problem = KernelCCA(X, Y, 2, "rbf", kernel_y="laplacian", ridge=(1.0, 2.0))
    names, options = ("kernel_x", "kernel_y"), ITERATIONS.get(solver, {"landmarks": 20})
    if solver == "nystrom-pcg":
        problem, names = ls.KernelRidge(X, Y, 1e-4, "rbf"), ("kernel",)
    cut = {"checkpoint": tmp_path / "run.ckpt", "callback": lambda progress: progress.iteration >= 1}
    first = ls.solve(problem, solver, rng=0, **cut, **options)
    found = ls.solve(problem, solver, rng=1, start=cut["checkpoint"], **options)
    assert [getattr(found, name) for name in names] == [getattr(first, name) for name in names]


REFUSED = [
    ({"ridge": 0.0}, "auto", {}, "every correlation is 1"),
    ({"k": 60}, "auto", {}, "k must be between 1 and 59 for 59 rows, centred"),
    ({"k": 5}, "nystrom-kcca", {"landmarks": 4}, "k must be between 1 and"),
    ({"k": 5}, "rff-kcca", {"features": 4}, "k must be between 1 and 4"),
    *(
        ({"kernel_x": lambda A, B: np.tanh(5 * A @ B.T - 1) ** 3}, s, {}, "not positive semi")
        for s in SOLVERS
    ),
]


@pytest.mark.parametrize(("given", "solver", "options", "words"), REFUSED)
def test_what_cannot_be_solved_is_said(given, solver, options, words):
    X, Y = views(60)
    with pytest.raises(InvalidProblem, match=words):
        ls.solve(KernelCCA(**{"X": X, "Y": Y, "k": 2, "ridge": 1.0, **given}), solver, rng=0, **options)


# ---- ridge -------------------------------------------------------------------------------------


RIDGE_RBF = ls.kernels.rbf(2.0)
each_ridge_solver = pytest.mark.parametrize("solver", ["direct", "nystrom-pcg"])


def data(n: int = 300, p: int = 4, m: int = 2, seed: int = 0) -> tuple[Any, Any]:
    return curved(n, p, m, seed)


@may_fall_short  # at 1e-13 only rounding is left
@each_ridge_solver
def test_it_is_the_kernel_ridge_of_scikit_learn(solver: str) -> None:
    peers = pytest.importorskip("sklearn.kernel_ridge")
    (X, Y), (Z, _) = data(), data(40, seed=1)
    w, kernel = np.random.default_rng(2).uniform(0.1, 3.0, len(X)), ls.kernels.polynomial(3, 1.5, 0.2)
    options = {"tol": 1e-13} if solver == "nystrom-pcg" else {}
    for ridge in (0.01, 3.0):
        peer = peers.KernelRidge(alpha=ridge, kernel="polynomial", degree=3, coef0=1.5, gamma=0.2)
        found = ls.solve(KernelRidge(X, Y, ridge, kernel, sample_weight=w), solver, rng=0, **options)
        right = peer.fit(X, Y, w).predict(Z)
        np.testing.assert_allclose(found.predict(Z), right, rtol=0, atol=1e-10 * np.abs(Y).max())


@each_ridge_solver
def test_weights_count_rows_in_the_scale_of_the_kernel_and_0_leaves_them_out(solver: str) -> None:
    X, Y = data()
    w = np.random.default_rng(3).integers(0, 4, len(X))
    weighted = ls.solve(KernelRidge(X, Y, 0.3, "rbf", sample_weight=w), solver, rng=0)
    often = [np.repeat(A, w, axis=0) for A in (X, Y)]
    assert weighted.kernel.scale == ls.solve(KernelRidge(*often, 0.3, "rbf"), solver, rng=0).kernel.scale
    assert np.all(weighted.dual[w == 0] == 0)


@pytest.mark.parametrize("center", [False, True])
def test_the_residual_is_that_of_the_returned_coefficients(center: bool) -> None:
    X, Y = data()
    w = np.random.default_rng(1).uniform(0.5, 2.0, len(X))
    problem = KernelRidge(X, Y, 0.5, RIDGE_RBF, center=center, sample_weight=w)
    b = np.random.default_rng(2).standard_normal((300, 2))
    certificate = problem.certify(problem.moments_of_its_own(Passes()), {"dual": b}, 1e-8)
    S, H = np.sqrt(w)[:, None], np.eye(300) - center * np.outer(np.ones(300), w / w.sum())
    M, T = S * (H @ kernel_matrix(RIDGE_RBF, X) @ H.T) * S.T, S * (H @ Y)
    own = certificate.fields["dual"] / S
    gaps = np.linalg.norm(T - M @ own - 0.5 * own, axis=0)
    assert certificate.residual == pytest.approx((gaps / np.linalg.norm(T, axis=0)).max(), rel=1e-9)
    np.testing.assert_allclose(certificate.fields["bounds"], gaps / (2 * np.sqrt(0.5)), rtol=1e-9)


@may_fall_short
@each_ridge_solver
def test_a_ridge_below_rounding_does_not_pass_for_an_answer(solver: str) -> None:
    """With twin rows that have other targets no function fits, and coefficients grow as 1/ridge."""
    X, Y = data(100)
    X, Y, kernel = np.vstack([X, X]), np.vstack([Y, Y + 1.0]), ls.kernels.rbf(0.5)
    K = kernel_matrix(kernel, X)
    for ridge in (1e-14, 1e-18, 1e-30):
        found = ls.solve(KernelRidge(X, Y, ridge, kernel), solver, rng=0)
        a, sizes = found.dual, np.linalg.norm(Y, axis=0)
        true = np.linalg.norm(Y - K @ a - ridge * a, axis=0) / sizes
        rounding = 1e-14 * np.linalg.norm(K, 2) * np.linalg.norm(a, axis=0) / sizes
        assert np.all(true <= found.residual * (1 + 1e-9) + rounding)
        assert not found.converged or found.residual <= 1e-8


def test_predictions_that_the_residual_does_not_show_are_a_finding() -> None:
    found = ls.solve(KernelRidge(*data(100), 1e-13, ls.kernels.rbf(0.3)), "nystrom-pcg", rng=0, tol=1e-2)
    assert found.residual <= 1e-2
    assert found.status is Status.ILL_CONDITIONED
    assert "Predictions at other rows may be wrong" in found.message


@may_fall_short
@pytest.mark.parametrize("seed", range(3))
def test_a_ridge_below_the_rounding_of_the_kernel_ends_as_a_status(seed: int) -> None:
    """In float32 the kernel matrix with so small a ridge is not positive, and conjugate gradients grow."""
    rng = np.random.default_rng(seed)
    X, Y = (rng.standard_normal((40, 4)).astype(np.float32) for _ in range(2))
    found = ls.solve(KernelRidge(X, Y, 1e-6, ls.kernels.polynomial(2, 1.0)), "nystrom-pcg", rng=0)
    assert not found.converged
    assert np.isfinite(found.dual).all()
    assert found.residual <= 1.0 + 1e-6


@each_ridge_solver
def test_constant_targets_need_no_coefficients(solver: str) -> None:
    X, _ = data()
    found = ls.solve(KernelRidge(X, np.full((300, 1), 0.1), 0.1, RIDGE_RBF, center=True), solver, rng=0)
    assert found.converged
    assert not found.dual.any()
    np.testing.assert_allclose(found.predict(X), 0.1, rtol=1e-12)


@each_ridge_solver
def test_a_kernel_that_is_not_positive_semidefinite_is_refused(solver: str) -> None:
    problem = KernelRidge(*data(60), 1e-6, lambda A, B: np.tanh(5 * A @ B.T - 1) ** 3)
    with pytest.raises(InvalidProblem, match="not positive semidefinite"):
        ls.solve(problem, solver, rng=0)


def test_folds_of_kernel_matrices_single_landmarks_and_entries_that_are_not_finite_are_refused() -> None:
    X0, Y0 = data(60)
    with pytest.raises(InvalidProblem, match="rows of a precomputed kernel cannot be held out"):
        ls.cross_validate(KernelRidge(X0 @ X0.T, Y0, 0.1, "precomputed"), ridges=[0.1, 1.0])
    with pytest.raises(InvalidOption, match="landmarks"):
        ls.solve(KernelRidge(X0, Y0, 1.0), "nystrom-pcg", landmarks=1)
    bad = np.where(np.arange(240).reshape(60, 4) == 29, np.nan, X0)
    for wrap in (np.asarray, scipy.sparse.csr_array):
        with pytest.raises(NonFiniteData, match="X must be finite; got nan at row 7, column 1"):
            ls.solve(KernelRidge(wrap(bad), Y0, 1.0, RIDGE_RBF), rng=0)
