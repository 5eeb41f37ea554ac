"""Sweeps for views where at least one is known only by its products.

Problem: an operator returns A V and Aᵀ U, and has no rows to be read.
Method: one forward and one adjoint product for each view. Column norms are estimated from random-sign probes, which are
further columns of the first product. The first products also reveal operators whose rmatmat is not that of the
transpose.
Gram matrices come from products with the identity, some columns at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from linspec import cost
from linspec.arrays import Array, Home, HostArray, to_host
from linspec.moments.base import Sweeps
from linspec.operators import DenseOperator, LinearOperator
from linspec.operators.adjustment import Adjustment, scaled
from linspec.operators.watched import WatchedOperator
from linspec.process.log import timed
from linspec.sweeps.gram_matrices import GramMatrices, GramPart
from linspec.sweeps.held_grams import DenseGram, HeldGram
from linspec.sweeps.products import Products, Request
from linspec.sweeps.views import View

PROBES = 16
"""Random-sign columns from which unknown column norms are estimated (relative error about 1/4)."""

ROUNDINGS = 32
"""Largest difference of ⟨A v, u⟩ and ⟨v, Aᵀu⟩ that counts as rounding, in units of √p ε ‖A v‖ ‖u‖; A has p columns."""

IDENTITY_COLUMNS = 256
"""The largest number of identity columns that are multiplied at once to form a Gram matrix from products."""

IDENTITY_BYTES = 2**29
"""The largest size of the products with identity columns that are multiplied at once, in bytes."""

CONSTANT = 32
"""A column known by its products counts as constant if its standard deviation is at most this many roundings of its
mean."""

ENTRIES = 2
"""A column that looks constant by `CONSTANT` varies if the standard deviation of its entries is above this number of
roundings of its mean.

