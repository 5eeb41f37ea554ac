"""Rows reduced by orthogonal transformations: the same inner products, with nothing squared."""

from __future__ import annotations

import warnings

import array_api_strict as strict
import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
from hypothesis import given
from hypothesis import strategies as st

from linspec import as_operator
from linspec.arrays import Home, to_host
from linspec.errors import MissingCapability, NonFiniteData
from linspec.moments.row_reduction import reduce_rows
from linspec.operators import CountedOperator, Ledger
from linspec.sweeps import triangles

N, P, Q = 83, 6, 4
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, P)) * (RNG.random((N, P)) < 0.7)
Y = X[:, :Q] + RNG.standard_normal((N, Q))

KINDS = {
    "numpy": np.copy,
    "f-order": np.asfortranarray,
    "strict-device1": lambda x: strict.asarray(x.copy(), device=strict.Device("device1")),
    "csr": scipy.sparse.csr_array,
    "transposed": lambda x: as_operator(x.T.copy()).H,
}


@pytest.fixture(params=["one-block", "many-blocks"], autouse=True)
def blocks(request, monkeypatch):
    monkeypatch.setattr(triangles, "FEWEST_ROWS", 1 if request.param == "many-blocks" else 4096)


def views(*data):
    return {name: as_operator(x) for name, x in zip("XYZ", data, strict=False)}


def gram(*matrices):
    """The Gram matrix of all columns in extended precision."""
    wide = np.hstack([np.asarray(M, np.longdouble) for M in matrices])
    return np.asarray(wide.T @ wide, float)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize(
    "kinds", [*((kind, kind) for kind in KINDS), ("numpy", "csr"), ("transposed", "numpy")]
)
def test_inner_products_are_kept(kinds, center):
    found = reduce_rows(views(KINDS[kinds[0]](X), KINDS[kinds[1]](Y)), center=center)
    Z = [M - M.mean(axis=0) if center else M for M in (X, Y)]
    assert [R.shape for R in found] == [(P + Q, P), (P + Q, Q)]
    np.testing.assert_allclose(gram(*map(to_host, found)), gram(*Z), atol=1e-12)
    home = as_operator(KINDS[kinds[0]](X)).home
    assert all(Home.of(R) == home for R in found)


def test_one_view_and_three():
    np.testing.assert_allclose(gram(*reduce_rows(views(X))), gram(X), atol=1e-12)
    Z = RNG.standard_normal((N, 3))
    np.testing.assert_allclose(gram(*reduce_rows(views(X, Y, Z))), gram(X, Y, Z), atol=1e-12)


@pytest.mark.parametrize("center", [False, True])
def test_ridges_enter_the_gram_matrices_and_no_cross_product(center):
    found = reduce_rows(views(X, Y), center=center, ridges=(3.0, 0.5))
    Z = [M - M.mean(axis=0) if center else M for M in (X, Y)]
    wanted = gram(*Z) + np.diag([3.0] * P + [0.5] * Q)
    np.testing.assert_allclose(gram(*found), wanted, atol=1e-12)
    found = reduce_rows(views(X, Y), center=center, ridges=(0.0, 0.5))
    np.testing.assert_allclose(gram(*found), gram(*Z) + np.diag([0.0] * P + [0.5] * Q), atol=1e-12)


@given(st.integers(1, 30), st.integers(1, 5), st.integers(1, 5), st.booleans(), st.integers(0, 2**20))
def test_any_sizes(n, p, q, center, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((n, p)), rng.standard_normal((n, q))
    found = reduce_rows(views(x, y), center=center)
    Z = [M - M.mean(axis=0) if center else M for M in (x, y)]
    np.testing.assert_allclose(gram(*found), gram(*Z), atol=1e-11)
    assert found[0].shape[0] == found[1].shape[0] <= p + q


def test_nothing_is_squared():
    """Singular values down to 1e-12 of the largest survive; the square root of a Gram matrix loses all below 1e-8."""
    U, _ = np.linalg.qr(RNG.standard_normal((N, P)))
    V, _ = np.linalg.qr(RNG.standard_normal((P, P)))
    s = np.geomspace(1, 1e-12, P)
    found = np.linalg.svd(reduce_rows(views(U * s @ V.T))[0], compute_uv=False)
    np.testing.assert_allclose(found, s, rtol=1e-3)


@pytest.mark.parametrize("dtype, limit", [("float64", 1e-12), ("float32", 1e-12)])
def test_large_means_cost_no_digits(dtype, limit):
    x = (RNG.standard_normal((900, P)) + 1e4).astype(dtype)
    exact = x - x.astype(np.longdouble).mean(axis=0)
    S = gram(exact)
    assert np.abs(gram(*reduce_rows(views(x), center=True)) - S).max() < limit * S.max()


@pytest.mark.parametrize("value", [0.1, 1e8 / 3])
@pytest.mark.parametrize("kind", ["numpy", "csr", "strict-device1"])
def test_constant_columns_vanish(kind, value):
    x = X.copy()
    x[:, 2] = value
    R = to_host(reduce_rows(views(KINDS[kind](x)), center=True)[0])
    assert not R[:, 2].any()
    assert np.linalg.matrix_rank(R) == P - 1


def test_rows_are_read_once():
    books = Ledger(), Ledger()
    data = [
        CountedOperator(as_operator(z), book)
        for z, book in zip((X, scipy.sparse.csr_array(Y)), books, strict=True)
    ]
    reduce_rows(dict(zip("XY", data, strict=True)), center=True, ridges=(1.0, 1.0))
    assert [book.sweeps for book in books] == pytest.approx([1, 1])


def test_a_file_is_a_view(tmp_path):
    np.save(tmp_path / "x.npy", X)
    np.testing.assert_allclose(gram(*reduce_rows(views(tmp_path / "x.npy", Y))), gram(X, Y), atol=1e-12)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "transposed"])
@pytest.mark.parametrize("center", [False, True])
def test_what_is_not_finite_is_named(kind, value, center):
    y = Y.copy()
    y[47, 1] = value
    data = dict(zip(("first", "second"), map(as_operator, (KINDS[kind](X), KINDS[kind](y))), strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(NonFiniteData, match=rf"^second must be finite; got {value} at row 47, column 1"):
            reduce_rows(data, center=center)


def test_products_are_not_enough():
    with pytest.raises(MissingCapability, match="known by its products only"):
        reduce_rows({"X": as_operator(scipy.sparse.linalg.aslinearoperator(X))})


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("center", [False, True])
def test_the_data_stay_as_they_are(order, center):
    data = np.array(X, order=order)
    reduce_rows(views(data), center=center)
    np.testing.assert_array_equal(data, X)
    data.flags.writeable = False
    R = reduce_rows(views(data), center=center)[0]
    np.testing.assert_array_equal(np.tril(R, -1), 0)
