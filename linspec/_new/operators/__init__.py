"""Data as operators: read `base` first, then `dense`."""

from linspec._new.operators.base import Adjoint, Block, LinearOperator, Rows
from linspec._new.operators.opening import as_operator

__all__ = ["Adjoint", "Block", "LinearOperator", "Rows", "as_operator"]
