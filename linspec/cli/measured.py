"""One solver on one problem, for the commands: what it finds, what it costs, and the way that a picture shows.

The figures are those of `linspec.compare`. The scores on the way, which a plot wants, cost sweeps of their own: they
are taken at iterations that grow by a quarter each time, on operators that the run does not count, and their time is
subtracted from the run's.
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
from linspec.registry.options import build
from linspec.registry.parts import with_parts
from linspec.studies.comparison import Entry, Rows, measured

__all__ = ["Limits", "Outcome", "compared", "loaded", "solved"]

SPACING = 1.25
"""Scores are taken at iterations 1, 2, 3, 4, 5, 7, ... , each at least this factor after the last."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome(Entry):
    """What became of one solver, and how it came to it.

    Attributes
    ----------
    variant : str
        In which values the problem, or the options, differ from others; "" where there is one problem.
    traits : tuple of str
        Those of the solver.
    history : dict of lists
        "iteration", "passes", "seconds", "residual" for each iteration.
    scores : dict of lists
        "iteration", "passes", "seconds", "residual", "score" where one was taken; this residual is the
        law's, while that of the history is the solver's.
    """

    variant: str = ""
    traits: tuple[str, ...] = ()
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
    """Import what a solver and its parts use: no part of what an interrupt ends."""
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
        Its name.
    options : mapping
        Its options.
    limits : Limits
        Seed and budgets.
    score : Score, optional
        Score iterates on the way by this.
    reporters : sequence of callable, default ()
        Called with the progress of each iteration.
    rows : Rows, optional
        To score the answer on.

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
    """Solve a problem beside others: as `solved`, but a solver that fails has an outcome, and no answer is kept."""
    watch = _Watch(problem, score, reporters)
    with raising():
        found = linspec.compare(
            problem, {solver: solver}, held_out=rows, callback=watch, **limits.arguments, **options
        )
    (entry,) = found.entries
    return dataclasses.replace(watch.outcome(entry), solution=None)


class _Watch:
    """A callback that reports progress and, where asked, scores iterates without charging the run."""

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
        """Take note of one iteration."""
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

    def outcome(self, entry: Entry) -> Outcome:
        """The figures of the run that was watched, less what watching took."""
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
        """The history with the time of the scores subtracted."""
        columns = {name: history[name].tolist() for name in ("iteration", "passes", "seconds", "residual")}
        spent = [*self.spent_before, *[self.spent] * len(history)][: len(history)]
        columns["seconds"] = [t - s for t, s in zip(columns["seconds"], spent, strict=True)]
        return columns
