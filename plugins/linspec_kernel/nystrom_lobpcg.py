"""Exact kernel CCA by block iteration with a Nyström preconditioner, without an n x n array.

Problem: the leading pairs of Ky b = ρ (Kx + rx) a, Kx a = ρ (Ky + ry) b, where a product with K costs n² p, and with a
block of columns it costs hardly more than with one column.
Method: a block Davidson iteration on dual coefficients, in the metric K(K + r). Beside each basis A its product K A is
kept: every inner product, the pairs within the spans and their residuals come from these, so an iteration takes one
product with each matrix. New directions are residuals R times (LLᵀ + (r + d) I)⁻¹, where LLᵀ is the Nyström
approximation of K from m landmarks and d estimates |K − LLᵀ|. The first block has the guess of each pair that the
features L give, by the dual coefficients (z_y/ρ − z_x)/r.
Source: Knyazev 2001, SIAM J. Sci. Comput. 23(2), doi:10.1137/S1064827500366124, for the block iteration; Frangella,
Tropp & Udell 2023, SIAM J. Matrix Anal. Appl. 44(2), doi:10.1137/21M1466244, for the preconditioner.
Where we differ: blocks are much wider than k, since the width is nearly free and the gap behind the block decides how
many passes there are. The shift d matters: without it directions that the landmarks miss are amplified by |K − LLᵀ|/r.
The answer takes one more preconditioned step outside the basis, which removes directions that K annihilates.
Tiles may be float32; inner products, residuals and the algebra of blocks are float64.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from linspec import KernelOperator, limit_option, option, tol_option
from linspec.arrays import Array, Device, HostArray, reciprocal, to_host
from linspec.cost import DENSE_RATE, FACTOR_RATE, Estimate, Sizes
from linspec.features import drawn_rows
from linspec.iteration import Context, Iterate
from linspec.linalg import eigenpairs, ratio, whitening
from linspec.rows import equal_slices
from linspec_kernel.certificate import LEAST_SHARE, gaps_of, least_value
from linspec_kernel.moments import BLOCK, PER_ENTRY, ByTiles, Nystrom, default_landmarks, on_host
from linspec_kernel.problem import KernelCCA

EXTRA = 40
"""Columns of the block beyond k; any number from 30 to 90 saves passes at little cost."""

KEEP, RESTART = 8, 3
"""A restart reduces a basis of more than KEEP blocks to RESTART blocks."""

CUT = {"float64": 1e-8, "float32": 1e-5}
"""A direction is dropped if orthogonalization leaves less than this share of its squared length, by dtype of tiles."""

CLEAR = 25.0
"""Multiple of rounding up to which a new direction is dropped.

The length of a direction z in the metric K(K + r) is compared with this multiple of the rounding of K z, which is
taken to be `least_value` |z|/√n. (The larger estimate of `ROUNDING` decides whether K z is only rounding.)"""

ROUNDING = 7.5
"""Rounding of the values of a function: this multiple of `least_value`."""

ACTIVE = 1e-3
"""Share of the tolerated residual below which a pair adds no new directions.

