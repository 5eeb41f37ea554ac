"""The second moments of one or two views, as products: XᵀX V, XᵀY V, YᵀX V, YᵀY V in one sweep.

Problem: every iterative method of this library needs the Gram and cross matrices of the columns, times a thin
block. The best way to compute these products depends on the data and not on the method, so they are computed
here.

Method: there are three forms. *Implicit*: for each block of rows P = XVx and Q = YVy, then Xᵀ[P Q] and Yᵀ[P
Q], summed in float64. This is one sweep, without an n x k array, and one round of a cluster. *Dense Gram*:
the three matrices are formed in one sweep and held. *Sparse Gram*: the same as sparse matrices, because
columns of word counts rarely share a row. Among the forms that fit into three eighths of the available
memory, the fastest by estimate is chosen.

Centring is implicit and never subtracts large numbers from each other. Row blocks are centred before they are
multiplied. Dense Gram matrices are formed about the mean of each block and merged (Chan, Golub & LeVeque
1983). A sparse Gram matrix, and a sparse or foreign operator, have no entries to centre. They need a
subtraction of products; its loss of digits is estimated, and a warning tells it.

An operator that only gives products makes exactly one forward and one adjoint product for each view. Its
column norms are estimated from random-sign probes, which are extra columns of the first product.

One view of row slices is swept like rows in memory, centred or not, and the first sweep also gives its means
(`linspec.slice_sweep`). If one of two views is streamed, the products are made one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from linspec import cost, machine
from linspec.arrays import Array, Home, HostArray, to_host
from linspec.column_statistics import ColumnStatistics
from linspec.errors import AccuracyWarning, InvalidProblem, MissingCapability, NonFiniteData, shown, warn
from linspec.gram import DenseGram, Products, RunningGram, SparseGram
from linspec.log import LOG, tells, timed
from linspec.operators import (
    CountedOperator,
    LinearOperator,
    SparseOperator,
    as_operator,
    sparse_kernels,
)
from linspec.operators.turns import in_turn
from linspec.options import FORMS
from linspec.pauses import pause
from linspec.row_reduction import reduce_rows
from linspec.row_sweep import Asked, forward, row_slices, sweep
from linspec.slice_sweep import sliced_gram, sliced_product, sliced_statistics, sliced_triangle
from linspec.views import (
    DIGITS_TO_WARN,
    FloatRows,
    View,
    check_alike,
    explain_non_finite,
    first_non_finite,
    gram_blocks,
)
from linspec.whitener import Whitener, squared_cut

__all__ = ["FORMS", "Moments", "explain_non_finite", "first_non_finite"]

PROBES = 16
"""Random-sign columns from which unknown column norms are estimated (relative error about 1/4)."""

IDENTITY_COLUMNS = 256
"""The most columns of the identity that are multiplied at once to form a Gram matrix from products."""

IDENTITY_BYTES = 2**29
"""The most bytes that their products may take."""

STRIPS, NARROWEST_STRIP = 8, 64
"""The number of strips in which a symmetric product of two blocks is formed, and the least columns of a
strip."""

CONSTANT = 32
"""From products, a column counts as constant if its standard deviation is at most this many roundings of its
mean."""

ENTRIES = 2
"""The same for the column itself, computed as a product with one column of the identity."""


P = ParamSpec("P")
R = TypeVar("R")


def _in_turn(
    method: Callable[Concatenate[Moments, P], R],
) -> Callable[Concatenate[Moments, P], R]:
    """A method that one thread at a time runs: what is held is formed once, and no sweep is counted wrongly."""

    @wraps(method)
    def alone(self: Moments, *args: P.args, **kwargs: P.kwargs) -> R:
        with in_turn(self._both or self):
            return method(self, *args, **kwargs)

    return alone  # type: ignore[return-value]  # it is called like the method


class Moments:
    """Products with the Gram and cross matrices of one or two views.

    Parameters
    ----------
    X : data of shape (n, p)
        Anything `linspec.as_operator` takes.
    Y : data of shape (n, q), optional
    center : bool, default False
        Whether to centre the columns.
    form : {"auto", "dense", "sparse", "implicit"}, default "auto"
        Hold the Gram matrices as dense or sparse arrays, or sweep the data at every product.
    expect : (int, int), optional
        The expected number of products and their columns, from which "auto" chooses.
    names : (str, str), default ("X", "Y")
        The names of the views in messages.

    Raises
    ------
    InvalidProblem
        The views have no rows or different numbers of rows, or the form is not one of the four.
    UnsupportedData
        The views have different libraries or devices, or cannot be multiplied.

    Notes
    -----
    Nothing is read before the first product. All blocks and results are float64, in the library and on the
    device of the data (on the host for sparse matrices, files and foreign operators). Threads that share moments
    take turns.
    """

    def __init__(
        self,
        X: Any,
        Y: Any = None,
        *,
        center: bool = False,
        form: str = "auto",
        expect: tuple[int, int] = (cost.EXPECTED_PRODUCTS, 20),
        names: tuple[str, str] = ("X", "Y"),
    ) -> None:
        if str(form) not in FORMS:
            raise InvalidProblem(f"form must be one of {', '.join(FORMS)}; got {shown(form)}.")
        if not isinstance(center, bool | np.bool_):
            raise InvalidProblem(f"center must be True or False; got {shown(center)}.")
        data = [(names[0], X)] if Y is None else [(names[0], X), (names[1], Y)]
        views = [View(name, as_operator(source, name), center=center) for name, source in data]
        check_alike(views)
        self._set_up(views, center=center, form=form, expect=expect)

    def _set_up(self, views: list[View], *, center: bool, form: str, expect: tuple[int, int]) -> None:
        self._views = views
        self.center = center
        self.home: Home = views[0].given.home.blocks
        self._given_form = form
        self._expect = expect
        self._form = ""
        self._gram: DenseGram | SparseGram | None = None
        self._cross: Array | None = None
        self._both: Moments | None = None
        self._index = 0
        self._alone: dict[int, Moments] = {}
        self._checked = False
        self._whiteners: dict[tuple[int, float], Whitener] = {}

    def __repr__(self) -> str:
        views = ", ".join(f"{view.name}={view.given!r}" for view in self._views)
        return f"Moments({views}, center={self.center}, form={self._form or self._given_form!r})"

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
        sizes = [view.given.shape[0] for view in self._views]
        return min(sizes)

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
        """The same of those that the calling thread has made."""
        return max(view.ledger.own_sweeps for view in self._views)

    def columns_made(self, index: int) -> float:
        """The number of products with one column of a view so far, forward and adjoint."""
        return self._views[index].ledger.columns

    @property
    @_in_turn
    def form(self) -> str:
        """The form in force, "dense", "sparse" or "implicit"; it is chosen when it is first needed."""
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
        views = (view.given for view in self._views)
        units = [float(np.finfo(A.dtype).eps) for A in views]
        return (
            float(np.finfo(np.float64).eps) if self.held and (self._entered or self._streamed) else max(units)
        )

    @property
    def spent(self) -> bool:
        """Whether no further product is possible: the data were read once, and no Gram matrix is held."""
        return not self.held and any(getattr(view.operator, "spent", False) for view in self._views)

    @property
    def sweep_cost(self) -> float:
        """The passes of one call of `products` after the set-up: 0 held, 1 fused, 2 from products."""
        return 0.0 if self.form != "implicit" else 1.0 if self._sliceable or self._streamed else 2.0

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
        if self.form == "implicit":
            return self._means_cost
        if self._entered or self._streamed:
            return 1.0
        widths = [view.operator.shape[1] for view in self._views]
        blocks: list[int] = [-(-width // self._identity_columns) for width in widths]
        # The blocks of X give XᵀX at two sweeps of X each; those of Y give XᵀY, too, at one sweep of X.
        return self._means_cost + max(2.0 * blocks[0] + sum(blocks[1:]), 2.0 * blocks[-1])

    @property
    def _means_cost(self) -> float:
        return 1.0 if not self._streamed and any(view.lacks_mean for view in self._views) else 0.0

    @property
    def exact_diagonal(self) -> bool:
        """Whether column norms are exact, or estimated from probes."""
        return self._readable or self._streamed or self.form != "implicit"

    @property
    def _sliceable(self) -> bool:
        return all(view.operator.sliceable for view in self._views)

    @property
    def _readable(self) -> bool:
        return all(view.operator.readable for view in self._views)

    @property
    def _entered(self) -> bool:
        """Whether the Gram matrices are formed from entries.

        Operators that only give products have entries here if they have few columns: one product with the
        identity gives all entries, and centring them loses no digits.
        """
        views = [view.operator for view in self._views]
        few = all(A.readable or A.shape[1] <= self._identity_columns for A in views)
        return self._readable or (few and 8.0 * self.n * sum(self.shape[1:]) <= IDENTITY_BYTES)

    @property
    def _streamed(self) -> bool:
        """Whether there is one view, it comes slice by slice, and one sweep makes every product."""
        return len(self._views) == 1 and self._views[0].streamed

    @property
    def _all_sparse(self) -> bool:
        return all(isinstance(view.operator, SparseOperator) for view in self._views)

    @property
    def _sharing(self) -> Moments | None:
        """The moments of both views, if they form and hold the Gram matrix of this view."""
        return self._both if self._both is not None and self._both.form != "implicit" else None

    @property
    def _identity_columns(self) -> int:
        return min(IDENTITY_COLUMNS, max(1, IDENTITY_BYTES // (8 * self.n)))

    def _choose_form(self) -> str:
        if self._given_form == "sparse" and not self._all_sparse:
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
                self._names,
                {"implicit": "sweeps"}.get(form, f"{form} Gram matrices, held"),
                estimate,
                *self._expect,
                cost.human_bytes(machine.available_memory()),
            )
        return form

    @property
    def _names(self) -> str:
        return " and ".join(view.name for view in self._views)

    def _sizes(self) -> cost.Sizes:
        return cost.sizes_of(self.X, self.Y, self._expect[1])

    # ---- what methods call --------------------------------------------------------------------

    @_in_turn
    def products(self, Vx: Array | None = None, Vy: Array | None = None) -> Products:
        """(XᵀX Vx, XᵀY Vy, YᵀX Vx, YᵀY Vy) in one sweep, with None if a block or a view is absent.

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
        pause()
        products: Products = self._held_gram().products(*blocks)
        return products

    def gram_matmat(self, V: Array) -> Array:
        """XᵀX V. The second view is not read, unless Gram matrices are to be held and are not formed yet."""
        if len(self._views) == 1 or self.form != "implicit":
            return self.products(V)[0]
        return self.view(0).products(V)[0]

    @_in_turn
    def gram_and_image(self, V: Array) -> tuple[Array, Array]:
        """XᵀX V and (X V)ᵀ(X V), in one sweep.

        Parameters
        ----------
        V : array of shape (p, k)

        Returns
        -------
        tuple of arrays
            Shapes (p, k) and (k, k), float64.
        """
        seen: list[Array] = []
        alone = len(self._views) == 1 and self.form == "implicit"
        product = self._swept([self._block(V, 0), None], seen)[0] if alone else self.gram_matmat(V)
        return product, seen[0] if seen else _symmetric_product(self.home.place(V), product, self.home)

    @_in_turn
    def gram_and_triangle(self, V: Array, columns: int) -> tuple[Array, HostArray]:
        """XᵀX V and the triangle R of the QR factorisation of X V, in one sweep over streamed rows.

        Parameters
        ----------
        V : array of shape (p, k)
        columns : int
            The number of leading columns of V in the triangle. The other columns are only multiplied.

        Returns
        -------
        array of shape (p, k), host array of shape (columns, columns), or with fewer rows
            Both float64.

        Raises
        ------
        MissingCapability
            The rows are not streamed. For all data there is `gram_and_image`, the Gram matrix of the image.
        """
        if not self._streamed:
            raise MissingCapability(
                f"the triangle of an image needs streamed rows; got {self.X!r}. Call gram_and_image instead."
            )
        view, V = self._views[0], self._block(V, 0)
        with np.errstate(all="ignore"):
            found = sliced_triangle(view, V, columns, self.home, center=self.center)
        view.record(V.shape[1], V.shape[1], sweeps=1.0)
        view.warn_of_cancellation()
        return found

    @_in_turn
    def gram_and_cross(self, V: Array | None = None) -> tuple[Array | None, Array]:
        """XᵀX V and XᵀY, in one sweep. XᵀY is kept for later calls.

        Parameters
        ----------
        V : array of shape (p, k), optional
            If it is left out, the first result is None.

        Returns
        -------
        tuple of arrays
            Shapes (p, k) and (p, q), float64.
        """
        if self._cross is None and self.Y is not None and self.wide:
            return self._wide_gram_and_cross(V)
        if self._cross is None and self.form == "dense":
            self._cross = self._held_gram().C
        if self._cross is None:
            XtXV, self._cross, _, _ = self.products(V, self.home.eye(self.shape[2]))
            return XtXV, self._cross
        return None if V is None else self.gram_matmat(V), self._cross

    @property
    def wide(self) -> bool:
        """Whether products with XXᵀ, on much smaller blocks, cost no more than products with XᵀX.

        This holds for sparse X in memory with few rows, without centring.
        """
        view = self._views[0]
        plain = not self.center and view.taken is None
        return plain and self.form == "implicit" and _wide(view.operator)

    @_in_turn
    def outer_matmat(self, U: Array) -> tuple[Array, Array]:
        """(XᵀU, XXᵀU): two sweeps of X, one after the other.

        Parameters
        ----------
        U : array of shape (n, k)

        Returns
        -------
        tuple of arrays
            Shapes (p, k) and (n, k), float64.
        """
        view = self._views[0]
        X, k = view.operator, U.shape[1]
        XtU = sparse_kernels.matmat(X.transposed, U, X.dtype) if self.wide else X.rmatmat(U)
        view.record(k, k, sweeps=2.0)
        return XtU, self.home.place(X.matmat(XtU))

    @_in_turn
    def outer_gram_matmat(self, U: Array) -> Array:
        """XXᵀU in one sweep of wide sparse X; each column of X is read once.

        Parameters
        ----------
        U : array of shape (n, k)

        Returns
        -------
        array of shape (n, k), float64
        """
        view = self._views[0]
        if not self.wide:
            return self.outer_matmat(U)[1]
        view.record(U.shape[1], U.shape[1], sweeps=1.0)
        X = view.operator
        return sparse_kernels.products(X.transposed, None, U, None, dtype_x=X.dtype).XtP

    @_in_turn
    def view(self, index: int) -> Moments:
        """The moments of one view. They count sweeps on the same ledger and share the held matrices.

        Parameters
        ----------
        index : {0, 1}
            0 for the view X, 1 for the view Y.
        """
        if index not in range(len(self._views)):
            raise InvalidProblem(f"there are {len(self._views)} views; got index {index}.")
        if index not in self._alone:
            alone = object.__new__(type(self))
            alone._set_up([self._views[index]], center=self.center, form="auto", expect=self._expect)
            alone._both, alone._index = self, index
            self._alone[index] = alone
        return self._alone[index]

    def cross_matmat(self, V: Array) -> Array:
        """XᵀY V."""
        return self.products(None, V)[1]

    @_in_turn
    def diagonal(self) -> tuple[Array, Array | None]:
        """The diagonals of XᵀX and YᵀY. They are estimated for operators that only give products."""
        if self.form != "implicit":
            diagonal: tuple[Array, Array | None] = self._held_gram().diagonal()
            return diagonal
        exact = [view for view in self._views if view.operator.readable or view.streamed]
        self._gather([view for view in exact if view.squares is None])
        for i, view in enumerate(self._views):
            if view.squares is None:  # products alone: send the probes
                self.view(i)._swept([self.home.zeros((view.operator.shape[1], 0)), None])
        return self._views[0].squares, self._views[1].squares if len(self._views) == 2 else None

    def known_diagonals(self) -> list[Array] | None:
        """The exact diagonals of XᵀX and YᵀY, or None if no earlier sweep has computed them."""
        if self.held:
            found = self._held_gram().diagonal()[: len(self._views)]
        else:
            found = [view.squares if view.operator.readable else None for view in self._views]
        return None if any(d is None for d in found) else list(found)

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

    def _cancelled(self, view: View, squares: Array | None, held: Any) -> float:
        eps = float(np.finfo(view.operator.dtype).eps)
        if view.unresolved:
            return 1.0
        if not view.corrects_products or (isinstance(held, DenseGram) and self._entered):
            return 0.0
        lost = view.cancelled(squares)
        return eps * (lost**2 if isinstance(held, SparseGram) else lost)

    def subtracted(self, index: int) -> float:
        """The sum of squares that centring subtracts from the products of one view; 0 for centred entries.

        Parameters
        ----------
        index : {0, 1}
        """
        view = self._views[index]
        if view.lacks_mean:
            self.column_means()
        if not view.corrects_products or (self.held and self._entered):
            return 0.0
        return float(self.n * self.home.norm(self.home.place(view.taken)) ** 2)

    def total_squares(self) -> float | None:
        """The sum of all squared entries of X, about the column means with centring. Makes no sweep.

        Returns
        -------
        float or None
            None before the sweep that computes it, and for operators that only give products: they would need
            a product with every column of the identity.
        """
        view = self._views[0]
        if self.held:
            squares = self._held_gram().diagonal()[0]
        elif view.operator.readable and view.squares is not None:
            squares = view.squares
        else:
            return None
        return float(self.home.xp.sum(squares))

    @_in_turn
    def column_means(self) -> tuple[Array, Array | None]:
        """The column means of both views."""
        if self.form != "implicit" and self.center:
            self._held_gram()
        self._gather([view for view in self._views if view.mean is None])
        means = [view.mean_as_given for view in self._views]
        return means[0], means[1] if len(means) == 2 else None

    def column_sums(self) -> tuple[Array, Array | None]:
        """The column sums of both views."""
        mx, my = self.column_means()
        return mx * self.n, None if my is None else my * self.n

    @_in_turn
    def dense(self) -> tuple[Array, Array | None, Array | None]:
        """(XᵀX, XᵀY, YᵀY) as dense float64 arrays; the moments hold them from then on.

        Later products use these arrays, so do not change them.
        """
        self._form = "dense"
        gram = self._held_gram()
        if isinstance(gram, SparseGram):
            gram = self._gram = DenseGram.of_sparse(gram, self.home)
        return gram.Sx, gram.C, gram.Sy

    @_in_turn
    def whitener(self, index: int, ridge: float) -> Whitener:
        """The factor of a view's Gram matrix plus ridge, for held dense Gram matrices. It is made once.

        Parameters
        ----------
        index : {0, 1}
        ridge : float
        """
        if (index, ridge) not in self._whiteners:
            S = self.dense()[2 * index]
            cut = squared_cut(self._views[index].given)
            self._whiteners[index, ridge] = Whitener(S, ridge, cut, self.home)
        return self._whiteners[index, ridge]

    @_in_turn
    def reduced_rows(self, ridges: tuple[float, ...]) -> list[Array]:
        """A few rows with the same inner products of columns, by orthogonal transformations, in one sweep.

        Parameters
        ----------
        ridges : tuple of float
            One ridge for each view; its rows are appended.
        """
        views = {view.name: view.given for view in self._views}
        with timed("sweep of %s for its triangle", self._names):
            found = reduce_rows(views, center=self.center, ridges=ridges)
        for view in self._views:
            view.record(0, 0, sweeps=1.0)
        return found

    @_in_turn
    def image_gram(self, index: int, V: Array) -> HostArray:
        """(XV)ᵀ(XV) from XV, with one forward product; the condition number of X is not squared.

        VᵀSV is only rounding if S almost annihilates V. This result is accurate then, too.

        Parameters
        ----------
        index : {0, 1}
            The view that V multiplies.
        V : array of shape (p, m)
        """
        view = self._views[index]
        self._gather([view] if view.lacks_mean else [])
        A, total = view.operator, np.zeros((V.shape[1], V.shape[1]))
        for rows in row_slices([view], V.shape[1]) if A.sliceable else [slice(0, A.shape[0])]:
            P = self.home.place(view.centred(A.rows(rows) if A.sliceable else A).matmat(V))
            total += to_host(P.T @ P)
            A.release()
        view.record(V.shape[1], 0, sweeps=1.0)
        return total

    def gram_by_identity(self, index: int, product: Array) -> Array:
        """XᵀX from its product with the identity: symmetric, with zeros for constant columns if centred.

        Parameters
        ----------
        index : {0, 1}
        product : array of shape (p, p)
        """
        live = self._varying(self._views[index], product)
        d = self.diagonal()[index]
        live = live if d is None else live * self.home.xp.astype(d > 0, live.dtype)
        return (product + product.T) / 2 * live[:, None] * live[None, :]

    # ---- one sweep ----------------------------------------------------------------------------

    def _block(self, V: Array | None, index: int) -> Array | None:
        if V is None:
            return None
        name = ("Vx", "Vy")[index]
        if index >= len(self._views):
            raise InvalidProblem(f"{name} multiplies a second view, and there is none. Leave it out.")
        rows = self._views[index].operator.shape[1]
        if V.ndim != 2 or V.shape[0] != rows:
            raise InvalidProblem(f"{name} must have shape ({rows}, k); got {tuple(V.shape)}.")
        return self.home.place(V)

    def _swept(self, blocks: list[Array | None], images: list[Array] | None = None) -> Products:
        """The products by a sweep. `images` collects (X Vx)ᵀ(X Vx) if the whole of X Vx is formed."""
        if all(block is None for block in blocks):
            return None, None, None, None
        if self._streamed:
            return self._by_slices(blocks[0]), None, None, None
        self._gather([view for view in self._views if view.lacks_mean])
        for view in self._views:
            view.warn_of_cancellation()
        columns = sum(block.shape[1] for block in blocks if block is not None)
        # What is not finite is found by the check.
        with np.errstate(all="ignore"), timed("sweep of %s with %d columns", self._names, columns):
            if not self._sliceable:
                found = self._by_products(self._asked(blocks))
            elif self._all_sparse:
                found = self._by_sparse_slabs(blocks, images)
            else:
                asked = self._asked(blocks)
                found = self._conclude(asked, sweep(self._views, asked, self.home), sweeps=1.0)
        self._check_finite(found)
        return found

    def _by_slices(self, V: Array) -> Array:
        """The products of row slices, centred in the same sweep."""
        view = self._views[0]
        # What is not finite is found block by block.
        with np.errstate(all="ignore"), timed("sweep of %s with %d columns", view.name, V.shape[1]):
            product = sliced_product(view, V, self.home, center=self.center)
        view.record(V.shape[1], V.shape[1], sweeps=1.0)
        view.warn_of_cancellation()
        return product

    def _asked(self, blocks: list[Array | None]) -> Asked:
        """The blocks, with probes for column norms that are estimated from products."""
        probes: list[Array | None] = [None, None]
        for i, view in enumerate(self._views):
            if blocks[i] is not None and view.squares is None and not view.operator.readable:
                probes[i] = _signs(view.operator.shape[1], self.home)
        return Asked(blocks, probes, self.home)

    def _by_products(
        self, asked: Asked, onto: tuple[int, ...] = (0, 1), spreads: list[HostArray] | None = None
    ) -> Products:
        """One forward and one adjoint block product for each view; adjoint products only for views in `onto`.

        `spreads` collects the squared lengths of the forward products about their own means.
        """
        operators = [view.centred(view.operator) for view in self._views]
        W = forward(operators, asked)
        if spreads is not None:
            P = self.home.place(W)
            spreads.append(
                to_host(self.home.xp.sum((P - self.home.xp.mean(P, axis=0)[None, :]) ** 2, axis=0))
            )
        adjoints = [A.rmatmat(W) if i in onto else None for i, A in enumerate(operators)]
        return self._conclude(asked, adjoints, sweeps=2.0)

    def _conclude(self, asked: Asked, adjoints: list[Array | None], sweeps: float) -> Products:
        """Count the products, read the probes, and cut out the requested columns."""
        widths = [0 if V is None else V.shape[1] for V in asked.wide]
        for i, (view, adjoint) in enumerate(zip(self._views, adjoints, strict=True)):
            backward = 0 if adjoint is None else asked.columns
            trips = (widths[i] > 0) + (adjoint is not None)
            view.record(widths[i], backward, sweeps=sweeps if sweeps == 1.0 else float(trips))
            Z = asked.probes[i]
            if Z is not None and adjoint is not None:
                view.squares = _probed(Z, adjoint[:, asked.edges[i][1] : asked.edges[i][2]], self.home)
        return asked.cut(adjoints)

    def _by_sparse_slabs(self, blocks: list[Array | None], images: list[Array] | None = None) -> Products:
        """SciPy matrices: threads over slabs of rows with equally many entries."""
        Vx, Vy = blocks
        for view in self._views:
            if view.squares is None:
                view.learn_from_matrix()
        mx, my = (self._views[i].taken if i < len(self._views) else None for i in (0, 1))
        X = self._views[0].operator
        if len(self._views) == 1 and _wide(X):
            return self._by_transposed(X, Vx, mx, images), None, None, None
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
        widths = [0 if V is None else V.shape[1] for V in blocks]
        for view, own in zip(self._views, widths, strict=False):
            view.record(own, sum(widths), sweeps=1.0)
        return (
            _less_mean(XtP, mx, sum_p),
            _less_mean(XtQ, mx, sum_q),
            _less_mean(YtP, my, sum_p),
            _less_mean(YtQ, my, sum_q),
        )

    def _by_transposed(
        self, X: SparseOperator, V: Array, mean: Array | None, images: list[Array] | None = None
    ) -> Array:
        """Xᵀ(X V), centred, by rows of X and rows of Xᵀ."""
        P = sparse_kernels.matmat(X.matrix, V, X.dtype)
        if mean is not None:
            P -= (mean @ V)[None, :]
        if images is not None:
            images.append(P.T @ P)
        self._views[0].record(V.shape[1], V.shape[1], sweeps=1.0)
        product = sparse_kernels.matmat(X.transposed, P, X.dtype)
        return product if mean is None else _less_mean(product, mean, P.sum(axis=0))

    def _wide_gram_and_cross(self, V: Array | None) -> tuple[Array | None, Array]:
        """The same by rows of Xᵀ; with V both products are made in the sweep that V takes."""
        X, Y = self._views[0].operator, self._views[1]
        W = self.home.place(Y.operator.matmat(self.home.eye(self.shape[2])))
        cross = sparse_kernels.matmat(X.transposed, W, X.dtype)
        Y.record(self.shape[2], 0, sweeps=1.0)
        if V is None:
            self._views[0].record(0, self.shape[2], sweeps=1.0)
        found = None if V is None else self.gram_matmat(V)
        self._check_finite([cross])
        self._cross = cross
        return found, cross

    def _release(self) -> None:
        for view in self._views:
            view.operator.release()

    # ---- means and column norms -----------------------------------------------------------------

    def _gather(self, views: list[View]) -> None:
        """The column means and norms of some views, from one sweep; from products only the means."""
        if not views:
            return
        for view in views:
            if view.streamed:
                with np.errstate(all="ignore"):
                    view.learn(sliced_statistics(view, self.home))
                view.record(0, 0, sweeps=1.0)
        views = [view for view in views if not view.streamed]
        blockwise = [v for v in views if v.operator.readable and not isinstance(v.operator, SparseOperator)]
        statistics = [ColumnStatistics(self.home) for _ in blockwise]
        with np.errstate(all="ignore"):  # what is not finite is found by the check
            for view in views:
                if isinstance(view.operator, SparseOperator):
                    view.learn_from_matrix()
                elif not view.operator.readable:
                    view.learn_from_products(self.home)
            # Together, so that two views of one file are read together.
            for rows in row_slices(blockwise) if blockwise else ():
                for view, gathered in zip(blockwise, statistics, strict=True):
                    gathered.add(view.read(rows))
                self._release()
            for view, gathered in zip(blockwise, statistics, strict=True):
                view.learn(gathered)
        for view in views:
            view.record(0, 0 if view.operator.readable else 1, sweeps=1.0)
        self._check_finite([view.mean for view in views])

    def _check_finite(self, arrays: Iterable[Array | None]) -> None:
        """Check the small results of the first sweep. The data are searched only if the check fails."""
        if self._checked:
            return
        with np.errstate(all="ignore"):
            sums = [self.home.xp.sum(array) for array in arrays if array is not None]
            good = all(np.isfinite(float(to_host(total))) for total in sums)
        if not good:
            raise NonFiniteData(explain_non_finite({view.name: view.operator for view in self._views}))
        self._checked = True

    # ---- held forms ---------------------------------------------------------------------------

    def _held_gram(self) -> Any:
        if self._gram is not None:
            return self._gram
        if self._sharing is not None:
            return self._sharing._held_gram().view(self._index)
        with np.errstate(all="ignore"), timed("%s Gram matrices of %s", self.form, self._names):
            if self._streamed:
                self._gram = self._form_by_slices()
            elif self.form == "sparse":
                self._gram = self._form_sparse()
            elif self._all_sparse and cost.sparse_gram_is_cheaper(self._sizes()):
                self._gram = DenseGram.of_sparse(self._form_sparse(), self.home)
            elif self._entered:
                self._gram = self._form_dense()
            else:
                self._gram = self._form_by_products()
        self._check_finite(self._gram.diagonal())
        return self._gram

    def _form_by_slices(self) -> DenseGram:
        """The Gram matrix of one view of row slices, in one sweep, centred or not."""
        view = self._views[0]
        gram = sliced_gram(view, self.home, center=self.center)
        view.record(0, self.shape[1], sweeps=1.0)
        return gram

    def _form_dense(self) -> DenseGram:
        """The Gram matrices in one sweep, about the mean of each block if the means are not known yet."""
        merging = any(view.lacks_mean for view in self._views)
        slabs = [FloatRows(view, self.home, about_first=merging) for view in self._views]
        running = RunningGram(self.home) if merging else None
        gram = DenseGram() if running is None else running.gram
        for rows in gram_blocks(self._views, self.n):
            (running or gram).add_rows([slab.read(rows) for slab in slabs])
            self._release()
        for i, view in enumerate(self._views):
            if running is not None and view.lacks_mean:
                view.mean = slabs[i].less + running.means[i]
            columns = sum(self.shape[1:]) if view.operator.readable else self.shape[1 + i]
            view.record(0, columns, sweeps=1.0)
        return gram

    def _form_sparse(self) -> SparseGram:
        X, *rest = [view.operator.matrix for view in self._views]
        Y = rest[0] if rest else None
        Sx = sparse_kernels.gram(X)
        C = None if Y is None else sparse_kernels.gram(X, Y)
        Sy = None if Y is None else sparse_kernels.gram(Y)
        for view in self._views:
            view.learn_from_matrix()
            view.record(0, sum(self.shape[1:]), sweeps=1.0)
        gram = SparseGram(Sx, C, Sy, [(view.mean, view.taken) for view in self._views], self.n)
        if gram.lost_digits() > DIGITS_TO_WARN:
            warn(
                f"centring a sparse Gram matrix by subtraction loses {gram.lost_digits():.0f} digits here, "
                'because column means are large beside their spread. Use form="implicit" or dense data.',
                AccuracyWarning,
            )
        return gram

    def _form_by_products(self) -> DenseGram:
        """The Gram matrices of operators that only give products, some columns of the identity at a time."""
        self._gather([view for view in self._views if view.lacks_mean])
        found: list[tuple[list[Array], list[Array]]] = [([], []), ([], [])]
        spreads: list[list[HostArray]] = [[], []]
        for i, view in enumerate(self._views):
            width, columns = view.operator.shape[1], self._identity_columns
            for a in range(0, width, columns):
                E = self.home.place(np.eye(width, min(columns, width - a), -a))
                asked = Asked([E, None] if i == 0 else [None, E], [None, None], self.home)
                XtP, XtQ, _, YtQ = self._by_products(
                    asked, onto=(0,) if i == 0 else (0, 1), spreads=spreads[i]
                )
                found[i][0].append(XtP if i == 0 else YtQ)
                found[i][1].append(XtQ)
        live = [
            self._varying(view, self.home.concat(f[0])) for view, f in zip(self._views, found, strict=False)
        ]
        for view, own, spread in zip(self._views, live, spreads, strict=False):
            view.unresolved = self._drowned(view, to_host(own) == 0, np.concatenate(spread))
        Sx = self.home.concat(found[0][0]) * live[0][:, None] * live[0][None, :]
        if len(self._views) == 1:
            return DenseGram(Sx)
        C = self.home.concat(found[1][1]) * live[0][:, None] * live[1][None, :]
        return DenseGram(Sx, C, self.home.concat(found[1][0]) * live[1][:, None] * live[1][None, :])

    def _varying(self, view: View, S: Array) -> Array:
        """1 for columns with a spread, 0 for constant columns, whose centred products are only rounding."""
        d = self.home.xp.linalg.diagonal(S)
        if view.taken is None:
            return self.home.xp.ones_like(d)
        unit = CONSTANT * float(np.finfo(view.operator.dtype).eps)
        return self.home.xp.astype(d > self.n * (unit * view.taken) ** 2, d.dtype)

    def _drowned(self, view: View, constant: HostArray, spreads: HostArray) -> bool:
        """Whether columns that products show as constant vary by more than the rounding of their entries."""
        if view.taken is None:
            return False
        unit = ENTRIES * float(np.finfo(view.operator.dtype).eps)
        varies = spreads > self.n * (unit * to_host(view.taken)) ** 2
        return bool(np.any(constant & varies))


