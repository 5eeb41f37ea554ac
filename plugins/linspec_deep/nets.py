"""Nets of fully connected layers with ReLU, evaluated by NumPy.

Problem: features of new rows and certificates of features are needed long after the training, perhaps where torch
is not installed.
Method: a net is a few arrays: a shift subtracted from rows, a scale that divides them, and weights and biases of the
layers. NumPy evaluates it in float64, whatever library trained it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from linspec.arrays import HostArray, to_host
from linspec.errors import InvalidProblem
from linspec.rows import Moments


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
        layers = zip(self.weights, self.biases, pairwise(self.sizes), strict=True)
        fits = all(W.shape == ends and b.shape == ends[1:] for W, b, ends in layers)
        if not (self.weights and fits and 0 < self.scale < math.inf):
            raise InvalidProblem("a net needs layers that follow one another, and a finite scale above 0.")
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

    @property
    def packed(self) -> HostArray:
        """All numbers in one vector, from which `of` makes the net again."""
        parts = [part.ravel() for layer in zip(self.weights, self.biases, strict=True) for part in layer]
        return np.concatenate([[len(self.sizes), *self.sizes], self.shift, [self.scale], *parts])

    @classmethod
    def of(cls, packed: HostArray | Net) -> Net:
        """Make a net from one vector; a net is returned as it is.

        Parameters
        ----------
        packed : numpy.ndarray or Net
        """
        if isinstance(packed, Net):
            return packed
        count = int(packed[0])
        sizes = packed[1 : count + 1].astype(int).tolist()
        rest = packed[count + 1 :]
        (layers,) = layers_of(rest[sizes[0] + 1 :].astype(np.float32), [sizes])
        weights, biases = zip(*layers, strict=True)
        return cls(rest[: sizes[0]], float(rest[sizes[0]]), weights, biases)


def layers_of(theta: Any, nets: Sequence[Sequence[int]]) -> list[list[tuple[Any, Any]]]:
    """Weights and biases of each layer of nets, as parts of one vector of NumPy or torch.

    Parameters
    ----------
    theta : array of shape (m,)
    nets : sequence of sequence of int
        Sizes of each net, as `Net.sizes`.
    """
    layers: list[list[tuple[Any, Any]]] = []
    end = 0
    for sizes in nets:
        layers.append([])
        for p, q in pairwise(sizes):
            first, end = end, end + (p + 1) * q
            layers[-1].append((theta[first : end - q].reshape(p, q), theta[end - q : end]))
    return layers


def counted_rows(
    moments: Moments, numbers: HostArray, i: int, sizes: Sequence[int], times: int = 1
) -> HostArray:
    """Rows of one matrix by their numbers, as they came, on the host; evaluations of a net on them are counted.

    Parameters
    ----------
    moments : Moments
    numbers : numpy.ndarray of int
    i : int
        The number of the matrix.
    sizes : sequence of int
        As `Net.sizes`.
    times : int, default 1
        The number of evaluations to count: 1 for features alone. Features and the gradient of a loss together cost
        about 3 evaluations.
    """
    batch, passes = moments.minibatch(numbers, i), moments.passes
    passes.columns += times * sizes[1] * batch.rows / batch.A.shape[0]
    passes.flops += 2.0 * times * batch.rows * sum(p * q for p, q in pairwise(sizes))
    return to_host(batch.block.dense())
