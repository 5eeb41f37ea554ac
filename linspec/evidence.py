"""What a solver of CCA knows beside its answer, and what one product with a few more columns tells of the views.

Problem: the law of CCA is in the norm of the inverses of the Gram matrices, and these are rarely at hand.
Method: where a Gram matrix is held dense, its factor. Where a view has few columns, they are multiplied by the
identity, which gives the Gram matrix itself. Otherwise they are multiplied by random signs, from whose product a
preconditioner is made that stands for the Gram matrix (`linspec.preconditioner`). The columns ride in a product that is
made anyway.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec import cost
from linspec.arrays import Array, HostArray
from linspec.inverse_norm import FactorNorm, InverseNorm, QuadratureNorm, SketchNorm
from linspec.preconditioner import from_sketch, raised_diagonal
from linspec.solution import Status
from linspec.whitener import Whitener, squared_cut

SKETCH = 50
"""Random columns beyond k from which a preconditioner is made."""

CERTIFICATE = 0.1
"""Share of the columns multiplied so far that a certificate may multiply."""

MOMENT = 0.1
"""Seconds for which nobody waits."""

TRIPS = 3
"""Products with a column that its sweep makes: forward, and back onto both views."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Evidence:
    """What helps to judge an answer; solvers hand over what they have.

    Attributes
    ----------
    norms : pair of InverseNorm or None
        Norms of the inverses of the Gram matrices, ridges included.
    residuals : pair of arrays of shapes (p, k) and (q, k), or None
        C Ψ − SxΦ diag(ρ) and CᵀΦ − SyΨ diag(ρ) as the iteration has them. Where they are given with norms that are not
        exact, S⁻¹ times them is multiplied beside the weights, and tells loss and norm better.
    short : float or None
        The sum of the leading correlations with directions that the solver has cut as null although rounding may not be
        all of their length.
    carried : float or None
        The least correlation that the solver carries beyond the k-th: those that it leaves out are not above it.
    resolution : float or None
        For solvers that compute all correlations: the error by rounding of one. It shows that none is missed.
    to_come : float
        By so much of itself the sum of the correlations is expected to grow still, as its last gains have it.
    doubts : tuple of (Status, str)
        What the solver has met that may hide a loss: said where the norms are not exact, and cannot tell by themselves.
    complete : bool
        Whether completeness is to be shown by the inertia of [τSx −C; −Cᵀ τSy].
    """

    norms: tuple[InverseNorm, InverseNorm] | None = None
    residuals: tuple[Array, Array] | None = None
    short: float | None = None
    carried: float | None = None
    resolution: float | None = None
    to_come: float = 0.0
    doubts: tuple[tuple[Status, str], ...] = ()
    complete: bool = False


NO_EVIDENCE = Evidence()


@dataclass(frozen=True, eq=False)
class Rider:
    """Columns of one view that ride in a product.

    Attributes
    ----------
    block : array of shape (p, m)
    whole : bool
        Whether it is the identity.
    """

    block: Array
    whole: bool


def riders(problem: Any, moments: Any) -> list[Rider]:
    """For each view the identity where it has few columns, or random signs; nothing where Gram matrices are dense.

    Few are as many as the random columns, or a tenth of what has been multiplied so far, or so many that the product
    takes a fraction of a second.
    """
    found = []
    for i, A in enumerate((problem.X, problem.Y)):
        p, home = A.shape[1], moments.home
        if moments.form == "dense":
            found.append(Rider(home.zeros((p, 0)), whole=False))
            continue
        sketch = problem.k + SKETCH
        allowed = max(problem.k + sketch, int(CERTIFICATE * moments.columns_made(i) / TRIPS))
        rate = cost.SPARSE_RATE if A.nnz < A.shape[0] * p else cost.DENSE_RATE
        if p <= allowed or 2.0 * A.nnz * TRIPS * p < MOMENT * rate:
            found.append(Rider(home.eye(p), whole=True))
        else:
            found.append(Rider(home.place(signs(p, sketch, i)), whole=False))
    return found


def signs(rows: int, columns: int, seed: int) -> HostArray:
    """Random signs, the same ones at every call."""
    drawn: HostArray = np.random.default_rng(seed).integers(0, 2, (rows, columns)) * 2.0 - 1.0
    return drawn


def norms_by(
    problem: Any, moments: Any, sent: list[Rider], products: list[Array], *, judging: bool
) -> tuple[InverseNorm, InverseNorm]:
    """Norms of the inverses of both Gram matrices.

    Parameters
    ----------
    problem : CCA
    moments : Moments
    sent : list of Rider
    products : list of arrays
        Of each rider with its Gram matrix, the ridge included.
    judging : bool
        Whether a held sparse Gram matrix is worth iterations of its own, as it is in a certificate and not in a loop.
    """
    home = moments.home
    found: list[InverseNorm] = []
    diagonals = None
    for i, (A, ridge) in enumerate(zip((problem.X, problem.Y), problem.ridge, strict=True)):
        if moments.form == "dense":
            found.append(FactorNorm(moments.whitener(i, ridge), home))
            continue
        rider, SOmega = sent[i], products[i]
        if rider.whole:
            S = moments.gram_by_identity(i, SOmega - rider.block * ridge)
            noise = A.shape[1] * moments.rounding  # of products in float32
            found.append(FactorNorm(Whitener(S, ridge, max(squared_cut(A), noise), home, noise), home))
            continue
        diagonals = moments.diagonal() if diagonals is None else diagonals
        d = diagonals[i]
        if not moments.exact_diagonal:
            d = raised_diagonal(rider.block, SOmega, ridge, home)
        P = from_sketch(rider.block, SOmega, ridge, d, None, home)
        if moments.form == "sparse" and judging:
            found.append(QuadratureNorm(_multiplied(moments, i, ridge), P, ridge, home))
        else:
            found.append(SketchNorm(P, ridge, home))
    return found[0], found[1]


def _multiplied(moments: Any, index: int, ridge: float) -> Any:
    """V ↦ SV + ridge V on a Gram matrix that is held."""
    alone = moments.view(index)

    def multiply(V: Array) -> Array:
        return alone.products(V)[0] + V * ridge

    return multiply
