"""Rows in blocks that an engine holds, and engines: owners of blocks, which run functions on them without moving them.

Problem: the rows are too many for one machine, or are already on several: in this process, on the workers of dask or
ray, or with any other cluster manager. The computations on blocks, and the order in which results are merged, should be
written once, and methods should multiply by such rows as by any other matrix.
Method: an engine has three methods. `hold` hands it values of this process, `map` calls a function with the values
behind some handles and keeps the results where they were made, and `fetch` brings values to this process. A reduction
consists of levels of `map`: groups of `FAN` neighbours are merged until one result is left. The groups depend only on
the positions of the results, so that every engine gives the same bits. Solvers make their passes over
`BlockOperator.in_blocks` (`linspec.rows.on_workers`), and so do products here. Products with n rows are fetched in the
order of the rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np

from linspec.arrays import HOST, Array, DType, is_array
from linspec.errors import InvalidProblem, MissingCapability, UnsupportedData
from linspec.operators import DenseOperator, LinearOperator, SparseOperator, as_operator
from linspec.operators.base import Selection
from linspec.operators.streamed import compare
from linspec.process import machine
from linspec.process.pauses import pause
from linspec.rows import Preprocessing, Reduction
from linspec.rows.on_workers import MOST_RUNS, Call, WorkerRows, chosen
from linspec.rows.reductions import AboutRows, AdjointImages, Images

__all__ = ["FAN", "BlockOperator", "Call", "Engine", "Handle", "InProcess", "Work", "brought_here"]

Handle = Any
"""Reference to a value that an engine holds; any type."""

Work = Callable[..., Any]
"""A function that can be pickled, called as work(number, *values). It must not modify the values.

