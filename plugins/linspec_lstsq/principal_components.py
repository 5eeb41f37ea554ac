"""Principal component regression.

Problem: min ‖A x - B‖² + r ‖x‖², with x only along the leading right singular vectors of A.
Method: with the k leading triplets U, d, V of A, from a randomized SVD,

    UᵀB = ZᵀAᵀB                     (1)
    x = V (d/(d² + r)) UᵀB          (2)

Source: Lu 2015 (thesis), chapter 2; Massy 1965, doi:10.1080/01621459.1965.10480787.
Where we differ: only in that U is never formed. The part outside the components is ignored, so the residual
of the full problem remains large; the status says so.

The leading singular triplets of A by a randomized method, in the form that regression needs.

Problem: for min ‖A x - B‖ only the products of the leading left singular vectors U with B and with coefficients are
needed; the n x k matrix U need not exist.
Method: randomized SVD with one power iteration (Halko, Martinsson & Tropp 2011, doi:10.1137/090771806, Algorithms
4.4 and 5.1). With W = orth(AᵀAΩ),

    WᵀAᵀA W = C θ Cᵀ,  R = C θ^(-1/2)           so A W R is orthonormal      (1)
    H = AᵀA W R,  HᵀH = U₀ d² U₀ᵀ                                            (2)
    V = H U₀ / d,  Z = W R U₀                                                (3)

Then A Z = U exactly, AᵀU = V d exactly, and UᵀB = ZᵀAᵀB. This takes two passes in total, with that of AᵀB.
Where we differ: the power iteration is made on the p side, where a pass is one product with AᵀA. Triplets below
rounding are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import linspec as ls
from linspec import Status, form_option, option, part
from linspec.arrays import Array, Device, HostArray, to_host
from linspec.iteration import Context, Iterate
from linspec.linalg import EPS, orthonormal
from linspec.rows import Moments
from linspec.solving import Solver

OVERSAMPLING = 10
"""Columns of the random block beyond the components that are asked for."""


@dataclass(frozen=True)
class PrincipalComponents:
    """Leading singular triplets of A.

    Attributes
    ----------
    d : numpy.ndarray of shape (k,)
        Singular values, decreasing.
    V : array of shape (p, k)
        Right singular vectors.
    Z : array of shape (p, k)
        Coefficients of the left singular vectors: A Z = U.
    Q, AtAQ : array of shape (p, l)
        Orthonormal approximate eigenvectors of AᵀA from the same block, and their products with AᵀA.
    """

    d: HostArray
    V: Array
    Z: Array
    Q: Array
    AtAQ: Array

    @classmethod
    def of(cls, Y: Array, product: Callable[[Array], Array], rank: int) -> PrincipalComponents:
        """Compute at most `rank` components, fewer if A has lower numerical rank, from Y = AᵀAΩ and V -> AᵀA V."""
        asarray = Device.of(Y).asarray
        W, _ = orthonormal(Y)
        AtAW = product(W)
        G = to_host(W.T @ AtAW)
        theta, C = np.linalg.eigh((G + G.T) / 2)
        live = theta > len(theta) * EPS * np.max(theta, initial=0.0)
        theta = theta[live][::-1]
        C = C[:, live][:, ::-1]
        R = C / np.sqrt(theta)  # (1)
        H = AtAW @ asarray(R)
        squares, U0 = np.linalg.eigh(to_host(H.T @ H))  # (2)
        d = np.sqrt(np.maximum(squares[::-1][:rank], 0.0))
        U0 = U0[:, ::-1][:, :rank]
        d, U0 = d[d > 0], U0[:, d > 0]
        V, Z = H @ asarray(U0 / d), W @ asarray(R @ U0)  # (3)
        turn = asarray(C[:, :rank])
        return cls(d, V, Z, W @ turn, AtAW @ turn)


@dataclass(frozen=True, kw_only=True)
class OnComponents(Solver):
    """What begins with leading components."""

    rank: int = option(20, "leading components", at_least=1)
    test_matrix: Any = part("gaussian", "what the randomized SVD multiplies", kind="test-matrix")
    form: str = form_option()

    def random_block(self, moments: Moments, i: int, context: Context) -> Array:
        """Ω for the components of Xᵢ."""
        A = moments.operators[i]
        Omega = self.test_matrix.draw(A.shape[1], min(self.rank + OVERSAMPLING, A.shape[1]), context.rng)
        return A.device.blocks.asarray(Omega)

    def begun(self, moments: Moments, context: Context) -> tuple[PrincipalComponents, Array]:
        """The components of A, and AᵀB."""
        unit = moments.device.eye(moments.widths[1])
        (Y, _), (AtB, _) = moments.products(self.random_block(moments, 0, context), unit)
        return PrincipalComponents.of(Y, moments.gram_product, self.rank), AtB


@dataclass(frozen=True, kw_only=True)
class PrincipalComponentRegression(OnComponents):
    """Ridge regression on the leading principal components (Lu 2015, chapter 2)."""

    def iterate(
        self, problem: ls.LeastSquares, moments: Moments, context: Context, start: Any
    ) -> Iterator[Iterate]:
        """Yield the answer."""
        moments.expect(2, self.rank, self.form)
        leading, AtB = self.begun(moments, context)
        UtB, d = to_host(leading.Z.T @ AtB), leading.d[:, None]  # (1)
        x = leading.V @ moments.device.asarray(
            np.hstack([d / (d**2 + r) * UtB for r in problem.ridges])
        )  # (2)
        context.note(Status.APPROXIMATE, f"Regressed on {len(d)} principal components; raise rank for more.")
        yield Iterate(math.nan, partial(dict, x=x), final=True)
