"""Permutation tests and bootstrap intervals of regressions: R² of each target, and the coefficients of columns.

Problem: how much would R² and the coefficients of an answer change with other rows, and are they more than chance?
Method: targets change places, or rows are drawn, as for components, and each problem is solved again. A permutation
test compares the residuals of each target, and the size of each coefficient, with those of targets by chance. Intervals
of R² are those of R = √R² on Fisher's scale (`linspec.studies.inference.bootstrap`); those of a coefficient x are x ±
z·e, with its standard deviation e over the draws. The rows that a draw leaves out are predicted by its answer: their
squared errors, added over all draws, give R² of rows that were not fitted. Draws in which a target does not vary say
nothing of its R², and are left out for it. A negative R², of an answer without an intercept, has no root: its interval
is that of coefficients.
Source: Anderson & Robinson 2001, Aust. N. Z. J. Stat. 43:75 (permutation of what confounds leave); Westfall & Young
1993, Resampling-Based Multiple Testing (the largest statistic of all targets); Efron & Tibshirani 1993, chapter 9
(rows are drawn, and not residuals), chapter 17 (rows that a draw leaves out).
Where we differ: a shrunk coefficient, of a ridge or of few components, is an estimate of a shrunk coefficient. Its
interval holds what the same answer would be for all rows of the source, and not the coefficient without shrinkage.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec.arrays import HostArray, to_host
from linspec.errors import InvalidOption, InvalidProblem, MissingCapability, shown
from linspec.linalg import r_squared, squares_about_means
from linspec.process.plurals import count_of
from linspec.solving.checks import check_row_slices
from linspec.solving.linear_solution import RegressionSolution
from linspec.solving.problem import Problem
from linspec.solving.select import check_fits
from linspec.solving.solver import Solver
from linspec.solving.tables import Summary, table_of_columns, table_of_components
from linspec.studies.held_out.scores import auxiliary
from linspec.studies.inference.bootstrap import FISHER, Bootstrapped, Drawn, corrected_ends
from linspec.studies.inference.permutation import (
    TIE,
    Rows,
    SolvedAgain,
    check_can_be_permuted,
    checked_seconds,
)
from linspec.workers import brought_here


def is_regression(problem: Any) -> bool:
    """Whether the answers of a problem predict targets."""
    return isinstance(problem, Problem) and issubclass(problem.solution, RegressionSolution)


def check_one_ridge(problem: Problem[Any], function: str) -> None:
    """Refuse a path of ridges."""
    if getattr(problem, "path", False):
        raise InvalidProblem(f"{function} takes one ridge; got a path. Choose one: linspec.cross_validate.")


class OfTargets(ABC):
    """Tables of what is known of the R² of each target and of the coefficients of each column."""

    solution: Any
    coefficients: HostArray | None

    @abstractmethod
    def _of_columns(self) -> dict[str, HostArray]:
        """What is known of the coefficients, by the names of the parts."""

    def coefficients_table(self, *, library: str | None = None) -> Any:
        """Make a table with a row for each column: for each target its coefficient and what is known of it.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow", ""}, optional
            As for `Solution.weights_table`.

        Raises
        ------
        MissingCapability
            Columns have no coefficients.
        """
        if self.coefficients is None:
            raise MissingCapability(
                "the columns have no coefficients, because the answer is a function of a kernel. See R² of each "
                "target: table()."
            )
        parts, names = self._of_columns(), self.solution.target_names
        columns = {
            f"{name}{part}": numbers[:, j] for j, name in enumerate(names) for part, numbers in parts.items()
        }
        return table_of_columns(self.solution, next(iter(self.solution.layout.means)), columns, library)

    def _table_of_targets(self, columns: dict[str, HostArray], library: str | None) -> Any:
        """A row for each target."""
        return table_of_components(self.solution, columns, library, self.solution.target_names, "target")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RegressionTest(OfTargets):
    """R² of the targets of a regression, and its coefficients, with p-values by permutation.

    Attributes
    ----------
    values : numpy.ndarray of shape (m,)
        R² of each target on the rows, after confounds; NaN for a target that does not vary.
    p_values : numpy.ndarray of shape (m,)
        For each target, the probability of a false finding among all targets: R² is compared with the largest one of
        the permuted targets.
    uncorrected : numpy.ndarray of shape (m,)
        The p-value of each target by itself.
    coefficients : numpy.ndarray of shape (p, m) or None
        The coefficients; None if columns have none, as those of kernels.
    coefficient_p_values : numpy.ndarray of shape (p, m) or None
        The p-value of the size of each coefficient by itself, if no column is related to the target.
    drawn : numpy.ndarray of shape (permutations, m)
        R² of the permuted targets; without an intercept, of targets with other signs about their former means.
    solution : Solution
    permutations : int
    unconverged : int
        The number of permutations whose solutions have not converged; they are used as well.
    interrupted : bool
        Whether Ctrl-C ended the test.
    """

    values: HostArray
    p_values: HostArray
    uncorrected: HostArray
    coefficients: HostArray | None
    coefficient_p_values: HostArray | None
    drawn: HostArray
    solution: Any
    permutations: int
    unconverged: int = 0
    interrupted: bool = False

    statistic = "R²"

    def table(self, *, library: str | None = None) -> Any:
        """Make a table with a row for each target: R², its p-value among all targets, and that by itself.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow", ""}, optional
            As for `Solution.weights_table`.
        """
        columns = {"R²": self.values, "p value": self.p_values, "uncorrected": self.uncorrected}
        return self._table_of_targets(columns, library)

    def _of_columns(self) -> dict[str, Any]:
        return {"": self.coefficients, " p value": self.coefficient_p_values}

    def __repr__(self) -> str:
        title = f"<{type(self).__name__}, {count_of(self.permutations, 'permutation')}"
        return repr(Summary(self.table(library=""), f"{title}{', interrupted' * self.interrupted}>", ()))


def coefficients_of(solution: Any, count: int) -> HostArray | None:
    """The coefficients of all columns and targets, on the host; None if there are none."""
    values = np.asarray(solution.first_coefficients(count), dtype=np.float64)
    return values if len(values) else None


def errors_of(solution: Any) -> HostArray:
    """The squared errors of each target on the training rows."""
    if np.isnan(solution.target_errors).all():
        raise MissingCapability(
            f"residuals are compared, and {solution.solver} does not know those of {type(solution).__name__}. Choose "
            "another solver."
        )
    return np.asarray(solution.target_errors, dtype=np.float64)


def regression_test(
    problem: Problem[Any],
    solver: str | Solver,
    rows: Rows,
    *,
    statistic: str | None,
    max_seconds: float,
    rng: Any,
    options: dict[str, Any],
) -> RegressionTest:
    """Test a regression by solving it with permuted targets; `linspec.permutation_test` explains it."""
    until = time.perf_counter() + checked_seconds(max_seconds)
    if statistic is not None:
        raise InvalidOption(
            f"a regression is tested by R² alone; got statistic={shown(statistic)}. Leave it out."
        )
    check_one_ridge(problem, "permutation_test")
    check_can_be_permuted(problem)
    again, permutations, solution, observed = SolvedAgain.of(problem, solver, rows, rng, options)
    m, whole = len(errors_of(observed)), None
    if observed is not solution:  # its rows need not have mean 0
        whole = np.sum(to_host([*again.problem.matrices.values()][1].dense()) ** 2, axis=0)
    elif again.exchange.flips:  # which change the means of the targets
        whole = np.asarray(observed.target_squares)
    sizes, drawn = coefficients_of(observed, m), np.zeros((permutations, m))
    exceeded = np.zeros(() if sizes is None else sizes.shape)

    def score(answer: Any) -> HostArray:
        """R² of each target."""
        return r_squared(errors_of(answer), answer.target_squares if whole is None else whole)

    def keep(number: int, answer: Any) -> None:
        drawn[number] = score(answer)
        values = coefficients_of(answer, m)
        if sizes is not None and values is not None:
            exceeded[...] += np.abs(values) >= np.abs(sizes) * (1 - TIE)

    count = again.answers(keep, permutations, max_seconds, until)
    drawn, values = drawn[:count].copy(), score(observed)
    reached, of_chance = (np.nan_to_num(part, nan=-math.inf) for part in (values, drawn))  # constant targets
    largest = np.max(of_chance, axis=1, keepdims=True)
    corrected, alone = (
        (1 + np.sum(by >= reached - TIE, axis=0)) / (1 + count) for by in (largest, of_chance)
    )
    return RegressionTest(
        values=values,
        p_values=corrected,
        uncorrected=alone,
        coefficients=coefficients_of(solution, m),
        coefficient_p_values=None if sizes is None else (1 + exceeded) / (1 + count),
        drawn=drawn,
        solution=solution,
        permutations=count,
        unconverged=again.unconverged,
        interrupted=again.stop.made,
    )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RegressionBootstrap(OfTargets, Bootstrapped):
    """Intervals of R² and of the coefficients; the first axis of each holds lower ends, then upper ends.

    Attributes
    ----------
    solution, bias, errors, drawn, level, method, draws, unconverged, interrupted
        As in `Bootstrapped`, of R² of each target; `drawn` is NaN where a target does not vary in a draw.
    values : numpy.ndarray of shape (2, m)
        Intervals of R² of each target.
    left_out : numpy.ndarray of shape (m,)
        R² of rows that draws have left out, predicted by the answers of these draws: of new rows.
    coefficients : numpy.ndarray of shape (2, p, m) or None
        Intervals of the coefficients; None if columns have none.
    coefficient_errors : numpy.ndarray of shape (p, m) or None
        The standard errors of the coefficients.
    """

    values: HostArray
    left_out: HostArray
    coefficients: HostArray | None
    coefficient_errors: HostArray | None

    def table(self, *, library: str | None = None) -> Any:
        """Make a table with a row for each target: R², its interval, bias and standard error, and R² of rows left out.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow", ""}, optional
            As for `Solution.weights_table`.
        """
        columns = {"R²": self.solution.r_squared, "lower": self.values[0], "upper": self.values[1]}
        columns |= {"bias": self.bias, "standard error": self.errors, "rows left out": self.left_out}
        return self._table_of_targets(columns, library)

    def _of_columns(self) -> dict[str, Any]:
        low, high = np.asarray(self.coefficients)
        whole = coefficients_of(self.solution, len(self.bias))
        return {"": whole, " lower": low, " upper": high, " standard error": self.coefficient_errors}


def without_gaps(drawn: HostArray) -> HostArray:
    """The draws of each target, with those that are known repeated in the places of NaN."""
    filled = drawn.copy()
    for j in np.flatnonzero(np.isnan(drawn).any(axis=0)):
        known = drawn[~np.isnan(drawn[:, j]), j]
        filled[:, j] = np.resize(known, len(drawn)) if len(known) else np.nan
    return filled


class DrawnRegressions(Drawn):
    """R² and coefficients of the draws so far."""

    @classmethod
    def check(cls, problem: Problem[Any], draws: int) -> None:
        check_one_ridge(problem, "bootstrap")
        check_row_slices(problem, "bootstrap predicts rows that a draw leaves out")
        p, m = (A.shape[1] for A in problem.matrices.values())
        check_fits(
            8.0 * draws * p * m,
            f"coefficients of {draws} draws",
            "Ask for fewer draws, or pass fewer targets.",
        )

    def begun(self) -> None:
        self.scores: list[HostArray] = []
        self.coefficients: list[HostArray] = []
        (self.of, A), (self.by, B) = self.problem.matrices.items()
        self.rows, self.targets = A, np.asarray(to_host(brought_here(B)), dtype=np.float64)
        m, fitted = self.targets.shape[1], len(errors_of(self.solution))
        if m != fitted:
            raise InvalidProblem(
                f"solution must predict the {count_of(m, 'target')} of the problem; got {fitted}. Leave it out to have "
                "it computed."
            )
        self.sums = np.zeros((2, self.targets.shape[1]))

    def kept(self, solution: Any, w: HostArray) -> None:
        errors = errors_of(solution)
        self.scores.append(r_squared(errors, solution.target_squares))
        values = coefficients_of(solution, len(errors))
        if values is not None:
            self.coefficients.append(values)
        left = np.flatnonzero((w == 0) & (self.weights > 0))  # rows that the draw leaves out
        if len(left) >= len("two"):
            confounds = {name: Z[left] for name, Z in auxiliary(self.problem).items()}
            predicted = to_host(brought_here(solution.predict(self.rows.rows(left), **confounds)))
            Y, w = self.targets[left], self.weights[left]
            self.sums[0] += w @ (Y - np.reshape(predicted, Y.shape)) ** 2
            self.sums[1] += squares_about_means(Y, w)

    def result(self, *, interrupted: bool) -> RegressionBootstrap:
        scores, values = np.array(self.scores), np.asarray(self.solution.r_squared)
        drawn = without_gaps(scores)
        whole = coefficients_of(self.solution, len(values))
        corrected, errors, intervals = self.method == "corrected", None, None
        if whole is not None:
            blocks = np.array(self.coefficients)
            errors = blocks.std(axis=0, ddof=1)
            intervals = self.normal(whole, blocks) if corrected else self.quantiles(blocks)
        ends = self.quantiles(drawn)
        if corrected:
            R, of_draws = (np.sqrt(np.maximum(part, 0.0)) for part in (values, drawn))
            ends = corrected_ends(R, of_draws, self.level, FISHER) ** 2
            ends = np.where(values < 0, np.minimum(self.normal(values, drawn), 1.0), ends)  # no root
        return RegressionBootstrap(
            values=ends,
            bias=drawn.mean(axis=0) - values,
            errors=drawn.std(axis=0, ddof=1),
            left_out=r_squared(*self.sums),
            coefficients=intervals,
            coefficient_errors=errors,
            drawn=scores,
            **self.of_all(interrupted=interrupted),
        )
