"""Rows and blocks count their own products: what a run says of a method that takes some rows at a time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec import as_operator
from linspec.iteration import Iterate
from linspec.operators import CountedOperator, Ledger
from linspec.solving import Solver

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


# ---- runs ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Minibatches(Solver):
    """A gradient method of another package, which knows nothing of counts."""

    batch: int = ls.option(5, "rows of a batch", kind=int, at_least=1)
    max_iterations: int = ls.limit_option(3, "epochs")

    def iterate(self, problem, moments, context, start):
        n, x = problem.A.shape[0], np.zeros(moments.widths)
        moments.settle()
        while True:
            yield Iterate(1.0, partial(dict, x=x))
            order = context.rng.permutation(n)
            for first in range(0, n, self.batch):
                A, B = (moments.minibatch(order[first : first + self.batch], i) for i in (0, 1))
                x = x - 1e-3 * A.adjoint_images(A.images(x) - B.images(np.eye(x.shape[1])))


@pytest.mark.parametrize("wrap", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("batch", [1, 4, 7])
@pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")
def test_a_minibatch_solver_of_others_shows_what_it_multiplies(wrap, batch):
    A, B = wrap(M), RNG.standard_normal((N, 2))
    found = ls.solve(ls.LeastSquares(A, B, ridge=1.0), Minibatches(batch=batch), rng=0)
    stored = A.nnz if scipy.sparse.issparse(A) else A.size
    epochs = np.arange(4)
    np.testing.assert_allclose(
        found.history["passes"], 1 + epochs, rtol=1e-12
    )  # one learns what there is to learn
    np.testing.assert_allclose(
        found.history["columns"], epochs * 2 * 3, rtol=1e-12
    )  # A x, its adjoint, and B
    assert list(found.history["flops"]) == list(epochs * 2 * 2 * (2 * stored + B.size))


@pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")
def test_a_pass_by_batches_fits_into_a_budget_of_its_own_size():
    """Thirds, sevenths and the like add up to one."""
    for n in (3, 7, 49, 1000):
        data = RNG.standard_normal((n, 2))
        problem = ls.LeastSquares(data, np.ones((n, 1)), ridge=1.0)
        found = ls.solve(problem, Minibatches(batch=1), rng=0, max_passes=4)
        assert (found.status, found.iterations) == (ls.Status.BUDGET, 2), (
            "to learn, two epochs, and the certificate"
        )


# ---- ledgers --------------------------------------------------------------------------------------------
