"""Moments against Gram matrices summed in extended precision: every form, kind of data, and account."""

from __future__ import annotations

import contextlib
import warnings

import array_api_strict as strict
import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
import threadpoolctl
from backends import BACKENDS
from hypothesis import given
from hypothesis import strategies as st

from linspec import Moments, as_operator, cost
from linspec.arrays import HOST, Home, host_dtype, to_host
from linspec.errors import AccuracyWarning, InvalidProblem, NonFiniteData, UnsupportedData
from linspec.moments import by_products
from linspec.operators import (
    CenteredOperator,
    CountedOperator,
    Ledger,
    LinearOperator,
    row_blocks,
    sparse_products,
)
from linspec.process import blas_threads, machine
from linspec.sweeps import in_memory, views
from linspec.sweeps.blocks import BlockOperator, InProcess
from linspec.sweeps.finite import first_non_finite

N, P, Q = 57, 7, 5
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, P)) * (RNG.random((N, P)) < 0.5)
Y = X[:, :Q] * 0.5 + RNG.standard_normal((N, Q)) * (RNG.random((N, Q)) < 0.5)
VX, VY = RNG.standard_normal((P, 3)), RNG.standard_normal((Q, 2))


class Duck:
    """Known by its products, which it counts."""

    def __init__(self, array):
        self._array, self.shape, self.dtype = array, array.shape, array.dtype
        self.forward = self.adjoint = 0
        self.widths = []

    def matmat(self, V):
        self.forward += 1
        self.widths.append(V.shape[1])
        return self._array @ V

    def rmatmat(self, U):
        self.adjoint += 1
        self.widths.append(U.shape[1])
        return self._array.T @ U


class Slices(LinearOperator):
    """An operator with row slices and no entries."""

    access = "rows"

    def __init__(self, array):
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def _matmat(self, V):
        return (self.array @ V).astype(self.dtype)

    def _rmatmat(self, U):
        return (self.array.T @ U).astype(np.float64)

    def _rows(self, selection):
        return Slices(self.array[selection])


def on(device):
    return lambda x: strict.asarray(x.copy(), device=strict.Device(device))


KINDS = {
    "numpy": np.copy,
    "f-order": np.asfortranarray,
    "strict": on("CPU_DEVICE"),
    "strict-device1": on("device1"),
    "csr": scipy.sparse.csr_array,
    "csc": scipy.sparse.csc_matrix,
    "coo": scipy.sparse.coo_array,
    "scaled-sparse": lambda x: as_operator(scipy.sparse.csr_array(x / 3)).scaled_columns(
        np.full(x.shape[1], 3.0)
    ),
    "scaled-dense": lambda x: 2.0 * as_operator(x / 2),
    "transposed": lambda x: (as_operator(x.T.copy()) * 1.0).H,
    "slices": Slices,
    "scipy-operator": scipy.sparse.linalg.aslinearoperator,
    "duck": Duck,
    **{each.name: each.wrap for each in BACKENDS if each.name.startswith("cupy") and not each.missing()},
}
EXACT = [kind for kind in KINDS if kind not in ("slices", "scipy-operator", "duck")]
PAIRS = [
    ("numpy", "numpy"),
    ("f-order", "numpy"),
    ("strict-device1", "strict-device1"),
    ("csr", "csr"),
    ("csc", "coo"),
    ("numpy", "csr"),
    ("csr", "numpy"),
    ("scaled-sparse", "csr"),
    ("csr", "scaled-dense"),
    ("transposed", "numpy"),
    ("slices", "numpy"),
    ("slices", "slices"),
    ("duck", "duck"),
    ("duck", "numpy"),
    ("csr", "scipy-operator"),
    *(
        pair
        for pair in (
            ("cupy-device1",) * 2,
            ("cupyx-csr",) * 2,
            ("cupyx-csr", "cupy"),
            ("cupyx-csc-device1",) * 2,
        )
        if set(pair) <= set(KINDS)
    ),
]


def exact(x, y=None, *, center=False, shift=None):
    """Sx, C, Sy in extended precision."""
    views = [np.asarray(v, np.longdouble) for v in ((x,) if y is None else (x, y))]
    if center:
        views = [v - v.mean(axis=0) for v in views]
    if shift is not None:
        views = [v - s for v, s in zip(views, shift, strict=True)]
    x, y = views[0], views[-1]
    return tuple(np.asarray(g, np.float64) for g in (x.T @ x, x.T @ y, y.T @ y))


def assert_close(found, wanted, rtol=1e-13, scale=None):
    found = to_host(found)
    assert found.dtype == np.float64
    assert found.shape == wanted.shape
    scale = np.abs(wanted).max() if scale is None else scale
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol * scale)


def forms_of(*kinds):
    sparse = all(kind in ("csr", "csc", "coo") for kind in kinds)
    return ("implicit", "dense", "sparse", "auto") if sparse else ("implicit", "dense", "auto")


@pytest.fixture(params=["one-block", "many-blocks"])
def blocks(request, monkeypatch):
    """Everything twice: the data as one block of rows, and as many."""
    if request.param == "many-blocks":
        monkeypatch.setattr(row_blocks, "HOST_BLOCK_BYTES", 500)
        monkeypatch.setattr(row_blocks, "DEVICE_BLOCK_BYTES", 500)
        monkeypatch.setattr(row_blocks, "FEWEST_ROWS", 1)
        monkeypatch.setattr(views, "GRAM_ROWS", 10)
        monkeypatch.setattr(by_products, "IDENTITY_COLUMNS", 3)


# ---- products ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("kind, form", [(kind, form) for kind in KINDS for form in forms_of(kind)])
@pytest.mark.slow(keep=50)
def test_one_view(kind, form, center, blocks):
    S = exact(X, center=center)[0]
    m = Moments(KINDS[kind](X), center=center, form=form)
    V = m.home.place(VX)
    (XtXV,) = m.products(V)
    assert Home.of(XtXV) == m.home
    assert_close(XtXV, S @ VX)
    assert_close(m.gram(V), S @ VX)
    assert_close(m.columns.means()[0], X.mean(axis=0))
    assert_close(m.columns.sums()[0], X.sum(axis=0))
    if m.columns.exact:
        assert_close(m.diagonal()[0], np.diag(S))
    assert len(m.diagonal()) == 1
    assert_close(m.dense()[0], S)
    assert len(m.dense()) == 1
    assert_close(m.products(V)[0], S @ VX)
    assert m.form == "dense"
    assert m.shape == (N, P, 0)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("kinds, form", [(kinds, form) for kinds in PAIRS for form in forms_of(*kinds)])
