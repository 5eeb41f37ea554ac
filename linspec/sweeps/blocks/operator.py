"""The matrix whose rows are in blocks that an engine holds.

Problem: the rows are too many for one machine, or are already on several. Methods should multiply by them as by any
other matrix, without moving a block.
Method: computations on the rows are sent to the workers as tasks (`linspec.sweeps.blocks.reduction`), which
`linspec.Moments` uses for its sweeps. Products with n rows are fetched in the order of the rows.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from linspec.arrays import HOST, Array, is_array
from linspec.errors import InvalidProblem, MissingCapability, UnsupportedData
from linspec.frames import check_names
from linspec.operators import CenteredOperator, DenseOperator, LinearOperator, as_operator
from linspec.operators.base import Selection
from linspec.operators.weights import RowModel
from linspec.sweeps.blocks.engine import Call, Engine, Handle, InProcess
from linspec.sweeps.blocks.fill import estimated_fill
from linspec.sweeps.blocks.gathered import RUN_BYTES, gathered
from linspec.sweeps.blocks.readings import AsBlock, Facts, Reading, block_of, look
from linspec.sweeps.blocks.recut import recut
from linspec.sweeps.blocks.reduction import collected, map_reduce
from linspec.sweeps.blocks.runs import MOST_RUNS
from linspec.sweeps.images import AdjointImages, Images


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
    reading : Reading
        The way in which a block is read.
    largest : float
        The largest magnitude in some rows of each block.
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
    >>> from linspec.sweeps import BlockOperator
    >>> A = np.random.default_rng(0).standard_normal((200, 10)) * np.geomspace(10, 1, 10)
    >>> X = BlockOperator([A[:120], A[120:]])
    >>> X.shape, X.layout
    ((200, 10), (120, 80))
    >>> bool(np.allclose(ls.solve(ls.SVD(X, k=2), "gram").S, ls.solve(ls.SVD(A, k=2), "gram").S))
    True
    """

    access = "blocks"

    def __init__(
        self,
        blocks: Sequence[Handle],
        engine: Engine | None = None,
        *,
        name: str = "data",
        given_back: Callable[[BlockOperator], Any] | None = None,
    ) -> None:
        self.engine = InProcess() if engine is None else engine
        self.name, self.given_back = name, given_back
        made = self.engine.map(AsBlock(name), [Call(i, (block,)) for i, block in enumerate(blocks)])
        looks = self.engine.map(look, [Call(i, (one,)) for i, one in enumerate(made)])
        found: list[Facts] = self.engine.fetch_once(looks)
        kept = [i for i, facts in enumerate(found) if facts.shape[0] > 0]
        if not kept:
            raise InvalidProblem(f"{name} must have rows; got {len(found)} blocks without any.")
        self.handles = self.engine.map(block_of, [Call(i, (made[i],)) for i in kept])
        self.engine.release(made)
        self._take_over([found[i] for i in kept])

    def _take_over(self, facts: list[Facts]) -> None:
        """Check that the blocks have the same columns and kind, and set the attributes of the whole matrix."""
        first = facts[0]
        for number, other in enumerate(facts):
            what = f"block {number} of {self.name}"
            check_names(other.names, first.names, what, "the first block")
            if other.shape[1] != first.shape[1]:
                raise InvalidProblem(
                    f"{what} has {other.shape[1]} columns; the first has {first.shape[1]}. All blocks must have the "
                    "same columns."
                )
            if other.sparse != first.sparse:
                raise UnsupportedData(
                    f"{what} is {'sparse' if other.sparse else 'dense'}, unlike the first. Convert them to one kind."
                )
        self.layout = tuple(one.shape[0] for one in facts)
        self.sizes = tuple(float(one.bytes) for one in facts)
        self.shape = (sum(self.layout), first.shape[1])
        self.sparse = first.sparse
        self._stored = np.result_type(*(one.stored for one in facts))
        self.dtype = np.result_type(*(one.working for one in facts))
        self.reading = Reading(self.dtype)
        self._entries = sum(one.nnz for one in facts)
        self._pairs = sum(one.pairs for one in facts)
        self.largest = max(one.largest for one in facts)
        self.column_names = first.names
        self._beside: WeakKeyDictionary[LinearOperator, list[Handle]] = WeakKeyDictionary()
        self._fills: dict[tuple[int, ...], tuple[list[list[Handle]], tuple[int, float | None]]] = {}
        self._models: WeakKeyDictionary[RowModel, list[Handle]] = WeakKeyDictionary()

    # ---- facts --------------------------------------------------------------------------------

    @property
    def nnz(self) -> int:
        """The number of stored entries of all blocks."""
        return self._entries

    @property
    def stored_dtype(self) -> np.dtype[Any]:
        return self._stored

    @property
    def workers(self) -> int:
        """The number of workers, or threads, that share the work of a pass."""
        return max(1, min(self.engine.workers, len(self.layout)))

    @property
    def round_seconds(self) -> float:
        """The overhead of a pass in seconds."""
        return self.engine.round_seconds + self.engine.call_seconds * min(len(self.layout), MOST_RUNS)

    @property
    def decoded_bytes(self) -> int:  # type: ignore[override]  # a fact of the engine
        """The bytes of all blocks if they are computed anew for every pass, otherwise 0."""
        return int(sum(self.sizes)) if self.engine.recomputes else 0

    @property
    def edges(self) -> list[int]:
        """The number of the first row of each block, followed by the number of all rows."""
        return [0, *accumulate(self.layout)]

    def _like(self, reading: Reading) -> BlockOperator:
        """A copy of the operator that reads the same blocks by another `Reading`."""
        other = copy.copy(self)
        other.reading, other.dtype = reading, reading.dtype
        other._beside = WeakKeyDictionary()
        return other

    def in_dtype(self, dtype: np.dtype[Any]) -> LinearOperator | None:
        """The same blocks with products in `dtype`; they are converted when they are multiplied."""
        return self if dtype == self.dtype else self._like(replace(self.reading, dtype=dtype))

    def gram_pairs(self, *others: LinearOperator) -> tuple[int, float | None]:
        """Count the multiply-adds of all Gram matrices of sparse blocks, and estimate the entries of these matrices.

        Parameters
        ----------
        *others : LinearOperator
            The other views, which must have sparse blocks as well.

        Returns
        -------
        int
            The number of multiply-adds: pairs of stored entries in the same row.
        float or None
            The estimated number of stored entries of the Gram matrices; None if there are at most `WORTH_SAMPLING` of
            `linspec.sweeps.blocks.fill` multiply-adds. Both results are cached.
        """
        views: list[Any] = [self, *others]
        beside = [view.handles for view in views]
        known, found = self._fills.get(tuple(map(id, beside)), (None, (0, None)))
        if known is None:
            found = estimated_fill(views, [view._pairs for view in views])
            self._fills[tuple(map(id, beside))] = (
                beside,
                found,
            )  # keeps the lists alive, so that their ids stay unique
        return found

    # ---- data beside the blocks ---------------------------------------------------------------

    def alongside(self, other: LinearOperator) -> list[Handle]:
        """Handles of the rows of another matrix, cut at the rows of these blocks and, if possible, on the same workers.

        The handles are made once, and kept as long as the other matrix exists.

        Parameters
        ----------
        other : LinearOperator
            Either a `BlockOperator` whose engine this engine joins (`Engine.joins`), or a matrix in this process whose
            rows can be selected.

        Returns
        -------
        list of handles
            One for each block.

        Raises
        ------
        UnsupportedData
            The other matrix has blocks of another engine, or no rows that can be selected.
        InvalidProblem
            The numbers of rows differ.
        """
        known = self._beside.get(other)
        if known is not None:
            return known
        if other.shape[0] != self.shape[0]:
            raise InvalidProblem(
                f"matrices must have equally many rows; got {self.shape[0]} and {other.shape[0]}."
            )
        handles = self._beside[other] = self._brought(other)
        return handles

    def model_alongside(self, model: RowModel) -> list[Handle]:
        """Handles of a row model, such as weights, cut at the rows of these blocks; they are made once and kept.

        Parameters
        ----------
        model : RowModel
            The model of all rows.

        Returns
        -------
        list of handles
            One for each block.

        Raises
        ------
        InvalidProblem
            The numbers of rows differ.
        """
        found = self._models.get(model)
        if found is None:
            if model.rows != self.shape[0]:
                what = getattr(model, "source", "confounds")
                raise InvalidProblem(
                    f"{what} must have a row for each of {self.shape[0]} rows; got {model.rows:g}."
                )
            own = [model.of_rows(a, b) for a, b in pairwise(self.edges)]
            found = self._models[model] = self.engine.together(self.handles, self.engine.hold(own))
        return found

    def _brought(self, other: LinearOperator) -> list[Handle]:
        if isinstance(other, BlockOperator):
            if not self.engine.joins(other.engine):
                raise UnsupportedData(
                    f"{other.name} has its blocks in {type(other.engine).__name__}, and {self.name} in "
                    f"{type(self.engine).__name__}. Give both to one."
                )
            handles = other.handles
            if other.layout != self.layout:
                handles = recut(self.engine, handles, other.layout, self.layout)
            return self.engine.together(self.handles, handles)
        return self.engine.together(self.handles, self.engine.hold([*_pieces(other, self.edges)]))

    def rows_in_blocks(self) -> dict[str, Any]:
        """What `linspec.rows` needs to read the same rows, which stay where they are."""
        return {
            "engine": self.engine,
            "handles": self.handles,
            "heights": self.layout,
            "columns": self.shape[1],
            "dtype": self.dtype,
            "sizes": self.sizes,
            "given_back": self._given_back,
        }

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
        return self.images(np.eye(self.shape[1]))

    @property
    def centres_entries(self) -> bool:
        """Whether the blocks are dense arrays, so that means are subtracted from entries."""
        return not self.sparse

    @property
    def rows_together(self) -> int:  # type: ignore[override]
        """Number of neighbouring rows that a minibatch takes together: single random rows would need most blocks."""
        return max(1, RUN_BYTES // max(self.row_bytes, 1))

    def _rows(self, selection: Selection) -> LinearOperator:
        """Fetch selected rows to this process."""
        if isinstance(selection, slice):
            selection = np.arange(selection.start, selection.stop)
        if not len(selection):
            return self.reading.operator(np.zeros((0, self.shape[1]), dtype=self.stored_dtype))
        return self.reading.operator(gathered(self.engine, self.handles, self.edges, selection))

    # ---- products -----------------------------------------------------------------------------

    def _matmat(self, V: Array) -> Array:
        return self.images(V)

    def images(self, V: Array, about: Array | None = None) -> Array:
        """Compute (A - 1 aboutᵀ) V on the workers, and fetch it in the order of the rows."""
        pieces = [piece for part in collected(Images(V, about), [self]) for piece in part]
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces, axis=0)

    def _rmatmat(self, U: Array) -> Array:
        return map_reduce(AdjointImages(), [self, DenseOperator(U)], U.shape[1])

    def centered(self, mean: Array) -> LinearOperator:
        """A − 1 meanᵀ, with the mean subtracted from the entries of dense blocks."""
        return CenteredBlocks(self, mean)

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


