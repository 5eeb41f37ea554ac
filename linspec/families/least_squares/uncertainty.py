"""Detection of coefficients that a small gradient does not determine.

Problem: the gradient of x is g = AᵀB − (AᵀA + r) x, so its error is e = (AᵀA + r)⁻¹ g. Along directions with a short
image under A, a gradient within the tolerance permits a large error.
Method: a ridge bounds e by ‖g‖/r. Otherwise, whatever the solver knows of itself:
1. With a held Gram matrix, or with few columns, whose Gram matrix takes one more sweep, e is computed. Directions that
   are too short for the Gram matrix are multiplied by A itself, which separates them from null directions.
2. With more columns, e is computed by conjugate gradients beside planted columns (planted_columns.py), with g from the
   residuals of the rows.
3. If the Gram matrix loses the digits, or planted columns leave directions open, and rows can be taken: by conjugate
   gradients with the preconditioner P = V (Σ² + r)⁻¹ Vᵀ, from a sketch S A D⁻¹ = U Σ Vᵀ of 4p rows with the columns
   scaled to one length, for any condition number (Rokhlin & Tygert 2008, doi:10.1073/pnas.0804869105). P times the
   remaining g estimates the remaining e from above: most often no step is needed.
Where we differ: the smallest Ritz value of the solver's own iteration is not asked. A short run has not met the short
directions, and its Ritz values do not know of them.
If a solver passes the rank of A, which it has decomposed, a gradient is ignored below eps ‖A‖ (‖A‖‖x‖ + ‖b‖), that of a
backward stable answer. In 3, e is ignored if ‖A e‖ is no more than the rounding of x leaves in A x: then the data do
not determine x any better. Directions that are rounding of narrower entries than float64 are reported: the solution of
least norm for the rounded data has a part along them.
"""

from __future__ import annotations

import numpy as np

from linspec.algebra.small_matrices import rank_cut
from linspec.algebra.whitener import has_short_directions
from linspec.arrays import Array, HostArray, reciprocal, to_host
from linspec.families.least_squares.planted_columns import errors_beside_planted_columns
from linspec.moments.moments import Moments
from linspec.solving.conclusion import Terms
from linspec.status import Status

UNCERTAIN = 0.01
"""Relative errors of coefficients above this are reported."""

ROUNDING = 20
"""A gradient up to this multiple of eps ‖A‖ (‖A‖‖x‖ + ‖b‖) counts as rounding, with the machine epsilon of the data."""

HELD, SWEPT = 1024, 512
"""Largest numbers of columns for which the Gram matrix is factored. HELD applies if the Gram matrix is in memory, and
SWEPT if a sweep must compute it."""

SQUARED_LIMIT = 1e10
"""Above this condition number of the scaled Gram matrix, the error that is computed from it is rounding."""

SKETCHED, OVERSAMPLED = 1536, 4
"""SKETCHED is the largest number p of columns for which a sketch is decomposed; this takes a second or two. OVERSAMPLED
is the number of rows of the sketch divided by p."""

MOST_ENTRIES = 2**28
"""Largest number n·p of entries, zeros included, for which very sparse data are sketched; it takes about a second.

Data with at least half of their entries stored are sketched whatever their size."""

SEED = 20080909
"""Seed of the sketch: the same answer gives the same verdict."""

ROUNDED_LENGTH = 0.25
"""Share of `rank_cut` above which a singular value of the sketch is none of a null direction: what a solver cuts just
below `rank_cut` may be a direction of the data."""

STEPS = 8
"""Number of conjugate gradient steps with the sketch."""

PLANTED_STEPS, BEFORE_SKETCH = 100, 20
"""Number of steps beside planted columns that are made in any case. There may be four times the passes of the solver,
and where a sketch can follow as many as the solver made."""

REMEDY = 'Lower tol, add a ridge, or choose "direct" or "sketch-precondition".'

Findings = tuple[tuple[Status, str], ...]


def rounding_of_gradients(moments: Moments, x: Array) -> HostArray:
    """ROUNDING eps ‖A‖ (‖A‖‖x‖ + ‖B‖): what rounding leaves in the gradient of a backward stable solution.

    It is 0 where the lengths of the columns of A are not known.
    """
    home, diagonals = moments.home, moments.columns.known_diagonals()
    if diagonals is None:
        return np.zeros(x.shape[1])
    a, b = (float(to_host(home.xp.sum(d))) ** 0.5 for d in diagonals)
    left: HostArray = ROUNDING * _eps(moments) * a * (a * home.column_norms(x) + b)
    return left


