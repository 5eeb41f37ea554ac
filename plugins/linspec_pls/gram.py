"""Leading singular vectors of XᵀY from the cross product itself.

Problem: the k leading singular triplets of XᵀY where p times q numbers can be held.
Method: one sweep forms XᵀY, and a dense decomposition finds the leading triplets (Bookstein 1994).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from linspec import Run, Solution, Solver
from linspec.algebra import leading_svd
from linspec.cost import DENSE_RATE, FACTOR_RATE, Estimate, Sizes


@dataclass(frozen=True, kw_only=True)
class Gram(Solver):
    """One sweep and a dense decomposition (Bookstein 1994)."""

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a problem of two views."""
        moments = run.moments("dense" if problem.sweeps == 1 else "implicit")
        U, _, V = leading_svd(moments.cross(), problem.k, moments.home)
        return run.finish(x_weights=U, y_weights=V)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of XᵀY, and of its decomposition on the shorter side."""
        entries, side = float(sizes.p) * sizes.q, float(min(sizes.p, sizes.q))
        seconds = 4.0 * sizes.nnz * side / DENSE_RATE + (2 * entries * side + 4 * side**3) / FACTOR_RATE
        return Estimate(seconds, 8.0 * (2 * entries + 4 * side**2), "XᵀY and its decomposition")
