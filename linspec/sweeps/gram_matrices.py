"""Gram matrices of some views, formed from their rows in one sweep.

Problem: compute XᵀX, XᵀY and YᵀY about the column means, which are not known beforehand, for rows of any dtype.
Method: blocks of rows are converted to float64 and centred about their own means, and their Gram matrices are merged
(Chan, Golub & LeVeque 1983, doi:10.1080/00031305.1983.10483115). For sparse rows, a sparse Gram matrix is formed
first if that is cheaper. Rows with weights w are multiplied by √w after their weighted means are subtracted; the
products of the columns with a basis of confounds are gathered in the same sweep. Integers without weights are
multiplied in float32 where that is exact (`linspec.sweeps.integer_grams`).
Float64 rows whose means are no larger than the spread are multiplied as they are, without a copy, and n m mᵀ is
subtracted.
Where we differ: the first row of a part is subtracted from all rows of the part, so that constant columns vanish
exactly and the means that are merged are small.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec import cost
from linspec.arrays import HOST, Array, Home
from linspec.operators import DenseOperator, LinearOperator, SparseOperator, sparse_grams
from linspec.operators.adjustment import about_a_row
from linspec.operators.column_statistics import ColumnStatistics, block_mean, counted
from linspec.operators.row_blocks import RowBuffer
from linspec.operators.row_model import PLAIN, RowModel
from linspec.sweeps.held_grams import DenseGram, RunningGram, Upper
from linspec.sweeps.integer_grams import IntegerGrams, integer_grams
from linspec.sweeps.task import Task
from linspec.sweeps.views import FloatRows, gram_blocks, stored_rows

FEWEST_ENTRIES = 2**16
"""Smallest number of entries whose copy takes longer than a look at their means."""


@dataclass
class GramPart:
    """Gram matrices of some rows, about the means of these rows or about zero, and the means.

    Attributes
    ----------
    count : float
        The number of rows, or the sum of their weights.
    gram : DenseGram
        The Gram and cross matrices. If the task subtracts the means of the rows, this is `running.gram`.
    running : RunningGram or None
        The Gram matrices about the means, with the means, if the task subtracts the means; None otherwise.
    origins : list of array
        Per view, the row that was subtracted from all rows before `running` was formed.
    totals : list of array
        Per view, the column sums, if the task computes the means without subtracting them; otherwise zeros.
    statistics : list of ColumnStatistics
        Per view, the column statistics; empty if no products with a basis of confounds are needed.
    """

    count: float
    gram: DenseGram
    running: RunningGram | None
    origins: list[Any]
    totals: list[Array]
    statistics: list[ColumnStatistics]
    buffers: list[RowBuffer]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "buffers": [RowBuffer() for _ in self.buffers]}

    @property
    def means(self) -> list[Array]:
        """Column means of the rows."""
        if self.running is None:
            return [total / self.count for total in self.totals]
        return [origin + mean for origin, mean in zip(self.origins, self.running.means, strict=True)]


@dataclass(frozen=True)
class GramMatrices(Task[GramPart]):
    """Task that forms the dense Gram and cross matrices of some views.

    Parameters
    ----------
    home : Home
        The home of the results.
    about : list of array or None
        Per view, a row that is subtracted from all rows.
    center : bool
        Subtract the means of the rows instead of `about`; they are computed in the same sweep.
    means : bool
        Compute the means without subtracting them.
    model : RowModel
        Weights of the rows, and a basis whose products with the columns are gathered.
    """

    home: Home
    about: Sequence[Array | None]
    center: bool = False
    means: bool = False
    model: RowModel = PLAIN

    def part(
        self, rows: Sequence[LinearOperator], first_row: int = 0, into: GramPart | None = None
    ) -> GramPart:
        """The Gram matrices of some rows, added in place to `into`, those of earlier rows."""
        part, n = self._begun(rows) if into is None else into, rows[0].shape[0]
        weights = self.model.weights_of(first_row, n, self.home)
        if len(rows) == 1 and isinstance(rows[0], SparseOperator) and self._by_pairs(rows[0]):
            self._add_sparse(part, rows[0])
        else:
            self._add_dense(part, rows, weights)
        count = counted(n, weights, self.home)
        for i, A in enumerate(rows if self.means and not self.center else ()):
            part.totals[i] = part.totals[i] + block_mean(A, self.home, weights) * count
        for statistics, A in zip(part.statistics, rows, strict=False):
            basis = self.model.basis_of(first_row, n, self.home)
            whole = A.access == "rows" and A.readable
            entries = A if whole else DenseOperator(stored_rows(A, slice(0, n)))
            statistics.add(entries, weights, basis)
        part.count += count
        return part

    def _begun(self, rows: Sequence[LinearOperator]) -> GramPart:
        running = RunningGram(self.home) if self.center else None
        origins: list[Any] = [None for _ in rows]  # set when the first row is read
        totals = [self.home.zeros((A.shape[1],)) for A in rows]
        gram = DenseGram() if running is None else running.gram
        beside = [ColumnStatistics(self.home) for _ in rows] if self.model.basis is not None else []
        return GramPart(0, gram, running, origins, totals, beside, [RowBuffer() for _ in rows])

    def _by_pairs(self, A: LinearOperator) -> bool:
        if self.model.weights is not None:
            return False
        return self.about[0] is None and cost.sparse_gram_is_cheaper(cost.sizes_of([A], 1))

    def _add_dense(self, part: GramPart, rows: Sequence[LinearOperator], weights: Array | None) -> None:
        slabs = [
            FloatRows(A, self.home, less=less, about_first=self.center, buffer=buffer)
            for A, less, buffer in zip(
                rows, part.origins if self.center else self.about, part.buffers, strict=True
            )
        ]
        for some in gram_blocks(rows, rows[0].shape[0]):
            stored, w = [slab.stored(some) for slab in slabs], None if weights is None else weights[some]
            exact = integer_grams(stored, part.buffers) if w is None else None
            means = None if part.running is None or w is not None or exact else _small_means(stored)
            # With centring these are copies, which the running sums may overwrite.
            read = [] if exact or means else [slab.floats(X) for slab, X in zip(slabs, stored, strict=True)]
            if exact is not None:
                self._add_integers(part, exact, [slab.less for slab in slabs])
            elif part.running is not None and means is not None:
                steps = [m - slab.less for m, slab in zip(means, slabs, strict=True)]
                part.running.add_grams(_about(means, stored), steps, len(stored[0]))
            elif part.running is not None:
                part.running.add_rows(read, w)
            else:
                roots = None if w is None else self.home.xp.sqrt(w)[:, None]
                part.gram.add_rows(read if roots is None else [Z * roots for Z in read])
            for A in rows:
                A.release()
        if self.center:
            part.origins = [slab.less for slab in slabs]

    def _add_integers(self, part: GramPart, found: IntegerGrams, less: list[Array | None]) -> None:
        """Add Gram matrices of integers about the rows `less`."""
        if all(row is None for row in less):
            part.gram.add_grams(found.about_zero())
            return
        steps = found.means_about(less)
        if part.running is not None:
            part.running.add_grams(found.about_means(), steps, found.count)
        else:
            part.gram.add_grams(found.about_means())
            part.gram.add_rows([step[None, :] * found.count**0.5 for step in steps])

    def _add_sparse(self, part: GramPart, given: SparseOperator) -> None:
        block, row = about_a_row(given) if self.center else (given, None)
        S = sparse_grams.gram(block.matrix).toarray()
        if part.running is None:
            part.gram.add_grams([[S]])
            return
        if part.origins[0] is None:  # subtracting the first row would make sparse rows dense
            part.origins[0] = self.home.zeros((block.shape[1],))
        mean = block_mean(block, self.home)
        S -= np.outer(mean * block.shape[0], mean)
        step = -part.origins[0] if row is None else row - part.origins[0]
        part.running.add_grams([[S]], [mean + step], block.shape[0])

    def merge(self, left: GramPart, right: GramPart) -> GramPart:
        """The Gram matrices of the rows of `left` and `right` together."""
        total = self._begun([])
        total.count, total.origins = left.count + right.count, left.origins
        total.statistics = [copy.copy(gathered) for gathered in left.statistics]
        for gathered, more in zip(total.statistics, right.statistics, strict=True):
            gathered.absorb(more)
        total.totals = [a + b for a, b in zip(left.totals, right.totals, strict=True)]
        if total.running is None or left.running is None or right.running is None:
            total.gram = left.gram.plus(right.gram)
            return total
        moves = [b - a for a, b in zip(left.origins, right.origins, strict=True)]
        total.running = left.running.plus(right.running, moves)
        total.gram = total.running.gram
        return total

    def looked_at(self, part: GramPart) -> Iterable[Array]:
        """The diagonals of the Gram matrices, which are finite if the rows are."""
        return part.gram.diagonals()


def _small_means(blocks: Sequence[Array]) -> list[Array] | None:
    """The column means of float64 rows on the host; None unless n m² ≤ ¾ ‖x‖² for each column x, with its mean m.

    Then ‖x‖² - n m² is at least a quarter of ‖x‖², and the subtraction loses at most two bits.
    """
    known = all(isinstance(X, np.ndarray) and X.dtype == np.float64 for X in blocks)
    if not known or sum(X.size for X in blocks) < FEWEST_ENTRIES:
        return None
    means = []
    for X in blocks:
        n = len(X)
        means.append(np.ones(n) @ X / n)
        if (n * means[-1] ** 2 > 0.75 * np.einsum("ij,ij->j", X, X)).any():
            return None
    return means


def _about(means: Sequence[Array], blocks: Sequence[Array]) -> Upper:
    """The Gram and cross matrices XᵀZ - n m_X m_Zᵀ of some rows about their means."""
    roots = [m * len(X) ** 0.5 for m, X in zip(means, blocks, strict=True)]
    pairs = list(zip(blocks, roots, strict=True))
    return [[X.T @ Z - r[:, None] * s for Z, s in pairs[i:]] for i, (X, r) in enumerate(pairs)]


@dataclass(frozen=True)
class SparseGramMatrices(Task[Upper]):
    """Task that forms the Gram and cross matrices of sparse views as sparse matrices, without centring.

    Parameters
    ----------
    model : RowModel
        Weights of the rows.
    """

    model: RowModel = PLAIN

    def part(self, rows: Sequence[LinearOperator], first_row: int = 0, into: Upper | None = None) -> Upper:
        """The sparse Gram matrices of some rows, added to `into`, those of earlier rows."""
        roots = self.model.roots_of(first_row, rows[0].shape[0], HOST)
        views = [A.matrix if roots is None else A.times_rows(roots) for A in rows]  # type: ignore[attr-defined]
        found = [
            [sparse_grams.gram(X), *(sparse_grams.gram(X, Z) for Z in views[i + 1 :])]
            for i, X in enumerate(views)
        ]
        return found if into is None else self.merge(into, found)

    def merge(self, left: Upper, right: Upper) -> Upper:
        """The sums of the Gram matrices `left` and `right`."""
        rows = zip(left, right, strict=True)
        return [[a + b for a, b in zip(own, more, strict=True)] for own, more in rows]

    def looked_at(self, part: Upper) -> Iterable[Array]:
        """The diagonals of the Gram matrices, which are finite if the rows are."""
        return [S.diagonal() for S, *_ in part]
