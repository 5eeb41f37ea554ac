"""Passes over rows: what will replace `linspec.moments` (`new`) beside it (`old`), in one run."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

import linspec as ls

COLUMNS = [1, 10, 30]


def matrices() -> dict[str, Any]:
    """Large rows, dense and sparse, and small ones, on which the overhead shows."""
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((50_000, 200)) + 3
    return {
        "dense": dense,
        "float32": dense.astype(np.float32),
        "sparse": scipy.sparse.random_array((100_000, 5000), density=0.004, rng=rng, format="csr"),
        "small": rng.standard_normal((500, 18)),
        "small sparse": scipy.sparse.random_array((6000, 2000), density=0.02, rng=rng, format="csr"),
    }


class Passes:
    """One product AᵀA V, of a centred and of a plain matrix, and one centred Gram matrix of dense rows."""

    timeout = 120
    param_names = ("matrix", "center", "columns", "core")
    params = (list(matrices()), [False, True], COLUMNS, ["old", "new"])

    def setup(self, matrix: str, center: bool, columns: int, core: str) -> None:
        """Make the first pass, which learns the means."""
        try:
            from linspec._new.operators import as_operator
            from linspec.rows import Moments, Preprocessing
            from linspec.solving import adjusted
        except ImportError as error:
            raise NotImplementedError("this commit has no second core") from error
        A = matrices()[matrix]
        self.V = np.random.default_rng(1).standard_normal((A.shape[1], columns))
        if core == "old":
            self.product = adjusted(ls.SVD(A, k=1, center=center)).moments("implicit", (1, 1)).gram
        else:
            self.product = Moments([as_operator(A)], Preprocessing(center=center)).gram_product
        self.product(self.V)

    def time_product(self, matrix: str, center: bool, columns: int, core: str) -> None:
        """Time one product with the Gram matrix."""
        self.product(self.V)
