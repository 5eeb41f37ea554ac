"""The loop around a solver: it ends the iteration, has the last iterate judged, and says how it ended.

The iteration ends by the solver's residual, its own end, a limit of iterations, passes or seconds, a callback, or
Ctrl-C. In each case the last iterate is certified, for which passes are set aside. If the certificate finds a larger
residual than the solver, the tolerance falls in proportion, and the same generator goes on. A second Ctrl-C, while the
answer is judged, raises KeyboardInterrupt.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from linspec.arrays import Array, HostArray
from linspec.errors import InvalidOption, InvalidProblem
from linspec.iteration.checkpoint import Saving
from linspec.iteration.solver import Certificate, Context, Iterate, Problem, Solver
from linspec.rows.moments import Moments
from linspec.rows.passes import OutOfPasses, Passes
from linspec.status import Status

__all__ = ["Outcome", "Progress", "run"]

LEAST_TOL = float(np.finfo(np.float64).eps)
"""The tolerance falls no further than this."""


class Progress(NamedTuple):
    """What a callback is told, and what history keeps."""

    iteration: int
    passes: float
    seconds: float
    residual: float


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes
    ----------
    arrays : mapping of str to array
        Those of the last iterate.
    certificate : Certificate
    status : Status
        How the iteration ended; that of the certificate if it converged.
    iterations : int
    passes, seconds : float
    history : tuple of Progress
    """

    arrays: Mapping[str, Array]
    certificate: Certificate
    status: Status
    iterations: int
    passes: float
    seconds: float
    history: tuple[Progress, ...]


def run(
    problem: Problem,
    solver: Solver,
    *,
    tol: float | None = None,
    rng: Any = None,
    limits: tuple[float, float] = (math.inf, math.inf),
    callback: Callable[[Progress], Any] | None = None,
    start: Mapping[str, HostArray] | None = None,
    saving: Saving | None = None,
) -> Outcome:
    """Run a solver on a problem.

    Parameters
    ----------
    problem : Problem
    solver : Solver
    tol : float, optional
    rng : seed or numpy.random.Generator, optional
    limits : (float, float), default infinite
        Most passes, with those of the certificate, and most seconds.
    callback : callable, optional
        Takes a `Progress`; a true answer ends the run.
    start : mapping of str to numpy.ndarray, optional
    saving : Saving, optional

    Raises
    ------
    InvalidProblem
        A limit was reached before there was an iterate.
    """
    most, seconds = limits
    if most <= problem.certificate_passes:
        raise InvalidOption(
            f"max_passes must be above {problem.certificate_passes:g}, which the certificate takes; got {most:g}."
        )
    began, tol = time.perf_counter(), problem.tol if tol is None else tol
    passes = Passes(most - problem.certificate_passes, began + seconds)
    context, moments = Context(tol, np.random.default_rng(rng), passes), problem.moments(passes)
    watch = _Watch(context, solver.max_iterations, callback, saving, began)
    steps = solver.iterate(problem, moments, context, start)
    while True:
        last, status = watch.ended(steps)
        certificate = _certified(problem, moments, last, tol, passes)
        again = status is Status.CONVERGED and not last.final and certificate.residual > tol
        if not again or context.tol <= LEAST_TOL:
            break
        context.tol *= max(tol / certificate.residual / 2, 1e-3)
    return Outcome(
        last.arrays,
        certificate,
        certificate.status if status is Status.CONVERGED else status,
        len(watch.history) - 1,
        passes.count,
        time.perf_counter() - began,
        tuple(watch.history),
    )


@dataclass
class _Watch:
    """Ends an iteration, and keeps its last iterate and its history."""

    context: Context
    most: float
    callback: Callable[[Progress], Any] | None
    saving: Saving | None
    began: float
    history: list[Progress] = field(default_factory=list)
    last: Iterate | None = None

    def ended(self, steps: Iterator[Iterate]) -> tuple[Iterate, Status]:
        """Take iterates until the iteration ends; return the last one, and how it ended."""
        status = self._ended(steps)
        if self.last is None:
            raise InvalidProblem(
                f"the run ended before there was an iterate, after {self.context.passes.count:g} passes and "
                f"{time.perf_counter() - self.began:.3g} s. Raise max_passes or max_seconds."
            )
        if self.saving is not None and status is not Status.CONVERGED:
            self.saving.write(self.last.arrays)
        return self.last, status

    def _ended(self, steps: Iterator[Iterate]) -> Status:
        try:
            for iterate in steps:
                self.last = iterate
                status = self._look(iterate)
                if status is not None:
                    return status
        except OutOfPasses:
            return Status.BUDGET
        except KeyboardInterrupt:
            return Status.INTERRUPTED
        except MemoryError:
            return Status.OUT_OF_MEMORY
        return Status.STAGNATED  # the generator has nothing more to give

    def _look(self, iterate: Iterate) -> Status | None:
        """How the iteration ends with this iterate; None if it goes on."""
        seconds = time.perf_counter() - self.began
        seen = Progress(len(self.history), self.context.passes.count, seconds, iterate.residual)
        self.history.append(seen)
        if self.saving is not None:
            self.saving.offer(iterate.arrays)
        if iterate.final or iterate.residual <= self.context.tol:
            return Status.CONVERGED
        if self.callback is not None and self.callback(seen):
            return Status.STOPPED
        return Status.ITERATION_LIMIT if seen.iteration >= self.most else None


def _certified(problem: Problem, moments: Moments, last: Iterate, tol: float, passes: Passes) -> Certificate:
    """The certificate of an iterate, with the passes that are set aside and without a limit of time."""
    most, until = passes.most, passes.until
    passes.most, passes.until = most + problem.certificate_passes, math.inf
    try:
        return problem.certify(moments, last.arrays, tol)
    finally:
        passes.most, passes.until = most, until
