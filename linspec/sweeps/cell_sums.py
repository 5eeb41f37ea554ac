"""The second moments of sets of rows ("cells"), computed for all cells in one sweep.

Problem: cross-validation needs the moments of training rows and of held-out rows, which are unions of cells.
Method: the task sorts the rows of a block into their cells, in whichever process the block is. For each cell it
computes the count, the means, and the Gram matrix about these means of [columns of the matrices, confounds]. The
moments of unions are merged from those of cells (Chan, Golub & LeVeque 1983, doi:10.1080/00031305.1983.10483115).
Where we differ: each cell has its first row as origin, and stores its means minus this origin. The columns of a matrix
that stands beside the others, such as a hundred thousand targets, have products with the others and squares, and no
products with each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import scipy.sparse

from linspec.algebra.variation import varies
from linspec.arrays import Array, Home, HostArray, to_host
from linspec.operators import LinearOperator, SparseOperator, sparse_grams
from linspec.operators.column_statistics import merged
from linspec.operators.row_model import OfRows
from linspec.sweeps.held_grams import DenseGram, GramBeside, RunningGram
from linspec.sweeps.task import Task
from linspec.sweeps.views import gram_rows, stored_rows

ROWS_A_CELL = 512
"""Smallest average number of rows of a cell in a block of rows that is read at once.

