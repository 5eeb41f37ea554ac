"""Scores of held-out rows from second moments: right, or flagged as rounding.

The truth is computed from the rows by hand, in long double: coefficients by orthonormalising the columns twice, and the
errors of the predictions row by row.
"""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec.errors import AccuracyWarning

N, FOLDS = 60, np.arange(60) % 4
LONG = np.longdouble
NOISES, MEANS = (1e-9, 1e-6, 1e-3, 1.0), (0.0, 1e4, 1e8)
CLOSE = 2e-3  # what is not flagged is right within twice the share that counts as rounding

pytestmark = pytest.mark.skipif(np.finfo(LONG).eps > 1e-18, reason="long double is double here")


def orthonormal(M: Any) -> Any:
    """An orthonormal basis of the columns, by Gram and Schmidt twice."""
    Q = np.zeros_like(M)
    for j in range(M.shape[1]):
        v = M[:, j].copy()
        for _ in range(3):
            v -= Q[:, :j] @ (Q[:, :j].T @ v)
        Q[:, j] = v / np.sqrt(np.sum(v * v))
    return Q


def coefficients(M: Any, b: Any) -> Any:
    """Least squares in long double: M x = Q Qᵀ b, R x = Qᵀ b, with two refinements."""
    Q = orthonormal(M)
    R, x = Q.T @ M, np.zeros((M.shape[1], b.shape[1]), LONG)
    for _ in range(3):
        y = Q.T @ (b - M @ x)
        for i in reversed(range(len(y))):
            y[i] = (y[i] - R[i, i + 1 :] @ y[i + 1 :]) / R[i, i]
        x = x + y
    return x


def by_hand(A: Any, B: Any, center: bool, w: Any, Z: Any) -> float:
    """The mean squared error of four folds: with weights, and the columns of confounds and of an intercept."""
    columns = [A, *([] if Z is None else [Z]), *([np.ones((N, 1))] if center else [])]
    M, b = np.hstack(columns).astype(LONG), np.reshape(B, (N, -1)).astype(LONG)
    if center:  # the intercept takes the shift; the answer is the same
        M[:, :-1] -= M[:, :-1].mean(axis=0)
    w = (np.ones(N) if w is None else w).astype(LONG)
    found = []
    for fold in range(4):
        fit, held = fold != FOLDS, fold == FOLDS
        root = np.sqrt(w[fit])[:, None]
        errors = b[held] - M[held] @ coefficients(M[fit] * root, b[fit] * root)
        found.append(np.sum(w[held, None] * errors**2) / (w[held].sum() * b.shape[1]))
    return float(np.mean(found))


def gcv_by_hand(A: Any, B: Any, center: bool) -> float:
    M, b = A.astype(LONG), np.reshape(B, (N, -1)).astype(LONG)
    if center:
        M, b = M - M.mean(axis=0), b - b.mean(axis=0)
    Q = orthonormal(M)
    rest = b - Q @ (Q.T @ b)
    rest = rest - Q @ (Q.T @ rest)
    return float(N * np.sum(rest**2) / (N - A.shape[1] - center) ** 2 / b.shape[1])


def weighted_gcv_by_hand(A: Any, B: Any, w: Any, Z: Any) -> float:
    """With an intercept: n is the sum of the weights; intercept and confounds take a degree of freedom each."""
    root = np.sqrt(w.astype(LONG))[:, None]
    taken = np.hstack([np.ones((N, 1)), *([] if Z is None else [Z])]).astype(LONG)
    Q = orthonormal(np.hstack([taken, A.astype(LONG) - A.mean(axis=0)]) * root)
    b = (np.reshape(B, (N, -1)).astype(LONG) - B.mean()) * root
    rest = b - Q @ (Q.T @ b)
    rest = rest - Q @ (Q.T @ rest)
    return float(w.sum() * np.sum(rest**2) / (w.sum() - Q.shape[1]) ** 2)


def planted(noise: float, mean: float, where: str, seed: int = 0) -> tuple[Any, Any]:
    """Rows of A with a column of ones, and right-hand sides with planted noise; a mean of A or of b."""
    rng = np.random.default_rng(seed)
    A = np.column_stack([rng.standard_normal((N, 3)), np.ones(N)])
    b = A @ [1.0, 2.0, 3.0, mean if where == "b" else 1.0] + noise * rng.standard_normal(N)
    if where == "A":
        A[:, :3] += mean
    return A, b


