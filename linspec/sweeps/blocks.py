"""Views whose rows can be cut out, at least one of them dense: blocks of rows, on many threads."""

from __future__ import annotations

from linspec.arrays import Array
from linspec.gram import Products
from linspec.row_sweep import sweep
from linspec.sweeps.base import Sweeps


class BlockSweeps(Sweeps):
    """Every block is read, converted and centred once for all products (`linspec.row_sweep`)."""

    def _products(self, blocks: list[Array | None], images: list[Array] | None) -> Products:
        asked = self._asked(blocks)
        return self._conclude(asked, sweep(self.views, asked, self.home), sweeps=1.0)
