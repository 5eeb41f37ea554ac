"""Stochastic principal components of rows that are read once, and what can be said of an answer nobody can check.

Problem: about the k leading singular triplets of rows that come slice by slice and are gone then.
Method: per slice Y = AᵢΩ, and Bᵀ = Σ AᵢᵀY and the triangle of the QR factorisation of [R; Y] are updated. In the end
R⁻ᵀB is QᵀA for the orthonormal Q = AΩR⁻¹ that is never formed, and its SVD is the answer (Wojnowicz 2017,
arXiv:1709.07175, Algorithm 3). Centring: a leading column of ones goes through the same QR factorisations, and B is
kept about the means of the rows so far.
Where we differ. The triangle is exact to rounding, and yet the answer spans the rows of B: it is as accurate as that of
`lazy-spca`, to eps (σ₁/σ_k)², and not to eps σ₁/σ_k as that of two sweeps is. Above σ₁/σ_k of about a thousand the
solution says so. And ten more random columns Z ride in the sweep: for r = AᵀAv − σ²v, ‖Zᵀr‖²/10 estimates ‖r‖², because
Z has nothing to do with Ω. Each residual is met within a factor of two or so.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from linspec import Run, Solution, Status
from linspec.arrays import Array, Home, HostArray, to_host
from linspec_svd.triplets import squared_cuts

PROBES = 10
"""Random columns from which residuals are estimated."""

LOST = 1e-10
"""Error of the subspace by squaring above which the solution says so: σ₁/σ_k of a thousand in float64.

What squaring twice may lose, too. Of float32 data, a hundred roundings.
"""

ANEW = "Pass a callable that returns the slices anew."

ENDED = "A sketch of {columns} columns in one pass, which leaves nothing to check it against: estimated residual about "
ENDED += "{residual:.0e} (from {probes} random columns that rode in the same sweep). "
ENDED += "A callable that returns the slices anew would be judged, and may be read until a tolerance is met."


class Probes:
    """Gaussian columns that ride in a sweep, to estimate the residuals of what comes of it.

    Parameters
    ----------
    run : Run
        The columns come from its random numbers: draw what the method needs first.
    rows : int
        Columns of the data.
    home : Home
        Where the columns are wanted.
    """

    def __init__(self, run: Run, rows: int, home: Home) -> None:
        self.Z = home.place(run.rng.standard_normal((rows, PROBES)))
        self.home = home

    def beside(self, V: Array) -> Array:
        """A block with the probes behind it."""
        return self.home.concat([V, self.Z])

    def residual(self, AtAZ: Array, V: Array, S: HostArray) -> float:
        """The estimate of the largest ‖AᵀAv − σ²v‖ / σ₁²."""
        if len(S) == 0:
            return 0.0
        gaps = to_host(AtAZ.T @ V) - to_host(self.Z.T @ V) * S**2
        return float(np.sqrt(np.sum(gaps**2, axis=0).max() / PROBES) / S[0] ** 2)

    def note(self, run: Run, columns: int, AtAZ: Array, V: Array, S: HostArray) -> None:
        """Say what is known of an answer that cannot be judged."""
        text = ENDED.format(columns=columns, residual=self.residual(AtAZ, V, S), probes=PROBES)
        run.note(Status.APPROXIMATE, text)


def solved_in_one_sweep(problem: Any, run: Run, Omega: HostArray) -> Solution:
    """The solution from a sketch with Omega (p x columns), in one sweep of streamed rows."""
    moments, columns = run.moments("implicit"), Omega.shape[1]
    home = moments.home
    probes = Probes(run, Omega.shape[0], home)
    product, R = moments.gram_and_triangle(probes.beside(home.place(Omega)), columns)
    unit = float(np.finfo(problem.A.dtype).eps)
    H = product[:, :columns] @ home.place(_inverse(R, unit))
    V, S = _leading(H, problem.k, max(squared_cuts(problem.A)), home)
    probes.note(run, columns, product[:, columns:], V, S)
    say_what_is_lost(run, S, "in one sweep", ANEW)
    return run.finish(Vh=V.T, S=S)


def say_what_is_lost(run: Run, S: HostArray, how: str, remedy: str) -> None:
    """That squaring loses digits, where that is to be seen in the triplets asked for."""
    unit = float(np.finfo(run.problem.A.dtype).eps)
    lost = unit * float(S[0] / S[-1]) ** 2 if len(S) else 0.0
    if lost > max(LOST, 100 * unit):
        run.note(
            Status.ILL_CONDITIONED,
            f"The singular values asked for fall to {S[-1] / S[0]:.0e} of the largest: {how}, the smallest "
            f"directions are off by about {lost:.0e}. {remedy}",
        )


def _inverse(R: HostArray, unit: float) -> HostArray:
    """T with (R T)ᵀ(R T) = I over what is more than rounding of the squares of R, columns scaled alike."""
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
