"""Every solver of PLS: five leading singular triplets of the cross product of two views."""

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

SOLVERS = solvers("pls")

K = 5

import_solvers("pls", SOLVERS)


class PLSSolvers(SolverBenchmark):
    """The error is the share of the sum of the singular values that the returned vectors miss."""

    params = (SOLVERS, BACKENDS, PROBLEMS)
    kind = "pls"

    def state(self, first: Any, second: Any) -> Any:
        return problem_class("pls")(first, second, K)

    def answer(self, solution: Any) -> Any:
        return solution.x_weights

    def error(self, solution: Any, problem: str) -> float:
        X, Y = (dense(view) for view in views(problem))
        C = (X - X.mean(axis=0)).T @ (Y - Y.mean(axis=0))
        to_host = attribute("linspec.arrays", "to_host")
        U, V = to_host(solution.x_weights), to_host(solution.y_weights)
        return float(abs(1 - np.sum(U * (C @ V)) / np.linalg.svd(C, compute_uv=False)[:K].sum()))
