"""Slabs of sparse rows: how rows are cut and shared, and SciPy's own loops."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from sparse_cases import dense, matrices

from linspec.blocks import sparse_slabs


@given(data=st.data())
def test_a_block_of_rows_shares_the_entries(data):
    A = data.draw(matrices())
    start = data.draw(st.integers(0, A.shape[0]))
    stop = data.draw(st.integers(start, A.shape[0]))
    B = sparse_slabs.row_block(A, start, stop)
    np.testing.assert_array_equal(dense(B), dense(A)[start:stop])
    assert B.shape == (stop - start, A.shape[1])
    assert B.indices.dtype == A.indices.dtype
    assert B.data.dtype == A.data.dtype
    assert B.nnz == 0 or (np.shares_memory(A.data, B.data) and np.shares_memory(A.indices, B.indices))


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("public", [False, True])
def test_the_loops_of_this_scipy_add_to_what_they_are_given(monkeypatch, columns, public):
    """Where they are missing the results are still right, but the products take more memory and time."""
    assert sparse_slabs.csr_matvecs is not None
    if public:
        monkeypatch.setattr(sparse_slabs, "csr_matvecs", None)
        monkeypatch.setattr(sparse_slabs, "csc_matvecs", None)
    A = scipy.sparse.csr_array([[0.0, 2.0, 0.0], [3.0, 0.0, 5.0]])
    slab = sparse_slabs.Slab.of(A, 0, 2, A.dtype)
    V, U = np.arange(1.0, 1.0 + 3 * columns).reshape(3, -1), np.arange(1.0, 1.0 + 2 * columns).reshape(2, -1)
    AV, AtU = np.ones((2, columns)), np.ones((3, columns))
    slab.gather(V, AV)
    slab.scatter(U, AtU)
    np.testing.assert_array_equal(AV, 1 + A.toarray() @ V)
    np.testing.assert_array_equal(AtU, 1 + A.toarray().T @ U)
