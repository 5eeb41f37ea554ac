"""Leading singular vectors of XᵀY by power iteration with a block.

Problem: the k leading singular triplets of C = XᵀY where p times q numbers are too many to hold.
Method: Rutishauser (1970), on both sides. U is an orthonormal basis of C V; with UᵀCV = P S Zᵀ the triplets U P, S, V Z
fulfil C v = σ u exactly, and the norm of Cᵀ u − σ v measures their error. The next V is an orthonormal basis of
CᵀU. A step takes two passes and makes the error smaller by (σ of the first left out / σₖ)².
Where we differ: the block has some more vectors than are wanted, so that the value left out is farther away.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from linspec import limit_option, part, tol_option
from linspec.arrays import Device, to_host
from linspec.cost import sweeps_estimate
from linspec.iteration import Iterate
from linspec.solving import Solver

OVERSAMPLE, STEPS = 10, 20
"""The number of vectors of the block beyond k, and the expected number of steps, from which the cost is estimated."""


@dataclass(frozen=True, kw_only=True)
class Power(Solver):
    """Power iteration with a block of vectors (Rutishauser 1970)."""

    normalizer: Any = part("qr", "normalizer of the blocks", kind="normalizer")
    tol: float | None = tol_option()
    max_iterations: int = limit_option(300)

    def iterate(self, problem, moments, context, start):
        k, (p, q) = problem.k, moments.widths
        moments.expect(2 * STEPS, k + OVERSAMPLE)
        device = moments.operators[1].device.blocks
        first = None if start is None else to_host(start["y_weights"])
        block = device.asarray(context.filled(first, q, min(k + OVERSAMPLE, p)))
        while True:
            V = self.normalizer.orthonormalize(block)[0]
            CV = moments.products(None, V, onto=(0,))[1][0]
            U = self.normalizer.orthonormalize(CV)[0]
            block = device.asarray(moments.products(U, None, onto=(1,))[0][1])  # CᵀU
            P, S, Zt = np.linalg.svd(to_host(U.T @ CV), full_matrices=False)
            X, Y = U @ Device.of(U).asarray(P), V @ device.asarray(Zt.T)
            gaps = device.column_norms((block @ device.asarray(P) - Y * device.asarray(S))[:, :k])
            residual = float(max(gaps) / S[0]) if len(S) else 0.0
            yield Iterate(residual, partial(dict, x_weights=X, y_weights=Y))

    @classmethod
    def estimate(cls, sizes):
        return sweeps_estimate(replace(sizes, k=min(sizes.k + OVERSAMPLE, sizes.p, sizes.q)), 2 * STEPS)
