"""Rows in blocks, and what is summed over them in one pass. Read `executor`, then `reductions`, then `moments`."""

from linspec.rows.executor import LOCAL, Executor, Reduction
from linspec.rows.moments import Moments
from linspec.rows.passes import OutOfPasses, Passes
from linspec.rows.preprocessing import Fitted, Preprocessing

__all__ = ["LOCAL", "Executor", "Fitted", "Moments", "OutOfPasses", "Passes", "Preprocessing", "Reduction"]
