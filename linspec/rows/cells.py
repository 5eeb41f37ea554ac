"""Cells: second moments of groups of rows, which add and subtract.

Problem: cross-validation fits on all rows but a fold, a bootstrap on rows that count several times, and later rows are
added to earlier ones. Linear problems need second moments of these rows, and not the rows again.
Method: one pass makes a cell of each group of rows: the sum of weights W, the sums s and the Gram matrix G of all
matrices and confounds side by side, about one row o. Cells of other rows add, also with a factor; training rows are all
rows minus a fold. About another row o' = o - d a cell is

    s' = s + W d,    G' = G + s dᵀ + d sᵀ + W d dᵀ.    (1)

Centring, confounds Z and scaling are then what they are for all rows: with the means m = s/W about o,

    C = G - W m mᵀ,    C ← C - C_z C_zz⁻ C_zᵀ,    C ← F C F,    F = diag(W / C)^½.    (2)

Sources: Chan, Golub & LeVeque 1983 (doi:10.1080/00031305.1983.10483115) for (1); Frisch & Waugh 1933 for the second
step of (2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse

from linspec._new.operators.base import Block, LinearOperator, Rows
from linspec.algebra import varies
from linspec.arrays import HostArray, to_host
from linspec.errors import InvalidProblem
from linspec.linalg.small import inverse
from linspec.rows.executor import Executor, Reduction, executor_of
from linspec.rows.passes import Passes
from linspec.rows.preprocessing import DEPENDENT

__all__ = ["Cell", "SecondMoments", "cells_of"]


@dataclass(frozen=True)
class SecondMoments:
    """Second moments of preprocessed matrices, by (2).

    Attributes
    ----------
    gram : numpy.ndarray of shape (P, P)
        Of all matrices side by side, without the confounds.
    mean, slopes, factors : numpy.ndarray or None
        What was subtracted and divided by: of shapes (P,), (c, P) and (P,).
    total : float
    """

    gram: HostArray
    mean: HostArray | None
    slopes: HostArray | None
    factors: HostArray | None
    total: float


@dataclass(frozen=True)
class Cell:
    """Second moments of some rows about `origin`.

    Attributes
    ----------
    origin : numpy.ndarray of shape (P,)
    total : float
        The number of rows, or the sum of their weights.
    sums : numpy.ndarray of shape (P,)
    gram : numpy.ndarray of shape (P, P)
    """

    origin: HostArray
    total: float
    sums: HostArray
    gram: HostArray

    def about(self, origin: HostArray) -> Cell:
        """Return the moments about another row."""
        if origin is self.origin or np.array_equal(origin, self.origin):
            return self
        d = self.origin - origin
        cross = np.outer(self.sums, d)
        gram = self.gram + cross + cross.T + self.total * np.outer(d, d)  # (1)
        return Cell(origin, self.total, self.sums + self.total * d, gram)

    def plus(self, cell: Cell, times: float = 1.0) -> Cell:
        """Return the moments of these rows and of others, which count `times` as often; -1 takes them out."""
        more = cell.about(self.origin)
        return replace(
            self,
            total=self.total + times * more.total,
            sums=self.sums + times * more.sums,
            gram=self.gram + times * more.gram,
        )

    def minus(self, cell: Cell) -> Cell:
        """Return the moments of these rows without some of them."""
        return self.plus(cell, -1.0)

    def preprocessed(self, *, center: bool = False, scale: bool = False, confounds: int = 0) -> SecondMoments:
        """Return second moments of preprocessed matrices, by (2).

        Parameters
        ----------
        center, scale : bool, default False
        confounds : int, default 0
            The last columns that are confounds.
        """
        if not self.total > 0:
            raise InvalidProblem("some rows must count; all have weight 0 here. Leave fewer rows out.")
        P = len(self.sums) - confounds
        zero = self.about(np.zeros_like(self.origin)) if not center else self
        m = self.sums / self.total
        C = zero.gram - self.total * np.outer(m, m) if center else zero.gram
        size = np.diagonal(C) + (self.total * (self.origin + m) ** 2 if center else 0.0)
        live = varies(np.diagonal(C), size)
        C = np.where(live[:, None] & live, C, 0.0)
        slopes = None
        if confounds:
            slopes = inverse(C[P:, P:]) @ C[P:, :P]
            left = C[:P, :P] - C[:P, P:] @ slopes
            kept = np.diagonal(left) > DEPENDENT * np.diagonal(C)[:P]
            C = np.where(kept[:, None] & kept, left, 0.0)
        squares = np.diagonal(C)[:P]
        factors = (
            np.sqrt(np.divide(self.total, squares, out=np.zeros(P), where=squares > 0)) if scale else None
        )
        C = C[:P, :P] if factors is None else C[:P, :P] * factors[:, None] * factors
        return SecondMoments(C, (self.origin + m)[:P] if center else None, slopes, factors, self.total)


class _Groups(Reduction):
    """Of every group of rows the sum of weights, and of all matrices side by side sums, squares and Gram matrices.

    Sums and squares are about `origins`. So are Gram matrices of blocks that subtract; those of others are about 0.
    """

    wide = True

    def __init__(
        self, labels: HostArray, operators: Sequence[LinearOperator], origins: list[Any], w: HostArray | None
    ) -> None:
        self.labels, self.count, self.operators, self.w = labels, int(labels.max()) + 1, operators, w
        self.origins = [A.thin(o) for A, o in zip(operators, origins, strict=True)]
        self.places = [slice(a, b) for a, b in pairwise(np.cumsum([0, *map(len, origins)]).tolist())]

    @property
    def by_row(self) -> list[Any]:
        return [self.labels, self.w]

    def zero(self) -> list[Any]:
        P = self.places[-1].stop
        return [np.zeros(self.count), *np.zeros((2, self.count, P)), np.zeros((self.count, P, P))]

    def add(self, total: list[Any], blocks: list[Block], rows: slice) -> None:
        labels = self.labels[rows]
        w = None if self.w is None else self.w[rows]
        for group in np.unique(labels).tolist():
            where = np.flatnonzero(labels == group)
            chosen = [b.take(where).about(o) for b, o in zip(blocks, self.origins, strict=True)]
            counts = None if w is None else w[where]
            total[0][group] += len(where) if counts is None else counts.sum()
            for i, (A, block) in enumerate(zip(self.operators, chosen, strict=True)):
                here = None if counts is None else A.backend.blocks.place(counts)
                sums, squares = block.sums(here, squares=not block.subtracts, exact=True)
                total[1][group, self.places[i]] += to_host(sums)
                total[2][group, self.places[i]] += 0.0 if squares is None else to_host(squares)
                for j in range(i, len(chosen)):
                    G = block.gram(here, chosen[j])
                    G = G.toarray() if scipy.sparse.issparse(G) else to_host(G)
                    total[3][group, self.places[i], self.places[j]] += G


def cells_of(
    operators: Sequence[Rows],
    labels: HostArray,
    *,
    weights: HostArray | None = None,
    passes: Passes | None = None,
    executor: Executor | None = None,
) -> list[Cell]:
    """Make a cell of every group of rows, in one pass.

    Parameters
    ----------
    operators : sequence of Rows
        Matrices with the same rows, confounds last.
    labels : numpy.ndarray of shape (n,)
        The group of each row, from 0 on.
    weights : numpy.ndarray of shape (n,), optional
    passes : Passes, optional
    executor : Executor, optional
        By default that of the matrices.

    Returns
    -------
    list of Cell
    """
    passes = passes or Passes()
    passes.take()
    origins: list[HostArray] = []
    subtracts: list[bool] = []

    def begin(blocks: list[Block]) -> Reduction:
        for A, block in zip(operators, blocks, strict=True):
            subtracts.append(block.subtracts)
            origins.append(to_host(A.thin(block.origin(None))).astype(np.float64))
        return _Groups(labels, operators, origins, weights)

    _, total, count, _ = (executor or executor_of(operators)).reduce(operators, begin, passes.look)
    if count != len(labels):
        raise InvalidProblem(f"labels must have one for each of {count} rows; got {len(labels)}.")
    origin = np.concatenate(origins)
    moved = np.concatenate([np.full(len(o), not s) for o, s in zip(origins, subtracts, strict=True)])
    return [_cell(w, s, q, U, origin, moved) for w, s, q, U in zip(*total, strict=True)]


def _cell(
    total: float, sums: HostArray, squares: HostArray, upper: HostArray, origin: HostArray, moved: HostArray
) -> Cell:
    """A cell about `origin`, from a Gram matrix that is about 0 in columns that are to be moved."""
    upper = np.triu(upper)
    first = np.where(moved, 0.0, origin)
    cell = Cell(first, float(total), sums + total * (origin - first), upper + np.triu(upper, 1).T).about(
        origin
    )
    np.fill_diagonal(cell.gram, np.where(moved, squares, np.diagonal(cell.gram)))  # with all their digits
    return replace(cell, sums=sums)
