"""A solver is a generator of iterates, and solving is the loop around it: read `solver`, then `loop`."""

from linspec.iteration.by_ridge import ROUNDING, solved_by_ridge, worst
from linspec.iteration.loop import Limits, Outcome, Progress, Saving, run
from linspec.iteration.ritz_pairs import ritz_iterates
from linspec.iteration.solver import Certificate, Context, Iterate, Problem, Solver

__all__ = [
    "ROUNDING",
    "Certificate",
    "Context",
    "Iterate",
    "Limits",
    "Outcome",
    "Problem",
    "Progress",
    "Saving",
    "Solver",
    "ritz_iterates",
    "run",
    "solved_by_ridge",
    "worst",
]
