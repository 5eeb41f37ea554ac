"""The base class of solvers: a frozen dataclass of options with the one method `solve`.

Problem: a method should be its own mathematics and nothing else. What all methods share (counts, budgets, interrupts,
certificates) should be written once.
Method: a solver is handed the problem and a `Run`, and returns what ``run.finish(...)`` made. Its fields are its
options, with their bounds beside them. The simplest solver there is, in full::

    @dataclass(frozen=True, kw_only=True)
    class Richardson(Solver):
        step: float = option(1e-3, "step length", above=0)
        tol: float | None = option(None, "residual to stop at", kind=float, above=0)

        def solve(self, problem, run):
            moments = run.moments()
            x = moments.home.zeros((problem.A.shape[1], problem.B.shape[1]))
            AtAx, AtB, _, _ = moments.products(x, moments.home.eye(problem.B.shape[1]))
            gradient = AtB
            while run.proceed(residual=relative(gradient, AtB), current=lambda: dict(x=x)):
                x = x + self.step * gradient
                gradient = AtB - moments.gram(x) - problem.ridge * x
            return run.finish(x=x)

Where we differ: a solver judges no answer and keeps no state. Outer methods solve with one matrix again and again: the
preparation for that is an object of its own, a `LeastSquaresState`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from linspec import cost
from linspec.arrays import Array, namespace, to_host
from linspec.operators import LinearOperator
from linspec.registry import options
from linspec.solving.run import Run
from linspec.solving.solution import Solution


@dataclass(frozen=True, kw_only=True)
class Solver(ABC):
    """A method for one problem: a frozen, keyword-only dataclass whose fields are its options.

    `solve` receives the problem, whose matrices are operators that count their products, and the run. It returns the
    result of `run.finish(...)` unchanged: nothing else is accepted. It never changes its input and draws random
    numbers from `run.rng` alone.

    Attributes
    ----------
    preparation : float
        The number of sweeps that one call of `prepare` makes, for least-squares solvers that have this method (see
        `LeastSquaresState`).

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Landweber(ls.Solver):
    ...     step: float = ls.option(0.01, "step length", above=0)
    ...     tol: float | None = ls.tol_option()
    ...     def solve(self, problem, run):
    ...         moments = run.moments()
    ...         AtB = moments.cross()
    ...         x, g = 0 * AtB, AtB
    ...         while run.proceed(residual=np.linalg.norm(g) / np.linalg.norm(AtB), current=lambda: {"x": x}):
    ...             x = x + self.step * g
    ...             g = AtB - moments.gram(x) - problem.ridge * x
    ...         return run.finish(x=x)
    >>> A = np.random.default_rng(0).standard_normal((50, 3))
    >>> ls.solve(ls.LeastSquares(A, A @ np.ones(3)), Landweber(tol=1e-8)).x.round(6)
    array([1., 1., 1.])
    """

    preparation: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        options.validate(self)

    @abstractmethod
    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve `problem` within `run`."""

    @classmethod
    def estimate(cls, sizes: cost.Sizes) -> cost.Estimate | None:
        """Estimate time and memory for a problem of these sizes; None: "auto" must not choose the solver for them.

        A solver that defines this has the trait "automatic" in its record: "auto" imports no others.
        """
        return None

    @classmethod
    def has_estimate(cls) -> bool:
        """Whether the class, or one that it derives from, defines `estimate`."""
        return getattr(cls.estimate, "__func__", None) is not Solver.estimate.__func__  # type: ignore[attr-defined]


def _x(iterate: Any) -> Any:
    """The x of an iterate."""
    return iterate.weights()["x"]


Watch = Callable[[float, Callable[[], Array]], bool]
"""Takes a relative residual and a function that returns the iterate; returns whether to go on."""


