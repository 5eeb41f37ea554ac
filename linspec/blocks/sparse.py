"""SciPy's sparse matrices in compressed rows (CSR), multiplied by its compiled loops in slabs of rows.

Zeros stay zeros. X V is about a row all the same, since (X - 1 oᵀ) V = XV - 1(oᵀV). So are the sums of columns: stored
entries are summed minus the row, and the zeros that are not stored by their number. Xᵀ U and Gram matrices are about 0,
and means are taken out of them afterwards. Where means are so far above the deviations that this loses digits
(`FarBlock`), they are about the row, too, for twice the products. The kernels, and what was measured about the size of
slabs, and sparse Gram products stand in `linspec.blocks.sparse_loops`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse

from linspec.arrays import Array, DType, HostArray, working_dtype
from linspec.blocks.base import (
    DENSE_RATE,
    SPARSE_RATE,
    Block,
    LinearOperator,
    Rows,
    first_shares,
)
from linspec.blocks.sparse_loops import (
    ENTRIES_PER_FOLD,
    LONGEST_STRETCH,
    SHORTEST_STRETCH,
    Slab,
    gram,
    gram_entries,
    pair_count,
    row_block,
)

__all__ = ["Sparse", "SparseBlock"]

ENTRIES_PER_BLOCK, MOST_ENTRIES = 2**19, 2**22
"""Stored entries of a block: its product should fit a cache; more where the sum is large, as a block should use each
column several times."""

LEAST = 1e-154
"""Numbers below this have squares that lose digits."""

CHEAP_COLUMNS = 8
"""Columns of a thin block below which a product costs about as much."""

PAIR_RATE = 1e8
"""Operations a second of Gram matrices of sparse rows."""

FULL = 0.1
"""Share of stored entries above which rows are multiplied as dense ones for a Gram matrix."""


class SparseBlock(Block):
    """Rows `start` to `stop` - 1 of a CSR matrix, without a copy."""

    @property
    def subtracts(self) -> bool:  # type: ignore[override]
        """Whether means are far above deviations."""
        return self.far

    def __init__(
        self,
        matrix: Any,
        dtype: DType,
        start: int,
        stop: int,
        slab: Slab | None = None,
        row: HostArray | None = None,
        *,
        far: bool = False,
    ) -> None:
        self.matrix, self.dtype, self.start, self.slab, self.row = matrix, dtype, start, slab, row
        self.far = far
        self.rows, self.columns = stop - start, matrix.shape[1]
        self.entries = int(matrix.indptr[stop]) - int(matrix.indptr[start])

    def origin(self, w: Array | None) -> HostArray:
        shares = first_shares(w, self.rows)
        return self.cut(0, len(shares))._wide(None).T @ shares

    def about(self, row: Array | None) -> SparseBlock:
        start, stop = self.start, self.start + self.rows
        slab = Slab.of(self.matrix, start, stop, self.dtype)
        kind = FarBlock if self.far and row is not None else SparseBlock
        return kind(self.matrix, self.dtype, start, stop, slab, row, far=self.far)

    def times(self, V: Array) -> HostArray:
        shift = 0.0 if self.row is None else self.row.astype(self.dtype, copy=False) @ V
        out = np.empty((self.rows, V.shape[1]), self.dtype)
        out[...] = -shift
        self._multiplied.gather(np.ascontiguousarray(V), out)
        return out

    def t_times(self, U: Array, out: Array) -> None:
        U = np.ascontiguousarray(U, self.dtype)
        if self.dtype == out.dtype and out.flags.c_contiguous:
            self._multiplied.scatter(U, out)
            return
        stretch = ENTRIES_PER_FOLD * self.columns * self.rows // max(self.entries, 1)
        stretch = min(max(stretch, SHORTEST_STRETCH), LONGEST_STRETCH)  # float32 sums stay short
        for start in range(0, self.rows, stretch):
            stop = min(start + stretch, self.rows)
            single = np.zeros(out.shape, self.dtype)
            self.cut(start, stop)._multiplied.scatter(U[start:stop], single)
            out += single

    def sums(self, w: Array | None, *, squares: bool, exact: bool) -> tuple[HostArray, HostArray | None]:
        slab = self._multiplied.without_duplicates()
        row = np.zeros(self.columns) if self.row is None else self.row.astype(np.float64)
        gaps = slab.data - row[slab.indices]
        counts = None if w is None else np.repeat(w, np.diff(slab.indptr))
        stored = np.bincount(slab.indices, minlength=self.columns)
        absent = self.rows - stored.astype(np.float64)
        if w is not None and counts is not None:
            absent = np.where(absent > 0, w.sum() - np.bincount(slab.indices, counts, self.columns), 0.0)
        weighted = gaps if counts is None else gaps * counts
        total = np.bincount(slab.indices, weighted, self.columns) - absent * row
        if not squares:
            return total, None
        about = np.bincount(slab.indices, weighted * gaps, self.columns) + absent * row**2
        faint = (gaps != 0) & (np.abs(gaps) < LEAST)
        about[slab.indices[faint]] += np.finfo(np.float64).tiny
        return total, about

    def gram(self, w: Array | None, other: Any) -> Any:
        if not (other.subtracts or isinstance(other, SparseBlock)):
            return other.gram(w, self).T
        X = self._wide(w)
        if other.subtracts:
            return X.T @ other.dense()
        if max(self.entries, other.entries) > FULL * self.rows * max(self.columns, other.columns):
            G = X.T @ other._wide(None).toarray()
        else:
            G = gram(X, None if other is self and w is None else other._wide(None))
        faint = X.indices[(X.data != 0) & (np.abs(X.data) < LEAST)] if other is self else []
        if len(faint) == 0:
            return G
        tiny = np.bincount(faint, minlength=self.columns) * np.finfo(np.float64).tiny
        return G + scipy.sparse.diags_array(tiny).tocsr()

    def inner(self, other: Block, D: Array | None) -> Array:
        if self.row is not None or not isinstance(other, SparseBlock):
            return super().inner(other, D)
        right = other._wide(None)
        right = right if D is None else right.multiply(D).tocsr()
        return (self._wide(None) @ right.T).toarray()

    def row_squares(self, D: Array | None) -> HostArray:
        X = self._wide(None)
        row = np.zeros(self.columns) if self.row is None else self.row
        factors = np.ones(self.columns) if D is None else D
        X.data = X.data * (X.data - 2 * row[X.indices]) * factors[X.indices]  # (x - o)² - o²
        return np.maximum(np.asarray(X.sum(axis=1)) + float(factors @ row**2), 0.0)

    def dense(self) -> HostArray:
        rows: HostArray = self._wide(None).toarray()
        return rows if self.row is None else rows - self.row

    def cut(self, start: int, stop: int) -> SparseBlock:
        ends = self.start + start, self.start + stop
        return type(self)(self.matrix, self.dtype, *ends, None, self.row, far=self.far)

    def take(self, rows: HostArray) -> SparseBlock:
        return SparseBlock(self.matrix[self.start + rows], self.dtype, 0, len(rows), far=self.far)

    def edges(self, sum_bytes: int) -> list[int]:
        height = max(ENTRIES_PER_BLOCK, min(sum_bytes // 4, MOST_ENTRIES))
        rows = max(LONGEST_STRETCH, sum_bytes // 64)
        parts = max(self.entries // height, self.rows // rows) + 1
        if parts == 1:
            return [0, self.rows]
        ends = self.matrix.indptr[self.start : self.start + self.rows + 1]
        stored = np.searchsorted(ends, np.linspace(ends[0], ends[-1], parts + 1))
        even = np.linspace(0, self.rows, self.rows // rows + 2).astype(int)
        return np.unique([*stored[1:-1], *even]).tolist()

    @property
    def _multiplied(self) -> Slab:
        return self.slab if self.slab is not None else self.about(None)._multiplied

    def _wide(self, w: Array | None) -> Any:
        """The rows in float64, times their weights."""
        rows = row_block(self.matrix, self.start, self.start + self.rows)
        rows.data = rows.data.astype(np.float64, copy=False)
        if w is not None:
            rows.data = rows.data * np.repeat(w, np.diff(rows.indptr))
        return rows


class FarBlock(SparseBlock):
    """Rows of columns whose means are far above their deviations, about the row: stored entries minus the row.

    The zeros that are not stored are -row; their part of a product is that of all rows without that of stored entries,
    for columns that have such zeros.
    """

    row_squares = Block.row_squares

    def __init__(self, *args: Any, **words: Any) -> None:
        super().__init__(*args, **words)
        slab, row = self._multiplied.without_duplicates(), np.asarray(self.row)
        full = np.bincount(slab.indices, minlength=self.columns) == self.rows
        self.absent = np.where(full, 0.0, row)[:, None].astype(self.dtype)
        self.ones = slab._replace(data=np.ones_like(slab.data))
        self.gaps = slab._replace(data=(slab.data - row[slab.indices]).astype(self.dtype))

    def times(self, V: Array) -> HostArray:
        V = np.ascontiguousarray(V)
        out = np.zeros((self.rows, V.shape[1]), self.dtype)
        self.gaps.gather(V, out)
        if self.absent.any():
            self.ones.gather(np.ascontiguousarray(self.absent * V), out)
            out -= self.absent.T @ V
        return out

    def t_times(self, U: Array, out: Array) -> None:
        U = np.ascontiguousarray(U, self.dtype)
        stored, counts = np.zeros((2, self.columns, U.shape[1]), self.dtype)
        self.gaps.scatter(U, stored)
        self.ones.scatter(U, counts)
        out += stored - self.absent * (U.sum(axis=0) - counts)

    def gram(self, w: Array | None, other: Block) -> Any:
        Y = other if other.subtracts else other.about(None)
        X = self.dense()
        return (X if w is None else X * w[:, None]).T @ Y.dense()


class Sparse(Rows):
    """A SciPy sparse matrix.

    Parameters
    ----------
    matrix : scipy.sparse array or matrix of shape (n, p)
        Real numbers in any format; formats other than CSR are converted, which copies them.
    name : str, default "data"
        The name in messages.
    """

    def __init__(self, matrix: Any, name: str = "data") -> None:
        self.dtype, self.name = working_dtype(matrix.dtype, name), name
        self.matrix = scipy.sparse.csr_array(matrix)
        self.cheap_columns = CHEAP_COLUMNS
        self.shape, self.resident = self.matrix.shape, True

    def product_seconds(self, columns: int) -> float:
        return 4 * int(self.matrix.indptr[-1]) * (columns + 4) / SPARSE_RATE

    def gram_entries(self, other: LinearOperator) -> float:
        if not isinstance(other, Sparse):
            return super().gram_entries(other)
        return min(gram_entries(self.matrix, other.matrix), super().gram_entries(other))

    def gram_seconds(self) -> float:
        pairs = pair_count(self.matrix) / PAIR_RATE
        return float(min(pairs, 2 * self.shape[0] * float(self.shape[1]) ** 2 / DENSE_RATE))

    def blocks(self) -> Iterator[Block]:
        yield SparseBlock(self.matrix, self.dtype, 0, int(self.shape[0]), far=self.far)
