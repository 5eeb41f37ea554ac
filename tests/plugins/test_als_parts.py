"""Alternating least squares with every least-squares solver that can be a part of it, against exact pairs."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import scipy.sparse as sp
from in_blocks import rows_of

import linspec as ls
from linspec.iteration import Context
from linspec.registry.options import with_parts
from linspec.rows import Moments, Passes, Preprocessing

PARTS = [
    name for name in ls.solvers("least-squares") if hasattr(ls.get_solver(name, "least-squares"), "begins")
]

rng = np.random.default_rng(0)
shared = rng.standard_normal((500, 3))
X = (shared @ rng.standard_normal((3, 20)) + rng.standard_normal((500, 20))) * np.geomspace(1, 10, 20)
Y = shared @ rng.standard_normal((3, 12)) + rng.standard_normal((500, 12))


def test_those_without_rows_are_parts() -> None:
    assert set(PARTS) == {"cg", "direct", "gd", "ling", "lsqr", "nystrom-pcg"}


@pytest.mark.parametrize("ridge", [0.0, 3.0])
@pytest.mark.parametrize("name", PARTS)
def test_a_part_solves_for_a_block(name: str, ridge: float) -> None:
    passes = Passes()
    moments = Moments([rows_of(X), rows_of(Y)], Preprocessing(center=True), passes)
    moments.settle()
    solver = with_parts(ls.get_solver(name, "least-squares")())
    centred = Y - Y.mean(axis=0)
    G = centred.T @ (X - X.mean(axis=0)) @ rng.standard_normal((20, 4))
    exact = np.linalg.solve(centred.T @ centred + ridge * np.eye(12), G)
    solves = solver.begins(moments, 1, ridge, Context(1e-8, np.random.default_rng(1), passes))
    *_, last = islice(solves(G), 60)
    assert np.linalg.norm(last.X()[0] - exact) <= 1e-3 * np.linalg.norm(exact)


@pytest.mark.parametrize("data", ["dense", "sparse"])
@pytest.mark.parametrize("name", PARTS)
def test_als_finds_the_exact_pairs_by_any_part(name: str, data: str) -> None:
    views = (X, Y) if data == "dense" else (sp.csr_array(np.where(abs(X) > 1, X, 0)), sp.csr_array(Y))
    problem = ls.CCA(*views, k=2, ridge=1.0)
    exact = ls.solve(problem, "direct")
    found = ls.solve(problem, "als", lstsq=name, form="implicit", rng=0)
    assert found.converged
    np.testing.assert_allclose(found.correlations, exact.correlations, atol=3e-6)
