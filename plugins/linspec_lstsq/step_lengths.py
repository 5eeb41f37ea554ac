"""Step length and batch size of stochastic gradients for least squares, from the data.

Problem: x ← x - h H_S e with H_S = (n/b) A_SᵀA_S on b random rows S has to converge, with steps as long as the variance
allows and batches as small as pays.
Method: with L = λ_max(AᵀA) and the largest row norm R, E[H_S²] ≼ L_b AᵀA and

    L_b = n(b-1)/(b(n-1)) L + (n-b)/(b(n-1)) n R²        (1)

(Gower et al. 2019, doi:10.48550/arXiv.1901.09401; Sebbouh et al. 2019, doi:10.48550/arXiv.1908.02725), and
1/(L_b + r) is a safe step. L comes from the first chunk of random rows, which on average overestimates it, and R from
the rows that have been met: steps become shorter before a longer row is used. A batch of n R²/L rows or more allows no
longer steps, so a batch is much smaller, but large enough for the speed of matrix products.
Where we differ: each column has its own step, and products that are made anyway show by what factor each step was too
long.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from linspec.arrays import Array, Home, HostArray, to_host

STEPS = {"best": 0.5, "last": 1.0}
"""Steps of the inner iteration in units of 1/(L_b + r), for each kind of snapshot (measured). At
2/(L_b + r) the variance may grow. "best" has shorter steps, for less variance: its exact line search lengthens a
displacement that is too short."""

FEWEST_STEPS = 16
"""Least number of batches into which the rows are divided, even if larger batches would be faster."""

FEWEST_ROWS = 32
"""Smallest number of rows of a batch: with fewer, calling a product would take longer than computing it."""

FEWEST_ENTRIES, MOST_ENTRIES = 2**13, 2**17
"""Least and largest number of entries in a batch: the least takes as long as the overhead of the interpreter, and the
largest fits into the cache of a core. A batch of sparse rows has at least as many entries as A has columns, because a
step updates all coefficients."""

FARTHEST = 1e6
"""A column of coefficients has diverged if an epoch moves it farther than FARTHEST times the sum of its safe steps, in
units of the norm of its gradient at the start. On average over random batches, safe steps move it no farther than about
their sum. No product is made with the displacement of a column that has diverged."""

PROBES, POWERS = 8, 8
"""Columns and steps of the power iteration for the largest eigenvalue of a chunk of rows."""


class StepLengths:
    """Step of each column, and number of rows in a batch, as rows are met.

    Parameters
    ----------
    snapshot : {"best", "last"}
    step : float or None
        The step; None: from the data.
    batch : int or None
        The rows of a batch; None: from the data.
    ridges : numpy.ndarray of shape (k,)
        The ridge of each column.
    n : int
        The number of rows.
    probes : array of shape (p, PROBES)
        The start of the power iteration.
    factor : int, default 1
        By how much larger batches are on a device.

    Attributes
    ----------
    safe, steps : numpy.ndarray of shape (k,)
        The steps that the data determine, and those in use.
    diverged : bool
        Whether the objective of some column would have grown.
    """

    def __init__(
        self,
        snapshot: str,
        step: float | None,
        batch: int | None,
        ridges: HostArray,
        n: int,
        probes: Array,
        factor: int = 1,
    ) -> None:
        self.snapshot, self.step, self.ridges, self.n = snapshot, step, ridges, n
        self.probes, self.factor, self.largest, self.diverged = probes, factor, 0.0, False
        self.curved, self.batch, self.asked = -1.0, 0, batch
        self.steps = np.full(len(ridges), np.inf if step is None else step)

    def meet(self, chunk: Any) -> None:
        """Learn from random rows before they are used."""
        row = float(to_host(chunk.row_squares()).max(initial=0.0))
        if self.curved >= 0 and row <= self.largest:
            return
        self.largest = max(self.largest, row)
        if self.curved < 0:
            self.curved = self.n / chunk.rows * largest_eigenvalue(chunk, self.probes)
            usual = choose_batch(
                self.n, chunk.entries / chunk.rows, self.probes.shape[0], self.curved, row, self.factor
            )
            self.batch = min(self.asked or usual, self.n)
        bound = smoothness(self.curved, self.largest, self.n, self.batch) + self.ridges
        self.safe = np.divide(STEPS[self.snapshot], bound, out=np.zeros_like(bound), where=bound > 0)
        if self.step is None:
            self.steps = np.minimum(self.steps, self.safe)

    def reach(self, rows: int) -> HostArray:
        """The length, in units of the gradient, above which an epoch of so many rows has diverged."""
        reach: HostArray = self.safe * (FARTHEST * max(1.0, rows / self.batch))
        return reach

    def adapt(self, grew: HostArray, lengths: HostArray) -> None:
        """Choose the steps of the next epoch.

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
        self.diverged = self.diverged or bool(grew.any())
        if self.step is None and self.snapshot == "best":
            self.steps = np.minimum(self.steps * np.clip(lengths, 0.5, 2.0), self.safe)
        else:
            self.steps = np.where(grew, np.minimum(self.steps / 2, self.safe), self.steps)


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
    return whole * curved + single * largest  # (1)


def choose_batch(n: int, entries: float, p: int, curved: float, largest: float, factor: int = 1) -> int:
    """Rows of a batch, n R²/(2L), within the limits of fast products and of the least number of batches.

    Parameters
    ----------
    n, p : int
    entries : float
        Stored entries of a row.
    curved, largest : float
        As for `smoothness`.
    factor : int, default 1
    """
    entries = max(entries, 1.0)
    fewest = max(FEWEST_ROWS, factor * FEWEST_ENTRIES / entries, p / entries)
    most = max(fewest, factor * MOST_ENTRIES / entries)
    wanted = n * largest / (2 * curved) if curved > 0 else fewest
    return int(max(1, min(max(wanted, fewest), most, n // FEWEST_STEPS)))


def largest_eigenvalue(chunk: Any, V: Array) -> float:
    """Lower bound of λ_max(A_SᵀA_S) by the power method, from the block V."""
    home = Home.of(V)
    sizes = home.column_norms(V)
    for _ in range(POWERS):
        scale = np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > 0)
        V = chunk.gram_product(V * home.place(scale)[None, :])
        sizes = home.column_norms(V)
    return float(sizes.max(initial=0.0))
