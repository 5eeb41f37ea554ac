"""Which columns are constant, where an answer says that ranks are deficient: planted ones, on every kind of data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec.workers import BlockOperator

RNG = np.random.default_rng(0)
N = 50
A = 100 + 3 * RNG.standard_normal((N, 6))
A[:, 2], A[:, 4] = 7.3, 0
B = A[:, :1] + RNG.standard_normal((N, 4))
B[:, 3] = 0.1
CLASSES = np.arange(N) % 3

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
    "discriminant": lambda A, B, **named: ls.Discriminant(A, ls.targets.lda(CLASSES), k=2, **named),
    "pls": lambda A, B, **named: ls.PLS(A, B, k=4, **named),
}
SAYS = "2 of the 6 columns of {} are constant: 2, 4."


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_planted_constant_columns_are_named(problem, kind):
    for named in ({}, {"scale": True}) if kind == "array" else ({},):
        solution = ls.solve(PROBLEMS[problem](KINDS[kind](A), KINDS[kind](B), **named))
        assert solution.status is ls.Status.RANK_DEFICIENT
        assert SAYS.format(next(iter(ls.get_problem(problem).stated.matrices))) in solution.message
        if problem in ("cca", "pls"):
            assert "1 of the 4 columns of Y is constant: 3." in solution.message


def test_columns_of_frames_are_named_and_only_the_first_are_listed():
    pandas = pytest.importorskip("pandas")
    names = [f"item {i}" for i in range(9)]
    frame = pandas.DataFrame(np.hstack([A[:, :1], np.full((N, 8), 3.0)]), columns=names)
    solution = ls.solve(ls.SVD(frame, k=2, center=True))
    listed = ", ".join(f"'item {i}'" for i in range(1, 6))
    assert f"8 of the 9 columns of A are constant: {listed}, …." in solution.message
    assert "is constant: 'item 2'" in ls.solve(ls.SVD(frame[names[:1] + names[2:3]], 2, center=True)).message


def test_without_means_it_is_columns_of_zeros_and_no_others_are_named():
    message = ls.solve(ls.SVD(A, 6)).message
    assert "1 of the 6 columns of A is zero: 4." in message
    twice = np.hstack([A[:, :2], A[:, :1]])  # deficient for another reason
    solution = ls.solve(ls.SVD(twice, 3, center=True))
    assert solution.status is ls.Status.RANK_DEFICIENT
    assert "constant" not in solution.message
    assert "constant" not in ls.solve(ls.SVD(A, k=3, center=True)).message  # nothing is missing


def test_a_column_that_varies_by_little_beside_its_mean_is_not_constant():
    little = A.copy()
    little[:, 2] = 1e6 + 1e-6 * RNG.standard_normal(N)
    assert "columns of A is constant: 4." in ls.solve(ls.SVD(little, k=6, center=True, scale=True)).message