The squared residual that is tolerated for each of k pairs is the tolerance times the sum of the k correlations, over
k."""

PATIENCE = 25
"""The run ends as stagnated after this many iterations without a lower residual; a restart needs fewer to recover."""

SMALL = 1e-8
"""A pair is not smoothed if its correlation is below this fraction of the first correlation."""

EXPECTED = 12
"""Expected iterations, for the estimate of costs."""


@dataclass(frozen=True, kw_only=True)
class NystromLOBPCG(ByTiles):
    """Block iteration on dual coefficients, Nyström-preconditioned (Knyazev 2001; Frangella, Tropp & Udell 2023)."""

    landmarks: int | None = option(
        None,
        "landmarks of the preconditioner; none: a fifth of the rows, from 200 to 1500",
        kind=int,
        at_least=2,
    )
    extra: int = option(EXTRA, "columns of the block beyond k; 30 to 90", at_least=0)
    tol: float | None = tol_option()
    max_iterations: int = limit_option(200)

    def iterate(self, problem: KernelCCA, moments: Any, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the best pairs within bases that grow."""
        device, ridges, k, rng = moments.device, problem.ridge, problem.k, context.rng
        n = moments.operators[0].shape[0]
        m = min(n, default_landmarks(n) if self.landmarks is None else self.landmarks)
        width = min(k + self.extra, n)
        moments.fit(rng, start, self.storage)
        near = moments.nearest = [
            Nystrom(op, r, drawn_rows(n, m, rng), rng)
            for op, r in zip(moments.operators, ridges, strict=True)
        ]
        x, y = spaces = [Space(op, nystrom) for op, nystrom in zip(moments.operators, near, strict=True)]
        blocks = (
            [device.asarray(start[f"{name}_weights"]) for name in "xy"]
            if start
            else first_blocks(near, width)
        )
        if blocks[0].shape[1] < k:  # the landmarks know fewer pairs than are wanted
            blocks = [device.concat([Z, device.asarray(rng.standard_normal((n, width)))]) for Z in blocks]
        for space, Z in zip(spaces, blocks, strict=True):
            space.extend(Z, Z[:, :0])
        share, least, best, since, idle = 1.0, math.inf, None, 0, not x.width and not y.width
        while True:
            # The pairs within the spans: coefficients with their values at the rows, correlations.
            U, rho, Vt = np.linalg.svd(to_host(x.values.T @ y.values), full_matrices=False)
            count = min(width, len(rho))
            f = x.turned(U[:, :count])
            g = y.turned(Vt[:count].T)
            R = gaps_of(f, g, device.asarray(rho[:count]), ridges)
            squares = near[0].squares(R[0]) + near[1].squares(R[1])
            total, wanted = float(rho[:k].sum()), min(k, count)
            guessed = float(squares[:wanted].sum())
            residual = ratio(share * guessed, total)
            if best is None or residual < least:
                least, best, since = residual, partial(answer, moments, near, (f[0], g[0]), R, rho[:count]), 0
            yield Iterate(least, best)
            # Without a new direction, or after many iterations without a lower residual, only rounding is
            # left.
            if since > PATIENCE or idle:
                return
            active = np.flatnonzero(squares > ACTIVE * context.tol * total / k)
            active = active if len(active) else np.arange(count)
            if max(x.width, y.width) > KEEP * width:
                x.coefficients, x.values = x.turned(U[:, : RESTART * width])
                y.coefficients, y.values = y.turned(Vt[: RESTART * width].T)
            before, exact = (x.width, y.width), 0.0
            for space, gap in zip(spaces, R, strict=True):
                Z = space.near.solve(_columns(gap, active, device))
                exact += space.extend(Z, gap[:, :wanted])
            # The product with K included the residuals: the ratio of their exact norm to the estimate
            # corrects the next one.
            share = max(exact / guessed, LEAST_SHARE) if guessed > 0 else share
            since, idle = since + 1, (x.width, y.width) == before

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate:
        """Estimated cost of a dozen passes by tiles, the preconditioner, and the algebra of the blocks."""
        n = float(sizes.n)
        width = sizes.k + EXTRA
        m = default_landmarks(sizes.n)
        per_pass = n**2 * (2 * PER_ENTRY + (sizes.p + sizes.q + 6 * width) / DENSE_RATE)
        seconds = EXPECTED * per_pass + 4 * n * m**2 / DENSE_RATE + 20 * float(m) ** 3 / FACTOR_RATE
        held = 16 * n * (m + 2 * (KEEP + 2) * width)
        return Estimate(seconds, held, "passes over the kernels, and landmarks")


def answer(
    moments: Any,
    near: Sequence[Nystrom],
    coefficients: Sequence[Array],
    R: Sequence[Array],
    rho: HostArray,
) -> dict[str, Any]:
    """Smoothed coefficients of all pairs within the spans, from which the certificate estimates the loss.

    The basis contains no directions that K nearly annihilates, so the components of a along these are arbitrary: they
    hardly change K a, and change aᵀKa by rounding only. One preconditioned step towards the solution a of
    (K + r) a = Ky b/ρ replaces these components by those of Ky b/(ρr).
    """
    scale = moments.device.asarray(np.where(rho > SMALL * rho[:1], rho, np.inf))
    a, b = (A + view.solve(gap) / scale for view, A, gap in zip(near, coefficients, R, strict=True))
    return {"x_weights": a, "y_weights": b, **moments.learnt()}


