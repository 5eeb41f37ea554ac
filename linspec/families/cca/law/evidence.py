"""Facts that the law uses in addition to the weights: from the solver, and from one product with more columns.

Problem: the law of CCA uses the norms of the inverse Gram matrices, and these are rarely known.
Method: a Gram matrix that is held dense, or is diagonal before centring, is factored. If a view has few
columns, its Gram matrix is multiplied by the identity, which gives the matrix itself. Otherwise it is multiplied by
random signs. This product gives a preconditioner that replaces the Gram matrix (`linspec.algebra.preconditioner`).
These columns, called probes, are appended to a product that is made anyway.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec import cost
from linspec.algebra.inverse_norm import FactorNorm, InverseNorm, QuadratureNorm, SketchNorm
from linspec.algebra.preconditioner import preconditioner_from_sketch, raised_diagonal
from linspec.algebra.whitener import Whitener, squared_cut
from linspec.arrays import Array, HostArray
from linspec.solving.solution import Status

SKETCH = 50
"""A preconditioner is computed from k + SKETCH random columns."""

SECOND = 10
"""Number of random columns in the search for missing pairs."""

CERTIFICATE = 0.1
"""Columns that a certificate may multiply, as a fraction of the columns multiplied so far."""

MOMENT = 0.1
"""Seconds that a product for a certificate may take in any case."""

TRIPS = 3
"""The number of products with each column in a sweep: one forward, and one adjoint for each view."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Evidence:
    """Facts that sharpen the certificate; a solver passes what it knows: ``run.finish(…, evidence=Evidence(…))``.

    Parameters
    ----------
    norms : pair of InverseNorm, optional
        Norms of the inverses of the Gram matrices, ridges included.
    residuals : pair of arrays of shapes (p, k) and (q, k), optional
        C Ψ − SxΦ diag(ρ) and CᵀΦ − SyΨ diag(ρ) from the iteration. If the norms passed with them are not exact, S⁻¹
        times these residuals is multiplied in the sweep of the weights, for better estimates of loss and norm.
    short : float, optional
        The sum of the leading correlations when directions are included that the solver has cut as null, although
        they may be more than rounding.
    carried : float, optional
        The smallest correlation in the solver's block beyond the k-th; left-out correlations are at most this.
    resolution : float, optional
        The rounding error of one correlation, from solvers that compute all correlations, so that none is missed.
    expected_gain : float, default 0.0
        The relative growth of the sum of the correlations that is predicted from its last gains.
    doubts : tuple of (Status, str), default ()
        Observations of the solver that hint at a loss. They are reported if the norms are not exact, because such
        norms may not reveal the loss.

    Examples
    --------
    >>> from linspec.families.cca import Evidence
    >>> known = Evidence(carried=0.25)  # by a solver whose block has one column more than k
    >>> known.carried, known.norms, known.doubts
    (0.25, None, ())
    """

    norms: tuple[InverseNorm, InverseNorm] | None = None
    residuals: tuple[Array, Array] | None = None
    short: float | None = None
    carried: float | None = None
    resolution: float | None = None
    expected_gain: float = 0.0
    doubts: tuple[tuple[Status, str], ...] = ()


NO_EVIDENCE = Evidence()


@dataclass(frozen=True, eq=False)
class Probe:
    """Columns of one view that are appended to a product.

    Attributes
    ----------
    block : array of shape (p, m)
    whole : bool
        Whether the block is the identity.
    """

    block: Array
    whole: bool


def probes(problem: Any, moments: Any, *, known: bool = False) -> list[Probe]:
    """Choose blocks to append to a product that is made anyway; `inverse_norms` computes norms from their products.

    For each view the identity if it has few columns, otherwise random signs; no columns for factored Gram matrices.
    Columns are few if their number is at most that of the random columns or a tenth of the columns multiplied so far,
    or if their product takes a fraction of a second.

    Parameters
    ----------
    problem : CCA
    moments : Moments
        The moments of its views.
    known : bool, default False
        Whether norms of both Gram matrices and the gap are known. Then a few random columns are enough, which only
        search for missing pairs.

    Returns
    -------
    list of Probe
        One for each view: `block`, an array of shape (p, m), and `whole`, whether it is the identity.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.families.cca import probes
    >>> X, Y = np.eye(5)[:, :3], np.eye(5)[:, 2:4]
    >>> problem = ls.CCA(X, Y, k=1)
    >>> sent = probes(problem, ls.Moments(problem.X, problem.Y, form="implicit"))
    >>> [(probe.block.shape, probe.whole) for probe in sent]
    [((3, 3), True), ((2, 2), True)]
    """
    found = []
    for i, A in enumerate((problem.X, problem.Y)):
        p, home = A.shape[1], moments.home
        if moments.direct.factored(i):
            found.append(Probe(home.zeros((p, 0)), whole=False))
            continue
        sketch = SECOND if known else problem.k + SKETCH
        allowed = max(2 * problem.k + SKETCH, int(CERTIFICATE * moments.bookkeeping.columns_made(i) / TRIPS))
        rate = cost.SPARSE_RATE if A.nnz < A.shape[0] * p else cost.DENSE_RATE
        if p <= allowed or 2.0 * A.nnz * TRIPS * p < MOMENT * rate:
            found.append(Probe(home.eye(p), whole=True))
        else:
            found.append(Probe(home.place(random_signs(p, sketch, i)), whole=False))
    return found


