"""The one call: from a problem and the name of a solver to a solution.

Problem: bad arguments should end in one clear error before work is lost, and where "auto" has chosen a solver that
fails, the user should not have to look for another.
Method: everything is checked before the first product: options, budgets, what the data can give, memory, and the
checkpoint or the answer to begin at. Then one solver runs. Where "auto" chose it and it missed the tolerance, other
solvers are tried, as long as they take little in comparison.
Where we differ: a solver converts nothing. Its moments are those of preprocessed rows, and the certificate converts the
answer back to the columns as they came.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from linspec import cost, registry
from linspec.arrays import Array, at_home, random_generator
from linspec.borrowed import borrowed
from linspec.errors import (
    BudgetTooSmall,
    ConvergenceWarning,
    InvalidOption,
    InvalidProblem,
    MissingCapability,
    NoSuitableSolver,
    OutOfMemory,
    SweptOnce,
    one_line,
    shown,
    warn,
)
from linspec.operators.streamed import ONCE
from linspec.process import machine
from linspec.process.faults import is_out_of_memory
from linspec.process.interrupts import NothingYet
from linspec.process.paths import is_there
from linspec.process.progress import report_progress
from linspec.registry import options
from linspec.registry.keywords import hinted
from linspec.registry.options import with_parts
from linspec.solving.checkpoints import (
    Checkpoint,
    CheckpointWriter,
    Saved,
    fingerprint,
    is_checkpoint,
    loaded,
)
from linspec.solving.checks import warn_of_slow_float64
from linspec.solving.problem import Problem
from linspec.solving.run import Progress, run
from linspec.solving.select import (
    automatic,
    candidates,
    lacks,
    read_once,
    record_of,
    stated_estimate,
)
from linspec.solving.solution import Solution, load_solution
from linspec.solving.solver import Solver
from linspec.solving.verdict import WARNED, as_interrupted
from linspec.status import Status

S = TypeVar("S", bound=Solution)
"""The class of a problem's answers."""


ORTHOGONAL = "direct"
"""Name of solvers that do not form Gram matrices, and so do not square the condition number."""


UNFINISHED = frozenset(
    {
        Status.ILL_CONDITIONED,
        Status.INACCURATE,
        Status.STAGNATED,
        Status.ITERATION_LIMIT,
        Status.BREAKDOWN,
    }
)
"""Endings above the tolerance after which "auto" tries another solver: another method may reach the tolerance."""


MORE = 2
"""Largest number of further solvers that "auto" tries."""


AFFORDABLE, LEAST_SECONDS = 20.0, 1.0
"""A further solver is tried if its estimated time in seconds is at most AFFORDABLE * max(s, LEAST_SECONDS), where s is
the time that the first solver took."""


