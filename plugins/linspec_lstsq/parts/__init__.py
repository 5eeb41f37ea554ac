"""Least-squares solvers as parts of other methods, prepared for one matrix and many right-hand sides."""

from linspec_lstsq.parts.block_cg_kernel import block_conjugate_gradients
from linspec_lstsq.parts.descent import descent
from linspec_lstsq.parts.prepared import PreparedNormalEquations
from linspec_lstsq.parts.prepared_factor import PreparedFactor
from linspec_lstsq.parts.prepared_lsqr import PreparedLSQR

__all__ = [
    "PreparedFactor",
    "PreparedLSQR",
    "PreparedNormalEquations",
    "block_conjugate_gradients",
    "descent",
]
