"""Test matrices in their two forms, products A Ω on every kind of data, and random projections."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse
from backends import BACKENDS

import linspec as ls
from linspec import TestMatrix, option
from linspec.arrays import device_of, host_dtype, namespace, to_host
from linspec.errors import InvalidOption, InvalidProblem, UnknownName, UnknownOption
from linspec.operators import HeldSketch, SeededSketch, sketched

PRESENT = [backend for backend in BACKENDS if not backend.missing()]
ROWS, COLUMNS = 60, 12


@dataclass(frozen=True, kw_only=True)
class Signs(TestMatrix):
    scale: float = option(1.0, "size", above=0)

    def draw(self, rows, columns, rng):
        return self.scale * rng.choice([-1.0, 1.0], size=(rows, columns))


def dense_tile(rows, columns, rng):
    return rng.standard_normal((rows, columns))


def sparse_tile(rows, columns, rng):
    entries = rng.standard_normal((rows, columns)) * (rng.random((rows, columns)) < 0.2)
    return scipy.sparse.csr_array(entries)


def seeded(kind: str, rows: int = ROWS, columns: int = COLUMNS) -> SeededSketch:
    rng = np.random.default_rng(5)
    if kind == "dense":
        return SeededSketch(rows, columns, rng, dense_tile, width=5)
    return SeededSketch(rows, columns, rng, sparse_tile, width=5, density=0.2)


def held(kind: str) -> HeldSketch:
    return seeded(kind).held()


def data(n: int = 35, p: int = ROWS, dtype: type = np.float64) -> np.ndarray:
    rng = np.random.default_rng(1)
    return (rng.standard_normal((n, p)) * (rng.random((n, p)) < 0.3)).astype(dtype)


# ---- two forms of one matrix --------------------------------------------------------------------


def test_a_test_matrix_that_draws_has_an_operator():
    drawn = Signs().draw(ROWS, COLUMNS, np.random.default_rng(3))
    Omega = Signs().operator(ROWS, COLUMNS, np.random.default_rng(3))
    np.testing.assert_array_equal(Omega.dense(), drawn)
    np.testing.assert_allclose(Omega.sketch(ls.as_operator(data())), data() @ drawn, atol=1e-12)


def test_a_test_matrix_with_an_operator_draws():
    class Twice(TestMatrix):
        def operator(self, rows, columns, rng):
            entries = np.full((rows, columns), 2.0)
            return HeldSketch(rows, columns, [(slice(0, columns), entries)])

    np.testing.assert_array_equal(Twice().draw(3, 2, np.random.default_rng(0)), np.full((3, 2), 2.0))


# ---- the operator -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("make", [seeded, held])
def test_products_are_those_of_the_entries(kind, make):
    Omega, rng = make(kind), np.random.default_rng(2)
    entries = Omega.dense()
    V, U = rng.standard_normal((COLUMNS, 3)), rng.standard_normal((ROWS, 3))
    np.testing.assert_allclose(Omega.matmat(V), entries @ V, atol=1e-12)
    np.testing.assert_allclose(Omega.rmatmat(U), entries.T @ U, atol=1e-12)
    np.testing.assert_allclose(Omega.H.matmat(U), entries.T @ U, atol=1e-12)
    np.testing.assert_array_equal(entries, make(kind).dense())


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("backend", PRESENT, ids=lambda backend: backend.name)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_product_with_data_of_every_kind(kind, backend, dtype):
    if dtype is np.float64 and not backend.float64:
        pytest.skip("no float64 there")
    Omega, host = seeded(kind), data(dtype=dtype)
    given = backend.wrap(host)
    A = ls.as_operator(given)
    product = Omega.sketch(A)
    like = given if backend.is_array else host if A.lender else backend.companion(host)
    assert namespace(product) is namespace(like)
    assert device_of(product) == device_of(like)
    assert host_dtype(product) == A.dtype
    tolerance = 1e-12 if A.dtype == np.float64 else 1e-4
    np.testing.assert_allclose(to_host(product), host @ Omega.dense(), atol=tolerance)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8, np.int64, bool])
@pytest.mark.parametrize("form", ["dense", "fortran", "csr", "strided"])
def test_numbers_of_every_kind_and_order(kind, dtype, form):
    host = (data() > 0.2).astype(dtype)
    given = {
        "dense": host,
        "fortran": np.asfortranarray(host),
        "csr": scipy.sparse.csr_matrix(host),
        "strided": np.repeat(host, 2, axis=1)[:, ::2],
    }[form]
    A, Omega = ls.as_operator(given), seeded(kind)
    product = Omega.sketch(A)
    assert product.dtype == A.dtype
    np.testing.assert_allclose(product, host.astype(float) @ Omega.dense(), atol=1e-4)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("wrap", [np.asarray, scipy.sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_centred_data(kind, wrap, dtype):
    host, Omega = data(dtype=dtype) + dtype(0), seeded(kind)
    mean = host.mean(axis=0, dtype=np.float64)
    product = Omega.sketch(ls.as_operator(wrap(host)).centered(mean))
    assert product.dtype == dtype
    np.testing.assert_allclose(
        product, (host - mean) @ Omega.dense(), atol=1e-12 if dtype is np.float64 else 1e-4
    )


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_many_blocks_of_rows(kind, monkeypatch, tmp_path):
    monkeypatch.setattr("linspec.operators.row_blocks.HOST_BLOCK_BYTES", 4096)
    monkeypatch.setattr("linspec.operators.row_blocks.FEWEST_ROWS", 4)
    monkeypatch.setattr(sketched, "PAIRS_PER_BLOCK", 200)
    host, Omega = data(n=333), seeded(kind)
    np.save(tmp_path / "rows.npy", host)
    for given in (host, scipy.sparse.csr_array(host), tmp_path / "rows.npy"):
        np.testing.assert_allclose(Omega.sketch(ls.as_operator(given)), host @ Omega.dense(), atol=1e-12)


def test_sizes_must_fit():
    with pytest.raises(InvalidProblem, match="as the random matrix has rows, 60; got shape 35 x 59"):
        seeded("dense").sketch(ls.as_operator(data(p=59)))


# ---- random projections -------------------------------------------------------------------------


@pytest.mark.parametrize("backend", PRESENT, ids=lambda backend: backend.name)
def test_a_seed_is_one_projection_everywhere(backend):
    host = data(dtype=np.float32)
    expected = host.astype(float) @ Signs().draw(ROWS, COLUMNS, np.random.default_rng(7)) / np.sqrt(COLUMNS)
    product = ls.project(backend.wrap(host), COLUMNS, Signs(), rng=7)
    assert host_dtype(product) == np.float32
    np.testing.assert_allclose(to_host(product), expected, atol=1e-5)


@pytest.mark.parametrize("kind", [scipy.sparse.csr_matrix, scipy.sparse.csc_array, scipy.sparse.coo_matrix])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_sparse_data_stay_sparse_under_a_sparse_matrix(kind, dtype):
    host = (10 * data()).astype(dtype)
    product = ls.project(kind(host), 40, "count-sketch", rng=1)
    assert scipy.sparse.issparse(product)
    assert product.format == "csr"
    assert isinstance(product, scipy.sparse.sparray) == issubclass(kind, scipy.sparse.sparray)
    assert product.dtype == (np.float64 if dtype is np.float64 else np.float32)
    assert product.nnz <= np.count_nonzero(host)
    np.testing.assert_allclose(product.toarray(), ls.project(host, 40, "count-sketch", rng=1), atol=1e-4)
    assert isinstance(ls.project(kind(host), 5, "gaussian", rng=1), np.ndarray)


@pytest.mark.parametrize("columns", [0, -1, 1.5, "3", True, None])
def test_columns_must_be_a_positive_integer(columns):
    with pytest.raises(InvalidProblem, match="columns must be an integer >= 1; got"):
        ls.project(data(), columns)


def test_wrong_test_matrices():
    with pytest.raises(UnknownName, match="gausian"):
        ls.project(data(), 3, "gausian")
    with pytest.raises(InvalidOption, match="must be a name or a TestMatrix instance; got ABCMeta"):
        ls.project(data(), 3, Signs)
    with pytest.raises(InvalidOption, match="an instance and scale"):
        ls.project(data(), 3, Signs(), scale=2.0)
    with pytest.raises(UnknownOption, match="nonzero"):
        ls.project(data(), 3, "sparse-sign", nonzero=2)
    with pytest.raises(InvalidProblem, match="A "):
        ls.project(np.ones(3), 3)
