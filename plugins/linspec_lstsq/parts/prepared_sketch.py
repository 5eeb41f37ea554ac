"""One sketch for many right-hand sides, as a part of an outer method."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from linspec import LinearOperator, Moments, Run
from linspec.algebra import rank_cut
from linspec.arrays import Array, to_host
from linspec_lstsq.parts.prepared_by_ridge import PartIterate
from linspec_lstsq.parts.prepared_lsqr import PreparedLSQR
from linspec_lstsq.parts.products import entries_of, long_step, start_of
from linspec_lstsq.sketched import SketchedFactor

NONZEROS = 8
"""Entries of a column of the sketch, and rows of the sketch beyond `oversampling`."""


class PreparedSketch(PreparedLSQR):
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
        super().__init__(A, ridge, run, solver.max_iterations, solver.tol or 1e-8)
        self.solver, self.stacked = solver, stacked
        self.factor: SketchedFactor | None = None

    def _iterates(self, B: LinearOperator, x0: Array | None, AtB: Array | None) -> Iterator[PartIterate]:
        """Iterates for one right-hand side."""
        A, x, ridges = self.A, start_of(self.A, B, x0), np.full(B.shape[1], self.ridge)
        b = A.home.blocks.place(entries_of(B))
        if self.factor is None:
            self.factor, AtB = self._factor(B, b, AtB)
            x = self.factor.solution(ridges) if x0 is None else x
        AtB = A.rmatmat(b) if AtB is None else AtB
        stacked = self.stacked(partial(long_step, A), b, AtB, ridges, self.factor)
        for now in stacked.corrections(x, float(np.finfo(A.dtype).eps)):
            yield PartIterate(now.residual, partial(_arrays, now))

    def _factor(self, B: LinearOperator, b: Array, AtB: Array | None) -> tuple[SketchedFactor, Array | None]:
        """The SVD of a sketch, or of A itself if it is no larger; AᵀB, if it is known then."""
        A = self.A
        n, p = A.shape
        size = int(np.ceil(min(self.solver.oversampling * p, n))) + NONZEROS
        if n > size:
            sketch = Moments(A, B, form="implicit").sketch(size, self.run.rng, nonzeros=NONZEROS, cross=True)
            (SA, SB), AtB = map(to_host, sketch), sketch.cross
        else:
            SA, SB = to_host(A.home.blocks.place(A.rows(slice(0, n)).dense())), to_host(b)
        cut = rank_cut((n, p), A.rounded_dtype)
        return SketchedFactor.of(SA, SB, A.home.blocks, cut, scaled=not self.ridge), AtB


def _arrays(now: Any) -> dict[str, Array]:
    return {"x": now.x()}
