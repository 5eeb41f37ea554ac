"""Canonical correlations of any number of views: a problem with its law, and its solvers.

Read `problem` first, then `pencil`, `gram` and `law`. `subspaces` has the growing spaces of `lobpcg`.
"""

from __future__ import annotations

from typing import Any

__all__ = ["MultisetCCA", "MultisetCCASolution"]


def __getattr__(name: str) -> Any:
    from linspec_multiset import problem

    if name not in __all__:
        raise AttributeError(f"module 'linspec_multiset' has no attribute {name!r}")
    return getattr(problem, name)
