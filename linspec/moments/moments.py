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

Row slices are swept like rows in memory, centred or not, one view or both, and the first sweep also gives the means.
What each way to sweep does is in `linspec.sweeps`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from linspec import cost
from linspec.algebra.whitener import DiagonalWhitener, Whitener, squared_cut
from linspec.arrays import Array, HostArray, at_home, to_host
from linspec.errors import InvalidProblem, shown
from linspec.frames import check_order
from linspec.moments import single_precision, transposed
from linspec.moments.base import CONSTANT
from linspec.moments.row_reduction import ReducedRows, reduced
from linspec.moments.rows import RowMoments
from linspec.moments.source import one_at_a_time
from linspec.operators import LinearOperator, SparseOperator, as_operator, uncounted
from linspec.operators.row_model import RowModel
from linspec.process.log import timed
from linspec.process.pauses import pause
from linspec.registry.options import FORMS
from linspec.sweeps.finite import explain_non_finite, first_non_finite
from linspec.sweeps.held_grams import Products, ReducedGram, SparseGram, symmetric_product
from linspec.sweeps.views import View, check_alike

__all__ = ["FORMS", "Moments", "explain_non_finite", "first_non_finite"]


def _model(A: LinearOperator) -> RowModel | None:
    adjustment = uncounted(A)[0].adjustment
    return None if adjustment is None else adjustment.model


