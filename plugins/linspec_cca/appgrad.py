"""AppGrad: augmented approximate gradient for CCA.

Problem: compute the leading canonical pairs in the memory of a few blocks of weights, without an inverse of a
Gram matrix.
Method: Ma, Lu & Foster (2015), Algorithm 4 (Lu 2015, Algorithm 10). In addition to the normalised blocks Φ, Ψ
there are unnormalised ones Φ̃, Ψ̃, on which gradient descent runs:

    Φ̃ ← Φ̃ − η [Xᵀ(XΦ̃ − YΨ)/n + λΦ̃],   Φ = Φ̃ (Φ̃ᵀ(XᵀX/n + λI)Φ̃)^(-1/2),

and the same for Ψ. A canonical pair is a fixed point (Φ̃ = ΦΛ). For projected gradient descent it is not.
Where we differ: "simultaneous" takes the old Φ for Ψ, as printed, with one sweep per iteration. "alternating"
takes the new one (Remark 4.2.4), as in the authors' experiments, with two sweeps. The former can reach a
cycle of two in which the spans no longer improve, so the latter is the default. The default step is 1.7 over
the largest eigenvalue of each view's own Gram matrix, which a short block power iteration estimates. The step
is halved if the iteration grows. The fixed point is determined up to a rotation of both blocks, so at the end
they are whitened and turned to canonical pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from linspec import Run, Solution, Solver, form_option, limit_option, option, part, tol_option
from linspec.arrays import Array, reciprocal, to_host
from linspec_cca.course import Course
from linspec_cca.pairs import Pair, next_pair, square, start

STEP = 1.7
"""The default step in units of 1/λmax; gradient descent on a quadratic is stable below 2."""

POWER_SWEEPS = 4
"""Sweeps of the block power iteration that estimates λmax (to a few per cent, from below)."""

APART, SLOWEST = 50, 0.9999
"""The number of steps between compared gains, because one step gains little, and the largest ratio of
gains."""

GROWTH = 4.0
"""The mean square of the auxiliary variables is at most 1 at the answer; above this the step is halved."""


@dataclass(frozen=True, kw_only=True)
class AppGrad(Solver):
    """Augmented approximate gradient (Ma, Lu & Foster 2015, Algorithm 4)."""

    step: float | None = option(None, "step for XᵀX/n; none: from the data, one for each view", above=0)
    update: str = option(
        "alternating", "whether Ψ takes the new Φ or the old one", choices=("alternating", "simultaneous")
    )
    auxiliary: str = option(
        "zero",
        "where the auxiliary variables begin: at zero or fitted to the start",
        choices=("zero", "start"),
    )
    normalizer: Any = part("inverse-sqrt", "normalizer of the blocks", kind="normalizer")
    test_matrix: Any = part("gaussian", "random start", kind="test-matrix")
    tol: float | None = tol_option()
    max_iterations: int = limit_option(5000)
    complete: bool = option(
        False,
        "show by the inertia of a matrix of order p + q that no pair is missed, where it can be factored",
    )
    form: str = form_option()

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a CCA problem."""
        moments = run.moments(self.form, expect=(500, problem.k))
        sweeps = 2 if self.update == "alternating" else 1
        probing = POWER_SWEEPS if self.step is None else 0
        run.plan(
            setup=moments.setup_cost + (1 + probing) * moments.sweep_cost,
            iteration=sweeps * moments.sweep_cost,
        )
        normalizer = run.part(self.normalizer)
        tilde = start(problem, run, moments, run.part(self.test_matrix), problem.k)
        steps = (
            [self.step, self.step] if self.step else steps_from_data(problem, run, moments, self.test_matrix)
        )
        pair = tilde.normalized(normalizer)
        tilde = _auxiliary(pair, self.auxiliary, moments.total)
        iteration = Iteration(problem, moments, normalizer, steps)
        update = iteration.alternating if self.update == "alternating" else iteration.simultaneous
        k, (turned, rho) = problem.k, pair.canonical()
        course = Course(run.tol, APART, SLOWEST)

        def residual() -> float:
            """The residual by the law, or the expected gain of the correlations."""
            return course.judged(turned.residual(rho), float(rho.sum()), whole=turned.exact)

        while run.proceed(residual=residual(), current=partial(turned.weights, k)) or run.falls_short(
            **(answer := turned.answer(k, course.expected_gain, complete=self.complete))
        ):
            tilde, pair = update(tilde, pair)
            turned, rho = pair.canonical()
        return run.finish(**answer)


