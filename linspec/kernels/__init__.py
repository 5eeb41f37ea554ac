"""Kernel functions of two points, feature maps that approximate them, and the matrices of their values.

Read `functions` first: it defines kernels in general, and the available ones. `kernel_matrices` is an operator whose
entries are values of a kernel; `features` has the maps whose inner products approximate those of a kernel.
"""

from __future__ import annotations

from linspec.process.lazy_names import lazy_names

_HOLDERS = {
    "Function": "linspec.kernels.functions",
    "Kernel": "linspec.kernels.functions",
    "Laplacian": "linspec.kernels.functions",
    "Linear": "linspec.kernels.functions",
    "Points": "linspec.kernels.functions",
    "Polynomial": "linspec.kernels.functions",
    "Precomputed": "linspec.kernels.functions",
    "RBF": "linspec.kernels.functions",
    "SAMPLE": "linspec.kernels.functions",
    "as_kernel": "linspec.kernels.functions",
    "check_square": "linspec.kernels.functions",
    "function": "linspec.kernels.functions",
    "laplacian": "linspec.kernels.functions",
    "linear": "linspec.kernels.functions",
    "polynomial": "linspec.kernels.functions",
    "precomputed": "linspec.kernels.functions",
    "rbf": "linspec.kernels.functions",
    "resolved": "linspec.kernels.functions",
}

__all__ = [name for name in _HOLDERS if name not in {"SAMPLE", "check_square", "resolved"}]
__getattr__, __dir__ = lazy_names(__name__, _HOLDERS)
