"""The conformance kit: all checks of a plugin's part, as a pytest test or as a report.

Problem: an author wants one line that tests whether a part keeps the contract; the command line wants the same.
Method: the record decides which checks run. A check is a generator of faults; none means that it passes. Each check has
a time limit, prints are swallowed, and what a part raises is a fault that names the author's file and line.
Source: scikit-learn's parametrize_with_checks.
Where we differ: pytest loads no plugin of ours. Expected failures carry a reason, and one that passes is an error.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import metadata
from io import StringIO
from pkgutil import resolve_name
from typing import Any

import linspec as ls
from linspec import registry
from linspec.errors import InvalidOption, LinspecError, MissingPackage
from linspec.testing.data import BACKENDS, Backend
from linspec.testing.parts import CHECKS
from linspec.testing.solvers import (
    PROBLEM_CHECKS,
    REFUSED,
    SOLVER_CHECKS,
    Faults,
    Skip,
    Solver,
    data,
    solver_of,
)

__all__ = ["CheckFailed", "Checks", "Report", "conformance", "run_checks"]

TIME_LIMIT = 300.0

IMPORTS = """
import contextlib, importlib, json, sys, time
import linspec
began = time.perf_counter()
importlib.import_module({table!r})
took = time.perf_counter() - began
loaded = sorted({{"numpy", "scipy", "torch", "cupy", "jax", "sklearn", "dask"}} & {{*sys.modules}})
from linspec.testing.solvers import left_behind
changes = dict()
for module in {modules!r}:
    with contextlib.suppress(Exception):
        changes[module] = [f for f in left_behind(lambda: importlib.import_module(module)) if "no warnings" not in f]
print(json.dumps([took, loaded, changes]))
"""
"""Run in a fresh interpreter: how long a table takes, what it loads, and what the modules of its records change."""


class CheckFailed(AssertionError):  # noqa: N818 (a result of the test, not an error of the kit)
    """Raised if a part breaks the contract; the message says how, and names its file and line.

    Examples
    --------
    >>> from linspec.testing import CheckFailed
    >>> issubclass(CheckFailed, AssertionError)
    True
    """


class Overdue(BaseException):
    """Raised in a check that has exceeded its time."""


@dataclass
class Report:
    """The results of the checks of a part.

    Attributes
    ----------
    name : str
    passed : int
    failed, expected, skipped : list of (str, str)
        The name of a check, and the fault or the reason.

    Examples
    --------
    >>> from linspec.testing import run_checks
    >>> run_checks("normalizer/qr").ok
    True
    """

    name: str
    passed: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)
    expected: list[tuple[str, str]] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return not self.failed

    def __str__(self) -> str:
        counts = f"{self.name}: {self.passed} passed, {len(self.failed)} failed, {len(self.skipped)} skipped"
        return "\n".join([counts, *(f"  {check}: {fault}" for check, fault in self.failed)])


def declaration(spec: Any, cls: Any) -> Faults:
    """Summary, reference and docstring are there; the table loads no array library, and imports change nothing."""
    if not re.fullmatch(r"[^\Wa-z].*\s\S+\s.*\.", spec.summary):
        yield f"the summary must be one sentence, from a capital to a full stop; got {spec.summary!r}"
    reference = getattr(spec, "reference", "Nobody 2000")
    if not re.match(r"[^\W\d].*\b(1[89]|20)\d\d\b", reference):
        yield f"the reference must have an author and a year; got {reference!r}"
    if spec.kind == "problem":
        yield from named(spec, cls)
    elif spec.kind != "operator" and (not cls.__doc__ or cls.__doc__.startswith(f"{cls.__name__}(")):
        yield f"{cls.__name__} must have a docstring; it has none. State the method and its source"
    ls.describe(spec.qualified)  # reads the options, which must be declared
    yield from imports(spec)


def named(spec: Any, cls: Any) -> Faults:
    """A kind of problem has the name of its record, and the classes that it names are there."""
    if cls.name != spec.name:
        yield f"name must be {spec.name!r}, as in the record; got {cls.name!r}"
    for place in getattr(cls, "held_out_scores", {}).values():
        try:
            resolve_name(place)
        except (ImportError, AttributeError):
            yield f"held_out_scores must name classes that can be imported; got {place}"


def imports(spec: Any) -> Faults:
    """The table loads no array library and is quick; the module of the record changes nothing of the process."""
    provider = registry.provider_of(spec)
    distribution, _, entry = provider.partition(":")
    for point in metadata.entry_points(group="linspec", name=entry):
        if point.dist and point.dist.name == distribution:
            took, loaded, changes = imported(provider, point.module)
            if loaded:
                yield f"a table must load no array library; importing {point.module} loads {', '.join(loaded)}"
            if took >= 1:
                yield f"a table must be imported in less than 1 s; {point.module} takes {took:.2g} s. Do no work there"
            module = getattr(spec, "target", "").partition(":")[0]
            for change in changes.get(module, ()):
                yield f"an import must leave the process as it was; {module}: {change}"


@cache
def imported(provider: str, table: str) -> tuple[float, list[str], dict[str, list[str]]]:
    """Import a table and the modules of its records in a fresh interpreter; return what it notices."""
    names = next(info.provides for info in ls.plugins() if info.identity == provider)
    targets = [getattr(registry.get_spec(None, name), "target", "") for name in names]
    code = IMPORTS.format(table=table, modules=[*dict.fromkeys(target.partition(":")[0] for target in targets)])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    took, loaded, changes = json.loads(done.stdout.splitlines()[-1])
    return took, loaded, changes


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """End a block by `Overdue` after some seconds; in the main thread, where there are timers."""
    able = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if not able or signal.getitimer(signal.ITIMER_REAL)[0]:
        yield
        return

    def end(*_: Any) -> None:
        raise Overdue

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)  # again each second: work may swallow the exception
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def place_of(error: BaseException | None, cls: Any) -> str:
    """Return the line of an author's file at which an exception was raised, or that of a definition."""
    try:
        file, line = inspect.getsourcefile(cls) or "", inspect.getsourcelines(cls)[1]
    except (TypeError, OSError):
        return ""
    frames = traceback.extract_tb(error.__traceback__ if error else None)
    lines = [frame.lineno for frame in frames if frame.filename == file]
    return f" ({os.path.relpath(file)}:{lines[-1] if lines else line})"


