"""The adjustment of a matrix: its rows minus their mean and the part that confounds explain, with weights and factors
of columns.

Problem: the weights, means and confounds of `linspec.operators.weights` must act on every product with a matrix,
whichever code multiplies.
Method: (I − QQᵀ) D (A − 1 rowᵀ) diag(f): the mean is subtracted from the rows of A, each row is multiplied by its √w,
and a matrix of low rank is subtracted. Each column is then multiplied by a factor. An `Adjustment` holds the parts
that depend on A: it computes them in the first sweep of moments, is applied to rows, and corrects products.
`AdjustedOperator` is the adjusted matrix itself. Sweeps of `linspec.Moments` multiply A itself and correct the
products. For other callers the first product makes one more sweep, to compute the adjustment. Large means: dense rows
are centred entry by entry. For sparse rows the products are corrected instead, which loses digits if means are much
larger than the deviations. From a sparse column that stores every entry, one of its own values is therefore
subtracted first (`about_a_row`): differences of nearly equal numbers are exact, and the column stays sparse. A column
with zeros that are not stored has a mean of at most √n times its deviation.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from linspec.algebra.variation import ENTRIES
from linspec.arrays import Array, Home, HostArray, host_dtype, namespace, reciprocal, to_host
from linspec.errors import MissingCapability
from linspec.operators.base import LinearOperator, Selection, _Composite
from linspec.operators.column_statistics import ColumnStatistics, block_mean, weighted, without_offset
from linspec.operators.sparse import SparseOperator
from linspec.operators.weights import EXPLAINED, PLAIN, Change, RowModel, column_units
from linspec.operators.wrapper import Wrapper
from linspec.process.pauses import admit

NEARLY = 1e-8
"""A column is reported as explained if the confounds leave at most this share of its squared length."""


SQUARES = 1e-280
"""If a sum of squares is below this number, its smaller terms may have lost digits to underflow."""

SAMPLED_ROWS = 16
"""The number of evenly spread rows that are read to find columns with large means."""

LARGE_MEAN = 1e-2
"""Bound of max |a − a₀| / |a₀| for the sampled entries a of a column, where a₀ is the first of them.

