"""All checks of one solver, or of another part of a plugin: as pytest tests, as a report, as a list of issues.

Problem: a plugin's author wants one line that tests whether the solver keeps the contract. The command line
wants the same without pytest.
Method: a `Suite` lists its checks. Each has a name, the backend that it runs on, and a function.
`conformance` makes a parametrised pytest test of the list, and `run_checks` makes a report.
Source: scikit-learn's parametrize_with_checks; fsspec's abstract test classes.
Where we differ: there is no class to inherit from, and pytest loads no plugin of ours. Expected failures are
an argument of `conformance`, and they must fail: one that passes is an error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property, partial
from typing import Any

from linspec import registry
from linspec.errors import BrokenPlugin, InvalidDeclaration, InvalidOption, UnknownName
from linspec.process.plurals import count_of
from linspec.testing import backends as tables
from linspec.testing.adapting import ADAPTER_CHECKS, Adapter
from linspec.testing.answers import ANSWER_CHECKS, lacking
from linspec.testing.approximating import check_approximates
from linspec.testing.behaviour import BEHAVIOUR_CHECKS, Skip, check_non_finite
from linspec.testing.declarations import declaration_issues, table_file
from linspec.testing.drawing import PRODUCT_CHECKS, TEST_MATRIX_CHECKS
from linspec.testing.equivalents import EQUIVALENCE_CHECKS, Solved
from linspec.testing.family import ProblemTesting, testing_of
from linspec.testing.normalizing import NORMALIZER_CHECKS, Blocks
from linspec.testing.places import line_in, package_of, place_of, said_of
from linspec.testing.problems import Case
from linspec.testing.process import SLEEP, Overdue, limited
from linspec.testing.solving import Subject, Trial
from linspec.testing.stating import PROBLEM_CHECKS, Stated
from linspec.testing.streams import STREAM_CHECKS
from linspec.testing.unasked import UNASKED_CHECKS

__all__ = ["Check", "CheckFailed", "Report", "Suite", "conformance", "interface_issues", "run_checks"]


TIME_LIMIT = 300.0
"""Time limit of a check, in seconds of CPU time. The slowest check of linspec takes a tenth."""

SHOWN, NAMED = 8, 3
"""Most lines of issues in the message of a check, and most cases that one line names."""


SENTENCE = re.compile(r"\b(must|raised)\b")
"""Words by which a sentence is recognised. Some issues begin with a place, such as the name of a case, and a colon.
Text before the first colon is such a place if it has none of these words."""


class CheckFailed(AssertionError):  # noqa: N818 (a result of the test, not an error of the kit)
    """Raised if the tested part breaks the contract. The message says how, and names its file and line.

    Examples
    --------
    >>> from linspec.testing import CheckFailed
    >>> try:
    ...     raise CheckFailed("passes must be positive; got 0")  # as a check does
    ... except AssertionError as failure:
    ...     print(failure)
    passes must be positive; got 0
    """


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes
    ----------
    name : str
        The name for expected failures: "residual-law".
    backend : str
        The backend; "" if the check does not use one.
    run : callable
        Runs the check. Raises CheckFailed, or Skip with the reason.

    Examples
    --------
    >>> from linspec.testing import Suite
    >>> check = next(Suite("normalizer/qr", backends=["numpy"]).checks())
    >>> check.run()  # no exception: the normalizer passes
    """

    name: str
    backend: str
    run: Callable[[], None]

    @property
    def id(self) -> str:
        """The id of the test: "residual-law:array-api-strict"."""
        return f"{self.name}:{self.backend}" if self.backend else self.name


@dataclass
class Report:
    """The results of the checks.

    Attributes
    ----------
    name : str
        The tested part, "cca/gram".
    passed : int
        The number of checks that passed.
    failed : list of (str, str)
        The check's id and the fault.
    skipped : list of (str, str)
        The check's id and the reason.
    missing : dict of str to str
        The backends that are missing on this machine, each with the reason.

    Examples
    --------
    >>> from linspec.testing import run_checks
    >>> report = run_checks("normalizer/qr", backends=["numpy"])
    >>> report.ok, report.failed
    (True, [])
    """

    name: str
    passed: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return not self.failed

    def __str__(self) -> str:
        counts = [count_of(self.passed + len(self.failed), "check")]
        if self.failed:
            counts.append(f"{len(self.failed)} failed")
        if self.skipped:
            reasons = ", ".join(dict.fromkeys(reason for _, reason in self.skipped))
            counts.append(f"{len(self.skipped)} skipped: {reasons}")
        if self.missing:
            counts.append(f"not tried on {', '.join(self.missing)}")
        lines = [f"{self.name}: {', '.join(counts)}"]
        return "\n".join(lines + [f"  {check}: {message}" for check, message in self.failed])


