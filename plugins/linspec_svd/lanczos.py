"""Lanczos iterations of SciPy's ARPACK and PROPACK on the products of the data.

Problem: the k leading singular triplets of A, one product with one vector at a time.
Method: `eigsh` (ARPACK, implicitly restarted Lanczos) runs on v ↦ AᵀA v, one sweep for each product; `svds` with
PROPACK (`propack`) runs on A and Aᵀ in turn. The Ritz pairs of the vectors that they multiply are known at any time
(`ritz_pairs`): progress, tolerance and budget use them. A block of random vectors orthogonal to the pairs found then
looks for copies of repeated values (`block_apart`); it costs about ten sweeps of four columns if none is missing. If
the budget has no room for it, or ends before all copies are found, the solution reports it.
"gram" and "direct" miss no copies.
Source: Lehoucq, Sorensen & Yang 1998, ARPACK users' guide; Larsen 1998, Lanczos bidiagonalization with partial
reorthogonalization (PROPACK).
Where we differ: the tolerance is that of the law (the problem's own test of an answer), relative to σ₁², and the
library is stopped as soon as it is met. The library gets the same number as its own tolerance, which is relative to
each value and thus never looser. ARPACK takes values below eps^(2/3) for zero, so products are in units in which the
first is near 1. Where it stops before the law is satisfied, block Lanczos steps follow. If PROPACK fails, ARPACK starts
from the beginning. Vectors are those of AAᵀ if sparse data in memory have few rows (`gram_products`). Arrays of other
libraries than NumPy are multiplied on their device, and the vectors iterate on the host; CuPy's own `svds` cannot be
monitored. The libraries call back, and their state is not accessible: this is no generator, and no run of it continues
from a checkpoint.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse.linalg import ArpackError, eigsh
from scipy.sparse.linalg import LinearOperator as SciPyOperator

from linspec import Run, Solution, Solver, Status, form_option, limit_option, option, tol_option
from linspec.arrays import Array, HostArray
from linspec_svd.block_apart import BlockApart
from linspec_svd.ending import answer
from linspec_svd.gram_products import GramProducts
from linspec_svd.propack import Bidiagonal
from linspec_svd.ritz_pairs import Recorder, Ritz, Stopped

FEWEST_VECTORS = 20
"""Least number of basis vectors of ARPACK; SciPy's own default."""

LONGEST_BASIS = (10, 100)
"""Largest number of basis vectors of PROPACK: 10 for each triplet (SciPy's own default), or 100 if that is more."""

UNLIMITED = 10**9
"""Restarts allowed to ARPACK; the run ends them earlier."""


@dataclass(frozen=True, kw_only=True)
class Lanczos(Solver):
    """ARPACK or PROPACK with recorded products (Lehoucq, Sorensen & Yang 1998; Larsen 1998)."""

    method: str = option("arpack", "the library that iterates", choices=("arpack", "propack"))
    basis: int | None = option(
        None, "vectors of a basis; none: max(2k + 1, 20) for arpack, max(10k, 100) for propack", at_least=2
    )
    tol: float | None = tol_option()
    max_iterations: int = limit_option(500, "looks at the basis, each after a cycle of products,")
    form: str = form_option()

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve an SVD problem."""
        k, propack = problem.k, self.method == "propack"
        AtA = GramProducts(problem, run, "implicit" if propack else self.form, (k + 100, 1))
        whole = k == AtA.length
        basis = max(2 * k + 1, FEWEST_VECTORS) if self.basis is None else max(self.basis, k + 1)
        recorder = Recorder(run, AtA, k, min(AtA.length, basis))
        run.offer(recorder.so_far)
        with run.budget.reserving(AtA.after):
            if whole:  # a basis of all directions takes one product
                eye = np.eye(k)
                recorder.judge(Ritz.of(eye, recorder.multiplied(eye), k))
            else:
                self._iterate(problem, run, recorder)
            space = BlockApart(recorder)
            converged = not run.ended and space.iterate_to_tolerance()
            pairs = space.pairs_after_search() if converged and not recorder.whole else space.pairs()
            if not run.ended:
                space.proceed()
        found = [pairs]

        def resume() -> None:
            space.resume()
            found.append(space.pairs())

        def last() -> tuple[Array, HostArray]:
            V, theta = found[-1]
            return V, theta / (AtA.scale or 1.0)

        return run.finish(**answer(problem, run, last, resume, of_rows=AtA.of_rows))

    def _iterate(self, problem: Any, run: Run, recorder: Recorder) -> None:
        """Run PROPACK if it was chosen. Run ARPACK if PROPACK was not chosen, or has failed.

        PROPACK has failed if it returns before the residual is within the tolerance and before the run has ended:
        because it did not converge, found no further direction, or violated its recurrence. ARPACK then starts from the
        beginning, if the budget allows k + 1 products.
        """
        k = problem.k
        if self.method == "propack":
            longest = max(LONGEST_BASIS[0] * k, LONGEST_BASIS[1]) if self.basis is None else recorder.width
            Bidiagonal(problem, run, recorder, min(*problem.A.shape, longest)).run()
            if not recorder.ended and not run.budget.affords((k + 1) * recorder.AtA.sweep):
                run.end(Status.BUDGET)
                recorder.judge(recorder.ritz)
        if recorder.ended:
            return
        start = run.rng.standard_normal(recorder.AtA.length)
        start *= 2.0 / np.linalg.norm(start)  # not 1: this distinguishes it from basis vectors
        operator = SciPyOperator((len(start), len(start)), matvec=recorder.product, dtype=np.float64)
        options = {"rng": run.rng} if "rng" in inspect.signature(eigsh).parameters else {}
        failure = None
        try:
            eigsh(operator, k, v0=start, ncv=recorder.width, tol=run.tol, maxiter=UNLIMITED, **options)
        except Stopped:
            return
        except ArpackError as error:
            failure = error if recorder.count else None  # otherwise all products were zero
        recorder.look()
        if failure is not None and not recorder.ended:
            run.note(Status.BREAKDOWN, f"ARPACK gave up: {failure}")
            run.end(Status.BREAKDOWN)
            recorder.judge(recorder.ritz)
