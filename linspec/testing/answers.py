"""Checks of an answer: every backend, every case.

Each takes a `Trial` and yields what is wrong. An answer that was not given at all is reported once, by
`solves`; the other checks then have nothing to look at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from linspec import registry
from linspec.arrays import device_of, is_array, namespace, working_dtype
from linspec.errors import AccuracyWarning, ConvergenceWarning, MissingCapability, UnsupportedData
from linspec.solution import HISTORY_FIELDS, Status
from linspec.testing.family import testing_of
from linspec.testing.oracle import ROUNDING, as_host, precision
from linspec.testing.solving import Trial

__all__ = ["ANSWER_CHECKS"]

OWN_LIMIT = frozenset({Status.ITERATION_LIMIT, Status.STAGNATED, Status.INACCURATE, Status.BREAKDOWN})
"""Endings that a solver brings about itself, above its tolerance: they come with a ConvergenceWarning."""

FINDINGS = frozenset({
    Status.INCOMPLETE, Status.CLUSTERED, Status.RANK_DEFICIENT, Status.DEGENERATE, Status.ILL_CONDITIONED
})  # fmt: skip
"""Endings that say what a residual cannot show, or something of the data, at or above the tolerance."""


LOST = frozenset({Status.INCOMPLETE, Status.ILL_CONDITIONED})
"""With these a run has not converged, whatever its residual, where directions or pairs are missing."""

TIE = 1e-6
"""Entries within this share of the largest count as equally large when signs are fixed."""


def check_solves(trial: Trial) -> Iterator[str]:
    """An answer is given: no exception."""
    error = trial.result.error
    if error is None:
        return
    if isinstance(error, MissingCapability):  # what it asks of the data is judged by "declared-needs"
        return
    if trial.backend.name == "numpy-readonly" and "read-only" in str(error):
        return  # "input-untouched" says it
    wide = working_dtype(trial.case.main.dtype) == np.float64
    if wide and not trial.backend.float64 and isinstance(error, UnsupportedData):
        return  # integers that only float64 holds, where there is none
    yield trial.result.raised


def check_accuracy(trial: Trial) -> Iterator[str]:
    """The answer is the exact one to what its residual explains, where it must be or claims to be."""
    solution = trial.solution
    if trial.must_converge and not solution.converged:
        if not _excused(trial):
            yield (
                f"must reach its tolerance {trial.tol:.1g} here; residual {solution.residual:.2g}, "
                f"{solution.status.name}, {solution.iterations} iterations"
            )
    elif trial.must_converge or solution.converged:
        for issue in trial.oracle.errors(solution):
            yield f"{issue} ({solution.status.name}, residual {solution.residual:.2g})"
    yield from _mean_issues(trial)
    count = getattr(trial.oracle, "count", None)
    short = count is not None and count < trial.oracle.k and solution.status is not Status.RANK_DEFICIENT
    if short and trial.must_converge and solution.converged:
        yield f"only {count} components exist; the status must be RANK_DEFICIENT, got {solution.status.name}"


def _mean_issues(trial: Trial) -> Iterator[str]:
    """Column means that are off by more than rounding."""
    means = registry.get_problem(trial.case.problem).means
    for matrix, name in means.items():
        found = getattr(trial.solution, name, None)
        if found is None:
            continue
        X = trial.case.arrays[matrix].astype(np.float64)
        gap, allowed = (
            np.abs(as_host(found) - X.mean(axis=0)),
            ROUNDING * precision(trial.case) * np.abs(X).mean(axis=0),
        )
        if np.any(gap > allowed):
            yield f"{name} is off by {gap.max():.2g} from the column means"


def _excused(trial: Trial) -> bool:
    """Whether data and precision forbid the tolerance, and a warning says so."""
    return trial.result.warned(AccuracyWarning)


def check_residual_law(trial: Trial) -> Iterator[str]:
    """The residual is that of the returned arrays, by the problem's law."""
    law = trial.oracle.law(trial.solution)
    claimed = trial.solution.residual
    if not isinstance(claimed, float):
        yield f"residual must be a float; got {type(claimed).__name__}"
    elif law.contradicts(claimed, trial.solution.residual_kind):
        found = f"{law.residual:.3g} (rounding {law.floor:.1g})"
        yield f"residual {claimed:.3g} is claimed; the returned arrays have {found}"


def check_converged(trial: Trial) -> Iterator[str]:
    """`converged` means that the residual is at most the tolerance, and the status agrees."""
    solution, tol = trial.solution, trial.tol
    if not isinstance(solution.status, Status):
        yield f"status must be a linspec.Status; got {solution.status!r}"
        return
    if not converges(solution, tol):
        yield f"converged is {solution.converged} at residual {solution.residual:.3g}, tolerance {tol:.3g}"
    if solution.status is Status.CONVERGED and not solution.residual <= tol:
        yield f"status CONVERGED at residual {solution.residual:.3g}, tolerance {tol:.3g}"
    if solution.converged and solution.status not in {Status.CONVERGED, *FINDINGS}:
        yield f"converged, yet the status is {solution.status.name}"
    if not str(solution.message).strip():
        yield "the message is empty"


