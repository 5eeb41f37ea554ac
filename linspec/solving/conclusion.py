"""The input of a law from the run, and its result from a solver's arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from linspec.status import Status


@dataclass(frozen=True)
class Conclusion:
    """The result of a problem's law for a solver's arrays: the fields of the solution, and the verdict.

    The law of a problem is its method `conclude`, which judges the arrays that a solver returns.

    Parameters
    ----------
    fields : mapping of str to arrays and numbers
    residual : float
    findings : tuple of (Status or None, str), default ()
        A status of None leaves the status unchanged; its text goes into the message.
    kind : str, default ""
        `Solution.residual_kind`, if the law states it. By default the run states from which products the residual was
        computed, such as "recomputed" or "from-gram".
    lost : bool, default False
        Whether the law has found that vectors are missing in the answer, such as those of directions that rounding
        has hidden. Then the run has not converged, whatever the residual.
    least : float, default 0.0
        The residual that rounding of the data leaves in a backward stable answer: the tolerance in force is no smaller.
    passes : float, default 0.0
        The passes that the law has made and that no `Moments` have counted.

    Examples
    --------
    >>> import linspec as ls
    >>> ls.Conclusion(fields={"x": 0.0}, residual=1e-9).residual
    1e-09
    """

    fields: Mapping[str, Any]
    residual: float
    findings: tuple[tuple[Status | None, str], ...] = ()
    kind: str = ""
    lost: bool = False
    least: float = 0.0
    passes: float = 0.0


@dataclass(frozen=True)
class Terms:
    """The values that the run gives to a law, as the argument `terms` of `Problem.conclude`.

    Parameters
    ----------
    tol : float, default 0.0
        The tolerance in force.
    passes_left : float, default infinity
        The passes that the law may make in addition to those of the certificate, which are always reserved.
    underflowing : bool, default False
        Whether squares of some columns underflow. The law then has no bound for what these columns contribute to the
        answer.
    complete : bool, default False
        Whether to prove that no component larger than the last returned one is missing in the answer. The proof may
        cost more than the solve.
    passes : float, default 0.0
        The passes that the run has made so far.

    Examples
    --------
    >>> from linspec.solving import Terms
    >>> Terms(tol=1e-6)
    Terms(tol=1e-06, passes_left=inf, underflowing=False, complete=False, passes=0.0)
    """

    tol: float = 0.0
    passes_left: float = math.inf
    underflowing: bool = False
    complete: bool = False
    passes: float = 0.0


DEFAULT_TERMS = Terms()
"""The default terms, for an answer outside a run: `Terms()`."""


def left_out_nearby(estimate: float, residual: float) -> tuple[Status, str]:
    """Return the finding that correlations close to the last returned one were left out.

    The returned correlations are then perhaps not the largest ones. So their sum may be too small by a larger
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
        `Status.CLUSTERED` and its text: one of the `findings` of a `Conclusion`.

    Examples
    --------
    >>> from linspec.solving import left_out_nearby
    >>> status, text = left_out_nearby(2e-3, 1e-5)
    >>> status.name, "2.0e-03" in text
    ('CLUSTERED', True)
    """
    text = f"Correlations that were left out are close to those returned: about {estimate:.1e} of the sum may be "
    text += f"missing, while the residual is {residual:.1e}. Lower tol, or ask for more pairs."
    return Status.CLUSTERED, text


def fewer_than_asked(found: int, wanted: int, what: str) -> tuple[tuple[Status, str], ...]:
    """Return the finding that fewer vectors were found than requested, if so.

    Parameters
    ----------
    found, wanted : int
        The number of returned vectors, and k.
    what : str
        The name of the vectors or values in the message, in the plural.

    Returns
    -------
    tuple of (Status, str)
        The `findings` of a `Conclusion`: empty if there are enough, else one with `Status.RANK_DEFICIENT`.

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
    return (
        (Status.RANK_DEFICIENT, f"{found} of the {wanted} asked for are returned: there are {none} {what}."),
    )
