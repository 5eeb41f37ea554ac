"""Operators known by products only: the size of their entries is estimated from the first products.

Problem: the range of entries (`linspec.operators.largest_entry`) cannot be read from an operator that gives only
products.
Method: a column z of random signs is appended to the block of the first product, assumed here to be a forward one.
The largest entry of A is between max |Az| / p and, with high probability, max |Az|. A unit vector of the row where
|Az| is largest is appended to the block of the first adjoint product, which thus returns the entries of this row. A
float32 operator whose entries are far from 1 is multiplied in float64 from then on, because products of products
would over- or underflow. Products are also checked for entries that are not finite.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from linspec.arrays import Array, Home, HostArray, all_finite, host_dtype, largest_magnitude, to_host
from linspec.errors import NonFiniteData
from linspec.operators.base import LinearOperator, Selection
from linspec.operators.dense import DenseOperator
from linspec.operators.largest_entry import in_float64, magnitude_of
from linspec.operators.range_of_entries import Magnitude, check_magnitude
from linspec.operators.wrapper import Wrapper

ORDINARY_SHARE = 0.25
"""Exponent: if all entries of a block are below (largest float) ** ORDINARY_SHARE, its product must be finite."""


class WatchedOperator(Wrapper):
    """An operator whose products are checked: the first ones for the size of its entries, all for NaN and infinity.

    Parameters
    ----------
    operator : LinearOperator
    name : str
        The name of the operator in messages.
    roots : numpy.ndarray of shape (n,), optional
        The roots √w of the weights of its rows.

    Raises
    ------
    DataOutOfRange
        From the first forward or the first adjoint product, if it shows that the largest entry of the operator is not
        between `SMALLEST` and `LARGEST` (`linspec.operators.range_of_entries`).
    NonFiniteData
        From a product that is not finite although its block has entries of ordinary size (see `ORDINARY_SHARE`).
    """

    def __init__(self, operator: LinearOperator, name: str, roots: HostArray | None = None) -> None:
        super().__init__(operator)
        self.name, self._roots = name, roots
        self._products = 0
        self._ledger: Any = None
        self._seen: set[str] = set()
        self._largest: int | None = None  # the row or column with the largest of the first products
        self.rows_together, self.concurrent = operator.rows_together, operator.concurrent
        self.with_names_of(operator)

    def in_dtype(self, dtype: np.dtype[Any]) -> LinearOperator | None:
        inner = self.operator.in_dtype(dtype)
        return None if inner is None else WatchedOperator(inner, self.name, self._roots)

    def enter_in(self, ledger: Any) -> None:
        self._ledger = ledger

    def _matmat(self, V: Array) -> Array:
        return self._product("matmat", V)

    def _rmatmat(self, U: Array) -> Array:
        return self._product("rmatmat", U)

    def by_identity(self) -> Array:
        entries = self._finite(self.operator.by_identity(), self.home.eye(1), "matmat")
        self.shown(entries)
        return entries

    def shown(self, entries: Array) -> None:
        """Check the range of the entries, which the caller has computed by multiplying the identity.

        Later products need no probe then, that is no additional column from whose product the size of the entries is
        estimated.
        """
        check_magnitude(self.name, magnitude_of(DenseOperator(entries), self._roots))
        self._seen |= {"matmat", "rmatmat"}

    def _product(self, method: str, block: Array) -> Array:
        multiply = getattr(self.operator, method)
        if self.access == "rows" or method in self._seen:  # rows are checked when they are swept
            return self._finite(multiply(block), block, method)
        probe = self._probe(method, block.shape[0])
        both = Home.of(block).concat([block, Home.of(block).place(probe, host_dtype(block))])
        both = self._finite(multiply(both), both, method)
        self._record(1)
        roots = 1.0 if self._roots is None or method == "rmatmat" else self._roots
        size = self._measured(
            method, np.abs(to_host(both[:, -1:]).astype(np.float64))[:, 0] * roots, len(probe)
        )
        if self.dtype == np.float32 and not size.fits_single:
            self.operator = in_float64(self.name, self.operator, size)
            self.dtype = self.operator.dtype
            self._record(block.shape[1])
            return self._finite(getattr(self.operator, method)(block), block, method)
        return both[:, :-1]

    def _probe(self, method: str, count: int) -> HostArray:
        """Column to append to a block, from which the size of the entries is estimated.

        The column has random signs for the first kind of product (forward or adjoint). For the second kind it is the
        unit vector at the largest entry of the first probe's product.
        """
        roots = np.ones(count) if self._roots is None or method == "matmat" else self._roots
        if self._largest is None:
            return (np.random.default_rng(count).integers(0, 2, count) * 2.0 - 1.0)[:, None] * roots[:, None]
        row: HostArray = (np.arange(count) == self._largest)[:, None] * roots[:, None]
        return row

    def _measured(self, method: str, sizes: HostArray, count: int) -> Magnitude:
        """Estimate the size of the entries from the product with a probe; raise if the size is surely out of range."""
        at, second = int(np.argmax(sizes)), self._largest is not None
        column = at if method == "rmatmat" else self._largest
        self._seen.add(method)
        if second:
            found = Magnitude(float(sizes[at]), column)
            check_magnitude(self.name, found)
            return found
        self._largest, column = at, at if method == "rmatmat" else None
        most = float(sizes[at])
        # An upper bound shows that all entries are too small, and a lower one that some are too large.
        check_magnitude(self.name, Magnitude(most if most < 1 else most / count, column))
        return Magnitude(most / math.sqrt(count), column)

    def _record(self, columns: int) -> None:
        """Record in the ledger the products that the caller did not request: probes, and repeats in float64."""
        if self._ledger is not None:
            self._ledger.record(self.operator, columns)

    def _finite(self, product: Array, block: Array, method: str) -> Array:
        """Return a product; raise if it is not finite although its block has ordinary entries.

        Blocks of a diverging solver may have huge entries, whose products may overflow.
        """
        self._products += 1
        if all_finite(product):
            return product
        if not largest_magnitude(block) < float(np.finfo(self.dtype).max) ** ORDINARY_SHARE:
            return product
        entries = to_host(product)
        row, column = np.argwhere(~np.isfinite(entries))[0].tolist()
        source = getattr(self.operator, "source", self.operator)
        raise NonFiniteData(
            f"{self.name} must give finite products; {type(source).__name__}.{method} returned "
            f"{entries[row, column]} at row {row}, column {column} of product number {self._products}, for a block of "
            "finite numbers. Try the operator on such blocks; where its products overflow, scale it."
        )

    def _rows(self, selection: Selection) -> LinearOperator:
        return self.operator.rows(selection)

    def _dense(self) -> Array:
        return self.operator.dense()

    def blocks(self) -> Iterator[LinearOperator]:
        """The rows of streamed data, block by block."""
        return self.operator.blocks()

    def __repr__(self) -> str:
        return repr(self.operator)
