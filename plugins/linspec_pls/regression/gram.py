"""All components of a PLS regression from the Gram matrices.

Problem: k components where p x (p + q) numbers can be held.
Method: one pass forms XᵀX and XᵀY; the components need nothing else of the data (Dayal & MacGregor 1997).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from linspec.arrays import Home
from linspec.cost import DENSE_RATE, Estimate, Sizes, moments_estimates
from linspec.iteration import Context, Iterate
from linspec.rows import Moments
from linspec.solving import Solver
from linspec_pls.regression.components import component_seconds, deflated


@dataclass(frozen=True, kw_only=True)
class Gram(Solver):
    """One pass, then deflation of XᵀY (Dayal & MacGregor 1997)."""

    def iterate(self, problem: Any, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the answer."""
        C = moments.gram()[0][1]
        found = deflated(C, moments.gram_product, problem.k, Home.of(C))
        yield Iterate(0.0, partial(dict, x_weights=found.W), final=True)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of the Gram matrices, of a product, and of a decomposition for each component."""
        if not sizes.readable:
            return None
        formed = moments_estimates(sizes, 0, 1)["dense"]
        own = 2.0 * sizes.p**2 / DENSE_RATE + component_seconds(sizes)
        return Estimate(formed.seconds + sizes.k * own, formed.bytes, "Gram matrices and components")
