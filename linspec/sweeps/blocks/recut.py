"""Blocks cut again, where those of another matrix with the same rows end."""

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
    """Consecutive rows of some consecutive blocks.

    Parameters
    ----------
    cuts : tuple of (int, int)
        By the number of the call: how many rows of its first block are left out, and how many rows are wanted.
    """

    cuts: tuple[tuple[int, int], ...]

    def __call__(self, number: int, *blocks: Any) -> Any:
        """The rows that a call asks for."""
        start, count = self.cuts[number]
        if len(blocks) == 1:
            return blocks[0][start : start + count]
        dense = isinstance(blocks[0], np.ndarray)
        whole = np.concatenate(blocks) if dense else scipy.sparse.vstack(blocks, format="csr")
        return whole[start : start + count]


def recut(
    engine: Engine, handles: Sequence[Handle], layout: Sequence[int], wanted: Sequence[int]
) -> list[Handle]:
    """Handles of the same rows in blocks of other heights.

    Parameters
    ----------
    engine : Engine
    handles : sequence
    layout, wanted : sequence of int
        The rows of the blocks that there are, and of those that are wanted; their sums are equal.
    """
    edges, cuts, calls = [0, *accumulate(layout)], [], []
    for number, (start, stop) in enumerate(pairwise([0, *accumulate(wanted)])):
        touched = [i for i, (a, b) in enumerate(pairwise(edges)) if a < stop and b > start]
        cuts.append((start - edges[touched[0]], stop - start))
        calls.append(Call(number, tuple(handles[i] for i in touched)))
    return engine.map(Rows(tuple(cuts)), calls)
