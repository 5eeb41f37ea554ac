"""LING: a few leading principal components by projection, the rest by an iteration that they no longer slow down.

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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from linspec import (
    LeastSquaresState,
    LinearOperator,
    Moments,
    Run,
    Solution,
    Solver,
    Status,
    form_option,
    limit_option,
    option,
    part,
    tol_option,
)
from linspec.arrays import Array, Home, HostArray
from linspec_lstsq.block_conjugate_gradients import BlockConjugateGradients
from linspec_lstsq.gradient_descent import Descent
from linspec_lstsq.gradients import column_norms
from linspec_lstsq.normal_equations import (
    Iteration,
    NormalEquationsState,
    System,
    current,
    finish,
    steps_unseen,
    together,
    worst_residual,
)
from linspec_lstsq.principal_components import SWEEPS, PrincipalComponents, principal_components
from linspec_lstsq.transformed import Transformed

VARIANTS = ("deflated", "ridge", "simplified", "projection")

INNER: dict[str, type[BlockConjugateGradients | Descent]] = {"cg": BlockConjugateGradients, "gd": Descent}


@dataclass(frozen=True, kw_only=True)
class Ling(Solver):
    """Projection on leading components and an iteration for the rest (Lu 2015, Algorithms 1 and 5)."""

    preparation: ClassVar[float] = SWEEPS

    rank: int = option(20, "leading components", at_least=1)
    variant: str = option("deflated", "the one that converges, or one of those printed", choices=VARIANTS)
    inner: str = option("cg", "what iterates", choices=tuple(INNER))
    tol: float | None = tol_option(1e-8)
    max_iterations: int = limit_option(1000)
    test_matrix: Any = part("gaussian", "what the randomized SVD multiplies", kind="test-matrix")
    form: str = form_option()

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a least-squares problem."""
        moments = run.moments(self.form)
        sweep = moments.sweep_cost
        run.plan(setup=moments.setup_cost + SWEEPS * sweep, iteration=moments.view(0).sweep_cost)
        found = principal_components(moments, self.rank, run.part(self.test_matrix), run)
        system = System.of(moments, found.AtB, problem.ridges)
        if self.variant == "deflated":
            norm = float(found.theta[0]) if len(found.theta) else 0.0
            return finish(run, moments, replace(system, norm=norm), partial(self._deflated, found))
        return self._as_printed(run, moments, system, found)

    def prepare(self, A: LinearOperator | Moments, ridge: float, run: Run) -> LeastSquaresState:
        """Find the components once for many right-hand sides."""
        moments = A if isinstance(A, Moments) else Moments(A, form="implicit")
        found = principal_components(moments, self.rank, run.part(self.test_matrix), run)
        begin = self._deflated if self.variant == "deflated" else self._printed(moments)
        tol = 1e-8 if self.tol is None else self.tol
        begun = partial(begin, found)
        ahead = partial(steps_unseen, begun) if (self.inner, self.variant) == ("gd", "deflated") else None
        return NormalEquationsState(A, ridge, run, begun, self.max_iterations, tol, ahead)

    def _deflated(self, found: PrincipalComponents, system: System) -> Sequence[Iteration]:
        """The variant that converges, one iteration for each ridge."""
        kind = INNER[self.inner]
        iterations = []
        for one in system.separately():
            deflation = Deflation.of(found, one.ridges[0], system.home)
            start, gradient = one.at_start
            above = replace(one, start=start + deflation.along(gradient), gradient=deflation.back(gradient))
            iterations.append(Transformed(above, deflation, kind))
        return iterations

    def _printed(self, moments: Moments) -> Any:
        """The function that begins a printed variant."""
        home = moments.home

        def begin(found: PrincipalComponents, system: System) -> Sequence[Iteration]:
            return [Printed(self, found, one, home) for one in system.separately()]

        return begin

    def _as_printed(self, run: Run, moments: Moments, system: System, found: PrincipalComponents) -> Solution:
        """Run until the second stage has converged. It does not reduce the rest of the full problem's residual."""
        iterations = self._printed(moments)(found, system)
        iterate = partial(current, iterations, system.home)
        text = f"variant {self.variant!r} does not correct errors of its components; variant 'deflated' converges to "
        text += "the solution."
        run.note(Status.APPROXIMATE, text)
        while True:
            if all(one.settled(run.tol) for one in iterations):
                run.end(Status.CONVERGED)
            if not run.proceed(residual=worst_residual(iterations, system), current=iterate):
                return run.finish(**iterate())
            together(iterations, moments.gram_matmat, system.home)


