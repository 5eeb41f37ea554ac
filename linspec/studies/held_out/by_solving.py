"""Cross-validation by one solve for each ridge and split, if Gram matrices cannot be held.

Problem: views may be too wide for Gram matrices, and a score need not be a function of second moments.
Method: for each split the problem on the training rows is solved for each ridge (`linspec.solving.ridges`) with the
largest k. The leading columns of a solution are scored for the smaller k.
Where we differ: one pass is a reading of all rows. A sweep over training rows counts as the fraction of the rows that
they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from linspec.arrays import HostArray
from linspec.errors import MissingCapability
from linspec.process.interrupts import NothingYet, Request, first_interrupt
from linspec.solving.ridges import along_ridges
from linspec.solving.solver import Solver
from linspec.solving.verdict import CHOICE, WARNED
from linspec.status import Status
from linspec.studies.held_out.folds import Folds
from linspec.studies.held_out.scores import HeldOutScore, Ks, Rounded

LOST_DIGITS = WARNED | {Status.ILL_CONDITIONED}
"""Endings after which a score may be wrong by more than the tolerance of the solve."""


def scored_by_solving(  # noqa: PLR0913, PLR0917 (the arguments of cross_validate)
    problem: Any,
    folds: Folds,
    score: HeldOutScore,
    ridges: Sequence[Any],
    ks: Ks,
    solver: str | Solver,
    form: str,
    options: dict[str, Any],
    moved: HostArray | None = None,
) -> tuple[Rounded, float]:
    """Compute the scores of all splits, with their rounding, of shape (splits, ridges, ks), and the number of passes.

    The rounding is infinite where the status of a solution says that its digits are lost, or that its solver gave up,
    and where the solution is one of several.

    Parameters
    ----------
    problem : Problem
        With the largest k.
    folds : Folds
    score : HeldOutScore
    ridges, ks : sequence
        The ridges, in the form in which the problem holds them, and the values of k.
    solver, options
        As for `linspec.solve`.
    form : str
        How each solve holds the moments of its data: see `linspec.Moments`.
    moved : numpy.ndarray of shape (splits, ridges, ks), optional
        `Rounded.moved` of scores from moments, which the scores of solutions replace.

    Raises
    ------
    MissingCapability
        If rows of a matrix cannot be selected.
    KeyboardInterrupt
        If Ctrl-C ends a solve, because scores of an unfinished solution would be wrong.
    """
    for name, A in problem.matrices.items():
        if A.access != "rows":
            raise MissingCapability(
                f"one solve for each ridge and split needs rows that can be taken; got {A!r} for {name}. Pass an "
                'array, a sparse matrix or a file, or fewer columns, for which form="dense" reads slices once.'
            )
    found, rounding = np.zeros((2, len(folds.splits), len(ridges), len(ks)))
    passes, stop = 0.0, Request()
    for split, (training, held_out) in enumerate(folds.splits):
        fitted = problem.on_rows(training)
        rest = problem.on_rows(held_out)
        with first_interrupt(stop.make):
            by_ridge, swept = along_ridges(fitted, ridges, solver, form, options, stop)
        if stop.made:
            raise NothingYet
        made = [by_ridge[i] for i in range(len(ridges))]
        found[split] = score.of_solutions(rest, made, ks)
        if moved is not None:  # predicts once more, and reads column lengths
            rounding[split] = score.rounding_of_solutions(rest, made, moved[split])
            passes += (len(made) + 1) * len(held_out) / folds.rows
        rounding[split, [one.status in LOST_DIGITS or CHOICE in one.message for one in made]] = np.inf
        passes += (swept * len(training) + (1 if score.together else len(made)) * len(held_out)) / folds.rows
    return Rounded(found, rounding), passes
