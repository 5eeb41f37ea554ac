"""Lanczos iterations of SciPy's ARPACK on the products of the data.

Problem: the k leading singular triplets of A, one product with one vector at a time.
Method: `eigsh` (ARPACK, implicitly restarted Lanczos) runs on v ↦ AᵀAv, one pass for each product.
Source: Lehoucq, Sorensen & Yang 1998, ARPACK users' guide.
Where we differ: the library calls back, so its iteration cannot be watched. Block Lanczos steps from their vectors
and a few random ones follow: they tell the residual, go on where the library gave up, and look for more copies of
repeated values, of which a single vector meets one. One product with a random block comes first: its Ritz pairs are
the answer where a limit ends the library. ARPACK takes values below eps^(2/3) for zero, so its products are in units of
their largest value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, eigsh
from scipy.sparse.linalg import LinearOperator as SciPyOperator

import linspec as ls
from linspec import form_option, limit_option, option, tol_option
from linspec.arrays import HostArray, to_host
from linspec.iteration import Context, Iterate
from linspec.linalg import block_krylov
from linspec.rows import Moments
from linspec.solving import Solver
from linspec_svd.block_krylov import REPEATED, copies, of_columns, relative, searched

FEWEST_VECTORS = 20
"""Vectors of a basis of ARPACK, at least; SciPy's own default."""

COPIES = 4
"""Columns of the blocks that look for more copies of a value."""


@dataclass(frozen=True, kw_only=True)
class Lanczos(Solver):
    """ARPACK on products (Lehoucq, Sorensen & Yang 1998)."""

    basis: int | None = option(None, "vectors of a basis; none: max(2k + 1, 20)", at_least=2)
    tol: float | None = tol_option()
    max_iterations: int = limit_option(500, "restarts of the library,")
    form: str = form_option()

    def iterate(self, problem: ls.SVD, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the pairs of the library, and of the steps that follow."""
        k, (n, p) = problem.k, moments.operators[0].shape
        moments.expect(k + 100, 1, self.form)
        width = min(max(self.basis or max(2 * k + 1, FEWEST_VECTORS), k + 1), p)
        asarray, rng = moments.device.asarray, context.rng
        first = asarray(rng.standard_normal((p, min(p, k + COPIES))))
        begun = next(block_krylov(moments.gram_product, first, k, rng))
        yield Iterate(relative(begun, k), partial(of_columns, begun), doubt=REPEATED)
        V, largest = np.zeros((p, 0)), float(begun.values[0])
        if k < min(n, p) - 1 and largest > 0:

            def multiply(v: HostArray) -> HostArray:
                return to_host(moments.gram_product(asarray(v.reshape(-1, 1))))[:, 0] / largest

            S = SciPyOperator((p, p), matvec=multiply, dtype=np.float64)
            v = rng.standard_normal(p)
            try:
                V = eigsh(S, k, v0=v, ncv=width, tol=context.tol, maxiter=self.max_iterations)[1]
            except ArpackNoConvergence as error:  # not all have converged
                V = np.asarray(error.eigenvectors)
            except (ArpackError, np.linalg.LinAlgError):
                V = V[:, :0]
        # Block Lanczos steps from the vectors of the library
        count = V.shape[1]
        fresh = rng.standard_normal((p, min(p - count, COPIES if count else k + COPIES)))
        for pairs in block_krylov(moments.gram_product, asarray(np.hstack([V, fresh])), k, rng):
            residual = relative(pairs, k)
            if residual <= context.tol and copies(pairs.values, context.tol) > 1:
                b = min(COPIES, p)
                yield from searched(moments.gram_product, pairs, b, context, of_columns, REPEATED)
            else:
                yield Iterate(residual, partial(of_columns, pairs))
