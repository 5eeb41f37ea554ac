"""The precision of products with moments, and moments that sweep the rows in another precision.

Problem: most processors multiply float32 twice as fast as float64, but GPUs for graphics and inference 16 to 64 times
as fast, and some devices have no float64. There an iteration should be made in float32, and its answer still be judged
in float64.
Method: a home says how scarce float64 is (`linspec.arrays.Home.single_rate`). Where it is scarce, iterations with the
option `sweeps` multiply a copy in float32 by default, and the law of a problem multiplies rows in float64: on their
device block by block, or on the host where the device has no float64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from linspec.errors import UnsupportedData
from linspec.moments import single_precision
from linspec.moments.aspect import Aspect, one_at_a_time
from linspec.moments.double_precision import in_double
from linspec.operators.largest_entry import magnitude_of

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

    def expect(self, sweeps: str) -> None:
        """State the option `sweeps` of the solver, for the choice of the form if that has not been made yet."""
        self._moments._sweeps_option = sweeps

    def sweeps_single(self, sweeps: str) -> bool:
        """Whether an iteration with the option `sweeps` of this value multiplies a copy of the rows in float32.

        With "auto" it does where float64 is scarce on the device of the rows, if these can be copied. The answer is
        False if products need no float64 sweep.

        Parameters
        ----------
        sweeps : {"auto", "float32", "float64"}
        """
        moments = self._moments
        if sweeps == "float64" or moments._single is moments or not (moments.cost.single or moments._single):
            return False
        if sweeps == "float32":
            return True
        rows = [view.operator for view in self._views]
        return any(A.home.scarce_float64 for A in rows) and all(
            not single_precision.obstacle(view) for view in self._views
        )

    @one_at_a_time
    def swept(self, sweeps: str) -> Moments:
        """The moments whose products an iteration with the option `sweeps` makes: `single`, or the moments themselves.

        With "auto", entries so large or small that products in float32 would lose digits are no error: the moments
        themselves are returned.

        Parameters
        ----------
        sweeps : {"auto", "float32", "float64"}

        Raises
        ------
        UnsupportedData
            As for `single`, with "float32" only.
        """
        moments = self._moments
        if not self.sweeps_single(sweeps):
            return moments
        if sweeps == "float32" or moments._single is not None:
            return self.single()
        try:
            fits = all(magnitude_of(view.operator).fits_single for view in self.single()._views)
        except UnsupportedData:
            fits = False
        moments._single = moments._single if fits else moments
        return moments if moments._single is None else moments._single

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

    @one_at_a_time
    def judging(self) -> Moments:
        """The moments with which an answer is judged: in float64 where float64 is scarce, otherwise these themselves.

        For float32 rows on a device with little float64, they multiply the same rows in float64, block by block: on the
        device, or on the host if the device has no float64. Sweeps are counted in the same ledger. Where Gram
        matrices are held, these are of float64 already. Rows that are known by their products alone, and slices, keep
        their precision.
        """
        moments, rows = self._moments, [view.operator for view in self._views]
        narrow = any(A.dtype == single_precision.SINGLE and A.home.scarce_float64 for A in rows)
        if not narrow or moments.held or moments.form != "implicit":
            return moments
        if moments._judging is None:
            views = in_double(self._views)
            moments._judging = moments if views is None else moments._of_views(views, form="implicit")
        return moments._judging

    @property
    def remark(self) -> str:
        """A sentence for the message of a solution if a device with little float64 made sweeps in float32; else ""."""
        home, every = self._views[0].operator.home, [self._moments, *self._moments._alone.values()]
        copied = any(moments._single not in (None, moments) for moments in every)
        if not (copied and home.scarce_float64):
            return ""
        return (
            f"Sweeps multiplied a copy in float32, because {home} multiplies float64 {home.single_rate:.0f} times "
            "slower; the residual is that of float64."
        )
