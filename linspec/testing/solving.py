"""One solve of the kit, watched: the answer, the warnings, and what became of the input.

Problem: a dozen checks look at the answer to the same problem; solving it once for each would make the kit
slow.
Method: a `Trial` is a solver on a case on a backend, solved once, kept with everything around it.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from linspec import registry
from linspec.errors import UnsupportedData
from linspec.options import options_of
from linspec.testing.backends import Backend
from linspec.testing.family import testing_of
from linspec.testing.oracle import Reading, precision
from linspec.testing.places import package_of, said_of
from linspec.testing.problems import Case

__all__ = ["ROUGH_ITERATIONS", "Subject", "Trial", "attempt"]

ROUGH_ITERATIONS = 30
"""Iterations where only honesty is asked of an iterative solver, not an answer."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The solver under test.

    Attributes
    ----------
    name : str
        As it is asked for, ``"cca/gram"``.
    spec : SolverSpec
    cls : type
    """

    name: str
    spec: Any
    cls: type

    def has(self, option: str) -> bool:
        """Whether there is such an option."""
        return any(declared.name == option for declared in options_of(self.cls))

    def trait(self, name: str) -> bool:
        """Whether the record states a trait."""
        return name in self.spec.traits

    @property
    def exact(self) -> bool:
        """Whether it must solve the stated problem."""
        return not (self.trait("approximate") or self.trait("demonstration"))

    @property
    def sweeping(self) -> dict[str, str]:
        """The option that makes the solver sweep its data where it could hold Gram matrices."""
        able = [option.name for option in options_of(self.cls) if "implicit" in (option.choices or ())]
        return dict.fromkeys(able, "implicit")

    def make(self, **wanted: Any) -> Any:
        """An instance, with those of the wanted options that it has."""
        return self.cls(**{name: value for name, value in wanted.items() if self.has(name)})

    def must_converge(self, case: Case) -> bool:
        """Whether the tolerance must be reached on a case: direct methods always, iterations on gentle ones."""
        return self.exact and (self.trait("direct") or case.gentle)

    def for_case(self, case: Case) -> Any:
        """An instance with defaults; with few iterations where only honesty is asked."""
        return self.make() if self.must_converge(case) else self.make(max_iterations=ROUGH_ITERATIONS)


@dataclass(frozen=True)
class Attempt:
    """What came of one call of `linspec.solve`."""

    solution: Any = None
    error: Exception | None = None
    warnings: tuple[warnings.WarningMessage, ...] = ()
    package: str = ""

    @property
    def raised(self) -> str:
        """That an exception was raised, which, and where in the solver's package."""
        return "" if self.error is None else f"raised {said_of(self.error, self.package)}"

    def warned(self, category: type[Warning]) -> bool:
        """Whether a warning of a class was given."""
        return any(issubclass(message.category, category) for message in self.warnings)


def attempt(problem: Any, solver: Any, **arguments: Any) -> Attempt:
    """Call `linspec.solve`, whatever comes of it."""
    import linspec

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            solution = linspec.solve(problem, solver, **arguments)
        except Exception as error:  # noqa: BLE001 (what a solver may raise is what is being found out)
            return Attempt(error=error, warnings=tuple(caught), package=package_of(type(solver)))
    return Attempt(solution=solution, warnings=tuple(caught))


def quiet(problem: Any, solver: Any, **arguments: Any) -> Any:
    """The solution alone; exceptions pass, warnings do not."""
    import linspec

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is warned of is the business of other checks
        return linspec.solve(problem, solver, **arguments)


@dataclass(frozen=True, eq=False)
class Trial:
    """A solver on a case on a backend."""

    subject: Subject
    backend: Backend
    case: Case

    @classmethod
    def of(cls, subject: Subject, backend: Backend, case: Case) -> Trial:
        """A trial; on a backend without float64 of the case rounded to float32."""
        return cls(subject, backend, case if backend.float64 else case.in_single())

    @cached_property
    def _done(self) -> tuple[Attempt, Mapping[str, Any], bool]:
        data = self.data()
        before = [self.snapshot(name, value) for name, value in data.items()]
        try:
            problem = self.case.state(data)
        except UnsupportedData as error:  # what cannot be stated is judged like what cannot be solved
            return Attempt(error=error), data, True
        result = attempt(problem, self.subject.for_case(self.case), rng=0)
        after = [self.snapshot(name, value) for name, value in data.items()]
        return result, data, before == after

    def data(self) -> dict[str, Any]:
        """The case's arrays as the backend has them, made afresh."""
        return {
            name: self.backend.companion(array)
            if name in testing_of(self.case.problem).companions
            else self.backend.wrap(array)
            for name, array in self.case.arrays.items()
        }

    def snapshot(self, name: str, value: Any) -> bytes:
        """What one of the data holds."""
        plain = name in testing_of(self.case.problem).companions and not self.backend.is_array
        return bytes(value.tobytes()) if plain else self.backend.snapshot(value)

    @property
    def result(self) -> Attempt:
        """What came of it."""
        return self._done[0]

    @property
    def solution(self) -> Any:
        """The solution, or None where an exception was raised."""
        return self._done[0].solution

    @property
    def given(self) -> Mapping[str, Any]:
        """The data that were solved with."""
        return self._done[1]

    @property
    def untouched(self) -> bool:
        """Whether the data are what they were."""
        return self._done[2]

    @cached_property
    def oracle(self) -> Any:
        """The exact answer and the law."""
        reading = Reading(self.backend.readable and not self.backend.sparse, self.backend.sparse)
        return testing_of(self.case.problem).oracle(self.case, reading)

    @property
    def must_converge(self) -> bool:
        """Whether the tolerance must be reached: precision allows it, and the solver promises it."""
        return self.subject.must_converge(self.case) and self.oracle.attainable <= self.tol

    @property
    def tol(self) -> float:
        """The tolerance in force."""
        given = getattr(self.subject.for_case(self.case), "tol", None)
        if given is not None:
            return float(given)
        unit = precision(self.case)
        tolerance: float = registry.get_problem(self.case.problem).tolerance
        return max(tolerance, 100 * unit) if unit > 1e-10 else tolerance

    def with_case(self, case: Case) -> Trial:
        """The same solver and backend on another case."""
        return replace(self, case=case)
