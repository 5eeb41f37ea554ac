"""Checks of a solver's behaviour: its needs of the data, its counts, and its endings.

Each check takes a `Subject` and yields the faults that it finds. It raises `Skip` if it does not apply. The checks run
on host arrays, and on operators that have only the capabilities that the record declares.
"""

from __future__ import annotations

import dataclasses
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import linspec
from linspec.arrays import HostArray, is_array
from linspec.errors import (
    BrokenPlugin,
    BudgetTooSmall,
    DataOutOfRange,
    InvalidOption,
    LinspecError,
    MissingCapability,
    NonFiniteData,
)
from linspec.registry.options import options_of
from linspec.solving.iterates import IterativeSolver, stored
from linspec.solving.solution import Status, arrays_in
from linspec.testing.answers import converges
from linspec.testing.backends import BACKENDS, Backend
from linspec.testing.family import testing_of
from linspec.testing.operators import CountingOperator
from linspec.testing.oracle import as_host
from linspec.testing.problems import Case, in_units
from linspec.testing.process import left_behind, moved_generators
from linspec.testing.solving import ROUGH_ITERATIONS, Subject, Trial, after_few_iterations, attempt, quiet

__all__ = ["BEHAVIOUR_CHECKS", "Skip", "check_non_finite", "check_units"]

BUDGETS = (1, 2, 3, 4, 5, 6, 8, 12)
ROOM = 1e-9
"""Absolute difference allowed between counts of passes or of columns. Slices of rows count as fractions, and sums of
fractions have rounding errors."""

NEARER = 0.1
"""A run that begins at the answer must have a first residual below this fraction of the one after a random start."""


STOPS = (1, 2, 3, 5, 8, 13, 30)
"""A run is interrupted during the product with this number, counted from 1; there is one run for each number."""

ANSWERED, REFUSED = (1e50, 1e-50), (1e75, 1e-75)
"""Factors of data whose entries are about 1: the solver must solve the data times the first two as well as the data
themselves, and refuse the data times the last two."""

FIRST_ITERATES, SHORT = 5, 8
"""A resumable run is stopped once after each of the first FIRST_ITERATES iterates; such a run has at most SHORT
iterations."""

UNNAMED = ("object", "fields", "mapping", "list", "tuple")
"""Keys in the stored copy of an iterate that are not names of its fields."""

KEPT = "All that the next step reads must be in the iterate that is yielded, or in run.checkpoint"
"""Advice at the end of an issue about a run that differs from an uninterrupted run after a checkpoint."""

FALLEN = 100.0
"""If the true residual falls by this factor, the residuals in the history must fall, too."""


class Skip(Exception):  # noqa: N818 (it is not an error)
    """Exception of a check that does not apply; its message is the reason."""


def host_data(case: Case) -> dict[str, Any]:
    return {name: array.copy() for name, array in case.arrays.items()}


def _first_case(subject: Subject) -> Case:
    return testing_of(subject.spec.problem).cases()[0]


def _arrays(solution: Any) -> list[np.ndarray[Any, Any]]:
    """Return all arrays of an answer, on the host."""
    values = [getattr(solution, name) for name in filter(None, [solution.layout.value])]
    return [as_host(value) for value in (*(part for _, part in arrays_in(solution)), *values)]


def _same(first: Any, second: Any) -> bool:
    pairs = zip(_arrays(first), _arrays(second), strict=True)
    return all(a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in pairs)


def _limited(
    case: Case, kind: type[CountingOperator] = CountingOperator, /, *, sliceable: bool, readable: bool
) -> tuple[Any, list[CountingOperator]]:
    """Return the case as a problem on operators with only these capabilities, and the operators."""
    operators = {
        name: kind(array if array.ndim == 2 else array[:, None], sliceable=sliceable, readable=readable)
        for name, array in host_data(case).items()
    }
    return case.state(operators), list(operators.values())


def _declared_level(subject: Subject) -> dict[str, bool]:
    needs = subject.spec.needs
    return {"sliceable": needs.rows, "readable": needs.dense or needs.entries or needs.diagonal}


# ---- randomness -------------------------------------------------------------------------------


def check_same_seed(subject: Subject) -> Iterator[str]:
    """Runs with equal seeds give equal answers, to the last bit."""
    case = _first_case(subject)
    first = quiet(case.state(host_data(case)), subject.for_case(case), rng=7)
    second = quiet(case.state(host_data(case)), subject.for_case(case), rng=np.random.default_rng(7))
    if not _same(first, second):
        yield "the same seed must give the same answer to the last bit; two runs with rng=7 differ"
    if not subject.trait("randomized"):
        other = quiet(case.state(host_data(case)), subject.for_case(case), rng=8)
        if not _same(first, other):
            yield (
                "a solver whose answer changes with the seed must have the trait 'randomized'; add it to "
                "the record, or draw nothing"
            )


