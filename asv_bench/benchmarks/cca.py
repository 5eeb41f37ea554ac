"""Every CCA solver: five canonical pairs of two views, with a ridge."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from benchmarks.base import BACKENDS, PROBLEMS, SolverBenchmark, attribute, dense, import_solvers, views

SOLVERS = [
    "als",
    "appgrad",
    "d-cca",
    "direct",
    "dw-cca",
    "g-cca",
    "gram",
    "l-cca",
    "lobpcg",
    "naive-gradient",
    "nw-cca",
    "randomized",
    "rpcca",
    "sparse-appgrad",
    "stochastic-appgrad",
]

K = 5
RIDGE = 1.0

import_solvers("cca", SOLVERS)


class CCASolvers(SolverBenchmark):
    """The error is the share of the sum of the correlations that the answer misses."""

    params = (SOLVERS, BACKENDS, PROBLEMS)
    kind = "cca"

    def state(self, first: Any, second: Any) -> Any:
        """Uncentred, so that sweeps read what is stored and nothing else."""
        return attribute("linspec", "CCA")(first, second, K, ridge=RIDGE, center=False)

    def answer(self, solution: Any) -> Any:
        return solution.x_weights

    def error(self, solution: Any, problem: str) -> float:
        X, Y = (dense(view) for view in views(problem))
        to_host = attribute("linspec.arrays", "to_host")
        weights = [to_host(W) for W in (solution.x_weights, solution.y_weights)]
        best = exact_correlations(X, Y)[:K].sum()
        return float(abs(1.0 - exact_correlations(X, Y, *weights).sum() / best))


def exact_correlations(X: Any, Y: Any, W: Any = None, V: Any = None) -> Any:
    """Canonical correlations with the ridge, of the views or of XW and YV; the ridge enters as rows."""
    p, q = X.shape[1], Y.shape[1]
    ridge = np.sqrt(RIDGE)
    X = np.vstack([X, ridge * np.eye(p), np.zeros((q, p))])
    Y = np.vstack([Y, np.zeros((p, q)), ridge * np.eye(q)])
    bases = [scipy.linalg.qr(A if B is None else A @ B, mode="economic")[0] for A, B in ((X, W), (Y, V))]
    return scipy.linalg.svdvals(bases[0].T @ bases[1])
