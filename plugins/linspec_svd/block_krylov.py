"""Block Krylov iteration: the accurate default.

Problem: the k leading singular triplets of A from few readings of the data.
Method: Rayleigh-Ritz on the block Krylov space of AᵀA from a random block Ω,

    span(Ω, AᵀA Ω, …, (AᵀA)^q Ω),

built by block Lanczos steps: one sweep multiplies the newest block, what the basis holds of the product is taken out
twice, the rest is made orthonormal and is the next block (Golub & Underwood 1977; Musco & Musco 2015,
arXiv:1504.05477; Tropp & Webber 2023, arXiv:2306.12418). With H = VᵀAᵀAV and the product's rest R behind the newest
block, a Ritz pair (θ, Vy) leaves the residual R y, y taken at that block: its norm costs nothing.
Where we differ: sparse data with few rows are taken from their side, where blocks are shorter: AAᵀ in place of AᵀA, two
sweeps a step, and the right vectors in one sweep at the end. The iteration stops by that residual, not after a number
of powers. Where the basis has become as wide as it may, it is begun again from its leading Ritz vectors and the newest
block (thick restart: Wu & Simon 2000, doi:10.1137/S0895479898334605). Rests at rounding are left out of the next block,
so that invariant spaces end the iteration instead of filling it with noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linspec import Run, Solution, Solver, option, part
from linspec.arrays import Array, Home, HostArray, reciprocal, to_host
from linspec.block_algebra import EPS
from linspec.cost import DENSE_RATE, Estimate, Sizes, sweeps_estimate
from linspec.operators import uncounted
from linspec_svd.ending import finished
from linspec_svd.triplets import orthonormal

OVERSAMPLING = 10
"""Columns of a block beyond the triplets wanted."""

BLOCKS = 12
"""Blocks that a basis holds before it is begun again."""


@dataclass(frozen=True, kw_only=True)
class BlockKrylov(Solver):
    """Rayleigh-Ritz on a block Krylov space (Musco & Musco 2015, arXiv:1504.05477)."""

    block: int | None = option(
        None, "columns of a block; none: ten more than the triplets wanted", kind=int, at_least=1
    )
    basis: int | None = option(
        None, "columns that are held at most; none: twelve blocks", kind=int, at_least=2
    )
    tol: float | None = option(None, "residual to stop at; none: 1e-6, more for float32", above=0)
    max_iterations: int = option(500, "sweeps at most", at_least=1)
    test_matrix: Any = part("gaussian", "the first block", kind="test-matrix")
    form: str = option("auto", "hold AᵀA or sweep the data", choices=("auto", "dense", "sparse", "implicit"))

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve an SVD problem."""
        k, (n, p) = problem.k, problem.A.shape
        b = min(self.block or k + OVERSAMPLING, n, p)
        moments = run.moments(self.form, expect=(20, b))
        wide = moments.wide
        after = float(wide or problem.left)  # the sweep that makes the vectors of the other side
        run.plan(setup=moments.setup_cost + after, iteration=2.0 if wide else moments.sweep_cost)
        side = n if wide else p
        Omega = moments.home.place(run.part(self.test_matrix).draw(side, b, run.rng))
        most = min(max(self.basis or BLOCKS * b, k + 2 * b), side)
        space = KrylovSpace(Omega, k, most, float(np.finfo(problem.A.dtype).eps), moments.home)
        multiply = (lambda U: moments.outer_matmat(U)[1]) if wide else moments.gram_matmat
        with run.reserving(after):
            while run.proceed(
                residual=space.residual, current=lambda: self._current(problem, space, wide=wide)
            ):
                space.widen(multiply)
        vectors, theta = space.ritz()
        return finished(problem, run, vectors, theta, of_rows=wide)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """A dozen sweeps with blocks a little wider than k, and a basis of as many blocks."""
        b = min(sizes.k + OVERSAMPLING, sizes.p)
        sweeps = sweeps_estimate(replace(sizes, k=b), BLOCKS)
        side = min(sizes.n, sizes.p) if sizes.scattered else sizes.p
        orthogonal = 4.0 * side * b * b * BLOCKS**2 / DENSE_RATE
        held = 8.0 * (side * b * (BLOCKS + 4) + sizes.k * (sizes.n + sizes.p))
        return Estimate(sweeps.seconds + orthogonal, held, f"{BLOCKS} sweeps with blocks of {b} columns")

    @staticmethod
    def _current(problem: Any, space: KrylovSpace, *, wide: bool) -> dict[str, Any]:
        """What a callback may look at; on the side of the rows it takes a product, which is not counted."""
        vectors, theta = space.ritz()
        S = np.sqrt(np.maximum(theta, 0.0))
        if wide:
            bare, _ = uncounted(problem.A)
            vectors = bare.rmatmat(vectors) * reciprocal(space.home.place(S))[None, :]
        return {"Vh": vectors.T, "S": S}


