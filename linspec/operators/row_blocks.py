"""Blocks of rows: their number of rows, and the memory into which they are read one after the other.

A block should stay in the cache of a processor core, or keep an accelerator busy; and it should be larger than the
sum to which its product is added. Sums in float32 run over so few rows that they lose no digits before they are added
into float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from linspec.arrays import Array, Home

LONGEST_STRETCH = 2**12
"""Largest number of rows over which the host sums in float32 before the sum is added into float64."""

HOST_BLOCK_BYTES = 4 << 20
"""Size of a block of rows that stays in the cache of a processor core, in bytes.

In measurements, blocks of 2 to 8 MiB were the fastest.
"""

DEVICE_BLOCK_BYTES = 256 << 20
"""Size of a block that keeps an accelerator busy."""

LARGEST_HOST_BLOCK = 64 << 20
"""The largest size of a block of very wide rows, in bytes."""

LONGEST_DEVICE_STRETCH = 2**17
"""Largest number of rows over which an accelerator sums in float32; fewer rows would not keep it busy."""

FEWEST_ROWS = 256
"""Smallest number of rows of a block, unless the rows are very wide. With fewer rows, adding a block's product to the
sum costs as much as the product."""


def row_blocks(n: int, row_bytes: int, home: Home, sum_bytes: int = 0) -> Iterator[slice]:
    """Slices that together cover `n` rows.

    Parameters
    ----------
    n : int
        Rows.
    row_bytes : int
        Bytes of a row.
    home : Home
        Where the rows are: an accelerator takes larger blocks.
    sum_bytes : int, default 0
        Bytes of the sum to which the product of each block is added: a block should be larger than this sum.
    """
    size = rows_per_block(row_bytes, home, sum_bytes)
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def rows_per_block(row_bytes: int, home: Home, sum_bytes: int = 0) -> int:
    """Number of rows in each block that `row_blocks` yields, except the last."""
    usual, largest = (HOST_BLOCK_BYTES, LARGEST_HOST_BLOCK) if home.on_host else (DEVICE_BLOCK_BYTES,) * 2
    row_bytes = max(row_bytes, 1)
    rows = max(min(max(usual, 4 * sum_bytes), largest) // row_bytes, min(FEWEST_ROWS, largest // row_bytes))
    return int(min(max(rows, 1), longest_stretch(home)))


def longest_stretch(home: Home) -> int:
    """Largest number of rows over which a device sums in float32 before the sum is added into float64."""
    return LONGEST_STRETCH if home.on_host else LONGEST_DEVICE_STRETCH


class RowBuffer:
    """Reusable memory for blocks of rows that are converted or centred.

    New temporary arrays would be returned to the system and cleared again at every block, which takes
    several times as long as the computation in them.
    """

    def __init__(self) -> None:
        self._memory = np.empty(0)

    def less(self, block: Array, row: Array | None, dtype: np.dtype[Any], home: Home) -> Array:
        """Return a block minus a row, in `dtype` at `home`; on the host the result is valid until the next call."""
        if not isinstance(block, np.ndarray):
            block = home.place(block, dtype)
            return block if row is None else block - row[None, :]
        size = block.size * dtype.itemsize
        if size > self._memory.nbytes:
            self._memory = np.empty(-(-size // 8))
        out = self._memory.view(dtype)[: block.size].reshape(block.shape)
        if row is None:
            out[...] = block
        else:
            np.subtract(block, row, out=out, casting="same_kind")
        return out
