"""The input of a law from the run, and its result from a solver's arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from linspec.solving.solution import Status


@dataclass(frozen=True)
class Conclusion:
    """The result of a law for a solver's arrays: the fields of the solution, and the verdict.

    Attributes
    ----------
    fields : mapping of str to arrays and numbers
    residual : float
    findings : tuple of (Status or None, str)
        None: text for the message, which changes no status.
    kind : str
        `Solution.residual_kind`, if it tells more than the source of the products.
    lost : bool
        Whether directions of the data are missing. Then the run has not converged, whatever the residual.

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


@dataclass(frozen=True)
class Terms:
    """The values that the run gives to a law.

    Attributes
    ----------
    tol : float
        The tolerance in force.
    passes_left : float
        The passes that the law may make in addition to its own.
    underflowing : bool
        Whether columns have no squares: nothing bounds what they would add.
    """

    tol: float = 0.0
    passes_left: float = math.inf
    underflowing: bool = False


NO_TERMS = Terms()
"""The default terms, for an answer outside a run."""


def without_answer(conclusion: Conclusion, what: str) -> Conclusion:
    """The conclusion on an empty answer to data in which there is something to find: the run has not converged."""
    text = f"Nothing is returned, although {what}."
    return replace(conclusion, findings=((Status.INCOMPLETE, text), *conclusion.findings), lost=True)


def left_out_nearby(estimate: float, residual: float) -> tuple[Status, str]:
    """The finding that more of the sum of the correlations may be missing than the residual says."""
    text = f"Correlations that were left out are close to those returned: about {estimate:.1e} of the sum may be "
    text += f"missing, while the residual is {residual:.1e}. Lower tol, or ask for more pairs."
    return Status.CLUSTERED, text


def fewer_than_asked(found: int, wanted: int, what: str) -> tuple[tuple[Status, str], ...]:
    """A finding if there are fewer than k."""
    if found >= wanted:
        return ()
    return (
        (Status.RANK_DEFICIENT, f"{found} of the {wanted} asked for are returned: there are no more {what}."),
    )
