"""One pass over the rows: the computations (tasks), the code that runs them (runners), and rows in distributed blocks.

Read `task` first: it defines tasks, and the tree by which their parts are merged. `statistics`, `products`,
`gram_matrices`, `gradients`, `finite` and `images` are tasks. `runners` runs them over all rows:
`in_memory` on threads, `slices` one slice after the other, and `blocks` on the workers that hold the blocks.
`views` is a matrix with its adjustment, and `held_grams` keeps Gram matrices, so that products with them need no sweep.
"""

from __future__ import annotations

from linspec.process.lazy_names import lazy_names

_HOLDERS = {
    "BlockOperator": "linspec.sweeps.blocks",
    "Call": "linspec.sweeps.blocks",
    "DEVICE_FACTOR": "linspec.sweeps.minibatches",
    "Engine": "linspec.sweeps.blocks",
    "FEWEST_ROWS": "linspec.sweeps.minibatches",
    "InProcess": "linspec.sweeps.blocks",
    "Minibatches": "linspec.sweeps.minibatches",
    "RandomRows": "linspec.sweeps.minibatches",
    "Task": "linspec.sweeps.task",
    "equal_slices": "linspec.sweeps.minibatches",
    "random_order": "linspec.sweeps.minibatches",
    "row_slices": "linspec.sweeps.in_memory",
    "rows_at_once": "linspec.sweeps.minibatches",
}

__all__ = list(_HOLDERS)
__getattr__, __dir__ = lazy_names(__name__, _HOLDERS)
