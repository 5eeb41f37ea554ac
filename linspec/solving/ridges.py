"""Several ridges of one problem: check them, put them into words, and solve for each.

Problem: a path of ridges, and cross-validation by solving, ask for the answers of one problem for several ridges.
Method: problems and solvers that take a path of ridges are solved in one run. Others are solved from the largest ridge
to the smallest. All solves share the moments of the rows, so a held Gram matrix costs one pass for all ridges. A solver
with the trait "warm-start" begins at the answer for the ridge before. This answer is near, because only the diagonals
of the equations have changed.
Source: Friedman, Hastie & Tibshirani 2010, doi:10.18637/jss.v033.i01 (paths from the largest penalty down, each begun
at the last answer).
Where we differ: their penalties select coordinates; a ridge makes the problem better conditioned. So the first solve,
which begins at random, is the easiest one, and the hardest solve begins near its answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from linspec import cost
from linspec.process.interrupts import Request, repeated
from linspec.rows import Passes
from linspec.solving.checks import several
from linspec.solving.on_rows import moments_of
from linspec.solving.problem import Problem
from linspec.solving.select import chosen_solver, has_trait
from linspec.solving.shared_moments import Moments as Shared
from linspec.solving.solve import solve
from linspec.solving.solver import Solver
from linspec.solving.stating import checked_ridge, with_values
from linspec.solving.tables import size_of_ridge


class AlongRidges(NamedTuple):
    """The answers for several ridges.

    Attributes
    ----------
    solutions : dict from int to Solution
        Solutions by the number of the ridge; fewer than the ridges if an interrupt ended the solves.
    passes : float
        Passes over the data of all solves.
    """

    solutions: dict[int, Any]
    passes: float


def checked_ridges(problem: Problem[Any], ridges: Any) -> tuple[Any, ...]:
    """Check a sequence of ridges and return them in the form in which the problem holds them."""
    listed = [tuple(r) if isinstance(r, np.ndarray) and r.ndim else r for r in several("ridges", ridges)]
    return tuple(checked_ridge(problem, ridge) for ridge in listed)


def along_ridges(
    problem: Problem[Any],
    ridges: Sequence[Any],
    solver: str | Solver,
    form: str,
    options: dict[str, Any],
    stop: Request,
) -> AlongRidges:
    """Solve a problem for each of several ridges.

    Parameters
    ----------
    problem : Problem
    ridges : sequence
        The ridges, each in the form in which the problem holds it.
    solver : str or Solver
        As for `linspec.solve`. "auto" chooses a solver with the trait "warm-start" once, for the largest ridge.
    form : str
        How the moments of the data are held.
    options : dict
        Options of the solver, and other arguments of `linspec.solve`; ``start`` applies to the first solve.
    stop : Request
        The request that an enclosing `first_interrupt` was given, if there is one.
    """
    if hasattr(problem, "path") and (solver == "auto" or has_trait(problem, solver, "path")):
        whole = solve(problem.with_numbers(ridge=tuple(ridges)), solver, **options)
        return AlongRidges(dict(enumerate(whole.along_path())), whole.passes)
    order = sorted(range(len(ridges)), key=lambda i: -size_of_ridge(ridges[i]))
    problem = _sharing(problem, len(ridges), form)
    problems = [problem.with_numbers(ridge=ridges[i]) for i in order]
    chosen, arguments = chosen_solver(problems[0], solver, options)
    warm = has_trait(problem, chosen, "warm-start")
    start = options.get("start")
    if warm:
        solver, options = chosen, arguments
    options = {name: value for name, value in options.items() if name != "start"}
    solutions: dict[int, Any] = {}

    def solve_next(number: int) -> None:
        nonlocal start
        solution = solutions[order[number]] = solve(problems[number], solver, start=start, **options)
        values = type(solution).layout.value
        start = solution if warm and (not values or len(getattr(solution, values))) else None

    repeated(solve_next, len(order), stop)
    return AlongRidges(solutions, sum(solution.passes for solution in solutions.values()))


def _sharing(problem: Problem[Any], ridges: int, form: str) -> Any:
    """Return the problem on moments that the solves for all ridges share, unless it has moments of its own."""
    if problem.shared is not None or problem.moments_of_its_own(Passes()) is not None:
        return problem
    moments = moments_of(problem, Passes())
    expect = (cost.EXPECTED_PRODUCTS * ridges, problem.width)
    return with_values(problem, shared=Shared.of(problem.matrices, moments, form, expect))
