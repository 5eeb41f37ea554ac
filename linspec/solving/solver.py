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

Where we differ: a solver judges no answer and keeps no state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from linspec import cost
from linspec.registry import options
from linspec.solving.run import Run
from linspec.solving.solution import Solution


@dataclass(frozen=True, kw_only=True)
class Solver(ABC):
    """A method for one problem: a frozen, keyword-only dataclass whose fields are its options.

    `solve` receives the problem, whose matrices are operators that count their products, and the run. It returns the
    result of `run.finish(...)` unchanged: nothing else is accepted. It never changes its input and draws random
    numbers from `run.rng` alone.

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
