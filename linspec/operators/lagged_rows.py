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
from linspec.blocks.lagged import Lagged, chosen_runs, cut_runs
from linspec.errors import InvalidProblem, UnsupportedData, shown
from linspec.operators.base import Derived, LinearOperator, Selection
from linspec.operators.dense import DenseOperator
from linspec.operators.opening import as_operator

__all__ = ["LaggedOperator", "lagged"]


class LaggedOperator(Derived):
    """Windows of the rows of an operator.

    Parameters
    ----------
    operator : LinearOperator of shape (m, p)
    lags : numpy.ndarray of int, of shape (L,)
    runs : numpy.ndarray of int, of shape (r, 4)
        As for `linspec.blocks.lagged.LaggedBlock`.
    """

    def __init__(self, operator: LinearOperator, lags: HostArray, runs: HostArray) -> None:
        rows = int((runs[:, 1] - runs[:, 0]).sum())
        super().__init__(operator, (rows, operator.shape[1] * len(lags)))
        self.lags, self.runs, self.resident = lags, runs, operator.resident
        self.rows_together, self.buffer_bytes = operator.rows_together, operator.buffer_bytes

    def needed(self, runs: HostArray) -> tuple[Array, HostArray]:
        """The rows of the source that windows of some runs meet, and the runs by their numbers among these."""
        A = self.operator
        if self.resident:
            return (A.dense() if A.stored_array is None else A.stored_array), runs
        first = np.clip(runs[:, 0] - max(self.lags.max(), 0), runs[:, 2], runs[:, 3])
        last = np.clip(runs[:, 1] - min(self.lags.min(), 0), runs[:, 2], runs[:, 3])
        ranges = [np.arange(a, b) for a, b in zip(first, last, strict=True)]
        numbers = np.unique(np.concatenate([np.arange(0), *ranges]))
        together = len(numbers) == int(numbers.max(initial=-1)) - int(numbers.min(initial=0)) + 1
        chosen: Any = slice(numbers[0], numbers[-1] + 1) if together and len(numbers) else numbers
        shift = np.searchsorted(numbers, first) - first
        moved = np.column_stack([runs[:, 0], runs[:, 1], first, last]) + shift[:, None]
        return A.rows(chosen).dense(), moved

    def in_blocks(self, name: str = "data") -> Rows:
        return self._facts(Lagged(self, name))

    def _loaded(self, name: str) -> Rows:
        array, runs = self.needed(self.runs)
        return Lagged(LaggedOperator(DenseOperator(array, dtype=self.dtype), self.lags, runs), name)

    def _rows(self, selection: Selection) -> LinearOperator:
        if isinstance(selection, slice):
            runs = cut_runs(self.runs, selection.start, selection.stop)
        else:
            runs = chosen_runs(self.runs, selection)
        twin = LaggedOperator(self.operator, self.lags, runs)
        twin.dtype = self.dtype
        return twin

    def _dense(self) -> Array:
        pieces = [block.dense() for block in self.loaded().pieces()]
        empty = self.device.zeros((0, self.shape[1]), self.dtype)
        return self.device.xp.concat([empty, *(self.device.asarray(X, self.dtype) for X in pieces)], axis=0)


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
    numbers = np.atleast_1d(np.asarray(list(lags) if hasattr(lags, "__iter__") else lags))
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or len({*numbers.tolist()}) < max(len(numbers), 1):
        raise InvalidProblem(f"lags must be different integers, in rows; got {shown(lags)}. Pass range(50), or a list.")
    labels = np.zeros(n, int) if epochs is None else to_host(epochs)
    if labels.shape != (n,):
        raise InvalidProblem(f"epochs must have a label for each of the {n} rows; got shape {labels.shape}.")
    edges = np.concatenate([np.arange(min(n, 1)) * 0, np.flatnonzero(labels[1:] != labels[:-1]) + 1, [n]])
    begin, end = edges[:-1], edges[1:]
    windows = LaggedOperator(A, numbers.astype(np.int64), np.column_stack([begin, end, begin, end]))
    windows.with_names_of(A).column_names = None
    if A.column_names is not None:
        windows.column_names = tuple(f"{name}@{lag}" for lag in numbers.tolist() for name in A.column_names)
    return windows