The entries are the product of the operator with one column of the identity. The number is smaller than `CONSTANT`,
which is applied to the diagonal of XᵀX: entries have less rounding than sums over all rows."""


class ByProducts(Sweeps):
    """Sweeps that make one forward and one adjoint product for each view, with the whole operator."""

    passes = 2.0

    @property
    def by_entries(self) -> bool:
        """Whether Gram matrices are computed from entries: see `_has_few_columns`.

        It is False if a view comes in slices while another gives only products.
        """
        return self._has_few_columns and not any(view.streamed for view in self.views)

    @property
    def _has_few_columns(self) -> bool:
        """Whether all entries are in memory, or one product of each view with the identity can give them.

        Then entries are centred before they are multiplied, which loses no digits. It holds if every view is readable.
        Otherwise each view that is not readable may have at most `IDENTITY_COLUMNS` columns, and the float64 entries of
        all views may take at most `IDENTITY_BYTES`.
        """
        operators = [view.operator for view in self.views]
        if all(A.readable for A in operators):
            return True
        few = all(A.readable or A.shape[1] <= self._identity_columns for A in operators)
        return bool(few and 8.0 * self.n * sum(self.widths) <= IDENTITY_BYTES)

    @property
    def gram_cost(self) -> float:
        """The passes that it would take now to form the Gram matrices."""
        if self.by_entries:
            return 1.0
        blocks: list[int] = [-(-width // self._identity_columns) for width in self.widths]
        # Each identity block of a view costs two sweeps of this view, for its Gram matrix, and one sweep of each view
        # before it, for the cross products.
        return self.means_cost + max(2.0 * own + sum(blocks[i + 1 :]) for i, own in enumerate(blocks))

    @property
    def _identity_columns(self) -> int:
        return min(IDENTITY_COLUMNS, max(1, IDENTITY_BYTES // (8 * self.n)))

    # ---- products -----------------------------------------------------------------------------

    def _products(self, blocks: list[Array | None], onto: tuple[int, ...] | None, *, image: bool) -> Products:
        return self._one_by_one(self._request(blocks, onto))

    def _probes(self, index: int, blocks: list[Array | None]) -> bool:
        """Whether probes are appended to the block of a view, to estimate its unknown column norms.

        The adjoint product of the view, from which they are estimated, is then computed even if it is not requested.
        """
        view = self.views[index]
        return blocks[index] is not None and view.squares is None and not view.operator.readable

    def _request(self, blocks: list[Array | None], onto: tuple[int, ...] | None = None) -> Request:
        """The request for these blocks, with probes for column norms that must be estimated from products."""
        probes: list[Array | None] = [None for _ in blocks]
        for i, view in enumerate(self.views):
            if self._probes(i, blocks):
                probes[i] = _signs(view.operator.shape[1], self.home)
        return Request(blocks, probes, self.home, onto)

    def _one_by_one(self, request: Request, spreads: list[HostArray] | None = None) -> Products:
        """Make one forward block product for each view, and one adjoint product for each view in `request.onto`.

        If `spreads` is a list, append the sum of squares of each column of the forward products. It is taken about the
        column's mean if rows have no weights.
        """
        operators = [view.adjustment.applied(self._watched(view)) for view in self.views]
        home, dtype = operators[0].home, np.result_type(*(A.dtype for A in operators))
        pairs = zip(operators, request.wide, strict=True)
        W = home.concat([home.place(A.matmat(V), dtype) for A, V in pairs if V is not None])
        if spreads is not None:
            P = self.home.place(W)
            if self.model.weights is None:
                P = P - self.home.column_sums(P)[None, :] / P.shape[0]
            spreads.append(to_host(self.home.column_sums(P**2)))
        adjoints = [A.rmatmat(W) if i in request.onto else None for i, A in enumerate(operators)]
        for i, (view, adjoint) in enumerate(zip(self.views, adjoints, strict=True)):
            if adjoint is not None and view.by_products and view.contradiction is None:
                self._compare(i, request, W, adjoint)
        return self._conclude(request, adjoints, sweeps=2.0)

    def _compare(self, index: int, request: Request, W: Array, adjoint: Array) -> None:
        """Compare ⟨A v, u⟩ with ⟨v, Aᵀu⟩ for vectors in the first products of view number `index`, the operator A.

        The vectors v are the probes of the view; without probes they are the first columns of its block. The vectors u
        are the images A v, and the first columns of `W`, the forward products of all views. `adjoint` is AᵀW.
        """
        view, (start, own, end) = self.views[index], request.edges[index]
        start = start if own == end else own
        V, columns = request.wide[index], min(end - start, PROBES)
        if V is None or not columns:
            return
        first, home = start - request.edges[index][0], self.home
        V = V[:, first : first + columns]
        images, few = home.place(W[:, start : start + columns]), min(W.shape[1], PROBES)
        size = self._size_of_images(view, V, home.column_norms(images))
        for a, b in ((start, start + columns), (0, few)):
            U = home.place(W[:, a:b])
            off = to_host(images.T @ U - V.T @ home.place(adjoint[:, a:b]))
            view.compare(off, *_allowed(home.column_norms(images), size, home.column_norms(U), view.operator))

    def _size_of_images(self, view: View, V: Array, norms: HostArray) -> float:
        """Upper bound of the length of an image before means and confound effects are subtracted."""
        found, xp, known = float(norms.max()), self.home.xp, view.adjustment
        if known.row is not None:
            found += float(to_host(xp.max(xp.abs(known.row @ V)))) * math.sqrt(view.total)
        if known.explained is not None:
            found += float(self.home.column_norms(known.explained.T @ V).max())
        return found

    def _entries(self, view: View) -> LinearOperator:
        """The operator of a view.

        If it is known by products only, return its entries instead, and test linearity by one more product.
        """
        A = view.operator
        if not view.by_products:
            found: LinearOperator = A
            return found
        columns = A.shape[1]
        V = self.home.concat([self.home.eye(columns), _signs(columns, self.home)[:, :1]])
        P = A.matmat(V)
        entries = P[:, :columns]
        if isinstance(A, WatchedOperator):
            A.shown(entries)
        if view.contradiction is None:
            image, made = self.home.place(P[:, columns:]), self.home.place(entries)
            off = image - made @ V[:, columns:]
            norms, size = self.home.column_norms(image), self.home.norm(made)
            view.compare(self.home.column_norms(off)[:, None], *_allowed(norms, size, np.ones(1), A))
        return DenseOperator(entries)

    def _watched(self, view: View) -> LinearOperator:
        """The operator of a view; slices are wrapped so that their products also show the size of their entries."""
        A: LinearOperator = view.operator
        if view.measured or not view.streamed:
            return A
        view.measured = True
        watched = WatchedOperator(A, view.name, self.model.roots_of(0, self.n, self.home))
        watched.enter_in(view.ledger)
        return watched

    def _conclude(self, request: Request, adjoints: Sequence[Array | None], sweeps: float) -> Products:
        """Count the products, estimate column norms from the probes, and return the requested columns."""
        widths = [0 if V is None else V.shape[1] for V in request.wide]
        for i, (view, adjoint) in enumerate(zip(self.views, adjoints, strict=True)):
            backward = 0 if adjoint is None else request.columns
            trips = (widths[i] > 0) + (adjoint is not None)
            view.record(widths[i], backward, sweeps=sweeps if sweeps == 1.0 else float(trips))
            Z = request.probes[i]
            if Z is not None and adjoint is not None:
                view.estimated = _probed(Z, adjoint[:, request.edges[i][1] : request.edges[i][2]], self.home)
        return request.cut(adjoints)

    # ---- Gram matrices ------------------------------------------------------------------------

    def gram(self, form: str, sizes: Callable[[], cost.Sizes]) -> HeldGram:
        """Form the Gram matrices, which the caller keeps."""
        for view in self.views:
            view.admit(0.0)
        with np.errstate(all="ignore"), timed("%s Gram matrices of %s", form, self.names):
            found = self._gram(form, sizes)
        self.check_finite(found.diagonals())
        return found

    def _gram(self, form: str, sizes: Callable[[], cost.Sizes]) -> HeldGram:
        return self._gram_of_entries() if self.by_entries else self._gram_of_products()

    def _gram_of_entries(self) -> DenseGram:
        """Form the Gram matrices in one sweep, which also computes the means if they are still unknown."""
        center = any(view.adjustment.lacks_mean for view in self.views)
        about = [None if center else view.adjustment.row for view in self.views]
        scaled = any(view.adjustment.scale for view in self.views)  # means show what underflows
        task = GramMatrices(self.home, about, center=center, means=scaled, model=self.model)
        part = task.part([self._entries(view) for view in self.views])
        self._sized_by_squares(task, part)
        for i, view in enumerate(self.views):
            columns = sum(self.widths) if view.operator.readable else self.widths[i] + view.by_products
            view.record(0, columns, sweeps=1.0)
        return self._corrected_gram(task, part)

    def _corrected_gram(self, task: GramMatrices, part: GramPart) -> DenseGram:
        """Store means and norms of the sweep in the views, and return the Gram matrices with confounds removed."""
        means = part.means if task.center or task.means else [None for _ in self.views]
        for i, (view, mean) in enumerate(zip(self.views, means, strict=True)):
            known = view.adjustment
            explained = known.explained_by(part.statistics[i]) if part.statistics else None
            squares = part.gram.diagonals()[i]
            known.learn(self.home, part.count, mean=mean, explained=explained, squares=squares)
        if not any(view.adjustment.changes_products for view in self.views):
            return part.gram
        rows = enumerate(part.gram.upper)
        return DenseGram(
            [
                [
                    _adjusted(S, self.views[i].adjustment, self.views[i + j].adjustment)
                    for j, S in enumerate(row)
                ]
                for i, row in rows
            ]
        )

    def _sized_by_squares(self, task: GramMatrices, part: GramPart) -> None:
        """Check the range of the entries from the Gram diagonals."""
        means = part.means if task.center or task.means else [view.adjustment.row for view in self.views]
        for view, d, mean in zip(self.views, part.gram.diagonals(), means, strict=True):
            if view.measured or not view.operator.readable:
                continue
            squares = to_host(d) if mean is None else to_host(d + part.count * mean**2)
            self._sized_from(squares, view, self.model)

    def _gram_of_products(self) -> DenseGram:
        """Form the Gram matrices of operators known only by products, some columns of the identity at a time."""
        self.gather([view for view in self.views if not view.adjustment.known])
        views = range(len(self.views))
        found: list[list[list[Array]]] = [[[] for _ in views] for _ in views]
        spreads: list[list[HostArray]] = [[] for _ in views]
        for j, width in enumerate(self.widths):
            columns = self._identity_columns
            for a in range(0, width, columns):
                blocks: list[Array | None] = [None for _ in views]
                blocks[j] = self.home.eye(width, min(columns, width - a), a)
                request = Request(blocks, [None for _ in views], self.home, onto=tuple(range(j + 1)))
                products = self._one_by_one(request, spreads=spreads[j])
                for i in range(j + 1):
                    found[i][j].append(products[i * len(views) + j])
        live = [self.varying(i, self.home.concat(found[i][i])) for i in views]
        for view, own, spread in zip(self.views, live, spreads, strict=True):
            view.unresolved = self._drowned(view, to_host(own) == 0, np.concatenate(spread))
        return DenseGram(
            [
                [self.home.concat(found[i][j]) * live[i][:, None] * live[j][None, :] for j in views[i:]]
                for i in views
            ]
        )

    def varying(self, index: int, S: Array) -> Array:
        """1 for each column that varies, 0 for each constant column, whose centred products are only rounding."""
        view, d = self.views[index], self.home.xp.linalg.diagonal(S)
        if view.adjustment.row is None:
            return self.home.xp.ones_like(d)
        unit = CONSTANT * float(np.finfo(view.operator.dtype).eps)
        row = scaled(view.adjustment.row, view.adjustment.factors)
        return self.home.xp.astype(d > self.total * (unit * row) ** 2, d.dtype)

    def _drowned(self, view: View, constant: HostArray, spreads: HostArray) -> bool:
        """Whether a column that looks constant in the products varies by more than the rounding of its entries."""
        if view.adjustment.row is None:
            return False
        unit = ENTRIES * float(np.finfo(view.operator.dtype).eps)
        row = scaled(view.adjustment.row, view.adjustment.factors)
        varies = spreads > self.total * (unit * to_host(row)) ** 2
        return bool(np.any(constant & varies))


def _adjusted(S: Array, left: Adjustment, right: Adjustment) -> Array:
    """The product S of two views with confounds removed, and with rows and columns times their factors."""
    if left.signed is not None and right.explained is not None:
        S = S - left.signed @ right.explained.T
    S = scaled(S, left.factors)
    return S if right.factors is None else S * right.factors[None, :]


def _signs(rows: int, home: Home) -> Array:
    """Random signs of shape (rows, PROBES), the same in every call."""
    return home.place(np.random.default_rng(0).integers(0, 2, (rows, PROBES)) * 2.0 - 1.0)


def _allowed(
    images: HostArray, size: float, norms: HostArray, A: LinearOperator
) -> tuple[HostArray, HostArray]:
    """For the inner products ⟨A vᵢ, uⱼ⟩, the products ‖A vᵢ‖ ‖uⱼ‖ and bounds on rounding, as two arrays.

    `images` has the lengths ‖A vᵢ‖, and `norms` the lengths ‖uⱼ‖. Entry (i, j) of the second array is the largest
    difference of ⟨A vᵢ, uⱼ⟩ and ⟨vᵢ, Aᵀuⱼ⟩ that counts as rounding (`ROUNDINGS`). It grows with the longest image, and
    with `size`, the bound on the length of an image before means and confounds are subtracted.
    """
    unit = ROUNDINGS * float(np.finfo(A.dtype).eps) * math.sqrt(A.shape[1])
    return np.outer(images, norms), np.outer(np.full_like(images, unit * max(size, images.max())), norms)


def _probed(Z: Array, SZ: Array, home: Home) -> Array:
    """Estimate the diagonal of S as the mean of z ∘ Sz over random signs z, with a positive lower bound."""
    estimate = home.xp.sum(Z * SZ, axis=1) / Z.shape[1]
    floor = home.xp.mean(home.xp.abs(estimate)) * 1e-3
    return home.xp.where(estimate > floor, estimate, floor * home.xp.ones_like(estimate))
