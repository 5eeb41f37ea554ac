"""Entries of sparse rows that are not finite, or belong to nothing."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import sparse
from sparse_cases import WORKING

from linspec.errors import NonFiniteData
from linspec.kernels.functions import read_rows
from linspec.operators import as_operator


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", WORKING)
def test_the_first_entry_that_is_not_finite_is_named(value, dtype):
    A = sparse.random_array((3000, 40), density=0.8, format="csr", dtype=dtype, rng=np.random.default_rng(5))
    for position in (A.nnz - 1, int(A.indptr[2500]), 70_000, 5, 0):
        A.data[position] = value
        row = int(np.repeat(np.arange(3000), np.diff(A.indptr))[position])
        place = f"A must be finite; got {value} at row {row}, column {A.indices[position]}."
        for rows in (A, A.toarray()):
            with pytest.raises(NonFiniteData, match=re.escape(place)):
                read_rows(as_operator(rows), "A")


def test_only_what_belongs_to_the_matrix_must_be_finite():
    A = sparse.csr_array(np.eye(3))
    A.data, A.indices = np.append(A.data, np.nan), np.append(A.indices, 0)
    np.testing.assert_array_equal(read_rows(as_operator(A), "A").toarray(), np.eye(3))
    np.testing.assert_array_equal(as_operator(A).matmat(np.eye(3)), np.eye(3))