class KrylovSpace:
    """A basis V of the space, H = VᵀAᵀAV, and the newest block, which has not been multiplied yet.

    Parameters
    ----------
    Omega : array of shape (p, b)
    k : int
        Ritz pairs wanted.
    most : int
        Columns of V at most.
    unit : float
        The rounding of products.
    home : Home
    """

    def __init__(self, Omega: Array, k: int, most: int, unit: float, home: Home) -> None:
        self.k, self.most, self.unit, self.home = k, most, unit, home
        self.next = orthonormal(Omega, home)
        self._held = home.zeros(
            (Omega.shape[0], most)
        )  # allocated once: a growing copy would cost a sweep's time
        self._count = 0
        self.H = np.zeros((0, 0))
        self.theta, self.Y = np.zeros(0), np.zeros((0, 0))
        self.residual = 1.0

    @property
    def V(self) -> Array:
        """The basis."""
        return self._held[:, : self._count]

    def widen(self, multiply: Callable[[Array], Array]) -> None:
        """Multiply the newest block, take the product apart, and look at the Ritz pairs."""
        home, block = self.home, self.next
        if self._count + block.shape[1] > self.most:
            self._begin_again()
        W = multiply(block)
        self._held[:, self._count : self._count + block.shape[1]] = block
        self._count += block.shape[1]
        H = to_host(self.V.T @ W)
        R = W - self.V @ home.place(H)
        more = to_host(self.V.T @ R)
        R, H = R - self.V @ home.place(more), H + more
        self._border(H)
        self.theta, self.Y = _decreasing(self.H)
        G = to_host(R.T @ R)
        self.residual = self._worst(G)
        self.next = self._newest(R, G)
        if self.next.shape[1] == 0:  # the space is invariant: there is nothing else to be found in it
            self.residual = 0.0

    def _border(self, H: HostArray) -> None:
        """H with the rows and columns of the block that has been multiplied."""
        old, width = len(self.H), H.shape[1]
        full = np.zeros((old + width, old + width))
        full[:old, :old] = self.H
        full[:, old:], full[old:, :] = H, H.T
        full[old:, old:] = (H[old:] + H[old:].T) / 2
        self.H, self._width = full, width

    def _worst(self, G: HostArray) -> float:
        """max ‖AᵀA v − θ v‖ / θ₁ over the pairs wanted: the rest of the newest block, seen by each of them."""
        count = min(self.k, len(self.theta))
        y = self.Y[-self._width :, :count]
        squares = np.maximum(np.sum(y * (G @ y), axis=0), 0.0)
        largest = float(self.theta[0]) if len(self.theta) else 0.0
        if largest <= 0:
            return 0.0
        return float(np.sqrt(squares.max(initial=0.0))) / largest if len(self.theta) >= self.k else 1.0

    def _newest(self, R: Array, G: HostArray) -> Array:
        """An orthonormal basis of the rest, over what is more than rounding."""
        home = self.home
        values, vectors = np.linalg.eigh((G + G.T) / 2)
        noise = (10 * self.unit * max(float(self.theta[0]), 0.0)) ** 2 if len(self.theta) else 0.0
        keep = values > max(noise, len(values) * EPS * max(values[-1], 0.0)) if len(values) else values > 0
        Q = R @ home.place(vectors[:, keep] / np.sqrt(values[keep]))
        # What small rests have of the basis has been blown up with them.
        Q = Q - self.V @ (self.V.T @ Q)
        return orthonormal(Q, home)

    def _begin_again(self) -> None:
        """From the leading Ritz vectors: the newest block stays, and is orthogonal to them."""
        keep = max(self.most - 2 * self.next.shape[1], min(self.k + self.next.shape[1], self.most // 2))
        keep = min(max(keep // 2, self.k), len(self.theta))
        self._held[:, :keep] = self.V @ self.home.place(self.Y[:, :keep])
        self._count = keep
        self.H = np.diag(self.theta[:keep])

    def ritz(self) -> tuple[Array, HostArray]:
        """The vectors and values wanted."""
        return self.V @ self.home.place(self.Y[:, : self.k]), self.theta[: self.k]


def _decreasing(H: HostArray) -> tuple[HostArray, HostArray]:
    values, vectors = np.linalg.eigh(H)
    return values[::-1], vectors[:, ::-1]
