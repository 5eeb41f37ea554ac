"""One solver on one problem, for the commands: its answer, its cost, and its course for a plot.

The figures are those of `linspec.compare`. The scores along the way, for a plot, cost sweeps of their own: they are
computed at iterations that grow by a quarter each time, on operators that the run does not count, and their time is
subtracted from that of the run.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import linspec
from linspec import registry
from linspec.cli.failures import in_one_line
from linspec.cli.interrupts import raising
from linspec.cli.kinds import Score
from linspec.registry.options import build, with_parts
from linspec.studies.comparison import Entry, Rows, measured

__all__ = ["Limits", "Outcome", "compared", "loaded", "solved"]

SPACING = 1.25
"""Least factor by which the iteration number grows from one computed score to the next: 1, 2, 3, 4, 5, 7, 9, ..."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome(Entry):
    """The result of one solver, and the residuals and scores of its iterations.

    Attributes
    ----------
    variant : str
        The values of the problem or the options that differ between the runs; "" if none do.
    traits : tuple of str
        The traits of the solver.
    history : dict of lists
        "iteration", "passes", "seconds", "residual" for each iteration. The residual is the one that the solver itself
        reports.
    scores : dict of lists
        "iteration", "passes", "seconds", "residual", "score" for each iteration at which a score was computed. The
        residual is computed anew, as the problem defines it.
    timed_out : bool
        Whether the run of a comparison took `max_seconds` or longer, with the time of its callback.
    """

    variant: str = ""
    traits: tuple[str, ...] = ()
    history: dict[str, list[float]] = field(default_factory=dict)
    scores: dict[str, list[float]] = field(default_factory=dict)
    timed_out: bool = False

    @property
    def label(self) -> str:
        """The solver, and the variant if there are several."""
        return f"{self.solver}, {self.variant}" if self.variant else self.solver

    @property
    def direct(self) -> bool:
        """Whether the solver does not iterate."""
        return "direct" in self.traits

    @property
    def approximate(self) -> bool:
        """Whether the solver has the trait "approximate".

        Such a solver need not solve the stated problem exactly, and the residuals in its history may be defined in
        another way than the problem defines them.
        """
        return "approximate" in self.traits


@dataclass(frozen=True)
class Limits:
    """The seed and the budgets of a run, the file for its checkpoints, and the file from which it continues."""

    seed: int = 0
    max_passes: float | None = None
    max_seconds: float | None = None
    checkpoint: str | None = None
    start: str | None = None
    complete: bool = False

    @property
    def arguments(self) -> dict[str, Any]:
        """The limits as keyword arguments of `linspec.solve`."""
        budgets: dict[str, Any] = {
            "rng": self.seed,
            "max_passes": self.max_passes,
            "max_seconds": self.max_seconds,
        }
        files = {"checkpoint": self.checkpoint, "start": self.start}
        if self.complete:
            budgets["complete"] = True
        return {**budgets, **{name: path for name, path in files.items() if path is not None}}


def loaded(problem: Any, solver: str, options: Mapping[str, Any]) -> None:
    """Import the classes of a solver and its parts before the run, so that no interrupt falls into an import."""
    with_parts(build(registry.get_solver(solver, problem), options))


def solved(
    problem: Any,
    solver: str,
    options: Mapping[str, Any],
    limits: Limits,
    *,
    score: Score | None = None,
    reporters: Sequence[Callable[[Any], None]] = (),
    rows: Rows | None = None,
) -> Outcome:
    """Solve a problem, and gather the figures of the run.

    Parameters
    ----------
    problem : Problem
    solver : str
        The name of the solver.
    options : mapping
        The options of the solver.
    limits : Limits
        Seed, budgets and files.
    score : Score, optional
        The score of iterates along the way.
    reporters : sequence of callable, default ()
        Called with the progress of each iteration.
    rows : Rows, optional
        Held-out rows on which the answer is scored.

    Returns
    -------
    Outcome
    """
    watch = _Watch(problem, score, reporters)
    with raising():
        entry = measured(problem, solver, options, rows=rows, callback=watch, **limits.arguments)
    return watch.outcome(entry)


