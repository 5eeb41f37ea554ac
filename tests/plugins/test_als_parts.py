"""Alternating least squares with every least-squares solver that can be a part of it, against exact pairs."""

from __future__ import annotations

import numpy as np
import pytest

import linspec as ls

PARTS = ["cg", "direct", "gd", "ling", "lsqr", "nystrom-pcg"]


def test_those_that_begin_with_moments_are_parts() -> None:
    able = [
        name
        for name in ls.solvers("least-squares")
        if hasattr(ls.get_solver(name, "least-squares"), "begins")
    ]
    assert set(able) == set(PARTS)


@pytest.mark.parametrize("ridge", [0.0, 1.0])
@pytest.mark.parametrize("name", PARTS)
def test_als_finds_the_exact_pairs_by_any_part(name: str, ridge: float) -> None:
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((500, 3))
    X, Y = (shared @ rng.standard_normal((3, p)) + rng.standard_normal((500, p)) for p in (20, 12))
    problem = ls.CCA(X * np.geomspace(1, 10, 20), Y, k=2, ridge=ridge)
    found = ls.solve(problem, "als", lstsq=name, form="implicit", rng=0)
    assert found.converged
    np.testing.assert_allclose(found.correlations, ls.solve(problem, "direct").correlations, atol=3e-6)
