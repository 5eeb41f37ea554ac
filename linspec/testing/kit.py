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
from typing import Any

import linspec as ls
from linspec import registry
from linspec.errors import BrokenPlugin, InvalidOption, LinspecError
from linspec.testing.data import BACKENDS
from linspec.testing.parts import (
    ADAPTER_CHECKS,
    NORMALIZER_CHECKS,
    PROBLEM_CHECKS,
    TEST_MATRIX_CHECKS,
    Adapter,
    Problem,
)
from linspec.testing.solvers import SOLVER_CHECKS, Skip, Solver, data

__all__ = ["CheckFailed", "Report", "conformance", "run_checks"]

TIME_LIMIT = 300.0
IMPORT_SECONDS = 1.0
LIBRARIES = "numpy", "scipy", "torch", "cupy", "jax", "sklearn", "dask"

IMPORTS = """
import contextlib, importlib, io, json, sys, time
import linspec
began, used = time.perf_counter(), time.process_time()
importlib.import_module({table!r})
took = time.perf_counter() - began
loaded = [name for name in {libraries!r} if name in sys.modules]
from linspec.testing.solvers import left_behind
faults = {{}}
for module in {modules!r}:
    with contextlib.suppress(Exception):
        faults[module] = [f for f in left_behind(lambda: importlib.import_module(module)) if "warnings" not in f]
print(json.dumps([took, loaded, faults]))
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


# ---- declarations ---------------------------------------------------------------------------------


def declaration(spec: Any, cls: Any) -> Iterator[str]:
    """Summary, reference, docstring and options are there, and a bad option is refused."""
    if not re.fullmatch(r"[^\Wa-z].*\s\S+\s.*\.", spec.summary):
        yield f"the summary must be one sentence that begins with a capital and ends with a full stop; got {spec.summary!r}"
    reference = getattr(spec, "reference", None)
    if reference is not None and not re.match(r"[^\W\d].*\b(1[89]|20)\d\d\b", reference):
        yield f"the reference must have an author and a year; got {reference!r}"
    if cls is None:
        return
    if not cls.__doc__ or cls.__doc__.startswith(f"{cls.__name__}("):
        yield f"{cls.__name__} must have a docstring; it has none. State the method and its source"
    for option in ls.describe(spec.qualified).options or ():
        if not option.help.strip():
            yield f"the option {option.name} must have a help text; it has none"
        try:
            cls(**{option.name: object()})
        except InvalidOption:
            continue
        yield f"the option {option.name} must refuse an object() with InvalidOption; it was taken"


@cache
def imported(provider: str) -> tuple[float, list[str], dict[str, list[str]], str]:
    """Import a table and the modules of its records in a fresh interpreter; return seconds, libraries, and faults."""
    distribution, _, entry = provider.partition(":")
    found = metadata.entry_points(group="linspec", name=entry)
    table = next((e.module for e in found if e.dist is not None and e.dist.name == distribution), "")
    if not table:
        raise Skip("the record was registered by hand and has no table")
    names = next(info.provides for info in ls.plugins() if info.identity == provider)
    specs = [registry.get_spec(None, name) for name in names]
    modules = [spec.target.partition(":")[0] for spec in specs if hasattr(spec, "target")]
    code = IMPORTS.format(table=table, libraries=LIBRARIES, modules=list(dict.fromkeys(modules)))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        return 0.0, [], {}, f"the table {table} must be importable; got {done.stderr.strip().splitlines()[-1]}"
    took, loaded, faults = json.loads(done.stdout.splitlines()[-1])
    return took, loaded, faults, table


def imports(spec: Any) -> Iterator[str]:
    """The table loads no array library and is quick; the module of the record changes nothing of the process."""
    took, loaded, faults, table = imported(registry.provider_of(spec))
    if not took:
        yield table
        return
    if loaded:
        yield f"a table must load no array library; importing {table} loads {', '.join(loaded)}"
    if took > IMPORT_SECONDS:
        yield f"a table must be imported in less than {IMPORT_SECONDS:g} s; {table} takes {took:.2g} s. Do no work at import"
    module = getattr(spec, "target", "").partition(":")[0]
    yield from (f"an import must leave the process as it was; {module}: {fault}" for fault in faults.get(module, ()))


# ---- running --------------------------------------------------------------------------------------


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


def line_of(error: BaseException, cls: Any) -> str:
    """Return the file and the line of an author's package where an exception was raised, or ""."""
    package = str(getattr(cls, "__module__", "")).partition(".")[0]
    lines = [
        f" ({os.path.relpath(frame.f_code.co_filename)}:{line})"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] == package
    ]
    return lines[-1] if lines else ""


