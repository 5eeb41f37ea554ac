"""An estimator for any problem that declares its fields.

Problem: a problem of another package should stand in pipelines and grid searches, too.
Method: the parameters are the declared numbers and flags of the problem, k under the name `n_components`, and those of
every estimator. The matrices are X, or X and y, or for any number of views a list X. The declared fields of the answer
become attributes that end in "_". The class is made once for each problem.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import lru_cache
from typing import Any, ClassVar

from sklearn.base import ClassNamePrefixFeaturesOutMixin, RegressorMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from linspec import registry
from linspec.arrays import is_array
from linspec.errors import InvalidOption, shown
from linspec.estimators.base import LinspecEstimator, PairedRows, checked_array, known_to_scikit_learn, like
from linspec.frames import check_order
from linspec.solving.problem import Problem
from linspec.solving.solution import Solution
from linspec.studies.held_out.scores import number_of

RUN = {"solver": "auto", "tol": None, "max_passes": None, "random_state": None, "solver_options": None}
"""Parameters of every estimator, and their defaults."""

OF_FIT = ("sample_weight", "confounds")
"""Fields of a problem that belong to the rows, and not to the estimator."""

COMPONENTS = "n_components"
"""The parameter that holds k."""


def _answers(method: str) -> Callable[[Any], bool]:
    """Return a function that takes an estimator, and returns whether solutions of its problem have a method."""
    return lambda estimator: hasattr(estimator._problem.solution, method)


class Generic(LinspecEstimator):
    """Base of the estimators that `of` makes."""

    _problem: ClassVar[type[Problem[Any]]]
    _fields: ClassVar[dict[str, str]]

    def __reduce__(self) -> tuple[Any, ...]:
        return _empty, (self._problem,), self.__getstate__()

    @property
    def _several(self) -> bool:
        """Whether the problem takes any number of views."""
        return any(declared.several for declared in self._problem.stated.matrices.values())

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Solve the problem from which `of` made this class, for the rows of X, or of X and y.

        Parameters
        ----------
        X : data of shape (n_samples, n_features), or list of such data
            Anything that scikit-learn or `linspec.as_operator` accepts. For problems of any number of views, a list
            of such data, one for each view.
        y : data of shape (n_samples, n_targets), optional
            The second matrix, if the problem has one.
        sample_weight : array of shape (n_samples,), optional
            How often each row counts.

        Returns
        -------
        estimator
            The estimator itself.
        """
        numbers = {field: getattr(self, name) for name, field in self._fields.items()} | {
            "sample_weight": sample_weight
        }
        stated = {name: value for name, value in numbers.items() if value is not None}
        matrices = self._matrices(X, y, sample_weight)
        solution = self.solution_ = self._solved(self._problem(*matrices, **stated))
        layout = solution.layout
        for name in layout.entries:
            value = getattr(solution, name)
            if name == layout.value and layout.leading and is_array(getattr(solution, layout.leading[0])):
                value = like(getattr(solution, layout.leading[0]), value)
            setattr(self, f"{name}_", value)
        if layout.value:
            self.n_components_ = self._n_features_out = len(getattr(solution, layout.value))
        return self

    def _matrices(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, ...]:
        """Check the data of a fit, and return them as arguments of the problem."""
        if self._several:
            return ([_checked_view(self, view) for view in X],)
        matrices = self._problem.stated.matrices
        if len(matrices) == 1:
            check_order({"X": X, "sample_weight": sample_weight})
            return (self._rows(X, fitting=True),)
        X, y = self._views(X, y, sample_weight=sample_weight)
        _, second = matrices.values()
        return X, y[:, 0] if second.vector and self._one_column else y

    @available_if(_answers("transform"))  # type: ignore[untyped-decorator]  # scikit-learn has no types
    def transform(self, X: Any, y: Any = None) -> Any:
        """Compute the scores of rows.

        Parameters
        ----------
        X : data of shape (n_samples, n_features)
            Rows of the first matrix; a list for problems of several views.
        y : data of shape (n_samples, n_targets), optional
            Rows of the second matrix.

        Returns
        -------
        array of shape (n_samples, n_components_), or a tuple of them for several matrices
        """
        return self._answer("transform", X, y)

    @available_if(_answers("predict"))  # type: ignore[untyped-decorator]  # as above
    def predict(self, X: Any) -> Any:
        """Predict the targets of rows, their classes, or their part in the other view.

        The method `predict` of the solution decides which of these it is.

        Parameters
        ----------
        X : data of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_targets), or (n_samples,)
        """
        predicted = self._answer("predict", X)
        return predicted[:, 0] if self._one_column and getattr(predicted, "ndim", 1) > 1 else predicted

    def _answer(self, method: str, X: Any, y: Any = None) -> Any:
        """Call a method of the answer with checked rows, or with a list of views."""
        if not self._several:
            return super()._answer(method, X, y)
        check_is_fitted(self)
        return getattr(self.solution_, method)([_checked_view(self, view) for view in X])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if len(self._problem.stated.matrices) > 1:
            tags.target_tags.required = True
            tags.target_tags.two_d_labels = True
            tags.target_tags.multi_output = True
        return tags


