"""All solvers of families that have no module here, such as those of plugins, on planted problems of their records.

These problems have a hundred rows or so: most of the time is the cost of calls; passes and errors are more informative.
"""

from __future__ import annotations

from typing import Any

from benchmarks.base import BACKENDS, SolverBenchmark, attribute, import_solvers, problem_class
from benchmarks.records import other_families, solvers


class _FamilySolvers(SolverBenchmark):
    """The error is the residual of the answer, computed a second time by the oracle of the family."""

    def data(self, problem: str) -> tuple[Any, ...]:
        """The matrices of a planted problem."""
        problem_class(self.kind)
        found = [case for case in attribute("linspec.testing", "cases")(self.kind) if case.name == problem]
        if not found:
            raise NotImplementedError(f"this commit has no planted problem {problem} of {self.kind}")
        missing = getattr(attribute("linspec.testing", "testing_of")(self.kind), "missing", str)()
        if missing:
            raise NotImplementedError(missing)
        self.case = found[0]
        return tuple(self.case.arrays.values())

    def state(self, *data: Any) -> Any:
        """With the numbers of the planted problem."""
        return self.case.state(dict(zip(self.case.arrays, data, strict=True)))

    def answer(self, solution: Any) -> Any:
        return next((getattr(solution, name) for name in solution.layout.leading), None)

    def error(self, solution: Any, problem: str) -> float:
        testing, reading = attribute("linspec.testing", "testing_of"), attribute("linspec.testing", "Reading")
        return float(testing(self.kind).oracle(self.case, reading()).law(solution).residual)


def _benchmark(problem: str, cases: list[str]) -> type[SolverBenchmark]:
    """A class for one family; asv finds it by its name in this module."""
    name = "".join(word.capitalize() for word in problem.split("-")) + "Solvers"
    contents = {
        "__module__": __name__,
        "__doc__": _FamilySolvers.__doc__,
        "kind": problem,
        "params": (solvers(problem), BACKENDS, cases),
    }
    return type(name, (_FamilySolvers,), contents)


for _problem, _cases in other_families().items():
    if _cases:
        import_solvers(_problem, solvers(_problem))
        _class = _benchmark(_problem, _cases)
        globals()[_class.__name__] = _class
