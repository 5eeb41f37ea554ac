"""Each check of the kit fails for something: the checks are asked of the kit, the liars of the tests of the kit."""

from __future__ import annotations

from collections.abc import Iterable

import linspec as ls
from linspec import Needs, registry
from linspec.testing import Suite, testing_of
from linspec.testing.suite import DECLARATIONS
from tests import test_kit_catches_liars as of_solvers
from tests import test_kit_catches_liars_in_families as of_families
from tests import test_kit_catches_liars_in_parts as of_parts
from tests import test_kit_catches_liars_in_problems as of_problems

Checks = set[tuple[str, str]]
"""Each with what it belongs to: declarations, a kind, or a problem whose solvers have checks of their own."""


def of_kind(kind: str, names: Iterable[str]) -> Checks:
    """Checks of a kind; those of declarations are the same for all kinds."""
    return {("declaration" if name in DECLARATIONS[kind] else kind, name) for name in names}


def of_problem(problem: str, names: Iterable[str]) -> Checks:
    """Checks of the solvers of a problem, those that no other problem has under its name."""
    testing = testing_of(problem)
    own = {*testing.answer_checks, *testing.behaviour_checks}
    return {(problem, name) if name in own else of_kind("solver", [name]).pop() for name in names}


def checks_of_the_kit(monkeypatch) -> Checks:
    found: Checks = set()
    for problem in ls.problems():
        found |= of_kind("problem", (check.name for check in Suite(f"problem/{problem}").checks()))
        for solver in ls.solvers(problem):
            found |= of_problem(problem, (check.name for check in Suite(solver, problem).checks()))
    parts = {f"normalizer/{name}" for name in ls.normalizers()}
    parts |= {f"test-matrix/{name}" for name in ls.test_matrices()}
    parts |= {adapter.qualified for adapter in registry.operator_adapters()}
    for name in parts:
        found |= of_kind(name.partition("/")[0], (check.name for check in Suite(name).checks()))
    own = registry.Registry()
    monkeypatch.setattr("linspec.registry.queries.default_registry", lambda: own)
    of_solvers.declare(of_solvers.Honest, Needs(), (), problem="sorting")
    of_nothing = Suite("sorting/liar")
    return found | of_kind("solver", (check.name for check in of_nothing.checks()))


def caught() -> Checks:
    """Return the checks that the tables of the tests list as caught; those tests verify it."""
    found: Checks = set()
    for cls, *_, names in of_solvers.LIARS:
        found |= of_problem(of_solvers.problem_of(cls), names)
    for names in of_solvers.PARTS.values():
        found |= of_problem("least-squares", names)
    found |= of_kind("solver", (check for _, check, issue in of_solvers.BESIDE if issue))
    found |= of_kind("solver", (check.partition(":")[0] for _, check, issue in of_solvers.ACCOUNTS if issue))
    found |= of_kind("solver", ("one-pass" for *_, issue in of_solvers.SWEEPS if issue))
    found |= of_kind("solver", ("warm-start" for *_, issue in of_solvers.STARTS if issue))
    found |= of_kind("solver", (name for *_, names in of_solvers.DECLARED for name in names))
    found |= of_kind("solver", of_solvers.ALONE)
    for problem, name, *_ in of_families.LIARS:
        found.add((problem, name))
    for _, names in of_parts.NORMALIZERS:
        found |= of_kind("normalizer", names)
    for _, names in of_parts.MATRICES:
        found |= of_kind("test-matrix", names)
    for _, names in of_parts.ADAPTERS.values():
        found |= of_kind("operator", names)
    found |= of_kind(
        "operator", (fault.partition(":")[0] for fault in (*of_solvers.OPERATORS, *of_solvers.WIDE))
    )
    for _, names in of_problems.LIARS:
        found |= of_kind("problem", names)
    return found


def test_each_check_has_a_liar(monkeypatch):
    kit, liars = checks_of_the_kit(monkeypatch), caught()
    assert sorted(kit - liars) == []  # each of these is green whatever happens
    assert sorted(liars - kit) == []  # and these are no checks