def converges(solution: Any, tol: float) -> bool:
    """Whether `converged` says what the residual says, or that directions or pairs are missing whatever it says."""
    if solution.converged is bool(solution.residual <= tol):
        return True
    return solution.converged is False and solution.status in LOST


def check_output_home(trial: Trial) -> Iterator[str]:
    """Arrays have the input's namespace, dtype, device and the promised shape; numbers are host float64."""
    case, solution = trial.case, trial.solution
    dtype = working_dtype(case.main.dtype).name
    for name in solution.weight_fields:
        value = getattr(solution, name)
        if value is not None:
            yield from _home_issues(name, value, trial, dtype)
    for name in filter(None, [solution.value_field]):
        value = getattr(solution, name)
        if type(value) is not np.ndarray or value.dtype != np.float64 or value.ndim != 1:
            yield f"{name} must be a one-dimensional NumPy float64 array; got {type(value).__name__}"
    for name, shape in testing_of(case.problem).shapes(case, solution).items():
        value = getattr(solution, name)
        if value is None or tuple(value.shape) != shape:
            yield f"{name} must have shape {shape}; got {None if value is None else tuple(value.shape)}"


def _home_issues(name: str, value: Any, trial: Trial, dtype: str) -> Iterator[str]:
    like = next(iter(trial.given.values()))
    if not is_array(value):
        yield f"{name} must be an array; got {type(value).__name__}"
        return
    if not trial.backend.is_array:
        if type(value) is not np.ndarray:
            yield f"{name} must be a NumPy array for {trial.backend.name}; got {type(value).__name__}"
    elif namespace(value) is not namespace(like):
        yield f"{name} must be of {namespace(like).__name__}; got {namespace(value).__name__}"
        return
    elif device_of(value) != device_of(like):
        yield f"{name} must be on {device_of(like)}; got {device_of(value)}"
    if str(value.dtype).rpartition(".")[2] != dtype:
        yield f"{name} must be {dtype}, as the data; got {value.dtype}"


def check_order(trial: Trial) -> Iterator[str]:
    """Values decrease."""
    ceiling = trial.solution.ceiling
    for name in filter(None, [trial.solution.value_field]):
        values = as_host(getattr(trial.solution, name))
        if np.any(np.diff(values) > 0):
            yield f"{name} must decrease; got {np.array2string(values, precision=4)}"
        if ceiling is not None and np.any((values < 0) | (values > ceiling)):
            yield f"{name} must lie between 0 and {ceiling:g}; got {np.array2string(values, precision=4)}"
        if np.any(values < 0):
            yield f"{name} must not be negative; got {np.array2string(values, precision=4)}"


def check_signs(trial: Trial) -> Iterator[str]:
    """The largest entry of each leading vector is positive, the first of those within a millionth."""
    if not trial.solution.value_field:
        return
    name = trial.solution.weight_fields[0]
    vectors = as_host(getattr(trial.solution, name))
    vectors = vectors.T if name.endswith("h") else vectors  # rows of Vh
    unit = precision(trial.case)
    for j, v in enumerate(vectors.T):
        size = np.abs(v)
        # Entries whose order rounding to the data's dtype may have changed decide nothing.
        rivals = size >= size.max() * (1 - TIE - 8 * unit)
        if size.max() > 0 and not np.any(v[rivals] > 0):
            yield f"component {j} of {name} has its largest entry {v[np.argmax(size)]:.3g} negative"


def check_accounts(trial: Trial) -> Iterator[str]:
    """Passes and history are there, are numbers, and only grow."""
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
        yield f"history counts {history['passes'][-1]} passes, the solution {solution.passes}"
    if trial.subject.trait("iterative") and len(history) != solution.iterations + 1:
        yield f"{solution.iterations} iterations with {len(history)} records in the history"
    if trial.subject.trait("direct") and solution.iterations != 0:
        yield f"a direct solver makes no iterations; got {solution.iterations}"
    if solution.residual_kind not in testing_of(trial.case.problem).residual_kinds:
        yield f"residual_kind {solution.residual_kind!r} is not known"
    bare = trial.subject.spec.name
    if solution.solver.rpartition("/")[2].rpartition(":")[2] != bare:
        yield f"solver must be the name {bare!r}; got {solution.solver!r}"


def check_input_untouched(trial: Trial) -> Iterator[str]:
    """The data are what they were, also where writing to them is possible."""
    if not trial.untouched:
        yield "the data were changed"
    error = trial.result.error
    if trial.backend.name == "numpy-readonly" and error is not None and "read-only" in str(error):
        yield f"writes to its data: {error}"


def check_warnings(trial: Trial) -> Iterator[str]:
    """A ConvergenceWarning where the solver itself gave up and nowhere else; no warning of arithmetic."""
    status = trial.solution.status
    warned = trial.result.warned(ConvergenceWarning)
    if warned != (status in OWN_LIMIT):
        yield f"status {status.name} comes {'with' if warned else 'without'} a ConvergenceWarning"
    for message in trial.result.warnings:
        if issubclass(message.category, RuntimeWarning | DeprecationWarning | FutureWarning):
            yield f"{message.category.__name__}: {message.message}"


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
"""By name, as in test ids and expected failures."""
