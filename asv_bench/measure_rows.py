"""What weights and confounds cost, and partial canonical correlations beside another program's.

Run `OPENBLAS_NUM_THREADS=1 python asv_bench/measure_rows.py --data FOLDER`. The first table compares processor time: a
solve with weights, and one with weights and three confounds, over the same solve without, in alternating turns; printed
are the median ratio, the least and the largest. The passes are those of all three. The second table, where cca-zoo is
installed, compares partial correlations on planted data with `cca_zoo.linear.PartialCCA`: the largest difference over
some seeds, and the seconds of both.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from datasets import arguments, images, mnist_halves, newsgroups, titles_and_queries

TURNS, SEEDS, CONFOUNDS = 9, 5, 3

Make = Callable[..., Any]


def solves(given: Any) -> Iterator[tuple[str, int, Callable[..., Any]]]:
    """Name, rows, and a function of `sample_weight` and `confounds` that solves."""
    import linspec as ls

    def solve(make: Make, solver: str, **options: Any) -> Callable[..., Any]:
        return lambda **rows: ls.solve(make(**rows), solver, rng=0, **options)

    left, right = mnist_halves(given)
    yield (
        "gram, images",
        left.shape[0],
        solve(lambda **rows: ls.CCA(left, right, 20, ridge=300.0, **rows), "gram"),
    )
    yield (
        "lobpcg, images, swept",
        left.shape[0],
        solve(
            lambda **rows: ls.CCA(left, right, 20, ridge=300.0, **rows),
            "lobpcg",
            form="implicit",
            max_passes=5,
        ),
    )
    some = images(given)[:20000]
    yield (
        "block-krylov, images",
        20000,
        solve(lambda **rows: ls.SVD(some, 10, center=True, **rows), "block-krylov", max_passes=8),
    )
    X, Y = titles_and_queries(given)
    yield (
        "lobpcg, titles, held",
        X.shape[0],
        solve(
            lambda **rows: ls.CCA(X, Y, 20, ridge=100.0, **rows), "lobpcg", max_iterations=8, form="sparse"
        ),
    )
    yield (
        "lobpcg, titles, swept",
        X.shape[0],
        solve(lambda **rows: ls.CCA(X, Y, 20, ridge=100.0, **rows), "lobpcg", form="implicit", max_passes=6),
    )
    words, groups = newsgroups(given)
    yield (
        "cg, newsgroups",
        words.shape[0],
        solve(
            lambda **rows: ls.LeastSquares(words, groups, ridge=1.0, center=True, **rows),
            "cg",
            max_iterations=12,
        ),
    )


def measure_cost(given: Any) -> None:
    """Print the ratios of processor time."""
    say(f"{'solve':24s} {'weights':>22s} {'weights, confounds':>22s}  passes")
    for name, n, solve in solves(given):
        rng = np.random.default_rng(0)
        w, Z = rng.integers(0, 4, n).astype(float), rng.standard_normal((n, CONFOUNDS))
        rows: list[dict[str, Any]] = [{}, {"sample_weight": w}, {"sample_weight": w, "confounds": Z}]
        passes = [solve(**each).passes for each in rows]
        ratios: list[list[float]] = [[], []]
        for turn in range(given.turns):
            seconds = [0.0] * 3
            for i in (0, 1, 2) if turn % 2 else (2, 1, 0):
                start = time.process_time()
                solve(**rows[i])
                seconds[i] = time.process_time() - start
            for i in (1, 2):
                ratios[i - 1].append(seconds[i] / seconds[0])
        told = [f"{np.median(r):.2f} ({min(r):.2f} to {max(r):.2f})" for r in ratios]
        say(f"{name:24s} {told[0]:>22s} {told[1]:>22s}  {passes}")


def measure_partial(seeds: int) -> None:
    """Print differences from another program."""
    import linspec as ls

    try:
        from cca_zoo.linear import PartialCCA
    except ImportError:
        say("cca-zoo is not installed: partial correlations are not compared.")
        return
    for n, p, q, c in ((400, 6, 5, 3), (20000, 200, 100, 10)):
        worst, ours, theirs = 0.0, [], []
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            Z, shared = rng.standard_normal((n, c)), rng.standard_normal((n, 3))
            X, Y = (
                shared @ rng.standard_normal((3, m))
                + Z @ rng.standard_normal((c, m))
                + rng.standard_normal((n, m))
                for m in (p, q)
            )
            start = time.perf_counter()
            model = PartialCCA(n_components=3).fit([X, Y], partials=Z)
            theirs.append(time.perf_counter() - start)
            A, B = model.transform([X, Y], partials=Z)
            wanted = [np.corrcoef(a, b)[0, 1] for a, b in zip(A.T, B.T, strict=True)]
            start = time.perf_counter()
            found = ls.solve(ls.CCA(X, Y, 3, confounds=Z), "gram").correlations
            ours.append(time.perf_counter() - start)
            worst = max(worst, float(np.abs(found - wanted).max()))
        say(
            f"{n} x ({p} + {q}), {c} confounds: largest difference {worst:.1e}; seconds, median: linspec "
            f"{np.median(ours):.3f}, cca-zoo {np.median(theirs):.3f}"
        )


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    """Both tables."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    measure_partial(given.seeds)
    measure_cost(given)
    return 0


if __name__ == "__main__":
    sys.exit(main())
