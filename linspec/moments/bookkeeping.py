"""The books of moments: what a run asks of them for its counts and its verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from linspec.moments.aspect import Aspect
from linspec.operators import Ledger


class Bookkeeping(Aspect):
    """Counts and messages of `moments`, for a run; no solver needs them.

    Sweeps and products are counted. Messages name operators whose products are inconsistent.
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

    # ---- checkpoints --------------------------------------------------------------------------

    def learnt(self) -> dict[str, Any]:
        """The form of the moments, and whether Gram matrices are held; a run that goes on forms them again."""
        return {"form": self._moments._form, "held": self._moments.held}

    def take_up(self, learnt: Mapping[str, Any]) -> None:
        """Form the Gram matrices if the earlier run held them."""
        self._moments._form = learnt["form"]
        if learnt["held"]:
            self._moments._held_gram()
