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
from linspec.arrays import Array, HostArray, to_host
from linspec.features import FeatureMap, FourierMap, fourier
from linspec.iteration import Context, Iterate
from linspec.kernels import Kernel
from linspec.linalg import inverse_root, ratio
from linspec.rows import Minibatch, equal_slices, random_order
from linspec.solving import moments_of_rows
from linspec_kernel.certificate import CUT
from linspec_kernel.features_kcca import OnFourierFeatures
from linspec_kernel.problem import KernelCCA

BATCH = 250
"""Default number of rows in a minibatch."""

EPOCHS, STEPS = 10, 100
"""Least number of epochs, and least number of steps, of a run without the option `epochs`."""

SLICE = 2**18
"""Number of entries of the frequency matrix that are drawn at once: two megabytes."""

NOISE = 10.0
"""Factor of V, the variance of minibatches, in the step: their noise then adds about a twentieth to the misfit."""


@dataclass(frozen=True, kw_only=True)
class KNOI(OnFourierFeatures):
    """Nonlinear orthogonal iterations on random Fourier features (Wang & Livescu 2016)."""

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

    def iterate(self, problem: KernelCCA, moments: Any, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the functions after each epoch."""
        n, rng, matrices = int(problem.X.shape[0]), context.rng, (problem.X, problem.Y)
        count = self.count(problem)
        batches = max(1, round(n / self.batch))
        kernels = moments.fit(rng, start, "tiled")
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
        width, first = min(problem.k, count), np.arange(n)[::batches]
        x, y = views = [
            FeatureView(rows.minibatch(first, i), r / n, self, width, rng, start, name)
            for i, (r, name) in enumerate(zip(problem.ridge, "xy", strict=True))
        ]
        misfit, epoch = (1.0, 0) if start is None else start["progress"].tolist()
        epochs = self.epochs or max(EPOCHS, -(-STEPS // batches))
        while True:
            arrays = {"seeds": seeds, "progress": np.array([misfit, epoch]), **moments.learnt()}
            for view, name in zip(views, "xy", strict=True):
                arrays[f"{name}_weights"] = view.U
            yield Iterate(misfit, partial(dict, arrays), final=epoch >= epochs)
            misfits, order = [], random_order(np.arange(n), rng, self.batch, together)
            for S in equal_slices(n, self.batch):
                phi, psi = (rows.minibatch(order[S], i) for i in (0, 1))
                Z, W = phi.images(x.U), psi.images(y.U)  # Uᵀφ, Vᵀψ
                squares = x.squares(x.U, Z), y.squares(y.U, W)
                if not all(np.isfinite(square).all() for square in squares):  # steps were too long
                    yield Iterate(np.inf, partial(dict, arrays))
                    return
                # Cu ← ρ Cu + (1 − ρ) (Uᵀ φφᵀ U / b + λ UᵀU), and so Cv
                for view, new in zip(views, squares, strict=True):
                    view.C = self.memory * view.C + (1 - self.memory) * new
                of_x = Z - W @ x.device.asarray(inverse_root(y.C, CUT)[0])  # Uᵀφ − Cv^(-1/2) Vᵀψ
                of_y = W - Z @ x.device.asarray(inverse_root(x.C, CUT)[0])
                misfits.append(sum(float(np.sum(x.device.column_norms(gap) ** 2)) for gap in (of_x, of_y)))
                misfits[-1] /= 2 * Z.shape[0] * Z.shape[1]
                x.move(phi, of_x)
                y.move(psi, of_y)
            misfit, epoch = float(np.mean(misfits)), epoch + 1


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
        blocks = [part.features(rows) * float(np.sqrt(part.columns / self.columns)) for part in self.parts()]
        return blocks[0] if len(blocks) == 1 else rows.device.concat(blocks)

    def __repr__(self) -> str:
        return f"SeededFourierMap({self.inputs} -> {self.columns})"


class FeatureView:
    """Functions of one view, and their steps.

    Parameters
    ----------
    batch : Minibatch
        The features of the first rows.
    penalty : float
        λ.
    solver : KNOI
    width : int
    rng : numpy.random.Generator
    start : mapping of str to array, or None
    name : {"x", "y"}

    Attributes
    ----------
    U, change : array of shape (D, k)
        The weights of the functions on the features, and ΔU.
    C : numpy.ndarray of shape (k, k)
        Cu or Cv.
    """

    def __init__(
        self,
        batch: Minibatch,
        penalty: float,
        solver: KNOI,
        width: int,
        rng: np.random.Generator,
        start: Mapping[str, Any] | None,
        name: str,
    ) -> None:
        self.penalty, self.solver, self.device, self.step = (
            penalty,
            solver,
            batch.A.device.blocks,
            solver.step,
        )
        asarray = self.device.asarray
        if solver.step is None:
            # η: (1 − ρ)/(L + λ + 10 V/(1 − μ)) with L and V estimated from the batch (see the module)
            F = batch.adjoint_images(asarray(np.eye(batch.rows)))
            G = to_host(F.T @ F)
            squares = np.maximum(np.diag(G), 0.0)
            variance = ratio(float((squares**2).sum()), float(squares.sum()) * batch.rows)
            largest = max(float(np.linalg.eigvalsh(G)[-1]), 0.0) / batch.rows
            limit = largest + penalty + NOISE * variance / (1 - solver.momentum)
            self.step = (1 - solver.memory) / limit
        if start is not None:
            self.U = asarray(start[f"{name}_weights"])
        else:  # random functions of unit length on the first rows
            U = asarray(rng.standard_normal((int(batch.A.shape[1]), width)))
            self.U = U @ asarray(inverse_root(self.squares(U, batch.images(U)), CUT)[0])
        self.change, self.C = 0.0 * self.U, np.eye(int(self.U.shape[1]))

    def squares(self, U: Array, Z: Array) -> HostArray:
        """Uᵀ φφᵀ U / b + λ UᵀU, computed from Z = φᵀU."""
        return to_host(Z.T @ Z) / Z.shape[0] + self.penalty * to_host(U.T @ U)

    def move(self, batch: Minibatch, gap: Array) -> None:
        """Take a step: U ← U + ΔU with ΔU ← μ ΔU − η G, where G = φ (Uᵀφ − Cv^(-1/2) Vᵀψ)ᵀ / b + λ U."""
        G = batch.adjoint_images(gap) / batch.rows + self.penalty * self.U
        self.change = self.solver.momentum * self.change - self.step * G
        self.U = self.U + self.change
