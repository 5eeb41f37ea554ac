"""The cost of a run: seconds, alternately with those of rivals, and memory; if need be in a process of its own.

Methods take turns, so that a slow spell of the machine falls on all of them, and are compared round by round: the
median and the worst of the ratios of paired runs. Seconds of the processor count; those of the clock are kept beside
them.
"""

from __future__ import annotations

import multiprocessing
import resource
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from linspec.errors import LinspecError

REFUSALS = (TypeError, ValueError, MemoryError, LinspecError)
"""How a library says that it does not do what is asked; NumPy's LinAlgError is a ValueError."""


@dataclass
class Stopwatch:
    """Seconds of the processor and of the clock within `with` blocks."""

    cpu: float = 0.0
    clock: float = 0.0

    def __enter__(self) -> Self:
        self._begin = time.process_time(), time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        self.cpu += time.process_time() - self._begin[0]
        self.clock += time.perf_counter() - self._begin[1]


def timed(call: Callable[..., Any], *given: Any, **named: Any) -> tuple[Any, Stopwatch]:
    """Return the result of a call, and its stopwatch."""
    with Stopwatch() as watch:
        found = call(*given, **named)
    return found, watch


@dataclass
class Turns:
    """The runs of one method: seconds by round, its first answer, or why it has none."""

    cpu: list[float] = field(default_factory=list)
    clock: list[float] = field(default_factory=list)
    answer: Any = None
    said: str = ""

    @property
    def median(self) -> float:
        """Median CPU seconds."""
        return statistics.median(self.cpu)

    def over(self, other: Turns) -> tuple[float, float]:
        """Median and worst of the ratios to another method's seconds of the processor, round by round."""
        return ratios(self.cpu, other.cpu)


def ratios(these: list[float], those: list[float]) -> tuple[float, float]:
    """Median and worst of the ratios of paired seconds; where one list is longer, of the pairs that there are."""
    found = [a / max(b, 1e-9) for a, b in zip(these, those, strict=False)]
    return (statistics.median(found), max(found)) if found else (float("nan"), float("nan"))


def alternate(
    calls: Mapping[str, Callable[[], Any]],
    rounds: int | Mapping[str, int],
    *,
    enough: float = float("inf"),
    warm: bool = False,
) -> dict[str, Turns]:
    """Run all methods once a round.

    Parameters
    ----------
    calls : mapping of str to callable
    rounds : int or mapping of str to int
        For all methods, or for each.
    enough : float, default inf
        Seconds of the processor after which a method has no other turn.
    warm : bool, default False
        Whether a method's first run does not count where it has others.

    Returns
    -------
    dict of str to Turns
        By method. One that refuses has no seconds, and says why.
    """
    most = rounds if isinstance(rounds, Mapping) else dict.fromkeys(calls, rounds)
    found = {name: Turns() for name in calls if most[name]}
    for turn in range(max(most.values(), default=0)):
        for name, turns in found.items():
            if turn >= most[name] or turns.said or sum(turns.cpu) >= enough:
                continue
            try:
                answer, watch = timed(calls[name])
            except REFUSALS as error:
                turns.said = in_words(error)
                continue
            turns.answer = answer if turns.answer is None else turns.answer
            turns.cpu.append(watch.cpu)
            turns.clock.append(watch.clock)
    for turns in found.values():
        if warm and len(turns.cpu) > 1:
            del turns.cpu[0], turns.clock[0]
    return found


def in_words(error: BaseException) -> str:
    """Kind and first line of an error."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"


# ---- memory ----------------------------------------------------------------------------------------


def resident(name: str = "VmHWM") -> float:
    """A line of Linux' account of this process, in MiB: the peak of its resident set, or "VmRSS", what it has now."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:"))


@dataclass
class Peak:
    """Most memory within a `with` block, in MiB beyond what was resident before it; its seconds, too."""

    memory: float = 0.0
    before: float = 0.0
    watch: Stopwatch = field(default_factory=Stopwatch)

    def __enter__(self) -> Self:
        self.before = resident("VmRSS")
        Path("/proc/self/clear_refs").write_text("5", "ascii")  # the peak begins here
        self.watch.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.watch.__exit__()
        self.memory = max(0.0, resident() - self.before)

    def figures(self) -> dict[str, float]:
        """Seconds and MiB."""
        return {
            "cpu": self.watch.cpu,
            "clock": self.watch.clock,
            "memory": self.memory,
            "before": self.before,
        }


def limit_memory(gigabytes: float) -> None:
    """Above this, allocations fail with a MemoryError instead of bringing the machine down."""
    most = int(gigabytes * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


# ---- a process of its own --------------------------------------------------------------------------


def apart(call: Callable[..., dict[str, Any]], *given: Any, seconds: float | None = None) -> dict[str, Any]:
    """Call a function of a script in a fresh process; return {"said": why} if it refuses, dies, or takes too long.

    Parameters
    ----------
    call : callable
        A function of a module, which returns a dict.
    *given : object
    seconds : float, optional
        Of the clock, after which the process is ended.
    """
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(there, call, given))
    process.start()
    there.close()
    try:
        found: dict[str, Any] = (
            here.recv() if here.poll(seconds) else {"said": f"stopped after {seconds:g} s"}
        )
    except EOFError:
        process.join()
        found = {"said": f"the process ended with {process.exitcode}"}
    process.kill()
    process.join()
    return found


def _answer(pipe: Any, call: Callable[..., dict[str, Any]], given: tuple[Any, ...]) -> None:
    try:
        pipe.send(call(*given))
    except REFUSALS as error:
        traceback.print_exc(file=sys.stderr)
        pipe.send({"said": in_words(error)})
