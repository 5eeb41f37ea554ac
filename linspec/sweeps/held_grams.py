"""Gram matrices that are held: products with them cost no sweep of the data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from linspec.arrays import Array, Home, HostArray, namespace
from linspec.operators import sparse_products
from linspec.operators.column_statistics import counted, without_mean

Products = tuple[Array, Array, Array, Array]
"""(XᵀX Vx, XᵀY Vy, YᵀX Vx, YᵀY Vy), with None if a block or a view is absent."""

STRIPS, NARROWEST_STRIP = 8, 64
"""The number of strips in which a symmetric product of two blocks is formed, and the least columns of a
strip."""


class HeldGram(ABC):
    """Gram matrices of one or two views, whatever they are kept as.

    Attributes
    ----------
    rows : list of array, or None
        A few rows with these Gram matrices, where products go by way of such.
    """

    rows: list[Array] | None = None

    @abstractmethod
    def products(self, Vx: Array | None, Vy: Array | None) -> Products:
        """The four products."""

    def cross(self, Vy: Array) -> Array:
        """XᵀY Vy alone."""
        return self.products(None, Vy)[1]

    def cross_adjoint(self, Vx: Array) -> Array:
        """YᵀX Vx alone."""
        return self.products(Vx, None)[2]

    @abstractmethod
    def view(self, index: int) -> HeldGram:
        """The Gram matrix of one view alone."""

    @abstractmethod
    def diagonal(self) -> tuple[Array, Array | None]:
        """The diagonals of both Gram matrices."""

    @abstractmethod
    def as_dense(self, home: Home) -> DenseGram:
        """The same as dense arrays."""

    @abstractmethod
    def magnified(self, lost: float, *, by_entries: bool) -> float:
        """By how much centring has magnified the rounding of these matrices.

        Parameters
        ----------
        lost : float
            How many times longer the worst column is before its mean is taken out of its products.
        by_entries : bool
            Whether dense matrices are made of centred entries.
        """


class DenseGram(HeldGram):
    """Sx, C, Sy as dense float64 arrays; None before the first rows, C and Sy also without a second view."""

    def __init__(self, Sx: Array = None, C: Array = None, Sy: Array = None) -> None:
        self.Sx, self.C, self.Sy = Sx, C, Sy

    def add_rows(self, slabs: list[Array]) -> None:
        """Add some rows of each view."""
        X = slabs[0]
        self.Sx = _plus(self.Sx, X.T @ X)
        if len(slabs) == 2:
            Y = slabs[1]
            self.C = _plus(self.C, X.T @ Y)
            self.Sy = _plus(self.Sy, Y.T @ Y)

    def add_gram(self, S: Array) -> None:
        """Add the Gram matrix of some rows of one view."""
        self.Sx = _plus(self.Sx, S)

    def plus(self, other: DenseGram) -> DenseGram:
        """The sums, in memory of their own."""
        pairs = zip((self.Sx, self.C, self.Sy), (other.Sx, other.C, other.Sy), strict=True)
        return DenseGram(*(None if a is None else a + b for a, b in pairs))

    def products(self, Vx: Array | None, Vy: Array | None) -> Products:
        """The four products."""
        two = self.C is not None
        return (
            None if Vx is None else self.Sx @ Vx,
            None if Vy is None or not two else self.C @ Vy,
            None if Vx is None or not two else self.C.T @ Vx,
            None if Vy is None or not two else self.Sy @ Vy,
        )

    def view(self, index: int) -> DenseGram:
        """The Gram matrix of one view alone."""
        return DenseGram(self.Sx if index == 0 else self.Sy, None, None)

    def diagonal(self) -> tuple[Array, Array | None]:
        """The diagonals of both Gram matrices."""
        return _diagonal(self.Sx), None if self.Sy is None else _diagonal(self.Sy)

    def as_dense(self, home: Home) -> DenseGram:
        """These themselves."""
        return self

    def magnified(self, lost: float, *, by_entries: bool) -> float:
        """By nothing where entries are centred; products lose once."""
        return 0.0 if by_entries else lost


class ReducedGram(DenseGram):
    """Gram matrices of rows that orthogonal transformations have reduced: products go by way of the rows.

    Parameters
    ----------
    rows : list of array of shapes (m, p) and (m, q)
        The rows of one view or two.
    """

    def __init__(self, rows: list[Array]) -> None:
        super().__init__()
        self.rows: list[Array] = rows
        self.add_rows(rows)

    def products(self, Vx: Array | None, Vy: Array | None) -> Products:
        """The four products; nothing that is squared takes part."""
        P, Q = (None if V is None else R @ V for R, V in zip(self._both(), (Vx, Vy), strict=True))
        X, Y = self._both()
        return (
            None if P is None else X.T @ P,
            None if Q is None or Y is None else X.T @ Q,
            None if P is None or Y is None else Y.T @ P,
            None if Q is None or Y is None else Y.T @ Q,
        )

    def view(self, index: int) -> DenseGram:
        """The reduced rows of one view alone."""
        return ReducedGram([self.rows[index]])

    def magnified(self, lost: float, *, by_entries: bool) -> float:
        """By nothing: rows are centred."""
        return 0.0

    def _both(self) -> tuple[Array, Array | None]:
        return self.rows[0], self.rows[1] if len(self.rows) == 2 else None


def _plus(total: Array | None, product: Array) -> Array:
    """The sum, written over the first matrix."""
    if total is None:
        return product
    total += product
    return total


def _diagonal(S: Array) -> Array:
    return S.diagonal() if isinstance(S, np.ndarray) else namespace(S).linalg.diagonal(S)


class RunningGram:
    """Gram matrices about the means of all rows, block after block.

    The Gram matrix of each block is formed about the block's own means and merged (Chan, Golub & LeVeque
    1983). The first row is subtracted from all rows. So constant columns vanish exactly, and the merged means
    are small.

    Attributes
    ----------
    gram : DenseGram
        The Gram matrices of the rows so far.
    means : list of array
        For each view, the means of the rows so far, minus the first row.
    """

    def __init__(self, home: Home) -> None:
        self.home = home
        self.gram = DenseGram()
        self.means: list[Array] = []
        self._count: float = 0

    def add_rows(self, slabs: list[Array], weights: Array | None = None) -> None:
        """Add some rows of each view, minus its first row; the rows are overwritten.

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

    def add_gram(self, S: Array, mean: Array, count: float) -> None:
        """Add the Gram matrix of some rows of one view about their mean, and that mean."""
        if not self.means:
            self.means = [self.home.zeros((mean.shape[0],))]
        self.gram.add_gram(S)
        self._merge([mean], count)

    def plus(self, other: RunningGram, moves: list[Array]) -> RunningGram:
        """Of the rows of both, in memory of its own.

        Parameters
        ----------
        other : RunningGram
            Of the rows that follow.
        moves : list of array
            Per view, from the row in units of which this one counts to that of the other.
        """
        both = RunningGram(self.home)
        both.gram, both.means, both._count = self.gram.plus(other.gram), self.means, self._count
        both._merge([m + step for m, step in zip(other.means, moves, strict=True)], other._count)
        return both

    def _merge(self, means: list[Array], count: float) -> None:
        """Merge the means of some rows into those of all."""
        steps = [new - mean for new, mean in zip(means, self.means, strict=True)]
        seen = self._count
        if seen:
            self.gram.add_rows([step[None, :] * (seen * (count / (seen + count))) ** 0.5 for step in steps])
        self._count = seen + count
        share = count / self._count if self._count else 0.0
        self.means = [m + step * share for m, step in zip(self.means, steps, strict=True)]


