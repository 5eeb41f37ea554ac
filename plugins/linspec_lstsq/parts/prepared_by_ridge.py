"""An iteration that receives its products, as a part of an outer method: one matrix and many right-hand sides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from linspec import LeastSquaresState, LinearOperator, Moments, Run
from linspec.arrays import Array
from linspec.iteration import Iterate
from linspec.linalg import Steps
from linspec_lstsq.by_ridge import solved_by_ridge
from linspec_lstsq.parts.products import cross_product, entries_of, moments_of, start_of


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
    rows : bool, default False
        Whether the iteration may take the side of the rows.
    """

    def __init__(
        self,
        A: LinearOperator | Moments,
        ridge: float,
        run: Run,
        begin: Callable[[float, Array], Steps],
        limit: int,
        tol: float | None,
        *,
        rows: bool = False,
    ) -> None:
        self.A, self.ridge, self.run, self.begin, self.limit = A, ridge, run, begin, limit
        self.tol = 1e-8 if tol is None else tol
        self.moments, self.rows = moments_of(A), rows

    def _is_shorter(self, count: int) -> bool:
        """Whether blocks as long as the rows take less time: for wide sparse rows, many right-hand sides, a ridge."""
        wide, X = self.moments.cost.wide and self.ridge > 0, self.moments.X
        return wide and (not self.moments.center or 3 * X.shape[1] * count > X.nnz)

    def _on_rows(self, B: LinearOperator, near: Any) -> Iterator[PartIterate]:
        """Solve (AAᵀ + rI) z = B; then x = Aᵀz (Saunders, Gammerman & Vovk 1998)."""
        home, A = self.moments.home, self.moments.X
        right = home.place(entries_of(B))
        if self.moments.center:
            right = right - home.xp.mean(right, axis=0)[None, :]
        for each in solved_by_ridge(self.moments.outer, right, (self.ridge,), near, self.begin):
            yield PartIterate(each.residual, lambda each=each: {"x": A.rmatmat(each.arrays()["x"])})  # type: ignore[misc]

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
        start, near = partial(start_of, moments.X, B, x0), SimpleNamespace(tol=tol)
        if x0 is None and self.rows and self._is_shorter(B.shape[1]):
            return self.driven(self._on_rows(B, near), start, tol=tol, limit=self.limit)

        def iterates() -> Iterator[PartIterate]:
            right = cross_product(self.A, B) if AtB is None else AtB
            x = None if x0 is None else moments.home.place(x0)
            unit = float(np.finfo(moments.X.dtype).eps)
            yield from as_parts(
                solved_by_ridge(moments.gram, right, (self.ridge,), near, self.begin, x, AtAx0, unit=unit)
            )

        return self.driven(iterates(), start, tol=tol, limit=self.limit)


def as_parts(iterates: Iterator[Iterate]) -> Iterator[PartIterate]:
    """Iterates as outer methods read them."""
    for each in iterates:
        yield PartIterate(each.residual, each.arrays)
