"""Checks of what a solver does besides answering: what it asks of the data, what it counts, how it ends.

Each takes a `Subject` and yields what is wrong; it may raise `Skip` where it does not apply. They run on host
arrays and on operators that give no more than the record declares.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from linspec.errors import BudgetTooSmall, MissingCapability, NonFiniteData
from linspec.solution import Status
from linspec.testing.answers import converges
from linspec.testing.backends import BACKENDS, Backend
from linspec.testing.family import testing_of
from linspec.testing.operators import CountingOperator
from linspec.testing.oracle import as_host
from linspec.testing.problems import Case
from linspec.testing.solving import Subject, Trial, attempt, quiet

__all__ = ["BEHAVIOUR_CHECKS", "Skip", "check_non_finite"]

BUDGETS = range(1, 13)
ROOM = 1e-9
"""For sums of shares of a sweep."""

NEARER = 0.1
"""Share of the first residual of a random start that the first one of a start at the answer is below."""


FALLEN = 100.0
"""A residual that has become smaller by this factor must be seen to."""


class Skip(Exception):  # noqa: N818 (it is not an error)
    """A check that does not apply, with the reason."""


def host_data(case: Case) -> dict[str, Any]:
    return {name: array.copy() for name, array in case.arrays.items()}


def _first_case(subject: Subject) -> Case:
    return testing_of(subject.spec.problem).cases()[0]


def _arrays(solution: Any) -> list[np.ndarray[Any, Any]]:
    """Everything an answer consists of, as host arrays."""
    found = [getattr(solution, name) for name in (*solution.weight_fields, solution.value_field) if name]
    return [as_host(value) for value in found if value is not None]


def _same(first: Any, second: Any) -> bool:
    pairs = zip(_arrays(first), _arrays(second), strict=True)
    return all(a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in pairs)


def _limited(case: Case, *, sliceable: bool, readable: bool) -> tuple[Any, list[CountingOperator]]:
    """The case on operators that give exactly so much, and those operators."""
    operators = {
        name: CountingOperator(
            array if array.ndim == 2 else array[:, None], sliceable=sliceable, readable=readable
        )
        for name, array in case.arrays.items()
    }
    return case.state(operators), list(operators.values())


def _declared_level(subject: Subject) -> dict[str, bool]:
    needs = subject.spec.needs
    return {"sliceable": needs.rows, "readable": needs.dense or needs.diagonal}


# ---- randomness -------------------------------------------------------------------------------


def check_same_seed(subject: Subject) -> Iterator[str]:
    """The same seed gives the same numbers, to the last bit."""
    case = _first_case(subject)
    first = quiet(case.state(host_data(case)), subject.for_case(case), rng=7)
    second = quiet(case.state(host_data(case)), subject.for_case(case), rng=np.random.default_rng(7))
    if not _same(first, second):
        yield "rng=7 twice gives two answers"
    if not subject.trait("randomized"):
        other = quiet(case.state(host_data(case)), subject.for_case(case), rng=8)
        if not _same(first, other):
            yield "the seed changes the answer, yet the record lacks the trait 'randomized'"


def check_random_state(subject: Subject) -> Iterator[str]:
    """Nobody else's generator is touched, and no answer depends on one."""
    case = _first_case(subject)
    for owner in moved_generators(lambda: quiet(case.state(host_data(case)), subject.for_case(case), rng=0)):
        yield f"{owner}'s global generator is used; draw from run.rng"


def moved_generators(work: Callable[[], Any]) -> list[str]:
    """Whose global generators some work moves: NumPy's, Python's."""
    before, python = np.random.get_state(), random.getstate()  # noqa: NPY002 (it is the global one that is meant)
    work()
    after = np.random.get_state()  # noqa: NPY002
    same = all(np.array_equal(a, b) for a, b in zip(tuple(before)[1:], tuple(after)[1:], strict=True))
    return ["NumPy"] * (not same) + ["Python"] * (python != random.getstate())


# ---- what is asked of the data ----------------------------------------------------------------


