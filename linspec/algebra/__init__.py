"""Small matrices on one machine: factors, norms, whitening and preconditioners of Gram matrices.

No function of this package reads data. Read `small_matrices` first: eigenvalues,
whitening and canonical pairs of k x k matrices, with ranks determined up to rounding.
"""

from __future__ import annotations

from linspec.process.lazy_names import lazy_names

_HOLDERS = {
    "EPS": "linspec.algebra.small_matrices",
    "Preconditioner": "linspec.algebra.preconditioner",
    "SMALL": "linspec.algebra.singular_vectors",
    "eigenpairs": "linspec.algebra.small_matrices",
    "inner_products": "linspec.algebra.unit_vectors",
    "inverse_root": "linspec.algebra.small_matrices",
    "leading": "linspec.algebra.unit_vectors",
    "leading_eigenpairs": "linspec.algebra.small_matrices",
    "leading_svd": "linspec.algebra.singular_vectors",
    "leading_triplets": "linspec.algebra.unit_vectors",
    "metric_rounding": "linspec.algebra.small_matrices",
    "picked": "linspec.algebra.unit_vectors",
    "preconditioner_from_sketch": "linspec.algebra.preconditioner",
    "r_squared": "linspec.algebra.variation",
    "raised_diagonal": "linspec.algebra.preconditioner",
    "rank_cut": "linspec.algebra.small_matrices",
    "ratio": "linspec.algebra.small_matrices",
    "selection_matrix": "linspec.algebra.unit_vectors",
    "signs_of_columns": "linspec.algebra.unit_vectors",
    "squared_cut": "linspec.algebra.singular_vectors",
    "squares_about_means": "linspec.algebra.variation",
    "unit_columns": "linspec.algebra.unit_vectors",
    "varies": "linspec.algebra.variation",
    "whitening": "linspec.algebra.small_matrices",
    "whitening_above_noise": "linspec.algebra.small_matrices",
}

__all__ = list(_HOLDERS)
__getattr__, __dir__ = lazy_names(__name__, _HOLDERS)
