"""Print how well gradkcca finds the columns that matter, what it takes, and the same of the published search.

Run `python asv_bench/measure_preimage.py --seeds 20`; `--quick` takes few seeds and rows. Data are those of Uurtio,
Bhadra & Rousu 2019: X and Y uniform from -1 to 1, Y1 = f(X1 + X2) - Y2 and noise of .05, split into two thirds for
training, z-scored by these. F1 is that of the entries above .05 of the largest, mean of both views, where the first two
columns are the true ones. Correlations are centred. A sweep is one of each view. The published search has the published
bound, |u|1 at most 1, and the published end. One thread: set OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import linspec as ls
from linspec_kernel import PreimageCCA

SQUARE, LINEAR = ls.kernels.polynomial(2, 0.0), ls.kernels.linear()
"""Kernels of the two relations."""

PUBLISHED = {"starts": "uniform", "search": "alternating", "together": False, "sample": 0}
"""Options of the published search: one random start after the other, u and v in turn."""


def algebraic(n: int, p: int, f: Callable[[Any], Any], seed: int) -> tuple[list[Any], list[Any]]:
    """Training rows and test rows of both views."""
    rng = np.random.default_rng([seed, n, p])
    X, Y = rng.uniform(-1, 1, (n, p)), rng.uniform(-1, 1, (n, p))
    Y[:, 0] = f(X[:, :2].sum(axis=1)) - Y[:, 1] + 0.05 * rng.standard_normal(n)
    train = 2 * n // 3
    X, Y = ((A - A[:train].mean(axis=0)) / A[:train].std(axis=0) for A in (X, Y))
    return [X[:train], Y[:train]], [X[train:], Y[train:]]


def f1(support: Any) -> float:
    """Of columns 0 and 1."""
    true = np.zeros(len(support), dtype=bool)
    true[:2] = True
    return float(2 * (support & true).sum() / (support.sum() + 2))


def one(
    train: list[Any], test: list[Any], kernel: Any, bound: Any, seed: int, options: dict[str, Any]
) -> list[float]:
    """F1, correlations on training and test rows, sweeps, agreeing starts, CPU seconds."""
    problem = PreimageCCA(*train, 1, kernel, bound_x=bound)
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = ls.solve(problem, "gradkcca", rng=seed, **options)
    seconds = time.process_time() - begin
    x, y = found.supports()
    shares = [f1(side[:, 0]) for side in (x, y)]
    return [
        float(np.mean(shares)),
        float(found.correlations[0]),
        float(found.score(*test).correlations[0]),
        found.passes,
        float(found.agreeing[0]),
        seconds,
        float(found.converged),
    ]


HEAD = "| data | method | seeds | F1 | train | test | sweeps | agreeing starts | CPU s | converged |"


def line(data: str, method: str, rows: list[list[float]]) -> None:
    """The medians and the worst of some seeds."""
    table = np.array(rows)
    middle = np.median(table, axis=0)
    worst = table.min(axis=0)
    worst[[3, 5]] = table[:, [3, 5]].max(axis=0)
    cells = [f"{a:.3g} ({b:.3g})" for a, b in zip(middle, worst, strict=True)]
    cells[0] = f"{middle[0]:.3g}, mean {table[:, 0].mean():.3g} ({worst[0]:.3g})"
    print(f"| {data} | {method} | {len(rows)} | {' | '.join(cells)} |", flush=True)


def relations(seeds: int, quick: bool, published: bool) -> None:
    """Median and worst of seeds, for both relations and some numbers of columns."""
    print(f"{HEAD}\n|{'---|' * 10}")
    ratio = ("ratio", 1.5)
    for name, f, kernel, sizes in (
        ("t², quadratic kernel", np.square, SQUARE, (10, 50, 100)),
        ("exp, linear kernel", np.exp, LINEAR, (10, 50, 100)),
    ):
        for p in sizes[:1] if quick else sizes:
            data = [algebraic(1000, p, f, seed) for seed in range(seeds)]
            rows = [one(*parts, kernel, ratio, seed, {}) for seed, parts in enumerate(data)]
            line(f"{name}, p = {p}", "gradkcca, ratio 1.5", rows)
            if published:
                rows = [one(*parts, kernel, ("l1", 1.0), seed, PUBLISHED) for seed, parts in enumerate(data)]
                line(f"{name}, p = {p}", "published, l1 = 1", rows)


def growth(seeds: int, most: int, rival: int) -> None:
    """CPU seconds and sweeps with the number of rows, beside the published search up to `rival` of them."""
    print(f"\nRows (t², p = 10, 8 starts)\n{HEAD}\n|{'---|' * 10}")
    n, ratio = 1000, ("ratio", 1.5)
    while n <= most:
        count = seeds if n <= 10_000 else min(seeds, 3)
        data = [algebraic(3 * n // 2, 10, np.square, seed) for seed in range(count)]
        ways: list[tuple[str, Any, dict[str, Any]]] = [("gradkcca, ratio 1.5", ratio, {})]
        if n <= rival:
            ways.append(("the same, starts on all rows", ratio, {"sample": 0}))
            ways.append(("published, l1 = 1", ("l1", 1.0), PUBLISHED))
        for label, bound, options in ways:
            rows = [one(*parts, SQUARE, bound, seed, options) for seed, parts in enumerate(data)]
            line(f"n = {n:,}", label, rows)
        n *= 10


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--most", type=int, default=1_000_000, help="training rows of the largest data")
    parser.add_argument(
        "--rival", type=int, default=10_000, help="rows up to which the published search runs"
    )
    parser.add_argument("--without-published", action="store_true")
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    if given.quick:
        given.seeds, given.most, given.rival = 2, 1000, 1000
    relations(given.seeds, given.quick, not given.without_published)
    growth(min(given.seeds, 5), given.most, given.rival)


if __name__ == "__main__":
    main()