def random_signs(rows: int, columns: int, seed: int) -> HostArray:
    """Random signs, the same at every call with the same seed.

    Parameters
    ----------
    rows, columns : int
    seed : int
        The two views use the seeds 0 and 1.

    Returns
    -------
    numpy.ndarray of shape (rows, columns)
        Entries −1.0 and 1.0.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.families.cca import random_signs
    >>> signs = random_signs(4, 2, seed=0)
    >>> bool(np.all(abs(signs) == 1)), bool(np.all(signs == random_signs(4, 2, seed=0)))
    (True, True)
    """
    drawn: HostArray = np.random.default_rng(seed).integers(0, 2, (rows, columns)) * 2.0 - 1.0
    return drawn


def inverse_norms(
    problem: Any, moments: Any, sent: list[Probe], products: list[Array], *, judging: bool
) -> tuple[InverseNorm, InverseNorm]:
    """Compute norms of the inverses of both Gram matrices, for `Evidence` or for an iteration.

    Parameters
    ----------
    problem : CCA
    moments : Moments
        The moments of its views.
    sent : list of Probe
        The result of `probes`.
    products : list of arrays of shapes (p, m) and (q, l)
        The product of each probe's block with its Gram matrix, ridge included.
    judging : bool
        Whether an iteration may solve with a held sparse Gram matrix: True for a certificate, False inside a loop.

    Returns
    -------
    InverseNorm, InverseNorm
        Exact for factored Gram matrices and for probes that are the identity.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.families.cca import inverse_norms, probes
    >>> X, Y = np.diag([2.0, 1.0, 0.0])[:, :2], np.eye(3)[:, :1]
    >>> problem = ls.CCA(X, Y, k=1, center=False)
    >>> moments = ls.Moments(problem.X, problem.Y, center=False, form="implicit")
    >>> sent = probes(problem, moments)
    >>> Sx, _, _, Sy = moments.products(*(probe.block for probe in sent))
    >>> x, y = inverse_norms(problem, moments, sent, [Sx, Sy], judging=False)
    >>> x.kind, x.squares(np.array([[2.0], [3.0]])).round(12)  # 2²/4 + 3²/1
    ('exact', array([10.]))
    """
    home = moments.home
    found: list[InverseNorm] = []
    diagonals = None
    for i, (A, ridge) in enumerate(zip((problem.X, problem.Y), problem.ridge, strict=True)):
        if moments.direct.factored(i):
            found.append(FactorNorm(moments.whitener(i, ridge), home))
            continue
        probe, SOmega = sent[i], products[i]
        if probe.whole:
            S = moments.direct.gram_by_identity(i, SOmega - probe.block * ridge)
            noise = A.shape[1] * moments.precision.rounding  # products may be in float32
            found.append(FactorNorm(Whitener(S, ridge, max(squared_cut(A), noise), home, noise), home))
            continue
        diagonals = moments.diagonal() if diagonals is None else diagonals
        d = diagonals[i]
        if not moments.columns.exact:
            d = raised_diagonal(probe.block, SOmega, ridge, home)
        P = preconditioner_from_sketch(probe.block, SOmega, ridge, d, None, home)
        if moments.form == "sparse" and judging:
            found.append(QuadratureNorm(_multiplied(moments, i, ridge), P, ridge, home))
        else:
            found.append(SketchNorm(P, ridge, home))
    return found[0], found[1]


def _multiplied(moments: Any, index: int, ridge: float) -> Any:
    """The map V ↦ SV + ridge V for a held Gram matrix S."""
    alone = moments.view(index)

    def multiply(V: Array) -> Array:
        return alone.products(V)[0] + V * ridge

    return multiply
