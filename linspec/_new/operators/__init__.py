"""Data as operators: read `base` first, then `dense`."""

from linspec._new.operators.base import Adjoint, Block, LinearOperator, Rows
from linspec._new.operators.dense import Dense
from linspec._new.operators.device_sparse import DeviceSparse
from linspec._new.operators.opening import as_operator
from linspec._new.operators.products import ByProducts
from linspec._new.operators.sparse import Sparse

__all__ = [
    "Adjoint",
    "Block",
    "ByProducts",
    "Dense",
    "DeviceSparse",
    "LinearOperator",
    "Rows",
    "Sparse",
    "as_operator",
]
