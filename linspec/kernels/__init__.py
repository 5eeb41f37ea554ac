"""Functions of two points, the feature maps that stand for them, and the matrices of their values.

Read `functions` first: what a kernel is, and the kernels that there are. `kernel_matrices` is an operator whose entries
are values of a kernel; `features` has the maps whose inner products are nearly those of a kernel.
"""

from __future__ import annotations

from linspec.kernels.functions import (
    RBF,
    Function,
    Kernel,
    Laplacian,
    Linear,
    Points,
    Polynomial,
    Precomputed,
    as_kernel,
    function,
    laplacian,
    linear,
    polynomial,
    precomputed,
    rbf,
)
from linspec.kernels.functions import SAMPLE as SAMPLE
from linspec.kernels.functions import not_finite as not_finite

__all__ = [
    "RBF",
    "Function",
    "Kernel",
    "Laplacian",
    "Linear",
    "Points",
    "Polynomial",
    "Precomputed",
    "as_kernel",
    "function",
    "laplacian",
    "linear",
    "polynomial",
    "precomputed",
    "rbf",
]
