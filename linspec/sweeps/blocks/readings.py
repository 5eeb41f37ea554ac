"""Reading blocks: the form in which a block is stored, and the operator that is made of it in each pass.

A block is converted once, on its worker, to a form that costs nothing to read: a NumPy array or a CSR matrix. `look`
returns the facts about a block that are needed before the first sweep.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec.arrays import HOST, is_array, largest_magnitude
from linspec.errors import UnsupportedData
from linspec.operators import DenseOperator, LinearOperator, SparseOperator, as_operator, sparse_grams

SAMPLED_ROWS = 16
"""Number of evenly spread rows of a block that are searched for the largest magnitude."""


@dataclass(frozen=True)
class Reading:
    """The way in which the blocks of one matrix are read.

    Parameters
    ----------
    dtype : numpy.dtype
        The dtype of products.
    """

    dtype: np.dtype[Any]

    def operator(self, block: Any) -> LinearOperator:
        """The operator of a block in the form that `AsBlock` returns."""
        dense = isinstance(block, np.ndarray)
        return (
            DenseOperator(block, None, self.dtype)
            if dense
            else SparseOperator(block, self.dtype, checked=True)
        )


@dataclass(frozen=True)
class AsBlock:
    """Work that converts a given block to an array or a CSR matrix.

    Parameters
    ----------
    name : str
        The name of the data in messages.
    """

    name: str

    def __call__(self, number: int, given: Any) -> tuple[Any, tuple[str, ...] | None]:
        """Return the converted block, and the names of its columns."""
        what = f"block {number} of {self.name}"
        if is_array(given) and given.ndim == 1:
            given = given[:, None]
        A = as_operator(given, what)
        if A.home != HOST or not isinstance(A, DenseOperator | SparseOperator):
            raise UnsupportedData(
                f"{what} must be a NumPy array, a SciPy sparse matrix or a frame; got {type(given).__name__}. Convert "
                "the blocks."
            )
        return (A.matrix if isinstance(A, SparseOperator) else A.array), A.column_names


def block_of(_number: int, made: tuple[Any, Any]) -> Any:
    """Return the block from a result of `AsBlock`, without the names of columns."""
    return made[0]


@dataclass(frozen=True)
class Facts:
    """Size, dtypes and other facts about one block.

    Attributes
    ----------
    shape : (int, int)
    stored, working : numpy.dtype
        The dtype of the entries, and of products with them.
    sparse : bool
    nnz : int
        The number of stored entries.
    pairs : int
        The number of pairs of stored entries in the same row; 0 for arrays.
    largest : float
        The largest magnitude in some rows of the block.
    names : tuple of str or None
        The names of the columns.
    """

    shape: tuple[int, int]
    stored: np.dtype[Any]
    working: np.dtype[Any]
    sparse: bool
    nnz: int
    pairs: int
    largest: float
    names: tuple[str, ...] | None

    @property
    def bytes(self) -> int:
        """The memory of the block in bytes."""
        return self.nnz * (self.stored.itemsize + (4 if self.sparse else 0)) + 8 * self.shape[0] * self.sparse


def look(_number: int, made: tuple[Any, tuple[str, ...] | None]) -> Facts:
    """Compute the facts about a block that `AsBlock` has made."""
    block, names = made
    sparse = not isinstance(block, np.ndarray)
    A: Any = SparseOperator(block, checked=True) if sparse else DenseOperator(block)
    n = A.shape[0]
    chosen = A.rows(np.unique(np.linspace(0, n - 1, min(n, SAMPLED_ROWS)).astype(np.intp)))
    entries = chosen.matrix.data if sparse else chosen.array
    largest = largest_magnitude(entries) if entries.size else 0.0
    return Facts(
        shape=A.shape,
        stored=A.stored_dtype,
        working=A.dtype,
        sparse=sparse,
        nnz=A.nnz,
        pairs=sparse_grams.pair_count(A.matrix) if sparse else 0,
        largest=largest if np.isfinite(largest) else 0.0,
        names=names,
    )
