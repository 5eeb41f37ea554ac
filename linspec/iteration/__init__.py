"""A solver is a generator of iterates, and solving is the loop around it: read `solver`, then `loop`."""

from linspec.iteration.checkpoint import Saving, read_start
from linspec.iteration.loop import Outcome, run
from linspec.iteration.solver import Certificate, Context, Iterate, Problem, Solver

__all__ = [
    "Certificate",
    "Context",
    "Iterate",
    "Outcome",
    "Problem",
    "Saving",
    "Solver",
    "read_start",
    "run",
]
