"""The solution of an SVD: singular triplets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from linspec.affine_images import Taken
from linspec.arrays import LEAST_SQUARE, Array, HostArray
from linspec.solution import Solution


@dataclass(frozen=True, kw_only=True, repr=False)
class SVDSolution(Solution):
    """Leading singular triplets.

    Attributes
    ----------
    S : numpy.ndarray of shape (k,)
        Singular values in decreasing order, float64.
    Vh : array of shape (k, p)
        Right singular vectors as rows.
    U : array of shape (n, k) or None
        Left singular vectors, if the problem has left=True.
    mean : array of shape (p,) or None
        Column means, if the problem centres.
    scale : array of shape (p,) or None
        What columns were divided by, if the problem scales.
    confound_mean : numpy.ndarray of shape (c,) or None
        The means of the confounds, if the problem has any (0 without centring).
    slopes : array of shape (c, p) or None
        The slopes of the columns in the confounds, which are taken out of rows.
    rows : float
        The number of rows of the data, or the sum of their weights.
    total_squares : float or None
        The sum of the squares of all singular values, which is that of all entries of the (centred) data. The
        sweeps of the solve compute it at no extra cost. It is None for operators that only give products,
        which would need a product with each column of the identity. If you know it from elsewhere, divide
        ``S**2`` by it. It is 0 or infinite if it underflows or overflows.
    total_norm : float or None
        The square root of total_squares, the Frobenius norm of the data. It is finite if the entries are.
    """

    weight_fields: ClassVar[tuple[str, ...]] = ("Vh", "U", "mean")
    weights_of: ClassVar[Mapping[str, tuple[str, int]]] = MappingProxyType({"A": ("Vh", 1)})
    vector_name: ClassVar[str] = "component"
    value_field: ClassVar[str] = "S"
    value_label: ClassVar[str] = "singular value"
    shapes: ClassVar[Mapping[str, str]] = {
        "S": "k",
        "Vh": "k p",
        "U": "n k",
        "mean": "p",
        "scale": "p",
        "confound_mean": "c",
        "slopes": "c p",
    }

    S: HostArray
    Vh: Array
    U: Array | None = None
    mean: Array | None = None
    scale: Array | None = None
    confound_mean: HostArray | None = None
    slopes: Array | None = None
    rows: float
    total_squares: float | None = None
    total_norm: float | None = None

    @classmethod
    def objective(cls, fields: Mapping[str, Any]) -> float:
        """The sum of the squares of the singular values."""
        with np.errstate(over="ignore"):  # a square beyond the range is infinite
            return float((fields["S"] ** 2).sum())

    @property
    def explained_variance_ratio(self) -> HostArray | None:
        """The fraction of `total_squares` in each component, shape (k,); None if `total_squares` is None.

        With centring it is the fraction of the variance, as in ``PCA`` of scikit-learn. Without centring it
        is the fraction of the sum of squares about zero. ``TruncatedSVD`` of scikit-learn divides variances
        about the means there, although its components contain the means. Its fractions need neither decrease
        nor add up to one.
        """
        if self.total_squares is None:
            return None
        if self.total_norm and not LEAST_SQUARE < self.total_squares < math.inf:
            return np.square(self.S / self.total_norm)
        share: HostArray = self.S**2 / self.total_squares if self.total_squares > 0 else 0.0 * self.S
        return share

    @property
    def explained_variance(self) -> HostArray | None:
        """The variance of the data along each row of `Vh`, S²/(rows − 1), shape (k,); None without centring."""
        if self.mean is None:
            return None
        with np.errstate(over="ignore", under="ignore"):
            variance: HostArray = self.S**2 / max(self.rows - 1, 1)
        return variance

    @property
    def total_variance(self) -> float | None:
        """The sum of the variances of all columns; None without centring, or if `total_squares` is None."""
        if self.mean is None or self.total_squares is None:
            return None
        return self.total_squares / max(self.rows - 1, 1)

    def _headline(self) -> str:
        return f"S {np.array2string(self.S[:3], precision=4)}"

    def _per_component(self) -> dict[str, Any]:
        others = {
            "explained variance": self.explained_variance,
            "explained variance ratio"
            if self.mean is not None
            else "share of squares": self.explained_variance_ratio,
        }
        return {
            **super()._per_component(),
            **{name: values for name, values in others.items() if values is not None},
        }

    @property
    def _taken(self) -> Taken:
        return Taken(self.mean, self.slopes, self.confound_mean, self.scale, **self.names_of("A"))

    def transform(self, A: Any, *, confounds: Any = None) -> Array:
        """Scores of rows: the rows minus the training means, if the problem centres, times the vectors.

        Parameters
        ----------
        A : data of shape (n, p)
            Any kind of data that `linspec.as_operator` takes; sparse rows stay sparse.
        confounds : array of shape (n, c), optional
            Those of the rows, if the problem had confounds: their effect, as learnt from the training rows, is
            subtracted.

        Returns
        -------
        array of shape (n, k)
            In the library, on the device and in the working dtype of the rows. For training rows without weights
            it is U diag(S).

        Raises
        ------
        InvalidProblem
            When the rows do not have the columns of the training data.
        """
        return self._taken.images(A, self.Vh.T, "A", confounds)

    def scores_table(self, A: Any, *, confounds: Any = None, library: str | None = None) -> Any:
        """The scores of rows, as `transform` gives them, in a table with the labels of the rows.

        Parameters
        ----------
        A : data of shape (n, p)
        confounds : array of shape (n, c), optional
        library : {"pandas", "polars", "pyarrow", ""}, optional
            As for `weights_table`; by default the library of A.

        Returns
        -------
        list of dict, pandas.DataFrame, polars.DataFrame or pyarrow.Table
            A column for each component. The index of a pandas frame labels the rows.
        """
        return self.table_of_rows(self.transform(A, confounds=confounds), A, library)

    def inverse_transform(self, scores: Any, *, confounds: Any = None) -> Array:
        """The rows in the subspace that have the given scores: scores times `Vh`, plus the training means.

        ``inverse_transform(transform(A))`` is the projection of the rows on the subspace: of all matrices of
        rank k about the means, the nearest to the training rows.

        Parameters
        ----------
        scores : data of shape (n, k)
            Any kind of data that `linspec.as_operator` takes.
        confounds : array of shape (n, c), optional
            Those of the rows, if the problem had confounds. Their effect is added.

        Returns
        -------
        array of shape (n, p)
            In the library, on the device and in the working dtype of the scores.

        Raises
        ------
        InvalidProblem
            When there is not one column of scores for each row of `Vh`.
        """
        return self._taken.restored(scores, self.Vh, "scores", confounds)
