"""CCA by alternating least squares.

Problem: the leading canonical pairs of X and Y.
Method: block power iteration with projections, Φ ← argmin ‖XΦ − YΨ‖² + rx‖Φ‖², then the same for Ψ with the new
Φ, each block normalised in its own metric (Golub & Zha 1995; Lu 2015, Algorithms 4 and 7). Any least-squares
solver that has `prepare` can solve the two problems; with "ling" this is L-CCA, with "gd" G-CCA.
Where we differ: the least-squares solver begins at its answer for the last block, and it only reduces its
error by a fixed factor. A few columns more than k are carried, because the convergence then depends on the
gap after them. Each step ends with a small SVD that turns the two bases into canonical pairs, so a run can be
judged and stopped at any step. The products that normalise also give the cross products of both problems and
the gradients at their starts. So a half step costs one sweep in addition to those of the inner solver.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from linspec import Run, Solution, Solver, Status, form_option, limit_option, option, part, tol_option
from linspec.arrays import Array, HostArray, to_host_together
from linspec.operators import DenseOperator, ProductOperator
from linspec_cca.course import Course
from linspec_cca.pairs import Pair, block_width, start

INNER_REDUCTION = 0.1
"""The factor by which a half step reduces its error."""


@dataclass(frozen=True, kw_only=True)
class AlternatingLeastSquares(Solver):
    """Alternating least squares (Golub & Zha 1995; Lu 2015, Algorithms 4 and 7)."""

    lstsq: Any = part(
        "cg", "least-squares solver of the half steps", problem="least-squares", method="prepare"
    )
    normalizer: Any = part("cholesky-qr", "normalizer of the blocks", kind="normalizer")
    test_matrix: Any = part("gaussian", "random start", kind="test-matrix")
    oversample: int = option(10, "columns carried beyond k", at_least=0)
    tol: float | None = tol_option()
    max_iterations: int = limit_option(500)
    complete: bool = option(
        False,
        "show by the inertia of a matrix of order p + q that no pair is missed, where it can be factored",
    )
    form: str = form_option()

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a CCA problem."""
        # An inner solve that diverges shows by the lengths of its block.
        with np.errstate(over="ignore", invalid="ignore"):
            return self.alternate(problem, run)

    def alternate(
        self, problem: Any, run: Run, rounds: int | None = None, *, from_zero: bool = False
    ) -> Solution:
        """Solve a CCA problem, or make a fixed number of iterations.

        Parameters
        ----------
        problem : CCA
        run : Run
        rounds : int, optional
            The number of iterations, whose half steps go on as long as lstsq does; by default tolerances decide.
        from_zero : bool, default False
            Whether lstsq begins at zero, and not at its answer for the last block.
        """
        width = block_width(problem, self.oversample)
        lstsq, normalizer = run.part(self.lstsq), run.part(self.normalizer)
        moments = run.moments(self.form, expect=(200, width))
        sweeps = 1.0 + lstsq.preparation
        run.plan(setup=moments.setup_cost + sweeps * moments.sweep_cost, iteration=3 * moments.sweep_cost)
        pair = start(problem, run, moments, run.part(self.test_matrix), width)
        matrices = self._matrices(problem, moments)
        states = [lstsq.prepare(A, r, run) for A, r in zip(matrices, problem.ridge, strict=True)]
        rx, ry = problem.ridge
        pair, rho = pair.canonical(normalizer)
        k, made = problem.k, 0
        told = [1.0, 1.0]

        def inner(
            state: Any, B: ProductOperator, gap: Array, AtB: Array, x0: Array | None, AtAx0: Array | None
        ) -> Array:
            """Solve until the error has fallen by a factor, or in a fixed number of rounds as long as lstsq goes on."""
            if rounds is None:
                return state.reduce(B, INNER_REDUCTION, gap, AtB, x0, AtAx0)
            return state.solve(B, x0, None, AtB, AtAx0)

        def half_x(pair: Pair, kept: float) -> tuple[Pair, HostArray]:
            """Φ from Ψ."""
            gap = pair.gaps()[0]
            last = (None, None) if from_zero else _at_last(pair.phi, pair.Sphi, pair.rho, rx)
            with run.reserving(kept * moments.sweep_cost):
                phi = inner(states[0], _times(problem.Y, pair.psi), gap, pair.Cpsi, *last)
            Sphi, _, Ctphi, _ = moments.products(phi, None)
            new = pair.with_x(phi, Sphi + phi * rx, Ctphi)
            sums = _sums(pair, k, 0, new.phi, new.Sphi, gap)
            *products, told[0] = _brought(new.products(y=False), sums)
            return new.canonical_by(normalizer, products, y=False)

        def half_y(pair: Pair, kept: float) -> tuple[Pair, HostArray]:
            """Ψ from Φ."""
            gap = pair.gaps()[1]
            last = (None, None) if from_zero else _at_last(pair.psi, pair.Spsi, pair.rho, ry)
            with run.reserving(kept * moments.sweep_cost):
                psi = inner(states[1], _times(problem.X, pair.phi), gap, pair.Ctphi, *last)
            _, Cpsi, _, Spsi = moments.products(None, psi)
            new = pair.with_y(psi, Spsi + psi * ry, Cpsi)
            sums = _sums(pair, k, 1, new.psi, new.Spsi, gap)
            *products, told[1] = _brought(new.products(x=False), sums)
            return new.canonical_by(normalizer, products, x=False)

        course = Course(run.tol)

        def residual() -> float:
            """The residual by the law, or by the expected gain of the correlations."""
            law = pair.leading(k).residual(rho[:k]) * (1.0 if pair.exact else max(told))
            return course.judged(law, float(rho[:k].sum()), whole=pair.exact)

        while run.proceed(residual=residual(), current=partial(pair.weights, k)) or (
            run.falls_short(**(answer := pair.answer(k, course.expected_gain, complete=self.complete)))
            and made != rounds
        ):
            # Φ from Ψ, then Ψ from the new Φ, each time with the pairs of both spans
            pair, _ = half_x(pair, 3.0)
            pair, rho = half_y(pair, 1.0)
            made += 1
            if made == rounds:
                run.end(Status.CONVERGED)
        return run.finish(**answer)

    def _matrices(self, problem: Any, moments: Any) -> list[Any]:
        """The matrices for which the inner solvers are prepared: held moments of a view, or the view itself."""
        held = moments.form != "implicit"
        return [moments.view(0), moments.view(1)] if held else [problem.X, problem.Y]


