"""Linear discriminant classifiers: the likeliest class of rows, by their variates.

Problem: a discriminant subspace tells classes apart; which class is a new row in, and how sure is that?
Method: in every class the variates of rows are taken for normal, with a mean of the class and one covariance. The
posterior probabilities are then a softmax of linear functions of the row. With all discriminant directions this is the
classifier in the space of all columns, because what lies outside their span is as likely in one class as in another.
Source: Hastie, Tibshirani & Friedman 2009, The elements of statistical learning, section 4.3; for the ridge
Friedman 1989, doi:10.1080/01621459.1989.10478752.
Where we differ: the covariance is estimated in the subspace, by one sweep or by none. The ridge of the problem is part
of it: without the ridge, the rows that were fitted scatter less than others do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec.algebra.small_matrices import whitening
from linspec.arrays import Array, Home, HostArray, at_home, host_dtype, is_array, namespace, to_host
from linspec.errors import InvalidOption, InvalidProblem
from linspec.process.plurals import count_of
from linspec.solving.new_rows import NOTHING, NewRows
from linspec.sweeps.blocks import brought_here

__all__ = ["LinearClassifier", "pooled"]

DISTINCT = 1e3
"""Scatter within classes counts as zero below this multiple of the rounding of the scatter of all rows."""

OF_ROWS = 1e4
"""The same for the rounding of variates, whose squares are the scatter."""


@dataclass(frozen=True, kw_only=True)
class LinearClassifier:
    """Normal distributions of the variates, one for each class, with a common covariance.

    Attributes
    ----------
    classes : numpy.ndarray of shape (c,)
        The classes as they were given, in sorted order.
    priors : numpy.ndarray of shape (c,)
        The probability of each class before a row is seen. They add up to 1.
    means : numpy.ndarray of shape (c, k)
        The mean of each class's variates, float64.
    covariance : numpy.ndarray of shape (k, k)
        Of the variates within the classes, float64: the pooled scatter plus the ridge of the problem, divided by the
        number of rows. At ridge 0 it is the estimate of maximum likelihood.
    weights : array of shape (p, k)
        Of the solution.
    new_rows : NewRows
        The adjustment of rows before they are multiplied by the weights.

    Notes
    -----
    At ridge 0, with a direction for each class but one, probabilities are those of ``LinearDiscriminantAnalysis`` of
    scikit-learn.

    References
    ----------
    Hastie, Tibshirani & Friedman 2009, The elements of statistical learning, section 4.3.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(2, size=200)
    >>> X = rng.standard_normal((200, 5)) + 4.0 * np.eye(2, 5)[y]
    >>> solution = ls.solve(ls.Discriminant(X, ls.targets.lda(y)))
    >>> classifier = solution.classifier(X, y)
    >>> classifier.classes
    array([0, 1])
    >>> classifier.probabilities(X).shape
    (200, 2)
    """

    classes: HostArray
    priors: HostArray
    means: HostArray
    covariance: HostArray
    weights: Array
    new_rows: NewRows = NOTHING

    @at_home
    def decision(self, X: Any, *, confounds: Any = None) -> Array:
        """The discriminant functions: the logarithm of each class's prior times likelihood, up to a term of the row.

        Parameters
        ----------
        X : data of shape (n, p)
            Any kind of data that `linspec.as_operator` takes.
        confounds : array of shape (n, c), optional
            Those of the rows, if the problem had confounds.

        Returns
        -------
        array of shape (n, c)
            In the library, on the device and in the working dtype of the rows.

        Raises
        ------
        InvalidProblem
            When the rows do not have the columns of the training data.
        """
        Z = brought_here(self.new_rows.images(X, self.weights, "X", confounds))
        home = Home.of(Z)
        T = whitening(self.covariance)
        about = self.priors @ self.means
        M = (self.means - about) @ T
        offset = np.log(self.priors) - np.sum(M * M, axis=1) / 2
        blocks = home.blocks
        found = (blocks.place(Z) - blocks.place(about)[None, :]) @ blocks.place(T @ M.T)
        return home.place(found + blocks.place(offset)[None, :], host_dtype(Z))

    @at_home
    def log_probabilities(self, X: Any, *, confounds: Any = None) -> Array:
        """The logarithms of `probabilities`, which are exact where probabilities underflow; shape (n, c)."""
        D = self.decision(X, confounds=confounds)
        xp = namespace(D)
        D = D - xp.max(D, axis=1, keepdims=True)
        return D - xp.log(xp.sum(xp.exp(D), axis=1, keepdims=True))

    @at_home
    def probabilities(self, X: Any, *, confounds: Any = None) -> Array:
        """The posterior probability of each class for each row.

        Parameters
        ----------
        X : data of shape (n, p)
            Any kind of data that `linspec.as_operator` takes.
        confounds : array of shape (n, c), optional
            Those of the rows, if the problem had confounds.

        Returns
        -------
        array of shape (n, c)
            Rows add up to 1. In the library, on the device and in the working dtype of the rows.
        """
        found = self.log_probabilities(X, confounds=confounds)
        return namespace(found).exp(found)

    @at_home
    def predict(self, X: Any, *, confounds: Any = None) -> HostArray:
        """The likeliest class of each row.

        Parameters
        ----------
        X : data of shape (n, p)
            Any kind of data that `linspec.as_operator` takes.
        confounds : array of shape (n, c), optional
            Those of the rows, if the problem had confounds.

        Returns
        -------
        numpy.ndarray of shape (n,)
            Classes as they were given.
        """
        D = self.decision(X, confounds=confounds)
        found: HostArray = self.classes[to_host(namespace(D).argmax(D, axis=1))]
        return found

    def __repr__(self) -> str:
        directions = count_of(self.means.shape[1], "direction")
        return f"<LinearClassifier: {count_of(len(self.classes), 'class')}, {directions}>"


def pooled(
    Z: Array, codes: HostArray, count: int, weights: HostArray | None = None
) -> tuple[HostArray, HostArray, HostArray]:
    """Sizes and means of classes, and the scatter about these means.

    Parameters
    ----------
    Z : array of shape (n, k)
        Variates.
    codes : numpy.ndarray of shape (n,)
        The index of each row's class, -1 for rows without class, which are left out.
    count : int
        The number of classes, each with a row that counts.
    weights : numpy.ndarray of shape (n,), optional
        How often each row counts.

    Returns
    -------
    numpy.ndarray of shapes (count,), (count, k), (k, k)
        float64.
    """
    there = codes >= 0
    rows, codes = np.asarray(to_host(Z), dtype=np.float64)[there], codes[there]
    often = np.ones(len(codes)) if weights is None else weights[there]
    sizes = np.bincount(codes, often, minlength=count)
    sums = [np.bincount(codes, often * column, minlength=count) for column in rows.T]
    means = (np.stack(sums, axis=1) if sums else np.zeros((count, 0))) / sizes[:, None]
    rows = rows - means[codes]
    return sizes, means, rows.T @ (often[:, None] * rows)


def covariance_of(within: HostArray, means: HostArray, sizes: HostArray, least: float) -> HostArray:
    """The covariance within classes, after a check that there is one.

    Parameters
    ----------
    within : numpy.ndarray of shape (k, k)
        The scatter about the means of the classes, and the ridge.
    means : numpy.ndarray of shape (c, k)
    sizes : numpy.ndarray of shape (c,)
    least : float
        The share of the scatter of all rows below which the scatter within classes is rounding.

    Raises
    ------
    InvalidProblem
        When the rows of each class do not differ along some direction.
    """
    rows = float(sizes.sum())
    centred = (means - (sizes @ means) / rows) * np.sqrt(sizes)[:, None]
    T = whitening(within + centred.T @ centred)
    share = float(np.linalg.eigvalsh(T.T @ within @ T)[0]) if T.shape[1] else 1.0
    if share <= least or min(T.shape[1], whitening(within).shape[1]) < len(within):
        raise InvalidProblem(
            "the rows of each class must differ along every direction of the solution; the training rows do not: a "
            f"share of {max(share, 0.0):.0e} of their scatter is within classes, which is rounding. Solve with a ridge."
        )
    return within / rows


def prior_probabilities(priors: Any, sizes: HostArray) -> HostArray:
    """Priors that add up to 1: the frequencies, equal ones, or those given in the order of the classes."""
    if priors is None:
        priors = sizes
    if isinstance(priors, str) and priors == "uniform":
        return np.full(len(sizes), 1 / len(sizes))
    try:
        given = np.asarray(to_host(priors) if is_array(priors) else priors, dtype=np.float64)
    except (TypeError, ValueError):
        given = np.zeros(0)
    if given.shape != sizes.shape or not (np.isfinite(given).all() and given.min() > 0):
        raise InvalidOption(
            f'priors must be None, "uniform" or {len(sizes)} positive numbers, one for each class in sorted order; got '
            f"{priors!r}."
        )
    found: HostArray = given / given.sum()
    return found
