"""Discriminants, orthonormal PLS and hypergraph subspaces: the problem, its answer, and a classifier.

Problem: a discriminant subspace separates classes; which class does a new row belong to, and with what probability?
Method: in every class the variates of rows are modelled as normal, with one mean per class and a common covariance. The
posterior probabilities are then a softmax of linear functions of the row. With all discriminant directions this is the
classifier in the space of all columns, because the part of a row outside their span is equally likely in all classes.
Source: Hastie, Tibshirani & Friedman 2009, The elements of statistical learning, section 4.3; for the ridge
Friedman 1989, doi:10.1080/01621459.1989.10478752.
Where we differ: the covariance is estimated in the subspace, by one pass or by none. The ridge of the problem is added
to it: without the ridge, the fitted rows scatter less than other rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np

import linspec as ls
from linspec import targets
from linspec.arrays import (
    HOST,
    Array,
    Device,
    HostArray,
    check_bare,
    host_dtype,
    is_array,
    namespace,
    to_host,
    with_device,
)
from linspec.errors import InvalidOption, InvalidProblem, MissingCapability
from linspec.families.discriminant import directions
from linspec.frames import check_order, is_series
from linspec.iteration import Certificate
from linspec.linalg import whitening
from linspec.operators import (
    CombinedColumns,
    as_operator,
)
from linspec.operators.tables import is_flat_list
from linspec.operators.weights import weights_and_confounds
from linspec.process.plurals import count_of
from linspec.rows import Moments
from linspec.solving import (
    check_flag,
    check_k,
    check_rows,
    moments_of_rows,
    score_of_predictions,
    table_of_rows,
)
from linspec.solving.new_rows import NOTHING, NewRows
from linspec.solving.stating import adopt_labels, borrow
from linspec.solving.tables import some_of
from linspec.targets import are_classes, class_codes, classes_of, targets_of_classes
from linspec.workers import brought_here

DEPENDENT = 1e-12
"""Limit below which an eigenvalue of the k x k Gram matrix of targets, scaled to unit diagonal, counts as zero.

The limit is relative to k times the largest eigenvalue. `DiscriminantSolution.score` also applies it to the Gram matrix
of the variates. Centred columns of classes, for example, are linearly dependent, so one eigenvalue is zero."""


@dataclass(frozen=True, kw_only=True, repr=False)
class DiscriminantSolution(
    ls.LinearSolution, vector="direction", score="Pillai's trace", residual="relative"
):
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

    weights: Array = ls.field(rows_of="X", leading=True)
    eigenvalues: HostArray = ls.field(value="eigenvalue")
    mean: Array | None = None
    scale: Array | None = None
    confound_mean: HostArray | None = None
    slopes: Array | None = None
    rank: int | None = None
    penalty: HostArray | None = ls.field(None, shape="k k")
    classes: HostArray | None = ls.field(None, shape="c")
    class_sizes: HostArray | None = ls.field(None, shape="c")
    class_means: HostArray | None = ls.field(None, shape="c k")
    within: HostArray | None = ls.field(None, shape="k k")

    def facts(self) -> list[tuple[str, str]]:
        """The sum of the eigenvalues, and the classes with their sizes."""
        if self.classes is None or self.class_sizes is None:
            return super().facts()
        sizes = zip(self.classes.tolist(), self.class_sizes.tolist(), strict=True)
        return [*super().facts(), ("classes", some_of([f"{name} ({size:g} rows)" for name, size in sizes]))]

    @with_device
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

    @with_device
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
            there = (codes >= 0) & (True if often is None else often > 0)
            present, numbers = np.unique(codes[there], return_inverse=True)
            classes = classes[present]  # those with rows of positive weight
            if len(classes) < 2:
                raise InvalidProblem(
                    "a classifier needs rows of at least two classes; got one. Pass more rows."
                )
            weights = np.ones(len(numbers)) if often is None else often[there]
            sizes, means, within = pooled(HOST.asarray(Z)[there], numbers, weights)
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

    @with_device
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

    @with_device
    def probabilities(self, X: Any, *, priors: Any = None, confounds: Any = None) -> Array:
        """The posterior probability of each class, in the order of `classes`, for each row.

        Parameters and errors are those of `predict`.

        Returns
        -------
        array of shape (n, c)
            In the library, on the device and in the working dtype of the rows.
        """
        return self.classifier(priors=priors).probabilities(X, confounds=confounds)

    @with_device
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
        >>> [round(row["elm"]) for row in solution.probabilities_table(X[19:21], library="")]
        [0, 1]
        """
        return self.classifier(priors=priors).probabilities_table(X, confounds=confounds, library=library)

    @with_device
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
        >>> ls.solve(ls.Discriminant(X, ls.targets.lda(y))).predictions_table(X[:1], library="")[0]["class"]
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


