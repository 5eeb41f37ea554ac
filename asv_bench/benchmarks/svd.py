"""Every SVD solver: five leading triplets of one view, uncentred, without left vectors; and of slices read once."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse

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

SOLVERS = solvers("svd")

K = 5

ONE_PASS = solvers("svd", having="one-pass")
SLICES = ["dense", "sparse"]
HEIGHT = 500
"""Rows of a slice, which is a megabyte or less: slices of a stream are gathered."""

import_solvers("svd", SOLVERS)


class SVDSolvers(SolverBenchmark):
    """The error is the share of the sum of the squared singular values that the right vectors miss."""

    params = (SOLVERS, BACKENDS, PROBLEMS)
    kind = "svd"

    def state(self, first: Any, second: Any) -> Any:
        """Make the problem of the first view."""
        return problem_class("svd")(first, K)

    def answer(self, solution: Any) -> Any:
        return solution.Vh

    def error(self, solution: Any, problem: str) -> float:
        A = dense(views(problem)[0])
        V = np.asarray(attribute("linspec.arrays", "to_host")(solution.Vh), dtype=np.float64).T
        best = (scipy.linalg.svdvals(A)[:K] ** 2).sum()
        return float(abs(1.0 - np.linalg.norm(A @ scipy.linalg.orth(V)) ** 2 / best))


class StreamedSVD:
    """One pass over an iterator of slices, centred; the error is that of `SVDSolvers`."""

    params = (ONE_PASS, SLICES)
    param_names = ("solver", "slices")
    timeout = 120

    def setup(self, solver: str, slices: str) -> None:
        """Make the slices; an iterator of them is made by every run, because it serves only one."""
        attribute("linspec.operators", "StreamedOperator")
        self.problem, self.solve_ = problem_class("svd"), attribute("linspec", "solve")
        rng = np.random.default_rng(20_240_101)
        if slices == "dense":
            factors = rng.standard_normal((20_000, 8)) @ rng.standard_normal((8, 250))
            self.matrix = factors + 0.1 * rng.standard_normal(factors.shape) + 10.0
        else:
            counts = rng.poisson(rng.gamma(0.05, 2.0, size=(10, 400))[rng.integers(10, size=20_000)])
            self.matrix = scipy.sparse.csr_array(counts.astype(np.float64))
        self.slices = [self.matrix[a : a + HEIGHT] for a in range(0, self.matrix.shape[0], HEIGHT)]

    def run(self, solver: str) -> Any:
        """Solve once, from the same seed every time."""
        return self.solve_(self.problem(iter(self.slices), K, center=True), solver, rng=0)

    def time_solve(self, solver: str, slices: str) -> None:
        """Seconds of a solve."""
        self.run(solver)

    def peakmem_solve(self, solver: str, slices: str) -> None:
        """Resident memory, the slices and the imports included."""
        self.run(solver)

    def track_passes(self, solver: str, slices: str) -> float:
        """One."""
        return float(self.run(solver).passes)

    def track_error(self, solver: str, slices: str) -> float:
        """The share of the sum of the squared singular values that the right vectors miss."""
        A = dense(self.matrix)
        A = A - A.mean(axis=0)
        V = self.run(solver).Vh.T
        best = (scipy.linalg.svdvals(A)[:K] ** 2).sum()
        return float(abs(1.0 - np.linalg.norm(A @ V) ** 2 / best))

    track_passes.unit = "passes"  # type: ignore[attr-defined]
    track_error.unit = "relative error"  # type: ignore[attr-defined]
