"""LING as printed: the second stage solves for what the first one leaves, and never corrects it.

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

from collections.abc import Callable
from dataclasses import dataclass

from linspec.arrays import Array, Home, HostArray
from linspec.linalg import Step, Steps, in_variables
from linspec_lstsq.principal_components import PrincipalComponents


@dataclass(frozen=True, eq=False)
class SecondStage:
    """γ₂ as the variables of an iteration, for one ridge r."""

    leading: PrincipalComponents
    r: float
    d: Array
    projected: Array
    of_rest: bool

    @classmethod
    def begun(
        cls, leading: PrincipalComponents, inner: Callable[[Array], Steps], variant: str, r: float, AtT: Array
    ) -> Steps:
        """Project on the components, and begin an iteration for γ₂."""
        d = Home.of(AtT).place(leading.d)[:, None]
        gamma = leading.Z.T @ AtT  # (1)
        shrunk = gamma * (d**2 / (d**2 + r)) if variant == "ridge" else gamma
        stage = cls(leading, r, d, shrunk, variant != "projection")
        return in_variables(inner(AtT - leading.V @ (d * gamma)), stage)  # (2)

    def forward(self, P: Array) -> Array:
        """P itself."""
        return P

    def back(self, V: Array, SV: Array) -> Array:
        """(A_rᵀA_r + r) V, or (AᵀA + r) V."""
        SV = SV + self.r * V
        return SV - self.leading.V @ (self.d**2 * (self.leading.V.T @ V)) if self.of_rest else SV

    def answer(self, Y: Array) -> Array:
        """Coefficients x for γ₂ = y."""
        first = self.projected
        if self.of_rest:
            first = first - self.d * (self.leading.V.T @ Y)
        return self.leading.Z @ first + Y  # (4)

    def lengths(self, step: Step) -> HostArray:
        """Those of the residual of (2)."""
        return step.lengths