class Checks:
    """The checks of one part, by name; calling one raises `CheckFailed` or `Skip`."""

    def __init__(self, name: str, problem: Any, backends: Sequence[str] | str | None, time_limit: float) -> None:
        if not time_limit > 0:
            raise InvalidOption(f"time_limit must be above 0 s; got {time_limit!r}.")
        self.spec = registry.get_spec(None if problem is None else "solver", name, problem)
        self.time_limit, self.overdue, self.cls, self.subject = time_limit, "", None, None
        known = {backend.name: backend for backend in BACKENDS}
        asked = None if backends is None or backends == "all" or [*backends] == ["all"] else backends
        asked = [asked] if isinstance(asked, str) else asked
        if unknown := [each for each in asked or () if each not in known]:
            raise InvalidOption(f"no kind of data is named {', '.join(unknown)}; they are {', '.join(known)}.")
        self.missing = {b.name: b.missing() for b in BACKENDS if b.missing()} if asked is None else {}
        self.fault = ""
        try:
            with limited(time_limit):
                self._prepare(name, problem)
        except (LinspecError, Overdue) as error:
            self.fault = f"{error}" or f"the part must be imported within {time_limit:g} s; it was ended. Do no work at import"
        self.table = self._table([known[each] for each in asked] if asked else list(BACKENDS))

    def _prepare(self, name: str, problem: Any) -> None:
        kind = self.spec.kind
        if kind != "operator":
            self.cls = registry.get_part(kind, name, problem)
        makers = {"solver": Solver, "operator": Adapter, "problem": Problem}
        self.subject = makers[kind](self.spec, self.cls) if kind in makers else self.cls()

    def _table(self, backends: Sequence[Any]) -> dict[str, Callable[[], Iterator[str]]]:
        found: dict[str, Callable[[], Iterator[str]]] = {
            "declaration": partial(self._declared),
            "imports": partial(imports, self.spec),
        }
        if self.fault:
            return found
        named = {
            "solver": SOLVER_CHECKS,
            "normalizer": NORMALIZER_CHECKS,
            "test-matrix": TEST_MATRIX_CHECKS,
            "operator": ADAPTER_CHECKS,
            "problem": PROBLEM_CHECKS,
        }[self.spec.kind]
        found |= {name: partial(check, self.subject) for name, check in named.items()}
        if self.spec.kind == "solver":
            found |= {f"data:{b.name}": partial(self._on, b) for b in backends}
        return found

    def _declared(self) -> Iterator[str]:
        yield from [self.fault] if self.fault else declaration(self.spec, self.cls if self.spec.kind != "problem" else None)

    def _on(self, backend: Any) -> Iterator[str]:
        if backend.missing():
            raise Skip(backend.missing())
        return data(self.subject, backend)

    def run(self, name: str) -> None:
        """Run a check; raise `CheckFailed` with its faults, or `Skip`."""
        reference = getattr(self.subject, "reference", None)
        reason = self.overdue or (reference.missing if reference and name not in ("declaration", "imports") else "")
        if reason:
            raise Skip(reason)
        faults: list[str] = []
        target = self.cls if self.spec.kind != "operator" else self.spec.adapt
        try:
            with limited(self.time_limit), redirect_stdout(StringIO()):
                for fault in self.table[name]():
                    faults.append(fault)
        except Skip:
            if not faults:
                raise
        except Overdue as error:
            self.overdue = f"not run: {name} took longer than {self.time_limit:g} s"
            faults.append(f"the check must end within {self.time_limit:g} s; it was ended{line_of(error, target)}. Does the solver end when it is told to?")
        except Exception as error:  # noqa: BLE001 (whatever a part raises is a fault)
            faults.append(f"it raised {type(error).__name__}: {error}{line_of(error, target)}")
        if faults:
            raise CheckFailed("\n    ".join([*list(dict.fromkeys(faults))[:6], self._place(target)]))

    def _place(self, target: Any) -> str:
        try:
            file, line = inspect.getsourcefile(target), inspect.getsourcelines(target)[1]
        except (TypeError, OSError):
            return f"in {self.spec.qualified}"
        return f"at {os.path.relpath(file or '')}:{line} ({target.__name__})"


def expectations(checks: Checks, expected: Mapping[str, str] | None) -> dict[str, str]:
    """Return the reasons of expected failures, whose names must be those of checks."""
    stale = [name for name in expected or () if name not in checks.table]
    if stale:
        raise InvalidOption(
            f"expected_failures of {checks.spec.qualified} must name checks; got {', '.join(stale)}. They are "
            f"{', '.join(checks.table)}."
        )
    return dict(expected or {})


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
            if check in expected:
                report.failed.append((check, f"it passes, and was expected to fail: {expected[check]}"))
            else:
                report.passed += 1
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
        if check in expected:
            with pytest.raises(CheckFailed):
                checks.run(check)
            pytest.xfail(expected[check])
        try:
            checks.run(check)
        except Skip as reason:
            pytest.skip(str(reason))

    return test_conformance
