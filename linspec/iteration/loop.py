"""What a solver yields, what it may ask, and the loop around it: it has the last iterate judged, and says how it ended.

A solver yields iterates: some arrays and its own residual of them. It asks moments for products, which count passes,
and its `Context` for the tolerance and for random numbers. Whether an iterate is good enough, whether there is time for
another one, and what is said of the last one, is not its business.

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
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from linspec.arrays import Array, HostArray, random_generator, to_host
from linspec.errors import BrokenPlugin, BudgetTooSmall, OutOfMemory, one_line
from linspec.process.interrupts import NothingYet, first_interrupt
from linspec.process.pauses import looking
from linspec.process.plurals import count_of
from linspec.rows.passes import OutOfPasses, Passes
from linspec.status import Status

FRESH = 5
"""Random columns that a start gets, at least: the iteration itself searches for what the start lacks."""


class Iterate(NamedTuple):
    """One iterate of a solver.

    Attributes
    ----------
    residual : float
        The solver's own, relative as that of the problem.
    arrays : callable
        Returns all that a later run needs to go on, as a mapping of arrays by the names of the answer. They are not
        changed later.
    final : bool, default False
        Whether the solver has nothing to add: a direct method, or a space that is exhausted.
    doubt : str, default ""
        Why a small residual does not end the iteration yet, as while a start may lack something: it is said if the run
        ends here.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> last = ls.Iterate(0.0, lambda: {"x": np.zeros((2, 1))}, final=True)
    >>> last.arrays()["x"].shape
    (2, 1)
    """

    residual: float
    arrays: Callable[[], Mapping[str, Array]]
    final: bool = False
    doubt: str = ""


class Certificate(NamedTuple):
    """What is said of returned arrays.

    Attributes
    ----------
    residual : float
        Computed from the arrays, not taken from the solver.
    notes : tuple of (Status or None, str)
        What makes the answer doubtful, or only text for the message.
    fields : mapping of str to object
        Those of the solution.
    kind : str, default "recomputed"
        Where the residual comes from.
    lost : bool, default False
        Whether the answer lacks something, whatever the residual.
    least : float, default 0
        The residual that rounding of the data leaves.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> found = ls.Certificate(1e-9, ((ls.Status.DEGENERATE, "All views agree."),), {"sums": np.ones(1)})
    >>> found.residual, found.lost
    (1e-09, False)
    """

    residual: float
    notes: tuple[tuple[Status | None, str], ...] = ()
    fields: Mapping[str, Any] = MappingProxyType({})
    kind: str = "recomputed"
    lost: bool = False
    least: float = 0.0


@dataclass
class Context:
    """What a solver may ask of its run.

    Attributes
    ----------
    tol : float
        The residual at which the iteration ends. It falls if the certificate finds a larger residual than the solver.
    seed : None, int, sequence of int, or numpy.random.Generator
    passes : Passes
    notes : list of (Status or None, str)
        What the solver says of its answer.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.rows import Passes
    >>> context = ls.Context(1e-6, np.random.default_rng(0), Passes())
    >>> context.note(ls.Status.APPROXIMATE, "Few steps were made.")
    >>> context.notes[0][1], context.filled(None, 5, 2).shape
    ('Few steps were made.', (5, 2))
    """

    tol: float
    seed: Any
    passes: Passes
    notes: list[tuple[Status | None, str]] = field(default_factory=list)

    @cached_property
    def rng(self) -> np.random.Generator:
        """The random numbers of the run: most solvers of small problems need none."""
        return random_generator(self.seed)

    def note(self, status: Status | None, text: str) -> None:
        """Say something of the answer, once; a status such as RANK_DEFICIENT becomes that of the solution."""
        if (status, text) not in self.notes:
            self.notes.append((status, text))

    def filled(self, start: HostArray | None, rows: int, width: int) -> HostArray:
        """Return a first block of `width` columns, or as many as there are rows: those of a start, the rest random.

        Parameters
        ----------
        start : numpy.ndarray of shape (rows, m), or None
        rows, width : int
        """
        width = min(width, rows)
        if start is None:
            return self.rng.standard_normal((rows, width))
        kept = start[:, : max(width - FRESH, 0)]
        unit = float(np.linalg.norm(kept)) / math.sqrt(max(kept.size, 1)) or 1.0
        return np.hstack([kept, unit * self.rng.standard_normal((rows, width - kept.shape[1]))])


LEAST_TOL = float(np.finfo(np.float64).eps)
"""The tolerance falls no further than this."""

HELPED, PATIENCE, IDLE = 0.9, 25, 3
"""A residual gets on if it is below this part of the least one so far. A solver that was sent back has so many
iterations for it each time, and may be sent back so often without."""


class Progress(NamedTuple):
    """What a callback is told, and what history keeps.

    Attributes
    ----------
    iteration : int
    passes, columns, flops, seconds, residual : float
    current : callable, optional
        Computes the iterate as a dict of arrays. They are copies, which a callback may keep and change.
    """

    iteration: int
    passes: float
    columns: float
    flops: float
    seconds: float
    residual: float
    current: Any = None


class Outcome(NamedTuple):
    """How a run ended.

    Attributes
    ----------
    last : Iterate
    certificate : Certificate
        Of the arrays of the last iterate.
    ending : Status
        CONVERGED by the solver's residual, STAGNATED where it had nothing more to give.
    history : list of Progress
    context : Context
        With the notes of the solver, and the count of passes.
    seconds : float
    """

    last: Iterate
    certificate: Certificate
    ending: Status
    history: list[Progress]
    context: Context
    seconds: float


def run(  # noqa: PLR0913 (what one run is told)
    problem: Any,
    solver: Any,
    name: str,
    *,
    tol: float,
    moments: Callable[[Passes], Any],
    certify: Callable[[Any, Mapping[str, Array], float], Certificate],
    rng: Any = None,
    max_passes: float = math.inf,
    max_seconds: float = math.inf,
    began: float | None = None,
    callback: Callable[[Progress, Iterate, Any], Any] | None = None,
    start: Callable[[Any], Mapping[str, Array] | None] | None = None,
    saving: Any = None,
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
    max_passes : float, default infinity
        With those of the certificate.
    max_seconds : float, default infinity
    began : float, optional
        The time of `time.perf_counter` from which seconds count; by default now.
    callback : callable, optional
        Takes a `Progress`, the iterate and the moments; a true answer ends the run.
    start : callable, optional
        Takes the moments; returns the arrays at which the solver begins, or None.
    saving : object, optional
        Has `due`, and the method `write` for the arrays of an iterate, on the host, as "iterate".

    Raises
    ------
    BudgetTooSmall, OutOfMemory, KeyboardInterrupt
        A limit, the end of memory or Ctrl-C came before there was an iterate.
    """
    began = time.perf_counter() if began is None else began
    passes = Passes(max_passes, began + max_seconds)
    context = Context(tol, rng, passes)
    watch = _Watch(problem, solver, name, context, moments, start, callback, saving, began, max_seconds)
    with first_interrupt(passes.interrupt), looking(passes.look), np.errstate(all="ignore"):
        least, idle = math.inf, 0
        while True:
            ending, last = watch.ending(), watch.last
            if last is None:
                raise watch.nothing(ending)
            if ending is not Status.CONVERGED:
                watch.write(last)
            try:
                with _closing(passes, max_seconds):
                    certificate = certify(watch.products, last.arrays(), tol)
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
    return Outcome(last, certificate, ending, watch.history, context, seconds)


