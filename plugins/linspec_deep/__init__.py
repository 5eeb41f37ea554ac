"""Canonical correlations of features that two nets learn.

Read `problem` first, then `dcca`, the solver. `Net` is what a solver hands to the certificate.
"""

from __future__ import annotations

from typing import Any

__all__ = ["DeepCCA", "DeepCCASolution", "Net"]

_PLACES = {
    "DeepCCA": "linspec_deep.problem",
    "DeepCCASolution": "linspec_deep.problem",
    "Net": "linspec_deep.nets",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _PLACES:
        raise AttributeError(f"module 'linspec_deep' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
