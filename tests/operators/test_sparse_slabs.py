"""Slabs of sparse rows: how rows are cut and shared, and SciPy's own loops."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from scipy import sparse
from sparse_cases import dense, matrices

from linspec.operators import sparse_slabs
from linspec.process import machine


def test_accumulators_fit_into_memory(monkeypatch):
    """Tiles of columns, and then fewer parts of the rows: half of the result, but for two of the least width."""
    A = sparse.random_array((20_000, 100), density=0.5, format="csr", rng=np.random.default_rng(4))
    monkeypatch.setattr(machine, "cpu_count", lambda: 8)
    monkeypatch.setattr(sparse_slabs, "WORK_PER_THREAD", 1)
    assert sparse_slabs.shares(A, 10, np.dtype(np.float64)) == (16, 1)
    monkeypatch.setattr(sparse_slabs, "NEGLIGIBLE_BYTES", 0)
    one = 100 * 10 * 8
    for k, memory, plan in (
        (10, 2**40, (2, 1)),
        (10, 4 * 2 * one, (2, 1)),
        (10, 4 * one, (1, 1)),
        (10, 0, (1, 1)),
        (64, 2**40, (2, 4)),
        (1024, 2**40, (16, 32)),
    ):
        monkeypatch.setattr(machine, "available_memory", lambda memory=memory: memory)
        assert sparse_slabs.shares(A, k, np.dtype(np.float64)) == plan


def test_slabs_keep_to_their_bounds_except_for_a_row_that_is_longer():
    A = sparse.csr_array((7, 100))
    A.indptr = np.cumsum([0, 3, 0, 0, 50, 2, 2, 2])
    assert list(sparse_slabs.slab_bounds(A, 0, 7, rows=3, entries=4)) == [(0, 3), (3, 4), (4, 6), (6, 7)]
    assert list(sparse_slabs.slab_bounds(A, 1, 6, rows=100, entries=10**6)) == [(1, 6)]
    assert list(sparse_slabs.slab_bounds(A, 2, 2, rows=3, entries=4)) == []


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
