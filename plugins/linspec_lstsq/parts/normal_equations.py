"""The common part of methods on the normal equations, as parts of outer methods.

Problem: (AᵀA + rI) x = AᵀB for a block of right-hand sides.
Method: a kernel is a generator, and reads like the paper. It yields its point, with the block V to multiply next, and
receives the product::

    AtAV = yield point

The caller makes the products (prepared.py), or those with AAᵀ for a kernel in other variables (dual.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from linspec import Moments
from linspec.arrays import Array, Home, HostArray, to_host_together
from linspec_lstsq.parts.gradients import ROUNDING, column_norms, relative

LEAST_SHARE = 1e-11
"""Largest direction of right-hand sides, relative to them, that counts as rounding: 5e-14 in centred indicators of 20
classes, 1e-12 in their products with centred sparse columns."""


@dataclass(frozen=True, kw_only=True, eq=False)
class System:
    """The equations (AᵀA + rI) x = AᵀB to solve, and the start.

    Attributes
    ----------
    AtB : array of shape (p, m)
    ridge : float
    home : Home
        The home of blocks.
    noise : float
        Relative gradients up to this size come from the rounding of the data and of sums.
    start, gradient : array of shape (p, m), or None
        A start x with its gradient AᵀB − (AᵀA + rI) x; None: zero.
    """

    AtB: Array
    ridge: float
    home: Home
    noise: float
    start: Array = None
    gradient: Array = None

    @classmethod
    def of(cls, moments: Moments, AtB: Array, ridge: float) -> System:
        """Return the system of the data of `moments`, with start zero."""
        noise = ROUNDING * float(np.finfo(moments.X.dtype).eps)
        return cls(AtB=AtB, ridge=ridge, home=moments.home, noise=noise)

    @property
    def least_share(self) -> float:
        """Share of the right-hand sides below which one of their directions is rounding of whatever made them."""
        return max(self.noise, LEAST_SHARE)

    @property
    def at_start(self) -> tuple[Array, Array]:
        """The start and its gradient."""
        if self.start is None:
            return self.home.zeros(tuple(self.AtB.shape)), self.AtB
        return self.start, self.gradient

    def starting_from(self, x: Array, AtAx: Array) -> System:
        """Return the system with a start x, from its product with AᵀA."""
        return replace(self, start=x, gradient=self.AtB - AtAx - x * self.ridge)

    @cached_property
    def scales(self) -> HostArray:
        """‖AᵀB‖ of every column."""
        return column_norms(self.AtB, self.home)

    @cached_property
    def gradient_gram(self) -> HostArray:
        """GᵀG for the gradient G at the start.

        It is computed on the device and transferred to the host together with `scales`.
        """
        gradient, xp = self.at_start[1], self.home.xp
        with np.errstate(over="ignore"):
            squares = xp.sum(self.AtB * self.AtB, axis=0)
        found, squares = to_host_together(gradient.T @ gradient, squares)
        vars(self).setdefault("scales", column_norms(self.AtB, self.home, squares))
        return found

    def know_norms(self, points: Sequence[Point]) -> None:
        """Transfer ‖AᵀB‖ and the gradient norms of points to the host together."""
        xp, blocks = self.home.xp, [self.AtB, *(point.gradient for point in points)]
        with np.errstate(over="ignore", invalid="ignore"):
            squares, *each = to_host_together(*(xp.sum(V * V, axis=0) for V in blocks))
        vars(self).setdefault("scales", column_norms(self.AtB, self.home, squares))
        for point, own in zip(points, each, strict=True):
            point.known = np.sqrt(own)

    def residual(self, point: Point) -> float:
        """The largest relative residual of a column; infinite where AᵀB = 0 and the gradient is not zero."""
        return float(relative(point.norms, self.scales).max(initial=0.0))


@dataclass(kw_only=True, eq=False)
class Point(ABC):
    """State of a kernel between two products.

    Attributes
    ----------
    home : Home
    known : numpy.ndarray, optional
        The norms of the gradient, if the kernel has them on the host.
    """

    home: Home
    known: HostArray | None = None

    @property
    @abstractmethod
    def V(self) -> Array:
        """The block to multiply by AᵀA next; it has no columns when nothing is left to do."""

    @property
    @abstractmethod
    def x(self) -> Array:
        """The iterate."""

    @property
    @abstractmethod
    def gradient(self) -> Array:
        """AᵀB − (AᵀA + rI) x."""

    @cached_property
    def norms(self) -> HostArray:
        """‖AᵀB − (AᵀA + rI) x‖ of every column."""
        return column_norms(self.gradient, self.home) if self.known is None else self.known


Kernel = Generator[Any, Array, None]
"""Generator that yields points and receives the products of their blocks V with AᵀA."""

Begin = Callable[[System], Kernel]
"""Function that returns the kernel for a system."""


def points(kernel: Kernel, multiply: Callable[[Array], Array]) -> Iterator[Any]:
    """Yield the points of a kernel; `multiply` makes its products."""
    point = next(kernel)
    while True:
        yield point
        point = kernel.send(multiply(point.V))
