"""Sparse CCA by HSIC: combinations Xu and Yv that depend on each other in any way, not by correlation alone.

Problem: pairs (u, v), one after the other, that maximise the Hilbert-Schmidt independence criterion of Xu and Yv (of
k(X, u) and k(Y, v) with another kernel than the linear one) in their sets.
Method: the search of `gradkcca`. Starts are the pairs of single columns that depend most on each other. They
climb with few features of the Gaussian kernel of a variate, and the best makes a final climb with many. Features are
those of the quadrature in `linspec_kernel.preimage.objectives`, O(n) for each.
Source: Uurtio, Bhadra & Rousu 2018, ICDM, Sparse non-linear CCA through Hilbert-Schmidt independence criterion,
doi:10.1109/ICDM.2018.00172; Chang, Krüger, Kustra & Zhang 2013, ICML, Canonical correlation analysis based on
Hilbert-Schmidt independence criterion and centered kernel target alignment.
Where we differ: (a) kernels have the width of the variate's standard deviation, so that the length of u does not
matter, where the source takes a median of distances, held constant in the gradient. (b) The gradient of the source uses
a part of the pairs of rows, or Nyström features of a tenth of the rows. (c) The source climbs from random points, one
after the other, and alternates between u and v. With the objective "correlation" this is `gradkcca`, and a message
notes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from linspec import option
from linspec.iteration import Context
from linspec_kernel.preimage.gradkcca import FromStarts
from linspec_kernel.preimage.objectives import HSIC, Objective

CLIMBING_FEATURES = 16
"""Number of features of each variate while starts climb."""

OTHER = (
    "The problem asks for the {objective} of variates, so this was the search of gradkcca. For HSIC pass "
    "objective='hsic'."
)


@dataclass(frozen=True, kw_only=True)
class SCCAHSIC(FromStarts):
    """Projected gradients of HSIC by features of one variable (Uurtio, Bhadra & Rousu 2018)."""

    repeats: int = option(32, "starts of each pair", at_least=1, at_most=1000)

    def objectives(self, problem: Any, context: Context) -> tuple[Objective, Objective]:
        """HSIC with few features for all starts, and with many features for the best one."""
        if problem.objective != "hsic":
            context.note(None, OTHER.format(objective=problem.objective))
            return problem.value, problem.value
        return HSIC(CLIMBING_FEATURES), problem.value
