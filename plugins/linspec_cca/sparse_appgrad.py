"""Sparse AppGrad: canonical weights with mostly zero entries.

Problem: leading pairs, each of which uses few columns of both views.
Method: Ma, Lu & Foster (2015, ICML), section 5: a soft threshold between the gradient step of "appgrad" and its
normalisation. With V = Φ̃ − η [Xᵀ(XΦ̃ − YΨ)/n + λΦ̃] and columns of unit size, Φ̃ ← sign(V) max(|V| − ητ, 0). This is a
step of the proximal gradient method (Daubechies, Defrise & De Mol 2004, doi:10.1002/cpa.20042) with the penalty τ Σ|φ̃|
on the least-squares problem that has the canonical pairs as fixed points.
Units: steps and thresholds are those of columns scaled to unit size, so a threshold is a correlation. A column stays
at zero while its correlation with the part of the variate that the others do not fit is below τ in absolute value.
If τ is not given, it is √(2 ln p/n): the largest of p correlations that are only chance just reaches this value.
``x_nonzeros`` asks for a number of entries of each column instead. Then τ is, in each step, the largest value of the
entries beyond this number. ``penalty="rows"`` shrinks rows of the block by their length, so all pairs use the same
columns, and counts rows.
Where we differ: (a) The source says no more than the above. (b) The fixed points of AppGrad are determined up to a
rotation of the pairs, sparse ones are not. The first iterations have no threshold; then the blocks are turned to their
canonical pairs, and the threshold applies. These iterations begin at auxiliary variables zero. A few of them stay near
the leading singular vectors of the cross product, while many would fit chance in wide data. (c) The auxiliary blocks
are returned, and only scaled to columns of unit length: turning them to canonical pairs among themselves would fill in
their zeros. So the correlations are those of each pair as returned, and the pairs of one view are only nearly
uncorrelated. With ``penalty="rows"`` they are turned: rows of zeros stay zero. (d) No column loses all of its entries:
its threshold is at most nine tenths of the largest.
Where it fails: data with more columns than rows. There the first iterations, which have no penalty, find chance before
any planted direction, and the threshold then keeps the wrong columns.
The answer is not that of the problem without the penalty: its residual, by the law, shows the distance.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from linspec import Run, Solution, Solver, Status, form_option, limit_option, option, part, tol_option
from linspec.arrays import Array, HostArray, reciprocal, to_host
from linspec_cca.appgrad import POWER_SWEEPS, Iteration, steps_from_data
from linspec_cca.pairs import Pair, start

SETTLED = 1e-5
"""Both auxiliary blocks are settled if their relative change in an iteration is at most this."""

WARM_UP = 10
"""Iterations before the threshold applies."""

LEAST = 0.9
"""The threshold of a column is at most this fraction of its largest entry."""


@dataclass(frozen=True, kw_only=True)
class SparseAppGrad(Solver):
    """AppGrad with soft thresholds (Ma, Lu & Foster 2015, section 5)."""

    x_threshold: float | None = option(
        None, "correlation below which a column of X gets no weight; none: of chance", at_least=0, below=1
    )
    y_threshold: float | None = option(
        None, "correlation below which a column of Y gets no weight; none: of chance", at_least=0, below=1
    )
    x_nonzeros: int | None = option(
        None, "entries of a column of x_weights, instead of a threshold", kind=int, at_least=1
    )
    y_nonzeros: int | None = option(
        None, "entries of a column of y_weights, instead of a threshold", kind=int, at_least=1
    )
    penalty: str = option(
        "entries", "what is zero or not: single entries, or whole rows", choices=("entries", "rows")
    )
    normalizer: Any = part("inverse-sqrt", "normalizer of the blocks", kind="normalizer")
    test_matrix: Any = part("gaussian", "random start", kind="test-matrix")
    tol: float | None = tol_option()
    max_iterations: int = limit_option(2000)
    form: str = form_option()

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a CCA problem."""
        moments = run.moments(self.form, expect=(500, problem.k))
        setup = moments.setup_cost + (1 + POWER_SWEEPS) * moments.sweep_cost
        run.plan(setup=setup, iteration=2 * moments.sweep_cost)
        normalizer = run.part(self.normalizer)
        pair = start(problem, run, moments, run.part(self.test_matrix), problem.k).normalized(normalizer)
        tilde = pair.turned(*[np.zeros((problem.k, problem.k))] * 2)
        steps = steps_from_data(problem, run, moments, self.test_matrix, pair.views.diagonals)
        iteration = _SparseIteration(self, problem, moments, normalizer, steps, pair)
        weights = partial(pair.weights, problem.k)
        for taken in itertools.count():
            if not run.proceed(residual=pair.canonical_residual(), current=weights):
                break
            if taken == WARM_UP:
                tilde, pair = _turned(pair, iteration.n)
                iteration.sparse = True
            before = tilde
            tilde, pair = iteration.alternating(tilde, pair)
            weights = partial((tilde if iteration.sparse else pair).weights, problem.k)
            if iteration.sparse and iteration.settled(before, tilde):
                run.end(Status.APPROXIMATE)
        if not iteration.sparse:
            run.note(
                Status.APPROXIMATE, "The run ended before a threshold applied: these weights are not sparse."
            )
            return run.finish(**weights())
        counts = " and ".join(f"{_nonzeros(V):.3g}" for V in (tilde.phi, tilde.psi))
        text = f"Columns of x_weights and y_weights have on average {counts} entries that are not zero; the penalty "
        run.note(
            Status.APPROXIMATE,
            text + "that makes the others zero also moves the answer away from the canonical pairs.",
        )
        if self.penalty == "rows" or not iteration.shrinks:
            return run.finish(**weights())
        rho, signs = _own_correlations(tilde)
        return run.finish(x_weights=tilde.phi, y_weights=tilde.psi * signs, correlations=rho)