@hinted
def solve(  # noqa: PLR0913  # the arguments of the one call
    problem: Problem[S],
    solver: str | Solver = "auto",
    *,
    rng: Any = None,
    max_passes: float | None = None,
    max_seconds: float | None = None,
    callback: Callable[[Progress], Any] | None = None,
    progress: bool = False,
    start: Any = None,
    checkpoint: Checkpoint | None = None,
    complete: bool = False,
    **options_: Any,
) -> S:
    """Solve a problem with a solver chosen by name.

    Parameters
    ----------
    problem : Problem
        Such as `linspec.CCA`; `linspec.problems` lists them.
    solver : str or Solver, default "auto"
        A name (``"gram"``, ``"cca/gram"``, ``"distribution:gram"``) or an instance. "auto" follows `select`.
    rng : None, int, sequence of int, or numpy.random.Generator
        Seed of everything random; a seed gives the same numbers on every backend.
    max_passes : float, optional
        Ceiling on `solution.passes`, the certificate included.
    max_seconds : float, optional
        Wall time from the call on, set-up included, after which no further block of rows is read and no further
        product made: the last iterate is returned. Its certificate may take the same time again. A single product
        with an array in memory, or with an operator, is not cut short.
    callback : callable, optional
        Called with a `Progress` after each iteration; returning True (Python's or NumPy's) stops the run. What
        `progress.current()` returns are copies.
    progress : bool, default False
        Show how far the run is, in one line on standard error.
    start : Solution, mapping or array, optional
        An answer to a similar problem (with another ridge, other rows, fewer pairs) to begin at, for solvers with the
        trait "warm-start": a solution, a mapping with the arrays of a solution, the path of a saved solution, or the
        array x for least squares and Vh for an SVD. The path of a checkpoint is accepted, too: it continues the run
        that wrote the checkpoint. The problem and the options must be those of that run, except for `max_iterations`;
        `max_passes` and `max_iterations` count both runs.
    checkpoint : Checkpoint, optional
        Where to write the state of the run: ``linspec.Checkpoint("run.ckpt", seconds=60)``, or a path alone. Solvers
        with the trait "resumable" go on from it to the same answer, within the tolerance; others with the trait
        "warm-start" begin at its iterate.
    complete : bool, default False
        Prove that no component larger than the last returned one is missing. Only problems with `proves_completeness`
        can, such as a CCA: the certificate forms the Gram matrices, which takes a pass and memory for a matrix of order
        p + q, and computes all correlations. The status is `INCOMPLETE` if larger ones were missed.
    **options_
        The solver's options (`linspec.describe` lists them); "auto" takes only ``tol``.

    Returns
    -------
    Solution
        An instance of the problem's class of solutions.

    Raises
    ------
    UnknownName, AmbiguousName, UnknownOption, InvalidOption
        When a name or an option is not valid.
    NonFiniteData
        When the data hold NaN or infinities; the message names the entry.
    MissingCapability
        When the solver needs something that the data cannot give; SweptOnce, if this is a second reading.
    NoSuitableSolver
        When "auto" finds no solver, or the named solver does not fit into memory.
    BudgetTooSmall
        When the set-up alone exceeds `max_passes`, or `max_seconds` is over before there is an iterate.
    OutOfMemory
        When the memory runs out before there is an iterate.
    KeyboardInterrupt
        When Ctrl-C comes before there is an iterate, or for the second time.

    Notes
    -----
    The first Ctrl-C ends the run at the next block of rows or the next product. The last iterate is returned with its
    residual and `Status.INTERRUPTED`, even if the answer happens to be complete.

    A second Ctrl-C in the same solve raises KeyboardInterrupt. Ctrl-C in a later solve counts as the first again; so
    two of them, close together, end a loop of solves.

    A handler of SIGINT other than Python's is called as well. In threads other than the main one, nothing is changed.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> A = np.random.default_rng(0).standard_normal((200, 10)) * np.geomspace(10, 1, 10)
    >>> problem = ls.SVD(A, k=2)
    >>> ls.solve(problem).status.name
    'CONVERGED'
    >>> ls.solve(problem, "block-krylov", rng=0, tol=1e-10).status.name
    'CONVERGED'
    """
    solution: S = solve_on_host(
        problem,
        solver,
        rng=rng,
        max_passes=max_passes,
        max_seconds=max_seconds,
        callback=callback,
        progress=progress,
        start=start,
        checkpoint=checkpoint,
        complete=complete,
        **options_,
    )
    return solution._in_library(problem.lender)


