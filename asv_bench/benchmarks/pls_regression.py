"""Every solver of PLS regression: some columns of one view on five components of the other."""

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

SOLVERS = solvers("pls-regression")

K, TARGETS = 5, 3

import_solvers("pls-regression", SOLVERS)


class PLSRegressionSolvers(SolverBenchmark):
    """The error is ‖W − W*‖ for the weights of NIPALS on deflated columns."""

    params = (SOLVERS, BACKENDS, PROBLEMS)
    kind = "pls-regression"

    def state(self, first: Any, second: Any) -> Any:
        return problem_class("pls-regression")(first, second[:, :TARGETS], K)

    def answer(self, solution: Any) -> Any:
        return solution.x_weights

    def error(self, solution: Any, problem: str) -> float:
        X, Y = (A - A.mean(axis=0) for A in map(dense, views(problem)))
        W = attribute("linspec.arrays", "to_host")(solution.x_weights)
        gaps = []
        for w in W.T:
            best = np.linalg.svd(X.T @ Y[:, :TARGETS], full_matrices=False)[0][:, 0]
            gaps.append(np.linalg.norm(w - best * np.sign(w @ best)))
            t = X @ best
            X = X - np.outer(t, X.T @ t / (t @ t))
        return float(np.linalg.norm(gaps))
