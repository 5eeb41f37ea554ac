"""Facts about the columns of the views: means, squared lengths, and the size of what was subtracted from them."""

from __future__ import annotations

import math

import numpy as np

from linspec.arrays import Array, at_home, to_host
from linspec.moments.aspect import Aspect, one_at_a_time
from linspec.moments.by_products import CONSTANT
from linspec.operators.adjustment import Adjustment
from linspec.sweeps.held_grams import HeldGram
from linspec.sweeps.views import View


class Columns(Aspect):
    """Facts about the columns of the views of `moments`.

    Attributes
    ----------
    exact : bool
        Whether squared lengths are exact, or estimated from probes.
    confounded : bool
        Whether confounds are subtracted from the columns.
    adjustment_cost : float
        The passes that `adjustment` would take now.
    """

    # ---- means --------------------------------------------------------------------------------

    @one_at_a_time
    def means(self) -> tuple[Array, ...]:
        """The column means of each view."""
        if self._moments.form != "implicit" and self._moments.center:
            self._moments._held_gram()
        self._sweeps.gather([view for view in self._views if view.adjustment.mean is None])
        return tuple(view.adjustment.mean_as_given for view in self._views)

    @one_at_a_time
    def adjustment(self, index: int) -> Adjustment:
        """The complete adjustment of one view: what is subtracted from its rows, and the factors of its columns.

        Parameters
        ----------
        index : int
        """
        own = self._views[index].adjustment
        if own.lacks_mean:
            self.means()
        self._sweeps.gather([] if own.known else [self._views[index]])
        return own

    @property
    def adjustment_cost(self) -> float:
        """The passes that `adjustment` would take now."""
        return float(any(not view.adjustment.known for view in self._views))

    # ---- squared lengths ----------------------------------------------------------------------

    @property
    def exact(self) -> bool:
        """Whether squared lengths are exact, or estimated from probes."""
        return self._sweeps.exact_norms or self._moments.form != "implicit"

    @at_home
    def known_diagonals(self) -> list[Array] | None:
        """The exact diagonals of the Gram matrices. Makes no sweep.

        None if no earlier sweep has computed them. Also None if Gram matrices are not held and the operator of a view
        is not `readable`: for one that gives only products, there are only estimates.
        """
        if self._moments.held:
            return list(self._moments._held_gram().diagonals())
        found = [_exact_squares(view) for view in self._views]
        return None if any(d is None for d in found) else found

    @property
    def constant(self) -> tuple[tuple[int, ...], ...]:
        """For each view, the columns of which nothing is left beyond the rounding of their subtracted means.

        Makes no sweep: it is empty before the sweep that computes the lengths of the columns, and for operators that
        only give products. Columns that confounds explain are left out.
        """
        found = []
        for i, squares in enumerate(self.known_diagonals() or ()):
            view, left = self._views[i], to_host(squares)
            subtracted = self.squares_subtracted(i) if view.adjustment.known else None
            limit = (CONSTANT * float(np.finfo(view.given.dtype).eps)) ** 2
            least = np.zeros(len(left)) if subtracted is None else limit * to_host(subtracted)
            columns = np.flatnonzero(left <= least)
            explained = view.adjustment.nearly_explained
            found.append(tuple(int(j) for j in columns if j not in explained))
        return tuple(found)

    # ---- what was subtracted ------------------------------------------------------------------

    @property
    def confounded(self) -> bool:
        """Whether confounds are subtracted from the columns."""
        return any(view.model.basis is not None for view in self._views)

    @property
    def explained(self) -> dict[str, tuple[int, ...]]:
        """By the name of a view, the columns that the confounds explain almost completely.

        Views without such columns are left out. So are views whose column norms are not computed yet, and operators
        that give only products, whose exact norms are never computed.
        """
        found = {view.name: view.adjustment.nearly_explained for view in self._views}
        return {name: columns for name, columns in found.items() if columns}

    @property
    def underflowing(self) -> dict[str, tuple[int, ...]]:
        """For each scaled view, the columns that are too small to divide by: their squares lose digits to underflow."""
        found = {view.name: view.adjustment.underflowing for view in self._views}
        return {name: columns for name, columns in found.items() if columns}

    @at_home
    def squares_subtracted(self, index: int) -> Array | None:
        """For each column of one view, a squared length that measures the rounding error left by the subtraction.

        The root of this number, times the unit of rounding, estimates the length of the error in the column. For means
        the number is the squared length of the subtracted part. For confounds the squared length of the part that they
        explain is multiplied by the square of their condition number, because rounding errors grow by the condition
        number. With means and confounds, both numbers are added. None if nothing is subtracted.

        Parameters
        ----------
        index : int
        """
        view, known = self._views[index], self._views[index].adjustment
        if not known.known:
            self.means()
        of_means = None if not view.model.center else self.home.place(known.mean) ** 2 * view.total
        explained = known.explained_squares
        if explained is not None:
            explained = explained * view.model.condition**2
        if of_means is None or explained is None:
            found = explained if of_means is None else of_means
        else:
            found = of_means + explained
        if found is None or known.factors is None:
            return found
        # Columns whose squares overflow are reported elsewhere.
        with np.errstate(over="ignore", invalid="ignore"):
            return found * known.factors**2

    @at_home
    def centring_error(self, index: int | None = None) -> float:
        """The approximate rounding error that subtracting means and confounds leaves in the columns. Makes no sweep.

        It is relative to the lengths of the columns after the subtraction, for the worst column. It is 0 if the means
        are subtracted from the entries, and confounds are absent.

        Parameters
        ----------
        index : int, optional
            The view; by default the largest error of all views is returned.
        """
        held = self._moments._held_gram() if self._moments.held else None
        squares = [view.squares for view in self._views] if held is None else held.diagonals()
        pairs = list(zip(self._views, squares, strict=True))
        return max(
            self._cancelled(*pair, held) for pair in (pairs if index is None else pairs[index : index + 1])
        )

    def _cancelled(self, view: View, squares: Array | None, held: HeldGram | None) -> float:
        eps = float(np.finfo(view.operator.dtype).eps)
        if view.unresolved:
            return 1.0
        if view.adjustment.lost > 1.0:
            rounding = eps if held is None else float(np.finfo(np.float64).eps)
            ratio = view.adjustment.lost  # a ratio of squares; the error is relative to lengths
            lost: float = rounding * max(ratio, view.model.condition * math.sqrt(ratio - 1))
            return max(lost, self._cancelled_by_means(view, squares, held, eps))
        return self._cancelled_by_means(view, squares, held, eps)

    def _cancelled_by_means(
        self, view: View, squares: Array | None, held: HeldGram | None, eps: float
    ) -> float:
        if not view.subtracts_from_products:
            return 0.0
        lost = view.cancelled(squares)
        return eps * (lost if held is None else held.magnified(lost, by_entries=self._sweeps.by_entries))


def _exact_squares(view: View) -> Array | None:
    """The squared lengths of the columns that a sweep over entries has computed; None before it, and of products."""
    return view.adjustment.squares if view.operator.readable or view.streamed else None
