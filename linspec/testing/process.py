"""The effects of a plugin on its process: changed settings, printed text, used time.

Problem: a seed that a solver sets, or an error state that it leaves behind, changes results of other code, and no
answer of the solver shows it. A solver that never ends blocks the whole report.
Method: global generators are put into two states that no plugin can guess; each must be unchanged after the work.
Settings are compared before and after the work. Work that takes too much CPU time is ended by an exception that no
``except Exception`` catches.
"""

from __future__ import annotations

import importlib
import io
import locale
import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

from linspec.errors import AccuracyWarning, ConvergenceWarning, PerformanceWarning, PluginWarning

__all__ = [
    "OF_LINSPEC",
    "Overdue",
    "left_behind",
    "left_by_import",
    "limited",
    "moved_generators",
    "unexpected_warnings",
]

OF_LINSPEC = (AccuracyWarning, ConvergenceWarning, PerformanceWarning, PluginWarning)
"""The warnings that a user of linspec expects."""

OF_ITS_OWN = ("the error state of NumPy (numpy.seterr)", "the print options of NumPy", "the working folder")
"""Settings that an import must leave unchanged. Warning filters, environment variables and signal handlers are left
out, because array libraries change them when they are imported."""

SEEDS = (1789460123, 1203987654)
"""Seeds of the states into which the global generators are put."""

STATES = ("warn", "ignore")
"""The error states of NumPy's arithmetic that are set before the function runs."""

LONGEST = 1e7
"""The longest time in seconds that timers are set to: some systems take no more than 1e8."""

SLEEP = 10
"""Wall time that work may take, in multiples of its limit of CPU time: other processes may compute meanwhile."""


# ---- random generators ------------------------------------------------------------------------


def moved_generators(work: Callable[[], Any]) -> list[str]:
    """Return the libraries (NumPy, Python, torch) whose global random generators a function uses or seeds."""
    return sorted(set().union(*(_moved(work, seed) for seed in SEEDS)))


def _moved(work: Callable[[], Any], seed: int) -> set[str]:
    """Seed the global generators, run the work, and return the libraries whose generators have changed."""
    torch: Any = sys.modules.get("torch")
    numpy, python = np.random.get_state(), random.getstate()  # noqa: NPY002 (it is the global one that is meant)
    there = None if torch is None else torch.get_rng_state()
    try:
        np.random.seed(seed)  # noqa: NPY002
        random.seed(seed)
        if torch is not None:
            torch.manual_seed(seed)
        before = _states(torch)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # other checks look at warnings
            work()
        after = _states(torch)
    finally:
        np.random.set_state(numpy)  # noqa: NPY002
        random.setstate(python)
        if torch is not None:
            torch.set_rng_state(there)
    return {owner for owner, state in before.items() if state != after[owner]}


def _states(torch: Any) -> dict[str, Any]:
    name, keys, *rest = np.random.get_state()  # noqa: NPY002
    found: dict[str, Any] = {"NumPy": (name, bytes(memoryview(keys)), *rest), "Python": random.getstate()}  # type: ignore[arg-type]
    return found if torch is None else {**found, "torch": torch.get_rng_state().numpy().tobytes()}


# ---- settings and text ------------------------------------------------------------------------


class Unheard(Warning):
    """A warning that no code gives, for a filter that is put in front of all warning filters.

    If work adds a filter, even one that was in the list already, this filter is no longer the first. So the change is
    noticed.
    """


def left_behind(work: Callable[[], Any]) -> Iterator[str]:
    """Run a function; report the text that it prints and the settings that it changes, and restore them."""
    issues: dict[str, None] = {}
    tuple(_left(work, STATES[0]))  # its imports may change settings, once
    for state in STATES:
        issues |= dict.fromkeys(_left(work, state))
    yield from issues