class _Scored(Generic):
    """Base of estimators whose answers have `score`."""

    def score(self, X: Any, y: Any = None) -> float:
        """Compute the score of rows by the method `score` of the solution.

        Parameters
        ----------
        X : data of shape (n_samples, n_features)
        y : data of shape (n_samples, n_targets), optional

        Returns
        -------
        float
            The attribute `total` of what that method returns, such as the total correlation captured; without such an
            attribute, the returned number itself. NaN for correlations of a single row, or of rows that do not vary.
        """
        return number_of(self._answer("score", X, y))


def _checked_view(estimator: LinspecEstimator, X: Any) -> Any:
    """Check one of several views, and return it as an array, a sparse matrix, or an operator."""
    return (
        checked_array(X, accept_sparse=True, input_name="X", estimator=estimator)
        if known_to_scikit_learn(X)
        else X
    )


def of(problem: str | type[Problem[Any]]) -> type[Generic]:
    """Return the class of estimators that solve a problem.

    Parameters
    ----------
    problem : str or type
        A problem that declares its matrices with `linspec.matrix` or `linspec.views`, by its name or its class.

    Returns
    -------
    type
        A class of scikit-learn's estimators. Its parameters are the numbers and flags of the problem, `n_components`
        for k (by default 1 if the problem has no default), and `solver`, `tol`, `max_passes`, `random_state` and
        `solver_options`. Attributes of a fitted estimator are the declared fields of the answer with "_" behind them,
        and `solution_`.

    Raises
    ------
    InvalidOption
        If `problem` is not the name or the class of a problem that declares its matrices. Or if the problem declares
        more than two matrices separately, instead of one list of views.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec import estimators
    >>> TruncatedSVD = estimators.of(ls.SVD)
    >>> A = np.random.default_rng(0).standard_normal((50, 6))
    >>> TruncatedSVD(n_components=2, center=True).fit_transform(A).shape
    (50, 2)
    """
    problem_class: Any = registry.get_problem(problem) if isinstance(problem, str) else problem
    if not (
        isinstance(problem_class, type)
        and issubclass(problem_class, Problem)
        and problem_class.stated.matrices
    ):
        raise InvalidOption(
            f"problem must be the name or the class of a problem with declared matrices; got {shown(problem)}."
        )
    if len(problem_class.stated.matrices) > len("XY"):
        raise InvalidOption(
            f"an estimator takes X and y; {problem_class.__name__} has {len(problem_class.stated.matrices)} matrices. "
            "Declare them as linspec.views()."
        )
    return _class_of(problem_class)


@lru_cache(maxsize=256)
def _class_of(problem: type[Problem[Any]]) -> type[Generic]:
    """Make the class of estimators of a problem."""
    stated: Any = problem.stated
    fields: dict[str, str] = {}
    defaults: dict[str, Any] = {}
    for field in dataclasses.fields(problem):  # type: ignore[arg-type]  # problems are dataclasses
        if field.init and field.name not in stated.matrices and field.name not in OF_FIT:
            name = COMPONENTS if field.name == stated.count else field.name
            fields[name] = field.name
            defaults[name] = None if field.default is dataclasses.MISSING else field.default
    defaults |= RUN
    if stated.count and not stated.fields[stated.count].optional:
        defaults[COMPONENTS] = 1
    leading = problem.solution.layout.leading
    return dataclasses.make_dataclass(
        problem.__name__,
        [(name, Any, dataclasses.field(default=default)) for name, default in defaults.items()],
        bases=_bases(problem.solution),
        namespace={
            "__doc__": f"Estimator of `linspec.{problem.__name__}`; the result of linspec is `solution_`.",
            "__module__": __name__,
            "_problem": problem,
            "_fields": fields,
            "_weights": f"{leading[0]}_" if leading else "solution_",
        },
        kw_only=True,
        eq=False,
        repr=False,
    )


def _bases(solution: type[Solution]) -> tuple[type, ...]:
    """Return the base classes of an estimator, which depend on the methods of its class of solutions.

    A class with `score` gives `_Scored`, another one `Generic`. In addition, a class with `transform` gives the bases
    of transformers; a class with `predict`, but without `transform`, gives the bases of regressors.
    """
    base = _Scored if hasattr(solution, "score") else Generic
    if hasattr(solution, "transform"):
        return ClassNamePrefixFeaturesOutMixin, TransformerMixin, base
    return (PairedRows, RegressorMixin, base) if hasattr(solution, "predict") else (base,)


def _empty(problem: type[Problem[Any]]) -> Generic:
    """Make an estimator without state, for unpickling."""
    return of(problem)()
