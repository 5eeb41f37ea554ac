"""The computation of one sweep: a pure function of blocks of rows, and a merge of its results.

Problem: threads over blocks in memory, a loop over slices, and the workers of a cluster compute the same sums. Each sum
should be written once, and the same data should give the same bits with every runner.
Method: a task is called with the same rows of every view and returns a part; two parts of neighbouring rows are merged.
Runners merge by a tree over the numbers of the blocks, never in the order in which the blocks were finished.
A task can be pickled, has no state, and modifies no argument except a part that it made itself.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from linspec.arrays import Array
from linspec.operators import LinearOperator
from linspec.operators.weights import Change

Part = TypeVar("Part")


class Task(ABC, Generic[Part]):
    """A computation over the rows of some matrices in one sweep: the part of a block, and the merge of two parts.

    A derived class defines `part` and `merge`. Its instances can be pickled, have no state, and modify no argument
    except a part that they made.

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
        """The part of one block of rows.

        Parameters
        ----------
        rows : sequence of LinearOperator
            The same rows of every matrix.
        first_row : int, default 0
            The number of the first of these rows.
        into : optional
            The part of the earlier rows. This call may overwrite it, and returns the part of the earlier rows and
            these rows together.

        Returns
        -------
        part
            An object of any type that can be pickled.
        """

    @abstractmethod
    def merge(self, left: Part, right: Part) -> Part:
        """Merge the parts of neighbouring rows, `left` before `right`; neither part is changed."""

    def with_models(self, change: Change) -> Task[Part]:
        """The same task with its row models replaced, so that workers get only the models of their own rows.

        A row model has the weights and confounds of the rows, and whether means are subtracted:
        see `linspec.operators.weights`. By default the attribute `model` is replaced, if the task has one.

        Parameters
        ----------
        change : callable
            A function that returns the replacement of a model.

        Returns
        -------
        Task
        """
        own: Any = self
        return replace(own, model=change(own.model)) if hasattr(own, "model") else self

    def merger(self) -> Task[Part]:
        """A task with the same `merge` and only the data that `merge` needs, to be sent to workers that merge."""
        return self

    def looked_at(self, part: Part) -> Iterable[Array]:
        """The arrays of a part that are checked for finiteness: they are finite if the rows are."""
        return ()


class Tree(Generic[Part]):
    """Parts that arrive in any order, merged by a fixed binary tree over their numbers.

    Two neighbouring parts are merged as soon as both have arrived, so that few parts wait at a time.

    Parameters
    ----------
    task : Task
    leaves : int
        The number of parts.
    """

    def __init__(self, task: Task[Part], leaves: int) -> None:
        self._task, self._leaves = task, leaves
        self._waiting: dict[tuple[int, int], Part] = {}
        self._lock = threading.Lock()

    def add(self, number: int, part: Part) -> None:
        """Add part `number`, and merge it with neighbours that have arrived, up the tree."""
        level, width = 0, self._leaves
        while width > 1:
            partner = number ^ 1
            if partner < width:  # otherwise it has no partner, and moves up alone
                with self._lock:
                    other = self._waiting.pop((level, partner), None)
                    if other is None:
                        self._waiting[level, number] = part
                        return
                part = self._task.merge(other, part) if partner < number else self._task.merge(part, other)
            level, number, width = level + 1, number // 2, -(-width // 2)
        self._waiting[-1, 0] = part

    def root(self) -> Part:
        """The merged part of all rows, once all parts have arrived."""
        return self._waiting.pop((-1, 0))
