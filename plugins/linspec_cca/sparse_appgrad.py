"""Sparse AppGrad: canonical weights with mostly zero entries.

Problem: leading pairs, each of which uses few columns of both views.
Method: Ma, Lu & Foster (2015, ICML), section 5: a soft threshold between the gradient step of "appgrad" and its
normalisation. With D = diag(S), which scales columns to unit size,

    (1)  V = Φ̃ − η D⁻¹(SxΦ̃ − CΨ),   Φ̃ ← sign(V) max(|V| − ητ D^(-1/2), 0),

and the same for Ψ̃. This is a step of the proximal gradient method (Daubechies, Defrise & De Mol 2004,
doi:10.1002/cpa.20042) with the penalty τ Σ|φ̃| on the least-squares problem that has the canonical pairs as fixed
points.
Units: steps and thresholds are those of columns scaled to unit size, so a threshold is a correlation. A column stays
at zero while its correlation with the part of the variate that the others do not fit is below τ in absolute value.
If τ is not given, it is √(2 ln p/n): the largest of p correlations that are only chance just reaches this value.
``x_nonzeros`` requests a number of entries of each column instead. Then τ is, in each step, the largest value of the
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
The answer is not that of the problem without the penalty: its residual shows the distance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import linspec as ls
from linspec import Status, limit_option, option
from linspec.arrays import Array, Device, reciprocal, to_host
from linspec.families.cca import Pairs
from linspec.iteration import Context, Iterate
from linspec.rows import Moments
from linspec_cca.appgrad import Descent, Gradients, fitted, longest_steps

SETTLED = 1e-5
"""The auxiliary blocks are settled if an iteration changes them by at most this fraction of their length."""

WARM_UP = 10
"""Number of iterations before the threshold applies."""

LARGEST = 0.9
"""Upper limit of a threshold, as a fraction of the largest entry of a column. So the largest entry never becomes
zero."""

SPARSE = "The penalty that makes weights zero also moves the answer away from the canonical pairs."

DENSE = "The run ended before a threshold applied: these weights are not sparse."


@dataclass(frozen=True, kw_only=True)
class SparseAppGrad(Gradients):
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
    max_iterations: int = limit_option(2000)

    def iterate(self, problem: ls.CCA, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield steps of AppGrad in the metric of the diagonals, with thresholds after the first `WARM_UP`."""
        context.note(Status.APPROXIMATE, SPARSE)
        first, normal, metrics = self.begun(problem, moments, context, start)
        taken = 0 if start is None else int(start["steps"][0])
        D = [d for d, _ in first.noise]
        descent = Descent(problem, moments, self.normalizer, longest_steps(problem, moments, first, D))
        n, rows = moments.fitted[0].total, self.penalty == "rows"
        # the largest correlation of p columns with an unrelated variate, as chance makes it; of rows, with k of them
        most = [np.sqrt(problem.k * rows) + np.sqrt(2 * np.log(p)) for p in moments.widths]
        chance = [float(min(m / np.sqrt(n), LARGEST)) for m in most]
        options = zip(chance, (self.x_threshold, self.y_threshold), strict=True)
        thresholds = [c if tau is None else tau for c, tau in options]
        shrinkage = Shrinkage(D, thresholds, (self.x_nonzeros, self.y_nonzeros), rows)
        tilde = first if taken > WARM_UP else fitted(normal, 0.0)
        settled, correlated = False, shrinkage.shrinks and not shrinkage.rows
        while True:
            sparse = taken > WARM_UP
            arrays = partial(_arrays, tilde if sparse else normal, taken, correlated=sparse and correlated)
            residual = normal.canonical().residual(metrics, problem.k)
            yield Iterate(residual, arrays, final=settled, doubt="" if sparse else DENSE)
            if taken == WARM_UP:
                normal = normal.canonical()
                tilde = fitted(normal)
            descent.shrunk = shrinkage if taken >= WARM_UP else None
            new, normal = descent.after(tilde, normal)
            settled = sparse and new is not tilde and shrinkage.settled(tilde, new)
            tilde, taken = new, taken + 1


@dataclass(frozen=True)
class Shrinkage:
    """Soft threshold (1) of the entries or the rows of blocks.

    Attributes
    ----------
    D : list of array of shape (p, 1)
        The diagonal of each Gram matrix, ridge included.
    thresholds : list of float
        τ of each view.
    counts : pair of int or None
        The entries of a column of the block, in place of τ.
    rows : bool
    """

    D: list[Array]
    thresholds: list[float]
    counts: tuple[int | None, int | None]
    rows: bool

    @property
    def shrinks(self) -> bool:
        """Whether any entry can become zero."""
        return any(self.thresholds) or self.counts != (None, None)

    def __call__(self, i: int, V: Array, step: Array) -> Array:
        """sign(V) max(|V| − ητ D^(-1/2), 0) (1), for the step ηD⁻¹."""
        xp, count = Device.of(V).xp, self.counts[i]
        size = xp.abs(V) * xp.sqrt(self.D[i])
        level = step * self.D[i] * self.thresholds[i]
        if self.rows:
            size = xp.sqrt(xp.sum(size * size, axis=1))[:, None]
        if count is not None:
            order = xp.sort(size, axis=0)
            last = order.shape[0] - count - 1
            level = order[last, :][None, :] if last >= 0 else level * 0.0
        level = xp.minimum(level, xp.max(size, axis=0)[None, :] * LARGEST)
        shrunk = xp.where(size > level, size - level, xp.zeros_like(size))
        return V * shrunk * reciprocal(size)

    def settled(self, old: Pairs, new: Pairs) -> bool:
        """Whether both blocks are settled; a common rotation is ignored if no single entry can become zero."""
        before, after, cross = (
            to_host(sum(V.T @ (W * d) for V, W, d in zip(a.W, b.W, self.D, strict=True)))
            for a, b in ((old, old), (new, new), (old, new))
        )
        same = np.linalg.norm(cross, "nuc") if self.rows or not self.shrinks else np.trace(cross)
        size = np.trace(after)
        return bool(np.trace(before) + size - 2 * same <= SETTLED**2 * size)


def _arrays(pairs: Pairs, taken: int, *, correlated: bool) -> dict[str, Any]:
    """The weights and the number of steps; of sparse pairs, which are not turned, also their own correlations."""
    arrays = {**pairs.arrays(), "steps": np.array([float(taken)])}
    if correlated:
        sums = pairs.device.column_sums
        rho, *squares = (
            to_host(sums(V * image))
            for V, image in ((pairs.W[0], pairs.CW[0]), *zip(pairs.W, pairs.SW, strict=True))
        )
        lengths = np.sqrt(np.maximum(squares[0] * squares[1], 0.0))
        rho = rho * reciprocal(lengths)
        signs = pairs.device.asarray(np.where(rho < 0, -1.0, 1.0))[None, :]
        arrays |= {"y_weights": pairs.W[1] * signs, "correlations": np.abs(rho)}
    return arrays
