"""Kernel CCA on features: Nyström features of some landmarks, or random Fourier features.

Problem: kernel CCA among functions that are combinations of the kernel functions of m landmarks, or of cosines of
random frequencies whose inner products are a Gaussian or Laplacian kernel on average.
Method: the features of both views are data for CCA, with the same ridges; any solver of `cca` solves it. Weights of
Nyström features are mapped back to coefficients of the landmarks' kernel functions.
Source: Williams & Seeger 2001, NIPS 13; Rahimi & Recht 2007, NIPS 20; Lopez-Paz, Sra, Smola, Ghahramani & Schölkopf
2014, ICML, Randomized nonlinear component analysis.
Where we differ: with centring, functions of landmarks are differences of kernel functions, so that they lie in the span
of the centred features of the rows; the certificate of the kernel problem takes the landmarks' columns alone. Functions
of Fourier features do not lie in the spaces of the kernels, so the answer has no residual, and is reported as such. On
data with structure Nyström features are far better; the others are included for comparisons.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from linspec import CCA, Status, option, part
from linspec.arrays import to_host
from linspec.features import fourier, nystrom
from linspec.iteration import Context, Iterate
from linspec.solving import Solver, moments_of_rows
from linspec_kernel.problem import KernelCCA

LANDMARKS = 1000
"""Default number of landmarks."""

FEATURES = 1000
"""Default number of features of each view, or four times the number of rows if that is less."""

ENDED = "The answer is the best one among functions of the landmarks. Take more of them, or nystrom-lobpcg."


@dataclass(frozen=True, kw_only=True)
class NystromKCCA(Solver):
    """CCA of Nyström features by any CCA solver (Williams & Seeger 2001; Lopez-Paz et al. 2014)."""

    landmarks: int | None = option(
        None, "landmarks of each view; none: 1000, or all rows", kind=int, at_least=2
    )
    cca: Any = part("gram", "solver of the CCA of the features", problem="cca")

    def iterate(self, problem: KernelCCA, moments: Any, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the answer."""
        n, asarray = moments.operators[0].shape[0], moments.device.asarray
        m = min(LANDMARKS if self.landmarks is None else self.landmarks, n)
        moments.fit(context.rng, form="tiled")
        maps = [
            nystrom(op.data, op.kernel, m, context.rng, differences=problem.center)
            for op in moments.operators
        ]
        answer = features_cca(problem, moments, context, maps, self.cca)
        if m < n:
            context.note(Status.APPROXIMATE, ENDED)
        arrays = moments.learnt()
        for name, features in zip("xy", maps, strict=True):
            arrays[f"{name}_weights"] = asarray(features.turn) @ asarray(to_host(answer[f"{name}_weights"]))
            arrays[f"{name}_landmarks"] = features.numbers
        yield Iterate(0.0, lambda: arrays, final=True)


def features_cca(problem: KernelCCA, moments: Any, context: Context, maps: Sequence[Any], solver: Any) -> Any:
    """Solve CCA of the features of both views, whose passes are those of the run."""
    # The data are float64 where float32 does not hold values of the kernel.
    X, Y = (features(op.data) for features, op in zip(maps, moments.operators, strict=True))
    rows = moments_of_rows({"X": X, "Y": Y}, center=problem.center, passes=context.passes)
    return solver.answered(CCA(X, Y, problem.k, ridge=problem.ridge, center=problem.center), rows, context)


@dataclass(frozen=True, kw_only=True)
class OnFourierFeatures(Solver):
    """A solver on random Fourier features."""

    features: int | None = option(
        None, "random features of each view; none: 1000, or four times the rows", kind=int, at_least=1
    )

    def count(self, problem: KernelCCA) -> int:
        """The number of features of a view."""
        return self.features or min(FEATURES, 4 * int(problem.X.shape[0]))


@dataclass(frozen=True, kw_only=True)
class FourierKCCA(OnFourierFeatures):
    """CCA of random Fourier features (Rahimi & Recht 2007; Lopez-Paz et al. 2014)."""

    cca: Any = part("gram", "solver of the CCA of the features", problem="cca")

    def iterate(self, problem: KernelCCA, moments: Any, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the answer."""
        count, device = self.count(problem), moments.device
        kernels = moments.fit(context.rng, form="tiled")
        moments.maps = [
            fourier(kernel, A.shape[1], count, context.rng)
            for kernel, A in zip(kernels, (problem.X, problem.Y), strict=True)
        ]
        answer = features_cca(problem, moments, context, moments.maps, self.cca)
        x, y = (device.asarray(answer[f"{name}_weights"]) for name in "xy")
        yield Iterate(0.0, lambda: {"x_weights": x, "y_weights": y, **moments.learnt()}, final=True)
