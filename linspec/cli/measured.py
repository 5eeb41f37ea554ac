"""One solver in a process of its own: what it finds, what it costs, how much memory it takes.

Problem: the peak memory of a process only grows, so a second solver in it would be charged for the first; and one
that runs out of memory should not take the comparison with it.
Method: the parent starts a fresh Python for each solver, writes a request to it as one line of JSON and reads
events, one line each: that the data are read, progress, warnings, and at the end the result or an error. An interrupt
is passed on, so that the child ends its run with what it has; before the run, and at a second one, it is killed. The
request's pipe stays open as long as the parent lives: its end, whatever ended the parent, ends the child and what the
child has started, too.
The peak is that of the whole child, libraries and data included: ``VmHWM`` where there is /proc, because
``ru_maxrss`` of a child on Linux begins with the memory of the parent that started it.
The scores on the way, which a plot wants, cost sweeps of their own: they are taken at iterations that grow by a
quarter each time, on operators that the run does not count, and their time is taken out of the run's.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import IO, TYPE_CHECKING, Any

import linspec
from linspec import registry
from linspec.cli.failures import Failure, in_one_line, with_remedy
from linspec.cli.interrupts import Interrupts, held, raising
from linspec.cli.kinds import Kind, Score, kind_named
from linspec.cli.missing import read_inputs
from linspec.cli.settings import AUTO, only_declared, solver_options
from linspec.errors import LinspecError, NonFiniteData, warn
from linspec.options import build

if TYPE_CHECKING:
    from linspec.comparison import Entry, Rows

__all__ = [
    "Limits",
    "Outcome",
    "Request",
    "answer_request",
    "end_with_parent",
    "loaded",
    "measured_solve",
    "run_apart",
]

REPORTS = 0.1
"""Seconds between two reports of progress."""

UNFINISHED = "interrupted before the first iteration"

SPACING = 1.25
"""Scores are taken at iterations 1, 2, 3, 4, 5, 7, ... , each at least this factor after the last."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a child is to do; all of it goes through JSON."""

    problem: str
    files: Sequence[str]
    values: Mapping[str, Any]
    solver: str
    options: Sequence[str] = ()
    tol: float | None = None
    seed: int = 0
    max_passes: float | None = None
    max_seconds: float | None = None
    scored: bool = False
    variant: str = ""
    held_out: float | None = None
    drop_missing: bool = False
    others: Sequence[Mapping[str, Any]] = ()
    """Values of other problems on the same files, which are to be stated, and not solved, before the run."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of it.

    Attributes
    ----------
    solver : str
        As it was asked for.
    status, message : str
        The status's name, and the message of the solution; "FAILED" with what went wrong.
    products : float or None
        Products with one column, forward or adjoint, during the iterations; None for direct solvers.
    score : float or None
        By the problem's score.
    variant : str
        In which values the problem, or the options, differ from others; "" where there is one problem.
    held_out : float or None
        `solution.score` of the rows that were left out.
    cpu : float or None
        Seconds of the processor, those of all threads together.
    peak : float or None
        Bytes of memory at the peak of the whole process.
    history : dict of lists
        "iteration", "passes", "seconds", "residual" for each iteration.
    scores : dict of lists
        "iteration", "passes", "seconds", "residual", "score" where one was taken; this residual is the
        law's, while that of the history is the solver's.
    """

    solver: str
    status: str
    message: str = ""
    traits: Sequence[str] = ()
    converged: bool = False
    tol: float | None = None
    residual: float | None = None
    passes: float | None = None
    iterations: int = 0
    seconds: float | None = None
    products: float | None = None
    score: float | None = None
    variant: str = ""
    held_out: float | None = None
    cpu: float | None = None
    peak: float | None = None
    history: dict[str, list[float]] = field(default_factory=dict)
    scores: dict[str, list[float]] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The solver, and the variant where there are several."""
        return f"{self.solver}, {self.variant}" if self.variant else self.solver

    @property
    def direct(self) -> bool:
        """Whether the solver does not iterate."""
        return "direct" in self.traits

    @property
    def approximate(self) -> bool:
        """Whether the solver may judge itself by another law than the problem's."""
        return "approximate" in self.traits

    @property
    def failed(self) -> bool:
        """Whether there is no solution."""
        return self.status == "FAILED"


