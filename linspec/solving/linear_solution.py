"""Answers whose weights multiply the rows of matrices: scores of rows, loadings of columns, and tables of both.

Some answers predict targets. The certificate knows the squares of residuals, since it judges them, and the first pass
learns those of the targets about their means: R² costs no pass, and is kept with the answer.

Some of these predict Y from X by components, where the first components alone predict, too: the coefficients of the
first k components are the first k columns of R times those of Q, transposed. A prediction is one product of the rows,
adjusted as the training rows were.

Weights show how a component is computed, and not which columns it is related to: columns that vary together share one
weight, and each of them is correlated with the component. With the Gram matrix S of the rows, less their means and what
confounds explain of them,

    the correlation of column j with the component of the weights w is (Sw)ⱼ / √(Sⱼⱼ wᵀSw),    (1)

and its squares are averaged over the columns that vary (variance extracted, redundancy). One pass multiplies weights by
S and sums the squares Sⱼⱼ.

Source: Thompson 1984, Canonical Correlation Analysis, doi:10.4135/9781412983570 (structure coefficients); Stewart &
Love 1968, Psychological Bulletin 70:160, doi:10.1037/h0026143 (means of squares).
Where we differ: no variate of n rows is made where the components are linear.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from linspec.arrays import Array, Device, HostArray, is_array, reciprocal, to_host, with_device
from linspec.errors import InvalidProblem, MissingCapability, printable
from linspec.frames import check_order
from linspec.linalg import r_squared
from linspec.operators import LinearOperator, as_operator
from linspec.operators.weights import weights_and_confounds
from linspec.rows import Moments, Passes, Preprocessing
from linspec.solving.annotated import (
    annotated_rows,
    check_data_arrays,
    data_set_of,
    write_annotated,
)
from linspec.solving.checks import check_device
from linspec.solving.fields import view_names
from linspec.solving.new_rows import NewRows
from linspec.solving.prediction_score import score_of_predictions
from linspec.solving.solution import Solution, weights_by_matrix
from linspec.solving.tables import FEW, check_columns, some_of, table_of_columns, table_of_rows
from linspec.workers import brought_here


class LinearSolution(Solution):
    """Base class of answers whose weights multiply rows; the declared fields give `transform` and tables.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import linspec as ls
    >>> from linspec.arrays import Array, HostArray
    >>> @dataclass(frozen=True, kw_only=True, repr=False)
    ... class Pairs(ls.LinearSolution, vector="pair"):
    ...     x_weights: Array = ls.field(rows_of="X", leading=True)
    ...     y_weights: Array = ls.field(rows_of="Y", leading=True)
    ...     covariances: HostArray = ls.field(value="covariance")
    >>> Pairs.layout.means
    {'X': 'x_mean', 'Y': 'y_mean'}
    """

    @with_device
    def transform(self, *rows: Any, confounds: Any = None, **named: Any) -> Any:
        """Compute scores of rows: the rows, less what the problem subtracts from training rows, times the weights.

        Parameters
        ----------
        *rows : data
            Rows of each matrix with weights, in the order of the problem; None for a matrix without. If the problem
            takes any number of views, a list of views.
        confounds : array of shape (n, c), optional
            The confounds of these rows, if the problem had any: their effect, as learnt from the training rows, is
            subtracted.
        **named : data
            The same rows by the names of their matrices: ``transform(Y=rows)``.

        Returns
        -------
        array of shape (n, k), or a tuple of them
            For one matrix its scores, for several a tuple of scores.

        Raises
        ------
        InvalidProblem
            There are no rows, or they do not fit the training data.
        """
        operators = self._operators("transform", rows, named, confounds=confounds)
        weights = weights_by_matrix(self)
        scores = []
        for name, data in operators.items():
            W, axis = weights[name]
            new_rows = NewRows.of(self, name)
            scores.append(new_rows.images(data, W.T if axis else W, name, confounds))
        return single_or_several(scores)

    @with_device
    def scores_table(
        self, *rows: Any, confounds: Any = None, library: str | None = None, **named: Any
    ) -> Any:
        """Make tables of the scores of `transform`, with the labels of the rows.

        Parameters
        ----------
        *rows, confounds, **named
            As for `transform`.
        library : {"pandas", "polars", "pyarrow", ""}, optional
            As for `weights_table`; by default the library of the rows.

        Returns
        -------
        list of dict, pandas.DataFrame, polars.DataFrame or pyarrow.Table, or a tuple of them for several matrices
            A column for each component. The index of a pandas frame labels the rows.
        """
        passed = self._operators("scores_table", rows, named)
        scores = self.transform(**passed, **({} if confounds is None else {"confounds": confounds}))
        pairs = zip(as_several(scores), passed.values(), strict=True)
        return single_or_several([table_of_rows(self, part, data, library) for part, data in pairs])

    @with_device
    def loadings(self, *rows: Any, confounds: Any = None, sample_weight: Any = None, **named: Any) -> Any:
        """Compute structure correlations, of each column of a matrix with each of its scores.

        Weights show how a score is computed. If columns are similar, their weights may have any sign and
        size. Loadings show how the score is related to the columns.

        Parameters
        ----------
        *rows : data of shape (n, p)
            The training rows or other rows, as for `transform`. If the problem centres, the means of these
            rows are subtracted. Slices are read once, or twice if their first rows are far from the means.
        confounds : array of shape (n, c), optional
            The confounds of these rows, if the problem had any: their effect in these rows is subtracted.
        sample_weight : array of shape (n,), optional
            How often each row counts.
        **named : data
            The same rows by the names of their matrices.

        Returns
        -------
        array of shape (p, k), or a tuple of them for several matrices
            Between -1 and 1; 0 for a column that does not vary.

        Raises
        ------
        InvalidProblem
            If the rows do not have the columns of the training data, or no rows are passed.
        MissingCapability
            If an operator is known only by its products.
        """
        operators = self._operators("loadings", rows, named, confounds=confounds, sample_weight=sample_weight)
        loadings = self._loadings_of(operators, confounds, sample_weight)
        return single_or_several([part.given_back for part in loadings])

    def _loadings_of(
        self, operators: dict[str, Any], confounds: Any, sample_weight: Any, *, crossed: bool = False
    ) -> list[Loadings]:
        """Correlate the columns of the passed rows with their scores, or with those of the other matrix."""
        for name, data in operators.items():
            check_columns(self, name, data)
            training = NewRows.of(self, name)
            NewRows(slopes=training.slopes, confound_names=training.confound_names).confounds_less_mean(
                confounds, {}
            )
        weights = []
        for name in operators:
            W, axis = weights_by_matrix(self)[name]
            scale = NewRows.of(self, name).scale  # of weights that belong to scaled columns
            W = W.T if axis else W
            weights.append(W if scale is None else W * reciprocal(scale)[:, None])
        rows = {"center": self._centers, "confounds": confounds, "sample_weight": sample_weight}
        if crossed:
            return loadings_of(operators, weights, crossed=True, **rows)
        pairs = zip(operators.items(), weights, strict=True)
        return [loadings_of({name: data}, [W], **rows)[0] for (name, data), W in pairs]

    @with_device
    def loadings_table(
        self,
        *rows: Any,
        confounds: Any = None,
        sample_weight: Any = None,
        library: str | None = None,
        **named: Any,
    ) -> Any:
        """Make tables of the structure correlations of `loadings`, with the names of the columns.

        Parameters
        ----------
        *rows, confounds, sample_weight, **named
            As for `loadings`.
        library : {"pandas", "polars", "pyarrow", ""}, optional
            As for `weights_table`.

        Returns
        -------
        list of dict, pandas.DataFrame, polars.DataFrame or pyarrow.Table, or a tuple of them for several matrices
            A row for each column of the matrix, and a column for each component.
        """
        passed = self._operators("loadings_table", rows, named)
        loadings = self.loadings(
            sample_weight=sample_weight, **passed, **({} if confounds is None else {"confounds": confounds})
        )
        pairs = zip(as_several(loadings), passed.items(), strict=True)
        return single_or_several(
            [table_of_columns(self, name, part, library, data) for part, (name, data) in pairs]
        )

    # ---- answers beside the data ----------------------------------------------------------------

    @with_device
    def write_to(
        self, *annotated: Any, key: str = "", layer: str | None = None, confounds: Any = None, **named: Any
    ) -> None:
        """Write scores, weights and loadings into the AnnData of the rows, for scanpy and other tools.

        Parameters
        ----------
        *annotated : AnnData
            The rows of each matrix, as for `transform`; of a CCA two, and each gets what belongs to its view. If the
            variables of the answer have names, they are looked up, so there may be more variables, in any order.
        key : str, optional
            The name of the answer. By default that of the problem, such as "cca", and "pca" for an SVD with
            ``center=True``.
        layer : str, optional
            The layer with the rows; by default X.
        confounds : array of shape (n, c), optional
        **named : AnnData
            The same by the names of their matrices.

        Raises
        ------
        UnsupportedData
            What is passed is no AnnData, or a view, in which nothing would stay.
        InvalidProblem
            The variables are not those of the answer, or there is no such layer.

        Notes
        -----
        Scores are in ``obsm["X_KEY"]``, weights in ``varm["KEY_weights"]``, structure correlations in
        ``varm["KEY_loadings"]``, and the values of the components in ``uns["KEY"]``; what is there is replaced.
        Variables without a part in the answer have weight 0 and loading NaN. Principal components have the names of
        scanpy: ``obsm["X_pca"]``, ``varm["PCs"]``, ``uns["pca"]["variance_ratio"]``. An AnnData that is backed by a
        file gets them in memory; its own ``write`` saves them. The rows are read twice.

        Examples
        --------
        >>> import numpy as np
        >>> import linspec as ls
        >>> solution = ls.solve(ls.SVD(np.diag([3.0, 2.0]), k=1, center=True))
        >>> solution.write_to(np.diag([3.0, 2.0]))  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        linspec.errors.UnsupportedData: write_to must be given an AnnData for A that is no view; got a ndarray. Pass ...
        """
        passed = self._passed("write_to", annotated, named)
        rows = annotated_rows(self, passed, layer)
        names, values = self._annotation(key)
        for matrix, part in zip(rows, self._parts(rows, confounds), strict=True):
            write_annotated(passed[matrix], names, part, rows[matrix])
            passed[matrix].uns[names["values"]] = dict(values)

    @with_device
    def to_xarray(self, *rows: Any, confounds: Any = None, **named: Any) -> Any:
        """Put scores, weights and loadings over the coordinates of rows that are DataArrays of xarray.

        Parameters
        ----------
        *rows : DataArray of shape (n, p)
            The rows of each matrix, as for `transform`.
        confounds : array of shape (n, c), optional
        **named : DataArray
            The same by the names of their matrices.

        Returns
        -------
        xarray.Dataset, or a tuple of them for several matrices
            ``scores`` along the dimension of the rows; ``weights`` and ``loadings`` along that of the columns; the
            values of the components, such as ``explained_variance_ratio``. Components are numbered from 1 along
            their own dimension. Stacked dimensions stay stacked until ``unstack`` is called. The rows are read twice.

        Raises
        ------
        UnsupportedData
            The rows are no DataArray with two dimensions.

        Examples
        --------
        >>> import numpy as np
        >>> import linspec as ls
        >>> ls.solve(ls.SVD(np.eye(2), k=1)).to_xarray(np.eye(2))  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        linspec.errors.UnsupportedData: to_xarray must be given a DataArray of xarray with two dimensions for A; ...
        """
        passed = self._passed("to_xarray", rows, named)
        check_data_arrays(passed)
        parts = self._parts(self._operators("to_xarray", rows, named), confounds)
        pairs = zip(passed.values(), parts, strict=True)
        return single_or_several(
            [data_set_of(data, self.layout.component, self._values, part) for data, part in pairs]
        )

    @property
    def _values(self) -> dict[str, Any]:
        """The numbers of each component that `summary` shows, by names without spaces."""
        columns = self._per_component().items()
        return {name.replace(" ", "_"): np.asarray(column) for name, column in columns}

    def _annotation(self, key: str) -> tuple[dict[str, str], dict[str, Any]]:
        """Return the names of the parts of the answer in an AnnData, and the values of its components."""
        key = key or self.problem.replace("-", "_")
        names = {"scores": f"X_{key}", "weights": f"{key}_weights", "loadings": f"{key}_loadings"}
        return {**names, "values": key}, self._values

    def _parts(self, rows: Mapping[str, LinearOperator], confounds: Any) -> list[dict[str, Array]]:
        """Return scores, loadings and weights of each of the passed matrices, by these names."""
        auxiliary = {} if confounds is None else {"confounds": confounds}
        scores, loadings = (as_several(make(**rows, **auxiliary)) for make in (self.transform, self.loadings))
        known, parts = weights_by_matrix(self), []
        for matrix, *arrays in zip(rows, scores, loadings, strict=True):
            part = dict(zip(("scores", "loadings"), arrays, strict=True))
            if matrix in known:
                W, axis = known[matrix]
                part["weights"] = W.T if axis else W
            parts.append(part)
        return parts

    # ---- rows as they are passed ----------------------------------------------------------------

    def _passed(self, method: str, rows: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        """Return the passed rows by matrix."""
        known = self._matrices
        if len(rows) == 1 and isinstance(rows[0], list | tuple) and known == view_names(len(known)):
            rows = tuple(rows[0])
        positional = dict(zip(known, rows, strict=False))
        passed = {name: data for name, data in {**positional, **named}.items() if data is not None}
        strange = len(rows) > len(known) or named.keys() - {*known} or positional.keys() & named.keys()
        if strange or not passed:
            listed = (
                ", ".join(known) or "matrices with weights (linspec.field(rows_of=...)), of which it has none"
            )
            raise InvalidProblem(
                f"{method} takes rows of {listed}, each once, and at least one; got {', '.join(passed) or 'none'}, of "
                f"which {len(rows)} are passed by position."
            )
        return {name: passed[name] for name in known if name in passed}

    def _operators(
        self, method: str, rows: tuple[Any, ...], named: dict[str, Any], **auxiliary: Any
    ) -> dict[str, LinearOperator]:
        """Return the passed rows as operators by matrix, after a check that their labels are in one order."""
        passed = self._passed(method, rows, named)
        check_order({**passed, **auxiliary}, again=True)
        return {name: as_operator(data, name) for name, data in passed.items()}

    @property
    def _matrices(self) -> tuple[str, ...]:
        """The matrices whose rows have scores."""
        return tuple(weights_by_matrix(self))

    @property
    def _centers(self) -> bool:
        """Whether the problem subtracts column means."""
        return NewRows.of(self, self._matrices[0]).mean is not None


def single_or_several(results: list[Any]) -> Any:
    """Return the result for one matrix, or the tuple of results for several."""
    return results[0] if len(results) == 1 else tuple(results)


def as_several(result: Any) -> tuple[Any, ...]:
    """Return the results of `transform` for one or several matrices as a tuple."""
    return result if isinstance(result, tuple) else (result,)


# ---- loadings -----------------------------------------------------------------------------------


class Loadings(NamedTuple):
    """Correlations of columns with components of the same rows.

    Attributes
    ----------
    correlations : numpy.ndarray of shape (p, k)
        Between -1 and 1; 0 for a column or a component that does not vary.
    varies : numpy.ndarray of shape (p,), of bool
        Which columns vary.
    products : numpy.ndarray of shape (p, k)
        Sw for the weights w of each component.
    lengths : numpy.ndarray of shape (k,)
        The lengths √(wᵀSw) of the components over the rows.
    operator : LinearOperator
        The rows.
    """

    correlations: HostArray
    varies: HostArray
    products: HostArray
    lengths: HostArray
    operator: LinearOperator

    @classmethod
    def of(
        cls, products: HostArray, squares: HostArray, components: HostArray, operator: LinearOperator
    ) -> Loadings:
        """Compute (1) from Sw, the squares Sⱼⱼ and the squares wᵀSw."""
        lengths = np.sqrt(np.maximum(components, 0.0))
        correlations = products * reciprocal(np.sqrt(squares))[:, None] * reciprocal(lengths)
        return cls(np.clip(correlations, -1.0, 1.0), squares > 0, products, lengths, operator)

    @property
    def given_back(self) -> Array:
        """The correlations in the library, on the device and in the working dtype of the rows."""
        return self.operator.device.asarray(self.correlations, self.operator.dtype)

    @property
    def mean_squares(self) -> HostArray:
        """For each component, the mean of its squared correlations with the columns that vary; 0 if none does."""
        squares = self.correlations[self.varies] ** 2
        return np.asarray(squares.mean(axis=0) if len(squares) else np.zeros(squares.shape[1]))


def moments_of_rows(
    given: Mapping[str, Any],
    *,
    center: bool,
    confounds: Any = None,
    sample_weight: Any = None,
    passes: Passes | None = None,
) -> Moments:
    """The moments of rows as they are passed, which are preprocessed by their own means and confounds.

    Parameters
    ----------
    given : mapping of str to data of shape (n, p)
        By their names in messages.
    center : bool
        Whether means are subtracted.
    confounds : array of shape (n, c), optional
        Their effect in these rows is subtracted.
    sample_weight : array of shape (n,), optional
        How often each row counts.
    passes : Passes, optional
        The count of passes of a run around.

    Raises
    ------
    MissingCapability
        If the lengths of columns are not known.
    UnsupportedData
        If two matrices are in different libraries or on different devices.
    InvalidProblem
        If they have different numbers of rows, or rows in different orders.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.solving import moments_of_rows
    >>> R = moments_of_rows({"X": np.array([[1.0, 0.0], [3.0, 4.0], [5.0, 2.0]])}, center=True).triangle()
    >>> (R.T @ R).round(9)  # the products of columns less their means
    array([[8., 4.],
           [4., 8.]])
    """
    operators = {name: as_operator(data, name) for name, data in given.items()}
    check_order({**given, "confounds": confounds, "sample_weight": sample_weight}, again=True)
    first = next(iter(operators))
    for name, A in operators.items():
        if not (A.readable or A.streamed):
            raise MissingCapability(
                f"loadings need the lengths of the columns, which are unknown for {name}: {A!r}. Pass the rows as an "
                "array, a sparse matrix, a file or slices."
            )
        check_device(first, operators[first], name, A)
    n = min(A.shape[0] for A in operators.values())
    w, Z = weights_and_confounds(sample_weight, confounds, n)
    pre = Preprocessing.of(center=center, weights=w, confounds=Z)
    return Moments([A.in_blocks(name) for name, A in operators.items()], pre, passes, list(given))


def loadings_of(
    matrices: Mapping[str, Any], weights: Sequence[Array | None], *, crossed: bool = False, **rows: Any
) -> list[Loadings]:
    """The correlations of each column of some matrices with components of the same rows, from one pass.

    Parameters
    ----------
    matrices : mapping of str to data of shape (n, p)
        By their names in messages.
    weights : sequence of array of shape (p, k), or None
        Of each matrix; None for a matrix without components.
    crossed : bool, default False
        Whether the columns of each of two matrices are correlated with the components of the other one.
    **rows
        `center`, `confounds` and `sample_weight` of `moments_of_rows`, like the errors.

    Returns
    -------
    list of Loadings
        Of each matrix that has components, or whose other matrix has some.

    Raises
    ------
    InvalidProblem
        Also when the number of columns of the data is not the number of rows of the weights.
    """
    operators = {name: as_operator(data, name) for name, data in matrices.items()}
    for W, (name, A) in zip(weights, operators.items(), strict=True):
        if W is not None and W.shape[0] != A.shape[1]:
            raise InvalidProblem(
                f"{name} must have the {W.shape[0]} columns of the training data; got {A.shape[1]}."
            )
    moments = moments_of_rows(operators, **rows)
    device = moments.device
    blocks = [None if W is None else device.asarray(W) for W in weights]
    products, loadings = moments.products(*blocks), []
    for i, A in enumerate(operators.values()):
        j = 1 - i if crossed else i
        if blocks[j] is not None:
            of = to_host(device.column_sums(blocks[j] * products[j][j]))
            loadings.append(Loadings.of(to_host(products[j][i]), moments.fitted[i].squares, of, A))
    return loadings


# ---- answers that predict targets ---------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, repr=False)
class RegressionSolution(Solution):
    """Base class of answers that predict targets, which are the second matrix of the problem.

    A derived class has `predict` and `target_names`, and `first_coefficients` if columns have coefficients.

    Attributes
    ----------
    size : (float, int) or None
        The number of training rows, or the sum of their weights, and the number of columns.
    target_squares : numpy.ndarray of shape (m,)
        The sum of squares of each target about its mean over the training rows; NaN where it is not known.
    target_errors : numpy.ndarray of shape (m,), for a path of r ridges (r, m)
        The sum of squares of the residuals of each target; NaN where it is not known.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.solving import RegressionSolution
    >>> X = np.random.default_rng(0).standard_normal((50, 3))
    >>> solution = ls.solve(ls.PLSRegression(X, X[:, :2], k=3))
    >>> isinstance(solution, RegressionSolution), solution.r_squared.round(6)
    (True, array([1., 1.]))
    """

    size: tuple[float, int] | None = None
    target_squares: HostArray = field(default_factory=lambda: np.full(1, np.nan))
    target_errors: HostArray = field(default_factory=lambda: np.full(1, np.nan))

    target_names: ClassVar[Any]  # of each derived class

    @property
    def r_squared(self) -> HostArray:
        """R² of each target on the training rows, of shape (m,), for a path of r ridges (r, m); NaN if not known."""
        return r_squared(self.target_errors, self.target_squares)

    @property
    def training_score(self) -> HostArray:
        """R² of all targets together on the training rows, as `score` has it, for a path of r ridges of shape (r,)."""
        return r_squared(self.target_errors.sum(axis=-1), self.target_squares.sum())

    @property
    @with_device
    def intercept(self) -> Array | None:
        """The prediction where all columns of X are zero, of shape (m,), or () for a vector Y; None without centring.

        With confounds it is the one where these have their means.
        """
        rows, answer = NewRows.of(self, "X"), cast("Any", self)
        if rows.mean is None:
            return None
        zeros = Device.of(rows.mean).xp.zeros_like(rows.mean)[None, :]
        confounds = None if rows.confound_mean is None else rows.confound_mean[None, :]
        return answer.predict(zeros, confounds=confounds)[0, ...]

    def facts(self) -> list[tuple[str, str]]:
        """The numbers of rows and columns, R² on the training rows, the intercepts, and the largest coefficients."""
        facts, score = super().facts(), self.training_score
        if self.size is not None:
            facts.append(("rows", f"{self.size[0]:g}, columns {self.size[1]}"))
        if getattr(self, "path", False):
            return facts
        if np.isfinite(score):
            facts.append(("training R²", _numbers(score)))
            if 1 < len(self.r_squared) <= FEW:
                facts.append(("R² of each target", _numbers(self.r_squared)))
        if self.intercept is not None:
            facts.append(("intercept", _numbers(to_host(self.intercept))))
        return [*facts, *self._largest_coefficients()]

    def first_coefficients(self, count: int) -> HostArray:  # overridden by answers that have such
        """The coefficients of the columns for the first targets, a column for each."""
        return np.zeros((0, count))

    def _largest_coefficients(self) -> list[tuple[str, str]]:
        """The columns with the largest coefficients of the first targets, as names and texts below a head."""
        values = self.first_coefficients(FEW)
        if not len(values):
            return []
        names = self.column_names.get(next(iter(self.layout.means)))
        heads = [f"{printable(name):>11}" for name in self.target_names[: values.shape[1]]]
        lines = [("largest coefficients", "  ".join(heads))]
        for i in np.argsort(-np.abs(values).max(axis=1), kind="stable")[:FEW].tolist():
            name = printable(names[i]) if names else f"column {i}"
            lines.append((f"  {name:.40}", "  ".join(f"{value:>11.6g}" for value in values[i])))
        return lines

    @with_device
    def predictions_table(self, rows: Any, *, library: str | None = None, **options: Any) -> Any:
        """Make a table of the predictions of `predict`, with the names of the targets and the labels of the rows.

        Parameters
        ----------
        rows : data of shape (n, p)
        library : {"pandas", "polars", "pyarrow", ""}, optional
            As for `weights_table`; by default the library of the rows.
        **options
            Further arguments of `predict`, like the errors.

        Returns
        -------
        list of dict, pandas.DataFrame, polars.DataFrame or pyarrow.Table
            A row for each row of the data, and a column for each target, named "target1", "target2" and so on if the
            training data have no names for them. For a path there is a column for each target and ridge: "target1,
            ridge 0.1".

        Examples
        --------
        >>> import numpy as np
        >>> import linspec as ls
        >>> A = ls.labelled(np.diag([1.0, 2.0]), rows=["ann", "bob"])
        >>> b = ls.labelled(np.array([[3.0], [4.0]]), columns=["price"])
        >>> ls.solve(ls.LeastSquares(A, b)).predictions_table(A, library="")
        [{'row': 'ann', 'price': 3.0}, {'row': 'bob', 'price': 4.0}]
        """
        columns = self._columns_of(cast("Any", self).predict(rows, **options)).T
        return table_of_rows(self, dict(zip(self._names_of(**options), columns, strict=True)), rows, library)

    def _names_of(self, **_: Any) -> Sequence[str]:  # overridden by answers that predict some of the targets
        """The names of the targets that are predicted with these options."""
        return self.target_names

    def _columns_of(self, predictions: Any) -> HostArray:
        """Predictions with a column for each target."""
        values = to_host(brought_here(predictions))
        return np.reshape(values, (len(values), -1))

    @with_device
    def score(
        self, rows: Any, truth: Any, *, confounds: Any = None, sample_weight: Any = None, **options: Any
    ) -> float:
        """Compute R²: 1 minus squared errors of predictions over squares of targets about their means on these rows.

        Parameters
        ----------
        rows : data of shape (n, p)
        truth : data of shape (n, m), or vector of length n
            The targets of these rows.
        confounds : array of shape (n, c), optional
            The confounds of these rows, if the problem had any.
        sample_weight : array of shape (n,), optional
            How often each row counts.
        **options
            Further arguments of `predict`, such as the number k of components.

        Returns
        -------
        float
            At most 1; of all targets together. `linspec.solving.score_of_predictions` has each.

        Raises
        ------
        InvalidProblem
            The rows do not fit, or the answer is a path: each answer of `along_path` has a score.

        Examples
        --------
        >>> import numpy as np
        >>> import linspec as ls
        >>> A = np.random.default_rng(0).standard_normal((60, 4))
        >>> ls.solve(ls.LeastSquares(A[:40], A[:40, 0])).score(A[40:], A[40:, 0])
        1.0
        """
        if getattr(self, "path", False):
            raise InvalidProblem(
                f"a score is that of one ridge; got a path of {len(self.target_errors)}. Score each solution of "
                "along_path()."
            )
        weighted = {"confounds": confounds, "sample_weight": sample_weight}
        return score_of_predictions(self, rows, truth, **weighted, **options).total


def _numbers(values: HostArray) -> str:
    return some_of([f"{value:.6g}" for value in values.reshape(-1)])


# ---- answers that predict by components ---------------------------------------------------------

COMPONENT_SCORES: Mapping[str, str] = MappingProxyType(
    {
        "mse": "linspec.studies.held_out.scores:SquaredErrors",
        "r2": "linspec.studies.held_out.scores:Explained",
    }
)
"""The scores of held-out rows for `Problem.held_out_scores` of a problem with such answers.

