"""The matrices of one problem side by side: what each takes out of its rows, and what is known of its columns."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linspec.arrays import Array, Home, HostArray, to_host
from linspec.errors import AccuracyWarning, InvalidProblem, MissingCapability, UnsupportedData, warn
from linspec.operators import (
    CupySparseOperator,
    DenseOperator,
    Ledger,
    LinearOperator,
    MappedOperator,
    SparseOperator,
    uncounted,
)
from linspec.operators.adjustment import Adjustment
from linspec.operators.column_statistics import ColumnStatistics, block_mean, weighted, without_offset
from linspec.operators.row_blocks import DEVICE_BLOCK_BYTES, RowBuffer
from linspec.operators.row_model import Change, RowModel
from linspec.sweeps.witness import Witness

GRAM_ROWS, GRAM_BYTES = 4096, 2**27
"""Rows from which adding up p x p products costs little, and bytes that a block of them should not exceed."""

CONTRADICTS = 1e-4
"""Inner products of a matrix and its transpose differ by less than this share of their largest size."""

DIGITS_TO_WARN, SINGLE_DIGITS_TO_WARN = 6, 3
"""Decimal digits, of sixteen in float64 and seven in float32, that centring may lose before a warning."""


@dataclass(frozen=True)
class TakenOut:
    """What is taken out of the rows of one matrix.

    Parameters
    ----------
    row : array of shape (p,), optional
        Taken out of every row first.
    adjustment : Adjustment, optional
        Weights, and what else is taken out.
    """

    row: Array | None
    adjustment: Adjustment | None = None

    def left(self, rows: LinearOperator, first: int = 0) -> LinearOperator:
        """Some rows, from number `first` on, without it."""
        bare = rows if self.row is None else rows.centered(self.row)
        return bare if self.adjustment is None else self.adjustment.made(bare, first)

    def with_model(self, change: Change) -> TakenOut:
        """The same with another model of the rows."""
        return (
            self if self.adjustment is None else replace(self, adjustment=self.adjustment.with_model(change))
        )


class View:
    """One matrix of the moments: its operator, its ledger, and what sweeps have told of its columns.

    Attributes
    ----------
    given : LinearOperator
        As it was given, without a counter.
    operator : LinearOperator
        The same without what it takes out of its columns.
    mean : array or None
        Column means of `operator`.
    squares : array or None
        Column norms, squared, of what is multiplied: of `operator` with `taken` taken out.
    streamed : bool
        Whether the rows come slice by slice.
    model : RowModel
        Weights of the rows, and whether the means are taken out.
    adjustment : Adjustment or None
        What else is taken out of the columns.
    unresolved : bool
        Whether a column was taken for constant that is not: its products say nothing beside its mean.
    witness : Witness or None
        What identifies the rows of `operator`, where a run asks for it and a sweep has found it.
    asked_at : float or None
        The sweeps of the ledger from which on a run asks; None where none does.
    contradiction : str or None
        What the first products have shown of an operator that is no matrix, in words; "" if nothing, and None as long
        as they have not been compared.
    measured : bool
        Whether the size of the entries of all rows has been looked at: of those in memory, before a solver begins.
    wide : bool
        Whether a sweep has shown that float32 rows are to be multiplied in float64.
    """

    given: LinearOperator
    ledger: Ledger
    operator: Any

    def __init__(self, name: str, operator: LinearOperator, *, center: bool, through: bool = True) -> None:
        self.name = name
        self.given, self.ledger = uncounted(operator)
        self.adjustment = self.given.adjustment if through else None
        inner = self.given if self.adjustment is None else self.given.operator  # type: ignore[attr-defined]
        self.operator, self._offset = without_offset(inner)
        self.model = RowModel(center=center) if self.adjustment is None else self.adjustment.model
        self._center = self.model.center
        self.mean: Array | None = None
        self.squares: Array | None = None
        if self.adjustment is not None and self.adjustment.known:
            self.mean, self.squares = self.adjustment.mean, self.adjustment.squares
        self.unresolved = False
        self.contradiction: str | None = None
        self.measured = _is_measured(self.operator)
        self.wide = False
        self._warned = False
        self.witness: Witness | None = None
        self.asked_at: float | None = None
        self.streamed: bool = self.operator.streamed
        if (
            self.operator.statistics is not None and self.model.is_plain
        ):  # which an earlier reading has gathered
            self.learn(self.operator.statistics)

    @property
    def precision(self) -> np.dtype[Any]:
        """The dtype in which rows are multiplied, as far as products and sweeps have shown."""
        home, known = self.operator.home, self.operator.dtype
        return np.dtype(np.float64) if self.wide and home.blocks == home else known

    @property
    def lacks_witness(self) -> bool:
        """Whether the next sweep is to identify the rows."""
        return self.asked_at is not None and self.witness is None

    @property
    def swept(self) -> bool:
        """Whether the rows have been read since a run asked for their witness."""
        return self.asked_at is not None and self.ledger.sweeps > self.asked_at

    @property
    def in_memory(self) -> bool:
        """Whether the entries lie in memory, where anything can be read off them."""
        A = self.operator
        return isinstance(A, SparseOperator) or (
            isinstance(A, DenseOperator) and not isinstance(A, MappedOperator)
        )

    @property
    def taken(self) -> Array | None:
        """What is taken out of each row: its mean, or what the operator itself takes out, or nothing."""
        return self.mean if self._center else self._offset

    @property
    def lacks_mean(self) -> bool:
        """Whether a sweep must tell the mean before the first product."""
        return self._center and self.mean is None

    @property
    def mean_as_given(self) -> Array | None:
        """The column means of `given`."""
        return self.mean if self.mean is None or self._offset is None else self.mean - self._offset

    @property
    def resident_float64(self) -> bool:
        """Whether the data can be multiplied as they lie, without conversion, centring or blocks."""
        A = self.operator
        plain = isinstance(A, DenseOperator) and not isinstance(A, MappedOperator) and A.plain
        return plain and not self._center and self._offset is None and A.dtype == np.float64

    @property
    def taken_out(self) -> TakenOut:
        """What is taken out of the rows of the operator, as far as it is known."""
        if self.adjustment is None:
            return TakenOut(self.taken)
        return TakenOut(None if self._center else self._offset, self.adjustment)

    def centred(self, rows: LinearOperator, first: int = 0) -> LinearOperator:
        """Some rows of the operator, from `first` on, with everything taken out that is to be taken out."""
        return self.taken_out.left(rows, first)

    @property
    def total(self) -> float:
        """What all rows count together."""
        return self.model.total(self.operator.shape[0])

    @property
    def beside(self) -> Array | None:
        """T, whose product T Tᵀ the confounds take out of the products; None where there are none or none are known."""
        return None if self.adjustment is None else self.adjustment.beside

    @property
    def signed(self) -> Array | None:
        """The same times the signs by which its products count."""
        return None if self.adjustment is None else self.adjustment.signed

    @property
    def explained_squares(self) -> Array | None:
        """The squares of what the confounds take out of each column as it was given; None where there are none."""
        beside = self.beside
        if beside is None:
            return None
        home = Home.of(beside)
        confounds = beside[:, :-1] if self.model.keeps_constant else beside
        squares: Array = home.xp.sum(confounds * confounds, axis=1)
        return squares

    @property
    def kept(self) -> Array | None:
        """The row AᵀDq that the constant adds to triangles, where it is put back."""
        return self.beside[:, -1:].T if self.model.keeps_constant and self.beside is not None else None

    @property
    def factors(self) -> Array | None:
        """By which the columns are multiplied, where that is known."""
        return None if self.adjustment is None else self.adjustment.factors

    @property
    def scales(self) -> bool:
        """Whether columns are divided by what a sweep tells of their lengths."""
        return self.adjustment is not None and bool(self.adjustment.scale)

    @property
    def needs_sweep(self) -> bool:
        """Whether a sweep must tell what is taken out, before products that take it out."""
        return self.lacks_mean or self.unlearnt

    @property
    def unlearnt(self) -> bool:
        """Whether something is taken out of products that no sweep has told yet."""
        A = self.adjustment
        return A is not None and not A.known and (A.model.basis is not None or A.scale)

    def read(self, rows: slice) -> LinearOperator:
        """Some rows; of an operator that has no slices, all of them as an array."""
        A = self.operator
        part: LinearOperator = A.rows(rows) if A.sliceable else DenseOperator(A.dense())
        return part

    def stored_rows(self, rows: slice) -> Array:
        """Some rows as they are stored: wide integers and float32 are exact in float64."""
        if not self.operator.readable:  # known by its products: with the identity they are the entries
            A = self.operator.rows(rows) if self.operator.sliceable else self.operator
            return A.by_identity()
        part = self.read(rows)
        return part.array if isinstance(part, DenseOperator) else part.dense()

    def learn(self, gathered: ColumnStatistics) -> None:
        """Take over means and norms from the statistics of `operator`."""
        self.mean = gathered.mean if self.mean is None else self.mean
        squares = gathered.spread if self._center else gathered.squares_about(self.taken)
        if self.adjustment is None:
            self.squares = squares
            return
        self.adjustment.learn(gathered.home, self.mean, self._beside_of(gathered), squares, gathered.count)
        self.squares = self.adjustment.squares

    def _beside_of(self, gathered: ColumnStatistics) -> Array | None:
        """What the confounds explain, of rows with the rest taken out."""
        return gathered.beside(None if self._center else self.taken, center=self._center)

    def learn_means(self) -> None:
        """Take over the means alone, where nothing else is taken out of the columns."""
        if self.adjustment is not None and not self.unlearnt and (self.mean is not None or not self._center):
            self.adjustment.learn(None, self.mean, None, None, self.total)

    def learn_from_gram(self, squares: Array, gathered: ColumnStatistics | None, count: float) -> None:
        """Take over what the sweep of a Gram matrix has told beside it.

        Parameters
        ----------
        squares : array of shape (p,)
            Its diagonal.
        gathered : ColumnStatistics or None
            From the same sweep, where confounds are taken out.
        count : float
            What the rows count together.
        """
        if self.adjustment is None:
            return
        beside = None if gathered is None else self._beside_of(gathered)
        self.adjustment.learn(self.operator.home.blocks, self.mean, beside, squares, count)

    @property
    def by_products(self) -> bool:
        """Whether the matrix is known by its products alone."""
        A = self.operator
        return not (A.readable or A.sliceable or A.streamed or A.remote)

    def compare(self, off: HostArray, lengths: HostArray, rounding: HostArray) -> None:
        """Take ⟨Av, u⟩ − ⟨v, Aᵀu⟩, or another difference that is zero for a matrix, of the first products.

        Parameters
        ----------
        off, lengths, rounding : numpy.ndarray
            The differences, the products of the lengths of both vectors, and what rounding may leave.
        """
        found = np.abs(off) > CONTRADICTS * lengths + rounding
        if self.contradiction or not found.any():
            self.contradiction = self.contradiction or ""
            return
        worst = float(np.max(np.abs(off[found]) / np.maximum(lengths[found], rounding[found])))
        self.contradiction = (
            f"The products with {self.name} ({self.operator!r}) are not those of a matrix and its transpose: for the "
            f"first of them, ⟨A v, u⟩ and ⟨v, Aᵀu⟩ differ by {worst:.1g} of their largest size. Correct its products: "
            "A v must be linear in v, and rmatmat must multiply by the transpose."
        )

    def learn_from_matrix(self) -> None:
        """Means and norms of a matrix in memory; part of whichever sweep comes first."""
        home, n = self.operator.home, self.operator.shape[0]
        gathered = ColumnStatistics(home)
        gathered.add(self.operator, self.model.weights_of(0, n, home), self.model.basis_of(0, n, home))
        self.learn(gathered)

    def learn_from_products(self, home: Home) -> None:
        """The mean of an operator known by its products, Aᵀ w / Σw, and what confounds explain, AᵀD²B."""
        n = self.operator.shape[0]
        weights, basis = self.model.weights_of(0, n, home), self.model.basis_of(0, n, home)
        self.mean = block_mean(self.operator, home, weights)
        if self.adjustment is None:
            return
        if self.adjustment.scale:
            raise MissingCapability(
                f"scale needs the lengths of the columns, which are unknown for {self.operator!r}. Pass the rows as an "
                "array, a sparse matrix, a file or slices, or scale them before."
            )
        beside = None
        if basis is not None:
            B = weighted(basis, weights)
            taken = self.mean if self._center else self._offset
            A = self.operator if taken is None else self.operator.centered(taken)
            beside = home.place(A.rmatmat(A.home.place(B, A.dtype)))
        self.adjustment.learn(home, self.mean, beside, None, self.total)

    @property
    def corrects_products(self) -> bool:
        """Whether what is taken out is taken out of products, and not of entries."""
        return self.taken is not None and not self.operator.centres_entries

    def cancelled(self, squares: Array | None) -> float:
        """How many times longer the worst column is before something is taken out of its products than after it."""
        if self.taken is None or squares is None or not self.corrects_products:
            return 1.0
        host, taken = to_host(squares), to_host(self.taken)
        live = host > 0
        factors = 1.0 if self.factors is None else to_host(self.factors)[live]
        return float(np.sqrt(np.max((taken[live] * factors) ** 2 * self.total / host[live], initial=1.0)))

    def warn_of_cancellation(self) -> None:
        """Say once when what is taken out of products, and not of entries, leaves few digits."""
        if self._warned or self.squares is None or not self.corrects_products:
            return
        self._warned = True
        lost, digits = np.log10(self.cancelled(self.squares)), 16 if self.operator.dtype == np.float64 else 7
        if lost > (DIGITS_TO_WARN if digits == 16 else SINGLE_DIGITS_TO_WARN):
            warn(
                f"centring {self.name} by a correction of its products loses {lost:.0f} of {digits} digits, because "
                "column means are large beside their spread. Pass a dense array or a file, or subtract a constant "
                "from each column.",
                AccuracyWarning,
            )

    def record(self, forward: int, adjoint: int, sweeps: float) -> None:
        """Enter products into the ledger."""
        self.ledger.record(self.operator, forward + adjoint, sweeps=sweeps)


def _is_measured(A: LinearOperator) -> bool:
    """Whether entries are in memory, and so looked at before a solver begins, or are known by watched products."""
    if A.streamed or A.remote or isinstance(A, MappedOperator):
        return False
    return isinstance(A, DenseOperator | SparseOperator | CupySparseOperator) or not (
        A.readable or A.sliceable
    )


class FloatRows:
    """Dense float64 rows of a view, one block after the other, in one buffer where that is on the host.

    Parameters
    ----------
    view : View
    home : Home
        Where the rows are wanted.
    about_first : bool
        Take the first row out of all; otherwise, what the view says.
    buffer : RowBuffer, optional
        Memory to use.
    """

    def __init__(self, view: View, home: Home, *, about_first: bool, buffer: RowBuffer | None = None) -> None:
        self.view, self.home, self._about_first = view, home, about_first
        self.less: Array = None if about_first else view.taken
        self._buffer = buffer or RowBuffer()

    def read(self, rows: slice) -> Array:
        """Some rows: valid until the next are read, and the data themselves where nothing had to be done."""
        stored = self.view.stored_rows(rows)
        if self._about_first and self.less is None:
            self.less = self.home.place(stored[:1, :])[0, :] + 0.0  # a copy
        if self.less is None and self.view.resident_float64:
            return stored
        return self._buffer.less(stored, self.less, np.dtype(np.float64), self.home)


def gram_blocks(views: list[View], n: int) -> Iterable[slice]:
    """Row blocks for forming Gram matrices: tall enough that adding p x p sums costs little."""
    if not all(view.operator.sliceable for view in views):
        return [slice(0, n)]
    rows = max(gram_rows(views), GRAM_ROWS // 8)
    return (slice(a, min(a + rows, n)) for a in range(0, n, rows))


def gram_rows(views: list[View], wanted: int = GRAM_ROWS) -> int:
    """Rows of such a block: some thousands on the host, and on a device as many as keep it busy with one product.

    Parameters
    ----------
    views : list of View
    wanted : int
        That the host should take at least, where they fit.
    """
    row_bytes: int = 8 * max(sum(view.operator.shape[1] for view in views), 1)
    if not views[0].operator.home.on_host:
        return DEVICE_BLOCK_BYTES // row_bytes
    return min(max(GRAM_ROWS, wanted), GRAM_BYTES // row_bytes)


def check_alike(views: list[View]) -> None:
    """Refuse views that have no rows, or not the same ones, or live in two places."""
    for view in views:
        if view.operator.shape[0] == 0:
            raise InvalidProblem(f"{view.name} must have rows; got shape {view.operator.shape}.")
    for view in views[1:]:
        X, Y = views[0].operator, view.operator
        names = f"{views[0].name} and {view.name}"
        if X.shape[0] != Y.shape[0] and math.inf not in (X.shape[0], Y.shape[0]):
            raise InvalidProblem(f"{names} must have equally many rows; got {X.shape[0]} and {Y.shape[0]}.")
        if X.home != Y.home:
            raise UnsupportedData(
                f"{names} must live in one place; got {X.home} and {Y.home}. Move one of them."
            )
