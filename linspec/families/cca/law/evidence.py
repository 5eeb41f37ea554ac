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
from linspec.status import Status

SKETCH = 50
"""A preconditioner is computed from k + SKETCH random columns."""

SECOND = 10
"""Number of random columns in the search for missing pairs."""

CERTIFICATE = 0.1
"""The probe of a view is the identity if the view has at most this many columns, as a fraction of the columns that the
solver has multiplied by the view so far."""

MOMENT = 0.1
"""Number of seconds. If the product with the identity takes less, the identity is the probe, whatever the number of
columns."""

TRIPS = 3
"""The number of products with each column in a sweep: one forward, and one adjoint for each view."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Evidence:
    """Facts that sharpen the certificate; a solver passes what it knows: ``run.finish(…, evidence=Evidence(…))``.

    Parameters
    ----------
    norms : pair of InverseNorm, optional
        For each view the norm (ϱᵀS⁻¹ϱ)^(1/2) for its Gram matrix S, ridge included. The norm is exact if its `kind` is
        "exact"; otherwise it is an approximation, such as with a preconditioner in place of S.
    residuals : pair of arrays of shapes (p, k) and (q, k), optional
        C Ψ − SxΦ diag(ρ) and CᵀΦ − SyΨ diag(ρ) from the iteration. If the norms passed with them are not exact, S⁻¹
        times these residuals is multiplied in the sweep of the weights, for better estimates of loss and norm.
    short : float, optional
        The sum of the k leading correlations that is found if directions of X and Y are included that the solver has
        cut as null, but that may be more than rounding (see `linspec.moments.sum_with_short`).
    carried : float, optional
        The smallest correlation that the solver has computed beyond the k-th one, if its block carries more than k
        pairs; 0 if the problem has only k pairs. Correlations outside the block are assumed to be at most this.
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
    """Vectors that are multiplied by the Gram matrix of one view, in the same sweep as the weights.

    Attributes
    ----------
    block : array of shape (p, m)
        m vectors, with an entry for each column of the view. They are appended to the weights as further columns.
    whole : bool
        Whether the block is the identity.
    """

    block: Array
    whole: bool


def probes(problem: Any, moments: Any, *, known: bool = False) -> list[Probe]:
    """Choose for each view a block that is multiplied by its Gram matrix in a sweep that is made anyway.

    `inverse_norms` computes norms from the products. If `Moments` can factor the Gram matrix of a view without them,
    the block is empty, of shape (p, 0). If the view has few columns, the block is the identity, whose product is the
    Gram matrix. Otherwise the block consists of random signs. A view with p columns has few columns if p ≤ 2k + 50; or
    if p is at most a tenth of the columns multiplied so far; or if the product with the identity takes less than a
    tenth of a second.

    Parameters
    ----------
    problem : CCA
    moments : Moments
        The moments of its views.
    known : bool, default False
        Whether the solver knows the norms of both Gram matrices, and a bound on the correlations that it leaves out
        (`Evidence.carried`). Then the products are not needed for the norms, and 10 random columns are enough to search
        for missing pairs. Otherwise a block of random signs has k + 50 columns.

    Returns
    -------
    list of Probe
        One for X and one for Y.

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
    """Compute for each view the norm (ϱᵀS⁻¹ϱ)^(1/2), where S is its Gram matrix with the ridge.

    The norms measure residuals, in `Evidence` or in an iteration.

    Parameters
    ----------
    problem : CCA
    moments : Moments
        The moments of its views.
    sent : list of Probe
        The result of `probes`.
    products : list of two arrays
        For each view the product of S with the block of its probe, ridge included. Its shape is that of the block.
    judging : bool
        Affects only Gram matrices that are held sparse and have no factor. True: lengths are computed by conjugate
        gradients with S, which is more accurate but slower, for a certificate. False: a preconditioner replaces S,
        for the loop of an iteration.

    Returns
    -------
    InverseNorm, InverseNorm
        A norm is exact if the Gram matrix is factored or the probe is the identity.

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
            noise = A.shape[1] * moments.rounding  # products may be in float32
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
