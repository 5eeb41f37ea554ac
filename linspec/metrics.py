"""Scores of canonical correlations, distances of subspaces.

Problem: measure the quality of a solution independently of the solver that computed it, on the rows of the solve
or on other rows.
Method: unless documented otherwise, a score depends only on the span of the columns, not on the scale, signs or
rotation of the vectors. Scores of canonical correlations need one pass over the data, in which the products of
all weights are computed together; the rest is k x k algebra in float64. Small angles between subspaces are
computed from the residual of a projection, and large angles from its cosines.
Source: Ma, Lu & Foster 2015, ICML, section 4 (total and proportion of correlation captured); Björck & Golub
1973, doi:10.1090/S0025-5718-1973-0348991-3, and Knyazev & Argentati 2002, doi:10.1137/S1064827500377332
(angles, also in the inner product of a matrix).
Where we differ: a block is whitened twice with the products of one pass. So the error for nearly parallel
columns is proportional to their condition number, not to its square. The sines in a metric are computed after a
rotation to principal vectors and a scaling, because a metric is known only by its products, and squared lengths
would lose every angle below 1e-8 of the largest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from linspec.arrays import HOST, Array, Device, HostArray, host_dtype, reciprocal, to_host, with_device
from linspec.errors import InvalidProblem, NonFiniteData
from linspec.families.cca.captured import correlations, pcc, tcc
from linspec.linalg.small_matrices import EPS, whitening
from linspec.operators import as_operator
from linspec.solving.checks import finite_array, finite_block

__all__ = [
    "correlations",
    "pcc",
    "principal_angles",
    "subspace_distance",
    "tcc",
]


ASYMMETRY = 1e-6
"""Tolerance for G = VᵀSV, with a metric S and a given block V (W or Z), as a fraction of the largest |entry| of G.

S counts as not symmetric if an entry of G − Gᵀ is larger than the tolerance, and as not positive semidefinite if an
eigenvalue of G is below minus the tolerance.
"""


Product = Callable[[Array], Array]
"""Function that maps V to S V."""


@with_device
def subspace_distance(W: Any, Z: Any, metric: Any = None) -> float:
    """Sine of the largest principal angle between two spans: ‖P_W − P_Z‖₂.

    Parameters
    ----------
    W, Z : array of shape (p, k)
        Columns that span the subspaces; they need not be orthonormal. One-dimensional arrays are one column.
    metric : array, sparse matrix or operator of shape (p, p), or callable, optional
        A symmetric positive semidefinite S, or a function V -> S V. The inner product xᵀSy then replaces xᵀy.
        The metric of canonical weights is ``lambda V: moments.gram(V) + ridge * V``.

    Returns
    -------
    float
        0 for equal spans, and 1 if a direction of one span is orthogonal to the whole of the other. Small
        values are accurate to the rounding unit, not only to its square root.

    Raises
    ------
    InvalidProblem
        Shapes that do not fit, spans of different dimension, a metric that is not symmetric or not positive
        semidefinite.
    NonFiniteData
        NaN or infinity in W, in Z, or in products with the metric.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> ls.metrics.subspace_distance(np.eye(4)[:, :1], np.eye(4)[:, 1:2])
    1.0
    """
    return float(_sines_and_cosines(W, Z, metric)[0][0])


@with_device
def principal_angles(W: Any, Z: Any, metric: Any = None) -> HostArray:
    """Principal angles between two spans: small ones from their sines, large ones from their cosines.

    Parameters
    ----------
    W, Z, metric
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
    sines, cosines = _sines_and_cosines(W, Z, metric)
    return np.where(sines**2 <= 0.5, np.arcsin(sines), np.arccos(cosines))


def _sines_and_cosines(W: Any, Z: Any, metric: Any) -> tuple[HostArray, HostArray]:
    """Sines (decreasing) and cosines (increasing) of the principal angles, from the largest angle to the smallest.

    Björck & Golub's choice: for orthonormal W and Z the cosines are the singular values of WᵀZ, and the sines
    those of Z − W(WᵀZ). √(1 − cos²) would be zero for every angle below 1e-8.
    """
    W, Z = finite_block(W, "W"), finite_block(Z, "Z")
    if W.shape[0] != Z.shape[0]:
        raise InvalidProblem(
            f"W and Z must have equally many rows; got shapes {tuple(W.shape)} and {tuple(Z.shape)}."
        )
    device, product = _metric(metric, W, Z)
    (Q, SQ), (P, SP) = (_basis(V, device, product, name) for V, name in ((W, "W"), (Z, "Z")))
    if Q.shape[1] != P.shape[1]:
        raise InvalidProblem(
            "W and Z must span equally many dimensions; got "
            f"{Q.shape[1]} ({W.shape[1]} columns) and {P.shape[1]} ({Z.shape[1]} columns). Compare the "
            "leading columns of the larger one."
        )
    cross = Q.T @ SP
    _, cosines, turn = np.linalg.svd(to_host(cross))
    gap = P - Q @ cross
    # Rounding leaves a part in span(W) after the first projection; a second projection removes it.
    gap = gap - Q @ (SQ.T @ gap)
    sines = _lengths(gap, device, product, turn.T)
    return np.clip(sines, 0.0, 1.0), np.clip(cosines[::-1], 0.0, 1.0)


