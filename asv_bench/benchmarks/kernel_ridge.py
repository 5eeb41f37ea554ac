"""Every solver of kernel ridge regression: two targets that are curves of columns, one ridge."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from benchmarks.base import BACKENDS, SolverBenchmark, import_solvers, problem_class
from benchmarks.records import solvers

SOLVERS = solvers("kernel-ridge")
TARGETS = ["curves"]

ROWS, SCALE, RIDGE = 1500, 2.0, 0.05

import_solvers("kernel-ridge", SOLVERS)


def curves() -> tuple[Any, Any]:
    """Targets that are curves of columns of X, with noise."""
    rng = np.random.default_rng(20_240_101)
    X = rng.standard_normal((ROWS, 6))
    Y = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1] ** 2]) + 0.2 * rng.standard_normal((ROWS, 2))
    return X, Y


class KernelRidgeSolvers(SolverBenchmark):
    """The error is that of the fitted values, relative to the exact ones."""

    params = (SOLVERS, BACKENDS, TARGETS)
    kind = "kernel-ridge"

    def data(self, problem: str) -> tuple[Any, ...]:
        return curves()

    def state(self, first: Any, second: Any) -> Any:
        from linspec.kernels.functions import rbf

        return problem_class("kernel-ridge")(first, second, RIDGE, rbf(SCALE))

    def answer(self, solution: Any) -> Any:
        return solution.dual

    def error(self, solution: Any, problem: str) -> float:
        X, Y = curves()
        K = np.exp(-(cdist(X, X) ** 2) / (2 * SCALE**2))
        exact = K @ np.linalg.solve(K + RIDGE * np.eye(ROWS), Y)
        return float(np.linalg.norm(K @ np.asarray(solution.dual) - exact) / np.linalg.norm(exact))
