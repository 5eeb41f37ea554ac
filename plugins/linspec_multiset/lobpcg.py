"""Multiset CCA by locally optimal block preconditioned conjugate gradients, with a subspace for each view.

Problem: the leading solutions of A w = λ B w of views too large for their Gram matrices.
Method: the Ritz vectors of the pencil within subspaces of the views (`linspec_multiset.subspaces`) have the residual
A w − λ B w. Its part of view i is multiplied by a preconditioner of Sᵢ, made Sᵢ-orthogonal to the subspace, and added
to it. One sweep multiplies all new blocks by all Gram and cross matrices. Before the next step each subspace is reduced
to the leading Ritz vectors and those before the last step: these are the directions of conjugate gradients.
Source: Knyazev 2001, doi:10.1137/S1064827500366124 (LOBPCG); Stathopoulos 2007, doi:10.1137/050631574 (GD+k).
Where we differ: there is a subspace for each view, and not one of stacked vectors. The first block is random signs; its
products make the preconditioners (`linspec.algebra.preconditioner_from_sketch`). Vectors with a residual far below the
tolerance stay in the subspaces, and need no more products.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from linspec import (
    Iterate,
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
from linspec.algebra import (
    NORMS,
    InverseNorm,
    SketchNorm,
    metric_rounding,
    preconditioner_from_sketch,
    raised_diagonal,
)
from linspec.arrays import Array, HostArray, largest_magnitude
from linspec.cost import Estimate, Sizes
from linspec.moments import Basis
from linspec_multiset.absent import bases_of
from linspec_multiset.pencil import Pencil
from linspec_multiset.subspaces import Subspaces, joined

EXPECTED = 30
"""Expected number of sweeps, for the decision whether to hold Gram matrices."""

OVERSAMPLED = 20
"""Columns of the block beyond k."""

SETTLED = 0.1
"""Vectors get no more directions if their residual is below this fraction of the tolerance."""

PROGRESS, PATIENCE = 0.9, 25
"""Within PATIENCE steps the residual must fall below PROGRESS times its least value."""

BLOCKS_HELD = 10
"""Blocks that are held at the peak for each view and each product of it."""


class RitzVectors(Iterate):
    """The leading Ritz vectors, with what the law can use."""

    def answer(self) -> Mapping[str, Any]:
        """Return the weights, the norms of Sᵢ⁻¹, and the residuals."""
        residuals = tuple(self["space"].residuals(self["weights"][0].shape[1]))
        return {**self.weights(), "norms": self["norms"], "residuals": residuals}


@dataclass(frozen=True, kw_only=True)
class LOBPCGMultiset(IterativeSolver):
    """Locally optimal block preconditioned conjugate gradients (Knyazev 2001, doi:10.1137/S1064827500366124)."""

    tol: float | None = tol_option()
    max_iterations: int = limit_option(500, "sweeps")
    oversample: int = option(OVERSAMPLED, "columns carried beyond k", at_least=0)
    form: str = form_option()

    kept: ClassVar[Sequence[type]] = (RitzVectors, Subspaces, Pencil, Basis, *NORMS)

    def iterates(self, problem: Any, run: Run, state: RitzVectors | None = None) -> Iterator[RitzVectors]:
        """Yield the Ritz vectors within subspaces that grow."""
        moments = run.moments(self.form, (EXPECTED, problem.k + self.oversample))
        width, broken = problem.k + self.oversample, False
        if state is None:
            space, norms = _begun(problem, run, moments, width)
            least, since, anew = math.inf, 0, False
        else:
            names = ("space", "norms", "least", "since", "anew")
            space, norms, least, since, anew = (state[name] for name in names)
        while True:
            R = space.residuals(width)
            lengths = _lengths(space, norms, R)
            residual = float(np.max(lengths[: problem.k], initial=0.0))
            if state is None:
                better = residual < PROGRESS * least
                least, since = (residual, 0) if better else (least, since + 1)
                ending = Status.STAGNATED if broken or since > PATIENCE else None
            else:
                ending = state.ending
            state = None
            yield RitzVectors(
                residual,
                ending=ending,
                weights=space.weights(problem.k),
                state={"space": space, "norms": norms, "least": least, "since": since, "anew": anew},
            )
            pencil = space.pencil
            # The law has sent it back: its products are those of many turns.
            if not anew and residual <= run.tol:
                fresh = bases_of(moments, pencil.ridges, [basis.V for basis in space.shrunk(width)])
                space, anew = Subspaces.of(pencil, fresh), True
                del fresh
                R = space.residuals(width)
                lengths = _lengths(space, norms, R)
            settled = SETTLED * min(run.tol, float(np.max(lengths[: problem.k], initial=0.0)))
            open_ = moments.home.place(np.eye(len(lengths))[:, lengths > settled])
            Q, total = space.shrunk(width), space.total(problem.k)
            Z = [
                space.directions(i, norm.solve(R.pop(0) @ open_), basis)
                for i, (norm, basis) in enumerate(zip(norms, Q, strict=True))
            ]
            del space
            new = bases_of(moments, pencil.ridges, Z)
            del Z
            space = Subspaces.of(pencil, [joined(both, pencil) for both in zip(Q, new, strict=True)])
            broken = space.loses(total, problem.k)
            if broken:
                space = Subspaces.of(pencil, Q)
            del Q, new

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of some dozens of products, held or swept, and of the algebra between them."""
        width = min(sizes.k + OVERSAMPLED, sizes.p + sizes.q)
        _, products = cost.moments_form(sizes, EXPECTED, width)
        side = float(sizes.p + sizes.q)
        views = max(side / max(sizes.p, 1), 2.0)  # as if all were as wide as the first
        small = min(3 * width * views, side)
        between = EXPECTED * (side * width**2 * 60.0 / cost.DENSE_RATE + 4.0 * small**3 / cost.FACTOR_RATE)
        held = 8.0 * side * width * BLOCKS_HELD * 3
        note = f"some {EXPECTED} products ({products.note}) with blocks of {width} columns"
        return Estimate(products.seconds + between, products.bytes + held, note)


