"""The singular value decomposition by orthogonal transformations: the oracle.

Problem: the k leading singular triplets of A, to full accuracy relative to the largest.
Method: the rows are reduced to a triangle R by Householder transformations, block after block (one sweep),
and the SVD of R has the singular values and the right vectors of A (Chan 1982). The same transformations
centre the columns. Left vectors, on request, take one more sweep. With more columns than rows the entries
themselves are decomposed, because their triangle would be as large.
Source: Chan 1982, doi:10.1145/355984.355990; the reduction in blocks is that of Demmel, Grigori, Hoemmen & Langou 2012.
Where we differ: left vectors are A V made orthonormal. Otherwise the transformations would have to be stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec import Run, Solution, Solver
from linspec.arrays import Array, HostArray, to_host
from linspec.cost import FACTOR_RATE, Estimate, Sizes
from linspec.moments import reduce_rows_of
from linspec_svd.triplets import left_vectors, share_below_rounding


@dataclass(frozen=True, kw_only=True)
class DirectSVD(Solver):
    """Orthogonal reduction of the rows and the SVD of the triangle (Chan 1982)."""

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve an SVD problem."""
        before = 0.0 if problem.sweeps == 1 else run.moments("implicit").cost.setup
        run.plan(setup=before + passes(problem))
        return run.finish(**factorised(problem, run))

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of an orthogonal reduction of all rows and the SVD of a square of the shorter side's order."""
        if not sizes.readable:
            return None
        short, long = sorted((sizes.n, sizes.p))
        reducing = sizes.shared(2.5 * long * short**2 / FACTOR_RATE)
        entries = 10.0 * short**2 if sizes.n >= sizes.p else 4.0 * long * short
        return Estimate(
            reducing + 20.0 * short**3 / FACTOR_RATE,
            8.0 * (entries + sizes.k * (sizes.n + sizes.p)),
            f"orthogonal reduction to order {short}",
        )


def passes(problem: Any) -> float:
    """The sweeps of `factorised` when the means are known."""
    return 2.0 if problem.left and not _wide(problem) else 1.0


def factorised(problem: Any, run: Run) -> dict[str, Any]:
    """Return a dict of the leading singular triplets: Vh, S and U, the arguments of `Run.finish`.

    It has k triplets, or fewer if the numerical rank is below k. U is None if left vectors are not requested.
    """
    if _wide(problem):
        return _of_entries(problem, run)
    home = problem.A.home.blocks
    (R,) = reduce_rows_of(problem, run)
    _, s, Vt = home.xp.linalg.svd(R, full_matrices=False)
    S = to_host(s)
    k = _count(S, problem)
    V, S, U = Vt.T[:, :k], S[:k], None
    if problem.left:
        U, recomputed, V = left_vectors(problem.A, V)
        S = S if recomputed is None else recomputed
    return {"Vh": V.T, "S": S, "U": U}


def _wide(problem: Any) -> bool:
    """Whether the entries themselves are decomposed; never for rows that come slice by slice."""
    n, p = problem.A.shape
    return p > n and not problem.A.streamed


def _of_entries(problem: Any, run: Run) -> dict[str, Array]:
    """The leading triplets of wide data, by an SVD of the entries in float64."""
    home = problem.A.home.blocks
    entries = home.place(problem.A.dense())
    if not np.isfinite(float(to_host(home.xp.sum(entries)))):
        run.moments("implicit").columns.means()  # names the entry
    U, s, Vt = home.xp.linalg.svd(entries, full_matrices=False)
    S = to_host(s)
    k = _count(S, problem)
    return {"Vh": Vt[:k, :], "S": S[:k], "U": U[:, :k] if problem.left else None}


def _count(S: HostArray, problem: Any) -> int:
    """The number of requested singular values above rounding; a sweep must have counted the rows before."""
    return int(np.sum(S[: problem.k] > share_below_rounding(problem.A) * np.max(S, initial=0.0)))
