"""An operator whose entries are not at hand: its first products show how large they are.

Problem: the range of entries (`linspec.operators.magnitude`) cannot be read off an operator that gives only products.
Method: a column of random signs rides in the first forward product, and another in the first adjoint product. By the
largest entry of A z over √p, and that of Aᵀu over √n, the root mean square of the entries is known up to a small
factor. float32 entries that are far from 1 are multiplied in float64 from there on: products with products need it.
A product is also looked at for what is not finite.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from linspec.arrays import Array, Home, HostArray, all_finite, host_dtype, largest_magnitude, to_host
from linspec.errors import NonFiniteData
from linspec.magnitude import Magnitude, check_magnitude
from linspec.operators.base import LinearOperator, Selection
from linspec.operators.magnitude import in_float64
from linspec.operators.wrapper import Wrapper

ORDINARY_SHARE = 0.25
"""Power of the largest number below which an entry of a block makes no product overflow."""


class WatchedOperator(Wrapper):
    """An operator as it is, whose products are looked at.

    Parameters
    ----------
    operator : LinearOperator
    name : str
        What messages call it.
    roots : numpy.ndarray of shape (n,), optional
        The roots √w of the weights of its rows.

    Raises
    ------
    DataOutOfRange
        From the first forward or the first adjoint product, if it shows that entries are out of the range.
    NonFiniteData
        From a product that is not finite, of a block of ordinary numbers.
    """

    def __init__(self, operator: LinearOperator, name: str, roots: HostArray | None = None) -> None:
        super().__init__(operator)
        self.name, self._roots = name, roots
        self._products = 0
        self._ledger: Any = None
        self._seen: set[str] = set()
        self.centres_entries, self.concurrent = operator.centres_entries, operator.concurrent
        self.rows_together = operator.rows_together
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

    def _product(self, method: str, block: Array) -> Array:
        multiply = getattr(self.operator, method)
        if self.sliceable or method in self._seen:  # rows are looked at where they are swept
            return self._finite(multiply(block), block, method)
        self._seen.add(method)
        count, adjoint = block.shape[0], method == "rmatmat"
        signs = np.random.default_rng(count).integers(0, 2, count) * 2.0 - 1.0
        roots = 1.0 if self._roots is None else self._roots
        signs = signs * roots if adjoint else signs
        rider = Home.of(block).place(signs[:, None], host_dtype(block))
        both = Home.of(block).concat([block, rider])
        both = self._finite(multiply(both), both, method)
        self._record(1)
        sizes = np.abs(to_host(both[:, -1:]).astype(np.float64))[:, 0] * (1.0 if adjoint else roots)
        at = int(np.argmax(sizes))
        found = Magnitude(float(sizes[at]) / math.sqrt(count), at if adjoint else None)
        check_magnitude(self.name, found)
        if self.dtype == np.float32 and not found.fits_single:
            self.operator = in_float64(self.name, self.operator, found)
            self.dtype = self.operator.dtype
            self._record(block.shape[1])
            return self._finite(getattr(self.operator, method)(block), block, method)
        return both[:, :-1]

    def _record(self, columns: int) -> None:
        """Count products that nobody asked for."""
        if self._ledger is not None:
            self._ledger.record(self.operator, columns)

    def _finite(self, product: Array, block: Array, method: str) -> Array:
        """A product, of a block of ordinary numbers only if it is finite: other blocks are the iteration's."""
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
        """The rows of streamed data."""
        return self.operator.blocks()