@dataclass(frozen=True)
class Deflation:
    """Π and its transpose for one ridge."""

    Q: Array
    MQ: Array
    E: Array

    @classmethod
    def of(cls, found: PrincipalComponents, ridge: float, home: Home) -> Deflation:
        """M-conjugate to the Ritz vectors; QᵀMQ is diagonal, because they are Ritz vectors."""
        return cls(found.Q, found.AtAQ + found.Q * ridge, home.place(found.theta + ridge)[:, None])

    def along(self, G: Array) -> Array:
        """Q E⁻¹ Qᵀ G: the step that solves for a gradient within the span of Q."""
        return self.Q @ ((self.Q.T @ G) / self.E)

    def forward(self, V: Array) -> Array:
        """Π V: Πᵀ M V would be the same, but x moves along Π V."""
        return self.answer(V)

    def back(self, MV: Array) -> Array:
        """Πᵀ of a product."""
        return MV - self.MQ @ ((self.Q.T @ MV) / self.E)

    def answer(self, Y: Array) -> Array:
        """Π Y."""
        return Y - self.Q @ ((self.MQ.T @ Y) / self.E)

    @property
    def growth(self) -> float:
        """1: the gradient is the same."""
        return 1.0

    def gradient(self, G: Array) -> Array:
        """The same gradient, because it has no part along Q."""
        return G


class Printed(Iteration):
    """The second stage of a printed variant, and the coefficients of both.

    If the start is not zero, it solves for the correction.
    """

    def __init__(self, solver: Ling, found: PrincipalComponents, system: System, home: Home) -> None:
        (self.ridge,) = system.ridges
        self.home, self.found, self.variant = home, found, solver.variant
        self.start, gradient = system.at_start
        self.d = home.place(found.d)[:, None]
        gamma = found.Z.T @ gradient
        shrink = self.d**2 / (self.d**2 + self.ridge) if solver.variant == "ridge" else 1.0
        self.first = gamma * shrink
        rest = gradient - found.V @ (self.d * gamma)
        # The tolerance is relative to the full gradient: parts that the components have removed are only rounding.
        second = replace(system, AtB=gradient, start=home.zeros(tuple(rest.shape)), gradient=rest)
        self.scales = second.scales
        self.inner = INNER[solver.inner](second)
        self.unsolved = found.V @ (self.d * (gamma - self.first))  # the part of AᵀT that shrinking leaves
        self._asked: Array = None

    def ask(self) -> Array:
        """The directions of the second stage."""
        self._asked = self.inner.ask()
        return self._asked

    def tell(self, AtAV: Array) -> None:
        """A step of the second stage."""
        if self.variant != "projection":
            AtAV = AtAV - self.found.V @ (self.d**2 * (self.found.V.T @ self._asked))
        self.inner.tell(AtAV)

    def settled(self, tol: float) -> bool:
        """Whether the second stage has converged."""
        return bool((self.inner.gradient_norms() <= tol * self.scales).all())

    def x(self) -> Array:
        """Coefficients with the predictions of the variant."""
        gamma = self.inner.x()
        first = self.first
        if self.variant != "projection":
            first = first - self.d * (self.found.V.T @ gamma)
        return self.start + self.found.Z @ first + gamma

    def gradient_norms(self) -> HostArray:
        """Gradient norms of the full problem, computed from the gradient of the second stage."""
        step = self.x() - self.start
        full = self.unsolved + self.inner.gradient() + (self.inner.x() - step) * self.ridge
        return column_norms(full, self.home)
