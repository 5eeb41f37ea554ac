"""Rows that come slice by slice, of one matrix or of two: answers, the number of readings, and the errors."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec import Moments, as_operator
from linspec.errors import InvalidProblem, MissingCapability, SweptOnce, UnsupportedData
from linspec.operators import StreamedOperator, streamed

RNG = np.random.default_rng(0)
N, P = 331, 9
A = RNG.standard_normal((N, P)) * np.geomspace(3, 0.2, P) + RNG.standard_normal(P)
SPARSE = scipy.sparse.random_array((N, P), density=0.3, rng=RNG, format="csr")
UNEQUAL = [1, 0, 150, 3, 0, 100, 77]


def slices(data: Any, heights: Any = UNEQUAL) -> Iterator[Any]:
    edges = np.cumsum([0, *heights])
    return (data[a:b, :] for a, b in pairwise(edges.tolist()))


def again(data: Any, heights: Any = UNEQUAL) -> Callable[[], Iterator[Any]]:
    return lambda: slices(data, heights)


@pytest.mark.parametrize("wrap", [np.asarray, scipy.sparse.csr_array])
def test_rows_stay_in_order_where_small_slices_meet_large_ones(
    wrap: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streamed, "GATHERED_BYTES", 1000)
    X = RNG.standard_normal((200, 3))
    rows = as_operator(again(wrap(X), [1, 2, 57, 1, 1, 78, 1, 39, 20]))
    np.testing.assert_array_equal(rows.matmat(np.eye(3)), X)
    assert [block.shape[0] for block in rows.blocks()][1] == 57


# ---- solvers ----------------------------------------------------------------------------------


def counting(data: Any, heights: Any = UNEQUAL) -> tuple[Iterator[Any], list[int]]:
    """Make slices, and a list that counts those that were taken."""
    taken = []

    def read() -> Iterator[Any]:
        for piece in slices(data, heights):
            taken.append(piece.shape[0])
            yield piece

    return read(), taken


ONE_PASS: dict[str, tuple[Any, str]] = {
    "svd/block-krylov": (lambda rows: ls.SVD(rows, 2), "direct, gram, lazy-spca"),
    "least-squares/lsqr": (lambda rows: ls.LeastSquares(rows, np.ones(N)), "cg, direct"),
    "cca/lobpcg": (lambda rows: ls.CCA(again(A), rows, 2), "direct, gram"),
}


@pytest.mark.parametrize("solver", ONE_PASS)
def test_who_reads_several_times_refuses_an_iterator_before_it_is_read(solver: str) -> None:
    (state, others), (rows, taken) = ONE_PASS[solver], counting(A, [1] * N)
    name = solver.partition("/")[2]
    with pytest.raises(SweptOnce, match=f"{name} reads its data.*callable.*take what was passed: {others}"):
        ls.solve(state(rows), solver)
    assert len(taken) == 1  # the slice that shows the number of columns


@pytest.mark.parametrize("solver", ["gram", "lazy-spca"])
def test_the_one_pass_solvers_take_one_pass(solver: str) -> None:
    rows, taken = counting(A)
    found = ls.solve(ls.SVD(rows, 3), solver, rng=0, max_passes=1)
    assert (found.passes, sum(taken)) == (1, N)
    np.testing.assert_allclose(found.S, np.linalg.svd(A).S[:3], rtol=1e-9)
    if solver == "gram":
        assert (found.residual_kind, found.converged) == ("from-gram", True)
    else:
        assert (found.residual_kind, found.status) == ("unavailable", ls.Status.APPROXIMATE)
        assert math.isnan(found.residual)
        assert "estimated residual" in found.message
        assert "read once" in found.message


def test_moments_that_hold_a_gram_matrix_stand_for_an_iterator_that_is_gone() -> None:
    moments = Moments(slices(A), center=True)
    moments.dense()
    for solver in ("gram", "block-krylov", "lazy-spca"):
        found = ls.solve(ls.SVD(moments, 3, center=True), solver, rng=0)
        assert (found.passes, found.residual_kind, found.converged) == (0, "from-gram", True)
    with pytest.raises(SweptOnce, match="has been read"):
        ls.solve(ls.SVD(moments, 3, center=True, left=True), "block-krylov")
    with pytest.raises(MissingCapability, match=r"direct needs the entries.*gram, "):
        ls.solve(ls.SVD(moments, 3, center=True), "direct")


# ---- errors -----------------------------------------------------------------------------------


def changing() -> Callable[[], Iterator[Any]]:
    heights = iter([101, 102, 103, 104])
    return lambda: slices(A, [next(heights)])


def emptied() -> Callable[[], Iterator[Any]]:
    one = slices(A)
    return lambda: one


BAD: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "one-dimensional": (lambda: [A[0]], InvalidProblem, r"slice 0 .* two dimensions.*x\[None, :\]"),
    "unequal widths": (lambda: [A[:5], A[5:, 1:]], InvalidProblem, "has 8 columns; the first has 9"),
    "mixed libraries": (lambda: [A, strict.asarray(A)], UnsupportedData, "array_api_strict.*numpy.*one kind"),
    "mixed kinds": (lambda: [A[:5], SPARSE], UnsupportedData, "is a sparse matrix.*; the first is an array"),
    "later complex": (lambda: [A, A * 1j], UnsupportedData, r"slice 1 \(from row 331\) must be real"),
    "list": (lambda: [[[1.0, 2.0]]], UnsupportedData, r"slice 0.*must be an array.*numpy\.asarray"),
    "empty": (list, InvalidProblem, "no slice that has any"),
}  # fmt: skip
CALLABLES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "array": (lambda: lambda: A, UnsupportedData, "must return an iterator of slices; got ndarray"),
    "one iterator": (emptied, InvalidProblem, r"must have 331 rows, .*gave 0\..*fresh iterator"),
    "other rows": (changing, InvalidProblem, r"must have 101 rows, .*gave 102\."),
    "few rows": (lambda: again(A[:1], [1]), InvalidProblem, "k must be between 1 and 1 for 1 rows"),
    "fewer declared": (lambda: StreamedOperator(slices(A), rows=300), InvalidProblem, r"300 rows, .*gave 331\."),
}  # fmt: skip


@pytest.mark.parametrize("case", [*BAD, *CALLABLES])
def test_bad_slices_and_what_gives_other_rows_are_refused_once_and_clearly(case: str) -> None:
    make, error, pattern = (BAD | CALLABLES)[case]
    for given in (iter(make()), lambda: iter(make())) if case in BAD else (make(),):
        with pytest.raises(error, match=pattern):
            ls.solve(ls.SVD(given, 2), "lazy-spca")


def test_rows_may_be_declared() -> None:
    assert as_operator(again(A), rows=N).shape == as_operator(A, rows=N).shape == (N, P)
    assert ls.solve(ls.SVD(StreamedOperator(slices(A), rows=N), 2), "gram").converged
    with pytest.raises(InvalidProblem, match="A has 331 rows; got rows=5"):
        as_operator(A, "A", rows=5)


def test_errors_of_a_generator_are_its_own() -> None:
    def broken() -> Iterator[Any]:
        yield A[:10]
        raise OSError("the disk is gone")

    problem = ls.SVD(broken(), 2)
    for again in (problem, ls.SVD(broken, 2)):
        with pytest.raises(OSError, match="the disk is gone"):
            ls.solve(again, "gram")
    with pytest.raises(SweptOnce, match="has been read"):
        ls.solve(problem, "gram")


# ---- two matrices from one source of pairs ----------------------------------------------------

PAIRED, Q, K = 431, 5, 3
SHARED = RNG.standard_normal((PAIRED, K)) * [3, 2, 1]
X = SHARED @ RNG.standard_normal((K, P)) + RNG.standard_normal((PAIRED, P)) + 2
Y = SHARED @ RNG.standard_normal((K, Q)) + RNG.standard_normal((PAIRED, Q)) - 1
PAIR_HEIGHTS = [1, 0, 150, 3, 0, 200, 77]


class Pairs:
    """A callable that counts how often it was called, how many of its iterators run at once, and what they give."""

    def __init__(self, x: Any = X, y: Any = Y, heights: Any = PAIR_HEIGHTS) -> None:
        self.x, self.y = x, y
        self.edges = np.cumsum([0, *heights]).tolist()
        self.calls = self.given = self.running = self.most = 0

    def __call__(self) -> Iterator[Any]:
        self.calls += 1
        return self.slices()

    def slices(self) -> Iterator[Any]:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            for a, b in pairwise(self.edges):
                self.given += 1
                yield self.x[a:b, :], self.y[a:b, :]
        finally:
            self.running -= 1


@pytest.fixture(params=["one-block", "many-blocks", "as-they-are"])
def gathered(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything with slices gathered into one block, into several, and used without a copy."""
    rows = {"one-block": 10**6, "many-blocks": 40, "as-they-are": 0}[request.param]
    monkeypatch.setattr(streamed, "GATHERED_BYTES", 8 * P * rows)


