"""The choice of "auto": a solver and the estimates on which the choice rests.

Problem: the fastest method depends on the sizes of the data, on their place and on how often they can be read; and
importing every solver to compare estimates takes longer than a small problem.
Method: solvers with the trait "automatic" in their records state time and memory for given sizes. Those that need what
the data lack are left out, and of the others the one with the least time within half of the available memory is taken.
Where we differ: data that are read once offer no second attempt. An exact one-pass solver is taken where it fits,
whatever an approximate one would save.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from linspec import cost, registry
from linspec.arrays import with_device
from linspec.errors import (
    InvalidOption,
    InvalidProblem,
    NoSuitableSolver,
    PluginWarning,
    UnknownOption,
    one_line,
    shown,
    warn,
)
from linspec.operators.streamed import ONCE
from linspec.process import machine
from linspec.process.log import LOG, tells
from linspec.registry import options
from linspec.registry.options import RUN_ARGUMENTS
from linspec.solving.problem import Problem
from linspec.solving.solver import Solver


def check_fits(
    needed: float, subject: str, remedy: str, free: Callable[[], float] = machine.available_memory
) -> None:
    """Raise `NoSuitableSolver` if `needed` bytes for a subject are not free.

    Parameters
    ----------
    needed : float
    subject, remedy : str
        The beginning and the end of the message: "loadings of 200 draws", "Ask for fewer draws."
    free : callable, optional
        Returns the free bytes; by default those of the host.
    """
    available = free() if needed > cost.ALWAYS_AVAILABLE else needed
    if needed > available:
        raise NoSuitableSolver(
            f"{subject} would take {cost.human_bytes(needed)} of memory; {cost.human_bytes(available)} are available. "
            f"{remedy}"
        )


@dataclass(frozen=True)
class Selection:
    """The choice of "auto", and its reason.

    Attributes
    ----------
    name : str
        The name of the solver.
    reason : str
        The figures on which the choice rests.
    estimate : linspec.cost.Estimate or None
        The solver's estimate of time and memory.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> A = np.random.default_rng(0).standard_normal((200, 10)) * np.geomspace(10, 1, 10)
    >>> ls.select(ls.SVD(A, k=2)).name
    'gram'
    """

    name: str
    reason: str
    estimate: cost.Estimate | None = None


@with_device
def select(problem: Problem[Any]) -> Selection:
    """Choose a solver for a problem: the least estimated time within half of the available memory.

    Every solver with the trait "automatic" states time and memory for the problem's sizes, and no other is imported.
    One that needs what the data cannot give is left out. For data that can be read only once, an exact one-pass solver
    is chosen if one fits, and else an approximate one.

    Parameters
    ----------
    problem : Problem[Any]

    Returns
    -------
    Selection

    Raises
    ------
    InvalidProblem
        The argument is no problem.
    NoSuitableSolver
        When none fits; the message names what each would need and what can be called by name.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> A = np.random.default_rng(0).standard_normal((200, 10)) * np.geomspace(10, 1, 10)
    >>> choice = ls.select(ls.SVD(A, k=2))
    >>> choice.name
    'gram'
    """
    if not isinstance(problem, Problem):
        raise InvalidProblem(
            f"select takes a problem such as linspec.CCA(X, Y, k); got {type(problem).__name__}. Make one of the data."
        )
    name, estimates, within = _chosen(problem, problem.sizes())
    return Selection(name, _reason(name, estimates, within), estimates[name])


def _reason(name: str, estimates: Mapping[str, cost.Estimate], within: str) -> str:
    """The figures on which a choice rests: in words, for small problems, they take longer than choosing."""
    figures = "; ".join(f"{solver}: {e} ({e.note})" for solver, e in estimates.items())
    return f"{name} takes the least time{within}: {figures}."


def candidates(problem: Problem[Any], sizes: cost.Sizes) -> tuple[dict[str, cost.Estimate], frozenset[str]]:
    """Return the estimates of the solvers that state one for these sizes, and the names of approximate solvers."""
    once = read_once(problem)
    estimates: dict[str, cost.Estimate] = {}
    records = registry.records_of_solvers(problem)
    rough = frozenset(name for name, spec in records.items() if "approximate" in spec.traits)
    for name, spec in records.items():
        if "automatic" not in spec.traits or (name in rough and not once) or lacks(problem, spec):
            continue
        estimate = stated_estimate(partial(registry.get_solver, name, problem), spec.qualified, sizes)
        if estimate is not None:
            estimates[name] = estimate
    return estimates, rough


def _chosen(problem: Problem[Any], sizes: cost.Sizes) -> tuple[str, dict[str, cost.Estimate], str]:
    """Return the solver that states the least time for these sizes, the estimates, and what limits the memory."""
    estimates, rough = candidates(problem, sizes)
    memory, within = float(cost.ALWAYS_AVAILABLE), ", and none needs much memory"
    if any(estimate.bytes > memory for estimate in estimates.values()):
        memory = sizes.free_memory() / 2
        within = f" of those within {cost.human_bytes(memory)}"
    exact = {name: estimate for name, estimate in estimates.items() if name not in rough}
    name = cost.least_time(exact, memory) or cost.least_time(estimates, memory)
    if name:
        return name, estimates, within
    iterative = [
        name
        for name, spec in registry.records_of_solvers(problem).items()
        if name not in estimates and "iterative" in spec.traits and "demonstration" not in spec.traits
    ]
    raise NoSuitableSolver(
        f'"auto" finds no solver for {problem.name} that these data allow{within}. By name, these can be tried, which '
        f"iterate: {', '.join(iterative) or 'none'}."
    )


def estimated(
    problem: Problem[Any], solver: str | Solver, sizes: cost.Sizes
) -> tuple[str, cost.Estimate | None]:
    """Return the solver that would run, and its estimate.

    Parameters
    ----------
    problem : Problem
    solver : str or Solver
        "auto" stands for the choice of `select`.
    sizes : linspec.cost.Sizes
        The sizes of the problem, or of a part of it.

    Returns
    -------
    str, linspec.cost.Estimate or None
        The name of the solver, and its estimate: None if it states none, or if "auto" finds no solver.
    """
    if solver == "auto":
        try:
            name, estimates, _ = _chosen(problem, sizes)
        except NoSuitableSolver:
            return "auto", None
        return name, estimates[name]
    if isinstance(solver, Solver):
        cls = type(solver)
        spec = registry.spec_of(type(solver), problem)
    else:
        cls, spec = registry.solver_and_record(solver, problem)
    if spec is None:
        return cls.__name__, stated_estimate(lambda: cls, cls.__name__, sizes)
    return spec.name, stated_estimate(lambda: cls, spec.qualified, sizes)


def stated_estimate(solver: Callable[[], type[Solver]], name: str, sizes: cost.Sizes) -> cost.Estimate | None:
    """Return a solver's estimate of time and memory; None if it states none, or if it is broken, with a warning."""
    fault = "returned what is no linspec.cost.Estimate of times and bytes that are not negative"
    try:
        estimate: Any = solver().estimate(sizes)
        if estimate is None or (
            isinstance(estimate, cost.Estimate) and estimate.seconds >= 0 and estimate.bytes >= 0
        ):
            return estimate
    except Exception as error:  # noqa: BLE001  # whatever a plugin raises: it must not stop other solvers
        fault = f"raised {one_line(error)}"
    warn(f"{name}: estimate {fault}.", PluginWarning)
    return None


