"""The error of coefficients by conjugate gradients, beside planted columns that show how far it can be trusted.

Problem: for S = AᵀA + rI, known by its products alone, and a gradient g, is the solution of S e = g long?
Method: the iterates of conjugate gradients from zero grow up to e (Steihaug 1983, doi:10.1137/0720042). So a long one
proves a large error. A short one proves nothing: the steps may not have met the directions in which S is small. That is
asked of planted columns beside g: right-hand sides S z of random z, which are known. What is left of them,

    (1)  D = Z − Z_k

spans the directions that the steps have not met. A single one is left with a share of 1/√p of z, and one column misses
a share t of that with a chance of about t (Kenney & Laub 1994, doi:10.1137/0915003). The steps end when

    (2)  ‖d‖ ≤ MET ‖z‖/√p   for each column, and then e_k is the error.

Else directions are left. Null directions of A never leave D, and x has no part in them: an image A D of rounding alone
shows them. If there are others, the error within the span of D is that of the equations projected on it,

    (3)  e ≈ D c,   (DᵀSD) c = Dᵀg.

Where we differ: the planted columns stand beside g in the certificate, and not beside b in the solve. So every solver
is judged by the same check, and its answer does not depend on the check.
"""

from __future__ import annotations

import numpy as np

from linspec.algebra.small_matrices import rank_cut
from linspec.arrays import Array, HostArray, reciprocal, to_host
from linspec.moments.moments import Moments

PLANTED = 2
"""Number of planted columns."""

MET = 0.03
"""Share of a single direction that may be left of the planted columns; both miss one with a chance of 0.001."""

SETTLED = 1e-17
"""A planted right-hand side is used up when its residual by the recurrence is below this share."""

ROUNDING = 1e-14
"""What is left of a planted column z is a null direction if ‖A d‖ is below this share of ‖A‖‖z‖, or below that of
directions which the rounding of the data makes."""

SEED = 19940915
"""Seed of the planted columns: the same answer gives the same verdict."""


def errors_beside_planted_columns(
    moments: Moments, ridge: float, g: Array, large: HostArray, steps: int
) -> HostArray:
    """Return an estimate of ‖(AᵀA + ridge)⁻¹ g‖ for each column of g.

    Parameters
    ----------
    moments : Moments
        The moments of A, alone or with B.
    ridge : float
    g : array of shape (p, m)
    large : numpy.ndarray of shape (m,)
        The iteration ends once the error of a column is larger than its limit.
    steps : int
        The largest number of steps; each takes one product with AᵀA.
    """
    home, xp = moments.home, moments.home.xp
    p, m = g.shape

    def multiplied(V: Array) -> Array:
        return moments.products(V, onto=(0,))[0] + ridge * V

    Z = home.place(np.random.default_rng(SEED).standard_normal((p, PLANTED)))
    R = home.concat([g, multiplied(Z)])
    E, P, rr = 0.0 * R, R, xp.sum(R * R, axis=0)
    enough = to_host(rr)[m:] * SETTLED**2
    lengths, most = home.column_norms(Z), 0.0
    for _ in range(steps):
        SP = multiplied(P)
        most = max(most, float(_largest(home.column_norms(SP), home.column_norms(P))))
        length = rr * reciprocal(xp.sum(P * SP, axis=0))
        E, R = E + P * length, R - SP * length
        before, rr = rr, xp.sum(R * R, axis=0)
        P = R + P * (rr * reciprocal(before))
        D = Z - E[:, m:]  # (1)
        left, errors = home.column_norms(D), home.column_norms(E[:, :m])
        if (errors > large).any() or (left <= MET / np.sqrt(p) * lengths).all():  # (2)
            return errors
        if (to_host(rr)[m:] <= enough).all():
            break
    G = to_host(moments.products(D, onto=(), image=True).image + ridge * (D.T @ D))
    cut = rank_cut((moments.shape[0], p), moments.X.rounded_dtype)
    if (np.diag(G) <= most * np.maximum(cut * left, ROUNDING * lengths) ** 2).all():
        return errors
    c = np.linalg.lstsq(G, to_host(D.T @ g), rcond=None)[0]  # (3)
    found: HostArray = np.maximum(errors, home.column_norms(D @ home.place(c)))
    return found


def _largest(a: HostArray, b: HostArray) -> float:
    return float(np.divide(a, b, out=np.zeros_like(a), where=b > 0).max(initial=0.0))