def check_declared_needs(subject: Subject) -> Iterator[str]:
    """The solver works on operators that give what its record declares, and is refused what they lack."""
    needs = _declared_level(subject)
    for case in testing_of(subject.spec.problem).cases():
        if case.main.dtype != np.float64 or not subject.must_converge(case) or case.dense_offset:
            continue
        problem, _ = _limited(case, **needs)
        result = attempt(problem, subject.for_case(case), rng=0)
        if result.error is not None:
            given = ", ".join(name for name, value in needs.items() if value) or "products only"
            yield f"{case.name}: on an operator with {given}, {result.raised}"
    case = _first_case(subject)
    for sliceable in (False, True):
        for readable in (False, True):
            level = {"sliceable": sliceable, "readable": readable}
            enough = all(level[name] or not wanted for name, wanted in needs.items())
            problem, _ = _limited(case, **level)
            result = attempt(problem, subject.for_case(case), rng=0)
            if enough and result.error is not None:
                yield f"with {level}: {result.raised}"
            elif not enough and not isinstance(result.error, MissingCapability):
                yield f"with {level}: must raise MissingCapability; got {result.error!r}"


def check_counts(subject: Subject) -> Iterator[str]:
    """An independent count sees no more sweeps than `passes` claims, and the columns of the history."""
    needs = _declared_level(subject)
    for case in testing_of(subject.spec.problem).cases()[:4]:
        for extra in (False, True):
            level = {name: value or extra for name, value in needs.items()}
            yield from _count_issues(subject, case, level)


def _count_issues(subject: Subject, case: Case, level: dict[str, bool]) -> Iterator[str]:
    problem, operators = _limited(case, **level)
    seen: list[tuple[float, float, float]] = []

    def watch(progress: Any) -> None:
        sweeps = max(operator.passes for operator in operators)
        seen.append((progress.passes, sweeps, sum(operator.columns for operator in operators)))

    result = attempt(problem, subject.for_case(case), rng=0, callback=watch)
    if result.solution is None:
        return  # "declared-needs" says it
    sweeps = max(operator.passes for operator in operators)
    given = ", ".join(name for name, value in level.items() if value) or "products only"
    what = f"{case.name}, {given}"
    if sweeps > result.solution.passes + ROOM:
        yield f"{what}: {sweeps:g} sweeps were made, {result.solution.passes:g} passes are claimed"
    for claimed, made, _ in seen:
        if made > claimed + ROOM:
            yield f"{what}: {made:g} sweeps were made when the callback was told {claimed:g}"
            break
    if not any(level.values()):
        for (_, _, columns), row in zip(seen, result.solution.history, strict=False):
            if abs(columns - row["columns"]) > ROOM:
                yield f"{what}: {columns:g} columns were multiplied, the history has {row['columns']:g}"
                break
        if sweeps < result.solution.passes - ROOM:
            yield f"{what}: only {sweeps:g} sweeps were made, {result.solution.passes:g} passes are claimed"


# ---- budgets and endings ----------------------------------------------------------------------


def check_budget(subject: Subject) -> Iterator[str]:
    """`max_passes` is a ceiling, and the least number that a refusal names is enough."""
    case = _first_case(subject)
    needs = _declared_level(subject)
    kinds: list[tuple[str, Callable[[], Any]]] = [
        ("array", lambda: case.state(host_data(case))),
        ("declared needs", lambda: _limited(case, **needs)[0]),
        ("row slices", lambda: _limited(case, sliceable=True, readable=needs["readable"])[0]),
    ]
    tol = Trial.of(subject, BACKENDS[0], case).tol
    forms: list[dict[str, Any]] = [{}, subject.sweeping] if subject.sweeping else [{}]
    for what, make in kinds:
        for form in forms:
            solver = subject.make(max_iterations=30, **form)
            label = f"{what}{', implicit' if form else ''}"
            yield from (f"{label}: {issue}" for issue in _budget_issues(make, solver, tol))


def _budget_issues(make: Callable[[], Any], solver: Any, tol: float) -> Iterator[str]:
    if attempt(make(), solver, rng=0).error is not None:
        return  # "declared-needs" says it
    least: float | None = None
    enough: int | None = None
    for budget in BUDGETS:
        result = attempt(make(), solver, rng=0, max_passes=budget)
        if isinstance(result.error, BudgetTooSmall):
            least = _named_least(result.error)
            if enough is not None:
                yield f"max_passes={enough} was accepted and {budget} is refused"
            if least is None or least <= budget:
                yield f"max_passes={budget}: the refusal must name the least number: {result.error}"
        elif result.error is not None:
            yield f"max_passes={budget} {result.raised}"
        else:
            enough = budget if enough is None else enough
            if result.solution.passes > budget + ROOM:
                made = f"{result.solution.passes:g} passes were made ({result.solution.status.name})"
                yield f"max_passes={budget}: {made}"
            yield from (f"max_passes={budget}: {issue}" for issue in _dishonest(result.solution, tol))
    if least is not None:
        error = attempt(make(), solver, rng=0, max_passes=least).error
        if error is not None:
            yield f"max_passes={least:g}, which a refusal named, raised {type(error).__name__}: {error}"


