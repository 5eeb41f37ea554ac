"""However small a budget is, it is kept: an answer with components, or one error."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse.linalg import aslinearoperator

import linspec as ls
from linspec.errors import LinspecError

RNG = np.random.default_rng(0)
A = RNG.standard_normal((120, 12)) @ np.diag(np.geomspace(5, 0.2, 12))
Y = A[:, :4] @ RNG.standard_normal((4, 6)) + RNG.standard_normal((120, 6))
PROBLEMS = {
    "svd": lambda f: ls.SVD(f(A), 3, center=True),
    "cca": lambda f: ls.CCA(f(A), f(Y), 2, ridge=0.5),
    "least-squares": lambda f: ls.LeastSquares(f(A), Y, ridge=0.3, center=True),
    "multiset-cca": lambda f: ls.MultisetCCA([f(A), f(Y)], 2, ridge=0.5),
    "discriminant": lambda f: ls.Discriminant(f(A), ls.targets.lda(np.arange(120) % 3), k=2, ridge=0.3),
    "pls": lambda f: ls.PLS(f(A), f(Y), 2),
    "reduced-rank-regression": lambda f: ls.ReducedRankRegression(f(A), f(Y), 2, ridge=0.3),
}
FORMS = {
    "dense": np.asarray,
    "slices": lambda M: lambda: iter([M[:50], M[50:]]),
    "products": aslinearoperator,
}
CASES = [(problem, solver) for problem in PROBLEMS for solver in ls.solvers(problem)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("problem", "solver"), CASES)
@pytest.mark.filterwarnings("ignore")
def test_a_small_budget_is_kept(problem, solver, form):
    for budget in (1, 2, 3, 5):
        try:
            found = ls.solve(PROBLEMS[problem](FORMS[form]), solver, rng=0, max_passes=budget)
        except LinspecError:
            continue
        assert found.passes <= budget
