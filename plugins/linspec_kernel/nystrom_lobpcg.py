"""Exact kernel CCA by block iteration with a Nyström preconditioner, without an n x n array.

Problem: the leading pairs of Ky b = ρ (Kx + rx) a, Kx a = ρ (Ky + ry) b, where a product with K costs n² p and a
block is hardly dearer than a column.
Method: a block Davidson iteration on dual coefficients, in the metric K(K + r). Beside each basis A its product K A is
kept: every inner product, the pairs within the spans and their residuals come from these, so an iteration takes one
product with each matrix. New directions are residuals R times (LLᵀ + (r + d) I)⁻¹, where LLᵀ is the Nyström
approximation of K from m landmarks and d estimates |K − LLᵀ|. The first block has two guesses of each pair that the
features L give: their coefficients scattered to the landmarks, and the dual coefficients (z_y/ρ − z_x)/r, which mend
what the landmarks miss where that is little.
Source: Knyazev 2001, SIAM J. Sci. Comput. 23(2), doi:10.1137/S1064827500366124, for the block iteration; Frangella,
Tropp & Udell 2023, SIAM J. Matrix Anal. Appl. 44(2), doi:10.1137/21M1466244, for the preconditioner.
Where we differ: blocks are much wider than k, since the width is nearly free and the gap behind the block decides how
many passes there are. The shift d matters: without it directions that the landmarks miss are amplified by |K − LLᵀ|/r.
The answer takes one more preconditioned step outside the basis, which frees it of directions that K annihilates.
Tiles may be float32; inner products, residuals and the algebra of blocks are float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from linspec import KernelOperator, Run, Solution, Solver, Status, limit_option, option, tol_option
from linspec.algebra import eigenpairs, ratio, whitening
from linspec.arrays import Array, Home, HostArray, to_host
from linspec.cost import DENSE_RATE, FACTOR_RATE, Estimate, Sizes
from linspec_kernel.certificate import LEAST_SHARE, Carried
from linspec_kernel.moments import rounded_up
from linspec_kernel.nystrom import PROBED, Nystrom, default_landmarks, on_host, share_of

EXTRA = 40
"""Columns of the block beyond k; from 30 to 90 each saves passes, and costs little."""

KEEP, RESTART = 8, 3
"""Blocks in the basis before a restart, and after it."""

CUT = {"float64": 1e-8, "float32": 1e-5}
"""By the dtype of tiles: a direction of a new block is left out if the basis has all of its squared length but this."""

CLEAR = 100.0
"""By this factor a direction must be longer than the rounding of its values, of which √n add up as noise does."""

ROUNDING = 30.0
"""Multiple of the unit roundoff, relative to the trace of K, that the values of a function may be."""

ACTIVE = 1e-3
"""Pairs whose residual is below this share of what the tolerance allows each take part no more."""

PATIENCE = 25
"""Iterations without a lower residual after which rounding is what is left: more than a restart takes."""

SMALL = 1e-8
"""Pairs whose correlation is below this share of the first are not smoothed."""

EXPECTED = 12
"""Iterations, when "auto" compares this method with others."""


@dataclass(frozen=True, kw_only=True)
class NystromLOBPCG(Solver):
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
    storage: str = option(
        "auto", "hold the kernel matrices, or form them tile by tile", choices=("auto", "held", "tiled")
    )

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a kernel CCA problem."""
        moments: Any = run.moments(self.storage)
        ops, ridges, k = moments.views, problem.ridge, problem.k
        n = ops[0].shape[0]
        m = min(n, default_landmarks(n) if self.landmarks is None else self.landmarks)
        # The rows, the landmarks' columns, the block that the shift is estimated from, and the first product.
        run.plan(setup=rounded_up(2.0 + share_of(n, m, PROBED)), iteration=1.0)
        kernels = moments.settle(run.rng)
        near = moments.near(m, run.rng)
        width = min(k + self.extra, n)
        blocks = first_blocks(near, width)
        if int(blocks[0].shape[1]) // 2 < k:  # the landmarks know fewer pairs than are wanted
            blocks = [
                moments.home.concat([Z, op.home.place(run.rng.standard_normal((n, width)))])
                for Z, op in zip(blocks, ops, strict=True)
            ]
        bases = [Basis(op, ridge) for op, ridge in zip(ops, ridges, strict=True)]
        gaps: list[Array] = [
            moments.home.zeros((n, 0))
        ] * 2  # residuals of the pairs wanted, an iteration ago
        best, least, since, guessed, share = None, np.inf, 0, 0.0, 1.0
        while True:
            before, squared = (bases[0].width, bases[1].width), 0.0
            for basis, one, Z, gap in zip(bases, near, blocks, gaps, strict=True):
                squared += float(learnt(one, gap, *basis.add(Z, gap)).sum())
            # The product of the last residuals with K rides along, and tells by how much the guess was too high.
            share = max(squared / guessed, LEAST_SHARE) if guessed > 0 else share
            # The pairs within the spans: coefficients a, b, values z = K a at the rows, correlations.
            U, rho, Vt = np.linalg.svd(to_host(bases[0].values.T @ bases[1].values), full_matrices=False)
            count = min(width, len(rho))
            (a, za), (b, zb) = bases[0].turned(U[:, :count]), bases[1].turned(Vt[:count].T)
            theta = moments.home.place(rho[:count])[None, :]
            R = [zb - theta * (za + ridges[0] * a), za - theta * (zb + ridges[1] * b)]
            squares = near[0].squares(R[0]) + near[1].squares(R[1])
            total, pairs = float(rho[:k].sum()), min(k, count)
            gaps, guessed = [V[:, :pairs] for V in R], float(squares[:pairs].sum())
            residual, since = ratio(share * guessed, total), since + 1
            if best is None or residual < least:
                smooth = partial(smoothed, near, (a[:, :pairs], b[:, :pairs]), gaps, rho[:pairs])
                others = partial(carried, rho[:count], share * squares, R)
                best = cache(partial(found_so_far, smooth, kernels, others))
                least, since = residual, 0
            # Without a new direction, or after many that brought nothing, rounding is what is left.
            if since > PATIENCE or (bases[0].width, bases[1].width) == before:
                run.end(Status.STAGNATED)
            if not (run.proceed(residual=least, current=best) or run.falls_short(**best())):
                return run.finish(**best())
            active = np.flatnonzero(squares > ACTIVE * run.tol * total / k)
            active = active if len(active) else np.arange(count)
            if max(bases[0].width, bases[1].width) > KEEP * width:
                bases[0].restart(U[:, : RESTART * width])
                bases[1].restart(Vt[: RESTART * width].T)
            blocks = [
                one.solve(_columns(gap, active, moments.home)) for one, gap in zip(near, R, strict=True)
            ]

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """The estimate for a dozen passes by tiles, the preconditioner, and the algebra of the blocks."""
        n, width, m = float(sizes.n), sizes.k + EXTRA, default_landmarks(sizes.n)
        entries = n**2 * (sizes.p + sizes.q) / DENSE_RATE + 2 * n**2 * PER_ENTRY
        each = entries + 4 * n**2 * width / DENSE_RATE + 8 * n * width * (m + KEEP * width) / DENSE_RATE
        once = 4 * n * m**2 / DENSE_RATE + 20 * float(m) ** 3 / FACTOR_RATE
        held = 16 * n * m + 32 * n * (KEEP + 2) * width
        return Estimate(EXPECTED * each + once, held, f"{EXPECTED} passes over the kernels, {m} landmarks")


