"""The residual of a column x by the law of the problem: ‖Aᵀ(b − A x) − r x‖ / ‖Aᵀb‖."""

from __future__ import annotations

import numpy as np

from linspec.arrays import Array, Home, HostArray

ROUNDING = 20
"""A relative gradient below this multiple of the data's rounding is noise."""


def column_norms(V: Array, home: Home, squares: HostArray | None = None) -> HostArray:
    """Euclidean norms of the columns, on the host; computed from `squares`, the squared norms, if these are given."""
    return home.column_norms(V, squares)


def relative(norms: HostArray, scales: HostArray) -> HostArray:
    """Ratios norms/scales; 0/0 is 0, and the ratio to a scale of 0 is infinite."""
    with np.errstate(over="ignore"):
        ratios: HostArray = np.divide(norms, scales, out=np.zeros_like(norms), where=scales > 0)
    ratios[(scales == 0) & (norms > 0)] = np.inf
    return ratios
