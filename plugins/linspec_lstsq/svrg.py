"""Stochastic variance reduced gradient.

Problem: min ‖A x − B‖² + r ‖x‖², all right-hand sides and all ridges of a path in one block.
Method: Johnson & Zhang (2013, NIPS 26), with minibatches. An epoch begins at a snapshot x̃ whose full gradient is known
and takes steps on rows in random order. For f(x) = ½(‖A x − B‖² + r ‖x‖²) the variance-reduced gradient on rows S is

    (1)  (n/|S|) A_Sᵀ A_S e + r e − w,    e = x − x̃,    w = −∇f(x̃) = Aᵀ(B − A x̃) − r x̃,

one forward and one adjoint product of few rows: the right-hand sides enter only through w. A step is

    (2)  e ← e − h [(n/|S|) A_Sᵀ A_S e + r e − w]

with h and |S| from `step_lengths`. With H = AᵀA + r, f(x̃ + d) − f(x̃) = dᵀH d/2 − dᵀw, and the next snapshot is

    (3)  x̃ ← x̃ + d s,  w ← w − H d s,

d = e and s = 1 in the paper. From x = 0 at ridge 0 all steps lie in the row space of A, so the limit is the solution of
least norm.
Where we differ: (a) Rows are drawn without replacement, in a new random order for every epoch: no row is read twice in
it. Each batch by itself is a uniform sample, and its gradient is unbiased. The batches of one epoch are not
independent, which makes their mean more accurate: the mean over all rows is the full gradient. (a') An epoch reads n/2
rows ("best") or n ("last"), in batches. The paper suggests 2n steps of one row each.
(b) The next snapshot is the point of least objective in the span of the displacement e and those of the last two
epochs, and not the end of the epoch:

    (4)  d ← e − Σ q (qᵀH e)/(qᵀH q) for these q,  s = dᵀw/dᵀH d.

The next full gradient needs AᵀA x for a new x. It is made from AᵀA e, which also gives this point for each column
without a further product, like the exact step of conjugate gradients. This takes at most half of the passes (measured),
and makes the result nearly independent of the constant in the step; ``snapshot="last"`` is the form of the paper.
(c) The same products show exactly whether the objective would have grown over an epoch. If so, the column's step is
halved, and ``snapshot="last"`` keeps its last snapshot. If the best point on the line of e comes before its end,
variance limits the column, and its step is scaled accordingly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from linspec import (
    Iterate,
    IterativeSolver,
    LeastSquaresState,
    LinearOperator,
    Moments,
    Run,
    Status,
    limit_option,
    option,
    tol_option,
)
from linspec.arrays import Array, Home, to_host
from linspec.operators import uncounted
from linspec.sweeps import Minibatches, equal_slices, rows_at_once
from linspec_lstsq.golub_kahan import start_of
from linspec_lstsq.step_lengths import PROBES, StepLengths, norms, quotient, survey

EPOCHS = {"best": 0.5, "last": 1.0}
"""Rows of an epoch, as a fraction of all rows, for each kind of snapshot (measured)."""

MEMORY = 2
"""Number of earlier displacements whose span the next snapshot may use."""

ROUNDING = 20
"""Relative gradient at which a column stops, in units of the data's rounding."""


@dataclass(kw_only=True, eq=False)
class Snapshot(Iterate):
    """Snapshot with its negative gradient w, and the state that the next epoch needs.

    Attributes
    ----------
    x : array of shape (p, k)
    w : array of shape (p, k)
        −∇f(x).
    scale : array of shape (k,)
        ‖AᵀB‖.
    past : sequence of (q, H q, qᵀH q)
        Earlier displacements.
    step_lengths : StepLengths
    """

    residual: float
    ending: Status | None = None
    x: Array
    w: Array
    scale: Array
    past: tuple[tuple[Array, Array, Array], ...] = ()
    step_lengths: StepLengths

    def weights(self) -> Mapping[str, Any]:
        """The snapshot x."""
        return {"x": self.x}

    def notes(self) -> list[tuple[Status | None, str]]:
        """Note that a given step was too long."""
        step = self.step_lengths.given
        if step is None or not self.step_lengths.diverged:
            return []
        text = f"The objective grew with step={step:g}: smaller steps were taken. Leave the option out."
        return [(Status.BREAKDOWN, text)]


