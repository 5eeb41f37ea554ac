"""The base class of all estimators: it checks rows, solves the problem, and returns results in the library and on the
device of X.

Problem: an estimator of scikit-learn stores its parameters unchanged, checks the rows at every call, counts
their columns, and returns arrays in the library of X. linspec has options, problems and solutions.
Method: scikit-learn checks the rows of types that it knows, and stores the names of columns. Other data (files,
operators, slices of rows) are passed on to linspec unchanged. Numbers that linspec keeps on the host are copied to
the device of the weights.
Source: scikit-learn's guide for developers of estimators; its array-API support, which the setting
`array_api_dispatch` turns on.

Problem: scikit-learn's `partial_fit` goes on with rows that come later, and its methods forget a part of the earlier
ones, or are stochastic.
Method: means and second moments of all rows are held (`linspec.HeldMoments`), and the problem on all of them is solved
after each batch. So the answer is that of `fit` on all rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import wraps
from inspect import signature
from types import FunctionType
from typing import Any, ClassVar, ParamSpec, Self, TypeVar

import numpy as np
import scipy.sparse
import sklearn.exceptions
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils import check_array
from sklearn.utils._set_output import _wrap_data_with_container
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from linspec import errors
from linspec.arrays import (
    HOST,
    Array,
    Device,
    HostArray,
    check_bare,
    from_host,
    host_dtype,
    is_array,
    on_device,
    to_host,
    with_device,
)
from linspec.borrowed import borrowed_together, may_lend
from linspec.errors import InvalidOption, InvalidProblem, shown
from linspec.frames import check_names, check_order, column_names_of, is_frame, is_series
from linspec.operators import LinearOperator, as_operator
from linspec.operators.sparse import checked_rows
from linspec.process.locks import locked
from linspec.registry import get_solver
from linspec.solving.held_moments import HeldMoments
from linspec.solving.problem import Problem
from linspec.solving.solution import Solution
from linspec.solving.solve import solve
from linspec.solving.solver import Solver
from linspec.status import Status

SPARSE = ("csr", "csc")
"""Sparse formats that are used without conversion; other formats are converted to the first of these."""

S = TypeVar("S", bound=Solution)
P = ParamSpec("P")
R = TypeVar("R")


class ConvergenceWarning(
    errors.ConvergenceWarning,
    sklearn.exceptions.ConvergenceWarning,  # type: ignore[misc]
):
    """Warning that a fit has not converged; it derives from the warnings of both linspec and scikit-learn.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from linspec.estimators import ConvergenceWarning, Ridge
    >>> X = np.random.default_rng(0).standard_normal((50, 5))
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     _ = Ridge(solver="gd", solver_options={"max_iterations": 1}).fit(X, X[:, 0])
    >>> caught[-1].category is ConvergenceWarning
    True
    """


def lending(method: Callable[P, R]) -> Callable[P, R]:
    """Decorate a method so that loans (`linspec.borrowed`) reach it as NumPy arrays and SciPy sparse matrices."""
    names = signature(method).parameters

    @wraps(method)
    def called(*args: P.args, **named: P.kwargs) -> R:
        values = dict(zip(names, args, strict=False))
        for name, value in (values | named).items():
            check_bare(value, name)
        read = borrowed_together({name: _read(value) for name, value in (values | named).items()})
        first = [read.pop(name) for name in values]
        return method(*first, *args[len(values) :], **read)  # type: ignore[arg-type]

    return called


def _read(value: Any) -> Any:
    """Read what is no array but can be read as one, such as a variable of a file, which may give a masked array."""
    known = is_array(value) or is_frame(value) or is_series(value) or may_lend(type(value))
    return value if known or not hasattr(value, "__array__") or np.isscalar(value) else to_host(value)


class PairedRows:
    """Mixin for regressors and classifiers: `score` checks that the rows of X and y are in the same order."""

    @lending
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Score the predictions of rows: R² for regressors, accuracy for classifiers.

        Parameters
        ----------
        X : data of shape (n_samples, n_features)
        y : array of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array of shape (n_samples,), optional
            How often each row counts.

        Returns
        -------
        float
            The score as scikit-learn computes it. Frames with the same row labels in different orders raise an error.
        """
        check_order({"X": X, "y": y, "sample_weight": sample_weight})
        self._compare_targets(y)  # type: ignore[attr-defined]  # of the estimator
        return float(super().score(X, y, sample_weight))  # type: ignore[misc]  # scikit-learn's mixin comes next


class LinspecEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Base class of all estimators.

    Every concrete subclass sets `_weights` to the name of the attribute with the fitted weights. With array-API
    dispatch, new rows must be in the library and on the device of these weights.
    """

    _weights: ClassVar[str]
    _gaps: ClassVar[bool] = False  # whether NaN stands for a missing entry

    solver: Any
    tol: float | None
    max_passes: float | None
    random_state: Any
    solver_options: dict[str, Any] | None
    solution_: Any
    n_features_in_: int
    _one_column = False
    _y_names: tuple[str, ...] | None = None

    def __init_subclass__(cls, **named: Any) -> None:
        """Decorate the public methods, so that arrays of JAX and sparse torch tensors can be passed."""
        super().__init_subclass__(**named)
        for name, method in vars(cls).copy().items():
            if isinstance(method, FunctionType) and not name.startswith("_"):
                setattr(cls, name, lending(method))

    def _store(self, parameters: dict[str, Any]) -> None:
        """Store the arguments of a constructor, its `locals()`, unchanged under their names."""
        self.__dict__.update((name, value) for name, value in parameters.items() if value is not self)

    # ---- the solve ----------------------------------------------------------------------------

    def _solved(self, problem: Problem[S]) -> S:
        """Solve the problem, and warn once if the solution has not converged or its weights may be wrong."""
        with warnings.catch_warnings():  # this one warning is that of scikit-learn, too
            warnings.simplefilter("ignore", errors.ConvergenceWarning)
            solution = solve(problem, rng=seed_of(self.random_state), **self._settings(problem))
        if not solution.converged or solution.status is Status.ILL_CONDITIONED:
            text = f"{type(self).__name__}: {solution.solver} has not converged ({solution.status.name}): "
            errors.warn(f"{text}{solution.message}", ConvergenceWarning)
        return solution

    def _settings(self, problem: Problem[Any]) -> dict[str, Any]:
        """The arguments of `linspec.solve` that the parameters of the estimator set, except the seed."""
        settings = dict(self.solver_options or {})
        if self.tol is not None and _takes_tol(self.solver, problem):
            settings.setdefault("tol", self.tol)
        if self.max_passes is not None:
            settings["max_passes"] = self.max_passes
        if self.solver != "auto":
            settings["solver"] = self.solver
        return settings

    # ---- rows ---------------------------------------------------------------------------------

    def _rows(self, X: Any, *, fitting: bool = False, least: int = 1) -> Any:
        """Check X, and return it as an array, a sparse matrix, or an operator; integers get float64 products."""
        if not known_to_scikit_learn(X):
            A = as_operator(X, "X")
            if fitting:
                self.__dict__.pop("feature_names_in_", None)
                self.n_features_in_ = int(A.shape[1])
            elif A.shape[1] != self.n_features_in_:
                raise InvalidProblem(
                    f"X must have {self.n_features_in_} columns, as in fit; got {A.shape[1]}."
                )
            return A
        X = merged(X)
        with on_device(X):  # scikit-learn makes arrays on the current device of CuPy
            X = validate_data(
                self,
                X,
                reset=fitting,
                accept_sparse=SPARSE,
                dtype="numeric",
                ensure_min_samples=least,
                ensure_all_finite="allow-nan" if self._gaps else True,
            )
        dtype = host_dtype(X) if is_array(X) else X.dtype
        return X if dtype.kind == "f" else as_operator(X, "X", dtype=np.float64)

    def _rows_and_targets(
        self, X: Any, y: Any, *, first: bool = True, least: int = 2, numeric: bool = True, **row_data: Any
    ) -> tuple[Any, Any]:
        """Check X and y of a fit, and return both; `first` is False for rows that are added to earlier ones.

        X is returned as an array, a sparse matrix or an operator. With array-API dispatch, numeric y are copied to the
        library and device of X. `others` are further data with a value for each row, such as weights; frames among
        them must have their row labels in the order of X.
        """
        check_order({"X": X, "y": y, **row_data})
        self._compare_targets(y, first=first)
        if y is None:  # the check raises the error for a missing y
            validate_data(self, X, y, skip_check_array=True)
        y = self._second(y, X, numeric=numeric)
        X = self._rows(X, fitting=first, least=least)
        if not isinstance(X, LinearOperator) and hasattr(y, "shape"):
            check_consistent_length(X, y)
        return X, y

    def _compare_targets(self, y: Any, *, first: bool = False) -> None:
        """Refuse targets with other names than those of the fit, or in another order; the first ones are kept."""
        names = column_names_of(y)
        if first:
            self._y_names = names
        check_names(names, self._y_names, "y", "the y of the fit")

    def _second(self, y: Any, X: Any, *, numeric: bool = True) -> Any:
        """Check targets, or rows of a second view; numbers are returned in the library and on the device of X."""
        y = on_device_of(y, X) if numeric else y
        if not known_to_scikit_learn(y):
            return y
        kind = "numeric" if numeric else None
        return checked_array(
            merged(y), accept_sparse=SPARSE, dtype=kind, ensure_2d=False, input_name="y", estimator=self
        )

    def _views(self, X: Any, y: Any, **row_data: Any) -> tuple[Any, Any]:
        """Check X and y of a fit; return X, and y with two dimensions."""
        X, y = self._rows_and_targets(X, y, **row_data)
        self._one_column = is_array(y) and y.ndim == 1
        return X, with_columns(y)

    def _new_rows(self, X: Any, method: str) -> Any:
        """Check and return rows for a fitted estimator: columns, library and device must be those of the fit."""
        check_is_fitted(self)
        if get_config()["array_api_dispatch"]:
            here = Device.of(X) if is_array(X) else HOST
            fitted = Device.of(getattr(self, self._weights))
            if here != fitted and not (here.on_host and fitted.on_host):
                raise InvalidProblem(
                    f"Inputs passed to {type(self).__name__}.{method}() must use the same namespace and the same "
                    f"device as those passed to fit(); got {here} after a fit with {fitted}. Convert them, or fit "
                    "again."
                )
        return self._rows(X)

    def _passed(self, method: str, X: Any, y: Any = None) -> list[Any]:
        """Check rows for a method of a fitted estimator, and those of the second view if there are any."""
        rows = [self._new_rows(X, method)]
        if y is not None:
            check_order({"X": X, "y": y})
            self._compare_targets(y)
            rows.append(with_columns(self._second(y, X)))
        return rows

    def _answer(self, method: str, X: Any, y: Any = None) -> Any:
        """Call a method of the solution with checked rows."""
        rows = self._passed(method, X, y)
        return getattr(self.solution_, method)(*rows)

    def _scores(self, X: Any, y: Any = None) -> Any:
        """Compute scores of rows; those of several views are frames where `set_output` asks for frames.

        scikit-learn makes a frame of a single result, but only of the first one of a tuple.
        """
        scores = self._answer("transform", X, y)
        if not isinstance(scores, tuple):
            return scores
        return tuple(
            _wrap_data_with_container("transform", part, rows, self)
            for part, rows in zip(scores, X if y is None else (X, y), strict=True)
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self._gaps
        tags.array_api_support = True
        if tags.transformer_tags is not None:
            tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def like(weights: Array, numbers: HostArray) -> Array:
    """Copy host numbers to the library, dtype and device of the weights."""
    return Device.of(weights).asarray(np.asarray(numbers), host_dtype(weights))


def intercept_of(constant: Array | None) -> Any:
    """The intercept of a solution as scikit-learn has it: 0.0 without one, a float for a vector of targets."""
    if constant is None:
        return 0.0
    return float(to_host(constant)) if constant.ndim == 0 else constant


def on_device_of(y: Any, X: Any) -> Any:
    """With array-API dispatch, copy y to the library and device of X; otherwise return it unchanged."""
    if not get_config()["array_api_dispatch"] or not is_array(y):
        return y
    device = Device.of(X) if is_array(X) else HOST
    if Device.of(y) == device:
        return y
    host = to_host(y)
    return host if device.on_host or host.dtype.kind not in "biuf" else from_host(host, like=X)


def with_columns(y: Any) -> Array:
    """Return a vector as a matrix of one column, and a matrix unchanged."""
    return y[:, None] if is_array(y) and y.ndim == 1 else y


checked_array = with_device(check_array)
"""scikit-learn's `check_array`, run with the device of the array as the current device."""