def check_same_instance(subject: Subject) -> Iterator[str]:
    """An instance that has solved another problem gives the answer of a new instance, to the last bit."""
    case = _first_case(subject)
    other = case.with_arrays(lambda A: A[::-1].copy() * 2.0, case.name)
    used = subject.for_case(case)
    quiet(other.state(host_data(other)), used, rng=7)
    found, new, newer = (
        quiet(case.state(host_data(case)), solver, rng=7)
        for solver in (used, subject.for_case(case), subject.for_case(case))
    )
    if not _same(new, newer):
        raise Skip("two runs with equal seeds differ")
    if not _same(found, new) or (found.iterations, found.passes) != (new.iterations, new.passes):
        yield (
            "a solver must keep nothing of one problem for the next; an instance that has solved another problem of "
            "the same shape gives another answer, or takes another number of iterations or passes. Keep what a run "
            "needs in variables of solve"
        )


def check_random_state(subject: Subject) -> Iterator[str]:
    """The solver does not use the global random generators."""
    case = _first_case(subject)
    for owner in moved_generators(lambda: quiet(case.state(host_data(case)), subject.for_case(case), rng=0)):
        yield f"a solver must not use a global random generator; it used that of {owner}. Draw from run.rng"


def check_process(subject: Subject) -> Iterator[str]:
    """A solve prints nothing, and leaves the settings of the process as they were."""
    case = _first_case(subject)
    problem, solver = case.state(host_data(case)), subject.for_case(case)
    yield from left_behind(lambda: linspec.solve(problem, solver, rng=0))


# ---- needs of the data ------------------------------------------------------------------------


def check_declared_needs(subject: Subject) -> Iterator[str]:
    """The solver works on data that meet the needs in its record, and is refused on data that do not."""
    needs = _declared_level(subject)
    for case in testing_of(subject.spec.problem).cases():
        if case.main.dtype != np.float64 or not subject.must_converge(case) or case.dense_offset:
            continue
        problem, _ = _limited(case, **needs)
        result = attempt(problem, subject.for_case(case), rng=0, callback=after_few_iterations)
        if result.error is not None:
            given = ", ".join(name for name, value in needs.items() if value) or "products only"
            on_arrays = attempt(case.state(host_data(case)), subject.for_case(case), rng=0).error is None
            remedy = (
                "Declare more in `needs`, or ask less of the data"
                if on_arrays
                else "It also does so on arrays, so the fault is not in `needs`"
            )
            yield (
                f"{case.name}: the solver must work on an operator with the declared needs ({given}); it "
                f"{result.raised}. {remedy}"
            )
    case = _first_case(subject)
    for sliceable in (False, True):
        for readable in (False, True):
            level = {"sliceable": sliceable, "readable": readable}
            enough = all(level[name] or not wanted for name, wanted in needs.items())
            problem, _ = _limited(case, **level)
            result = attempt(problem, subject.for_case(case), rng=0, callback=after_few_iterations)
            if enough and result.error is not None:
                yield f"with {level}: the declared needs are met, but the solver {result.raised}"
            elif not enough and not isinstance(result.error, MissingCapability):
                yield (
                    f"with {level}: the data lack what the record declares, so the solve must raise "
                    f"MissingCapability; got {result.error!r}"
                )


def check_counts(subject: Subject) -> Iterator[str]:
    """The reported passes and columns agree with the counts of the operators.

    The operators must count at most as many sweeps as `passes` of the solution, and as `passes` of the progress at each
    callback. If the operators give only products, `passes` of the solution must equal the sweeps, and `columns` in the
    history the multiplied columns.
    """
    needs = _declared_level(subject)
    levels = [needs] if all(needs.values()) else [needs, dict.fromkeys(needs, True)]
    for case in testing_of(subject.spec.problem).cases()[:4]:
        for level in levels:
            yield from _count_issues(subject, case, level)


