"""Kernel ridge regression by block conjugate gradients with a Nyström preconditioner, without an n x n array.

Problem: (M + r I) B = T for all targets and ridges, where a product with the kernel matrix M costs n² p, and with a
block of columns it costs hardly more than with one column.
Method: a system for each ridge; one product with M serves the directions of all of them. With W = (LLᵀ + r I)⁻¹ and
A = M + r I, an iteration is

    Z = W R,   Z ← Z − P (AP)ᵀZ,   P ← Z T with Tᵀ(ZᵀAZ)T = I,   α = PᵀR,   B ← B + P α,   R ← R − AP α.

LLᵀ is the Nyström approximation of M from m landmarks, which randomly pivoted Cholesky draws. Dependent directions drop
out of T. Random columns widen narrow blocks: they deflate large eigenvalues of W A that the landmarks miss.
Source: Ji & Li 2017, BIT Numer. Math. 57, doi:10.1007/s10543-016-0631-z, algorithm 3 (breakdown-free block conjugate
gradients); Frangella, Tropp & Udell 2023, SIAM J. Matrix Anal. Appl. 44(2), doi:10.1137/21M1466244, and Díaz, Epperly,
Frangella, Tropp & Webber 2023, arXiv:2304.12465, for the preconditioner; Chen, Epperly, Tropp & Webber 2025, Comm. Pure
Appl. Math. 78(5), doi:10.1002/cpa.22234, for the landmarks.
Where we differ: outside the span of L the preconditioner is 1/r, not 1/(λ + r) with the least eigenvalue λ of LLᵀ.
Then almost all eigenvalues of W A are 1, and the few large ones cost an iteration each. Residuals are recomputed when
the law finds them larger than the recurrence says.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from linspec import IterativeSolver, Run, Status, limit_option, option, tol_option
from linspec.algebra import whitening
from linspec.arrays import Array, Home, HostArray, reciprocal
from linspec.cost import DENSE_RATE, FACTOR_RATE, Estimate, Sizes
from linspec.features import drawn_rows
from linspec_kernel.iterate import Functions
from linspec_kernel.nystrom import PER_ENTRY, Nystrom, default_landmarks, on_host

COLUMNS = 20
"""Least number of columns of the blocks of all ridges together; random columns are added to fewer."""

SHARE = 3 / 8
"""Share of the free memory that the columns of the landmarks may take in float64."""

PATIENCE = 100
"""The run ends as stagnated after this many iterations without a lower residual."""

GROWN = 1e6
"""Residuals this many times above the lowest come from rounding: a matrix with a ridge below it is not positive."""

GAIN = 0.5
"""A recomputed residual must fall by this factor after each recomputation, or only rounding is left."""

EXPECTED = 20
"""Expected iterations, for the estimate of costs."""


@dataclass(frozen=True)
class System:
    """Conjugate gradients for one ridge.

    Attributes
    ----------
    ridge : float
        r.
    B : array of shape (n, m)
        The solutions so far.
    R : array of shape (n, m + extra)
        Residuals: those of the targets, then those of random right-hand sides.
    P, AP : arrays of shape (n, b)
        The last directions, with PᵀAP = I, and A P.
    """

    ridge: float
    B: Array
    R: Array
    P: Array
    AP: Array

    def residuals(self, home: Home) -> HostArray:
        """Norms of the residuals of the targets."""
        return home.column_norms(self.R[:, : self.B.shape[1]])

    def directions(self, near: Nystrom) -> Array:
        """Preconditioned residuals that are conjugate to the last directions."""
        Z = near.solve(self.R, self.ridge)
        return Z - self.P @ (self.AP.T @ Z)

    def moved(self, Z: Array, MZ: Array, home: Home) -> System:
        """Minimise the error over B + Z C in the norm of A."""
        AZ = MZ + self.ridge * Z
        T = home.place(whitening(on_host(Z.T @ AZ)))
        P, AP = Z @ T, AZ @ T
        alpha = P.T @ self.R
        return System(self.ridge, self.B + P @ alpha[:, : self.B.shape[1]], self.R - AP @ alpha, P, AP)


@dataclass(frozen=True, kw_only=True)
class NystromPCG(IterativeSolver):
    """Block conjugate gradients, Nyström-preconditioned (Ji & Li 2017; Frangella, Tropp & Udell 2023)."""

    landmarks: int | None = option(
        None,
        "landmarks of the preconditioner; none: a fifth of the rows, from 200 to 1500, as memory allows",
        kind=int,
        at_least=2,
    )
    drawn: str = option(
        "rpcholesky",
        "how landmarks are drawn: by randomly pivoted Cholesky, or with equal probabilities",
        choices=("rpcholesky", "uniform"),
    )
    columns: int = option(COLUMNS, "least columns of a product; random ones are added", at_least=0)
    tol: float | None = tol_option(1e-8)
    max_iterations: int = limit_option(500)
    storage: str = option(
        "auto", "hold the kernel matrix, or form it tile by tile", choices=("auto", "held", "tiled")
    )

    kept: ClassVar = (Functions, System)

    def iterates(self, problem: Any, run: Run, state: Any = None) -> Iterator[Functions]:
        """Yield the solutions with the smallest residuals so far."""
        moments: Any = run.moments(self.storage)
        op, home, n = moments.op, moments.home, int(problem.X.shape[0])
        m = self._landmarks(n, home)
        (kernel,) = moments.settle(run.rng)
        T = moments.targets.unit
        if state is None:
            numbers = op.pivots(m, run.rng) if self.drawn == "rpcholesky" else drawn_rows(n, m, run.rng)
            systems = self._begun(problem, run, moments)
            best, lowest, since, replaced = [one.B for one in systems], math.inf, 0, math.inf
        else:
            numbers, systems, best = state["landmarks"], state["systems"], state["best"]
            lowest, since, replaced = state["lowest"], state["since"], state["replaced"]
        near = Nystrom(op, problem.ridges[0], numbers, shift=0.0)
        idle = False
        while True:
            norms = [one.residuals(home) for one in systems]
            residual = float(max(map(np.max, norms)))
            if residual < lowest:
                best, lowest, since = [one.B for one in systems], residual, 0
            yield Functions(
                lowest,
                lambda best=best: {"dual": home.concat(best), "kernel": kernel},  # type: ignore[misc]
                ending=Status.STAGNATED if idle else None,
                state={
                    "landmarks": numbers,
                    "systems": systems,
                    "best": best,
                    "lowest": lowest,
                    "since": since,
                    "replaced": replaced,
                },
            )
            active = [i for i, own in enumerate(norms) if np.max(own) > run.tol]
            diverged = not residual <= GROWN * lowest
            if (
                not active or since > PATIENCE or diverged
            ):  # the law has found the true residuals larger than these
                MB = split(op.product(home.concat(best))[0], [int(T.shape[1])] * len(best))
                random = systems[0].R[:, int(T.shape[1]) :]
                systems = begun(problem.ridges, best, MB, T, random, home)
                lowest = float(max(np.max(one.residuals(home)) for one in systems))
                idle, replaced, since = lowest > GAIN * replaced, lowest, 0
                continue
            Z = [systems[i].directions(near) for i in active]
            MZ = split(op.product(home.concat(Z))[0], [int(V.shape[1]) for V in Z])
            systems = list(systems)  # the state that was yielded keeps its own
            for i, V, MV in zip(active, Z, MZ, strict=True):
                systems[i] = systems[i].moved(V, MV, home)
            since = since + 1 if any(systems[i].P.shape[1] for i in active) else PATIENCE + 1

    def _landmarks(self, n: int, home: Home) -> int:
        """Number of landmarks: by default as many as are useful and as memory allows."""
        if self.landmarks is not None:
            return min(n, self.landmarks)
        return max(min(default_landmarks(n), int(SHARE * home.free_memory() / (8 * n))), min(n, 2))

    def _begun(self, problem: Any, run: Run, moments: Any) -> list[System]:
        """A system for each ridge, at zero or at the coefficients of an earlier answer."""
        home, targets = moments.home, moments.targets
        (n, m), ridges = targets.unit.shape, problem.ridges
        extra = max(-(-self.columns // len(ridges)) - m, 0)
        random = home.place(run.rng.standard_normal((n, extra)) / np.sqrt(n))
        random = moments.op.weighted(random)
        random = moments.op.centred(random)[0] if problem.center and extra else random
        zero = [home.zeros((n, m))] * len(ridges)
        if run.start is None:
            return begun(ridges, zero, zero, targets.unit, random, home)
        scale = home.place(np.tile(reciprocal(targets.lengths), len(ridges)))
        B = moments.unweighted(home.place(run.start["dual"])) * scale[None, :]
        B = moments.op.centred(B)[0] if problem.center else B
        widths = [m] * len(ridges)
        MB = moments.op.product(B)[0]
        return begun(ridges, split(B, widths), split(MB, widths), targets.unit, random, home)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of some passes by tiles, the preconditioner, and the algebra of the blocks."""
        n, width, m = float(sizes.n), max(sizes.k, COLUMNS), default_landmarks(sizes.n)
        each = n**2 * (sizes.p + 2 * width) / DENSE_RATE + n**2 * PER_ENTRY / 2
        each += 4 * n * width * (m + 3 * width) / DENSE_RATE
        once = 4 * n * m**2 / DENSE_RATE + 10 * float(m) ** 3 / FACTOR_RATE + n * m * PER_ENTRY
        return Estimate(
            EXPECTED * each + once,
            16 * n * m + 48 * n * width,
            f"{EXPECTED} passes over the kernel, {m} landmarks",
        )


def begun(
    ridges: Sequence[float], B: Sequence[Array], MB: Sequence[Array], T: Array, random: Array, home: Home
) -> list[System]:
    """Systems at given solutions B, whose residuals come from the products M B, without directions."""
    none = home.zeros((int(T.shape[0]), 0))
    return [
        System(r, b, home.concat([T - Mb - r * b, random]), none, none)
        for r, b, Mb in zip(ridges, B, MB, strict=True)
    ]


def split(V: Array, widths: Sequence[int]) -> list[Array]:
    """Cut a block into blocks of some columns each."""
    ends = np.cumsum(widths)
    return [V[:, end - width : end] for end, width in zip(ends.tolist(), widths, strict=True)]
