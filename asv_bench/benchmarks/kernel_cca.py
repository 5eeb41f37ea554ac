"""Every solver of kernel CCA: three pairs of functions of two views that are related by curves."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from benchmarks.base import BACKENDS, SolverBenchmark, import_solvers, problem_class
from benchmarks.records import solvers

SOLVERS = solvers("kernel-cca")
VIEWS = ["curves"]

K, ROWS, SCALE, RIDGE = 3, 500, 2.0, 0.05

import_solvers("kernel-cca", SOLVERS)


def curves() -> tuple[Any, Any]:
    """Columns of Y that are curves of columns of X, with noise."""
    rng = np.random.default_rng(20_240_101)
    X, Y = rng.standard_normal((ROWS, 6)), rng.standard_normal((ROWS, 5))
    for j, relation in enumerate((np.sin, np.square, np.tanh)):
        Y[:, j] = relation(2 * X[:, j]) + 0.2 * Y[:, j]
    return X, Y


class KernelCCASolvers(SolverBenchmark):
    """The error is the share of the exact variates of X that the variates of the answer miss."""

    params = (SOLVERS, BACKENDS, VIEWS)
    kind = "kernel-cca"

    def data(self, problem: str) -> tuple[Any, ...]:
        return curves()

    def state(self, first: Any, second: Any) -> Any:
        from linspec.kernels.functions import rbf

        return problem_class("kernel-cca")(first, second, K, rbf(SCALE), ridge=RIDGE)

    def answer(self, solution: Any) -> Any:
        return solution.x_weights

    def error(self, solution: Any, problem: str) -> float:
        roots = []
        for A in curves():
            kernel = np.exp(-(cdist(A, A) ** 2) / (2 * SCALE**2))
            kernel = kernel - kernel.mean(axis=0)
            w, U = np.linalg.eigh(kernel - kernel.mean(axis=1)[:, None])
            w = np.maximum(w, 0.0)
            roots.append((U * np.sqrt(w / (w + RIDGE))) @ U.T)
        exact = roots[0] @ np.linalg.svd(roots[0] @ roots[1])[0][:, :K]
        found = np.linalg.qr(np.asarray(solution.transform(curves()[0])))[0]
        return float(np.linalg.norm(exact - found @ (found.T @ exact)) ** 2 / np.linalg.norm(exact) ** 2)
