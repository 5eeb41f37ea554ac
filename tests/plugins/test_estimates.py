"""No solver's estimate warns or raises, whatever its data are known by."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse.linalg import aslinearoperator

import linspec as ls
from linspec.errors import PluginWarning

FORMS = {
    "dense": np.asarray,
    "sparse": scipy.sparse.csr_array,
    "slices": lambda A: lambda: iter([A[:30], A[30:]]),
    "products": aslinearoperator,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("problem", ["svd", "cca", "least-squares", "multiset-cca", "sumcor-cca", "pls"])
def test_auto_chooses_without_a_warning(problem, form):
    X, Y = np.random.default_rng(0).standard_normal((2, 60, 5))
    views = [FORMS[form](A) for A in (X, Y)]
    given = {"svd": (views[0],), "least-squares": (views[0], Y)}.get(
        problem, (views,) if problem in {"multiset-cca", "sumcor-cca"} else tuple(views)
    )
    numbers = {} if problem == "least-squares" else {"k": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("error", PluginWarning)
        chosen = ls.select(ls.get_problem(problem)(*given, **numbers))
    assert chosen.name in ls.solvers(problem)
