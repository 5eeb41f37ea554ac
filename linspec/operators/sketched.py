"""Random matrices that multiply data from the right.

Problem: compute A Ω for a p x l random matrix Ω, where A and Ω may be sparse, and A may be a file.
Method: Ω is held, dense or in compressed rows. Rows of A are read once, and multiplied block by block.
Source: the sketching operators of randomized linear algebra (Murray et al. 2023, arXiv:2302.11474, chapter 2).
Where we differ: all random numbers are drawn on the host, so a seed means the same matrix for every array library and
device. The array API has no sparse product, so on other devices a sparse Ω becomes dense.
"""

from __future__ import annotations

from typing import Any

import scipy.sparse

from linspec.arrays import HostArray, with_device
from linspec.operators.base import LinearOperator


class Sketch:
    """A p x l random matrix; its entries are float64 on the host.

    A subclass may define `dense` and `sketch`, if there is a faster way than products with entries.

    Parameters
    ----------
    entries : numpy.ndarray or scipy.sparse.csr_array of shape (p, l)

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.operators import Sketch
    >>> Sketch(np.ones((3, 2))).sketch(ls.as_operator(np.eye(3)))
    array([[1., 1.],
           [1., 1.],
           [1., 1.]])
    """

    def __init__(self, entries: Any) -> None:
        self.entries = entries
        self.shape: tuple[int, int] = entries.shape

    def dense(self) -> HostArray:
        """The entries."""
        return self.entries.toarray() if scipy.sparse.issparse(self.entries) else self.entries

    @with_device
    def sketch(self, A: LinearOperator) -> Any:
        """A Ω.

        Parameters
        ----------
        A : LinearOperator of shape (n, p)
            Files are read once.

        Returns
        -------
        array of shape (n, l), or scipy.sparse.csr_array
            In the working dtype of A, at `A.device`. It is sparse if A and Ω are SciPy's sparse matrices in memory.
        """
        if not A.readable:
            return A.matmat(A.device.blocks.asarray(self.dense()))
        if A.device.on_host and scipy.sparse.issparse(self.entries):
            Omega = self.entries.astype(A.dtype, copy=False)
        else:
            Omega = A.device.asarray(self.dense(), A.dtype)
        if A.sparse and scipy.sparse.issparse(Omega):
            rows = [X.slab.matrix @ Omega for X in A.in_blocks().pieces()]
            empty = scipy.sparse.csr_array((0, self.shape[1]), dtype=A.dtype)
            sparse_product = scipy.sparse.csr_array(
                scipy.sparse.vstack([empty, *rows], format="csr", dtype=A.dtype)
            )
            return sparse_product if A.resident else sparse_product.toarray()
        product = A.device.zeros((A.shape[0], self.shape[1]), A.dtype)
        row = 0
        for X in A.in_blocks().pieces():
            product[row : row + X.rows, :] = X.times(Omega)
            row += X.rows
        return product
