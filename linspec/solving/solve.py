"""The one call: from a problem and the name of a solver to a solution.

Problem: bad arguments should end in one clear error before work is lost, and where "auto" has chosen a solver that
fails, the user should not have to look for another.
Method: everything is checked before the first product: options, budgets, what the data can give, memory, and the
checkpoint or the answer to begin at. Then one solver runs. Where "auto" chose it and it missed the tolerance, one
other solver is tried, if it takes little in comparison.
Where we differ: a solver converts nothing. Its moments are those of preprocessed rows, and the certificate converts the
answer back to the columns as they came.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import time
from collections.abc import Callable
from typing import Any, TypeVar

from linspec import cost, registry
from linspec.arrays import on_device, random_generator
from linspec.borrowed import borrowed
from linspec.errors import (
    BudgetTooSmall,
    ConvergenceWarning,
    InvalidOption,
    InvalidProblem,
    MissingCapability,
    OutOfMemory,
    SweptOnce,
    called,
    shown,
    warn,
)
from linspec.iteration import Progress
from linspec.operators.streamed import ONCE
from linspec.process import machine
from linspec.process.files import named_file
from linspec.process.interrupts import NothingYet
from linspec.process.progress import report_progress
from linspec.registry import options
from linspec.registry.options import with_parts
from linspec.solving.checkpoints import (
    Checkpoint,
    CheckpointWriter,
    check_same,
    fingerprint,
    loaded,
)
from linspec.solving.checks import check_choice, check_flag
from linspec.solving.complete_rows import drop_missing
from linspec.solving.problem import Problem
from linspec.solving.run import run
from linspec.solving.select import (
    automatic,
    candidates,
    check_fits,
    has_trait,
    lacks,
    options_it_has,
    read_once,
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


AFFORDABLE, LEAST_SECONDS = 20.0, 1.0
"""A further solver is tried if its estimated time in seconds is at most AFFORDABLE * max(s, LEAST_SECONDS), where s is
the time that the first solver took."""


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
    missing: str = "error",
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
        Seed of everything random.
    max_passes : float, optional
        Ceiling on `solution.passes`, the certificate included.
    max_seconds : float, optional
        Wall time, set-up included, after which no further block of rows is read: the last iterate is returned. Its
        certificate may take the same time again.
    callback : callable, optional
        Called with a `Progress` after each iteration; returning True stops the run.
    progress : bool, default False
        Show how far the run is, in one line on standard error.
    start : Solution, mapping or array, optional
        An answer to a similar problem to begin at, for solvers with the trait "warm-start": a solution, its arrays, the
        path of a saved one, or x of least squares and Vh of an SVD. The path of a checkpoint continues its run.
    checkpoint : Checkpoint, optional
        Where to write the state of the run: ``linspec.Checkpoint("run.ckpt", seconds=60)``, or a path alone.
    complete : bool, default False
        Prove that no larger component is missing, from Gram matrices and all correlations; only problems with
        `proves_completeness`, such as a CCA. The status is `INCOMPLETE` if larger ones were missed.
    missing : {"error", "drop"}, default "error"
        "drop" leaves out rows with a missing value in any matrix, as `drop_missing` does, and warns of their number.
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
    NonFiniteData, MissingCapability, NoSuitableSolver, OutOfMemory
        When the data hold NaN or infinities, lack what the solver needs, or do not fit.
    BudgetTooSmall, KeyboardInterrupt
        When a limit or Ctrl-C comes before there is an iterate; Ctrl-C also for the second time.

    Notes
    -----
    The first Ctrl-C ends the run at the next block of rows: the last iterate is returned, `Status.INTERRUPTED`.

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
    if not isinstance(problem, Problem):
        raise InvalidProblem(
            f"solve takes a problem such as linspec.CCA(X, Y, k); got {type(problem).__name__}."
        )
    for limit, value in (("max_passes", max_passes), ("max_seconds", max_seconds)):
        if value is not None and not (options.is_number(value) and value > 0):
            raise InvalidOption(f"{limit} must be a positive number or None; got {shown(value)}.")
    began = time.perf_counter()
    machine.check_settings()
    _check_callback(callback)
    check_flag("progress", progress)
    check_flag("complete", complete)
    check_choice("missing", missing, ("error", "drop"))
    problem = drop_missing(problem) if missing == "drop" else problem
    if complete and not problem.proves_completeness:
        raise InvalidOption(
            "complete=True is for problems that can prove that nothing is missing, such as linspec.CCA; got "
            f"{type(problem).__name__}. Leave it out."
        )
    if rng is not None:  # None would draw a seed from the system
        rng = random_generator(rng)
    saved, start = _saved(start)
    if saved is not None and solver == "auto":  # the choice of the run that is continued
        solver = saved["about"]["solver"]
    with on_device(problem):
        instance, spec = _resolve(problem, solver, options_)
        name = spec.name if spec is not None else type(instance).__name__
        needs = {"warm-start": start is not None, "resumable": checkpoint is not None or saved is not None}
        _check_fit(problem, spec, name, [trait for trait, wanted in needs.items() if wanted])
        writer = _checkpoint_writer(problem, name, checkpoint, saved)
        if start is not None:
            start = problem.start(borrowed(start, "start"))
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
        with report_progress(name, wanted=progress) as reporter:
            watching = reporter if callback is None else (callback, *reporter)
            solution: S = run(
                problem,
                instance,
                name,
                callbacks=watching,
                start=start if saved is None else saved["iterate"],
                resumed=saved is not None,
                writer=writer,
                **limits,
            )
            if solver == "auto" and solution.status in UNFINISHED:
                solution = _with_another_solver(problem, solution, options_, callbacks=watching, **limits)
    if solution.status in WARNED:  # an attempt that "auto" gives up warns nobody
        warn(f"{solution.solver}: {solution.message}", ConvergenceWarning)
    return solution


def _check_callback(callback: Any) -> None:
    """Refuse a callback that cannot be called with one argument, before the run begins."""
    if callback is None:
        return
    try:
        inspect.signature(callback).bind(None)
    except ValueError:  # some builtins have no signature
        return
    except TypeError as error:
        raise InvalidOption(
            f"callback must be a function of one argument, the progress, or None; got {shown(callback)}: {error}."
        ) from error


def _check_fit(problem: Problem[Any], spec: Any, name: str, needs: list[str]) -> None:
    """Refuse a solver that cannot take the data, or what is asked of it, and list those that can."""
    lacking = lacks(problem, spec, needs)
    if not lacking:
        return
    records = registry.records_of_solvers(problem)
    able = [candidate for candidate, record in records.items() if not lacks(problem, record, needs)]
    kind = SweptOnce if ONCE in lacking else MissingCapability
    raise kind(f"{name} {lacking}. Solvers that can take what was passed: {', '.join(able) or 'none'}.")


def _with_another_solver(
    problem: Problem[Any],
    first: Any,
    passed: dict[str, Any],
    *,
    max_passes: Any,
    **settings: Any,
) -> Any:
    """Try another affordable solver after one that "auto" chose has missed the tolerance; return the better answer.

    Costs are those of both runs. The first answer is returned if no other solver can run.
    """
    passes = None if max_passes is None else max_passes - first.passes
    name = _next(problem, first)
    if not name or (passes is not None and passes <= 0):
        return first
    cls = registry.get_solver(name, problem)
    instance = with_parts(options.build(cls, options_it_has(problem, name, passed)))
    try:
        second = run(problem, instance, name, max_passes=passes, **settings)
    except (BudgetTooSmall, OutOfMemory):
        return first
    except NothingYet:
        return as_interrupted(first)
    best = _better(first, second)
    worse, when = (second, "too") if best is first else (first, "first")
    if best is first and second.status is Status.INTERRUPTED:
        best = as_interrupted(best)
    message = f"{best.message} {worse.solver} was tried {when}, and ended as {worse.status.name}."
    costs = {
        figure: getattr(first, figure) + getattr(second, figure) for figure in ("passes", "columns", "flops")
    }
    return dataclasses.replace(best, message=message, **costs)


def _better(first: Any, second: Any) -> Any:
    """Return the better of two answers.

    If only one has converged, return this answer. Else return `other`, the later one, if `one` is ILL_CONDITIONED,
    because the residual of `one` does not show lost digits. Else return the answer with the smaller residual.
    """
    if first.converged != second.converged:
        return first if first.converged else second
    squared = first.status is Status.ILL_CONDITIONED  # the residual does not show the lost digits
    return second if squared or not first.residual <= second.residual else first


def _next(problem: Problem[Any], first: Any) -> str:
    """Return the fastest affordable solver to try next, or "": after a direct solver or lost digits only "direct"."""
    if not all(A.readings > 1 for A in problem.matrices.values()):
        return ""
    tried = first.solver.rpartition("/")[2]
    sizes = problem.sizes()
    squared = first.status is Status.ILL_CONDITIONED or not has_trait(problem, tried, "iterative")
    most = AFFORDABLE * max(first.seconds, LEAST_SECONDS)
    affordable = {
        name: estimate
        for name, estimate in candidates(problem, sizes)[0].items()
        if name != tried and (name == ORTHOGONAL or not squared) and estimate.seconds <= most
    }
    return cost.least_time(affordable, sizes.free_memory() / 2)


def _saved(start: Any) -> tuple[dict[str, Any] | None, Any]:
    """Return (checkpoint, None) for the path of a checkpoint, else (None, start), with a saved answer loaded."""
    if not isinstance(start, str | os.PathLike):
        return None, start
    with called("start"):
        saved = loaded(named_file(start, "start"))
    return saved, None if saved is not None else load_solution(start)


def _checkpoint_writer(
    problem: Problem[Any], name: str, checkpoint: Any, saved: dict[str, Any] | None
) -> CheckpointWriter | None:
    """Return the writer of a run's checkpoints, or None, after a check of the checkpoint that the run continues."""
    if checkpoint is None and saved is None:
        return None
    settings = Checkpoint(checkpoint) if isinstance(checkpoint, str | os.PathLike) else checkpoint
    if settings is not None and not isinstance(settings, Checkpoint):
        raise InvalidOption(f"checkpoint must be a linspec.Checkpoint or a path; got {shown(settings)}.")
    if read_once(problem) or problem.shared is not None:
        raise MissingCapability(
            "a checkpoint cannot be kept of data that are read once, or of moments in place of the data. Pass the "
            "data, to be read again."
        )
    about = fingerprint(problem, name)
    if saved is not None:
        check_same(saved["about"], about)
    return None if settings is None else CheckpointWriter(settings, about)