@at_home
def solve_on_host(  # noqa: PLR0913
    problem: Problem[S],
    solver: str | Solver = "auto",
    *,
    rng: Any = None,
    max_passes: float | None = None,
    max_seconds: float | None = None,
    callback: Callable[[Progress], Any] | None = None,
    progress: bool = False,
    start: Any = None,
    checkpoint: Checkpoint | None = None,
    complete: bool = False,
    **options_: Any,
) -> S:
    """Solve a problem as `solve` does, and return the solution with arrays of NumPy for borrowed data."""
    if not isinstance(problem, Problem):
        raise InvalidProblem(
            f"solve takes a problem such as linspec.CCA(X, Y, k); got {type(problem).__name__}."
        )
    _check_budget("max_passes", max_passes)
    _check_budget("max_seconds", max_seconds)
    began = time.perf_counter()
    machine.check_settings()
    _check_callback(callback)
    _check_flag("progress", progress)
    _check_complete(problem, complete)
    if rng is not None:  # None would draw a seed from the system
        rng = random_generator(rng)
    saved, start = _saved(start)
    if saved is not None and solver == "auto":  # the choice of the run that is continued
        solver = saved.solver
    warn_of_slow_float64(problem)
    name = solver if isinstance(solver, str) else type(solver).__name__
    try:
        instance, spec = _resolve(problem, solver, options_)
        name = spec.name if spec is not None else type(instance).__name__
        writer = _checkpoint_writer(problem, spec, name, checkpoint, saved)
        begin = _check_fit(problem, spec, name, None if saved is not None else start)
        if solver != "auto":  # "auto" has chosen among those that fit
            _check_memory(problem, instance, spec, name)
        limits = {
            "rng": rng,
            "max_passes": max_passes,
            "max_seconds": max_seconds,
            "began": began,
            "complete": complete,
            "tol": options_.get("tol") if solver == "auto" else None,
        }
        with report_progress(name, wanted=bool(progress)) as reporter:
            watching = reporter if callback is None else (callback, *reporter)
            solution: S = run(
                problem,
                instance,
                name,
                callbacks=watching,
                start=begin if saved is None else saved.iterate,
                resumed=saved is not None,
                writer=writer,
                **limits,
            )
            if solver == "auto" and solution.status in UNFINISHED:
                solution = _with_other_solvers(problem, solution, options_, callbacks=watching, **limits)
    except BaseException as error:
        if isinstance(error, OutOfMemory) or not is_out_of_memory(error):
            raise
        raise OutOfMemory(
            f"{name} ran out of memory before its first product: {one_line(error)}. Pass a .npy file, which is read "
            "in blocks, or give the process more memory."
        ) from error
    if (
        solution.status in WARNED
    ):  # of the answer that is returned: an attempt that "auto" gives up warns nobody
        warn(f"{solution.solver}: {solution.message}", ConvergenceWarning)
    return solution


def _check_fit(problem: Problem[Any], spec: Any, name: str, start: Any) -> Mapping[str, Array] | None:
    """Refuse a solver that needs more than the data can give; return the arrays of a start."""
    _check_sweeps(problem, spec, name)
    lacking = lacks(problem, spec.needs) if spec is not None else ""
    if lacking:
        able = [
            name for name in registry.solvers(problem) if not lacks(problem, record_of(name, problem).needs)
        ]
        raise MissingCapability(
            f"{spec.name} needs {lacking}, which the data cannot give. Solvers that can take them: "
            f"{', '.join(able) or 'none'}."
        )
    _check_path(problem, spec, name)
    return None if start is None else _start(problem, spec, name, start)


def _with_other_solvers(
    problem: Problem[Any],
    first: Any,
    given: dict[str, Any],
    *,
    max_passes: Any,
    **settings: Any,
) -> Any:
    """Try further affordable solvers after one that "auto" chose has missed the tolerance; return the best answer.

    Costs are those of all runs. The first answer is returned if no other solver can run, or none is better.
    """
    best, made = first, [first]
    for name in _next(problem, first):
        passes = None if max_passes is None else max_passes - sum(one.passes for one in made)
        over = made[-1].status not in UNFINISHED or len(made) > MORE
        if over or (passes is not None and passes <= 0):
            break
        cls, spec = registry.solver_and_record(name, problem)
        fields = {option.name for option in options.options_of(cls)}
        instance = with_parts(options.build(cls, {k: v for k, v in given.items() if k in fields}))
        try:
            made.append(run(problem, instance, spec.name, max_passes=passes, **settings))
        except (BudgetTooSmall, OutOfMemory):
            break
        except NothingYet:
            return as_interrupted(best)
        best = _better(best, made[-1])
    if len(made) == 1:
        return first
    said = _what_was_tried(best, made)
    if made[-1].status is Status.INTERRUPTED and best is not made[-1]:
        best = as_interrupted(best)
    costs = {name: sum(getattr(one, name) for one in made) for name in ("passes", "columns", "flops")}
    return dataclasses.replace(best, message=f"{best.message} {said}", **costs)


def _better(one: Any, other: Any) -> Any:
    """Return the better of two answers.

    If only one has converged, return this answer. Else return `other`, the later one, if `one` is ILL_CONDITIONED,
    because the residual of `one` does not show lost digits. Else return the answer with the smaller residual.
    """
    if one.converged != other.converged:
        return one if one.converged else other
    squared = one.status is Status.ILL_CONDITIONED  # the residual does not show the lost digits
    return other if squared or not one.residual <= other.residual else one