def _count_issues(subject: Subject, case: Case, level: dict[str, bool]) -> Iterator[str]:
    problem, operators = _limited(case, **level)
    seen: list[tuple[float, float, float]] = []

    def watch(progress: Any) -> None:
        sweeps = max(operator.passes for operator in operators)
        seen.append((progress.passes, sweeps, sum(operator.columns for operator in operators)))

    result = attempt(problem, subject.make(max_iterations=ROUGH_ITERATIONS), rng=0, callback=watch)
    if result.solution is None:
        yield f"{case.name}: the solve {result.raised}"
        return
    sweeps = max(operator.passes for operator in operators)
    given = ", ".join(name for name, value in level.items() if value) or "products only"
    what = f"{case.name}, {given}"
    if sweeps > result.solution.passes + ROOM:
        yield (
            f"{what}: passes must count every sweep over the data; {sweeps:g} sweeps were made and "
            f"{result.solution.passes:g} passes are claimed. Multiply with the matrices of the problem or with its "
            "moments, or record what you multiply in their ledger"
        )
    for claimed, made, _ in seen:
        if made > claimed + ROOM:
            yield (
                f"{what}: progress.passes must count every sweep made so far; {made:g} were made when the "
                f"callback got {claimed:g}"
            )
            break
    if not any(level.values()):
        for (_, _, columns), row in zip(seen, result.solution.history, strict=False):
            if abs(columns - row["columns"]) > ROOM:
                yield (
                    f"{what}: the history must count the columns that were multiplied; {columns:g} were "
                    f"multiplied and it has {row['columns']:g}"
                )
                break
        if sweeps < result.solution.passes - ROOM:
            yield (
                f"{what}: passes must not count sweeps that were not made; {sweeps:g} sweeps were made and "
                f"{result.solution.passes:g} passes are claimed"
            )


class _Stopped(BaseException):
    """Raised by the data during a run, like an interrupt or the end of a time limit."""


class _StopsAt(CountingOperator):
    """An operator that raises `_Stopped` when `counter`, which several operators share, has counted down to 0."""

    counter: list[int]

    def count(self, **made: float) -> None:
        self.counter[0] -= 1
        if self.counter[0] == 0:
            raise _Stopped
        super().count(**made)


def check_interrupt(subject: Subject) -> Iterator[str]:
    """A BaseException raised during a product, as by Ctrl-C or a time limit, reaches the caller of `solve`."""
    case, needs = _first_case(subject), _declared_level(subject)
    for level in (needs, dict.fromkeys(needs, True)):
        for number in STOPS:
            counter = [number]
            problem, operators = _limited(case, _StopsAt, **level)
            for operator in operators:
                operator.counter = counter  # type: ignore[attr-defined]
            try:
                found = attempt(problem, subject.for_case(case), rng=0)
            except _Stopped:
                continue
            if counter[0] <= 0:
                then = found.raised or f"returned {found.solution.status.name}"
                yield (
                    f"a BaseException that product {number} raises must leave the solve, since limits of time and "
                    f"interrupts are such exceptions; the solve {then}. Catch Exception instead"
                )
                return


def check_choices(subject: Subject) -> Iterator[str]:
    """Options that have a list of allowed values work with each of these values.

    With each value, True and False for flags, the solver solves the first case, or refuses it with an error of
    `linspec.errors`. A returned answer must be right.
    """
    listed = [
        (declared.name, value)
        for declared in options_of(subject.cls)
        for value in (declared.choices or ((True, False) if declared.kind is bool else ()))
        if declared.part_kind is None and value != declared.default
    ]
    if not listed:
        raise Skip("no option of the solver lists its values")
    case = _first_case(subject)
    trial = Trial.of(subject, BACKENDS[0], case)
    _require_solved(trial)
    for name, value in listed:
        what = f"with {name}={value!r} on {case.name}"
        try:
            solver = subject.make(**{"max_iterations": ROUGH_ITERATIONS, name: value})
        except InvalidOption:  # it excludes the default of another option
            continue
        result = attempt(case.state(host_data(case)), solver, rng=0)
        if result.error is not None:
            refused = isinstance(result.error, LinspecError) and not isinstance(result.error, BrokenPlugin)
            if not refused:
                yield f"{what}, the solver must solve it or refuse it; it {result.raised}"
            continue
        yield from (f"{what}, {issue}" for issue in _wrong(trial, result.solution))


def _wrong(trial: Trial, solution: Any) -> Iterator[str]:
    """Yield errors of a solution to the case of a trial: of its residual, and of its answer if it has converged."""
    law = trial.oracle.law(solution)
    if law.contradicts(solution.residual, solution.residual_kind):
        yield (
            f"the solution claims residual {solution.residual:.3g}; the returned arrays have {law.residual:.3g}"
        )
    if trial.subject.exact and solution.converged:
        yield from trial.oracle.errors(solution)


def _require_solved(trial: Trial) -> None:
    """Skip if the answer is wrong as it is; the checks of answers report it."""
    if trial.solution is None or any(_wrong(trial, trial.solution)):
        raise Skip(f"the solver does not solve {trial.case.name}")


def _spread(A: HostArray) -> HostArray:
    """Return a copy of an array whose entries are in reverse order in memory, with gaps between them."""
    everything = tuple(slice(None, None, -2) for _ in A.shape)
    copy: HostArray = np.zeros([2 * size for size in A.shape], A.dtype)[everything]
    copy[...] = A
    return copy


