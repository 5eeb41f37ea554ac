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
for the same features. (b) The source assumes features of mean zero; here a first pass computes their means. (c) The
constant step is (1 − ρ)/(L + λ + 10 V/(1 − μ)) by default: L is the largest eigenvalue of φφᵀ/b for the first rows, and
V = E‖φ‖⁴/(b E‖φ‖²) is the part that the variance of minibatches adds to it, which momentum multiplies. (d) U and V
begin as random functions of unit length. Statistics of far shorter ones would be remembered, and the first steps
would be far too long. (e) ρ is 0 by default, with minibatches of 250 rows. Statistics with a memory lag behind the
functions, and the iteration may then lose functions permanently: normalised too little, they shrink as fast as the
statistics forget. (f) Rows are shuffled and read to the end: every row is read once before any row is read twice.
The functions do not lie in the spaces of the kernels, so the answer has no residual, and is reported as such. The
value reported during the run is ‖Uᵀφ − Cv^(-1/2) Vᵀψ‖² per row and function, the mean of both views over an epoch. It
tends to the mean of 1 − ρᵢ².
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from linspec import LinearOperator, option
from linspec.algebra import inverse_root
from linspec.arrays import Array, HostArray, to_host
from linspec.features import FeatureMap, FourierMap, fourier
from linspec.iteration import Context, Iterate
from linspec.kernels import Kernel
from linspec.rows import Minibatch, Moments, equal_slices, random_order
from linspec.solving import Solver, moments_of_rows
from linspec_kernel.certificate import CUT
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
    """Functions of one view, with their last change and their statistics.

    Attributes
    ----------
    U : array of shape (D, k)
        The weights of the functions on the features.
    change : array of shape (D, k)
        ΔU.
    C : numpy.ndarray of shape (k, k)
        Cu or Cv.
    """

    U: Array
    change: Array
    C: HostArray


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

    def iterate(self, problem: Any, moments: Any, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the functions after each epoch."""
        n, rng, matrices = int(problem.X.shape[0]), context.rng, (problem.X, problem.Y)
        count, batches = number_of_features(self.features, problem), max(1, round(n / self.batch))
        kernels = moments.settle(rng, start, "tiled")
        seeds = rng.integers(2**63, size=2) if start is None else start["seeds"]
        moments.maps = [
            SeededFourierMap(kernel, A.shape[1], count, int(seed))
            for kernel, A, seed in zip(kernels, matrices, seeds, strict=True)
        ]
        together = max(A.together for A in moments_of_rows(problem.matrices, center=False).operators)
        rows = moments_of_rows(
            {name: features(A) for name, features, A in zip("XY", moments.maps, matrices, strict=True)},
            center=problem.center,
            passes=context.passes,
        )
        first = [rows.minibatch(np.arange(n)[::batches], i) for i in (0, 1)]
        x, y = (FeatureView(batch, r / n, self) for batch, r in zip(first, problem.ridge, strict=True))
        f, g = (view.begun(min(problem.k, count), rng, start, name) for view, name in ((x, "x"), (y, "y")))
        misfit, made = (1.0, 0) if start is None else start["progress"].tolist()
        epochs = self.epochs or max(EPOCHS, -(-STEPS // batches))
        while True:
            arrays = partial(_arrays, (f, g), seeds, np.array([misfit, made]), moments)
            yield Iterate(misfit, arrays, final=made >= epochs)
            misfits = []
            for phi, psi in minibatches(rows, rng, self.batch, together):
                Z, W = phi.images(f.U), psi.images(g.U)  # Uᵀφ, Vᵀψ
                squares = x.squares(f.U, Z), y.squares(g.U, W)
                if not all(np.isfinite(one).all() for one in squares):  # steps were too long
                    yield Iterate(np.inf, arrays)
                    return
                # Cu ← ρ Cu + (1 − ρ) (Uᵀ φφᵀ U / b + λ UᵀU), and so Cv
                rho = self.memory
                Cu, Cv = (rho * side.C + (1 - rho) * new for side, new in zip((f, g), squares, strict=True))
                of_x = Z - W @ x.home.place(inverse_root(Cv, CUT)[0])  # Uᵀφ − Cv^(-1/2) Vᵀψ
                of_y = W - Z @ x.home.place(inverse_root(Cu, CUT)[0])
                misfits.append(x.share(of_x) + x.share(of_y))
                f, g = x.moved(f, phi, of_x, Cu), y.moved(g, psi, of_y, Cv)
            misfit, made = float(np.mean(misfits)), made + 1


def minibatches(
    rows: Moments, rng: np.random.Generator, size: int, together: int
) -> Iterator[list[Minibatch]]:
    """The features of all rows of both views, about `size` rows at a time in random order."""
    n = int(rows.operators[0].shape[0])
    order = random_order(np.arange(n), rng, size, together)
    for S in equal_slices(n, size):
        yield [rows.minibatch(order[S], i) for i in (0, 1)]


def _arrays(sides: tuple[Side, Side], seeds: HostArray, progress: HostArray, moments: Any) -> dict[str, Any]:
    """The functions of both views, and what a later run needs to go on."""
    found = {"seeds": seeds, "progress": progress, **moments.learnt()}
    for name, side in zip("xy", sides, strict=True):
        found |= {f"{name}_weights": side.U, f"{name}_change": side.change, f"{name}_statistics": side.C}
    return found


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
    """The steps of one view.

    Parameters
    ----------
    batch : Minibatch
        The features of the first rows.
    penalty : float
        λ.
    solver : KNOI
    """

    def __init__(self, batch: Minibatch, penalty: float, solver: KNOI) -> None:
        self.batch, self.penalty, self.solver = batch, penalty, solver
        self.home = batch.A.backend.blocks
        self.step = self._step(batch) if solver.step is None else solver.step

    def _step(self, batch: Minibatch) -> float:
        """η: (1 − ρ)/(L + λ + 10 V/(1 − μ)) with L and V estimated from a batch (see the module)."""
        F = batch.adjoint_images(self.home.place(np.eye(batch.rows)))
        G, b = to_host(F.T @ F), batch.rows
        squares = np.maximum(np.diag(G), 0.0)
        total = float(squares.sum())
        variance = float((squares**2).sum()) / (total * b) if total > 0 else 0.0
        largest = max(float(np.linalg.eigvalsh(G)[-1]), 0.0) / b
        limit = largest + self.penalty + NOISE * variance / (1 - self.solver.momentum)
        return (1 - self.solver.memory) / limit

    def begun(self, width: int, rng: np.random.Generator, start: Mapping[str, Any] | None, name: str) -> Side:
        """Random functions of unit length on the first rows, or those of a start."""
        place, columns = self.home.place, int(self.batch.A.shape[1])
        if start is not None:
            U, change = (place(start[f"{name}_{what}"]) for what in ("weights", "change"))
            return Side(U, change, start[f"{name}_statistics"])
        U = place(rng.standard_normal((columns, width)))
        U = U @ place(inverse_root(self.squares(U, self.batch.images(U)), CUT)[0])
        return Side(U, 0.0 * U, np.eye(width))

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

    def moved(self, side: Side, batch: Minibatch, gap: Array, C: HostArray) -> Side:
        """Functions of one view after a step, with their new statistics C."""
        G = (
            batch.adjoint_images(gap) / batch.rows + self.penalty * side.U
        )  # G = φ (Uᵀφ − Cv^(-1/2) Vᵀψ)ᵀ / b + λ U
        change = self.solver.momentum * side.change - self.step * G  # ΔU ← μ ΔU − η G
        return Side(side.U + change, change, C)  # U ← U + ΔU
