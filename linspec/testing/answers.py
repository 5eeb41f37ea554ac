"""Checks of an answer: every backend, every case.

Each takes a `Trial` and yields what is wrong. An answer that was not given at all is reported once, by
`solves`; the other checks then have nothing to look at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from linspec.arrays import device_of, is_array, namespace, working_dtype
from linspec.errors import AccuracyWarning, ConvergenceWarning, MissingCapability, UnsupportedData
from linspec.solution import HISTORY_FIELDS, Status
from linspec.testing.oracle import ROUNDING, as_host, precision
from linspec.testing.solving import Trial

__all__ = ["ANSWER_CHECKS"]

OWN_LIMIT = frozenset({Status.ITERATION_LIMIT, Status.STAGNATED, Status.INACCURATE, Status.BREAKDOWN})
"""Endings that a solver brings about itself, above its tolerance: they come with a ConvergenceWarning."""

FINDINGS = frozenset({
    Status.INCOMPLETE, Status.CLUSTERED, Status.RANK_DEFICIENT, Status.DEGENERATE, Status.ILL_CONDITIONED
})  # fmt: skip
"""Endings that say what a residual cannot show, or something of the data, at or above the tolerance."""

KINDS = frozenset({"recomputed", "from-gram", "in-pass", "unavailable"})
"""What `residual_kind` may be,"""

NORM_KINDS = frozenset({"exact", "quadrature", "preconditioned"})
"""and for laws in the norm of an inverse."""

LOST = frozenset({Status.INCOMPLETE, Status.ILL_CONDITIONED})
"""With these a run has not converged, whatever its residual, where directions or pairs are missing."""

SILENT = 10.0
"""By so much may a loss be above what is said of it."""

TIE = 1e-6
"""Entries within this share of the largest count as equally large when signs are fixed."""

WEIGHTS = {
    "least-squares": ("x",),
    "svd": ("Vh", "U", "mean"),
    "cca": ("x_weights", "y_weights", "x_mean", "y_mean"),
    "discriminant": ("weights", "mean"),
}
VALUES = {
    "least-squares": (),
    "svd": ("S",),
    "cca": ("correlations",),
    "discriminant": ("eigenvalues",),
}


MEANS = {"mean": ("A", "X"), "x_mean": ("X",), "y_mean": ("Y",)}
"""The matrices whose column means an answer tells."""


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
    for name, matrices in MEANS.items():
        found = getattr(trial.solution, name, None)
        if found is None:
            continue
        X = next(trial.case.arrays[key] for key in matrices if key in trial.case.arrays).astype(np.float64)
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


def check_bounds(trial: Trial) -> Iterator[str]:
    """Of canonical pairs: what is said to bound correlations, law and loss does."""
    if trial.case.problem != "cca":
        return
    solution, oracle = trial.solution, trial.oracle
    rho, law = as_host(solution.correlations), oracle.law(solution)
    if solution.bounds is not None:
        bounds = as_host(solution.bounds)
        for i in np.flatnonzero(~(oracle.nearest(rho) <= bounds + oracle.rounding)):
            yield f"no correlation is within {bounds[i]:.2g} of {rho[i]:.6g}, which bounds[{i}] says"
    below, above = solution.law_bounds
    if not law.between(below, above):
        yield f"law_bounds are {below:.3g} and {above:.3g}; the returned arrays have {law.residual:.3g}"
    loss, (least, most) = oracle.loss(solution), solution.loss_bounds
    off = _rounding_of_loss(trial)
    if len(rho) == oracle.count and not least - off <= loss <= (math.inf if most is None else most) + off:
        yield f"loss_bounds are {least:.3g} and {most}; {loss:.3g} of the sum is missing"


def check_loss(trial: Trial) -> Iterator[str]:
    """Of canonical pairs: no more than the exact sum is returned, and what is missing of it is not kept silent."""
    if trial.case.problem != "cca":
        return
    solution = trial.solution
    loss, off = trial.oracle.loss(solution), _rounding_of_loss(trial)
    if loss < -off:
        yield f"the sum of the correlations is {-loss:.2g} above the exact one; {off:.1g} can be rounding"
    estimate = solution.loss_estimate
    if estimate is not None and not estimate >= 0:
        yield f"loss_estimate must be None or not negative; got {estimate!r}"
    said = max(solution.residual, estimate or 0.0)
    if solution.status is Status.CONVERGED and loss > SILENT * said + off:
        yield f"{loss:.2g} of the sum is missing, and {said:.2g} is said with CONVERGED"


def _rounding_of_loss(trial: Trial) -> float:
    """What rounding may do to the sum of the correlations, as a share."""
    total = float(trial.oracle.correlations.sum())
    return float(trial.oracle.count * trial.oracle.rounding / total) if total > 0 else math.inf


def check_output_home(trial: Trial) -> Iterator[str]:
    """Arrays have the input's namespace, dtype, device and the promised shape; numbers are host float64."""
    case, solution = trial.case, trial.solution
    dtype = working_dtype(case.main.dtype).name
    for name in WEIGHTS[case.problem]:
        value = getattr(solution, name)
        if value is not None:
            yield from _home_issues(name, value, trial, dtype)
    for name in VALUES[case.problem]:
        value = getattr(solution, name)
        if type(value) is not np.ndarray or value.dtype != np.float64 or value.ndim != 1:
            yield f"{name} must be a one-dimensional NumPy float64 array; got {type(value).__name__}"
    yield from _shape_issues(trial)


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


