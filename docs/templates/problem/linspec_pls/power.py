"""Partial least squares by power iteration with a block.

Problem: the k leading singular triplets of C = XᵀY where p times q numbers are too many to hold.
Method: Rutishauser (1970), on both sides. U is an orthonormal basis of C V; with UᵀCV = P S Zᵀ the triplets U P, S, V Z
fulfil C v = σ u exactly, and the norm of Cᵀ u − σ v measures their error. The next V is an orthonormal basis of
CᵀU. A step takes two sweeps and makes the error smaller by (σ of the first left out / σₖ)².
Where we differ: the block has some more vectors than are wanted, so that the value left out is farther away.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linspec import Iterate, IterativeSolver, option, part
from linspec.arrays import to_host
from linspec.cost import sweeps_estimate

OVERSAMPLE, STEPS = 10, 20
"""Vectors of the block beyond k, and the number of steps in an estimate."""


@dataclass(frozen=True, kw_only=True)
class Power(IterativeSolver):
    """Power iteration with a block of vectors (Rutishauser 1970)."""

    oversample: int = option(OVERSAMPLE, "vectors of the block beyond k", at_least=0)
    normalizer: Any = part("qr", "normalizer of the blocks", kind="normalizer")
    tol: float | None = option(None, "residual to stop at; none: 1e-6, more for float32", above=0)
    max_iterations: int = option(300, "steps at most, two sweeps each", at_least=1)
    form: str = option("auto", "hold Gram matrices or sweep", choices=("auto", "dense", "sparse", "implicit"))

    def iterates(self, problem, run, state=None):
        width = min(problem.k + self.oversample, problem.X.shape[1], problem.Y.shape[1])
        moments = run.moments(self.form, expect=(2 * STEPS, width))
        normalizer, home = run.part(self.normalizer), moments.home
        if state is None:
            run.plan(setup=moments.cost.setup + 2 * moments.cost.sweep)  # two sweeps before the first iterate
            block = home.place(run.rng.standard_normal((problem.Y.shape[1], width)))
        else:
            yield state
            block = state["CtU"]
        while True:
            V = normalizer.orthonormalize(block)[0]
            CV = moments.products(None, V)[1]
            U = normalizer.orthonormalize(CV)[0]
            CtU = moments.products(U, None)[2]
            P, S, Zt = np.linalg.svd(to_host(U.T @ CV), full_matrices=False)
            S, P, Z = S[: problem.k], home.place(P[:, : problem.k]), home.place(Zt[: problem.k].T)
            u, v = U @ P, V @ Z
            gaps = home.column_norms(CtU @ P - v * home.place(S))
            residual = max(gaps) / S[0] if len(S) else 0.0
            yield Iterate(float(residual), x_weights=u, y_weights=v, state={"CtU": CtU})
            block = CtU

    @classmethod
    def estimate(cls, sizes):
        return sweeps_estimate(replace(sizes, k=min(sizes.k + OVERSAMPLE, sizes.p, sizes.q)), 2 * STEPS)
