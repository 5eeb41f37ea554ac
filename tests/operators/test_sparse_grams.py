"""Sparse Gram matrices and their cost: against dense float64 arithmetic, which small whole numbers make exact."""

from __future__ import annotations

from unittest import mock

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from scipy import sparse
from sparse_cases import dense, matrices, plan, stored, unchanged

from linspec.blocks import sparse_loops
from linspec.process import machine


def test_a_gram_matrix_of_float32_is_summed_in_float64():
    n = 100_000
    A = sparse.csr_array(np.full((n, 2), np.float32(0.1)))
    exact = n * float(np.float32(0.1)) ** 2
    np.testing.assert_allclose(sparse_loops.gram(A).toarray(), exact, rtol=1e-11)


@pytest.mark.parametrize("name", ["default", "minute"])
@given(data=st.data())
def test_gram_matrices_and_their_cost(name, data):
    X = data.draw(matrices())
    Y = data.draw(st.none() | matrices(rows=X.shape[0]))
    before = stored(X)
    with plan(name):
        G = sparse_loops.gram(X, Y)
    right = X if Y is None else Y
    np.testing.assert_array_equal(G.toarray(), dense(X).T @ dense(right))
    assert G.format == "csr"
    assert G.dtype == np.float64
    assert isinstance(G, sparse.sparray) == isinstance(X, sparse.sparray)
    assert unchanged(X, before)
    pairs = sparse_loops.pair_count(X, Y)
    assert pairs == int((np.diff(X.indptr) * np.diff(right.indptr)).sum())
    assert type(pairs) is int
    assert G.nnz <= pairs
    copy = G.copy()
    copy.sum_duplicates()
    assert copy.nnz == G.nnz


def test_a_large_gram_matrix_on_several_threads():
    A = sparse.random_array((20_000, 300), density=0.02, format="csr", rng=np.random.default_rng(7))
    several = mock.patch.object(sparse_loops, "WORK_PER_THREAD", 2**15)
    with several, mock.patch.object(machine, "cpu_count", return_value=3):
        assert sparse_loops.pair_count(A) > 3 * sparse_loops.WORK_PER_THREAD
        G = sparse_loops.gram(A)
    np.testing.assert_allclose(G.toarray(), A.toarray().T @ A.toarray(), rtol=1e-12, atol=1e-12)
