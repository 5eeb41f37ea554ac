"""Permutation test of the components of any problem, by solving it on data by chance.

Problem: values of components, such as covariances or correlations of samples, are never zero. Which of them are
larger than those of data without components?
Method: the data are permuted, as the matrices of the problem declare (`linspec.matrix`), and the problem is solved
again with the same solver, ridge and k. `linspec.studies.inference.exchange` says which rows may change places. Of
several matrices the rows of all but the first do, each matrix in its own order. The value of each component is compared
with the largest value of the permuted rows, or the sum of the k − j + 1 values from the j-th component on with the sum
of the k − j + 1 largest values of the permuted rows. Of a single matrix the entries of each column are permuted, and
the j-th value is compared with the j-th value of the permuted columns (parallel analysis), or with their largest one.
A component cannot exist without the earlier ones, so the p-value of a component is the largest p-value up to it
(closure).
Source: Phipson & Smyth 2010, Stat. Appl. Genet. Mol. Biol. 9:39, doi:10.2202/1544-6115.1585 (p-values (r + 1)/(n +
1)); Buja & Eyuboglu 1992, doi:10.1207/s15327906mbr2704_2 (columns).
Where we differ: usually the j-th value of several matrices is compared with the j-th value of the permuted rows. That
finds too much: after j − 1 real components the j-th value is the first one of the rest, and the j-th value of the
permuted rows is smaller than their first. Tests that remove the earlier components first, as that of canonical
correlations does, need to know how the problem removes one. Here nothing is removed, so the permuted rows keep the
variance of the real components: the first p-value has its level, and later ones are conservative. Of 100 rows with two
planted components, of which the first is strong, the stepwise test of a CCA found the second in 32 to 40 % of 25 data
sets, this one by the largest value in 12 %, by sums in 4 %. So the largest value is the default. Columns differ:
permuted entries keep the lengths of the columns, of which a strong first component has taken a share, so later values
are compared with too much already. Ranked, a second component is found too often only where the first is barely found
(`b68241bf:docs/evidence/measure_inference.py`), so this published way is the default for columns. Sums are not offered
for them: the squares of all values add up to the same number in any order of the entries.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from linspec.arrays import HostArray, random_generator, to_host
from linspec.errors import (
    BudgetTooSmall,
    ConvergenceWarning,
    InvalidOption,
    InvalidProblem,
    shown,
    warn,
)
from linspec.process.interrupts import NothingYet, Request, first_interrupt, repeated
from linspec.process.plurals import count_of
from linspec.registry.options import is_number
from linspec.solving.checks import check_choice, check_count, check_flag, check_fraction, check_row_slices
from linspec.solving.problem import Problem
from linspec.solving.select import chosen_solver
from linspec.solving.solve import solve
from linspec.solving.solver import Solver
from linspec.solving.tables import some_of, table_of_components
from linspec.studies.inference.exchange import (
    Exchange,
    check_can_move,
    of_columns,
    permuted,
)
from linspec.studies.inference.rows import (
    WEIGHTS,
    check_rows_are_known,
    frequencies,
    loaded,
    on_images,
    with_equal_rows,
)

P = TypeVar("P", bound=Problem[Any])

OF_ROWS, OF_COLUMNS = ("largest", "sum"), ("ranked", "largest")
"""The statistics for permuted rows and for permuted columns; the first is the default."""

TIE = 1e-9
"""Two statistics with a smaller relative difference are ties, such as those from permutations of equal rows."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Tested:
    """The values of components with p-values by permutation.

    Attributes
    ----------
    values : numpy.ndarray of shape (k,)
        In decreasing order.
    p_values : numpy.ndarray of shape (k,)
        For each component, the probability of a false finding at or before it. They never decrease and are at least
        1 / (permutations + 1).
    uncorrected : numpy.ndarray of shape (k,)
        The p-value of each component by itself, before the closure.
    statistics : numpy.ndarray of shape (k,)
        The statistic of the data for each component.
    statistic : str
        Its name.
    permutations : int
        The number of permutations, not counting the original order; smaller than requested if Ctrl-C or
        `max_seconds` ended the test.
    interrupted : bool
        Whether Ctrl-C ended the test.
    """

    values: HostArray
    p_values: HostArray
    uncorrected: HostArray
    statistics: HostArray
    statistic: str
    permutations: int
    interrupted: bool = False

    @property
    def described(self) -> Any:
        """What has the layout and the frames of the components."""
        return self

    def components(self, alpha: float = 0.05) -> int:
        """The number of leading components with a p-value of at most `alpha`.

        Parameters
        ----------
        alpha : float, default 0.05
            The accepted probability of one component too many.

        Raises
        ------
        InvalidOption
            If `alpha` is not between 0 and 1.
        """
        return leading_components(self.p_values, alpha)

    def table(self, *, library: str | None = None) -> Any:
        """Make a table with a row for each component: its value, its p-value, and the p-value before the closure.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow", ""}, optional
            As for `Solution.weights_table`.

        Returns
        -------
        list of dict, pandas.DataFrame, polars.DataFrame or pyarrow.Table
            Rows are numbered from 1.

        Raises
        ------
        InvalidOption
            There is no such library.
        MissingPackage
            The library is not installed.

        Examples
        --------
        >>> import numpy as np
        >>> import linspec as ls
        >>> X = np.random.default_rng(0).standard_normal((40, 2))
        >>> row = ls.permutation_test(ls.CCA(X, X[:, :1]), permutations=19, rng=0).table(library="")[0]
        >>> list(row), row["p value"]
        (['component', 'canonical correlation', 'p value', 'uncorrected'], 0.05)
        """
        values = {self.described.layout.value_label: self.values}
        columns = {**values, "p value": self.p_values, "uncorrected": self.uncorrected}
        return table_of_components(self.described, columns, library)

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} by {self.statistic}, {count_of(self.permutations, 'permutation')}"
            f"{', interrupted' * self.interrupted}: {self.components()} of "
            f"{count_of(len(self.values), self.described.layout.value_label)} at 5 %, p "
            f"{some_of([f'{p:.2g}' for p in self.p_values.tolist()])}>"
        )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ComponentTest(Tested):
    """The values of the components of an answer with p-values by permutation.

    Attributes
    ----------
    values, p_values, uncorrected, permutations, interrupted
        As in `Tested`; `values` are those of the answer.
    statistics : numpy.ndarray of shape (k,)
        The values themselves, or with "sum" the sums of the values from each component on.
    statistic : {"largest", "sum", "ranked"}
    drawn : numpy.ndarray of shape (permutations, k)
        The values of the permuted data, each row decreasing; 0 for components that are missing.
    solution : Solution
        The answer for the data in their order.
    unconverged : int
        The number of permutations whose solutions have not converged; they are used as well.
    """

    drawn: HostArray
    solution: Any
    unconverged: int = 0

    @property
    def described(self) -> Any:
        """The answer."""
        return self.solution


