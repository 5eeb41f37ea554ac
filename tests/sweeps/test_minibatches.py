"""Minibatches: every row once an epoch, the same rows of all matrices, and a place to go on from."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec.operators import CountedOperator, Ledger, as_operator
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


@pytest.mark.parametrize("made_before", [0, 1, 3, 5])
def test_from_a_place_the_rows_are_the_same(source, made_before):
    """In another process there is the place, and the state of the generator; here, of two with other seeds."""
    rng = np.random.default_rng(3)
    A = as_operator(source)
    first = Minibatches([A], rng, chunk=90)
    for _ in range(made_before):
        first.batch(30)
    place, state = first.place, rng.bit_generator.state
    expected = [numbers(first.batch(30)[0]) for _ in range(60)]
    other = np.random.default_rng(99)
    again = Minibatches([A], other, chunk=90)
    again.place, other.bit_generator.state = place, state
    for one in expected:
        np.testing.assert_array_equal(numbers(again.batch(30)[0]), one)
    assert again.read == first.read


def test_rows_that_are_read_again_are_counted_by_the_ledger_alone():
    ledgers = Ledger(), Ledger()
    first, again = (
        Minibatches([CountedOperator(as_operator(NUMBERED), ledger)], np.random.default_rng(0), chunk=100)
        for ledger in ledgers
    )
    assert first.due(40) == 100
    first.batch(40)
    assert first.due(40) == 0
    again.place = first.place
    assert ledgers[1].sweeps == 0  # until a batch asks for them
    assert again.due(40) == 100
    again.batch(40)
    assert ledgers[1].sweeps == 0.1
    assert again.read == first.read == 100
    for rows in (first, again):
        while rows.read == 100:
            rows.batch(40)
    assert [ledger.sweeps for ledger in ledgers] == [0.2, 0.2]


def test_a_place_at_the_end_of_a_chunk_reads_nothing_again():
    ledger = Ledger()
    rows = Minibatches([CountedOperator(as_operator(NUMBERED), ledger)], np.random.default_rng(0), chunk=100)
    rows.batch(100)
    rows.place = rows.place
    rows.batch(100)
    assert ledger.sweeps == 0.2


def test_chunks_are_what_was_asked_for_and_a_new_epoch_can_begin_at_once():
    rows = made(NUMBERED)
    (first, _), (second, _) = rows.load(400), rows.load(300)
    found = np.concatenate([numbers(first), numbers(second)])
    assert len(np.unique(found)) == 700
    rows.shuffle()
    later = np.concatenate([numbers(rows.load(300)[0]) for _ in range(3)])
    assert len(np.unique(later)) == 900
    assert rows.load(300)[0].shape[0] == 100  # the end of this one
    assert rows.read == 700 + N


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
