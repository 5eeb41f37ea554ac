"""Kernel ridge regression by Cholesky, or by block conjugate gradients with a Nyström preconditioner.

Problem: (M + r I) B = T for all targets and ridges r, with the kernel matrix M of n rows, which fits into memory or
not. A product with it costs n² p, and with a block of columns hardly more than with one column.
Method: "direct" makes LLᵀ = M + r I for each ridge, n³/3 multiplications. Where M + r I is not positive definite by
rounding, the ridge is below the rounding of M: then M = U diag(w) Uᵀ, and b = U (w + r)⁻¹ Uᵀt with negative w set to
zero. "nystrom-pcg" has a system for each ridge; one product with M serves the directions of all of them. With
W = (LLᵀ + r I)⁻¹ and A = M + r I, an iteration is

    G = PᵀAP,   B ← B + P G⁻¹ z,   Q τ ← Q − A P G⁻¹ with QᵀWQ = I,   z ← τ z,   P ← W Q + P τᵀ,   R = Q z.

LLᵀ is the Nyström approximation of M from m landmarks, which randomly pivoted Cholesky draws. Dependent directions
leave Q. Random columns widen narrow blocks: they deflate large eigenvalues of W A that the landmarks miss.
Source: Saunders, Gammerman & Vovk 1998, ICML, Ridge regression learning algorithm in dual variables; Dubrulle 2001,
ETNA 12:216 (`linspec.linalg.cg_steps`); Ji & Li 2017, BIT Numer. Math. 57, doi:10.1007/s10543-016-0631-z, for blocks
whose directions become dependent; Frangella, Tropp & Udell 2023, SIAM J. Matrix Anal. Appl. 44(2),
doi:10.1137/21M1466244, and Díaz, Epperly, Frangella, Tropp & Webber 2023, arXiv:2304.12465, for the preconditioner;
Chen, Epperly, Tropp & Webber 2025, Comm. Pure Appl. Math. 78(5), doi:10.1002/cpa.22234, for the landmarks.
Where we differ: outside the span of L the preconditioner is 1/r, not 1/(λ + r) with the least eigenvalue λ of LLᵀ.
Then almost all eigenvalues of W A are 1, and the few large ones cost an iteration each. Residuals are computed anew
where the certificate finds them larger than the recurrence says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg

from linspec import limit_option, option, tol_option
from linspec.arrays import HOST, Array
from linspec.cost import DENSE_RATE, FACTOR_RATE, Estimate, Sizes
from linspec.features import drawn_rows
from linspec.iteration import ROUNDING, Context, Iterate, solved_by_ridge
from linspec.linalg import Steps, cg_steps
from linspec.solving import Solver
from linspec_kernel.kcca import eigen_of
from linspec_kernel.moments import PER_ENTRY, ByTiles, Nystrom, default_landmarks
from linspec_kernel.ridge.problem import KernelRidge


@dataclass(frozen=True, kw_only=True)
class Direct(Solver):
    """A Cholesky factorisation of M + r I for each ridge (Saunders, Gammerman & Vovk 1998)."""

    def iterate(self, problem: KernelRidge, moments: Any, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the answer."""
        moments.fit(context.rng, form="tiled")
        T = HOST.asarray(moments.targets.unit)
        M = HOST.asarray(moments.op.dense())
        duals, last = [], len(problem.ridges) - 1
        for i, r in enumerate(problem.ridges):
            A = M if i == last else M.copy()
            A[np.diag_indices(len(A))] += r
            try:
                factor = scipy.linalg.cho_factor(A.T, lower=True, overwrite_a=True, check_finite=False)
            except np.linalg.LinAlgError:
                w, U = eigen_of(moments.op)  # negative values by rounding count as zero
                duals = [U @ ((U.T @ T) / (w + r)[:, None]) for r in problem.ridges]
                break
            duals.append(scipy.linalg.cho_solve(factor, T, check_finite=False))
        dual = moments.device.asarray(np.hstack(duals))
        yield Iterate(0.0, lambda: {"dual": dual, **moments.learnt()}, final=True)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate:
        """Estimated cost of forming the kernel, a factorisation, and the product of the certificate."""
        n = float(sizes.n)
        seconds = n**3 / 3 / FACTOR_RATE + 2 * n**2 * (sizes.p + sizes.k) / DENSE_RATE
        return Estimate(seconds, 8 * 3 * n**2, "Cholesky factors of the kernel matrix")


