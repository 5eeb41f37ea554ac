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

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from linspec.algebra.small_matrices import EPS, canonical_rotation, whitening
from linspec.arrays import Array, HostArray, to_host
from linspec.errors import InvalidProblem, NonFiniteData, UnsupportedData
from linspec.frames import check_order
from linspec.moments.moments import Moments
from linspec.operators import as_operator

__all__ = [
    "CCAScore",
    "captured",
    "componentwise",
    "cosines",
    "paired_views",
    "score_variates",
    "score_views",
    "single_or_pair",
]


class _Score(NamedTuple):
    correlations: HostArray
    total: float


class CCAScore(_Score):
    """The correlation that canonical weights capture on some rows: a named tuple of correlations and total.

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

    rows: int = 0

    def __new__(cls, correlations: HostArray, total: float, rows: int = 0) -> Self:
        """Create a tuple of two values, with `rows` as an attribute."""
        score = super().__new__(cls, correlations, total)
        score.rows = rows
        return score

    def __getnewargs__(self) -> tuple[HostArray, float, int]:  # what pickle hands to __new__
        return (*self, self.rows)

    def _replace(self, **fields: Any) -> Self:
        """Return the score with some values replaced."""
        return type(self)(**{**self._asdict(), "rows": self.rows, **fields})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, tuple):
            return NotImplemented
        return (
            len(other) == 2 and np.array_equal(self.correlations, other[0]) and bool(self.total == other[1])
        )

    def __ne__(self, other: object) -> bool:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    __hash__ = None  # type: ignore[assignment]  # arrays have none

    def __repr__(self) -> str:
        return f"CCAScore(correlations={self.correlations!r}, total={self.total!r}, rows={self.rows})"


def score_variates(P: Array, Q: Array, *, centered: bool) -> CCAScore:
    """Compute the correlations of two blocks of variates, column by column and in total.

    Parameters
    ----------
    P, Q : array of shape (n, k)
    centered : bool
        Whether means were subtracted. A variate that does not vary then has correlation 0.

    Returns
    -------
    CCAScore
        The correlation of column i of P with column i of Q for each i, the total correlation captured, and the number
        of rows n.

    Raises
    ------
    InvalidProblem
        If the blocks have no rows, or different numbers of rows.
    NonFiniteData
        If entries of the blocks are not finite.
    UnsupportedData
        If the blocks are in different libraries or on different devices.
    """
    joint, k = _joint(P, Q), P.shape[1]
    G, sums, rows = joint.gram, joint.sums, joint.rows
    if not np.isfinite(G).all():
        sides = [name for name, part in (("X", G[:k, :k]), ("Y", G[k:, k:])) if not np.isfinite(part).all()]
        raise NonFiniteData(
            f"the variates of {' and '.join(sides) or 'X and Y'} must be finite for a score; some are NaN, infinite "
            "or overflow. Drop or impute such rows."
        )
    squares = np.diag(G).copy()
    if centered:
        still = squares - sums**2 / rows <= max(rows * EPS, 16 * joint.eps**2) * squares
        G = G * np.outer(~still, ~still)
    found = componentwise(G, k)
    return CCAScore(found, captured(G, k, cut=joint.eps), rows)


def score_views(solution: Any, X: Any, Y: Any, *, centered: bool, **beside: Any) -> CCAScore:
    """Compute the correlations of a solution's variates on rows of both views.

    Parameters
    ----------
    solution : Solution
        A solution whose method `transform` accepts both views.
    X, Y : data of shape (n, p), (n, q)
    centered : bool
        Whether the problem of the solution centres: see `score_variates`.
    **beside
        Further arguments of `transform`, such as confounds.

    Returns
    -------
    CCAScore
        The correlation of each pair of variates on these rows, the total correlation captured, and the number of rows.

    Raises
    ------
    InvalidProblem
        If a view is missing; otherwise as for `score_variates`.
    """
    if X is None or Y is None:
        raise InvalidProblem("score needs the rows of both views; got one. Pass X and Y.")
    P, Q = solution.transform(*paired_views(X, Y, **beside), **beside)
    return score_variates(P, Q, centered=centered)


def paired_views(X: Any, Y: Any, **beside: Any) -> tuple[Any, Any]:
    """Check that row labels are in the same order, and return the views as operators; None for a missing view.

    Parameters
    ----------
    X, Y : data of shape (n, p), (n, q), or None
    **beside
        Further data with a row for each row of the views, such as confounds.

    Raises
    ------
    InvalidProblem
        If two of the data have the same row labels in different orders.
    """
    check_order({"X": X, "Y": Y, **beside}, again=True)
    X, Y = (data if data is None else as_operator(data, name) for name, data in (("X", X), ("Y", Y)))
    return X, Y


def single_or_pair(found: list[Any], needs: str) -> Any:
    """Return the result for one view, or the pair of results for both, in a method with two optional views.

    Parameters
    ----------
    found : list
        One entry for each view that was passed.
    needs : str
        The error message if there was none, such as "transform needs X, Y or both".

    Returns
    -------
    object or tuple
        The only entry, or a tuple of both.

    Raises
    ------
    InvalidProblem
        If the list is empty.

    Examples
    --------
    >>> from linspec.families.cca import single_or_pair
    >>> single_or_pair(["of X"], "transform needs X, Y or both")
    'of X'
    >>> single_or_pair(["of X", "of Y"], "transform needs X, Y or both")
    ('of X', 'of Y')
    """
    if not found:
        raise InvalidProblem(f"{needs}; got neither.")
    return found[0] if len(found) == 1 else tuple(found)


@dataclass(frozen=True)
class _Joint:
    """Sums of two blocks of variates P and Q over their rows, on the host.

    `gram` is [P, Q]ᵀ[P, Q], and `sums` holds the column sums of [P, Q]. `rows` is the number of rows. `eps` is the
    relative rounding error of one number in the less precise of the two dtypes.
    """

    gram: HostArray
    sums: HostArray
    rows: int
    eps: float


def _joint(P: Array, Q: Array) -> _Joint:
    operators = [as_operator(V, "the variates") for V in (P, Q)]
    homes, dtypes = [A.home for A in operators], [A.dtype for A in operators]
    if homes[0] != homes[1]:
        raise UnsupportedData(
            f"X and Y must come from one library and device; got {homes[0]} and {homes[1]}. Move one of them."
        )
    if P.shape[0] != Q.shape[0]:
        raise InvalidProblem(f"X and Y must have equally many rows; got {P.shape[0]} and {Q.shape[0]}.")
    if P.shape[0] == 0:
        raise InvalidProblem("X and Y must have rows for a score; got none.")
    home, rows = homes[0].blocks, int(P.shape[0])
    eps = max(float(np.finfo(dtype).eps) for dtype in dtypes)
    if any(A.access == "blocks" for A in operators):  # rows in blocks stay where they are
        moments = Moments(
            *operators, center=False, form="dense", names=("the variates of X", "the variates of Y")
        )
        Gx, C, Gy = (to_host(block) for block in moments.dense())
        both = np.concatenate([to_host(part) for part in moments.columns.sums() if part is not None])
        return _Joint(np.block([[Gx, C], [C.T, Gy]]), both, rows, eps)
    columns = home.concat([home.place(P), home.place(Q)])
    with np.errstate(all="ignore"):  # entries that are not finite show in the sums
        G, sums = to_host(columns.T @ columns), to_host(home.xp.sum(columns, axis=0))
    return _Joint(G, sums, rows, eps)


def componentwise(G: HostArray, k: int) -> HostArray:
    """The correlation of each column of one block with the same column of the other, from G = [P, Q]ᵀ[P, Q]."""
    squares = np.diag(G)
    return cosines(squares[:k], squares[k:], np.diag(G[:k, k:]))


def cosines(xx: HostArray, yy: HostArray, xy: HostArray) -> HostArray:
    """Cosines xy / √(xx · yy) from inner products and squared lengths of columns; 0 for a zero column."""
    lengths = np.sqrt(np.maximum(xx, 0.0)) * np.sqrt(np.maximum(yy, 0.0))
    found = np.divide(xy, lengths, out=np.zeros_like(xy), where=lengths > 0)
    clipped: HostArray = np.clip(found, -1.0, 1.0)
    return clipped


def captured(G: HostArray, k: int, cut: float) -> float:
    """The sum of the canonical correlations of both blocks, from G = [P, Q]ᵀ[P, Q]."""
    Tx, Ty = whitening(G[:k, :k], cut), whitening(G[k:, k:], cut)
    if 0 in (Tx.shape[1], Ty.shape[1]):
        return 0.0
    Gx, C, Gy = Tx.T @ G[:k, :k] @ Tx, Tx.T @ G[:k, k:] @ Ty, Ty.T @ G[k:, k:] @ Ty
    return float(canonical_rotation(Gx, C, Gy, min(C.shape))[1].sum())
