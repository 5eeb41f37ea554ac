"""Canonical correlations of two views: the problem, its certificate, its inference and its command.

Read `problem` first, then `canonical` and `certificate`: solvers (`linspec_cca`) compute weights, and the certificate
says how good they are.
"""

from __future__ import annotations

from linspec.process.lazy_names import lazy_names

_HOLDERS = {
    "TwoViewSolution": "linspec.families.cca.variates",
    "Gains": "linspec.families.cca.canonical",
    "Pairs": "linspec.families.cca.canonical",
    "all_pairs": "linspec.families.cca.canonical",
    "block_width": "linspec.families.cca.canonical",
    "first_blocks": "linspec.families.cca.canonical",
    "multiplied": "linspec.families.cca.canonical",
}

__all__ = list(_HOLDERS)
__getattr__, __dir__ = lazy_names(__name__, _HOLDERS)
