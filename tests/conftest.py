"""Settings of every test: one BLAS thread, Hypothesis that repeats itself, and the tests to skip.

Environment variables:

- ``LINSPEC_SLOW=1`` runs the tests marked ``slow`` as well, ``LINSPEC_SLOW=3/10`` every tenth of them, from the third
  on. With ``-m slow`` no other test runs.
- ``LINSPEC_ELSEWHERE=1`` takes from the process what only Linux or POSIX has, before anything is imported.
- ``LINSPEC_CUPY_DOUBLE=VERSION`` puts the double of CuPy in `doubles` in the place of `cupy`, with the names and
  signatures of that version. Where a line of linspec waits for a device without `to_host`, it raises.
- ``LINSPEC_LIMIT=SECONDS`` says how long a test may take, 600 by default, and six times as long if it is marked
  ``slow``. Where a test takes longer, its process ends, with the lines at which its threads stand.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import hypothesis
import pytest

gc.disable()  # until all tests are collected: they stay, and looking through them is a quarter of that time

# A BLAS reads these once, when it is loaded: this file comes before the first test module, so before NumPy.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

if os.environ.get("LINSPEC_ELSEWHERE", "0") not in {"", "0"}:
    from elsewhere import leave_linux

    with suppress(ImportError):
        import torch  # noqa: F401  # which takes the system that it was made for for granted

    leave_linux()

if os.environ.get("LINSPEC_CUPY_DOUBLE") and "doubles" not in sys.modules:  # a test imports this file again
    from doubles import cupy_double

    cupy_double.install(os.environ["LINSPEC_CUPY_DOUBLE"])
    cupy_double.ACCOUNT.strict = True

# Fixed examples everywhere, so that a failure repeats on the next run and on the next machine. New ones are
# searched for on purpose: pytest --hypothesis-profile=thorough
hypothesis.settings.register_profile(
    "linspec", deadline=None, derandomize=True, max_examples=25, print_blob=True
)
hypothesis.settings.register_profile(
    "thorough", deadline=None, derandomize=False, max_examples=500, print_blob=True
)
hypothesis.settings.load_profile("linspec")


def pytest_configure(config: pytest.Config) -> None:
    """Keep the standard error of the user: tests have another."""
    config.stash[_STDERR] = os.dup(2)


_STDERR = pytest.StashKey[int]()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    """End the process of a test that stands still; pytest-xdist goes on with the others in a new one."""
    limit = float(os.environ.get("LINSPEC_LIMIT", "600"))
    slow = item.get_closest_marker("slow") is not None
    faulthandler.dump_traceback_later(limit * (6 if slow else 1), exit=True, file=item.config.stash[_STDERR])
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give a worker of xdist the cases of a function together, and so what they share."""
    if config.option.dist != "load":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            function, _, case = nodeid.partition("[")
            if "test_conformance.py" in function:  # the checks of a solver on a backend share their solves
                return f"{function}:{case.rstrip(']').partition(':')[2]}"
            return f"{function}:{case}" if function.endswith("test_commands_run") else function  # a page each

        def remove_node(self, node: Any) -> Any:
            """Leave out the test that has ended a worker, and what it has done: it would all be done again."""
            units = self.assigned_work[node]
            left = [(unit, name) for unit in units.values() for name, done in unit.items() if not done]
            for unit, name in left[:1]:
                unit[name] = True
            for scope in [scope for scope, unit in units.items() if all(unit.values())]:
                del units[scope]
            super().remove_node(node)
            return left[0][1] if left else None

    return Together(config, log)


_AT_IMPORT: dict[str, list[tuple[Any, Any]]] = {}
"""The random generators of each test module, and their states when it had been imported."""


def _note_generators(items: list[pytest.Item]) -> None:
    import numpy as np

    modules = {item.module.__name__: item.module for item in items if isinstance(item, pytest.Function)}
    for name, module in modules.items():
        found = [value for value in vars(module).values() if isinstance(value, np.random.Generator)]
        _AT_IMPORT[name] = [(generator, generator.bit_generator.state) for generator in found]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let a generator of a module draw the same in each test, whichever tests came before."""
    if isinstance(item, pytest.Function):
        for generator, state in _AT_IMPORT.get(item.module.__name__, ()):
            generator.bit_generator.state = state


@pytest.hookimpl(tryfirst=True)  # before the tests are shuffled
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip slow tests unless they are requested."""
    _note_generators(items)
    part, parts = _slice_of_slow_tests(config)
    slow = _slow(items)
    for i, item in enumerate(slow):
        if not parts or i % parts != part % parts:
            item.add_marker(pytest.mark.skip(reason="slow: `nox -s slow` runs it"))
    if config.getoption("-m") == "slow":
        chosen = set(slow)
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = slow


def pytest_collection_finish(session: pytest.Session) -> None:
    """Let the collector of garbage look at what tests make, and not at the tests."""
    gc.freeze()
    gc.enable()


def _slice_of_slow_tests(config: pytest.Config) -> tuple[int, int]:
    """Which part of the slow tests runs, of how many; of none by default."""
    asked = os.environ.get("LINSPEC_SLOW", "")
    if asked in {"", "0"}:
        return 0, int("slow" in config.getoption("-m"))
    part, _, parts = asked.partition("/")
    return (int(part), int(parts)) if parts else (0, 1)


def _slow(items: list[pytest.Item]) -> list[pytest.Item]:
    """The slow tests; of one whose mark says how many cases to keep, the others, which lie evenly between these."""
    found: list[pytest.Item] = []
    functions: dict[tuple[str, int], list[pytest.Item]] = {}
    for item in items:
        marks = [marker.kwargs.get("keep", 0) for marker in item.iter_markers("slow")]
        if marks and min(marks) > 0:
            functions.setdefault((item.nodeid.partition("[")[0], min(marks)), []).append(item)
        elif marks:
            found.append(item)
    for (_, keep), cases in functions.items():
        kept = {i * len(cases) // keep for i in range(keep)}
        found += [case for i, case in enumerate(cases) if i not in kept]
    return found


def backends_that_are_missing() -> str:
    """The closing line of the suite: the backends of the kit that are not here, each with the reason."""
    from backends import missing

    absent = [f"{name} ({reason})" for name, reason in missing().items()]
    return f"backends without a test: {', '.join(absent) or 'none'}"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Name the backends that nothing ran on, which is no passed test; `pytest -rs` counts skips by their reasons."""
    terminalreporter.write_line(backends_that_are_missing())


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Let SIGINT interrupt, also where the tests run in the background of a shell, which has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Clock:
    """The clock of runs: its time passes when a test says so, whatever else the machine does."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._lock = threading.Lock()

    def perf_counter(self) -> float:
        """Return the time, in place of `time.perf_counter`."""
        return self.now

    def tick(self, seconds: float) -> None:
        """Let time pass; any thread may."""
        with self._lock:
            self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock by which `max_seconds` is counted, in the hand of the test."""
    clock = Clock()
    for module in ("linspec.solving.solve", "linspec.iteration.loop", "linspec.rows.passes"):
        monkeypatch.setattr(f"{module}.time", clock)
    return clock
