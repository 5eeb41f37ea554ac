"""Detection of coefficients that a small gradient does not determine.

Problem: the gradient of x is g = AᵀB − (AᵀA + r) x, so its error is e = (AᵀA + r)⁻¹ g. Along directions with a short
image under A, a gradient within the tolerance permits a large error.
Method: the way depends on the facts that are known. A ridge bounds e by ‖g‖/r. Otherwise:
1. With a held Gram matrix, or with few columns, whose Gram matrix takes one more sweep, e is computed. Directions that
   are too short for the Gram matrix are multiplied by A itself, which separates them from null directions.
2. A solver that has met short directions passes the smallest eigenvalue λ of AᵀA + r that it has found, an upper bound
   of the true one: the error may be ‖g‖/λ.
3. In all other cases a few conjugate gradient steps are made on (AᵀA + r) e = g: the norms of their iterates increase
   up to ‖e‖ (Steihaug 1983, doi:10.1137/0720042), so a long iterate proves a large error. A short one proves nothing.
If the gradient is only rounding, these steps are useless. Solvers that decompose A itself pass its rank, and are not
checked here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from linspec.algebra.whitener import has_short_directions
from linspec.arrays import Array, HostArray, is_array, to_host
from linspec.moments.moments import Moments
from linspec.solving.conclusion import Terms
from linspec.solving.solution import Status

UNCERTAIN = 0.01
"""Relative errors of coefficients above this are reported."""

ROUNDING = 20
"""A relative gradient below this, in units of the data's rounding, is noise."""

HELD, SWEPT = 1024, 256
"""Largest number of columns for which the Gram matrix is factored: if it is held, and if it takes a sweep."""

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
) -> Findings:
    """Return a finding if the coefficients are uncertain although the gradient is within the tolerance.

    Parameters
    ----------
    moments : Moments
        The moments of A and B.
    gap, x : arrays of shape (p, w)
        Gradients and coefficients.
    ridges, ratios : numpy.ndarray of shape (w,)
        The ridge and the relative gradient of each column.
    terms : Terms
    least : array of shape (w,), float or None
        The smallest eigenvalue of AᵀA + ridge that the solver has found.
    """
    cost = moments.view(0).cost.sweep
    home, p = moments.home, gap.shape[0]
    sizes = home.column_norms(x)
    # AᵀA + r has no eigenvalue below r.
    judged = (ratios <= terms.tol) & (home.column_norms(gap) > UNCERTAIN * ridges * sizes)
    if not judged.any() and least is None:
        return ()
    at_hand = p <= HELD if cost == 0 else p <= SWEPT and least is None and terms.passes_left >= cost
    if at_hand and judged.any():
        return _by_factor(moments, gap, sizes, ridges, np.flatnonzero(judged), terms)
    if least is not None:
        seen = np.broadcast_to(to_host(least) if is_array(least) else least, sizes.shape)
        open_to = _quotient(_quotient(home.column_norms(gap), seen), sizes)
        text = "The gradient has directions in which it leaves coefficients open by up to"
        return _finding(float(open_to.max(initial=0.0)), text)
    judged &= ratios > ROUNDING * float(np.finfo(moments.X.dtype).eps)
    steps = int(min(STEPS, terms.passes_left // cost)) if cost else STEPS
    if not judged.any() or steps < 1:
        return ()
    column = int(np.argmax(np.where(judged, _quotient(home.column_norms(gap), sizes), 0.0)))
    error = _by_steps(moments, gap[:, column : column + 1], float(ridges[column]), steps)
    text = f"{steps} conjugate gradient steps on the error of column {column} change its coefficients by"
    return _finding(error / float(sizes[column]) if sizes[column] > 0 else 0.0, text)


def _by_factor(
    moments: Moments, gap: Array, sizes: HostArray, ridges: HostArray, judged: HostArray, terms: Terms
) -> Findings:
    """Compute the error from a factor of the Gram matrix, and return a finding if it is large."""
    view, worst = moments.view(0), 0.0
    for ridge in np.unique(ridges[judged]).tolist():
        columns = judged[ridges[judged] == ridge]
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
                text = "A has directions that are too short for its Gram matrix: the residual does not show whether "
                return ((Status.ILL_CONDITIONED, text + f"coefficients along them are right. {REMEDY}"),)
    return _finding(worst, "The gradient leaves the coefficients off by about")


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
