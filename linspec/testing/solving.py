"""One solve of the kit: the answer, the warnings, and the input after the solve.

Problem: a dozen checks look at the answer to the same problem. The kit would be slow if each of them solved it.
Method: a `Trial` is a solver on a case on a backend. It is solved once and kept with its warnings and its data.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from linspec import registry
from linspec.arrays import to_host
from linspec.errors import UnsupportedData
from linspec.registry.options import options_of
from linspec.testing.backends import Backend
from linspec.testing.family import testing_of
from linspec.testing.oracle import Reading, precision
from linspec.testing.places import package_of, said_of
from linspec.testing.problems import Case

__all__ = ["ROUGH_ITERATIONS", "Subject", "Trial", "attempt"]

ROUGH_ITERATIONS = 30
"""Limit of iterations on cases that check the claims of a solver and not its accuracy."""

FEW_ITERATIONS = 3
"""Number of iterations after which a brief trial, whose products are slow, is stopped. This number suffices to
run all code of an iteration."""


def after_few_iterations(progress: Any) -> bool:
    """Whether a brief trial should stop; used as a callback."""
    return bool(progress.iteration >= FEW_ITERATIONS)


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The solver under test.

    Attributes
    ----------
    name : str
        The name in the registry, ``"cca/gram"``.
    spec : SolverSpec
    cls : type
    """

    name: str
    spec: Any
    cls: type

    def has(self, option: str) -> bool:
        """Whether the solver has an option."""
        return any(declared.name == option for declared in options_of(self.cls))

    def trait(self, name: str) -> bool:
        """Whether the record has a trait."""
        return name in self.spec.traits

    @property
    def exact(self) -> bool:
        """Whether converged answers must be those of the problem.

        False for solvers with the trait "approximate" or "demonstration".
        """
        return not (self.trait("approximate") or self.trait("demonstration"))

    @property
    def sweeping(self) -> dict[str, str]:
        """The option that makes the solver sweep its data instead of holding Gram matrices."""
        able = [option.name for option in options_of(self.cls) if "implicit" in (option.choices or ())]
        return dict.fromkeys(able, "implicit")

    def make(self, **wanted: Any) -> Any:
        """Make an instance with those of the given options that the solver has."""
        return self.cls(**{name: value for name, value in wanted.items() if self.has(name)})

    def must_converge(self, case: Case) -> bool:
        """Whether the tolerance must be reached on a case: always by direct methods, else on gentle cases."""
        return self.exact and (self.trait("direct") or case.gentle)

    def for_case(self, case: Case) -> Any:
        """Make an instance with defaults, but with few iterations if the case does not check accuracy."""
        return self.make() if self.must_converge(case) else self.make(max_iterations=ROUGH_ITERATIONS)


@dataclass(frozen=True)
class Attempt:
    """The result of one call of `linspec.solve`: a solution or an exception, and the warnings."""

    solution: Any = None
    error: Exception | None = None
    warnings: tuple[warnings.WarningMessage, ...] = ()
    package: str = ""

    @property
    def raised(self) -> str:
        """The exception, and its place in the solver's package; "" if there is none."""
        return "" if self.error is None else f"raised {said_of(self.error, self.package)}"

    def warned(self, category: type[Warning]) -> bool:
        """Whether a warning of a class was given."""
        return any(issubclass(message.category, category) for message in self.warnings)


def attempt(problem: Any, solver: Any, **arguments: Any) -> Attempt:
    """Call `linspec.solve`, and catch exceptions and warnings."""
    import linspec

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            solution = linspec.solve(problem, solver, **arguments)
        except Exception as error:  # noqa: BLE001 (a solver may raise anything; the checks judge it)
            return Attempt(error=error, warnings=tuple(caught), package=package_of(type(solver)))
    return Attempt(solution=solution, warnings=tuple(caught))


def quiet(problem: Any, solver: Any, **arguments: Any) -> Any:
    """Solve, with warnings ignored and exceptions raised."""
    import linspec

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other checks look at the warnings
        return linspec.solve(problem, solver, **arguments)


@lru_cache(1000)
def _judge(oracle: Callable[[Case, Reading], Any], case: Case, reading: Reading) -> Any:
    """Make the oracle of a case, once for all solvers and backends."""
    return oracle(case, reading)


@dataclass(frozen=True, eq=False)
class Trial:
    """A solver on a case on a backend; a brief one is stopped after a few iterations."""

    subject: Subject
    backend: Backend
    case: Case
    brief: bool = False

    @classmethod
    def of(cls, subject: Subject, backend: Backend, case: Case, *, brief: bool = False) -> Trial:
        """Make a trial; round the case to float32 on a backend without float64. Direct solvers are never brief."""
        brief = brief and not subject.trait("direct")
        return cls(subject, backend, case if backend.float64 else case.in_single(), brief)

    @cached_property
    def _done(self) -> tuple[Attempt, Mapping[str, Any], bool]:
        data = self.data()
        before = [self.snapshot(name, value) for name, value in data.items()]
        try:
            problem = self.case.state(data)
        except UnsupportedData as error:  # an error of the problem is judged like one of the solve
            return Attempt(error=error), data, True
        stop = {"callback": after_few_iterations} if self.brief else {}
        result = attempt(problem, self.subject.for_case(self.case), rng=0, **stop)
        after = [self.snapshot(name, value) for name, value in data.items()]
        return result, data, before == after

    def data(self) -> dict[str, Any]:
        """Make new data of the backend's kind from the case's arrays."""
        return {
            name: self.backend.companion(array)
            if name in testing_of(self.case.problem).companions
            else self.backend.wrap(array)
            for name, array in self.case.arrays.items()
        }

    def snapshot(self, name: str, value: Any) -> bytes:
        """Return the content of one matrix as bytes."""
        plain = name in testing_of(self.case.problem).companions and not self.backend.is_array
        return to_host(value).tobytes() if plain else self.backend.snapshot(value)

    @property
    def result(self) -> Attempt:
        """The result of the solve."""
        return self._done[0]

    @property
    def solution(self) -> Any:
        """The solution, or None if an exception was raised."""
        return self._done[0].solution

    @property
    def given(self) -> Mapping[str, Any]:
        """The data that were passed to the solver."""
        return self._done[1]

    @property
    def untouched(self) -> bool:
        """Whether the solve left the data unchanged."""
        return self._done[2]

    @cached_property
    def oracle(self) -> Any:
        """The exact answer and the law."""
        reading = Reading(self.backend.readable and not self.backend.sparse, self.backend.sparse)
        return _judge(testing_of(self.case.problem).oracle, self.case, reading)

    @cached_property
    def law(self) -> Any:
        """The residual of the solution's arrays by the oracle's law."""
        return self.oracle.law(self.solution)

    @property
    def must_converge(self) -> bool:
        """Whether the tolerance must be reached: precision allows it, and the solver promises it."""
        promised = self.subject.must_converge(self.case) and not self.brief
        return promised and self.oracle.attainable <= self.tol

    @property
    def tol(self) -> float:
        """The tolerance of the solve: the solver's option `tol` if it is set, otherwise the default of the problem.

        For data in float32 the default is raised to at least 100 units of roundoff; an option is not raised.
        """
        given = getattr(self.subject.for_case(self.case), "tol", None)
        if given is not None:
            return float(given)
        unit = precision(self.case)
        tolerance: float = registry.get_problem(self.case.problem).tolerance
        return max(tolerance, 100 * unit) if unit > 1e-10 else tolerance

    def with_case(self, case: Case) -> Trial:
        """Return a trial of this solver and backend on another case."""
        return replace(self, case=case)
