"""Estimators of scikit-learn that solve problems of linspec.

Problem: use linspec's solvers in the pipelines and grid searches of scikit-learn.
Method: each estimator creates a problem of linspec, solves it, and stores the results under the names of scikit-learn.
`solution_` is the solution of linspec with its certificate.
Where we differ from scikit-learn's estimators: sparse data are centred implicitly, data may also be files, operators
and slices of rows, the solver is chosen by name, and a fit that has not converged issues a warning.

scikit-learn is required, and imported only by this package: ``pip install 'linspec[sklearn]'``. Read `base` first.
"""

from __future__ import annotations

import importlib.util

from linspec.errors import MissingPackage

if importlib.util.find_spec("sklearn") is None:
    raise MissingPackage(
        "linspec.estimators needs scikit-learn, which is not installed. Run: pip install 'linspec[sklearn]'"
    )

from linspec.estimators.base import ConvergenceWarning
from linspec.estimators.components import CCA, PCA, KernelCCA
from linspec.estimators.discriminant import Discriminant
from linspec.estimators.generic import of
from linspec.estimators.multivariate import (
    IncompletePCA,
    MultisetCCA,
    PLSRegression,
    ReducedRankRegression,
)
from linspec.estimators.ridge import KernelRidge, Ridge, RidgeCV

__all__ = [
    "CCA",
    "PCA",
    "ConvergenceWarning",
    "Discriminant",
    "IncompletePCA",
    "KernelCCA",
    "KernelRidge",
    "MultisetCCA",
    "PLSRegression",
    "ReducedRankRegression",
    "Ridge",
    "RidgeCV",
    "of",
]
