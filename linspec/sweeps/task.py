"""What one sweep makes: a pure function of blocks of rows, and a merge of what it makes of them.

Problem: threads over blocks in memory, a fold over slices that come one after the other and workers elsewhere make the
same sums. Each of them is to be written once, and the same data are to give the same bits whoever makes them.
Method: a task is called with the same rows of every view and answers with a part; two parts of neighbouring rows are
merged. Whoever runs tasks merges by a tree over the numbers of the blocks, never in the order in which they were done.
A task can be pickled, has no memory of its own, and writes into nothing that it is given but a part that is its own.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from linspec.arrays import Array
from linspec.operators import LinearOperator
from linspec.operators.row_model import Change

Part = TypeVar("Part")


class Task(ABC, Generic[Part]):
    """What one sweep makes of the rows of some matrices, and how two results are merged.

    A class that derives from it has `part` and `merge`. It can be pickled, has no memory of its own, and writes into
    nothing that it is given but a part that is its own.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.sweeps import Task
    >>> class Sums(Task):
    ...     def part(self, rows, first_row=0, into=None):
    ...         found = rows[0].rmatmat(np.ones((rows[0].shape[0], 1)))
    ...         return found if into is None else into + found
    ...
    ...     def merge(self, left, right):
    ...         return left + right
    >>> A, task = ls.as_operator(np.arange(6.0).reshape(3, 2)), Sums()
    >>> task.merge(task.part([A.rows(slice(0, 2))]), task.part([A.rows(slice(2, 3))], 2)).ravel()
    array([6., 9.])
    """

    @abstractmethod
    def part(self, rows: Sequence[LinearOperator], first_row: int = 0, into: Part | None = None) -> Part:
        """What one block of rows gives.

        Parameters
        ----------
        rows : sequence of LinearOperator
            The same rows of every matrix.
        first_row : int, default 0
            The number of the first of them.
        into : optional
            What the rows just before give: this call may overwrite it, and answers for the rows of both.

        Returns
        -------
        part
            Of any type that can be pickled.
        """

    @abstractmethod
    def merge(self, left: Part, right: Part) -> Part:
        """What the rows of two parts give together, the left ones first; neither part is changed."""

    def with_models(self, change: Change) -> Task[Part]:
        """The same task with other models of the rows: tasks elsewhere get those of their own rows alone.

        By default the attribute `model` is changed, where there is one.

        Parameters
        ----------
        change : callable
            Gives the model that takes the place of another.

        Returns
        -------
        Task
        """
        own: Any = self
        return replace(own, model=change(own.model)) if hasattr(own, "model") else self

    def merger(self) -> Task[Part]:
        """A task with the same `merge`, and as little beside it as that needs: it is sent to those who merge."""
        return self

    def looked_at(self, part: Part) -> Iterable[Array]:
        """Arrays of a part that are finite where the rows are."""
        return ()


class Tree(Generic[Part]):
    """Parts that come in any order, merged by a fixed binary tree over their numbers.

    Neighbours are merged as soon as both are there, so that few parts wait at a time.

    Parameters
    ----------
    task : Task
    leaves : int
        How many parts will come.
    """

    def __init__(self, task: Task[Part], leaves: int) -> None:
        self._task, self._leaves = task, leaves
        self._waiting: dict[tuple[int, int], Part] = {}
        self._lock = threading.Lock()

    def add(self, number: int, part: Part) -> None:
        """Take in the part of one leaf, and merge what can be merged."""
        level, width = 0, self._leaves
        while width > 1:
            partner = number ^ 1
            if partner < width:  # else it has none, and goes up alone
                with self._lock:
                    other = self._waiting.pop((level, partner), None)
                    if other is None:
                        self._waiting[level, number] = part
                        return
                part = self._task.merge(other, part) if partner < number else self._task.merge(part, other)
            level, number, width = level + 1, number // 2, -(-width // 2)
        self._waiting[-1, 0] = part

    def root(self) -> Part:
        """What all leaves give together."""
        return self._waiting.pop((-1, 0))
