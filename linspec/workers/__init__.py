"""Rows in blocks that may be elsewhere: on the workers of a cluster, or in a list in this process.

Read `engine` first.

- `engine`: the interface to an owner of blocks, which runs functions on them without moving them, in three methods;
  `InProcess` is the engine of this process;
- `operator`: `BlockOperator`, the matrix whose rows are in such blocks, and what is done with one of them.

`linspec.rows.on_workers` makes passes over such rows.
"""

from linspec.workers.engine import Call, Engine, InProcess
from linspec.workers.operator import BlockOperator, brought_here

__all__ = [
    "BlockOperator",
    "Call",
    "Engine",
    "InProcess",
    "brought_here",
]
