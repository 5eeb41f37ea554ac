"""The products of a Golub-Kahan bidiagonalisation: with [A; √r I] and its adjoint, for all columns in one sweep.

Problem: LSQR multiplies A by one block and Aᵀ by the result, again and again. Two products read the data twice.
Method: both products are made with a block of rows while it is in the cache, W = A V − U α and then Aᵀ W, and the
lengths are divided out afterwards. So a step is one sweep if there are row slices, and otherwise two products. Rows in
blocks on other machines are read once a step, too: the long vectors stay on the machines of these blocks
(`linspec.sweeps.blocks.KeptRows`). Rows √r I below A are small and never joined to A.
Source: Golub & Kahan 1965, doi:10.1137/0702016; Paige & Saunders 1982, doi:10.1145/355984.355989.
Where we differ: the long vectors are not normalised, since their lengths are known only after the sweep.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from linspec import LinearOperator, Moments
from linspec.arrays import Array, Home, HostArray, to_host
from linspec.errors import NonFiniteData
from linspec.sweeps import KeptRows, Step

BLOCK_BYTES, DEVICE_BLOCK_BYTES = 4 << 20, 256 << 20
"""Size of a block of dense rows that stays in the cache of a processor core, or keeps an accelerator busy."""

MOST_ROWS, MOST_DEVICE_ROWS = 2**12, 2**17
"""Largest number of rows in a block of dense rows, on the host and on a device: longer float32 sums lose digits."""

SPARSE_BLOCK = 2**21
"""Stored entries of a block of sparse rows: enough for several threads."""


def sweeps_of(A: LinearOperator) -> float:
    """Number of sweeps over A in an iteration."""
    return 1.0 if A.access == "rows" or KeptRows.possible(A) else 2.0


def right_hand_sides(A: LinearOperator, B: LinearOperator) -> RightHandSides:
    """Return the `RightHandSides` of A and B, or `RightHandSidesElsewhere` for blocks on other machines."""
    return (RightHandSidesElsewhere if KeptRows.possible(A) else RightHandSides)(A, B)


class RightHandSides:
    """A matrix and its right-hand sides, which are read together, one block of rows after the other.

    Parameters
    ----------
    A : LinearOperator of shape (n, p)
    B : LinearOperator of shape (n, m)
    """

    def __init__(self, A: LinearOperator, B: LinearOperator) -> None:
        self._given = A, B
        self.A = A
        self.home: Home = A.home.blocks
        self.columns: int = B.shape[1]

    @cached_property
    def B(self) -> Array:
        """The right-hand sides as an array on the device of A."""
        B = self._given[1]
        with np.errstate(all="ignore"):  # what is not finite is found in the first sums
            return self.A.home.place(entries_of(B), self.A.dtype)

    def residuals(self, x: Array | None) -> tuple[list[Array], Array, Array]:
        """Return W = B − A x, the squared column norms of W, and AᵀW; without x, W = B."""
        with np.errstate(all="ignore"):
            W, squares, AtW = self._sweep(x, self._less, self.columns)
        self.check_finite(AtW)
        return W, squares, AtW

    def advance(self, V: Array, W: list[Array], shift: Array) -> tuple[list[Array], Array, Array]:
        """Return A V − W diag(shift), its squared column norms, and its product with Aᵀ; do not use W afterwards."""
        factor = self.A.home.place(shift, self.A.dtype)[None, :]
        return self._sweep(V, lambda _, i, AV: AV - W[i] * factor, V.shape[1])

    def chosen(self, W: list[Array], columns: HostArray) -> list[Array]:
        """The given columns of W."""
        return taken(W, columns, self.A.home)

    def cross(self) -> Array:
        """AᵀB."""
        return self.A.rmatmat(self.B)

    def _less(self, rows: slice, _: int, AV: Array | None) -> Array:
        B = self.B[rows, :]
        return B if AV is None else B - AV

    def _sweep(self, V: Array | None, combine: Any, columns: int) -> tuple[list[Array], Array, Array]:
        found, squares = [], self.home.zeros((columns,))
        AtW = self.home.zeros((self.A.shape[1], columns))
        for i, (rows, part) in enumerate(self._parts()):
            block = combine(rows, i, None if V is None else part.matmat(V))
            squares = squares + self.squares(block)
            AtW = AtW + part.rmatmat(block)
            found.append(block)
            self.A.release()
        return found, squares, AtW

    def _parts(self) -> Iterator[tuple[slice, LinearOperator]]:
        """Yield pairs (slice, rows), rows loaded for two products; one pair with all rows if slices cannot be read."""
        n = self.A.shape[0]
        size = self._block_rows()
        for start in range(0, n, size):
            rows = slice(start, min(start + size, n))
            yield rows, self.A.rows(rows).loaded() if self.A.access == "rows" else self.A

    def _block_rows(self) -> int:
        n, p = self.A.shape
        host, sparse = self.A.home.on_host, 4 * self.A.nnz < n * p
        if self.A.access != "rows" or (sparse and not host):
            return n
        if sparse:
            return SPARSE_BLOCK * n // max(self.A.nnz, 1) + 1
        usual, most = (BLOCK_BYTES, MOST_ROWS) if host else (DEVICE_BLOCK_BYTES, MOST_DEVICE_ROWS)
        sums = 8 * p * self.columns  # what is added up after each block should be smaller than the block
        return min(max(usual, 4 * sums) // (p * self.A.dtype.itemsize) + 1, most)

    def squares(self, W: Array) -> Array:
        """Squared column norms, summed in float64 if the device has it."""
        if self.home == self.A.home:
            W = self.home.place(W)
        return self.home.place(self.A.home.column_sums(W * W))

    def check_finite(self, AtW: Array) -> None:
        """Raise `NonFiniteData` if a product is not finite."""
        with np.errstate(all="ignore"):
            total = float(to_host(self.home.xp.sum(AtW)))
        if not np.isfinite(total):
            A, B = self._given
            Moments(A, B, form="implicit", names=("A", "B")).products(None, self.home.eye(self.columns))
            raise NonFiniteData("products of A and B overflow; scale the columns, or pass float64.")


class RightHandSidesElsewhere(RightHandSides):
    """A matrix and its right-hand sides in blocks of rows on other machines, where W stays; a step is one sweep."""

    def __init__(self, A: LinearOperator, B: LinearOperator) -> None:
        super().__init__(A, B)
        self._rows = KeptRows({"A": A, "B": B}, self.columns)

    def residuals(self, x: Array | None) -> Any:
        """See `RightHandSides.residuals`; the returned W is a reference to rows on the machines of the blocks."""
        kept = self._rows.another()
        squares, AtW = kept.advance(Residuals(x, self.columns, self.A.dtype))
        self.check_finite(AtW)
        return (kept, None), squares, AtW

    def advance(self, V: Array, W: Any, shift: Array) -> Any:
        """See `RightHandSides.advance`."""
        kept, chosen = W
        squares, AtW = kept.advance(Advance(V, shift, chosen, self.A.dtype))
        return (kept, None), squares, AtW

    def chosen(self, W: Any, columns: HostArray) -> Any:
        """See `RightHandSides.chosen`; the next step selects the columns."""
        kept, chosen = W
        return kept, columns if chosen is None else chosen[columns]

    def cross(self) -> Array:
        """See `RightHandSides.cross`."""
        return cross_product(*self._given)


class WithAdjoint(Step[tuple[HostArray, HostArray]]):
    """Step on blocks of rows that makes W; sums over the blocks give the squared column norms of W, and AᵀW."""

    def merge(
        self, left: tuple[HostArray, HostArray], right: tuple[HostArray, HostArray]
    ) -> tuple[HostArray, HostArray]:
        """Add the squared norms and the products AᵀW of two sets of rows."""
        return left[0] + right[0], left[1] + right[1]

    def _with_sums(self, A: LinearOperator, W: HostArray) -> tuple[HostArray, tuple[HostArray, HostArray]]:
        wide = W.astype(np.float64, copy=False)
        return W, (np.sum(wide * wide, axis=0), A.rmatmat(W))


@dataclass(frozen=True)
class Residuals(WithAdjoint):
    """Step that computes W = B − A x.

    Parameters
    ----------
    x : array of shape (p, columns), or None for zero
    columns : int
        The number of columns of B.
    dtype : numpy.dtype
        The dtype of W.
    """

    x: HostArray | None
    columns: int
    dtype: np.dtype[Any]

    def made(
        self, rows: Sequence[LinearOperator], before: HostArray | None
    ) -> tuple[HostArray, tuple[HostArray, HostArray]]:
        A, B = rows
        W = B.matmat(np.eye(self.columns)).astype(self.dtype, copy=False)
        if self.x is not None:
            W = W - A.matmat(self.x)
        return self._with_sums(A, W)


@dataclass(frozen=True)
class Advance(WithAdjoint):
    """Step that computes W ← A V − W diag(shift).

    Parameters
    ----------
    V : array of shape (p, columns)
    shift : array of shape (columns,)
    chosen : array of int, optional
        The columns of W that remain; by default all.
    dtype : numpy.dtype
        The dtype of W.
    """

    V: HostArray
    shift: HostArray
    chosen: HostArray | None
    dtype: np.dtype[Any]

    def made(
        self, rows: Sequence[LinearOperator], before: HostArray | None
    ) -> tuple[HostArray, tuple[HostArray, HostArray]]:
        A, W = rows[0], before
        assert W is not None  # noqa: S101  (a first step has made it)
        W = W if self.chosen is None else W[:, self.chosen]
        return self._with_sums(A, A.matmat(self.V) - W * self.shift.astype(self.dtype)[None, :])


@dataclass(frozen=True)
class Long:
    """The long vectors β u of some columns.

    Attributes
    ----------
    W : object
        Their entries in the rows of A, in the form of `RightHandSides`.
    below : array of shape (p, columns), or None
        Their entries in rows √r I, if there are such rows.
    """

    W: Any
    below: Array | None = None


class Stacked:
    """[A; √r I] with the products that a bidiagonalisation needs.

    Parameters
    ----------
    data : RightHandSides
    ridge : float
    """

    def __init__(self, data: RightHandSides, ridge: float) -> None:
        self.data, self.ridge, self.home = data, ridge, data.home
        self.root = float(np.sqrt(ridge))

    def residuals(self, x: Array | None) -> tuple[Long, Array, Array]:
        """Return [B − A x; −√r x], its squared column norms, and its product with [Aᵀ √r I].

        Without x there are no rows √r I.
        """
        W, squares, G = self.data.residuals(x)
        if x is None or not self.ridge:
            return Long(W), squares, G
        below = -x * self.root
        return Long(W, below), squares + self.squares(below), G + below * self.root

    def advance(self, V: Array, u: Long, shift: Array) -> tuple[Long, Array, Array]:
        """Return [A; √r I] V − U diag(shift), its squared column norms, and its product with [Aᵀ √r I]."""
        W, squares, Z = self.data.advance(V, u.W, shift)
        if u.below is None:
            return Long(W), squares, Z
        below = V * self.root - u.below * shift[None, :]
        return Long(W, below), squares + self.squares(below), Z + below * self.root

    def chosen(self, u: Long, columns: HostArray) -> Long:
        """The long vectors of the given columns."""
        below = None if u.below is None else taken([u.below], columns, self.home)[0]
        return Long(self.data.chosen(u.W, columns), below)

    def squares(self, V: Array) -> Array:
        """The squared column norms of a block."""
        return self.home.xp.sum(V * V, axis=0)


def matrix_of(A: LinearOperator | Moments) -> LinearOperator:
    """The matrix of the first view of `Moments`, or A itself if A is an operator.

    Products with the matrix of moments count as sweeps of these moments.
    """
    return A.matrix(0) if isinstance(A, Moments) else A


def moments_of(A: LinearOperator | Moments) -> Moments:
    """The moments of one matrix."""
    return A if isinstance(A, Moments) else Moments(A, form="implicit")


def cross_product(A: LinearOperator | Moments, B: LinearOperator) -> Array:
    """AᵀB, for a matrix or the moments of one view."""
    return Moments(matrix_of(A), B, form="implicit").products(cross=True).cross


def entries_of(B: LinearOperator) -> Array:
    """The entries of right-hand sides, in their home; of those known by products, from products."""
    return B.dense() if B.readable else B.matmat(B.home.blocks.eye(B.shape[1]))


def start_of(A: LinearOperator, B: LinearOperator, x0: Array | None) -> Array:
    """A given start, or zero, in the home of blocks."""
    home = A.home.blocks
    return home.zeros((A.shape[1], B.shape[1])) if x0 is None else home.place(x0)


def taken(blocks: list[Array], columns: HostArray, home: Home) -> list[Array]:
    """Select the same columns of several blocks; their indices are transferred once."""
    there = home.xp.asarray(columns, device=home.device)
    return [home.xp.take(M, there, axis=1) for M in blocks]
