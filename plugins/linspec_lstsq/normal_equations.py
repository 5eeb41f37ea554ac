"""The common part of methods on the normal equations: one sweep makes the products with AᵀA for all
iterations.

Problem: (AᵀA + rI) x = AᵀB for a block of right-hand sides and for one or several ridges r.
Method: an iteration is an object that requests a block to be multiplied by AᵀA and receives the product. Its
driver makes the products, and several iterations (such as one for each ridge) share a sweep. The drivers in
this file run iterations to the end, as the solver of a problem or as a part of an outer method.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np

from linspec import LeastSquaresState, LinearOperator, Moments, Run, Solution, Status
from linspec.arrays import Array, Home, HostArray, to_host, to_host_together
from linspec_lstsq.golub_kahan import cross_product, start_of, sweeps_of
from linspec_lstsq.gradients import ROUNDING, column_norms, relative


class Iteration(ABC):
    """An iteration on the normal equations, for a driver that makes its products."""

    growth: float = 1.0
    """How many times larger the rounding of a product may be in the gradient, where it passes other variables."""

    @abstractmethod
    def ask(self) -> Array:
        """The block to multiply by AᵀA next; it has no columns when the iteration is finished."""

    @abstractmethod
    def tell(self, AtAV: Array) -> None:
        """Take the product of the block and make the step."""

    @abstractmethod
    def x(self) -> Array:
        """The iterate, one column for each right-hand side and ridge, ridges outermost."""

    @abstractmethod
    def gradient_norms(self) -> HostArray:
        """‖AᵀB − (AᵀA + rI) x‖ of every column of the iterate."""

    def gradient_squares(self) -> Array:
        """The squares of `gradient_norms` where they lie, if the iteration needs nothing of the host; None: it does."""
        return None

    def state(self) -> dict[str, Any] | None:
        """What the iteration is, for a checkpoint; None: it cannot go on from one."""
        return None


Begin = Callable[["System"], Sequence[Iteration]]
"""From a system to the iterations that solve it, in the order of its ridges."""

Again = Callable[[Mapping[str, Any], Home], Iteration]
"""From what `Iteration.state` told to the iteration."""


@dataclass(frozen=True, kw_only=True, eq=False)
class System:
    """The equations to solve, and where to start.

    Attributes
    ----------
    AtB : array of shape (p, m)
    ridges : tuple of float
    home : Home
        The home of blocks.
    noise : float
        The relative size of a gradient that is rounding of the data and of sums.
    norm : float
        A lower bound of the norm of AᵀA, if one is known.
    start, gradient : array of shape (p, m), or None
        A start x with its gradient AᵀB − (AᵀA + rI) x, for one ridge; None: zero.
    """

    AtB: Array
    ridges: tuple[float, ...]
    home: Home
    noise: float
    norm: float = 0.0
    start: Array = None
    gradient: Array = None

    @classmethod
    def of(cls, moments: Moments, AtB: Array, ridges: tuple[float, ...]) -> System:
        """The system of some moments, from zero."""
        noise = ROUNDING * float(np.finfo(moments.X.dtype).eps)
        return cls(AtB=AtB, ridges=ridges, home=moments.home, noise=noise)

    @property
    def at_start(self) -> tuple[Array, Array]:
        """The start and its gradient."""
        if self.start is None:
            return self.home.zeros(tuple(self.AtB.shape)), self.AtB
        return self.start, self.gradient

    def separately(self) -> list[System]:
        """The systems of each ridge."""
        return [self] if len(self.ridges) == 1 else [replace(self, ridges=(ridge,)) for ridge in self.ridges]

    @cached_property
    def scales(self) -> HostArray:
        """‖AᵀB‖ of every column."""
        return column_norms(self.AtB, self.home)

    @cached_property
    def gradient_gram(self) -> HostArray:
        """The products of the columns of the gradient at the start; `scales` come down in the same transfer."""
        gradient, xp = self.at_start[1], self.home.xp
        with np.errstate(over="ignore"):
            squares = xp.sum(self.AtB * self.AtB, axis=0)
        found, squares = to_host_together(gradient.T @ gradient, squares)
        self.know(squares)
        return found

    def know(self, squares: HostArray, gradient_gram: HostArray | None = None) -> None:
        """Take the squares of `scales`, and `gradient_gram`, which somebody has brought to the host."""
        vars(self).setdefault("scales", column_norms(self.AtB, self.home, squares))
        if gradient_gram is not None:
            vars(self).setdefault("gradient_gram", gradient_gram)

    def wanted(self, x: Array) -> Array:
        """The columns of a start, or of its product with AᵀA; zeros for those whose answer is zero."""
        live = np.tile(self.scales > 0, len(self.ridges)).astype(np.float64)
        return x * self.home.place(live)[None, :]

    def drift(self, norm: float, iterations: Sequence[Iteration]) -> float:
        """The approximate error of updated gradients, relative to AᵀB, for a norm of AᵀA."""
        sizes = [iteration.growth * column_norms(iteration.x(), self.home) for iteration in iterations]
        moved = relative((norm + max(self.ridges)) * np.concatenate(sizes), self.scales)
        return self.noise * float(moved.max(initial=0.0))


def solve_normal_equations(problem: Any, run: Run, begin: Begin, form: str) -> Solution:
    """Run an iteration from zero, or from the start of the run, as the solver of a least-squares problem.

    The product of the start with AᵀA comes from the sweep that makes AᵀB.
    """
    moments = run.moments(form)
    run.plan(setup=moments.setup_cost + moments.sweep_cost, iteration=moments.view(0).sweep_cost)
    x = None if run.start is None else moments.home.place(run.start["x"])
    products = moments.products(x, cross=True)
    AtAx, AtB = products[0], products.cross
    system = System.of(moments, AtB, problem.ridges)
    if x is None:
        return finish(run, moments, system, begin)
    return finish(run, moments, system, begin, system.wanted(x), system.wanted(AtAx))


def go_on(problem: Any, run: Run, moments: Moments, begin: Begin, again: Again) -> Solution:
    """Run the iterations of a checkpoint until the run ends."""
    known: Mapping[str, Any] = run.resumed or {}
    home = moments.home
    system = System.of(moments, home.place(known["AtB"]), problem.ridges)
    iterations = [again(state, home) for state in known["iterations"]]
    return iterated(run, moments, system, begin, iterations, known)


def finish(
    run: Run,
    moments: Moments,
    system: System,
    begin: Begin,
    x: Array | None = None,
    AtAx: Array | None = None,
) -> Solution:
    """Run the iterations of a system, from zero or from x, until the run ends, and return the solution.

    `AtAx` is the product of x, if it is known.

    Rounding makes updated gradients drift from those of the iterate. If the drift may exceed the tolerance, a
    product checks whether the tolerance is met. If it is not, the iteration restarts from its iterate, as
    long as that helps.
    """
    iterations = begin(system) if x is None else _begun_from(x, moments, system, begin, AtAx)
    return iterated(run, moments, system, begin, iterations)


def iterated(
    run: Run,
    moments: Moments,
    system: System,
    begin: Begin,
    iterations: Sequence[Iteration],
    known: Mapping[str, Any] | None = None,
) -> Solution:
    """Run iterations until the run ends; those of a checkpoint with what else it has."""
    seen = np.inf if known is None else known["seen"]
    spectrum = Spectrum(system.home, system.norm)
    if known is not None:
        spectrum.take_up(known["spectrum"])
    while True:
        if iterations[0].state() is not None:
            run.checkpoint(partial(_state, list(iterations), system, seen, spectrum))
        worst = [worst_residual([one], system) for one in iterations]
        residual = max(worst)
        cost = moments.view(0).sweep_cost
        free = cost == 0 and seen == np.inf and spectrum.largest > 0
        met = residual <= run.tol
        doubtful = met and (free or system.drift(spectrum.largest, iterations) > run.tol / 10)
        if doubtful and run.affords(cost):
            iterations = _begun_from(current(iterations, system.home)["x"], moments, system, begin)
            worst = [worst_residual([one], system) for one in iterations]
            residual, before = max(worst), seen
            seen = residual
            if residual > max(run.tol, before / 2):
                run.end(Status.STAGNATED)
        if not run.proceed(residual=residual, current=partial(current, iterations, system.home)):
            x = current(iterations, system.home)["x"]
            least = spectrum.smallest + np.repeat(system.ridges, system.AtB.shape[1])
            return run.finish(x=x, least=least)
        live = [one for one, left in zip(iterations, worst, strict=True) if left > run.tol]
        spectrum.look(*together(live, moments.gram_matmat, system.home))


def _state(
    iterations: Sequence[Iteration], system: System, seen: float, spectrum: Spectrum
) -> dict[str, Any]:
    """What `iterated` goes on with."""
    states = [one.state() for one in iterations]
    return {"AtB": system.AtB, "iterations": states, "seen": seen, "spectrum": spectrum.state()}


class Spectrum:
    """Bounds of the eigenvalues of AᵀA from products: the largest from below, the smallest from above."""

    def __init__(self, home: Home, largest: float) -> None:
        self.home, self.largest = home, largest
        self._least: Array | None = None

    def look(self, V: Array, AtAV: Array) -> None:
        """Add a block and its product."""
        xp = self.home.xp
        squares, quotients = xp.sum(V * V, axis=0), xp.sum(V * AtAV, axis=0)
        live = squares > 0
        quotients = xp.where(live, quotients / xp.where(live, squares, xp.ones_like(squares)), xp.inf)
        if not self.largest:
            before, after = np.sqrt(to_host(squares)), column_norms(AtAV, self.home)
            self.largest = float(np.max(after[before > 0] / before[before > 0], initial=0.0))
        if V.shape[1]:
            least = xp.min(quotients)
            self._least = least if self._least is None else xp.minimum(self._least, least)

    def state(self) -> dict[str, Any]:
        """What it has seen, for a checkpoint."""
        return {"largest": self.largest, "least": self._least}

    def take_up(self, state: Mapping[str, Any]) -> None:
        """Go on with what `state` told."""
        self.largest = state["largest"]
        self._least = None if state["least"] is None else self.home.place(np.asarray(state["least"]))

    @property
    def smallest(self) -> float:
        """The least Rayleigh quotient of the multiplied directions."""
        return np.inf if self._least is None else max(float(to_host(self._least)), 0.0)


def _begun_from(
    x: Array, moments: Moments, system: System, begin: Begin, AtAx: Array | None = None
) -> list[Iteration]:
    """Iterations that start from the current iterates. One product gives the true gradients of all ridges."""
    AtAx, count = moments.gram_matmat(x) if AtAx is None else AtAx, system.AtB.shape[1]
    found: list[Iteration] = []
    for i, ridge in enumerate(system.ridges):
        columns = slice(i * count, (i + 1) * count)
        start = x[:, columns]
        gradient = system.AtB - AtAx[:, columns] - start * ridge
        found.extend(begin(replace(system, ridges=(ridge,), start=start, gradient=gradient)))
    return found


def together(
    iterations: Sequence[Iteration], multiply: Callable[[Array], Array], home: Home
) -> tuple[Array, Array]:
    """One step of each iteration, with one product for all; the blocks side by side, and their products."""
    blocks = [iteration.ask() for iteration in iterations]
    V = home.concat(blocks)
    products = multiply(V)
    edges = np.cumsum([0, *(block.shape[1] for block in blocks)]).tolist()
    for iteration, (a, b) in zip(iterations, pairwise(edges), strict=True):
        iteration.tell(products[:, a:b])
    return V, products


def current(iterations: Sequence[Iteration], home: Home) -> dict[str, Array]:
    """The iterates of all ridges, in the form for `run.finish`."""
    return {"x": home.concat([iteration.x() for iteration in iterations])}


def worst_residual(iterations: Sequence[Iteration], system: System) -> float:
    """The largest relative residual of a column; one with AᵀB = 0 counts only if it is not solved."""
    return float(_residuals(iterations, system).max(initial=0.0))


def largest_finite(residuals: HostArray) -> float:
    """The largest relative residual, of the columns with AᵀB ≠ 0."""
    return float(residuals[np.isfinite(residuals)].max(initial=0.0))


def _residuals(iterations: Sequence[Iteration], system: System) -> HostArray:
    """The relative residuals of all columns; infinite where AᵀB = 0 is not solved."""
    norms = np.concatenate([iteration.gradient_norms() for iteration in iterations])
    return relative(norms, system.scales)


def steps_unseen(
    begin: Begin,
    system: System,
    multiply: Callable[[Array], Array],
    count: int,
    tolerance: Callable[[float], float],
) -> Ahead:
    """Steps of iterations that need nothing of the host, with `gradient_squares`: see `GoAhead`."""
    home, iterations, iterates, squares = system.home, begin(system), [], []
    with np.errstate(over="ignore", invalid="ignore"):
        for step in range(count + 1):
            if step:
                together(iterations, multiply, home)
            iterates.append(current(iterations, home)["x"])
            squares.append(home.concat([one.gradient_squares()[None, :] for one in iterations]))
        scales, *found = to_host_together(home.xp.sum(system.AtB * system.AtB, axis=0), *squares)
        system.know(scales)
        residuals = [relative(np.sqrt(each[0]), system.scales) for each in found]
    tol = tolerance(largest_finite(residuals[0]))
    for step, (x, each) in enumerate(zip(iterates, residuals, strict=True)):
        if each.max(initial=0.0) <= tol:
            return Ahead(x=x, made=step, tol=tol)
    return Ahead(iterations=iterations, made=count, tol=tol)


@dataclass(frozen=True)
class Ahead:
    """What has come of steps that a device has made by itself.

    Attributes
    ----------
    x : array of shape (p, m), or None
        The first iterate within the tolerance.
    iterations : list of Iteration
        What goes on where there is none; empty: they begin at the start.
    made : int
        The steps up to the one or the other.
    tol : float or None
        The tolerance, if the residual at the start is known.
    """

    x: Array = None
    iterations: Sequence[Iteration] = ()
    made: int = 0
    tol: float | None = None


GoAhead = Callable[[System, Callable[[Array], Array], int, Callable[[float], float]], Ahead]
"""From a system with one ridge, products with AᵀA, a number of steps, and the relative residual to stop at from that of
the start."""

MOST_STEPS = 24
"""Steps that a device makes by itself, at most: it keeps a few blocks for each."""

MOST_COLUMNS = 4096
"""With more columns a product that is wasted takes longer than the transfers that are saved: it reads 100 MB."""


class NormalEquationsState(LeastSquaresState):
    """An iteration as a part, prepared for one matrix. It ends at a residual or after a number of steps."""

    def __init__(
        self,
        A: LinearOperator | Moments,
        ridge: float,
        run: Run,
        begin: Begin,
        limit: int,
        tol: float,
        ahead: GoAhead | None = None,
    ) -> None:
        self.A, self.ridge, self.run = A, ridge, run
        self.begin, self.limit, self.tol, self.ahead = begin, limit, tol, ahead
        self._usual = 0  # steps of the last solve
        self.moments = A if isinstance(A, Moments) else Moments(A, form="implicit")

    def solve(
        self,
        B: LinearOperator,
        x0: Array | None = None,
        tol: float | None = None,
        AtB: Array | None = None,
        AtAx0: Array | None = None,
    ) -> Array:
        """See `LeastSquaresState.solve`."""
        moments, home = self.moments, self.moments.home
        beforehand = sweeps_of(moments.X) if AtB is None else 0.0
        beforehand += moments.sweep_cost if x0 is not None and AtAx0 is None else 0.0
        if beforehand and not self.run.affords(beforehand):
            return start_of(moments.X, B, x0)
        if AtB is None:
            AtB = cross_product(self.A, B)
        system = System.of(moments, AtB, (self.ridge,))
        if x0 is not None:
            start = home.place(x0)
            AtAx0 = moments.gram_matmat(start) if AtAx0 is None else AtAx0
            gradient = AtB - AtAx0 - start * self.ridge
            system = replace(system, start=start, gradient=gradient)
        return self._iterated(system, lambda _: self.tol if tol is None else tol)

    def reduce(
        self,
        B: LinearOperator,
        factor: float,
        gradient: Array,
        AtB: Array,
        x0: Array | None = None,
        AtAx0: Array | None = None,
    ) -> Array:
        """See `LeastSquaresState.reduce`. The residual of a start comes with what the iteration begins with."""
        if x0 is None:
            return super().reduce(B, factor, gradient, AtB)
        system = System.of(self.moments, AtB, (self.ridge,))
        system = replace(system, start=self.moments.home.place(x0), gradient=gradient)
        return self._iterated(system, lambda residual: factor * residual)

    def _iterated(self, system: System, tolerance: Callable[[float], float]) -> Array:
        """Iterate from the start of a system to a tolerance that may depend on the residual there.

        It is at least the noise of the system: below, steps follow rounding.
        """
        moments, home = self.moments, system.home

        def floored(residual: float) -> float:
            return max(tolerance(residual), system.noise)

        gone = Ahead()
        if self.ahead is not None and self._may_go_ahead(system):
            count = min(self._usual, self.limit, MOST_STEPS)
            gone = self.ahead(system, moments.gram_matmat, count, floored)
            if gone.x is not None:
                self._usual = max(gone.made, 1)
                return gone.x
            if gone.iterations and gone.made == self.limit:
                return current(gone.iterations, home)["x"]
        iterations = gone.iterations or self.begin(system)
        residuals = _residuals(iterations, system)
        tol = floored(largest_finite(residuals)) if gone.tol is None else gone.tol
        residual = float(residuals.max(initial=0.0))

        def found() -> Array:
            return current(iterations, home)["x"]

        made = gone.made
        while made < self.limit:
            if (
                residual <= tol
                or not self.run.affords(moments.sweep_cost)
                or not self.watched(residual, found)
            ):
                break
            together(iterations, moments.gram_matmat, home)
            made += 1
            if made < self.limit:
                residual = worst_residual(iterations, system)
        self._usual = max(made, 1)
        return found()

    def _may_go_ahead(self, system: System) -> bool:
        """Whether steps cost no sweep, nobody looks at them, and the device would wait for the host."""
        short = self._usual > 0 and system.AtB.shape[0] <= MOST_COLUMNS
        free = self.moments.sweep_cost == 0 and self.watch is None and self.run.affords(0.0)
        return short and free and not system.home.on_host
