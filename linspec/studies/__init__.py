"""Studies with more than one solve: comparison of solvers, and choice of ridge and k by held-out rows.

Read `comparison` first; `held_out` is cross-validation, whose folds and moments of folds serve problems that choose by
held-out rows themselves.
"""

from __future__ import annotations

from linspec.process.lazy_names import lazy_names

_HOLDERS = {
    "cells_of": "linspec.studies.held_out.folds",
    "folds_of": "linspec.studies.held_out.folds",
    "split_of": "linspec.studies.held_out.grams",
    "training_and_held_out": "linspec.studies.held_out.folds",
}

__all__ = list(_HOLDERS)
__getattr__, __dir__ = lazy_names(__name__, _HOLDERS)
