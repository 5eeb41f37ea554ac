"""The moments of sets of rows: gathered for all sets in one sweep, and merged.

Problem: cross-validation asks for the moments of the training rows and of the held-out rows of every split.
Method: the sweep gathers for each cell of rows (`linspec.held_out.folds`) its count, its means and the Gram matrix of
all columns about these means, of all matrices of the problem and its confounds side by side. The rows of a block are
sorted to their cells. Moments of unions come from merging (Chan, Golub & LeVeque 1983,
doi:10.1080/00031305.1983.10483115); for k folds from k prefixes and k suffixes.
Where we differ: the moments of a training set could be those of all rows minus those of the fold. That costs fewer
merges and loses all digits by which the fold is larger than the rest. So nothing is subtracted here, and each cell has
an origin of its own, its first row, in units of which its means are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from linspec import cost
from linspec.arrays import Array, Home, HostArray, to_host
from linspec.errors import InvalidProblem, MissingCapability, NonFiniteData
from linspec.gram import RunningGram
from linspec.held_out.folds import Folds
from linspec.operators import LinearOperator, SparseOperator, sparse_kernels
from linspec.sweeps.finite import FirstNonFinite
from linspec.sweeps.slices import common_blocks
from linspec.views import View, gram_rows

ROWS_A_CELL = 512
"""Rows of a cell that a block should have: adding its Gram matrix is to cost less than forming it."""

CANCELS = 1e6
"""Sparse columns whose mean square exceeds their variance by more than this factor are centred entry by entry."""


@dataclass(frozen=True, eq=False)
class RowSums:
    """The moments of some rows of d columns, on the host in float64.

    Attributes
    ----------
    count : float
        What the rows count together: their number, or the sum of their weights.
    rows : int
        How many count at all.
    origin, mean : numpy.ndarray of shape (d,)
        The column means are their sum. It is not formed, since it would be rounded where means are large.
    gram : numpy.ndarray of shape (d, d)
        About these means.
    """

    count: float
    rows: int
    origin: HostArray
    mean: HostArray
    gram: HostArray

    def merged(self, other: RowSums) -> RowSums:
        """The moments of the rows of both."""
        if 0 in (self.count, other.count):
            return other if self.count == 0 else self
        count, step = self.count + other.count, self.less(other.origin, other.mean)
        gram = np.outer(step, step * -(self.count * (other.count / count)))
        np.subtract(self.gram, gram, out=gram)
        gram += other.gram
        mean = self.mean - step * (other.count / count)
        return RowSums(count, self.rows + other.rows, self.origin, mean, gram)

    def less(self, origin: HostArray, mean: HostArray) -> HostArray:
        """The column means less others, which are a sum as well."""
        gap: HostArray = (self.origin - origin) + (self.mean - mean)
        return gap

    def about(self, origin: HostArray, mean: HostArray) -> HostArray:
        """The Gram matrix about other points than the means."""
        gap = self.less(origin, mean)
        moved: HostArray = self.gram + np.outer(gap * self.count, gap)
        return moved


def bytes_held(columns: int, folds: Folds) -> float:
    """The memory for the moments of all cells and for merging them."""
    return 8.0 * columns**2 * (2 * len(folds.cells) + 6)


def training_and_held_out(cells: Sequence[RowSums], folds: Folds) -> Iterator[tuple[RowSums, RowSums]]:
    """The moments of both sides of each split, merged from those of the cells."""
    if folds.complements and len(cells) > 2:
        yield from _all_but_one(cells)
        return
    for training, held_out in zip(folds.training, folds.held_out, strict=True):
        yield _union(cells, training), _union(cells, held_out)


def union(cells: Sequence[RowSums]) -> RowSums:
    """The moments of all cells together."""
    return _union(cells, range(len(cells)))


def _union(cells: Sequence[RowSums], numbers: Sequence[int]) -> RowSums:
    total = cells[numbers[0]]
    for number in numbers[1:]:
        total = total.merged(cells[number])
    return total


def _all_but_one(cells: Sequence[RowSums]) -> Iterator[tuple[RowSums, RowSums]]:
    """Each cell, beside all others: the cells before it are merged, and those behind it."""
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


def gathered(problem: Any, folds: Folds) -> list[RowSums]:
    """The moments of every cell of rows, in one sweep over the matrices of a problem.

    Parameters
    ----------
    problem : Problem
        Its matrices, `sample_weight` and `confounds`.
    folds : Folds

    Returns
    -------
    list of RowSums
        Of all columns of the matrices in their order, and of the confounds behind them.

    Raises
    ------
    MissingCapability
        A matrix is known by its products only.
    InvalidProblem
        There are other numbers of rows than labels.
    NonFiniteData
        An entry is not finite, or a sum overflows.
    """
    views = [View(name, A, center=False) for name, A in problem.matrices.items()]
    by_products = [view for view in views if not (view.streamed or view.operator.sliceable)]
    if by_products:
        raise MissingCapability(
            f"cross-validation needs rows that can be taken; got {by_products[0].given!r} for {by_products[0].name}. "
            "Pass an array, a sparse matrix, a file or slices."
        )
    sweep = _Sweep(views, folds, problem.sample_weight, problem.confounds)
    seen = 0
    with np.errstate(all="ignore"):  # what is not finite is found by the check
        for start, operators in _blocks(views, folds):
            seen = start + operators[0].shape[0]
            if seen <= folds.rows:
                sweep.add(operators, start)
    if seen != folds.rows:
        names = " and ".join(view.name for view in views)
        raise InvalidProblem(f"the splits must be of the rows of {names}; got {folds.rows} for {seen} rows.")
    return sweep.finished()


def _blocks(views: list[View], folds: Folds) -> Iterator[tuple[int, list[LinearOperator]]]:
    if any(view.streamed for view in views):
        yield from common_blocks(views)
        return
    n = views[0].operator.shape[0]
    rows = n
    if not _by_pairs(views):
        rows = max(gram_rows(views, ROWS_A_CELL * len(folds.cells)), ROWS_A_CELL)
    for start in range(0, n, rows):
        some = slice(start, min(start + rows, n))
        yield start, [view.operator.rows(some) for view in views]
        for view in views:
            view.operator.release()


def _by_pairs(views: Sequence[View]) -> bool:
    """Whether sparse rows are multiplied as sparse matrices."""
    if not all(isinstance(view.operator, SparseOperator) and view.taken is None for view in views):
        return False
    return cost.sparse_gram_is_cheaper(cost.sizes_of(*_two([view.operator for view in views]), 1))


def _two(operators: Sequence[Any]) -> tuple[Any, Any]:
    return operators[0], operators[1] if len(operators) > 1 else None


class _Sweep:
    """The sums of all cells, block after block."""

    def __init__(
        self, views: list[View], folds: Folds, weights: HostArray | None, confounds: HostArray | None
    ) -> None:
        self.views, self.cells = views, folds.cells
        self.weights, self.confounds = weights, confounds
        self.home: Home = views[0].given.home.blocks
        self.by_pairs = not any(view.streamed for view in views) and _by_pairs(views)
        width = sum(view.operator.shape[1] for view in views)
        self.width = width + (0 if confounds is None else confounds.shape[1])
        self._running: dict[int, tuple[RunningGram, Array]] = {}
        self._sparse: dict[int, RowSums] = {}
        self._counts = np.zeros((len(folds.cells), 2))

    def add(self, operators: Sequence[LinearOperator], start: int) -> None:
        """The rows of one block, each to its cells."""
        stop = start + operators[0].shape[0]
        rows = None
        if self.by_pairs:
            self._check_sparse(operators)
        for number, cell in enumerate(self.cells):
            own = cell[np.searchsorted(cell, start) : np.searchsorted(cell, stop)]
            if not own.size:
                continue
            w = None if self.weights is None else self.weights[own]
            self._counts[number] += (own.size, own.size) if w is None else (w.sum(), np.count_nonzero(w))
            if self.by_pairs:
                self._sparse[number] = self._of_pairs(operators, own)
                continue
            if rows is None:
                rows = self._dense(operators, start)
                self._check(rows, operators, start)
            self._add_dense(number, rows, own - start, w)

    def _dense(self, operators: Sequence[LinearOperator], start: int) -> Array:
        """The rows of all matrices and the confounds side by side, in float64."""
        blocks = []
        for view, A in zip(self.views, operators, strict=True):
            block = self.home.place(View("", A, center=False).stored_rows(slice(0, A.shape[0])))
            blocks.append(block if view.taken is None else block - self.home.place(view.taken)[None, :])
        if self.confounds is not None:
            blocks.append(self.home.place(self.confounds[start : start + operators[0].shape[0]]))
        return self.home.concat(blocks)

    def _check(self, rows: Array, operators: Sequence[LinearOperator], start: int) -> None:
        """Refuse entries that are not finite while the block is there."""
        if not np.isfinite(float(to_host(self.home.xp.sum(rows)))):
            self._explain(operators, start)

    def _explain(self, operators: Sequence[LinearOperator], start: int) -> None:
        for i, (row, column, value) in sorted(FirstNonFinite().part(operators, start).items()):
            raise NonFiniteData(
                f"{self.views[i].name} must be finite; got {value} at row {row}, column {column}. Drop or impute such "
                "rows."
            )

    def _add_dense(self, number: int, rows: Array, own: HostArray, w: HostArray | None) -> None:
        xp = self.home.xp
        some = xp.take(rows, xp.asarray(own, device=self.home.device), axis=0)
        if number not in self._running:
            self._running[number] = RunningGram(self.home), some[0, :] + 0.0
        running, origin = self._running[number]
        some -= origin[None, :]
        running.add_rows([some], None if w is None else self.home.place(w))

    def _of_pairs(self, operators: Sequence[Any], rows: HostArray) -> RowSums:
        """Sparse rows by the products of their entries, about zero; columns that this would cancel one by one."""
        matrix = scipy.sparse.hstack([A.matrix[rows] for A in operators], format="csr").astype(np.float64)
        w = np.ones(len(rows)) if self.weights is None else self.weights[rows]
        Z = np.zeros((len(rows), 0)) if self.confounds is None else self.confounds[rows]
        p, count = matrix.shape[1], float(w.sum())
        gram = np.empty((self.width, self.width))
        gram[:p, :p] = sparse_kernels.gram(SparseOperator(matrix).times_rows(np.sqrt(w))).toarray()
        origin, mean = np.zeros(self.width), matrix.T @ w / (count or 1.0)
        squares = np.diag(gram)[:p]
        worst = np.flatnonzero(squares - count * mean**2 < squares / CANCELS)
        gram[:p, :p] -= np.outer(mean * count, mean)
        mean = np.concatenate([mean, np.zeros(self.width - p)])
        apart = np.concatenate([worst, np.arange(p, self.width)])
        D = np.hstack([matrix[:, worst].toarray(), Z])
        origin[apart] = D[0]
        D -= D[:1].copy()
        mean[apart] = w @ D / (count or 1.0)
        D -= mean[apart]
        gram[:p, apart] = matrix.T @ (D * w[:, None])
        gram[apart, :p] = gram[:p, apart].T
        gram[np.ix_(apart, apart)] = D.T @ (D * w[:, None])
        return RowSums(count, 0, origin, mean, gram)

    def _check_sparse(self, operators: Sequence[Any]) -> None:
        if not all(np.isfinite(np.sum(A.matrix.data)) for A in operators):
            self._explain(operators, 0)

    def finished(self) -> list[RowSums]:
        """The sums of each cell, on the host."""
        found = []
        for number, (count, rows) in enumerate(self._counts.tolist()):
            if number in self._sparse:
                sums = self._sparse[number]
                origin, mean, gram = sums.origin, sums.mean, sums.gram
            else:
                running, first = self._running.pop(number)
                origin, mean, gram = (to_host(a) for a in (first, running.means[0], running.gram.Sx))
            if not (np.isfinite(np.sum(mean)) and np.isfinite(np.diag(gram)).all()):
                names = " and ".join(view.name for view in self.views)
                raise NonFiniteData(f"the squares of {names} overflow. Scale the columns.")
            found.append(RowSums(count, int(rows), origin, mean, gram))
        return found
