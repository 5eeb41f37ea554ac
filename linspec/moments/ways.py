"""Which way the rows of views are read: by rows where they can be had, and else by products.

Problem: every iterative method asks for products with the Gram and cross matrices of its views. Rows in memory are
multiplied block by block on many threads, sparse rows slab by slab, slices as they come, and an operator that is known
by its products one product after the other. Methods are not to know which.
Method: `sweeps_of` chooses once, by what the operators say that they can do.
"""

from __future__ import annotations

import numpy as np

from linspec.moments.base import Sweeps
from linspec.moments.by_products import ByProducts
from linspec.moments.by_rows import ByRows
from linspec.operators import AdjustedOperator
from linspec.sweeps.statistics import Statistics
from linspec.sweeps.views import View
from linspec.sweeps.witness import Witness


def settle(A: AdjustedOperator) -> None:
    """Read the rows of an operator once, to learn its adjustment; the caller counts the sweep."""
    view = View(A.name, A)
    sweeps_of([view]).gather([view])


def read_once(views: list[View], *, identify: bool) -> dict[str, Witness]:
    """Read the rows of some views once: these are counted, and their adjustments are known then.

    Parameters
    ----------
    views : list of View
    identify : bool
        Whether the rows are to be identified.

    Returns
    -------
    dict from str to Witness
        By view, what identifies its rows, if that is wanted.
    """
    sweeps = sweeps_of(views)
    for view in views:
        view.asked_at = view.ledger.sweeps if identify else None
    with np.errstate(all="ignore"):  # what is not finite is found by the products
        found = sweeps.run(Statistics(sweeps.home, sweeps.model), threads=False)
    for view, gathered in zip(views, found, strict=True):
        view.adjustment.learn_from(gathered)
        if view.model.is_plain:  # for those who ask next
            view.operator.statistics = gathered
        view.record(0, 0, sweeps=1.0)
    return {view.name: view.witness for view in views if view.witness is not None}


def sweeps_of(views: list[View]) -> Sweeps:
    """How some views are read together."""
    remote = any(view.operator.access == "blocks" for view in views)
    in_rows = all(view.streamed or view.operator.access == "rows" for view in views)
    return ByRows(views) if remote or in_rows else ByProducts(views)
