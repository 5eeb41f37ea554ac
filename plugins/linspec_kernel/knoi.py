"""Kernel CCA on random Fourier features by minibatches, without a matrix of features or of frequencies.

Problem: kernel CCA for Gaussian and Laplacian kernels, with more random features than Gram matrices of features allow.
Method: nonlinear orthogonal iterations of Wang & Livescu (2016), Algorithm 1. With features φ, ψ of the rows of a
minibatch of b rows, and statistics Cu, Cv of the functions Uᵀφ, Vᵀψ that forget with the factor ρ,

    Cu ← ρ Cu + (1 − ρ) (Uᵀ φφᵀ U / b + λ UᵀU),   G = φ (Uᵀφ − Cv^(-1/2) Vᵀψ)ᵀ / b + λ U,
    ΔU ← μ ΔU − η G,   U ← U + ΔU,

and the same for V with the old U. At the end the exact CCA of the functions on all rows is made; the law of
the problem does that. Frequencies are drawn anew from a seed wherever they are needed, some columns at a time, so the
memory is that of U and V, of the features of a minibatch, and of a few columns of frequencies.
Source: Wang & Livescu 2016, ICLR, arXiv:1511.04773.
Where we differ: (a) λ = ridge/n is in the statistics too, so that the limit of small steps is the answer of "rff-kcca"
for the same features. (b) The source assumes features of mean zero; here a first sweep takes their means. (c) The
constant step is (1 − ρ)/(L + λ + 10 V/(1 − μ)) by default: L is the largest eigenvalue of φφᵀ/b for the first rows, and
V = E‖φ‖⁴/(b E‖φ‖²) is what the variance of minibatches adds to it, which momentum multiplies. (d) U and V begin as
random functions of unit length. Statistics of far shorter ones would be remembered, and the first steps would be far
too long. (e) ρ is 0 by default, with minibatches of 250 rows. Statistics with a memory lag behind the functions, and
the iteration may then lose functions for good: normalised too little, they shrink as fast as the statistics forget.
(f) Rows are shuffled and read to the end, each once before any comes twice.
The functions do not lie in the spaces of the kernels, so the answer has no residual, and says so. What is reported
during the run is ‖Uᵀφ − Cv^(-1/2) Vᵀψ‖² per row and function, the mean of both views over an epoch. It tends to the
mean of 1 − ρᵢ², and no run ends because of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec import LinearOperator, Run, Solution, Solver, Status, option
from linspec.algebra import eigenpairs
from linspec.arrays import Array, HostArray, to_host
from linspec.errors import InvalidOption
from linspec.features import FeatureMap, FourierMap, fourier
from linspec.kernels import Kernel
from linspec.operators import DenseOperator, uncounted
from linspec.sweeps import RandomRows, equal_slices, rows_at_once
from linspec_kernel.certificate import CUT

FEATURES = 1000
"""Features of each view by default, where there are many rows."""

BATCH = 250
"""Rows of a minibatch by default."""

EPOCHS, STEPS = 10, 100
"""Without the option, the epochs are at least so many, and more until there are so many steps."""

SLICE = 2**18
"""Entries of the frequencies that are drawn at once: two megabytes."""

NOISE = 10.0
"""By this factor V counts in the step: the noise of minibatches then adds about a twentieth to the misfit."""


@dataclass(frozen=True, kw_only=True)
class KNOI(Solver):
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

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a kernel CCA problem."""
        n = int(problem.X.shape[0])
        count = min(FEATURES, 4 * n) if self.features is None else self.features
        if count < problem.k:
            raise InvalidOption(f"features must be at least k = {problem.k}; got {count}.")
        moments: Any = run.moments("tiled")
        # The rows, and a sweep for the means of the features.
        run.plan(setup=1.0 + problem.center, iteration=1.0)
        kernels = moments.settle(run.rng)
        maps = [
            SeededFourierMap(kernel, A.shape[1], count, int(run.rng.integers(2**63)))
            for kernel, A in zip(kernels, (problem.X, problem.Y), strict=True)
        ]
        iteration = Iteration(self, problem, maps, run)
        epochs = self.epochs or max(EPOCHS, -(-STEPS // iteration.batches))

        def found() -> dict[str, Any]:
            U, V = iteration.weights
            return {
                "x_weights": U,
                "y_weights": V,
                "x_map": maps[0],
                "y_map": maps[1],
                "kernels": kernels,
            }

        made = 0
        while run.proceed(residual=iteration.misfit, current=found, judged=False):
            iteration.epoch()
            made += 1
            if made >= epochs:
                run.end(Status.APPROXIMATE)
        return run.finish(**found())


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
        """Maps to the features, some columns after the others; each is scaled as if it had no others beside it."""
        width = max(1, SLICE // max(self.inputs, 1))
        for i, start in enumerate(range(0, self.columns, width)):
            rng = np.random.default_rng([self.seed, i])
            yield fourier(self.kernel, self.inputs, min(width, self.columns - start), rng)

    def features(self, rows: LinearOperator) -> Array:
        found = [part.features(rows) * float(np.sqrt(part.columns / self.columns)) for part in self.parts()]
        return found[0] if len(found) == 1 else rows.home.concat(found)

    def __repr__(self) -> str:
        return f"SeededFourierMap({self.inputs} -> {self.columns})"


class Iteration:
    """The functions of both views, and an epoch of steps on them.

    Parameters
    ----------
    solver : KNOI
    problem : KernelCCA
    maps : list of SeededFourierMap
    run : Run

    Attributes
    ----------
    weights : list of arrays of shape (D, k)
        U and V.
    misfit : float
        What is reported; 1 before the first epoch, infinity where steps were too long.
    batches : int
        Steps of an epoch.
    """

    def __init__(self, solver: KNOI, problem: Any, maps: list[SeededFourierMap], run: Run) -> None:
        self.solver, self.maps = solver, maps
        self.views: list[LinearOperator] = [problem.X, problem.Y]
        self.home = problem.X.home.blocks
        self.n = int(problem.X.shape[0])
        self.batches = max(1, round(self.n / solver.batch))
        self.penalties = [float(r) / self.n for r in problem.ridge]
        self.order = RandomRows(self.views, run.rng)
        self.means = [self.home.zeros((1, m.columns)) for m in maps]
        if problem.center:
            self.means = [self._mean(view) for view in range(2)]
        width = min(problem.k, maps[0].columns)
        first = [self._batch(view, np.arange(self.n)[:: self.batches]) for view in range(2)]
        self.steps = [self._step(view, batch) for view, batch in enumerate(first)]
        drawn = [self.home.place(run.rng.standard_normal((m.columns, width))) for m in maps]
        roots = [
            _inverse_root(self._square(view, U, batch.matmat(U)))
            for view, (U, batch) in enumerate(zip(drawn, first, strict=True))
        ]
        self.weights = [U @ self.home.place(T) for U, T in zip(drawn, roots, strict=True)]
        self.changes = [0.0 * U for U in self.weights]
        self.statistics = [np.eye(width), np.eye(width)]
        self.misfit = 1.0

    def epoch(self) -> None:
        """Steps on all rows, each of which is read once."""
        before, misfits = list(self.weights), []
        with np.errstate(all="ignore"):  # steps that are too long are found below
            for part in equal_slices(self.n, self.solver.batch):
                chosen = self.order.draw(part.stop - part.start)
                misfits.append(self._move([self._batch(view, chosen) for view in range(2)]))
                if not np.isfinite(misfits[-1]):
                    # Nothing to go on with: `proceed` ends the run, with the functions before this epoch.
                    self.weights, self.misfit = before, np.inf
                    return
        self.misfit = float(np.mean(misfits))

    def _move(self, batch: list[Batch]) -> float:
        """A step on both views, and the misfit before it."""
        values = [rows.matmat(U) for rows, U in zip(batch, self.weights, strict=True)]
        keep = self.solver.memory
        for view, (U, Z) in enumerate(zip(self.weights, values, strict=True)):
            new = self._square(view, U, Z)
            if not np.isfinite(new).all():
                return np.inf
            self.statistics[view] = keep * self.statistics[view] + (1 - keep) * new
        targets = [
            Z @ self.home.place(_inverse_root(C)) for Z, C in zip(values, self.statistics, strict=True)
        ]
        misfit, moved = 0.0, []
        for view, (rows, U, Z) in enumerate(zip(batch, self.weights, values, strict=True)):
            gap = Z - targets[1 - view]
            misfit += float(np.sum(self.home.column_norms(gap) ** 2)) / (2 * gap.shape[0] * gap.shape[1])
            gradient = rows.rmatmat(gap) / gap.shape[0] + self.penalties[view] * U
            self.changes[view] = self.solver.momentum * self.changes[view] - self.steps[view] * gradient
            moved.append(U + self.changes[view])
        self.weights = moved
        return misfit

    def _square(self, view: int, U: Array, Z: Array) -> HostArray:
        """Uᵀ φφᵀ U / b + λ UᵀU."""
        found: HostArray = to_host(Z.T @ Z) / int(Z.shape[0]) + self.penalties[view] * to_host(U.T @ U)
        return found

    def _step(self, view: int, batch: Batch) -> float:
        """η."""
        if self.solver.step is not None:
            return self.solver.step
        G = batch.gram()
        b = len(G)
        squares = np.maximum(np.diag(G), 0.0)
        total = float(squares.sum())
        variance = float((squares**2).sum()) / (total * b) if total > 0 else 0.0
        largest = max(float(np.linalg.eigvalsh(G)[-1]), 0.0) / b
        limit = largest + self.penalties[view] + NOISE * variance / (1 - self.solver.momentum)
        return (1 - self.solver.memory) / limit

    def _mean(self, view: int) -> Array:
        """The mean of the features of all rows: one sweep."""
        A, total = self.views[view], self.home.zeros((1, self.maps[view].columns))
        size = max(rows_at_once(self.maps[view](uncounted(A)[0])), self.solver.batch)
        for part in equal_slices(self.n, size):
            F = self.maps[view].features(A.rows(part))
            total = total + self.home.xp.sum(self.home.place(F), axis=0)[None, :]
            A.release()
        return total / self.n

    def _batch(self, view: int, chosen: HostArray) -> Batch:
        """The features of some rows."""
        A = self.views[view]
        rows = self.order.rows_of(A, chosen)
        found = Batch(rows, self.maps[view].features(rows), self.means[view], self.home)
        A.release()
        return found


class Batch:
    """The features of some rows, less their means over all rows, as a matrix of b x D."""

    def __init__(self, rows: LinearOperator, features: Array, mean: Array, home: Any) -> None:
        self.rows, self.ledger = uncounted(rows)
        self.matrix, self.mean, self.home = DenseOperator(features), mean, home

    def matmat(self, U: Array) -> Array:
        """Values of functions, b x L."""
        self._record(U)
        return self.home.place(self.matrix.matmat(U)) - self.mean @ U

    def rmatmat(self, Z: Array) -> Array:
        """The adjoint, D x L."""
        self._record(Z)
        return self.home.place(self.matrix.rmatmat(Z)) - self.mean.T @ self.home.xp.sum(Z, axis=0)[None, :]

    def gram(self) -> HostArray:
        """Inner products of the features, b x b."""
        F = self.home.place(self.matrix.dense()) - self.mean
        found: HostArray = to_host(F @ F.T)
        return found

    def _record(self, block: Array) -> None:
        flops = 2.0 * self.matrix.shape[0] * self.matrix.shape[1] * block.shape[1]
        self.ledger.record(self.rows, int(block.shape[1]), flops=flops)


def _inverse_root(G: HostArray) -> HostArray:
    """The symmetric inverse square root, on the numerical range."""
    w, U = eigenpairs((G + G.T) / 2)
    keep = w > len(w) * CUT * max(float(w[-1]), 0.0)
    found: HostArray = (U[:, keep] / np.sqrt(w[keep])) @ U[:, keep].T
    return found
