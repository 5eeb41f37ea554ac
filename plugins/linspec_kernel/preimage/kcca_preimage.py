"""Points whose kernel functions are nearest to the canonical functions of kernel CCA.

Problem: points (u, v) in their sets for which k(·, u) and k(·, v) approximate the functions f = Σ aᵢ k(·, xᵢ) and g
that are most correlated. These are not the most correlated points, so the answer is approximate.
Method: solve kernel CCA with a ridge for f and g; divide both by their lengths in the space of the kernel; then
minimise, for each pair and view,

    ‖f − k(·, u)‖² = 1 − 2 Σ aᵢ k(xᵢ, u) + k(u, u)

by steps u ← Proj(u − a ∂‖f − k(·, u)‖²/∂u), the spectral projected gradient of `linspec_kernel.preimage.ascent`, from
the single columns that are nearest and from random points. If (f, g) is a canonical pair then so is (−f, −g): both are
tried, and the nearer pair is kept.
Source: Uurtio, Bhadra & Rousu 2019, ICML, PMLR 97, the comparison with KCCA; preimages, Mika, Schölkopf, Smola, Müller,
Scholz & Rätsch 1999, NIPS 11, Kernel PCA and de-noising in feature spaces.
Where we differ: f and g have unit length, which matters in a ball only; the published search takes plain gradient steps
from one random point, for one sign.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from linspec import (
    IterativeSolver,
    KernelOperator,
    Run,
    Status,
    as_operator,
    limit_option,
    option,
    part,
    tol_option,
)
from linspec.arrays import Array, HostArray, to_host
from linspec.errors import InvalidOption
from linspec_kernel.iterate import Functions
from linspec_kernel.nystrom import on_host
from linspec_kernel.preimage.ascent import Climb, PointPairs, Search
from linspec_kernel.preimage.gradkcca import AGREES, RANDOM
from linspec_kernel.preimage.iterate import Hunt, PointPair
from linspec_kernel.preimage.starts import drawn_columns, random_points, signed_columns, single_columns
from linspec_kernel.preimage.views import PointFunctions, PreimageView
from linspec_kernel.problem import KernelCCA

NEAR = (
    "The points are nearest to the functions of kernel CCA, and are not the most correlated ones. Take gradkcca, with "
    "this answer as its start, say."
)


AFTER = 5.0
"""Passes reserved for the time after kernel CCA: lengths of functions, compared columns and the first gradient."""


@dataclass(frozen=True)
class SignedPair:
    """Pair whose points are being searched.

    Attributes
    ----------
    sign : float
        1 for (f, g), −1 for (−f, −g).
    climb : Climb
    other : PointPair or None
        Pair found for (f, g), while (−f, −g) is tried.
    """

    sign: float
    climb: Climb
    other: PointPair | None = None


@dataclass(frozen=True, kw_only=True)
class KCCAPreimage(IterativeSolver):
    """Preimages of the functions of kernel CCA (Uurtio, Bhadra & Rousu 2019; Mika et al. 1999)."""

    kcca: Any = part("kcca", "solver of the kernel CCA", problem="kernel-cca")
    penalty: float = option(
        1e-2, "ridge of the kernel CCA, in units of the sum of k(x, x) over the rows", above=0
    )
    repeats: int = option(8, "starts of each point", at_least=1, at_most=1000)
    tol: float | None = tol_option(1e-4)
    max_iterations: int = limit_option(10_000)

    kept: ClassVar = (Functions, PointPair, SignedPair, Climb)
    resumes_after_law: ClassVar[bool] = False

    def iterates(self, problem: Any, run: Run, state: Any = None) -> Iterator[Functions]:
        """Yield, after each step, the pairs found and the best points so far of the pair in progress."""
        run.plan(setup=3.0 + AFTER)  # before the first points: the rows, kernel CCA, and what comes after
        run.note(Status.APPROXIMATE, NEAR)
        hunt = PreimageHunt(self, problem, run, state)
        found: tuple[PointPair, ...] = ()
        now: SignedPair | None = None
        if state is not None:
            found, now = state["found"], state["now"]
        while len(found) < hunt.count:
            if now is None:
                if found and not run.budget.affords(3.0):  # the products to begin at, and to compare
                    break
                now = hunt.begun(len(found), 1.0)  # starts (u, v) for (f, g)
            search = hunt.search(len(found), now.sign)
            while now.climb.goes_on:
                yield hunt.iterate(now.climb.best_pair.residual, found, now, judged=False)
                # u ← Proj(u − a ∂‖f − k(·, u)‖²/∂u), and v likewise
                now = replace(now, climb=search.stepped(now.climb))
            pair = hunt.nearer(len(found), now)
            if now.sign > 0 and run.budget.affords(2.0):
                now = hunt.begun(len(found), -1.0, pair)  # starts for (−f, −g)
                continue
            found, now = (*found, pair), None
        residual = max((pair.residual for pair in found), default=0.0)
        yield hunt.iterate(residual, found, None, judged=False, ending=Status.CONVERGED)


class PreimageHunt(Hunt):
    """Searches for the points nearest to functions.

    Parameters
    ----------
    solver : KCCAPreimage
    problem : PreimageCCA
    run : Run
    state : Functions or None
        Iterate from which the run continues.

    Attributes
    ----------
    duals : pair of arrays of shape (n, k)
        Coefficients of the functions f and g to approximate, which have unit length.
    count : int
        Number of pairs.
    """

    def __init__(self, solver: KCCAPreimage, problem: Any, run: Run, state: Any) -> None:
        super().__init__(problem, run)
        self.solver, self.starts = solver, solver.repeats
        if state is None:
            self.duals = canonical_functions(solver, problem, run, self.views, self.kernels)
            self.beginning = {"duals": self.duals, "nearest": self._nearest()}
            self.beginning["spare"] = tuple(random_points(view, problem.k, run.rng) for view in self.views)
        else:
            self.beginning, self.duals = state["beginning"], state["beginning"]["duals"]
            self.resume(state)
        self.count = int(self.duals[0].shape[1])

    def _nearest(self) -> tuple[Any, ...]:
        """The nearest single columns, numbered as by `signed_columns`: by pair, by sign, and by view."""
        drawn = [signed_columns(drawn_columns(view, 2, self.run.rng)) for view in self.views]
        functions = [view.at(single_columns(view, c)) for view, c in zip(self.views, drawn, strict=True)]
        most = self.solver.repeats - self.solver.repeats // RANDOM

        def of_pair(j: int, sign: float) -> tuple[HostArray, ...]:
            search = self.search(j, sign)
            values = (search.of_view(i, side) for i, side in enumerate(functions))
            return tuple(
                c[np.argsort(-value, kind="stable")[:most]] for c, value in zip(drawn, values, strict=True)
            )

        return tuple((of_pair(j, 1.0), of_pair(j, -1.0)) for j in range(int(self.duals[0].shape[1])))

    def search(self, j: int, sign: float) -> Nearness:
        """Search for pair j, for (f, g) or (−f, −g)."""
        a, b = (sign * dual[:, j : j + 1] for dual in self.duals)
        return Nearness(self.views, None, self.run.tol, duals=(a, b))

    def begun(self, j: int, sign: float, other: PointPair | None = None) -> SignedPair:
        """Ascent from the nearest single columns and from random points."""
        starts = []
        for view, chosen in zip(self.views, self.beginning["nearest"][j][0 if sign > 0 else 1], strict=True):
            drawn = random_points(view, self.solver.repeats - len(chosen), self.run.rng)
            starts.append(np.hstack([single_columns(view, chosen), drawn]))
        return SignedPair(sign, self.search(j, sign).begun(starts[0], starts[1]), other)

    def nearer(self, j: int, now: SignedPair) -> PointPair:
        """Best points found for this sign, or the pair found for the other sign if that pair is nearer."""
        climb, search = now.climb, self.search(j, now.sign)
        value = float(climb.values.max())
        if now.other is not None and not value > now.other.value:
            return now.other
        agreeing = int(np.sum(climb.values >= value - AGREES * abs(value)))
        x, y = climb.best_pair.points
        if self.run.budget.affords(
            1.0
        ):  # the values of both views are added, and do not depend on each other
            x, y = (
                U[:, [int(np.argmax(search.of_view(i, view.at(U))))]]
                for i, (view, U) in enumerate(zip(self.views, climb.points, strict=True))
            )
        return replace(climb.best_pair, points=(x, y), agreeing=agreeing)

    def closed(self, found: Sequence[PointPair], now: SignedPair) -> PointPair:
        """The nearest points; if only (f, g) was tried, (−f, −g) is tried here, as far as the budget allows."""
        j = len(found)
        pair = self.nearer(j, now)
        if now.sign > 0 and self.run.budget.affords(2.0):
            pair = self.nearer(j, self.begun(j, -1.0, pair))
        return pair


def canonical_functions(
    solver: KCCAPreimage, problem: Any, run: Run, views: Sequence[PreimageView], kernels: Any
) -> tuple[Array, Array]:
    """Coefficients of the canonical functions, scaled to unit length."""
    matrices = [KernelOperator(view.A, view.kernel, center=problem.center, name=view.name) for view in views]
    traces = [float(np.sum(on_host(op.diagonal()))) for op in matrices]
    ridge = tuple(solver.penalty * (trace or 1.0) for trace in traces)  # any ridge does for a matrix of zeros
    kernel_x, kernel_y = kernels
    inner = KernelCCA(problem.X, problem.Y, problem.k, kernel_x, kernel_y, ridge=ridge, center=problem.center)
    with run.budget.reserving(AFTER):
        found = run.within(inner, run.part(solver.kcca), {"X": "X", "Y": "Y"})
    duals = []
    for view, op, name in zip(views, matrices, ("x", "y"), strict=True):
        dual = view.home.place(found[f"{name}_weights"])
        index = found.get(f"{name}_landmarks")
        if index is None and dual.shape[0] != view.A.shape[0]:
            raise InvalidOption(
                "kcca must find combinations of the kernel functions of rows: kcca, nystrom-lobpcg or nystrom-kcca."
            )
        if index is not None:
            scattered = np.zeros((int(view.A.shape[0]), int(dual.shape[1])))
            scattered[index] = to_host(dual)
            dual = view.home.place(scattered)
        squares = np.maximum(on_host(view.home.xp.sum(dual * op.matmat(dual), axis=0)), 0.0)
        lengths = np.where(squares > 0, np.sqrt(squares), 1.0)
        duals.append(dual / view.home.place(lengths)[None, :])
    return duals[0], duals[1]


class Nearness(Search):
    """Ascent of 2⟨f, k(·, u)⟩ − k(u, u) + 2⟨g, k(·, v)⟩ − k(v, v), by the steps of `Search`.

    Parameters
    ----------
    duals : pair of arrays of shape (n, 1)
        The coefficients of f and g.
    """

    def __init__(self, *given: Any, duals: tuple[Array, Array]) -> None:
        super().__init__(*given)
        self.duals = duals

    def of(self, sides: tuple[PointFunctions, PointFunctions]) -> PointPairs:
        """Pairs of functions whose value is the sum over both views."""
        return PointPairs(sides, self.of_view(0, sides[0]) + self.of_view(1, sides[1]))

    def of_view(self, i: int, side: PointFunctions) -> HostArray:
        """The part of the value that view i contributes, 2⟨f, k(·, u)⟩ − k(u, u)."""
        inner = on_host(self.home.xp.sum(self.duals[i] * side.variates, axis=0))
        return 2 * inner - on_host(self.views[i].kernel.diagonal(side.points.T))

    def gradients(self, pairs: PointPairs) -> tuple[HostArray, HostArray]:
        """Gradients of the values with respect to the points."""
        ones = np.ones(pairs.sides[0].points.shape[1])
        x, y = (
            2 * (view.gradient(side, a * view.home.place(ones)[None, :]) - half_slope(view, side.points))
            for view, side, a in zip(self.views, pairs.sides, self.duals, strict=True)
        )
        return x, y


def half_slope(view: PreimageView, U: HostArray) -> HostArray:
    """Half the gradient of k(u, u): the gradient of k(z, u) in u at z = u, since k is symmetric."""
    T = U.T @ U
    values = view.kernel.along(T, view.kernel.statistics(U.T), U)
    return np.asarray(view.kernel.pullback(as_operator(U.T), T, values, np.eye(U.shape[1]), U))
