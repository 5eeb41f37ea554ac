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
    constants,
    dense,
    every_plan,
    matrices,
    peak,
    plan,
    stored,
    unchanged,
)

from linspec.errors import InvalidProblem, UnsupportedData
from linspec.operators import sparse_columns, sparse_products, sparse_slabs
from linspec.process import machine


@every_plan
@given(data=st.data())
def test_products_with_a_matrix_and_its_transpose_are_exact(name, data):
    A = data.draw(matrices())
    V, U = data.draw(blocks(A.shape[1])), data.draw(blocks(A.shape[0]))
    before, V_before, U_before = stored(A), V.copy(), U.copy()
    for dtype in WORKING:
        with plan(name):
            AV, AtU = sparse_products.matmat(A, V, dtype), sparse_products.rmatmat(A, U, dtype)
        np.testing.assert_array_equal(AV, dense(A) @ V)
        np.testing.assert_array_equal(AtU, dense(A).T @ U)
        assert AV.dtype == dtype
        assert AtU.dtype == np.float64
        assert AV.flags.c_contiguous
        assert AtU.flags.c_contiguous
    assert unchanged(A, before)
    np.testing.assert_array_equal(V, V_before)
    np.testing.assert_array_equal(U, U_before)


@every_plan
@given(data=st.data())
def test_a_fused_sweep_is_exact(name, data):
    X = data.draw(matrices())
    Y = data.draw(st.none() | matrices(rows=X.shape[0]))
    Vx = data.draw(st.none() | blocks(X.shape[1]))
    Vy = None if Y is None else data.draw(st.none() | blocks(Y.shape[1]))
    shift_x, shift_y = (
        None if V is None else data.draw(st.none() | st.just(np.arange(1, V.shape[1] + 1))) for V in (Vx, Vy)
    )
    dtype_x, dtype_y = data.draw(st.tuples(st.sampled_from(WORKING), st.sampled_from(WORKING)))
    P = None if Vx is None else dense(X) @ Vx - (0 if shift_x is None else shift_x)
    Q = None if Vy is None else dense(Y) @ Vy - (0 if shift_y is None else shift_y)
    expected = [
        None if left is None or right is None else left.T @ right
        for left in (dense(X), None if Y is None else dense(Y))
        for right in (P, Q)
    ]
    expected += [None if right is None else right.sum(axis=0) for right in (P, Q)]
    with plan(name):
        result = sparse_products.products(
            X, Y, Vx, Vy, shift_x=shift_x, shift_y=shift_y, dtype_x=dtype_x, dtype_y=dtype_y
        )
    assert result._fields == ("XtP", "XtQ", "YtP", "YtQ", "sum_P", "sum_Q")
    for got, right in zip(result, expected, strict=True):
        assert (got is None) == (right is None)
        if got is not None:
            np.testing.assert_array_equal(got, right)
            assert got.dtype == np.float64


@pytest.mark.parametrize("k", [1, 3, 40])
@pytest.mark.parametrize("dtype", WORKING)
@pytest.mark.slow(keep=2)
def test_large_products_agree_with_dense_ones(dtype, k):
    """Large enough for several threads, slabs and, with a small cache, tiles."""
    rng = np.random.default_rng(0)
    X = sparse.random_array((30_000, 60), density=0.2, format="csr", dtype=dtype, rng=rng)
    Y = sparse.random_array((30_000, 30), density=0.1, format="csr", dtype=dtype, rng=rng)
    Vx, Vy, U = (rng.standard_normal((rows, k)).astype(dtype) for rows in (60, 30, 30_000))
    shift = rng.standard_normal(k)
    Xd, Yd = dense(X), dense(Y)
    P, Q = Xd @ Vx - shift, Yd @ Vy
    expected = (Xd.T @ P, Xd.T @ Q, Yd.T @ P, Yd.T @ Q, P.sum(axis=0), Q.sum(axis=0))
    tolerance = 100 * float(np.finfo(dtype).eps)
    for cache in (2**40, 4000):
        with mock.patch.object(machine, "cache_size", return_value=cache):
            assert (sparse_slabs._tile_count(k, (X,), 1, np.dtype(dtype)) > 1) == (cache == 4000 and k == 40)
            result = sparse_products.products(X, Y, Vx, Vy, shift_x=shift, dtype_x=dtype, dtype_y=dtype)
            AtU = sparse_products.rmatmat(X, U, dtype)
        for got, right in zip((*result, AtU), (*expected, Xd.T @ U), strict=True):
            assert np.linalg.norm(got - right) <= tolerance * np.linalg.norm(right)
    np.testing.assert_allclose(
        sparse_products.matmat(X, Vx, dtype), Xd @ Vx, rtol=tolerance, atol=tolerance * 30
    )


