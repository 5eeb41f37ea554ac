"""Linear discriminants, orthonormal partial least squares and hypergraph subspaces.

Read `problem` first, then `directions`, the certificate; `classifier` predicts classes.
"""

from __future__ import annotations

from linspec.process.lazy_names import lazy_names

_HOLDERS = {
    "certify": "linspec.families.discriminant.directions",
    "directions_of": "linspec.families.discriminant.directions",
    "rounding_of": "linspec.families.discriminant.directions",
}

__all__ = list(_HOLDERS)
__getattr__, __dir__ = lazy_names(__name__, _HOLDERS)