class Moments(RowMoments):
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

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> A = np.random.default_rng(0).standard_normal((200, 10)) * np.geomspace(10, 1, 10)
    >>> moments = ls.Moments(A)
    >>> bool(np.allclose(moments.gram_matmat(np.eye(10)), A.T @ A))
    True
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
        given = [(name, as_operator(source, name)) for name, source in data]
        check_order(dict(given))
        models = {id(_model(A)) for _, A in given}  # what is taken out of rows is taken out of all views
        views = [View(name, A, center=center, through=len(models) == 1) for name, A in given]
        check_alike(views)
        self._set_up(views, center=center, form=form, expect=expect)

    def _set_up(self, views: list[View], *, center: bool, form: str, expect: tuple[int, int]) -> None:
        super()._set_up(views, center=center, form=form, expect=expect)
        self._cross: Array | None = None
        self._alone: dict[int, Moments] = {}
        self._whiteners: dict[tuple[int, float], Whitener | DiagonalWhitener] = {}
        self._single: Moments | None = None

    def learnt(self) -> dict[str, Any]:
        """What sweeps have told so far, and what is held: for a checkpoint."""
        return {**super().learnt(), "cross": self._cross}

    def take_up(self, learnt: Mapping[str, Any]) -> None:
        """Go on with what `learnt` has told, whose arrays are on the host."""
        super().take_up(learnt)
        self._cross = None if learnt["cross"] is None else self.home.place(learnt["cross"])

    def __repr__(self) -> str:
        views = ", ".join(f"{view.name}={view.given!r}" for view in self._views)
        return f"Moments({views}, center={self.center}, form={self._form or self._given_form!r})"

    # ---- products -----------------------------------------------------------------------------

    @one_at_a_time
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
        return self._made([self._block(Vx, 0), self._block(Vy, 1)])

    @one_at_a_time
    def gram_matmat(self, V: Array) -> Array:
        """XᵀX V. The second view is not read, unless Gram matrices are to be held and are not formed yet."""
        if len(self._views) == 1 or self.form != "implicit":
            return self.products(V)[0]
        return self.view(0).products(V)[0]

    @one_at_a_time
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
        product = self._sweeps.products([self._block(V, 0), None], seen)[0] if alone else self.gram_matmat(V)
        return product, seen[0] if seen else symmetric_product(self.home.place(V), product, self.home)

    @one_at_a_time
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
        if self._cross is None and self.Y is not None and self.wide and not self.center:
            swept = self._block(V, 0) if self.view(0).form == "implicit" else None
            x, y = self._views
            made, self._cross = transposed.gram_and_cross(x, y, swept, self.home)
            self._sweeps.check_finite([made, self._cross])
            if made is not None:
                return made, self._cross
        if self._cross is None and self.form == "dense":
            self._cross = self.dense()[1]
        if self._cross is None:
            swept = self._both is None and self.form == "implicit"
            identity = self._sweeps.identity(1) if swept else self.home.eye(self.shape[2])
            XtXV, self._cross, _, _ = self._made([self._block(V, 0), identity], onto=(0,))
            return XtXV, self._cross
        return None if V is None else self.gram_matmat(V), self._cross

    @property
    def wide(self) -> bool:
        """Whether products with XXᵀ, on much smaller blocks, cost no more than products with XᵀX.

        This holds for sparse X in memory with few rows, centred or not.
        """
        return self.form == "implicit" and transposed.worth_transposing(self._views[0], center=self.center)

    @one_at_a_time
    def outer_matmat(self, U: Array) -> tuple[Array, Array]:
        """(XᵀU, XXᵀU): two sweeps of X, one after the other, without centring.

        Parameters
        ----------
        U : array of shape (n, k)

        Returns
        -------
        tuple of arrays
            Shapes (p, k) and (n, k), float64.
        """
        return transposed.outer_matmat(self._views[0], U, self.home, transposed=self.wide)

    @one_at_a_time
    def outer_gram_matmat(self, U: Array) -> Array:
        """XXᵀU in one sweep of wide sparse X, centred or not; each column of X is read once.

        Parameters
        ----------
        U : array of shape (n, k)

        Returns
        -------
        array of shape (n, k), float64
        """
        if not self.wide:
            return self.outer_matmat(U)[1]
        if self.center:
            self._sweeps.prepared([])  # the means are not needed here, but come along with this sweep
        return transposed.outer_gram_matmat(self._views[0], U, center=self.center)

    @one_at_a_time
    def precision(self, index: int) -> np.dtype[Any]:
        """The dtype in which rows of a view are multiplied: float64 where float32 entries are far from 1.

        Parameters
        ----------
        index : {0, 1}
        """
        return self._views[index].precision

    def view(self, index: int) -> Moments:
        """The moments of one view. They count sweeps on the same ledger and share the held matrices.

        Parameters
        ----------
        index : {0, 1}
            0 for the view X, 1 for the view Y.
        """
        if index not in range(len(self._views)):
            raise InvalidProblem(f"there are {len(self._views)} views; got index {index}.")
        if len(self._views) == 1:
            return self
        if index not in self._alone:
            alone = object.__new__(type(self))
            alone._set_up([self._views[index]], center=self.center, form="auto", expect=self._expect)
            alone._both, alone._index = self, index
            self._alone[index] = alone
        return self._alone[index]

    def forget_views(self) -> None:
        """Let go of the moments of single views, which refer to these: the data are free as soon as these are."""
        self._alone.clear()

    @one_at_a_time
    def cross_matmat(self, V: Array) -> Array:
        """XᵀY V."""
        if self.form == "implicit":
            return self.products(None, V)[1]
        pause()
        return self._held_gram().cross(self._block(V, 1))

    @one_at_a_time
    def cross_rmatmat(self, U: Array) -> Array:
        """YᵀX U."""
        if self.form == "implicit":
            return self.products(U, None)[2]
        pause()
        return self._held_gram().cross_adjoint(self._block(U, 0))

    @one_at_a_time
    def scaled_cross(self, left: HostArray, right: HostArray) -> tuple[LinearOperator, HostArray, HostArray]:
        """(B, P, Q) with diag(left) XᵀY diag(right) = B - P Qᵀ for sparse B, of Gram matrices that are held sparse.

        P and Q have a column for the means, where these are taken out, and one for each confound.

        Parameters
        ----------
        left : numpy.ndarray of shape (p,)
        right : numpy.ndarray of shape (q,)
        """
        gram = self._held_gram()
        if not isinstance(gram, SparseGram) or gram.C is None:
            raise InvalidProblem('scaled_cross needs two views and Gram matrices held sparse: form="sparse".')
        B, P, Q = gram.scaled_cross(left, right)
        return SparseOperator(B), P, Q

    @property
    def single_cost(self) -> float:
        """The passes that `in_single_precision` would take after the first product: 1 for the copy, or 0."""
        swept = self.form == "implicit" and self._single is None
        return float(swept and any(view.operator.dtype != single_precision.SINGLE for view in self._views))

    @one_at_a_time
    def in_single_precision(self) -> Moments:
        """Moments whose sweeps go over a copy of the rows in float32, which is made at the first call and kept.

        The copy takes half of the memory of dense float64 rows. A sweep of it counts as one of the data, on the same
        ledger. Where products cost no float64 sweep, because Gram matrices are held or the data are float32, these are
        the moments themselves.

        Raises
        ------
        UnsupportedData
            The rows are not in memory, or are sparse with weights, confounds or a scale.
        """
        if self._single is None and not self.single_cost:
            return self
        if self._single is None:
            for view in self._views:
                single_precision.check_copyable(view)
            self._sweeps.gather([view for view in self._views if view.needs_sweep])
            views = single_precision.in_single(self._views)
            single = object.__new__(type(self))
            single._set_up(views, center=views[0].model.center, form="implicit", expect=self._expect)
            self._single = single
        return self._single

    # ---- means and column norms ---------------------------------------------------------------

    @one_at_a_time
    def diagonal(self) -> tuple[Array, Array | None]:
        """The diagonals of XᵀX and YᵀY. They are estimated for operators that only give products."""
        if self.form != "implicit":
            return self._held_gram().diagonal()
        exact = [view for view in self._views if view.operator.readable or view.streamed]
        self._sweeps.gather([view for view in exact if view.squares is None])
        for i, view in enumerate(self._views):
            if view.squares is None:  # products alone: send the probes
                self.view(i)._sweeps.products([self.home.zeros((view.operator.shape[1], 0)), None])
        return self._views[0].squares, self._views[1].squares if len(self._views) == 2 else None

    @one_at_a_time
    def vanishes(self, index: int) -> bool:
        """Whether a view is zero, or what is left of it is no more than the rounding of what was taken out.

        Parameters
        ----------
        index : {0, 1}
        """
        xp, means = self.home.xp, self.squares_taken(index)
        left = float(to_host(xp.sum(self.diagonal()[index])))
        taken = 0.0 if means is None else float(to_host(xp.sum(means)))
        unit = CONSTANT * float(np.finfo(self._views[index].given.dtype).eps)
        return left <= unit**2 * taken

    # ---- what is held -------------------------------------------------------------------------

    @one_at_a_time
    def dense(self) -> tuple[Array, Array | None, Array | None]:
        """(XᵀX, XᵀY, YᵀY) as dense float64 arrays; the moments hold them from then on.

        Later products use these arrays, so do not change them.
        """
        self._form = "dense"
        held = self._held_gram()
        gram = held.as_dense(self.home)
        if gram is not held:
            self._gram = gram
        return gram.Sx, gram.C, gram.Sy

    @one_at_a_time
    def whitener(self, index: int, ridge: float) -> Whitener | DiagonalWhitener:
        """The factor of a view's Gram matrix plus ridge. It is made once.

        Unless the view is `factored`, its Gram matrix becomes dense, and the moments hold it from then on.

        Parameters
        ----------
        index : {0, 1}
        ridge : float
        """
        if (index, ridge) not in self._whiteners:
            cut = squared_cut(self._views[index].given)
            form = self._diagonal_form(index)
            self._whiteners[index, ridge] = (
                DiagonalWhitener(*form, ridge, cut)
                if form is not None
                else Whitener(self.dense()[2 * index], ridge, cut, self.home)
            )
        return self._whiteners[index, ridge]

    @one_at_a_time
    def factored(self, index: int) -> bool:
        """Whether `whitener` makes nothing dense: the Gram matrices are held as dense arrays, or that of the view is
        diagonal but for what centring and confounds take out, as that of one-hot rows is.

        Parameters
        ----------
        index : {0, 1}
        """
        return self.form == "dense" or self._diagonal_form(index) is not None

    def _diagonal_form(self, index: int) -> tuple[HostArray, HostArray] | None:
        gram = self._held_gram() if self.form == "sparse" else None
        return gram.diagonal_form(index) if isinstance(gram, SparseGram) else None

    @one_at_a_time
    def reduced_rows(self, ridges: tuple[float, ...], *, hold: bool = False) -> list[Array]:
        """A few rows with the same inner products of columns, by orthogonal transformations, in one sweep.

        Parameters
        ----------
        ridges : tuple of float
            One ridge for each view; its rows are appended.
        hold : bool, default False
            Whether the moments hold the rows, without ridges: later products cost no sweep.
        """
        if self._gram is not None and self._gram.rows is not None:
            widths = [rows.shape[1] for rows in self._gram.rows]
            return ReducedRows(self.home.concat(self._gram.rows), widths, None, self.home).with_ridges(ridges)
        views = {view.name: view.given for view in self._views}
        with timed("sweep of %s for its triangle", self._sweeps.names):
            found = reduced(views, center=self.center)
        for view, mean, R in zip(self._views, found.means, found.with_ridges(), strict=True):
            view.record(0, 0, sweeps=1.0)
            if view.streamed or hold:  # others learn from the sweep that makes their products
                view.mean = mean if view.mean is None else view.mean
                view.squares = self.home.xp.sum(R * R, axis=0) if view.squares is None else view.squares
        if hold:
            self._gram, self._form = ReducedGram(found.with_ridges()), "dense"
        return found.with_ridges(ridges)

    @at_home
    def gram_by_identity(self, index: int, product: Array) -> Array:
        """XᵀX from its product with the identity: symmetric, with zeros for constant columns if centred.

        Parameters
        ----------
        index : {0, 1}
        product : array of shape (p, p)
        """
        live = self._sweeps.varying(index, product)
        d = self.diagonal()[index]
        live = live if d is None else live * self.home.xp.astype(d > 0, live.dtype)
        return (product + product.T) / 2 * live[:, None] * live[None, :]
