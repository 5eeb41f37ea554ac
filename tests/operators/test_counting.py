"""Rows and blocks count their own products: what a run says of a method that takes some rows at a time."""

from __future__ import annotations

import copy
import pickle
import sys
import threading
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec import as_operator
from linspec.operators import CountedOperator, HeldSketch, Ledger, SparseOperator, uncounted
from linspec.sweeps.minibatches import RandomRows

N, P, K = 31, 6, 3
RNG = np.random.default_rng(0)
M = RNG.standard_normal((N, P)) * (RNG.random((N, P)) < 0.6)
V, U = RNG.standard_normal((P, K)), RNG.standard_normal((N, 2))


def mapped(path):
    np.save(path / "rows.npy", M)
    return str(path / "rows.npy")


KINDS = {
    "array": lambda path: as_operator(M),
    "float32": lambda path: as_operator(M.astype(np.float32)),
    "integers": lambda path: as_operator((10 * M).astype(np.int16)),
    "file": lambda path: as_operator(mapped(path)),
    "sparse": lambda path: as_operator(scipy.sparse.csr_array(M)),
    "centred": lambda path: as_operator(scipy.sparse.csr_array(M)).centered(M.mean(axis=0)),
    "scaled": lambda path: 2 * as_operator(M),
}


def counts(ledger):
    return ledger.sweeps, ledger.columns, ledger.flops


def parts(A, size):
    return [A.rows(slice(start, start + size)) for start in range(0, A.shape[0], size)]


@pytest.fixture(params=KINDS)
def both(request, tmp_path):
    """Make two counted operators of one matrix, each with a ledger of its own."""
    return [CountedOperator(KINDS[request.param](tmp_path), Ledger()) for _ in range(2)]


@pytest.mark.parametrize("size", [1, 3, 7, N])
@pytest.mark.parametrize("loaded", [False, True])
def test_blocks_of_rows_count_as_much_as_all_rows(both, size, loaded):
    by_parts, whole = both
    images = []
    for start, part in zip(range(0, N, size), parts(by_parts, size), strict=True):
        part = part.loaded() if loaded else part
        images.append(part.matmat(V))
        part.rmatmat(U[start : start + size].astype(by_parts.dtype))
    image = whole.matmat(V)
    np.testing.assert_allclose(np.concatenate(images), image, rtol=1e-5, atol=1e-5)
    whole.rmatmat(U.astype(whole.dtype))
    assert (by_parts.ledger.columns, by_parts.ledger.flops) == (whole.ledger.columns, whole.ledger.flops)
    assert by_parts.ledger.columns == K + 2
    assert by_parts.ledger.sweeps == 1, "without rounding: a budget of one pass holds one sweep by parts"


def test_rows_of_rows_count_as_rows(both):
    by_parts, whole = both
    for chunk in parts(by_parts, 12):
        for batch in parts(chunk.loaded(), 5):
            batch.rmatmat(batch.matmat(V))
    whole.rmatmat(whole.matmat(V))
    assert counts(by_parts.ledger) == (1, 2 * K, whole.ledger.flops)


def test_rows_by_their_numbers_count_what_they_hold():
    A = scipy.sparse.csr_array(M)
    counted = CountedOperator(as_operator(A), Ledger())
    chosen = np.array([4, 4, 0, 30])
    rows = counted.rows(chosen)
    rows.matmat(V)
    assert counts(counted.ledger) == (4 / N, K * 4 / N, 2 * A[chosen].nnz * K)
    rows.dense()
    rows.centered(M.mean(axis=0)).matmat(V)
    (2 * rows).matmat(V)
    assert counts(counted.ledger) == (4 / N, K * 12 / N, 3 * 2 * A[chosen].nnz * K)
    counted.rows(slice(5, 5)).matmat(V)
    assert counted.ledger.columns == K * 12 / N


