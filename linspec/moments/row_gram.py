"""The Gram matrix AAᵀ of the rows of one matrix with fewer rows than columns.

Problem: for wide data AAᵀ is the small matrix, and AᵀA is not. Means and confound effects are removed from A.
Method: AAᵀ is the Gram matrix of the columns of Aᵀ (`linspec.Moments`). The subtraction would fill sparse rows, so
K is formed from the unadjusted rows, and what is subtracted from the columns of A is then projected out of K,

    (I − QQᵀ) D A diag(f²) Aᵀ D (I − QQᵀ)  =  P K P,    K = (D A diag(f)) (D A diag(f))ᵀ.

Where we differ: K contains the squares of the means. If these are so large that the subtraction would cancel many
digits, the columns are adjusted before they are multiplied.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from linspec.arrays import HOST, Array, HostArray, to_host
from linspec.moments.moments import Moments
from linspec.operators import AdjustedOperator, CountedOperator, LinearOperator, SparseOperator, uncounted
from linspec.operators.adjustment import Adjustment
from linspec.sweeps.held_grams import scaled_sparse

MEANS = 1e3
"""Largest ratio of two sums of squares for which means and confounds are removed from K, and not from the entries of A.

The first is that of the means and confound effects, the second that of the adjusted entries. At most three of sixteen
digits are lost."""


class RowGram:
    """AAᵀ, of shape (n, n), in float64, in the library and on the device of blocks.

    Parameters
    ----------
    A : LinearOperator
        An operator with n rows. If it is a `CountedOperator`, the sweeps of `form` are counted in its ledger. Unknown
        means and confound effects are computed when the matrix is formed.

    Attributes
    ----------
    cost : float
        The passes that `form` takes.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.moments import RowGram
    >>> A = np.array([[1.0, 0.0, 2.0], [3.0, 4.0, 0.0]])
    >>> RowGram(ls.as_operator(A)).form()
    array([[ 5.,  3.],
           [ 3., 25.]])
    """

    def __init__(self, A: LinearOperator) -> None:
        self._given, self._ledger = uncounted(A)

    @cached_property
    def _sparse(self) -> Any:
        """The sparse operator to multiply before the adjustment; None for other data, or if digits would be lost."""
        A = self._given
        if isinstance(A, SparseOperator):
            return A
        if not (isinstance(A, AdjustedOperator) and isinstance(A.operator, SparseOperator)):
            return None
        A.settle()
        return A.operator if _keeps_digits(A.adjustment, A.operator.shape[0]) else None

    @cached_property
    def _moments(self) -> Moments:
        A: Any = self._given
        if self._sparse is not None:
            A = self._sparse
            known = self._given.adjustment
            if known is not None and known.factors is not None:
                A = SparseOperator(
                    scaled_sparse(A.matrix, None, to_host(known.factors)), A.dtype, checked=True
                )
        return Moments(CountedOperator(A.H, self._ledger), form="dense", names=("A", ""))

    @property
    def cost(self) -> float:
        """The passes that `form` takes."""
        return self._moments.cost.setup

    def form(self) -> Array:
        """Compute AAᵀ."""
        K = self._moments.dense()[0]
        if self._sparse is None or not isinstance(self._given, AdjustedOperator):
            return K
        return _adjusted(to_host(K), self._given.adjustment)


def _keeps_digits(known: Adjustment, n: int) -> bool:
    """Whether means and confounds may be removed from the inner products of the rows without losing many digits."""
    if known.row is None and known.explained is None:
        return True
    if known.squares is None:
        return False
    factors = 1.0 if known.factors is None else to_host(known.factors)
    subtracted = 0.0
    if known.row is not None:
        subtracted += known.model.total(n) * float(np.sum((to_host(known.row) * factors) ** 2))
    if known.explained_squares is not None:
        subtracted += float(np.sum(to_host(known.explained_squares) * factors**2))
    return subtracted <= MEANS * float(to_host(known.squares).sum())


def _adjusted(K: HostArray, known: Adjustment) -> HostArray:
    """Compute P D K D P for K = A diag(f²) Aᵀ, here without the weights D, and P = I − QQᵀ; K may be overwritten."""
    model, n, home = known.model, len(K), HOST
    roots = model.roots_of(0, n, home)
    if roots is not None:
        K *= to_host(roots)[:, None]
        K *= to_host(roots)[None, :]
    if known.model.is_plain:
        means = K.mean(axis=0) if model.center else np.zeros(n)
        K -= means[:, None]
        K -= means[None, :] - means.mean()
        return K
    return np.ascontiguousarray(model.projected(np.ascontiguousarray(model.projected(K).T)))