class LeastSquaresState(ABC):
    """A least-squares solver prepared for one matrix and many right-hand sides.

    Least-squares solvers that can be parts of outer methods define ``prepare(self, A, ridge, run)`` and
    return one of these. `A` is a `LinearOperator` of shape (n, p), centred if the outer method centres, or the
    `Moments` of one view, which may hold its Gram matrix and include the centring. Its sweeps are on the account of
    `run`, which is the run of the outer method. If the budget of that run has no passes left, a state returns its
    current iterate: `driven` does this for iterations.

    Attributes
    ----------
    run : Run
        That of the outer method, to be set by states that call `driven`.
    watch : callable or None
        Set by an outer method that observes, and may end, the iteration: called with the relative residual and a
        function that returns the iterate, it returns whether to go on. Iterations call `watched` before each step.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> class Exact(ls.LeastSquaresState):
    ...     def __init__(self, A, ridge):
    ...         self.moments, self.ridge = ls.Moments(A), ridge
    ...     def solve(self, B, x0=None, tol=None, AtB=None, AtAx0=None):
    ...         unit = np.eye(self.moments.X.shape[1])
    ...         return np.linalg.solve(self.moments.gram(unit) + self.ridge * unit, AtB)
    >>> A = np.random.default_rng(0).standard_normal((50, 3))
    >>> state = Exact(A, 0.0)
    >>> state.solve(None, AtB=A.T @ A @ np.ones((3, 1))).round(6)
    array([[1.],
           [1.],
           [1.]])
    """

    run: Run
    watch: Watch | None = None

    def driven(
        self,
        iterates: Iterator[Any],
        start: Callable[[], Array],
        *,
        tol: float,
        limit: int,
        relative: bool = False,
    ) -> Array:
        """The x of the first iterate within a tolerance, or of the last that limit, budget and outer method allow.

        Parameters
        ----------
        iterates : iterator of Iterate
            With an "x" among their weights; a generator, as `IterativeSolver.iterates` returns it. An `ending` of an
            iterate ends the loop.
        start : callable
            Returns the answer where the budget has no passes for an iterate, of shape (p, m).
        tol : float
        limit : int
            The most steps.
        relative : bool, default False
            Whether `tol` is a fraction of the residual of the first iterate.
        """
        last = None
        with np.errstate(all="ignore"):  # what is not finite shows in residuals
            for made, iterate in enumerate(self.run.budget.affordable(iterates)):
                last = iterate
                if relative and made == 0:
                    tol = tol * iterate.residual
                if iterate.residual <= tol or iterate.ending is not None or made == limit:
                    break
                if not self.watched(iterate.residual, partial(_x, iterate)):
                    break
        return start() if last is None else _x(last)

    def watched(self, residual: float, x: Callable[[], Array]) -> bool:
        """Whether the outer method lets the iteration go on."""
        return self.watch is None or self.watch(residual, x)

    @abstractmethod
    def solve(
        self,
        B: LinearOperator,
        x0: Array | None = None,
        tol: float | None = None,
        AtB: Array | None = None,
        AtAx0: Array | None = None,
    ) -> Array:
        """Compute argmin ‖A x − B‖² + ridge ‖x‖², without validation and without a certificate.

        Parameters
        ----------
        B : LinearOperator of shape (n, m)
            May be a product that is never formed.
        x0 : array of shape (p, m), optional
            Where to start.
        tol : float, optional
            Relative residual to stop at; None: the solver's own.
        AtB : array of shape (p, m), optional
            AᵀB, if the caller has it already; it saves a sweep.
        AtAx0 : array of shape (p, m), optional
            AᵀA x0, if the caller has it already; it may save another sweep.

        Returns
        -------
        array of shape (p, m), float64
        """

    def reduce(
        self,
        B: LinearOperator,
        factor: float,
        gradient: Array,
        AtB: Array,
        x0: Array | None = None,
        AtAx0: Array | None = None,
    ) -> Array:
        """Solve as `solve` does, until the relative residual is `factor` times the relative residual of `gradient`.

        The relative residual of a gradient is the largest ratio of the norm of one of its columns to the norm of the
        same column of AᵀB.

        Parameters
        ----------
        B, AtB, x0, AtAx0
            As for `solve`.
        factor : float
            The wanted ratio of the two relative residuals.
        gradient : array of shape (p, m)
            AᵀB − (AᵀA + ridge I) x for an earlier iterate x, which is `x0` if `x0` is passed.

        Returns
        -------
        array of shape (p, m), float64
        """
        blocks, xp = (gradient, AtB), namespace(gradient)
        squares = to_host(xp.stack([xp.sum(V * V, axis=0) for V in blocks]))
        live = squares[1] > 0
        residual = float(np.sqrt(squares[0][live] / squares[1][live]).max(initial=0.0))
        return self.solve(B, x0, factor * residual, AtB, AtAx0)
