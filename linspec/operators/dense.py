"""Dense rows: arrays of any library, memory maps and `.npy` files, read block of rows by block of rows.

Reading by blocks has three purposes: integers and bools become floats one block at a time, never as a whole
copy; sums over rows are gathered in float64; and the pages of a file in memory are released after each block.

Centring. From a block of float64 rows, the mean is subtracted while the block is in the cache, which costs almost
nothing and cancels no digits. From a block of float32 rows, the mean rounded to float32 is subtracted, which loses no
more than storing the difference does. The remainder of the mean is so small that a rank-one correction of the product
subtracts it without loss.
"""

from __future__ import annotations

import mmap
from contextlib import suppress
from typing import Any

import numpy as np

from linspec.arrays import Array, DType, Home, HostArray, cast, host_dtype, plain_array, working_dtype
from linspec.blocks import Dense, Rows
from linspec.blocks.base import LONGEST_STRETCH
from linspec.errors import InvalidProblem, UnsupportedData
from linspec.operators.base import LinearOperator, Selection

COLUMNS_AT_ONCE = 16
"""Number of columns of a file in column order that are read before their pages are released."""


class DenseOperator(LinearOperator):
    """A two-dimensional array of any supported library.

    Parameters
    ----------
    array : array of shape (n, p)
        Integers, bools and floats; it is never modified.
    mean : array of shape (p,), optional
        Column means, which are subtracted from the entries of every block as it is read. This loses no digits, even if
        means are much larger than deviations. Products with A, corrected by the means afterwards, would be differences
        of nearly equal numbers.
    dtype : float32 or float64, optional
        The working dtype; by default the data's (`linspec.arrays.working_dtype`).

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.operators import DenseOperator
    >>> A = DenseOperator(np.array([[1, 2], [3, 4]]))
    >>> A.dtype, A.matmat(np.ones((2, 1))).ravel()
    (dtype('float64'), array([3., 7.]))
    """

    access = "rows"
    readable = True
    resident = True

    def __init__(self, array: Array, mean: Array | None = None, dtype: Any = None) -> None:
        array = array if type(array) is np.ndarray else plain_array(array)
        if array.ndim != 2:
            raise InvalidProblem(
                f"data must have two dimensions; got {array.ndim} with shape {tuple(array.shape)}. "
                "A vector is one column, `x[:, None]`, or one row, `x[None, :]`."
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
    def stored_array(self) -> Any:
        return None if self.mean is not None else self._source

    @property
    def stored_dtype(self) -> DType:
        return host_dtype(self.array)

    def in_dtype(self, dtype: DType) -> LinearOperator | None:
        """The same rows, converted block by block as they are multiplied."""
        return self if dtype == self.dtype else type(self)(self._source, self.mean, dtype)

    @property
    def _as_stored(self) -> bool:
        """Whether the array itself can be multiplied: in memory, with no conversion and no centring."""
        return self.resident and self.mean is None and self.stored_dtype == self.dtype

    def _loaded(self, name: str) -> Rows:
        rows = Dense(self._source, name)
        rows.less = self.mean
        return rows

    def _matmat(self, V: Array) -> Array:
        return self.array @ self.home.place(V, self.dtype) if self._as_stored else super()._matmat(V)

    def _rmatmat(self, U: Array) -> Array:
        once = self._as_stored and (self.dtype == np.float64 or self.shape[0] <= LONGEST_STRETCH)
        return self.home.blocks.place(self.array.T @ U) if once else super()._rmatmat(U)

    def _rows(self, selection: Selection) -> LinearOperator:
        if isinstance(selection, slice) or isinstance(self.array, np.ndarray):
            # For a view of some columns of a wider array, NumPy's take would copy all rows first.
            return DenseOperator(self.array[selection, :], self.mean, self.dtype)
        index = self.home.xp.asarray(selection, device=self.home.device)
        return DenseOperator(self.home.xp.take(self.array, index, axis=0), self.mean, self.dtype)

    def _dense(self) -> Array:
        if self.mean is None:
            return cast(self.array, self.dtype)
        return self.home.place(next(self.loaded().blocks()).about(None).dense(), self.dtype)

    @property
    def H(self) -> LinearOperator:
        """The adjoint operator, as the transposed view of the array."""
        return super().H if self.mean is not None else self._like(self._source.T)

    def _like(self, array: Array, mean: Array | None = None) -> DenseOperator:
        return type(self)(array, mean, self.dtype)

    @property
    def _source(self) -> Array:
        return self.array


class MappedOperator(DenseOperator):
    """Rows of a memory-mapped file: after each block the pages that were read are released.

    Pages of a map that have been read count as resident memory until they are released. Without the release, the
    memory of a sweep would grow to the size of the file.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> np.save("rows.npy", np.arange(6.0).reshape(3, 2))
    >>> A = ls.as_operator("rows.npy")
    >>> type(A).__name__, A.matmat(np.ones((2, 1))).ravel()
    ('MappedOperator', array([1., 5., 9.]))
    """

    resident = False

    def __init__(self, array: HostArray, mean: Array | None = None, dtype: Any = None) -> None:
        super().__init__(array, mean, dtype)
        self._mapped = array
        self._map = memory_map(array)
        self._end = _end_in_file(array)
        self._check_length()

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the position in the file instead of the entries, if the file has a name."""
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
        """Release the pages that sweeps have touched, if the system can; raise if the file was cut."""
        if self._map is not None:
            self._check_length()
            if hasattr(mmap, "MADV_DONTNEED"):
                with suppress(OSError):  # a file system that cannot do it
                    self._map.madvise(mmap.MADV_DONTNEED)

    def _check_length(self) -> None:
        """Raise an error if the file has been cut since it was mapped.

        Beyond the new end of the file, bytes up to the end of the page read as zeros; reading a later page ends the
        process by a signal. So the length is checked before and after a block is read. If another file took the name
        of this one, the old file is still mapped.
        """
        try:
            size = self._map.size() if self._map is not None else self._end
        except (OSError, ValueError):  # a map that keeps no hold on its file
            return
        if size < self._end:
            raise InvalidProblem(
                f"{getattr(self._mapped, 'filename', None) or 'a mapped file'} has become shorter while it is in use: "
                f"{size} of {self._end} bytes are left. Write another file and rename it, and leave one that is read "
                "as it is."
            )

    def _rows(self, selection: Selection) -> LinearOperator:
        self._check_length()
        down, across = self.array.strides
        if down >= across or self.shape[1] <= COLUMNS_AT_ONCE or self._map is None:
            return super()._rows(selection)
        # Each column is contiguous in the file, so a block of rows touches one place for each column, and the system
        # may map some megabytes around each.
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
    """The memory map of which an array is a view, if its pages can be released without loss; else None.

    None for a copy-on-write map, too: its pages hold a user's changes, which a release would drop.
    """
    mode = None
    while isinstance(array, np.ndarray):
        mode = getattr(array, "mode", None) or mode
        array = array.base
    known = isinstance(array, mmap.mmap) and mode in ("r", "r+", "w+")
    return array if known else None


def _end_in_file(array: HostArray) -> int:
    """Number of bytes that the file of a mapped array must have; 0 for an array that is not mapped."""
    whole = _whole(array)
    return int(whole.offset + whole.nbytes) if isinstance(whole, np.memmap) else 0


def _whole(array: HostArray) -> HostArray:
    """The array at the root of a chain of views."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _place_in_file(array: HostArray) -> tuple[Any, ...] | None:
    """Arguments of `_at_place` that map the entries of an array again; None if the file has no name."""
    whole = _whole(array)
    if not isinstance(whole, np.memmap) or whole.filename is None:
        return None
    start = array.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    mode = "r" if whole.mode == "r" else "r+"  # "w+" would empty the file
    extent = (str(whole.filename), mode, whole.offset, whole.nbytes)
    return (*extent, start, array.shape, array.dtype, array.strides)


def _at_place(
    filename: str, mode: Any, offset: int, size: int, start: int, shape: Any, dtype: Any, strides: Any
) -> HostArray:
    """Map a file again, and return the array at a byte offset `start` within the map."""
    whole = np.memmap(filename, np.uint8, mode, offset, (size,))
    return np.ndarray(shape, dtype, whole, start, strides)
