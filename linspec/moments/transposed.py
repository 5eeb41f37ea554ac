"""Products of sparse X with few rows and many columns, by rows of Xᵀ, where blocks of n rows are the small ones.

A product with XᵀX counts as one sweep, as everywhere, although rows of X and then rows of Xᵀ are read: whether a
transposed copy is used depends on the free memory, and a budget of passes should not. XᵀX V and XᵀY computed together
read no more than XᵀX V alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from linspec.arrays import Array, Home
from linspec.moments.by_rows import is_wide
from linspec.operators import DenseOperator, sparse_products
from linspec.operators.column_statistics import ColumnStatistics
from linspec.sweeps.views import View


def worth_transposing(view: View) -> bool:
    """Whether products with XXᵀ take no more time than products with XᵀX, because a copy of Xᵀ is used.

    This holds for a sparse matrix X in memory with few rows and many columns, without weights, confounds and column
    factors. Products with XXᵀ multiply blocks of n rows, and products with XᵀX blocks of p rows. X may be centred:
    means are subtracted from the blocks of n rows. No other fixed row may be subtracted.
    """
    known = view.adjustment
    plain = known.model.is_plain and not known.changes_products
    return plain and (known.model.center or known.row is None) and is_wide(view.operator)


def outer_matmat(view: View, U: Array, home: Home, *, transposed: bool) -> tuple[Array, Array]:
    """Compute (XᵀU, XXᵀU) for centred X, in two sweeps, one after the other."""
    k = U.shape[1]
    view.admit(2.0)
    view.record(k, k, sweeps=2.0)
    if not transposed:
        X = view.adjustment.applied(view.operator)
        XtU = X.rmatmat(U)
        return XtU, home.place(X.matmat(XtU))
    A, center = view.operator, view.model.center
    U = U - np.mean(U, axis=0) if center else U
    XtU = sparse_products.matmat(A.transposed, U, A.dtype)
    product = home.place(A.matmat(XtU))
    return XtU, product - np.mean(product, axis=0) if center else product


def outer_gram_matmat(view: View, U: Array) -> Array:
    """Compute XXᵀU, which counts as one sweep.

    A block U is multiplied by columns of X, the rows of a copy of Xᵀ. Each column is read once, and the arrays that are
    read and written have n rows, fewer than p. One float64 vector is multiplied by rows of X, which are read twice: for
    XᵀU and for X(XᵀU). In a row of word counts most words are common, so the entries of XᵀU that belong to these words
    stay in the cache.

    With centred columns the product is H X Xᵀ H U for H = I - 11ᵀ/n: H subtracts the mean of each column of U, and of
    the result. This loses no more digits than correcting the products by the column means of X.
    """
    X, k, center = view.operator, U.shape[1], view.model.center
    view.admit(1.0)
    view.record(k, k, sweeps=1.0)
    U = U - np.mean(U, axis=0) if center else U
    if k == 1 and X.dtype == np.float64:
        XtU = sparse_products.rmatmat(X.matrix, U, X.dtype)
        product: Any = sparse_products.matmat(X.matrix, XtU, X.dtype)
    else:
        (product,), _ = sparse_products.gram_matmat([X.transposed], [U], dtypes=[X.dtype], sums=False)
    return product - np.mean(product, axis=0) if center else product


def gram_and_cross(x: View, y: View, V: Array | None, home: Home) -> tuple[Array | None, Array]:
    """Compute (XᵀX V, XᵀY) in one sweep, as Xᵀ [X V, Y]; the first result is None without V.

    The view y is multiplied by the identity, which gives Y as a dense array. Unknown column norms of both views are
    computed as well, as in every first sweep.
    """
    X, q = x.operator, y.operator.shape[1]
    x.admit(1.0)
    with np.errstate(all="ignore"):  # the caller finds entries that are not finite
        W = home.place(y.operator.matmat(home.eye(q)))
        y.record(q, 0, sweeps=1.0)
        if y.squares is None:
            gathered = ColumnStatistics(home)
            gathered.add(DenseOperator(W))
            y.adjustment.learn_from(gathered)
        if x.adjustment.squares is None:
            x.adjustment.learn_from_entries(X)
        row = y.adjustment.row
        W = W if row is None else W - row[None, :]
        if V is None:
            x.record(0, q, sweeps=1.0)
            return None, sparse_products.matmat(X.transposed, W, X.dtype)
        k = V.shape[1]
        both = home.concat([home.place(X.matmat(V)), W])
        x.record(k, k + q, sweeps=1.0)
        products = sparse_products.matmat(X.transposed, both, X.dtype)
    return products[:, :k] + 0.0, products[:, k:] + 0.0  # copies: the second is kept, and may be small
