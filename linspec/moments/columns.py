"""Facts about the columns of the views: means, squared lengths, and the size of what was subtracted from them."""

from __future__ import annotations

import math

import numpy as np

from linspec.algebra.small_matrices import ratio
from linspec.arrays import Array, at_home, to_host
from linspec.moments.aspect import Aspect, one_at_a_time
from linspec.moments.by_products import CONSTANT
from linspec.operators.adjustment import Adjustment
from linspec.operators.dense import DenseOperator
from linspec.operators.sparse import SparseOperator
from linspec.sweeps.held_grams import HeldGram
from linspec.sweeps.views import View

MEASURED_ROWS = 1000
"""Largest number of rows from which the share of the means in a component is estimated."""


class Columns(Aspect):
    """Facts about the columns of the views of `moments`.

    Attributes
    ----------
    exact : bool
        Whether squared lengths are exact, or estimated from probes.
    confounded : bool
        Whether confounds are subtracted from the columns.
    means_cost, adjustment_cost : float
        The passes that `means`, and `adjustment`, would take now.
    """

    # ---- means --------------------------------------------------------------------------------

    @one_at_a_time
    def means(self) -> tuple[Array, ...]:
        """The column means of each view."""
        if self._moments.form != "implicit" and self._moments.center:
            self._moments._held_gram()
        self._sweeps.gather([view for view in self._views if view.adjustment.mean is None])
        return tuple(view.adjustment.mean_as_given for view in self._views)

    @at_home
    def sums(self) -> tuple[Array, ...]:
        """The column sums of each view."""
        return tuple(mean * self._moments.n for mean in self.means())

    @property
    def means_cost(self) -> float:
        """The passes that `means` would take now."""
        known = all(view.adjustment.mean is not None for view in self._views)
        return 0.0 if known else self._moments.cost.setup or 1.0

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

    @at_home
    def squares(self) -> Array | None:
        """The sum of the squared entries of each column of X, about the column means with centring. Makes no sweep.

        Returns
        -------
        array of shape (p,) or None
            None before the sweep that computes it, and for operators that only give products: they would need
            a product with every column of the identity.
        """
        view = self._views[0]
        if self._moments.held:
            return self._moments._held_gram().diagonals()[0]
        return _exact_squares(view)

    @at_home
    def total_squares(self) -> float | None:
        """The sum of `squares`, or None if `squares` is None."""
        squares = self.squares()
        return None if squares is None else float(to_host(self.home.xp.sum(squares)))

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

    @at_home
    def share_of_means(self, v: Array, squares: float) -> float | None:
        """The share of ‖Xv‖² that the mean of Xv over the rows makes, n (mean)² / ‖Xv‖². Makes no sweep.

        It is computed from the column means if a sweep has found them, or else estimated from evenly spread rows of
        arrays and sparse matrices; None for other data, and with centring.

        Parameters
        ----------
        v : array of shape (p,)
        squares : float
            ‖Xv‖².
        """
        view = self._views[0]
        if view.model.center:
            return None
        mean, factors = view.adjustment.mean_as_given, view.adjustment.factors
        if mean is not None and view.model.basis is None:
            along = v if factors is None else v * factors
            return min(ratio(float(to_host(self.home.xp.sum(mean * along))) ** 2 * view.total, squares), 1.0)
        if not isinstance(view.operator, DenseOperator | SparseOperator):
            return None
        n = int(view.given.shape[0])
        sample = np.linspace(0, n - 1, min(n, MEASURED_ROWS)).astype(np.intp)
        rows = view.given.rows(sample)
        z = to_host(rows.matmat(rows.home.place(v, rows.dtype)[:, None]))[:, 0].astype(np.float64)
        z /= max(float(np.max(np.abs(z))), np.finfo(np.float64).tiny)
        weights = view.model.weights
        roots = np.ones(len(z)) if weights is None else np.sqrt(weights[sample])
        return ratio(float(roots @ z) ** 2, float(roots @ roots) * float(z @ z))

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

    @property
    def most_rank(self) -> float:
        """Upper bound of the rank of each adjusted view.

        It is the number of rows with positive weight, minus the number of directions that are projected out of the
        columns: the constant with centring, and the confounds.
        """
        model = self._sweeps.model
        rows = self._moments.n if model.weights is None else np.count_nonzero(model.weights)
        return float(rows - model.removed)

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
    def subtracted_from_products(self, index: int) -> float:
        """The sum of the squared column lengths that are subtracted from products of one view, and not from entries.

        The parts that confounds explain are always subtracted from products. Means are subtracted from products if the
        entries are sparse or unknown, and no Gram matrices are held that were computed from centred entries. Without
        confounds, and with means subtracted from the entries, the sum is 0.

        Parameters
        ----------
        index : int
        """
        view, known = self._views[index], self._views[index].adjustment
        if known.lacks_mean:
            self.means()
        squares = known.explained_squares
        if view.subtracts_from_products and not (self._moments.held and self._sweeps.by_entries):
            of_means = self.home.place(known.row) ** 2 * view.total
            squares = of_means if squares is None else squares + of_means
        if squares is None:
            return 0.0
        # One factor after the other, because squares of factors may overflow.
        squares = squares if known.factors is None else squares * known.factors * known.factors
        return float(to_host(self.home.xp.sum(squares)))

    @at_home
    def centring_error(self, index: int | None = None) -> float:
        """The approximate rounding error that subtracting means and confounds leaves in the columns. Makes no sweep.

        It is relative to the lengths of the columns after the subtraction, for the worst column. It is 0 if the means
        are subtracted from the entries, and confounds are either absent or were removed in held reduced rows.

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
        of_rows = held is not None and held.rows is not None
        if view.adjustment.lost > 1.0 and not of_rows:
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