def check_layouts(subject: Subject) -> Iterator[str]:
    """Arrays in Fortran order, and views with negative strides, are solved like arrays in C order."""
    case = _first_case(subject)
    trial = Trial.of(subject, BACKENDS[0], case)
    _require_solved(trial)
    layouts: dict[str, Callable[[HostArray], HostArray]] = {
        "for arrays in Fortran order": np.asfortranarray,
        "for views with negative strides": _spread,
    }
    for what, layout in layouts.items():
        data = {name: layout(array) for name, array in case.arrays.items()}
        result = attempt(case.state(data), subject.for_case(case), rng=0)
        if result.error is not None:
            yield f"{what} the solver must have the answer of arrays in C order; it {result.raised}"
            continue
        if trial.solution.converged and not result.solution.converged:
            yield f"{what} the solver must converge, as for arrays in C order; got {result.solution.status.name}"
        yield from (f"{what}, {issue}" for issue in _wrong(trial, result.solution))


# ---- budgets and endings ----------------------------------------------------------------------


def check_budget(subject: Subject) -> Iterator[str]:
    """A run makes at most `max_passes` passes, or is refused with BudgetTooSmall.

    The message of BudgetTooSmall names the least `max_passes` that is enough. A run with this number must not be
    refused.
    """
    case = _first_case(subject)
    needs = _declared_level(subject)
    kinds: list[tuple[str, Callable[[], Any]]] = [
        ("array", lambda: case.state(host_data(case))),
        ("row slices", lambda: _limited(case, sliceable=True, readable=needs["readable"])[0]),
    ]
    if not needs["sliceable"]:
        kinds.append(("declared needs", lambda: _limited(case, **needs)[0]))
    tol = Trial.of(subject, BACKENDS[0], case).tol
    forms: list[dict[str, Any]] = [{}, subject.sweeping] if subject.sweeping else [{}]
    for what, make in kinds:
        for form in forms:
            solver = subject.make(max_iterations=30, **form)
            label = f"{what}{', implicit' if form else ''}"
            yield from (f"{label}: {issue}" for issue in _budget_issues(make, solver, tol))


def _budget_issues(make: Callable[[], Any], solver: Any, tol: float) -> Iterator[str]:
    free = attempt(make(), solver, rng=0)
    if free.error is not None:
        yield f"without a budget the solve {free.raised}"
        return
    least: float | None = None
    enough: int | None = None
    for budget in BUDGETS:
        result = attempt(make(), solver, rng=0, max_passes=budget)
        if isinstance(result.error, BudgetTooSmall):
            least = _named_least(result.error)
            if enough is not None:
                yield (
                    "a larger budget must be accepted if a smaller one is; "
                    f"max_passes={enough} was accepted and {budget} is refused"
                )
            if least is None or least <= budget:
                yield (
                    f"max_passes={budget}: BudgetTooSmall must name the least number that is enough, 'at "
                    f"least N'; got: {result.error}"
                )
        elif result.error is not None:
            yield (
                f"max_passes={budget}: the solve must end or be refused with BudgetTooSmall; it "
                f"{result.raised}"
            )
        else:
            enough = budget if enough is None else enough
            if result.solution.passes > budget + ROOM:
                made = f"{result.solution.passes:g} passes were made ({result.solution.status.name})"
                yield (
                    f"max_passes={budget}: the run must keep to the budget; {made}. Multiply with the matrices of "
                    "the problem or with its moments, which ask the budget first"
                )
                return  # a solver that overruns one overruns the others, which takes long
            yield from (f"max_passes={budget}: {issue}" for issue in _dishonest(result.solution, tol))
            if budget >= free.solution.passes:
                break  # as many passes as without a budget
    if least is not None:
        error = attempt(make(), solver, rng=0, max_passes=least).error
        if error is not None:
            yield (
                f"max_passes={least:g}: a refusal named this number, so it must be enough; the solve raised "
                f"{type(error).__name__}: {error}"
            )


def _named_least(error: Exception) -> float | None:
    named = re.search(r"at least ([\d.e+]+)", str(error))
    return float(named[1]) if named else None


def _dishonest(solution: Any, tol: float) -> Iterator[str]:
    """Yield contradictions between `converged`, the status and the residual."""
    if not converges(solution, tol):
        yield (
            f"converged must say whether the residual is at most the tolerance {tol:.2g}; got "
            f"{solution.converged} at residual {solution.residual:.2g}. Return what run.finish makes"
        )
    elif not solution.converged and solution.status is Status.CONVERGED:
        yield "the status is CONVERGED, but converged is False"


