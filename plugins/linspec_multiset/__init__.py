"""Canonical correlations of any number of views: two problems with their laws, and their solvers.

Read `problem` first, then `pencil`, `solvers` and `certificate`.
`absent` has the moments of views that lack rows. `sumcor` and `horst` are the criterion with local maxima.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOLDERS = {
    "MultisetCCA": "linspec_multiset.problem",
    "MultisetCCASolution": "linspec_multiset.problem",
    "SumcorCCA": "linspec_multiset.sumcor",
    "SumcorCCASolution": "linspec_multiset.sumcor",
}

__all__ = list(_HOLDERS)


def __getattr__(name: str) -> Any:
    if name not in _HOLDERS:
        raise AttributeError(f"module 'linspec_multiset' has no attribute {name!r}")
    return getattr(import_module(_HOLDERS[name]), name)
