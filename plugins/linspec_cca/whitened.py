"""CCA of rows with one entry: exact whitening by a scaling, and an iterative SVD of the sparse whitened cross matrix.

Problem: the leading singular values of Sx^(-1/2) C Sy^(-1/2), for one-hot rows with many columns: words and next words,
users and items. Dense Gram matrices do not fit, although Sx and Sy are diagonal.
Method: no row has two entries, so XᵀX is diagonal, and what centring subtracts from it has rank one. The inverse square
root of both together is known (`linspec.algebra.whitener.DiagonalWhitener`): it is the one whitening here that needs no
factorisation. C is sparse. Any SVD solver that needs products alone finds the triplets; the default finds all copies of
repeated correlations.
Source: Lu 2015 (thesis), section 3.3.1, for diagonal whitening; the inverse square root of a diagonal matrix less few
columns follows from the thin SVD of these (Golub & Van Loan 2013, section 2.4).
Where we differ: the ridge, the means and confounds are part of the whitening, so the answer is that of CCA, where
"d-cca" and "dw-cca" approximate it. One triplet more than requested shows the gap after the last. Views that have rows
with several entries, or few columns, are solved as "gram" solves them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from linspec import SVD, LinearOperator, Moments, Run, Solution, part, tol_option
from linspec.algebra import DiagonalWhitener
from linspec.arrays import Array
from linspec.cost import DENSE_RATE, PAIR_RATE, SPARSE_RATE, Estimate, Sizes
from linspec.families.cca import Evidence
from linspec.linalg import tall_svd
from linspec_cca.gram import GramCCA

FEWEST_COLUMNS = 500
"""If no view has more columns, all correlations are computed, as by "gram": that takes a few tenths of a second."""

NARROW = 8
"""Columns of a block of the SVD, unless its option `block` is set: products are cheap, and narrow blocks need fewer
columns in all."""

BASIS = 5, 60
"""The expected number of columns that are multiplied is BASIS[0] for each pair, plus BASIS[1]."""

SHARP = 1e-6
"""Upper limit of the tolerance of the SVD, which is also at most the tolerance of CCA. The tolerance of the SVD limits
the lengths of residual vectors. If the (k + 1)-th correlation equals the k-th, the loss of CCA is of the order of these
lengths, otherwise of their squares."""


@dataclass(frozen=True, kw_only=True)
class WhitenedSVD(GramCCA):
    """SVD of the whitened cross matrix of rows with one entry (Lu 2015, section 3.3.1)."""

    svd: Any = part("block-krylov", "the solver that finds the singular triplets", problem="svd")
    tol: float | None = tol_option()

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a CCA problem."""
        sizes = problem.sizes()
        moments = run.moments("sparse" if _scales(sizes) else "dense")
        if moments.form != "sparse":
            return super().solve(problem, run)
        if not all(moments.direct.factored(i) for i in (0, 1)):
            return super().solve(problem, run)
        T = WhitenedCross(moments, problem.ridge)
        wanted = min(problem.k + 1, *T.shape)  # one more, for the gap after the k-th
        Vh = run.within(SVD(T, wanted), self._svd(run), None)["Vh"]
        V = moments.home.place(Vh).T
        U, rho, turn = tall_svd(T.matmat(V))
        V, k = V @ moments.home.place(turn), min(problem.k, len(rho))
        x, y = T.whiteners
        return run.finish(
            x_weights=x.solve_adjoint(U[:, :k]),
            y_weights=y.solve_adjoint(V[:, :k]),
            ranks=(x.rank, y.rank),
            evidence=Evidence(carried=float(min(rho[k], 1.0)) if len(rho) > k else None),
        )

    def _svd(self, run: Run) -> Any:
        """The SVD solver; unless set by the user, its tolerance follows from that of CCA, and its blocks are narrow."""
        svd = run.part(self.svd)
        own = {"tol": min(SHARP, run.tol), "block": NARROW}
        return replace(
            svd, **{name: value for name, value in own.items() if getattr(svd, name, value) is None}
        )

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of the cross matrix, products with it, and the algebra between them; None for other data."""
        if not _scales(sizes):
            return None
        entries = min(float(sizes.pairs or 0), float(sizes.p) * sizes.q)
        columns = min(BASIS[0] * (sizes.k + 1) + BASIS[1], sizes.p, sizes.q)
        rows = float(sizes.p + sizes.q)
        products, algebra = 4.0 * entries * columns, 4.0 * rows * columns**2
        seconds = sizes.pairs / PAIR_RATE + products / SPARSE_RATE + algebra / DENSE_RATE  # type: ignore[operator]
        held = 16.0 * entries + 8.0 * rows * (3 * columns + 8 * sizes.k)
        return Estimate(
            seconds, held, f"some {columns} columns times a sparse matrix of {entries:.2g} entries"
        )


def _scales(sizes: Sizes) -> bool:
    """Whether whitening is a scaling, and there are too many columns for a dense SVD."""
    return sizes.one_entry and max(sizes.p, sizes.q) > FEWEST_COLUMNS


class WhitenedCross(LinearOperator):
    """T = Fx⁻¹ C Fy⁻ᵀ for Sx = Fx Fxᵀ and Sy = Fy Fyᵀ, from Gram matrices that are held.

    The entries of C are scaled by the diagonals once. Centring and confounds subtract a product P Qᵀ of matrices with
    few columns; P and Q are kept separately.

    Parameters
    ----------
    moments : Moments
    ridges : pair of float

    Attributes
    ----------
    whiteners : list of DiagonalWhitener
        Fx and Fy.
    """

    dtype = np.dtype(np.float64)

    def __init__(self, moments: Moments, ridges: tuple[float, float]) -> None:
        self.home, self.shape = moments.home, (moments.shape[1], moments.shape[2])
        # Gram matrices that are factored and held sparse are diagonal, but for a few columns.
        x, y = (cast("DiagonalWhitener", moments.whitener(i, ridge)) for i, ridge in enumerate(ridges))
        self.whiteners = [x, y]
        self.scaled, self.P, self.Q = moments.direct.scaled_cross(x.root, y.root)

    def _matmat(self, V: Array) -> Array:
        x, y = self.whiteners
        V = y.stretched(V)
        return x.stretched(less(self.scaled.matmat(V), self.P, self.Q.T @ V))

    def _rmatmat(self, U: Array) -> Array:
        x, y = self.whiteners
        U = x.stretched(U)
        return y.stretched(less(self.scaled.rmatmat(U), self.Q, self.P.T @ U))


def less(product: Array, left: Array, right: Array) -> Array:
    """The product minus `left @ right`, where `left` may have no columns."""
    return product - left @ right if left.shape[1] else product
