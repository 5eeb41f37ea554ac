"""The contract of every solver, and the further promises of this problem."""

import numpy as np
import pytest
from linspec_pls.problem import PLS
from linspec_pls.testing import TESTING, PLSOracle, planted_pls

import linspec as ls
from linspec.errors import InvalidProblem
from linspec.testing import Reading, conformance

test_problem = conformance("problem/pls")
test_gram = conformance("pls/gram")
test_power = conformance("pls/power")


@pytest.mark.parametrize("case", [case for case in TESTING.cases() if case.truth], ids=lambda case: case.name)
def test_the_oracle_finds_what_was_planted(case):
    planted = case.truth["singular_values"]
    oracle = PLSOracle(case, Reading())
    assert oracle.count == len(planted)
    np.testing.assert_allclose(oracle.values, planted, rtol=1e-7)


def test_scores_have_the_singular_values_for_cross_products():
    case = planted_pls(60, 9, 7, (5, 3, 1), 2)
    X, Y = case.arrays["X"], case.arrays["Y"]
    solution = ls.solve(PLS(X, Y, k=2), "gram")
    x_scores, y_scores = solution.transform(X, Y)
    np.testing.assert_allclose(x_scores.T @ y_scores, np.diag([5, 3]), atol=1e-9)


def test_the_problem_says_what_it_is_and_refuses_what_it_cannot_be():
    X, Y = np.ones((6, 3)), np.ones((6, 2))
    assert repr(PLS(X, Y, k=1)) == "PLS(X=(6, 3), Y=(6, 2), k=1, center=True)"
    with pytest.raises(InvalidProblem, match="k must be between 1 and 2"):
        PLS(X, Y, k=3)
    with pytest.raises(InvalidProblem, match="equally many rows"):
        PLS(X, Y[:5], k=1)


def test_auto_chooses_among_the_solvers_of_the_package():
    problem = PLS(*planted_pls(60, 9, 7, (5, 3, 1), 2).arrays.values(), k=2)
    solution = ls.solve(problem)
    assert solution.solver in {"gram", "power"}
    assert solution.converged
