"""Sparse X with few rows and many columns, by rows of Xᵀ: blocks of n rows are the small ones there.

A product with XᵀX counts as one sweep, as in any other way, though rows of X and then rows of Xᵀ are read: which copy a
kernel reads follows from the memory that is free, and a budget of passes should not. Products XᵀX V and XᵀY that are
wanted together read no more than XᵀX V alone.
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
    """Whether products with XXᵀ come at the price of those with XᵀX, on blocks that are much smaller.

    Column means are no obstacle: they are subtracted on the side of the rows.
    """
    known = view.adjustment
    plain = known.model.is_plain and not known.changes_products
    return plain and (known.model.center or known.row is None) and is_wide(view.operator)


def outer_matmat(view: View, U: Array, home: Home, *, transposed: bool) -> tuple[Array, Array]:
    """(XᵀU, XXᵀU) for X less its means: two sweeps of X, one after the other."""
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
    """XXᵀU in one sweep: column by column of X, of which each is read once; for one vector by rows of X, twice.

    A row of words is long, and most of its words are common: the few entries of a vector that they meet stay in the
    cache. A block gains more by being read and written where it is short.

    Of centred columns the product is H X Xᵀ H U for H = I - 11ᵀ/n, which subtracts the means of the columns of X. It
    cancels no more digits than a correction by the means does: Xᵀ H U and the spread of X Xᵀ H U are what is kept.
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
    """(XᵀX V, XᵀY) in one sweep: Xᵀ multiplies X V and Y side by side. Without V the first result is None.

    Y is made with the columns of the identity. Column norms come along, as with every first sweep.
    """
    X, q = x.operator, y.operator.shape[1]
    x.admit(1.0)
    with np.errstate(all="ignore"):  # what is not finite is found by the caller
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
    return products[:, :k] + 0.0, products[:, k:] + 0.0  # copies: the second is kept, and may be the smaller