With fewer rows, adding their Gram matrix to the Gram matrix of the cell would cost more than forming it."""

CANCELS = 1e6
"""A sparse column whose mean square exceeds its variance by more than this factor is centred entry by entry."""


@dataclass(frozen=True, eq=False)
class RowSums:
    """The moments of some rows of d columns, on the host in float64.

    Attributes
    ----------
    count : float
        The number of rows, or the sum of their weights.
    rows : int
        The number of rows with positive weight.
    origin, mean : numpy.ndarray of shape (d,)
        The column means are origin + mean. This sum is not formed, because forming it would round large means.
    gram : numpy.ndarray of shape (g, d)
        The products of the first g columns with all columns, about the column means. Usually g = d.
    beside : numpy.ndarray of shape (d - g,)
        The squares about the means of the other columns, which have no products with each other.
    """

    count: float
    rows: int
    origin: HostArray
    mean: HostArray
    gram: HostArray
    beside: HostArray = field(default_factory=lambda: np.zeros(0))

    @property
    def squares(self) -> HostArray:
        """The sums of squares of all columns about their means."""
        return np.concatenate([np.diag(self.gram), self.beside])

    @property
    def variation(self) -> HostArray:
        """`squares`, with exactly 0 for a column that does not vary over these rows (`linspec.algebra.varies`)."""
        size = self.squares + self.count * (np.abs(self.origin) + np.abs(self.mean)) ** 2
        return np.where(varies(self.squares, size), self.squares, 0.0)

    def with_beside(self, columns: slice | HostArray) -> RowSums:
        """Return these moments with some of the columns beside, and without the others."""
        g = len(self.gram)
        kept = g + np.arange(len(self.beside))[columns]
        origin, mean, gram = (
            np.concatenate([array[..., :g], array[..., kept]], axis=-1)
            for array in (self.origin, self.mean, self.gram)
        )
        return replace(self, origin=origin, mean=mean, gram=gram, beside=self.beside[columns])

    def merged(self, other: RowSums) -> RowSums:
        """Return the moments of the union of these rows and those of `other`."""
        if 0 in (self.count, other.count):
            return other if self.count == 0 else self
        step, (weight, share) = self.less(other.origin, other.mean), merged(self.count, other.count)
        g = len(self.gram)
        gram = np.outer(step[:g], step * -weight)
        np.subtract(self.gram, gram, out=gram)
        gram += other.gram
        beside = self.beside + other.beside + weight * step[g:] ** 2
        mean = self.mean - step * share
        return RowSums(self.count + other.count, self.rows + other.rows, self.origin, mean, gram, beside)

    def less(self, origin: HostArray, mean: HostArray) -> HostArray:
        """Return the column means of these rows minus the point `origin` + `mean`, the sum of the two arguments.

        Neither of the sums is formed, because forming them would round large means.
        """
        gap: HostArray = (self.origin - origin) + (self.mean - mean)
        return gap

    def about(self, origin: HostArray, mean: HostArray) -> HostArray:
        """Return the Gram matrix of these rows about the point `origin` + `mean`, the sum of the two arguments."""
        gap = self.less(origin, mean)
        moved: HostArray = self.gram + np.outer(gap[: len(self.gram)] * self.count, gap)
        return moved

    def squares_about(self, origin: HostArray, mean: HostArray) -> HostArray:
        """Return the sums of squares of all columns about the point `origin` + `mean`."""
        squares: HostArray = self.squares + self.count * self.less(origin, mean) ** 2
        return squares


@dataclass(frozen=True, eq=False)
class CellRows(OfRows):
    """The cell, the weight and the confounds of each row, for all rows of the data or for a range of rows.

    Parameters
    ----------
    of : int
        The number of all rows of the data, also if this object covers only a range of rows.
    cells : tuple of numpy.ndarray
        For each cell, the numbers of its rows that this object covers, in increasing order.
    weights : numpy.ndarray of shape (n,), or None
    confounds : numpy.ndarray of shape (n, c), or None
    first : int, default 0
        The number of the row to which the first entry of `weights` and of `confounds` belongs.
    """

    of: int
    cells: tuple[HostArray, ...]
    weights: HostArray | None
    confounds: HostArray | None
    first: int = 0

    @property
    def rows(self) -> int:
        """The number of all rows of the data."""
        return self.of

    @property
    def is_partition(self) -> bool:
        """Whether the cells have each row of the data once."""
        numbers = np.concatenate(self.cells)
        return len(numbers) == self.of == len(np.unique(numbers))

    @property
    def is_plain(self) -> bool:
        """Whether a sweep may ignore these data: False, because it must sort rows into cells even without weights."""
        return False

    def of_rows(self, start: int, stop: int) -> Self:
        """Restrict cells, weights and confounds to the rows start, …, stop − 1."""
        own = self._places(start, stop - start)
        weights = None if self.weights is None else self.weights[own]
        confounds = None if self.confounds is None else self.confounds[own]
        cells = tuple(_between(cell, start, stop) for cell in self.cells)
        return replace(self, cells=cells, weights=weights, confounds=confounds, first=start)

    def members(self, start: int, stop: int) -> Iterator[tuple[int, HostArray, HostArray | None]]:
        """Yield, for each cell, its index and the numbers and weights of its rows among start, …, stop − 1.

        Cells without rows in this range are omitted. None is yielded instead of weights if the rows have no weights.
        """
        for number, cell in enumerate(self.cells):
            own = _between(cell, start, stop)
            if own.size:
                yield number, own, None if self.weights is None else self.weights[own - self.first]

    def confounds_of(self, numbers: HostArray | slice) -> HostArray:
        """The confounds of the rows with the given numbers; an array without columns if there are no confounds."""
        if self.confounds is None:
            return np.zeros((len(numbers) if isinstance(numbers, np.ndarray) else 0, 0))
        if isinstance(numbers, slice):
            numbers = np.arange(numbers.start, numbers.stop)
        found: HostArray = self.confounds[numbers - self.first]
        return found


def _between(cell: HostArray, start: int, stop: int) -> HostArray:
    some: HostArray = cell[np.searchsorted(cell, start) : np.searchsorted(cell, stop)]
    return some


@dataclass
class CellPart:
    """The moments of some rows of one cell, with exactly one of `running` and `pairs` set.

    `running`, with `origins`, holds moments of dense rows, and `pairs` those computed by products of sparse matrices.
    """

    count: float = 0.0
    rows: int = 0
    running: RunningGram | None = None
    origins: list[Array] = field(default_factory=list)
    pairs: RowSums | None = None

    def merged(self, other: CellPart) -> CellPart:
        """Return the moments of these rows and those of `other`, in new memory."""
        both = CellPart(self.count + other.count, self.rows + other.rows, origins=self.origins)
        if self.pairs is not None and other.pairs is not None:
            both.pairs = self.pairs.merged(other.pairs)
        if self.running is not None and other.running is not None:
            steps = [new - old for new, old in zip(other.origins, self.origins, strict=True)]
            both.running = self.running.plus(other.running, steps)
        return both

    def finished(self) -> RowSums:
        """Return the moments as `RowSums` on the host."""
        if self.pairs is not None:
            return replace(self.pairs, count=self.count, rows=self.rows)
        running: Any = self.running
        first, *others = running.gram.upper
        origin, mean, gram = (
            np.concatenate([to_host(part) for part in parts], axis=-1)
            for parts in (self.origins, running.means, first)
        )
        beside = to_host(others[0][0]) if others else np.zeros(0)
        return RowSums(self.count, self.rows, origin, mean, gram, beside)


@dataclass(frozen=True)
class CellSums(Task[dict[int, CellPart]]):
    """Task that computes the moments of [all columns, confounds] for each cell of rows.

    Parameters
    ----------
    home : Home
        The library and device of the sums.
    about : sequence of array or None
        For each matrix, a vector that is subtracted from each of its rows; None if nothing is subtracted.
    by_pairs : bool
        Whether Gram matrices are formed by products of sparse matrices, from pairs of nonzero entries of a row.
    model : CellRows
        The cell, the weight and the confounds of each row.
    beside : bool, default False
        Whether the last matrix stands beside the others: its columns, which then follow the confounds, have no products
        with each other. Not together with `by_pairs`.
    """

    home: Home
    about: Sequence[Array | None]
    by_pairs: bool
    model: CellRows
    beside: bool = False

    def part(
        self,
        rows: Sequence[LinearOperator],
        first_row: int = 0,
        into: dict[int, CellPart] | None = None,
    ) -> dict[int, CellPart]:
        """Compute the moments of some rows for each cell, and return them by the index of the cell.

        If `into` is passed, it holds the moments of earlier rows. The new moments are added to `into`, which is changed
        in place and returned.
        """
        part, n = {} if into is None else into, rows[0].shape[0]
        if self.by_pairs:
            for number, own, w in self.model.members(first_row, first_row + n):
                more = CellPart(*_counted(own, w), pairs=self._of_pairs(rows, own, w, first_row))
                part[number] = part[number].merged(more) if number in part else more
            return part
        height = self.rows_at_once(rows)
        for start in range(0, n, height):
            self._add_dense(part, rows, slice(start, min(start + height, n)), first_row)
            for A in rows:
                A.release()
        return part

    def rows_at_once(self, rows: Sequence[LinearOperator]) -> int:
        """The number of rows whose products are added at a time; all rows if they cannot be selected."""
        if self.by_pairs or not all(A.access == "rows" for A in rows):
            return rows[0].shape[0]
        height = gram_rows(rows, ROWS_A_CELL * len(self.model.cells))
        return max(height, 1 if self.beside else ROWS_A_CELL)

    def _add_dense(
        self, part: dict[int, CellPart], rows: Sequence[LinearOperator], some: slice, first_row: int
    ) -> None:
        start, stop = first_row + some.start, first_row + some.stop
        block = None
        for number, own, w in self.model.members(start, stop):
            block = self._dense(rows, some, first_row) if block is None else block
            xp, home = self.home.xp, self.home
            numbers = xp.asarray(own - start, device=home.device)
            its = [xp.take(slab, numbers, axis=0) for slab in block]
            cell = part.setdefault(number, CellPart())
            if cell.running is None:
                cell.running = RunningGram(home, GramBeside() if self.beside else DenseGram())
                at = (
                    0 if w is None else int(np.argmax(w > 0))
                )  # a row that counts, or all others have its rounding
                cell.origins = [slab[at, :] + 0.0 for slab in its]
            for slab, origin in zip(its, cell.origins, strict=True):
                slab -= origin[None, :]
            cell.running.add_rows(its, None if w is None else home.place(w))
            count, counting = _counted(own, w)
            cell.count, cell.rows = cell.count + count, cell.rows + counting

    def _dense(self, rows: Sequence[LinearOperator], some: slice, first_row: int) -> list[Array]:
        """The rows [all columns, confounds] of a block, dense in float64, and those of the matrix beside."""
        blocks = []
        for A, row in zip(rows, self.about, strict=True):
            block = self.home.place(stored_rows(A, some))
            blocks.append(block if row is None else block - self.home.place(row)[None, :])
        beside = [blocks.pop()] if self.beside else []
        if self.model.confounds is not None:
            numbers = slice(first_row + some.start, first_row + some.stop)
            blocks.append(self.home.place(self.model.confounds_of(numbers)))
        return [self.home.concat(blocks), *beside]

    def _of_pairs(
        self, operators: Sequence[Any], own: HostArray, weights: HostArray | None, first_row: int
    ) -> RowSums:
        """Moments of sparse rows by sparse products; columns in which centring would cancel digits are made dense."""
        rows = own - first_row
        matrix = scipy.sparse.hstack([A.matrix[rows] for A in operators], format="csr").astype(np.float64)
        w = np.ones(len(rows)) if weights is None else weights
        Z = self.model.confounds_of(own)
        p, count = matrix.shape[1], float(w.sum())
        width = p + Z.shape[1]
        gram = np.empty((width, width))
        gram[:p, :p] = sparse_grams.gram(SparseOperator(matrix).times_rows(np.sqrt(w))).toarray()
        origin, mean = np.zeros(width), matrix.T @ w / (count or 1.0)
        squares = np.diag(gram)[:p]
        worst = np.flatnonzero(squares - count * mean**2 < squares / CANCELS)
        gram[:p, :p] -= np.outer(mean * count, mean)
        mean = np.concatenate([mean, np.zeros(width - p)])
        apart = np.concatenate([worst, np.arange(p, width)])
        D = np.hstack([matrix[:, worst].toarray(), Z])
        origin[apart] = D[0]
        D -= D[:1].copy()
        mean[apart] = w @ D / (count or 1.0)
        D -= mean[apart]
        gram[:p, apart] = matrix.T @ (D * w[:, None])
        gram[apart, :p] = gram[:p, apart].T
        gram[np.ix_(apart, apart)] = D.T @ (D * w[:, None])
        return RowSums(count, 0, origin, mean, gram)

    def merge(self, left: dict[int, CellPart], right: dict[int, CellPart]) -> dict[int, CellPart]:
        """Merge the moments `left` and `right`, cell by cell."""
        both = {**right, **left}
        for number in left.keys() & right.keys():
            both[number] = left[number].merged(right[number])
        return both

    def looked_at(self, part: dict[int, CellPart]) -> Iterable[Array]:
        """Yield the arrays that the caller checks for NaN and infinity: means and Gram diagonal of each cell.

        They are finite if all entries of the rows are finite and no sum of squares overflows.
        """
        for _, cell in sorted(part.items()):
            if cell.pairs is not None:
                yield cell.pairs.mean
                yield np.diag(cell.pairs.gram)
            if cell.running is not None:
                yield from cell.running.means
                yield from cell.running.gram.diagonals()


def _counted(own: HostArray, w: HostArray | None) -> tuple[float, int]:
    """The sum of the weights of rows (their number without weights), and the number of rows with positive weight."""
    return (float(own.size), own.size) if w is None else (float(w.sum()), int(np.count_nonzero(w)))
