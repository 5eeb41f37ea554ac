"""Every solver of reduced-rank regression: some columns of one view from the other, with rank three."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.base import (
    BACKENDS,
    PROBLEMS,
    SolverBenchmark,
    attribute,
    dense,
    import_solvers,
    problem_class,
    views,
)
from benchmarks.records import solvers

SOLVERS = solvers("reduced-rank-regression")

K, TARGETS, RIDGE = 3, 10, 1.0

import_solvers("reduced-rank-regression", SOLVERS)


class ReducedRankRegressionSolvers(SolverBenchmark):
    """The error is ‖B − B*‖ / ‖B*‖ for coefficients B* by their definition."""

    params = (SOLVERS, BACKENDS, PROBLEMS)
    kind = "reduced-rank-regression"

    def state(self, first: Any, second: Any) -> Any:
        return problem_class("reduced-rank-regression")(first, second[:, :TARGETS], K, RIDGE)

    def answer(self, solution: Any) -> Any:
        return solution.weights

    def error(self, solution: Any, problem: str) -> float:
        X, Y = (A - A.mean(axis=0) for A in map(dense, views(problem)))
        C = X.T @ Y[:, :TARGETS]
        full = np.linalg.solve(X.T @ X + RIDGE * np.eye(X.shape[1]), C)
        V = np.linalg.eigh(C.T @ full)[1][:, -K:]
        best = full @ V @ V.T
        found = attribute("linspec.arrays", "to_host")(solution.coefficients())
        return float(np.linalg.norm(found - best) / np.linalg.norm(best))
