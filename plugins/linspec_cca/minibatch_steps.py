"""Step lengths and the rows of a minibatch, from the first rows that are read.

Problem: AppGrad on minibatches needs a step and a batch, which its authors find by cross-validation. One step for all
columns does not suit word counts: they have columns with one entry and columns with tens of thousands, and the largest
column would limit the step.
Method: gradients are preconditioned with P = diag(S) + ridge + τ, where τ = (n/b) Σx⁴/Σx² for each column, for batches
of b rows. A row with an entry x in a rare column weighs (n/b) x² in its batch. This is the value of τ for a column of
equal entries, so τ prevents overshooting by such a row. Nothing depends on the units of a column. The step in this
metric is 1.3/(L + V). L is the largest eigenvalue of P^(-1/2) S P^(-1/2). V = (n/b) E‖x̃‖⁴/E‖x̃‖² is the contribution of
the variance of batches to the mean square of their estimates.
Batches are six times the intrinsic dimension Σdiag/L of the views scaled to unit columns: with fewer rows, no direction
would stand out from others.
Source: Gower et al. 2019, doi:10.48550/arXiv.1901.09401, for V, with the largest row in place of the mean.
Where we differ: all of these values are estimated from the first chunk of rows. For columns that do not occur in it,
and for rows whose entries cannot be read, τ is Σ diag(S)/b.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from linspec import LinearOperator, Moments, Run
from linspec.algebra import SketchNorm, preconditioner_from_sketch
from linspec.arrays import Array, HostArray, reciprocal, to_host
from linspec.families.cca import SKETCH, random_signs
from linspec.operators import CenteredOperator, DenseOperator, SparseOperator, uncounted
from linspec.sweeps import FEWEST_ROWS, rows_at_once

DIMENSIONS = 6
"""Rows of a batch in units of the intrinsic dimension. On word counts 2 left too much noise; more means fewer steps."""

FEWEST_STEPS = 16
"""Least number of batches in all rows. It has priority over DIMENSIONS."""

ROWS_A_PAIR = 2.5
"""Least number of rows of a batch for each pair: enough for a k x k metric near the metric of all rows."""

MOST_ENTRIES = 2**22
"""Largest number of entries in a batch."""

STEP = 1.3
"""Step in units of 1/(L + V), chosen by measurement; below 2 the mean square error of a quadratic decreases."""

PROBES, POWERS = 8, 8
"""Number of columns, and number of steps, of the power iteration on a chunk of rows."""


def rows_of_a_chunk(problem: Any) -> int:
    """Number of rows that are read at once: a small part of all, so that a budget of passes is met closely."""
    n = int(problem.X.shape[0])
    few = min(rows_at_once(A) for A in (problem.X, problem.Y))
    return min(n, max(min(few, n // FEWEST_STEPS), 2 * FEWEST_ROWS, int(ROWS_A_PAIR * problem.k)))


class FirstRows:
    """Estimates from the first chunk of rows: diagonals, norms, batch size and step lengths.

    Parameters
    ----------
    problem : CCA
    chunk : list of LinearOperator
        The first rows of both views.
    run : Run

    Attributes
    ----------
    norms : list of SketchNorm
        Norms for estimates of residuals, by preconditioners in place of the inverses of the Gram matrices.
    """

    def __init__(self, problem: Any, chunk: list[LinearOperator], run: Run) -> None:
        self.problem, self.chunk, self.run = problem, chunk, run
        self.n, self.home = int(problem.X.shape[0]), problem.X.home.blocks
        self.share = self.n / chunk[0].shape[0]
        local = Moments(*chunk, form="implicit")
        self.diagonals = [d * self.share for d in local.diagonal() if d is not None]
        self._check_finite(self.diagonals)
        self.norms = self._norms(local)
        self.probes = [self.home.place(run.rng.standard_normal((A.shape[1], PROBES))) for A in chunk]

    def batch(self) -> int:
        """Rows of a batch: a multiple of the intrinsic dimension of the views scaled to unit columns."""
        fewest = max(ROWS_A_PAIR * self.problem.k, FEWEST_ROWS)
        wanted = fewest
        for i, (d, ridge) in enumerate(zip(self.diagonals, self.problem.ridge, strict=True)):
            scale = reciprocal(d + ridge)
            trace, largest = float(to_host(self.home.xp.sum(d * scale))), self._largest(i, scale)
            if largest > 0 and np.isfinite(trace / largest):
                wanted = max(wanted, DIMENSIONS * trace / largest)
        entries = max(A.nnz / A.shape[0] for A in self.chunk)
        return int(max(fewest, min(wanted, MOST_ENTRIES / max(entries, 1.0), self.n / FEWEST_STEPS)))

    def steps(self, batch: int, *, scaled: bool) -> list[Array]:
        """Steps of all columns of both views; a step multiplies the gradient of ½‖XΦ̃ − YΨ‖² over all rows.

        Parameters
        ----------
        batch : int
            Rows of a batch.
        scaled : bool
            Whether columns have steps of their own.
        """
        found = [self._step(i, batch, scaled=scaled) for i in (0, 1)]
        self._check_finite(found)
        return found

    def _step(self, i: int, batch: int, *, scaled: bool) -> Array:
        """Step 1.3/(L + V) times the diagonal of P⁻¹; P is I without scaling."""
        d, ridge, xp, weight = self.diagonals[i], self.problem.ridge[i], self.home.xp, self.n / batch
        scale = xp.ones_like(d)
        if scaled:
            entries = typical_squares(self.chunk[i])
            tau = xp.sum(d) / batch + xp.zeros_like(d)
            if entries is not None:  # a column that is zero in these rows may not be in later rows
                tau = xp.where(entries > 0, entries * weight, tau)
            scale = reciprocal(d + ridge + tau)
        bound = self._largest(i, scale) + self._variance(i, scale, weight)
        bound += ridge * float(to_host(xp.max(scale)))
        return scale * (STEP if bound == 0 else STEP / bound)

    def _largest(self, i: int, scale: Array) -> float:
        """L = λ_max(D^(1/2) S D^(1/2)) for D = diag(scale), by the power method."""
        rows, xp, half = self.chunk[i], self.home.xp, self.home.xp.sqrt(scale)[:, None]
        V = half * self.probes[i]
        for _ in range(POWERS):
            V = V * reciprocal(xp.sqrt(xp.sum(V * V, axis=0)))[None, :]
            V = half * rows.rmatmat(rows.matmat(half * V)) * self.share
        return float(to_host(xp.max(xp.sqrt(xp.sum(V * V, axis=0)))))

    def _variance(self, i: int, scale: Array, weight: float) -> float:
        """V = (n/b) E‖x̃‖⁴/E‖x̃‖² for the rows x̃ = D^(1/2) x with D = diag(scale), whose lengths the probes estimate.

        `weight` is n/b, for n rows of data and b rows of a batch.
        """
        xp = self.home.xp
        P = self.home.place(self.chunk[i].matmat(xp.sqrt(scale)[:, None] * self.probes[i]))
        squares: HostArray = to_host(xp.mean(P * P, axis=1))
        total = float(squares.sum())
        return 0.0 if total == 0 else weight * float((squares**2).sum()) / total

    def _norms(self, local: Moments) -> list[SketchNorm]:
        Z = [
            self.home.place(random_signs(d.shape[0], self.problem.k + SKETCH, i))
            for i, d in enumerate(self.diagonals)
        ]
        SZx, _, _, SZy = local.products(*Z)
        made = zip(Z, (SZx, SZy), self.diagonals, self.problem.ridge, strict=True)
        return [
            SketchNorm(
                preconditioner_from_sketch(V, SV * self.share + V * r, r, d, None, self.home), r, self.home
            )
            for V, SV, d, r in made
        ]

    def _check_finite(self, arrays: list[Array]) -> None:
        if not all(np.isfinite(to_host(array)).all() for array in arrays):
            explain_non_finite(self.problem, self.run)


def typical_squares(rows: LinearOperator) -> Array | None:
    """Σx⁴/Σx² of each column: the square of a typical entry that is not zero.

    Parameters
    ----------
    rows : LinearOperator
        Rows, so few that their entries can be read.

    Returns
    -------
    array of shape (p,) or None
        None if the entries are in neither an array nor a sparse matrix. Sparse entries are not centred.
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
    """Sweep the data with blocks of zeros, which raises NonFiniteData if the data are not finite."""
    moments = run.moments("implicit")
    moments.products(*(moments.home.zeros((A.shape[1], 1)) for A in (problem.X, problem.Y)))
