"""Estimate of the number of entries of the sparse Gram matrices of blocks, from some of their columns.

Problem: the entries of a Gram matrix can be estimated from a matrix in memory; but each block has only its own rows,
and the Gram matrix of all rows has the union of the entries of all blocks.
Method: the entries of each column of the second factor are counted on the workers. The columns are ordered by these
counts and sampled at equal steps. For the sampled columns, the patterns of the columns of the product are formed on
the workers and united by a tree. `operators.sparse_grams.gram_entries` does the same in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse

from linspec.arrays import HostArray
from linspec.operators import LinearOperator
from linspec.operators.sparse_grams import SAMPLED_COLUMNS, pair_count
from linspec.sweeps.blocks.reduction import map_reduce
from linspec.sweeps.task import Task

WORTH_SAMPLING = 2**22
"""Number of pairs of entries in the same row above which the entries of the Gram matrix are estimated."""


@dataclass(frozen=True)
class CountedColumns(Task[HostArray]):
    """Task that counts the entries of each column of the last view Y, and the multiply-adds of XᵀY (X: first view)."""

    def part(
        self, rows: Sequence[LinearOperator], first_row: int = 0, into: HostArray | None = None
    ) -> HostArray:
        """The number of entries of each column of Y in some rows, then the multiply-adds; added to `into`."""
        *_, Y = (A.matrix for A in _any(rows))
        counts = np.bincount(Y.indices[: Y.indptr[-1]], minlength=Y.shape[1]).astype(np.int64)
        pairs = pair_count(_any(rows)[0].matrix, Y)
        own = np.append(counts, pairs)
        return own if into is None else into + own

    def merge(self, left: HostArray, right: HostArray) -> HostArray:
        """The sum of the counts `left` and `right`."""
        total: HostArray = left + right
        return total


@dataclass(frozen=True)
class Pattern(Task[Any]):
    """Task that forms the sparsity pattern of some rows of YᵀX, as a matrix of ones.

    Parameters
    ----------
    chosen : array of int
        Columns of Y, the last view; X is the first.
    """

    chosen: HostArray

    def part(self, rows: Sequence[LinearOperator], first_row: int = 0, into: Any = None) -> Any:
        """The pattern of YᵀX for some rows, united with `into`, the pattern of earlier rows."""
        first, *_, last = (_any(rows)[0], _any(rows)[-1])
        X, Y = first.matrix, last.matrix[:, self.chosen]
        found = (_ones(Y).T @ _ones(X)).tocsr()
        found.data[:] = 1.0
        return found if into is None else self.merge(into, found)

    def merge(self, left: Any, right: Any) -> Any:
        """The union of the patterns `left` and `right`."""
        both = left + right
        both.data[:] = 1.0
        return both


def _ones(A: Any) -> Any:
    return scipy.sparse.csr_array(
        (np.ones(len(A.data), dtype=np.float32), A.indices, A.indptr), shape=A.shape
    )


def _any(rows: Any) -> Any:
    return rows


def estimated_fill(views: Sequence[LinearOperator], pairs: Sequence[int]) -> tuple[int, float | None]:
    """Count the multiply-adds of all Gram and cross matrices of the views, and estimate the entries of these matrices.

    The multiply-adds of AᵀB are the pairs of a stored entry of A and a stored entry of B in the same row.

    Parameters
    ----------
    views : sequence of LinearOperator
        Operators of sparse blocks.
    pairs : sequence of int
        For each view A, the number of multiply-adds of AᵀA.

    Returns
    -------
    int
        The multiply-adds of all matrices.
    float or None
        The estimated number of stored entries of all matrices; None if the multiply-adds are at most `WORTH_SAMPLING`.
    """
    total = sum(pairs)
    products = [(view, view) for view in views]
    counted: dict[int, HostArray] = {}
    for pair in combinations(views, 2):  # no view alone knows the pairs of entries of both
        counted[len(products)] = map_reduce(CountedColumns(), list(pair), 1)
        total += int(counted[len(products)][-1])
        products.append(pair)
    if total <= WORTH_SAMPLING:
        return total, None
    filled = 0.0
    for i, (A, B) in enumerate(products):
        found = counted[i] if i in counted else map_reduce(CountedColumns(), [A], 1)
        filled += _entries(A, B, found[:-1])
    return total, filled


def _entries(A: LinearOperator, B: LinearOperator, counts: HostArray) -> float:
    """Estimate the number of entries of AᵀB, given the counts of the columns of B."""
    used = int(np.count_nonzero(counts))
    count = min(used, SAMPLED_COLUMNS)
    if count == 0:
        return 0.0
    by_counts = np.argsort(counts, kind="stable")[len(counts) - used :]
    chosen = by_counts[((np.arange(count) + 0.5) * used / count).astype(np.int64)]
    found = map_reduce(Pattern(chosen), [A] if A is B else [A, B], SAMPLED_COLUMNS)
    return float(found.nnz) * used / count
