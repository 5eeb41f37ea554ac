"""Views whose rows can be cut out, at least one of them dense: blocks of rows, on many threads."""

from __future__ import annotations

from linspec.arrays import Array
from linspec.gram import Products
from linspec.sweeps.base import Sweeps
from linspec.sweeps.fused import FusedProducts
from linspec.sweeps.runners import row_slices, run_in_memory
from linspec.views import View


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
        asked, center = self._asked(blocks), any(view.lacks_mean for view in self.views)
        readable = [i for i, view in enumerate(self.views) if view.squares is None and view.operator.readable]
        task = FusedProducts(
            asked,
            self.home,
            about=[None if center else view.taken for view in self.views],
            center=center,
            statistics=tuple(readable),
            model=self.model,
        )
        operators = [view.operator for view in self.views]
        found = run_in_memory(task, operators, row_slices(operators, asked.columns))
        self._learn(found)
        return self._conclude(asked, found.products, sweeps=1.0)
