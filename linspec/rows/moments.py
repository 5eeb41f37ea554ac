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
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse

from linspec.arrays import (
    Array,
    Device,
    HostArray,
    all_finite,
    cast,
    host_dtype,
    is_array,
    on_device,
    to_host,
)
from linspec.blocks import ByProducts
from linspec.blocks.base import DENSE_RATE, SPARSE_RATE, Block, LinearOperator, Rows
from linspec.blocks.sparse_loops import SparseMinusThin
from linspec.blocks.units import check_sizes, fits_single
from linspec.errors import InvalidProblem, MissingCapability, NonFiniteData
from linspec.linalg import EPS, rank_cut, varies
from linspec.process.log import LOG, tells
from linspec.rows.cells import Cell, Cells
from linspec.rows.executor import Executor, Reduction, executor_of
from linspec.rows.few_rows import Discarded, FewRows, LeadingRows
from linspec.rows.minibatch import Minibatch, Origins, Terms
from linspec.rows.passes import Passes
from linspec.rows.preprocessing import Fitted, Preprocessing
from linspec.rows.reductions import (
    AboutRows,
    AdjointImages,
    Grams,
    Images,
    ImageTriangle,
    LongStep,
    Meat,
    Products,
    Residuals,
    RowData,
    RowLengths,
    RowSquares,
    Scores,
    Sketch,
    Statistics,
    Together,
    Triangle,
    refuse_columns,
    refuse_entries,
)

__all__ = ["Moments", "Preprocessed"]


About = dict[int, Origins]
"""The rows that the products of matrices are about, by their numbers."""

SMALL_ROWS, SMALL_ENTRIES = 2**12, 2**17
"""Rows and stored entries of matrices that are never cut, and for which the overhead of a pass counts."""

UNLUCKY = 1e4
"""Quotient of squares about the provisional row and about the mean from which on a pass is made again."""

FAR = 1e5
"""Quotient of squares about 0 and about the mean from which on Gram matrices about 0 are not exact enough."""

EXPLAINED = 1e3
"""Quotient of squares before and after confounds from which on float32 is multiplied in float64: it loses 3 digits."""

LEAST_SQUARES, MOST_SQUARES = 1e-270, 1e300
"""Sums of squares of columns above the first have lost no digits to underflow; infinite ones count as the second."""

HIDDEN = 1 - 1e-7
"""The share of the squares about 0 that is the mean's from which on squares about the mean are not known from these."""

ROUNDED_PRODUCT = 4
"""Rounding of eigenvalues of XᵀX from float32 products, in units of float32; .7 was the largest that was measured."""

