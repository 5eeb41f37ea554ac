"""Operators against the same products of dense float64 arrays: all kinds of data, dtypes and nodes."""

from __future__ import annotations

import subprocess
import sys
import warnings

import array_api_strict as strict
import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg

from linspec import as_operator
from linspec.arrays import HOST, Home, host_dtype, to_host
from linspec.blocks import base
from linspec.errors import BrokenPlugin, InvalidProblem, MissingCapability, UnsupportedData
from linspec.operators import (
    CombinedColumns,
    DenseOperator,
    ForeignOperator,
    LinearOperator,
    SparseOperator,
)
from linspec.registry.spec import OperatorSpec

N, P = 37, 6
RNG = np.random.default_rng(0)
M = RNG.standard_normal((N, P)) * (RNG.random((N, P)) < 0.6)
OTHER = RNG.standard_normal((N, P))


class Duck:
    """Shape, dtype and two methods, and a note of how often each was called and with what."""

    def __init__(self, array):
        self._array, self.shape, self.dtype = array, array.shape, array.dtype
        self.calls = []

    def matmat(self, V):
        self.calls.append(("matmat", V.shape[1], V.dtype))
        return self._array @ V

    def rmatmat(self, U):
        self.calls.append(("rmatmat", U.shape[1], U.dtype))
        return self._array.T @ U


def readonly(x):
    x = x.copy()
    x.flags.writeable = False
    return x


def unaligned(x):
    buffer = np.zeros(x.nbytes + 1, np.uint8)
    view = buffer[1:].view(x.dtype).reshape(x.shape)
    view[...] = x
    return view


def every_other(x):
    wide = np.full((2 * x.shape[0], 2 * x.shape[1]), 7, x.dtype)
    wide[::2, ::2] = x
    return wide[::2, ::2]


def on(device):
    return lambda x: strict.asarray(x.copy(), device=strict.Device(device))


def function_only(x):
    return scipy.sparse.linalg.LinearOperator(
        x.shape, matvec=lambda v: x @ v, rmatvec=lambda u: x.T @ u, dtype=x.dtype
    )


READABLE = {
    "c-order": np.copy,
    "f-order": np.asfortranarray,
    "read-only": readonly,
    "columns-of-a-wider-one": lambda x: np.hstack([x, x])[:, P:],
    "every-other": every_other,
    "backwards": lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
    "unaligned": unaligned,
    "big-endian": lambda x: x.astype(x.dtype.newbyteorder(">")),
    "np-matrix": np.matrix,
    "strict": on("CPU_DEVICE"),
    "strict-device1": on("device1"),
    "csr-array": scipy.sparse.csr_array,
    "csr-matrix": scipy.sparse.csr_matrix,
    "csc-array": scipy.sparse.csc_array,
    "csc-matrix": scipy.sparse.csc_matrix,
    "coo-array": scipy.sparse.coo_array,
    "coo-matrix": scipy.sparse.coo_matrix,
    "lil-array": scipy.sparse.lil_array,
    "bsr-array": scipy.sparse.bsr_array,
    "operator": as_operator,
}
PRODUCTS_ONLY = {
    "scipy-aslinearoperator": scipy.sparse.linalg.aslinearoperator,
    "scipy-functions": function_only,
    "duck": Duck,
}
KINDS = READABLE | PRODUCTS_ONLY


def make(kind, x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)  # numpy.matrix
        return KINDS[kind](x)


def assert_product(found, left, right, unit):
    """As exact as sums of products of this size can be."""
    limit = 4 * unit * np.sqrt(left.shape[1]) * (np.abs(left) @ np.abs(right)) + 1e-300
    assert tuple(found.shape) == (left.shape[0], right.shape[1])
    np.testing.assert_array_less(np.abs(to_host(found).astype(np.float64) - left @ right), limit)


