"""Views: the matrices of one problem, each with its adjustment, its ledger, and the known facts about its columns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from linspec.arrays import Array, Home, HostArray, to_host
from linspec.errors import AccuracyWarning, InvalidProblem, UnsupportedData, warn
from linspec.operators import (
    DenseOperator,
    Ledger,
    LinearOperator,
    MappedOperator,
    SparseOperator,
    uncounted,
)
from linspec.operators.adjustment import AdjustedOperator, Adjustment, scaled
from linspec.operators.column_statistics import without_offset
from linspec.operators.row_blocks import DEVICE_BLOCK_BYTES, RowBuffer
from linspec.operators.row_model import RowModel
from linspec.process.pauses import admit

GRAM_ROWS, GRAM_BYTES = 4096, 2**27
"""Usual number of rows, and largest number of bytes, of a block whose p x p product is added to a Gram matrix.

With this number of rows, adding the product costs little compared with computing the product."""

CONTRADICTS = 1e-4
"""Relative difference of ⟨Av, u⟩ and ⟨v, Aᵀu⟩ above which products with A and Aᵀ count as inconsistent."""

DIGITS_TO_WARN, SINGLE_DIGITS_TO_WARN = 6, 3
"""Number of decimal digits, of 16 in float64 and of 7 in float32, that centring may lose without a warning."""


class View:
    """One matrix of a problem: its operator, its ledger, and its adjustment, which sweeps compute.

    Attributes
    ----------
    given : LinearOperator
        The operator as passed. If a `CountedOperator` was passed, it is the operator within, and `ledger` is that of
        the `CountedOperator`.
    operator : LinearOperator
        The same operator without its adjustment.
    adjustment : Adjustment
        The adjustment of the rows of `operator`, with the known facts about its columns.
    estimated : array or None
        Squared column norms, as estimated by probes.
    streamed : bool
        Whether rows are reached only in a sweep, as slices or as blocks on workers. Rows in memory and in files can be
        selected at any time.
    unresolved : bool
        Whether a column that is not constant was treated as constant, because its mean hides its spread in products.
    contradiction : str or None
        The error message if the first products are not those of a matrix and its transpose; "" if they are
        consistent, None until they are compared.
    measured : bool
        Whether the size of the entries of all rows has been checked. It is True from the beginning for data in memory,
        which are checked before a solver begins, and for operators whose products are checked.
    wide : bool
        Whether a sweep has found that float32 rows must be multiplied in float64.
    """

    given: LinearOperator
    ledger: Ledger
    operator: Any
    adjustment: Adjustment

    def __init__(
        self, name: str, operator: LinearOperator, *, center: bool = False, through: bool = True
    ) -> None:
        self.name = name
        self.given, self.ledger = uncounted(operator)
        adjusted = self.given.adjustment
        if isinstance(self.given, AdjustedOperator) and through:
            self.operator, self.adjustment = self.given.operator, adjusted
        elif isinstance(self.given, AdjustedOperator) and adjusted.known and adjusted.model.is_plain:
            self.operator, self.adjustment = self.given.operator, adjusted.with_known_row()
        else:
            self.operator, shift = without_offset(self.given)
            self.adjustment = Adjustment(RowModel(center=center), shift=shift)
            if self.operator.statistics is not None:  # which an earlier reading has gathered
                self.adjustment.learn_from(self.operator.statistics)
        self.estimated: Array | None = None
        self.unresolved = False
        self.contradiction: str | None = None
        self.measured = _is_measured(self.operator)
        self.wide = False
        self._warned = False
        self.streamed: bool = self.operator.streamed

    @property
    def model(self) -> RowModel:
        """The row model: weights, confounds, and whether the means are subtracted."""
        return self.adjustment.model

    @property
    def squares(self) -> Array | None:
        """Squared column norms of the adjusted matrix; None as long as they are not known."""
        return self.estimated if self.adjustment.squares is None else self.adjustment.squares

    @property
    def precision(self) -> np.dtype[Any]:
        """The dtype in which rows are multiplied: float64 for float32 rows if a sweep has found that they need it."""
        home, known = self.operator.home, self.operator.dtype
        return np.dtype(np.float64) if self.wide and home.blocks == home else known

    @property
    def in_memory(self) -> bool:
        """Whether the entries are in memory, as an array or a SciPy sparse matrix."""
        A = self.operator
        return isinstance(A, SparseOperator) or (
            isinstance(A, DenseOperator) and not isinstance(A, MappedOperator)
        )

    @property
    def total(self) -> float:
        """The number of rows, or the sum of their weights."""
        return self.model.total(self.operator.shape[0])

    @property
    def by_products(self) -> bool:
        """Whether the matrix is known by its products alone."""
        A = self.operator
        return not (A.readable or A.access != "products")

    def compare(self, off: HostArray, lengths: HostArray, rounding: HostArray) -> None:
        """Set `contradiction` by the differences ⟨Av, u⟩ − ⟨v, Aᵀu⟩ of the first products, which must be zero.

        Parameters
        ----------
        off, lengths, rounding : numpy.ndarray
            The differences, the products of the lengths of the two vectors of each inner product, and bounds on
            rounding errors.
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

    @property
    def subtracts_from_products(self) -> bool:
        """Whether a row is subtracted by correcting products instead of from entries."""
        return self.adjustment.row is not None and not self.operator.centres_entries

    def cancelled(self, squares: Array | None) -> float:
        """Largest factor, at least 1, by which subtracting a row from products shortens a column."""
        if squares is None or not self.subtracts_from_products:
            return 1.0
        host, row = to_host(squares), to_host(scaled(self.adjustment.row, self.adjustment.factors))
        live = host > 0
        return float(np.sqrt(np.max(row[live] ** 2 * self.total / host[live], initial=1.0)))

    def warn_of_cancellation(self) -> None:
        """Warn, at most once, if centring by a correction of products leaves few digits."""
        if self._warned or self.squares is None or not self.subtracts_from_products:
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

    def admit(self, sweeps: float) -> None:
        """Check that the budget of the current run allows the next sweep; see `linspec.process.pauses`."""
        admit(self.ledger, sweeps)

    def record(self, forward: int, adjoint: int, sweeps: float) -> None:
        """Count products and sweeps in the ledger."""
        self.ledger.record(self.operator, forward + adjoint, sweeps=sweeps)


