"""Randomized CCA: a range finder for the cross product, then the exact CCA within the ranges found.

Problem: approximate the k leading canonical pairs in as few sweeps as possible.
Method: one sweep multiplies random blocks, Y_x = C Ω_y and Y_y = Cᵀ Ω_x with C = XᵀY. Each power sweep
multiplies the orthonormal bases of these once more. The last sweep solves the exact CCA of X Q_x and Y Q_y,
including the ridge. Without power sweeps there are two sweeps in all.
Source: Mineiro & Karampatziakis 2014, arXiv:1411.3409; the range finder is that of Halko, Martinsson & Tropp 2011,
doi:10.1137/090771806.
Where we differ: the last sweep also yields the residual, so the certificate costs nothing. If C has a rank
below k, columns of Sx Ω_x and Sy Ω_y from the first sweep are added, because uncorrelated pairs are pairs,
too. Limit of the method: the range of C is not whitened. Directions that are correlated but short in the data
are found late or never, and power sweeps favour the long ones even more. A wider block helps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec import (
    CCA,
    Moments,
    Normalizer,
    Run,
    Solution,
    Solver,
    Status,
    TestMatrix,
    form_option,
    option,
    part,
)
from linspec.arrays import Array, Home, to_host
from linspec.families.cca import block_width
from linspec.moments import NOISE
from linspec.process import count_of

ENDED = "The best pairs within {columns}, {powers}: the residual shows how good they are. "
ENDED += 'Raise oversample, or choose a solver that iterates to a tolerance, such as "als".'


@dataclass(frozen=True, kw_only=True)
class Randomized(Solver):
    """Randomized range finder and exact CCA within it (Mineiro & Karampatziakis 2014, arXiv:1411.3409)."""

    oversample: int = option(100, "columns beyond k", at_least=0)
    power_sweeps: int = option(
        0, "times to multiply by the cross product once more, a sweep each", at_least=0
    )
    test_matrix: Any = part("gaussian", "random start", kind="test-matrix")
    normalizer: Any = part("cholesky-qr", "how bases are made orthonormal", kind="normalizer")
    form: str = form_option()

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a CCA problem."""
        columns, powers = block_width(problem, self.oversample), self.power_sweeps
        moments = run.moments(self.form, expect=(2 + powers, columns))
        parts = run.part(self.test_matrix), run.part(self.normalizer)
        phi, psi = range_blocks(problem, run, moments, columns, *parts, power_sweeps=powers)
        run.note(
            Status.APPROXIMATE,
            ENDED.format(columns=count_of(columns, "random column"), powers=count_of(powers, "power sweep")),
        )
        return run.finish(x_weights=phi, y_weights=psi)


def range_blocks(
    problem: CCA,
    run: Run,
    moments: Moments,
    columns: int,
    test_matrix: TestMatrix,
    normalizer: Normalizer,
    *,
    power_sweeps: int = 0,
) -> tuple[Array, Array]:
    """Blocks that approximately span the leading ranges of C and Cᵀ, as a start for iterations.

    Parameters
    ----------
    problem : CCA
    run : Run
        Source of the random numbers, which are drawn first for X and then for Y.
    moments : Moments
    columns : int
        The number of columns, at most as many as the views have.
    test_matrix : TestMatrix
    normalizer : Normalizer
    power_sweeps : int, default 0
        Sweeps beyond the first one.

    Returns
    -------
    (phi, psi) : arrays of shape (p, columns) and (q, columns)
        Orthonormal columns. There are fewer than `columns` if C has lower rank, and fewer than k only if the rank of a
        view is below k.
    """
    home = moments.home
    phi, psi = (home.place(test_matrix.draw(A.shape[1], columns, run.rng)) for A in (problem.X, problem.Y))
    Sphi, Cpsi, Ctphi, Spsi = moments.products(phi, psi)
    others = Sphi, Spsi
    for _ in range(power_sweeps):
        phi, psi = (normalizer.orthonormalize(V)[0] for V in (Cpsi, Ctphi))
        _, Cpsi, Ctphi, _ = moments.products(phi, psi)
    phi, psi = (
        _filled(normalizer.orthonormalize(V)[0], W, problem.k, normalizer, home)
        for V, W in zip((Cpsi, Ctphi), others, strict=True)
    )
    return phi, psi


def _filled(Q: Array, others: Array, k: int, normalizer: Normalizer, home: Home) -> Array:
    """Return Q, with columns added until there are k: parts of `others` orthogonal to Q, in the view's range."""
    if Q.shape[1] >= k:
        return Q
    xp = home.xp
    rest = others - Q @ (Q.T @ others)
    rest = rest - Q @ (Q.T @ rest)
    squares = to_host(xp.stack([xp.sum(rest * rest, axis=0), xp.sum(others * others, axis=0)]))
    real = squares[0] > NOISE**2 * squares[1]
    rest = normalizer.orthonormalize(rest * home.place(real.astype(np.float64))[None, :])[0]
    return home.concat([Q, rest[:, : min(k - Q.shape[1], rest.shape[1])]])
