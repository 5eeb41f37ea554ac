"""Gram matrices of training and of held-out rows, adjusted by the means and slopes of the training rows.

Problem: means, slopes of confounds and scales of columns are estimated on training rows only, and applied to held-out
rows in the same way as `transform` of a solution does.
Method: the adjustment of a row is an affine map, a ↦ diag(f)(a − m − Γᵀ(z − m_z)). The Gram matrix of mapped rows
follows from the means of [rows, confounds] and their Gram matrix about these means. So the held-out rows need not be
read again. Terms of a score may cancel; `Split.images` estimates the rounding error.
Where we differ: a column that confounds explain completely would leave only rounding errors, and is set to zero, as
in a solve. Auxiliary columns, which are targets, stay: they may vary on held-out rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from linspec.arrays import HostArray, reciprocal
from linspec.certificates import Metric, cuts_short_ones
from linspec.linalg.small_matrices import EPS, whitening
from linspec.rows import EXPLAINED, Cell, Passes
from linspec.solving.on_rows import moments_of
from linspec.solving.stating import with_values

ROUNDING = 4 * EPS
"""The relative rounding error of an entry of a Gram matrix that is merged from cells."""

HIDDEN = 1e-8
"""The share of the largest eigenvalue of the Gram matrix of confounds below which only the rows show the rank."""


@dataclass(frozen=True, eq=False)
class Grams:
    """Gram and cross matrices of the adjusted training rows, or of the adjusted held-out rows, of a split.

    Rows are adjusted by the means, slopes on confounds and column scales of the training rows. ``grams["X", "Y"]`` is
    XᵀY of the adjusted rows, about zero; `spread` gives the matrix about the means of the adjusted rows. The names are
    those of the matrices of the problem.

    Attributes
    ----------
    rows : int
        The number of rows with positive weight.
    count : float
        The number of rows, or the sum of their weights.
    means : mapping from str to numpy.ndarray
        Per matrix, the column means of these rows after the adjustment. They are zero for the training rows if the
        problem centres.
    """

    rows: int
    count: float
    means: Mapping[str, HostArray]
    _spread: HostArray
    _squares: HostArray
    _places: Mapping[str, slice]

    def __getitem__(self, names: tuple[str, str]) -> HostArray:
        block, left, right = self.spread(*names), *map(self.means.__getitem__, names)
        if not (np.any(left) and np.any(right)):
            return block
        return np.asarray(block + np.outer(left * self.count, right))

    def spread(self, left: str, right: str) -> HostArray:
        """The Gram or cross matrix of these rows about their own means."""
        return np.asarray(self._spread[self._places[left], self._places[right]])

    def squares(self, name: str) -> HostArray:
        """The sums of squares of the columns of a matrix about zero."""
        return np.asarray(self._squares[self._places[name]] + self.count * self.means[name] ** 2)


def share_lost(lost: Any, value: Any) -> HostArray:
    """The quotient lost / value: 0 if nothing is lost, infinite if only the value is 0."""
    lost = np.asarray(lost, dtype=np.float64)
    value = np.asarray(value, dtype=np.float64)
    share = np.divide(lost, value, out=np.full(lost.shape, np.inf), where=value > 0)
    return np.where(lost > 0, share, 0.0)


@dataclass(frozen=True, eq=False)
class Images:
    """Means and sums of squares, over some rows, of m linear combinations of the adjusted columns.

    Attributes
    ----------
    means : numpy.ndarray of shape (m,)
    count : float
        The number of rows, or the sum of their weights.
    squares : numpy.ndarray of shape (m,)
        The sum of squares of each combination, about zero.
    lost : numpy.ndarray of shape (m,)
        Bounds of the rounding errors of `squares`. The errors are large if `squares` are sums of terms that cancel.
    """

    means: HostArray
    count: float
    squares: HostArray
    lost: HostArray
    _weights: HostArray
    _products: HostArray

    @property
    def spread(self) -> HostArray:
        """The Gram matrix of the combinations about their means over these rows, shape (m, m)."""
        return np.asarray(self._weights.T @ self._products)

    @property
    def share_lost(self) -> HostArray:
        """`lost` relative to `squares`, shape (m,); 0 if both are 0."""
        return share_lost(self.lost, self.squares)


class Split:
    """The adjusted Gram matrices of one split, by the means, slopes and factors of its training rows: see `split_of`.

    Attributes
    ----------
    training, held_out : Grams
    spreads : mapping from str to numpy.ndarray
        Per matrix, the sums of squares of the unadjusted held-out columns about their own means; exactly 0 for a column
        that does not vary over these rows.
    squares : mapping from str to numpy.ndarray
        Per matrix, the sums of squares of the unadjusted training columns about zero.
    rank : int
        Upper bound of the rank of the adjusted training rows: their number minus the number of subtracted directions.
    rounding : float
        The relative rounding error of the Gram matrices of training rows, with columns scaled to length 1. It is
        ROUNDING times the factor by which subtracting the confounds magnifies it.
    hides : bool
        Whether confounds may depend on each other, or explain a column, on the training rows: only rows tell.
    reread : float
        How often rows were read again for what their Gram matrices hide.
    """

    def __init__(
        self,
        problem: Any,
        training: Cell,
        held_out: Cell,
        whole: Split | None,
    ) -> None:
        widths = {name: A.shape[1] for name, A in problem.matrices.items()}
        if len(training.diagonal):
            widths[list(widths)[-1]] = len(training.diagonal)
        edges = np.cumsum([0, *widths.values()]).tolist()
        self._places = {name: slice(*ends) for name, ends in zip(widths, pairwise(edges), strict=True)}
        self._width = edges[-1]
        # confounds stand between the two
        self._full = self._width - len(training.diagonal)
        self._end = len(training.gram)
        self.problem, self.whole, self._rows = problem, whole, held_out
        self._dependent: dict[str, int] = {}
        self.reread = 0.0
        zero = np.zeros_like(training.mean)
        self._point = (training.origin, training.mean) if problem.center else (zero, zero)
        self._adjust(problem, training)
        self.rank = training.rows - bool(problem.center) - self._confounds
        self.spreads = self._by_name(self._columns_of(held_out.variation))
        self.squares = self._by_name(self._columns_of(training.squares_about(zero, zero)))
        self.training, self.held_out = self._grams(training), self._grams(held_out)

    def _adjust(self, problem: Any, training: Cell) -> None:
        """Compute the slopes of confounds and the factors of columns from training rows, and what rounding does."""
        S, squares = training.about(*self._point), training.squares_about(*self._point)
        Sz = S[self._full :, self._full : self._end]
        T = whitening(Sz, EPS)
        self.rounding, self.hides = ROUNDING, whitening(Sz, HIDDEN).shape[1] < len(Sz)
        self._confounds = T.shape[1]
        self._slopes = T @ (T.T @ self._columns_of(S[self._full :]))
        layout = problem.solution.layout
        for name in self._places.keys() - layout.means.keys():  # nothing is subtracted from targets
            self._slopes[:, self._places[name]] = 0.0
        left = self._adjusted(S, squares)[1]
        squares = self._columns_of(squares)
        explained = left <= EXPLAINED * squares
        explained[self._full :] = False
        self._factors = np.where(explained, 0.0, 1.0)
        if self._confounds:
            self.hides |= bool(np.any(explained & (squares > 0)))
            live = ~explained & (left > 0)
            condition = float(np.linalg.norm(np.sqrt(np.diag(Sz))[:, None] * T, 2)) ** 2
            self.rounding *= condition * float(np.max(squares[live] / left[live], initial=1.0))
        for name, place in self._places.items():
            if problem.scale and name in layout.scaled:
                lengths = np.sqrt(np.where(explained[place], 0.0, left[place]) / training.count)
                self._factors[place] = reciprocal(lengths)

    def lacks_directions(self, name: str, norm: Metric) -> bool:
        """Whether the norm of the Gram matrix of training rows may have omitted directions longer than rounding."""
        if norm.rank >= self.rank:
            return False
        return self.varying(name) - norm.rank > (self.whole or self).dependent(name)

    def dependent(self, name: str) -> int:
        """The dimension by which columns that vary are dependent, to rounding of the rows, which are read again."""
        if name not in self._dependent:
            norm = norm_of(self.problem.matrices[name], self.training[name, name])
            omitted, short = self.varying(name) - norm.rank, True
            if omitted and self.problem.readings > 1:
                moments = moments_of(with_values(self.problem, shared=None, given=None), Passes())
                short = cuts_short_ones(moments, list(self.problem.matrices).index(name), norm)
                self.reread += moments.passes.count
            self._dependent[name] = 0 if short else omitted
        return self._dependent[name]

    def varying(self, name: str) -> int:
        """The number of columns that vary over the training rows."""
        return int(np.count_nonzero(np.diag(self.training[name, name])))

    def factors(self, name: str) -> HostArray:
        """The factors that multiply the columns of a matrix, shape (p,)."""
        return self._factors[self._places[name]]

    def unscaled_squares(self, name: str) -> HostArray:
        """The sums of squares of the adjusted held-out columns of a matrix before the factors, shape (p,).

        The factor is 0 for a column that is constant on the training rows, or that confounds explain there. Its
        held-out rows count here.
        """
        rows = self._rows
        squares = self._adjusted(rows.gram, rows.squares)[1] + rows.count * self._means(rows) ** 2
        return np.asarray(squares[self._places[name]])

    def images(self, weights: Sequence[Mapping[str, HostArray]], unscaled: Sequence[str] = ()) -> Images:
        """Compute means and squares of linear combinations of the adjusted columns of held-out rows, with rounding
        errors.

        Parameters
        ----------
        weights : sequence of mapping from str to numpy.ndarray of shape (p, m)
            For each block of combinations, the weights of the columns of each matrix.
        unscaled : sequence of str, optional
            The names of matrices whose columns are not multiplied by their factors; see `unscaled_squares`.
        """
        blocks, rows = [], self._rows
        for combination in weights:
            block = np.zeros((self._width, next(iter(combination.values())).shape[1]))
            for name, W in combination.items():
                block[self._places[name]] = W if name in unscaled else W * self.factors(name)[:, None]
            blocks.append(block)
        K = np.hstack(blocks)
        K = np.vstack([K, -self._slopes @ K])  # weights of unadjusted columns and of confounds
        gap = rows.less(*self._point)
        size = np.abs(K)
        products = rows.gram @ K
        means, off = gap @ K, ROUNDING * (np.abs(gap) @ size)
        squares = np.maximum(np.sum(K * products, axis=0), 0.0) + rows.count * means**2
        cancelled = ROUNDING * np.sum(size * (np.abs(rows.gram) @ size), axis=0)
        lost = cancelled + rows.count * off * (2 * np.abs(means) + off)
        return Images(means, rows.count, squares, lost, K, products)

    def _grams(self, rows: Cell) -> Grams:
        """Return the adjusted `Grams` of the rows with these moments."""
        matrix, squares = self._adjusted(rows.gram, rows.squares)
        if not np.all(self._factors == 1.0):
            matrix = matrix * self._factors[: self._full, None] * self._factors[None, :]
            squares = squares * self._factors * self._factors
        means = self._by_name(self._means(rows) * self._factors)
        return Grams(rows.rows, rows.count, means, matrix, squares, self._places)

    def _columns_of(self, array: HostArray) -> HostArray:
        """Return the entries of an array, along its last axis, for the columns of the matrices, not the confounds."""
        if self._full == self._width:
            return array[..., : self._width]
        return np.concatenate([array[..., : self._full], array[..., self._end :]], axis=-1)

    def _by_name(self, array: HostArray) -> dict[str, HostArray]:
        return {name: array[place] for name, place in self._places.items()}

    def _means(self, rows: Cell) -> HostArray:
        """Return the means of the columns after means and slopes are subtracted, before the factors."""
        gap = rows.less(*self._point)
        return np.asarray(self._columns_of(gap) - gap[self._full : self._end] @ self._slopes)

    def _adjusted(self, S: HostArray, squares: HostArray) -> tuple[HostArray, HostArray]:
        """Return the Gram matrix of the columns minus their regression on the confounds, and its diagonal.

        S is the Gram matrix of [columns, confounds], and Γ = `slopes` holds the regression coefficients. The result is
        [I −Γᵀ] S [I −Γᵀ]ᵀ. Auxiliary columns, whose `squares` are not in S, have no rows in it.
        """
        slopes = self._slopes[:, : self._full]
        auxiliary = self._slopes[:, self._full :]
        mapped = self._columns_of(S[: self._full])
        C = S[self._full :]
        Sz = S[self._full :, self._full : self._end]
        if self._confounds:
            half = Sz @ self._slopes - self._columns_of(C)
            mapped = mapped - C[:, : self._full].T @ self._slopes + slopes.T @ half
        gained = np.sum(auxiliary * (Sz @ auxiliary - 2 * C[:, self._end :]), axis=0)
        return mapped, np.append(np.diag(mapped), np.maximum(squares[self._end :] + gained, 0.0))


def split_of(
    problem: Any,
    training: Cell,
    held_out: Cell,
    whole: Split | None = None,
) -> Split:
    """Adjust the moments of training and held-out rows by the means, slopes and scales of the training rows.

    Parameters
    ----------
    problem : Problem
        Its matrices, `center`, `scale`, `scaled` and `confounds` are used.
    training, held_out : Cell
        Moments of the columns of the matrices, followed by the confounds. If there are auxiliary columns, they follow
        the confounds, and are columns of the last matrix.
    whole : Split, optional
        The moments of all rows, which are read again where their Gram matrices hide what is exactly dependent. What is
        dependent on all rows is so on the training rows. By default these are the training rows.

    Examples
    --------
    >>> import numpy as np
    >>> import linspec as ls
    >>> from linspec.studies import cells_of, folds_of, split_of, training_and_held_out
    >>> A, b, folds = np.arange(6.0)[:, None], np.arange(6.0), folds_of([0, 0, 1, 1, 2, 2], rows=6)
    >>> problem = ls.LeastSquares(A, b, center=True)
    >>> cells, _, _ = cells_of(problem, folds)
    >>> splits = [split_of(problem, *pair) for pair in training_and_held_out(cells, folds)]
    >>> splits[0].training["A", "B"], splits[0].held_out.means["A"]
    (array([[5.]]), array([-3.]))
    """
    return Split(problem, training, held_out, whole)


def norm_of(A: Any, S: HostArray, ridge: float = 0.0) -> Metric:
    """The norm of (S + ridge·I)⁻¹ for a Gram matrix S of rows of A."""
    return Metric.of_gram(S, ridge, float(np.finfo(A.rounded_dtype).eps))