@dataclass(frozen=True, kw_only=True)
class SVRG(IterativeSolver):
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

    kept: ClassVar = (Snapshot, StepLengths)
    resumes_after_law: ClassVar = False

    def iterates(self, problem: Any, run: Run, state: Any = None) -> Iterator[Iterate]:
        """Yield snapshots, the first one at zero."""
        A, ridges = problem.A, problem.column_ridges
        rows, epoch = self.rows(A, run), self.rows_of_an_epoch(A)
        home, moments = A.home.blocks, run.moments("implicit")
        if state is None:
            probes = run.rng.standard_normal((A.shape[1], PROBES))
            largest, AtB = survey(A, problem.B, probes)  # the largest row norm, and AᵀB: one sweep
            if not np.isfinite(largest + to_host(AtB).sum()):
                moments.products(
                    home.zeros((A.shape[1], 1)), home.eye(problem.B.shape[1])
                )  # raises NonFiniteData
            AtB = home.concat([AtB] * len(problem.ridges))
            step_lengths = StepLengths(self.snapshot, self.step, self.batch, ridges, largest, probes)
            state = snapshot_at(AtB * 0.0, AtB, norms(AtB, home), step_lengths, home)
        yield from svrg(A, moments.gram, rows, epoch, state)

    def rows(self, A: LinearOperator, run: Run) -> Minibatches:
        """Rows in random order, in chunks of at least a batch. Rows of files are drawn one by one."""
        return Minibatches([A], run.rng, chunk=max(rows_at_once(A), self.batch or 1), in_runs=False)

    def rows_of_an_epoch(self, A: LinearOperator) -> int:
        """Number of rows that an epoch reads."""
        return max(1, round(EPOCHS[self.snapshot] * A.shape[0]))

    def prepare(self, A: LinearOperator | Moments, ridge: float, run: Run) -> PreparedSVRG:
        """Prepare the solver for many right-hand sides."""
        return PreparedSVRG(self, A, ridge, run)


def svrg(
    A: LinearOperator, multiply: Callable[[Array], Array], rows: Minibatches, epoch: int, it: Snapshot
) -> Iterator[Snapshot]:
    """Run SVRG from a snapshot.

    Parameters
    ----------
    A : LinearOperator of shape (n, p)
        Counted operator with row slices.
    multiply : callable
        Returns AᵀA V for a block V, in one sweep.
    rows : Minibatches
    epoch : int
        Number of rows that an epoch reads.
    it : Snapshot
        The first snapshot.
    """
    n, home, xp = A.shape[0], A.home.blocks, A.home.blocks.xp
    ridges, best = it.step_lengths.ridges, it.step_lengths.snapshot == "best"
    r = home.place(ridges)[None, :]
    floor = it.scale * (ROUNDING * float(np.finfo(A.dtype).eps))
    while True:
        yield it
        x, w, past, step_lengths = it.x, it.w, it.past, it.step_lengths
        live = norms(w, home) > floor
        if not bool(to_host(xp.any(live))):
            it = replace(it, ending=Status.STAGNATED)
            continue
        # an epoch of steps (2), e = 0 at the snapshot
        w_live = w * xp.astype(live, w.dtype)[None, :]
        e = w_live * 0.0
        rows.shuffle()
        for part in equal_slices(epoch, rows.chunk):
            (A_I,) = rows.load(part.stop - part.start)
            step_lengths = step_lengths if step_lengths.batch else step_lengths.learnt(A, A_I)
            h = home.place(step_lengths.steps)[None, :]
            keep = home.place(1.0 - step_lengths.steps * ridges)[None, :] if ridges.any() else None
            hw = w_live * h
            for S in equal_slices(A_I.shape[0], step_lengths.batch):
                bent = curvature(A_I.rows(S), e, n)
                e = (e if keep is None else e * keep) + hw - bent * h
            del A_I
            rows.release()  # frees memory for the sweep
        # f(x̃ + d) − f(x̃) = dᵀH d/2 − dᵀw; diverged columns are not multiplied
        near = norms(e, home) <= home.place(step_lengths.reach(epoch)) * norms(w_live, home)
        d = xp.where(near[None, :], e, xp.zeros_like(e))
        Hd = multiply(d) + d * r
        dw, dHd = xp.sum(d * w_live, axis=0), xp.sum(d * Hd, axis=0)
        grew = ~near | (dHd > 2 * dw)
        step_lengths = step_lengths.adapted(to_host(grew), to_host(quotient(dw, dHd, xp)))
        if best:  # the least objective in the span (4)
            for q, Hq, qHq in past:
                t = quotient(xp.sum(q * Hd, axis=0), qHq, xp)
                d, Hd = d - q * t[None, :], Hd - Hq * t[None, :]
            dw, whole, dHd = xp.sum(d * w_live, axis=0), dHd, xp.sum(d * Hd, axis=0)
            # A displacement within the span of earlier ones leaves only rounding.
            dHd = xp.where(dHd > 1e-10 * whole, dHd, xp.zeros_like(dHd))
            s, past = quotient(dw, dHd, xp), ((d, Hd, dHd), *past)[:MEMORY]
        else:
            s = xp.astype(~grew, w.dtype)
        # the next snapshot (3)
        x, w = x + d * s[None, :], w - Hd * s[None, :]
        it = replace(it, x=x, w=w, past=past, step_lengths=step_lengths)
        it.residual = worst(w, it.scale, home)


