"""Detection of coefficients that a small gradient does not determine.

Problem: the gradient of x is g = AᵀB − (AᵀA + r) x, so its error is e = (AᵀA + r)⁻¹ g. Along directions with a short
image under A, a gradient within the tolerance permits a large error.
Method: the way depends on the facts that are known. A ridge bounds e by ‖g‖/r. Otherwise:
1. With a held Gram matrix, or with few columns, whose Gram matrix takes one more sweep, e is computed. Directions that
   are too short for the Gram matrix are multiplied by A itself, which separates them from null directions.
2. A solver that has met short directions passes the smallest eigenvalue λ of AᵀA + r that it has found, an upper bound
   of the true one: the error may be ‖g‖/λ.
3. If rows can be taken, and in 1 if the Gram matrix does not decide, e is computed by conjugate gradients with the
   preconditioner P = V (Σ² + r)⁻¹ Vᵀ, from a sketch S A = U Σ Vᵀ of 4p rows, for any condition number (Rokhlin & Tygert
   2008, doi:10.1073/pnas.0804869105). They begin with g from the residuals of the rows. P times the remaining g
   estimates the remaining e from above: most often no step is needed.
4. In all other cases a few conjugate gradient steps are made on (AᵀA + r) e = g: the norms of their iterates increase
   up to ‖e‖ (Steihaug 1983, doi:10.1137/0720042), so a long iterate proves a large error. A short one proves nothing.
A gradient that is only rounding says nothing about e: in 3 and 4 it is ignored below eps ‖Aᵀb‖. If a solver passes the
rank of A, which it has decomposed, it is ignored below eps ‖A‖ (‖A‖‖x‖ + ‖b‖), that of a backward stable answer.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from linspec.algebra.small_matrices import rank_cut
from linspec.algebra.whitener import has_short_directions
from linspec.arrays import Array, HostArray, is_array, reciprocal, to_host
from linspec.moments.moments import Moments
from linspec.solving.conclusion import Terms
from linspec.solving.solution import Status

UNCERTAIN = 0.01
"""Relative errors of coefficients above this are reported."""

ROUNDING = 20
"""A gradient up to this multiple of eps ‖Aᵀb‖ counts as rounding error, with the machine epsilon eps of the data.

If a solver passes the rank of A, the multiple is of eps ‖A‖ (‖A‖‖x‖ + ‖b‖) instead."""

HELD, SWEPT = 1024, 256
"""Largest numbers of columns for which the Gram matrix is factored. HELD applies if the Gram matrix is in memory, and
SWEPT if a sweep must compute it."""

SKETCHED, OVERSAMPLED = 1536, 4
"""SKETCHED is the largest number p of columns for which a sketch is decomposed; this takes a second or two. OVERSAMPLED
is the number of rows of the sketch divided by p."""

MOST_ENTRIES = 2**28
"""Largest number n·p of entries, zeros included, for which very sparse data are sketched; it takes about a second.

