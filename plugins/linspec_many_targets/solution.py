"""The answer for many targets: what was chosen for each, coefficients as factors, predictions and scores."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

import linspec as ls
from linspec.arrays import Array, Home, HostArray, at_home, host_dtype, is_array, to_host
from linspec.errors import InvalidProblem, shown
from linspec.solving import NewRows, score_of_predictions, table_of_components, table_of_rows


@dataclass(frozen=True, kw_only=True, repr=False)
class RidgeManyTargetsSolution(ls.Solution, vector="target", component="target", score="R²"):
    """The chosen ridge and weights of bands of each target, and the coefficients.

    Attributes
    ----------
    weights : array of shape (p, m), or (p, n) with `mixing`
        The coefficients of all targets; with `mixing` the training rows Xᵀ, from which `coefficients` makes those of
        some targets: w = γ ∘ (weights @ mixing).
    mixing : array of shape (n, m) or None
        The factor of the targets, if there are more targets and more columns than rows.
    ridges : numpy.ndarray of shape (m,)
        The ridge of each target.
    band_weights : numpy.ndarray of shape (m, bands)
        γ: the ridge of a band is the ridge of the target over the weight of the band.
    scores : numpy.ndarray of shape (m,)
        The mean R² of each target on the held-out rows of the folds in which it varies; NaN if it never does.
    band_names : tuple of str
    band_of : numpy.ndarray of shape (p,)
        The number of the band of each column of X.
    vector : bool
        Whether Y was a vector.
    x_mean, y_mean : array of shape (p,), (m,), or None
        The column means, if the problem centres.
    x_scale : array of shape (p,) or None
        The numbers that the columns of X were divided by, if the problem scales. Coefficients belong to the undivided
        columns.
    confound_mean : numpy.ndarray of shape (c,) or None
        The means of the confounds, if the problem has any (0 without centring).
    x_slopes, y_slopes : array of shape (c, p), (c, m), or None
        The slopes of the columns in the confounds.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> X = np.random.default_rng(0).standard_normal((200, 5))
    >>> Y = ls.labelled(X[:, :2] + 1.0, columns=["left", "right"])
    >>> solution = ls.solve(ls.RidgeManyTargets(X, Y, ridges=[1e-6, 1.0]))
    >>> solution.coefficients(["right"]).round(3).T + 0.0
    array([[0., 1., 0., 0., 0.]])
    >>> solution.targets_table()[0]["ridge"], solution.predict(X[:3], targets=["left"]).shape
    (1e-06, (3, 1))
    """

    weights: Array = ls.field(rows_of="X", leading=True, shape="X columns")
    ridges: HostArray = ls.field(shape="m")
    band_weights: HostArray = ls.field(shape="m bands")
    scores: HostArray = ls.field(shape="m")
    band_names: tuple[str, ...] = ()
    band_of: HostArray = ls.field(shape="X")
    mixing: Array | None = ls.field(None, shape="n m", in_home=True)
    vector: bool = False
    x_mean: Array | None = ls.field(None, mean_of="X", shape="X")
    y_mean: Array | None = ls.field(None, mean_of="Y", shape="m")
    x_scale: Array | None = None
    confound_mean: HostArray | None = None
    x_slopes: Array | None = None
    y_slopes: Array | None = ls.field(None, shape="confounds m")

    def _headline(self) -> str:
        return f"{len(self.ridges)} targets"

    def facts(self) -> list[tuple[str, str]]:
        """The means of the weights of bands, if there are several bands."""
        if len(self.band_names) < len("ab"):
            return []
        means = (
            f"{name} {mean:.3f}"
            for name, mean in zip(self.band_names, self.band_weights.mean(0), strict=True)
        )
        return [("mean weights of bands", ", ".join(means))]

    def _per_component(self) -> dict[str, Any]:
        return {"ridge": self.ridges, "held-out R²": self.scores}

    # ---- targets ------------------------------------------------------------------------------

    @property
    def target_names(self) -> list[str]:
        """The names of the targets: those of the columns of Y, or "target1" and so on."""
        names = self.column_names.get("Y")
        return list(names) if names else [f"target{i + 1}" for i in range(len(self.ridges))]

    def _numbers(self, targets: Any) -> HostArray:
        """The numbers of targets that are given by numbers, by names, or by None for all."""
        m = len(self.ridges)
        if targets is None:
            return np.arange(m)
        if is_array(targets):
            targets = to_host(targets).tolist()
        listed = (
            list(targets) if isinstance(targets, Iterable) and not isinstance(targets, str) else [targets]
        )
        names = (
            {name: i for i, name in enumerate(self.target_names)}
            if any(isinstance(t, str) for t in listed)
            else {}
        )
        found = [names.get(each, -1) if isinstance(each, str) else each for each in listed]
        for each, number in zip(listed, found, strict=True):
            if isinstance(number, bool) or not isinstance(number, int | np.integer) or not 0 <= number < m:
                raise InvalidProblem(
                    f"targets must be numbers from 0 to {m - 1}, or names of columns of Y; got {shown(each)}."
                )
        return np.asarray(found, dtype=np.int64)

    def targets_table(self, targets: Any = None, *, library: str | None = None) -> Any:
        """Make a table of what was chosen for each target.

        Parameters
        ----------
        targets : list of int or str, optional
            Numbers or names of targets; by default all.
        library : {"pandas", "polars", "pyarrow", ""}, optional
            As for `weights_table`.

        Returns
        -------
        list of dict, pandas.DataFrame, polars.DataFrame or pyarrow.Table
            A row for each target with its ridge, its held-out R² and the weight of each band.

        Raises
        ------
        InvalidProblem
            There is no such target.
        """
        some, names = self._numbers(targets), self.target_names
        columns = {"ridge": self.ridges[some], "held-out R²": self.scores[some]}
        for number, band in enumerate(self.band_names):
            columns[f"weight of {band}"] = self.band_weights[some, number]
        return table_of_components(self, columns, library, [names[i] for i in some])

    # ---- coefficients -------------------------------------------------------------------------

    @at_home
    def coefficients(self, targets: Any = None) -> Array:
        """Compute the coefficients of the columns of X for some targets.

        Parameters
        ----------
        targets : list of int or str, optional
            Numbers or names of targets; by default all, p x m numbers.

        Returns
        -------
        array of shape (p, number of targets)
            In the library and dtype and on the device of X.

        Raises
        ------
        InvalidProblem
            There is no such target.
        """
        some = self._numbers(targets)
        home = Home.of(self.weights)
        numbers = home.xp.asarray(some, device=home.device)
        if self.mixing is None:
            return self.weights if targets is None else home.xp.take(self.weights, numbers, axis=1)
        product = self.weights @ home.xp.take(self.mixing, numbers, axis=1)
        gammas = self.band_weights[some].T[self.band_of]
        return product * home.place(gammas, host_dtype(self.weights))

    def _named_vectors(self, matrix: str) -> dict[str, HostArray]:
        return dict(zip(self.target_names, to_host(self.coefficients()).T, strict=True))

    # ---- new rows -----------------------------------------------------------------------------

    @at_home
    def predict(self, X: Any, *, targets: Any = None, confounds: Any = None) -> Array:
        """Predict targets of rows.

        Parameters
        ----------
        X : data of shape (n, p)
            Any kind of data that `linspec.as_operator` accepts; sparse rows stay sparse.
        targets : list of int or str, optional
            Numbers or names of targets; by default all.
        confounds : array of shape (n, c), optional
            The confounds of these rows, if the problem had any. Their effect is part of the prediction.

        Returns
        -------
        array of shape (n, number of targets), or (n,) if Y was a vector
            In the library, on the device and in the working dtype of the rows. Predictions of rows in blocks of other
            processes stay there, unless coefficients are factors.

        Raises
        ------
        InvalidProblem
            The rows do not have the columns, or the confounds, of the training data, or there is no such target.

        Notes
        -----
        Coefficients as factors are not multiplied out: rows are multiplied by the training rows of each band, and the
        products by the factor of the targets.
        """
        some = self._numbers(targets)
        offset, slopes = (
            None if each is None else _picked(each, some) for each in (self.y_mean, self.y_slopes)
        )
        if self.mixing is None:
            rows = NewRows.of(self, "X")
            found = rows.images(X, self.coefficients(targets), "X", confounds, offset=offset, slopes=slopes)
        else:
            found = self._by_factors(X, some, confounds, offset, slopes)
        return found[:, 0] if self.vector and is_array(found) else found

    def _by_factors(
        self, X: Any, some: HostArray, confounds: Any, offset: Array | None, slopes: Array | None
    ) -> Array:
        """Predict by the products of rows with the training rows of each band."""
        A = _here(X, "X")
        rows, home = NewRows.of(self, "X"), Home.of(self.weights)
        V = [
            self.weights * home.place(self.band_of == b, host_dtype(self.weights))[:, None]
            for b in range(len(self.band_names))
        ]
        scores = rows.images(A, home.concat(V), "X", confounds)
        there = Home.of(scores)
        kernels = np.split(np.asarray(to_host(scores), dtype=np.float64), len(V), axis=1)
        mixing, found = to_host(self.mixing), np.empty((len(kernels[0]), len(some)))
        settings, numbers = np.unique(self.band_weights[some], axis=0, return_inverse=True)
        for number, gamma in enumerate(settings):
            mine = np.flatnonzero(numbers.ravel() == number)
            found[:, mine] = sum(g * K for g, K in zip(gamma, kernels, strict=True)) @ mixing[:, some[mine]]
        Z = rows.confounds_less_mean(confounds, {"X": A})
        found += 0.0 if offset is None else to_host(offset)
        found += 0.0 if slopes is None or Z is None else Z @ to_host(slopes)
        return there.place(found, host_dtype(scores))

    @at_home
    def predictions_table(
        self, X: Any, *, targets: Any = None, confounds: Any = None, library: str | None = None
    ) -> Any:
        """Make a table of the predictions of `predict`, with the names of the targets and the labels of the rows.

        Parameters
        ----------
        X, targets, confounds
            As for `predict`, like the errors.
        library : {"pandas", "polars", "pyarrow", ""}, optional
            As for `weights_table`; by default the library of the rows.

        Returns
        -------
        list of dict, pandas.DataFrame, polars.DataFrame or pyarrow.Table
            A row for each row of X, and a column for each target.
        """
        names = self.target_names
        found = self.predict(X, targets=targets, confounds=confounds)
        found = to_host(found if is_array(found) else _here(found, "predictions").dense())
        columns = np.reshape(found, (len(found), -1)).T
        named = dict(zip([names[i] for i in self._numbers(targets)], columns, strict=True))
        return table_of_rows(self, named, X, library)

    @at_home
    def target_scores(self, X: Any, Y: Any, *, confounds: Any = None, sample_weight: Any = None) -> HostArray:
        """Compute R² of each target: 1 minus squared errors over its squares about its mean on these rows.

        Parameters
        ----------
        X, Y : data of shape (n, p), (n, m)
        confounds : array of shape (n, c), optional
        sample_weight : array of shape (n,), optional
            How often each row counts.

        Returns
        -------
        numpy.ndarray of shape (m,)
            At most 1; NaN for a target that does not vary on these rows.

        Raises
        ------
        InvalidProblem
            The rows do not fit each other, or the training data.
        """
        found = score_of_predictions(self, X, Y, confounds=confounds, sample_weight=sample_weight)
        return found.by_target

    @at_home
    def score(self, X: Any, Y: Any, *, confounds: Any = None, sample_weight: Any = None) -> float:
        """Compute R² of all targets together: the squares of targets that vary more count more.

        Parameters
        ----------
        X, Y, confounds, sample_weight
            As for `target_scores`, like the errors.

        Returns
        -------
        float
            At most 1; NaN if no target varies.
        """
        return score_of_predictions(self, X, Y, confounds=confounds, sample_weight=sample_weight).total


def _picked(array: Array, some: HostArray) -> Array:
    """Return entries along the last axis, in the library of the array."""
    home = Home.of(array)
    return home.xp.take(array, home.xp.asarray(some, device=home.device), axis=array.ndim - 1)


def _here(rows: Any, name: str) -> ls.LinearOperator:
    """Return rows as an operator, in this process also if they are blocks in others."""
    A = ls.as_operator(rows, name)
    return A.rows(slice(0, A.shape[0])) if A.access == "blocks" else A
