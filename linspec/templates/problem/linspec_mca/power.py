"""Leading singular vectors of XᵀY by power iteration with a block.

Problem: the k leading singular triplets of C = XᵀY where p times q numbers are too many to hold.
Method: Rutishauser (1970), on both sides. U is an orthonormal basis of C V; with UᵀCV = P S Zᵀ the triplets U P, S, V Z
fulfil C v = σ u exactly, and the norm of Cᵀ u − σ v measures their error. The next V is an orthonormal basis of
CᵀU. A step takes two sweeps and makes the error smaller by (σ of the first left out / σₖ)².
Where we differ: the block has some more vectors than are wanted, so that the value left out is farther away.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linspec import Iterate, IterativeSolver, limit_option, part, tol_option
from linspec.arrays import to_host
from linspec.cost import sweeps_estimate

OVERSAMPLE, STEPS = 10, 20
"""The number of vectors of the block beyond k, and the expected number of steps, from which the cost is estimated."""


@dataclass(frozen=True, kw_only=True)
class Power(IterativeSolver):
    """Power iteration with a block of vectors (Rutishauser 1970)."""

    normalizer: Any = part("qr", "normalizer of the blocks", kind="normalizer")
    tol: float | None = tol_option()
    max_iterations: int = limit_option(300)

    def iterates(self, problem, run, state=None):
        moments = run.moments(expect=(2 * STEPS, problem.k + OVERSAMPLE))
        k, home, (_, p, q), normalizer = problem.k, moments.home, moments.shape, run.part(self.normalizer)
        if state is None:
            block = home.place(run.rng.standard_normal((q, min(k + OVERSAMPLE, p, q))))
        else:
            yield state
            block = state["CtU"]
        while True:
            V = normalizer.orthonormalize(block)[0]
            CV = moments.products(None, V)[1]
            U = normalizer.orthonormalize(CV)[0]
            block = moments.products(U, None)[2]  # CᵀU
            P, S, Zt = np.linalg.svd(to_host(U.T @ CV), full_matrices=False)
            S, P, Z = S[:k], home.place(P[:, :k]), home.place(Zt[:k].T)
            gaps = home.column_norms(block @ P - V @ Z * home.place(S))
            residual = float(max(gaps) / S[0]) if len(S) else 0.0
            yield Iterate(residual, x_weights=U @ P, y_weights=V @ Z, state={"CtU": block})

    @classmethod
    def estimate(cls, sizes):
        return sweeps_estimate(replace(sizes, k=min(sizes.k + OVERSAMPLE, sizes.p, sizes.q)), 2 * STEPS)
