"""The moments of sets of rows, computed for all sets in one sweep and merged.

Problem: cross-validation needs the moments of the training rows and of the held-out rows of every split.
Method: the sweep computes for each cell of rows (`linspec.studies.held_out.folds`) its count, its means, and the Gram
matrix about these means of [all columns of the matrices, confounds]. The sweep is one task, which sorts the rows of a
block into their cells, in whichever process the block is. Moments of unions are merged from those of cells (Chan,
Golub & LeVeque 1983, doi:10.1080/00031305.1983.10483115); for k folds, each training set is a prefix and a suffix of
the cells.
Where we differ: subtracting the moments of the fold from those of all rows would take fewer merges, but loses all
digits by which the fold is larger than the other rows. So no moments are subtracted here. Each cell has its first row
as origin, and stores its means minus this origin.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse

from linspec import cost
from linspec.arrays import Array, Home, HostArray, to_host
from linspec.errors import InvalidProblem, MissingCapability, NonFiniteData
from linspec.operators import LinearOperator, SparseOperator, sparse_grams
from linspec.operators.column_statistics import merged
from linspec.operators.largest_entry import magnitude_of
from linspec.operators.range_of_entries import ORDINARY, check_magnitude
from linspec.operators.row_model import OfRows, RowModel
from linspec.studies.held_out.folds import Folds
from linspec.sweeps.blocks import map_reduce
from linspec.sweeps.finite import explain_non_finite, first_non_finite
from linspec.sweeps.first_sweep import Measured, Sizes
from linspec.sweeps.held_grams import RunningGram
from linspec.sweeps.runners import swept
from linspec.sweeps.task import Task
from linspec.sweeps.views import View, gram_rows, stored_rows

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
    gram : numpy.ndarray of shape (d, d)
        The Gram matrix about the column means.
    """

    count: float
    rows: int
    origin: HostArray
    mean: HostArray
    gram: HostArray

    def merged(self, other: RowSums) -> RowSums:
        """Return the moments of the union of these rows and those of `other`."""
        if 0 in (self.count, other.count):
            return other if self.count == 0 else self
        step, (weight, share) = self.less(other.origin, other.mean), merged(self.count, other.count)
        gram = np.outer(step, step * -weight)
        np.subtract(self.gram, gram, out=gram)
        gram += other.gram
        mean = self.mean - step * share
        return RowSums(self.count + other.count, self.rows + other.rows, self.origin, mean, gram)

    def less(self, origin: HostArray, mean: HostArray) -> HostArray:
        """Return the column means of these rows minus the point `origin` + `mean`, the sum of the two arguments.

        Neither of the sums is formed, because forming them would round large means.
        """
        gap: HostArray = (self.origin - origin) + (self.mean - mean)
        return gap

    def about(self, origin: HostArray, mean: HostArray) -> HostArray:
        """Return the Gram matrix of these rows about the point `origin` + `mean`, the sum of the two arguments."""
        gap = self.less(origin, mean)
        moved: HostArray = self.gram + np.outer(gap * self.count, gap)
        return moved


def bytes_held(columns: int, folds: Folds) -> float:
    """Bytes of memory for the moments of all cells and for merging them."""
    return 8.0 * columns**2 * (2 * len(folds.cells) + 6)


def training_and_held_out(cells: Sequence[RowSums], folds: Folds) -> Iterator[tuple[RowSums, RowSums]]:
    """Yield, for each split, the moments of its training rows and of its held-out rows, merged from those of cells."""
    if folds.complements and len(cells) > 2:
        yield from _all_but_one(cells)
        return
    for training, held_out in zip(folds.training, folds.held_out, strict=True):
        yield _union(cells, training), _union(cells, held_out)


def union(cells: Sequence[RowSums]) -> RowSums:
    """The moments of the union of all cells."""
    return _union(cells, range(len(cells)))


def _union(cells: Sequence[RowSums], numbers: Sequence[int]) -> RowSums:
    total = cells[numbers[0]]
    for number in numbers[1:]:
        total = total.merged(cells[number])
    return total


