"""Slabs of sparse rows: how rows are cut and shared, and SciPy's own loops."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
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
    assert type(B) is type(A)
    assert B.shape == (stop - start, A.shape[1])
    assert B.indices.dtype == A.indices.dtype
    assert B.data.dtype == A.data.dtype
    assert B.nnz == 0 or (np.shares_memory(A.data, B.data) and np.shares_memory(A.indices, B.indices))


@pytest.fixture
def fresh():
    sparse_slabs._compiled.cache_clear()
    yield
    sparse_slabs._compiled.cache_clear()


@pytest.mark.usefixtures("fresh")
def test_this_scipy_has_the_loops():
    """Where this fails the results are still right, but the products take more memory and time."""
    assert sparse_slabs._compiled() is not None


def raising(*_: object) -> None:
    raise ValueError("changed")


def idle(*_: object) -> None:
    pass


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("change", ["no module", "no name", raising, idle])
@pytest.mark.parametrize("loop", ["csr_matvecs", "csc_matvecs", "csr_matvec", "csc_matvec"])
def test_public_operators_stand_in_where_the_loops_are_gone_or_changed(monkeypatch, change, loop):
    if change == "no module":
        monkeypatch.setattr(sparse_slabs, "_sparsetools", None)
    elif change == "no name":
        monkeypatch.delattr(sparse_slabs._sparsetools, loop)
    else:
        monkeypatch.setattr(sparse_slabs._sparsetools, loop, change)
    assert sparse_slabs._compiled() is None
