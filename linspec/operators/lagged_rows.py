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

from linspec.arrays import Array, HostArray
from linspec.blocks import Rows
from linspec.blocks.lagged import Lagged
from linspec.errors import InvalidProblem, UnsupportedData, shown
from linspec.frames import check_order, entries_of_labels
from linspec.operators.base import Derived, LinearOperator, Selection
from linspec.operators.opening import as_operator

__all__ = ["LaggedOperator", "lagged"]


class LaggedOperator(Derived):
    """Windows of the rows of an operator.

    Parameters
    ----------
    operator : LinearOperator of shape (m, p)
    places : dict of int to slice, of length L
        Where in a window the row at each lag is, and its columns.
    numbers : numpy.ndarray of int
        Rows of the operator, with -1 for zeros before and after each epoch.
    first : numpy.ndarray of int, of shape (n,)
        Where among the numbers the window of each row begins.
    """

    def __init__(
        self, operator: LinearOperator, places: dict[int, slice], numbers: HostArray, first: HostArray
    ) -> None:
        super().__init__(operator, (len(first), operator.shape[1] * len(places)))
        self.places = places
        self.numbers = numbers
        self.first = first
        self.resident = operator.resident
        self.gram_share = min(2 / len(places), 1.0)

    def in_blocks(self, name: str = "data") -> Rows:
        return self.loaded(name)

    def _loaded(self, name: str) -> Rows:
        return Lagged(self, name)

    def _rows(self, selection: Selection) -> LinearOperator:
        return LaggedOperator(self.operator, self.places, self.numbers, self.first[selection])

    def _dense(self) -> Array:
        return self.device.asarray(self.loaded().take(np.arange(self.shape[0])).dense(), self.dtype)


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
        The lags are not different integers; there is not a label for each row; or X and epochs have the same row labels
        in different orders.
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
    >>> ls.solve(ls.LeastSquares(ls.lagged(x, range(4)), y)).x.ravel().round().astype(int)
    array([0, 0, 3, 0])
    """
    A = as_operator(X, "X")
    if A.access != "rows" or not A.readable or A.sparse:
        raise UnsupportedData(
            f"lagged rows are made of dense rows that can be read by number; got {A!r}. Pass an array, a memory map, "
            "or a file by linspec.open_rows."
        )
    n, p = A.shape
    numbers = np.asarray(lags)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or not 0 < len({*numbers}) == numbers.size:
        raise InvalidProblem(
            f"lags must be different integers, in rows; got {shown(lags)}. Pass range(50), or a list."
        )
    check_order({"X": A, "epochs": epochs})
    labels = np.zeros(n, int) if epochs is None else entries_of_labels(epochs, "epochs", n)
    steps = numbers.tolist()
    high = max(steps)
    gap = max(map(abs, steps))
    epoch = np.cumsum(np.append(True, labels[1:] != labels[:-1]))[:n]
    at = np.arange(n) + gap * epoch
    rows = np.full(at.max(initial=0) + gap + 1, -1)
    rows[at] = np.arange(n)
    places = {high - lag: slice(i * p, (i + 1) * p) for i, lag in enumerate(steps)}
    windows = LaggedOperator(A, places, rows, at - high).with_names_of(A)
    if A.column_names is not None:
        windows.column_names = tuple(f"{name}@{lag}" for lag in steps for name in A.column_names)
    return windows
