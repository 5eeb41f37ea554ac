"""The rates of this machine, measured: what `linspec calibrate` does.

Each kernel runs several times on one core, on data that do not fit into the first caches, and its least time counts:
the first run starts threads and touches fresh memory. The clock is that of the processor for this thread, so that
other programs count little. Operations are counted as in the estimates of `linspec.cost`, so that a rate makes the
estimate of its kernel right.
"""

from __future__ import annotations

import datetime as dt

import numpy as np
import scipy.sparse

from linspec import cost
from linspec.blas_threads import one_blas_thread
from linspec.operators import sparse_kernels
from linspec.rates import KernelRates

ORDER, COLUMNS = 600, 150
"""The order of the dense matrices, and the columns of a tall one."""

SPARSE_SHAPE, EACH, BLOCK = (20_000, 5_000), 50, 20
"""Rows and columns of a sparse matrix, entries in each row, and the columns of the block that it multiplies."""


def measured() -> KernelRates:
    """Measure the rates; it takes some seconds."""
    with one_blas_thread(needed=True):
        dense, factor, cholesky = _of_dense()
        sparse, pairs = _of_sparse()
    today = dt.datetime.now(tz=dt.UTC).date().isoformat()
    return KernelRates(dense, factor, cholesky, sparse, pairs, date=today)


def _of_dense() -> tuple[float, float, float]:
    A = np.random.default_rng(0).standard_normal((ORDER, ORDER))
    S, tall = A @ A.T + ORDER * np.eye(ORDER), A[:, :COLUMNS] + 0.0
    eigen = cost.least_seconds(lambda: np.linalg.eigh(S))
    triangle = cost.least_seconds(lambda: np.linalg.qr(tall))
    return (
        2.0 * ORDER**3 / cost.least_seconds(lambda: A.T @ S),
        (cost.EIGEN * ORDER**3 + 4.0 * ORDER * COLUMNS**2) / (eigen + triangle),
        ORDER**3 / 3 / cost.least_seconds(lambda: np.linalg.cholesky(S)),
    )


def _of_sparse() -> tuple[float, float]:
    rng = np.random.default_rng(0)
    n, p = SPARSE_SHAPE
    starts = np.arange(0, n * EACH + 1, EACH)
    A = scipy.sparse.csr_array(
        (rng.random(n * EACH), rng.integers(0, p, n * EACH), starts), shape=SPARSE_SHAPE
    )
    A.sum_duplicates()
    V, few = rng.standard_normal((p, BLOCK)), A[: n // 4]
    # By the compiled loops that every thread runs: two operations for each entry and column, there and back.
    product = cost.least_seconds(lambda: A.T @ (A @ V))
    gram = cost.least_seconds(lambda: few.T @ few)
    return 4.0 * A.nnz * BLOCK / product, sparse_kernels.pair_count(few) / gram
