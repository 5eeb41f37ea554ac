"""Bases of paired views with their products: normalised in the metrics of the views, and rotated to canonical pairs.

Problem: an iteration for canonical correlations keeps a block of columns for each view, and needs the products of
these blocks again and again.
Method: one sweep computes S V and C V for new blocks V. To rotate or scale the columns of V costs no other sweep,
because the products are transformed in the same way. So a `Basis` is a block with its products, and `Pairs` are the
bases of two views. The small matrices of a step are copied from a device together. They are the products of the columns
in both metrics and across the views; they determine how to normalise the blocks, which of their columns are more than
rounding, and the rotation to canonical pairs.
Where we differ: a normalizer receives only the k x k products, with the identity as the block. Its result is
correct up to rounding times the condition number of the products, so this way is used where that number is moderate.
Otherwise the normalizer receives the block itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linspec.algebra import EPS, NORMS, InverseNorm, ratio, squares_together
from linspec.arrays import Array, Home, HostArray, to_host, to_host_together
from linspec.moments.moments import Moments

NOISE = 1e3 * EPS
"""A column whose length is below this fraction of the longest column is treated as rounding."""

MODERATE = 1e4
"""A block is normalised from its products alone if its unit columns have at most this condition number."""

UNDERFLOW, OVERFLOW = 1e-200, 1e200
"""Squared lengths between these bounds have neither underflowed nor overflowed."""


@dataclass(frozen=True, eq=False)
class Basis:
    """Columns V of one view with their products.

    Attributes
    ----------
    V : array of shape (p, k)
    SV : array of shape (p, k)
        S V with S = XᵀX + ridge·I.
    CV : tuple of array or None
        For each view j the product XⱼᵀX V; None for the view itself.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.moments import Basis
    >>> basis = Basis(np.eye(2), 3 * np.eye(2), (None, np.ones((1, 2))))
    >>> turned = basis @ np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> turned.V[0], turned[:1].CV[1]
    (array([0., 1.]), array([[1.]]))
    """

    V: Array
    SV: Array
    CV: tuple[Array | None, ...]

    def __matmul__(self, T: Array) -> Basis:
        """Return the basis V T with its products."""
        return Basis(self.V @ T, self.SV @ T, tuple(None if P is None else P @ T for P in self.CV))

    def __getitem__(self, columns: slice) -> Basis:
        """Return the basis of a range of columns."""
        CV = tuple(None if P is None else P[:, columns] for P in self.CV)
        return Basis(self.V[:, columns], self.SV[:, columns], CV)


@dataclass(frozen=True, eq=False)
class Metrics:
    """Parts of the metrics S = XᵀX + ridge·I of the views X, which normalise bases and measure residuals.

    Attributes
    ----------
    home : Home
        The library and device of the blocks.
    ridges : tuple of float
    diagonals : tuple of array
        diag(S) of each view.
    cuts : tuple of float
        For each view, the relative rounding of S. A vector v counts as a null direction of the view if vᵀS v is at most
        cut · vᵀdiag(S) v.
    norms : tuple of InverseNorm
        The norms of S⁻¹, or approximations.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.algebra import diagonal_norm
    >>> from linspec.arrays import HOST
    >>> from linspec.moments import Metrics
    >>> d = np.array([2.0, 4.0])
    >>> metrics = Metrics(HOST, (0.0,), (d,), (1e-15,), (diagonal_norm(d, 0.0, HOST),))
    >>> metrics.norms[0].squares(np.array([[2.0], [2.0]]))
    array([3.])
    """

    home: Home
    ridges: tuple[float, ...]
    diagonals: tuple[Array, ...]
    cuts: tuple[float, ...]
    norms: tuple[InverseNorm, ...]


def multiplied(
    moments: Moments, ridges: Sequence[float], blocks: Sequence[Array | None]
) -> tuple[Basis | None, ...]:
    """Multiply blocks of the views in one sweep, and return them with their products.

    Parameters
    ----------
    moments : Moments
        The moments of all views.
    ridges : sequence of float
    blocks : sequence of array of shape (pᵢ, k), or None
        One for each view; for None no products are computed.

    Returns
    -------
    tuple of Basis or None

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.moments import multiplied
    >>> X, Y = np.eye(3)[:, :2], np.ones((3, 1))
    >>> basis, _ = multiplied(ls.Moments(X, Y), (0.5, 0.0), (np.eye(2), None))
    >>> basis.SV, basis.CV[1]
    (array([[1.5, 0. ],
           [0. , 1.5]]), array([[1., 1.]]))
    """
    products, m = moments.products(*blocks), len(blocks)
    found: list[Basis | None] = []
    for i, (V, ridge) in enumerate(zip(blocks, ridges, strict=True)):
        if V is None:
            found.append(None)
            continue
        CV = tuple(None if j == i else products[j * m + i] for j in range(m))
        found.append(Basis(V, products[i * m + i] + V * ridge, CV))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class Pairs:
    """The bases of two views, and their correlations if the bases are canonical pairs.

    Attributes
    ----------
    metrics : Metrics
    bases : tuple of Basis
        Φ for X and Ψ for Y, each with its products.
    rho : numpy.ndarray of shape (k,) or None
        ρ of canonical pairs: ΦᵀSxΦ = I, ΨᵀSyΨ = I, ΦᵀCΨ = diag ρ.
    rho_there : array of shape (k,) or None
        ρ on the device of the blocks.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.algebra import diagonal_norm
    >>> from linspec.arrays import HOST
    >>> from linspec.moments import Metrics, Pairs, multiplied
    >>> from linspec.registry import get_part
    >>> X = np.linalg.qr(np.random.default_rng(0).standard_normal((40, 5)))[0]
    >>> moments = ls.Moments(X[:, :3], X[:, 2:])
    >>> d = np.ones(3)
    >>> norm = diagonal_norm(d, 0.0, HOST)
    >>> metrics = Metrics(HOST, (0.0, 0.0), (d, d), (1e-15, 1e-15), (norm, norm))
    >>> pairs = Pairs(metrics, multiplied(moments, metrics.ridges, (np.eye(3)[:, 1:], np.eye(3)[:, :2])))
    >>> found = pairs.canonical(get_part("normalizer", "cholesky-qr")())
    >>> np.abs(found.rho.round(6)), bool(found.residual < 1e-12)  # the third column of one is the first of the other
    (array([1., 0.]), True)
    """

    metrics: Metrics
    bases: tuple[Basis, Basis]
    rho: HostArray | None = None
    rho_there: Array = None

    def __getitem__(self, i: int) -> Basis:
        """Return the basis of view i."""
        return self.bases[i]

    def image(self, i: int) -> Array:
        """The image of the other view's basis under the cross matrix C = XᵀY: C Ψ for i = 0, CᵀΦ for i = 1."""
        return self.bases[1 - i].CV[i]

    def replaced(self, i: int, basis: Basis) -> Pairs:
        """Return the pairs with another basis for view i."""
        bases = (basis, self.bases[1]) if i == 0 else (self.bases[0], basis)
        return replace(self, bases=bases)

    def renewed(self, moments: Moments, *blocks: Array | None) -> Pairs:
        """Return the pairs with other blocks, multiplied in one sweep; None keeps the basis of a view."""
        made = multiplied(moments, self.metrics.ridges, blocks)
        pairs = self
        for i, basis in enumerate(made):
            pairs = pairs if basis is None else pairs.replaced(i, basis)
        return pairs

    # ---- normalised, and rotated to canonical pairs ----------------------------------------------

    def turned(self, turns: Sequence[HostArray | None], rho: HostArray | None = None) -> Pairs:
        """Return the pairs Φ Tx and Ψ Ty, with ρ if they are canonical; T = None keeps a basis unchanged."""
        sent = [T for T in (*turns, rho) if T is not None]
        placed = iter(self.metrics.home.place_together(*sent))
        x, y = (B if T is None else B @ next(placed) for B, T in zip(self.bases, turns, strict=True))
        return replace(self, bases=(x, y), rho=rho, rho_there=next(placed, None))

    def normalized(self, normalizer: Any, new: Sequence[int] = (0, 1)) -> Pairs:
        """Return the pairs with bases that are orthonormal in their metrics, ΦᵀSxΦ = I and ΨᵀSyΨ = I, and without ρ.

        A basis with linearly dependent columns gets zero columns for the missing rank.

        Parameters
        ----------
        normalizer : Normalizer
        new : sequence of int, default both
            The views whose bases are new. A basis that is not new is orthonormal already.
        """
        turns = self._turns(normalizer, new, to_host_together(*self._products(new)))
        if turns is not None:
            return self.turned(turns)
        whole = self._whole(normalizer, new)
        return whole.turned(whole._real_columns(new, to_host_together(*whole._lengths(new))))

    def canonical(self, normalizer: Any = None, new: Sequence[int] = (0, 1)) -> Pairs:
        """Compute the canonical pairs of the two spans.

        Parameters
        ----------
        normalizer : Normalizer, optional
            Makes the new bases orthonormal first, see `normalized`. None: both bases are orthonormal already.
        new : sequence of int, default both
        """
        if normalizer is None:
            P, rho, Qt = np.linalg.svd(to_host(self._cross()))
            return self.turned((P, Qt.T), rho)
        *products, M = to_host_together(*self._products(new), self._cross())
        pairs, turns = self, self._turns(normalizer, new, products)
        if turns is None:
            pairs = self._whole(normalizer, new)
            *lengths, M = to_host_together(*pairs._lengths(new), pairs._cross())
            turns = pairs._real_columns(new, lengths)
        Tx, Ty = (np.eye(len(M)) if T is None else T for T in turns)
        P, rho, Qt = np.linalg.svd(Tx.T @ M @ Ty)
        return pairs.turned((Tx @ P, Ty @ Qt.T), rho)

    def leading(self, k: int) -> Pairs:
        """The first k pairs."""
        x, y = (basis[:k] for basis in self.bases)
        rho, there = (None if each is None else each[:k] for each in (self.rho, self.rho_there))
        return Pairs(self.metrics, (x, y), rho, there)

    def _cross(self) -> Array:
        """ΦᵀCΨ."""
        return self[0].V.T @ self.image(0)

    def _products(self, new: Sequence[int]) -> list[Array]:
        """VᵀSV and VᵀDV of each new basis; D = diag S shows which lengths are only rounding."""
        found = []
        for i in new:
            V, SV, d = self[i].V, self[i].SV, self.metrics.diagonals[i]
            with np.errstate(all="ignore"):  # an iteration may diverge
                found += [V.T @ SV, V.T @ (V * d[:, None])]
        return found

    def _turns(
        self, normalizer: Any, new: Sequence[int], products: Sequence[HostArray]
    ) -> list[HostArray | None] | None:
        """Matrices that make new bases orthonormal, from `_products`; None if the products do not determine them."""
        turns: list[HostArray | None] = [None, None]
        for n, i in enumerate(new):
            turns[i] = _turn(normalizer, products[2 * n], products[2 * n + 1], self.metrics.cuts[i])
            if turns[i] is None:
                return None
        return turns

    def _whole(self, normalizer: Any, new: Sequence[int]) -> Pairs:
        """Normalise the new bases from the blocks themselves, and not from their products alone."""
        real = self.turned(self._real_columns(new, to_host_together(*self._lengths(new))))
        turns: list[HostArray | None] = [None, None]
        for i in new:
            turns[i] = square(normalizer.orthonormalize(real[i].V, real[i].SV)[1])
        return real.turned(turns)

    def _lengths(self, new: Sequence[int]) -> list[Array]:
        """Squared lengths of the columns of each new basis, in S and in diag(S)."""
        home, found = self.metrics.home, []
        for i in new:
            V, SV, d = self[i].V, self[i].SV, self.metrics.diagonals[i]
            with np.errstate(over="ignore"):  # an iteration may diverge
                found.append(home.xp.stack([home.column_sums(V * SV), home.column_sums(V * V * d[:, None])]))
        return found

    def _real_columns(self, new: Sequence[int], lengths: Sequence[HostArray]) -> list[HostArray | None]:
        """Diagonal matrices that set columns which S almost annihilates to zero; None if there are no such columns.

        A deficient view has directions v with Sv = 0. Rounding gives them a length in S, which is small compared with
        their length in diag(S). Scaled to unit length, they would look like any other direction. The same holds for
        columns that, compared with the largest one, are as small as the rounding of their products.
        """
        turns: list[HostArray | None] = [None, None]
        for i, (squares, by_diagonal) in zip(new, lengths, strict=True):
            real = _real(squares, by_diagonal, self.metrics.cuts[i])
            turns[i] = None if real.all() else np.diag(real.astype(np.float64))
        return turns

    # ---- residuals -------------------------------------------------------------------------------

    def residual_block(self, i: int) -> Array:
        """C Ψ − SxΦ diag ρ for view 0, CᵀΦ − SyΨ diag ρ for view 1."""
        return self.image(i) - self[i].SV * self.rho_there[None, :]

    @property
    def residual(self) -> float:
        """The relative squared residual of canonical pairs, Σ‖ϱᵢ‖² / Σρᵢ.

        ϱᵢ consists of column i of `residual_block(0)` and column i of `residual_block(1)`. These two parts are measured
        in the norms of Sx⁻¹ and Sy⁻¹, or in approximations of these norms (`Metrics.norms`).
        """
        squares = squares_together(self.metrics.norms, (self.residual_block(0), self.residual_block(1)))
        return ratio(float(sum(s.sum() for s in squares)), self.total)

    @property
    def total(self) -> float:
        """Σρᵢ."""
        return 0.0 if self.rho is None else float(self.rho.sum())

    @property
    def exact(self) -> bool:
        """Whether the norms of residuals are exact."""
        return all(norm.kind == "exact" for norm in self.metrics.norms)


