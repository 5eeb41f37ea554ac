"""Two matrices from one source of pairs: how often it is read, what one half alone does, and what is refused."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec.errors import InvalidProblem, SweptOnce, UnsupportedData
from linspec.operators import streamed

RNG = np.random.default_rng(0)
N, P, Q, K = 431, 9, 5, 3
SHARED = RNG.standard_normal((N, K)) * [3, 2, 1]
X = SHARED @ RNG.standard_normal((K, P)) + RNG.standard_normal((N, P)) + 2
Y = SHARED @ RNG.standard_normal((K, Q)) + RNG.standard_normal((N, Q)) - 1
HEIGHTS = [1, 0, 150, 3, 0, 200, 77]


class Pairs:
    """A callable that counts how often it was called, how many of its iterators run at once, and what they give."""

    def __init__(self, x: Any = X, y: Any = Y, heights: Any = HEIGHTS) -> None:
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


@pytest.fixture(params=["one-block", "many-blocks", "as-they-are"], autouse=True)
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_one_pass_over_both_reads_every_pair_once(kind: str) -> None:
    x, y, limit = MADE[kind]
    pairs, w = Pairs(x, y), RNG.uniform(0.5, 2, N)
    found = solved(pairs, sample_weight=w)
    assert pairs.calls == found.passes == 1
    assert pairs.given == len(HEIGHTS)
    np.testing.assert_allclose(found.correlations, canonical(X, Y, w), atol=limit)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("form", ["implicit", "dense"])
def test_an_iterative_solver_calls_once_a_pass(center: bool, form: str) -> None:
    pairs, stated = Pairs(), {"k": K, "ridge": 1e-3, "center": center}
    found = ls.solve(ls.CCA(*ls.paired(pairs), **stated), "lobpcg", rng=0, form=form)
    assert found.converged
    assert pairs.calls == found.passes
    assert pairs.most == 1
    plain = ls.solve(ls.CCA(X, Y, **stated), "gram")
    np.testing.assert_allclose(found.correlations, plain.correlations, rtol=1e-8)


def test_an_iterator_of_pairs_is_read_once() -> None:
    pairs = Pairs()
    x, y = ls.paired(pairs.slices())
    assert x.sweeps == y.sweeps == 1
    found = ls.solve(ls.CCA(x, y, k=K), "gram")
    assert (found.passes, found.converged, pairs.given) == (1, True, len(HEIGHTS))
    np.testing.assert_allclose(found.correlations, canonical(X, Y), atol=1e-10)
    with pytest.raises(SweptOnce, match="X and Y have been read"):
        y.matmat(np.ones((Q, 1)))


def test_one_half_alone() -> None:
    pairs = Pairs()
    x, y = ls.paired(pairs)
    U = RNG.standard_normal((N, 2))
    assert x.shape == (math.inf, P)
    np.testing.assert_array_equal(y.matmat(np.eye(Q)), Y)
    assert (x.shape, y.shape) == ((N, P), (N, Q))  # rows are known of both when one has been read
    np.testing.assert_array_equal(x.matmat(np.eye(P)), X)
    np.testing.assert_allclose(y.rmatmat(U), Y.T @ U, rtol=1e-12, atol=1e-12)
    assert pairs.calls == 3
    assert pairs.most == 1
    found = ls.solve(ls.SVD(x, 2), "block-krylov", rng=0)
    np.testing.assert_allclose(found.S, np.linalg.svd(X, compute_uv=False)[:2], rtol=1e-9)
    beside = ls.solve(ls.CCA(x, Y, k=K), "gram")
    np.testing.assert_allclose(beside.correlations, canonical(X, Y), atol=1e-10)
    x, y = ls.paired(Pairs(), rows=N)
    assert x.shape[0] == y.shape[0] == N


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


class Again:
    """As `Pairs`, without a generator: it can be pickled."""

    def __call__(self) -> Iterator[Any]:
        return iter([(X[:100], Y[:100]), (X[100:], Y[100:])])


def test_pickle() -> None:
    problem = ls.CCA(*ls.paired(Again()), k=K)
    for twin in (pickle.loads(pickle.dumps(problem)), copy.deepcopy(problem)):  # our own
        found = ls.solve(twin, "gram")
        assert found.passes == 1
        np.testing.assert_allclose(found.correlations, canonical(X, Y), atol=1e-10)


# ---- what is refused --------------------------------------------------------------------------


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


def test_halves_that_are_not_read_by_turns_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed, "GATHERED_BYTES", 0)
    x, y = ls.paired(Pairs(heights=[100, 100, 100, 131]))
    of_x, of_y = x.blocks(), y.blocks()
    assert next(of_x).shape[0] == next(of_y).shape[0]
    with pytest.raises(InvalidProblem, match="by turns"):
        list(of_x)
    np.testing.assert_array_equal(y.matmat(np.eye(Q)), Y)


def test_a_source_that_gives_other_rows_than_before_or_declared_is_refused() -> None:
    heights = itertools.cycle([[100, 331], [100, 330]])
    x, _ = ls.paired(lambda: Pairs(heights=next(heights)).slices())
    x.matmat(np.ones((P, 1)))
    with pytest.raises(InvalidProblem, match=r"X and Y must have 431 rows, .*gave 430"):
        x.matmat(np.ones((P, 1)))
    with pytest.raises(InvalidProblem, match="must have 400 rows"):
        ls.paired(Pairs(), rows=400)[0].matmat(np.ones((P, 1)))


@pytest.mark.parametrize("source", [Pairs(), Pairs().slices()], ids=["callable", "iterator"])
def test_pairs_that_are_passed_as_one_matrix(source: Any) -> None:
    for problem, missing in ((ls.CCA, "Y"), (ls.LeastSquares, "B"), (ls.Discriminant, "H")):
        with pytest.raises(InvalidProblem, match=rf"got no {missing}.*`linspec.paired`"):
            problem(source)
    with pytest.raises(UnsupportedData, match=r"got a tuple.*linspec.paired"):
        ls.SVD(source, K)