def _check_memory(problem: Problem[Any], instance: Solver, spec: Any, name: str) -> None:
    """Refuse a solver if the problem does not fit into memory by the solver's own estimate."""
    if spec is None or not instance.has_estimate():
        return
    sizes = problem.sizes()
    estimate = stated_estimate(lambda: type(instance), spec.qualified, sizes)
    if estimate is not None:
        what = f"{name} ({estimate.note})"
        check_fits(estimate.bytes, what, "Choose a solver with the trait iterative.", sizes.free_memory)


def _resolve(problem: Problem[Any], solver: Any, passed: dict[str, Any]) -> tuple[Solver, Any]:
    """Return the solver instance, its parts looked up, and its record, or None if it has none."""
    if isinstance(solver, Solver):
        if passed:
            raise TypeError(
                f"options go into the solver instance; got {', '.join(sorted(passed))} beside "
                f"{type(solver).__name__}(...)."
            )
        return with_parts(solver), registry.spec_of(type(solver), problem)
    if not isinstance(solver, str):
        raise InvalidOption(f"solver must be a name or a Solver instance; got {type(solver).__name__}.")
    if solver == "auto":
        solver, passed = automatic(problem, passed)
    cls, spec = registry.solver_and_record(solver, problem)
    return with_parts(options.build(cls, passed)), spec
