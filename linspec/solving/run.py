"""A run of a solver: from a problem to a solution."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from linspec import iteration
from linspec.arrays import Array, copied, is_array
from linspec.errors import OutOfMemory, one_line
from linspec.iteration import Outcome, Progress
from linspec.iteration.loop import is_out_of_memory
from linspec.process.log import LOG, tells
from linspec.registry.options import is_number, stated_options
from linspec.solving.checkpoints import CheckpointWriter
from linspec.solving.fields import each_part
from linspec.solving.on_rows import certified, moments_of
from linspec.solving.solution import HISTORY_TYPE, labels_of_rows
from linspec.solving.verdict import status_and_message
from linspec.status import Status

KEPT = (Status.BUDGET, Status.INTERRUPTED, Status.ITERATION_LIMIT, Status.STOPPED)
"""Endings after which another run may continue the iteration, so that a checkpoint is written."""


def run(  # noqa: PLR0913 (what one call of `solve` sets)
    problem: Any,
    solver: Any,
    name: str,
    *,
    rng: Any,
    callbacks: Sequence[Callable[[Progress], Any]],
    start: Mapping[str, Array] | None = None,
    resumed: bool = False,
    writer: CheckpointWriter | None = None,
    tol: float | None,
    max_passes: float | None,
    max_seconds: float | None,
    began: float,
    complete: bool = False,
) -> Any:
    """Run one solver on a problem, and return its solution."""
    solver_tol = getattr(solver, "tol", None)
    requested = solver_tol if is_number(solver_tol) else tol
    tol = problem.default_tol if requested is None else requested

    def begin(moments: Any) -> Mapping[str, Array] | None:
        """A start for the preprocessed matrices; the iterate of a checkpoint is one."""
        return start if start is None or resumed else problem.for_preprocessed(moments, start)

    try:
        outcome = iteration.run(
            problem,
            solver,
            name,
            tol=tol,
            moments=partial(moments_of, problem, complete=complete),
            certify=partial(certified, problem, complete=complete),
            rng=rng,
            max_passes=max_passes or math.inf,
            max_seconds=max_seconds or math.inf,
            began=began,
            callback=partial(_call_back, problem, callbacks) if callbacks else None,
            start=begin,
            saving=writer,
        )
    except BaseException as error:
        if writer is not None:
            error.add_note(writer.how_to_go_on())
        if isinstance(error, OutOfMemory) or not is_out_of_memory(error):
            raise
        raise OutOfMemory(f"{name} ran out of memory: {one_line(error)}. Choose what holds less.") from error
    early = outcome.ending in KEPT and not outcome.certificate.residual <= tol
    sentences = () if writer is None or not early else (writer.how_to_go_on(),)
    return _solution(problem, solver, name, outcome, tol, sentences)


def _call_back(
    problem: Any,
    callbacks: Sequence[Callable[[Progress], Any]],
    seen: Progress,
    iterate: iteration.Iterate,
    moments: Any,
) -> bool:
    """Call the callbacks of a user; whether one of them asks to stop."""
    progress = seen._replace(current=partial(_copies, problem, iterate, moments))
    answers = [call(progress) for call in callbacks]  # each is called
    return any(
        bool(answer) and "bool" in str(getattr(answer, "dtype", bool))  # a number does not stop
        for answer in answers
        if isinstance(answer, bool | np.bool_) or is_array(answer)
    )


def _copies(problem: Any, iterate: iteration.Iterate, moments: Any) -> dict[str, Any]:
    """The arrays of an iterate for the columns of the data, for a callback to keep and change."""
    arrays = problem.for_data(moments, iterate.arrays())
    return {
        name: each_part(x, lambda part: copied(part) if is_array(part) else part)
        for name, x in arrays.items()
    }


def _solution(
    problem: Any,
    solver: Any,
    name: str,
    outcome: Outcome,
    tol: float,
    sentences: Sequence[str],
) -> Any:
    """Make the solution."""
    certificate = outcome.certificate
    ending = outcome.ending
    passes = outcome.context.passes
    tol = max(tol, certificate.least)
    status, converged, message = status_and_message(
        problem,
        certificate,
        tol=tol,
        once=problem.readings == 1,
        ending=None if outcome.last.final and ending is not Status.INTERRUPTED else ending,
        notes=outcome.context.notes,
        sentences=sentences,
    )
    solution = problem.solution(
        status=status,
        converged=converged,
        message=message,
        residual=certificate.residual,
        residual_kind=certificate.kind,
        iterations=max(len(outcome.history) - 1, 0),
        passes=passes.count,
        columns=passes.columns,
        flops=passes.flops,
        seconds=outcome.seconds,
        history=np.array([seen[:-1] for seen in outcome.history], dtype=HISTORY_TYPE),
        solver=name,
        column_names=dict(problem.column_names),
        frame_library=problem.frame_library,
        **labels_of_rows(problem, certificate.fields),
        problem=problem.name,
        ridge=getattr(problem, problem.stated.ridge) if problem.stated.ridge else None,
        tol=tol,
        options=stated_options(solver),
        **certificate.fields,
    )
    if tells():
        LOG.debug("%s: ends as %s: %s", name, status.name, message)
    return solution
