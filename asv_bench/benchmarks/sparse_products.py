"""Sparse products by matrix, precision and block width: seconds, memory, and the accuracy of float32 sums."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from linspec.blocks import sparse_loops
from linspec.operators import SparseOperator

# name: rows, columns, stored entries
MATRICES = {"tall": (200_000, 10_000, 2_000_000), "dense-ish": (50_000, 10_000, 5_000_000)}
DTYPES = ["float32", "float64"]
WIDTHS = [1, 25, 100]


def random_matrix(rows: int, columns: int, entries: int, dtype: str) -> Any:
    """Make a CSR matrix whose entries lie at random."""
    rng = np.random.default_rng(0)
    places = rng.integers(rows, size=entries), rng.integers(columns, size=entries)
    data = rng.standard_normal(entries).astype(dtype)
    return sparse.csr_array(sparse.coo_array((data, places), shape=(rows, columns)))


class SparseProducts:
    """A V and Aᵀ U."""

    params = (list(MATRICES), DTYPES, WIDTHS)
    param_names = ("matrix", "dtype", "k")

    def setup(self, matrix: str, dtype: str, k: int) -> None:
        rng = np.random.default_rng(1)
        self.A = random_matrix(*MATRICES[matrix], dtype)
        self.operator, (n, p) = SparseOperator(self.A), self.A.shape
        self.V = rng.standard_normal((p, k)).astype(dtype)
        self.U = rng.standard_normal((n, k)).astype(dtype)

    def time_matmat(self, matrix: str, dtype: str, k: int) -> None:
        self.operator.matmat(self.V)

    def time_rmatmat(self, matrix: str, dtype: str, k: int) -> None:
        self.operator.rmatmat(self.U)

    def time_scipy(self, matrix: str, dtype: str, k: int) -> None:
        """SciPy's two products: what both are to be compared with."""
        self.A.T @ (self.A @ self.V)

    def peakmem_rmatmat(self, matrix: str, dtype: str, k: int) -> None:
        self.operator.rmatmat(self.U)


class SparseReadings:
    """A reading of a matrix before the iteration: its pairs of entries."""

    params = (list(MATRICES), [*DTYPES, "int16"])
    param_names = ("matrix", "dtype")

    def setup(self, matrix: str, dtype: str) -> None:
        self.A = random_matrix(*MATRICES[matrix], dtype)

    def time_pair_count(self, matrix: str, dtype: str) -> None:
        sparse_loops.pair_count(self.A)


class SparseGram:
    """XᵀX of word-count-like rows: few entries each, most columns never meet."""

    params = (DTYPES,)
    param_names = ("dtype",)

    def setup(self, dtype: str) -> None:
        self.A = random_matrix(100_000, 20_000, 500_000, dtype)

    def time_gram(self, dtype: str) -> None:
        sparse_loops.gram(self.A)


class Float32Sums:
    """Relative error of a float32 product with equal entries, whose rounding errors do not average out."""

    params = ([10_000, 200_000],)
    param_names = ("rows",)

    def track_rmatmat_error(self, rows: int) -> float:
        tenth = np.float32(0.1)
        A = sparse.csr_array(np.full((rows, 1), tenth))
        result = SparseOperator(A).rmatmat(np.ones((rows, 2), np.float32))
        exact = rows * float(tenth)
        return float(np.max(np.abs(result - exact)) / exact)
