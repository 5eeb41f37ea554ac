"""Every solver of preimage CCA: the two columns of each of two views that are related by a square."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.base import BACKENDS, SolverBenchmark, import_solvers, problem_class
from benchmarks.records import solvers

SOLVERS = solvers("preimage-cca")
VIEWS = ["square"]

ROWS, COLUMNS, BOUND = 500, 20, ("ratio", 1.5)

import_solvers("preimage-cca", SOLVERS)


def square() -> tuple[Any, Any]:
    """Y1 = (X1 + X2)² - Y2 with some noise, one scale for all columns."""
    rng = np.random.default_rng(20_240_101)
    X, Y = rng.uniform(-1, 1, (ROWS, COLUMNS)), rng.uniform(-1, 1, (ROWS, COLUMNS))
    Y[:, 0] = X[:, :2].sum(axis=1) ** 2 - Y[:, 1] + 0.05 * rng.standard_normal(ROWS)
    X, Y = ((A - A.mean(axis=0)) / A.std(axis=0) for A in (X, Y))
    return X, Y


class PreimageCCASolvers(SolverBenchmark):
    """The error is the share of the squares of the points that is not in the two columns of each view."""

    params = (SOLVERS, BACKENDS, VIEWS)
    kind = "preimage-cca"

    def data(self, problem: str) -> tuple[Any, ...]:
        return square()

    def state(self, first: Any, second: Any) -> Any:
        from linspec.kernels.functions import polynomial

        return problem_class("preimage-cca")(first, second, 1, polynomial(2, 0.0), bound_x=BOUND)

    def answer(self, solution: Any) -> Any:
        return solution.x_preimages

    def error(self, solution: Any, problem: str) -> float:
        points = [np.asarray(U)[:, 0] for U in (solution.x_preimages, solution.y_preimages)]
        return float(1 - np.mean([np.sum(u[:2] ** 2) / np.sum(u**2) for u in points]))