@dataclass(frozen=True, kw_only=True)
class Rows:
    """What the user says of the rows: which may change places, how often they do, and what weights mean."""

    permutations: Any
    groups: Any
    blocks: Any
    sign_flips: bool
    weights: str

    def exchange_of(self, problem: P) -> tuple[P, Exchange, int]:
        """Return the problem without weights that count rows, how its rows change places, and how often.

        Warns
        -----
        ConvergenceWarning
            There are too few permutations for a p-value of 5 %.
        """
        check_choice("weights", self.weights, WEIGHTS)
        check_flag("sign_flips", self.sign_flips)
        listed = isinstance(self.permutations, list | tuple) or getattr(self.permutations, "ndim", 0) > 0
        orders = self.permutations if listed else None
        if not listed:
            check_count("permutations", self.permutations, 1)
        count = len(self.permutations) if listed else self.permutations
        problem.check_labels({"groups": self.groups, "blocks": self.blocks})
        n = min(A.shape[0] for A in problem.matrices.values())
        w = problem.sample_weight if self.weights == "survey" else None
        exchange = Exchange.of(
            int(n), self.groups, self.blocks, flips=bool(self.sign_flips), orders=orders, weights=w
        )
        if self.weights == "counts":
            exchange = exchange.repeated(frequencies(problem, "permutation_test permutes rows"))
            problem = with_equal_rows(problem, "permutation_test")
        check_can_move(problem, exchange)
        units = math.exp(-exchange.log_count)
        least = max(1 / (1 + count), units)
        if least > USUAL + TIE:
            warn(
                f"permutation_test: no p-value can be below {least:.2g} with {count_of(count, 'permutation')}"
                f"{' of so few units' * (units > USUAL + TIE)}, so nothing is significant at 5 %. "
                f"{'Pass rows of more groups.' if units > USUAL + TIE else 'Ask for 999.'}",
                ConvergenceWarning,
            )
        return problem, exchange, count


