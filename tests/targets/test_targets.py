"""Target factors against definitions: loops over edges, scatter matrices, projectors from a pseudo-inverse."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from backends import Backend, backends
from hypothesis import given
from hypothesis import strategies as st

import linspec
from linspec import as_operator, targets
from linspec.arrays import Device, to_host
from linspec.errors import InvalidOption, InvalidProblem, NonFiniteData, UnsupportedData
from linspec.operators import CombinedColumns

ARRAYS = [backend for backend in backends() if backend.is_array]
LAPLACIANS = ["zhou", "clique", "star", "clique without self-loops"]
TARGETS = {
    "opls": targets.opls,
    "cca": targets.cca,
    **{name: lambda Y, name=name: hsl(Y, name) for name in LAPLACIANS},
}
dense_and_sparse = pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])


@pytest.fixture(params=ARRAYS, ids=lambda backend: backend.name)
def backend(request: pytest.FixtureRequest) -> Backend:
    if reason := request.param.missing():
        pytest.skip(reason)
    return request.param


def hsl(Y, name, weights=None, **options):
    return targets.hsl(Y, name.split()[0], weights, self_loops="without" not in name, **options)


def host(H) -> np.ndarray:
    """H as a NumPy array, whatever it is."""
    if isinstance(H, linspec.LinearOperator):
        H = H.dense()
    return np.asarray(H.toarray() if scipy.sparse.issparse(H) else to_host(H))


def projector(Y) -> np.ndarray:
    """Onto the span of the centred columns."""
    Yc = Y - Y.mean(axis=0)
    return Yc @ np.linalg.pinv(Yc, rcond=1e-10)


def same_square(H, expected, atol=1e-13):
    """Compare H Hᵀ, which does not depend on the columns that H is made of."""
    H, expected = host(H).astype(float), host(expected)
    np.testing.assert_allclose(H @ H.T, expected @ expected.T, atol=atol)


def some_labels(n=40, weighted=False) -> np.ndarray:
    """Several labels a row; no row without, none that all rows have."""
    rng = np.random.default_rng(0)
    Y = (rng.random((n, 6)) < 0.3).astype(float)
    Y[Y.sum(axis=1) == 0, 0] = 1
    return Y * rng.uniform(0.5, 2.0, Y.shape) if weighted else Y


def similarity(Y, name, weights=None) -> np.ndarray:
    """I minus the normalised Laplacian, edge by edge."""
    (n, t), w = Y.shape, np.ones(Y.shape[1]) if weights is None else np.asarray(weights, float)
    ties, degrees = np.zeros((n, n)), np.zeros(n)
    for e in range(t):
        h, size = Y[:, e], Y[:, e].sum()
        if size == 0 or w[e] == 0 or ("without" in name and np.count_nonzero(h) == 1):
            continue
        ties += w[e] * np.outer(h, h) * {"zhou": 1 / size, "star": 1 / size**2}.get(name, 1.0)
        alone = {"zhou": 1.0, "clique": size, "star": 1 / size, "clique without self-loops": size - h}
        degrees += w[e] * h * alone[name]
    products = np.outer(degrees, degrees)
    return np.divide(ties, np.sqrt(products), out=np.zeros((n, n)), where=products > 0)


@pytest.mark.parametrize("weights", [None, [1.0, 3.0, 0.5, 2.0, 0.0, 7.0]], ids=["plain", "weights"])
@pytest.mark.parametrize("name", LAPLACIANS)
def test_hsl_is_one_minus_the_laplacian_in_any_units(name, weights):
    Y = some_labels(weighted=True)
    Y[7] = 0  # no labels
    H = host(hsl(Y, name, weights))
    np.testing.assert_allclose(H @ H.T, similarity(Y, name, weights), atol=1e-14)
    assert H.shape == (40, 6 if weights is None else 5)
    assert not H[7].any()
    small = None if weights is None else 1e-40 * np.asarray(weights)
    np.testing.assert_allclose(host(hsl(1e40 * Y, name, small)), H, rtol=1e-13)


@pytest.mark.parametrize("name", LAPLACIANS)
@dense_and_sparse
def test_hsl_of_weighted_rows_is_that_of_repeated_ones(name, kind):
    """The similarity of two rows is that of any two of their copies; a row of weight 0 is in no edge."""
    Y = some_labels(weighted=True)
    often = np.random.default_rng(5).integers(0, 4, len(Y))
    Y[:, -1] = 0
    Y[0, -1], often[0] = 1.5, 1  # an edge of a single row, which counts once
    H = host(hsl(kind(Y), name, sample_weight=often))[often > 0]
    copies = similarity(Y.repeat(often, axis=0), name)
    first = (np.cumsum(often) - often)[often > 0]
    np.testing.assert_allclose(H @ H.T, copies[np.ix_(first, first)], atol=1e-13)


@pytest.mark.parametrize("weight", [1.0, 0.3])
def test_an_edge_of_a_single_row_leaves_nothing_without_self_loops_not_even_a_rounding_error(weight):
    Y = weight * np.array([[1.0], [0.0], [0.0]])
    with pytest.raises(InvalidProblem, match="two rows"):
        hsl(Y, LAPLACIANS[3])
    assert hsl(Y, "zhou")[0, 0] == pytest.approx(1)


NAMES = np.array(["ant", "bee", "cat"])
CLASSES = {
    "integers": lambda y: y - 1,  # -1, 0, 1
    "floats": lambda y: y.astype(float),
    "strings": lambda y: NAMES[y],
    "bytes": lambda y: NAMES[y].astype("S3"),
    "list of NumPy numbers": list,
    "indicators": lambda y: np.eye(3)[y],
    "sparse": lambda y: scipy.sparse.csr_array(np.eye(3)[y]),
}


@pytest.mark.parametrize("kind", CLASSES)
def test_lda_is_the_scatter_between_classes(kind):
    rng = np.random.default_rng(1)
    X, numbers = rng.standard_normal((60, 5)) + 3, rng.integers(0, 3, 60)
    H = targets.lda(CLASSES[kind](numbers))
    gaps = [X[numbers == j].mean(axis=0) - X.mean(axis=0) for j in range(3)]
    between = sum(np.count_nonzero(numbers == j) * np.outer(gap, gap) for j, gap in enumerate(gaps))
    C = (X - X.mean(axis=0)).T @ host(H)
    np.testing.assert_allclose(C @ C.T, between, atol=1e-12)
    assert scipy.sparse.issparse(H) == (kind != "indicators")
    assert H.dtype == np.float64


@pytest.mark.parametrize(
    ("y", "unlabelled"),
    [
        (["a", None, "b", None, "b"], ()),
        ([1, None, 2, np.float32("nan"), 2], ()),
        (np.array([1, np.nan, 2, np.nan, 2]), ()),
        (np.array([1, -1, 2, 0, 2]), np.array([0, -1, 77])),
        (["a", "", "b", "?", "b"], {"", "?"}),
        (np.array(["a", None, "b", "?", "b"], dtype=object), ["?"]),
        (scipy.sparse.csr_array([[1, 0, 0], [0, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 1]]), ()),
    ],
)
def test_unlabelled_rows_have_zero_rows(y, unlabelled):
    H = targets.lda(y, unlabelled=unlabelled)
    np.testing.assert_allclose(host(H), np.array([[1, 0], [0, 0], [0, 1], [0, 0], [0, 1]]) / np.sqrt([1, 2]))


def test_class_vectors_stand_for_their_indicators_in_sorted_order():
    np.testing.assert_array_equal(host(targets.hsl([10, 9, 10], "star")) > 0, [[0, 1], [1, 0], [0, 1]])
    np.testing.assert_array_equal(host(targets.hsl(["10", "9"], "star")) > 0, [[1, 0], [0, 1]])
    y = np.array([2, 0, 1, -1, 2, 2, 0])
    Y = (y[:, None] == np.arange(3)).astype(float)
    for target in (targets.opls, targets.cca, targets.hsl):
        same_square(target(y, unlabelled=-1), target(Y), atol=1e-14)
    found = targets.hsl(y, weights=[1.0, 2.0, 5.0], unlabelled=-1)
    np.testing.assert_allclose(host(found), targets.hsl(Y, weights=[1.0, 2.0, 5.0]))


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array, np.int8, np.float32])
def test_opls_takes_the_means_out(kind):
    Y = some_labels()
    H = targets.opls(kind(Y))
    assert H.dtype == (np.float32 if kind is np.float32 else np.float64)
    np.testing.assert_allclose(host(H), Y - Y.mean(axis=0), atol=1e-7)


@dense_and_sparse
def test_cca_projects_onto_the_centred_labels(kind):
    Y = some_labels(weighted=True) * np.array([1, 1e-6, 1, 1e6, 1, 1])
    H = host(targets.cca(kind(Y)))
    np.testing.assert_allclose(H.T @ H, np.eye(6), atol=1e-13)
    np.testing.assert_allclose(H @ H.T, projector(Y / np.abs(Y).max(axis=0)), atol=1e-13)


@dense_and_sparse
@pytest.mark.parametrize(("dtype", "atol"), [(float, 1e-13), (np.float32, 1e-6)])
def test_dependent_labels_count_once(kind, dtype, atol):
    Y = some_labels(n=60)
    Y = np.column_stack([Y, Y[:, 0] + Y[:, 1], Y[:, 2], 1 - Y[:, 3], np.zeros(60), np.ones(60)])
    H = host(targets.cca(kind(Y.astype(dtype))))
    assert H.shape == (60, 6)
    np.testing.assert_allclose(H @ H.T, projector(Y), atol=atol)


@pytest.mark.parametrize("name", ["opls", "cca"])
@dense_and_sparse
def test_labels_alike_in_all_rows_are_dropped(name, kind):
    Y = np.column_stack([some_labels(), np.full(40, 0.1), np.zeros(40)])  # 40 times 0.1 over 40 is not 0.1
    np.testing.assert_allclose(host(TARGETS[name](kind(Y))), host(TARGETS[name](kind(Y[:, :6]))), atol=1e-15)
    for nothing in (Y[:, 6:], ["a", "a"], Y[:1]):
        with pytest.raises(InvalidProblem, match="must differ between rows"):
            TARGETS[name](nothing)


@pytest.mark.parametrize("missing", [1, 3])
def test_a_label_that_nearly_all_rows_have_loses_no_digits(missing):
    """n − 1 of n: the centred square is 1 − 1/n, a difference of numbers of a million."""
    n = 1_000_000
    rare, frequent = np.zeros(n), np.ones(n)
    rare[:missing], frequent[-missing:] = 1, 0
    Y = np.column_stack([rare, frequent])
    variance, covariance = missing * (n - missing) / n, missing**2 / n
    exact = np.array([[variance, covariance], [covariance, variance]])
    # Whole numbers are exact; others are centred row by row.
    for weight, atol in ((1.0, 1e-14), (0.3, 1e-11)):
        T = targets.cca(scipy.sparse.csr_array(weight * Y)).factor
        np.testing.assert_allclose(weight**2 * T.T @ exact @ T, np.eye(2), atol=atol)


def test_sparse_labels_are_held_and_never_centred_in_memory():
    Y = scipy.sparse.csr_array(some_labels())
    for H in (targets.opls(Y), targets.cca(Y)):
        assert isinstance(H, CombinedColumns)
        assert H.operator.matrix.nnz == Y.nnz


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_given_is_changed_and_duplicates_add_up(name):
    data, columns = np.array([1.0, 0, 0.5, 0.5, 1, 1, 1]), np.array([1, 0, 0, 0, 2, 1, 0])
    Y = scipy.sparse.csr_array((data, columns, np.array([0, 2, 5, 7])), shape=(3, 3))
    for part in (Y.data, Y.indices, Y.indptr):
        part.flags.writeable = False
    same_square(TARGETS[name](Y), TARGETS[name](Y.toarray()), atol=1e-15)


@pytest.mark.parametrize(("dtype", "atol"), [(np.float32, 1e-5), (np.float64, 1e-13)])
@pytest.mark.parametrize("name", TARGETS)
def test_arrays_stay_in_their_library(backend, name, dtype, atol):
    if not backend.float64 and dtype == np.float64:
        pytest.skip("no float64")
    Y = some_labels(weighted=True).astype(dtype)
    Y[:, 4], Y[9] = 0, 0
    given = backend.wrap(Y)
    before = to_host(given).tobytes()
    H = TARGETS[name](given)
    assert Device.of(H) == Device.of(given)
    assert H.dtype == given.dtype
    assert to_host(given).tobytes() == before
    same_square(H, TARGETS[name](Y.astype(float)), atol)


def test_class_vectors_and_indicators_of_other_libraries(backend):
    numbers = np.random.default_rng(2).integers(-1, 3, 30)
    expected, given = host(targets.lda(numbers, unlabelled=-1)), backend.wrap(numbers)
    for H in (
        targets.lda(given, unlabelled=backend.wrap(np.array([-1]))),
        targets.lda(backend.wrap((numbers[:, None] == np.arange(4)).astype(np.int64))),
    ):
        assert isinstance(given, np.ndarray) or Device.of(H) == Device.of(given)
        np.testing.assert_allclose(host(H), expected, rtol=1e-6)


@given(st.data())
def test_any_labels(data):
    """Sparse is dense, and the eigenvalues of HHᵀ are where they must be, for all 0/1 labels there are."""
    n, t = data.draw(st.integers(2, 7)), data.draw(st.integers(1, 5))
    bits = st.lists(st.integers(0, 1), min_size=n * t, max_size=n * t)
    Y = np.array(data.draw(bits), dtype=float).reshape(n, t)
    weights = data.draw(st.lists(st.integers(0, 3), min_size=t, max_size=t))
    for name in LAPLACIANS:
        expected = similarity(Y, name, weights)
        if not expected.any():
            with pytest.raises(InvalidProblem):
                hsl(Y, name, weights)
            continue
        for kind in (np.asarray, scipy.sparse.coo_array):
            H = host(hsl(kind(Y), name, weights))
            np.testing.assert_allclose(H @ H.T, expected, atol=1e-14)
    for kind in (np.asarray, scipy.sparse.coo_array) if np.any(Y.min(axis=0) < Y.max(axis=0)) else ():
        H = host(targets.cca(kind(Y)))
        assert H.shape[1] == np.linalg.matrix_rank(Y - Y.mean(axis=0), tol=1e-9)
        np.testing.assert_allclose(H @ H.T, projector(Y), atol=1e-12)


NAN = some_labels(4)
NAN[2, 1] = np.nan


@pytest.mark.parametrize("name", ["lda", "opls", "cca", "hsl"])
@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        (NAN, NonFiniteData, "row 2, column 1"),
        (np.array([np.nan, 0.25, 1.0]), InvalidProblem, "0.25 in row 1.*y\\[:, None\\]"),
        (["a", 1], UnsupportedData, "all numbers or all strings"),
        (as_operator(np.eye(3)), UnsupportedData, "DenseOperator"),
    ],
)
def test_bad_labels_end_in_one_error(name, given, error, match):
    with pytest.raises(error, match=match):
        getattr(targets, name)(given)


LIGHT = {"laplacian": "clique", "self_loops": False, "sample_weight": [1, 0.5, 0]}


@dense_and_sparse
@pytest.mark.parametrize(
    ("name", "labels", "options", "error", "match"),
    [
        ("lda", [[1, 0], [1, 0]], {}, InvalidProblem, "at least two classes; got 1"),
        ("lda", [[1, 0], [1, 1]], {}, InvalidProblem, "opls, cca or hsl"),
        ("hsl", [[1, 0], [0, -0.5]], {}, InvalidProblem, r"got -0\.5 in column 1.*opls or cca"),
        ("hsl", np.eye(3), {"weights": [1, -2, 3]}, InvalidProblem, "of at least 0"),
        ("hsl", np.eye(3), {"laplacian": "star", "self_loops": False}, InvalidOption, "with laplacian"),
        ("hsl", np.ones((3, 1)), LIGHT, InvalidProblem, "sample_weight of 0 or at least 1"),
        ("cca", [[1e-60, 0], [0, 1], [0, 1]], {}, InvalidProblem, "Scale them"),
    ],
)
def test_bad_values_and_options(kind, name, labels, options, error, match):
    with pytest.raises(error, match=match):
        getattr(targets, name)(kind(labels), **options)