@pytest.mark.slow(keep=60)
def test_two_views(kinds, form, center, blocks):
    Sx, C, Sy = exact(X, Y, center=center)
    m = Moments(KINDS[kinds[0]](X), KINDS[kinds[1]](Y), center=center, form=form)
    vx, vy = m.home.place(VX), m.home.place(VY)
    wanted = (Sx @ VX, C @ VY, C.T @ VX, Sy @ VY)
    for found, right in zip(m.products(vx, vy), wanted, strict=True):
        assert Home.of(found) == m.home
        assert_close(found, right)
    a, b, c, d = m.products(vx, None)
    assert b is None
    assert d is None
    assert_close(a, wanted[0])
    assert_close(c, wanted[2])
    a, b, c, d = m.products(None, vy)
    assert a is None
    assert c is None
    assert_close(b, wanted[1])
    assert_close(d, wanted[3])
    assert_close(m.cross(vy), wanted[1])
    assert_close(m.gram(vx), wanted[0])
    for i, (S, v, z) in enumerate(((Sx, VX, X), (Sy, VY, Y))):
        assert_close(m.view(i).products(m.home.place(v))[0], S @ v)
        assert_close(m.columns.means()[i], z.mean(axis=0))
        assert_close(m.view(i).columns.means()[0], z.mean(axis=0))
        if m.columns.exact:
            assert_close(m.diagonal()[i], np.diag(S))
            assert_close(m.view(i).diagonal()[0], np.diag(S))
    for found, right in zip(m.dense(), (Sx, C, Sy), strict=True):
        assert_close(found, right)
    for i, S in enumerate((Sx, Sy)):
        assert_close(m.view(i).dense()[0], S)
    assert m.products() == (None, None, None, None)


def test_the_gram_matrix_is_symmetric_to_the_bit(blocks):
    for center in (False, True):
        S = Moments(X, center=center, form="dense").dense()[0]
        assert np.array_equal(S, S.T)


@pytest.mark.parametrize("form", ["implicit", "dense"])
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "int64", "float16", "float32"])
@pytest.mark.parametrize(
    "wrap", [np.asarray, scipy.sparse.csr_array, on("device1")], ids=["numpy", "csr", "device1"]
)
@pytest.mark.slow(keep=28)
def test_other_dtypes(dtype, wrap, form, blocks):
    if dtype == "float16" and wrap is not np.asarray:
        pytest.skip("neither library has float16")
    x = (10 * X).astype(dtype)
    limit = 1e-13 if dtype in ("int32", "int64") else 2e-6
    for center in (False, True):
        S = exact(x, center=center)[0]
        m = Moments(wrap(x), center=center, form=form)
        assert_close(m.products(m.home.place(VX))[0], S @ VX, limit)
        assert_close(m.diagonal()[0], np.diag(S), 1e-13)


def test_integers_give_exact_gram_matrices():
    """Sums of integers below 2**53 are float64 numbers, however long the sums are."""
    x = RNG.integers(-100, 100, (5000, 4)).astype(np.int8)
    assert np.array_equal(Moments(x, form="dense").dense()[0], x.T.astype(int) @ x)


def test_views_of_two_precisions(blocks):
    x, y = X.astype(np.float32), Y
    for center in (False, True):
        Sx, C, Sy = exact(x, y, center=center)
        for form in ("implicit", "dense"):
            found = Moments(x, y, center=center, form=form).products(VX, VY)
            for a, b in zip(found, (Sx @ VX, C @ VY, C.T @ VX, Sy @ VY), strict=True):
                assert_close(a, b, 2e-6)


def test_a_device_without_float64(blocks):
    x, y = X.astype(np.float32), Y.astype(np.float32)
    for center in (False, True):
        Sx, C, Sy = exact(x, y, center=center)
        for form, limit in (("implicit", 2e-6), ("dense", 1e-13)):
            m = Moments(on("no_float64")(x), on("no_float64")(y), center=center, form=form)
            assert m.home == HOST
            for a, b in zip(m.products(VX, VY), (Sx @ VX, C @ VY, C.T @ VX, Sy @ VY), strict=True):
                assert_close(a, b, limit)
            assert_close(m.diagonal()[1], np.diag(Sy), 1e-13)


@given(
    st.integers(1, 40),
    st.integers(1, 6),
    st.integers(0, 5),
    st.booleans(),
    st.sampled_from(["implicit", "dense", "sparse"]),
    st.integers(0, 2**20),
    st.integers(0, 4),
)
def test_any_sizes(n, p, q, center, form, seed, k):
    rng = np.random.default_rng(seed)
    x, y = (np.asarray(scipy.sparse.random(n, c, 0.4, random_state=rng).toarray()) for c in (p, max(q, 1)))
    data = [scipy.sparse.csr_array(v) if form == "sparse" else v for v in ((x, y) if q else (x,))]
    Sx, C, Sy = exact(x, y, center=center)
    m = Moments(*data, center=center, form=form)
    vx, vy = rng.standard_normal((p, k)), rng.standard_normal((q, k)) if q else None
    found = m.products(vx, vy)
    assert_close(found[0], Sx @ vx, 1e-12, scale=n)
    if q:
        assert_close(found[1], C @ vy, 1e-12, scale=n)
        assert_close(found[2], C.T @ vx, 1e-12, scale=n)
        assert_close(found[3], Sy @ vy, 1e-12, scale=n)


# ---- precision --------------------------------------------------------------------------------------

OFFSET = 1e4 * np.linspace(1, 2, P) * np.array([1, -1] * 4)[:P]


def offset_data(dtype):
    rng = np.random.default_rng(3)
    return (rng.standard_normal((4001, P)) + OFFSET).astype(dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kind", ["numpy", "f-order", "strict-device1", "scaled-dense"])
@pytest.mark.slow(keep=4)
def test_means_of_ten_thousand_deviations(kind, dtype, blocks):
    """XᵀX − nμμᵀ would be off by 1e-5 in float64 and by 64 in float32.

    A sum of n products is off by λ√n u times the sum of their magnitudes, with probability above 1 − 2exp(−λ²/2)
    (Higham & Mary 2019, theorem 2.4, doi:10.1137/18M1226312); λ = 4. Entries are centred first, except where there are
    only products: those of X with centred images.
    """
    x = offset_data(dtype)
    S = exact(x, center=True)[0]
    scale = np.sqrt(np.outer(np.diag(S), np.diag(S)))
    centred = np.abs(x.astype(float) - x.astype(float).mean(axis=0))
    magnitudes = (np.abs(x.astype(float)) if kind == "scaled-dense" else centred).T @ centred
    limit = 4 * np.sqrt(len(x)) * np.finfo(dtype).eps / 2 * magnitudes
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", AccuracyWarning
        )  # a scaled float32 operator has only products to centre
        m = Moments(KINDS[kind](x), center=True, form="implicit")
        found = to_host(m.products(m.home.eye(P))[0])
    assert (np.abs(found - S) < limit).all()
    assert_close(m.diagonal()[0], np.diag(S), 1e-12)
    assert_close(m.columns.means()[0], x.astype(np.longdouble).mean(axis=0).astype(float), 1e-15)
    found = to_host(Moments(KINDS[kind](x), center=True, form="dense").dense()[0])
    assert (np.abs(found - S) / scale).max() < 1e-12


