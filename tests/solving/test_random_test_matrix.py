"""Random projections: one matrix for a seed on every kind of data, sparse ones stay sparse, and refusals."""

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
rng = np.random.default_rng(1)
DATA = rng.standard_normal((35, ROWS)) * (rng.random((35, ROWS)) < 0.3)


@dataclass(frozen=True, kw_only=True)
class Signs(TestMatrix):
    """Which draws, and has an operator by that."""

    scale: float = option(1.0, "size", above=0)

    def draw(self, rows, columns, rng):
        return self.scale * rng.choice([-1.0, 1.0], size=(rows, columns))


@pytest.mark.parametrize("backend", PRESENT, ids=lambda backend: backend.name)
def test_a_seed_is_one_projection_everywhere(backend):
    host = DATA.astype(np.float32)
    expected = host.astype(float) @ Signs().draw(ROWS, COLUMNS, np.random.default_rng(7)) / np.sqrt(COLUMNS)
    product = ls.project(backend.wrap(host), COLUMNS, Signs(), rng=7)
    assert host_dtype(product) == np.float32
    np.testing.assert_allclose(to_host(product), expected, atol=1e-5)


@pytest.mark.parametrize("kind", [scipy.sparse.csr_matrix, scipy.sparse.csc_array, scipy.sparse.coo_matrix])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_sparse_data_stay_sparse_under_a_sparse_matrix(kind, dtype):
    host = (10 * DATA).astype(dtype)
    product = ls.project(kind(host), 40, "count-sketch", rng=1)
    assert scipy.sparse.issparse(product)
    assert product.format == "csr"
    assert isinstance(product, scipy.sparse.sparray) == issubclass(kind, scipy.sparse.sparray)
    assert product.dtype == (np.float64 if dtype is np.float64 else np.float32)
    assert product.nnz <= np.count_nonzero(host)
    np.testing.assert_allclose(product.toarray(), ls.project(host, 40, "count-sketch", rng=1), atol=1e-4)
    assert isinstance(ls.project(kind(host), 5, "gaussian", rng=1), np.ndarray)


REFUSED = [
    (InvalidProblem, "columns must be an integer >= 1; got 0", (DATA, 0), {}),
    (UnknownName, "gausian", (DATA, 3, "gausian"), {}),
    (InvalidOption, r"must be a name .* or a TestMatrix instance; got <class", (DATA, 3, Signs), {}),
    (InvalidOption, r"got Signs\(.*\) with scale", (DATA, 3, Signs()), {"scale": 2.0}),
    (UnknownOption, "nonzero", (DATA, 3, "sparse-sign"), {"nonzero": 2}),
]


@pytest.mark.parametrize("error, words, given, options", REFUSED)
def test_what_cannot_be_projected_is_refused(error, words, given, options):
    with pytest.raises(error, match=words):
        ls.project(*given, **options)
