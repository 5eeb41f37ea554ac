"""Views that are SciPy matrices: threads over slabs of rows with equally many entries (`operators.sparse_products`).

Of one matrix with few rows and many columns, products with XᵀX go by rows of X and rows of Xᵀ, where memory has room
for both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from linspec import cost
from linspec.arrays import Array
from linspec.errors import AccuracyWarning, warn
from linspec.moments.base import Sweeps
from linspec.operators import LinearOperator, SparseOperator, sparse_products
from linspec.operators.base import less_outer
from linspec.sweeps.gram_matrices import SparseGramMatrices
from linspec.sweeps.held_grams import HeldGram, Products, SparseGram
from linspec.sweeps.products import FusedProducts, Request
from linspec.sweeps.views import DIGITS_TO_WARN, View


class SparseSweeps(Sweeps):
    """Column norms and means are read off the matrices at the first sweep."""

    sparse = True
    means_cost = 0.0

    def _settle(self) -> None:
        """The means and norms are read off the matrices, as part of the first sweep."""
        for view in self.views:
            if view.squares is None:
                view.learn_from_matrix()
            view.warn_of_cancellation()

    def _products(
        self, blocks: list[Array | None], images: list[Array] | None, onto: tuple[int, ...]
    ) -> Products:
        X = self.views[0].operator
        if len(self.views) == 1 and is_wide(X):
            return self._by_transposed(X, blocks[0], self.views[0].taken, images), None, None, None
        request = Request(blocks, [None, None], self.home, onto)
        task = FusedProducts(request, self.home, [view.taken for view in self.views], model=self.model)
        found = task.part([view.operator for view in self.views])
        return self._conclude(request, found.products, sweeps=1.0)

    def _by_transposed(
        self, X: SparseOperator, V: Array, mean: Array | None, images: list[Array] | None
    ) -> Array:
        """Xᵀ(X V), centred, by rows of X and rows of Xᵀ."""
        P = sparse_products.matmat(X.matrix, V, X.dtype)
        if mean is not None:
            P -= (mean @ V)[None, :]
        weights = self.model.weights_of(0, self.n, self.home)
        Q = P if weights is None else P * weights[:, None]
        if images is not None and self.model.basis is None:
            images.append(P.T @ Q)
        self.views[0].record(V.shape[1], V.shape[1], sweeps=1.0)
        product = sparse_products.matmat(X.transposed, Q, X.dtype)
        return product if mean is None else less_outer(product, mean, Q.sum(axis=0))

    def _gram(self, form: str, sizes: Callable[[], cost.Sizes]) -> HeldGram:
        if form == "sparse":
            return self._sparse_gram()
        if cost.sparse_gram_is_cheaper(sizes()):
            return self._sparse_gram().as_dense(self.home)
        return super()._gram(form, sizes)

    def _sparse_gram(self) -> SparseGram:
        found = SparseGramMatrices(self.model).part([view.operator for view in self.views])
        for view in self.views:
            view.learn_from_matrix()
            view.record(0, sum(self.widths), sweeps=1.0)
        return centred_sparse_gram(self.views, found, self.total)


def centred_sparse_gram(views: list[View], found: list[Any], total: float) -> SparseGram:
    """Sparse Gram matrices of entries, with what is taken out of their products.

    Parameters
    ----------
    views : list of View
        They know their means, and what confounds explain.
    found : list of sparse matrix or None
        XᵀX, XᵀY and YᵀY, not centred.
    total : float
        What the rows count together.
    """
    x, y = views[0], views[-1]
    pairs = ((x, x), (x, y), (y, y))
    Sx, C, Sy = (_scaled_sparse(S, a.factors, b.factors) for S, (a, b) in zip(found, pairs, strict=True))
    rows = [(_scaled(v.mean, v.factors), _scaled(v.taken, v.factors)) for v in views]
    beside = [_scaled(v.beside, v.factors) for v in views]
    gram = SparseGram(Sx, C, Sy, rows, total, beside, x.model.signs if x.model.keeps_constant else None)
    if gram.lost_digits() > DIGITS_TO_WARN:
        warn(
            f"centring a sparse Gram matrix by subtraction loses {gram.lost_digits():.0f} digits here, "
            'because column means are large beside their spread. Use form="implicit" or dense data.',
            AccuracyWarning,
        )
    return gram


def _scaled(array: Array | None, factors: Array | None) -> Array | None:
    """What belongs to the columns, times their factors."""
    if array is None or factors is None:
        return array
    return (array.T * factors).T


def _scaled_sparse(S: Any, left: Array | None, right: Array | None) -> Any:
    """diag(left) S diag(right) for compressed rows."""
    if S is None or (left is None and right is None):
        return S
    data = S.data.copy()
    if left is not None:
        data *= np.repeat(left, np.diff(S.indptr))
    if right is not None:
        data *= right[S.indices]
    return type(S)((data, S.indices, S.indptr), shape=S.shape)


def is_wide(X: LinearOperator) -> bool:
    """Whether X has fewer rows than columns, and a copy of Xᵀ is worth its memory."""
    return isinstance(X, SparseOperator) and X.worth_transposing