def check(A, X, unit=None):
    """Hold an operator to the dense array that it stands for."""
    n, p = X.shape
    unit = np.finfo(A.dtype).eps if unit is None else unit
    rng = np.random.default_rng(1)
    V, U = rng.standard_normal((p, 3)), rng.standard_normal((n, 3))
    assert A.shape == (n, p)
    forward = A.matmat(A.home.blocks.place(V))
    assert host_dtype(forward) == A.dtype
    assert Home.of(forward) == A.home
    assert_product(forward, X, V, unit)
    adjoint = A.rmatmat(A.home.place(U, A.dtype))
    assert host_dtype(adjoint) == np.float64
    assert Home.of(adjoint) == A.home.blocks
    assert_product(adjoint, X.T, U, unit)
    assert_product(A.H.matmat(A.home.place(U, A.dtype)), X.T, U, unit)
    if A.readable:
        entries = A.dense()
        assert host_dtype(entries) == A.dtype
        assert Home.of(entries) == A.home
        np.testing.assert_allclose(to_host(entries), X, rtol=8 * unit, atol=8 * unit)
    else:
        with pytest.raises(MissingCapability, match="known by its products only; pass an array"):
            A.dense()


def check_rows(A, X):
    n = X.shape[0]
    for chosen in (
        slice(None),
        slice(3, n // 2),
        slice(-5, None),
        slice(5, 5),
        slice(n, 2, -3),
        slice(1, None, 4),
        np.array([n - 1, 0, 0, 7]),
        np.array([-1, 2]),
        [4, 1],
        np.arange(n, dtype=np.uint8)[::-1],
    ):
        part = A.rows(chosen)
        assert part.access == "rows"
        check(part, X[chosen])


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of a few rows, so that 37 rows are many blocks."""
    monkeypatch.setattr(base, "BLOCK_BYTES", 300)
    monkeypatch.setattr(base, "DEVICE_BLOCK_BYTES", 300)
    monkeypatch.setattr(base, "FEWEST_ROWS", 1)


# ---- kinds of data ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_data(kind, dtype):
    X = M.astype(dtype)
    A = as_operator(make(kind, X))
    assert A.dtype == np.dtype(dtype)
    assert A.readable == (A.access == "rows") == (kind in READABLE)
    check(A, X.astype(np.float64))
    if A.access == "rows":
        check_rows(A, X.astype(np.float64))


# The conformance tests try one kind of each of these groups on solvers: to a solver the others are the same.


@pytest.mark.parametrize("dtype", ["float64", "float32", "int8"])
@pytest.mark.parametrize("kind", [kind for kind in READABLE if kind[:3] in {"csr", "csc", "coo", "lil"}])
def test_kinds_of_sparse_data_become_the_same_rows(kind, dtype):
    """The compressed rows of the entries, as NumPy finds them one row after the other."""
    X = (10 * M).astype(dtype)
    A = as_operator(make(kind, X))
    rows, columns = np.nonzero(X)
    assert type(A) is SparseOperator
    stored = X.dtype if kind.startswith("csr") else A.dtype  # which holds sums of duplicates
    assert (A.matrix.format, A.matrix.dtype, A.shape) == ("csr", stored, X.shape)
    np.testing.assert_array_equal(A.matrix.indptr, np.searchsorted(rows, np.arange(N + 1)))
    np.testing.assert_array_equal(A.matrix.indices, columns)
    np.testing.assert_array_equal(A.matrix.data, X[rows, columns])


@pytest.mark.parametrize(
    ("kinds", "operator"),
    [
        (("duck", "scipy-aslinearoperator"), ForeignOperator),
        (("c-order", "read-only"), DenseOperator),
    ],
)
def test_kinds_of_data_that_become_the_same_operator(kinds, operator):
    """One class with the same capabilities, whose products are NumPy's."""
    made = [as_operator(make(kind, M)) for kind in kinds]
    assert {type(A) for A in made} == {operator}
    assert len({(A.shape, A.dtype, A.home, A.readable, A.access == "rows", A.streamed) for A in made}) == 1
    for A in made:
        check(A, M)


def test_a_device_without_float64():
    X = M.astype(np.float32)
    A = as_operator(on("no_float64")(X))
    assert A.home.blocks == HOST
    check(A, X.astype(np.float64))
    check_rows(A, X.astype(np.float64))
    mean = X.mean(axis=0, dtype=np.float64)
    check(CombinedColumns(A, mean), X - mean)
    with pytest.raises(UnsupportedData, match="need float64, which their device does not have"):
        as_operator(strict.asarray([[2**40]], device=strict.Device("no_float64")))


@pytest.mark.parametrize("kind", ["c-order", "f-order", "strict-device1", "csr-array", "csc-matrix"])
@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
)
def test_integers_are_multiplied_exactly(kind, dtype, small_blocks):
    """Integers below 2**24, and sums below it, are float32 numbers: nothing may be rounded at all."""
    info = (0, 1) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    X = (
        np.random.default_rng(2)
        .integers(max(info[0], -999), min(info[1], 999), (N, P), endpoint=True)
        .astype(dtype)
    )
    A = as_operator(make(kind, X))
    V = np.random.default_rng(3).integers(-9, 9, (P, 3))
    U = np.random.default_rng(3).integers(-9, 9, (N, 3))
    exact = X.astype(np.int64)
    assert np.array_equal(to_host(A.matmat(A.home.blocks.place(V))), exact @ V)
    assert np.array_equal(to_host(A.rmatmat(A.home.place(U, A.dtype))), exact.T @ U)
    assert np.array_equal(to_host(A.dense()), exact)


