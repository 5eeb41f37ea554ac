"""The contract of every solver, and the further promises of this one."""

import numpy as np

import linspec as ls
from linspec.testing import conformance, planted

test_conformance = conformance("cca/heavy-ball")


def test_momentum_saves_iterations():
    X, Y = planted(200, 9, 7)
    problem = ls.CCA(X, Y, k=2)
    without, ours = (ls.solve(problem, "heavy-ball", momentum=share, rng=0) for share in (0.0, 0.6))
    exact = ls.solve(problem, "gram")
    np.testing.assert_allclose(ours.correlations, exact.correlations, rtol=1e-5)
    assert ours.iterations < without.iterations
