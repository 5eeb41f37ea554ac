"""Block conjugate gradients on the normal equations, for a whole path of ridges.

Problem: (AᵀA + rI) X = AᵀB for m right-hand sides at once, and for one or several ridges r.
Method: with M = AᵀA + rI,

    P = R = AᵀB - M X₀                                              (1)
    X ← X + P α,  R₊ = R - M P α,  α = (PᵀMP)⁻¹ RᵀR
    P ← R₊ + P (RᵀR)⁻¹ R₊ᵀR₊,  R ← R₊                               (2)
    X₀ + X, for a sum X that begins at 0                            (3)

    (S M S) Y = S AᵀB,  X = S Y,  Sᵢᵢ = (aᵢᵀaᵢ + r)^(−1/2)          (4)

All right-hand sides search the space that they span together, with fewer readings of the data than column by column;
for one column (2) is the iteration of Hestenes & Stiefel (1952). All ridges share its products. The form of (2) that
stays stable where directions become dependent is in `linspec.linalg.conjugate_gradients`. From X₀ = 0 at ridge 0 it
leads to the solution of least norm.
Source: O'Leary 1980, doi:10.1016/0024-3795(80)90247-5, in the form of Dubrulle 2001, Electron. Trans. Numer. Anal. 12,
and for the other ridges of Futamura, Sakurai, Furuya & Imakura 2013, doi:10.1007/978-3-642-38718-0_4.
Where we differ: (a) From a start X₀, each ridge solves for the correction of its X₀, from its residuals: the block has
the residuals of all ridges. (b) Random columns W beside AᵀB widen the space as a Nyström preconditioner of their number
would, without one (Chen, Huber, Lin & Zaid 2025, arXiv:2501.18717): fewer steps, with more arithmetic in each. (c) Of
many columns at ridge 0, some right-hand sides Mz with known z are solved too; what is left of z shows the directions
that the steps have not met (`linspec.certificates`). (d) Where the certificate has computed a larger residual, or
where no step shortens it any more, the iteration begins again at its iterate, with residuals that are computed; it ends
where that no longer halves them. (e) For one ridge that is weak beside columns of unequal length, in no fewer rows than
columns, (2) runs in the variables of (4), with columns of length one: S² is Jacobi's preconditioner, within p of the
best diagonal one (van der Sluis 1969, doi:10.1007/BF02165096). On fewer rows and for strong ridges it took more steps.

How many random columns beside the right-hand sides take the least time, from what a pass over the data costs.

Problem: a wider block takes fewer passes, and more products in each (Chen, Huber, Lin & Zaid 2025, arXiv:2501.18717).
Method: with b columns in a block, the passes fall about like b^-SAVED (measured). So all of them take a time
proportional to

    T(b) = b^-SAVED (R + a b),  least at  b = SAVED / (1 - SAVED) · R / a,

where a pass takes R seconds before its first product, and each column takes a seconds (`linspec.cost`). The best block
is as wide as makes its products take a third of R. R is small for rows in memory and for mapped files, so nothing is
gained there. It is large where rows are decoded or computed anew for each pass, and where workers must be waited for.
Where we differ from the minimum of T: the work on blocks between passes grows like b², and is counted, too; and a small
gain is not taken, because SAVED is not that of the data at hand. R is never timed: that would give each run other bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

import linspec as ls
from linspec import cost, form_option, option
from linspec.arrays import Array
from linspec.cost import Estimate, Sizes
from linspec.iteration import Context, Iterate, worst
from linspec.linalg import cg_steps, driven
from linspec.rows import Moments
from linspec_lstsq.normal_system import ByProducts, NormalEquations

SAVED = 1 / 4
"""Passes fall like the number of columns in a block to the power -SAVED. Measured between 0.1 and 0.25 on counts of
words, between 0.2 and 1.4 on images and on columns of falling variance, and about 0 on columns of equal variance or
where a large ridge leaves ten passes."""

MOST = 40
"""The largest number of random columns. The first twenty save most passes."""

WORTH = 0.85
"""Random columns are taken if the expected time is at most this share of that without them."""

PRODUCTS = 100
"""Number of passes whose time is compared."""


def auxiliary_columns(problem: ls.LeastSquares, moments: Moments) -> int:
    """Return the number of random columns with the least expected time of all passes; 0 if it gains little."""
    m, ridges = int(problem.B.shape[1]), len(problem.ridges)
    if problem.A.resident or moments.holds:
        return 0
    sizes = cost.sizes_of([problem.A], m)
    few, many = (cost.sweeps_estimate(replace(sizes, k=k), PRODUCTS) for k in (m, m + MOST))
    per_column = (many.seconds - few.seconds) / MOST
    between = (
        10.0 * (ridges - 1) * sizes.p * PRODUCTS / cost.DENSE_RATE
    )  # each further ridge has blocks of its own

    def seconds(columns: int) -> float:
        b = m + columns
        return float((b / m) ** -SAVED * (few.seconds + columns * per_column + between * b**2))

    fits = ridges * many.bytes <= sizes.free_memory() / 4
    best = min(range(MOST + 1), key=seconds) if fits else 0
    return best if seconds(best) <= WORTH * seconds(0) else 0


EXPECTED, EXPECTED_SPARSE = 200, 60
"""Expected number of iterations, with which "auto" compares a solve with other methods: on dense data, and on counts of
words, where preconditioners save few iterations (measured)."""


WEAK, UNEQUAL = 0.1, 10.0
"""Ridges below this share of the mean square of a column are weak, and squares with this quotient unequal."""


@dataclass(frozen=True, kw_only=True)
class ConjugateGradients(ByProducts):
    """Block conjugate gradients (O'Leary 1980, doi:10.1016/0024-3795(80)90247-5; Dubrulle 2001)."""

    form: str = form_option()
    random_columns: int | None = option(
        None,
        "random columns in each block, for fewer passes; none: by what a pass costs, 0 in memory",
        kind=int,
        at_least=0,
    )

    def iterate(
        self, problem: ls.LeastSquares, moments: Moments, context: Context, start: Any
    ) -> Iterator[Iterate]:
        """Yield the iterates of all ridges."""
        system = NormalEquations(problem, moments, self.form)
        least = min(problem.ridges)
        wide = auxiliary_columns(problem, moments) if self.random_columns is None else self.random_columns
        W = system.asarray.asarray(context.rng.standard_normal((system.p, wide)))
        Z = system.plant(context)
        x0 = None if start is None else system.asarray.asarray(start["x"])
        before = math.inf
        while True:
            R, AtAZ = system.begin(x0, Z)  # (1)
            columns = system.columns(R.shape[1], Z.shape[1])
            tol = context.tol
            known = np.flatnonzero(np.concatenate(columns) < R.shape[1])  # the others are planted
            block = system.asarray.concat([R, AtAZ + least * Z, W])
            steps = cg_steps(
                block, problem.ridges, columns, self._inverse(problem, moments), enough=context.tol / 2
            )
            for iterations, step in enumerate(driven(moments.gram_product, steps)):  # (2)
                X = step.X()
                residual = worst(step.lengths[known], system.scales)
                yield Iterate(residual, partial(system.answer, X, x0, Z))  # (3)
                if iterations == 0 and residual > before / 2:
                    return
                before = before if iterations else residual
                if context.tol < tol:
                    break
            answer = system.answer(X, x0, Z)
            x0, Z = answer["x"], -answer.get("planted", -Z)

    def _inverse(self, problem: ls.LeastSquares, moments: Moments) -> Callable[[Array], Array] | None:
        """V → S² V for S of (4), where steps with it are fewer; None elsewhere."""
        A, (r, *more), squares = moments.operators[0], problem.ridges, moments.fitted[0].squares
        d = squares + r
        weak = 0 < r < WEAK * squares.mean() and d.max() > UNEQUAL * d.min()
        if more or not weak or A.shape[0] < A.shape[1]:
            return None
        return A.device.blocks.asarray(1.0 / d)[:, None].__mul__

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate:
        """Estimated cost of one or two hundred products."""
        return cost.sweeps_estimate(sizes, EXPECTED_SPARSE if sizes.scattered else EXPECTED)
