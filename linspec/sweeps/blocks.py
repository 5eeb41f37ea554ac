"""Views whose rows can be cut out, at least one of them dense: blocks of rows, on many threads."""

from __future__ import annotations

from linspec.arrays import Array
from linspec.gram import Products
from linspec.sweeps.base import Sweeps
from linspec.sweeps.fused import FusedProducts
from linspec.sweeps.runners import row_slices, run_in_memory


class BlockSweeps(Sweeps):
    """Every block is read, converted and centred once for all products."""

    def _products(self, blocks: list[Array | None], images: list[Array] | None) -> Products:
        asked = self._asked(blocks)
        unknown = [i for i, view in enumerate(self.views) if view.squares is None and view.operator.readable]
        about = [view.taken for view in self.views]
        task = FusedProducts(asked, self.home, about, statistics=tuple(unknown))
        operators = [view.operator for view in self.views]
        found = run_in_memory(task, operators, row_slices(operators, asked.columns))
        for i, gathered in found.statistics.items():
            self.views[i].learn(gathered)
        return self._conclude(asked, found.products, sweeps=1.0)
