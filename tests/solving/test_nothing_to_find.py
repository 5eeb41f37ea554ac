"""One row, one column, zeros and constants: answers and no foreign errors, and constant columns are named."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec.workers import BlockOperator

RNG = np.random.default_rng(0)
SHAPES = [(1, 1, 1), (1, 3, 2), (2, 1, 1), (5, 3, 2), (3, 5, 4)]


def pairs() -> list[tuple[Any, Any]]:
    found = []
    for n, p, q in SHAPES:
        X, Y = RNG.standard_normal((n, p)), RNG.standard_normal((n, q))
        found += [(X, Y), (np.ones((n, p)), np.ones((n, q))), (np.zeros((n, p)), Y), (X, np.zeros((n, q)))]
    return found


STATED: dict[str, Any] = {
    "least-squares": lambda X, Y, center: ls.LeastSquares(X, Y),
    "svd": lambda X, Y, center: ls.SVD(X, min(X.shape), center=center),
    "cca": lambda X, Y, center: ls.CCA(X, Y, 1, center=center),
    "discriminant": lambda X, Y, center: ls.Discriminant(X, Y, 1, center=center),
}


@pytest.mark.parametrize(
    ("family", "solver"), [(family, name) for family in STATED for name in ("auto", *ls.solvers(family))]
)
@pytest.mark.slow(keep=5)
def test_little_or_nothing_to_find(family: str, solver: str) -> None:
    for X, Y in pairs():
        for center in (True, False):
            for data in (X, scipy.sparse.csr_array(X)):
                with warnings.catch_warnings():
                    warnings.simplefilter("error", RuntimeWarning)
                    warnings.simplefilter("ignore", ls.errors.ConvergenceWarning)
                    warnings.simplefilter("ignore", ls.errors.AccuracyWarning)
                    found = ls.solve(STATED[family](data, Y, center), solver, rng=0)
                assert np.isfinite(found.residual)
                C = (X - X.mean(axis=0) if center else X).T @ (Y - Y.mean(axis=0) if center else Y)
                if family == "cca" and np.abs(C).max() < 1e-12:
                    assert found.correlations.sum() < 1e-6
                if family == "least-squares":
                    exact = np.linalg.lstsq(X, Y, rcond=None)[0]
                    assert found.status is not ls.Status.CONVERGED or np.allclose(found.x, exact, atol=1e-5)


def test_an_answer_without_vectors_has_not_converged() -> None:
    """There is nothing in a matrix of zeros: the residual of nothing is no evidence of anything."""
    for problem in (ls.SVD(np.zeros((20, 5)), k=2), ls.CCA(np.zeros((20, 5)), np.eye(20, 4), k=2)):
        found = ls.solve(problem)
        assert (found.status, found.converged) == (ls.Status.RANK_DEFICIENT, False)


# ---- constant columns ---------------------------------------------------------------------------

N = 50
A = 100 + 3 * RNG.standard_normal((N, 6))
A[:, 2], A[:, 4] = 7.3, 0
B = A[:, :1] + RNG.standard_normal((N, 4))
B[:, 3] = 0.1

KINDS: dict[str, Callable[[Any], Any]] = {
    "array": lambda A: A,
    "float32": lambda A: A.astype(np.float32),
    "sparse": scipy.sparse.csr_array,
    "stream": lambda A: lambda: iter([A[:30], A[30:]]),
    "blocks": lambda A: BlockOperator([A[:20], A[20:]]),
}
PROBLEMS: dict[str, Callable[..., Any]] = {
    "svd": lambda A, B, **named: ls.SVD(A, k=6, center=True, **named),
    "cca": lambda A, B, **named: ls.CCA(A, B, k=2, **named),
    "least-squares": lambda A, B, **named: ls.LeastSquares(A, B, center=True, **named),
    "discriminant": lambda A, B, **named: ls.Discriminant(A, ls.targets.lda(np.arange(N) % 3), k=2, **named),
    "pls": lambda A, B, **named: ls.PLS(A, B, k=4, **named),
}


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize(
    "problem, kind", [*((problem, "array") for problem in PROBLEMS), *(("cca", kind) for kind in KINDS)]
)
def test_planted_constant_columns_are_named(problem: str, kind: str, scale: bool) -> None:
    found = ls.solve(PROBLEMS[problem](KINDS[kind](A), KINDS[kind](B), scale=scale))
    first = next(iter(ls.get_problem(problem).stated.matrices))
    assert found.status is ls.Status.RANK_DEFICIENT
    assert f"2 of the 6 columns of {first} are constant: 2, 4." in found.message
    if problem in ("cca", "pls"):
        assert "1 of the 4 columns of Y is constant: 3." in found.message
        assert np.abs(found.x_weights[[2, 4]]).max() < 1e-8


def test_columns_of_frames_are_named_and_only_the_first_are_listed() -> None:
    pandas = pytest.importorskip("pandas")
    names = [f"item {i}" for i in range(9)]
    frame = pandas.DataFrame(np.hstack([A[:, :1], np.full((N, 8), 3.0)]), columns=names)
    found = ls.solve(ls.SVD(frame, k=2, center=True))
    listed = ", ".join(f"'item {i}'" for i in range(1, 6))
    assert f"8 of the 9 columns of A are constant: {listed}, …." in found.message
    assert "is constant: 'item 2'" in ls.solve(ls.SVD(frame[names[:1] + names[2:3]], 2, center=True)).message


def test_without_means_it_is_columns_of_zeros_and_no_others_are_named() -> None:
    assert "1 of the 6 columns of A is zero: 4." in ls.solve(ls.SVD(A, 6)).message
    twice = np.hstack([A[:, :2], A[:, :1]])  # deficient for another reason
    found = ls.solve(ls.SVD(twice, 3, center=True))
    assert found.status is ls.Status.RANK_DEFICIENT
    assert "constant" not in found.message
    assert "constant" not in ls.solve(ls.SVD(A, k=3, center=True)).message  # nothing is missing


def test_a_column_that_varies_by_little_beside_its_mean_is_not_constant() -> None:
    little = A.copy()
    little[:, 2] = 1e6 + 1e-6 * RNG.standard_normal(N)
    assert "columns of A is constant: 4." in ls.solve(ls.SVD(little, k=6, center=True, scale=True)).message
