"""Views whose rows can be cut out, at least one of them dense: blocks of rows, on many threads."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from linspec.arrays import Array, HostArray
from linspec.gram import Products
from linspec.sweeps.base import Sweeps
from linspec.sweeps.fused import Asked, FusedProducts, Sums
from linspec.sweeps.runners import row_slices, run_in_memory
from linspec.sweeps.task import Task
from linspec.views import View

Part = TypeVar("Part")


class BlockSweeps(Sweeps):
    """Every block is read, converted and centred once for all products; the first sweep tells the means."""

    @property
    def means_cost(self) -> float:
        """None: the means come with the products; the factors of scaled columns come before them."""
        return 1.0 if self._before() else 0.0

    def _before(self) -> list[View]:
        return [view for view in self.views if view.unlearnt and (view.scales or not view.operator.readable)]

    def _prepare(self) -> None:
        self.gather(self._before())

    def _products(self, blocks: list[Array | None], images: list[Array] | None) -> Products:
        asked = self._asked(blocks)
        return self._conclude(asked, self._summed(asked).products, sweeps=1.0)

    def triangle(self, V: Array, columns: int) -> tuple[Array, HostArray]:
        """XᵀX V, and the triangle R of the QR factorisation of the first columns of X V, in one sweep."""
        with np.errstate(all="ignore"):  # what is not finite is found by the check
            blocks = self.prepared([V, None])
            asked = self._asked(blocks)
            found = self._summed(asked, image=columns)
            product = self._adjusted(self._conclude(asked, found.products, sweeps=1.0), blocks)[0]
        self.check_finite([product])
        return product, found.triangle

    def _summed(self, asked: Asked, image: int = 0) -> Sums:
        """One sweep of products; the views learn their means from the first."""
        center = any(view.lacks_mean for view in self.views)
        readable = [i for i, view in enumerate(self.views) if view.squares is None and view.operator.readable]
        task = FusedProducts(
            asked,
            self.home,
            about=[None if center else view.taken for view in self.views],
            center=center,
            statistics=tuple(readable),
            image=image,
            model=self.model,
        )
        operators = [view.operator for view in self.views]
        found = run_in_memory(task, operators, row_slices(operators, asked.columns))
        self._learn(found)
        return found

    def run(self, task: Task[Part], columns: int = 0) -> Part:
        """A task over all rows."""
        operators = [view.operator for view in self.views]
        part = run_in_memory(task, operators, row_slices(operators, columns))
        self.check_finite(task.looked_at(part))
        return part
