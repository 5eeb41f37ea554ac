"""An orthonormal basis that grows block by block, and the Rayleigh-Ritz pairs of a symmetric matrix in its span.

Problem: iterations for the leading eigenpairs of a symmetric M, known only by products, need an orthonormal
basis V, the projection H = VᵀMV, and the residuals of its eigenpairs without a further product.
Method: block Lanczos (Golub & Underwood 1977). With V and a block Q that has not been multiplied yet, a step is

    V ← [V Q],  W = M Q,  R = W − V VᵀW,  H = VᵀMV,  Q ← orth(R),

where the caller computes W. A Ritz pair (θ, Vy) with Hy = θy has the residual R y_Q, where y_Q are the entries of y
that belong to the newest block of V, and ‖R y_Q‖² = y_Qᵀ G y_Q for G = RᵀR. A basis that is full is restarted from
its leading Ritz vectors and the next block (thick restart: Wu & Simon 2000, doi:10.1137/S0895479898334605).
Where we differ: (a) The projection onto V is subtracted once, which keeps the basis semi-orthogonal (Simon 1984,
doi:10.1090/S0025-5718-1984-0725988-X). It is subtracted a second time if an estimate of the loss of orthogonality
shows that once is not enough. (b) Directions of R that are only rounding errors, before or after the second
projection, are omitted. (c) A step returns a new basis and leaves the old basis unchanged. The two bases share the
memory of their common vectors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from linspec.algebra.small_matrices import EPS, eigenpairs, whitening
from linspec.arrays import Array, Home, HostArray, to_host, to_host_together
from linspec.errors import InvalidProblem

SMALL = 1e-3
"""The remainder R of a product M Q is projected a second time if the smallest singular value of R above rounding is
below this fraction of the largest ‖VᵀM Q‖ of all steps so far (spectral norm)."""

LOUD = 1e3
"""Limit for directions of a remainder R that are too short to show in its Gram matrix RᵀR.

