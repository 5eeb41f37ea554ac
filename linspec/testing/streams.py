"""Checks on rows that come slice by slice: a solver reads an iterator once, or refuses it before it reads.

Problem: a solver that promises one pass and begins a second one fails when the data are gone, perhaps after
hours.
Method: the cases are cut into slices of one row and of many, dense and sparse. An iterator yields the slices, and
counts its rows and how often its end is reached.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse

from linspec.arrays import HostArray
from linspec.errors import MissingCapability, SweptOnce
from linspec.testing.backends import BACKENDS, ONE_IN
from linspec.testing.behaviour import Skip
from linspec.testing.family import testing_of
from linspec.testing.oracle import as_host, precision
from linspec.testing.problems import Case
from linspec.testing.solving import Subject, Trial, attempt

__all__ = ["STREAM_CHECKS", "Slices"]

CLEAR = 1e-5
"""Fraction of the largest singular value above which one pass distinguishes a singular value from zero."""

WORSE = 3.0
"""Factor by which the residual of an approximate answer may exceed that for data in memory."""

SQUARED = 1000.0
"""Additional residual allowed to an answer from one sweep, in units of roundoff. One sweep multiplies rounding errors
by the squared condition number of a small sketch. With few columns the sketch is a square Gaussian matrix, whose
condition number is some tens."""


class Slices:
    """An iterator of row slices that counts its rows.

    Parameters
    ----------
    matrix : array or sparse matrix of shape (n, p)
    heights : sequence of int, optional
        Numbers of rows of the slices, used in turn; by default one, five, one, forty.

    Attributes
    ----------
    taken : int
        The number of rows that were yielded.
    ends : int
        How often the end was reached.
    """

    def __init__(self, matrix: Any, heights: tuple[int, ...] = (1, 5, 1, 40)) -> None:
        self.matrix, self.heights = matrix, heights
        self.taken = self.ends = self.slices = 0

    def __iter__(self) -> Slices:
        return self

    def __next__(self) -> Any:
        if self.taken >= self.matrix.shape[0]:
            self.ends += 1
            raise StopIteration
        stop = self.taken + self.heights[self.slices % len(self.heights)]
        piece = self.matrix[self.taken : stop]
        self.taken, self.slices = self.taken + piece.shape[0], self.slices + 1
        return piece


def check_one_pass(subject: Subject) -> Iterator[str]:
    """With the trait "one-pass", a solver reads an iterator of row slices once; without it, the iterator is refused.

    An exact solver finds the exact answer, and an approximate one an answer about as good as for data in memory.
    """
    table = testing_of(subject.spec.problem).cases()
    if len(table[0].arrays) > 1:
        raise Skip("problems of several matrices take no iterators")
    if not subject.trait("one-pass"):
        yield from _refusal_issues(subject, table[0])
        return
    for case in table:
        plain = replace(case, parameters={**case.parameters, "left": False})
        for kind in (np.asarray, scipy.sparse.csr_array):
            if kind is scipy.sparse.csr_array and case.dense_offset:
                continue  # subtraction of large means from sparse rows loses digits in any solver
            where = f"{case.name}, {'dense' if kind is np.asarray else 'sparse'} slices"
            yield from (f"{where}: {issue}" for issue in _one_pass_issues(subject, plain, kind))


def _refusal_issues(subject: Subject, case: Case) -> Iterator[str]:
    rows = Slices(case.main.copy(), (1,))
    error = attempt(case.state({next(iter(case.arrays)): rows}), subject.make(), rng=0).error
    if not isinstance(error, SweptOnce):
        yield f"without the trait 'one-pass' an iterator must be refused with SweptOnce; got {error!r}"
    if rows.slices > 1:
        yield (
            f"an iterator must be refused after its first slice at the latest; {rows.slices} slices were read"
        )


def _one_pass_issues(subject: Subject, case: Case, kind: Callable[[HostArray], Any]) -> Iterator[str]:
    (name, array), *_ = case.arrays.items()
    rows = Slices(kind(array.copy()))
    result = attempt(case.state({name: rows}), subject.make(), rng=0)
    if result.error is not None:
        yield result.raised
        return
    solution = result.solution
    if rows.taken != len(array) or rows.ends != 1:
        yield (
            f"the iterator must be read once to its end; {rows.taken} of {len(array)} rows were read, and "
            f"the end was reached {rows.ends} times"
        )
    if solution.passes != 1:
        yield f"passes must be 1 after one reading; got {solution.passes:g}"
    if math.isnan(solution.residual):
        if solution.residual_kind != "unavailable" or solution.converged:
            yield (
                "a solution with residual nan must have residual_kind 'unavailable' and converged False; got "
                f"{solution.residual_kind!r} and {solution.converged}"
            )
    elif solution.residual_kind not in {"from-gram", "in-pass"}:
        yield (
            "residual_kind must be 'from-gram' or 'in-pass', since the data cannot be read again; got "
            f"{solution.residual_kind!r}"
        )
    yield from _answer_issues(subject, case, solution)


def _answer_issues(subject: Subject, case: Case, solution: Any) -> Iterator[str]:
    trial = Trial.of(subject, BACKENDS[0], case)
    law = trial.oracle.law(solution)
    if not math.isnan(solution.residual) and law.contradicts(solution.residual):
        yield (
            f"the solution claims residual {solution.residual:.3g}; the returned arrays have "
            f"{law.residual:.3g}"
        )
    if subject.exact:
        if _clear(case):
            yield from trial.oracle.errors(solution)
    elif trial.solution is not None and len(solution.S) == len(trial.solution.S):
        allowed = WORSE * trial.law.residual + law.floor + SQUARED * precision(case)
        if not law.residual <= allowed:
            yield (
                "the answer must be about as good as in memory; its residual is "
                f"{law.residual:.2g}, and at most {allowed:.2g} is allowed"
            )


def _clear(case: Case) -> bool:
    """Whether the k leading singular values can be distinguished from zero."""
    A = as_host(case.main).astype(np.float64)
    A = A - case.parameters.get("center", False) * A.mean(axis=0)
    s = np.linalg.svd(A, compute_uv=False)
    return bool(s[case.parameters["k"] - 1] > CLEAR * s[0])


def check_callable(subject: Subject) -> Iterator[str]:
    """A solver that needs only products finds the answer also for a callable that returns slices."""
    if subject.spec.needs.dense or subject.spec.needs.rows or subject.spec.needs.diagonal:
        raise Skip(f"the solver needs {subject.spec.needs}")
    cases = [
        case
        for case in testing_of(subject.spec.problem).cases()
        if case.main.dtype == np.float64 and subject.must_converge(case) and not case.dense_offset
    ]
    for case in cases[::ONE_IN]:
        data: dict[str, Any] = {name: array.copy() for name, array in case.arrays.items()}
        first = next(iter(data))
        matrix = data[first]
        data[first] = lambda matrix=matrix: Slices(matrix)
        trial = Trial.of(subject, BACKENDS[0], case)
        result = attempt(case.state(data), subject.for_case(case), rng=0)
        if isinstance(result.error, MissingCapability):
            continue  # the check "declared-needs" reports it
        if result.error is not None:
            yield f"{case.name}: {result.raised}"
        elif result.solution.converged:
            yield from (f"{case.name}: {issue}" for issue in trial.oracle.errors(result.solution))
        elif trial.must_converge and trial.solution is not None and trial.solution.converged:
            yield (
                f"{case.name}: the solver must converge on a callable of slices, as it does on an array; got "
                f"{result.solution.status.name}, residual {result.solution.residual:.2g}"
            )


STREAM_CHECKS: dict[str, Callable[[Subject], Iterator[str]]] = {
    "one-pass": check_one_pass,
    "callable": check_callable,
}
"""The checks on streams, by their names in test ids and expected failures."""
