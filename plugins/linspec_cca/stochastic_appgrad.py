"""Stochastic AppGrad: CCA from minibatches of rows.

Problem: the leading canonical pairs of data with so many rows that they can be read only a few times.
Method: Ma, Lu & Foster (2015, ICML), section 3 (Lu 2015, Algorithm 11): the steps of "appgrad" on the auxiliary blocks
Φ̃, Ψ̃, with gradients and k x k metrics from only the rows I of a minibatch,

    Φ̃ ← Φ̃ − η [X_Iᵀ(X_I Φ̃ − Y_I Ψ)/|I| + λΦ̃],   Φ = Φ̃ (Φ̃ᵀ(X_IᵀX_I/|I| + λI)Φ̃)^(-1/2),

and the same for Ψ. Both views read the same rows. ``normalizer_rows`` takes the metric from other rows than the
gradient, as the authors' own program does (ten times k of them).
Steps: gradients are preconditioned with P = diag(S) + ridge + τ, where τ = (n/b) Σx⁴/Σx² for each column, for batches
of b rows. Word counts have columns with one entry and columns with tens of thousands, and the largest column would
limit a common step. A row with an entry x in a rare column weighs (n/b) x² in its batch. This is the value of τ for a
column of equal entries, so τ prevents overshooting by such a row. Nothing depends on the units of a column. The step
in this metric is 1.3/(L + V). L is the largest eigenvalue of P^(-1/2) S P^(-1/2). V = (n/b) E‖x̃‖⁴/E‖x̃‖² is the
contribution of the variance of batches to the mean square of their estimates (Gower et al. 2019,
doi:10.48550/arXiv.1901.09401, with the mean over rows instead of the largest). For columns that do not occur in the
first rows, and for rows whose entries cannot be read, τ is Σ diag(S)/b.
Batches are six times the intrinsic dimension Σdiag/L of the views scaled to unit columns: with fewer rows, no direction
would stand out from others. All of these values are estimated from the first chunk of rows.
Where we differ: (a) The step above replaces one found by cross-validation; ``step`` is the form of the source, one
number for all columns. (b) Algorithm 11 picks a new random subset of the rows at every step, so a row may occur twice
before others occur once. Here rows are shuffled and read to the end, each once before any occurs twice, and the last
batch of a reading has the remaining rows. (c) Ψ takes the new Φ, as in the authors' program, and
not the old one, as printed. (d) The mean of the iterates with polynomial weights is
returned (Shamir & Zhang 2013, ICML 28; arXiv:1212.1824). It needs no horizon, so the run can end at any time. A
constant step then suffices. (e) Algorithm 11 takes every step. Here
a step is rejected if the auxiliary block after it is longer in the metric of its rows than the answer can be: the block
stays unchanged, the minibatch is spent, and later steps of this view are half as long.
The residual reported during the run is an estimate, in the units of the law, from the mean gradient since the last
report: noise makes it too large. A separate sweep judges the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec import (
    LinearOperator,
    Moments,
    Run,
    Solution,
    Solver,
    Status,
    limit_option,
    option,
    part,
    tol_option,
)
from linspec.algebra import EPS, SketchNorm, preconditioner_from_sketch
from linspec.arrays import Array, Home, HostArray, reciprocal, to_host, to_host_together
from linspec.families.cca import SKETCH, random_signs
from linspec.operators import CenteredOperator, DenseOperator, SparseOperator, uncounted
from linspec.sweeps import FEWEST_ROWS, RandomRows, rows_at_once

DIMENSIONS = 6
"""Rows of a batch in units of the intrinsic dimension, measured on words: 2 leaves noise, more costs steps."""

FEWEST_STEPS = 16
"""The least number of batches in all rows. It has priority over the number of rows above."""

ROWS_A_PAIR = 2.5
"""The least rows of a batch for each pair, so that its k x k metric is near that of all rows."""

MOST_ENTRIES = 2**22
"""The largest number of entries of a batch."""

STEP = 1.3
"""The step in units of 1/(L + V), measured; below 2 the mean square of a quadratic falls."""

GROWTH = 4.0
"""A step is rejected above this mean square of the auxiliary variables, which is at most 1 at the answer."""

POWER = 8
"""Iterate t has weight about t^POWER in the mean: the last ninth has two thirds of the weight."""

PROBES, POWERS = 8, 8
"""Columns and steps of the power iteration on a chunk."""

LONGEST_WINDOW = 1024
"""The largest number of steps over which gradients are averaged for the estimate of the residual."""


@dataclass(frozen=True, kw_only=True)
class StochasticAppGrad(Solver):
    """AppGrad on minibatches (Ma, Lu & Foster 2015, section 3; Lu 2015, Algorithm 11)."""

    batch: int | None = option(None, "rows of a minibatch; none: from the data", kind=int, at_least=1)
    normalizer_rows: int | None = option(
        None,
        "rows that normalise, drawn anew at each step; none: those of the gradient",
        kind=int,
        at_least=1,
    )
    step: float | None = option(
        None, "step for XᵀX/n, the same for all columns; none: from the data, one for each", above=0
    )
    scaling: str = option(
        "columns", "whether steps from the data differ by column", choices=("columns", "none")
    )
    averaging: bool = option(True, "return the weighted mean of the iterates; false: the last one")
    test_matrix: Any = part("gaussian", "random start", kind="test-matrix")
    epochs: float = option(8.0, "times that all rows are read, at most", above=0)
    tol: float | None = tol_option()
    max_iterations: int = limit_option(10_000_000, "steps")

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a CCA problem."""
        n = problem.X.shape[0]
        moments = run.moments("implicit")
        read_first = _chunk(problem) + min(self.normalizer_rows or 0, n)
        run.plan(setup=run.settling + read_first / n)
        rows = _Rows(problem, moments, run)
        steps = _Steps(self, problem, rows, run)
        iteration = _Iteration(self, problem, run, rows, steps)
        while run.proceed(residual=iteration.residual, current=iteration.weights):
            iteration.step()
            if rows.exhausted(self.epochs, steps.batch):
                run.end(Status.APPROXIMATE)
            elif not iteration.affordable:
                run.end(Status.BUDGET)
        if steps.shortened and self.step is not None:
            text = f"The blocks grew with step={self.step:g}: smaller steps were taken. Leave the option out."
            run.note(Status.BREAKDOWN, text)
        more = " Raise epochs, or choose a solver that sweeps all rows."
        text = f"Stochastic gradients give an approximate answer; steps have read the rows {rows.read / n:.3g} times."
        run.note(Status.APPROXIMATE, text + more * rows.exhausted(self.epochs, steps.batch))
        return run.finish(**iteration.weights())


