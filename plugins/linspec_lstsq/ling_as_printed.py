"""LING as printed: the second stage of ling.py solves for what the first one leaves, and never corrects it.

Problem: coefficients with the predictions ŷ = Uγ₁ + A_r γ₂ of Lu (2015), Algorithm 1, or ŷ = Uγ₁ + Aγ₂ of Algorithm 5.
Method: γ₁ = UᵀT = ZᵀAᵀT, which `variant="ridge"` shrinks by d²/(d² + r), and γ₂ by the inner kernel from the gradient
AᵀT − V d γ₁, with products by A_rᵀA_r = AᵀA − V d² Vᵀ. The coefficients are x = Z (γ₁ − d Vᵀγ₂) + γ₂.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import InitVar, dataclass, replace
from typing import Any

from linspec import Moments, Run, Status
from linspec.arrays import Array
from linspec_lstsq.normal_equations import (
    Begin,
    Kernel,
    NormalIterate,
    Point,
    System,
    again,
    points,
    side_by_side,
)
from linspec_lstsq.principal_components import PrincipalComponents


@dataclass(frozen=True)
class FirstStage:
    """Results of the projection on the components, and the system of the second stage.

    Attributes
    ----------
    start : array of shape (p, m)
        The start; both stages solve for its correction.
    projected : array of shape (k, m)
        γ₁ for each column of T, shrunk in the variant "ridge".
    unsolved : array of shape (p, m)
        V d times the part of γ₁ that shrinking has removed, which remains in the gradient.
    rest : System
        The system of the second stage.
    """

    found: PrincipalComponents
    ridge: float
    d: Array
    corrected: bool
    start: Array
    projected: Array
    unsolved: Array
    rest: System

    @classmethod
    def of(cls, found: PrincipalComponents, variant: str, system: System) -> FirstStage:
        """Compute γ₁ = UᵀT = ZᵀAᵀT and the gradient of T − Uγ₁."""
        (r,), home = system.ridges, system.home
        start, gradient = system.at_start
        d = home.place(found.d)[:, None]
        gamma = found.Z.T @ gradient  # γ₁ = UᵀT
        projected = gamma * (d**2 / (d**2 + r) if variant == "ridge" else 1.0)
        rest = gradient - found.V @ (d * gamma)
        # The tolerance is relative to the full gradient: parts that the components have removed are only rounding.
        rest = replace(system, AtB=gradient, start=home.zeros(tuple(rest.shape)), gradient=rest)
        unsolved = found.V @ (d * (gamma - projected))
        return cls(found, r, d, variant != "projection", start, projected, unsolved, rest)

    def removed(self, V: Array, AtAV: Array) -> Array:
        """A_rᵀA_r V from AᵀA V; in Algorithm 5, AᵀA V itself."""
        if not self.corrected:
            return AtAV
        return AtAV - self.found.V @ (self.d**2 * (self.found.V.T @ V))

    def coefficients(self, gamma: Array) -> Array:
        """Coefficients with the predictions of the variant, Uγ₁ + A_r γ₂ or Uγ₁ + Aγ₂."""
        projected = self.projected
        if self.corrected:
            projected = projected - self.d * (self.found.V.T @ gamma)
        return self.start + self.found.Z @ projected + gamma


@dataclass(kw_only=True, eq=False)
class Printed(Point):
    """Point of the second stage of a printed variant, in terms of the full problem."""

    inner: Any
    first: InitVar[FirstStage]

    def __post_init__(self, first: FirstStage) -> None:
        self._first = first

    @property
    def V(self) -> Array:
        """The block of the second stage."""
        return self.inner.V

    @property
    def x(self) -> Array:
        """Coefficients of both stages together: those of the first stage corrected by those of the second."""
        return self._first.coefficients(self.inner.x)

    @property
    def gradient(self) -> Array:
        """Gradient of the full problem, from that of the second stage."""
        first, gamma = self._first, self.inner.x
        step = self.x - first.start
        return first.unsolved + self.inner.gradient + (gamma - step) * first.ridge

    def settled(self, tol: float) -> bool:
        """Whether the second stage has converged."""
        return bool((self.inner.norms <= tol * self._first.rest.scales).all())


def printed(
    found: PrincipalComponents, begin: Begin, variant: str, system: System, point: Any = None
) -> Kernel:
    """Kernel of a printed variant: project on the components, then iterate on the system of the second stage."""
    first = FirstStage.of(found, variant, system)
    kernel = begin(first.rest, None if point is None else point.inner)
    inner = next(kernel)
    while True:
        AtAV = yield Printed(home=system.home, inner=inner, first=first)
        inner = kernel.send(first.removed(inner.V, AtAV))


def as_printed(
    variant: str, run: Run, moments: Moments, begin: Begin, system: System, found: Any, state: Any
) -> Iterator[NormalIterate]:
    """Yield iterates until the second stage has converged; the residual of the full problem may stay large."""
    text = f"variant {variant!r} does not correct errors of its components; variant 'deflated' converges to "
    run.note(Status.APPROXIMATE, text + "the solution.")
    everyone = -1.0  # no kernel waits for others
    if state is None:
        kernel = side_by_side([begin(one, None) for one in system.separately()], system, everyone)
    else:
        kernel = again(state, begin, everyone)
    for point in points(kernel, moments.gram):
        each = point.each if len(system.ridges) > 1 else [point]
        ending = Status.CONVERGED if all(one.settled(run.tol) for one in each) else None
        yield NormalIterate(
            residual=system.residual(point), point=point, system=system, before=found, ending=ending
        )
