"""Linear discriminant classifiers: the most probable class of rows, computed from their variates.

Problem: a discriminant subspace separates classes; which class does a new row belong to, and with what probability?
Method: in every class the variates of rows are modelled as normal, with one mean per class and a common covariance. The
posterior probabilities are then a softmax of linear functions of the row. With all discriminant directions this is the
classifier in the space of all columns, because the part of a row outside their span is equally likely in all classes.
Source: Hastie, Tibshirani & Friedman 2009, The elements of statistical learning, section 4.3; for the ridge
Friedman 1989, doi:10.1080/01621459.1989.10478752.
Where we differ: the covariance is estimated in the subspace, by one sweep or by none. The ridge of the problem is added
to it: without the ridge, the fitted rows scatter less than other rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec.arrays import (
    HOST,
    Array,
    Home,
    HostArray,
    at_home,
    check_bare,
    host_dtype,
    is_array,
    namespace,
    to_host,
)
from linspec.errors import InvalidOption, InvalidProblem
from linspec.linalg import whitening
from linspec.process.plurals import count_of
from linspec.solving import score_of_predictions, table_of_rows
from linspec.solving.new_rows import NOTHING, NewRows
from linspec.workers import brought_here

__all__ = ["LinearClassifier", "pooled"]

DISTINCT = 1e3
"""Number of machine epsilons. Along a direction, the scatter within classes counts as zero if it is at most this
fraction of the scatter of all rows. The number applies if the solution holds the scatter within classes."""

OF_ROWS = 1e4
"""Number of machine epsilons, used in place of `DISTINCT` if the scatter is computed from the variates of rows.