def _all_but_one(cells: Sequence[RowSums]) -> Iterator[tuple[RowSums, RowSums]]:
    """Yield, for each cell, the moments of the union of all other cells, and the moments of the cell."""
    behind = [cells[-1]]
    for cell in reversed(cells[1:-1]):
        behind.append(cell.merged(behind[-1]))
    before: RowSums | None = None
    for cell in cells:
        rest = behind.pop() if behind else None
        parts = [part for part in (before, rest) if part is not None]
        yield (parts[0] if len(parts) == 1 else parts[0].merged(parts[1])), cell
        before = cell if before is None else before.merged(cell)


# ---- the sweep ------------------------------------------------------------------------------------------------------


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

    `running`, with `origin`, holds moments of dense rows, and `pairs` those computed by products of sparse matrices.
    """

    count: float = 0.0
    rows: int = 0
    running: RunningGram | None = None
    origin: Array | None = None
    pairs: RowSums | None = None

    def merged(self, other: CellPart) -> CellPart:
        """Return the moments of these rows and those of `other`, in new memory."""
        both = CellPart(self.count + other.count, self.rows + other.rows, origin=self.origin)
        if self.pairs is not None and other.pairs is not None:
            both.pairs = self.pairs.merged(other.pairs)
        if self.running is not None and other.running is not None:
            step: Any = other.origin
            both.running = self.running.plus(other.running, [step - self.origin])
        return both

    def finished(self) -> RowSums:
        """Return the moments as `RowSums` on the host."""
        if self.pairs is not None:
            return replace(self.pairs, count=self.count, rows=self.rows)
        running: Any = self.running
        origin, mean, gram = (to_host(a) for a in (self.origin, running.means[0], running.gram.upper[0][0]))
        return RowSums(self.count, self.rows, origin, mean, gram)


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
    """

    home: Home
    about: Sequence[Array | None]
    by_pairs: bool
    model: CellRows

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
        height = max(gram_rows(rows, ROWS_A_CELL * len(self.model.cells)), ROWS_A_CELL)
        if not all(A.access == "rows" for A in rows):
            height = max(n, 1)
        for start in range(0, n, height):
            self._add_dense(part, rows, slice(start, min(start + height, n)), first_row)
            for A in rows:
                A.release()
        return part

    def _add_dense(
        self, part: dict[int, CellPart], rows: Sequence[LinearOperator], some: slice, first_row: int
    ) -> None:
        start, stop = first_row + some.start, first_row + some.stop
        block = None
        for number, own, w in self.model.members(start, stop):
            block = self._dense(rows, some, first_row) if block is None else block
            xp, home = self.home.xp, self.home
            its = xp.take(block, xp.asarray(own - start, device=home.device), axis=0)
            cell = part.setdefault(number, CellPart())
            if cell.running is None:
                cell.running, cell.origin = RunningGram(home), its[0, :] + 0.0
            origin: Any = cell.origin
            its -= origin[None, :]
            cell.running.add_rows([its], None if w is None else home.place(w))
            count, counting = _counted(own, w)
            cell.count, cell.rows = cell.count + count, cell.rows + counting

    def _dense(self, rows: Sequence[LinearOperator], some: slice, first_row: int) -> Array:
        """The rows [all columns, confounds] of a block, dense in float64."""
        blocks = []
        for A, row in zip(rows, self.about, strict=True):
            block = self.home.place(stored_rows(A, some))
            blocks.append(block if row is None else block - self.home.place(row)[None, :])
        if self.model.confounds is not None:
            numbers = slice(first_row + some.start, first_row + some.stop)
            blocks.append(self.home.place(self.model.confounds_of(numbers)))
        return self.home.concat(blocks)

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
                yield cell.running.means[0]
                yield self.home.xp.linalg.diagonal(cell.running.gram.upper[0][0])


def _counted(own: HostArray, w: HostArray | None) -> tuple[float, int]:
    """The sum of the weights of rows (their number without weights), and the number of rows with positive weight."""
    return (float(own.size), own.size) if w is None else (float(w.sum()), int(np.count_nonzero(w)))


