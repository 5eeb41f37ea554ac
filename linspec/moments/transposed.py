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


def worth_transposing(view: View, *, center: bool) -> bool:
    """Whether products with XXᵀ come at the price of those with XᵀX, on blocks that are much smaller.

    Column means are no obstacle: they are taken out on the side of the rows.
    """
    return (center or view.taken is None) and view.adjustment is None and is_wide(view.operator)


def outer_matmat(view: View, U: Array, home: Home, *, transposed: bool) -> tuple[Array, Array]:
    """(XᵀU, XXᵀU): two sweeps of X, one after the other."""
    X: Any = view.operator if view.adjustment is None else view.given
    k = U.shape[1]
    XtU = sparse_products.matmat(X.transposed, U, X.dtype) if transposed else X.rmatmat(U)
    view.record(k, k, sweeps=2.0)
    return XtU, home.place(X.matmat(XtU))


def outer_gram_matmat(view: View, U: Array, *, center: bool) -> Array:
    """XXᵀU in one sweep: column by column of X, of which each is read once; for one vector by rows of X, twice.

    A row of words is long, and most of its words are common: the few entries of a vector that they meet stay in the
    cache. A block gains more by being read and written where it is short.

    With `center` the product is H X Xᵀ H U for H = I - 11ᵀ/n, which takes the means out of the columns of X. It cancels
    no more digits than a correction by the means does: Xᵀ H U and the spread of X Xᵀ H U are what is kept.
    """
    X, k = view.operator, U.shape[1]
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
    with np.errstate(all="ignore"):  # what is not finite is found by the caller
        W = home.place(y.operator.matmat(home.eye(q)))
        y.record(q, 0, sweeps=1.0)
        if y.squares is None:
            gathered = ColumnStatistics(home)
            gathered.add(DenseOperator(W))
            y.learn(gathered)
        if x.squares is None:
            x.learn_from_matrix()
        W = W if y.taken is None else W - y.taken[None, :]
        if V is None:
            x.record(0, q, sweeps=1.0)
            return None, sparse_products.matmat(X.transposed, W, X.dtype)
        k = V.shape[1]
        both = home.concat([home.place(X.matmat(V)), W])
        x.record(k, k + q, sweeps=1.0)
        products = sparse_products.matmat(X.transposed, both, X.dtype)
    return products[:, :k] + 0.0, products[:, k:] + 0.0  # copies: the second is kept, and may be the smaller
