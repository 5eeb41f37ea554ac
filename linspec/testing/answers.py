"""Checks of an answer, on every backend and every case.

Each check takes a `Trial` and yields the faults that it finds. If there is no answer, the check `solves` reports it,
and the other checks ignore the trial.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from linspec import registry
from linspec.arrays import device_of, is_array, namespace, working_dtype
from linspec.borrowed import lender_of
from linspec.errors import AccuracyWarning, ConvergenceWarning, MissingCapability, UnsupportedData
from linspec.operators import as_operator
from linspec.operators.largest_entry import magnitude_of
from linspec.solving.solution import HISTORY_FIELDS, Status, arrays_in, values_by_matrix
from linspec.testing.backends import BACKENDS
from linspec.testing.family import testing_of
from linspec.testing.oracle import ROUNDING, as_host, precision
from linspec.testing.problems import Case
from linspec.testing.process import OF_LINSPEC
from linspec.testing.solving import Trial

__all__ = ["ANSWER_CHECKS"]

OWN_LIMIT = frozenset({Status.ITERATION_LIMIT, Status.STAGNATED, Status.INACCURATE, Status.BREAKDOWN})
"""Statuses of runs that ended with a residual above the tolerance because of the solver, such as its limit of
iterations, and not because of `max_passes`, `max_seconds` or the callback. These runs give a ConvergenceWarning."""

FINDINGS = frozenset({
    Status.INCOMPLETE, Status.CLUSTERED, Status.RANK_DEFICIENT, Status.DEGENERATE, Status.ILL_CONDITIONED
})  # fmt: skip
"""Statuses that a solution may have although its residual is at most the tolerance. They report a property of the data,
such as a low rank, or that values are or may be missing; a residual judges only the returned values."""


LOST = frozenset({Status.INCOMPLETE, Status.ILL_CONDITIONED})
"""With these statuses directions or pairs may be missing; then the run has not converged, whatever its
residual."""

TIE = 1e-6
"""Entries whose magnitude is below the largest by at most this fraction of the largest count as equally large when
signs are fixed."""


def check_solves(trial: Trial) -> Iterator[str]:
    """The solver returns an answer and raises no exception."""
    error = trial.result.error
    if error is None:
        return
    if isinstance(error, MissingCapability) and (lacking(trial) or _refused_anyway(trial)):
        return
    if trial.backend.name == "numpy-readonly" and "read-only" in str(error):
        return  # the check "input-untouched" reports it
    if not trial.backend.float64 and isinstance(error, UnsupportedData) and _needs_float64(trial.case):
        return
    yield trial.result.raised


def _refused_anyway(trial: Trial) -> bool:
    """Whether the solver raises MissingCapability for the same case on NumPy arrays, too.

    Then the reason is the problem, such as a kernel that the method does not handle, and not the data of the backend.
    """
    return isinstance(replace(trial, backend=BACKENDS[0]).result.error, MissingCapability)


def _needs_float64(case: Case) -> bool:
    """Whether the data are integers that only float64 holds, or so far from 1 that float32 cannot square them."""
    if working_dtype(case.main.dtype) == np.float64:
        return True
    sizes = [magnitude_of(as_operator(array)) for array in case.arrays.values() if array.dtype.kind == "f"]
    return not all(size.fits_single for size in sizes)


def lacking(trial: Trial) -> bool:
    """Whether the data lack something that the record or the case declares as needed."""
    solver, case = trial.subject.spec.needs, trial.case.needs
    needs = replace(solver, rows=solver.rows or case.rows, entries=solver.entries or case.entries)
    operators = trial.case.state(trial.data()).matrices.values()
    read = all(A.readable for A in operators) or not (needs.dense or needs.entries or needs.diagonal)
    return not (read and (all(A.gathers for A in operators) or not needs.rows))


def check_accuracy(trial: Trial) -> Iterator[str]:
    """A converged answer is exact, up to the error bound that the oracle computes from the residual.

    An exact solver must converge on gentle cases (condition numbers of at most about ten), and on all cases if it is
    direct, unless the precision of the data is too low for the tolerance. Means are exact up to rounding. The status is
    RANK_DEFICIENT if fewer than k components exist.
    """
    solution = trial.solution
    nothing = getattr(trial.oracle, "count", None) == 0 and without_vectors(solution)
    if trial.must_converge and not solution.converged and not nothing:
        if not _excused(trial):
            yield (
                f"the solver must reach its tolerance {trial.tol:.1g} here; got residual "
                f"{solution.residual:.2g}, status {solution.status.name}, after {solution.iterations} "
                "iterations. Is the answer that of another problem, or does the run end too soon?"
            )
    elif (trial.must_converge or solution.converged) and not (
        trial.brief and solution.status is Status.INCOMPLETE  # stopped before it had looked for all values
    ):
        for issue in trial.oracle.errors(solution):
            yield f"{issue} ({solution.status.name}, residual {solution.residual:.2g})"
    yield from _mean_issues(trial)
    count = getattr(trial.oracle, "count", None)
    short = count is not None and count < trial.oracle.k and solution.status is not Status.RANK_DEFICIENT
    if short and trial.must_converge and (solution.converged or nothing):
        yield (
            f"the status must be RANK_DEFICIENT, since only {count} components exist; got "
            f"{solution.status.name}"
        )


def _mean_issues(trial: Trial) -> Iterator[str]:
    """Yield a message for each vector of column means in the answer whose error exceeds rounding."""
    means = registry.get_problem(trial.case.problem).solution.layout.means
    known = [
        (name, *each)
        for field, name in means.items()
        for each in values_by_matrix(trial.solution, name, field).items()
    ]
    for name, matrix, found in known:
        if found is None:
            continue
        X = trial.case.arrays[matrix].astype(np.float64)
        gap, allowed = (
            np.abs(as_host(found) - X.mean(axis=0)),
            ROUNDING * precision(trial.case) * np.abs(X).mean(axis=0),
        )
        if np.any(gap > allowed):
            yield f"{name} must hold the column means; it differs from them by {gap.max():.2g}"


def _excused(trial: Trial) -> bool:
    """Whether an AccuracyWarning was given: the precision is too low for the tolerance on these data."""
    return trial.result.warned(AccuracyWarning)


def check_residual_law(trial: Trial) -> Iterator[str]:
    """`residual` is the residual of the returned arrays, by the problem's law."""
    law = trial.law
    claimed = trial.solution.residual
    if not isinstance(claimed, float):
        yield f"residual must be a float; got {type(claimed).__name__}"
    elif law.contradicts(claimed, trial.solution.residual_kind):
        found = f"{law.residual:.3g} (rounding {law.floor:.1g})"
        yield f"the solution claims residual {claimed:.3g}; the returned arrays have {found}"


