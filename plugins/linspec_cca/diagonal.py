"""D-CCA: alternating steps with the diagonals of the Gram matrices.

Problem: CCA for views whose columns hardly overlap. For one-hot rows the Gram matrices are diagonal, and whitening is a
scaling.
Method: the power iteration of "als", with diagonals Dx, Dy of the Gram matrices in place of the projections,

    Φ ← Dx⁻¹ C Ψ,   orthonormal in Dx,
    Ψ ← Dy⁻¹ CᵀΦ,   orthonormal in Dy.

Its limit is the truncated SVD of Dx^(-1/2) C Dy^(-1/2).
Source: Lu 2015 (thesis), section 3.3.1.
Where we differ: as in "als", columns beyond k are carried, and each step makes the small SVD. The iteration stops at
its own limit. The answer is then judged as CCA. So for views that overlap, the residual is large and the status is
APPROXIMATE. Centring couples all columns by a matrix of rank one; a warning says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from linspec import IterativeSolver, Run, Status, form_option, limit_option, option, part, tol_option
from linspec.arrays import Array, reciprocal, to_host
from linspec.errors import AccuracyWarning, warn
from linspec.families.cca import KEPT, PairsIterate, block_width, first_pairs
from linspec.moments import Pairs

MATERIAL = 1e-6
"""Centring spoils a diagonal Gram matrix if means make up more than this fraction of a column's sum of squares."""

TEXT = "d-cca reached its own limit, which is the exact answer only if the Gram matrices are diagonal."


class LeadingPairs(PairsIterate):
    """Pairs of blocks whose first k columns alone are the answer."""

    def answer(self) -> dict[str, Any]:
        """The leading columns, with evidence for the certificate."""
        return {**super().answer(), **self.weights()}

    def notes(self) -> list[tuple[Status | None, str]]:
        """A note that the limit is exact only for diagonal Gram matrices."""
        return [(Status.APPROXIMATE, TEXT)]


@dataclass(frozen=True, kw_only=True)
class DiagonalCCA(IterativeSolver):
    """Alternating steps with the diagonals of the Gram matrices (Lu 2015, section 3.3.1)."""

    normalizer: Any = part("cholesky-qr", "normalizer of the blocks", kind="normalizer")
    test_matrix: Any = part("gaussian", "random start", kind="test-matrix")
    oversample: int = option(20, "columns carried beyond k", at_least=0)
    tol: float | None = tol_option()
    max_iterations: int = limit_option(1000)
    form: str = form_option()

    kept: ClassVar = (LeadingPairs, *KEPT)
    resumes_after_law: ClassVar = False

    def iterates(self, problem: Any, run: Run, state: PairsIterate | None = None) -> Iterator[PairsIterate]:
        """Canonical pairs in the metrics of the diagonals, after each iteration."""
        width = block_width(problem, self.oversample)
        moments = run.moments(self.form, expect=(200, width))
        normalizer = run.part(self.normalizer)
        if state is None:
            pairs = first_pairs(problem, run, moments, run.part(self.test_matrix), width, diagonal=True)
            _warn_of_means(moments, pairs.metrics.diagonals)
            D = [d[:, None] for d in pairs.metrics.diagonals]
            pairs = in_diagonals(in_diagonals(pairs, 0, D), 1, D).normalized(normalizer).canonical()
        else:
            pairs = state.pairs
            D = [d[:, None] for d in pairs.metrics.diagonals]
        inverses = [reciprocal(d) for d in D]
        while True:
            yield LeadingPairs(pairs, problem.k)
            V = inverses[0] * pairs.image(0)  # Φ ← Dx⁻¹ C Ψ, orthonormal in Dx
            pairs = in_diagonals(pairs.renewed(moments, V, None), 0, D).normalized(normalizer, new=(0,))
            V = inverses[1] * pairs.image(1)  # Ψ ← Dy⁻¹ CᵀΦ, orthonormal in Dy
            pairs = in_diagonals(pairs.renewed(moments, None, V), 1, D).normalized(normalizer, new=(1,))
            pairs = pairs.canonical()


def in_diagonals(pairs: Pairs, i: int, D: Sequence[Array]) -> Pairs:
    """Return the pairs with D V in place of S V for view i."""
    return pairs.replaced(i, replace(pairs[i], SV=D[i] * pairs[i].V))


def _warn_of_means(moments: Any, diagonals: Sequence[Array]) -> None:
    known = moments.columns.adjustment(0)
    if not known.model.center or not known.model.is_plain or known.scale:
        return
    for name, mean, d in zip("XY", moments.columns.means(), diagonals, strict=True):
        of_mean = to_host(mean) ** 2 * moments.n
        share = float((of_mean / (of_mean + to_host(d) + 1e-300)).max(initial=0.0))
        if share > MATERIAL:
            warn(
                f"d-cca treats the Gram matrix of {name} as diagonal, but centring subtracts a matrix of rank "
                f"one that couples all columns (up to {share:.2g} of a column). Pass center=False, or choose "
                '"als" or "gram".',
                AccuracyWarning,
            )