def compared(
    problem: Any,
    solver: str,
    options: Mapping[str, Any],
    limits: Limits,
    *,
    score: Score | None = None,
    reporters: Sequence[Callable[[Any], None]] = (),
    rows: Rows | None = None,
) -> Outcome:
    """Solve a problem as `solved` does, but return an outcome for a solver that fails, and keep no answer."""
    watch = _Watch(problem, score, reporters)
    with raising():
        found = linspec.compare(
            problem, {solver: solver}, held_out=rows, callback=watch, **limits.arguments, **options
        )
    (entry,) = found.entries
    timed_out = limits.max_seconds is not None and (entry.seconds or 0.0) >= limits.max_seconds
    return dataclasses.replace(watch.outcome(entry), solution=None, timed_out=timed_out)


class _Watch:
    """A callback that reports progress and, if `score` is set, computes scores of iterates.

    Its sweeps are not counted in the passes of the run, and its time is subtracted from the time of the run.
    """

    def __init__(self, problem: Any, score: Score | None, reporters: Sequence[Callable[[Any], None]]) -> None:
        self.problem, self.score, self.reporters = problem, score, reporters
        self.spent = self.spent_cpu = 0.0
        self.spent_before: list[float] = []  # at each iteration, the time that this callback had taken
        self.scores: dict[str, list[float]] = {
            name: [] for name in ("iteration", "passes", "seconds", "residual", "score")
        }
        self._moments: Any = None
        self._next = 0.0

    def __call__(self, progress: Any) -> None:
        """Report one iteration, and score its iterate if one is due."""
        start, start_cpu = time.perf_counter(), time.process_time()
        self.spent_before.append(self.spent)
        for report in self.reporters:
            report(progress)
        if self.score is not None and progress.iteration >= self._next:
            self._next = max(progress.iteration + 1, progress.iteration * SPACING)
            self._take(progress, self.score)
        self.spent += time.perf_counter() - start
        self.spent_cpu += time.process_time() - start_cpu

    def _take(self, progress: Any, score: Score) -> None:
        """Compute the residual of an iterate, as the problem defines it, and its score; append both to `scores`.

        If the iterate is not a solution of the problem, no more scores are computed.
        """
        if self._moments is None:
            self._moments = self.problem.moments("implicit", (1, 1))
        try:
            conclusion = self.problem.conclude(self._moments, **progress.current())
            taken = (conclusion.residual, score.of(conclusion.fields))
        except (ArithmeticError, LookupError, TypeError, ValueError):
            self.score = None  # the iterates of this solver are no solutions
            return
        figures = (progress.iteration, progress.passes, progress.seconds - self.spent, *taken)
        for column, value in zip(self.scores.values(), figures, strict=True):
            column.append(float(value))

    def outcome(self, entry: Entry) -> Outcome:
        """Return the figures of the run, less the time of this callback."""
        figures = {field.name: getattr(entry, field.name) for field in dataclasses.fields(Entry)}
        if entry.failed:
            return Outcome(**{**figures, "message": in_one_line(entry.message)})
        solution = entry.solution
        figures["seconds"] = (entry.seconds or 0.0) - self.spent
        figures["cpu_seconds"] = (entry.cpu_seconds or 0.0) - self.spent_cpu
        return Outcome(
            **figures,
            traits=tuple(registry.get_spec("solver", solution.solver, self.problem).traits),
            history=self._corrected(solution.history),
            scores=self.scores,
        )

    def _corrected(self, history: Any) -> dict[str, list[float]]:
        """Return the history with the time of this callback subtracted."""
        columns = {name: history[name].tolist() for name in ("iteration", "passes", "seconds", "residual")}
        spent = [*self.spent_before, *[self.spent] * len(history)][: len(history)]
        columns["seconds"] = [t - s for t, s in zip(columns["seconds"], spent, strict=True)]
        return columns
