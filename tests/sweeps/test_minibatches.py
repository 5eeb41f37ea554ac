"""Minibatches: every row once an epoch, the same rows of all matrices, and a place to go on from."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec.operators import as_operator
from linspec.solving.adjusting import adjusted
from linspec.sweeps import BlockOperator, Minibatches

N, P = 1000, 64
NUMBERED = np.arange(N)[:, None] + np.linspace(0.0, 0.5, P)
"""A row has its number in its first column."""


def numbers(rows):
    """Of the rows of a batch."""
    return np.rint(rows.dense()[:, 0]).astype(int)


def made(source, rng=0, **given):
    A = as_operator(source)
    return Minibatches([A, as_operator(2.0 * NUMBERED)], np.random.default_rng(rng), **given)


@pytest.fixture(params=["array", "sparse", "file", "blocks"])
def source(request, tmp_path):
    if request.param == "array":
        return NUMBERED
    if request.param == "sparse":
        return scipy.sparse.csr_array(NUMBERED)
    if request.param == "blocks":
        return BlockOperator(np.array_split(NUMBERED, 7))
    np.save(tmp_path / "a.npy", NUMBERED)
    return tmp_path / "a.npy"


@pytest.mark.parametrize(("chunk", "count"), [(100, 20), (1000, 70), (50, 200), (250, 250)])
def test_an_epoch_has_every_row_once_and_the_same_of_all_matrices(source, chunk, count):
    rows, seen = made(source, chunk=chunk), []
    while len(seen) < 2 * N:
        assert rows.epochs == rows.read / N
        X_I, Y_I = rows.batch(count)
        np.testing.assert_array_equal(2.0 * numbers(X_I), numbers(Y_I))
        assert count / 2 <= X_I.shape[0] < 1.5 * count
        seen.extend(numbers(X_I))
    assert len(seen) == 2 * N == rows.read
    assert sorted(seen[:N]) == sorted(seen[N:]) == list(range(N))
    assert seen[:N] != seen[N:]


def test_a_short_rest_of_an_epoch_is_left_out():
    rows = made(NUMBERED, chunk=300)  # 100 rows are left: less than half a chunk
    seen = np.concatenate([numbers(rows.batch(100)[0]) for _ in range(9)])
    assert len(np.unique(seen)) == 900
    assert rows.read == 900
    rows.batch(100)
    assert rows.read == 1200


def test_rows_of_files_come_one_by_one_where_that_is_wanted(tmp_path):
    np.save(tmp_path / "a.npy", NUMBERED)
    neighbours = []
    for in_runs in (True, False):
        minibatches = Minibatches(
            [as_operator(tmp_path / "a.npy")], np.random.default_rng(0), in_runs=in_runs
        )
        (rows,) = minibatches.load(500)
        neighbours.append(np.mean(np.diff(np.sort(numbers(rows))) == 1))
    assert neighbours[0] > 0.9 > 0.6 > neighbours[1]


def test_rows_with_weights_come_in_proportion_to_them():
    weights = np.where(np.arange(N) < N // 2, 3.0, 1.0)
    problem = adjusted(ls.LeastSquares(NUMBERED, np.ones(N), sample_weight=weights))
    rows = Minibatches([problem.A], np.random.default_rng(0), chunk=N)
    (A,) = rows.load()
    found = np.asarray(A.dense())
    gram = found.T @ found
    exact = (NUMBERED * weights[:, None]).T @ NUMBERED
    np.testing.assert_allclose(np.trace(gram) / np.trace(exact), 1.0, atol=0.05)
