"""Slabs of sparse rows: how rows are cut and shared, and SciPy's own loops."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
from hypothesis import given
from sparse_cases import dense, matrices

from linspec.blocks import sparse_loops


@given(data=st.data())
def test_a_block_of_rows_shares_the_entries(data):
    A = data.draw(matrices())
    start = data.draw(st.integers(0, A.shape[0]))
    stop = data.draw(st.integers(start, A.shape[0]))
    B = sparse_loops.row_block(A, start, stop)
    np.testing.assert_array_equal(dense(B), dense(A)[start:stop])
    assert type(B) is type(A)
    assert B.shape == (stop - start, A.shape[1])
    assert B.indices.dtype == A.indices.dtype
    assert B.data.dtype == A.data.dtype
    assert B.nnz == 0 or (np.shares_memory(A.data, B.data) and np.shares_memory(A.indices, B.indices))


def test_this_scipy_has_the_loops():
    """Where this fails the results are still right, but the products take more memory and time."""
    assert sparse_loops.csr_matvecs is not None
