"""Facts of sparse columns: against dense float64 arithmetic, which small whole numbers make exact."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from scipy import sparse
from sparse_cases import WORKING, dense, every_plan, matrices, plan, stored, unchanged

from linspec.operators import sparse_columns, sparse_products


@every_plan
@given(A=matrices())
def test_column_statistics_square_entries_not_their_parts(name, A):
    before = stored(A)
    with plan(name):
        sums, squares = sparse_columns.column_statistics(A)
    np.testing.assert_array_equal(sums, dense(A).sum(axis=0))
    np.testing.assert_array_equal(squares, (dense(A) ** 2).sum(axis=0))
    assert sums.dtype == squares.dtype == np.float64
    assert sums.shape == squares.shape == (A.shape[1],)
    assert unchanged(A, before)


def test_column_statistics_of_small_integers_do_not_overflow():
    A = sparse.csr_array(np.full((1000, 2), 127, np.int8))
    sums, squares = sparse_columns.column_statistics(A)
    assert sums.tolist() == [127_000.0] * 2
    assert squares.tolist() == [127.0**2 * 1000] * 2


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", WORKING)
def test_the_first_entry_that_is_not_finite_is_found(value, dtype, monkeypatch):
    A = sparse.random_array((3000, 40), density=0.8, format="csr", dtype=dtype, rng=np.random.default_rng(5))
    monkeypatch.setattr(sparse_columns, "ENTRIES_PER_SLAB", 2**16)
    assert sparse_columns.first_non_finite(A) is None
    for position in (A.nnz - 1, int(A.indptr[2500]), 70_000, 5, 0):
        A.data[position] = value
        row = int(np.repeat(np.arange(3000), np.diff(A.indptr))[position])
        found = sparse_columns.first_non_finite(A)
        assert found is not None
        assert found[:2] == (row, A.indices[position])
        assert found[2] == value or np.isnan(found[2]) == np.isnan(value)


def test_only_what_belongs_to_the_matrix_must_be_finite():
    A = sparse.csr_array(np.eye(3))
    A.data, A.indices = np.append(A.data, np.nan), np.append(A.indices, 0)
    assert sparse_columns.first_non_finite(A) is None
    np.testing.assert_array_equal(sparse_products.matmat(A, np.eye(3), np.float64), np.eye(3))
    large = sparse.csr_array(np.full((2, 2), np.finfo(float).max))
    assert sparse_columns.first_non_finite(large) is None
    assert sparse_columns.first_non_finite(sparse.csr_array(np.eye(2, dtype=int))) is None
    assert sparse_columns.first_non_finite(sparse.csr_array((0, 3))) is None