def seed_of(random_state: Any) -> Any:
    """Convert a `random_state` of scikit-learn to the `rng` of linspec.

    Parameters
    ----------
    random_state : None, int, numpy.random.RandomState or numpy.random.Generator

    Returns
    -------
    None, int or numpy.random.Generator
        An int drawn from the RandomState; any other `random_state` unchanged.
    """
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(np.iinfo(np.int32).max))
    return random_state


def checked_number(name: str, value: Any) -> float:
    """Return the ridge of an estimator as a float.

    Parameters
    ----------
    name : str
        The name of the estimator's parameter, for the message of the error.
    value : object
        The ridge.

    Raises
    ------
    InvalidOption
        If the ridge is not one number, for example a sequence, text, a bool or None.
    """
    if np.ndim(value) != 0 or isinstance(value, str | bool) or value is None:
        raise InvalidOption(f"{name} must be one number; got {shown(value)}. RidgeCV chooses among several.")
    return float(value)


def _takes_tol(solver: Any, problem: Problem[Any]) -> bool:
    """Whether `tol` can be passed with the solver: True for "auto", and for names of solvers with the option `tol`.

    False for instances of solvers, and for names of exact solvers, which have no such option.
    """
    return not isinstance(solver, Solver) and (
        solver == "auto" or any(field.name == "tol" for field in fields(get_solver(solver, problem)))
    )