class Checks:
    """The checks of one part: `table` has them by name, and `run` tells the outcome of one."""

    def __init__(
        self,
        name: str,
        backends: Sequence[str] | None = None,
        expected: Mapping[str, str] | None = None,
        time_limit: float = TIME_LIMIT,
    ) -> None:
        self.spec: Any = registry.get_spec(None, name)
        self.expected, self.time_limit, self.cls = expected or {}, time_limit, None
        if not 0 < time_limit < 1e8:
            raise InvalidOption(f"time_limit must be a finite number of seconds above 0; got {time_limit!r}.")
        kinds = {backend.name: backend for backend in BACKENDS}
        chosen = kinds if backends is None or "all" in backends else backends
        for unknown in {*chosen} - {*kinds}:
            raise InvalidOption(f"no backend is named {unknown!r}; the backends are {', '.join(kinds)}.")
        self.table: dict[str, Callable[[], Faults]] = {"declaration": self.declared}
        self.fault = self.missing = ""
        try:
            with limited(time_limit), redirect_stdout(StringIO()):
                self.take(name, [kinds[each] for each in chosen])
        except (LinspecError, Overdue) as error:
            self.fault = str(error) or f"the part must be imported within {time_limit:g} s; it was ended"
        for stale in self.expected.keys() - self.table.keys():
            known = ", ".join(self.table)
            raise InvalidOption(f"expected_failures must name checks; got {stale}. They are {known}.")

    def take(self, name: str, backends: Sequence[Backend]) -> None:
        """Make the part, and the table of its checks."""
        kind, checks = self.spec.kind, CHECKS.get(self.spec.kind, SOLVER_CHECKS)
        self.cls = self.spec.adapt if kind == "operator" else registry.get_part(kind, name)
        subject: Any = self.spec
        if kind in ("normalizer", "test-matrix"):
            subject = self.cls()
        elif kind != "operator":
            subject = Solver(self.spec, self.cls) if kind == "solver" else solver_of(self.spec)
            self.missing = subject.reference.missing
        for check, work in checks.items():
            if kind != "problem" or check in PROBLEM_CHECKS:
                self.table[check] = partial(work, subject)
        for backend in backends if kind == "solver" else ():
            self.table[f"data:{backend.name}"] = partial(data, subject, backend)

    def declared(self) -> Faults:
        """Return the faults of the record, or why the part could not be made."""
        return iter([self.fault]) if self.fault else declaration(self.spec, self.cls)

    def run(self, check: str) -> tuple[str, str]:
        """Run a check; return "passed", "failed", "expected" or "skipped", and the faults or the reason."""
        if self.missing and check != "declaration":
            return "skipped", self.missing
        faults: list[str] = []
        error: BaseException | None = None
        try:
            with limited(self.time_limit), redirect_stdout(StringIO()):
                for fault in self.table[check]():
                    faults.append(fault)  # noqa: PERF402 (what was yielded remains if the check then raises)
        except (Skip, MissingPackage) as reason:
            if not faults:
                return "skipped", str(reason)
        except Overdue as late:
            error = late
            faults.append(f"the check must end within {self.time_limit:g} s; it was ended. Does the solver end?")
        except Exception as raised:
            if isinstance(raised, REFUSED) and self.may_refuse(check):
                return "skipped", f"the solver needs {self.spec.needs}"
            error = raised
            faults.append(f"it raised {type(raised).__name__}: {raised}")
        if not faults and check in self.expected:
            return "failed", f"it passes, and was expected to fail: {self.expected[check]}"
        if not faults:
            return "passed", ""
        if check in self.expected:
            return "expected", self.expected[check]
        return "failed", "\n    ".join([*dict.fromkeys(faults)][:6]) + place_of(error, self.cls)

    def may_refuse(self, check: str) -> bool:
        """Whether a check is on data that the solver may refuse, since its record says that it needs more."""
        arrays = {f"data:{backend.name}" for backend in BACKENDS if backend.library}
        others = check == "passes" or check.startswith("data:") and check not in arrays
        return others and str(self.spec.needs) != "adjoint"