USUAL = 0.05
"""The level that tests are made for; fewer permutations than reach it are warned of."""


def permuted_solves(
    problem: Problem[Any],
    solver: str | Solver,
    rows: Rows,
    *,
    statistic: str | None,
    max_seconds: float,
    rng: Any,
    options: dict[str, Any],
) -> ComponentTest:
    """Test the components of a problem by solving it on permuted data; `linspec.permutation_test` explains it."""
    until = time.perf_counter() + checked_seconds(max_seconds)
    check_has_values(problem, "permutation_test")
    check_can_be_permuted(problem)
    statistic = _chosen(statistic, problem)
    again, permutations, solution, answer = SolvedAgain.of(problem, solver, rows, rng, options)
    values = values_of(answer)
    drawn = again.values((permutations, len(values)), max_seconds, until)
    count = len(drawn)
    # column j of the sums has that of the k − j largest values
    chance = {"ranked": drawn, "largest": drawn[:, :1], "sum": np.cumsum(drawn, axis=1)[:, ::-1]}[statistic]
    observed = sums_from(values) if statistic == "sum" else values
    uncorrected = (1 + np.sum(chance >= observed * (1 - TIE), axis=0)) / (1 + count)
    return ComponentTest(
        values=values,
        p_values=np.maximum.accumulate(uncorrected),
        uncorrected=uncorrected,
        statistics=observed,
        statistic=statistic,
        permutations=count,
        drawn=drawn,
        solution=solution,
        unconverged=again.unconverged,
        interrupted=again.stop.made,
    )


class SolvedAgain:
    """A problem that is solved again on permuted data."""

    def __init__(
        self,
        problem: Problem[Any],
        exchange: Exchange,
        solver: str | Solver,
        options: dict[str, Any],
        rng: Any,
    ) -> None:
        self.problem, self.exchange, self.solver, self.options = problem, exchange, solver, options
        self.generator, self.stop = random_generator(rng), Request()
        self.unconverged, self.slow = 0, ""

    @classmethod
    def of(
        cls, problem: Problem[Any], solver: str | Solver, rows: Rows, rng: Any, options: dict[str, Any]
    ) -> tuple[SolvedAgain, int, Any, Any]:
        """Also return the number of permutations, the answer, and that of the rows that change places."""
        problem, exchange, permutations = rows.exchange_of(loaded(problem))
        images, exchange = on_images(problem, exchange, "permutation_test")
        again = cls(images, exchange, *chosen_solver(problem, solver, options), rng)
        solution = again.solved(problem)
        again.slow = f"one solve took {solution.seconds:.3g} s"
        return again, permutations, solution, solution if images is problem else again.solved(images)

    def solved(self, problem: Problem[Any]) -> Any:
        """The answer of the problem with these or other rows."""
        return solve(problem, self.solver, rng=self.generator, **self.options)

    def answers(
        self,
        keep: Callable[[int, Any], None],
        permutations: int,
        max_seconds: float = math.inf,
        until: float = math.inf,
    ) -> int:
        """Keep the answer of each permutation, with its number, and return how many there are."""

        def permute(number: int) -> None:
            solution = self.solved(permuted(self.problem, self.exchange, self.generator, number))
            if self.stop.made:  # the result of an interrupted solve does not count
                raise NothingYet
            self.unconverged += not solution.converged
            keep(number, solution)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            count = made_in_time(permute, permutations, self.stop, max_seconds, until, self.slow)
        if self.unconverged:
            warn(
                f"{self.unconverged} of {count_of(count, 'permutation')} have not converged, so their values "
                "may be too small, and p-values, too. Raise max_iterations, or choose a direct solver.",
                ConvergenceWarning,
            )
        return count

    def values(self, shape: tuple[int, int], *limits: Any) -> HostArray:
        """Return the first values of the answers, a row for each."""
        drawn = np.zeros(shape)

        def keep(number: int, solution: Any) -> None:
            some = values_of(solution)[: shape[1]]
            drawn[number, : len(some)] = some

        return drawn[: self.answers(keep, shape[0], *limits)].copy()


