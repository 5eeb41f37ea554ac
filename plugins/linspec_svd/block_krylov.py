"""Block Krylov iteration: the accurate default.

Problem: the k leading singular triplets of A from few readings of the data.
Method: Rayleigh-Ritz on the block Krylov space of AᵀA from a random block Ω,

    span(Ω, AᵀA Ω, …, (AᵀA)^q Ω),

built by block Lanczos steps. One sweep multiplies the newest block. The projection of the product onto the
basis is subtracted, and the rest R is made orthonormal and becomes the next block (Golub & Underwood 1977;
Musco & Musco 2015, arXiv:1504.05477; Tropp & Webber 2023, arXiv:2306.12418). With H = VᵀAᵀAV a Ritz pair (θ,
Vy) has the residual R y, with the part of y in the newest block, so its norm costs nothing. A basis that has
reached its largest width is restarted from its leading Ritz vectors and the newest block (thick restart: Wu &
Simon 2000, doi:10.1137/S0895479898334605).
Where we differ: the iteration stops by that residual, and not after a number of powers. Blocks are as narrow
as the cost of a reading allows: narrow blocks need fewer columns in all, wide blocks fewer sweeps. For sparse
data with few rows AAᵀ replaces AᵀA, and one sweep at the end gives the right vectors. The projection is
subtracted from each product once, which keeps the basis semi-orthogonal (Simon 1984,
doi:10.1090/S0025-5718-1984-0725988-X), and a second time if an estimate shows that once is not enough. The
Ritz pairs are computed when they may have converged. A block of b columns finds at most b copies of a
repeated singular value, and at first at most b values that differ by less than the tolerance. If so many are
found above the k-th value, a second random block, orthogonal to the known vectors, looks for more before the
answer counts as complete. Kuczyński & Woźniakowski 1992 (doi:10.1137/0613066) give the number of steps.

Start. Vectors of an earlier answer make the first block, with random columns beside them. A residual is not enough
then: other singular vectors than the leading ones, or all but one of the leading ones, have the residual zero. So the
iteration ends only when the random columns have shown that nothing larger is missing. Let x be an eigenvector of AᵀA
with the eigenvalue λ > θₖ, orthogonal to the k Ritz vectors, and a = xᵀV. The recurrence λa = aH + (xᵀQ)B, where QB is
the rest of the newest block, gives the coefficients of x in the first block,

    xᵀV₁ = (xᵀQ) X,    X = B Σ_{j>k} y_j,newest y_j,firstᵀ / (λ - θ_j),

and ‖xᵀQ‖ <= 1. A random block has all of such small coefficients with a small probability only, which follows from
the volume of that ellipsoid. So the data themselves say how many steps are enough. See `_shown`.

Sweeps in float32. On request the space is built from products with a copy of the data in float32. When its residual is
as small as the tolerance, or as these products allow, the iteration begins again from the leading Ritz vectors with
products of the precision of the data. The first of them is a Rayleigh-Ritz step: no squared singular value is above the
exact one, and the residual is that of the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from linspec import (
    Run,
    Solution,
    Solver,
    Status,
    form_option,
    limit_option,
    option,
    part,
    sweeps_option,
    tol_option,
)
from linspec.algebra import EPS, eigenpairs
from linspec.arrays import Array, Home, HostArray, reciprocal, to_host, to_host_together
from linspec.cost import DENSE_RATE, Estimate, Sizes, spare_bytes, sweeps_estimate
from linspec.operators import uncounted
from linspec.process import count_of
from linspec_svd.ending import answer, log_chance
from linspec_svd.triplets import orthonormal

OVERSAMPLING = 10
"""The number of columns in a wide block, in addition to k."""

NARROW, NARROW_DENSE = 8, 24
"""The number of columns in a block for sparse and for dense data in memory: fewer columns are not cheaper."""

COLUMNS = 16
"""A narrow block has one more column for this number of triplets."""

SWEEPS = 60
"""The sweeps that narrow blocks may need. With a smaller budget the blocks are wide."""

FRESH = 20
"""The number of random columns beside a start. With fewer they take more sweeps to show that nothing is missing."""

BASIS = 5, 60
"""The expected number of columns in the final basis: a number for each triplet, plus a constant."""

BLOCKS = 12
"""The number of wide blocks in a basis before it is restarted."""

NEGLIGIBLE_BYTES = 2**26
"""The size of a basis that fits into any memory."""

GROWTH = 1.15
"""The factor by which the basis grows between two looks, as long as its final width cannot be predicted."""

SMALL, LOST = 1e-3, (1e-13, 1e-8)
"""The projection is subtracted a second time if a rest is this small, compared with the largest product, or
if a new block is this far from orthogonal to the basis. The residual may lack that much: a hundredth of the
tolerance, between bounds."""

LOUD = 1e3
"""A small direction of a rest belongs to the data if it is above this many roundings of the largest
product."""

OWN = 0.1
"""The fraction of a new direction's square that must be outside the basis; below it the rest is amplified
rounding."""

RISK = 1e-6
"""The largest probability of missing another copy of a repeated value, or a value that a start lacks."""

SETTLED = 1e-6
"""The residual at which Ritz vectors are near enough to eigenvectors to say that another one is orthogonal to them."""

AIM_SINGLE, LEAST_SINGLE = 0.75, 5e-7
"""Products in float32 are made until the residual is this fraction of the tolerance, which leaves room for their
rounding; and the least residual for which they are made."""

INSIDE = 0.5
"""A vector with this length or less in the span of a start has most of its length outside."""

SHARP, SINGLE_SHARP = 1e-8, 1e-6
"""The residual at which repeated values are distinguished from close ones, for float64 and float32 data."""

SPREAD, POWER = 10.0, 1.4
"""The difference of Ritz values for equal eigenvalues, relative to the largest: a multiple of that residual,
or a power of the residual (by theory its square over the unknown distance to the next eigenvalue). Ritz
values of eigenvalues that the iteration cannot distinguish yet differ by the tolerance."""

USED = "Blocks of {columns}, a basis of {most} at most, begun again {times}."

FROM_START = " The first block has {known} of the start and {fresh} random ones."

UNSHOWN = "The run ended before its random columns could show that the start lacks no leading singular vector, which a "
UNSHOWN += "residual cannot tell: raise the budget, or leave start out."

UNFINISHED = "Repeated singular values were found, and the run ended before a second random block could show that none "
UNFINISHED += "of them is missing: raise the budget, or choose a wider block."


STATE: Mapping[str, Any] = {
    **dict.fromkeys(
        ("k", "width", "copies", "newest", "begun_again", "_known", "_fresh", "_steps_apart"), int
    ),
    **dict.fromkeys(("unit", "tol", "bearable", "sharp", "apart", "scale", "per", "residual"), float),
    **dict.fromkeys(("_suspect", "_left", "_level"), float),
    **dict.fromkeys(("single", "unshown", "_traced", "doubtful", "strict"), bool),
    "most": [int],
    "_columns": [int],
    "_lost": [float],
    "next": "side b",
    "held": "basis side",
    "count": "=basis",
    "H": "most most",
    "theta": "pairs",
    "Y": "before pairs",
    "looks": {"next": float, "rate": float, "last": tuple},
}
"""What a checkpoint has of a space."""


@dataclass(frozen=True, kw_only=True)
class BlockKrylov(Solver):
    """Rayleigh-Ritz on a block Krylov space (Musco & Musco 2015, arXiv:1504.05477)."""

    block: int | None = option(
        None,
        "random columns of a block; none: from the data, at most ten more than the triplets wanted; 20 by a start",
        kind=int,
        at_least=1,
    )
    basis: int | None = option(
        None, "columns that are held at most; none: as memory allows", kind=int, at_least=2
    )
    tol: float | None = tol_option()
    max_iterations: int = limit_option(500, "sweeps")
    test_matrix: Any = part("gaussian", "the first block", kind="test-matrix")
    form: str = form_option()
    sweeps: str = sweeps_option()

    resumes: ClassVar[Mapping[str, Any]] = MappingProxyType(STATE)

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve an SVD problem."""
        n, p = problem.A.shape
        moments = run.moments(self.form, expect=(20, min(problem.k + OVERSAMPLING, n, p)))
        wide = moments.wide
        after = float(wide or problem.left)  # the sweep that makes the vectors of the other side
        side, sweep = (n, 1.0) if wide else (p, moments.sweep_cost)
        before = 0.0
        if run.start is not None:  # its product, and its vectors of the side of the rows
            before = sweep + (1.0 + run.settling) * wide
        single = moments.single_cost if self.sweeps == "float32" else 0.0
        precise = sweep * (single > 0)  # the Rayleigh-Ritz step
        exactly = moments.outer_gram_matmat if wide else moments.gram_matmat
        if run.resumed is not None:
            space = KrylovSpace.again(run.resumed, run, moments.home)
        else:
            run.plan(setup=moments.setup_cost + before + single + precise + after, iteration=sweep)
            S = self._started(problem, run, moments.home, wide=wide)
            b = self._width(problem, run, moments.setup_cost + after + SWEEPS * sweep, S)
            Omega = moments.home.place(run.part(self.test_matrix).draw(side, b, run.rng))
            most = self._most(problem.k, b + S.shape[1], side, moments.home)
            space = KrylovSpace(Omega, problem.k, most, run, moments.home, S, single=single > 0)
            if S.shape[1] or single:  # the first sweep gathers the means, which the copy in float32 needs
                space.widen(exactly)
        # Also where a checkpoint is gone on with: the copy in float32 is in no file.
        swept = moments.in_single_precision() if space.single else moments
        quickly = swept.outer_gram_matmat if wide else swept.gram_matmat

        def proceeds() -> bool:
            run.checkpoint(space.state)
            return run.proceed(
                residual=space.residual,
                current=lambda: self._current(problem, space, wide=wide),
                judged=not (space.unshown or space.single),
            )

        def iterate() -> None:
            while proceeds():
                if space.single and space.residual <= space.tol:
                    space.begin_precisely()
                space.widen(quickly if space.single else exactly)
            if (
                space.single
            ):  # a budget has ended; the values are those of products of the precision of the data
                space.begin_precisely()
                space.widen(exactly)

        def resume() -> None:
            space.renew()
            iterate()

        try:
            with run.reserving(after + precise):
                iterate()
            arrays = answer(problem, run, space.ritz, resume, of_rows=wide)
        finally:  # also where the run ends within a sweep
            space.tell(run)
        return run.finish(**arrays)

    @staticmethod
    def _started(problem: Any, run: Run, home: Home, *, wide: bool) -> Array:
        """An orthonormal basis of the start on the side of the iteration; it leaves room for a random column."""
        side = problem.A.shape[0 if wide else 1]
        if run.start is None:
            return home.zeros((side, 0))
        V = home.place(run.start["Vh"]).T
        if wide:
            V = home.place(problem.A.matmat(V))
        S = orthonormal(V * reciprocal(home.place(home.column_norms(V)))[None, :], home)
        return S[:, : min(S.shape[1], side - 1)]

    def _width(self, problem: Any, run: Run, sweeps: float, S: Array) -> int:
        """Random columns of a block: few if a sweep costs no more than its products, and the budget allows many sweeps.

        Beside those of a start there are so many that the block is as wide as a wide one, at least.
        """
        n, p = problem.A.shape
        full = min(problem.k + OVERSAMPLING, n, p)
        if run.start is not None:
            known = S.shape[1]
            fresh = max(full - known, FRESH) if self.block is None else self.block
            return int(min(fresh, S.shape[0] - known))
        if self.block is not None:
            return int(min(self.block, n, p))
        if not (problem.A.home.on_host and problem.A.resident and run.affords(sweeps)):
            return int(full)
        least = NARROW if problem.A.sparse else NARROW_DENSE
        return int(min(max(least, problem.k // COLUMNS), full))

    def _most(self, k: int, b: int, side: int, home: Home) -> int:
        """The largest number of columns in the basis."""
        if self.basis is not None:
            return min(max(self.basis, k + 2 * b), side)
        most = min(max(3 * k, k + 10 * b) if b < k else BLOCKS * b, side)
        if 8 * most * side > NEGLIGIBLE_BYTES:
            most = min(most, spare_bytes(home) // (8 * side))
        return min(max(most, k + 2 * b), side)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """The estimate: narrow blocks make a basis of five columns for each triplet and a few more."""
        side = min(sizes.n, sizes.p) if sizes.scattered else sizes.p
        least = NARROW if sizes.scattered else NARROW_DENSE
        b = min(max(least, sizes.k // COLUMNS), sizes.k + OVERSAMPLING, side)
        columns = min(BASIS[0] * sizes.k + BASIS[1], side)
        sweeps = -(-columns // b)
        orthogonal = 4.0 * side * columns**2 / DENSE_RATE
        held = 8.0 * (side * (2 * columns + 8 * b) + sizes.k * (sizes.n + sizes.p))
        seconds = sweeps_estimate(replace(sizes, k=b), sweeps).seconds + orthogonal
        return Estimate(seconds, held, f"{sweeps} sweeps with blocks of {b} columns")

    @staticmethod
    def _current(problem: Any, space: KrylovSpace, *, wide: bool) -> dict[str, Any]:
        """The values for a callback. On the side of the rows they take a product, which is not counted."""
        vectors, theta = space.ritz()
        S = np.sqrt(np.maximum(theta, 0.0))
        if wide:
            bare, _ = uncounted(problem.A)
            vectors = bare.rmatmat(vectors) * reciprocal(space.home.place(S))[None, :]
        return {"Vh": vectors.T, "S": S}


NOT_STATED = ("home", "rng", "held", "_looks", "_precisely")
"""Attributes of a space that a checkpoint has in another form, or that the run makes again."""


class KrylovSpace:
    """A basis V of the space, H = VᵀAᵀAV, and the newest block, which has not been multiplied yet.

    Parameters
    ----------
    Omega : array of shape (p, b)
    k : int
        The number of Ritz pairs.
    most : int
        The largest number of columns in V.
    run : Run
        Its tolerance, the precision of its data, and its random numbers are used.
    home : Home
    S : array of shape (p, m)
        An orthonormal basis of a start; m is 0 without one.
    single : bool
        Whether products are rounded to float32, until `begin_precisely`.
    """

    def __init__(
        self, Omega: Array, k: int, most: int, run: Run, home: Home, S: Array, *, single: bool
    ) -> None:
        self.k, self.home, self.rng, self.single = k, home, run.rng, single
        self._aim(np.dtype(np.float32) if single else run.problem.A.dtype, run.tol)
        self._precisely = run.problem.A.dtype, run.tol
        self.width, self.copies = Omega.shape[1], Omega.shape[1]
        self.next = home.concat([S, outside(Omega, S.T, home)]) if S.shape[1] else orthonormal(Omega, home)
        self.unshown = S.shape[1] > 0  # whether the start may lack leading vectors
        # The coordinates of the last random block, and those of the vectors before it, while nothing was dropped.
        self._known, self._fresh = S.shape[1], self.next.shape[1] - S.shape[1]
        self._traced = self.unshown
        self._columns = self.next.shape[1], S.shape[1]
        self.held = home.zeros((most, Omega.shape[0]))  # one vector in each row: products run along rows
        self.H = np.zeros((most, most))
        self.count = self.newest = self.begun_again = 0
        self.scale = self.per = 0.0
        self.theta, self.Y = np.zeros(0), np.zeros((0, 0))
        self.residual = 1.0
        self._looks = _Looks(k)
        self.doubtful = False  # whether a repeated value may have copies that were not found yet
        self._suspect, self._steps_apart = 0.0, 0
        self.strict = False
        self._left = 0.0  # the residual of newest blocks that were left behind
        # Estimates of the loss of orthogonality to the basis: of the last two blocks, and the largest so far.
        self._lost, self._level = (0.0, 0.0), self.unit

    def state(self) -> dict[str, Any]:
        """What the space is, for a checkpoint."""
        own = {name: value for name, value in vars(self).items() if name not in NOT_STATED}
        looks = dict(vars(self._looks))
        return {**own, "held": self.held[: self.count, :], "most": self.held.shape, "looks": looks}

    @classmethod
    def again(cls, state: Mapping[str, Any], run: Run, home: Home) -> KrylovSpace:
        """That of a checkpoint."""
        own = dict(state)
        space, looks = cls.__new__(cls), _Looks(0)
        vars(looks).update(own.pop("looks"))
        held, most = own.pop("held"), own.pop("most")
        vars(space).update(own, home=home, rng=run.rng, _looks=looks)
        space._precisely, space.next = (run.problem.A.dtype, run.tol), home.place(space.next)
        space.held = home.zeros(tuple(most))
        space.held[: space.count, :] = home.place(held)
        return space

    def _aim(self, dtype: np.dtype[Any], tol: float) -> None:
        """Set what follows from the precision of the products, and from the tolerance."""
        self.unit = float(np.finfo(dtype).eps)
        self.tol = max(AIM_SINGLE * tol, LEAST_SINGLE) if self.single else tol
        self.bearable = min(max(1e-2 * self.tol, LOST[0]), LOST[1])
        self.sharp = SHARP if self.unit < SHARP else SINGLE_SHARP
        # The part of the newest block that a second random block leaves behind stays in the residual.
        self.apart = max(0.1 * self.tol, 100 * self.unit)

    # ---- one step -----------------------------------------------------------------------------

    def widen(self, multiply: Callable[[Array], Array]) -> None:
        """Multiply the newest block, project the product, and compute the Ritz pairs if they may have converged."""
        block = self.next
        if self.count + block.shape[1] > len(self.H):
            self._begin_again(self.k + (len(self.H) - self.k) // 3)
        W = multiply(block)
        if not self.per:  # a power of two: it prevents overflow of fourth powers without rounding
            largest = float(to_host(self.home.xp.max(self.home.xp.abs(W))))
            exponent = int(np.frexp(largest)[1]) if 0 < largest < np.inf else 0
            self.per = 2.0 ** -max(min(exponent, 1000), -1000)
        W *= self.per
        self._steps_apart += 1
        start, self.count = self.count, self.count + block.shape[1]
        self.held[start : self.count, :] = block.T
        R, G = self._rest(W, start)
        self.newest = start
        self.next = self._orthonormal_rest(R, G)
        if self._looks.due(self.count) or self.next.shape[1] == 0:
            self._look(G)

    def _rest(self, W: Array, start: int) -> tuple[Array, HostArray]:
        """R, which is W minus its projection onto the basis, and RᵀR. The coefficients go into H."""
        V = self.held[: self.count, :]
        h = V @ W
        R = W
        R -= V.T @ h
        H, G = to_host_together(h, R.T @ R)
        self.scale = max(self.scale, float(np.linalg.norm(H, 2)))
        # A product has only rounding along the blocks before the last two, unless they are Ritz vectors. Small
        # directions of rests that were left out occur again in later blocks.
        first = self.newest if self.newest < start else 0
        # The loss of orthogonality of blocks enters the product (Simon 1984). That of the newest block shows in the
        # coefficients of older blocks. That of the block before is multiplied by the coefficients of this block. After
        # a restart the loss is unknown, because products have parts along all Ritz vectors.
        found, before = (float(np.linalg.norm(h)) for h in (H[:first], H[first:start]))
        self._slack = np.inf if 0 < start == self.newest else found + self._lost[0] * before
        first = 0 if self.strict else first
        self.H[first : self.count, start : self.count] = H[first:]
        self.H[start : self.count, first : self.count] = H[first:].T
        self.H[start : self.count, start : self.count] = (H[start:] + H[start:].T) / 2
        return R, G

    def _orthonormal_rest(self, R: Array, G: HostArray) -> Array:
        """An orthonormal basis of the rest, over the directions above rounding."""
        T, lengths = _directions(G, 10 * self.unit * self.scale)
        Q = R @ self.home.place(T)
        least = float(lengths.min(initial=np.inf))
        if len(lengths) < len(G):
            self.strict = True
            # The Gram matrix loses directions of a hundred millionth of the others' size; the rest itself has them.
            # What an uneven Q leaves of the others would be taken for such directions, and is mostly rounding.
            Q = orthonormal(Q, self.home)
            small = R - Q @ (Q.T @ R)
            T, _ = _directions(to_host(small.T @ small), LOUD * self.unit * self.scale)
            Q = self.home.concat([Q, small @ self.home.place(T)])
        lost = self._slack / least if least < np.inf else 0.0
        # What the rounding of RᵀR leaves in QᵀQ.
        uneven = EPS * (float(lengths.max(initial=0.0)) / least) ** 2
        if self.strict or least < SMALL * self.scale or lost > self.bearable:
            lost = self.unit
            # Scaling small rests has also amplified their parts along the basis.
            V = self.held[: self.count, :]
            Q = Q - V.T @ (V @ Q)
            own, vectors = eigenpairs(to_host(Q.T @ Q))
            Q = Q @ self.home.place(vectors[:, own > OWN] / np.sqrt(own[own > OWN]))
        self._lost, self._level = (self._lost[1], lost), max(self._level, lost)
        if self.strict or uneven > self.bearable / 100:
            Q = orthonormal(Q, self.home)
        room = min(self.held.shape[1] - self.count, max(len(self.H) - self.k, self.width))
        return Q[:, : min(Q.shape[1], room)]

    def _begin_again(self, keep: int) -> None:
        """Restart from the leading Ritz vectors; the newest block stays, and is orthogonal to them."""
        theta, Y = self._pairs()
        keep = min(keep, len(theta), len(self.H) - self.next.shape[1])
        self.held[:keep, :] = self.home.place(Y[:, :keep].T) @ self.held[: self.count, :]
        self.count = self.newest = keep
        self.begun_again += 1
        self._traced = False
        self.H[:] = 0.0
        self.H[:keep, :keep] = np.diag(theta[:keep])
        self.theta, self.Y = np.zeros(0), np.zeros((0, 0))
        self._looks = _Looks(0)

    def renew(self) -> None:
        """Continue after the end of the iteration. If no block is left to multiply, restart from the Ritz vectors."""
        self.strict = True
        if self.next.shape[1]:
            return
        self._multiply_again(self.k)

    def begin_precisely(self) -> None:
        """Begin again from the leading Ritz vectors, with products of the precision of the data."""
        self.single, self.residual, self._left = False, 1.0, 0.0
        self._aim(*self._precisely)
        self._multiply_again(min(self.k + self.width, len(self.H) // 2) if self.count else 0)

    def _multiply_again(self, leading: int) -> None:
        """Make the leading Ritz vectors the first block of a new basis."""
        if leading:
            _, Y = self._pairs()
            vectors = self.held[: self.count, :].T @ self.home.place(Y[:, :leading])
            self.next = orthonormal(vectors, self.home)
        self.count = self.newest = 0
        self.begun_again += 1
        self._traced = False
        self.H[:] = 0.0
        self.theta, self.Y = np.zeros(0), np.zeros((0, 0))
        self._lost, self._level = (0.0, 0.0), self.unit
        self._looks = _Looks(0)

    # ---- looking ------------------------------------------------------------------------------

    def _pairs(self) -> tuple[HostArray, HostArray]:
        """Eigenvalues and eigenvectors of H, decreasing."""
        if len(self.Y) != self.count or not len(self.Y):
            values, vectors = eigenpairs(self.H[: self.count, : self.count])
            self.theta, self.Y = values[::-1], vectors[:, ::-1]
        return self.theta, self.Y

    def _look(self, G: HostArray) -> None:
        """Judge the requested Ritz pairs. They count as converged if they cannot hide copies of repeated values."""
        self._pairs()
        exhausted = self.next.shape[1] == 0  # the space is invariant and has no other pairs
        residual = min(self._level, self.tol) if exhausted else self._worst(G)
        self._looks.seen(self.count, residual)
        self._looks.aim(self.count, max(self.tol - self._left, self.tol / 2))
        if self.unshown and residual + self._left <= max(self.tol, SETTLED):
            self.unshown = not (exhausted or self._shown(G))
        if residual + self._left <= self.tol:
            if self._suspect and not (exhausted or self._nothing_apart()):
                return
            self.doubtful = self._may_hide(residual)
            if self.doubtful or (self.unshown and not self._traced):
                if residual <= self.apart or exhausted:
                    self._left = float(np.hypot(self._left, residual))
                    self._look_apart()
                else:
                    self._looks.aim(self.count, self.apart)
                return
        self.residual = residual + self._left

    def _worst(self, G: HostArray) -> float:
        """max ‖AᵀA v − θ v‖ / θ₁ over the requested pairs, from the rest of the newest block."""
        largest = float(self.theta[0]) if len(self.theta) else 0.0
        if largest <= 0:
            return 0.0
        return float(self._rests(G, slice(0, self.k)).max()) / largest if len(self.theta) >= self.k else 1.0

    def _rests(self, G: HostArray, pairs: slice) -> HostArray:
        """‖AᵀA v − θ v‖ of the given Ritz pairs."""
        y = self.Y[self.newest : self.count, pairs]
        rests: HostArray = np.sqrt(np.maximum(np.sum(y * (G @ y), axis=0), 0.0))
        return rests

    def _may_hide(self, residual: float) -> bool:
        """Whether an eigenvalue above the k-th was found as often as the blocks so far can find one."""
        theta, b = self.theta[: self.k], self.copies
        if len(theta) < b or theta[0] <= 0:
            return False
        blur = max(SPREAD * self.sharp, residual**POWER, self.tol) * theta[0]
        least = theta[-1] if len(theta) == self.k else len(theta) * EPS * theta[0]
        equal = (theta[: len(theta) - b + 1] - theta[b - 1 :] <= blur) & (theta[b - 1 :] > least + blur)
        if equal.any() and self.count < self.held.shape[1]:
            self._suspect = float(theta[b - 1 :][equal].min())
            return True
        return False

    def _look_apart(self) -> None:
        """Continue with the requested Ritz vectors and a new random block that is orthogonal to them."""
        side = self.held.shape[1]
        self.next = self.next[:, :0]
        self._begin_again(min(self.k, int(np.sum(self.theta > len(self.theta) * EPS * self.theta[0]))))
        fresh = self.home.place(self.rng.standard_normal((side, min(self.width, side - self.count))))
        self.next = outside(fresh, self.held[: self.count, :], self.home)
        self._known, self._fresh, self._traced = self.count, self.next.shape[1], True
        self.copies += self.width
        self._looks = _Looks(0)
        self._steps_apart = 0

    def _nothing_apart(self) -> bool:
        """Whether another copy of the suspect would have been found, except with a probability of `RISK`."""
        if len(self.theta) <= self.k:
            return False
        least = max(self.tol, SPREAD * self.sharp)
        share = max(1.0 - self.theta[self.k] / self._suspect, least)
        if self.theta[self.k - 1] >= self._suspect * (1 - least):
            return True  # further copies would not change the requested values
        chance = self.width * log_chance(self.held.shape[1], share, self._steps_apart)
        return bool(chance <= np.log(RISK))

    def _shown(self, G: HostArray) -> bool:
        """Whether the last random block would have shown a missing eigenvalue, except with the risk `RISK`.

        It is missing if its eigenvector x is orthogonal to the k Ritz vectors and λ is above the k-th by more than the
        tolerance. If ‖X‖ <= 1/2, the vectors that were known before the random block hold a quarter of ‖x‖² at most.
        The rest of x has b random coefficients in N dimensions. All of them are inside the ellipsoid of X with at most
        the probability (4N/3 / 2π)^(b/2) times its volume π^(b/2) / Γ(b/2 + 1) ∏ σᵢ(X_random). X falls with λ, so the
        least λ is looked at.
        """
        theta, Y = self._pairs()
        if not self._traced or len(theta) <= self.k or theta[0] <= 0:
            return False
        known, b = self._known, self._fresh
        least = theta[self.k - 1] + max(self.tol, SPREAD * self.sharp) * theta[0]
        values, vectors = eigenpairs(G)
        B = vectors * np.sqrt(np.maximum(values, 0.0))
        rest = Y[:, self.k :] / (least - theta[self.k :])
        X = (B.T @ rest[self.newest : self.count]) @ Y[: known + b, self.k :].T
        if np.linalg.norm(X, 2) > INSIDE:
            return False
        sizes = np.linalg.svd(X[:, known:], compute_uv=False)
        sizes = np.maximum(sizes, EPS * max(float(sizes.max(initial=0.0)), EPS))
        ball = b / 2 * math.log(2 * self.held.shape[1] / 3) - math.lgamma(b / 2 + 1)
        return bool(ball + np.log(sizes).sum() <= math.log(RISK))

    def tell(self, run: Run) -> None:
        """Say what was used, and what could not be shown."""
        b, known = self._columns
        used = USED.format(
            columns=count_of(b, "column"), most=len(self.H), times=count_of(self.begun_again, "time")
        )
        run.note(
            None, used + FROM_START.format(known=count_of(known, "column"), fresh=b - known) * (known > 0)
        )
        if self.unshown:
            run.note(Status.INCOMPLETE, UNSHOWN)
        if self.doubtful:
            run.note(Status.INCOMPLETE, UNFINISHED)

    def ritz(self) -> tuple[Array, HostArray]:
        """The requested vectors and values."""
        theta, Y = self._pairs()
        V = self.held[: self.count, :].T @ self.home.place(Y[:, : self.k])
        # One step of Newton and Schulz makes semi-orthogonal vectors orthonormal to rounding.
        correction = 1.5 * np.eye(V.shape[1]) - 0.5 * to_host(V.T @ V)
        return V @ self.home.place(correction), theta[: self.k] / (self.per or 1.0)


def outside(Omega: Array, V: Array, home: Home) -> Array:
    """An orthonormal basis of the part of a block outside orthonormal vectors, which are the rows of V."""
    for _ in range(2):
        Omega = orthonormal(Omega - V.T @ (V @ Omega), home)
    return Omega


def _directions(G: HostArray, noise: float) -> tuple[HostArray, HostArray]:
    """T with R T orthonormal for G = RᵀR, over directions of R above noise and the rounding of G, and their lengths."""
    values, vectors = eigenpairs((G + G.T) / 2)
    keep = values > max(noise**2, len(values) * EPS * np.max(values, initial=0.0))
    lengths = np.sqrt(values[keep])
    return vectors[:, keep] / lengths, lengths


class _Looks:
    """The schedule for computing the Ritz pairs, which takes as long as several steps."""

    def __init__(self, first: int) -> None:
        self.next = first
        self.rate = 0.0
        self.last = 0, 1.0

    def due(self, count: int) -> bool:
        """Whether the basis is wide enough for another look."""
        return count >= self.next

    def seen(self, count: int, residual: float) -> None:
        """Record the residual of a basis with this number of columns."""
        before, larger = self.last
        falling = 0 < before < count and 0 < residual < min(0.1, 0.3 * larger)
        self.rate = float(np.log(larger / residual)) / (count - before) if falling else 0.0
        self.last = count, residual

    def aim(self, count: int, tol: float) -> None:
        """Schedule the next look for the width at which the residual will meet the tolerance at its current rate."""
        step = (GROWTH - 1.0) * count
        if self.rate:
            step = min(0.9 * float(np.log(max(self.last[1] / tol, 1.0))) / self.rate, 2 * step)
        self.next = count + int(step)
