"""Ridge regression of many targets: the problem and its certificate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

import linspec as ls
from linspec import Status
from linspec.arrays import (
    HOST,
    Array,
    Device,
    HostArray,
    host_dtype,
    is_array,
    reciprocal,
    to_host,
    with_device,
)
from linspec.errors import BrokenPlugin, InvalidProblem, shown
from linspec.iteration import Certificate, Context
from linspec.linalg import ratio
from linspec.rows import Moments
from linspec.solving import (
    NewRows,
    RegressionSolution,
    score_of_predictions,
    table_of_components,
)
from linspec.studies import folds_of
from linspec_many_targets.candidates import checked_bands, checked_ridges, checked_weights
from linspec_many_targets.choice import DIGITS, Choice, blocks_of
from linspec_many_targets.kernel import band_kernels, preprocessed, rows_of, sum_of


@dataclass(frozen=True, kw_only=True, repr=False)
class RidgeManyTargetsSolution(RegressionSolution, vector="target", component="target", score="R²"):
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
    >>> solution.targets_table(library="")[0]["ridge"], solution.predict(X[:3], targets=["left"]).shape
    (1e-06, (3, 1))
    """

    weights: Array = ls.field(rows_of="X", leading=True, shape="X columns")
    ridges: HostArray = ls.field(shape="m")
    band_weights: HostArray = ls.field(shape="m bands")
    scores: HostArray = ls.field(shape="m")
    band_names: tuple[str, ...] = ()
    band_of: HostArray = ls.field(shape="X")
    mixing: Array | None = ls.field(None, shape="n m", on_device=True)
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
            return super().facts()
        means = (
            f"{name} {mean:.3f}"
            for name, mean in zip(self.band_names, self.band_weights.mean(0), strict=True)
        )
        return [*super().facts(), ("mean weights of bands", ", ".join(means))]

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
        chosen = range(m) if targets is None else to_host(targets).tolist() if is_array(targets) else targets
        listed = [*chosen] if isinstance(chosen, Iterable) and not isinstance(chosen, str) else [chosen]
        names = {name: i for i, name in enumerate(self.target_names)}
        numbers: list[Any] = [
            names.get(target, target) if isinstance(target, str) else target for target in listed
        ]
        if not all(type(number) in (int, np.int64) and 0 <= number < m for number in numbers):
            raise InvalidProblem(
                f"targets must be numbers from 0 to {m - 1}, or names of columns of Y; got {shown(targets)}."
            )
        return np.asarray(numbers, dtype=np.int64)

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

    @with_device
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
        if self.mixing is None:
            return self.weights if targets is None else _picked(self.weights, some)
        gammas = self.band_weights[some].T[self.band_of]
        product = self.weights @ _picked(self.mixing, some)
        return product * Device.of(self.weights).asarray(gammas, host_dtype(self.weights))

    def first_coefficients(self, count: int) -> HostArray:
        return to_host(self.coefficients(range(min(count, len(self.ridges)))))

    def _named_vectors(self, matrix: str) -> dict[str, HostArray]:
        return dict(zip(self.target_names, to_host(self.coefficients()).T, strict=True))

    # ---- new rows -----------------------------------------------------------------------------

    @with_device
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
            None if term is None else _picked(term, some) for term in (self.y_mean, self.y_slopes)
        )
        if self.mixing is None:
            rows = NewRows.of(self, "X")
            predictions = rows.images(
                X, self.coefficients(targets), "X", confounds, offset=offset, slopes=slopes
            )
        else:
            predictions = self._by_factors(X, some, confounds, offset, slopes)
        return predictions[:, 0] if self.vector and is_array(predictions) else predictions

    def _by_factors(
        self, X: Any, some: HostArray, confounds: Any, offset: Array | None, slopes: Array | None
    ) -> Array:
        """Predict by the products of rows with the training rows of each band."""
        A = _here(X, "X")
        rows, device = NewRows.of(self, "X"), Device.of(self.weights)
        V = [
            self.weights * device.asarray(self.band_of == b, host_dtype(self.weights))[:, None]
            for b in range(len(self.band_names))
        ]
        scores = rows.images(A, device.concat(V), "X", confounds)
        there = Device.of(scores)
        kernels = np.split(HOST.asarray(scores), len(V), axis=1)
        mixing = to_host(self.mixing)
        predictions = np.empty((len(kernels[0]), len(some)))
        settings, numbers = np.unique(self.band_weights[some], axis=0, return_inverse=True)
        for number, gamma in enumerate(settings):
            columns = np.flatnonzero(numbers.ravel() == number)
            predictions[:, columns] = (
                sum(g * K for g, K in zip(gamma, kernels, strict=True)) @ mixing[:, some[columns]]
            )
        Z = rows.confounds_less_mean(confounds, {"X": A})
        predictions += 0.0 if offset is None else to_host(offset)
        predictions += 0.0 if slopes is None or Z is None else Z @ to_host(slopes)
        return there.asarray(predictions, host_dtype(scores))

    def _names_of(self, targets: Any = None, **_: Any) -> list[str]:
        names = self.target_names
        return [names[i] for i in self._numbers(targets)]

    @with_device
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
        scores = score_of_predictions(self, X, Y, confounds=confounds, sample_weight=sample_weight)
        return scores.by_target


