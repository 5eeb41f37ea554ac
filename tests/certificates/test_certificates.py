"""Claims of certificates against errors in long double and dense algebra: never ten times too small, nor too large."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import scipy.spatial
from in_blocks import rows_of
from planted import Case, orthonormal
from truths import adjusted, extended, svd, truth_of

import linspec as ls
from linspec.arrays import HOST
from linspec.certificates import Metric, NearDiagonal, Preconditioned, certify_linear
from linspec.certificates.metric import SKETCH_ROWS
from linspec.linalg import cg_steps, driven
from linspec.rows import Moments, Preprocessing

rng = np.random.default_rng(5)
n = 300
grid = np.linspace(0, 1, n)


def spectrum(values: Any) -> Any:
    return orthonormal(rng, n, len(values)) * values @ orthonormal(rng, len(values), len(values)).T


near = rng.standard_normal((n, 6))
near[:, 1] = near[:, 0] + 1e-6 * rng.standard_normal(n)
same = rng.standard_normal((n, 6))
same[:, 4] = 2 * same[:, 1]
MATRICES = {
    "gauss": rng.standard_normal((n, 8)),
    "vandermonde": np.vander(grid, 8),
    "graded columns": rng.standard_normal((n, 8)) * np.logspace(0, -10, 8),
    "graded spectrum": spectrum(np.logspace(0, -5, 10)),
    "one tiny": spectrum(np.append(np.ones(9), 1e-6)),
    "near columns": near,
    "sparse": scipy.sparse.random_array((n, 20), density=0.2, rng=rng, format="csr"),
    "dependent columns": same,
}


def exact(A: Any, b: Any, ridge: float) -> Any:
    """The solution by singular values in long double."""
    p = A.shape[1]
    U, s, V = svd(extended(np.vstack([A, np.sqrt(ridge) * np.eye(p)])))
    return V @ (U.T @ extended(np.vstack([b, np.zeros((p, b.shape[1]))])) / s[:, None])


def judged(A: Any, b: Any, x: Any, ridge: float = 0.0, *, held: bool = False, **asked: Any) -> Any:
    pre = Preprocessing.of(**asked)
    moments = Moments([rows_of(A), rows_of(b)], pre, sketch_rows=0 if held else SKETCH_ROWS * A.shape[1])
    if held:
        moments.gram()
    return certify_linear(moments, x, ridge)


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("noise", [0.0, 1.0])
@pytest.mark.parametrize("name", MATRICES)
def test_claims_are_not_too_small(name: str, noise: float, *, held: bool) -> None:
    A = MATRICES[name]
    dense = A.toarray() if scipy.sparse.issparse(A) else A
    b = dense @ rng.standard_normal((dense.shape[1], 2)) + noise * rng.standard_normal((n, 2))
    if name == "dependent columns":
        x = truth = np.linalg.pinv(dense) @ b
    else:
        truth = exact(dense, b, 0.0)
        x = truth.astype(float)
    Vt = np.linalg.svd(dense, full_matrices=False)[2]
    answers = {"right": x, "along the shortest": x + Vt[-1][:, None] * np.linalg.norm(x, axis=0)}
    answers |= {
        f"noise {size}": x * (1 + size * rng.standard_normal(x.shape)) for size in (1e-12, 1e-6, 1e-2)
    }
    steps = driven(lambda V: dense.T @ (dense @ V), cg_steps(dense.T @ b))
    answers |= {f"{i} steps": step.X()[0] for i, step in zip(range(8), steps, strict=False) if i % 3 == 1}
    for what, answer in answers.items():
        found = judged(A, b, answer, held=held)
        error = (answer - truth).astype(float)
        off = np.linalg.norm(error, axis=0) / np.linalg.norm(x, axis=0)
        fitted = np.linalg.norm(dense @ error, axis=0) / np.linalg.norm(b, axis=0)
        assert off.max() <= 10 * found.coefficients + 1e-13, what
        assert fitted.max() <= 10 * found.fitted + 1e-15, what
        if off.max() > 0.1:
            assert found.status not in {"CONVERGED", "RANK_DEFICIENT"} or found.share < 0.01, what
    assert judged(A, b, x, held=held).status == (
        "RANK_DEFICIENT" if name == "dependent columns" else "CONVERGED"
    )


def test_claims_with_preprocessing_and_a_ridge() -> None:
    A, b = near * 3 + 7, near @ rng.standard_normal((6, 2)) + rng.standard_normal((n, 2)) - 2
    w, Z = 3 * rng.random(n), np.column_stack([grid, grid**2])
    left, right = (adjusted(extended(M), w, extended(Z), center=True, scale=True).entries for M in (A, b))
    for ridge in (0.0, 1e-3, 10.0):
        truth = exact(left, right, ridge).astype(float)
        asked = {"center": True, "weights": w, "confounds": Z, "scale": True}
        assert judged(A, b, truth, ridge, **asked).status == "CONVERGED"
        short = np.array([1.0, -1, 0, 0, 0, 0])[:, None] / 10
        wrong = judged(A, b, truth + short * np.linalg.norm(truth, axis=0), ridge, **asked)
        assert wrong.status != "CONVERGED"
        assert wrong.coefficients > 0.03


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("share", [1.0, 1e3, 1e4])
def test_residuals_beside_confounds_that_explain_nearly_all(share: float, *, center: bool) -> None:
    w, Z = 1 + rng.random(n), np.column_stack([np.sin(9 * grid), grid**2 - 0.4])
    A, b = spectrum(np.logspace(0, -2, 4)), rng.standard_normal((n, 2))
    A, b = A + share * Z @ rng.standard_normal((2, 4)), b + share * Z @ rng.standard_normal((2, 2))
    left, right = (adjusted(extended(M), w, extended(Z), center=center).entries for M in (A, b))
    truth = exact(left, right, 0.0).astype(float)
    for size in (1e-8, 1e-6):
        x = truth * (1 + size * rng.standard_normal(truth.shape))
        gap, scale = left.T @ (right - left @ x), left.T @ right
        wanted = float(
            np.max(np.linalg.norm(gap.astype(float), axis=0) / np.linalg.norm(scale.astype(float), axis=0))
        )
        moments = Moments([rows_of(A), rows_of(b)], Preprocessing.of(weights=w, confounds=Z, center=center))
        moments.fit()  # as the passes of a solver do
        found = certify_linear(moments, x)
        assert found.residual == pytest.approx(wanted, rel=1e-2)


def test_the_share_bounds_every_coefficient_in_its_standard_errors() -> None:
    A = MATRICES["graded spectrum"]
    b = A @ np.ones((10, 1)) + 0.1 * rng.standard_normal((n, 1))
    truth = exact(A, b, 0.0).astype(float)
    sigma = np.linalg.norm(b - A @ truth) / np.sqrt(n - 10)
    errors = sigma * np.sqrt(np.diag(np.linalg.inv(A.T @ A)))[:, None]
    for size in (1e-9, 1e-6, 1e-3):
        x = truth + size * rng.standard_normal(truth.shape)
        assert (np.abs(x - truth) / errors).max() <= judged(A, b, x).share


def test_words_and_ranks() -> None:
    A, b = MATRICES["gauss"], rng.standard_normal((n, 1))
    right = judged(A, b, exact(A, b, 0.0).astype(float))
    assert right.words.startswith("fitted values: about 15 digits; coefficients: about 1")
    assert judged(MATRICES["one tiny"], b, np.ones((10, 1))).status == "INACCURATE"
    assert judged(same, b, np.linalg.pinv(same) @ b).rank == 5


P = 30


@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_lengths_solutions_and_coordinates_are_those_of_dense_matrices(ridge):
    d = rng.uniform(1, 50, P)
    L = orthonormal(rng, P, 2) * [0.99, 0.5] * np.sqrt(d)[:, None]  # D - L Lᵀ is positive definite
    S = np.diag(d) - L @ L.T + ridge * np.eye(P)
    metric, g = NearDiagonal.of_thin(d, L, ridge, 2.0**-52), rng.standard_normal((P, 4))
    exact = np.linalg.solve(S, g)
    np.testing.assert_allclose(metric.solve(g), exact, rtol=1e-9)
    np.testing.assert_allclose(metric.lengths(g) ** 2, np.sum(g * exact, axis=0), rtol=1e-9)
    np.testing.assert_allclose(metric.N @ metric.N.T, np.linalg.inv(S), atol=1e-9)
    np.testing.assert_allclose(metric.lift(metric.coordinates(g)), g, atol=1e-9)
    np.testing.assert_allclose(
        np.sum(metric.coordinates(g) ** 2, axis=0), np.sum(g * (S @ g), axis=0), rtol=1e-9
    )
    dense = Metric.of_gram(np.diag(d) - L @ L.T, ridge, 2.0**-52)
    assert metric.rank == dense.rank == P
    assert metric.reach >= np.linalg.norm(metric.N, 2) * (1 - 1e-12)


def test_ones_are_null_in_centred_indicators_and_so_are_columns_never_met():
    """All indicators of a category add up to 1, which centring takes away."""
    codes = rng.integers(0, P - 2, 500)
    X = np.eye(P)[codes]
    mean = X.mean(axis=0)
    metric = NearDiagonal.of_thin(np.sum(X**2, axis=0), np.sqrt(500) * mean[:, None], 0.0, 2.0**-52)
    S = (X - mean).T @ (X - mean)
    assert metric.rank == np.linalg.matrix_rank(S) == P - 3
    null = np.append(np.ones(P - 2), [0, 0]) / np.sqrt(P - 2)
    np.testing.assert_allclose(np.abs(null @ metric.null), 1.0, rtol=1e-12)
    g = S @ rng.standard_normal((P, 3))
    exact = np.sum(g * (np.linalg.pinv(S) @ g), axis=0)
    np.testing.assert_allclose(metric.lengths(g) ** 2, exact, rtol=1e-9)


def test_the_norm_of_a_preconditioner():
    F, E = rng.standard_normal((P, 3)) * 5, rng.uniform(1, 2, P)
    T = F @ F.T + np.diag(E)
    values, vectors = np.linalg.eigh(F.T @ (F / E[:, None]))
    L = F @ (vectors / np.sqrt(1 + values)) / E[:, None]
    metric, g = Preconditioned(1 / E, L, HOST), rng.standard_normal((P, 4))
    np.testing.assert_allclose(metric.solve(g), np.linalg.solve(T, g), rtol=1e-8)
    np.testing.assert_allclose(metric.lengths(g) ** 2, np.sum(g * np.linalg.solve(T, g), axis=0), rtol=1e-8)
    assert metric.source == "preconditioned"


# ---- digits that answers claim ------------------------------------------------------------------

drawn = np.random.default_rng(11)
X = drawn.standard_normal((200, 6)) * [3, 2, 1, 1, 0.3, 0.1]
CLASSES = drawn.integers(0, 4, 200)
X[:, :2] += CLASSES[:, None]
Y = X[:, :3] + drawn.standard_normal((200, 3))


def kernel_correlations(ridge: float) -> Any:
    halves = []
    for Z in (X, Y):
        K = np.exp(-0.5 * scipy.spatial.distance.cdist(Z, Z, "sqeuclidean"))
        K = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
        s, U = np.linalg.eigh(K)
        halves.append(U * np.sqrt(np.maximum(s, 0.0) / (np.maximum(s, 0.0) + ridge)))
    return np.linalg.svd(halves[0].T @ halves[1], compute_uv=False)


CLAIMED: dict[str, tuple[Any, Any]] = {
    "correlations": (
        ls.KernelCCA(X, Y, 2, kernel_x=ls.kernels.RBF(1.0), kernel_y=ls.kernels.RBF(1.0), ridge=1.0),
        kernel_correlations(1.0),
    ),
}


@pytest.mark.parametrize("what", CLAIMED)
def test_as_many_digits_are_right_as_an_answer_claims(what: str) -> None:
    (problem, exact), claims = CLAIMED[what], []
    for solver in ls.solvers(problem):
        known = {option.name for option in ls.describe(f"{problem.name}/{solver}").options or ()}
        for tol in (1e-2, 1e-4, 1e-8) if "tol" in known else (None,):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                answer = ls.solve(problem, solver, rng=0, **({} if tol is None else {"tol": tol}))
            values, claimed = (
                getattr(answer, what),
                re.match(rf"{what}: about (\d+) correct", answer.accuracy),
            )
            if claimed is not None:  # a sketch may have no residual
                assert answer.accuracy in repr(answer)
                claims.append(int(claimed[1]))
                nearest = np.min(np.abs(values[:, None] - exact) / values[:, None], axis=1)
                assert nearest.max() < 10.0 ** (1 - claims[-1])
    assert max(claims) >= 12


# ---- rounding of what is subtracted, and of tiles ---------------------------------------------------

KINDS = {"confounds": np.asarray, "means": scipy.sparse.csr_array}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("condition", [1e2, 1e4, 1e5])
@pytest.mark.parametrize("share", [1.0, 30.0, 1000.0])
def test_bounds_of_correlations_know_what_was_taken_out_of_squares(
    kind: str, condition: float, share: float
) -> None:
    """Confounds, or means of sparse columns, that are longer than what they leave, by `share`."""
    rng = np.random.default_rng(3)
    U = orthonormal(rng, n, 5)
    Z = rng.standard_normal((n, 1)) if kind == "confounds" else np.ones((n, 1))
    X = U[:, :4] * np.geomspace(1, 1 / condition, 4) @ orthonormal(rng, 4, 4).T
    X += min(share, 200.0 if kind == "means" else share) / condition * Z @ rng.standard_normal((1, 4))
    Y = U[:, 3:] + [0.05, 0.1] * rng.standard_normal((n, 2)) / 10
    given = {"center": True, "k": 1, **({"confounds": Z} if kind == "confounds" else {})}
    truth = truth_of(Case("cca", {"X": X, "Y": Y}, given))
    X, flagged = KINDS[kind](X), []
    for solver in ("gram", "als", "auto"):
        answer = ls.solve(ls.CCA(X, Y, **given), solver, rng=0)
        off = abs(float(answer.correlations[0] - truth.s[0]))
        flagged.append(answer.status is ls.Status.ILL_CONDITIONED)
        assert answer.bounds is None or off <= answer.bounds[0] + 1e-14
        assert off <= 1e-6 or flagged[-1]
    assert not flagged[-1] or share == 1000  # "auto" takes rows where squares do not do
    views = truth_of(Case("multiset-cca", {"X1": X if kind == "confounds" else X.toarray(), "X2": Y}, given))
    answer = ls.solve(ls.MultisetCCA([X, Y], **given), rng=0)
    off = abs(float(answer.eigenvalues[0] - views.s[0] ** 2))
    assert off <= 1e-5 or answer.status is ls.Status.ILL_CONDITIONED


@pytest.mark.parametrize("solver", ["kcca", "nystrom-lobpcg"])
def test_bounds_of_kernel_correlations_know_the_rounding_of_tiles(solver: str) -> None:
    """Coefficients are long where the ridge is small, and float32 tiles round what K annihilates of them."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        rows = np.float32(rng.standard_normal((30 + 5 * seed, 2)))
        rows[:, 1] += rows[:, 0] + 3
        given = {"k": 1, "kernel_x": ls.kernels.polynomial(1 + seed % 2, 0.5), "ridge": 1e-4 * len(rows)}
        exact = ls.solve(ls.KernelCCA(*np.float64(rows[:, :, None]).swapaxes(0, 1), **given), "kcca")
        answer = ls.solve(ls.KernelCCA(rows[:, :1], rows[:, 1:], **given), solver, rng=0)
        off = np.abs(answer.correlations - exact.correlations)
        assert (off <= answer.bounds).all()
        assert (answer.bounds < 1e-2).all()
