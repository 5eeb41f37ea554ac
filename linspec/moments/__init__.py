"""Second moments of one or two matrices: Gram matrices that are held, or products that sweep the rows.

Read `moments` first, which has the class `linspec.Moments`; `source` is what it inherits, and decides what is held.
`base`, `row_sweeps`, `by_products`, `sparse` and `transposed` are the ways to sweep.
"""

from __future__ import annotations

from linspec.process.lazy_names import lazy_names

_HOLDERS = {
    "column_basis": "linspec.moments.row_reduction",
    "reduce_rows": "linspec.moments.row_reduction",
    "reduced": "linspec.moments.row_reduction",
    "reduced_views": "linspec.moments.row_reduction",
    "sum_with_short": "linspec.moments.row_reduction",
}

__all__ = list(_HOLDERS)
__getattr__, __dir__ = lazy_names(__name__, _HOLDERS)