class SparseGram(HeldGram):
    """Sx, C, Sy as sparse float64 matrices on the host, and what centring subtracts from their products.

    Parameters
    ----------
    Sx, C, Sy : csr_array or csr_matrix, or None
        The Gram matrices, not centred.
    views : list of (array, array or None)
        For each view, the column means μ and the row t that is subtracted from its rows (usually μ; None:
        nothing).
    n : float
        Rows of the data, or the sum of their weights.
    beside : list of array of shape (p, r) or None
        For each view, T of the confounds, where there are any: T_A diag(signs) T_Bᵀ is subtracted as well.
    signs : numpy.ndarray of shape (r,), optional
        By default ones.

    Notes
    -----
    (A − 1tᵀ)ᵀ(B − 1sᵀ) = AᵀB − n μ_A sᵀ − n t (μ_B − s)ᵀ, and the last term vanishes for s = μ_B.
    """

    def __init__(
        self,
        Sx: Any,
        C: Any,
        Sy: Any,
        views: list[tuple[Array, Array | None]],
        n: float,
        beside: list[Array | None] | None = None,
        signs: HostArray | None = None,
    ) -> None:
        self.Sx, self.C, self.Sy, self.views, self.n = Sx, C, Sy, views, n
        self.beside = beside or [None for _ in views]
        self.signs = signs

    def products(self, Vx: Array | None, Vy: Array | None) -> Products:
        return (
            self._times(self.Sx, Vx, 0, 0),
            self._times(self.C, Vy, 0, 1),
            self._times(self.C, Vx, 1, 0),
            self._times(self.Sy, Vy, 1, 1),
        )

    def cross(self, Vy: Array) -> Array:
        """XᵀY Vy alone."""
        return self._times(self.C, Vy, 0, 1)

    def cross_adjoint(self, Vx: Array) -> Array:
        """YᵀX Vx alone."""
        return self._times(self.C, Vx, 1, 0)

    def scaled_cross(self, left: HostArray, right: HostArray) -> tuple[Any, HostArray, HostArray]:
        """(B, P, Q) with diag(left) XᵀY diag(right) = B - P Qᵀ for sparse B and P, Q of few columns.

        Parameters
        ----------
        left : numpy.ndarray of shape (p,)
        right : numpy.ndarray of shape (q,)
        """
        B = self.C.tocsr().copy()
        B.data *= np.repeat(left, np.diff(B.indptr))
        B.data *= right[B.indices]
        pairs = self._corrections(0, 1)
        P, Q = (
            np.stack([pair[i] * scale for pair in pairs], axis=1) if pairs else np.zeros((len(scale), 0))
            for i, scale in enumerate((left, right))
        )
        return B, P, Q

    def _times(self, G: Any, V: Any, i: int, j: int) -> Array | None:
        if G is None or V is None:
            return None
        kernel = sparse_products.matmat if i <= j else sparse_products.rmatmat
        product = kernel(G, V, np.dtype(np.float64))
        pairs = self._corrections(i, j)
        if len(pairs) == 1:
            product -= pairs[0][0][:, None] * (pairs[0][1] @ V)[None, :]
        elif pairs:
            left, right = (np.stack(vectors, axis=1) for vectors in zip(*pairs, strict=True))
            product -= left @ (right.T @ V)
        return product

    def _corrections(self, i: int, j: int) -> list[tuple[HostArray, HostArray]]:
        """The rank-one matrices, as pairs of vectors, to subtract from the products of views i and j."""
        (mean, taken), (other_mean, other_taken) = self.views[i], self.views[j]
        found = []
        if other_taken is not None:
            found.append((self.n * mean, other_taken))
        if taken is not None and other_taken is not other_mean:
            rest = other_mean if other_taken is None else other_mean - other_taken
            found.append((self.n * taken, rest))
        T, other = self.beside[i], self.beside[j]
        if T is not None and other is not None:
            found += zip((T if self.signs is None else T * self.signs).T, other.T, strict=True)
        return found

    def view(self, index: int) -> SparseGram:
        """The Gram matrix of one view alone."""
        alone = (self.Sx, self.Sy)[index]
        return SparseGram(alone, None, None, [self.views[index]], self.n, [self.beside[index]], self.signs)

    def diagonal(self) -> tuple[Array, Array | None]:
        """The diagonals of both Gram matrices."""
        return self._spread(self.Sx, 0), None if self.Sy is None else self._spread(self.Sy, 1)

    def _spread(self, S: Any, i: int) -> HostArray:
        d = np.asarray(S.diagonal())
        spread = d - sum(left * right for left, right in self._corrections(i, i))
        # A column is constant if the difference is below its rounding.
        return np.where(spread > 1e-12 * d, spread, 0.0)

    def diagonal_form(self, index: int) -> tuple[HostArray, HostArray] | None:
        """(d, L), where the Gram matrix of a view is diag(d) - L Lᵀ; None where it is not of this form.

        Parameters
        ----------
        index : {0, 1}
        """
        S = (self.Sx, self.Sy)[index]
        (mean, taken), T = self.views[index], self.beside[index]
        d = np.asarray(S.diagonal())
        if S.nnz > len(d) or np.count_nonzero(S.data) != np.count_nonzero(d):
            return None
        if taken is not None and not np.array_equal(mean, taken):
            return None
        if self.signs is not None and np.any(self.signs < 0):
            return None
        columns = ([] if taken is None else [self.n**0.5 * mean[:, None]]) + ([] if T is None else [T])
        return d, np.hstack(columns) if columns else np.zeros((len(d), 0))

    def as_dense(self, home: Home) -> DenseGram:
        """With zeros, centred."""
        return DenseGram(*(None if G is None else home.place(G) for G in self.dense()))

    def magnified(self, lost: float, *, by_entries: bool) -> float:
        """By squares: squared lengths are subtracted."""
        return lost**2

    def lost_digits(self) -> float:
        """Decimal digits that the worst column loses by the subtraction of the means."""
        worst = 0.0
        for i, S in enumerate((self.Sx, self.Sy)[: len(self.views)]):
            d, spread = np.asarray(S.diagonal()), self._spread(S, i)
            live = spread > 0
            if live.any():
                worst = max(worst, float(np.log10(d[live] / spread[live]).max()))
        return worst

    def dense(self) -> tuple[HostArray, HostArray | None, HostArray | None]:
        """Sx, C, Sy as dense arrays, centred."""

        def full(G: Any, i: int, j: int) -> Any:
            if G is None:
                return None
            out = np.asarray(G.toarray())
            for left, right in self._corrections(i, j):
                out -= np.outer(left, right)
            return out

        return full(self.Sx, 0, 0), full(self.C, 0, 1), full(self.Sy, 1, 1)


def symmetric_product(V: Array, W: Array, home: Home) -> Array:
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
