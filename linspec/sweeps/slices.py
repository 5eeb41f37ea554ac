"""One view whose rows come slice by slice: all is made in one sweep of them, centred or not (`linspec.slice_sweep`)."""

from __future__ import annotations

import numpy as np

from linspec import cost
from linspec.arrays import Array, HostArray
from linspec.gram import DenseGram, Products
from linspec.slice_sweep import sliced_gram, sliced_product, sliced_triangle
from linspec.sweeps.base import Sweeps


class SliceSweeps(Sweeps):
    """The means come with the first sweep, whatever it makes."""

    streamed = True
    exact_norms = True
    means_cost = 0.0
    gram_cost = 1.0

    def _prepare(self) -> None:
        """Nothing: the means come with the products."""

    def _products(self, blocks: list[Array | None], images: list[Array] | None) -> Products:
        V: Array = blocks[0]
        product = sliced_product(self.views[0], V, self.home, center=self.center)
        self._made(V.shape[1])
        return product, None, None, None

    def triangle(self, V: Array, columns: int) -> tuple[Array, HostArray]:
        """XᵀX V and the triangle R of the QR factorisation of X V, in one sweep."""
        with np.errstate(all="ignore"):
            found = sliced_triangle(self.views[0], V, columns, self.home, center=self.center)
        self._made(V.shape[1])
        return found

    def _made(self, columns: int) -> None:
        self.views[0].record(columns, columns, sweeps=1.0)
        self.views[0].warn_of_cancellation()

    def _gram(self, form: str, sizes: cost.Sizes) -> DenseGram:
        gram = sliced_gram(self.views[0], self.home, center=self.center)
        self.views[0].record(0, self.widths[0], sweeps=1.0)
        return gram
