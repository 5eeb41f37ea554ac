"""Gram products and Gram matrices of rows that come slice by slice, in one sweep, centred or not.

Problem: an iterator of slices is read once, so means cannot be learnt before the products are made.
Method: every block of slices is multiplied by the same kernels as data in memory, and the sums are added up in
float64. With centring, a block is taken about the mean m of the rows before it. With d its own mean less m,

    AᵀAV about all means  =  that of the rows before  +  (the block's about m)  −  n²/(N + n) d (dᵀV)

for N rows before and n in the block, which is the update of Chan, Golub & LeVeque (1983,
doi:10.1080/00031305.1983.10483115) about another point. Half of a product cancels at most while blocks do not grow; a
block that is much longer than all before it is taken about its own mean. Sparse slices stay sparse.
Where we differ: d comes with the products, as the sums of the centred rows, so that no entry is read twice.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from linspec import cost, machine
from linspec.arrays import Array, Home, HostArray, to_host
from linspec.column_statistics import ColumnStatistics
from linspec.errors import NonFiniteData
from linspec.gram import DenseGram, RunningGram
from linspec.operators import LinearOperator, SparseOperator, sparse_kernels, uncounted
from linspec.operators.row_blocks import RowBuffer, row_blocks
from linspec.row_sweep import FEWEST_BLOCKS, Asked, in_threads, sweep
from linspec.scaling import without_large_means
from linspec.views import FloatRows, View, explain_non_finite, gram_blocks

FEWEST_REDUCED = 1024
"""Rows that are reduced to a triangle together, at least."""

LONGER = 4
"""How many times longer than all rows before a block may be and still be taken about their mean."""


def sliced_product(view: View, V: Array, home: Home, *, center: bool) -> Array:
    """AᵀA V of a streamed view, about the column means or not: one sweep, which tells the means as well.

    Parameters
    ----------
    view : View
        Of a streamed operator.
    V : array of shape (p, k)
    home : Home
        Where the result is wanted.
    center : bool

    Returns
    -------
    array of shape (p, k), float64
    """
    if view.taken is not None:  # the means are known
        return _about_a_row(view, V, home)
    running = RunningProduct(V, home, center=center)
    spread = ColumnStatistics(home) if center and view.operator.sparse else None
    for block in view.operator.blocks():
        running.add(block)
        if spread is not None:
            spread.add(block)
        _refuse_non_finite(running.product, view, home)
    _teach(view, running, spread)
    return running.product


def _teach(view: View, running: RunningProduct, spread: ColumnStatistics | None) -> None:
    """Tell the view what a sweep has gathered of its columns on the way."""
    view.mean = running.mean + 0.0
    if spread is not None:
        view.squares = spread.spread


def _about_a_row(view: View, V: Array, home: Home) -> Array:
    total = home.zeros(tuple(V.shape))
    for block in view.operator.blocks():
        total += _multiplied(block, V, view.taken, home)[0]
        _refuse_non_finite(total, view, home)
    return total


def sliced_triangle(
    view: View, V: Array, columns: int, home: Home, *, center: bool
) -> tuple[Array, HostArray]:
    """AᵀA V of a streamed view, and the triangle R of the QR factorisation of A V, in one sweep.

    Parameters
    ----------
    view : View
        Of a streamed operator.
    V : array of shape (p, k)
    columns : int
        How many columns of V the triangle is of.
    home : Home
        Where the product is wanted.
    center : bool
        A leading column of ones takes the means out of R by the same transformations.

    Returns
    -------
    array of shape (p, k), host array of shape (columns, columns), or with fewer rows
    """
    running, triangle = RunningProduct(V, home, center=center), _Triangle(columns, center=center)
    spread = ColumnStatistics(home) if center and view.operator.sparse else None
    origin: Array = None
    for block in view.operator.blocks():
        about = running.point(block)
        origin = about if origin is None else origin
        shift = None if about is None else to_host((about - origin) @ V[:, :columns])
        runs = [_ImageRun(block, rows, V, columns, about, shift, home) for rows in _runs_of(block, V)]
        in_threads(_ImageRun.work, runs)
        for run in runs:
            running.merge(run.product, run.sums, run.rows[-1].stop - run.rows[0].start, about)
            triangle.add(run.triangle.rows())
        if spread is not None:
            spread.add(block)
        _refuse_non_finite(running.product, view, home)
    _teach(view, running, spread)
    return running.product, triangle.finished()


def _runs_of(block: LinearOperator, V: Array) -> list[list[slice]]:
    """The row blocks of a block, in runs of some after each other: one for each core."""
    row_bytes = View("", block, center=False).row_bytes
    blocks = list(row_blocks(block.shape[0], row_bytes, block.home, 8 * V.shape[0] * V.shape[1]))
    count = max(1, min(machine.cpu_count(), len(blocks) // FEWEST_BLOCKS)) if block.home.on_host else 1
    cuts = [len(blocks) * i // count for i in range(count + 1)]
    return [blocks[a:b] for a, b in pairwise(cuts)]


class _ImageRun:
    """Some row blocks after one another: AᵀA V, Aᵀ1 and the triangle of A V, about a point."""

    def __init__(
        self,
        block: LinearOperator,
        rows: list[slice],
        V: Array,
        columns: int,
        about: Array | None,
        shift: HostArray | None,
        home: Home,
    ) -> None:
        self.block, self.rows, self.V, self.home = block, rows, V, home
        self.about, self.shift, self.columns = about, shift, columns
        self.triangle = _Triangle(columns, center=about is not None)
        self.product, self.sums = home.zeros(tuple(V.shape)), home.zeros((V.shape[0],))

    def work(self) -> None:
        buffer, k = RowBuffer(), self.V.shape[1]
        with np.errstate(all="ignore"):  # what is not finite is found in the sums
            for rows in self.rows:
                part = self.block.rows(rows)
                slab = (part if self.about is None else part.centered(self.about)).loaded(buffer)
                Y = slab.matmat(self.V)
                ones = slab.home.place(np.ones((Y.shape[0], 1)), slab.dtype)
                both = slab.rmatmat(slab.home.concat([Y, ones]))
                self.product += both[:, :k]
                self.sums += both[:, k]
                image = np.array(to_host(Y[:, : self.columns]), dtype=np.float64)
                # All rows about one point: the transformations take the rest out.
                self.triangle.add_image(image if self.shift is None else image + self.shift)


class _Triangle:
    """R of the QR factorisation of rows that come some at a time, or of those rows less their mean."""

    def __init__(self, columns: int, *, center: bool) -> None:
        self._center = center
        self._held: list[HostArray] = [np.zeros((0, columns + center))]
        self._rows = 0

    def add_image(self, rows: HostArray) -> None:
        """Take in some rows, behind a column of ones where their mean is to be taken out."""
        self.add(np.hstack([np.ones((len(rows), 1)), rows]) if self._center else rows)

    def add(self, rows: HostArray) -> None:
        """Take in rows that are complete."""
        self._held.append(rows)
        self._rows += len(rows)
        if self._rows >= max(FEWEST_REDUCED, 4 * rows.shape[1]):
            self._reduce()

    def _reduce(self) -> None:
        R: Any = np.linalg.qr(np.vstack(self._held), mode="r")  # an array, whatever NumPy's types say
        self._held, self._rows = [R], 0

    def rows(self) -> HostArray:
        """Few rows in place of all."""
        self._reduce()
        return self._held[0]

    def finished(self) -> HostArray:
        """The triangle, less what the column of ones has taken out."""
        R = self.rows()
        return R[1:, 1:] if self._center else R


class RunningProduct:
    """AᵀA V of the rows so far, about their means or not.

    Parameters
    ----------
    V : array of shape (p, k), float64
    home : Home
        Where V lives.
    center : bool

    Attributes
    ----------
    product : array of shape (p, k)
    mean : array of shape (p,)
        Column means of the rows so far.
    count : int
        How many they are.
    """

    def __init__(self, V: Array, home: Home, *, center: bool) -> None:
        self.home, self.V, self.center = home, V, center
        self.product = home.zeros(tuple(V.shape))
        self.mean = home.zeros((V.shape[0],))
        self.count = 0

    def add(self, block: LinearOperator) -> None:
        """Take in the rows of a block."""
        about = self.point(block)
        found, sums = _multiplied(block, self.V, about, self.home)
        self.merge(found, sums, block.shape[0], about)

    def merge(self, found: Array, sums: Array, rows: int, about: Array | None) -> None:
        """Take in AᵀA V and the column sums of some rows, both about a point."""
        gap = sums / rows  # the mean less the point
        self.product += found
        total = self.count + rows
        if about is None:
            self.mean = self.mean + (gap - self.mean) * (rows / total)
        else:
            step = (about - self.mean) + gap
            # About their own mean, and from there to that of all: the two terms are one where about is the mean.
            self.product -= gap[:, None] * ((rows * gap) @ self.V)[None, :]
            self.product += step[:, None] * ((self.count * (rows / total) * step) @ self.V)[None, :]
            self.mean = self.mean + step * (rows / total)
        self.count = total

    def point(self, block: LinearOperator) -> Array | None:
        """About what a block is to be taken: the mean of the rows before it, or its own."""
        if not self.center:
            return None
        sparse = isinstance(block, SparseOperator)
        if sparse or block.shape[0] > LONGER * self.count:
            return block_mean(block, self.home)
        return self.mean


def block_mean(block: LinearOperator, home: Home) -> Array:
    """The column means of a block: about them nothing cancels, and that is all they are for."""
    ones = block.home.place(np.ones((block.shape[0], 1)), block.dtype)
    return home.place(block.rmatmat(ones))[:, 0] / block.shape[0]


def _multiplied(block: LinearOperator, V: Array, about: Array | None, home: Home) -> tuple[Array, Array]:
    """AᵀA V and Aᵀ 1 of a block about a point, on the kernels for data in memory."""
    if isinstance(block, SparseOperator):
        shift = None if about is None else about @ V
        found, _, _, _, total, _ = sparse_kernels.products(
            block.matrix, None, V, None, shift_x=shift, dtype_x=block.dtype
        )
        if about is None:
            return found, block_mean(block, home) * block.shape[0]
        return found - about[:, None] * np.asarray(total)[None, :], home.zeros((V.shape[0],))
    view = View("", block if about is None else block.centered(about), center=False)
    (both,) = sweep([view], Asked([V, None], [None, None], home, sums=True), home)
    return both[:, : V.shape[1]], both[:, V.shape[1]]


def sliced_gram(view: View, home: Home, *, center: bool) -> DenseGram:
    """AᵀA of a streamed view, about the column means or not, and the means: one sweep.

    The rows of sparse slices are multiplied as a sparse matrix or filled up first, whichever is cheaper.
    """
    taken = view.taken
    center = center and taken is None  # else the means are known
    running = RunningGram(home)
    gram = running.gram if center else DenseGram()
    total, count = home.zeros((view.operator.shape[1],)), 0
    origin: Array = None
    buffer = RowBuffer()
    for block in view.operator.blocks():
        sparse = isinstance(block, SparseOperator)
        if origin is None:  # sparse rows are not taken about their first, which would fill them
            origin = home.zeros((block.shape[1],)) if sparse else _first_row(block, home)
        if sparse and taken is None and cost.sparse_gram_is_cheaper(cost.sizes_of(block, None, 1)):
            _add_sparse(running, gram, block, center=center)
        else:
            slabs = FloatRows(View("", block, center=False), home, about_first=False, buffer=buffer)
            slabs.less = origin if center and not sparse else taken
            for rows in gram_blocks([slabs.view], block.shape[0]):
                # With centring these are copies, which the running sums may overwrite.
                (running if center else gram).add_rows([slabs.read(rows)])
        if not center:
            total, count = total + block_mean(block, home) * block.shape[0], count + block.shape[0]
        _refuse_non_finite(home.xp.linalg.diagonal(gram.Sx), view, home)
    if view.mean is None:
        view.mean = origin + running.means[0] if center else total / count
    return gram


def _first_row(block: LinearOperator, home: Home) -> Array:
    return home.place(block.rows(slice(0, 1)).dense())[0, :] + 0.0  # a copy


def _add_sparse(running: RunningGram, gram: DenseGram, given: SparseOperator, *, center: bool) -> None:
    block, row = without_large_means(given) if center else (given, None)
    S = sparse_kernels.gram(block.matrix).toarray()  # type: ignore[attr-defined]  # it stays sparse
    if not center:
        gram.add_gram(S)
        return
    mean = block_mean(block, running.home)
    S -= np.outer(mean * block.shape[0], mean)
    running.add_gram(S, mean if row is None else mean + row, block.shape[0])


def sliced_statistics(view: View, home: Home) -> ColumnStatistics:
    """Means and spreads of the columns of a streamed view: one sweep."""
    gathered = ColumnStatistics(home)
    for block in view.operator.blocks():
        gathered.add(block)
        _refuse_non_finite(gathered.mean, view, home)
    return gathered


def read_stream(A: LinearOperator, *, statistics: bool) -> None:
    """Read streamed data once to count their rows and, if they are wanted, to gather means and spreads."""
    bare, _ = uncounted(A)
    gathered = ColumnStatistics(A.home.blocks) if statistics else None
    with np.errstate(all="ignore"):  # what is not finite is found by the products
        for block in A.blocks():
            if gathered is not None:
                gathered.add(block)
    bare.statistics = gathered  # type: ignore[attr-defined]


def _refuse_non_finite(found: Array, view: View, home: Home) -> None:
    """While the block is there: rows that are read once cannot be searched afterwards."""
    if not np.isfinite(float(to_host(home.xp.sum(found)))):
        raise NonFiniteData(explain_non_finite({view.name: view.operator}))
