"""Leading singular vectors of XᵀY from the cross product itself.

Problem: the k leading singular triplets of XᵀY where p times q numbers can be held.
Method: one pass forms XᵀY; a dense SVD has all triplets (Bookstein 1994).
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from linspec.arrays import to_host
from linspec.cost import DENSE_RATE, FACTOR_RATE, Estimate
from linspec.iteration import Iterate
from linspec.solving import Solver


@dataclass(frozen=True, kw_only=True)
class Gram(Solver):
    """One pass and a dense SVD (Bookstein 1994)."""

    def iterate(self, problem, moments, context, start):
        if problem.readings == 1:
            moments.gram()  # leaves the certificate nothing to read
        U, _, Vt = np.linalg.svd(to_host(moments.cross()), full_matrices=False)
        yield Iterate(0.0, partial(dict, x_weights=U, y_weights=Vt.T), final=True)

    @classmethod
    def estimate(cls, sizes):
        entries, side = float(sizes.p) * sizes.q, min(sizes.p, sizes.q)
        seconds = 4.0 * sizes.nnz * side / DENSE_RATE + 20 * entries * side / FACTOR_RATE
        return Estimate(seconds, 32.0 * entries, "XᵀY and its SVD")