@dataclass
class _Watch:
    """Ends an iteration, and keeps its last iterate and its history."""

    problem: Any
    solver: Any
    name: str
    context: Context
    moments: Callable[[Passes], Any]
    start: Callable[[Any], Mapping[str, Array] | None] | None
    callback: Callable[[Progress, Iterate, Any], Any] | None
    saving: Any
    began: float
    max_seconds: float
    products: Any = None
    steps: Iterator[Iterate] | None = None
    history: list[Progress] = field(default_factory=list)
    last: Iterate | None = None
    cause: str = ""
    least: float = math.inf
    since: int = 0
    sent_back: bool = False

    def ending(self) -> Status:
        """Take iterates until the iteration ends; return how it ended."""
        try:
            self.context.passes.look()
            if self.steps is None:
                self.products = self.moments(self.context.passes)  # which may take a pass
                begin = None if self.start is None else self.start(self.products)
                self.steps = self.solver.iterate(self.problem, self.products, self.context, begin)
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
            if not is_out_of_memory(error):
                if self.last is not None:
                    self.write(self.last)
                raise
            self.cause = one_line(error)
            return Status.OUT_OF_MEMORY
        return Status.STAGNATED  # the generator has nothing more to give

    def _look(self, iterate: Iterate) -> Status | None:
        """How the iteration ends with this iterate; None if it goes on."""
        if iterate.final and not self.history and self.solver.max_iterations == math.inf:
            return Status.CONVERGED  # a direct method, which does not iterate
        passes = self.context.passes
        seconds = time.perf_counter() - self.began
        seen = Progress(
            len(self.history), passes.count, passes.columns, passes.flops, seconds, iterate.residual
        )
        self.history.append(seen)
        if self.saving is not None and self.saving.due:
            self.write(iterate)
        stopped = False
        if self.callback is not None:
            with _closing(passes, math.inf, counted=False):
                stopped = self.callback(seen, iterate, self.products)
        if iterate.final or (iterate.residual <= self.context.tol and not iterate.doubt):
            return Status.CONVERGED
        if stopped:
            return Status.STOPPED
        if iterate.residual < HELPED * self.least:
            self.least, self.since = iterate.residual, seen.iteration
        if self.sent_back and seen.iteration - self.since > PATIENCE:
            return Status.STAGNATED
        return Status.ITERATION_LIMIT if seen.iteration >= self.solver.max_iterations else None

    def write(self, iterate: Iterate) -> None:
        """Write a checkpoint."""
        if self.saving is not None:
            with _closing(self.context.passes, math.inf, counted=False):
                arrays = {name: _on_host(x) for name, x in iterate.arrays().items()}
                self.saving.write({"iterate": arrays})

    def nothing(self, status: Status) -> BaseException:
        """The error of a run without an iterate that is judged."""
        passes, name = self.context.passes, self.name
        where = (
            f"in pass {max(math.ceil(passes.count), 1)} over the data, before it had an iterate to be judged"
        )
        if status is Status.INTERRUPTED:
            return NothingYet()
        if status is Status.STAGNATED:
            return BrokenPlugin(f"{name} must yield at least one iterate; it has returned without.")
        if status is Status.OUT_OF_MEMORY:
            return OutOfMemory(f"{name} ran out of memory {where}: {self.cause}. Choose what holds less.")
        if passes.lacking:
            return BudgetTooSmall(
                f"{name} needs at least {count_of(passes.lacking, 'pass')} (set-up and certificate); got "
                f"max_passes={passes.most:g}. Raise it."
            )
        return BudgetTooSmall(
            f"{name} used up max_seconds={self.max_seconds:g} {where}. Raise max_seconds, choose a solver that takes "
            "fewer passes, or end the iterator of the rows."
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


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: a MemoryError, OutOfMemoryError of torch and CuPy, or an OSError with ENOMEM."""
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(names & {"MemoryError", "OutOfMemoryError"}) or getattr(error, "errno", None) == errno.ENOMEM