def learnt(near: Nystrom, R: Array, Z: Array, KZ: Array, KR: Array) -> HostArray:
    """The law's parts of residuals, when they and the new directions have been multiplied with K."""
    near.learn(Z, KZ)
    return near.norms(R, KR, Z, KZ)


PER_ENTRY = 2e-9
"""Seconds for the function of an entry, such as the exponential."""


def found_so_far(
    smooth: Callable[[], list[Array]], kernels: Any, others: Callable[[], Carried]
) -> dict[str, Any]:
    """What the law takes."""
    a, b = smooth()
    return {"x_weights": a, "y_weights": b, "kernels": kernels, "carried": others()}


def smoothed(
    near: list[Nystrom], pairs: Sequence[Array], gaps: Sequence[Array], rho: HostArray
) -> list[Array]:
    """Coefficients after a step with (K + r) a = Ky b/ρ, preconditioned.

    The basis leaves out directions that K nearly annihilates, so that coefficients keep what they have of them: it
    has no values, and its length is the rounding of aᵀKa. This step divides it by ρr and takes it away.
    """
    scale = np.where(rho > SMALL * rho[:1], rho, np.inf)
    return [
        V + one.solve(R) / one.home.place(scale)[None, :] for one, V, R in zip(near, pairs, gaps, strict=True)
    ]


def carried(rho: HostArray, squares: HostArray, R: Sequence[Array]) -> Carried:
    """All pairs within the spans, for the estimate of the loss: asked for where the run ends."""
    return Carried(rho, squares, on_host(R[0].T @ R[0]) + on_host(R[1].T @ R[1]))


def first_blocks(near: list[Nystrom], width: int) -> list[Array]:
    """For both views: what CCA of the features L gives, scattered to the landmarks and as dual coefficients."""
    x, y = near
    C = np.zeros((len(x.w), len(y.w)))
    n = x.op.shape[0]
    for rows in (slice(i, min(i + 4096, n)) for i in range(0, n, 4096)):
        C += (
            on_host(x.place.place(x.L[rows, :], np.float64).T @ y.place.place(y.L[rows, :], np.float64))
            if (x.op.tile_dtype != y.op.tile_dtype)
            else on_host(x.L[rows, :].T @ y.L[rows, :])
        )
    C -= n * np.outer(x.mean, y.mean)
    roots = [one.V / np.sqrt(one.w + one.ridge) for one in near]
    U, s, Vt = np.linalg.svd(roots[0].T @ C @ roots[1], full_matrices=False)
    count = int(np.sum(s[:width] > 1e-3 * s[0])) if len(s) and s[0] > 0 else min(1, len(s))
    features = [roots[0] @ U[:, :count], roots[1] @ Vt[:count].T]
    values = [one.image(c) for one, c in zip(near, features, strict=True)]
    found = []
    for i, one in enumerate(near):
        home = one.home
        dual = (values[1 - i] / home.place(s[:count])[None, :] - values[i]) / one.ridge
        scattered = np.zeros((n, count))
        scattered[one.numbers] = one.turn @ features[i]
        found.append(home.concat([home.place(scattered), dual]))
    return found


