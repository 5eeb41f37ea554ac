"""A sparse matrix minus a product of thin ones: what centring makes of a sparse Gram matrix.

Centring and confounds subtract a matrix of low rank. Its entries would fill a sparse matrix; its factors do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec.arrays import HostArray

__all__ = ["SparseMinusThin"]


@dataclass(frozen=True, eq=False)
class SparseMinusThin:
    """G - P Qᵀ.

    Parameters
    ----------
    G : SciPy sparse array of shape (p, q)
    P, Q : numpy.ndarray of shapes (p, m) and (q, m)
        Few columns, perhaps none.

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse
    >>> from linspec.rows import SparseMinusThin
    >>> ones = np.ones((2, 1))
    >>> (SparseMinusThin(scipy.sparse.eye_array(2).tocsr(), ones, ones) @ np.array([[1.0], [2.0]])).ravel()
    array([-2., -1.])
    """

    G: Any
    P: HostArray
    Q: HostArray

    @classmethod
    def of(cls, G: Any) -> SparseMinusThin:
        """Return G itself, or a sparse G minus nothing."""
        return G if isinstance(G, cls) else cls(G, *(np.zeros((size, 0)) for size in G.shape))

    @property
    def is_near_diagonal(self) -> bool:
        """Whether all that is stored is on the diagonal, as where no row has two entries."""
        return len(self.G.data) == np.count_nonzero(self.G.diagonal())

    @property
    def shape(self) -> tuple[int, int]:
        """(p, q)."""
        return self.P.shape[0], self.Q.shape[0]

    @property
    def T(self) -> SparseMinusThin:
        """The transpose."""
        return SparseMinusThin(self.G.T, self.Q, self.P)

    def __matmul__(self, V: HostArray) -> HostArray:
        product: HostArray = self.G @ V
        product -= self.P @ (self.Q.T @ V)
        return product

    def diagonal(self) -> HostArray:
        """The diagonal, of shape (p,)."""
        diagonal: HostArray = self.G.diagonal() - np.sum(self.P * self.Q, axis=1)
        return diagonal

    def toarray(self) -> HostArray:
        """The dense matrix."""
        dense: HostArray = self.G.toarray()
        dense -= self.P @ self.Q.T
        return dense
