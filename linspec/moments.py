"""The second moments of one or two views, as products: XᵀX V, XᵀY V, YᵀX V, YᵀY V in one sweep.

Problem. Every iterative method of this library asks the data one question: what are the Gram and cross
products of the columns, times a thin block? How that is best answered depends on the data and not on the
method, so it is answered here, once.

Method. Three forms. *Implicit*: per block of rows P = XVx and Q = YVy, then Xᵀ[P Q] and Yᵀ[P Q], gathered in
float64: one sweep, no n x k array, one round of a cluster. *Dense Gram*: the three matrices are formed in
one sweep and held. *Sparse Gram*: the same as sparse matrices, because the columns of word counts rarely meet.
The least estimated time among the forms that fit into half of the available memory wins.

Centring is implicit and never subtracts large numbers from each other: row blocks are centred before they are
multiplied, dense Gram matrices are gathered about the mean of each block and merged (Chan, Golub & LeVeque
1983). Only a sparse Gram needs the subtraction XᵀX − nμμᵀ; it estimates what that loses and warns.

An operator known only by its products is asked for exactly one forward and one adjoint product a view. Its
column norms are estimated from random-sign probes that ride in the first product.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from linspec import cost, machine
from linspec.arrays import Array, Home, to_host
from linspec.column_statistics import ColumnStatistics, has_statistics
from linspec.errors import AccuracyWarning, InvalidProblem, NonFiniteData, UnsupportedData
from linspec.gram import DenseGram, Products, SparseGram
from linspec.operators import (
    CenteredOperator,
    CountedOperator,
    DenseOperator,
    LinearOperator,
    MappedOperator,
    SparseOperator,
    as_operator,
    sparse_kernels,
    uncounted,
)
from linspec.operators.dense import DEVICE_BLOCK_BYTES, HOST_BLOCK_BYTES, row_blocks

FORMS = ("auto", "dense", "sparse", "implicit")

PROBES = 16
"""Random-sign columns from which unknown column norms are estimated (relative error about 1/4)."""

IDENTITY_COLUMNS = 256
"""Columns of the identity multiplied at once when a Gram matrix is formed from products alone."""


class Moments:
    """Products with the Gram and cross matrices of one or two views.

    Parameters
    ----------
    X : data of shape (n, p)
        Anything `linspec.as_operator` takes.
    Y : data of shape (n, q), optional
    center : bool, default False
        Take the column means out.
    form : {"auto", "dense", "sparse", "implicit"}, default "auto"
        Hold the Gram matrices as dense or sparse arrays, or sweep the data at every product.
    expect : (int, int), optional
        Products to come and their columns, on which "auto" rests.

    Notes
    -----
    Nothing is read before the first product. All blocks and results are float64, in the library and on the
    device of the data (on the host for sparse matrices, files and foreign operators).
    """

    def __init__(
        self,
        X: Any,
        Y: Any = None,
        *,
        center: bool = False,
        form: str = "auto",
        expect: tuple[int, int] = (cost.EXPECTED_PRODUCTS, 20),
    ) -> None:
        if form not in FORMS:
            raise InvalidProblem(f"form must be one of {', '.join(FORMS)}; got {form!r}.")
        data = [("X", X)] if Y is None else [("X", X), ("Y", Y)]
        self._views = [_View(name, as_operator(source, name), center) for name, source in data]
        _check_alike(self._views)
        self.center = center
        self.n = self._views[0].operator.shape[0]
        self.home = self._views[0].operator.home.blocks
        self._given_form = form
        self._expect = expect
        self._form = ""
        self._gram: DenseGram | SparseGram | None = None
        self._alone: dict[int, Moments] = {}
        self._checked = False

    # ---- facts --------------------------------------------------------------------------------

    @property
    def X(self) -> LinearOperator:
        """The first view, without its mean taken out."""
        return self._views[0].operator

    @property
    def Y(self) -> LinearOperator | None:
        """The second view."""
        return self._views[1].operator if len(self._views) == 2 else None

    @property
    def shape(self) -> tuple[int, int, int]:
        """(n, p, q); q is 0 without a second view."""
        return self.n, self.X.shape[1], 0 if self.Y is None else self.Y.shape[1]

    @property
    def passes(self) -> float:
        """The largest number of sweeps made over either view."""
        return max(view.ledger.sweeps for view in self._views)

    @property
    def form(self) -> str:
        """ "dense", "sparse" or "implicit": the form in force (chosen at the first look)."""
        if not self._form:
            self._form = self._choose_form()
        return self._form

    @property
    def held(self) -> bool:
        """Whether products cost no sweep (any more)."""
        return self._gram is not None

    @property
    def sweep_cost(self) -> float:
        """Passes that one call of `products` takes: 0 held, 1 fused, 2 on products alone."""
        return 0.0 if self.held else 1.0 if self._sliceable else 2.0

    @property
    def setup_cost(self) -> float:
        """Passes still to be made before the first product: for the means, or to form what is held."""
        if self.held:
            return 0.0
        if self.form != "implicit":
            widest = max(-(-view.operator.shape[1] // IDENTITY_COLUMNS) for view in self._views)
            others = sum(-(-view.operator.shape[1] // IDENTITY_COLUMNS) for view in self._views) - widest
            return 1.0 if self._readable else self._means_cost + 2.0 * widest + others
        return self._means_cost

    @property
    def _means_cost(self) -> float:
        return 1.0 if any(view.center and view.mean is None for view in self._views) else 0.0

    @property
    def exact_diagonal(self) -> bool:
        """Whether column norms are exact, or estimated from probes."""
        return all(has_statistics(view.operator) for view in self._views)

    @property
    def _sliceable(self) -> bool:
        return all(view.operator.sliceable for view in self._views)

    @property
    def _readable(self) -> bool:
        return all(view.operator.readable for view in self._views)

    @property
    def _all_sparse(self) -> bool:
        return all(isinstance(view.operator, SparseOperator) for view in self._views)

    def _choose_form(self) -> str:
        if self._given_form == "sparse" and not self._all_sparse:
            raise InvalidProblem(
                'form "sparse" holds the Gram matrices of sparse matrices; got '
                f'{", ".join(repr(view.operator) for view in self._views)}. Use "auto", "dense" or "implicit".'
            )
        if self._given_form != "auto":
            return self._given_form
        sizes = cost.sizes_of(self.X, self.Y, self._expect[1])
        estimates = cost.moments_estimates(sizes, *self._expect)
        return cost.least_time(estimates, machine.available_memory() / 2) or "implicit"

    # ---- what methods call --------------------------------------------------------------------

    def products(self, Vx: Array | None = None, Vy: Array | None = None) -> Products:
        """(XᵀX Vx, XᵀY Vy, YᵀX Vx, YᵀY Vy) in one sweep; None where a block or a view is absent.

        Parameters
        ----------
        Vx : array of shape (p, k), optional
        Vy : array of shape (q, m), optional

        Returns
        -------
        tuple of arrays
            Shapes (p, k), (p, m), (q, k), (q, m), float64.
        """
        blocks = [self._block(Vx, 0), self._block(Vy, 1)]
        if self.form == "implicit":
            return self._swept(blocks)
        return self._held_gram().products(*blocks)

    def gram_matmat(self, V: Array) -> Array:
        """XᵀX V; the second view is not touched."""
        if len(self._views) == 1 or self.form != "implicit":
            return self.products(V)[0]
        return self.view(0).products(V)[0]

    def view(self, index: int) -> Moments:
        """The moments of one view alone, on the same ledger; what these hold, it holds.

        Parameters
        ----------
        index : {0, 1}
            The view X or the view Y.
        """
        if index not in self._alone:
            view = self._views[index]
            source = CountedOperator(view.operator, view.ledger)
            self._alone[index] = Moments(source, center=view.center, form=self.form)
        alone = self._alone[index]
        alone._views[0] = self._views[index]
        if self._gram is not None:
            alone._gram = self._gram.view(index)
        return alone

    def cross_matmat(self, V: Array) -> Array:
        """XᵀY V."""
        return self.products(None, V)[1]

    def diagonal(self) -> tuple[Array, Array | None]:
        """The diagonals of XᵀX and YᵀY: exact, or estimated where only products are known."""
        if self.form != "implicit":
            return self._held_gram().diagonal()
        if any(view.squares is None for view in self._views):
            self._gather()
        if any(view.squares is None for view in self._views):  # products alone: send the probes
            self._swept([self.home.zeros((view.operator.shape[1], 0)) for view in self._views])
        return self._views[0].squares, self._views[1].squares if len(self._views) == 2 else None

    def column_means(self) -> tuple[Array, Array | None]:
        """The column means of both views."""
        if self.form != "implicit" and self.center:
            self._held_gram()
        if any(view.mean is None for view in self._views):
            self._gather()
        return self._views[0].mean, self._views[1].mean if len(self._views) == 2 else None

    def column_sums(self) -> tuple[Array, Array | None]:
        """The column sums of both views."""
        mx, my = self.column_means()
        return mx * self.n, None if my is None else my * self.n

    def dense(self) -> tuple[Array, Array | None, Array | None]:
        """(XᵀX, XᵀY, YᵀY) as dense float64 arrays; the moments hold them from then on."""
        if isinstance(self._gram, SparseGram):
            self._gram = DenseGram.of_sparse(self._gram, self.home)
        self._form = "dense"
        gram = self._held_gram()
        return gram.Sx, gram.C, gram.Sy

    # ---- one sweep ----------------------------------------------------------------------------

    def _block(self, V: Array | None, index: int) -> Array | None:
        if V is None:
            return None
        rows = self._views[index].operator.shape[1] if index < len(self._views) else 0
        if rows == 0 or V.ndim != 2 or V.shape[0] != rows:
            name = ("Vx", "Vy")[index]
            raise InvalidProblem(f"{name} must have shape ({rows}, k); got {tuple(V.shape)}.")
        return self.home.place(V)

    def _swept(self, blocks: list[Array | None]) -> Products:
        if all(block is None for block in blocks):
            return None, None, None, None
        if any(view.center and view.mean is None for view in self._views):
            self._gather()
        if not self._sliceable:
            found = self._by_products(blocks, probing=True)
        elif self._all_sparse:
            found = self._by_sparse_slabs(blocks)
        else:
            found = self._by_row_blocks(blocks)
        self._check_finite(found)
        return found

    def _by_row_blocks(self, blocks: list[Array | None]) -> Products:
        """Any operators with row slices, one block of rows after the other."""
        gathering = any(view.squares is None for view in self._views)
        operators = [view.centered() for view in self._views]
        statistics = [ColumnStatistics(self.home) for _ in self._views]
        sums = _Sums(self.home, blocks)
        for rows in self._row_blocks():
            slabs = [operator.rows(rows) for operator in operators]
            sums.add(slabs)
            if gathering:
                for slab, gathered in zip(slabs, statistics, strict=True):
                    gathered.add(slab)
            self._release()
        if gathering and self.exact_diagonal:
            for view, gathered in zip(self._views, statistics, strict=True):
                view.squares = gathered.squares
        elif gathering:
            self._estimate_squares()
        self._record(blocks, sweeps=1.0)
        return sums.products()

    def _by_sparse_slabs(self, blocks: list[Array | None]) -> Products:
        """SciPy matrices: threads over slabs of rows with equally many entries."""
        Vx, Vy = blocks
        if any(view.squares is None for view in self._views):
            self._gather_sparse()
        mx, my = (self._views[i].shift() if i < len(self._views) else None for i in (0, 1))
        X = self._views[0].operator
        Y = self._views[1].operator if len(self._views) == 2 else None
        XtP, XtQ, YtP, YtQ, sum_p, sum_q = sparse_kernels.products(
            X.matrix,
            None if Y is None else Y.matrix,
            Vx,
            Vy,
            shift_x=None if mx is None or Vx is None else mx @ Vx,
            shift_y=None if my is None or Vy is None else my @ Vy,
            dtype_x=X.dtype,
            dtype_y=None if Y is None else Y.dtype,
        )
        self._record(blocks, sweeps=1.0)
        return (
            _less_mean(XtP, mx, sum_p),
            _less_mean(XtQ, mx, sum_q),
            _less_mean(YtP, my, sum_p),
            _less_mean(YtQ, my, sum_q),
        )

    def _by_products(self, blocks: list[Array | None], probing: bool) -> Products:
        """One forward and one adjoint block product a view, probes for unknown norms riding along."""
        operators = [view.centered() for view in self._views]
        probes: list[Array | None] = [None, None]
        wide = list(blocks)
        for i, view in enumerate(self._views):
            if probing and view.squares is None and blocks[i] is not None:
                probes[i] = self._probes(i)
                wide[i] = self.home.concat([blocks[i], probes[i]])
        dtype = np.result_type(*(view.operator.dtype for view in self._views))
        place = self.X.home.place
        pieces = [place(A.matmat(V), dtype) for A, V in zip(operators, wide, strict=False) if V is not None]
        W = self.X.home.concat(pieces)
        adjoints = [A.rmatmat(W) for A in operators]
        self._record(wide, sweeps=2.0)
        edges = _edges(blocks, probes)
        for i, Z in enumerate(probes):
            if Z is not None:
                self._views[i].squares = self._probed(Z, adjoints[i][:, edges[i][1] : edges[i][2]])
        return _cut(adjoints, edges, blocks)

    def _probes(self, index: int) -> Array:
        rows = self._views[index].operator.shape[1]
        signs = np.random.default_rng(index).integers(0, 2, (rows, PROBES)) * 2.0 - 1.0
        return self.home.place(signs)

    def _probed(self, Z: Array, SZ: Array) -> Array:
        """The diagonal of S as the mean of z ∘ Sz over random signs z, floored well above zero."""
        xp = self.home.xp
        estimate = xp.sum(Z * SZ, axis=1) / Z.shape[1]
        floor = xp.mean(xp.abs(estimate)) * 1e-3
        return xp.where(estimate > floor, estimate, floor * xp.ones_like(estimate))

    def _estimate_squares(self) -> None:
        """Column norms of sliceable operators whose entries cannot be read: two products with probes."""
        for i, view in enumerate(self._views):
            if view.squares is None:
                operator, Z = view.centered(), self._probes(i)
                view.squares = self._probed(Z, operator.rmatmat(operator.matmat(Z)))
                view.record(PROBES, PROBES, sweeps=2.0)

    def _row_blocks(self) -> Iterator[slice]:
        width = sum(view.operator.shape[1] * view.operator.dtype.itemsize for view in self._views)
        return row_blocks(self.n, width, self.X.home)

    def _release(self) -> None:
        for view in self._views:
            view.operator.release()

    def _record(self, blocks: list[Array | None], sweeps: float) -> None:
        widths = [0 if V is None else V.shape[1] for V in blocks] or [0, 0]
        for view, own in zip(self._views, widths, strict=False):
            one_way = 1.0 if own == 0 and sweeps == 2.0 else sweeps
            view.record(own, sum(widths), sweeps=one_way)

    # ---- means and column norms -----------------------------------------------------------------

    def _gather(self) -> None:
        """What one sweep can tell of the columns: means and norms (of products alone: the means)."""
        if self._all_sparse:
            self._gather_sparse()
            self._record([], sweeps=1.0)
        elif self.exact_diagonal:
            statistics = [ColumnStatistics(self.home) for _ in self._views]
            for rows in self._row_blocks():
                for view, gathered in zip(self._views, statistics, strict=True):
                    gathered.add(view.operator.rows(rows))
                self._release()
            for view, gathered in zip(self._views, statistics, strict=True):
                view.mean = gathered.mean if view.mean is None else view.mean
                view.squares = gathered.spread if view.center else gathered.squares
            self._record([], sweeps=1.0)
        else:
            for view in self._views:
                if view.mean is None:
                    ones = view.operator.home.place(np.ones((self.n, 1)), view.operator.dtype)
                    view.mean = view.operator.rmatmat(ones)[:, 0] / self.n
                    view.record(0, 1, sweeps=1.0)
        self._check_finite([view.mean for view in self._views])

    def _gather_sparse(self) -> None:
        """Means and norms of matrices in memory; part of whichever sweep comes first."""
        for view in self._views:
            gathered = ColumnStatistics(self.home)
            gathered.add(view.operator)
            view.mean = gathered.mean if view.mean is None else view.mean
            view.squares = gathered.spread if view.center else gathered.squares

    def _check_finite(self, arrays: Iterable[Array | None]) -> None:
        """On the first sweep's small results; only on failure is the data searched."""
        if self._checked:
            return
        for array in arrays:
            if array is not None and not np.isfinite(float(to_host(self.home.xp.sum(array)))):
                raise NonFiniteData(self._name_the_culprit())
        self._checked = True

    def _name_the_culprit(self) -> str:
        for view in self._views:
            found = first_non_finite(view.operator)
            if found is not None:
                return f"{view.name} must be finite; got {found[2]} at row {found[0]}, column {found[1]}."
        return (
            "products with the data are not finite although no entry was found that is not: the products "
            "overflow, or an operator's matmat or rmatmat is wrong. Scale the columns."
        )

    # ---- held forms ---------------------------------------------------------------------------

    def _held_gram(self) -> Any:
        if self._gram is None:
            if self.form == "sparse":
                self._gram = self._form_sparse()
            elif self._all_sparse:
                self._gram = DenseGram.of_sparse(self._form_sparse(), self.home)
            elif self._readable:
                self._gram = self._form_dense()
            else:
                self._gram = self._form_by_products()
            self._check_finite(self._gram.diagonal())
        return self._gram

    def _zero_gram(self) -> DenseGram:
        p, q = self.shape[1:]
        zeros = self.home.zeros
        return DenseGram(zeros((p, p)), zeros((p, q)) if q else None, zeros((q, q)) if q else None)

    def _form_dense(self) -> DenseGram:
        """The Gram matrices in one sweep, about the mean of each block where the mean is not known yet."""
        gram = self._zero_gram()
        merging = any(view.center and view.mean is None for view in self._views)
        means = [self.home.zeros((view.operator.shape[1],)) for view in self._views]
        seen = 0
        for rows in self._gram_blocks():
            slabs = [view.float64_rows(rows, self.home) for view in self._views]
            count = slabs[0].shape[0]
            if merging:
                news = [self.home.xp.mean(Z, axis=0) for Z in slabs]
                slabs = [Z - new[None, :] for Z, new in zip(slabs, news, strict=True)]
                steps = [new - mean for new, mean in zip(news, means, strict=True)]
                gram.add_outer(steps, seen * count / (seen + count))
                means = [m + s * (count / (seen + count)) for m, s in zip(means, steps, strict=True)]
            gram.add_rows(slabs)
            seen += count
            self._release()
        if merging:
            for view, mean in zip(self._views, means, strict=True):
                view.mean = mean
        self._record_forming()
        return gram

    def _gram_blocks(self) -> Iterable[slice]:
        """Row blocks for forming Gram matrices: tall enough that adding p x p sums costs little."""
        if all(view.resident_float64 for view in self._views):
            return [slice(0, self.n)]
        width = sum(self.shape[1:])
        target = HOST_BLOCK_BYTES if self.X.home.on_host else DEVICE_BLOCK_BYTES
        rows = max(target // (8 * width), 2 * width, 1)
        return (slice(a, min(a + rows, self.n)) for a in range(0, self.n, rows))

    def _form_sparse(self) -> SparseGram:
        X, *rest = [view.operator.matrix for view in self._views]
        Y = rest[0] if rest else None
        Sx = sparse_kernels.gram(X)
        C = None if Y is None else sparse_kernels.gram(X, Y)
        Sy = None if Y is None else sparse_kernels.gram(Y)
        self._gather_sparse()
        self._record_forming()
        means = [view.mean for view in self._views]
        gram = SparseGram(Sx, C, Sy, means, [view.center for view in self._views], self.n)
        if gram.lost_digits() > 6:
            warnings.warn(
                f"centring a sparse Gram matrix by subtraction loses {gram.lost_digits():.0f} digits here, "
                'because column means are large beside their spread. Use form="implicit" or dense data.',
                AccuracyWarning,
                stacklevel=2,
            )
        return gram

    def _form_by_products(self) -> DenseGram:
        """The Gram matrices of operators known by products, some columns of the identity at a time."""
        if any(view.center and view.mean is None for view in self._views):
            self._gather()
        gram = self._zero_gram()
        for i, view in enumerate(self._views):
            width = view.operator.shape[1]
            for a in range(0, width, IDENTITY_COLUMNS):
                b = min(a + IDENTITY_COLUMNS, width)
                E = self.home.place(np.eye(width, b - a, -a))
                XtP, XtQ, _, YtQ = self._by_products([E, None] if i == 0 else [None, E], probing=False)
                if i == 0:
                    gram.Sx[:, a:b] = XtP
                else:
                    gram.C[:, a:b], gram.Sy[:, a:b] = XtQ, YtQ
        return gram

    def _record_forming(self) -> None:
        width = sum(self.shape[1:])
        for view in self._views:
            view.record(0, width, sweeps=1.0)


class _View:
    """One matrix of the moments: its operator, its ledger, and what sweeps have told of its columns."""

    def __init__(self, name: str, operator: LinearOperator, center: bool) -> None:
        self.name = name
        self.center = center
        self.mean: Array | None = None
        self.squares: Array | None = None
        if isinstance(operator, CenteredOperator):  # its mean is known: take it out the better way here
            self.center, self.mean = True, operator.mean
            operator = operator.parts[0]
        self.operator: Any
        self.operator, self.ledger = uncounted(operator)

    def centered(self) -> LinearOperator:
        """The operator with its mean taken out where that is wanted."""
        operator: LinearOperator = self.operator.centered(self.mean) if self.center else self.operator
        return operator

    def shift(self) -> Array | None:
        """The mean to take out; None where nothing is."""
        return self.mean if self.center else None

    @property
    def resident_float64(self) -> bool:
        """Whether the data can be multiplied as they lie, without conversion, centring or blocks."""
        A = self.operator
        plain = isinstance(A, DenseOperator) and not isinstance(A, MappedOperator) and A.plain
        return plain and not self.center and A.dtype == np.float64

    def float64_rows(self, rows: slice, home: Home) -> Array:
        """Some rows as dense float64, with the mean taken out where it is known."""
        A = self.operator
        entries = home.place(A.array[rows, :] if isinstance(A, DenseOperator) else A.rows(rows).dense())
        return entries - self.mean[None, :] if self.center and self.mean is not None else entries

    def record(self, forward: int, adjoint: int, sweeps: float) -> None:
        """Enter products into the ledger."""
        columns = forward + adjoint
        self.ledger.record(sweeps=sweeps, columns=columns, flops=2.0 * self.operator.nnz * columns)


class _Sums:
    """Xᵀ[P Q] and Yᵀ[P Q] for P = X Vx, Q = Y Vy, gathered over row blocks in float64."""

    def __init__(self, home: Home, blocks: list[Array | None]) -> None:
        self.home = home
        self.blocks = blocks
        self.totals: list[Array] = []

    def add(self, slabs: list[LinearOperator]) -> None:
        place, dtype = slabs[0].home.place, np.result_type(*(slab.dtype for slab in slabs))
        products = [s.matmat(V) for s, V in zip(slabs, self.blocks, strict=False) if V is not None]
        W = slabs[0].home.concat([place(product, dtype) for product in products])
        sums = [slab.rmatmat(W) for slab in slabs]
        self.totals = [t + s for t, s in zip(self.totals, sums, strict=True)] if self.totals else sums

    def products(self) -> Products:
        return _cut(self.totals, _edges(self.blocks, [None, None]), self.blocks)


def _edges(blocks: list[Array | None], probes: list[Array | None]) -> list[tuple[int, int, int]]:
    """Per view, where its own columns begin and end in [P Q], and where its probes end."""
    edges, start = [], 0
    for V, Z in zip(blocks, probes, strict=True):
        own = start + (0 if V is None else V.shape[1])
        end = own + (0 if Z is None else Z.shape[1])
        edges.append((start, own, end))
        start = end
    return edges


def _cut(adjoints: list[Array], edges: list[tuple[int, int, int]], blocks: list[Array | None]) -> Products:
    """The four products out of Xᵀ[P Q] and Yᵀ[P Q]."""
    found: list[Array | None] = []
    for i in (0, 1):
        for (start, stop, _), V in zip(edges, blocks, strict=True):
            present = i < len(adjoints) and V is not None
            found.append(adjoints[i][:, start:stop] if present else None)
    return found[0], found[1], found[2], found[3]


def _check_alike(views: list[_View]) -> None:
    if len(views) == 1:
        return
    X, Y = (view.operator for view in views)
    if X.shape[0] != Y.shape[0]:
        raise InvalidProblem(f"X and Y must have equally many rows; got {X.shape[0]} and {Y.shape[0]}.")
    if X.home != Y.home:
        raise UnsupportedData(f"X and Y must live in one place; got {X.home} and {Y.home}. Move one of them.")


def first_non_finite(A: LinearOperator) -> tuple[int, int, float] | None:
    """Row, column and value of the first entry that is not finite; None where entries cannot be read."""
    if isinstance(A, SparseOperator):
        return sparse_kernels.first_non_finite(A.matrix)
    if not isinstance(A, DenseOperator):
        return None
    for rows in row_blocks(A.shape[0], A.row_bytes, A.home):
        block = to_host(A.array[rows, :])
        bad = np.argwhere(~np.isfinite(block)) if block.dtype.kind == "f" else np.empty((0, 2), dtype=int)
        if len(bad):
            i, j = bad[0]
            return rows.start + int(i), int(j), float(block[i, j])
        A.release()
    return None


def _less_mean(XtP: Array | None, mean: Array | None, total: Array | None) -> Array | None:
    """Xᵀ P − μ (1ᵀP): the rest of the centring of a sparse sweep, small because P is centred."""
    if XtP is None or mean is None or total is None:
        return XtP
    return XtP - mean[:, None] * total[None, :]
