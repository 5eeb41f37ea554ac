"""Scores of canonical correlations, distances of subspaces.

Problem: measure the quality of a solution independently of the solver that computed it, on the rows of the solve
or on other rows.
Method: unless documented otherwise, a score depends only on the span of the columns, not on the scale, signs or
rotation of the vectors. Scores of canonical correlations need one pass over the data, in which the products of
all weights are computed together; the rest is k x k algebra in float64. Small angles between subspaces are
computed from the residual of a projection, and large angles from its cosines.
Source: Ma, Lu & Foster 2015, ICML, section 4 (total and proportion of correlation captured); Björck & Golub
1973, doi:10.1090/S0025-5718-1973-0348991-3, and Knyazev & Argentati 2002, doi:10.1137/S1064827500377332
(angles).
Where we differ: a block is whitened twice with the products of one pass. So the error for nearly parallel
columns is proportional to their condition number, not to its square.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from linspec.arrays import HOST, Array, Device, HostArray, host_dtype, to_host, with_device
from linspec.errors import InvalidProblem
from linspec.families.cca.captured import correlations, pcc, tcc
from linspec.solving.checks import finite_block

__all__ = [
    "correlations",
    "pcc",
    "principal_angles",
    "subspace_distance",
    "tcc",
]


@with_device
def subspace_distance(W: Any, Z: Any) -> float:
    """Sine of the largest principal angle between two spans: ‖P_W − P_Z‖₂.

    Parameters
    ----------
    W, Z : array of shape (p, k)
        Columns that span the subspaces; they need not be orthonormal. One-dimensional arrays are one column. Distances
        of weights in the metric XᵀX are those of the variates XW and XZ.

    Returns
    -------
    float
        0 for equal spans, and 1 if a direction of one span is orthogonal to the whole of the other. Small
        values are accurate to the rounding unit, not only to its square root.

    Raises
    ------
    InvalidProblem
        Shapes that do not fit, spans of different dimension.
    NonFiniteData
        NaN or infinity in W or in Z.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> ls.metrics.subspace_distance(np.eye(4)[:, :1], np.eye(4)[:, 1:2])
    1.0
    """
    return float(_sines_and_cosines(W, Z)[0][0])


@with_device
def principal_angles(W: Any, Z: Any) -> HostArray:
    """Principal angles between two spans: small ones from their sines, large ones from their cosines.

    Parameters
    ----------
    W, Z
        As for `subspace_distance`.

    Returns
    -------
    numpy.ndarray of shape (k,)
        In radians, in decreasing order; k is the dimension of the spans.

    Raises
    ------
    InvalidProblem, NonFiniteData
        As for `subspace_distance`.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> ls.metrics.principal_angles(np.eye(4)[:, :2], np.eye(4)[:, 1:3]).round(3)
    array([1.571, 0.   ])
    """
    sines, cosines = _sines_and_cosines(W, Z)
    return np.where(sines**2 <= 0.5, np.arcsin(sines), np.arccos(cosines))


def _sines_and_cosines(W: Any, Z: Any) -> tuple[HostArray, HostArray]:
    """Sines (decreasing) and cosines (increasing) of the principal angles, from the largest angle to the smallest.

    Björck & Golub's choice: for orthonormal W and Z the cosines are the singular values of WᵀZ, and the sines
    those of Z − W(WᵀZ). √(1 − cos²) would be zero for every angle below 1e-8.
    """
    W, Z = finite_block(W, "W"), finite_block(Z, "Z")
    if W.shape[0] != Z.shape[0]:
        raise InvalidProblem(
            f"W and Z must have equally many rows; got shapes {tuple(W.shape)} and {tuple(Z.shape)}."
        )
    device = next((Device.of(V).blocks for V in (W, Z) if not isinstance(V, np.ndarray)), HOST)
    Q, P = (_basis(V, device, name) for V, name in ((W, "W"), (Z, "Z")))
    if Q.shape[1] != P.shape[1]:
        raise InvalidProblem(
            "W and Z must span equally many dimensions; got "
            f"{Q.shape[1]} ({W.shape[1]} columns) and {P.shape[1]} ({Z.shape[1]} columns). Compare the "
            "leading columns of the larger one."
        )
    cross = Q.T @ P
    cosines = np.linalg.svd(to_host(cross), compute_uv=False)
    gap = P - Q @ cross
    # Rounding leaves a part in span(W) after the first projection; a second projection removes it.
    gap = gap - Q @ (Q.T @ gap)
    sines = to_host(device.xp.linalg.svd(gap, full_matrices=False)[1])
    return np.clip(sines, 0.0, 1.0), np.clip(cosines[::-1], 0.0, 1.0)


def _basis(V: Array, device: Device, name: str) -> Array:
    """Left singular vectors of the columns, divided by their largest |entry|, as many as their numerical rank."""
    xp, eps = device.xp, float(np.finfo(host_dtype(V)).eps)
    V = device.asarray(V)
    largest = xp.max(xp.abs(V), axis=0)
    safe = xp.where(largest > 0, largest, xp.ones_like(largest))
    U, s, _ = xp.linalg.svd(V / safe[None, :], full_matrices=False)
    values = to_host(s)
    rank = int(np.sum(values > max(V.shape) * eps * values[0]))
    if rank == 0:
        raise InvalidProblem(
            f"{name} must have a column that is not of length zero; got {V.shape[1]} that are."
        )
    return U[:, :rank]