Data with at least half of their entries stored are sketched whatever their size."""

SEED = 20080909
"""Seed of the sketch: the same answer gives the same verdict."""

STEPS = 8
"""Number of conjugate gradient steps."""

REMEDY = 'Lower tol, add a ridge, or choose "direct" or "sketch-precondition".'

Findings = tuple[tuple[Status, str], ...]


def uncertain(
    moments: Moments,
    gap: Array,
    x: Array,
    ridges: HostArray,
    ratios: HostArray,
    terms: Terms,
    least: Any,
    rank: int | None = None,
) -> Findings:
    """Return a finding if the coefficients are uncertain although the gradient is within the tolerance.

    Parameters
    ----------
    moments : Moments
        The moments of A and B.
    gap, x : arrays of shape (p, w)
        The gradients AᵀB − (AᵀA + ridge) x, and the coefficients x.
    ridges, ratios : numpy.ndarray of shape (w,)
        The ridge and the relative gradient of each column.
    terms : Terms
    least : array of shape (w,), float or None
        The smallest eigenvalue of AᵀA + ridge that the solver has found.
    rank : int or None
        The rank of A, from a solver that has decomposed A itself. Then a gradient is checked only if it is larger than
        rounding leaves in the gradient of a backward stable solution (`_above_rounding`).
    """
    cost = moments.view(0).cost.sweep
    home, p = moments.home, gap.shape[0]
    sizes = home.column_norms(x)
    # AᵀA + r has no eigenvalue below r.
    judged = (ratios <= terms.tol) & (home.column_norms(gap) > UNCERTAIN * ridges * sizes)
    if rank is not None:
        diagonals = moments.columns.known_diagonals()
        squares = None if diagonals is None else [float(to_host(home.xp.sum(d))) for d in diagonals]
        judged &= squares is not None and _above_rounding(moments, gap, sizes, squares)
    if not judged.any() and least is None:
        return ()
    at_hand = p <= HELD if cost == 0 else p <= SWEPT and least is None and terms.passes_left >= cost
    if at_hand and judged.any():
        return _by_factor(moments, gap, x, ridges, judged, terms)
    if least is not None:
        seen = np.broadcast_to(to_host(least) if is_array(least) else least, sizes.shape)
        open_to = _quotient(_quotient(home.column_norms(gap), seen), sizes)
        text = "The gradient has directions in which it leaves coefficients open by up to"
        return _finding(float(open_to.max(initial=0.0)), text)
    judged &= ratios > ROUNDING * _eps(moments)
    if judged.any() and _can_sketch(moments, terms):
        return _by_sketch(moments, gap, x, ridges, judged, terms.passes_left)
    steps = int(min(STEPS, terms.passes_left // cost)) if cost else STEPS
    if not judged.any() or steps < 1:
        return ()
    column = int(np.argmax(np.where(judged, _quotient(home.column_norms(gap), sizes), 0.0)))
    error = _by_steps(moments, gap[:, column : column + 1], float(ridges[column]), steps)
    text = f"{steps} conjugate gradient steps on the error of column {column} change its coefficients by"
    return _finding(error / float(sizes[column]) if sizes[column] > 0 else 0.0, text)


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
        if factor.cut is not None:
            if terms.passes_left < 1:
                text = "A has directions so short that its Gram matrix cannot tell them from null directions; another "
                return ((Status.ILL_CONDITIONED, text + f"pass can. Raise max_passes. {REMEDY}"),)
            if has_short_directions(view, 0, factor):
                if _can_sketch(moments, terms, made=2.0):
                    return _by_sketch(moments, gap, x, ridges, judged, terms.passes_left - 2.0)
                text = "A has directions that are too short for its Gram matrix: the residual does not show whether "
                return ((Status.ILL_CONDITIONED, text + f"coefficients along them are right. {REMEDY}"),)
    return _finding(worst, "The gradient leaves the coefficients off by about")


def _can_sketch(moments: Moments, terms: Terms, made: float = 0.0) -> bool:
    """Whether a sketch and a gradient can be computed from the rows, after `made` passes of the check."""
    n, p = moments.shape[:2]
    swept = moments.form == "implicit" and all(moments.matrix(i).access == "rows" for i in (0, 1))
    quick = n * p <= max(MOST_ENTRIES, 2 * moments.X.nnz)  # sparse rows become dense in blocks
    return swept and quick and p <= min(n, SKETCHED) and terms.passes_left >= made + 2.0


def _by_sketch(
    moments: Moments, gap: Array, x: Array, ridges: HostArray, judged: HostArray, passes: float
) -> Findings:
    """Compute the error for the ridge of the worst column, with a sketch of A, and return a finding if it is large."""
    home, (n, p, m) = moments.home, moments.shape
    worst = np.where(judged, _quotient(home.column_norms(gap), home.column_norms(x)), 0.0)
    first = int(np.argmax(worst)) // m * m
    ridge, x = float(ridges[first]), x[:, first : first + m]
    SA = to_host(moments.sketch(OVERSAMPLED * p, SEED)[0])
    g, sizes = -moments.gradient(x, ridge), home.column_norms(x)
    _, s, Vt = np.linalg.svd(np.linalg.qr(SA, mode="r"))
    there = (s > rank_cut((n, p), moments.X.rounded_dtype) * s[0]) | (ridge > 0)
    N = home.place(Vt.T * _quotient(there.astype(np.float64), np.sqrt(s**2 + ridge)))
    judged = judged[first : first + m]
    large = np.where(judged, UNCERTAIN * sizes, np.inf)
    errors, left = _solved(moments.view(0), ridge, N, g, large, int(min(STEPS, passes - 2)))
    shares = np.where(judged, _quotient(errors + left, sizes), 0.0)
    return _finding(float(shares.max(initial=0.0)), "The gradient leaves the coefficients off by about")


def _solved(
    view: Moments, ridge: float, N: Array, g: Array, large: HostArray, steps: int
) -> tuple[HostArray, HostArray]:
    """Solve (AᵀA + ridge) e = g by conjugate gradients, and return for each column ‖e‖ and the length of its error.

    The preconditioner is N Nᵀ ≈ (AᵀA + ridge)⁻¹. The error of e is estimated as N Nᵀ times the remaining g. The
    iteration ends after `steps` steps, or when it is clear for each column whether ‖e‖ is above its limit in `large`.
    """
    home, xp = view.home, view.home.xp
    e, z = 0.0 * g, N @ (N.T @ g)
    d, gz = z, xp.sum(g * z, axis=0)
    for made in range(steps + 1):
        errors, left = home.column_norms(e), home.column_norms(z)
        small = errors + left <= large
        if made == steps or (small | ((errors > large) & (2 * left <= errors))).all():
            break
        Sd = view.gram(d) + ridge * d
        length = gz * reciprocal(xp.sum(d * Sd, axis=0))
        e, g = e + d * length, g - Sd * length
        z = N @ (N.T @ g)
        before, gz = gz, xp.sum(g * z, axis=0)
        d = z + d * (gz * reciprocal(before))
    return errors, left


def _above_rounding(moments: Moments, gap: Array, sizes: HostArray, squares: list[float]) -> HostArray:
    """Mask of the gradients that are larger than rounding leaves in the gradient of a backward stable solution.

    Rounding leaves up to ROUNDING eps ‖A‖ (‖A‖‖x‖ + ‖B‖). `sizes` holds ‖x‖ for each column x, and `squares` holds
    ‖A‖² and ‖B‖².
    """
    a, b = np.sqrt(squares)
    floor: HostArray = ROUNDING * _eps(moments) * a * (a * sizes + b)
    above: HostArray = moments.home.column_norms(gap) > floor
    return above


def _eps(moments: Moments) -> float:
    return float(np.finfo(moments.X.dtype).eps)


def _by_steps(moments: Moments, gap: Array, ridge: float, steps: int) -> float:
    """Lower bound of ‖e‖ of one column by some steps of conjugate gradients (Hestenes & Stiefel 1952)."""
    home = moments.home
    e, r, d = gap * 0.0, gap, gap
    rr = float(home.column_norms(r)[0]) ** 2
    for _ in range(steps):
        Sd = moments.gram(d) + ridge * d
        curvature = float(to_host(home.xp.sum(d * Sd)))
        if not curvature > 0:  # rounding
            break
        e, r = e + (rr / curvature) * d, r - (rr / curvature) * Sd
        before, rr = rr, float(home.column_norms(r)[0]) ** 2
        if rr == 0:
            break
        d = r + (rr / before) * d
    return float(home.column_norms(e)[0])


def _quotient(a: HostArray, b: HostArray) -> HostArray:
    with np.errstate(over="ignore"):
        found: HostArray = np.divide(a, b, out=np.zeros_like(a), where=b > 0)
    return found


def _finding(share: float, text: str) -> Findings:
    if not share > UNCERTAIN:
        return ()
    return ((Status.ILL_CONDITIONED, f"{text} {min(share, 1.0):.0%} of their length. {REMEDY}"),)