def _wide(X: LinearOperator) -> bool:
    """Whether X has fewer rows than columns, and a copy of Xᵀ is worth its memory."""
    return isinstance(X, SparseOperator) and X.worth_transposing


def _signs(rows: int, home: Home) -> Array:
    """Random signs, the same in every call."""
    return home.place(np.random.default_rng(0).integers(0, 2, (rows, PROBES)) * 2.0 - 1.0)


def _probed(Z: Array, SZ: Array, home: Home) -> Array:
    """The diagonal of S as the mean of z ∘ Sz over random signs z, floored well above zero."""
    estimate = home.xp.sum(Z * SZ, axis=1) / Z.shape[1]
    floor = home.xp.mean(home.xp.abs(estimate)) * 1e-3
    return home.xp.where(estimate > floor, estimate, floor * home.xp.ones_like(estimate))


def _symmetric_product(V: Array, W: Array, home: Home) -> Array:
    """VᵀW for a symmetric product: little more than half of it is formed, one strip of rows at a time."""
    k = V.shape[1]
    width = max(-(-k // STRIPS), NARROWEST_STRIP)
    product = home.zeros((k, k))
    for a in range(0, k, width):
        b = min(a + width, k)
        strip = V[:, a:b].T @ W[:, a:]
        product[a:b, a:] = strip
        product[b:, a:b] = strip[:, b - a :].T
    return product


def _less_mean(XtP: Array | None, mean: Array | None, total: Array | None) -> Array | None:
    """Xᵀ P − μ (1ᵀP): the rest of the centring of a sparse sweep, small because P is centred."""
    if XtP is None or mean is None or total is None:
        return XtP
    return XtP - mean[:, None] * total[None, :]
