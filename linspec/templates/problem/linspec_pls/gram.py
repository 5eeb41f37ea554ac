"""Leading singular vectors of XᵀY from the cross product itself.

Problem: the k leading singular triplets of XᵀY where p times q numbers can be held.
Method: one sweep forms XᵀY, times the identity of the shorter side; a dense SVD has all triplets.
Source: Bookstein 1994.
"""

from dataclasses import dataclass

import numpy as np

from linspec import Solver
from linspec.arrays import to_host
from linspec.cost import DENSE_RATE, FACTOR_RATE, SPARSE_RATE, Estimate


@dataclass(frozen=True, kw_only=True)
class Gram(Solver):
    """One sweep and a dense SVD (Bookstein 1994)."""

    def solve(self, problem, run):
        moments = run.moments("implicit")
        _, p, q = moments.shape
        if q <= p:
            C = to_host(moments.products(None, moments.home.eye(q))[1])  # XᵀY
        else:
            C = to_host(moments.products(moments.home.eye(p), None)[2]).T  # YᵀX
        U, _, Vt = np.linalg.svd(C, full_matrices=False)
        return run.finish(x_weights=U[:, : problem.k], y_weights=Vt[: problem.k].T)

    @classmethod
    def estimate(cls, sizes):
        side = min(sizes.p, sizes.q)
        forming = 4.0 * sizes.nnz * side / (SPARSE_RATE if sizes.scattered else DENSE_RATE)
        entries = float(sizes.p) * sizes.q
        return Estimate(forming + 20 * entries * side / FACTOR_RATE, 32.0 * entries, "XᵀY and its SVD")
