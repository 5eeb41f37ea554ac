"""Threaded sparse products: against dense float64 arithmetic, which small whole numbers make exact."""

from __future__ import annotations

import contextlib
import tracemalloc
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from unittest import mock

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from scipy import sparse

from linspec.errors import InvalidProblem, UnsupportedData
from linspec.operators import sparse_products as kernels
from linspec.process import machine

if TYPE_CHECKING:
    from collections.abc import Iterator

DTYPES = ("float32", "float64", "int8", "uint8", "int16", "int32", "int64", "uint64", "bool", "longdouble")
WORKING = (np.float32, np.float64)


@contextlib.contextmanager
def plan(name: str) -> Iterator[None]:
    """Products as they are planned, in minute slabs and tiles on three threads, or by SciPy's operators."""
    with contextlib.ExitStack() as stack:
        if name != "default":
            settings = {
                "WORK_PER_THREAD": 1,
                "PAIRS_PER_THREAD": 1,
                "FEWEST_ENTRIES": 3,
                "MOST_ENTRIES": 5,
                "SHORTEST_STRETCH": 2,
                "LONGEST_STRETCH": 3,
                "ROWS_ABREAST": 2,
                "NARROWEST_TILE_BYTES": 8,
                "COLUMNS_TO_TRANSPOSE": 2,
            }
            stack.enter_context(mock.patch.multiple(kernels, **settings))
            stack.enter_context(
                mock.patch.multiple(
                    machine, cpu_count=mock.Mock(return_value=3), cache_size=mock.Mock(return_value=64)
                )
            )
        if name == "public":
            stack.enter_context(mock.patch.object(kernels, "_compiled", return_value=None))
        yield


every_plan = pytest.mark.parametrize("name", ["default", "minute", "public"])


def dense(A: Any) -> np.ndarray:
    """Every stored part added up in float64 (True is 1, and nothing overflows)."""
    result = np.zeros(A.shape)
    rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    stored = A.indptr[-1]
    np.add.at(result, (rows, A.indices[:stored]), A.data[:stored].astype(np.float64))
    return result


@st.composite
def matrices(draw: st.DrawFn, rows: int | None = None) -> Any:
    """CSR of either kind, unsorted, with duplicates and empty rows, of either index type, maybe read-only."""
    n = draw(st.integers(0, 9)) if rows is None else rows
    p = draw(st.integers(0, 6))
    counts = draw(st.lists(st.integers(0, 8 if p else 0), min_size=n, max_size=n))
    stored = sum(counts)
    index = draw(st.sampled_from([np.int32, np.int64]))
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    lowest = 0 if dtype.kind in "bu" else -4
    numbers = st.lists(st.integers(lowest, 1 if dtype.kind == "b" else 4), min_size=stored, max_size=stored)
    columns = st.lists(st.integers(0, max(0, p - 1)), min_size=stored, max_size=stored)
    A = draw(st.sampled_from([sparse.csr_array, sparse.csr_matrix]))((n, p), dtype=dtype)
    # Set, not given to the constructor: that would choose the index type itself.
    A.indptr = np.concatenate([[0], np.cumsum(counts)]).astype(index)
    A.indices = np.array(draw(columns), index)
    A.data = np.array(draw(numbers)).astype(dtype)
    if draw(st.booleans()):
        for array in (A.indptr, A.indices, A.data):
            array.flags.writeable = False
    return A


@st.composite
def blocks(draw: st.DrawFn, rows: int) -> np.ndarray:
    """Whole numbers in any layout."""
    k = draw(st.integers(0, 4))
    seed = draw(st.integers(0, 2**32 - 1))
    block = np.random.default_rng(seed).integers(-5, 6, size=(rows, k))
    block = block.astype(draw(st.sampled_from(["float32", "float64", "int64"])))
    layout = draw(st.sampled_from(["C", "F", "strided"]))
    if layout == "F":
        block = np.asfortranarray(block)
    elif layout == "strided":
        block = np.repeat(block, 2, axis=1)[:, ::2]
    block.flags.writeable = draw(st.booleans())
    return block


def stored(A: Any) -> tuple[np.ndarray, ...]:
    return A.data.copy(), A.indices.copy(), A.indptr.copy()


