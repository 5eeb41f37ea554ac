"""Products with the Gram and cross matrices of some views in one sweep.

Problem: for views X₁, X₂, … and blocks V₁, V₂, … compute the products Xᵢᵀ[X₁V₁ X₂V₂ …], with or without centring, in
one reading and without an array of n rows.
Method: for every block of rows form P = [X₁V₁ X₂V₂ …] and then Xᵢᵀ P, summed in float64. With centring and means that
are not known, a block is centred about its own means mᵢ, and two parts of N and n rows, whose means differ by dᵢ, are
merged by

    XᵢᵀXⱼVⱼ  =  XᵢᵀXⱼVⱼ of the first part  +  that of the second  +  Nn/(N + n) dᵢ (dⱼᵀVⱼ),

the update of Chan, Golub & LeVeque (1983, doi:10.1080/00031305.1983.10483115): no large numbers cancel.
Where we differ: the mean about which a block is centred is approximate. The remainder is computed with the products, as
the sums of the centred rows, and is subtracted by the same formula. Rows with weights w give XᵢᵀD²P with D² = diag(w):
then N and n are sums of weights, and means are weighted.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from linspec.arrays import Array, Home, host_dtype
from linspec.operators import LinearOperator, SparseOperator, sparse_products
from linspec.operators.base import less_outer
from linspec.operators.column_statistics import ColumnStatistics, block_mean, counted, merged
from linspec.operators.row_blocks import RowBuffer
from linspec.operators.row_model import PLAIN, RowModel
from linspec.sweeps.task import Task


@dataclass(frozen=True)
class Identity:
    """The identity matrix of a given order, as a block that is never formed.

    The product of a matrix A with it consists of the entries of A, which are used in place of a product. With many
    columns, a formed identity matrix and its product would take more memory and time than the rows.
    """

    order: int

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the identity matrix, (order, order)."""
        return self.order, self.order


def combined(row: Array, V: Any) -> Array:
    """Compute row · V for an array or an `Identity` V."""
    return row if isinstance(V, Identity) else row @ V


class Products(tuple[Any, ...]):  # noqa: SLOT001 (it has attributes)
    """Tuple of XᵢᵀXⱼ Vⱼ, j varying fastest: for two views (XᵀX Vx, XᵀY Vy, YᵀX Vx, YᵀY Vy); None where Vⱼ is None.

    Attributes
    ----------
    image : array of shape (k, k) or None
        (Xᵢ Vᵢ)ᵀ(Xᵢ Vᵢ) of the only block, if requested.
    cross : array of shape (p, q) or None
        X₁ᵀX₂, if requested.
    """

    image: Any = None
    cross: Any = None


class Request:
    """The blocks and probes of one call, and the views whose Xᵢᵀ P is requested.

    P consists, for one view after the other, of the products with its block and with its probes. `edges` has, for each
    view, the first column of P that belongs to the block, the first that belongs to the probes, and the column after
    these.

    Parameters
    ----------
    blocks : list of array or None
        The block of each view.
    probes : list of array or None
        For each view, random-sign columns, from whose products the column norms of the view are estimated; or None.
    home : Home
    onto : tuple of int, optional
        The views whose Xᵢᵀ P is requested; by default all.
    """

    def __init__(
        self,
        blocks: list[Array | None],
        probes: list[Array | None],
        home: Home,
        onto: tuple[int, ...] | None = None,
    ) -> None:
        self.blocks, self.probes = blocks, probes
        views = range(len(blocks))
        self.onto = tuple(i for i in views if onto is None or i in onto or probes[i] is not None)
        self.wide: list[Array | None] = []
        self.edges: list[tuple[int, int, int]] = []
        self.columns = 0
        for V, Z in zip(blocks, probes, strict=True):
            own = self.columns + (0 if V is None else V.shape[1])
            end = own + (0 if Z is None else Z.shape[1])
            self.wide.append(V if Z is None else home.concat([V, Z]))
            self.edges.append((self.columns, own, end))
            self.columns = end

    def cut(self, adjoints: Sequence[Array | None]) -> Products:
        """Cut the products XᵢᵀP of all views into the products with each block."""
        return Products(
            None if adjoint is None or V is None else adjoint[:, start:stop]
            for adjoint in adjoints
            for (start, stop, _), V in zip(self.edges, self.blocks, strict=True)
        )


