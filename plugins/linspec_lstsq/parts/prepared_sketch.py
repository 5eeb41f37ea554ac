"""One sketch for many right-hand sides, as a part of an outer method."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from linspec import LeastSquaresState, LinearOperator, Moments, Run
from linspec.algebra import rank_cut
from linspec.arrays import Array, HostArray, to_host
from linspec_lstsq.parts.golub_kahan import entries_of, matrix_of, start_of
from linspec_lstsq.parts.prepared_by_ridge import PartIterate
from linspec_lstsq.sketched import SketchedFactor

NONZEROS = 8
"""Entries of a column of the sketch, and rows of the sketch beyond `oversampling`."""


class PreparedSketch(LeastSquaresState):
    """LSQR preconditioned by one sketch, which the first solve makes.

    Parameters
    ----------
    A : LinearOperator of shape (n, p), or Moments
    ridge : float
    run : Run
        The run of the outer method.
    solver : SketchPrecondition
    stacked : type
        The class of [A; √r I] N.
    """

    def __init__(
        self, A: LinearOperator | Moments, ridge: float, run: Run, solver: Any, stacked: Any
    ) -> None:
        self.A = matrix_of(A)
        self.ridge, self.run, self.solver, self.stacked = ridge, run, solver, stacked
        self.factor: SketchedFactor | None = None

    def solve(
        self,
        B: LinearOperator,
        x0: Array | None = None,
        tol: float | None = None,
        AtB: Array | None = None,
        AtAx0: Array | None = None,
    ) -> Array:
        """See `LeastSquaresState.solve`. The columns of B are formed, because LSQR needs more than AᵀB."""
        tol, home = tol or self.solver.tol or 1e-8, self.A.home.blocks
        start = home.place(x0) if x0 is not None else None
        iterates, ending = self._iterates(B, start, AtB), partial(start_of, self.A, B, x0)
        return self.driven(iterates, ending, tol=tol, limit=self.solver.max_iterations)

    def _iterates(self, B: LinearOperator, start: Array | None, AtB: Array | None) -> Iterator[PartIterate]:
        """Iterates for one right-hand side."""
        A, home = self.A, self.A.home.blocks
        ridges = np.full(B.shape[1], self.ridge)
        b = home.place(entries_of(B))
        first = None
        if self.factor is None:
            self.factor, AtB = self._factor(B, b, AtB)
            first = self.factor.solution(ridges)
        AtB = A.rmatmat(b) if AtB is None else AtB
        stacked = self.stacked(self._product, b, AtB, ridges, self.factor)
        start = home.zeros(tuple(AtB.shape)) if start is None and first is None else start
        for now in stacked.corrections(first if start is None else start, float(np.finfo(A.dtype).eps)):
            yield PartIterate(now.residual, partial(_arrays, now))

    def _product(self, V: Array, U: Array, alpha: HostArray) -> tuple[Array, HostArray]:
        """U ← A V - U diag(alpha); AᵀU and the lengths of U."""
        home = self.A.home.blocks
        U[...] = home.place(self.A.matmat(V)) - U * home.place(alpha)[None, :]
        return self.A.rmatmat(U), home.column_norms(U)

    def _factor(self, B: LinearOperator, b: Array, AtB: Array | None) -> tuple[SketchedFactor, Array]:
        """The SVD of a sketch, or of A itself if it is no larger."""
        A = self.A
        n, p = A.shape
        size = int(np.ceil(min(self.solver.oversampling * p, n))) + NONZEROS
        if n > size:
            sketch = Moments(A, B, form="implicit").sketch(size, self.run.rng, nonzeros=NONZEROS, cross=True)
            (SA, SB), AtB = map(to_host, sketch), sketch.cross
        else:
            SA, SB = to_host(A.home.blocks.place(A.rows(slice(0, n)).dense())), to_host(b)
        cut = rank_cut((n, p), A.rounded_dtype)
        factor = SketchedFactor.of(SA, SB, A.home.blocks, cut, scaled=not self.ridge)
        return factor, A.rmatmat(b) if AtB is None else AtB


def _arrays(now: Any) -> dict[str, Array]:
    return {"x": now.x()}
