"""Operators that count their use: sweeps over the rows, column products and floating-point operations.

Problem: a run reports how many rows were read and multiplied, also if a solver multiplies only some of the rows.
Method: every product counts automatically. When b of n rows are selected they count as b/n of a sweep, and never
again; a product of b of n rows with k columns counts as k b/n columns, so that the products of all blocks of rows
count as much as one product of all rows. Code that multiplies arrays instead of operators calls `Ledger.record`. Sums
of such fractions are exact: a sweep by blocks is 1, which a budget of passes can rely on.
"""

from __future__ import annotations

import copy
import math
import threading
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from linspec.arrays import Array, HostArray
from linspec.operators.base import CenteredOperator, LinearOperator, Selection
from linspec.operators.row_blocks import RowBuffer
from linspec.operators.wrapper import Wrapper
from linspec.process.pauses import admit

_LOCK = threading.Lock()
"""One lock for all ledgers, held briefly."""


class Ledger:
    """Counter of the use of one matrix. Several threads may count at the same time.

    Attributes
    ----------
    sweeps : float
        Readings of all rows; a minibatch counts as a fraction.
    columns : float
        Products with one column, forward or adjoint; a product of some rows counts as a fraction.
    flops : float
        Floating-point operations of these products.

    Examples
    --------
    >>> from linspec.operators import Ledger
    >>> ledger = Ledger()
    >>> ledger.sweeps, ledger.columns, ledger.flops
    (0.0, 0.0, 0.0)
    """

    def __init__(self) -> None:
        self._sweeps: _Parts = {}
        self._columns: _Parts = {}
        self.flops = 0.0
        self._by_thread: dict[int, _Parts] = {}

    @property
    def sweeps(self) -> float:
        """Readings of all rows; a minibatch counts as a fraction."""
        with _LOCK:
            return _as_float(self._sweeps)

    @property
    def columns(self) -> float:
        """Products with one column, forward or adjoint; a product of some rows counts as a fraction."""
        with _LOCK:
            return _as_float(self._columns)

    @property
    def own_sweeps(self) -> float:
        """Sweeps that the calling thread has made; other threads may use the same matrix at the same time."""
        return _as_float(self._by_thread.get(threading.get_ident(), {}))

    def record(
        self, A: LinearOperator, columns: float, *, sweeps: float = 0.0, flops: float | None = None
    ) -> None:
        """Count products made with the arrays of a matrix; products of a counted operator are counted automatically.

        Parameters
        ----------
        A : LinearOperator
            The operator that was multiplied: the matrix, or the rows, that this ledger counts.
        columns : float
            Columns of the products, forward and adjoint together.
        sweeps : float, default 0
            Readings of all rows of A.
        flops : float, optional
            Floating-point operations. By default two for each stored entry of A and each column.

        Examples
        --------
        >>> import numpy as np
        >>> from linspec import as_operator
        >>> from linspec.operators import CountedOperator, Ledger, uncounted
        >>> A = CountedOperator(as_operator(np.ones((10, 3))), Ledger())
        >>> rows, ledger = uncounted(A.rows(slice(0, 5)))
        >>> product = rows.array @ np.ones((3, 4))
        >>> ledger.record(rows, 4)
        >>> A.ledger.sweeps, A.ledger.columns, A.ledger.flops
        (0.5, 2.0, 120.0)
        """
        if flops is None:  # without columns, nnz is not read: an unread stream does not know it
            flops = 2.0 * A.nnz * columns if columns else 0.0
        self._add(sweeps, columns, flops)

    def take_over(self, other: Ledger, *, sweeps: float = 0.0) -> None:
        """Add the counts of another ledger, and further sweeps."""
        with _LOCK:
            read, made, flops = dict(other._sweeps), dict(other._columns), other.flops
        self._add(sweeps, 0, flops)
        for of, count in read.items():
            self._add(count, 0, 0.0, of)
        for of, count in made.items():
            self._add(0, count, 0.0, of)

    def entries(self) -> dict[str, Any]:
        """The counts as plain numbers, for a checkpoint."""
        with _LOCK:
            return {"sweeps": dict(self._sweeps), "columns": dict(self._columns), "flops": self.flops}

    def enter(self, entries: Mapping[str, Any]) -> None:
        """Add the counts that `entries` returned in an earlier run."""
        self._add(0, 0, entries["flops"])
        for of, count in entries["sweeps"].items():
            self._add(count, 0, 0.0, of)
        for of, count in entries["columns"].items():
            self._add(0, count, 0.0, of)

    def of_rows(self, share: Fraction) -> Ledger:
        """A new ledger for some of the rows that this ledger counts.

        Products that the new ledger records are counted in this ledger, too: their columns times `share`. Sweeps that
        the new ledger records count in the new ledger only.

        Parameters
        ----------
        share : Fraction
            Number of these rows / number of all rows.
        """
        return _RowsLedger(self, share)

    def _add(self, sweeps: float, columns: float, flops: float, of: int = 1) -> None:
        """Add `flops`, the fraction `sweeps / of` and the fraction `columns / of` to the counts."""
        with _LOCK:
            if sweeps:
                _add_to(self._sweeps, sweeps, of)
                _add_to(self._by_thread.setdefault(threading.get_ident(), {}), sweeps, of)
            if columns:
                _add_to(self._columns, columns, of)
            self.flops += flops

    def __getstate__(self) -> dict[str, Any]:
        with _LOCK:
            return {name: copy.deepcopy(v) if isinstance(v, dict) else v for name, v in vars(self).items()}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(sweeps={self.sweeps}, columns={self.columns}, flops={self.flops})"