Below this bound the mean of the column counts as large compared with its spread.
"""


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
    """The weights, means, confounds and column factors that turn one matrix A into its adjusted matrix.

    The adjusted matrix is (I − QQᵀ) D (A − 1 rowᵀ) diag(factors). The file `row_model.py` defines D and Q. B (n x r) is
    the basis of the confounds, `RowModel.basis`, and q the part of the constant that `RowModel.constant` describes.

    Parameters
    ----------
    model : RowModel
        D and Q, and whether the means are subtracted.
    scale : bool, default False
        Whether the columns, centred and without the confounds, are divided by their root mean squares.
    shift : array of shape (p,), optional
        A row of numbers: the caller's matrix is A − 1 shiftᵀ. Without centring, `row` is the shift. With centring,
        `row` is the mean of A itself, and subtracting the shift as well would change nothing.
    least : float, default 0
        The least root mean square that a column is divided by: the smallest normal number of the dtype of A. The
        factor of a smaller column is 0.

    Attributes
    ----------
    mean : array of shape (p,) or None
        The column means of A, once they are known.
    explained : array of shape (p, r) or None
        T = (A − 1 rowᵀ)ᵀD²B: the confounds explain the part D B Tᵀ of D (A − 1 rowᵀ). If the model keeps the constant
        q, T has one more column, (A − 1 shiftᵀ)ᵀDq.
    factors : array of shape (p,) or None
        The factors of the columns: 1/σ with scaling, 0 for columns that the confounds explain or that are too small.
    squares : array of shape (p,) or None
        The squared lengths of the columns of the adjusted matrix.
    nearly_explained : tuple of int
        Columns for which the confounds leave at most the share `NEARLY` of the squared length.
    underflowing : tuple of int
        Columns whose squared length underflows to zero or has lost digits.
    lost : float
        The largest ratio of a column's squared length before to after the subtraction of the confounds.
    ledger : Ledger or None
        The ledger that counts the sweep in which the adjustment is computed.
    unrecorded : float
        Number of sweeps made before `ledger` was set.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.solving import adjusted
    >>> problem = adjusted(ls.SVD(np.array([[1.0, 5.0], [3.0, 9.0]]), k=1, center=True, scale=True))
    >>> adjustment = problem.A.adjustment
    >>> adjustment.known
    False
    >>> _ = problem.A.matmat(np.eye(2))  # the first product reads the rows
    >>> adjustment.known, adjustment.mean
    (True, array([2., 7.]))
    """

    def __init__(
        self, model: RowModel, *, scale: bool = False, shift: Array | None = None, least: float = 0.0
    ) -> None:
        self.model, self.scale, self.shift, self.least = model, scale, shift, least
        self.mean: Array | None = None
        self.explained: Array | None = None
        self.factors: Array | None = None
        self.squares: Array | None = None
        self.nearly_explained: tuple[int, ...] = ()
        self.underflowing: tuple[int, ...] = ()
        self.lost = 1.0
        self.ledger: Any = None
        self.unrecorded = 0.0

    # ---- facts --------------------------------------------------------------------------------

    @property
    def row(self) -> Array | None:
        """The row that is subtracted from every row of A: the means, or the shift, or None."""
        return self.mean if self.model.center else self.shift

    @property
    def mean_as_given(self) -> Array | None:
        """The column means of the caller's matrix A − 1 shiftᵀ, whereas `mean` is that of A; None until it is known."""
        return self.mean if self.mean is None or self.shift is None else self.mean - self.shift

    @property
    def lacks_mean(self) -> bool:
        """Whether the means are to be subtracted and are not known yet."""
        return self.model.center and self.mean is None

    @property
    def changes_products(self) -> bool:
        """Whether products change by more than the subtracted row: by confounds or factors of columns."""
        return self.model.basis is not None or self.scale or self.factors is not None

    @property
    def lacks_correction(self) -> bool:
        """Whether `explained`, or the column lengths that scaling needs, are still unknown."""
        explained = self.model.basis is not None and self.explained is None
        return explained or (self.scale and self.squares is None)

    @property
    def known(self) -> bool:
        """Whether every part of the adjusted matrix is known."""
        return not (self.lacks_mean or self.lacks_correction)

    @property
    def signed(self) -> Array | None:
        """T diag(signs), which is `explained` with its column for the constant q, if there is one, times −1.

        None if `explained` is None. Products XᵀD²Y of two matrices are corrected by subtracting T_X diag(signs) T_Yᵀ.
        So the terms of the confounds are subtracted and the term of q is added.
        """
        if self.explained is None or not self.model.keeps_constant:
            return self.explained
        return self.explained * Home.of(self.explained).place(self.model.signs)[None, :]

    @property
    def explained_squares(self) -> Array | None:
        """Squared lengths of the parts of the columns of A that the confounds explain; None without confounds."""
        if self.explained is None:
            return None
        confounds = self.explained[:, :-1] if self.model.keeps_constant else self.explained
        squares: Array = Home.of(self.explained).xp.sum(confounds * confounds, axis=1)
        return squares

    @property
    def kept(self) -> Array | None:
        """The column of `explained` for the constant q, as a row of shape (1, p); None if the model keeps no constant.

        It is appended to R of a QR factorisation of the rows with means and confounds subtracted. Then RᵀR is the Gram
        matrix of the adjusted matrix, which also contains the part along q.
        """
        return self.explained[:, -1:].T if self.model.keeps_constant and self.explained is not None else None

    # ---- what a solution keeps -----------------------------------------------------------------

    def of_new_rows(self) -> dict[str, Array]:
        """The arrays by which a solution adjusts new rows: `mean`, `slopes`, `confound_mean` and `scale`.

        Returns
        -------
        dict from str to array
            Shapes (p,), (c, p), (c,) and (p,); `slopes` has one row for each confound. An array that is not needed is
            left out.
        """
        model, found = self.model, {}
        constant, turn, mean = model.constant, model.turn, model.confound_mean
        if model.center and constant is None:
            found["mean"] = self.mean_as_given
        if self.explained is not None and turn is not None and mean is not None:
            home = Home.of(self.explained)
            slopes = home.place(turn) @ self.explained[:, : turn.shape[1]].T
            if constant is not None:  # with the means back, the confounds also explain a part of the constant
                at_zero = home.place(self.mean_as_given) - home.place(mean) @ slopes
                slopes = slopes + home.place(constant.slopes)[:, None] * at_zero[None, :]
                mean = np.zeros(len(mean))
            found |= {"slopes": slopes, "confound_mean": mean}
        if self.scale:
            found["scale"] = reciprocal(self.factors)
        return found

    @classmethod
    def learnt_by(
        cls, mean: Array | None, slopes: Array | None, scale: Array | None, confounds: HostArray | None
    ) -> Adjustment:
        """The adjustment of new rows, from the arrays that training has found and the confounds of the new rows.

        Parameters
        ----------
        mean, slopes, scale : array or None
            As `of_new_rows` names them.
        confounds : numpy.ndarray of shape (n, c) or None
            The confounds of the new rows, minus the means of the confounds in training.
        """
        basis = None
        if confounds is not None and slopes is not None:  # they may have any unit
            units = column_units(confounds)
            basis, slopes = confounds / units, slopes * Home.of(slopes).place(units)[:, None]
        made = cls(RowModel(center=mean is not None, basis=basis))
        made.mean, made.explained = mean, None if slopes is None else slopes.T
        made.factors = None if scale is None else reciprocal(scale)
        return made

    def given(self, weights: Array, axis: int = 0, *, inverse: bool = False) -> Array:
        """Convert coefficients of the scaled columns to coefficients of the columns of A: multiply by the factors.

        Parameters
        ----------
        weights : array
            Coefficients of columns, such as canonical weights. Axis number `axis` has one entry for each column.
        axis : int, default 0
        inverse : bool, default False
            Whether to divide by the factors instead: coefficients of the columns of A become coefficients of the scaled
            columns. Entries of columns whose factor is 0 become 0.
        """
        factors = reciprocal(self.factors) if inverse else self.factors
        shape = [1] * weights.ndim
        shape[axis] = -1
        factors = Home.of(weights).place(factors, host_dtype(weights))
        found: Array = weights * namespace(weights).reshape(factors, tuple(shape))
        return found

    # ---- learning -----------------------------------------------------------------------------

    def learn(
        self,
        home: Home,
        count: float,
        *,
        mean: Array | None = None,
        explained: Array | None = None,
        squares: Array | None = None,
    ) -> None:
        """Store the results of a sweep; results that are already known are not replaced.

        Parameters
        ----------
        home : Home
        count : float
            The number of rows, or the sum of their weights.
        mean : array of shape (p,), optional
        explained : array of shape (p, r), optional
            AᵀD²B for A minus its subtracted row.
        squares : array of shape (p,), optional
            Squared lengths before the confounds are subtracted; left out where only products are known.
        """
        self.mean = mean if self.mean is None else self.mean
        if self.explained is None and explained is not None:
            self.explained = self._with_constant(home, explained, count)
        if self.squares is None and squares is not None:  # products may have shown the rest before
            if self.scale:
                sizes = to_host(squares)
                of_means = np.zeros(len(sizes)) if self.mean is None else np.abs(to_host(self.mean))
                seen = (sizes > 0) | (of_means > 0) & (of_means < SQUARES**0.5)
                least = max(SQUARES, self.least**2 * count)
                self.underflowing = tuple(np.flatnonzero(seen & (sizes < least)).tolist())
            self.squares = self._scaled(home, self._left(home, squares, count), count)

    def learn_from(self, gathered: ColumnStatistics) -> None:
        """Compute the adjustment from the column statistics of all rows of A."""
        squares = gathered.spread if self.model.center else gathered.squares_about(self.shift)
        explained = self.explained_by(gathered)
        self.learn(gathered.home, gathered.count, mean=gathered.mean, explained=explained, squares=squares)

    def learn_from_entries(self, A: LinearOperator) -> None:
        """Compute the adjustment from the entries of A, which are in memory."""
        home, n = A.home, A.shape[0]
        gathered = ColumnStatistics(home)
        gathered.add(A, self.model.weights_of(0, n, home), self.model.basis_of(0, n, home))
        self.learn_from(gathered)

    def learn_from_products(self, A: LinearOperator, home: Home) -> None:
        """Compute the adjustment from products with A: the mean Aᵀw / Σw, and AᵀD²B for the confounds.

        Raises
        ------
        MissingCapability
            Scaling is requested, and the lengths of the columns are unknown.
        """
        n = A.shape[0]
        weights, basis = self.model.weights_of(0, n, home), self.model.basis_of(0, n, home)
        self.learn(home, self.model.total(n), mean=block_mean(A, home, weights))
        if self.scale:
            raise MissingCapability(
                f"scale needs the lengths of the columns, which are unknown for {A!r}. Pass the rows as an "
                "array, a sparse matrix, a file or slices, or scale them before."
            )
        if basis is not None:
            rows, B = A if self.row is None else A.centered(self.row), weighted(basis, weights)
            explained = home.place(rows.rmatmat(rows.home.place(B, rows.dtype)))
            self.learn(home, self.model.total(n), explained=explained)

    def explained_by(self, gathered: ColumnStatistics) -> Array | None:
        """AᵀD²B for A minus its subtracted row, from the statistics of all rows."""
        center = self.model.center
        return gathered.beside(None if center else self.shift, center=center)

    def _with_constant(self, home: Home, explained: Array, count: float) -> Array:
        """Append the column AᵀDq to T if the model keeps the constant q; else return T."""
        constant = self.model.constant
        if constant is None or constant.kept is None:
            return explained
        kept = home.place(constant.kept)
        column = self.mean_as_given * (kept[0] * count) + explained @ kept[1:]
        return home.concat([explained, column[:, None]])

    def _left(self, home: Home, squares: Array, count: float) -> Array:
        """Compute squared column lengths with confounds subtracted; record columns that the confounds explain."""
        if self.explained is None:
            return squares
        xp = home.xp
        left = squares - xp.sum(self.explained * self.signed, axis=1)
        rounding = EXPLAINED * squares
        if self.model.constant is not None and self.mean is not None:
            rounding = rounding + ENTRIES * (squares + self.mean**2 * count)
        still = left <= rounding
        nearly = (squares > 0) & (left <= NEARLY * squares)
        self.nearly_explained = tuple(np.flatnonzero(to_host(nearly)).tolist())
        if self.nearly_explained:
            self.factors = home.place(1.0 - xp.astype(still & (squares > 0), squares.dtype))
        left = xp.where(still, xp.zeros_like(left), left)
        host, before = to_host(left), to_host(squares)
        self.lost = float(np.max(before[host > 0] / host[host > 0], initial=1.0))
        return left

    def _scaled(self, home: Home, squares: Array, count: float) -> Array:
        """Multiply squared lengths by the squared factors; with `scale`, first compute the factors from the lengths."""
        if not self.scale:
            return squares
        xp = home.xp
        live = squares > 0
        spread = xp.sqrt(xp.where(live, squares, xp.ones_like(squares)) / count)
        factors = xp.where(live, 1.0 / spread, xp.ones_like(spread))
        factors = xp.where(spread < self.least, xp.zeros_like(spread), factors)
        self.factors = factors if self.factors is None else factors * self.factors
        return squares * self.factors * self.factors

    # ---- use ----------------------------------------------------------------------------------

    def with_model(self, change: Change) -> Adjustment:
        """A copy of the adjustment with its row model replaced by `change(model)`."""
        other = copy.copy(self)
        other.model, other.ledger = change(self.model), None
        return other

    def with_known_row(self) -> Adjustment:
        """A copy that subtracts the known row as a fixed shift instead of the means: no sweep has to compute it."""
        other = copy.copy(self)
        other.model, other.shift, other.scale, other.ledger = PLAIN, self.row, False, None
        return other

    def times(self, factors: Array) -> Adjustment:
        """A copy of the adjustment whose column factors are multiplied by `factors`."""
        other = copy.copy(self)
        other.scale, other.ledger = False, None  # it is known
        other.factors = factors if self.factors is None else self.factors * factors
        other.squares = None if self.squares is None else self.squares * factors**2
        return other

    def applied(self, rows: LinearOperator, first: int = 0, model: RowModel | None = None) -> LinearOperator:
        """Some rows of the adjusted matrix.

        Parameters
        ----------
        rows : LinearOperator
            n rows of A itself.
        first : int, default 0
            The number of the first row.
        model : RowModel, optional
            The model of these rows, if they are not consecutive.
        """
        model, n, home, row = model or self.model, rows.shape[0], rows.home.blocks, self.row
        A = rows if row is None else rows.centered(row)
        roots, basis = model.roots_of(first, n, home), model.basis_of(first, n, home)
        if roots is not None:
            A = WeightedRows(A, roots)
        if basis is not None and self.explained is not None:
            kept = model.kept_of(first, n, home)
            out = [-basis if roots is None else -basis * roots[:, None]] + ([] if kept is None else [kept])
            A = A.low_rank_update(home.concat(out), self.explained)
        return A if self.factors is None else A.scaled_columns(self.factors)

    def corrected(self, product: Array, V: Array, other: Adjustment) -> Array:
        """The product XᵀY V of the adjusted matrices X and Y; this is the adjustment of X.

        Parameters
        ----------
        product : array of shape (p, k)
            XᵀD²Y V of the matrices before adjustment, except that each has its row `row` subtracted. The confounds are
            not subtracted yet, and row j is not yet multiplied by the factor of column j of X. It is overwritten.
        V : array of shape (q, k)
            Already multiplied by the factors of Y.
        other : Adjustment
            The adjustment of Y.
        """
        if self.signed is not None and other.explained is not None:
            product -= self.signed @ (other.explained.T @ V)
        return scaled(product, self.factors)