def views_of(given: Sequence[tuple[str, LinearOperator]], *, center: bool) -> list[View]:
    """Make the views of named matrices.

    If all matrices have the same row model, or none has one, sweeps read the unadjusted rows and correct the products.
    Otherwise sweeps read the adjusted rows. An exception are matrices from which only a known row is subtracted: their
    rows are read unadjusted, too.
    """
    bare = [uncounted(A)[0] for _, A in given]
    models = {id(A.model) if isinstance(A, AdjustedOperator) else None for A in bare}
    return [View(name, A, center=center, through=len(models) == 1) for name, A in given]


def _is_measured(A: LinearOperator) -> bool:
    """Whether the size of the entries is checked without a sweep over the rows.

    This holds for entries in memory, which are checked before a solver begins, and for operators that give only
    products, which are checked by their first products. Files, slices and blocks are checked in the first sweep.
    """
    return A.resident or (A.access == "products" and not A.readable)


def stored_rows(A: LinearOperator, rows: slice) -> Array:
    """The entries of some rows in their stored dtype; computed by products if entries cannot be read."""
    part = A.rows(rows) if A.access == "rows" else A
    # For an operator known by its products, the products with the identity are the entries.
    return part.stored() if A.readable else part.by_identity()


class FloatRows:
    """Dense float64 rows of an operator, one block after the other, on the host in one buffer.

    Parameters
    ----------
    operator : LinearOperator
        The operator without its adjustment.
    home : Home
        The home of the float64 rows.
    less : array of shape (p,), optional
        A row that is subtracted from all rows.
    about_first : bool, default False
        Subtract the first row from all rows instead.
    buffer : RowBuffer, optional
        Memory to use.
    """

    def __init__(
        self,
        operator: LinearOperator,
        home: Home,
        *,
        less: Array | None = None,
        about_first: bool = False,
        buffer: RowBuffer | None = None,
    ) -> None:
        self.operator, self.home, self.less = operator, home, less
        self._about_first, self._buffer = about_first, buffer or RowBuffer()

    @property
    def resident_float64(self) -> bool:
        """Whether the data themselves can be multiplied, without conversion, centring or blocks."""
        A = self.operator
        plain = isinstance(A, DenseOperator) and not isinstance(A, MappedOperator) and A.plain
        return plain and self.less is None and A.dtype == np.float64

    def stored(self, rows: slice) -> Array:
        """Read some rows in their stored dtype."""
        stored = stored_rows(self.operator, rows)
        if self._about_first and self.less is None:
            self.less = self.home.place(stored[:1, :])[0, :] + 0.0  # a copy
        return stored

    def floats(self, stored: Array) -> Array:
        """Convert rows that `stored` returned; valid until the next call, and perhaps the data themselves."""
        if self.resident_float64:
            return stored
        return self._buffer.less(stored, self.less, np.dtype(np.float64), self.home)


def gram_blocks(operators: Sequence[LinearOperator], n: int) -> Iterable[slice]:
    """Slices of rows for forming Gram matrices, with enough rows that adding p x p products costs little."""
    if not all(A.access == "rows" for A in operators):
        return [slice(0, n)]
    row_bytes: int = 8 * max(sum(A.shape[1] for A in operators), 1)
    usual = min(GRAM_ROWS, GRAM_BYTES // row_bytes)
    rows = max(usual if operators[0].home.on_host else DEVICE_BLOCK_BYTES // row_bytes, GRAM_ROWS // 8)
    return (slice(a, min(a + rows, n)) for a in range(0, n, rows))


def check_alike(views: list[View]) -> None:
    """Raise an error if views have no rows, different numbers of rows, or different homes."""
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
