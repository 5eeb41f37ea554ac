"""Stochastic variance reduced gradient.

Problem: min ‖A x − B‖² + r ‖x‖², all right-hand sides and all ridges of a path in one block.
Method: Johnson & Zhang (2013, NIPS 26), with minibatches. An epoch begins at a snapshot x̃ whose full gradient is known
and walks through the rows in random order. For least squares the variance-reduced gradient on the rows S is

    (n/|S|) A_Sᵀ A_S e + r e − w,    e = x − x̃,    w = Aᵀ(B − A x̃) − r x̃,

one forward and one adjoint product of few rows: the right-hand sides enter only through w. From x = 0 at ridge 0 all
steps lie in the row space of A, so the limit is the solution of least norm.
Step and batch: with L = λ_max(AᵀA) and the largest row norm R, E[H_S²] ≼ L_b AᵀA for H_S = (n/b) A_SᵀA_S and

    L_b = n(b−1)/(b(n−1)) L + (n−b)/(b(n−1)) n R²

(Gower et al. 2019, doi:10.48550/arXiv.1901.09401; Sebbouh et al. 2019, doi:10.48550/arXiv.1908.02725), and
1/(L_b + r) is a safe step. The sweep that makes AᵀB also gives n R². L comes from a random chunk of rows, which on
average overestimates it. A batch of n R²/L rows or more allows no longer steps, so a batch is much smaller, but large
enough for the speed of matrix products.
Where we differ: (a) Rows are drawn without replacement, as a random partition for every epoch: no row is read twice.
Each batch by itself is a uniform sample, and its gradient is unbiased. The batches of one epoch are not independent,
which makes their mean more accurate: the mean over a whole partition is the full gradient.
(b) The next snapshot is the point of least objective in the span of the displacement e and those of the last two
epochs, and not the end of the epoch. The next full gradient needs AᵀA x for a new x. It is made from AᵀA e, which also
gives this point for each column without a further product, like the exact step of conjugate gradients. This takes at
most half of the passes (measured), and makes the result nearly independent of the constant in the step;
``snapshot="last"`` is the form of the paper. The same products show exactly whether the objective would have grown over
an epoch. If so, the column's step is halved, and ``snapshot="last"`` keeps its last snapshot. If the best point on the
line of e comes before its end, variance limits the column, and its step is scaled accordingly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from linspec import (
    LeastSquaresState,
    LinearOperator,
    Moments,
    Run,
    Solution,
    Solver,
    Status,
    limit_option,
    option,
    tol_option,
)
from linspec.arrays import Array, Home, HostArray, to_host
from linspec.operators import DenseOperator, SparseOperator, uncounted
from linspec.sweeps import (
    DEVICE_FACTOR,
    FEWEST_ROWS,
    KeptRows,
    RandomRows,
    Step,
    equal_slices,
    random_order,
    rows_at_once,
)
from linspec_lstsq.golub_kahan import start_of

STEPS = {"best": 0.5, "last": 1.0}
"""Steps of the inner iteration in units of 1/(L_b + r), by the kind of snapshot, measured. At 2 the variance may grow.
The best snapshot needs less variance, and lengthens displacements that short steps have made too short."""

EPOCHS = {"best": 0.5, "last": 1.0}
"""Rows of an epoch, as a fraction of all rows; also measured."""

MEMORY = 2
"""The number of earlier displacements whose span the next snapshot may use."""

FEWEST_STEPS = 16
"""The least number of batches in all rows. It has priority over the speed of a batch."""

FEWEST_ENTRIES, MOST_ENTRIES = 2**13, 2**17
"""Entries of a batch: the overhead of the interpreter equals the time for the lower number, and a core's own cache
holds the upper number. A batch of sparse rows has at least as many entries as columns, because a step goes through all
coefficients."""

FARTHEST = 1e6
"""A displacement longer than this multiple of the reach of safe steps has diverged, and is not multiplied."""

PROBES, POWERS = 8, 8
"""Columns and steps of the power iteration for the largest eigenvalue of a chunk."""

ROUNDING = 20
"""A column stops at this relative gradient, in units of the data's rounding."""

