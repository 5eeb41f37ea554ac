"""The common part of methods on the normal equations: one sweep makes the products with AᵀA for all kernels.

Problem: (AᵀA + rI) x = AᵀB for a block of right-hand sides and for one or several ridges r.
Method: a kernel is a generator, and reads like the paper. It yields its point, with the block V to multiply next, and
receives the product::

    AtAV = yield point

The caller makes the products. So several kernels, such as one for each ridge, share a sweep, a kernel may run in other
variables, and the same kernel serves as a solver (`iterates`) and as a part of an outer method (prepared.py). A point
has everything that the next step reads, and is never modified: a kernel continues from any given point, so a
checkpoint is a copy of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from linspec import Iterate, Moments, Run, Status
from linspec.arrays import Array, Home, HostArray, to_host_together
from linspec.errors import InvalidFile
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
    ridges : tuple of float
    home : Home
        The home of blocks.
    noise : float
        Relative gradients up to this size come from the rounding of the data and of sums.
    norm : float
        A lower bound of the norm of AᵀA, if one is known.
    start, gradient : array of shape (p, m), or None
        A start x with its gradient AᵀB − (AᵀA + rI) x, for one ridge; None: zero.
    beside : array of shape (p, k), or None
        Columns from which the iteration searches, too, besides those of the gradient.
    """

    AtB: Array
    ridges: tuple[float, ...]
    home: Home
    noise: float
    norm: float = 0.0
    start: Array = None
    gradient: Array = None
    beside: Array = None

    @classmethod
    def of(cls, moments: Moments, AtB: Array, ridges: tuple[float, ...]) -> System:
        """Return the system of the data of `moments`, with start zero."""
        noise = ROUNDING * float(np.finfo(moments.X.dtype).eps)
        return cls(AtB=AtB, ridges=ridges, home=moments.home, noise=noise)

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

    def separately(self) -> list[System]:
        """Return one system for each ridge."""
        return [self] if len(self.ridges) == 1 else [replace(self, ridges=(ridge,)) for ridge in self.ridges]

    def starting_from(self, x: Array, AtAx: Array) -> list[System]:
        """Return one system for each ridge, with the start x of all ridges and its product with AᵀA."""
        m, found = self.AtB.shape[1], []
        for i, one in enumerate(self.separately()):
            start = x[:, i * m : (i + 1) * m]
            gradient = self.AtB - AtAx[:, i * m : (i + 1) * m] - start * one.ridges[0]
            found.append(replace(one, start=start, gradient=gradient))
        return found

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

    def wanted(self, x: Array) -> Array:
        """Return x (a start, or its product with AᵀA) with zeros in the columns whose answer is zero."""
        live = np.tile(self.scales > 0, len(self.ridges)).astype(np.float64)
        return x * self.home.place(live)[None, :]

    def residuals(self, point: Any) -> HostArray:
        """Relative residuals of all columns; infinite where AᵀB = 0 and the gradient is not zero."""
        return relative(point.norms, self.scales)

    def residual(self, point: Any) -> float:
        """The largest relative residual of a column."""
        return float(self.residuals(point).max(initial=0.0))

    def drift(self, norm: float, point: Point) -> float:
        """Estimate of the error of updated gradients relative to ‖AᵀB‖, for a given norm of AᵀA."""
        sizes = (norm + max(self.ridges)) * point.growth * column_norms(point.x, self.home)
        return max(self.noise * float(relative(sizes, self.scales).max(initial=0.0)), point.lost)


# ---- kernels ------------------------------------------------------------------------------------


@dataclass(kw_only=True, eq=False)
class Point(ABC):
    """State of a kernel between two products. It has columns for all right-hand sides and ridges, ridges outermost.

    Attributes
    ----------
    home : Home
    known : numpy.ndarray, optional
        The norms of the gradient, if the kernel has them on the host.
    lost : float
        A bound of the parts of the right-hand sides, relative to them, that were left out at the start.
    """

    home: Home
    known: HostArray | None = None
    lost: float = 0.0

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

    @property
    def growth(self) -> Any:
        """Factor by which the rounding of a product may grow in the gradient.

        It is above 1 only if the kernel iterates in transformed variables.
        """
        return 1.0

    def check(self, shape: tuple[int, int]) -> None:
        """Raise `InvalidFile` if this is not a point of a system whose iterates have the given shape."""
        if not self.V.shape[0] == shape[0] or not tuple(self.x.shape) == tuple(self.gradient.shape) == shape:
            raise InvalidFile(
                f"an iterate of this problem must have the shape {shape}; got {tuple(self.x.shape)}"
            )


Kernel = Generator[Point, Array, None]
"""Generator that yields points and receives the products of their blocks V with AᵀA."""

Begin = Callable[[System, Any], Kernel]
"""Function that returns the kernel for a system, from its start (None) or from a given point."""


def points(kernel: Kernel, multiply: Callable[[Array], Array]) -> Iterator[Any]:
    """Yield the points of a kernel; `multiply` makes its products."""
    point = next(kernel)
    while True:
        yield point
        point = kernel.send(multiply(point.V))


