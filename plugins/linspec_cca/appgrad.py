"""AppGrad: augmented approximate gradient for CCA.

Problem: compute the leading canonical pairs in the memory of a few blocks of weights, without an inverse of a Gram
matrix.
Method: beside the normalised blocks Φ, Ψ there are unnormalised ones Φ̃, Ψ̃, on which gradient descent runs,

    Φ̃ ← Φ̃ − η [Xᵀ(XΦ̃ − YΨ)/n + λΦ̃],   Φ = Φ̃ (Φ̃ᵀ(XᵀX/n + λI)Φ̃)^(-1/2),

and the same for Ψ. A canonical pair is a fixed point (Φ̃ = ΦΛ). For projected gradient descent it is not.
Source: Ma, Lu & Foster 2015, ICML, Algorithm 4; Lu 2015 (thesis), Algorithm 10.
Where we differ: (a) With S = XᵀX + ridge I, which is not divided by n (the ridge is nλ), Φ and Ψ here are the paper's
over √n; Φ̃ and Ψ̃ are the paper's. (b) "simultaneous" takes the old Φ for Ψ, as printed, with one sweep per iteration.
"alternating" takes the new one (Remark 4.2.4), as in the authors' experiments, with two sweeps. The former can reach a
cycle of two in which the spans no longer improve, so the latter is the default. (c) The default step is 1.7 over the
largest eigenvalue of each view's own Gram matrix, which a short block power iteration estimates. If Φ̃ or Ψ̃ is longer
after a step than the answer can be, the step is rejected for both, and η of that view is halved. (d) The fixed point is
determined up to a rotation of both blocks, so the canonical pairs of their spans are yielded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from linspec import IterativeSolver, Run, form_option, limit_option, option, part, tol_option
from linspec.arrays import Array, reciprocal, to_host
from linspec.families.cca import KEPT, ExpectedGain, PairsIterate, first_pairs
from linspec.moments import Pairs, square

STEP = 1.7
"""The default step in units of 1/λmax; gradient descent on a quadratic is stable below 2."""

POWER_SWEEPS = 4
"""Sweeps of the block power iteration that estimates λmax (to a few per cent, from below)."""

APART, SLOWEST = 50, 0.9999
"""`apart` and `slowest` of `ExpectedGain`: a gain of the sum of correlations is compared with the gain APART steps
before, since a single step gains little. The ratio of successive gains is taken to be at most SLOWEST."""

GROWTH = 4.0
"""A step of a view is rejected, and its η halved, if the mean square of the auxiliary variates XΦ̃ (or YΨ̃) over rows
and pairs exceeds this value after the step, and also its value before. At the answer the mean square is at most 1."""

Steps = tuple[float, float]
"""The step η of each view."""


@dataclass(frozen=True, kw_only=True)
class AppGrad(IterativeSolver):
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
    form: str = form_option()

    kept: ClassVar = KEPT

    def iterates(self, problem: Any, run: Run, state: PairsIterate | None = None) -> Iterator[PairsIterate]:
        """The canonical pairs of the spans of Φ and Ψ after each step."""
        k, moments = problem.k, run.moments(self.form, expect=(500, problem.k))
        alternating, normalizer = self.update == "alternating", run.part(self.normalizer)

        def begun() -> PairsIterate:
            """Return the first iterate: random Φ and Ψ; Φ̃ and Ψ̃ are fitted to these, or zero (option `auxiliary`)."""
            first = first_pairs(problem, run, moments, run.part(self.test_matrix), k)
            normalized = first.normalized(normalizer)
            tilde = fitted(normalized, moments.total if self.auxiliary == "start" else 0.0)
            given = self.step
            steps = (given, given) if given else steps_from_data(problem, run, moments, self.test_matrix)
            return judged(tilde, normalized, steps, ExpectedGain(run.tol, apart=APART, slowest=SLOWEST))

        def judged(tilde: Pairs, normalized: Pairs, steps: Steps, gain: Any) -> PairsIterate:
            """Return the iterate: the canonical pairs of the spans of Φ and Ψ.

            For the next step the iterate also has the auxiliary blocks Φ̃ and Ψ̃ (`tilde`), Φ and Ψ themselves
            (`normalized`), the steps of both views, and the gain still expected.
            """
            pairs = normalized.canonical()
            gain = gain.after(pairs.residual, pairs.total, whole=pairs.exact)
            return PairsIterate(pairs, k, gain=gain, tilde=tilde, normalized=normalized, steps=steps)

        iterate = state or begun()
        while True:
            yield iterate
            tilde, normalized, steps = (iterate[name] for name in ("tilde", "normalized", "steps"))
            # Φ̃ ← Φ̃ − η (SxΦ̃ − √n C Ψ)/n, Ψ̃ ← Ψ̃ − η (SyΨ̃ − √n CᵀΦ)/n
            V = tilde[0].V - gradient(tilde, 0, normalized.image(0), moments.total) * steps[0]
            if alternating:
                new = tilde.renewed(moments, V, None)
                image = new.image(1) @ normalizing(new, normalizer)
                W = tilde[1].V - gradient(tilde, 1, image, moments.total) * steps[1]
                new = new.renewed(moments, None, W)
            else:
                W = tilde[1].V - gradient(tilde, 1, normalized.image(1), moments.total) * steps[1]
                new = tilde.renewed(moments, V, W)
            steps, grows = checked(steps, new, tilde, moments.total)
            if not grows:
                tilde, normalized = new, new.normalized(normalizer)  # Φ = Φ̃ (Φ̃ᵀSxΦ̃)^(-1/2), and Ψ
            iterate = judged(tilde, normalized, steps, iterate.gain)


def gradient(tilde: Pairs, i: int, image: Array, n: float) -> Array:
    """(S Φ̃ − √n C Ψ)/n: the paper's gradient, whose Ψ is √n times ours."""
    return (tilde[i].SV - image * float(np.sqrt(n))) / n


