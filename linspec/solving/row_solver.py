"""Solvers on rows in blocks, and a run of one of them: from a problem to a solution."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from linspec import iteration
from linspec.arrays import Array, copied, is_array
from linspec.iteration import Limits, Outcome
from linspec.operators import uncounted
from linspec.process.log import LOG, tells
from linspec.registry.options import is_number, stated_options
from linspec.rows import Moments, Passes
from linspec.solving.checkpoints import CheckpointWriter, how_to_go_on
from linspec.solving.on_rows import OnRows
from linspec.solving.run import KEPT, Progress, says_stop
from linspec.solving.solution import History, labels_of_rows
from linspec.solving.solver import Solver
from linspec.solving.verdict import verdict
from linspec.status import Status

__all__ = ["RowSolver", "run_on_rows"]


@dataclass(frozen=True, kw_only=True)
class RowSolver(Solver, iteration.Solver):
    """A solver on rows in blocks: a frozen dataclass of options with the one method `iterate`.

    Where another solver has it as a part, its iterates are taken until one is within the tolerance.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from dataclasses import dataclass
    >>> from linspec.iteration import Iterate
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Eigenvectors(ls.solving.RowSolver):
    ...     def iterate(self, problem, moments, context, start):
    ...         V = np.linalg.eigh(moments.gram()[0][0])[1][:, ::-1]
    ...         yield Iterate(0.0, lambda: {"Vh": V[:, : problem.k].T}, final=True)
    >>> ls.solve(ls.SVD(np.diag([3.0, 2.0]), k=1), Eigenvectors()).S
    array([3.])
    """

    def solve(self, problem: Any, run: Any) -> Any:
        """Solve `problem`, whose matrices are preprocessed, as a part of another solver."""
        context = iteration.Context(problem.default_tol, run.rng, Passes())
        bare = {name: uncounted(A) for name, A in problem.matrices.items()}
        stated = (
            problem.with_matrices({name: A for name, (A, _) in bare.items()})
            if problem.given is None
            else problem
        )
        moments = OnRows(stated).moments(context.passes)
        arrays = self.answered(problem, moments, context)
        for (A, ledger), times in zip(bare.values(), moments.read, strict=True):
            ledger.record(A, context.passes.columns, sweeps=times)
        return run.finish(**arrays)

    def answered(self, problem: Any, moments: Moments, context: iteration.Context) -> Mapping[str, Array]:
        """The arrays of the first iterate within the tolerance, as a part of another solver, which judges them.

        Parameters
        ----------
        problem : object
            With `k`, and what else the solver asks of it.
        moments : Moments
        context : Context
            Its tolerance serves if the solver has none of its own.
        """
        asked = getattr(self, "tol", None)
        own = iteration.Context(context.tol if asked is None else asked, context.rng, context.passes)
        for made, last in enumerate(self.iterate(problem, moments, own, None)):
            within = last.residual <= own.tol and not last.doubt
            if last.final or within or made >= self.max_iterations:
                break
        return last.arrays()


def run_on_rows(  # noqa: PLR0913 (what one call of `solve` sets)
    problem: Any,
    solver: Any,
    name: str,
    *,
    rng: Any,
    callbacks: Sequence[Callable[[Progress], Any]],
    start: Mapping[str, Array] | None,
    resumed: bool,
    writer: CheckpointWriter | None,
    tol: float | None,
    max_passes: float | None,
    max_seconds: float | None,
    began: float,
    complete: bool = False,
) -> Any:
    """Run one solver on a problem, and return its solution."""
    stated = OnRows(problem, resumed=resumed, complete=complete)
    own = getattr(solver, "tol", None)
    asked = own if is_number(own) else tol
    try:
        outcome = iteration.run(
            stated,
            solver,
            tol=asked,
            rng=rng,
            limits=Limits(max_passes or math.inf, max_seconds or math.inf, began),
            callback=partial(_told, stated, callbacks) if callbacks else None,
            start=start,
            saving=writer,
            name=name,
        )
    except BaseException as error:
        if writer is not None:
            error.add_note(how_to_go_on(writer))
        raise
    tol = stated.tol if asked is None else asked
    early = outcome.ending in KEPT and not outcome.certificate.residual <= tol
    remarks = () if writer is None or not early else (how_to_go_on(writer),)
    return _solution(problem, solver, name, outcome, tol, remarks, by_default=asked is None)


def _told(
    stated: OnRows, callbacks: Sequence[Callable[[Progress], Any]], seen: Any, iterate: iteration.Iterate
) -> bool:
    """Call the callbacks of a user; whether one of them asks to stop."""
    copies = partial(_copies, stated, iterate)
    progress = Progress(seen.iteration, seen.passes, seen.seconds, seen.residual, copies)
    stops = [says_stop(call(progress)) for call in callbacks]  # each is called
    return any(stops)


def _copies(stated: OnRows, iterate: iteration.Iterate) -> dict[str, Any]:
    """The arrays of an iterate for the columns of the data, for a callback to keep and change."""
    arrays = stated.problem.for_data(stated.rows, iterate.arrays())
    return {name: _copied(x) for name, x in arrays.items()}


def _copied(x: Any) -> Any:
    """A copy of an array, or of those of several views."""
    return tuple(map(_copied, x)) if isinstance(x, tuple) else copied(x) if is_array(x) else x


def _solution(
    problem: Any,
    solver: Any,
    name: str,
    outcome: Outcome,
    tol: float,
    remarks: Sequence[str],
    *,
    by_default: bool,
) -> Any:
    """Make the solution."""
    certificate, notes = outcome.certificate, outcome.notes
    tol = max(tol, certificate.least)
    end = verdict(
        problem,
        certificate,
        tol=tol,
        by_default=by_default,
        once=problem.sweeps == 1,
        ending=None if outcome.final else outcome.ending,
        interrupted=outcome.ending is Status.INTERRUPTED,
        cut=outcome.ending in (Status.BUDGET, Status.OUT_OF_MEMORY),
        underflowing=False,
        notes=notes,
        contradictions=(),
        remarks=remarks,
    )
    solution = problem.solution(
        status=end.status,
        converged=end.converged,
        message=end.message,
        residual=certificate.residual,
        residual_kind=certificate.kind,
        iterations=outcome.iterations,
        passes=outcome.passes.count,
        columns=outcome.passes.columns,
        flops=outcome.passes.flops,
        seconds=outcome.seconds,
        setup_passes=0.0,
        history=History(list(outcome.history)).table(),
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
        LOG.debug(
            "%s: ends as %s after %d iterations, %g passes and %.3g s: %s",
            name,
            end.status.name,
            solution.iterations,
            solution.passes,
            solution.seconds,
            end.message,
        )
    return solution
