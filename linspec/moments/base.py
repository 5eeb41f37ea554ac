"""What every way to read the rows of views offers, and what is the same for all of them.

A sweep answers with small results: products with Gram and cross matrices, column means and norms, Gram matrices. It
enters what it did into the ledgers of the views, and its first results are looked at for entries that are not finite.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, TypeVar

import numpy as np

from linspec import cost
from linspec.arrays import Array, Home, HostArray, to_host
from linspec.errors import MissingCapability, NonFiniteData
from linspec.operators import DenseOperator, LinearOperator, SparseOperator
from linspec.operators.column_statistics import ColumnStatistics
from linspec.operators.largest_entry import magnitude_of
from linspec.operators.range_of_entries import ORDINARY, Magnitude, check_magnitude
from linspec.operators.watched import WatchedOperator
from linspec.process.log import timed
from linspec.sweeps.adjusted_rows import AdjustedRows
from linspec.sweeps.finite import explain_non_finite
from linspec.sweeps.first_sweep import Measured, MeasuredPart
from linspec.sweeps.gram_matrices import GramMatrices, GramPart
from linspec.sweeps.held_grams import DenseGram, HeldGram, Products
from linspec.sweeps.products import Request, Sums, forward
from linspec.sweeps.runners import row_slices, run_in_memory
from linspec.sweeps.statistics import Statistics
from linspec.sweeps.task import Task
from linspec.sweeps.views import View
from linspec.sweeps.witness import Together, Witness, Witnesses, witness

Part = TypeVar("Part")

PROBES = 16
"""Random-sign columns from which unknown column norms are estimated (relative error about 1/4)."""

ROUNDINGS = 32
"""Roundings by which inner products of a matrix and its transpose may differ, in units of √p."""

IDENTITY_COLUMNS = 256
"""The most columns of the identity that are multiplied at once to form a Gram matrix from products."""

IDENTITY_BYTES = 2**29
"""The most bytes that their products may take."""

CONSTANT = 32
"""From products, a column counts as constant if its standard deviation is at most this many roundings of its
mean."""

ENTRIES = 2
"""The same for the column itself, computed as a product with one column of the identity."""


class Sweeps(ABC):
    """A way to read the rows of one or two views.

    Parameters
    ----------
    views : list of View
    center : bool
        Take the column means out.

    Attributes
    ----------
    passes : float
        That one call of `products` takes once the means are known.
    sparse, streamed : bool
        Whether Gram matrices can be held as sparse matrices, and whether rows come slice by slice.
    reads_blocks : bool
        Whether blocks of rows are multiplied one after the other, so that `triangle` and `image_triangle` are offered.
    adjusts : bool
        Whether what confounds explain, and the factors of columns, come into products and not into rows.
    """

    passes: float = 1.0
    sparse: bool = False
    streamed: bool = False
    reads_blocks: bool = False

    def __init__(self, views: list[View], *, center: bool) -> None:
        self.views, self.model = views, views[0].model
        self.center = self.model.center
        self.home: Home = views[0].given.home.blocks
        self.adjusts = any(view.adjustment is not None for view in views)
        self._checked = False

    # ---- facts --------------------------------------------------------------------------------

    @property
    def n(self) -> int:
        """The number of rows; infinity for a stream whose rows have not been counted."""
        return min(view.given.shape[0] for view in self.views)

    @property
    def total(self) -> float:
        """What the rows count together."""
        return self.model.total(self.n)

    @property
    def names(self) -> str:
        """What messages call the views."""
        return " and ".join(view.name for view in self.views)

    @property
    def widths(self) -> list[int]:
        """Columns of the views."""
        return [view.operator.shape[1] for view in self.views]

    @property
    def exact_norms(self) -> bool:
        """Whether column norms are exact, or estimated from probes."""
        return all(view.operator.readable for view in self.views)

    @property
    def by_entries(self) -> bool:
        """Whether Gram matrices are made of entries: of operators known by products, those of few columns.

        One product with the identity is all their entries, and loses nothing to centring.
        """
        operators = [view.operator for view in self.views]
        if all(A.readable for A in operators):
            return True
        few = all(A.readable or A.shape[1] <= self._identity_columns for A in operators)
        return bool(few and 8.0 * self.n * sum(self.widths) <= IDENTITY_BYTES)

    @property
    def means_cost(self) -> float:
        """Passes to be made for the means before the first product."""
        return 1.0 if any(view.needs_sweep for view in self.views) else 0.0

    @property
    def gram_cost(self) -> float:
        """Passes that forming the Gram matrices would take now."""
        if self.by_entries:
            return 1.0
        blocks: list[int] = [-(-width // self._identity_columns) for width in self.widths]
        # The blocks of X give XᵀX at two sweeps of X each; those of Y give XᵀY, too, at one sweep of X.
        return self.means_cost + max(2.0 * blocks[0] + sum(blocks[1:]), 2.0 * blocks[-1])

    @property
    def _identity_columns(self) -> int:
        return min(IDENTITY_COLUMNS, max(1, IDENTITY_BYTES // (8 * self.n)))

    # ---- products -----------------------------------------------------------------------------

    def identity(self, index: int) -> Any:
        """A block with whose product the entries of a view come."""
        return self.home.eye(self.widths[index])

    def products(
        self,
        blocks: list[Array | None],
        images: list[Array] | None = None,
        onto: tuple[int, ...] = (0, 1),
    ) -> Products:
        """(XᵀX Vx, XᵀY Vy, YᵀX Vx, YᵀY Vy) by a sweep.

        Parameters
        ----------
        blocks : list of array or None
            Vx and Vy, where this way lives.
        images : list, optional
            Gathers (X Vx)ᵀ(X Vx) where X Vx is met as a whole.
        onto : tuple of int, default (0, 1)
            The views by whose transpose is multiplied: the products of others may be left out.
        """
        if all(block is None for block in blocks):
            return None, None, None, None
        columns = sum(block.shape[1] for block in blocks if block is not None)
        message = timed("sweep of %s with %d columns", self.names, columns)
        with np.errstate(all="ignore"), message:  # what is not finite is found by the check
            blocks = self.prepared(blocks)
            found = self._adjusted(self._products(blocks, images, onto), blocks)
        self.check_finite(found)
        return found

    def prepared(self, blocks: list[Array | None]) -> list[Array | None]:
        """The blocks times the factors of the columns that they multiply, as far as these are known."""
        self._prepare()
        if not self.adjusts:
            return blocks
        factors = [view.factors for view in self.views]
        return [_times(V, f) for V, f in zip(blocks, (*factors, None), strict=False)]

    def _adjusted(self, found: Products, blocks: list[Array | None]) -> Products:
        """Products with scaled blocks, less what confounds explain, times the factors of the columns."""
        if not self.adjusts:
            return found
        products = list(found)
        for i, view in enumerate(self.views):
            for j, other in enumerate(self.views):
                product, V = products[2 * i + j], blocks[j]
                if product is None or V is None:
                    continue
                if view.signed is not None and other.beside is not None:
                    product -= view.signed @ (other.beside.T @ V)  # it is nobody else's
                products[2 * i + j] = _times(product, view.factors)
        return products[0], products[1], products[2], products[3]

    def _prepare(self) -> None:
        """What products need to know first: the means."""
        self._settle()

    def _settle(self) -> None:
        """Learn all that is taken out of the rows."""
        self.gather([view for view in self.views if view.needs_sweep])
        for view in self.views:
            view.warn_of_cancellation()

    @abstractmethod
    def _products(
        self, blocks: list[Array | None], images: list[Array] | None, onto: tuple[int, ...]
    ) -> Products:
        """The products after `_prepare`; entered into the ledgers."""

    def _learn(self, found: Sums) -> None:
        """Tell the views what a sweep has gathered of their columns on the way."""
        for i, gathered in found.statistics.items():
            self.views[i].learn(gathered)
        for i, view in enumerate(self.views):
            if found.means is not None and view.mean is None:
                view.mean = found.means[i] + 0.0
            view.learn_means()
            view.warn_of_cancellation()

    def _request(self, blocks: list[Array | None], onto: tuple[int, ...] = (0, 1)) -> Request:
        """The blocks, with probes for column norms that are estimated from products."""
        probes: list[Array | None] = [None, None]
        for i, view in enumerate(self.views):
            if blocks[i] is not None and view.squares is None and not view.operator.readable:
                probes[i] = _signs(view.operator.shape[1], self.home)
        return Request(blocks, probes, self.home, onto)

    def _one_by_one(self, request: Request, spreads: list[HostArray] | None = None) -> Products:
        """One forward and one adjoint block product for each view; adjoint products only where they are asked for.

        `spreads` collects the squared lengths of the forward products about their own means.
        """
        operators = [view.centred(self._watched(view)) for view in self.views]
        W = forward(operators, request)
        if spreads is not None:
            P = self.home.place(W)
            if self.model.weights is None:
                P = P - self.home.xp.mean(P, axis=0)[None, :]
            spreads.append(to_host(self.home.xp.sum(P**2, axis=0)))
        adjoints = [A.rmatmat(W) if i in request.onto else None for i, A in enumerate(operators)]
        for i, (view, adjoint) in enumerate(zip(self.views, adjoints, strict=True)):
            if adjoint is not None and view.by_products and view.contradiction is None:
                self._compare(i, request, W, adjoint)
        return self._conclude(request, adjoints, sweeps=2.0)

    def _compare(self, index: int, request: Request, W: Array, adjoint: Array) -> None:
        """Compare ⟨A v, u⟩ with ⟨v, Aᵀu⟩ for the first products of a view: v are its probes, and u images of blocks."""
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
        """The largest length of an image, before anything is taken out of it."""
        found, xp = float(norms.max()), self.home.xp
        if view.taken is not None:
            found += float(to_host(xp.max(xp.abs(view.taken @ V)))) * math.sqrt(view.total)
        if view.beside is not None:
            found += float(self.home.column_norms(view.beside.T @ V).max())
        return found

    def _entries(self, view: View) -> LinearOperator:
        """The operator of a view; of products alone its entries, and one column more tells whether they are linear."""
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
        """Slices beside an operator that gives only products: the size of their entries comes from products, too."""
        A: LinearOperator = view.operator
        if view.measured or not view.streamed:
            return A
        view.measured = True
        watched = WatchedOperator(A, view.name, self.model.roots_of(0, self.n, self.home))
        watched.enter_in(view.ledger)
        return watched

    def _conclude(self, request: Request, adjoints: Sequence[Array | None], sweeps: float) -> Products:
        """Count the products, read the probes, and cut out the requested columns."""
        widths = [0 if V is None else V.shape[1] for V in request.wide]
        for i, (view, adjoint) in enumerate(zip(self.views, adjoints, strict=True)):
            backward = 0 if adjoint is None else request.columns
            trips = (widths[i] > 0) + (adjoint is not None)
            view.record(widths[i], backward, sweeps=sweeps if sweeps == 1.0 else float(trips))
            Z = request.probes[i]
            if Z is not None and adjoint is not None:
                view.squares = _probed(Z, adjoint[:, request.edges[i][1] : request.edges[i][2]], self.home)
        return request.cut(list(adjoints))

    def image_gram(self, index: int, V: Array) -> HostArray:
        """(XV)ᵀ(XV) of one view by way of XV, one forward product."""
        view = self.views[index]
        self.gather([view] if view.needs_sweep else [])
        total, first = self.home.zeros((V.shape[1], V.shape[1])), 0
        for rows in _blocks_of(view, V.shape[1]):
            P = self.home.place(view.centred(rows, first).matmat(V))
            total = total + P.T @ P
            first += rows.shape[0]
            view.operator.release()
        view.record(V.shape[1], 0, sweeps=1.0)
        return to_host(total)

    # ---- rows some at a time --------------------------------------------------------------------

    def triangle(self, V: Array, columns: int) -> tuple[Array, HostArray]:
        """XᵀX V, and the triangle R of the QR factorisation of the first columns of X V, in one sweep."""
        raise self._no_triangle()

    def image_triangle(self, V: Array) -> HostArray:
        """The triangle R of the QR factorisation of X V of the first view, in one sweep."""
        raise self._no_triangle()

    def _no_triangle(self) -> MissingCapability:
        return MissingCapability(
            f"the triangle of an image needs rows that come some at a time; got {self.views[0].given!r}. Call "
            "gram_and_image instead."
        )

    def run(self, task: Task[Part], columns: int = 0) -> Part:
        """A task over all rows of the operators of the views: what they take out of their columns is not taken out.

        Parameters
        ----------
        task : Task
        columns : int, default 0
            The columns of the products that a part holds.
        """
        whole, lacking = self._looking(task)
        found: Any = self._run(whole, columns)
        part: Part = self._looked(lacking, found)
        return part

    def _looking(self, task: Task[Any]) -> tuple[Task[Any], Witnesses]:
        """The task, beside it what identifies the rows, and around both a look at the size of their entries.

        Both come only where no sweep has found them yet.
        """
        lacking = self._lacking_witnesses
        whole: Task[Any] = Together(task, lacking) if lacking.views else task
        return self._measured(whole) or whole, lacking

    def _looked(self, lacking: Witnesses, found: Any) -> Any:
        """The part of the task alone, once the rest has been learnt."""
        if isinstance(found, MeasuredPart):
            self._sized(found.sizes)
            found = found.part
        if lacking.views:
            found, witnesses = found
            self._identified(lacking, witnesses)
        return found

    def _run(self, task: Task[Part], columns: int) -> Part:
        """A task over all rows, as it is."""
        operators = [view.operator for view in self.views]
        part = run_in_memory(task, operators, row_slices(operators, columns))
        self._check(task, part)
        return part

    def _measured(self, task: Task[Part]) -> Measured[Part] | None:
        """The task, with a look at the size of entries that no sweep has seen; None if that is known."""
        unknown, wide = (
            tuple(not view.measured for view in self.views),
            tuple(view.wide for view in self.views),
        )
        names = tuple(view.name for view in self.views)
        return Measured(task, names, unknown, wide, self.model) if any(unknown) or any(wide) else None

    def _sized(self, sizes: Sequence[Magnitude]) -> None:
        """Refuse views whose largest entry, of all rows, is out of the range."""
        for view, size in zip(self.views, sizes, strict=True):
            if not view.measured:
                check_magnitude(view.name, size)
                view.measured, view.wide = True, not size.fits_single

    def _check(self, task: Task[Part], part: Part, *, always: bool = False) -> None:
        """Refuse rows whose entries are too large, or not finite, as far as a part shows it."""
        if isinstance(part, MeasuredPart):
            for view, size in zip(self.views, part.sizes, strict=True):
                check_magnitude(view.name, size, complete=False)
        self.check_finite(task.looked_at(part), always=always)

    def over_rows(self, task: Task[Part], columns: int = 0) -> Part:
        """A task over all rows as they are multiplied, in one sweep once it is known what is taken out of them."""
        known = [view for view in self.views if not (view.streamed or view.operator.sliceable)]
        if known:
            raise MissingCapability(
                f"a task over rows needs rows that can be taken; got {known[0].given!r} for {known[0].name}. Pass an "
                "array, a sparse matrix, a file or slices."
            )
        with np.errstate(all="ignore"), timed("sweep of %s for a task", self.names):
            self._settle()
            part = self.run(AdjustedRows(task, [view.taken_out for view in self.views]), columns)
        for view in self.views:
            view.record(0, 0, sweeps=1.0)
        return part

    # ---- what identifies the rows ----------------------------------------------------------------

    @property
    def _lacking_witnesses(self) -> Witnesses:
        return Witnesses(tuple(i for i, view in enumerate(self.views) if view.lacks_witness))

    def _identified(self, of: Witnesses, found: Sequence[Witness]) -> None:
        """Give the views what identifies their rows."""
        for i, one in zip(of.views, found, strict=True):
            self.views[i].witness = one.on_host()

    def identify(self, view: View) -> None:
        """Read the rows of one view to know them again; the sweep is entered, but where it is part of another.

        Of entries in memory this is read off, as part of a sweep that was made since it was asked for.
        """
        A = view.operator
        with np.errstate(all="ignore"):  # what is not finite is found by the products
            view.witness = self._witness_of(view).on_host()
        if not (view.in_memory and view.swept):
            view.record(0, 0 if A.readable or A.streamed or A.remote else 1, sweeps=1.0)

    def _witness_of(self, view: View) -> Witness:
        A = view.operator
        if A.streamed and not A.remote:
            found, first = None, 0
            for block in A.blocks():
                more = witness(block, first)
                found, first = more if found is None else found.plus(more), first + block.shape[0]
            return found or witness(A)
        return run_in_memory(Witnesses(), [A], row_slices([A]))[0]

    # ---- means and column norms ---------------------------------------------------------------

    def gather(self, views: list[View]) -> None:
        """The column means and norms of some views, from one sweep; from products only the means."""
        if not views:
            return
        read = [
            view for view in views if view.operator.readable and not isinstance(view.operator, SparseOperator)
        ]
        with np.errstate(all="ignore"):  # what is not finite is found by the check
            for view in views:
                if isinstance(view.operator, SparseOperator):
                    view.learn_from_matrix()
                elif not (view.streamed or view.operator.readable):
                    view.learn_from_products(self.home)
            self._learn_from_slices([view for view in views if view.streamed])
            if read:  # together, so that two views of one file are read together
                operators = [view.operator for view in read]
                found = run_in_memory(Statistics(self.home, self.model), operators, row_slices(operators))
                for view, gathered in zip(read, found, strict=True):
                    view.learn(gathered)
        for view in views:
            view.record(0, 0 if view.operator.readable or view.streamed else 1, sweeps=1.0)
        self.check_finite([view.mean for view in views])

    def _learn_from_slices(self, views: list[View]) -> None:
        gathered, first = [ColumnStatistics(self.home) for _ in views], [0 for _ in views]
        # By turns, so that halves of one source share a reading.
        for blocks in zip_longest(*(view.operator.blocks() for view in views)):
            for i, (statistics, block) in enumerate(zip(gathered, blocks, strict=True)):
                if block is not None:
                    n = block.shape[0]
                    of = (self.model.weights_of, self.model.basis_of)
                    statistics.add(block, *(each(first[i], n, self.home) for each in of))
                    first[i] += n
            # While the blocks are there: rows that are read once cannot be searched afterwards.
            self.check_finite([statistics.mean for statistics in gathered], always=True)
        for view, statistics in zip(views, gathered, strict=True):
            view.learn(statistics)

    def check_finite(self, arrays: Iterable[Array | None], *, always: bool = False) -> None:
        """On the first sweep's small results, or always; only on failure is the data searched."""
        if self._checked and not always:
            return
        with np.errstate(all="ignore"):
            sums = [self.home.xp.sum(array) for array in arrays if array is not None]
            good = all(math.isfinite(float(to_host(total))) for total in sums)
        if not good:
            raise NonFiniteData(explain_non_finite({view.name: view.operator for view in self.views}))
        self._checked = self._checked or (bool(sums) and not always)

    # ---- Gram matrices ------------------------------------------------------------------------

    def gram(self, form: str, sizes: Callable[[], cost.Sizes]) -> HeldGram:
        """The Gram matrices that are held from now on.

        Parameters
        ----------
        form : {"dense", "sparse"}
        sizes : callable
            Returns the sizes by which the cheapest way to dense ones is chosen.
        """
        with np.errstate(all="ignore"), timed("%s Gram matrices of %s", form, self.names):
            found = self._gram(form, sizes)
        self.check_finite(found.diagonal())
        return found

    def _corrected_gram(self, task: GramMatrices, part: GramPart) -> DenseGram:
        """Gram matrices of entries, less what confounds explain; the views learn what the sweep has told."""
        means = part.means if task.center or task.means else [None for _ in self.views]
        for i, (view, mean) in enumerate(zip(self.views, means, strict=True)):
            view.mean = mean if view.mean is None else view.mean
            view.learn_from_gram(
                part.gram.diagonal()[i], part.statistics[i] if part.statistics else None, part.count
            )
        gram, x, y = part.gram, self.views[0], self.views[-1]
        if x.adjustment is not None:
            gram.Sx = self._adjusted_gram(gram.Sx, x, x)
            if gram.C is not None:
                gram.C, gram.Sy = self._adjusted_gram(gram.C, x, y), self._adjusted_gram(gram.Sy, y, y)
        return gram

    def _adjusted_gram(self, S: Array, left: View, right: View) -> Array:
        if left.signed is not None and right.beside is not None:
            S = S - left.signed @ right.beside.T
        S = S if left.factors is None else S * left.factors[:, None]
        return S if right.factors is None else S * right.factors[None, :]

    def _gram(self, form: str, sizes: Callable[[], cost.Sizes]) -> HeldGram:
        return self._gram_of_entries() if self.by_entries else self._gram_of_products()

    def _gram_of_entries(self) -> DenseGram:
        """The Gram matrices in one sweep, about the means that it tells where they are not known yet."""
        center = any(view.lacks_mean for view in self.views)
        about = [None if center else view.taken for view in self.views]
        task = GramMatrices(self.home, about, center=center, model=self.model)
        lacking, operators = self._lacking_witnesses, [self._entries(view) for view in self.views]
        part, found = Together(task, lacking).part(operators)
        self._identified(lacking, found)
        self._sized_by_squares(task, part)
        for i, view in enumerate(self.views):
            columns = sum(self.widths) if view.operator.readable else self.widths[i] + view.by_products
            view.record(0, columns, sweeps=1.0)
        return self._corrected_gram(task, part)

    def _sized_by_squares(self, task: GramMatrices, part: GramPart) -> None:
        """The same check, by Gram matrices: all rows are read again only if these ask for it."""
        means = part.means if task.center or task.means else [view.taken for view in self.views]
        for view, d, mean in zip(self.views, part.gram.diagonal(), means, strict=False):
            if view.measured or not view.operator.readable:
                continue
            squares = to_host(d) if mean is None else to_host(d + part.count * mean**2)
            size = math.sqrt(max(float(np.max(squares, initial=0.0)), 0.0))
            if not 1 / ORDINARY <= size <= ORDINARY:
                roots = self.model.roots_of(0, self.n, self.home)
                check_magnitude(view.name, magnitude_of(view.operator, roots))
                view.operator.release()
            view.measured = True

    def _gram_of_products(self) -> DenseGram:
        """The Gram matrices of operators that only give products, some columns of the identity at a time."""
        self.gather([view for view in self.views if view.needs_sweep])
        found: list[tuple[list[Array], list[Array]]] = [([], []), ([], [])]
        spreads: list[list[HostArray]] = [[], []]
        for i, width in enumerate(self.widths):
            columns = self._identity_columns
            for a in range(0, width, columns):
                E = self.home.eye(width, min(columns, width - a), a)
                blocks: list[Array | None] = [E, None] if i == 0 else [None, E]
                request = Request(blocks, [None, None], self.home, onto=(0,) if i == 0 else (0, 1))
                XtP, XtQ, _, YtQ = self._one_by_one(request, spreads=spreads[i])
                found[i][0].append(XtP if i == 0 else YtQ)
                found[i][1].append(XtQ)
        live = [
            self.varying(i, self.home.concat(f[0]))
            for i, f in zip(range(len(self.views)), found, strict=False)
        ]
        for view, own, spread in zip(self.views, live, spreads, strict=False):
            view.unresolved = self._drowned(view, to_host(own) == 0, np.concatenate(spread))
        Sx = self.home.concat(found[0][0]) * live[0][:, None] * live[0][None, :]
        if len(self.views) == 1:
            return DenseGram(Sx)
        C = self.home.concat(found[1][1]) * live[0][:, None] * live[1][None, :]
        return DenseGram(Sx, C, self.home.concat(found[1][0]) * live[1][:, None] * live[1][None, :])

    def varying(self, index: int, S: Array) -> Array:
        """1 for columns with a spread, 0 for constant ones, of which centred products leave rounding.

        Parameters
        ----------
        index : int
            The view.
        S : array of shape (p, p)
            Its Gram matrix, made of products.
        """
        view, d = self.views[index], self.home.xp.linalg.diagonal(S)
        if view.taken is None:
            return self.home.xp.ones_like(d)
        unit = CONSTANT * float(np.finfo(view.operator.dtype).eps)
        taken = _times_row(view.taken, view.factors)
        return self.home.xp.astype(d > self.total * (unit * taken) ** 2, d.dtype)

    def _drowned(self, view: View, constant: HostArray, spreads: HostArray) -> bool:
        """Whether columns that products show as constant vary by more than the rounding of their entries."""
        if view.taken is None:
            return False
        unit = ENTRIES * float(np.finfo(view.operator.dtype).eps)
        varies = spreads > self.total * (unit * to_host(_times_row(view.taken, view.factors))) ** 2
        return bool(np.any(constant & varies))