def _sums(pair: Pair, k: int, view: int, V: Array, SV: Array, gap: Array) -> list[Array]:
    """What `_told` is made of: dᵀϱ, dᵀSd and ‖ϱ‖² by column, where the blocks are.

    The step D = V − Φ diag(ρ) is about S⁻¹ϱ, and (dᵀϱ)² / dᵀSd is at most ϱᵀS⁻¹ϱ for any d: Galerkin's bound.
    """
    xp, r = pair.views.home.xp, pair.rho[None, :k]
    W, SW = ((pair.phi, pair.Sphi), (pair.psi, pair.Spsi))[view]
    D, SD, gap = V[:, :k] - W[:, :k] * r, SV[:, :k] - SW[:, :k] * r, gap[:, :k]
    return [xp.sum(D * gap, axis=0), xp.sum(D * SD, axis=0), pair.views.norms[view].squares_there(gap)]


def _told(along: HostArray, energy: HostArray, squares: HostArray) -> float:
    """The ratio of a view's residual, bounded from below by the half step, to its estimate by the norm; at least 1."""
    below = float(np.divide(along**2, energy, out=np.zeros_like(along), where=energy > 0).sum())
    by_norm = float(squares.sum())
    return max(below / by_norm, 1.0) if by_norm > 0 else 1.0


def _brought(products: list[Array], sums: list[Array]) -> list[Any]:
    """Products on the host, and what the sums have told, in one transfer."""
    found = to_host_together(*products, *sums)
    return [*found[: len(products)], _told(*found[len(products) :])]


def _times(A: Any, V: Array) -> ProductOperator:
    """A V as an operator that is multiplied only if someone asks for it."""
    return ProductOperator(A, DenseOperator(A.home.place(V, A.dtype)))


def _at_last(V: Array, SV: Array, rho: Array, ridge: float) -> tuple[Array, Array]:
    """The best start within the span of the last block, and its product with the Gram matrix without ridge."""
    return V * rho, (SV - V * ridge) * rho
