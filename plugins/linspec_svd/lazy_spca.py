"""Lazy stochastic principal components: the same subspace without orthonormalising anything as long as the data.

Problem: about the k leading singular triplets of A in one sweep, also of data that are read only once.
Method: Bᵀ = AᵀAΩ for a random Ω. The rows of B = (AΩ)ᵀA span what the SVD of orth(AΩ)ᵀA would (Wojnowicz 2017,
arXiv:1709.07175, Algorithms 2 and 4, Proposition 2), and an ℓ x ℓ problem gives a basis of it.
Where we differ. B's own singular values and their order are not A's, so its leading directions are not A's either: the
form of the source, `whiten=False`, takes all of them and no oversampling. By default ΩᵀAᵀAΩ = RᵀR, which comes with the
same product, stands for the orthonormal basis that is not formed: the SVD of R⁻ᵀB is that of QᵀA for Q = AΩR⁻¹. So
singular values and a true truncation cost no sweep. What laziness costs is accuracy: R is the root of a square, and
directions are lost to eps (σ₁/σ_k)², which is said where it matters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec import Run, Solution, Solver, Status, option, part
from linspec.arrays import Array, Home, HostArray, to_host
from linspec.block_algebra import whitening
from linspec.errors import InvalidOption
from linspec_svd.spca import ENDED
from linspec_svd.triplets import decomposed, left_vectors, orthonormal, squared_cuts

LOST = 1e-10
"""Error of the subspace by squaring above which the solution says so: σ₁/σ_k of a thousand in float64."""


@dataclass(frozen=True, kw_only=True)
class LazySPCA(Solver):
    """Randomized SVD in one sweep (Wojnowicz 2017, arXiv:1709.07175)."""

    oversampling: int = option(10, "columns of the sketch beyond the triplets wanted", at_least=0)
    power_iterations: int = option(0, "times to multiply once more, a sweep each", at_least=0)
    whiten: bool = option(True, "singular values and a true truncation; False: the form of the source")
    test_matrix: Any = part("gaussian", "what the sketch multiplies", kind="test-matrix")
    form: str = option(
        "implicit", "hold AᵀA or sweep the data", choices=("auto", "dense", "sparse", "implicit")
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.whiten and self.oversampling:
            raise InvalidOption(
                f"whiten=False cannot tell leading directions from others; got oversampling={self.oversampling}. "
                "Pass oversampling=0, or leave whiten out."
            )

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve an SVD problem."""
        n, p = problem.A.shape
        columns = min(problem.k + self.oversampling, n, p)
        moments = run.moments(self.form, expect=(1 + self.power_iterations, columns))
        sweeps = (1 + self.power_iterations) * moments.sweep_cost
        run.plan(setup=moments.setup_cost + sweeps + problem.left)
        home = moments.home
        V = home.place(run.part(self.test_matrix).draw(p, columns, run.rng))
        for _ in range(self.power_iterations):
            V = orthonormal(moments.gram_matmat(V), home)
        Bt = moments.gram_matmat(V)
        run.note(Status.APPROXIMATE, ENDED.format(columns=columns, powers=self.power_iterations))
        if not self.whiten:
            return self._finished(problem, run, orthonormal(Bt, home), None)
        T = whitening(to_host(V.T @ Bt), cut=float(np.finfo(problem.A.dtype).eps))
        S, V = _leading(Bt @ home.place(T), problem.k, max(squared_cuts(problem.A)), home)
        self._say_what_is_lost(problem, run, S)
        return self._finished(problem, run, V, S)

    def _finished(self, problem: Any, run: Run, V: Array, S: HostArray | None) -> Solution:
        U = None
        if problem.left:
            U, recomputed, V = left_vectors(decomposed(problem, run), V)
            S = S if recomputed is None else recomputed
        return run.finish(Vh=V.T, S=S, U=U)

    @staticmethod
    def _say_what_is_lost(problem: Any, run: Run, S: HostArray) -> None:
        unit = float(np.finfo(problem.A.dtype).eps)
        lost = unit * float(S[0] / S[-1]) ** 2 if len(S) else 0.0
        if lost > LOST:
            run.note(
                Status.ILL_CONDITIONED,
                f"The singular values asked for fall to {S[-1] / S[0]:.0e} of the largest: by squaring, the smallest "
                f'directions are off by about {lost:.0e}. Choose "spca", or "block-krylov".',
            )


def _leading(H: Array, k: int, cut: float, home: Home) -> tuple[HostArray, Array]:
    """The k largest singular values of a tall block above rounding, and their left vectors, orthonormal."""
    values, vectors = np.linalg.eigh(to_host(H.T @ H))
    values, vectors = values[::-1][:k], vectors[:, ::-1][:, :k]
    keep = values > cut * max(values[0], 0.0) if len(values) else np.zeros(0, dtype=bool)
    S = np.sqrt(values[keep])
    V = H @ home.place(vectors[:, keep] / S)
    # Orthonormal only to the condition of HᵀH: those of small values lean on those of large ones.
    L = np.linalg.cholesky(to_host(V.T @ V)) if len(S) else np.zeros((0, 0))
    return S, V @ home.place(np.linalg.inv(L).T)
