"""The singular value decomposition from the Gram matrix.

Problem: the k leading singular triplets of A, if one side of A is short.
Method: one pass forms AᵀA, or AAᵀ if there are more columns than rows. The eigenvectors are the singular
vectors of that side. The vectors of the other side take one more sweep and are made orthonormal to rounding.
Then the singular values come from that sweep.
Source: Golub & Van Loan 2013, section 8.6.
Where we differ: squaring loses singular values below √eps·σ₁, and such values are not returned. If they are
requested, a sweep checks whether the data are nonzero in these directions. If not, the rank is known. If so,
the rows are reduced by orthogonal transformations as in the solver "direct", or, without entries, the
solution has fewer triplets and says why. For values above this limit the solution reports lost digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec import LinearOperator, Run, Solution, Solver, Status
from linspec.algebra import EPS, leading_eigenpairs
from linspec.arrays import Array, Home, HostArray, to_host
from linspec.cost import DENSE_RATE, FACTOR_RATE, Estimate, Sizes, gram_seconds
from linspec.errors import NonFiniteData
from linspec.moments import RowGram
from linspec_svd.direct import factorised, passes
from linspec_svd.triplets import left_vectors, right_vectors, squared_cuts, vanish

BLOCK_WIDTH = 512
"""Up to this order, matrices of a device are decomposed on the host."""

DIGITS_LOST = 1e-8
"""The solution reports the loss of digits by squaring if the relative error of the smallest requested eigenvalue of AᵀA
exceeds this value."""


@dataclass(frozen=True, kw_only=True)
class GramSVD(Solver):
    """One pass and an eigen-decomposition (Golub & Van Loan 2013, section 8.6)."""

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve an SVD problem."""
        return self._wide(problem, run) if _wide(problem) else self._tall(problem, run)

    def _tall(self, problem: Any, run: Run) -> Solution:
        """Solve by the eigenvectors of AᵀA, which are the right singular vectors."""
        moments = run.moments("dense")
        run.plan(setup=moments.cost.setup + problem.left)
        values, V = _leading(moments.dense()[0], problem.k, moments.home)
        known = self._known(problem, run, values, V)
        if known is None:
            return run.finish(**factorised(problem, run))
        V, S, U = V[:, :known], np.sqrt(values[:known]), None
        if problem.left:
            U, recomputed, V = left_vectors(problem.A, V)
            S = S if recomputed is None else recomputed
        return run.finish(Vh=V.T, S=S, U=U)

    def _wide(self, problem: Any, run: Run) -> Solution:
        """Solve by the eigenvectors of AAᵀ, which are the left singular vectors."""
        moments = run.moments("implicit")
        rows = RowGram(problem.A)
        run.plan(setup=run.settling + 2.0)
        run.plan(setup=rows.cost + 1.0)  # computing the cost has read sparse rows
        A = problem.A
        try:
            K = rows.form()
        except NonFiniteData:
            moments.columns.means()  # the error names the row and column of A, not of the adjoint
            raise
        values, U = _leading(K, problem.k, moments.home)
        known = self._known(problem, run, values, U)
        if known is None:
            return run.finish(**factorised(problem, run))
        U, S, V = right_vectors(A, U[:, :known])
        return run.finish(Vh=V.T, S=S, U=U if problem.left else None)

    def _known(self, problem: Any, run: Run, values: HostArray, vectors: Array) -> int | None:
        """Return the number of triplets that the eigenvalues determine; None if solver "direct" must find them.

        That is the case if some eigenvalues are only rounding, a sweep finds data in the directions of their
        eigenvectors, the entries can be reduced by orthogonal transformations, and the budget allows it.
        """
        known_by_products = not (problem.A.readable or problem.A.streamed)
        squaring, entries = squared_cuts(problem.A, by_products=known_by_products)
        largest = max(float(values[0]), 0.0)
        known = int(np.sum(values > max(squaring, entries) * largest))
        if (
            known < len(values)
            and squaring > entries
            and largest > 0
            and not self._settled(problem, run, vectors[:, known:], largest**0.5)
        ):
            if _can_be_reduced(problem.A) and run.budget.affords(passes(problem)):
                return None
            text = f"Only {known} of the {problem.k} singular values asked for are above {squaring**0.5:.0e} of the "
            text += 'largest. Below it, the Gram matrix cannot distinguish them from zero. Choose "direct".'
            run.note(Status.ILL_CONDITIONED, text)
        elif known and EPS * largest > DIGITS_LOST * float(values[known - 1]):
            lost = EPS * largest / float(values[known - 1])
            text = f"The singular values asked for fall to {(values[known - 1] / largest) ** 0.5:.0e} of the largest: "
            text += f"the relative error of squares and vectors of the smallest may be {lost:.0e}. The residual is "
            text += 'relative to the largest and does not show this. Choose "direct".'
            run.note(Status.ILL_CONDITIONED, text)
        return known

    def _settled(self, problem: Any, run: Run, vectors: Array, largest: float) -> bool:
        """Whether the data vanish, up to rounding, along `vectors`, whose eigenvalues are only rounding.

        The check takes a sweep. If the budget does not allow the sweep, the result is False.
        """
        wide = _wide(problem)
        reserve = 1.0 if wide else float(problem.left)
        if not run.budget.affords(1.0 + reserve):
            return False
        A = problem.A
        return vanish(A.H if wide else A, vectors, largest)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of the Gram matrix of the shorter side and some of its eigenvectors."""
        side = min(sizes.n, sizes.p)
        forming = gram_seconds(sizes) if sizes.readable else 2.0 * sizes.nnz * side / DENSE_RATE
        flops = 2.0 * side**3 + 4.0 * side**2 * min(sizes.k, side)
        entries = 3.0 * side**2 + 2.0 * sizes.k * (sizes.n + sizes.p)
        return Estimate(
            forming + flops / FACTOR_RATE, 8.0 * entries, f"Gram matrix of order {side} and its eigenvectors"
        )


def _wide(problem: Any) -> bool:
    """Whether AAᵀ is formed; never for rows that come slice by slice, because no slice has whole columns."""
    n, p = problem.A.shape
    return p > n and not problem.A.streamed


def _can_be_reduced(A: LinearOperator) -> bool:
    """Whether solver "direct" can solve for A: its entries must be readable, and wide data must not be sparse.

    "direct" holds wide data (more columns than rows) as a dense array.
    """
    n, p = A.shape
    return A.readable and (p <= n or A.nnz >= n * p)


def _leading(G: Array, k: int, home: Home) -> tuple[HostArray, Array]:
    """The k largest eigenvalues of a symmetric matrix, decreasing, and their eigenvectors."""
    order = G.shape[0]
    if home.on_host or order <= BLOCK_WIDTH:
        values, vectors = leading_eigenpairs(to_host(G), k)
        return values[::-1], home.place(np.ascontiguousarray(vectors[:, ::-1]))
    values, vectors = home.xp.linalg.eigh(G)
    return to_host(values)[::-1][:k], home.xp.flip(vectors[:, order - k :], axis=1)
