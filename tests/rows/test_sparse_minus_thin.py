"""Gram matrices of sparse rows that stay sparse where means and confounds are subtracted, and moments of one matrix."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from in_blocks import rows_of
from truths import adjusted

import linspec as ls
from linspec.rows import Moments, Passes, Preprocessing, SparseMinusThin

N, P, Q = 300, 40, 30


def views(seed=0):
    rng = np.random.default_rng(seed)
    return tuple(scipy.sparse.random_array((N, m), density=0.05, rng=rng, format="csr") for m in (P, Q))


@pytest.mark.parametrize("scale", [False, True])
def test_what_is_subtracted_stays_beside_a_sparse_matrix(scale):
    X, Y = views()
    rng = np.random.default_rng(1)
    w, confounds = rng.uniform(0.5, 2, N), rng.standard_normal((N, 2))
    pre = Preprocessing.of(center=True, weights=w, confounds=confounds, scale=scale)
    held = Moments([rows_of(A) for A in (X, Y)], pre).gram(sparse=True)
    preprocessed = (adjusted(M.toarray(), w, confounds, center=True, scale=scale) for M in (X, Y))
    A, B = (each.entries for each in preprocessed)
    V = rng.standard_normal((Q, 3))
    assert isinstance(held[0][1], SparseMinusThin)
    assert scipy.sparse.issparse(held[0][1].G)
    np.testing.assert_allclose(held[0][1] @ V, A.T @ B @ V, atol=1e-12)
    np.testing.assert_allclose(held[1][0].T @ V, A.T @ B @ V, atol=1e-12)
    np.testing.assert_allclose(held[0][0].toarray(), A.T @ A, atol=1e-12)
    np.testing.assert_allclose(held[1][1].diagonal(), np.sum(B**2, axis=0), atol=1e-12)
    assert held[0][1].shape == (P, Q)


@pytest.mark.filterwarnings("ignore:d-cca treats")
@pytest.mark.parametrize("solver", ["als", "d-cca", "dw-cca", "nw-cca", "randomized"])
def test_solvers_on_sparse_matrices_give_what_they_give_on_dense_ones(solver):
    X, Y = views(2)
    problem = ls.CCA(X, Y, 3, ridge=1.0, confounds=np.arange(N) % 7.0)
    a, b = (ls.solve(problem, solver, rng=0, form=form) for form in ("sparse", "dense"))
    np.testing.assert_allclose(a.correlations, b.correlations, atol=1e-10)
    assert a.residual == pytest.approx(b.residual, rel=1e-6, abs=1e-12)
    assert a.passes == b.passes == 1


def test_one_hot_rows_are_held_in_the_memory_of_their_pairs():
    """Dense Gram matrices of 50,000 columns a view would take 60 GB."""
    rng, n, p = np.random.default_rng(0), 3000, 50_000
    codes = rng.integers(0, 60, n)
    X, Y = (scipy.sparse.csr_array((np.ones(n), c, np.arange(n + 1)), (n, p)) for c in (codes, codes**2 % 61))
    problem = ls.CCA(X, Y, 2, ridge=30.0)
    few = ls.CCA(X[:, :61].toarray(), Y[:, :61].toarray(), 2, ridge=30.0)
    found, exact = ls.solve(problem, rng=0), ls.solve(few, "direct").correlations
    np.testing.assert_allclose(found.correlations, exact, atol=1e-9)
    assert found.solver == "whitened-svd"
    other = ls.solve(problem, "als", rng=0, tol=1e-3)
    np.testing.assert_allclose(other.correlations, exact, atol=0.05)
    assert other.residual_kind == "exact"
    assert other.passes == 1


def test_moments_of_one_matrix_count_passes_with_the_others_and_share_what_they_learn():
    X, Y = views()
    passes = Passes()
    moments = Moments([rows_of(A) for A in (X, Y)], Preprocessing.of(center=True), passes)
    centred = [A.toarray() - A.toarray().mean(axis=0) for A in (X, Y)]
    for i, A in enumerate(centred):
        V = np.eye(A.shape[1])
        with moments.view(i) as alone:
            np.testing.assert_allclose(alone.gram_product(V), A.T @ A, atol=1e-12)
        assert passes.count == 1  # that of Y is the same pass
        np.testing.assert_allclose(moments.fitted[i].squares, np.sum(A**2, axis=0), rtol=1e-12)
    moments.gram()
    assert passes.count == 2
    with moments.view(1) as alone:
        np.testing.assert_allclose(alone.gram()[0][0], centred[1].T @ centred[1], atol=1e-12)
    assert passes.count == 2
