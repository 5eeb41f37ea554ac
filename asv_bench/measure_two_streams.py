"""Print what canonical correlations, and least squares, take of two streams.

Run `python asv_bench/measure_two_streams.py`; `--quick` takes a hundredth of the size, `--gigabytes` another one.
Nothing is stored: slices of X (200 columns, 2048 rows) and of Y (150 columns, 1536 rows) are made as
they are asked for, always the same ones. Five columns of each have a factor in common, with a correlation of .9. Every
line is a fresh process whose peak resident set is its own.

data: two callables, or two iterators, which can be read once. correlations: the largest distance of those found from
.9, of which chance makes about one over the root of the rows. memory: megabytes, those of the imports included.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

COLUMNS, SLICES, SHARED = (200, 150), (2048, 1536), 5
RUNS = (
    ("cca", "gram", "callables"),
    ("cca", "gram", "iterators"),
    ("cca", "lobpcg", "callables"),
    ("least-squares", "cg", "callables"),
    ("least-squares", "cg", "iterators"),
)


def main() -> None:
    """Measure and print."""
    from datasets import arguments
    from least_squares_law import print_head, print_row

    parser = arguments(__doc__ or "")
    parser.add_argument("--gigabytes", type=float, default=20.0)
    given = parser.parse_args()
    size = given.gigabytes / (100 if given.quick else 1)
    print(f"{size:g} GB in float64")
    print_head(
        "problem",
        "solver",
        "data",
        "passes",
        "seconds",
        "CPU",
        "memory",
        "correlations",
        "residual",
        "status",
    )
    for run in RUNS:
        found = child(*run, size)
        figures = (f"{found[name]:.0f}" for name in ("seconds", "cpu", "memory"))
        print_row(
            (*run, f"{found['passes']:g}", *figures, found["distance"], found["residual"], found["status"])
        )


def child(problem: str, solver: str, kind: str, size: float) -> dict[str, Any]:
    """One run in a process of its own."""
    command = [sys.executable, str(Path(__file__).resolve()), "--child", problem, solver, kind, str(size)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # this file
    if run.returncode:
        sys.stderr.write(run.stderr)
        raise SystemExit(1)
    return dict(json.loads(run.stdout))


def measured(problem: str, solver: str, kind: str, size: float) -> dict[str, Any]:
    """Seconds, memory and accuracy of one run."""
    import resource

    import numpy as np

    import linspec as ls

    # As many rows as slices of both sizes fill.
    rows = 6144 * max(1, round(size * 1e9 / (8 * sum(COLUMNS) * 6144)))
    streams = [slices(view, rows) for view in (0, 1)]
    X, Y = streams if kind == "callables" else (stream() for stream in streams)
    stated: Any = ls.CCA(X, Y, k=SHARED, ridge=1.0) if problem == "cca" else ls.LeastSquares(X, Y, ridge=1.0)
    cpu, begin = time.process_time(), time.perf_counter()
    found: Any = ls.solve(stated, solver, rng=0)
    distance = f"{np.abs(found.correlations - 0.9).max():.0e}" if problem == "cca" else ""
    return {
        "seconds": time.perf_counter() - begin,
        "cpu": time.process_time() - cpu,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "passes": found.passes,
        "distance": distance,
        "residual": f"{found.residual:.0e}",
        "status": found.status.name,
    }


def slices(view: int, rows: int) -> Callable[[], Iterator[Any]]:
    """Slices of one view, the same at every call, one after the other in the same memory."""
    import numpy as np

    columns, height = COLUMNS[view], SLICES[view]

    def made() -> Iterator[Any]:
        shared, own = np.random.default_rng(7), np.random.default_rng(view)
        block = np.empty((height, columns))
        for _ in range(0, rows, height):
            own.standard_normal(out=block)
            block[:, :SHARED] += 3.0 * shared.standard_normal((height, SHARED))  # 9 of 10 of the variance
            yield block

    return made


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(measured(*sys.argv[2:5], float(sys.argv[5]))))
    else:
        main()