@pytest.mark.parametrize("form", ["implicit", "dense"])
def test_sorted_rows_are_no_worse(form, blocks):
    """Each block then has a mean far from that of the whole."""
    x = np.sort(offset_data("float64"), axis=0)
    S = exact(x, center=True)[0]
    found = Moments(x, center=True, form=form).products(np.eye(P))[0]
    assert (np.abs(found - S) / S.max()).max() < 1e-12


def test_an_outlying_first_row_is_no_worse(blocks):
    x = offset_data("float64")
    x[0] += 1e9
    S = exact(x, center=True)[0]
    for form in ("implicit", "dense"):
        found = Moments(x, center=True, form=form).products(np.eye(P))[0]
        assert (np.abs(found - S) / S.max()).max() < 1e-11


@pytest.mark.parametrize("form", ["implicit", "dense"])
@pytest.mark.parametrize("value", [0.1, 1e8 / 3, -7.0])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_constant_columns_have_no_spread_at_all(form, value, dtype, blocks):
    """Rounding left there would be divided by itself, and be taken for data."""
    x = X.astype(dtype)
    x[:, 2] = value
    m = Moments(x, center=True, form=form)
    assert m.diagonal()[0][2] == 0
    assert not m.products(np.eye(P))[0][2].any()
    assert m.columns.means()[0][2] == x[0, 2]


@pytest.mark.parametrize("kind", ["csr", "duck"])
def test_constant_columns_vanish_from_gram_matrices_of_products(kind):
    x = X.copy()
    x[:, 2] = 1 / 3
    m = Moments(KINDS[kind](x), center=True, form="dense")
    assert m.diagonal()[0][2] == 0
    assert (np.delete(m.diagonal()[0], 2) > 1).all()


def test_float32_data_are_summed_in_float64():
    """A float32 sum over the rows of 300,000 equal numbers is off by percents."""
    x = np.full((300_000, 2), 0.1, np.float32)
    value = 300_000 * float(np.float32(0.1)) ** 2
    np.testing.assert_allclose(Moments(x, form="dense").dense()[0], value, rtol=1e-12)
    np.testing.assert_allclose(Moments(x, form="implicit").products(np.eye(2))[0], value, rtol=3e-5)
    np.testing.assert_allclose(Moments(x, form="implicit").diagonal()[0], value, rtol=1e-12)


def test_a_sparse_gram_matrix_that_loses_digits_says_so():
    x = scipy.sparse.csr_array(X + 1e4)
    with pytest.warns(AccuracyWarning, match=r'loses \d+ digits.*Use form="implicit" or dense data'):
        Moments(x, center=True, form="sparse").products(VX)


@pytest.mark.parametrize("wrap", [scipy.sparse.csr_array, Duck], ids=["csr", "duck"])
def test_centred_products_that_lose_digits_say_so_once(wrap):
    m = Moments(wrap((X + 1e4).astype(np.float32)), center=True, form="implicit")
    with pytest.warns(
        AccuracyWarning, match=r"centring X by a correction of its products loses 4 of 7 digits"
    ) as seen:
        [m.products(VX) for _ in range(3)]
    assert len(seen) == 1


# ---- operators that take out a row themselves -----------------------------------------------------------


@pytest.mark.parametrize("kind", ["numpy", "strict-device1", "csr", "scaled-dense", "slices", "duck"])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("counted", ["no", "inside", "outside"])
@pytest.mark.slow(keep=20)
def test_an_operator_with_a_row_taken_out(kind, center, counted, blocks):
    """The row is anything, not the mean; centring takes out what is left of the mean."""
    row = np.linspace(-1, 2, P)
    for form in forms_of(kind):
        A = as_operator(KINDS[kind](X))
        A = CountedOperator(A, Ledger()) if counted == "inside" else A
        A = A.centered(A.home.blocks.place(row))
        A = CountedOperator(A, Ledger()) if counted == "outside" else A
        S = exact(X - row, center=center)[0]
        m = Moments(A, center=center, form=form)
        assert_close(m.products(m.home.place(VX))[0], S @ VX, 1e-12)
        assert_close(m.columns.means()[0], (X - row).mean(axis=0), 1e-12, scale=3.0)
        if m.columns.exact:
            assert_close(m.diagonal()[0], np.diag(S), 1e-12)
        assert_close(m.dense()[0], S, 1e-12)
        np.testing.assert_allclose(to_host(m.X.matmat(m.home.place(VX))), (X - row) @ VX, atol=1e-12)


@pytest.mark.parametrize("wrap", [np.asarray, scipy.sparse.csr_array], ids=["numpy", "csr"])
@pytest.mark.parametrize("center", [False, True])
def test_a_row_taken_out_beneath_other_nodes(wrap, center, blocks):
    row, scale = np.linspace(-1, 2, P), np.linspace(1, 3, P)
    A = 2.0 * as_operator(wrap(X)).centered(row).scaled_columns(scale)
    S = exact(2 * (X - row) * scale, center=center)[0]
    for form in ("implicit", "dense"):
        m = Moments(A, center=center, form=form)
        assert_close(m.products(VX)[0], S @ VX, 1e-12)
        assert_close(m.diagonal()[0], np.diag(S), 1e-12)
        assert_close(m.columns.means()[0], (2 * (X - row) * scale).mean(axis=0), 1e-12)


def test_one_view_with_a_row_taken_out_and_one_without():
    row = np.linspace(-1, 2, P)
    for wrap, forms in (
        (np.asarray, ("implicit", "dense")),
        (scipy.sparse.csr_array, ("implicit", "dense", "sparse")),
    ):
        Sx, C, Sy = exact(X, Y, shift=(row, 0))
        for form in forms:
            found = Moments(CenteredOperator(as_operator(wrap(X)), row), wrap(Y), form=form).products(VX, VY)
            for a, b in zip(found, (Sx @ VX, C @ VY, C.T @ VX, Sy @ VY), strict=True):
                assert_close(a, b)


# ---- accounts ---------------------------------------------------------------------------------------


def ledgers(kinds, **options):
    books = Ledger(), Ledger()
    data = [
        CountedOperator(as_operator(KINDS[kind](x)), book)
        for kind, x, book in zip(kinds, (X, Y), books, strict=True)
    ]
    return Moments(*data, **options), books


def spent(books):
    return tuple((book.sweeps, book.columns) for book in books)


ONE_SWEEP = [("numpy", "numpy"), ("csr", "csr"), ("csr", "numpy"), ("strict", "strict")]


