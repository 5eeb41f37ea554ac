"""Step length and batch size of stochastic gradients for least squares, from the data.

Problem: x ← x − h H_S e with H_S = (n/b) A_SᵀA_S on b random rows S has to converge, with steps as long as the variance
allows and batches as small as pays.
Method: with L = λ_max(AᵀA) and the largest row norm R, E[H_S²] ≼ L_b AᵀA and

    L_b = n(b−1)/(b(n−1)) L + (n−b)/(b(n−1)) n R²

(Gower et al. 2019, doi:10.48550/arXiv.1901.09401; Sebbouh et al. 2019, doi:10.48550/arXiv.1908.02725), and
1/(L_b + r) is a safe step. The sweep that makes AᵀB also gives n R². L comes from a random chunk of rows, which on
average overestimates it. A batch of n R²/L rows or more allows no longer steps, so a batch is much smaller, but large
enough for the speed of matrix products.
Where we differ: each column has its own step, and products that are made anyway show by what factor each step was too
long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from linspec import LinearOperator
from linspec.arrays import Array, Home, HostArray, to_host
from linspec.operators import DenseOperator, SparseOperator, uncounted
from linspec.sweeps import DEVICE_FACTOR, FEWEST_ROWS, KeptRows, Step, equal_slices, rows_at_once

STEPS = {"best": 0.5, "last": 1.0}
"""Steps of the inner iteration in units of 1/(L_b + r), for each kind of snapshot (measured). At
2/(L_b + r) the variance may grow. "best" has shorter steps, for less variance: its exact line search lengthens a
displacement that is too short."""

FEWEST_STEPS = 16
"""Least number of batches into which the rows are divided, even if larger batches would be faster."""

FEWEST_ENTRIES, MOST_ENTRIES = 2**13, 2**17
"""Least and largest number of entries in a batch: the least takes as long as the overhead of the interpreter, and the
largest fits into the cache of a core. A batch of sparse rows has at least as many entries as A has columns, because a
step updates all coefficients."""

FARTHEST = 1e6
"""A column of coefficients has diverged if an epoch moves it farther than FARTHEST times the sum of its safe steps.

