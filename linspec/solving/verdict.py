"""The verdict: how a run ended, in a status and a message; and findings that certificates of several problems share.

Problem: a residual cannot show everything, and a run that is cut short should still say what its last iterate is worth.
Method: status and message follow from the certificate, from findings on the way, and from the end of the loop, in one
fixed order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from linspec.errors import shown
from linspec.iteration import Certificate
from linspec.process.plurals import count_of
from linspec.solving.fields import parts_of
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
    problem: Any,
    certificate: Certificate,
    *,
    tol: float,
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
    together = [*dict.fromkeys((*notes, *certificate.notes))]  # each is said once
    statuses = [finding for finding, _ in together]
    status = _status(converged, ending, statuses, nothing=empty and settled)
    figures = _figures(certificate.residual, tol, once=once)
    return status, converged, _message(status, together, remarks, figures)


def _status(
    converged: bool, ending: Status | None, notes: Sequence[Status | None], *, nothing: bool
) -> Status:
    """Choose the status; `nothing`: the data have no answer to find, however the iteration ended."""
    if ending is Status.INTERRUPTED:
        return ending
    if Status.INCONSISTENT in notes:
        return Status.INCONSISTENT
    if ending in CUT and not (converged and not notes):
        return ending
    by_itself = ending in (None, Status.CONVERGED)
    if converged or nothing or by_itself:
        for finding in FINDINGS_FIRST:
            if finding in notes:
                return finding
    if converged:
        return Status.CONVERGED
    if ending is not None and not by_itself:
        return ending
    said = (each for each in (Status.APPROXIMATE, Status.ITERATION_LIMIT) if each in notes)
    return next(said, Status.INACCURATE)


def _figures(residual: float, tol: float, *, once: bool) -> str:
    """Return the residual and the tolerance; without one, that another pass is needed, if the data can be read once."""
    if math.isnan(residual) and once:
        return "no residual: it takes another pass, and the data can be read once"
    return f"residual {residual:.2g}, tolerance {tol:.2g}"


def _message(status: Status, notes: Sequence[Finding], remarks: Sequence[str], figures: str) -> str:
    """Return the message: the advice of the status unless a finding gives it, findings, remarks, and figures."""
    # Advice on approximations that are not good enough does not apply to a converged answer.
    if status is Status.CONVERGED:
        notes = [(finding, text) for finding, text in notes if finding is not Status.APPROXIMATE]
    texts = [text for _, text in notes]
    own = [] if any(status is finding for finding, _ in notes) else [status.value]
    return " ".join([*own, *texts, *remarks, f"({figures})"])


def as_interrupted(solution: Any) -> Any:
    """Return a complete solution with the status of an interrupted one."""
    message = f"{Status.INTERRUPTED.value} {solution.message}"
    return replace(solution, status=Status.INTERRUPTED, message=message)


# ---- findings ---------------------------------------------------------------------------------

CHOICE = "The span at the cut is a choice: the next correlation is as large."
"""What is said of an answer beside which others are as good."""


def left_out_nearby(estimate: float, residual: float) -> tuple[Status, str]:
    """Return the finding that others are close to the returned correlations: those left out, or zeros.

    The returned vectors are then perhaps not the leading ones. So the sum of correlations may be too small by a larger
    fraction than the residual shows.

    Parameters
    ----------
    estimate : float
        The fraction of the sum of correlations that may be missing.
    residual : float
        The residual in the same report.

    Returns
    -------
    (Status, str)
        `Status.CLUSTERED` and its text: one of the `notes` of a `Certificate`.

    Examples
    --------
    >>> from linspec.solving import left_out_nearby
    >>> status, text = left_out_nearby(2e-3, 1e-5)
    >>> status.name, "2.0e-03" in text
    ('CLUSTERED', True)
    """
    text = f"Correlations that were left out, or zeros, are close to those returned: about {estimate:.1e} of the sum "
    text += f"may be missing, while the residual is {residual:.1e}. Lower tol, or ask for more pairs."
    return Status.CLUSTERED, text


HIDDEN = 1e-4
"""Rounding is said to hide values if it is above this share of the largest one."""


def fewer_than_asked(
    found: int, wanted: int, what: str, rounding: float = 0.0
) -> tuple[tuple[Status, str], ...]:
    """Return the finding that fewer vectors were found than requested, if so.

    Parameters
    ----------
    found, wanted : int
        The number of returned vectors, and k.
    what : str
        The name of the vectors or values in the message, in the plural.
    rounding : float, default 0.0
        The share of the largest value up to which values count as zero.

    Returns
    -------
    tuple of (Status, str)
        The `notes` of a `Certificate`: empty if there are enough, else one with `Status.RANK_DEFICIENT`, or with
        `Status.ILL_CONDITIONED` if rounding may hide values above 1e-4 of the largest.

    Examples
    --------
    >>> from linspec.solving import fewer_than_asked
    >>> fewer_than_asked(2, 2, "singular values above rounding")
    ()
    >>> fewer_than_asked(2, 3, "singular values above rounding")[0][1]
    '2 of the 3 asked for are returned: there are no more singular values above rounding.'
    """
    if found >= wanted:
        return ()
    none = "no more" if found else "no"
    text = f"{found} of the {wanted} asked for are returned: there are {none} {what}."
    if rounding <= HIDDEN:
        return ((Status.RANK_DEFICIENT, text),)
    text += f" Rounding hides those up to {rounding:.0e} of the largest. Pass float64, or smaller means and confounds."
    return ((Status.ILL_CONDITIONED, text),)


def nearly_explained(problem: Any, name: str, columns: tuple[int, ...]) -> tuple[Status, str]:
    """Return the finding that confounds leave only rounding of some columns."""
    text = (
        f"The confounds explain {len(columns)} of the columns of {name} but for a share of 1e-8 or less of "
    )
    text += (
        f"their squares: {listed(problem, name, columns)}. What is left of them is rounding. Leave them out."
    )
    return Status.ILL_CONDITIONED, text


def about_constant(
    problem: Any, name: str, columns: tuple[int, ...], *, centred: bool, deficient: bool
) -> list[tuple[None, str]]:
    """Return a remark on the constant columns of a matrix, if it has no others or if ranks are deficient."""
    count = problem.matrices[name].shape[1]
    if not columns or not (deficient or len(columns) == count):
        return []
    of_all = f"{len(columns)} of the {count_of(count, 'column')} of {name}"
    what = "constant" if centred else "zero"
    verb = "is" if len(columns) == 1 else "are"
    return [(None, f"{of_all} {verb} {what}: {listed(problem, name, columns)}.")]


FEW = 5
"""The number of columns that a message lists."""


def listed(problem: Any, name: str, columns: tuple[int, ...]) -> str:
    """List the first columns of a matrix by name, or by number from 0 if they have no names."""
    names = problem.column_names.get(name)
    known = [shown(names[j]) if names else str(j) for j in columns[:FEW]]
    return ", ".join(known) + ", …" * (len(columns) > FEW)


def underflowing_columns(name: str, columns: tuple[int, ...]) -> tuple[Status, str]:
    """Return the finding that squares of entries underflow in some columns, although the solution depends on them.

    Parameters
    ----------
    name : str
        The name of the matrix.
    columns : tuple of int
        The numbers of these columns.
    """
    text = f"{len(columns)} of the columns of {name} (the first is column {columns[0]}) are so small that squares of "
    text += "their entries are no numbers: what they say may be missing. Multiply these columns."
    return Status.ILL_CONDITIONED, text


def lost_digits(moments: Any, least: float) -> str:
    """Say that means or confounds have cost digits, if errors above `least` remain; "" if not.

    Parameters
    ----------
    moments : linspec.rows.Moments
        After a pass.
    least : float
    """
    error = max([moments.error_of_means(i) for i in moments.fitted])
    if error <= least:
        return ""
    what = "Means" if moments.pre.B is None else "Means, or what confounds explain,"
    text = f"{what} much larger than the deviations of a column were subtracted from products, not from entries: "
    text += f"relative errors of about {min(error, 1.0):.0e} remain, which the residual does not show. "
    other = "Pass an array or a file" if moments.pre.center else "Pass center=True"
    return text + f"{other}, or subtract a constant from each column."
