"""Scores of held-out rows where digits are lost: right, by `truths`, or flagged as rounding."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from planted import Case
from truths import truth_of

import linspec as ls
from linspec.errors import AccuracyWarning

N, FOLDS = 60, np.arange(60) % 4
LONG = np.longdouble
NOISES, MEANS = (1e-9, 1e-6, 1e-3, 1.0), (0.0, 1e4, 1e8)
CLOSE = 2e-3  # what is not flagged is right within twice the share that counts as rounding

pytestmark = pytest.mark.skipif(np.finfo(LONG).eps > 1e-18, reason="long double is double here")


def by_hand(A: Any, b: Any, **stated: Any) -> float:
    """The mean squared error of four folds."""
    case, w, found = Case("least-squares", {"A": A, "B": b}, stated), stated.get("sample_weight"), []
    for fold in range(4):
        truth, held = truth_of(case, None, fold != FOLDS), fold == FOLDS
        F, B = truth.parts["A"], truth.parts["B"]
        off = (B.rows - F.rows @ (F.scale[:, None] * truth.best()["x"][0]))[held]
        found.append(np.average(off[:, 0] ** 2, weights=None if w is None else w[held]))
    return float(np.mean(found))


def gcv_by_hand(A: Any, b: Any, **stated: Any) -> float:
    """n is the sum of the weights; intercept, confounds and columns take a degree of freedom each."""
    truth = truth_of(Case("least-squares", {"A": A, "B": b}, stated))
    Q, rest = truth.views[0].F, truth.parts["B"].entries
    for _ in range(2):
        rest = rest - Q @ (Q.T @ rest)
    n = stated.get("sample_weight", np.ones(N)).sum()
    taken = stated.get("center", False) + (2 if stated.get("confounds") is not None else 0)
    return float(n * np.sum(rest**2) / (n - taken - A.shape[1]) ** 2)


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
    problem, truth = ls.LeastSquares(A, b, center=center), by_hand(A, b, center=center)
    formula: dict[str, Any] = {"method": "gcv"}
    for options, exact in (
        ({"splitter": FOLDS}, truth),
        ({"splitter": FOLDS, "form": "dense"}, truth),
        (formula, gcv_by_hand(A, b, center=center)),
    ):
        score, flagged, found = scored(problem, **options)
        assert right_or_flagged(score, flagged, exact)
        if noise == 1.0 and mean <= 1e4:  # ordinary data cost one pass, and no warning
            assert (found.passes, flagged) == (1, False)
        if where == "b" and noise > 1e-12 * mean and "form" not in options:  # rows show it
            assert not flagged
        if where == "A" and center and noise >= 1e-3 and options is not formula:  # means are subtracted
            assert (found.passes, flagged) == (1, False)
            assert score == pytest.approx(exact, rel=1e-7)


KINDS: dict[str, Any] = {
    "array": lambda A: A,
    "sparse": scipy.sparse.csr_array,
    "slices": lambda A: ls.as_operator(lambda: (A[i : i + 13] for i in range(0, N, 13)), rows=N),
    "iterator": lambda A: iter([A[:20], A[20:]]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("noise", [1e-8, 1e-3, 1.0])
def test_any_kind_of_rows_with_weights_and_confounds(kind: str, scale: bool, noise: float) -> None:
    rng = np.random.default_rng(5)
    A = rng.standard_normal((N, 3)) * [1.0, 10.0, 0.1] + [0.0, 100.0, 1.0]
    A = np.where(rng.random((N, 3)) < 0.6, A, 0.0) if kind == "sparse" else A
    Z, w = rng.standard_normal((N, 2)), rng.integers(1, 5, N).astype(float)
    b = A @ [1.0, -2.0, 3.0] + Z @ [1.0, -1.0] + 7 + noise * rng.standard_normal(N)
    stated: dict[str, Any] = {"center": True, "scale": scale, "sample_weight": w, "confounds": Z}

    def problem() -> Any:
        B = iter([b[:20, None], b[20:, None]]) if kind == "iterator" else b
        return ls.LeastSquares(KINDS[kind](A), B, **stated)

    score, flagged, found = scored(problem(), splitter=FOLDS)
    assert right_or_flagged(score, flagged, by_hand(A, b, **stated))
    if noise == 1.0:
        assert (found.passes, flagged) == (1, False)
    if noise == 1e-8 and kind in ("array", "sparse"):
        assert not flagged
        assert found.passes > 1
    if kind == "iterator":
        with pytest.raises(ls.errors.InvalidProblem, match="the number of rows of a stream"):
            ls.cross_validate(problem(), method="gcv")
        return
    score, flagged, found = scored(problem(), method="gcv")
    assert not flagged
    assert score == pytest.approx(gcv_by_hand(A, b, **stated), rel=CLOSE)
    assert (found.passes > 1) == (noise == 1e-8)


def test_more_columns_than_rows_are_flagged_where_rounding_decides() -> None:
    """By the Gram matrix of the rows: the truth in long double, by the singular value decomposition."""
    rng = np.random.default_rng(6)
    A, b = rng.standard_normal((20, 80)) * np.geomspace(1, 1e-6, 80), rng.standard_normal(20)
    b = A @ rng.standard_normal(80) + 1e-9 * b
    ridges = [1e-10, 1e-8, 1e-2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        found = ls.cross_validate(ls.LeastSquares(A, b), ridges=ridges, method="gcv")
    for j, ridge in enumerate(ridges):
        F = truth_of(Case("least-squares", {"A": A, "B": b}, {"ridge": ridge})).views[0].F
        rest = b - F @ (F.T @ b.astype(LONG))
        truth = float(20 * np.sum(rest**2) / (20 - np.sum(F**2)) ** 2)
        assert right_or_flagged(found.mean[j, 0], bool(found.uncertain[j, 0]), truth)
    assert not found.uncertain[2, 0]


def test_no_ridge_is_chosen_by_rounding() -> None:
    """The moments cannot rank ridges far below the eigenvalues; rows can."""
    A, b = planted(1e-9, 0.0, "b", seed=4)
    given: dict[str, Any] = {"ridges": [1e-12, 1e-9, 1e-6, 1e-3], "splitter": FOLDS}
    found, solved = (
        ls.cross_validate(ls.LeastSquares(A, b), form=form, **given) for form in ("auto", "solve")
    )
    assert not found.uncertain.any()
    assert np.allclose(found.mean, solved.mean, rtol=CLOSE)
    assert found.best == solved.best
    with pytest.warns(AccuracyWarning, match="may be rounding"):
        held = ls.cross_validate(ls.LeastSquares(A, b), form="dense", **given)
    assert held.uncertain[:2].all()
    assert "uncertain by rounding" in repr(held)


@pytest.mark.parametrize("form", ["auto", "dense", "solve"])
@pytest.mark.parametrize("short", [1e-10, 1e-11])
def test_directions_that_gram_matrices_hide_are_scored(form: str, short: float) -> None:
    rng = np.random.default_rng(1)
    X, Y = rng.standard_normal((N, 3)), rng.standard_normal((N, 2))
    Y[:, 1] = Y[:, 0] + short * X[:, 0]
    A = np.column_stack([X[:, 0], X[:, 0] + short * X[:, 1]])
    b = X[:, 1] + 0.1 * rng.standard_normal(N)
    for problem, truth, close in (
        (ls.CCA(X, Y, k=1), 1.0, 1e-3),  # the difference is in X
        (ls.LeastSquares(A, b), by_hand(A, b), 1e-2),
    ):
        score, flagged, _ = scored(problem, splitter=FOLDS, form=form)
        assert (flagged and form == "dense") or score == pytest.approx(truth, rel=close)


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


@pytest.mark.parametrize("method", ["folds", "gcv"])
def test_columns_that_say_nothing_predict_the_mean(method: str) -> None:
    b = np.random.default_rng(0).standard_normal((60, 1)) + 5.0
    folds = [(np.arange(12, 60), np.arange(12)), (np.arange(12), np.arange(12, 60))]
    given: dict[str, Any] = {"method": "gcv"} if method == "gcv" else {"splitter": folds}
    exact = [np.mean((b[test] - b[train].mean()) ** 2) for train, test in folds]
    for A in (np.ones((60, 3)), np.zeros((60, 3)), b * (np.arange(60)[:, None] < 12)):
        scores = ls.cross_validate(ls.LeastSquares(A, b, center=True), **given).scores.ravel()
        assert np.isfinite(scores).all()
        assert method == "gcv" or np.ptp(A) > 0 or np.allclose(scores, exact)


FAMILIES = {
    "least-squares": ls.LeastSquares,
    "svd": lambda X, Y, **given: ls.SVD(np.hstack([X, Y]), k=2, **given),
    "cca": lambda X, Y, **given: ls.CCA(X, Y, k=2, **given),
    "discriminant": lambda X, Y, **given: ls.Discriminant(X, ls.targets.lda(np.arange(N) // 4 % 2), **given),
    "pls-regression": lambda X, Y, **given: ls.PLSRegression(X, Y, k=2, **given),
    "reduced-rank": lambda X, Y, **given: ls.ReducedRankRegression(X, Y, k=2, **given),
}


@pytest.mark.parametrize("form", ["auto", "dense", "solve"])
@pytest.mark.parametrize("family", FAMILIES)
def test_confounds_count_by_what_they_span(family: str, form: str) -> None:
    """The difference of near copies is exact, and spans with one of them what both span."""
    rng = np.random.default_rng(2)
    X, Y, E = rng.standard_normal((N, 3)), rng.standard_normal((N, 2)), rng.standard_normal((N, 2))
    Y += X[:, :2]
    still = E * [1, 0] + [0, 5]  # a confound that does not vary
    for center, Z in ((True, E[:, [0, 0]] + E * np.array([0, 1e-7])), (False, E + 1e8), (True, still)):
        spanning = np.column_stack([Z[:, 0], Z[:, 1] - Z[:, 0]])
        one, other = (FAMILIES[family](X, Y, center=center, confounds=given) for given in (Z, spanning))
        found = ls.cross_validate(one, splitter=FOLDS, form=form).scores
        wanted = ls.cross_validate(other, splitter=FOLDS, form="solve").scores
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_confounds_leave_is_right_or_flagged(family: str) -> None:
    """Columns that are confounds but for a share: without it, and in the unit of what is left, scores are the same."""
    rng = np.random.default_rng(3)
    Z, left, Y = rng.standard_normal((N, 2)), rng.standard_normal((N, 3)), rng.standard_normal((N, 2))
    Y += left[:, :2]
    for share in (2.0**-13, 2.0**-20, 2.0**-24, 2.0**-30):
        X = Z @ np.float32(rng.standard_normal((2, 3))) + share * left
        Q = np.linalg.qr(np.column_stack([np.ones(N), Z]))[0]
        truth = (X - Q @ (Q.T @ X)) / share
        (_, flagged, found), (_, _, other) = (
            scored(FAMILIES[family](M, (family != "svd") * Y, center=True, confounds=Z), splitter=FOLDS)
            for M in (X, truth)
        )
        assert flagged or np.allclose(found.scores, other.scores, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("form", ["auto", "dense"])
def test_copies_and_indicators_are_no_rounding(family: str, form: str) -> None:
    rng = np.random.default_rng(4)
    X, Y = rng.standard_normal((N, 4)), rng.standard_normal((N, 2))
    groups = np.eye(3)[rng.integers(3, size=N)]
    copies, Z = X[:, [0, 1, 0]], np.column_stack([X[:, 3], groups, X[:, 3]])
    assert not scored(FAMILIES[family](copies, Y, center=True, confounds=Z), splitter=FOLDS, form=form)[1]
    for columns in (copies, np.column_stack([X, groups]), np.column_stack([X, X[:, 3], groups[:, :1]])):
        assert not scored(FAMILIES[family](columns, Y, center=True), splitter=FOLDS, form=form)[1]


@pytest.mark.parametrize("form", ["dense", "solve"])
@pytest.mark.parametrize(("center", "scale"), [(True, False), (True, True), (False, False)])
def test_squares_of_columns_that_are_constant_in_training_count(form: str, center: bool, scale: bool) -> None:
    A = np.random.default_rng(5).standard_normal((8, 4))
    A[:, 0] = 2.0 * center
    A[3, 0] += 1.0
    problem = ls.SVD(A, k=2, center=center, scale=scale)
    found = ls.cross_validate(problem, splitter=np.arange(8), form=form)
    for i in range(8):
        fit = np.delete(A, i, axis=0)
        mean = fit.mean(axis=0) * center
        unit = np.sqrt(np.mean((fit - mean) ** 2, axis=0)) if scale else np.ones(4)
        unit[unit == 0] = 1.0
        V = np.linalg.svd((fit - mean) / unit)[2][:2]
        row = (A[i] - mean) / unit
        assert found.scores[i, 0, 0] == pytest.approx(np.sum((V @ row) ** 2) / np.sum(row**2), abs=1e-10)


def test_a_solve_that_lost_digits_marks_its_split() -> None:
    rng = np.random.default_rng(6)
    problem = ls.MultisetCCA([3e7 + rng.standard_normal((N, 3)) for _ in range(3)], k=1, center=False)
    assert ls.solve(problem).status is ls.Status.ILL_CONDITIONED
    with pytest.warns(AccuracyWarning, match="first on split 0"):
        found = ls.cross_validate(problem, splitter=FOLDS)
    assert found.uncertain.all()
