"""Every least-squares solver: a ridge regression of some columns of one view on the other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.linalg

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

SOLVERS = solvers("least-squares")

TARGETS = 3
RIDGE = 1.0

import_solvers("least-squares", SOLVERS)


class LeastSquaresSolvers(SolverBenchmark):
    """The error is ‖x − x*‖ / ‖x*‖."""

    params = (SOLVERS, BACKENDS, PROBLEMS)
    kind = "least-squares"

    def state(self, first: Any, second: Any) -> Any:
        return problem_class("least-squares")(first, second[:, :TARGETS], ridge=RIDGE)

    def answer(self, solution: Any) -> Any:
        return solution.x

    def error(self, solution: Any, problem: str) -> float:
        A, B = (dense(view) for view in views(problem))
        x = attribute("linspec.arrays", "to_host")(solution.x)
        best = exact_coefficients(A, B[:, :TARGETS])
        return float(np.linalg.norm(x - best) / np.linalg.norm(best))


class RidgePaths(LeastSquaresSolvers):
    """A path of eight ridges in one run; the error is that of the solution for RIDGE, the fourth."""

    params = (solvers("least-squares", having="path"), BACKENDS, PROBLEMS)

    def state(self, first: Any, second: Any) -> Any:
        ridges = [RIDGE * 10.0**i for i in range(-3, 5)]
        return problem_class("least-squares")(first, second[:, :TARGETS], ridge=ridges)

    def error(self, solution: Any, problem: str) -> float:
        return super().error(SimpleNamespace(x=solution.x[3]), problem)


def exact_coefficients(A: Any, B: Any) -> Any:
    """The ridge regression by QR, the ridge entering as rows."""
    p = A.shape[1]
    A = np.vstack([A, np.sqrt(RIDGE) * np.eye(p)])
    B = np.vstack([B, np.zeros((p, B.shape[1]))])
    return scipy.linalg.lstsq(A, B)[0]
