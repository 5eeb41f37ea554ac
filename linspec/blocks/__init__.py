"""Rows in blocks, as solvers compute with them: read `base` first, then `dense`."""

from linspec.blocks.base import Block, LinearOperator, Rows
from linspec.blocks.dense import Dense
from linspec.blocks.device_sparse import DeviceSparse
from linspec.blocks.products import ByProducts
from linspec.blocks.sparse import Sparse

__all__ = [
    "Block",
    "ByProducts",
    "Dense",
    "DeviceSparse",
    "LinearOperator",
    "Rows",
    "Sparse",
]
