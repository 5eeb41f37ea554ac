"""Moments of views of which each lacks some rows: products within a view, and products that count its rows anew.

Problem: view i has its own rows; Kᵢ is diagonal, with 1 where view i has the row and 0 elsewhere. The variates G that
are closest to all views maximise tr Gᵀ(Σωᵢ KᵢPᵢKᵢ)G under Gᵀ(ΣωᵢKᵢ)G = I, where Pᵢ projects on the columns of KᵢXᵢ.
Method: with N = ΣωᵢKᵢ, G is N⁻¹ Σωᵢ KᵢXᵢwᵢ up to lengths, and the weights solve A w = λ B w again: B has the blocks
ωᵢ(XᵢᵀKᵢXᵢ + rᵢI), and A the blocks ωᵢωⱼ XᵢᵀKᵢDKⱼXⱼ, with ωᵢ²rᵢI added on its diagonal, for D = (Σωᵢ)N⁻¹. A row that
all views have gets 1 in D, so that nothing changes without absent rows. The eigenvalues of the printed problem are
λ/Σωᵢ. A is positive semidefinite, and λ is at most Σωᵢ, whatever rows are absent; correlations of those rows that each
pair of views shares (pairwise deletion) would give neither.

- Absent rows have weight 0 in their view. So the means, the effects of confounds and the scales of a view are those of
  its own rows, its preprocessed columns sum to zero over them, and 1ᵀNG = 0 follows.
- The block of A on the diagonal is ωᵢ²(Sᵢ + Eᵢ) with the excess Eᵢ = XᵢᵀKᵢ(D − I)KᵢXᵢ. It is positive semidefinite,
  and only rows that some view lacks are in it.
- A ridge acts as √rᵢI in further rows of view i, where all other views have zeros: as without absent rows.

One pass learns the preprocessing of all views. After it each pass computes all products, or all Gram matrices.
Source: van de Velden & Takane 2012, doi:10.1007/s00180-011-0277-y.
Where we differ: G has n rows and is never formed; ridges, and weights of views and rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from linspec.arrays import Array, HostArray, all_finite, is_array
from linspec.errors import InvalidProblem
from linspec.operators import LinearOperator, chosen_rows
from linspec.rows import Block, Moments, Preprocessing, Reduction, Rows


def without_absent(A: LinearOperator, mask: HostArray | None) -> LinearOperator:
    """A view of which absent rows are not read: the present rows before them stand there, and count 0 times.

    So is a view that is read by rows, but for one in memory in which absent rows are finite. Others stay as they are.
    """
    if mask is None or A.access != "rows" or not A.readable:
        return A
    with np.errstate(all="ignore"):
        if A.resident and all_finite(A.rows(np.flatnonzero(~mask)).matmat(np.ones((A.shape[1], 1)))):
            return A
    numbers = np.where(mask, np.arange(len(mask)), np.argmax(mask))
    return chosen_rows(A, np.maximum.accumulate(numbers)).with_names_of(A)


@dataclass(frozen=True, eq=False)
class PresentBlock:
    """Some rows X of one view, preprocessed: K(X - T nearᵀ), where T has the means and the confounds.

    Attributes
    ----------
    block : Block
        About a row near the means.
    mask : array of shape (rows,)
        The diagonal of K.
    T : array of shape (rows, c)
    near, far : array of shape (p, c)
        The coefficients of T for products with X, and for products with Xᵀ, which may be about 0.
    place : Device
    """

    block: Block
    mask: Array
    T: Array
    near: Array
    far: Array
    place: Any

    def times(self, V: Array) -> Array:
        """Multiply a thin block, in float64."""
        X = self.place.asarray(self.block.times(V))
        return (X - self.T @ (self.near.T @ self.place.asarray(V))) * self.mask[:, None]

    def t_times(self, U: Array, out: Array, A: Rows) -> None:
        """Add the product of the transpose with U."""
        U = U * self.mask[:, None]
        self.block.t_times(A.thin(U), out)
        out -= self.far @ (self.T.T @ U)

    def gram(self, weights: Array, other: PresentBlock, A: Rows, B: Rows) -> Array:
        """Multiply the transpose, with weights of rows, by the same rows of another view."""
        w = weights * self.mask * other.mask
        G, zeros = self.block.gram(w, other.block), self.place.zeros
        G = self.place.asarray(G if is_array(G) else G.toarray())
        left = zeros((G.shape[0], other.T.shape[1]))
        right = zeros((G.shape[1], self.T.shape[1]))
        self.block.t_times(A.thin(other.T * w[:, None]), left)
        other.block.t_times(B.thin(self.T * w[:, None]), right)
        both = self.T.T @ (other.T * w[:, None])
        return G - left @ other.far.T - self.far @ (right.T - both @ other.far.T)


class _OverPresentRows(Reduction):
    """A sum over the rows that views have.

    Parameters
    ----------
    moments : AbsentRows
        Whose preprocessing is known.
    """

    def __init__(self, moments: AbsentRows) -> None:
        self.operators, self.place = moments.operators, moments.device
        self.w, self.D, self.T = moments.w, moments.factors, moments.T
        self.masks = moments.masks
        self.near: list[HostArray] = []
        self.far: list[HostArray] = []
        for i, f in moments.fitted.items():
            row = moments.mean(i) if moments.pre.center else None
            for factors, about in ((self.near, row), (self.far, row if moments.subtracts[i] else None)):
                columns = [f.gap(about)[:, None]] if moments.pre.center else []
                slopes = [] if f.slopes is None else [f.slopes]
                factors.append(np.hstack([np.zeros((len(f.mean), 0)), *columns, *slopes]))

    @property
    def by_row(self) -> list[Any]:
        return [self.w, self.D, *self.masks, *self.T]

    def present(self, blocks: Sequence[Block], rows: slice) -> list[PresentBlock]:
        """The preprocessed rows of all views."""
        asarray, views = self.place.asarray, []
        for i, block in enumerate(blocks):
            mask = asarray(self.masks[i][rows])
            T = asarray(self.T[i][rows])
            views.append(
                PresentBlock(block, mask, T, asarray(self.near[i]), asarray(self.far[i]), self.place)
            )
        return views


class PresentProducts(_OverPresentRows):
    """XᵢᵀDXⱼVⱼ for every i of every j, with XⱼᵀXⱼVⱼ for j itself, and (D − I) there: entry (m + 1)j + i, or m."""

    def __init__(self, moments: AbsentRows, V: Sequence[Array]) -> None:
        super().__init__(moments)
        self.V = [A.thin(v) for A, v in zip(self.operators, V, strict=True)]
        self.columns = sum(v.shape[1] for v in V)
        self.multiplied = float(self.columns * (2 + len(V)))

    def zero(self) -> list[Any]:
        p, zeros = [A.shape[1] for A in self.operators], self.place.zeros
        return [zeros((q, v.shape[1])) for j, v in enumerate(self.V) for q in (*p, p[j])]

    def add(self, total: list[Any], blocks: list[Block], rows: slice) -> None:
        views = self.present(blocks, rows)
        m = len(blocks)
        w, D = (self.place.asarray(weights[rows])[:, None] for weights in (self.w, self.D))
        for j, (view, v) in enumerate(zip(views, self.V, strict=True)):
            U = view.times(v) * w
            for i, target in enumerate(views):
                target.t_times(U if i == j else U * D, total[(m + 1) * j + i], self.operators[i])
            view.t_times(U * (D - 1.0), total[(m + 1) * j + m], self.operators[j])


class PresentGrams(_OverPresentRows):
    """XᵢᵀDXⱼ for every i < j in the order of the upper triangle, XᵢᵀXᵢ for i itself; and XᵢᵀDXᵢ − XᵢᵀXᵢ of all i."""

    wide = True

    def zero(self) -> list[Any]:
        p, zeros = [A.shape[1] for A in self.operators], self.place.zeros
        return [zeros((a, b)) for i, a in enumerate(p) for b in p[i:]] + [zeros((a, a)) for a in p]

    def add(self, total: list[Any], blocks: list[Block], rows: slice) -> None:
        views, m, A = self.present(blocks, rows), len(blocks), self.operators
        w, D = (self.place.asarray(weights[rows]) for weights in (self.w, self.D))
        pairs = [(i, j) for i in range(m) for j in range(i, m)]
        for out, (i, j) in zip(total, pairs, strict=False):
            out += views[i].gram(w if i == j else w * D, views[j], A[i], A[j])
        for out, view, operator in zip(total[len(pairs) :], views, A, strict=True):
            out += view.gram(w * (D - 1.0), view, operator, operator)


class AbsentRows(Moments):
    """The moments of views that lack rows.

    Parameters
    ----------
    rows : sequence of Rows
    pre : sequence of Preprocessing
        One for each view, with weight 0 for absent rows.
    present : sequence of numpy.ndarray, or None
        The mask of each view.
    view_weights : sequence of float
    w : numpy.ndarray of shape (n,)
        Weights of rows.
    **options
        As for `linspec.rows.Moments`.

    Attributes
    ----------
    excess : list of array
        Eᵢ, once Gram matrices are formed.
    """

    sketches = False  # D differs from row to row

    def __init__(
        self,
        rows: Sequence[Rows],
        pre: Sequence[Preprocessing],
        present: Sequence[HostArray | None],
        view_weights: Sequence[float],
        w: HostArray,
        **options: Any,
    ) -> None:
        super().__init__(rows, pre[0], **options)
        every = np.ones(len(w))
        self.preprocessings, self.w = list(pre), w
        self.masks = [every if mask is None else mask.astype(np.float64) for mask in present]
        self.T = [
            np.column_stack([every] * p.center + ([] if p.B is None else [p.B]) or [np.zeros((len(w), 0))])
            for p in pre
        ]
        seen = np.sum([mask * weight for mask, weight in zip(self.masks, view_weights, strict=True)], axis=0)
        # D = (Σωᵢ)(ΣωᵢKᵢ)⁻¹: exactly 1 for a row of all views, and 0 for a row of none
        self.factors = np.divide(sum(view_weights), seen, out=np.zeros(len(seen)), where=seen > 0)
        self.excess: list[Array] = []

    def pre_of(self, i: int) -> Preprocessing:
        return self.preprocessings[i]

    def fit(self, *which: int) -> None:
        for i in which or range(len(self.operators)):
            if i not in self.fitted:
                with self.view(i) as view:
                    view.fit()

    def take_up(self, other: Any) -> None:
        super().take_up(other)
        self.excess = other.excess

    def expect(self, products: int, columns: int, form: str = "auto") -> None:
        if form == "sparse":
            raise InvalidProblem(
                'form "sparse" holds no Gram matrices of views that lack rows. Use "auto", "dense" or "implicit".'
            )
        super().expect(products, columns, form)

    def products(self, *V: Array | None, **options: Any) -> list[list[Any]]:
        """Compute [[XᵢᵀDXⱼVⱼ for i] for j], but XⱼᵀXⱼVⱼ for j itself; none of Vⱼ is None."""
        return self.with_excess(*V)[0]

    def with_excess(self, *V: Any) -> tuple[list[list[Array]], list[Array]]:
        """Compute the products, and EⱼVⱼ, in one pass once the preprocessing is known; none if matrices are held."""
        if self.held is not None:
            return super().products(*V), [E @ v for E, v in zip(self.excess, V, strict=True)]
        self.fit()
        m, fitted = len(V), self.fitted
        blocks = [fitted[j].scaled(v) for j, v in enumerate(V)]
        total, _ = self._pass(lambda: PresentProducts(self, blocks))
        live = [self.device.asarray(fitted[i].kept)[:, None] for i in range(m)]
        products = [[total[(m + 1) * j + i] * live[i] for i in range(m)] for j in range(m)]
        return products, [total[(m + 1) * j + m] * live[j] for j in range(m)]

    def gram(self, *, sparse: bool = False) -> list[list[Any]]:
        """Form XᵢᵀDXⱼ, XᵢᵀXᵢ and Eᵢ, and hold them."""
        if self.held is None:
            self._will_hold()
            self.fit()
            total, about = self._pass(lambda: PresentGrams(self))
            self._hold(total, about)
            self.excess = [self._corrected_gram(E, i, i, about) for i, E in enumerate(total)]
        return self.held  # type: ignore[return-value]

    def _corrected_gram(self, P: Array, i: int, j: int, about: Any, *, sparse: bool = False) -> Array:
        left, right = (self.device.asarray(self.fitted[n].kept) for n in (i, j))
        return P * left[:, None] * right
