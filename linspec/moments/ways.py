"""Which way the rows of views are read: by rows where they can be had, and else by products.

Problem: every iterative method asks for products with the Gram and cross matrices of its views. Rows in memory are
multiplied block by block on many threads, sparse rows slab by slab, slices as they come, and an operator that is known
by its products one product after the other. Methods are not to know which.
Method: `sweeps_of` chooses once, by what the operators say that they can do.
"""

from __future__ import annotations

from linspec.moments.base import Sweeps
from linspec.moments.by_products import ByProducts
from linspec.moments.by_rows import ByRows
from linspec.operators import AdjustedOperator
from linspec.sweeps.views import View


def settle(A: AdjustedOperator) -> None:
    """Read the rows of an operator once, to learn what is subtracted from them; the caller counts the sweep."""
    view = View("the data", A, center=False)
    sweeps_of([view]).gather([view])
    view.learn_means()


def sweeps_of(views: list[View]) -> Sweeps:
    """How some views are read together."""
    remote = any(view.operator.remote for view in views)
    in_rows = all(view.streamed or view.operator.sliceable for view in views)
    return ByRows(views) if remote or in_rows else ByProducts(views)
