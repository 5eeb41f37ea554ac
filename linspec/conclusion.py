"""What a law is told, and what it makes of a solver's arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from linspec.solution import Status


@dataclass(frozen=True)
class Conclusion:
    """What a law makes of a solver's arrays: the fields of the solution, and the verdict.

    Attributes
    ----------
    fields : mapping of str to arrays and numbers
    residual : float
    findings : tuple of (Status, str)
    kind : str
        `Solution.residual_kind`, where it says more than where the products came from.
    lost : bool
        Whether directions are missing that the data have: then nothing has converged, whatever the residual.
    """

    fields: Mapping[str, Any]
    residual: float
    findings: tuple[tuple[Status, str], ...] = ()
    kind: str = ""
    lost: bool = False


@dataclass(frozen=True)
class Terms:
    """What the run says to a law.

    Attributes
    ----------
    tol : float
        The tolerance in force.
    room : float
        Passes that the law may make beyond its own.
    """

    tol: float = 0.0
    room: float = math.inf


NO_TERMS = Terms()
"""An answer is judged for itself."""


def fewer_than_asked(found: int, wanted: int, what: str) -> tuple[tuple[Status, str], ...]:
    """A finding where there are fewer than were asked for."""
    if found >= wanted:
        return ()
    return (
        (Status.RANK_DEFICIENT, f"{found} of the {wanted} asked for are returned: there are no more {what}."),
    )
