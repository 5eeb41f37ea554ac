"""Answers that predict targets: what they say of their fit, their intercepts, and tables of predictions.

Problem: a user of a regression asks first for R², the largest coefficients and the intercept, by the names of columns.
Method: the certificate knows the squares of residuals, since it judges them; those of the targets about their means are
learnt in the first pass. R² = 1 − residuals / targets then costs no pass, and is kept with the answer.
Source: Hastie, Tibshirani & Friedman 2009, The elements of statistical learning, section 3.2.
Where we differ: R² over several targets is that of their sums of squares, as `score` has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import numpy as np

from linspec.arrays import Array, Device, HostArray, to_host, with_device
from linspec.errors import printable
from linspec.linalg import r_squared
from linspec.solving.new_rows import NewRows
from linspec.solving.solution import Solution
from linspec.solving.tables import FEW, some_of, table_of_rows
from linspec.workers import brought_here


def unknown() -> HostArray:
    """The sum of squares of a target that is not known."""
    return np.full(1, np.nan)


@dataclass(frozen=True, kw_only=True, repr=False)
class RegressionSolution(Solution):
    """Base class of answers that predict targets.

    A derived class has `predict` and `target_names`, and `_few_coefficients` if columns have coefficients.

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
    target_squares: HostArray = field(default_factory=unknown)
    target_errors: HostArray = field(default_factory=unknown)

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

    def _few_coefficients(self, count: int) -> HostArray:  # overridden by answers that have such
        """The coefficients of the columns for the first targets, a column for each."""
        return np.zeros((0, count))

    def _largest_coefficients(self) -> list[tuple[str, str]]:
        """The columns with the largest coefficients of the first targets, as names and texts below a head."""
        values = self._few_coefficients(FEW)
        if not len(values):
            return []
        names = self.column_names.get(next(iter(self.layout.means)))
        heads = [printable(name) for name in self.target_names[: values.shape[1]]]
        lines = [("largest coefficients", _cells(heads))]
        for i in np.argsort(-np.abs(values).max(axis=1), kind="stable")[:FEW].tolist():
            name = printable(names[i]) if names else f"column {i}"
            lines.append((f"  {name}", _cells([f"{value:.6g}" for value in values[i]])))
        return lines

    def _table_of_predictions(
        self, predictions: Any, data: Any, library: str | None, names: Sequence[str] | None = None
    ) -> Any:
        """Make a table of predictions for rows, with the names of the targets and the labels of the rows."""
        values = to_host(brought_here(predictions))
        columns = np.reshape(values, (len(values), -1)).T
        named = dict(zip(names or self.target_names, columns, strict=True))
        return table_of_rows(self, named, data, library)


def _numbers(values: HostArray) -> str:
    return some_of([f"{value:.6g}" for value in values.reshape(-1)])


def _cells(texts: Sequence[str]) -> str:
    return "  ".join(f"{text:>11}" for text in texts)
