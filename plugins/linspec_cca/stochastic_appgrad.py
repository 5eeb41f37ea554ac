"""Stochastic AppGrad: CCA from minibatches of rows.

Problem: the leading canonical pairs of data with so many rows that they can be read only a few times.
Method: the steps of "appgrad" on the auxiliary blocks Φ̃, Ψ̃, with gradients and k x k metrics from only the rows I of a
minibatch. With Sx(I) = X_IᵀX_I n/|I| + rx I and C(I) = X_IᵀY_I n/|I|,

    (1)  Φ̃ ← Φ̃ − (η/n) (Sx(I)Φ̃ − C(I)Ψ),
    (2)  Φ = Φ̃ (Φ̃ᵀSx(I)Φ̃)^(-1/2),

and the same for Ψ. Both views read the same rows. ``normalizer_rows`` takes the metric of (2) from other rows J than
the gradient, as the authors' own program does (ten times k of them).
Source: Ma, Lu & Foster 2015, ICML, section 3; Lu 2015 (thesis), Algorithm 11.
Where we differ: (a) The source divides sums by |I|. So the ridge is nλ here, and all four blocks are the paper's over
√n. (b) Step lengths and the size of a batch come from the data (`FirstRows`), not by cross-validation; ``step``
is the form of the source, one number for all columns. (c) Algorithm 11 picks a new random subset of the rows at every
step, so a row may occur twice before others occur once. Here rows are read in a random order, each once before any
occurs twice (a weight multiplies its row), and batches are cut out of chunks. (d) Ψ takes the new Φ,
as in the authors' program, and not the old one, as printed. (e) The mean of the iterates with polynomial weights,

    (3)  Φ̄ ← Φ̄ + (Φ̃ − Φ̄) (1 + 8)/(t + 8),

is returned (Shamir & Zhang 2013, ICML 28; arXiv:1212.1824). It needs no horizon, so the run can end at any time. A
constant step then suffices. (f) Algorithm 11 takes every step. Here a step is rejected if the auxiliary block after it
is longer in the metric of its rows than the answer can be: the block stays unchanged, the minibatch is spent, and later
steps of this view are half as long. (g) A first pass over all rows learns means and the norms of residuals, and fits
Φ̃, Ψ̃ to the random Φ, Ψ as in "appgrad" (4).
The residual reported during the run is an estimate. At the answer the gradients SΦ̃ − CΨ are the negative residuals of
the pairs; so it is made from their means (3), and noise makes it too large. A separate pass computes the residual of
the answer.

Step lengths and the rows of a minibatch, from the first rows that are read.

Problem: AppGrad on minibatches needs a step and a batch, which its authors find by cross-validation. One step for all
columns does not suit word counts: they have columns with one entry and columns with tens of thousands, and the largest
column would limit the step.
Method: the sum of squares sⱼ of a column in a batch of b rows, times n/b, estimates Sⱼⱼ. Gradient descent on this
column alone, (1 − η s)² on average, decreases for η below 2 E[s]/E[s²]. So the metric is

    (1)  P = E[s²]/E[s] = diag(S) + (n/b) Σx⁴/Σx² − diag(S)/b, plus the ridge.

A row with an entry x in a rare column weighs (n/b) x² in its batch, which is the second term if all entries of the
column are equal. Nothing depends on the units of a column. The step in this metric is

    (2)  0.7/(λ + V) P⁻¹,   V = (n/b) E‖x̃‖⁴/E‖x̃‖²   for rows x̃ = P^(-1/2) x,

with λ from "appgrad" (3). V is the contribution of the variance of batches to the mean square of their estimates.
Batches are six times the intrinsic dimension Σdiag/λ of the views scaled to unit columns: with fewer rows, no direction
would stand out from others.
Source: Gower et al. 2019, doi:10.48550/arXiv.1901.09401, for V, with the largest row in place of the mean.
Where we differ: all but diag(S) is estimated from the first chunk of rows, and diag(S) is that of the chunk if larger.
Columns that hardly occur in it are taken for columns with one entry, but none longer than a usual row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

import linspec as ls
from linspec import Status, limit_option, option, part, tol_option
from linspec.arrays import Array, Device, HostArray, reciprocal, to_host, to_host_together
from linspec.certificates import Metric
from linspec.families.cca import first_blocks, multiplied
from linspec.iteration import Context, Iterate
from linspec.linalg import inverse_root, ratio
from linspec.rows import Minibatch, Moments, equal_slices, random_order, rows_at_once
from linspec.solving import Solver
from linspec_cca.appgrad import GROWTH, fitted, largest_eigenvalue

DIMENSIONS = 6
"""Rows of a batch in units of the intrinsic dimension. On word counts 2 left too much noise; more means fewer steps."""

FEWEST_STEPS, FEWEST_ROWS, ROWS_A_PAIR = 16, 32, 2.5
"""Least number of batches in all rows, which has priority over DIMENSIONS. Least number of rows of a batch: with fewer,
calling a product takes longer than computing it; and for each pair, for a k x k metric near the one of all rows."""

MOST_ENTRIES = 2**22
"""Largest number of entries in a batch."""

STEPS = {"columns": 0.7, "none": 1.3}
"""Step in units of 1/(λ + V), with steps for each column and without, chosen by measurement: below 2 the mean square
error of a quadratic decreases, and a shorter step leaves less noise."""

PIECES, MET = 64, 4.0
"""Pieces of a chunk from which the squares of columns in batches are estimated; and by how much they may be too small
in the chunk."""


def random_chunks(moments: Moments, rng: np.random.Generator, size: int) -> Iterator[list[Minibatch]]:
    """The counted rows of both views in random order, about `size` at a time, without end.

    Of files, runs of neighbours come together, and rows within a chunk in random order.
    """
    numbers = counted(moments)
    together = max(A.together for A in moments.operators)
    while True:
        order = random_order(numbers, rng, size, together)
        for S in equal_slices(len(order), size):
            yield [moments.minibatch(order[S], i) for i in (0, 1)]


def counted(moments: Moments) -> HostArray:
    """The numbers of the rows whose weight is not 0."""
    w = moments.pre.w
    return np.arange(moments.operators[0].shape[0]) if w is None else np.flatnonzero(w)


class FirstRows:
    """Estimates from the first chunk of rows.

    Parameters
    ----------
    chunk : list of Minibatch
    n : int
        The number of rows.
    ridges : pair of float
    SV : pair of array of shape (p, k)
        Where the power method begins.
    D : pair of array of shape (p, 1)
        diag(S) of both views, ridges included.
    """

    def __init__(
        self, chunk: list[Minibatch], n: int, ridges: Sequence[float], SV: Sequence[Array], D: Sequence[Array]
    ) -> None:
        self.chunk, self.n, self.ridges, self.SV = chunk, n, ridges, SV
        self.met = [rows.column_squares() * (n / rows.rows) for rows in chunk]
        views = zip(D, self.met, ridges, strict=True)
        self.D = [
            Device.of(d).xp.maximum(diagonal, d + r) for diagonal, d, r in views
        ]  # whose λ is near that of all rows

    def batch(self, k: int) -> int:
        """Rows of a batch: a multiple of the intrinsic dimension of the views scaled to unit columns."""
        fewest = wanted = max(ROWS_A_PAIR * k, FEWEST_ROWS)
        for i, (d, D) in enumerate(zip(self.met, self.D, strict=True)):
            largest = self._largest(i, D)
            trace = float(to_host(Device.of(D).xp.sum(d * reciprocal(D))))
            wanted = max(wanted, DIMENSIONS * trace / largest) if largest > 0 else wanted
        entries = max(rows.entries / rows.rows for rows in self.chunk)
        return int(max(fewest, min(wanted, MOST_ENTRIES / max(entries, 1.0), self.n / FEWEST_STEPS)))

    def steps(self, batch: int, scaling: str) -> list[Array]:
        """Steps of all columns of both views in batches of so many rows (2)."""
        steps = []
        for i, rows in enumerate(self.chunk):
            P = self._metric(i, batch) if scaling == "columns" else self.D[i] * 0.0 + 1.0
            squares = to_host(rows.row_squares(reciprocal(P)[:, 0]))
            variance = ratio(float(squares @ squares), float(squares.sum())) * self.n / batch
            steps.append(reciprocal(P) * ratio(STEPS[scaling], self._largest(i, P) + variance))
        return steps

    def _largest(self, i: int, D: Array) -> float:
        """λ of one view, as the chunk estimates it."""
        rows, r = self.chunk[i], self.ridges[i]
        weight = self.n / rows.rows
        return largest_eigenvalue(lambda V: rows.gram_product(V) * weight + V * r, self.SV[i], D)

    def _metric(self, i: int, batch: int) -> Array:
        """P (1)."""
        rows = self.chunk[i]
        D = self.D[i]
        xp = Device.of(self.D[i]).xp
        pieces = [(S, S.stop - S.start) for S in equal_slices(rows.rows, max(1, rows.rows // PIECES))]
        s = [rows.column_squares(S) * (self.n / r) for S, r in pieces]
        mean = sum(s) / len(s)
        r = rows.rows / len(s)
        d = D - self.ridges[i]
        excess = sum(squares * squares for squares in s) / len(s) * reciprocal(mean) - mean
        longest = xp.minimum(d, d * 0.0 + xp.sum(d) / self.n)
        return D + xp.where(mean > d / MET, excess * (r / batch), longest * (self.n / batch))


POWER = 8
"""Iterate t has weight about t^POWER in the mean: the last ninth has two thirds of the weight."""

APART = 1.2
"""The residual is estimated anew where the number of steps has grown by this factor."""

TEXT = "Stochastic gradients give an approximate answer."

GREW = "The blocks grew with this step=: smaller steps were taken. Leave the option out."

READ = "Its steps have ended. Raise epochs, or choose a solver that makes passes over all rows."


class Side:
    """The blocks of one view.

    Attributes
    ----------
    tilde, mean, drift : array of shape (p, k)
        Φ̃, its mean (3), and that of its gradients.
    root, size : array of shape (k, k), float
        Φ = Φ̃ root, and the trace of root⁻¹.
    step, safe : array of shape (p, 1)
        η/n of each column; and that from the data, which a step that is shortened does not exceed.
    """

    step: Array
    safe: Array

    def __init__(self, tilde: Array, SV: Array, drift: Array, ridge: float) -> None:
        self.tilde = tilde
        self.mean = tilde
        self.drift = drift
        self.ridge = ridge
        self.normalize(to_host(tilde.T @ SV))

    def normalize(self, G: HostArray) -> None:
        """(2), with G = Φ̃ᵀSΦ̃."""
        root, self.size = inverse_root(G)
        self.root = Device.of(self.tilde).asarray(root)

    def moves(self, V: Array, image: Array, before: Array, n: int) -> bool:
        """Take Φ̃ after a step with its image, unless it has grown above that `before`; whether it is taken."""
        G = (image.T @ image) * (n / image.shape[0]) + (V.T @ V) * self.ridge
        G, squares = to_host_together(G, Device.of(V).xp.sum(before * before))
        if not 0 < float(np.trace(G)) <= max(GROWTH * len(G), float(squares) * n / before.shape[0]):
            self.step = Device.of(V).xp.minimum(self.step / 2, self.safe)
            return False
        self.tilde = V
        self.normalize(G)
        return True


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

    def iterate(self, problem: ls.CCA, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the mean of the blocks after each step."""
        context.note(Status.APPROXIMATE, TEXT)
        k, n, rng = problem.k, len(counted(moments)), context.rng
        W = first_blocks(moments, context, start, k, self.test_matrix, fresh=0)
        first, metrics = multiplied(problem, moments, W)
        normal = first.canonical()
        tilde = fitted(normal)
        sides = [Side(tilde.W[i], tilde.SW[i], -normal.gap(i), r) for i, r in enumerate(problem.ridge)]
        t, read = (0, 0) if start is None else map(int, start["steps"])
        residual, due = normal.residual(metrics, k), float(t)
        yield Iterate(residual, partial(_arrays, [side.mean for side in sides], t, read))
        few = min(n // FEWEST_STEPS, *map(rows_at_once, moments.operators))  # so that a budget is met closely
        size = int(min(n, max(few, 2 * FEWEST_ROWS, ROWS_A_PAIR * k)))
        chunks = random_chunks(moments, rng, max(size, self.batch or 1))
        normalizers = random_chunks(moments, rng, min(self.normalizer_rows or 1, n))
        begin = next(chunks)
        known = FirstRows(begin, n, problem.ridge, first.SW, [D for D, _ in first.noise])
        batch = min(n, self.batch or known.batch(k))
        for side, step in zip(sides, known.steps(batch, self.scaling), strict=True):
            side.step = side.safe = step
            if self.step is not None:
                side.step = step * 0.0 + self.step / moments.fitted[0].total
        for rows in chain([begin], chunks):
            read += rows[0].rows
            for I in equal_slices(rows[0].rows, batch):
                t += 1
                share = (1 + POWER) / (t + POWER)
                J = next(normalizers) if self.normalizer_rows else None
                images = [A.images(side.tilde, I) for A, side in zip(rows, sides, strict=True)]
                for i, side in enumerate(sides):  # Ψ takes the new Φ
                    gap = images[i] - images[1 - i] @ sides[1 - i].root  # X_I Φ̃ − Y_I Ψ
                    gradient = rows[i].adjoint_images(gap, I) * (n / gap.shape[0])
                    gradient = gradient + side.tilde * side.ridge  # Sx(I)Φ̃ − C(I)Ψ
                    V = side.tilde - gradient * side.step  # (1)
                    image = rows[i].images(V, I) if J is None else J[i].images(V)
                    if side.moves(V, image, images[i], n):
                        images[i] = image if J is None else rows[i].images(V, I)
                        side.drift = side.drift + (gradient - side.drift) * share
                    elif self.step is not None:
                        context.note(Status.BREAKDOWN, GREW)
                    side.mean = side.mean + (side.tilde - side.mean) * (share if self.averaging else 1)  # (3)
                if t >= due:
                    residual, due = _residual(sides, metrics), APART * t
                last = residual <= context.tol or (read >= self.epochs * n and I.stop == rows[0].rows)
                if last:
                    context.note(None, READ)
                yield Iterate(residual, partial(_arrays, [side.mean for side in sides], t, read), final=last)


def _residual(sides: Sequence[Side], metrics: Sequence[Metric]) -> float:
    """The residual, from the mean gradients."""
    views = zip(sides, metrics, strict=True)
    lengths = [metric.up * Device.of(side.drift).norm(metric.dual(side.drift)) for side, metric in views]
    return ratio(2 * lengths[0] ** 2 + 2 * lengths[1] ** 2, sum(side.size for side in sides))


def _arrays(means: Sequence[Array], t: int, read: int) -> dict[str, Any]:
    """The means of the blocks, and the numbers of steps and of rows that were read."""
    return {"x_weights": means[0], "y_weights": means[1], "steps": np.array([float(t), float(read)])}