def scaled(array: Any, factors: Array | None) -> Any:
    """Multiply entry i of a vector, or row i of an array, by the factor of column i of the data.

    None if `array` is None; the array unchanged if `factors` is None.
    """
    if array is None or factors is None:
        return array
    return array * (factors if array.ndim == 1 else factors[:, None])


class AdjustedOperator(Wrapper):
    """(I − QQᵀ) D A diag(f), with all capabilities of A.

    With centring, the span of Q contains D1. So the projection I − QQᵀ also subtracts the means.

    Parameters
    ----------
    operator : LinearOperator
        A.
    model : RowModel
        D and Q.
    settle : callable
        Called with this operator when a product needs parts of `adjustment` that are not known yet, such as means. It
        must read the rows of A once, and store these parts in `adjustment`.
    scale : bool, default False
        Whether the columns, centred and without the confounds, are divided by their root mean squares: the factors f.
    name : str, default "the data"
        The name of the matrix in messages.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.operators import AdjustedOperator
    >>> Z = np.array([[0.0], [1.0], [3.0]])
    >>> from linspec.solving import adjusted
    >>> problem = adjusted(ls.SVD(np.hstack([Z, 2 * Z + 1]), k=1, center=True, confounds=Z))
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
        name: str = "the data",
    ) -> None:
        bare, shift = without_offset(operator)
        if model.center and isinstance(bare, SparseOperator):
            bare, row = about_a_row(bare)
            shift = shift if row is None else -row if shift is None else shift - row
        super().__init__(bare)
        self.with_names_of(operator)
        self._settle, self.name = settle, name
        least = float(np.finfo(bare.dtype).smallest_normal)
        self.adjustment: Adjustment = Adjustment(model, scale=scale, shift=shift, least=least)
        # An earlier reading may have gathered the statistics.
        if bare.statistics is not None and model.is_plain:
            self.adjustment.learn_from(bare.statistics)

    @classmethod
    def with_adjustment(
        cls,
        operator: LinearOperator,
        adjustment: Adjustment,
        settle: Callable[[AdjustedOperator], None],
        name: str = "the data",
    ) -> AdjustedOperator:
        """Make the adjusted matrix of A from an existing adjustment, which may be incomplete.

        Parameters
        ----------
        operator : LinearOperator
            A itself.
        adjustment : Adjustment
        settle : callable
        name : str, default "the data"
            The name of the matrix in messages.
        """
        made = object.__new__(cls)
        Wrapper.__init__(made, operator)
        made._settle, made.adjustment, made.name = settle, adjustment, name
        return made

    @property
    def model(self) -> RowModel:
        """The model of the rows, which holds D and Q."""
        return self.adjustment.model

    @property
    def shape(self) -> Any:  # type: ignore[override]  # the rows of a stream are known later
        """(n, p)."""
        n, p = self.operator.shape
        return min(n, self.model.rows), p

    @property
    def spent(self) -> bool:
        """Whether the rows can no longer be read, because their iterator was used."""
        return bool(getattr(self.operator, "spent", False))

    def in_dtype(self, dtype: np.dtype[Any]) -> LinearOperator | None:
        inner = self.operator.in_dtype(dtype)
        return None if inner is None else self.on(inner)

    def on(self, operator: LinearOperator) -> AdjustedOperator:
        """The same adjustment applied to another operator with the entries of A."""
        made = AdjustedOperator.with_adjustment(operator, self.adjustment, self._settle, self.name)
        return made.with_names_of(self)

    def scaled_columns(self, scale: Array) -> LinearOperator:
        """A copy with each column multiplied by a factor.

        The factors become part of the copy's `adjustment`, and its `operator` is A. So sweeps can multiply A and apply
        the adjustment of the copy, as they do for this operator.
        """
        self.settle()
        adjustment = self.adjustment.times(self.home.blocks.place(scale))
        return AdjustedOperator.with_adjustment(self.operator, adjustment, self._settle, self.name)

    def enter_in(self, ledger: Any) -> None:
        self.operator.enter_in(ledger)

    def settle(self) -> None:
        """Read the rows once if the adjustment is not known yet; the sweep is counted."""
        adjustment = self.adjustment
        if adjustment.known:
            return
        if adjustment.ledger is not None:
            admit(adjustment.ledger, 0.0)
        self._settle(self)
        if adjustment.ledger is None:
            adjustment.unrecorded += 1.0
        else:
            adjustment.ledger.record(self, 0, sweeps=1.0)

    @property
    def _whole(self) -> LinearOperator:
        self.settle()
        return self.adjustment.applied(self.operator)

    def _matmat(self, V: Array) -> Array:
        if self.access != "slices":
            return self._whole.matmat(V)
        return self.home.xp.concat([block.matmat(V) for block in self.blocks()], axis=0)

    def _rmatmat(self, U: Array) -> Array:
        if self.access != "slices":
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
            return self.adjustment.applied(rows, selection.start)
        return self.adjustment.applied(rows, 0, self.model.chosen(selection))

    def drawn(self, selection: HostArray) -> LinearOperator:
        """Rows that were drawn in proportion to their weights; each gets the mean of all weights as its weight."""
        self.settle()
        chosen, weights = self.model.chosen(selection), self.model.weights
        if weights is not None:
            even = np.full(len(selection), weights.mean())
            chosen = replace(chosen, weights=even)
        return self.adjustment.applied(self.operator.rows(selection), 0, chosen)

    def _dense(self) -> Array:
        return self._whole.dense()

    def blocks(self) -> Iterator[LinearOperator]:
        """The rows of streamed data, adjusted."""
        self.settle()
        return self._applied(self.operator.blocks())

    def _applied(self, blocks: Iterator[LinearOperator]) -> Iterator[LinearOperator]:
        first = 0
        for block in blocks:
            yield self.adjustment.applied(block, first)
            first += block.shape[0]


def about_a_row(A: SparseOperator) -> tuple[SparseOperator, HostArray | None]:
    """Subtract the first row of A from all rows, only in columns that have a large mean and store every entry.

    Return the matrix, and the subtracted row of shape (p,), which is 0 in all other columns. A matrix without such
    columns is returned unchanged, with None.
    """
    n = A.shape[0]
    if n < 2 or A.matrix.nnz < n:
        return A, None
    sample = np.linspace(0, n - 1, min(n, SAMPLED_ROWS)).astype(np.intp)
    if not _in_all_rows(A.matrix, sample):
        return A, None
    rows = A.matrix[sample].astype(np.float64)
    rows.sum_duplicates()
    first = rows[[0]]
    columns, values = first.indices, np.zeros(A.shape[1])
    values[columns] = first.data
    counts = np.bincount(rows.indices, minlength=A.shape[1])
    gaps = np.zeros(A.shape[1])
    with np.errstate(invalid="ignore"):  # what is not finite is found by the check of the first products
        np.maximum.at(gaps, rows.indices, np.abs(rows.data - values[rows.indices]))
    large = (counts == rows.shape[0]) & (gaps < LARGE_MEAN * np.abs(values))
    if not large.any():
        return A, None
    matrix = _canonical(A.matrix)
    indices = matrix.indices[: matrix.nnz]
    large &= np.bincount(indices, minlength=A.shape[1]) == n
    if not large.any():
        return A, None
    row = np.where(large, values, 0.0)
    # The subtraction is in float64, before rounding; the difference of nearly equal numbers is exact.
    data = (matrix.data[: matrix.nnz] - row[indices]).astype(A.dtype, copy=False)
    without = type(matrix)((data, indices, matrix.indptr), shape=matrix.shape)
    return SparseOperator(without, A.dtype, checked=True), row


def _in_all_rows(matrix: Any, rows: HostArray) -> set[int]:
    """Set of the columns that have a stored entry in each of the given rows."""
    found: set[int] | None = None
    for start, stop in zip(matrix.indptr[rows].tolist(), matrix.indptr[rows + 1].tolist(), strict=True):
        columns = matrix.indices[start:stop].tolist()
        found = set(columns) if found is None else found.intersection(columns)
        if not found:
            break
    return found or set()


def _canonical(matrix: Any) -> Any:
    """Return the matrix with duplicate entries summed; the matrix itself if it has none."""
    if matrix.has_canonical_format:
        return matrix
    matrix = matrix.copy()
    matrix.sum_duplicates()
    return matrix
