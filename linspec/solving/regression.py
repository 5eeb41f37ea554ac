"""Answers that predict targets: what they say of their fit, their intercepts, and tables of predictions.

Problem: a user of a regression asks first for R², the largest coefficients and the intercept, by the names of columns.
Method: the certificate knows the squares of residuals, since it judges them; those of the targets about their means are
learnt in the first pass. R² = 1 − residuals / targets then costs no pass, and is kept with the answer.
Source: Hastie, Tibshirani & Friedman 2009, The elements of statistical learning, section 3.2.
Where we differ: R² over several targets is that of their sums of squares, as `score` has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from linspec.arrays import Array, Device, HostArray, to_host, with_device
from linspec.errors import printable
from linspec.linalg import r_squared
from linspec.solving.new_rows import NewRows
from linspec.solving.solution import Solution
from linspec.solving.tables import FEW, some_of, table_of_rows
from linspec.workers import brought_here

NARROWEST = 10
"""Letters of a column of coefficients."""


@dataclass(frozen=True, kw_only=True, repr=False)
class RegressionSolution(Solution):
    """Base class of answers that predict targets.

    A derived class has `predict` and `target_names`, and `first_coefficients` if rows have coefficients.

    Attributes
    ----------
    size : (float, int) or None
        The number of training rows, or the sum of their weights, and the number of columns.
    target_squares : numpy.ndarray of shape (m,) or None
        The sum of squares of each target about its mean over the training rows; NaN where it is not known.
    target_errors : numpy.ndarray of shape (m,), for a path of r ridges (r, m), or None
        The sum of squares of the residuals; None where rows were read once, so that it is not known.

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
    target_squares: HostArray | None = None
    target_errors: HostArray | None = None

    targets: ClassVar[str] = "Y"

    @property
    def r_squared(self) -> HostArray | None:
        """R² of each target on the training rows, of shape (m,), for a path of r ridges (r, m); None if not known."""
        return self._r_squared(together=False)

    def _r_squared(self, *, together: bool) -> HostArray | None:
        """R² of each target, or of all together."""
        errors, squares = self.target_errors, self.target_squares
        if errors is None or squares is None:
            return None
        if together:
            errors, squares = errors.sum(axis=-1), squares.sum()
        return r_squared(errors, squares)

    @property
    @with_device
    def intercept(self) -> Array | None:
        """The prediction where all columns of X are zero, of shape (m,), or () for a vector Y; None without centring.

        With confounds it is the one where these have their means.
        """
        rows = NewRows.of(self, next(iter(self.layout.means)))
        if rows.mean is None:
            return None
        answer: Any = self
        zeros = Device.of(rows.mean).xp.zeros_like(rows.mean)[None, :]
        confounds = None if rows.confound_mean is None else rows.confound_mean[None, :]
        return answer.predict(zeros, confounds=confounds)[0, ...]

    def facts(self) -> list[tuple[str, str]]:
        """The numbers of rows and columns, R² on the training rows, the intercepts, and the largest coefficients."""
        facts, scores, total = super().facts(), self.r_squared, self._r_squared(together=True)
        if self.size is not None:
            facts.append(("rows", f"{self.size[0]:g}, columns {self.size[1]}"))
        if scores is not None and total is not None and scores.ndim == 1 and np.isfinite(total):
            facts.append(("training R²", f"{total:.6g}"))
            if 1 < len(scores) <= FEW:
                facts.append(("R² of each target", some_of([f"{value:.6g}" for value in scores])))
        if getattr(self, "path", False):
            return facts
        if self.intercept is not None:
            values = to_host(self.intercept).reshape(-1).tolist()
            facts.append(("intercept", some_of([f"{value:.6g}" for value in values])))
        return [*facts, *self._largest_coefficients()]

    def first_coefficients(self, count: int) -> HostArray:  # overridden by answers that have such
        """The coefficients of the columns for the first targets, a column for each."""
        return np.zeros((0, count))

    def _largest_coefficients(self) -> list[tuple[str, str]]:
        """The columns with the largest coefficients of the first targets, as names and texts; the first has a head."""
        values = self.first_coefficients(FEW)
        if not len(values):
            return []
        heads = [printable(name) for name in self.target_names[: values.shape[1]]]
        known = self.column_names.get(next(iter(self.layout.means)))
        lines = [("largest coefficients", _cells(heads, heads))]
        for i in np.argsort(-np.abs(values).max(axis=1), kind="stable")[:FEW].tolist():
            name = f"  {printable(known[i])}" if known else f"  column {i}"
            lines.append((name, _cells([f"{value:.5g}" for value in values[i]], heads)))
        return lines

    # ---- targets ------------------------------------------------------------------------------

    @property
    def target_names(self) -> list[str]:
        """The names of the targets: those of the columns of Y, or "target1" and so on."""
        count = 0 if self.target_squares is None else len(self.target_squares)
        return self._named("target", count)

    def _named(self, unnamed: str, count: int) -> list[str]:
        """The names of so many targets; `unnamed` and a number if they have none."""
        return list(self.column_names.get(self.targets) or [f"{unnamed}{i + 1}" for i in range(count)])

    def _by_target(self, values: HostArray) -> dict[str, HostArray]:
        """Predictions by the names of the targets."""
        return dict(zip(self.target_names, np.reshape(values, (len(values), -1)).T, strict=True))

    def _table_of_predictions(self, predictions: Any, data: Any, library: str | None) -> Any:
        """Make a table of predictions for rows, with the names of the targets and the labels of the rows."""
        return table_of_rows(self, self._by_target(to_host(brought_here(predictions))), data, library)


def _cells(texts: Sequence[str], heads: Sequence[str]) -> str:
    """Texts below heads, flush right."""
    return "  ".join(text.rjust(max(len(head), NARROWEST)) for text, head in zip(texts, heads, strict=True))
