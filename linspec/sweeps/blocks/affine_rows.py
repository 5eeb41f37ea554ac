"""Affine images of rows in blocks; each image stays on the worker that holds its block.

Problem: scores and predictions have a row for each row of the data. If the data do not fit into one process, the scores
may not fit either.
Method: for each block A, with rows Z of the confounds, its worker computes (A − 1 meanᵀ) V + 1 offsetᵀ − Z S. The
results become a matrix in blocks of the same heights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec.arrays import Array, HostArray, is_array
from linspec.errors import InvalidProblem
from linspec.operators import DenseOperator, as_operator
from linspec.operators.adjustment import Adjustment
from linspec.operators.row_model import PLAIN
from linspec.process import machine
from linspec.process.blas_threads import one_blas_thread
from linspec.process.pauses import pause
from linspec.sweeps.blocks.operator import BlockOperator
from linspec.sweeps.blocks.readings import Reading


@dataclass(frozen=True)
class RowImages:
    """Work that computes the image (A − 1 meanᵀ) V + 1 offsetᵀ − Z S of one block A.

    Parameters
    ----------
    reading : Reading
        The way in which the block is read.
    adjustment : Adjustment
        The adjustment that subtracts the mean from the rows.
    V : array of shape (p, k)
    offset : array of shape (k,), optional
    slopes : array of shape (c, k), optional
        The slopes S of the confounds.
    """

    reading: Reading
    adjustment: Adjustment
    V: Array
    offset: Array | None
    slopes: Array | None

    def __call__(self, _number: int, block: Any, Z: HostArray | None = None) -> HostArray:
        """Compute the image of a block, with the confounds Z of its rows."""
        with np.errstate(all="ignore"), one_blas_thread(needed=True), machine.one_thread():
            found = self.adjustment.applied(self.reading.operator(block)).matmat(self.V)
            if self.offset is not None:
                found = found + self.offset[None, :]
            if Z is not None and self.slopes is not None:
                found = found - (Z @ self.slopes).astype(found.dtype)
            return np.ascontiguousarray(found)


def brought_here(found: Any) -> Array:
    """Return a narrow matrix, such as scores, as an array of this process, also if its rows are in blocks.

    Parameters
    ----------
    found : array or data of shape (n, k)
        A matrix with few columns.
    """
    if is_array(found):
        return found
    A = as_operator(found)
    return A.brought_here() if isinstance(A, BlockOperator) else A.dense()


def row_images(
    A: BlockOperator,
    V: HostArray,
    *,
    mean: HostArray | None = None,
    offset: HostArray | None = None,
    confounds: HostArray | None = None,
    slopes: HostArray | None = None,
) -> BlockOperator:
    """(A − 1 meanᵀ) V + 1 offsetᵀ − Z S in blocks of the same heights, kept beside those of A.

    Parameters
    ----------
    A : BlockOperator of shape (n, p)
    V : numpy.ndarray of shape (p, k)
    mean : numpy.ndarray of shape (p,), optional
    offset : numpy.ndarray of shape (k,), optional
    confounds : numpy.ndarray of shape (n, c), optional
        Z; the worker of each block gets the rows of Z that belong to the block.
    slopes : numpy.ndarray of shape (c, k), optional
        S, the slopes of the confounds.

    Returns
    -------
    BlockOperator of shape (n, k)

    Raises
    ------
    InvalidProblem
        The confounds do not have a row for each row of A.
    DataLost
        A block is lost.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.sweeps import BlockOperator, row_images
    >>> A = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 9.0]])
    >>> scores = row_images(BlockOperator([A[:2], A[2:]]), np.ones((2, 1)), mean=A.mean(axis=0))
    >>> scores.layout, scores.brought_here().ravel()
    ((2, 1), array([-5., -1.,  6.]))
    """
    if confounds is not None and len(confounds) != A.shape[0]:
        raise InvalidProblem(
            f"confounds must have a row for each of {A.shape[0]} rows; got {len(confounds)}."
        )
    pause()
    offset = None if offset is None else offset.astype(A.dtype, copy=False)
    work = RowImages(A.reading, Adjustment(PLAIN, shift=mean), V, offset, slopes)
    beside = None if confounds is None else DenseOperator(confounds)
    return A.map_rows(work, f"what was made of {A.name}", beside)
