"""The conformance kit: all checks of a plugin's part, as a pytest test or as a report.

Problem: an author wants one line that tests whether a part keeps the contract; the command line wants the same.
Method: the record decides which checks run. A check is a generator of faults; none means that it passes. Each check has
a time limit, prints are swallowed, and what a part raises is a fault that names the author's file and line.
Source: scikit-learn's parametrize_with_checks.
Where we differ: pytest loads no plugin of ours. Expected failures carry a reason, and one that passes is an error.
"""

from __future__ import annotations

import signal
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from io import StringIO
from os.path import relpath
from pydoc import locate
from typing import Any

import linspec as ls
from linspec import registry
from linspec.errors import InvalidOption, LinspecError, MissingPackage
from linspec.testing.checks import (
    BACKENDS,
    CHECKS,
    REFUSED,
    Backend,
    CheckFailed,
    Skip,
    Solver,
    data,
    require,
    solver_of,
)

TIME_LIMIT = 300.0


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


def declaration(spec: Any, cls: Any) -> None:
    """A docstring is there, and options are declared."""
    if spec.kind == "problem":
        require(cls.name == spec.name, f"name must be {spec.name!r}, as in the record; got {cls.name!r}")
        for place in getattr(cls, "held_out_scores", {}).values():
            there = locate(place.replace(":", "."))
            require(there, f"held_out_scores must name classes that can be imported; got {place}")
    elif spec.kind != "operator":
        documented = cls.__doc__ and not cls.__doc__.startswith(f"{cls.__name__}(")
        require(
            documented, f"{cls.__name__} must have a docstring; it has none. State the method and its source"
        )
    ls.describe(spec.qualified)  # reads the options, which must be declared


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


def place_of(error: BaseException) -> str:
    """Return the line at which an exception was raised."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f" ({relpath(frame.filename)}:{frame.lineno})"


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
        self.expected, self.time_limit = expected or {}, time_limit
        self.cls: Any = None
        kinds = {backend.name: backend for backend in BACKENDS}
        chosen = kinds if backends is None or "all" in backends else backends
        for unknown in {*chosen} - {*kinds}:
            raise InvalidOption(f"no backend is named {unknown!r}; the backends are {', '.join(kinds)}.")
        self.table: dict[str, Callable[[], None]] = {"declaration": self.declared}
        self.fault = self.missing = ""
        try:
            with limited(time_limit), redirect_stdout(StringIO()):
                self.take(name, [kinds[kind] for kind in chosen])
        except (LinspecError, Overdue) as error:
            self.fault = str(error) or f"the part must be imported within {time_limit:g} s; it was ended"
        for stale in self.expected.keys() - self.table.keys():
            known = ", ".join(self.table)
            raise InvalidOption(f"expected_failures must name checks; got {stale}. They are {known}.")

    def take(self, name: str, backends: Sequence[Backend]) -> None:
        """Make the part, and the table of its checks."""
        kind = self.spec.kind
        self.cls = self.spec.adapt if kind == "operator" else registry.get_part(kind, name)
        subject: Any = self.spec
        if kind in ("normalizer", "test-matrix"):
            subject = self.cls()
        elif kind != "operator":
            subject = Solver(self.spec, self.cls) if kind == "solver" else solver_of(self.spec)
            self.missing = subject.reference.missing
        self.table |= {check: partial(work, subject) for check, work in CHECKS[kind].items()}
        if kind == "solver":
            self.table |= {f"data:{backend.name}": partial(data, subject, backend) for backend in backends}

    def declared(self) -> None:
        """Test the record, unless the part could not be made."""
        require(not self.fault, self.fault)
        declaration(self.spec, self.cls)

    def run(self, check: str) -> tuple[str, str]:
        """Run a check; return "passed", "failed", "expected" or "skipped", and the fault or the reason."""
        if self.missing and check != "declaration":
            return "skipped", self.missing
        expected = self.expected.get(check)
        try:
            with limited(self.time_limit), redirect_stdout(StringIO()), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.table[check]()
        except (Skip, MissingPackage) as reason:
            return "skipped", str(reason)
        except (Exception, Overdue) as error:  # noqa: BLE001 (an author's part may raise anything)
            fault = f"it raised {type(error).__name__}: {error}{place_of(error)}"
            if isinstance(error, CheckFailed):
                fault = str(error)
            if isinstance(error, Overdue):
                fault = f"the check must end within {self.time_limit:g} s; it was ended{place_of(error)}"
            if isinstance(error, REFUSED) and self.may_refuse(check):
                return "skipped", f"the solver needs {self.spec.needs}"
            return ("expected", expected) if expected else ("failed", fault)
        return ("failed", f"it passes, and was expected to fail: {expected}") if expected else ("passed", "")

    def may_refuse(self, check: str) -> bool:
        """Whether a check is on data that the solver may refuse, since its record says that it needs more."""
        optional = {"passes", *(f"data:{backend.name}" for backend in BACKENDS if not backend.library)}
        return check in optional and str(self.spec.needs) != "adjoint"


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
