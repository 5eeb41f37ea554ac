"""Sparse AppGrad: canonical weights with mostly zero entries.

Problem: leading pairs, each of which uses few columns of both views.
Method: Ma, Lu & Foster (2015, ICML), section 5: a soft threshold between the gradient step of "appgrad" and its
normalisation. With V = Φ̃ − η [Xᵀ(XΦ̃ − YΨ)/n + λΦ̃] and columns of unit size, Φ̃ ← sign(V) max(|V| − ητ, 0). This is a
step of the proximal gradient method (Daubechies, Defrise & De Mol 2004, doi:10.1002/cpa.20042) with the penalty τ Σ|φ̃|
on the least-squares problem that has the canonical pairs as fixed points.
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
The answer is not that of the problem without the penalty: its residual, by the law, shows the distance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from linspec import Iterate, IterativeSolver, Run, Status, form_option, limit_option, option, part, tol_option
from linspec.arrays import Array, HostArray, reciprocal, to_host
from linspec.families.cca import first_pairs
from linspec.moments import PARTS_OF_PAIRS, Pairs
from linspec_cca.appgrad import (
    Steps,
    checked,
    fitted,
    gradient,
    normalizing,
    steps_from_data,
)

SETTLED = 1e-5
"""The auxiliary blocks are settled if an iteration changes them by at most this fraction of their length."""

WARM_UP = 10
"""Number of iterations before the threshold applies."""

LARGEST_THRESHOLD = 0.9
"""Upper limit of the threshold of a column, as a fraction of its largest entry. So the largest entry never becomes
zero."""


DENSE = "The run ended before a threshold applied: these weights are not sparse."

COUNTS = (
    "Columns of x_weights and y_weights have on average {counts} entries that are not zero; the penalty that makes the "
    "others zero also moves the answer away from the canonical pairs."
)


class SparseIterate(Iterate):
    """The blocks Φ̃, Ψ̃ and Φ, Ψ after a step; Φ̃ and Ψ̃ are the answer as soon as thresholds apply.

    Parameters
    ----------
    tilde, pairs : Pairs
    steps : pair of float
        η of each view.
    taken : int
        The number of steps so far.
    own : bool
        Whether sparse blocks are returned without a rotation, so that each pair has its own correlation.
    ending : Status, optional
    """

    def __init__(
        self, tilde: Pairs, pairs: Pairs, steps: Steps, taken: int, *, own: bool, ending: Status | None = None
    ) -> None:
        super().__init__(pairs.canonical().residual, ending=ending)
        self.tilde, self.pairs, self.steps, self.taken, self.own = tilde, pairs, steps, taken, own

    @property
    def sparse(self) -> bool:
        """Whether thresholds have been applied: after WARM_UP steps."""
        return self.taken > WARM_UP

    def weights(self) -> dict[str, Array]:
        """The weights of both views."""
        pairs = self.tilde if self.sparse else self.pairs
        return {"x_weights": pairs[0].V, "y_weights": pairs[1].V}

    def answer(self) -> dict[str, Any]:
        """The weights of both views, and the correlation of each sparse pair if pairs are not turned."""
        if not (self.sparse and self.own):
            return self.weights()
        rho, signs = _own_correlations(self.tilde)
        return {"x_weights": self.tilde[0].V, "y_weights": self.tilde[1].V * signs, "correlations": rho}

    def notes(self) -> list[tuple[Status | None, str]]:
        """A note on the number of entries that are not zero."""
        if not self.sparse:
            return [(Status.APPROXIMATE, DENSE)]
        counts = " and ".join(f"{_nonzeros(basis.V):.3g}" for basis in self.tilde.bases)
        return [(Status.APPROXIMATE, COUNTS.format(counts=counts))]


@dataclass(frozen=True, kw_only=True)
class SparseAppGrad(IterativeSolver):
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

    kept: ClassVar = (SparseIterate, *PARTS_OF_PAIRS)
    resumes_after_law: ClassVar = False

    def iterates(self, problem: Any, run: Run, state: SparseIterate | None = None) -> Iterator[SparseIterate]:
        """Yield steps of AppGrad in the metric of the diagonals, with thresholds after the first `WARM_UP`."""
        moments = run.moments(self.form, expect=(500, problem.k))
        normalizer, n, k = run.part(self.normalizer), moments.total, problem.k
        if state is None:
            pairs = first_pairs(problem, run, moments, run.part(self.test_matrix), k).normalized(normalizer)
            scales = pairs.metrics.diagonals
            steps = steps_from_data(problem, run, moments, self.test_matrix, scales)
            state = SparseIterate(fitted(pairs, 0.0), pairs, steps, 0, own=False)
        shrinkage = _Shrinkage(self, problem, state.pairs, n)
        own = self.penalty != "rows" and shrinkage.shrinks
        while True:
            yield state
            tilde, pairs, steps, taken = state.tilde, state.pairs, state.steps, state.taken + 1
            if taken == WARM_UP + 1:
                tilde, pairs = _turned(pairs, n)
            threshold = shrinkage if taken > WARM_UP else None

            def moved(i: int, image: Array, tilde: Pairs = tilde, steps: Steps = steps) -> Array:
                """Φ̃ ← Φ̃ − η D⁻¹ (S Φ̃ − √n C Ψ)/n."""
                return tilde[i].V - gradient(tilde, i, image, n) * shrinkage.inverses[i] * steps[i]

            # Φ̃ ← sign(V) max(|V| − ητ, 0) for V = Φ̃ − η D⁻¹ (SxΦ̃ − √n C Ψ)/n, then Ψ̃ by the new Φ
            V = moved(0, pairs.image(0))
            new = tilde.renewed(moments, V if threshold is None else threshold(0, V, steps[0]), None)
            W = moved(1, new.image(1) @ normalizing(new, normalizer))
            new = new.renewed(moments, None, W if threshold is None else threshold(1, W, steps[1]))
            steps, grows = checked(steps, new, tilde, n)
            settled = threshold is not None and not grows and threshold.settled(tilde, new)
            if not grows:
                tilde, pairs = new, new.normalized(normalizer)
            ending = Status.APPROXIMATE if settled else None
            state = SparseIterate(tilde, pairs, steps, taken, own=own, ending=ending)


class _Shrinkage:
    """Soft threshold of the entries or the rows of blocks, for columns of the data scaled to unit size.

    Attributes
    ----------
    inverses : list of array of shape (p, 1)
        n/D of each view, where D is the diagonal of its Gram matrix, ridge included, and n the number of rows.
    """

    def __init__(self, solver: SparseAppGrad, problem: Any, pairs: Pairs, n: float) -> None:
        self.home, self.rows = pairs.metrics.home, solver.penalty == "rows"
        self.diagonals = [d[:, None] / n for d in pairs.metrics.diagonals]
        self.inverses = [reciprocal(d) for d in self.diagonals]
        self.counts = (solver.x_nonzeros, solver.y_nonzeros)
        given = (solver.x_threshold, solver.y_threshold)
        width = problem.k if self.rows else 0
        self.thresholds = [
            _of_chance(n, A.shape[1], width) if t is None else t
            for t, A in zip(given, (problem.X, problem.Y), strict=True)
        ]

    @property
    def shrinks(self) -> bool:
        """Whether any entry can become zero."""
        return any(self.thresholds) or self.counts != (None, None)

    def __call__(self, view: int, V: Array, step: float) -> Array:
        """sign(V) max(|V| − ητ, 0)."""
        xp, unit = self.home.xp, self.home.xp.sqrt(self.diagonals[view])
        size = xp.abs(V) * unit
        if self.rows:
            size = xp.sqrt(xp.sum(size * size, axis=1))[:, None]
        level = self._level(view, size, step)
        kept = xp.where(size > level, size - level, xp.zeros_like(size))
        return V * kept * reciprocal(size)

    def _level(self, view: int, size: Array, step: float) -> Array:
        """ητ of each column, from the threshold or from the number of entries."""
        xp, count = self.home.xp, self.counts[view]
        largest = xp.max(size, axis=0)[None, :]
        level = xp.ones_like(largest) * (self.thresholds[view] * step)
        if count is not None:
            order = xp.sort(size, axis=0)
            position = order.shape[0] - count - 1
            level = order[position, :][None, :] if position >= 0 else level * 0.0
        return xp.minimum(level, largest * LARGEST_THRESHOLD)

    def settled(self, old: Pairs, new: Pairs) -> bool:
        """Whether both blocks are settled; a common rotation is ignored if no single entry can become zero."""
        before = self._scaled_products(old, old), self._scaled_products(new, new)
        cross = self._scaled_products(old, new)
        same = np.linalg.norm(cross, "nuc") if self.rows or not self.shrinks else np.trace(cross)
        size = np.trace(before[1])
        return bool(np.trace(before[0]) + size - 2 * same <= SETTLED**2 * size)

    def _scaled_products(self, a: Pairs, b: Pairs) -> HostArray:
        """Sum of VᵀDW over both views."""
        dx, dy = self.diagonals
        found: HostArray = to_host(a[0].V.T @ (b[0].V * dx) + a[1].V.T @ (b[1].V * dy))
        return found


def _of_chance(n: float, p: int, width: int) -> float:
    """Largest correlation that p columns are expected to have by chance with an unrelated variate, for n rows of data.

    With a positive `width` there are that many variates, and a column's correlations with all of them form a vector.
    Then the largest norm of these p vectors is returned. The result is at most `LARGEST_THRESHOLD`.
    """
    return float(min((np.sqrt(width) + np.sqrt(2 * np.log(p))) / np.sqrt(n), LARGEST_THRESHOLD))


def _turned(pairs: Pairs, n: float) -> tuple[Pairs, Pairs]:
    """Turn normalised blocks Φ, Ψ to the canonical pairs of their spans; return their auxiliary blocks, and the pairs.

    The auxiliary blocks are √n Φ diag(ρ) and √n Ψ diag(ρ): a fixed point, if the pairs are canonical for the data.
    """
    pairs = pairs.canonical()
    factor = np.diag(pairs.rho * np.sqrt(n))
    return pairs.turned((factor, factor)), pairs


def _own_correlations(tilde: Pairs) -> tuple[HostArray, Array]:
    """The correlation of each pair of columns, without turning the blocks, and the signs of Ψ that make it positive."""
    home, (phi, psi) = tilde.metrics.home, tilde.bases
    products = ((phi.V, tilde.image(0)), (phi.V, phi.SV), (psi.V, psi.SV))
    cross, x, y = to_host(home.xp.stack([home.xp.sum(V * W, axis=0) for V, W in products]))
    lengths = np.sqrt(np.maximum(x * y, 0.0))
    rho = np.divide(cross, lengths, out=np.zeros_like(cross), where=lengths > 0)
    return np.abs(rho), home.place(np.where(rho < 0, -1.0, 1.0))[None, :]


def _nonzeros(V: Array) -> float:
    return float(np.count_nonzero(to_host(V)) / V.shape[1])
