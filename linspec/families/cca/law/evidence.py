"""The facts that a solver of CCA knows beside its answer, and those that one product with more columns shows.

Problem: the law of CCA uses the norm of the inverses of the Gram matrices, and these are rarely known.
Method: a Gram matrix that is held dense, or is diagonal but for what centring subtracts, is factored. If a view has few
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
from linspec.algebra.preconditioner import preconditioner_from_sketch, raised_diagonal
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
    """Facts that help to judge an answer. Solvers pass those that they have: ``run.finish(…, evidence=Evidence(…))``.

    Parameters
    ----------
    norms : pair of InverseNorm, optional
        Norms of the inverses of the Gram matrices, ridges included.
    residuals : pair of arrays of shapes (p, k) and (q, k), optional
        C Ψ − SxΦ diag(ρ) and CᵀΦ − SyΨ diag(ρ) from the iteration. If the norms given with them are not exact, S⁻¹
        times these residuals is multiplied beside the weights, and gives better values of loss and norm.
    short : float, optional
        The sum of the leading correlations if directions are included that the solver has cut as null although they
        may be more than rounding.
    carried : float, optional
        The least correlation that the solver carries beyond the k-th. Those that it leaves out are not above it.
    resolution : float, optional
        For solvers that compute all correlations: the rounding error of one correlation. It shows that none is missed.
    expected_gain : float, default 0.0
        The relative growth of the sum of the correlations that its last gains still predict.
    doubts : tuple of (Status, str), default ()
        Observations of the solver that may hide a loss. They are reported if the norms are not exact, because such
        norms cannot show the loss themselves.
    complete : bool, default False
        Whether the inertia of [τSx −C; −Cᵀ τSy] is computed to show completeness.

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
    """Blocks that are multiplied beside a product that is made anyway: `inverse_norms` makes norms of the products.

    For each view the identity if it has few columns, otherwise random signs; no columns for factored Gram matrices.
    Columns are few if they are at most as many as the random columns, or a tenth of the columns multiplied so far, or
    if their product takes a fraction of a second.

    Parameters
    ----------
    problem : CCA
    moments : Moments
        Of its views.
    known : bool, default False
        Whether norms of both Gram matrices and the gap are known. Then a few random columns are enough: they only look
        for pairs that are missing.

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
    """Random signs, the same ones at every call.

    Parameters
    ----------
    rows, columns : int
    seed : int
        Another seed draws other signs: views have their numbers, 0 and 1.

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
    """Norms of the inverses of both Gram matrices, for `Evidence` or for a loop of one's own.

    Parameters
    ----------
    problem : CCA
    moments : Moments
        Of its views.
    sent : list of Probe
        As `probes` made them.
    products : list of arrays of shapes (p, m) and (q, l)
        The product of each probe's block with its Gram matrix, ridge included.
    judging : bool
        Whether a held sparse Gram matrix gets iterations of its own: in a certificate yes, in a loop no.

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
        P = preconditioner_from_sketch(probe.block, SOmega, ridge, d, None, home)
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
