"""The solution of a discriminant problem: directions and eigenvalues."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec.algebra.small_matrices import whitening
from linspec.arrays import Array, HostArray, at_home, host_dtype, is_array, to_host
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
from linspec.operators import as_operator
from linspec.operators.weights import weights_and_confounds
from linspec.solving.fields import field
from linspec.solving.linear_solution import LinearSolution
from linspec.solving.loadings import moments_of_rows
from linspec.solving.new_rows import NewRows
from linspec.solving.summary import some_of
from linspec.targets.labels import are_classes, class_codes
from linspec.workers import brought_here

DEPENDENT = 1e-12
"""Limit below which an eigenvalue of the k x k Gram matrix of targets, scaled to unit diagonal, counts as zero.

The limit is relative to k times the largest eigenvalue. `DiscriminantSolution.score` also applies it to the Gram matrix
of the variates. Centred columns of classes, for example, are linearly dependent, so one eigenvalue is zero."""


@dataclass(frozen=True, kw_only=True, repr=False)
class DiscriminantSolution(LinearSolution, vector="direction", score="Pillai's trace", residual="relative"):
    """Discriminant directions.

    Attributes
    ----------
    weights : array of shape (p, k)
        Discriminant weights W, orthonormal in the metric M = XᵀX + ridge·I: WᵀMW = I.
    eigenvalues : numpy.ndarray of shape (k,)
        Eigenvalues in decreasing order, float64. The eigenvalue of the weights w is ‖HᵀXw‖². At ridge 0 the sum of the
        eigenvalues is the part of ‖H‖²_F that the variates XW explain. If the targets have orthonormal columns (CCA,
        and LDA if every row has a class), each eigenvalue is between 0 and 1. It is then a squared canonical
        correlation of X and the labels, with the ridge added to XᵀX.
    mean : array of shape (p,) or None
        Column means of X, if the problem centres.
    scale : array of shape (p,) or None
        The numbers that the columns were divided by, if the problem scales. The weights belong to the undivided
        columns.
    confound_mean : numpy.ndarray of shape (c,) or None
        The means of the confounds, if the problem has any (0 without centring).
    slopes : array of shape (c, p) or None
        The slopes of the columns in the confounds, which are subtracted from rows.
    rank : int or None
        The numerical rank of X, if the solver determines it.
    penalty : numpy.ndarray of shape (k, k)
        ridge·WᵀW, float64.
    classes : numpy.ndarray of shape (c,) or None
        The classes, if every row has a class and the targets come from `linspec.targets.lda`. The labels passed to
        `lda` must be a class vector in host memory, labels in blocks, or a sparse matrix. `predict` needs the classes.
    class_sizes : numpy.ndarray of shape (c,) or None
        The number of training rows of each class, or the sum of their weights.
    class_means : numpy.ndarray of shape (c, k) or None
        The mean of each class's variates, float64.
    within : numpy.ndarray of shape (k, k) or None
        The scatter of the variates within the classes plus `penalty`, float64. It is I − diag(`eigenvalues`): the
        identity minus the scatter between the classes.

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

    weights: Array = field(rows_of="X", leading=True)
    eigenvalues: HostArray = field(value="eigenvalue")
    mean: Array | None = None
    scale: Array | None = None
    confound_mean: HostArray | None = None
    slopes: Array | None = None
    rank: int | None = None
    penalty: HostArray | None = field(None, shape="k k")
    classes: HostArray | None = field(None, shape="c")
    class_sizes: HostArray | None = field(None, shape="c")
    class_means: HostArray | None = field(None, shape="c k")
    within: HostArray | None = field(None, shape="k k")

    def facts(self) -> list[tuple[str, str]]:
        """The sum of the eigenvalues, and the classes with their sizes."""
        if self.classes is None or self.class_sizes is None:
            return super().facts()
        sizes = zip(self.classes.tolist(), self.class_sizes.tolist(), strict=True)
        return [*super().facts(), ("classes", some_of([f"{name} ({size:g} rows)" for name, size in sizes]))]

    @at_home
    def score(self, X: Any, H: Any, *, confounds: Any = None) -> float:
        """Score some rows, usually new ones: the accuracy of their classes, or how much of their targets is explained.

        With the class of each row it is the share of rows for which `predict` gives this class. With targets it is
        Pillai's trace, the sum of the squared canonical correlations of the variates with the targets, about the means
        of these rows if the problem centres; it is between 0 and k, and neither the ridge nor the scale of the targets
        matters. Comparisons and cross-validation use it.

        Parameters
        ----------
        X : data of shape (n, p)
            Any kind of data that `linspec.as_operator` accepts.
        H : class vector of length n, or data of shape (n, t)
            The class of each of these rows, for a solution that has `classes`; rows without a class are left out. Or
            their targets, such as those that `linspec.targets` makes from labels: their columns may differ from those
            of the training targets.
        confounds : array of shape (n, c), optional
            The confounds of these rows, if the problem had any.

        Returns
        -------
        float
            Larger is better. To Pillai's trace chance alone adds about k t / n, which matters for few rows.

        Raises
        ------
        InvalidProblem
            The numbers of columns or of rows differ, or there are no rows.
        NonFiniteData
            The variates or the targets contain NaN or infinity.
        MissingCapability
            H is a class vector, and the solution has no `classes`: `classifier` has a score of its own.

        Examples
        --------
        >>> import numpy as np
        >>> import linspec as ls
        >>> rng = np.random.default_rng(0)
        >>> y = np.tile(["ash", "elm", "oak"], 80)
        >>> X = rng.standard_normal((240, 5)) + 4 * np.tile(np.eye(3, 5), (80, 1))
        >>> solution = ls.solve(ls.Discriminant(X[:120], ls.targets.lda(y[:120])))
        >>> solution.score(X[120:], y[120:]) > 0.95
        True
        >>> bool(1.5 < solution.score(X[120:], ls.targets.lda(y[120:])) < 2)
        True
        """
        if are_classes(H):
            return self.classifier().score(X, H, confounds=confounds)
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
        moments = moments_of_rows({"the variates": P, "H": targets}, center=self.mean is not None)
        (Sp, C), (_, Sh) = (
            [to_host(G) if is_array(G) else G.toarray() for G in row] for row in moments.gram()
        )
        return float(np.sum((whitening(Sp, DEPENDENT).T @ C @ whitening(Sh, DEPENDENT)) ** 2))

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
        """Fit a classifier in the subspace: linear discriminant analysis of the variates.

        Parameters
        ----------
        X : data of shape (n, p), optional
            The training rows, which are read once. They are not needed if the solution has `classes`.
        y : class vector of length n, optional
            The class of each of these rows, as for `linspec.targets.lda`. Rows without a class are left out.
        priors : None, "uniform" or sequence of c positive numbers, default None
            The probability of each class, in sorted order of the classes. The numbers are divided by their sum. None:
            the frequencies of the classes in the training rows.
        unlabelled : value or collection of values, default ()
            Entries of y that mean "no class". None and NaN always mean this.
        confounds : array of shape (n, c), optional
            The confounds of the rows X, if the problem had any.
        sample_weight : array of shape (n,), optional
            How often each of the rows X counts, as in the problem. A class whose rows all have weight 0 is left out.

        Returns
        -------
        LinearClassifier

        Raises
        ------
        InvalidProblem
            If X comes without y or y without X, their numbers of rows differ, there are fewer than two classes, or the
            training rows within the classes are equal along some direction (add a ridge).
        InvalidOption
            If `priors` or `unlabelled` is invalid.
        MissingCapability
            If X and y are not passed, and the solution has no `classes`.

        Notes
        -----
        If X and y are passed, the variates of their rows are held in memory, an n x k array. X and y may be passed
        for a solution with any targets: from classes on a GPU, hypergraphs of classes, or rows without a class.

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
            new_rows=NewRows.of(self, "X"),
            frame_library=self.frame_library,
        )

    @at_home
    def predict(self, X: Any, *, priors: Any = None, confounds: Any = None) -> HostArray:
        """The most probable class of each row, for targets that `linspec.targets.lda` made from classes.

        Parameters
        ----------
        X : data of shape (n, p)
            Any kind of data that `linspec.as_operator` accepts.
        priors : None, "uniform" or sequence of c positive numbers, default None
            As for `classifier`.
        confounds : array of shape (n, c), optional
            The confounds of these rows, if the problem had any.

        Returns
        -------
        numpy.ndarray of shape (n,)
            Labels as in the training data.

        Raises
        ------
        MissingCapability
            If the solution has no classes: call `classifier` with the training rows and their classes.
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

    @at_home
    def probabilities_table(
        self, X: Any, *, priors: Any = None, confounds: Any = None, library: str | None = None
    ) -> Any:
        """Make a table of `probabilities`, with the names of the classes and the labels of the rows.

        Parameters
        ----------
        X, priors, confounds
            As for `predict`, like the errors.
        library : {"pandas", "polars", "pyarrow", ""}, optional
            As for `weights_table`; by default the library of the rows.

        Returns
        -------
        list of dict, pandas.DataFrame, polars.DataFrame or pyarrow.Table
            A row for each row of X, and a column for each class, whose name is the class as text. The index of a pandas
            frame labels the rows.

        Examples
        --------
        >>> import numpy as np
        >>> import linspec as ls
        >>> y = np.repeat(["ash", "elm"], 20)
        >>> X = np.random.default_rng(0).standard_normal((40, 2)) + 9 * np.eye(2).repeat(20, axis=0)
        >>> solution = ls.solve(ls.Discriminant(X, ls.targets.lda(y)))
        >>> [round(row["elm"]) for row in solution.probabilities_table(X[19:21])]
        [0, 1]
        """
        return self.classifier(priors=priors).probabilities_table(X, confounds=confounds, library=library)

    @at_home
    def predictions_table(
        self, X: Any, *, priors: Any = None, confounds: Any = None, library: str | None = None
    ) -> Any:
        """Make a table of the most probable class of each row and its probability, with the labels of the rows.

        Parameters
        ----------
        X, priors, confounds, library
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
        >>> ls.solve(ls.Discriminant(X, ls.targets.lda(y))).predictions_table(X[:1])[0]["class"]
        'ash'
        """
        return self.classifier(priors=priors).predictions_table(X, confounds=confounds, library=library)

    def _known(self) -> tuple[HostArray, HostArray, HostArray, HostArray, float]:
        """Return the stored classes, their sizes and means, the scatter within classes, and a limit of this scatter.

        The limit is a fraction of the scatter of all rows along a direction. If the scatter within the classes along
        this direction is a smaller fraction, it may be only rounding error.
        """
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
    """Drop the classes whose rows all have weight 0, and give these rows the code -1 (no class)."""
    there = np.bincount(codes[codes >= 0], often[codes >= 0], minlength=len(classes)) > 0
    numbers = np.append(np.where(there, np.cumsum(there) - 1, -1), -1)  # the last: no class
    return numbers[codes], classes[there]
