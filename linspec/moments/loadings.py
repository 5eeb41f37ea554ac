"""Loadings: correlations of the columns with principal components or variates of the same rows.

Problem: weights show how a component is computed, and not which columns it is related to: columns that vary together
share one weight, and each of them is correlated with the component.
Method: structure correlations. One sweep multiplies the weights W by the Gram matrix S; the correlation of column j
with component i is (SW)ⱼᵢ / (‖aⱼ‖ ‖A wᵢ‖), with means and confound effects removed.
Source: Thompson 1984, Canonical Correlation Analysis, doi:10.4135/9781412983570 (structure coefficients).
Where we differ: no variate of n rows is made where the components are linear, and columns of any length and with means
that are large compared with their spread are scaled and shifted before they are squared.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from linspec.arrays import Array, HostArray, at_home, reciprocal, to_host
from linspec.errors import InvalidProblem, MissingCapability
from linspec.frames import check_order
from linspec.moments.moments import Moments
from linspec.moments.ways import settle
from linspec.operators import AdjustedOperator, as_operator
from linspec.operators.row_model import row_model, weights_and_confounds
from linspec.sweeps.first_look import look_at, ranged

__all__ = [
    "Structure",
    "column_loadings",
    "cross_loadings",
    "loadings",
    "mean_squares",
    "structure",
    "varying_columns",
]


@at_home
def loadings(
    data: Any, weights: Array, name: str, *, center: bool, confounds: Any = None, sample_weight: Any = None
) -> Array:
    """The correlation of each column with each variate, with the means and confounds of these rows removed.

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
        When the number of columns of the data is not the number of rows of the weights.
    MissingCapability
        When the lengths of the columns are not known.
    """
    moments, homes = _moments([(data, weights, name)], center, confounds, sample_weight)
    W = moments.home.place(weights)
    SW = moments.gram(W)
    lengths = _lengths(moments, [moments.home.xp.sum(W * SW, axis=0)])
    found = _correlations(moments, SW, lengths[0], lengths[1])
    return homes[0].home.place(found, homes[0].dtype)


def column_loadings(
    data: Any, variates: Array, name: str, *, center: bool, sample_weight: Any = None
) -> Array:
    """The correlation of each column with given variates of the same rows, which may be nonlinear functions.

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
        As for `loadings`.

    Raises
    ------
    InvalidProblem, MissingCapability
        As for `loadings`.
    """
    given = [(data, None, name), (variates, None, "the variates")]
    moments, homes = _moments(given, center, None, sample_weight)
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
    moments, homes = _moments(given, center, confounds, sample_weight)
    x, y = (moments.home.place(W) for W in weights)
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
        XᵀXΦ and YᵀYΨ.
    lengths : list of numpy.ndarray of shape (k,)
        The lengths ‖Xφᵢ‖ and ‖Yψᵢ‖ of the variates.
    """

    loadings: list[HostArray]
    gram_products: list[HostArray]
    lengths: list[HostArray]

    def products(self, i: int, weights: HostArray) -> HostArray:
        """Inner products of the variates of view i with the variates of other weights on the same rows."""
        found: HostArray = self.gram_products[i].T @ weights
        return found

    def cosines(self, i: int, weights: HostArray) -> HostArray:
        """The inner products of `products`, divided by the lengths of the variates of view i; 0 for length 0.

        They are cosines if the variates of the other weights have length 1 on these rows. Weights that were solved for
        on other rows, such as those of a draw, have about length 1.
        """
        products = self.products(i, weights)
        length = self.lengths[i][:, None]
        found: HostArray = np.divide(products, length, out=np.zeros_like(products), where=length > 0)
        return found


def structure(
    X: Any, Y: Any, weights: tuple[Array, Array], *, center: bool, confounds: Any, sample_weight: Any
) -> Structure:
    """Compute the loadings of both views, XᵀXΦ and YᵀYΨ, and the lengths of the variates in one sweep.

    The parameters are those of `loadings`, for both views.
    """
    given = [(X, weights[0], "X"), (Y, weights[1], "Y")]
    moments, _ = _moments(given, center, confounds, sample_weight)
    x, y = (moments.home.place(W) for W in weights)
    Sphi, _, _, Spsi = moments.products(x, y)
    xp = moments.home.xp
    squares = [xp.sum(x * Sphi, axis=0), xp.sum(y * Spsi, axis=0)]
    of_x, of_y, of_p, of_q = _lengths(moments, squares)
    found = _correlations(moments, Sphi, of_x, of_p), _correlations(moments, Spsi, of_y, of_q)
    return Structure(
        [to_host(A) for A in found],
        [to_host(S) for S in (Sphi, Spsi)],
        [np.sqrt(np.maximum(to_host(s), 0.0)) for s in squares],
    )


def mean_squares(correlations: Array, varying: HostArray) -> HostArray:
    """For each variate, the mean of its squared correlations with the columns that vary; 0 if no column varies."""
    squares = np.asarray(to_host(correlations), dtype=np.float64) ** 2
    return np.asarray(squares[varying].mean(axis=0) if varying.any() else np.zeros(squares.shape[1]))


def varying_columns(
    data: Any, name: str, *, center: bool, confounds: Any = None, sample_weight: Any = None
) -> HostArray:
    """Mask of the columns that vary, of shape (p,)."""
    moments, _ = _moments([(data, None, name)], center, confounds, sample_weight)
    return np.asarray(to_host(moments.diagonal()[0]) > 0)


def _moments(
    given: list[tuple[Any, Array | None, str]], center: bool, confounds: Any, sample_weight: Any
) -> tuple[Moments, list[Any]]:
    """Moments of the adjusted rows, and the operators of the views (the second is None for one view)."""
    operators = {name: as_operator(data, name) for data, _, name in given}
    rows = {name: data for data, _, name in given}
    check_order({**rows, "confounds": confounds, "sample_weight": sample_weight}, again=True)
    matrices = []
    for (_, weights, name), A in zip(given, operators.values(), strict=True):
        if weights is not None and A.shape[1] != weights.shape[0]:
            raise InvalidProblem(
                f"{name} must have the {weights.shape[0]} columns of the training data; got {A.shape[1]}."
            )
        matrices.append(A)
    w, Z = weights_and_confounds(sample_weight, confounds, min(A.shape[0] for A in matrices))
    model = row_model(center=center, weights=w, confounds=Z, about_means=True)
    matrices = [AdjustedOperator(A, model, settle) for A in matrices]
    named = zip(given, matrices, strict=True)
    matrices = [ranged(name, A, look_at(name, A)) for (_, _, name), A in named]
    names = (given[0][2], given[-1][2] if len(given) == 2 else "")
    moments = Moments(*matrices, form="implicit", names=names)
    if not moments.columns.exact:
        raise MissingCapability(
            f"loadings need the lengths of the columns, which are unknown for {matrices!r}. Pass the rows as an "
            "array, a sparse matrix, a file or slices."
        )
    return moments, [moments.X, moments.Y]


def _lengths(moments: Moments, of_variates: list[Array]) -> list[Array]:
    """Reciprocal lengths of the columns of each view, then of the variates; 0 for length 0."""
    xp, columns = moments.home.xp, [d for d in moments.diagonal() if d is not None]
    return [reciprocal(xp.sqrt(xp.where(d > 0, d, xp.zeros_like(d)))) for d in (*columns, *of_variates)]


def _correlations(moments: Moments, products: Array, rows: Array, columns: Array) -> Array:
    return moments.home.xp.clip(products * rows[:, None] * columns[None, :], -1.0, 1.0)
