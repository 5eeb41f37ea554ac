"""Second moments XᵢᵀDXⱼ of preprocessed matrices: held, or as products in one pass each.

The first pass also learns the preprocessing. It sums about provisional rows oᵢ, and later passes about the means as far
as the precision of the data represents them. With Pⱼ = (Xⱼ - 1oⱼᵀ) FⱼV, gaps aᵢ = mᵢ - oᵢ and slopes sᵢ, products about
oᵢ become those of the preprocessed matrices by terms of rank one and of the rank of the confounds:

    Fᵢ((Xᵢ - 1oᵢᵀ)ᵀDPⱼ - aᵢ (1ᵀDPⱼ) - sᵢ (sⱼᵀFⱼV)),    (1)
    Fᵢ((Xᵢ - 1oᵢᵀ)ᵀD(Xⱼ - 1oⱼᵀ) - Σw aᵢaⱼᵀ - sᵢsⱼᵀ)Fⱼ    for Gram matrices.    (2)

Formula (1) holds for any oᵢ, also oᵢ = 0 where zeros must stay zeros. If the first rows were so far from the means that
digits would be lost, the pass is made again about the means, once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from linspec._new.operators.base import Block, LinearOperator, Rows
from linspec.arrays import Array, Home, HostArray, all_finite, cast, to_host
from linspec.errors import DataOutOfRange, NonFiniteData
from linspec.rows.executor import LOCAL, Executor, Reduction
from linspec.rows.passes import Passes
from linspec.rows.preprocessing import Fitted, Preprocessing
from linspec.rows.reductions import (
    AboutRows,
    AdjointImages,
    Grams,
    Images,
    LongStep,
    Products,
    Residuals,
    RowData,
    Sketch,
    Statistics,
    Triangle,
)

__all__ = ["Moments", "Preprocessed"]


class Origins(NamedTuple):
    """The rows that X V and Xᵀ U of a matrix are about; None is 0."""

    times: HostArray | None
    adjoint: HostArray | None


About = dict[int, Origins]
"""The rows that the products of matrices are about, by their numbers."""

UNLUCKY = 1e4
"""Quotient of squares about the provisional row and about the mean from which on a pass is made again."""

FAR = 1e8
"""Quotient of squares about 0 and about the mean from which on Gram matrices about 0 are not exact enough."""

LEAST_SQUARES, MOST_SQUARES = 1e-270, 1e290
"""Sums of squares of columns between these have lost no digits to underflow, and none is infinite."""


class Moments:
    """Moments of some matrices with the same rows.

    Parameters
    ----------
    operators : sequence of Rows
    pre : Preprocessing, optional
    passes : Passes, optional
        The count of passes, with its limits.
    names : sequence of str, optional
        Names of the matrices in messages.
    executor : Executor, optional
    sketch_rows : int, default 0
        Rows of the sketch that the first pass over all matrices makes, too; 0 for none.
    seed : int, default 0
        Of the sketch.

    Attributes
    ----------
    fitted : dict of int to Fitted
        What was learnt of each matrix, by its number.
    held : list of list of array, or None
        The Gram matrices, once they are formed.
    """

    def __init__(
        self,
        operators: Sequence[Rows],
        pre: Preprocessing | None = None,
        passes: Passes | None = None,
        names: Sequence[str] = (),
        executor: Executor = LOCAL,
        sketch_rows: int = 0,
        seed: int = 0,
    ) -> None:
        self.operators, self.pre = list(operators), pre or Preprocessing()
        self.passes, self.executor = passes or Passes(), executor
        self.names = list(names) or ["data"] * len(self.operators)
        self.widths = [A.shape[1] for A in self.operators]
        self.fitted: dict[int, Fitted] = {}
        self.held: list[list[Any]] | None = None
        self.data = RowData(self.pre, self.operators)
        self.sketch_rows, self.seed = sketch_rows, seed
        self.sketched: list[HostArray] = []

    def settle(self, *which: int) -> None:
        """Learn the preprocessing of some matrices, by default all, in a pass of its own unless it is known."""
        numbers = which or tuple(range(len(self.operators)))
        if any(i not in self.fitted for i in numbers):
            self._pass(None, numbers)

    def products(self, *V: Array | None) -> list[list[Any]]:
        """Compute [[XᵢᵀDXⱼVⱼ for i] for j] of the preprocessed matrices, in one pass, or none if these are held.

        Parameters
        ----------
        *V : array of shape (pⱼ, k), or None
            For each matrix.

        Returns
        -------
        list of list of array
            Entry [j][i]; None where Vⱼ is None.
        """
        m = len(self.operators)
        if self.held is not None:
            held = self.held
            return [[None if v is None else held[i][j] @ v for i in range(m)] for j, v in enumerate(V)]
        blocks = [self._scaled(j, v) for j, v in enumerate(V)]
        total, about = self._pass(lambda: Products(self.data, self.operators, blocks))
        return [
            [
                None
                if v is None
                else self._corrected(total[m * j + i], total[m * m + j], self._along(j, v), i, about)
                for i in range(m)
            ]
            for j, v in enumerate(blocks)
        ]

    def residual(self, *V: Array) -> tuple[list[Array], HostArray]:
        """Compute XᵢᵀDU for every i and the squares of columns of √D U, where U = Σⱼ XⱼVⱼ; in one pass.

        For V = (x, -I) of A and b, U is the residual Ax - b.
        """
        blocks = [self._scaled(j, v) for j, v in enumerate(V)]
        total, about = self._pass(lambda: Residuals(self.data, self.operators, blocks))
        *products, sums, squares = total
        along = None if self.pre.B is None else sum(self._along(j, v) for j, v in enumerate(blocks))
        if along is not None:
            squares = squares - self.operators[0].backend.blocks.column_sums(along * along)
        if self.pre.center:
            squares = squares - sums * sums / self.fitted[0].total
        corrected = [self._corrected(P, sums, along, i, about) for i, P in enumerate(products)]
        return corrected, np.maximum(to_host(squares), 0.0)

    def sketch(self) -> list[HostArray]:
        """Return ΩX for every preprocessed X and a random Ω of `sketch_rows` rows, which the first pass has formed."""
        if not self.sketched:
            self._pass(None)
        return self.sketched

    def gram_product(self, V: Array, i: int = 0) -> Array:
        """Compute XᵢᵀDXᵢV, reading this matrix alone."""
        if self.held is not None:
            return self.held[i][i] @ V
        V = self._scaled(i, V)
        (P, sums), about = self._pass(lambda: Products(self.data, [self.operators[i]], [V]), [i])
        return self._corrected(P, sums, self._along(i, V), i, about)

    def gram(self) -> list[list[Any]]:
        """Form all XᵢᵀDXⱼ in one pass, and hold them: dense, or sparse where nothing is taken out of sparse ones."""
        if self.held is None:
            total, about = self._pass(lambda: Grams(self.data, self.operators))
            m = len(self.operators)
            pairs = [(i, j) for i in range(m) for j in range(i, m)]
            far = [f for i, f in self.fitted.items() if about[i].adjoint is None and f.about_zero > FAR]
            if self.pre.center and far and all(A.readings >= 1 for A in self.operators):
                products = self.products(*(A.backend.blocks.eye(A.shape[1]) for A in self.operators))
                upper = {(i, j): products[j][i] for i, j in pairs}
            else:
                upper = {pair: self._corrected_gram(total.pop(0), *pair, about) for pair in pairs}
            self.held = [[upper[i, j] if i <= j else upper[j, i].T for j in range(m)] for i in range(m)]
        return self.held

    def triangle(self) -> HostArray:
        """Form R of the QR factorisation of the preprocessed matrices side by side, in one pass."""
        (R,), _ = self._pass(lambda: Triangle(self.data, self.operators))
        inner: HostArray = to_host(R)[self.pre.directions :, self.pre.directions :]
        if not self.pre.scale:
            return inner
        factors = [self.fitted[i].factors for i in range(len(self.operators))]
        scaled: HostArray = inner * np.concatenate([f for f in factors if f is not None])
        return scaled

    def images(self, V: Array, i: int = 0) -> Array:
        """Compute the preprocessed Xᵢ times V, without weights, in one pass once the preprocessing is known."""
        A = self.operators[i]
        if self.pre.directions or self.pre.scale:
            self.settle(i)
        V = self._scaled(i, V)
        pieces, about = self._pass(lambda: Images(A, V), [i])
        scores, fitted = A.backend.xp.concat(pieces, axis=0), self.fitted[i]
        place, B = A.backend.blocks.place, self.data.B(A)
        if self.pre.center:
            scores = place(scores) - (place(fitted.gap(about[i].times)) @ V)[None, :]
        return scores if B is None else place(scores) - B @ (place(fitted.slopes).T @ V)

    def adjoint_images(self, U: Array, i: int = 0) -> Array:
        """Compute the transpose of the preprocessed Xᵢ times U, without weights, in one pass once that is known."""
        A = self.operators[i]
        self.settle(i)
        (total,), about = self._pass(lambda: AdjointImages(A, U), [i])
        fitted, place, B = self.fitted[i], A.backend.blocks.place, self.data.B(A)
        if self.pre.center:
            total = (
                total
                - place(fitted.gap(about[i].adjoint))[:, None] * A.backend.blocks.column_sums(U)[None, :]
            )
        if B is not None:
            total = total - place(fitted.slopes) @ (B.T @ U)
        return fitted.scaled(total)

    def long_step(self, V: Array, U: Array, alpha: HostArray, i: int = 0) -> tuple[Array, HostArray]:
        """Update U ← √D XᵢV - U diag(alpha) in place; return Xᵢᵀ√D U and the lengths of columns of U: one pass.

        U of shape (n, k) stays where the thin blocks of Xᵢ are.
        """
        A, place = self.operators[i], self.operators[i].backend.blocks.place
        self.settle(i)
        fitted, V = self.fitted[i], self._scaled(i, V)
        terms = {"alpha": place(alpha)}
        if self.pre.center:
            terms["shift"] = place(fitted.gap(self._mean(i))) @ V
        if self.pre.B is not None:
            terms["along"] = self._along(i, V)
        total, about = self._pass(lambda: LongStep(self.data, A, V, U, terms), [i])
        P, sums, squares = total[:3]
        along = total[3] if self.pre.B is not None else None
        return self._corrected(P, sums, along, i, about), np.sqrt(to_host(squares))

    def operator(self, i: int = 0) -> Preprocessed:
        """Return √D times the preprocessed Xᵢ, as an operator."""
        return Preprocessed(self, i)

    def _scaled(self, i: int, V: Array | None) -> Any:
        """F V; deviations take a pass of their own if they are not known."""
        if V is None or not self.pre.scale:
            return V
        self.settle(i)
        return self.fitted[i].scaled(V)

    def _pass(self, make: Callable[[], Reduction] | None, which: Sequence[int] = ()) -> tuple[Any, About]:
        """Make one pass over some matrices, by default all; it also learns what is not known of them.

        Returns the total, and for each of these matrices the rows that its products are about. If the first rows were
        unlucky, the pass is made again.
        """
        which = which or range(len(self.operators))
        unknown = any(i not in self.fitted for i in which)
        total, about = self._read(make, which, learns=unknown)
        lost = max((self.fitted[i].about_origin for i in which if about[i].adjoint is not None), default=1.0)
        again = all(self.operators[i].readings >= 1 for i in which)
        if unknown and again and lost > UNLUCKY:
            total, about = self._read(make, which, learns=True)
        return total, about

    def _read(
        self, make: Callable[[], Reduction] | None, which: Sequence[int], *, learns: bool
    ) -> tuple[Any, About]:
        """Read some matrices once."""
        self.passes.take(len(which) / len(self.operators))
        operators = [self.operators[i] for i in which]
        sketches = self.sketch_rows > 0 and not self.sketched and len(which) == len(self.operators)
        about: About = {}

        def begin(blocks: list[Block]) -> Reduction:
            placed = []
            for i, A, block in zip(which, operators, blocks, strict=True):
                row = self._row(i, block)
                about[i] = Origins(row, row if block.subtracts else None)
                placed.append(None if row is None else A.thin(row))
            parts: list[Any] = [] if make is None else [make()]
            grams = any(isinstance(part, Grams) for part in parts)
            if sketches:
                parts.append(Sketch(self.data, operators, self.sketch_rows, self.seed))
            if learns:
                apart = [
                    not grams or (row is not None and not b.subtracts)
                    for b, row in zip(blocks, placed, strict=True)
                ]
                parts.append(Statistics(self.data, operators, apart))
            return AboutRows(placed, parts, self.pre)

        reduction: Any
        reduction, totals, count = self.executor.reduce(operators, begin, self.passes.look)
        self.pre.check_rows(count, ended=True)
        if learns:
            learnt = totals.pop()
            for n, separate in enumerate(reduction.parts[-1].squares):
                if not separate:
                    learnt[3 * n + 2] = reduction.parts[0].diagonal(totals[0], n)
            self._learn(learnt, which, about)
        if sketches:
            self.sketched = self._corrected_sketch(totals.pop(), about)
        return (None if make is None else totals[0]), about

    def _row(self, i: int, block: Block) -> HostArray | None:
        """The row that one matrix is summed about, as the precision of its data represents it."""
        if not self.pre.center:
            return None
        if i in self.fitted:
            return self._mean(i)
        A = self.operators[i]
        return to_host(cast(block.origin(self.data.w(A, slice(0, block.rows))), A.dtype)).astype(np.float64)

    def _mean(self, i: int) -> HostArray:
        """The mean of a matrix, as far as the precision of its data represents it."""
        return self.fitted[i].mean.astype(self.operators[i].dtype).astype(np.float64)

    def _learn(self, total: list[Any], which: Sequence[int], about: About) -> None:
        """Learn the preprocessing of some matrices from their statistics."""
        count = float(total[0][0])
        for n, i in enumerate(which):
            sums, squares = to_host(total[3 * n + 1]), to_host(total[3 * n + 2])
            cross = None if self.pre.B is None else to_host(total[3 * n + 3])
            self._check(i, sums, squares)
            row = about[i].times
            origin = np.zeros(self.widths[i]) if row is None else row
            self.fitted[i] = Fitted.of(self.pre, origin, count, sums, squares, cross)

    def _check(self, i: int, sums: HostArray, squares: HostArray) -> None:
        """Refuse entries that are not finite, and columns whose squares over- or underflow."""
        name = self.names[i]
        bad = ~(squares < MOST_SQUARES) | ((squares > 0) & (squares < LEAST_SQUARES))
        if not bad.any():
            return
        column = int(np.argmax(bad))
        entry = _first_non_finite(self.operators[i]) if not np.isfinite(squares[column]) else None
        if entry is not None or not np.isfinite(sums).all():
            where = f"column {column}" if entry is None else f"row {entry[0]}, column {entry[1]}"
            value = "a number that is not finite" if entry is None else f"{entry[2]}"
            raise NonFiniteData(f"{name} must be finite; got {value} at {where}. Drop or impute such rows.")
        size = math.sqrt(min(float(np.nan_to_num(squares[column], nan=np.inf)), 1e300))
        raise DataOutOfRange(
            f"{name}: column {column} has entries of about {size:.0e}, whose squares are out of the range of float64. "
            f"{'Divide' if size > 1 else 'Multiply'} it by {max(size, 1 / size):.0e}."
        )

    def _along(self, j: int, V: Array) -> Any:
        """sⱼᵀV, what the confounds explain of XⱼV."""
        return None if self.pre.B is None else Home.of(V).place(self.fitted[j].slopes).T @ V

    def _corrected(self, P: Array, sums: Array, along: Any, i: int, about: About) -> Array:
        """Formula (1), with the sums 1ᵀDU and what confounds explain of U."""
        f, place = self.fitted[i], Home.of(P).place
        if self.pre.center:
            P = P - place(f.gap(about[i].adjoint))[:, None] * place(sums)[None, :]
        if self.pre.B is not None:
            P = P - place(f.slopes) @ place(along)
        return f.scaled(P)

    def _corrected_sketch(self, total: list[Any], about: About) -> list[HostArray]:
        """Ω√D times the preprocessed matrices, from those about their origins, with Ω√D1 and Ω√DB."""
        sketches = []
        for i, SX in enumerate(total[1:]):
            f = self.fitted[i]
            if self.pre.center:
                SX -= total[0][:, :1] * f.gap(about[i].adjoint)
            if f.slopes is not None:
                SX -= total[0][:, 1:] @ f.slopes.T
            sketches.append(SX if f.factors is None else SX * f.factors)
        return sketches

    def _corrected_gram(self, P: Any, i: int, j: int, about: About) -> Any:
        """Formula (2), in place; a sparse matrix stays sparse if nothing is taken out of it."""
        f, g = self.fitted[i], self.fitted[j]
        if scipy.sparse.issparse(P):
            if not self.pre.directions:
                return P if f.factors is None else P.multiply(f.factors[:, None]).multiply(g.factors).tocsr()
            P = P.toarray()
        place = Home.of(P).place
        if self.pre.center:
            P -= place(f.total * f.gap(about[i].adjoint))[:, None] * place(g.gap(about[j].adjoint))[None, :]
        if self.pre.B is not None:
            P -= place(f.slopes) @ place(g.slopes).T
        if self.pre.scale:
            P *= place(f.factors)[:, None]
            P *= place(g.factors)[None, :]
        return P


class Preprocessed(LinearOperator):
    """√D times a preprocessed matrix, by its products; each is one pass.

    Parameters
    ----------
    moments : Moments
    i : int
        The number of the matrix.
    """

    def __init__(self, moments: Moments, i: int) -> None:
        self.moments, self.i = moments, i
        A = moments.operators[i]
        self.dtype, self.backend, self.readings = A.dtype, A.backend, A.readings

    @property
    def shape(self) -> tuple[float, int]:  # type: ignore[override]
        """The shape of the matrix; the rows of slices are counted in the first pass."""
        return self.moments.operators[self.i].shape

    def matmat(self, V: Array) -> Array:
        """Compute √D X V for the preprocessed X."""
        return self._weighted(self.moments.images(V, self.i))

    def rmatmat(self, U: Array) -> Array:
        """Compute Xᵀ √D U for the preprocessed X."""
        return self.moments.adjoint_images(self._weighted(U), self.i)

    def _weighted(self, U: Array) -> Array:
        w = self.moments.data.w(self)
        return U if w is None else U * self.backend.blocks.xp.sqrt(w)[:, None]


def _first_non_finite(operator: Rows) -> tuple[int, int, float] | None:
    """Row, column and value of the first entry that is not finite, if the rows can be read again and cut."""
    if operator.readings < 1:
        return None
    first = 0
    for block in operator.blocks():
        for a, b in pairwise(block.edges(0) if block.divisible else []):
            rows = to_host(block.cut(a, b).about(None).dense())
            if not all_finite(rows):
                row, column = np.argwhere(~np.isfinite(rows))[0].tolist()
                return first + a + row, column, float(rows[row, column])
        first += block.rows
    return None
