"""Views of which one is known by its products alone, or comes slice by slice beside another."""

from __future__ import annotations

from linspec.arrays import Array
from linspec.moments.base import Sweeps
from linspec.sweeps.held_grams import Products
from linspec.sweeps.views import View


class ProductSweeps(Sweeps):
    """One forward and one adjoint product a view; column norms are estimated from probes that ride in the first."""

    passes = 2.0

    def __init__(self, views: list[View], *, center: bool) -> None:
        super().__init__(views, center=center)
        self.adjusts = False  # what is multiplied is the whole operator

    def _products(
        self, blocks: list[Array | None], images: list[Array] | None, onto: tuple[int, ...]
    ) -> Products:
        return self._one_by_one(self._request(blocks, onto))

    @property
    def by_entries(self) -> bool:
        """Slices beside an operator are multiplied as it is."""
        return super().by_entries and not any(view.streamed for view in self.views)
