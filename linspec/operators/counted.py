"""Operators that count their use: sweeps over the rows, column products and floating-point operations."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from linspec.arrays import Array
from linspec.operators.base import CenteredOperator, LinearOperator, Selection


@dataclass
class Ledger:
    """The counted use of one matrix.

    Attributes
    ----------
    sweeps : float
        Readings of all rows; a minibatch counts as a fraction.
    columns : float
        Products with one column, forward or adjoint.
    flops : float
        Floating-point operations of those products.
    """

    sweeps: float = 0.0
    columns: float = 0.0
    flops: float = 0.0
    _by_thread: dict[int, float] = field(default_factory=dict, repr=False, compare=False)

    @property
    def own_sweeps(self) -> float:
        """The readings of the calling thread: others may use the same moments at the same time."""
        return self._by_thread.get(threading.get_ident(), 0.0)

    def record(self, *, sweeps: float = 0.0, columns: float = 0.0, flops: float = 0.0) -> None:
        """Add to the counts."""
        thread = threading.get_ident()
        self.sweeps += sweeps
        self._by_thread[thread] = self._by_thread.get(thread, 0.0) + sweeps
        self.columns += columns
        self.flops += flops


class CountedOperator(LinearOperator):
    """An operator whose use is counted in a ledger.

    A product counts as one sweep. Rows that are taken count as a fraction of a sweep.
    """

    def __init__(self, operator: LinearOperator, ledger: Ledger) -> None:
        self.operator = operator
        self.ledger = ledger
        if operator.adjustment is not None:  # the sweep that learns what is taken out counts, too
            operator.adjustment.ledger = ledger
            ledger.record(sweeps=operator.adjustment.unrecorded)
            operator.adjustment.unrecorded = 0.0
        self.dtype = operator.dtype
        self.home = operator.home
        self.sliceable = operator.sliceable
        self.readable = operator.readable
        self.streamed = operator.streamed
        self.sweeps = operator.sweeps

    @property
    def shape(self) -> Any:  # type: ignore[override]  # the rows of a stream are known later
        """(n, p)."""
        return self.operator.shape

    @property
    def nnz(self) -> int:
        return self.operator.nnz

    def _matmat(self, V: Array) -> Array:
        product = self.operator.matmat(V)  # the entries of a stream are counted when it has been read
        self.ledger.record(sweeps=1, columns=V.shape[1], flops=2.0 * self.nnz * V.shape[1])
        return product

    def _rmatmat(self, U: Array) -> Array:
        product = self.operator.rmatmat(U)
        self.ledger.record(sweeps=1, columns=U.shape[1], flops=2.0 * self.nnz * U.shape[1])
        return product

    def _rows(self, selection: Selection) -> LinearOperator:
        rows = self.operator.rows(selection)
        self.ledger.record(sweeps=rows.shape[0] / max(self.shape[0], 1))
        return rows

    def _dense(self) -> Array:
        self.ledger.record(sweeps=1)
        return self.operator.dense()

    def blocks(self) -> Iterator[LinearOperator]:
        """The blocks of streamed data. Reading them is one sweep; their use costs no further sweep."""
        blocks = self.operator.blocks()
        self.ledger.record(sweeps=1)
        return blocks

    def centered(self, mean: Array) -> LinearOperator:
        """A − 1 meanᵀ on the same ledger."""
        return CountedOperator(self.operator.centered(mean), self.ledger)

    def release(self) -> None:
        self.operator.release()


def uncounted(operator: LinearOperator) -> tuple[LinearOperator, Ledger]:
    """An operator without its counter, and its ledger (a new one if it had none).

    A counter inside a centred operator is removed, too.
    """
    if isinstance(operator, CenteredOperator) and isinstance(operator.parts[0], CountedOperator):
        inner = operator.parts[0]
        return CenteredOperator(inner.operator, operator.mean), inner.ledger
    if isinstance(operator, CountedOperator):
        return operator.operator, operator.ledger
    return operator, Ledger()
