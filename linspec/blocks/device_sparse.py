"""Sparse matrices of CuPy in compressed rows (CSR), multiplied by cuSPARSE on their device.

Zeros stay zeros, as in `sparse`. Products with Xᵀ take a transpose that is stored as CSR: they need a third of the time
of Xᵀ as CSC, and no atomic operations. So rows are cut once, and every block keeps its transpose, which doubles the
memory. cuSPARSE does not fix the order of its sums: two products of the same matrices differ by rounding. It multiplies
column-major blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from linspec.arrays import Array, Device, HostArray, on_device, working_dtype
from linspec.blocks.base import Block, Rows, first_shares, rows_per_block
from linspec.blocks.dense import TINY

__all__ = ["DeviceSparse", "DeviceSparseBlock"]

ENTRY_BYTES = 12
"""Bytes of a stored entry, with its column."""


class DeviceSparseBlock(Block):
    """Some rows X of a CSR matrix whose indices are in order, and their transpose."""

    subtracts = False

    def __init__(self, X: Any, XT: Any = None, row: Array | None = None) -> None:
        self.X, self.row, self.asarray = X, row, Device.of(X.data)
        (self.rows, self.columns), self.entries = X.shape, int(X.nnz)
        self.XT = X.T.tocsr() if XT is None else XT
        X.has_canonical_format = self.XT.has_canonical_format = True  # CuPy looks again otherwise

    def origin(self, w: Array | None) -> Array:
        shares = first_shares(w, self.rows)
        return self.X[: len(shares), :].astype("float64").T @ self.asarray.asarray(shares)

    def about(self, row: Array | None) -> DeviceSparseBlock:
        return DeviceSparseBlock(self.X, self.XT, row)

    def times(self, V: Array) -> Array:
        shift = 0.0 if self.row is None else (self.row @ V)[None, :]
        return self.X @ V.copy(order="F") - shift

    def t_times(self, U: Array, out: Array) -> None:
        out += self.asarray.asarray(self.XT @ U.copy(order="F"))

    def sums(self, w: Array | None, *, squares: bool, exact: bool) -> tuple[Array, Array | None]:
        ones = self.asarray.ones((self.rows,))
        entry_ones = self.asarray.ones((self.entries,))
        counts, xp = ones if w is None else w, self.asarray.xp
        row = self.asarray.zeros((self.columns,)) if self.row is None else self.asarray.asarray(self.row)
        gaps = self.asarray.asarray(self.X.data) - row[self.X.indices]
        absent = xp.sum(counts) - self._by_column(entry_ones, counts)
        absent = xp.where(self._by_column(entry_ones, ones) == self.rows, 0.0, absent)
        total = self._by_column(gaps, counts) - absent * row
        positive = gaps * gaps + TINY * xp.astype(gaps != 0, xp.float64)
        return total, self._by_column(positive, counts) + absent * row**2 if squares else None

    def _by_column(self, values: Array, u: Array) -> Array:
        """Xᵀu for other stored values."""
        return type(self.X)((values, self.X.indices, self.X.indptr), shape=self.X.shape).T @ u

    def gram(self, w: Array | None, other: Block) -> Array:
        Y = (other if other.subtracts else other.about(None)).dense()
        Y = Y if w is None else Y * w[:, None]
        return self.XT.astype("float64") @ Y.copy(order="F")

    def dense(self) -> Array:
        X = self.asarray.asarray(self.X.toarray())
        return X if self.row is None else X - self.row[None, :]

    def cut(self, start: int, stop: int) -> DeviceSparseBlock:
        return self if stop - start == self.rows else DeviceSparseBlock(self.X[start:stop, :], None, self.row)

    def take(self, rows: HostArray) -> Block:
        return DeviceSparseBlock(self.X[self.asarray.xp.asarray(rows)])

    def edges(self, sum_bytes: int) -> list[int]:
        dense = sum_bytes >= 8 * self.columns**2  # a Gram matrix takes dense rows
        height = rows_per_block(8 * self.columns, on_host=False) if dense else self.rows
        return [*range(0, self.rows, height), self.rows]


class DeviceSparse(Rows):
    """A sparse matrix of `cupyx.scipy.sparse` in compressed rows, whose indices are in order.

    Parameters
    ----------
    matrix : cupyx.scipy.sparse.csr_matrix of shape (n, p)
        Each entry is stored once, in the precision of products.
    name : str, default "data"
        The name in messages.
    """

    def __init__(self, matrix: Any, name: str = "data") -> None:
        self.dtype, self.device, self.name = working_dtype(matrix.dtype, name), Device.of(matrix.data), name
        self.shape, self.resident, n = tuple(matrix.shape), True, matrix.shape[0]
        with on_device(matrix):
            height = rows_per_block(matrix.nnz * ENTRY_BYTES // max(n, 1), on_host=False)
            self._blocks = [DeviceSparseBlock(matrix[a : a + height, :]) for a in range(0, n, height)]

    def blocks(self) -> Iterator[Block]:
        return iter(self._blocks)
