"""How far exact values of a symmetric pencil H w = θ S w lie from computed ones: SVD, and all problems like it.

H and S act on one or several views; S is diagonal in them. With N Nᵀ ≈ S⁻¹ in each view (`Metric`), values θ and
vectors W,

    δ = ‖Nᵀ(HW - SWΘ)‖₂ / √λmin(WᵀSW):                                                  (1)

as many exact values as there are columns lie within δ of the θ (Kahan 1967; Parlett 1998, The Symmetric Eigenvalue
Problem, 11.5). No condition number enters. That no larger value is missing is not said.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from linspec.arrays import HostArray
from linspec.certificates.metric import Metric

__all__ = ["enclosure"]


def enclosure(
    metrics: Sequence[Metric | None], gaps: Sequence[HostArray], G: HostArray
) -> tuple[float, float]:
    """Return δ of formula (1), and λmin(WᵀSW), which is far below 1 if the vectors are dependent.

    Parameters
    ----------
    metrics : sequence of Metric or None
        None where S is the identity.
    gaps : sequence of numpy.ndarray of shape (pᵢ, q)
        HW - SWΘ in each view.
    G : numpy.ndarray of shape (q, q)
        WᵀSW.
    """
    least = float(np.linalg.eigvalsh((G + G.T) / 2)[0]) if len(G) else 1.0
    pairs = list(zip(metrics, gaps, strict=True))
    rows = np.vstack([gap if metric is None else metric.dual(gap) for metric, gap in pairs])
    largest = float(np.abs(rows).max(initial=0.0)) or 1.0
    rows = rows / largest
    squared = np.linalg.eigvalsh(rows.T @ rows).max(initial=0.0)
    up = max(1.0 if metric is None else metric.up for metric in metrics)
    length = up * largest * float(np.sqrt(max(squared, 0.0)))
    return length / float(np.sqrt(max(least, 0.01))), least
