"""What a gradient says of a solution: its size by the law of the problem, and what it leaves open.

The residual of a column x is ‖Aᵀ(b − A x) − r x‖ / ‖Aᵀb‖. A gradient g is what (AᵀA + rI) makes of the error of x, so
that error may be ‖g‖/λ for any eigenvalue λ: of a small residual an ill-conditioned problem has many solutions.
"""

from __future__ import annotations

import numpy as np

from linspec import Run, Status
from linspec.arrays import Array, Home, HostArray

ROUNDING = 20
"""Relative gradient, in units of the data's rounding, at which what is left of a gradient is noise."""

UNCERTAIN = 0.01
"""Relative error of coefficients that is said where a gradient within the tolerance allows it."""


def column_norms(V: Array, home: Home) -> HostArray:
    """Euclidean norms of the columns, on the host."""
    return home.column_norms(V)


def relative(norms: HostArray, scales: HostArray) -> HostArray:
    """Norms of columns, ridges outermost, in units of others; infinite for what should be 0 and is not."""
    scales = np.tile(scales, len(norms) // max(len(scales), 1))
    with np.errstate(over="ignore"):
        ratios: HostArray = np.divide(norms, scales, out=np.zeros_like(norms), where=scales > 0)
    ratios[(scales == 0) & (norms > 0)] = np.inf
    return ratios


def note_uncertainty(run: Run, gradients: HostArray, sizes: HostArray, least: HostArray) -> None:
    """Say so where gradients as small as wanted leave coefficients open.

    Parameters
    ----------
    run : Run
    gradients, sizes : numpy.ndarray
        ‖g‖ and ‖x‖ of every column.
    least : numpy.ndarray
        An eigenvalue of AᵀA + rI that has been met, for every column; infinite where none has.
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
