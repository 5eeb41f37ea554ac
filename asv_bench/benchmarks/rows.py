"""Passes over rows: what will replace `linspec.moments` (`new`) beside it (`old`), in one run."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from benchmarks.base import problem_class

MATRICES = ["dense", "float32", "sparse", "small", "small sparse"]


def matrix_of(name: str) -> Any:
    """Large rows, dense or sparse, or small ones, on which the overhead shows."""
    rng = np.random.default_rng(0)
    if name in {"dense", "float32"}:
        dense = rng.standard_normal((50_000, 200)) + 3
        return dense if name == "dense" else dense.astype(np.float32)
    if name == "small":
        return rng.standard_normal((500, 18))
    shape, density = ((100_000, 5000), 0.004) if name == "sparse" else ((6000, 2000), 0.02)
    return scipy.sparse.random_array(shape, density=density, rng=rng, format="csr")


class Passes:
    """One product AᵀA V with a centred matrix A, whose means are known."""

    timeout = 120
    param_names = ("matrix", "columns", "core")
    params = (MATRICES, [1, 10], ["old", "new"])

    def setup(self, matrix: str, columns: int, core: str) -> None:
        """Make the first pass, which learns the means."""
        try:
            from linspec._new.operators import as_operator
            from linspec.rows import Moments, Preprocessing
            from linspec.solving import adjusted
        except ImportError as error:
            raise NotImplementedError("this commit has no second core") from error
        A = matrix_of(matrix)
        self.V = np.random.default_rng(1).standard_normal((A.shape[1], columns))
        if core == "old":
            self.product = (
                adjusted(problem_class("svd")(A, k=1, center=True)).moments("implicit", (1, 1)).gram
            )
        else:
            self.product = Moments([as_operator(A)], Preprocessing(center=True)).gram_product
        self.product(self.V)

    def time_product(self, matrix: str, columns: int, core: str) -> None:
        """Time one product with the Gram matrix."""
        self.product(self.V)
