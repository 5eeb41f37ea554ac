"""Stochastic variance reduced gradient.

Problem: min ‖A x - B‖² + r ‖x‖², all right-hand sides and all ridges of a path in one block.
Method: Johnson & Zhang (2013, NIPS 26, Figure 1), with minibatches. An epoch begins at a snapshot x̃ whose full gradient
is known and takes steps on rows in random order. For f(x) = ½(‖A x - B‖² + r ‖x‖²) the variance-reduced gradient on
rows S is

    (n/|S|) A_Sᵀ A_S e + r e - w,    e = x - x̃,    w = -∇f(x̃) = Aᵀ(B - A x̃) - r x̃,      (1)

one forward and one adjoint product of few rows: the right-hand sides enter only through w. A step is

    e ← e - h [(n/|S|) A_Sᵀ A_S e + r e - w]                                               (2)

with h and |S| from `step_lengths`. With H = AᵀA + r, f(x̃ + d) - f(x̃) = dᵀH d/2 - dᵀw, and the next snapshot is

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
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from linspec import Status, limit_option, option, tol_option
from linspec.arrays import Array, Home, HostArray, to_host
from linspec.iteration import ROUNDING, Context, Iterate, worst
from linspec.rows import DEVICE_FACTOR, Minibatch, Moments, equal_slices, random_order, rows_at_once
from linspec.solving import Solver
from linspec_lstsq.normal_system import rounding_of
from linspec_lstsq.step_lengths import PROBES, StepLengths

EPOCHS = {"best": 0.5, "last": 1.0}
"""Rows of an epoch, as a fraction of all rows, for each kind of snapshot (measured)."""

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

    def iterate(self, problem: Any, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield snapshots, the first one at zero."""
        home, ridges, product = moments.operators[0].backend.blocks, problem.ridges, moments.gram_product
        xp, place = home.xp, home.place
        (AtB, _) = moments.products(None, home.eye(problem.B.shape[1]))[1]
        rows = PreprocessedRows(moments, context.rng, self.batch or 1)
        rounding = rounding_of(moments, AtB, problem.width)
        scales = np.tile(home.column_norms(AtB), len(ridges))
        r, R = place(problem.column_ridges)[None, :], home.concat([AtB] * len(ridges))
        left = rounding.get("left", lambda x: R - product(x))
        probes = place(context.rng.standard_normal((AtB.shape[0], PROBES)))
        factor = 1 if home.on_host else DEVICE_FACTOR
        lengths = StepLengths(
            self.snapshot, self.step, self.batch, problem.column_ridges, rows.n, probes, factor
        )
        epoch = max(1, round(EPOCHS[self.snapshot] * rows.n))
        live = place((scales > 0).astype(np.float64))[None, :]
        x, w = (R * 0.0, R) if start is None else (place(start["x"]) * live, None)
        past: list[tuple[Array, Array, Array]] = []
        first, before = scales, np.inf
        while True:
            tol, anew = context.tol, w is None
            if w is None:
                w = left(x) - x * r  # (1)
            sizes = home.column_norms(w)
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
            live = home.place(moving.astype(np.float64))[None, :]
            e = self._epoch(rows, epoch, lengths, w * live, r)
            # f(x̃ + d) - f(x̃) = dᵀH d/2 - dᵀw; diverged columns are not multiplied
            near = home.place(home.column_norms(e) <= lengths.reach(epoch) * sizes, bool)
            d = xp.where(near[None, :], e, xp.zeros_like(e))
            Hd = product(d) + d * r
            dw, dHd = xp.sum(d * w, axis=0), xp.sum(d * Hd, axis=0)
            grew = ~near | (dHd > 2 * dw)
            lengths.adapt(to_host(grew), to_host(quotient(dw, dHd)))
            if self.step is not None and lengths.diverged:
                text = f"The objective grew with step={self.step:g}: smaller steps were taken. Leave the option out."
                context.note(Status.BREAKDOWN, text)
            s = xp.astype(~grew, w.dtype)
            if self.snapshot == "best":
                for q, Hq, qHq in past:
                    t = quotient(xp.sum(q * Hd, axis=0), qHq)
                    d, Hd = d - q * t[None, :], Hd - Hq * t[None, :]  # (4)
                dw, whole, dHd = xp.sum(d * w, axis=0), dHd, xp.sum(d * Hd, axis=0)
                # A displacement within the span of earlier ones leaves only rounding.
                dHd = xp.where(dHd > 1e-10 * whole, dHd, xp.zeros_like(dHd))
                s, past = quotient(dw, dHd), [(d, Hd, dHd), *past][:MEMORY]
            x, w = x + d * s[None, :], w - Hd * s[None, :]  # (3)

    def _epoch(self, rows: PreprocessedRows, epoch: int, lengths: StepLengths, w: Array, r: Array) -> Array:
        """The displacement e after steps (2) on so many rows."""
        e, place, order = w * 0.0, Home.of(w).place, rows.order()
        for some in equal_slices(min(epoch, len(order)), rows.chunk):
            chunk = rows.read(order[some])
            lengths.meet(chunk)
            h = place(lengths.steps)[None, :]
            for S in equal_slices(chunk.rows, lengths.batch):
                bent = chunk.gram_product(e, S) * (rows.n / (S.stop - S.start))  # (1)
                e = e - h * (bent + r * e - w)  # (2)
        return e


class PreprocessedRows:
    """Rows of A, by their numbers; those without weight are left out."""

    def __init__(self, moments: Moments, rng: np.random.Generator, fewest: int) -> None:
        self.moments, self.rng, w = moments, rng, moments.pre.w
        A = moments.operators[0]
        self.numbers = np.arange(A.shape[0]) if w is None else np.flatnonzero(w)
        self.n = len(self.numbers)
        self.chunk = min(max(rows_at_once(A), LEAST_ROWS, fewest), self.n)

    def order(self) -> HostArray:
        """The numbers of the rows in random order."""
        return random_order(self.numbers, self.rng, self.chunk, self.moments.operators[0].together)

    def read(self, numbers: HostArray) -> Minibatch:
        """A chunk of rows."""
        return self.moments.minibatch(numbers, 0)


def quotient(a: Array, b: Array) -> Array:
    """a/b, or 0 if b is not positive."""
    xp = Home.of(a).xp
    safe = b > 0
    return xp.where(safe, a / xp.where(safe, b, xp.ones_like(b)), xp.zeros_like(b))
