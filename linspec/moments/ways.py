"""The choice of how the rows of views are read: by rows where these are accessible, otherwise by products.

Problem: every iterative method needs products with the Gram and cross matrices of its views. Rows in memory are
multiplied block by block on many threads, sparse rows slab by slab, slices as they come, and an operator that gives
only products one product after the other. Methods should not depend on the way.
Method: `sweeps_of` chooses once, from the access that the operators declare.
"""

from __future__ import annotations

import numpy as np

from linspec.moments.base import Sweeps
from linspec.moments.by_products import ByProducts
from linspec.moments.by_rows import ByRows
from linspec.operators import AdjustedOperator
from linspec.sweeps.statistics import Statistics
from linspec.sweeps.views import View


def settle(A: AdjustedOperator) -> None:
    """Compute the adjustment of an operator in one sweep, which the caller must count."""
    view = View(A.name, A)
    sweeps_of([view]).gather([view])


def read_once(views: list[View]) -> None:
    """Read the rows of some views once, compute their adjustments, and count the sweep.

    Parameters
    ----------
    views : list of View
    """
    sweeps = sweeps_of(views)
    with np.errstate(all="ignore"):  # the products find entries that are not finite
        found = sweeps.run(Statistics(sweeps.home, sweeps.model), threads=False)
    for view, gathered in zip(views, found, strict=True):
        view.adjustment.learn_from(gathered)
        if view.model.is_plain:  # kept for later views of the same operator
            view.operator.statistics = gathered
        view.record(0, 0, sweeps=1.0)


def sweeps_of(views: list[View]) -> Sweeps:
    """Choose the way in which some views are swept together."""
    remote = any(view.operator.access == "blocks" for view in views)
    in_rows = all(view.streamed or view.operator.access == "rows" for view in views)
    return ByRows(views) if remote or in_rows else ByProducts(views)
