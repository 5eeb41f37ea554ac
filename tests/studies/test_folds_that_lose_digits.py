"""Held-out scores of nearly dependent columns, of confounds that lose digits, and of columns constant in training.

The truth is computed from the rows of each fold by orthogonal factorisations, or by the definition of the score.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import linspec as ls
from linspec.errors import InvalidProblem

N = 28
LABELS = np.arange(N) % 4


def tried(problem: Any, **given: Any) -> tuple[Any, bool]:
    """The result, and whether something was said about it."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = ls.cross_validate(problem, splitter=LABELS, **given)
    return found, bool(said) or bool(found.uncertain.any())


def right_or_said(problem: Any, truth: Any, form: str, close: float, **given: Any) -> None:
    found, said = tried(problem, form=form, **given)
    right = np.allclose(found.scores.ravel(), truth, rtol=close, atol=close)
    assert right or said, (form, found.scores.ravel(), truth)
    assert right or form == "dense"  # other forms can do better


@pytest.mark.parametrize("form", ["auto", "dense", "solve"])
@pytest.mark.parametrize("short", [1e-10, 1e-11])
def test_directions_that_gram_matrices_hide_are_scored(form: str, short: float) -> None:
    rng = np.random.default_rng(1)
    X, Y = rng.standard_normal((N, 3)), rng.standard_normal((N, 2))
    Y[:, 1] = Y[:, 0] + short * X[:, 0]
    right_or_said(ls.CCA(X, Y, k=1), np.ones(4), form, 1e-3)  # the difference is in X

    A = np.column_stack([X[:, 0], X[:, 0] + short * X[:, 1]])
    b, truth = X[:, 1] + 0.1 * rng.standard_normal(N), []
    for fold in range(4):
        fit, held = fold != LABELS, fold == LABELS
        x = np.linalg.lstsq(A[fit], b[fit], rcond=1e-15)[0]
        truth.append(np.mean((b[held] - A[held] @ x) ** 2))
    right_or_said(ls.LeastSquares(A, b), truth, form, 1e-2)


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
    near = E[:, [0, 0]] + E * np.array([0, 1e-7])
    for center, Z in ((True, near), (False, E + 1e8)):
        spanning = np.column_stack([Z[:, 0], Z[:, 1] - Z[:, 0]])
        one, other = (
            ls.cross_validate(
                FAMILIES[family](X, Y, center=center, confounds=given), splitter=LABELS, form=way
            )
            for given, way in ((Z, form), (spanning, "solve"))
        )
        np.testing.assert_allclose(one.scores, other.scores, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_confounds_leave_is_right_or_flagged(family: str) -> None:
    """Columns that are confounds but for a share: without it, and in the unit of what is left, scores are the same."""
    rng = np.random.default_rng(3)
    Z, left, Y = rng.standard_normal((N, 2)), rng.standard_normal((N, 3)), rng.standard_normal((N, 2))
    Y += left[:, :2]
    for share in (2.0**-13, 2.0**-20, 2.0**-24, 2.0**-30):
        X = Z @ np.float32(rng.standard_normal((2, 3))) + share * left
        Q = np.linalg.qr(np.column_stack([np.ones(N), Z]))[0]
        truth = X - Q @ (Q.T @ X)
        given = {"center": True, "confounds": Z}
        problems = (FAMILIES[family](M, Y if family != "svd" else 0 * Y, **given) for M in (X, truth / share))
        (found, said), (other, _) = map(tried, problems)
        assert said or np.allclose(found.scores, other.scores, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("form", ["auto", "dense"])
def test_copies_and_indicators_are_no_rounding(family: str, form: str) -> None:
    rng = np.random.default_rng(4)
    groups = np.eye(3)[rng.integers(3, size=N)]
    Z, Y = np.column_stack([rng.standard_normal(N), groups]), rng.standard_normal((N, 2))
    X = rng.standard_normal((N, 3))
    problem = FAMILIES[family](X[:, [0, 1, 0]], Y, center=True, confounds=np.column_stack([Z, Z[:, 0]]))
    assert not tried(problem, form=form)[1]
    for columns in (X[:, [0, 1, 0]], np.column_stack([X, groups]), np.column_stack([X, Z[:, :2]])):
        assert not tried(FAMILIES[family](columns, Y, center=True), form=form)[1]


@pytest.mark.parametrize("form", ["dense", "solve"])
@pytest.mark.parametrize(("center", "scale"), [(True, False), (True, True), (False, False)])
def test_squares_of_columns_that_are_constant_in_training_count(form: str, center: bool, scale: bool) -> None:
    rng = np.random.default_rng(5)
    A = rng.standard_normal((8, 4))
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
    views = [3e7 + rng.standard_normal((N, 3)) for _ in range(3)]
    problem = ls.MultisetCCA(views, k=1, center=False)
    assert ls.solve(problem).status is ls.Status.ILL_CONDITIONED
    with pytest.warns(ls.errors.AccuracyWarning, match="first on split 0"):
        found = ls.cross_validate(problem, splitter=LABELS)
    assert found.uncertain.all()


MISSING = {
    "none": lambda given: [None, *given[1:]],
    "nan": lambda given: np.array([np.nan, *map(float, given[1:])]),
    "nan beside texts": lambda given: [np.nan, *map(str, given[1:])],
    "no time": lambda given: np.array(["NaT", *(f"2024-01-0{i + 1}" for i in given[1:])], dtype="M8[D]"),
    "pandas": lambda given: pytest.importorskip("pandas").Series([None, *given[1:]], dtype="Int64"),
    "pandas texts": lambda given: pytest.importorskip("pandas").Series([None, *map(str, given[1:])]),
    "masked": lambda given: pytest.importorskip("pandas").Series([np.ma.masked, *map(str, given[1:])]),
    "polars": lambda given: pytest.importorskip("polars").Series([None, *given[1:]]),
    "pyarrow": lambda given: pytest.importorskip("pyarrow").array([None, *given[1:]]),
}


@pytest.mark.parametrize("kind", MISSING)
def test_labels_that_are_missing_are_refused(kind: str) -> None:
    A, labels = np.random.default_rng(7).standard_normal((N, 2)), MISSING[kind](LABELS.tolist())
    for given in ({"splitter": labels}, {"splitter": 3, "groups": labels}):
        with pytest.raises(InvalidProblem, match="none missing"):
            ls.cross_validate(ls.LeastSquares(A, A[:, 0]), **given)
    with pytest.raises(InvalidProblem, match="none missing"):
        ls.bootstrap(ls.CCA(A, A[:, :1], k=1), draws=20, groups=labels)
