"""Scores of one split by solving: what is done where no Gram matrices can be held.

Problem: views may be too wide for Gram matrices, and a score need not be a function of second moments.
Method: for each split the problem on the training rows is solved for each ridge with the largest k: in one run where
problem and solver take a path of ridges, otherwise from the largest ridge down. All ridges of a split share the moments
of its rows where the problem takes moments, so a sparse Gram matrix that fits is formed once; a solver with the trait
"warm-start" begins at the answer for the ridge before. The leading columns of a solution are scored for the smaller k.
Where we differ: passes are readings of all rows. A sweep over the training rows counts as their share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from linspec import cost
from linspec.arrays import HostArray
from linspec.errors import MissingCapability
from linspec.held_out.folds import Folds
from linspec.held_out.scores import HeldOutScore
from linspec.solution import Status
from linspec.solver import Solver, chosen_solver, has_trait, solve


def scored_by_solving(  # noqa: PLR0913, PLR0917 (the arguments of cross_validate)
    problem: Any,
    folds: Folds,
    score: HeldOutScore,
    ridges: Sequence[Any],
    ks: Sequence[int | None],
    solver: str | Solver,
    form: str,
    options: dict[str, Any],
    rounding: HostArray | None = None,
) -> tuple[HostArray, float]:
    """The scores of all splits, shape (splits, ridges, ks), and the passes.

    Where `rounding` is given, an array of the same shape, it holds what moves the answers, and the rounding of the
    scores is put there.

    Raises
    ------
    MissingCapability
        Rows cannot be taken from a matrix.
    KeyboardInterrupt
        When Ctrl-C ends a solve: the scores would be those of an unfinished answer.
    """
    for name, A in problem.matrices.items():
        if not A.sliceable:
            raise MissingCapability(
                f"one solve for each ridge and split needs rows that can be taken; got {A!r} for {name}. Pass an "
                'array, a sparse matrix or a file, or fewer columns, for which form="dense" reads slices once.'
            )
    found = np.empty((len(folds.splits), len(ridges), len(ks)))
    passes = 0.0
    most = max((k for k in ks if k is not None), default=None)
    for split, (training, held_out) in enumerate(folds.splits):
        fitted = problem.on_rows(training).with_numbers(k=most)
        rest = problem.on_rows(held_out)
        made, swept = _solutions(fitted, ridges, solver, form, options)
        found[split] = score.of_solutions(rest, made, ks)
        if rounding is not None:  # the predictions once more, and the lengths of the columns
            rounding[split] = score.rounding_of_solutions(rest, made, rounding[split])
            passes += (len(made) + 1) * len(held_out) / folds.rows
        passes += (swept * len(training) + (1 if score.together else len(made)) * len(held_out)) / folds.rows
    return found, passes


def _solutions(
    problem: Any, ridges: Sequence[Any], solver: str | Solver, form: str, options: dict[str, Any]
) -> tuple[list[Any], float]:
    """A solution for each ridge, and the passes over the rows that they took."""
    problem = _sharing(problem, len(ridges), form)
    if hasattr(problem, "path") and (solver == "auto" or has_trait(problem, solver, "path")):
        return _along_path(problem.with_numbers(ridge=tuple(ridges)), solver, options)
    order = sorted(range(len(ridges)), key=lambda i: -_size(ridges[i]))
    problems = [problem.with_numbers(ridge=ridge) for ridge in ridges]
    solver, options = chosen_solver(problems[order[0]], solver, options)
    warm, start = has_trait(problem, solver, "warm-start"), options.pop("start", None)
    found: dict[int, Any] = {}
    for i in order:
        found[i] = solve(problems[i], solver, start=start, **options)
        if found[i].status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        start = found[i] if warm else None
    return [found[i] for i in range(len(ridges))], sum(solution.passes for solution in found.values())


def _along_path(problem: Any, solver: Any, options: dict[str, Any]) -> tuple[list[Any], float]:
    """The same from one run for all ridges."""
    solver, options = chosen_solver(problem, solver, options)
    found = solve(problem, solver, **options)
    if found.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return found.along_path(), found.passes


def _sharing(problem: Any, ridges: int, form: str) -> Any:
    """The problem on moments that all its ridges share, where it takes moments."""
    adjusted = problem.adjusted()
    twin = adjusted.with_numbers()
    moments = twin.moments(form, (cost.EXPECTED_PRODUCTS * ridges, twin.width))
    object.__setattr__(twin, "shared", moments)
    return twin if twin.moments("auto", (1, 1)) is moments else adjusted


def _size(ridge: Any) -> float:
    return 0.0 if ridge is None else float(np.sum(ridge))