Directions that RᵀR shows are kept if they are longer than 10 rounding errors of the largest product. The part of R
outside of these directions is computed from R itself. A direction of this part is kept if it is longer than LOUD
rounding errors."""

OWN = 0.1
"""A new direction is kept only if at least this fraction of its squared length is outside the basis; otherwise it is
amplified rounding."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class GrowingBasis:
    """Orthonormal basis V, H = VᵀMV for a symmetric M, and the block to multiply next. `begin` makes an empty basis.

    A basis does not change: each step returns a new basis.

    Attributes
    ----------
    next : array of shape (p, b)
        Orthonormal, orthogonal to V, and not multiplied yet.
    home : Home
        Home of the vectors.
    most : int
        The largest number of vectors in V.
    widest : int
        The largest number of columns in the next block; further columns are omitted.
    unit : float
        The rounding error of products with M, relative to the largest product.
    bearable : float
        The loss of orthogonality of a block up to which one projection is enough. The loss of a block Q is the norm
        of VᵀQ, where V has the vectors before Q.
    rows : array of shape (m, p)
        Vᵀ, with a vector in each row, so that products read contiguous memory.
    H : numpy.ndarray of shape (m, m)
        VᵀMV.
    G : numpy.ndarray of shape (b, b)
        RᵀR for the part R of the last product outside of V.
    newest : int
        Index of the first vector of the newest block of V.
    scale : float
        The largest ‖VᵀM Q‖ of all steps so far (spectral norm), where V contains Q.
    twice : bool
        Whether the projection onto V is subtracted twice from each product.
    losses : pair of float
        Estimates of ‖VᵀQ‖ for the last two blocks Q.
    largest_loss : float
        The largest of these estimates so far.
    restarts : int
        Number of restarts so far.

    Examples
    --------
    The largest eigenvalue of a matrix, from products with blocks of two columns:

    >>> import numpy as np
    >>> from linspec.algebra import GrowingBasis, orthonormal_columns
    >>> from linspec.arrays import HOST
    >>> M = np.diag(np.arange(1.0, 101.0))
    >>> start = np.random.default_rng(0).standard_normal((100, 2))
    >>> basis = GrowingBasis.begin(orthonormal_columns(start, HOST), most=30, home=HOST)
    >>> while basis.count == 0 or basis.residuals(1)[0] > 1e-8:
    ...     if basis.is_full:
    ...         basis = basis.restart(10)
    ...     basis = basis.grow(M @ basis.next)
    >>> theta, _ = basis.ritz
    >>> round(theta[0], 8), basis.vectors(1).shape
    (np.float64(100.0), (100, 1))
    """

    next: Array
    home: Home
    most: int
    widest: int
    unit: float
    bearable: float
    rows: Array
    H: HostArray
    G: HostArray
    newest: int = 0
    scale: float = 0.0
    twice: bool = False
    losses: tuple[float, float] = (0.0, 0.0)
    largest_loss: float
    restarts: int = 0

    _room: ClassVar[_Room | None] = (
        None  # an instance has one, which is no field: a checkpoint does not copy it
    )

    @classmethod
    def begin(
        cls,
        first: Array,
        *,
        most: int,
        home: Home,
        widest: int | None = None,
        unit: float = EPS,
        bearable: float = 1e-10,
    ) -> GrowingBasis:
        """Make an empty basis, with the first block to multiply.

        Parameters
        ----------
        first : array of shape (p, b)
            Orthonormal columns.
        most : int
            The largest number of vectors, at least b.
        home : Home
            Home of the vectors.
        widest : int, optional
            The largest number of columns in a later block; by default `most`.
        unit : float, default machine epsilon
            The rounding error of products, relative to the largest product.
        bearable : float, default 1e-10
            The norm of VᵀQ, for a new block Q, up to which one projection is enough. Relative to the norm of M,
            the errors of residuals are of this order.

        Returns
        -------
        GrowingBasis
        """
        return cls(
            next=first,
            home=home,
            most=most,
            widest=most if widest is None else widest,
            unit=unit,
            bearable=bearable,
            rows=home.zeros((0, first.shape[0])),
            H=np.zeros((0, 0)),
            G=np.zeros((0, 0)),
            largest_loss=unit,
        )

    @property
    def count(self) -> int:
        """Number of vectors in V."""
        return int(self.rows.shape[0])

    @property
    def length(self) -> int:
        """Number of entries of a vector."""
        return int(self.rows.shape[1])

    @property
    def is_full(self) -> bool:
        """Whether V has no room for the next block; `restart` makes room."""
        return self.count + int(self.next.shape[1]) > self.most

    @property
    def is_invariant(self) -> bool:
        """Whether M V is in the span of V, so that there is no next block."""
        return int(self.next.shape[1]) == 0

    # ---- steps --------------------------------------------------------------------------------

    def grow(self, product: Array) -> GrowingBasis:
        """Add the next block Q to the basis; the part of M Q outside of the basis becomes the new next block.

        Parameters
        ----------
        product : array of shape (p, b)
            M Q for Q = `next`; overwritten.

        Returns
        -------
        GrowingBasis

        Raises
        ------
        InvalidProblem
            The basis is full.
        """
        start, count = self.count, self.count + int(self.next.shape[1])
        if count > self.most:
            raise InvalidProblem(
                f"a basis of {self.most} vectors at most must have room for the next block; got {start} vectors and "
                f"{count - start} columns. Call restart first."
            )
        room = self._roomy()
        room.used = count
        room.rows[start:count, :] = self.next.T
        V = room.rows[:count, :]
        h = coefficients(V, product)
        R = product
        R -= combination(V, h)
        h, G = to_host_together(h, R.T @ R)
        # A product has only rounding along the blocks before the last two, unless they are Ritz vectors. Small
        # directions of rests that were left out occur again in later blocks.
        first = self.newest if self.newest < start else 0
        # The loss of orthogonality of blocks enters the product (Simon 1984). That of the newest block shows in the
        # coefficients of older blocks. That of the block before is multiplied by the coefficients of this block. After
        # a restart the loss is unknown, because products have parts along all Ritz vectors.
        found, before = float(np.linalg.norm(h[:first])), float(np.linalg.norm(h[first:start]))
        slack = np.inf if 0 < start == self.newest else found + self.losses[0] * before
        first = 0 if self.twice else first
        room.H[first:count, start:count] = h[first:]
        room.H[start:count, first:count] = h[first:].T
        room.H[start:count, start:count] = (h[start:] + h[start:].T) / 2
        grown = self._with(
            room,
            rows=V,
            H=room.H[:count, :count],
            G=G,
            newest=start,
            scale=max(self.scale, float(np.linalg.norm(h, 2))),
        )
        return grown._with_rest(R, slack)

    def restart(self, keep: int, block: Array | None = None) -> GrowingBasis:
        """Basis of the leading Ritz vectors, with room for more.

        Parameters
        ----------
        keep : int
            Number of Ritz vectors to keep. Fewer are kept if there are fewer, or if the next block would not fit
            beside them.
        block : array of shape (p, b), optional
            Replacement of the next block: its part outside of the Ritz vectors is multiplied next.

        Returns
        -------
        GrowingBasis
        """
        theta, Y = self.ritz
        width = int(self.next.shape[1]) if block is None else 0
        keep = min(keep, len(theta), self.most - width)
        room = _Room(self.home, self.most, self.length)
        room.used = keep
        rows, turn = room.rows[:keep, :], self.home.place(Y[:, :keep].T)
        if self.home.on_host:
            np.matmul(turn, self.rows, out=rows)  # without memory for another basis
        else:
            room.rows[:keep, :] = turn @ self.rows
            rows = room.rows[:keep, :]
        room.H[:keep, :keep] = np.diag(theta[:keep])
        return self._with(
            room,
            rows=rows,
            H=room.H[:keep, :keep],
            newest=keep,
            restarts=self.restarts + 1,
            next=self.next if block is None else columns_outside(block, rows, self.home),
        )

    def begin_again(self, keep: int) -> GrowingBasis:
        """Empty basis whose first block is the leading Ritz vectors, which are then multiplied again.

        Parameters
        ----------
        keep : int
            Number of Ritz vectors.

        Returns
        -------
        GrowingBasis
        """
        vectors = self.rows.T @ self.home.place(self.ritz[1][:, :keep])
        anew = GrowingBasis.begin(
            orthonormal_columns(vectors, self.home),
            most=self.most,
            home=self.home,
            widest=self.widest,
            unit=self.unit,
            bearable=self.bearable,
        )
        return replace(anew, restarts=self.restarts + 1, scale=self.scale, twice=self.twice)

    def projecting_twice(self) -> GrowingBasis:
        """Copy of the basis that subtracts the projection onto V twice from all later products."""
        return self._with(self._room, twice=True)

    def outside(self, block: Array) -> Array:
        """Part of a block outside of the span of V.

        Parameters
        ----------
        block : array of shape (p, b)

        Returns
        -------
        array of shape (p, b)
        """
        return block - combination(self.rows, coefficients(self.rows, block))

    # ---- Rayleigh and Ritz --------------------------------------------------------------------

    @cached_property
    def ritz(self) -> tuple[HostArray, HostArray]:
        """Eigenvalues θ of H in decreasing order, and its eigenvectors y: the Ritz vectors are V y."""
        values, vectors = eigenpairs(self.H)
        return values[::-1], vectors[:, ::-1]

    def residuals(self, k: int) -> HostArray:
        """‖Mv − θv‖ of the leading Ritz pairs, without a product.

        Parameters
        ----------
        k : int

        Returns
        -------
        numpy.ndarray of shape (k,), or shorter if there are fewer pairs
        """
        y = self.ritz[1][self.newest :, :k]
        found: HostArray = np.sqrt(np.maximum(np.sum(y * (self.G @ y), axis=0), 0.0))
        return found

    def vectors(self, k: int) -> Array:
        """Leading Ritz vectors.

        Parameters
        ----------
        k : int

        Returns
        -------
        array of shape (p, k), or less where there are fewer pairs
            Orthonormal to rounding, by a step of Newton and Schulz from the semi-orthogonal basis.
        """
        V = self.rows.T @ self.home.place(self.ritz[1][:, :k])
        correction = 1.5 * np.eye(V.shape[1]) - 0.5 * to_host(V.T @ V)
        return V @ self.home.place(correction)

    # ---- parts of a step -------------------------------------------------------------------

    def _with_rest(self, R: Array, slack: float) -> GrowingBasis:
        """Basis whose next block spans the directions of the remainder R that exceed rounding.

        `slack` is an estimate of ‖VᵀR‖, the part of R that one projection has left in the span of V; infinity if
        the part is unknown. Divided by the length of the shortest direction, it is the loss of orthogonality of the
        next block. If the loss exceeds `bearable`, the block is projected a second time.
        """
        T, lengths = _directions(self.G, 10 * self.unit * self.scale)
        Q = R @ self.home.place(T)
        least, twice = float(lengths.min(initial=np.inf)), self.twice
        if len(lengths) < len(self.G):
            twice = True
            # The Gram matrix loses directions of a hundred millionth of the others' size; the rest itself has them.
            # What an uneven Q leaves of the others would be taken for such directions, and is mostly rounding.
            Q = orthonormal_columns(Q, self.home)
            small = R - Q @ (Q.T @ R)
            T, _ = _directions(to_host(small.T @ small), LOUD * self.unit * self.scale)
            Q = self.home.concat([Q, small @ self.home.place(T)])
        loss = slack / least if least < np.inf else 0.0
        # Deviation of QᵀQ from I by the rounding of RᵀR.
        uneven = EPS * (float(lengths.max(initial=0.0)) / least) ** 2
        if twice or least < SMALL * self.scale or loss > self.bearable:
            loss = self.unit
            # Scaling small rests has also amplified their parts along the basis.
            Q = self.outside(Q)
            own, vectors = eigenpairs(to_host(Q.T @ Q))
            Q = Q @ self.home.place(vectors[:, own > OWN] / np.sqrt(own[own > OWN]))
        if twice or uneven > self.bearable / 100:
            Q = orthonormal_columns(Q, self.home)
        return self._with(
            self._room,
            next=Q[:, : min(Q.shape[1], self.length - self.count, self.widest)],
            twice=twice,
            losses=(self.losses[1], loss),
            largest_loss=max(self.largest_loss, loss),
        )

    def _with(self, room: _Room | None, **changes: Any) -> GrowingBasis:
        """Basis with changed fields and the memory `room`."""
        changed = replace(self, **changes)
        object.__setattr__(changed, "_room", room)
        return changed

    def _roomy(self) -> _Room:
        """Memory that holds the vectors of this basis, with free space after them.

        The result is the shared memory, unless another basis has already appended vectors to it. Then the result is
        new memory with copies of the vectors and of H.
        """
        if self._room is not None and self._room.used == self.count:
            return self._room
        room = _Room(self.home, self.most, self.length)
        room.rows[: self.count, :] = self.rows
        room.H[: self.count, : self.count] = self.H
        return room


