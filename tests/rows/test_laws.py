"""Sums over blocks equal NumPy's on the whole matrix, for every kind of data and every preprocessing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from backends import backends
from in_blocks import Sent, rows_of

from linspec.arrays import to_host
from linspec.rows import Moments, Passes, Preprocessing, row_gram
from linspec.workers import BlockOperator

rng = np.random.default_rng(0)
n = 1500
factors = rng.standard_normal((n, 4))
X = factors @ rng.standard_normal((4, 7)) + rng.standard_normal((n, 7)) + 5
X[:, 3] *= rng.random(n) < 0.3
X[:, 6] = 0.1  # a column that does not vary
Y = factors @ rng.standard_normal((4, 3)) + rng.standard_normal((n, 3)) - 2
labels = rng.integers(0, 3, n)
weights = 3 * rng.random(n)
weights[:400] = 0
confounds = np.column_stack([rng.standard_normal((n, 2)) + 3, np.ones(n)])
V, U, rows = rng.standard_normal((7, 2)), rng.standard_normal((3, 2)), rng.standard_normal((n, 2))


def cut(M: Any, heights: Sequence[int] = (370, 1, 0, 3, 626, 500)) -> Iterator[Any]:
    return (M[a:b] for a, b in pairwise(np.cumsum([0, *heights]).tolist()))


def workers(M: Any) -> Any:
    return BlockOperator([M[:400], M[400:401], M[401:]]).in_blocks()


def sent(M: Any) -> Any:
    engine = Sent()
    heights = (200, 1, 399, 900) if M.shape[1] == 7 else (100, 250, 1150)
    return BlockOperator(engine.hold(list(cut(M, heights))), engine).in_blocks()


def library(name: str) -> Callable[[Any], Any]:
    (backend,) = backends([name])

    def wrap(M: Any) -> Any:
        if backend.missing():
            pytest.skip(backend.missing())
        return backend.wrap(M)

    return wrap


csr = scipy.sparse.csr_array
KINDS: dict[str, Callable[[Any], Any]] = {
    "array": np.asarray,
    "columns": np.asfortranarray,
    "single": lambda M: M.astype(np.float32),
    "single, integers": lambda M: np.rint(5 * M).astype(np.int8),
    "csr": csr,
    "csc": scipy.sparse.csc_array,
    "coo": scipy.sparse.coo_matrix,
    "single csr": lambda M: csr(M.astype(np.float32)),
    "file": library("npy-file"),
    "slices": lambda M: lambda: cut(M),
    "sparse slices": lambda M: lambda: map(csr, cut(M)),
    "read once": cut,
    "products": library("scipy-operator"),
    "array-api-strict": library("array-api-strict"),
    "single array-api-strict-no-float64": lambda M: library("array-api-strict-no-float64")(
        M.astype(np.float32)
    ),
    "torch": library("torch"),
    "cupy": library("cupy"),
    "cupy csr": library("cupyx-csr"),
    "single cupy csr": lambda M: library("cupyx-csr")(M.astype(np.float32)),
    "workers": workers,
    "sparse on workers": lambda M: workers(csr(M)),
    "sent": sent,
    "sparse and sent": lambda M: sent(csr(M)),
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


class Given:
    """Two matrices of a kind, and what NumPy makes of them."""

    def __init__(self, kind: str, asked: dict[str, Any]) -> None:
        self.kind, self.asked = kind, asked
        single, self.scaled = "single" in kind, "scale" in asked
        self.digits = 1e-5 if single else 1e-11
        self.X = X.astype(np.float32) if single else X
        self.X = np.rint(5 * X) if "integers" in kind else self.X
        self.Y = Y.astype(np.float32) if "no-float64" in kind else Y
        self.A, self.B = reference(self.X, asked), reference(self.Y, asked)

    def moments(self, passes: Passes | None = None) -> Moments:
        beside: Callable[[Any], Any] = np.asarray
        if self.kind in {"torch", "sent", "sparse and sent"} or "array-api-strict" in self.kind:
            beside = KINDS[self.kind]
        elif "cupy" in self.kind:
            beside = KINDS["cupy"]
        elif self.kind in {"columns", "csc"}:
            beside = csr
        both = [rows_of(KINDS[self.kind](X)), rows_of(beside(Y))]
        return Moments(both, Preprocessing.of(**self.asked), passes, sketch_rows=90)

    def reads(self, passes: int) -> None:
        """Skip data that cannot be read so often; deviations take a pass of their own."""
        if self.kind == "read once" and passes + self.scaled > 1:
            pytest.skip("is read once")

    def near(self, found: Any, expected: Any, more: float = 1.0) -> bool:
        found = to_host(found.toarray() if scipy.sparse.issparse(found) else found)
        return bool(np.abs(found - expected).max() <= more * self.digits * np.abs(expected).max())


@pytest.fixture(params=PREPROCESSING)
def asked(request: pytest.FixtureRequest) -> dict[str, Any]:
    return PREPROCESSING[request.param]


@pytest.fixture(params=KINDS)
def given(request: pytest.FixtureRequest, asked: dict[str, Any]) -> Given:
    return Given(str(request.param), asked)


def placing(moments: Moments) -> Callable[[Any], Any]:
    return moments.operators[0].device.blocks.asarray


def test_gram_matrices_in_one_pass(given: Given) -> None:
    A, B, moments = given.A, given.B, given.moments()
    held = moments.gram()
    assert moments.passes.count == 1
    assert given.near(held[0][0], A.T @ A)
    assert given.near(held[0][1], A.T @ B)
    assert given.near(held[1][0], B.T @ A)
    assert given.near(held[1][1], B.T @ B)
    assert given.near(moments.squares(0), np.sum(A**2, axis=0))


def test_products_in_one_pass(given: Given) -> None:
    """The first pass learns means and slopes, the second knows them."""
    given.reads(1)
    A, B, moments = given.A, given.B, given.moments()
    asarray = placing(moments)
    for passes in range(1 + given.scaled, 2 if given.kind == "read once" else 3 + given.scaled):
        (AtAV, BtAV), (AtBU, BtBU) = moments.products(asarray(V), asarray(U))
        assert moments.passes.count == passes
        assert given.near(AtAV, A.T @ A @ V)
        assert given.near(BtAV, B.T @ A @ V)
        assert given.near(AtBU, A.T @ B @ U)
        assert given.near(BtBU, B.T @ B @ U)


@pytest.mark.parametrize("held", [None, "gram", "triangle"])
def test_a_cross_product_alone(given: Given, held: str | None) -> None:
    moments = given.moments()
    if held is not None:
        getattr(moments, held)()
    for _ in range(2):  # it is kept
        assert given.near(moments.cross(), given.A.T @ given.B)
    assert moments.passes.count == 1


@pytest.mark.parametrize("held", [None, "gram", "triangle"])
def test_products_onto_one_matrix(given: Given, held: str | None) -> None:
    given.reads(2)
    moments = given.moments()
    asarray = placing(moments)
    if held is not None:
        getattr(moments, held)()
    (none, BtAV), empty = moments.products(asarray(V), None, onto=(1,))
    before = moments.passes.columns
    _, (AtBU, other) = moments.products(None, asarray(U), onto=(0,))
    assert none is other is None
    assert empty == [None, None]
    assert moments.passes.columns - before == (0 if held else 2 * U.shape[1])
    assert given.near(BtAV, given.B.T @ given.A @ V)
    assert given.near(AtBU, given.A.T @ given.B @ U)


def test_a_triangle_in_one_pass(given: Given) -> None:
    moments = given.moments()
    R, both = moments.triangle(), np.hstack([given.A, given.B])
    assert moments.passes.count == 1
    assert given.near(R.T @ R, both.T @ both)


def test_the_preprocessed_matrix(given: Given) -> None:
    given.reads(2)
    moments = given.moments()
    operator, asarray = moments.operator(0), placing(moments)
    assert given.near(operator.matmat(asarray(V)), given.A @ V)
    assert given.near(operator.rmatmat(asarray(rows)), given.A.T @ rows)
    assert moments.passes.count == 2 + given.scaled
    assert given.near(operator.rmatmat(asarray(rows)), given.A.T @ rows)


@pytest.mark.parametrize(
    "kind", ["array", "single", "csr", "array-api-strict", "torch", "cupy", "cupy csr", "products"]
)
def test_inner_products_of_rows(kind: str, asked: dict[str, Any]) -> None:
    given = Given(kind, asked)
    assert given.near(row_gram(given.moments(), 0), given.A @ given.A.T)


def test_images_and_steps_of_a_bidiagonalisation(given: Given) -> None:
    given.reads(2)
    moments = given.moments()
    asarray = placing(moments)
    images = [to_host(block.dense()) for block in moments.scores(asarray(V)).blocks()]
    assert given.near(np.concatenate(images), given.A @ V)
    alpha, step = np.array([2.0, 0.5]), asarray(rows.copy())
    product, lengths = moments.long_step(asarray(V), step, alpha)
    wanted = given.A @ V - rows * alpha
    assert given.near(step, wanted)
    assert given.near(product, given.A.T @ wanted)
    assert given.near(lengths, np.linalg.norm(wanted, axis=0))


def test_passes_are_those_over_the_matrix_that_is_read_most(given: Given) -> None:
    given.reads(1)
    moments = given.moments()
    found = moments.gram_product(placing(moments)(V), 0)
    assert moments.passes.count == 1.0 + given.scaled
    assert moments.read == [moments.passes.count, 0.0]
    assert given.near(found, given.A.T @ given.A @ V)


def test_residuals_in_one_pass(given: Given) -> None:
    given.reads(1)
    moments = given.moments()
    asarray = placing(moments)
    products, squares = moments.residual(asarray(V), asarray(-U))
    R = given.A @ V - given.B @ U
    assert given.near(products[0], given.A.T @ R)
    assert given.near(products[1], given.B.T @ R)
    assert given.near(squares, np.sum(R**2, axis=0))


def test_a_sketch_keeps_lengths_and_rides_on_the_first_pass(given: Given) -> None:
    A, B, moments = given.A, given.B, given.moments()
    moments.gram()
    SA, SB = (to_host(each) for each in moments.sketch())
    assert moments.passes.count == 1
    for x in (V, V[::-1]):
        images = np.linalg.norm(np.hstack([A @ x, B @ U]), axis=0)
        sketched = np.linalg.norm(np.hstack([SA @ x, SB @ U]), axis=0)
        assert (abs(sketched / images - 1) < 0.5).all()
    # the sketch is linear: that of the preprocessed matrix is a combination of its rows
    Omega = np.linalg.lstsq(np.hstack([A, B]).T, np.hstack([SA, SB]).T, rcond=None)[0].T
    assert given.near(Omega @ A, SA, 10)


CELLS = {
    "apart": [np.flatnonzero(labels == label) for label in range(3)],
    "overlapping": [np.arange(700), np.arange(300, 900), np.arange(1000, n)],
}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "products"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cells", CELLS)
def test_sets_of_rows_in_one_pass(kind: str, cells: str, weighted: bool) -> None:
    """The moments of each set about its own means, and those of their columns alone where others need no more."""
    given, w = Given(kind, {"weights": weights} if weighted else {}), weights if weighted else np.ones(n)
    M, passes = np.hstack([given.X, given.Y]).astype(np.longdouble), Passes()
    made = given.moments(passes).cells(CELLS[cells], n, diagonal=weighted)
    assert passes.count == 1
    for cell, chosen in zip(made, CELLS[cells], strict=True):
        counted, count = w[chosen], w[chosen].sum()
        mean = counted @ M[chosen] / count
        exact = ((M[chosen] - mean).T * counted) @ (M[chosen] - mean)
        g = 7 if weighted else 10
        assert cell.count == pytest.approx(count, rel=1e-13)
        assert cell.rows == np.count_nonzero(counted)
        assert given.near(cell.origin + cell.mean, mean)
        assert cell.gram.shape == (g, 10)
        assert given.near(cell.gram, exact[:g])
        assert given.near(cell.squares, np.diag(exact))
        if weighted:
            assert given.near(cell.with_diagonal(slice(1, 3)).squares, np.diag(exact)[[*range(7), 8, 9]])