def first_blocks(near: list[Nystrom], width: int) -> list[Array]:
    """Return the first blocks of both views: dual coefficients of the pairs of a CCA of the features L.

    They are (z_y/ρ − z_x)/r in the block of X, with the values z of the pair's functions.
    """
    x, y = near
    C = np.zeros((len(x.w), len(y.w)))
    n = x.op.shape[0]
    for rows in equal_slices(n, BLOCK):
        C += on_host(x.device.asarray(x.L[rows, :]).T @ y.device.asarray(y.L[rows, :]))
    C -= n * np.outer(x.mean, y.mean)
    roots = [view.V / np.sqrt(view.w + view.ridge) for view in near]
    U, s, Vt = np.linalg.svd(roots[0].T @ C @ roots[1], full_matrices=False)
    count = int(np.sum(s[:width] > 1e-3 * s[:1]))
    features = [roots[0] @ U[:, :count], roots[1] @ Vt[:count].T]
    values = [view.image(c) for view, c in zip(near, features, strict=True)]
    scale = near[0].device.asarray(s[:count])
    return [(values[1 - i] / scale - values[i]) / view.ridge for i, view in enumerate(near)]


class Space:
    """Dual coefficients A of one view with their values K A, orthonormal in the metric K(K + r).

    Parameters
    ----------
    op : KernelOperator
    near : Nystrom
        The preconditioner, which the products of `extend` correct.

    Attributes
    ----------
    coefficients, values : arrays of shape (n, width)
        A and K A.
    """

    def __init__(self, op: KernelOperator, near: Nystrom) -> None:
        self.op, self.near, self.device = op, near, op.device
        self.coefficients = self.values = self.device.zeros((op.shape[0], 0))
        self.noise = least_value(op)

    @property
    def width(self) -> int:
        """Number of columns of A."""
        return int(self.coefficients.shape[1])

    def turned(self, T: HostArray) -> tuple[Array, Array]:
        """A T and K A T."""
        turn = self.device.asarray(T)
        return self.coefficients @ turn, self.values @ turn

    def extend(self, Z: Array, gap: Array) -> float:
        """Extend A by the directions of a block; return the sum of the squared norms of `gap`, all in one pass.

        The squared norms are those of `Nystrom.norms`, the upper bounds by which the certificate judges residuals.
        """
        device = self.device
        if self.op.center:
            Z = Z - device.xp.mean(Z, axis=0)
        lengths = device.column_norms(Z)
        live = np.flatnonzero(np.isfinite(lengths) & (lengths > 0))
        Z = _columns(Z, live, device) / device.asarray(lengths[live])
        both = self.op.matmat(device.concat([Z, gap]))
        KZ = both[:, : len(live)]
        KR = both[:, len(live) :]
        new, values = self._freed(Z, KZ)
        T = device.asarray(self._independent(Z, KZ, self._gram(new, values)))
        new, values = self._freed(new @ T, values @ T)
        T = device.asarray(whitening(self._gram(new, values)))
        self.coefficients = device.concat([self.coefficients, new @ T])
        self.values = device.concat([self.values, values @ T])
        return float(self.near.norms(gap, KR, Z, KZ).sum())

    def _freed(self, Z: Array, KZ: Array) -> tuple[Array, Array]:
        """Subtract from a block Z its projection on A in the metric K(K + r), and from K Z the same of K A."""
        h = self.values.T @ (KZ + self.near.ridge * Z)
        return Z - self.coefficients @ h, KZ - self.values @ h

    def _gram(self, Z: Array, KZ: Array) -> HostArray:
        """Gram matrix of a block in the metric K(K + r)."""
        inner = on_host(Z.T @ KZ)
        return on_host(KZ.T @ KZ) + self.near.ridge * (inner + inner.T) / 2

    def _independent(self, Z: Array, KZ: Array, G: HostArray) -> HostArray:
        """T with TᵀGT = I over directions that keep enough of their squared lengths, for columns of Z of length 1.

        G is the Gram matrix of what is left of Z. A column z is dropped if K z is only rounding of a product with K.
        """
        squares = np.maximum(np.diagonal(self._gram(Z, KZ)), 0.0)
        clear = self.device.column_norms(KZ) > ROUNDING * self.noise
        scale = np.sqrt(reciprocal(np.where(clear, squares, 0.0)))
        longest = float(scale.max(initial=0.0))
        cut = max(CUT[self.op.tile_dtype.name], CLEAR**2 * self.noise**2 / self.op.shape[0] * longest**2)
        values, vectors = eigenpairs(G * np.outer(scale, scale))
        keep = values > cut
        return scale[:, None] * (vectors[:, keep] / np.sqrt(values[keep]))


def _columns(V: Array, index: HostArray, device: Device) -> Array:
    return (
        V
        if len(index) == V.shape[1]
        else device.xp.take(V, device.xp.asarray(index, device=device.native), axis=1)
    )
