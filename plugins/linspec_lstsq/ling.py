"""LING: projection on a few leading principal components, and an iteration for the rest of the problem.

Problem: min ‖A x − T‖² + r ‖x‖² if few singular values of A are much larger than the others.
Method: Lu (2015), in four variants. U, d, V are k leading singular triplets by a randomized SVD, and Z has A Z = U.

`variant="ridge"`, Algorithm 1: γ₁ = UᵀT, then γ₂ from A_r = (I − UUᵀ)A and T − Uγ₁ with ridge r by gradient descent,
and ŷ = U (d²/(d² + r)) γ₁ + A_r γ₂.
`variant="simplified"`, the same without shrinking γ₁: the experiments of the source run this variant.
`variant="projection"`, Algorithm 5: γ₂ from A itself and T − Uγ₁, and ŷ = Uγ₁ + Aγ₂.
`variant="deflated"`, ours: conjugate gradients for M = AᵀA + rI, M-conjugate to leading Ritz vectors Q of AᵀA. With
E = QᵀMQ they start from Q E⁻¹QᵀAᵀT and multiply by Πᵀ M, where Π = I − Q E⁻¹(MQ)ᵀ (Nicolaides 1987; Frank & Vuik 2001,
doi:10.1137/S1064827500373231).

Where we differ: the printed variants never correct the part that they project out. If U is not exact, they do not reach
ridge regression, and without shrinking they are not ridge regression at all; a status says so. Algorithm 12 of the
source, which finds U, draws as many random columns as there are components. Here ten more columns are drawn, and the
leading components of their span are kept, so U is nearer to singular vectors than as printed. The
deflated variant has the same cost and converges for any Q: it is the default. Every variant returns coefficients. For
the printed ones A Z = U makes them exact: x = Z (s γ₁ − d Vᵀγ₂) + γ₂ predicts ŷ up to rounding, while V/d instead of Z
would not. No n x k matrix is formed: AᵀU = V d, UᵀT = ZᵀAᵀT, and products with A_rᵀA_r are those with AᵀA minus
V d² Vᵀ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from linspec import (
    IterativeSolver,
    LeastSquaresState,
    LinearOperator,
    Moments,
    Run,
    form_option,
    limit_option,
    option,
    part,
    tol_option,
)
from linspec.arrays import Array, Home
from linspec_lstsq.block_step import Blocks
from linspec_lstsq.conjugate_gradients import block_conjugate_gradients
from linspec_lstsq.gradient_descent import Descent, descent
from linspec_lstsq.ling_as_printed import Printed, as_printed, printed
from linspec_lstsq.normal_equations import (
    KEPT,
    Begin,
    Kernel,
    NormalIterate,
    System,
    iterates,
)
from linspec_lstsq.prepared import PreparedNormalEquations
from linspec_lstsq.principal_components import SWEEPS, PrincipalComponents, principal_components
from linspec_lstsq.transformed import Transformed, transformed

VARIANTS = ("deflated", "ridge", "simplified", "projection")

INNER: dict[str, Begin] = {"cg": block_conjugate_gradients, "gd": descent}


@dataclass(frozen=True, kw_only=True)
class Ling(IterativeSolver):
    """Projection on leading components and an iteration for the rest (Lu 2015, Algorithms 1 and 5)."""

    preparation: ClassVar[float] = SWEEPS

    rank: int = option(20, "leading components", at_least=1)
    variant: str = option("deflated", "the one that converges, or one of those printed", choices=VARIANTS)
    inner: str = option("cg", "what iterates", choices=tuple(INNER))
    tol: float | None = tol_option(1e-8)
    max_iterations: int = limit_option(1000)
    test_matrix: Any = part("gaussian", "what the randomized SVD multiplies", kind="test-matrix")
    form: str = form_option()

    kept: ClassVar = (*KEPT, PrincipalComponents, Transformed, Printed, Blocks, Descent)
    resumes_after_law: ClassVar = False

    def iterates(self, problem: Any, run: Run, state: Any = None) -> Iterator[NormalIterate]:
        """Yield the iterates that solve a least-squares problem."""
        moments = run.moments(self.form)
        if state is None:
            found = principal_components(moments, self.rank, run.part(self.test_matrix), run)
            norm = float(found.theta[0]) if len(found.theta) else 0.0
            system = replace(System.of(moments, found.AtB, problem.ridges), norm=norm)
        else:
            found, system = state.before, state.system
        begin = self._begin(found)
        if self.variant != "deflated":
            return as_printed(self.variant, run, moments, begin, system, found, state)
        return iterates(run, moments, begin, system, system.separately(), before=found, state=state)

    def prepare(self, A: LinearOperator | Moments, ridge: float, run: Run) -> LeastSquaresState:
        """Compute the components once, and return a state that uses them to solve for many right-hand sides."""
        moments = A if isinstance(A, Moments) else Moments(A, form="implicit")
        begin = self._begin(principal_components(moments, self.rank, run.part(self.test_matrix), run))
        waits = (self.inner, self.variant) != ("gd", "deflated")
        return PreparedNormalEquations(A, ridge, run, begin, self.max_iterations, self.tol, waits=waits)

    def _begin(self, found: PrincipalComponents) -> Begin:
        """Return the function that begins the kernel of the variant for one ridge."""
        if self.variant == "deflated":
            return partial(deflated, found, INNER[self.inner])
        return partial(printed, found, INNER[self.inner], self.variant)


def deflated(found: PrincipalComponents, begin: Begin, system: System, point: Any = None) -> Kernel:
    """Kernel of the variant "deflated", which starts from Q E⁻¹QᵀAᵀT and multiplies by ΠᵀM."""
    deflation = Deflation.of(found, system.ridges[0], system.home)
    start, gradient = system.at_start
    start = start + deflation.along(gradient)
    above = replace(system, start=start, gradient=deflation.back(gradient))
    return transformed(above, deflation, begin, point)


@dataclass(frozen=True)
class Deflation:
    """Π and its transpose for one ridge."""

    Q: Array
    MQ: Array
    E: Array

    @classmethod
    def of(cls, found: PrincipalComponents, ridge: float, home: Home) -> Deflation:
        """Return the deflation of the Ritz vectors Q, for which E = QᵀMQ is diagonal."""
        return cls(found.Q, found.AtAQ + found.Q * ridge, home.place(found.theta + ridge)[:, None])

    def along(self, G: Array) -> Array:
        """Q E⁻¹ Qᵀ G: the step that solves for a gradient within the span of Q."""
        return self.Q @ ((self.Q.T @ G) / self.E)

    def forward(self, V: Array) -> Array:
        """Π V: the block along which the solution x moves if the new variables move along V.

        For the gradient in the new variables it makes no difference whether M multiplies V or Π V, because
        Πᵀ M V = Πᵀ M Π V.
        """
        return self.answer(V)

    def back(self, MV: Array) -> Array:
        """Πᵀ MV for a product MV."""
        return MV - self.MQ @ ((self.Q.T @ MV) / self.E)

    def answer(self, Y: Array) -> Array:
        """Π Y."""
        return Y - self.Q @ ((self.MQ.T @ Y) / self.E)

    @property
    def growth(self) -> float:
        """1, because the gradient is the same in both variables."""
        return 1.0

    def gradient(self, G: Array) -> Array:
        """G unchanged, because it has no part along Q."""
        return G
