"""An iteration that receives its products, as a part of an outer method: one matrix and many right-hand sides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from linspec import LeastSquaresState, LinearOperator, Moments, Run
from linspec.arrays import Array
from linspec.iteration import Iterate
from linspec.linalg import Steps
from linspec_lstsq.by_ridge import solved_by_ridge
from linspec_lstsq.parts.golub_kahan import cross_product, moments_of


class Within(NamedTuple):
    """The tolerance of an iteration."""

    tol: float


class PartIterate(NamedTuple):
    """An iterate as outer methods read it."""

    residual: float
    weights: Callable[[], Mapping[str, Array]]
    ending: Any = None


class PreparedByRidge(LeastSquaresState):
    """An iteration for one ridge.

    Parameters
    ----------
    A : LinearOperator of shape (n, p), or Moments
    ridge : float
    run : Run
        The run of the outer method.
    begin : callable
        See `solved_by_ridge`.
    limit, tol : int, float
    """

    def __init__(
        self,
        A: LinearOperator | Moments,
        ridge: float,
        run: Run,
        begin: Callable[[float, Array], Steps],
        limit: int,
        tol: float | None,
    ) -> None:
        self.A, self.ridge, self.run, self.begin, self.limit = A, ridge, run, begin, limit
        self.tol = 1e-8 if tol is None else tol
        self.moments = moments_of(A)

    def solve(
        self,
        B: LinearOperator,
        x0: Array | None = None,
        tol: float | None = None,
        AtB: Array | None = None,
        AtAx0: Array | None = None,
    ) -> Array:
        """See `LeastSquaresState.solve`."""
        moments, tol = self.moments, self.tol if tol is None else tol
        zeros = partial(moments.home.zeros, (moments.shape[1], B.shape[1]))

        def iterates() -> Iterator[PartIterate]:
            right = cross_product(self.A, B) if AtB is None else AtB
            x = None if x0 is None else moments.home.place(x0)
            unit = float(np.finfo(moments.X.dtype).eps)
            ridges, near = (self.ridge,), Within(tol)
            yield from as_parts(
                solved_by_ridge(moments.gram, right, ridges, near, self.begin, x, AtAx0, unit=unit)
            )

        return self.driven(iterates(), zeros if x0 is None else lambda: x0, tol=tol, limit=self.limit)


def as_parts(iterates: Iterator[Iterate]) -> Iterator[PartIterate]:
    """Iterates as outer methods read them."""
    for each in iterates:
        yield PartIterate(each.residual, each.arrays)
