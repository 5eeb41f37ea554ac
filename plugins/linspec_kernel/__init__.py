"""Kernel canonical correlations: a problem with its law, and its solvers.

Read `problem` first, then `certificate`, then `kcca`. `preimage` is the problem whose functions are kernels at one
point.
"""

from __future__ import annotations

from typing import Any

__all__ = ["Carried", "KernelCCA", "KernelCCASolution", "PreimageCCA", "PreimageCCASolution"]

_PLACES = {
    "Carried": "linspec_kernel.certificate",
    "KernelCCA": "linspec_kernel.problem",
    "KernelCCASolution": "linspec_kernel.solution",
    "PreimageCCA": "linspec_kernel.preimage.problem",
    "PreimageCCASolution": "linspec_kernel.preimage.solution",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _PLACES:
        raise AttributeError(f"module 'linspec_kernel' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
