"""All checks of one solver: as pytest tests, as a report, or as a list of issues.

Problem: a plugin's author wants one line that says whether the solver keeps the contract, and the command line
wants the same without pytest.
Method: a `Suite` lists its checks, each with a name, the backend it runs on and what it does. `conformance` makes
a parametrised pytest test of the list, `run_checks` a report.
Source: scikit-learn's parametrize_with_checks; fsspec's abstract test classes.
Where we differ: nothing to inherit from, no plugin that pytest loads by itself, and an expected failure is
stated where the test is asked for and must fail: one that passes is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from linspec import registry
from linspec.errors import BrokenPlugin
from linspec.testing import backends as tables
from linspec.testing.answers import ANSWER_CHECKS
from linspec.testing.behaviour import BEHAVIOUR_CHECKS, Skip, check_non_finite
from linspec.testing.declarations import declaration_issues
from linspec.testing.problems import Case, cases
from linspec.testing.solving import Subject, Trial
from linspec.testing.streams import STREAM_CHECKS

__all__ = ["Check", "CheckFailed", "Report", "Suite", "conformance", "interface_issues", "run_checks"]


class CheckFailed(AssertionError):  # noqa: N818 (what it says of the solver)
    """A solver does not keep the contract; the message says in what."""


@dataclass(frozen=True)
class Check:
    """One check of one solver.

    Attributes
    ----------
    name : str
        What expected failures are stated by: "residual-law".
    backend : str
        On which backend; "" for checks that are not about one.
    run : callable
        Raises CheckFailed, or Skip with the reason.
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
    """What came of the checks of one solver.

    Attributes
    ----------
    name : str
        The solver, "cca/gram".
    passed : int
        How many checks passed.
    failed : list of (str, str)
        The check's id and what is wrong.
    skipped : list of (str, str)
        The check's id and the reason.
    """

    name: str
    passed: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return not self.failed

    def __str__(self) -> str:
        counts = [f"{self.passed + len(self.failed)} checks"]
        if self.failed:
            counts.append(f"{len(self.failed)} failed")
        if self.skipped:
            reasons = ", ".join(dict.fromkeys(reason for _, reason in self.skipped))
            counts.append(f"{len(self.skipped)} skipped: {reasons}")
        lines = [f"{self.name}: {', '.join(counts)}"]
        return "\n".join(lines + [f"  {check}: {message}" for check, message in self.failed])


class Suite:
    """The checks of one solver.

    Parameters
    ----------
    name : str
        The solver, as it is asked for.
    problem : str, problem class or problem, optional
        Where the name is registered for several.
    backends : sequence of str, optional
        By default all; those that are missing are skipped.
    """

    def __init__(self, name: str, problem: Any = None, backends: Sequence[str] | None = None) -> None:
        self.spec = registry.get_spec("solver", name, problem)
        self.name = self.spec.qualified if ":" not in name else name
        self._request = (name, problem)
        self._trials: dict[tuple[str, str], Trial] = {}
        self.backends = tables.backends(backends)
        self.cases = cases(self.spec.problem)
        self._declarations: dict[str, str] | None = None

    def checks(self) -> Iterator[Check]:
        """All checks, also those that will be skipped."""
        for name in DECLARATIONS:
            yield Check(name, "", partial(self._declaration, name))
        if not self.cases:
            yield Check(
                "solves", "", partial(_skip, f"the kit has no problems of the kind {self.spec.problem!r}")
            )
            return
        for name in (*BEHAVIOUR_CHECKS, *STREAM_CHECKS):
            yield Check(name, "", partial(self._behaviour, name))
        for backend in self.backends:
            for name in ANSWER_CHECKS:
                yield Check(name, backend.name, partial(self._answer, name, backend))
            yield Check("non-finite", backend.name, partial(self._non_finite, backend))

    @property
    def subject(self) -> Subject:
        """The solver with its record."""
        return Subject(name=self.name, spec=self.spec, cls=registry.get_part("solver", *self._request))

    def trial(self, backend: tables.Backend, case: Case) -> Trial:
        """A case solved on a backend, once."""
        key = backend.name, case.name
        if key not in self._trials:
            self._trials[key] = Trial.of(self.subject, backend, case)
        return self._trials[key]

    @property
    def solves(self) -> int:
        """How many problems of the table have been solved."""
        return sum(trial.solution is not None for trial in self._trials.values())

    def _declaration(self, name: str) -> None:
        if self._declarations is None:
            provider = registry.describe(
                f"{self.spec.problem}/{self._request[0].rpartition('/')[2]}"
            ).provider
            self._declarations = dict(declaration_issues(self.spec, provider))
        issue = self._declarations.get(name, "skipped: the target cannot be imported")
        if issue.startswith("skipped: "):
            raise Skip(issue.removeprefix("skipped: "))
        _fail_on([issue] if issue else [])

    def _behaviour(self, name: str) -> None:
        _fail_on((BEHAVIOUR_CHECKS | STREAM_CHECKS)[name](self.subject))

    def _answer(self, name: str, backend: tables.Backend) -> None:
        _require(backend)
        _fail_on(self._answer_issues(name, backend))

    def _answer_issues(self, name: str, backend: tables.Backend) -> Iterator[str]:
        judged = 0
        for case in self.cases:
            trial = self.trial(backend, case)
            if trial.solution is None and name not in {"solves", "input-untouched"}:
                continue
            judged += 1
            yield from (f"{case.name}: {issue}" for issue in ANSWER_CHECKS[name](trial))
        if not judged:
            raise Skip("nothing was solved")
        if name == "solves" and not any(self.trial(backend, case).solution for case in self.cases):
            raise Skip(f"the solver needs {self.spec.needs}")

    def _non_finite(self, backend: tables.Backend) -> None:
        _require(backend)
        _fail_on(check_non_finite(self.subject, backend))


