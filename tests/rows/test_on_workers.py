"""Passes over rows that an engine holds: the bits of arrays in memory, whoever works, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from in_blocks import Sent, rows_of

from linspec.errors import InvalidProblem, UnsupportedData
from linspec.rows import Moments, Passes, Preprocessing
from linspec.workers import BlockOperator, InProcess

rng = np.random.default_rng(0)
n = 900
X = rng.standard_normal((n, 6)) * np.geomspace(10, 1, 6) + 3
Y = rng.standard_normal((n, 2)) + X[:, :2]
w, confounds = 3 * rng.random(n), rng.standard_normal((n, 2))


def elsewhere(M: Any, edges: Sequence[int] = (0, 200, 201, 600, n), engine: Any = None) -> Any:
    engine = engine or Sent()
    return BlockOperator(engine.hold([M[a:b] for a, b in pairwise(edges)]), engine).in_blocks()


def test_sketches_and_passes_are_those_of_the_rows_here() -> None:
    pre = Preprocessing.of(center=True, weights=w, confounds=confounds, scale=True)
    there = Moments([elsewhere(X), elsewhere(Y, (0, 100, 350, n))], pre, sketch_rows=40)
    here = Moments([rows_of(X), rows_of(Y)], pre, sketch_rows=40)
    for one, other in zip(there.sketch(), here.sketch(), strict=True):
        assert np.abs(one - other).max() <= 1e-12 * np.abs(other).max()
    for moments in (there, here):
        moments.products(np.eye(6), np.eye(2))
    assert there.passes.count == here.passes.count


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
    for weights in (w[1:], np.ones(n + 1)):
        with pytest.raises(InvalidProblem, match="sample_weight must have a number for each row"):
            Moments([elsewhere(X)], Preprocessing(w=weights)).gram()