def gathered(problem: Any, folds: Folds) -> list[RowSums]:
    """Compute the moments of every cell of rows in one sweep over the matrices of a problem.

    Parameters
    ----------
    problem : Problem
        Its matrices, `sample_weight` and `confounds` are used.
    folds : Folds

    Returns
    -------
    list of RowSums
        The moments of each cell, for all columns of the matrices in the order of the problem, followed by the
        confounds.

    Raises
    ------
    MissingCapability
        If a matrix is known only by its products.
    InvalidProblem
        If the number of rows is not that of the splits.
    NonFiniteData
        If an entry is not finite, or a sum overflows.
    """
    views = [View(name, A) for name, A in problem.matrices.items()]
    by_products = [view for view in views if not (view.streamed or view.operator.access == "rows")]
    if by_products:
        raise MissingCapability(
            f"cross-validation needs rows that can be taken; got {by_products[0].given!r} for {by_products[0].name}. "
            "Pass an array, a sparse matrix, a file or slices."
        )
    model = CellRows(folds.rows, folds.cells, problem.sample_weight, problem.confounds)
    home, about = views[0].given.home.blocks, [view.adjustment.row for view in views]
    task = CellSums(home, about, _by_pairs(views), model)
    with np.errstate(all="ignore"):  # the check finds entries that are not finite
        part, seen = _swept(task, views, RowModel(center=False, weights=problem.sample_weight))
    if seen != folds.rows:
        names = " and ".join(view.name for view in views)
        raise InvalidProblem(f"the splits must be of the rows of {names}; got {folds.rows} for {seen} rows.")
    cells = [part[number].finished() for number in range(len(folds.cells))]
    _check_sizes(views, union(cells), problem.sample_weight)
    return cells


def _check_sizes(views: Sequence[View], total: RowSums, weights: HostArray | None) -> None:
    """Raise if the largest entry of a matrix is out of range; read rows again only if column norms are extreme."""
    squares, start = np.diag(total.gram) + total.count * (total.origin + total.mean) ** 2, 0
    for view in views:
        A, stop = view.operator, start + view.operator.shape[1]
        size = float(np.sqrt(np.max(squares[start:stop], initial=0.0)))
        start = stop
        if (view.streamed and view.measured) or 1 / ORDINARY <= size <= ORDINARY:
            continue
        if A.access == "blocks":
            found = map_reduce(Sizes(RowModel(center=False, weights=weights)), [A])[0]
        else:
            found = magnitude_of(A, None if weights is None else A.home.blocks.place(np.sqrt(weights)))
            A.release()
        check_magnitude(view.name, found)


def _swept(task: CellSums, views: list[View], model: RowModel) -> tuple[dict[int, CellPart], int]:
    """Run the task over all rows, in this process or in those that hold the blocks of rows.

    Return the moments by the index of the cell, and the number of rows of the first matrix. If the number of rows in
    memory or in files is not that of the splits, no row is read, and there are no moments.
    """
    operators = [view.operator for view in views]
    named = {view.name: view.operator for view in views}
    streamed = any(view.streamed for view in views) and not any(A.access == "blocks" for A in operators)
    if not streamed and min(A.shape[0] for A in operators) != task.model.rows:
        return {}, int(operators[0].shape[0])
    measured = Measured(
        task, tuple(named), tuple(streamed for _ in views), tuple(False for _ in views), model
    )
    found = swept(
        measured,
        views,
        sum(A.shape[1] for A in operators) * len(task.model.cells),
        model=model,
        check=lambda _, part, __: _check(task, part.part, named),
        threads=False,
    )
    for view, size in zip(views, found.sizes if streamed else (), strict=False):
        check_magnitude(view.name, size)
        view.measured = True
    return found.part, int(operators[0].shape[0])


def _check(task: CellSums, part: dict[int, CellPart], named: Mapping[str, LinearOperator]) -> None:
    """Raise if sums are not finite; the message names the entry that is the cause."""
    if all(np.isfinite(float(to_host(task.home.xp.sum(array)))) for array in task.looked_at(part)):
        return
    if any(first_non_finite(A) for A in named.values()):
        raise NonFiniteData(explain_non_finite(named))
    raise NonFiniteData(f"the squares of {' and '.join(named)} overflow. Scale the columns.")


def _by_pairs(views: Sequence[View]) -> bool:
    """Whether Gram matrices of sparse rows are formed by sparse products."""
    operators = [view.operator for view in views]
    in_blocks = [A.access == "blocks" and A.sparse for A in operators]
    sparse = all(in_blocks) or all(isinstance(A, SparseOperator) for A in operators)
    if not sparse or any(view.adjustment.row is not None for view in views):
        return False
    return cost.sparse_gram_is_cheaper(cost.sizes_of(operators, 1))
