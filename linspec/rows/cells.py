"""Cells: second moments of sets of rows, all from one pass.

Problem: cross-validation fits on all rows but a fold and scores the fold. Linear problems need second moments of both,
and not the rows again. Training and held-out rows are unions of cells.
Method: for each cell the sum of weights W, the sums s and the Gram matrix G of all matrices side by side are formed
about a row o near the mean of the first of its rows. Then

    m = s/W,    C = G - W m mᵀ                                                                                     (1)

are its mean minus o, and its moments about its mean. Moments of a union with another cell of mean m' follow,

    d = (o' - o) + (m' - m),    C ∪ C' = C + C' + W W'/(W + W') d dᵀ.                                              (2)

Source: Chan, Golub & LeVeque 1983 (doi:10.1080/00031305.1983.10483115), equations 2.1.
Where we differ: o + m is never formed, since that would round large means. The basis of the confounds is one more
matrix. The last matrix may stand beside the others: a hundred thousand targets have squares, and products with the
others, and none with each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse

from linspec.arrays import HostArray, cast, to_host
from linspec.blocks.base import Block, LinearOperator
from linspec.blocks.dense import TINY, Dense, DenseBlock
from linspec.linalg import varies
from linspec.rows.executor import Reduction
from linspec.rows.reductions import RowData

__all__ = ["Cell", "Cells"]


@dataclass(frozen=True, eq=False)
class Cell:
    """The moments of some rows of d columns, on the host in float64.

    Attributes
    ----------
    count : float
        The number of rows, or the sum of their weights.
    rows : int
        The number of rows with positive weight.
    origin, mean : numpy.ndarray of shape (d,)
        The column means are origin + mean.
    gram : numpy.ndarray of shape (g, d)
        The products of the first g columns with all columns, about the column means. Usually g = d.
    diagonal : numpy.ndarray of shape (d - g,)
        The squares about the means of the other columns, which have no products with each other.
    """

    count: float
    rows: int
    origin: HostArray
    mean: HostArray
    gram: HostArray
    diagonal: HostArray = field(default_factory=lambda: np.zeros(0))

    @property
    def squares(self) -> HostArray:
        """The sums of squares of all columns about their means."""
        return np.concatenate([np.diag(self.gram), self.diagonal])

    @property
    def variation(self) -> HostArray:
        """`squares`, with exactly 0 for a column that does not vary over these rows (`linspec.linalg.varies`)."""
        size = self.squares + self.count * (np.abs(self.origin) + np.abs(self.mean)) ** 2
        return np.where(varies(self.squares, size), self.squares, 0.0)

    def with_diagonal(self, columns: slice | HostArray) -> Cell:
        """Return these moments with some of the auxiliary columns, and without the rest."""
        g = len(self.gram)
        numbers = np.concatenate([np.arange(g), g + np.arange(len(self.diagonal))[columns]])
        origin, mean, gram = (array[..., numbers] for array in (self.origin, self.mean, self.gram))
        return replace(self, origin=origin, mean=mean, gram=gram, diagonal=self.diagonal[columns])

    def merged(self, other: Cell) -> Cell:
        """Return the moments of the union of these rows and those of `other`, by (2)."""
        if 0 in (self.count, other.count):
            return other if self.count == 0 else self
        d = -self.less(other.origin, other.mean)
        g = len(self.gram)
        total = self.count + other.count
        d = np.where(varies(d**2, (np.abs(self.origin) + np.abs(self.mean)) ** 2), d, 0.0)
        weight = self.count * (other.count / total)
        gram = np.outer(d[:g] * weight, d)
        gram += self.gram
        gram += other.gram
        diagonal = self.diagonal + other.diagonal + weight * d[g:] ** 2
        mean = self.mean + d * (other.count / total)
        return Cell(total, self.rows + other.rows, self.origin, mean, gram, diagonal)

    def less(self, origin: HostArray | float, mean: HostArray | float) -> HostArray:
        """Return the column means of these rows minus the point `origin` + `mean`."""
        return (self.origin - origin) + (self.mean - mean)

    def about(self, origin: HostArray, mean: HostArray) -> HostArray:
        """Return the Gram matrix of these rows about the point `origin` + `mean`."""
        gap = self.less(origin, mean)
        return self.gram + np.outer(gap[: len(self.gram)] * self.count, gap)

    def squares_about(self, origin: HostArray | float, mean: HostArray | float) -> HostArray:
        """Return the sums of squares of all columns about `origin` + `mean`, positive where they underflow."""
        gap = self.less(origin, mean)
        return np.maximum(self.squares + self.count * gap**2, TINY * (gap != 0))


@dataclass
class _Sums:
    """What is added up of a cell: of every matrix sums and squares about its origin, and products.

    Products are about the origin if the blocks subtract it, else about 0. Squares are None where products have them.
    """

    origins: list[HostArray]
    about: list[HostArray]
    count: float = 0.0
    rows: int = 0
    sums: list[Any] = field(default_factory=list)
    squares: list[Any] = field(default_factory=list)
    products: list[Any] = field(default_factory=list)

    @np.errstate(all="ignore")  # what is not finite is refused later
    def finished(self, *, diagonal: bool) -> Cell:
        """The moments about the means, by (1)."""
        s = np.concatenate([to_host(x) for x in self.sums])
        origin, count = np.concatenate(self.origins), self.count or 1.0
        edges = np.cumsum([0, *map(len, self.origins)]).tolist()
        first = len(self.origins) - diagonal
        g = edges[first]
        t = s + self.count * (origin - np.concatenate(self.about))  # about what products are about
        C = np.empty((g, edges[-1]))
        products = iter(self.products)
        for i, (a, b) in enumerate(pairwise(edges[: first + 1])):
            for c, d in list(pairwise(edges))[i:]:
                C[a:b, c:d] = to_host(next(products))
        parts = zip(self.squares, pairwise(edges), strict=True)
        about = [np.diag(C)[a:b] if q is None else to_host(q) for q, (a, b) in parts]
        squares = np.concatenate(about) - s * (s / count)
        C -= np.outer(t[:g] / count, t)  # (1)
        C[:, :g] = np.triu(C[:, :g]) + np.triu(C[:, :g], 1).T
        live = varies(squares, squares + count * (np.abs(origin) + np.abs(s / count)) ** 2)
        squares = np.where(live, squares, 0.0)
        np.fill_diagonal(C, squares[:g])
        return Cell(
            self.count, self.rows, origin, s / count, np.where(live[:g, None] & live, C, 0.0), squares[g:]
        )


class Cells(Reduction):
    """The moments of every cell.

    Parameters
    ----------
    data : RowData
        With the weights, and the basis of the confounds: its columns follow those of the matrices, but for one beside.
    operators : sequence of LinearOperator
    cells : sequence of numpy.ndarray of int
        The numbers of the rows of each cell, in increasing order. Cells may overlap.
    rows : int
        The number of all rows.
    diagonal : bool, default False
        Whether products of the last matrix with itself are left out, but for squares.
    """

    wide = True
    raw = True

    def __init__(
        self,
        data: RowData,
        operators: Sequence[LinearOperator],
        cells: Sequence[HostArray],
        rows: int,
        *,
        diagonal: bool = False,
    ) -> None:
        self.data, self.diagonal, self.sums = data, diagonal, len(cells)
        self.operators, self.at = [*operators], len(operators) - diagonal
        if data.pre.B is not None:
            self.operators.insert(self.at, Dense(operators[0].device.blocks.asarray(data.pre.B[:0])))
        self.labels: list[HostArray] = []
        for number, cell in enumerate(cells):
            free = (labels for labels in self.labels if (labels[cell] < 0).all())
            labels = next(free, None)
            if labels is None:
                labels = np.full(rows, -1)
                self.labels.append(labels)
            labels[cell] = number

    @property
    def by_row(self) -> list[Any]:
        return list(self.labels)

    def zero(self) -> dict[int, Any]:
        return {}

    def add(self, total: dict[int, Any], blocks: list[Block], rows: slice) -> None:
        w = None if self.data.pre.w is None else self.data.pre.w[rows]
        B = self.data.B(self.operators[0], rows)
        if B is not None:
            basis = DenseBlock(B, np.dtype(np.float64), self.operators[self.at].device)
            blocks = [*blocks[: self.at], basis, *blocks[self.at :]]
        for labels in self.labels:
            labelled = labels[rows]
            counted = labelled if w is None else np.where(w > 0, labelled, -1)
            for number in np.flatnonzero(np.bincount(labelled + 1)[1:]).tolist():
                where = np.flatnonzero(counted == number)
                if number not in total or len(where):
                    self._add(total, number, blocks, where, None if w is None else w[where])

    def _add(
        self, total: dict[int, Any], number: int, blocks: list[Block], where: HostArray, w: HostArray | None
    ) -> None:
        """Add some rows of a cell."""
        chosen = [block.take(where) for block in blocks]
        placed = [None if w is None else A.device.blocks.asarray(w) for A in self.operators]
        if number not in total or not total[number].rows:
            total[number] = self._begun(chosen, placed)
        cell = total[number]
        if not len(where):
            return
        parts = [b.about(A.thin(o)) for A, b, o in zip(self.operators, chosen, cell.origins, strict=True)]
        cell.rows += len(where)
        cell.count += len(where) if w is None else float(w.sum())
        for i, (part, counts) in enumerate(zip(parts, placed, strict=True)):
            apart = cell.squares[i] is not None
            sums, squares = part.sums(counts, squares=apart, exact=True)
            cell.sums[i] += sums
            if apart:
                cell.squares[i] += squares
        products = (
            _dense(part.gram(placed[i], right))
            for i, part in enumerate(parts[: len(parts) - self.diagonal])
            for right in parts[i:]
        )
        for n, product in enumerate(products):
            cell.products[n] += product

    def _begun(self, chosen: list[Block], placed: list[Any]) -> _Sums:
        """The sums of no rows, about a row near the mean of those that come first."""
        origins, about = [], []
        for A, block, w in zip(self.operators, chosen, placed, strict=True):
            row = to_host(cast(block.origin(w), A.dtype)) if block.rows else np.zeros(A.shape[1])
            row = np.nan_to_num(row.astype(np.float64), posinf=0.0, neginf=0.0)
            origins.append(row)
            about.append(row if block.subtracts else np.zeros_like(row))
        widths = [A.shape[1] for A in self.operators]
        places = [A.device.blocks for A in self.operators]
        first = len(widths) - self.diagonal
        products = [places[i].zeros((widths[i], q)) for i in range(first) for q in widths[i:]]
        sums, squares = ([A.zeros((q,)) for A, q in zip(places, widths, strict=True)] for _ in range(2))
        for i in range(first):
            squares[i] = None if chosen[i].subtracts else squares[i]
        return _Sums(origins, about, sums=sums, squares=squares, products=products)

    def merge(self, left: dict[int, Any], right: dict[int, Any]) -> dict[int, Any]:
        both = {**left, **right}
        for number in left.keys() & right.keys():
            both[number] = self._cell(left[number]).merged(self._cell(right[number]))
        return both

    def finished(self, total: dict[int, Any]) -> list[Cell]:
        """Return the moments of every cell, in their order.

        Parameters
        ----------
        total : dict
        """
        return [self._cell(total[number]) for number in range(self.sums)]

    def _cell(self, cell: Any) -> Cell:
        return cell if isinstance(cell, Cell) else cell.finished(diagonal=self.diagonal)


def _dense(G: Any) -> Any:
    return G.toarray() if scipy.sparse.issparse(G) else G