SHARES = 1e-9
"""The tolerance for the rounding of sums of fractions of a sweep."""


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

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a least-squares problem."""
        A = problem.A
        run.plan(setup=run.settling + 1.0, iteration=1.0 + _rows_of_an_epoch(self, A) / A.shape[0] - SHARES)
        probes = run.rng.standard_normal((A.shape[1], PROBES))
        home, moments = A.home.blocks, run.moments("implicit")
        largest, AtB = survey(A, problem.B, probes)
        if not np.isfinite(largest + to_host(AtB).sum()):
            moments.products(
                home.zeros((A.shape[1], 1)), home.eye(problem.B.shape[1])
            )  # raises NonFiniteData
        AtB = home.concat([AtB] * len(problem.ridges))
        epochs = Epochs(self, A, moments.gram_matmat, problem.column_ridges, largest, probes, run)
        scale = _column_norms(AtB, home)
        start = x = AtB * 0.0
        for x, w in epochs.snapshots(start, AtB, scale):
            if epochs.stuck:
                run.end(Status.STAGNATED)
            if not run.proceed(residual=_worst(w, scale, home), current=partial(dict, x=x)):
                break
        if epochs.diverged and self.step is not None:
            text = (
                f"The objective grew with step={self.step:g}: smaller steps were taken. Leave the option out."
            )
            run.note(Status.BREAKDOWN, text)
        return run.finish(x=x, least=epochs.least)

    def prepare(self, A: LinearOperator | Moments, ridge: float, run: Run) -> SVRGState:
        """Prepare for many right-hand sides."""
        return SVRGState(self, A, ridge, run)


class SVRGState(LeastSquaresState):
    """The same iteration as a part, stopped at a residual or a count; its first solve sweeps for row norms."""

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
        beforehand = (AtB is None) + (2 if self.largest is None else x0 is not None)
        if beforehand and not self.run.affords(beforehand - SHARES):
            return start_of(self.A, B, x0)
        if AtB is None:
            AtB = self.A.rmatmat(B.matmat(B.home.blocks.eye(B.shape[1])))
        home, multiply = self.A.home.blocks, self.moments.gram_matmat
        scale = _column_norms(AtB, home)
        x = AtB * 0.0
        if x0 is not None:
            x = home.place(x0) * home.xp.astype(scale > 0, AtB.dtype)[None, :]
        if self.largest is None:
            self.largest, _ = survey(self.A, None, self.probes)
        w = AtB if x0 is None else AtB - multiply(x) - x * self.ridge
        tol = tol or self.solver.tol or 1e-8
        ridges = np.full(B.shape[1], self.ridge)
        epochs = Epochs(self.solver, self.A, multiply, ridges, self.largest, self.probes, self.run)
        iterates = epochs.snapshots(x, w, scale)
        for _ in range(self.solver.max_iterations + 1):
            x, w = next(iterates)
            residual = _worst(w, scale, home)
            if residual <= tol or epochs.stuck or not self.run.affords(epochs.passes - SHARES):
                break
            if not self.watched(residual, partial(home.place, x)):
                break
        return x


class Epochs:
    """The iteration: epochs of inner steps, and the snapshots between them.

    Parameters
    ----------
    solver : SVRG
    A : LinearOperator of shape (n, p)
        With row slices, and counted.
    multiply : callable
        AᵀA V of a block V, in one sweep.
    ridges : numpy.ndarray of shape (k,)
        The ridge of each column.
    largest : float
        The largest squared row norm.
    probes : numpy.ndarray of shape (p, PROBES)
        The start of the power iteration.
    run : Run

    Attributes
    ----------
    diverged : bool
        Whether the objective of some column would have grown.
    stuck : bool
        Whether no column moves any more.
    least : array of shape (k,)
        The least Rayleigh quotient of AᵀA + ridge that the displacements of each column have met.
    """

    def __init__(
        self,
        solver: SVRG,
        A: LinearOperator,
        multiply: Callable[[Array], Array],
        ridges: HostArray,
        largest: float,
        probes: HostArray,
        run: Run,
    ) -> None:
        self.solver, self.A, self.multiply, self.run = solver, A, multiply, run
        self.home = A.home.blocks
        self.ridges, self.largest, self.probes = ridges, largest, probes
        self.rows = _rows_of_an_epoch(solver, A)
        self.passes = 1.0 + self.rows / A.shape[0]
        # Rows in blocks elsewhere come in runs.
        self.runs = RandomRows([A], run.rng) if A.access == "blocks" else None
        self.batch = 0
        self.own_steps = self.steps = ridges  # both known once rows have been read
        self.diverged = self.stuck = False
        self.least = self.home.place(np.full(len(ridges), np.inf))

    def snapshots(self, x: Array, w: Array, scale: Array) -> Iterator[tuple[Array, Array]]:
        """Snapshots with their negative gradients, beginning with the given one."""
        xp, ridges = self.home.xp, self.home.place(self.ridges)
        floor = scale * (ROUNDING * float(np.finfo(self.A.dtype).eps))
        past: list[tuple[Array, Array, Array]] = []
        while True:
            yield x, w
            live = _column_norms(w, self.home) > floor
            self.stuck = not bool(to_host(xp.any(live)))
            d = None if self.stuck else self._displacement(w * xp.astype(live, w.dtype)[None, :])
            if d is None:
                continue  # no budget is left, as the caller finds next
            near = _column_norms(d, self.home) <= self._reach() * _column_norms(w, self.home)
            d = xp.where(near[None, :], d, xp.zeros_like(d))
            Hd = self.multiply(d) + d * ridges[None, :]
            dw, dHd = xp.sum(d * w, axis=0), xp.sum(d * Hd, axis=0)
            grew = ~near | (dHd > 2 * dw)  # f(x + d) − f(x) = dᵀHd/2 − dᵀw
            self._adapt(to_host(grew), to_host(_quotient(dw, dHd, xp)))
            if self.solver.snapshot == "last":
                s = xp.astype(~grew, w.dtype)
            else:
                for q, Hq, qHq in past:
                    t = _quotient(xp.sum(q * Hd, axis=0), qHq, xp)
                    d, Hd = d - q * t[None, :], Hd - Hq * t[None, :]
                dw, before, dHd = xp.sum(d * w, axis=0), dHd, xp.sum(d * Hd, axis=0)
                # A displacement within the span of earlier ones leaves only rounding.
                dHd = xp.where(dHd > 1e-10 * before, dHd, xp.zeros_like(dHd))
                s = _quotient(dw, dHd, xp)
                past = [(d, Hd, dHd), *past][:MEMORY]
            met = xp.where(dHd > 0, _quotient(dHd, xp.sum(d * d, axis=0), xp), xp.full_like(dHd, np.inf))
            self.least = xp.where(met < self.least, met, self.least)
            x, w = x + d * s[None, :], w - Hd * s[None, :]

    def _displacement(self, w: Array) -> Array | None:
        """The displacement of the inner steps of an epoch from its snapshot; None if the budget ends before."""
        A, n = self.A, self.A.shape[0]
        e = w * 0.0
        with np.errstate(all="ignore"):  # a step that is too long is found out afterwards
            for chosen in self._draw():
                if not self.run.affords(1.0 + len(chosen) / n - SHARES):
                    return None
                rows = self._taken(chosen).loaded()
                if not self.batch:
                    self._learn(rows)
                e = self._walk(rows, e, w)
                A.release()
        return e

    def _reach(self) -> Array:
        """Largest displacement of an epoch, in units of the gradient: safe steps do not expand it, they add up."""
        return self.home.place(self.own_steps * (FARTHEST * max(1.0, self.rows / self.batch)))

    def _walk(self, rows: LinearOperator, e: Array, w: Array) -> Array:
        """Make inner steps through some rows, batch by batch."""
        h = self.home.place(self.steps)[None, :]
        drift, keep = w * h, None
        if self.ridges.any():
            keep = self.home.place(1.0 - self.steps * self.ridges)[None, :]
        for batch in equal_slices(rows.shape[0], self.batch):
            bent = curvature(rows.rows(batch), e, self.A.shape[0])
            e = (e if keep is None else e * keep) + drift - bent * h
        return e

    def _draw(self) -> Iterator[HostArray]:
        """The rows of an epoch in random order, in chunks; by their weights, or each once before any occurs twice."""
        left, size = self.rows, max(rows_at_once(self.A), self.solver.batch or 1)
        while left > 0 and self.runs is not None:
            chosen = self.runs.draw(min(size, left))
            left -= len(chosen)
            yield chosen
        while left > 0:
            order = random_order(self.A, self.run.rng)[:left]
            left -= len(order)
            for part in equal_slices(len(order), size):
                yield order[part]

    def _taken(self, chosen: HostArray) -> LinearOperator:
        """The rows that were drawn."""
        return self.A.drawn(chosen) if self.runs is None else self.runs.rows_of(self.A, chosen)

    def _learn(self, rows: LinearOperator) -> None:
        """Batch size and steps, from the largest row norm and some random rows."""
        A = self.A
        n = A.shape[0]
        curved = n / rows.shape[0] * largest_eigenvalue(rows, self.home.place(self.probes))
        self.batch = min(self.solver.batch or choose_batch(A, curved, self.largest), n)
        bound = smoothness(curved, self.largest, n, self.batch) + self.ridges
        self.own_steps = np.divide(
            STEPS[self.solver.snapshot], bound, out=np.zeros_like(bound), where=bound > 0
        )
        given = self.solver.step
        self.steps = self.own_steps if given is None else np.full_like(self.own_steps, given)

    def _adapt(self, grew: HostArray, lengths: HostArray) -> None:
        """Steps of the next epoch, from the best point of each column along its displacement.

        If this point comes before the end, variance limited the column; if it comes after the end, its steps were
        short. Given steps change only if the objective grew: they are then at most those of the data.
        """
        self.diverged = self.diverged or bool(grew.any())
        if self.solver.step is None and self.solver.snapshot == "best":
            self.steps = np.minimum(self.steps * np.clip(lengths, 0.5, 2.0), self.own_steps)
        elif grew.any():
            self.steps = np.where(grew, np.minimum(self.steps / 2, self.own_steps), self.steps)


def curvature(rows: LinearOperator, e: Array, n: int) -> Array:
    """(n/|S|) A_Sᵀ A_S e for the rows S of a matrix of n rows: an unbiased estimate of AᵀA e."""
    return rows.rmatmat(rows.matmat(e) * (n / rows.shape[0]))


def smoothness(curved: float, largest: float, n: int, batch: int) -> float:
    """L_b: the least multiple of AᵀA that is guaranteed to bound the mean square of its estimates from batches.

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
    return whole * curved + single * largest