def scored(problem: Any, **options: Any) -> tuple[float, bool, Any]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = ls.cross_validate(problem, **options)
    flagged = bool(found.uncertain.any())
    assert flagged == any(issubclass(each.category, AccuracyWarning) for each in caught)
    return float(found.mean[0, 0]), flagged, found


def right_or_flagged(score: float, flagged: bool, truth: float) -> bool:
    return flagged or abs(score - truth) <= CLOSE * truth


@pytest.mark.parametrize(("noise", "mean", "where"), list(itertools.product(NOISES, MEANS, "Ab")))
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.slow(keep=12)
def test_errors_of_least_squares_are_right(noise: float, mean: float, where: str, center: bool) -> None:
    A, b = planted(noise, mean, where)
    A = A[:, :3] if center else A
    truth = by_hand(A, b, center, None, None)
    score, flagged, found = scored(ls.LeastSquares(A, b, center=center), splitter=FOLDS)
    assert right_or_flagged(score, flagged, truth)
    score, flagged, _ = scored(ls.LeastSquares(A, b, center=center), splitter=FOLDS, form="dense")
    assert right_or_flagged(score, flagged, truth)
    truth = gcv_by_hand(A, b, center)
    score, flagged, _ = scored(ls.LeastSquares(A, b, center=center), method="gcv")
    assert right_or_flagged(score, flagged, truth)
    if noise == 1.0 and mean <= 1e4:  # ordinary data cost one pass, and no warning
        assert found.passes == 1
        assert not flagged
        assert not found.uncertain.any()


@pytest.mark.parametrize(("noise", "mean"), [(1e-9, 0.0), (1e-6, 1e4), (1e-3, 1e4), (1e-3, 1e8), (1.0, 1e8)])
def test_large_means_of_right_hand_sides_and_small_noise_come_right(noise: float, mean: float) -> None:
    A, b = planted(noise, mean, "b")
    score, flagged, _ = scored(ls.LeastSquares(A, b), splitter=FOLDS)
    assert not flagged
    assert score == pytest.approx(by_hand(A, b, False, None, None), rel=CLOSE)
    score, flagged, _ = scored(ls.LeastSquares(A, b), method="gcv")
    assert not flagged
    assert score == pytest.approx(gcv_by_hand(A, b, False), rel=CLOSE)


@pytest.mark.parametrize(("noise", "mean"), list(itertools.product([1e-3, 1.0], MEANS)))
def test_means_of_any_size_that_are_subtracted_cost_no_digit(noise: float, mean: float) -> None:
    A, b = planted(noise, mean, "A")
    found = ls.cross_validate(ls.LeastSquares(A[:, :3], b, center=True), splitter=FOLDS)
    assert found.passes == 1
    assert not found.uncertain.any()
    assert found.mean[0, 0] == pytest.approx(by_hand(A[:, :3], b, True, None, None), rel=1e-7)


def in_files(A: Any, folder: Path) -> Any:
    np.save(folder / "rows.npy", A)
    return folder / "rows.npy"


