"""Many cases solved by many solvers: the trials, their verdicts, and their counts.

Problem: a fault that occurs once in a thousand problems shows only if thousands are solved, too many to read.
Method: each case is solved with default options by every registered solver of the family and by ``"auto"``, or by
some of these, drawn anew for each trial. Cases that fail are made smaller (`linspec_fuzz.shrink`). Trials are
independent and are distributed over processes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import linspec
from linspec_fuzz.generator import draw
from linspec_fuzz.judge import MAX_SECONDS, Verdict, judge
from linspec_fuzz.problems import Case, families_here
from linspec_fuzz.truths import truth_of

FORMS = ("auto", "solve")
"""The forms of `linspec.cross_validate` that are tried in place of solvers."""

__all__ = ["Outcome", "fuzz", "solvers_of", "try_case"]


@dataclass(frozen=True)
class Outcome:
    """The verdict on one solver and one case.

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
    """Return the solvers of a family to try: the named ones, or all registered ones and ``"auto"``."""
    present = (*linspec.solvers(family), "auto")
    if names is None:
        return present
    bare = [str(name).rpartition("/")[2] if str(name).startswith(f"{family}/") else name for name in names]
    return tuple(name for name in bare if not isinstance(name, str) or name in present)


def try_case(
    case: Case, solvers: Iterable[Any], *, name: str = "", max_seconds: float = MAX_SECONDS
) -> Iterator[Outcome]:
    """Solve one case with several solvers."""
    truth = truth_of(case)
    for solver in FORMS if case.study else solvers:
        began = time.perf_counter()
        verdict = judge(case, solver, truth, max_seconds=max_seconds)
        yield Outcome(name, case, solver, verdict, time.perf_counter() - began)


def fuzz(
    trials: Iterable[int],
    *,
    seed: int = 0,
    families: Sequence[str] | None = None,
    solvers: Sequence[Any] | None = None,
    each: int | None = None,
    max_seconds: float = MAX_SECONDS,
    jobs: int = 1,
    seen: Callable[[Outcome], None] | None = None,
) -> list[Outcome]:
    """Solve random cases with all solvers.

    Parameters
    ----------
    trials : iterable of int
        Numbers of trials. A number and the seed determine the case.
    seed : int, default 0
    families : sequence of str, optional
        The families of the cases, in turn; by default all that have an oracle and available solvers.
    solvers : sequence, optional
        Names or instances; by default all solvers registered for the family, and ``"auto"``.
    each : int, optional
        The number of these solvers that solve a trial, drawn anew for each trial; by default all.
    max_seconds : float, default 20.0
        The time limit of one solve.
    jobs : int, default 1
        The number of processes.
    seen : callable, optional
        Called with each outcome.

    Returns
    -------
    list of Outcome
    """
    chosen = families_here() if families is None else tuple(families)
    tasks = [(seed, trial, chosen, solvers, each, max_seconds) for trial in trials]
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
    seed, trial, families, solvers, each, max_seconds = task
    case = draw(seed, trial, families)
    names = solvers_of(case.family, solvers)
    if each is not None and each < len(names):
        some = np.random.default_rng([seed, trial, each]).permutation(len(names))[:each]
        names = tuple(names[i] for i in sorted(some.tolist()))
    return list(try_case(case, names, name=f"trial {trial}", max_seconds=max_seconds))