def made_in_time(
    permute: Callable[[int], None],
    permutations: int,
    stop: Request,
    max_seconds: float,
    until: float,
    slow: str,
) -> int:
    """Permute until Ctrl-C or the time limit, and return how often; `slow` says what takes so long."""
    with first_interrupt(stop.make):
        count = repeated(permute, permutations, stop, until=until)
    if count < permutations and not stop.made:
        text = f"permutation_test: max_seconds={max_seconds:g} ended it after {count} of {permutations} permutations"
        if not count:
            raise BudgetTooSmall(f"{text}: {slow}. Raise max_seconds.")
        warn(f"{text}; the least p-value is {1 / (1 + count):.2g}.", ConvergenceWarning)
    if not count:
        raise NothingYet
    return count


def _chosen(statistic: str | None, problem: Problem[Any]) -> str:
    """Check the statistic, and return it, or the default for the permutations of the problem."""
    known, what = (OF_COLUMNS, "columns") if of_columns(problem) else (OF_ROWS, "rows")
    if statistic is not None and statistic not in known:
        raise InvalidOption(
            f"statistic must be one of {', '.join(known)} for permuted {what}; got {shown(statistic)}."
        )
    return known[0] if statistic is None else statistic


def check_can_be_permuted(problem: Problem[Any]) -> None:
    """Raise an error if the argument is not a problem that can be solved on permuted data.

    The problem must have a matrix whose columns are permuted, or two or more whose rows can be selected.
    """
    if len(problem.matrices) < len("XY") and not of_columns(problem):
        raise InvalidProblem(
            f"permutation_test pairs the rows of two or more matrices at random; {type(problem).__name__} has one, "
            f"{next(iter(problem.matrices))}. Use linspec.bootstrap or linspec.cross_validate, which draw and hold out "
            'rows; in a problem of your own, linspec.matrix(permuted="columns") permutes the entries of each column.'
        )
    check_rows_are_known(problem, "permutation_test permutes data")
    weighted = [name for name in problem.matrices if problem.weights_of(name) is not problem.sample_weight]
    if weighted:
        raise InvalidProblem(
            "permutation_test pairs rows at random, which changes in how many matrices a row is present; got absent "
            f"rows of {' and '.join(weighted)}. Leave out rows that some matrix lacks."
        )
    check_row_slices(problem, "permutation_test permutes rows or entries")


def check_has_values(problem: Problem[Any], function: str) -> None:
    """Raise unless the argument is a problem whose answers declare values of components."""
    kind = type(problem).__name__
    if not isinstance(problem, Problem):
        raise InvalidProblem(
            f"{function} takes a problem such as linspec.CCA(X, Y, k); got {kind}. Pass a problem."
        )
    if not problem.solution.layout.value:
        raise InvalidProblem(
            f"{function} compares the values of components, such as correlations; {problem.solution.__name__}, the "
            f"answer of {kind}, declares none. Pass another problem, or declare the values: "
            "linspec.field(value=...)."
        )
    if problem.share:
        raise InvalidProblem(
            f"{function} compares the same components in all solves; got a share as k, which each holds by another "
            "number. Pass the number of components of the answer, such as k=len(solution.S)."
        )


def values_of(solution: Any) -> HostArray:
    """Return the values of the components of an answer, on the host in float64."""
    return np.asarray(to_host(getattr(solution, solution.layout.value)), dtype=np.float64)


def checked_seconds(max_seconds: Any) -> float:
    """Check a time limit, and return it."""
    if not is_number(max_seconds) or not max_seconds > 0:
        raise InvalidOption(f"max_seconds must be a positive number; got {max_seconds!r}.")
    return float(max_seconds)


def leading_components(p_values: HostArray, alpha: Any) -> int:
    """The number of leading significant components; one cannot exist without the earlier ones (closure)."""
    check_fraction("alpha", alpha)
    return int(np.sum(np.maximum.accumulate(p_values) <= alpha))


def sums_from(values: HostArray) -> HostArray:
    """Return for each j the sum of the values with index i ≥ j, for decreasing values.

    The values are added from the last, smallest one, because this order causes the least rounding.
    """
    return np.asarray(np.cumsum(values[::-1])[::-1])
