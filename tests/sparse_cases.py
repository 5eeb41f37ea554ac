"""Sparse matrices and blocks of whole numbers as Hypothesis draws them, and sparse kernels planned in minute pieces."""

from __future__ import annotations

import contextlib
import tracemalloc
from typing import TYPE_CHECKING, Any
from unittest import mock

import hypothesis.strategies as st
import numpy as np
import pytest
from scipy import sparse

from linspec.blocks import sparse_loops
from linspec.process import machine

if TYPE_CHECKING:
    from collections.abc import Iterator


DTYPES = ("float32", "float64", "int8", "uint8", "int16", "int32", "int64", "uint64", "bool", "longdouble")


WORKING = (np.float32, np.float64)


MODULES = (sparse_loops,)


@contextlib.contextmanager
def constants(**settings: int) -> Iterator[None]:
    """Other values of constants, in each module that has them."""
    with contextlib.ExitStack() as stack:
        for module in MODULES:
            own = {name: value for name, value in settings.items() if hasattr(module, name)}
            if own:
                stack.enter_context(mock.patch.multiple(module, **own))
        yield


@contextlib.contextmanager
def plan(name: str) -> Iterator[None]:
    """Products as they are planned, in minute slabs and tiles on three threads, or by SciPy's operators."""
    with contextlib.ExitStack() as stack:
        if name != "default":
            settings = {
                "WORK_PER_THREAD": 1,
                "LONGEST_STRETCH": 3,
            }
            stack.enter_context(constants(**settings))
            stack.enter_context(mock.patch.object(machine, "cpu_count", return_value=3))
        if name == "public":
            stack.enter_context(mock.patch.object(sparse_loops, "csr_matvecs", None))
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


def peak(function: Any) -> int:
    function()  # what is made once and kept is not counted
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
