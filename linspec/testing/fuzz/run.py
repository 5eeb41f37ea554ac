"""Many cases by many solvers: the trials, their verdicts, and counts of them.

Problem: what happens once in a thousand problems is seen only when thousands are solved, and then nobody reads them.
Method: each trial is solved by every registered solver of its family and by ``"auto"``, with default options; verdicts
that fail are made smaller (`linspec.testing.fuzz.shrink`). Trials are independent, and are dealt out to processes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import linspec
from linspec.testing.fuzz.generator import draw
from linspec.testing.fuzz.judge import MAX_SECONDS, Verdict, judge
from linspec.testing.fuzz.problems import FAMILIES, Case
from linspec.testing.fuzz.truth import truth_of

__all__ = ["Outcome", "fuzz", "solvers_of", "try_case"]


@dataclass(frozen=True)
class Outcome:
    """A solver's verdict on one case.

    Attributes
    ----------
    name : str
        The case: ``"trial 17"`` or a name of the corpus.
    case : Case
    solver : str
    verdict : Verdict
    seconds : float
    """

    name: str
    case: Case
    solver: Any
    verdict: Verdict
    seconds: float


def solvers_of(family: str, names: Sequence[Any] | None = None) -> tuple[Any, ...]:
    """The solvers of a family that are wanted: all that are registered and ``"auto"``, or those that are named."""
    present = (*linspec.solvers(family), "auto")
    if names is None:
        return present
    bare = [str(name).rpartition("/")[2] if str(name).startswith(f"{family}/") else name for name in names]
    return tuple(name for name in bare if not isinstance(name, str) or name in present)


def try_case(
    case: Case, solvers: Iterable[Any], *, name: str = "", max_seconds: float = MAX_SECONDS
) -> Iterator[Outcome]:
    """Solve one case by several solvers."""
    truth = truth_of(case)
    for solver in solvers:
        began = time.perf_counter()
        verdict = judge(case, solver, truth, max_seconds=max_seconds)
        yield Outcome(name, case, solver, verdict, time.perf_counter() - began)


def fuzz(
    trials: Iterable[int],
    *,
    seed: int = 0,
    families: Sequence[str] = FAMILIES,
    solvers: Sequence[Any] | None = None,
    max_seconds: float = MAX_SECONDS,
    jobs: int = 1,
    seen: Callable[[Outcome], None] | None = None,
) -> list[Outcome]:
    """Random cases by all solvers.

    Parameters
    ----------
    trials : iterable of int
        Numbers of trials; with the seed they say everything.
    seed : int, default 0
    families : sequence of str, optional
        Of the problems that take turns.
    solvers : sequence, optional
        Names or instances; by default all that are registered for the family, and ``"auto"``.
    max_seconds : float, default 20.0
        For one solve.
    jobs : int, default 1
        Processes.
    seen : callable, optional
        Told of each outcome.

    Returns
    -------
    list of Outcome
    """
    tasks = [(seed, trial, tuple(families), solvers, max_seconds) for trial in trials]
    outcomes: list[Outcome] = []
    for found in _dealt(tasks, jobs):
        for outcome in found:
            outcomes.append(outcome)
            if seen is not None:
                seen(outcome)
    return outcomes


def _dealt(tasks: list[Any], jobs: int) -> Iterator[list[Outcome]]:
    if jobs <= 1:
        yield from map(_trial, tasks)
        return
    import multiprocessing

    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap(_trial, tasks, chunksize=4)


def _trial(task: Any) -> list[Outcome]:
    seed, trial, families, solvers, max_seconds = task
    case = draw(seed, trial, families)
    return list(
        try_case(case, solvers_of(case.family, solvers), name=f"trial {trial}", max_seconds=max_seconds)
    )
