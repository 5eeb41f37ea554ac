"""Where products come from: Gram matrices that are held, or a sweep each; and what is known without a sweep.

Problem: some data are best reduced to their Gram matrices at once, others are best swept at every product, and budgets
are to know beforehand which.
Method: the least estimated time among the forms that fit into their share of the memory, decided at the first look
(`linspec.cost`). The moments of one view take part in what those of both views hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from linspec import cost
from linspec.arrays import Array, Home, at_home, on_device, to_host
from linspec.errors import InvalidProblem
from linspec.moments.ways import sweeps_of
from linspec.operators import CountedOperator, LinearOperator
from linspec.process.log import LOG, tells
from linspec.process.pauses import pause
from linspec.process.turns import in_turn
from linspec.sweeps.held_grams import DenseGram, HeldGram, Products
from linspec.sweeps.views import View
from linspec.sweeps.witness import Witness

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="Source")


def one_at_a_time(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """A method that one thread at a time runs, on the device of the blocks.

    Held matrices are formed once, and every sweep is counted rightly.
    """

    @wraps(method)
    def alone(self: S, *args: P.args, **kwargs: P.kwargs) -> R:
        with in_turn(self._both or self), on_device(self.home):
            return method(self, *args, **kwargs)

    return alone  # type: ignore[return-value]  # it is called like the method


class Source:
    """The views of a problem, and the form in which their second moments are had.

    Attributes
    ----------
    center : bool
        Whether the column means are taken out.
    home : Home
        Where blocks and results live.
    """

    def _set_up(self, views: list[View], *, center: bool, form: str, expect: tuple[int, int]) -> None:
        self._views = views
        self.center = center
        self._sweeps = sweeps_of(views, center=center)
        self.home: Home = self._sweeps.home
        self._given_form = form
        self._expect = expect
        self._form = ""
        self._gram: HeldGram | None = None
        self._both: Source | None = None
        self._index = 0

    # ---- facts --------------------------------------------------------------------------------

    @property
    def X(self) -> LinearOperator:
        """The first view as it was given."""
        return self._views[0].given

    @property
    def counted(self) -> LinearOperator:
        """The first view, as an operator that counts its sweeps."""
        return CountedOperator(self.X, self._views[0].ledger)

    @property
    def Y(self) -> LinearOperator | None:
        """The second view."""
        return self._views[1].given if len(self._views) == 2 else None

    @property
    def n(self) -> int:
        """The number of rows; infinity for a stream whose rows have not been counted."""
        return self._sweeps.n

    @property
    def shape(self) -> tuple[int, int, int]:
        """(n, p, q); q is 0 without a second view."""
        return self.n, self.X.shape[1], 0 if self.Y is None else self.Y.shape[1]

    @property
    def passes(self) -> float:
        """The largest number of sweeps made over either view."""
        return max(view.ledger.sweeps for view in self._views)

    @property
    def own_passes(self) -> float:
        """The largest number of sweeps that the calling thread has made over either view."""
        return max(view.ledger.own_sweeps for view in self._views)

    def columns_made(self, index: int) -> float:
        """The number of products with one column of a view so far, forward and adjoint."""
        return self._views[index].ledger.columns

    @property
    def form(self) -> str:
        """The form in force, "dense", "sparse" or "implicit"; it is chosen when it is first needed."""
        return self._form or self._form_chosen()

    @one_at_a_time
    def _form_chosen(self) -> str:
        if self._both is not None and not self._form:
            return self._both.form
        self._form = self._form or self._choose_form()
        return self._form

    @property
    def held(self) -> bool:
        """Whether products cost no sweep, because Gram matrices are held."""
        return self._gram is not None or (self._sharing is not None and self._sharing.held)

    @property
    def rounding(self) -> float:
        """The relative rounding of products: that of float64 if Gram matrices are formed from entries."""
        if self.held and (self._sweeps.by_entries or self._sweeps.streamed):
            return float(np.finfo(np.float64).eps)
        return max(float(np.finfo(view.given.dtype).eps) for view in self._views)

    @property
    def spent(self) -> bool:
        """Whether no further product is possible: the data were read once, and no Gram matrix is held."""
        return not self.held and any(getattr(view.operator, "spent", False) for view in self._views)

    @property
    def sweep_cost(self) -> float:
        """The passes of one call of `products` after the set-up: 0 held, 1 fused, 2 from products."""
        return self._sweeps.passes if self.form == "implicit" else 0.0

    @property
    def means_cost(self) -> float:
        """The passes that `column_means` would take now."""
        return 0.0 if all(view.mean is not None for view in self._views) else self.setup_cost or 1.0

    @property
    def setup_cost(self) -> float:
        """The passes before the first product: for the means, or to form the held matrices."""
        if self.held:
            return 0.0
        if self._sharing is not None:
            return self._sharing.setup_cost
        return self._sweeps.means_cost if self.form == "implicit" else self._sweeps.gram_cost

    @property
    def exact_diagonal(self) -> bool:
        """Whether column norms are exact, or estimated from probes."""
        return self._sweeps.exact_norms or self.form != "implicit"

    @property
    def _sharing(self) -> Source | None:
        """The moments of both views, if they form and hold the Gram matrix of this view."""
        return self._both if self._both is not None and self._both.form != "implicit" else None

    def _choose_form(self) -> str:
        if self._given_form == "sparse" and not self._sweeps.sparse:
            raise InvalidProblem(
                'form "sparse" holds the Gram matrices of sparse matrices; got '
                f'{", ".join(repr(view.given) for view in self._views)}. Use "auto", "dense" or "implicit".'
            )
        if self._given_form != "auto":
            return self._given_form
        form, estimate = cost.moments_form(self._sizes(), *self._expect)
        if tells():
            LOG.debug(
                "moments of %s: %s, which takes %s for %d products of %d columns; %s of memory are available",
                self._sweeps.names,
                {"implicit": "sweeps"}.get(form, f"{form} Gram matrices, held"),
                estimate,
                *self._expect,
                cost.human_bytes(self.X.home.blocks.free_memory()),
            )
        return form

    def _sizes(self) -> cost.Sizes:
        return cost.sizes_of(self.X, self.Y, self._expect[1])

    # ---- what was learnt ----------------------------------------------------------------------

    def learnt(self) -> dict[str, Any]:
        """What sweeps have told so far, and what is held: for a checkpoint."""
        views = [
            {
                "mean": view.mean,
                "squares": view.squares,
                "unresolved": view.unresolved,
                "warned": view._warned,
                "contradiction": view.contradiction,
            }
            for view in self._views
        ]
        return {"form": self._form, "gram": self._gram, "views": views}

    def take_up(self, learnt: Mapping[str, Any]) -> None:
        """Go on with what `learnt` has told, whose arrays are on the host."""
        self._form = learnt["form"]
        self._gram = _placed(learnt["gram"], self.home)
        for view, known in zip(self._views, learnt["views"], strict=True):
            view.mean, view.squares = (_placed(known[name], self.home) for name in ("mean", "squares"))
            view.unresolved, view._warned = known["unresolved"], known["warned"]
            view.contradiction = known["contradiction"]

    # ---- what identifies the rows ----------------------------------------------------------------

    def ask_for_witnesses(self, before: Mapping[str, float], known: Mapping[str, Witness | None]) -> None:
        """Have the next sweep of each view identify its rows.

        Parameters
        ----------
        before : mapping from str to float
            By view, the sweeps that do not count as a reading of the data as they are.
        known : mapping from str to Witness or None
            Those of views that have been read since.
        """
        for view in self._views:
            view.asked_at = before.get(view.name, view.ledger.sweeps)
            view.witness = known.get(view.name)

    @one_at_a_time
    def witnesses(self, *, read: bool = False) -> dict[str, Witness]:
        """What identifies the rows of each view.

        Of a view that was swept in a way that does not tell, they are read once more; of entries in memory that is part
        of the sweep.

        Parameters
        ----------
        read : bool, default False
            Read the rows of views that were not swept, too, instead of leaving them out.
        """
        for view in self._views:
            if view.lacks_witness and (read or view.swept):
                self._sweeps.identify(view)
        return {view.name: view.witness for view in self._views if view.witness is not None}

    # ---- products -----------------------------------------------------------------------------

    def _held_gram(self) -> HeldGram:
        if self._gram is not None:
            return self._gram
        if self._sharing is not None:
            return self._sharing._held_gram().view(self._index)
        self._gram = self._sweeps.gram(self.form, self._sizes)
        return self._gram

    def _made(self, blocks: list[Array | None], onto: tuple[int, ...] = (0, 1)) -> Products:
        """The products with Gram matrices that are held, or by a sweep; those onto other views may be left out."""
        if self.form == "implicit":
            return self._sweeps.products(blocks, onto=onto)
        pause()
        return self._held_gram().products(*blocks)

    @property
    def confounded(self) -> bool:
        """Whether confounds are taken out of the columns."""
        return any(view.model.basis is not None for view in self._views)

    @property
    def explained(self) -> dict[str, tuple[int, ...]]:
        """By view, the columns of which confounds leave little more than rounding, as far as this is known."""
        found = {view.name: view.adjustment for view in self._views if view.adjustment is not None}
        return {name: adjustment.explained for name, adjustment in found.items() if adjustment.explained}

    @property
    def underflowing(self) -> dict[str, tuple[int, ...]]:
        """By view that scale divides, the columns whose squared lengths have few digits; not of entries in memory."""
        views = [view for view in self._views if view.scales and not view.in_memory]
        found = {view.name: view.adjustment.underflowing for view in views if view.adjustment is not None}
        return {name: columns for name, columns in found.items() if columns}

    @property
    def contradictions(self) -> tuple[str, ...]:
        """What the first products with operators have shown of those that are no matrices, in words."""
        return tuple(view.contradiction for view in self._views if view.contradiction)

    @property
    def total(self) -> float:
        """What the rows count together: their number, or the sum of their weights."""
        return self._sweeps.total

    # ---- column means ---------------------------------------------------------------------------

    @one_at_a_time
    def column_means(self) -> tuple[Array, Array | None]:
        """The column means of both views."""
        if self.form != "implicit" and self.center:
            self._held_gram()
        self._sweeps.gather([view for view in self._views if view.mean is None])
        means = [view.mean_as_given for view in self._views]
        return means[0], means[1] if len(means) == 2 else None

    @at_home
    def squares_taken(self, index: int) -> Array | None:
        """The squares of what means and confounds take out of the columns of one view; None where nothing is.

        By so much the squares of the entries are larger than those of what is left, and so is their rounding. What
        confounds explain counts with the square of their condition number.

        Parameters
        ----------
        index : {0, 1}
        """
        view = self._views[index]
        if view.adjustment is None:
            means: Array = self.column_means()[index] if self.center else None
            return None if means is None else means**2 * self.n
        if view.needs_sweep:
            self.column_means()
        of_means = None if view.mean is None or not view.model.center else view.mean**2 * view.total
        explained = view.explained_squares
        if explained is not None:
            explained = explained * view.model.condition**2
        if of_means is None or explained is None:
            taken = explained if of_means is None else of_means
        else:
            taken = of_means + explained
        if taken is None or view.factors is None:
            return taken
        # Columns whose squares are no numbers are named elsewhere.
        with np.errstate(over="ignore", invalid="ignore"):
            return taken * view.factors**2

    @property
    def most_rank(self) -> float:
        """The largest rank that the views can have by their rows: rows that count, less the directions taken out."""
        model = self._sweeps.model
        rows = self.n if model.weights is None else np.count_nonzero(model.weights)
        return float(rows - model.removed)

    @at_home
    def column_sums(self) -> tuple[Array, Array | None]:
        """The column sums of both views."""
        mx, my = self.column_means()
        return mx * self.n, None if my is None else my * self.n

    # ---- what is known without a sweep ----------------------------------------------------------

    @at_home
    def known_diagonals(self) -> list[Array] | None:
        """The exact diagonals of XᵀX and YᵀY, or None if no earlier sweep has computed them."""
        if self.held:
            found = list(self._held_gram().diagonal()[: len(self._views)])
        else:
            found = [view.squares if view.operator.readable else None for view in self._views]
        return None if any(d is None for d in found) else found

    @at_home
    def centring_error(self, index: int | None = None) -> float:
        """The approximate relative error from subtracting means from products. Makes no sweep.

        It is 0 if the entries are centred.

        Parameters
        ----------
        index : {0, 1}, optional
            The view; by default the worse of both.
        """
        held = self._held_gram() if self.held else None
        squares = [view.squares for view in self._views] if held is None else held.diagonal()
        pairs = list(zip(self._views, squares, strict=False))
        return max(
            self._cancelled(*pair, held) for pair in (pairs if index is None else pairs[index : index + 1])
        )

    def _cancelled(self, view: View, squares: Array | None, held: HeldGram | None) -> float:
        eps = float(np.finfo(view.operator.dtype).eps)
        if view.unresolved:
            return 1.0
        of_rows = held is not None and held.rows is not None
        if view.adjustment is not None and view.adjustment.lost > 1.0 and not of_rows:
            rounding = eps if held is None else float(np.finfo(np.float64).eps)
            ratio = view.adjustment.lost  # of squares, where the error is relative to lengths
            lost: float = rounding * max(ratio, view.model.condition * math.sqrt(ratio - 1))
            return max(lost, self._cancelled_by_means(view, squares, held, eps))
        return self._cancelled_by_means(view, squares, held, eps)

    def _cancelled_by_means(
        self, view: View, squares: Array | None, held: HeldGram | None, eps: float
    ) -> float:
        if not view.corrects_products:
            return 0.0
        lost = view.cancelled(squares)
        return eps * (lost if held is None else held.magnified(lost, by_entries=self._sweeps.by_entries))

    @at_home
    def subtracted(self, index: int) -> float:
        """The sum of squares that centring and confounds subtract from the products of one view; 0 for centred entries.

        Parameters
        ----------
        index : {0, 1}
        """
        view = self._views[index]
        if view.lacks_mean:
            self.column_means()
        squares = view.explained_squares
        if view.corrects_products and not (self.held and self._sweeps.by_entries):
            of_means = self.home.place(view.taken) ** 2 * view.total
            squares = of_means if squares is None else squares + of_means
        if squares is None:
            return 0.0
        squares = squares if view.factors is None else squares * view.factors * view.factors  # of any size
        return float(to_host(self.home.xp.sum(squares)))

    @at_home
    def total_squares(self) -> float | None:
        """The sum of all squared entries of X, about the column means with centring. Makes no sweep.

        Returns
        -------
        float or None
            None before the sweep that computes it, and for operators that only give products: they would need
            a product with every column of the identity.
        """
        squares = self.column_squares()
        return None if squares is None else float(to_host(self.home.xp.sum(squares)))

    @at_home
    def column_squares(self) -> Array | None:
        """The terms of `total_squares`: the sum of the squared entries of each column of X, of shape (p,), or None."""
        view = self._views[0]
        if self.held:
            return self._held_gram().diagonal()[0]
        return view.squares if view.operator.readable else None


def _placed(value: Any, home: Home) -> Any:
    """Arrays of the host, and held matrices that consist of such, where blocks live."""
    if isinstance(value, np.ndarray):
        return value if home.on_host else home.place(value)
    if isinstance(value, list):
        return [_placed(one, home) for one in value]
    if isinstance(value, DenseGram) and not home.on_host:
        vars(value).update({name: _placed(one, home) for name, one in vars(value).items()})
    return value
