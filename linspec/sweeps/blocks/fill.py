"""How many entries the sparse Gram matrices of blocks would have, from some of their columns.

Problem: whether columns rarely share a row is known of a matrix in memory; of blocks, each sees its own rows only, and
the Gram matrix of all rows has the entries of all of them.
Method: the columns of the second factor are counted, where they are. Of some, at equal steps in the order of their
counts, the columns of the product are formed as patterns, and united by a tree.
`operators.sparse_grams.gram_entries` does the same in memory.
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
"""From this number of pairs on, the number of entries is estimated."""


@dataclass(frozen=True)
class CountedColumns(Task[HostArray]):
    """How many entries each column of the last view has, and behind them the pairs of the first two views."""

    def part(
        self, rows: Sequence[LinearOperator], first_row: int = 0, into: HostArray | None = None
    ) -> HostArray:
        """Of some rows."""
        *_, Y = (A.matrix for A in _any(rows))
        counts = np.bincount(Y.indices[: Y.indptr[-1]], minlength=Y.shape[1]).astype(np.int64)
        pairs = pair_count(_any(rows)[0].matrix, Y)
        own = np.append(counts, pairs)
        return own if into is None else into + own

    def merge(self, left: HostArray, right: HostArray) -> HostArray:
        """Of the rows of both."""
        total: HostArray = left + right
        return total


@dataclass(frozen=True)
class Pattern(Task[Any]):
    """Where some rows of YᵀX have entries.

    Parameters
    ----------
    chosen : array of int
        Columns of Y, the last view; X is the first.
    """

    chosen: HostArray

    def part(self, rows: Sequence[LinearOperator], first_row: int = 0, into: Any = None) -> Any:
        """Of some rows, united with those before."""
        first, *_, last = (_any(rows)[0], _any(rows)[-1])
        X, Y = first.matrix, last.matrix[:, self.chosen]
        found = (_ones(Y).T @ _ones(X)).tocsr()
        found.data[:] = 1.0
        return found if into is None else self.merge(into, found)

    def merge(self, left: Any, right: Any) -> Any:
        """Of the rows of both."""
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
    """Pairs of entries that share a row, over all Gram and cross matrices, and the entries of these.

    Parameters
    ----------
    views : sequence of LinearOperator
        In sparse blocks.
    pairs : sequence of int
        Of each view with itself.
    """
    total = sum(pairs)
    products = [(view, view) for view in views]
    counted: dict[int, HostArray] = {}
    for pair in combinations(views, 2):  # pairs of entries of both are known by no view alone
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
    """The entries of AᵀB."""
    used = int(np.count_nonzero(counts))
    count = min(used, SAMPLED_COLUMNS)
    if count == 0:
        return 0.0
    by_counts = np.argsort(counts, kind="stable")[len(counts) - used :]
    chosen = by_counts[((np.arange(count) + 0.5) * used / count).astype(np.int64)]
    found = map_reduce(Pattern(chosen), [A] if A is B else [A, B], SAMPLED_COLUMNS)
    return float(found.nnz) * used / count
