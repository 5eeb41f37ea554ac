"""Moments against Gram matrices summed in extended precision: every form, kind of data, and account."""

from __future__ import annotations

import contextlib
import warnings

import array_api_strict as strict
import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
from backends import BACKENDS
from hypothesis import given
from hypothesis import strategies as st

from linspec import Moments, as_operator
from linspec.arrays import HOST, Home, to_host
from linspec.errors import AccuracyWarning, InvalidProblem, NonFiniteData
from linspec.moments import by_products
from linspec.operators import (
    CountedOperator,
    Ledger,
    LinearOperator,
    row_blocks,
)
from linspec.process import machine
from linspec.sweeps import in_memory, views
from linspec.sweeps.blocks import BlockOperator, InProcess

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
    "transposed": lambda x: as_operator(x.T.copy()).H,
    "slices": Slices,
    "scipy-operator": scipy.sparse.linalg.aslinearoperator,
    "duck": Duck,
    **{each.name: each.wrap for each in BACKENDS if each.name.startswith("cupy") and not each.missing()},
}
PAIRS = [
    ("numpy", "numpy"),
    ("f-order", "numpy"),
    ("strict-device1", "strict-device1"),
    ("csr", "csr"),
    ("csc", "coo"),
    ("numpy", "csr"),
    ("csr", "numpy"),
    ("scaled-sparse", "csr"),
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
@pytest.mark.parametrize("kind", ["numpy", "f-order", "strict-device1"])
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
    magnitudes = centred.T @ centred
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
    assert m.passes == 2, "means and norms came with the first sweep"
    flops = books[0].flops / books[0].columns
    assert flops == 2.0 * as_operator(KINDS[kinds[0]](X)).nnz


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


def test_wide_sparse_rows_that_are_not_finite_are_named():
    x = scipy.sparse.random(12, 60, 0.3, format="csr", random_state=np.random.default_rng(0))
    x.data[5] = np.nan
    for V in (None, np.ones((60, 1))):
        with pytest.raises(NonFiniteData, match="X"):
            Moments(x, np.ones((12, 2)), form="implicit").products(V, cross=True)


def test_nothing_is_read_before_the_first_product():
    a = Duck(X)
    m = Moments(a, center=True)
    assert (m.form, m.cost.setup, m.cost.sweep, m.shape, m.passes) == ("implicit", 1, 2, (N, P, 0), 0)
    assert not m.held
    assert a.forward == a.adjoint == 0


# ---- norms that only products can show -------------------------------------------------------------------


# ---- which form ------------------------------------------------------------------------------------------


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


# ---- NaN and infinity --------------------------------------------------------------------------------------

LOCATED = ["numpy", "f-order", "strict-device1", "csr", "csc", "coo", "transposed"]


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


# ---- what certificates ask for ----------------------------------------------------------------


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
