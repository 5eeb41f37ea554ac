"""Moments of views of which each lacks some rows: products within a view, and products that count its rows anew.

Problem: view i has its own rows; Kᵢ is diagonal, with 1 where view i has the row and 0 elsewhere. The variates G that
are closest to all views maximise tr Gᵀ(Σωᵢ KᵢPᵢKᵢ)G under Gᵀ(ΣωᵢKᵢ)G = I, where Pᵢ projects on the columns of KᵢXᵢ.
Method: with N = ΣωᵢKᵢ, G is N⁻¹ Σωᵢ KᵢXᵢwᵢ up to lengths, and the weights solve A w = λ B w again: B has the blocks
ωᵢ(XᵢᵀKᵢXᵢ + rᵢI), and A the blocks ωᵢωⱼ XᵢᵀKᵢDKⱼXⱼ, with ωᵢ²rᵢI added on its diagonal, for D = (Σωᵢ)N⁻¹. A row that
all views have gets 1 in D, so that nothing changes without absent rows. The eigenvalues of the printed problem are
λ/Σωᵢ. A is positive semidefinite, and λ is at most Σωᵢ, whatever rows are absent; correlations of those rows that each
pair of views shares (pairwise deletion) would give neither.

- Absent rows have weight 0 in their view. So the means, the effects of confounds and the scales of a view are those of
  its own rows, its adjusted columns sum to zero over them, and 1ᵀNG = 0 follows.
- The block of A on the diagonal is ωᵢ²(Sᵢ + Eᵢ) with the excess Eᵢ = XᵢᵀKᵢ(D − I)KᵢXᵢ. It is positive semidefinite,
  and only rows that some view lacks are in it.
- A ridge acts as √rᵢI in further rows of view i, where all other views have zeros: as without absent rows.

One sweep computes all products, or all Gram matrices. Means that are not known take a sweep before it.
Source: van de Velden & Takane 2012, doi:10.1007/s00180-011-0277-y.
Where we differ: G has n rows and is never formed; ridges, and weights of views and rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from linspec import Moments, cost
from linspec.algebra import Whitener, squared_cut
from linspec.arrays import Array, HostArray
from linspec.errors import InvalidProblem
from linspec.moments import Basis, multiplied
from linspec.operators import LinearOperator
from linspec.sweeps import Task

Blocks = Mapping[tuple[int, int], Array]
"""Cᵢⱼ for i < j, and Eᵢ at (i, i) if rows are absent."""


def bases_of(moments: Any, ridges: Sequence[float], blocks: Sequence[Array]) -> list[Basis]:
    """Multiply a block of each view in one sweep; `CV` of a basis has Eᵢ V of the view itself, if rows are absent."""
    if isinstance(moments, AbsentRows):
        return moments.multiplied(ridges, blocks)
    return [basis for basis in multiplied(moments, ridges, blocks) if basis is not None]


def cross_blocks(moments: Any) -> Blocks:
    """Return the blocks of A without view weights, from Gram matrices that are held."""
    if isinstance(moments, AbsentRows):
        return moments.held_matrices.blocks
    held, count = iter(moments.dense()), len(moments.shape) - 1
    upper = {(i, j): next(held) for i in range(count) for j in range(i, count)}
    return {key: C for key, C in upper.items() if key[0] < key[1]}


def row_factors(present: Sequence[HostArray | None], weights: Sequence[float]) -> HostArray:
    """Return the diagonal of D = (Σωᵢ)(ΣωᵢKᵢ)⁻¹; 0 for a row that no view has."""
    seen = sum(w * (1.0 if rows is None else rows) for rows, w in zip(present, weights, strict=True))
    found: HostArray = np.divide(sum(weights), seen, out=np.zeros(np.shape(seen)), where=np.asarray(seen) > 0)
    return found


# ---- sweeps -------------------------------------------------------------------------------------


class _Sums(Task[list[Array]]):
    """A task whose part is a list of sums."""

    def merge(self, left: list[Array], right: list[Array]) -> list[Array]:
        """Add two parts."""
        return [a + b for a, b in zip(left, right, strict=True)]

    def looked_at(self, part: list[Array]) -> Iterable[Array]:
        """All sums."""
        return part


@dataclass(frozen=True)
class PresentProducts(_Sums):
    """Compute Xᵢᵀ[DX₁V₁ … DXₘVₘ], with XᵢVᵢ and (D − I)XᵢVᵢ in the place of DXᵢVᵢ, for every view."""

    blocks: Sequence[Array]
    factors: HostArray
    home: Any

    def part(
        self, rows: Sequence[LinearOperator], first_row: int = 0, into: list[Array] | None = None
    ) -> list[Array]:
        """Multiply some rows."""
        D = self.home.place(self.factors[first_row : first_row + rows[0].shape[0]])[:, None]
        images = [self.home.place(A.matmat(V)) for A, V in zip(rows, self.blocks, strict=True)]
        counted = [P * D for P in images]
        found = []
        for i, A in enumerate(rows):
            own = self.home.concat([images[i], counted[i] - images[i]])
            beside = self.home.concat([*counted[:i], own, *counted[i + 1 :]])
            found.append(self.home.place(A.rmatmat(beside)))
        return found if into is None else self.merge(into, found)


@dataclass(frozen=True)
class PresentMatrices(_Sums):
    """Form Sᵢ of every view, then Cᵢⱼ and Eᵢ in the order of the upper triangle."""

    factors: HostArray
    home: Any

    def part(
        self, rows: Sequence[LinearOperator], first_row: int = 0, into: list[Array] | None = None
    ) -> list[Array]:
        """Multiply some rows by each other."""
        D = self.factors[first_row : first_row + rows[0].shape[0]]
        short = np.flatnonzero(D != 1.0)
        placed, excess = self.home.place(D)[:, None], self.home.place(D[short] - 1.0)[:, None]
        entries = [self.home.place(A.dense()) for A in rows]
        found = [X.T @ X for X in entries]
        for i, X in enumerate(entries):
            some = self.home.xp.take(X, self.home.place(short, np.dtype(np.int64)), axis=0)
            found.append(some.T @ (some * excess))
            counted = X * placed
            found += [counted.T @ Y for Y in entries[i + 1 :]]
        return found if into is None else self.merge(into, found)


# ---- moments ------------------------------------------------------------------------------------


class Held(NamedTuple):
    """Matrices that are held: Sᵢ without ridges, and the blocks of A."""

    grams: list[Array]
    blocks: Blocks


class Costs(NamedTuple):
    """Passes before the first product, and passes of each product."""

    setup: float
    sweep: float


class AbsentRows:
    """The moments of views that lack rows, for solvers and the law of multiset CCA.

    Parameters
    ----------
    matrices : mapping from str to LinearOperator
        Adjusted views, with zeros in absent rows.
    factors : numpy.ndarray of shape (n,)
        The diagonal of D.
    form : str
        As for `linspec.Moments`; never "sparse".
    expect : (int, int)
        As for `linspec.Moments`.
    """

    def __init__(
        self,
        matrices: Mapping[str, LinearOperator],
        factors: HostArray,
        form: str,
        expect: tuple[int, int],
    ) -> None:
        if form == "sparse":
            raise InvalidProblem(
                'form "sparse" holds no Gram matrices of views that lack rows. Use "auto", "dense" or "implicit".'
            )
        self._matrices, self._factors = list(matrices.values()), factors
        self.alone = [Moments(A, form="implicit", names=(name,)) for name, A in matrices.items()]
        self._joint = Moments.side_by_side(self.alone)
        self.home = self._joint.home
        if form == "auto":
            form = cost.moments_form(cost.sizes_of(self._matrices, expect[1]), *expect)[0]
        self.form = "implicit" if form == "sparse" else form
        self._whiteners: dict[tuple[int, float], Whitener] = {}

    @property
    def held(self) -> bool:
        """Whether products cost no sweep."""
        return "held_matrices" in self.__dict__

    @property
    def cost(self) -> Costs:
        """The passes that products take."""
        before = max(one.columns.adjustment_cost for one in self.alone)
        if self.form == "implicit":
            return Costs(before, 1.0)
        return Costs(0.0 if self.held else before + 1.0, 0.0)

    @property
    def bookkeeping(self) -> Any:
        """The books of the moments of all views."""
        return self._joint.bookkeeping

    @property
    def passes(self) -> float:
        """The number of sweeps over the view that was swept most often."""
        return self._joint.passes

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, p₁, p₂, …)."""
        return self._joint.shape

    @property
    def columns(self) -> Columns:
        """The facts about the columns of the views."""
        return Columns(self.alone)

    @property
    def rounding(self) -> float:
        """The relative rounding error of products."""
        return self._joint.rounding

    def dtype(self, index: int) -> np.dtype[Any]:
        """The dtype in which rows of a view are multiplied."""
        return self._joint.dtype(index)

    @property
    def center(self) -> bool:
        """Whether means are subtracted."""
        return self.alone[0].center

    def matrix(self, index: int) -> LinearOperator:
        """Return the adjusted operator of one view, which counts its sweeps."""
        return self.alone[index].matrix(0)

    def view(self, index: int) -> Moments:
        """Return the moments of one view, on its own rows."""
        return self.alone[index]

    def _over_rows(self, task: _Sums, columns: int) -> list[Array]:
        for one in self.alone:
            one.columns.adjustment(0)  # it may take a sweep
        return self._joint.over_rows(task, columns)

    @cached_property
    def held_matrices(self) -> Held:
        """The matrices of all views, formed in one sweep."""
        count = len(self.alone)
        found = self._over_rows(PresentMatrices(self._factors, self.home), sum(self.shape[1:]))
        keys = [(i, j) for i in range(count) for j in range(i, count)]
        vary = self._vary
        grams = [S * vary[i] * vary[i].T for i, S in enumerate(found[:count])]
        blocks = zip(keys, found[count:], strict=True)
        return Held(grams, {(i, j): C * vary[i] * vary[j].T for (i, j), C in blocks})

    @property
    def _vary(self) -> list[Array]:
        """A column for each view, with 0 for columns of which the means leave rounding, else 1; known after a sweep."""
        found = [np.ones((p, 1)) for p in self.shape[1:]]
        for column, still in zip(found, self.columns.constant, strict=True):
            column[list(still)] = 0.0
        return [self.home.place(column) for column in found]

    def diagonal(self) -> tuple[Array, ...]:
        """The diagonals of Sᵢ, without ridges."""
        if self.form != "implicit":
            return tuple(self.home.xp.linalg.diagonal(S) for S in self.held_matrices.grams)
        return tuple(one.diagonal()[0] for one in self.alone)

    def gram_by_identity(self, index: int, product: Array) -> Array:
        """Clean a matrix Sᵢ that was computed as a product; see `linspec.Moments.direct`."""
        return self.alone[index].direct.gram_by_identity(0, product)

    @property
    def direct(self) -> AbsentRows:
        """These moments, which have `gram_by_identity`."""
        return self

    def whitener(self, index: int, ridge: float) -> Whitener:
        """Return the factor of Sᵢ + ridge·I, computed at the first call."""
        if (index, ridge) not in self._whiteners:
            S = self.held_matrices.grams[index]
            cut = max(squared_cut(self._matrices[index]), S.shape[0] * self.columns.lost(index))
            self._whiteners[index, ridge] = Whitener(S, ridge, cut, self.home)
        return self._whiteners[index, ridge]

    def multiplied(self, ridges: Sequence[float], blocks: Sequence[Array]) -> list[Basis]:
        """Multiply a block of each view, by held matrices or in one sweep."""
        placed = [self.home.place(V) for V in blocks]
        return self._by_matrices(ridges, placed) if self.form != "implicit" else self._swept(ridges, placed)

    def _by_matrices(self, ridges: Sequence[float], blocks: Sequence[Array]) -> list[Basis]:
        grams, C = self.held_matrices
        found = []
        for i, (V, r) in enumerate(zip(blocks, ridges, strict=True)):
            CV = tuple((C[i, j].T if i <= j else C[j, i]) @ V for j in range(len(blocks)))
            found.append(Basis(V, grams[i] @ V + V * r, CV))
        return found

    def _swept(self, ridges: Sequence[float], blocks: Sequence[Array]) -> list[Basis]:
        widths = [int(V.shape[1]) for V in blocks]
        task = PresentProducts(tuple(blocks), self._factors, self.home)
        adjoints = self._over_rows(task, sum(widths) + max(widths))
        parts = []  # of view i: the products with the blocks of all views, with that of its own twice
        for i, R in enumerate(adjoints[i] * column for i, column in enumerate(self._vary)):
            ends = np.cumsum([0, *widths[: i + 1], *widths[i:]]).tolist()
            parts.append([R[:, a:b] for a, b in pairwise(ends)])
        found = []
        for i, (V, r) in enumerate(zip(blocks, ridges, strict=True)):
            CV = tuple(parts[j][i + (i >= j)] for j in range(len(blocks)))
            found.append(Basis(V, parts[i][i] + V * r, CV))
        return found

    def products(self, *blocks: Array | None, **options: Any) -> Any:
        """Multiply a block of one view by its own rows; see `linspec.Moments.products`."""
        index = next(i for i, V in enumerate(blocks) if V is not None)
        return self.alone[index].products(blocks[index], **options)


