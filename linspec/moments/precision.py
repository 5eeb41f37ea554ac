"""The precision of products with moments, and moments that sweep a copy of the rows in float32."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from linspec.moments import single_precision
from linspec.moments.aspect import Aspect, one_at_a_time

if TYPE_CHECKING:
    from linspec.moments.moments import Moments


class Precision(Aspect):
    """The precision of products with `moments`."""

    @property
    def rounding(self) -> float:
        """The relative rounding error of products.

        It is the machine epsilon of float64 if Gram matrices are held that were formed from entries. Otherwise it is
        the largest machine epsilon of the dtypes of the views.
        """
        if self._moments.held and (self._sweeps.by_entries or self._sweeps.streamed):
            return float(np.finfo(np.float64).eps)
        return max(float(np.finfo(view.given.dtype).eps) for view in self._views)

    @one_at_a_time
    def dtype(self, index: int) -> np.dtype[Any]:
        """The dtype in which rows of a view are multiplied: float64 also for float32 entries far from 1.

        Parameters
        ----------
        index : int
        """
        return self._views[index].precision

    @one_at_a_time
    def single(self) -> Moments:
        """Moments that sweep a float32 copy of the rows, which is made at the first call and kept.

        The copy takes half of the memory of dense float64 rows. A sweep of it counts as a sweep of the data, in the
        same ledger. If products need no float64 sweep, because Gram matrices are held or the data are float32, the
        moments themselves are returned.

        Raises
        ------
        UnsupportedData
            The rows are not in memory, or are sparse with weights, confounds or a scale.
        """
        moments = self._moments
        if moments._single is None and not moments.cost.single:
            return moments
        if moments._single is None:
            for view in self._views:
                single_precision.check_copyable(view)
            self._sweeps.gather([view for view in self._views if not view.adjustment.known])
            moments._single = moments._of_views(single_precision.in_single(self._views), form="implicit")
        return moments._single