The distance is measured in units of the norm of the column's gradient at the start of the epoch. No product is made
with the displacement of a column that has diverged."""

PROBES, POWERS = 8, 8
"""Columns and steps of the power iteration for the largest eigenvalue of a chunk of rows."""


@dataclass(frozen=True)
class StepLengths:
    """Step of each column, and number of rows in a batch.

    Attributes
    ----------
    snapshot : {"best", "last"}
    given : float or None
        The step, or None if the data determine it.
    given_batch : int or None
        The number of rows in a batch, or None if the data determine it.
    ridges : numpy.ndarray of shape (k,)
        The ridge of each column.
    largest : float
        The largest squared row norm.
    probes : numpy.ndarray of shape (p, PROBES)
        The start of the power iteration.
    batch : int
        The number of rows in a batch; 0 before rows have been read.
    safe, steps : numpy.ndarray of shape (k,)
        The steps that the data determine, and the steps in use; empty before rows have been read.
    diverged : bool
        Whether the objective of some column would have grown.
    """

    snapshot: str
    given: float | None
    given_batch: int | None
    ridges: HostArray
    largest: float
    probes: HostArray
    batch: int = 0
    safe: HostArray = field(default_factory=lambda: np.zeros(0))
    steps: HostArray = field(default_factory=lambda: np.zeros(0))
    diverged: bool = False

    def learnt(self, A: LinearOperator, rows: LinearOperator) -> StepLengths:
        """Return a copy with the batch size and steps that follow from the largest row norm and some random rows."""
        n = A.shape[0]
        curved = n / rows.shape[0] * largest_eigenvalue(rows, A.home.blocks.place(self.probes))
        batch = min(self.given_batch or choose_batch(A, curved, self.largest), n)
        bound = smoothness(curved, self.largest, n, batch) + self.ridges
        safe = np.divide(STEPS[self.snapshot], bound, out=np.zeros_like(bound), where=bound > 0)
        steps = safe if self.given is None else np.full_like(safe, self.given)
        return replace(self, batch=batch, safe=safe, steps=steps)

    def reach(self, rows: int) -> HostArray:
        """Return the limits, one for each column, above which an epoch that reads `rows` rows has diverged.

        The limits are for the length of a column's displacement over the epoch, divided by the norm of the gradient at
        its start. A limit is `FARTHEST` times the sum of the safe steps of the epoch. On average over random batches, a
        safe step does not lengthen the displacement of the steps before it, and adds at most its own length times the
        gradient at the start. So with safe steps the length of the displacement is at most about the sum of the steps,
        in units of this gradient.
        """
        reach: HostArray = self.safe * (FARTHEST * max(1.0, rows / self.batch))
        return reach

    def adapted(self, grew: HostArray, lengths: HostArray) -> StepLengths:
        """Return a copy with the steps of the next epoch.

        Steps from the data, with the snapshot "best", are multiplied by `lengths`, limited to factors from 1/2 to 2,
        and become at most the safe step. If the user has given the step, or with the snapshot "last", the steps of
        columns in `grew` are halved and become at most the safe step, and all other steps stay.

        Parameters
        ----------
        grew : numpy.ndarray of bool, shape (k,)
            Whether the objective of a column would have grown over the epoch.
        lengths : numpy.ndarray of shape (k,)
            The point of least objective on the line of a column's displacement, as a multiple of the displacement.
            Below 1, variance has limited the column; above 1, its steps were short.
        """
        steps, diverged = self.steps, self.diverged or bool(grew.any())
        if self.given is None and self.snapshot == "best":
            steps = np.minimum(steps * np.clip(lengths, 0.5, 2.0), self.safe)
        elif grew.any():
            steps = np.where(grew, np.minimum(steps / 2, self.safe), steps)
        return replace(self, steps=steps, diverged=diverged)


def smoothness(curved: float, largest: float, n: int, batch: int) -> float:
    """L_b, the least factor for which L_b AᵀA is guaranteed to bound E[H_S²], with the products H_S of random batches.

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
    """Number of rows in a batch: n R²/(2L), within the limits of fast products and of the least number of batches."""
    n = A.shape[0]
    entries, factor = max(A.nnz / n, 1.0), 1 if A.home.on_host else DEVICE_FACTOR
    fewest = max(FEWEST_ROWS, factor * FEWEST_ENTRIES / entries, A.shape[1] / entries)
    most = max(fewest, min(factor * MOST_ENTRIES / entries, rows_at_once(A)))
    wanted = n * largest / (2 * curved) if curved > 0 else fewest
    return int(max(1, min(max(wanted, fewest), most, n // FEWEST_STEPS)))


def largest_eigenvalue(rows: LinearOperator, V: Array) -> float:
    """Lower bound of λ_max(A_SᵀA_S) by the power method, from the block V."""
    home = rows.home.blocks
    xp = home.xp
    sizes = norms(V, home)
    for _ in range(POWERS):
        V = V * quotient(xp.ones_like(sizes), sizes, xp)[None, :]
        V = rows.rmatmat(rows.matmat(V))
        sizes = norms(V, home)
    return float(to_host(xp.max(sizes)))


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
    """Step that computes the results of `survey` on the machines that hold the rows, and leaves no new rows there.

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
        """Larger of two norms (not finite if either is not), and sum of the products."""
        return float(np.maximum(left[0], right[0])), left[1] + right[1]


def row_squares(rows: LinearOperator, Z: Array) -> Array:
    """Squared row norms. For data other than arrays and sparse matrices they are estimates, and the largest
    of them tends to be too large.

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


def norms(V: Array, home: Home) -> Array:
    """Euclidean norms of the columns, on their device."""
    return home.xp.sqrt(home.xp.sum(V * V, axis=0))


def quotient(a: Array, b: Array, xp: Any) -> Array:
    """a/b, or 0 if b is not positive."""
    safe = b > 0
    return xp.where(safe, a / xp.where(safe, b, xp.ones_like(b)), xp.zeros_like(b))
