"""Sparse rows of whole numbers, which are exact: threaded products, Gram matrices, entries that stand for one place."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from scipy import sparse

import linspec as ls
from linspec.blocks import sparse_loops
from linspec.operators import SparseOperator, as_operator
from linspec.process import machine

DTYPES = ("float32", "float64", "int8", "uint8", "int16", "int32", "int64", "uint64", "bool", "longdouble")
WORKING = (np.float32, np.float64)


@contextlib.contextmanager
def plan(name: str) -> Iterator[None]:
    """Products as they are planned, in minute slabs and tiles on three threads, or by SciPy's operators."""
    with contextlib.ExitStack() as stack:
        if name != "default":
            stack.enter_context(mock.patch.multiple(sparse_loops, WORK_PER_THREAD=1, LONGEST_STRETCH=3))
            stack.enter_context(mock.patch.object(machine, "cpu_count", return_value=3))
        if name == "public":
            stack.enter_context(mock.patch.object(sparse_loops, "csr_matvecs", None))
        yield


def dense(A: Any) -> Any:
    """Every stored part added up in float64 (True is 1, and nothing overflows)."""
    result = np.zeros(A.shape)
    rows, stored = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr)), A.indptr[-1]
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
def blocks(draw: st.DrawFn, rows: int) -> Any:
    """Whole numbers in any layout."""
    rng, k = np.random.default_rng(draw(st.integers(0, 2**32 - 1))), draw(st.integers(0, 4))
    block = rng.integers(-5, 6, size=(rows, k)).astype(draw(st.sampled_from(["float32", "float64", "int64"])))
    layouts = {"C": np.copy, "F": np.asfortranarray, "strided": lambda x: np.repeat(x, 2, axis=1)[:, ::2]}
    block = layouts[draw(st.sampled_from(sorted(layouts)))](block)
    block.flags.writeable = draw(st.booleans())
    return block


def parts(A: Any) -> list[Any]:
    return [part.copy() for part in (A.data, A.indices, A.indptr)]


@pytest.mark.parametrize("name", ["default", "minute", "public"])
@given(data=st.data())
def test_products_with_a_matrix_and_its_transpose_are_exact(name: str, data: st.DataObject) -> None:
    A = data.draw(matrices())
    V, U = data.draw(blocks(A.shape[1])), data.draw(blocks(A.shape[0]))
    V_before, U_before = V.copy(), U.copy()
    before = parts(A)
    for dtype in WORKING:
        with plan(name):
            operator = SparseOperator(A, dtype)
            AV, AtU = operator.matmat(V), operator.rmatmat(U)
        np.testing.assert_array_equal(AV, dense(A) @ V)
        np.testing.assert_array_equal(AtU, dense(A).T @ U)
        assert (AV.dtype, AtU.dtype) == (dtype, np.float64)
        assert AV.flags.c_contiguous
        assert AtU.flags.c_contiguous
    assert all(map(np.array_equal, parts(A), before))
    np.testing.assert_array_equal(V, V_before)
    np.testing.assert_array_equal(U, U_before)


def test_this_scipy_has_the_loops() -> None:
    """Where this fails the results are still right, but the products take more memory and time."""
    assert sparse_loops.csr_matvecs is not None


@pytest.mark.parametrize("name", ["default", "minute"])
@given(data=st.data())
def test_gram_matrices_and_their_cost(name: str, data: st.DataObject) -> None:
    X = data.draw(matrices())
    Y = data.draw(st.none() | matrices(rows=X.shape[0]))
    right = X if Y is None else Y
    before = parts(X)
    with plan(name):
        G = sparse_loops.gram(X, Y)
    assert all(map(np.array_equal, parts(X), before))
    np.testing.assert_array_equal(G.toarray(), dense(X).T @ dense(right))
    assert (G.format, G.dtype) == ("csr", np.float64)
    assert isinstance(G, sparse.sparray) == isinstance(X, sparse.sparray)
    pairs = sparse_loops.pair_count(X, Y)
    assert pairs == int((np.diff(X.indptr) * np.diff(right.indptr)).sum())
    assert G.nnz <= pairs
    copy = G.copy()
    copy.sum_duplicates()
    assert copy.nnz == G.nnz


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "bool"])
@pytest.mark.parametrize("kind", ["coo", "csr", "csc", "bsr"])
def test_duplicates_of_narrow_numbers_do_not_wrap(kind: str, dtype: str) -> None:
    """Entries that stand for one place: their sum is that of the numbers, in data and in confounds."""
    rng, most = np.random.default_rng(3), 2 if dtype == "bool" else 2**7 - 1
    rows, columns, M = rng.integers(0, 12, 150), rng.integers(0, 5, 150), rng.standard_normal((12, 3))
    values, exact = rng.integers(most // 2, most, 150).astype(dtype), np.zeros((12, 5))
    np.add.at(exact, (rows, columns), values.astype(np.float64))
    A = sparse.coo_array((values, (rows, columns)), shape=(12, 5))
    if kind != "coo":
        major, minor = (columns, rows) if kind == "csc" else (rows, columns)
        order = np.argsort(major, kind="stable")
        ends = np.append(0, np.cumsum(np.bincount(major, minlength=5 if kind == "csc" else 12)))
        data = values[order].reshape(-1, 1, 1) if kind == "bsr" else values[order]
        A = getattr(sparse, f"{kind}_array")((data, minor[order], ends), shape=(12, 5))
    held = {name: part.copy() for name, part in vars(A).items() if isinstance(part, np.ndarray)}
    assert np.array_equal(as_operator(A).dense(), exact)
    for center in (False, True):
        found = ls.solve(ls.SVD(A, k=2, center=center)).S
        assert np.allclose(found, np.linalg.svd(exact - center * exact.mean(axis=0))[1][:2], rtol=1e-5)
    wanted = ls.solve(ls.SVD(M, k=1, confounds=exact)).S
    assert np.allclose(ls.solve(ls.SVD(M, k=1, confounds=A)).S, wanted)
    assert all(np.array_equal(getattr(A, name), part) for name, part in held.items())
