"""The Nyström preconditioner against the theorem of its authors, and what it takes out of the condition."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from planted import factored

import linspec as ls
from linspec import datasets
from linspec_lstsq.nystrom_pcg import NystromPreconditioner, NystromSketch, Outlook

NAME = "nystrom-pcg"


@pytest.mark.parametrize("ridge", [1e-3, 1e-1])
def test_condition_number_of_the_preconditioned_matrix(ridge):
    """Theorem 1.1: with 2⌈1.5 d_eff⌉ + 1 columns its expectation is below 28."""
    p, values = 200, np.geomspace(1e3, 1e-8, 200)
    V = factored(p, p, values)[2]
    S = V * values @ V.T
    columns = 2 * int(np.ceil(1.5 * np.sum(values / (values + ridge)))) + 1
    dear = Outlook(lambda columns: 5.0 * columns, (p, p), 1, float(np.trace(S)), 10.0, None)
    found = []
    for seed in range(10):
        Omega = np.random.default_rng(seed).standard_normal((p, columns))
        sketch = NystromSketch(Omega, S @ Omega, np.diag(S).copy(), dear, scaled=False)
        half = NystromPreconditioner.of(sketch, ridge).forward(np.eye(p))
        found.append(np.linalg.cond(half.T @ (S + ridge * np.eye(p)) @ half))
    assert np.mean(found) < 28


def steep(seed):
    model = datasets.steep_spectrum(seed, n=400, p=300)
    return ls.LeastSquares(model.A, model.draw(np.random.default_rng(1)), ridge=400.0)


def test_large_singular_values_no_longer_count():
    passes = {name: ls.solve(steep(0), name, rng=0, form="implicit").passes for name in ("cg", NAME)}
    assert 3 * passes[NAME] < passes["cg"]


@pytest.mark.parametrize("tol", [1e-11, 1e-12, 1e-13])
def test_rounding_in_the_preconditioned_variables_does_not_end_the_iteration_early(tol):
    """The way back to x multiplies it by the root of the largest eigenvalue over the first that is left."""
    for seed in range(3):
        assert ls.solve(steep(seed), NAME, rng=0, tol=tol, form="implicit").converged


@pytest.mark.parametrize("solver", ["nystrom-pcg", "svrg", "ling"])
def test_a_near_copy_among_many_sparse_columns_is_told(solver: str) -> None:
    """The certificate solves for a planted column where the solver has none, and no metric is affordable."""
    rng = np.random.default_rng(3)
    S = scipy.sparse.random(6000, 1699, 8 / 1700, random_state=rng, format="csc")
    S.data += 0.5
    S = S + scipy.sparse.eye_array(6000, 1699, format="csc")
    near = S[:, :1].copy()
    near.data = near.data * (1 + 1e-4 * rng.standard_normal(len(near.data)))
    A = scipy.sparse.csr_array(scipy.sparse.hstack([S, near]))
    x = np.r_[50.0, np.ones(1698), -50.0]
    found = ls.solve(ls.LeastSquares(A, A @ x), solver, rng=0)
    assert np.linalg.norm(np.ravel(found.x) - x) > 0.1 * np.linalg.norm(x)
    assert found.status is ls.Status.ILL_CONDITIONED
