"""Rows that are held in memory because they cannot be read some at a time from their file.

Problem: a matrix that is compressed by columns (CSC), as AnnData may write it, gives columns and no rows. An array in
an `.npz` file can only be read whole.
Method: such a matrix is read into memory once, when it is opened. Compressed columns are transposed in two readings, a
stretch of columns at a time: the first counts the entries of each row, the second puts each entry in its place. So at
most the result and one stretch are held. A matrix that needs more than half of the free memory is refused.
Source: the usual transposition of a compressed matrix by counting, Gustavson 1978, doi:10.1145/355791.355796.
Where we differ from ``scipy.sparse.csc_array.tocsr`` of the whole: entries by columns and by rows are never held
together.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse

from linspec import cost
from linspec.arrays import HOST, HostArray, working_dtype
from linspec.errors import InvalidProblem, UnsupportedData, called
from linspec.operators import DenseOperator
from linspec_files.slabs import SLAB_BYTES, RowSource, slab_edges
from linspec_files.stored import Stored, checked_starts, compressed_edges, dtype_of_sparse

__all__ = ["HeldRows", "VectorOperator", "rows_of_columns"]

MOST = 0.5
"""Largest share of the free memory that a matrix read into memory may take."""


class HeldRows(RowSource):
    """A matrix in memory.

    Parameters
    ----------
    name : str
        The name of the matrix in messages.
    matrix : numpy.ndarray or scipy.sparse.csr_array
        A vector becomes a column.
    column_names : tuple of str, optional
    row_names : sequence, optional
    """

    decodes = False

    def __init__(
        self, name: str, matrix: Any, column_names: tuple[str, ...] | None = None, row_names: Any = None
    ) -> None:
        self.vector = matrix.ndim == 1
        self.matrix = matrix.reshape(-1, 1) if self.vector else matrix
        self.name, self.column_names, self.row_names = name, column_names, row_names
        self.shape = (int(self.matrix.shape[0]), int(self.matrix.shape[1]))
        self.sparse = scipy.sparse.issparse(matrix)
        self.stored_dtype = np.dtype(matrix.dtype)
        with called(name):
            working_dtype(self.stored_dtype)
        row_bytes = self.stored * (self.stored_dtype.itemsize + 4 * self.sparse) // max(self.shape[0], 1)
        self.edges = slab_edges(self.shape[0], 1, row_bytes)

    @property
    def stored(self) -> int:
        return int(self.matrix.nnz) if self.sparse else self.shape[0] * self.shape[1]

    @property
    def slab_bytes(self) -> int:
        """No bytes, since slabs are parts of the matrix."""
        return 0

    def read(self, rows: slice) -> Any:
        """Return the rows of a slab."""
        return self.matrix[rows]

    def stamp(self, rows: slice) -> Any:  # rows in memory do not change
        """Return None, since rows in memory do not change."""
        return


class VectorOperator(DenseOperator):
    """Operator of a column (n x 1) that is stored in its file as a vector.

    `stored_array` is that vector, of shape (n,), as long as no mean is subtracted.
    """

    @property
    def stored_array(self) -> Any:
        return self.array[:, 0] if self.mean is None and self.shape[1] == 1 else super().stored_array


def check_room(name: str, needed: int, what: str, remedy: str) -> None:
    """Raise if a matrix that must be read into memory would take more than the share `MOST` of the free memory.

    Raises
    ------
    UnsupportedData
    """
    free = HOST.free_memory()
    if needed > max(MOST * free, 2 * SLAB_BYTES):
        raise UnsupportedData(
            f"{name} {what}. That takes {cost.human_bytes(needed)}, and {cost.human_bytes(free)} are free. {remedy}"
        )


def rows_of_columns(
    name: str, parts: Mapping[str, Stored], shape: tuple[int, int], missing: str = "warn"
) -> HeldRows:
    """Read a matrix that a file holds in compressed sparse columns, and return it in compressed rows, in memory.

    Parameters
    ----------
    name : str
    parts : mapping of str to Stored
        data, indices and indptr.
    shape : tuple of int
    missing : {"warn", "fill", "refuse", "nan"}
        How to treat missing chunks of the three arrays: see `stored.checked_starts`.

    Raises
    ------
    UnsupportedData
        The rows would take more than the share `MOST` of the free memory.
    InvalidProblem
        The arrays do not fit together, chunks are missing and refused, or the file has changed during the reading.
    """
    starts = checked_starts(name, parts, shape, shape[1], missing)
    count, n = int(starts[-1]), shape[0]
    data, indices = parts["data"], parts["indices"]
    with called(name):
        dtype = dtype_of_sparse(data.dtype)
    index = np.dtype(np.int32 if max(count, *shape) < 2**31 else np.int64)
    check_room(
        name,
        count * (dtype.itemsize + index.itemsize) + 3 * 8 * n + 2 * SLAB_BYTES,
        "is compressed by columns (csc_matrix), so its rows must be brought into memory together",
        "Write it again as a csr_matrix: X.tocsr() where there is room.",
    )
    stamps = [part.stamp(0, count) for part in (data, indices)]
    stretches = list(itertools.pairwise(compressed_edges(starts, data, indices).tolist()))
    lengths = np.zeros(n, dtype=np.int64)
    for first, last in stretches:
        rows = np.asarray(indices.read(int(starts[first]), int(starts[last])))
        _check_rows(name, rows, n)
        lengths += np.bincount(rows, minlength=n)
    pointers = np.concatenate([[0], np.cumsum(lengths)])
    entries, columns = np.empty(count, dtype), np.empty(count, index)
    free = pointers[:-1].copy()  # place of the next entry of each row
    for first, last in stretches:
        start, stop = int(starts[first]), int(starts[last])
        rows = np.asarray(indices.read(start, stop))
        _check_rows(name, rows, n)
        pointer = (starts[first : last + 1] - start).astype(np.int64)
        part = scipy.sparse.csc_array(
            (
                np.asarray(data.read(start, stop)).astype(dtype, copy=False),
                rows.astype(index, copy=False),
                pointer,
            ),
            shape=(n, last - first),
        ).tocsr()
        taken = np.diff(part.indptr)
        places = np.repeat(free - part.indptr[:-1], taken) + np.arange(stop - start)
        if (free + taken > pointers[1:]).any():
            raise _changed(name)
        entries[places], columns[places] = part.data, part.indices + first
        free += taken
    if stamps != [part.stamp(0, count) for part in (data, indices)]:
        raise _changed(name)
    matrix = scipy.sparse.csr_array(shape, dtype=dtype)
    matrix.data, matrix.indices, matrix.indptr = entries, columns, pointers.astype(index)
    return HeldRows(name, matrix)


def _check_rows(name: str, rows: HostArray, n: int) -> None:
    """Raise if an index is not the number of a row: compiled code would then write to other memory."""
    if rows.dtype.kind not in "iu" or (rows.size and (rows.min() < 0 or rows.max() >= n)):
        raise InvalidProblem(
            f"{name} is no matrix of compressed sparse columns: its indices must be rows from 0 to {n - 1}. The "
            "file is damaged: write it again."
        )


def _changed(name: str) -> InvalidProblem:
    return InvalidProblem(f"{name} has changed while it was read. Leave files as they are, and solve again.")
