"""What a run counts of a method that takes some rows at a time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec.iteration import Iterate
from linspec.solving import Solver

N, P = 31, 6
RNG = np.random.default_rng(0)
M = RNG.standard_normal((N, P)) * (RNG.random((N, P)) < 0.6)


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
