"""Estimated time and memory of each form of cross-validation, by which the form is chosen.

Problem: all scores can come from Gram matrices of training and of held-out rows, or from a solve for each ridge and
split. With few columns, Gram matrices are faster: they take one reading. With many columns, their decompositions take
longer than solves.
Method: count the operations of both forms, at the rates of `linspec.cost`; for a solve use the estimate of its
solver, with the number of rows of a training set. Solves of one split share the moments of its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from linspec import cost
from linspec.solving.select import estimated, has_trait
from linspec.studies.held_out.cells import bytes_held
from linspec.studies.held_out.folds import Folds
from linspec.studies.held_out.scores import HeldOutScore

MERGING = 40
"""Cost of merging and adjusting the Gram matrices of one split, in units of reading each entry of one d x d matrix.

d is the number of columns of all matrices and confounds."""

A_SOLVE, A_SCORE = 2e-3, 1e-4
"""Seconds that a solve, and a score from moments, take for the smallest problem."""


def estimates_of(
    problem: Any,
    folds: Folds,
    score: HeldOutScore,
    ridges: Sequence[Any],
    solver: Any,
) -> dict[str, cost.Estimate]:
    """Estimated time and memory of the forms "dense" and "solve", without a form that data or score do not permit.

    Parameters
    ----------
    problem : Problem
        With the largest k.
    folds : Folds
    score : HeldOutScore
    ridges : sequence
    solver : str or Solver
    """
    found = {}
    if score.by_moments:
        found["dense"] = _dense(problem, folds, score, len(ridges))
    if all(A.access == "rows" for A in problem.matrices.values()):
        solving = _solving(problem, folds, ridges, solver)
        if solving is not None:
            found["solve"] = solving
    return found


def _dense(problem: Any, folds: Folds, score: HeldOutScore, ridges: int) -> cost.Estimate:
    """Estimate the form "dense": one sweep, and the decompositions of each split."""
    columns = sum(A.shape[1] for A in problem.matrices.values())
    columns += 0 if problem.confounds is None else problem.confounds.shape[1]
    forming = cost.moments_estimates(problem.sizes(), 0, 1).get("dense")
    seconds = 0.0 if forming is None else forming.seconds
    merging = MERGING * float(columns) ** 2 * cost.READING / cost.DENSE_RATE
    seconds += len(folds.splits) * (merging + score.seconds_of_split(problem, ridges) + ridges * A_SCORE)
    note = f"the Gram matrices of {len(folds.cells)} sets of rows of {columns} columns"
    return cost.Estimate(seconds, bytes_held(columns, folds), note)


def _solving(problem: Any, folds: Folds, ridges: Sequence[Any], solver: Any) -> cost.Estimate | None:
    """Estimate the form "solve": a solve for each ridge and split, or one for all ridges of a split."""
    path = hasattr(problem, "path") and (solver == "auto" or has_trait(problem, solver, "path"))
    runs = 1 if path else len(ridges)
    stated = problem.with_numbers(ridge=tuple(ridges) if path else ridges[0])
    splits = len(folds.splits)
    share = sum(len(training) for training, _ in folds.splits) / (splits * folds.rows)
    whole = stated.sizes()  # of which a training set has the fraction `share`
    pairs = None if whole.pairs is None else int(share * whole.pairs)
    sizes = replace(whole, n=max(int(share * whole.n), 1), nnz=int(share * whole.nnz), pairs=pairs)
    name, one = estimated(stated, solver, sizes)
    if one is None:
        return None
    rate = cost.SPARSE_RATE if sizes.scattered else cost.DENSE_RATE
    rows = sizes.nnz * (2 * cost.READING + 2.0 * sizes.k * runs * (1 - share) / share) / rate
    form, _ = cost.moments_form(sizes, cost.EXPECTED_PRODUCTS * runs, sizes.k)
    forming = cost.moments_estimates(sizes, 0, 1)[form].seconds
    shared = min(forming, one.seconds) if runs > 1 else 0.0
    seconds = splits * (rows + shared + runs * (one.seconds - shared + A_SOLVE))
    copied = 8.0 * sizes.nnz * (2 if sizes.scattered else 1)
    note = f"{splits} x {runs} solves by {name}"
    return cost.Estimate(seconds, one.bytes + copied, note)
