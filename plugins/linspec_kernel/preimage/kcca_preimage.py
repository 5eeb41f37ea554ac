"""Points whose kernel functions are nearest to the canonical functions of kernel CCA.

Problem: points (u, v) in their sets for which k(·, u) and k(·, v) approximate the functions f = Σ aᵢ k(·, xᵢ) and g
that are most correlated. These are not the most correlated points, so the answer is approximate.
Method: solve kernel CCA with a ridge for f and g; divide both by their lengths in the space of the kernel; then
minimise, for each pair and view,

    ‖f − k(·, u)‖² = 1 − 2 Σ aᵢ k(xᵢ, u) + k(u, u)

by steps u ← Proj(u − a ∂‖f − k(·, u)‖²/∂u), the spectral projected gradient of `linspec_kernel.preimage.search`, from
the single columns that are nearest. If (f, g) is a canonical pair then so is (−f, −g): both are tried at once, and the
nearer pair is kept.
Source: Uurtio, Bhadra & Rousu 2019, ICML, PMLR 97, the comparison with KCCA; preimages, Mika, Schölkopf, Smola, Müller,
Scholz & Rätsch 1999, NIPS 11, Kernel PCA and de-noising in feature spaces.
Where we differ: f and g have unit length, which matters in a ball only; the published search takes plain gradient steps
from one random point, for one sign.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linspec import Status, as_operator, limit_option, option, part, tol_option
from linspec.arrays import Array, HostArray, reciprocal, to_host
from linspec.errors import InvalidOption
from linspec.iteration import Context, Iterate
from linspec.solving import Solver
from linspec_kernel.certificate import functions
from linspec_kernel.preimage.objectives import OBJECTIVES
from linspec_kernel.preimage.problem import PreimageCCA
from linspec_kernel.preimage.search import (
    Climb,
    Hunt,
    PointPair,
    Search,
    drawn_columns,
    signed_columns,
    single_columns,
)
from linspec_kernel.preimage.views import PointFunctions, PreimageMoments, Sides
from linspec_kernel.problem import KernelCCA

NEAR = (
    "The points are nearest to the functions of kernel CCA, and are not the most correlated ones. Take gradkcca, with "
    "this answer as its start, say."
)

SIGNS = (1.0, -1.0)
"""Signs with which f and g are approximated together."""


@dataclass(frozen=True, kw_only=True)
class KCCAPreimage(Solver):
    """Preimages of the functions of kernel CCA (Uurtio, Bhadra & Rousu 2019; Mika et al. 1999)."""

    kcca: Any = part("kcca", "solver of the kernel CCA", problem="kernel-cca")
    penalty: float = option(
        1e-2, "ridge of the kernel CCA, in units of the sum of k(x, x) over the rows", above=0
    )
    repeats: int = option(8, "starts of each point", at_least=1, at_most=1000)
    tol: float | None = tol_option(1e-4)
    max_iterations: int = limit_option(10_000)

    def iterate(self, problem: PreimageCCA, moments: Any, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield, after each step, the pairs found and the best points so far of the pair in progress."""
        context.note(Status.APPROXIMATE, NEAR)
        hunt = Hunt(problem, moments, context, {}, self.repeats)
        singles, rng = [], hunt.rng(1)
        for view in moments.views:  # whose first products settle the dtype of rows
            columns = signed_columns(drawn_columns(view, 2, rng))
            singles.append((columns, view.at(single_columns(view, columns))))
        duals = self.canonical_functions(problem, moments, context)
        squares = [  # ‖f − k(·, u)‖² = 1 − 2⟨f, k(·, u)⟩ + k(u, u) for single columns u
            (to_host(view.kernel.diagonal(side.points.T)), 2 * to_host(dual.T @ side.variates))
            for view, dual, (_, side) in zip(moments.views, duals, singles, strict=True)
        ]
        most = min(self.repeats, *(len(columns) for columns, _ in singles))
        for j in range(int(duals[0].shape[1])):
            starts = []
            for sign in SIGNS:
                nearest = [
                    np.argsort(square - sign * twice[j], kind="stable")[:most] for square, twice in squares
                ]
                points = [side.points[:, some] for (_, side), some in zip(singles, nearest, strict=True)]
                starts.append(np.vstack(points))
            search = Nearness(moments, context.tol, [dual[:, j : j + 1] for dual in duals], most)
            # u ← Proj(u − a ∂‖f − k(·, u)‖²/∂u), and v likewise
            climb = yield from hunt.climbed(search, np.hstack(starts))
            hunt.pairs.append(search.nearest(climb))
        yield hunt.iterate(hunt.pairs, final=True, doubt="")

    def canonical_functions(self, problem: PreimageCCA, moments: Any, context: Context) -> list[Array]:
        """Coefficients of the canonical functions, scaled to unit length."""
        passes, (x, y) = context.passes, (view.kernel for view in moments.views)
        inner: Any = KernelCCA(problem.X, problem.Y, problem.k, x, y, ridge=1.0, center=problem.center)
        matrices = inner.moments_of_its_own(passes)
        passes.reserved -= inner.certificate_products  # its answer is not certified
        traces = [float(to_host(op.diagonal()).sum()) for op in matrices.operators]
        ridge = tuple(self.penalty * (trace or 1.0) for trace in traces)  # any does for a matrix of zeros
        matrices.ridges = ridge
        answer = self.kcca.answered(inner.with_numbers(ridge=ridge), matrices, context)
        if any(features is not None for features in matrices.maps):
            raise InvalidOption(
                "kcca must find combinations of the kernel functions of rows: kcca, nystrom-lobpcg or nystrom-kcca."
            )
        units = []
        for name, op in zip("xy", matrices.operators, strict=True):
            W = op.device.asarray(answer[f"{name}_weights"])[:, : problem.k]
            f = functions(op, W, answer.get(f"{name}_landmarks"))
            units.append(f.dual * op.device.asarray(reciprocal(np.sqrt(np.maximum(np.diag(f.squares), 0.0)))))
        return units


