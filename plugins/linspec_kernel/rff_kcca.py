"""Kernel CCA on random Fourier features.

Problem: kernel CCA for kernels of differences, Gaussian and Laplacian.
Method: cosines of random frequencies, whose inner products are the kernels on average; CCA of these features, with the
same ridges, by any solver of it.
Source: Rahimi & Recht 2007, NIPS 20; Lopez-Paz, Sra, Smola, Ghahramani & Schölkopf 2014, ICML, Randomized nonlinear
component analysis.
Where we differ: the functions do not lie in the spaces of the kernels, so the answer has no residual, and is reported
as such. On data with structure Nyström features are far better; this solver is included for comparisons.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from linspec import option, part
from linspec.errors import InvalidOption
from linspec.features import fourier
from linspec.iteration import Context, Iterate
from linspec.solving import Solver
from linspec_kernel.nystrom_kcca import features_cca

FEATURES = 1000
"""Default number of features of each view, or four times the number of rows if that is less."""


@dataclass(frozen=True, kw_only=True)
class FourierKCCA(Solver):
    """CCA of random Fourier features (Rahimi & Recht 2007; Lopez-Paz et al. 2014)."""

    features: int | None = option(
        None, "random features of each view; none: 1000, or four times the rows", kind=int, at_least=1
    )
    cca: Any = part("gram", "solver of the CCA of the features", problem="cca")

    def iterate(self, problem: Any, moments: Any, context: Context, start: Any) -> Iterator[Iterate]:
        """Yield the answer."""
        count, home = number_of_features(self.features, problem), moments.home
        kernels = moments.settle(context.rng, form="tiled")
        moments.maps = [
            fourier(kernel, A.shape[1], count, context.rng)
            for kernel, A in zip(kernels, (problem.X, problem.Y), strict=True)
        ]
        found = features_cca(problem, moments, context, moments.maps, self.cca)
        x, y = (home.place(found[f"{name}_weights"]) for name in "xy")
        yield Iterate(0.0, lambda: {"x_weights": x, "y_weights": y, **moments.learnt()}, final=True)


def number_of_features(features: int | None, problem: Any) -> int:
    """The given number of features of a view, or the default one; raises if they are fewer than the pairs."""
    count = min(FEATURES, 4 * int(problem.X.shape[0])) if features is None else features
    if count < problem.k:
        raise InvalidOption(f"features must be at least k = {problem.k}; got {count}.")
    return count
