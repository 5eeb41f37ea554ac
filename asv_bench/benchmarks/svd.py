"""Every SVD solver: five leading triplets of one view, uncentred, without left vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from benchmarks.base import BACKENDS, PROBLEMS, SolverBenchmark, attribute, dense, import_solvers, views

SOLVERS = ["block-krylov", "direct", "gram", "lanczos", "lazy-spca", "spca"]

K = 5

import_solvers("svd", SOLVERS)


class SVDSolvers(SolverBenchmark):
    """The error is the share of the sum of the squared singular values that the right vectors miss."""

    params = (SOLVERS, BACKENDS, PROBLEMS)
    kind = "svd"

    def state(self, first: Any, second: Any) -> Any:
        """Of the first view."""
        return attribute("linspec", "SVD")(first, K)

    def answer(self, solution: Any) -> Any:
        return solution.Vh

    def error(self, solution: Any, problem: str) -> float:
        A = dense(views(problem)[0])
        V = np.asarray(attribute("linspec.arrays", "to_host")(solution.Vh), dtype=np.float64).T
        best = (scipy.linalg.svdvals(A)[:K] ** 2).sum()
        return float(abs(1.0 - np.linalg.norm(A @ scipy.linalg.orth(V)) ** 2 / best))