def uncertain(
    moments: Moments, gap: Array, x: Array, ridges: HostArray, judged: HostArray, terms: Terms
) -> Findings:
    """Return a finding if the coefficients are uncertain although the gradient is small.

    Parameters
    ----------
    moments : Moments
        The moments of A and B.
    gap, x : arrays of shape (p, w)
        The gradients AᵀB − (AᵀA + ridge) x, and the coefficients x.
    ridges : numpy.ndarray of shape (w,)
        The ridge of each column.
    judged : numpy.ndarray of bool, shape (w,)
        The columns whose gradient is small, and which are to be judged.
    terms : Terms
    """
    home, p = moments.home, gap.shape[0]
    # AᵀA + r has no eigenvalue below r.
    judged = judged & (home.column_norms(gap) > UNCERTAIN * ridges * home.column_norms(x))
    cost = moments.view(0).cost.sweep
    if not judged.any():
        return ()
    if p <= HELD if cost == 0 else p <= SWEPT and terms.passes_left >= cost:
        return _by_factor(moments, gap, x, ridges, judged, terms)
    return _by_rows(moments, gap, x, ridges, judged, terms)


def _by_factor(
    moments: Moments, gap: Array, x: Array, ridges: HostArray, judged: HostArray, terms: Terms
) -> Findings:
    """Compute the error from a factor of the Gram matrix, and return a finding if it is large."""
    view, worst, sizes = moments.view(0), 0.0, moments.home.column_norms(x)
    for ridge in np.unique(ridges[judged]).tolist():
        columns = np.flatnonzero(judged & (ridges == ridge))
        factor = view.whitener(0, ridge)
        g = gap[:, int(columns[0]) : int(columns[-1]) + 1]
        errors = moments.home.column_norms(factor.solve_adjoint(factor.solve(g)))
        shares = _quotient(errors[columns - columns[0]], sizes[columns])
        worst = max(worst, float(shares.max()))
        # Directions that were cut may be short, or rounding of narrow entries: the rows tell.
        narrow = ridge == 0 and moments.X.rounded_dtype != np.float64 and _can_sketch(moments)
        short = factor.condition > SQUARED_LIMIT or (
            factor.cut is not None
            and (narrow or terms.passes_left < 1 or has_short_directions(view, 0, factor))
        )
        if short:
            return _by_rows(moments, gap, x, ridges, judged, terms, made=1.0)
    return _finding(worst, "The gradient leaves the coefficients off by about")


def _by_rows(
    moments: Moments,
    gap: Array,
    x: Array,
    ridges: HostArray,
    judged: HostArray,
    terms: Terms,
    made: float = 0.0,
) -> Findings:
    """Compute the error for the ridge of the worst column without a Gram matrix, and return a finding if it is large.

    `made` passes of the check have been made already.
    """
    home, m = moments.home, moments.shape[2]
    moments = moments.from_rows()
    left, sketched = terms.passes_left - made, _can_sketch(moments)
    if left < (2 if sketched else 5):
        text = "To tell whether the coefficients are right takes more passes than are left. Raise max_passes, or pass "
        text += "data that can be read again."
        return ((Status.ILL_CONDITIONED, text),)
    worst = np.where(judged, _quotient(home.column_norms(gap), home.column_norms(x)), 0.0)
    first = int(np.argmax(worst)) // m * m
    ridge, x, judged = float(ridges[first]), x[:, first : first + m], judged[first : first + m]
    g, sizes = -moments.gradient(x, ridge), home.column_norms(x)
    large = np.where(judged, UNCERTAIN * sizes, np.inf)
    settled, hidden = False, 0
    if not sketched or (x.shape[0] > SWEPT and left >= 5):
        steps = max(BEFORE_SKETCH, terms.passes) if sketched else max(PLANTED_STEPS, 4 * terms.passes)
        steps = int(min(steps, left - 4))
        errors, settled = errors_beside_planted_columns(moments, ridge, x, g, large, steps)
        left -= steps + 3
    if sketched and not settled and left >= 2:
        errors, hidden = _by_sketch(moments, x, ridge, g, large, int(min(STEPS, left - 2)))
    shares = np.where(judged, _quotient(errors, sizes), 0.0)
    found = _finding(float(shares.max(initial=0.0)), "The gradient leaves the coefficients off by about")
    return found or _deficient(hidden, x.shape[0])


