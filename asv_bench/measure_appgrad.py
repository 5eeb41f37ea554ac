"""Print whether AppGrad's default steps are stable: every data set at hand, both updates, centred and not.

Run `python asv_bench/measure_appgrad.py --data FOLDER`; `--quick` takes small generated data instead.

A run is stable when its residual never rises above twice the highest of its first five, and falls in the end. The sum
of the correlations after 300 iterations stands beside the exact one where `gram` can give it.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from datasets import arguments, bigrams, mnist_halves, titles_and_queries

import linspec as ls

ITERATIONS = 300


def main() -> None:
    """Measure and print."""
    given = arguments(main.__doc__ or "").parse_args()
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    halves = mnist_halves(given)
    scaled = tuple(view * np.geomspace(1, 1e3, view.shape[1]) for view in halves)
    float32 = tuple(view.astype(np.float32) for view in halves)
    noise = rng.standard_normal((2000, 60)), rng.standard_normal((2000, 40))
    n = halves[0].shape[0]
    show("halves of digits", halves, 0.005 * n, exact=True)
    show("the same, columns scaled by 1 to 1000", scaled, 0.005 * n, exact=True)
    show("the same, float32", float32, 0.005 * n, exact=True)
    show("independent noise", noise, 1.0, exact=True)
    show("words and next words", bigrams(given), 1.0, exact=False)
    show("titles and queries", titles_and_queries(given), 1.0, exact=False)


def show(name: str, views: tuple[Any, Any], ridge: float, exact: bool) -> None:
    """One data set: a line for each update and centring."""
    print(name)
    for center in (False, True):
        problem = ls.CCA(*views, 20, ridge=ridge, center=center)
        best = f"{ls.solve(problem, 'gram').correlations.sum():.4f}" if exact else "not computed"
        for update in ("simultaneous", "alternating"):
            begin = time.perf_counter()
            s = ls.solve(problem, "appgrad", update=update, rng=0, max_iterations=ITERATIONS)
            residuals = s.history["residual"]
            stable = residuals.max() <= 2 * residuals[:5].max() and residuals[-1] < residuals[:5].max()
            print(
                f"  center={center!s:5s} {update:12s} {'stable' if stable else 'NOT STABLE':10s} residual "
                f"{residuals[0]:.1e} -> {residuals[-1]:.1e} in {s.iterations} iterations; sum "
                f"{s.correlations.sum():8.4f} of {best}; {time.perf_counter() - begin:.1f} s"
            )


if __name__ == "__main__":
    main()
