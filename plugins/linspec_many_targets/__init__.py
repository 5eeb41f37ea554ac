"""Ridge regression of very many targets: a ridge and weights of bands for each, chosen by held-out rows.

Read `problem` first, then `choice`, which chooses, and the two solvers: `gram` by columns and `kernel` by rows.
"""

from __future__ import annotations

from typing import Any

__all__ = ["RidgeManyTargets", "RidgeManyTargetsSolution"]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module 'linspec_many_targets' has no attribute {name!r}")
    return getattr(import_module("linspec_many_targets.problem"), name)
