"""Estimators of scikit-learn that solve problems of linspec.

Problem: people keep their data work in scikit-learn's pipelines and grid searches, and want linspec's solvers there.
Method: each estimator states a problem of linspec, solves it, and tells the answer by the names that scikit-learn uses.
`solution_` is the answer of linspec with its certificate.
Where we differ from scikit-learn's estimators: sparse data are centred implicitly, data may be files, operators and
slices of rows too, the solver is chosen by name, and an answer that has not converged says so.

scikit-learn is needed, and imported with this package alone: ``pip install 'linspec[sklearn]'``. Read `base` first.
"""

from __future__ import annotations

import importlib.util

from linspec.errors import MissingPackage

if importlib.util.find_spec("sklearn") is None:
    raise MissingPackage(
        "linspec.estimators needs scikit-learn, which is not installed. Run: pip install 'linspec[sklearn]'"
    )

from linspec.estimators.base import ConvergenceWarning
from linspec.estimators.cca import CCA
from linspec.estimators.discriminant import Discriminant
from linspec.estimators.kernel_cca import KernelCCA
from linspec.estimators.pca import PCA
from linspec.estimators.ridge import Ridge, RidgeCV

__all__ = ["CCA", "PCA", "ConvergenceWarning", "Discriminant", "KernelCCA", "Ridge", "RidgeCV"]