def canonical(x: Any, y: Any, w: Any = None) -> Any:
    """The canonical correlations of centred columns by orthonormal bases (Björck & Golub 1973)."""
    w = np.ones(len(x)) if w is None else w
    bases = [np.linalg.qr(np.sqrt(w)[:, None] * (M - np.average(M, axis=0, weights=w)))[0] for M in (x, y)]
    return np.linalg.svd(bases[0].T @ bases[1], compute_uv=False)[:K]


def solved(source: Any, **given: Any) -> Any:
    return ls.solve(ls.CCA(*ls.paired(source), k=K, **given), "gram")


MADE = {
    "dense": (X, Y, 1e-10),
    "sparse": (scipy.sparse.csr_array(X), scipy.sparse.csr_array(Y), 1e-10),
    "sparse beside dense": (scipy.sparse.csr_array(X), Y, 1e-10),
    "float32": (X.astype(np.float32), Y.astype(np.float32), 1e-5),
    "array-api-strict": (strict.asarray(X), strict.asarray(Y), 1e-10),
    "other units": (X * 1e50, Y * 1e-50, 1e-10),
}


@pytest.mark.parametrize("kind", MADE)
@pytest.mark.usefixtures("gathered")
def test_one_pass_over_both_reads_every_pair_once(kind: str) -> None:
    x, y, limit = MADE[kind]
    pairs, w = Pairs(x, y), RNG.uniform(0.5, 2, PAIRED)
    found = solved(pairs, sample_weight=w)
    assert pairs.calls == found.passes == 1
    assert pairs.given == len(PAIR_HEIGHTS)
    np.testing.assert_allclose(found.correlations, canonical(X, Y, w), atol=limit)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("form", ["implicit", "dense"])
