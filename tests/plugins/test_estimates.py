"""No solver's estimate warns or raises, whatever its data are known by."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse.linalg import aslinearoperator

import linspec as ls

KINDS = {
    "dense": np.asarray,
    "sparse": scipy.sparse.csr_array,
    "slices": lambda A: lambda: iter([A[:30], A[30:]]),
    "products": aslinearoperator,
}
PROBLEMS = {
    "svd": lambda X, Y: ls.SVD(X, 1),
    "cca": lambda X, Y: ls.CCA(X, Y, 1),
    "least-squares": ls.LeastSquares,
    "multiset-cca": lambda X, Y: ls.MultisetCCA([X, Y], 1),
    "sumcor-cca": lambda X, Y: ls.SumcorCCA([X, Y], 1),
    "pls": lambda X, Y: ls.PLS(X, Y, 1),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_auto_chooses_without_a_warning(problem, kind):
    stated = PROBLEMS[problem](*map(KINDS[kind], np.random.default_rng(0).standard_normal((2, 60, 5))))
    assert ls.select(stated).name in ls.solvers(problem)
