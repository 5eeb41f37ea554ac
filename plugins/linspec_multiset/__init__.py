"""Canonical correlations of any number of views: two problems with their laws, and their solvers.

Read `problem` first, then `pencil`, `gram` and `law`. `subspaces` has the growing spaces of `lobpcg`,
`absent` the moments of views that lack rows. `sumcor` and `horst` are the criterion with local maxima.
"""

from __future__ import annotations

from linspec.process.lazy_names import lazy_names

_HOLDERS = {
    "MultisetCCA": "linspec_multiset.problem",
    "MultisetCCASolution": "linspec_multiset.problem",
    "SumcorCCA": "linspec_multiset.sumcor",
    "SumcorCCASolution": "linspec_multiset.sumcor",
}

__all__ = list(_HOLDERS)
__getattr__, __dir__ = lazy_names(__name__, _HOLDERS)
