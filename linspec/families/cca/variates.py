"""The correlation between canonical variates of rows.

Problem: score the canonical variates of rows, usually of rows that were not fitted.
Method: variates take one product with each view (`linspec.solving.new_rows`). Correlations come from the small Gram
matrix of the variates about the means of the training rows. The total is the sum after the best rotation of the
variates (total correlation captured), so it does not depend on the rotation that a solver returns.
Source: Ma, Lu & Foster 2015, ICML, section 4.
Where we differ: only one forward product is needed, while scores of given weights on the rows of a problem
(`linspec.metrics`) also need an adjoint product. Centred variates that do not vary over the rows have correlation 0.
Their quotient of sums is not 0, because the means are those of other rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec.arrays import HostArray, reciprocal, to_host
from linspec.errors import InvalidProblem
from linspec.linalg.small_matrices import EPS, whitening
from linspec.operators import as_operator
from linspec.solving.loadings import moments_of_rows
from linspec.studies.held_out.scores import still

__all__ = [
    "CCAScore",
    "captured",
    "componentwise",
    "cosines",
    "score_views",
]


@dataclass(frozen=True, eq=False)
class CCAScore:
    """The correlation that canonical weights capture on some rows. It unpacks into `correlations` and `total`.

    Attributes
    ----------
    correlations : numpy.ndarray of shape (k,)
        The correlation of each pair of variates, without rotation, between -1 and 1, float64. It is negative if a
        pair that fits the training rows has the opposite sign on these rows, and 0 if a variate does not vary.
    total : float
        Total correlation captured: the sum of the canonical correlations of the k variates of X with the k of Y, which
        is the largest sum over all rotations and scalings. Between 0 and k.
    rows : int
        The number of rows scored. With hardly more rows than components, `total` is near k for any weights.
    """

    correlations: HostArray
    total: float
    rows: int = 0

    def __iter__(self) -> Iterator[Any]:
        return iter((self.correlations, self.total))

    def __getitem__(self, i: int) -> Any:
        return (self.correlations, self.total)[i]


def score_views(solution: Any, X: Any, Y: Any, *, centered: bool, **beside: Any) -> CCAScore:
    """Compute the correlations of a solution's variates on rows of both views.

    Parameters
    ----------
    solution : Solution
        A solution whose method `transform` accepts both views.
    X, Y : data of shape (n, p), (n, q)
    centered : bool
        Whether the problem of the solution centres. A variate that does not vary then has correlation 0.
    **beside
        Further arguments of `transform`, such as confounds.

    Returns
    -------
    CCAScore
        The correlation of each pair of variates on these rows, the total correlation captured, and the number of rows.

    Raises
    ------
    InvalidProblem
        If a view is missing, or the views have no rows, or different numbers of rows.
    NonFiniteData
        If variates are not finite.
    UnsupportedData
        If the views are in different libraries or on different devices.
    """
    if X is None or Y is None:
        raise InvalidProblem("score needs the rows of both views; got one. Pass X and Y.")
    found = zip("XY", solution.transform(X, Y, **beside), strict=True)
    variates = {f"the variates of {name}": as_operator(V, f"the variates of {name}") for name, V in found}
    rows, others = (int(A.shape[0]) for A in variates.values())
    if rows != others:
        raise InvalidProblem(f"X and Y must have equally many rows; got {rows} and {others}.")
    if not rows:
        raise InvalidProblem("X and Y must have rows for a score; got none.")
    eps = max(float(np.finfo(A.dtype).eps) for A in variates.values())
    moments = moments_of_rows(variates, center=False)
    G = np.block([[to_host(block) for block in row] for row in moments.gram()])
    means = np.concatenate([moments.fitted[i].average for i in (0, 1)])
    varying = ~still(np.diag(G), means, rows, rows, eps) | (not centered)
    G = G * np.outer(varying, varying)
    return CCAScore(componentwise(G), captured(G, eps), rows)


def componentwise(G: HostArray) -> HostArray:
    """The correlation of each column of P with the same column of Q, from G = [P, Q]ᵀ[P, Q]."""
    k, squares = len(G) // 2, np.diag(G)
    return cosines(squares[:k], squares[k:], np.diag(G[:k, k:]))


def cosines(xx: HostArray, yy: HostArray, xy: HostArray) -> HostArray:
    """Cosines xy / √(xx · yy) from inner products and squared lengths of columns; 0 for a zero column."""
    lengths = np.sqrt(np.maximum(xx, 0.0)) * np.sqrt(np.maximum(yy, 0.0))
    found: HostArray = np.clip(xy * reciprocal(lengths), -1.0, 1.0)
    return found


def captured(G: HostArray, cut: float = EPS) -> float:
    """The sum of the canonical correlations of P and Q, of equally many columns, from G = [P, Q]ᵀ[P, Q]."""
    k = len(G) // 2
    Tx, Ty = whitening(G[:k, :k], cut), whitening(G[k:, k:], cut)
    Gx, C, Gy = Tx.T @ G[:k, :k] @ Tx, Tx.T @ G[:k, k:] @ Ty, Ty.T @ G[k:, k:] @ Ty
    rho = np.linalg.svd(whitening(Gx).T @ C @ whitening(Gy), compute_uv=False)
    return float(np.clip(rho, 0.0, 1.0).sum())
