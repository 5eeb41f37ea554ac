"""Which way the rows of views are read: each is one file, and what they all offer is `Sweeps`.

Problem: every iterative method asks for products with the Gram and cross matrices of its views. Rows in memory are
multiplied block by block on many threads, sparse rows slab by slab, slices as they come, and an operator that is known
by its products one product after the other. Methods are not to know which.
Method: `sweeps_of` chooses once, by what the operators say that they can do.
"""

from __future__ import annotations

from linspec.moments.base import Sweeps
from linspec.moments.block_sweeps import BlockSweeps
from linspec.moments.by_products import ProductSweeps
from linspec.moments.remote import RemoteSweeps
from linspec.moments.slices import SliceSweeps
from linspec.moments.sparse import SparseSweeps
from linspec.operators import AdjustedOperator, SparseOperator
from linspec.sweeps.views import View


def settle(A: AdjustedOperator) -> None:
    """Read the rows of an operator once, to learn what is taken out of them; the caller counts the sweep."""
    view = View("the data", A, center=False)
    sweeps_of([view], center=False).gather([view])
    view.learn_means()


def sweeps_of(views: list[View], *, center: bool) -> Sweeps:
    """How some views are read together."""
    if any(view.operator.remote for view in views):
        return RemoteSweeps(views, center=center)
    streamed = any(view.streamed for view in views)
    if streamed and all(view.streamed or view.operator.sliceable for view in views):
        return SliceSweeps(views, center=center)
    if not all(view.operator.sliceable for view in views):
        return ProductSweeps(views, center=center)
    if all(isinstance(view.operator, SparseOperator) for view in views):
        return SparseSweeps(views, center=center)
    return BlockSweeps(views, center=center)
