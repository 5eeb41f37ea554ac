"""Pictures of answers: values beside chance, loadings, scores, variates, ridges, folds, and how runs converge.

Each function draws into the matplotlib axes that it is given, or into those of a new figure, and returns them:
``ls.plots.scree(solution).figure.savefig("scree.pdf")``. matplotlib is needed: ``pip install 'linspec[plots]'``. pyplot
is not used, and no setting of matplotlib is left changed. Read `answers` first.
"""

from linspec.plots.answers import loadings, scores, scree, variates
from linspec.plots.courses import convergence
from linspec.plots.paths import cross_validation, ridge_path

__all__ = ["convergence", "cross_validation", "loadings", "ridge_path", "scores", "scree", "variates"]
