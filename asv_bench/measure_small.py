"""Print what a solve of a small problem takes: by "auto", by the name of the solver that it chooses, and elsewhere.

Run `OPENBLAS_NUM_THREADS=1 python asv_bench/measure_small.py`; `--quick` makes few calls. No data are needed. The calls
alternate, so that a slow spell of the machine falls on all of them; the figures are medians of milliseconds of the
processor. scikit-learn fits the same data.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.cross_decomposition import CCA
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge

import linspec as ls


def problems() -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """What makes each problem, and what scikit-learn does."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 10))
    Y = X[:, :8] + rng.standard_normal((200, 8))
    y = rng.integers(0, 3, 200)
    Z = X + rng.standard_normal((3, 10))[y]
    return {
        "CCA, 200 x 10 + 8": (
            lambda: ls.CCA(X, Y, k=3),
            lambda: CCA(n_components=3).fit(X, Y),
        ),
        "PCA, 200 x 10": (
            lambda: ls.SVD(X, k=3, center=True),
            lambda: PCA(n_components=3).fit(X),
        ),
        "ridge, 200 x 10": (
            lambda: ls.LeastSquares(X, Y[:, 0], ridge=1.0, center=True),
            lambda: Ridge(alpha=1.0).fit(X, Y[:, 0]),
        ),
        "LDA, 200 x 10": (
            lambda: ls.Discriminant(Z, ls.targets.lda(y), k=2),
            lambda: LinearDiscriminantAnalysis(n_components=2).fit(Z, y),
        ),
    }


def medians(calls: list[Callable[[], Any]], count: int) -> list[float]:
    """Median milliseconds of the processor of alternating calls."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(count):
        for call, taken in zip(calls, times, strict=True):
            began = time.process_time_ns()
            call()
            taken.append((time.process_time_ns() - began) / 1e6)
    return [statistics.median(taken) for taken in times]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few calls")
    given = parser.parse_args()
    count = 5 if given.quick else 200
    print('| problem | solver | stated, ms | by name | by "auto" | auto adds | scikit-learn |')
    print("|---|---|---|---|---|---|---|")
    for label, (make, other) in problems().items():
        name = ls.select(make()).name
        calls = [make, lambda: ls.solve(make(), name), lambda: ls.solve(make()), other]  # noqa: B023
        medians(calls, 3)
        stated, named, auto, theirs = medians(calls, count)
        print(
            f"| {label} | {name} | {stated:.2f} | {named:.2f} | {auto:.2f} | {auto - named:.2f} | {theirs:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