def _named_least(error: Exception) -> float | None:
    named = re.search(r"at least ([\d.e+]+)", str(error))
    return float(named[1]) if named else None


def _dishonest(solution: Any, tol: float) -> Iterator[str]:
    """Convergence that is claimed without its residual, or the other way round."""
    if not converges(solution, tol):
        yield f"converged is {solution.converged} at residual {solution.residual:.2g}"
    elif not solution.converged and solution.status is Status.CONVERGED:
        yield "status CONVERGED without convergence"


def check_starved(subject: Subject) -> Iterator[str]:
    """Cut short, a solver says so, and its residual is still that of what it returns."""
    if not subject.has("max_iterations"):
        raise Skip("no option max_iterations")
    for case in testing_of(subject.spec.problem).cases()[:6]:
        trial = Trial.of(subject, BACKENDS[0], case)
        result = attempt(case.state(host_data(case)), subject.make(max_iterations=1), rng=0)
        if result.error is not None:
            yield f"{case.name}: max_iterations=1 {result.raised}"
            continue
        solution = result.solution
        if solution.iterations > 1:
            yield f"{case.name}: max_iterations=1, and {solution.iterations} were made"
        yield from (f"{case.name}: {issue}" for issue in _dishonest(solution, trial.tol))
        if subject.exact and solution.converged:
            yield from (f"{case.name}: {issue}" for issue in trial.oracle.errors(solution))
        law = trial.oracle.law(solution)
        if law.contradicts(solution.residual, solution.residual_kind):
            yield f"{case.name}: residual {solution.residual:.3g} is claimed, {law.residual:.3g} found"


def check_callback(subject: Subject) -> Iterator[str]:
    """The callback sees each iteration and can end the run."""
    if not subject.trait("iterative"):
        raise Skip("not iterative")
    case = _first_case(subject)
    tol = Trial.of(subject, BACKENDS[0], case).tol
    for stop in (0, 1):
        calls: list[Any] = []

        def watch(progress: Any, calls: list[Any] = calls, stop: int = stop) -> bool:
            calls.append((progress.iteration, progress.passes, dict(progress.current())))
            return bool(progress.iteration >= stop)

        solution = quiet(case.state(host_data(case)), subject.make(), rng=0, callback=watch)
        if not calls:
            yield "the callback is never called"
        elif solution.iterations <= stop and _ended_before(subject, solution, tol):
            continue
        elif solution.status is not Status.STOPPED:
            yield f"a callback that returns True must end with STOPPED; got {solution.status.name}"
        elif solution.iterations != stop or len(calls) != stop + 1:
            yield f"stopped at iteration {stop}; {solution.iterations} were made, {len(calls)} calls"
        elif not all(current for _, _, current in calls):
            yield "progress.current() is empty"


def _ended_before(subject: Subject, solution: Any, tol: float) -> bool:
    """Whether a solver was done before the callback could end it: solved, or at its own limit."""
    return solution.residual <= tol or (not subject.exact and solution.status is Status.APPROXIMATE)


def check_progress(subject: Subject) -> Iterator[str]:
    """The residual that the history is told falls where that of the iterates falls."""
    if not subject.trait("iterative"):
        raise Skip("not iterative")
    case = _start_case(subject)
    begun = quiet(case.state(host_data(case)), subject.for_case(case), rng=0, callback=lambda _: True)
    done = quiet(case.state(host_data(case)), subject.for_case(case), rng=0)
    if begun.iterations or not done.iterations:
        raise Skip("the solver makes no iterations on this case")
    told = done.history["residual"]
    if done.residual <= begun.residual / FALLEN and not told[-1] <= told[0] / 2:
        yield (
            f"by the law the residual fell from {begun.residual:.2g} to {done.residual:.2g}; proceed was told "
            f"{told[0]:.3g} at first and {told[-1]:.3g} at last"
        )


