"""AppGrad: augmented approximate gradient for CCA.

Problem: compute the leading canonical pairs in the memory of a few blocks of weights, without an inverse of a Gram
matrix.
Method: beside the normalised blocks Φ, Ψ there are unnormalised ones Φ̃, Ψ̃, on which gradient descent runs. With
Sx = XᵀX + rx I, Sy = YᵀY + ry I and C = XᵀY,

    (1)  Φ̃ ← Φ̃ − (η/n) (SxΦ̃ − CΨ),   Ψ̃ ← Ψ̃ − (η/n) (SyΨ̃ − CᵀΦ),
    (2)  Φ = Φ̃ (Φ̃ᵀSxΦ̃)^(-1/2),       Ψ = Ψ̃ (Ψ̃ᵀSyΨ̃)^(-1/2).

A canonical pair is a fixed point (Φ̃ = Φ diag ρ). For projected gradient descent it is not ("naive-gradient").
Source: Ma, Lu & Foster 2015, ICML, Algorithms 3 and 4; Lu 2015 (thesis), Algorithms 9 and 10.
Where we differ: (a) The source divides S and C by n. So the ridge is nλ here, and all four blocks are the paper's over
√n. (b) "simultaneous" takes the old Φ for Ψ̃, as printed, with one pass per iteration. "alternating" takes the new one
(Remark 4.2.4), as in the authors' experiments, with two passes. The former can reach a cycle of two in which the spans
no longer improve, so the latter is the default. (c) Without `step`, η/n is 1.7 over the largest eigenvalue of S, by the
power method:

    (3)  λ = max ‖D^(-1/2) S D^(-1/2) v‖ over unit v,   step 1.7/λ D⁻¹   with D = I.

If Φ̃ or Ψ̃ is longer after a step than the answer can be, the step is rejected for both, and later steps of that view
are half as long. (d) The fixed point is determined up to a rotation of both blocks, so the canonical pairs of the spans
of Φ and Ψ are yielded. A run that goes on from these begins with the best auxiliary blocks in their spans:

    (4)  Φ̃ = ΦM,   Ψ̃ = ΨMᵀ,   M = ΦᵀCΨ.

Projected gradient descent for CCA, which does not lead to the answer: a demonstration.

Problem: the same as AppGrad's.
Method: on the normalised blocks themselves, which are then normalised again,

    (1)  Φ ← Φ − (η/n) (SxΦ − CΨ),    Ψ ← Ψ − (η/n) (SyΨ − CᵀΦ),
    (2)  Φ ← Φ (ΦᵀSxΦ)^(-1/2),        Ψ ← Ψ (ΨᵀSyΨ)^(-1/2).

A canonical pair with correlation ρ < 1 has the gradient (1 − ρ) Sx φ ≠ 0, which is not parallel to φ: a step moves
away from the pair (Proposition 2.1, Example 4.2.3). Do not choose this solver to compute an answer.
Source: Ma, Lu & Foster 2015, ICML, Algorithm 2; Lu 2015 (thesis), Algorithm 8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import linspec as ls
from linspec import Status, form_option, limit_option, option, part, tol_option
from linspec.arrays import Array, Device, HostArray, reciprocal, to_host
from linspec.certificates import Metric
from linspec.families.cca import Gains, Pairs, first_blocks, multiplied
from linspec.iteration import Context, Iterate
from linspec.rows import Moments
from linspec.solving import Solver

TEXT = "naive-gradient does not converge to canonical pairs; it exists to demonstrate this."


@dataclass(frozen=True, kw_only=True)
class Gradients(Solver):
    """Gradient steps on blocks of weights."""

    normalizer: Any = part("inverse-sqrt", "normalizer of the blocks", kind="normalizer")
    test_matrix: Any = part("gaussian", "random start", kind="test-matrix")
    tol: float | None = tol_option()
    form: str = form_option()

    def begun(
        self, problem: ls.CCA, moments: Moments, context: Context, start: Any
    ) -> tuple[Pairs, Pairs, list[Metric]]:
        """The first blocks, those of a start or random ones, as they are and normalised; norms of residuals."""
        moments.expect(EXPECTED, problem.k, self.form)
        W = first_blocks(moments, context, start, problem.k, self.test_matrix, fresh=0)
        first, metrics = multiplied(problem, moments, W)
        return first, normalized(first, self.normalizer), metrics


@dataclass(frozen=True, kw_only=True)
class NaiveGradient(Gradients):
    """Projected gradient descent, a demonstration of failure (Ma, Lu & Foster 2015, Algorithm 2)."""

    step: float = option(0.05, "step for XᵀX/n", above=0)
    max_iterations: int = limit_option(500)

    def iterate(self, problem: ls.CCA, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield normalised blocks after each step."""
        context.note(Status.APPROXIMATE, TEXT)
        _, pairs, metrics = self.begun(problem, moments, context, start)
        step = self.step / moments.fitted[0].total
        while True:
            yield Iterate(pairs.canonical().residual(metrics, problem.k), pairs.arrays)
            W = [moved(pairs, i, pairs.CW[i], step) for i in (0, 1)]  # (1)
            pairs = normalized(Pairs.of(moments, problem.ridge, W), self.normalizer)  # (2)


