"""Sketch, precondition, iterate, refine: least squares as accurate as by QR, in a few dozen passes.

Problem: min ‖A x - b‖² + r ‖x‖² for A with far more rows than columns, of any condition number; at r = 0 the
solution of least norm.
Method: a sketch S A of a few p rows has nearly the singular values of A and its right singular vectors, S A = U Σ Vᵀ.
With N = V (Σ² + r)^(-1/2) the columns of [A; √r I] N are nearly orthonormal for any A. Then the sketch alone determines
the number of LSQR iterations: each reduces the error by a factor of about √(p/d) for d rows (Rokhlin & Tygert 2008;
Blendenpik: Avron, Maymon & Toledo 2010, doi:10.1137/090767911). With the SVD, A may be rank deficient (LSRN: Meng,
Saunders & Mahoney 2014, doi:10.1137/120866580). Then

    x₀ solves the sketched problem                                      (1)
    c = b - A x₀,  min ‖[A; √r I] N y - [c; -√r x₀]‖ by LSQR            (2)
    x₀ ← x₀ + N y, and (2) once more                                    (3)

where (3) makes the whole method backward stable.
Source: Epperly, Meier & Nakatsukasa 2024, arXiv:2406.03468, sketch and precondition with iterative refinement.
Where we differ: one SVD serves all ridges, and all pairs of a right-hand side and a ridge iterate in one block. For an
ill-conditioned A a small residual shows little about x, so by default the iteration goes on beyond the tolerance until
its steps are rounding, and again after the refinement. If A has no more rows than
the sketch would have, the triangle of its QR factorisation is decomposed: then the start is the solution.

Results of a sketch S A: a preconditioner, the solution of the sketched problem, rank and column norms of A.

Problem: the singular values and right singular vectors of S A are nearly those of A, but only nearly. The rank must be
reliable nevertheless, and an iteration must end where its steps have become rounding.
Method: an SVD of the sketch, S A D⁻¹ = U Σ Vᵀ, where D has column lengths if that changes no solution; and

    N = D⁻¹ V (Σ² + r)^(-1/2)                                    (1)
    x = D⁻¹ V Σ (Σ² + r)⁻¹ Uᵀ S b                                (2)
    rounding of A x:  ε (Σⱼ ‖aⱼ‖² xⱼ²)^(1/2), at least ε ‖b‖     (3)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import tee
from typing import Any

import numpy as np

import linspec as ls
from linspec import limit_option, option, tol_option
from linspec.arrays import Array, Device, HostArray, reciprocal
from linspec.cost import FACTOR_RATE, SPARSE_RATE, Estimate, Sizes, sweeps_estimate
from linspec.iteration import Context, Iterate, worst
from linspec.linalg import (
    golub_kahan,
    lsqr,
    rank_cut,
    stacked,
)
from linspec.rows import Moments
from linspec.solving import Solver
from linspec_lstsq.direct import decomposed

SHARE = 1 / 8
"""A step that changes A x by less than this share of (3) is the last one."""


@dataclass(frozen=True)
class SketchedFactor:
    """SVD of a sketch, for one or several columns, each with its own ridge.

    Attributes
    ----------
    V : array of shape (p, k)
    s, lengths : array of shape (k, 1), (k, columns)
        Singular values, and (σ² + r)^(-1/2), or 0 for directions that are left out.
    UtSB : array of shape (k, columns)
    scale, column_norms : array of shape (p, 1)
        The diagonal of D⁻¹, and approximate column norms of A.
    """

    V: Array
    s: Array
    lengths: Array
    UtSB: Array
    scale: Array
    column_norms: Array

    @classmethod
    def of(
        cls, SA: HostArray, SB: HostArray, device: Device, cut: float, ridges: HostArray
    ) -> SketchedFactor:
        """Decompose a sketch.

        Without a ridge, the columns have unit length first. If these have full rank, the solution is the same, and the
        rank is more reliable. Otherwise the columns keep their lengths: the least norm is that of the unscaled
        variables.

        Parameters
        ----------
        SA, SB : numpy.ndarray of shape (d, p) and (d, m)
        device : Device
            Where thin blocks are.
        cut : float
            Singular values below this fraction of the largest count as zero.
        ridges : numpy.ndarray of shape (columns,)
        """
        norms = np.linalg.norm(SA, axis=0)
        asarray = device.asarray
        lengths = np.where((norms > 0) & ~ridges.any(), norms, 1.0)
        d, U, s, Vt, rank = decomposed(SA, lengths, cut)
        squares = s[:, None] ** 2 + ridges
        live = (np.arange(len(s))[:, None] < rank) | (ridges > 0)
        lengths = reciprocal(np.sqrt(squares)) * live
        UtSB = np.tile(U.T @ SB, (1, len(ridges) // SB.shape[1]))
        columns = (s[:, None], lengths, UtSB, 1.0 / d[:, None], norms[:, None])
        return cls(asarray(Vt.T), *map(asarray, columns))

    def forward(self, Y: Array) -> Array:
        """N y (1)."""
        return self.scale * (self.V @ (self.lengths * Y))

    def adjoint(self, Z: Array) -> Array:
        """Nᵀ z."""
        return self.lengths * (self.V.T @ (self.scale * Z))


SPARE_ROWS = 8
"""Rows of the sketch beyond `oversampling`."""

LONGEST = 200
"""Most iterations after the tolerance is met, before and again after the refinement."""

DOUBT = "The run ended before its steps were rounding: the coefficients may have fewer digits than the residual says."

EXPECTED = 60
"""Passes of a typical solve, for the estimate of costs."""


@dataclass(frozen=True, kw_only=True)
class SketchPrecondition(Solver):
    """LSQR preconditioned by a sketch (Epperly, Meier & Nakatsukasa 2024, arXiv:2406.03468)."""

    oversampling: float = option(4.0, "rows of the sketch in units of the columns", above=1)
    refinements: int = option(
        1, "times to solve for the correction once steps are rounding; 0: stop at tol", at_least=0
    )
    tol: float | None = tol_option(1e-8)
    max_iterations: int = limit_option(1000)

    def iterate(
        self, problem: ls.LeastSquares, moments: Moments, context: Context, start: Any
    ) -> Iterator[Iterate]:
        """Yield iterates of LSQR until its steps are rounding."""
        A, m, ridges = moments.operators[0], moments.widths[1], problem.column_ridges
        device, unit = A.device.blocks, float(np.finfo(A.dtype).eps)
        SA, SB, AtB = self._sketch(moments, context.rng)
        cut = rank_cut((int(A.shape[0]), A.shape[1]), "float32" if A.rounding > 1e-10 else "float64")
        factor = SketchedFactor.of(SA, SB, device, cut, ridges)
        b = device.asarray(moments.operator(1).matmat(device.eye(m)))
        scales, sizes = (np.tile(device.column_norms(V), len(ridges) // m) for V in (AtB, b))
        live = device.asarray((scales > 0).astype(np.float64))[None, :]
        b = device.concat([b] * (len(ridges) // m)) * live
        step = stacked(moments.long_step, device.asarray(np.sqrt(ridges))[None, :])

        def preconditioned(V: Array, U: Array, alpha: HostArray) -> tuple[Array, HostArray]:
            """[A; √r I] N V - U diag(alpha) in the place of U; its product with the transpose, and its lengths."""
            Z, beta = step(factor.forward(V), U, alpha)
            return factor.adjoint(Z), beta

        x = (
            factor.forward(factor.s * factor.lengths * factor.UtSB)
            if start is None
            else device.asarray(start["x"])
        )
        for number in range(1 + self.refinements):
            x, Y, beyond, limit = x * live, None, 0, np.full(len(ridges), np.inf)
            U = device.xp.concat([b, 0.0 * x], axis=0)
            gradient, beta = step(-x, U, -np.ones(len(ridges)))  # U is [b; 0] before
            bases, steps = tee(golub_kahan(preconditioned, factor.adjoint(gradient), U, beta))
            for ((now,), lengths), basis in zip(lsqr(steps), bases, strict=False):  # (2)
                gradients = (factor.V @ (reciprocal(factor.lengths) * basis.V)) / factor.scale
                residual = worst(lengths.ravel() * device.column_norms(gradients), scales)
                moved, Y = scales + np.inf if Y is None else device.column_norms(now - Y), now
                if (moved <= limit).any():
                    lengths = device.column_norms(factor.column_norms * (x + factor.forward(Y)))
                    limit = SHARE * unit * np.maximum(lengths, sizes)  # (3)
                beyond += residual <= context.tol
                ends = bool((moved <= limit).all()) or beyond == LONGEST
                arrays = partial(_answer, factor, x, Y)
                final = ends and number == self.refinements
                yield Iterate(residual, arrays, final=final, doubt=DOUBT * bool(self.refinements))
                if ends:
                    break
            x = x + factor.forward(Y)

    def _sketch(self, moments: Moments, rng: np.random.Generator) -> tuple[HostArray, HostArray, Array]:
        """S A, S B and AᵀB in one pass; the triangle of [A B] if it is no larger."""
        A, B = moments.operators
        (n, p), device = A.shape, A.device.blocks
        size = int(np.ceil(self.oversampling * p)) + SPARE_ROWS
        if n <= size:
            R = moments.triangle()
            return R[:, :p], R[:, p:], device.asarray(R[:, :p].T @ R[:, p:])
        moments.sketch_rows, moments.seed = size, int(rng.integers(2**31))
        (AtB, _) = moments.products(None, device.eye(B.shape[1]))[1]
        SA, SB = moments.sketch()
        return SA, SB, AtB

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of a sketch, its SVD, and a few dozen passes."""
        if not sizes.readable or sizes.n <= 5 * sizes.p:
            return None
        rows, passes = 4.0 * sizes.p, sweeps_estimate(sizes, EXPECTED)
        sketching = 8.0 * sizes.n * (sizes.p + sizes.q) / SPARSE_RATE + 6.0 * rows * sizes.p**2 / FACTOR_RATE
        memory = passes.bytes + 8.0 * (3 * rows * sizes.p + 4 * sizes.n * sizes.k)
        return Estimate(passes.seconds + sketching, memory, "SVD of a sketch, and passes")


def _answer(factor: SketchedFactor, x: Array, Y: Array) -> dict[str, Array]:
    return {"x": x + factor.forward(Y)}
