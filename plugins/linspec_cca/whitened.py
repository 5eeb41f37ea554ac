"""CCA of rows with one entry: exact whitening by a scaling, and an iterative SVD of the sparse whitened cross matrix.

Problem: the leading singular values of T = Sx^(-1/2) C Sy^(-1/2), for one-hot rows with many columns: words and next
words, users and items. Dense Gram matrices do not fit, although Sx and Sy are nearly diagonal.
Method: no row has two entries, so XᵀX is diagonal, and what centring subtracts from it has rank one. C is sparse, minus
rank one. With the inverse roots of both (`linspec.certificates.metric`, formula (2))

    Sx⁻¹ = Nx Nxᵀ,  Sy⁻¹ = Ny Nyᵀ,  T = Nxᵀ C Ny        (1)
    T = U diag(ρ) Vᵀ,  Φ = Nx U,  Ψ = Ny V              (2)

no whitening needs a factorisation. Any SVD solver that needs products alone finds the triplets; the default finds all
copies of repeated correlations.
Source: Lu 2015 (thesis), section 3.3.1, for diagonal whitening; the inverse root of a diagonal matrix less few columns
follows from the thin SVD of these (Golub & Van Loan 2013, section 2.4).
Where we differ: the ridge, the means and confounds are part of the whitening, so the answer is that of CCA, where
"d-cca" and "dw-cca" approximate it. One triplet more than requested shows the gap after the last. Views that have rows
with several entries, or few columns, are solved as "gram" solves them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

import linspec as ls
from linspec import SVD, part, tol_option
from linspec.certificates import NearDiagonal, norms_of_held
from linspec.cost import DENSE_RATE, PAIR_RATE, SPARSE_RATE, Estimate, Sizes
from linspec.iteration import Context, Iterate
from linspec.linalg import tall_svd
from linspec.rows import Moments, Passes
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

    def iterate(self, problem: ls.CCA, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the answer."""
        wide = max(moments.widths) > FEWEST_COLUMNS
        C = moments.gram(sparse=wide)[0][1]
        metrics = norms_of_held(moments, problem.ridge) if wide else None
        if metrics is None or not all(isinstance(metric, NearDiagonal) for metric in metrics):
            yield from super().iterate(problem, moments, context, start)
            return
        moments.metrics, (x, y) = metrics, metrics
        T = LinearOperator(
            C.shape,
            matvec=lambda v: x.dual(C @ y.lift(v)),
            matmat=lambda V: x.dual(C @ y.lift(V)),  # (1)
            rmatmat=lambda U: y.dual(C.T @ x.lift(U)),
            dtype=np.dtype(np.float64),
        )
        svd = self.svd
        if getattr(svd, "block", NARROW) is None:
            svd = replace(svd, block=NARROW)
        sharp = Context(min(SHARP, context.tol), context.rng, Passes(until=context.passes.until))
        alone = Moments.of_products({"the whitened cross matrix": T}, sharp.passes)
        k, wanted = problem.k, min(problem.k + 1, *T.shape)  # one more, for the gap after the k-th
        V = svd.answered(SVD(T, wanted), alone, sharp)["Vh"].T
        U, rho, turn = tall_svd(T.matmat(V))
        W = {"x_weights": x.lift(U[:, :k]), "y_weights": y.lift((V @ turn)[:, :k])}  # (2)
        yield Iterate(0.0, lambda: {**W, "correlations": rho[:k], "next": rho[k:]}, final=True)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of the cross matrix, products with it, and the algebra between them; None for other data."""
        if not (sizes.one_entry and max(sizes.p, sizes.q) > FEWEST_COLUMNS):
            return None
        pairs = float(sizes.pairs or 0)
        rows = float(sizes.p + sizes.q)
        columns = min(BASIS[0] * (sizes.k + 1) + BASIS[1], sizes.p, sizes.q)
        seconds = pairs / PAIR_RATE + 4.0 * columns * (pairs / SPARSE_RATE + rows * columns / DENSE_RATE)
        return Estimate(seconds, 16.0 * pairs + 40.0 * rows * columns, "columns times a sparse matrix")
