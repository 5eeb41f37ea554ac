"""Multiset CCA from the Gram matrices.

Problem: all eigenvectors of A w = λ B w that are requested, where the Gram matrices of all views fit into memory.
Method: one pass forms them. The eigenvectors of one symmetric matrix in whitened coordinates are the answer
(`linspec_multiset.pencil`).
Source: Kettenring 1971, doi:10.1093/biomet/58.3.433.
Where we differ: nearly singular Gram matrices are cut at the rounding of their entries, as in CCA.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from linspec.certificates import norms_of_held
from linspec.cost import CHOLESKY_RATE, FACTOR_RATE, Estimate, Sizes
from linspec.iteration import Context, Iterate
from linspec.linalg import leading_eigenpairs
from linspec.rows import Moments
from linspec.solving import Solver
from linspec_multiset.pencil import Pencil, forming


@dataclass(frozen=True, kw_only=True)
class GramMultiset(Solver):
    """One pass, Cholesky whitening and one eigendecomposition (Kettenring 1971)."""

    def iterate(self, problem: Any, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the answer."""
        pencil = Pencil.of(problem, moments)
        moments.gram()
        metrics = norms_of_held(moments, problem.ridge, every=True) or []
        moments.metrics = metrics
        M = pencil.whitened(metrics)
        values, U = leading_eigenpairs(M, min(problem.k, len(M)))
        answer = {"weights": pencil.split(U[:, ::-1], metrics), "eigenvalues": values[::-1]}
        yield Iterate(0.0, lambda: answer, final=True)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of the Gram matrices, their factors, and the eigenvectors of order Σpᵢ."""
        side = float(sizes.p + sizes.q)
        seconds = forming(sizes) + side**3 * (1.0 / CHOLESKY_RATE + 4.0 / 3.0 / FACTOR_RATE)
        return Estimate(seconds, 8.0 * 4.0 * side**2, f"Gram matrices and eigenvectors of order {side:.0f}")
