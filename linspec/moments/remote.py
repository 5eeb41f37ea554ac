"""Views of which at least one lies in blocks elsewhere: a sweep is one round of all blocks, and nothing large travels.

Problem: rows that lie on several machines are multiplied where they are. What comes here are sums: products, means,
Gram matrices, triangles.
Method: the tasks of rows that come slice by slice, which tell the means as well, run over the blocks of all views at
once (`linspec.sweeps.blocks.map_reduce`). Rows in memory beside such blocks are sent to them once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from linspec import cost
from linspec.arrays import Array, HostArray, cast
from linspec.moments.slices import SliceSweeps
from linspec.moments.sparse import centred_sparse_gram
from linspec.sweeps.blocks import map_reduce
from linspec.sweeps.gram_matrices import GramMatrices, SparseGramMatrices
from linspec.sweeps.held_grams import HeldGram, SparseGram
from linspec.sweeps.images import ImageGram
from linspec.sweeps.products import Identity, Request
from linspec.sweeps.statistics import Statistics
from linspec.sweeps.task import Task
from linspec.sweeps.views import View
from linspec.sweeps.witness import Witness, Witnesses

Part = TypeVar("Part")


class RemoteSweeps(SliceSweeps):
    """The means come with the first sweep, whatever it makes."""

    by_entries = True
    reads_blocks = True

    @property
    def sparse(self) -> bool:  # type: ignore[override]
        """Whether all views lie in sparse blocks."""
        return all(view.operator.sparse and view.operator.remote for view in self.views)

    @property
    def gram_cost(self) -> float:  # type: ignore[override]
        """One; for sparse matrices one more for the means."""
        return 1.0

    def _request(self, blocks: list[Array | None], onto: tuple[int, ...] = (0, 1)) -> Request:
        """In float32 where all rows are: products round the blocks to it anyway, and half as much travels."""
        if all(view.operator.dtype == np.float32 for view in self.views):
            blocks = [V if V is None or isinstance(V, Identity) else cast(V, np.float32) for V in blocks]
        return super()._request(blocks, onto)

    def _run(self, task: Task[Part], columns: int) -> Part:
        """A task over all blocks, where they are."""
        part = map_reduce(task, [view.operator for view in self.views], columns)
        self._check(task, part)
        return part

    def _gram(self, form: str, sizes: Callable[[], cost.Sizes]) -> HeldGram:
        if form == "sparse":
            return self._sparse_gram()
        unknown = any(view.mean is None for view in self.views)
        center = self.center and unknown
        about = [None if center else view.taken for view in self.views]
        task = GramMatrices(self.home, about, center=center, means=unknown, model=self.model)
        part = self.run(task, sum(self.widths))
        for view in self.views:
            view.record(0, sum(self.widths), sweeps=1.0)
        return self._corrected_gram(task, part)

    def _sparse_gram(self) -> SparseGram:
        self.gather([view for view in self.views if view.squares is None])
        entries = cost.sizes_of(
            self.views[0].operator, self.views[1].operator if len(self.views) == 2 else None, 1
        )
        # In units of arrays as wide as a row, as runs of blocks are measured.
        columns = int(np.ceil(2.0 * entries.sparse_gram_entries / sum(self.widths)))
        found = self.run(SparseGramMatrices(self.model), columns)
        for view in self.views:
            view.record(0, sum(self.widths), sweeps=1.0)
        return centred_sparse_gram(self.views, found, self.total)

    def _witness_of(self, view: View) -> Witness:
        A = view.operator
        return map_reduce(Witnesses(), [A], 2)[0] if A.remote else super()._witness_of(view)

    def gather(self, views: list[View]) -> None:
        """The column means and norms of some views, from one sweep."""
        if not views:
            return
        apart = [
            [view for view in views if view.operator.remote],
            [v for v in views if not v.operator.remote],
        ]
        if apart[0]:
            with np.errstate(all="ignore"):  # what is not finite is found by the check
                operators = [view.operator for view in apart[0]]
                found = map_reduce(Statistics(self.home, self.model), operators, 3)
            for view, gathered in zip(apart[0], found, strict=True):
                view.learn(gathered)
                view.record(0, 0, sweeps=1.0)
            self.check_finite([view.mean for view in apart[0]])
        super().gather(apart[1])

    def image_gram(self, index: int, V: Array) -> HostArray:
        """(XV)ᵀ(XV) of one view by way of XV, in one sweep."""
        view = self.views[index]
        self.gather([view] if view.needs_sweep else [])
        if not view.operator.remote:
            return super().image_gram(index, V)
        found = map_reduce(ImageGram(V, view.taken_out), [view.operator], V.shape[1])
        view.record(V.shape[1], 0, sweeps=1.0)
        return found
