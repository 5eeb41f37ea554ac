"""The cost of a run: seconds, alternately with those of rivals, and memory; if need be in a process of its own.

Methods take turns, so that a slow spell of the machine falls on all of them, and are compared round by round: the
median and the worst of the ratios of paired runs. Seconds of the processor count; those of the clock are kept beside
them. A process may have this checkout or another one.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import statistics
import sys
import time
import tomllib
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
        return statistics.median(self.cpu)

    def over(self, other: Turns) -> tuple[float, float]:
        """Median and worst of the ratios to another method's seconds of the processor, of the rounds of both."""
        found = [a / max(b, 1e-9) for a, b in zip(self.cpu, other.cpu, strict=False)]
        return (statistics.median(found), max(found)) if found else (float("nan"), float("nan"))


def alternate(
    calls: Mapping[Any, Callable[[], Any]], rounds: int, *, enough: float = float("inf"), warm: bool = False
) -> dict[Any, Turns]:
    """Run methods once a round until they refuse or had `enough` CPU seconds; `warm`: a first run does not count."""
    found = {name: Turns() for name in calls}
    for _ in range(rounds):
        for name, turns in found.items():
            if turns.said or sum(turns.cpu) >= enough:
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
    return f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"


def resident(name: str) -> float:
    """A line of Linux' account of this process, in MiB: "VmHWM", its peak resident set, or "VmRSS", that of now."""
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
        self.memory = max(0.0, resident("VmHWM") - self.before)


def apart(call: Callable[..., dict[str, Any]], *given: Any, seconds: float | None = None) -> dict[str, Any]:
    """Call a function of a module in a fresh process; return {"said": why} if it refuses, dies, or takes too long."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(there, call, given))
    process.start()
    there.close()
    found: dict[str, Any] = {"said": f"stopped after {seconds} s"}
    try:
        if here.poll(seconds):
            found = here.recv()
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


def environment_of(folder: Path, declared: Path) -> dict[str, str]:
    """The environment in which a checkout is imported; `declared`, an empty folder, will say what plugins it has."""
    project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    source = (folder / "linspec" / "__init__.py").read_text("utf-8")
    found = re.search(r'(?m)^__version__ = "(.+)"', source)
    version = found[1] if found else "0"
    info = declared / f"linspec-{version}.dist-info"
    info.mkdir()
    about = f"Metadata-Version: 2.1\nName: linspec\nVersion: {version}\n"
    (info / "METADATA").write_text(about, encoding="utf-8")
    points = [f"{name} = {target}" for name, target in project["entry-points"]["linspec"].items()]
    (info / "entry_points.txt").write_text("\n".join(["[linspec]", *points, ""]), encoding="utf-8")
    path = os.pathsep.join(map(str, (declared, folder, folder / "plugins")))
    return {**os.environ, "PYTHONPATH": path}
