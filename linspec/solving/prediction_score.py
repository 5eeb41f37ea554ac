"""How well an answer predicts rows: the accuracy of classes, or R² of numbers.

Problem: a user with new rows and their targets wants one number, by the measure that the field uses.
Method: an answer that has `classes` predicts the class of each row; its accuracy is the share of rows whose class is
right. Any other answer predicts numbers; R² is 1 − Σ(y − ŷ)² / Σ(y − ȳ)², about the means ȳ of the scored rows, over
all targets together and for each.
Source: Hastie, Tibshirani & Friedman 2009, The elements of statistical learning, sections 3.2 and 4.3.
Where we differ: R² over several targets is that of their sums of squares, as in cross-validation here, and not the mean
of the R² of each.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from linspec.arrays import HostArray, to_host
from linspec.errors import InvalidProblem, shown
from linspec.frames import check_names, check_order, column_names_of
from linspec.linalg.variation import r_squared, squares_about_means
from linspec.operators import as_operator
from linspec.operators.weights import weights_and_confounds
from linspec.solving.checks import as_columns
from linspec.targets import class_codes
from linspec.workers import brought_here


class PredictionScore(NamedTuple):
    """The score of predictions.

    Attributes
    ----------
    label : str
        "accuracy" or "R²".
    total : float
        The score: between 0 and 1 for accuracy, at most 1 for R². NaN if the targets do not vary.
    by_target : numpy.ndarray of shape (q,)
        R² of each target; for classes the accuracy alone.
    rows : int
        The number of scored rows.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.solving import score_of_predictions
    >>> A = np.diag([1.0, 2.0, 4.0])
    >>> score = score_of_predictions(ls.solve(ls.LeastSquares(A, A[:, 0])), A, A[:, 0])
    >>> score.label, score.rows, round(score.total, 6)
    ('R²', 3, 1.0)
    """

    label: str
    total: float
    by_target: HostArray
    rows: int


def score_of_predictions(
    answer: Any, rows: Any, truth: Any, *, confounds: Any = None, sample_weight: Any = None, **options: Any
) -> PredictionScore:
    """Score the predictions of an answer on some rows, usually new ones.

    Parameters
    ----------
    answer : object
        Anything with a method `predict`. If it has `classes` that are not None, it predicts the class of each row.
    rows : data of shape (n, p)
        As `predict` takes them.
    truth : data of shape (n, q), or vector of length n
        The targets of the same rows, or their classes. Rows without a class (None or NaN) are left out.
    confounds : array of shape (n, c), optional
        As for `predict`.
    sample_weight : array of shape (n,), optional
        How often each row counts.
    **options
        Further arguments of `predict`.

    Returns
    -------
    PredictionScore

    Raises
    ------
    InvalidProblem
        The numbers of rows or of targets differ, the targets have other names or another order, or none of the
        classes is one of the training data.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.solving import score_of_predictions
    >>> A = np.random.default_rng(0).standard_normal((60, 4))
    >>> B = A @ np.ones((4, 2))
    >>> solution = ls.solve(ls.LeastSquares(A[:40], B[:40]))
    >>> score_of_predictions(solution, A[40:], B[40:]).by_target.round(6)
    array([1., 1.])
    """
    auxiliary = {"confounds": confounds, "sample_weight": sample_weight}
    check_order({"the rows": rows, "the targets": truth, **auxiliary}, again=True)
    known = getattr(answer, "column_names", {}).get(getattr(answer, "targets", "Y"))
    check_names(column_names_of(truth), known, "the targets", "the targets of the fit")
    if confounds is not None:
        options = {**options, "confounds": confounds}
    predicted = to_host(brought_here(answer.predict(rows, **options)))
    return prediction_score(predicted, truth, getattr(answer, "classes", None), sample_weight)


def prediction_score(
    predicted: HostArray, truth: Any, classes: HostArray | None = None, sample_weight: Any = None
) -> PredictionScore:
    """Score predictions that have been computed: classes if the `classes` of the training data are passed.

    Parameters
    ----------
    predicted : numpy.ndarray of shape (n, q) or (n,)
    truth : data of shape (n, q), or vector of length n
    classes : numpy.ndarray of shape (c,), optional
    sample_weight : array of shape (n,), optional

    Raises
    ------
    InvalidProblem
        As for `score_of_predictions`.
    """
    if classes is not None:
        return _accuracy(predicted, truth, classes, sample_weight)
    predictions = np.asarray(predicted, dtype=np.float64).reshape(len(predicted), -1)
    columns = as_operator(as_columns(truth, "the targets"), "the targets")
    if columns.shape != predictions.shape:
        raise InvalidProblem(
            f"the targets must have the shape of the predictions, {predictions.shape}; got {columns.shape}. Pass a row "
            "for each row, and a column for each target."
        )
    wanted = np.asarray(to_host(brought_here(columns)), dtype=np.float64)
    w = _counted(sample_weight, len(predictions))
    errors = w @ (wanted - predictions) ** 2
    about = squares_about_means(wanted, w)
    total = float(r_squared(errors.sum(), about.sum()))
    return PredictionScore("R²", total, r_squared(errors, about), len(predictions))


def _accuracy(predicted: HostArray, truth: Any, classes: HostArray, sample_weight: Any) -> PredictionScore:
    """Return the share of the rows with a class whose prediction is this class."""
    codes, names = class_codes(truth)
    numbers = {name: i for i, name in enumerate(names.tolist())}
    if len(codes) != len(predicted) or not numbers.keys() & set(classes.tolist()):
        raise InvalidProblem(
            f"y must have a class of the training data, {shown(classes.tolist())}, for each of {len(predicted)} rows; "
            f"got {len(codes)}, with classes {shown(names.tolist())}."
        )
    there = codes >= 0
    w = _counted(sample_weight, len(codes))[there]
    predicted_codes = np.array([numbers.get(name, -1) for name in predicted[there].tolist()])
    share = float(w @ (predicted_codes == codes[there]) / w.sum())
    return PredictionScore("accuracy", share, np.array([share]), len(w))


def _counted(sample_weight: Any, count: int) -> HostArray:
    """Return the weights of rows; by default each counts once."""
    w, _ = weights_and_confounds(sample_weight, None, count)
    return np.ones(count) if w is None else w