COLUMNS = 20
"""Least number of columns of the blocks of all ridges together; random columns are added to fewer."""

SHARE = 3 / 8
"""Share of the free memory that the columns of the landmarks may take in float64."""

FLOOR = 100.0
"""So many roundings of its largest eigenvalue are added to W, which is positive definite then."""

LEAST_GAIN = 0.1
"""Residuals are computed anew where they have fallen so far, if a ridge near the rounding of M makes them drift."""

EXPECTED = 20
"""Expected iterations, for the estimate of costs."""


@dataclass(frozen=True, kw_only=True)
class NystromPCG(ByTiles):
    """Block conjugate gradients, Nyström-preconditioned (Ji & Li 2017; Frangella, Tropp & Udell 2023)."""

    landmarks: int | None = option(
        None,
        "landmarks of the preconditioner; none: a fifth of the rows, from 200 to 1500, as memory allows",
        kind=int,
        at_least=2,
    )
    drawn: str = option(
        "rpcholesky",
        "how landmarks are drawn: by randomly pivoted Cholesky, or with equal probabilities",
        choices=("rpcholesky", "uniform"),
    )
    columns: int = option(COLUMNS, "least columns of a product; random ones are added", at_least=0)
    tol: float | None = tol_option(1e-8)
    max_iterations: int = limit_option(500)

    def iterate(self, problem: KernelRidge, moments: Any, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the solutions with the smallest residuals so far."""
        op, device, n, rng = moments.op, moments.device, int(problem.X.shape[0]), context.rng
        ridges, held = problem.ridges, int(SHARE * device.free_memory() / (8 * n))
        m = min(n, self.landmarks or max(min(default_landmarks(n), held), 2))
        moments.fit(rng, start, self.storage)
        T = moments.targets.unit
        numbers = op.pivots(m, rng) if self.drawn == "rpcholesky" else drawn_rows(n, m, rng)
        near = Nystrom(op, ridges[0], numbers, shift=0.0)
        extra = max(-(-self.columns // len(ridges)) - T.shape[1], 0)
        random = op.centred(op.weighted(device.asarray(rng.standard_normal((n, extra)) / np.sqrt(n))))[0]
        wanted = np.arange(T.shape[1])

        def begin(ridge: float, G: Array) -> Steps:
            least = float(np.finfo(op.tile_dtype).eps) * FLOOR / ridge
            W = lambda R: near.solve(R, ridge) + least * R  # noqa: E731
            return cg_steps(device.concat([G, random]), (ridge,), [wanted], W)

        b = None if start is None else device.asarray(start["dual"])
        rounding = float(np.finfo(op.tile_dtype).eps * near.w.max(initial=0.0) / min(ridges))
        unit = min(rounding, LEAST_GAIN / ROUNDING)
        for last in solved_by_ridge(op.matmat, T, ridges, context, begin, b, unit=unit):
            yield Iterate(last.residual, partial(_answer, moments, last.arrays))

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate:
        """Estimated cost of some passes by tiles, the preconditioner, and the algebra of the blocks."""
        n = float(sizes.n)
        width = max(sizes.k, COLUMNS)
        m = default_landmarks(sizes.n)
        per_pass = n**2 * (PER_ENTRY / 2 + (sizes.p + 3 * width) / DENSE_RATE)
        seconds = EXPECTED * per_pass + 4 * n * m**2 / DENSE_RATE + 10 * float(m) ** 3 / FACTOR_RATE
        held = 16 * n * (m + 3 * width)
        return Estimate(seconds, held, "passes over the kernel, and landmarks")


def _answer(moments: Any, arrays: Callable[[], Mapping[str, Array]]) -> dict[str, Array]:
    """The arrays of an iterate, and what was learnt of the kernel."""
    return {"dual": arrays()["x"], **moments.learnt()}