class Basis:
    """Dual coefficients A with their values K A, orthonormal in the metric K(K + r).

    Parameters
    ----------
    op : KernelOperator
    ridge : float

    Attributes
    ----------
    coefficients, values : arrays of shape (n, width)
        A and K A.
    """

    def __init__(self, op: KernelOperator, ridge: float) -> None:
        self.op, self.ridge, self.home = op, ridge, op.home
        self.trace = float(np.sum(on_host(op.diagonal())))
        self.coefficients = self.values = op.home.zeros((op.shape[0], 0))

    @property
    def width(self) -> int:
        """Columns."""
        return int(self.coefficients.shape[1])

    def add(self, Z: Array, beside: Array) -> tuple[Array, Array, Array]:
        """Append the directions of a block, in one pass.

        Returns
        -------
        arrays
            Its columns, centred and scaled, their product with K, and that of a block beside it.
        """
        home = self.home
        if self.op.center:
            Z = Z - home.xp.mean(Z, axis=0)[None, :]
        lengths = home.column_norms(Z)
        live = np.flatnonzero(np.isfinite(lengths) & (lengths > 0))
        Z = _columns(Z, live, home) / home.place(lengths[live])[None, :]
        count = int(Z.shape[1])
        both = self.op.product(home.concat([Z, beside]))[0]
        KZ, other = both[:, :count], both[:, count:]
        new, values = self._freed(Z, KZ)
        lengths = self._lengths(Z, KZ)
        T = home.place(_whitened(self._gram(new, values), lengths, self._cut(Z, lengths)))
        new, values = self._freed(new @ T, values @ T)
        T = home.place(whitening(self._gram(new, values)))
        new, values = new @ T, values @ T
        self.coefficients = home.concat([self.coefficients, new])
        self.values = home.concat([self.values, values])
        return Z, KZ, other

    def _freed(self, Z: Array, KZ: Array) -> tuple[Array, Array]:
        """A block and its values, less what lies in the span."""
        h = self.values.T @ (KZ + self.ridge * Z)
        return Z - self.coefficients @ h, KZ - self.values @ h

    def _gram(self, Z: Array, KZ: Array) -> HostArray:
        """Inner products of a block."""
        inner = on_host(Z.T @ KZ)
        G: HostArray = on_host(KZ.T @ KZ) + self.ridge * (inner + inner.T) / 2
        return G

    def _lengths(self, Z: Array, KZ: Array) -> HostArray:
        """Squared lengths of columns, infinite where their values are the rounding of a product."""
        squares = np.maximum(np.diagonal(self._gram(Z, KZ)), 0.0)
        noise = ROUNDING * float(np.finfo(self.op.tile_dtype).eps) * self.trace * self.home.column_norms(Z)
        found: HostArray = np.where(self.home.column_norms(KZ) > noise, squares, np.inf)
        return found

    def _cut(self, Z: Array, lengths: HostArray) -> float:
        """The share of squared lengths below which a direction is left out: rounding of tiles is no direction."""
        live = np.isfinite(lengths) & (lengths > 0)
        noise = float(np.finfo(self.op.tile_dtype).eps) * self.trace / np.sqrt(self.op.shape[0])
        longest = np.max(self.home.column_norms(Z)[live] / np.sqrt(lengths[live]), initial=0.0)
        return float(max(CUT[self.op.tile_dtype.name], (CLEAR * noise * longest) ** 2))

    def turned(self, T: HostArray) -> tuple[Array, Array]:
        """Combinations of the columns and their values."""
        P = self.home.place(T)
        return self.coefficients @ P, self.values @ P

    def restart(self, T: HostArray) -> None:
        """Go on with some combinations."""
        self.coefficients, self.values = self.turned(T)


def _whitened(G: HostArray, lengths: HostArray, cut: float) -> HostArray:
    """T with TᵀGT = I over directions that keep more than a share `cut` of the squared lengths before."""
    scale = np.where((lengths > 0) & np.isfinite(lengths), 1 / np.sqrt(np.maximum(lengths, 1e-300)), 0.0)
    values, vectors = eigenpairs(G * np.outer(scale, scale)) if len(G) else (np.zeros(0), np.zeros((0, 0)))
    keep = values > cut
    T: HostArray = scale[:, None] * (vectors[:, keep] / np.sqrt(values[keep]))
    return T


def _columns(V: Array, index: HostArray, home: Home) -> Array:
    return (
        V if len(index) == V.shape[1] else home.xp.take(V, home.xp.asarray(index, device=home.device), axis=1)
    )
