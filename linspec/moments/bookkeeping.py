"""The books of moments: what a run asks of them for its counts, its verdict and its checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from linspec.arrays import Home
from linspec.moments.aspect import Aspect, one_at_a_time
from linspec.operators import Ledger
from linspec.sweeps.held_grams import DenseGram
from linspec.sweeps.witness import Witness


class Bookkeeping(Aspect):
    """Counts, messages and checkpoint data of `moments`, for a run; no solver needs them.

    Sweeps and products are counted. Messages name operators whose products are inconsistent. A checkpoint saves the
    results of all sweeps, and the witnesses: sums that identify the rows.
    """

    # ---- counts -------------------------------------------------------------------------------

    @property
    def own_passes(self) -> float:
        """The number of sweeps by the calling thread over the view that it swept most often."""
        return max(view.ledger.own_sweeps for view in self._views)

    @property
    def spent(self) -> bool:
        """Whether no further product is possible: the data were read once, and no Gram matrix is held."""
        return not self._moments.held and any(getattr(view.operator, "spent", False) for view in self._views)

    @property
    def contradictions(self) -> tuple[str, ...]:
        """Messages about operators whose first products were not those of a matrix and its transpose."""
        return tuple(view.contradiction for view in self._views if view.contradiction)

    def columns_made(self, index: int) -> float:
        """The number of vectors by which a view or its transpose has been multiplied so far.

        A product with a block of k columns counts k vectors.

        Parameters
        ----------
        index : int
            The view.
        """
        return self._views[index].ledger.columns

    def counts_in(self, ledger: Ledger) -> bool:
        """Whether at least one of the views counts its sweeps in the given ledger.

        Parameters
        ----------
        ledger : Ledger
        """
        return any(view.ledger is ledger for view in self._views)

    def forget_views(self) -> None:
        """Drop the cached moments of single views.

        They refer back to these moments. Without the reference cycle, memory is freed as soon as these moments are no
        longer used.
        """
        self._moments._alone.clear()

    # ---- what identifies the rows -------------------------------------------------------------

    def ask_for_witnesses(self, before: Mapping[str, float], known: Mapping[str, Witness | None]) -> None:
        """Request that the next sweep of each view computes its witness.

        Parameters
        ----------
        before : mapping from str to float
            By the name of a view, the number of sweeps in its ledger at the beginning of the run. Later sweeps count as
            made after the request. By default the present number.
        known : mapping from str to Witness or None
            By the name of a view, the witness that an earlier reading in the run has computed. For such a view no
            other witness is computed.
        """
        for view in self._views:
            view.asked_at = before.get(view.name, view.ledger.sweeps)
            view.witness = known.get(view.name)

    @one_at_a_time
    def witnesses(self, *, read: bool = False) -> dict[str, Witness]:
        """The witnesses, which identify the rows, by the names of their views.

        If a view was swept since the request, and the sweep computed no witness, its rows are read once more. This
        reading is counted as a sweep, unless the entries are in memory.

        Parameters
        ----------
        read : bool, default False
            Whether to read the rows of a view that was not swept since the request, too. If False, such a view is
            missing in the result.
        """
        for view in self._views:
            if view.lacks_witness and (read or view.swept):
                self._sweeps.identify(view)
        return {view.name: view.witness for view in self._views if view.witness is not None}

    # ---- checkpoints --------------------------------------------------------------------------

    def learnt(self) -> dict[str, Any]:
        """The results of all sweeps so far and the held matrices, for a checkpoint."""
        views = [
            {
                # The adjustment of a matrix of the problem is stored with the problem.
                "adjustment": None if view.given.adjustment is view.adjustment else view.adjustment.learnt(),
                "estimated": view.estimated,
                "unresolved": view.unresolved,
                "warned": view._warned,
                "contradiction": view.contradiction,
            }
            for view in self._views
        ]
        moments = self._moments
        return {"form": moments._form, "gram": moments._gram, "cross": moments._cross, "views": views}

    def take_up(self, learnt: Mapping[str, Any]) -> None:
        """Restore the state that `learnt` returned, and copy its arrays from the host to the device of the blocks.

        Parameters
        ----------
        learnt : mapping
        """
        moments = self._moments
        moments._form = learnt["form"]
        moments._gram = _placed(learnt["gram"], self.home)
        moments._cross = None if learnt["cross"] is None else self.home.place(learnt["cross"])
        for view, known in zip(self._views, learnt["views"], strict=True):
            if known["adjustment"] is not None:
                view.adjustment.take_up(known["adjustment"], self.home)
            view.estimated = _placed(known["estimated"], self.home)
            view.unresolved, view._warned = known["unresolved"], known["warned"]
            view.contradiction = known["contradiction"]


def _placed(value: Any, home: Home) -> Any:
    """Copy host arrays, and held matrices that consist of them, to the device of the blocks."""
    if isinstance(value, np.ndarray):
        return value if home.on_host else home.place(value)
    if isinstance(value, list):
        return [_placed(one, home) for one in value]
    if isinstance(value, DenseGram) and not home.on_host:
        vars(value).update({name: _placed(one, home) for name, one in vars(value).items()})
    return value
