"""Checks of a kind of problem, before its solvers are judged: its fields, its cases, its oracle, its command.

Problem: a fault in a problem's own declarations shows as failures of every solver, far from its cause.
Method: each check takes the record and yields the faults that it finds. The problem and the oracle of every case are
made.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from linspec.solving.solution import Solution
from linspec.testing.behaviour import Skip
from linspec.testing.family import ProblemTesting, testing_of
from linspec.testing.oracle import Reading

__all__ = ["PROBLEM_CHECKS", "Stated"]


class Stated:
    """A problem with its record.

    Parameters
    ----------
    spec : ProblemSpec
    cls : type
    """

    def __init__(self, spec: Any, cls: Any) -> None:
        self.spec, self.cls = spec, cls

    @cached_property
    def testing(self) -> ProblemTesting:
        """The cases and the oracle that judge its solvers."""
        return testing_of(self.spec.name)


def check_name(stated: Stated) -> Iterator[str]:
    """The class has the name of the record."""
    found = getattr(stated.cls, "name", None)
    if found != stated.spec.name:
        yield f"{stated.cls.__name__}.name must be {stated.spec.name!r}, as in the record; got {found!r}"


def check_fields(stated: Stated) -> Iterator[str]:
    """Matrices, weights, values and means are fields of the problem and of its answers."""
    own = {field.name for field in dataclasses.fields(stated.cls)}
    if not stated.cls.stated.matrices:
        yield f"{stated.cls.__name__} must declare its matrices by linspec.matrix() or views(); it declares none"
    for name in stated.cls.stated.fields:
        if name not in own:
            yield f"{stated.cls.__name__} declares {name!r}, which is no field of a dataclass; decorate the class"
    answer = stated.cls.solution
    if not (isinstance(answer, type) and issubclass(answer, Solution) and dataclasses.is_dataclass(answer)):
        yield f"solution must be a dataclass that derives from linspec.Solution; got {answer!r}"
        return
    known = {field.name for field in dataclasses.fields(answer)}
    for name, entry in answer.layout.entries.items():
        if name not in known:
            yield f"{answer.__name__} declares {name!r}, which is no field of a dataclass; decorate the class"
        for matrix in filter(None, (entry.rows_of, entry.mean_of)):
            if matrix not in stated.cls.stated.matrices:
                yield (
                    f"{answer.__name__}.{name} must name a matrix of {stated.cls.__name__}, "
                    f"{', '.join(stated.cls.stated.matrices)}; got {matrix!r}"
                )


def check_cases(stated: Stated) -> Iterator[str]:
    """There are cases with different names, and the problem of each can be constructed."""
    if not stated.spec.testing:
        yield (
            "the record must name a ProblemTesting, or the problem's solvers cannot be judged; give it "
            "testing='package.module:NAME'"
        )
        return
    cases = stated.testing.cases()
    if not cases:
        yield "the ProblemTesting must make cases, or the problem's solvers cannot be judged; it makes none"
    names = [case.name for case in cases]
    yield from (
        f"the names of cases must differ; two have the name {name!r}"
        for name in sorted(set(names))
        if names.count(name) > 1
    )
    for case in cases:
        if case.problem != stated.spec.name:
            yield f"{case.name}: problem of the case must be {stated.spec.name!r}; got {case.problem!r}"
        else:
            case.state(dict(case.arrays))


def check_oracle(stated: Stated) -> Iterator[str]:
    """Each case has an exact answer, and a residual that is attainable despite rounding."""
    if not stated.spec.testing:
        raise Skip("the record names no oracle")
    for case in stated.testing.cases():
        oracle = stated.testing.oracle(case, Reading())
        missing = [name for name in ("attainable", "law", "errors") if not hasattr(oracle, name)]
        if missing:
            yield (
                f"{case.name}: the oracle must have attainable, law and errors; it lacks {', '.join(missing)}"
            )
        elif not (math.isfinite(oracle.attainable) and oracle.attainable >= 0):
            yield f"{case.name}: attainable must be finite and not negative; got {oracle.attainable!r}"


PROBLEM_CHECKS: dict[str, Callable[[Stated], Iterator[str]]] = {
    "name": check_name,
    "fields": check_fields,
    "cases": check_cases,
    "oracle": check_oracle,
}
"""The checks of a problem, by their names in test ids and expected failures."""
