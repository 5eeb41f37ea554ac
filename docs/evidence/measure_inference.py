"""Print the size of the tests of canonical correlations, and what permutations and bootstrap draws cost.

Run `python docs/evidence/measure_inference.py`; `--quick` takes few sets. Without `--data` rows are drawn with known
correlations. "size": how often the tests of `linspec.significance` reject at 5 % that there is any pair, of normal rows
without one, and that there is a second pair beside one of .8. "columns": how often parallel analysis, the permutation
test of an SVD, finds at 5 % more components than were planted, with each statistic; one factor of several strengths
stands in all columns or in two. "wide": the seconds that `linspec.permutation_test` takes
to refuse 8000 x 5500 + 5500, and for each permutation of 4000 x 1500 + 1500. "draws" (`--data FOLDER`): CPU seconds of
each permutation and each draw of the bootstrap for word counts of titles and queries, k = 10, ridge 1. Coverage of the
bootstrap: `measure_bootstrap.py`.
"""

from __future__ import annotations

import sys

import numpy as np
from datasets import correlated_rows, titles_and_queries
from showing import Report, arguments
from timing import Stopwatch, timed

import linspec as ls
from linspec.errors import LinspecError

STATISTICS = ("wilks", "bartlett", "pillai", "hotelling_lawley", "tracy_widom", "roy")

SIZES: tuple[tuple[int, int, int, int], ...] = ((40, 6, 4, 0), (100, 10, 8, 0), (100, 10, 8, 5))
"""Rows, columns, columns, confounds."""


def size(report: Report, replicates: int) -> None:
    """How often the first hypothesis that holds is rejected at 5 %."""
    shares = (f"{name}::.1f" for name in STATISTICS)
    title = f"size in % of {replicates} sets, at 5 %"
    table = report.table("rows", "columns", "confounds", "pairs", *shares, "CPU ms::.1f", title=title)
    for n, p, q, c in SIZES:
        for rho in ((), (0.8,)):
            rng, rejected, watch = np.random.default_rng(0), [], Stopwatch()
            for _ in range(replicates):
                X, Y = correlated_rows(rng, n, p, q, rho)
                Z = rng.standard_normal((n, c)) if c else None
                if Z is not None:
                    X, Y = X + Z @ np.ones((c, p)), Y + Z @ np.ones((c, q))
                with watch:
                    test = ls.significance(ls.CCA(X, Y, confounds=Z))
                rejected.append([getattr(test, name).p_values[len(rho)] <= 0.05 for name in STATISTICS])
            pairs = ", ".join(f"{r:g}" for r in rho) or "none"
            found = 100 * np.mean(rejected, axis=0)
            table.row(n, f"{p} + {q}", c, pairs, *found, 1000 * watch.cpu / replicates)


def columns(report: Report, replicates: int) -> None:
    """How often parallel analysis finds at 5 % the planted component, and how often more than there are."""
    title = f"components found in % of {replicates} sets, at 5 %"
    table = report.table("data", "statistic", "the planted one::.1f", "more than planted::.1f", title=title)
    for n, p, in_columns in ((100, 20, 20), (100, 20, 2), (50, 100, 100)):
        for strength in (0.0, 0.5, 0.8, 1.5):
            found: dict[str, list[int]] = {"ranked": [], "largest": []}
            for seed in range(replicates):
                rng = np.random.default_rng(seed)
                A = rng.standard_normal((n, p))
                A[:, :in_columns] += 2 * strength / np.sqrt(in_columns) * rng.standard_normal((n, 1))
                for statistic, counts in found.items():
                    problem = ls.SVD(A, k=3, center=True)
                    test = ls.permutation_test(
                        problem, "gram", permutations=19, statistic=statistic, rng=seed
                    )
                    counts.append(test.components())
            name = f"{n} x {p}, strength {strength:g} in {in_columns}"
            for statistic, counts in found.items():
                planted = int(strength > 0)
                shares = [100 * np.mean(np.array(counts) > least) for least in (0, planted)]
                table.row(name, statistic, *shares)


def wide(report: Report, *, quick: bool) -> None:
    """Show the time of a permutation test on all columns, or its refusal."""
    table = report.table("", "CPU s before the first::.1f", "CPU s a permutation::.2f", "said")
    for n, p in ((800, 550), (400, 150)) if quick else ((8000, 5500), (4000, 1500)):
        rng, name = np.random.default_rng(0), f"{n} x {p} + {p}"
        problem = ls.CCA(rng.standard_normal((n, p)), rng.standard_normal((n, p)), k=1)
        try:
            once, thrice = (
                timed(ls.permutation_test, problem, permutations=999 if 2 * p > n else count, rng=0)[1].cpu
                for count in (1, 3)
            )
        except LinspecError as refused:
            table.row(name, "", "", str(refused))
            continue
        each = (thrice - once) / 2
        table.row(name, once - each, each)


def cost_of_draws(report: Report, draws: int) -> None:
    """CPU seconds of each permutation and of each draw on titles and queries."""
    problem = ls.CCA(*titles_and_queries(report.given), 10, ridge=1.0, center=False)
    table = report.table("titles x queries", "CPU s each::.2f", "found")
    solution, watch = timed(ls.solve, problem, "lobpcg", rng=0, tol=1e-4)
    table.row("solve", watch.cpu, str(solution))
    found, watch = timed(ls.bootstrap, problem, "lobpcg", solution=solution, draws=draws, rng=0, tol=1e-4)
    table.row("bootstrap", watch.cpu / draws, str(found))
    null, watch = timed(ls.null_correlations, problem, "lobpcg", permutations=draws, rng=0, tol=1e-4)
    table.row("null_correlations", watch.cpu / draws, f"{null.max():.4f}")


def main() -> int:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--parts", nargs="+", default=["size", "columns", "wide", "draws"])
    parser.add_argument(
        "--replicates", type=int, default=1000, help="sets of rows for the size; a fifth for the columns"
    )
    report = Report(parser)
    given = report.given
    if "size" in given.parts:
        size(report, 5 if given.quick else given.replicates)
    if "columns" in given.parts:
        columns(report, 2 if given.quick else given.replicates // 5)
    if "wide" in given.parts:
        wide(report, quick=given.quick)
    if "draws" in given.parts:
        cost_of_draws(report, 2 if given.quick else 3)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
