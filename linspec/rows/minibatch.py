"""Some rows of a preprocessed matrix, for methods that use a few rows in each step.

Problem: rows S that are chosen by their numbers should count exactly as they do in a pass over all rows: with weights,
about the means, without confounds, and scaled.
Method: with what the passes have learnt of all rows, each row is √w (x - m - s b) F, so that

    X̃_SᵀX̃_S V = F (X_S - 1mᵀ - B_S sᵀ)ᵀ D_S U,   U = (X_S - 1mᵀ - B_S sᵀ) F V.    (1)

Rows are subtracted where the kind of data can do that, else their terms of rank one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from linspec.arrays import Array, HostArray
from linspec.blocks.base import Block, Rows
from linspec.rows.passes import Passes
from linspec.rows.preprocessing import Fitted, Preprocessing

__all__ = ["DEVICE_FACTOR", "Minibatch", "Origins", "equal_slices", "random_order", "rows_at_once"]

CHUNK_BYTES, DEVICE_FACTOR = 4 << 20, 64
"""Bytes of the rows that are read at once, and how many times as much keeps a device busy."""


class Origins(NamedTuple):
    """The rows that X V and Xᵀ U of a matrix are about; None is 0."""

    times: HostArray | None
    adjoint: HostArray | None


class Terms:
    """What minibatches subtract, placed once for all of a matrix: a row, gaps to the means, and slopes.

    Parameters
    ----------
    A : Rows
    pre : Preprocessing
    fitted : Fitted
    origins : Origins
    """

    def __init__(self, A: Rows, pre: Preprocessing, fitted: Fitted, origins: Origins) -> None:
        asarray = A.device.blocks.asarray
        self.about = None if origins.times is None else A.thin(origins.times)
        self.slopes = None if fitted.slopes is None else asarray(fitted.slopes)
        self.gaps = [asarray(fitted.gap(row)) for row in origins] if pre.center else None


class Minibatch:
    """Some rows of one preprocessed matrix, in memory.

    Parameters
    ----------
    A : Rows
    block : Block
        The rows as they came.
    pre : Preprocessing
    fitted : Fitted
        What was learnt from all rows.
    terms : Terms
    numbers : numpy.ndarray of int
        Of the rows.
    passes : Passes

    Attributes
    ----------
    rows : int
    """

    def __init__(
        self,
        A: Rows,
        block: Block,
        pre: Preprocessing,
        fitted: Fitted,
        terms: Terms,
        numbers: HostArray,
        passes: Passes,
    ) -> None:
        asarray = A.device.blocks.asarray
        self.A, self.block, self.fitted, self.passes, self.rows = A, block, fitted, passes, len(numbers)
        self.about, self.gaps = terms.about, terms.gaps
        self.slopes: Any = terms.slopes  # with B
        self.entries = block.entries
        self.current: tuple[slice, Block] | None = None
        self.w = None if pre.w is None else asarray(pre.w[numbers])
        self.B = None if pre.B is None else asarray(pre.B[numbers])

    def gram_product(self, V: Array, some: slice = slice(None)) -> Array:
        """Compute (1) for these rows, or for some of them."""
        return self.adjoint_images(self.images(V, some), some)

    def images(self, V: Array, some: slice = slice(None)) -> Array:
        """Compute U of (1) times √D, for these rows, or for some of them."""
        A, device, V = self.A, self.A.device.blocks, self.fitted.scaled(V)
        U = device.asarray(self._some(some, V.shape[1]).times(A.thin(V)))
        if self.gaps is not None:
            U = U - (self.gaps[0] @ V)[None, :]
        if self.B is not None:
            U = U - self.B[some, :] @ (self.slopes.T @ V)
        return self._weighted(U, some)

    def adjoint_images(self, U: Array, some: slice = slice(None)) -> Array:
        """Compute the first factor of (1), with √D in place of D, times U for these rows, or for some of them."""
        A, device, U = self.A, self.A.device.blocks, self._weighted(U, some)
        P = device.zeros((A.shape[1], U.shape[1]))
        self._some(some, U.shape[1]).t_times(A.thin(U), P)
        if self.gaps is not None:
            P = P - self.gaps[1][:, None] * device.column_sums(U)[None, :]
        if self.B is not None:
            P = P - self.slopes @ (self.B[some, :].T @ U)
        P = self.fitted.scaled(P)
        return P if self.fitted.live is None else P * device.asarray(self.fitted.live)[:, None]

    def column_squares(self, some: slice = slice(None)) -> Array:
        """Sums of squares of the columns over these rows, or over some of them, with what confounds explain."""
        w = None if self.w is None else self.w[some]
        _, squares = self._some(some, 0).sums(w, squares=True, exact=True)
        return self.fitted.scaled(self.fitted.scaled(self.A.device.blocks.asarray(squares)[:, None]))

    def _some(self, some: slice, columns: int) -> Block:
        """Some rows as they are multiplied, which is counted; they are kept until others are asked for."""
        if self.current is None or self.current[0] != some:
            start, stop, _ = some.indices(self.rows)
            self.current = some, self.block.cut(start, stop).about(self.about)
        block = self.current[1]
        self.passes.columns += columns * block.rows / self.A.shape[0]
        self.passes.flops += 2.0 * columns * block.entries
        return block

    def _weighted(self, U: Array, some: slice) -> Array:
        return U if self.w is None else U * self.A.device.blocks.xp.sqrt(self.w[some])[:, None]

    def row_squares(self, D: Array | None = None) -> Array:
        """Squared lengths of the preprocessed rows, with their weights, in the metric of a diagonal."""
        device, f = self.A.device.blocks, self.fitted
        factors = f.live if f.factors is None else f.factors**2
        if factors is not None:
            D = device.asarray(factors) if D is None else device.asarray(factors) * D
        block = self.block.cut(0, self.rows).about(self.about)
        squares = block.row_squares(D)
        if self.B is not None:
            S = self.slopes if D is None else self.slopes * D[:, None]
            images = device.asarray(block.times(self.A.thin(S)))
            squares = squares + device.xp.sum(self.B * (self.B @ (self.slopes.T @ S) - 2 * images), axis=1)
            squares = device.xp.where(squares > 0, squares, device.zeros(tuple(squares.shape)))
        return squares if self.w is None else squares * self.w


def equal_slices(n: int, size: int) -> Iterator[slice]:
    """Slices of about `size` numbers that together cover n; their lengths differ by at most one.

    Examples
    --------
    >>> from linspec.rows import equal_slices
    >>> [(some.start, some.stop) for some in equal_slices(10, 3)]
    [(0, 3), (3, 6), (6, 10)]
    """
    count = max(1, round(n / size))
    for i in range(count):
        yield slice(n * i // count, n * (i + 1) // count)


def rows_at_once(A: Rows) -> int:
    """Number of rows that are read at once: a few megabytes."""
    block = next(iter(A.blocks()))
    numbers = CHUNK_BYTES * (1 if A.device.on_host else DEVICE_FACTOR) // A.dtype.itemsize
    return int(numbers * block.rows // max(block.entries, 1))


def random_order(numbers: HostArray, rng: np.random.Generator, size: int, together: int = 1) -> HostArray:
    """Numbers of rows in random order, of which `equal_slices` of `size` are read at once.

    Rows of files come in runs of neighbours, as many as are read `together`; the order within a slice is random.
    """
    if together == 1:
        return rng.permutation(numbers)
    runs = np.split(numbers, range(together, len(numbers), together))
    order = np.concatenate([runs[i] for i in rng.permutation(len(runs))])
    return np.concatenate([rng.permutation(order[S]) for S in equal_slices(len(order), size)])