def _chunk(problem: Any) -> int:
    """The number of rows that are read together: a small part of all, so that a budget of passes is met closely."""
    n = int(problem.X.shape[0])
    few = min(rows_at_once(A) for A in (problem.X, problem.Y))
    return min(n, max(min(few, n // FEWEST_STEPS), 2 * FEWEST_ROWS, int(ROWS_A_PAIR * problem.k)))


class _Rows:
    """Random rows of both views, the same of each; batches are cut out of chunks.

    Attributes
    ----------
    n, read : int
        Rows of the data, and rows that have been read for gradients.
    views : list of LinearOperator
    chunk : list of LinearOperator
        The current rows; at the beginning the first ones.
    """

    def __init__(self, problem: Any, moments: Moments, run: Run) -> None:
        self.views: list[LinearOperator] = [problem.X, problem.Y]
        self.n = int(problem.X.shape[0])
        self.read, self._next = 0, 0
        self._size = _chunk(problem)
        self._order = RandomRows(self.views, run.rng)
        self.chunk: list[LinearOperator] = []
        self._load(self._size)

    def exhausted(self, epochs: float, count: int) -> bool:
        """Whether all rows have been read the given number of times."""
        return self.read >= epochs * self.n and not self._waiting(count)

    def due(self, count: int) -> int:
        """The number of rows to read for the next batch: none if the current chunk has them."""
        return 0 if self._waiting(count) else min(max(self._size, count), self.n)

    def batch(self, count: int) -> list[LinearOperator]:
        """The next rows of both views, about as many as asked for; no row is left over."""
        if not self._waiting(count):
            self._load(self.due(count))
        left = self._left
        chosen = slice(self._next, self._next + (left if 2 * left < 3 * count else count))
        self._next = chosen.stop
        return [rows.rows(chosen) for rows in self.chunk]

    def others(self, order: RandomRows, count: int) -> list[LinearOperator]:
        """Rows in a separate order."""
        return self._loaded(order, order.draw(count))

    @property
    def _left(self) -> int:
        return self.chunk[0].shape[0] - self._next

    def _waiting(self, count: int) -> bool:
        return 2 * self._left >= min(count, self.n)

    def _load(self, size: int) -> None:
        chosen = self._order.draw(size)
        if 2 * len(chosen) < min(size, self._size):  # the last rows: too few for a chunk
            chosen = self._order.draw(size)
        self.chunk, self._next = self._loaded(self._order, chosen), 0
        self.read += len(chosen)

    def _loaded(self, order: RandomRows, chosen: HostArray) -> list[LinearOperator]:
        found = [order.rows_of(A, chosen).loaded() for A in self.views]
        for A in self.views:
            A.release()
        return found


class _Steps:
    """Batch size and steps of both views, from the first chunk of rows.

    Attributes
    ----------
    batch : int
    diagonals : list of array
        Estimates of diag(S) + ridge.
    shortened : bool
        Whether a step was shortened.
    """

    def __init__(self, solver: StochasticAppGrad, problem: Any, rows: _Rows, run: Run) -> None:
        self.home: Home = problem.X.home.blocks
        self.shortened = False
        share = rows.n / rows.chunk[0].shape[0]
        with np.errstate(all="ignore"):  # values that are not finite are found below
            local = Moments(rows.chunk[0], rows.chunk[1], form="implicit")
            raw = [d * share for d in local.diagonal() if d is not None]
            self.diagonals = [d + r for d, r in zip(raw, problem.ridge, strict=True)]
            if not all(np.isfinite(to_host(d)).all() for d in raw):
                explain_non_finite(problem, run)
            self.norms = self._norms(problem, local, raw, share)
            spectra = [_Spectrum(A, share, run.rng) for A in rows.chunk]
            self.batch = min(rows.n, solver.batch or self._choose(problem.k, rows, spectra, raw))
            self._own = [
                self._from_the_data(
                    spectrum, d, ridge, rows.n / self.batch, scaled=solver.scaling == "columns"
                )
                for spectrum, d, ridge in zip(spectra, raw, problem.ridge, strict=True)
            ]
        if not all(np.isfinite(to_host(own)).all() for own in self._own):
            explain_non_finite(problem, run)
        self._now = self._own
        if solver.step is not None:
            self._now = [own * 0.0 + solver.step / rows.n for own in self._own]

    def _norms(self, problem: Any, local: Moments, raw: list[Array], share: float) -> list[SketchNorm]:
        """The diagonals that replace the inverses of the Gram matrices in estimates of residuals."""
        Z = [self.home.place(random_signs(d.shape[0], problem.k + SKETCH, i)) for i, d in enumerate(raw)]
        SZx, _, _, SZy = local.products(*Z)
        made = zip(Z, (SZx, SZy), raw, problem.ridge, strict=True)
        return [
            SketchNorm(preconditioner_from_sketch(V, SV * share + V * r, r, d, None, self.home), r, self.home)
            for V, SV, d, r in made
        ]

    def at(self, view: int) -> Array:
        """Steps for the gradient of half the sum of squares, one for each row of the block."""
        return self._now[view][:, None]

    def shorten(self, view: int) -> None:
        """Halve the steps; a given step becomes at most that of the data."""
        self.shortened = True
        self._now[view] = self.home.xp.minimum(self._now[view] / 2, self._own[view])

    def _choose(self, k: int, rows: _Rows, spectra: list[_Spectrum], raw: list[Array]) -> int:
        """Rows of a batch: a multiple of the intrinsic dimension of the views scaled to unit columns."""
        fewest = max(ROWS_A_PAIR * k, FEWEST_ROWS)
        wanted = fewest
        for own, d, spectrum in zip(raw, self.diagonals, spectra, strict=True):
            scale = reciprocal(d)
            trace = float(to_host(self.home.xp.sum(own * scale)))
            largest = spectrum.largest(scale)
            if largest > 0 and np.isfinite(trace / largest):
                wanted = max(wanted, DIMENSIONS * trace / largest)
        entries = max(A.nnz / A.shape[0] for A in rows.chunk)
        return int(max(fewest, min(wanted, MOST_ENTRIES / max(entries, 1.0), rows.n / FEWEST_STEPS)))

    def _from_the_data(
        self, spectrum: _Spectrum, d: Array, ridge: float, weight: float, *, scaled: bool
    ) -> Array:
        xp = self.home.xp
        scale = xp.ones_like(d)
        if scaled:
            entries = typical_squares(spectrum.rows)
            tau = xp.sum(d) / self.batch + xp.zeros_like(d)
            if entries is not None:  # a column that is zero in these rows may not be in later rows
                tau = xp.where(entries > 0, entries * weight, tau)
            scale = reciprocal(d + ridge + tau)
        bound = spectrum.largest(scale) + spectrum.variance(scale, weight)
        bound += ridge * float(to_host(xp.max(scale)))
        return scale * (STEP if bound == 0 else STEP / bound)


class _Spectrum:
    """Estimates of the eigenvalues of a view from some of its rows."""

    def __init__(self, rows: LinearOperator, share: float, rng: np.random.Generator) -> None:
        self.rows, self.share, self.home = rows, share, rows.home.blocks
        self.probes = self.home.place(rng.standard_normal((rows.shape[1], PROBES)))

    def largest(self, scale: Array) -> float:
        """λ_max(D^(1/2) S D^(1/2)) for D = diag(scale), by the power method."""
        xp = self.home.xp
        half = xp.sqrt(scale)[:, None]
        V = half * self.probes
        for _ in range(POWERS):
            V = V * reciprocal(xp.sqrt(xp.sum(V * V, axis=0)))[None, :]
            V = half * self.rows.rmatmat(self.rows.matmat(half * V)) * self.share
        return float(to_host(xp.max(xp.sqrt(xp.sum(V * V, axis=0)))))

    def variance(self, scale: Array, weight: float) -> float:
        """(n/b) E‖x̃‖⁴/E‖x̃‖² for the rows x̃ = D^(1/2) x, whose lengths are estimated by the probes."""
        P = self.home.place(self.rows.matmat(self.home.xp.sqrt(scale)[:, None] * self.probes))
        squares = to_host(self.home.xp.mean(P * P, axis=1))
        total = float(squares.sum())
        return 0.0 if total == 0 else weight * float((squares**2).sum()) / total


class _Iteration:
    """The blocks, the steps on them, and the estimate of their residual.

    Metrics and gradients are those of sums over all rows. From b rows they are estimated as n/b times their sums.

    Attributes
    ----------
    residual : float
        The estimate.
    """

    def __init__(self, solver: StochasticAppGrad, problem: Any, run: Run, rows: _Rows, steps: _Steps) -> None:
        self.solver, self.problem, self.run, self.rows, self.steps = solver, problem, run, rows, steps
        self.home, self.k = steps.home, problem.k
        matrix = run.part(solver.test_matrix)
        draws = [matrix.draw(A.shape[1], self.k, run.rng) for A in (problem.X, problem.Y)]
        self.mean = [self.home.place(V) for V in draws]
        self.tilde = [V * 0.0 for V in self.mean]
        # Φ and Ψ as a block and the small matrix that normalises it: None until rows have been read.
        self.normal: list[tuple[Array, HostArray | None]] = [(V, None) for V in self.mean]
        self.order = RandomRows(rows.views, run.rng)
        self.aside = min(solver.normalizer_rows or 0, rows.n)
        self.taken, self.residual = 0, 1.0
        self.window = _Window(steps)
        self._products: list[tuple[LinearOperator, Array, Array]] = []

    @property
    def affordable(self) -> bool:
        """Whether the budget allows another step."""
        return self.run.affords((self.rows.due(self.steps.batch) + self.aside) / self.rows.n)

    def weights(self) -> dict[str, Array]:
        """The current iterate, in the form that the law of CCA takes."""
        return {"x_weights": self.mean[0], "y_weights": self.mean[1]}

    def step(self) -> None:
        """One step on both blocks."""
        batch = self.rows.batch(self.steps.batch)
        norms = self.rows.others(self.order, self.aside) if self.aside else batch
        with np.errstate(all="ignore"):  # a step that is too long is found below
            for view, (V, T) in enumerate(self.normal):
                if T is None:
                    self.normal[view] = (V, self._rooted(to_host(self._metric(view, V, norms)))[0])
            self._move(0, batch, norms, self._image(1, batch))
            self._move(1, batch, norms, self._image(0, batch))
        self._products.clear()
        self.taken += 1
        share = (1 + POWER) / (self.taken + POWER) if self.solver.averaging else 1.0
        pairs = zip(self.mean, self.tilde, strict=True)
        self.mean = list(self.tilde) if share >= 1 else [m + (V - m) * share for m, V in pairs]
        self.residual = self.window.closed(self.residual)

    def _move(
        self, view: int, batch: list[LinearOperator], norms: list[LinearOperator], target: Array
    ) -> None:
        """A gradient step of one view towards the image of the other, and its metric after it."""
        A, V, r = batch[view], self.tilde[view], self.problem.ridge[view]
        weight = self.rows.n / A.shape[0]
        image = self._product(A, V)
        gradient = A.rmatmat((image - target) * weight)
        gradient = gradient + V * r if r else gradient
        new = V - gradient * self.steps.at(view)
        G, before = to_host_together(self._metric(view, new, norms), self.home.xp.sum(image * image))
        if not float(np.trace(G)) <= max(GROWTH * self.k, float(before) * weight):
            if not np.isfinite(to_host(self.home.xp.sum(gradient))):
                explain_non_finite(self.problem, self.run)
            self.steps.shorten(view)
            return
        T, size = self._rooted(G)
        if size > 0:
            self.tilde[view], self.normal[view] = new, (new, T)
            self.window.add(view, gradient, size)

    def _metric(self, view: int, V: Array, rows: list[LinearOperator]) -> Array:
        """VᵀSV, from some rows."""
        P, r = self._product(rows[view], V), self.problem.ridge[view]
        G = (P.T @ P) * (self.rows.n / rows[view].shape[0])
        return G + (V.T @ V) * r if r else G

    def _image(self, view: int, rows: list[LinearOperator]) -> Array:
        """X_I Φ, or Y_I Ψ."""
        V, T = self.normal[view]
        return self._product(rows[view], V) @ self.home.place(T)

    def _product(self, rows: LinearOperator, V: Array) -> Array:
        """Rows times a block, computed once."""
        for A, B, P in self._products:
            if A is rows and B is V:
                return P
        P = self.home.place(rows.matmat(V))
        self._products.append((rows, V, P))
        return P

    def _rooted(self, G: HostArray) -> tuple[HostArray, float]:
        if not np.isfinite(G).all():
            explain_non_finite(self.problem, self.run)
        return inverse_root(G)


class _Window:
    """The mean gradient over some steps, and the residual by the law that follows from it.

    At the answer Φ̃ = Φ diag(ρ) up to a rotation, so the gradients of both blocks are the ϱ of the law up to a rotation.
    """

    def __init__(self, steps: _Steps) -> None:
        self.norms, self.length = steps.norms, 1
        self._empty()

    def _empty(self) -> None:
        self.sums: list[Any] = [0.0, 0.0]
        self.counts, self.sizes = [0, 0], [0.0, 0.0]

    def add(self, view: int, gradient: Array, size: float) -> None:
        """Add the gradient of one step, and the sum of the lengths of the block's principal columns."""
        self.sums[view] = self.sums[view] + gradient
        self.counts[view] += 1
        self.sizes[view] = size

    def closed(self, before: float) -> float:
        """A new estimate after twice as many steps as for the last one; before that, the last estimate."""
        steps = min(self.counts)
        if steps < self.length:
            return before
        pairs = zip(self.sums, self.norms, self.counts, strict=True)
        total = sum(float(norm.squares(g).sum()) / count**2 for g, norm, count in pairs)
        found = 2 * total / sum(self.sizes)
        self.length = min(2 * self.length, LONGEST_WINDOW)
        self._empty()
        return found if np.isfinite(found) else before


def typical_squares(rows: LinearOperator) -> Array | None:
    """Σx⁴/Σx² column by column: the square of a typical entry that is not zero.

    Parameters
    ----------
    rows : LinearOperator
        Few enough to read their entries.

    Returns
    -------
    array of shape (p,) or None
        None if the entries cannot be read at the cost of the rows. Sparse entries are taken about zero.
    """
    bare, _ = uncounted(rows)
    source = bare.parts[0] if isinstance(bare, CenteredOperator) else bare
    if isinstance(source, SparseOperator):
        squares = source.matrix.astype(np.float64).power(2)
        sums = [np.asarray(A.sum(axis=0)).reshape(-1) for A in (squares.power(2), squares)]
    elif isinstance(source, DenseOperator):
        xp, entries = rows.home.blocks.xp, rows.home.blocks.place(rows.dense())
        squares = entries * entries
        sums = [xp.sum(squares * squares, axis=0), xp.sum(squares, axis=0)]
    else:
        return None
    return sums[0] * reciprocal(sums[1])


def explain_non_finite(problem: Any, run: Run) -> None:
    """Sweep the data with a harmless block: if the data are not finite, this raises NonFiniteData."""
    moments = run.moments("implicit")
    moments.products(*(moments.home.zeros((A.shape[1], 1)) for A in (problem.X, problem.Y)))


def inverse_root(G: HostArray) -> tuple[HostArray, float]:
    """The symmetric inverse square root of a positive semidefinite matrix on its numerical range.

    Parameters
    ----------
    G : numpy.ndarray of shape (k, k)

    Returns
    -------
    numpy.ndarray of shape (k, k), float
        G^(-1/2), and the sum of the roots of the eigenvalues.
    """
    values, vectors = np.linalg.eigh((G + G.T) / 2)
    keep = values > len(G) * EPS * max(float(values[-1]), 0.0)
    roots = np.sqrt(values[keep])
    return (vectors[:, keep] / roots) @ vectors[:, keep].T, float(roots.sum())
