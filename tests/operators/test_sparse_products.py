"""Threaded sparse products: against dense float64 arithmetic, which small whole numbers make exact."""

from __future__ import annotations

from typing import Any
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
    plan,
    stored,
    unchanged,
)

from linspec.errors import InvalidProblem, UnsupportedData
from linspec.operators import sparse_products, sparse_slabs
from linspec.process import machine


def fused(A: Any, V: Any, dtype: Any, shift: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """AᵀP and the column sums of P, for P = A V less a shift."""
    (product,), sums = sparse_products.gram_matmat([A], [V], shifts=[shift], dtypes=[dtype])
    return product, sums


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
    """With one matrix, two and three, some without a block."""
    Xs = [data.draw(matrices())]
    Xs += [data.draw(matrices(rows=Xs[0].shape[0])) for _ in range(data.draw(st.integers(0, 2)))]
    Vs = [data.draw(st.none() | blocks(X.shape[1])) for X in Xs]
    shifts = [None if V is None else data.draw(st.none() | st.just(np.arange(V.shape[1]) + 1)) for V in Vs]
    dtypes = [data.draw(st.sampled_from(WORKING)) for _ in Xs]
    Ps = [
        dense(X) @ V - (0 if shift is None else shift)
        for X, V, shift in zip(Xs, Vs, shifts, strict=True)
        if V is not None
    ]
    P = np.hstack([np.zeros((Xs[0].shape[0], 0)), *Ps])
    with plan(name):
        products, sums = sparse_products.gram_matmat(Xs, Vs, shifts=shifts, dtypes=dtypes)
    for got, right in zip((*products, sums), (*(dense(X).T @ P for X in Xs), P.sum(axis=0)), strict=True):
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
    PQ = np.hstack([P, Q])
    expected = (Xd.T @ PQ, Yd.T @ PQ, PQ.sum(axis=0))
    tolerance = 100 * float(np.finfo(dtype).eps)
    for cache in (2**40, 4000):
        with constants(WIDE_TILE=1, CACHE=cache):
            assert (sparse_slabs._tile_count(k, (X,), 1, np.dtype(dtype)) > 1) == (cache == 4000 and k == 40)
            products, sums = sparse_products.gram_matmat(
                [X, Y], [Vx, Vy], shifts=[shift, None], dtypes=[dtype, dtype]
            )
            AtU = sparse_products.rmatmat(X, U, dtype)
        for got, right in zip((*products, sums, AtU), (*expected, Xd.T @ U), strict=True):
            assert np.linalg.norm(got - right) <= tolerance * np.linalg.norm(right)
    np.testing.assert_allclose(
        sparse_products.matmat(X, Vx, dtype), Xd @ Vx, rtol=tolerance, atol=tolerance * 30
    )


def test_the_same_bits_every_time():
    rng = np.random.default_rng(1)
    A = sparse.random_array((50_000, 40), density=0.2, format="csr", rng=rng)
    V = rng.standard_normal((40, 30))
    for dtype in WORKING:
        first, *others = ((*fused(A, V, dtype), sparse_products.rmatmat(A, A @ V, dtype)) for _ in range(4))
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
        AtP, sums = fused(A, np.full((p, k), 1, np.float32) / 3, np.float32)
    P = float(np.float32(A[[0]].toarray() @ np.full(p, np.float32(1) / np.float32(3)))[0])
    for got, right in ((AtU, exact), (AtP, exact * P), (sums, n * P)):
        error = np.max(np.abs(got - right)) / right
        assert error < naive / 4
        # The bound of recursive summation over a stretch, in the unit roundoff of float32.
        assert error < sparse_slabs.SHORTEST_STRETCH * 2.0**-24


@pytest.mark.parametrize("onto", [(0,), (1,)])
def test_products_with_the_transpose_of_one_matrix_alone(onto):
    rng = np.random.default_rng(0)
    X, Y = (sparse.random(70, width, 0.2, random_state=width, format="csr") for width in (9, 6))
    V, W = rng.standard_normal((9, 3)), rng.standard_normal((6, 2))
    products, sums = sparse_products.gram_matmat([X, Y], [V, W], dtypes=[np.float64] * 2, onto=onto)
    PQ = np.hstack([X @ V, Y @ W])
    for i, (found, A) in enumerate(zip(products, (X, Y), strict=True)):
        if i in onto:
            np.testing.assert_allclose(found, A.T @ PQ, atol=1e-12)
        else:
            assert found is None
    np.testing.assert_allclose(sums, PQ.sum(axis=0), atol=1e-12)


def test_a_float64_view_beside_a_float32_one_loses_nothing():
    rng = np.random.default_rng(6)
    X = sparse.csr_array(rng.integers(0, 3, (500, 4)).astype(np.float32))
    Y = sparse.csr_array(rng.standard_normal((500, 5)))
    Vx, Vy = np.ones((4, 2), np.float32), rng.standard_normal((5, 3))
    products, _ = sparse_products.gram_matmat([X, Y], [Vx, Vy], dtypes=[np.float32, np.float64])
    PQ = np.hstack([dense(X) @ Vx, dense(Y) @ Vy])
    for got, A in zip(products, (X, Y), strict=True):
        np.testing.assert_allclose(got, A.T @ PQ, rtol=1e-12, atol=1e-10)


def test_a_mean_that_dwarfs_the_deviations_is_taken_off_row_by_row():
    rng = np.random.default_rng(2)
    D = 1e4 + rng.standard_normal((5000, 6))
    V = rng.standard_normal((6, 3))
    mean = D.mean(axis=0)
    (XtP,), sums = sparse_products.gram_matmat(
        [sparse.csr_array(D)], [V], shifts=[mean @ V], dtypes=[np.float64]
    )
    centred = D - mean
    corrected = XtP - np.outer(mean, sums)
    np.testing.assert_allclose(corrected, centred.T @ (centred @ V), rtol=1e-8, atol=1e-8 * 5000)


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
            lambda: sparse_products.gram_matmat([A, A[:2]], [SQUARE, None], dtypes=[float, float]),
            InvalidProblem,
            "same rows; got 4 and 2",
        ),
        (lambda: fused(A, SQUARE, float, np.ones(3)), InvalidProblem, "each of the 2 columns of V"),
        (lambda: fused(A, None, float, np.ones(2)), InvalidProblem, "V is None"),
    ],
)
def test_misuse_is_refused_before_the_loops_see_it(call, error, words):
    with pytest.raises(error, match=words):
        call()
