"""Stochastic principal components: a random projection, an orthonormal basis, a small SVD.

Problem: approximate the k leading singular triplets of A, in as few sweeps as possible.
Method: Y = AΩ for a random Ω of k + oversampling columns, Q = orth(Y). The SVD of QᵀA approximates the leading right
vectors and singular values of A. Each power iteration, Q = orth(A orth(AᵀQ)), takes two sweeps. It helps if the
singular values fall slowly, because their powers fall faster.
Source: Halko, Martinsson & Tropp 2011, doi:10.1137/090771806, Algorithms 4.4 and 5.1; Wojnowicz 2017, Algorithm 1.
Where we differ: a normalizer, given by name, makes Y orthonormal, because this is most of the cost. For rows that can
be read only once Y is not kept: `linspec_svd.single_sweep` takes one sweep, with the accuracy of squares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec import Run, Solution, Solver, Status, option, part
from linspec.arrays import to_host
from linspec_svd.single_sweep import solved_in_one_sweep
from linspec_svd.triplets import decomposed, right_vectors, share_below_rounding, size_of_means

ENDED = "A sketch of {columns} columns, {powers} power iterations: the residual shows how good it is. "
ENDED += 'Raise both numbers, or choose "block-krylov", which iterates to a tolerance.'


@dataclass(frozen=True, kw_only=True)
class SPCA(Solver):
    """Randomized SVD with an orthonormal basis (Halko, Martinsson & Tropp 2011; Wojnowicz 2017, Algorithm 1)."""

    oversampling: int = option(10, "columns of the sketch beyond the triplets wanted", at_least=0)
    power_iterations: int = option(0, "times to go back and forth, two sweeps each", at_least=0)
    test_matrix: Any = part("gaussian", "what the sketch multiplies", kind="test-matrix")
    normalizer: Any = part("cholesky-qr", "how the sketch is made orthonormal", kind="normalizer")

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve an SVD problem."""
        n, p = problem.A.shape
        moments = run.moments("implicit")
        powers = self.power_iterations
        columns = min(problem.k + self.oversampling, n, p)
        if problem.sweeps == 1 and not (powers or problem.left):
            run.plan(setup=1.0)
            return solved_in_one_sweep(problem, run, run.part(self.test_matrix).draw(p, columns, run.rng))
        run.plan(setup=moments.means_cost * problem.center + 2.0 + 2.0 * powers)
        normalizer, home = run.part(self.normalizer), moments.home
        A = decomposed(problem, run)
        Omega = run.part(self.test_matrix).draw(p, columns, run.rng)
        with np.errstate(all="ignore"):  # values that are not finite are found below
            Y = home.place(A.matmat(home.place(Omega)))
            if not np.isfinite(float(to_host(home.xp.sum(Y)))):
                run.moments("implicit").column_sums()  # names the entry
        Q, _ = normalizer.orthonormalize(Y)
        for _ in range(powers):
            P, _ = normalizer.orthonormalize(A.rmatmat(A.home.place(Q, A.dtype)))
            Q, _ = normalizer.orthonormalize(home.place(A.matmat(P)))
        U, S, V = right_vectors(A, Q, problem.k)
        largest = max(float(np.max(S, initial=0.0)), size_of_means(run))
        rounding = share_below_rounding(problem.A) * largest
        k = min(problem.k, int(np.sum(rounding < S)))
        run.note(Status.APPROXIMATE, ENDED.format(columns=columns, powers=powers))
        return run.finish(Vh=V.T[:k, :], S=S[:k], U=U[:, :k] if problem.left else None)
