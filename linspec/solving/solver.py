"""The base class of solvers: a frozen dataclass of options with the one method `iterate`.

Problem: a method should be its own mathematics and nothing else. What all methods share (counts, budgets, interrupts,
certificates) should be written once.
Method: a solver yields iterates: some arrays, and its own residual of them. It asks the moments of the rows for
products. `linspec.iteration` is the loop around it. Its fields are its options, with their bounds beside them.
Where we differ: a solver judges no answer and keeps no state.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from linspec import cost, iteration
from linspec.arrays import Array, HostArray
from linspec.registry import options
from linspec.rows import Moments


@dataclass(frozen=True, kw_only=True)
class Solver(ABC):
    """A solver on rows in blocks: a frozen dataclass of options with the one method `iterate`.

    Where another solver has it as a part, its iterates are taken until one is within the tolerance.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from dataclasses import dataclass
    >>> from linspec.iteration import Iterate
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Eigenvectors(ls.Solver):
    ...     def iterate(self, problem, moments, context, start):
    ...         V = np.linalg.eigh(moments.gram()[0][0])[1][:, ::-1]
    ...         yield Iterate(0.0, lambda: {"Vh": V[:, : problem.k].T}, final=True)
    >>> ls.solve(ls.SVD(np.diag([3.0, 2.0]), k=1), Eigenvectors()).S
    array([3.])
    """

    max_iterations = math.inf

    def __post_init__(self) -> None:
        options.validate(self)

    @abstractmethod
    def iterate(
        self,
        problem: Any,
        moments: Moments,
        context: iteration.Context,
        start: Mapping[str, HostArray] | None,
    ) -> Iterator[iteration.Iterate]:
        """Yield iterates; the first one as soon as there is one.

        Parameters
        ----------
        problem : Problem
        moments : Moments
        context : Context
        start : mapping of str to numpy.ndarray, or None
            Arrays of an earlier answer or run.
        """

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

    def answered(self, problem: Any, moments: Moments, context: iteration.Context) -> Mapping[str, Array]:
        """The arrays of the first iterate within the tolerance, as a part of another solver, which judges them.

        Parameters
        ----------
        problem : object
            With `k`, and what else the solver asks of it.
        moments : Moments
        context : Context
            Its tolerance serves if the solver has none of its own.
        """
        tol = getattr(self, "tol", None)
        inner = iteration.Context(context.tol if tol is None else tol, context.rng, context.passes)
        for steps, last in enumerate(self.iterate(problem, moments, inner, None)):
            within = last.residual <= inner.tol and not last.doubt
            if last.final or within or steps >= self.max_iterations:
                break
        return last.arrays()
