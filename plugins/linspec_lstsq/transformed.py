"""Kernels in other variables, for preconditioning and deflation.

Problem: M x = b, M = AᵀA + rI, while the iteration itself uses only products.
Method: a transform maps blocks of the new variables to blocks of the old ones, and products back. It also gives x and
its gradient. The kernel is the same, on the transformed products.
Source: split preconditioning and deflation as in Saad 2003, Iterative Methods for Sparse Linear Systems, 9.2 and
Frank & Vuik 2001, doi:10.1137/S1064827500373231.
"""

from __future__ import annotations

from dataclasses import InitVar, dataclass, replace
from typing import Any, Protocol

from linspec.arrays import Array
from linspec_lstsq.normal_equations import Begin, Kernel, Point, System


class Transform(Protocol):
    """New variables for one ridge."""

    @property
    def growth(self) -> float:
        """How many times the way back to the old variables enlarges the rounding of a gradient in the new ones."""

    def forward(self, V: Array) -> Array:
        """A block of the new variables in the old ones, which M multiplies."""

    def back(self, MV: Array) -> Array:
        """A product with M, or a right-hand side, in the new variables."""

    def answer(self, Y: Array) -> Array:
        """The correction of the start by a solution in the new variables."""

    def gradient(self, G: Array) -> Array:
        """A gradient in the old variables, from one in the new variables."""


@dataclass(kw_only=True, eq=False)
class Transformed(Point):
    """Where a kernel in new variables is: its start in the old ones, and its point in the new ones.

    The transform, and the block in the old variables, are made anew from a copy.
    """

    start: Array
    inner: Any
    transform: InitVar[Transform]
    block: InitVar[Array]

    def __post_init__(self, transform: Transform, block: Array) -> None:
        self._transform, self._block = transform, block

    @property
    def V(self) -> Array:
        """The block of the kernel."""
        return self._block

    @property
    def x(self) -> Array:
        """The corrected start."""
        return self.start + self._transform.answer(self.inner.x)

    @property
    def gradient(self) -> Array:
        """The gradient in the old variables."""
        return self._transform.gradient(self.inner.gradient)

    @property
    def growth(self) -> float:
        """That of the transform."""
        return float(self._transform.growth)


def transformed(system: System, transform: Transform, begin: Begin, point: Any = None) -> Kernel:
    """A kernel in the new variables of a system with one ridge."""
    (r,) = system.ridges
    new = replace(system, AtB=transform.back(system.AtB), ridges=(0.0,), start=None, gradient=None)
    start, gradient = system.at_start
    if point is not None:
        start = point.start
    elif system.start is not None:
        back = transform.back(gradient)
        new = replace(new, start=system.home.zeros(tuple(back.shape)), gradient=back)
    kernel = begin(new, None if point is None else point.inner)
    inner = next(kernel)
    while True:
        V = transform.forward(inner.V)
        AtAV = yield Transformed(home=system.home, start=start, block=V, inner=inner, transform=transform)
        inner = kernel.send(transform.back(AtAV + V * r))