def _lengths(V: Array, device: Device, product: Product | None, turn: HostArray) -> HostArray:
    """The singular values of V in a metric, in decreasing order.

    V is the residual of one basis after projection onto the other basis, and `turn` holds the principal vectors in
    this basis as columns (k x k). The columns of V @ turn are orthogonal, and their lengths are the sines. The only
    exceptions are directions whose cosine is 1 up to rounding: these columns may be mixed with each other, but their
    lengths are below 1e-8. All columns are then scaled to length 1, which keeps small lengths accurate beside large
    lengths.
    """
    if product is None:
        return to_host(device.xp.linalg.svd(V, full_matrices=False)[1])
    V = V @ device.asarray(turn)
    G = to_host(V.T @ product(V))
    d = np.sqrt(np.maximum(np.diag(G), 0.0))
    inverse = reciprocal(d)
    values, vectors = np.linalg.eigh((G + G.T) / 2 * np.outer(inverse, inverse))
    return np.linalg.svd(d[:, None] * vectors * np.sqrt(np.maximum(values, 0.0)), compute_uv=False)


def _basis(V: Array, device: Device, product: Product | None, name: str) -> tuple[Array, Array]:
    """An orthonormal basis Q of the span of the columns (in the metric S), and S Q."""
    eps = float(np.finfo(host_dtype(V)).eps)
    V = device.asarray(V)
    Q, SQ = _plain_basis(V, device, eps) if product is None else _metric_basis(V, product, device, eps)
    if Q.shape[1] == 0:
        raise InvalidProblem(
            f"{name} must have a column that is not of length zero; got {V.shape[1]} that are."
        )
    return Q, SQ


def _plain_basis(V: Array, device: Device, eps: float) -> tuple[Array, Array]:
    """(Q, Q) for the plain inner product, where Q is an orthonormal basis of the span of the columns of V.

    Each column of V is divided by its largest |entry|. Q holds the left singular vectors of the result, as many as its
    numerical rank.
    """
    xp = device.xp
    largest = xp.max(xp.abs(V), axis=0)
    safe = xp.where(largest > 0, largest, xp.ones_like(largest))
    U, s, _ = xp.linalg.svd(V / safe[None, :], full_matrices=False)
    values = to_host(s)
    Q = U[:, : int(np.sum(values > max(V.shape) * eps * values[0]))]
    return Q, Q


def _metric_basis(V: Array, product: Product, device: Device, eps: float) -> tuple[Array, Array]:
    """(Q, S Q) for a metric S, by whitening with the Gram matrix twice: the second step is accurate."""
    for _ in range(2):
        SV = product(V)
        G = to_host(V.T @ SV)
        _check_metric(G)
        T = device.asarray(whitening(G, max(EPS, eps**2)))
        V, SV = V @ T, SV @ T
    return V, SV


def _check_metric(G: HostArray) -> None:
    if not np.isfinite(G).all():
        raise NonFiniteData(
            "products with the metric must be finite; got NaN or infinity. Check its entries."
        )
    lowest, highest = np.linalg.eigvalsh((G + G.T) / 2)[[0, -1]] if len(G) else (0.0, 0.0)
    least = ASYMMETRY * float(np.abs(G).max(initial=0.0))
    if float(np.abs(G - G.T).max(initial=0.0)) > least or lowest < -least:
        raise InvalidProblem(
            "metric must be symmetric and positive semidefinite; got a product that is not, with xᵀSx from "
            f"{lowest:.2g} to {highest:.2g}. Pass, for example, XᵀX plus a ridge, or (S + Sᵀ) / 2."
        )


def _metric(metric: Any, W: Array, Z: Array) -> tuple[Device, Product | None]:
    """Return the device of the computation, and the function V -> S V, or None for the plain inner product."""
    device = next((Device.of(V).blocks for V in (W, Z) if not isinstance(V, np.ndarray)), HOST)
    if metric is None:
        return device, None
    product = metric
    if hasattr(metric, "shape") or not callable(metric):
        rows = W.shape[0]
        S = as_operator(finite_array(metric, "metric") if isinstance(metric, list) else metric, "metric")
        if S.shape != (rows, rows):
            raise InvalidProblem(f"metric must have shape ({rows}, {rows}); got {S.shape}.")
        device, product = S.device.blocks, S.matmat

    def placed(V: Array) -> Array:
        SV = product(V)
        if tuple(getattr(SV, "shape", ())) != tuple(V.shape):
            raise InvalidProblem(
                f"metric must return a block of the same shape as its argument, {tuple(V.shape)}; got "
                f"{getattr(SV, 'shape', type(SV).__name__)}."
            )
        return device.asarray(SV)

    return device, placed
