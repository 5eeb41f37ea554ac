"""Stochastic principal components of rows that are read once, with an estimate of the residual.

Problem: approximate the k leading singular triplets of rows that come slice by slice and can be read only once.
Method: for each slice Y = AᵢΩ, and Bᵀ = Σ AᵢᵀY and the triangle of the QR factorisation of [R; Y] are updated. At the
end R⁻ᵀB is QᵀA for the orthonormal Q = AΩR⁻¹, which is never formed, and its SVD is the answer (Wojnowicz 2017,
arXiv:1709.07175, Algorithm 3). Centring: a leading column of ones goes through the same QR factorisations, and B is
kept about the means of the rows so far.
Where we differ. The triangle is exact to rounding, but the answer lies in the span of the rows of B: its error is
eps (σ₁/σ_k)², as that of `lazy-spca`, while that of two sweeps is eps σ₁/σ_k. Above σ₁/σ_k of about a thousand the
solution reports this. Ten more random columns Z take part in the sweep: for r = AᵀAv − σ²v, ‖Zᵀr‖²/10 estimates ‖r‖²,
because Z is independent of Ω. Each residual is estimated within a factor of about two.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from linspec import Run, Solution, Status
from linspec.algebra import EPS
from linspec.arrays import Array, Home, HostArray, to_host
from linspec.process import count_of
from linspec_svd.triplets import squared_cuts

PROBES = 10
"""The number of random columns from which residuals are estimated."""

LOST = 1e-10
"""Largest relative error eps (σ₁/σ_k)² of the subspace, lost by squaring, that the solution does not report. In float64
the value belongs to σ₁/σ_k of about 1000; for float32 data it is 100 times their eps.

In solver "lazy-spca" the same value limits the error of squaring twice: above it the eigenvectors of R⁻ᵀGR⁻¹ are not
used.
"""

ANEW = "Pass a callable that returns the slices anew."

ENDED = "A sketch of {columns} in one pass, without further data to check it: estimated residual about "
ENDED += "{residual:.0e} (from {probes} random columns in the same sweep). "
ENDED += "Pass a callable that returns the slices anew: then the answer is judged, and can be improved to a tolerance."


class Probes:
    """Gaussian columns that take part in a sweep, to estimate the residuals of its result.

    Parameters
    ----------
    run : Run
        The columns come from its random numbers: draw those of the method first.
    rows : int
        The number of columns in the data.
    home : Home
        The home of the columns.
    """

    def __init__(self, run: Run, rows: int, home: Home) -> None:
        self.Z = home.place(run.rng.standard_normal((rows, PROBES)))
        self.home = home

    def beside(self, V: Array) -> Array:
        """The block V followed by the probes."""
        return self.home.concat([V, self.Z])

    def residual(self, AtAZ: Array, V: Array, S: HostArray) -> float:
        """Estimate of the largest ‖AᵀAv − σ²v‖ / σ₁²."""
        if len(S) == 0:
            return 0.0
        gaps = to_host(AtAZ.T @ V) - to_host(self.Z.T @ V) * S**2
        return float(np.sqrt(np.sum(gaps**2, axis=0).max() / PROBES) / S[0] ** 2)

    def note(self, run: Run, columns: int, AtAZ: Array, V: Array, S: HostArray) -> None:
        """Report the estimated residual in the message of the run, with the status APPROXIMATE.

        This is for rows that were read once: there are no data left from which the problem could compute the residual.
        """
        text = ENDED.format(
            columns=count_of(columns, "column"), residual=self.residual(AtAZ, V, S), probes=PROBES
        )
        run.note(Status.APPROXIMATE, text)


def solved_in_one_sweep(problem: Any, run: Run, Omega: HostArray) -> Solution:
    """The solution from a sketch with Omega (p x columns), in one sweep of streamed rows."""
    moments, columns = run.moments("implicit"), Omega.shape[1]
    home = moments.home
    probes = Probes(run, Omega.shape[0], home)
    products = moments.products(probes.beside(home.place(Omega)), triangle=columns)
    product, R = products[0], products.triangle
    unit = float(np.finfo(problem.A.dtype).eps)
    H = product[:, :columns] @ home.place(inverse_triangle(R, unit))
    V, S = _leading(H, problem.k, max(squared_cuts(problem.A)), home)
    probes.note(run, columns, product[:, columns:], V, S)
    say_what_is_lost(run, S, "in one sweep", ANEW)
    return run.finish(Vh=V.T, S=S)


def say_what_is_lost(run: Run, S: HostArray, how: str, remedy: str) -> None:
    """Report in the message of the run that squaring loses digits, if the error eps (σ₁/σ)² is above `LOST`.

    σ is the smallest singular value in `S`, and eps is that of the data; for float32 data the limit is 100 eps. `how`
    and `remedy` are parts of the message.
    """
    unit = float(np.finfo(run.problem.A.dtype).eps)
    lost = unit * float(S[0] / S[-1]) ** 2 if len(S) else 0.0
    if lost > max(LOST, 100 * unit):
        run.note(
            Status.ILL_CONDITIONED,
            f"The singular values asked for fall to {S[-1] / S[0]:.0e} of the largest: {how}, the smallest "
            f"directions are off by about {lost:.0e}. {remedy}",
        )


def inverse_triangle(R: HostArray, unit: float = EPS) -> HostArray:
    """Return T with (R T)ᵀ(R T) = I, of shape (columns of R, rank).

    The columns of R are first scaled to length 1. Directions in which the squared singular values of the scaled R are
    only rounding (relative to the largest, in units of `unit`) are dropped.
    """
    lengths = np.linalg.norm(R, axis=0)
    scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    _, s, Wt = np.linalg.svd(R * scale, full_matrices=False)
    keep = s**2 > len(scale) * unit * s.max(initial=0.0) ** 2
    inverse: HostArray = scale[:, None] * (Wt[keep].T / s[keep])
    return inverse


def _leading(H: Array, k: int, cut: float, home: Home) -> tuple[Array, HostArray]:
    """Left vectors and values of the k largest singular triplets of a tall block, above rounding."""
    if H.shape[1] == 0:
        return H, np.zeros(0)
    U, s, _ = home.xp.linalg.svd(H, full_matrices=False)
    S = to_host(s)
    count = int(np.sum(S[:k] ** 2 > cut * S[0] ** 2))
    return U[:, :count], S[:count]
