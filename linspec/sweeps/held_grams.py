"""Gram matrices that are kept in memory: products with them need no sweep over the data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from linspec.arrays import Array, Home, HostArray, namespace
from linspec.errors import AccuracyWarning, warn
from linspec.operators import sparse_products
from linspec.operators.adjustment import scaled
from linspec.operators.column_statistics import counted, merged, without_mean
from linspec.sweeps.views import DIGITS_TO_WARN, View

STRIPS, NARROWEST_STRIP = 8, 64
"""The number of strips of rows in which a symmetric product is formed, and the smallest width of a strip."""

Upper = list[list[Any]]
"""The blocks XᵢᵀXⱼ with i ≤ j, one list for each view i."""


class HeldGram(ABC):
    """The Gram and cross matrices XᵢᵀXⱼ of some views, held as dense or sparse matrices.

    Attributes
    ----------
    upper : list of list
        The matrices with i ≤ j.
    """

    upper: Upper

    @abstractmethod
    def product(self, i: int, j: int, V: Array) -> Array:
        """XᵢᵀXⱼ V."""

    def products(self, blocks: Sequence[Array | None]) -> list[Array | None]:
        """XᵢᵀXⱼ Vⱼ for all i and j, with j varying fastest; None where Vⱼ is None."""
        views = range(len(self.upper))
        return [None if V is None else self.product(i, j, V) for i in views for j, V in enumerate(blocks)]

    @abstractmethod
    def view(self, index: int) -> HeldGram:
        """The Gram matrix of view `index` alone."""

    @abstractmethod
    def diagonals(self) -> list[Array]:
        """The diagonals of the Gram matrices."""

    @abstractmethod
    def as_dense(self, home: Home) -> DenseGram:
        """The matrices as dense arrays, centred."""

    @abstractmethod
    def magnified(self, lost: float, *, by_entries: bool) -> float:
        """Factor by which centring has magnified the rounding errors of the matrices; 0.0 if centring lost no digits.

        Parameters
        ----------
        lost : float
            For means that are subtracted from products: the length of a column before its mean is subtracted, divided
            by its length afterwards; the largest of these ratios.
        by_entries : bool
            Whether dense matrices were formed from centred entries.
        """


class DenseGram(HeldGram):
    """Gram and cross matrices as dense float64 arrays; there are none before the first rows are added."""

    def __init__(self, upper: Upper | None = None) -> None:
        self.upper = upper or []

    def add_rows(self, slabs: list[Array]) -> None:
        """Add the products of some rows of all views to the matrices."""
        self.add_grams([[X.T @ Z for Z in slabs[i:]] for i, X in enumerate(slabs)])

    def add_grams(self, more: Upper) -> None:
        """Add the Gram and cross matrices of some rows of all views; the object may keep and change them."""
        if not self.upper:
            self.upper = more
            return
        for own, row in zip(self.upper, more, strict=True):
            for total, product in zip(own, row, strict=True):
                total += product

    def plus(self, other: DenseGram) -> DenseGram:
        """The sums of two Gram matrices, in new memory."""
        pairs = zip(self.upper, other.upper, strict=True)
        return type(self)([[a + b for a, b in zip(own, more, strict=True)] for own, more in pairs])

    def product(self, i: int, j: int, V: Array) -> Array:
        """XᵢᵀXⱼ V."""
        return self.upper[i][j - i] @ V if i <= j else self.upper[j][i - j].T @ V

    def view(self, index: int) -> DenseGram:
        """The Gram matrix of view `index` alone."""
        return DenseGram([[self.upper[index][0]]])

    def diagonals(self) -> list[Array]:
        """The diagonals of the Gram matrices."""
        return [_diagonal(row[0]) for row in self.upper]

    def as_dense(self, home: Home) -> DenseGram:
        """The object itself: it is dense and centred."""
        return self

    def magnified(self, lost: float, *, by_entries: bool) -> float:
        """0.0 if the entries were centred; else `lost`, because one subtraction in each product cancels digits."""
        return 0.0 if by_entries else lost


def _diagonal(S: Array) -> Array:
    return S.diagonal() if isinstance(S, np.ndarray) else namespace(S).linalg.diagonal(S)


class RunningGram:
    """Gram matrices about the means of all rows, block after block.

    The Gram matrix of each block is formed about the block's own means and merged (Chan, Golub & LeVeque 1983). The
    caller has subtracted the first row from all rows. So constant columns vanish exactly, and the merged means are
    small.

    Attributes
    ----------
    gram : DenseGram
        The Gram matrices of the rows so far.
    means : list of array
        For each view, the means of the rows so far, minus the first row.
    """

    def __init__(self, home: Home) -> None:
        self.home = home
        self.gram = DenseGram()  # to which rows are added
        self.means: list[Array] = []
        self._count: float = 0

    def add_rows(self, slabs: list[Array], weights: Array | None = None) -> None:
        """Add some rows of each view, already minus the first row of the view; the rows are overwritten.

        Parameters
        ----------
        slabs : list of array of shape (n, p)
        weights : array of shape (n,), optional
            How often each row counts.
        """
        if not self.means:
            self.means = [self.home.zeros((Z.shape[1],)) for Z in slabs]
        means = [without_mean(Z, self.home, weights)[1] for Z in slabs]
        count = counted(slabs[0].shape[0], weights, self.home)
        if weights is not None:
            roots = self.home.xp.sqrt(weights)[:, None]
            for Z in slabs:
                Z *= roots
        self.gram.add_rows(slabs)
        self._merge(means, count)

    def add_grams(self, more: Upper, means: list[Array], count: float) -> None:
        """Add the Gram and cross matrices of some rows about the means of these rows, and the means."""
        if not self.means:
            self.means = [self.home.zeros((mean.shape[0],)) for mean in means]
        self.gram.add_grams(more)
        self._merge(means, count)

    def plus(self, other: RunningGram, moves: list[Array]) -> RunningGram:
        """The Gram matrices of the rows of this object and of `other`, in new memory.

        Parameters
        ----------
        other : RunningGram
            The Gram matrices of the rows that follow.
        moves : list of array
            Per view, the first row of `other` minus the first row of this object.
        """
        both = RunningGram(self.home)
        both.gram, both.means, both._count = self.gram.plus(other.gram), self.means, self._count
        both._merge([m + step for m, step in zip(other.means, moves, strict=True)], other._count)
        return both

    def _merge(self, means: list[Array], count: float) -> None:
        """Merge the means of new rows into `means`, and correct the Gram matrices for the difference of the means."""
        steps = [new - mean for new, mean in zip(means, self.means, strict=True)]
        weight, share = merged(self._count, count)
        if self._count:
            self.gram.add_rows([step[None, :] * weight**0.5 for step in steps])
        self._count += count
        self.means = [m + step * share for m, step in zip(self.means, steps, strict=True)]


class SparseGram(HeldGram):
    """Gram and cross matrices as sparse float64 matrices on the host, with the corrections that centre products.

    Parameters
    ----------
    upper : list of list of csr_array or csr_matrix
        The Gram matrices, not centred.
    views : list of (array, array or None)
        For each view, the column means μ, and the row t that is subtracted from its rows: usually μ, or None to
        subtract nothing.
    n : float
        Rows of the data, or the sum of their weights.
    explained : list of array of shape (p, r) or None
        For each view, the matrix T of products of its p columns with the basis of the confounds, or None. From the
        product AᵀB of two views with matrices T_A and T_B, T_A diag(signs) T_Bᵀ is subtracted in addition to the means.
    signs : numpy.ndarray of shape (r,), optional
        For each column of T, 1 if its products are subtracted, and -1 if they are added: see `RowModel.signs`. By
        default all are subtracted.

    Notes
    -----
    (A − 1tᵀ)ᵀ(B − 1sᵀ) = AᵀB − n μ_A sᵀ − n t (μ_B − s)ᵀ, and the last term vanishes for s = μ_B.
    """

    def __init__(
        self,
        upper: Upper,
        views: list[tuple[Array, Array | None]],
        n: float,
        explained: list[Array | None] | None = None,
        signs: HostArray | None = None,
    ) -> None:
        self.upper, self.views, self.n = upper, views, n
        self.explained = explained or [None for _ in views]
        self.signs = signs

    @classmethod
    def of(cls, views: list[View], found: Upper, total: float) -> SparseGram:
        """Make the Gram matrices of adjusted views from `found`, those of the unadjusted rows; warn if centring loses
        many digits.

        Parameters
        ----------
        views : list of View
            Views whose means and products with the confounds are known.
        found : list of list of sparse matrix
            XᵢᵀXⱼ with i ≤ j, not centred.
        total : float
            The number of rows, or the sum of their weights.
        """
        upper = [
            [
                scaled_sparse(S, views[i].adjustment.factors, views[i + j].adjustment.factors)
                for j, S in enumerate(row)
            ]
            for i, row in enumerate(found)
        ]
        known, model = [view.adjustment for view in views], views[0].model
        rows = [(scaled(a.mean, a.factors), scaled(a.row, a.factors)) for a in known]
        explained = [scaled(a.explained, a.factors) for a in known]
        gram = cls(upper, rows, total, explained, model.signs if model.keeps_constant else None)
        if gram.lost_digits() > DIGITS_TO_WARN:
            warn(
                f"centring a sparse Gram matrix by subtraction loses {gram.lost_digits():.0f} digits here, "
                'because column means are large beside their spread. Use form="implicit" or dense data.',
                AccuracyWarning,
            )
        return gram

    def product(self, i: int, j: int, V: Array) -> Array:
        """XᵢᵀXⱼ V."""
        kernel = sparse_products.matmat if i <= j else sparse_products.rmatmat
        product = kernel(self.upper[min(i, j)][abs(j - i)], V, np.dtype(np.float64))
        pairs = self._corrections(i, j)
        if len(pairs) == 1:
            product -= pairs[0][0][:, None] * (pairs[0][1] @ V)[None, :]
        elif pairs:
            left, right = (np.stack(vectors, axis=1) for vectors in zip(*pairs, strict=True))
            product -= left @ (right.T @ V)
        return product

    def _corrections(self, i: int, j: int) -> list[tuple[HostArray, HostArray]]:
        """Pairs of vectors (a, b): XᵢᵀXⱼ of the adjusted views is the stored matrix minus the sum of all a bᵀ."""
        (mean, taken), (other_mean, other_taken) = self.views[i], self.views[j]
        found = []
        if other_taken is not None:
            found.append((self.n * mean, other_taken))
        if taken is not None and other_taken is not other_mean:
            rest = other_mean if other_taken is None else other_mean - other_taken
            found.append((self.n * taken, rest))
        T, other = self.explained[i], self.explained[j]
        if T is not None and other is not None:
            found += zip((T if self.signs is None else T * self.signs).T, other.T, strict=True)
        return found

    def view(self, index: int) -> SparseGram:
        """The Gram matrix of view `index` alone."""
        own = [[self.upper[index][0]]]
        return SparseGram(own, [self.views[index]], self.n, [self.explained[index]], self.signs)

    def diagonals(self) -> list[Array]:
        """The diagonals of the Gram matrices."""
        return [self._spread(row[0], i) for i, row in enumerate(self.upper)]

    def _spread(self, S: Any, i: int) -> HostArray:
        d = np.asarray(S.diagonal())
        spread = d - sum(left * right for left, right in self._corrections(i, i))
        # A column is constant if the difference is below its rounding.
        return np.where(spread > 1e-12 * d, spread, 0.0)

    def as_dense(self, home: Home) -> DenseGram:
        """The matrices as dense arrays, centred."""

        def full(S: Any, i: int, j: int) -> Array:
            out = np.asarray(S.toarray())
            for left, right in self._corrections(i, j):
                out -= np.outer(left, right)
            return home.place(out)

        rows = enumerate(self.upper)
        return DenseGram([[full(S, i, i + j) for j, S in enumerate(row)] for i, row in rows])

    def magnified(self, lost: float, *, by_entries: bool) -> float:
        """lost², because the matrices hold squared lengths, which are subtracted from each other."""
        return lost**2

    def lost_digits(self) -> float:
        """Largest number of decimal digits that a column loses when its mean is subtracted."""
        worst = 0.0
        for (S, *_), spread in zip(self.upper, self.diagonals(), strict=True):
            d = np.asarray(S.diagonal())
            live = spread > 0
            if live.any():
                worst = max(worst, float(np.log10(d[live] / spread[live]).max()))
        return worst


def scaled_sparse(S: Any, left: Array | None, right: Array | None) -> Any:
    """diag(left) S diag(right) for a CSR matrix S."""
    if left is None and right is None:
        return S
    data = S.data.copy()
    if left is not None:
        data *= np.repeat(left, np.diff(S.indptr))
    if right is not None:
        data *= right[S.indices]
    return type(S)((data, S.indices, S.indptr), shape=S.shape)


def symmetric_product(V: Array, W: Array, home: Home) -> Array:
    """VᵀW for a product that is known to be symmetric: little more than half of it is formed, in strips of rows."""
    k = V.shape[1]
    width = max(-(-k // STRIPS), NARROWEST_STRIP)
    product = home.zeros((k, k))
    for a in range(0, k, width):
        b = min(a + width, k)
        strip = V[:, a:b].T @ W[:, a:]
        product[a:b, a:] = strip
        product[b:, a:b] = strip[:, b - a :].T
    return product
