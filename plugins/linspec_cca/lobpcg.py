"""CCA by locally optimal block preconditioned conjugate gradients on both subspaces at once.

Problem: the leading canonical pairs of views too large for their Gram matrices, or for factoring them.
Method: each view has a subspace, and the pairs are the Rayleigh-Ritz pairs within the two. Their residuals

    Rx = CΨ − SxΦ diag(ρ),   Ry = CᵀΦ − SyΨ diag(ρ)

are multiplied by a preconditioner of each Gram matrix, Zx = Px⁻¹Rx and Zy = Py⁻¹Ry, made S-orthogonal to the subspace
(S = Sx or Sy), and added to it. One sweep multiplies both new blocks by all four matrices; everything else is small:
the pairs are the singular vectors of C in bases that are orthonormal in Sx and Sy. A subspace that has reached its
depth is reduced to the current pairs and the pairs before the last step. For a depth of three blocks these are the
directions of conjugate gradients.
Source: Knyazev 2001, doi:10.1137/S1064827500366124 (LOBPCG); restarts with the pairs before the last step as in
Stathopoulos 2007, doi:10.1137/050631574 (GD+k). Neither is about two views.
Where we differ: there is a subspace for each view, and not one of stacked vectors, so a block gives twice the
directions. The first block is random signs. Their product begins the iteration, makes the preconditioner
(`linspec.algebra.preconditioner`), and estimates the diagonals of operators that only give products. More columns than
k are carried, because convergence then depends on how far the correlations after them lie below the k-th. Their number
depends on the cost of a sweep. Pairs with a residual far below the tolerance stay in the subspace and need no more
products.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from linspec import (
    IterativeSolver,
    Moments,
    Run,
    Status,
    cost,
    form_option,
    limit_option,
    option,
    tol_option,
)
from linspec.algebra import SketchNorm, metric_rounding, preconditioner_from_sketch, raised_diagonal
from linspec.arrays import Array, HostArray, to_host
from linspec.cost import Estimate, Sizes
from linspec.families.cca import ExpectedGain, behind_an_answer
from linspec_cca.pairs_within import KEPT, PairsWithin, Wanted
from linspec_cca.search_space import SearchSpace, SubspaceView, add_multiple

EXPECTED = 40
"""Expected number of sweeps, for the decision whether to hold Gram matrices."""

OVERSAMPLED_HELD, OVERSAMPLED = 16, 50
"""Number of columns beyond k if products cost no sweep, and if each costs one."""

DEPTH_HELD, DEPTH = 4, 3
"""Largest number of blocks in a subspace, if products cost no sweep, and if each costs one. A deeper subspace takes
more memory, but is reduced less often."""

SETTLED = 0.01
"""Pairs get no more directions if their residual is below this fraction of the tolerance."""

FLOPS_BETWEEN = 57.0
"""Operations between two sweeps, in units of (p + q) m² for blocks of m columns."""

BLOCKS_HELD = 13
"""Blocks of m columns that are held at the peak: nine of the subspaces, and two for each of two threads."""

FEWEST_SIGNS = 4
"""Least number of columns of random signs for an estimate of diagonals."""

LEAST_CUT = 1e-13
"""Least `cut` of a view (see `SubspaceView`), for any number of columns."""


@dataclass(frozen=True, kw_only=True)
class LOBPCG(IterativeSolver):
    """Locally optimal block preconditioned conjugate gradients (Knyazev 2001, doi:10.1137/S1064827500366124)."""

    tol: float | None = tol_option()
    max_iterations: int = limit_option(500, "sweeps")
    oversample: int | None = option(
        None, "columns carried beyond k; none: 16 with held Gram matrices, else 50", kind=int, at_least=0
    )
    depth: int | None = option(
        None, "blocks of a subspace at most; none: 4 with held Gram matrices, else 3", kind=int, at_least=3
    )
    form: str = form_option()

    kept: ClassVar = KEPT

    def iterates(self, problem: Any, run: Run, state: PairsWithin | None = None) -> Iterator[PairsWithin]:
        """Yield the canonical pairs within subspaces that grow."""
        moments = run.moments(self.form, (EXPECTED, problem.k + OVERSAMPLED))
        width = self._width(problem, moments)
        depth = self.depth or (DEPTH if moments.form == "implicit" else DEPTH_HELD)
        found = self._begun(problem, run, moments, width) if state is None else state
        judged = partial(PairsWithin.of, found.wanted, found.norms, keeps=run.keeps)
        del state  # its panels are not held longer than a step
        while True:
            if found.gain.turned:  # only directions of rounding are left
                found = found.without_last_block()
            yield found
            # Rx = CΨ − SxΦ diag(ρ), Ry = CᵀΦ − SyΨ diag(ρ) of the pairs that are not far below the tolerance
            space, R = found.gone_on_with(SETTLED)
            # Zx = Px⁻¹Rx, Zy = Py⁻¹Ry
            Z = [norm.P.solve(R.pop(0)) for norm in found.norms]
            columns, gain = int(Z[0].shape[1]), found.gain
            del found  # the step frees the arrays that it no longer needs
            # made S-orthogonal to the subspaces
            space.make_room(columns, width, depth)
            Z = space.directions(Z)
            # SxZx, CZy, CᵀZx, SyZy: one sweep; and the pairs within the larger subspaces
            space.append(Z, _products(problem, moments, Z))
            ending = None
            if space.broken:
                space.undo()
                ending = Status.STAGNATED
            elif not space.whole:  # before the residuals, which cost nothing then
                space.make_room(columns, width, depth)
            found = judged(space, gain, ending=ending)

    # ---- the start ----------------------------------------------------------------------

    def _begun(self, problem: Any, run: Run, moments: Moments, width: int) -> PairsWithin:
        """Pairs within the first blocks, and the norms from their products, in one sweep."""
        blocks, signs = self._first_blocks(problem, run, moments, width)
        products = _products(problem, moments, blocks)
        views, norms = [], []
        for i, (A, r, d) in enumerate(
            zip((problem.X, problem.Y), problem.ridge, moments.diagonal(), strict=True)
        ):
            V, SV = blocks[i], products[3 * i]
            if not moments.columns.exact and V.shape[1] - signs >= FEWEST_SIGNS:
                d = raised_diagonal(V[:, signs:], SV[:, signs:], r, moments.home)
            P = preconditioner_from_sketch(V, SV, r, d, None, moments.home)
            norms.append(SketchNorm(P, r, moments.home))
            views.append(_view(A, d, r, moments, moments.dtype(i)))
        space = SearchSpace((views[0], views[1]))
        first = [view.without_dead(V) for view, V in zip(views, blocks, strict=True)]
        del blocks, V, SV
        space.append(first, products)
        wanted = Wanted(problem.k, width, problem.ridge)
        pair = norms[0], norms[1]
        return PairsWithin.of(wanted, pair, space, ExpectedGain(run.tol), keeps=run.keeps)

    def _width(self, problem: Any, moments: Moments) -> int:
        """Number of columns: k and additional ones, as the shapes allow."""
        more = self.oversample
        if more is None:
            more = OVERSAMPLED if moments.form == "implicit" else OVERSAMPLED_HELD
        return int(min(problem.k + more, *problem.X.shape, problem.Y.shape[1]))

    def _first_blocks(self, problem: Any, run: Run, moments: Moments, width: int) -> tuple[list[Array], int]:
        """First blocks: columns of an earlier answer, if any, then random signs; and the number of those columns."""
        home = moments.home
        drawn = [home.place(_signs(run, A.shape[1], width)) for A in (problem.X, problem.Y)]
        return behind_an_answer(run, drawn, home)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of some dozens of products, held or swept, and of the algebra between them."""
        p, q = sizes.p, sizes.q
        width = min(sizes.k + OVERSAMPLED, p, q)
        form, products = cost.moments_form(sizes, EXPECTED, width)
        if form != "implicit":
            width = min(sizes.k + OVERSAMPLED_HELD, p, q)
            products = cost.moments_estimates(sizes, EXPECTED, width)[form]
        between = EXPECTED * float(p + q) * width**2 * FLOPS_BETWEEN / cost.DENSE_RATE
        held = 8.0 * (p + q) * BLOCKS_HELD * width
        note = f"some {EXPECTED} products ({products.note}) with blocks of {width} columns"
        return Estimate(products.seconds + between, products.bytes + held, note)