class CenteredBlocks(CenteredOperator):
    """A − 1 meanᵀ for a `BlockOperator` A; the mean is subtracted from the entries of dense blocks."""

    def _matmat(self, V: Array) -> Array:
        whole: Any = self.parts[0]
        found: Array = whole.images(V, self.mean)
        return found


def brought_here(found: Any) -> Array:
    """Return a narrow matrix, such as scores, as an array of this process, also if its rows are in blocks.

    Parameters
    ----------
    found : array or data of shape (n, k)
        A matrix with few columns.
    """
    if is_array(found):
        return found
    A = as_operator(found)
    return A.brought_here() if isinstance(A, BlockOperator) else A.dense()


def _pieces(A: LinearOperator, edges: list[int]) -> Iterator[Any]:
    """Yield the rows of a matrix of this process, cut at the row numbers `edges`, as arrays or CSR matrices."""
    if A.access != "rows" or A.home != HOST:
        raise UnsupportedData(
            f"{A!r} stands beside blocks that lie elsewhere, and its rows cannot be sent there. Pass a NumPy array, a "
            "SciPy sparse matrix, or blocks of the same engine."
        )
    for a, b in pairwise(edges):
        rows: Any = A.rows(slice(a, b))
        yield rows.matrix if rows.sparse and hasattr(rows, "matrix") else np.asarray(rows.dense())
