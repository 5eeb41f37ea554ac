"""Subsampled randomized Hadamard transform.

Problem: a test matrix without structure costs l multiply-adds for each entry of dense data. A fully structured one
can miss data of the same structure.
Method: Ω = D H S: random signs of the rows, the Walsh-Hadamard matrix, and l of its columns chosen at random. With the
signs, the transform spreads every vector evenly over the coordinates, so a sample of these is enough. The transform of
a row costs of the order of p log p.
Source: Ailon and Chazelle 2009, doi:10.1137/060673096; Tropp 2011, doi:10.1142/S1793536911000787.
Where we differ: the transform is made of products with its Kronecker factors, Hadamard matrices of order up to 64. This
costs the flops of a few more stages, but in matrix products, for every array library. Sparse data are not transformed,
which would make them dense. They are multiplied by the entries themselves, (−1)^(number of ones in i AND j).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec import TestMatrix
from linspec.arrays import Array, Device, HostArray, with_device
from linspec.operators import LinearOperator, Sketch

LARGEST_FACTOR = 6
"""The binary logarithm of the largest factor's order."""


@dataclass(frozen=True, kw_only=True)
class SRHT(TestMatrix):
    """Test matrix D H S with entries ±1: random signs, Walsh-Hadamard matrix, and a sample of its columns."""

    def operator(self, rows: int, columns: int, rng: np.random.Generator) -> Sketch:
        """Make the matrix.

        Parameters
        ----------
        rows, columns : int
            Its shape.
        rng : numpy.random.Generator
            The source of the signs and the sample.

        Returns
        -------
        Sketch, shape (rows, columns)
            It holds a sign for each row, and for each column the index of a column of the Walsh-Hadamard matrix H. The
            order of H is the least power of two that is at least `rows` and at least `columns`, because `columns`
            different columns of H are chosen. A vector with `rows` entries is multiplied as if zeros were appended up
            to the order of H. If the order of H is `rows`, the columns are exactly orthogonal, with squared norm
            `rows`.
        """
        order = 1 << (max(rows, columns, 1) - 1).bit_length()
        signs = rng.integers(0, 2, rows) * 2.0 - 1.0
        sample = rng.choice(order, columns, replace=False)
        return HadamardSketch(signs, sample, order)


class HadamardSketch(Sketch):
    """The product D H S of signs, Hadamard matrix and sample.

    Parameters
    ----------
    signs : numpy.ndarray of shape (p,)
        The diagonal of D.
    sample : numpy.ndarray of shape (l,)
        The indices of the columns of H.
    order : int
        The order of H, a power of two.
    """

    def __init__(self, signs: HostArray, sample: HostArray, order: int) -> None:
        self.shape = len(signs), len(sample)
        self.signs, self.sample, self.order = signs, sample, order

    @property
    def entries(self) -> HostArray:
        """The entries, which are computed where no transform is made."""
        return self.signs[:, None] * hadamard(np.arange(self.shape[0]), self.sample)

    @with_device
    def sketch(self, A: LinearOperator) -> Any:
        if A.sparse or not A.readable:
            return super().sketch(A)
        return A.device.xp.concat(
            [self._transformed(X.array, A.device, A.dtype) for X in A.in_blocks().pieces()], axis=0
        )

    def _transformed(self, x: Array, device: Device, dtype: Any) -> Array:
        x = x * device.asarray(self.signs, dtype)[None, :]
        if self.order > x.shape[1]:
            x = device.xp.concat([x, device.zeros((x.shape[0], self.order - x.shape[1]), dtype)], axis=1)
        x = transformed(x[:, :, None], device, dtype)[:, :, 0]
        return device.xp.take(x, device.xp.asarray(self.sample, device=device.native), axis=1)


def hadamard(rows: HostArray, columns: HostArray) -> HostArray:
    """Return the entries of the Walsh-Hadamard matrix, ±1, in the given rows and columns.

    Parameters
    ----------
    rows, columns : numpy.ndarray of int
        Their indices, from 0.

    Returns
    -------
    numpy.ndarray of shape (len(rows), len(columns)), float64
    """
    ones = np.bitwise_count(rows[:, None] & columns[None, :])
    return 1.0 - 2.0 * (ones & 1)


def transformed(x: Array, device: Device, dtype: Any = np.float64) -> Array:
    """Compute the Walsh-Hadamard transform along the middle axis, whose length is a power of two; not normalised.

    Parameters
    ----------
    x : array of shape (a, q, b)
    device : Device
        The place of x.
    dtype : numpy.dtype, default float64
        The dtype of x.

    Returns
    -------
    array of shape (a, q, b)
    """
    shape = tuple(x.shape)
    order, right = shape[1:]
    if x.size == 0:  # no shape can be inferred
        return x
    bits = order.bit_length() - 1
    factors = -(-bits // LARGEST_FACTOR)
    for i in range(factors):
        # Factors as equal as possible: a factor of 2 would take as many passes over the data as one of 64.
        m = 1 << (bits * (i + 1) // factors - bits * i // factors)
        H = device.asarray(hadamard(np.arange(m), np.arange(m)), dtype)
        order //= m
        if order * right == 1:  # one product instead of one for each row
            x = device.xp.reshape(x, (-1, m)) @ H
        else:
            x = device.xp.matmul(H, device.xp.reshape(x, (-1, m, order * right)))
    return device.xp.reshape(x, shape)
