"""Views whose rows can be cut out, at least one of them dense: blocks of rows, on many threads."""

from __future__ import annotations

from linspec.moments.row_sweeps import RowSweeps
from linspec.sweeps.products import FusedProducts, Request, Sums
from linspec.sweeps.views import View


class BlockSweeps(RowSweeps):
    """Every block is read, converted and centred once for all products; the first sweep tells the means."""

    def _before(self) -> list[View]:
        return [view for view in self.views if view.unlearnt and (view.scales or not view.operator.readable)]

    def _summed(self, request: Request, image: int = 0) -> Sums:
        """One sweep of products; the views learn their means from the first."""
        center = any(view.lacks_mean for view in self.views)
        readable = [i for i, view in enumerate(self.views) if view.squares is None and view.operator.readable]
        task = FusedProducts(
            request,
            self.home,
            about=[None if center else view.taken for view in self.views],
            center=center,
            statistics=tuple(readable),
            image=image,
            model=self.model,
        )
        found = self.run(task, request.columns)
        self._learn(found)
        return found
