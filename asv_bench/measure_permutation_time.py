"""Print how long a permutation test says that it will take, and how long it takes.

Run `OPENBLAS_NUM_THREADS=1 python asv_bench/measure_permutation_time.py`; `--quick` takes small shapes. No data are
needed. For each shape a test is asked for with a `max_seconds` that refuses it, so that the message gives the estimates
for the bases and for each permutation. Then the test runs with one permutation and with more: the difference is what a
permutation takes, the rest is what the bases take. Seconds are those of the processor; ratios are estimate over
measured. The last column is the rate of a product of two square matrices beside the one that estimates assume.
"""

from __future__ import annotations

import argparse
import re
import time

import numpy as np

import linspec as ls
from linspec import cost
from linspec.errors import NoSuitableSolver

SHAPES = ((4000, 300, 200), (3000, 600, 600), (4000, 1000, 1000), (4000, 1500, 1500), (20000, 800, 400))
QUICK = ((400, 60, 40), (500, 150, 150))

UNITS = {"ms": 1e-3, "s": 1.0, "h": 3600.0}


def stated(problem: ls.CCA) -> tuple[float, float]:
    """The estimates for the bases and for each permutation."""
    try:
        ls.permutation_test(problem, permutations=10**6, max_seconds=1e-3)
    except NoSuitableSolver as refused:
        time_of = r"(?:under )?([\d.]+) (ms|s|h)"
        found = re.search(f"about {time_of} for the bases and {time_of} for each", str(refused))
        assert found is not None
        return float(found[1]) * UNITS[found[2]], float(found[3]) * UNITS[found[4]]
    raise AssertionError("the test was not refused")


def taken(problem: ls.CCA, permutations: int) -> float:
    """CPU seconds of a test."""
    began = time.process_time()
    ls.permutation_test(problem, permutations=permutations, max_seconds=np.inf, rng=0)
    return time.process_time() - began


def rate() -> float:
    """Operations a second of the processor in a product of two matrices of order 1000."""
    A = np.random.default_rng(0).standard_normal((1000, 1000))
    times = []
    for _ in range(4):
        began = time.process_time()
        A @ A[::-1]
        times.append(time.process_time() - began)
    return 2e9 / min(times)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small shapes")
    parser.add_argument("--more", type=int, default=4, help="permutations beside the first")
    given = parser.parse_args()
    print(
        "| shape | bases: said, s | measured, s | ratio | permutation: said, s | measured, s | ratio | rate |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for n, p, q in QUICK if given.quick else SHAPES:
        rng = np.random.default_rng(0)
        problem = ls.CCA(rng.standard_normal((n, p)), rng.standard_normal((n, q)))
        said = stated(problem)
        count = given.more * max(1, round(5e9 / (n * p * q)))
        one, more = taken(problem, 1), taken(problem, 1 + count)
        each = (more - one) / count
        before = one - each
        print(
            f"| {n} x {p} + {q} | {said[0]:.3g} | {before:.3g} | {said[0] / before:.2f} | {said[1]:.3g} | {each:.3g} | "
            f"{said[1] / each:.2f} | {rate() / cost.DENSE_RATE:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