def test_rows_can_be_taken_out_of_their_counter():
    """Code that multiplies arrays records its products in the ledger of these rows."""
    counted = CountedOperator(as_operator(scipy.sparse.csr_array(M)), Ledger())
    rows, ledger = uncounted(counted.rows(slice(0, 8)))
    assert isinstance(rows, SparseOperator)
    assert rows.matrix.shape == (8, P)
    ledger.record(rows, K)
    assert counts(counted.ledger) == (8 / N, K * 8 / N, 2 * rows.nnz * K)
    ledger.record(rows, 0, flops=7.0)
    assert counts(counted.ledger) == (8 / N, K * 8 / N, 2 * rows.nnz * K + 7)


@pytest.mark.parametrize("kind", ["array", "sparse"])
def test_moments_and_sketches_of_rows_count_for_the_whole(kind, tmp_path):
    counted = CountedOperator(KINDS[kind](tmp_path), Ledger())
    rows = counted.rows(slice(0, 10))
    made = ls.Moments(rows, form="implicit")
    np.testing.assert_allclose(made.gram(V), M[:10].T @ (M[:10] @ V), rtol=1e-12, atol=1e-12)
    assert counts(counted.ledger) == (10 / N, 2 * K * 10 / N, 2 * rows.nnz * 2 * K)
    assert made.passes == 1, "of the rows"
    HeldSketch(P, 4, [(slice(0, P), RNG.standard_normal((P, 4)))], sparse=False).sketch(rows)
    assert counted.ledger.columns == pytest.approx((2 * K + 4) * 10 / N)
    assert counted.ledger.sweeps == 10 / N


