"""Lagged rows: row t is the window (x_{t-l}) of some lags l side by side, and is never stored.

Problem: the response of electrodes to a stimulus comes late, and is sought at many lags at once (temporal response
functions). A matrix of all lags takes as many times the memory of the data, and does not see that its columns are
copies of each other.
Method: an operator holds the rows, the lags, and runs of neighbouring rows of one epoch each. Windows never cross the
border of an epoch. Blocks multiply shifted rows, and form Gram matrices by their structure (`linspec.blocks.lagged`).
Rows of files are read as they are needed: those of a block, and the lags before and after them.
Source: Crosse, Di Liberto, Bednar & Lalor 2016, doi:10.3389/fnhum.2016.00604.
Where we differ: columns are ordered by lags, then channels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from linspec.arrays import Array, HostArray, to_host
from linspec.blocks import Rows
from linspec.blocks.lagged import Lagged
from linspec.errors import InvalidProblem, UnsupportedData, shown
from linspec.operators.base import Derived, LinearOperator, Selection
from linspec.operators.opening import as_operator

__all__ = ["LaggedOperator", "lagged"]


class LaggedOperator(Derived):
    """Windows of the rows of an operator.

    Parameters
    ----------
    operator : LinearOperator of shape (m, p)
    lags : numpy.ndarray of int, of shape (L,)
    edges : numpy.ndarray of int, of shape (e + 1,)
        The first row of each epoch, and m.
    numbers : numpy.ndarray of int, of shape (n,)
        The rows at lag 0.
    """

    def __init__(
        self, operator: LinearOperator, lags: HostArray, edges: HostArray, numbers: HostArray
    ) -> None:
        super().__init__(operator, (len(numbers), operator.shape[1] * len(lags)))
        self.lags, self.edges, self.numbers, self.resident = lags, edges, numbers, operator.resident

    def windows(self, numbers: HostArray) -> tuple[Array, HostArray]:
        """The rows of the windows of some rows, with zeros outside of their epochs, and where each window begins."""
        span = int(np.ptp(self.lags))
        epoch = np.searchsorted(self.edges, numbers, "right")
        begins = np.flatnonzero(
            np.diff(numbers + epoch, prepend=-1) != 1
        )  # of runs of neighbours in one epoch
        lengths = np.diff(begins, append=len(numbers))
        first = np.arange(len(numbers)) + np.repeat(span * np.arange(len(begins)), lengths)
        start = numbers[begins] - self.lags.max() - first[begins]
        ends = [start, self.edges[epoch[begins] - 1], self.edges[epoch[begins]]]
        start, begin, end = np.repeat(ends, lengths + span, axis=1)
        wanted = start + np.arange(len(start))
        rows = self.operator.rows(np.clip(wanted, begin, end - 1)).dense()
        inside = (wanted >= begin) & (wanted < end)
        xp, zero = self.device.xp, self.device.zeros((1, 1), self.operator.dtype)
        return xp.where(xp.asarray(inside[:, None], device=self.device.native), rows, zero), first

    def in_blocks(self, name: str = "data") -> Rows:
        return self.loaded(name)

    def _loaded(self, name: str) -> Rows:
        return Lagged(self, name)

    def _rows(self, selection: Selection) -> LinearOperator:
        return LaggedOperator(self.operator, self.lags, self.edges, self.numbers[selection])

    def _dense(self) -> Array:
        entries = self.loaded().take(np.arange(self.shape[0])).dense()
        return self.device.asarray(entries, self.dtype)


def lagged(X: Any, lags: Any, epochs: Any = None) -> LaggedOperator:
    """Rows that are windows of the rows of X at some lags, which are multiplied without a copy for each lag.

    Row t is (x_{t-l₁}, ..., x_{t-l_L}), side by side. It has zeros where t - l is outside of the epoch of t. Gram
    matrices take p² operations a row for each difference of two lags, and not for each pair.

    Parameters
    ----------
    X : data of shape (n, p)
        Dense data that `linspec.as_operator` takes: arrays, frames, memory maps, files of `linspec.open_rows`.
    lags : sequence of int, of shape (L,)
        In rows; positive ones look back, negative ones ahead.
    epochs : array of shape (n,), optional
        A label of each row, such as the number of its trial. An epoch is a run of rows with equal labels, and no
        window crosses its border. By default all rows are one epoch.

    Returns
    -------
    LinearOperator of shape (n, p L)
        Column i p + j is channel j at lag i. If columns of X have names, it is named "channel@lag". Some rows of it,
        as ``A[50:]``, keep what came before them.

    Raises
    ------
    InvalidProblem
        The lags are not different integers, or there is not a label for each row.
    UnsupportedData
        X is sparse, comes in slices, or is known by its products.

    Notes
    -----
    Weights of rows break the structure: Gram matrices then take as long as those of all pairs of lags.
    `linspec.labelled` names the channels of an array.

    References
    ----------
    Crosse, Di Liberto, Bednar & Lalor 2016, doi:10.3389/fnhum.2016.00604.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> x = np.array([[1.0], [2.0], [3.0], [4.0]])
    >>> ls.lagged(x, [0, 1], epochs=[0, 0, 1, 1]).dense()
    array([[1., 0.],
           [2., 1.],
           [3., 0.],
           [4., 3.]])

    The response of a sensor that follows its stimulus two rows later:

    >>> x = np.random.default_rng(0).standard_normal((500, 1))
    >>> y = 3 * np.append(np.zeros((2, 1)), x[:-2], axis=0)
    >>> ls.solve(ls.LeastSquares(ls.lagged(x, range(4)), y)).x.round(6).ravel().tolist()
    [0.0, 0.0, 3.0, 0.0]
    """
    A = as_operator(X, "X")
    if A.access != "rows" or not A.readable or A.sparse:
        raise UnsupportedData(
            f"lagged rows are made of dense rows that can be read by number; got {A!r}. Pass an array, a memory map, or "
            "a file by linspec.open_rows."
        )
    n = A.shape[0]
    numbers = np.asarray(lags)
    integers = numbers.ndim == 1 and numbers.dtype.kind in "iu"
    if not integers or not numbers.size or len(np.unique(numbers)) < numbers.size:
        raise InvalidProblem(
            f"lags must be different integers, in rows; got {shown(lags)}. Pass range(50), or a list."
        )
    labels = np.zeros(n, int) if epochs is None else to_host(epochs)
    if labels.shape != (n,):
        raise InvalidProblem(f"epochs must have a label for each of the {n} rows; got shape {labels.shape}.")
    edges = np.array([0, *np.flatnonzero(labels[1:] != labels[:-1]) + 1, n])
    windows = LaggedOperator(A, numbers.astype(np.int64), edges, np.arange(n)).with_names_of(A)
    names = A.column_names or ()
    named = [f"{name}@{lag}" for lag in numbers.tolist() for name in names]
    windows.column_names = tuple(named) or None
    return windows
