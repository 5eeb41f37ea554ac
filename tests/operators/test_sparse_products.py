"""Threaded sparse products: against dense float64 arithmetic, which small whole numbers make exact."""

from __future__ import annotations

from unittest import mock

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from scipy import sparse
from sparse_cases import (
    WORKING,
    blocks,
    dense,
    every_plan,
    matrices,
    plan,
    stored,
    unchanged,
)

import linspec as ls
from linspec.blocks import sparse_loops
from linspec.errors import InvalidProblem, UnsupportedData
from linspec.operators import SparseOperator
from linspec.process import machine


@every_plan
@given(data=st.data())
def test_products_with_a_matrix_and_its_transpose_are_exact(name, data):
    A = data.draw(matrices())
    V, U = data.draw(blocks(A.shape[1])), data.draw(blocks(A.shape[0]))
    before, V_before, U_before = stored(A), V.copy(), U.copy()
    for dtype in WORKING:
        with plan(name):
            operator = SparseOperator(A, dtype)
            AV, AtU = operator.matmat(V), operator.rmatmat(U)
        np.testing.assert_array_equal(AV, dense(A) @ V)
        np.testing.assert_array_equal(AtU, dense(A).T @ U)
        assert AV.dtype == dtype
        assert AtU.dtype == np.float64
        assert AV.flags.c_contiguous
        assert AtU.flags.c_contiguous
    assert unchanged(A, before)
    np.testing.assert_array_equal(V, V_before)
    np.testing.assert_array_equal(U, U_before)


@pytest.mark.parametrize("k", [1, 3, 40])
@pytest.mark.parametrize("dtype", WORKING)
@pytest.mark.slow(keep=2)
def test_large_products_agree_with_dense_ones(dtype, k):
    """Large enough for several threads and blocks."""
    rng = np.random.default_rng(0)
    X = sparse.random_array((60_000, 60), density=0.4, format="csr", dtype=dtype, rng=rng)
    V, U = (rng.standard_normal((rows, k)).astype(dtype) for rows in (60, 60_000))
    Xd = dense(X)
    exact = Xd.T @ U
    tolerance = 100 * float(np.finfo(dtype).eps)
    operator = SparseOperator(X, dtype)
    assert len(next(iter(operator.in_blocks().blocks())).edges(0)) > 2
    assert np.linalg.norm(operator.rmatmat(U) - exact) <= tolerance * np.linalg.norm(exact)
    np.testing.assert_allclose(operator.matmat(V), Xd @ V, rtol=tolerance, atol=tolerance * 30)


def test_the_same_bits_every_time():
    rng = np.random.default_rng(1)
    A = sparse.random_array((50_000, 40), density=0.2, format="csr", rng=rng)
    V = rng.standard_normal((40, 30))
    for dtype in WORKING:
        first, *others = (SparseOperator(A, dtype).rmatmat(A @ V) for _ in range(4))
        for other in others:
            np.testing.assert_array_equal(other, first)


@pytest.mark.parametrize("threads", [1, 2])
def test_float32_sums_over_many_rows_are_better_than_float32(threads):
    """Two hundred thousand equal numbers: the rounding errors of a running float32 sum do not average out."""
    n, k = 200_000, 4
    tenth = np.float32(0.1)
    A = sparse.csr_array(np.full((n, 3), tenth))
    exact = n * float(tenth)
    naive = abs(float(np.cumsum(np.full(n, tenth), dtype=np.float32)[-1]) - exact) / exact
    with mock.patch.object(machine, "cpu_count", return_value=threads):
        AtU = SparseOperator(A, np.float32).rmatmat(np.ones((n, k), np.float32))
    error = np.max(np.abs(AtU - exact)) / exact
    assert error < naive / 4
    # The bound of recursive summation over a stretch, in the unit roundoff of float32.
    assert error < sparse_loops.SHORTEST_STRETCH * 2.0**-24


A = ls.as_operator(sparse.csr_array(np.eye(4, 3)))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: A.matmat(np.ones((4, 2))), InvalidProblem, r"matmat .* 3 rows.*\(4, 2\)"),
        (lambda: A.matmat(np.ones(3)), InvalidProblem, "A vector is a block of one column"),
        (lambda: A.rmatmat(np.ones((3, 2))), InvalidProblem, "rmatmat .* 4 rows"),
        (lambda: A.matmat(np.ones((3, 2)) * 1j), UnsupportedData, "complex128"),
        (lambda: ls.as_operator(sparse.csr_array(np.eye(3) * 1j)), UnsupportedData, "complex128"),
    ],
)
def test_misuse_is_refused_before_the_loops_see_it(call, error, words):
    with pytest.raises(error, match=words):
        call()
