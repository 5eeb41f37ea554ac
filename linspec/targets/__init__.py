"""Target matrices of labels: LDA, OPLS, CCA and hypergraph Laplacians.

Read `matrices` first. `class_vectors` reads labels of one class a row, and `of_blocks` leaves them where the rows lie.
"""

from __future__ import annotations

from linspec.targets.matrices import cca, hsl, lda, opls
from linspec.targets.matrices import classes_of as classes_of
from linspec.targets.matrices import targets_of_classes as targets_of_classes

__all__ = ["cca", "hsl", "lda", "opls"]