class _SparseIteration(Iteration):
    """Steps of AppGrad in the metric of the diagonals, followed by the threshold.

    Attributes
    ----------
    sparse : bool
        Whether thresholds apply already.
    """

    def __init__(
        self,
        solver: SparseAppGrad,
        problem: Any,
        moments: Any,
        normalizer: Any,
        steps: list[float],
        pair: Pair,
    ) -> None:
        super().__init__(problem, moments, normalizer, steps)
        self.sparse = False
        self.home, self.rows = pair.views.home, solver.penalty == "rows"
        self.diagonals = [d[:, None] / self.n for d in pair.views.diagonals]
        self.counts = (solver.x_nonzeros, solver.y_nonzeros)
        given = (solver.x_threshold, solver.y_threshold)
        width = problem.k if self.rows else 0
        self.thresholds = [
            _of_chance(self.n, A.shape[1], width) if t is None else t
            for t, A in zip(given, (problem.X, problem.Y), strict=True)
        ]

    def _moved(self, view: int, V: Array, gradient: Array) -> Array:
        V = V - gradient * reciprocal(self.diagonals[view]) * self.steps[view]
        return self._soft(view, V) if self.sparse else V

    @property
    def shrinks(self) -> bool:
        """Whether any entry can become zero."""
        return any(self.thresholds) or self.counts != (None, None)

    def _soft(self, view: int, V: Array) -> Array:
        """The block after the threshold, on entries or rows in units of the columns."""
        xp, unit = self.home.xp, self.home.xp.sqrt(self.diagonals[view])
        size = xp.abs(V) * unit
        if self.rows:
            size = xp.sqrt(xp.sum(size * size, axis=1))[:, None]
        level = self._level(view, size)
        kept = xp.where(size > level, size - level, xp.zeros_like(size))
        return V * kept * reciprocal(size)

    def _level(self, view: int, size: Array) -> Array:
        """The level of each column, from the threshold or from the number of entries."""
        xp, count = self.home.xp, self.counts[view]
        largest = xp.max(size, axis=0)[None, :]
        level = xp.ones_like(largest) * (self.thresholds[view] * self.steps[view])
        if count is not None:
            order = xp.sort(size, axis=0)
            position = order.shape[0] - count - 1
            level = order[position, :][None, :] if position >= 0 else level * 0.0
        return xp.minimum(level, largest * LEAST)

    def settled(self, old: Pair, new: Pair) -> bool:
        """Whether both blocks are settled; a common rotation is ignored if no single entry can become zero."""
        if new is old:  # the step was rejected
            return False
        before = self._scaled_products(old, old), self._scaled_products(new, new)
        cross = self._scaled_products(old, new)
        same = np.linalg.norm(cross, "nuc") if self.rows or not self.shrinks else np.trace(cross)
        size = np.trace(before[1])
        return bool(np.trace(before[0]) + size - 2 * same <= SETTLED**2 * size)

    def _scaled_products(self, a: Pair, b: Pair) -> HostArray:
        """VᵀDW over both views."""
        dx, dy = self.diagonals
        found: HostArray = to_host(a.phi.T @ (b.phi * dx) + a.psi.T @ (b.psi * dy))
        return found


def _of_chance(n: float, p: int, width: int) -> float:
    """The largest of p correlations over n rows with one variate, or the longest of p rows of them, under chance."""
    return float(min((np.sqrt(width) + np.sqrt(2 * np.log(p))) / np.sqrt(n), LEAST))


def _turned(pair: Pair, n: float) -> tuple[Pair, Pair]:
    """The auxiliary blocks for normalised blocks, and the normalised blocks, both turned to canonical pairs."""
    pair, rho = pair.canonical()
    factor = np.diag(rho * np.sqrt(n))
    return pair.turned(factor, factor), pair


def _own_correlations(tilde: Pair) -> tuple[HostArray, Array]:
    """The correlation of each pair of columns as given, and the signs of Ψ that make it positive."""
    xp = tilde.views.home.xp
    sums = [
        xp.sum(V * W, axis=0)
        for V, W in ((tilde.phi, tilde.Cpsi), (tilde.phi, tilde.Sphi), (tilde.psi, tilde.Spsi))
    ]
    cross, x, y = to_host(xp.stack(sums))
    lengths = np.sqrt(np.maximum(x * y, 0.0))
    rho = np.divide(cross, lengths, out=np.zeros_like(cross), where=lengths > 0)
    return np.abs(rho), tilde.views.home.place(np.where(rho < 0, -1.0, 1.0))[None, :]


def _nonzeros(V: Array) -> float:
    return float(np.count_nonzero(to_host(V)) / V.shape[1])
