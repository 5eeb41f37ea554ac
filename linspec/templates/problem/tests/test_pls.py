"""The contract of every solver, and the further promises of this problem."""

import numpy as np
from linspec_pls.problem import PLS

import linspec as ls
from linspec.testing import common_views, conformance

test_problem = conformance("problem/pls")
test_gram = conformance("pls/gram")
test_power = conformance("pls/power")


def test_scores_have_the_singular_values_for_cross_products():
    X, Y = common_views(60, (9, 7), (5, 3, 1))
    solution = ls.solve(PLS(X, Y, k=2), "gram")
    x_scores, y_scores = solution.transform(X, Y)
    np.testing.assert_allclose(x_scores.T @ y_scores, np.diag([5, 3]), atol=1e-9)
