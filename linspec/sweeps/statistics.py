"""Means and spreads of the columns of some views, and the number of rows, in one sweep."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from linspec.arrays import Array, Home
from linspec.operators import DenseOperator, LinearOperator
from linspec.operators.column_statistics import ColumnStatistics
from linspec.operators.row_model import PLAIN, RowModel
from linspec.sweeps.task import Task


@dataclass(frozen=True)
class Statistics(Task[list[ColumnStatistics]]):
    """Task that gathers the `ColumnStatistics` of every view.

    Parameters
    ----------
    home : Home
        The home of the statistics.
    model : RowModel
        The weights of the rows, and the basis of the confounds, whose products with the columns are gathered.
    """

    home: Home
    model: RowModel = PLAIN

    def part(
        self,
        rows: Sequence[LinearOperator],
        first_row: int = 0,
        into: list[ColumnStatistics] | None = None,
    ) -> list[ColumnStatistics]:
        """The statistics of some rows, merged into `into`, those of earlier rows."""
        gathered = into or [ColumnStatistics(self.home) for _ in rows]
        n = rows[0].shape[0]
        beside = self.model.weights_of(first_row, n, self.home), self.model.basis_of(first_row, n, self.home)
        for statistics, A in zip(gathered, rows, strict=True):
            statistics.add(A if A.access == "rows" else DenseOperator(A.dense()), *beside)
        return gathered

    def merge(self, left: list[ColumnStatistics], right: list[ColumnStatistics]) -> list[ColumnStatistics]:
        """The statistics of the rows of `left` and `right` together."""
        both = [copy.copy(statistics) for statistics in left]  # whose arrays are replaced, never written into
        for statistics, more in zip(both, right, strict=True):
            statistics.absorb(more)
        return both

    def looked_at(self, part: list[ColumnStatistics]) -> Iterable[Array]:
        """The column means of every view, which are checked for finiteness."""
        return [statistics.mean for statistics in part]
