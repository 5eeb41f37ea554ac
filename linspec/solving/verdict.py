"""The verdict: how a run ended, in a status and a message.

Problem: a residual cannot show everything, and a run that is cut short should still say what its last iterate is worth.
Method: status and message follow from the certificate, from findings on the way, and from the end of the loop, in one
fixed order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from linspec.iteration import Certificate
from linspec.solving.fields import parts_of
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

CUT = (Status.BUDGET, Status.OUT_OF_MEMORY)
"""Endings in the middle of a step, which findings of the run so far do not replace."""

Finding = tuple[Status | None, str]
"""A status, or None, and its text for the message."""


def verdict(
    problem: Problem[Any],
    certificate: Certificate,
    *,
    tol: float,
    by_default: bool,
    once: bool,
    ending: Status | None,
    notes: Sequence[Finding],
    remarks: Sequence[str] = (),
) -> tuple[Status, bool, str]:
    """Decide status, convergence and message of a run from the certificate.

    Parameters
    ----------
    problem : Problem
    certificate : Certificate
    tol : float
    by_default : bool
        Whether the tolerance is the default.
    once : bool
        Whether the data could be read only once when the run began.
    ending : Status or None
        The reason for which the loop ended; None for a solver without a loop.
    notes : sequence of (Status or None, str)
        Findings of the solver.
    remarks : sequence of str, default ()
        Sentences for the message that bear on no status.
    """
    found = [certificate.fields.get(name) for name in problem.solution.layout.arrays]
    parts = [part for value in found for part in parts_of(value)]
    empty = any(0 in getattr(part, "shape", ()) for part in parts)
    settled = bool(certificate.residual <= tol) and not certificate.lost
    converged = settled and problem.solution.layout.certified and not empty
    findings = [*dict.fromkeys((*notes, *certificate.findings))]  # each is said once
    statuses = [finding for finding, _ in findings]
    status = _status(converged, ending, statuses, nothing=empty and settled)
    figures = _figures(certificate.residual, tol, least=by_default and problem.single, once=once)
    return status, converged, _message(status, findings, remarks, figures)


def _status(
    converged: bool, ending: Status | None, findings: Sequence[Status | None], *, nothing: bool
) -> Status:
    """Choose the status; `nothing`: the data have no answer to find, however the iteration ended."""
    if ending is Status.INTERRUPTED:
        return ending
    if Status.INCONSISTENT in findings:
        return Status.INCONSISTENT
    if ending in CUT and not (converged and not findings):
        return ending
    by_itself = ending in (None, Status.CONVERGED)
    if converged or nothing or by_itself:
        for finding in FINDINGS_FIRST:
            if finding in findings:
                return finding
    if converged:
        return Status.CONVERGED
    if ending is not None and not by_itself:
        return ending
    said = (each for each in (Status.APPROXIMATE, Status.ITERATION_LIMIT) if each in findings)
    return next(said, Status.INACCURATE)


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
