"""Linear algebra that no data are read for: small matrices, and the methods that families share, as in their papers.

Read `small_matrices` first: eigenvalues, whitening and bases, with ranks determined up to rounding. Small matrices are
on the host, thin blocks with the data.
"""

from __future__ import annotations

from linspec.process.lazy_names import lazy_names

_HOLDERS = {
    "Bidiagonal": "linspec.linalg.bidiagonalisation",
    "EPS": "linspec.linalg.small_matrices",
    "LongStep": "linspec.linalg.bidiagonalisation",
    "Products": "linspec.linalg.lobpcg",
    "RISK": "linspec.linalg.krylov",
    "RitzBlocks": "linspec.linalg.lobpcg",
    "RitzPairs": "linspec.linalg.krylov",
    "SMALL": "linspec.linalg.small_matrices",
    "Step": "linspec.linalg.conjugate_gradients",
    "Steps": "linspec.linalg.conjugate_gradients",
    "Variables": "linspec.linalg.conjugate_gradients",
    "block_krylov": "linspec.linalg.krylov",
    "cg_steps": "linspec.linalg.conjugate_gradients",
    "driven": "linspec.linalg.conjugate_gradients",
    "eigenpairs": "linspec.linalg.small_matrices",
    "golub_kahan": "linspec.linalg.bidiagonalisation",
    "in_variables": "linspec.linalg.conjugate_gradients",
    "inner_products": "linspec.linalg.small_matrices",
    "inverse": "linspec.linalg.small_matrices",
    "inverse_root": "linspec.linalg.small_matrices",
    "inverse_triangle": "linspec.linalg.small_matrices",
    "leading": "linspec.linalg.small_matrices",
    "leading_eigenpairs": "linspec.linalg.small_matrices",
    "leading_svd": "linspec.linalg.small_matrices",
    "leading_triplets": "linspec.linalg.small_matrices",
    "lengths_of": "linspec.linalg.small_matrices",
    "lobpcg_steps": "linspec.linalg.lobpcg",
    "lsqr": "linspec.linalg.bidiagonalisation",
    "metric_rounding": "linspec.linalg.small_matrices",
    "nearest_in_ball": "linspec.linalg.sparse_vectors",
    "nearest_unit": "linspec.linalg.sparse_vectors",
    "orthonormal": "linspec.linalg.small_matrices",
    "picked": "linspec.linalg.small_matrices",
    "preconditioner_from_sketch": "linspec.linalg.preconditioner",
    "r_squared": "linspec.linalg.variation",
    "raised_diagonal": "linspec.linalg.preconditioner",
    "rank_cut": "linspec.linalg.small_matrices",
    "ratio": "linspec.linalg.small_matrices",
    "risen": "linspec.linalg.small_matrices",
    "search": "linspec.linalg.krylov",
    "selection_matrix": "linspec.linalg.small_matrices",
    "side_by_side": "linspec.linalg.conjugate_gradients",
    "signs_of_columns": "linspec.linalg.small_matrices",
    "squared_cut": "linspec.linalg.small_matrices",
    "squares_about_means": "linspec.linalg.variation",
    "stacked": "linspec.linalg.bidiagonalisation",
    "tall_svd": "linspec.linalg.small_matrices",
    "unit_columns": "linspec.linalg.small_matrices",
    "varies": "linspec.linalg.variation",
    "whitening": "linspec.linalg.small_matrices",
    "whitening_above_noise": "linspec.linalg.small_matrices",
}

__all__ = list(_HOLDERS)
__getattr__, __dir__ = lazy_names(__name__, _HOLDERS)