@pytest.mark.parametrize("kinds", ONE_SWEEP)
@pytest.mark.parametrize("center", [False, True])
def test_a_product_is_one_sweep_of_data_with_slices(kinds, center, blocks):
    m, books = ledgers(kinds, center=center, form="implicit")
    assert m.cost.setup == 0, "the means come along"
    assert m.cost.sweep == 1
    vx, vy = m.home.place(VX), m.home.place(VY)
    m.products(vx, vy)
    assert spent(books) == ((1, 3 + 5), (1, 2 + 5)), "3 forward or 2, and 5 adjoint"
    m.products(vx, None)
    assert spent(books) == ((2, 3 + 5 + 3 + 3), (2, 2 + 5 + 3))
    m.diagonal()
    m.columns.means()
    m.columns.sums()
    assert m.passes == 2, "means and norms came with the first sweep"
    flops = books[0].flops / books[0].columns
    assert flops == 2.0 * as_operator(KINDS[kinds[0]](X)).nnz


@pytest.mark.parametrize("kinds", ONE_SWEEP)
@pytest.mark.parametrize("center", [False, True])
def test_diagonal_and_means_cost_one_sweep_together(kinds, center, blocks):
    for diagonal_first in (True, False):
        m, books = ledgers(kinds, center=center, form="implicit")
        both = (m.diagonal, m.columns.means)
        for make in both if diagonal_first else both[::-1]:
            make()
        assert spent(books) == ((1, 0), (1, 0))
        assert m.cost.setup == 0
        m.products(m.home.place(VX), m.home.place(VY))
        assert m.passes == 2


@pytest.mark.parametrize("kinds", [*ONE_SWEEP, ("csc", "coo")])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_a_held_form_is_one_sweep(kinds, center, form, blocks):
    if form not in forms_of(*kinds):
        pytest.skip("not sparse")
    m, books = ledgers(kinds, center=center, form=form)
    assert not m.held
    assert (m.cost.setup, m.cost.sweep) == (1, 0)
    for _ in range(3):
        m.products(m.home.place(VX), m.home.place(VY))
    m.gram(m.home.place(VX))
    m.diagonal()
    assert m.held
    assert m.cost.setup == 0
    assert [book.sweeps for book in books] == [1, 1]
    if center:
        m.columns.means()
        assert m.passes == 1
    m.dense()
    m.view(1).dense()
    assert m.passes == 1


@pytest.mark.parametrize("center", [False, True])
def test_operators_known_by_products_are_asked_once_each_way(center):
    a, b = Duck(X), Duck(Y)
    m = Moments(a, b, center=center, form="implicit")
    assert (m.cost.setup, m.cost.sweep) == (center, 2)
    m.products(VX, VY)
    assert (a.forward, a.adjoint, b.forward, b.adjoint) == (1, 1 + center, 1, 1 + center)
    assert m.passes == 2 + center
    before = m.passes
    m.products(VX, VY)
    assert a.widths[-2:] == [3, 5], "the probes rode in the first product only"
    assert m.passes == before + m.cost.sweep
    m.products(VX, None)
    assert (a.forward, a.adjoint, b.forward, b.adjoint) == (3, 3 + center, 2, 3 + center)
    m.diagonal()
    m.gram(VX)
    assert (a.forward, b.forward) == (4, 2), "diagonals were probed, and gram touches X alone"


@pytest.mark.parametrize("kinds", [("duck", "duck"), ("numpy", "csr"), ("csr", "csr"), ("strict", "strict")])
@pytest.mark.parametrize("center", [False, True])
def test_gram_touches_one_view(kinds, center):
    m, books = ledgers(kinds, center=center, form="implicit")
    m.gram(m.home.place(VX))
    by_rows = m.cost.sweep == 1
    assert books[0].sweeps == m.cost.sweep + (center and not by_rows)
    assert spent(books)[1] == (0, 0)


@pytest.mark.parametrize("wrap", [np.asarray, scipy.sparse.csr_array])
def test_wide_sparse_rows_give_the_cross_product_beside_the_gram_product(wrap, monkeypatch):
    rng = np.random.default_rng(3)
    x, y, v = rng.standard_normal((12, 60)), rng.standard_normal((12, 4)), rng.standard_normal((60, 3))
    x[rng.random(x.shape) < 0.7] = 0
    read, matmat = [], sparse_products.matmat
    monkeypatch.setattr(sparse_products, "matmat", lambda A, *args: read.append(A.shape) or matmat(A, *args))

    def fresh():
        books = Ledger(), Ledger()
        stored = scipy.sparse.csr_array(x)
        m = Moments(
            *(
                CountedOperator(as_operator(z), book)
                for z, book in zip((stored, wrap(y)), books, strict=True)
            ),
            form="implicit",
        )
        assert m.cost.wide
        assert m.cost.setup == 0
        return m, books, stored.nnz

    m, books, stored = fresh()
    products = m.products(v, cross=True)
    XtXV, XtY = products[0], products.cross
    assert_close(XtXV, x.T @ (x @ v))
    assert_close(XtY, x.T @ y)
    together = [shape for shape in read if shape != y.shape]
    assert spent(books) == ((1, 3 + 3 + 4), (1, 4))
    assert m.passes == m.cost.sweep, "what solvers plan with"
    assert books[0].flops == 2 * stored * (3 + 3 + 4)
    for norms, z in zip(m.diagonal(), (x, y), strict=True):
        assert_close(norms, (z**2).sum(axis=0))
    assert m.passes == 1, "norms came along"
    m.products(v, cross=True)
    assert spent(books) == ((2, 10 + 6), (1, 4)), "the cross product is kept"

    alone, books, _ = fresh()
    read.clear()
    alone.gram(v)
    assert together == read == [(12, 60), (60, 12)], "no more readings than for the Gram product"

    first, books, _ = fresh()
    products = first.products(cross=True)
    nothing, XtY = products[0], products.cross
    assert nothing is None
    assert_close(XtY, x.T @ y)
    first.diagonal()
    assert spent(books) == ((1, 4), (1, 4))


class Counted(LinearOperator):
    """A matrix that is known by its products, and counts those with its transpose."""

    def __init__(self, A):
        self.A, self.shape, self.dtype, self.adjoints = A, A.shape, A.dtype, 0

    def _matmat(self, V):
        return self.A @ V

    def _rmatmat(self, U):
        self.adjoints += U.shape[1]
        return self.A.T @ U


@pytest.mark.parametrize("center", [False, True])
def test_the_cross_product_with_x_multiplies_by_no_transpose_of_y(center):
    rng = np.random.default_rng(0)
    x, y, v = rng.standard_normal((50, 6)), rng.standard_normal((50, 4)), rng.standard_normal((6, 2))
    X, Y = Counted(x), Counted(y)
    m = Moments(X, Y, center=center, form="implicit")
    m.columns.means()
    m.diagonal()  # from probes, which go by the transpose
    before = Y.adjoints
    products = m.products(v, cross=True)
    XtXV, XtY = products[0], products.cross
    assert X.adjoints >= 6
    a, b = (A - center * A.mean(axis=0) for A in (x, y))
    assert_close(XtXV, a.T @ a @ v)
    assert_close(XtY, a.T @ b)
    assert Y.adjoints == before


