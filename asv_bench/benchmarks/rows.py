"""Passes over rows in blocks: Gram matrices and products of preprocessed matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from benchmarks.base import attribute

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


class Grams:
    """The Gram matrix of all rows, preprocessed: a pass that learns the means, too."""

    timeout = 120
    param_names = ("matrix",)
    params = (["dense", "weights", "float32", "int8", "text"],)

    def setup(self, matrix: str) -> None:
        """Make the data."""
        rng = np.random.default_rng(0)
        if matrix == "text":
            self.A = scipy.sparse.random_array((40_000, 1500), density=0.02, rng=rng, format="csr")
        elif matrix == "int8":
            self.A = rng.integers(0, 5, (50_000, 200)).astype(np.int8)
        else:
            self.A = matrix_of("float32" if matrix == "float32" else "dense")
        self.w = rng.random(self.A.shape[0]) if matrix == "weights" else None
        self.time_gram(matrix)

    def time_gram(self, matrix: str) -> None:
        """Form it."""
        moments_of(self.A, self.w).gram()


def moments_of(A: Any, w: Any = None) -> Any:
    """Moments of a centred matrix."""
    pre = attribute("linspec.rows", "Preprocessing")(center=True, w=w)
    operator = attribute("linspec", "as_operator")(A).in_blocks()
    return attribute("linspec.rows", "Moments")([operator], pre)


class Passes:
    """One product AᵀA V with a centred matrix A, whose means are known."""

    timeout = 120
    param_names = ("matrix", "columns")
    params = (MATRICES, [1, 10])

    def setup(self, matrix: str, columns: int) -> None:
        """Make the first pass, which learns the means."""
        A = matrix_of(matrix)
        self.V = np.random.default_rng(1).standard_normal((A.shape[1], columns))
        self.product = moments_of(A).gram_product
        self.product(self.V)

    def time_product(self, matrix: str, columns: int) -> None:
        """Time one product with the Gram matrix."""
        self.product(self.V)