class _RowsLedger(Ledger):
    """Ledger of some rows: sweeps of these rows count here alone, and products also count in the ledger of all rows."""

    def __init__(self, whole: Ledger, share: Fraction) -> None:
        super().__init__()
        self._whole: Ledger = whole
        self._share = share
        if isinstance(whole, _RowsLedger):  # rows of rows
            self._whole, self._share = whole._whole, whole._share * share

    def _add(self, sweeps: float, columns: float, flops: float, of: int = 1) -> None:
        super()._add(sweeps, columns, flops, of)
        if columns or flops:
            share = self._share
            self._whole._add(0, columns * share.numerator, flops, of * share.denominator)


class _StreamLedger(Ledger):
    """Ledger of a stream's blocks: it sums columns x rows until the number of all rows is known."""

    def __init__(self, whole: Ledger) -> None:
        super().__init__()
        self._whole = whole

    def _add(self, sweeps: float, columns: float, flops: float, of: int = 1) -> None:
        super()._add(sweeps, columns, flops, of)
        self._whole._add(0, 0, flops)

    def conclude(self, rows: int) -> None:
        """Divide the sum of columns x rows by the number of all rows, and add it to the ledger of the stream."""
        for of, count in self._columns.items():
            self._whole._add(0, count, 0.0, of * max(rows, 1))


_Parts: TypeAlias = dict[int, float]
"""Exact sum Σ count/of as a map from each denominator `of` to its summed counts. Counts are usually integers, whose
sums Python does not round."""


def _add_to(sums: _Parts, count: float, of: int) -> None:
    sums[of] = sums.get(of, 0) + count


def _as_float(sums: _Parts) -> float:
    if not sums:
        return 0.0
    return float(sums[1]) if len(sums) == 1 and 1 in sums else float(_total(sums))


def _total(sums: _Parts) -> Fraction:
    return sum((Fraction(count) / of for of, count in sums.items()), Fraction(0))