def check_starved(subject: Subject) -> Iterator[str]:
    """A run that is cut short reports this, and `residual` is still the residual of the returned arrays."""
    if not subject.has("max_iterations"):
        raise Skip("the solver has no option max_iterations")
    for case in testing_of(subject.spec.problem).cases()[:6]:
        trial = Trial.of(subject, BACKENDS[0], case)
        result = attempt(case.state(host_data(case)), subject.make(max_iterations=1), rng=0)
        if result.error is not None:
            yield f"{case.name}: with max_iterations=1 the solver must return what it has; it {result.raised}"
            continue
        solution = result.solution
        if solution.iterations > 1:
            yield f"{case.name}: with max_iterations=1 the solver made {solution.iterations} iterations"
        yield from (f"{case.name}: {issue}" for issue in _dishonest(solution, trial.tol))
        if subject.exact and solution.converged:
            yield from (f"{case.name}: {issue}" for issue in trial.oracle.errors(solution))
        law = trial.oracle.law(solution)
        if law.contradicts(solution.residual, solution.residual_kind):
            yield (
                f"{case.name}: the solution claims residual {solution.residual:.3g}; the returned arrays "
                f"have {law.residual:.3g}"
            )


def check_callback(subject: Subject) -> Iterator[str]:
    """The callback sees each iteration and can end the run."""
    if not subject.trait("iterative"):
        raise Skip("the solver is not iterative")
    case = _first_case(subject)
    tol = Trial.of(subject, BACKENDS[0], case).tol
    for stop in (0, 1):
        calls: list[Any] = []

        def watch(progress: Any, calls: list[Any] = calls, stop: int = stop) -> bool:
            calls.append((progress.iteration, progress.passes, dict(progress.current())))
            return bool(progress.iteration >= stop)

        solution = quiet(case.state(host_data(case)), subject.make(), rng=0, callback=watch)
        if not calls:
            yield (
                "an iterative solver must call the callback; it never did. Call run.proceed in each iteration"
            )
        elif solution.iterations <= stop and _ended_before(subject, solution, tol):
            continue
        elif solution.status is not Status.STOPPED:
            yield (
                f"a callback that returns True must end the run with STOPPED; got {solution.status.name}. Call "
                "run.finish when run.proceed is False"
            )
        elif solution.iterations != stop or len(calls) != stop + 1:
            yield (
                f"a callback that returns True at iteration {stop} must end the run there; the run made "
                f"{solution.iterations} iterations and {len(calls)} calls"
            )
        elif not all(current for _, _, current in calls):
            yield "progress.current() must return the current arrays; it is empty"


def _ended_before(subject: Subject, solution: Any, tol: float) -> bool:
    """Whether the run was solved or reached the solver's own limit before the callback could end it."""
    return solution.residual <= tol or (not subject.exact and solution.status is Status.APPROXIMATE)


def check_progress(subject: Subject) -> Iterator[str]:
    """If the residual of the iterates falls, so do the residuals in the history."""
    if not subject.trait("iterative"):
        raise Skip("the solver is not iterative")
    case = _start_case(subject)
    begun = quiet(case.state(host_data(case)), subject.for_case(case), rng=0, callback=lambda _: True)
    done = quiet(case.state(host_data(case)), subject.for_case(case), rng=0)
    if begun.iterations or not done.iterations:
        raise Skip("the solver makes no iterations on this case")
    reported = done.history["residual"]
    if done.residual <= begun.residual / FALLEN and not reported[-1] <= reported[0] / 2:
        yield (
            "run.proceed must be given the residual of the current iterate; the true one fell from "
            f"{begun.residual:.2g} to {done.residual:.2g}, and proceed was given "
            f"{reported[0]:.3g} at first and {reported[-1]:.3g} at last"
        )


# ---- symmetries -------------------------------------------------------------------------------


def check_symmetry(subject: Subject) -> Iterator[str]:
    """The solver also finds the answer if the first case is stated in other coordinates and other units.

    `ProblemTesting.moved` multiplies the data by a factor of either sign, between 1e-6 and 1e6 in magnitude, and
    reorders rows or transforms columns. The oracle knows the exact answer to these data.
    """
    try:
        import hypothesis
        from hypothesis import strategies
    except ImportError as error:
        raise Skip("no hypothesis") from error
    if not subject.exact:
        raise Skip("the solver need not solve the stated problem")
    issues: list[str] = []

    @hypothesis.settings(
        max_examples=6, deadline=None, derandomize=True, database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )  # fmt: skip
    @hypothesis.given(
        exponent=strategies.floats(-6, 6),
        sign=strategies.sampled_from((-1.0, 1.0)),
        seed=strategies.integers(0, 99),
    )
    def example(exponent: float, sign: float, seed: int) -> None:
        if not issues:
            issues.extend(_symmetry_issues(subject, sign * 10.0**exponent, seed))

    example()
    yield from issues


