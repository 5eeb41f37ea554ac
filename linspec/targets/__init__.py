"""Target matrices of labels: LDA, OPLS, CCA and hypergraph Laplacians.

Read `matrices` first. `labels` reads class vectors and label matrices.
"""

from __future__ import annotations

from linspec.process.lazy_names import lazy_names

_HOLDERS = {
    "cca": "linspec.targets.matrices",
    "classes_of": "linspec.targets.matrices",
    "hsl": "linspec.targets.matrices",
    "lda": "linspec.targets.matrices",
    "opls": "linspec.targets.matrices",
    "targets_of_classes": "linspec.targets.matrices",
}

__all__ = [name for name in _HOLDERS if name not in {"classes_of", "targets_of_classes"}]
__getattr__, __dir__ = lazy_names(__name__, _HOLDERS)
