"""One pass over the rows: what is made of them (tasks), who makes it (runners), and rows that lie in blocks elsewhere.

Read `task` first: what a task is, and the tree by which its parts are merged. `statistics`, `products`,
`gram_matrices`, `triangles`, `finite` and `images` are tasks. `runners` makes them of all rows: `in_memory` by threads,
`slices` as they come, and `blocks` where they lie. `views` is a matrix with what is subtracted from it, and
`held_grams` keeps Gram matrices that answer without a sweep.
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
    "KeptRows": "linspec.sweeps.blocks",
    "Minibatches": "linspec.sweeps.minibatches",
    "RandomRows": "linspec.sweeps.minibatches",
    "Step": "linspec.sweeps.blocks",
    "Task": "linspec.sweeps.task",
    "equal_slices": "linspec.sweeps.minibatches",
    "random_order": "linspec.sweeps.minibatches",
    "row_images": "linspec.sweeps.blocks",
    "rows_at_once": "linspec.sweeps.minibatches",
}

__all__ = list(_HOLDERS)
__getattr__, __dir__ = lazy_names(__name__, _HOLDERS)
