"""Components of a PLS regression, each by one product with X.

Problem: k components where XᵀX is too large to hold, or costs more than k sweeps.
Method: the components of NIPALS (Wold, Sjöström & Eriksson 2001) by products XᵀX w instead of a deflated X. For one
right-hand side they are those of Golub & Kahan: with k components, the coefficients are the k-th iterate of LSQR.
Where we differ: weights are singular vectors of the held XᵀY, not limits of a power iteration, and X is not changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from linspec import Iterate, IterativeSolver, Run, form_option
from linspec.cost import Estimate, Sizes, sweeps_estimate
from linspec_pls.regression.components import Components, component_seconds


class Found(Iterate):
    """The components so far and the weights that follow; the residual is 1 while components are missing."""

    def __init__(self, components: Components, *, complete: bool) -> None:
        following, sigma = components.next_weights()
        done = complete or sigma <= components.lost[-1]
        super().__init__(1.0 - done, state={"components": components, "following": following})

    def weights(self) -> Mapping[str, Any]:
        """The weights of the components."""
        return {"x_weights": self["components"].W}


@dataclass(frozen=True, kw_only=True)
class Nipals(IterativeSolver):
    """A sweep for each component (Wold, Sjöström & Eriksson 2001)."""

    form: str = form_option()

    kept: ClassVar = (Found, Components)

    def iterates(self, problem: Any, run: Run, state: Any = None) -> Iterator[Found]:
        """Yield the components after each one, until there are k or XᵀY has no more."""
        moments = run.moments(self.form, (problem.k + 1, 1))
        run.plan(setup=moments.cost.setup + moments.cost.sweep)
        if state is None:
            state = Found(Components.none(moments.cross(), moments.home), complete=False)
            state.shown = False
        yield state
        found = state
        while found.residual > 0:
            w = found["following"]
            before = found["components"]
            components = before.with_weights(w, moments.gram(w))
            found = Found(components, complete=len(components) in (len(before), problem.k))
            yield found

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of the sweep that forms XᵀY, and of one sweep for each component."""
        found = sweeps_estimate(replace(sizes, k=1), sizes.k + 1, sizes.q)
        own = 8.0 * (3.0 * sizes.p * sizes.q + 3.0 * sizes.p * sizes.k)
        return replace(
            found, seconds=found.seconds + sizes.k * component_seconds(sizes), bytes=found.bytes + own
        )
