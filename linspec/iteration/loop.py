"""The loop around a solver: it ends the iteration, has the last iterate judged, and says how it ended.

The iteration ends by the solver's residual, its own end, a limit of iterations, passes or seconds, a callback, or
Ctrl-C. In each case the last iterate is certified, for which passes are set aside. If the certificate finds a larger
residual than the solver, the tolerance falls in proportion, and the same generator goes on, as long as that helps.
"""

from __future__ import annotations

import errno
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from linspec.arrays import Array, to_host
from linspec.errors import BrokenPlugin, BudgetTooSmall, OutOfMemory, one_line
from linspec.iteration.iterate import Certificate, Context, Iterate
from linspec.process.interrupts import NothingYet, first_interrupt
from linspec.process.pauses import looking
from linspec.process.plurals import count_of
from linspec.rows.passes import OutOfPasses, Passes
from linspec.status import Status

__all__ = ["Limits", "Outcome", "Progress", "Saving", "run"]

LEAST_TOL = float(np.finfo(np.float64).eps)
"""The tolerance falls no further than this."""

HELPED, PATIENCE, IDLE = 0.9, 25, 3
"""A residual gets on if it is below this part of the least one so far. A solver that was sent back has so many
iterations for it each time, and may be sent back so often without."""


class Progress(NamedTuple):
    """What a callback is told, and what history keeps."""

    iteration: int
    passes: float
    columns: float
    flops: float
    seconds: float
    residual: float


class Limits(NamedTuple):
    """What a run may take.

    Attributes
    ----------
    passes : float, default infinity
        With those of the certificate.
    seconds : float, default infinity
    began : float, optional
        The time of `time.perf_counter` from which seconds count; by default now.
    """

    passes: float = math.inf
    seconds: float = math.inf
    began: float | None = None


class Saving(Protocol):
    """Writes checkpoints."""

    @property
    def due(self) -> bool:
        """Whether it is time to write."""

    def write(self, state: Mapping[str, Any]) -> None:
        """Write the arrays of an iterate, which are on the host, as "iterate"."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes
    ----------
    arrays : mapping of str to array
        Those of the last iterate.
    certificate : Certificate
    ending : Status
        CONVERGED by the solver's residual, STAGNATED where it had nothing more to give.
    final : bool
        Whether the solver has nothing to add to the last iterate.
    history : tuple of Progress
    """

    arrays: Mapping[str, Array]
    certificate: Certificate
    notes: tuple[tuple[Status | None, str], ...]
    ending: Status
    final: bool
    history: tuple[Progress, ...]
    passes: Passes
    seconds: float

    @property
    def iterations(self) -> int:
        """The number of the last iterate."""
        return max(len(self.history) - 1, 0)


def run(  # noqa: PLR0913 (what one run is told)
    problem: Any,
    solver: Any,
    name: str,
    *,
    tol: float,
    moments: Callable[[Passes], Any],
    certify: Callable[[Any, Mapping[str, Array], float], Certificate],
    rng: Any = None,
    limits: Limits | None = None,
    callback: Callable[[Progress, Iterate, Any], Any] | None = None,
    start: Callable[[Any], Mapping[str, Array] | None] | None = None,
    saving: Saving | None = None,
) -> Outcome:
    """Run a solver on a problem.

    Parameters
    ----------
    problem : Problem
    solver : Solver
    name : str
        The name of the solver in messages.
    tol : float
    moments : callable
        Takes the count of passes, in which it sets some aside; returns what the solver multiplies with.
    certify : callable
        Takes the moments, the arrays of an iterate and the tolerance.
    rng : seed or numpy.random.Generator, optional
    limits : Limits, optional
    callback : callable, optional
        Takes a `Progress`, the iterate and the moments; a true answer ends the run.
    start : callable, optional
        Takes the moments; returns the arrays at which the solver begins, or None.
    saving : Saving, optional

    Raises
    ------
    BudgetTooSmall, OutOfMemory, KeyboardInterrupt
        A limit, the end of memory or Ctrl-C came before there was an iterate.
    """
    limits = limits or Limits()
    began = time.perf_counter() if limits.began is None else limits.began
    passes = Passes(limits.passes, began + limits.seconds)
    context = Context(tol, rng, passes)
    begin = partial(_begun, problem, solver, context, moments, start)
    watch = _Watch(begin, solver.max_iterations, context, name, limits, callback, saving, began)
    with first_interrupt(passes.interrupt), looking(passes.look), np.errstate(all="ignore"):
        least, idle = math.inf, 0
        while True:
            ending = watch.ending()
            last = watch.kept(ending)
            try:
                with _closing(passes, limits.seconds):
                    arrays = last.arrays()
                    certificate = certify(watch.moments, arrays, tol)
            except OutOfPasses as error:
                raise watch.nothing(Status.BUDGET) from error
            again = ending is Status.CONVERGED and not last.final
            again = again and certificate.residual > max(tol, certificate.least)
            idle = 0 if certificate.residual < HELPED * least else idle + 1
            if not again or context.tol <= LEAST_TOL or idle > IDLE or passes.interrupted:
                break
            least, watch.sent_back = min(least, certificate.residual), True
            context.tol *= max(tol / certificate.residual / 2, 1e-3)
    if passes.interrupted:
        ending = Status.INTERRUPTED
    seconds = time.perf_counter() - began
    if last.doubt and ending is not Status.CONVERGED:
        context.note(Status.INCOMPLETE, last.doubt)
        certificate = certificate._replace(lost=True)
    notes = tuple(context.notes)
    return Outcome(arrays, certificate, notes, ending, last.final, tuple(watch.history), passes, seconds)