def test_the_same_bits_every_time():
    rng = np.random.default_rng(1)
    A = sparse.random_array((50_000, 40), density=0.2, format="csr", rng=rng)
    V = rng.standard_normal((40, 30))
    for dtype in WORKING:
        first, *others = (
            (
                *sparse_products.products(A, None, V, None, dtype_x=dtype)[::4],
                sparse_products.rmatmat(A, A @ V, dtype),
            )
            for _ in range(4)
        )
        for other in others:
            for got, right in zip(other, first, strict=True):
                np.testing.assert_array_equal(got, right)


@pytest.mark.parametrize("threads", [1, 2])
def test_float32_sums_over_many_rows_are_better_than_float32(threads):
    """Two hundred thousand equal numbers: the rounding errors of a running float32 sum do not average out."""
    n, p, k = 200_000, 3, 4
    tenth = np.float32(0.1)
    A = sparse.csr_array(np.full((n, p), tenth))
    exact = n * float(tenth)
    naive = abs(float(np.cumsum(np.full(n, tenth), dtype=np.float32)[-1]) - exact) / exact
    with mock.patch.object(machine, "cpu_count", return_value=threads):
        AtU = sparse_products.rmatmat(A, np.ones((n, k), np.float32), np.float32)
        result = sparse_products.products(
            A, None, np.full((p, k), 1, np.float32) / 3, None, dtype_x=np.float32
        )
    P = float(np.float32(A[[0]].toarray() @ np.full(p, np.float32(1) / np.float32(3)))[0])
    for got, right in ((AtU, exact), (result.XtP, exact * P), (result.sum_P, n * P)):
        error = np.max(np.abs(got - right)) / right
        assert error < naive / 4
        # The bound of recursive summation over a stretch, in the unit roundoff of float32.
        assert error < sparse_slabs.SHORTEST_STRETCH * 2.0**-24


@pytest.mark.parametrize("onto", [(0,), (1,)])
def test_products_with_the_transpose_of_one_matrix_alone(onto):
    rng = np.random.default_rng(0)
    X, Y = (sparse.random(70, width, 0.2, random_state=width, format="csr") for width in (9, 6))
    V, W = rng.standard_normal((9, 3)), rng.standard_normal((6, 2))
    result = sparse_products.products(X, Y, V, W, dtype_x=np.float64, onto=onto)
    exact = (X.T @ (X @ V), X.T @ (Y @ W), Y.T @ (X @ V), Y.T @ (Y @ W))
    for number, (found, product) in enumerate(zip(result[:4], exact, strict=True)):
        if number // 2 in onto:
            np.testing.assert_allclose(found, product, atol=1e-12)
        else:
            assert found is None
    np.testing.assert_allclose(result.sum_Q, (Y @ W).sum(axis=0), atol=1e-12)


def test_a_float64_view_beside_a_float32_one_loses_nothing():
    rng = np.random.default_rng(6)
    X = sparse.csr_array(rng.integers(0, 3, (500, 4)).astype(np.float32))
    Y = sparse.csr_array(rng.standard_normal((500, 5)))
    Vx, Vy = np.ones((4, 2), np.float32), rng.standard_normal((5, 3))
    result = sparse_products.products(X, Y, Vx, Vy, dtype_x=np.float32, dtype_y=np.float64)
    P, Q = dense(X) @ Vx, dense(Y) @ Vy
    for got, right in zip(result[:4], (X.T @ P, X.T @ Q, Y.T @ P, Y.T @ Q), strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-12, atol=1e-10)


def test_a_mean_that_dwarfs_the_deviations_is_taken_off_row_by_row():
    rng = np.random.default_rng(2)
    D = 1e4 + rng.standard_normal((5000, 6))
    V = rng.standard_normal((6, 3))
    mean = D.mean(axis=0)
    result = sparse_products.products(
        sparse.csr_array(D), None, V, None, shift_x=mean @ V, dtype_x=np.float64
    )
    centred = D - mean
    corrected = result.XtP - np.outer(mean, result.sum_P)
    np.testing.assert_allclose(corrected, centred.T @ (centred @ V), rtol=1e-8, atol=1e-8 * 5000)


