"""CCA from the Gram matrices.

Problem: the leading singular values of Sx^(-1/2) C Sy^(-1/2).
Method: one pass forms Sx, C and Sy (Lu 2015, Lemma 4.1.2); with Cholesky factors Sx = LxLxᵀ, Sy = LyLyᵀ the
small matrix Lx⁻¹ C Ly⁻ᵀ has the same singular values.
Where we differ: the Gram matrices are first scaled to unit diagonal. If one is singular or nearly so, an
eigen-decomposition with a rank cut replaces its Cholesky factor. Forming a Gram matrix squares the condition
number. So directions below √eps of the largest one of a view cannot be distinguished from zero; the solver
"direct" distinguishes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from linspec import Run, Solution, Solver
from linspec.algebra import SMALL, leading_svd
from linspec.cost import (
    CHOLESKY_RATE,
    DENSE_RATE,
    FACTOR_RATE,
    SPARSE_RATE,
    Estimate,
    Sizes,
    moments_estimates,
)
from linspec.families.cca import Evidence


@dataclass(frozen=True, kw_only=True)
class GramCCA(Solver):
    """One pass, Cholesky whitening and a small SVD (Lu 2015, Lemma 4.1.2)."""

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a CCA problem."""
        moments = run.moments("dense")
        home = moments.home
        C = moments.dense()[1]
        assert C is not None  # noqa: S101  # CCA has two views
        x, y = (moments.whitener(i, ridge) for i, ridge in enumerate(problem.ridge))
        T = x.solve(y.solve(C.T).T)
        U, rho, V = leading_svd(T, problem.k + 1, home)  # one more, for the gap after the k-th
        k = min(problem.k, len(rho))
        U, V, following = U[:, :k], V[:, :k], rho[k:]
        return run.finish(
            x_weights=x.solve_adjoint(U),
            y_weights=y.solve_adjoint(V),
            correlations=rho[:k],
            ranks=(x.rank, y.rank),
            evidence=Evidence(
                carried=float(following[0]) if len(following) else 0.0,
                resolution=max(T.shape) * max(x.condition, y.condition) * moments.rounding,
            ),
        )

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of three Gram matrices, two Cholesky factors, two triangular solves and an SVD."""
        p, q = sizes.p, sizes.q
        shorter, longer = sorted((float(p), float(q)))
        whitening = (p**3 + q**3) / 3 + p * q * (p + q)
        product, decomposition = 0.0, 4.0 * longer * shorter**2
        if shorter > SMALL:
            product, decomposition = 2.0 * longer * shorter**2, 4.0 / 3 * shorter**3
        factoring = whitening / CHOLESKY_RATE + product / DENSE_RATE + decomposition / FACTOR_RATE
        note = f"{sizes.gram_entries:.2g} Gram entries, {whitening + product + decomposition:.2g} flops to factor"
        return Estimate(_forming(sizes) + factoring, 8.0 * (2 * sizes.gram_entries + p * q), note)


def _forming(sizes: Sizes) -> float:
    """The seconds to form the Gram matrices, from the entries or from products with the identity."""
    if sizes.readable:
        return moments_estimates(sizes, 0, sizes.k)["dense"].seconds
    return 3.0 * sizes.nnz * (sizes.p + sizes.q) / (SPARSE_RATE if sizes.scattered else DENSE_RATE)
