"""Print what a stream that is read once takes: one pass over more rows than there is memory for.

Run `python asv_bench/measure_stream.py`; `--quick` takes a hundredth of the size, `--gigabytes` another one,
`--dtype` float32 or float64, `--solvers` a choice of them. Nothing is stored: slices of 8192 rows and 1000 columns are
made as they are asked for, ten planted factors of falling strength times random scores, noise of a tenth of the weakest
factor, and column means of a hundred. The noise is drawn once and added from another row on in every slice. Every line
is a fresh process whose peak resident set is its own; what had been resident after the imports is subtracted.

making them: the seconds that the slices alone take. GB/s: with that time, and without it. memory: megabytes beyond the
imports, of which the generator itself holds about a hundred. angle: sine of the largest angle between the right vectors
and the planted factors. estimated: what the solution says of its residual.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROWS, COLUMNS, FACTORS = 8192, 1000, 10


def main() -> None:
    """Measure and print."""
    from datasets import arguments
    from least_squares_law import print_head, print_row

    parser = arguments(__doc__ or "")
    parser.add_argument("--gigabytes", type=float, default=20.0)
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    parser.add_argument("--solvers", nargs="+", default=["lazy-spca", "spca", "gram"])
    given = parser.parse_args()
    size = given.gigabytes / (100 if given.quick else 1)
    making = child("", size, given.dtype)["seconds"]
    threads = os.environ.get("OPENBLAS_NUM_THREADS", "all")
    print(f"{size:g} GB of {given.dtype}, {threads} BLAS threads; the slices alone take {making:.1f} s")
    print_head(
        "solver", "passes", "seconds", "CPU", "GB/s", "less making", "memory", "angle", "estimated", "status"
    )
    for solver in given.solvers:
        found = child(solver, size, given.dtype)
        seconds = found["seconds"]
        print_row(
            (
                solver,
                f"{found['passes']:g}",
                f"{seconds:.1f}",
                f"{found['cpu']:.1f}",
                f"{size / seconds:.2f}",
                f"{size / max(seconds - making, 1e-9):.2f}",
                f"{found['memory']:.0f}",
                f"{found['angle']:.1e}",
                found["estimated"],
                found["status"],
            )
        )


def child(solver: str, size: float, dtype: str) -> dict[str, Any]:
    """One run in a process of its own; without a solver, the slices alone."""
    command = [sys.executable, str(Path(__file__).resolve()), "--child", solver, str(size), dtype]
    run = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # this file
    if run.returncode:
        sys.stderr.write(run.stderr)
        raise SystemExit(1)
    return dict(json.loads(run.stdout))


def measured(solver: str, size: float, dtype: str) -> dict[str, Any]:
    """Seconds, memory and accuracy of one run."""
    import resource

    import numpy as np

    import linspec as ls

    ls.solve(ls.SVD(np.random.default_rng(0).standard_normal((50, 9)), 2), solver or "gram")  # the imports

    def peak() -> float:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    before, cpu, begin = peak(), time.process_time(), time.perf_counter()
    rng = np.random.default_rng(0)
    factors = np.linalg.qr(rng.standard_normal((COLUMNS, FACTORS)))[0].T
    rows = slices(factors, size, dtype, rng)
    if not solver:
        for _ in rows:
            pass
        return {"seconds": time.perf_counter() - begin}
    found = ls.solve(ls.SVD(rows, FACTORS, center=True), solver, rng=1)
    seconds, used = time.perf_counter() - begin, time.process_time() - cpu
    V = np.asarray(found.Vh, dtype=np.float64).T
    said = re.search(r"estimated residual about (\S+)", found.message)
    return {
        "seconds": seconds,
        "cpu": used,
        "memory": peak() - before,
        "passes": found.passes,
        "angle": float(np.linalg.norm(V - factors.T @ (factors @ V), 2)),
        "estimated": said[1] if said else f"({found.residual:.0e})",
        "status": found.status.name,
    }


def slices(factors: Any, size: float, dtype: str, rng: Any) -> Iterator[Any]:
    """Slices of so many gigabytes in all, one after the other in the same memory."""
    import numpy as np

    strengths = np.linspace(30.0, 10.0, FACTORS)[:, None]
    # The means come as one more factor whose scores are all one.
    loadings = np.vstack([strengths * factors, 100.0 * rng.standard_normal((1, COLUMNS))]).astype(dtype)
    noise = rng.standard_normal((2 * ROWS, COLUMNS), dtype=np.dtype(dtype).type) * np.dtype(dtype).type(0.1)
    scores, block = np.ones((ROWS, FACTORS + 1), dtype), np.empty((ROWS, COLUMNS), dtype)
    for _ in range(max(1, round(size * 1e9 / block.nbytes))):
        scores[:, :-1] = rng.standard_normal((ROWS, FACTORS), dtype=np.float32)
        np.matmul(scores, loadings, out=block)
        start = int(rng.integers(ROWS))
        block += noise[start : start + ROWS]
        yield block


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(measured(sys.argv[2], float(sys.argv[3]), sys.argv[4])))
    else:
        main()