class CountedOperator(Wrapper):
    """An operator whose use is counted in a ledger.

    A product of all rows with k columns counts as one sweep and k columns. Selecting b of n rows counts as b/n of a
    sweep; a later product of these rows with k columns counts as k b/n columns, and as no further sweep. The same
    holds for the blocks of streamed data.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.operators import CountedOperator, DenseOperator, Ledger
    >>> ledger = Ledger()
    >>> A = CountedOperator(DenseOperator(np.eye(4)), ledger)
    >>> _ = A.matmat(np.ones((4, 3)))
    >>> ledger.sweeps, ledger.columns
    (1.0, 3.0)
    """

    def __init__(self, operator: LinearOperator, ledger: Ledger) -> None:
        super().__init__(operator)
        self.ledger = ledger
        operator.enter_in(ledger)
        if operator.adjustment is not None:  # the sweep that learns what is subtracted counts, too
            operator.adjustment.ledger = ledger
            ledger.record(operator, 0, sweeps=operator.adjustment.unrecorded)
            operator.adjustment.unrecorded = 0.0
        self.concurrent = operator.concurrent
        self.with_names_of(operator)

    def in_dtype(self, dtype: np.dtype[Any]) -> LinearOperator | None:
        inner = self.operator.in_dtype(dtype)
        return None if inner is None else CountedOperator(inner, self.ledger)

    @property
    def H(self) -> LinearOperator:
        """The adjoint operator, counted in the same ledger."""
        return CountedOperator(self.operator.H, self.ledger)

    def _matmat(self, V: Array) -> Array:
        admit(self.ledger, 1.0)
        product = self.operator.matmat(V)  # the entries of a stream are counted when it has been read
        self.ledger.record(self.operator, V.shape[1], sweeps=1)
        return product

    def _rmatmat(self, U: Array) -> Array:
        admit(self.ledger, 1.0)
        product = self.operator.rmatmat(U)
        self.ledger.record(self.operator, U.shape[1], sweeps=1)
        return product

    def _rows(self, selection: Selection) -> LinearOperator:
        return self._of_rows(self.operator.rows(selection))

    def drawn(self, selection: HostArray) -> LinearOperator:
        """Rows that were drawn in proportion to their weights, counted in the same ledger."""
        return self._of_rows(self.operator.drawn(selection))

    def _of_rows(self, rows: LinearOperator) -> LinearOperator:
        share = _share(rows, self.shape[0])
        admit(self.ledger, float(share))
        self.ledger._add(share.numerator, 0, 0.0, share.denominator)
        return CountedOperator(rows, self.ledger.of_rows(share))

    def _dense(self) -> Array:
        admit(self.ledger, 1.0)
        self.ledger.record(self.operator, 0, sweeps=1)
        return self.operator.dense()

    def loaded(self, buffer: RowBuffer | None = None, about: Array | None = None) -> LinearOperator:
        """All rows, read and converted once. Loading counts as one sweep, and later products with the rows as none."""
        if about is not None:
            return super().loaded(buffer, about)
        loaded = self.operator.loaded(buffer)
        if loaded is self.operator:
            return self
        admit(self.ledger, 1.0)
        self.ledger.record(loaded, 0, sweeps=1)
        return CountedOperator(loaded, self.ledger.of_rows(Fraction(1)))

    def blocks(self) -> Iterator[LinearOperator]:
        """The blocks of streamed data. Reading all blocks is one sweep; multiplying them is no further sweep.

        While the number of rows is unknown, products with the blocks are counted at the end of the sweep.
        """
        admit(self.ledger, 1.0)
        blocks = self.operator.blocks()
        self.ledger.record(self.operator, 0, sweeps=1)
        return self._counted(blocks)

    def _counted(self, blocks: Iterator[LinearOperator]) -> Iterator[LinearOperator]:
        if math.isfinite(self.shape[0]):
            for block in blocks:
                yield CountedOperator(block, self.ledger.of_rows(_share(block, self.shape[0])))
            return
        ledger = _StreamLedger(self.ledger)
        for block in blocks:
            yield CountedOperator(block, ledger.of_rows(_share(block, 1)))
        ledger.conclude(int(self.shape[0]))

    def centered(self, mean: Array) -> LinearOperator:
        """A − 1 meanᵀ, counted in the same ledger."""
        return CountedOperator(self.operator.centered(mean), self.ledger)


def _share(rows: LinearOperator, of: int) -> Fraction:
    return Fraction(int(rows.shape[0]), max(int(of), 1))


def uncounted(operator: LinearOperator) -> tuple[LinearOperator, Ledger]:
    """Return an operator without its counter, and its ledger (a new one if the operator was not counted).

    A counter inside a centred operator is removed, too. For rows selected from a counted operator, the ledger of
    these rows is returned. It also counts their products, in proportion, in the ledger of all rows: see
    `Ledger.record`.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.operators import CountedOperator, DenseOperator, Ledger, uncounted
    >>> A, ledger = uncounted(CountedOperator(DenseOperator(np.eye(3)), Ledger()))
    >>> _ = A.matmat(np.ones((3, 1)))  # not counted
    >>> type(A).__name__, ledger.sweeps
    ('DenseOperator', 0.0)
    """
    if isinstance(operator, CenteredOperator) and isinstance(operator.parts[0], CountedOperator):
        inner = operator.parts[0]
        return CenteredOperator(inner.operator, operator.mean), inner.ledger
    if isinstance(operator, CountedOperator):
        return operator.operator, operator.ledger
    return operator, Ledger()