SCATTERED, NARROW = 0.05, 1000
"""Gram matrices of more columns than the second are held sparse if at most the first share of their entries is stored:
to multiply so many takes about as long as a dense one."""


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
        What makes passes; by default what the matrices of a pass bring.
    sketch_rows : int, default 0
        Rows of the sketch that the first pass over all matrices makes, too; 0 for none.
    seed : int, default 0
        Of the sketch.
    certificate_passes : float, default 0
        Passes that are set aside for the certificate until something is held that makes them needless.
    scaled : collection of int, optional
        The matrices to which `pre.scale` belongs; by default all.

    Attributes
    ----------
    subtracts : dict of int to bool
        Whether products and Gram matrices of a matrix are about a row near its mean; else they are about 0.
    near : set of int
        The matrices about 0 whose first rows are near enough to it.
    fitted : dict of int to Fitted
        What was learnt of each matrix, by its number.
    read : list of float
        How often each matrix was read; passes are the largest of these.
    held : list of list of array, or None
        The Gram matrices, once they are formed.
    root : list of array, or None
        The columns of the triangle that belong to each matrix, once it is formed: products with RᵀR are those with the
        rows.
    crossed : array, or None
        XᵀDY of two matrices, once it is formed.
    sketches : bool, default True
        Whether a sketch of the rows stands for what products are made of.
    metrics : list of Metric, or None
        The norms that a problem has made of what is known of these matrices (`linspec.certificates`).
    complete : bool
        Whether a certificate shall compute all values that Gram matrices have.
    """

    sketches = True

    def __init__(  # noqa: PLR0913, PLR0917 (what a problem says of its data)
        self,
        operators: Sequence[Rows],
        pre: Preprocessing | None = None,
        passes: Passes | None = None,
        names: Sequence[str] = (),
        executor: Executor | None = None,
        sketch_rows: int = 0,
        seed: int = 0,
        certificate_passes: float = 0.0,
        scaled: Collection[int] | None = None,
    ) -> None:
        self.operators, self.pre = list(operators), pre or Preprocessing()
        self.passes, self.executor = passes or Passes(), executor
        self.certificate_passes, self.scaled = certificate_passes, scaled
        self.passes.reserved += certificate_passes
        self.names = list(names) or ["data"] * len(self.operators)
        self.widths = [A.shape[1] for A in self.operators]
        self.read = [0.0] * len(self.operators)
        self.fitted: dict[int, Fitted] = {}
        self.subtracts: dict[int, bool] = {}
        self.near: set[int] = set()
        self.far = FAR
        self.whole: dict[tuple[int, ...], tuple[list[Block], About]] = {}
        self.terms: dict[int, Terms] = {}
        self.raw_squares: dict[int, HostArray] = {}
        self.held: list[list[Any]] | None = None
        self.root: Any = None
        self.metrics: Any = None
        self.crossed: Any = None
        self.complete = False
        self.data = RowData(self.pre, self.operators)
        self.sketch_rows = sketch_rows
        self.seed = seed
        self.sketched: list[HostArray] = []

    def expect(self, products: int, columns: int, form: str = "auto") -> None:
        """Form and hold the Gram matrices if that is cheaper than so many products of so many columns, and fits.

        Parameters
        ----------
        products, columns : int
        form : {"auto", "dense", "sparse", "implicit"}, default "auto"
            "implicit" holds nothing; "dense" and "sparse" hold them whatever they take.
        """
        if self.held is None:
            form = self.cheapest_form(products, columns) if form == "auto" else form
            if form != "implicit":
                self.gram(sparse=form == "sparse")

    def cheapest_form(self, products: int, columns: int) -> str:
        """The form that takes least for so many products of so many columns, and fits: see `expect`."""
        once = sum(A.product_seconds(columns) for A in self.operators)
        forming = sum(A.gram_seconds() for A in self.operators)
        entries = float(sum(self.widths)) ** 2
        rate = DENSE_RATE
        form = "dense"
        if min(self.widths) > NARROW and forming <= products * once:
            stored = sum(A.gram_entries(B) for A in self.operators for B in self.operators)
            if stored <= SCATTERED * entries:
                entries, rate, form = stored, SPARSE_RATE, "sparse"
        small = 24 * entries < 2**24
        if not small and 24 * entries > self.device.free_memory() / 2:
            return "implicit"
        use = 2 * entries * columns / rate
        return form if forming <= products * (once - use) else "implicit"

    @property
    def device(self) -> Device:
        """Where blocks are that the first matrix multiplies."""
        return self.operators[0].device.blocks

    @property
    def holds(self) -> bool:
        """Whether a Gram matrix, or its root, is held."""
        return self.held is not None or self.root is not None

    @property
    def rereads(self) -> bool:
        """Whether the rows of all matrices can be read again."""
        return all(A.readings >= 1 for A in self.operators)

    @property
    def once(self) -> bool:
        """Whether the rows of some matrix can be read once, or no more."""
        return any(A.readings <= 1 for A in self.operators)

    @property
    def answers(self) -> bool:
        """Whether products can still be had: something is held, or the rows can be read again."""
        return self.holds or self.rereads

    def subtracted(self, i: int = 0) -> float:
        """The Frobenius norm of what products subtract for means and confounds; 0 where entries are about the means."""
        f = self.fitted[i]
        if not self.pre.directions or self.subtracts[i]:
            return 0.0
        squares = (f.squares > 0) * f.total * (f.average if self.pre.center else 0 * f.average) ** 2
        squares = squares if f.slopes is None else squares + (f.slopes**2).sum(axis=1)
        return float(np.linalg.norm(np.sqrt(squares) * (1.0 if f.factors is None else f.factors)))

    def squares(self, i: int = 0) -> HostArray | None:
        """Sums of squares of the columns; None where products alone have told about them."""
        if self.held is not None:
            G = self.held[i][i]
            return to_host(G).diagonal() if is_array(G) else G.diagonal()
        return self.fitted[i].squares if self.operators[i].readable else None

    def variation(self, i: int) -> HostArray:
        """Sums of squares of the columns about their means, as they came: not scaled, and with what confounds explain.

        0 for a column that does not vary; NaN where these are estimates, and where the mean hides them.
        """
        f = self.fitted[i]
        about = f.left if f.slopes is None else f.left + (f.slopes**2).sum(axis=1)
        of_means = f.total * f.average**2
        if self.pre.center:
            about = np.where(varies(about, about + of_means), about, 0.0)
        else:
            about = np.where(of_means < HIDDEN * about, about - of_means, np.nan)
        return np.full_like(about, np.nan) if self.operators[i].estimated else about

    def least_value(self, i: int = 0) -> float:
        """The fraction of the largest singular value below which singular values are rounding of the entries."""
        A = self.operators[i]
        n, p = map(int, A.shape)
        return rank_cut((max(n, p), min(n, p)), np.float64 if A.rounding <= EPS else np.float32)

    def least_square(self, i: int = 0) -> float:
        """The fraction of the largest eigenvalue of XᵢᵀXᵢ below which eigenvalues are rounding of squares."""
        unit = self.unit(i)
        return ROUNDED_PRODUCT * unit if unit > EPS else min(self.operators[i].shape) * EPS

    def error_of_means(self, i: int = 0) -> float:
        """The relative error that is left where means or confounds are taken out of products, or of held squares."""
        if not self.pre.directions or self.root is not None:
            return 0.0
        fitted = self.fitted[i]
        eps = self.unit(i)
        readable = self.operators[i].readable
        if self.pre.center and self.subtracts[i] and readable:
            return eps * fitted.explained_share if self.pre.B is not None else 0.0
        return eps * fitted.about_zero ** (0.5 if self.pre.center and not (self.holds and readable) else 1.0)

    def unit(self, i: int = 0) -> float:
        """The rounding of the Gram matrix that is held, or else of products."""
        A = self.operators[i]
        return EPS if self.holds and A.readable else float(np.finfo(A.dtype).eps)

    @property
    def noise(self) -> float:
        """The rounding of products with unit vectors, relative to their norms: what is smaller is no more than that."""
        return (
            10
            * math.sqrt(sum(self.widths))
            * max(
                max(float(np.finfo(A.dtype).eps), self.error_of_means(i))
                for i, A in enumerate(self.operators)
            )
        )

    def scales(self, i: int) -> bool:
        """Whether the columns of a matrix are divided by their deviations."""
        return self.pre.scale and (self.scaled is None or i in self.scaled)

    def fit(self, *which: int) -> None:
        """Learn the preprocessing of some matrices, by default all, in a pass of its own unless it is known."""
        numbers = which or tuple(range(len(self.operators)))
        if any(i not in self.fitted for i in numbers):
            self._pass(None, numbers)

    def products(self, *V: Array | None, onto: Collection[int] | None = None) -> list[list[Any]]:
        """Compute [[XᵢᵀDXⱼVⱼ for i] for j] of the preprocessed matrices, in one pass, or none if these are held.

        Parameters
        ----------
        *V : array of shape (pⱼ, k), or None
            For each matrix.
        onto : collection of int, optional
            The matrices i whose Xᵢᵀ are multiplied; by default all.

        Returns
        -------
        list of list of array
            Entry [j][i]; None where Vⱼ is None, and where i is not in `onto`.
        """
        m = len(self.operators)
        onto = range(m) if onto is None else onto
        if (held := self.held) is not None:
            return [
                [None if v is None or i not in onto else held[i][j] @ v for i in range(m)]
                for j, v in enumerate(V)
            ]
        if self.root is not None:
            images = [None if v is None else R @ v for R, v in zip(self.root, V, strict=True)]
            return [
                [None if U is None or i not in onto else R.T @ U for i, R in enumerate(self.root)]
                for U in images
            ]
        blocks = [self._scaled(j, v) for j, v in enumerate(V)]
        total, about = self._pass(lambda: Products(self.data, self.operators, blocks, onto))
        return [
            [
                None
                if v is None or i not in onto
                else self._corrected(total[m * j + i], total[m * m + j], self._along(j, v), i, about)
                for i in range(m)
            ]
            for j, v in enumerate(blocks)
        ]

    def cross(self) -> Array:
        """Compute XᵀDY of two matrices, which is kept, in one pass unless something is held."""
        if self.root is not None:
            return self.root[0].T @ self.root[1]
        if self.crossed is None and self.held is None:
            (C,), about = self._pass(lambda: Grams(self.data, self.operators, [(0, 1)]))
            self.crossed = self._corrected_gram(C, 0, 1, about, sparse=False)
        C = self.crossed if self.held is None else self.held[0][1]
        return C if is_array(C) else C.toarray()

    def residual(self, *V: Array, gram: bool = False) -> tuple[list[Array], HostArray]:
        """Compute XᵢᵀDU for every i and the squares of columns of √D U, where U = Σⱼ XⱼVⱼ; in one pass.

        For V = (x, -I) of A and b, U is the residual Ax - b. A held triangle gives the same, digits included; held Gram
        matrices do not, because squares cancel. With `gram` the pass forms and holds Gram matrices, too.
        """
        if self.root is not None:
            U = sum(R @ v for R, v in zip(self.root, V, strict=True))
            return [R.T @ U for R in self.root], to_host(self.device.column_sums(U * U))
        blocks = [self._scaled(j, v) for j, v in enumerate(V)]
        along = self.device.zeros((self.pre.directions - self.pre.center, V[0].shape[1]))
        if self.pre.B is not None and len(self.fitted) == len(V):
            along = sum(self._along(j, v) for j, v in enumerate(blocks))
        total, about = self._pass(
            lambda: Together(
                Residuals(self.data, self.operators, blocks, along),
                *([Grams(self.data, self.operators)] if gram else []),
            )
        )
        *products, left, sums, squares = total[0]
        if gram:
            self._hold(total[1], about)
        squares = squares - self.device.column_sums(left * left)
        if self.pre.center:
            squares = squares - sums * sums / self.fitted[0].total
        corrected = [self._corrected(P, sums, left, i, about) for i, P in enumerate(products)]
        return corrected, np.maximum(to_host(squares), 0.0)

    def sketch(self) -> list[HostArray]:
        """Return ΩX for every preprocessed X and a random Ω of `sketch_rows` rows, which the first pass has formed."""
        if not self.sketched:
            self._pass(None)
        return self.sketched

    def cells(self, cells: Sequence[HostArray], rows: int, *, diagonal: bool = False) -> list[Cell]:
        """Compute second moments of sets of rows as they were given, with their weights; in one pass.

        Parameters
        ----------
        cells : sequence of numpy.ndarray of int
            The numbers of the rows of each set, in increasing order.
        rows : int
            The number of rows of the data.
        diagonal : bool, default False
            Whether products of the last matrix with itself are left out, but for squares: for very many columns.

        Returns
        -------
        list of Cell

        Raises
        ------
        InvalidProblem
            The data have another number of rows.
        DataOutOfRange, NonFiniteData
        """
        sums = Cells(self.data, self.operators, cells, rows, diagonal=diagonal)
        every = range(len(self.operators))
        moments = sums.finished(self._read(lambda: sums, every, learns=False)[0])
        n = self.operators[0].shape[0]
        if n != rows:
            raise InvalidProblem(
                f"sets of {rows} rows must be of the rows of {' and '.join(self.names)}; got {n} rows. Pass a label "
                "for each row."
            )
        about_zero = np.array([cell.squares_about(0.0, 0.0) for cell in moments])
        varying = np.array([cell.variation for cell in moments])
        sizes, far = np.sum([cell.origin + cell.mean for cell in moments], axis=0), False
        lost = (about_zero > FAR * varying) & (varying > 0)
        for i, some in enumerate(self._columns_of_cells(diagonal=diagonal)[0]):
            self._check(i, sizes[some], about_zero[:, some].sum(axis=0), sum(cell.count for cell in moments))
            if not self.subtracts[i] and lost[:, some].any():
                self.operators[i].far = far = True
        if far and self.rereads:
            moments = sums.finished(self._read(lambda: sums, every, learns=False)[0])
        return moments

    def _columns_of_cells(self, *, diagonal: bool) -> tuple[list[slice], slice]:
        """The columns of each matrix in a cell, and those of the basis of the confounds."""
        widths, at = [*self.widths], len(self.widths) - diagonal
        widths.insert(at, 0 if self.pre.B is None else self.pre.B.shape[1])
        places = [slice(a, b) for a, b in pairwise(np.cumsum([0, *widths]).tolist())]
        basis = places.pop(at)
        return places, basis

    def hold_cell(self, whole: Cell) -> None:
        """Learn the preprocessing from the moments of all rows, as `cells` has them, and hold their Gram matrices.

        Of a matrix beside the others its products with itself are not known, and not held.
        """
        places, basis = self._columns_of_cells(diagonal=len(whole.diagonal) > 0)
        row = (whole.origin + whole.mean) * self.pre.center
        zero = np.zeros_like(row)
        G = whole.about(row, zero)
        squares = whole.squares_about(row, zero)
        sums = whole.less(row, zero)
        learnt: list[Any] = [np.array([whole.count])]
        for some in places:
            learnt += [whole.count * sums[some], squares[some], G[basis, some].T]
        about = {
            i: Origins(row[some], row[some] if self.pre.center else None) for i, some in enumerate(places)
        }
        self._learn(learnt, range(len(places)), about)
        if len(self.fitted) < len(places):  # later passes are in float64, and what is held stays
            self._learn(learnt, range(len(places)), about)
        self._will_hold()
        asarray, known = self.device.asarray, len(G)
        held: list[list[Any]] = [[None] * len(places) for _ in places]
        for i, a in enumerate(places):
            for j, b in enumerate(places[i:], i):
                if a.stop <= known:
                    held[i][j] = asarray(self._corrected_gram(G[a, b], i, j, about, sparse=False))
                    held[j][i] = held[i][j].T
        self.held = held

    def gram_product(self, V: Array, i: int = 0) -> Array:
        """Compute XᵢᵀDXᵢV, reading this matrix alone."""
        if self.held is not None:
            return self.held[i][i] @ V
        if self.root is not None:
            return self.root[i].T @ (self.root[i] @ V)
        V = self._scaled(i, V)
        (P, sums), about = self._pass(lambda: Products(self.data, [self.operators[i]], [V]), [i])
        return self._corrected(P, sums, self._along(i, V), i, about)

    @classmethod
    def of_products(cls, operators: Mapping[str, Any], passes: Passes) -> Moments:
        """Moments of operators, by their names in messages, of which nothing is to be learnt: they are preprocessed."""
        moments = cls([ByProducts(A, name) for name, A in operators.items()], passes=passes)
        for i, A in enumerate(moments.operators):
            zeros = np.zeros(A.shape[1])
            moments.subtracts[i], moments.raw_squares[i] = True, zeros
            moments.fitted[i] = Fitted.known(zeros)._replace(total=float(A.shape[0]))
        return moments

    def pre_of(self, i: int) -> Preprocessing:
        """What is asked of the rows of one matrix."""
        return self.pre

    def again(self, passes: Passes, certificate_passes: float = 0.0) -> Moments:
        """Moments that know and hold the same, and count their passes elsewhere; they learn for both."""
        twin: Moments = copy(self)
        twin.passes, twin.metrics, twin.read = passes, None, [0.0] * len(self.operators)
        twin.sketch_rows = 0
        twin.sketched = []
        twin.certificate_passes = 0.0 if self.holds else certificate_passes
        passes.reserved += twin.certificate_passes
        return twin

    def take_up(self, other: Moments) -> None:
        """Hold what other moments of the same matrices have formed."""
        self.held, self.root, self.crossed = other.held, other.root, other.crossed

    @contextmanager
    def view(self, i: int) -> Iterator[Moments]:
        """Moments of one matrix, whose passes count here, and which leave what they have learnt of it."""
        alone = self.alone(i)
        yield alone
        self.read[i] = alone.read[0]
        for known, learnt in zip(self._learnt, alone._learnt, strict=True):
            known.update({i: learnt[0]} if 0 in learnt else {})

    def alone(self, i: int) -> Moments:
        """Moments of one matrix, whose passes count here, with what is known and held of it."""
        A, scaled = self.operators[i], range(int(self.scales(i)))
        alone = Moments([A], self.pre_of(i), self.passes, [self.names[i]], self.executor, scaled=scaled)
        alone.read = [self.read[i], max(self.read)]  # a pass counts where no other matrix was read as often
        alone.held = None if self.held is None else [[self.held[i][i]]]
        alone.root = None if self.root is None else [self.root[i]]
        for known, learnt in zip(self._learnt, alone._learnt, strict=True):
            learnt.update({0: known[i]} if i in known else {})
        return alone

    @property
    def _learnt(self) -> tuple[dict[int, Any], ...]:
        """All that is learnt of matrices, by their numbers."""
        return self.fitted, self.subtracts, self.raw_squares

    def gram(self, *, sparse: bool = False) -> list[list[Any]]:
        """Form all XᵢᵀDXⱼ in one pass, and hold them: dense, or sparse where nothing is taken out of sparse ones.

        With `sparse`, what is taken out of sparse ones is held beside them: `SparseMinusThin`.
        """
        if self.held is None:
            self._will_hold()
            self._hold(*self._pass(lambda: Grams(self.data, self.operators)), sparse=sparse)
        return self.held  # type: ignore[return-value]

    def lengths_of_rows(self) -> HostArray:
        """Return Σw‖x‖²‖y‖² over the rows x, y of every two matrices, and form and hold their Gram matrices: one pass.

        The matrices must be centred, neither scaled nor adjusted for confounds. With squared lengths s about the
        origins, gaps g from there to the means and c = ‖g‖², those about the means are s − 2gᵀx + c. With Gram matrices
        G about the means, and all else about the origins, the sums are sᵢᵀDsⱼ + hᵢⱼ + hⱼᵢ with

            hᵢⱼ = gᵢᵀ(2Gᵢⱼgⱼ − 2XᵢᵀDsⱼ + gᵢ(tr Gⱼⱼ + 3/2 Σw cⱼ)).
        """
        self._will_hold()
        self.far = FAR**0.5  # of sums of fourth powers
        parts = lambda: Together(Grams(self.data, self.operators), RowLengths(self.data, self.operators))  # noqa: E731
        (grams, sums), about = self._pass(parts)
        self._hold(grams, about)
        G = self.gram()
        S, *products = map(to_host, sums)
        gaps = [self.fitted[i].gap(origin.adjoint) for i, origin in about.items()]
        h = np.zeros_like(S)
        for j, g in enumerate(gaps):
            trace = to_host(G[j][j]).trace() + 1.5 * self.fitted[j].total * g @ g
            for i, f in enumerate(gaps):
                h[i, j] = f @ (2 * to_host(G[i][j]) @ g - 2 * products[i][:, j] + f * trace)
        return S + h + h.T

    def _hold(self, total: list[Any], about: About, *, sparse: bool = False) -> None:
        """Hold Gram matrices, from those about the origins."""
        m = len(self.operators)
        pairs = [(i, j) for i in range(m) for j in range(i, m)]
        upper = {pair: self._corrected_gram(total.pop(0), *pair, about, sparse=sparse) for pair in pairs}
        self.held = [[upper[i, j] if i <= j else upper[j, i].T for j in range(m)] for i in range(m)]

    def triangle(self) -> HostArray:
        """Form R of the QR factorisation of the preprocessed matrices side by side, in one pass.

        Narrow entries count as exact: they are about their rows in float64.
        """
        self._will_hold()
        if self.rereads:
            for A in self.operators:
                A.widen()
        (R,), _ = self._pass(lambda: Triangle(self.data, self.operators))
        inner: HostArray = to_host(R)[self.pre.directions :, self.pre.directions :]
        inner = inner * np.concatenate([self.fitted[i].kept for i in range(len(self.operators))])
        asarray = self.device.asarray
        edges = np.cumsum([0, *self.widths]).tolist()
        self.root = [asarray(inner[:, a:b]) for a, b in pairwise(edges)]
        return inner

    def few_rows(self, rank: int | None) -> FewRows:
        """Return few rows that stand for all rows as they came, with their weights, in float64; in one pass.

        Parameters
        ----------
        rank : int or None
            The leading combinations of rows that are kept, and up to twice as many. None: nothing is discarded.
        """
        for A in self.operators:
            A.widen()
        every, device = range(len(self.operators)), self.device
        leading = LeadingRows(self.data, self.operators, rank)
        (R, lost), about = self._read(lambda: leading, every, learns=False)
        count, w = int(self.operators[0].shape[0]), self.pre.w
        total = float(count if w is None else w.sum())
        origin = np.concatenate([about[i].times for i in every])
        with np.errstate(all="ignore"), on_device(R):
            squares = to_host(device.column_sums(R**2))[1:] + total * origin**2
        for i, (a, b) in enumerate(pairwise(np.cumsum([0, *self.widths]))):
            self._check(i, squares[a:b], squares[a:b], total)
        return FewRows(R, device.asarray(origin), count, total, Discarded(*lost.tolist()))

    def products_with_triangle(self, V: Array, i: int = 0) -> tuple[Array, HostArray]:
        """Compute XᵢᵀDXᵢV, and R of the QR factorisation of √D XᵢV, in one pass."""
        V = self._scaled(i, V)
        A = self.operators[i]
        parts = lambda: Together(Products(self.data, [A], [V]), ImageTriangle(self.data, A, V))  # noqa: E731
        ((P, sums), (R,)), about = self._pass(parts, [i])
        leading = self.pre.directions
        return self._corrected(P, sums, self._along(i, V), i, about), to_host(R)[leading:, leading:]

    def images(self, V: Array, i: int = 0, share: float = 1.0) -> Array:
        """Compute the preprocessed Xᵢ times V, without weights, in one pass once deviations that scale are known.

        It counts as `share` of a pass.
        """
        A = self.operators[i]
        V = self._scaled(i, V)
        pieces, about = self._pass(lambda: Images(A, V), [i], share)
        scores = A.device.xp.concat(pieces, axis=0)
        asarray, B = A.device.blocks.asarray, self.data.B(A)
        if self.pre.center:
            scores = asarray(scores) - (asarray(self.fitted[i].gap(about[i].times)) @ V)[None, :]
        return scores if B is None else asarray(scores) - B @ self._along(i, V)

    def row_squares(self, i: int = 0) -> Array:
        """Compute the squared lengths of the rows of Xᵢ, about the row that its products are about, in one pass."""
        A = self.operators[i]
        pieces, _ = self._pass(lambda: RowSquares(A, A.device.blocks.zeros((A.shape[1], 1))), [i])
        return A.device.blocks.xp.concat(pieces, axis=0)

    def adjoint_images(self, U: Array, i: int = 0, share: float = 1.0) -> Array:
        """Compute the transpose of the preprocessed Xᵢ times U, without weights, in one pass.

        It counts as `share` of a pass.
        """
        A = self.operators[i]
        (total,), about = self._pass(lambda: AdjointImages(A, U), [i], share)
        B = self.data.B(A)
        along = None if B is None else B.T @ U
        return self._corrected(total, A.device.blocks.column_sums(U), along, i, about)

    def long_step(self, V: Array, U: Array, alpha: HostArray, i: int = 0) -> tuple[Array, HostArray]:
        """Update U ← √D XᵢV - U diag(alpha) in place; return Xᵢᵀ√D U and the lengths of columns of U: one pass.

        U of shape (n, k) stays where the thin blocks of Xᵢ are.
        """
        A, asarray = self.operators[i], self.operators[i].device.blocks.asarray
        self.fit(i)
        V = self._scaled(i, V)
        terms = self._terms(i, V) | {"alpha": asarray(alpha)}
        total, about = self._pass(lambda: LongStep(self.data, A, V, U, terms), [i])
        P, sums, squares, along, pieces = total
        U[...] = A.device.blocks.xp.concat(pieces, axis=0)
        return self._corrected(P, sums, along, i, about), np.sqrt(to_host(squares))

    def scores(
        self,
        V: Array,
        i: int = 0,
        dtype: Any = np.float64,
        offset: Array | None = None,
        slopes: Array | None = None,
    ) -> Rows:
        """Compute √D (X V + 1 offsetᵀ + B slopes) of the preprocessed Xᵢ, as rows that stay where those of Xᵢ are.

        It takes one pass.
        """
        A = self.operators[i]
        self.fit(i)
        V = self._scaled(i, V)
        row = A.thin(self.mean(i)) if self.pre.center else None
        terms = self._terms(i, V)
        if offset is not None:
            terms["shift"] = terms.get("shift", 0.0) - offset
        if slopes is not None:
            terms["along"] = terms["along"] - slopes
        reduction = AboutRows([row], [Scores(self.data, A, V, terms, dtype, self.names[i])], self.pre, None)
        self._take([i])
        self.passes.columns += reduction.multiplied
        return (self.executor or executor_of([A])).kept([A], reduction, self.passes.between(A.shape[0]))

    def meat(
        self,
        V: HostArray,
        fit: HostArray,
        power: float,
        alone: HostArray,
        clusters: HostArray | None,
        count: int,
    ) -> HostArray:
        """Return Σ u² q qᵀ, or Σ s sᵀ over the sums s of clusters, as `Meat` says of two matrices, in one pass.

        Parameters
        ----------
        V : numpy.ndarray of shape (p, p)
            Makes the columns of the first matrix orthonormal.
        fit, power
            As for `Meat`.
        alone : numpy.ndarray of shape (n,)
            The a of each row.
        clusters : numpy.ndarray of shape (n,), or None
            The number of the cluster of each row.
        count : int
            The number of clusters.

        Returns
        -------
        numpy.ndarray of shape (m, c, c)
        """
        scores, width = [], len(V) + self.pre.center
        for i, v in enumerate((V, np.eye(self.widths[1]))):
            A = self.operators[i]
            block = self._scaled(i, A.device.blocks.asarray(v))
            scores.append(Scores(self.data, A, block, self._terms(i, block), np.float64, self.names[i]))
        by_row = [self.pre.taken(len(alone)), alone, clusters]
        shape = self.widths[1], count or width, width
        (sums,), _ = self._pass(lambda: Meat(scores, fit, power, shape, by_row))
        return np.swapaxes(sums, 1, 2) @ sums if count else sums

    def _terms(self, i: int, V: Array) -> dict[str, Array]:
        """What is taken out of the rows of XᵢV, if these are about the mean."""
        terms: dict[str, Any] = {}
        gap = self.fitted[i].gap(self.mean(i)) if self.pre.center else np.zeros(0)
        if gap.any():
            terms["shift"] = Device.of(V).asarray(gap) @ V
        if self.pre.B is not None:
            terms["along"] = self._along(i, V)
        return terms

    def minibatch(self, numbers: HostArray, i: int = 0) -> Minibatch:
        """Read some rows of one matrix into memory, by their numbers; it counts as their share of a pass."""
        A = self.operators[i]
        self.fit(i)
        self._take([i], len(numbers) / A.shape[0])
        if i not in self.terms:
            row = self.mean(i) if self.pre.center else None
            self.terms[i] = Terms(
                A, self.pre, self.fitted[i], Origins(row, row if self.subtracts[i] else None)
            )
        return Minibatch(A, A.take(numbers), self.pre, self.fitted[i], self.terms[i], numbers, self.passes)

    def some_rows(self, numbers: HostArray, i: int = 0) -> list[Block]:
        """Read rows of one matrix as they came into memory, by increasing numbers; of slices that takes a pass."""
        A = self.operators[i]
        first = 0
        share = len(numbers) / self.operators[i].shape[0]
        self._take([i], share)
        with suppress(MissingCapability):
            return [A.take(numbers)]
        self._take([i], 1.0 - share)
        chosen = []
        for block in A.blocks():
            inside = numbers[(numbers >= first) & (numbers < first + block.rows)] - first
            chosen += [block.take(inside)] if len(inside) else []
            first += block.rows
        return chosen

    def operator(self, i: int = 0) -> Preprocessed:
        """Return √D times the preprocessed Xᵢ, as an operator."""
        return Preprocessed(self, i)

    def _will_hold(self) -> None:
        """Free the passes that are set aside for the certificate: it will read nothing."""
        self.passes.reserved -= self.certificate_passes
        self.certificate_passes = 0.0

    def _scaled(self, i: int, V: Array | None) -> Any:
        """F V; deviations take a pass of their own if they are not known."""
        if not self.scales(i):
            return V
        self.fit(i)
        return None if V is None else self.fitted[i].scaled(V)

    def _pass(
        self, make: Callable[[], Reduction] | None, which: Sequence[int] = (), share: float = 1.0
    ) -> tuple[Any, About]:
        """Make one pass over some matrices, by default all; it also learns what is not known of them.

        Returns the total, and for each of these matrices the rows that its products are about. If the first rows were
        unlucky, the pass is made again.
        """
        which = which or range(len(self.operators))
        if self.fitted.keys() >= set(which):
            return self._of_whole(make, which, share) or self._read(make, which, share, learns=False)
        total, about = self._read(make, which, share, learns=True)
        if not self.fitted.keys() >= set(which):  # the precision has changed
            total, about = self._read(make, which, learns=True)
        if self.pre.center:
            far = [i for i in which if about[i].adjoint is None and self.fitted[i].about_zero > self.far]
            if far and self.rereads:
                for i in far:
                    self.operators[i].far = True
                total, about = self._read(make, which, learns=True)
        unlucky = [i for i in which if about[i].adjoint is not None and self.fitted[i].about_origin > UNLUCKY]
        if unlucky and all(self.operators[i].readings >= 1 for i in which):
            total, about = self._read(make, which, learns=True)
        return total, about

    def _read(
        self,
        make: Callable[[], Reduction] | None,
        which: Sequence[int],
        share: float = 1.0,
        *,
        learns: bool,
    ) -> tuple[Any, About]:
        """Read some matrices once."""
        self._take(which, share)
        operators = [self.operators[i] for i in which]
        sketches = self.sketch_rows > 0 and not self.sketched and len(which) == len(self.operators)
        about: About = {}

        def begin(blocks: list[Block]) -> Reduction:
            placed = [
                self._placed(i, block, about, learns=learns) for i, block in zip(which, blocks, strict=True)
            ]
            parts: list[Any] = [] if make is None else [make()]
            if sketches:
                parts.append(Sketch(self.data, operators, self.sketch_rows, self.seed))
            if learns:
                grams = any(isinstance(part, Grams) and (0, 0) in part.pairs for part in parts)
                apart = [
                    not (grams and A.readable) or about[i].adjoint is not about[i].times
                    for i, A in zip(which, operators, strict=True)
                ]
                parts.append(Statistics(self.data, operators, apart, [self.names[i] for i in which]))
            elif self.executor is None and all(map(_small, operators, blocks)):
                self.whole[tuple(which)] = (
                    [b.about(row) for b, row in zip(blocks, placed, strict=True)],
                    about,
                )
            return AboutRows(placed, parts, self.pre, blocks)

        began = time.perf_counter()
        reduction, totals, count, entries = self._reduced(operators, begin, which)
        if tells():
            names = " and ".join(self.names[i] for i in which)
            columns = reduction.parts[0].columns
            LOG.debug("pass over %s with %d columns: %.3g s", names, columns, time.perf_counter() - began)
        self.pre.check_rows(count, ended=True)
        self._count(reduction, entries)
        if learns:
            learnt = totals.pop()
            for n, separate in enumerate(reduction.parts[-1].squares):
                if not separate:
                    learnt[3 * n + 2] = reduction.parts[0].diagonal(totals[0], n)
            self._learn(learnt, which, about)
        elif not all(A.resident for A in operators) and not _finite(totals):  # rows may have changed
            for i in which:
                refuse_entries(self.operators[i], self.names[i])
        settled = len(self.fitted) == len(self.operators)  # else the pass is made again, in another precision
        if sketches and settled:
            self.sketched = self._corrected_sketch(totals.pop(), about)
        return (None if make is None else totals[0]), about

    def _reduced(
        self, operators: list[Rows], begin: Callable[[list[Block]], Reduction], which: Sequence[int]
    ) -> tuple[Any, Any, int, float]:
        """Reduce some matrices; where an entry is refused, columns without any number are named first."""
        executor, between = (
            self.executor or executor_of(operators),
            self.passes.between(operators[0].shape[0]),
        )
        try:
            return executor.reduce(operators, begin, between)
        except NonFiniteData:
            for A, i in zip(operators, which, strict=True):
                refuse_columns(A, self.names[i])
            raise

    def _of_whole(
        self, make: Callable[[], Reduction] | None, which: Sequence[int], share: float
    ) -> tuple[Any, About] | None:
        """A pass over small matrices without its overhead, by blocks that are kept about their rows."""
        held = self.whole.get(tuple(which))
        if make is None or held is None or (self.sketch_rows and not self.sketched) or tells():
            return None
        (blocks, about), reduction = held, make()
        if reduction.raw:
            return None
        self._take(which, share)
        total = reduction.zero()
        with np.errstate(all="ignore"):
            reduction.add(total, blocks, slice(0, blocks[0].rows))
        self._count(reduction, sum([block.entries for block in blocks]) / len(blocks))
        return total, about

    def _count(self, reduction: Reduction, entries: float) -> None:
        self.passes.columns += reduction.multiplied
        self.passes.flops += 2.0 * entries * reduction.multiplied

    def _placed(self, i: int, block: Block, about: About, *, learns: bool) -> Array | None:
        """The row that a pass over one matrix is about, from its first block, at the place of the block."""
        A, row = self.operators[i], self._row(i, block)
        placed = None if row is None else A.thin(row)
        if row is not None and not block.subtracts and i not in self.near:
            if block.is_far(placed, self.far):
                A.far = block.far = True
            elif not learns:  # later passes are about the same row
                self.near.add(i)
        self.subtracts[i] = block.subtracts
        about[i] = Origins(row, row if block.subtracts else None)
        return placed

    def _take(self, which: Sequence[int], share: float = 1.0) -> None:
        """Count a pass over some matrices, or over a share of their rows, before it begins."""
        read = [times + share * (i in which) for i, times in enumerate(self.read)]
        self.passes.take(max(read) - max(self.read))
        self.read = read

    def _widened(self, i: int, squares: HostArray, count: float) -> bool:
        """Whether float32 entries are far from 1, and are multiplied in float64 from now on."""
        A = self.operators[i]
        if A.dtype != np.float32 or not self.rereads:
            return False
        size = np.sqrt(squares.max(initial=0.0) / max(count, 1e-300))
        return not fits_single(size) and A.widen()

    def _row(self, i: int, block: Block) -> HostArray | None:
        """The row that one matrix is summed about, as the precision of its data represents it."""
        if not self.pre.center:
            return None
        if i in self.fitted:
            return self.mean(i)
        A = self.operators[i]
        origin = to_host(cast(block.origin(self.data.w(A, slice(0, block.rows))), A.dtype))
        return np.where(np.isfinite(origin), origin.astype(np.float64), 0.0)

    def mean(self, i: int) -> HostArray:
        """The mean of a matrix, as far as the precision of its data represents it."""
        return self.fitted[i].mean.astype(self.operators[i].dtype).astype(np.float64)

    def _learn(self, total: list[Any], which: Sequence[int], about: About) -> None:
        """Learn the preprocessing of some matrices from their statistics."""
        count = float(total[0][0])
        for n, i in enumerate(which):
            sums = to_host(total[3 * n + 1])
            squares = to_host(total[3 * n + 2])
            cross = None if self.pre.B is None else to_host(total[3 * n + 3])
            if self._widened(i, squares, count):
                continue
            self._check(i, sums, squares, count)
            self.raw_squares[i] = squares
            row = about[i].times
            origin = np.zeros(self.widths[i]) if row is None else row
            pre = self.pre if self.scales(i) == self.pre.scale else replace(self.pre, scale=False)
            estimated = self.operators[i].estimated and not self.pre.scale
            fitted = Fitted.of(pre, origin, count, sums, squares, cross, estimated=estimated)
            narrow = self.operators[i].dtype == np.float32 and self.rereads
            if narrow and fitted.explained_share > EXPLAINED and self.operators[i].widen():
                continue
            self.fitted[i] = fitted

    def _check(self, i: int, sums: HostArray, squares: HostArray, count: float) -> None:
        """Refuse entries that are not finite, and matrices in units whose squares are out of range."""
        if not len(squares):  # of confounds that do not vary, nothing is left
            return
        name = self.names[i]
        if not np.isfinite(sums).all():
            refuse_entries(self.operators[i], name)
            if not self.rereads:
                column = int(np.argmin(np.isfinite(sums)))
                raise NonFiniteData(
                    f"{name} must be finite; got a number that is not finite in column {column}. Drop or impute such "
                    "rows."
                )
        finite = np.nan_to_num(np.clip(squares, 0.0, MOST_SQUARES), nan=MOST_SQUARES)
        check_sizes(name, np.sqrt(finite / max(count, 1e-300)))

    @property
    def contradictions(self) -> tuple[str, ...]:
        """What says that an operator is no matrix."""
        return tuple(A.inconsistency for A in self.operators if A.inconsistency)

    def faint(self, i: int = 0) -> tuple[int, ...]:
        """The numbers of columns whose squares underflow, though those of others do not."""
        squares = self.raw_squares[i]
        return tuple(np.flatnonzero((squares > 0) & (squares < LEAST_SQUARES)).tolist())

    def _along(self, j: int, V: Array) -> Any:
        """sⱼᵀV, what the confounds explain of XⱼV."""
        return None if self.pre.B is None else Device.of(V).asarray(self.fitted[j].slopes).T @ V

    def _corrected(self, P: Array, sums: Array, along: Any, i: int, about: About) -> Array:
        """Formula (1), with the sums 1ᵀDU and what confounds explain of U."""
        f, asarray = self.fitted[i], Device.of(P).asarray
        if self.pre.center:
            P = P - asarray(f.gap(about[i].adjoint))[:, None] * asarray(sums)[None, :]
        if self.pre.B is not None:
            P = P - asarray(f.slopes) @ asarray(along)
        return f.scaled(P) if f.live is None else f.scaled(P) * asarray(f.live)[:, None]

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

    def _corrected_gram(self, P: Any, i: int, j: int, about: About, *, sparse: bool) -> Any:
        """Formula (2), in place; a sparse matrix stays sparse if nothing is taken out of it, or if `sparse`."""
        left = self._taken(i, about)
        right = self._taken(j, about)
        d, e = self.fitted[i].kept, self.fitted[j].kept
        plain = bool((d == 1).all() and (e == 1).all())
        if scipy.sparse.issparse(P):
            P = P if plain else (scipy.sparse.diags_array(d) @ P @ scipy.sparse.diags_array(e)).tocsr()
            held = SparseMinusThin(P, d[:, None] * left, e[:, None] * right)
            return P if not self.pre.directions else held if sparse else held.toarray()
        asarray = Device.of(P).asarray
        if self.pre.directions:
            P -= asarray(left) @ asarray(right).T
        if not plain:
            P *= asarray(d)[:, None]
            P *= asarray(e)[None, :]
        return P

    def _taken(self, i: int, about: About) -> HostArray:
        """T of shape (p, m): formula (2) takes TᵢTⱼᵀ out of the product of matrices i and j."""
        f = self.fitted[i]
        columns = [np.zeros((self.widths[i], 0))]
        if self.pre.center:
            columns.append(math.sqrt(f.total) * f.gap(about[i].adjoint)[:, None])
        return np.hstack(columns if f.slopes is None else [*columns, f.slopes])


def _small(A: Rows, block: Block) -> bool:
    """Whether a block is a whole matrix in memory, and so small that it is never cut."""
    return (
        A.resident
        and A.device.on_host
        and block.rows == A.shape[0] <= SMALL_ROWS
        and block.entries <= SMALL_ENTRIES
    )


def _finite(total: Any) -> bool:
    """Whether all numbers of the total of a pass are finite."""
    if isinstance(total, (list, tuple)):
        return all(_finite(part) for part in total)
    entries = total.data if scipy.sparse.issparse(total) else total
    return not is_array(entries) or all_finite(entries)


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
        self.dtype, self.device, self.readings = A.dtype, A.device, A.readings

    @property
    def shape(self) -> tuple[float, int]:  # type: ignore[override]
        """The shape of the matrix; the rows of slices are counted in the first pass."""
        return self.moments.operators[self.i].shape

    def matmat(self, V: Array) -> Array:
        """Compute √D X V for the preprocessed X."""
        return self._weighted(self.moments.images(V, self.i))

    def row_product(self, U: Array) -> Array:
        """Compute √D X Xᵀ √D U for the preprocessed X: two products, which count as one pass together."""
        V = self.moments.adjoint_images(self._weighted(U), self.i, share=0.5)
        return self._weighted(self.moments.images(V, self.i, share=0.5))

    def rmatmat(self, U: Array) -> Array:
        """Compute Xᵀ √D U for the preprocessed X."""
        return self.moments.adjoint_images(self._weighted(U), self.i)

    def _weighted(self, U: Array) -> Array:
        w = self.moments.data.w(self)
        if w is None:
            return U
        return U * Device.of(U).asarray(self.device.blocks.xp.sqrt(w)[:, None], host_dtype(U))
