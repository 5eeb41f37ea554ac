"""CCA by locally optimal block preconditioned conjugate gradients on both subspaces at once.

Problem: the leading canonical pairs of views too large for their Gram matrices, or for factoring them.
Method: each view has a subspace, and the pairs within the two are exact. Their residuals

    Rx = CΨ − SxΦ diag(ρ),   Ry = CᵀΦ − SyΨ diag(ρ)

are taken through a preconditioner of each Gram matrix, made orthogonal to the subspace, and enlarge it. One sweep
multiplies both new blocks by all four matrices; everything else is small. When a subspace has grown to its depth it
shrinks to the current pairs and to those before the last step: for a depth of three blocks these are the directions of
conjugate gradients.
Source: Knyazev 2001, doi:10.1137/S1064827500366124 (LOBPCG); restarts with the pairs before the last step as in
Stathopoulos 2007, doi:10.1137/050631574 (GD+k). Neither is about two views.
Where we differ. There is a subspace for each view, not one of stacked vectors, so a block gives twice the
directions. The first block is random signs: their one product begins the iteration, makes the preconditioner
(`linspec_cca.preconditioner`) and, where only products are known, tells the diagonals. More columns are carried than
pairs are wanted, because the gap that decides the speed is then the one behind them; how many depends on whether a
sweep costs much. Pairs whose residual is far below the tolerance stay in the subspace and ask for no more products.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from linspec import Moments, Run, Solution, Solver, Status, cost, option
from linspec.arrays import Array, Home, HostArray, reciprocal, to_host
from linspec.block_algebra import metric_rounding
from linspec.cost import Estimate, Sizes
from linspec_cca.preconditioner import Preconditioner, from_sketch, raised_diagonal
from linspec_cca.search_space import SearchSpace, View

EXPECTED = 40
"""Sweeps that are expected, when it is weighed whether to hold Gram matrices."""

OVERSAMPLED_HELD, OVERSAMPLED = 15, 50
"""Columns beyond k where products cost no sweep, and where each costs one."""

SETTLED = 0.01
"""Share of the tolerance below which a pair asks for no more directions."""

FLOPS_BETWEEN = 70.0
"""Operations between two sweeps, in units of (p + q) m² for blocks of m columns."""

BLOCKS_HELD = 13
"""Blocks of m columns that are held at the peak: nine of the subspaces, and two for each of two threads."""

FEWEST_SIGNS = 4
"""Random signs from which diagonals can be told at all."""

PATIENCE, PROGRESS = 25, 0.9
"""Sweeps within which the residual must fall by this factor."""


@dataclass(frozen=True, kw_only=True)
class LOBPCG(Solver):
    """Locally optimal block preconditioned conjugate gradients (Knyazev 2001, doi:10.1137/S1064827500366124)."""

    tol: float | None = option(None, "residual to stop at; none: 1e-6, more for float32", above=0)
    max_iterations: int = option(500, "sweeps at most", at_least=1)
    oversample: int | None = option(
        None, "columns carried beyond k; none: 15 with held Gram matrices, else 50", kind=int, at_least=0
    )
    depth: int = option(3, "blocks of a subspace at most", at_least=3)
    rank: int | None = option(
        None, "rank of the preconditioner beside its diagonal; none: from the data", kind=int, at_least=0
    )
    form: str = option(
        "auto", "hold the Gram matrices or sweep the data", choices=("auto", "dense", "sparse", "implicit")
    )

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a CCA problem."""
        moments = run.moments(self.form, expect=(EXPECTED, problem.k + OVERSAMPLED))
        run.plan(setup=moments.setup_cost + moments.sweep_cost, iteration=moments.sweep_cost)
        width = self._width(problem, moments)
        k, xp = problem.k, moments.home.xp
        blocks = _first_blocks(problem, run, moments, width)
        products = _products(problem, moments, blocks)
        diagonals = _diagonals(run, moments, blocks, products, problem.ridge)
        solvers = self._preconditioners(problem, diagonals, blocks, products, moments.home)
        views = _views(problem, diagonals, moments.home)
        blocks = _without_dead(blocks, views)
        space = SearchSpace(views)
        weights = [reciprocal(d + r)[:, None] for d, r in zip(moments.diagonal(), problem.ridge, strict=True)]
        space.append(blocks, products)
        del blocks, products
        best, since = np.inf, 0
        while True:
            # 1. residuals of the pairs within the two subspaces
            Rx, Ry = space.residuals(width)
            squares = to_host(sum(xp.sum(R * R * w, axis=0) for R, w in zip((Rx, Ry), weights, strict=True)))
            residual = _law(squares[:k], space.correlations[:k])
            best, since = (residual, 0) if residual < PROGRESS * best else (best, since + 1)
            if since > PATIENCE:
                run.end(Status.STAGNATED)
            if not run.proceed(residual=residual, current=partial(space.weights, k)):
                break
            # 2. what shrinks them, outside of the subspaces
            active = squares > SETTLED * run.tol * space.correlations[: len(squares)]
            active[: len(squares)] |= not active.any()
            chosen = np.flatnonzero(active)
            Zx, Zy = (
                P.solve(_columns(R, chosen, moments.home)) for P, R in zip(solvers, (Rx, Ry), strict=True)
            )
            del Rx, Ry
            if max(view.columns for view in space.views) + len(chosen) > self.depth * width:
                space.shrink(width, (self.depth - 1) * width)
            blocks = (space.views[0].directions(Zx), space.views[1].directions(Zy))
            # 3. one sweep, and the pairs within the larger subspaces
            space.append(blocks, _products(problem, moments, blocks))
            del blocks, Zx, Zy
        return run.finish(**space.weights(k))

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Some dozens of products, held or swept, and the algebra between them."""
        p, q = sizes.p, sizes.q
        width = min(sizes.k + OVERSAMPLED, p, q)
        form, products = cost.moments_form(sizes, EXPECTED, width)
        if form != "implicit":
            width = min(sizes.k + OVERSAMPLED_HELD, p, q)
        between = EXPECTED * float(p + q) * width**2 * FLOPS_BETWEEN / cost.DENSE_RATE
        held = 8.0 * (p + q) * BLOCKS_HELD * width
        note = f"some {EXPECTED} products ({products.note}) with blocks of {width} columns"
        return Estimate(products.seconds + between, products.bytes + held, note)

    def _width(self, problem: Any, moments: Moments) -> int:
        """k columns and some more, as far as the shapes allow."""
        more = self.oversample
        if more is None:
            more = OVERSAMPLED if moments.form == "implicit" else OVERSAMPLED_HELD
        return int(min(problem.k + more, *problem.X.shape, problem.Y.shape[1]))

    def _preconditioners(
        self,
        problem: Any,
        diagonals: tuple[Array, Array],
        blocks: tuple[Array, Array],
        products: tuple[Array, Array, Array, Array],
        home: Home,
    ) -> tuple[Preconditioner, Preconditioner]:
        """One a view, from the first product."""
        found = []
        for V, SV, d, r in zip(blocks, (products[0], products[3]), diagonals, problem.ridge, strict=True):
            found.append(from_sketch(V, SV - V * r, r, d, self.rank, home))
        return found[0], found[1]


def _diagonals(
    run: Run,
    moments: Moments,
    blocks: tuple[Array, Array],
    products: tuple[Array, Array, Array, Array],
    ridge: tuple[float, float],
) -> tuple[Array, Array]:
    """The diagonals of both Gram matrices, without ridge: as they are known, or from the random signs."""
    first = 0 if run.start is None else run.start["x_weights"].shape[1]
    if moments.exact_diagonal or blocks[0].shape[1] < first + FEWEST_SIGNS:
        dx, dy = moments.diagonal()
        return dx, dy
    signs = [V[:, first:] for V in blocks]
    found = [
        raised_diagonal(Z, SV[:, first:] - Z * r, moments.home)
        for Z, SV, r in zip(signs, (products[0], products[3]), ridge, strict=True)
    ]
    return found[0], found[1]


def _views(problem: Any, diagonals: tuple[Array, Array], home: Home) -> tuple[View, View]:
    """Subspaces without vectors, for both views."""
    found = [
        View(home, A.dtype, d + r, metric_rounding(A.shape[1], A.dtype))
        for A, d, r in zip((problem.X, problem.Y), diagonals, problem.ridge, strict=True)
    ]
    return found[0], found[1]


def _first_blocks(problem: Any, run: Run, moments: Moments, width: int) -> tuple[Array, Array]:
    """Random signs, behind an earlier answer where there is one.

    Their sizes differ a little: a small square matrix of mere signs is often singular, and a column of them orthogonal
    to what is constant.
    """
    home = moments.home
    found = []
    for name, A in (("x_weights", problem.X), ("y_weights", problem.Y)):
        earlier = [] if run.start is None else [run.start[name]]
        # No slice goes beyond the end: the array-API standard has none such.
        earlier = [W[:, : min(width, W.shape[1])] for W in earlier]
        count = width - sum(int(W.shape[1]) for W in earlier)
        shape = (A.shape[1], count)
        signs = (run.rng.integers(0, 2, shape) * 2.0 - 1.0) * run.rng.uniform(0.8, 1.2, shape)
        found.append(home.concat([*earlier, home.place(signs)]))
    return found[0], found[1]


def _without_dead(blocks: tuple[Array, Array], views: tuple[View, View]) -> tuple[Array, Array]:
    """The blocks with zeros for columns of zeros: products do not know these entries, and they would only grow."""
    found = []
    for V, view in zip(blocks, views, strict=True):
        live, xp = view.diagonal > 0, view.home.xp
        found.append(V if bool(xp.all(live)) else V * xp.astype(live, xp.float64)[:, None])
    return found[0], found[1]


def _products(
    problem: Any, moments: Moments, blocks: tuple[Array, Array]
) -> tuple[Array, Array, Array, Array]:
    """SxZx, CZy, CᵀZx and SyZy, ridges included: one sweep."""
    (Zx, Zy), (rx, ry) = blocks, problem.ridge
    SZx, CZy, CtZx, SZy = moments.products(Zx, Zy)
    return SZx + Zx * rx, CZy, CtZx, SZy + Zy * ry


def _columns(R: Array, chosen: HostArray, home: Home) -> Array:
    """Some columns; R itself where it is all of them."""
    if len(chosen) == R.shape[1]:
        return R
    xp = home.xp
    return xp.take(R, xp.asarray(chosen, device=home.device), axis=1)


def _law(squares: HostArray, rho: HostArray) -> float:
    """Σ‖ϱᵢ‖² / Σρᵢ."""
    total, correlation = float(squares.sum()), float(rho.sum())
    if correlation > 0:
        return total / correlation
    return 0.0 if total == 0 else float("inf")