def kinds_of_rows(x, y):
    """Rows in memory, in blocks and slice by slice."""
    yield x, y
    yield scipy.sparse.csr_array(x), scipy.sparse.csr_array(y)
    yield BlockOperator([x[:20], x[20:]]), BlockOperator([y[:31], y[31:]])
    yield (lambda: iter([x[:20], x[20:]])), y


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("columns", [0, 3])
def test_cross_products_of_any_rows(center, columns):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((90, 6)) + 3.0, rng.standard_normal((90, 4)) - 2.0
    v = rng.standard_normal((6, columns)) if columns else None
    a, b = (A - center * A.mean(axis=0) for A in (x, y))
    for X, Y in kinds_of_rows(x, y):
        m = Moments(X, Y, center=center, form="implicit")
        products = m.products(v, cross=True)
        XtXV, XtY = products[0], products.cross
        assert_close(XtY, a.T @ b)
        assert (XtXV is None) == (v is None) or XtXV.shape[1] == 0
        if v is not None:
            assert_close(XtXV, a.T @ a @ v)
        for norms, A in zip(m.diagonal(), (a, b), strict=True):
            assert_close(norms, (A**2).sum(axis=0))


@pytest.mark.parametrize("wrap", [np.asarray, np.float32, scipy.sparse.csr_array, Duck])
@pytest.mark.parametrize("V", [None, np.ones((60, 2))])
def test_the_cross_product_with_wide_sparse_rows_is_that_of_what_was_given(wrap, V):
    """Also if Y is passed less a row, which is then subtracted from its norms, too."""
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((12, 60)) * (rng.random((12, 60)) < 0.3), rng.integers(0, 99, (12, 4)) / 8
    m = Moments(scipy.sparse.csr_array(x), as_operator(wrap(y)).centered(y.mean(axis=0)), form="implicit")
    assert m.cost.wide
    spread = y - y.mean(axis=0)
    assert_close(m.products(V, cross=True).cross, x.T @ spread)
    assert_close(m.diagonal()[1], (spread**2).sum(axis=0))
    assert m.passes == 1


def test_wide_sparse_rows_that_are_not_finite_are_named():
    x = scipy.sparse.random(12, 60, 0.3, format="csr", random_state=np.random.default_rng(0))
    x.data[5] = np.nan
    for V in (None, np.ones((60, 1))):
        with pytest.raises(NonFiniteData, match="X"):
            Moments(x, np.ones((12, 2)), form="implicit").products(V, cross=True)


@pytest.mark.parametrize("width", [3, 7, 256])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("two", [False, True])
def test_forming_from_products_costs_what_it_says(width, center, two, monkeypatch):
    monkeypatch.setattr(by_products, "IDENTITY_COLUMNS", width)
    a, b = Duck(X), Duck(Y)
    m = Moments(a, b if two else None, center=center, form="dense")
    cost_told = m.cost.setup
    assert m.cost.sweep == 0
    m.products(VX, VY if two else None)
    assert m.passes == cost_told
    assert m.passes == max(a.forward + a.adjoint, b.forward + b.adjoint)
    assert_close(m.dense()[0], exact(X, center=center)[0])
    assert m.passes == cost_told


def test_long_operators_are_multiplied_by_few_columns_at_once(monkeypatch):
    monkeypatch.setattr(by_products, "IDENTITY_BYTES", 8 * N * 2)
    a = Duck(X)
    Moments(a, form="dense").dense()
    assert max(a.widths) == 2


def test_a_view_shares_ledger_means_and_gram_matrix():
    for kinds in (("numpy", "numpy"), ("csr", "csr"), ("duck", "duck")):
        for form in forms_of(*kinds)[:-1]:
            m, books = ledgers(kinds, center=True, form=form)
            alone = m.view(1)
            assert alone is m.view(1)
            assert alone.form == m.form
            assert alone.cost.setup == m.cost.setup
            m.products(m.home.place(VX), m.home.place(VY))
            before = spent(books)
            assert alone.cost.setup == 0
            assert alone.held == m.held == (form != "implicit")
            alone.columns.means()
            alone.diagonal()
            assert spent(books) == before
            alone.products(m.home.place(VY))
            assert spent(books)[0] == before[0]
            assert books[1].sweeps == before[1][0] + m.cost.sweep
            assert alone.passes == books[1].sweeps


def test_a_view_taken_early_holds_what_is_formed_later():
    m, books = ledgers(("numpy", "numpy"), form="dense")
    alone = m.view(0)
    alone.products(VX)
    m.products(VX, VY)
    assert spent(books) == ((1, P + Q), (1, P + Q))
    n, books = ledgers(("numpy", "numpy"), form="implicit")
    alone = n.view(0)
    n.dense()
    alone.products(VX)
    assert books[0].sweeps == 1


def test_a_dense_view_of_swept_moments_touches_that_view():
    m, books = ledgers(("numpy", "csr"), form="implicit")
    assert_close(m.view(1).dense()[0], exact(Y)[0])
    assert [book.sweeps for book in books] == [0, 1]
    assert m.form == "implicit"


def test_nothing_is_read_before_the_first_product():
    a = Duck(X)
    m = Moments(a, center=True)
    assert (m.form, m.cost.setup, m.cost.sweep, m.shape, m.passes) == ("implicit", 1, 2, (N, P, 0), 0)
    assert not m.held
    assert a.forward == a.adjoint == 0


# ---- norms that only products can show -------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["duck", "slices", "scipy-operator"])
def test_probed_diagonals_are_near(kind):
    rng = np.random.default_rng(5)
    x = rng.standard_normal((400, 30)) * np.geomspace(1, 100, 30)
    for center in (False, True):
        book = Ledger()
        m = Moments(CountedOperator(as_operator(KINDS[kind](x)), book), center=center, form="implicit")
        assert not m.columns.exact
        ratio = m.diagonal()[0] / np.diag(exact(x, center=center)[0])
        assert book.sweeps == m.cost.sweep + (center and kind != "slices")  # by rows, the means come along
        assert np.median(np.abs(np.log(ratio))) < 0.7
        assert (m.diagonal()[0] > 0).all()
        again = Moments(KINDS[kind](x), center=center, form="implicit")
        again.products(np.eye(30, 2))
        assert_close(again.diagonal()[0], m.diagonal()[0])


@pytest.mark.parametrize("center", [False, True])
def test_a_diagonal_is_there_when_slices_of_one_view_alone_have_been_multiplied(center):
    made = Moments(
        lambda: iter([X[:20], X[20:]]), lambda: iter([Y[:31], Y[31:]]), center=center, form="implicit"
    )
    made.products(cross=True)
    spread = X - center * X.mean(axis=0)
    np.testing.assert_allclose(made.diagonal()[0], (spread**2).sum(axis=0), rtol=1e-12)


def test_exact_and_probed_views_side_by_side():
    m, books = ledgers(("numpy", "duck"), form="implicit")
    dx, dy = m.diagonal()
    assert_close(dx, np.diag(exact(X)[0]))
    assert dy.shape == (Q,)
    assert [book.sweeps for book in books] == [1, 2]


