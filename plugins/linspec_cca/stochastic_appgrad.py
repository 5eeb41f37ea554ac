"""Stochastic AppGrad: CCA from minibatches of rows.

Problem: the leading canonical pairs of data with so many rows that they can be read only a few times.
Method: the steps of "appgrad" on the auxiliary blocks Φ̃, Ψ̃, with gradients and k x k metrics from only the rows I of a
minibatch,

    (1)  Φ̃ ← Φ̃ − η [X_Iᵀ(X_I Φ̃ − Y_I Ψ)/|I| + λΦ̃],
    (2)  Φ = Φ̃ (Φ̃ᵀ(X_IᵀX_I/|I| + λI)Φ̃)^(-1/2),

and the same for Ψ. Both views read the same rows. ``normalizer_rows`` takes the metric of (2) from other rows J than
the gradient, as the authors' own program does (ten times k of them).
Source: Ma, Lu & Foster 2015, ICML, section 3; Lu 2015 (thesis), Algorithm 11.
Where we differ: (a) Sums over |I| rows are multiplied by n/|I| and not by 1/|I|. So the ridge is nλ, the step is η/n,
and all four blocks, Φ̃ and Ψ̃ as well as Φ and Ψ, are the paper's over √n. (b) Step lengths and the size of a batch
come from the data (`minibatch_steps`), not by cross-validation; ``step`` is the form of the source, one number for all
columns. (c) Algorithm 11 picks a new random subset of the rows at every step, so a row may occur twice before others
occur once. Here rows are read in a random order, none twice before a reading ends (rows with weights: as often as these
require), and batches are cut out of chunks (`linspec.sweeps.Minibatches`). A reading may leave out its last rows, fewer
than half a chunk; the next one has another order. Rows of files are drawn in runs of neighbours, and shuffled within a
chunk. A batch has from half to one and a half times the rows that it should have, so that no short rest of a chunk
remains. (d) Ψ takes the new Φ, as in the authors' program, and not the old one, as printed. (e) The mean of the
iterates with polynomial weights,

    (3)  Φ̄ ← Φ̄ + (Φ̃ − Φ̄) (1 + 8)/(t + 8),

is returned (Shamir & Zhang 2013, ICML 28; arXiv:1212.1824). It needs no horizon, so the run can end at any time. A
constant step then suffices. (f) Algorithm 11 takes every step. Here a step is rejected if the auxiliary block after it
is longer in the metric of its rows than the answer can be: the block stays unchanged, the minibatch is spent, and later
steps of this view are half as long.
The residual reported during the run is an estimate, in the certificate's units, from the mean gradient since the last
report: noise makes it too large. A separate sweep computes the residual of the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from linspec import Iterate, IterativeSolver, Run, Status, limit_option, option, part, tol_option
from linspec.algebra import Preconditioner, SketchNorm, inverse_root
from linspec.arrays import Array, HostArray, to_host, to_host_together
from linspec.sweeps import Minibatches
from linspec_cca.minibatch_steps import FirstRows, explain_non_finite, rows_of_a_chunk

GROWTH = 4.0
"""Mean square of the auxiliary variables above which a step is rejected; it is at most 1 at the answer."""

POWER = 8
"""Iterate t has weight about t^POWER in the mean: the last ninth has two thirds of the weight."""

LONGEST_WINDOW = 1024
"""Largest number of steps over which gradients are averaged for the estimate of the residual."""


@dataclass(frozen=True, eq=False)
class Side:
    """Blocks of one view.

    Attributes
    ----------
    tilde : array of shape (p, k)
        Φ̃: zero at the beginning.
    start : array of shape (p, k) or None
        A random block, which replaces Φ̃ in (2) while Φ̃ is zero.
    root : numpy.ndarray of shape (k, k) or None
        Φ = Φ̃ root. None: no rows have normalised it yet.
    step : array of shape (p,)
        η/n of each column.
    safe : array of shape (p,)
        Step from the data: a given step becomes at most this when it is shortened.
    """

    tilde: Array
    start: Array | None
    root: HostArray | None
    step: Array
    safe: Array

    @property
    def block(self) -> Array:
        """V with Φ = V root: Φ̃, or the random block while Φ̃ is zero."""
        return self.tilde if self.start is None else self.start


@dataclass(frozen=True, eq=False)
class MeanGradient:
    """Mean gradient over some steps, and the estimate of the residual that follows from it.

    At the answer Φ̃ = Φ diag(ρ) up to a rotation. Up to the same rotation, the gradients SΦ̃ − CΨ of both blocks are
    the negative residuals of the pairs.

    Attributes
    ----------
    norms : sequence of SketchNorm
        Norm of the gradient, for each view.
    residual : float
        Last estimate.
    length : int
        Number of steps for the next estimate.
    sums : pair of tuples
        For each view the sum of the gradients, their number, and the trace of (Φ̃ᵀSΦ̃)^(1/2) at the last step.
    """

    norms: Sequence[SketchNorm]
    residual: float = 1.0
    length: int = 1
    sums: Sequence[tuple[Any, int, float]] = ((0.0, 0, 0.0), (0.0, 0, 0.0))

    def after(self, moves: Sequence[tuple[Array, float] | None]) -> MeanGradient:
        """Return the means after another step.

        `moves` has, for each view, the gradient of the step and the trace of (Φ̃ᵀSΦ̃)^(1/2) after the step. It has None
        if the step was rejected, so that the block did not change; then the sums of this view do not change. When the
        blocks of both views have changed `length` times, the sums give a new estimate of the residual and begin again.
        The next estimate takes twice as many steps, up to `LONGEST_WINDOW`.
        """
        sums = tuple(
            before if move is None else (before[0] + move[0], before[1] + 1, move[1])
            for before, move in zip(self.sums, moves, strict=True)
        )
        if min(count for _, count, _ in sums) < self.length:
            return MeanGradient(self.norms, self.residual, self.length, sums)
        pairs = zip(self.norms, sums, strict=True)
        total = sum(float(norm.squares(g).sum()) / count**2 for norm, (g, count, _) in pairs)
        found = 2 * total / sum(size for _, _, size in sums)
        residual = found if np.isfinite(found) else self.residual
        return MeanGradient(self.norms, residual, min(2 * self.length, LONGEST_WINDOW))


@dataclass(kw_only=True, eq=False)
class Averaged(Iterate):
    """Weighted means of the blocks after a step, with the state that the next step needs.

    Attributes
    ----------
    means : pair of arrays
        The means (3) for both views.
    sides : pair of Side
    gradients : MeanGradient
    batch : int
        Rows of a minibatch.
    made : int
        Number of steps.
    epochs : float
        Readings of all rows so far, a fraction included.
    too_long : float or None
        Given step that has been shortened.
    rows, others : mapping
        A random order of the rows, and the place in it from which the next rows are read: `rows` for the gradients,
        `others` for the metrics. See `Minibatches.place`.
    """

    residual: float = 1.0
    ending: Status | None = None
    means: tuple[Array, Array]
    sides: Sequence[Side]
    gradients: MeanGradient
    batch: int
    made: int = 0
    epochs: float
    too_long: float | None = None
    rows: Mapping[str, Any]
    others: Mapping[str, Any]

    def weights(self) -> Mapping[str, Any]:
        """Weighted means of the blocks."""
        return {"x_weights": self.means[0], "y_weights": self.means[1]}

    def notes(self) -> list[tuple[Status | None, str]]:
        """Notes that a given step was too long, and how often the rows have been read."""
        found: list[tuple[Status | None, str]] = []
        if self.too_long is not None:
            text = f"The blocks grew with step={self.too_long:g}: smaller steps were taken. Leave the option out."
            found.append((Status.BREAKDOWN, text))
        text = f"Stochastic gradients give an approximate answer; steps have read the rows {self.epochs:.3g} times."
        if self.ending is Status.APPROXIMATE:
            text += " Raise epochs, or choose a solver that sweeps all rows."
        return [*found, (Status.APPROXIMATE, text)]


@dataclass(frozen=True, kw_only=True)
class StochasticAppGrad(IterativeSolver):
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

    kept: ClassVar = (Averaged, Side, MeanGradient, SketchNorm, Preconditioner)
    resumes_after_law: ClassVar[bool] = False

    def iterates(self, problem: Any, run: Run, state: Averaged | None = None) -> Iterator[Averaged]:
        """Yield the mean of the blocks after each step."""
        views, home, xp = (problem.X, problem.Y), problem.X.home.blocks, problem.X.home.blocks.xp
        k, n = problem.k, int(problem.X.shape[0])
        chunk, aside = rows_of_a_chunk(problem), min(self.normalizer_rows or 0, n)
        run.moments("implicit")
        rows, others = Minibatches(views, run.rng, chunk=chunk), Minibatches(views, run.rng)
        if state is None:
            it = self.begun(problem, run, rows, others)
        else:
            it, rows.place, others.place = state, state.rows, state.others
        while True:
            yield it
            sides, too_long, t = list(it.sides), it.too_long, it.made + 1
            I = rows.batch(it.batch)  # X_I, Y_I
            J = others.load(aside) if aside else I  # the rows of the metrics
            weight = n / I[0].shape[0]
            # X_I Φ̃, Y_I Ψ̃
            images = [home.place(A.matmat(side.tilde)) for A, side in zip(I, sides, strict=True)]
            values = [  # X_I Φ, Y_I Ψ, except for the roots
                image if side.start is None else home.place(A.matmat(side.start))
                for A, side, image in zip(I, sides, images, strict=True)
            ]
            if it.made == 0:  # Φ and Ψ are random, and these rows normalise them
                seen = values
                if J is not I:
                    seen = [home.place(A.matmat(side.block)) for A, side in zip(J, sides, strict=True)]
                sides = [
                    replace(side, root=rooted(to_host(metric(image, side.block, r, n)), problem, run)[0])
                    for side, image, r in zip(sides, seen, problem.ridge, strict=True)
                ]
            moves: list[tuple[Array, float] | None] = [None, None]
            for i, A in enumerate(I):
                # (1) Φ̃ ← Φ̃ − (η/n) [X_Iᵀ(X_I Φ̃ − Y_I Ψ) n/|I| + ridge Φ̃]
                side, r = sides[i], problem.ridge[i]
                target = values[1 - i] @ home.place(sides[1 - i].root)
                gradient = A.rmatmat((images[i] - target) * weight)
                gradient = gradient + side.tilde * r if r else gradient
                new = side.tilde - gradient * side.step[:, None]
                # (2) Φ = Φ̃ G^(-1/2), G = Φ̃ᵀ(X_JᵀX_J n/|J| + ridge)Φ̃
                image = home.place(J[i].matmat(new))
                G, before = to_host_together(metric(image, new, r, n), xp.sum(images[i] * images[i]))
                if not float(np.trace(G)) <= max(GROWTH * k, float(before) * weight):  # too long a step
                    if not np.isfinite(to_host(xp.sum(gradient))):
                        explain_non_finite(problem, run)
                    sides[i] = replace(side, step=xp.minimum(side.step / 2, side.safe))
                    too_long = self.step
                    continue
                root, size = rooted(G, problem, run)
                if size > 0:
                    sides[i], moves[i] = Side(new, None, root, side.step, side.safe), (gradient, size)
                    if i == 0:  # Ψ takes the new Φ
                        values[0] = image if J is I else home.place(A.matmat(new))
            # (3) Φ̄ ← Φ̄ + (Φ̃ − Φ̄) (1 + 8)/(t + 8)
            share = (1 + POWER) / (t + POWER) if self.averaging else 1.0
            x, y = (nearer(mean, side.tilde, share) for mean, side in zip(it.means, sides, strict=True))
            gradients = it.gradients.after(moves)
            done = rows.read >= self.epochs * n and rows.due(it.batch) > 0
            it = replace(
                it,
                residual=gradients.residual,
                ending=Status.APPROXIMATE if done else None,
                means=(x, y),
                sides=tuple(sides),
                gradients=gradients,
                made=t,
                epochs=rows.epochs,
                too_long=too_long,
                rows=rows.place,
                others=others.place,
            )

    def begun(self, problem: Any, run: Run, rows: Minibatches, others: Minibatches) -> Averaged:
        """First iterate: Φ and Ψ random, Φ̃ and Ψ̃ zero, steps and batch from the first chunk."""
        first = FirstRows(problem, rows.load(), run)
        batch = min(rows.n, self.batch or first.batch())
        safe = first.steps(batch, scaled=self.scaling == "columns")
        given = safe if self.step is None else [d * 0.0 + self.step / rows.n for d in safe]
        home, matrix = problem.X.home.blocks, run.part(self.test_matrix)
        starts = [home.place(matrix.draw(int(d.shape[0]), problem.k, run.rng)) for d in safe]
        x, y = (Side(V * 0.0, V, None, *of) for V, *of in zip(starts, given, safe, strict=True))
        return Averaged(
            means=(starts[0], starts[1]),
            sides=(x, y),
            gradients=MeanGradient(first.norms),
            batch=batch,
            epochs=rows.epochs,
            rows=rows.place,
            others=others.place,
        )


def metric(image: Array, V: Array, ridge: float, n: int) -> Array:
    """Estimate of VᵀSV from the image of V on some of n rows."""
    G = (image.T @ image) * (n / image.shape[0])
    return G + (V.T @ V) * ridge if ridge else G


def rooted(G: HostArray, problem: Any, run: Run) -> tuple[HostArray, float]:
    """G^(-1/2), and the trace of G^(1/2)."""
    if not np.isfinite(G).all():
        explain_non_finite(problem, run)
    return inverse_root(G)


def nearer(mean: Array, V: Array, share: float) -> Array:
    """Mean moved by a share of the way to V."""
    return V if share >= 1 else mean + (V - mean) * share
