"""Test matrices in their two forms, products A Ω on every kind of data, and random projections."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse
from backends import BACKENDS

import linspec as ls
from linspec import TestMatrix, option
from linspec.arrays import host_dtype, to_host
from linspec.errors import InvalidOption, InvalidProblem, UnknownName, UnknownOption

PRESENT = [backend for backend in BACKENDS if not backend.missing()]
ROWS, COLUMNS = 60, 12


@dataclass(frozen=True, kw_only=True)
class Signs(TestMatrix):
    scale: float = option(1.0, "size", above=0)

    def draw(self, rows, columns, rng):
        return self.scale * rng.choice([-1.0, 1.0], size=(rows, columns))


def data(n: int = 35, p: int = ROWS, dtype: type = np.float64) -> np.ndarray:
    rng = np.random.default_rng(1)
    return (rng.standard_normal((n, p)) * (rng.random((n, p)) < 0.3)).astype(dtype)


# ---- two forms of one matrix --------------------------------------------------------------------


def test_a_test_matrix_that_draws_has_an_operator():
    drawn = Signs().draw(ROWS, COLUMNS, np.random.default_rng(3))
    Omega = Signs().operator(ROWS, COLUMNS, np.random.default_rng(3))
    np.testing.assert_array_equal(Omega.dense(), drawn)
    np.testing.assert_allclose(Omega.sketch(ls.as_operator(data())), data() @ drawn, atol=1e-12)


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
    with pytest.raises(InvalidOption, match=r"must be a name .* or a TestMatrix instance; got <class"):
        ls.project(data(), 3, Signs)
    with pytest.raises(InvalidOption, match=r"got Signs\(.*\) with scale"):
        ls.project(data(), 3, Signs(), scale=2.0)
    with pytest.raises(UnknownOption, match="nonzero"):
        ls.project(data(), 3, "sparse-sign", nonzero=2)
    with pytest.raises(InvalidProblem, match="A "):
        ls.project(np.ones(3), 3)
