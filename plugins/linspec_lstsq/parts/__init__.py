"""Least-squares solvers as parts of other methods, prepared for one matrix and many right-hand sides."""

from linspec_lstsq.parts.prepared_factor import PreparedFactor
from linspec_lstsq.parts.prepared_lsqr import PreparedLSQR

__all__ = [
    "PreparedFactor",
    "PreparedLSQR",
]
