"""Print how often the permutation test finds too many canonical correlations, and how often the right number.

Run `python asv_bench/measure_permutation.py`; `--quick` takes few replicates. No data are needed: rows are drawn with
known correlations, of normal or of t-distributed columns, and tested at 5 % by Wilks' statistic with 99 permutations,
as published (earlier pairs dropped) and as linspec does (permuted variates projected off the removed ones).
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import linspec as ls

SETTINGS: tuple[tuple[int, int, int, tuple[float, ...], int], ...] = (
    (40, 10, 8, (), 0),
    (40, 10, 8, (), 2),
    (40, 10, 8, (0.9,), 0),
    (40, 10, 8, (0.9,), 2),
    (40, 10, 8, (0.5,), 0),
    (40, 10, 8, (0.95, 0.9), 0),
    (30, 10, 10, (0.99, 0.95), 0),
    (100, 10, 8, (0.9, 0.7), 0),
    (200, 10, 8, (0.9, 0.7, 0.5), 0),
)
"""Rows, columns, columns, correlations, degrees of freedom of the t-distribution (0: normal)."""


def draw(
    seed: int, n: int, p: int, q: int, rho: tuple[float, ...], freedom: int
) -> tuple[np.ndarray, np.ndarray]:
    """Two views of so many rows."""
    rng = np.random.default_rng(seed)
    X, Y = (rng.standard_t(freedom, (n, c)) if freedom else rng.standard_normal((n, c)) for c in (p, q))
    for i, r in enumerate(rho):
        Y[:, i] = r * X[:, i] + np.sqrt(1 - r**2) * Y[:, i]
    return X, Y


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few replicates")
    parser.add_argument("--replicates", type=int, default=1000)
    given = parser.parse_args()
    replicates = 10 if given.quick else given.replicates
    print(
        "| rows | columns | pairs | rows are | too many, published | projected | right, published | projected | ms |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for n, p, q, rho, freedom in SETTINGS:
        counts: dict[bool, list[int]] = {False: [], True: []}
        seconds = 0.0
        for seed in range(replicates):
            X, Y = draw(seed, n, p, q, rho, freedom)
            for projected, found in counts.items():
                begin = time.process_time()
                test = ls.permutation_test(ls.CCA(X, Y), permutations=99, projected=projected, rng=seed)
                seconds += (time.process_time() - begin) * projected
                found.append(test.components())
        many, right = (
            [100 * np.mean([compare(c, len(rho)) for c in counts[which]]) for which in (False, True)]
            for compare in (int.__gt__, int.__eq__)
        )
        kind = f"t({freedom})" if freedom else "normal"
        pairs = ", ".join(f"{r:g}" for r in rho) or "none"
        print(
            f"| {n} | {p} + {q} | {pairs} | {kind} | {many[0]:.1f} % | {many[1]:.1f} % | {right[0]:.1f} % | "
            f"{right[1]:.1f} % | {1000 * seconds / replicates:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
