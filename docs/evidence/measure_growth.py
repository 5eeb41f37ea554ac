"""Print how time and memory grow with rows, columns, entries, components, ridges and threads, one at a time.

    python docs/evidence/measure_growth.py [--quick] [--rounds 5]

Truncated SVD of random sparse rows, 40,000 x 10,000 with twenty entries each, ten components, and paths of ridges on
the same rows, by the solvers that "auto" takes for them; for threads, of OpenBLAS as of linspec, Gram matrices of dense
rows. One number is doubled again and again, the others stay. Each solve runs in a process of its own. Printed are
medians: seconds of the processor and of the clock, MiB beyond the data, passes, and the exponents e of time and memory
between this size and the last: doubling the number takes 2^e of the time, that of the clock for threads.
"""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse
from showing import Measured, Report, Rows, arguments, at_most
from timing import Peak, apart

os.environ["OPENBLAS_THREAD_TIMEOUT"] = "4"  # else its idle threads keep the cores busy
BASE = {"rows": 40_000, "columns": 10_000, "entries": 20, "components": 10, "ridges": 1, "threads": 1}
SIZES = {
    "rows": (10_000, 20_000, 40_000, 80_000, 160_000),
    "columns": (2500, 5000, 10_000, 20_000, 40_000),
    "entries": (5, 10, 20, 40, 80),
    "components": (5, 10, 20, 40, 80),
    "ridges": (1, 2, 4, 8, 16, 32),
    "threads": (1, 2),
}
STRAIGHT = 1.3
"""The largest exponent of a time that grows about like a number."""


def solved(what: str, size: int, quick: bool, seed: int) -> dict[str, Any]:
    """One solve in this process, which has its own number of threads."""
    sizes = {**BASE, what: size}
    import linspec as ls

    warnings.simplefilter("ignore")
    n, p = sizes["rows"] // (20 if quick else 1), sizes["columns"] // (20 if quick else 1)
    rng = np.random.default_rng(seed)
    if what == "threads":
        A, solver = rng.standard_normal((n, 400)), "gram"
        problem: Any = ls.SVD(A, 10, center=True)
    else:
        entries = min(sizes["entries"], p // 4)
        words = (p * rng.random(n * entries) ** 2).astype(np.int64)
        A = scipy.sparse.csr_array(
            (rng.random(words.size) + 0.5, words, np.arange(0, words.size + 1, entries)), (n, p)
        )
        A.sum_duplicates()
        solver = "block-krylov"
        problem = ls.SVD(A, min(sizes["components"], p // 4))
    if what == "ridges":
        b, solver = A @ rng.standard_normal(p) + rng.standard_normal(n), "cg"
        problem = ls.LeastSquares(A, b, ridge=np.geomspace(1.0, 100.0, size).tolist())
    ls.solve(ls.SVD(np.eye(30), 2))  # what is imported at the first solve
    with Peak() as peak:
        found = ls.solve(problem, solver, rng=0)
    return {"cpu": peak.watch.cpu, "clock": peak.watch.clock, "memory": peak.memory, "passes": found.passes}


def growth(report: Report) -> Measured:
    """Rows of the table: each number in turn."""
    for what, sizes in SIZES.items():
        before: dict[str, float] = {}
        for size in sizes:
            for name in ("OPENBLAS_NUM_THREADS", "LINSPEC_NUM_THREADS"):
                os.environ[name] = str(size if what == "threads" else 1)
            rounds = [
                apart(solved, what, size, report.given.quick, seed) for seed in range(report.given.rounds)
            ]
            now = {name: float(np.median([one[name] for one in rounds])) for name in rounds[0]}
            timed = "clock" if what == "threads" else "cpu"
            yield what, size, *now.values(), exponent(now, before, timed), exponent(now, before, "memory")
            before = now


def exponent(now: dict[str, float], before: dict[str, float], name: str) -> float:
    """By what power of two a figure has grown."""
    return math.log2(now[name] / before[name]) if before and min(now[name], before[name]) > 0 else math.nan


def claims(rows: Rows) -> Iterator[Any]:
    """Times grow about like rows, columns and entries, and ridges cost little."""
    for what, most in (("rows", STRAIGHT), ("columns", STRAIGHT), ("entries", STRAIGHT), ("ridges", 0.5)):
        some = rows.where(what=what)
        doubled = math.log2(some[-1]["size"] / some[0]["size"])
        mean = math.log2(some[-1]["cpu"] / some[0]["cpu"]) / doubled
        yield at_most(
            f"time grows with {what} by a power of at most {most}", mean, most, "{value:.2f}", own=True
        )


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    report = Report(parser)
    columns = "what size cpu::.3f clock::.3f memory::.1f passes::.0f e_time::.2f e_memory::.2f"
    rows = report.rows("growth", columns, growth(report))
    report.say(claims(rows) if not report.given.quick else ())
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