class _Room:
    """Memory for Vᵀ and H, shared by bases grown from one another; the largest of these has `used` vectors."""

    def __init__(self, home: Home, most: int, length: int) -> None:
        self.rows, self.H, self.used = home.zeros((most, length)), np.zeros((most, most)), 0


def coefficients(rows: Array, block: Array) -> Array:
    """V Y for rows V and a block Y of few columns, as (Yᵀ Vᵀ)ᵀ, in which BLAS takes up to half less time."""
    return (block.T @ rows.T).T


def combination(rows: Array, H: Array) -> Array:
    """Vᵀ H for rows V and a matrix H of few columns, as (Hᵀ V)ᵀ, in which BLAS takes up to half less time."""
    return (H.T @ rows).T


def orthonormal_columns(Y: Array, home: Home) -> Array:
    """Orthonormal basis of the span of the columns of a tall block, without directions that are only rounding errors.

    Parameters
    ----------
    Y : array of shape (p, b)
    home : Home
        Home of Y.

    Returns
    -------
    array of shape (p, r)
        Y T, where r is the numerical rank of Y, and T comes from the eigenvectors of YᵀY (see `whitening`). The
        result of a first pass is orthonormalised again, because the condition number of Y limits its accuracy.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.algebra import orthonormal_columns
    >>> from linspec.arrays import HOST
    >>> Q = orthonormal_columns(np.array([[3.0, 3.0], [4.0, 4.0], [0.0, 1e-3]]), HOST)
    >>> bool(np.allclose(Q.T @ Q, np.eye(2), atol=1e-15))
    True
    """
    for _ in range(2):
        Y = Y @ home.place(whitening(to_host(Y.T @ Y)))
    return Y


