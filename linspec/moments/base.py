"""The interface of all ways to read the rows of views, and the code that they share.

A sweep returns small results: products with Gram and cross matrices, column means and norms, Gram matrices. It is
counted in the ledgers of the views, and its first results are checked for entries that are not finite.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from linspec import cost
from linspec.arrays import Array, Home, HostArray, to_host
from linspec.errors import MissingCapability, NonFiniteData
from linspec.operators import LinearOperator, SparseOperator
from linspec.operators.adjustment import scaled
from linspec.operators.largest_entry import magnitude_of
from linspec.operators.range_of_entries import ORDINARY, Magnitude, check_magnitude
from linspec.operators.row_model import RowModel
from linspec.process.log import timed
from linspec.sweeps.adjusted_rows import AdjustedRows
from linspec.sweeps.finite import explain_non_finite
from linspec.sweeps.first_sweep import Measured, MeasuredPart
from linspec.sweeps.held_grams import HeldGram
from linspec.sweeps.in_memory import row_slices
from linspec.sweeps.products import Products
from linspec.sweeps.runners import swept
from linspec.sweeps.statistics import Statistics
from linspec.sweeps.task import Task
from linspec.sweeps.views import View

Part = TypeVar("Part")


class Sweeps(ABC):
    """Base class of the ways to sweep the rows of some views.

    Parameters
    ----------
    views : list of View

    Attributes
    ----------
    passes : float
        How often one call of `products` reads the rows of each view, once the means are known: 1 if rows are
        accessible, 2 if an operator gives only products. A pass is one reading of all rows.
    sparse : bool
        Whether Gram matrices can be held as sparse matrices.
    streamed : bool
        Whether the rows of a view are reached only in a sweep: as slices, one after the other, or as blocks on workers.
        It is always False in `ByProducts` itself.
    by_entries : bool
        Whether Gram matrices are computed from the entries, and not from products with the identity.
    adjusts : bool
        Whether confounds and column factors are applied to the products, and not to the rows.
    """

    passes: float
    sparse: bool = False
    streamed: bool = False
    adjusts: bool = False

    def __init__(self, views: list[View]) -> None:
        self.views, self.model = views, views[0].model
        self.center = self.model.center
        self.home: Home = views[0].given.home.blocks
        self._checked = False

    # ---- facts --------------------------------------------------------------------------------

    @property
    def n(self) -> int:
        """The number of rows; infinity for a stream whose rows have not been counted."""
        return min(view.given.shape[0] for view in self.views)

    @property
    def total(self) -> float:
        """The number of rows, or the sum of their weights."""
        return self.model.total(self.n)

    @property
    def names(self) -> str:
        """The names of the views in messages, joined by "and"."""
        return " and ".join(view.name for view in self.views)

    @property
    def widths(self) -> list[int]:
        """The number of columns of each view."""
        return [view.operator.shape[1] for view in self.views]

    @property
    def known_by_products(self) -> list[View]:
        """The views whose rows cannot be read, because their operators give only products; no task can use them."""
        return [view for view in self.views if not (view.streamed or view.operator.access == "rows")]

    @property
    def exact_norms(self) -> bool:
        """Whether the column norms of all views are exact.

        If False, the column norms of a view whose entries cannot be read are estimated from probes: random-sign columns
        that are appended to the block of the first product.
        """
        return all(view.operator.readable for view in self.views)

    @property
    def means_cost(self) -> float:
        """The passes that are needed for the means before the first product."""
        return 0.0 if all(view.adjustment.known for view in self.views) else 1.0

    @property
    @abstractmethod
    def by_entries(self) -> bool:
        """Whether Gram matrices are computed from the entries, and not from products with the identity."""

    @property
    @abstractmethod
    def gram_cost(self) -> float:
        """The passes that it would take now to form the Gram matrices."""

    # ---- products -----------------------------------------------------------------------------

    def identity(self, index: int) -> Any:
        """The identity as a block for view `index`: the product with it gives the entries of the view."""
        return self.home.eye(self.widths[index])

    def products(
        self,
        blocks: list[Array | None],
        *,
        onto: tuple[int, ...] | None = None,
        image: bool = False,
    ) -> Products:
        """Compute XᵢᵀXⱼ Vⱼ of all views in one sweep.

        Parameters
        ----------
        blocks : list of array or None
            Vⱼ of each view, in the library and on the device of the results (`home`).
        onto : tuple of int, optional
            The views i whose products Xᵢᵀ[…] are requested. The products of other views may be None. By default the
            products of all views are requested.
        image : bool, default False
            Whether to set the attribute `image` of the result to (X V)ᵀ(X V), if the sweep forms X V for all rows at
            once. If it does not, `image` is None, and the caller computes Vᵀ(XᵀX V) instead.
        """
        if all(block is None for block in blocks):
            return Products(None for _ in blocks for _ in blocks)
        with np.errstate(all="ignore"):  # the check below finds entries that are not finite
            self._prepare()  # it may take a sweep, which is admitted and counted first
        for i, view in enumerate(self.views):
            trips = (blocks[i] is not None) + (onto is None or i in onto or self._probes(i, blocks))
            view.admit(min(self.passes, float(trips)))
        columns = sum(block.shape[1] for block in blocks if block is not None)
        message = timed("sweep of %s with %d columns", self.names, columns)
        with np.errstate(all="ignore"), message:  # the check below finds entries that are not finite
            blocks = self.prepared(blocks)
            found = self._adjusted(self._products(blocks, onto, image=image), blocks)
        self.check_finite(found)
        return found

    def _probes(self, index: int, blocks: list[Array | None]) -> bool:
        """Whether this call needs an adjoint product of a view, even if not requested, to estimate its column norms.

        The base class estimates no norms.
        """
        return False

    def prepared(self, blocks: list[Array | None]) -> list[Array | None]:
        """The blocks, with row j multiplied by the factor of column j, where this factor is known."""
        self._prepare()
        if not self.adjusts:
            return blocks
        return [scaled(V, view.adjustment.factors) for V, view in zip(blocks, self.views, strict=True)]

    def _adjusted(self, found: Products, blocks: list[Array | None]) -> Products:
        """Subtract confound effects from the products XᵢᵀXⱼVⱼ, and multiply their rows by the factors of Xᵢ's columns.

        The factors of Xⱼ's columns are in the blocks Vⱼ already: see `prepared`.
        """
        if not self.adjusts:
            return found
        products, views = list(found), self.views
        for i, view in enumerate(views):
            for j, other in enumerate(views):
                product, V = products[len(views) * i + j], blocks[j]
                if product is not None and V is not None:  # safe to overwrite: no one else holds it
                    products[len(views) * i + j] = view.adjustment.corrected(product, V, other.adjustment)
        made = Products(products)
        made.image = found.image
        return made

    def _prepare(self) -> None:
        """Compute those parts of the adjustments that must be known before the first product."""
        self.settle()

    def settle(self) -> None:
        """Compute all unknown parts of the adjustments (means, confound effects, column factors)."""
        self.gather([view for view in self.views if not view.adjustment.known])
        for view in self.views:
            view.warn_of_cancellation()

    @abstractmethod
    def _products(self, blocks: list[Array | None], onto: tuple[int, ...] | None, *, image: bool) -> Products:
        """Compute the products, after `_prepare`, and count them in the ledgers."""

    @abstractmethod
    def gram(self, form: str, sizes: Callable[[], cost.Sizes]) -> HeldGram:
        """Form the Gram and cross matrices of the views, and return them; the caller keeps them.

        Parameters
        ----------
        form : {"dense", "sparse"}
        sizes : callable
            Returns the `linspec.cost.Sizes` of the views: their rows, columns and stored entries. It is called only for
            form "dense" and SciPy matrices in memory, to decide whether sparse Gram matrices are formed first.
        """

    @abstractmethod
    def varying(self, index: int, S: Array) -> Array:
        """1 for each column that varies, 0 for each constant column, whose centred products are only rounding.

        Parameters
        ----------
        index : int
            The view.
        S : array of shape (p, p)
            Its Gram matrix, computed from products.
        """

    # ---- images ---------------------------------------------------------------------------------

    def image_gram(self, index: int, V: Array) -> HostArray:
        """Compute (XV)ᵀ(XV) of one view from XV, with one forward product."""
        view = self.views[index]
        view.admit(1.0)
        self.gather([] if view.adjustment.known else [view])
        total, first = self.home.zeros((V.shape[1], V.shape[1])), 0
        for rows in _blocks_of(view, V.shape[1]):
            P = self.home.place(view.adjustment.applied(rows, first).matmat(V))
            total = total + P.T @ P
            first += rows.shape[0]
            view.operator.release()
        view.record(V.shape[1], 0, sweeps=1.0)
        return to_host(total)

    # ---- tasks over all rows --------------------------------------------------------------------

    def run(
        self,
        task: Task[Part],
        columns: int = 0,
        *,
        threads: bool = True,
    ) -> Part:
        """Run a task over all rows of the views' operators, without their adjustments.

        The same sweep computes the magnitude of the entries, if unknown.

        Parameters
        ----------
        task : Task
        columns : int, default 0
            The number of columns of the products in a part.
        threads : bool, default True
            As for `swept`.

        Returns
        -------
        Part
            The result of the task for all rows.
        """
        found = swept(
            self.whole(task, self.model),
            self.views,
            columns,
            model=self.model,
            check=self._check,
            threads=threads,
        )
        part: Part = self.part_of(found)
        return part

    def whole(self, task: Task[Part], model: RowModel) -> Task[Any]:
        """Combine the task with one for the entry magnitudes that are still unknown."""
        return self._measured(task, model) or task

    def part_of(self, found: Any) -> Any:
        """Store the magnitudes of the result of `whole`, and return the part of the task itself."""
        if isinstance(found, MeasuredPart):
            self._sized(found.sizes)
            found = found.part
        return found

    def _measured(self, task: Task[Part], model: RowModel) -> Measured[Part] | None:
        """The task, extended if a view's entry magnitude is unknown, or its float32 rows need products in float64.

        The extended task (`Measured`) measures the unknown magnitudes, and multiplies such rows in float64. None if no
        view needs either.
        """
        unknown, wide = (
            tuple(not view.measured for view in self.views),
            tuple(view.wide for view in self.views),
        )
        names = tuple(view.name for view in self.views)
        return Measured(task, names, unknown, wide, model) if any(unknown) or any(wide) else None

    def _sized(self, sizes: Sequence[Magnitude]) -> None:
        """Raise if the largest entry of a view, over all rows, is out of range; else mark the view as measured."""
        for view, size in zip(self.views, sizes, strict=True):
            if not view.measured:
                check_magnitude(view.name, size)
                view.measured, view.wide = True, not size.fits_single

    def _sized_from(self, squares: HostArray, view: View, model: RowModel) -> None:
        """Check the largest entry of a view by squared column norms; read its rows again only if these are extreme."""
        size = math.sqrt(max(float(np.max(squares, initial=0.0)), 0.0))
        if not 1 / ORDINARY <= size <= ORDINARY:
            check_magnitude(view.name, magnitude_of(view.operator, model.roots_of(0, self.n, self.home)))
            view.operator.release()
        view.measured = True

    def _check(self, task: Task[Part], part: Part, always: bool) -> None:
        """Raise if `part`, a task's result for the rows read so far, shows entries that are too large or not finite.

        Without `always`, finiteness is no longer checked once an earlier result was finite. With `always` it is checked
        each time: for slices, whose rows may not be readable later.
        """
        if isinstance(part, MeasuredPart):
            for view, size in zip(self.views, part.sizes, strict=True):
                check_magnitude(view.name, size, complete=False)
        self.check_finite(task.looked_at(part), always=always)

    def over_rows(self, task: Task[Part], columns: int = 0) -> Part:
        """Run a task over all adjusted rows, in one sweep after the adjustments are known."""
        known = self.known_by_products
        if known:
            raise MissingCapability(
                f"a task over rows needs rows that can be taken; got {known[0].given!r} for {known[0].name}. Pass an "
                "array, a sparse matrix, a file or slices."
            )
        for view in self.views:
            view.admit(1.0)
        with np.errstate(all="ignore"), timed("sweep of %s for a task", self.names):
            self.settle()
            part = self.run(AdjustedRows(task, [view.adjustment for view in self.views]), columns)
        for view in self.views:
            view.record(0, 0, sweeps=1.0)
        return part

    # ---- means and column norms ---------------------------------------------------------------

    def gather(self, views: list[View]) -> None:
        """Compute column means, norms and confound effects of some views in one sweep.

        For operators that give only products, the norms are not computed.
        """
        for some in (
            [view for view in views if view.operator.access == "blocks"],
            [view for view in views if view.streamed and view.operator.access != "blocks"],
            [view for view in views if not view.streamed],
        ):
            if some:
                self._gather(some)

    def _gather(self, views: list[View]) -> None:
        """Do the work of `gather` for views whose rows are all read in the same way."""
        for view in views:
            view.admit(0.0)
        first = views[0].operator
        read = [view for view in views if view.streamed or _is_read(view.operator)]
        with np.errstate(all="ignore"):  # the check below finds entries that are not finite
            for view in views:
                if isinstance(view.operator, SparseOperator):
                    view.adjustment.learn_from_entries(view.operator)
                elif not (view.streamed or view.operator.readable):
                    view.adjustment.learn_from_products(view.operator, self.home)
            if read:  # together, so that two views of one file are read together
                found = swept(
                    Statistics(self.home, self.model),
                    read,
                    3 if first.access == "blocks" else 0,
                    model=self.model,
                    check=lambda task, part, gone: self.check_finite(task.looked_at(part), always=gone),
                    threads=not first.streamed,
                )
                for view, gathered in zip(read, found, strict=True):
                    view.adjustment.learn_from(gathered)
        for view in views:
            A = view.operator
            view.record(0, 0 if A.readable or A.streamed else 1, sweeps=1.0)
        self.check_finite([view.adjustment.mean for view in views])

    def check_finite(self, arrays: Iterable[Array | None], *, always: bool = False) -> None:
        """Raise if an array that a sweep has computed is not finite; search the data for the cause only then.

        Without `always`, later sweeps are not checked once the results of a sweep were finite. With `always` the arrays
        are checked in any case.
        """
        if self._checked and not always:
            return
        with np.errstate(all="ignore"):
            sums = [self.home.xp.sum(array) for array in arrays if array is not None]
            good = all(math.isfinite(float(to_host(total))) for total in sums)
        if not good:
            raise NonFiniteData(explain_non_finite({view.name: view.operator for view in self.views}))
        self._checked = self._checked or (bool(sums) and not always)


def _is_read(A: LinearOperator) -> bool:
    """Whether the entries are read block by block, from memory or from files."""
    return A.readable and not isinstance(A, SparseOperator)


def _blocks_of(view: View, columns: int) -> Iterator[LinearOperator]:
    """Iterate over the rows of one view, in blocks where the operator permits."""
    A = view.operator
    if A.streamed:
        yield from A.blocks()
        return
    for rows in row_slices([A], columns):
        yield A.rows(rows) if A.access == "rows" else A