def check_converged(trial: Trial) -> Iterator[str]:
    """`converged` means that the residual is at most the tolerance, and the status agrees."""
    solution, tol = trial.solution, trial.tol
    if not isinstance(solution.status, Status):
        yield f"status must be a linspec.Status; got {solution.status!r}"
        return
    if not converges(solution, tol):
        yield (
            f"converged must say whether the residual is at most the tolerance; got {solution.converged} at "
            f"residual {solution.residual:.3g}, tolerance {tol:.3g}. Return what run.finish makes"
        )
    if solution.status is Status.CONVERGED and not solution.residual <= max(tol, solution.tol or tol):
        yield (
            "status CONVERGED needs a residual at or below the tolerance; got residual "
            f"{solution.residual:.3g}, tolerance {tol:.3g}"
        )
    if solution.converged and solution.status not in {Status.CONVERGED, *FINDINGS}:
        yield f"converged is True, but the status is {solution.status.name}"
    if not str(solution.message).strip():
        yield "the solution must have a message; it is empty"


def converges(solution: Any, tol: float) -> bool:
    """Whether the attribute `converged` of a solution has the right value.

    It must be True if and only if the residual is at most `tol`, or the larger tolerance that the run says was in force
    because rounding of the data allows no smaller one. It may also be False if directions or pairs may be
    missing (the statuses `LOST`). It must be False if the residual judges only a part of the solution
    (`layout.certified` is False), or if the solution has no vectors.
    """
    if not solution.layout.certified or without_vectors(solution):
        return solution.converged is False
    if solution.converged is bool(solution.residual <= max(tol, solution.tol or tol)):
        return True
    return solution.converged is False and solution.status in LOST


