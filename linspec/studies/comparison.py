"""Comparison of solvers on one or several problems: results and costs, side by side.

Problem: choose a solver, a kernel or a ridge. Correlations of fitted rows always grow as the ridge falls and as
kernels become narrower, so they are no basis for a choice among problems. Figures from runs under different
conditions are no basis for a choice among solvers.
Method: every solver solves every problem with the same seed and the same budgets. With `held_out`, the same rows are
excluded from all solves, and the solutions are compared by `solution.score` on these rows (Stone 1974,
doi:10.1111/j.2517-6161.1974.tb00994.x, for choosing by rows that were left out). Costs are the passes and products
that the solution counts, and the wall and CPU seconds of the call.
Where we differ: one set of rows is held out, instead of each row in turn. So a comparison costs one solve for each
row of the table.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec import registry
from linspec.arrays import random_generator
from linspec.errors import (
    InvalidOption,
    InvalidProblem,
    LinspecError,
    NonFiniteData,
    SweptOnce,
    UnknownOption,
    one_line,
    shown,
)
from linspec.frames import check_order, library_for_table, table
from linspec.iteration import Progress
from linspec.process.plurals import count_of
from linspec.registry import options
from linspec.solving.problem import Problem
from linspec.solving.select import automatic
from linspec.solving.solve import solve
from linspec.solving.solver import Solver
from linspec.solving.stating import with_values
from linspec.solving.tables import Summary
from linspec.status import Status
from linspec.studies.held_out.scores import FEWEST, auxiliary, number_of, rows_to_score

AUTO, FAILED = "auto", "FAILED"

COLUMNS = ("problem", "solver", "score", "objective", "residual", "status", "passes", "products", "seconds")
"""The columns of the printed table of a comparison; `Comparison.rows` has more columns."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Entry:
    """The result of one solver on one problem.

    Attributes
    ----------
    problem, solver : str
        The names of the problem and the solver in this comparison.
    status, message : str
        The name of the status and the message of the solution; "FAILED" and the error if there is no solution.
    converged : bool
    tol : float or None
        The tolerance with which the residual was compared.
    score : float or None
        `solution.score` on the held-out rows; larger is better.
    objective : float or None
        The quantity that the problem maximises, on the fitted rows, such as a sum of correlations. Objectives of
        problems with different ridges or kernels cannot be compared.
    residual : float or None
        The residual as the problem defines it; NaN if it cannot be computed.
    passes : float or None
        Passes over the data, including set-up and certificate.
    iterations : int
    products : float or None
        Products with one column, forward or adjoint, during the iterations; None for direct solvers.
    seconds, cpu_seconds : float or None
        Wall time and CPU time (of all threads together) of the call.
    solution : Solution or None
    """

    problem: str
    solver: str
    status: str
    message: str = ""
    converged: bool = False
    tol: float | None = None
    score: float | None = None
    objective: float | None = None
    residual: float | None = None
    passes: float | None = None
    iterations: int = 0
    products: float | None = None
    seconds: float | None = None
    cpu_seconds: float | None = None
    solution: Any = None

    @property
    def failed(self) -> bool:
        """Whether the solver failed, so that there is no solution."""
        return self.status == FAILED


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """The results of several solvers, one entry for each solver and problem, in the order of the runs.

    Attributes
    ----------
    entries : tuple of Entry
    held_out : int
        The number of held-out rows, on which scores are computed; 0 without any.
    interrupted : bool
        Whether Ctrl-C ended the series; then `entries` has only the runs that were finished.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.standard_normal((200, 6)), rng.standard_normal((200, 5))
    >>> Y[:, 0] += X[:, 0]
    >>> table = ls.compare(ls.CCA(X, Y, k=2), ["gram", "direct"])
    >>> [entry.solver for entry in table.entries]
    ['gram', 'direct']
    """

    entries: tuple[Entry, ...]
    held_out: int = 0
    interrupted: bool = False

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One dict for each entry, with all fields except the solution."""
        return [
            {name: value for name, value in vars(entry).items() if name != "solution"}
            for entry in self.entries
        ]

    def table(self, *, library: str | None = None) -> Any:
        """Make a table with a row for each solver and problem.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow", ""}, optional
            As for `Solution.weights_table`.

        Returns
        -------
        list of dict, pandas.DataFrame, polars.DataFrame or pyarrow.Table
            The fields of `Entry`, those of the printed table first, without the solution. A number that an entry lacks
            is NaN.

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
        >>> rows = ls.compare(ls.SVD(np.diag([3.0, 2.0]), k=1), ["gram", "direct"]).table(library="")
        >>> [(row["solver"], row["status"]) for row in rows]
        [('gram', 'CONVERGED'), ('direct', 'CONVERGED')]
        """
        rows, columns = self.rows, {}
        for name in dict.fromkeys([*COLUMNS, *rows[0]]):
            columns[name] = np.array([math.nan if row[name] is None else row[name] for row in rows])
        return table("", None, columns, library_for_table(library, *self.solutions))

    @property
    def solutions(self) -> tuple[Any, ...]:
        """The solution of each entry; None if the solver failed."""
        return tuple(entry.solution for entry in self.entries)

    @property
    def best(self) -> Entry:
        """The entry with the largest score on the held-out rows; the first if scores are equal.

        Raises
        ------
        InvalidProblem
            If no rows were held out, or no entry has a score.
        """
        scored = [entry for entry in self.entries if entry.score is not None]
        if not scored:
            raise InvalidProblem(
                "the best entry is that with the largest score on rows that were not fitted, and there is no score. "
                "Pass held_out=0.2, say."
            )
        return max(scored, key=lambda entry: entry.score or 0.0)

    def __repr__(self) -> str:
        rows = self.rows
        names = [name for name in COLUMNS if any(row[name] is not None for row in rows)]
        words = count_of(len(rows), "run")
        words += f", scores on {count_of(self.held_out, 'held-out row')}" * bool(self.held_out)
        title = f"<Comparison: {words}{', interrupted' * self.interrupted}>"
        return repr(Summary([{name: row[name] for name in names} for row in rows], title, ()))


def compare(
    problems: Problem[Any] | Iterable[Problem[Any]] | Mapping[str, Problem[Any]],
    solvers: str | Solver | Iterable[str | Solver] | Mapping[str, str | Solver] | None = None,
    *,
    held_out: Any = None,
    rng: Any = None,
    max_passes: float | None = None,
    max_seconds: float | None = None,
    callback: Callable[[Progress], Any] | None = None,
    **options_: Any,
) -> Comparison:
    """Solve one problem or several by several solvers, and compare results and costs.

    Parameters
    ----------
    problems : Problem, iterable of Problem, or mapping from str to Problem
        The problems to solve. They may differ in kernels, ridges, kind or anything else. In the table they are named by
        the keys of a mapping, otherwise by their kind and a number.
    solvers : iterable of str or Solver, or mapping from str to these, optional
        Names or instances; in the table they are named by the keys of a mapping. A solver runs on every problem that it
        can solve. By default all solvers of each problem, except demonstrations of failure.
    held_out : float, sequence of data, or mapping from str to data, optional
        Rows that are not fitted, on which `solution.score` is computed. A number between 0 and 1 is a fraction of the
        rows of the problems: these rows are drawn at random once for all problems, and only the other rows are fitted.
        Or pass new rows for each matrix of the problems: a sequence in the order of the matrices, or a mapping by name,
        which may also have ``"confounds"``. With new rows, all rows of the problems are fitted.
    rng : None, int, sequence of int, or numpy.random.Generator
        The seed of every solve, and of the choice of held-out rows.
    max_passes, max_seconds, callback
        Budgets and callback of each solve; see `linspec.solve`.
    **options_
        Options of solvers. Each option is passed to every solver that is given by name and has an option of this name.

    Returns
    -------
    Comparison

    Raises
    ------
    InvalidProblem, InvalidOption, UnknownName, UnknownOption
        Before any solve, if rows, names or options are invalid.
    NonFiniteData
        If the data contain NaN or infinities.
    KeyboardInterrupt
        If Ctrl-C comes before the first solution. Later, the entries so far are returned.

    Notes
    -----
    A solver that fails has an entry with the status "FAILED" and the error. When a fraction of the rows is held out,
    rows in memory are copied, and rows of files are not.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> rng = np.random.default_rng(0)
    >>> shared = rng.standard_normal((300, 1))
    >>> X, Y = shared + rng.standard_normal((300, 30)), shared + rng.standard_normal((300, 20))
    >>> problems = {f"ridge {r:g}": ls.CCA(X, Y, k=1, ridge=r) for r in (0.0, 1e3)}
    >>> comparison = ls.compare(problems, ["gram"], held_out=0.3, rng=0)
    >>> [row["status"] for row in comparison.rows]
    ['CONVERGED', 'CONVERGED']
    >>> comparison.best.problem
    'ridge 1000'
    """
    named = _named(problems)
    runs = _runs(named, solvers, options_)
    seed = _seed(rng)
    parted = {label: _parted(problem, held_out, seed) for label, problem in named.items()}
    entries: list[Entry] = []
    interrupted = False
    limits = {"rng": seed, "max_passes": max_passes, "max_seconds": max_seconds, "callback": callback}
    for label, name, solver, arguments in runs:
        problem, rows = parted[label]
        try:
            entry = measured(problem, solver, arguments, rows=rows, **limits)
        except KeyboardInterrupt:
            if not entries:
                raise
            interrupted = True
            break
        except NonFiniteData:  # every other solver would fail, too
            raise
        except Exception as error:  # noqa: BLE001  (whatever it is, the other solvers should still run)
            entry = Entry(
                problem=label,
                solver=name,
                status=FAILED,
                message=str(error) if isinstance(error, LinspecError) else one_line(error),
            )
        entries.append(dataclasses.replace(entry, problem=label, solver=name))
        if entry.status == Status.INTERRUPTED.name:
            interrupted = True
            break
    sizes = [
        min(A.shape[0] for A in rows.matrices.values()) for _, rows in parted.values() if rows is not None
    ]
    return Comparison(entries=tuple(entries), held_out=max(sizes, default=0), interrupted=interrupted)


def measured(
    problem: Problem[Any],
    solver: str | Solver,
    options_: Mapping[str, Any],
    *,
    rows: Problem[Any] | None = None,
    **limits: Any,
) -> Entry:
    """Solve a problem, and record the results and costs of the run.

    Parameters
    ----------
    problem : Problem
    solver : str or Solver
    options_ : mapping
        The solver's options.
    rows : Problem, optional
        The problem on rows on which the solution is scored.
    **limits
        The other arguments of `linspec.solve`.

    Returns
    -------
    Entry
    """
    wall = time.perf_counter()
    cpu = time.process_time()
    solution = solve(problem, solver, **limits, **options_)
    seconds, cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu
    score, fault = _score(solution, rows)
    tol = options_.get("tol") if isinstance(solver, str) else getattr(solver, "tol", None)
    return Entry(
        problem=problem.name,
        solver=solution.solver,
        status=solution.status.name,
        message=" ".join(filter(None, (solution.message, fault))),
        converged=solution.converged,
        tol=tol or problem.default_tol,
        score=score,
        objective=solution.objective(vars(solution)),
        residual=solution.residual,
        passes=solution.passes,
        iterations=solution.iterations,
        products=float(solution.history["columns"][-1]) if len(solution.history) else None,
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        solution=solution,
    )


def solvers_to_compare(problem: str) -> list[str]:
    """The solvers of a problem, except demonstrations of failure."""
    return [
        name
        for name in registry.solvers(problem)
        if "demonstration" not in registry.get_spec("solver", name, problem).traits
    ]


def split(problem: Problem[Any], fraction: float, rng: Any) -> tuple[Any, Any]:
    """Hold out a fraction of the rows of a problem.

    Parameters
    ----------
    problem : Problem
    fraction : float
        The fraction to hold out, between 0 and 1.
    rng : None, int, sequence of int, or numpy.random.Generator
        Equal seeds hold out the same rows of problems with the same number of rows.

    Returns
    -------
    Problem, Problem
        The problem on the remaining rows, and on the held-out rows.

    Raises
    ------
    InvalidProblem
        If solutions of the problem have no score, or too few rows would be fitted or held out.
    MissingCapability
        If rows of the data cannot be selected by number.
    """
    _check_scored(problem)
    if not (options.is_number(fraction) and 0 < fraction < 1):
        raise InvalidOption(
            f"the fraction of rows that are held out must be above 0 and below 1; got {shown(fraction)}."
        )
    n = min(A.shape[0] for A in problem.matrices.values())
    if math.isinf(n):
        raise InvalidProblem(
            "rows can be held out once they are counted, and these come slice by slice. Pass the rows to score on: "
            "held_out=(X_test, Y_test)."
        )
    count = round(fraction * n)
    if count < FEWEST or n - count < FEWEST:
        raise InvalidProblem(
            f"at least {FEWEST} rows must be held out, and as many be left; got {count} of {n}. Change held_out."
        )
    chosen = np.zeros(n, dtype=bool)
    # A spawned generator, so that the random numbers of the solvers do not depend on the held-out rows.
    chosen[random_generator(rng).spawn(1)[0].choice(n, count, replace=False)] = True
    train, test = (problem.on_rows(np.flatnonzero(side)) for side in (~chosen, chosen))
    train.check_sizes()
    return train, test


# ---- arguments --------------------------------------------------------------------------------


def _named(problems: Any) -> dict[str, Problem[Any]]:
    """Check the problems, and return a dict from their names in the table."""
    named = isinstance(problems, Mapping)
    several = problems.values() if named else problems if isinstance(problems, Iterable) else [problems]
    listed = list(several)
    for problem in listed:
        if not isinstance(problem, Problem):
            raise InvalidProblem(
                f"compare takes problems such as linspec.CCA(X, Y, k); got {type(problem).__name__}."
            )
    if not listed:
        raise InvalidProblem("compare takes at least one problem; got none.")
    labels = map(str, problems) if named else _numbered(problem.name for problem in listed)
    return dict(zip(labels, listed, strict=True))


def _numbered(names: Iterable[str]) -> list[str]:
    """Labels of a table: names, of which equal ones get the number of their place."""
    labels: list[str] = []
    for name in names:
        labels.append(f"{name} ({len(labels) + 1})" if name in labels else name)
    return labels


RunRequest = tuple[str, str, str | Solver, dict[str, Any]]
"""A run of `compare`: the name of the problem in the table, the name of the solver in the table, the solver, and the
options of the solver."""


def _runs(named: Mapping[str, Problem[Any]], solvers: Any, passed: Mapping[str, Any]) -> list[RunRequest]:
    """Check solvers and options, and list all runs; each listed solver and each option must have one."""
    listed = _listed(solvers)
    runs: list[RunRequest] = []
    for label, problem in named.items():
        pairs = {name: name for name in solvers_to_compare(problem.name)} if listed is None else listed
        for name, solver in pairs.items():
            arguments = _options(solver, problem, passed)
            if arguments is not None:
                runs.append((label, name, solver, arguments))
    run = dict.fromkeys(name for _, name, _, _ in runs)
    for name, solver in (listed or {}).items():
        if name not in run:
            first = next(iter(named.values()))
            if isinstance(solver, str):
                registry.get_spec("solver", solver, first)  # raises, and lists the solvers
            raise InvalidOption(f"{name} is no solver of {first.name}.")
    unused = [name for name in passed if not any(name in arguments for *_, arguments in runs)]
    if unused:
        raise UnknownOption(f"none of {', '.join(run)} has an option {unused[0]!r}. Leave it out.")
    return runs


def _listed(solvers: Any) -> dict[str, str | Solver] | None:
    """Check the solvers, and return a dict from their names in the table; None if all solvers are to run."""
    if solvers is None:
        return None
    if isinstance(solvers, Mapping):
        by_name = {str(label): solver for label, solver in solvers.items()}
    else:
        several = isinstance(solvers, Iterable) and not isinstance(solvers, str)
        listed = list(solvers if several else [solvers])
        by_name = dict(zip(_numbered(map(_called, listed)), listed, strict=True))
    if not by_name:
        raise InvalidOption("solvers must name at least one; got none.")
    for solver in by_name.values():
        if not isinstance(solver, str | Solver):
            raise InvalidOption(f"a solver is a name or a Solver instance; got {shown(solver)}.")
    return by_name


def _called(solver: Any) -> str:
    """The name of a solver in the table."""
    spec = registry.spec_of(type(solver)) if isinstance(solver, Solver) else None
    return str(solver) if spec is None else spec.name


def _options(solver: str | Solver, problem: Problem[Any], passed: Mapping[str, Any]) -> dict[str, Any] | None:
    """Select those of the given options that a solver has, and check their values; None if it is not for the problem.

    A solver may solve a problem if it is registered for it, or is an unregistered instance.
    """
    if isinstance(solver, Solver):
        known = registry.spec_of(type(solver)) is None or registry.spec_of(type(solver), problem) is not None
        return {} if known else None
    if solver == AUTO:
        arguments = {name: value for name, value in passed.items() if name == "tol"}
        automatic(problem, arguments)
        return arguments
    try:
        cls = registry.get_solver(solver, problem)
    except LookupError:
        return None
    names = {option.name for option in options.options_of(cls)}
    arguments = {name: value for name, value in passed.items() if name in names}
    options.build(cls, arguments)
    return arguments


def _seed(rng: Any) -> Any:
    """Return the seed that every solve gets.

    The seed is `rng` itself if `rng` is an integer or a sequence of integers, and an integer drawn from `rng` if `rng`
    is a generator. If `rng` is None, the seed is a random integer, another one in each call.
    """
    generator = random_generator(rng)
    drawn = rng is None or isinstance(rng, np.random.Generator | np.random.BitGenerator)
    return int(generator.integers(2**62)) if drawn else rng


# ---- rows to score on -------------------------------------------------------------------------


def _parted(problem: Problem[Any], held_out: Any, seed: Any) -> tuple[Problem[Any], Problem[Any] | None]:
    """The problem to solve, and the held-out rows, if any."""
    if held_out is None:
        return problem, None
    _check_scored(problem)
    if options.is_number(held_out):
        return split(problem, held_out, seed)
    names = list(problem.matrices)
    wanted = names if problem.confounds is None else [*names, "confounds"]
    if isinstance(held_out, tuple | list) and len(held_out) == len(names):
        held_out = dict(zip(names, held_out, strict=True))
    if not isinstance(held_out, Mapping) or set(held_out) != set(wanted):
        raise InvalidProblem(
            f"held_out must be a fraction, or rows of {' and '.join(wanted)}, each by its name."
        )
    matrices = {name: held_out[name] for name in names}
    rows = rows_to_score(problem, matrices, "held-out", "solver", SweptOnce, names)
    confounds = held_out.get("confounds")
    check_order({**rows, "confounds": confounds})
    return problem, with_values(problem.with_matrices(rows), confounds=confounds)


def _check_scored(problem: Problem[Any]) -> None:
    if not callable(getattr(problem.solution, "score", None)):
        raise InvalidProblem(
            f"answers of {problem.name} are not scored on rows: {problem.solution.__name__} has no score. Leave "
            "held_out out."
        )


def _score(solution: Any, rows: Problem[Any] | None) -> tuple[float | None, str]:
    """The score of a solution on the rows, or None with a message that says why."""
    if rows is None:
        return None, ""
    try:
        score = solution.score(*rows.matrices.values(), **auxiliary(rows))
    except LinspecError as error:
        return None, f"There is no score: {one_line(error)}"
    return number_of(score), ""
