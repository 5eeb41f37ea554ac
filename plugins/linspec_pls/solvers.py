"""Leading singular vectors of XᵀY, from the cross product itself or by products with both views.

Problem: the k leading singular triplets of C = XᵀY, where p times q numbers can be held, and where they cannot.
Method: "gram" forms C in one pass, and a dense decomposition finds the leading triplets (Bookstein 1994).
"block-krylov" makes products CᵀC V = Yᵀ(X (Xᵀ(Y V))) from a random block V, two passes each, until the residuals of
the leading Ritz pairs θ, v of CᵀC are within the tolerance (`linspec.linalg.block_krylov`). With σ = √θ, u = C v / σ,

    ‖Cᵀu − σ v‖ = ‖CᵀC v − θ v‖ / σ.                                  (1)

Among values far below the largest, the u of (1) would not be orthogonal: C V = U Σ Wᵀ gives U and V W.      (2)

Source: Golub, Luk & Overton 1981, doi:10.1145/355945.355946; Musco & Musco 2015, arXiv:1504.05477 (random block).
Where we differ: the block has ten columns more than there are triplets, and so finds all copies of a singular value.
It squares C, so what lies below 1e-8 of the largest value may be missed; "gram" finds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from linspec import form_option, limit_option, option, part, tol_option
from linspec.arrays import Array, Device
from linspec.cost import DENSE_RATE, FACTOR_RATE, Estimate, Sizes, spare_bytes, sweeps_estimate
from linspec.families.cca import first_blocks
from linspec.iteration import Context, Iterate
from linspec.linalg import RitzPairs, block_krylov, leading_svd
from linspec.rows import Moments
from linspec.solving import Solver
from linspec_pls.problem import PLS


@dataclass(frozen=True, kw_only=True)
class Gram(Solver):
    """One pass and a dense decomposition (Bookstein 1994)."""

    def iterate(self, problem: PLS, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the answer."""
        if moments.once:
            moments.gram()  # which leaves the certificate nothing to read
        C = moments.cross()
        U, _, V = leading_svd(C, problem.k, Device.of(C))
        yield Iterate(0.0, partial(dict, x_weights=U, y_weights=V), final=True)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate:
        """Estimated cost of XᵀY, and of its decomposition on the shorter side."""
        entries = float(sizes.p) * sizes.q
        side = float(min(sizes.p, sizes.q))
        rate = DENSE_RATE / (4.0 if sizes.scattered else 1.0)
        seconds = sizes.shared(sizes.nnz * side / rate) + (2 * entries * side + 4 * side**3) / FACTOR_RATE
        return Estimate(seconds, 8.0 * (2 * entries + 4 * side**2), "XᵀY and its decomposition")


OVERSAMPLING = 10
"""The number of columns of a block beyond k."""

BLOCKS, STEPS = 12, 8
"""The number of blocks in the basis before it is restarted, and the expected number of steps."""

SMALL = 1e-8
"""Part of the largest singular value below which others are rounding of CᵀC."""


@dataclass(frozen=True, kw_only=True)
class BlockKrylov(Solver):
    """Rayleigh-Ritz on a block Krylov space of CᵀC, restarted (Golub, Luk & Overton 1981; Musco & Musco 2015)."""

    block: int | None = option(None, "columns of a block; none: ten more than triplets", kind=int, at_least=1)
    basis: int | None = option(None, "columns of a basis; none: as memory allows", kind=int, at_least=2)
    test_matrix: Any = part("gaussian", "the first block", kind="test-matrix")
    tol: float | None = tol_option()
    max_iterations: int = limit_option(200, "steps of two passes")
    form: str = form_option()

    def iterate(self, problem: PLS, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the leading triplets of a growing space."""
        k, (p, q), device = problem.k, moments.widths, moments.operators[1].device.blocks
        width = int(min(k + OVERSAMPLING if self.block is None else self.block, p, q))
        moments.expect(STEPS, width, self.form)
        moments.passes.reserved += 1  # for the left vectors
        first = device.asarray(first_blocks(moments, context, start, width, self.test_matrix)[1])
        held = min(BLOCKS * width, spare_bytes(device) // (16 * (p + q)))
        room = max(held if self.basis is None else self.basis, k + 2 * width)

        size = 0.0  # of C, whose squares might overflow

        def forward(V: Array) -> Array:
            """C V."""
            return moments.products(None, V, onto=(0,))[1][0]

        def product(V: Array) -> Array:
            """CᵀC V, in units of `size`."""
            nonlocal size
            P = forward(V)
            size = size or float(Device.of(P).column_norms(P).max(initial=0.0)) or 1.0
            return device.asarray(moments.products(P / size, None, onto=(1,))[0][1]) / size

        def triplets(pairs: RitzPairs) -> dict[str, Array]:
            """Left and right vectors, by the singular value decomposition of C V (2)."""
            V = pairs.vectors()
            CV = forward(V)
            U, _, turn = leading_svd(CV, k, Device.of(CV))
            return {"x_weights": U, "y_weights": V @ device.asarray(turn)}

        for pairs in block_krylov(product, first, k, context.rng, room=min(room, q)):
            sigma = np.sqrt(np.maximum(pairs.values, 0.0))
            largest = float(sigma.max(initial=0.0))
            if largest > 0:
                gaps = pairs.residuals / np.maximum(sigma, SMALL * largest)  # (1)
                residual = float(gaps.max()) / largest if len(sigma) == k else 1.0
            else:
                residual = 0.0
            yield Iterate(residual, partial(triplets, pairs))

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate:
        """Estimated cost of two passes a step, and the memory of the basis."""
        width = min(sizes.k + OVERSAMPLING, sizes.p, sizes.q)
        passes = sweeps_estimate(replace(sizes, k=width), 2 * STEPS)
        return replace(passes, bytes=passes.bytes + 8.0 * BLOCKS * width * (sizes.p + sizes.q))
