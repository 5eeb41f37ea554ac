"""An estimator for any problem that declares its fields.

Problem: a problem of another package should stand in pipelines and grid searches, too.
Method: the parameters are the declared numbers and flags of the problem, k under the name `n_components`, and those of
every estimator. The matrices are X, or X and y, or for any number of views a list X. The declared fields of the answer
become attributes that end in "_". The class is made once for each problem.
"""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import (
    ClassNamePrefixFeaturesOutMixin,
    MultiOutputMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted

from linspec import registry
from linspec.arrays import Array, is_array
from linspec.errors import InvalidOption, InvalidProblem, shown
from linspec.estimators.base import (
    LinspecEstimator,
    PairedRows,
    checked_array,
    intercept_of,
    known_to_scikit_learn,
    like,
    with_columns,
)
from linspec.families.least_squares.problem import LeastSquaresSolution
from linspec.frames import check_order, is_frame
from linspec.solving.fields import parts_of
from linspec.solving.problem import Problem
from linspec.solving.solution import weights_by_matrix
from linspec.studies.held_out.scores import number_of, score_of_rows

RUN = {"solver": "auto", "tol": None, "max_passes": None, "random_state": None, "solver_options": None}
"""Parameters of every estimator, and their defaults."""

OF_FIT = ("sample_weight", "confounds")
"""Fields of a problem that belong to the rows, and not to the estimator."""

COMPONENTS = "n_components"
"""The parameter that holds k."""


class Generic(LinspecEstimator):
    """Base of the estimators that `of` makes, and of those that name a problem of a plugin."""

    _named: ClassVar[str] = ""

    @property
    def _problem(self) -> Any:
        """The class of the problem, which may be that of a plugin."""
        return registry.get_problem(self._named)

    @property
    def _several(self) -> bool:
        """Whether the problem takes any number of views."""
        return any(declared.several for declared in self._problem.stated.matrices.values())

    @property
    def _takes_list(self) -> bool:
        """Whether X is a list of views."""
        return self._several

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Solve the problem of this class for the rows of X, or of X and y.

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
        numbers = {
            field.name: getattr(self, name, None) for name, field in parameters_of(self._problem).items()
        } | {"sample_weight": sample_weight}
        stated = {name: value for name, value in numbers.items() if value is not None}
        self._learn(self._problem(*self._matrices(X, y, sample_weight), **stated))
        return self

    def _learn(self, problem: Problem[Any]) -> None:
        solution = self.solution_ = self._solved(problem)
        layout = solution.layout
        first = next(iter(layout.leading), "")
        vectors = parts_of(getattr(solution, first, None))[0]
        names = [name for name in layout.entries if not hasattr(type(self), f"{name}_")]
        for name in names:  # coef_ and intercept_ are properties
            value = getattr(solution, name)
            numbers = isinstance(value, np.ndarray) and value.dtype.kind == "f"
            if numbers and layout.shapes.get(name) in ("k", "m k", "r") and is_array(vectors):
                value = like(vectors, value)  # of components or targets, kept on the host
            setattr(self, f"{name}_", value)
        if self._takes_list:
            self.n_features_in_ = sum(int(A.shape[1]) for A in problem.matrices.values())
        if layout.leading and (layout.value or hasattr(solution, "transform")):
            self.n_components_ = int(vectors.shape[1 - layout.entries[first].axis])

    def _matrices(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, ...]:
        """Check the data of a fit, and return them as arguments of the problem."""
        if self._several:
            return (self._list_of_views(X, fitting=True),)
        matrices = self._problem.stated.matrices
        if len(matrices) == 1:
            check_order({"X": X, "sample_weight": sample_weight})
            return (self._rows(X, fitting=True),)
        X, y = self._views(X, y, sample_weight=sample_weight)
        _, second = matrices.values()
        return X, y[:, 0] if second.vector and self._one_column else y

    def _list_of_views(self, X: Any, *, fitting: bool = False) -> list[Any]:
        """Check a list of views; frames stay frames, so that the solution compares the names of their columns."""
        if not isinstance(X, list | tuple):
            raise InvalidProblem(
                f"X must be a list of views, with the same rows in each; got {type(X).__name__}. Pass [X1, X2]; "
                "linspec.estimators.MultisetCCA takes one matrix if columns= says which are a view."
            )
        count = len(X) if fitting else len(weights_by_matrix(self.solution_))
        if len(X) != count:
            raise InvalidProblem(
                f"X must be a list of the {count} views of the fit; got {len(X)}. If cross-validation has cut the "
                "list, call linspec.cross_validate, which cuts the rows."
            )
        return [_checked_view(self, view) for view in X]

    def _passed(self, method: str, X: Any, y: Any = None) -> list[Any]:
        """Check rows for a method of a fitted estimator, or a list of views."""
        if not self._several:
            return super()._passed(method, X, y)
        check_is_fitted(self)
        return self._list_of_views(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if len(self._problem.stated.matrices) > 1:
            tags.target_tags.required = True
            tags.target_tags.two_d_labels = True
            tags.target_tags.multi_output = True
        tags.input_tags.pairwise = self._takes_list  # cross-validation refuses a list: it would cut the views
        return tags


class Transformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Generic):  # type: ignore[misc]
    """Base of estimators whose answers have `transform`.

    scikit-learn makes frames of the results of a method that stands in the class of a transformer.
    """

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

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
        return self._scores(X, None if self._several else y)


class Scored(Generic):
    """Base of estimators whose answers have `score`, or scores of the rows of two or more matrices."""

    def score(self, X: Any, y: Any = None) -> float:
        """Compute the score of rows by the method `score` of the solution, or by correlations of scores.

        Parameters
        ----------
        X : data of shape (n_samples, n_features)
            Rows of the first matrix; a list for problems of several views.
        y : data of shape (n_samples, n_targets), optional

        Returns
        -------
        float
            The attribute `total` of what that method returns, such as the total correlation captured; without such an
            attribute, the returned number itself. For solutions without that method, the correlations of the scores of
            each pair of matrices, summed over components and pairs. NaN for correlations of a single row, or of rows
            that do not vary.
        """
        rows = self._passed("score", X, y if len(self._problem.stated.matrices) > 1 else None)
        return number_of(score_of_rows(self.solution_, rows))


class Predictor(Generic):
    """Base of estimators whose answers have `predict`."""

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


class TargetPredictor(PairedRows, MultiOutputMixin, RegressorMixin, Predictor):  # type: ignore[misc]
    """Base of estimators whose answers predict targets; `score` is R² as scikit-learn computes it."""


class LinearPredictor(TargetPredictor):
    """Base of estimators whose answers have coefficients of columns."""

    @property
    def coef_(self) -> Array:
        # what it is says the class, whose page shows no docstring of a property of its base
        solution = self.solution_
        if getattr(solution, "path", False):
            raise AttributeError("coef_ belongs to one ridge; x_ has the coefficients of several ridges.")
        x = solution.coefficients() if hasattr(solution, "coefficients") else solution.x
        rows = with_columns(x).T
        return rows[0, :] if self._one_column else rows

    @property
    def intercept_(self) -> Any:
        return intercept_of(self.solution_.intercept)


def _checked_view(estimator: LinspecEstimator, X: Any) -> Any:
    """Check one of several views, and return it as a frame, an array, a sparse matrix, or an operator."""
    if is_frame(X) or not known_to_scikit_learn(X):
        return X
    return checked_array(X, accept_sparse=True, input_name="X", estimator=estimator)


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


def parameters_of(problem: type[Problem[Any]]) -> dict[str, dataclasses.Field[Any]]:
    """Return the fields of a problem that are parameters of its estimator, by the names of the parameters."""
    apart = {*problem.stated.matrices, *OF_FIT}
    names = {problem.stated.count: COMPONENTS}
    fields: Any = dataclasses.fields(problem)  # type: ignore[arg-type]  # problems are dataclasses
    return {
        names.get(field.name, field.name): field for field in fields if field.init and field.name not in apart
    }


@lru_cache(maxsize=256)
def _class_of(problem: type[Problem[Any]]) -> type[Generic]:
    """Make the class of estimators of a problem."""
    stated: Any = problem.stated
    defaults: dict[str, Any] = {
        name: None if field.default is dataclasses.MISSING else field.default
        for name, field in parameters_of(problem).items()
    }
    defaults |= RUN
    if stated.count and not stated.fields[stated.count].optional:
        defaults[COMPONENTS] = 1
    leading = problem.solution.layout.leading
    return dataclasses.make_dataclass(
        problem.__name__,
        [(name, Any, dataclasses.field(default=default)) for name, default in defaults.items()],
        bases=_bases(problem),
        namespace={
            "__doc__": f"Estimator of `linspec.{problem.__name__}`; the result of linspec is `solution_`.",
            "__module__": __name__,
            "__reduce__": _reduced,
            "_problem": problem,
            "_weights": f"{leading[0]}_" if leading else "solution_",
        },
        kw_only=True,
        eq=False,
        repr=False,
    )


def _bases(problem: type[Problem[Any]]) -> tuple[type, ...]:
    """Return the base classes of the estimator of a problem, which depend on the methods of its solutions."""
    solution = problem.solution
    transforms = (Transformer,) if hasattr(solution, "transform") else ()
    if hasattr(solution, "coefficients") or issubclass(solution, LeastSquaresSolution):
        return (*transforms, LinearPredictor)
    predicts = (Predictor,) if hasattr(solution, "predict") else ()
    if predicts and not transforms:
        return (TargetPredictor,)
    several = any(declared.several for declared in problem.stated.matrices.values())
    paired = transforms and (several or len(solution.layout.weights) > 1)
    return (*transforms, *predicts, Scored if paired or hasattr(solution, "score") else Generic)


def _reduced(estimator: Generic) -> tuple[Any, ...]:
    """Take an estimator apart for pickling: its class is made again from the problem."""
    return _empty, (estimator._problem,), estimator.__getstate__()


def _empty(problem: type[Problem[Any]]) -> Generic:
    """Make an estimator without state, for unpickling."""
    return of(problem)()
