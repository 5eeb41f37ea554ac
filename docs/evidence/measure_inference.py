"""Print the size of the tests of canonical correlations, and what permutations and bootstrap draws cost.

Run `python docs/evidence/measure_inference.py`; `--quick` takes few sets. Without `--data` rows are drawn with known
correlations. "size": how often the tests of `linspec.significance` reject at 5 % that there is any pair, of normal rows
without one, and that there is a second pair beside one of .8. "wide": the seconds that `linspec.permutation_test` takes
to refuse 8000 x 5500 + 5500, and for each permutation of 4000 x 1500 + 1500. "draws" (`--data FOLDER`): CPU seconds of
each permutation and each draw of the bootstrap for word counts of titles and queries, k = 10, ridge 1. Coverage of the
bootstrap: `measure_bootstrap.py`.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from datasets import arguments, titles_and_queries

import linspec as ls
from linspec.errors import LinspecError

STATISTICS = ("wilks", "bartlett", "pillai", "hotelling_lawley", "tracy_widom", "roy")

SIZES: tuple[tuple[int, int, int, int], ...] = ((40, 6, 4, 0), (100, 10, 8, 0), (100, 10, 8, 5))
"""Rows, columns, columns, confounds."""


def draw(
    rng: np.random.Generator, n: int, p: int, q: int, rho: tuple[float, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Normal rows with these correlations."""
    X, Y = rng.standard_normal((n, p)), rng.standard_normal((n, q))
    for i, r in enumerate(rho):
        Y[:, i] = r * X[:, i] + np.sqrt(1 - r**2) * Y[:, i]
    return X, Y


def size(replicates: int) -> None:
    """How often the first hypothesis that holds is rejected at 5 %."""
    print(f"size in % of {replicates} sets, at 5 %")
    print("| rows | columns | confounds | pairs | " + " | ".join(STATISTICS) + " | CPU ms |")
    print("|" + "---|" * (len(STATISTICS) + 5))
    for n, p, q, c in SIZES:
        for rho in ((), (0.8,)):
            rng, rejected, seconds = np.random.default_rng(0), [], 0.0
            for _ in range(replicates):
                X, Y = draw(rng, n, p, q, rho)
                Z = rng.standard_normal((n, c)) if c else None
                if Z is not None:
                    X, Y = X + Z @ np.ones((c, p)), Y + Z @ np.ones((c, q))
                begin = time.process_time()
                test = ls.significance(ls.CCA(X, Y, confounds=Z))
                seconds += time.process_time() - begin
                rejected.append([getattr(test, name).p_values[len(rho)] <= 0.05 for name in STATISTICS])
            found = " | ".join(f"{100 * share:.1f}" for share in np.mean(rejected, axis=0))
            pairs = ", ".join(f"{r:g}" for r in rho) or "none"
            print(
                f"| {n} | {p} + {q} | {c} | {pairs} | {found} | {1000 * seconds / replicates:.1f} |",
                flush=True,
            )


def wide(*, quick: bool) -> None:
    """What a permutation test on all columns takes, or how it refuses."""
    for n, p in ((800, 550), (400, 150)) if quick else ((8000, 5500), (4000, 1500)):
        rng = np.random.default_rng(0)
        problem = ls.CCA(rng.standard_normal((n, p)), rng.standard_normal((n, p)), k=1)
        taken = []
        for permutations in (1, 3):
            begin = time.process_time()
            try:
                ls.permutation_test(problem, permutations=999 if 2 * p > n else permutations, rng=0)
            except LinspecError as refused:
                print(f"{n} x {p} + {p}: refused after {time.process_time() - begin:.2f} CPU s: {refused}")
                break
            taken.append(time.process_time() - begin)
        if len(taken) == 2:
            each = (taken[1] - taken[0]) / 2
            print(f"{n} x {p} + {p}: {each:.2f} CPU s a permutation, {taken[0] - each:.1f} before the first")


def cost_of_draws(given: argparse.Namespace, draws: int) -> None:
    """CPU seconds of each permutation and of each draw on titles and queries."""
    X, Y = titles_and_queries(given)
    problem = ls.CCA(X, Y, 10, ridge=1.0, center=False)
    begin = time.process_time()
    solution = ls.solve(problem, "lobpcg", rng=0, tol=1e-4)
    print(f"titles x queries: solve {time.process_time() - begin:.2f} CPU s, {solution}")
    begin = time.process_time()
    found = ls.bootstrap(problem, "lobpcg", solution=solution, draws=draws, rng=0, tol=1e-4)
    print(f"bootstrap: {(time.process_time() - begin) / draws:.2f} CPU s a draw; {found}")
    begin = time.process_time()
    null = ls.null_correlations(problem, "lobpcg", permutations=draws, rng=0, tol=1e-4)
    print(
        f"null_correlations: {(time.process_time() - begin) / draws:.2f} CPU s a permutation; {null.max():.4f}"
    )


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--parts", nargs="+", default=["size", "wide", "draws"])
    parser.add_argument("--replicates", type=int, default=1000, help="sets of rows for the size")
    given = parser.parse_args()
    if "size" in given.parts:
        size(5 if given.quick else given.replicates)
    if "wide" in given.parts:
        wide(quick=given.quick)
    if "draws" in given.parts:
        cost_of_draws(given, 2 if given.quick else 3)


if __name__ == "__main__":
    main()
