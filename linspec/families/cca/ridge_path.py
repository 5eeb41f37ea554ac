"""One CCA for each of several ridges.

Problem: the ridge of a CCA is seldom known beforehand. To find it, solve with several ridges and score each solution on
rows that were not fitted.
Method: solve from the largest ridge to the smallest. All solves share one `linspec.Moments`, so a held Gram matrix
costs one pass for the whole path. A solver that can begin at an earlier answer begins at that of the previous ridge.
This answer is near, because only the diagonals of the equations have changed.
Source: Friedman, Hastie & Tibshirani 2010, doi:10.18637/jss.v033.i01 (paths from the largest penalty down, each begun
at the last answer).
Where we differ: their penalties select coordinates; a ridge makes the problem better conditioned. So the first solve,
which begins at random, is the easiest one, and the hardest solve begins near its answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec import cost, registry
from linspec.arrays import HostArray
from linspec.errors import InvalidProblem
from linspec.families.cca.problem import CCA
from linspec.families.cca.solution import CCASolution
from linspec.families.cca.variates import CCAScore
from linspec.interrupts import HowItEnded, Request, first_interrupt, had_nothing, nothing_yet, remember
from linspec.moments import Moments
from linspec.operators import LinearOperator, as_operator
from linspec.options import RUN_ARGUMENTS
from linspec.solver import Solver, automatic, solve

__all__ = ["RidgePath", "ridge_path"]


@dataclass(frozen=True, eq=False)
class RidgePath:
    """The canonical pairs for each of several ridges, in the order in which the ridges were given.

    Attributes
    ----------
    ridges : tuple of (float, float)
        The ridge of X and that of Y.
    solutions : tuple of CCASolution
        One for each ridge. `solution.passes` counts the passes for this ridge. The passes that all ridges share count
        for the largest ridge, which is solved first.
    scores : tuple of CCAScore or None
        The scores of the solutions on the test rows; None without test rows.
    passes : float
        All passes over the training data.
    solver : str
        The qualified name of the solver that ran.
    interrupted : bool
        Whether Ctrl-C ended the path. Then it has only the ridges solved so far, and the solution of the smallest of
        them may have the status INTERRUPTED.
    """

    ridges: tuple[tuple[float, float], ...]
    solutions: tuple[CCASolution, ...]
    scores: tuple[CCAScore, ...] | None
    passes: float
    solver: str
    interrupted: bool = HowItEnded(False)  # type: ignore[assignment]  # a descriptor

    @property
    def totals(self) -> HostArray | None:
        """Total correlation captured on the test rows, one for each ridge; None without test rows."""
        if self.scores is None:
            return None
        totals: HostArray = np.array([score.total for score in self.scores])
        return totals

    @property
    def best(self) -> int:
        """The index of the ridge whose solution captures most on the test rows; among equal ones the largest ridge.

        Raises
        ------
        InvalidProblem
            Without test rows. The correlations of fitted rows always grow as the ridge falls, so they cannot choose it.
        """
        if self.totals is None:
            raise InvalidProblem(
                "the best ridge is chosen on rows that were not fitted, and this path was made without any. Pass "
                "test=(X_test, Y_test)."
            )
        return max(range(len(self.ridges)), key=lambda i: (self.totals[i], sum(self.ridges[i])))  # type: ignore[index]

    @property
    def best_ridge(self) -> tuple[float, float]:
        """The ridge of `best`."""
        return self.ridges[self.best]

    @property
    def best_solution(self) -> CCASolution:
        """The solution of `best`."""
        return self.solutions[self.best]

    def __repr__(self) -> str:
        lines = [f"<RidgePath by {self.solver}: {len(self.ridges)} ridges, {self.passes:g} passes"]
        lines[0] += ", interrupted" * self.interrupted
        for i, (ridge, solution) in enumerate(zip(self.ridges, self.solutions, strict=True)):
            pair = f"{ridge[0]:g}" if ridge[0] == ridge[1] else f"({ridge[0]:g}, {ridge[1]:g})"
            line = f"  ridge {pair}: sum {solution.correlations.sum():.6f}, {solution.status.name}"
            if self.scores is not None:
                line += f", on test rows {self.scores[i].total:.6f}{' (best)' * (i == self.best)}"
            lines.append(line)
        return "\n".join(lines) + ">"


def ridge_path(
    problem: CCA,
    ridges: Iterable[Any],
    *,
    solver: str | Solver = "auto",
    test: tuple[Any, Any] | None = None,
    form: str = "auto",
    **options: Any,
) -> RidgePath:
    """Solve one CCA for each of several ridges; all solves share the moments of the data.

    Parameters
    ----------
    problem : CCA
        Its data, k and centring are used; its own ridge is not.
    ridges : sequence
        Ridges, each a number or a pair (of X, of Y), in any order.
    solver : str or Solver, default "auto"
        As for `linspec.solve`. "auto" chooses once, for the largest ridge.
    test : (data, data), optional
        Rows of both views that are not among those of X and Y, for scoring the solutions. They are read once for each
        ridge.
    form : {"auto", "dense", "sparse", "implicit"}, default "auto"
        How the moments of the data are held: see `linspec.Moments`. It holds for all ridges, and replaces the option of
        the solver.
    **options
        The solver's options and the other arguments of `linspec.solve`: ``rng``, ``max_passes``, ``callback`` and so
        on, which are the same for each solve, and ``start`` for the first solve.

    Returns
    -------
    RidgePath

    Raises
    ------
    InvalidProblem
        If the problem is no CCA; if there is no ridge, or one is neither a number nor a pair of numbers of at least 0;
        if test rows do not fit or can be read only once.
    UnknownName, UnknownOption, InvalidOption, NonFiniteData, MissingCapability, NoSuitableSolver, BudgetTooSmall
        As for `linspec.solve`.

    Notes
    -----
    On the fitted rows a larger ridge always gives smaller correlations, so they do not show which ridge is good. On the
    test rows `CCASolution.score` scores each solution without a ridge. A solver with the trait "warm-start" begins each
    solve at the last answer; others begin anew. Ctrl-C ends the path with the ridges solved so far; a second Ctrl-C
    raises KeyboardInterrupt.

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
    """
    problems = _problems(problem, ridges, form)
    order = sorted(range(len(problems)), key=lambda i: -sum(problems[i].ridge))
    rows = None if test is None else _test_rows(test, problems[0])
    solver, options = chosen_solver(problems[order[0]], solver, options)
    warm, last = begins_at_an_answer(problems[0], solver), options.pop("start", None)
    found: dict[int, CCASolution] = {}
    stop = Request()
    with first_interrupt(stop.make):
        for i in order:
            if stop.made:
                break
            try:
                last = found[i] = solve(problems[i], solver, start=last, **options)
            except KeyboardInterrupt as interrupt:
                if not had_nothing(interrupt):
                    raise
                break
            last = last if warm and len(last.correlations) else None
        solved = sorted(found)
        if not solved:
            raise nothing_yet()
        solutions = tuple(found[i] for i in solved)
        scores = None if rows is None else tuple(solution.score(*rows) for solution in solutions)
    path = RidgePath(
        ridges=tuple(problems[i].ridge for i in solved),
        solutions=solutions,
        scores=scores,
        passes=sum(solution.passes for solution in solutions),
        solver=solutions[0].solver,
        interrupted=stop.made,
    )
    if stop.made:
        remember(path)
    return path


def _problems(problem: CCA, ridges: Any, form: str) -> list[CCA]:
    """A problem for each ridge, all on the same moments."""
    if not isinstance(problem, CCA):
        raise InvalidProblem(
            f"ridge_path takes a linspec.CCA; got {type(problem).__name__}. Pass linspec.CCA(X, Y, k)."
        )
    if not isinstance(ridges, Iterable) or isinstance(ridges, str):
        raise InvalidProblem(f"ridges must be a sequence of ridges; got {ridges!r}. Pass [{ridges!r}].")
    given = [tuple(ridge) if isinstance(ridge, np.ndarray) else ridge for ridge in ridges]
    if not given:
        raise InvalidProblem("ridges must hold at least one ridge; got an empty sequence.")
    problem = problem.adjusted()
    moments = problem.shared
    if moments is not None and form != "auto":
        raise InvalidProblem(
            f"the moments that the problem was given have a form already; got form={form!r}. Leave it out."
        )
    if moments is None:
        expect = (cost.EXPECTED_PRODUCTS * len(given), problem.k)
        moments = Moments(problem.X, problem.Y, center=problem.center, form=form, expect=expect)
    k = None if problem.every else problem.k
    made = [CCA(moments, None, k, ridge=ridge, center=problem.center) for ridge in given]
    for each in made:  # the moments of weighted rows know no names
        each.name_columns(problem.column_names, problem.frame_library)
    return made


def _test_rows(test: Any, problem: CCA) -> tuple[LinearOperator, LinearOperator]:
    """The rows for the scores, checked before any work is done."""
    if not isinstance(test, tuple | list) or len(test) != 2:
        raise InvalidProblem(f"test must be a pair (X_test, Y_test); got {type(test).__name__}.")
    rows = as_operator(test[0], "the test rows of X"), as_operator(test[1], "the test rows of Y")
    for A, B, name in zip(rows, (problem.X, problem.Y), "XY", strict=True):
        if A.shape[1] != B.shape[1]:
            raise InvalidProblem(f"the test rows of {name} must have {B.shape[1]} columns; got {A.shape[1]}.")
        if A.sweeps == 1:
            raise InvalidProblem(
                f"the test rows of {name} are read once for each ridge; got an iterator. Pass a callable that returns "
                "a fresh one."
            )
    if rows[0].shape[0] != rows[1].shape[0] and math.inf not in (rows[0].shape[0], rows[1].shape[0]):
        raise InvalidProblem(
            f"test must have equally many rows of X and Y; got {rows[0].shape[0]} and {rows[1].shape[0]}."
        )
    return rows


def chosen_solver(problem: CCA, solver: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The solver of all solves, by that of the first, and the options that it takes."""
    if solver != "auto":
        return solver, options
    arguments = {key: value for key, value in options.items() if key in RUN_ARGUMENTS}
    name, own = automatic(problem, {key: value for key, value in options.items() if key not in arguments})
    return name, {**arguments, **own}


def begins_at_an_answer(problem: CCA, solver: Any) -> bool:
    """Whether the solver has the trait "warm-start"."""
    spec = (
        registry.spec_of(type(solver), problem)
        if isinstance(solver, Solver)
        else registry.get_spec("solver", solver, problem)
    )
    return spec is not None and "warm-start" in spec.traits