def _begun(problem: Any, run: Run, moments: Moments, width: int) -> tuple[Subspaces, tuple[InverseNorm, ...]]:
    """Multiply random signs, behind an earlier answer if there is one; return their spaces, and norms of Sᵢ⁻¹."""
    home, ridges = moments.home, problem.ridge
    blocks, signs = list[Array](), list[int]()
    for i, A in enumerate(problem.views):
        p = int(A.shape[1])
        drawn = home.place(_signs(run, p, min(width, p)))
        earlier = None if run.start is None else home.place(run.start["weights"][i])
        if earlier is not None:
            unit = 2.0 ** math.frexp(largest_magnitude(earlier))[1]
            drawn = home.concat([earlier, drawn * unit])
        signs.append(0 if earlier is None else int(earlier.shape[1]))
        blocks.append(drawn)
    bases = bases_of(moments, ridges, blocks)
    diagonals, norms = list[Array](), list[InverseNorm]()
    for basis, r, d, first in zip(bases, ridges, moments.diagonal(), signs, strict=True):
        sample = basis[first:]
        if not moments.columns.exact:
            scale = home.place(np.array(largest_magnitude(sample.V) or 1.0))
            d = raised_diagonal(sample.V / scale, sample.SV / scale, r, home)
        P = preconditioner_from_sketch(sample.V, sample.SV, r, d, None, home)
        norms.append(SketchNorm(P, r, home))
        diagonals.append(d + r)
    cuts = tuple(
        max(metric_rounding(A.shape[1], moments.dtype(i)), 1e-13) for i, A in enumerate(problem.views)
    )
    pencil = Pencil(home, tuple(ridges), problem.view_weights, tuple(diagonals), cuts)
    return Subspaces.of(pencil, bases), tuple(norms)


def _lengths(space: Subspaces, norms: Sequence[InverseNorm], R: Sequence[Array]) -> HostArray:
    """Return the lengths of residuals in the norm of B⁻¹, divided by the first Ritz value."""
    weights = space.pencil.weights
    own = [norm.squares(part) / weight for norm, part, weight in zip(norms, R, weights, strict=True)]
    squares: HostArray = np.sum(own, axis=0)
    first = float(np.max(space.values, initial=0.0))
    return np.sqrt(squares) / (first if first > 0 else np.inf)


def _signs(run: Run, rows: int, columns: int) -> HostArray:
    """Draw random signs times factors from 0.8 to 1.2, so that small square blocks are not singular."""
    signs: HostArray = run.rng.integers(0, 2, (rows, columns)) * 2.0 - 1.0
    return signs * run.rng.uniform(0.8, 1.2, (rows, columns))