# ---- the parent -------------------------------------------------------------------------------


def run_apart(
    request: Request, report: Callable[[Any], None] | None, interrupts: Interrupts | None = None
) -> tuple[Outcome, bool]:
    """Run a request in a fresh process.

    Parameters
    ----------
    request : Request
    report : callable or None
        Called with the progress: iteration, passes, seconds, residual.
    interrupts : Interrupts, optional
        Where those are held that are passed on. By default they are held for this run.

    Returns
    -------
    Outcome, bool
        The second says whether Ctrl-C came.

    Raises
    ------
    Failure
        The data cannot be read or the problem cannot be stated: no other solver will fare better.
    """
    if interrupts is None:
        with held() as own:
            return run_apart(request, report, own)
    begun = False
    with _child() as process:

        def pass_on(count: int) -> None:
            if count > 1 or not begun:
                _kill(process)
            elif os.name == "posix":  # elsewhere the console tells the child itself
                process.send_signal(signal.SIGINT)

        with interrupts.told_to(pass_on):
            stdin, stdout = process.stdin, process.stdout
            if stdin is None or stdout is None:  # they are pipes
                raise Failure("a process without pipes was started.")
            with suppress(BrokenPipeError):  # it has ended: without a result
                stdin.write(json.dumps(dataclasses.asdict(request)) + "\n")
                stdin.flush()
            outcome = None
            for event in _events(stdout):
                begun = begun or event["event"] == "begun"
                outcome = _received(event, request, report) or outcome
            code = process.wait()
    outcome = outcome or _lost(request.solver, code, interrupts.came)
    return dataclasses.replace(outcome, variant=request.variant), interrupts.came


def _received(
    event: dict[str, Any], request: Request, report: Callable[[Any], None] | None
) -> Outcome | None:
    kind = event.pop("event")
    if kind == "progress" and report is not None:
        report(SimpleNamespace(**event))
    elif kind == "warning":
        warn(event["text"], UserWarning)
    elif kind == "error" and event["fatal"]:
        raise Failure(event["message"])
    elif kind == "error":
        return Outcome(solver=request.solver, status="FAILED", message=event["message"])
    elif kind == "result":
        return Outcome(solver=request.solver, **event)
    return None


@contextmanager
def _child() -> Iterator[subprocess.Popen[str]]:
    """A Python that answers requests, with the import path of this one."""
    code = f"import sys; sys.path[:] = {sys.path!r}; from linspec.cli import main; main(['measure'])"
    process = subprocess.Popen(  # noqa: S603 (this Python, and a text of our own)
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        start_new_session=True,  # Ctrl-C comes from this process, once
    )
    try:
        yield process
    finally:
        _kill(process)
        with suppress(BrokenPipeError):  # of a request that it did not live to read
            process.__exit__(None, None, None)  # closes the pipes and waits


def _kill(process: subprocess.Popen[str]) -> None:
    """End a child, and what it has started, if it has not ended."""
    if process.poll() is not None:
        return
    if hasattr(os, "killpg"):  # it leads a session of its own
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def _events(stream: IO[str]) -> Iterator[dict[str, Any]]:
    """The events among the lines; anything else was printed by a solver and is passed on."""
    for line in stream:
        try:
            event = json.loads(line)
        except ValueError:
            event = None
        if isinstance(event, dict) and "event" in event:
            yield event
        else:
            sys.stderr.write(line)


def _lost(solver: str, code: int, interrupted: bool) -> Outcome:
    """What can be said of a child that ended without a result."""
    if interrupted:
        return Outcome(solver=solver, status="FAILED", message=UNFINISHED)
    if code == -9:
        reason = "its process was killed, most likely because the memory ran out"
    else:
        reason = f"its process ended with status {code} and no result"
    return Outcome(solver=solver, status="FAILED", message=reason)


# ---- the child --------------------------------------------------------------------------------