def test_neither_entries_nor_blocks_are_converted_or_formed_whole():
    n, p, k = 100_000, 50, 16
    rng = np.random.default_rng(3)
    A = sparse.random_array((n, p), density=0.2, format="csr", rng=rng)
    A.data = rng.integers(-9, 10, size=A.nnz).astype(np.int8)
    V, U = np.ones((p, k)), np.asfortranarray(np.ones((n, k)))
    whole_entries, whole_block = A.nnz * 8, n * k * 8
    small = {
        "FEWEST_ENTRIES": 2**13,
        "MOST_ENTRIES": 2**13,
        "MOST_DENSE_BYTES": 2**16,
        "LONGEST_STRETCH": 2**12,
    }
    with constants(**small):
        assert peak(lambda: sparse_products.matmat(A, V, np.float64)) < whole_block + whole_entries / 4
        assert peak(lambda: sparse_products.rmatmat(A, U, np.float64)) < min(whole_block, whole_entries) / 4
        assert peak(lambda: sparse_products.products(A, None, V, None, dtype_x=np.float64)) < whole_block / 4
        assert peak(lambda: sparse_columns.column_statistics(A)) < whole_entries / 4


@pytest.mark.parametrize("k", [30, 160])
@pytest.mark.slow(keep=1)
def test_a_result_does_not_depend_on_who_takes_which_part(k):
    """Tiles and parts have fixed places: the same bits at every call, whatever the threads do."""
    rng = np.random.default_rng(6)
    A = sparse.random_array((30_000, 400), density=0.05, format="csr", rng=rng)
    V, U = rng.standard_normal((400, k)), rng.standard_normal((30_000, k))
    with (
        mock.patch.object(machine, "cpu_count", return_value=2),
        mock.patch.object(sparse_slabs, "NEGLIGIBLE_BYTES", 2**18),
    ):
        assert sparse_slabs._shares((A,), k, np.dtype(np.float64))[0] > 1
        first = (
            sparse_products.rmatmat(A, U, np.float64),
            sparse_products.products(A, A, V, V[:, :7], dtype_x=np.float64),
        )
        for _ in range(5):
            assert np.array_equal(sparse_products.rmatmat(A, U, np.float64), first[0])
            again = sparse_products.products(A, A, V, V[:, :7], dtype_x=np.float64)
            assert all(np.array_equal(a, b) for a, b in zip(again, first[1], strict=True))
    np.testing.assert_allclose(first[0], A.toarray().T @ U, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(first[1].XtQ, A.toarray().T @ (A @ V[:, :7]), rtol=1e-9, atol=1e-9)


A = sparse.csr_array(np.eye(4, 3))


SQUARE = np.ones((3, 2))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda: sparse_products.matmat(A, np.ones((4, 2)), float),
            InvalidProblem,
            r"V must be .* 3 rows.*\(4, 2\)",
        ),
        (lambda: sparse_products.matmat(A, np.ones(3), float), InvalidProblem, "vector as one column"),
        (lambda: sparse_products.rmatmat(A, SQUARE, float), InvalidProblem, "U must be .* 4 rows"),
        (
            lambda: sparse_products.matmat(A, SQUARE, int),
            InvalidProblem,
            "float32 or float64; got dtype int64",
        ),
        (lambda: sparse_products.matmat(A, SQUARE * 1j, float), UnsupportedData, "V must hold real numbers"),
        (lambda: sparse_products.matmat(A * 1j, SQUARE, float), UnsupportedData, "A must hold real numbers"),
        (lambda: sparse_products.matmat(A.tocsc(), SQUARE, float), UnsupportedData, "tocsr"),
        (lambda: sparse_products.matmat(A.toarray(), SQUARE, float), UnsupportedData, "got ndarray"),
        (
            lambda: sparse_products.products(A, A[:2], SQUARE, None, dtype_x=float),
            InvalidProblem,
            "same rows; got 4 and 2",
        ),
        (
            lambda: sparse_products.products(A, None, SQUARE, SQUARE, dtype_x=float),
            InvalidProblem,
            "Y is None",
        ),
        (
            lambda: sparse_products.products(A, None, SQUARE, None, shift_x=np.ones(3), dtype_x=float),
            InvalidProblem,
            "each of the 2 columns of Vx",
        ),
        (
            lambda: sparse_products.products(A, None, None, None, shift_x=np.ones(2), dtype_x=float),
            InvalidProblem,
            "Vx is None",
        ),
    ],
)
def test_misuse_is_refused_before_the_loops_see_it(call, error, words):
    with pytest.raises(error, match=words):
        call()