# ---- which form ------------------------------------------------------------------------------------------


def test_auto_takes_the_least_time(monkeypatch):
    tall = as_operator(np.ones((2000, 4)))
    assert Moments(tall, expect=(100, 10)).form == "dense"
    assert Moments(np.ones((20, 900)), expect=(1, 1)).form == "implicit"
    rows, rng = np.arange(20_001), np.random.default_rng(0)
    words, next_words = (
        scipy.sparse.csr_array((np.ones(20_000), rng.integers(0, 5000, 20_000), rows), shape=(20_000, 5000))
        for _ in "ab"
    )
    assert Moments(words, next_words, expect=(500, 30)).form == "sparse"
    assert Moments(words, next_words, expect=(1, 1)).form == "implicit"
    monkeypatch.setattr("linspec.process.machine.available_memory", lambda: 100)
    monkeypatch.setattr("linspec.cost.ALWAYS_AVAILABLE", 0)
    assert Moments(tall, expect=(100, 10)).form == "implicit", "nothing else fits"


def test_estimates_are_those_of_the_formulas():
    sizes = cost.Sizes(n=1000, p=20, q=10, nnz=30_000, pairs=None, k=5, readable=True)
    found = cost.moments_estimates(sizes, products=7, columns=5)
    assert set(found) == {"implicit", "dense"}
    assert found["dense"].bytes >= 8 * (20**2 + 10**2 + 20 * 10)
    assert cost.moments_estimates(cost.Sizes(1000, 20, 10, 30_000, None, 5, False), 7, 5).keys() == {
        "implicit"
    }
    assert cost.least_time(found, memory=0) == ""
    assert "dense" in cost.least_time(found, memory=1e9)


def test_sizes_are_read_through_counters_and_centrings():
    A = scipy.sparse.csr_array(X)
    counted = CountedOperator(as_operator(A), Ledger()).centered(np.zeros(P))
    assert cost.sizes_of([counted], 2) == cost.sizes_of([as_operator(A)], 2)
    rows = np.diff(A.indptr)
    assert cost.sizes_of([counted, as_operator(A)], 2).pairs == 3 * (rows**2).sum()
    mixed = cost.sizes_of([counted, as_operator(Y)], 2)
    assert (mixed.pairs, mixed.nnz, mixed.n, mixed.p, mixed.q) == (None, A.nnz + Y.size, N, P, Q)


@pytest.mark.parametrize("density", [0.01, 0.9])
def test_dense_gram_matrices_of_sparse_data(density):
    """Formed from dense rows where the entries are many, and from sparse products where they are few."""
    x = scipy.sparse.random(400, 50, density, format="csr", random_state=np.random.default_rng(0))
    for center in (False, True):
        assert_close(Moments(x, center=center, form="dense").dense()[0], exact(x.toarray(), center=center)[0])


# ---- misuse ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: Moments(X, form="fast"), "form must be one of auto, dense, sparse, implicit; got 'fast'"),
        (
            lambda: Moments(X, form="sparse").products(VX),
            'form "sparse" holds .*; got DenseOperator.*Use "auto"',
        ),
        (lambda: Moments(X, Y[:-1]), f"equally many rows; got {N} and {N - 1}"),
        (lambda: Moments(X[:0]), "X must have rows"),
        (lambda: Moments(X).products(VY), rf"Vx must have shape \({P}, k\); got \({Q}, 2\)"),
        (lambda: Moments(X).products(VX[:, 0]), rf"Vx must have shape \({P}, k\); got \({P},\)"),
        (lambda: Moments(X).products(None, VY), "Vy multiplies a second view, and there is none"),
        (lambda: Moments(X).view(1), "there are 1 views; got index 1"),
    ],
)
def test_misuse_is_told(call, message):
    with pytest.raises(InvalidProblem, match=message):
        call()


def test_views_live_in_one_place():
    with pytest.raises(
        UnsupportedData, match=r"one place; got numpy on cpu and array_api_strict on .*device1"
    ):
        Moments(X, on("device1")(Y))


# ---- NaN and infinity --------------------------------------------------------------------------------------

LOCATED = ["numpy", "f-order", "strict-device1", "csr", "csc", "coo", "scaled-dense", "transposed"]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", LOCATED)
@pytest.mark.parametrize("act", ["implicit", "dense", "centred", "diagonal", "means", "view"])
@pytest.mark.parametrize("where", ["X", "Y"])
@pytest.mark.slow(keep=100)
def test_the_bad_entry_is_named(kind, value, act, where, blocks):
    x, y = X.copy(), Y.copy()
    (x if where == "X" else y)[41, 3] = value
    data = [KINDS[kind](v) for v in (x, y)]
    acts = {
        "implicit": lambda: Moments(*data, form="implicit").products(*both),
        "dense": lambda: Moments(*data, form="dense").products(*both),
        "centred": lambda: Moments(*data, center=True, form="implicit").products(*both),
        "diagonal": lambda: Moments(*data, form="implicit").diagonal(),
        "means": Moments(*data, form="implicit").columns.means,
        "view": lambda: Moments(*data, form="implicit").view("XY".index(where)).dense(),
    }
    home = Moments(*data).home
    both = home.place(VX), home.place(VY)
    message = rf"^{where} must be finite; got {value} at row 41, column 3\. Drop or impute"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(NonFiniteData, match=message):
            acts[act]()


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("form", ["implicit", "dense"])
@pytest.mark.parametrize("center", [False, True])
def test_an_operator_that_answers_nonsense_is_named(value, form, center):
    x = X.copy()
    x[41, 3] = value
    with pytest.raises(
        NonFiniteData, match=r"products with X and Y are not finite.*matmat or rmatmat of an operator"
    ):
        Moments(Duck(x), Duck(Y), center=center, form=form).products(VX, VY)


def test_overflow_is_told_apart_from_bad_entries():
    x = (X * 1e30).astype(np.float32)
    with pytest.raises(
        NonFiniteData, match=r"no entry that can be read is at fault.*overflow: scale the columns"
    ):
        Moments(x, form="implicit").products(VX * 1e30)


def test_names_are_the_callers():
    x = X.copy()
    x[0, 0] = np.nan
    with pytest.raises(NonFiniteData, match=r"^A must be finite"):
        Moments(x, Y, names=("A", "B")).products(VX)
    with pytest.raises(InvalidProblem, match=r"^B must have two dimensions"):
        Moments(X, np.ones(N), names=("A", "B"))


def test_first_non_finite_looks_through_wrappers():
    x = X.copy()
    assert first_non_finite(as_operator(x)) is None
    x[5, 1] = np.inf
    x[6, 0] = np.nan
    A = CountedOperator(as_operator(x), Ledger())
    for B in (A, A.centered(np.zeros(P)), CenteredOperator(A, np.zeros(P)), 2 * as_operator(x)):
        assert first_non_finite(B) == (5, 1, np.inf)
    assert first_non_finite(as_operator(Duck(x))) is None
    assert first_non_finite(as_operator(np.ones((2, 2), int))) is None