def _picked(array: Array, some: HostArray) -> Array:
    """Return entries along the last axis, in the library of the array."""
    device = Device.of(array)
    return device.xp.take(array, device.xp.asarray(some, device=device.native), axis=array.ndim - 1)


def _here(rows: Any, name: str) -> ls.LinearOperator:
    """Return rows as an operator, in this process also if they are blocks in others."""
    A = ls.as_operator(rows, name)
    return A.rows(slice(0, A.shape[0])) if A.access == "blocks" else A


__all__ = ["RidgeManyTargets", "RidgeManyTargetsSolution"]

RIDGES = (0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0)
"""The ridges by default."""

ERROR = 1e-2
"""A finding is reported if the relative error of the coefficients of a target may be above this."""


@dataclass(frozen=True, eq=False, repr=False)
class RidgeManyTargets(ls.Problem[RidgeManyTargetsSolution]):
    """min ‖y − X w‖² + r Σ_b ‖w_b‖² / γ_b for each target y: r and the weights γ of bands are chosen by its own folds.

    For each target the candidate with the largest mean R² on held-out rows is chosen, over the folds in which the
    target varies, and all rows are fitted with it.

    Parameters
    ----------
    X : data of shape (n, p)
        Anything that `linspec.as_operator` accepts.
    Y : data of shape (n, m), or an array, a series or a list of shape (n,)
        Targets. There may be a hundred thousand or more: Y is read once, in blocks of rows.
    ridges : float or sequence of float, default (0.1, 1, 10, 100, 1000, 10000)
        The candidates for r, above 0. They are added to XᵀX, which is not divided by the number of rows.
    bands : array or list of p labels, or mapping from names to columns, optional
        The band of each column of X. A mapping has numbers, slices, or names of columns. By default there is one band.
    band_weights : int or array of shape (settings, bands), optional
        The candidates for γ, zero or more. A number asks for so many settings with sum 1: equal weights, and draws from
        Dirichlet distributions. By default 20, and 1 if there is one band.
    splitter : int, array of n labels, object with a method split, or pairs of row numbers, default 5
        The folds. A number makes folds of successive rows of equal size, as scikit-learn's KFold. Streams whose number
        of rows is not known need labels. Row labels -1 are in every training set.
    groups : array of shape (n,), optional
        Groups of rows that stay together, with a number of folds or a splitter. Groups are dealt to folds at random.
    seed : int, default 0
        Of the drawn weights of bands, and of folds of groups.
    center : bool, default True
        Whether to fit an intercept, which no ridge shrinks: means are those of the training rows of each fold. Sparse
        data stay sparse.
    scale : bool, default False
        Whether to divide each column of X by its root mean square after means and confounds are subtracted; with
        `center` this is its standard deviation.
    sample_weight : array of shape (n,), optional
        How often each row counts: zero or more, and 0 leaves a row out. The row count n becomes their sum.
    confounds : array of shape (n, c) or (n,), optional
        Variables whose linear effect is subtracted from every column of X and of Y, together with the means if
        `center`.

    Raises
    ------
    InvalidProblem
        Ridges, bands, weights of bands or folds do not fit the data.
    InvalidOption
        The splitter is of no known type.

    Notes
    -----
    Residual: the largest ‖D Xᵀ(y − X w) − r D⁻¹w‖ / ‖D Xᵀy‖ over the targets, with D = diag(√γ), for the r and γ that
    were chosen for the target.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 30))
    >>> Y = X[:, :10] @ rng.standard_normal((10, 4)) + 3 * rng.standard_normal((300, 4))
    >>> problem = ls.RidgeManyTargets(X, Y, ridges=[1, 10, 100], bands=["signal"] * 10 + ["noise"] * 20)
    >>> solution = ls.solve(problem)
    >>> bool(solution.band_weights[:, 0].mean() > 0.8), solution.coefficients([0]).shape
    (True, (30, 1))
    """

    X: Any = ls.matrix("data")
    Y: Any = ls.matrix("targets", like="X", vector=True)
    ridges: Any = ls.setting(RIDGES, several=True, help="Candidates, above 0.")
    bands: Any = None
    band_weights: Any = ls.setting(
        None, int, kw_only=True, help="How many settings of weights of bands are tried."
    )
    splitter: Any = ls.setting(5, int, kw_only=True, help="Folds of successive rows.")
    groups: Any = field(default=None, kw_only=True)
    seed: int = field(default=0, kw_only=True)
    center: bool = ls.flag(True, "Fit an intercept, which no ridge shrinks; sparse data stay sparse.")

    name: ClassVar[str] = "ridge-many-targets"
    command: ClassVar[Mapping[str, Any]] = {
        "bands": ls.setting(None, int, several=True, help="The number of columns of each band, in order.")
    }
    tolerance: ClassVar[float] = 1e-8
    found: ClassVar[tuple[str, ...]] = ("ridges", "band_weights", "scores")

    band_names: ClassVar[tuple[str, ...]]
    band_of: ClassVar[HostArray]
    settings: ClassVar[HostArray]
    splits: ClassVar[Any]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shared is not None:
            raise InvalidProblem(
                "RidgeManyTargets needs the moments of each fold; got moments of all rows. Pass the data themselves."
            )
        names, band_of = checked_bands(self.bands, self.X.shape[1], self.column_names.get("X"))
        self._keep(
            ridges=checked_ridges(self.ridges),
            band_names=names,
            band_of=band_of,
            settings=checked_weights(self.band_weights, len(names), self.seed),
        )
        self.check_labels({"splitter": self.splitter, "groups": self.groups})
        self._split()

    @classmethod
    def from_command(cls, matrices: Sequence[Any], values: dict[str, Any]) -> Self:
        """Construct the problem with a label for each column, of the numbers of columns that a command takes."""
        counts = values.pop("bands", None)
        labels = [f"band{i + 1}" for i, count in enumerate(counts or ()) for _ in range(count)]
        values["bands"] = labels or None
        return cls(*matrices, **values)

    def _keep(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _split(self) -> None:
        """Make the folds, so that faults of them end in an error before data are read."""
        n, splitter = min(A.shape[0] for A in self.matrices.values()), self.splitter
        if _is_count(splitter) and self.groups is None and n != np.inf and 2 <= splitter <= n:
            sizes = [len(rows) for rows in np.array_split(np.arange(n), splitter)]
            splitter = np.repeat(np.arange(splitter), sizes)
        folds = folds_of(splitter, n, groups=self.groups, rng=self.seed)
        folds.check_counted(self.sample_weight)
        self._keep(splits=folds)

    def check_held(self) -> None:
        """Refuse rows that stand for others: folds hold out rows as they came."""
        raise InvalidProblem(
            "RidgeManyTargets holds out rows as they came; got rows that stand for others: of HeldMoments, or of a "
            "permutation test without means and confounds. Take linspec.LeastSquares, and choose the ridge by "
            "linspec.cross_validate(..., method='gcv')."
        )

    def on_rows(self, numbers: HostArray) -> Self:
        """Return the problem on some rows. Folds that were given row by row stay; others are made anew."""
        twin = super().on_rows(numbers)
        if self.groups is not None:
            groups = to_host(self.groups) if is_array(self.groups) else np.asarray(self.groups)
            twin._keep(groups=groups[numbers])
        if not _is_count(self.splitter) and not callable(getattr(self.splitter, "split", None)):
            sides = [
                [np.flatnonzero(np.isin(numbers, side)) for side in split] for split in self.splits.splits
            ]
            twin._keep(splitter=[tuple(pair) for pair in sides if all(len(side) for side in pair)])
        twin._split()
        return twin

    @property
    def certificate_products(self) -> float:
        """The passes of the certificate: XᵀX W and XᵀY, or for coefficients as factors one reading."""
        return 2

    @property
    def lone_rows(self) -> bool:
        """Whether some fold has only one held-out row that counts."""
        w = self.sample_weight
        held_out = (rows for _, rows in self.splits.splits)
        return any(len(rows) == 1 if w is None else np.count_nonzero(w[rows]) == 1 for rows in held_out)

    def note(self, context: Context, best: Choice) -> None:
        """Note how targets are scored, and targets whose scores may be rounding."""
        m, some = len(best.ridges), np.flatnonzero(best.partial)
        if some.size:
            text = (
                f"The R² of {some.size} of {m} targets, the first is target {some[0]}, leave out folds in which they "
                "do not vary, or are of all held-out rows together, where no fold or a fold of one row can score them."
            )
            context.note(None, text)
        lost = np.flatnonzero(best.rounding > DIGITS * np.maximum(1.0, np.abs(best.scores)))
        if lost.size:
            text = (
                f"Rounding may change the held-out R² of {lost.size} of {m} targets, the first is target {lost[0]}, "
                f"by more than {DIGITS:g}, and so the choice of its ridge. Pass larger ridges, or scale=True."
            )
            context.note(Status.ILL_CONDITIONED, text)

    def certify(self, moments: Moments, arrays: Mapping[str, Any], tol: float) -> Certificate:
        """Compute the residual of the normal equations of each target, for its own ridge and weights of bands.

        `least` is the smallest eigenvalue of D XᵀX D + r that a solver has inverted, by default r. Coefficients are
        `weights`, or γ ∘ Xᵀ√D `mixing`.
        """
        on_host = {name: HOST.asarray(x) for name, x in arrays.items()}
        (p, m), n = moments.widths, moments.operators[0].shape[0]
        wanted: dict[str, Any] = {"ridges": (m,), "scores": (m,), "band_weights": (m, len(self.band_names))}
        wanted |= {"mixing": (n, m)} if "mixing" in on_host else {"weights": (p, m)}
        for name, shape in wanted.items():
            if on_host[name].shape != shape:
                raise BrokenPlugin(f"{name} must have shape {shape}; got {on_host[name].shape}.")
        moments.fit()
        ridges, gammas = on_host["ridges"], np.maximum(on_host["band_weights"], 0.0)
        fields_and_lengths = self._by_rows if "mixing" in on_host else self._by_columns
        fields, (gaps, lengths, sizes) = fields_and_lengths(moments, on_host, ridges, gammas)
        floor = self._floor(moments) * np.sqrt(gammas.max(axis=1))
        ratios = [ratio(gap, max(size, low)) for gap, size, low in zip(gaps, sizes, floor, strict=True)]
        off = reciprocal(lengths * on_host.get("least", ridges)) * gaps * (sizes > floor)
        fields |= {name: on_host[name] for name in ("ridges", "band_weights", "scores")}
        fields |= {"band_of": self.band_of, "band_names": self.band_names, "vector": self.vector}
        kind = "from-gram" if moments.holds else "recomputed"
        notes: list[tuple[Status | None, str]] = []
        wrong = np.flatnonzero(off > ERROR)
        still = np.flatnonzero(np.isnan(on_host["scores"]))
        if wrong.size:
            text = (
                f"The coefficients of {wrong.size} of {m} targets, the first is target {wrong[0]}, may have a "
                f"relative error above {ERROR:g}, which the residual does not show. Pass larger ridges, or scale=True."
            )
            notes.append((Status.ILL_CONDITIONED, text))
        if still.size:
            text = (
                f"{still.size} of {m} targets do not vary on held-out rows, the first is target {still[0]}: "
            )
            notes.append((None, text + "they have no score, and the first candidate."))
        return Certificate(float(max(ratios)), tuple(notes), fields, kind)

    def _by_columns(
        self, moments: Moments, arrays: Mapping[str, HostArray], ridges: HostArray, gammas: HostArray
    ) -> tuple[dict[str, Any], HostArray]:
        """The coefficients as returned, and of each target the lengths of the residual, of D⁻¹w and of D Xᵀy."""
        f, asarray = moments.fitted[0], moments.device.asarray
        returned = self.X.device.asarray(f.scaled(arrays["weights"]), self.X.dtype)
        W = f.unscaled(HOST.asarray(returned))  # what is certified is what is returned
        SW = to_host(moments.products(asarray(W), None, onto=(0,))[0][0])
        C = to_host(moments.cross())
        lengths, errors = np.empty((3, len(ridges))), moments.fitted[1].squares.copy()
        for block in blocks_of(len(ridges), len(W)):
            d = np.sqrt(gammas[block]).T[self.band_of]
            w = W[:, block] * np.where(d > 0, reciprocal(d), 1.0)
            gap = d * (C[:, block] - SW[:, block]) - ridges[block] * w
            lengths[:, block] = [np.linalg.norm(V, axis=0) for V in (gap, w, d * C[:, block])]
            errors[block] += np.einsum("ij,ij->j", W[:, block], SW[:, block] - 2 * C[:, block])
        return {"weights": returned, "target_errors": np.maximum(errors, 0.0)}, lengths

    def _by_rows(
        self, moments: Moments, arrays: Mapping[str, HostArray], ridges: HostArray, gammas: HostArray
    ) -> tuple[dict[str, Any], HostArray]:
        """The same for w = γ ∘ Xᵀa: D Xᵀ(y − X w) − r D⁻¹w is D Xᵀe with e = y − K a − r a."""
        asarray = self.X.device.asarray
        X, Y = (preprocessed(moments, i, rows) for i, rows in enumerate(rows_of(moments)))
        mixing = asarray(arrays["mixing"], self.X.dtype)
        fields = {"weights": asarray(moments.fitted[0].scaled(X.T), self.X.dtype), "mixing": mixing}
        duals, lengths, errors = HOST.asarray(mixing), np.empty((3, len(ridges))), np.empty(len(ridges))
        kernels = band_kernels(X, X, self.band_of, len(self.band_names))
        settings, numbers = np.unique(gammas, axis=0, return_inverse=True)
        for number, gamma in enumerate(settings):
            columns, K = np.flatnonzero(numbers.ravel() == number), sum_of(kernels, gamma)
            for block in blocks_of(len(columns), len(X)):
                some = columns[block]
                y, a = Y[:, some], duals[:, some]
                e = y - K @ a - ridges[some] * a
                squares = [np.einsum("ij,ij->j", V, K @ V) for V in (e, a, y)]
                lengths[:, some] = np.sqrt(np.maximum(squares, 0.0))
                errors[some] = ((y - K @ a) ** 2).sum(axis=0)
        return {**fields, "target_errors": errors}, lengths

    def _floor(self, moments: Moments) -> HostArray:
        """Estimate the rounding of Xᵀy for each target: a product below it is zero."""
        x, y = moments.fitted[0], moments.fitted[1]
        squares = y.squares if moments.subtracts[1] else y.squares + y.total * y.average**2
        return 10 * float(np.finfo(self.X.dtype).eps) * np.sqrt(x.squares.sum() * squares)


def _is_count(splitter: Any) -> bool:
    """Whether a splitter is a number of folds."""
    return isinstance(splitter, int | np.integer) and not isinstance(splitter, bool)