DECLARATIONS = (
    "target", "dataclass", "defaults", "invalid-options", "option-names", "docstring", "reference", "summary",
    "automatic", "light-table",
)  # fmt: skip
"""The names of the checks of a declaration."""


def _skip(reason: str) -> None:
    raise Skip(reason)


def _require(backend: tables.Backend) -> None:
    missing = backend.missing()
    if missing:
        raise Skip(missing)


def _fail_on(issues: Iterable[str]) -> None:
    found = list(issues)
    if found:
        shown = found[:8] + ([f"... and {len(found) - 8} more"] if len(found) > 8 else [])
        raise CheckFailed("\n  ".join(["", *shown]) if len(shown) > 1 else shown[0])


def interface_issues(name: str, problem: Any = None) -> list[str]:
    """What is wrong with a declaration, without solving anything.

    Parameters
    ----------
    name : str
        A solver, normalizer or test matrix, as `linspec.describe` takes it.
    problem : str, problem class or problem, optional
        For a solver: what it solves, where the name is registered for several problems.

    Returns
    -------
    list of str
        Each with the name of its check in front; empty when all is well.
    """
    scope = problem if problem is None or isinstance(problem, str) else problem.name
    try:
        description = registry.describe(name if scope is None or "/" in name else f"{scope}/{name}")
    except BrokenPlugin as error:
        return [f"target: {error}"]
    spec = registry.get_spec(description.kind, name, scope if description.kind == "solver" else None)
    found = declaration_issues(spec, description.provider)
    return [f"{check}: {issue}" for check, issue in found if issue and not issue.startswith("skipped: ")]


def run_checks(name: str, problem: Any = None, backends: Sequence[str] | None = None) -> Report:
    """Run all checks of a solver, without pytest.

    Parameters
    ----------
    name : str
        The solver, ``"gram"`` or ``"cca/gram"``.
    problem : str, problem class or problem, optional
        Where the name is registered for several.
    backends : sequence of str, optional
        Names of `linspec.testing.BACKENDS`; by default all. Missing ones are skipped.

    Returns
    -------
    Report
        ``str()`` of it gives the counts and what failed.
    """
    suite = Suite(name, problem, backends)
    report = Report(suite.name)
    for check in suite.checks():
        try:
            check.run()
        except Skip as reason:
            report.skipped.append((check.id, str(reason)))
        except CheckFailed as failure:
            report.failed.append((check.id, str(failure)))
        except Exception as error:  # noqa: BLE001 (whatever a solver raises is a failure of the check)
            report.failed.append((check.id, f"raised {type(error).__name__}: {error}"))
        else:
            report.passed += 1
    return report


def conformance(
    name: str,
    problem: Any = None,
    *,
    backends: Sequence[str] | None = None,
    expected_failures: Mapping[str, str] | None = None,
) -> Callable[..., None]:
    """A pytest test of a solver: the whole test file of a plugin.

    Parameters
    ----------
    name : str
        The solver, ``"gram"`` or ``"cca/gram"``.
    problem : str, problem class or problem, optional
        Where the name is registered for several.
    backends : sequence of str, optional
        Names of `linspec.testing.BACKENDS`; by default all. Missing ones are skipped.
    expected_failures : mapping of str to str, optional
        By check ("budget") or id ("accuracy:torch", with * as a wildcard): why it fails. Strict: one that
        passes is a failure, and so is one that no check has.

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
    suite = Suite(name, problem, backends)
    listed = list(suite.checks())
    stale = [key for key in expected if not any(_names(key, check) for check in listed)]
    if stale:
        raise ValueError(
            f"expected_failures of {suite.name}: there is no check {', '.join(map(repr, stale))}; "
            f"the checks are {', '.join(dict.fromkeys(check.name for check in listed))}."
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
