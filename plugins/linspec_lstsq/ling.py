"""LING: projection on a few leading principal components, and an iteration for the rest of the problem.

Problem: min ‖A x - T‖² + r ‖x‖² if few singular values of A are much larger than the others.
Method: in four variants. U, d, V are k leading singular triplets by a randomized SVD, and Z has A Z = U
(principal_components.py). With M = AᵀA + rI and leading Ritz vectors Q of AᵀA, `variant="deflated"` is

    E = QᵀMQ,  Π = I - Q E⁻¹ (MQ)ᵀ                      (1)
    x = Q E⁻¹ QᵀAᵀT + Π y,  Πᵀ M y = Πᵀ AᵀT             (2)

with y by conjugate gradients (Nicolaides 1987; Frank & Vuik 2001, doi:10.1137/S1064827500373231). The variants that are
printed follow below.
Source: Lu 2015, Fast linear algorithms for machine learning (thesis), Algorithms 1 and 5.
Where we differ: the printed variants never correct the part that they project out. The deflated one has the same cost
and converges for any Q: it is the default. Algorithm 12 of the source, which finds U, draws as many random columns as
there are components. Here ten more are drawn, and the leading components of their span are kept, so U is nearer to
singular vectors than as printed.

LING as printed: the second stage solves for what the first one leaves, and never corrects it.

Problem: coefficients with the predictions ŷ of Lu (2015), where T has the right-hand sides, and U, d, V, Z are leading
components of A (principal_components.py).
Method: `variant="ridge"` is Algorithm 1, `variant="simplified"` the same without shrinking γ₁, as the experiments of
the source run it, and `variant="projection"` is Algorithm 5, with A in the place of A_r:

    γ₁ = UᵀT = ZᵀAᵀT                                            (1)
    (A_rᵀA_r + r) γ₂ = A_rᵀ(T - Uγ₁),  A_r = (I - UUᵀ) A        (2)
    ŷ = U s γ₁ + A_r γ₂,  s = d²/(d² + r), or 1                 (3)
    x = Z (s γ₁ - d Vᵀγ₂) + γ₂,  or Z γ₁ + γ₂ with A            (4)

No n x k matrix is formed: A_rᵀ(T - Uγ₁) = AᵀT - V d γ₁, and A_rᵀA_r = AᵀA - V d² Vᵀ.
Where we differ: every variant returns coefficients, which predict ŷ up to rounding, since A Z = U; V/d in the place of
Z would not. If U is not exact, the printed variants do not reach ridge regression, and without shrinking they are not
ridge regression at all; a status says so. The residual is that of the second stage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import linspec as ls
from linspec import Status, option
from linspec.arrays import Array, Device, to_host
from linspec.iteration import ROUNDING, Context, Iterate
from linspec.linalg import Steps, cg_steps, in_variables
from linspec.rows import Moments
from linspec_lstsq.gradient_descent import gd_steps
from linspec_lstsq.normal_system import Begin, ByProducts, rounding_of
from linspec_lstsq.principal_components import OnComponents, PrincipalComponents


@dataclass(frozen=True, eq=False)
class SecondStage:
    """γ₂ as the variables of an iteration, for one ridge r."""

    leading: PrincipalComponents
    r: float
    d: Array
    projected: Array

    @classmethod
    def begun(
        cls, leading: PrincipalComponents, inner: Callable[[Array], Steps], variant: str, r: float, AtT: Array
    ) -> Steps:
        """Project on the components, and begin an iteration for γ₂."""
        d = Device.of(AtT).asarray(leading.d)[:, None]
        gamma = leading.Z.T @ AtT  # (1)
        shrunk = gamma * (d**2 / (d**2 + r)) if variant == "ridge" else gamma
        of_rest = d * float(variant != "projection")  # 0 for A in the place of A_r
        stage = cls(leading, r, of_rest, shrunk)
        return in_variables(inner(AtT - leading.V @ (d * gamma)), stage)  # (2)

    def forward(self, P: Array) -> Array:
        """P itself."""
        return P

    def back(self, V: Array, SV: Array) -> Array:
        """(A_rᵀA_r + r) V, or (AᵀA + r) V."""
        return SV + self.r * V - self.leading.V @ (self.d**2 * (self.leading.V.T @ V))

    def answer(self, Y: Array) -> Array:
        """Coefficients x for γ₂ = y."""
        return self.leading.Z @ (self.projected - self.d * (self.leading.V.T @ Y)) + Y  # (4)


VARIANTS = ("deflated", "ridge", "simplified", "projection")

PRINTED = "Printed variants do not correct errors of their components; variant 'deflated' converges to the solution."

EXPECTED = 50
"""Products that are expected, for the choice of a form."""

INNER: dict[str, Callable[[Array], Steps]] = {"cg": cg_steps, "gd": gd_steps}


@dataclass(frozen=True, kw_only=True)
class Ling(ByProducts, OnComponents):
    """Projection on leading components and an iteration for the rest (Lu 2015, Algorithms 1 and 5)."""

    variant: str = option("deflated", "the one that converges, or one of those printed", choices=VARIANTS)
    inner: str = option("cg", "what iterates", choices=tuple(INNER))

    def iterate(
        self, problem: ls.LeastSquares, moments: Moments, context: Context, start: Any
    ) -> Iterator[Iterate]:
        """Yield the iterates of all ridges."""
        moments.expect(EXPECTED, problem.width, self.form)
        leading, AtB = self.begun(moments, context)
        steps = self.solved(problem, moments, context, start, AtB, self._begin(leading))
        if self.variant == "deflated":
            yield from steps
            return
        context.note(Status.APPROXIMATE, PRINTED)
        near = max(context.tol, ROUNDING * rounding_of(moments, AtB, problem.width)["unit"])
        yield from (iterate._replace(final=iterate.residual <= near) for iterate in steps)

    def prepared(self, moments: Moments, i: int, ridge: float, context: Context) -> Begin:
        """Compute the components of Xᵢ."""
        product = partial(moments.gram_product, i=i)
        Y = product(self.random_block(moments, i, context))
        return self._begin(PrincipalComponents.of(Y, product, self.rank))

    def _begin(self, leading: PrincipalComponents) -> Begin:
        """What begins the iteration of the variant for one ridge."""
        inner = INNER[self.inner]
        if self.variant == "deflated":
            return partial(deflated, leading, inner)
        return partial(SecondStage.begun, leading, inner, self.variant)


def deflated(leading: PrincipalComponents, inner: Callable[[Array], Steps], r: float, G: Array) -> Steps:
    """The variant "deflated" for M x = G."""
    MQ = leading.AtAQ + r * leading.Q  # E = QᵀMQ of (1)
    Einv = Device.of(G).asarray(np.linalg.inv(to_host(leading.Q.T @ MQ)))
    D = Deflation(leading.Q, MQ, Einv, r, G)
    return in_variables(inner(D.transposed(G)), D)


@dataclass(frozen=True, eq=False)
class Deflation:
    """Π for one ridge r and right-hand side G. E is computed, so that QᵀΠᵀ is 0 whatever the rounding of MQ."""

    Q: Array
    MQ: Array
    Einv: Array
    r: float
    G: Array

    def forward(self, P: Array) -> Array:
        """Π P: for the product it makes no difference, because Πᵀ M P = Πᵀ M Π P, and x moves along it."""
        return P - self.Q @ (self.Einv.T @ (self.MQ.T @ P))  # (1)

    def transposed(self, MV: Array) -> Array:
        """Πᵀ MV."""
        return MV - self.MQ @ (self.Einv @ (self.Q.T @ MV))

    def back(self, V: Array, SV: Array) -> Array:
        """Πᵀ M V."""
        return self.transposed(SV + self.r * V)

    def answer(self, Y: Array) -> Array:
        """Q E⁻¹ Qᵀ G + Π y."""
        return self.Q @ (self.Einv @ (self.Q.T @ self.G)) + self.forward(Y)  # (2)
