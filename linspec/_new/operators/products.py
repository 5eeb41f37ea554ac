"""A matrix known by its products alone: one block that cannot be cut.

Nothing can be subtracted from its entries, so means are taken out of the products: (A - 1 oᵀ) V = AV - 1(oᵀV). Where
means are far above the deviations, that loses their quotient in digits, and the certificate says so. The squares of its
columns are exact where columns are few, or are to be scaled: a product for each column. Elsewhere they are estimated
from products with random signs (Hutchinson 1990, doi:10.1080/03610919008812866).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from linspec._new.operators.base import Block, LinearOperator, Rows
from linspec.arrays import Array, HostArray, to_host, working_dtype
from linspec.errors import InvalidProblem, UnsupportedData

__all__ = ["ByProducts", "ProductsBlock"]

ORIGIN_ROWS = 256
"""Rows whose mean the sums of columns are about until the mean of all rows is known."""

COLUMNS, SIGNS = 64, 8
"""Columns of a product for exact squares, and random signs for estimates, which are right to a half."""


class ProductsBlock(Block):
    """All rows of an operator."""

    divisible = False

    def __init__(self, operator: LinearOperator, row: HostArray | None = None) -> None:
        self.operator, self.row = operator, row
        self.rows, self.columns = int(operator.shape[0]), operator.shape[1]
        self.entries = self.rows * self.columns

    def origin(self, w: Array | None) -> HostArray:
        counts = np.zeros((self.rows, 1))
        counts[:ORIGIN_ROWS] = (
            1.0 if w is None or not w[:ORIGIN_ROWS].any() else to_host(w)[:ORIGIN_ROWS, None]
        )
        return to_host(self.operator.rmatmat(counts / counts.sum()))[:, 0]

    def about(self, row: Array | None) -> ProductsBlock:
        return ProductsBlock(self.operator, row)

    def times(self, V: Array) -> Array:
        found = self.operator.matmat(V)
        return found if self.row is None else found - (self.row.astype(found.dtype) @ V)[None, :]

    def t_times(self, U: Array, out: Array) -> None:
        out += self.operator.rmatmat(U)
        if self.row is not None:
            out -= self.row[:, None] * U.sum(axis=0)[None, :]

    def sums(self, w: Array | None, *, exact: bool) -> tuple[HostArray, HostArray]:
        counts = np.ones(self.rows) if w is None else to_host(w)
        total, squares = np.empty(self.columns), np.empty(self.columns)
        if exact or self.columns <= SIGNS:
            for start in range(0, self.columns, COLUMNS):
                some = slice(start, min(start + COLUMNS, self.columns))
                X = to_host(self.times(np.eye(self.columns, some.stop - start, -start)))
                total[some], squares[some] = counts @ X, counts @ X**2
            return total, squares
        signs = np.random.default_rng(0).integers(0, 2, (self.rows, SIGNS)) * 2.0 - 1.0
        found = np.zeros((self.columns, 1 + SIGNS))
        self.t_times(np.column_stack([counts, signs * np.sqrt(counts)[:, None]]), found)
        return found[:, 0], np.mean(found[:, 1:] ** 2, axis=1)

    def gram(self, w: Array | None, other: Block) -> HostArray:
        if not other.subtracts:
            return other.gram(w, self).T
        Y, found = to_host(other.dense()), np.zeros((self.columns, other.columns))
        self.t_times(Y if w is None else Y * to_host(w)[:, None], found)
        return found

    def cut(self, start: int, stop: int) -> ProductsBlock:
        if (start, stop) != (0, self.rows):
            raise UnsupportedData("a matrix that is known by its products cannot be cut into rows.")
        return self


class ByProducts(Rows):
    """A matrix known by `matmat` and `rmatmat`.

    Parameters
    ----------
    operator : object
        With `shape` and the methods `matmat` and `rmatmat`, such as SciPy's LinearOperator.
    name : str, default "data"
        The name in messages.

    Raises
    ------
    UnsupportedData
        A method is missing, or the products are complex.
    """

    def __init__(self, operator: Any, name: str = "data") -> None:
        for method in ("matmat", "rmatmat"):
            if not callable(getattr(operator, method, None)):
                raise UnsupportedData(
                    f"{name} must have the method {method}, for its products; got {operator!r}."
                )
        self.operator, self.name, self.shape = operator, name, tuple(operator.shape)
        self.dtype = working_dtype(getattr(operator, "dtype", None) or np.float64, name)

    def blocks(self) -> Iterator[Block]:
        yield ProductsBlock(self)

    def matmat(self, V: Array) -> HostArray:
        return self._checked(self.operator.matmat(self.thin(V)), (self.shape[0], V.shape[1]), "matmat")

    def rmatmat(self, U: Array) -> HostArray:
        found = self._checked(self.operator.rmatmat(self.thin(U)), (self.shape[1], U.shape[1]), "rmatmat")
        return np.asarray(found, np.float64)

    def _checked(self, product: Any, shape: tuple[float, int], method: str) -> HostArray:
        product = to_host(product)
        if product.shape != shape:
            raise InvalidProblem(f"{method} of {self.name} must return shape {shape}; got {product.shape}.")
        return product