def known_to_scikit_learn(X: Any) -> bool:
    """Whether data are of a type that scikit-learn can check: arrays, frames, sparse matrices, sequences."""
    if isinstance(X, LinearOperator | str):
        return False
    known = is_array(X) or scipy.sparse.issparse(X) or isinstance(X, Sequence) or np.isscalar(X) or X is None
    return known or hasattr(X, "__array__") or hasattr(X, "__dataframe__")


def merged(X: Any) -> Any:
    """Add the duplicate entries of a sparse matrix, which scikit-learn would add in the dtype that is stored."""
    return checked_rows(X) if scipy.sparse.issparse(X) and X.format not in SPARSE else X


class AddsRows(LinspecEstimator):
    """Base of estimators with `partial_fit`.

    A derived class has the attribute `_problem`, the class of its problem, and three methods: `_checked` makes the
    matrices of the problem of X, y, sample_weight, first and least; `_numbers` gives its other arguments; `_learn`
    solves it, and sets the attributes.
    """

    _held: HeldMoments | None = None

    def _fitted(self, X: Any, y: Any, sample_weight: Any, *, least: int) -> Self:
        """Solve the problem on these rows alone."""
        numbers = self._numbers()
        matrices = self._checked(X, y, sample_weight, first=True, least=least)
        with locked(self):
            self._held = None
            self._learn(self._problem(*matrices, **numbers, sample_weight=sample_weight))
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Add rows to those of earlier calls, and solve the problem on all of them.

        Parameters
        ----------
        X : data of shape (n_samples, n_features)
            As for `fit`; columns and their names must be those of the first call.
        y : data of shape (n_samples,) or (n_samples, n_targets), optional
            As for `fit`.
        sample_weight : array of shape (n_samples,), optional
            How often each row counts.

        Returns
        -------
        estimator
            The estimator itself. Its attributes are those of `fit` on all rows since the first call, or since the last
            call of `fit`, whose own rows do not count. As long as there are fewer rows than `n_components`, there are
            fewer components.
        """
        with locked(self):  # threads that add at once would each go on from the same rows
            held = self._held or HeldMoments(self._problem)
            numbers = self._numbers()
            matrices = self._checked(X, y, sample_weight, first=self._held is None, least=1)
            held.add(*matrices, sample_weight=sample_weight)
            self._held = held
            if numbers.get("k") is not None:
                numbers["k"] = min(numbers["k"], held.rows)
            self._learn(held.problem(**numbers))
        return self