def _symmetry_issues(subject: Subject, factor: float, seed: int) -> Iterator[str]:
    case = _first_case(subject)
    moved = testing_of(case.problem).moved(case, factor, seed)
    trial = Trial.of(subject, BACKENDS[0], moved)
    if trial.solution is None:
        yield f"the problem in other coordinates, times {factor:.3g}: {trial.result.raised}"
    elif not trial.solution.converged:
        yield (
            f"the problem in other coordinates, times {factor:.3g}, must be solved, too; got "
            f"{trial.solution.status.name}, residual {trial.solution.residual:.2g}"
        )
    else:
        yield from (
            f"the problem in other coordinates, times {factor:.3g}: {issue}"
            for issue in trial.oracle.errors(trial.solution)
        )


# ---- units ------------------------------------------------------------------------------------


def check_units(subject: Subject) -> Iterator[str]:
    """Data times 1e±50 are solved as well as the data themselves; data times 1e±75 are refused.

    The largest entry of a matrix must lie between 1e-60 and 1e60, because sums of fourth powers of other entries may
    overflow or underflow. Families without `ProblemTesting.bounded_entries` may solve or refuse data in any of these
    units.
    """
    case, testing = _case_of_one_unit(subject), testing_of(subject.spec.problem)
    plain = Trial.of(subject, BACKENDS[0], case)
    if plain.solution is None or any(_unit_issues(plain, plain.solution)):
        raise Skip(f"the solver does not solve {case.name} in unit 1")
    for unit in (*ANSWERED, *REFUSED):
        moved = in_units(case, dict.fromkeys(case.arrays, unit))
        trial = Trial.of(subject, BACKENDS[0], moved)
        refused = isinstance(trial.result.error, DataOutOfRange)
        if refused and (unit in REFUSED or not testing.bounded_entries):
            continue
        if trial.solution is None:
            yield f"data times {unit:g} must be solved as in unit 1; the solve {trial.result.raised}"
        elif unit in REFUSED and testing.bounded_entries:
            yield (
                f"data times {unit:g} must be refused with DataOutOfRange; the solve returned "
                f"{trial.solution.status.name}. Problem.in_range refuses them; call it if you override it"
            )
        else:
            yield from (f"data times {unit:g} {issue}" for issue in _unit_issues(trial, plain.solution))


def _case_of_one_unit(subject: Subject) -> Case:
    """Return the case whose matrices are all multiplied by one factor: the first gentle float64 case without a ridge.

    If all gentle float64 cases have a ridge, it is the first of them. A ridge would have to be multiplied, too.
    """
    gentle = [
        case
        for case in testing_of(subject.spec.problem).cases()
        if case.gentle and case.main.dtype == np.float64 and not case.dense_offset
    ]
    if not gentle:
        raise Skip("no case is gentle and of float64")
    return next((case for case in gentle if not np.any(case.parameters.get("ridge", 0.0))), gentle[0])


def _unit_issues(trial: Trial, plain: Any) -> Iterator[str]:
    solution, law = trial.solution, trial.law
    if plain.converged and not solution.converged:
        yield f"must be solved as in unit 1; got {solution.status.name}, residual {solution.residual:.2g}"
    if law.contradicts(solution.residual, solution.residual_kind):
        yield f"have residual {law.residual:.3g}; the solution claims {solution.residual:.3g}"
    if trial.subject.exact and solution.converged:
        yield from (f"must be solved as in unit 1: {issue}" for issue in trial.oracle.errors(solution))


# ---- earlier answers --------------------------------------------------------------------------


def check_warm_start(subject: Subject) -> Iterator[str]:
    """With the trait "warm-start", a run that begins at its own answer ends sooner; without it, a start is refused."""
    case = _start_case(subject)
    if not subject.trait("warm-start"):
        error = attempt(case.state(host_data(case)), subject.for_case(case), rng=0, start={}).error
        if not isinstance(error, MissingCapability):
            yield f"without the trait 'warm-start' a start must be refused with MissingCapability; got {error!r}"
        return
    if testing_of(subject.spec.problem).start_case is None:
        raise Skip("the family has no case that shows the effect of a warm start")
    solver = subject.make(oversample=0, **subject.sweeping)
    cold = quiet(case.state(host_data(case)), solver, rng=0)
    if cold.iterations == 0:
        raise Skip("the solver makes no iterations on this case")
    result = attempt(case.state(host_data(case)), solver, rng=1, start=cold)
    if result.error is not None:
        yield result.raised
        return
    yield from _warm_issues(subject, cold, result.solution)


