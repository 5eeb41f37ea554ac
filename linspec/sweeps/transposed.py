"""Sparse X with few rows and many columns, by rows of Xᵀ: blocks of n rows are the small ones there."""

from __future__ import annotations

from typing import Any

from linspec.arrays import Array, Home
from linspec.operators import sparse_kernels
from linspec.sweeps.sparse import is_wide
from linspec.views import View


def worth_transposing(view: View, *, center: bool) -> bool:
    """Whether products with XXᵀ come at the price of those with XᵀX, on blocks that are much smaller."""
    return not center and view.taken is None and view.adjustment is None and is_wide(view.operator)


def outer_matmat(view: View, U: Array, home: Home, *, transposed: bool) -> tuple[Array, Array]:
    """(XᵀU, XXᵀU): two sweeps of X, one after the other."""
    X: Any = view.operator if view.adjustment is None else view.given
    k = U.shape[1]
    XtU = sparse_kernels.matmat(X.transposed, U, X.dtype) if transposed else X.rmatmat(U)
    view.record(k, k, sweeps=2.0)
    return XtU, home.place(X.matmat(XtU))


def outer_gram_matmat(view: View, U: Array) -> Array:
    """XXᵀU in one sweep: column by column of X, of which each is read once."""
    X, k = view.operator, U.shape[1]
    view.record(k, k, sweeps=1.0)
    return sparse_kernels.products(X.transposed, None, U, None, dtype_x=X.dtype).XtP


def cross(x: View, y: View, home: Home) -> Array:
    """XᵀY, of which Y is made with the columns of the identity."""
    W = home.place(y.operator.matmat(home.eye(y.operator.shape[1])))
    y.record(W.shape[1], 0, sweeps=1.0)
    return sparse_kernels.matmat(x.operator.transposed, W, x.operator.dtype)