The square of this number of epsilons is the limit for the scatter, because lengths of variates have a relative rounding
error of epsilon and the scatter is their square.
"""


@dataclass(frozen=True, kw_only=True)
class LinearClassifier:
    """Normal distributions of the variates, one for each class, with a common covariance.

    Attributes
    ----------
    classes : numpy.ndarray of shape (c,)
        The classes, with the labels of the training data, in sorted order.
    priors : numpy.ndarray of shape (c,)
        The probability of each class before a row is seen. They add up to 1.
    means : numpy.ndarray of shape (c, k)
        The mean of each class's variates, float64.
    covariance : numpy.ndarray of shape (k, k)
        The covariance of the variates within the classes, float64: the pooled scatter plus the ridge of the problem,
        divided by the number of rows. At ridge 0 it is the maximum likelihood estimate.
    weights : array of shape (p, k)
        The weights of the solution.
    new_rows : NewRows
        The adjustment of rows before they are multiplied by the weights.
    frame_library : str
        The library of the first frame among the training data, in which tables are made by default; "" if there was
        none.

    Notes
    -----
    At ridge 0, with c − 1 directions for c classes, the probabilities are those of ``LinearDiscriminantAnalysis`` of
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
    frame_library: str = ""

    @at_home
    def decision(self, X: Any, *, confounds: Any = None) -> Array:
        """The discriminant functions: log(prior times likelihood) of each class, up to a constant for each row.

        Parameters
        ----------
        X : data of shape (n, p)
            Any kind of data that `linspec.as_operator` accepts.
        confounds : array of shape (n, c), optional
            The confounds of these rows, if the problem had any.

        Returns
        -------
        array of shape (n, c)
            In the library, on the device and in the working dtype of the rows.

        Raises
        ------
        InvalidProblem
            If the rows do not have the columns of the training data.
        """
        Z = brought_here(self.new_rows.images(X, self.weights, "X", confounds))
        home = Home.of(Z)
        T = whitening(self.covariance)
        about = self.priors @ self.means
        M = (self.means - about) @ T
        offset = np.log(self.priors) - np.sum(M * M, axis=1) / 2
        blocks = home.blocks
        found = (blocks.place(Z) - blocks.place(about)) @ blocks.place(T @ M.T)
        return home.place(found + blocks.place(offset), host_dtype(Z))

    @at_home
    def log_probabilities(self, X: Any, *, confounds: Any = None) -> Array:
        """The logarithms of `probabilities`, shape (n, c); accurate even if probabilities underflow."""
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
            Any kind of data that `linspec.as_operator` accepts.
        confounds : array of shape (n, c), optional
            The confounds of these rows, if the problem had any.

        Returns
        -------
        array of shape (n, c)
            Rows add up to 1. In the library, on the device and in the working dtype of the rows.
        """
        found = self.log_probabilities(X, confounds=confounds)
        return namespace(found).exp(found)

    @at_home
    def predict(self, X: Any, *, confounds: Any = None) -> HostArray:
        """The most probable class of each row.

        Parameters
        ----------
        X : data of shape (n, p)
            Any kind of data that `linspec.as_operator` accepts.
        confounds : array of shape (n, c), optional
            The confounds of these rows, if the problem had any.

        Returns
        -------
        numpy.ndarray of shape (n,)
            Labels as in the training data.
        """
        D = self.decision(X, confounds=confounds)
        found: HostArray = self.classes[to_host(namespace(D).argmax(D, axis=1))]
        return found

    @at_home
    def score(self, X: Any, y: Any, *, confounds: Any = None, sample_weight: Any = None) -> float:
        """Compute the accuracy: the share of rows whose most probable class is their class.

        Parameters
        ----------
        X : data of shape (n, p)
        y : class vector of length n
            The class of each of these rows. Rows without a class are left out.
        confounds : array of shape (n, c), optional
            The confounds of these rows, if the problem had any.
        sample_weight : array of shape (n,), optional
            How often each row counts.

        Returns
        -------
        float
            Between 0 and 1.

        Raises
        ------
        InvalidProblem
            If the rows do not fit, or none of the classes is one of `classes`.
        """
        return score_of_predictions(self, X, y, confounds=confounds, sample_weight=sample_weight).total

    @at_home
    def probabilities_table(self, X: Any, *, confounds: Any = None, library: str | None = None) -> Any:
        """Make a table of `probabilities`, with the names of the classes and the labels of the rows.

        Parameters
        ----------
        X, confounds
            As for `probabilities`.
        library : {"pandas", "polars", "pyarrow", ""}, optional
            As for `Solution.weights_table`; by default the library of the rows.

        Returns
        -------
        list of dict, pandas.DataFrame, polars.DataFrame or pyarrow.Table
            A row for each row of X, and a column for each class, whose name is the class as text. The index of a pandas
            frame labels the rows.

        Raises
        ------
        InvalidProblem
            If the rows do not have the columns of the training data.
        InvalidOption
            There is no such library.
        MissingPackage
            The library is not installed.

        Examples
        --------
        >>> import numpy as np
        >>> import linspec as ls
        >>> y = np.repeat(["ash", "elm"], 20)
        >>> X = np.random.default_rng(0).standard_normal((40, 2)) + 9 * np.eye(2).repeat(20, axis=0)
        >>> classifier = ls.solve(ls.Discriminant(X, ls.targets.lda(y))).classifier()
        >>> [list(row) for row in classifier.probabilities_table(X[:1])]
        [['ash', 'elm']]
        """
        found = to_host(self.probabilities(X, confounds=confounds))
        columns = {str(name): found[:, j] for j, name in enumerate(self.classes.tolist())}
        return table_of_rows(self, columns, X, library)

    @at_home
    def predictions_table(self, X: Any, *, confounds: Any = None, library: str | None = None) -> Any:
        """Make a table of the most probable class of each row and its probability, with the labels of the rows.

        Parameters
        ----------
        X, confounds, library
            As for `probabilities_table`, like the errors.

        Returns
        -------
        list of dict, pandas.DataFrame, polars.DataFrame or pyarrow.Table
            A row for each row of X; the columns "class" and "probability".

        Examples
        --------
        >>> import numpy as np
        >>> import linspec as ls
        >>> y = np.repeat(["ash", "elm"], 20)
        >>> X = np.random.default_rng(0).standard_normal((40, 2)) + 9 * np.eye(2).repeat(20, axis=0)
        >>> classifier = ls.solve(ls.Discriminant(X, ls.targets.lda(y))).classifier()
        >>> [row["class"] for row in classifier.predictions_table(X[19:21])]
        ['ash', 'elm']
        """
        found = to_host(self.probabilities(X, confounds=confounds))
        best = found.argmax(axis=1)
        columns = {"class": self.classes[best], "probability": found[np.arange(len(found)), best]}
        return table_of_rows(self, columns, X, library)

    def __repr__(self) -> str:
        directions = count_of(self.means.shape[1], "direction")
        return f"<LinearClassifier: {count_of(len(self.classes), 'class')}, {directions}>"


def pooled(
    Z: Array, codes: HostArray, count: int, weights: HostArray | None = None
) -> tuple[HostArray, HostArray, HostArray]:
    """Compute sizes and means of classes, and the scatter about these means.

    Parameters
    ----------
    Z : array of shape (n, k)
        Variates.
    codes : numpy.ndarray of shape (n,)
        The index of each row's class, -1 for rows without class, which are left out.
    count : int
        The number of classes; each has a row of positive weight.
    weights : numpy.ndarray of shape (n,), optional
        How often each row counts.

    Returns
    -------
    numpy.ndarray of shapes (count,), (count, k), (k, k)
        float64.
    """
    there = codes >= 0
    rows, codes = HOST.place(Z)[there], codes[there]
    often = np.ones(len(codes)) if weights is None else weights[there]
    sizes = np.bincount(codes, often, minlength=count)
    sums = [np.bincount(codes, often * column, minlength=count) for column in rows.T]
    means = (np.stack(sums, axis=1) if sums else np.zeros((count, 0))) / sizes[:, None]
    rows = rows - means[codes]
    return sizes, means, rows.T @ (often[:, None] * rows)


def covariance_of(within: HostArray, means: HostArray, sizes: HostArray, least: float) -> HostArray:
    """Compute the covariance within classes, after a check that it is nonsingular.

    Parameters
    ----------
    within : numpy.ndarray of shape (k, k)
        The scatter about the means of the classes, plus the ridge.
    means : numpy.ndarray of shape (c, k)
    sizes : numpy.ndarray of shape (c,)
    least : float
        Limit for the ratio of the scatter within classes to the scatter of all rows. If the ratio is at most this along
        some direction, the scatter within classes is only rounding there, and the covariance counts as singular.

    Returns
    -------
    numpy.ndarray of shape (k, k)
        `within` divided by the number of rows.

    Raises
    ------
    InvalidProblem
        If there is a direction along which the rows within every class are equal.
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
    """Priors that add up to 1: class frequencies, uniform, or the given numbers in the order of the classes."""
    if priors is None:
        priors = sizes
    if isinstance(priors, str) and priors == "uniform":
        return np.full(len(sizes), 1 / len(sizes))
    check_bare(priors, "priors")
    given = np.asarray(to_host(priors) if is_array(priors) else priors)
    if (
        given.dtype.kind not in "uif"
        or given.shape != sizes.shape
        or not (np.isfinite(given).all() and given.min() > 0)
    ):
        raise InvalidOption(
            f'priors must be None, "uniform" or {len(sizes)} positive numbers, one for each class in sorted order; got '
            f"{priors!r}."
        )
    found: HostArray = given / given.sum()
    return found
