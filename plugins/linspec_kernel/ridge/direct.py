"""Kernel ridge regression by Cholesky: for kernel matrices that fit into memory.

Problem: (M + r I) b = t for every target t and every ridge r, with the kernel matrix M of n rows.
Method: LLᵀ = M + r I for each ridge, n³/3 multiplications. Where M + r I is not positive definite by rounding, the
ridge is below the rounding of M: then M = U diag(w) Uᵀ, and b = U (w + r)⁻¹ Uᵀt with negative w set to zero.
Source: Saunders, Gammerman & Vovk 1998, ICML, Ridge regression learning algorithm in dual variables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from linspec.arrays import HOST, HostArray
from linspec.cost import DENSE_RATE, FACTOR_RATE, Estimate, Sizes
from linspec.iteration import Context, Iterate
from linspec.solving import Solver
from linspec_kernel.kcca import eigen_of


@dataclass(frozen=True, kw_only=True)
class Direct(Solver):
    """A Cholesky factorisation of M + r I for each ridge (Saunders, Gammerman & Vovk 1998)."""

    def iterate(self, problem: Any, moments: Any, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the answer."""
        moments.settle(context.rng, form="tiled")
        T = HOST.place(moments.targets.unit)
        M = HOST.place(moments.op.dense())
        found, last = [], len(problem.ridges) - 1
        for i, r in enumerate(problem.ridges):
            b = solved(M if i == last else M.copy(), r, T)
            if b is None:
                w, U = eigen_of(moments.op)  # negative values by rounding count as zero
                found = [U @ ((U.T @ T) / (w + r)[:, None]) for r in problem.ridges]
                break
            found.append(b)
        dual = moments.home.place(np.hstack(found))
        yield Iterate(0.0, lambda: {"dual": dual, **moments.learnt()}, final=True)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of forming the kernel, a factorisation, and the product of the certificate."""
        n = float(sizes.n)
        seconds = n**3 / 3 / FACTOR_RATE + 2 * n**2 * (sizes.p + sizes.k) / DENSE_RATE
        return Estimate(seconds, 8 * 3 * n**2, f"a Cholesky factorisation of order {sizes.n}")


def solved(M: HostArray, ridge: float, T: HostArray) -> HostArray | None:
    """Solve (M + r I) B = T by Cholesky, overwriting M; return None if M + r I is not positive definite."""
    M[np.diag_indices(len(M))] += ridge
    try:
        factor = scipy.linalg.cho_factor(M.T, lower=True, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        return None
    found: HostArray = scipy.linalg.cho_solve(factor, T, check_finite=False)
    return found