@pytest.mark.parametrize("kind", ["array", "sparse"])
def test_the_adjoint_counts_on_the_same_ledger(kind, tmp_path):
    A = KINDS[kind](tmp_path)
    counted = CountedOperator(A, Ledger())
    np.testing.assert_allclose(counted.H.matmat(U), M.T @ U, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(counted.H.H.matmat(V), M @ V, rtol=1e-12, atol=1e-12)
    assert counts(counted.ledger) == (2, 2 + K, 2 * A.nnz * (2 + K))
    ls.Moments(counted.H, form="dense").dense()
    assert counts(counted.ledger) == (3, 2 + K + N, 2 * A.nnz * (2 + K + N))


# ---- streams ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("rows", [None, N])
def test_blocks_of_a_stream_count_their_products(make, rows):
    stream = as_operator(lambda: (make(M[i : i + 9]) for i in range(0, N, 9)), rows=rows)
    counted = CountedOperator(stream, Ledger())
    stored = N * P if make is np.asarray else np.count_nonzero(M)
    for sweep in (1, 2):  # in the first the number of rows is perhaps not known
        gram = sum(block.rmatmat(block.matmat(V)) for block in counted.blocks())
        np.testing.assert_allclose(gram, M.T @ (M @ V), rtol=1e-12, atol=1e-12)
        assert counts(counted.ledger) == (sweep, sweep * 2 * K, sweep * 2 * stored * 2 * K)


def test_rows_of_a_block_count_as_rows_of_the_stream():
    stream = as_operator(lambda: iter([M[:20], M[20:]]))
    counted = CountedOperator(stream, Ledger())
    for block in counted.blocks():
        for part in parts(block, 4):
            part.matmat(V)
    assert counts(counted.ledger) == (1, K, 2 * M.size * K)


# ---- runs ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Minibatches(ls.Solver):
    """A gradient method of another package, which knows nothing of ledgers."""

    batch: int = ls.option(5, "rows of a batch", kind=int, at_least=1)
    max_iterations: int = ls.limit_option(3, "epochs")

    def solve(self, problem, run):
        A, B, n = problem.A, problem.B, problem.A.shape[0]
        rows, x = RandomRows([A], run.rng), np.zeros((A.shape[1], B.shape[1]))
        while run.proceed(residual=1.0, current=lambda x=x: {"x": x}):
            left = n
            while left:
                chosen = rows.draw(self.batch)
                part, target = A.rows(chosen), B.rows(chosen).dense()
                x = x - 1e-3 * part.rmatmat(part.matmat(x) - target)
                left -= len(chosen)
        return run.finish(x=x)


@pytest.mark.parametrize("wrap", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("batch", [1, 4, 7])
@pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")
def test_a_minibatch_solver_of_others_shows_what_it_multiplies(wrap, batch):
    A, B = wrap(M), RNG.standard_normal((N, 2))
    found = ls.solve(ls.LeastSquares(A, B, ridge=1.0), Minibatches(batch=batch), rng=0)
    stored = A.nnz if scipy.sparse.issparse(A) else A.size
    epochs = np.arange(4)
    assert list(found.history["passes"]) == list(epochs)
    assert list(found.history["columns"]) == list(epochs * 2 * 2), "forward and adjoint, two right-hand sides"
    assert list(found.history["flops"]) == list(epochs * 2 * stored * 2 * 2)


@pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")
def test_a_pass_by_batches_fits_into_a_budget_of_its_own_size():
    """Thirds, sevenths and the like add up to one."""
    for n in (3, 7, 49, 1000):
        data = RNG.standard_normal((n, 2))
        problem = ls.LeastSquares(data, np.ones((n, 1)), ridge=1.0)
        found = ls.solve(problem, Minibatches(batch=1, max_iterations=2), rng=0)
        assert list(found.history["passes"]) == [0, 1, 2]


@dataclass(frozen=True, kw_only=True)
class OnHalfTheRows(ls.Solver):
    """Another solver on some rows."""

    def solve(self, problem, run):
        half = slice(0, problem.A.shape[0] // 2)
        part = ls.LeastSquares(problem.A.rows(half), problem.B.rows(half), problem.ridge)
        before = run.counts.columns
        found = run.within(part, ls.get_solver("cg", "least-squares")(form="implicit"), {"A": "A", "B": "B"})
        x = found["x"]
        run.proceed(residual=run.counts.columns - before, current=lambda: {"x": x})
        return run.finish(x=x)


@pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")
def test_a_part_that_works_on_rows_is_counted_once():
    B = RNG.standard_normal((N, 2))
    half = N // 2
    alone = ls.solve(ls.LeastSquares(M[:half], B[:half], ridge=1.0), "cg", form="implicit", rng=0)
    found = ls.solve(ls.LeastSquares(M, B, ridge=1.0), OnHalfTheRows(), rng=0)
    assert found.history["residual"][0] == alone.history["columns"][-1]


# ---- ledgers --------------------------------------------------------------------------------------------


def test_many_threads_enter_into_one_ledger():
    counted = CountedOperator(as_operator(M), Ledger())
    rows, times, own = counted.rows(slice(0, 10)), 300, []
    together = threading.Barrier(6)

    def work():
        together.wait()
        for _ in range(times):
            rows.matmat(V)
            counted.rows(slice(0, 1)).rmatmat(np.ones((1, 2)))
        own.append(counted.ledger.own_sweeps)
        together.wait()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    made = 6 * times
    assert counted.ledger.sweeps == (10 + made) / N
    assert counted.ledger.columns == made * (10 * K + 2) / N
    assert counted.ledger.flops == made * 2 * P * (10 * K + 2)
    assert own == [times / N] * 6, "each thread knows its own readings"


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))])
def test_counted_rows_are_copied_with_what_they_count_for(copied):
    counted = CountedOperator(as_operator(M), Ledger())
    rows = counted.rows(slice(0, 10))
    rows.matmat(V)
    again, part = copied((counted, rows))
    assert counts(again.ledger) == counts(counted.ledger)
    part.matmat(V)
    assert again.ledger.columns == 2 * counted.ledger.columns
    assert part.ledger.columns == 2 * K


def test_a_ledger_takes_over_another_to_the_last_bit():
    one, other = Ledger(), Ledger()
    counted = CountedOperator(as_operator(M), one)
    for i in range(N - 1):
        counted.rows(slice(i, i + 1)).matmat(V)
    other.take_over(one, sweeps=2.0)
    assert counts(other) == (2 + (N - 1) / N, K * (N - 1) / N, one.flops)
    last = CountedOperator(as_operator(M), other).rows(slice(N - 1, N))
    last.matmat(V)
    assert counts(other) == (3, K, 2 * M.size * K)
