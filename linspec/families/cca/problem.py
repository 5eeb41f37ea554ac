"""Canonical correlations: the problem and its answer; `certificate` judges it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as plain_field
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from linspec.arrays import Array, HostArray, largest_magnitude, to_host, with_device
from linspec.errors import InvalidProblem, MissingCapability
from linspec.families.cca import certificate
from linspec.families.cca.variates import CCAScore, score_views
from linspec.frames import check_order
from linspec.process.plurals import count_of
from linspec.rows import Moments
from linspec.solving import fields
from linspec.solving.fields import count, field, flag, matrix
from linspec.solving.linear_solution import LinearSolution, Loadings, as_several, single_or_several
from linspec.solving.new_rows import NewRows
from linspec.solving.problem import Problem
from linspec.solving.tables import table_of_rows
from linspec.workers import brought_here

OTHER = {"X": "Y", "Y": "X"}


@dataclass(frozen=True, kw_only=True, repr=False)
class CCASolution(LinearSolution, vector="pair", score="total correlation captured", residual="squared"):
    """Canonical pairs.

    Attributes
    ----------
    x_weights, y_weights : array of shape (p, k), (q, k)
        Canonical weights, of unit length in the metric of XᵀX + ridge (YᵀY + ridge).
    correlations : numpy.ndarray of shape (k,)
        Canonical correlations in decreasing order, with the ridge of the problem, float64.
    x_mean, y_mean : array or None
        Column means, if the problem centres.
    x_scale, y_scale : array or None
        The numbers that the columns were divided by, if the problem scales. The weights belong to the undivided
        columns.
    confound_mean : numpy.ndarray of shape (c,) or None
        The means of the confounds, if the problem has any (0 without centring).
    x_slopes, y_slopes : array of shape (c, p), (c, q), or None
        The slopes of the columns in the confounds, which are subtracted from rows.
    x_from_x, y_from_x : array of shape (p, k), (q, k), or None
        Coefficients of the columns of X (of Y) on the variates P of X, by least squares on the training rows and
        without a ridge: XᵀP(PᵀP)⁻¹ and YᵀP(PᵀP)⁻¹. `inverse_transform` and `predict` multiply by them.
    x_from_y, y_from_y : array of shape (p, k), (q, k), or None
        The coefficients on the variates of Y.
    residuals : numpy.ndarray of shape (k,)
        For each pair the squared length ‖ϱᵢ‖² of the residual ϱᵢ = (Cψᵢ − ρᵢ Sx φᵢ, Cᵀφᵢ − ρᵢ Sy ψᵢ) in the norm of
        S⁻¹. S is the block diagonal matrix of Sx = XᵀX + ridge·I and Sy = YᵀY + ridge·I. `residual` is Σ‖ϱᵢ‖² / Σρᵢ.
        `residual_kind` names how the norm was computed. "exact": by a factor of S. "sketched": by a factor of a random
        sketch of the rows, and never too small but by rare chance. "preconditioned": by a preconditioner of S, within a
        factor of about two.
    bounds : numpy.ndarray of shape (k,) or None
        For each correlation a distance within which there is an exact correlation; None if there is no bound
        (ridge 0 with the norm of a preconditioner, or directions of the data that the solve has left out).
    loss_estimate : float or None
        The estimated fraction of the exact sum of the k largest correlations that is missing: about Σ‖ϱᵢ‖²/(2gᵢ) over
        Σρᵢ, where gᵢ is the difference between ρᵢ and the next correlation; and at least what a search for larger ones
        has found. None if the next correlation is not known.
    ranks : tuple of int or None
        Numerical ranks of the two views, if the solver determines them.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.standard_normal((200, 6)), rng.standard_normal((200, 5))
    >>> Y[:, 0] += X[:, 0]
    >>> solution = ls.solve(ls.CCA(X, Y, k=2))
    >>> solution.x_weights.shape, solution.y_weights.shape
    ((6, 2), (5, 2))
    >>> U, V = solution.transform(X, Y)
    >>> bool(np.isclose(np.corrcoef(U[:, 0], V[:, 0])[0, 1], solution.correlations[0]))
    True
    """

    x_weights: Array = field(rows_of="X", leading=True)
    y_weights: Array = field(rows_of="Y", leading=True)
    correlations: HostArray = field(value="canonical correlation", at_most=1.0)
    residuals: HostArray = field(shape="k")
    x_mean: Array | None = None
    y_mean: Array | None = None
    x_scale: Array | None = None
    y_scale: Array | None = None
    confound_mean: HostArray | None = None
    x_slopes: Array | None = None
    y_slopes: Array | None = None
    x_from_x: Array | None = field(None, rows_of="X")
    y_from_x: Array | None = field(None, rows_of="Y")
    x_from_y: Array | None = field(None, rows_of="X")
    y_from_y: Array | None = field(None, rows_of="Y")
    bounds: HostArray | None = field(None, shape="k")
    loss_estimate: float | None = None
    ranks: tuple[int, int] | None = None

    def _headline(self) -> str:
        total = float(self.correlations.sum())
        return f"{count_of(len(self.correlations), 'correlation')}{self._with_ridge}, sum {total:.6f}"

    def _about_ridge(self) -> str:
        return f"{super()._about_ridge()}, which shrinks it; score(X, Y) is without"

    def _per_component(self) -> dict[str, Any]:
        columns = {**super()._per_component(), "residual": self.residuals}
        return columns if self.bounds is None else {**columns, "bound": self.bounds}

    @with_device
    def predict(self, X: Any = None, Y: Any = None, *, confounds: Any = None) -> Any:
        """Predict the other view of rows by least squares on their variates.

        For rows of X it is Ŷ = ȳ + P B with the variates P of these rows and B = (PᵀP)⁻¹PᵀY of the training rows. It is
        a regression of rank k. The ridge of the problem determines the variates and does not shrink B.

        Parameters
        ----------
        X, Y : data of shape (n, p), (n, q), optional
            Any kind of data that `linspec.as_operator` accepts.
        confounds : array of shape (n, c), optional
            The confounds of these rows, if the problem had any. Their effect is part of the prediction.

        Returns
        -------
        array of shape (n, q) for X, (n, p) for Y, or a pair of both when both are given
            In the library, on the device and in the working dtype of these rows.

        Raises
        ------
        InvalidProblem
            If the rows do not have the columns of the training data, or neither X nor Y is passed.
        MissingCapability
            If the solution has no coefficients (`y_from_x`, `x_from_y`).

        Examples
        --------
        >>> import numpy as np
        >>> import linspec as ls
        >>> rng = np.random.default_rng(0)
        >>> shared = rng.standard_normal((300, 2))
        >>> X = shared @ rng.standard_normal((2, 5)) + 0.1 * rng.standard_normal((300, 5))
        >>> Y = shared @ rng.standard_normal((2, 4)) + 0.1 * rng.standard_normal((300, 4))
        >>> solution = ls.solve(ls.CCA(X[:200], Y[:200], k=2))
        >>> error = Y[200:] - solution.predict(X[200:])
        >>> bool((error**2).sum() < 0.05 * (Y[200:] ** 2).sum())
        True
        """
        operators = self._operators("predict", (X, Y), {}, confounds=confounds)
        variates = as_several(self.transform(**operators, confounds=confounds))
        return single_or_several(
            [
                self._combined(P, name, OTHER[name], confounds)
                for name, P in zip(operators, variates, strict=True)
            ]
        )

    @with_device
    def predictions_table(
        self, X: Any = None, Y: Any = None, *, confounds: Any = None, library: str | None = None
    ) -> Any:
        """Make tables of the predictions of `predict`, with the names of the columns and the labels of the rows.

        Parameters
        ----------
        X, Y, confounds
            As for `predict`, like the errors.
        library : {"pandas", "polars", "pyarrow", ""}, optional
            As for `weights_table`; by default the library of the rows.

        Returns
        -------
        list of dict, pandas.DataFrame, polars.DataFrame or pyarrow.Table, or a pair of them when both are given
            For rows of X a table with a column for each column of Y, and for rows of Y one with a column for each
            column of X. Columns without names are "target1", "target2" and so on.

        Examples
        --------
        >>> import numpy as np
        >>> import linspec as ls
        >>> X = np.random.default_rng(0).standard_normal((60, 2))
        >>> solution = ls.solve(ls.CCA(X, ls.labelled(2 * X, columns=["sales", "costs"])))
        >>> list(solution.predictions_table(X[:1], library="")[0])
        ['sales', 'costs']
        """
        passed, tables = self._passed("predictions_table", (X, Y), {}), []
        predicted = as_several(self.predict(**passed, confounds=confounds))
        for (name, rows), prediction in zip(passed.items(), predicted, strict=True):
            values = to_host(brought_here(prediction))
            names = self.column_names.get(OTHER[name]) or [f"target{i + 1}" for i in range(values.shape[1])]
            tables.append(table_of_rows(self, dict(zip(names, values.T, strict=True)), rows, library))
        return single_or_several(tables)

    @with_device
    def inverse_transform(self, X: Any = None, Y: Any = None, *, confounds: Any = None) -> Any:
        """Estimate rows of a view from their variates by least squares: X̂ = x̄ + P (PᵀP)⁻¹PᵀX.

        ``inverse_transform(transform(X))`` is the part of the rows that their variates explain. Products with the
        transposed weights, or with their pseudo-inverse, give another result unless the columns are uncorrelated.

        Parameters
        ----------
        X, Y : data of shape (n, k), optional
            Variates of rows of X, of rows of Y, or of both.
        confounds : array of shape (n, c), optional
            The confounds of these rows, if the problem had any. Their effect is added.

        Returns
        -------
        array of shape (n, p) for X, (n, q) for Y, or a pair of both when both are given
            In the library, on the device and in the working dtype of these variates.

        Raises
        ------
        InvalidProblem
            If there are not k columns, or neither X nor Y is passed.
        MissingCapability
            If the solution has no coefficients (`x_from_x`, `y_from_y`).
        """
        check_order({"X": X, "Y": Y, "confounds": confounds})
        passed = self._passed("inverse_transform", (X, Y), {})
        return single_or_several([self._combined(P, name, name, confounds) for name, P in passed.items()])

    def _combined(self, scores: Any, name: str, to: str, confounds: Any) -> Array:
        """Compute rows of X or Y: variates times coefficients, plus the means and confound effects."""
        field = f"{to.lower()}_from_{name.lower()}"
        coefficients = getattr(self, field)
        if coefficients is None:
            raise MissingCapability(
                f"this needs the coefficients {field} of a solution; got None, so the certificate of linspec.CCA has "
                "not made this solution. Solve the problem with linspec.solve."
            )
        return NewRows.of(self, to).restored(scores, coefficients.T, f"the variates of {name}", confounds)

    @with_device
    def score(self, X: Any, Y: Any, *, confounds: Any = None) -> CCAScore:
        """Compute the correlations of the variates on rows, usually on new rows.

        The correlations are computed about the training means and without the ridge of the problem.
        `linspec.metrics.tcc` computes the same total with a ridge, or for other weights.

        Parameters
        ----------
        X, Y : data of shape (n, p), (n, q)
            Matching rows: anything that `linspec.as_operator` accepts, including row slices. Each view is
            read once; sparse rows stay sparse.
        confounds : array of shape (n, c), optional
            The confounds of these rows, if the problem had any: their effect, as learnt from the training rows, is
            subtracted.

        Returns
        -------
        CCAScore
            ``correlations`` of shape (k,), one for each pair; ``total``, their sum after the best rotation; and
            ``rows``. It unpacks: ``correlations, total = solution.score(X, Y)``.

        Raises
        ------
        InvalidProblem
            If the number of columns differs from the training data, there are no rows, or X and Y have different
            numbers of rows.
        NonFiniteData
            If the variates contain NaN or infinity.
        UnsupportedData
            If X and Y are in different libraries or on different devices.

        Examples
        --------
        >>> import numpy as np
        >>> import linspec as ls
        >>> rng = np.random.default_rng(0)
        >>> shared = rng.standard_normal((600, 1))
        >>> X, Y = shared + rng.standard_normal((600, 5)), shared + rng.standard_normal((600, 4))
        >>> solution = ls.solve(ls.CCA(X[:400], Y[:400], k=2))
        >>> correlations, total = solution.score(X[400:], Y[400:])
        >>> bool(correlations[0] > 0.7), bool(abs(correlations[1]) < 0.3)
        (True, True)
        """
        return score_views(self, X, Y, centered=self._centers, confounds=confounds)

    @with_device
    def cross_loadings(
        self, X: Any, Y: Any, *, confounds: Any = None, sample_weight: Any = None
    ) -> tuple[Array, Array]:
        """Compute the correlation of each column of a view with each variate of the other view.

        Parameters
        ----------
        X, Y : data of shape (n, p), (n, q)
            The training rows or other rows. If the problem centres, the means of these rows are subtracted.
        confounds : array of shape (n, c), optional
            The confounds of these rows, if the problem had any: their effect in these rows is subtracted.
        sample_weight : array of shape (n,), optional
            How often each row counts.

        Returns
        -------
        pair of arrays of shapes (p, k) and (q, k)
            Correlations of the columns of X with the variates of Y, and of the columns of Y with the variates of X; 0
            for a column that does not vary.

        Raises
        ------
        InvalidProblem, MissingCapability
            As for `loadings`.

        Notes
        -----
        On the training rows with ridge 0 the cross-loadings equal the loadings times the correlations of the pairs.
        """
        of_x, of_y = self._related("cross_loadings", X, Y, confounds, sample_weight, crossed=True)
        return of_x.given_back, of_y.given_back

    def _related(
        self, method: str, X: Any, Y: Any, confounds: Any, sample_weight: Any, *, crossed: bool = False
    ) -> list[Loadings]:
        """Correlate the columns of the passed views with their variates, or with those of the other view."""
        operators = self._operators(method, (X, Y), {}, confounds=confounds, sample_weight=sample_weight)
        if crossed and len(operators) < len(OTHER):
            raise InvalidProblem(f"{method} needs the rows of both views; got one. Pass X and Y.")
        return self._loadings_of(operators, confounds, sample_weight, crossed=crossed)

    @with_device
    def variance_extracted(
        self, X: Any = None, Y: Any = None, *, confounds: Any = None, sample_weight: Any = None
    ) -> Any:
        """The share of the variance of a view that each of its own variates explains.

        Parameters
        ----------
        X, Y, confounds, sample_weight
            As for `loadings`.

        Returns
        -------
        numpy.ndarray of shape (k,), or a pair of them when both views are given
            Means of the squared loadings over the columns that vary; all columns count equally, whatever their units.

        Raises
        ------
        InvalidProblem, MissingCapability
            As for `loadings`.

        Notes
        -----
        Source: Stewart & Love 1968, Psychological Bulletin 70:160, doi:10.1037/h0026143. The shares of several
        variates add up if the variates are uncorrelated, as on the training rows with ridge 0.
        """
        loadings = self._related("variance_extracted", X, Y, confounds, sample_weight)
        return single_or_several([part.mean_squares for part in loadings])

    @with_device
    def redundancy(
        self, X: Any, Y: Any, *, confounds: Any = None, sample_weight: Any = None
    ) -> tuple[HostArray, HostArray]:
        """Redundancy indices: the share of the variance of a view that each variate of the other view explains.

        Parameters
        ----------
        X, Y, confounds, sample_weight
            As for `cross_loadings`.

        Returns
        -------
        pair of numpy.ndarray of shape (k,)
            Indices of X given the variates of Y, and of Y given the variates of X: means of the squared cross-loadings
            over the columns that vary.

        Raises
        ------
        InvalidProblem, MissingCapability
            As for `loadings`.

        Notes
        -----
        Source: Stewart & Love 1968, Psychological Bulletin 70:160, doi:10.1037/h0026143. Their index is the variance
        extracted times the squared correlation. On the training rows with ridge 0, this product equals the mean of the
        squared cross-loadings. On other rows, and with a ridge, the two numbers differ, and only the mean of the
        squared cross-loadings is a share of variance. So this mean is returned.

        Examples
        --------
        >>> import numpy as np
        >>> import linspec as ls
        >>> rng = np.random.default_rng(0)
        >>> X, Y = rng.standard_normal((100, 4)), rng.standard_normal((100, 3))
        >>> solution = ls.solve(ls.CCA(X, Y))
        >>> of_x, of_y = solution.redundancy(X, Y)
        >>> bool(np.allclose(of_x, solution.variance_extracted(X) * solution.correlations**2))
        True
        """
        of_x, of_y = self._related("redundancy", X, Y, confounds, sample_weight, crossed=True)
        return of_x.mean_squares, of_y.mean_squares

    @with_device
    def supported(self, level: Any = 0.0) -> int:
        """The number of leading pairs whose correlations are certified to be above a level.

        A pair counts if its correlation minus its error is above the level, and if all pairs before it count.
        The error is in `bounds`, a bound of the distance to the nearest exact correlation. If there are no
        bounds (ridge 0), it is the estimate √(`residuals` / 2) of this distance.

        Parameters
        ----------
        level : float, default 0.0
            The level to compare with, such as the largest correlation due to chance
            (`linspec.null_correlations`).

        Returns
        -------
        int
            Between 0 and k.

        Raises
        ------
        InvalidProblem
            If the level is not a number.

        Notes
        -----
        The exact correlations are those of the same rows. The i-th returned correlation is at most the i-th exact one
        (up to rounding), because all solvers of linspec return the canonical pairs within the spans of their weights.
        So at least as many exact correlations as counted here are above the level. The count says nothing about
        other rows: use `score` and `linspec.permutation_test` to find how many pairs other rows would have.
        """
        if isinstance(level, bool) or not isinstance(level, int | float | np.number) or np.isnan(level):
            raise InvalidProblem(f"level must be a number; got {level!r}.")
        errors = np.sqrt(self.residuals / 2) if self.bounds is None else self.bounds
        above = self.correlations - errors > level
        return int(np.cumprod(above).sum())


@dataclass(frozen=True, eq=False, repr=False)
class CCA(Problem[CCASolution]):
    """The k leading canonical pairs of two views.

    With Sx = XᵀX + ridge·I, Sy likewise and C = XᵀY: the k leading singular values of
    Sx^(-1/2) C Sy^(-1/2) are the correlations, and the weights have unit length in Sx and Sy.

    Parameters
    ----------
    X : data of shape (n, p), or Moments
        Anything that `linspec.as_operator` accepts. Moments of two views replace both X and Y.
    Y : data of shape (n, q)
        The second view. Each view is multiplied in the dtype of its own data. If one view is float32 and the other
        float64, the solution has the precision of float32. Bools and integers are multiplied in float64 if the other
        view is float64.
    k : int, optional
        The number of pairs, at most min(n, p, q). The default is min(n, p, q) if that is at most 4096. If the
        numerical ranks of the views are lower, fewer pairs are returned.
    ridge : float or pair of floats, default 0.0
        The ridges, which are added to the unnormalised Gram matrices of X and Y. A penalty λ on XᵀX/n is a
        ridge of nλ.
    center : bool, default True
        Whether to centre the columns; sparse data stay sparse.
    scale : bool, default False
        Whether to divide each column by its root mean square after means and confounds are subtracted; with `center`
        this is its standard deviation.
    sample_weight : array of shape (n,), optional
        How often each row counts: zero or more, and 0 leaves a row out. The row count n becomes their sum.
    confounds : array of shape (n, c) or (n,), optional
        Variables whose linear effect is subtracted from every column of both views, together with the means if
        `center`. Sparse data stay sparse.

    Notes
    -----
    Residual: Σ‖ϱᵢ‖² / Σρᵢ. The vector ϱᵢ has the two parts Cψᵢ − ρᵢ Sx φᵢ and Cᵀφᵢ − ρᵢ Sy ψᵢ. ‖ϱᵢ‖² is the squared
    length of the first part in the norm of Sx⁻¹ plus that of the second part in the norm of Sy⁻¹. This is the norm of
    S⁻¹ for the block diagonal matrix S = diag(Sx, Sy).

    Loss: let gᵢ be the gap, the difference between ρᵢ and the largest correlation that was left out. The sum of the
    returned correlations is then smaller than the exact sum by about Σ‖ϱᵢ‖²/(2gᵢ). `linspec.families.cca.certificate`
    explains what is proved.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> shared = rng.standard_normal((1000, 2)) * [2.0, 1.0]
    >>> X = shared @ rng.standard_normal((2, 20)) + rng.standard_normal((1000, 20))
    >>> Y = shared @ rng.standard_normal((2, 15)) + rng.standard_normal((1000, 15))
    >>> problem = ls.CCA(X, Y, k=2, ridge=1.0)
    >>> solution = ls.solve(problem)
    >>> solution.correlations.round(3)
    array([0.988, 0.919])
    >>> solution.status
    <Status.CONVERGED: 'The residual of the returned arrays is at or below the tolerance.'>
    """

    X: Any = matrix("two views")
    Y: Any = matrix("two views")
    k: Any = count("canonical pairs", optional=True)
    ridge: Any = fields.ridge(
        each=True, help="Added to the diagonals of XᵀX and YᵀY, which are not divided by the number of rows."
    )
    center: bool = flag(True)
    scale: bool = flag(False, kw_only=True)
    sample_weight: Any = plain_field(default=None, kw_only=True)
    confounds: Any = plain_field(default=None, kw_only=True)

    name: ClassVar[str] = "cca"
    proves_completeness: ClassVar[bool] = True
    held_out_scores: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "correlations": "linspec.families.cca.captured:SumOfCorrelations",
            "tcc": "linspec.families.cca.captured:TotalCaptured",
        }
    )

    def for_preprocessed(self, moments: Moments, arrays: Mapping[str, Any]) -> Mapping[str, Any]:
        """The weights to start from; their lengths do not matter, so extremely large or small ones are rescaled."""
        weights = super().for_preprocessed(moments, arrays)
        return {name: W * 2.0 ** -math.frexp(largest_magnitude(W))[1] for name, W in weights.items()}

    certify = certificate.certify
