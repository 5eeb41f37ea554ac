"""Kernel ridge regression: equality with peers, weights, the residual and its bounds, hard numbers, and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from planted import curved
from truths import kernel_matrix

import linspec as ls
from linspec import Status
from linspec.errors import InvalidOption, InvalidProblem, LinspecError, NonFiniteData
from linspec.rows import Passes
from linspec_kernel.ridge.problem import KernelRidge

RBF = ls.kernels.rbf(2.0)
each_solver = pytest.mark.parametrize("solver", ["direct", "nystrom-pcg"])
may_fall_short = pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")


def data(n: int = 300, p: int = 4, m: int = 2, seed: int = 0) -> tuple[Any, Any]:
    return curved(n, p, m, seed)


@may_fall_short  # at 1e-13 only rounding is left
@each_solver
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


@pytest.mark.parametrize("center", [False, True])
@each_solver
def test_a_weight_counts_rows_and_0_leaves_them_out(solver: str, center: bool) -> None:
    """Also if the scale of the kernel comes from the rows."""
    (X, Y), (Z, _) = data(), data(20, seed=1)
    w = np.random.default_rng(3).integers(0, 4, len(X))
    weighted = ls.solve(KernelRidge(X, Y, 0.3, "rbf", center=center, sample_weight=w), solver, rng=0)
    often = [np.repeat(A, w, axis=0) for A in (X, Y)]
    repeated = ls.solve(KernelRidge(*often, 0.3, "rbf", center=center), solver, rng=0)
    assert weighted.kernel.scale == repeated.kernel.scale
    reach = 2 * (weighted.bounds + repeated.bounds).max() + 1e-10
    np.testing.assert_allclose(weighted.predict(Z), repeated.predict(Z), rtol=0, atol=reach)
    assert np.all(weighted.dual[w == 0] == 0)
    assert (weighted.intercept is None) is not center


@pytest.mark.parametrize("center", [False, True])
def test_the_residual_is_that_of_the_returned_coefficients(center: bool) -> None:
    X, Y = data()
    w = np.random.default_rng(1).uniform(0.5, 2.0, len(X))
    problem = KernelRidge(X, Y, 0.5, RBF, center=center, sample_weight=w)
    b = np.random.default_rng(2).standard_normal((300, 2))
    certificate = problem.certify(problem.moments_of_its_own(Passes()), {"dual": b}, 1e-8)
    S, H = np.sqrt(w)[:, None], np.eye(300) - center * np.outer(np.ones(300), w / w.sum())
    M, T = S * (H @ kernel_matrix(RBF, X) @ H.T) * S.T, S * (H @ Y)
    own = certificate.fields["dual"] / S
    gaps = np.linalg.norm(T - M @ own - 0.5 * own, axis=0)
    assert certificate.residual == pytest.approx((gaps / np.linalg.norm(T, axis=0)).max(), rel=1e-9)
    np.testing.assert_allclose(certificate.fields["bounds"], gaps / (2 * np.sqrt(0.5)), rtol=1e-9)


@may_fall_short
@each_solver
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


@each_solver
def test_constant_targets_need_no_coefficients(solver: str) -> None:
    X, Y = data()
    still = np.column_stack([np.full(300, 0.1), Y[:, 0]])
    found = ls.solve(KernelRidge(X, still, 0.1, RBF, center=True), solver, rng=0)
    assert np.all(found.dual[:, 0] == 0)
    np.testing.assert_allclose(found.predict(X)[:, 0], 0.1, rtol=1e-12)
    nothing = ls.solve(KernelRidge(X, np.zeros((300, 1)), 0.1, RBF), solver, rng=0)
    assert nothing.converged
    assert not nothing.dual.any()


X0, Y0 = data(60)
REFUSED: list[tuple[dict[str, Any], type, str]] = [
    ({"kernel": lambda A, B: np.tanh(5 * A @ B.T - 1) ** 3}, InvalidProblem, "not positive semidefinite"),
    ({"X": iter([X0])}, LinspecError, "iterator"),
    ({"Y": iter([Y0])}, LinspecError, "iterator"),
    ({"sample_weight": np.zeros(60)}, InvalidProblem, "zeros only"),
]


@pytest.mark.parametrize(("given", "error", "words"), REFUSED)
@each_solver
def test_what_cannot_be_solved_is_said(solver: str, given: Any, error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        ls.solve(KernelRidge(**{"X": X0, "Y": Y0, "ridge": 1e-6, "kernel": RBF, **given}), solver, rng=0)


def test_folds_of_kernel_matrices_single_landmarks_and_entries_that_are_not_finite_are_refused() -> None:
    with pytest.raises(InvalidProblem, match="rows of a precomputed kernel cannot be held out"):
        ls.cross_validate(KernelRidge(X0 @ X0.T, Y0, 0.1, "precomputed"), ridges=[0.1, 1.0])
    with pytest.raises(InvalidOption, match="landmarks"):
        ls.solve(KernelRidge(X0, Y0, 1.0), "nystrom-pcg", landmarks=1)
    bad = np.where(np.arange(240).reshape(60, 4) == 29, np.nan, X0)
    for wrap in (np.asarray, scipy.sparse.csr_array):
        with pytest.raises(NonFiniteData, match="X must be finite; got nan at row 7, column 1"):
            ls.solve(KernelRidge(wrap(bad), Y0, 1.0, RBF), rng=0)