@dataclass
class Sums:
    """The part of the task `FusedProducts`: its sums over some rows.

    Attributes
    ----------
    count : float
        The number of rows, or the sum of their weights.
    products : list of array or None
        Per view XᵢᵀP, float64, if requested; with centring, about the means of these rows.
    points : list of array, or None
        Per view a row that is near the column means of these rows, or a row of zeros; None if means are not gathered.
    gaps : list of array, or None
        Per view the column means of these rows minus the point: mean = point + gap. The two are kept apart, so that
        means that are large compared with the spread lose no digits. None if means are not gathered.
    statistics : dict
        Means and spreads of the columns, by the index of each view that needs them.
    """

    count: float
    products: list[Array | None]
    gaps: list[Array] | None = None
    points: list[Array] | None = None
    statistics: dict[int, ColumnStatistics] = field(default_factory=dict)
    buffers: list[RowBuffer] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "buffers": None}  # work memory is not part of the state

    @property
    def means(self) -> list[Array] | None:
        """The column means of these rows, per view; None if they were not gathered."""
        if self.gaps is None or self.points is None:
            return None
        return [point + gap for point, gap in zip(self.points, self.gaps, strict=True)]


@dataclass(frozen=True)
class FusedProducts(Task[Sums]):
    """Task that computes Xᵢᵀ[X₁V₁ X₂V₂ …] of every view.

    Parameters
    ----------
    request : Request
        The blocks Vᵢ.
    home : Home
        The home of blocks and results.
    about : list of array or None
        Per view, a row that is subtracted from all rows.
    center : bool
        Subtract the means of the rows instead of `about`; they are computed in the same sweep.
    means : bool
        Compute the means without subtracting them.
    statistics : tuple of int
        The views whose column statistics are gathered.
    model : RowModel
        The weights of the rows, and a basis whose products with the columns are gathered.
    """

    request: Request
    home: Home
    about: Sequence[Array | None]
    center: bool = False
    means: bool = False
    statistics: tuple[int, ...] = ()
    model: RowModel = PLAIN

    def part(self, rows: Sequence[LinearOperator], first_row: int = 0, into: Sums | None = None) -> Sums:
        """The sums over one block of rows, added in place to `into`, the sums over earlier rows."""
        buffers = [RowBuffer() for _ in rows] if into is None or into.buffers is None else into.buffers
        n = rows[0].shape[0]
        weights = self.model.weights_of(first_row, n, self.home)
        about = [block_mean(A, self.home, weights) for A in rows] if self.center else self.about
        if all(isinstance(A, SparseOperator) for A in rows):
            found = self._sparse(rows, about, weights)
        else:
            found = self._dense(rows, about, buffers, weights)
        found.statistics = {} if into is None else into.statistics
        for i in self.statistics:
            gathered = found.statistics.setdefault(i, ColumnStatistics(self.home))
            gathered.add(rows[i], weights, self.model.basis_of(first_row, n, self.home))
        found.buffers = buffers
        return found if into is None else self._added(into, found)

    def _dense(
        self,
        rows: Sequence[LinearOperator],
        about: Sequence[Array | None],
        buffers: list[RowBuffer],
        weights: Array | None,
    ) -> Sums:
        triples = zip(rows, about, buffers, strict=True)
        slabs = [A.loaded(buffer, a) for A, a, buffer in triples]
        n, dtype = rows[0].shape[0], np.result_type(*(A.dtype for A in slabs))
        images = [
            A.dense() if isinstance(V, Identity) else A.matmat(V)
            for A, V in zip(slabs, self.request.wide, strict=True)
            if V is not None
        ]
        W = slabs[0].home.concat([slabs[0].home.place(P, dtype) for P in images])
        count = counted(n, weights, self.home)
        if weights is None:
            ones = slabs[0].home.ones((n, 1), slabs[0].dtype)
        else:
            ones = slabs[0].home.place(weights, slabs[0].dtype)[:, None]
            W = W * slabs[0].home.place(ones, host_dtype(W))
        onto = [i in self.request.onto for i in range(len(slabs))]
        if not (self.center or self.means):
            # A copy: sums are added into it, and an operator may return an array that it uses again.
            own = [
                slab.rmatmat(W) + 0.0 if wanted else None for slab, wanted in zip(slabs, onto, strict=True)
            ]
            return Sums(count, own)
        with_ones = slabs[0].home.concat([W, ones])
        both = [slab.rmatmat(with_ones if wanted else ones) for slab, wanted in zip(slabs, onto, strict=True)]
        products = [B[:, :-1] if wanted else None for B, wanted in zip(both, onto, strict=True)]
        return self._about_means(count, products, [B[:, -1] for B in both], about)

    def _sparse(
        self, rows: Sequence[LinearOperator], about: Sequence[Array | None], weights: Array | None
    ) -> Sums:
        """The sums over sparse rows, by slabs on many threads; `about` is subtracted by correcting products."""
        shifts = [
            None if a is None or V is None else a @ V for a, V in zip(about, self.request.wide, strict=True)
        ]
        products, totals = sparse_products.gram_matmat(
            [A.matrix for A in rows],  # type: ignore[attr-defined]  # of sparse operators
            self.request.wide,
            shifts=shifts,
            dtypes=[A.dtype for A in rows],
            weights=weights,
            onto=self.request.onto,
        )
        for product, a in zip(products, about, strict=True):
            if a is not None and product is not None:
                less_outer(product, a, totals)
        count = counted(rows[0].shape[0], weights, self.home)
        if not (self.center or self.means):
            return Sums(count, products)
        zeros = [self.home.zeros((A.shape[1],)) for A in rows]
        if self.center:  # about their own means, up to rounding
            return Sums(count, products, zeros, list(about))
        return Sums(count, products, [block_mean(A, self.home, weights) for A in rows], zeros)

    def _about_means(
        self,
        count: float,
        products: list[Array | None],
        totals: list[Array],
        about: Sequence[Array | None],
    ) -> Sums:
        """Make `Sums` from products of rows minus `about`: compute means, and with centring correct products."""
        gaps = [total / (count or 1.0) for total in totals]
        points = [0.0 * g if a is None else a for a, g in zip(about, gaps, strict=True)]
        if self.center:
            along = count * self._along(gaps)
            products = [
                None if P is None else P - g[:, None] * along[None, :]
                for P, g in zip(products, gaps, strict=True)
            ]
        return Sums(count, products, gaps, points)

    def _along(self, steps: list[Array]) -> Array:
        """The row [d₁ᵀV₁ d₂ᵀV₂ …] for steps dᵢ of the means, one per view."""
        pairs = zip(steps, self.request.wide, strict=True)
        return self.home.xp.concat([combined(d, V) for d, V in pairs if V is not None], axis=0)

    def _added(self, into: Sums, more: Sums) -> Sums:
        """Add the sums `more` over the next rows to `into`, in place."""
        for total, product in zip(into.products, more.products, strict=True):
            if total is not None and product is not None:
                total += product
        self._step(into, into, more)
        into.count += more.count
        return into

    def merge(self, left: Sums, right: Sums) -> Sums:
        """The sums over the rows of `left` and `right`, in new memory."""
        pairs = zip(left.products, right.products, strict=True)
        both = replace(left, products=[None if a is None or b is None else a + b for a, b in pairs])
        self._step(both, left, right)
        both.count, both.buffers = left.count + right.count, None
        both.statistics = {i: copy.copy(gathered) for i, gathered in left.statistics.items()}
        for i, gathered in both.statistics.items():
            gathered.absorb(right.statistics[i])
        return both

    def merger(self) -> FusedProducts:
        """The task to be sent to workers that only merge.

        With centring, merging needs the blocks, and this task itself is returned. Without centring, the returned task
        has neither the blocks nor `about`.
        """
        if self.center:
            return self
        none: list[Array | None] = [None for _ in self.request.blocks]
        return replace(self, request=Request(none, none, self.home, self.request.onto), about=())

    def _step(self, total: Sums, left: Sums, right: Sums) -> None:
        """Store the means of `left` and `right` together in `total`.

        With centring, also add the term Nn/(N + n) dᵢ (dⱼᵀVⱼ) to the products in `total`, for the differences d of the
        means of `left` and `right`.
        """
        if left.gaps is None or right.gaps is None or left.points is None or right.points is None:
            return
        weight, share = merged(left.count, right.count)
        moves = [b - a for a, b in zip(left.points, right.points, strict=True)]
        triples = zip(moves, left.gaps, right.gaps, strict=True)
        steps = [move + (b - a) for move, a, b in triples]
        if self.center:
            along = weight * self._along(steps)
            for product, d in zip(total.products, steps, strict=True):
                if product is not None:
                    product += d[:, None] * along[None, :]
        total.gaps = [gap + d * share for gap, d in zip(left.gaps, steps, strict=True)]

    def looked_at(self, part: Sums) -> Iterable[Array]:
        """The products XᵢᵀP, which are checked for finiteness."""
        return [product for product in part.products if product is not None]
