"""D-CCA: alternating steps with the diagonals of the Gram matrices.

Problem: CCA for views whose columns hardly overlap. For one-hot rows the Gram matrices are diagonal, and
whitening is a scaling.
Method: Lu (2015), section 3.3.1: the power iteration of "als" with diag(Sx)⁻¹ and diag(Sy)⁻¹ instead of the
projections. Its limit is the truncated SVD of diag(Sx)^(-1/2) C diag(Sy)^(-1/2).
Where we differ: as in "als", columns beyond k are carried, and each step makes the small SVD. The iteration
stops at its own limit. The answer is then judged as CCA. So for views that overlap, the residual is large and
the status is APPROXIMATE. Centring couples all columns by a matrix of rank one; a warning says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from linspec import Run, Solution, Solver, Status, form_option, limit_option, option, part, tol_option
from linspec.arrays import Array, reciprocal, to_host
from linspec.errors import AccuracyWarning, warn
from linspec_cca.pairs import Pair, block_width, start

MATERIAL = 1e-6
"""Centring spoils a diagonal Gram matrix if the mean has more than this fraction of a column's squares."""


@dataclass(frozen=True, kw_only=True)
class DiagonalCCA(Solver):
    """Alternating steps with the diagonals of the Gram matrices (Lu 2015, section 3.3.1)."""

    normalizer: Any = part("cholesky-qr", "normalizer of the blocks", kind="normalizer")
    test_matrix: Any = part("gaussian", "random start", kind="test-matrix")
    oversample: int = option(20, "columns carried beyond k", at_least=0)
    tol: float | None = tol_option()
    max_iterations: int = limit_option(1000)
    form: str = form_option()

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a CCA problem."""
        width = block_width(problem, self.oversample)
        moments = run.moments(self.form, expect=(200, width))
        run.plan(setup=moments.setup_cost + moments.sweep_cost, iteration=2 * moments.sweep_cost)
        pair = start(problem, run, moments, run.part(self.test_matrix), width, diagonal=True)
        dx, dy = pair.views.diagonals
        known = moments.adjustment(0)
        if known.model.center and known.model.is_plain and not known.scale:
            _warn_of_means(moments, (dx, dy))
        normalizer = run.part(self.normalizer)
        k = problem.k
        weights = [reciprocal(d)[:, None] for d in (dx, dy)]
        pair, rho = _in_diagonal_metric(pair, dx, dy).normalized(normalizer).canonical()
        while run.proceed(
            residual=pair.leading(k).residual(rho[:k]),
            current=partial(pair.weights, problem.k),
        ):
            phi = weights[0] * pair.Cpsi
            _, _, Ctphi, _ = moments.products(phi, None)
            pair = pair.with_x(phi, dx[:, None] * phi, Ctphi).normalized(normalizer, y=False)
            psi = weights[1] * pair.Ctphi
            _, Cpsi, _, _ = moments.products(None, psi)
            pair = pair.with_y(psi, dy[:, None] * psi, Cpsi).normalized(normalizer, x=False)
            pair, rho = pair.canonical()
        text = (
            "d-cca reached its own limit, which is the exact answer only if the Gram matrices are diagonal."
        )
        run.note(Status.APPROXIMATE, text)
        known = pair.answer(k, 0.0)["evidence"]
        return run.finish(**pair.weights(k), evidence=known)


def _in_diagonal_metric(pair: Pair, dx: Array, dy: Array) -> Pair:
    x = pair.with_x(pair.phi, dx[:, None] * pair.phi, pair.Ctphi)
    return x.with_y(pair.psi, dy[:, None] * pair.psi, pair.Cpsi)


def _warn_of_means(moments: Any, diagonals: tuple[Array, Array]) -> None:
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
