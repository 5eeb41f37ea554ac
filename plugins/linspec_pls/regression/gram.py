"""All components of a PLS regression from the Gram matrices.

Problem: k components where p x (p + q) numbers can be held.
Method: one sweep forms XᵀX and XᵀY; the components need nothing else of the data (Dayal & MacGregor 1997).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from linspec import Run, Solution, Solver
from linspec.cost import DENSE_RATE, Estimate, Sizes, moments_estimates
from linspec_pls.regression.components import component_seconds, deflated


@dataclass(frozen=True, kw_only=True)
class Gram(Solver):
    """One sweep, then deflation of XᵀY (Dayal & MacGregor 1997)."""

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a regression on components."""
        moments = run.moments("dense")
        S = moments.dense()[0]
        found = deflated(moments.cross(), lambda w: S @ w, problem.k, moments.home)
        return run.finish(x_weights=found.W)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of the Gram matrices, of a product, and of a decomposition for each component."""
        if not sizes.readable:
            return None
        formed = moments_estimates(sizes, 0, 1)["dense"]
        own = 2.0 * sizes.p**2 / DENSE_RATE + component_seconds(sizes)
        return Estimate(formed.seconds + sizes.k * own, formed.bytes, "Gram matrices and components")
