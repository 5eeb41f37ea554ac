"""Blocks cut again at the boundaries of the blocks of another matrix with the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import scipy.sparse

from linspec.sweeps.blocks.engine import Call, Engine, Handle


@dataclass(frozen=True)
class Rows:
    """Work that cuts consecutive rows out of consecutive blocks.

    Parameters
    ----------
    cuts : tuple of (int, int)
        For each call: how many rows of the first block to skip, and how many rows to return.
    """

    cuts: tuple[tuple[int, int], ...]

    def __call__(self, number: int, *blocks: Any) -> Any:
        """Cut the rows of the call with index `number` out of its blocks, as `cuts[number]` says, and return them."""
        start, count = self.cuts[number]
        if len(blocks) == 1:
            return blocks[0][start : start + count]
        dense = isinstance(blocks[0], np.ndarray)
        whole = np.concatenate(blocks) if dense else scipy.sparse.vstack(blocks, format="csr")
        return whole[start : start + count]


def recut(
    engine: Engine, handles: Sequence[Handle], layout: Sequence[int], wanted: Sequence[int]
) -> list[Handle]:
    """Cut the same rows into blocks with other numbers of rows; return the handles of the new blocks.

    Parameters
    ----------
    engine : Engine
    handles : sequence
    layout, wanted : sequence of int
        The numbers of rows of the existing blocks, and of the new ones; their sums are equal.
    """
    edges, cuts, calls = [0, *accumulate(layout)], [], []
    for number, (start, stop) in enumerate(pairwise([0, *accumulate(wanted)])):
        touched = [i for i, (a, b) in enumerate(pairwise(edges)) if a < stop and b > start]
        cuts.append((start - edges[touched[0]], stop - start))
        calls.append(Call(number, tuple(handles[i] for i in touched)))
    return engine.map(Rows(tuple(cuts)), calls)
