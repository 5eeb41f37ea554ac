"""Sums over blocks equal NumPy's on the whole matrix, for every kind of data and every preprocessing.

The reference multiplies rows by the roots of their weights and projects constant and confounds out, in long double.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
from in_blocks import rows_of

from linspec.arrays import to_host
from linspec.rows import Moments, Preprocessing
from linspec.workers import BlockOperator

rng = np.random.default_rng(0)
n = 1500
factors = rng.standard_normal((n, 4))
X = factors @ rng.standard_normal((4, 7)) + rng.standard_normal((n, 7)) + 5
X[:, 3] *= rng.random(n) < 0.3
X[:, 6] = 0.1  # a column that does not vary
Y = factors @ rng.standard_normal((4, 3)) + rng.standard_normal((n, 3)) - 2
weights = 3 * rng.random(n)
weights[:400] = 0
confounds = np.column_stack([rng.standard_normal((n, 2)) + 3, np.ones(n)])
V, U, rows = rng.standard_normal((7, 2)), rng.standard_normal((3, 2)), rng.standard_normal((n, 2))


def slices(M: Any, wrap: Callable[[Any], Any] = np.asarray) -> Callable[[], Iterator[Any]]:
    return lambda: (wrap(M[i : i + 370]) for i in range(0, n, 370))


def strict(M: Any) -> Any:
    return pytest.importorskip("array_api_strict").asarray(M)


def tensor(M: Any) -> Any:
    return pytest.importorskip("torch").tensor(M)


def cupy_array(M: Any) -> Any:
    return pytest.importorskip("cupy").asarray(M)


def cupy_csr(M: Any) -> Any:
    sparse = pytest.importorskip("cupyx.scipy.sparse")
    return sparse.csr_matrix(scipy.sparse.csr_matrix(M))


def workers(M: Any) -> Any:
    return BlockOperator([M[:400], M[400:401], M[401:]]).in_blocks()


KINDS: dict[str, Callable[[Any], Any]] = {
    "array": np.asarray,
    "columns": np.asfortranarray,
    "single": lambda M: M.astype(np.float32),
    "csr": scipy.sparse.csr_array,
    "coo": scipy.sparse.coo_matrix,
    "single csr": lambda M: scipy.sparse.csr_array(M.astype(np.float32)),
    "slices": slices,
    "sparse slices": lambda M: slices(M, scipy.sparse.csr_array),
    "read once": lambda M: slices(M)(),
    "products": scipy.sparse.linalg.aslinearoperator,
    "array-api-strict": strict,
    "torch": tensor,
    "cupy": cupy_array,
    "cupy csr": cupy_csr,
    "single cupy csr": lambda M: cupy_csr(M.astype(np.float32)),
    "workers": workers,
    "sparse on workers": lambda M: workers(scipy.sparse.csr_array(M)),
}
PREPROCESSING: dict[str, dict[str, Any]] = {
    "plain": {},
    "center": {"center": True},
    "weights": {"weights": weights},
    "confounds": {"confounds": confounds},
    "confounds, center": {"confounds": confounds, "center": True},
    "scale": {"center": True, "scale": True},
    "all": {"center": True, "weights": weights, "confounds": confounds, "scale": True},
}


def reference(M: Any, asked: dict[str, Any]) -> Any:
    """√D times the preprocessed matrix."""
    w = asked.get("weights", np.ones(n))
    roots = np.sqrt(w)[:, None]
    A = np.asarray(M, np.longdouble) * roots
    taken = [np.ones((n, 1))] if asked.get("center") else []
    taken += [asked["confounds"]] if "confounds" in asked else []
    if taken:
        left, s, _ = np.linalg.svd(np.hstack(taken) * roots, full_matrices=False)
        Q = left[:, s > 1e-10 * s[0]]
        A = A - Q @ (Q.T @ A)
        A = A - Q @ (Q.T @ A)
    deviation = np.sqrt(np.sum(A**2, axis=0) / w.sum())
    live = deviation > 1e-12 * np.abs(M).max(axis=0)
    A = A * live / (np.where(live, deviation, 1.0) if asked.get("scale") else 1.0)
    return A.astype(np.float64)


def assert_close(found: Any, expected: Any, digits: float) -> None:
    found = to_host(found.toarray() if scipy.sparse.issparse(found) else found)
    assert np.abs(found - expected).max() <= digits * np.abs(expected).max()


@pytest.fixture(params=PREPROCESSING)
def asked(request: pytest.FixtureRequest) -> dict[str, Any]:
    return PREPROCESSING[request.param]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def stated(kind: str, asked: dict[str, Any]) -> tuple[Any, Any, float, Callable[[], Moments]]:
    """The reference matrices, the digits to ask for, and moments of the data."""
    single = "single" in kind
    beside = KINDS[kind] if kind in {"array-api-strict", "torch"} else np.asarray
    beside = cupy_array if "cupy" in kind else beside
    A = reference(X.astype(np.float32) if single else X, asked)

    def made() -> Moments:
        return Moments([rows_of(KINDS[kind](X)), rows_of(beside(Y))], Preprocessing.of(**asked))

    return A, reference(Y, asked), 1e-5 if single else 1e-11, made


def test_gram_matrices_in_one_pass(kind: str, asked: dict[str, Any]) -> None:
    A, B, digits, made = stated(kind, asked)
    moments = made()
    held = moments.gram()
    assert moments.passes.count == 1
    for found, expected in (
        (held[0][0], A.T @ A),
        (held[0][1], A.T @ B),
        (held[1][0], B.T @ A),
        (held[1][1], B.T @ B),
    ):
        assert_close(found, expected, digits)


def test_products_in_one_pass(kind: str, asked: dict[str, Any]) -> None:
    if kind == "read once" and "scale" in asked:
        pytest.skip("deviations take a pass of their own")
    A, B, digits, made = stated(kind, asked)
    moments = made()
    place = moments.operators[0].backend.blocks.place
    found = moments.products(place(V), place(U))
    assert moments.passes.count == (2 if "scale" in asked else 1)
    for product, expected in zip(
        found[0] + found[1], (A.T @ A @ V, B.T @ A @ V, A.T @ B @ U, B.T @ B @ U), strict=True
    ):
        assert_close(product, expected, digits)


@pytest.mark.parametrize("held", [None, "gram", "triangle"])
def test_a_cross_product_alone(kind: str, asked: dict[str, Any], held: str | None) -> None:
    A, B, digits, made = stated(kind, asked)
    moments = made()
    if held is not None:
        getattr(moments, held)()
    for _ in range(2):  # it is kept
        assert_close(moments.cross(), A.T @ B, digits)
    assert moments.passes.count == 1


@pytest.mark.parametrize("held", [None, "gram", "triangle"])
def test_products_onto_one_matrix(kind: str, asked: dict[str, Any], held: str | None) -> None:
    if kind == "read once":
        pytest.skip("two products take two passes")
    A, B, digits, made = stated(kind, asked)
    moments = made()
    place = moments.operators[0].backend.blocks.place
    if held is not None:
        getattr(moments, held)()
    (none, BtAV), empty = moments.products(place(V), None, onto=(1,))
    before = moments.passes.columns
    _, (AtBU, other) = moments.products(None, place(U), onto=(0,))
    assert none is other is None
    assert empty == [None, None]
    assert moments.passes.columns - before == (0 if held else 2 * U.shape[1])
    assert_close(BtAV, B.T @ A @ V, digits)
    assert_close(AtBU, A.T @ B @ U, digits)


def test_a_triangle_in_one_pass(kind: str, asked: dict[str, Any]) -> None:
    A, B, digits, made = stated(kind, asked)
    moments = made()
    R, both = moments.triangle(), np.hstack([A, B])
    assert moments.passes.count == 1
    assert_close(R.T @ R, both.T @ both, digits)


def test_the_preprocessed_matrix(kind: str, asked: dict[str, Any]) -> None:
    if kind == "read once":
        pytest.skip("a product and its transpose take two passes")
    A, _, digits, made = stated(kind, asked)
    operator = made().operator(0)
    place = operator.backend.blocks.place
    assert_close(operator.matmat(place(V)), A @ V, digits)
    assert_close(operator.rmatmat(place(rows)), A.T @ rows, digits)
    assert_close(operator.rmatmat(place(rows)), A.T @ rows, digits)


def test_passes_are_those_over_the_matrix_that_is_read_most(kind: str, asked: dict[str, Any]) -> None:
    if kind == "read once" and "scale" in asked:
        pytest.skip("deviations take a pass of their own")
    A, _, digits, made = stated(kind, asked)
    moments = made()
    found = moments.gram_product(moments.operators[0].backend.blocks.place(V), 0)
    assert moments.passes.count == (2.0 if "scale" in asked else 1.0)
    assert moments.read == [moments.passes.count, 0.0]
    assert_close(found, A.T @ A @ V, digits)


def test_residuals_in_one_pass(kind: str, asked: dict[str, Any]) -> None:
    if kind == "read once" and "scale" in asked:
        pytest.skip("deviations take a pass of their own")
    A, B, digits, made = stated(kind, asked)
    moments = made()
    place = moments.operators[0].backend.blocks.place
    products, squares = moments.residual(place(V), place(-U))
    R = A @ V - B @ U
    assert_close(products[0], A.T @ R, digits)
    assert_close(products[1], B.T @ R, digits)
    assert_close(squares, np.sum(R**2, axis=0), digits)


def test_a_sketch_keeps_lengths_and_rides_on_the_first_pass(kind: str, asked: dict[str, Any]) -> None:
    A, B, digits, made = stated(kind, asked)
    moments = made()
    moments.sketch_rows = 90
    moments.gram()
    SA, SB = (to_host(each) for each in moments.sketch())
    assert moments.passes.count == 1
    for x in (V, V[::-1]):
        images = np.linalg.norm(np.hstack([A @ x, B @ U]), axis=0)
        sketched = np.linalg.norm(np.hstack([SA @ x, SB @ U]), axis=0)
        assert (abs(sketched / images - 1) < 0.5).all()
    # the sketch is linear: that of the preprocessed matrix is a combination of its rows
    Omega = np.linalg.lstsq(np.hstack([A, B]).T, np.hstack([SA, SB]).T, rcond=None)[0].T
    assert_close(Omega @ A, SA, 10 * digits)
