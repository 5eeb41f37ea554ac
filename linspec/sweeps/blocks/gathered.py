"""Some rows of blocks, brought here: the minibatches of stochastic methods.

Problem: a method that takes a few random rows in each step cannot go to where the rows lie for each of them.
Method: the rows that were drawn are told to the blocks that have them, one piece of work for each block, and come here
in the order in which they were drawn. Whoever draws takes runs of neighbouring rows (`linspec.sweeps.minibatches`),
so that few blocks are asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from linspec.arrays import HostArray
from linspec.sweeps.blocks.engine import Call, Engine, Handle

RUN_BYTES = 1 << 18
"""Bytes of the neighbouring rows that are brought here together."""


@dataclass(frozen=True)
class Chosen:
    """Rows of some blocks.

    Parameters
    ----------
    places : mapping of int to numpy.ndarray of int
        By the number of a block, the numbers of rows within it.
    """

    places: dict[int, HostArray]

    def __call__(self, number: int, block: Any) -> Any:
        """Those of one block, as they are stored."""
        return block[self.places[number]]


def gathered(engine: Engine, handles: Sequence[Handle], edges: Sequence[int], selection: HostArray) -> Any:
    """Some rows as an array or as compressed rows, in the order asked for.

    Parameters
    ----------
    engine : Engine
    handles : sequence
        Of all blocks.
    edges : sequence of int
        The number of the first row of each block, and that of all rows.
    selection : numpy.ndarray of int
        Numbers of rows.
    """
    blocks = np.searchsorted(edges, selection, side="right") - 1
    order = np.argsort(blocks, kind="stable")
    touched, starts = np.unique(blocks[order], return_index=True)
    parts = np.split(selection[order], starts[1:])
    places = {int(i): part - edges[i] for i, part in zip(touched, parts, strict=True)}
    found = engine.fetch_once(engine.map(Chosen(places), [Call(i, (handles[i],)) for i in places]))
    dense = isinstance(found[0], np.ndarray)
    rows = np.concatenate(found) if dense else scipy.sparse.vstack(found, format="csr")
    return rows if np.all(np.diff(blocks) >= 0) else rows[np.argsort(order)]
