"""Witnesses: sums rᵀA that identify the rows of a matrix, for numbers r that depend on the row number alone.

Problem: a run that is resumed from a checkpoint relies on earlier sweeps. Changes of the data must be detected
without another reading: of one entry, of one sign, or of the order of rows, which pairs two matrices.
Method: a sweep that is made anyway multiplies one more column r. Column sums do not detect exchanged rows; sums with
weights r that differ from row to row do. The tolerance is rounding: with σ = |r|ᵀ|A|, sums of n terms in the same
blocks or in others differ by about √n ε σ (Higham & Mary 2019, doi:10.1137/18M1226312, for sums with independent
rounding errors).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from linspec.arrays import Array, HostArray, to_host
from linspec.operators import DenseOperator, LinearOperator, SparseOperator, sparse_products
from linspec.operators.row_blocks import row_blocks
from linspec.operators.row_model import Change
from linspec.sweeps.task import Task

Part = TypeVar("Part")

ROUNDINGS = 8
"""Two witnesses of the same n rows may differ by this number times √n times the sum of their `rounding`.

This is forty times the difference that was measured for sums of the same terms in different blocks."""

ENTRIES = 1 << 22
"""Approximate number of stored entries of sparse rows that are copied and summed at once."""


@dataclass(frozen=True)
class Witness:
    """Sums that identify the rows of one matrix.

    Attributes
    ----------
    sums : array of shape (p,)
        rᵀA, float64.
    rounding : array of shape (p,)
        ε|r|ᵀ|A|, the change of the sums if every term is rounded once.
    """

    sums: Array
    rounding: Array

    def plus(self, other: Witness) -> Witness:
        """The witness of the rows of this witness and of `other` together."""
        return Witness(self.sums + other.sums, self.rounding + other.rounding)

    def on_host(self) -> Witness:
        """The witness as NumPy arrays."""
        return Witness(to_host(self.sums), to_host(self.rounding))

    def differing(self, other: Witness, rows: float) -> HostArray:
        """The columns in which two witnesses differ by more than rounding, which shows that the rows differ.

        Parameters
        ----------
        other : Witness
        rows : float
            The number of rows.
        """
        bound = ROUNDINGS * math.sqrt(max(rows, 1.0)) * (self.rounding + other.rounding)
        with np.errstate(invalid="ignore"):
            same = np.abs(self.sums - other.sums) <= bound
        return np.flatnonzero(~same)


def row_numbers(first: int, n: int) -> HostArray:
    """The numbers r of n rows, in ±[½, 1), by a hash of the row number (SplitMix64; Steele, Lea & Flood 2014).

    Parameters
    ----------
    first : int
        The number of the first row.
    n : int
    """
    z = (np.arange(first, first + n, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    sizes = 0.5 + (z >> np.uint64(12)).astype(np.float64) * 2.0**-53
    return np.where(z & np.uint64(1), sizes, -sizes)


def witness(A: LinearOperator, first: int = 0) -> Witness:
    """Compute the witness of some rows.

    Parameters
    ----------
    A : LinearOperator
    first : int, default 0
        The number of the first row.
    """
    r = row_numbers(first, A.shape[0])
    if isinstance(A, SparseOperator):
        return _of_sparse(A.matrix, r)
    if not A.readable or A.sparse:
        return _of_products(A, r)
    home, A = A.home.blocks, A if A.access == "rows" else DenseOperator(A.dense())
    sums, sizes = home.zeros((A.shape[1],)), home.zeros((A.shape[1],))
    for rows in row_blocks(A.shape[0], 8 * A.shape[1], home):
        whole = rows.stop - rows.start == A.shape[0]
        entries, own = home.place((A if whole else A.rows(rows)).dense()), home.place(r[rows])
        sums, sizes = sums + own @ entries, sizes + home.xp.abs(own) @ home.xp.abs(entries)
    return Witness(sums, sizes * float(np.finfo(np.float64).eps))


def _of_products(A: LinearOperator, r: HostArray) -> Witness:
    """Compute the witness by one product with Aᵀ; |r|ᵀ|A| is estimated as √n max |rᵀA|, and ε is that of A's dtype."""
    home = A.home.blocks
    sums = to_host(home.place(A.rmatmat(A.home.place(r[:, None], A.dtype)))[:, 0])
    size = math.sqrt(len(r)) * float(np.max(np.abs(sums), initial=0.0))
    return Witness(home.place(sums), home.place(np.full(len(sums), float(np.finfo(A.dtype).eps) * size)))


def _of_sparse(matrix: Any, r: HostArray) -> Witness:
    sums, sizes, double = np.zeros(matrix.shape[1]), np.zeros(matrix.shape[1]), np.dtype(np.float64)
    step = max(ENTRIES * len(r) // max(matrix.nnz, 1), 1)
    for start in range(0, len(r), step):
        own = r[start : start + step, None]
        rows = matrix[start : start + step]
        absolute = type(matrix)((np.abs(rows.data), rows.indices, rows.indptr), shape=rows.shape)
        sums += sparse_products.rmatmat(rows, own, double)[:, 0]
        sizes += sparse_products.rmatmat(absolute, np.abs(own), double)[:, 0]
    return Witness(sums, sizes * float(np.finfo(np.float64).eps))


@dataclass(frozen=True)
class Witnesses(Task[list[Witness]]):
    """Task that computes the witnesses of some views.

    Parameters
    ----------
    views : tuple of int
        Indices of the views.
    """

    views: tuple[int, ...] = (0,)

    def part(
        self, rows: Sequence[LinearOperator], first_row: int = 0, into: list[Witness] | None = None
    ) -> list[Witness]:
        """The witnesses of some rows, added to `into`, those of earlier rows."""
        found = [witness(rows[i], first_row) for i in self.views]
        return found if into is None else self.merge(into, found)

    def merge(self, left: list[Witness], right: list[Witness]) -> list[Witness]:
        """The witnesses of the rows of `left` and `right` together."""
        return [a.plus(b) for a, b in zip(left, right, strict=True)]


@dataclass(frozen=True)
class Together(Task[tuple[Part, list[Witness]]], Generic[Part]):
    """Task that runs another (inner) task and computes the witnesses of the rows in the same sweep.

    Parameters
    ----------
    task : Task
    witnesses : Witnesses
    """

    task: Task[Part]
    witnesses: Witnesses

    def part(
        self,
        rows: Sequence[LinearOperator],
        first_row: int = 0,
        into: tuple[Part, list[Witness]] | None = None,
    ) -> tuple[Part, list[Witness]]:
        """The pair of the inner task's part and the witnesses, for some rows."""
        before, seen = (None, None) if into is None else into
        return self.task.part(rows, first_row, before), self.witnesses.part(rows, first_row, seen)

    def merge(
        self, left: tuple[Part, list[Witness]], right: tuple[Part, list[Witness]]
    ) -> tuple[Part, list[Witness]]:
        """Merge the parts of the inner task, and the witnesses."""
        return self.task.merge(left[0], right[0]), self.witnesses.merge(left[1], right[1])

    def with_models(self, change: Change) -> Together[Part]:
        """The task with `change` applied to the row models of the inner task; witnesses need no row model."""
        return Together(self.task.with_models(change), self.witnesses)

    def merger(self) -> Together[Part]:
        """The task to be sent to workers that only merge: the inner task's merger, with witnesses."""
        return Together(self.task.merger(), self.witnesses)

    def looked_at(self, part: tuple[Part, list[Witness]]) -> Iterable[Array]:
        """The arrays of the inner task that are checked for finiteness."""
        return self.task.looked_at(part[0])
