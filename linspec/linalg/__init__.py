"""Methods that families share, each as its paper has it; small matrices are on the host, thin blocks with the data."""

from linspec.linalg.bidiagonalisation import Bidiagonal, LongStep, golub_kahan, lsqr, stacked
from linspec.linalg.conjugate_gradients import block_cg, cg_steps
from linspec.linalg.krylov import RISK, RitzPairs, block_krylov, search
from linspec.linalg.lobpcg import Products, RitzBlocks, lobpcg_steps
from linspec.linalg.small import inverse, inverse_triangle, lengths_of, orthonormal, tall_svd
from linspec.linalg.steps import Step, Steps, Variables, driven, in_variables, side_by_side

__all__ = [
    "RISK",
    "Bidiagonal",
    "LongStep",
    "Products",
    "RitzBlocks",
    "RitzPairs",
    "Step",
    "Steps",
    "Variables",
    "block_cg",
    "block_krylov",
    "cg_steps",
    "driven",
    "golub_kahan",
    "in_variables",
    "inverse",
    "inverse_triangle",
    "lengths_of",
    "lobpcg_steps",
    "lsqr",
    "orthonormal",
    "search",
    "side_by_side",
    "stacked",
    "tall_svd",
]
