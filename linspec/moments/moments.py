"""The second moments of one or more views, as products: XᵀX V, XᵀY V, YᵀX V, YᵀY V in one sweep.

Problem: every iterative method of this library needs the Gram and cross matrices of the columns, times a thin
block. The best way to compute these products depends on the data and not on the method, so they are computed
here.

Method: there are three forms. *Implicit*: for each block of rows P = XVx and Q = YVy, then Xᵀ[P Q] and Yᵀ[P
Q], summed in float64. This is one sweep, without an n x k array, and one round of a cluster. *Dense Gram*:
the matrices are formed in one sweep and held. *Sparse Gram*: the same as sparse matrices, because
columns of word counts rarely share a row. Among the forms that fit into three eighths of the available
memory, the fastest by estimate is chosen when it is first needed (`linspec.cost`).

Centring is implicit and never subtracts large numbers from each other. Row blocks are centred before they are
multiplied. Dense Gram matrices are formed about the mean of each block and merged (Chan, Golub & LeVeque
1983). A sparse Gram matrix, and a sparse or foreign operator, have no entries to centre. They need a
subtraction of products; its loss of digits is estimated, and a warning says so.

An operator that only gives products makes exactly one forward and one adjoint product for each view. Its
column norms are estimated from random-sign probes, which are extra columns of the first product.

Row slices are swept like rows in memory, centred or not, for any number of views, and the first sweep also gives the
means. The two ways to sweep are in `by_rows` and `by_products`. The moments of a single view share the Gram matrices
that the moments of all views hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from linspec.algebra.whitener import Whitener, squared_cut
from linspec.arrays import Array, host_dtype, on_device, random_generator
from linspec.cost import EXPECTED_PRODUCTS, Sizes, human_bytes, moments_form, sizes_of
from linspec.errors import InvalidProblem, MissingCapability, shown
from linspec.frames import check_order
from linspec.moments.aspect import one_at_a_time
from linspec.moments.bookkeeping import Bookkeeping
from linspec.moments.columns import Columns
from linspec.moments.costs import Costs
from linspec.moments.direct import Direct
from linspec.moments.ways import settle, sweeps_of
from linspec.operators import (
    AdjustedOperator,
    CountedOperator,
    LinearOperator,
    as_operator,
)
from linspec.operators.row_model import RowModel
from linspec.process.log import LOG, tells
from linspec.process.pauses import pause
from linspec.process.turns import in_turn
from linspec.registry.options import FORMS
from linspec.sweeps.finite import explain_non_finite, first_non_finite
from linspec.sweeps.gradients import GradientOfSquares, residual
from linspec.sweeps.held_grams import HeldGram, symmetric_product
from linspec.sweeps.minibatches import Minibatches
from linspec.sweeps.products import Products
from linspec.sweeps.task import Task
from linspec.sweeps.views import View, check_alike, views_of

__all__ = ["FORMS", "Moments", "explain_non_finite", "first_non_finite"]

Part = TypeVar("Part")


class Moments:
    """Products with the Gram and cross matrices of one or more views.

    Parameters
    ----------
    *views : data of shape (n, p)
        Anything `linspec.as_operator` accepts, all with the same number of rows. None is left out.
    center : bool, default False
        Whether to centre the columns.
    form : {"auto", "dense", "sparse", "implicit"}, default "auto"
        Hold the Gram matrices as dense or sparse arrays, or sweep the data at every product.
    expect : (int, int), optional
        The expected number of products, and the number of columns of the block in each of them. Form "auto" is chosen
        by the time of these products. By default 60 products with 20 columns each.
    names : sequence of str, optional
        The names of the views in messages; by default X and Y, or X1, X2, X3 and so on of more than two.

    Attributes
    ----------
    center : bool
        Whether the column means are subtracted.
    home : Home
        The library and device of blocks and results.

    Raises
    ------
    InvalidProblem
        There is no view, the views have no rows or different numbers of rows, or the form is not one of the four.
    UnsupportedData
        The views have different libraries or devices, or cannot be multiplied.

    Notes
    -----
    Nothing is read before the first product. All blocks and results are float64, in the library and on the
    device of the data (on the host for sparse matrices, files and foreign operators). Threads that share moments
    take turns.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> A = np.random.default_rng(0).standard_normal((200, 10)) * np.geomspace(10, 1, 10)
    >>> moments = ls.Moments(A)
    >>> bool(np.allclose(moments.gram(np.eye(10)), A.T @ A))
    True
    """

    def __init__(
        self,
        *views: Any,
        center: bool = False,
        form: str = "auto",
        expect: tuple[int, int] = (EXPECTED_PRODUCTS, 20),
        names: tuple[str, ...] | None = None,
    ) -> None:
        if str(form) not in FORMS:
            raise InvalidProblem(f"form must be one of {', '.join(FORMS)}; got {shown(form)}.")
        if not isinstance(center, bool | np.bool_):
            raise InvalidProblem(f"center must be True or False; got {shown(center)}.")
        data = [view for view in views if view is not None]
        if not data:
            raise InvalidProblem("moments are those of matrices; got none. Pass Moments(X) or Moments(X, Y).")
        if names is None:
            names = ("X", "Y") if len(data) <= len("XY") else tuple(f"X{i + 1}" for i in range(len(data)))
        given = [(name, as_operator(source, name)) for name, source in zip(names, data, strict=False)]
        check_order(dict(zip(names, data, strict=False)), again=True)
        own = views_of(given, center=center)
        check_alike(own)
        self._set_up(own, form=form, expect=expect)

    def _set_up(self, views: list[View], *, form: str, expect: tuple[int, int]) -> None:
        self._views, self._sweeps = views, sweeps_of(views)
        self.center, self.home = self._sweeps.center, self._sweeps.home
        self._given_form, self._form, self._expect = form, "", expect
        self._gram: HeldGram | None = None
        self._cross: Array | None = None
        self._all: Moments | None = None  # the moments of all views, if this is a single view
        self._index = 0
        self._alone: dict[int, Moments] = {}
        self._whiteners: dict[tuple[int, float], Whitener] = {}

    def _of_views(self, views: list[View], *, form: str) -> Moments:
        """Moments of other views in the given form; the expected products (`expect`) are those of these moments."""
        made = object.__new__(type(self))
        made._set_up(views, form=form, expect=self._expect)
        return made

    @classmethod
    def side_by_side(cls, moments: Sequence[Moments]) -> Moments:
        """Return the moments of the views of several moments, for `over_rows` and `bookkeeping` alone.

        The rows of each view keep the adjustment that its own moments have. It must be known: `columns.adjustment`.

        Parameters
        ----------
        moments : sequence of Moments
            Of matrices with equally many rows, whose weights may differ.
        """
        views = [view for each in moments for view in each._views]
        check_alike(views)
        made = moments[0]._of_views(views, form="implicit")
        weights = [view.model.weights for view in views]
        every = [1.0 if w is None else w for w in weights]
        # The weights are those of rows that any view has.
        counted = None if all(w is None for w in weights) else np.max(np.broadcast_arrays(*every), axis=0)
        made._sweeps.model = RowModel(center=False, weights=counted, counted_by=views[0].model.counted_by)
        return made

    def __repr__(self) -> str:
        views = ", ".join(f"{view.name}={view.given!r}" for view in self._views)
        return f"Moments({views}, center={self.center}, form={self._form or self._given_form!r})"

    # ---- facts --------------------------------------------------------------------------------

    @property
    def _of_all(self) -> Moments:
        """The moments of all views, if these are the moments of a single view; otherwise these moments themselves.

        One lock, that of the moments of all views, guards all of them.
        """
        return self._all or self

    @property
    def columns(self) -> Columns:
        """The facts about the columns of the views."""
        return Columns(self)

    @property
    def cost(self) -> Costs:
        """The passes that products take."""
        return Costs(self)

    @property
    def direct(self) -> Direct:
        """Matrices in the forms that direct solvers and certificates need."""
        return Direct(self)

    @property
    def bookkeeping(self) -> Bookkeeping:
        """Counts, messages, witnesses (sums that identify the rows) and checkpoint data, for a run; not for solvers."""
        return Bookkeeping(self)

    @property
    def matrices(self) -> dict[str, LinearOperator]:
        """The views as passed by the caller, by name."""
        return {view.name: view.given for view in self._views}

    @property
    def X(self) -> LinearOperator:
        """The first view, as passed by the caller."""
        return self._views[0].given

    @property
    def Y(self) -> LinearOperator | None:
        """The second of two views, as passed by the caller; None for one view or more than two."""
        return self._views[1].given if len(self._views) == 2 else None

    @property
    def n(self) -> int:
        """The number of rows; infinity for a stream whose rows have not been counted."""
        return self._sweeps.n

    def matrix(self, index: int) -> LinearOperator:
        """Return an operator that multiplies one view, and counts its sweeps in the ledger of the view.

        The view is adjusted as in `products`: with centring, the means are subtracted.

        Parameters
        ----------
        index : int
        """
        view = self._views[index]
        A = view.given
        if not isinstance(A, AdjustedOperator) and self.center:
            A = AdjustedOperator.with_adjustment(view.operator, view.adjustment, settle, view.name)
        return CountedOperator(A, view.ledger)

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, p, q, …): the number of rows, and of columns of each view; q is 0 without a second view."""
        columns = [view.given.shape[1] for view in self._views]
        return self.n, *columns, *([0] if len(columns) == 1 else [])

    @property
    def total(self) -> float:
        """The number of rows, or the sum of their weights."""
        return self._sweeps.total

    @property
    def passes(self) -> float:
        """The number of sweeps over the view that was swept most often."""
        return max(view.ledger.sweeps for view in self._views)

    @property
    def rounding(self) -> float:
        """The relative rounding error of products.

        It is the machine epsilon of float64 if Gram matrices are held that were formed from entries. Otherwise it is
        the largest machine epsilon of the dtypes of the views.
        """
        if self.held and (self._sweeps.by_entries or self._sweeps.streamed):
            return float(np.finfo(np.float64).eps)
        return max(float(np.finfo(view.given.dtype).eps) for view in self._views)

    @one_at_a_time
    def dtype(self, index: int) -> np.dtype[Any]:
        """The dtype in which rows of a view are multiplied: float64 also for float32 entries far from 1.

        Parameters
        ----------
        index : int
        """
        return self._views[index].precision

    # ---- the form -----------------------------------------------------------------------------

    @property
    def form(self) -> str:
        """The form in force, "dense", "sparse" or "implicit"; it is chosen when it is first needed."""
        return self._form or self._form_chosen()

    @one_at_a_time
    def _form_chosen(self) -> str:
        if self._all is not None and not self._form:
            return self._all.form
        self._form = self._form or self._choose_form()
        return self._form

    @property
    def held(self) -> bool:
        """Whether products cost no sweep, because Gram matrices are held."""
        return self._gram is not None or (self._sharing is not None and self._sharing.held)

    @property
    def _sharing(self) -> Moments | None:
        """The moments of all views, if these moments are of a single view and use the Gram matrix held there.

        None for the moments of all views, and if no Gram matrices are to be held.
        """
        return self._all if self._all is not None and self._all.form != "implicit" else None

    def _choose_form(self) -> str:
        if self._given_form == "sparse" and not self._sweeps.sparse:
            raise InvalidProblem(
                'form "sparse" holds the Gram matrices of sparse matrices; got '
                f'{", ".join(repr(view.given) for view in self._views)}. Use "auto", "dense" or "implicit".'
            )
        if self._given_form != "auto":
            return self._given_form
        form, estimate = moments_form(self._sizes(), *self._expect)
        if tells():
            LOG.debug(
                "moments of %s: %s, which takes %s for %d products of %d columns; %s of memory are available",
                self._sweeps.names,
                {"implicit": "sweeps"}.get(form, f"{form} Gram matrices, held"),
                estimate,
                *self._expect,
                human_bytes(self.X.home.blocks.free_memory()),
            )
        return form

    def _sizes(self) -> Sizes:
        return sizes_of([view.given for view in self._views], self._expect[1])

    def _held_gram(self) -> HeldGram:
        if self._gram is not None:
            return self._gram
        if self._sharing is not None:
            return self._sharing._held_gram().view(self._index)
        self._gram = self._sweeps.gram(self.form, self._sizes)
        return self._gram

    # ---- products -----------------------------------------------------------------------------

    def products(
        self,
        *blocks: Array | None,
        onto: tuple[int, ...] | None = None,
        image: bool = False,
        cross: bool = False,
    ) -> Products:
        """Compute XᵢᵀXⱼ Vⱼ of all views in one sweep: for two views (XᵀX Vx, XᵀY Vy, YᵀX Vx, YᵀY Vy).

        For m views the product XᵢᵀXⱼ Vⱼ has the index i m + j.

        Parameters
        ----------
        *blocks : array of shape (p, k), or None
            Vⱼ of each view. The blocks of the last views may be left out.
        onto : tuple of int, optional
            The views i whose products Xᵢᵀ[…] are needed; those of other views may be None. By default all are computed.
            With ``()`` only a forward product is made, for `image`.
        image : bool, default False
            Whether to return (X V)ᵀ(X V) as well, for the first block V that is not None and its view X. With
            ``onto=()`` it is computed from X V itself, and is accurate even if XᵀX almost annihilates V.
        cross : bool, default False
            Whether to return only XᵀX V, for the first block, and XᵀY. All other entries of the tuple are then None,
            the blocks of other views are not multiplied, and `onto` and `image` have no effect. XᵀY is kept for later
            calls.

        Returns
        -------
        Products
            A tuple of float64 arrays, None where a block is absent, with the attributes `image` and `cross`.

        Raises
        ------
        InvalidProblem
            A block does not fit its view.
        """
        with in_turn(self._of_all), on_device(self.home):
            placed = self._placed(list(blocks))
            if cross:
                return self._with_cross(placed[0])
            index = next((i for i, V in enumerate(placed) if V is not None), None)
            if image and index is not None and onto and index not in onto:
                onto = (*onto, index)  # VᵀXᵀX V is made from this product
            if self.form == "implicit" and onto != ():
                found = self._sweeps.products(placed, onto=onto, image=image)
            else:
                found = self._held_or_forward(placed, onto, image=image)
            if image and index is not None and found.image is None:
                product = found[index * len(placed) + index]
                found.image = symmetric_product(self.home.place(placed[index]), product, self.home)
            return found

    def _held_or_forward(
        self, blocks: list[Array | None], onto: tuple[int, ...] | None, *, image: bool
    ) -> Products:
        """Multiply the Gram matrices that are held; with ``onto=()`` only compute `image`, from a forward product."""
        index = next((i for i, V in enumerate(blocks) if V is not None), 0)
        if onto == ():
            found = Products(None for _ in blocks for _ in blocks)
            if image:
                found.image = self.home.place(self._sweeps.image_gram(index, blocks[index]))
            return found
        return self._made(blocks)

    def _made(self, blocks: list[Array | None], onto: tuple[int, ...] | None = None) -> Products:
        """Compute products from held Gram matrices or by a sweep; a sweep may leave out views not in `onto`."""
        if self.form == "implicit":
            return self._sweeps.products(blocks, onto=onto)
        pause()
        return Products(self._held_gram().products(blocks))

    def _with_cross(self, V: Array | None) -> Products:
        """Compute XᵀX V and XᵀY; if XᵀY is known, sweep only the first view."""
        if len(self._views) == 1:
            raise InvalidProblem("XᵀY needs two views; got moments of one. Pass Moments(X, Y).")
        first: Array | None = None
        if self._cross is None and self.form == "dense":
            self._cross = self._held_gram().as_dense(self.home).upper[0][1]
        if self._cross is None:
            swept = self._all is None and self.form == "implicit"
            identity = self._sweeps.identity(1) if swept else self.home.eye(self.shape[2])
            blocks = [V, identity, *(None for _ in self._views[2:])]
            first, self._cross = self._made(blocks, onto=(0,))[:2]
        if first is None and V is not None:
            first = self.gram(V)
        found = Products([first, *(None for _ in range(len(self._views) ** 2 - 1))])
        found.cross = self._cross
        return found

    def _placed(self, given: list[Array | None]) -> list[Array | None]:
        """The blocks, checked and copied to the device of the data, one for each view."""
        while len(given) > len(self._views) and given[-1] is None:
            given.pop()
        names = ("Vx", "Vy") if max(len(self._views), len(given)) <= len("XY") else None
        placed: list[Array | None] = [None for _ in self._views]
        for i, V in enumerate(given):
            name = names[i] if names else f"V{i + 1}"
            if i >= len(self._views):
                which = "a second view" if i == 1 else f"view {i + 1}"
                raise InvalidProblem(f"{name} multiplies {which}, and there is none. Leave it out.")
            placed[i] = None if V is None else self._block(V, i, name)
        return placed

    def _block(self, V: Array, index: int, name: str = "V") -> Array:
        self._check_block(V, index, name)
        # A sweep of float32 rows rounds the block to float32, so a float64 copy would only take memory.
        single = self.home.on_host and self.form == "implicit" and host_dtype(V) == np.float32
        single = single and all(view.operator.dtype == np.float32 for view in self._views)
        return self.home.place(V, np.float32 if single else np.float64)

    def _check_block(self, V: Array, index: int, name: str) -> None:
        """Raise if a block does not fit its view."""
        rows = self._views[index].operator.shape[1]
        if V.ndim != 2 or V.shape[0] != rows:
            raise InvalidProblem(f"{name} must have shape ({rows}, k); got {tuple(V.shape)}.")

    @one_at_a_time
    def gram(self, V: Array, index: int = 0) -> Array:
        """Compute AᵀA V for one view A. Other views are not read, unless Gram matrices still have to be formed.

        Parameters
        ----------
        V : array of shape (p, k)
        index : int, default 0
            The view: 0 for X, 1 for Y, and so on.

        Returns
        -------
        array of shape (p, k), float64

        Raises
        ------
        InvalidProblem
            V does not fit the view, or there is no such view.

        Examples
        --------
        >>> import numpy as np
        >>> import linspec as ls
        >>> ls.Moments(np.diag([1.0, 2.0]), np.ones((2, 1))).gram(np.ones((2, 1)))
        array([[1.],
               [4.]])
        """
        alone = self.view(index)
        self._check_block(V, index, "V")
        if alone is self or self.form == "implicit":
            return alone.products(V)[0]
        return self.products(*(None for _ in range(index)), V)[index * len(self._views) + index]

    @one_at_a_time
    def cross(self, V: Array | None = None) -> Array:
        """Compute XᵀY V, or XᵀY itself, in one sweep. For least squares of A and B it is AᵀB.

        Parameters
        ----------
        V : array of shape (q, k), optional
            By default the identity. Then the result has p q entries and is kept: later calls take no sweep. Do not
            write to it.

        Returns
        -------
        array of shape (p, k) or (p, q), float64

        Raises
        ------
        InvalidProblem
            V does not fit the second view, or there is no second view.

        Examples
        --------
        >>> import numpy as np
        >>> import linspec as ls
        >>> moments = ls.Moments(np.diag([1.0, 2.0]), np.ones((2, 1)))
        >>> moments.cross()
        array([[1.],
               [2.]])
        >>> moments.cross(), moments.passes
        (array([[1.],
               [2.]]), 1.0)
        """
        if V is None:
            return self.products(None, cross=True).cross
        if len(self._views) == 1:
            raise InvalidProblem("XᵀY V needs two views; got moments of one. Pass Moments(X, Y).")
        self._check_block(V, 1, "V")
        if self.form == "implicit":
            return self.products(None, V)[1]
        pause()
        return self._held_gram().product(0, 1, self._block(V, 1, "V"))

    def gradient(self, x: Array, ridge: float = 0.0) -> Array:
        """Compute Aᵀ(A x − B) + r x, the gradient of (‖A x − B‖² + r ‖x‖²) / 2, for moments of A and B.

        It takes one sweep, which computes the residual A x − B of each block of rows and multiplies it at once. So no
        digits are lost near the solution. Where Gram matrices are held, it is AᵀA x − AᵀB + r x, without a sweep.

        Parameters
        ----------
        x : array of shape (p, q)
            A column for each column of B.
        ridge : float, default 0

        Returns
        -------
        array of shape (p, q), float64

        Raises
        ------
        InvalidProblem
            The moments are not those of two matrices, or x does not have the shape (p, q).

        Examples
        --------
        >>> import numpy as np
        >>> import linspec as ls
        >>> A, b = np.diag([1.0, 2.0]), np.array([[3.0], [4.0]])
        >>> ls.Moments(A, b).gradient(np.zeros((2, 1)))
        array([[-3.],
               [-8.]])
        """
        if len(self._views) != len("AB"):
            raise InvalidProblem(
                f"the gradient is that of least squares of A and B; got moments of {len(self._views)}. Pass "
                "Moments(A, B)."
            )
        with in_turn(self._of_all), on_device(self.home):
            _, p, q = self.shape
            if tuple(x.shape) != (p, q):
                raise InvalidProblem(f"x must have shape ({p}, {q}); got {tuple(x.shape)}.")
            found = self.gram(x) - self.cross() if self.form != "implicit" else self._swept_gradient(x)
            return found + ridge * self.home.place(x)

    def _swept_gradient(self, x: Array) -> Array:
        """Aᵀ(A x − B) in one sweep of the rows, or by one product with A and one with Aᵀ."""
        if self._sweeps.known_by_products:
            A, B = self.matrix(0), self.matrix(1)
            found = A.rmatmat(residual(A, B, x))
            self._sweeps.check_finite([found])
            return found
        found = self.over_rows(GradientOfSquares(self._block(x, 0, "x")), x.shape[1])
        self._views[0].record(x.shape[1], x.shape[1], sweeps=0.0)
        return found

    # ---- other moments ------------------------------------------------------------------------

    def view(self, index: int) -> Moments:
        """Return the moments of one view. They count sweeps in the same ledger and share the held matrices.

        Parameters
        ----------
        index : int
            0 for the view X, 1 for the view Y, and so on.
        """
        if index not in range(len(self._views)):
            raise InvalidProblem(f"there are {len(self._views)} views; got index {index}.")
        if len(self._views) == 1:
            return self
        if index not in self._alone:
            alone = self._of_views([self._views[index]], form="auto")
            alone._all, alone._index = self, index
            self._alone[index] = alone
        return self._alone[index]

    # ---- what is held -------------------------------------------------------------------------

    @one_at_a_time
    def diagonal(self) -> tuple[Array, ...]:
        """The diagonals of the Gram matrices. They are estimated for operators that only give products."""
        if self.form != "implicit":
            return tuple(self._held_gram().diagonals())
        exact = [view for view in self._views if view.operator.readable or view.streamed]
        self._sweeps.gather([view for view in exact if view.squares is None])
        for i, view in enumerate(self._views):
            if view.squares is None:  # known by products only: multiply the probes
                self.view(i)._sweeps.products([self.home.zeros((view.operator.shape[1], 0))])
        return tuple(view.squares for view in self._views)

    @one_at_a_time
    def dense(self) -> tuple[Array, ...]:
        """XᵢᵀXⱼ with i ≤ j as dense float64 arrays, for two views (XᵀX, XᵀY, YᵀY); they are kept in memory.

        Later products use these arrays, so do not change them.
        """
        self._form = "dense"
        held = self._held_gram()
        gram = held.as_dense(self.home)
        if gram is not held:
            self._gram = gram
        return tuple(block for row in gram.upper for block in row)

    def _dense(self, index: int) -> Array:
        """The dense Gram matrix of one view."""
        self.dense()
        return self._held_gram().upper[index][0]

    @one_at_a_time
    def whitener(self, index: int, ridge: float) -> Whitener:
        """The whitener of S + ridge·I for the Gram matrix S of a view, computed at the first call and kept.

        A whitener is a factor F with S + ridge·I = F Fᵀ, without the null directions of S: see
        `linspec.algebra.Whitener`. S is made dense and kept in memory.

        Parameters
        ----------
        index : int
        ridge : float
        """
        if (index, ridge) not in self._whiteners:
            cut = squared_cut(self._views[index].given)
            S = self._dense(index)
            # What confounds explain has been subtracted from S, and has left its rounding.
            lost = self.columns.centring_error(index) if self._views[index].adjustment.lost > 1.0 else 0.0
            self._whiteners[index, ridge] = Whitener(S, ridge, max(cut, S.shape[0] * lost), self.home)
        return self._whiteners[index, ridge]

    # ---- rows ---------------------------------------------------------------------------------

    def rows(self, n: int, rng: Any = None) -> Minibatches:
        """Batches of about n rows of each view, in the same random order, without end: ``for A_S, B_S in rows``.

        Every row comes once before any row comes twice, except that a few rows at the end of an epoch may be left out.
        Rows with weights are drawn in proportion to their weights instead, unless they are read in runs of neighbours,
        as from files: see `linspec.sweeps.minibatches`. Rows are read a few megabytes at a time. Reading m of N rows
        counts as m/N of a sweep, and products with the batches are counted.

        Parameters
        ----------
        n : int
        rng : numpy.random.Generator, int or None, default None
            The source of the random order. A solver should pass `run.rng`.

        Returns
        -------
        Minibatches
            An iterator over lists of operators, with `epochs`, the number of times that all rows were read, and
            `place`, where it is: see `linspec.sweeps.Minibatches`.

        Raises
        ------
        InvalidProblem
            n is less than 1.
        MissingCapability
            Rows of a view cannot be read by number.

        Examples
        --------
        >>> import numpy as np
        >>> import linspec as ls
        >>> rng = np.random.default_rng(0)
        >>> A = rng.standard_normal((1000, 3))
        >>> rows, x = ls.Moments(A, A @ np.ones((3, 1))).rows(20, rng), np.zeros((3, 1))
        >>> for A_S, B_S in rows:
        ...     x = x - 0.5 / 20 * A_S.rmatmat(A_S.matmat(x) - B_S.dense())
        ...     if rows.epochs >= 2:
        ...         break
        >>> x.round(6).ravel()
        array([1., 1., 1.])
        """
        if n < 1:
            raise InvalidProblem(f"n, the rows of a batch, must be at least 1; got {shown(n)}.")
        matrices = [self.matrix(i) for i in range(len(self._views))]
        for view, A in zip(self._views, matrices, strict=True):
            if A.access not in ("rows", "blocks"):
                raise MissingCapability(
                    f"batches need rows that can be read by number; got {view.given!r} for {view.name}. Pass an array, "
                    "a sparse matrix or a file."
                )
        return Minibatches(matrices, random_generator(rng), size=int(n))

    @one_at_a_time
    def over_rows(self, task: Task[Part], columns: int = 0) -> Part:
        """Run a task over all rows of the views, adjusted, in one sweep.

        The task receives rows with weights applied, means and confounds subtracted, and columns divided by the scale.
        If some of these are unknown, they take a sweep before. Rows in memory are split into blocks for several
        threads; the split, and so every bit of the result, depends only on the data and `columns`. Slices come in
        order.

        Parameters
        ----------
        task : linspec.sweeps.task.Task
            Computes a part from some rows of the views, and merges the parts of neighbouring rows.
        columns : int, default 0
            The size of a part: it holds about this number of arrays with one number for each column of the views. It
            determines the number of rows of a block, which takes more memory than a part where possible.

        Returns
        -------
        Part
            The part of all rows. The sweep is counted; the task counts its own products (`Ledger.record`).

        Raises
        ------
        MissingCapability
            A view is known by its products only.
        NonFiniteData
            The arrays of `Task.looked_at` are not finite, because the rows have an entry that is not.

        Examples
        --------
        >>> import numpy as np
        >>> from linspec import Moments
        >>> from linspec.sweeps.task import Task
        >>> class AbsoluteSums(Task):
        ...     def part(self, rows, first_row=0, into=None):
        ...         own = np.abs(rows[0].dense()).sum(axis=0)
        ...         return own if into is None else into + own
        ...     def merge(self, left, right):
        ...         return left + right
        >>> Moments(np.array([[1.0, -2.0], [3.0, 4.0]]), center=True).over_rows(AbsoluteSums())
        array([2., 6.])
        """
        return self._sweeps.over_rows(task, columns)

    @one_at_a_time
    def learn_from(self, read: Callable[[], Any]) -> None:
        """Count a pass that `read` makes, and learn the adjustments of the views from what it returns.

        Parameters
        ----------
        read : callable
            Returns the moments of all rows, such as ``linspec.studies.cells_of(problem, folds)[1]``.
        """
        self._sweeps.learn_from(read)