@dataclass(kw_only=True, eq=False)
class SideBySide(Point):
    """The points of several kernels, and the indices of those that continue."""

    each: tuple[Any, ...]
    live: tuple[int, ...]

    @property
    def V(self) -> Array:
        """Blocks of the kernels that continue, side by side."""
        return self.home.concat([self.each[i].V for i in self.live] or [self.each[0].x[:, :0]])

    @property
    def x(self) -> Array:
        """Iterates of all kernels, side by side."""
        return self.home.concat([point.x for point in self.each])

    @property
    def gradient(self) -> Array:
        """Gradients of all kernels, side by side."""
        return self.home.concat([point.gradient for point in self.each])

    @cached_property
    def norms(self) -> HostArray:
        """Norms of the gradients of all kernels."""
        return np.concatenate([point.norms for point in self.each])

    @property
    def growth(self) -> Any:
        """The factor `growth` of every column."""
        return np.repeat([point.growth for point in self.each], len(self.norms) // len(self.each))


def side_by_side(kernels: Sequence[Kernel], system: System, tol: float) -> Kernel:
    """Combine kernels into one, with one product for all; kernels within the tolerance pause."""
    return kernels[0] if len(kernels) == 1 else _side_by_side(kernels, system, tol)


def _side_by_side(kernels: Sequence[Kernel], system: System, tol: float) -> Kernel:
    """Combine two or more kernels, as `side_by_side` describes."""
    each = [next(kernel) for kernel in kernels]
    while True:
        live = tuple(i for i, point in enumerate(each) if system.residual(point) > tol)
        lost = max(point.lost for point in each)
        AtAV = yield SideBySide(home=system.home, each=tuple(each), live=live, lost=lost)
        edges = np.cumsum([0, *(each[i].V.shape[1] for i in live)]).tolist()
        for i, (a, b) in zip(live, pairwise(edges), strict=True):
            each[i] = kernels[i].send(AtAV[:, a:b])


# ---- as a solver --------------------------------------------------------------------------------


@dataclass(kw_only=True, eq=False)
class NormalIterate(Iterate):
    """An iterate of a solver on the normal equations.

    Attributes
    ----------
    point : Point
    system : System
        The system with start zero.
    norm : float
        A lower bound of the norm of AᵀA; 0 before the first product.
    gradient_residual : float
        The residual at the last iterate that a product has checked; infinite before the first check.
    before : object
        Results that the solver computed before its iteration.
    """

    residual: float
    point: Any
    system: System
    norm: float = 0.0
    gradient_residual: float = np.inf
    before: Any = None
    ending: Status | None = None

    def weights(self) -> Mapping[str, Any]:
        """The iterates of all ridges."""
        return {"x": self.point.x}


KEPT = (NormalIterate, System, SideBySide)
"""Classes that a checkpoint of an iterate contains, besides the points of kernels."""


def iterates(
    run: Run,
    moments: Moments,
    begin: Begin,
    system: System,
    parts: Sequence[System] | None = None,
    *,
    before: Any = None,
    state: Any = None,
) -> Iterator[NormalIterate]:
    """Yield the iterates of kernels that solve a system or its parts, or that continue from a state.

    Kernels update their gradients, and rounding makes these drift from the gradients of the iterates. If an updated
    gradient meets the tolerance, but the drift may exceed a tenth of the tolerance, a product computes the gradient,
    and the kernels begin anew at their iterate. If products cost no sweep, the first gradient that meets the tolerance
    is computed in any case. It is, too, after random columns: few steps with wide blocks lose digits of the ridges of a
    path that the drift does not show. If the computed residual is above the tolerance and above half of the
    residual computed last, the run ends as STAGNATED.
    """
    A, new = moments.view(0), state is None
    cost = A.cost.sweep
    if state is None:
        norm, seen = system.norm, np.inf
        kernel = side_by_side([begin(one, None) for one in parts or [system]], system, run.tol)
    else:
        norm, seen = state.norm, state.gradient_residual
        kernel = again(state, begin, run.tol)
    point = next(kernel)
    if state is not None:
        point.check((system.AtB.shape[0], system.AtB.shape[1] * len(system.ridges)))
    while True:
        residual, ending = system.residual(point), None
        free = cost == 0 and seen == np.inf and norm > 0
        doubtful = residual <= run.tol and (
            free or system.beside is not None or system.drift(norm, point) > run.tol / 10
        )
        if new and doubtful and run.budget.affords(cost):
            parts = system.starting_from(point.x, moments.gram(point.x))
            kernel = side_by_side([begin(one, None) for one in parts], system, run.tol)
            point, last = next(kernel), seen
            residual = seen = system.residual(point)
            if residual > max(run.tol, last / 2):
                ending = Status.STAGNATED
        yield NormalIterate(
            residual=residual, point=point, system=system, norm=norm, gradient_residual=seen, before=before,
            ending=ending,
        )  # fmt: skip
        AtAV = A.gram(point.V)
        norm, new = norm or _stretch(point.V, AtAV, system.home), True
        point = kernel.send(AtAV)


def _stretch(V: Array, AtAV: Array, home: Home) -> float:
    """The largest ‖AᵀAv‖/‖v‖ of the columns of a block; 0 for none."""
    before, after = column_norms(V, home), column_norms(AtAV, home)
    return float(np.max(after[before > 0] / before[before > 0], initial=0.0))


def again(state: NormalIterate, begin: Begin, tol: float) -> Kernel:
    """Return a kernel that continues from the point of a state; several kernels are combined side by side."""
    system, point = state.system, state.point
    if not isinstance(point, SideBySide):
        return begin(system, point)
    parts = zip(system.separately(), point.each, strict=True)
    return side_by_side([begin(*one) for one in parts], system, tol)