def run_checks(
    name: str,
    *,
    backends: Sequence[str] | None = None,
    expected_failures: Mapping[str, str] | None = None,
    time_limit: float = TIME_LIMIT,
) -> Report:
    """Run all checks of a solver, normalizer, test matrix, adapter or problem.

    Parameters
    ----------
    name : str
        As `linspec.describe` takes it: ``"cca/gram"``, ``"normalizer/qr"``, ``"operator/dask"``, ``"problem/pls"``.
    backends : sequence of str, optional
        Names of `linspec.testing.BACKENDS`; by default, and with "all", all that are here.
    expected_failures : mapping of str to str, optional
        The reason why a check fails, by its name. One that passes is a failure.
    time_limit : float, default 300
        The seconds after which a check is ended.

    Returns
    -------
    Report

    Examples
    --------
    >>> from linspec.testing import run_checks
    >>> run_checks("test-matrix/gaussian").failed
    []
    """
    checks = Checks(name, backends, expected_failures, time_limit)
    report = Report(checks.spec.qualified)
    for check in checks.table:
        outcome, text = checks.run(check)
        if outcome == "passed":
            report.passed += 1
        else:
            getattr(report, outcome).append((check, text))
    return report


def conformance(
    name: str,
    *,
    backends: Sequence[str] | None = None,
    expected_failures: Mapping[str, str] | None = None,
    time_limit: float = TIME_LIMIT,
) -> Callable[..., None]:
    """Make a pytest test of a part: the whole test file of a plugin.

    Parameters
    ----------
    name, backends, expected_failures, time_limit
        As for `run_checks`.

    Returns
    -------
    callable
        Assign it to a name that begins with ``test_``.

    Examples
    --------
    >>> from linspec.testing import conformance
    >>> test_conformance = conformance("normalizer/qr")
    """
    import pytest

    checks = Checks(name, backends, expected_failures, time_limit)

    @pytest.mark.parametrize("check", list(checks.table))
    def test_conformance(check: str) -> None:
        outcome, text = checks.run(check)
        if outcome == "failed":
            raise CheckFailed(text)
        if outcome == "skipped":
            pytest.skip(text)
        if outcome == "expected":
            pytest.xfail(text)

    return test_conformance