The problem has the matrices X and Y, and the method `factors_of_moments(metric, C, ridge, k)`.
See `linspec.studies.held_out.scores`.
"""


class ComponentRegressionSolution(RegressionSolution, LinearSolution):
    """Base class of answers that predict Y from components of X.

    A class that derives from it has the fields that `linspec.field` declares for X and Y, a field `vector`, which
    states whether Y was a vector, and the method `_factors`.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.solving import ComponentRegressionSolution
    >>> X = np.random.default_rng(0).standard_normal((50, 3))
    >>> solution = ls.solve(ls.PLSRegression(X, X[:, :2], k=3))
    >>> isinstance(solution, ComponentRegressionSolution), solution.coefficients(2).shape
    (True, (3, 2))
    """

    vector: bool

    @property
    def target_names(self) -> list[str]:
        """The names of the columns of Y, or "target1" and so on."""
        count = int(self._factors()[1].shape[0])
        return list(self.column_names.get("Y") or [f"target{i + 1}" for i in range(count)])

    @abstractmethod
    def _factors(self) -> tuple[Array, Array]:
        """R of shape (p, k) and Q of shape (q, k), in units of the columns: the coefficients are R Qᵀ."""

    @with_device
    def coefficients(self, k: int | None = None) -> Array:
        """The coefficients of the columns of X for predictions with the first k components.

        Parameters
        ----------
        k : int, optional
            By default all components.

        Returns
        -------
        array of shape (p, q), or (p,) if Y was a vector
            In units of the columns of Y over those of X.
        """
        B = self._coefficients(k)
        return B[:, 0] if self.vector else B

    @with_device
    def predict(self, X: Any, *, k: int | None = None, confounds: Any = None) -> Array:
        """Predict the right-hand sides of rows with the first k components.

        Parameters
        ----------
        X : data of shape (n, p)
            Any kind of data that `linspec.as_operator` accepts; sparse rows stay sparse.
        k : int, optional
            By default all components.
        confounds : array of shape (n, c), optional
            The confounds of these rows, if the problem had any. Their effect is part of the prediction.

        Returns
        -------
        array of shape (n, q), or (n,) if Y was a vector
            In the library, on the device and in the working dtype of the rows. Predictions of rows in blocks of other
            processes stay there, with a column for a vector Y.
        """
        y = NewRows.of(self, "Y")
        predictions = NewRows.of(self, "X").images(
            X, self._coefficients(k), "X", confounds, offset=y.mean, slopes=y.slopes
        )
        return predictions[:, 0] if self.vector and is_array(predictions) else predictions

    def first_coefficients(self, count: int) -> HostArray:
        R, Q = map(to_host, self._factors())
        return R @ Q[:count].T

    def _coefficients(self, k: int | None) -> Array:
        """R Qᵀ of the first k components, with a column for a vector Y."""
        R, Q = self._factors()
        most = int(R.shape[1])
        if k is not None and not 0 <= k <= most:
            raise InvalidProblem(f"k must be between 0 and the {most} components of the answer; got {k}.")
        return R[:, :k] @ Q[:, :k].T
