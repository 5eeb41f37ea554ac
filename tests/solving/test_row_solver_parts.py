"""Solvers on rows where moments stand in place of the data: a part of another solver, or what a user has computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

import linspec as ls

rng = np.random.default_rng(0)
A = rng.standard_normal((500, 30)) + 3
B = A[:, :2] + rng.standard_normal((500, 2))


@pytest.mark.parametrize("solver", ["cg", "direct", "lsqr", "gd", "nystrom-pcg"])
@pytest.mark.parametrize("held", [True, False])
def test_least_squares_of_moments_are_those_of_the_data(solver: str, *, held: bool) -> None:
    moments = ls.Moments(A, B, center=True)
    if held:
        moments.dense()
    problem = ls.LeastSquares(moments, ridge=2.0, center=True)
    found = ls.solve(problem, solver, rng=0)
    exact = ls.solve(ls.LeastSquares(A, B, ridge=2.0, center=True), "direct")
    assert np.abs(found.x - exact.x).max() <= 1e-6 * np.abs(exact.x).max()
    if solver not in {"direct", "lsqr"}:  # which read the rows
        assert moments.passes == 1
        assert found.passes == (0 if held else 1)


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
def test_components_of_views_take_the_pass_that_forms_all_moments(kind: Any) -> None:
    found = ls.solve(ls.CCA(kind(A), kind(B), 2, ridge=1.0), "rpcca", rng=0)
    assert found.passes == 1