def curvature(rows: LinearOperator, e: Array, n: int) -> Array:
    """(n/|S|) A_Sᵀ A_S e for the rows S of a matrix of n rows: an unbiased estimate of AᵀA e."""
    return rows.rmatmat(rows.matmat(e) * (n / rows.shape[0]))


def snapshot_at(x: Array, w: Array, scale: Array, step_lengths: StepLengths, home: Home) -> Snapshot:
    """First snapshot, with its negative gradient w."""
    return Snapshot(residual=worst(w, scale, home), x=x, w=w, scale=scale, step_lengths=step_lengths)


def worst(w: Array, scale: Array, home: Home) -> float:
    """Largest relative gradient among the columns with AᵀB ≠ 0."""
    return float(to_host(home.xp.max(quotient(norms(w, home), scale, home.xp))))


class PreparedSVRG(LeastSquaresState):
    """SVRG as the least-squares part of an outer method; its first solve takes a sweep for row norms."""

    def __init__(self, solver: SVRG, A: LinearOperator | Moments, ridge: float, run: Run) -> None:
        self.solver, self.ridge, self.run = solver, ridge, run
        self.moments = A if isinstance(A, Moments) else Moments(A, form="implicit")
        self.A = _matrix(A, run) if isinstance(A, Moments) else A
        self.probes = run.rng.standard_normal((self.A.shape[1], PROBES))
        self.largest: float | None = None

    def solve(
        self,
        B: LinearOperator,
        x0: Array | None = None,
        tol: float | None = None,
        AtB: Array | None = None,
        AtAx0: Array | None = None,
    ) -> Array:
        """See `LeastSquaresState.solve`."""
        home = self.A.home.blocks
        start = partial(start_of, self.A, B, x0)
        iterates = self._iterates(B, x0, AtB)
        tol, limit = tol or self.solver.tol or 1e-8, self.solver.max_iterations
        return home.place(self.driven(iterates, start, tol=tol, limit=limit))

    def _iterates(self, B: LinearOperator, x0: Array | None, AtB: Array | None) -> Iterator[Snapshot]:
        """Snapshots for one right-hand side."""
        solver, A, run = self.solver, self.A, self.run
        if AtB is None:
            AtB = A.rmatmat(B.matmat(B.home.blocks.eye(B.shape[1])))
        home, multiply = A.home.blocks, self.moments.gram
        scale = norms(AtB, home)
        x = AtB * 0.0
        if x0 is not None:
            x = home.place(x0) * home.xp.astype(scale > 0, AtB.dtype)[None, :]
        if self.largest is None:
            self.largest, _ = survey(A, None, self.probes)
        w = AtB if x0 is None else AtB - multiply(x) - x * self.ridge
        ridges = np.full(B.shape[1], self.ridge)
        step_lengths = StepLengths(
            solver.snapshot, solver.step, solver.batch, ridges, self.largest, self.probes
        )
        rows, epoch = solver.rows(A, run), solver.rows_of_an_epoch(A)
        yield from svrg(A, multiply, rows, epoch, snapshot_at(x, w, scale, step_lengths, home))


def _matrix(moments: Moments, run: Run) -> LinearOperator:
    """Return the matrix of the moments of one view, such that products with it count as sweeps of the run.

    It is the matrix of the run's problem that has the same data. If the problem has none, for example because the
    moments are centred, the matrix from `Moments.matrix` is returned.
    """
    A = moments.matrix(0)
    return next((M for M in run.problem.matrices.values() if uncounted(M)[0] is uncounted(A)[0]), A)