PARTS_OF_PAIRS: tuple[type, ...] = (Pairs, Metrics, Basis, *NORMS)
"""The classes that `Pairs` consist of; solvers that keep pairs in checkpoints list them in `kept`."""


def square(T: HostArray) -> HostArray:
    """Append zero columns to a normalizer's matrix, one for each direction that it dropped.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.moments import square
    >>> square(np.array([[1.0], [2.0]]))
    array([[1., 0.],
           [2., 0.]])
    """
    k, r = T.shape
    return T if r == k else np.hstack([T, np.zeros((k, k - r))])


def _real(squares: HostArray, by_diagonal: HostArray, cut: float) -> HostArray:
    """Mask of the columns that are more than rounding, from their squared lengths in S and in diag(S)."""
    real: HostArray = (squares > cut * by_diagonal) & (squares > NOISE**2 * squares.max(initial=0.0))
    return real


def _turn(normalizer: Any, G: HostArray, H: HostArray, cut: float) -> HostArray | None:
    """T with TᵀGT = I, and zero columns for missing rank; None if G is too ill-conditioned to determine T.

    Parameters
    ----------
    normalizer : Normalizer
    G, H : numpy.ndarray of shape (k, k)
        The products of the columns of a block in S and in diag(S).
    cut : float
        The relative rounding of S.
    """
    squares = G.diagonal()
    real = np.flatnonzero(_real(squares, H.diagonal(), cut))
    if not (squares[real] > UNDERFLOW).all() or not np.abs(G).max(initial=0.0) < OVERFLOW:
        return None
    G = (G + G.T)[np.ix_(real, real)] / 2
    inner = normalizer.orthonormalize(np.eye(len(real)), G)[1]
    # ‖D T‖² is the inverse of the least eigenvalue of G with unit diagonal.
    if inner.shape[1] < len(real) or np.sum((np.sqrt(squares[real])[:, None] * inner) ** 2) > MODERATE:
        return None
    T = np.zeros_like(H)
    T[real, : len(real)] = inner
    lengths = np.zeros(len(H))
    lengths[: len(real)] = 1.0
    T *= _real(lengths, np.sum(T * (H @ T), axis=0), cut)
    return T