def _start_case(subject: Subject) -> Case:
    """Return a case that takes more than one or two iterations, if the family has one."""
    start_case = testing_of(subject.spec.problem).start_case
    return _first_case(subject) if start_case is None else start_case()


def _warm_issues(subject: Subject, cold: Any, warm: Any) -> Iterator[str]:
    first, anew = warm.history["residual"][0], cold.history["residual"][0]
    if not first < NEARER * anew:
        yield (
            "a solver with the trait 'warm-start' must begin at the start; begun at its own answer, its "
            f"first residual is {first:.2g}, and without a start it is {anew:.2g}. Take the first block from "
            "run.start if it is not None"
        )
    if not subject.exact:
        return
    if cold.converged and not warm.converged:
        yield (
            "begun at its own converged answer, the solver must converge; got "
            f"{warm.status.name}, residual {warm.residual:.2g}"
        )
    if not (warm.iterations < cold.iterations and warm.passes <= cold.passes):
        yield (
            f"begun at its own answer, the solver must end sooner; it takes {warm.iterations} iterations and "
            f"{warm.passes:g} passes, and without a start {cold.iterations} and {cold.passes:g}"
        )


# ---- non-finite data --------------------------------------------------------------------------


def check_non_finite(subject: Subject, backend: Backend) -> Iterator[str]:
    """NaN and infinity raise NonFiniteData; it names row and column if the entries can be read."""
    needs = subject.spec.needs
    if not backend.readable and (needs.dense or needs.entries or needs.rows):
        raise Skip("the solver needs entries")
    case = _first_case(subject) if backend.float64 else _first_case(subject).in_single()
    for name in case.arrays:
        for bad in (np.nan, np.inf, -np.inf):
            arrays = {key: value.copy() for key, value in case.arrays.items()}
            arrays[name][7, 1] = bad
            trial = Trial(subject, backend, replace(case, arrays=arrays, truth={}))
            error = attempt(trial.case.state(trial.data()), subject.make(max_iterations=3), rng=0).error
            if not isinstance(error, NonFiniteData):
                yield (
                    f"{bad} in {name} must raise NonFiniteData; got {error!r}. Let this error of products with "
                    "the matrices of the problem pass"
                )
                continue
            readable = backend.readable or name in testing_of(case.problem).companions
            text = str(error)
            if readable and not (
                name in text and re.search(r"row 7\b", text) and re.search(r"column 1\b", text)
            ):
                yield f"{bad} in {name}: the message must name {name}, row 7 and column 1; got {text!r}"


# ---- checkpoints ------------------------------------------------------------------------------