def unchanged(A: Any, before: tuple[np.ndarray, ...]) -> bool:
    after = (A.data, A.indices, A.indptr)
    return all(np.array_equal(x, y) and x.dtype == y.dtype for x, y in zip(after, before, strict=True))


# --------------------------------------------------------------------------------------------------- products


@every_plan
@given(data=st.data())
def test_products_with_a_matrix_and_its_transpose_are_exact(name, data):
    A = data.draw(matrices())
    V, U = data.draw(blocks(A.shape[1])), data.draw(blocks(A.shape[0]))
    before, V_before, U_before = stored(A), V.copy(), U.copy()
    for dtype in WORKING:
        with plan(name):
            AV, AtU = kernels.matmat(A, V, dtype), kernels.rmatmat(A, U, dtype)
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
        result = kernels.products(
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
            assert (kernels._tile_count(k, (X,), 1, np.dtype(dtype)) > 1) == (cache == 4000 and k == 40)
            result = kernels.products(X, Y, Vx, Vy, shift_x=shift, dtype_x=dtype, dtype_y=dtype)
            AtU = kernels.rmatmat(X, U, dtype)
        for got, right in zip((*result, AtU), (*expected, Xd.T @ U), strict=True):
            assert np.linalg.norm(got - right) <= tolerance * np.linalg.norm(right)
    np.testing.assert_allclose(kernels.matmat(X, Vx, dtype), Xd @ Vx, rtol=tolerance, atol=tolerance * 30)


def test_columns_that_are_seldom_met_do_not_count():
    """Of 1,000 columns 10 have 95 of 100 entries; where all have as many, nearly all count."""
    rng = np.random.default_rng(2)
    often = rng.random(200_000) < 0.95
    columns = np.where(often, rng.integers(0, 10, 200_000), rng.integers(0, 1000, 200_000))
    rows = np.arange(0, 200_001, 10)
    skewed = sparse.csr_array((np.ones(200_000), columns, rows), shape=(20_000, 1000))
    even = sparse.csr_array((np.ones(200_000), rng.integers(0, 1000, 200_000), rows), shape=(20_000, 1000))
    assert kernels._frequent_columns(skewed) == 10
    assert 850 <= kernels._frequent_columns(even) <= 950
    assert kernels._frequent_columns(sparse.csr_array(([1.0], [3], [0, 1]), shape=(1, 5))) == 1
    assert kernels._frequent_columns(sparse.csr_array((3, 5))) == 0


def test_the_same_bits_every_time():
    rng = np.random.default_rng(1)
    A = sparse.random_array((50_000, 40), density=0.2, format="csr", rng=rng)
    V = rng.standard_normal((40, 30))
    for dtype in WORKING:
        first, *others = (
            (*kernels.products(A, None, V, None, dtype_x=dtype)[::4], kernels.rmatmat(A, A @ V, dtype))
            for _ in range(4)
        )
        for other in others:
            for got, right in zip(other, first, strict=True):
                np.testing.assert_array_equal(got, right)


# -------------------------------------------------------------------------------------------------- precision


@pytest.mark.parametrize("threads", [1, 2])
def test_float32_sums_over_many_rows_are_better_than_float32(threads):
    """Two hundred thousand equal numbers: the rounding errors of a running float32 sum do not average out."""
    n, p, k = 200_000, 3, 4
    tenth = np.float32(0.1)
    A = sparse.csr_array(np.full((n, p), tenth))
    exact = n * float(tenth)
    naive = abs(float(np.cumsum(np.full(n, tenth), dtype=np.float32)[-1]) - exact) / exact
    with mock.patch.object(machine, "cpu_count", return_value=threads):
        AtU = kernels.rmatmat(A, np.ones((n, k), np.float32), np.float32)
        result = kernels.products(A, None, np.full((p, k), 1, np.float32) / 3, None, dtype_x=np.float32)
    P = float(np.float32(A[[0]].toarray() @ np.full(p, np.float32(1) / np.float32(3)))[0])
    for got, right in ((AtU, exact), (result.XtP, exact * P), (result.sum_P, n * P)):
        error = np.max(np.abs(got - right)) / right
        assert error < naive / 4
        # The bound of recursive summation over a stretch, in the unit roundoff of float32.
        assert error < kernels.SHORTEST_STRETCH * 2.0**-24


def test_stretches_are_bounded_even_where_folds_are_dear():
    wide = sparse.csr_array(sparse.coo_array(([1.0], ([0], [0])), shape=(10**6, 10**6)))
    assert kernels._stretch(wide) == kernels.LONGEST_STRETCH <= 2**16
    full = sparse.csr_array(np.ones((1000, 10)))
    assert kernels._stretch(full) == kernels.SHORTEST_STRETCH


@pytest.mark.parametrize("onto", [(0,), (1,)])
def test_products_with_the_transpose_of_one_matrix_alone(onto):
    rng = np.random.default_rng(0)
    X, Y = (sparse.random(70, width, 0.2, random_state=width, format="csr") for width in (9, 6))
    V, W = rng.standard_normal((9, 3)), rng.standard_normal((6, 2))
    result = kernels.products(X, Y, V, W, dtype_x=np.float64, onto=onto)
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
    result = kernels.products(X, Y, Vx, Vy, dtype_x=np.float32, dtype_y=np.float64)
    P, Q = dense(X) @ Vx, dense(Y) @ Vy
    for got, right in zip(result[:4], (X.T @ P, X.T @ Q, Y.T @ P, Y.T @ Q), strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-12, atol=1e-10)


def test_a_gram_matrix_of_float32_is_summed_in_float64():
    n = 100_000
    A = sparse.csr_array(np.full((n, 2), np.float32(0.1)))
    exact = n * float(np.float32(0.1)) ** 2
    np.testing.assert_allclose(kernels.gram(A).toarray(), exact, rtol=1e-11)


def test_a_mean_that_dwarfs_the_deviations_is_taken_off_row_by_row():
    rng = np.random.default_rng(2)
    D = 1e4 + rng.standard_normal((5000, 6))
    V = rng.standard_normal((6, 3))
    mean = D.mean(axis=0)
    result = kernels.products(sparse.csr_array(D), None, V, None, shift_x=mean @ V, dtype_x=np.float64)
    centred = D - mean
    corrected = result.XtP - np.outer(mean, result.sum_P)
    np.testing.assert_allclose(corrected, centred.T @ (centred @ V), rtol=1e-8, atol=1e-8 * 5000)


# ----------------------------------------------------------------------------------------------------- memory


def peak(function: Any) -> int:
    function()  # what is made once and kept is not counted
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


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
    with mock.patch.multiple(kernels, **small):
        assert peak(lambda: kernels.matmat(A, V, np.float64)) < whole_block + whole_entries / 4
        assert peak(lambda: kernels.rmatmat(A, U, np.float64)) < min(whole_block, whole_entries) / 4
        assert peak(lambda: kernels.products(A, None, V, None, dtype_x=np.float64)) < whole_block / 4
        assert peak(lambda: kernels.column_statistics(A)) < whole_entries / 4


def test_accumulators_fit_into_memory(monkeypatch):
    """Tiles of columns, and then fewer parts of the rows: half of the result, but for two of the least width."""
    A = sparse.random_array((20_000, 100), density=0.5, format="csr", rng=np.random.default_rng(4))
    monkeypatch.setattr(machine, "cpu_count", lambda: 8)
    monkeypatch.setattr(kernels, "WORK_PER_THREAD", 1)
    assert kernels._shares((A,), 10, np.dtype(np.float64)) == (16, 1)
    monkeypatch.setattr(kernels, "NEGLIGIBLE_BYTES", 0)
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
        assert kernels._shares((A,), k, np.dtype(np.float64)) == plan


def test_few_meetings_are_not_worth_an_accumulator(monkeypatch):
    """On two threads: one part, or so many that any of them can be late."""
    monkeypatch.setattr(machine, "cpu_count", lambda: 2)
    rng = np.random.default_rng(5)
    found = set()
    for n in range(1000, 60_000, 4000):
        A = sparse.csr_array((np.ones(n), rng.integers(0, 500, n), np.arange(n + 1)), shape=(n, 500))
        found.add(kernels._shares((A,), 200, np.dtype(np.float64))[0])
    assert found == {1, 3, 4}


@pytest.mark.parametrize("k", [30, 160])
@pytest.mark.slow(keep=1)
def test_a_result_does_not_depend_on_who_takes_which_part(k):
    """Tiles and parts have fixed places: the same bits at every call, whatever the threads do."""
    rng = np.random.default_rng(6)
    A = sparse.random_array((30_000, 400), density=0.05, format="csr", rng=rng)
    V, U = rng.standard_normal((400, k)), rng.standard_normal((30_000, k))
    with (
        mock.patch.object(machine, "cpu_count", return_value=2),
        mock.patch.object(kernels, "NEGLIGIBLE_BYTES", 2**18),
    ):
        assert kernels._shares((A,), k, np.dtype(np.float64))[0] > 1
        first = kernels.rmatmat(A, U, np.float64), kernels.products(A, A, V, V[:, :7], dtype_x=np.float64)
        for _ in range(5):
            assert np.array_equal(kernels.rmatmat(A, U, np.float64), first[0])
            again = kernels.products(A, A, V, V[:, :7], dtype_x=np.float64)
            assert all(np.array_equal(a, b) for a, b in zip(again, first[1], strict=True))
    np.testing.assert_allclose(first[0], A.toarray().T @ U, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(first[1].XtQ, A.toarray().T @ (A @ V[:, :7]), rtol=1e-9, atol=1e-9)


# ------------------------------------------------------------------------------------------------------- plan


def test_parts_are_balanced_by_entries_not_by_rows():
    counts = np.where(np.arange(10_000) < 100, 1000, 1)
    A, B = sparse.csr_array((10_000, 10_000)), sparse.csr_array((10_000, 10_000))
    A.indptr = np.concatenate([[0], np.cumsum(counts)])
    for matrices_ in ((A,), (A, B), (B, A)):
        parts = kernels._partition(matrices_, 4)
        assert parts[0][0] == 0
        assert parts[-1][1] == 10_000
        assert all(left[1] == right[0] for left, right in pairwise(parts))
        costs = [
            A.indptr[stop] - A.indptr[start] + kernels.ROW_COST * (stop - start) for start, stop in parts
        ]
        assert max(costs) - min(costs) <= 2 * 1002


def test_slabs_keep_to_their_bounds_except_for_a_row_that_is_longer():
    A = sparse.csr_array((7, 100))
    A.indptr = np.cumsum([0, 3, 0, 0, 50, 2, 2, 2])
    assert list(kernels._slabs((A,), 0, 7, rows=3, entries=4)) == [(0, 3), (3, 4), (4, 6), (6, 7)]
    assert list(kernels._slabs((A,), 1, 6, rows=100, entries=10**6)) == [(1, 6)]
    assert list(kernels._slabs((A,), 2, 2, rows=3, entries=4)) == []


# ---------------------------------------------------------------------------- statistics, Gram matrices, rows


@every_plan
@given(A=matrices())
def test_column_statistics_square_entries_not_their_parts(name, A):
    before = stored(A)
    with plan(name):
        sums, squares = kernels.column_statistics(A)
    np.testing.assert_array_equal(sums, dense(A).sum(axis=0))
    np.testing.assert_array_equal(squares, (dense(A) ** 2).sum(axis=0))
    assert sums.dtype == squares.dtype == np.float64
    assert sums.shape == squares.shape == (A.shape[1],)
    assert unchanged(A, before)


def test_column_statistics_of_small_integers_do_not_overflow():
    A = sparse.csr_array(np.full((1000, 2), 127, np.int8))
    sums, squares = kernels.column_statistics(A)
    assert sums.tolist() == [127_000.0] * 2
    assert squares.tolist() == [127.0**2 * 1000] * 2


@pytest.mark.parametrize("name", ["default", "minute"])
@given(data=st.data())
def test_gram_matrices_and_their_cost(name, data):
    X = data.draw(matrices())
    Y = data.draw(st.none() | matrices(rows=X.shape[0]))
    before = stored(X)
    with plan(name):
        G = kernels.gram(X, Y)
    right = X if Y is None else Y
    np.testing.assert_array_equal(G.toarray(), dense(X).T @ dense(right))
    assert G.format == "csr"
    assert G.dtype == np.float64
    assert isinstance(G, sparse.sparray) == isinstance(X, sparse.sparray)
    assert unchanged(X, before)
    pairs = kernels.pair_count(X, Y)
    assert pairs == int((np.diff(X.indptr) * np.diff(right.indptr)).sum())
    assert type(pairs) is int
    assert G.nnz <= pairs
    copy = G.copy()
    copy.sum_duplicates()
    assert copy.nnz == G.nnz


def test_a_large_gram_matrix_on_several_threads():
    A = sparse.random_array((20_000, 300), density=0.02, format="csr", rng=np.random.default_rng(7))
    several = mock.patch.object(kernels, "PAIRS_PER_THREAD", 2**15)
    with several, mock.patch.object(machine, "cpu_count", return_value=3):
        assert kernels.pair_count(A) > 3 * kernels.PAIRS_PER_THREAD
        G = kernels.gram(A)
    np.testing.assert_allclose(G.toarray(), A.toarray().T @ A.toarray(), rtol=1e-12, atol=1e-12)


@given(st.data())
def test_the_entries_of_small_gram_matrices_are_counted(data):
    X = data.draw(matrices())
    Y = data.draw(matrices(rows=X.shape[0]))
    for A in (X, Y):  # sums of other numbers may be zero, which is no entry
        A.data = np.ones(len(A.data))
    before = stored(X), stored(Y)
    assert kernels.gram_entries(X, Y) == np.count_nonzero(dense(X).T @ dense(Y))
    assert unchanged(X, before[0])
    assert unchanged(Y, before[1])


def power_law(n: int, p: int, per_row: int, power: float, seed: int) -> sparse.csr_array:
    """As many words a row, the most frequent of which is in nearly every row and most in few."""
    frequency = np.arange(1.0, p + 1) ** -power
    rng = np.random.default_rng(seed)
    columns = rng.permutation(p)[rng.choice(p, size=n * per_row, p=frequency / frequency.sum())]
    return sparse.csr_array((np.ones(n * per_row), columns, np.arange(0, n * per_row + 1, per_row)), (n, p))


@pytest.mark.parametrize(("n", "p", "per_row", "power"), [(5000, 3000, 10, 1.0), (2000, 8000, 10, 2.0)])
@pytest.mark.parametrize("seed", range(3))
def test_the_entries_of_large_gram_matrices_are_estimated(n, p, per_row, power, seed):
    X, Y = power_law(n, p, per_row, power, seed), power_law(n, p // 2, per_row, power, seed + 10)
    for left, right in ((X, X), (X, Y), (Y, X)):
        exact = kernels.gram(left, right).nnz
        assert exact / 1.5 < kernels.gram_entries(left, right) < 1.5 * exact


def test_pairs_are_counted_beyond_32_and_64_bits():
    A = sparse.csr_array((3, 5))
    A.indptr = np.array([0, 70_000, 70_000, 140_000], np.int32)
    assert kernels.pair_count(A) == 2 * 70_000**2
    A.indptr = np.array([0, 2**40, 2**41, 2**41 + 1])
    assert kernels.pair_count(A) == 2 * 2**80 + 1
    assert kernels.pair_count(sparse.csr_array((0, 5))) == 0


@given(data=st.data())
def test_a_block_of_rows_shares_the_entries(data):
    A = data.draw(matrices())
    start = data.draw(st.integers(0, A.shape[0]))
    stop = data.draw(st.integers(start, A.shape[0]))
    B = kernels.row_block(A, start, stop)
    np.testing.assert_array_equal(dense(B), dense(A)[start:stop])
    assert type(B) is type(A)
    assert B.shape == (stop - start, A.shape[1])
    assert B.indices.dtype == A.indices.dtype
    assert B.data.dtype == A.data.dtype
    assert B.nnz == 0 or (np.shares_memory(A.data, B.data) and np.shares_memory(A.indices, B.indices))


@pytest.mark.parametrize("rows", [(-1, 2), (2, 1), (0, 4)])
def test_rows_outside_the_matrix_are_refused(rows):
    with pytest.raises(InvalidProblem, match="3 rows"):
        kernels.row_block(sparse.csr_array((3, 2)), *rows)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", WORKING)
def test_the_first_entry_that_is_not_finite_is_found(value, dtype):
    A = sparse.random_array((3000, 40), density=0.8, format="csr", dtype=dtype, rng=np.random.default_rng(5))
    assert A.nnz > kernels.FEWEST_ENTRIES
    assert kernels.first_non_finite(A) is None
    for position in (A.nnz - 1, int(A.indptr[2500]), 70_000, 5, 0):
        A.data[position] = value
        row = int(np.repeat(np.arange(3000), np.diff(A.indptr))[position])
        found = kernels.first_non_finite(A)
        assert found is not None
        assert found[:2] == (row, A.indices[position])
        assert found[2] == value or np.isnan(found[2]) == np.isnan(value)


def test_only_what_belongs_to_the_matrix_must_be_finite():
    A = sparse.csr_array(np.eye(3))
    A.data, A.indices = np.append(A.data, np.nan), np.append(A.indices, 0)
    assert kernels.first_non_finite(A) is None
    np.testing.assert_array_equal(kernels.matmat(A, np.eye(3), np.float64), np.eye(3))
    large = sparse.csr_array(np.full((2, 2), np.finfo(float).max))
    assert kernels.first_non_finite(large) is None
    assert kernels.first_non_finite(sparse.csr_array(np.eye(2, dtype=int))) is None
    assert kernels.first_non_finite(sparse.csr_array((0, 3))) is None


# ------------------------------------------------------------------------------------------ SciPy's own loops


@pytest.fixture
def fresh():
    kernels._compiled.cache_clear()
    yield
    kernels._compiled.cache_clear()


@pytest.mark.usefixtures("fresh")
def test_this_scipy_has_the_loops():
    """Where this fails the results are still right, but the products take more memory and time."""
    assert kernels._compiled() is not None


def raising(*_: object) -> None:
    raise ValueError("changed")


def idle(*_: object) -> None:
    pass


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("change", ["no module", "no name", raising, idle])
@pytest.mark.parametrize("loop", ["csr_matvecs", "csc_matvecs", "csr_matvec", "csc_matvec"])
def test_public_operators_stand_in_where_the_loops_are_gone_or_changed(monkeypatch, change, loop):
    if change == "no module":
        monkeypatch.setattr(kernels, "_sparsetools", None)
    elif change == "no name":
        monkeypatch.delattr(kernels._sparsetools, loop)
    else:
        monkeypatch.setattr(kernels._sparsetools, loop, change)
    assert kernels._compiled() is None


# ----------------------------------------------------------------------------------------------------- checks

A = sparse.csr_array(np.eye(4, 3))
SQUARE = np.ones((3, 2))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: kernels.matmat(A, np.ones((4, 2)), float), InvalidProblem, r"V must be .* 3 rows.*\(4, 2\)"),
        (lambda: kernels.matmat(A, np.ones(3), float), InvalidProblem, "vector as one column"),
        (lambda: kernels.rmatmat(A, SQUARE, float), InvalidProblem, "U must be .* 4 rows"),
        (lambda: kernels.matmat(A, SQUARE, int), InvalidProblem, "float32 or float64; got dtype int64"),
        (lambda: kernels.matmat(A, SQUARE * 1j, float), UnsupportedData, "V must hold real numbers"),
        (lambda: kernels.matmat(A * 1j, SQUARE, float), UnsupportedData, "A must hold real numbers"),
        (lambda: kernels.matmat(A.tocsc(), SQUARE, float), UnsupportedData, "tocsr"),
        (lambda: kernels.matmat(A.toarray(), SQUARE, float), UnsupportedData, "got ndarray"),
        (lambda: kernels.gram(A, A[:2]), InvalidProblem, "same rows; got 4 and 2"),
        (lambda: kernels.pair_count(A, A[:2]), InvalidProblem, "same rows; got 4 and 2"),
        (lambda: kernels.gram_entries(A, A[:2]), InvalidProblem, "same rows; got 4 and 2"),
        (
            lambda: kernels.products(A, A[:2], SQUARE, None, dtype_x=float),
            InvalidProblem,
            "same rows; got 4 and 2",
        ),
        (lambda: kernels.products(A, None, SQUARE, SQUARE, dtype_x=float), InvalidProblem, "Y is None"),
        (
            lambda: kernels.products(A, None, SQUARE, None, shift_x=np.ones(3), dtype_x=float),
            InvalidProblem,
            "each of the 2 columns of Vx",
        ),
        (
            lambda: kernels.products(A, None, None, None, shift_x=np.ones(2), dtype_x=float),
            InvalidProblem,
            "Vx is None",
        ),
    ],
)
def test_misuse_is_refused_before_the_loops_see_it(call, error, words):
    with pytest.raises(error, match=words):
        call()
