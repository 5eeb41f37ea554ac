"""Rows in blocks that may be elsewhere: on the workers of a cluster, or in a list in this process.

`engine` has the interface to an owner of blocks, which runs functions on them without moving them, in three methods;
`InProcess`, the engine of this process; and `BlockOperator`, the matrix whose rows are in such blocks.
`linspec.rows.on_workers` makes passes over such rows.
"""

from linspec.workers.engine import BlockOperator, Call, Engine, InProcess, brought_here

__all__ = [
    "BlockOperator",
    "Call",
    "Engine",
    "InProcess",
    "brought_here",
]
