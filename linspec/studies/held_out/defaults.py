"""Scores of held-out rows for problems that name none: their own method `score`, or correlations of paired scores.

Problem: a problem of one's own should be cross-validated without a class of scores.
Method: where answers have a method `score`, it is called for the first k components of the answer, for each k: the
fields whose declared axes count components are cut. Answers with weights of two or more matrices give scores to the
rows of each, one block for each matrix, and the i-th columns belong together. They are also scored by the
correlations of these columns on the held-out rows, with their signs, summed over components and over pairs of
matrices.
Where we differ: a sum of products of paired scores would measure the covariance that an answer captures. But it
depends on the lengths of the weights: where these are scaled by a metric with a ridge, it falls as the ridge grows,
whether the fit to new rows is better or not. For agreement of three views (MAXVAR, 100 rows, 90 columns) and ridges
from 1 to 1e4 it fell from 0.018 to 0.004 on new rows, while the correlations rose from 4.60 to 5.08 of 6 at ridge
1000. Correlations do not depend on the lengths. A problem whose objective is another one defines `score`.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Container, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from linspec.arrays import HostArray, is_array, reciprocal, to_host
from linspec.errors import InvalidProblem, LinspecError
from linspec.linalg.small_matrices import EPS
from linspec.operators import LinearOperator, as_operator
from linspec.solving.checks import check_rows
from linspec.solving.fields import each_part
from linspec.solving.new_rows import NewRows
from linspec.solving.problem import Problem
from linspec.solving.solution import weights_by_matrix
from linspec.studies.held_out.scores import FEWEST, HeldOutScore, Ks, beside, still, weighted_rows
from linspec.studies.inference.rows import with_equal_rows
from linspec.workers import brought_here

FAINT = 16 * EPS
"""Largest squares of the weights of a component, relative to those of others in the same matrix, that are rounding."""

ROUNDED = 16
"""Scores within so many roundings of the products that they come from are rounding."""


def default_scores(problem: Problem[Any]) -> dict[str, HeldOutScore]:
    """Return by name the scores of held-out rows of a problem whose class lists none; the first is the default.

    "score" is among them if solutions of the problem have a method `score`, and "correlations" if `is_paired` is True.
    """
    cls = problem.solution
    found: dict[str, HeldOutScore] = {}
    if callable(getattr(cls, "score", None)):
        found["score"] = OwnScore(cls.layout.score)
    if is_paired(problem):
        found["correlations"] = PairedCorrelations()
    return found


def is_paired(problem: Problem[Any]) -> bool:
    """Whether solutions have column weights for two or more matrices, and a method `transform`.

    Then `transform` gives each row one vector of component scores for each of these matrices.
    """
    weighted = [
        name for name in problem.matrices if problem.stated.field_of(name) in problem.solution.layout.weights
    ]
    return len(weighted) > 1 and callable(getattr(problem.solution, "transform", None))


class OwnScore(HeldOutScore):
    """The number that the method `score` of a solution returns for held-out rows, for its first k components.

    If `score` returns an object with an attribute `total`, such as the CCAScore of a CCA, the number is this attribute.

    Parameters
    ----------
    label : str
        The name of the score.
    """

    def __init__(self, label: str) -> None:
        self.label = label  # type: ignore[misc]  # of this problem

    def of_solution(self, problem: Any, solution: Any, ks: Ks) -> HostArray:
        if "sample_weight" not in inspect.signature(solution.score).parameters:
            problem = with_equal_rows(problem, f"{type(solution).__name__}.score takes no weights, so it")
        named = {"confounds": problem.confounds, "sample_weight": problem.sample_weight}
        named = {name: value for name, value in named.items() if value is not None}
        found = [first_components(solution, k).score(*problem.matrices.values(), **named) for k in ks]
        return np.array([number_of(score) for score in found])


class PairedCorrelations(HeldOutScore):
    """The correlations of paired scores, with their signs, summed over components and over pairs of matrices."""

    label = "sum of correlations"

    def of_solution(self, problem: Any, solution: Any, ks: Ks) -> HostArray:
        names = list(weights_by_matrix(solution))
        scores = solution.transform(*(problem.matrices[name] for name in names), **beside(problem))
        blocks = [weighted_rows(S, problem, name) for S, name in zip(scores, names, strict=True)]
        found = paired_correlations(solution, blocks, centred=bool(problem.center))
        return np.array([float(found[:k].sum()) for k in ks])


def paired_correlations(
    solution: Any, blocks: Sequence[tuple[HostArray, HostArray]], *, centred: bool
) -> HostArray:
    """Return for each component i the sum, over all pairs of matrices, of the correlation of their i-th scores.

    The scores are the component scores of the rows. Their correlations are about the means of the training rows, not
    about the means of these rows. A component whose scores are 0 in some matrix has correlation 0 there.
    Pairs of matrices that share fewer than two rows are left out: the sum is that of the other pairs, times the number
    of all pairs over theirs.

    Parameters
    ----------
    solution : Solution
        The answer that gave the scores.
    blocks : sequence of (numpy.ndarray of shape (n, k), numpy.ndarray of shape (n,))
        For each matrix, the component scores of its rows, and the weights of these. The means of the training rows are
        already subtracted. A correlation is that of the rows whose weights are positive for both matrices.
    centred : bool
        Whether the problem centres. If so, a component whose scores are constant over these rows has no correlation.

    Returns
    -------
    numpy.ndarray of shape (k,)
        NaN for a component without a correlation, and for all of them if no pair of matrices shares two rows.
    """
    named = zip(weights_by_matrix(solution), blocks, strict=True)
    blocks = [(_beyond_rounding(solution, name, S, w), w) for name, (S, w) in named]
    pairs = list(combinations(blocks, 2))
    found, known = np.zeros(blocks[0][0].shape[1]), 0
    for (P, a), (Q, b) in pairs:
        w = np.sqrt(a * b)
        if np.count_nonzero(w) >= FEWEST:
            found = found + w @ (_units(P, w, centred=centred) * _units(Q, w, centred=centred))
            known += 1
    return found * (len(pairs) / known) if known else np.full(len(found), np.nan)


def _units(S: HostArray, w: HostArray, *, centred: bool) -> HostArray:
    """Scale scores to weighted length 1, and with `centred` scores that are constant to NaN."""
    squares, count, rows = w @ (S * S), float(w.sum()), int(np.count_nonzero(w))
    lengths = reciprocal(np.sqrt(squares))
    if centred:
        lengths[still(squares, w @ S / count, count, rows) & (lengths > 0)] = np.nan
    units: HostArray = S * lengths
    return units


def _beyond_rounding(solution: Any, name: str, S: HostArray, w: HostArray) -> HostArray:
    """Scores of the rows of a matrix: 0 where weights are rounding, or only rounding is left of what they multiply."""
    V, axis = weights_by_matrix(solution)[name]
    V, mean = to_host(V).T if axis else to_host(V), NewRows.of(solution, name).mean
    lengths = np.sum(np.square(V, dtype=np.float64), axis=0)
    unit = np.divide(w @ (S * S), lengths, out=np.zeros(len(lengths)), where=lengths > 0)
    about = 0.0 if mean is None else w.sum() * float(np.sum(np.square(to_host(mean), dtype=np.float64)))
    least = len(V) * (ROUNDED * float(np.finfo(V.dtype).eps)) ** 2 * (unit.max(initial=0.0) + about)
    return np.where((unit > least) & (lengths > FAINT * lengths.max(initial=0.0)), S, 0.0)


def number_of(score: Any) -> float:
    """Return the number of what a method `score` returns; NaN for correlations of rows that say nothing about them."""
    if hasattr(score, "correlations"):
        return float(score.total) if score.rows >= FEWEST and score.total else math.nan
    return float(getattr(score, "total", score))


def rows_to_score(
    problem: Problem[Any],
    given: Mapping[str, Any],
    what: str,
    each: str,
    error: type[LinspecError],
    fixed: Container[str],
) -> dict[str, LinearOperator]:
    """Return new rows of each matrix as operators, checked: those of the matrices `fixed` must have their columns."""
    rows = {name: as_operator(data, f"the {what} rows of {name}") for name, data in given.items()}
    for name, A in rows.items():
        columns = problem.matrices[name].shape[1]
        if A.shape[1] != columns and name in fixed:
            raise InvalidProblem(f"the {what} rows of {name} must have {columns} columns; got {A.shape[1]}.")
        if A.sweeps == 1:
            raise error(
                f"the {what} rows of {name} are read once for each {each}; got an iterator. Pass a callable that "
                "returns a fresh one."
            )
    (first, A), *others = rows.items()
    for name, B in others:
        check_rows(f"the {what} rows of {first}", A, f"those of {name}", B)
    return rows


def score_of_rows(solution: Any, matrices: Sequence[Any]) -> Any:
    """Score an answer on rows by its method `score`, or by the correlations of paired scores if it has none."""
    if callable(getattr(solution, "score", None)):
        return solution.score(*matrices)
    scores = [np.asarray(to_host(brought_here(S)), dtype=np.float64) for S in solution.transform(*matrices)]
    centred = any(getattr(solution, name) is not None for name in solution.layout.means.values())
    blocks = [(S, np.ones(len(S))) for S in scores]
    return float(paired_correlations(solution, blocks, centred=centred).sum())


def first_components(solution: Any, k: int | None) -> Any:
    """Return a solution with its first k components only; the solution itself if k is None.

    An array of the solution is cut along each axis that its field declares as "k" (`shape` of `linspec.field`).
    """
    if k is None:
        return solution

    def cut(axes: str, part: Any) -> Any:
        for letters in map(str.split, axes.split("|")):
            if is_array(part) and part.ndim == len(letters) and "k" in letters:
                return part[tuple(slice(k) if letter == "k" else slice(None) for letter in letters)]
        return part

    fields = {
        name: each_part(getattr(solution, name), partial(cut, axes))
        for name, axes in solution.layout.shapes.items()
    }
    return dataclasses.replace(solution, **fields)
