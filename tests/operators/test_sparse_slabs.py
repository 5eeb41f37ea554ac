"""Slabs of sparse rows: how rows are cut and shared, and SciPy's own loops."""

from __future__ import annotations

from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from scipy import sparse
from sparse_cases import dense, matrices

from linspec.errors import InvalidProblem
from linspec.operators import sparse_slabs
from linspec.process import machine


def test_columns_that_are_seldom_met_do_not_count():
    """Ten of 1,000 columns have 95 of 100 entries; if all have equally many, nearly all count."""
    rng = np.random.default_rng(2)
    often = rng.random(200_000) < 0.95
    columns = np.where(often, rng.integers(0, 10, 200_000), rng.integers(0, 1000, 200_000))
    rows = np.arange(0, 200_001, 10)
    skewed = sparse.csr_array((np.ones(200_000), columns, rows), shape=(20_000, 1000))
    even = sparse.csr_array((np.ones(200_000), rng.integers(0, 1000, 200_000), rows), shape=(20_000, 1000))
    assert sparse_slabs._frequent_columns(skewed) == 10
    assert 850 <= sparse_slabs._frequent_columns(even) <= 950
    assert sparse_slabs._frequent_columns(sparse.csr_array(([1.0], [3], [0, 1]), shape=(1, 5))) == 1
    assert sparse_slabs._frequent_columns(sparse.csr_array((3, 5))) == 0


def test_stretches_are_bounded_even_where_folds_are_dear():
    wide = sparse.csr_array(sparse.coo_array(([1.0], ([0], [0])), shape=(10**6, 10**6)))
    assert sparse_slabs.stretch(wide) == sparse_slabs.LONGEST_STRETCH <= 2**16
    full = sparse.csr_array(np.ones((1000, 10)))
    assert sparse_slabs.stretch(full) == sparse_slabs.SHORTEST_STRETCH


def test_accumulators_fit_into_memory(monkeypatch):
    """Tiles of columns, and then fewer parts of the rows: half of the result, but for two of the least width."""
    A = sparse.random_array((20_000, 100), density=0.5, format="csr", rng=np.random.default_rng(4))
    monkeypatch.setattr(machine, "cpu_count", lambda: 8)
    monkeypatch.setattr(sparse_slabs, "WORK_PER_THREAD", 1)
    assert sparse_slabs.shares((A,), 10, np.dtype(np.float64)) == (16, 1)
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
        assert sparse_slabs.shares((A,), k, np.dtype(np.float64)) == plan


def test_few_meetings_are_not_worth_an_accumulator(monkeypatch):
    """With two threads the work is one part, or enough parts that any of them can be late."""
    monkeypatch.setattr(machine, "cpu_count", lambda: 2)
    rng = np.random.default_rng(5)
    found = set()
    for n in range(1000, 60_000, 4000):
        A = sparse.csr_array((np.ones(n), rng.integers(0, 500, n), np.arange(n + 1)), shape=(n, 500))
        found.add(sparse_slabs.shares((A,), 200, np.dtype(np.float64))[0])
    assert found == {1, 3, 4}


def test_parts_are_balanced_by_entries_not_by_rows():
    counts = np.where(np.arange(10_000) < 100, 1000, 1)
    A, B = sparse.csr_array((10_000, 10_000)), sparse.csr_array((10_000, 10_000))
    A.indptr = np.concatenate([[0], np.cumsum(counts)])
    for matrices_ in ((A,), (A, B), (B, A)):
        parts = sparse_slabs.partition(matrices_, 4)
        assert parts[0][0] == 0
        assert parts[-1][1] == 10_000
        assert all(left[1] == right[0] for left, right in pairwise(parts))
        costs = [A.indptr[stop] - A.indptr[start] + (stop - start) for start, stop in parts]
        assert max(costs) - min(costs) <= 2 * 1002


def test_slabs_keep_to_their_bounds_except_for_a_row_that_is_longer():
    A = sparse.csr_array((7, 100))
    A.indptr = np.cumsum([0, 3, 0, 0, 50, 2, 2, 2])
    assert list(sparse_slabs.slab_bounds((A,), 0, 7, rows=3, entries=4)) == [(0, 3), (3, 4), (4, 6), (6, 7)]
    assert list(sparse_slabs.slab_bounds((A,), 1, 6, rows=100, entries=10**6)) == [(1, 6)]
    assert list(sparse_slabs.slab_bounds((A,), 2, 2, rows=3, entries=4)) == []


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


@pytest.mark.parametrize("rows", [(-1, 2), (2, 1), (0, 4)])
def test_rows_outside_the_matrix_are_refused(rows):
    with pytest.raises(InvalidProblem, match="3 rows"):
        sparse_slabs.row_block(sparse.csr_array((3, 2)), *rows)


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