def _left(work: Callable[[], Any], state: Any) -> Iterator[str]:
    """Run work in one of the `STATES` of NumPy; yield printed text and changed settings, and restore them."""
    text = io.StringIO()
    error, call, shown = np.geterr(), np.geterrcall(), np.get_printoptions()
    folder, depth, variables = Path.cwd(), sys.getrecursionlimit(), dict(os.environ)
    language, handler = locale.setlocale(locale.LC_ALL), signal.getsignal(signal.SIGINT)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the check "warnings" looks at warnings
            warnings.simplefilter("ignore", Unheard)  # in front, so that a second one is noticed
            if handler is not None and threading.current_thread() is threading.main_thread():
                signal.signal(
                    signal.SIGINT, _interrupted
                )  # processes in the background ignore the signal by default
            np.seterr(all=state)
            np.set_printoptions(precision=len(state))
            before = _settings()
            with redirect_stdout(text), redirect_stderr(text):
                work()
            after = _settings()
    finally:
        np.seterr(**error)
        np.seterrcall(call)
        np.set_printoptions(**shown)
        os.chdir(folder)
        sys.setrecursionlimit(depth)
        locale.setlocale(locale.LC_ALL, language)
        if handler is not None and signal.getsignal(signal.SIGINT) is not handler:
            signal.signal(signal.SIGINT, handler)
        for name in {*os.environ} - {*variables}:
            del os.environ[name]
        os.environ.update(variables)
    if text.getvalue():
        yield f"nothing must be printed; it printed {text.getvalue()[:60]!r}. Log it, or leave it out"
    yield from (
        f"{name} must be left as it was; it was changed. Restore it, or change it for a block alone (with)"
        for name, value in before.items()
        if after[name] != value
    )


def _interrupted(number: int, frame: Any) -> None:
    """Call Python's own handler; a distinct object, so that work which resets the handler is noticed."""
    signal.default_int_handler(number, frame)


def _settings() -> dict[str, Any]:
    return {
        "the error state of NumPy (numpy.seterr)": (np.geterr(), np.geterrcall()),
        "the print options of NumPy": np.get_printoptions(),
        "warnings.filters": list(warnings.filters),
        "os.environ": dict(os.environ),
        "the working folder": Path.cwd(),
        "the recursion limit": sys.getrecursionlimit(),
        "the locale": locale.setlocale(locale.LC_ALL),
        "the handler of SIGINT": signal.getsignal(signal.SIGINT),
    }


def unexpected_warnings(work: Callable[[], Any]) -> Iterator[str]:
    """Run a function, and report the warnings that are not those of linspec."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        work()
    others = (
        message for message in caught if not issubclass(message.category, (*OF_LINSPEC, ResourceWarning))
    )
    yield from dict.fromkeys(
        f"no warnings must be given but those of linspec.errors; got {message.category.__name__}: {message.message}. "
        "Silence it where it is known to be harmless"
        for message in others  # a ResourceWarning may come from any code, at any time
    )


def left_by_import(module: str) -> list[str]:
    """Import a module; return the settings and the global generators that this changes, and the text that it prints.

    The exception of an import that fails is passed on.
    """
    text, before = io.StringIO(), {**_settings(), **_states(sys.modules.get("torch"))}
    with redirect_stdout(text):
        importlib.import_module(module)
    after = {**_settings(), **_states(sys.modules.get("torch"))}
    changed = [name for name in OF_ITS_OWN if before[name] != after[name]]
    changed += [
        f"the global generator of {name}" for name in ("NumPy", "Python") if before[name] != after[name]
    ]
    return changed + ([f"the output: {text.getvalue()[:60]!r} is printed"] if text.getvalue() else [])


# ---- time -------------------------------------------------------------------------------------


class Overdue(BaseException):
    """Raised in work that has exceeded its time."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """End a block by `Overdue` after some seconds of CPU time, or after ten times as many seconds of wall time.

    CPU time does not depend on other processes. The limit holds only in the main thread, on systems that have interval
    timers.
    """
    timers: list[tuple[int, int, float]] = []
    if hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread():
        timers = [
            (signal.ITIMER_PROF, signal.SIGPROF, seconds),
            (signal.ITIMER_REAL, signal.SIGALRM, SLEEP * seconds),
        ]
    # A timer that other code has set is left alone.
    timers = [timer for timer in timers if signal.getitimer(timer[0])[0] == 0]
    handlers = [(number, signal.signal(number, _overdue)) for _, number, _ in timers]
    try:
        for timer, _, after in timers:
            signal.setitimer(
                timer, min(after, LONGEST), 1.0
            )  # again each second: work may swallow the exception
        yield
    finally:
        for timer, _, _ in timers:
            signal.setitimer(timer, 0.0)
        for number, handler in handlers:
            signal.signal(number, handler)


def _overdue(*_: Any) -> None:
    raise Overdue("it takes longer than the time limit")
