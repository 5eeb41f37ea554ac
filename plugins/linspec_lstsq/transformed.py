"""Conjugate gradients in other variables, for preconditioning and deflation.

Problem: M x = b, M = AᵀA + rI, while the iteration itself uses only products.
Method: a transform maps blocks of the new variables to blocks of the old ones, and products back. It also gives x and
its gradient. The iteration is the same block conjugate gradients, on the transformed products.
Source: split preconditioning and deflation as in Saad 2003, Iterative Methods for Sparse Linear Systems, 9.2 and
Frank & Vuik 2001, doi:10.1137/S1064827500373231.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from linspec.arrays import Array, HostArray
from linspec_lstsq.block_conjugate_gradients import BlockConjugateGradients
from linspec_lstsq.gradient_descent import Descent
from linspec_lstsq.gradients import column_norms
from linspec_lstsq.normal_equations import Iteration, System


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


class Transformed(Iteration):
    """Block conjugate gradients in new variables.

    Parameters
    ----------
    system : System
        A system with one ridge.
    transform : Transform
    kind : type, default BlockConjugateGradients
        The iteration that runs in the new variables.
    """

    def __init__(
        self,
        system: System,
        transform: Transform,
        kind: type[BlockConjugateGradients | Descent] = BlockConjugateGradients,
    ) -> None:
        (self.ridge,) = system.ridges
        self.transform, self.home, self.growth = transform, system.home, transform.growth
        self.start, gradient = system.at_start
        AtB = gradient if system.start is None else system.AtB
        new = replace(system, AtB=transform.back(AtB), ridges=(0.0,), start=None, gradient=None)
        if system.start is not None:
            back = transform.back(gradient)
            new = replace(new, start=system.home.zeros(tuple(back.shape)), gradient=back)
        self.inner = kind(new)
        self._asked: Array = None

    def ask(self) -> Array:
        """The directions, in the old variables."""
        self._asked = self.transform.forward(self.inner.ask())
        return self._asked

    def tell(self, AtAV: Array) -> None:
        """The step."""
        self.inner.tell(self.transform.back(AtAV + self._asked * self.ridge))

    def x(self) -> Array:
        """The iterate."""
        return self.start + self.transform.answer(self.inner.x())

    def gradient_norms(self) -> HostArray:
        """The norms of the gradients in the old variables."""
        return column_norms(self.transform.gradient(self.inner.gradient()), self.home)

    def gradient_squares(self) -> Array:
        """Their squares, if the iteration in the new variables needs nothing of the host."""
        if self.inner.gradient_squares() is None:
            return None
        gradient = self.transform.gradient(self.inner.gradient())
        return self.home.xp.sum(gradient * gradient, axis=0)
