"""Leading singular vectors of XᵀY from the cross product itself.

Problem: the k leading singular triplets of XᵀY where p times q numbers can be held.
Method: one sweep forms XᵀY; a dense SVD has all triplets (Bookstein 1994).
"""

from dataclasses import dataclass

import numpy as np

from linspec import Solver
from linspec.arrays import to_host
from linspec.cost import DENSE_RATE, FACTOR_RATE, Estimate


@dataclass(frozen=True, kw_only=True)
class Gram(Solver):
    """One sweep and a dense SVD (Bookstein 1994)."""

    def solve(self, problem, run):
        C = to_host(run.moments("dense" if problem.sweeps == 1 else "implicit").cross())
        U, _, Vt = np.linalg.svd(C, full_matrices=False)
        return run.finish(x_weights=U[:, : problem.k], y_weights=Vt[: problem.k].T)

    @classmethod
    def estimate(cls, sizes):
        entries, side = float(sizes.p) * sizes.q, min(sizes.p, sizes.q)
        seconds = 4.0 * sizes.nnz * side / DENSE_RATE + 20 * entries * side / FACTOR_RATE
        return Estimate(seconds, 32.0 * entries, "XᵀY and its SVD")
