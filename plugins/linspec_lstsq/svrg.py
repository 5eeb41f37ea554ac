"""Stochastic variance reduced gradient.

Problem: min ‖A x - B‖² + r ‖x‖², all right-hand sides and all ridges of a path in one block.
Method: Johnson & Zhang (2013, NIPS 26, Figure 1), with minibatches. An epoch begins at a snapshot x̃ whose full gradient
is known and takes steps on rows in random order. For f(x) = ½(‖A x - B‖² + r ‖x‖²) the variance-reduced gradient on
rows S is

    (n/|S|) A_Sᵀ A_S e + r e - w,    e = x - x̃,    w = -∇f(x̃) = Aᵀ(B - A x̃) - r x̃,      (1)

one forward and one adjoint product of few rows: the right-hand sides enter only through w. A step is

    e ← e - h [(n/|S|) A_Sᵀ A_S e + r e - w]                                               (2)

with h and |S| from `StepLengths`. With H = AᵀA + r, f(x̃ + d) - f(x̃) = dᵀH d/2 - dᵀw, and the next snapshot is

    x̃ ← x̃ + d s,  w ← w - H d s,                                                          (3)

d = e and s = 1 in the paper. From x = 0 at ridge 0 all steps lie in the row space of A, so the limit is the solution of
least norm.
Where we differ: (a) Rows are drawn without replacement, in a new random order for every epoch: no row is read twice in
it. Each batch by itself is a uniform sample, and its gradient is unbiased. The batches of one epoch are not
independent, which makes their mean more accurate: the mean over all rows is the full gradient. (a') An epoch reads n/2
rows ("best") or n ("last"), in batches. The paper suggests 2n steps of one row each.
(b) The next snapshot is the point of least objective in the span of the displacement e and those of the last two
epochs, and not the end of the epoch:

    d ← e - Σ q (qᵀH e)/(qᵀH q) for these q,  s = dᵀw/dᵀH d.                               (4)

The next full gradient needs AᵀA x for a new x. It is made from AᵀA e, which also gives this point for each column
without a further product, like the exact step of conjugate gradients. This takes at most half of the passes (measured),
and makes the result nearly independent of the constant in the step; ``snapshot="last"`` is the form of the paper.
(c) The same products show exactly whether the objective would have grown over an epoch. If so, the column's step is
halved, and ``snapshot="last"`` keeps its last snapshot. If the best point on the line of e comes before its end,
variance limits the column, and its step is scaled accordingly.
(d) Where w may be rounding, or the certificate has computed a larger residual, w is computed anew. The iteration ends
where that no longer halves the residual.

Step length and batch size of stochastic gradients for least squares, from the data.

Problem: x ← x - h H_S e with H_S = (n/b) A_SᵀA_S on b random rows S has to converge, with steps as long as the variance
allows and batches as small as pays.
Method: with L = λ_max(AᵀA) and the largest row norm R, E[H_S²] ≼ L_b AᵀA and

    L_b = n(b-1)/(b(n-1)) L + (n-b)/(b(n-1)) n R²        (1)

(Gower et al. 2019, doi:10.48550/arXiv.1901.09401; Sebbouh et al. 2019, doi:10.48550/arXiv.1908.02725), and
1/(L_b + r) is a safe step. L comes from the first chunk of random rows, which on average overestimates it, and R from
the rows that have been met: steps become shorter before a longer row is used. A batch of n R²/L rows or more allows no
longer steps, so a batch is much smaller, but large enough for the speed of matrix products.
Where we differ: each column has its own step, and products that are made anyway show by what factor each step was too
long.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import linspec as ls
from linspec import Status, limit_option, option, tol_option
from linspec.arrays import Array, Device, HostArray, reciprocal, to_host
from linspec.iteration import ROUNDING, Context, Iterate, worst
from linspec.rows import DEVICE_FACTOR, Moments, equal_slices, random_order, rows_at_once
from linspec.solving import Solver
from linspec_lstsq.normal_system import rounding_of

STEPS = {"best": 0.5, "last": 1.0}
"""Steps of the inner iteration in units of 1/(L_b + r), for each kind of snapshot (measured). At
2/(L_b + r) the variance may grow. "best" has shorter steps, for less variance: its exact line search lengthens a
displacement that is too short."""

FEWEST_STEPS = 16
"""Least number of batches into which the rows are divided, even if larger batches would be faster."""

FEWEST_ROWS = 32
"""Smallest number of rows of a batch: with fewer, calling a product would take longer than computing it."""

FEWEST_ENTRIES, MOST_ENTRIES = 2**13, 2**17
"""Least and largest number of entries in a batch: the least takes as long as the overhead of the interpreter, and the
largest fits into the cache of a core. A batch of sparse rows has at least as many entries as A has columns, because a
step updates all coefficients."""

FARTHEST = 1e6
"""A column of coefficients has diverged if an epoch moves it farther than FARTHEST times the sum of its safe steps, in
units of the norm of its gradient at the start. On average over random batches, safe steps move it no farther than about
their sum. No product is made with the displacement of a column that has diverged."""

PROBES, POWERS = 8, 8
"""Columns and steps of the power iteration for the largest eigenvalue of a chunk of rows."""


class StepLengths:
    """Step of each column, and number of rows in a batch, as rows are met.

    Parameters
    ----------
    solver : SVRG
        Its `snapshot`, `step` and `batch`.
    ridges : numpy.ndarray of shape (k,)
        The ridge of each column.
    moments : Moments
    rng : numpy.random.Generator

    Attributes
    ----------
    numbers : numpy.ndarray of int
        The numbers of the rows that have a weight.
    safe, steps : numpy.ndarray of shape (k,)
        The steps that the data determine, and those in use.
    diverged : bool
        Whether the objective of some column would have grown.
    """

    def __init__(self, solver: SVRG, ridges: HostArray, moments: Moments, rng: np.random.Generator) -> None:
        self.solver, self.ridges, self.rng, A, w = solver, ridges, rng, moments.operators[0], moments.pre.w
        self.numbers = np.arange(A.shape[0]) if w is None else np.flatnonzero(w)
        self.n = len(self.numbers)
        self.probes = A.device.blocks.asarray(rng.standard_normal((A.shape[1], PROBES)))
        self.largest, self.batch, self.diverged = 0.0, 0, False
        self.steps = np.full(len(ridges), solver.step or np.inf)

    def meet(self, chunk: Any) -> None:
        """Learn from random rows before they are used."""
        row = float(to_host(chunk.row_squares()).max(initial=0.0))
        if self.batch and row <= self.largest:
            return
        self.largest = max(self.largest, row)
        if not self.batch:
            device, V = Device.of(self.probes), self.probes
            for _ in range(POWERS):  # of the power method
                V = chunk.gram_product(V * device.asarray(reciprocal(device.column_norms(V)))[None, :])
            self.curved = self.n / chunk.rows * float(device.column_norms(V).max(initial=0.0))
            factor = 1 if device.on_host else DEVICE_FACTOR
            entries, p = max(chunk.entries / chunk.rows, 1.0), self.probes.shape[0]
            fewest = max(FEWEST_ROWS, factor * FEWEST_ENTRIES / entries, p / entries)
            most = max(fewest, factor * MOST_ENTRIES / entries)
            # n R²/(2L) rows, within the limits of fast products and of the least number of batches
            wanted = self.n * row / (2 * self.curved) if self.curved > 0 else fewest
            usual = int(max(1, min(max(wanted, fewest), most, self.n // FEWEST_STEPS)))
            self.batch = min(self.solver.batch or usual, self.n)
        bound = smoothness(self.curved, self.largest, self.n, self.batch) + self.ridges
        self.safe = STEPS[self.solver.snapshot] * reciprocal(bound)
        if self.solver.step is None:
            self.steps = np.minimum(self.steps, self.safe)

    def adapt(self, grew: HostArray, lengths: HostArray) -> None:
        """Choose the steps of the next epoch.

        Steps from the data, with the snapshot "best", are multiplied by `lengths`, limited to factors from 1/2 to 2,
        and become at most the safe step. If the user has given the step, or with the snapshot "last", the steps of
        columns in `grew` are halved and become at most the safe step, and all other steps stay.

        Parameters
        ----------
        grew : numpy.ndarray of bool, shape (k,)
            Whether the objective of a column would have grown over the epoch.
        lengths : numpy.ndarray of shape (k,)
            The point of least objective on the line of a column's displacement, as a multiple of the displacement.
            Below 1, variance has limited the column; above 1, its steps were short.
        """
        self.diverged = self.diverged or bool(grew.any())
        if self.solver.step is None and self.solver.snapshot == "best":
            self.steps = np.minimum(self.steps * np.clip(lengths, 0.5, 2.0), self.safe)
        else:
            self.steps = np.where(grew, np.minimum(self.steps / 2, self.safe), self.steps)


def smoothness(curved: float, largest: float, n: int, batch: int) -> float:
    """L_b, the least factor for which L_b AᵀA is guaranteed to bound E[H_S²], with the products H_S of random batches.

    Parameters
    ----------
    curved : float
        λ_max(AᵀA).
    largest : float
        The largest squared row norm.
    n, batch : int
        Rows of the matrix, and of a batch drawn without replacement.
    """
    if n == 1:
        return curved
    whole = n * (batch - 1) / (batch * (n - 1))
    single = n * (n - batch) / (batch * (n - 1))
    return whole * curved + single * largest  # (1)


EPOCHS = {"best": 0.5, "last": 1.0}
"""Rows of an epoch, as a fraction of all rows, for each kind of snapshot (measured)."""

GREW = "The objective grew with this step=: smaller steps were taken. Leave the option out."

MEMORY = 2
"""Number of earlier displacements whose span the next snapshot may use."""

LEAST_ROWS = 64
"""Rows that are read at once, at least."""


@dataclass(frozen=True, kw_only=True)
class SVRG(Solver):
    """Stochastic variance reduced gradient (Johnson & Zhang 2013, NIPS 26)."""

    batch: int | None = option(None, "rows of a minibatch; none: from the data", kind=int, at_least=1)
    step: float | None = option(
        None, "step on the gradient of half the objective; none: from the data", above=0
    )
    snapshot: str = option(
        "best", "least objective among displacements, or last iterate", choices=("best", "last")
    )
    tol: float | None = tol_option(1e-8)
    max_iterations: int = limit_option(1000, "epochs")

    def iterate(
        self, problem: ls.LeastSquares, moments: Moments, context: Context, start: Any
    ) -> Iterator[Iterate]:
        """Yield snapshots, the first one at zero."""
        device = moments.device
        ridges, product = problem.ridges, moments.gram_product
        xp, asarray = device.xp, device.asarray
        (AtB, _) = moments.products(None, device.eye(problem.B.shape[1]))[1]
        rounding = rounding_of(moments, AtB, problem.width)
        scales = np.tile(device.column_norms(AtB), len(ridges))
        r, R = asarray(problem.column_ridges)[None, :], device.concat([AtB] * len(ridges))
        left = rounding.get("left", lambda x: R - product(x))
        lengths = StepLengths(self, problem.column_ridges, moments, context.rng)
        epoch = max(1, round(EPOCHS[self.snapshot] * lengths.n))
        live = asarray((scales > 0).astype(np.float64))[None, :]
        x, w = (R * 0.0, R) if start is None else (asarray(start["x"]) * live, None)
        past: list[tuple[Array, Array, Array]] = []
        first, before = scales, np.inf
        while True:
            tol, anew = context.tol, w is None
            if w is None:
                w = left(x) - x * r  # (1)
            sizes = device.column_norms(w)
            residual = worst(sizes, scales)
            yield Iterate(residual, partial(dict, x=x))
            if anew:
                if residual > before / 2:
                    return
                first, before = sizes, residual
            moving = sizes > ROUNDING * rounding["unit"] * first
            if context.tol < tol or not moving.any():
                w, past = None, []
                continue
            live = device.asarray(moving.astype(np.float64))[None, :]
            e = self._epoch(moments, epoch, lengths, w * live, r)
            # f(x̃ + d) - f(x̃) = dᵀH d/2 - dᵀw; diverged columns are not multiplied
            reach = lengths.safe * (FARTHEST * max(1.0, epoch / lengths.batch))
            near = device.asarray(device.column_norms(e) <= reach * sizes, bool)
            d = xp.where(near[None, :], e, xp.zeros_like(e))
            Hd = product(d) + d * r
            dw, dHd = xp.sum(d * w, axis=0), xp.sum(d * Hd, axis=0)
            grew = ~near | (dHd > 2 * dw)
            lengths.adapt(to_host(grew), to_host(dw * reciprocal(dHd)))
            if self.step is not None and lengths.diverged:
                context.note(Status.BREAKDOWN, GREW)
            s = xp.astype(~grew, w.dtype)
            if self.snapshot == "best":
                for q, Hq, qHq in past:
                    t = xp.sum(q * Hd, axis=0) * reciprocal(qHq)
                    d, Hd = d - q * t[None, :], Hd - Hq * t[None, :]  # (4)
                dw, whole, dHd = xp.sum(d * w, axis=0), dHd, xp.sum(d * Hd, axis=0)
                # A displacement within the span of earlier ones leaves only rounding.
                dHd = xp.where(dHd > 1e-10 * whole, dHd, xp.zeros_like(dHd))
                s, past = dw * reciprocal(dHd), [(d, Hd, dHd), *past][:MEMORY]
            x, w = x + d * s[None, :], w - Hd * s[None, :]  # (3)

    def _epoch(self, moments: Moments, epoch: int, lengths: StepLengths, w: Array, r: Array) -> Array:
        """The displacement e after steps (2) on so many rows."""
        A, e, asarray = moments.operators[0], w * 0.0, Device.of(w).asarray
        width = min(max(rows_at_once(A), LEAST_ROWS, self.batch or 1), lengths.n)
        order = random_order(lengths.numbers, lengths.rng, width, A.together)
        for some in equal_slices(min(epoch, len(order)), width):
            chunk = moments.minibatch(order[some], 0)
            lengths.meet(chunk)
            h = asarray(lengths.steps)[None, :]
            for S in equal_slices(chunk.rows, lengths.batch):
                bent = chunk.gram_product(e, S) * (lengths.n / (S.stop - S.start))  # (1)
                e = e - h * (bent + r * e - w)  # (2)
        return e
