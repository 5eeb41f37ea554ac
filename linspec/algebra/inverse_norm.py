"""Lengths in the norm of the inverse of a Gram matrix, which turn residuals into losses.

Problem: compute ϱᵀS⁻¹ϱ for the columns ϱ of a thin block and S = XᵀX + rI, which may be held, factored, or
known only by products.
Method: the first of the following that the known facts about S permit.

- *exact*: S has a factor; its triangular solve gives the length.
- *quadrature*: S is held as a sparse matrix. j steps of conjugate gradients, preconditioned by P, are a Gauss rule with
  j nodes for the length, which it approaches from below; the Gauss-Radau rule with a node at μ ≤ λ_min(P⁻¹S) bounds
  it from above (Golub & Meurant 1994, "Matrices, moments and quadrature"; the recurrence of the upper bound is that
  of Meurant & Tichý 2013, doi:10.1007/s11075-012-9591-9). The iteration ends when the last steps show that the first
  digit of the sum is correct.
- *preconditioned*: P = FFᵀ + E from one product with a random block (`linspec.algebra.preconditioner`) replaces S.
  FFᵀ is a Nyström approximation, which is at most XᵀX, so S ≥ FFᵀ + rI ≥ μP for μ = min(1, r / max E), and ϱᵀP⁻¹ϱ / μ
  is an upper bound. For any block Z whose product SZ is known, Galerkin's energy ϱᵀZ(ZᵀSZ)⁻¹Zᵀϱ = ϱᵀZy is a lower
  bound; for Z = P⁻¹ϱ it is the Gauss rule with one node. It is too small by at most ‖ϱ − SZy‖²_{P⁻¹} / μ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from linspec.algebra.preconditioner import Preconditioner, jacobi
from linspec.algebra.small_matrices import EPS, whitening
from linspec.algebra.whitener import DiagonalWhitener, Whitener
from linspec.arrays import Array, Home, HostArray, to_host, to_host_together

FIRST_DIGIT, DELAY = 0.1, 4
"""The quadrature ends when its last DELAY steps have added at most the fraction FIRST_DIGIT of the sum."""

MOST_STEPS = 300
"""The largest number of steps of the quadrature."""


@dataclass(frozen=True, eq=False)
class Lengths:
    """Squared lengths of the columns of a block, with bounds.

    Attributes
    ----------
    squares, below, above : numpy.ndarray of shape (k,)
        `above` is infinite if there is no upper bound.
    """

    squares: HostArray
    below: HostArray
    above: HostArray


class InverseNorm(Protocol):
    """The norm of S⁻¹ for one Gram matrix S, its ridge included: (ϱᵀS⁻¹ϱ)^(1/2) for a column ϱ.

    The squared norm of a residual ϱ is a loss. In least squares, ϱᵀS⁻¹ϱ is the amount by which the objective exceeds
    its minimum. In CCA, the squared norms of the residuals of pairs estimate the missing part of the sum of the
    correlations. `FactorNorm`, `BasisNorm` and `SketchNorm` are such norms.

    Attributes
    ----------
    kind : {"exact", "quadrature", "preconditioned", "diagonal"}
        The value for `Solution.residual_kind`.
    condition : float
        A bound on the condition number of S with unit diagonal, or infinity.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.algebra import FactorNorm, InverseNorm, Whitener
    >>> from linspec.arrays import HOST
    >>> norm: InverseNorm = FactorNorm(Whitener(np.diag([4.0, 1.0]), 0.0, 1e-15, HOST), HOST)
    >>> norm.squares(np.array([[2.0], [3.0]])).round(12)  # 2²/4 + 3²/1
    array([10.])
    """

    kind: str
    condition: float

    def squares(self, R: Array) -> HostArray:
        """Squared lengths of the columns of a block of shape (p, k): a NumPy array of shape (k,)."""

    def squares_there(self, R: Array) -> Array:
        """`squares` as an array on the device of R, so that it can be transferred together with other results.

        `QuadratureNorm` returns a NumPy array instead, because it computes the sums on the host.
        """

    def solve(self, R: Array) -> Array:
        """S⁻¹ R, or its approximation, of shape (p, k) on the device of R."""

    def lengths(self, R: Array, Z: Array | None = None, SZ: Array | None = None) -> Lengths:
        """Squared lengths with bounds.

        Parameters
        ----------
        R : array of shape (p, k)
        Z, SZ : array of shape (p, m), optional
            A block and its product with S, ridge included, which may narrow the bounds.

        Returns
        -------
        Lengths
            NumPy arrays `squares`, `below` and `above` of shape (k,); `above` is infinite if there is no upper bound.
        """


class FactorNorm:
    """The norm of S⁻¹ from a factor of S.

    Parameters
    ----------
    factor : Whitener or DiagonalWhitener
        F with S = F Fᵀ on the numerical range, of order r.
    home : Home

    Attributes
    ----------
    kind : str
        "exact".
    condition : float
        The condition number of the factor.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.algebra import FactorNorm, Whitener
    >>> from linspec.arrays import HOST
    >>> norm = FactorNorm(Whitener(np.array([[2.0, 1.0], [1.0, 2.0]]), 0.0, 1e-15, HOST), HOST)
    >>> R = np.array([[1.0], [1.0]])
    >>> norm.solve(R).ravel().round(12), norm.squares(R).round(12)
    (array([0.33333333, 0.33333333]), array([0.66666667]))
    """

    kind = "exact"

    def __init__(self, factor: Whitener | DiagonalWhitener, home: Home) -> None:
        self.factor, self.home = factor, home
        self.condition = factor.condition

    def coordinates(self, R: Array) -> Array:
        """F⁻¹ R, of shape (r, k): the Euclidean norms of its columns are the norms of the columns of R."""
        return self.factor.solve(R)

    def squares(self, R: Array) -> HostArray:
        """Squared lengths of the columns of a block of shape (p, k): a NumPy array of shape (k,)."""
        return to_host(self.squares_there(R))

    def squares_there(self, R: Array) -> Array:
        """`squares` on the device of the block."""
        T = self.factor.solve(R)
        return self.home.xp.sum(T * T, axis=0)

    def solve(self, R: Array) -> Array:
        """S⁻¹ R, of shape (p, k)."""
        return self.factor.solve_adjoint(self.factor.solve(R))

    def lengths(self, R: Array, Z: Array | None = None, SZ: Array | None = None) -> Lengths:
        """Squared lengths, with bounds from the rounding of the factor; Z and SZ are not used."""
        squares = self.squares(R)
        open_ = min(10 * R.shape[0] * EPS * self.factor.condition, 1.0)
        above = squares * (1 + open_) / (1 - open_) if open_ < 1 else np.full_like(squares, np.inf)
        return Lengths(squares, squares * (1 - open_), above)


class BasisNorm:
    """The norm of S⁻¹ from a basis W of the column space of S with WᵀSW = I, so that S⁻¹ = WWᵀ on this space.

    Parameters
    ----------
    W : array of shape (p, r)
    condition : float
        The condition number of S with unit diagonal.
    home : Home

    Attributes
    ----------
    kind : str
        "exact".

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.algebra import BasisNorm, whitening
    >>> from linspec.arrays import HOST
    >>> norm = BasisNorm(whitening(np.diag([4.0, 1.0])), 1.0, HOST)
    >>> norm.squares(np.array([[2.0], [3.0]])).round(12)  # 2²/4 + 3²/1
    array([10.])
    """

    kind = "exact"

    def __init__(self, W: Array, condition: float, home: Home) -> None:
        self.W, self.condition, self.home = W, condition, home

    def coordinates(self, R: Array) -> Array:
        """WᵀR, of shape (r, k): the Euclidean norms of its columns are the norms of the columns of R."""
        return self.W.T @ R

    def squares(self, R: Array) -> HostArray:
        """Squared lengths of the columns of a block of shape (p, k): a NumPy array of shape (k,)."""
        return to_host(self.squares_there(R))

    def squares_there(self, R: Array) -> Array:
        """`squares` on the device of the block."""
        T = self.W.T @ R
        return self.home.xp.sum(T * T, axis=0)

    def solve(self, R: Array) -> Array:
        """S⁻¹ R, of shape (p, k)."""
        return self.W @ (self.W.T @ R)

    def lengths(self, R: Array, Z: Array | None = None, SZ: Array | None = None) -> Lengths:
        """Squared lengths, with bounds that allow a millionth for rounding; Z and SZ are not used."""
        squares = self.squares(R)
        return Lengths(squares, squares * (1 - 1e-6), squares * (1 + 1e-6))


class SketchNorm:
    """The norm of S⁻¹ approximated by a preconditioner P of S = XᵀX + ridge·I, from a product with a random block.

    ϱᵀP⁻¹ϱ / μ with μ = min(1, ridge / max E) is an upper bound of ϱᵀS⁻¹ϱ; without a ridge no upper bound is known.

    Parameters
    ----------
    preconditioner : Preconditioner
        The result of `preconditioner_from_sketch`.
    ridge : float
        The ridge in S.
    home : Home

    Attributes
    ----------
    kind : str
        "preconditioned".
    condition : float
        p / μ, or infinity without a ridge.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.algebra import SketchNorm, preconditioner_from_sketch
    >>> from linspec.arrays import HOST
    >>> G, ridge = np.array([[5.0, 2.0], [2.0, 3.0]]), 0.5
    >>> S, Omega, R = G + ridge * np.eye(2), np.ones((2, 1)), np.array([[1.0], [0.0]])
    >>> norm = SketchNorm(preconditioner_from_sketch(Omega, S @ Omega, ridge, np.diag(G), None, HOST), ridge, HOST)
    >>> exact, found = np.sum(R * np.linalg.solve(S, R), axis=0), norm.lengths(R, Omega, S @ Omega)
    >>> bool(found.below <= exact), bool(exact <= found.above)
    (True, True)
    """

    kind = "preconditioned"

    def __init__(self, preconditioner: Preconditioner, ridge: float, home: Home) -> None:
        self.P, self.home = preconditioner, home
        self.least = _least_eigenvalue(preconditioner, ridge, home)
        self.condition = preconditioner.weights.shape[0] / self.least if self.least > 0 else np.inf

    def squares(self, R: Array) -> HostArray:
        """ϱᵀP⁻¹ϱ for the columns ϱ of a block of shape (p, k): a NumPy array of shape (k,)."""
        return to_host(self.squares_there(R))

    def squares_there(self, R: Array) -> Array:
        """`squares` on the device of the block."""
        xp = self.home.xp
        squares = xp.sum(R * R * self.P.weights[:, None], axis=0)
        if self.P.rank:
            inside = self.P.L.T @ R
            squares = squares - xp.sum(inside * inside, axis=0)
        return xp.where(squares < 0, xp.zeros_like(squares), squares)

    def solve(self, R: Array) -> Array:
        """P⁻¹ R, of shape (p, k); R is not modified."""
        return self.P.solve(R + 0.0)

    def lengths(self, R: Array, Z: Array | None = None, SZ: Array | None = None) -> Lengths:
        """Squared lengths (the larger of ϱᵀP⁻¹ϱ and the lower bound from Z), with bounds: see `InverseNorm.lengths`."""
        by_sketch = self.squares(R)
        above = by_sketch / self.least if self.least > 0 else np.full_like(by_sketch, np.inf)
        below = np.zeros_like(by_sketch)
        if Z is not None and SZ is not None and Z.shape[1]:
            below, rest = galerkin(R, Z, SZ, self.home)
            if self.least > 0:
                above = np.minimum(above, below + self.squares(rest) / self.least)
        return Lengths(np.minimum(np.maximum(by_sketch, below), np.maximum(above, below)), below, above)


class DiagonalNorm(SketchNorm):
    """The norm of diag(S)⁻¹, for residuals during an iteration.

    It equals the norm of S⁻¹ only if S is diagonal. So the certificate of an answer measures no residual with it.
    """

    kind = "diagonal"


NORMS = (FactorNorm, BasisNorm, SketchNorm, DiagonalNorm, Preconditioner, Whitener, DiagonalWhitener)
"""Classes that a checkpoint of norms may contain: norms, and the preconditioners and factors in them. They consist of
arrays and numbers alone. `QuadratureNorm` is not among them, because it has a function."""


def squares_together(norms: Sequence[InverseNorm], blocks: Sequence[Array]) -> list[HostArray]:
    """Squared lengths of the columns of several blocks, each in its own norm, in one transfer to the host.

    Parameters
    ----------
    norms : sequence of InverseNorm
    blocks : sequence of array
        One for each norm, all of one library and device; block i has shape (p_i, k_i).

    Returns
    -------
    list of numpy.ndarray
        Arrays of shapes (k_i,).

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.algebra import diagonal_norm, squares_together
    >>> from linspec.arrays import HOST
    >>> norms = [diagonal_norm(np.array([4.0, 1.0]), 0.0, HOST), diagonal_norm(np.array([9.0]), 0.0, HOST)]
    >>> squares_together(norms, [np.array([[2.0], [3.0]]), np.array([[3.0, 6.0]])])
    [array([10.]), array([1., 4.])]
    """
    return to_host_together(*(norm.squares_there(R) for norm, R in zip(norms, blocks, strict=True)))


def diagonal_norm(diagonal: Array, ridge: float, home: Home) -> InverseNorm:
    """The norm of diag(S)⁻¹, for residuals during an iteration.

    It equals the norm of S⁻¹ only if S is diagonal. So the certificate of an answer measures no residual with it.

    Parameters
    ----------
    diagonal : array of shape (p,)
        The diagonal of S, ridge included. Where it is zero, the entry of ϱ is ignored.
    ridge : float
        The ridge that the diagonal includes, for the upper bound: see `SketchNorm`.
    home : Home

    Returns
    -------
    InverseNorm
        Its kind is "diagonal".

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.algebra import diagonal_norm
    >>> from linspec.arrays import HOST
    >>> norm = diagonal_norm(np.array([4.0, 1.0]), 0.0, HOST)
    >>> norm.kind, norm.squares(np.array([[2.0], [3.0]]))  # 2²/4 + 3²/1
    ('diagonal', array([10.]))
    """
    return DiagonalNorm(jacobi(diagonal, home), ridge, home)


def galerkin(R: Array, Z: Array, SZ: Array, home: Home) -> tuple[HostArray, Array]:
    """For each column ϱ of R, with y = (ZᵀSZ)⁻¹Zᵀϱ: ϱᵀZy, which is at most ϱᵀS⁻¹ϱ, and the residual ϱ − SZy.

    Parameters
    ----------
    R : array of shape (p, k)
    Z, SZ : array of shape (p, m)
    home : Home
    """
    G = to_host(Z.T @ SZ)
    T = whitening((G + G.T) / 2, cut=1e4 * EPS)  # leaves out directions that are only rounding
    inside = T.T @ to_host(Z.T @ R)
    # The bound is lowered by the rounding error of ZᵀSZ.
    below = np.sum(inside**2, axis=0) * (1 - 1e-6)
    return below, R - SZ @ home.place(T @ inside)


class QuadratureNorm:
    """The norm of S⁻¹ by conjugate gradients on a Gram matrix in memory, where products need no sweep.

    Parameters
    ----------
    multiply : callable
        Function of V that returns S V, ridge included.
    preconditioner : Preconditioner
    ridge : float
    home : Home
    """

    kind = "quadrature"

    def __init__(self, multiply: Any, preconditioner: Preconditioner, ridge: float, home: Home) -> None:
        self.multiply, self.P, self.home = multiply, preconditioner, home
        self.least = _least_eigenvalue(preconditioner, ridge, home)
        self.condition = preconditioner.weights.shape[0] / self.least if self.least > 0 else np.inf

    def squares(self, R: Array) -> HostArray:
        """Squared lengths of the columns of a block by the Gauss rule: lower bounds, correct to the first digit."""
        return self._iterate(R)[1].squares

    def squares_there(self, R: Array) -> HostArray:
        """`squares`, on the host, because the iteration keeps its sums there."""
        return self.squares(R)

    def solve(self, R: Array) -> Array:
        """S⁻¹ R, by the iteration that computes squared lengths to the first digit."""
        return self._iterate(R)[0]

    def lengths(self, R: Array, Z: Array | None = None, SZ: Array | None = None) -> Lengths:
        """Squared lengths, with lower bounds by Gauss rules and upper bounds by Gauss-Radau rules."""
        return self._iterate(R)[1]

    def solved(self, R: Array) -> tuple[Array, Lengths]:
        """S⁻¹ R and the squared lengths of R, from one iteration."""
        return self._iterate(R)

    def _iterate(self, R: Array) -> tuple[Array, Lengths]:
        """Run conjugate gradients for each column of R; return S⁻¹R, and the squared lengths with their bounds.

        The iteration ends when the first digit of every squared length is correct (see `FIRST_DIGIT`), or after
        `MOST_STEPS` steps.
        """
        xp = self.home.xp
        x, r = xp.zeros_like(R), R + 0.0
        z = self.P.solve(r + 0.0)
        p = z + 0.0
        rz = to_host(xp.sum(r * z, axis=0))
        first, below = rz.copy(), np.zeros_like(rz)
        above = first / self.least if self.least > 0 else np.full_like(first, np.inf)
        radau = np.full_like(rz, 1 / self.least if self.least > 0 else np.inf)
        added: list[HostArray] = []
        for _ in range(MOST_STEPS):
            q = self.multiply(p)
            curvature = to_host(xp.sum(p * q, axis=0))
            live = (rz > EPS**2 * first) & (curvature > 0)
            step = np.divide(rz, curvature, out=np.zeros_like(rz), where=live)
            gain = step * rz
            below = below + gain
            added.append(gain)
            x = x + p * self.home.place(step)[None, :]
            r = r - q * self.home.place(step)[None, :]
            z = self.P.solve(r + 0.0)
            after = to_host(xp.sum(r * z, axis=0))
            turn = np.divide(after, rz, out=np.zeros_like(rz), where=live)
            if self.least > 0:
                ahead = np.maximum(radau - step, 0.0)
                radau = np.where(live, ahead / np.maximum(self.least * ahead + turn, 1e-300), radau)
                above = np.where(live, np.minimum(above, below + radau * after), above)
            p = z + p * self.home.place(turn)[None, :]
            rz = after
            last = sum(added[-DELAY:])
            settled = (last <= FIRST_DIGIT * below) | (above - below <= FIRST_DIGIT * below) | ~live
            if len(added) >= DELAY and bool(np.all(settled)):
                break
        return x, Lengths(below, below * (1 - 1e-6), np.maximum(above, below) * (1 + 1e-6))


def _least_eigenvalue(P: Preconditioner, ridge: float, home: Home) -> float:
    """The lower bound μ = min(1, ridge / max E) of λ_min(P⁻¹S): see the head of this file."""
    largest = 1 / max(float(to_host(_least_positive(P.weights, home))), 1e-300)
    return min(1.0, ridge / largest) if largest > 0 else 1.0


def _least_positive(weights: Array, home: Home) -> Array:
    """The smallest nonzero weight; a column of zeros has weight zero."""
    xp = home.xp
    return xp.min(xp.where(weights > 0, weights, xp.max(weights) * xp.ones_like(weights)))
