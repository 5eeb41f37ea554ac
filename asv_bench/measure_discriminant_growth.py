"""Print how the seconds of `two-stage` grow with the rows and with the columns of texts.

Run `OPENBLAS_NUM_THREADS=1 python asv_bench/measure_discriminant_growth.py --data FOLDER`; `--quick` takes small
generated data, `--ridge`, `--rounds`, `--sweeps`, `--form` others. Rows, or columns, are a random choice, the smaller
contained in the larger, doubled up to all of them, so that the entries of X are about as many times more.

Passes change with the size: what is fitted is the time of one of a fixed number of them (`--sweeps`), set-up and
certificate included; beside it the whole run with the default tolerance. Each round runs every size once, so that all
meet the same machine; seconds are the least of the rounds. exponent: the slope of a straight line through the
logarithms.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from datasets import arguments, labelled
from discriminant_law import SEED, target
from least_squares_law import print_head, print_row

import linspec as ls

TECHNIQUES = {"newsgroups20": "lda", "reuters21578": "opls"}

UNREACHABLE = 1e-15
"""A tolerance with which the budget of passes ends a run."""


def main() -> None:
    """Measure and print."""
    parser = arguments(main.__doc__ or "")
    parser.add_argument("--sets", nargs="+", choices=list(TECHNIQUES), default=list(TECHNIQUES))
    parser.add_argument("--ridge", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sweeps", type=int, default=20, help="passes of the runs that are fitted (20)")
    parser.add_argument("--doublings", type=int, default=5, help="halvings of the whole (5)")
    parser.add_argument("--form", default="implicit", help="of the moments: implicit sweeps the data")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in given.sets:
        X, labels = labelled(given, name)
        for axis, what in enumerate(("rows", "columns")):
            show(given, name, what, [cut(X, labels, axis, 2**-j) for j in range(given.doublings, -1, -1)])


def cut(X: Any, labels: Any, axis: int, share: float) -> tuple[Any, Any]:
    """A share of the rows or of the columns."""
    count = round(share * X.shape[axis])
    chosen = np.sort(np.random.default_rng(SEED).permutation(X.shape[axis])[:count])
    return (X[chosen], labels[chosen]) if axis == 0 else (X[:, chosen].tocsr(), labels)


def show(given: argparse.Namespace, name: str, what: str, cuts: list[tuple[Any, Any]]) -> None:
    """One table."""
    technique = TECHNIQUES[name]
    problems = [ls.Discriminant(X, target(labels, technique), ridge=given.ridge) for X, labels in cuts]
    fixed, whole = ([Timed() for _ in cuts] for _ in range(2))
    for _ in range(given.rounds):
        for problem, few, full in zip(problems, fixed, whole, strict=True):
            few.run(problem, given.form, max_passes=given.sweeps, tol=UNREACHABLE)
            full.run(problem, given.form)
    print(f"\n{name}, {technique.upper()}, γ = {given.ridge:g}: {what}")
    print_head(
        what, "entries", "passes", "seconds", "CPU", "ms CPU a pass", "whole run: passes", "seconds", "CPU", "status"
    )  # fmt: skip
    for (X, _), few, full in zip(cuts, fixed, whole, strict=True):
        print_row(
            (
                X.shape[0 if what == "rows" else 1],
                X.nnz,
                f"{few.passes:g}",
                f"{few.seconds:.3f}",
                f"{few.cpu:.3f}",
                f"{1000 * few.cpu / few.passes:.2f}",
                f"{full.passes:g}",
                f"{full.seconds:.3f}",
                f"{full.cpu:.3f}",
                full.status,
            )
        )
    sizes = np.log([X.shape[0 if what == "rows" else 1] for X, _ in cuts])
    times = [[timed.seconds / timed.passes for timed in fixed], [timed.cpu / timed.passes for timed in fixed]]
    times += [[timed.seconds for timed in whole], [timed.cpu for timed in whole]]
    slopes = [np.polyfit(sizes, np.log(spent), 1)[0] for spent in times]
    told = [f"{slope:.2f}" for slope in slopes]
    print_row(("exponent", "", "", *told[:2], "", "", *told[2:], ""))


class Timed:
    """The least of several runs."""

    seconds = cpu = np.inf
    passes = 0.0
    status = ""

    def run(
        self, problem: ls.Discriminant, form: str, max_passes: float | None = None, **options: Any
    ) -> None:
        """Once more."""
        begin = time.perf_counter(), time.process_time()
        s = ls.solve(problem, "two-stage", rng=0, form=form, max_passes=max_passes, **options)
        self.cpu = min(self.cpu, time.process_time() - begin[1])
        self.seconds = min(self.seconds, time.perf_counter() - begin[0])
        self.passes, self.status = s.passes, s.status.name


if __name__ == "__main__":
    main()
