"""Functions k(·, u) of one view at its rows, and gradients of objectives of them, by products alone.

Problem: everything here is a function of T = XU, n x m, and the gradient in U is one product with Xᵀ. So X may be
sparse, in a file, streamed, or known by its products; kernels of distances also need the squared lengths of the rows.
Method: variates are P k(X, U) with P = (I − QQᵀ)H: centred, and orthogonal to the variates Q that were found before.
With the derivative S of an objective by the variates, the derivative by k(X, U) is P S. Two sweeps: forward and
adjoint. The value maximised is the objective times |P k|/|H k| of both views, see
`linspec_kernel.preimage.certificate`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from linspec.arrays import Array, Home, HostArray, all_finite, random_generator, to_host
from linspec.errors import MissingCapability, NonFiniteData
from linspec.features import drawn_rows
from linspec.kernels import SAMPLE, Kernel, not_finite, resolved
from linspec.operators import LinearOperator, SparseOperator, as_operator, uncounted
from linspec_kernel.moments import KernelMatrices
from linspec_kernel.preimage.bounds import Bound
from linspec_kernel.preimage.objectives import Objective

ROUNDING = 100.0
"""Multiple of unit roundoff, relative to the values of a function, below which variates are rounding."""

ROWS_BYTES = 8 << 20
"""Bytes of rows that are read at once."""


@dataclass(frozen=True)
class PointFunctions:
    """Functions k(·, uⱼ) of one view at its rows.

    Attributes
    ----------
    points : numpy.ndarray of shape (p, m)
        U.
    products, values, variates : array of shape (n, m)
        XU, k(X, U) and P k(X, U). Variates at the level of rounding are set to zero.
    """

    points: HostArray
    products: Array
    values: Array
    variates: Array

    def columns(self, index: HostArray, home: Home) -> PointFunctions:
        """Functions at the positions `index`."""
        if len(index) == self.points.shape[1] and (np.diff(index) == 1).all():
            return self
        at = home.xp.asarray(index, device=home.device)
        taken = (home.xp.take(V, at, axis=1) for V in (self.products, self.values, self.variates))
        return PointFunctions(self.points[:, index], *taken)


class PreimageView:
    """One view: its rows, its kernel, its bound, and the earlier variates that it removes.

    Parameters
    ----------
    A : LinearOperator of shape (n, p)
    kernel : Kernel
    bound : Bound
    center : bool
    name : str
        Name in messages.

    Attributes
    ----------
    kernel : Kernel
        Has all its parameters once `settle` was called.
    home : Home
        Home of float64 blocks with n rows.
    squares : array of shape (n,) or None
        Squared lengths of the rows, which a kernel of distances needs besides products.
    basis : array of shape (n, r) or None
        Orthonormal basis of the removed variates.
    largest : float
        Largest length of a function so far.
    """

    def __init__(self, A: LinearOperator, kernel: Kernel, bound: Bound, center: bool, name: str) -> None:
        self.home = A.home.blocks
        self.needs_squares = kernel.statistics(np.zeros((1, 1))) is not None
        if self.needs_squares and self.home == A.home:  # distances are differences of products
            A = A.in_dtype(np.dtype(np.float64)) or A
        self.A, self.kernel, self.bound, self.center, self.name = A, kernel, bound, center, name
        self.basis: Array | None = None
        self.squares: Array | None = None
        self.largest = 0.0

    # ---- numbers that products do not provide -----------------------------------------------------

    def settle(self, rng: Any) -> Kernel:
        """Compute missing parameters of the kernel from some rows, and lengths of rows if the kernel needs these."""
        if not self.kernel.is_resolved:
            n = int(self.A.shape[0])
            index = drawn_rows(n, min(n, SAMPLE), random_generator(rng))
            rows = self.rows(index, "the numbers of a kernel that are not given")
            self.kernel = resolved(self.kernel, entries_of(rows), 0)  # of all these rows
        if self.needs_squares and self.squares is None:
            self.squares = self._lengths()
        return self.kernel

    def rows(self, index: HostArray, what: str) -> LinearOperator:
        """Rows with these increasing indices, in memory."""
        if self.A.access == "rows":
            return self.A.rows(index)
        if not self.A.streamed:
            raise MissingCapability(
                f"{what} are taken from rows of {self.name}, which is known by its products only. Give the kernel its "
                "numbers, or pass an array, a sparse matrix or a file."
            )
        first, found = 0, []
        for block in self.A.blocks():
            inside = index[(index >= first) & (index < first + block.shape[0])] - first
            if len(inside):
                found.append(entries_of(block.rows(inside)))
            first += int(block.shape[0])
        stack: Any = scipy.sparse.vstack if scipy.sparse.issparse(found[0]) else self.home.xp.concat
        return as_operator(stack(found), self.name)

    def _lengths(self) -> Array:
        if self.A.access == "products":
            raise MissingCapability(
                f"the kernel {self.kernel} needs the lengths of the rows of {self.name}, which is known by its "
                "products only. Pass an array, a sparse matrix or a file, or take a linear or polynomial kernel."
            )
        found = [self.kernel.statistics(entries_of(part)) for part in row_parts(self.A)]
        lengths = np.concatenate([np.asarray(to_host(part), dtype=np.float64) for part in found])
        if not np.isfinite(lengths).all():
            raise not_finite(self.A, self.name)
        return self.home.place(lengths)

    # ---- functions and gradients ----------------------------------------------------------------

    def at(self, U: HostArray) -> PointFunctions:
        """Functions of points: one product with X."""
        P = self.home.place(U)
        T = self.home.place(self.A.matmat(P))
        if not all_finite(T):
            raise not_finite(self.A, self.name)
        with np.errstate(over="ignore", invalid="ignore"):
            K = self.kernel.along(T, self.squares, P)
        if not all_finite(K):
            raise NonFiniteData(
                f"values of the kernel of {self.name} overflow. Divide the rows by their size."
            )
        return PointFunctions(U, T, K, self.variates(K))

    def variates(self, K: Array) -> Array:
        """P k(X, U), set to zero where only rounding is left."""
        C = self.taken_out(K)
        sizes = self.home.column_norms(K)
        if (
            self.bound.kind == "ratio"
        ):  # points of one length: what is short beside other functions is rounding, too
            self.largest = max(self.largest, float(sizes.max(initial=0.0)))
            sizes = np.maximum(sizes, self.largest)
        live = self.home.column_norms(C) > ROUNDING * float(np.finfo(self.A.dtype).eps) * sizes
        if live.all():
            return C
        at = self.home.xp.asarray(live, device=self.home.device)[None, :]
        return self.home.xp.where(at, C, self.home.xp.zeros_like(C))

    def centred(self, V: Array) -> Array:
        """H V: V with its column means subtracted, if the view is centred."""
        return V - self.home.xp.mean(V, axis=0)[None, :] if self.center else V

    def taken_out(self, V: Array) -> Array:
        """P V: V centred, minus its projection on the removed variates."""
        V = self.centred(V)
        return V if self.basis is None else V - self.basis @ (self.basis.T @ V)

    def gradient(self, functions: PointFunctions, slopes: Array, *, freed: bool = True) -> HostArray:
        """Gradient of a value in the points, from its derivatives with respect to the variates: one product with Xᵀ.

        With ``freed=False``, `slopes` are the derivatives by Hk(X, U), before earlier variates are removed.
        """
        S = self.taken_out(slopes) if freed else self.centred(slopes)
        sizes = self.home.column_norms(S)
        units = np.where(sizes > 0, sizes, 1.0)
        S = S / self.home.place(units)[None, :]  # float32 holds it, whatever the units of the data
        U = self.home.place(functions.points)
        G = self.kernel.pullback(self.A, functions.products, functions.values, S, U)
        return np.asarray(to_host(G), dtype=np.float64) * units

    def take_out(self, variate: Array) -> None:
        """Remove this variate (n x 1, of length above 0) from all later ones."""
        column = variate / self.home.norm(variate)
        self.basis = column if self.basis is None else self.home.concat([self.basis, column])

    @property
    def removed(self) -> tuple[Array | None, float]:
        """Basis of the removed variates and the largest length so far, for a checkpoint."""
        return self.basis, self.largest

    @removed.setter
    def removed(self, before: tuple[Array | None, float]) -> None:
        self.basis, self.largest = before

    def on(self, index: HostArray) -> PreimageView:
        """View of the rows `index` in memory, with no variates removed."""
        found = PreimageView(self.rows(index, "some rows"), self.kernel, self.bound, self.center, self.name)
        if self.squares is not None:
            found.squares = self.home.xp.take(
                self.squares, self.home.xp.asarray(index, device=self.home.device), axis=0
            )
        return found


def shared(
    objective: Objective,
    views: tuple[PreimageView, PreimageView],
    values: tuple[Array, Array],
    variates: tuple[Array, Array],
) -> HostArray:
    """Objective of the variates, times the shares of their functions that remain: the value that is maximised.

    Parameters
    ----------
    objective : Objective
    views : pair of PreimageView
    values, variates : pair of arrays of shape (n, m)
        k(X, U) and P k(X, U) of both views.

    Returns
    -------
    numpy.ndarray of shape (m,)
    """
    home = views[0].home
    found = objective.values(*variates, home)
    for view, K, P in zip(views, values, variates, strict=True):
        found = found * share(view, K, P)
    return found


def share(view: PreimageView, K: Array, P: Array) -> HostArray:
    """|P k| / |H k| of each column: 1 before any variate is removed, 0 for functions at the level of rounding."""
    if view.basis is None:
        return np.ones(int(P.shape[1]))
    rest, whole = view.home.column_norms(P), view.home.column_norms(view.centred(K))
    shares: HostArray = np.divide(rest, whole, out=np.zeros(len(rest)), where=whole > 0)
    return shares


def shared_slopes(
    objective: Objective,
    views: tuple[PreimageView, PreimageView],
    values: tuple[Array, Array],
    variates: tuple[Array, Array],
) -> tuple[Array, Array]:
    """Derivatives of `shared` with respect to Hk(X, U), for `PreimageView.gradient` with ``freed=False``."""
    home = views[0].home
    S = objective.slopes(*variates, home)
    if all(view.basis is None for view in views):
        x, y = (view.taken_out(slope) for view, slope in zip(views, S, strict=True))
        return x, y
    shares = [share(view, K, P) for view, K, P in zip(views, values, variates, strict=True)]
    both = shares[0] * shares[1]
    total = objective.values(*variates, home) * both
    found = []
    for view, K, P, slope in zip(views, values, variates, S, strict=True):
        C = view.centred(K)
        rest, whole = (
            np.divide(total, sizes, out=np.zeros(len(total)), where=sizes > 0)
            for sizes in (home.column_norms(P) ** 2, home.column_norms(C) ** 2)
        )
        a, b, c = (home.place(numbers)[None, :] for numbers in (both, rest, whole))
        found.append(view.taken_out(slope) * a + P * b - C * c)
    return found[0], found[1]


def entries_of(rows: LinearOperator) -> Any:
    """Entries of rows in memory in float64, so that their squares do not overflow: an array or a SciPy matrix."""
    bare, _ = uncounted(rows)
    if isinstance(bare, SparseOperator):
        return bare.matrix.astype(np.float64, copy=False)
    return rows.home.blocks.place(rows.dense())


def row_parts(A: LinearOperator) -> Iterator[LinearOperator]:
    """All rows, in parts of some megabytes."""
    if A.streamed:
        yield from A.blocks()
        return
    n, size = int(A.shape[0]), max(ROWS_BYTES // max(A.row_bytes, 1), 1)
    for start in range(0, n, size):
        yield A.rows(slice(start, min(start + size, n)))
        A.release()


class PreimageMoments(KernelMatrices):
    """Views X and Y, as the moments of `PreimageCCA`."""

    def view(self, problem: Any, name: str, form: str) -> PreimageView:
        """One view of the problem."""
        bound = problem.bounds[0 if name == "X" else 1]
        return PreimageView(getattr(problem, name), problem.kernels[name], bound, problem.center, name)