def _what_was_tried(best: Any, made: list[Any]) -> str:
    """Return sentences on the other runs, for the message of the best one."""
    said = [
        f"{one.solver} was tried {'first' if one is made[0] else 'too'}, and "
        + (
            "squaring lost digits."
            if one.status is Status.ILL_CONDITIONED
            else f"ended as {one.status.name}."
        )
        for one in made
        if one is not best
    ]
    return " ".join(said)


def _next(problem: Problem[Any], first: Any) -> list[str]:
    """Return the affordable solvers to try next: after a non-iterative solver or lost digits only "direct"."""
    if not all(A.sweeps > 1 for A in problem.matrices.values()):
        return []
    tried = first.solver.rpartition("/")[2]
    sizes = problem.sizes()
    estimates, _ = candidates(problem, sizes)
    squared = first.status is Status.ILL_CONDITIONED or "iterative" not in record_of(tried, problem).traits
    memory = sizes.free_memory() / 2
    most = AFFORDABLE * max(first.seconds, LEAST_SECONDS)
    affordable = {
        name: estimate.seconds
        for name, estimate in estimates.items()
        if name != tried
        and (name == ORTHOGONAL or not squared)
        and estimate.seconds <= most
        and estimate.bytes <= memory
    }
    return sorted(affordable, key=lambda name: affordable[name])


def _one_pass(spec: Any) -> bool:
    return spec is not None and "one-pass" in spec.traits


def _with_trait(problem: Problem[Any], *traits: str) -> str:
    """List the solvers of a problem that have one of some traits."""
    names = registry.solvers(problem)
    return ", ".join(name for name in names if not set(traits).isdisjoint(record_of(name, problem).traits))


def _check_sweeps(problem: Problem[Any], spec: Any, name: str) -> None:
    """Refuse a solver that may read its data several times if they can be read only once."""
    if read_once(problem) and not _one_pass(spec):
        able = _with_trait(problem, "one-pass") or "none is known for this problem"
        raise SweptOnce(
            f"{name} reads its data several times, and {ONCE}, or choose a solver that takes one pass: {able}."
        )


def _check_path(problem: Problem[Any], spec: Any, name: str) -> None:
    """Refuse several ridges for a solver that takes only one."""
    if getattr(problem, "path", False) and (spec is None or "path" not in spec.traits):
        raise MissingCapability(
            f"{name} solves for one ridge at a time; got {len(problem.ridges)}. Solve them one by one, or take one "  # type: ignore[attr-defined]
            f"of: {_with_trait(problem, 'path')}."
        )


def _start(problem: Problem[Any], spec: Any, name: str, start: Any) -> Mapping[str, Array]:
    """Return the arrays of an earlier answer; refuse a solver that cannot begin at one."""
    if spec is None or "warm-start" not in spec.traits:
        able = _with_trait(problem, "warm-start")
        raise MissingCapability(
            f"{name} does not begin at an earlier answer. Leave start out"
            f"{', or take one of: ' + able if able else ': no solver of the problem does'}."
        )
    return problem.start(borrowed(start, "start"))


def _saved(start: Any) -> tuple[Saved | None, Any]:
    """Return (checkpoint, None) for the path of a checkpoint, else (None, start), with a saved answer loaded."""
    if not isinstance(start, str | os.PathLike):
        return None, start
    if not is_there(start):
        raise InvalidProblem(
            f"start must be an answer, or the path of a saved one or of a checkpoint; got {shown(os.fspath(start))}, "
            "and there is no such file. Check the path: a run that ends before its first iterate writes none."
        )
    if is_checkpoint(start):
        return loaded(start), None
    return None, load_solution(start)


