"""Selected rows of blocks, fetched to this process: the minibatches of stochastic methods.

Problem: a method that uses a few random rows in each step makes too many steps to run each of them on the workers.
Method: for each block with drawn rows, its worker returns these rows; then all rows are put into the order in which
they were drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from linspec.arrays import HostArray
from linspec.workers.engine import Call, Engine, Handle


@dataclass(frozen=True)
class Chosen:
    """Work that selects rows of some blocks.

    Parameters
    ----------
    places : mapping of int to numpy.ndarray of int
        By the number of a block, the numbers of the rows within it.
    """

    places: dict[int, HostArray]

    def __call__(self, number: int, block: Any) -> Any:
        """The selected rows of one block, as stored."""
        return block[self.places[number]]


def gathered(engine: Engine, handles: Sequence[Handle], edges: Sequence[int], selection: HostArray) -> Any:
    """Fetch selected rows as an array or a CSR matrix, in the requested order.

    Parameters
    ----------
    engine : Engine
    handles : sequence
        Handles of all blocks.
    edges : sequence of int
        The number of the first row of each block, followed by the number of all rows.
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
