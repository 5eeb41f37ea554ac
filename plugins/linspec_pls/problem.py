"""Directions of two views with the largest covariance: the problem, its answer and its certificate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

import linspec as ls
from linspec.arrays import Array, HostArray
from linspec.iteration import Certificate
from linspec.linalg import inner_products, leading_triplets, unit_columns
from linspec.rows import Moments
from linspec.solving import fewer_than_asked


@dataclass(frozen=True, kw_only=True, repr=False)
class PLSSolution(ls.LinearSolution, vector="pair"):
    """Leading singular triplets of XᵀY.

    Attributes
    ----------
    x_weights, y_weights : array of shape (p, k), (q, k)
        Left and right singular vectors, of length 1. If the problem scales, they belong to the scaled columns.
    singular_values : numpy.ndarray of shape (k,)
        In decreasing order. With centred columns, singular value i is n − 1 times the covariance of the i-th scores.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.standard_normal((50, 4)), rng.standard_normal((50, 3))
    >>> solution = ls.solve(ls.PLS(X, Y, k=2))
    >>> x_scores, y_scores = solution.transform(X, Y)
    >>> bool(np.allclose(np.sum(x_scores * y_scores, axis=0), solution.singular_values))
    True
    """

    x_weights: Array = ls.field(rows_of="X", leading=True, of_scaled=True)
    y_weights: Array = ls.field(rows_of="Y", leading=True, of_scaled=True)
    singular_values: HostArray = ls.field(value="singular value")


@dataclass(frozen=True, eq=False, repr=False)
class PLS(ls.Problem[PLSSolution]):
    """The k leading singular triplets of XᵀY: the directions of two views with the largest covariance.

    Parameters
    ----------
    X : data of shape (n, p)
    Y : data of shape (n, q)
    k : int
        The number of triplets, at most the rows and the columns of each view. If XᵀY has a lower numerical rank, fewer
        are returned.
    center : bool, default True
        Whether to centre the columns. Sparse data stay sparse.
    scale : bool, default False
        Whether to divide each column by its root mean square after means and confounds are subtracted; with `center`
        this is its standard deviation.
    sample_weight : array of shape (n,), optional
        How often each row counts: zero or more, and 0 leaves a row out. The row count n becomes their sum.
    confounds : array of shape (n, c) or (n,), optional
        Variables whose linear effect is subtracted from every column, together with the means if `center`.

    Notes
    -----
    Residual: the largest of ‖XᵀY v − σ u‖ and ‖YᵀX u − σ v‖ over the triplets (u, σ, v), divided by σ₁.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> shared = rng.standard_normal((100, 1))
    >>> X, Y = shared + 0.1 * rng.standard_normal((100, 4)), shared + 0.1 * rng.standard_normal((100, 3))
    >>> problem = ls.PLS(X, Y, k=1)
    >>> solution = ls.solve(problem)
    >>> solution.x_weights.shape, bool(np.all(solution.x_weights > 0.4))
    ((4, 1), True)
    """

    X: Any = ls.matrix("two views")
    Y: Any = ls.matrix("two views")
    k: Any = ls.count("singular triplets")
    center: bool = ls.flag(True)

    name: ClassVar[str] = "pls"

    def certify(self, moments: Moments, arrays: Mapping[str, Any], tol: float) -> Certificate:
        """Scale the vectors of a solver to length 1; compute their singular values, order, signs and residual."""
        device, y_device = (A.device.blocks for A in moments.operators)
        U, V = unit_columns(arrays["x_weights"], device), unit_columns(arrays["y_weights"], y_device)
        # σ is a product of X u and Y v. Below the rounding of this product the vectors are arbitrary.
        C = moments.crossed if all(A.readable and A.dtype == np.float64 for A in moments.operators) else None
        if C is not None:  # XᵀY
            CtU, CV = C.T @ U, C @ y_device.asarray(V)
            squares = [moments.fitted[i].squares.sum() for i in range(2)]
        else:
            (XtXU, CtU), (CV, YtYV) = moments.products(U, V)  # one pass, with C = XᵀY
            V, YtYV = device.asarray(V), device.asarray(YtYV)
            squares = [inner_products(W, M, device).max(initial=0.0) for W, M in ((U, XtXU), (V, YtYV))]
        V, CtU = device.asarray(V), device.asarray(CtU)
        least = moments.noise * float(np.sqrt(np.prod(squares)))
        U, V, CV, CtU, sigma = leading_triplets(U, V, CV, CtU, self.k, least, device)
        gaps = [
            *device.column_norms(CV - U * device.asarray(sigma)),
            *device.column_norms(CtU - V * device.asarray(sigma)),
        ]
        residual = float(max(gaps) / sigma[0]) if len(sigma) else 0.0
        fields = {
            "x_weights": self.X.device.asarray(U, self.X.dtype),
            "y_weights": self.Y.device.asarray(V, self.Y.dtype),
            "singular_values": sigma,
        }
        what = "singular values that can be distinguished from zero"
        notes = fewer_than_asked(len(sigma), self.k, what, least / sigma[0] if len(sigma) else 0.0)
        return Certificate(
            residual, notes, fields, "from-gram" if moments.holds or C is not None else "recomputed"
        )
