"""The correlation between canonical variates of rows, and that of columns with variates.

Problem: score the canonical variates of rows, usually of rows that were not fitted.
Method: variates take one product with each view (`linspec.affine_images`). Correlations come from the small Gram matrix
of the variates about the means of the training rows. The total is that of the best rotation of the variates (total
correlation captured), so it does not depend on how a solver turned its columns.
Source: Ma, Lu & Foster 2015, ICML, section 4.
Where we differ: the data are multiplied once, forward. Scores of given weights on the rows of a problem
(`linspec.metrics`) also multiply by the adjoint. Centred variates that do not vary over the rows have correlation 0.
A quotient of sums would differ, because the means are those of other rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from linspec.arrays import Array, HostArray, reciprocal, to_host
from linspec.block_algebra import EPS, canonical_rotation, whitening
from linspec.errors import InvalidProblem, MissingCapability, NonFiniteData, UnsupportedData
from linspec.large_means import without_large_means
from linspec.moments import Moments
from linspec.operators import AdjustedOperator, as_operator
from linspec.operators.rescaled import rescaled, times_power_of_two
from linspec.row_model import row_model, weights_and_confounds
from linspec.scaling import look_at
from linspec.sweeps.ways import settle

__all__ = [
    "CCAScore",
    "captured",
    "column_loadings",
    "componentwise",
    "cross_loadings",
    "loadings",
    "mean_squares",
    "one_or_both",
    "score_variates",
    "score_views",
    "structure",
    "varying_columns",
]


class _Score(NamedTuple):
    correlations: HostArray
    total: float


class CCAScore(_Score):
    """The correlation that canonical weights capture on some rows: a named tuple of correlations and total.

    Attributes
    ----------
    correlations : numpy.ndarray of shape (k,)
        The correlation of each pair of variates as given, between -1 and 1, float64. It is negative if a pair
        that fits the training rows has the opposite sign on these rows, and 0 if a variate does not vary.
    total : float
        Total correlation captured: the sum of the canonical correlations of the k variates of X with the k of Y, the
        largest sum that any rotation or scaling of them reaches. Between 0 and k.
    rows : int
        The number of rows scored. With hardly more rows than components, `total` is near k for any weights.
    """

    rows: int = 0

    def __new__(cls, correlations: HostArray, total: float, rows: int = 0) -> Self:
        """A tuple of two values; `rows` is an attribute of it."""
        score = super().__new__(cls, correlations, total)
        score.rows = rows
        return score

    def __getnewargs__(self) -> tuple[HostArray, float, int]:  # what pickle hands to __new__
        return (*self, self.rows)

    def _replace(self, **fields: Any) -> Self:
        """The same score with other values."""
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
    """The correlations of two blocks of variates.

    Parameters
    ----------
    P, Q : array of shape (n, k)
    centered : bool
        Whether means were subtracted. A variate that does not vary then has correlation 0.

    Raises
    ------
    InvalidProblem
        When they have no rows, or different numbers of rows.
    NonFiniteData
        When they are not finite.
    UnsupportedData
        When they are in different libraries or on different devices.
    """
    joint = _joint(P, Q)
    xp, k, rows = joint.home.xp, P.shape[1], joint.rows
    with np.errstate(all="ignore"):  # entries that are not finite show in the sums
        G, sums = to_host(joint.columns.T @ joint.columns), to_host(xp.sum(joint.columns, axis=0))
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
    """The correlations that the variates of a solution have on rows of both views.

    Parameters
    ----------
    solution : Solution
        With a method `transform` that takes both views.
    X, Y : data of shape (n, p), (n, q)
    centered : bool
        As for `score_variates`.
    **beside
        What else `transform` takes, such as confounds.

    Raises
    ------
    InvalidProblem
        A view is missing; else as for `score_variates`.
    """
    if X is None or Y is None:
        raise InvalidProblem("score needs the rows of both views; got one. Pass X and Y.")
    P, Q = solution.transform(X, Y, **beside)
    return score_variates(P, Q, centered=centered)


def one_or_both(found: list[Any], needs: str) -> Any:
    """What was made of one view, or a pair of what was made of both.

    Parameters
    ----------
    found : list
        One entry for each view that was given.
    needs : str
        What the message says where none was: "transform needs X, Y or both".
    """
    if not found:
        raise InvalidProblem(f"{needs}; got neither.")
    return found[0] if len(found) == 1 else tuple(found)


def loadings(
    data: Any, weights: Array, name: str, *, center: bool, confounds: Any = None, sample_weight: Any = None
) -> Array:
    """The correlation of each column with each variate, about the means of these rows and less their confounds.

    Parameters
    ----------
    data : data of shape (n, p)
    weights : array of shape (p, k)
    name : str
        The name of the data in messages.
    center : bool
        Whether means are subtracted.
    confounds : array of shape (n, c), optional
        Their effect in these rows is subtracted.
    sample_weight : array of shape (n,), optional
        How often each row counts.

    Returns
    -------
    array of shape (p, k)
        In the library, on the device and in the working dtype of the data (NumPy for sparse matrices, files and
        operators). 0 if a column or a variate does not vary.

    Raises
    ------
    InvalidProblem
        When the data have other columns than the weights have rows.
    MissingCapability
        When the lengths of the columns are not known.
    """
    moments, units, homes = _moments([(data, weights, name)], center, confounds, sample_weight)
    W = times_power_of_two(moments.home.place(weights), units[0])
    SW = moments.gram_matmat(W)
    lengths = _lengths(moments, [moments.home.xp.sum(W * SW, axis=0)])
    found = _correlations(moments, SW, lengths[0], lengths[1])
    return homes[0].home.place(found, homes[0].dtype)


def column_loadings(
    data: Any, variates: Array, name: str, *, center: bool, sample_weight: Any = None
) -> Array:
    """The correlation of each column with each of given variates of the same rows, which may be curved.

    Parameters
    ----------
    data : data of shape (n, p)
    variates : array of shape (n, k)
    name : str
        The name of the data in messages.
    center : bool
        Whether means are subtracted.
    sample_weight : array of shape (n,), optional
        How often each row counts.

    Returns
    -------
    array of shape (p, k)
        As of `loadings`.

    Raises
    ------
    InvalidProblem, MissingCapability
        As of `loadings`.
    """
    given = [(data, None, name), (variates, None, "the variates")]
    moments, _, homes = _moments(given, center, None, sample_weight)
    products = moments.products(None, moments.home.eye(int(variates.shape[1])))[1]
    found = _correlations(moments, products, *_lengths(moments, []))
    return homes[0].home.place(found, homes[0].dtype)


def cross_loadings(
    X: Any, Y: Any, weights: tuple[Array, Array], *, center: bool, confounds: Any, sample_weight: Any
) -> tuple[Array, Array]:
    """The correlation of each column of a view with each variate of the other view, in one sweep.

    Parameters and errors are those of `loadings`, for both views.

    Returns
    -------
    pair of arrays of shapes (p, k) and (q, k)
    """
    given = [(X, weights[0], "X"), (Y, weights[1], "Y")]
    moments, units, homes = _moments(given, center, confounds, sample_weight)
    x, y = (times_power_of_two(moments.home.place(W), u) for W, u in zip(weights, units, strict=True))
    Sphi, Cpsi, Cphi, Spsi = moments.products(x, y)
    xp = moments.home.xp
    of_x, of_y, of_p, of_q = _lengths(moments, [xp.sum(x * Sphi, axis=0), xp.sum(y * Spsi, axis=0)])
    found = _correlations(moments, Cpsi, of_x, of_q), _correlations(moments, Cphi, of_y, of_p)
    return homes[0].home.place(found[0], homes[0].dtype), homes[1].home.place(found[1], homes[1].dtype)


class Structure(NamedTuple):
    """Products of weights with the Gram matrices of some rows, for each view.

    Attributes
    ----------
    loadings : list of numpy.ndarray of shapes (p, k) and (q, k)
    gram_products : list of numpy.ndarray of shapes (p, k) and (q, k)
        XᵀXΦ and YᵀYΨ for columns that are divided by a power of two, `units`.
    lengths : list of numpy.ndarray of shape (k,)
        Of the variates.
    units : list of int
    """

    loadings: list[HostArray]
    gram_products: list[HostArray]
    lengths: list[HostArray]
    units: list[int]

    def products(self, i: int, weights: HostArray) -> HostArray:
        """Inner products of the variates of view i with those that other weights make of these rows."""
        found: HostArray = self.gram_products[i].T @ times_power_of_two(weights, self.units[i])
        return found

    def cosines(self, i: int, weights: HostArray) -> HostArray:
        """The same, with the variates of view i at length 1."""
        products = self.products(i, weights)
        length = self.lengths[i][:, None]
        found: HostArray = np.divide(products, length, out=np.zeros_like(products), where=length > 0)
        return found


def structure(
    X: Any, Y: Any, weights: tuple[Array, Array], *, center: bool, confounds: Any, sample_weight: Any
) -> Structure:
    """The loadings of both views, and the products that they come from, in one sweep. Parameters: see `loadings`."""
    given = [(X, weights[0], "X"), (Y, weights[1], "Y")]
    moments, units, _ = _moments(given, center, confounds, sample_weight)
    x, y = (times_power_of_two(moments.home.place(W), u) for W, u in zip(weights, units, strict=True))
    Sphi, _, _, Spsi = moments.products(x, y)
    xp = moments.home.xp
    squares = [xp.sum(x * Sphi, axis=0), xp.sum(y * Spsi, axis=0)]
    of_x, of_y, of_p, of_q = _lengths(moments, squares)
    found = _correlations(moments, Sphi, of_x, of_p), _correlations(moments, Spsi, of_y, of_q)
    return Structure(
        [to_host(A) for A in found],
        [to_host(S) for S in (Sphi, Spsi)],
        [np.sqrt(np.maximum(to_host(s), 0.0)) for s in squares],
        units,
    )


def mean_squares(correlations: Array, varying: HostArray) -> HostArray:
    """For each variate, the mean of its squared correlations with the columns that vary; 0 if no column varies."""
    squares = np.asarray(to_host(correlations), dtype=np.float64) ** 2
    return np.asarray(squares[varying].mean(axis=0) if varying.any() else np.zeros(squares.shape[1]))


def varying_columns(
    data: Any, name: str, *, center: bool, confounds: Any = None, sample_weight: Any = None
) -> HostArray:
    """Which columns vary, of shape (p,)."""
    moments, _, _ = _moments([(data, None, name)], center, confounds, sample_weight)
    return np.asarray(to_host(moments.diagonal()[0]) > 0)


def _moments(
    given: list[tuple[Any, Array | None, str]], center: bool, confounds: Any, sample_weight: Any
) -> tuple[Moments, list[int], list[Any]]:
    """Moments of rows with small means, the powers of two that divide them, and the matrices."""
    matrices, units = [], []
    for data, weights, name in given:
        A = as_operator(data, name)
        if weights is not None and A.shape[1] != weights.shape[0]:
            raise InvalidProblem(
                f"{name} must have the {weights.shape[0]} columns of the training data; got {A.shape[1]}."
            )
        A = without_large_means(A)[0] if center else A
        units.append(look_at(name, A).exponent(A.dtype))
        matrices.append(rescaled(A, units[-1]))
    w, Z = weights_and_confounds(sample_weight, confounds, min(A.shape[0] for A in matrices))
    if Z is not None or w is not None:
        model = row_model(center=center, weights=w, confounds=Z)
        matrices, center = [AdjustedOperator(A, model, settle) for A in matrices], False
    names = (given[0][2], given[-1][2] if len(given) == 2 else "")
    moments = Moments(*matrices, center=center, form="implicit", names=names)
    if not moments.exact_diagonal:
        raise MissingCapability(
            f"loadings need the lengths of the columns, which are unknown for {matrices!r}. Pass the rows as an "
            "array, a sparse matrix, a file or slices."
        )
    return moments, units, [moments.X, moments.Y]


def _lengths(moments: Moments, of_variates: list[Array]) -> list[Array]:
    """One over the lengths of the columns of each view, then over those of the variates; 0 for those of length 0."""
    xp, columns = moments.home.xp, [d for d in moments.diagonal() if d is not None]
    return [reciprocal(xp.sqrt(xp.where(d > 0, d, xp.zeros_like(d)))) for d in (*columns, *of_variates)]


def _correlations(moments: Moments, products: Array, rows: Array, columns: Array) -> Array:
    return moments.home.xp.clip(products * rows[:, None] * columns[None, :], -1.0, 1.0)


@dataclass(frozen=True)
class _Joint:
    """Both blocks side by side in float64, and the rounding of their products."""

    columns: Array
    home: Any
    rows: int
    eps: float


def _joint(P: Array, Q: Array) -> _Joint:
    homes, dtypes = [], []
    for V in (P, Q):
        A = as_operator(V, "the variates")
        homes.append(A.home)
        dtypes.append(A.dtype)
    if homes[0] != homes[1]:
        raise UnsupportedData(
            f"X and Y must come from one library and device; got {homes[0]} and {homes[1]}. Move one of them."
        )
    if P.shape[0] != Q.shape[0]:
        raise InvalidProblem(f"X and Y must have equally many rows; got {P.shape[0]} and {Q.shape[0]}.")
    if P.shape[0] == 0:
        raise InvalidProblem("X and Y must have rows for a score; got none.")
    home = homes[0].blocks
    eps = max(float(np.finfo(dtype).eps) for dtype in dtypes)
    return _Joint(home.concat([home.place(P), home.place(Q)]), home, int(P.shape[0]), eps)


def componentwise(G: HostArray, k: int) -> HostArray:
    """The correlation of each column of one block with the same of the other."""
    lengths = np.sqrt(np.maximum(np.diag(G), 0.0))
    products = lengths[:k] * lengths[k:]
    cross = np.diag(G[:k, k:])
    found = np.divide(cross, products, out=np.zeros(k), where=products > 0)
    clipped: HostArray = np.clip(found, -1.0, 1.0)
    return clipped


def captured(G: HostArray, k: int, cut: float) -> float:
    """The sum of the canonical correlations of both blocks."""
    Tx, Ty = whitening(G[:k, :k], cut), whitening(G[k:, k:], cut)
    if 0 in (Tx.shape[1], Ty.shape[1]):
        return 0.0
    Gx, C, Gy = Tx.T @ G[:k, :k] @ Tx, Tx.T @ G[:k, k:] @ Ty, Ty.T @ G[k:, k:] @ Ty
    return float(canonical_rotation(Gx, C, Gy, min(C.shape))[1].sum())
