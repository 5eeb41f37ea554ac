"""The solution of a discriminant problem: directions and eigenvalues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from linspec.algebra.small_matrices import whitening
from linspec.arrays import Array, HostArray, at_home, host_dtype, to_host
from linspec.errors import InvalidProblem, MissingCapability
from linspec.families.discriminant.classifier import (
    DISTINCT,
    OF_ROWS,
    LinearClassifier,
    covariance_of,
    pooled,
    prior_probabilities,
)
from linspec.frames import check_order
from linspec.moments.moments import Moments
from linspec.operators import as_operator
from linspec.operators.row_model import weights_and_confounds
from linspec.solving.new_rows import NewRows
from linspec.solving.solution import Solution
from linspec.sweeps.blocks import brought_here
from linspec.targets.class_vectors import class_codes

DEPENDENT = 1e-12
"""Combinations of targets, or of variates, with a smaller share of the squares are rounding: centred classes depend on
each other."""


@dataclass(frozen=True, kw_only=True, repr=False)
class DiscriminantSolution(Solution):
    """Discriminant directions.

    Attributes
    ----------
    weights : array of shape (p, k)
        Of unit length in the metric of M = XᵀX + ridge·I, and orthogonal in it: WᵀMW = I.
    eigenvalues : numpy.ndarray of shape (k,)
        In decreasing order, float64. Their sum is the part of the targets that the directions explain. If the targets
        have orthonormal columns (CCA, and LDA if every row has a class), each eigenvalue lies between 0 and 1. It is
        then a squared canonical correlation of data and labels, with the ridge on the side of the data.
    mean : array of shape (p,) or None
        Column means of X, if the problem centres.
    scale : array of shape (p,) or None
        What columns were divided by, if the problem scales. The weights multiply columns that are not divided.
    confound_mean : numpy.ndarray of shape (c,) or None
        The means of the confounds, if the problem has any (0 without centring).
    slopes : array of shape (c, p) or None
        The slopes of the columns in the confounds, which are subtracted from rows.
    rank : int or None
        The numerical rank of X, if the solver determines it.
    penalty : numpy.ndarray of shape (k, k)
        ridge·WᵀW, float64.
    classes : numpy.ndarray of shape (c,) or None
        The classes, if the targets are those of `linspec.targets.lda` for a class of every row, given on the host as a
        vector or a sparse matrix. `predict` needs them.
    class_sizes : numpy.ndarray of shape (c,) or None
        The number of training rows of each class, or the sum of their weights.
    class_means : numpy.ndarray of shape (c, k) or None
        The mean of each class's variates, float64.
    within : numpy.ndarray of shape (k, k) or None
        The scatter of the variates within the classes plus `penalty`, float64: the identity less the part between the
        classes, which is diag(`eigenvalues`).

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> y = np.array(["ash", "elm", "oak"])[rng.integers(3, size=300)]
    >>> X = rng.standard_normal((300, 10)) + 4.0 * (y[:, None] == ["ash", "elm", "oak"]) @ np.eye(3, 10)
    >>> solution = ls.solve(ls.Discriminant(X, ls.targets.lda(y)))
    >>> solution.transform(X).shape
    (300, 2)
    >>> bool((solution.predict(X) == y).mean() > 0.9)
    True
    """

    weight_fields: ClassVar[tuple[str, ...]] = ("weights", "mean")
    weights_of: ClassVar[Mapping[str, tuple[str, int]]] = MappingProxyType({"X": ("weights", 0)})
    vector_name: ClassVar[str] = "direction"
    value_field: ClassVar[str] = "eigenvalues"
    value_label: ClassVar[str] = "eigenvalue"
    score_label: ClassVar[str] = "Pillai's trace"
    shapes: ClassVar[Mapping[str, str]] = {
        "weights": "p k",
        "eigenvalues": "k",
        "mean": "p",
        "scale": "p",
        "penalty": "k k",
        "within": "k k",
        "confound_mean": "f",
        "slopes": "f p",
        "classes": "c",
        "class_sizes": "c",
        "class_means": "c k",
    }

    weights: Array
    eigenvalues: HostArray
    mean: Array | None = None
    scale: Array | None = None
    confound_mean: HostArray | None = None
    slopes: Array | None = None
    rank: int | None = None
    penalty: HostArray | None = None
    classes: HostArray | None = None
    class_sizes: HostArray | None = None
    class_means: HostArray | None = None
    within: HostArray | None = None

    def _headline(self) -> str:
        return f"{len(self.eigenvalues)} eigenvalues, sum {float(self.eigenvalues.sum()):.6g}"

    @at_home
    def transform(self, X: Any, *, confounds: Any = None) -> Array:
        """The rows in the subspace: X times the weights, after the training means are subtracted.

        Parameters
        ----------
        X : data of shape (n, p)
            Any kind of data that `linspec.as_operator` takes; sparse rows stay sparse.
        confounds : array of shape (n, c), optional
            Those of the rows, if the problem had confounds: their effect, as learnt from the training rows, is
            subtracted.

        Returns
        -------
        array of shape (n, k)
        """
        return self._new_rows.images(X, self.weights, "X", confounds)

    @at_home
    def score(self, X: Any, H: Any, *, confounds: Any = None) -> float:
        """How much the directions explain of the targets of rows, usually of new rows: Pillai's trace.

        It is the sum of the squared canonical correlations of the variates with the targets, about the means of these
        rows if the problem centres. It lies between 0 and k. Neither the ridge nor the scale of the targets matters.

        Parameters
        ----------
        X : data of shape (n, p)
            Any kind of data that `linspec.as_operator` takes.
        H : data of shape (n, t)
            The targets of the same rows, such as those that `linspec.targets` makes of their labels. They may have
            other columns than the training targets.
        confounds : array of shape (n, c), optional
            Those of the rows, if the problem had confounds.

        Returns
        -------
        float
            The larger, the better. With few rows chance adds about k t / n to it.

        Raises
        ------
        InvalidProblem
            The numbers of columns or of rows differ, or there are no rows.
        NonFiniteData
            The variates or the targets have NaN or infinity.

        Examples
        --------
        >>> import numpy as np
        >>> import linspec as ls
        >>> rng = np.random.default_rng(0)
        >>> y = np.tile(["ash", "elm", "oak"], 80)
        >>> X = rng.standard_normal((240, 5)) + 4 * np.tile(np.eye(3, 5), (80, 1))
        >>> solution = ls.solve(ls.Discriminant(X[:120], ls.targets.lda(y[:120])))
        >>> bool(1.5 < solution.score(X[120:], ls.targets.lda(y[120:])) < 2)
        True
        """
        X, targets = as_operator(X, "X"), as_operator(H, "the targets H")
        check_order({"X": X, "H": targets, "confounds": confounds})
        P = self.transform(X, confounds=confounds)
        if P.shape[0] != targets.shape[0]:
            raise InvalidProblem(
                f"X and H must have equally many rows; got {P.shape[0]} and {targets.shape[0]}."
            )
        if not P.shape[0]:
            raise InvalidProblem("X and H must have rows for a score; got none.")
        if not P.shape[1]:
            return 0.0
        moments = Moments(P, targets, center=self.mean is not None, form="dense", names=("the variates", "H"))
        Sp, C, Sh = (to_host(block) for block in moments.dense())
        return float(np.sum((whitening(Sp, DEPENDENT).T @ C @ whitening(Sh, DEPENDENT)) ** 2))

    @at_home
    def scores_table(self, X: Any, *, confounds: Any = None, library: str | None = None) -> Any:
        """The rows in the subspace, as `transform` gives them, in a table with the labels of the rows.

        Parameters
        ----------
        X : data of shape (n, p)
        confounds : array of shape (n, c), optional
        library : {"pandas", "polars", "pyarrow", ""}, optional
            As for `weights_table`; by default the library of X.

        Returns
        -------
        list of dict, pandas.DataFrame, polars.DataFrame or pyarrow.Table
            A column for each direction. The index of a pandas frame labels the rows.
        """
        return self.table_of_rows(self.transform(X, confounds=confounds), X, library)

    @property
    def _new_rows(self) -> NewRows:
        """What is subtracted from rows. Their scale is in the weights."""
        return NewRows(self.mean, self.slopes, self.confound_mean, **self.names_of("X"))

    @at_home
    def classifier(
        self,
        X: Any = None,
        y: Any = None,
        *,
        priors: Any = None,
        unlabelled: Any = (),
        confounds: Any = None,
        sample_weight: Any = None,
    ) -> LinearClassifier:
        """A classifier in the subspace: linear discriminant analysis of the variates.

        Parameters
        ----------
        X : data of shape (n, p), optional
            The training rows, which are read once. They are not needed if the solution knows the `classes`.
        y : class vector of length n, optional
            The class of each of these rows, as for `linspec.targets.lda`. Rows without a class are left out.
        priors : None, "uniform" or sequence of c positive numbers, default None
            The probability of each class, in sorted order of the classes. Only the ratios matter. None: the frequencies
            of the classes in the training rows.
        unlabelled : value or collection of values, default ()
            Entries of y that mean "no class". None and NaN always mean this.
        confounds : array of shape (n, c), optional
            Those of the rows X, if the problem had confounds.
        sample_weight : array of shape (n,), optional
            How often each of the rows X counts, as in the problem. A class of which no row counts is left out.

        Returns
        -------
        LinearClassifier

        Raises
        ------
        InvalidProblem
            X without y or the reverse; rows and classes that differ in number; fewer than two classes; training rows
            that do not differ within the classes along a direction: add a ridge.
        InvalidOption
            For `priors` and `unlabelled`.
        MissingCapability
            Without X and y, if the solution does not know the classes.

        Notes
        -----
        With X and y the variates are held, n x k. They serve for any targets: classes of a GPU, hypergraphs of classes,
        rows of which some have no class.

        Examples
        --------
        >>> import numpy as np
        >>> import linspec as ls
        >>> rng = np.random.default_rng(0)
        >>> y = np.repeat(["ash", "elm", "oak"], 40)
        >>> X = rng.standard_normal((120, 5)) + 4 * np.eye(3, 5).repeat(40, axis=0)
        >>> solution = ls.solve(ls.Discriminant(X, ls.targets.lda(y)))
        >>> solution.predict(X[::40]).tolist()
        ['ash', 'elm', 'oak']
        >>> solution.classifier(X, y, priors="uniform").probabilities(X[::40]).shape
        (3, 3)
        """
        if X is None and y is None:
            classes, sizes, means, within, least = self._known()
        elif X is None or y is None:
            raise InvalidProblem(
                f"classifier needs rows and their classes; got {'X' if y is None else 'y'} alone. Pass both, or "
                "neither where the solution knows the classes."
            )
        else:
            X = as_operator(X, "X")
            check_order({"X": X, "y": y, "confounds": confounds, "sample_weight": sample_weight})
            codes, classes = class_codes(y, unlabelled)
            Z = brought_here(self.transform(X, confounds=confounds))
            if Z.shape[0] != len(codes):
                raise InvalidProblem(
                    f"X and y must have equally many rows; got {Z.shape[0]} and {len(codes)}."
                )
            often, _ = weights_and_confounds(sample_weight, None, len(codes))
            if often is not None:
                codes, classes = _that_count(codes, classes, often)
            if len(classes) < 2:
                raise InvalidProblem(
                    "a classifier needs rows of at least two classes; got one. Pass more rows."
                )
            sizes, means, within = pooled(Z, codes, len(classes), often)
            within = within if self.penalty is None else within + self.penalty
            least = (OF_ROWS * float(np.finfo(host_dtype(Z)).eps)) ** 2
        return LinearClassifier(
            classes=classes,
            priors=prior_probabilities(priors, sizes),
            means=means,
            covariance=covariance_of(within, means, sizes, least),
            weights=self.weights,
            new_rows=self._new_rows,
        )

    @at_home
    def predict(self, X: Any, *, priors: Any = None, confounds: Any = None) -> HostArray:
        """The likeliest class of each row, for targets that `linspec.targets.lda` made of classes.

        Parameters
        ----------
        X : data of shape (n, p)
            Any kind of data that `linspec.as_operator` takes.
        priors : None, "uniform" or sequence of c positive numbers, default None
            As for `classifier`.
        confounds : array of shape (n, c), optional
            Those of the rows, if the problem had confounds.

        Returns
        -------
        numpy.ndarray of shape (n,)
            Classes as they were given.

        Raises
        ------
        MissingCapability
            If the solution does not know the classes: call `classifier` with the training rows and their classes.
        InvalidProblem, InvalidOption
            As for `classifier`.
        """
        return self.classifier(priors=priors).predict(X, confounds=confounds)

    @at_home
    def probabilities(self, X: Any, *, priors: Any = None, confounds: Any = None) -> Array:
        """The posterior probability of each class, in the order of `classes`, for each row.

        Parameters and errors are those of `predict`.

        Returns
        -------
        array of shape (n, c)
            In the library, on the device and in the working dtype of the rows.
        """
        return self.classifier(priors=priors).probabilities(X, confounds=confounds)

    def _known(self) -> tuple[HostArray, HostArray, HostArray, HostArray, float]:
        """What the solution knows of the classes, and the share of scatter that is rounding."""
        if (
            self.classes is None
            or self.class_sizes is None
            or self.class_means is None
            or self.within is None
        ):
            raise MissingCapability(
                "the classes of the targets are not known: only targets.lda of a class for every row, on the host and "
                "unchanged, has them. Call solution.classifier(X, y) with the training rows and their classes."
            )
        least = DISTINCT * float(np.finfo(host_dtype(self.weights)).eps)
        return self.classes, self.class_sizes, self.class_means, self.within, least


def _that_count(codes: HostArray, classes: HostArray, often: HostArray) -> tuple[HostArray, HostArray]:
    """Codes and classes without the classes of which no row counts, whose rows are then in no class."""
    there = np.bincount(codes[codes >= 0], often[codes >= 0], minlength=len(classes)) > 0
    numbers = np.append(np.where(there, np.cumsum(there) - 1, -1), -1)  # the last is that of no class
    return numbers[codes], classes[there]
