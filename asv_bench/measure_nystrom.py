"""Print the passes that a Nyström preconditioner saves conjugate gradients on a steep spectrum.

Run `python asv_bench/measure_nystrom.py`; `--quick` takes small matrices. It needs no data.

Model 1 of Lu's thesis (2015): 2000 x 1500, the thirty leading singular values 1.3⁴⁰, …, 1.3¹¹, the rest U(0.5, 13.8),
noise of deviation 1; twenty seeds, ridge 1 and 2000. The matrix is swept, not its Gram matrix held. A pass is one
sweep; the set-up counts, the certificate does not. Each figure is the number of passes after which the suboptimality
is first at or below the target, by two definitions: relative to f*, and relative to f(0) − f*, which the signal makes
a million times as large here. f(x) − f* is the quadratic form (x − x*)ᵀ(AᵀA + rI)(x − x*), with x* from a dense
factorisation, refined. `--max-iterations 3000` lets plain cg reach the targets relative to f* at ridge 1 too: it takes
some 1400 passes to 1e-6.
"""

from __future__ import annotations

import argparse
import math
import statistics
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from datasets import arguments
from least_squares_law import above, by_cholesky, objective, print_head, print_row

import linspec as ls

TARGETS = (1e-6, 1e-10)

DEFINITIONS = ("(f − f*)/f*", "(f − f*)/(f(0) − f*)")

SOLVERS = ("cg", "nystrom-pcg")


@dataclass
class Watch:
    """A callback that notes after how many passes each target is first met, by each definition."""

    A: np.ndarray
    best: np.ndarray
    ridge: float
    scales: tuple[float, ...]
    met: dict[tuple[int, float], float] = field(default_factory=dict)

    def __call__(self, progress: Any) -> bool:
        gap = above(self.A, progress.current()["x"], self.best, self.ridge)
        for which, scale in enumerate(self.scales):
            for target in TARGETS:
                if gap <= target * scale:
                    self.met.setdefault((which, target), progress.passes)
        return len(self.met) == len(self.scales) * len(TARGETS)


def main() -> None:
    """Measure and print."""
    parser = arguments(main.__doc__ or "")
    parser.add_argument("--seeds", type=int, help="20, quick 3, by default")
    parser.add_argument("--ridges", type=float, nargs="+", default=[1.0, 2000.0])
    parser.add_argument("--max-iterations", type=int, default=1000)
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # runs are stopped by the callback
    present = [name for name in SOLVERS if name in ls.solvers("least-squares")]
    for name in set(SOLVERS) - set(present):
        print(f"Skipped: there is no solver {name}.")
    passes = measure(given, present)
    print_head("ridge", "solver", "suboptimality", "target", "median passes", "worst passes", "runs")
    for (ridge, name, which, target), counts in passes.items():
        figures = [
            f"{count:g}" if count < math.inf else f"more than {given.max_iterations}"
            for count in (statistics.median(counts), max(counts))
        ]
        print_row((f"{ridge:g}", name, DEFINITIONS[which], f"{target:g}", *figures, len(counts)))


def measure(
    given: argparse.Namespace, present: list[str]
) -> dict[tuple[float, str, int, float], list[float]]:
    """Passes of every seed; infinite where a target was not met."""
    sizes = {"n": 300, "p": 200} if given.quick else {}
    keys = [
        (ridge, name, which, target)
        for ridge in given.ridges
        for name in present
        for which in range(len(DEFINITIONS))
        for target in TARGETS
    ]
    passes: dict[tuple[float, str, int, float], list[float]] = {key: [] for key in keys}
    for seed in range(given.seeds or (3 if given.quick else 20)):
        model = ls.datasets.steep_spectrum(seed, **sizes)
        B = model.draw(np.random.default_rng(seed))[:, None]
        for ridge in given.ridges:
            best = by_cholesky(model.A, B, ridge)
            least = objective(model.A, B, best, ridge)
            scales = (least, above(model.A, np.zeros_like(best), best, ridge))
            for name in present:
                watch = Watch(model.A, best, ridge, scales)
                problem = ls.LeastSquares(model.A, B, ridge=ridge)
                options = {"tol": 1e-15, "form": "implicit", "max_iterations": given.max_iterations}
                ls.solve(problem, name, rng=seed, callback=watch, **options)
                for which in range(len(scales)):
                    for target in TARGETS:
                        passes[ridge, name, which, target].append(watch.met.get((which, target), math.inf))
    return passes


if __name__ == "__main__":
    main()
