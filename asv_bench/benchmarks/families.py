"""All solvers of the families that have no module here, on small data.

The data have some hundreds of rows: most of the time is the cost of calls; passes and errors are more informative.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.base import BACKENDS, SolverBenchmark, import_solvers, optional, problem_class
from benchmarks.records import solvers

ROWS = 300
PARAMETERS: dict[str, dict[str, Any]] = {
    "deep-cca": {"k": 2},
    "multiset-cca": {"k": 3, "ridge": 1.0},
    "ridge-many-targets": {},
    "sumcor-cca": {"k": 2, "ridge": 1.0},
}


def views() -> tuple[np.ndarray, ...]:
    """Three matrices with four variables in common."""
    rng = np.random.default_rng(0)
    common = rng.standard_normal((ROWS, 4)) * (4, 3, 2, 1)
    return tuple(common @ rng.standard_normal((4, p)) + rng.standard_normal((ROWS, p)) for p in (12, 10, 8))


class _FamilySolvers(SolverBenchmark):
    """The error is the residual of the answer."""

    def data(self, problem: str) -> tuple[Any, ...]:
        """Two or three matrices."""
        problem_class(self.kind)
        if self.kind == "deep-cca" and optional("torch") is None:
            raise NotImplementedError("torch is not installed")
        return views() if self.kind in ("multiset-cca", "sumcor-cca") else views()[:2]

    def state(self, *data: Any) -> Any:
        """With the parameters of the table."""
        given = (list(data),) if len(data) > 2 else data
        return problem_class(self.kind)(*given, **PARAMETERS[self.kind])

    def answer(self, solution: Any) -> Any:
        return next((getattr(solution, name) for name in solution.layout.leading), None)

    def error(self, solution: Any, problem: str) -> float:
        return float(solution.residual)


def _benchmark(problem: str) -> type[SolverBenchmark]:
    """A class for one family; asv finds it by its name in this module."""
    name = "".join(word.capitalize() for word in problem.split("-")) + "Solvers"
    contents = {
        "__module__": __name__,
        "__doc__": _FamilySolvers.__doc__,
        "kind": problem,
        "params": (solvers(problem), BACKENDS, ["related"]),
    }
    return type(name, (_FamilySolvers,), contents)


for _problem in PARAMETERS:
    import_solvers(_problem, solvers(_problem))
    _class = _benchmark(_problem)
    globals()[_class.__name__] = _class
