"""Entries of a sparse matrix that stand for one place: their sum is that of the numbers, in every narrow dtype."""

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec.operators import as_operator

M = np.random.default_rng(0).standard_normal((12, 3))


def _duplicates(dtype):
    """Entries of a sparse matrix of which some stand for one place, and the sums that they mean."""
    rng = np.random.default_rng(3)
    places, most = rng.integers(0, 5, (2, 60)), {"bool": 2, "float16": 2000}.get(dtype, 2**7 - 1)
    values = rng.integers(most // 2, most, 60).astype(dtype)
    dense = np.zeros((5, 5))
    np.add.at(dense, tuple(places), values.astype(np.float64))
    return values, places, dense


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "bool"])
@pytest.mark.parametrize("kind", ["coo", "csr", "csc", "bsr"])
def test_duplicates_of_narrow_numbers_do_not_wrap(kind, dtype):
    values, (rows, columns), dense = _duplicates(dtype)
    if kind == "coo":
        A = scipy.sparse.coo_array((values, (rows, columns)), shape=(5, 5))
    else:
        major, minor = (columns, rows) if kind == "csc" else (rows, columns)
        order = np.argsort(major, kind="stable")
        ends = np.append(0, np.cumsum(np.bincount(major, minlength=5)))
        data = values[order].reshape(-1, 1, 1) if kind == "bsr" else values[order]
        A = getattr(scipy.sparse, f"{kind}_array")((data, minor[order], ends), shape=(5, 5))
    held = {name: part.copy() for name, part in vars(A).items() if isinstance(part, np.ndarray)}
    assert np.array_equal(as_operator(A).dense(), dense)
    for center in (False, True):
        found = ls.solve(ls.SVD(A, k=2, center=center)).S
        assert np.allclose(found, np.linalg.svd(dense - center * dense.mean(axis=0))[1][:2], rtol=1e-5)
    wanted = ls.solve(ls.SVD(M, k=1, confounds=np.resize(dense, (len(M), 5)))).S
    assert np.allclose(ls.solve(ls.SVD(M, k=1, confounds=_stacked(A, len(M)))).S, wanted)
    assert all(np.array_equal(getattr(A, name), part) for name, part in held.items())


def _stacked(A, n):
    """At least n rows of copies of a matrix below each other, cut to n, with their duplicates."""
    C = A.tocoo()
    times = -(-n // A.shape[0])
    rows = np.concatenate([C.row + i * A.shape[0] for i in range(times)])
    keep = rows < n
    parts = np.tile(C.data, times)[keep], (rows[keep], np.tile(C.col, times)[keep])
    return scipy.sparse.coo_array(parts, shape=(n, A.shape[1]))