@pytest.mark.usefixtures("gathered")
def test_an_iterative_solver_calls_once_a_pass(center: bool, form: str) -> None:
    pairs, stated = Pairs(), {"k": K, "ridge": 1e-3, "center": center}
    found = ls.solve(ls.CCA(*ls.paired(pairs), **stated), "lobpcg", rng=0, form=form)
    assert found.converged
    assert pairs.calls == found.passes
    assert pairs.most == 1
    plain = ls.solve(ls.CCA(X, Y, **stated), "gram")
    np.testing.assert_allclose(found.correlations, plain.correlations, rtol=1e-8)


@pytest.mark.usefixtures("gathered")
def test_an_iterator_of_pairs_is_read_once() -> None:
    pairs = Pairs()
    x, y = ls.paired(pairs.slices())
    assert x.readings == y.readings == 1
    found = ls.solve(ls.CCA(x, y, k=K), "gram")
    assert (found.passes, found.converged, pairs.given) == (1, True, len(PAIR_HEIGHTS))
    with pytest.raises(SweptOnce, match="X and Y have been read"):
        y.matmat(np.ones((Q, 1)))


@pytest.mark.usefixtures("gathered")
def test_one_half_alone() -> None:
    pairs = Pairs()
    x, y = ls.paired(pairs)
    U = RNG.standard_normal((PAIRED, 2))
    assert x.shape == (math.inf, P)
    np.testing.assert_array_equal(y.matmat(np.eye(Q)), Y)
    assert (x.shape, y.shape) == ((PAIRED, P), (PAIRED, Q))  # rows are known of both when one has been read
    np.testing.assert_array_equal(x.matmat(np.eye(P)), X)
    np.testing.assert_allclose(y.rmatmat(U), Y.T @ U, rtol=1e-12, atol=1e-12)
    assert (pairs.calls, pairs.most) == (3, 1)
    beside = ls.solve(ls.CCA(x, Y, k=K), "gram")
    np.testing.assert_allclose(beside.correlations, canonical(X, Y), atol=1e-10)
    x, y = ls.paired(Pairs(), rows=PAIRED)
    assert x.shape[0] == y.shape[0] == PAIRED


