"""One problem with a ridge, solved for each of several ridges.

Problem: the ridge is seldom known beforehand. To find it, solve with several ridges and score each solution on
rows that were not fitted.
Method: `linspec.solving.ridges` solves for all ridges; each solution is scored on the same test rows.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from linspec.arrays import HostArray, with_device
from linspec.errors import InvalidProblem
from linspec.frames import check_order, library_for_table, table
from linspec.operators import LinearOperator
from linspec.process.interrupts import NothingYet, Request, first_interrupt
from linspec.process.plurals import count_of
from linspec.solving.problem import Problem
from linspec.solving.ridges import along_ridges, checked_ridges
from linspec.solving.solution import Solution, weights_by_matrix
from linspec.solving.solver import Solver
from linspec.solving.tables import Summary, ridge_columns, size_of_ridge
from linspec.studies.held_out.scores import default_scores, number_of, rows_to_score, score_of_rows

S = TypeVar("S", bound=Solution)


@dataclass(frozen=True, eq=False)
class RidgePath(Generic[S]):
    """The solution for each of several ridges, in the order in which the ridges were given.

    Attributes
    ----------
    ridges : tuple
        In the form in which the problem holds a ridge: numbers, for a CCA pairs (ridge of X, ridge of Y).
    solutions : tuple of Solution
        One solution for each ridge. `solution.passes` counts the passes over the data made for this ridge. Passes that
        serve all ridges, such as those that compute Gram matrices, are counted for the largest ridge, which is solved
        first.
    scores : tuple or None
        `solution.score` of each solution on the test rows: a CCAScore, or a number. For solutions without a method
        `score`: for each component and each pair of matrices the correlation of the component scores of the test rows,
        summed. None without test rows.
    passes : float
        All passes over the training data.
    solver : str
        The qualified name of the solver that ran.
    interrupted : bool
        Whether Ctrl-C ended the path. Then it has only the ridges solved so far, and the solution of the smallest of
        them may have the status INTERRUPTED.
    """

    ridges: tuple[Any, ...]
    solutions: tuple[S, ...]
    scores: tuple[Any, ...] | None
    passes: float
    solver: str
    interrupted: bool = False

    @property
    def totals(self) -> HostArray | None:
        """The score on the test rows as a number, one for each ridge; None without test rows.

        For a CCA it is the total correlation captured.
        """
        if self.scores is None:
            return None
        return np.array([number_of(score) for score in self.scores])

    @property
    def best(self) -> int:
        """The index in `ridges` of the ridge with the largest score on the test rows.

        If several ridges have this score, the index of the largest of them is returned.

        Raises
        ------
        InvalidProblem
            If there are no test rows, or all their scores are 0 or NaN. Values of components on the fitted rows, such
            as correlations, always grow as the ridge falls, so a ridge cannot be chosen by these values.
        """
        if self.totals is None:
            raise InvalidProblem(
                "the best ridge is chosen on rows that were not fitted, and this path was made without any. Pass "
                "test=(X_test, Y_test)."
            )
        totals = np.where(np.isnan(self.totals), -math.inf, self.totals)
        if not np.any(np.isfinite(totals) & (totals != 0)):
            raise InvalidProblem(
                "the test rows say nothing about any ridge: targets or variates do not vary over them, or they are too "
                "few. Pass other test rows."
            )
        return max(range(len(self.ridges)), key=lambda i: (totals[i], size_of_ridge(self.ridges[i])))

    @property
    def best_ridge(self) -> Any:
        """The ridge of `best`."""
        return self.ridges[self.best]

    @property
    def best_solution(self) -> S:
        """The solution of `best`."""
        return self.solutions[self.best]

    def table(self, *, library: str | None = None) -> Any:
        """Make a table with a row for each ridge: the values, the score on the test rows, and how the solve ended.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow", ""}, optional
            As for `Solution.weights_table`.

        Returns
        -------
        list of dict, pandas.DataFrame, polars.DataFrame or pyarrow.Table
            The columns "ridge", or "ridge X" and "ridge Y" for a CCA; the values of the components, such as "canonical
            correlation 1", which are NaN for components that a solution lacks; with test rows "score", which has
            `totals`, and "best"; "converged" and "residual".

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
        >>> X = np.random.default_rng(0).standard_normal((60, 3))
        >>> path = ls.ridge_path(ls.CCA(X, X[:, :2], k=1), [0.1, 10.0])
        >>> list(path.table(library="")[0])
        ['ridge X', 'ridge Y', 'canonical correlation 1', 'converged', 'residual']
        """
        first = self.solutions[0]
        columns = ridge_columns(self.ridges, tuple(weights_by_matrix(first)))
        for i, values in enumerate(values_along(self.solutions).T):
            columns[f"{first.layout.value_label} {i + 1}"] = values
        if self.totals is not None:
            best = -1  # test rows that say nothing choose none
            with contextlib.suppress(InvalidProblem):
                best = self.best
            columns |= {"score": self.totals, "best": np.arange(len(self.ridges)) == best}
        columns["converged"] = np.array([solution.converged for solution in self.solutions])
        columns["residual"] = np.array([solution.residual for solution in self.solutions])
        return table("", None, columns, library_for_table(library, first))

    def __repr__(self) -> str:
        cost = f"{count_of(len(self.ridges), 'ridge')}, {count_of(self.passes, 'pass')}"
        title = f"<RidgePath by {self.solver}: {cost}{', interrupted' * self.interrupted}>"
        return repr(Summary(self.table(library=""), title, ()))


def values_along(solutions: Sequence[Any]) -> HostArray:
    """Return the values of each solution in a row; NaN for components that it lacks."""
    value = solutions[0].layout.value
    values = [np.asarray(getattr(solution, value)) if value else np.zeros(0) for solution in solutions]
    most = max(map(len, values))
    return np.array([np.pad(row, (0, most - len(row)), constant_values=np.nan) for row in values])


@with_device
def ridge_path(
    problem: Problem[S],
    ridges: Iterable[Any],
    *,
    solver: str | Solver = "auto",
    test: Any = None,
    form: str = "auto",
    **options: Any,
) -> RidgePath[S]:
    """Solve one problem for each of several ridges; all solves share the moments of the data.

    Parameters
    ----------
    problem : Problem
        Any problem with a ridge: CCA, Discriminant, problems of your own. Its other fields are used; its own ridge is
        not. `linspec.LeastSquares` takes several ridges itself.
    ridges : sequence
        Ridges in any order. Each is a number, or a tuple of numbers if the problem has a ridge for each matrix: for a
        CCA a pair (ridge of X, ridge of Y).
    solver : str or Solver, default "auto"
        As for `linspec.solve`. "auto" chooses once, for the largest ridge.
    test : sequence of data, optional
        New rows of each matrix, on which the solutions are scored: (X_test, Y_test). The test rows are read once for
        each ridge. For a Discriminant pass (X_test, H_test), such as ``(X_test, linspec.targets.lda(y_test))``.
    form : {"auto", "dense", "sparse", "implicit"}, default "auto"
        How the moments of the data are held: see `linspec.Moments`. All ridges share these moments. This argument takes
        the place of the option `form` that solvers have.
    **options
        The solver's options and the other arguments of `linspec.solve`: ``rng``, ``max_passes``, ``callback`` and so
        on, which are the same for each solve, and ``start`` for the first solve.

    Returns
    -------
    RidgePath

    Raises
    ------
    InvalidProblem
        If the problem has no ridge, or takes several itself; if there is no ridge, or one does not fit the problem; if
        test rows do not fit or can be read only once, or answers of the problem cannot be scored on rows.
    UnknownName, UnknownOption, InvalidOption, NonFiniteData, MissingCapability, NoSuitableSolver, BudgetTooSmall
        As for `linspec.solve`.

    Notes
    -----
    On the fitted rows a larger ridge always gives smaller values, so they do not show which ridge is good. On the test
    rows `CCASolution.score`, or `DiscriminantSolution.score`, scores each solution without a ridge. A solver with the
    trait "warm-start" begins each solve at the previous solution; others start from scratch. Ctrl-C ends the path with
    the ridges solved so far; a second Ctrl-C raises KeyboardInterrupt.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> shared = rng.standard_normal((200, 2))
    >>> X = shared @ rng.standard_normal((2, 40)) + 2 * rng.standard_normal((200, 40))
    >>> Y = shared @ rng.standard_normal((2, 30)) + 2 * rng.standard_normal((200, 30))
    >>> path = ls.ridge_path(ls.CCA(X[:100], Y[:100], k=2), [0, 10, 100, 1000], test=(X[100:], Y[100:]))
    >>> path.passes, path.best_ridge
    (1.0, (1000.0, 1000.0))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> ls.ridge_path(ls.Discriminant(X, ls.targets.lda(y)), [1, 10, 100]).passes
    1.0
    """
    checked = _checked(problem, ridges, form)
    rows = None if test is None else _test_rows(test, problem)
    stop = Request()
    with first_interrupt(stop.make):
        by_ridge, passes = along_ridges(problem, checked, solver, form, options, stop)
        if not by_ridge:
            raise NothingYet
        solved = sorted(by_ridge)
        solutions = tuple(by_ridge[i] for i in solved)
        scores = None if rows is None else tuple(score_of_rows(solution, rows) for solution in solutions)
    return RidgePath(
        ridges=tuple(checked[i] for i in solved),
        solutions=solutions,
        scores=scores,
        passes=passes,
        solver=solutions[0].solver,
        interrupted=stop.made,
    )


def _checked(problem: Any, ridges: Any, form: str) -> tuple[Any, ...]:
    """Check the problem, the form and all ridges, and return the ridges as the problem stores them."""
    stated = problem.stated if isinstance(problem, Problem) else None
    if stated is None or not stated.ridge or stated.fields[stated.ridge].path:
        kind = type(problem).__name__
        hint = f"It takes several ridges itself: {kind}(..., ridge=[...])." * bool(stated and stated.ridge)
        raise InvalidProblem(
            f"ridge_path takes a problem with one ridge, such as linspec.CCA or linspec.Discriminant; got {kind}. "
            f"{hint or 'Pass linspec.CCA(X, Y, k).'}"
        )
    if problem.shared is not None and form != "auto":
        raise InvalidProblem(
            f"the moments that the problem was given have a form already; got form={form!r}. Leave it out."
        )
    return checked_ridges(problem, ridges)


def _test_rows(test: Any, problem: Problem[Any]) -> list[LinearOperator]:
    """Check the test rows before any work, and return them; targets of new rows may have a different width."""
    names = tuple(problem.matrices)
    if not isinstance(test, tuple | list) or len(test) != len(names):
        raise InvalidProblem(
            f"test must have rows of all matrices: ({', '.join(f'{A}_test' for A in names)})."
        )
    if not default_scores(problem):
        raise InvalidProblem(
            f"answers of {problem.name} are not scored on rows: {problem.solution.__name__} has no score. Leave test "
            "out."
        )
    fixed = [name for name in names if problem.stated.field_of(name) in problem.solution.layout.weights]
    rows = rows_to_score(problem, dict(zip(names, test, strict=True)), "test", "ridge", InvalidProblem, fixed)
    check_order({f"{name}_test": A for name, A in rows.items()})
    return list(rows.values())