def test_half_precision_is_held_exactly():
    X = np.linspace(-9, 9, N * P).reshape(N, P).astype(np.float16)
    A = as_operator(X)
    assert A.dtype == np.float32
    assert np.array_equal(A.dense(), X.astype(np.float32))
    check(A, X.astype(np.float64))


@pytest.mark.parametrize("layout", ["c-order", "f-order"])
def test_sums_over_many_rows_are_kept_in_float64(layout):
    """A float32 sum of 2,000,000 equal numbers is off in the second digit; sums of stretches are not."""
    x = np.full((2_000_000, 2), 0.1, np.float32)
    x = np.asfortranarray(x) if layout == "f-order" else x
    total = as_operator(x).rmatmat(np.ones((len(x), 1), np.float32))
    np.testing.assert_allclose(total, len(x) * float(np.float32(0.1)), rtol=3e-5)
    centred = CombinedColumns(as_operator(x), np.zeros(2)).rmatmat(np.ones((len(x), 1), np.float32))
    np.testing.assert_allclose(centred, len(x) * float(np.float32(0.1)), rtol=3e-5)


@pytest.mark.parametrize("wrap", [np.asarray, scipy.sparse.csr_array, Duck], ids=["array", "sparse", "duck"])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_data_are_refused(wrap, dtype):
    with pytest.raises(
        UnsupportedData, match=rf"^X must be real; got dtype {dtype}\. Pass the real and imaginary parts"
    ):
        as_operator(wrap(np.ones((3, 2), dtype)), "X")


@pytest.mark.parametrize("dtype", ["object", "U4", "S4", "datetime64[D]"])
def test_data_that_are_no_numbers_are_refused(dtype):
    for thing in (np.ones((2, 2)).astype(dtype), Duck(np.ones((2, 2)).astype(dtype))):
        with pytest.raises(
            UnsupportedData, match=r"^Y must hold numbers; got dtype .*\. Convert it to float64"
        ):
            as_operator(thing, "Y")


@pytest.mark.parametrize("shape", [(3,), (2, 3, 4), ()])
def test_two_dimensions_are_needed(shape):
    with pytest.raises(InvalidProblem, match=rf"^X must have two dimensions; got {len(shape)}"):
        as_operator(np.ones(shape), "X")
    with pytest.raises(InvalidProblem, match=r"^X must have two dimensions"):
        as_operator(strict.ones(shape), "X")


def test_a_mask_is_not_ignored():
    with pytest.raises(UnsupportedData, match=r"^X must be plain numbers, not masked.*filled"):
        as_operator(np.ma.masked_array(M, M > 1), "X")


class Frame:
    """Looks like a data frame."""

    shape = (2, 2)

    def to_numpy(self):
        return np.ones((2, 2))


