"""Kernel canonical correlations and kernel ridge regression: problems with their certificates, and their solvers.

Read `problem` first, then `certificate`, then `kcca`. `preimage` is the problem whose functions are kernels at one
point; `ridge` is kernel ridge regression. `moments` and `nystrom` serve all of them.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "KernelCCA",
    "KernelCCASolution",
    "KernelRidge",
    "KernelRidgeSolution",
    "PreimageCCA",
    "PreimageCCASolution",
]

_PLACES = {
    "KernelCCA": "linspec_kernel.problem",
    "KernelCCASolution": "linspec_kernel.problem",
    "KernelRidge": "linspec_kernel.ridge.problem",
    "KernelRidgeSolution": "linspec_kernel.ridge.problem",
    "PreimageCCA": "linspec_kernel.preimage.problem",
    "PreimageCCASolution": "linspec_kernel.preimage.problem",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _PLACES:
        raise AttributeError(f"module 'linspec_kernel' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