NO_TARGET = "none"  # the value of --target for a file that holds the targets themselves, and not labels

TARGETS: Mapping[str, tuple[Any, dict[str, Any]]] = {
    **{name: (getattr(targets, name), {}) for name in ("lda", "opls", "cca")},
    **{f"hsl-{name}": (targets.hsl, {"laplacian": name}) for name in ("zhou", "clique", "star")},
}
"""By value of --target, the function that makes targets from labels, and its arguments. Of these, `opls` alone takes no
weights of rows: the scaling of its targets does not count them."""


@dataclass(frozen=True, eq=False, repr=False)
class Discriminant(ls.Problem[DiscriminantSolution]):
    """The k leading directions in which X explains targets H: LDA, OPLS, hypergraph subspaces.

    With M = XᵀX + ridge·I: the leading eigenvectors of XᵀHHᵀX w = λ M w, of unit length in M. Only H determines the
    method, and `linspec.targets` makes H from labels.

    Parameters
    ----------
    X : data of shape (n, p), or Moments
        Anything `linspec.as_operator` accepts. Moments of two views replace X and H.
    H : data of shape (n, t)
        Targets. If their dtype is narrower than that of X, they are multiplied in the dtype of X. A product of sparse
        labels and a small dense block (``linspec.targets.cca`` of sparse labels) is never formed.
    k : int, optional
        The number of directions, at most min(n, p, t). By default it is the numerical rank of XᵀH.
    ridge : float, default 0.0
        Added to the unnormalised XᵀX. With ridge 0 and dependent columns of X, the weights are those of least norm,
        which lie in the span of its rows.
    center : bool, default True
        Whether to subtract the column means of X; sparse data stay sparse. The means of H then do not matter.
    scale : bool, default False
        Whether to divide each column by its root mean square after means and confounds are subtracted; with `center`
        this is its standard deviation.
    sample_weight : array of shape (n,), optional
        How often each row counts: zero or more, and 0 leaves a row out. The row count n becomes their sum.
        Targets whose scaling counts rows take the same weights: ``linspec.targets.lda(y, sample_weight=w)``.
    confounds : array of shape (n, c) or (n,), optional
        Variables whose linear effect is subtracted from every column of X, together with the means if
        `center`. Sparse data stay sparse.

    Notes
    -----
    Residual: ‖XᵀHHᵀXW − MWΛ‖ / ‖XᵀHHᵀXW‖ in the norm ‖R‖² = tr RᵀM⁻¹R; the default tolerance is 1e-6.
    `residual_kind` says where the norm comes from: "exact", "sketched" (random combinations of the rows) or
    "preconditioned" (products with random columns). Of a block whose span should contain all eigenvectors, a second
    ratio is computed, and the larger one counts. The guide to supervised subspaces has both.

    For authors of solvers: in the problem that a solver receives, `H` holds the labels, and `factor` is the matrix that
    multiplies the labels, or None.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=600)
    >>> X = rng.standard_normal((600, 20)) + 3.0 * np.eye(3, 20)[y]
    >>> problem = ls.Discriminant(X, ls.targets.lda(y), ridge=1.0)
    >>> solution = ls.solve(problem)
    >>> solution.eigenvalues.round(2)
    array([0.76, 0.74])
    >>> bool((solution.predict(X) == y).mean() > 0.9)
    True
    """

    X: Any = ls.matrix("data")
    H: Any = ls.matrix("targets", like="X", labels="Y")
    k: Any = ls.count("directions", optional=True)
    ridge: Any = ls.ridge(
        of=("X",), help="Added to the diagonal of XᵀX, which is not divided by the number of rows."
    )
    center: bool = ls.flag(True)
    scale: bool = ls.flag(False, kw_only=True)
    sample_weight: Any = field(default=None, kw_only=True)
    confounds: Any = field(default=None, kw_only=True)

    name: ClassVar[str] = "discriminant"
    command: ClassVar[Mapping[str, Any]] = {
        "target": ls.setting(
            "lda",
            str,
            choices=(*TARGETS, NO_TARGET),
            help="The targets to make of the labels in Y-FILE. One column holds the class of each row; several columns "
            "hold a label each. none: Y-FILE holds the targets themselves.",
        )
    }
    held_out_scores: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "pillai": "linspec.families.discriminant.held_out:PillaiTrace",
            "accuracy": "linspec.families.discriminant.held_out:Accuracy",
        }
    )

    factor: ClassVar[Array | None] = None
    classes: ClassVar[tuple[HostArray, HostArray] | None] = None  # names and sizes, if the targets have them

    def __post_init__(self) -> None:
        borrow(self)
        check_flag("center", self.center)
        H = self.H
        if isinstance(self.X, ls.Moments):
            H = list(self.X.matrices.values())[-1]
        else:
            self._take_targets_apart()
        adopt_labels(self, {"H": H})
        super().__post_init__()
        object.__setattr__(self, "classes", classes_of(H, self.sample_weight))

    @classmethod
    def from_command(cls, matrices: Sequence[Any], values: dict[str, Any]) -> Self:
        """Construct the problem with the targets that a command makes of labels."""
        X, labels = matrices
        name = values.pop("target", NO_TARGET)
        if name == NO_TARGET:
            if getattr(labels.dtype, "kind", "") in ("U", "O"):
                raise InvalidProblem(
                    "--target none takes targets that are numbers; the file holds text. Choose another target."
                )
            return cls(X, labels, **values)
        make, arguments = TARGETS[name]
        if make is not targets.opls and "sample_weight" in values:
            arguments = {**arguments, "sample_weight": values["sample_weight"]}
        if hasattr(labels, "matmat"):
            sparse = hasattr(labels.stored_array, "tocsr")
            labels = labels.stored_array if sparse else labels.dense()
        if len(labels.shape) > 1 and labels.shape[1] == 1:
            labels = labels[:, 0]
        return cls(X, make(labels, **arguments), **values)

    def _take_targets_apart(self) -> None:
        """Split H into labels and the block that multiplies them, after a check of its kind.

        Where X is centred, the means of the labels do not change its product with them.
        """
        H = self.H
        if H is None:
            raise InvalidProblem(
                "Discriminant needs targets; got no H. Make H from labels: "
                "Discriminant(X, linspec.targets.lda(y), k); `linspec.paired` splits a source of pairs of slices."
            )
        if (getattr(H, "ndim", 2) == 1) is True or is_series(H) or is_flat_list(H):
            raise InvalidProblem(
                f"H must have a column for each target; got one dimension of {type(H).__name__}. Make targets of "
                "classes with linspec.targets.lda(y)."
            )
        labels, factor = as_operator(H, "H"), None
        if isinstance(labels, CombinedColumns):
            factor = labels.factor
            labels = labels.operator if self.center else CombinedColumns(labels.operator, labels.mean)
        object.__setattr__(self, "H", labels)
        object.__setattr__(self, "factor", factor)

    def check_sizes(self) -> None:
        """Check that X and H have the same number of rows, and that k is at most min(n, p, t)."""
        check_rows("X", self.X, "H", self.H)
        sizes = {
            "rows": min(self.X.shape[0], self.H.shape[0]),
            "columns of X": self.X.shape[1],
            "targets": self.targets,
        }
        k = min(sizes.values()) if self.every else check_k(self.k, sizes)
        object.__setattr__(self, "k", k)

    @property
    def targets(self) -> int:
        """The number of targets, t."""
        return int(self.H.shape[1] if self.factor is None else self.factor.shape[1])

    @property
    def labels(self) -> HostArray | None:
        """The class of each row, None for a row without one; None if the targets were not made of classes."""
        if self.classes is None:
            return None
        H = self.H.matrix.tocsr()
        labels = np.full(H.shape[0], None, dtype=object)
        labels[np.repeat(np.arange(H.shape[0]), np.diff(H.indptr))] = self.classes[0][H.indices]
        return labels

    @property
    def width(self) -> int:
        """The number of columns of iterates: one for each target."""
        return self.targets

    @property
    def certificate_products(self) -> int:
        """The number of products with X that the certificate takes.

        It is 1 for weights in float64. For weights in float32 it is 2: one product for Rayleigh-Ritz, and one to
        compute the residual after the weights are rounded to float32.
        """
        return 2 if self.single else 1

    def check_held(self) -> None:
        """Refuse targets: those of `linspec.targets` are scaled by the rows of one batch, and may look like others."""
        raise InvalidProblem(
            "targets are scaled by the rows of each class, of which a batch has only some. Add indicators of all "
            "classes, 0 or 1, to HeldMoments(linspec.CCA, ridge=(ridge, 0.0)): its weights of X are the directions."
        )

    def on_rows(self, numbers: HostArray) -> Self:
        """Return the problem on some rows; targets of classes are scaled anew by the class sizes in these rows."""
        twin = super().on_rows(numbers)
        if self.classes is not None:
            scaled = targets_of_classes(twin.H.matrix, self.classes[0], twin.sample_weight)
            H = as_operator(scaled, "H")
            object.__setattr__(twin, "H", H.in_dtype(self.H.dtype) or H)
            object.__setattr__(twin, "classes", classes_of(scaled, twin.sample_weight))
        return twin

    def certify(self, moments: Moments, arrays: Mapping[str, Any], tol: float) -> Certificate:
        """Certify `weights`, and make the solution's fields (`linspec.families.discriminant.directions`)."""
        certificate = directions.certify(self, moments, arrays)
        known = directions.directions_of(self, moments)
        fields = dict(certificate.fields)
        del fields["next"]
        W = moments.fitted[0].unscaled(known.device.asarray(fields["weights"]))  # as they are returned
        fields["penalty"] = self.ridge * to_host(W.T @ W)
        fields |= self._of_classes(to_host(known.C.T @ W), moments.fitted[0].total)
        return certificate._replace(fields=fields)

    @property
    def resolution(self) -> float:
        """An eigenvalue λ counts as zero if √λ is at most this fraction of √λ₁, where λ₁ is the largest eigenvalue."""
        eps = float(np.finfo(self.dtype).eps)
        return 10 * math.sqrt(self.X.shape[1] + self.targets) * eps

    def _of_classes(self, Z: HostArray, n: float) -> dict[str, Any]:
        """Class sizes, class means and scatter within classes for a classifier; empty if not every row has a class.

        Column j of H is 1/√nⱼ for the nⱼ rows of class j and 0 for all other rows, as `linspec.targets.lda` makes it.
        So the columns of H are orthonormal, and row j of Z = HᵀXW is √nⱼ times the mean of class j. Hence I − ZᵀZ is
        the scatter within the classes plus the ridge.
        """
        if self.classes is None or not math.isclose(self.classes[1].sum(), n, rel_tol=1e-12):
            return {}
        names, sizes = self.classes
        within = np.eye(Z.shape[1]) - Z.T @ Z
        return {
            "classes": names,
            "class_sizes": sizes,
            "class_means": Z / np.sqrt(sizes)[:, None],
            "within": (within + within.T) / 2,
        }


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
    At ridge 0, with c − 1 directions for c classes, the probabilities are those of scikit-learn's
    ``LinearDiscriminantAnalysis`` with ``solver="lsqr"``, and from 1.9.1 on with each of its solvers.

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

    @with_device
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
        device = Device.of(Z)
        T = whitening(self.covariance)
        about = self.priors @ self.means
        M = (self.means - about) @ T
        offset = np.log(self.priors) - np.sum(M * M, axis=1) / 2
        blocks = device.blocks
        scores = (blocks.asarray(Z) - blocks.asarray(about)) @ blocks.asarray(T @ M.T)
        return device.asarray(scores + blocks.asarray(offset), host_dtype(Z))

    @with_device
    def log_probabilities(self, X: Any, *, confounds: Any = None) -> Array:
        """The logarithms of `probabilities`, shape (n, c); accurate even if probabilities underflow."""
        D = self.decision(X, confounds=confounds)
        xp = namespace(D)
        D = D - xp.max(D, axis=1, keepdims=True)
        return D - xp.log(xp.sum(xp.exp(D), axis=1, keepdims=True))

    @with_device
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
        logs = self.log_probabilities(X, confounds=confounds)
        return namespace(logs).exp(logs)

    @with_device
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
        return np.asarray(self.classes[to_host(namespace(D).argmax(D, axis=1))])

    @with_device
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

    @with_device
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
        >>> [list(row) for row in classifier.probabilities_table(X[:1], library="")]
        [['ash', 'elm']]
        """
        probabilities = to_host(self.probabilities(X, confounds=confounds))
        columns = {str(name): probabilities[:, j] for j, name in enumerate(self.classes.tolist())}
        return table_of_rows(self, columns, X, library)

    @with_device
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
        >>> [row["class"] for row in classifier.predictions_table(X[19:21], library="")]
        ['ash', 'elm']
        """
        probabilities = to_host(self.probabilities(X, confounds=confounds))
        best = probabilities.argmax(axis=1)
        columns = {
            "class": self.classes[best],
            "probability": probabilities[np.arange(len(probabilities)), best],
        }
        return table_of_rows(self, columns, X, library)

    def __repr__(self) -> str:
        directions = count_of(self.means.shape[1], "direction")
        return f"<LinearClassifier: {count_of(len(self.classes), 'class')}, {directions}>"


def pooled(rows: HostArray, codes: HostArray, weights: HostArray) -> tuple[HostArray, HostArray, HostArray]:
    """Compute sizes and means of classes, whose numbers the rows have, and the scatter about these means."""
    sizes = np.bincount(codes, weights)
    means = np.zeros((codes.max() + 1, rows.shape[1]))
    for j, column in enumerate(rows.T):
        means[:, j] = np.bincount(codes, weights * column) / sizes
    rows = rows - means[codes]
    return sizes, means, rows.T @ (weights[:, None] * rows)


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
    numbers = np.asarray(to_host(priors) if is_array(priors) else priors)
    if (
        numbers.dtype.kind not in "uif"
        or numbers.shape != sizes.shape
        or not (np.isfinite(numbers).all() and numbers.min() > 0)
    ):
        raise InvalidOption(
            f'priors must be None, "uniform" or {len(sizes)} positive numbers, one for each class in sorted order; got '
            f"{priors!r}."
        )
    return np.asarray(numbers / numbers.sum())
