"""Plots of solutions: values compared with those of permuted rows, loadings, intervals, leading columns, scores,
variates, scores over ridges and folds, and convergence.

Each function draws into the given matplotlib axes, or into axes of a new figure, and returns the axes:
``ls.plots.scree(solution).figure.savefig("scree.pdf")``. matplotlib is required: ``pip install 'linspec[plots]'``.
pyplot is not used, and settings of matplotlib are not changed permanently. Read `answers` first.
"""

from linspec.plots.answers import intervals, leading_columns, loadings, scores, scree, variates
from linspec.plots.courses import convergence, cross_validation, ridge_path

__all__ = [
    "convergence",
    "cross_validation",
    "intervals",
    "leading_columns",
    "loadings",
    "ridge_path",
    "scores",
    "scree",
    "variates",
]