def test_blocks_of_any_home_and_dtype_are_taken():
    for V in (VX.astype(np.float32), np.asfortranarray(VX)):
        assert_close(Moments(X).products(V)[0], exact(X)[0] @ V.astype(float))
    m = Moments(on("device1")(X))
    assert_close(m.products(VX)[0], exact(X)[0] @ VX)
    assert host_dtype(m.products(VX)[0]) == np.float64


# ---- threads ---------------------------------------------------------------------------------------------


@contextlib.contextmanager
def no_limit(*, needed):
    yield


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("kind", ["numpy", "f-order"])
def test_threads_share_a_sweep(kind, center, blocks, monkeypatch):
    """Any number of threads gives the same bits: sums and statistics are merged in an order of their own."""
    rng = np.random.default_rng(4)
    x, y = rng.standard_normal((500, P)) + 3, rng.standard_normal((500, Q))
    x[:, 1] = 0.1
    Sx, C, Sy = exact(x, y, center=center)
    monkeypatch.setattr(in_memory, "one_blas_thread", no_limit)
    monkeypatch.setattr(in_memory, "usual_blas_threads", lambda: 8)
    made = []
    for threads in (1, 2, 3, 8):
        monkeypatch.setattr(machine, "cpu_count", lambda threads=threads: threads)
        m = Moments(KINDS[kind](x), KINDS[kind](y), center=center, form="implicit")
        found = m.products(VX, VY)
        for a, b in zip(found, (Sx @ VX, C @ VY, C.T @ VX, Sy @ VY), strict=True):
            assert_close(a, b, 1e-12)
        assert_close(m.diagonal()[0], np.diag(Sx), 1e-12)
        assert_close(m.columns.means()[0], x.mean(axis=0), 1e-13)
        assert m.passes == 1
        made.append([*found, m.diagonal()[0], m.columns.means()[0]])
    for other in made[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(made[0], other, strict=True))


def test_the_blas_gets_its_threads_back():
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = threadpoolctl.threadpool_info()
        with blas_threads.one_blas_thread(needed=True):
            inside = threadpoolctl.threadpool_info()
        assert threadpoolctl.threadpool_info() == before
    assert any(library["num_threads"] == 1 for library in inside)


def test_operators_of_others_are_not_asked_from_several_threads():
    for source in (Slices(X), as_operator(scipy.sparse.csr_array(X))):
        assert in_memory._runs([as_operator(source)], 10 * in_memory.FEWEST_BLOCKS) == 1


def test_products_with_the_outer_gram_matrix_of_wide_sparse_data_take_one_sweep():
    A = scipy.sparse.random(30, 400, 0.1, random_state=1, format="csr")
    U = RNG.standard_normal((30, 4))
    exact = A.toarray() @ (A.toarray().T @ U)
    moments_ = Moments(A, form="implicit")
    assert moments_.cost.wide
    np.testing.assert_allclose(moments_.outer(U), exact, rtol=1e-12, atol=1e-12)
    assert moments_.passes == 1
    centred = Moments(A, center=True, form="implicit")
    assert centred.cost.wide
    spread = A.toarray() - A.toarray().mean(axis=0)
    np.testing.assert_allclose(centred.outer(U), spread @ (spread.T @ U), rtol=1e-12, atol=1e-12)
    assert centred.passes == 1
    tall = Moments(A.T.tocsr(), form="implicit")
    V = RNG.standard_normal((400, 2))
    np.testing.assert_allclose(tall.outer(V), A.toarray().T @ (A.toarray() @ V), atol=1e-12)
    assert tall.passes == 2


# ---- what certificates ask for ----------------------------------------------------------------


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("kind", ["dense", "sparse", "products"])
def test_an_image_is_multiplied_before_it_is_squared(kind, center):
    """A direction 1e-11 times as long as others: VᵀSV is rounding, and (XV)ᵀ(XV) has five digits."""
    rng = np.random.default_rng(1)
    W = np.linalg.qr(rng.standard_normal((40, 5)) - (rng.standard_normal((1, 5)) if center else 0))[0]
    W = np.linalg.qr(W - W.mean(axis=0))[0] if center else W
    T = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    A = W * [1, 1, 1, 1, 1e-11] @ T.T
    data = {"dense": A, "sparse": scipy.sparse.csr_array(A), "products": Duck(A)}[kind]
    found = Moments(data, W, center=center)
    found.columns.means()
    before = found.passes
    G = found.products(T[:, 3:], onto=(), image=True).image
    assert G[0, 0] == pytest.approx(1, rel=1e-12)
    assert G[1, 1] == pytest.approx(1e-22, rel=1e-3)
    assert found.passes == before + 1


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("ridges", [(0.0, 0.0), (2.0, 0.5)])
def test_reduced_rows_have_the_inner_products_of_all_rows(kind, ridges):
    data = [scipy.sparse.csr_array(A) if kind == "sparse" else A for A in (X, Y)]
    found = Moments(*data, center=True)
    Rx, Ry = found.direct.reduced_rows(ridges)
    assert found.passes == 1
    Xc, Yc = X - X.mean(axis=0), Y - Y.mean(axis=0)
    np.testing.assert_allclose(Rx.T @ Rx, Xc.T @ Xc + ridges[0] * np.eye(P), atol=1e-13)
    np.testing.assert_allclose(Ry.T @ Ry, Yc.T @ Yc + ridges[1] * np.eye(Q), atol=1e-13)
    np.testing.assert_allclose(Rx.T @ Ry, Xc.T @ Yc, atol=1e-13)


@pytest.mark.parametrize("kind", ["dense", "sparse", "products"])
def test_a_gram_matrix_by_the_identity_has_zeros_for_constant_columns(kind):
    """With entries that are no binary fractions, centring leaves rounding."""
    A = np.insert(X, 2, 0.1, axis=1)
    data = {"dense": A, "sparse": scipy.sparse.csr_array(A), "products": Duck(A)}[kind]
    found = Moments(data, center=True, form="implicit")
    S = found.direct.gram_by_identity(0, found.products(np.eye(P + 1))[0])
    assert np.all(S[2] == 0)
    assert np.all(S[:, 2] == 0)
    np.testing.assert_allclose(S, (A - A.mean(axis=0)).T @ (A - A.mean(axis=0)), atol=1e-12)


@pytest.mark.parametrize("width", [3, 256])
def test_means_a_million_times_the_spread_drown_no_column_of_a_narrow_operator(width, monkeypatch):
    """One product with the identity is all entries; of wider operators the moments say what is lost."""
    monkeypatch.setattr(by_products, "IDENTITY_COLUMNS", width)
    rng = np.random.default_rng(3)
    given = (3e5 * rng.uniform(0.5, 1, 5) + rng.standard_normal((60, 5))).astype(np.float32)
    m = Moments(Duck(given), rng.standard_normal((60, 4)), center=True, form="dense")
    S = m.dense()[0]
    wanted = given.astype(np.float64)
    wanted = wanted - wanted.mean(axis=0)
    if width >= 5:
        assert_close(S, wanted.T @ wanted)
        assert m.columns.centring_error() == 0
    else:
        assert m.columns.centring_error() == 1


