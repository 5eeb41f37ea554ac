"""Lengths in the norm of the inverse of a Gram matrix, which turn residuals into losses.

Problem: compute ϱᵀS⁻¹ϱ for the columns ϱ of a thin block and S = XᵀX + rI, which may be held, factored, or
known only by products.
Method: the first of the following that the known facts about S permit.

- *exact*: S has a factor; its triangular solve gives the length.
- *preconditioned*: P = FFᵀ + E from one product with a random block (`linspec.algebra.preconditioner`) replaces S.
  FFᵀ is a Nyström approximation, which is at most XᵀX, so S ≥ FFᵀ + rI ≥ μP for μ = min(1, r / max E), and ϱᵀP⁻¹ϱ / μ
  is an upper bound. For any block Z whose product SZ is known, Galerkin's energy ϱᵀZ(ZᵀSZ)⁻¹Zᵀϱ = ϱᵀZy is a lower
  bound; for Z = P⁻¹ϱ it is the Gauss rule with one node. It is too small by at most ‖ϱ − SZy‖²_{P⁻¹} / μ.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from linspec.algebra.preconditioner import Preconditioner
from linspec.algebra.small_matrices import EPS, whitening
from linspec.algebra.whitener import Whitener
from linspec.arrays import Array, Home, HostArray, to_host


class InverseNorm(Protocol):
    """The norm of S⁻¹ for one Gram matrix S, its ridge included: (ϱᵀS⁻¹ϱ)^(1/2) for a column ϱ.

    The squared norm of a residual ϱ is a loss. In least squares, ϱᵀS⁻¹ϱ is the amount by which the objective exceeds
    its minimum. In CCA, the squared norms of the residuals of pairs estimate the missing part of the sum of the
    correlations. `FactorNorm` and `SketchNorm` are such norms.

    Attributes
    ----------
    kind : {"exact", "preconditioned"}
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

    def solve(self, R: Array) -> Array:
        """S⁻¹ R, or its approximation, of shape (p, k) on the device of R."""

    def lengths(self, R: Array, Z: Array | None = None, SZ: Array | None = None) -> HostArray:
        """Squared lengths, of which a block Z and its product with S, ridge included, may say more."""


class FactorNorm:
    """The norm of S⁻¹ from a factor of S.

    Parameters
    ----------
    factor : Whitener
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

    def __init__(self, factor: Whitener, home: Home) -> None:
        self.factor, self.home = factor, home
        self.condition = factor.condition

    def coordinates(self, R: Array) -> Array:
        """F⁻¹ R, of shape (r, k): the Euclidean norms of its columns are the norms of the columns of R."""
        return self.factor.solve(R)

    def squares(self, R: Array) -> HostArray:
        """Squared lengths of the columns of a block of shape (p, k): a NumPy array of shape (k,)."""
        T = self.factor.solve(R)
        return to_host(self.home.xp.sum(T * T, axis=0))

    def solve(self, R: Array) -> Array:
        """S⁻¹ R, of shape (p, k)."""
        return self.factor.solve_adjoint(self.factor.solve(R))

    def lengths(self, R: Array, Z: Array | None = None, SZ: Array | None = None) -> HostArray:
        """`squares`; Z and SZ are not used."""
        return self.squares(R)


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
    >>> exact = np.sum(R * np.linalg.solve(S, R), axis=0)
    >>> bool(abs(norm.lengths(R, Omega, S @ Omega) - exact)[0] < 0.5 * exact[0])
    True
    """

    kind = "preconditioned"

    def __init__(self, preconditioner: Preconditioner, ridge: float, home: Home) -> None:
        self.P, self.home = preconditioner, home
        self.least = _least_eigenvalue(preconditioner, ridge, home)
        self.condition = preconditioner.weights.shape[0] / self.least if self.least > 0 else np.inf

    def squares(self, R: Array) -> HostArray:
        """ϱᵀP⁻¹ϱ for the columns ϱ of a block of shape (p, k): a NumPy array of shape (k,)."""
        xp = self.home.xp
        squares = xp.sum(R * R * self.P.weights[:, None], axis=0)
        if self.P.rank:
            inside = self.P.L.T @ R
            squares = squares - xp.sum(inside * inside, axis=0)
        return np.maximum(to_host(squares), 0.0)

    def solve(self, R: Array) -> Array:
        """P⁻¹ R, of shape (p, k); R is not modified."""
        return self.P.solve(R + 0.0)

    def lengths(self, R: Array, Z: Array | None = None, SZ: Array | None = None) -> HostArray:
        """The larger of ϱᵀP⁻¹ϱ and the lower bound from Z, at most the upper bound: see the head of this file."""
        by_sketch = self.squares(R)
        above = by_sketch / self.least if self.least > 0 else np.full_like(by_sketch, np.inf)
        below = np.zeros_like(by_sketch)
        if Z is not None and SZ is not None and Z.shape[1]:
            below, rest = galerkin(R, Z, SZ, self.home)
            if self.least > 0:
                above = np.minimum(above, below + self.squares(rest) / self.least)
        lengths: HostArray = np.minimum(np.maximum(by_sketch, below), np.maximum(above, below))
        return lengths


NORMS = (FactorNorm, SketchNorm, Preconditioner, Whitener)
"""Classes that a checkpoint of norms may contain: norms, and the preconditioners and factors in them. They consist of
arrays and numbers alone."""


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


def _least_eigenvalue(P: Preconditioner, ridge: float, home: Home) -> float:
    """The lower bound μ = min(1, ridge / max E) of λ_min(P⁻¹S): see the head of this file."""
    largest = 1 / max(float(to_host(_least_positive(P.weights, home))), 1e-300)
    return min(1.0, ridge / largest) if largest > 0 else 1.0


def _least_positive(weights: Array, home: Home) -> Array:
    """The smallest nonzero weight; a column of zeros has weight zero."""
    xp = home.xp
    return xp.min(xp.where(weights > 0, weights, xp.max(weights) * xp.ones_like(weights)))
