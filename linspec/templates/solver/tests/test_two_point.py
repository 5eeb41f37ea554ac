"""The contract of every solver, and the further promises of this one."""

import numpy as np

import linspec as ls
from linspec.testing import conformance

test_conformance = conformance("least-squares/two-point")


def test_far_fewer_iterations_than_steepest_descent():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((500, 40)) * np.geomspace(1, 30, 40)
    problem = ls.LeastSquares(A, rng.standard_normal((500, 2)))
    ours = ls.solve(problem, "two-point", tol=1e-6)
    reference = ls.solve(problem, "gd", tol=1e-6, max_iterations=100_000)
    assert ours.converged
    assert reference.converged
    assert 5 * ours.iterations < reference.iterations
