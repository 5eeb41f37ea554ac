"""The error of coefficients by conjugate gradients, beside planted columns that show how far it can be trusted.

Problem: for S = AᵀA + rI, known by its products alone, and a gradient g, is the solution e of S e = g long?
Method: the iterates of conjugate gradients from zero grow up to e (Steihaug 1983, doi:10.1137/0720042). So a long one
proves a large error. A short one proves nothing: the steps may not have met the directions in which S is small. That is
asked of planted columns beside g: right-hand sides S z of random z, which are known. What is left of them,

    (1)  D = Z − Z_k,   R = S D,

spans the directions that the steps have not met. A single one is left with a share of 1/√p of z, and one column misses
a share t of that with a chance of about t (Kenney & Laub 1994, doi:10.1137/0915003). The steps end when

    (2)  ‖d‖ ≤ MET ‖z‖/√p   for each column, and then e_k is the error.

Null directions of A never leave D; x has no part in them, and neither has g. If R is used up, only null directions and
those are left in which A is so short that R has no larger part. Since dᵀg = rᵀe for a column d of D and its r,

    (3)  ‖e‖ ≥ |dᵀg| / ‖r‖,

which is the error itself if one direction is left, and no null direction enters. A direction so short that even r is
rounding there shows in A d, which is too long for so short an r. Then, and if R is not used up, the error is estimated
from above, by that within the span of D:

    (4)  e ≈ D c,   (DᵀSD) c = Dᵀg.

Where we differ: the planted columns stand beside g in the certificate, and not beside b in the solve. So every solver
is judged by the same check, and its answer does not depend on the check.
"""

from __future__ import annotations

import numpy as np

from linspec.arrays import Array, HostArray, reciprocal, to_host
from linspec.moments.moments import Moments

PLANTED = 2
"""Number of planted columns."""

MET = 0.03
"""Share of a single direction that may be left of the planted columns; both miss one with a chance of 0.001."""

SETTLED, SETTLED_NARROW = 5, 200
"""A column rests once its residual is below this multiple of eps of the first one: what is left of it is rounding.

eps is that of the products: for data of float32 they are in float32, and their rounding is part of null directions."""

SHORT = 1e-4
"""A direction of which ‖r‖ / ‖A d‖ is below this share of ‖A‖ has not been settled, although r is used up."""

SEED = 19940915
"""Seed of the planted columns: the same answer gives the same verdict."""


def errors_beside_planted_columns(
    moments: Moments, ridge: float, x: Array, g: Array, large: HostArray, steps: int
) -> tuple[HostArray, bool]:
    """Return an estimate of ‖(AᵀA + ridge)⁻¹ g‖ for each column of g, and whether the steps have settled it.

    Parameters
    ----------
    moments : Moments
        The moments of A and B.
    ridge : float
    x, g : array of shape (p, m)
        The coefficients, and their gradient from the rows. It has a part in null directions that is rounding.
    large : numpy.ndarray of shape (m,)
        The iteration ends once the error of a column is larger than its limit.
    steps : int
        The largest number of steps; each takes one product with AᵀA, and there are three more.
    """
    home, xp = moments.home, moments.home.xp
    p, m = g.shape

    def multiplied(V: Array) -> Array:
        return moments.products(V, onto=(0,))[0] + ridge * V

    Z = home.place(np.random.default_rng(SEED).standard_normal((p, PLANTED)))
    R = home.concat([g, multiplied(Z)])
    E, P, rr, sizes = 0.0 * R, R, xp.sum(R * R, axis=0), home.column_norms(x)
    eps = float(np.finfo(moments.X.dtype).eps)
    rest = eps * (SETTLED if moments.X.dtype == np.float64 else SETTLED_NARROW)
    left, lengths, settled, norm = home.column_norms(R), home.column_norms(Z), False, 0.0
    enough = rest * left
    for _ in range(steps):
        SP = multiplied(P)
        stretch = home.column_norms(SP) * reciprocal(home.column_norms(P))
        norm = max(norm, float(np.max(stretch)))  # of S, from below
        enough[:m] = np.maximum(enough[:m], eps * norm * sizes)
        live = home.place((left > enough).astype(np.float64))
        length = live * rr * reciprocal(xp.sum(P * SP, axis=0))
        E, R = E + P * length, R - SP * length
        before, rr = rr, xp.sum(R * R, axis=0)
        P = R + P * (rr * reciprocal(before))
        D = Z - E[:, m:]  # (1)
        errors = home.column_norms(E[:, :m])
        if (errors > large).any() or (home.column_norms(D) <= MET / np.sqrt(p) * lengths).all():  # (2)
            return errors, True
        left = home.column_norms(R)
        settled = bool((left <= enough).all())
        if settled:
            break
    G = to_host(moments.products(D, onto=(), image=True).image + ridge * (D.T @ D))
    Dg, images = to_host(D.T @ g), np.sqrt(np.maximum(np.diag(G), 0.0))
    if settled:
        r = home.column_norms(multiplied(D))
        short = (images > rest * norm**0.5 * lengths) & (r < SHORT * norm**0.5 * images)
        r = np.maximum(r, enough[m:])
        if not short.any():
            return np.maximum(errors, np.max(np.abs(Dg) / r[:, None], axis=0)), True  # (3)
    c = np.linalg.lstsq(G, Dg, rcond=None)[0]  # (4)
    return np.maximum(errors, home.column_norms(D @ home.place(c))), settled