@pytest.mark.parametrize(
    "thing, remedy", [({1: 2}, "numpy.asarray"), (None, "numpy.asarray"), (Frame(), "to_numpy")]
)
def test_what_cannot_be_multiplied_is_refused_with_a_remedy(thing, remedy):
    with pytest.raises(
        UnsupportedData, match=rf"^Z must be an array, .*{type(thing).__qualname__}\. Pass .*{remedy}"
    ):
        as_operator(thing, "Z")


def test_duplicates_of_sparse_entries_add_up():
    matrix = scipy.sparse.csr_array((np.array([1, 2, 5], np.int8), np.array([0, 0, 1]), np.array([0, 2, 3])))
    check(as_operator(matrix), np.array([[3.0, 0.0], [0.0, 5.0]]))


def test_an_operator_is_its_own_operator():
    A = as_operator(M)
    assert as_operator(A) is A


# ---- what may be asked --------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [np.ones(P), np.ones((P + 1, 2)), np.ones((1, P, 2)), [[1.0]] * P])
def test_blocks_of_wrong_shape_are_refused(block):
    with pytest.raises(InvalidProblem, match=rf"matmat of a {N} x {P} operator takes an array with {P} rows"):
        as_operator(M).matmat(block)
    with pytest.raises(InvalidProblem, match="rmatmat of a"):
        as_operator(M).rmatmat(block)


@pytest.mark.parametrize(
    "rows, message",
    [
        (np.arange(N) > 3, "flatnonzero"),
        ([0.5], "by integers"),
        ([[0, 1]], "one dimension"),
        ([N], rf"from 0 to {N - 1}; got \[{N}\]"),
        ([-N - 1], r"got \[-38\]"),
    ],
)
@pytest.mark.parametrize("kind", ["c-order", "csr-array", "strict"])
def test_rows_that_do_not_exist_are_refused(kind, rows, message):
    with pytest.raises(InvalidProblem, match=message):
        as_operator(make(kind, M)).rows(rows)


@pytest.mark.parametrize("kind", PRODUCTS_ONLY)
def test_rows_of_products_are_refused(kind):
    with pytest.raises(MissingCapability, match="has no row slices; pass an array"):
        as_operator(make(kind, M)).rows(slice(3))


def test_data_are_never_modified(small_blocks):
    X = RNG.integers(0, 9, (N, P))
    for data in (X.astype(np.uint8), X.astype(np.float32), X.astype(np.float64)):
        before = data.copy()
        A = CombinedColumns(as_operator(data), np.full(P, 3.0))
        A.matmat(np.ones((P, 2)))
        A.rmatmat(np.ones((N, 2)))
        A.dense()
        assert np.array_equal(data, before)


# ---- algebra ------------------------------------------------------------------------------------------

LEFT, RIGHT = RNG.standard_normal((N, 2)), RNG.standard_normal((P, 2))


@pytest.mark.parametrize("dtype, limit", [("float64", 1e-11), ("float32", 4e-7)])
@pytest.mark.parametrize("kind", ["c-order", "f-order", "every-other", "strict-device1"])
def test_centring_dense_rows_loses_nothing_to_large_means(kind, dtype, limit, small_blocks):
    """Means 10,000 times the spread: what is left after the centring is as exact as the entries."""
    X = (RNG.standard_normal((N, P)) + 1e4).astype(dtype)
    mean = X.astype(np.longdouble).mean(axis=0)
    exact = (X - mean).astype(np.float64)
    A = CombinedColumns(as_operator(make(kind, X)), mean.astype(np.float64))
    V, U = RNG.standard_normal((P, 3)), RNG.standard_normal((N, 3)).astype(dtype).astype(float)
    for found, wanted in (
        (A.dense(), exact),
        (A.matmat(A.home.place(V)), exact @ V),
        (A.rmatmat(A.home.place(U, dtype)), exact.T @ U),
        (A.rows(slice(3, 20)).matmat(A.home.place(V)), exact[3:20] @ V),
        (A.rows(slice(3, 20)).rmatmat(A.home.place(U[3:20], dtype)), exact[3:20].T @ U[3:20]),
    ):
        gap = np.linalg.norm(to_host(found) - wanted) / np.linalg.norm(wanted)
        assert gap < limit


