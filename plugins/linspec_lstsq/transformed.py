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
    """A change of variables for one ridge."""

    @property
    def growth(self) -> float:
        """Factor by which the rounding of a gradient in the new variables may grow on the way to the old variables."""

    def forward(self, V: Array) -> Array:
        """Map a block to the old variables, in which M multiplies it."""

    def back(self, MV: Array) -> Array:
        """Map a product with M, or a right-hand side, to the new variables."""

    def answer(self, Y: Array) -> Array:
        """Map a solution in the new variables to the correction of the start in the old ones."""

    def gradient(self, G: Array) -> Array:
        """Map a gradient in the new variables to the old ones."""


@dataclass(kw_only=True, eq=False)
class Transformed(Point):
    """Point of a kernel in new variables: its start in the old variables, and its inner point in the new variables.

    A checkpoint has neither the transform nor the block in the old variables; both are made again.
    """

    start: Array
    inner: Any
    transform: InitVar[Transform]
    block: InitVar[Array]

    def __post_init__(self, transform: Transform, block: Array) -> None:
        self._transform, self._block = transform, block

    @property
    def V(self) -> Array:
        """The block of the kernel, in the old variables."""
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
        """Factor by which rounding of a gradient may grow on the way to the old variables: see `Transform.growth`."""
        return float(self._transform.growth)


def transformed(system: System, transform: Transform, begin: Begin, point: Any = None) -> Kernel:
    """Kernel that solves a system with one ridge in the new variables."""
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