def _family(spec: Any) -> ProblemTesting | None:
    """Return the `ProblemTesting` of a solver's family, or None if there is none."""
    if spec.kind != "solver":
        return None
    with suppress(UnknownName, InvalidDeclaration):
        return testing_of(spec.problem)
    return None


class Suite:
    """The checks of one solver, normalizer, test matrix or adapter.

    Parameters
    ----------
    name : str
        As `linspec.describe` takes it: "cca/gram", "normalizer/qr", "operator/dask".
    problem : str, problem class or problem, optional
        The problem of a solver whose name is registered for several problems.
    backends : sequence of str or "all", optional
        Names of `linspec.testing.BACKENDS`. By default one available backend for each way in which data reach a solver,
        with few iterations if products are slow; "all" runs every case on each. ``LINSPEC_CONFORMANCE=all`` in the
        environment makes that the default. A backend that is named and missing is skipped.
    time_limit : float, default 300
        Seconds. A check that takes more CPU time, or ten times as much wall time, is ended and fails, and the remaining
        checks are skipped. There is no limit outside the main thread, and on systems without interval timers.

    Examples
    --------
    >>> from linspec.testing import Suite
    >>> suite = Suite("normalizer/qr", backends=["numpy"])
    >>> sum(check.backend == "numpy" for check in suite.checks()) > 0
    True
    """

    def __init__(
        self,
        name: str,
        problem: Any = None,
        backends: Sequence[str] | str | None = None,
        time_limit: float = TIME_LIMIT,
    ) -> None:
        if not 0 < time_limit < math.inf:
            raise InvalidOption(f"time_limit must be a finite number of seconds above 0; got {time_limit!r}.")
        self.spec: Any = registry.get_spec(None if problem is None else "solver", name, problem)
        self.name = self.spec.qualified if ":" not in name else name
        self._request = (name, problem)
        self._trials: dict[tuple[str, str], Trial] = {}
        self.choice = tables.Choice(backends)
        self.time_limit, self._overdue = time_limit, ""

    def checks(self) -> Iterator[Check]:
        """Yield all checks, including those that will be skipped."""
        for name in DECLARATIONS[self.spec.kind]:
            yield Check(name, "", partial(self._run, name, partial(self._declaration, name)))
        yield from {
            "solver": self._of_solver,
            "normalizer": self._of_normalizer,
            "test-matrix": self._of_test_matrix,
            "operator": self._of_adapter,
            "problem": self._of_problem,
        }[self.spec.kind]()

    def _of_solver(self) -> Iterator[Check]:
        if not self.cases:
            yield Check("cases", "", self._without_cases)
            return
        for name in self._behaviour_checks:
            yield self._check(name, partial(self._behaviour, name))
        yield self._check("approximates", self._approximates)
        for name, backend in self.choice.of(*self._answer_checks, "non-finite"):
            issues = self._non_finite if name == "non-finite" else partial(self._answer_issues, name)
            yield self._check(name, partial(issues, backend), backend)

    @property
    def _behaviour_checks(self) -> dict[str, Callable[[Subject], Iterator[str]]]:
        own = {} if self.family is None else self.family.behaviour_checks
        return {**BEHAVIOUR_CHECKS, **STREAM_CHECKS, **own}

    @property
    def _answer_checks(self) -> dict[str, Callable[[Trial], Iterator[str]]]:
        return {**ANSWER_CHECKS, **({} if self.family is None else self.family.answer_checks)}

    def _of_normalizer(self) -> Iterator[Check]:
        for name, backend in self.choice.of(*NORMALIZER_CHECKS):
            if backend.is_array:
                yield self._check(name, partial(self._normalizes, name, backend), backend)

    def _of_test_matrix(self) -> Iterator[Check]:
        for name in TEST_MATRIX_CHECKS:
            yield self._check(name, partial(self._draws, name))
        for name, backend in self.choice.of(*PRODUCT_CHECKS):
            yield self._check(name, partial(self._multiplies, name, backend), backend)

    def _of_adapter(self) -> Iterator[Check]:
        adapter = Adapter(self.spec)
        for name, keeps in ADAPTER_CHECKS.items():
            yield self._check(name, partial(keeps, adapter))

    def _of_problem(self) -> Iterator[Check]:
        for name, keeps in PROBLEM_CHECKS.items():
            yield self._check(name, partial(self._stated, keeps))
        for name, equal in {**EQUIVALENCE_CHECKS, **UNASKED_CHECKS}.items():
            yield self._check(name, partial(self._solved, equal))

    def _solved(self, equal: Callable[[Solved], Iterator[str]]) -> Iterator[str]:
        return equal(self._problem)

    @cached_property
    def _problem(self) -> Solved:
        return Solved(self.spec, self.cls)

    def _stated(self, keeps: Callable[[Stated], Iterator[str]]) -> Iterator[str]:
        return keeps(Stated(self.spec, self.cls))

    def _behaviour(self, name: str) -> Iterator[str]:
        return self._behaviour_checks[name](self.subject)

    def _normalizes(self, name: str, backend: tables.Backend) -> Iterator[str]:
        return NORMALIZER_CHECKS[name](self._blocks, backend)

    def _draws(self, name: str) -> Iterator[str]:
        return TEST_MATRIX_CHECKS[name](self.cls())

    def _multiplies(self, name: str, backend: tables.Backend) -> Iterator[str]:
        return PRODUCT_CHECKS[name](self.cls(), backend)

    def _check(
        self, name: str, issues: Callable[[], Iterable[str]], backend: tables.Backend | None = None
    ) -> Check:
        """Make a check that fails if there are issues; the failure names the file and line of the tested part."""

        def run() -> None:
            for required in (self.family, backend):
                if required is not None:
                    _require(required)
            self._run(name, issues)

        return Check(name, "" if backend is None else backend.name, run)

    def _run(self, name: str, issues: Callable[[], Iterable[str]]) -> None:
        """Fail if a check has issues; skip it if an earlier one took too long."""
        if self._overdue:
            raise Skip(f"not run: {self._overdue}")
        self._fail_on(self._in_time(name, issues))

    def _in_time(self, name: str, issues: Callable[[], Iterable[str]]) -> Iterator[str]:
        """Yield the issues of a check, and one more if it takes too long."""
        try:
            with limited(self.time_limit):
                yield from issues()
        except Overdue as error:
            self._overdue = f"the check {name!r} took more than {self.time_limit:g} s"
            where = line_in(error, self.package)
            solver = "Does the solver end when run.proceed is False? " if self.spec.kind == "solver" else ""
            yield (
                f"the check must end within {self.time_limit:g} s of CPU time, or {SLEEP} times as long by the clock; "
                f"it was ended{where and f' in {where}'}. {solver}A larger time_limit allows more"
            )

    @cached_property
    def family(self) -> ProblemTesting | None:
        """The `ProblemTesting` of the solver's family, or None."""
        return _family(self.spec)

    @cached_property
    def cases(self) -> tuple[Case, ...]:
        """The cases on which the solver is tested."""
        return () if self.family is None else tuple(self.family.cases())

    @cached_property
    def cls(self) -> Any:
        """The class; Skip if it cannot be used (the check "target" reports it)."""
        part, fault = self._part
        if fault is not None:
            raise Skip("the target cannot be used") from fault
        return part

    @cached_property
    def _part(self) -> tuple[Any, BrokenPlugin | None]:
        """The class, or the reason why it cannot be used; an import that takes too long is ended, and not repeated."""
        try:
            with limited(self.time_limit):
                return registry.get_part(self.spec.kind, *self._request), None
        except BrokenPlugin as fault:
            return None, fault

    @cached_property
    def _blocks(self) -> Blocks:
        return Blocks(self.cls())

    @property
    def subject(self) -> Subject:
        """The solver with its record."""
        return Subject(name=self.name, spec=self.spec, cls=self.cls)

    @cached_property
    def tested(self) -> Any:
        """The class or function under test, or None if it cannot be imported."""
        with suppress(Skip):
            return self.spec.adapt if self.spec.kind == "operator" else self.cls
        return None

    @property
    def place(self) -> str:
        """The place of the tested part, "folder/file.py:12", or of its table if it cannot be imported."""
        return place_of(self.tested) if self.tested is not None else table_file(self._provider)

    @property
    def package(self) -> str:
        """The package of the tested part."""
        return package_of(self.tested) or str(self.spec.target).partition(":")[0].partition(".")[0]

    def trial(self, backend: tables.Backend, case: Case) -> Trial:
        """Return the trial of a case on a backend, which is solved once."""
        key = backend.name, case.name
        if key not in self._trials:
            brief = self.choice.is_brief(backend, self.cases.index(case))
            self._trials[key] = Trial.of(self.subject, backend, case, brief=brief)
        return self._trials[key]

    @cached_property
    def _provider(self) -> str:
        return registry.provider_of(self.spec)

    @cached_property
    def declarations(self) -> dict[str, str]:
        """Faults of the declaration, by check: "" if there is none; "skipped: ..." if it was not checked."""
        if self.spec.kind != "operator" and (fault := self._part[1]) is not None:
            return {"target": str(fault)}
        return dict(declaration_issues(self.spec, self._provider))

    def _declaration(self, name: str) -> Iterator[str]:
        issue = self.declarations.get(name, "skipped: the target cannot be used")
        if issue.startswith("skipped: "):
            raise Skip(issue.removeprefix("skipped: "))
        if issue:
            yield issue

    def _without_cases(self) -> None:
        issue = (
            f"the kit has no cases of the problem {self.spec.problem!r}, so the solver was not tested. "
            "Correct the name of the problem in the record, or give the problem's own record cases with "
            "testing="
        )
        self._fail_on([issue])

    def _approximates(self) -> Iterator[str]:
        if self.subject.exact or self.subject.trait("demonstration"):
            raise Skip("the solver is exact, or a demonstration")
        return check_approximates(self.trial(tables.BACKENDS[0], case) for case in self.cases)

    def _answer_issues(self, name: str, backend: tables.Backend) -> Iterator[str]:
        judged = faults = 0
        cases = [case for i, case in enumerate(self.cases) if self.choice.takes(self.name, backend, i)]
        for case in cases:
            trial = self.trial(backend, case)
            if trial.solution is None and name not in {"solves", "input-untouched"}:
                continue
            judged += 1
            for issue in self._answer_checks[name](trial):
                faults += 1
                yield f"{case.name}: {issue}"
        if not judged:
            raise Skip("no case was solved")
        trials = [self.trial(backend, case) for case in cases]
        if name == "solves" and not any(trial.solution for trial in trials):
            if not faults and not any(map(lacking, trials)):
                yield "the solver must solve some case; it refuses all of them"
            raise Skip(f"the solver needs {self.spec.needs}")

    def _non_finite(self, backend: tables.Backend) -> Iterator[str]:
        return check_non_finite(self.subject, backend)

    def _fail_on(self, issues: Iterable[str]) -> None:
        found: list[str] = []
        try:
            for issue in issues:
                found.append(issue)  # noqa: PERF402 (one by one: what was found remains if the check then raises)
        except Exception as error:
            if not found:
                raise
            if not isinstance(error, Skip):
                found.append(f"then the check raised {said_of(error, self.package)}")
        if not found:
            return
        lines = merged(found)
        shown = lines[:SHOWN] + ([f"... and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else [])
        place = self.place
        named = getattr(self.tested, "__name__", "the record")
        raise CheckFailed("\n  ".join([*shown, *([f"at {place} ({named})"] if place else [])]))


_OF_CLASS = (
    "target", "defaults", "invalid-options", "option-help", "docstring", "reference", "summary", "light-table",
    "quiet-import",
)  # fmt: skip
DECLARATIONS = {
    "solver": (*_OF_CLASS, "automatic"),
    "normalizer": _OF_CLASS,
    "test-matrix": _OF_CLASS,
    "operator": ("summary", "light-table"),
    "problem": ("target", "summary", "light-table", "quiet-import"),
}
"""The names of the checks of a declaration, by kind."""


def merged(issues: Sequence[str]) -> list[str]:
    """Merge issues that differ only in their place, such as the case: "tall; wide: raised ..."."""
    places: dict[str, dict[str, None]] = {}
    for issue in issues:
        place, colon, _ = issue.partition(": ")
        named = bool(colon) and not SENTENCE.search(place)
        places.setdefault(issue.removeprefix(place) if named else issue, {})[place if named else ""] = None
    return [f"{_listed([*names])}{text}" for text, names in places.items()]


def _listed(names: Sequence[str]) -> str:
    """Return the first names with semicolons, and the number of the others: "tall; wide; square and 23 more"."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{'; '.join(names[:NAMED])}{more}"


def _require(required: tables.Backend | ProblemTesting) -> None:
    missing = required.missing()
    if missing:
        raise Skip(missing)


def interface_issues(name: str, problem: Any = None) -> list[str]:
    """Check a declaration without solving anything.

    Parameters
    ----------
    name : str
        A solver, normalizer, test matrix or adapter, as `linspec.describe` takes it.
    problem : str, problem class or problem, optional
        The problem of a solver whose name is registered for several problems.

    Returns
    -------
    list of str
        The faults, each with the name of its check in front. The list is empty if there are none.

    Examples
    --------
    >>> from linspec.testing import interface_issues
    >>> interface_issues("svd/spca")
    []
    """
    found = Suite(name, problem).declarations.items()
    return [f"{check}: {issue}" for check, issue in found if issue and not issue.startswith("skipped: ")]


def run_checks(
    name: str,
    problem: Any = None,
    backends: Sequence[str] | str | None = None,
    *,
    time_limit: float = TIME_LIMIT,
) -> Report:
    """Run all checks of a solver, normalizer, test matrix or adapter, without pytest.

    Parameters
    ----------
    name : str
        As `linspec.describe` takes it: ``"cca/gram"``, ``"normalizer/qr"``, ``"operator/dask"``.
    problem : str, problem class or problem, optional
        The problem of a solver whose name is registered for several problems.
    backends : sequence of str or "all", optional
        Names of `linspec.testing.BACKENDS`, as for `Suite`: by default one for each way in which data reach a solver.
    time_limit : float, default 300
        The seconds of CPU time that each check may take, as for `Suite`.

    Returns
    -------
    Report
        Its ``str()`` has the counts and the failures.

    Examples
    --------
    >>> from linspec.testing import run_checks
    >>> report = run_checks("normalizer/qr", backends=["numpy"])
    >>> report.ok
    True
    """
    suite = Suite(name, problem, backends, time_limit)
    report = Report(suite.name, missing={} if suite.choice.named else tables.missing())
    for check in suite.checks():
        try:
            check.run()
        except Skip as reason:
            report.skipped.append((check.id, str(reason)))
        except CheckFailed as failure:
            report.failed.append((check.id, str(failure)))
        except Exception as error:  # noqa: BLE001 (whatever a solver raises is a failure of the check)
            report.failed.append((check.id, f"the check raised {said_of(error, suite.package)}"))
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
    """Make a pytest test of a solver, normalizer, test matrix or adapter: the whole test file of a plugin.

    Parameters
    ----------
    name : str
        As `linspec.describe` takes it: ``"cca/gram"``, ``"normalizer/qr"``, ``"operator/dask"``.
    problem : str, problem class or problem, optional
        The problem of a solver whose name is registered for several problems.
    backends : sequence of str or "all", optional
        Names of `linspec.testing.BACKENDS`, as for `Suite`: by default one for each way in which data reach a solver.
    expected_failures : mapping of str to str, optional
        By check ("budget") or id ("accuracy:torch", with * as a wildcard), the reason why it fails. An
        expected failure that passes counts as a failure. So does a name or id that no check has.
    time_limit : float, default 300
        The seconds of CPU time that each check may take, as for `Suite`.

    Returns
    -------
    callable
        Assign it to a name that begins with ``test_``.

    Examples
    --------
    >>> from linspec.testing import conformance
    >>> test_conformance = conformance("cca/gram")
    """
    import pytest

    expected = dict(expected_failures or {})
    suite = Suite(name, problem, backends, time_limit)
    listed = list(suite.checks())
    stale = [key for key in expected if not any(_names(key, check) for check in listed)]
    if stale:
        raise ValueError(
            f"expected_failures of {suite.name} must name checks; there is no check "
            f"{', '.join(map(repr, stale))}. The checks are "
            f"{', '.join(dict.fromkeys(check.name for check in listed))}."
        )
    params = []
    for check in listed:
        reasons = [reason for key, reason in expected.items() if _names(key, check)]
        marks = [pytest.mark.xfail(reason=reasons[0], strict=True, raises=CheckFailed)] if reasons else []
        params.append(pytest.param(check, id=check.id, marks=marks))

    @pytest.mark.parametrize("check", params)
    def test_conformance(check: Check) -> None:
        try:
            check.run()
        except Skip as reason:
            pytest.skip(str(reason))

    test_conformance.suite = suite  # type: ignore[attr-defined]
    return test_conformance


def _names(key: str, check: Check) -> bool:
    return key == check.name or fnmatchcase(check.id, key)
