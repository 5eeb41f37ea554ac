"""Leading singular vectors of XᵀY from the cross product itself.

Problem: the k leading singular triplets of XᵀY where p times q numbers can be held.
Method: one pass forms XᵀY, and a dense decomposition finds the leading triplets (Bookstein 1994).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from linspec.arrays import Home
from linspec.cost import DENSE_RATE, FACTOR_RATE, Estimate, Sizes
from linspec.iteration import Context, Iterate
from linspec.linalg import leading_svd
from linspec.rows import Moments
from linspec.solving import Solver


@dataclass(frozen=True, kw_only=True)
class Gram(Solver):
    """One pass and a dense decomposition (Bookstein 1994)."""

    def iterate(self, problem: Any, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the answer."""
        if any(A.readings <= 1 for A in moments.operators):
            moments.gram()  # which leaves the certificate nothing to read
        C = moments.cross()
        U, _, V = leading_svd(C, problem.k, Home.of(C))
        yield Iterate(0.0, partial(dict, x_weights=U, y_weights=V), final=True)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of XᵀY, and of its decomposition on the shorter side."""
        entries, side = float(sizes.p) * sizes.q, float(min(sizes.p, sizes.q))
        seconds = 4.0 * sizes.nnz * side / DENSE_RATE + (2 * entries * side + 4 * side**3) / FACTOR_RATE
        return Estimate(seconds, 8.0 * (2 * entries + 4 * side**2), "XᵀY and its decomposition")
