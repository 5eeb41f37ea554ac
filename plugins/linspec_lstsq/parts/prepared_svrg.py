"""Stochastic gradients as a part of an outer method: one matrix and many right-hand sides."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from linspec import LeastSquaresState, LinearOperator, Moments, Run
from linspec.arrays import Array, HostArray
from linspec.operators import uncounted
from linspec.sweeps import random_order, rows_at_once
from linspec_lstsq.parts.prepared_by_ridge import PartIterate, as_parts
from linspec_lstsq.parts.products import cross_product, moments_of, start_of


class PreparedSVRG(LeastSquaresState):
    """SVRG as the least-squares part of an outer method.

    Parameters
    ----------
    solver : SVRG
    A : LinearOperator of shape (n, p), or Moments
    ridge : float
    run : Run
        The run of the outer method.
    """

    def __init__(self, solver: Any, A: LinearOperator | Moments, ridge: float, run: Run) -> None:
        self.solver, self.ridge, self.run = solver, ridge, run
        self.moments = moments_of(A)
        self.A = _matrix(A, run) if isinstance(A, Moments) else A
        self.tol = solver.tol or 1e-8
        self.rng = run.rng

    def solve(
        self,
        B: LinearOperator,
        x0: Array | None = None,
        tol: float | None = None,
        AtB: Array | None = None,
        AtAx0: Array | None = None,
    ) -> Array:
        """See `LeastSquaresState.solve`."""
        home = self.A.home.blocks
        self.tol = tol or self.solver.tol or 1e-8
        iterates, limit = self._iterates(B, x0, AtB), self.solver.max_iterations
        start = partial(start_of, self.A, B, x0)
        return home.place(self.driven(iterates, start, tol=self.tol, limit=limit))

    def note(self, *_: Any) -> None:
        """Nothing is said of single solves."""

    def _iterates(self, B: LinearOperator, x0: Array | None, AtB: Array | None) -> Iterator[PartIterate]:
        """Snapshots for one right-hand side."""
        AtB = cross_product(self.A, B) if AtB is None else AtB
        x = None if x0 is None else self.A.home.blocks.place(x0)
        rows = DrawnRows(self.A, self.run.rng, self.solver.batch or 1)
        unit = float(np.finfo(self.A.dtype).eps)
        yield from as_parts(
            self.solver.snapshots(self.moments.gram, rows, AtB, (self.ridge,), self, x, unit=unit)
        )


class DrawnRows:
    """Rows of an operator in random order, in proportion to their weights."""

    def __init__(self, A: LinearOperator, rng: np.random.Generator, fewest: int) -> None:
        self.A, self.rng, self.n = A, rng, int(A.shape[0])
        self.chunk = min(max(rows_at_once(A), fewest), self.n)

    def order(self) -> HostArray:
        """The numbers of the rows."""
        return random_order(self.A, self.rng)

    def read(self, numbers: HostArray) -> DrawnChunk:
        """A chunk of rows."""
        self.A.release()
        return DrawnChunk(self.A.drawn(numbers).loaded())


class DrawnChunk:
    """Some rows in memory."""

    def __init__(self, A: LinearOperator) -> None:
        self.A, self.rows, self.entries = A, A.shape[0], A.nnz

    def gram_product(self, V: Array, some: slice = slice(None)) -> Array:
        """A_SᵀA_S V."""
        rows = self.A.rows(slice(*some.indices(self.rows)[:2]))
        return rows.rmatmat(rows.matmat(V))

    def row_squares(self) -> Array:
        """Squared lengths of rows."""
        place, parts = self.A.home.blocks, []
        for start in range(0, self.rows, 512):
            X = place.place(self.A.rows(slice(start, min(start + 512, self.rows))).dense())
            parts.append(place.xp.sum(X * X, axis=1))
        return place.xp.concat(parts)


def _matrix(moments: Moments, run: Run) -> LinearOperator:
    """Return the matrix of the moments of one view, such that products with it count as sweeps of the run.

    It is the matrix of the run's problem that has the same data. If the problem has none, for example because the
    moments are centred, the matrix from `Moments.matrix` is returned.
    """
    A = moments.matrix(0)
    return next((M for M in run.problem.matrices.values() if uncounted(M)[0] is uncounted(A)[0]), A)
