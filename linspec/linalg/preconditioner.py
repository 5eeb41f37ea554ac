"""A preconditioner of one Gram matrix, the sum of a diagonal and a low-rank matrix, from one product with a thin block.

Problem: approximate S⁻¹ R for S = XᵀX + rI, if one product SΩ and the diagonal D are known.
Method: the Nyström approximation N = FFᵀ, F = SΩ(ΩᵀSΩ)^(-1/2) without the ridge, approximates the large eigenvalues.
The remainder of the diagonal, E = D − diag N, stands for the other eigenvalues: P = FFᵀ + E, inverted by Woodbury's
identity.
Source: Frangella, Tropp & Udell 2023, doi:10.1137/21M1466244, with a multiple of the identity for E.
Where we differ: with a diagonal E, one form serves two kinds of data. For word counts, whose columns rarely have
entries in the same row, N explains little of the diagonal, and P is close to Jacobi's preconditioner. For pixels N
explains nearly all of the diagonal, and P is close to Nyström's. The rank depends on the data: a direction of
E^(-1/2) F is kept if its squared length is at least `WORTH`.

If the diagonal is known only from random signs Ω, each entry is the mean of z (Sz) over the signs plus twice its
standard error. An entry that is too large costs almost no iterations. An entry that is too small makes its column
dominate every search direction. (Measured with 60 signs: plain means cost a third more passes than the exact
diagonal, and raised means cost no more.)
"""

from __future__ import annotations

import numpy as np

from linspec.arrays import Array, Device, reciprocal, to_host
from linspec.linalg.small_matrices import EPS, whitening

WORTH = 3.0
"""A direction of F is kept if its squared length in the norm of E⁻¹ is above this: an eigenvalue of FᵀE⁻¹F."""

LEAST = 1e-4
"""Smallest fraction of the diagonal D that E keeps."""

ERRORS = 2.0
"""Number of standard errors that are added to an estimated diagonal."""

ROUNDING = 1e-12
"""Fraction of the largest entry of the diagonal below which an estimated entry counts as zero."""


def preconditioner_from_sketch(
    Omega: Array, SOmega: Array, ridge: float, diagonal: Array, device: Device
) -> tuple[Array, Array]:
    """1/E and L of the preconditioner P⁻¹ R = R / E − L Lᵀ R of S = XᵀX + ridge·I, from S times a thin block Ω.

    FFᵀ is the Nyström approximation of XᵀX by Ω, and E the remainder of the diagonal, with the ridge.

    Parameters
    ----------
    Omega, SOmega : array of shape (p, l)
        A block and its product with S, ridge included.
    ridge : float
    diagonal : array of shape (p,)
        The diagonal of XᵀX, without the ridge; `raised_diagonal` estimates it.
    device : Device

    Returns
    -------
    weights : array of shape (p,)
        1 / E; 0 for a column of zeros.
    L : array of shape (p, r)

    References
    ----------
    Frangella, Tropp & Udell 2023, doi:10.1137/21M1466244, with a multiple of the identity for E.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.linalg import preconditioner_from_sketch
    >>> from linspec.arrays import HOST
    >>> G, ridge = 100 * np.ones((3, 3)) + np.diag([1.0, 2.0, 3.0]), 0.1
    >>> S, Omega = G + ridge * np.eye(3), np.ones((3, 1))
    >>> weights, L = preconditioner_from_sketch(Omega, S @ Omega, ridge, np.diag(G), HOST)
    >>> P = np.diag(weights) - L @ L.T
    >>> bool(np.linalg.cond(S) > 100), bool(np.linalg.cond(P @ S) < 2)
    (True, True)
    """
    xp = device.xp
    Y = SOmega - Omega * ridge
    F = Y @ device.asarray(whitening(to_host(Omega.T @ Y), cut=10 * EPS))
    E = xp.max(xp.stack([diagonal - xp.sum(F * F, axis=1), diagonal * LEAST]), axis=0) + ridge
    weights = reciprocal(E)
    squares, vectors = np.linalg.eigh(to_host(F.T @ (F * weights[:, None])))
    worth = squares > WORTH
    if not worth.any():  # Jacobi's
        return reciprocal(diagonal + ridge), F[:, :0]
    turn = vectors[:, worth] / np.sqrt(1 + squares[worth])
    return weights, (F @ device.asarray(turn)) * weights[:, None]


def raised_diagonal(signs: Array, Ssigns: Array, ridge: float, device: Device) -> Array:
    """Estimate the diagonal of XᵀX, rarely too small, from the product of S = XᵀX + ridge·I with random signs.

    Each entry is the mean over the signs plus twice its standard error: entries that are too small harm a
    preconditioner, entries that are too large do not.

    Parameters
    ----------
    signs : array of shape (p, l)
        Entries −1 and 1.
    Ssigns : array of shape (p, l)
        The product of S, ridge included, with the signs.
    ridge : float
    device : Device

    Returns
    -------
    array of shape (p,)
        The estimates without the ridge; 0 for an entry that is only rounding.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.linalg import raised_diagonal
    >>> from linspec.arrays import HOST
    >>> S, signs = np.diag([3.5, 1.5, 0.5]), np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0]])
    >>> raised_diagonal(signs, S @ signs, 0.5, HOST)  # exact, because columns do not overlap
    array([3., 1., 0.])
    """
    xp = device.xp
    samples = signs * (Ssigns - signs * ridge)
    count = signs.shape[1]
    mean = xp.sum(samples, axis=1) / count
    spread = xp.sqrt(xp.sum((samples - mean[:, None]) ** 2, axis=1) / (count * max(count - 1, 1)))
    raised = xp.max(xp.stack([mean, xp.zeros_like(mean)]), axis=0) + ERRORS * spread
    # For a column that is zero after centring, the products are only rounding.
    return xp.where(raised > ROUNDING * xp.max(raised), raised, xp.zeros_like(raised))