def _begun(
    problem: Any,
    solver: Any,
    context: Context,
    moments: Callable[[Passes], Any],
    start: Callable[[Any], Any] | None,
) -> tuple[Any, Iterator[Iterate]]:
    """Return the moments, which may take a pass, and the iterates."""
    products = moments(context.passes)
    return products, solver.iterate(problem, products, context, start and start(products))


@dataclass
class _Watch:
    """Ends an iteration, and keeps its last iterate and its history."""

    begin: Callable[[], tuple[Any, Iterator[Iterate]]]
    most: float
    context: Context
    name: str
    limits: Limits
    callback: Callable[[Progress, Iterate, Any], Any] | None
    saving: Saving | None
    began: float
    moments: Any = None
    steps: Iterator[Iterate] | None = None
    history: list[Progress] = field(default_factory=list)
    last: Iterate | None = None
    cause: str = ""
    least: float = math.inf
    since: int = 0
    sent_back: bool = False

    def kept(self, status: Status) -> Iterate:
        """Return the last iterate of an iteration that ended so."""
        if self.last is None:
            raise self.nothing(status)
        if status is not Status.CONVERGED:
            self._write(self.last)
        return self.last

    def ending(self) -> Status:
        """Take iterates until the iteration ends; return how it ended."""
        try:
            self.context.passes.look()
            if self.steps is None:
                self.moments, self.steps = self.begin()
            for iterate in self.steps:
                if not math.isfinite(iterate.residual) and self.last is not None:
                    return Status.BREAKDOWN
                self.last = iterate
                status = self._look(iterate)
                if status is not None:
                    return status
                self.context.passes.look()  # steps with what is held make no pass
        except OutOfPasses:
            return Status.INTERRUPTED if self.context.passes.interrupted else Status.BUDGET
        except Exception as error:
            if not _is_out_of_memory(error):
                if self.last is not None:
                    self._write(self.last)
                raise
            self.cause = one_line(error)
            return Status.OUT_OF_MEMORY
        return Status.STAGNATED  # the generator has nothing more to give

    def _look(self, iterate: Iterate) -> Status | None:
        """How the iteration ends with this iterate; None if it goes on."""
        if iterate.final and not self.history and self.most == math.inf:
            return Status.CONVERGED  # a direct method, which does not iterate
        passes = self.context.passes
        seconds = time.perf_counter() - self.began
        seen = Progress(
            len(self.history), passes.count, passes.columns, passes.flops, seconds, iterate.residual
        )
        self.history.append(seen)
        if self.saving is not None and self.saving.due:
            self._write(iterate)
        stopped = False
        if self.callback is not None:
            with _closing(passes, math.inf, counted=False):
                stopped = self.callback(seen, iterate, self.moments)
        if iterate.final or (iterate.residual <= self.context.tol and not iterate.doubt):
            return Status.CONVERGED
        if stopped:
            return Status.STOPPED
        if iterate.residual < HELPED * self.least:
            self.least, self.since = iterate.residual, seen.iteration
        if self.sent_back and seen.iteration - self.since > PATIENCE:
            return Status.STAGNATED
        return Status.ITERATION_LIMIT if seen.iteration >= self.most else None

    def _write(self, iterate: Iterate) -> None:
        """Write a checkpoint."""
        if self.saving is not None:
            with _closing(self.context.passes, math.inf, counted=False):
                arrays = {name: _on_host(x) for name, x in iterate.arrays().items()}
                self.saving.write({"iterate": arrays})

    def nothing(self, status: Status) -> BaseException:
        """The error of a run without an iterate that is judged."""
        passes, name = self.context.passes, self.name
        number = max(math.ceil(passes.count), 1)
        where = f"in pass {number} over the data, before it had an iterate that could be judged"
        if status is Status.INTERRUPTED:
            return NothingYet()
        if status is Status.STAGNATED:
            return BrokenPlugin(f"{name} must yield at least one iterate; it has returned without.")
        if status is Status.OUT_OF_MEMORY:
            return OutOfMemory(
                f"{name} ran out of memory {where}: {self.cause}. Choose a solver or a form that holds less, or give "
                "the process more memory."
            )
        if status is Status.BUDGET and passes.lacking:
            return BudgetTooSmall(
                f"{name} needs at least {count_of(passes.lacking, 'pass')} (set-up and certificate); got "
                f"max_passes={passes.most:g}. Raise it."
            )
        rows = zip(self.moments.names, self.moments.operators, strict=True) if self.moments else ()
        endless = [
            f" The rows of {name} have had no end so far: does its iterator end?"
            for name, A in rows
            if A.shape[0] == math.inf
        ]
        return BudgetTooSmall(
            f"{name} used up max_seconds={self.limits.seconds:g} {where}.{''.join(endless)} Raise max_seconds, or "
            "choose a solver that takes fewer passes."
        )


def _on_host(x: Any) -> Any:
    """An array of an iterate, or those of several views."""
    return tuple(map(to_host, x)) if isinstance(x, tuple) else to_host(x)


@contextmanager
def _closing(passes: Passes, seconds: float, *, counted: bool = True) -> Iterator[None]:
    """Give the passes that are set aside and as much time again; what looks at iterates on the way is not counted."""
    limits = passes.reserved, passes.until, passes.closing, passes.most
    counts = passes.count, passes.columns, passes.flops
    passes.reserved, passes.until, passes.closing = 0.0, time.perf_counter() + seconds, True
    passes.most = passes.most if counted else math.inf
    try:
        yield
    finally:
        passes.reserved, passes.until, passes.closing, passes.most = limits
        if not counted:
            passes.count, passes.columns, passes.flops = counts


def _is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: a MemoryError, OutOfMemoryError of torch and CuPy, or an OSError with ENOMEM."""
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(names & {"MemoryError", "OutOfMemoryError"}) or getattr(error, "errno", None) == errno.ENOMEM