def normalizing(tilde: Pairs, normalizer: Any) -> Array:
    """(Φ̃ᵀSxΦ̃)^(-1/2), in the home of the blocks."""
    return tilde.metrics.home.place(square(normalizer.orthonormalize(tilde[0].V, tilde[0].SV)[1]))


def checked(steps: Steps, new: Pairs, old: Pairs, n: float) -> tuple[Steps, bool]:
    """Return the steps of both views, halved for a view whose auxiliary block has grown, and whether one was halved.

    `old` and `new` have the auxiliary blocks before and after a step on `n` rows. A block has grown if its mean square,
    tr(Φ̃ᵀSΦ̃)/(nk) for k columns, exceeds `GROWTH` and its value in `old`, or is not finite.
    """
    xp, k = new.metrics.home.xp, new[0].V.shape[1]
    sums = [xp.sum(pairs[i].V * pairs[i].SV) for pairs in (new, old) for i in (0, 1)]
    found = to_host(xp.stack(sums)) / (n * k)
    squares, before = found[:2], found[2:]
    wild = ~(squares <= np.maximum(GROWTH, before))
    halved = tuple(step / 2 if grows else step for step, grows in zip(steps, wild, strict=True))
    return (halved[0], halved[1]), bool(wild.any())


def steps_from_data(
    problem: Any, run: Run, moments: Any, test_matrix: Any, scales: Sequence[Array] | None = None
) -> Steps:
    """Steps of both views from a block power iteration: 1.7/λmax(S/n), or 1.7/λmax(D^(-1/2) S D^(-1/2)) with `scales`.

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
    pair of float
    """
    width = min(4, problem.X.shape[1], problem.Y.shape[1])
    pairs = first_pairs(problem, run, moments, test_matrix, width, diagonal=True)
    home, largest = pairs.metrics.home, [0.0, 0.0]
    D = None if scales is None else [d[:, None] for d in scales]
    for sweep in range(POWER_SWEEPS):
        growths = [_growth(pairs, i, None if D is None else D[i]) for i in (0, 1)]
        norms = to_host(home.xp.stack([home.xp.sqrt(home.xp.max(growth)) for growth in growths]))
        largest = [max(a, float(b)) for a, b in zip(largest, norms, strict=True)]
        if sweep == POWER_SWEEPS - 1 or not all(norm > 0 for norm in norms):
            break
        blocks = [pairs[i].SV / float(norms[i]) for i in (0, 1)]
        if D is not None:
            blocks = [V * reciprocal(d) for V, d in zip(blocks, D, strict=True)]
        pairs = pairs.renewed(moments, *blocks)
    n = moments.total if scales is None else 1
    steps = [STEP * n / value if value > 0 else 1.0 for value in largest]
    return steps[0], steps[1]


def _growth(pairs: Pairs, i: int, d: Array | None) -> Array:
    """‖Sv‖² / ‖v‖² of each column v. With a diagonal d it is Σ (Sv)²/d, divided by Σ d v²."""
    xp, V, S = pairs.metrics.home.xp, pairs[i].V, pairs[i].SV
    if d is None:
        return xp.sum(S * S, axis=0) * reciprocal(xp.sum(V * V, axis=0))
    return xp.sum(S * S * reciprocal(d), axis=0) * reciprocal(xp.sum(V * V * d, axis=0))


def fitted(pairs: Pairs, n: float) -> Pairs:
    """Auxiliary blocks Φ M √n and Ψ Mᵀ √n with M = ΦᵀCΨ, for blocks Φ and Ψ that are orthonormal in Sx and Sy.

    Among all blocks in the span of Φ, Φ M √n minimises ‖XΦ̃ − √n YΨ‖² plus the ridge term. With n = 0 in place of the
    number of rows, both auxiliary blocks are zero.
    """
    M = to_host(pairs[0].V.T @ pairs.image(0)) * float(np.sqrt(n))
    return pairs.turned((M, M.T))
