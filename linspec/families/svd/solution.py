"""The solution of an SVD: singular triplets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec.arrays import LEAST_SQUARE, Array, Home, HostArray, at_home, host_dtype, reciprocal, to_host
from linspec.errors import InvalidProblem, MissingCapability, shown
from linspec.solving.fields import field
from linspec.solving.linear_solution import LinearSolution
from linspec.solving.new_rows import NewRows
from linspec.solving.summary import percent
from linspec.solving.tables import table_of_columns, table_of_training_rows
from linspec.workers import brought_here

MOSTLY = 0.5
"""The least share of the means in the first component that the summary states."""

DOMINANT, FEW_COLUMNS = 0.99, 2
"""Squared weight of a column in the first component that is stated, where there are more columns than these."""


@dataclass(frozen=True, kw_only=True, repr=False)
class SVDSolution(
    LinearSolution, vector="component", residual="relative", objective="sum of squared singular values"
):
    """Leading singular triplets.

    Attributes
    ----------
    S : numpy.ndarray of shape (k,)
        Singular values in decreasing order, float64.
    Vh : array of shape (k, p)
        Right singular vectors as rows.
    U : array of shape (n, k) or None
        Left singular vectors, if the problem has left=True. For rows in blocks of other processes they stay there, as a
        dask array for dask data, otherwise as an operator.
    mean : array of shape (p,) or None
        Column means, if the problem centres.
    scale : array of shape (p,) or None
        The numbers that the columns were divided by, if the problem scales.
    confound_mean : numpy.ndarray of shape (c,) or None
        The means of the confounds, if the problem has any (0 without centring).
    slopes : array of shape (c, p) or None
        The slopes of the columns in the confounds, which are subtracted from rows.
    rows : float
        The number of rows of the data, or the sum of their weights.
    column_norms : numpy.ndarray of shape (p,) or None
        The length of each column of the (centred, scaled) data, which the sweeps of the solve compute at no extra cost.
        None for operators that only give products. `loadings` divides by it.
    total_squares : float or None
        The sum of the squares of all entries of the (centred, scaled) data, which is also the sum of the squares of all
        min(n, p) singular values. The sweeps of the solve compute the sum at no extra cost. None for operators that
        only give products, because the sum would need a product with each column of the identity. Then
        `explained_variance_ratio` is None, too; if you know the sum from elsewhere, divide ``S**2`` by the sum to get
        the ratios. The sum is 0 or infinite if squares underflow or overflow.
    share_of_means : float or None
        Without centring, the share of S[0]**2 that the column means make: 1 if the first component is the same in all
        rows. It is exact where a sweep has computed the means, and else estimated from at most 1000 evenly spread rows
        of arrays and sparse matrices; None for other data.
    total_norm : float or None
        The square root of total_squares, the Frobenius norm of the data. It is finite if the entries are finite.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> A = np.random.default_rng(0).standard_normal((200, 10)) * np.geomspace(10, 1, 10)
    >>> solution = ls.solve(ls.SVD(A, k=2, center=True))
    >>> solution.S.shape, solution.Vh.shape
    ((2,), (2, 10))
    >>> bool(np.allclose(solution.transform(A), (A - A.mean(axis=0)) @ solution.Vh.T))
    True
    """

    S: HostArray = field(value="singular value")
    Vh: Array = field(rows_of="A", axis=1, leading=True, of_scaled=True)
    U: Array | None = field(None, shape="n k", in_home=True)
    mean: Array | None = None
    scale: Array | None = None
    confound_mean: HostArray | None = None
    slopes: Array | None = None
    rows: float
    column_norms: HostArray | None = field(None, shape="A")
    total_squares: float | None = None
    total_norm: float | None = None
    share_of_means: float | None = None

    @classmethod
    def objective(cls, fields: Mapping[str, Any]) -> float:
        """The sum of the squares of the singular values."""
        with np.errstate(over="ignore"):  # a square beyond the range is infinite
            return float((fields["S"] ** 2).sum())

    @property
    def explained_variance_ratio(self) -> HostArray | None:
        """The fraction of `total_squares` in each component, shape (k,); None if `total_squares` is None.

        With centring it is the fraction of the variance, as in ``PCA`` of scikit-learn. Without centring it
        is the fraction of the sum of squares about zero. In that case ``TruncatedSVD`` of scikit-learn divides
        variances about the means, although its components contain the means; so its fractions need not decrease
        or add up to one.
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

    def _certificate(self) -> list[tuple[str, str]]:
        share = self.share_of_means or 0.0
        if share < MOSTLY:
            return super()._certificate()
        text = f"about {share:.0%} of component 1 is the column means: center=True subtracts them"
        return [*super()._certificate(), ("means", text)]

    def facts(self) -> list[tuple[str, str]]:
        """The sum of the squares, all shares together, and a column whose large unit makes up the first component."""
        facts, shares = super().facts(), self.explained_variance_ratio
        whole = "squares" if self.mean is None else "variance"
        if shares is not None and len(shares):
            facts.append((f"share of the {whole}", f"{percent(float(shares.sum()))} together"))
        weights = np.square(to_host(self.Vh[:1]).astype(np.float64)).reshape(-1)
        if (
            self.mean is None
            or self.scale is not None
            or len(weights) <= FEW_COLUMNS
            or max(weights) < DOMINANT
        ):
            return facts
        column = int(weights.argmax())
        name = shown(self.column_names.get("A", range(len(weights)))[column])
        text = f"the column {name} has {percent(float(weights[column]))} of component 1, as columns are not scaled"
        return [*facts, ("units", f"{text}: scale=True divides each by its standard deviation")]

    def explained_table(self, *_: Any, **__: Any) -> list[dict[str, Any]]:
        """The share of each component, and of the components up to it, as a row for each component."""
        shares = self.explained_variance_ratio
        whole = "of the squares" if self.mean is None else "of the variance"
        return (
            [
                {"component": i + 1, whole: percent(float(share)), "cumulative": percent(float(together))}
                for i, (share, together) in enumerate(zip(shares, np.cumsum(shares), strict=True))
            ]
            if shares is not None
            else []
        )

    @property
    def _new_rows(self) -> NewRows:
        return NewRows.of(self, "A")

    def saved_parts(self) -> dict[str, Any]:
        """All fields; left vectors in blocks of other processes are copied to this process."""
        parts = super().saved_parts()
        return parts if self.U is None else {**parts, "U": brought_here(self.U)}

    @classmethod
    def has_rows(cls, fields: Mapping[str, Any]) -> bool:
        """Whether there are left singular vectors, which have a row for each training row."""
        return fields.get("U") is not None

    @at_home
    def scores_table(  # type: ignore[override]  # one matrix, which may be left out
        self, A: Any = None, *, confounds: Any = None, library: str | None = None
    ) -> Any:
        """The scores of `transform` in a table with the labels of the rows.

        Parameters
        ----------
        A : data of shape (n, p), optional
            By default the training rows, if the solution has left singular vectors: the table is U diag(S), which
            belongs to the rows times √w if the problem had weights.
        confounds : array of shape (n, c), optional
        library : {"pandas", "polars", "pyarrow", ""}, optional
            As for `weights_table`; by default the library of A.

        Returns
        -------
        list of dict, pandas.DataFrame, polars.DataFrame or pyarrow.Table
            A column for each component. The rows are labelled by the index of a pandas frame, or by the labels passed
            to `linspec.labelled`.

        Raises
        ------
        InvalidProblem
            As for `transform`; or there are neither rows nor left singular vectors.
        """
        if A is None:
            if self.U is None or confounds is not None:
                raise InvalidProblem(
                    "scores_table needs rows A, unless the answer has left singular vectors; got "
                    f"{'confounds' if confounds is not None else 'none'}. Pass the rows, or solve SVD(..., left=True)."
                )
            return table_of_training_rows(self, to_host(brought_here(self.U)) * self.S, library)
        return super().scores_table(A, confounds=confounds, library=library)

    @at_home
    def loadings(  # type: ignore[override]  # as above
        self, A: Any = None, *, confounds: Any = None, sample_weight: Any = None
    ) -> Array:
        """The correlation of each column with each component.

        Parameters
        ----------
        A : data of shape (n, p), optional
            Rows to correlate on. By default these are the training rows, which are not read again.
        confounds : array of shape (n, c), optional
            The confounds of the rows A, if the problem had any: their effect in these rows is subtracted.
        sample_weight : array of shape (n,), optional
            How often each of the rows A counts.

        Returns
        -------
        array of shape (p, k)
            Between -1 and 1; 0 for a column that does not vary. Without centring they are cosines about the origin.

        Raises
        ------
        InvalidProblem
            If the rows do not have the columns of the training data, or confounds or weights come without rows.
        MissingCapability
            For operators that are known by their products only.

        Notes
        -----
        On the training rows the correlation of column j with component i is Sᵢ Vᵢⱼ / ‖aⱼ‖, because AᵀA vᵢ = Sᵢ² vᵢ and
        ‖A vᵢ‖ = Sᵢ; aⱼ is the adjusted column (centred, weighted, confounds subtracted), and its length is in
        `column_norms`. So the squares of a row add up to the share of the column that the components explain
        (Jolliffe 2002, Principal Component Analysis, section 2.3, doi:10.1007/b98835). They are as accurate as the
        triplets.
        """
        if A is not None:
            return super().loadings(A, confounds=confounds, sample_weight=sample_weight)
        if confounds is not None or sample_weight is not None:
            raise InvalidProblem("confounds and sample_weight belong to rows; got no rows. Pass A, too.")
        if self.column_norms is None:
            raise MissingCapability(
                "loadings need the lengths of the columns, which are unknown for data that only give products. Pass "
                "rows, as an array, a sparse matrix, a file or slices."
            )
        over = reciprocal(self.column_norms)
        V = np.asarray(to_host(self.Vh), dtype=np.float64).T
        found = np.clip(over[:, None] * V * self.S, -1.0, 1.0)
        return Home.of(self.Vh).place(found, host_dtype(self.Vh))

    @at_home
    def loadings_table(  # type: ignore[override]  # as above
        self, A: Any = None, *, confounds: Any = None, sample_weight: Any = None, library: str | None = None
    ) -> Any:
        """The correlations of `loadings` in a table, with the names of the columns.

        Parameters
        ----------
        A : data of shape (n, p), optional
        confounds : array of shape (n, c), optional
        sample_weight : array of shape (n,), optional
            As for `loadings`.
        library : {"pandas", "polars", "pyarrow", ""}, optional
            As for `weights_table`.

        Returns
        -------
        list of dict, pandas.DataFrame, polars.DataFrame or pyarrow.Table
            A row for each column of the data, and a column for each component.

        Examples
        --------
        >>> import numpy as np
        >>> import linspec as ls
        >>> ls.solve(ls.SVD(np.diag([3.0, 2.0]), k=1)).loadings_table()
        [{'column': 0, 'component1': 1.0}, {'column': 1, 'component1': 0.0}]
        """
        found = self.loadings(A, confounds=confounds, sample_weight=sample_weight)
        return table_of_columns(self, "A", found, library, A)

    @at_home
    def inverse_transform(self, scores: Any, *, confounds: Any = None) -> Array:
        """Compute the rows in the subspace with the given scores: scores times `Vh`, plus the training means.

        ``inverse_transform(transform(A))`` is the projection of the rows on the subspace: for the training rows, the
        nearest matrix of rank k about the means.

        Parameters
        ----------
        scores : data of shape (n, k)
            Any kind of data that `linspec.as_operator` accepts.
        confounds : array of shape (n, c), optional
            The confounds of these rows, if the problem had any. Their effect is added.

        Returns
        -------
        array of shape (n, p)
            In the library, on the device and in the working dtype of the scores.

        Raises
        ------
        InvalidProblem
            If the number of columns of the scores is not the number of rows of `Vh`.
        """
        return self._new_rows.restored(scores, self.Vh, "scores", confounds)
