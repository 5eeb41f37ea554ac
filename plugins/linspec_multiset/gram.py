"""Multiset CCA from the Gram matrices.

Problem: all eigenvectors of A w = λ B w that are requested, where the Gram matrices of all views fit into memory.
Method: one sweep forms them. Each Sᵢ is factored, and the eigenvectors of one symmetric matrix in whitened coordinates
are the answer (`linspec_multiset.pencil`).
Source: Kettenring 1971, doi:10.1093/biomet/58.3.433.
Where we differ: nearly singular Gram matrices are cut at the rounding of their entries, as in CCA.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from linspec import Run, Solution, Solver
from linspec.algebra import leading_eigenpairs
from linspec.cost import (
    CHOLESKY_RATE,
    FACTOR_RATE,
    Estimate,
    Sizes,
)
from linspec_multiset.absent import cross_blocks
from linspec_multiset.pencil import forming, split, whitened_matrix


@dataclass(frozen=True, kw_only=True)
class GramMultiset(Solver):
    """One pass, Cholesky whitening and one eigendecomposition (Kettenring 1971)."""

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a multiset CCA problem."""
        moments = run.moments("dense")
        blocks = cross_blocks(moments)
        factors = [moments.whitener(i, ridge) for i, ridge in enumerate(problem.ridge)]
        M = whitened_matrix(factors, problem.view_weights, blocks)
        U = leading_eigenpairs(M, min(problem.k, len(M)))[1][:, ::-1]
        return run.finish(weights=split(U, factors, problem.view_weights, moments.home))

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of the Gram matrices, their factors, and the eigenvectors of order Σpᵢ."""
        side = float(sizes.p + sizes.q)
        seconds = forming(sizes) + side**3 * (1.0 / CHOLESKY_RATE + 4.0 / 3.0 / FACTOR_RATE)
        return Estimate(seconds, 8.0 * 4.0 * side**2, f"Gram matrices and eigenvectors of order {side:.0f}")
