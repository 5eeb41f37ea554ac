"""Points whose kernel functions are nearest to the canonical functions of kernel CCA.

Problem: points (u, v) in their sets for which k(·, u) and k(·, v) take after the functions f = Σ aᵢ k(·, xᵢ) and g that
are most correlated of all. These are not the most correlated points, so the answer is approximate.
Method: solve kernel CCA with a ridge for f and g; divide both by their lengths in the space of the kernel; then
minimise, for each pair and view,

    ‖f − k(·, u)‖² = 1 − 2 Σ aᵢ k(xᵢ, u) + k(u, u)

by the spectral projected gradient of `linspec_kernel.preimage.ascent`, from the single columns that are nearest and
from random points. If (f, g) is a canonical pair then so is (−f, −g): both are tried, and the nearer pair is kept.
Source: Uurtio, Bhadra & Rousu 2019, ICML, PMLR 97, the comparison with KCCA; preimages, Mika, Schölkopf, Smola, Müller,
Scholz & Rätsch 1999, NIPS 11, Kernel PCA and de-noising in feature spaces.
Where we differ: f and g have unit length, which matters in a ball only; the published search takes plain gradient steps
from one random point, for one sign.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec import (
    KernelOperator,
    Run,
    Solution,
    Solver,
    Status,
    as_operator,
    limit_option,
    option,
    part,
    tol_option,
)
from linspec.arrays import Array, HostArray, to_host
from linspec.errors import InvalidOption
from linspec.kernels import SAMPLE, not_finite
from linspec_kernel.moments import rounded_up
from linspec_kernel.nystrom import on_host
from linspec_kernel.preimage.ascent import Ended, Pairs, Search
from linspec_kernel.preimage.gradkcca import AGREES, RANDOM
from linspec_kernel.preimage.starts import COLUMNS, NUMBERS, random_points
from linspec_kernel.preimage.views import Functions, View, entries_of
from linspec_kernel.problem import KernelCCA

NEAR = (
    "The points are nearest to the functions of kernel CCA, and are not the most correlated ones. Take gradkcca, with "
    "this answer as its start, say."
)


AFTER = 5.0
"""Passes after the kernel CCA: rows and kernels for lengths, the columns that are compared, and the first gradient."""


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
        return Pairs(sides, self.of_view(0, sides[0]) + self.of_view(1, sides[1]))

    def of_view(self, i: int, side: Functions) -> HostArray:
        """The part of one view in the value."""
        inner = on_host(self.home.xp.sum(self.duals[i] * side.variates, axis=0))
        return 2 * inner - on_host(self.views[i].kernel.diagonal(side.points.T))

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
        1e-2, "ridge of the kernel CCA, in units of the sum of k(x, x) over the rows", above=0
    )
    repeats: int = option(8, "starts of each point", at_least=1, at_most=1000)
    tol: float | None = tol_option(1e-4)
    max_iterations: int = limit_option(10_000)

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a preimage CCA problem."""
        moments: Any = run.moments("implicit")
        sample = rounded_up(min(1.0, SAMPLE / max(int(problem.X.shape[0]), 1)))
        # The rows and the kernels, as kcca reads them, and what comes after.
        run.plan(setup=moments.setup_cost + sample + 2.0 + AFTER)
        kernels = moments.settle(run.rng)
        duals = self._functions(problem, run, moments, kernels)
        search = _Nearest(self, moments, run, kernels)
        for j in range(int(duals[0].shape[1])):
            if run.ended or (j and not run.affords(3.0)):
                break
            search.pair(duals[0][:, j : j + 1], duals[1][:, j : j + 1])
        run.note(Status.APPROXIMATE, NEAR)
        return run.finish(**search.answer())

    def _functions(self, problem: Any, run: Run, moments: Any, kernels: Any) -> tuple[Array, Array]:
        """The coefficients of the canonical functions, of unit length."""
        ridge = tuple(
            self.penalty * int(A.shape[0]) * _mean_square(view)
            for A, view in zip((problem.X, problem.Y), moments.views, strict=True)
        )
        kernel_x, kernel_y = kernels
        inner = KernelCCA(
            problem.X, problem.Y, problem.k, kernel_x, kernel_y, ridge=ridge, center=problem.center
        )
        with run.reserving(AFTER):
            found = run.within(inner, run.part(self.kcca), {"X": "X", "Y": "Y"})
        duals = []
        for view, name in zip(moments.views, ("x", "y"), strict=True):
            if found.get(f"{name}_map") is not None:
                raise InvalidOption(
                    "kcca must find combinations of the kernel functions of rows: kcca, nystrom-lobpcg or nystrom-kcca."
                )
            dual = view.home.place(found[f"{name}_weights"])
            index = found.get(f"{name}_landmarks")
            if index is not None:
                scattered = np.zeros((int(view.A.shape[0]), int(dual.shape[1])))
                scattered[index] = to_host(dual)
                dual = view.home.place(scattered)
            op = KernelOperator(view.A, view.kernel, center=problem.center, name=view.name)
            squares = np.maximum(on_host(view.home.xp.sum(dual * op.matmat(dual), axis=0)), 0.0)
            lengths = np.where(squares > 0, np.sqrt(squares), 1.0)
            duals.append(dual / view.home.place(lengths)[None, :])
        return duals[0], duals[1]


