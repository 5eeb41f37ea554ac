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
import math
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
from typing import Any

import linspec as ls
from linspec import registry
from linspec.errors import InvalidOption, LinspecError, MissingPackage
from linspec.testing.data import BACKENDS
from linspec.testing.parts import CHECKS, Adapter, Problem
from linspec.testing.solvers import REFUSED, SOLVER_CHECKS, Skip, Solver, data, unless

__all__ = ["CheckFailed", "Checks", "Report", "conformance", "run_checks"]

TIME_LIMIT = 300.0
OTHERS = {"passes", "interrupt", *(f"data:{backend.name}" for backend in BACKENDS if not backend.library)}
"""Checks on data that a solver may refuse if its record says that it needs more."""

IMPORTS = """
import contextlib, importlib, io, json, sys, time
import linspec
began = time.perf_counter()
importlib.import_module({table!r})
took = time.perf_counter() - began
loaded = sorted({{"numpy", "scipy", "torch", "cupy", "jax", "sklearn", "dask"}} & {{*sys.modules}})
from linspec.testing.solvers import left_behind
found = dict()
for module in {modules!r}:
    with contextlib.suppress(Exception):
        found[module] = [f for f in left_behind(lambda: importlib.import_module(module)) if "warnings" not in f]
print(json.dumps([took, loaded, found]))
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
    missing : dict of str to str
        Kinds of data that are missing here, with the reason.

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
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return not self.failed

    def __str__(self) -> str:
        counts = f"{self.name}: {self.passed} passed, {len(self.failed)} failed, {len(self.skipped)} skipped"
        return "\n".join([counts, *(f"  {check}: {fault}" for check, fault in self.failed)])


def declaration(spec: Any, cls: Any) -> Iterator[str]:
    """Summary, reference, docstring and options are there, and a bad option is refused."""
    sentence = re.fullmatch(r"[^\Wa-z].*\s\S+\s.*\.", spec.summary)
    yield from unless(
        sentence,
        f"the summary must be one sentence that begins with a capital and ends with a full stop; got {spec.summary!r}",
    )
    reference = getattr(spec, "reference", "Nobody 2000")
    dated = re.match(r"[^\W\d].*\b(1[89]|20)\d\d\b", reference)
    yield from unless(dated, f"the reference must have an author and a year; got {reference!r}")
    if spec.kind in ("problem", "operator"):
        return
    told = cls.__doc__ and not cls.__doc__.startswith(f"{cls.__name__}(")
    yield from unless(
        told, f"{cls.__name__} must have a docstring; it has none. State the method and its source"
    )
    for option in ls.describe(spec.qualified).options or ():
        yield from unless(option.help.strip(), f"the option {option.name} must have a help text; it has none")
        try:
            cls(**{option.name: object()})
        except InvalidOption:
            continue
        yield f"the option {option.name} must refuse an object() with InvalidOption; it was taken"


@cache
def imported(provider: str) -> tuple[str, float, list[str], dict[str, list[str]]]:
    """Import a table and the modules of its records in a fresh interpreter; return what it finds."""
    distribution, _, entry = provider.partition(":")
    points = metadata.entry_points(group="linspec", name=entry)
    table = next((point.module for point in points if point.dist and point.dist.name == distribution), "")
    if not table:
        raise Skip("the record was registered by hand and has no table")
    names = next(info.provides for info in ls.plugins() if info.identity == provider)
    targets = {getattr(registry.get_spec(None, name), "target", "").partition(":")[0]: None for name in names}
    code = IMPORTS.format(table=table, modules=[*targets])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    took, loaded, found = json.loads(done.stdout.splitlines()[-1])
    return table, took, loaded, found


def imports(spec: Any) -> Iterator[str]:
    """The table loads no array library and is quick; the module of the record changes nothing of the process."""
    table, took, loaded, found = imported(registry.provider_of(spec))
    yield from unless(
        not loaded, f"a table must load no array library; importing {table} loads {', '.join(loaded)}"
    )
    yield from unless(
        took < 1,
        f"a table must be imported in less than 1 s; {table} takes {took:.2g} s. Do no work at import",
    )
    module = getattr(spec, "target", "").partition(":")[0]
    yield from (
        f"an import must leave the process as it was; {module}: {each}" for each in found.get(module, ())
    )


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
    signal.setitimer(
        signal.ITIMER_REAL, min(seconds, 1e8), 1.0
    )  # again each second: work may swallow the exception
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def place_of(error: BaseException | None, cls: Any) -> str:
    """Return the line of an author's package at which an exception was raised, or that of a definition."""
    package = str(getattr(cls, "__module__", "")).partition(".")[0]
    frames = (
        []
        if error is None
        else [
            (f.f_globals.get("__name__", ""), f, line) for f, line in traceback.walk_tb(error.__traceback__)
        ]
    )
    lines = [(f.f_code.co_filename, line) for name, f, line in frames if name.partition(".")[0] == package]
    try:
        file, line = lines[-1] if lines else (inspect.getsourcefile(cls), inspect.getsourcelines(cls)[1])
    except (TypeError, OSError):
        return ""
    return f" ({os.path.relpath(file or '')}:{line})"