def _shape_issues(trial: Trial) -> Iterator[str]:
    case, solution = trial.case, trial.solution
    expected: dict[str, tuple[int, ...]]
    if case.problem == "least-squares":
        expected = {"x": (case.main.shape[1], *case.arrays["B"].shape[1:])}
    elif case.problem == "svd":
        k = len(solution.S)
        expected = {"Vh": (k, case.main.shape[1])}
        if case.parameters["left"]:
            expected["U"] = (case.main.shape[0], k)
    elif case.problem == "discriminant":
        p = case.main.shape[1]
        expected = {"weights": (p, len(solution.eigenvalues))}
        if case.parameters.get("center", True):
            expected["mean"] = (p,)
    else:
        k = len(solution.correlations)
        p, q = case.arrays["X"].shape[1], case.arrays["Y"].shape[1]
        expected = {"x_weights": (p, k), "y_weights": (q, k)}
        if case.parameters.get("center", True):
            expected |= {"x_mean": (p,), "y_mean": (q,)}
    for name, shape in expected.items():
        value = getattr(solution, name)
        if value is None or tuple(value.shape) != shape:
            yield f"{name} must have shape {shape}; got {None if value is None else tuple(value.shape)}"


def check_order(trial: Trial) -> Iterator[str]:
    """Values decrease."""
    for name in VALUES[trial.case.problem]:
        values = as_host(getattr(trial.solution, name))
        if np.any(np.diff(values) > 0):
            yield f"{name} must decrease; got {np.array2string(values, precision=4)}"
        if name == "correlations" and np.any((values < 0) | (values > 1)):
            yield f"correlations must lie between 0 and 1; got {np.array2string(values, precision=4)}"
        if np.any(values < 0):
            yield f"{name} must not be negative; got {np.array2string(values, precision=4)}"


def check_signs(trial: Trial) -> Iterator[str]:
    """The largest entry of each leading vector is positive, the first of those within a millionth."""
    name = {"svd": "Vh", "cca": "x_weights", "discriminant": "weights"}.get(trial.case.problem)
    if name is None:
        return
    vectors = as_host(getattr(trial.solution, name))
    vectors = vectors.T if name == "Vh" else vectors
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
    known = {"cca": NORM_KINDS, "discriminant": KINDS | {"exact"}}.get(trial.case.problem, KINDS)
    if solution.residual_kind not in known:
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
    "bounds": check_bounds,
    "loss": check_loss,
    "converged": check_converged,
    "output-home": check_output_home,
    "order": check_order,
    "signs": check_signs,
    "accounts": check_accounts,
    "input-untouched": check_input_untouched,
    "warnings": check_warnings,
}
"""By name, as in test ids and expected failures."""
