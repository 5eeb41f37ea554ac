"""Points whose kernel functions are nearest to the canonical functions of kernel CCA.

Problem: points (u, v) in their sets for which k(·, u) and k(·, v) approximate the functions f = Σ aᵢ k(·, xᵢ) and g
that are most correlated. These are not the most correlated points, so the answer is approximate.
Method: solve kernel CCA with a ridge for f and g; divide both by their lengths in the space of the kernel; then
minimise, for each pair and view,

    ‖f − k(·, u)‖² = 1 − 2 Σ aᵢ k(xᵢ, u) + k(u, u)

by steps u ← Proj(u − a ∂‖f − k(·, u)‖²/∂u), the spectral projected gradient of `linspec_kernel.preimage.ascent`, from
the single columns that are nearest. If (f, g) is a canonical pair then so is (−f, −g): both are tried at once, and the
nearer pair is kept.
Source: Uurtio, Bhadra & Rousu 2019, ICML, PMLR 97, the comparison with KCCA; preimages, Mika, Schölkopf, Smola, Müller,
Scholz & Rätsch 1999, NIPS 11, Kernel PCA and de-noising in feature spaces.
Where we differ: f and g have unit length, which matters in a ball only; the published search takes plain gradient steps
from one random point, for one sign.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linspec import Status, as_operator, limit_option, option, part, tol_option
from linspec.arrays import Array, HostArray, reciprocal, to_host
from linspec.errors import InvalidOption
from linspec.iteration import Context, Iterate
from linspec.solving import Solver
from linspec_kernel.certificate import functions
from linspec_kernel.preimage.ascent import Climb, PointPair, Points, Search
from linspec_kernel.preimage.hunt import (
    Hunt,
    drawn_columns,
    signed_columns,
    single_columns,
)
from linspec_kernel.preimage.objectives import OBJECTIVES
from linspec_kernel.preimage.views import PointFunctions, PreimageView, Sides, Views
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

    def iterate(self, problem: Any, moments: Any, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield, after each step, the pairs found and the best points so far of the pair in progress."""
        context.note(Status.APPROXIMATE, NEAR)
        hunt = PreimageHunt(self, problem, moments, context)
        while (j := len(hunt.found)) < hunt.count:
            f, g = (dual[:, j : j + 1] for dual in hunt.duals)
            starts = hunt.starts_of(j)
            search = Nearness(hunt.views, context.tol, (f, g), np.repeat(SIGNS, starts[0].shape[1] // 2))
            # u ← Proj(u − a ∂‖f − k(·, u)‖²/∂u), and v likewise
            climb = yield from hunt.climbed(search, starts)
            hunt.found.append(search.nearest(climb))
        yield hunt.iterate(hunt.found, final=True, doubt="")


class PreimageHunt(Hunt):
    """Searches for the points nearest to functions.

    Parameters
    ----------
    solver : KCCAPreimage
    problem, moments, context, start
        As for `Hunt`.

    Attributes
    ----------
    duals : pair of arrays of shape (n, k)
        Coefficients of the functions f and g to approximate, which have unit length.
    count : int
        Number of pairs.
    singles : list of (numpy.ndarray, numpy.ndarray, numpy.ndarray)
        For each view the numbers of single columns u, k(u, u), and the inner products of f with k(·, u), pair by pair.
    """

    def __init__(self, solver: KCCAPreimage, problem: Any, moments: Any, context: Context) -> None:
        super().__init__(problem, moments, context, {}, solver.repeats)
        singles, rng = [], self.rng(1)
        for view in self.views:  # whose first products settle the dtype of rows
            columns = signed_columns(drawn_columns(view, 2, rng))
            singles.append((columns, view.at(single_columns(view, columns))))
        self.duals = self.canonical_functions(solver)
        self.count = int(self.duals[0].shape[1])
        self.singles = [
            (columns, to_host(view.kernel.diagonal(side.points.T)), to_host(dual.T @ side.variates))
            for view, dual, (columns, side) in zip(self.views, self.duals, singles, strict=True)
        ]

    def canonical_functions(self, solver: KCCAPreimage) -> tuple[Array, Array]:
        """Coefficients of the canonical functions, scaled to unit length."""
        problem, passes = self.problem, self.context.passes
        x, y = self.kernels
        inner: Any = KernelCCA(problem.X, problem.Y, problem.k, x, y, ridge=1.0, center=problem.center)
        moments = inner.moments_of_its_own(passes)
        passes.reserved -= inner.certificate_products  # its answer is not certified
        traces = [float(to_host(op.diagonal()).sum()) for op in moments.operators]
        ridge = tuple(solver.penalty * (trace or 1.0) for trace in traces)  # any does for a matrix of zeros
        moments.ridges = ridge
        found = solver.kcca.answered(inner.with_numbers(ridge=ridge), moments, self.context)
        units = []
        for name, op, features in zip("xy", moments.operators, moments.maps, strict=True):
            if features is not None:
                raise InvalidOption(
                    "kcca must find combinations of the kernel functions of rows: kcca, nystrom-lobpcg or nystrom-kcca."
                )
            W = op.home.place(found[f"{name}_weights"])[:, : problem.k]
            f = functions(op, W, found.get(f"{name}_landmarks"))
            units.append(f.dual * op.home.place(reciprocal(np.sqrt(np.maximum(np.diag(f.squares), 0.0)))))
        return units[0], units[1]

    def starts_of(self, j: int) -> Points:
        """Starts of pair j, for both signs: the single columns that are nearest."""
        most = min(self.starts, *(len(columns) for columns, _, _ in self.singles))
        starts: list[list[HostArray]] = [[], []]
        for sign in SIGNS:
            for view, (columns, own, inner), into in zip(self.views, self.singles, starts, strict=True):
                chosen = columns[np.argsort(own - 2 * sign * inner[j], kind="stable")[:most]]
                into.append(single_columns(view, chosen))
        return np.hstack(starts[0]), np.hstack(starts[1])


class Nearness(Search):
    """Ascent of 2⟨f, k(·, u)⟩ − k(u, u) + 2⟨g, k(·, v)⟩ − k(v, v), by the steps of `Search`.

    Parameters
    ----------
    views : pair of PreimageView
    tol : float
    duals : pair of arrays of shape (n, 1)
        The coefficients of f and g.
    signs : numpy.ndarray of shape (m,)
        For each column 1 for (f, g), −1 for (−f, −g).
    """

    def __init__(self, views: Views, tol: float, duals: tuple[Array, Array], signs: HostArray) -> None:
        super().__init__(views, OBJECTIVES["correlation"], tol)
        self.duals, self.signs = duals, signs

    def values(self, sides: Sides, index: HostArray) -> HostArray:
        """The sum over both views."""
        signs = self.signs[index]
        return self.of_view(0, sides[0], signs) + self.of_view(1, sides[1], signs)

    def of_view(self, i: int, side: PointFunctions, signs: HostArray) -> HostArray:
        """The part of the value that view i contributes, 2⟨f, k(·, u)⟩ − k(u, u)."""
        inner = to_host(self.home.xp.sum(self.duals[i] * side.variates, axis=0))
        return 2 * signs * inner - to_host(self.views[i].kernel.diagonal(side.points.T))

    def nearest(self, climb: Climb) -> PointPair:
        """The nearest points of each view: the values of both are added, and do not depend on each other."""
        same = np.flatnonzero(self.signs == self.signs[climb.best])
        x, y = (
            U[:, same][:, [int(np.argmax(self.of_view(i, view.at(U[:, same]), self.signs[same])))]]
            for i, (view, U) in enumerate(zip(self.views, climb.points, strict=True))
        )
        return replace(climb.best_pair, points=(x, y))

    def gradients(self, sides: Sides, index: HostArray) -> Points:
        """Gradients of the values with respect to the points."""
        signs = self.home.place(self.signs[index])
        x, y = (
            2 * (view.gradient(side, a * signs) - half_slope(view, side.points))
            for view, side, a in zip(self.views, sides, self.duals, strict=True)
        )
        return x, y


def half_slope(view: PreimageView, U: HostArray) -> HostArray:
    """Half the gradient of k(u, u): the gradient of k(z, u) in u at z = u, since k is symmetric."""
    T = U.T @ U
    values = view.kernel.along(T, view.kernel.statistics(U.T), U)
    return np.asarray(view.kernel.pullback(as_operator(U.T), T, values, np.eye(U.shape[1]), U))
