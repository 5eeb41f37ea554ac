"""Kernel CCA on Nyström features: a few columns of the kernel matrices in place of all.

Problem: kernel CCA among functions that are combinations of the kernel functions of m landmarks.
Method: Nyström features of both views are data for CCA, with the same ridges; any solver of `cca` solves it. The
weights are mapped back to coefficients of the landmarks' kernel functions.
Source: Williams & Seeger 2001, NIPS 13; Lopez-Paz, Sra, Smola, Ghahramani & Schölkopf 2014, ICML, Randomized nonlinear
component analysis.
Where we differ: with centring the functions are differences of kernel functions, so that they lie in the span of the
centred features of the rows. The law of the kernel problem judges them, and it takes the landmarks' columns alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from linspec import CCA, Run, Solution, Solver, Status, option, part
from linspec.arrays import to_host
from linspec.errors import InvalidOption
from linspec.features import nystrom
from linspec.operators import uncounted

LANDMARKS = 1000
"""Default number of landmarks."""

ENDED = "The answer is the best one among functions of {m} landmarks a view. Take more of them, or nystrom-lobpcg."


@dataclass(frozen=True, kw_only=True)
class NystromKCCA(Solver):
    """CCA of Nyström features by any CCA solver (Williams & Seeger 2001; Lopez-Paz et al. 2014)."""

    landmarks: int | None = option(
        None, "landmarks of each view; none: 1000, or all rows", kind=int, at_least=2
    )
    cca: Any = part("gram", "solver of the CCA of the features", problem="cca")

    def solve(self, problem: Any, run: Run) -> Solution:
        """Solve a kernel CCA problem."""
        moments: Any = run.moments("tiled")
        n = moments.views[0].shape[0]
        m = min(LANDMARKS if self.landmarks is None else self.landmarks, n)
        if m - problem.center < problem.k:
            raise InvalidOption(
                f"landmarks must be at least {problem.k + problem.center} for k = {problem.k}; got {m}."
            )
        kernels = moments.settle(run.rng)
        maps = [
            nystrom(uncounted(op.data)[0], op.kernel, m, run.rng, differences=problem.center)
            for op in moments.views
        ]
        found = features_cca(problem, run, maps, self.cca)
        weights = [
            moments.home.place(features.turn) @ moments.home.place(to_host(found[name]))
            for features, name in zip(maps, ("x_weights", "y_weights"), strict=True)
        ]
        if m < n:
            run.note(Status.APPROXIMATE, ENDED.format(m=m))
        return run.finish(
            x_weights=weights[0],
            y_weights=weights[1],
            x_landmarks=maps[0].numbers,
            y_landmarks=maps[1].numbers,
            kernels=kernels,
        )


def features_cca(problem: Any, run: Run, maps: list[Any], solver: Any) -> Any:
    """Solve CCA of the features of both views; its sweeps count as sweeps of this run."""
    moments: Any = run.moments(
        "tiled"
    )  # whose data are float64 where float32 does not hold values of the kernel
    X, Y = (features(uncounted(op.data)[0]) for features, op in zip(maps, moments.views, strict=True))
    return run.within(
        CCA(X, Y, problem.k, ridge=problem.ridge, center=problem.center),
        run.part(solver),
        {"X": "X", "Y": "Y"},
    )
