"""The facts that a solver of CCA knows beside its answer, and those that one product with more columns shows.

Problem: the law of CCA uses the norm of the inverses of the Gram matrices, and these are rarely known.
Method: a Gram matrix that is held dense, or is diagonal but for what centring takes out, is factored. If a view has few
columns, its Gram matrix is multiplied by the identity, which gives the matrix itself. Otherwise it is multiplied by
random signs. This product gives a preconditioner that replaces the Gram matrix (`linspec.algebra.preconditioner`).
These columns, called probes, take part in a product that is made anyway.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec import cost
from linspec.algebra.inverse_norm import FactorNorm, InverseNorm, QuadratureNorm, SketchNorm
from linspec.algebra.preconditioner import from_sketch, raised_diagonal
from linspec.algebra.whitener import Whitener, squared_cut
from linspec.arrays import Array, HostArray
from linspec.solving.solution import Status

SKETCH = 50
"""A preconditioner is made from k and this many random columns."""

SECOND = 10
"""The random columns that look for missing pairs."""

CERTIFICATE = 0.1
"""A certificate may multiply this fraction of the columns multiplied so far."""

MOMENT = 0.1
"""Seconds that a certificate may always take."""

TRIPS = 3
"""The products with a column in a sweep: forward, and back onto both views."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Evidence:
    """Facts that help to judge an answer. Solvers pass those that they have.

    Attributes
    ----------
    norms : pair of InverseNorm or None
        Norms of the inverses of the Gram matrices, ridges included.
    residuals : pair of arrays of shapes (p, k) and (q, k), or None
        C Ψ − SxΦ diag(ρ) and CᵀΦ − SyΨ diag(ρ) from the iteration. If the norms given with them are not exact, S⁻¹
        times these residuals is multiplied beside the weights, and gives better values of loss and norm.
    short : float or None
        The sum of the leading correlations if directions are included that the solver has cut as null although they
        may be more than rounding.
    carried : float or None
        The least correlation that the solver carries beyond the k-th. Those that it leaves out are not above it.
    resolution : float or None
        For solvers that compute all correlations: the rounding error of one correlation. It shows that none is missed.
    expected_gain : float
        The relative growth of the sum of the correlations that its last gains still predict.
    doubts : tuple of (Status, str)
        Observations of the solver that may hide a loss. They are reported if the norms are not exact, because such
        norms cannot show the loss themselves.
    complete : bool
        Whether the inertia of [τSx −C; −Cᵀ τSy] is computed to show completeness.
    """

    norms: tuple[InverseNorm, InverseNorm] | None = None
    residuals: tuple[Array, Array] | None = None
    short: float | None = None
    carried: float | None = None
    resolution: float | None = None
    expected_gain: float = 0.0
    doubts: tuple[tuple[Status, str], ...] = ()
    complete: bool = False


NO_EVIDENCE = Evidence()


@dataclass(frozen=True, eq=False)
class Probe:
    """Columns of one view that are multiplied together with others.

    Attributes
    ----------
    block : array of shape (p, m)
    whole : bool
        Whether it is the identity.
    """

    block: Array
    whole: bool


def probes(problem: Any, moments: Any, *, known: bool = False) -> list[Probe]:
    """For each view the identity if it has few columns, otherwise random signs; nothing for factored Gram matrices.

    Columns are few if they are at most as many as the random columns, or a tenth of the columns multiplied so far, or
    if their product takes a fraction of a second. If norms of both Gram matrices and the gap are `known`, a few random
    columns are enough: they only look for pairs that are missing.
    """
    found = []
    for i, A in enumerate((problem.X, problem.Y)):
        p, home = A.shape[1], moments.home
        if moments.factored(i):
            found.append(Probe(home.zeros((p, 0)), whole=False))
            continue
        sketch = SECOND if known else problem.k + SKETCH
        allowed = max(2 * problem.k + SKETCH, int(CERTIFICATE * moments.columns_made(i) / TRIPS))
        rate = cost.SPARSE_RATE if A.nnz < A.shape[0] * p else cost.DENSE_RATE
        if p <= allowed or 2.0 * A.nnz * TRIPS * p < MOMENT * rate:
            found.append(Probe(home.eye(p), whole=True))
        else:
            found.append(Probe(home.place(random_signs(p, sketch, i)), whole=False))
    return found


def random_signs(rows: int, columns: int, seed: int) -> HostArray:
    """Random signs, the same ones at every call."""
    drawn: HostArray = np.random.default_rng(seed).integers(0, 2, (rows, columns)) * 2.0 - 1.0
    return drawn


def norms_by(
    problem: Any, moments: Any, sent: list[Probe], products: list[Array], *, judging: bool
) -> tuple[InverseNorm, InverseNorm]:
    """Norms of the inverses of both Gram matrices.

    Parameters
    ----------
    problem : CCA
    moments : Moments
    sent : list of Rider
    products : list of arrays
        The product of each probe with its Gram matrix, ridge included.
    judging : bool
        Whether a held sparse Gram matrix gets iterations of its own: in a certificate yes, in a loop no.
    """
    home = moments.home
    found: list[InverseNorm] = []
    diagonals = None
    for i, (A, ridge) in enumerate(zip((problem.X, problem.Y), problem.ridge, strict=True)):
        if moments.factored(i):
            found.append(FactorNorm(moments.whitener(i, ridge), home))
            continue
        probe, SOmega = sent[i], products[i]
        if probe.whole:
            S = moments.gram_by_identity(i, SOmega - probe.block * ridge)
            noise = A.shape[1] * moments.rounding  # of products in float32
            found.append(FactorNorm(Whitener(S, ridge, max(squared_cut(A), noise), home, noise), home))
            continue
        diagonals = moments.diagonal() if diagonals is None else diagonals
        d = diagonals[i]
        if not moments.columns.exact:
            d = raised_diagonal(probe.block, SOmega, ridge, home)
        P = from_sketch(probe.block, SOmega, ridge, d, None, home)
        if moments.form == "sparse" and judging:
            found.append(QuadratureNorm(_multiplied(moments, i, ridge), P, ridge, home))
        else:
            found.append(SketchNorm(P, ridge, home))
    return found[0], found[1]


def _multiplied(moments: Any, index: int, ridge: float) -> Any:
    """The map V ↦ SV + ridge V with a held Gram matrix."""
    alone = moments.view(index)

    def multiply(V: Array) -> Array:
        return alone.products(V)[0] + V * ridge

    return multiply
