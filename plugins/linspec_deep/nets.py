"""Nets of fully connected layers with ReLU, evaluated by NumPy.

Problem: features of new rows and certificates of features are needed long after the training, perhaps where torch
is not installed.
Method: a net is a few arrays: a shift subtracted from rows, a scale that divides them, and weights and biases of the
layers. NumPy evaluates it in float64, whatever library trained it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from linspec.arrays import HostArray, to_host
from linspec.errors import InvalidProblem
from linspec.operators import LinearOperator, uncounted
from linspec.sweeps import equal_slices, rows_at_once


@dataclass(frozen=True, eq=False, repr=False)
class Net:
    """Map from rows with p columns to k features: linear layers with ReLU between them.

    Parameters
    ----------
    shift : numpy.ndarray of shape (p,)
        Subtracted from each row, in the units of the data.
    scale : float
        Divisor of rows after that.
    weights, biases : sequences of numpy.ndarray
        Arrays of each layer, of shapes (columns, next columns) and (next columns,). The arrays become read-only.
    """

    shift: HostArray
    scale: float
    weights: tuple[HostArray, ...]
    biases: tuple[HostArray, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", tuple(self.weights))
        object.__setattr__(self, "biases", tuple(self.biases))
        sizes = [len(self.shift), *(W.shape[1] for W in self.weights)]
        fits = all(
            W.shape == (before, after) and b.shape == (after,)
            for W, b, before, after in zip(self.weights, self.biases, sizes[:-1], sizes[1:], strict=True)
        )
        if not (self.weights and fits and math.isfinite(self.scale) and self.scale > 0):
            shapes = ", ".join(str(W.shape) for W in self.weights) or "no layers"
            raise InvalidProblem(
                f"a net of {len(self.shift)} columns needs layers that follow one another and a scale above 0; got "
                f"{shapes} and scale {self.scale}."
            )
        for array in (self.shift, *self.weights, *self.biases):
            array.flags.writeable = False

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of columns of the rows, of each hidden layer, and of the features."""
        return (len(self.shift), *(W.shape[1] for W in self.weights))

    def __call__(self, rows: HostArray) -> HostArray:
        """Features of rows.

        Parameters
        ----------
        rows : numpy.ndarray of shape (n, p)

        Returns
        -------
        numpy.ndarray of shape (n, k), float64
        """
        H = (np.asarray(rows, dtype=np.float64) - self.shift) / self.scale
        last = len(self.weights) - 1
        for layer, (W, b) in enumerate(zip(self.weights, self.biases, strict=True)):
            H = H @ W.astype(np.float64) + b
            if layer < last:
                np.maximum(H, 0.0, out=H)
        return H

    def __repr__(self) -> str:
        return f"Net({'-'.join(map(str, self.sizes))})"


def side_by_side(
    views: Sequence[LinearOperator], nets: Sequence[Net | None] = ()
) -> Iterator[tuple[int, list[HostArray]]]:
    """Rows of several matrices, in parts, as arrays of the host: one sweep.

    Parameters
    ----------
    views : sequence of LinearOperator
        Matrices with readable entries and equally many rows.
    nets : sequence of Net, optional
        If given, features of the rows are computed instead, and their cost is counted.

    Yields
    ------
    int
        Index of the first row.
    list of numpy.ndarray
        For each matrix its rows, or their features.
    """
    n = int(views[0].shape[0])
    for chosen in equal_slices(n, min(rows_at_once(A) for A in views)):
        found = [
            entries(A.rows(chosen), net) for A, net in zip(views, nets or [None] * len(views), strict=True)
        ]
        yield chosen.start, found
        for A in views:
            A.release()


def entries(rows: LinearOperator, net: Net | None = None) -> HostArray:
    """Entries of rows on the host, or their features by a net.

    Parameters
    ----------
    rows : LinearOperator
    net : Net, optional
        Its cost is counted for the operator of the rows.
    """
    found: HostArray = to_host(rows.dense())
    if net is None:
        return found
    count(rows, net.sizes)
    return net(found)


def count(rows: LinearOperator, sizes: Sequence[int], *, times: int = 1) -> None:
    """Count evaluations of a net on rows as products with the operator of these rows.

    The products and their flops are added to the counter of the operator, its `linspec.operators.Ledger`.

    Parameters
    ----------
    rows : LinearOperator
    sizes : sequence of int
        As `Net.sizes`.
    times : int, default 1
        The number of evaluations to count: 1 for features alone. Features and the gradient of a loss together cost
        about 3 evaluations.
    """
    bare, ledger = uncounted(rows)
    pairs = sum(a * b for a, b in pairwise(sizes))
    ledger.record(bare, times * sizes[1], flops=2.0 * times * bare.shape[0] * pairs)
