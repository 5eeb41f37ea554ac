"""A matrix whose rows are weighted, and from whose columns a centre and confounds are taken out.

Problem: what `linspec.operators.row_model` says of all rows is to hold for every product with a matrix, whoever makes
it. Method: (I − QQᵀ) D A diag(f) is the rows less their mean, times √w, less a matrix of low rank, times a factor for
each column. Sweeps of `linspec.Moments` see through this operator and multiply the matrix itself; everyone else
multiplies what is here. The means and what the confounds explain are learnt in the first sweep of moments, or at the
first product here, which then makes one sweep more.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from linspec.arrays import Array, Home, HostArray, to_host
from linspec.operators.base import LinearOperator, Selection, _Composite
from linspec.operators.row_model import Change, RowModel
from linspec.operators.wrapper import Wrapper

EXPLAINED = 1e-13
"""The share of a column's square that is rounding: a column of which confounds leave no more counts as zero."""

ENTRIES = (2.0**-46) ** 2
"""The share of a column's square, before its mean is taken out, that the rounding of its entries may leave."""

NEARLY = 1e-8
"""The share below which a column is named as one that confounds explain."""


SQUARES = 1e-280
"""A sum of squares below this has lost digits of its smaller terms."""

LEARNT = ("known", "mean", "beside", "factors", "squares", "explained", "underflowing", "lost", "unrecorded")
"""Attributes of an `Adjustment` that a sweep tells."""


class WeightedRows(_Composite):
    """D A for a diagonal matrix D.

    Parameters
    ----------
    operator : LinearOperator
        n rows.
    roots : array of shape (n,)
        The diagonal of D.

    Examples
    --------
    >>> import numpy as np
    >>> from linspec.operators import DenseOperator, WeightedRows
    >>> A = WeightedRows(DenseOperator(np.ones((2, 2))), np.array([1.0, 3.0]))
    >>> A.matmat(np.eye(2))
    array([[1., 1.],
           [3., 3.]])
    """

    def __init__(self, operator: LinearOperator, roots: Array) -> None:
        super().__init__([operator], operator.shape)
        self.roots = self._cast(roots)

    def in_dtype(self, dtype: np.dtype[Any]) -> LinearOperator | None:
        inner = self.parts[0].in_dtype(dtype)
        return None if inner is None else WeightedRows(inner, self.roots)

    def _matmat(self, V: Array) -> Array:
        return self.parts[0].matmat(V) * self.roots[:, None]

    def _rmatmat(self, U: Array) -> Array:
        return self.parts[0].rmatmat(U * self.roots[:, None])

    def _rows(self, selection: Selection) -> LinearOperator:
        if not isinstance(selection, slice):
            index = self.home.xp.asarray(selection, device=self.home.device)
            return WeightedRows(self.parts[0].rows(selection), self.home.xp.take(self.roots, index, axis=0))
        return WeightedRows(self.parts[0].rows(selection), self.roots[selection])

    def _dense(self) -> Array:
        return self._cast(self.parts[0].dense()) * self.roots[:, None]