def without_vectors(solution: Any) -> bool:
    """Whether an answer has no vectors: the data have none that can be distinguished from zero."""
    return any(0 in getattr(value, "shape", ()) for _, value in arrays_in(solution))


def check_output_home(trial: Trial) -> Iterator[str]:
    """Arrays have the input's namespace, dtype, device and the promised shape; numbers are host float64."""
    case, solution = trial.case, trial.solution
    dtype = working_dtype(case.main.dtype).name
    for name, value in arrays_in(solution):
        yield from _home_issues(name, value, trial, dtype)
    for name in filter(None, [solution.layout.value]):
        value = getattr(solution, name)
        if type(value) is not np.ndarray or value.dtype != np.float64 or value.ndim != 1:
            yield f"{name} must be a one-dimensional NumPy float64 array; got {type(value).__name__}"
    for name, shape in testing_of(case.problem).shapes(case, solution).items():
        value = getattr(solution, name)
        if value is None or tuple(value.shape) != shape:
            yield f"{name} must have shape {shape}; got {None if value is None else tuple(value.shape)}"


def _home_issues(name: str, value: Any, trial: Trial, dtype: str) -> Iterator[str]:
    like = trial.backend.companion(np.zeros(1, np.float32))
    if type(value) is type(like) and lender_of(value):
        pass  # arrays of JAX, which are on the CPU
    elif not is_array(value):
        yield f"{name} must be an array; got {type(value).__name__}"
        return
    elif isinstance(like, np.ndarray) and not trial.backend.is_array:
        if type(value) is not np.ndarray:
            yield f"{name} must be a NumPy array for {trial.backend.name}; got {type(value).__name__}"
    elif namespace(value) is not namespace(like):
        yield (
            f"{name} must be an array of {_library(like)}, like the data; got one of {_library(value)}. Place it by "
            "home.place"
        )
        return
    elif device_of(value) != device_of(like):
        yield f"{name} must be on {device_of(like)}; got {device_of(value)}"
    if str(value.dtype).rpartition(".")[2] != dtype:
        yield f"{name} must be {dtype}, like the data; got {value.dtype}. Place it by home.place(..., A.dtype)"


def _library(array: Any) -> str:
    """Return the name of the library of an array: "torch" for the namespace "array_api_compat.torch"."""
    return str(namespace(array).__name__).removeprefix("array_api_compat.")


def check_order(trial: Trial) -> Iterator[str]:
    """The values never increase, and are within their range."""
    ceiling = trial.solution.layout.at_most
    for name in filter(None, [trial.solution.layout.value]):
        values = as_host(getattr(trial.solution, name))
        if np.any(np.diff(values) > 0):
            yield (
                f"{name} must decrease; got {np.array2string(values, precision=4)}. Sort the components, the largest "
                "value first"
            )
        if ceiling is not None and np.any((values < 0) | (values > ceiling)):
            yield f"{name} must lie between 0 and {ceiling:g}; got {np.array2string(values, precision=4)}"
        if np.any(values < 0):
            yield f"{name} must not be negative; got {np.array2string(values, precision=4)}"


def check_signs(trial: Trial) -> Iterator[str]:
    """The entry of largest magnitude is positive in each vector of the first array of the solution.

    If several entries have this magnitude, up to the fraction `TIE` and rounding, one of them must be positive.
    """
    if not trial.solution.layout.value:
        return
    name = trial.solution.layout.leading[0]
    entry = trial.solution.layout.entries[name]
    given = getattr(trial.solution, name)
    vectors = as_host(given[0] if isinstance(given, tuple) else given)
    vectors = vectors.T if entry.axis else vectors
    unit = precision(trial.case)
    for j, v in enumerate(vectors.T):
        size = np.abs(v)
        # Rounding to the data's dtype may have changed the order of nearly equal entries; those decide
        # nothing.
        rivals = size >= size.max() * (1 - TIE - 8 * unit)
        if size.max() > 0 and not np.any(v[rivals] > 0):
            yield (
                f"the largest entry of component {j} of {name} must be positive; got {v[np.argmax(size)]:.3g}. Change "
                "the sign of the component in all arrays"
            )


