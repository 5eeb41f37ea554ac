"""The products of a Golub-Kahan bidiagonalisation: with [A; √r I] N and its adjoint, for all columns in one sweep.

Problem: LSQR multiplies A by one block and Aᵀ by the result, again and again. Two products read the data twice.
Method: both products are made with a block of rows while it is in the cache, W = A V − U α and then Aᵀ W, and the
lengths are divided out afterwards. So a step is one sweep if there are row slices, and otherwise two products. Rows in
blocks on other machines are read once a step, too: the long vectors stay on the machines of these blocks
(`linspec.sweeps.blocks.KeptRows`). Rows √r I below A, and a preconditioner N with another diagonal for each column, are
small and never joined to A.
Source: Golub & Kahan 1965, doi:10.1137/0702016; Paige & Saunders 1982, doi:10.1145/355984.355989.
Where we differ: the long vectors are not normalised, since their lengths are known only after the sweep.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from linspec import LinearOperator, Moments
from linspec.arrays import Array, Home, HostArray, reciprocal, to_host
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


def right_hand_sides(A: LinearOperator, B: LinearOperator, ridges: tuple[float, ...]) -> RightHandSides:
    """Return the `RightHandSides` of A and B, or `RightHandSidesElsewhere` for blocks on other machines."""
    return (RightHandSidesElsewhere if KeptRows.possible(A) else RightHandSides)(A, B, ridges)


class RightHandSides:
    """A matrix and its right-hand sides, which are read together, one block of rows after the other.

    Parameters
    ----------
    A : LinearOperator of shape (n, p)
    B : LinearOperator of shape (n, m)
    ridges : tuple of float

    Attributes
    ----------
    stay : bool
        Whether long vectors stay on other machines, so that checkpoints do not have them.
    """

    stay = False

    def __init__(self, A: LinearOperator, B: LinearOperator, ridges: tuple[float, ...]) -> None:
        self._given = A, B
        self.A = A
        self.home: Home = A.home.blocks
        self.columns: int = B.shape[1]
        self.ridges = np.repeat(np.asarray(ridges, dtype=np.float64), self.columns)
        self.sweeps = sweeps_of(A)

    @cached_property
    def B(self) -> Array:
        """The right-hand sides as an array on the device of A."""
        B = self._given[1]
        with np.errstate(all="ignore"):  # what is not finite is found in the first sums
            entries = B.dense() if B.readable else B.matmat(B.home.blocks.eye(B.shape[1]))
            return self.A.home.place(entries, self.A.dtype)

    def residuals(self, x: Array | None) -> tuple[list[Array], Array, Array]:
        """Return W = B − A x, the squared column norms of W, and AᵀW; without x, W = B."""
        repeats = 1 if x is None else x.shape[1] // self.columns
        with np.errstate(all="ignore"):
            W, squares, AtW = self._sweep(
                x, lambda rows, _, AV: self._less(self.B[rows, :], repeats, AV), self.columns * repeats
            )
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

    def _less(self, B: Array, repeats: int, AV: Array | None) -> Array:
        B = self.A.home.concat([B] * repeats)
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

    stay = True

    def __init__(self, A: LinearOperator, B: LinearOperator, ridges: tuple[float, ...]) -> None:
        self._given = A, B
        self.A, self.home = A, A.home.blocks
        self.columns = B.shape[1]
        self.ridges = np.repeat(np.asarray(ridges, dtype=np.float64), self.columns)
        self.sweeps = sweeps_of(A)
        self._rows = KeptRows({"A": A, "B": B}, len(self.ridges))

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
    """Step that computes W = [B … B] − A x, with one copy of B for each ridge of x.

    Parameters
    ----------
    x : array of shape (p, repeats times columns), or None for zero
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
            W = np.tile(W, self.x.shape[1] // self.columns) - A.matmat(self.x)
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
class RightPreconditioner:
    """A change of variables x = N y with N = D⁻¹ Q diag(g), where g differs between columns.

    Parameters
    ----------
    Q : array of shape (p, k)
        Orthonormal columns.
    scale : array of shape (p, 1)
        The diagonal of D⁻¹.
    lengths : array of shape (k, columns)
        g, which is 0 for directions that are left out.
    """

    Q: Array
    scale: Array
    lengths: Array

    def forward(self, Y: Array) -> Array:
        """N y."""
        return self.scale * (self.Q @ (self.lengths * Y))

    def adjoint(self, Z: Array) -> Array:
        """Nᵀ z."""
        return self.lengths * (self.Q.T @ (self.scale * Z))

    def undone(self, Y: Array) -> Array:
        """z in the span of D Q with Nᵀ z = y."""
        return (self.Q @ (reciprocal(self.lengths) * Y)) / self.scale


@dataclass(frozen=True)
class Long:
    """The long vectors β u of some columns.

    Attributes
    ----------
    W : object
        Their entries in the rows of A, in the form of `RightHandSides`.
    below : array of shape (p, columns), or None
        Their entries in rows √r I, if there are such rows.
    roots : array of shape (1, columns), or None
        √r of each column.
    lengths : array of shape (k, columns), or None
        g of the preconditioner.
    """

    W: Any
    below: Array | None = None
    roots: Array | None = None
    lengths: Array | None = None


class Stacked:
    """[A; √r I] N with the products that a bidiagonalisation needs.

    Parameters
    ----------
    data : RightHandSides
    N : RightPreconditioner, optional
        For all pairs of a column and a ridge; by default the identity.
    """

    def __init__(self, data: RightHandSides, N: RightPreconditioner | None = None) -> None:
        self.data, self.N, self.home = data, N, data.home

    def residuals(self, x: Array | None) -> tuple[Long, Array, Array]:
        """Return [B − A x; −√r x], its squared column norms, and its product with [Aᵀ √r I], without N.

        Without x there is one column for each right-hand side, which all ridges share, and no rows √r I.
        """
        W, squares, G = self.data.residuals(x)
        lengths = None if self.N is None else self.N.lengths
        if x is None or not self.data.ridges.any():
            return Long(W, lengths=lengths), squares, G
        roots = self.home.place(np.sqrt(self.data.ridges))[None, :]
        below = -x * roots
        return Long(W, below, roots, lengths), squares + self.squares(below), G + below * roots

    def advance(self, V: Array, u: Long, shift: Array) -> tuple[Long, Array, Array]:
        """Return [A; √r I] N V − U diag(shift), its squared column norms, and its product with Nᵀ [Aᵀ √r I]."""
        N = self._of(u)
        along = V if N is None else N.forward(V)
        W, squares, Z = self.data.advance(along, u.W, shift)
        if u.roots is None or u.below is None:
            return replace(u, W=W), squares, Z if N is None else N.adjoint(Z)
        below = along * u.roots - u.below * shift[None, :]
        Z = Z + below * u.roots
        return (
            replace(u, W=W, below=below),
            squares + self.squares(below),
            Z if N is None else N.adjoint(Z),
        )

    def chosen(self, u: Long, columns: HostArray) -> Long:
        """The long vectors of the given columns."""
        here = [V for V in (u.below, u.roots, u.lengths) if V is not None]
        found = iter(taken(here, columns, self.home) if here else ())
        below, roots, lengths = (None if V is None else next(found) for V in (u.below, u.roots, u.lengths))
        return Long(self.data.chosen(u.W, columns), below, roots, lengths)

    def units(self, V: Array, u: Long) -> Array:
        """Map V from the variables of the preconditioner to those of gradients with respect to x.

        The result is z with Nᵀ z = V, by `RightPreconditioner.undone`; V itself if there is no preconditioner. The
        columns of V belong to the long vectors `u`.
        """
        N = self._of(u)
        return V if N is None else N.undone(V)

    def squares(self, V: Array) -> Array:
        """The squared column norms of a block."""
        return self.home.xp.sum(V * V, axis=0)

    def _of(self, u: Long) -> RightPreconditioner | None:
        """The preconditioner of the columns of `u`."""
        return None if self.N is None else replace(self.N, lengths=u.lengths)


def matrix_of(A: LinearOperator | Moments) -> LinearOperator:
    """The matrix of the first view of `Moments`, or A itself if A is an operator.

    Products with the matrix of moments count as sweeps of these moments.
    """
    return A.matrix(0) if isinstance(A, Moments) else A


def cross_product(A: LinearOperator | Moments, B: LinearOperator) -> Array:
    """AᵀB, for a matrix or the moments of one view."""
    return Moments(matrix_of(A), B, form="implicit").products(cross=True).cross


def start_of(A: LinearOperator, B: LinearOperator, x0: Array | None) -> Array:
    """A given start, or zero, in the home of blocks."""
    home = A.home.blocks
    return home.zeros((A.shape[1], B.shape[1])) if x0 is None else home.place(x0)


def taken(blocks: list[Array], columns: HostArray, home: Home) -> list[Array]:
    """Select the same columns of several blocks; their indices are transferred once."""
    there = home.xp.asarray(columns, device=home.device)
    return [home.xp.take(M, there, axis=1) for M in blocks]