class Columns:
    """The facts about the columns of views that lack rows: each view has its own.

    Parameters
    ----------
    alone : sequence of Moments
        The moments of each view.
    """

    def __init__(self, alone: Sequence[Moments]) -> None:
        self._alone = [one.columns for one in alone]

    @property
    def exact(self) -> bool:
        """Whether squared lengths are exact."""
        return all(one.exact for one in self._alone)

    @property
    def confounded(self) -> bool:
        """Whether confounds are subtracted from the columns."""
        return any(one.confounded for one in self._alone)

    @property
    def constant(self) -> tuple[tuple[int, ...], ...]:
        """The columns of each view that do not vary."""
        return tuple(next(iter(one.constant), ()) for one in self._alone)

    @property
    def explained(self) -> dict[str, tuple[int, ...]]:
        """The columns that confounds explain, by view."""
        return {name: columns for one in self._alone for name, columns in one.explained.items()}

    @property
    def underflowing(self) -> dict[str, tuple[int, ...]]:
        """The columns whose squares underflow, by view."""
        return {name: columns for one in self._alone for name, columns in one.underflowing.items()}

    def adjustment(self, index: int) -> Any:
        """Return what is subtracted from the rows of a view, and the factors of its columns."""
        return self._alone[index].adjustment(0)

    def centring_error(self, index: int | None = None) -> float:
        """Return the relative error of products because means were subtracted from products."""
        chosen = self._alone if index is None else [self._alone[index]]
        return max(one.centring_error() for one in chosen)

    def lost(self, index: int) -> float:
        """Return the rounding that confounds have left of the columns of a view; 0 without confounds."""
        return self.centring_error(index) if self.adjustment(index).lost > 1.0 else 0.0