def check_accounts(trial: Trial) -> Iterator[str]:
    """The solution has a finite, positive number of passes, and a history that agrees with the solution.

    Within the history, the iteration, passes, columns, flops and seconds never decrease. Its passes do not exceed those
    of the solution. The number of iterations, `residual_kind` and the name of the solver are right, too.
    """
    solution = trial.solution
    history = solution.history
    if not isinstance(history, np.ndarray) or history.dtype.names != HISTORY_FIELDS:
        yield f"history must be a structured array of {', '.join(HISTORY_FIELDS)}"
        return
    for name in ("iteration", "passes", "columns", "flops", "seconds"):
        if np.any(np.diff(history[name]) < 0):
            yield f"history: {name} must not decrease; got {history[name]}"
    if not math.isfinite(solution.passes) or solution.passes <= 0:
        yield f"passes must be positive; got {solution.passes}"
    if len(history) and history["passes"][-1] > solution.passes:
        yield (
            "the history must not count more passes than the solution; got "
            f"{history['passes'][-1]} and {solution.passes}"
        )
    if trial.subject.trait("iterative") and len(history) != solution.iterations + 1:
        yield (
            "the history of an iterative solver must have one record more than iterations; got "
            f"{solution.iterations} iterations and {len(history)} records"
        )
    if trial.subject.trait("direct") and solution.iterations != 0:
        yield (
            f"a solver with the trait 'direct' must report no iterations; got {solution.iterations}. Give an iterative "
            "one the trait 'iterative'"
        )
    if solution.residual_kind not in testing_of(trial.case.problem).residual_kinds:
        yield (
            "residual_kind must be one of "
            f"{', '.join(sorted(testing_of(trial.case.problem).residual_kinds))}; got "
            f"{solution.residual_kind!r}"
        )
    bare = trial.subject.spec.name
    if solution.solver.rpartition("/")[2].rpartition(":")[2] != bare:
        yield f"solver must be the name {bare!r}; got {solution.solver!r}"


def check_input_untouched(trial: Trial) -> Iterator[str]:
    """The solver does not write to its data, writable or read-only."""
    if not trial.untouched:
        yield "a solver must not change its data; they differ after the solve. Work on a copy"
    error = trial.result.error
    if trial.backend.name == "numpy-readonly" and error is not None and "read-only" in str(error):
        yield f"a solver must not write to its data; on read-only arrays it raised: {error}"


def check_warnings(trial: Trial) -> Iterator[str]:
    """A ConvergenceWarning comes only if the solver itself gave up; arithmetic gives no warning."""
    status = trial.solution.status
    warned = trial.result.warned(ConvergenceWarning)
    if warned != (status in OWN_LIMIT):
        yield (
            f"status {status.name} must come {'without' if warned else 'with'} a ConvergenceWarning; "
            f"{'one' if warned else 'none'} was given"
        )
    for message in trial.result.warnings:
        if not issubclass(
            message.category, (*OF_LINSPEC, ResourceWarning)
        ):  # a ResourceWarning may come from any code, at any time
            yield (
                f"a solve must give no warnings but those of linspec.errors; got {message.category.__name__}: "
                f"{message.message}. Silence it where it is known to be harmless, or report it by run.note"
            )


ANSWER_CHECKS: dict[str, Callable[[Trial], Iterator[str]]] = {
    "solves": check_solves,
    "accuracy": check_accuracy,
    "residual-law": check_residual_law,
    "converged": check_converged,
    "output-home": check_output_home,
    "order": check_order,
    "signs": check_signs,
    "accounts": check_accounts,
    "input-untouched": check_input_untouched,
    "warnings": check_warnings,
}
"""The checks of an answer, by their names in test ids and expected failures."""
