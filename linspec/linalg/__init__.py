"""Methods that families share, each as its paper has it; small matrices are on the host, thin blocks with the data."""

from linspec.linalg.block_cg import block_cg
from linspec.linalg.block_krylov import RitzPairs, block_krylov
from linspec.linalg.golub_kahan import Bidiagonal, golub_kahan, lsqr
from linspec.linalg.small import inverse, orthonormal

__all__ = [
    "Bidiagonal",
    "RitzPairs",
    "block_cg",
    "block_krylov",
    "golub_kahan",
    "inverse",
    "lsqr",
    "orthonormal",
]