STEP, POWERS = 1.7, 4
"""The step in units of 1/λ, below 2 where gradient descent on a quadratic is stable; and steps of the power method,
which estimates λ to a few per cent, from below."""

EXPECTED = 500
"""Expected products, for the decision whether to hold Gram matrices."""

APART, SLOWEST = 50, 0.9999
"""A gain of the sum of correlations is compared with the gain so many steps before, since a single step gains little.
The ratio of successive gains is taken to be at most SLOWEST."""

GROWTH = 4.0
"""A step is rejected if tr(Φ̃ᵀSΦ̃)/k exceeds this value after the step, and also its value before; at the answer it is
at most 1."""

Shrink = Callable[[int, Array, Array], Array]


@dataclass(frozen=True, kw_only=True)
class AppGrad(Gradients):
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
    max_iterations: int = limit_option(5000)

    def iterate(self, problem: ls.CCA, moments: Moments, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the canonical pairs of the spans of Φ and Ψ after each step."""
        _, normal, metrics = self.begun(problem, moments, context, start)
        tilde = fitted(normal, 1.0 if start is not None or self.auxiliary == "start" else 0.0)
        if self.step is None:
            steps = longest_steps(problem, moments, normal, [V[:, :1] * 0.0 + 1.0 for V in normal.W])
        else:
            steps = [V[:, :1] * 0.0 + self.step / moments.fitted[0].total for V in normal.W]
        gains = Gains(metrics, APART, SLOWEST)
        descent = Descent(problem, moments, self.normalizer, steps, alternating=self.update == "alternating")
        while True:
            pairs = normal.canonical()
            yield Iterate(gains.residual(pairs.residual(metrics, problem.k), pairs.rho), pairs.arrays)
            tilde, normal = descent.after(tilde, normal)


@dataclass
class Descent:
    """The steps of AppGrad: (1), a threshold if there is one, and (2).

    Attributes
    ----------
    steps : list of array of shape (p, 1)
        η/n of each view; in a metric with the diagonal D, η/n D⁻¹.
    shrunk : callable, optional
        What takes a view's number, its auxiliary block and its steps, and returns a sparser block.
    """

    problem: Any
    moments: Moments
    normalizer: Any
    steps: list[Array]
    shrunk: Shrink | None = None
    alternating: bool = True

    def after(self, tilde: Pairs, normal: Pairs) -> tuple[Pairs, Pairs]:
        """Return Φ̃, Ψ̃ and Φ, Ψ after a step; the same ones if it is rejected."""
        moments, ridges = self.moments, self.problem.ridge
        V = self._moved(tilde, 0, normal.CW[0])
        if self.alternating:
            new = tilde.renewed(moments, ridges, 0, V)
            roots = [root(new, 0, self.normalizer)]
            new = new.renewed(
                moments, ridges, 1, self._moved(new, 1, new.CW[1] @ new.device.asarray(roots[0]))
            )
        else:
            new = Pairs.of(moments, ridges, (V, self._moved(tilde, 1, normal.CW[1])))
            roots = [root(new, 0, self.normalizer)]
        sizes, before = _squares(new), _squares(tilde)
        grown = ~(sizes <= np.maximum(GROWTH * V.shape[1], before))
        if grown.any():
            self.steps = [step / 2 if wild else step for step, wild in zip(self.steps, grown, strict=True)]
            return tilde, normal
        return new, new.turned((roots[0], root(new, 1, self.normalizer)))  # (2)

    def _moved(self, tilde: Pairs, i: int, image: Array) -> Array:
        """Φ̃ after a step (1), for the image CΨ; likewise Ψ̃."""
        V = moved(tilde, i, image, self.steps[i])
        return V if self.shrunk is None else self.shrunk(i, V, self.steps[i])


def normalized(pairs: Pairs, normalizer: Any) -> Pairs:
    """Φ and Ψ (2), from blocks with the same spans."""
    return pairs.turned([root(pairs, i, normalizer) for i in (0, 1)])


def moved(pairs: Pairs, i: int, image: Array, step: Array) -> Array:
    """Φ̃ − (η/n) (SxΦ̃ − CΨ), or Ψ̃ − (η/n) (SyΨ̃ − CᵀΦ) (1)."""
    return pairs.W[i] - (pairs.SW[i] - image) * step


def root(pairs: Pairs, i: int, normalizer: Any) -> HostArray:
    """(Φ̃ᵀSxΦ̃)^(-1/2) (2), with columns of zeros for directions without length."""
    T = normalizer.orthonormalize(pairs.W[i], pairs.SW[i])[1]
    return np.pad(T, ((0, 0), (0, T.shape[0] - T.shape[1])))


def fitted(normal: Pairs, share: float = 1.0) -> Pairs:
    """A share of the best auxiliary blocks in the spans of Φ and Ψ (4)."""
    M = to_host(normal.W[0].T @ normal.CW[0]) * share
    return normal.turned((M, M.T))


def longest_steps(problem: ls.CCA, moments: Moments, first: Pairs, D: Sequence[Array]) -> list[Array]:
    """The steps 1.7/λ D⁻¹ of both views (3), whose power method begins at SxΦ and SyΨ; 0 where D is."""
    steps = []
    for i, (r, SV, d) in enumerate(zip(problem.ridge, first.SW, D, strict=True)):
        product: Any = lambda V, i=i, r=r: moments.gram_product(V, i) + V * r  # noqa: E731
        largest = largest_eigenvalue(product, SV, d)
        steps.append(reciprocal(d) * (STEP / largest if largest > 0 else 1.0))
    return steps


def largest_eigenvalue(product: Callable[[Array], Array], SV: Array, D: Array) -> float:
    """λ (3) by the power method, from V ↦ SV and the first product."""
    device = Device.of(SV)
    half = Device.of(SV).xp.sqrt(reciprocal(D))
    largest = 0.0
    U = half * SV
    for _ in range(POWERS):
        U = half * product(half * U * reciprocal(device.asarray(device.column_norms(U)))[None, :])
        largest = max(largest, float(device.column_norms(U).max(initial=0.0)))
    return largest


def _squares(pairs: Pairs) -> HostArray:
    """tr(Φ̃ᵀSxΦ̃) and tr(Ψ̃ᵀSyΨ̃)."""
    xp = pairs.device.xp
    return to_host(xp.stack([xp.sum(V * SV) for V, SV in zip(pairs.W, pairs.SW, strict=True)]))
