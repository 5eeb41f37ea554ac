"""LSQR for many right-hand sides, ridges and starts at once, with or without a preconditioner.

Problem: min ‖A x − b‖² + r ‖x‖² for every column b of a block and every ridge r of several, without AᵀA,
whose condition number is the square of that of A.
Method: Golub & Kahan's bidiagonalisation from b and the QR recurrences of LSQR (Paige & Saunders 1982,
doi:10.1145/355984.355989), for all columns at once: one block product with A and one with Aᵀ, and separate
scalars for each column. The bidiagonalisation from x = 0 does not depend on the ridge (Saunders 1995,
doi:10.1007/BF01739829). So all ridges of a column share it, and each ridge has its own recurrences. With a
start, or with a preconditioner that depends on the ridge, they cannot share it. Then every pair of a column
and a ridge r is a separate column, for the matrix [A; √r I].
Where we differ: both products are made with a block of rows while it is in the cache, W = A V − U α and then
Aᵀ W, and the lengths are divided out afterwards. So an iteration is one sweep if there are row slices, and
otherwise two products. Rows in blocks elsewhere are read once a step, too: the long vectors stay beside them
(`linspec.sweeps.blocks.KeptRows`). The long vectors are not normalised. Columns that have converged leave the block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec import LinearOperator, Moments
from linspec.arrays import Array, Home, HostArray, reciprocal, to_host, to_host_together
from linspec.errors import NonFiniteData
from linspec.sweeps import KeptRows, Step

BLOCK_BYTES, DEVICE_BLOCK_BYTES = 4 << 20, 256 << 20
"""A block of dense rows that stays in the cache of a processor core, or keeps an accelerator busy."""

MOST_ROWS, MOST_DEVICE_ROWS = 2**12, 2**17
"""The largest number of rows in such a block; float32 sums should not have more terms."""

SPARSE_BLOCK = 2**21
"""Stored entries of a block of sparse rows: enough for several threads."""


def sweeps_of(A: LinearOperator) -> float:
    """The number of sweeps of an iteration."""
    return 1.0 if A.access == "rows" or KeptRows.possible(A) else 2.0


def right_hand_sides(A: LinearOperator, B: LinearOperator, ridges: tuple[float, ...]) -> RightHandSides:
    """A matrix and its right-hand sides, read where the rows are."""
    return (RightHandSidesElsewhere if KeptRows.possible(A) else RightHandSides)(A, B, ridges)


class RightHandSides:
    """A matrix and its right-hand sides, which are read together, one block of rows after the other.

    Parameters
    ----------
    A : LinearOperator of shape (n, p)
    B : LinearOperator of shape (n, m)
    ridges : tuple of float
    """

    def __init__(self, A: LinearOperator, B: LinearOperator, ridges: tuple[float, ...]) -> None:
        self._given = A, B
        self.A = A
        self.home: Home = A.home.blocks
        with np.errstate(all="ignore"):  # what is not finite is found in the first sums
            entries = B.dense() if B.readable else B.matmat(B.home.blocks.eye(B.shape[1]))
            self.B = A.home.place(entries, A.dtype)
        self.columns: int = B.shape[1]
        self.ridges = np.repeat(np.asarray(ridges, dtype=np.float64), self.columns)
        self.sweeps = sweeps_of(A)

    def residuals(self, x: Array | None) -> tuple[list[Array], Array, Array]:
        """W = B − A x, its squared column norms, and AᵀW: for x = 0 with as many columns as B."""
        repeats = 1 if x is None else x.shape[1] // self.columns
        with np.errstate(all="ignore"):
            W, squares, AtW = self._sweep(
                x, lambda rows, _, AV: self._less(self.B[rows, :], repeats, AV), self.columns * repeats
            )
        self.check_finite(AtW)
        return W, squares, AtW

    def advance(self, V: Array, W: list[Array], shift: Array) -> tuple[list[Array], Array, Array]:
        """A V − W diag(shift), which overwrites W, its squared column norms, and its product with Aᵀ."""
        factor = self.A.home.place(shift, self.A.dtype)[None, :]
        return self._sweep(V, lambda _, i, AV: AV - W[i] * factor, V.shape[1])

    def chosen(self, W: list[Array], columns: HostArray) -> list[Array]:
        """Some columns of W."""
        return _taken(W, columns, self.A.home)

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
        """Slices of rows and the rows, prepared for two products; all rows if there are no slices."""
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
        """Refuse data with a product that is not finite."""
        with np.errstate(all="ignore"):
            total = float(to_host(self.home.xp.sum(AtW)))
        if not np.isfinite(total):
            A, B = self._given
            Moments(A, B, form="implicit", names=("A", "B")).products(None, self.home.eye(self.columns))
            raise NonFiniteData("products of A and B overflow; scale the columns, or pass float64.")


class RightHandSidesElsewhere(RightHandSides):
    """The same for rows in blocks that stay where they are: W stays there, too, and a step is one sweep."""

    def __init__(self, A: LinearOperator, B: LinearOperator, ridges: tuple[float, ...]) -> None:
        self._given = A, B
        self.A, self.home = A, A.home.blocks
        self.columns = B.shape[1]
        self.ridges = np.repeat(np.asarray(ridges, dtype=np.float64), self.columns)
        self.sweeps = sweeps_of(A)
        self._rows = KeptRows({"A": A, "B": B}, len(self.ridges))

    def residuals(self, x: Array | None) -> Any:
        """As above; W is what stays beside the blocks."""
        kept = self._rows.another()
        squares, AtW = kept.advance(Residuals(x, self.columns, self.A.dtype))
        self.check_finite(AtW)
        return (kept, None), squares, AtW

    def advance(self, V: Array, W: Any, shift: Array) -> Any:
        """As above."""
        kept, chosen = W
        squares, AtW = kept.advance(Advance(V, shift, chosen, self.A.dtype))
        return (kept, None), squares, AtW

    def chosen(self, W: Any, columns: HostArray) -> Any:
        """As above; they are taken in the next step."""
        kept, chosen = W
        return kept, columns if chosen is None else chosen[columns]

    def cross(self) -> Array:
        """As above."""
        return cross_product(*self._given)


class WithAdjoint(Step[tuple[HostArray, HostArray]]):
    """A step whose sums are the squared column norms of the long rows W, and AᵀW."""

    def merge(
        self, left: tuple[HostArray, HostArray], right: tuple[HostArray, HostArray]
    ) -> tuple[HostArray, HostArray]:
        """The sums of the rows of both."""
        return left[0] + right[0], left[1] + right[1]

    def _with_sums(self, A: LinearOperator, W: HostArray) -> tuple[HostArray, tuple[HostArray, HostArray]]:
        wide = W.astype(np.float64, copy=False)
        return W, (np.sum(wide * wide, axis=0), A.rmatmat(W))


@dataclass(frozen=True)
class Residuals(WithAdjoint):
    """W = B − A x, of as many copies of B as x has columns for each.

    Parameters
    ----------
    x : array of shape (p, repeats times columns), or None for zero
    columns : int
        Of B.
    dtype : numpy.dtype
        Of W.
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
    """W ← A V − W diag(shift).

    Parameters
    ----------
    V : array of shape (p, columns)
    shift : array of shape (columns,)
    chosen : array of int, optional
        The columns of W that there are still; by default all.
    dtype : numpy.dtype
        Of W.
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


class Preconditioner:
    """Directions and lengths: x = N y with N = D⁻¹ Q diag(g), with a different g for each column.

    Parameters
    ----------
    Q : array of shape (p, k)
        Orthonormal columns.
    lengths : numpy.ndarray of shape (k, columns)
        g, which is 0 for directions that are left out.
    scale : array of shape (p,)
        The diagonal of D⁻¹.
    """

    def __init__(self, Q: Array, lengths: HostArray, scale: Array, home: Home) -> None:
        self.Q, self.scale, self.home = Q, scale[:, None], home
        self.lengths = home.place(lengths)

    def chosen(self, index: HostArray) -> Preconditioner:
        """The same for some of the columns."""
        twin = object.__new__(Preconditioner)
        twin.Q, twin.scale, twin.home = self.Q, self.scale, self.home
        twin.lengths = _take(self.lengths, index, self.home)
        return twin

    def forward(self, Y: Array) -> Array:
        """N y."""
        return self.scale * (self.Q @ (self.lengths * Y))

    def adjoint(self, Z: Array) -> Array:
        """Nᵀ z."""
        return self.lengths * (self.Q.T @ (self.scale * Z))

    def undone(self, Y: Array) -> Array:
        """z in the span of D Q with Nᵀ z = y."""
        return (self.Q @ (reciprocal(self.lengths) * Y)) / self.scale


class LSQR:
    """The iterates of all columns and ridges, from zero or from a start.

    Parameters
    ----------
    data : RightHandSides
    start : array of shape (p, columns times ridges), optional
        The start. With a start, each ridge has separate columns.
    preconditioner : Preconditioner, optional
        A preconditioner for as many columns; it needs a start.

    Attributes
    ----------
    gradients : numpy.ndarray of shape (columns times ridges,)
        ‖Aᵀ(b − A x) − r x‖ of the iterates by the recurrences, exact at the start.
    steps : numpy.ndarray of the same shape
        The norm of the change of [A x; √r x] in the last step.
    sizes : numpy.ndarray of the same shape
        ‖[b − A x; −√r x]‖ at the start.
    inverse_squares : numpy.ndarray of the same shape
        ‖R⁻¹‖² of the triangles so far (Frobenius norm), without a preconditioner. The reciprocals of the
        eigenvalues seen so far do not exceed it.
    norm : float
        A lower bound of the norm of A, without a preconditioner.
    """

    def __init__(
        self,
        data: RightHandSides,
        start: Array | None = None,
        preconditioner: Preconditioner | None = None,
    ) -> None:
        self.data, self.home, self.start = data, data.home, start
        self.preconditioner, self._whole = preconditioner, preconditioner
        pairs = len(data.ridges)
        self._W, squares, Z = data.residuals(start)
        roots = np.sqrt(data.ridges)
        self._damping = roots if start is None else np.zeros(pairs)
        self._roots: Array | None = None
        if start is not None and roots.any():
            # 1. what the start leaves of the rows √r I
            self._roots = self.home.place(roots)[None, :]
            self._below = -start * self._roots
            squares = squares + self._sums(self._below)
            Z = Z + self._below * self._roots
        gradients = self._sums(Z)
        Z = Z if preconditioner is None else preconditioner.adjoint(Z)
        host = [np.sqrt(x) for x in to_host_together(squares, self._sums(Z), gradients)]
        # 2. owner: the column of the bidiagonalisation to which each pair belongs
        self._owner = np.arange(pairs) % len(host[0])
        self._beta = host[0]
        self._alpha = _ratio(host[1], host[0])
        lengths, self._shift = self.home.place_together(
            _ratio(np.ones_like(host[1]), host[1]), _ratio(self._alpha, self._beta)
        )
        self._V = Z * lengths[None, :]
        self.gradients = host[2][self._owner]
        self.sizes = host[0][self._owner]
        self.steps = np.full(pairs, np.inf)
        self.inverse_squares = np.zeros(pairs)
        self.norm = 0.0
        self._phi_bar, self._rho_bar = self._beta[self._owner], self._alpha[self._owner]
        self._direction = self._owned(self._V)
        self._Y = self.home.zeros((self._V.shape[0], pairs))
        self._live = np.arange(pairs)
        self._done: list[tuple[HostArray, Array]] = []

    @property
    def live(self) -> HostArray:
        """The pairs that have not converged."""
        return self._live

    def x(self) -> Array:
        """All iterates, ridges outermost."""
        parts = [*self._done, (self._live, self._Y)]
        order = np.argsort(np.concatenate([index for index, _ in parts]))
        Y = self.home.concat([part for _, part in parts])
        Y = Y if len(parts) == 1 else _take(Y, order, self.home)
        if self._whole is not None:
            Y = self._whole.forward(Y)
        return Y if self.start is None else self.start + Y

    def step(self) -> None:
        """One step of every live pair."""
        self._bidiagonalize()
        self._descend()

    def _bidiagonalize(self) -> None:
        """β u ← A v − α u, then α v ← Aᵀ u − β v."""
        N, V = self.preconditioner, self._V
        along = V if N is None else N.forward(V)
        self._W, squares, Z = self.data.advance(along, self._W, self._shift)
        if self._roots is not None:
            self._below = along * self._roots - self._below * self._shift[None, :]
            squares = squares + self._sums(self._below)
            Z = Z + self._below * self._roots
        Z = Z if N is None else N.adjoint(Z)
        beta = self.home.xp.sqrt(squares)
        Z = Z * reciprocal(beta)[None, :] - V * beta[None, :]
        length = self._sums(Z)
        self._V = Z * reciprocal(self.home.xp.sqrt(length))[None, :]
        # what a unit of v is in the gradient of x, or what the condition estimate asks of the directions
        last = self._sums(self._direction if N is None else N.undone(self._V))
        sums = to_host_together(squares, length, last)
        host, self._last = [np.sqrt(x) for x in sums], sums[2]
        self.norm = max(self.norm, float(np.hypot(self._alpha, host[0]).max(initial=0.0)))
        self._beta, self._alpha = host[0], host[1] * (host[0] > 0)
        self._unit = host[2] if N is not None else np.ones_like(host[0])

    def _descend(self) -> None:
        """The rotations of LSQR on the host, the steps of x and of the directions."""
        alpha, beta = self._alpha[self._owner], self._beta[self._owner]
        damped = np.hypot(self._rho_bar, self._damping)
        phi_bar = _ratio(self._rho_bar, damped) * self._phi_bar
        rho = np.hypot(damped, beta)
        c, s = _ratio(damped, rho), _ratio(beta, rho)
        phi = c * phi_bar
        self._phi_bar, self._rho_bar = s * phi_bar, -c * alpha
        step, turn, self._shift = self.home.place_together(
            _ratio(phi, rho), _ratio(s * alpha, rho), _ratio(self._alpha, self._beta)
        )
        if self.preconditioner is None:  # the condition estimate of Paige & Saunders, section 5.3
            self.inverse_squares[self._live] += _ratio(self._last, rho**2)
        self._Y = self._Y + self._direction * step[None, :]
        self._direction = self._owned(self._V) - self._direction * turn[None, :]
        self.gradients[self._live] = alpha * np.abs(s * phi) * self._unit[self._owner]
        self.steps[self._live] = np.abs(phi)

    def leave(self, finished: HostArray) -> None:
        """Stop the finished pairs (one entry for each live pair), and drop columns without live pairs."""
        if not finished.any():
            return
        stay, go = np.flatnonzero(~finished), np.flatnonzero(finished)
        self._done.append((self._live[go], _take(self._Y, go, self.home)))
        self._live = self._live[stay]
        self._Y, self._direction = _taken([self._Y, self._direction], stay, self.home)
        self._damping, self._owner = self._damping[stay], self._owner[stay]
        self._phi_bar, self._rho_bar = self._phi_bar[stay], self._rho_bar[stay]
        columns, self._owner = np.unique(self._owner, return_inverse=True)
        if len(columns) < len(self._beta):
            self._drop_to(columns)

    def _drop_to(self, columns: HostArray) -> None:
        self._beta, self._alpha = self._beta[columns], self._alpha[columns]
        self._shift = self.home.place(_ratio(self._alpha, self._beta))
        self._W = self.data.chosen(self._W, columns)
        if self._roots is None:
            self._V = _take(self._V, columns, self.home)
        else:
            here = [self._V, self._roots, self._below]
            self._V, self._roots, self._below = _taken(here, columns, self.home)
        if self.preconditioner is not None:
            self.preconditioner = self.preconditioner.chosen(columns)

    def _owned(self, V: Array) -> Array:
        """The column of V for each pair."""
        if np.array_equal(self._owner, np.arange(V.shape[1])):
            return V
        return _take(V, self._owner, self.home)

    def _sums(self, Z: Array) -> Array:
        return self.home.xp.sum(Z * Z, axis=0)


def matrix_of(A: LinearOperator | Moments) -> LinearOperator:
    """The matrix of the moments of one view, on their ledger; an operator is returned as it is."""
    return A.matrix(0) if isinstance(A, Moments) else A


def cross_product(A: LinearOperator | Moments, B: LinearOperator) -> Array:
    """AᵀB, for a matrix or the moments of one view."""
    return Moments(matrix_of(A), B, form="implicit").products(cross=True).cross


def start_of(A: LinearOperator, B: LinearOperator, x0: Array | None) -> Array:
    """A given start, or zero, in the home of blocks."""
    home = A.home.blocks
    return home.zeros((A.shape[1], B.shape[1])) if x0 is None else home.place(x0)


def _take(M: Array, columns: HostArray, home: Home) -> Array:
    return _taken([M], columns, home)[0]


def _taken(blocks: list[Array], columns: HostArray, home: Home) -> list[Array]:
    """The same columns of some blocks; their numbers travel once."""
    there = home.xp.asarray(columns, device=home.device)
    return [home.xp.take(M, there, axis=1) for M in blocks]


def _ratio(a: HostArray, b: HostArray) -> HostArray:
    """a / b, and 0 if b is 0, so that a finished recurrence does not change."""
    return np.divide(a, b, out=np.zeros_like(a), where=b != 0)