def _view(A: Any, diagonal: Array, ridge: float, moments: Moments, dtype: np.dtype[Any]) -> SubspaceView:
    """Empty subspace of a view.

    With fewer rows than columns and a ridge r, Xv = 0 for some v, so vᵀSv = r vᵀv. Then `longest` is at least about
    the mean of the diagonal divided by r, and begins with this value.
    """
    cut = max(metric_rounding(A.shape[1], dtype), LEAST_CUT)
    view = SubspaceView(moments.home, dtype, diagonal + ridge, cut)
    if A.shape[0] >= A.shape[1] or ridge == 0:
        return view
    return replace(view, longest=float(to_host(moments.home.xp.mean(view.diagonal))) / ridge)


def _products(problem: Any, moments: Moments, blocks: list[Array]) -> list[Array]:
    """SxZx, CZy, CᵀZx and SyZy, ridges included: one sweep."""
    SZx, CZy, CtZx, SZy = moments.products(*blocks)
    for SZ, Z, r in zip((SZx, SZy), blocks, problem.ridge, strict=True):
        if r > 0:
            add_multiple(SZ, Z, r, moments.home)
    return [SZx, CZy, CtZx, SZy]


def _signs(run: Run, rows: int, columns: int) -> HostArray:
    """Random signs times factors from 0.8 to 1.2.

    A small square matrix of plain signs is often singular, and a column of signs may be orthogonal to
    constants.
    """
    signs: HostArray = run.rng.integers(0, 2, (rows, columns)) * 2.0 - 1.0
    return signs * run.rng.uniform(0.8, 1.2, (rows, columns))