def _times(V: Array | None, factors: Array | None) -> Array | None:
    """A block with its rows multiplied by factors."""
    return V if V is None or factors is None else V * factors[:, None]


def _times_row(row: Array, factors: Array | None) -> Array:
    """A row in units of the columns after they are multiplied by factors."""
    return row if factors is None else row * factors


def _blocks_of(view: View, columns: int) -> Iterator[LinearOperator]:
    """The rows of one view, some at a time where that can be."""
    A = view.operator
    if A.streamed:
        yield from A.blocks()
        return
    for rows in row_slices([A], columns):
        yield A.rows(rows) if A.sliceable else A


def _signs(rows: int, home: Home) -> Array:
    """Random signs, the same in every call."""
    return home.place(np.random.default_rng(0).integers(0, 2, (rows, PROBES)) * 2.0 - 1.0)


def _allowed(
    images: HostArray, size: float, norms: HostArray, A: LinearOperator
) -> tuple[HostArray, HostArray]:
    """The products of the lengths of images and of other vectors, and by how much rounding moves inner products."""
    unit = ROUNDINGS * float(np.finfo(A.dtype).eps) * math.sqrt(A.shape[1])
    return np.outer(images, norms), np.outer(np.full_like(images, unit * max(size, images.max())), norms)


def _probed(Z: Array, SZ: Array, home: Home) -> Array:
    """The diagonal of S as the mean of z ∘ Sz over random signs z, floored well above zero."""
    estimate = home.xp.sum(Z * SZ, axis=1) / Z.shape[1]
    floor = home.xp.mean(home.xp.abs(estimate)) * 1e-3
    return home.xp.where(estimate > floor, estimate, floor * home.xp.ones_like(estimate))
