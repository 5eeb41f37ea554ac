"""Rows in blocks, and what is summed over them in one pass: read `executor`, `reductions`, `moments`, `cells`."""

from linspec.rows.cells import Cell, SecondMoments, cells_of
from linspec.rows.executor import LOCAL, Executor, Reduction
from linspec.rows.moments import Moments
from linspec.rows.passes import OutOfPasses, Passes
from linspec.rows.preprocessing import Fitted, Preprocessing

__all__ = [
    "LOCAL",
    "Cell",
    "Executor",
    "Fitted",
    "Moments",
    "OutOfPasses",
    "Passes",
    "Preprocessing",
    "Reduction",
    "SecondMoments",
    "cells_of",
]