def choose_batch(A: LinearOperator, curved: float, largest: float) -> int:
    """Rows of a batch: half of n R²/L, within the limits of fast products and of the least number of batches."""
    n = A.shape[0]
    entries, factor = max(A.nnz / n, 1.0), 1 if A.home.on_host else DEVICE_FACTOR
    fewest = max(FEWEST_ROWS, factor * FEWEST_ENTRIES / entries, A.shape[1] / entries)
    most = max(fewest, min(factor * MOST_ENTRIES / entries, rows_at_once(A)))
    wanted = n * largest / (2 * curved) if curved > 0 else fewest
    return int(max(1, min(max(wanted, fewest), most, n // FEWEST_STEPS)))


def largest_eigenvalue(rows: LinearOperator, V: Array) -> float:
    """λ_max(A_SᵀA_S) by the power method, from below."""
    home = rows.home.blocks
    xp = home.xp
    norms = _column_norms(V, home)
    for _ in range(POWERS):
        V = V * _quotient(xp.ones_like(norms), norms, xp)[None, :]
        V = rows.rmatmat(rows.matmat(V))
        norms = _column_norms(V, home)
    return float(to_host(xp.max(norms)))


def survey(A: LinearOperator, B: LinearOperator | None, probes: HostArray) -> tuple[float, Array]:
    """The largest squared row norm of A, and AᵀB, in one sweep."""
    if KeptRows.possible(A):
        matrices = {"A": A} if B is None else {"A": A, "B": B}
        return KeptRows(matrices, 1 if B is None else B.shape[1]).advance(Survey(probes))
    home = A.home.blocks
    Z = home.place(probes)
    total = home.zeros((A.shape[1], 0 if B is None else B.shape[1]))
    columns = None if B is None else B.home.blocks.eye(B.shape[1])
    largest = 0.0
    with np.errstate(all="ignore"):  # the caller checks for values that are not finite
        for part in equal_slices(A.shape[0], rows_at_once(A)):
            rows = A.rows(part).loaded()
            largest = np.maximum(largest, float(to_host(home.xp.max(row_squares(rows, Z)))))
            if B is not None:
                total = total + rows.rmatmat(B.rows(part).matmat(columns))
                B.release()
            A.release()
    return float(largest), total


@dataclass(frozen=True)
class Survey(Step[tuple[float, HostArray]]):
    """The same where the rows are: no long rows are left there.

    Parameters
    ----------
    probes : numpy.ndarray of shape (p, PROBES)
    """

    probes: HostArray

    def made(
        self, rows: Sequence[LinearOperator], before: HostArray | None
    ) -> tuple[HostArray, tuple[float, HostArray]]:
        A, *rest = rows
        A = A.loaded()
        cross = [A.rmatmat(B.matmat(np.eye(B.shape[1]))) for B in rest]
        largest = float(np.max(row_squares(A, self.probes)))
        return np.zeros((A.shape[0], 0)), (largest, cross[0] if cross else np.zeros((A.shape[1], 0)))

    def merge(self, left: tuple[float, HostArray], right: tuple[float, HostArray]) -> tuple[float, HostArray]:
        """Of the rows of both; a row that is not finite stays so."""
        return float(np.maximum(left[0], right[0])), left[1] + right[1]


def row_squares(rows: LinearOperator, Z: Array) -> Array:
    """Squared row norms. For data other than arrays and sparse matrices they are estimates; the largest is too large.

    Parameters
    ----------
    rows : LinearOperator of shape (m, p)
    Z : array of shape (p, PROBES)
        Independent entries of mean 0 and variance 1, for the estimates.
    """
    blocks = rows.home.blocks
    xp = blocks.xp
    bare, _ = uncounted(rows)
    if isinstance(bare, SparseOperator):
        entries = bare.matrix.astype(np.float64)
        return np.asarray(entries.multiply(entries).sum(axis=1)).reshape(-1)
    X = blocks.place(rows.dense() if isinstance(bare, DenseOperator) else rows.matmat(Z))
    scale = 1.0 if isinstance(bare, DenseOperator) else 1.0 / Z.shape[1]
    return xp.sum(X * X, axis=1) * scale


def _rows_of_an_epoch(solver: SVRG, A: LinearOperator) -> int:
    return max(1, round(EPOCHS[solver.snapshot] * A.shape[0]))


def _matrix(moments: Moments, run: Run) -> LinearOperator:
    """The matrix behind moments of one view, on the ledger of the run."""
    A = moments.matrix(0)
    return next((M for M in run.problem.matrices.values() if uncounted(M)[0] is uncounted(A)[0]), A)


def _column_norms(V: Array, home: Home) -> Array:
    return home.xp.sqrt(home.xp.sum(V * V, axis=0))


def _quotient(a: Array, b: Array, xp: Any) -> Array:
    """a/b, or 0 if b is not positive."""
    safe = b > 0
    return xp.where(safe, a / xp.where(safe, b, xp.ones_like(b)), xp.zeros_like(b))


def _worst(w: Array, scale: Array, home: Home) -> float:
    """The largest relative gradient of a column, without the columns with AᵀB = 0."""
    return float(to_host(home.xp.max(_quotient(_column_norms(w, home), scale, home.xp))))