class Adjustment:
    """What is taken out of one matrix: known once its rows have been read.

    Attributes
    ----------
    model : RowModel
    scale : bool
        Whether the columns that are left are divided by their root mean squares.
    known : bool
    mean : array of shape (p,) or None
        The column means, where they are taken out.
    beside : array of shape (p, r) or None
        T = AᵀD²B: what the confounds explain is D B Tᵀ. Behind them the column AᵀDq, if the constant is put back.
    factors : array of shape (p,) or None
        By which the columns are multiplied: 1/σ with scaling, 0 for columns that the confounds explain.
    squares : array of shape (p,) or None
        The squared lengths of the columns that are left, times the squared factors.
    explained : tuple of int
        Columns of which the confounds leave less than `NEARLY`.
    underflowing : tuple of int
        Columns whose squared length is no number, or has few digits.
    lost : float
        The largest ratio of a squared length before the confounds are taken out and after it.
    ledger : Ledger or None
        Where a sweep that learns this is entered.
    unrecorded : float
        Sweeps that were made before there was a ledger.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> problem = ls.SVD(np.array([[1.0, 5.0], [3.0, 9.0]]), k=1, center=True, scale=True).adjusted()
    >>> adjustment = problem.A.adjustment
    >>> adjustment.known
    False
    >>> _ = problem.A.matmat(np.eye(2))  # the first product reads the rows
    >>> adjustment.known, adjustment.mean
    (True, array([2., 7.]))
    """

    def __init__(self, model: RowModel, *, scale: bool = False) -> None:
        self.model, self.scale = model, scale
        self.known = False
        self.mean: Array | None = None
        self.beside: Array | None = None
        self.factors: Array | None = None
        self.squares: Array | None = None
        self.explained: tuple[int, ...] = ()
        self.underflowing: tuple[int, ...] = ()
        self.lost = 1.0
        self.ledger: Any = None
        self.unrecorded = 0.0

    def learn(
        self, home: Any, mean: Array | None, beside: Array | None, squares: Array | None, count: float
    ) -> None:
        """Take over what a sweep has told.

        Parameters
        ----------
        home : Home
        mean : array of shape (p,) or None
        beside : array of shape (p, r) or None
        squares : array of shape (p,) or None
            Squared lengths before the confounds are taken out; None where only products are known.
        count : float
            What the rows count together.
        """
        if not self.known:
            self.mean = mean if self.model.center else None
            self.beside, self.known = self._with_constant(home, beside, count), True
        if self.squares is None and squares is not None:  # products may have shown the rest before
            sizes = to_host(squares)
            means = np.zeros(len(sizes)) if mean is None else np.abs(to_host(mean))
            underflowing = (sizes > 0) & (sizes < SQUARES) | (sizes == 0) & (means > 0) & (
                means < SQUARES**0.5
            )
            self.underflowing = tuple(np.flatnonzero(underflowing).tolist())
            self.squares = self._scaled(home, self._left(home, squares, count), count)

    def _with_constant(self, home: Any, beside: Array | None, count: float) -> Array | None:
        """T with the column AᵀDq behind it, if the constant is put back."""
        constant = self.model.constant
        if beside is None or constant is None or constant.kept is None:
            return beside
        kept = home.place(constant.kept)
        column = self.mean * (kept[0] * count) + beside @ kept[1:]
        return home.concat([beside, column[:, None]])

    @property
    def signed(self) -> Array | None:
        """T times the signs of its columns: T Tᵀ of both is subtracted from products."""
        if self.beside is None or not self.model.keeps_constant:
            return self.beside
        return self.beside * Home.of(self.beside).place(self.model.signs)[None, :]

    def _left(self, home: Any, squares: Array, count: float) -> Array:
        """Squared lengths after the confounds are taken out."""
        if self.beside is None:
            return squares
        xp = home.xp
        left = squares - xp.sum(self.beside * self.signed, axis=1)
        rounding = EXPLAINED * squares
        if self.model.constant is not None and self.mean is not None:
            rounding = rounding + ENTRIES * (squares + self.mean**2 * count)
        still = left <= rounding
        self.explained = tuple(np.flatnonzero(to_host((squares > 0) & (left <= NEARLY * squares))).tolist())
        if self.explained:
            self.factors = home.place(1.0 - xp.astype(still & (squares > 0), squares.dtype))
        left = xp.where(still, xp.zeros_like(left), left)
        host, before = to_host(left), to_host(squares)
        self.lost = float(np.max(before[host > 0] / host[host > 0], initial=1.0))
        return left

    def _scaled(self, home: Any, squares: Array, count: float) -> Array:
        if not self.scale:
            return squares
        xp = home.xp
        live = squares > 0
        spread = xp.sqrt(xp.where(live, squares, xp.ones_like(squares)) / count)
        factors = xp.where(live, 1.0 / spread, xp.ones_like(spread))
        self.factors = factors if self.factors is None else factors * self.factors
        return squares * self.factors * self.factors

    def learnt(self) -> dict[str, Any]:
        """What a sweep has told, for a checkpoint."""
        return {name: getattr(self, name) for name in LEARNT}

    def take_up(self, learnt: Mapping[str, Any], home: Any) -> None:
        """Go on with what `learnt` has told, whose arrays are on the host."""
        for name in LEARNT:
            value = learnt[name]
            setattr(self, name, home.place(value) if isinstance(value, np.ndarray) else value)

    def with_model(self, change: Change) -> Adjustment:
        """What is known, with another model of the rows."""
        other = copy.copy(self)
        other.model, other.ledger = change(self.model), None
        return other

    def made(self, rows: LinearOperator, first: int = 0, model: RowModel | None = None) -> LinearOperator:
        """Some rows of the matrix with everything taken out.

        Parameters
        ----------
        rows : LinearOperator
            n rows of the matrix itself.
        first : int, default 0
            The number of the first.
        model : RowModel, optional
            That of these rows, where they are no run of rows.
        """
        model, n, home = model or self.model, rows.shape[0], rows.home.blocks
        A = rows if self.mean is None else rows.centered(self.mean)
        roots, basis = model.roots_of(first, n, home), model.basis_of(first, n, home)
        if roots is not None:
            A = WeightedRows(A, roots)
        if basis is not None and self.beside is not None:
            kept = model.kept_of(first, n, home)
            out = [-basis if roots is None else -basis * roots[:, None]] + ([] if kept is None else [kept])
            A = A.low_rank_update(home.concat(out), self.beside)
        return A if self.factors is None else A.scaled_columns(self.factors)