class Iteration:
    """One step of AppGrad; `tilde` holds Φ̃, Ψ̃ and `pair` holds Φ, Ψ, both with their products.

    With Gram matrices that are not divided by n, normalised blocks here are the paper's over √n, and
    the factors √n below put them back.
    """

    def __init__(self, problem: Any, moments: Any, normalizer: Any, steps: list[float]) -> None:
        self.problem, self.moments, self.normalizer = problem, moments, normalizer
        self.steps = list(steps)
        self.n = moments.total

    def simultaneous(self, tilde: Pair, pair: Pair) -> tuple[Pair, Pair]:
        """Both new blocks from the old ones, in one sweep."""
        phi = self._moved(0, tilde.phi, self._gradient(tilde.Sphi, pair.Cpsi))
        psi = self._moved(1, tilde.psi, self._gradient(tilde.Spsi, pair.Ctphi))
        return self._checked(next_pair(self.problem, self.moments, tilde, phi, psi), tilde, pair)

    def alternating(self, tilde: Pair, pair: Pair) -> tuple[Pair, Pair]:
        """Φ from the old Ψ, then Ψ from the new Φ, in two sweeps."""
        rx, ry = self.problem.ridge
        phi = self._moved(0, tilde.phi, self._gradient(tilde.Sphi, pair.Cpsi))
        Sphi, _, Ctphi, _ = self.moments.products(phi, None)
        new = tilde.with_x(phi, Sphi + phi * rx, Ctphi)
        T = tilde.views.home.place(square(self.normalizer.orthonormalize(new.phi, new.Sphi)[1]))
        psi = self._moved(1, tilde.psi, self._gradient(tilde.Spsi, Ctphi @ T))
        _, Cpsi, _, Spsi = self.moments.products(None, psi)
        return self._checked(new.with_y(psi, Spsi + psi * ry, Cpsi), tilde, pair)

    def _moved(self, view: int, V: Array, gradient: Array) -> Array:
        """The auxiliary block of X (0) or Y (1) after a gradient step."""
        return V - gradient * self.steps[view]

    def _gradient(self, S_tilde: Array, C_other: Array) -> Array:
        """(S Φ̃ − √n C Ψ)/n: the paper's gradient. The paper's Ψ is √n times ours."""
        return (S_tilde - C_other * float(np.sqrt(self.n))) / self.n

    def _checked(self, new: Pair, old: Pair, pair: Pair) -> tuple[Pair, Pair]:
        """The new pair. If it is larger than the answer can be, the old pair and half the step."""
        xp = new.views.home.xp
        k = new.phi.shape[1]
        sums = [
            xp.sum(V * SV) for each in (new, old) for V, SV in ((each.phi, each.Sphi), (each.psi, each.Spsi))
        ]
        found = to_host(xp.stack(sums)) / (self.n * k)
        squares, before = found[:2], found[2:]
        wild = ~(squares <= np.maximum(GROWTH, before))
        if wild.any():
            self.steps = [s / 2 if w else s for s, w in zip(self.steps, wild, strict=True)]
            return old, pair
        return new, new.normalized(self.normalizer)


def steps_from_data(
    problem: Any, run: Run, moments: Any, test_matrix: Any, scales: tuple[Array, Array] | None = None
) -> list[float]:
    """1.7 / λmax(S/n) for each view, or 1.7 / λmax(D^(-1/2) S D^(-1/2)), λmax by a block power iteration.

    Parameters
    ----------
    problem : CCA
    run : Run
    moments : Moments
    test_matrix : str or TestMatrix
        The start of the power iteration.
    scales : pair of arrays, optional
        The diagonals D of both views.

    Returns
    -------
    list of float
    """
    width = min(4, problem.X.shape[1], problem.Y.shape[1])
    pair = start(problem, run, moments, test_matrix, width, diagonal=True)
    dx, dy = (None, None) if scales is None else (d[:, None] for d in scales)
    largest = [0.0, 0.0]
    for sweep in range(POWER_SWEEPS):
        xp = pair.views.home.xp
        growths = [
            xp.sum(S * S, axis=0) * reciprocal(xp.sum(V * V, axis=0))
            if d is None
            else xp.sum(S * S * reciprocal(d), axis=0) * reciprocal(xp.sum(V * V * d, axis=0))
            for V, S, d in ((pair.phi, pair.Sphi, dx), (pair.psi, pair.Spsi, dy))
        ]
        norms = to_host(xp.stack([xp.sqrt(xp.max(growth)) for growth in growths]))
        largest = [max(a, float(b)) for a, b in zip(largest, norms, strict=True)]
        if sweep == POWER_SWEEPS - 1 or not all(norm > 0 for norm in norms):
            break
        phi, psi = pair.Sphi / float(norms[0]), pair.Spsi / float(norms[1])
        if dx is not None and dy is not None:
            phi, psi = phi * reciprocal(dx), psi * reciprocal(dy)
        pair = next_pair(problem, moments, pair, phi, psi)
    n = moments.total if scales is None else 1
    return [STEP * n / value if value > 0 else 1.0 for value in largest]


def _auxiliary(pair: Pair, kind: str, n: float) -> Pair:
    """Φ̃, Ψ̃ at zero, or the multiples Φ M, Ψ Mᵀ of the start that fit the other view best (M = ΦᵀCΨ)."""
    M = to_host(pair.phi.T @ pair.Cpsi) * float(np.sqrt(n) if kind == "start" else 0.0)
    return pair.turned(M, M.T)
