"""Rows in blocks, and what is summed over them in one pass.

Read `executor`, `reductions`, `moments`, `cells`, `few_rows`.
"""

from linspec.blocks.base import Block, Rows
from linspec.blocks.sparse_loops import SparseMinusThin
from linspec.blocks.units import check_entries
from linspec.rows.cells import Cell
from linspec.rows.executor import LOCAL, Executor, Reduction
from linspec.rows.inner_products import row_gram
from linspec.rows.minibatch import DEVICE_FACTOR, Minibatch, equal_slices, random_order, rows_at_once
from linspec.rows.moments import Moments
from linspec.rows.passes import OutOfPasses, Passes
from linspec.rows.preprocessing import DEPENDENT, EXPLAINED, Fitted, Preprocessing
from linspec.rows.reductions import check_products

__all__ = [
    "DEPENDENT",
    "DEVICE_FACTOR",
    "EXPLAINED",
    "LOCAL",
    "Block",
    "Cell",
    "Executor",
    "Fitted",
    "Minibatch",
    "Moments",
    "OutOfPasses",
    "Passes",
    "Preprocessing",
    "Reduction",
    "Rows",
    "SparseMinusThin",
    "check_entries",
    "check_products",
    "equal_slices",
    "random_order",
    "row_gram",
    "rows_at_once",
]
