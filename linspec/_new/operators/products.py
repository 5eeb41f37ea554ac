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

from linspec._new.operators.base import Block, LinearOperator, Rows, first_shares
from linspec.arrays import Array, HostArray, to_host, working_dtype
from linspec.errors import InvalidProblem, UnsupportedData

__all__ = ["ByProducts", "ProductsBlock"]

COLUMNS, SIGNS = 64, 8
"""Columns of a product for exact squares, and random signs for estimates, which are right to a half."""


class ProductsBlock(Block):
    """All rows of an operator."""

    divisible = False

    def __init__(self, operator: LinearOperator, row: Array | None = None) -> None:
        self.operator, self.row, self.place = operator, row, operator.backend.blocks
        self.rows, self.columns = int(operator.shape[0]), operator.shape[1]
        self.entries = self.rows * self.columns

    def origin(self, w: Array | None) -> Array:
        shares = first_shares(w, self.rows)
        padded = np.append(shares, np.zeros(self.rows - len(shares)))
        return self.operator.rmatmat(self.place.place(padded)[:, None])[:, 0]

    def about(self, row: Array | None) -> ProductsBlock:
        return ProductsBlock(self.operator, row)

    def times(self, V: Array) -> Array:
        product = self.operator.matmat(V)
        return product if self.row is None else product - (self.row @ V)[None, :]

    def t_times(self, U: Array, out: Array) -> None:
        out += self.operator.rmatmat(U)
        if self.row is not None:
            out -= self.place.place(self.row)[:, None] * self.place.column_sums(U)[None, :]

    def sums(self, w: Array | None, *, squares: bool, exact: bool) -> tuple[HostArray, HostArray | None]:
        counts = np.ones(self.rows) if w is None else to_host(w)
        if squares and (exact or self.columns <= SIGNS):
            return self._exact_sums(counts)
        signs = np.random.default_rng(0).integers(0, 2, (self.rows, SIGNS if squares else 0)) * 2.0 - 1.0
        U = np.column_stack([counts, signs * np.sqrt(counts)[:, None]])
        sums = self.place.zeros((self.columns, U.shape[1]))
        self.t_times(self.place.place(U), sums)
        total, images = to_host(sums)[:, 0], to_host(sums)[:, 1:]
        return total, np.mean(images**2, axis=1) if squares else None

    def _exact_sums(self, counts: HostArray) -> tuple[HostArray, HostArray]:
        """From products with unit columns."""
        total, squares = np.empty(self.columns), np.empty(self.columns)
        for start in range(0, self.columns, COLUMNS):
            some = slice(start, min(start + COLUMNS, self.columns))
            unit = self.place.eye(self.columns, some.stop - start, start)
            X = to_host(self.times(self.operator.thin(unit)))
            total[some], squares[some] = counts @ X, counts @ np.square(X, dtype=np.float64)
        return total, squares

    def gram(self, w: Array | None, other: Block) -> Array:
        if not other.subtracts:
            return other.gram(w, self).T
        Y, product = self.place.place(other.dense()), self.place.zeros((self.columns, other.columns))
        self.t_times(Y if w is None else Y * w[:, None], product)
        return product

    def dense(self) -> Array:
        return self.place.place(self.times(self.operator.thin(self.place.eye(self.columns))))

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
        if isinstance(operator, LinearOperator):
            self.backend, self.readings = operator.backend, operator.readings

    def blocks(self) -> Iterator[Block]:
        yield ProductsBlock(self)

    def matmat(self, V: Array) -> Array:
        product = self.backend.place(self.operator.matmat(self.thin(V)), self.dtype)
        return self._checked(product, (self.shape[0], V.shape[1]), "matmat")

    def rmatmat(self, U: Array) -> Array:
        product = self.backend.blocks.place(self.operator.rmatmat(self.thin(U)))
        return self._checked(product, (self.shape[1], U.shape[1]), "rmatmat")

    def _checked(self, product: Array, shape: tuple[float, int], method: str) -> Array:
        if tuple(product.shape) != shape:
            raise InvalidProblem(
                f"{method} of {self.name} must return shape {shape}; got {tuple(product.shape)}."
            )
        return product