def _can_sketch(moments: Moments) -> bool:
    """Whether rows can be taken, and a sketch of them is decomposed in a second or two."""
    n, p = moments.shape[:2]
    swept = all(moments.matrix(i).access == "rows" for i in (0, 1))
    quick = n * p <= max(MOST_ENTRIES, 2 * moments.X.nnz)  # sparse rows become dense in blocks
    return swept and quick and p <= min(n, SKETCHED)


def _by_sketch(
    moments: Moments, x: Array, ridge: float, g: Array, large: HostArray, steps: int
) -> tuple[HostArray, int]:
    """Return ‖e‖ of each column, or an estimate from above, by a sketch of A; 0 where A e is rounding of A x.

    The number counts directions that rounding of the entries may have made, but not that of their products.
    """
    home, (n, p, _) = moments.home, moments.shape
    SA = to_host(moments.sketch(OVERSAMPLED * p, SEED)[0])
    lengths = np.sqrt(np.sum(SA**2, axis=0) + ridge)
    scale = reciprocal(lengths)[:, None]
    R = np.linalg.qr(np.vstack([SA, np.sqrt(ridge) * np.eye(p)]) * scale.T, mode="r")
    _, s, Vt = np.linalg.svd(R)
    kept = (s > ROUNDED_LENGTH * rank_cut((n, p), moments.X.rounded_dtype) * s[0]) | (ridge > 0)
    hidden = ~kept & (s > rank_cut((n, p), np.float64) * s[0])
    N = home.place(scale * Vt.T * _quotient(kept.astype(np.float64), s))
    images = home.column_norms(N.T @ g)
    rounded = images <= 2 * _eps(moments) * home.column_norms(x * home.place(lengths)[:, None])
    large = np.where(rounded, np.inf, large)
    errors, left = _solved(moments, ridge, N, g, large, steps)
    return np.where(rounded, 0.0, errors + left), int(hidden.sum())


def _solved(
    moments: Moments, ridge: float, N: Array, g: Array, large: HostArray, steps: int
) -> tuple[HostArray, HostArray]:
    """Solve (AᵀA + ridge) e = g by conjugate gradients, and return for each column ‖e‖ and the length of its error.

    The preconditioner is N Nᵀ ≈ (AᵀA + ridge)⁻¹. The error of e is estimated as N Nᵀ times the remaining g. The
    iteration ends after `steps` steps, or when it is clear for each column whether ‖e‖ is above its limit in `large`.
    """
    home, xp = moments.home, moments.home.xp
    e, z = 0.0 * g, N @ (N.T @ g)
    d, gz = z, xp.sum(g * z, axis=0)
    for made in range(steps + 1):
        errors, left = home.column_norms(e), home.column_norms(z)
        small = errors + left <= large
        if made == steps or (small | ((errors > large) & (2 * left <= errors))).all():
            break
        Sd = (
            moments.products(d, onto=(0,))[0] + ridge * d
        )  # by the rows, even if view 0 holds its Gram matrix
        length = gz * reciprocal(xp.sum(d * Sd, axis=0))
        e, g = e + d * length, g - Sd * length
        z = N @ (N.T @ g)
        before, gz = gz, xp.sum(g * z, axis=0)
        d = z + d * (gz * reciprocal(before))
    return errors, left


def _eps(moments: Moments) -> float:
    return float(np.finfo(moments.X.dtype).eps)


def _quotient(a: HostArray, b: HostArray) -> HostArray:
    with np.errstate(over="ignore"):
        found: HostArray = np.divide(a, b, out=np.zeros_like(a), where=b > 0)
    return found


def _deficient(hidden: int, p: int) -> Findings:
    """Return a finding if the entries are too narrow for some directions."""
    if not hidden:
        return ()
    text = f"A has numerical rank {p - hidden} of {p} columns: its entries have no digits for more. "
    return ((Status.RANK_DEFICIENT, text + "Pass more precise data in float64, or add a ridge."),)


def _finding(share: float, text: str) -> Findings:
    if not share > UNCERTAIN:
        return ()
    return ((Status.ILL_CONDITIONED, f"{text} {min(share, 1.0):.0%} of their length. {REMEDY}"),)