class Checks:
    """The checks of one part: `table` has them by name, and `run` raises `CheckFailed` or `Skip`."""

    def __init__(
        self, name: str, problem: Any, backends: Sequence[str] | str | None, time_limit: float
    ) -> None:
        kinds: Any = None if problem is None else "solver"
        self.spec: Any = registry.get_spec(kinds, name, problem)
        self.time_limit, kind = time_limit, self.spec.kind
        self.cls: Any = None
        self.subject: Any = None
        if not 0 < time_limit < math.inf:
            raise InvalidOption(f"time_limit must be a finite number of seconds above 0; got {time_limit!r}.")
        known = {b.name: b for b in BACKENDS}
        asked = (
            known if backends in (None, "all") else [backends] if isinstance(backends, str) else [*backends]
        )
        if unknown := [each for each in asked if each not in (*known, "all")]:
            raise InvalidOption(f"no backend is named {unknown[0]!r}; the backends are {', '.join(known)}.")
        chosen = [known[each] for each in (known if "all" in asked else asked)]
        self.missing = {b.name: b.missing() for b in chosen if b.missing()}
        self.table: dict[str, Callable[[], Iterator[str]]] = {
            "declaration": partial(self._declared),
            "imports": partial(imports, self.spec),
        }
        try:
            with limited(time_limit), redirect_stdout(StringIO()):
                self.cls = self.spec.adapt if kind == "operator" else registry.get_part(kind, name, problem)
                maker = {"solver": Solver, "operator": Adapter, "problem": Problem}.get(kind)
                self.subject = self.cls() if maker is None else maker(self.spec, self.cls)
        except (LinspecError, Overdue) as error:
            self.fault = f"{error}" or f"the part must be imported within {time_limit:g} s; it was ended"
            return
        self.fault = ""
        named = SOLVER_CHECKS if kind == "solver" else CHECKS[kind]
        self.table |= {check: partial(work, self.subject) for check, work in named.items()}
        self.table |= {f"data:{b.name}": partial(data, self.subject, b) for b in chosen if kind == "solver"}

    def _declared(self) -> Iterator[str]:
        yield from [self.fault] if self.fault else declaration(self.spec, self.cls)

    def run(self, name: str) -> None:
        """Run a check; raise `CheckFailed` with its faults, or `Skip`."""
        reference = getattr(self.subject, "reference", None)
        absent = self.missing.get(name.removeprefix("data:")) or (
            reference and name not in ("declaration", "imports") and reference.missing
        )
        if absent:
            raise Skip(absent)
        faults: list[str] = []
        error: BaseException | None = None
        try:
            with limited(self.time_limit), redirect_stdout(StringIO()):
                for fault in self.table[name]():
                    faults.append(fault)  # noqa: PERF402 (what was yielded remains if the check then raises)
        except Skip:
            if not faults:
                raise
        except Overdue as late:
            error = late
            faults.append(
                f"the check must end within {self.time_limit:g} s; it was ended. Does the solver end when it must?"
            )
        except MissingPackage as absence:
            raise Skip(str(absence)) from absence
        except Exception as raised:
            able = name not in OTHERS or str(self.spec.needs) == "adjoint"
            if isinstance(raised, REFUSED) and not able:
                raise Skip(f"the solver needs {self.spec.needs}") from raised
            error = raised
            faults.append(f"it raised {type(raised).__name__}: {raised}")
        if faults:
            raise CheckFailed("\n    ".join([*dict.fromkeys(faults)][:6]) + place_of(error, self.cls))


def expectations(checks: Checks, expected: Mapping[str, str] | None) -> Mapping[str, str]:
    """Return the reasons of expected failures, whose names must be those of checks."""
    stale = [name for name in expected or () if name not in checks.table]
    if stale:
        known = ", ".join(checks.table)
        raise InvalidOption(f"expected_failures must name checks; got {', '.join(stale)}. They are {known}.")
    return expected or {}


def run_checks(
    name: str,
    problem: Any = None,
    backends: Sequence[str] | str | None = None,
    *,
    expected_failures: Mapping[str, str] | None = None,
    time_limit: float = TIME_LIMIT,
) -> Report:
    """Run all checks of a solver, normalizer, test matrix, adapter or problem.

    Parameters
    ----------
    name : str
        As `linspec.describe` takes it: ``"cca/gram"``, ``"normalizer/qr"``, ``"operator/dask"``, ``"problem/pls"``.
    problem : str, problem class or problem, optional
        The problem of a solver whose name is registered for several problems.
    backends : sequence of str, optional
        Names of `linspec.testing.BACKENDS`; by default all that are here.
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
    checks = Checks(name, problem, backends, time_limit)
    expected = expectations(checks, expected_failures)
    report = Report(checks.spec.qualified, missing=checks.missing)
    for check in checks.table:
        try:
            checks.run(check)
        except Skip as reason:
            report.skipped.append((check, str(reason)))
        except CheckFailed as failure:
            results = report.expected if check in expected else report.failed
            results.append((check, expected.get(check, str(failure))))
        else:
            report.passed += 1
            if check in expected:
                report.failed.append((check, f"it passes, and was expected to fail: {expected[check]}"))
    return report


def conformance(
    name: str,
    problem: Any = None,
    *,
    backends: Sequence[str] | str | None = None,
    expected_failures: Mapping[str, str] | None = None,
    time_limit: float = TIME_LIMIT,
) -> Callable[..., None]:
    """Make a pytest test of a part: the whole test file of a plugin.

    Parameters
    ----------
    name, problem, backends, expected_failures, time_limit
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

    checks = Checks(name, problem, backends, time_limit)
    expected = expectations(checks, expected_failures)

    @pytest.mark.parametrize("check", list(checks.table))
    def test_conformance(check: str) -> None:
        try:
            checks.run(check)
        except Skip as reason:
            pytest.skip(str(reason))
        except CheckFailed:
            if check not in expected:
                raise
            pytest.xfail(expected[check])
        if check in expected:
            pytest.fail(f"it passes, and was expected to fail: {expected[check]}")

    return test_conformance
