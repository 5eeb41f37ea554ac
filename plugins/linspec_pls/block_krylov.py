"""Leading singular vectors of XᵀY without XᵀY: block Golub-Kahan iteration with products of both views.

Problem: the k leading singular triplets of C = XᵀY for views with so many columns that C cannot be held.
Method: from a random block Q, the bases of `two_sided_basis` grow by C Q = Xᵀ(Y Q) and CᵀP = Yᵀ(X P), two passes a
step, until the residual of the k leading triplets of UᵀCV is within the tolerance.
Source: Golub, Luk & Overton 1981, doi:10.1145/355945.355946; Musco & Musco 2015, arXiv:1504.05477 (random block).
Where we differ: the block has ten columns more than there are triplets, and so finds all copies of a singular value.
No C is formed, and none is squared: values near the rounding of σ₁ keep their digits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from linspec import form_option, limit_option, option, part, tol_option
from linspec.arrays import Home
from linspec.cost import Estimate, Sizes, spare_bytes, sweeps_estimate
from linspec.families.cca import first_blocks
from linspec.iteration import Context, Iterate
from linspec.rows import Moments
from linspec.solving import Solver
from linspec_pls.two_sided_basis import TwoSidedBasis

OVERSAMPLING = 10
"""The number of columns of a block beyond k."""

BLOCKS, STEPS = 12, 8
"""The number of blocks in the bases before they are restarted, and the expected number of steps."""


@dataclass(frozen=True, kw_only=True)
class BlockKrylov(Solver):
    """Block Golub-Kahan iteration, restarted (Golub, Luk & Overton 1981)."""

    block: int | None = option(None, "columns of a block; none: ten more than triplets", kind=int, at_least=1)
    basis: int | None = option(None, "columns of a basis; none: as memory allows", kind=int, at_least=2)
    normalizer: Any = part("qr", "normalizer of the blocks", kind="normalizer")
    test_matrix: Any = part("gaussian", "the first block", kind="test-matrix")
    tol: float | None = tol_option()
    max_iterations: int = limit_option(200, "steps of two sweeps")
    form: str = form_option()

    def iterate(self, problem: Any, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the leading triplets of growing bases."""
        k, (p, q), home = problem.k, moments.widths, moments.operators[0].backend.blocks
        width = int(min(k + OVERSAMPLING if self.block is None else self.block, p, q))
        moments.expect(STEPS, width, self.form)
        first = home.place(first_blocks(moments, context, start, width, self.test_matrix)[1])
        basis = TwoSidedBasis.begin(self.normalizer.orthonormalize(first)[0], p, home)
        most = self._most(k, width, p + q, home)
        while not basis.is_invariant:
            if basis.columns + basis.next.shape[1] > most:
                basis = basis.restart(k + (most - width - k) // 3)
            basis = basis.grow(
                lambda Q: moments.products(None, Q, onto=(0,))[1][0],
                lambda P: home.place(moments.products(P, None, onto=(1,))[0][1]),
                self.normalizer,
            )
            yield Iterate(basis.residual(k), partial(basis.arrays, k), final=basis.is_invariant)

    def _most(self, k: int, width: int, length: int, home: Home) -> int:
        """The largest number of columns of a basis."""
        least = k + 2 * width
        if self.basis is not None:
            return max(self.basis, least)
        return max(min(BLOCKS * width, spare_bytes(home) // (16 * length)), least)

    @classmethod
    def estimate(cls, sizes: Sizes) -> Estimate | None:
        """Estimated cost of two sweeps a step, and the memory of the bases."""
        width = min(sizes.k + OVERSAMPLING, sizes.p, sizes.q)
        found = sweeps_estimate(replace(sizes, k=width), 2 * STEPS)
        return replace(found, bytes=found.bytes + 8.0 * BLOCKS * width * (sizes.p + sizes.q))