class AdjustedOperator(Wrapper):
    """(I − QQᵀ) D A diag(f), with all that A can do.

    Parameters
    ----------
    operator : LinearOperator
        A.
    model : RowModel
        D and Q.
    settle : callable
        Called with this operator where a product needs what is not known yet: it reads the rows once.
    scale : bool, default False
        Whether the columns that are left are divided by their root mean squares, f.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.operators import AdjustedOperator
    >>> Z = np.array([[0.0], [1.0], [3.0]])
    >>> problem = ls.SVD(np.hstack([Z, 2 * Z + 1]), k=1, center=True, confounds=Z).adjusted()
    >>> isinstance(problem.A, AdjustedOperator)
    True
    >>> bool(abs(problem.A.matmat(np.eye(2))).max() < 1e-12)  # the confound explains both columns
    True
    """

    def __init__(
        self,
        operator: LinearOperator,
        model: RowModel,
        settle: Callable[[AdjustedOperator], None],
        *,
        scale: bool = False,
    ) -> None:
        super().__init__(operator)
        self.model, self._settle = model, settle
        self.adjustment: Adjustment = Adjustment(model, scale=scale)

    @property
    def shape(self) -> Any:  # type: ignore[override]  # the rows of a stream are known later
        """(n, p)."""
        n, p = self.operator.shape
        return min(n, self.model.rows), p

    @property
    def spent(self) -> bool:
        """Whether the rows are gone."""
        return bool(getattr(self.operator, "spent", False))

    def in_dtype(self, dtype: np.dtype[Any]) -> LinearOperator | None:
        inner = self.operator.in_dtype(dtype)
        return None if inner is None else self.on(inner)

    def on(self, operator: LinearOperator) -> AdjustedOperator:
        """The same model on another matrix."""
        return AdjustedOperator(operator, self.model, self._settle, scale=self.adjustment.scale)

    def enter_in(self, ledger: Any) -> None:
        self.operator.enter_in(ledger)

    def settle(self) -> None:
        """Read the rows once, where what is taken out of them is not known yet; the sweep is counted."""
        adjustment = self.adjustment
        if adjustment.known:
            return
        self._settle(self)
        if adjustment.ledger is None:
            adjustment.unrecorded += 1.0
        else:
            adjustment.ledger.record(self, 0, sweeps=1.0)

    @property
    def _whole(self) -> LinearOperator:
        self.settle()
        return self.adjustment.made(self.operator)

    def _matmat(self, V: Array) -> Array:
        if self.remote or not self.streamed:
            return self._whole.matmat(V)
        return self.home.xp.concat([block.matmat(V) for block in self.blocks()], axis=0)

    def _rmatmat(self, U: Array) -> Array:
        if self.remote or not self.streamed:
            return self._whole.rmatmat(U)
        total, first = self.home.blocks.zeros((self.shape[1], U.shape[1])), 0
        for block in self.blocks():
            total = total + block.rmatmat(U[first : first + block.shape[0], :])
            first += block.shape[0]
        return total

    def _rows(self, selection: Selection) -> LinearOperator:
        self.settle()
        rows = self.operator.rows(selection)
        if isinstance(selection, slice):
            return self.adjustment.made(rows, selection.start)
        return self.adjustment.made(rows, 0, self.model.chosen(selection))

    def drawn(self, selection: HostArray) -> LinearOperator:
        """Rows that were drawn in proportion to their weights: all count alike then."""
        self.settle()
        chosen, weights = self.model.chosen(selection), self.model.weights
        if weights is not None:
            even = np.full(len(selection), weights.mean())
            chosen = replace(chosen, weights=even)
        return self.adjustment.made(self.operator.rows(selection), 0, chosen)

    def _dense(self) -> Array:
        return self._whole.dense()

    def blocks(self) -> Iterator[LinearOperator]:
        """The rows of streamed data, with everything taken out."""
        self.settle()
        return self._made(self.operator.blocks())

    def _made(self, blocks: Iterator[LinearOperator]) -> Iterator[LinearOperator]:
        first = 0
        for block in blocks:
            yield self.adjustment.made(block, first)
            first += block.shape[0]
