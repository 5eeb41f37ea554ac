"""Blocks as they are kept, and facts about them.

A block is converted once, on its worker, to a form that costs nothing to read: a NumPy array or a CSR matrix. `look`
returns the facts about a block that are needed before the first pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from linspec.arrays import HOST, is_array
from linspec.errors import UnsupportedData
from linspec.operators import DenseOperator, SparseOperator, as_operator


def opened(block: Any, dtype: np.dtype[Any] | None = None) -> DenseOperator | SparseOperator:
    """Return the operator of a block in the form that `AsBlock` returns, with products in `dtype`."""
    dense = isinstance(block, np.ndarray)
    return DenseOperator(block, None, dtype) if dense else SparseOperator(block, dtype, checked=True)


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


class Facts(NamedTuple):
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
    names : tuple of str or None
        The names of the columns.
    """

    shape: tuple[int, int]
    stored: np.dtype[Any]
    working: np.dtype[Any]
    sparse: bool
    nnz: int
    pairs: int
    names: tuple[str, ...] | None

    @property
    def bytes(self) -> int:
        """The memory of the block in bytes."""
        return self.nnz * (self.stored.itemsize + (4 if self.sparse else 0)) + 8 * self.shape[0] * self.sparse


def look(_number: int, made: tuple[Any, tuple[str, ...] | None]) -> Facts:
    """Compute the facts about a block that `AsBlock` has made."""
    block, names = made
    A = opened(block)
    pairs = A.pairs if isinstance(A, SparseOperator) else 0
    return Facts(A.shape, A.stored_dtype, A.dtype, A.sparse, A.nnz, pairs, names)
