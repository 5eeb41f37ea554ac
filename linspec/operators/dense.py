"""Dense rows: arrays of any library, memory maps and `.npy` files, read block of rows by block of rows.

Blocks keep three promises at once: integers and bools become floats one block at a time, never as a whole
copy; sums over rows are gathered in float64; and what a file has brought into memory is given back after
each block.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from linspec.arrays import Array, Home, cast, host_dtype, working_dtype
from linspec.errors import InvalidProblem
from linspec.operators.base import LinearOperator, Selection

HOST_BLOCK_BYTES = 8 << 20
"""A block that stays in the cache of a processor core (measured best between 1.5 and 12 MiB)."""

DEVICE_BLOCK_BYTES = 256 << 20
"""A block large enough to keep an accelerator busy."""


def row_blocks(n: int, row_bytes: int, home: Home) -> Iterator[slice]:
    """Slices of at most one block's bytes that together cover `n` rows."""
    target = HOST_BLOCK_BYTES if home.on_host else DEVICE_BLOCK_BYTES
    size = max(256, target // max(row_bytes, 1))
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


class DenseOperator(LinearOperator):
    """A two-dimensional array of any supported library.

    Parameters
    ----------
    array : array of shape (n, p)
        Integers, bools and floats; it is never modified.
    mean : array of shape (p,), optional
        Column means taken out of every block as it is read, in float64: exact where a rank-one
        correction of the product would cancel.
    """

    sliceable = True
    readable = True

    def __init__(self, array: Array, mean: Array | None = None) -> None:
        if array.ndim != 2:
            raise InvalidProblem(
                f"data must have two dimensions; got {array.ndim} with shape {tuple(array.shape)}. "
                "Reshape it: one vector is `x.reshape(-1, 1)`."
            )
        self.array = array
        self.shape = (int(array.shape[0]), int(array.shape[1]))
        self.dtype = working_dtype(host_dtype(array))
        self.home = Home.of(array)
        self.mean = None if mean is None else self.home.blocks.place(mean)

    @property
    def row_bytes(self) -> int:
        """Bytes of one row in the working dtype."""
        return self.shape[1] * self.dtype.itemsize

    @property
    def plain(self) -> bool:
        """Whether the array itself is the operator: no conversion, no centring."""
        return self.mean is None and host_dtype(self.array) == self.dtype

    def block(self, rows: slice) -> Array:
        """The rows of one slice in the working dtype, centred."""
        block = self.array[rows, :]
        if self.mean is None:
            return cast(block, self.dtype)
        home = self.home.blocks
        return self.home.place(home.place(block) - self.mean[None, :], self.dtype)

    def _blocks(self) -> Iterator[tuple[slice, Array]]:
        if self.plain and self.dtype == np.float64:
            yield slice(0, self.shape[0]), self.array
            return
        for rows in row_blocks(self.shape[0], self.row_bytes, self.home):
            yield rows, self.block(rows)
            self.release()

    def _matmat(self, V: Array) -> Array:
        V = self.home.place(V, self.dtype)
        if self.plain:
            return self.array @ V
        product = self.home.zeros((self.shape[0], V.shape[1]), self.dtype)
        for rows, block in self._blocks():
            product[rows, :] = block @ V
        return product

    def _rmatmat(self, U: Array) -> Array:
        total = self.home.blocks.zeros((self.shape[1], U.shape[1]))
        for rows, block in self._blocks():
            total += self.home.blocks.place(block.T @ self.home.place(U[rows, :], self.dtype))
        return total

    def _rows(self, selection: Selection) -> LinearOperator:
        if isinstance(selection, slice):
            return DenseOperator(self.array[selection, :], self.mean)
        index = self.home.xp.asarray(selection, device=self.home.device)
        return DenseOperator(self.home.xp.take(self.array, index, axis=0), self.mean)

    def _dense(self) -> Array:
        return self.block(slice(0, self.shape[0]))

    def centered(self, mean: Array) -> LinearOperator:
        """A − 1 meanᵀ, taken out of each block as it is read."""
        mean = self.home.blocks.place(mean)
        return type(self)(self.array, mean if self.mean is None else mean + self.mean)


class MappedOperator(DenseOperator):
    """Rows of a memory-mapped file: after each block the pages read are given back.

    Pages of a map that have been touched count as resident memory until they are released, so a sweep
    without this would grow to the size of the file.
    """

    def __init__(self, array: np.memmap[Any, Any], mean: Array | None = None) -> None:
        super().__init__(np.asarray(array), mean)
        self._source = array
        self._map = _memory_map(array)

    def release(self) -> None:
        """Return the pages that sweeps have touched."""
        if self._map is not None:
            self._map.madvise(mmap.MADV_DONTNEED)

    def _blocks(self) -> Iterator[tuple[slice, Array]]:
        for rows in row_blocks(self.shape[0], self.row_bytes, self.home):
            yield rows, self.block(rows)
            self.release()

    def _matmat(self, V: Array) -> Array:
        V = self.home.place(V, self.dtype)
        product = np.empty((self.shape[0], V.shape[1]), self.dtype)
        for rows, block in self._blocks():
            product[rows, :] = block @ V
        return product

    def centered(self, mean: Array) -> LinearOperator:
        """A − 1 meanᵀ, taken out of each block as it is read."""
        mean = self.home.blocks.place(mean)
        return MappedOperator(self._source, mean if self.mean is None else mean + self.mean)


def _memory_map(array: Any) -> mmap.mmap | None:
    """The map under `array`, where releasing its pages loses nothing.

    A copy-on-write map keeps a user's changes in the very pages that a release would drop: it is left alone.
    """
    if getattr(array, "mode", "c") == "c" or not hasattr(mmap, "MADV_DONTNEED"):
        return None
    while array is not None and not isinstance(array, mmap.mmap):
        array = getattr(array, "base", None)
    return array


def open_npy(path: str | Path) -> MappedOperator:
    """The rows of a `.npy` file, mapped and never loaded whole.

    Raises
    ------
    InvalidProblem
        When the file is missing, truncated, or holds pickled objects.
    """
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InvalidProblem(f"{path} cannot be read as a .npy array: {error}") from error
    return MappedOperator(array)
