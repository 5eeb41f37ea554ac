"""What moments give by way of rows and images X V, beside products with Gram matrices.

Problem: some methods need the triangle of an image X V, whose condition number is not squared, or sums over rows that
are no products: sketches, counts, histograms.
Method: both are made block by block, in one sweep, and no array of n rows is held.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from linspec.arrays import Array, HostArray, host_dtype
from linspec.errors import InvalidProblem
from linspec.moments.source import Source, one_at_a_time
from linspec.sweeps.task import Task

Part = TypeVar("Part")


class RowMoments(Source):
    """The part of `linspec.Moments` that goes by the rows."""

    @one_at_a_time
    def gram_and_triangle(self, V: Array, columns: int) -> tuple[Array, HostArray]:
        """XᵀX V and the triangle R of the QR factorisation of X V, in one sweep, without an array of n rows.

        Parameters
        ----------
        V : array of shape (p, k)
        columns : int
            The number of leading columns of V in the triangle. The other columns are only multiplied.

        Returns
        -------
        array of shape (p, k), host array of shape (columns, columns), or with fewer rows
            Both float64.

        Raises
        ------
        MissingCapability
            The rows are neither streamed nor can some of them be taken, or are those of a sparse matrix. For all data
            there is `gram_and_image`, the Gram matrix of the image.
        """
        return self._sweeps.triangle(self._block(V, 0), columns)

    @one_at_a_time
    def image_triangle(self, V: Array) -> HostArray:
        """The triangle R of the QR factorisation of X V, in one sweep, without an array of n rows.

        Parameters
        ----------
        V : array of shape (p, k)

        Returns
        -------
        host array of shape (k, k), or with fewer rows
            float64.

        Raises
        ------
        MissingCapability
            As by `gram_and_triangle`.
        """
        return self._sweeps.image_triangle(self._block(V, 0))

    @property
    def reads_blocks(self) -> bool:
        """Whether the rows come some at a time and `image_triangle` can be had: dense rows, files, and slices."""
        return self._sweeps.reads_blocks

    @one_at_a_time
    def image_gram(self, index: int, V: Array) -> HostArray:
        """(XV)ᵀ(XV) from XV, with one forward product; the condition number of X is not squared.

        VᵀSV is only rounding if S almost annihilates V. This result is accurate then, too.

        Parameters
        ----------
        index : {0, 1}
            The view that V multiplies.
        V : array of shape (p, m)
        """
        return self._sweeps.image_gram(index, V)

    @one_at_a_time
    def over_rows(self, task: Task[Part], columns: int = 0) -> Part:
        """What a task makes of the rows of the views as they are multiplied, in one sweep.

        The rows that the task is given have their weights, and means, confounds and scale are taken out of them. What
        is not known of these takes a sweep before. Rows in memory are cut into blocks that go to several threads; how
        they are cut, and so every bit of the result, depends on the data and `columns` alone. Slices come in turn.

        Parameters
        ----------
        task : linspec.sweeps.task.Task
            What is made of some rows of the views, and how that of neighbouring rows is merged.
        columns : int, default 0
            The columns of an array as wide as a row that a part holds: blocks are larger than it, where they may be.

        Returns
        -------
        Part
            Of all rows. The sweep is counted; what the task multiplies it counts itself (`Ledger.record`).

        Raises
        ------
        MissingCapability
            A view is known by its products only.
        NonFiniteData
            What the task looks at is not finite, and the rows have such an entry.

        Examples
        --------
        >>> import numpy as np
        >>> from linspec import Moments
        >>> from linspec.sweeps.task import Task
        >>> class AbsoluteSums(Task):
        ...     def part(self, rows, first_row=0, into=None):
        ...         own = np.abs(rows[0].dense()).sum(axis=0)
        ...         return own if into is None else into + own
        ...     def merge(self, left, right):
        ...         return left + right
        >>> Moments(np.array([[1.0, -2.0], [3.0, 4.0]]), center=True).over_rows(AbsoluteSums())
        array([2., 6.])
        """
        return self._sweeps.over_rows(task, columns)

    def _block(self, V: Array | None, index: int) -> Array | None:
        if V is None:
            return None
        name = ("Vx", "Vy")[index]
        if index >= len(self._views):
            raise InvalidProblem(f"{name} multiplies a second view, and there is none. Leave it out.")
        rows = self._views[index].operator.shape[1]
        if V.ndim != 2 or V.shape[0] != rows:
            raise InvalidProblem(f"{name} must have shape ({rows}, k); got {tuple(V.shape)}.")
        # A sweep of float32 rows rounds the block: a wider copy of it would only take memory.
        single = self.home.on_host and self.form == "implicit" and host_dtype(V) == np.float32
        single = single and all(view.operator.dtype == np.float32 for view in self._views)
        return self.home.place(V, np.float32 if single else np.float64)
