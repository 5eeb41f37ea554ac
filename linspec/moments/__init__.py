"""Second moments of one or more matrices: Gram matrices that are held, or products that sweep the rows.

Read `moments` first: it holds the class `linspec.Moments`, which decides which matrices are kept in memory. Members
that belong together are in objects of their own: `columns`, `costs`, `direct`, and `bookkeeping` for a
run. `by_rows` and `by_products` are the two ways to sweep, and `base` is their interface.
"""

from __future__ import annotations

from linspec.process.lazy_names import lazy_names

_HOLDERS = {
    "Basis": "linspec.moments.pairs",
    "multiplied": "linspec.moments.pairs",
}

__all__ = list(_HOLDERS)
__getattr__, __dir__ = lazy_names(__name__, _HOLDERS)