class Nearness(Search):
    """Ascent of 2⟨f, k(·, u)⟩ − k(u, u) + 2⟨g, k(·, v)⟩ − k(v, v), by the steps of `Search`.

    Parameters
    ----------
    moments : PreimageMoments
    tol : float
    duals : pair of arrays of shape (n, 1)
        The coefficients of f and g.
    count : int
        So many columns are for (f, g), the others for (−f, −g).
    """

    def __init__(self, moments: PreimageMoments, tol: float, duals: Sequence[Array], count: int) -> None:
        super().__init__(moments, OBJECTIVES["correlation"], tol)
        self.duals, self.signs = duals, np.repeat(SIGNS, count)

    def values(self, sides: Sides, index: HostArray) -> HostArray:
        """The sum over both views."""
        return self.of_view(0, sides[0], index) + self.of_view(1, sides[1], index)

    def of_view(self, i: int, side: PointFunctions, index: HostArray) -> HostArray:
        """The part of the value that view i contributes, 2⟨f, k(·, u)⟩ − k(u, u)."""
        view = self.moments.views[i]
        inner = to_host(view.device.xp.sum(self.duals[i] * side.variates, axis=0))
        return 2 * self.signs[index] * inner - to_host(view.kernel.diagonal(side.points.T))

    def nearest(self, climb: Climb) -> PointPair:
        """The nearest points of each view: the values of both are added, and do not depend on each other."""
        same, best = np.flatnonzero(self.signs == self.signs[climb.best]), []
        for i, side in enumerate(self.moments.at(climb.points[:, same])):
            best.append(side.points[:, [int(np.argmax(self.of_view(i, side, same)))]])
        return replace(climb.best_pair, points=np.vstack(best))

    def gradients(self, sides: Sides, index: HostArray) -> HostArray:
        """Gradients of the values with respect to the points."""
        signs = self.moments.device.asarray(self.signs[index])
        slopes = self.moments.gradients(sides, [a * signs for a in self.duals])
        halves = []  # of the gradients of k(u, u): k(z, u) in u at z = u, since k is symmetric
        for view, side in zip(self.moments.views, sides, strict=True):
            U, kernel = side.points, view.kernel
            T = U.T @ U
            values = kernel.along(T, kernel.statistics(U.T), U)
            halves.append(kernel.pullback(as_operator(U.T), T, values, np.eye(U.shape[1]), U))
        return 2 * (slopes - np.vstack(halves))
