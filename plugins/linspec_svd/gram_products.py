"""Products with AᵀA, or with AAᵀ where that is cheaper, for iterations that return singular triplets.

Problem: eigenvectors v of AᵀA are right singular vectors, and one sweep multiplies by AᵀA. Sparse data with few rows
have short eigenvectors u of AAᵀ, and vᵀ = uᵀA/σ takes one sweep at the end.
Method: an iteration multiplies blocks by `GramProducts`, whichever of the two matrices they belong to, and hands over
its Ritz pairs. Products are multiplied by a power of two that brings the first of them near 1: fourth powers neither
overflow nor underflow, and nothing is rounded.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from linspec import Run, Status
from linspec.arrays import Array, HostArray, reciprocal, to_host
from linspec.operators import uncounted
from linspec_svd.ending import arrays_of


class GramProducts:
    """v ↦ AᵀA v, or u ↦ AAᵀ u of sparse data with few rows, in units in which products are near 1.

    Parameters
    ----------
    problem : SVD
    run : Run
    form : str
        "auto", "dense", "sparse" or "implicit": how `run.moments` computes products.
    expect : (int, int)
        The expected number of products, and the number of columns of each block that is multiplied.
    scale : float, default 0
        The power of two by which products are multiplied, if it is known.

    Attributes
    ----------
    of_rows : bool
        Whether vectors are those of AAᵀ.
    length : int
        The number of entries of a vector.
    sweep : float
        The passes of a product.
    after : float
        The passes over the data that computing the singular vectors of the other side takes at the end, 1 or 0.
    rounding : float
        The machine epsilon of products.
    scale : float
        The power of two; 0 before the first product.
    """

    def __init__(
        self,
        problem: Any,
        run: Run,
        form: str,
        expect: tuple[int, int],
        *,
        scale: float = 0.0,
    ) -> None:
        self.problem, self.run = problem, run
        self.moments = run.moments(form, expect)
        self.home, self.of_rows = self.moments.home, self.moments.cost.wide
        self.length = int(problem.A.shape[0 if self.of_rows else 1])
        self.sweep = 1.0 if self.of_rows else self.moments.cost.sweep
        self.after = float(self.of_rows or problem.left)
        self.rounding = float(np.finfo(problem.A.dtype).eps)
        self.scale = scale

    def __call__(self, V: Array) -> Array:
        """The product with a block."""
        W = self.moments.outer(V) if self.of_rows else self.moments.gram(V)
        if not self.scale:
            largest = float(to_host(self.home.xp.max(self.home.xp.abs(W))))
            exponent = int(np.frexp(largest)[1]) if 0 < largest < np.inf else 0
            self.scale = 2.0 ** -max(min(exponent, 1000), -1000)
        W *= self.scale
        return W

    def current(self, V: Array, theta: HostArray) -> dict[str, Any]:
        """Return right singular vectors Vh and singular values S of Ritz pairs, for callbacks.

        If the Ritz vectors are those of AAᵀ, the right vectors are their products with Aᵀ, divided by S. This product
        is not counted as a pass of the run.
        """
        S = np.sqrt(np.maximum(theta / (self.scale or 1.0), 0.0))
        if self.of_rows:
            bare, _ = uncounted(self.problem.A)
            V = bare.rmatmat(V) * reciprocal(self.home.place(S))[None, :]
        return {"Vh": V.T, "S": S}

    def answer(self, V: Array, theta: HostArray) -> tuple[dict[str, Any], list[tuple[Status, str]]]:
        """Return the singular triplets of Ritz pairs, and findings about pairs below rounding, as `arrays_of` does.

        The triplets are those that the problem's own test receives. They take `after` passes.
        """
        return arrays_of(self.problem, self.run, V, theta / (self.scale or 1.0), of_rows=self.of_rows)
