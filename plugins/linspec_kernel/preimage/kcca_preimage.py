"""Points whose kernel functions are nearest to the canonical functions of kernel CCA.

Problem: points (u, v) in their sets for which k(·, u) and k(·, v) take after the functions f = Σ aᵢ k(·, xᵢ) and g that
are most correlated of all. These are not the most correlated points, so the answer is approximate.
Method: solve kernel CCA with a ridge for f and g; divide both by their lengths in the space of the kernel; then
minimise, for each pair and view,

    ‖f − k(·, u)‖² = 1 − 2 Σ aᵢ k(xᵢ, u) + k(u, u)

by the spectral projected gradient of `linspec_kernel.preimage.ascent`, from the single columns that are nearest and from
random points. If (f, g) is a canonical pair then so is (−f, −g): both are tried, and the nearer pair is kept. With
``polish`` the points are where `gradkcca` begins.
Source: Uurtio, Bhadra & Rousu 2019, ICML, PMLR 97, the comparison with KCCA; preimages, Mika, Schölkopf, Smola, Müller,
Scholz & Rätsch 1999, NIPS 11, Kernel PCA and de-noising in feature spaces.
Where we differ: f and g have unit length, which matters in a ball only; the published search takes plain gradient steps
from one random point, for one sign.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec import KernelOperator, Run, Solution, Solver, Status, as_operator, limit_option, option, part
from linspec.arrays import Array, HostArray, to_host
from linspec.errors import InvalidOption
from linspec.kernels import SAMPLE
from linspec.operators import uncounted
from linspec_kernel.preimage.ascent import Pairs, Search
from linspec_kernel.preimage.starts import random_points
from linspec_kernel.preimage.views import Functions, View, entries_of
from linspec_kernel.problem import KernelCCA

SCREENED = 1000
"""Columns whose functions are compared with f, some drawn at random where there are more."""

NEAR = (
    "The points are nearest to the functions of kernel CCA, not the most correlated ones. Take polish=True or gradkcca."
)


class Nearness(Search):
    """Ascent of 2⟨f, k(·, u)⟩ − k(u, u) + 2⟨g, k(·, v)⟩ − k(v, v), with the machinery of pairs of points.

    Parameters
    ----------
    duals : pair of arrays of shape (n, 1)
        The coefficients of f and g.
    """

    def __init__(self, *given: Any, duals: tuple[Array, Array]) -> None:
        super().__init__(*given)
        self.duals = duals

    def of(self, sides: tuple[Functions, Functions]) -> Pairs:
        """Pairs of functions, with the sum of both views as the value."""
        return Pairs(sides, sum(self.by_view(sides), np.zeros(sides[0].points.shape[1])))

    def by_view(self, sides: tuple[Functions, Functions]) -> list[HostArray]:
        """The values of both views."""
        return [
            2 * _host(self.home.xp.sum(a * side.variates, axis=0)) - _host(view.kernel.diagonal(side.points.T))
            for view, side, a in zip(self.views, sides, self.duals, strict=True)
        ]

    def gradients(self, pairs: Pairs) -> tuple[HostArray, HostArray]:
        """The gradients of the values."""
        ones = np.ones(pairs.sides[0].points.shape[1])
        x, y = (
            2 * (view.gradient(side, a * view.home.place(ones)[None, :]) - half_slope(view, side.points))
            for view, side, a in zip(self.views, pairs.sides, self.duals, strict=True)
        )
        return x, y


def half_slope(view: View, U: HostArray) -> HostArray:
    """Half the gradient of k(u, u): that of k(z, u) in u at z = u, since k is symmetric."""
    columns = []
    for u in U.T:
        u = u[:, None]
        T = u.T @ u
        value = view.kernel.along(T, view.kernel.statistics(u.T), u)
        columns.append(view.kernel.pullback(as_operator(u.T), T, value, np.ones((1, 1)), u))
    return np.hstack(columns)


@dataclass(frozen=True, kw_only=True)
class KCCAPreimage(Solver):
    """Preimages of the functions of kernel CCA (Uurtio, Bhadra & Rousu 2019; Mika et al. 1999)."""

    kcca: Any = part("kcca", "solver of the kernel CCA", problem="kernel-cca")
    penalty: float = option(
        1e-3, "ridge of the kernel CCA, relative to the rows times the mean of k(x, x)", above=0
    )
    repeats: int = option(8, "starts of each point", at_least=1, at_most=1000)
    max_iterations: int = limit_option(500)

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a preimage CCA problem."""
        moments: Any = run.moments("implicit")
        run.plan(setup=moments.setup_cost + 5.0, iteration=2.0)
        kernels = moments.settle(run.rng)
        duals = self._functions(problem, run, moments, kernels)
        found: tuple[list[HostArray], list[HostArray]] = ([], [])
        for j in range(duals[0].shape[1]):
            pair = (duals[0][:, j : j + 1], duals[1][:, j : j + 1])
            for into, points in zip(found, self._nearest(pair, moments, run, found), strict=True):
                into.append(points)
        run.note(Status.APPROXIMATE, NEAR)
        return run.finish(**_answer(moments, found, self.repeats, kernels))