def columns_outside(Y: Array, rows: Array, home: Home) -> Array:
    """Orthonormal basis of the part of a block outside of orthonormal vectors.

    Parameters
    ----------
    Y : array of shape (p, b)
    rows : array of shape (m, p)
        The orthonormal vectors.
    home : Home
        Home of Y and `rows`.

    Returns
    -------
    array of shape (p, r)
        Computed by two projections. A column of Y within the span leaves rounding errors, which are treated like data.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.algebra import columns_outside
    >>> from linspec.arrays import HOST
    >>> abs(columns_outside(np.array([[5.0], [2.0]]), np.array([[1.0, 0.0]]), HOST))
    array([[0.],
           [1.]])
    """
    for _ in range(2):
        Y = orthonormal_columns(Y - combination(rows, coefficients(rows, Y)), home)
    return Y


def _directions(G: HostArray, noise: float) -> tuple[HostArray, HostArray]:
    """For G = RᵀR, return T such that R T has orthonormal columns, and the lengths of the directions that T normalizes.

    Directions that are not longer than `noise`, or than the rounding error of G, are omitted.
    """
    values, vectors = eigenpairs((G + G.T) / 2)
    keep = values > max(noise**2, len(values) * EPS * np.max(values, initial=0.0))
    lengths = np.sqrt(values[keep])
    return vectors[:, keep] / lengths, lengths