def check_resumable(subject: Subject) -> Iterator[str]:
    """With the trait 'resumable', a run continued from a checkpoint gives the same bits as an uninterrupted run.

    Both parts together make as many passes as the uninterrupted run. But a solver with `repeats_setup` may repeat the
    passes before its first iterate, and one with Gram matrices in memory may make one pass more. The run is stopped
    after each of the first iterates, and once in the middle. An `IterativeSolver` must have the trait, and its later
    steps must not write to iterates that it has yielded.
    """
    generator = issubclass(subject.cls, IterativeSolver)
    if not subject.trait("resumable"):
        if not generator:
            raise Skip("without the trait a solver promises nothing here")
        yield (
            f"{subject.cls.__name__} is an IterativeSolver, so its runs go on from checkpoints; add the trait "
            "'resumable' to its record"
        )
        return
    case = _start_case(subject)
    make = partial(subject.make, oversample=0, **subject.sweeping)
    whole = quiet(case.state(host_data(case)), make(), rng=0)
    if whole.iterations < 1:
        raise Skip("the solver makes no iterations on this case")
    if generator:
        yield from _writing_issues(case, subject, make(max_iterations=FIRST_ITERATES))
    long = whole.iterations > SHORT and subject.has("max_iterations")
    short = quiet(case.state(host_data(case)), make(max_iterations=SHORT), rng=0) if long else whole
    limit = {"max_iterations": SHORT} if long else {}
    for stop in range(min(FIRST_ITERATES, short.iterations)):
        issues = list(_going_on_issues(case, partial(make, **limit), short, stop))
        yield from issues
        if issues:
            return
    if whole.iterations // 2 >= FIRST_ITERATES:
        yield from _going_on_issues(case, make, whole, whole.iterations // 2)


def _going_on_issues(case: Case, make: Callable[[], Any], whole: Any, stop: int) -> Iterator[str]:
    """Stop a run after an iterate, continue it from its checkpoint, and yield differences from an uninterrupted run."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.ckpt"
        attempt(
            case.state(host_data(case)),
            make(),
            rng=0,
            callback=lambda progress: progress.iteration >= stop,
            checkpoint=path,
        )
        if not path.exists():
            yield (
                f"with the trait 'resumable' a run that is stopped after iterate {stop} must leave its checkpoint; it "
                "has left none"
            )
            return
        result = attempt(case.state(host_data(case)), make(), start=path)
    what = f"gone on from the checkpoint of iterate {stop}"
    if result.error is not None:
        yield f"{what}, it {result.raised}"
        return
    found = result.solution
    # With held Gram matrices, the rows are read once more to identify them.
    again = getattr(type(make()), "repeats_setup", False)
    more = whole.history["passes"][0] if again else float(whole.passes < whole.iterations)
    if found.iterations != whole.iterations or not 0 <= found.passes - whole.passes <= more + ROOM:
        yield (
            f"{what}, it must take {whole.iterations} iterations and {whole.passes:g} passes in all; it takes "
            f"{found.iterations} and {found.passes:g}. {KEPT}"
        )
    fields = [name for name in (*whole.layout.arrays, whole.layout.value) if name]
    differing = [
        name for name in (*fields, "residual") if not _same_bits(getattr(found, name), getattr(whole, name))
    ]
    if differing:
        yield f"{what}, it must find the same bits; {', '.join(differing)} differ. {KEPT}"


def _same_bits(first: Any, second: Any) -> bool:
    if first is None or second is None:
        return first is second
    if isinstance(first, tuple):
        return all(_same_bits(*parts) for parts in zip(first, second, strict=True))
    a, b = (as_host(value) if is_array(value) else np.asarray(value) for value in (first, second))
    return a.shape == b.shape and a.tobytes() == b.tobytes()


def _writing_issues(case: Case, subject: Subject, solver: Any) -> Iterator[str]:
    """Yield an issue if a later step has written to fields of an iterate that was already yielded."""
    cls: Any = subject.cls
    changed: dict[str, None] = {}

    def watched(self: Any, problem: Any, run: Any, state: Any = None) -> Iterator[Any]:
        last: tuple[Any, Any] | None = None
        for iterate in cls.iterates(self, problem, run, state):
            if last is not None:  # the step after it has been made
                changed.update(dict.fromkeys(_changed(last[1], stored(last[0]))))
            last = iterate, stored(iterate)
            yield iterate

    fields = {field.name: getattr(solver, field.name) for field in dataclasses.fields(solver)}
    watching = type(cls.__name__, (cls,), {"iterates": watched})
    result = attempt(case.state(host_data(case)), watching(**fields), rng=0)
    if result.error is not None:
        yield result.raised
    if changed:
        yield (
            f"what `iterates` has yielded must not be written to by later steps; {', '.join(changed)} changed. Make "
            "new arrays and objects, as in x = x + step, or yield copies"
        )


def _changed(before: Any, after: Any, name: str = "") -> Iterator[str]:
    """Yield the names of the leaves in which two stored copies of an iterate differ.

    A leaf is an array or another single value in the nested fields, mappings and lists of the iterate.
    """
    if isinstance(before, dict) and isinstance(after, dict) and "array" not in before:
        inner = len(before) == 1 or set(before) == {"object", "fields"}
        for key in dict.fromkeys([*before, *after]):
            own = name if inner and key in UNNAMED else f"{name}.{key}".strip(".")
            yield from _changed(before.get(key), after.get(key), own)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for i, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _changed(one, other, f"{name}[{i}]")
    elif repr(_leaf(before)) != repr(_leaf(after)):
        yield name


def _leaf(copy: Any) -> Any:
    """Return a leaf of a copy in a comparable form: shape, dtype and bits of an array."""
    if isinstance(copy, dict) and "array" in copy:
        array = copy["array"]
        return array.shape, str(array.dtype), array.tobytes()
    return copy


BEHAVIOUR_CHECKS: dict[str, Callable[[Subject], Iterator[str]]] = {
    "process": check_process,  # first: nothing is left behind by the others
    "same-seed": check_same_seed,
    "same-instance": check_same_instance,
    "random-state": check_random_state,
    "interrupt": check_interrupt,
    "declared-needs": check_declared_needs,
    "counts": check_counts,
    "choices": check_choices,
    "layouts": check_layouts,
    "budget": check_budget,
    "starved": check_starved,
    "callback": check_callback,
    "progress": check_progress,
    "symmetry": check_symmetry,
    "units": check_units,
    "warm-start": check_warm_start,
    "resumable": check_resumable,
}
"""The checks of a solver's behaviour, by their names in test ids and expected failures."""
