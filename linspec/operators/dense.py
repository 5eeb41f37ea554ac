"""Dense rows: arrays of any library, memory maps and `.npy` files, read block of rows by block of rows.

Blocks keep three promises at once: integers and bools become floats one block at a time, never as a whole
copy; sums over rows are gathered in float64; and what a file has brought into memory is given back after
each block.

Centring. A block of float64 rows has the mean subtracted while it lies in the cache, which costs nearly
nothing there and cancels nothing. A block of float32 rows has the mean rounded to float32 subtracted, which
loses no more than storing the difference does; what the rounding of the mean left over is so small that a
rank-one correction of the product takes it out without harm.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from linspec.arrays import Array, Home, HostArray, cast, host_dtype, working_dtype
from linspec.errors import InvalidProblem, UnsupportedData
from linspec.operators.base import CenteredOperator, LinearOperator, Selection
from linspec.operators.row_blocks import RowBuffer, longest_stretch, row_blocks

COLUMNS_AT_ONCE = 16
"""Columns of a file in column order that are read before their pages are given back."""


class DenseOperator(LinearOperator):
    """A two-dimensional array of any supported library.

    Parameters
    ----------
    array : array of shape (n, p)
        Integers, bools and floats; it is never modified.
    mean : array of shape (p,), optional
        Column means taken out of every block as it is read: exact where a rank-one correction of the product
        would cancel.
    dtype : float32 or float64, optional
        The working dtype; by default the data's (`linspec.arrays.working_dtype`).
    """

    sliceable = True
    readable = True

    _ready = False  # whether rows were copied into an order that BLAS takes

    def __init__(self, array: Array, mean: Array | None = None, dtype: Any = None) -> None:
        array = _unadorned(array)
        if array.ndim != 2:
            raise InvalidProblem(
                f"data must have two dimensions; got {array.ndim} with shape {tuple(array.shape)}. "
                "Reshape it: one vector is `x.reshape(-1, 1)`."
            )
        self.array = array
        self.shape = (int(array.shape[0]), int(array.shape[1]))
        self.dtype = working_dtype(host_dtype(array)) if dtype is None else np.dtype(dtype)
        self.home = Home.of(array)
        if self.dtype == np.float64 and self.home.blocks != self.home:
            raise UnsupportedData(
                f"data of dtype {host_dtype(array)} need float64, which their device does not have. Convert them to "
                "float32, or move them to the host."
            )
        if mean is not None and tuple(mean.shape) != (self.shape[1],):
            raise InvalidProblem(f"a column mean needs shape ({self.shape[1]},); got {tuple(mean.shape)}.")
        self.mean = None if mean is None else self.home.blocks.place(mean)

    @property
    def stored_dtype(self) -> np.dtype[Any]:
        return host_dtype(self.array)

    def in_dtype(self, dtype: np.dtype[Any]) -> LinearOperator | None:
        """The same rows, converted block by block where they are multiplied."""
        return self if dtype == self.dtype else type(self)(self._source, self.mean, dtype)

    @property
    def row_bytes(self) -> int:
        """Bytes of one row in the working dtype."""
        return self.shape[1] * self.dtype.itemsize

    @property
    def plain(self) -> bool:
        """Whether the array itself can be multiplied: no conversion, no centring, no copy inside BLAS."""
        return self.mean is None and self._as_stored

    @property
    def _as_stored(self) -> bool:
        stored = self.array.dtype
        if isinstance(self.array, np.ndarray):
            return self._ready or (bool(stored == self.dtype) and _fits_blas(self.array))
        return bool(stored == getattr(self.home.xp, self.dtype.name))

    def loaded(self, buffer: RowBuffer | None = None) -> LinearOperator:
        """The same rows converted and centred once; they are all read, so let them be few."""
        if self.plain:
            return self
        coarse = None if self.mean is None else self.home.place(self.mean, self.dtype)
        block = _ready_made((buffer or RowBuffer()).less(self.array, coarse, self.dtype, self.home))
        if coarse is None or self.dtype == np.float64:
            return block
        return CenteredOperator(block, self.mean - self.home.blocks.place(coarse))

    def _blocks(self) -> Iterator[tuple[slice, LinearOperator]]:
        """Row slices and the rows themselves, made ready to be multiplied before the next are read."""
        buffer = RowBuffer()
        for rows in row_blocks(self.shape[0], self.row_bytes, self.home):
            yield rows, self._piece(rows).loaded(buffer)
            self.release()

    def _piece(self, rows: slice) -> LinearOperator:
        return DenseOperator(self.array[rows, :], self.mean, self.dtype)

    @property
    def _at_once(self) -> bool:
        """Whether the whole array can be multiplied in one piece."""
        return self.plain

    def _matmat(self, V: Array) -> Array:
        if self._at_once:
            return self.array @ self.home.place(V, self.dtype)
        product = self.home.zeros((self.shape[0], V.shape[1]), self.dtype)
        for rows, block in self._blocks():
            product[rows, :] = block.matmat(V)
        return product

    def _rmatmat(self, U: Array) -> Array:
        if self._at_once and (self.dtype == np.float64 or self.shape[0] <= longest_stretch(self.home)):
            return self.home.blocks.place(self.array.T @ U)
        total = self.home.blocks.zeros((self.shape[1], U.shape[1]))
        for rows, block in self._blocks():
            total += block.rmatmat(U[rows, :])
        return total

    def _rows(self, selection: Selection) -> LinearOperator:
        if isinstance(selection, slice):
            return DenseOperator(self.array[selection, :], self.mean, self.dtype)
        index = self.home.xp.asarray(selection, device=self.home.device)
        return DenseOperator(self.home.xp.take(self.array, index, axis=0), self.mean, self.dtype)

    def _dense(self) -> Array:
        if self.mean is None:
            return cast(self.array, self.dtype)
        entries = self.home.zeros(self.shape, self.dtype)
        for rows, block in self._blocks():
            entries[rows, :] = block.dense()
        return entries

    @property
    def H(self) -> LinearOperator:
        """The adjoint operator, as the transposed view of the array."""
        return super().H if self.mean is not None else self._like(self._source.T)

    @property
    def bare(self) -> LinearOperator:
        """The same rows with nothing taken out."""
        return self if self.mean is None else self._like(self._source)

    def _like(self, array: Array, mean: Array | None = None) -> DenseOperator:
        return type(self)(array, mean, self.dtype)

    @property
    def _source(self) -> Array:
        return self.array

    def centered(self, mean: Array) -> LinearOperator:
        """A − 1 meanᵀ, taken out of each block as it is read."""
        mean = self.home.blocks.place(mean)
        return self._like(self._source, mean if self.mean is None else mean + self.mean)


def _ready_made(block: Array) -> DenseOperator:
    """An operator on rows that are ready to be multiplied."""
    operator = DenseOperator(block)
    operator._ready = True
    return operator


def _unadorned(array: Array) -> Array:
    """A NumPy array of the base class; arrays of other libraries as they are."""
    if isinstance(array, np.ma.MaskedArray):
        raise UnsupportedData(
            "data must not be masked: the mask would be ignored. Fill the gaps, `data.filled(value)`."
        )
    return np.asarray(array) if isinstance(array, np.ndarray) else array


def _fits_blas(array: HostArray) -> bool:
    """Whether BLAS can take the array as it lies: aligned, and without gaps along one axis."""
    step = array.itemsize
    (n, p), (down, across) = array.shape, array.strides
    # The stride of an axis of length one is never taken and may be anything.
    by_rows = (across == step or p == 1) and down % step == 0 and (down >= p * step or n == 1)
    by_columns = (down == step or n == 1) and across % step == 0 and (across >= n * step or p == 1)
    return array.flags.aligned and (by_rows or by_columns)


class MappedOperator(DenseOperator):
    """Rows of a memory-mapped file: after each block the pages read are given back.

    Pages of a map that have been touched count as resident memory until they are released, so a sweep
    without this would grow to the size of the file.
    """

    def __init__(self, array: HostArray, mean: Array | None = None, dtype: Any = None) -> None:
        super().__init__(array, mean, dtype)
        self._mapped = array
        self._map = memory_map(array)

    def __getstate__(self) -> dict[str, Any]:
        """The place in the file in place of the entries, where the file has a name."""
        state = dict(self.__dict__)
        place = _place_in_file(self._mapped) if self._map is not None else None
        if place is not None:
            state["_mapped"] = state["array"] = state["_map"] = None
        return {**state, "_place": place}

    def __setstate__(self, state: dict[str, Any]) -> None:
        place = state.pop("_place")
        self.__dict__.update(state)
        if place is not None:
            self._mapped = _at_place(*place)
            self.array = np.asarray(self._mapped)
        self._map = memory_map(self._mapped)

    def release(self) -> None:
        """Return the pages that sweeps have touched."""
        if self._map is not None:
            self._map.madvise(mmap.MADV_DONTNEED)

    @property
    def _at_once(self) -> bool:
        return False

    def _piece(self, rows: slice) -> LinearOperator:
        return self.rows(rows)

    def _rows(self, selection: Selection) -> LinearOperator:
        down, across = self.array.strides
        if down >= across or self.shape[1] <= COLUMNS_AT_ONCE or self._map is None:
            return super()._rows(selection)
        # Columns lie one after the other, so a block touches the file in as many places as there are columns,
        # and the system may map some megabytes around each.
        count = len(self.array[selection, :1])
        block = np.empty((count, self.shape[1]), self.array.dtype, order="F")
        for start in range(0, self.shape[1], COLUMNS_AT_ONCE):
            columns = slice(start, start + COLUMNS_AT_ONCE)
            block[:, columns] = self.array[selection, columns]
            self.release()
        return DenseOperator(block, self.mean, self.dtype)

    @property
    def _source(self) -> Array:
        return self._mapped


def memory_map(array: Any) -> mmap.mmap | None:
    """The file's map under an array, where releasing its pages loses nothing; None where there is none.

    A copy-on-write map keeps a user's changes in the very pages that a release would drop: it is left alone.
    """
    mode = None
    while isinstance(array, np.ndarray):
        mode = getattr(array, "mode", None) or mode
        array = array.base
    known = isinstance(array, mmap.mmap) and mode in ("r", "r+", "w+")
    return array if known and hasattr(mmap, "MADV_DONTNEED") else None


def _place_in_file(array: HostArray) -> tuple[Any, ...] | None:
    """Where in which file the entries of a mapped array lie; None where the file has no name."""
    whole = array
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    if not isinstance(whole, np.memmap) or whole.filename is None:
        return None
    start = array.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    mode = "r" if whole.mode == "r" else "r+"  # "w+" would empty the file
    extent = (str(whole.filename), mode, whole.offset, whole.nbytes)
    return (*extent, start, array.shape, array.dtype, array.strides)


def _at_place(
    filename: str, mode: Any, offset: int, size: int, start: int, shape: Any, dtype: Any, strides: Any
) -> HostArray:
    """Map a file again, and take an array of it."""
    whole = np.memmap(filename, np.uint8, mode, offset, (size,))
    return np.ndarray(shape, dtype, whole, start, strides)


def open_npy(path: str | Path) -> MappedOperator:
    """The rows of a `.npy` file, mapped and never loaded whole.

    Raises
    ------
    InvalidProblem
        When the file is missing, truncated or empty, or is no `.npy` file of numbers.
    """
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InvalidProblem(
            f"{path} cannot be read as the rows of a .npy file: {error}. Write it with numpy.save."
        ) from error
    if not isinstance(array, np.ndarray):
        array.close()
        raise InvalidProblem(f"{path} holds several arrays. Load it, and pass one of them.")
    return MappedOperator(array)
