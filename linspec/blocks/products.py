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

from linspec.arrays import Array, HostArray, all_finite, to_host, working_dtype
from linspec.blocks.base import Block, LinearOperator, Rows, first_shares
from linspec.errors import InvalidProblem, NonFiniteData

__all__ = ["ByProducts", "ProductsBlock"]

COLUMNS, SIGNS = 64, 8
"""Columns of a product for exact squares, and random signs for estimates, which are right to a half."""

ROUNDINGS = 32
"""Multiple of the rounding of sums by which products with a matrix and with its transpose may differ."""

TINY = float(np.finfo(np.float64).tiny)

ORDINARY = 0.25
"""Products of blocks whose entries are below the largest number to this power must be finite."""


class ProductsBlock(Block):
    """All rows of an operator."""

    divisible = False

    def __init__(self, operator: ByProducts, row: Array | None = None) -> None:
        self.operator, self.row, self.asarray = operator, row, operator.device.blocks
        self.rows, self.columns = int(operator.shape[0]), operator.shape[1]
        self.entries = self.rows * self.columns

    def origin(self, w: Array | None) -> Array:
        shares = first_shares(w, self.rows)
        padded = np.append(shares, np.zeros(self.rows - len(shares)))
        return self.operator.rmatmat(self.asarray.asarray(padded)[:, None])[:, 0]

    def about(self, row: Array | None) -> ProductsBlock:
        return ProductsBlock(self.operator, row)

    def times(self, V: Array) -> Array:
        product = self.operator.matmat(V)
        return product if self.row is None else product - (self.row @ V)[None, :]

    def t_times(self, U: Array, out: Array) -> None:
        out += self.operator.rmatmat(U)
        if self.row is not None:
            out -= self.asarray.asarray(self.row)[:, None] * self.asarray.column_sums(U)[None, :]

    def sums(self, w: Array | None, *, squares: bool, exact: bool) -> tuple[HostArray, HostArray | None]:
        counts = np.ones(self.rows) if w is None else to_host(w)
        signs = _signs(self.rows, SIGNS) * np.sqrt(counts)[:, None]
        weights = np.column_stack([counts, signs])
        sums = to_host(self.operator.rmatmat(self.asarray.asarray(weights)))
        self._compare(signs, sums[:, 1:])
        if self.row is not None:
            sums = sums - np.outer(to_host(self.row), weights.sum(axis=0))
        total, images = sums[:, 0], sums[:, 1:]
        if not squares:
            return total, None
        if exact or self.columns <= SIGNS:
            return total, self._exact_squares(counts)
        mean = total / max(counts.sum(), TINY)
        about = images - np.outer(mean, signs.sum(axis=0))  # so what is estimated is about the mean
        estimates = np.mean(about**2, axis=1) + total * mean
        return total, np.maximum(estimates, TINY * (images != 0).any(axis=1))

    def _compare(self, U: HostArray, AtU: HostArray) -> None:
        """Compare ⟨Av, u⟩ with ⟨v, Aᵀu⟩, means and all, for signs v: for a matrix they are equal up to rounding.

        Two columns v show an operator that returns the same array for each column.
        """
        v = _signs(self.columns, 2)
        Av = to_host(self.operator.matmat(self.operator.thin(self.asarray.asarray(v))))
        gap = float(np.abs(U.T @ Av - AtU.T @ v).max())
        size = float(np.linalg.norm(AtU)) / np.sqrt(SIGNS)
        eps = float(np.finfo(self.operator.dtype).eps)
        if gap > ROUNDINGS * eps * np.sqrt(self.rows + self.columns) * max(size, float(np.linalg.norm(Av))):
            self.operator.inconsistency = (
                f"The products with {self.operator.name} ({self.operator.operator!r}) are not those of a matrix and "
                f"its transpose: for the first of them, ⟨A v, u⟩ and ⟨v, Aᵀu⟩ differ by {gap:.1g}, where ‖Aᵀu‖ is "
                f"{size:.1g}. Correct its products: A v must be linear in v, and rmatmat must multiply by the "
                "transpose."
            )

    def _exact_squares(self, counts: HostArray) -> HostArray:
        """From products with unit columns."""
        squares = np.empty(self.columns)
        for start in range(0, self.columns, COLUMNS):
            some = slice(start, min(start + COLUMNS, self.columns))
            X = to_host(self.unit_columns(start, some.stop))
            squares[some] = counts @ np.square(X, dtype=np.float64)
            squares[some] += TINY * ((squares[some] == 0) & (counts @ (X != 0) > 0))  # not without a word
        return squares

    def gram(self, w: Array | None, other: Block) -> Array:
        if not other.subtracts:
            return other.gram(w, self).T
        parts: list[Any] = []
        entries: Any = None if isinstance(other, ProductsBlock) else self.asarray.asarray(other.dense())
        for start in range(0, other.columns, COLUMNS):
            stop = min(start + COLUMNS, other.columns)
            Y: Any = (
                other.unit_columns(start, stop)
                if isinstance(other, ProductsBlock)
                else entries[:, start:stop]
            )
            parts.append(self.asarray.zeros((self.columns, stop - start)))
            self.t_times(self.operator.thin(Y if w is None else Y * w[:, None]), parts[-1])
        return self.asarray.concat(parts)

    def unit_columns(self, start: int, stop: int) -> Array:
        """Columns `start` to `stop` - 1 of the entries."""
        unit = self.asarray.eye(self.columns, stop - start, start)
        return self.asarray.asarray(self.times(self.operator.thin(unit)))

    def dense(self) -> Array:
        return self.unit_columns(0, self.columns)

    def cut(self, start: int, stop: int) -> ProductsBlock:
        if (start, stop) != (0, self.rows):
            raise InvalidProblem(
                f"{self.operator.name} is known by its products and cannot be cut into rows, as beside many slices, or "
                f"beside {stop - start} of {self.rows} rows. Pass its entries, or the same rows of both."
            )
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
        The products are complex.
    """

    readable = False

    def __init__(self, operator: Any, name: str = "data") -> None:
        self.operator, self.name, self.shape = operator, name, tuple(operator.shape)
        self.dtype = working_dtype(getattr(operator, "dtype", None) or np.float64, name)
        self.estimated = bool(self.shape[1] > SIGNS)
        if isinstance(operator, LinearOperator):
            self.device, self.readings = operator.device, operator.readings

    def blocks(self) -> Iterator[Block]:
        yield ProductsBlock(self)

    def matmat(self, V: Array) -> Array:
        block = self.thin(V)
        product = self.device.asarray(self.operator.matmat(block), self.dtype)
        return self._checked(product, block, (self.shape[0], V.shape[1]), "matmat")

    def rmatmat(self, U: Array) -> Array:
        block = self.thin(U)
        product = self.device.blocks.asarray(self.operator.rmatmat(block))
        return self._checked(product, block, (self.shape[1], U.shape[1]), "rmatmat")

    def widen(self) -> bool:
        convert = getattr(self.operator, "in_dtype", None)
        wider = None if convert is None else convert(np.dtype(np.float64))
        if wider is not None:
            self.operator = wider
        return wider is not None and super().widen()

    def _checked(self, product: Array, block: Array, shape: tuple[float, int], method: str) -> Array:
        if tuple(product.shape) != shape:
            raise InvalidProblem(
                f"{method} of {self.name} must return shape {shape}; got {tuple(product.shape)}."
            )
        ordinary = float(np.finfo(self.dtype).max) ** ORDINARY
        if all_finite(product) or not float(np.abs(to_host(block)).max(initial=0.0)) < ordinary:
            return product
        entries = to_host(product)
        row, column = np.argwhere(~np.isfinite(entries))[0].tolist()
        raise NonFiniteData(
            f"{self.name} must give finite products; {method} returned {entries[row, column]} at row {row}, column "
            f"{column}, for a block of finite numbers. Try the operator on such blocks; where its products overflow, "
            "scale it."
        )


def _signs(rows: int, columns: int) -> HostArray:
    """Random signs, the same at every call."""
    return np.random.default_rng(rows).integers(0, 2, (rows, columns)) * 2.0 - 1.0
