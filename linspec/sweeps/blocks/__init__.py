"""Rows in blocks that may be elsewhere: on the workers of a cluster, or in a list in this process.

Read `engine` first.

- `engine`: the interface to an owner of blocks, which runs functions on them without moving them, in three methods;
  `InProcess` is the engine of this process;
- `operator`: `BlockOperator`, the matrix whose rows are in such blocks;
- `readings`: the form in which a block is kept, and the operator made of it in each pass;
- `recut`: blocks cut again at the boundaries of another matrix;
- `runs`: consecutive blocks that one piece of work processes, and the fixed tree by which results are merged;
- `reduction`: one task over the rows of several operators;
- `gathered`: selected rows, fetched to this process as minibatches;
- `fill`: the number of entries that sparse Gram matrices of blocks would have.

Targets for discriminant analysis of class labels in blocks are in `linspec.targets.of_blocks`.
"""

from linspec.sweeps.blocks.engine import Call, Engine, InProcess
from linspec.sweeps.blocks.operator import BlockOperator, brought_here
from linspec.sweeps.blocks.reduction import map_reduce

__all__ = [
    "BlockOperator",
    "Call",
    "Engine",
    "InProcess",
    "brought_here",
    "map_reduce",
]
