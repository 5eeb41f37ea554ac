"""n-row vectors, kept beside the blocks of the data from one sweep to the next.

Problem: a method such as LSQR iterates on a block with a row for each row of the data. To fetch this block and send
it back costs two transfers of n numbers per column and two sweeps per iteration.
Method: one sweep is a `Step`: from each run of rows of the data, and the vectors that the previous step left there,
it computes new n-row vectors and sums over the rows. The vectors stay on the workers; the sums are merged by a fixed
tree and fetched. The runs are the same in every step, so that each step finds the vectors of its rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from linspec.arrays import Array, HostArray
from linspec.operators import AdjustedOperator, DenseOperator, LinearOperator
from linspec.process.pauses import pause
from linspec.sweeps.adjusted_rows import AdjustedRows
from linspec.sweeps.blocks.engine import Call, Handle
from linspec.sweeps.blocks.operator import BlockOperator
from linspec.sweeps.blocks.reduction import planned
from linspec.sweeps.blocks.runs import Merged, OverRun
from linspec.sweeps.task import Task
from linspec.sweeps.views import View

Sums = TypeVar("Sums")


class Step(ABC, Generic[Sums]):
    """The computation of one sweep with "long rows": an array with a row for each of the n rows of the data.

    `KeptRows` keeps this array in pieces beside the blocks of the data, and passes it to the next step. A derived class
    defines `made` and `merge`. Its instances can be pickled, and have no state.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.sweeps import BlockOperator, KeptRows, Step
    >>> class Normalised(Step):
    ...     def made(self, rows, before):
    ...         new = rows[0].dense() if before is None else before / np.abs(before).max()
    ...         return new, float(np.sum(new**2))
    ...
    ...     def merge(self, left, right):
    ...         return left + right
    >>> kept = KeptRows({"A": BlockOperator([np.array([[1.0], [2.0]]), np.array([[2.0]])])}, 1)
    >>> kept.advance(Normalised()), kept.advance(Normalised())
    (9.0, 2.25)
    """

    @abstractmethod
    def made(self, rows: Sequence[LinearOperator], before: HostArray | None) -> tuple[HostArray, Sums]:
        """Compute the new long rows for some rows of all matrices, and sums over these rows.

        Parameters
        ----------
        rows : sequence of LinearOperator
            The same m rows of every matrix.
        before : numpy.ndarray of shape (m, columns), optional
            The long rows of the previous step, which must not be modified; None in the first step.

        Returns
        -------
        numpy.ndarray of shape (m, columns)
            Any number of columns, also 0.
        sums
            Any sums over the given rows, for example products of the transposed rows with the long rows: an object of
            any type that can be pickled.
        """

    @abstractmethod
    def merge(self, left: Sums, right: Sums) -> Sums:
        """Merge the sums over two sets of neighbouring rows, `left` before `right`."""


@dataclass
class Pieces(Generic[Sums]):
    """New long rows in pieces of consecutive rows, the sums over these rows, and the pieces of the previous step."""

    rows: list[HostArray]
    sums: Sums | None
    before: list[HostArray] | None


@dataclass(frozen=True)
class StepOverRows(Task[Pieces[Sums]]):
    """Task that makes a `Step`; its parts hold the new long rows and their sums.

    Parameters
    ----------
    step : Step
    """

    step: Step[Sums]

    def part(
        self, rows: Sequence[LinearOperator], first_row: int = 0, into: Pieces[Sums] | None = None
    ) -> Pieces[Sums]:
        """Make the step for some rows, and append the new long rows to `into`, the pieces of earlier rows."""
        pieces: Pieces[Sums] = Pieces([], None, None) if into is None else into
        before = None if pieces.before is None else pieces.before[len(pieces.rows)]
        made, sums = self.step.made(rows, before)
        pieces.rows.append(made)
        pieces.sums = sums if pieces.sums is None else self.step.merge(pieces.sums, sums)
        return pieces

    def merge(self, left: Pieces[Sums], right: Pieces[Sums]) -> Pieces[Sums]:
        """Concatenate the pieces of `left` and `right`, and merge their sums."""
        return Pieces(left.rows + right.rows, self._both(left.sums, right.sums), None)

    def _both(self, left: Sums | None, right: Sums | None) -> Sums | None:
        if left is None or right is None:
            return right if left is None else left
        return self.step.merge(left, right)

    def looked_at(self, part: Pieces[Sums]) -> Iterable[Array]:
        """The new long rows, which are checked for finiteness."""
        return part.rows


@dataclass(frozen=True)
class Continued(Generic[Sums]):
    """Work that makes a later step over one run of blocks, from the long rows of the previous step.

    Parameters
    ----------
    over : OverRun
        The work that applies the step to the blocks of the run.
    """

    over: OverRun[Pieces[Sums]]

    def __call__(self, first_row: int, before: Pieces[Sums] | None, *blocks: Any) -> Pieces[Sums]:
        """Apply the step to the blocks of the run that begins with row `first_row`."""
        begun: Pieces[Sums] = Pieces([], None, None if before is None else before.rows)
        made = self.over.begun(begun, first_row, *blocks)
        return Pieces(made.rows, made.sums, None)


@dataclass(frozen=True)
class Begun(Generic[Sums]):
    """Work that makes the first step over one run of blocks."""

    over: OverRun[Pieces[Sums]]

    def __call__(self, first_row: int, *blocks: Any) -> Pieces[Sums]:
        """Apply the step to the blocks of the run that begins with row `first_row`."""
        return Continued(self.over)(first_row, None, *blocks)


def _rows_of(_number: int, pieces: Pieces[Any]) -> HostArray:
    return pieces.rows[0] if len(pieces.rows) == 1 else np.concatenate(pieces.rows)


def _sums_of(_number: int, pieces: Pieces[Any]) -> Any:
    return pieces.sums


class KeptRows:
    """Long rows, n-row vectors of an iteration, kept beside the rows of some matrices, at least one of them in blocks.

    Parameters
    ----------
    matrices : mapping of str to LinearOperator
        The matrices, with equally many rows n, by their names in messages. If the adjustment of a matrix is not known
        yet, its rows are read once.
    columns : int
        The approximate size of the sums that a step returns: p x columns numbers, for p columns of all matrices
        together. It determines the number of consecutive blocks that one worker processes at once: together they take
        several times more memory than the sums.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.sweeps import BlockOperator, KeptRows, Step
    >>> class Image(Step):
    ...     def made(self, rows, before):
    ...         return rows[0].matmat(np.ones((2, 1))), rows[0].shape[0]
    ...
    ...     def merge(self, left, right):
    ...         return left + right
    >>> X = BlockOperator([np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[5.0, 6.0]])])
    >>> kept = KeptRows({"X": X}, 0)
    >>> kept.advance(Image()), kept.operator("the image").brought_here().ravel()
    (3, array([ 3.,  7., 11.]))
    """

    def __init__(self, matrices: Mapping[str, LinearOperator], columns: int) -> None:
        self._sides = [View(name, A) for name, A in matrices.items()]
        for side in self._sides:
            if isinstance(side.given, AdjustedOperator):
                side.given.settle()
        self._operators = [_in_rows(side.operator) for side in self._sides]
        self._columns = columns
        self._kept: list[Handle] = []

    @staticmethod
    def possible(A: LinearOperator) -> bool:
        """Whether the rows of a matrix are in blocks, so that long rows can be kept beside these."""
        return bool(View("A", A).operator.access == "blocks")

    def another(self) -> KeptRows:
        """New `KeptRows` beside the same matrices, still without long rows."""
        twin = object.__new__(KeptRows)
        twin._sides, twin._operators = self._sides, self._operators
        twin._columns, twin._kept = self._columns, []
        return twin

    def operator(self, name: str) -> BlockOperator:
        """The long rows of the last step, as a matrix in blocks that stay on their workers.

        Parameters
        ----------
        name : str
            The name of the matrix in messages.

        Returns
        -------
        BlockOperator of shape (n, k)
            k is the number of columns that the last step gave to the long rows.
        """
        leader: Any = next(A for A in self._operators if A.access == "blocks")
        calls = [Call(i, (kept,)) for i, kept in enumerate(self._kept)]
        made = leader.engine.map(_rows_of, calls)
        return BlockOperator(made, leader.engine, name=name, given_back=leader.given_back)

    def advance(self, step: Step[Sums]) -> Sums:
        """Make a step, in one sweep: the new long rows replace those of the previous step.

        Parameters
        ----------
        step : Step

        Returns
        -------
        sums
            The sums over all rows, in this process.

        Raises
        ------
        DataLost
            A block is lost.
        """
        sides = self._sides
        task = AdjustedRows(StepOverRows(step), [side.adjustment for side in sides])
        leader, over, calls = planned(task, self._operators, self._columns)
        pause()
        engine, before = leader.engine, self._kept
        if before:
            calls = [
                Call(call.number, (kept, *call.handles)) for kept, call in zip(before, calls, strict=True)
            ]
        self._kept = engine.keep(Continued(over) if before else Begun(over), calls)
        sums = [Call(i, (kept,)) for i, kept in enumerate(self._kept)]
        tree: Merged[Sums] = Merged(step)  # type: ignore[arg-type]  # a tree only calls `merge`
        found: Sums = engine.reduce(_sums_of, sums, tree)
        engine.release(before)
        for side in sides:
            side.record(0, 0, sweeps=1.0)
        return found


def _in_rows(A: LinearOperator) -> LinearOperator:
    """Return an operator whose rows can be selected; an operator known by its products is converted to a dense one."""
    return A if A.gathers else DenseOperator(A.matmat(np.eye(A.shape[1])))
