"""What is summed over rows: statistics, products, Gram matrices, triangles, sketches, images.

Each is written with the methods of a block alone. All sums are formed about the rows that `AboutRows` passes to the
blocks, and `linspec.rows.moments` corrects them for means, confounds and scales.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import combinations_with_replacement, pairwise
from operator import itemgetter
from typing import Any

import numpy as np
import scipy.sparse

from linspec.arrays import Array, HostArray, all_finite, cast, to_host, triangle_below
from linspec.blocks.base import Block, LinearOperator, Rows, rows_per_block
from linspec.blocks.dense import DenseBlock
from linspec.blocks.sparse import SparseBlock
from linspec.blocks.units import check_entries
from linspec.errors import InvalidProblem, NonFiniteData, UnsupportedData, columns_without_numbers
from linspec.rows.executor import Reduction
from linspec.rows.preprocessing import Preprocessing

EVERY = slice(None)

OVERFLOW = (
    "products with {} are not finite, although no entry that can be read is at fault. Either they overflow: scale the "
    "columns, or pass float64. Or matmat or rmatmat of an operator answers with NaN or infinity: try it on one column "
    "of ones."
)
"""What is said of products that are not finite, of a matrix that is."""

SHOWN = 256
"""Rows in which an entry that is not finite is looked for at once."""

TALLEST = 512
"""Rows that are reduced at once on the host: more do not stay in its cache."""

SIGNS, GROUP = 8, 4096
"""Entries of a column of a sketch, and rows that share a stream of random numbers."""

ALONE = 1e-10
"""What is left of a row that no other helps to fit: 1 − leverage."""

LEVERAGE = (
    "HC2 and HC3 divide by 1 - leverage; got a row of leverage 1, which no other row helps to fit. Leave such rows "
    'out, or take kind="HC1".'
)
"""What is said of such rows."""

__all__ = [
    "AboutRows",
    "AdjointImages",
    "Grams",
    "ImageTriangle",
    "Images",
    "LongStep",
    "Meat",
    "Products",
    "Residuals",
    "RowData",
    "RowLengths",
    "RowSquares",
    "Scores",
    "Sketch",
    "Statistics",
    "Together",
    "Triangle",
    "check_products",
]


class RowData:
    """Weights and basis of confounds, at the place of each matrix.

    Parameters
    ----------
    pre : Preprocessing
    operators : sequence of LinearOperator
    """

    def __init__(self, pre: Preprocessing, operators: Sequence[LinearOperator]) -> None:
        self.pre = pre
        taken = operators if pre.w is not None or pre.B is not None else ()
        self._placed: dict[Any, Any] = {
            device: [None if array is None else device.blocks.asarray(array) for array in (pre.w, pre.B)]
            for A in taken
            for device in (A.device, A.device.blocks)
        }

    def w(self, A: LinearOperator, rows: slice = EVERY) -> Array | None:
        """The weights of some rows, beside a matrix."""
        return None if self.pre.w is None else self._placed[A.device][0][rows]

    def B(self, A: LinearOperator, rows: slice = EVERY) -> Array | None:
        """Some rows of the basis, beside a matrix."""
        return None if self.pre.B is None else self._placed[A.device][1][rows, :]


class Together(Reduction):
    """Some reductions of the same blocks in one pass.

    Parameters
    ----------
    parts : sequence of Reduction
    """

    def __init__(self, *parts: Reduction) -> None:
        self.parts = parts
        self.columns = sum([part.columns for part in parts])
        self.multiplied = sum([part.multiplied for part in parts])
        self.wide, self.tall = True in [part.wide for part in parts], True in [part.tall for part in parts]

    @property
    def by_row(self) -> list[Any]:
        return [x for part in self.parts for x in part.by_row]

    def begin_at(self, row: int) -> None:
        for part in self.parts:
            part.begin_at(row)

    def zero(self) -> list[Any]:
        return [part.zero() for part in self.parts]

    def add(self, total: list[Any], blocks: list[Block], rows: slice) -> None:
        for part, sums in zip(self.parts, total, strict=True):
            part.add(sums, blocks, rows)

    def merge(self, left: list[Any], right: list[Any]) -> list[Any]:
        return [part.merge(a, b) for part, a, b in zip(self.parts, left, right, strict=True)]


class AboutRows(Together):
    """Some reductions in one pass, each of the same blocks about the same rows.

    Parameters
    ----------
    about : list of array or None
        The row that is passed to the blocks of each matrix.
    parts : list of Reduction
    pre : Preprocessing
    first : list of Block, or None
        The first block of each matrix: others must subtract the row where it does. None: it does not matter.
    """

    def __init__(
        self, about: list[Array | None], parts: list[Reduction], pre: Preprocessing, first: list[Block] | None
    ) -> None:
        super().__init__(*parts)
        self.about, self.pre = about, pre
        self.subtracts = [None] * len(about) if first is None else [block.subtracts for block in first]
        self.far = [False] * len(about) if first is None else [block.far for block in first]

    @property
    def by_row(self) -> list[Any]:
        return [self.pre.w, self.pre.B, *super().by_row]

    def add(self, total: list[Any], blocks: list[Block], rows: slice) -> None:
        self.pre.check_rows(rows.stop, ended=False)
        for block, far, subtracts in zip(blocks, self.far, self.subtracts, strict=True):
            block.far = block.far or far
            if subtracts not in (None, block.subtracts):
                raise UnsupportedData(
                    f"slices must be of one kind, dense or sparse; those from row {rows.start} on are of another kind "
                    "than the first. Convert them to one kind."
                )
        if not self.parts[0].raw:
            blocks = [block.about(row) for block, row in zip(blocks, self.about, strict=True)]
        super().add(total, blocks, rows)


class Statistics(Reduction):
    """Sums of weights, and of every matrix the sums and squares of columns and XᵀDB: what `Fitted` is learnt from.

    Of some matrices the squares are left out: the diagonals of Gram matrices about the same row have them.
    """

    def __init__(
        self,
        data: RowData,
        operators: Sequence[LinearOperator],
        squares: Sequence[bool],
        names: Sequence[str],
    ) -> None:
        self.data, self.operators, self.squares, self.names = data, operators, squares, names
        self.directions = 0 if data.pre.B is None else data.pre.B.shape[1]

    def zero(self) -> list[Any]:
        sums: list[Any] = [np.zeros(1)]
        for A in self.operators:
            zeros = A.device.blocks.zeros
            p = A.shape[1]
            sums += [zeros((p,)), zeros((p,)), zeros((p, self.directions)) if self.directions else None]
        return sums

    def add(self, total: list[Any], blocks: list[Block], rows: slice) -> None:
        for i, (A, block) in enumerate(zip(self.operators, blocks, strict=True)):
            w, B = self.data.w(A, rows), self.data.B(A, rows)
            sums, squares = block.sums(w, squares=self.squares[i], exact=self.data.pre.scale)
            if not all_finite(sums):
                refuse_entry(self.names[i], block, self.first + rows.start)
            total[3 * i + 1] += sums
            if squares is not None:
                total[3 * i + 2] += squares
            if B is not None:
                total[3 * i + 3] += block.gram(w, DenseBlock(B, np.dtype(np.float64), A.device))
        w = self.data.pre.w
        total[0] += blocks[0].rows if w is None else w[rows].sum()


def refuse_entry(name: str, block: Block, first: int) -> None:
    """Raise an error that names the first entry of a block that is not finite; nothing if all are.

    Parameters
    ----------
    name : str
        Of the matrix.
    block : Block
    first : int
        The number of its first row.
    """
    for start, part in entries_of(block):
        check_entries(name, part, first + start)


def entries_of(block: Block) -> Iterator[tuple[int, HostArray]]:
    """Yield the entries of some rows after others, with the number of the first of these rows."""
    for a, b in pairwise([*range(0, block.rows, SHOWN), block.rows]):
        yield a, to_host(block.cut(a, b).dense() if block.divisible else block.dense())


def refuse_columns(A: Rows, name: str) -> None:
    """Raise an error that names columns without any number; nothing if there are none, or rows cannot be read again.

    Parameters
    ----------
    A : Rows
    name : str
    """
    empty = np.full(A.shape[1], A.readings > 1)
    for block in A.blocks() if empty.any() else ():
        for _, part in entries_of(block.about(None)):
            empty &= np.isnan(part).all(axis=0)
            if not empty.any():
                return
    if empty.any():
        raise NonFiniteData(
            f"{name} must be finite; {columns_without_numbers(np.flatnonzero(empty), A.column_names)}."
        )


def refuse_entries(A: Rows, name: str) -> None:
    """Raise an error that names the first entry of a matrix that is not finite; nothing if it cannot be read again.

    Parameters
    ----------
    A : Rows
    name : str
    """
    refuse_columns(A, name)
    first = 0
    for block in A.blocks() if A.readings >= 1 else ():
        refuse_entry(name, block.about(None), first)
        first += block.rows


def check_products(products: Array, A: Rows, name: str) -> None:
    """Raise an error that names an entry of a matrix, unless some products with it are finite.

    Parameters
    ----------
    products : array
    A : Rows
    name : str
    """
    if not all_finite(products):
        refuse_entries(A, name)
        raise NonFiniteData(OVERFLOW.format(name))


class Products(Reduction):
    """XᵢᵀDPⱼ for every i of `onto` and every Pⱼ = XⱼVⱼ with Vⱼ, and the sums of rows of DPⱼ.

    For m matrices, XᵢᵀDPⱼ is entry j m + i of the total, and the sums are entry m² + j.
    """

    def __init__(
        self,
        data: RowData,
        operators: Sequence[LinearOperator],
        V: Sequence[Array | None],
        onto: Collection[int] | None = None,
    ) -> None:
        self.data, self.operators = data, operators
        self.V = [None if v is None else A.thin(v) for A, v in zip(operators, V, strict=True)]
        self.onto = range(len(operators)) if onto is None else onto
        self.columns = sum(v.shape[1] for v in self.V if v is not None)
        self.multiplied = float(self.columns * (1 + len(self.onto)))

    def zero(self) -> list[Any]:
        products = [
            None if v is None or i not in self.onto else A.device.blocks.zeros((A.shape[1], v.shape[1]))
            for v in self.V
            for i, A in enumerate(self.operators)
        ]
        sums = [
            None if v is None else A.device.blocks.zeros((v.shape[1],))
            for v, A in zip(self.V, self.operators, strict=True)
        ]
        return products + sums

    def add(self, total: list[Any], blocks: list[Block], rows: slice) -> None:
        for j, v in enumerate(self.V):
            if v is None:
                continue
            U, A = blocks[j].times(v), self.operators[j]
            w = self.data.w(A, rows)
            if w is not None:
                U = U * A.thin(w)[:, None]
            for i in self.onto:
                blocks[i].t_times(self.operators[i].thin(U), total[j * len(blocks) + i])
            if self.data.pre.center:
                total[len(blocks) ** 2 + j] += A.device.blocks.asarray(A.device.column_sums(U))


class Residuals(Reduction):
    """XᵢᵀDU for every i and U = Σⱼ XⱼVⱼ - B `along`, BᵀDU, the sums of rows of DU, and of squares of U with weights.

    The rows of U are formed before anything is added up, so that nothing cancels in sums that cancels in rows.
    """

    def __init__(
        self, data: RowData, operators: Sequence[LinearOperator], V: Sequence[Array], along: Array
    ) -> None:
        self.data, self.operators, self.along = data, operators, along
        self.V = [A.thin(v) for A, v in zip(operators, V, strict=True)]
        self.columns = V[0].shape[1]
        self.multiplied = 2.0 * len(V) * self.columns

    def zero(self) -> list[Any]:
        products = [A.device.blocks.zeros((A.shape[1], self.columns)) for A in self.operators]
        zeros = self.operators[0].device.blocks.zeros
        return [*products, zeros(self.along.shape), zeros((self.columns,)), zeros((self.columns,))]

    def add(self, total: list[Any], blocks: list[Block], rows: slice) -> None:
        device = self.operators[0].device.blocks
        U = sum(device.asarray(block.times(v)) for block, v in zip(blocks, self.V, strict=True))
        w, B = self.data.w(self.operators[0], rows), self.data.B(self.operators[0], rows)
        if B is not None:
            U = U - B @ self.along
        weighted = U if w is None else U * w[:, None]
        for A, block, out in zip(self.operators, blocks, total, strict=False):
            block.t_times(A.thin(weighted), out)
        if B is not None:
            total[-3] += B.T @ weighted
        total[-2] += device.column_sums(weighted)
        total[-1] += device.column_sums(weighted * U)


class Sketch(Reduction):
    """Ω√D X of every matrix, of 1 and of B, for a random Ω with `size` rows and `SIGNS` entries ±1/√SIGNS a column.

    Ω keeps lengths up to a constant factor (Cohen 2016, SODA, 278-287). Its entries for a row depend on the seed and
    the number of the row alone.
    """

    wide = True
    columns = 8 * SIGNS  # numbers that Ω and what it is made from take for a row

    def __init__(self, data: RowData, operators: Sequence[LinearOperator], size: int, seed: int) -> None:
        self.data, self.operators, self.size, self.seed = data, operators, size, seed

    def zero(self) -> list[Any]:
        B = self.data.pre.B
        extra = np.zeros((self.size, 1 + (0 if B is None else B.shape[1])))
        return [extra, *(np.zeros((self.size, A.shape[1])) for A in self.operators)]

    def add(self, total: list[Any], blocks: list[Block], rows: slice) -> None:
        omega = self.of_rows(rows)
        B = self.data.pre.B
        extra = (
            np.ones((blocks[0].rows, 1)) if B is None else np.column_stack([np.ones(blocks[0].rows), B[rows]])
        )
        total[0] += omega.T @ extra
        signs = SparseBlock(omega, np.dtype(np.float64), 0, blocks[0].rows).about(None)
        for i, (A, block) in enumerate(zip(self.operators, blocks, strict=True)):
            if A.device.on_host:
                product = block.gram(None, signs).T
                total[i + 1] += product.toarray() if scipy.sparse.issparse(product) else product
            else:
                out = A.device.blocks.zeros((A.shape[1], self.size))
                block.t_times(A.thin(omega.toarray()), out)
                total[i + 1] += to_host(out).T

    def of_rows(self, rows: slice) -> Any:
        """The columns √D Ωᵀ of some rows, as a sparse matrix of (rows, size)."""
        places, signs = [], []
        start, stop = rows.start + self.first, rows.stop + self.first
        for group in range(start // GROUP, -(-stop // GROUP)):
            rng = np.random.default_rng([self.seed, group])
            inside = slice(max(start - group * GROUP, 0), min(stop - group * GROUP, GROUP))
            places.append(rng.integers(0, self.size, (GROUP, SIGNS))[inside])
            signs.append(2.0 * rng.integers(0, 2, (GROUP, SIGNS))[inside] - 1.0)
        values = np.concatenate(signs) / np.sqrt(SIGNS)
        w = self.data.pre.w
        if w is not None:
            values *= np.sqrt(w[rows])[:, None]
        count = stop - start
        arrays = values.ravel(), np.concatenate(places).ravel(), np.arange(0, SIGNS * count + 1, SIGNS)
        return scipy.sparse.csr_array(arrays, shape=(count, self.size))


class Grams(Reduction):
    """XᵢᵀDXⱼ for i ≤ j, or for some pairs, in float64, dense or sparse as the blocks give them."""

    wide = True

    def __init__(
        self,
        data: RowData,
        operators: Sequence[LinearOperator],
        pairs: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        self.data, self.operators = data, operators
        self.pairs = list(combinations_with_replacement(range(len(operators)), 2)) if pairs is None else pairs
        self.multiplied = float(sum(operators[j].shape[1] for j in set(map(itemgetter(1), self.pairs))))

    def zero(self) -> list[Any]:
        return []

    def add(self, total: list[Any], blocks: list[Block], rows: slice) -> None:
        more = []
        for i, j in self.pairs:
            more.append(blocks[i].gram(self.data.w(self.operators[i], rows), blocks[j]))
        total[:] = self.merge(total, more) if total else more

    def diagonal(self, total: list[Any], i: int) -> Array:
        """The squares of the columns of matrix i, about the rows that its Gram matrix is about."""
        m = len(self.operators)
        G = total[i * m - i * (i - 1) // 2]
        return (
            G.diagonal()
            if scipy.sparse.issparse(G)
            else self.operators[i].device.blocks.xp.linalg.diagonal(G)
        )

    def merge(self, left: list[Any], right: list[Any]) -> list[Any]:
        for n, (a, b) in enumerate(zip(left, right, strict=True)):
            if scipy.sparse.issparse(b) and not scipy.sparse.issparse(a):
                b = b.toarray()
            if scipy.sparse.issparse(a):
                left[n] = a + b
            else:
                a += b
        return left


class RowLengths(Grams):
    """SᵀDS and XᵢᵀDS of all matrices, where S has their squared lengths of rows, about the origins of products."""

    def add(self, total: list[Any], blocks: list[Block], rows: slice) -> None:
        device = self.operators[0].device
        parts = [block if block.subtracts else block.about(None) for block in blocks]
        S = device.blocks.xp.stack([block.row_squares(None) for block in parts], axis=1)
        lengths = DenseBlock(S, np.dtype(np.float64), device)
        w = self.data.w(self.operators[0], rows)
        more = [block.gram(w, lengths) for block in (lengths, *blocks)]
        total[:] = self.merge(total, more) if total else more


class Triangle(Reduction):
    """R of the QR factorisation of √D [1 B X₁ X₂ …] (sequential TSQR: Demmel, Grigori, Hoemmen & Langou 2012).

    Without its leading rows and columns it is R of the matrices without means and confounds: digits are not squared,
    and means far above the deviations cost none, since the rows are about a row near them.
    """

    wide = True

    def __init__(self, data: RowData, operators: Sequence[LinearOperator]) -> None:
        self.data, self.leader = data, operators[0]
        self.asarray = self.leader.device.blocks
        self.leading = data.pre.directions
        self.width = self.leading + sum(A.shape[1] for A in operators)
        self.height = TALLEST if self.asarray.on_host else rows_per_block(8 * self.width, on_host=False)

    def zero(self) -> list[Any]:
        return [self.asarray.zeros((0, self.width))]

    def add(self, total: list[Any], blocks: list[Block], rows: slice) -> None:
        w = self.data.w(self.leader, rows)
        B = self.data.B(self.leader, rows)
        n = blocks[0].rows
        height = self.height if all(block.divisible for block in blocks) else n
        for a, b in pairwise([*range(0, n, height), n]):  # so that few sparse rows at a time are dense
            columns = [self.asarray.asarray(self.columns_of(block.cut(a, b))) for block in blocks]
            if B is not None:
                columns.insert(0, B[a:b, :])
            if self.data.pre.center:
                columns.insert(0, self.asarray.ones((b - a, 1)))
            X = self.asarray.concat(columns)
            self.include(total, X if w is None else X * self.asarray.xp.sqrt(w[a:b])[:, None])

    def columns_of(self, block: Block) -> Array:
        """The columns that are reduced."""
        return block.dense()

    def include(self, total: list[Any], X: Array) -> None:
        """Reduce more rows together with those of the total."""
        total[0] = triangle_below(total[0], X)

    def merge(self, left: list[Any], right: list[Any]) -> list[Any]:
        self.include(left, right[0])
        return left


class ImageTriangle(Triangle):
    """The triangle of √D [1 B XV] for one matrix X and a thin V."""

    wide = False

    def __init__(self, data: RowData, operator: LinearOperator, V: Array) -> None:
        super().__init__(data, [operator])
        self.V, self.columns = operator.thin(V), V.shape[1]
        self.width, self.multiplied = self.leading + self.columns, float(self.columns)

    def columns_of(self, block: Block) -> Array:
        return block.times(self.V)


class Images(Reduction):
    """X V of one matrix: the pieces of all rows, in order."""

    tall = True

    def __init__(self, operator: LinearOperator, V: Array) -> None:
        self.V, self.columns = operator.thin(V), V.shape[1]
        self.multiplied = float(self.columns)

    def zero(self) -> list[Any]:
        return []

    def add(self, total: list[Any], blocks: list[Block], rows: slice) -> None:
        total.append(blocks[0].times(self.V))

    def merge(self, left: list[Any], right: list[Any]) -> list[Any]:
        return left + right


class RowSquares(Images):
    """The squared lengths of the rows of one matrix, in order, for V of one column."""

    def add(self, total: list[Any], blocks: list[Block], rows: slice) -> None:
        total.append(blocks[0].row_squares(None))


class Scores(Images):
    """√D (X V - 1 shiftᵀ - B along) of one matrix, which must be finite."""

    def __init__(
        self, data: RowData, operator: Rows, V: Array, terms: dict[str, Array], dtype: Any, name: str
    ) -> None:
        super().__init__(operator, V)
        self.data, self.operator, self.terms, self.dtype = data, operator, terms, dtype
        self.name = name

    def add(self, total: list[Any], blocks: list[Block], rows: slice) -> None:
        total.append(cast(_scores(self, blocks[0], rows)[0], self.dtype))
        if not all_finite(total[-1]):
            refuse_entry(self.name, blocks[0], self.first + rows.start)
            raise NonFiniteData(OVERFLOW.format(self.name))


def _scores(of: Any, block: Block, rows: slice) -> tuple[Array, Array | None]:
    """√D (X V - 1 shiftᵀ - B along) and √D, for the rows of a block."""
    device = of.operator.device.blocks
    u = device.asarray(block.times(of.V))
    if "shift" in of.terms:
        u = u - of.terms["shift"][None, :]
    w = of.data.w(of.operator, rows)
    B = of.data.B(of.operator, rows)
    if B is not None:
        u = u - B @ of.terms["along"]
    root = None if w is None else device.xp.sqrt(w)[:, None]
    return (u if root is None else u * root), root


class Meat(Reduction):
    """Σ u² q qᵀ over rows for each column of residuals, or of clusters the sums of their rows u q.

    The rows q are those of √D XV, with the first column of `taken` before them if means are subtracted. The residuals e
    are those of √D Y less √D XV times `fit`, and u = e a / (1 − h a²)^power for the a of a row and its leverage h, to
    which all columns of `taken` belong.

    Parameters
    ----------
    scores : sequence of Scores
        √D XV and √D Y.
    fit : numpy.ndarray of shape (k, m)
    power : float
    shape : tuple of int
        That of the total: columns of residuals, then clusters or entries of q, then entries of q.
    by_row : list of numpy.ndarray or None
        `taken` of shape (n, s), a of shape (n,), and the number of the cluster of each row, if there are clusters.
    """

    wide = True

    def __init__(
        self,
        scores: Sequence[Scores],
        fit: HostArray,
        power: float,
        shape: tuple[int, ...],
        by_row: Sequence[Any],
    ) -> None:
        self.scores, self.fit, self.power, self.shape = scores, fit, power, shape
        self.taken, self.alone, self.clusters = by_row
        self.columns = sum(part.columns for part in scores)

    @property
    def by_row(self) -> list[Any]:
        return [self.taken, self.alone, self.clusters]

    def zero(self) -> list[Any]:
        return [np.zeros(self.shape)]

    def add(self, total: list[Any], blocks: list[Block], rows: slice) -> None:
        pairs = zip(self.scores, blocks, strict=True)
        Q, e = [to_host(_scores(part, block, rows)[0]) for part, block in pairs]
        T, a = self.taken[rows], self.alone[rows]
        left = 1 - ((Q**2).sum(axis=1) + (T**2).sum(axis=1)) * a**2
        if self.power and (left < ALONE).any():
            raise InvalidProblem(LEVERAGE)
        u = (e - Q @ self.fit) * (a / left**self.power)[:, None]
        Q = np.hstack([T[:, : self.shape[2] - Q.shape[1]], Q])
        for sums, column in zip(total[0], u.T, strict=True):
            products = Q * column[:, None]
            if self.clusters is None:
                sums += products.T @ products
            else:
                np.add.at(sums, self.clusters[rows], products)


class LongStep(Reduction):
    """The new U = √D (X V - 1 shiftᵀ - B along) - U diag(alpha) of one matrix X.

    The sums are Xᵀ√D U, 1ᵀ√D U, the squares of U, and Bᵀ√D U. U has a row for each row of X; it is made and used while
    these are read, so that a step takes one pass. The last entry has its pieces, in order.
    """

    tall = True

    def __init__(
        self, data: RowData, operator: LinearOperator, V: Array, U: Array, terms: dict[str, Array]
    ) -> None:
        self.data, self.operator, self.U, self.terms = data, operator, U, terms
        self.V, self.columns = operator.thin(V), V.shape[1]
        self.multiplied = 2.0 * self.columns

    @property
    def by_row(self) -> list[Any]:
        return [self.U]

    def zero(self) -> list[Any]:
        zeros, k = self.operator.device.blocks.zeros, self.columns
        sums = [zeros((self.operator.shape[1], k)), zeros((k,)), zeros((k,))]
        return [*sums, zeros((self.data.pre.directions - self.data.pre.center, k)), []]

    def add(self, total: list[Any], blocks: list[Block], rows: slice) -> None:
        device, B = self.operator.device.blocks, self.data.B(self.operator, rows)
        u, root = _scores(self, blocks[0], rows)
        u = u - self.U[rows, :] * self.terms["alpha"][None, :]
        total[4].append(u)
        total[2] += device.column_sums(u * u)
        u = u if root is None else u * root
        blocks[0].t_times(self.operator.thin(u), total[0])
        total[1] += device.column_sums(u)
        if B is not None:
            total[3] += B.T @ u


class AdjointImages(Reduction):
    """XᵀU of one matrix, for U with a row for each of its rows."""

    def __init__(self, operator: LinearOperator, U: Array) -> None:
        self.operator, self.U, self.columns = operator, U, U.shape[1]
        self.multiplied = float(self.columns)

    @property
    def by_row(self) -> list[Any]:
        return [self.U]

    def zero(self) -> list[Any]:
        return [self.operator.device.blocks.zeros((self.operator.shape[1], self.columns))]

    def add(self, total: list[Any], blocks: list[Block], rows: slice) -> None:
        blocks[0].t_times(self.operator.thin(self.U[rows, :]), total[0])