def end_with_parent(pipe: int) -> None:
    """End this process, and those that it has started, when the other end of a pipe is closed."""

    def watch() -> None:
        with suppress(OSError):
            while os.read(pipe, 1):  # sleeps; nothing is sent
                pass
        if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
            os.killpg(os.getpid(), signal.SIGKILL)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def answer_request(text: str, tell: Callable[[dict[str, Any]], None]) -> None:
    """Do what a request asks and tell events.

    Parameters
    ----------
    text : str
        A `Request` as JSON.
    tell : callable
        Takes one event.
    """
    request = Request(**json.loads(text))
    kind = kind_named(request.problem)
    try:
        problem, rows, told = _stated(kind, request)
    except (Failure, LinspecError, OSError, MemoryError) as error:
        tell({"event": "error", "message": _message(error), "fatal": True})
        return
    if told:
        tell({"event": "warning", "text": told})  # the parent says it once
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always", category=UserWarning)
        try:
            options = solver_options(request.problem, request.solver, request.options, request.tol)
            name = request.solver
            if name == AUTO:
                name = linspec.select(problem).name
                options = only_declared(request.problem, name, options)
            limits = Limits(request.seed, request.max_passes, request.max_seconds)
            score = kind.score if request.scored else None
            loaded(problem, name, options)
            tell({"event": "begun"})
            watch = _Watch(problem, score, _reporter(tell))
            with raising():
                found = linspec.compare(
                    problem, {name: name}, held_out=rows, callback=watch, **limits.arguments, **options
                )
            (entry,) = found.entries
            if entry.failed:
                tell({"event": "error", "message": in_one_line(entry.message), "fatal": False})
            else:
                tell({"event": "result", **_figures(problem, entry, watch), "peak": peak_memory()})
        except KeyboardInterrupt:
            tell({"event": "error", "message": UNFINISHED, "fatal": False})
        except Exception as error:  # noqa: BLE001 (whatever it is, the other solvers are still to run)
            tell({"event": "error", "message": _message(error), "fatal": isinstance(error, NonFiniteData)})
    for warning in heard:
        tell({"event": "warning", "text": str(warning.message)})


def _stated(kind: Kind, request: Request) -> tuple[Any, Rows | None, str]:
    """The problem of a request, the rows that are held out, and what was dropped.

    The other problems are stated, too, so that none fails later.
    """
    from linspec.comparison import split  # here: help loads no array library

    files = dict(zip(kind.matrices, request.files, strict=True))
    found_in, beside, told = read_inputs(files, request.values, request.drop_missing)
    matrices = list(found_in.values())
    found: list[tuple[Any, Rows | None]] = []
    for values in (*request.others, request.values):
        problem = kind.construct(matrices, values, beside)
        parts = (
            (problem, None) if request.held_out is None else split(problem, request.held_out, request.seed)
        )
        found = [parts]  # one at a time: rows that are held out are copied
    return *found[0], told


@dataclass(frozen=True)
class Limits:
    """The seed and the budgets of a run, where it writes checkpoints, and the file that it goes on from."""

    seed: int = 0
    max_passes: float | None = None
    max_seconds: float | None = None
    checkpoint: str | None = None
    start: str | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """As `linspec.solve` takes them."""
        budgets = {"rng": self.seed, "max_passes": self.max_passes, "max_seconds": self.max_seconds}
        files = {"checkpoint": self.checkpoint, "start": self.start}
        return {**budgets, **{name: path for name, path in files.items() if path is not None}}


def loaded(problem: Any, solver: str, options: Mapping[str, Any]) -> None:
    """Import what a solver and its parts use: no part of the time of a run, nor of what an interrupt ends."""
    from linspec.parts import with_parts

    with_parts(build(registry.get_solver(solver, problem), options))


def measured_solve(
    problem: Any,
    solver: str,
    options: Mapping[str, Any],
    limits: Limits,
    *,
    score: Score | None = None,
    report: Callable[[Any], None] | None = None,
    rows: Rows | None = None,
) -> tuple[Any, dict[str, Any]]:
    """Solve a problem, and gather the figures of the run.

    Parameters
    ----------
    problem : Problem
    solver : str
        Its name.
    options : mapping
        Its options.
    limits : Limits
        Seed and budgets.
    score : Score, optional
        Score iterates on the way by this.
    report : callable, optional
        Called with the progress of each iteration.
    rows : Rows, optional
        To score the answer on.

    Returns
    -------
    Solution, dict
        The solution, and the fields of an `Outcome` but for the solver and the peak.
    """
    from linspec.comparison import measured  # here: help loads no array library

    watch = _Watch(problem, score, report)
    with raising():
        entry = measured(problem, solver, options, rows=rows, callback=watch, **limits.arguments)
    return entry.solution, _figures(problem, entry, watch)


