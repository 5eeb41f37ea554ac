"""Sweeps for views with accessible rows: one sweep computes products, means and Gram matrices.

Problem: dense rows in memory, sparse matrices, slices that come one after the other and blocks in other processes are
read in different ways, and the same results are computed from them.
Method: each computation is a task, and `linspec.sweeps.runners.swept` runs it wherever the rows are. The first
sweep also computes the means: so an iterator is read only once, and other rows need no sweep before it. Every
block is read, converted and centred once for all products. SciPy matrices in memory are multiplied by threads of their
own over slabs with equally many entries (`linspec.operators.sparse_products`), and their column statistics are computed
from the stored entries. For one such matrix with few rows and many columns, products with XᵀX use rows of X and rows of
Xᵀ, if memory has room for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linspec import cost
from linspec.arrays import Array, HostArray, cast, to_host
from linspec.moments.by_products import ByProducts
from linspec.operators import LinearOperator, SparseOperator, sparse_products
from linspec.operators.adjustment import Adjustment
from linspec.operators.base import less_outer
from linspec.operators.row_model import Change
from linspec.sweeps.gram_matrices import GramMatrices, SparseGramMatrices
from linspec.sweeps.held_grams import DenseGram, HeldGram, SparseGram
from linspec.sweeps.products import FusedProducts, Identity, Products, Request
from linspec.sweeps.runners import swept
from linspec.sweeps.task import Task
from linspec.sweeps.views import View


class ByRows(ByProducts):
    """Sweeps that multiply the rows block by block.

    Attributes
    ----------
    in_slabs : bool
        Whether all views are SciPy matrices in memory.
    remote : bool
        Whether rows of a view are blocks in other processes: a sweep is one round over all blocks; rows stay there.
    """

    passes = 1.0

    def __init__(self, views: list[View]) -> None:
        super().__init__(views)
        operators = [view.operator for view in views]
        self.in_slabs = all(isinstance(A, SparseOperator) for A in operators)
        self.remote = any(A.access == "blocks" for A in operators)
        self.streamed = any(view.streamed for view in views)
        self.sparse = self.in_slabs or all(A.sparse and A.access == "blocks" for A in operators)
        self.adjusts = any(view.adjustment.changes_products for view in views)

    # ---- facts --------------------------------------------------------------------------------

    @property
    def exact_norms(self) -> bool:
        """Whether the column norms of all views are exact. Streamed rows give exact norms, too."""
        return self.streamed or super().exact_norms

    @property
    def by_entries(self) -> bool:
        """Whether Gram matrices are computed from the entries, and not from products with the identity."""
        return self.remote or self._has_few_columns

    @property
    def means_cost(self) -> float:
        """The passes that are needed before the first product: 0 if the first product also gives the means.

        It is 1 if the lengths of the columns must be known for scaling, or confound effects for an operator whose
        entries cannot be read.
        """
        return 1.0 if not self.in_slabs and self._before() else 0.0

    @property
    def gram_cost(self) -> float:
        """The passes that it would take now to form the Gram matrices.

        It is 1 if a view has its rows in slices or blocks, because the same sweep gives the means. For other rows it is
        `gram_cost` of the base class `ByProducts`.
        """
        return 1.0 if self.streamed else super().gram_cost

    def identity(self, index: int) -> Any:
        """The identity matrix with a row and a column for each column of view `index`, as a block to multiply.

        If all views have dense rows, and no view has column factors or confounds, it is an `Identity`, which stands for
        the matrix and is never formed. Otherwise it is an array.
        """
        A = self.views[index].operator
        dense = all(view.operator.readable and not view.operator.sparse for view in self.views)
        return Identity(A.shape[1]) if dense and not self.adjusts else super().identity(index)

    # ---- what is known before the first product -----------------------------------------------

    def _before(self) -> list[View]:
        """The views whose norms or confound effects must be known before the first product."""
        return [
            view
            for view in self.views
            if view.adjustment.lacks_correction
            and (view.adjustment.scale or not (self.streamed or view.operator.readable))
        ]

    def _prepare(self) -> None:
        if self.in_slabs:
            self.settle()
        else:
            self.gather(self._before())

    def settle(self) -> None:
        if not self.in_slabs:
            super().settle()
            return
        for view in self.views:  # means and norms come from the stored entries, as part of the first sweep
            if view.adjustment.squares is None:
                view.adjustment.learn_from_entries(view.operator)
            view.warn_of_cancellation()

    # ---- products -----------------------------------------------------------------------------

    def _request(self, blocks: list[Array | None], onto: tuple[int, ...] | None = None) -> Request:
        """The request for these blocks.

        For streamed rows it has no probes, because a sweep over the entries gives exact column norms. If rows are on
        workers and all rows are float32, the blocks are sent in float32: products with float32 rows would round the
        blocks to float32 in any case.
        """
        if not self.streamed:
            return super()._request(blocks, onto)
        if self.remote and all(view.operator.dtype == np.float32 for view in self.views):
            blocks = [V if V is None or isinstance(V, Identity) else cast(V, np.float32) for V in blocks]
        return Request(blocks, [None for _ in blocks], self.home, onto)

    def _products(self, blocks: list[Array | None], onto: tuple[int, ...] | None, *, image: bool) -> Products:
        if self.in_slabs:
            return self._in_slabs(blocks, onto, image=image)
        request = self._request(blocks, onto)
        task = self.whole(self._task(request), self.model)
        found = self.part_of(swept(task, self.views, request.columns, model=self.model, check=self._check))
        for i, gathered in found.statistics.items():
            self.views[i].adjustment.learn_from(gathered)
        for i, view in enumerate(self.views):
            if found.means is not None:
                view.adjustment.learn(self.home, found.count, mean=found.means[i] + 0.0)
            view.warn_of_cancellation()
        return self._conclude(request, found.products, sweeps=1.0)

    def _task(self, request: Request) -> FusedProducts:
        unknown = any(view.adjustment.mean is None for view in self.views)
        center = self.center and unknown
        return FusedProducts(
            request,
            self.home,
            about=[None if center else view.adjustment.row for view in self.views],
            center=center,
            means=unknown and self.streamed,
            statistics=tuple(i for i, view in enumerate(self.views) if self._wants_norms(view)),
            model=self.model,
        )

    def _wants_norms(self, view: View) -> bool:
        """Whether this sweep must compute the column norms of a view.

        They are computed while they are unknown. Streamed rows need them only if there are several views, for confounds
        or scaling, or for the warning that centring sparse rows loses digits (`View.warn_of_cancellation`).
        """
        if not self.streamed:
            return view.squares is None and view.operator.readable
        wanted = len(self.views) > 1 or (self.center and view.operator.sparse)
        return (wanted or view.adjustment.lacks_correction) and view.squares is None

    def _in_slabs(self, blocks: list[Array | None], onto: tuple[int, ...] | None, *, image: bool) -> Products:
        """Compute the products of SciPy matrices in memory."""
        X = self.views[0].operator
        if len(self.views) == 1 and is_wide(X):
            return self._by_transposed(X, blocks[0], self.views[0].adjustment.row, image=image)
        request = Request(blocks, [None for _ in blocks], self.home, onto)
        about = [view.adjustment.row for view in self.views]
        task = FusedProducts(request, self.home, about, model=self.model)
        found = task.part([view.operator for view in self.views])
        return self._conclude(request, found.products, sweeps=1.0)

    def _by_transposed(self, X: SparseOperator, V: Array, mean: Array | None, *, image: bool) -> Products:
        """Compute Xᵀ(X V), centred, from rows of X and rows of Xᵀ."""
        P = sparse_products.matmat(X.matrix, V, X.dtype)
        if mean is not None:
            P -= (mean @ V)[None, :]
        weights = self.model.weights_of(0, self.n, self.home)
        Q = P if weights is None else P * weights[:, None]
        self.views[0].record(V.shape[1], V.shape[1], sweeps=1.0)
        product = sparse_products.matmat(X.transposed, Q, X.dtype)
        found = Products([product if mean is None else less_outer(product, mean, Q.sum(axis=0))])
        if image and self.model.basis is None:
            found.image = P.T @ Q
        return found

    # ---- images ---------------------------------------------------------------------------------

    def image_gram(self, index: int, V: Array) -> HostArray:
        """Compute (XV)ᵀ(XV) of one view from XV, in one sweep."""
        view = self.views[index]
        if view.operator.access != "blocks":
            return super().image_gram(index, V)
        view.admit(1.0)
        self.gather([] if view.adjustment.known else [view])
        found = swept(ImageGram(V, view.adjustment), [view], V.shape[1])
        view.record(V.shape[1], 0, sweeps=1.0)
        return found

    # ---- Gram matrices ------------------------------------------------------------------------

    def _gram(self, form: str, sizes: Callable[[], cost.Sizes]) -> HeldGram:
        if form == "sparse":
            return self._sparse_gram()
        if self.in_slabs and cost.sparse_gram_is_cheaper(sizes()):
            return self._sparse_gram().as_dense(self.home)
        return self._gram_of_rows() if self.streamed else super()._gram(form, sizes)

    def _gram_of_rows(self) -> DenseGram:
        """Form the Gram matrices of streamed or remote rows, and compute the means that are still unknown."""
        unknown = any(view.adjustment.mean is None for view in self.views)
        center = self.center and unknown
        about = [None if center else view.adjustment.row for view in self.views]
        task = GramMatrices(self.home, about, center=center, means=unknown, model=self.model)
        part = self.run(task, sum(self.widths), threads=False)
        for view in self.views:
            view.record(0, sum(self.widths), sweeps=1.0)
        return self._corrected_gram(task, part)

    def _sparse_gram(self) -> SparseGram:
        task = SparseGramMatrices(self.model)
        if self.in_slabs:
            found = task.part([view.operator for view in self.views])
            for view in self.views:
                view.adjustment.learn_from_entries(view.operator)
        else:
            self.gather([view for view in self.views if view.adjustment.squares is None])
            entries = cost.sizes_of([view.operator for view in self.views], 1)
            # The size of the result in arrays as wide as a row: the unit in which runs of blocks are measured.
            columns = int(np.ceil(2.0 * entries.sparse_gram_entries / sum(self.widths)))
            found = self.run(task, columns)
        for view in self.views:
            view.record(0, sum(self.widths), sweeps=1.0)
        return SparseGram.of(self.views, found, self.total)


def is_wide(X: LinearOperator) -> bool:
    """Whether X is sparse with few rows and many columns, so that a copy of Xᵀ is worth its memory."""
    return isinstance(X, SparseOperator) and X.worth_transposing


@dataclass(frozen=True)
class ImageGram(Task[HostArray]):
    """Task that computes (A V)ᵀ(A V) of one adjusted view A, on the host.

    Parameters
    ----------
    V : array of shape (p, k)
    adjustment : Adjustment
        The adjustment of the rows; it must be known.
    """

    V: Array
    adjustment: Adjustment

    def part(
        self, rows: Sequence[LinearOperator], first_row: int = 0, into: HostArray | None = None
    ) -> HostArray:
        """(A V)ᵀ(A V) for some rows, added to `into`, the product of earlier rows."""
        (A,) = rows
        P = A.home.blocks.place(self.adjustment.applied(A, first_row).matmat(self.V))
        own = to_host(P.T @ P)
        return own if into is None else into + own

    def merge(self, left: HostArray, right: HostArray) -> HostArray:
        """The sum of `left` and `right`."""
        total: HostArray = left + right
        return total

    def merger(self) -> ImageGram:
        """The same task without V, which merging does not need."""
        return replace(self, V=None)

    def with_models(self, change: Change) -> ImageGram:
        """The task with `change` applied to the row model of its adjustment."""
        return replace(self, adjustment=self.adjustment.with_model(change))

    def looked_at(self, part: HostArray) -> Iterable[Array]:
        """The whole part, which is checked for finiteness."""
        return [part]