# ---- symmetries -------------------------------------------------------------------------------


def check_symmetry(subject: Subject) -> Iterator[str]:
    """x(aB) = a x(B); S(aA) = |a| S; invertible maps of the columns change no correlations and no eigenvalues."""
    try:
        import hypothesis
        from hypothesis import strategies
    except ImportError as error:
        raise Skip("no hypothesis") from error
    if not subject.exact:
        raise Skip("need not solve the stated problem")
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
        yield f"factor {factor:.3g}: {trial.result.raised}"
    elif not trial.solution.converged:
        yield f"factor {factor:.3g}: {trial.solution.status.name}, residual {trial.solution.residual:.2g}"
    else:
        yield from (f"factor {factor:.3g}: {issue}" for issue in trial.oracle.errors(trial.solution))


# ---- earlier answers --------------------------------------------------------------------------


def check_warm_start(subject: Subject) -> Iterator[str]:
    """With the trait: a run that begins at its own answer is nearer to it, and done sooner. Without it: refused."""
    case = _start_case(subject)
    if not subject.trait("warm-start"):
        error = attempt(case.state(host_data(case)), subject.for_case(case), rng=0, start={}).error
        if not isinstance(error, MissingCapability):
            yield f"without the trait 'warm-start' a start must be refused with MissingCapability; got {error!r}"
        return
    if testing_of(subject.spec.problem).start_case is None:
        raise Skip("no case of this family shows what an earlier answer is worth")
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
    """Where an iteration takes more than a step or two, if the family has such a case."""
    start_case = testing_of(subject.spec.problem).start_case
    return _first_case(subject) if start_case is None else start_case()


def _warm_issues(subject: Subject, cold: Any, warm: Any) -> Iterator[str]:
    first, anew = warm.history["residual"][0], cold.history["residual"][0]
    if not first < NEARER * anew:
        yield f"begun at its own answer, the first residual is {first:.2g}; begun anew it is {anew:.2g}"
    if not subject.exact:
        return
    if cold.converged and not warm.converged:
        yield f"begun at a converged answer it ends {warm.status.name}, residual {warm.residual:.2g}"
    if not (warm.iterations < cold.iterations and warm.passes <= cold.passes):
        yield (
            f"begun at its own answer it takes {warm.iterations} iterations, {warm.passes:g} passes; begun anew "
            f"{cold.iterations} and {cold.passes:g}"
        )


# ---- non-finite data --------------------------------------------------------------------------


def check_non_finite(subject: Subject, backend: Backend) -> Iterator[str]:
    """NaN and infinity raise NonFiniteData, which names row and column where entries can be read."""
    if not backend.readable and (subject.spec.needs.dense or subject.spec.needs.rows):
        raise Skip("the solver needs entries")
    case = _first_case(subject) if backend.float64 else _first_case(subject).in_single()
    for name in case.arrays:
        for bad in (np.nan, np.inf, -np.inf):
            arrays = {key: value.copy() for key, value in case.arrays.items()}
            arrays[name][7, 1] = bad
            trial = Trial(subject, backend, replace(case, arrays=arrays, truth={}))
            error = attempt(trial.case.state(trial.data()), subject.make(max_iterations=3), rng=0).error
            if not isinstance(error, NonFiniteData):
                yield f"{bad} in {name} must raise NonFiniteData; got {error!r}"
                continue
            readable = backend.readable or name in testing_of(case.problem).companions
            text = str(error)
            if readable and not (
                name in text and re.search(r"row 7\b", text) and re.search(r"column 1\b", text)
            ):
                yield f"{bad} in {name} at row 7, column 1: the message must name them; got {text!r}"


BEHAVIOUR_CHECKS: dict[str, Callable[[Subject], Iterator[str]]] = {
    "same-seed": check_same_seed,
    "random-state": check_random_state,
    "declared-needs": check_declared_needs,
    "counts": check_counts,
    "budget": check_budget,
    "starved": check_starved,
    "callback": check_callback,
    "progress": check_progress,
    "symmetry": check_symmetry,
    "warm-start": check_warm_start,
}
"""By name, as in test ids and expected failures."""
