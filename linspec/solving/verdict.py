"""The verdict: how a run ended, and which arrays it returns.

Problem: a solver's own residual may be too small, a residual cannot show everything, and a run that is cut short should
still return its last iterate.
Method: the law of the problem judges the arrays that the solver hands over, after a check of their names and shapes.
Status and message follow from its residual, from findings on the way, and from the end of the loop, in one fixed order.
Where we differ: an iteration does not declare convergence by its own residual. If the residual of the law is above the
tolerance, the iteration goes on, as long as that helps.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from linspec.arrays import is_array
from linspec.errors import BrokenPlugin, OutOfMemory, shown
from linspec.iteration import Certificate
from linspec.process.faults import is_out_of_memory
from linspec.process.interrupts import NothingYet
from linspec.process.plurals import count_of
from linspec.solving.about_columns import in_field
from linspec.solving.budget import out_of_time
from linspec.solving.conclusion import Conclusion, Terms
from linspec.solving.problem import Problem
from linspec.status import Status

WARNED = frozenset(
    {
        Status.ITERATION_LIMIT,
        Status.STAGNATED,
        Status.INACCURATE,
        Status.BREAKDOWN,
        Status.OUT_OF_MEMORY,
        Status.INCONSISTENT,
    }
)
"""Endings that come with a ConvergenceWarning: the solver, not the caller, gave up."""

FINDINGS_FIRST = (
    Status.INCOMPLETE,
    Status.ILL_CONDITIONED,
    Status.CLUSTERED,
    Status.RANK_DEFICIENT,
    Status.DEGENERATE,
)
"""Findings that become the status of an otherwise converged run, because its residual does not show them."""

PATIENCE, PROGRESS = 25, 0.9
"""After the law has contradicted the residual of an iteration, this residual must fall below PROGRESS times its least
value so far, within PATIENCE iterations each time. Otherwise the run ends as STAGNATED."""

Finding = tuple[Status | None, str]
"""A status, or None, and its text for the message."""


# ---- judging ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judgement:
    """The conclusion of the law on arrays, and the kind of its residual."""

    arrays: Mapping[str, Any]
    conclusion: Conclusion
    kind: str

    def is_of(self, arrays: Mapping[str, Any]) -> bool:
        """Whether these arrays are the very objects that were judged."""
        one = self.arrays
        return one.keys() == arrays.keys() and all(one[name] is arrays[name] for name in one)


def judged(problem: Any, moments: Any, terms: Terms, arrays: Mapping[str, Any]) -> Judgement:
    """Apply the law to arrays."""
    held, spent = moments.held, moments.bookkeeping.spent
    conclusion = problem.conclude(moments, terms, **arrays)
    kind = conclusion.kind or ("from-gram" if held else "unavailable" if spent else "recomputed")
    return Judgement(arrays, conclusion, kind)


def check_handed(problem: Problem[Any], solve: str, arrays: Mapping[str, Any]) -> None:
    """Refuse results of a solver that the law does not take: other names, no arrays, other shapes.

    Raises
    ------
    BrokenPlugin
    """
    said = f"{solve} must give run.finish"
    needed, optional, any_other = _taken_by(type(problem).conclude)
    if not needed:  # judged by its certificate
        needed = problem.found or tuple(name for name, _ in problem.solution.layout.weights.values())
    if not (arrays.keys() >= {*needed} and (any_other or {*needed, *optional}.issuperset(arrays))):
        more = f" (and, if known, {', '.join(optional)})" if optional else ""
        raise BrokenPlugin(
            f"{said} {', '.join(needed)}{more}, which the law of {type(problem).__name__} takes; got "
            f"{', '.join(arrays) or 'nothing'}."
        )
    layout = problem.solution.layout
    for field, (name, axis) in layout.weights.items():
        if name not in arrays:
            continue
        several = problem.stated.matrices[field].several
        given = arrays[name] if several else (arrays[name],)
        names = in_field(problem, field)
        if several and not (isinstance(given, tuple) and len(given) == len(names)):
            raise BrokenPlugin(
                f"{said} {name} as a tuple of an array for each of {', '.join(names)}; got {shown(given)}."
            )
        for matrix, W in zip(names, given, strict=True):
            if not is_array(W):
                raise BrokenPlugin(f"{said} {name} as an array; got {type(W).__name__}.")
            columns, shape = problem.matrices[matrix].shape[1], tuple(W.shape)
            if len(shape) != 2 or shape[axis] != columns:
                form = f"({columns}, k)" if axis == 0 else f"(k, {columns})"
                raise BrokenPlugin(
                    f"{said} {name} of shape {form}, for the {count_of(columns, 'column')} of {matrix}; got {shape}."
                )
            values = arrays.get(layout.value)
            if values is not None and is_array(values) and tuple(values.shape) != (shape[1 - axis],):
                raise BrokenPlugin(
                    f"{said} as many {layout.value} as vectors; {name} has {shape[1 - axis]}, and they "
                    f"have shape {tuple(values.shape)}."
                )


@lru_cache(maxsize=64)
def _taken_by(law: Callable[..., Any]) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    """Return the names of the arrays that a law needs, of optional ones, and whether it takes any others."""
    known = inspect.signature(law).parameters.values()
    by_name = [each for each in known if each.kind is each.KEYWORD_ONLY]
    needed = tuple(each.name for each in by_name if each.default is each.empty)
    optional = tuple(each.name for each in by_name if each.name not in needed)
    return needed, optional, any(each.kind is each.VAR_KEYWORD for each in known)


def contradicts(residual: float, claim: float, tol: float, most: float) -> bool:
    """Whether the law contradicts the residual of a solver, and more work of the solver may help.

    This holds if `residual`, that of the law, is above `tol` and below `most` times `tol`, and `claim`, the solver's
    own residual, is not 0. The caller has checked that `claim` meets the tolerance.
    """
    return tol < residual < most * tol and claim > 0


def gets_on(residual: float, least: float) -> bool:
    """Whether a residual is below PROGRESS times the least one: an improvement, and not mere rounding."""
    return residual < PROGRESS * least


# ---- status and message -----------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """The end of a run: its status, convergence and message."""

    status: Status
    converged: bool
    message: str


def verdict(  # noqa: PLR0913 (all that an ending rests on)
    problem: Problem[Any],
    conclusion: Conclusion | Certificate,
    *,
    tol: float,
    by_default: bool,
    once: bool,
    ending: Status | None,
    interrupted: bool,
    cut: bool,
    underflowing: bool,
    notes: Sequence[Finding],
    contradictions: Sequence[str],
    remarks: Sequence[str] = (),
) -> Verdict:
    """Decide status and message of a run from the conclusion of the law.

    Parameters
    ----------
    problem : Problem
    conclusion : Conclusion
    tol : float
    by_default : bool
        Whether the tolerance is the default.
    once : bool
        Whether the data could be read only once when the run began.
    ending : Status or None
        The reason for which the loop ended; None for a solver without a loop.
    interrupted, cut : bool
        Whether there was an interrupt, and whether the run was left in the middle of a step.
    underflowing : bool
        Whether squares of columns of the data underflow.
    notes : sequence of (Status or None, str)
        Findings of the solver.
    contradictions : sequence of str
        Evidence from products that an operator is not a matrix.
    remarks : sequence of str, default ()
        Sentences for the message that bear on no status.
    """
    found = [conclusion.fields.get(name) for name in problem.solution.layout.arrays]
    parts = [part for value in found for part in (value if isinstance(value, tuple) else (value,))]
    empty = any(0 in getattr(part, "shape", ()) for part in parts)
    lost = conclusion.lost or bool(contradictions) or underflowing
    settled = bool(conclusion.residual <= tol) and not lost
    converged = settled and problem.solution.layout.certified and not empty
    findings: list[Finding] = [(Status.INCONSISTENT, text) for text in contradictions]
    findings += dict.fromkeys((*notes, *conclusion.findings))  # each is said once
    statuses = [finding for finding, _ in findings]
    if interrupted:
        status = Status.INTERRUPTED
    else:
        status = _status(converged, ending, statuses, cut=cut, nothing=empty and settled)
    figures = _figures(conclusion.residual, tol, least=by_default and problem.single, once=once)
    return Verdict(status, converged, _message(status, findings, remarks, figures))


def _status(
    converged: bool, ending: Status | None, findings: Sequence[Status | None], *, cut: bool, nothing: bool
) -> Status:
    """Choose the status; `nothing`: the data have no answer to find, however the iteration ended."""
    if Status.INCONSISTENT in findings:
        return Status.INCONSISTENT
    if cut and ending is not None and not (converged and not findings):
        return ending
    by_itself = ending in (None, Status.CONVERGED)
    if converged or nothing or by_itself:
        for finding in FINDINGS_FIRST:
            if finding in findings:
                return finding
    if converged:
        return Status.CONVERGED
    if ending is None or by_itself:
        return Status.APPROXIMATE if Status.APPROXIMATE in findings else Status.INACCURATE
    return ending


def _figures(residual: float, tol: float, *, least: bool, once: bool) -> str:
    """Return the figures at the end of a message: the residual and the tolerance.

    If `least` is true, the tolerance is the default for float32, and the text says so. If `once` is true, the data
    can be read only once; for a residual of NaN the text then says that a residual would take another pass.
    """
    if math.isnan(residual) and once:
        return "no residual: it takes another pass, and the data can be read once"
    figures = f"residual {residual:.2g}, tolerance {tol:.2g}"
    return f"{figures} (the least that products in float32 allow)" if least else figures


def _message(status: Status, findings: Sequence[Finding], remarks: Sequence[str], figures: str) -> str:
    """Return the message: the advice of the status unless a finding gives it, findings, remarks, and figures."""
    # Advice on approximations that are not good enough does not apply to a converged answer.
    if status is Status.CONVERGED:
        findings = [(finding, text) for finding, text in findings if finding is not Status.APPROXIMATE]
    texts = [text for _, text in findings]
    own = [] if any(status is finding for finding, _ in findings) else [status.value]
    return " ".join([*own, *texts, *remarks, f"({figures})"])


def as_interrupted(solution: Any) -> Any:
    """Return a complete solution with the status of an interrupted one."""
    message = f"{Status.INTERRUPTED.value} {solution.message}"
    return replace(solution, status=Status.INTERRUPTED, message=message)


# ---- runs that are cut short ------------------------------------------------------------------


def is_empty(arrays: Mapping[str, Any]) -> bool:
    """Whether an iterate has no columns: the iteration has just begun."""
    return any(0 in getattr(array, "shape", ()) for array in arrays.values())


def salvaged(latest: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the last iterate that a solver reported; None if it has no columns or can no longer be made."""
    try:
        arrays = latest()
    except Exception as error:  # the solver was left in the middle of a step
        if is_out_of_memory(error):
            raise
        return None
    return None if is_empty(arrays) else arrays


def empty_handed(
    name: str,
    problem: Problem[Any],
    ending: Status,
    cause: str,
    *,
    passes: float,
    max_seconds: float,
    remark: str,
) -> BaseException:
    """Return the error for a run that has no iterate to return; `remark` is on its checkpoint."""
    if ending is Status.INTERRUPTED:
        return NothingYet(remark) if remark else NothingYet()
    remark = f" {remark}" if remark else ""
    where = f"in pass {math.floor(passes) + 1} over the data, before it had an iterate that could be judged"
    if ending is Status.OUT_OF_MEMORY:
        return OutOfMemory(
            f"{name} ran out of memory {where}: {cause}. Choose a solver or a form that holds less, or give "
            f"the process more memory.{remark}"
        )
    return out_of_time(name, max_seconds, where, problem, remark)
