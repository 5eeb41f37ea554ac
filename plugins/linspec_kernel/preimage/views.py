"""Functions k(·, u) of one view at its rows, and gradients of objectives of them, by products alone.

Problem: everything here is a function of T = XU, n x m, and the gradient in U is one product with Xᵀ. So X may be
sparse, in a file, streamed, or known by its products; kernels of distances also need the squared lengths of the rows.
Method: variates are P k(X, U) with P = (I − QQᵀ)H: centred, and orthogonal to the variates Q that were found before.
With the derivative S of an objective by the variates, the derivative by k(X, U) is P S. Two passes: forward and
adjoint. The value maximised is the objective times |P k|/|H k| of both views, see
`linspec_kernel.preimage.certificate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from linspec import as_operator
from linspec.arrays import Array, Device, HostArray, all_finite, reciprocal, to_host
from linspec.errors import MissingCapability, NonFiniteData
from linspec.features import drawn_rows
from linspec.kernels import SAMPLE, Kernel, resolved
from linspec.rows import Moments
from linspec_kernel.preimage.bounds import Bound
from linspec_kernel.preimage.objectives import Objective

ROUNDING = 100.0
"""Multiple of unit roundoff, relative to the values of a function, below which variates are rounding."""


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

    def columns(self, index: HostArray, device: Device) -> PointFunctions:
        """Functions at the positions `index`."""
        if len(index) == self.points.shape[1] and (np.diff(index) == 1).all():
            return self
        at = device.xp.asarray(index, device=device.native)
        taken = (device.xp.take(V, at, axis=1) for V in (self.products, self.values, self.variates))
        return PointFunctions(self.points[:, index], *taken)


class PreimageView:
    """One view: its rows, its kernel, its bound, and the earlier variates that it removes.

    Parameters
    ----------
    rows : Moments
        Of all views, not preprocessed.
    i : int
        The number of the view.
    kernel : Kernel
    bound : Bound
    center : bool

    Attributes
    ----------
    kernel : Kernel
        Has all its parameters once `settle` was called.
    device : Device
        Device of float64 blocks with n rows.
    basis : array of shape (n, r)
        Orthonormal basis of the removed variates.
    largest : float
        Largest length of a function so far.
    """

    def __init__(self, rows: Moments, i: int, kernel: Kernel, bound: Bound, center: bool) -> None:
        self.rows, self.i, self.A, self.name = rows, i, rows.operators[i], rows.names[i]
        self.kernel, self.bound, self.center = kernel, bound, center
        self.of_distances = kernel.statistics(np.zeros((1, 1))) is not None
        if not self.A.readable and (self.of_distances or not kernel.is_resolved):
            raise MissingCapability(
                f"the kernel {kernel} needs rows of {self.name}, which is known by its products only. Pass an array, a "
                "sparse matrix or a file, or take a linear or polynomial kernel with all its numbers."
            )
        if self.of_distances:  # which are differences of products
            self.A.widen()
        self.device, self.largest = self.A.device.blocks, 0.0
        self.clear()

    # ---- numbers that products do not provide -----------------------------------------------------

    def fit(self, rng: np.random.Generator) -> None:
        """Compute missing parameters of the kernel from some rows."""
        if not self.kernel.is_resolved:
            n = int(self.A.shape[0])
            numbers = drawn_rows(n, min(n, SAMPLE), rng)
            self.kernel = resolved(self.kernel, self.entries(numbers), 0)  # of all these rows

    def entries(self, numbers: HostArray) -> Any:
        """Rows with these increasing numbers, in float64 so that their squares do not overflow."""
        parts = [
            block.matrix.astype(np.float64) if hasattr(block, "matrix") else block.dense()
            for block in self.rows.some_rows(numbers, self.i)
        ]
        sparse = scipy.sparse.issparse(parts[0])
        if not all(all_finite(part.data if sparse else part) for part in parts):
            self.rows.fit()  # names the entry
        stack: Any = scipy.sparse.vstack if sparse else self.device.xp.concat
        return parts[0] if len(parts) == 1 else stack(parts)

    @cached_property
    def squares(self) -> Array | None:
        """Squared lengths of the rows, which a kernel of distances needs besides products."""
        return self.rows.row_squares(self.i) if self.of_distances else None

    # ---- functions and gradients ----------------------------------------------------------------

    def at(self, U: HostArray) -> PointFunctions:
        """Functions of points: one product with X."""
        P = self.device.asarray(U)
        T = self.device.asarray(self.rows.images(P, self.i))
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
        sizes = self.device.column_norms(K)
        if (
            self.bound.kind == "ratio"
        ):  # points of one length: what is short beside other functions is rounding, too
            self.largest = max(self.largest, float(sizes.max(initial=0.0)))
            sizes = np.maximum(sizes, self.largest)
        live = self.device.column_norms(C) > ROUNDING * float(np.finfo(self.A.dtype).eps) * sizes
        if live.all():
            return C
        at = self.device.xp.asarray(live, device=self.device.native)
        return self.device.xp.where(at, C, self.device.xp.zeros_like(C))

    def centred(self, V: Array) -> Array:
        """H V: V with its column means subtracted, if the view is centred."""
        return V - self.device.xp.mean(V, axis=0) if self.center else V

    def taken_out(self, V: Array) -> Array:
        """P V: V centred, minus its projection on the removed variates."""
        V = self.centred(V)
        return V - self.basis @ (self.basis.T @ V) if self.basis.shape[1] else V

    def share(self, K: Array, P: Array) -> HostArray:
        """|P k| / |H k| of each column: 1 before any variate is removed, 0 for functions at the level of rounding."""
        if not self.basis.shape[1]:
            return np.ones(P.shape[1])
        rest, whole = (self.device.column_norms(V) for V in (P, self.centred(K)))
        return rest * reciprocal(whole)

    def gradient(self, functions: PointFunctions, S: Array) -> HostArray:
        """Gradient of a value in the points, from its derivatives S by Hk(X, U): one product with Xᵀ."""
        S = self.centred(S)
        sizes = self.device.column_norms(S)
        units = np.where(sizes > 0, sizes, 1.0)
        S = S / self.device.asarray(units)  # float32 holds it, whatever the units of the data
        U = self.device.asarray(functions.points)
        A: Any = self.rows.operator(self.i)
        G = self.kernel.pullback(A, functions.products, functions.values, S, U)
        return np.asarray(to_host(G), dtype=np.float64) * units

    def distances(self, U: HostArray, G: HostArray) -> HostArray:
        """|Proj(u + b²g) − u| / b for each column u of U and g of G."""
        b = self.bound.radius
        return np.linalg.norm(self.bound.nearest(U + b * b * G) - U, axis=0) / b

    def clear(self) -> None:
        """Remove no variates."""
        self.basis = self.device.zeros((int(self.A.shape[0]), 0))

    def take_out(self, variate: Array) -> None:
        """Remove this variate (n x 1) from all later ones, unless it is 0."""
        length = self.device.norm(variate)
        if length > 0:
            self.basis = self.device.concat([self.basis, variate / length])


Sides = tuple[PointFunctions, PointFunctions]


class PreimageMoments:
    """Views X and Y, as the moments of `PreimageCCA`.

    Parameters
    ----------
    rows : Moments
        Of both views.
    problem : PreimageCCA
    kernels : sequence of Kernel

    Attributes
    ----------
    views : pair of PreimageView
    device : Device
        Device of float64 blocks.
    """

    def __init__(self, rows: Moments, problem: Any, kernels: Any) -> None:
        self.rows, self.problem = rows, problem
        self.names, self.operators = rows.names, rows.operators
        x, y = (
            PreimageView(rows, i, kernel, bound, problem.center)
            for i, (kernel, bound) in enumerate(zip(kernels, problem.bounds, strict=True))
        )
        self.views, self.device = (x, y), x.device

    # ---- points of both views, those of Y below those of X ---------------------------------------

    def split(self, W: HostArray) -> tuple[HostArray, HostArray]:
        """Points of X, and of Y."""
        p = self.operators[0].shape[1]
        return W[:p], W[p:]

    def nearest(self, W: HostArray) -> HostArray:
        """Nearest points of the sets."""
        return np.vstack([view.bound.nearest(U) for view, U in zip(self.views, self.split(W), strict=True)])

    def at(self, W: HostArray) -> Sides:
        """Functions of points: one product with each view."""
        x, y = (view.at(U) for view, U in zip(self.views, self.split(W), strict=True))
        return x, y

    def gradients(self, sides: Sides, slopes: Sequence[Array]) -> HostArray:
        """Gradients in the points from slopes by the values: one product with each transpose."""
        parts = zip(self.views, sides, slopes, strict=True)
        return np.vstack([view.gradient(side, S) for view, side, S in parts])

    def shared(self, objective: Objective, sides: Sides) -> HostArray:
        """Objective of the variates, times the shares of their functions that remain: the value that is maximised."""
        values = objective.values(sides[0].variates, sides[1].variates, self.device)
        for view, side in zip(self.views, sides, strict=True):
            values = values * view.share(side.values, side.variates)
        return values

    def shared_slopes(self, objective: Objective, sides: Sides) -> tuple[Array, Array]:
        """Derivatives of `shared` with respect to Hk(X, U), for `gradients`."""
        device, views, (P, Q) = self.device, self.views, (side.variates for side in sides)
        slopes = objective.slopes(P, Q, device)
        x, y = (view.taken_out(slope) for view, slope in zip(views, slopes, strict=True))
        if not any(view.basis.shape[1] for view in views):
            return x, y
        shares = (view.share(side.values, side.variates) for view, side in zip(views, sides, strict=True))
        both = np.prod([*shares], axis=0)
        total = objective.values(P, Q, device) * both
        scale = device.asarray(both)
        shared = []
        for view, side, slope in zip(views, sides, (x, y), strict=True):
            rest, whole = side.variates, view.centred(side.values)
            a, b = (device.asarray(total * reciprocal(device.column_norms(V) ** 2)) for V in (rest, whole))
            shared.append(slope * scale + rest * a - whole * b)
        return shared[0], shared[1]

    def fit(self, rng: np.random.Generator) -> None:
        """Complete the kernels."""
        for view in self.views:
            view.fit(rng)

    def on(self, numbers: HostArray) -> PreimageMoments:
        """The rows of these increasing numbers in memory, with no variates removed."""
        entries = {view.name: as_operator(view.entries(numbers), view.name) for view in self.views}
        rows = Moments([A.in_blocks(name) for name, A in entries.items()], None, None, self.names)
        return PreimageMoments(rows, self.problem, [view.kernel for view in self.views])
