"""Passes over rows that an engine holds: what arrays in memory give, with values that are sent and never changed."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from in_blocks import rows_of

from linspec.errors import InvalidProblem, UnsupportedData
from linspec.rows import Moments, Passes, Preprocessing
from linspec.workers import BlockOperator, InProcess

rng = np.random.default_rng(0)
n = 900
X = rng.standard_normal((n, 6)) * np.geomspace(10, 1, 6) + 3
Y = rng.standard_normal((n, 2)) + X[:, :2]
w, confounds = 3 * rng.random(n), rng.standard_normal((n, 2))
ASKED: list[dict[str, Any]] = [{}, {"center": True, "weights": w, "confounds": confounds, "scale": True}]


class Sent(InProcess):
    """An engine whose values and work are pickled at every step, and whose work is done twice, as after a loss."""

    def hold(self, values: Sequence[Any]) -> list[Any]:
        return [pickle.dumps(value) for value in values]

    def taken(self, handle: Any) -> Any:
        return pickle.loads(handle) if isinstance(handle, bytes) else handle

    def _done(self, work: Any, call: Any) -> Any:
        work, values = pickle.dumps(work), [self.taken(handle) for handle in call.handles]
        before = pickle.dumps(values)
        results = [pickle.dumps(pickle.loads(work)(call.number, *values)) for _ in range(2)]
        assert results[0] == results[1]
        assert pickle.dumps(values) == before
        return results[0]


def elsewhere(M: Any, edges: Sequence[int] = (0, 200, 201, 600, n), engine: Any = None) -> Any:
    engine = engine or Sent()
    blocks = BlockOperator(engine.hold([M[a:b] for a, b in pairwise(edges)]), engine)
    return blocks.in_blocks()


@pytest.fixture(params=[np.asarray, scipy.sparse.csr_array], ids=["dense", "sparse"])
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(params=ASKED, ids=["plain", "all"])
def both(request: pytest.FixtureRequest, kind: Any) -> tuple[Moments, Moments]:
    """Moments of the rows elsewhere, the second matrix cut in another way, and of the same rows here."""
    pre = Preprocessing.of(**request.param)
    there = [elsewhere(kind(X)), elsewhere(kind(Y), (0, 100, 350, n))]
    here = [rows_of(kind(X)), rows_of(kind(Y))]
    first, second = (Moments(rows, pre, sketch_rows=40) for rows in (there, here))
    return first, second


def close(one: Any, other: Any) -> bool:
    one, other = (x.toarray() if scipy.sparse.issparse(x) else np.asarray(x) for x in (one, other))
    return bool(np.abs(one - other).max() <= 1e-12 * np.abs(other).max())


def test_moments_are_those_of_the_rows_here(both: tuple[Moments, Moments]) -> None:
    V, U, tall = rng.standard_normal((6, 3)), rng.standard_normal((2, 3)), rng.standard_normal((n, 3))
    found = []
    for moments in both:
        products = moments.products(V, U)
        assert close(moments.products(V, None, onto=(1,))[0][1], products[0][1])
        assert close(moments.cross() @ U, products[1][0])
        step = tall.copy()
        operator = moments.operator(0)
        image = moments.scores(V)
        found.append([*products[0], *products[1], *moments.sketch(), *moments.residual(V, U)[0]])
        found[-1] += [
            *moments.long_step(V, step, np.ones(3)),
            step,
            operator.matmat(V),
            operator.rmatmat(tall),
        ]
        found[-1] += [np.concatenate([block.dense() for block in image.blocks()])]
        R = Moments(moments.operators, moments.pre).triangle()
        found[-1] += [R.T @ R, *moments.gram()[0]]
    assert both[0].passes.count == both[1].passes.count
    assert all(close(one, other) for one, other in zip(*found, strict=True))


def test_rows_of_this_process_are_sent(kind: Any) -> None:
    here, there = rows_of(kind(Y)), elsewhere(kind(X))
    for rows in ([there, here], [here, there]):
        (a, b), (_, c) = Moments(rows, Preprocessing(center=True)).gram()
        exact = np.hstack([X, Y] if rows[1] is here else [Y, X])
        G = np.block([[a, b], [b.T, c]])
        assert close(G, np.cov(exact.T, bias=True) * n)


def test_cells_of_groups(kind: Any) -> None:
    labels = rng.integers(0, 3, n)
    kinds = elsewhere(kind(X)), rows_of(kind(X))
    cells = [np.flatnonzero(labels == i) for i in range(3)]
    pre = Preprocessing.of(center=True, weights=w)
    there, here = (Moments([rows, rows_of(Y)], pre).cells(cells, n) for rows in kinds)
    assert all(close(one.gram, two.gram) for one, two in zip(there, here, strict=True))
    assert all(
        close(one.origin + one.mean, two.origin + two.mean) for one, two in zip(there, here, strict=True)
    )


def test_the_bits_are_those_of_the_blocks_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    V = rng.standard_normal((6, 3))

    def product(engine: Any) -> Any:
        return Moments([elsewhere(X, engine=engine)], Preprocessing(center=True)).gram_product(V)

    found = [product(Sent())]
    for threads in "125":
        monkeypatch.setenv("LINSPEC_NUM_THREADS", threads)
        found.append(product(InProcess()))
    assert all(np.array_equal(one, found[0]) for one in found)


def test_a_pass_ends_in_its_midst() -> None:
    class Late(Passes):
        def look(self) -> None:
            raise KeyError

    with pytest.raises(KeyError):
        Moments([elsewhere(X)], passes=Late()).gram()


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(InvalidProblem, match="equally many rows; got 900 and 899"):
        Moments([elsewhere(X), rows_of(Y[1:])]).gram()
    with pytest.raises(UnsupportedData, match="in one place; got InProcess, Sent"):
        Moments([elsewhere(X), elsewhere(Y, engine=InProcess())]).gram()
    with pytest.raises(InvalidProblem, match="sample_weight must have a number for each row"):
        Moments([elsewhere(X)], Preprocessing(w=w[1:])).gram()
    with pytest.raises(InvalidProblem, match="sample_weight must have a number for each row; got 901"):
        Moments([elsewhere(X)], Preprocessing(w=np.ones(n + 1))).gram()
