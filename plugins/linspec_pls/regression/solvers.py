"""Components of a PLS regression, from the Gram matrices or each by one product with X.

Problem: k components where p x (p + q) numbers can be held, and where XᵀX is too large or costs more than k passes.
Method: "gram" forms XᵀX and XᵀY in one pass; the components need nothing else of the data (Dayal & MacGregor 1997).
"nipals" has the components of NIPALS (Wold, Sjöström & Eriksson 2001) by products XᵀX w instead of a deflated X. For
one right-hand side they are those of Golub & Kahan: with k components, the coefficients are the k-th iterate of LSQR.
Where we differ: weights are singular vectors of the held XᵀY, not limits of a power iteration, and X is not changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from linspec import form_option
from linspec.arrays import Device
from linspec.cost import DENSE_RATE, Estimate, Sizes, moments_estimates, sweeps_estimate
from linspec.iteration import Context, Iterate
from linspec.rows import Moments
from linspec.solving import Solver
from linspec_pls.regression.components import Components, component_seconds, deflated
from linspec_pls.regression.problem import PLSRegression


@dataclass(frozen=True, kw_only=True)
class Gram(Solver):
    """One pass, then deflation of XᵀY (Dayal & MacGregor 1997)."""

    def iterate(
        self, problem: PLSRegression, moments: Moments, context: Context, start: Any
    ) -> Iterator[Iterate]:
        """Yield the answer."""
        C = moments.gram()[0][1]
        components = deflated(C, moments.gram_product, problem.k, Device.of(C))
        yield Iterate(0.0, partial(dict, x_weights=components.W), final=True)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of the Gram matrices, of a product, and of a decomposition for each component."""
        if not sizes.readable:
            return None
        formed = moments_estimates(sizes, 0, 1)["dense"]
        per_component = 2.0 * sizes.p**2 / DENSE_RATE + component_seconds(sizes)
        return Estimate(
            formed.seconds + sizes.k * per_component, formed.bytes, "Gram matrices and components"
        )


@dataclass(frozen=True, kw_only=True)
class Nipals(Solver):
    """A pass for each component (Wold, Sjöström & Eriksson 2001)."""

    form: str = form_option()

    def iterate(
        self, problem: PLSRegression, moments: Moments, context: Context, start: Any
    ) -> Iterator[Iterate]:
        """Yield the components after each one, until there are k or XᵀY has no more."""
        moments.expect(problem.k + 1, 1, self.form)
        C = moments.cross()
        components, before = Components.none(C, Device.of(C)), -1
        W = components.device.asarray((start or {}).get("x_weights", C[:, :0]))  # of a run that goes on
        SW = moments.gram_product(W) if W.shape[1] else W
        for i in range(W.shape[1]):
            components = components.with_weights(W[:, i : i + 1], SW[:, i : i + 1])
        while True:
            w, sigma = components.next_weights()
            done = len(components) in (before, problem.k) or sigma <= components.lost[-1]
            if done or len(components):
                yield Iterate(1.0 - done, partial(dict, x_weights=components.W), final=done)
            if done:
                return
            before, components = len(components), components.with_weights(w, moments.gram_product(w))

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate:
        """Estimated cost of the pass that forms XᵀY, and of one pass for each component."""
        passes = sweeps_estimate(replace(sizes, k=1), sizes.k + 1, sizes.q)
        memory = 8.0 * (3.0 * sizes.p * sizes.q + 3.0 * sizes.p * sizes.k)
        return replace(
            passes, seconds=passes.seconds + sizes.k * component_seconds(sizes), bytes=passes.bytes + memory
        )
