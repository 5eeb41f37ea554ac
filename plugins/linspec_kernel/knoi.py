"""Kernel CCA on random Fourier features by minibatches, without a matrix of features or of frequencies.

Problem: kernel CCA for Gaussian and Laplacian kernels, with more random features than Gram matrices of features allow.
Method: nonlinear orthogonal iterations of Wang & Livescu (2016), Algorithm 1. With features φ, ψ of the rows of a
minibatch of b rows, and statistics Cu, Cv of the functions Uᵀφ, Vᵀψ that forget with the factor ρ,

    Cu ← ρ Cu + (1 − ρ) (Uᵀ φφᵀ U / b + λ UᵀU),   G = φ (Uᵀφ − Cv^(-1/2) Vᵀψ)ᵀ / b + λ U,
    ΔU ← μ ΔU − η G,   U ← U + ΔU,

and the same for V with the old U. At the end the exact CCA of the functions on all rows is computed, by the
certificate of the problem. Frequencies are drawn anew from a seed wherever they are needed, some columns at a time,
so the memory is that of U and V, of the features of a minibatch, and of a few columns of frequencies.
Source: Wang & Livescu 2016, ICLR, arXiv:1511.04773.
Where we differ: (a) λ = ridge/n is in the statistics too, so that the limit of small steps is the answer of "rff-kcca"
for the same features. (b) The source assumes features of mean zero; here a first sweep computes their means. (c) The
constant step is (1 − ρ)/(L + λ + 10 V/(1 − μ)) by default: L is the largest eigenvalue of φφᵀ/b for the first rows, and
V = E‖φ‖⁴/(b E‖φ‖²) is the part that the variance of minibatches adds to it, which momentum multiplies. (d) U and V
begin as random functions of unit length. Statistics of far shorter ones would be remembered, and the first steps
would be far too long. (e) ρ is 0 by default, with minibatches of 250 rows. Statistics with a memory lag behind the
functions, and the iteration may then lose functions permanently: normalised too little, they shrink as fast as the
statistics forget. (f) Rows are shuffled and read to the end: every row is read once before any row is read twice.
The functions do not lie in the spaces of the kernels, so the answer has no residual, and is reported as such. The
value reported during the run is ‖Uᵀφ − Cv^(-1/2) Vᵀψ‖² per row and function, the mean of both views over an epoch. It
tends to the mean of 1 − ρᵢ², and no run ends because of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from linspec import IterativeSolver, LinearOperator, Run, Status, option
from linspec.algebra import inverse_root
from linspec.arrays import Array, HostArray, to_host
from linspec.features import FeatureMap, FourierMap, fourier
from linspec.kernels import Kernel
from linspec.sweeps import Minibatches, equal_slices, rows_at_once
from linspec_kernel.certificate import CUT
from linspec_kernel.iterate import Functions
from linspec_kernel.rff_kcca import number_of_features

BATCH = 250
"""Default number of rows in a minibatch."""

EPOCHS, STEPS = 10, 100
"""Least number of epochs, and least number of steps, of a run without the option `epochs`."""

SLICE = 2**18
"""Number of entries of the frequency matrix that are drawn at once: two megabytes."""

NOISE = 10.0
"""Factor of V, the variance of minibatches, in the step: their noise then adds about a twentieth to the misfit."""


@dataclass(frozen=True)
class Side:
    """Functions of one view, with their statistics and step.

    Attributes
    ----------
    U : array of shape (D, k)
        The weights of the functions on the features.
    change : array of shape (D, k)
        ΔU.
    C : numpy.ndarray of shape (k, k)
        Cu or Cv, the statistics of the functions.
    step : float
        η.
    mean : array of shape (1, D)
        Means of the features.
    seed : int
        Seed of the frequencies.
    """

    U: Array
    change: Array
    C: HostArray
    step: float
    mean: Array
    seed: int


@dataclass(frozen=True, kw_only=True)
class KNOI(IterativeSolver):
    """Nonlinear orthogonal iterations on random Fourier features (Wang & Livescu 2016)."""

    features: int | None = option(
        None, "random features of each view; none: 1000, or four times the rows", kind=int, at_least=1
    )
    batch: int = option(BATCH, "rows of a minibatch", at_least=1)
    epochs: int | None = option(
        None,
        "times that all rows are read; none: 10, or more until there are 100 steps",
        kind=int,
        at_least=1,
    )
    step: float | None = option(None, "length of the steps; none: from the first rows", above=0)
    momentum: float = option(0.9, "share of the last change that the next one keeps", at_least=0, below=1)
    memory: float = option(0.0, "share of the statistics that a step keeps", at_least=0, below=1)

    kept: ClassVar = (Functions, Side)
    resumes_after_law: ClassVar[bool] = False

    def iterates(self, problem: Any, run: Run, state: Any = None) -> Iterator[Functions]:
        """Yield the functions after each epoch."""
        n = int(problem.X.shape[0])
        count = number_of_features(self.features, problem)
        moments: Any = run.moments("tiled")
        kernels = moments.settle(run.rng)
        rows = Minibatches([problem.X, problem.Y], run.rng, chunk=self.batch)
        batches = max(1, round(n / self.batch))
        if state is None:
            seeds = [int(run.rng.integers(2**63)) for _ in kernels]
        else:
            seeds = [side.seed for side in state["sides"]]
        x, y = (
            FeatureView(A, SeededFourierMap(kernel, A.shape[1], count, seed), float(r) / n, self)
            for A, kernel, seed, r in zip((problem.X, problem.Y), kernels, seeds, problem.ridge, strict=True)
        )
        if state is None:
            first, width = rows.rows_of(np.arange(n)[::batches]), min(problem.k, count)
            f, g, misfit, made = *started((x, y), first, width, problem.center, run.rng), 1.0, 0
        else:
            (f, g), misfit, made = state["sides"], state.residual, state["made"]
        epochs = self.epochs or max(EPOCHS, -(-STEPS // batches))
        while True:
            yield Functions(
                misfit,
                partial(
                    dict,
                    x_weights=f.U,
                    y_weights=g.U,
                    x_map=x.features,
                    y_map=y.features,
                    kernels=kernels,
                ),
                judged=False,
                ending=Status.APPROXIMATE if made >= epochs else None,
                state={"sides": (f, g), "made": made},
            )
            before, misfits = (f, g), []
            for part in equal_slices(n, self.batch):
                X_I, Y_I = rows.load(part.stop - part.start)
                phi, psi = x.batch(X_I, f.mean), y.batch(Y_I, g.mean)
                Z, W = phi @ f.U, psi @ g.U  # Uᵀφ, Vᵀψ
                squares = x.squares(f.U, Z), y.squares(g.U, W)
                if not all(np.isfinite(one).all() for one in squares):  # steps were too long
                    misfits.append(np.inf)
                    break
                # Cu ← ρ Cu + (1 − ρ) (Uᵀ φφᵀ U / b + λ UᵀU), and so Cv
                rho = self.memory
                Cu, Cv = (rho * side.C + (1 - rho) * new for side, new in zip((f, g), squares, strict=True))
                of_x = Z - W @ x.home.place(inverse_root(Cv, CUT)[0])  # Uᵀφ − Cv^(-1/2) Vᵀψ
                of_y = W - Z @ x.home.place(inverse_root(Cu, CUT)[0])
                misfits.append(x.share(of_x) + x.share(of_y))
                f, g = x.moved(f, phi, of_x, Cu), y.moved(g, psi, of_y, Cv)
                if not np.isfinite(misfits[-1]):
                    break
            if np.isfinite(misfits[-1]):
                misfit = float(np.mean(misfits))
            else:  # no finite misfit: the run ends, with the functions before this epoch
                (f, g), misfit = before, np.inf
            made += 1


class SeededFourierMap(FeatureMap):
    """Random Fourier features whose frequencies are drawn anew at each use, some columns at a time.

    Parameters
    ----------
    kernel : Kernel
        Gaussian or Laplacian, with a scale that is a number.
    inputs : int
        Columns of the data.
    columns : int
        Features.
    seed : int
    """

    def __init__(self, kernel: Kernel, inputs: int, columns: int, seed: int) -> None:
        self.kernel, self.inputs, self.columns, self.seed = kernel, inputs, columns, seed
        next(self.parts())  # refuses kernels without such features

    def parts(self) -> Iterator[FourierMap]:
        """Yield maps to consecutive slices of the features; each map is scaled as if its slice were all features."""
        width = max(1, SLICE // max(self.inputs, 1))
        for i, start in enumerate(range(0, self.columns, width)):
            rng = np.random.default_rng([self.seed, i])
            yield fourier(self.kernel, self.inputs, min(width, self.columns - start), rng)

    def features(self, rows: LinearOperator) -> Array:
        found = [part.features(rows) * float(np.sqrt(part.columns / self.columns)) for part in self.parts()]
        return found[0] if len(found) == 1 else rows.home.concat(found)

    def __repr__(self) -> str:
        return f"SeededFourierMap({self.inputs} -> {self.columns})"


class FeatureView:
    """Rows of one view, and their random features.

    Parameters
    ----------
    A : LinearOperator of shape (n, p)
    features : SeededFourierMap
    penalty : float
        λ.
    solver : KNOI
    """

    def __init__(self, A: LinearOperator, features: SeededFourierMap, penalty: float, solver: KNOI) -> None:
        self.A, self.features, self.penalty, self.solver = A, features, penalty, solver
        self.home = A.home.blocks

    def batch(self, rows: LinearOperator, mean: Array) -> Array:
        """Features of some rows, b x D, minus the means of the features over all rows."""
        return self.home.place(self.features.features(rows)) - mean

    def squares(self, U: Array, Z: Array) -> HostArray:
        """Uᵀ φφᵀ U / b + λ UᵀU, computed from Z = φᵀU."""
        found: HostArray = to_host(Z.T @ Z) / int(Z.shape[0]) + self.penalty * to_host(U.T @ U)
        return found

    def share(self, gap: Array) -> float:
        """Return the contribution of one view to the misfit, ‖gap‖²_F / 2bk, for the b x k matrix `gap`.

        `gap` is the transpose of Uᵀφ − Cv^(-1/2) Vᵀψ for b rows and k functions. The misfit of a minibatch, which the
        run reports, is the mean over both views of ‖gap‖²_F / bk.
        """
        return float(np.sum(self.home.column_norms(gap) ** 2)) / float(2 * gap.shape[0] * gap.shape[1])

    def moved(self, side: Side, batch: Array, gap: Array, C: HostArray) -> Side:
        """Functions of one view after a step, with their new statistics C."""
        G = batch.T @ gap / gap.shape[0] + self.penalty * side.U  # G = φ (Uᵀφ − Cv^(-1/2) Vᵀψ)ᵀ / b + λ U
        change = self.solver.momentum * side.change - side.step * G  # ΔU ← μ ΔU − η G
        return replace(side, U=side.U + change, change=change, C=C)  # U ← U + ΔU

    def step(self, batch: Array) -> float:
        """η: the given step, or (1 − ρ)/(L + λ + 10 V/(1 − μ)) with L and V estimated from a batch (see the module)."""
        if self.solver.step is not None:
            return self.solver.step
        G, b = to_host(batch @ batch.T), int(batch.shape[0])
        squares = np.maximum(np.diag(G), 0.0)
        total = float(squares.sum())
        variance = float((squares**2).sum()) / (total * b) if total > 0 else 0.0
        largest = max(float(np.linalg.eigvalsh(G)[-1]), 0.0) / b
        limit = largest + self.penalty + NOISE * variance / (1 - self.solver.momentum)
        return (1 - self.solver.memory) / limit

    def mean(self) -> Array:
        """Means of the features over all rows: one sweep."""
        n, total = int(self.A.shape[0]), self.home.zeros((1, self.features.columns))
        size = max(rows_at_once(self.features(self.A)), self.solver.batch)
        for part in equal_slices(n, size):
            F = self.features.features(self.A.rows(part))
            total = total + self.home.xp.sum(self.home.place(F), axis=0)[None, :]
            self.A.release()
        return total / n


def started(
    views: tuple[FeatureView, FeatureView],
    rows: list[LinearOperator],
    width: int,
    center: bool,
    rng: np.random.Generator,
) -> list[Side]:
    """Random functions of unit length, and the steps of both views from the first rows."""
    means = [view.mean() if center else view.home.zeros((1, view.features.columns)) for view in views]
    sides = []
    for view, A, mean in zip(views, rows, means, strict=True):
        batch = view.batch(A, mean)
        U = view.home.place(rng.standard_normal((view.features.columns, width)))
        U = U @ view.home.place(inverse_root(view.squares(U, batch @ U), CUT)[0])
        sides.append(Side(U, 0.0 * U, np.eye(width), view.step(batch), mean, view.features.seed))
    return sides