def _figures(problem: Any, entry: Entry, watch: _Watch) -> dict[str, Any]:
    """The fields of an `Outcome`, but for the solver and the peak."""
    solution = entry.solution
    return {
        "status": entry.status,
        "message": entry.message,
        "traits": list(registry.get_spec("solver", solution.solver, problem).traits),
        "converged": entry.converged,
        "tol": entry.tol,
        "residual": entry.residual,
        "passes": entry.passes,
        "iterations": entry.iterations,
        "seconds": (entry.seconds or 0.0) - watch.spent,
        "cpu": (entry.cpu_seconds or 0.0) - watch.spent_cpu,
        "products": entry.products,
        "score": entry.objective,
        "held_out": entry.score,
        "history": watch.corrected(solution.history),
        "scores": watch.scores,
    }


class _Watch:
    """A callback that reports progress and, where asked, scores iterates without charging the run."""

    def __init__(self, problem: Any, score: Score | None, report: Callable[[Any], None] | None) -> None:
        self.problem, self.score, self.report = problem, score, report
        self.spent = self.spent_cpu = 0.0
        self.spent_before: list[float] = []  # at each iteration, the time that this callback had taken
        self.scores: dict[str, list[float]] = {
            name: [] for name in ("iteration", "passes", "seconds", "residual", "score")
        }
        self._moments: Any = None
        self._next = 0.0

    def __call__(self, progress: Any) -> None:
        """Take note of one iteration."""
        start, start_cpu = time.perf_counter(), time.process_time()
        self.spent_before.append(self.spent)
        if self.report is not None:
            self.report(progress)
        if self.score is not None and progress.iteration >= self._next:
            self._next = max(progress.iteration + 1, progress.iteration * SPACING)
            self._take(progress, self.score)
        self.spent += time.perf_counter() - start
        self.spent_cpu += time.process_time() - start_cpu

    def _take(self, progress: Any, score: Score) -> None:
        """Judge an iterate by the problem's law."""
        if self._moments is None:
            self._moments = self.problem.moments("implicit", (1, 1))
        try:
            conclusion = self.problem.conclude(self._moments, **progress.current())
            taken = (conclusion.residual, score.of(conclusion.fields))
        except (ArithmeticError, LookupError, TypeError, ValueError):
            self.score = None  # what this solver iterates on is no solution
            return
        figures = (progress.iteration, progress.passes, progress.seconds - self.spent, *taken)
        for column, value in zip(self.scores.values(), figures, strict=True):
            column.append(float(value))

    def corrected(self, history: Any) -> dict[str, list[float]]:
        """The history with the time of the scores taken out."""
        columns = {name: history[name].tolist() for name in ("iteration", "passes", "seconds", "residual")}
        spent = [*self.spent_before, *[self.spent] * len(history)][: len(history)]
        columns["seconds"] = [t - s for t, s in zip(columns["seconds"], spent, strict=True)]
        return columns


def _reporter(tell: Callable[[dict[str, Any]], None]) -> Callable[[Any], None]:
    """A callback that tells of progress now and then."""
    due = 0.0

    def report(progress: Any) -> None:
        nonlocal due
        now = time.monotonic()
        if now >= due:
            due = now + REPORTS
            figures = {
                name: getattr(progress, name) for name in ("iteration", "passes", "seconds", "residual")
            }
            tell({"event": "progress", **figures})

    return report


def peak_memory() -> float | None:
    """The most memory that this process has had in use, in bytes; None where the system does not say."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return float(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        import resource
    except ImportError:  # not a POSIX system
        return None
    peak = float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return peak if sys.platform == "darwin" else peak * 1024


def _message(error: BaseException) -> str:
    if isinstance(error, Failure | LinspecError):
        return in_one_line(error.message if isinstance(error, Failure) else with_remedy(error))
    return f"{type(error).__name__}: {in_one_line(str(error))}"