@pytest.mark.usefixtures("gathered")
def test_one_buffer_may_be_filled_again_and_again() -> None:
    def reused() -> Iterator[Any]:
        x, y = np.empty((20, P)), np.empty((20, Q))
        for a in range(0, 400, 20):
            x[:], y[:] = X[a : a + 20], Y[a : a + 20]
            yield x, y
            x[:] = y[:] = np.nan

    for source in (reused, reused()):
        np.testing.assert_allclose(solved(source).correlations, canonical(X[:400], Y[:400]), atol=1e-10)
    x, y = ls.paired(reused)
    np.testing.assert_array_equal(y.matmat(np.eye(Q)), Y[:400])
    np.testing.assert_array_equal(x.matmat(np.eye(P)), X[:400])


def test_pickle() -> None:
    problem = ls.CCA(*ls.paired(Pairs()), k=K)
    for twin in (pickle.loads(pickle.dumps(problem)), copy.deepcopy(problem)):  # our own
        found = ls.solve(twin, "gram")
        assert found.passes == 1
        np.testing.assert_allclose(found.correlations, canonical(X, Y), atol=1e-10)


def test_halves_of_a_pair_have_equally_many_rows() -> None:
    def unequal() -> Iterator[Any]:
        yield X[:100], Y[:100]
        yield X[:0], Y[:0]
        yield X[100:150], Y[100:149]

    with pytest.raises(InvalidProblem, match=r"pair 2 \(from row 100\) has 50 of X and 49 of Y"):
        solved(unequal)
    with pytest.raises(InvalidProblem, match=r"pair 0 \(from row 0\) has 9 of X and 0 of Y"):
        ls.paired(iter([(X[:9], Y[:0])]))


@pytest.mark.parametrize("given", [X, (X, Y, Y), None, {"X": X, "Y": Y}], ids=str)
def test_what_is_no_pair_is_refused(given: Any) -> None:
    with pytest.raises(UnsupportedData, match=r"must yield pairs \(x, y\) of slices; pair 0 is "):
        ls.paired(lambda: iter([given]))


@pytest.mark.parametrize("source", [Pairs(), Pairs().slices()], ids=["callable", "iterator"])
def test_pairs_that_are_passed_as_one_matrix(source: Any) -> None:
    for problem, missing in ((ls.CCA, "Y"), (ls.LeastSquares, "B"), (ls.Discriminant, "H")):
        with pytest.raises(InvalidProblem, match=rf"got no {missing}.*`linspec.paired`"):
            problem(source)
    with pytest.raises(UnsupportedData, match=r"got a tuple.*linspec.paired"):
        ls.SVD(source, K)
