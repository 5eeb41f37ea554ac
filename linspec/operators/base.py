"""The operator interface: a matrix that can be multiplied by a thin block.

The block product is the primitive: `matmat` multiplies a p x k block, `rmatmat` an n x k block by the
adjoint, and a vector is a block of one column. Row slices (`rows`) and entries (`dense`) are separate
capabilities, which not every operator has; `access` and `readable` record which it has.

Precision. `matmat` returns the operator's working dtype, the dtype of its n rows. `rmatmat` is a sum
over the rows and returns float64, so that long sums of float32 products lose nothing.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any, Literal, Self

import numpy as np

from linspec.arrays import (
    HOST,
    Array,
    Device,
    DType,
    HostArray,
    host_dtype,
    is_array,
    on_device,
    to_host,
    with_device,
    working_dtype,
)
from linspec.blocks import Block, ByProducts, Dense, Rows
from linspec.blocks.base import RUN_BYTES, row_blocks
from linspec.errors import InvalidProblem, MissingCapability, shown
from linspec.frames import RowNames
from linspec.process.pauses import pause

Selection = slice | HostArray
Access = Literal["products", "rows", "slices", "blocks"]


class LinearOperator:
    """An n x p matrix known by its products with thin blocks.

    A subclass sets `shape`, `dtype` and, where its arrays are not NumPy's, `device`, and defines
    `_matmat` and `_rmatmat`; their blocks have been checked and moved to the right device. It may define `_rows` (and
    set `access` to "rows") and `_dense` (and set `readable`), and set `_stored_dtype`, `_nnz`, and `_converts` if its
    entries are converted to `dtype` where they are multiplied.

    Attributes
    ----------
    shape : tuple of int
        (n, p).
    dtype : numpy.dtype
        float32 or float64: the dtype of the products.
    device : Device
        The library and device of n-row blocks; float64 p x k blocks are in `device.blocks`.
    access : {"products", "rows", "slices", "blocks"}
        How rows are reached: only in products with the whole matrix; by the method `rows`; in order, by the method
        `blocks`, where the number of rows is `math.inf` until it is known; in blocks that stay on workers.
    readable : bool
        Whether `dense` can return the entries.
    sparse : bool
        Whether zeros are not stored: means and confounds are then subtracted from products, not from entries.
    streamed : bool
        Whether rows are reached only in a pass: in slices or blocks.
    gathers : bool
        Whether a few rows can be selected by their numbers, as minibatches need.
    readings : float
        Number of times that the rows can be read: 1 for an iterator of slices, infinity for all other data.
    rows_together : int
        Number of neighbouring rows that are best read together, such as those of a chunk of a file; 1 in memory.
    buffer_bytes, decoded_bytes : int
        Bytes that reading the rows takes beside the blocks, and that every pass decodes anew; 0 in memory.
    resident : bool
        Whether the entries are in memory.
    column_names : tuple of str or None
        The names of the columns of a frame; None for other data, and for sums, products and parts of operators.
    row_names : sequence or None
        The labels of the rows: the index of a pandas frame, unless it only counts the rows.
    row_index : sequence or None
        `row_names`, or an index that only counts the rows. Two matrices with the same labels in different orders are
        not paired.
    frame_library : str
        The library of the frame that the data came from, "" for other data.
    lacks : (float, float) or None
        Of few rows that stand for many (`linspec.HeldMoments`): bounds of the norm and of the trace of what their Gram
        matrix lacks. None for rows as they came.
    gram_share : float
        The share of the operations of a dense Gram matrix that its own takes: below 1 where it has a structure.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> A = np.random.default_rng(0).standard_normal((200, 10)) * np.geomspace(10, 1, 10)
    >>> operator = ls.as_operator(A)
    >>> operator.shape, operator.dtype
    ((200, 10), dtype('float64'))
    >>> bool(np.allclose(operator.matmat(np.eye(10)), A))
    True
    """

    shape: tuple[int, int]
    dtype: DType
    device: Device = HOST
    access: Access = "products"
    readable: bool = False
    sparse: bool = False
    readings: float = math.inf
    rows_together: int = 1
    buffer_bytes: int = 0
    decoded_bytes: int = 0
    resident: bool = False
    column_names: tuple[str, ...] | None = None
    row_names: Any = None
    row_index: Any = None
    frame_library: str = ""
    lacks: tuple[float, float] | None = None
    gram_share: float = 1.0
    _stored_dtype: DType | None = None
    _nnz: int | None = None
    _converts = False

    __array_ufunc__ = None  # NumPy numbers and arrays leave `2 * A` and `x @ A` to the methods below

    @property
    def streamed(self) -> bool:
        """Whether rows are reached only in a pass: in slices or blocks."""
        return self.access in ("slices", "blocks")

    @property
    def gathers(self) -> bool:
        """Whether a few rows can be selected by their numbers, as minibatches need."""
        return self.access in ("rows", "blocks")

    def _matmat(self, V: Array) -> Array:
        """Return A V, in the working dtype at `device`, for V (p x k), float64 at `device.blocks`."""
        return self._products("_matmat").matmat(V)

    def _rmatmat(self, U: Array) -> Array:
        """Return Aᵀ U, float64 at `device.blocks`, for U (n x k) in the working dtype at `device`."""
        return self._products("_rmatmat").rmatmat(U)

    def _products(self, name: str) -> Rows:
        """The rows, by which data that can be read are multiplied."""
        if self.readable or self.streamed:
            return self.in_blocks()
        raise NotImplementedError(f"{type(self).__name__} must define {name}: its rows cannot be read")

    def _rows(self, selection: Selection) -> LinearOperator:
        """The rows that a slice of step 1, or an array of numbers from 0 to n - 1, selects."""
        raise NotImplementedError(f'{type(self).__name__} has access "rows" and defines no _rows')

    def _dense(self) -> Array:
        """The entries, in the working dtype at `device`; by default those of all rows."""
        return self.device.asarray(self._rows(slice(0, self.shape[0])).dense(), self.dtype)

    # ---- public methods -----------------------------------------------------------------------

    @property
    def nnz(self) -> int:
        """The number of stored entries: the cost of a product with one column, in multiply-adds."""
        return self.shape[0] * self.shape[1] if self._nnz is None else self._nnz

    @property
    def row_bytes(self) -> int:
        """The bytes that a row takes when it is read, in the working dtype."""
        n, p = self.shape
        return int(min(p * self.dtype.itemsize, self.nnz * (self.dtype.itemsize + 4) // max(n, 1) + 1))

    def matmat(self, V: Array) -> Array:
        """A V.

        Parameters
        ----------
        V : array of shape (p, k)

        Returns
        -------
        array of shape (n, k), in the operator's working dtype
        """
        with on_device(self):
            self._check_block(V, self.shape[1], "matmat")
            pause()
            return self._matmat(self.device.blocks.asarray(V))

    def rmatmat(self, U: Array) -> Array:
        """Aᵀ U.

        Parameters
        ----------
        U : array of shape (n, k)

        Returns
        -------
        array of shape (p, k), float64
        """
        with on_device(self):
            self._check_block(U, self.shape[0], "rmatmat")
            pause()
            return self._rmatmat(self.device.asarray(U, self.dtype))

    def rows(self, selection: Selection) -> LinearOperator:
        """The rows that a slice or an integer array selects, as an operator.

        Parameters
        ----------
        selection : slice, or array of integers
            Negative numbers count from the end. Rows are returned in the given order; a number that is given twice
            selects its row twice.

        Raises
        ------
        MissingCapability
            When the operator is known by its products only.
        InvalidProblem
            When a row number is out of range.
        """
        self._check_rows()
        pause()
        with on_device(self):
            return self._rows(_selected(selection, self.shape[0]))

    def __getitem__(self, selection: Selection) -> LinearOperator:
        """Some rows, with their labels: a slice, or an array of row numbers.

        Nothing is read: rows of files are read from the file where they are needed. Rows in memory are a view or a
        copy.

        Parameters
        ----------
        selection : slice, or array of integers
            As for `rows`.

        Returns
        -------
        LinearOperator

        Raises
        ------
        MissingCapability, InvalidProblem
            As `rows` does.

        Examples
        --------
        >>> import numpy as np
        >>> import linspec as ls
        >>> np.save("rows.npy", np.arange(10.0).reshape(5, 2))
        >>> rows = ls.open_rows("rows.npy")
        >>> rows[:-2].shape, rows[-2:].dense().tolist()
        ((3, 2), [[6.0, 7.0], [8.0, 9.0]])
        """
        self._check_rows()
        return named_rows(self, _selected(selection, self.shape[0]))

    @with_device
    def dense(self) -> Array:
        """The n x p entries in the working dtype, at `device`: perhaps the data themselves, so do not modify them.

        Raises
        ------
        MissingCapability
            When the operator is known by its products only.
        """
        if not self.readable:
            raise MissingCapability(
                f"{type(self).__name__} is known by its products only; pass an array, a sparse matrix or a file, "
                "or choose a solver that does not need the entries."
            )
        return self._dense()

    @property
    def stored_dtype(self) -> DType:
        """The dtype in which the entries are stored; the dtype of the products if that is unknown."""
        return self.dtype if self._stored_dtype is None else self._stored_dtype

    @property
    def rounded_dtype(self) -> DType:
        """The dtype to which entries were rounded: float32 if they are stored so, else the dtype of products."""
        return self.stored_dtype if self.stored_dtype == np.float32 else self.dtype

    @property
    def stored_array(self) -> Any:
        """The array, memory map or sparse matrix that holds exactly these rows, or None."""
        return None

    def in_memory(self, most: float) -> LinearOperator:
        """The same rows held in memory, if reading a file as a whole takes less time than reading it in parts.

        Parameters
        ----------
        most : float
            The largest number of bytes that the rows may take.

        Returns
        -------
        LinearOperator
            This operator itself if nothing is gained, or if the rows would take more than `most` bytes.
        """
        return self

    def in_dtype(self, dtype: DType) -> LinearOperator | None:
        """The same matrix with products in another working dtype; None if that is not possible."""
        if dtype == self.dtype or not self._converts:
            return self if dtype == self.dtype else None
        twin = copy.copy(self)
        twin.dtype = np.dtype(dtype)
        return twin

    def with_names_of(self, other: LinearOperator) -> Self:
        """Copy the names of columns and rows from another operator, and return this one."""
        self.column_names = other.column_names
        self.row_names, self.row_index = other.row_names, other.row_index
        self.frame_library = other.frame_library
        return self

    def blocks(self) -> Iterator[LinearOperator]:
        """The rows of streamed data, block by block; a block is valid until the next one is requested.

        Raises
        ------
        MissingCapability
            When the data are not streamed.
        SweptOnce
            When the rows could be read only once, and have been read.
        """
        raise MissingCapability(f"{type(self).__name__} is not read slice by slice; take `rows` or products.")

    def in_blocks(self, name: str = "data") -> Rows:
        """The same rows in blocks, as solvers compute with them; of products alone, one block that cannot be cut.

        Parameters
        ----------
        name : str, default "data"
            The name of the data in messages.

        Examples
        --------
        >>> import numpy as np
        >>> import linspec as ls
        >>> from linspec.rows import Moments
        >>> rows = ls.as_operator(np.array([[1.0, 2.0], [3.0, 4.0]])).in_blocks()
        >>> Moments([rows]).images(np.ones((2, 1))).tolist()
        [[3.0], [7.0]]
        """
        reads = self.streamed or (self.access == "rows" and self.readable)
        return self._facts(ReadRows(self, name)) if reads and not self.resident else self.loaded(name)

    def loaded(self, name: str = "data") -> Rows:
        """The same rows in blocks, after all of them have been read."""
        return self._facts(self._loaded(name))

    def _loaded(self, name: str) -> Rows:
        return Dense(self.dense(), name) if self.readable else ByProducts(self, name)

    def _facts(self, rows: Rows) -> Rows:
        """Rows with the precision of this operator, and the names of its columns."""
        rows.column_names = self.column_names
        rows.dtype, rows.rounding = self.dtype, float(np.finfo(self.rounded_dtype).eps)
        return rows

    def release(self) -> None:
        """Release memory that reading the rows has filled; does nothing for data held in memory."""

    def _check_rows(self) -> None:
        """Refuse to select rows of data that have none, or that come in order."""
        if not self.gathers:
            raise MissingCapability(
                f"{type(self).__name__} has no row slices; pass an array, a sparse matrix or a file, or choose a "
                "solver that needs products only."
            )

    def _check_block(self, V: Array, rows: int, name: str) -> None:
        if (
            not is_array(V) or V.ndim != 2 or rows not in (V.shape[0], math.inf)
        ):  # slices are counted as they come
            got = getattr(V, "shape", type(V).__name__)
            raise InvalidProblem(
                f"{name} of a {self.shape[0]} x {self.shape[1]} operator takes an array with {rows} rows "
                f"and two dimensions; got {got}. A vector is a block of one column, `x[:, None]`."
            )
        working_dtype(host_dtype(V), f"the block of {name}")

    # ---- algebra ------------------------------------------------------------------------------

    @property
    def H(self) -> LinearOperator:
        """The adjoint operator Aᵀ."""
        return AdjointOperator(self)

    def __matmul__(self, other: Any) -> Any:
        if not is_array(other):
            return NotImplemented
        return self.matmat(other[:, None])[:, 0] if other.ndim == 1 else self.matmat(other)

    def __repr__(self) -> str:
        n, p = self.shape
        return f"{type(self).__name__}({n} x {p}, {self.dtype})"


def _selected(selection: Any, n: int) -> Selection:
    """A slice of step 1 within n rows, or an array of row numbers from 0 to n - 1."""
    if isinstance(selection, tuple) and len(selection) == 2 and selection[1] is Ellipsis:
        selection = selection[0]  # A[rows, ...], as scikit-learn selects them
    if isinstance(selection, slice):
        start, stop, step = selection.indices(n)
        return slice(start, max(start, stop)) if step == 1 else np.arange(start, stop, step)
    index = (
        np.zeros((0, 0)) if isinstance(selection, tuple) else to_host(selection)
    )  # A[1, 2] is an entry elsewhere
    numbers = index.ndim == 1 and (index.dtype.kind in "iu" or not index.size)
    if not numbers or (index.size and not -n <= index.min() <= index.max() < n):
        raise InvalidProblem(
            f"rows are selected by a slice, or by integers in one dimension, which must be from 0 to {n - 1}; got "
            f"{shown(selection)}. Turn a mask into numbers with numpy.flatnonzero(mask)."
        )
    index = index.astype(np.intp)
    return np.where(index < 0, index + n, index)


class AdjointOperator(LinearOperator):
    """Aᵀ. It has no row slices: they would be columns of A.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> A = ls.as_operator(np.arange(6.0).reshape(3, 2))
    >>> A.H.shape, A.H.matmat(np.ones((3, 1))).ravel()
    ((2, 3), array([6., 9.]))
    """

    def __init__(self, operator: LinearOperator) -> None:
        if math.inf in operator.shape:
            raise InvalidProblem(
                f"a transpose needs to know the rows of its operator; got {operator!r}. State them: "
                "linspec.as_operator(slices, rows=...)."
            )
        self.operator, self.shape = operator, (operator.shape[1], operator.shape[0])
        self.dtype, self.device, self.readings = operator.dtype, operator.device, operator.readings
        self.readable = operator.readable

    @property
    def H(self) -> LinearOperator:
        return self.operator

    def _matmat(self, V: Array) -> Array:
        return self.device.asarray(self.operator.rmatmat(V), self.dtype)

    def _rmatmat(self, U: Array) -> Array:
        return self.device.blocks.asarray(self.operator.matmat(U))

    def _dense(self) -> Array:
        entries = self.operator.dense()
        return entries.T


class Derived(LinearOperator):
    """An operator whose rows are made of those of another one when they are read.

    Parameters
    ----------
    operator : LinearOperator
    shape : tuple of int
    """

    def __init__(self, operator: LinearOperator, shape: tuple[int, int]) -> None:
        self.operator, self.shape, self._stored_dtype = operator, shape, operator.stored_dtype
        self.dtype, self.device, self.readings = operator.dtype, operator.device, operator.readings
        self.access, self.readable = operator.access, operator.readable

    def in_dtype(self, dtype: DType) -> LinearOperator | None:
        twin = copy.copy(self)
        twin.operator, twin.dtype = self.operator.in_dtype(dtype) or self.operator, dtype
        return twin

    def release(self) -> None:
        self.operator.release()


class ChosenRows(Derived):
    """The rows of an operator that a slice or an array of numbers selects.

    Parameters
    ----------
    operator : LinearOperator of shape (n, p)
        Sliceable.
    numbers : slice of step 1, or numpy.ndarray of shape (m,)
        From 0 to n - 1.
    """

    def __init__(self, operator: LinearOperator, numbers: Selection) -> None:
        n, p = operator.shape
        self.numbers: Any = range(n)[numbers] if isinstance(numbers, slice) else np.asarray(numbers, np.intp)
        super().__init__(operator, (len(self.numbers), p))
        share = len(self.numbers) / max(n, 1)
        self.sparse, self._nnz = operator.sparse, round(operator.nnz * share)
        self.rows_together, self.buffer_bytes = operator.rows_together, operator.buffer_bytes
        self.decoded_bytes = round(operator.decoded_bytes * share)

    def _rows(self, selection: Selection) -> LinearOperator:
        if not isinstance(self.numbers, range):
            return self.operator.rows(self.numbers[selection])
        start = self.numbers.start
        if isinstance(selection, slice):
            return self.operator.rows(slice(start + selection.start, start + selection.stop))
        return self.operator.rows(start + selection)


def chosen_rows(operator: LinearOperator, numbers: Selection) -> LinearOperator:
    """Select rows of data: a copy of data in memory, a view (`ChosenRows`) of files and other data read by rows.

    Parameters
    ----------
    operator : LinearOperator of shape (n, p)
    numbers : slice of step 1, or numpy.ndarray of int, of shape (m,)
        From 0 to n - 1.

    Returns
    -------
    LinearOperator of shape (m, p)
        Without names of rows and columns.

    Raises
    ------
    MissingCapability
        When the operator is known by its products only, or its rows come slice by slice.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.operators import chosen_rows
    >>> chosen_rows(ls.as_operator(np.array([[1.0], [2.0], [3.0]])), np.array([2, 0])).dense().ravel()
    array([3., 1.])
    """
    copied = operator.resident or operator.access != "rows"
    return operator.rows(numbers) if copied else ChosenRows(operator, numbers)


def named_rows(operator: LinearOperator, numbers: Selection) -> LinearOperator:
    """Select rows of data as `chosen_rows` does, with their labels and the names of the columns."""
    chosen, known = chosen_rows(operator, numbers), (operator.row_names, operator.row_index)
    labels = [part if part is None else RowNames(part).chosen(numbers) for part in known]
    chosen.with_names_of(operator).row_names, chosen.row_index = labels
    return chosen


class RowOperator(LinearOperator):
    """An n x p matrix defined by its rows.

    A subclass sets `shape`, `dtype` and, where its arrays are not NumPy's, `device`, and defines `_rows`, which
    returns a `DenseOperator` or a `SparseOperator` for a slice of step 1 or for an array of numbers from 0 to n - 1.
    The rows are then read like those of an array: block by block, in one pass for each product. A subclass sets
    `sparse` if its rows are sparse. It may define `release`.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.operators import DenseOperator, RowOperator
    >>> class Squares(RowOperator):
    ...     shape, dtype = (5, 1), np.dtype(np.float64)
    ...
    ...     def _rows(self, selection):
    ...         return DenseOperator(np.arange(5.0)[selection, None] ** 2)
    >>> Squares().rmatmat(np.ones((5, 1)))  # 0 + 1 + 4 + 9 + 16
    array([[30.]])
    """

    access = "rows"
    readable = True


class ReadRows(Rows):
    """The rows of an operator that reads them.

    Parameters
    ----------
    A : linspec.operators.LinearOperator
    name : str
        The name in messages.
    """

    def __init__(self, A: Any, name: str) -> None:
        self.A, self.name, self.device = A, name, A.device
        self.together = max(A.rows_together, RUN_BYTES // max(A.row_bytes, 1))

    @property
    def shape(self) -> tuple[float, int]:  # type: ignore[override]
        """(n, p); n is infinite until the rows have been counted."""
        n, p = self.A.shape
        return n, p

    @property
    def readings(self) -> float:  # type: ignore[override]
        """How often the rows can still be read."""
        return 0 if getattr(self.A, "spent", False) else float(self.A.readings)

    def blocks(self) -> Iterator[Block]:
        for piece in self._pieces():
            yield from self._held(piece).blocks()
            self.A.release()

    def take(self, rows: Any) -> Block:
        """Rows by their numbers."""
        return next(iter(self._held(self.A.rows(rows)).blocks()))

    def _pieces(self) -> Iterator[Any]:
        """All rows, some at a time."""
        if self.A.access == "slices":
            yield from self.A.blocks()
            return
        for rows in row_blocks(self.A.shape[0], self.A.row_bytes, on_host=self.device.on_host):
            yield self.A.rows(rows)

    def _held(self, piece: Any) -> Rows:
        rows: Rows = piece.loaded(self.name)
        rows.dtype, rows.far = self.dtype, self.far
        return rows
