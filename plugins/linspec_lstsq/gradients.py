"""The use of a gradient to judge a solution: the residual by the law of the problem, and a bound of the error.

The residual of a column x is ‖Aᵀ(b − A x) − r x‖ / ‖Aᵀb‖. The gradient g is (AᵀA + rI) times the error of x.
So the error may be ‖g‖/λ for any eigenvalue λ, and many solutions of an ill-conditioned problem have a small
residual.
"""

from __future__ import annotations

import numpy as np

from linspec import Run, Status
from linspec.arrays import Array, Home, HostArray

ROUNDING = 20
"""A relative gradient below this, in units of the data's rounding, is noise."""

UNCERTAIN = 0.01
"""The relative error of coefficients that is reported if a gradient within the tolerance allows it."""


def column_norms(V: Array, home: Home, squares: HostArray | None = None) -> HostArray:
    """Euclidean norms of the columns, on the host, from their squares where these are known."""
    return home.column_norms(V, squares)


def relative(norms: HostArray, scales: HostArray) -> HostArray:
    """Norms of columns, ridges outermost, relative to other norms; infinite if the other norm alone is 0."""
    scales = np.tile(scales, len(norms) // max(len(scales), 1))
    with np.errstate(over="ignore"):
        ratios: HostArray = np.divide(norms, scales, out=np.zeros_like(norms), where=scales > 0)
    ratios[(scales == 0) & (norms > 0)] = np.inf
    return ratios


def note_uncertainty(run: Run, gradients: HostArray, sizes: HostArray, least: HostArray) -> None:
    """Report coefficients that are uncertain although the gradients are small enough.

    Parameters
    ----------
    run : Run
    gradients, sizes : numpy.ndarray
        ‖g‖ and ‖x‖ of every column.
    least : numpy.ndarray
        For every column the least eigenvalue of AᵀA + rI seen so far; infinite if there is none.
    """
    known = np.isfinite(least)
    smallest = np.where(known, least, 0.0) * sizes
    told = known & (smallest > 0) & (gradients > UNCERTAIN * smallest)
    if not told.any():
        return
    with np.errstate(over="ignore"):
        worst = float(np.max(gradients[told] / smallest[told]))
    run.note(
        Status.ILL_CONDITIONED,
        f"The gradient has directions in which it leaves coefficients open by up to {min(worst, 1.0):.0%} of their "
        'length. Lower tol, add a ridge, or choose "direct" or "sketch-precondition".',
    )
