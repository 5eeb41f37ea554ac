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

from linspec.arrays import Array, Device, DType, HostArray, cast, host_dtype, plain_array, working_dtype
from linspec.blocks import Dense, Rows
from linspec.blocks.base import LONGEST_STRETCH
from linspec.errors import InvalidProblem, UnsupportedData
from linspec.operators.base import LinearOperator, Selection


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
            working_dtype(host_dtype(array))  # records and texts are no vectors
            vector = "A vector with a number for each row is one column, `x[:, None]`, and one row is `x[None, :]`."
            raise InvalidProblem(
                f"data must have two dimensions; got {array.ndim} with shape {tuple(array.shape)}. "
                f"{vector if array.ndim < 2 else 'Make each entry of the first axis a row: `x.reshape(len(x), -1)`.'}"
            )
        self.array = self._source = array
        self.shape = (int(array.shape[0]), int(array.shape[1]))
        self.device, self._stored_dtype = Device.of(array), host_dtype(array)
        self.dtype = working_dtype(self._stored_dtype) if dtype is None else np.dtype(dtype)
        if self.dtype == np.float64 and self.device.blocks != self.device:
            raise UnsupportedData(
                f"data of dtype {self._stored_dtype} need float64, which their device does not have. Convert them to "
                "float32, or move them to the host."
            )
        self.mean = None if mean is None else self.device.blocks.asarray(mean)

    @property
    def stored_array(self) -> Any:
        return None if self.mean is not None else self._source

    def in_dtype(self, dtype: DType) -> LinearOperator | None:
        """The same rows, converted block by block as they are multiplied."""
        return self if dtype == self.dtype else type(self)(self._source, self.mean, dtype)

    @property
    def _as_stored(self) -> bool:
        """Whether the array itself can be multiplied: in memory, with no conversion and no centring."""
        # By its name: bfloat16 counts as stored in float32.
        return self.resident and self.mean is None and self.dtype.name in str(self.array.dtype)

    def _loaded(self, name: str) -> Rows:
        rows = Dense(self._source, name)
        rows.less = self.mean
        return rows

    def _matmat(self, V: Array) -> Array:
        return self.array @ self.device.asarray(V, self.dtype) if self._as_stored else super()._matmat(V)

    def _rmatmat(self, U: Array) -> Array:
        once = self._as_stored and (self.dtype == np.float64 or self.shape[0] <= LONGEST_STRETCH)
        return self.device.blocks.asarray(self.array.T @ U) if once else super()._rmatmat(U)

    def _rows(self, selection: Selection) -> LinearOperator:
        if isinstance(selection, slice) or isinstance(self.array, np.ndarray):
            # For a view of some columns of a wider array, NumPy's take would copy all rows first.
            return DenseOperator(self.array[selection, :], self.mean, self.dtype)
        index = self.device.xp.asarray(selection, device=self.device.native)
        return DenseOperator(self.device.xp.take(self.array, index, axis=0), self.mean, self.dtype)

    def _dense(self) -> Array:
        if self.mean is None:
            return cast(self.array, self.dtype)
        return self.device.asarray(next(self.loaded().blocks()).about(None).dense(), self.dtype)


class MappedOperator(DenseOperator):
    """Rows of a memory-mapped file: after each block the pages that were read are released.

    Pages of a map that have been read count as resident memory until they are released. Without the release, the
    memory of a pass would grow to the size of the file.

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
        self._source = array
        whole = array
        while isinstance(whole.base, np.ndarray):
            whole = whole.base
        self._end = int(whole.offset + whole.nbytes) if isinstance(whole, np.memmap) else 0
        self._check_length()

    @property
    def _map(self) -> mmap.mmap | None:
        """The map of the file; None of entries that were copied, as to another process."""
        return memory_map(self._source)

    def release(self) -> None:
        """Release the pages that passes have touched, if the system can; raise if the file was cut."""
        pages = self._map
        if pages is not None:
            self._check_length()
            with suppress(OSError, AttributeError):  # a system, or a file system, that cannot do it
                pages.madvise(mmap.MADV_DONTNEED)

    def _check_length(self) -> None:
        """Raise an error if the file has been cut since it was mapped.

        Beyond the new end of the file, bytes up to the end of the page read as zeros; reading a later page ends the
        process by a signal. So the length is checked before and after a block is read. If another file took the name
        of this one, the old file is still mapped.
        """
        pages, size = self._map, self._end
        with suppress(OSError, ValueError):  # a map that keeps no hold on its file
            size = size if pages is None else pages.size()
        if size < self._end:
            raise InvalidProblem(
                f"{getattr(self._source, 'filename', None) or 'a mapped file'} has become shorter while it is in use: "
                f"{size} of {self._end} bytes are left. Write another file and rename it, and leave one that is read "
                "as it is."
            )

    def _rows(self, selection: Selection) -> LinearOperator:
        self._check_length()
        return super()._rows(selection)


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
