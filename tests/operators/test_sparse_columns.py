"""Facts of sparse columns: against dense float64 arithmetic, which small whole numbers make exact."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from scipy import sparse
from sparse_cases import WORKING, dense, every_plan, matrices, plan, stored, unchanged

from linspec.kernels.functions import read_rows
from linspec.operators import as_operator, sparse_columns, sparse_products
from linspec.operators.range_of_entries import not_finite


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
def test_the_first_entry_that_is_not_finite_is_named(value, dtype):
    A = sparse.random_array((3000, 40), density=0.8, format="csr", dtype=dtype, rng=np.random.default_rng(5))
    for position in (A.nnz - 1, int(A.indptr[2500]), 70_000, 5, 0):
        A.data[position] = value
        row = int(np.repeat(np.arange(3000), np.diff(A.indptr))[position])
        place = f"A must be finite; got {value} at row {row + 7}, column {A.indices[position]}."
        for rows in (A, A.toarray()):
            assert str(not_finite(rows, "A", 7)).startswith(place)


def test_only_what_belongs_to_the_matrix_must_be_finite():
    A = sparse.csr_array(np.eye(3))
    A.data, A.indices = np.append(A.data, np.nan), np.append(A.indices, 0)
    np.testing.assert_array_equal(read_rows(as_operator(A), "A").toarray(), np.eye(3))
    np.testing.assert_array_equal(sparse_products.matmat(A, np.eye(3), np.float64), np.eye(3))