def automatic(problem: Problem[Any], passed: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the solver that "auto" chooses, and the given options that it has; only `tol` is permitted."""
    extra = sorted(passed.keys() - {"tol"})
    if extra:
        pairs = zip(extra, map(options.counterparts, extra), strict=True)
        known = (f" {name} is called {' or '.join(names)} here." for name, names in pairs if names)
        raise UnknownOption(
            f'"auto" takes only tol; got {", ".join(extra)}.{"".join(known)} Name a solver to set its options, and see '
            "the parameters of the call."
        )
    tol = passed.get("tol")
    if tol is not None and not (options.is_number(tol) and tol > 0):
        raise InvalidOption(f"tol must be a number above 0; got {shown(tol)}.")
    name, estimates, within = _chosen(problem, problem.sizes())
    if tells():
        LOG.debug("auto: %s", _reason(name, estimates, within))
    return name, options_it_has(problem, name, passed)


def options_it_has(problem: Problem[Any], name: str, passed: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the given options that a solver has."""
    known = options.options_of(registry.get_solver(name, problem)) if passed else ()
    return {option.name: passed[option.name] for option in known if option.name in passed}


def chosen_solver(
    problem: Problem[Any], solver: Any, passed: Mapping[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """Choose one solver for several solves; "auto" decides by the first problem.

    Parameters
    ----------
    problem : Problem
        The first problem.
    solver : str or Solver
    passed : mapping
        Options and other arguments of `solve`.

    Returns
    -------
    str or Solver, dict
        The solver, and the options and arguments that it takes.

    Raises
    ------
    InvalidOption
        `missing` is an argument: each solve would leave out other rows than the study counts.
    """
    if "missing" in passed:
        raise InvalidOption(
            "missing= is an argument of linspec.solve, and not of studies, which count rows; got it. Pass "
            "linspec.drop_missing(problem) to the study."
        )
    if solver != "auto":
        return solver, dict(passed)
    arguments = {key: value for key, value in passed.items() if key in RUN_ARGUMENTS}
    name, rest = automatic(problem, {key: value for key, value in passed.items() if key not in arguments})
    return name, {**arguments, **rest}


def has_trait(problem: Problem[Any], solver: str | Solver, trait: str) -> bool:
    """Whether the record of a solver, by name or as an instance, has a trait."""
    if isinstance(solver, Solver):
        spec = registry.spec_of(type(solver), problem)
    else:
        spec = registry.get_spec("solver", solver, problem)
    return spec is not None and trait in spec.traits


def read_once(problem: Problem[Any]) -> bool:
    """Whether the data of a problem can be read only once."""
    return problem.readings == 1


def lacks(problem: Problem[Any], spec: Any, needs: Collection[str] = ()) -> str:
    """Say why a solver cannot take the data of a problem, or what else is asked of it; "" if it can.

    Parameters
    ----------
    problem : Problem
    spec : SolverSpec or None
        The record of the solver; None: it has no traits, and needs nothing.
    needs : collection of str
        "warm-start", if the solver shall begin at an earlier answer; "resumable", if it shall write checkpoints.
    """
    traits = frozenset() if spec is None else frozenset(spec.traits)
    if read_once(problem) and "one-pass" not in traits:
        return f"reads its data several times, and {ONCE}"
    if getattr(problem, "path", False) and "path" not in traits:
        return "solves for one ridge at a time"
    if problem.share and "share" not in traits:
        return "takes a number as k, and no share of the squares"
    if "warm-start" in needs and "warm-start" not in traits:
        return "does not begin at an earlier answer"
    if "resumable" in needs and spec is not None and traits.isdisjoint({"warm-start", "resumable"}):
        return "cannot go on from a checkpoint"
    return "" if spec is None else _unmet(problem, spec.needs)


def _unmet(problem: Problem[Any], needs: Any) -> str:
    """Name the first need of a solver that the problem's data cannot meet; "" if they meet all."""
    if not (needs.dense or needs.entries or needs.rows or needs.diagonal):
        return ""
    gone = problem.readings > 1  # an iterator that has been read is there as Gram matrices
    for A in problem.matrices.values():
        sliced = A.streamed and not needs.dense and not (gone and getattr(A, "spent", False))
        if (needs.dense or needs.entries) and not (A.readable or sliced):
            return "needs the entries of the matrices, which the data cannot give"
        if needs.rows and not A.gathers:
            return "needs row slices, which the data cannot give"
        if needs.diagonal and not (A.readable or A.access == "blocks"):
            return "needs exact column norms, which the data cannot give"
    return ""
