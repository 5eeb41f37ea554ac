"""A solver is a generator of iterates, and solving is the loop around it: read `loop`."""

from linspec.iteration.by_ridge import ROUNDING, solved_by_ridge, worst
from linspec.iteration.loop import Certificate, Context, Iterate, Outcome, Progress, run
from linspec.iteration.ritz_pairs import ritz_iterates

__all__ = [
    "ROUNDING",
    "Certificate",
    "Context",
    "Iterate",
    "Outcome",
    "Progress",
    "ritz_iterates",
    "run",
    "solved_by_ridge",
    "worst",
]