def _checkpoint_writer(
    problem: Problem[Any], spec: Any, name: str, checkpoint: Any, saved: Saved | None
) -> CheckpointWriter | None:
    """Return the writer of a run's checkpoints, or None, after a check of the checkpoint that the run continues.

    Raises
    ------
    MissingCapability
        The solver cannot continue from a checkpoint, the data can be read only once, or moments replace them.
    """
    if checkpoint is None and saved is None:
        return None
    given = Checkpoint(checkpoint) if isinstance(checkpoint, str | os.PathLike) else checkpoint
    if given is not None and not isinstance(given, Checkpoint):
        raise InvalidOption(f"checkpoint must be a linspec.Checkpoint or a path; got {shown(given)}.")
    if spec is not None and not ({"resumable", "warm-start"}.intersection(spec.traits)):
        able = _with_trait(problem, "resumable", "warm-start")
        raise MissingCapability(
            f"{name} cannot go on from a checkpoint. Leave checkpoint out"
            f"{', or take one of: ' + able if able else ': no solver of the problem can'}."
        )
    if read_once(problem) or getattr(problem, "shared", None) is not None:
        what = "data that are read once" if read_once(problem) else "moments in place of the data"
        raise MissingCapability(f"a checkpoint cannot be kept of {what}. Pass the data, to be read again.")
    about = fingerprint(problem, name)
    if saved is not None:
        saved.check(about)
    return None if given is None else CheckpointWriter(given, about)


def _check_memory(problem: Problem[Any], instance: Solver, spec: Any, name: str) -> None:
    """Refuse a solver if the problem does not fit into memory by the solver's own estimate."""
    if spec is None or not instance.has_estimate():
        return
    sizes = problem.sizes()
    estimate = stated_estimate(type(instance), spec, sizes)
    if (
        estimate is None or estimate.bytes < cost.ALWAYS_AVAILABLE
    ):  # a query to the system takes longer than a small problem
        return
    available = sizes.free_memory()
    if estimate.bytes > available:
        others = _with_trait(problem, "iterative")
        also = f" Solvers that iterate need less: {others}." if others else ""
        raise NoSuitableSolver(
            f"{name} would need {cost.human_bytes(estimate.bytes)} of memory ({estimate.note}); "
            f"{cost.human_bytes(available)} are available.{also}"
        )


def _check_budget(name: str, value: Any) -> None:
    if value is not None and not (options.is_number(value) and value > 0):
        raise InvalidOption(f"{name} must be a positive number or None; got {shown(value)}.")


def _check_flag(name: str, value: Any) -> None:
    """Refuse an argument that is neither True nor False."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidOption(f"{name} must be True or False; got {shown(value)}.")


def _check_complete(problem: Problem[Any], complete: Any) -> None:
    """Refuse a proof of completeness for a problem that has none."""
    _check_flag("complete", complete)
    if complete and not problem.proves_completeness:
        raise InvalidOption(
            "complete=True is for problems that can prove that nothing is missing, such as linspec.CCA; got "
            f"{type(problem).__name__}. Leave it out."
        )


def _check_callback(callback: Any) -> None:
    """Refuse a callback that cannot be called with one argument, before the run begins."""
    if callback is None:
        return
    fault = f"got {shown(callback)}"
    if callable(callback):
        try:
            inspect.signature(callback).bind(None)
        except ValueError:  # some builtins have no signature
            return
        except TypeError as error:
            fault = f"calling {getattr(callback, '__name__', type(callback).__name__)!r} fails: {error}"
        else:
            return
    raise InvalidOption(f"callback must be a function of one argument, the progress, or None; {fault}.")


def _resolve(problem: Problem[Any], solver: Any, given: dict[str, Any]) -> tuple[Solver, Any]:
    """Return the solver instance, its parts looked up, and its record, or None if it has none."""
    if isinstance(solver, Solver):
        if given:
            raise TypeError(
                f"options go into the solver instance; got {', '.join(sorted(given))} beside "
                f"{type(solver).__name__}(...)."
            )
        spec = registry.spec_of(type(solver), problem)
        _check_kind(solver, spec, problem)
        return with_parts(solver), spec
    if not isinstance(solver, str):
        raise InvalidOption(f"solver must be a name or a Solver instance; got {type(solver).__name__}.")
    if solver == "auto":
        solver, given = automatic(problem, given)
    cls, spec = registry.solver_and_record(solver, problem)
    return with_parts(options.build(cls, given)), spec


def _check_kind(solver: Solver, spec: Any, problem: Problem[Any]) -> None:
    """Refuse a solver instance that is registered for another kind of problem."""
    other = registry.spec_of(type(solver)) if spec is None else None
    if other is not None and not isinstance(problem, registry.get_problem(other.problem)):
        raise InvalidOption(
            f"{type(solver).__name__} solves problems of the kind {other.problem}; got one of the kind {problem.name}. "
            f"Solvers of it: {', '.join(registry.solvers(problem))}."
        )