def test_a_constant_column_of_an_operator_is_no_loss(monkeypatch):
    monkeypatch.setattr(by_products, "IDENTITY_COLUMNS", 2)
    given = np.column_stack([X[:, :3], np.full(len(X), 7.1)])
    m = Moments(Duck(given), center=True, form="dense")
    assert np.all(m.dense()[0][3] == 0)
    assert m.columns.centring_error() < 1e-10


# ---- any number of views ------------------------------------------------------------------------------

Z = np.random.default_rng(9).standard_normal((N, 3)) * 2 + 5
VZ = np.random.default_rng(10).standard_normal((3, 2))


CUTS = {"early": (13, 40), "late": (29,)}
"""Where views that come slice by slice are cut."""


def moments_of(kinds, **options):
    given = []
    for kind, A in zip(kinds, (X, Y, Z), strict=True):
        if kind in CUTS:
            given.append(np.split(A, CUTS[kind]))
        elif kind == "sparse-blocks":
            rows = [scipy.sparse.csr_array(part) for part in np.split(A, [20, 31])]
            given.append(BlockOperator(rows, InProcess()))
        elif kind == "blocks":
            given.append(BlockOperator(np.split(A, [20, 31]), InProcess()))
        else:
            given.append(A.astype(np.float32) if kind == "float32" else KINDS[kind](A))
    return Moments(*given, **options)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize(
    "kinds",
    [
        ("numpy", "numpy", "numpy"),
        ("csr", "csr", "csr"),
        ("csr", "numpy", "csr"),
        ("slices", "slices", "numpy"),
        ("early", "late", "numpy"),
        ("blocks", "numpy", "blocks"),
        ("sparse-blocks", "sparse-blocks", "sparse-blocks"),
        ("duck", "numpy", "duck"),
        ("float32", "numpy", "numpy"),
    ],
    ids="-".join,
)
def test_three_views_are_what_their_entries_say(kinds, center, blocks):
    views = [A - A.mean(axis=0) if center else A for A in (X, Y, Z)]
    for form in (
        "implicit",
        "dense",
        *(["sparse"] if len({*kinds} & {"csr", "sparse-blocks"}) == len({*kinds}) else []),
    ):
        m = moments_of(kinds, center=center, form=form)
        V = [m.home.place(W) for W in (VX, VY, VZ)]
        found = m.products(*V)
        wanted = [A.T @ (B @ W) for A in views for B, W in zip(views, (VX, VY, VZ), strict=True)]
        loose = 3e-5 if "float32" in kinds else 1e-10
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(to_host(a), b, rtol=loose, atol=loose * np.abs(b).max())
        alone = m.products(None, None, V[2])
        assert [i for i, a in enumerate(alone) if a is not None] == [2, 5, 8]
        assert m.shape == (N, P, Q, 3)
        if m.columns.exact:
            for d, A in zip(m.diagonal(), views, strict=True):
                np.testing.assert_allclose(to_host(d), (A**2).sum(axis=0), rtol=1e-5)
        upper = [A.T @ B for i, A in enumerate(views) for B in views[i:]]
        for a, b in zip(m.dense(), upper, strict=True):
            np.testing.assert_allclose(to_host(a), b, rtol=loose, atol=loose * np.abs(b).max())
        third = m.view(2).products(V[2])[0]
        np.testing.assert_allclose(
            to_host(third), wanted[8], rtol=loose, atol=loose * np.abs(wanted[8]).max()
        )


def test_views_are_named_by_their_numbers():
    with pytest.raises(InvalidProblem, match="X1 and X3 must have equally many rows; got 57 and 56"):
        Moments(X, Y, Z[:-1])
    with pytest.raises(InvalidProblem, match=r"V3 must have shape \(3, k\); got \(2, 2\)"):
        Moments(X, Y, Z).products(None, None, np.ones((2, 2)))
    with pytest.raises(InvalidProblem, match="moments are those of matrices; got none"):
        Moments(None)


@pytest.mark.parametrize("wrap", [np.asarray, scipy.sparse.csr_array, lambda A: lambda: iter([A])])
@pytest.mark.parametrize("form", ["implicit", "dense"])
@pytest.mark.parametrize("onto", [None, (), (0,), (1,), (0, 1)])
def test_an_image_is_there_whatever_views_are_asked_for(onto, form, wrap):
    rng = np.random.default_rng(0)
    A, B, V, W = (rng.standard_normal(shape) for shape in ((50, 6), (50, 4), (6, 2), (4, 2)))
    moments = Moments(as_operator(wrap(A)), as_operator(wrap(B)), form=form)
    for index, X, blocks in ((0, A, (V, None)), (1, B, (None, W))):
        found = moments.products(*blocks, onto=onto, image=True)
        image = X @ blocks[index]
        np.testing.assert_allclose(to_host(found.image), image.T @ image, rtol=1e-12)
        if onto != () and (onto is None or 1 in onto):
            np.testing.assert_allclose(to_host(found[2 + index]), B.T @ image, rtol=1e-12)
    assert moments.products(None, onto=onto or None, image=True).image is None


@pytest.mark.parametrize("center", [False, True])
def test_exact_lengths_of_columns_of_slices_are_known_after_a_sweep(center):
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((50, 6)) + 3.0, rng.standard_normal((50, 4))
    moments = Moments(*(as_operator(lambda X=X: iter([X])) for X in (A, B)), center=center, form="implicit")
    assert moments.columns.known_diagonals() is None
    assert moments.columns.squares() is moments.columns.total_squares() is None
    moments.products(np.eye(6), np.eye(4))
    assert moments.columns.exact
    wanted = [np.sum((X - center * X.mean(axis=0)) ** 2, axis=0) for X in (A, B)]
    for found, own in zip(moments.columns.known_diagonals(), wanted, strict=True):
        np.testing.assert_allclose(found, own, rtol=1e-12)
    np.testing.assert_allclose(moments.columns.squares(), wanted[0], rtol=1e-12)
    np.testing.assert_allclose(moments.columns.total_squares(), wanted[0].sum(), rtol=1e-12)


def test_estimated_lengths_of_columns_are_no_exact_ones():
    """Beside an operator known by its products, the lengths of the columns of slices are estimated, too."""
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((50, 60)), rng.standard_normal((50, 40))
    product = scipy.sparse.linalg.aslinearoperator(B)
    moments = Moments(as_operator(lambda: iter([A])), as_operator(product), form="implicit")
    moments.products(np.eye(60)[:, :2], np.eye(40)[:, :2])
    assert not moments.columns.exact
    assert moments.columns.squares() is None
    assert moments.columns.known_diagonals() is None
