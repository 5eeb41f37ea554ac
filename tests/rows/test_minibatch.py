"""Rows that are chosen by number count as they do in a pass over all rows, also in runs of solvers of others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from in_blocks import rows_of

import linspec as ls
from linspec.iteration import Iterate
from linspec.rows import Moments, Passes, Preprocessing
from linspec.solving import Solver

rng = np.random.default_rng(0)
n, p = 90, 7
DENSE = rng.standard_normal((n, p)) + 3
SPARSE = scipy.sparse.random_array((n, p), density=0.4, rng=rng, format="csr")
W, Z = rng.random(n), rng.standard_normal((n, 2))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("data", [DENSE, SPARSE], ids=["dense", "sparse"])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("weights", [None, W], ids=["equal", "weights"])
@pytest.mark.parametrize("confounds", [None, Z], ids=["no confounds", "confounds"])
@pytest.mark.parametrize("scale", [False, True])
def test_minibatches_of_all_rows_sum_to_a_pass(
    dtype: Any, data: Any, center: bool, weights: Any, confounds: Any, scale: bool
) -> None:
    pre = Preprocessing.of(center=center, weights=weights, confounds=confounds, scale=scale)
    moments = Moments([rows_of(data.astype(dtype))], pre)
    V = rng.standard_normal((p, 2))
    whole, before = moments.gram_product(V), moments.passes.count
    order = rng.permutation(n)
    some, others = moments.minibatch(order[:40]), moments.minibatch(order[40:])
    assert moments.passes.count - before == pytest.approx(1.0)
    total = some.gram_product(V, slice(0, 11)) + some.gram_product(V, slice(11, 40)) + others.gram_product(V)
    bound = 1e-12 if dtype == np.float64 else 3e-6
    assert np.abs(total - whole).max() <= bound * np.abs(whole).max()
    each = np.array([np.trace(some.gram_product(np.eye(p), slice(i, i + 1))) for i in range(40)])
    assert np.abs(some.row_squares() - each).max() <= bound * each.max()
    images = some.images(np.eye(p), slice(0, 11))
    assert np.abs(images.T @ images - some.gram_product(np.eye(p), slice(0, 11))).max() <= bound * each.sum()
    assert np.abs(some.adjoint_images(images, slice(0, 11)) - images.T @ images).max() <= bound * each.sum()
    if confounds is None:
        squares = some.column_squares(slice(0, 11))[:, 0]
        assert np.abs(squares - np.diag(images.T @ images)).max() <= bound * each.sum()


def test_minibatches_of_a_file_decode_each_slab_about_once(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((6000, 2))
    views = [shared @ rng.standard_normal((2, 40)) + rng.standard_normal((6000, 40)) for _ in range(2)]
    for name, A in zip("xy", views, strict=True):
        zarr.create_array(tmp_path / f"{name}.zarr", shape=A.shape, chunks=(200, 40), dtype="f8")[:] = A
    X, Y = (ls.as_operator(str(tmp_path / f"{name}.zarr")) for name in "xy")
    decoded, Source = [], type(X.source)
    with pytest.MonkeyPatch.context() as patch:
        decode = Source._decoded
        patch.setattr(Source, "_decoded", lambda self, number: decoded.append(number) or decode(self, number))
        found = ls.solve(ls.CCA(X, Y, 2), "stochastic-appgrad", rng=0, max_passes=10)
    assert 0 < len(decoded) <= 2 * 2 * 30 * found.passes
    exact = ls.solve(ls.CCA(*views, 2), "gram").correlations
    assert np.allclose(found.correlations, exact, atol=0.01)


@dataclass(frozen=True, kw_only=True)
class Minibatches(Solver):
    """A gradient method of another package, which knows nothing of counts."""

    batch: int = ls.option(5, "rows of a batch", kind=int, at_least=1)
    max_iterations: int = ls.limit_option(3, "epochs")

    def iterate(self, problem: Any, moments: Moments, context: Any, start: Any) -> Iterator[Iterate]:
        rows, x = problem.A.shape[0], np.zeros(moments.widths)
        moments.fit()
        while True:
            yield Iterate(1.0, partial(dict, x=x))
            order = context.rng.permutation(rows)
            for first in range(0, rows, self.batch):
                A, B = (moments.minibatch(order[first : first + self.batch], i) for i in (0, 1))
                x = x - 1e-3 * A.adjoint_images(A.images(x) - B.images(np.eye(x.shape[1])))


@pytest.mark.parametrize("A", [DENSE, SPARSE], ids=["dense", "sparse"])
@pytest.mark.parametrize("batch", [1, 4, 7])
@pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")
def test_a_minibatch_solver_of_others_shows_what_it_multiplies(A: Any, batch: int) -> None:
    B = rng.standard_normal((n, 2))
    found = ls.solve(ls.LeastSquares(A, B, ridge=1.0), Minibatches(batch=batch), rng=0)
    stored, epochs = A.nnz if scipy.sparse.issparse(A) else A.size, np.arange(4)
    learnt = 1  # by the first pass
    np.testing.assert_allclose(found.history["passes"], learnt + epochs, rtol=1e-12)
    # A x, its adjoint, and B
    np.testing.assert_allclose(found.history["columns"], epochs * 2 * 3, rtol=1e-12)
    assert list(found.history["flops"]) == list(epochs * 2 * 2 * (2 * stored + B.size))


@pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")
@pytest.mark.parametrize("size", [3, 7, 49, 1000])
def test_a_pass_by_batches_fits_into_a_budget_of_its_own_size(size: int) -> None:
    """Thirds, sevenths and the like add up to one: one pass to learn, two epochs, and the certificate."""
    problem = ls.LeastSquares(rng.standard_normal((size, 2)), np.ones((size, 1)), ridge=1.0)
    found = ls.solve(problem, Minibatches(batch=1), rng=0, max_passes=4)
    assert (found.status, found.iterations) == (ls.Status.BUDGET, 2)
    assert found.passes <= 4


def test_shares_of_passes_add_up_to_no_more_than_the_budget() -> None:
    passes = Passes(most=4.0)
    for _ in range(48):
        passes.take(1 / 12)
    assert passes.count <= 4