class _Nearest:
    """The points nearest to pairs of functions, one pair after the other.

    Attributes
    ----------
    found : list of (numpy.ndarray, numpy.ndarray)
    """

    def __init__(self, solver: KCCAPreimage, moments: Any, run: Run, kernels: Any) -> None:
        self.solver, self.views, self.run, self.kernels = solver, moments.views, run, kernels
        self.k = int(run.problem.k)
        self.found: list[tuple[HostArray, HostArray]] = []
        self.agreeing: list[int] = []
        self.at_hand: tuple[HostArray, HostArray] | None = None
        self.columns = [single_columns(view, run.rng) for view in self.views]
        self.spare = tuple(random_points(view, self.k, run.rng) for view in self.views)

    def pair(self, a: Array, b: Array) -> None:
        """The points nearest to f and g, or to −f and −g if these are nearer."""
        nearest: tuple[float, Any, int] = (-np.inf, None, 0)
        for sign in (1.0, -1.0):
            if sign < 0 and not self.run.affords(2.0):
                break
            search = Nearness(self.views, None, self.run.tol, self._proceed, duals=(sign * a, sign * b))
            ended = search.spectral(*(self._starts(search, i) for i in (0, 1)))
            value = float(ended.values.max())
            if value > nearest[0]:
                agreeing = int(np.sum(ended.values >= value - AGREES * abs(value)))
                nearest = (value, self._best_of_each(search, ended), agreeing)
        self.found.append(nearest[1])
        self.agreeing.append(nearest[2])
        self.at_hand = None

    def _starts(self, search: Nearness, i: int) -> HostArray:
        """The single columns that are nearest to a function, and random points."""
        view, functions = self.views[i], self.columns[i]
        drawn = max(self.solver.repeats // RANDOM, self.solver.repeats - functions.points.shape[1])
        order = np.argsort(-search.of_view(i, functions), kind="stable")[: self.solver.repeats - drawn]
        return np.hstack([functions.points[:, order], random_points(view, drawn, self.run.rng)])

    def _best_of_each(self, search: Nearness, ended: Ended) -> tuple[HostArray, HostArray]:
        """The best point of each view: their values are added, and do not depend on each other."""
        if not self.run.affords(1.0):
            j = ended.best
            return ended.points[0][:, [j]], ended.points[1][:, [j]]
        best = []
        for i, (view, U) in enumerate(zip(self.views, ended.points, strict=True)):
            best.append(U[:, [int(np.argmax(search.of_view(i, view.at(U))))]])
        return best[0], best[1]

    def _proceed(self, ended: Ended) -> bool:
        """Tell the run of the best column, and ask whether to go on."""
        j = ended.best
        self.at_hand = ended.points[0][:, [j]], ended.points[1][:, [j]]
        return self.run.proceed(residual=float(ended.residuals[j]), current=self.answer, judged=False)

    def answer(self) -> dict[str, Any]:
        """The pairs so far, and random points in place of those that are still to be found."""
        pairs = [*self.found, *([] if self.at_hand is None else [self.at_hand])][: self.k]
        points = [
            view.home.place(np.hstack([*(pair[i] for pair in pairs), self.spare[i][:, len(pairs) :]]))
            for i, view in enumerate(self.views)
        ]
        agreeing = np.asarray([*self.agreeing, *[0] * self.k], dtype=np.int64)[: self.k]
        return {
            "x_preimages": points[0],
            "y_preimages": points[1],
            "starts": self.solver.repeats,
            "agreeing": agreeing,
            "kernels": self.kernels,
        }


def single_columns(view: View, rng: Any) -> Functions:
    """The functions of points with one entry, of both signs; of some columns where there are many."""
    n, p = (int(size) for size in view.A.shape)
    most = max(min(COLUMNS, NUMBERS // max(n, 1)) // 2, 1)
    index = np.arange(p) if p <= most else np.sort(rng.choice(p, most, replace=False))
    U = np.zeros((p, 2 * len(index)))
    U[np.concatenate([index, index]), np.arange(U.shape[1])] = np.repeat([1.0, -1.0], len(index))
    return view.at(view.bound.radius * U)


def _mean_square(view: View) -> float:
    """The mean of k(x, x) over some rows."""
    n = int(view.A.shape[0])
    index = np.unique(np.linspace(0, n - 1, min(n, SAMPLE)).astype(np.intp))
    rows = entries_of(view.rows(index, "the size of the ridge"))
    size = float(np.mean(on_host(view.kernel.diagonal(rows))))
    if not np.isfinite(size):
        raise not_finite(view.A, view.name)
    return size if size > 0 else 1.0  # any ridge does for a kernel matrix of zeros