KINDS: dict[str, Any] = {
    "array": lambda A, _: A,
    "sparse": lambda A, _: scipy.sparse.csr_array(A),
    "file": in_files,
    "slices": lambda A, _: ls.as_operator(lambda: (A[i : i + 13] for i in range(0, N, 13)), rows=N),
    "iterator": lambda A, _: iter([A[:20], A[20:]]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("beside", ["", "weights", "confounds", "both"])
@pytest.mark.parametrize(("noise", "mean"), [(1e-9, 0.0), (1e-6, 1e4), (1.0, 1e8), (1.0, 0.0)])
@pytest.mark.slow(keep=40)
def test_any_kind_of_rows_with_weights_and_confounds(
    kind: str, beside: str, noise: float, mean: float, tmp_path: Path
) -> None:
    A, b = planted(noise, mean, "b")
    A = np.where(np.abs(A) > 0.3, A, 0.0) if kind == "sparse" else A
    rng = np.random.default_rng(3)
    b = A @ [1.0, 2.0, 3.0, mean] + noise * rng.standard_normal(N)
    w = rng.integers(1, 5, N).astype(float) if beside in ("weights", "both") else None
    Z = rng.standard_normal((N, 2)) if beside in ("confounds", "both") else None
    b = b if Z is None else b + Z @ [1.0, -1.0]
    B = iter([b[:20, None], b[20:, None]]) if kind == "iterator" else b
    problem = ls.LeastSquares(KINDS[kind](A, tmp_path), B, sample_weight=w, confounds=Z)
    score, flagged, found = scored(problem, splitter=FOLDS)
    assert right_or_flagged(score, flagged, by_hand(A, b, False, w, Z))
    if noise == 1.0 and mean == 0:
        assert not flagged
        assert found.passes == 1
    if noise == 1e-9 and kind in ("array", "sparse", "file"):
        assert not flagged
        assert found.passes > 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("noise", [1e-8, 1e-3, 1.0])
def test_generalized_cross_validation_of_any_kind_of_rows(
    kind: str, scale: bool, noise: float, tmp_path: Path
) -> None:
    rng = np.random.default_rng(5)
    A = rng.standard_normal((N, 3)) * [1.0, 10.0, 0.1] + [0.0, 100.0, 1.0]
    A = np.where(rng.random((N, 3)) < 0.6, A, 0.0) if kind == "sparse" else A
    Z, w = rng.standard_normal((N, 2)), rng.integers(1, 5, N).astype(float)
    b = A @ [1.0, -2.0, 3.0] + Z @ [1.0, -1.0] + 7 + noise * rng.standard_normal(N)
    B = iter([b[:20, None], b[20:, None]]) if kind == "iterator" else b
    problem = ls.LeastSquares(
        KINDS[kind](A, tmp_path), B, center=True, scale=scale, sample_weight=w, confounds=Z
    )
    if kind == "iterator":
        with pytest.raises(ls.errors.InvalidProblem, match="the number of rows of a stream"):
            ls.cross_validate(problem, method="gcv")
        return
    score, flagged, found = scored(problem, method="gcv")
    assert not flagged
    assert score == pytest.approx(weighted_gcv_by_hand(A, b, w, Z), rel=CLOSE)
    assert (found.passes > 1) == (noise == 1e-8)


def test_more_columns_than_rows_are_flagged_where_rounding_decides() -> None:
    """By the Gram matrix of the rows: the truth in long double, by the same formula on another way."""
    rng = np.random.default_rng(6)
    A, b = rng.standard_normal((20, 80)) * np.geomspace(1, 1e-6, 80), rng.standard_normal(20)
    b = A @ rng.standard_normal(80) + 1e-9 * b
    ridges = [1e-10, 1e-8, 1e-2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        found = ls.cross_validate(ls.LeastSquares(A, b), ridges=ridges, method="gcv")
    K = A.astype(LONG) @ A.T.astype(LONG)
    for j, ridge in enumerate(ridges):
        S = K + ridge * np.eye(20)
        inverse = coefficients(S, np.eye(20, dtype=LONG))
        rest = ridge * inverse @ b.astype(LONG)
        truth = float(20 * np.sum(rest**2) / (20 - np.trace(K @ inverse)) ** 2)
        assert right_or_flagged(found.mean[j, 0], bool(found.uncertain[j, 0]), truth)
    assert not found.uncertain[2, 0]


def test_no_ridge_is_chosen_by_rounding() -> None:
    """The moments cannot rank ridges far below the eigenvalues; rows can."""
    A, b = planted(1e-9, 0.0, "b", seed=4)
    ridges = [1e-12, 1e-9, 1e-6, 1e-3]
    found = ls.cross_validate(ls.LeastSquares(A, b), ridges=ridges, splitter=FOLDS)
    assert not found.uncertain.any()
    solved = ls.cross_validate(ls.LeastSquares(A, b), ridges=ridges, splitter=FOLDS, form="solve")
    assert np.allclose(found.mean, solved.mean, rtol=CLOSE)
    assert found.best == solved.best
    with pytest.warns(AccuracyWarning, match="may be rounding"):
        held = ls.cross_validate(ls.LeastSquares(A, b), ridges=ridges, splitter=FOLDS, form="dense")
    assert held.uncertain[:2].all()
    assert "uncertain by rounding" in repr(held)
    assert held.rounding is not None
    assert held.rounding.shape == held.scores.shape


def conditioned(condition: float, mean: float, seed: int) -> tuple[Any, Any, Any]:
    """Two views that share a variate along the shortest direction of X, and two classes by it."""
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.standard_normal((N, 4)))[0]
    V = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    X = np.sqrt(N) * (U * np.geomspace(1, 1 / condition, 4)) @ V
    Y = U[:, 2:] + 0.05 * rng.standard_normal((N, 2))
    return X + mean, Y, np.where(U[:, 3] > 0, 1, 0)


@pytest.mark.parametrize(
    ("condition", "mean"), list(itertools.product([10.0, 1e4, 1e6, 1e7, 1e8], [0.0, 1e4, 1e8]))
)
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.filterwarnings(
    "ignore::linspec.errors.ConvergenceWarning"
)  # of the solutions that are compared with
@pytest.mark.filterwarnings("ignore::linspec.errors.AccuracyWarning")  # of the same
@pytest.mark.slow(keep=8)
def test_correlations_and_traces_are_those_of_solutions_or_flagged(
    condition: float, mean: float, center: bool
) -> None:
    X, Y, y = conditioned(condition, mean, seed=int(np.log10(condition)))
    for problem in (ls.CCA(X, Y, 2, center=center), ls.Discriminant(X, ls.targets.lda(y), center=center)):
        score, flagged, _ = scored(problem, splitter=FOLDS, form="dense")
        solved = ls.cross_validate(problem, splitter=FOLDS, form="implicit", solver="direct")
        assert flagged or abs(score - solved.mean[0, 0]) <= CLOSE * max(abs(score), 1.0)
        if condition == 10.0 and (center or mean == 0):
            assert not flagged


def test_a_direction_of_rounding_is_no_discriminant() -> None:
    """Two classes have one discriminant about the means; a second one was rounding of the moments."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((120, 5)) @ np.diag(np.geomspace(1, 1e-4, 5)) @ rng.standard_normal((5, 5))
    y, folds = (X[:, 0] + 0.5 * rng.standard_normal(120) > 0).astype(int), np.arange(120) % 4
    found = ls.cross_validate(ls.Discriminant(X, ls.targets.lda(y)), splitter=folds, form="dense")
    for fold, score in enumerate(found.scores.ravel()):
        fit, held = folds != fold, folds == fold
        w = np.linalg.lstsq(X[fit] - X[fit].mean(axis=0), y[fit] - y[fit].mean(), rcond=None)[0]
        assert score == pytest.approx(np.corrcoef(X[held] @ w, y[held])[0, 1] ** 2, abs=1e-6)


def test_dependent_columns_are_no_rounding() -> None:
    """Indicators of all groups add up to one; such columns are dropped. Two passes tell that they are dependent."""
    rng = np.random.default_rng(2)
    groups = rng.integers(4, size=N)
    A = np.column_stack([rng.standard_normal((N, 2)), np.eye(4)[groups]])
    b = A @ np.arange(6.0) + rng.standard_normal(N)
    found = ls.cross_validate(ls.LeastSquares(A, b, center=True), splitter=FOLDS)
    assert found.passes <= 3
    assert not found.uncertain.any()
    assert found.mean[0, 0] == pytest.approx(by_hand(A[:, :-1], b, True, None, None), rel=1e-9)


@pytest.mark.parametrize("method", ["folds", "gcv"])
@pytest.mark.parametrize("columns", ["constant", "zero", "zero in one fold"])
def test_columns_that_say_nothing_predict_the_mean(columns: str, method: str) -> None:
    A = np.ones((60, 3)) if columns == "constant" else np.zeros((60, 3))
    rng = np.random.default_rng(0)
    if columns == "zero in one fold":
        A[:12] = rng.standard_normal((12, 3))
    b = rng.standard_normal((60, 1)) + 5.0
    folds = [(np.arange(12, 60), np.arange(12)), (np.arange(12), np.arange(12, 60))]
    given: dict[str, Any] = {"method": "gcv"} if method == "gcv" else {"splitter": folds}
    found = ls.cross_validate(ls.LeastSquares(A, b, center=True), **given)
    if columns != "zero in one fold" and method == "folds":
        exact = [np.mean((b[test] - b[train].mean()) ** 2) for train, test in folds]
        assert np.allclose(found.scores.ravel(), exact)
    assert np.isfinite(found.scores).all()
