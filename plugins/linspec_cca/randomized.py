"""Randomized CCA: a range finder for the cross product, then the exact CCA of what it found.

Problem: about the k leading canonical pairs, in as few sweeps as can be.
Method: one sweep multiplies random blocks, Y_x = C Ω_y and Y_y = Cᵀ Ω_x with C = XᵀY; each power sweep multiplies the
orthonormal bases of these once more. In the last sweep the exact CCA of X Q_x and Y Q_y is solved, ridge included.
Two sweeps in all without power sweeps.
Source: Mineiro & Karampatziakis 2014, arXiv:1411.3409; the range finder is that of Halko, Martinsson & Tropp 2011,
doi:10.1137/090771806.
Where we differ: the last sweep is the one by which every answer is judged, so the certificate costs nothing. Where C
has a rank below k, columns of Sx Ω_x and Sy Ω_y from the first sweep take the empty places: pairs that are not
correlated are pairs, too.
What no choice of options mends: the range of C is not whitened. Directions that are correlated but short in the data
are found late or never, and power sweeps bring up the long ones still more; a wide block is what helps.
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
from linspec_cca.pairs import NOISE, block_width

ENDED = "The best pairs within {columns} random columns, {powers} power sweeps: the residual says how good they are. "
ENDED += 'Raise oversample, or choose a solver that goes on to a tolerance, such as "als".'


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
        run.plan(setup=moments.setup_cost + (1 + powers) * moments.sweep_cost)
        parts = run.part(self.test_matrix), run.part(self.normalizer)
        phi, psi = range_blocks(problem, run, moments, columns, *parts, power_sweeps=powers)
        run.note(Status.APPROXIMATE, ENDED.format(columns=columns, powers=powers))
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
    """Blocks that about span the leading ranges of C and Cᵀ: where an iteration may begin.

    Parameters
    ----------
    problem : CCA
    run : Run
        Its random numbers are drawn: first those of X, then those of Y.
    moments : Moments
    columns : int
        At most as many as the views have.
    test_matrix : TestMatrix
    normalizer : Normalizer
    power_sweeps : int, default 0
        Sweeps beyond the first one.

    Returns
    -------
    (phi, psi) : arrays of shape (p, columns) and (q, columns)
        Orthonormal columns; fewer than asked for where C has lower rank, and fewer than k where a view has.
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
    """At least k columns: after those of Q, what other columns of the view's range have beside them, if anything."""
    if Q.shape[1] >= k:
        return Q
    xp = home.xp
    rest = others - Q @ (Q.T @ others)
    rest = rest - Q @ (Q.T @ rest)
    squares = to_host(xp.stack([xp.sum(rest * rest, axis=0), xp.sum(others * others, axis=0)]))
    real = squares[0] > NOISE**2 * squares[1]
    rest = normalizer.orthonormalize(rest * home.place(real.astype(np.float64))[None, :])[0]
    return home.concat([Q, rest[:, : min(k - Q.shape[1], rest.shape[1])]])