The number is `Call.number`, such as the position of a block or the number of its first row."""

FAN = 8
"""Number of results that are merged at once: a power of two, so that groups are subtrees of one binary tree."""


class Engine(ABC):
    """An owner of values behind handles, which calls functions with them: this process, or a cluster.

    A derived class defines `hold`, `map` and `fetch`; the defaults of the other methods use these three.

    Attributes
    ----------
    round_seconds, call_seconds : float, default 0.0
        The overhead of one `reduce`, and of one call in it, in seconds. `linspec.cost` adds them to the estimated time
        of a pass, by which solver "auto" and form "auto" are chosen.
    workers : int, default 1
        Number of calls that run in parallel, for the same estimates. No other result depends on the number.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.workers import Call, Engine, InProcess
    >>> engine: Engine = InProcess()
    >>> handles = engine.hold([np.array([1.0, 2.0]), np.array([3.0])])
    >>> calls = [Call(i, (handle,)) for i, handle in enumerate(handles)]
    >>> float(engine.reduce(lambda number, x: x.sum(), calls, lambda number, *sums: sum(sums)))
    6.0
    """

    round_seconds: float = 0.0
    call_seconds: float = 0.0
    workers: int = 1

    @abstractmethod
    def hold(self, values: Sequence[Any]) -> list[Handle]:
        """Take over values of this process, and return their handles.

        Parameters
        ----------
        values : sequence
            NumPy arrays, SciPy sparse matrices, or objects that can be pickled.

        Returns
        -------
        list of handles
            One for each value, of any type.
        """

    @abstractmethod
    def map(self, work: Work, calls: Sequence[Call]) -> list[Handle]:
        """Compute ``work(call.number, *values)`` for each call and the values of its handles; return result handles.

        Parameters
        ----------
        work : callable
            The function may be large: an engine sends it once, not with every call. It must not modify the values.
        calls : sequence of Call
            Calls are independent of each other. A call is repeated if its result is lost.

        Returns
        -------
        list of handles
        """

    @abstractmethod
    def fetch(self, handles: Sequence[Handle]) -> list[Any]:
        """The values behind handles, in this process.

        Parameters
        ----------
        handles : sequence of handles

        Returns
        -------
        list

        Raises
        ------
        DataLost
            Values are lost and cannot be computed again.
        """

    def joins(self, other: Engine) -> bool:
        """Whether one call may take handles of both engines."""
        return other is self

    def release(self, handles: Sequence[Handle]) -> None:  # noqa: B027 (most engines free values without references)
        """Release handles that will not be used again; calls that use them may still be pending."""

    def fetch_once(self, handles: Sequence[Handle]) -> list[Any]:
        """Fetch the values behind handles, and release the handles."""
        try:
            return self.fetch(handles)
        finally:
            self.release(handles)

    def reduce(self, work: Work, calls: Sequence[Call], merge: Work) -> Any:
        """Compute the results of all calls, and merge neighbouring results by a fixed tree.

        Parameters
        ----------
        work : callable
            As for `map`.
        calls : sequence of Call
            At least one.
        merge : callable
            ``merge(number, *results)`` merges 2 to `FAN` neighbouring results, in their order. The number is the
            position of this group among the groups that are merged at the same level of the tree.

        Returns
        -------
        result
            The merged result, in this process.

        Raises
        ------
        DataLost
            As for `fetch`.
        """
        level = self.map(work, calls)
        while len(level) > 1:
            groups = [tuple(level[i : i + FAN]) for i in range(0, len(level), FAN)]
            wide = [group for group in groups if len(group) > 1]
            merged = iter(self.map(merge, [Call(i, group) for i, group in enumerate(wide)]))
            level = [next(merged) if len(group) > 1 else group[0] for group in groups]
            self.release([handle for group in wide for handle in group])
        return self.fetch_once(level)[0]


class InProcess(Engine):
    """Engine of this process, where a handle is the value itself and several threads run the calls.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.workers import Call, InProcess
    >>> engine, block = InProcess(), np.ones((3, 2))
    >>> (handle,) = engine.hold([block])
    >>> handle is block, engine.fetch(engine.map(lambda number, rows: rows.shape, [Call(0, (handle,))]))
    (True, [(3, 2)])
    """

    def hold(self, values: Sequence[Any]) -> list[Handle]:
        return list(values)

    def map(self, work: Work, calls: Sequence[Call]) -> list[Handle]:
        return machine.map_parallel(lambda call: self._done(work, call), calls)

    def fetch(self, handles: Sequence[Handle]) -> list[Any]:
        return [self.taken(handle) for handle in handles]

    def taken(self, handle: Handle) -> Any:
        """The value behind a handle; here the handle itself."""
        return handle

    def joins(self, other: Engine) -> bool:
        return type(other) is type(self)

    def _done(self, work: Work, call: Call) -> Any:
        pause()
        return work(call.number, *(self.taken(handle) for handle in call.handles))


def opened(block: Any, dtype: DType | None = None) -> DenseOperator | SparseOperator:
    """Return the operator of the entries of a block, with products in `dtype`."""
    dense = isinstance(block, np.ndarray)
    return DenseOperator(block, None, dtype) if dense else SparseOperator(block, dtype, checked=True)


# ---- what workers do with a block -----------------------------------------------------------------


def _converted(name: str, number: int, block: Any) -> tuple[Any, tuple[str, ...] | None]:
    """Convert a given block once to a form that costs nothing to read; return it, and the names of its columns."""
    what = f"block {number} of {name}"
    if is_array(block) and block.ndim == 1:
        block = block[:, None]
    A = as_operator(block, what)
    if A.device != HOST or not isinstance(A, DenseOperator | SparseOperator):
        raise UnsupportedData(
            f"{what} must be a NumPy array, a SciPy sparse matrix or a frame; got {type(block).__name__}. Convert "
            "the blocks."
        )
    return (A.matrix if isinstance(A, SparseOperator) else A.array), A.column_names


def _entries(_number: int, converted: tuple[Any, Any]) -> Any:
    """Return a converted block without the names of its columns."""
    return converted[0]


def _facts(_number: int, converted: tuple[Any, Any]) -> tuple[Any, Any, int, int]:
    """Return a block without its rows, the names of columns, and the numbers of rows and entries."""
    block, names = converted
    A = opened(block)
    return block[:0], names, A.shape[0], A.nnz


# ---- the matrix -----------------------------------------------------------------------------------


class BlockOperator(LinearOperator):
    """An n x p matrix whose rows are in blocks.

    Parameters
    ----------
    blocks : sequence
        Handles of the engine, in the order of the rows. Behind each is a NumPy array, a SciPy sparse matrix or a
        frame, with equally many columns. Blocks without rows are skipped. For the engine of this process, handles are
        the blocks themselves.
    engine : Engine, optional
        The engine that holds the blocks; by default this process.
    name : str, default "data"
        The name of the matrix in messages.
    given_back : callable, optional
        given_back(operator) converts results with a row for each row of the data to a type of the caller, such as an
        array of dask for data of dask. By default they are operators.

    Attributes
    ----------
    layout : tuple of int
        The number of rows of each block.
    given_back : callable or None
        As passed; matrices computed from the rows inherit it.

    Raises
    ------
    InvalidProblem
        There are no rows, or blocks have different columns.
    UnsupportedData
        A block cannot be multiplied, or some blocks are sparse and others dense.
    DataLost
        A block is lost.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.workers import BlockOperator
    >>> A = np.random.default_rng(0).standard_normal((200, 10)) * np.geomspace(10, 1, 10)
    >>> X = BlockOperator([A[:120], A[120:]])
    >>> X.shape, X.layout
    ((200, 10), (120, 80))
    >>> bool(np.allclose(ls.solve(ls.SVD(X, k=2), "gram").S, ls.solve(ls.SVD(A, k=2), "gram").S))
    True
    """

    access = "blocks"
    _converts = True

    def __init__(
        self,
        blocks: Sequence[Handle],
        engine: Engine | None = None,
        *,
        name: str = "data",
        given_back: Callable[[BlockOperator], Any] | None = None,
    ) -> None:
        self.engine = InProcess() if engine is None else engine
        self.name = name
        self.given_back = given_back
        convert = partial(_converted, name)
        converted = self.engine.map(convert, [Call(i, (block,)) for i, block in enumerate(blocks)])
        looks = self.engine.map(_facts, [Call(i, (handle,)) for i, handle in enumerate(converted)])
        facts = self.engine.fetch_once(looks)
        nonempty = [i for i, (_, _, rows, *_) in enumerate(facts) if rows > 0]
        if not nonempty:
            raise InvalidProblem(f"{name} must have rows; got {len(facts)} blocks without any.")
        self.handles = self.engine.map(_entries, [Call(i, (converted[i],)) for i in nonempty])
        self.engine.release(converted)
        empty, names, self.layout, entries = zip(*(facts[i] for i in nonempty), strict=True)
        blocks_ = [opened(rows) for rows in empty]
        for number, block, columns in zip(nonempty, blocks_, names, strict=True):
            block.column_names = columns
            compare(block, blocks_[0], f"block {number} of {name}")
        self.shape, self.sparse = (sum(self.layout), blocks_[0].shape[1]), blocks_[0].sparse
        self._stored_dtype = np.result_type(*(block.stored_dtype for block in blocks_))
        self.dtype = np.result_type(*(block.dtype for block in blocks_))
        width = self._stored_dtype.itemsize + 4 * self.sparse
        self.sizes = tuple(
            float(width * count + 8 * rows * self.sparse)
            for count, rows in zip(entries, self.layout, strict=True)
        )
        self._nnz, self.column_names = sum(entries), blocks_[0].column_names

    # ---- facts --------------------------------------------------------------------------------

    @property
    def workers(self) -> int:
        """The number of workers, or threads, that share the work of a pass."""
        return max(1, min(self.engine.workers, len(self.layout)))

    @property
    def round_seconds(self) -> float:
        """The overhead of a pass in seconds."""
        return self.engine.round_seconds + self.engine.call_seconds * min(len(self.layout), MOST_RUNS)

    @property
    def edges(self) -> list[int]:
        """The number of the first row of each block, followed by the number of all rows."""
        return [0, *accumulate(self.layout)]

    # ---- the rows -----------------------------------------------------------------------------

    def in_blocks(self, name: str = "data") -> WorkerRows:
        """The same rows, which stay where they are."""
        rows = WorkerRows(
            self.engine,
            self.handles,
            self.layout,
            self.shape[1],
            self.dtype,
            sizes=self.sizes,
            given_back=self._given_back,
        )
        rows.name, rows.column_names = name, self.column_names
        return rows

    def _given_back(self, rows: Any) -> Any:
        """Rows that were computed from these, in the type of the caller."""
        A = BlockOperator(rows.handles, self.engine, name=self.name, given_back=self.given_back)
        return A if self.given_back is None else self.given_back(A)

    def brought_here(self) -> Array:
        """All rows as an array of this process; use it for narrow matrices, such as scores.

        Returns
        -------
        numpy.ndarray of shape (n, p)
        """
        return self.rows(slice(0, self.shape[0])).dense()

    def _rows(self, selection: Selection) -> LinearOperator:
        """Fetch selected rows to this process, in the requested order."""
        if isinstance(selection, slice):
            selection = np.arange(selection.start, selection.stop)
        if not len(selection):
            return opened(np.zeros((0, self.shape[1]), dtype=self.stored_dtype), self.dtype)
        return opened(chosen(self.engine, self.handles, self.edges, selection), self.dtype)

    # ---- products -----------------------------------------------------------------------------

    def _matmat(self, V: Array) -> Array:
        pieces: list[Array] = self._summed(lambda rows: Images(rows, V))
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def _rmatmat(self, U: Array) -> Array:
        (total,) = self._summed(lambda rows: AdjointImages(rows, U))
        return total

    def _summed(self, make: Callable[[WorkerRows], Reduction]) -> Any:
        """The total of a reduction of the rows, which is made for them."""
        rows = self.in_blocks()
        reduction = AboutRows([None], [make(rows)], Preprocessing(), None)
        _, (total,), _, _ = rows.executor.reduce([rows], lambda _: reduction, lambda: None)
        return total

    def blocks(self) -> Iterator[LinearOperator]:
        """Raise `MissingCapability`: the blocks are not brought to this process."""
        raise MissingCapability(
            f"{self.name} lies in blocks that are not brought to this process, and this method reads rows here. Choose "
            "a method that needs products only, such as lobpcg, gram, two-stage, block-krylov or cg, or bring the rows "
            "here yourself if they fit."
        )

    def __repr__(self) -> str:
        n, p = self.shape
        return f"{type(self).__name__}({n} x {p}, {self.dtype}, {len(self.layout)} blocks)"


def brought_here(found: Any) -> Array:
    """Return a narrow matrix, such as scores, as an array of this process, also if its rows are in blocks.

    Parameters
    ----------
    found : array or data of shape (n, k)
        A matrix with few columns.

    Returns
    -------
    array of shape (n, k)

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.workers import BlockOperator, brought_here
    >>> brought_here(BlockOperator([np.ones((2, 1)), np.zeros((1, 1))])).ravel()
    array([1., 1., 0.])
    """
    if is_array(found):
        return found
    A = as_operator(found)
    return A.brought_here() if isinstance(A, BlockOperator) else A.dense()