# ---- counting -----------------------------------------------------------------------------------------


# ---- operators of others -------------------------------------------------------------------------------


@pytest.mark.parametrize("flaw", ["transposed", "flat", "complex", "text"])
@pytest.mark.parametrize("name, rows", [("matmat", P), ("rmatmat", N)])
def test_what_a_foreign_operator_answers_is_checked(name, rows, flaw):
    duck = Duck(M)
    right = getattr(duck, name)
    answers = {
        "transposed": lambda V: right(V).T,
        "flat": lambda V: right(V).ravel(),
        "complex": lambda V: right(V) + 1j,
        "text": lambda V: right(V).astype("U5"),
    }
    setattr(duck, name, answers[flaw])
    with pytest.raises((InvalidProblem, UnsupportedData), match=rf"Duck\.{name}"):
        getattr(as_operator(duck), name)(np.ones((rows, 2)))


def test_a_missing_adjoint_is_told():
    half = scipy.sparse.linalg.LinearOperator(M.shape, matvec=lambda v: M @ v, dtype=np.float64)
    A = as_operator(half)
    A.matmat(np.ones((P, 2)))
    with pytest.raises(MissingCapability, match=r"rmatmat is not implemented.*Define it"):
        A.rmatmat(np.ones((N, 2)))


class Minimal(LinearOperator):
    """The least that an author writes."""

    def __init__(self):
        self.shape, self.dtype = M.shape, np.dtype(np.float64)

    def _matmat(self, V):
        assert V.dtype == np.float64
        return M @ V

    def _rmatmat(self, U):
        assert U.dtype == np.float64
        return M.T @ U


def test_an_authors_operator_gets_checked_blocks():
    A = Minimal()
    check(A, M)
    A.matmat(np.ones((P, 2), np.float32))
    assert repr(A) == f"Minimal({N} x {P}, float64)"
    with pytest.raises(InvalidProblem):
        A.matmat(np.ones(P))


# ---- adapters of plugins --------------------------------------------------------------------------------


class Cargo:
    """Data that only a plugin knows."""


def adapter(name, matches, adapt):
    return OperatorSpec(name=name, matches=matches, adapt=adapt, summary="Cargo.")


def test_the_first_adapter_that_matches_adapts(monkeypatch):
    asked = []

    def matches(name, answer):
        return lambda data: (asked.append(name), answer)[1]

    specs = (
        adapter("no", matches("no", answer=False), lambda data: as_operator(OTHER)),
        adapter("yes", matches("yes", answer=True), lambda data: as_operator(M)),
        adapter("late", matches("late", answer=True), lambda data: as_operator(OTHER)),
    )
    monkeypatch.setattr("linspec.registry.operator_adapters", lambda: specs)
    check(as_operator(Cargo()), M)
    assert asked == ["no", "yes"]


def test_an_adapter_must_make_an_operator(monkeypatch):
    spec = adapter("acme", lambda data: True, lambda data: M)
    monkeypatch.setattr("linspec.registry.operator_adapters", lambda: (spec,))
    with pytest.raises(
        BrokenPlugin, match=r"operator/acme must make a linspec\.LinearOperator of Cargo; got ndarray"
    ):
        as_operator(Cargo())


def test_a_registered_adapter_is_found():
    """Through the registry itself, in a process of its own."""
    script = """
import sys
import numpy as np
import linspec
from linspec import as_operator
assert as_operator(np.eye(2)).shape == (2, 2)
assert "pluggy" not in sys.modules and not any(m.startswith("linspec_") for m in sys.modules)
class Cargo: pass
linspec.register(linspec.OperatorSpec(name="cargo", summary="Cargo.",
    matches=lambda data: isinstance(data, Cargo), adapt=lambda data: as_operator(np.eye(3))))
assert as_operator(Cargo()).shape == (3, 3)
"""
    subprocess.run([sys.executable, "-c", script], check=True)


# ---- blocks ---------------------------------------------------------------------------------------------
