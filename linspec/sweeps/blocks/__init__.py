"""Rows in blocks that may lie elsewhere: on the workers of a cluster, or in a list in this process.

Read `engine` first.

- `engine`: what has blocks and works on them where they lie, in three methods; `InProcess` is the one of this process;
- `operator`: `BlockOperator`, the matrix whose rows such blocks are;
- `runs`: consecutive blocks that one piece of work takes, and the fixed tree by which results are merged;
- `reduction`: one task over the rows of several operators;
- `kept_rows`: vectors as long as the rows, left where these lie from one sweep to the next;
- `gathered`: some rows, brought here as minibatches;
- `fill`: how many entries sparse Gram matrices of blocks would have;
- `affine_rows`: scores and predictions, left where the rows lie;
- `class_targets`: targets for discriminant analysis, of class labels in blocks.
"""

from linspec.sweeps.blocks.affine_rows import brought_here, row_images
from linspec.sweeps.blocks.engine import Call, Engine, InProcess
from linspec.sweeps.blocks.kept_rows import KeptRows, Step
from linspec.sweeps.blocks.operator import BlockOperator
from linspec.sweeps.blocks.reduction import map_reduce

__all__ = [
    "BlockOperator",
    "Call",
    "Engine",
    "InProcess",
    "KeptRows",
    "Step",
    "brought_here",
    "map_reduce",
    "row_images",
]
