"""Print what CCA of wide sparse data takes: 100,000 + 100,000 columns whose Gram matrices fit nowhere.

Run `OPENBLAS_NUM_THREADS=1 python asv_bench/measure_wide.py`; `--quick` takes a hundredth of the size, `--n`,
`--columns`, `--ridge`, `--k`, `--dtypes` others. The data are those of `linspec.datasets.planted_word_views`: 300,000
rows of 60 words, frequencies that follow a power law, forty shared topics; uncentred, ridge 50, twenty pairs.

passes to: readings of a view, everything included, until the ridge correlations within the span of the iterate add up
to a share of what the same run has at `--reference`; seconds and CPU: of a run to the default tolerance. memory:
mebibytes of the peak resident set of a process of its own beyond imports and data; bound: (p + q)(9m + 2m·threads)
words of the data's dtype, for blocks of m columns (a preconditioner of rank r may take (p + q)r more). rho_20: the
twentieth correlation; permuted: the twentieth after the rows of Y were permuted, which is chance. largest gap: between
a correlation and that of the run to `--reference`, beside the largest of `bounds`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

LEVELS = (0.9, 0.99, 0.999, 0.9999)


def main() -> None:
    """Measure and print."""
    from least_squares_law import print_head, print_row

    given = arguments()
    print_head(
        "data", "dtype", *(f"passes to {level}" for level in LEVELS), "passes", "seconds", "CPU", "memory", "bound",
        "m, threads", "sum", "rho_20", "permuted", "largest gap", "bounds", "residual", "status",
    )  # fmt: skip
    for dtype in given.dtypes:
        with tempfile.TemporaryDirectory(dir=given.scratch) as folder:
            child("make", dtype, folder)
            plain, curve, chance = (child(what, dtype, folder) for what in ("plain", "curve", "permuted"))
        gap = max(abs(a - b) for a, b in zip(plain["correlations"], curve["correlations"], strict=True))
        print_row(
            (
                f"{given.n} x {given.columns} twice, {plain['data']:.0f} MiB",
                dtype,
                *(curve["reached"].get(str(level), "never") for level in LEVELS),
                f"{plain['passes']:g}",
                f"{plain['seconds']:.1f}",
                f"{plain['cpu']:.1f}",
                f"{plain['memory']:.0f}",
                f"{plain['bound']:.0f}",
                f"{plain['m']}, {plain['threads']}",
                f"{sum(plain['correlations']):.6f}",
                f"{plain['correlations'][-1]:.4f}",
                f"{chance['correlations'][-1]:.4f}",
                f"{gap:.1e}",
                f"{plain['bounds']:.1e}",
                f"{plain['residual']:.1e}",
                plain["status"],
            )
        )


def arguments() -> argparse.Namespace:
    """Options; they are handed on to the processes that measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a hundredth of the size")
    parser.add_argument("--n", type=int, default=300_000, help="rows (300000)")
    parser.add_argument("--columns", type=int, default=100_000, help="of each view (100000)")
    parser.add_argument("--per-row", type=int, default=60, help="words (60)")
    parser.add_argument("--ridge", type=float, default=50.0)
    parser.add_argument("--k", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the data and of the solver")
    parser.add_argument("--solver", default="lobpcg")
    parser.add_argument("--oversample", type=int, default=40, help="columns of its blocks beyond k (40)")
    parser.add_argument("--form", default="implicit", help="of the moments: implicit sweeps the data")
    parser.add_argument("--tol", type=float, help="of the plain run (the solver's default)")
    parser.add_argument("--reference", type=float, default=1e-8, help="tolerance of the reference (1e-8)")
    parser.add_argument("--dtypes", nargs="+", default=["float64", "float32"])
    parser.add_argument("--scratch", default=tempfile.gettempdir(), help="folder for the data")
    parser.add_argument("--child", nargs=3, metavar=("WHAT", "DTYPE", "FOLDER"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.quick:
        given.n, given.columns = given.n // 100, given.columns // 100
    if given.child:
        what, given.dtype, given.folder = given.child
        print(json.dumps(WORK[what](given)))
        raise SystemExit
    return given


def child(what: str, dtype: str, folder: str) -> dict[str, Any]:
    """One run in a process of its own."""
    command = [sys.executable, str(Path(__file__).resolve()), *sys.argv[1:], "--child", what, dtype, folder]
    run = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # this file
    if run.returncode:
        sys.stderr.write(run.stderr)
        raise SystemExit(1)
    sys.stderr.write(f"{dtype}, {what}: {run.stdout}")  # a long run shows what it has
    return dict(json.loads(run.stdout))


# ---- in a process of its own -----------------------------------------------------------------------


def make(given: argparse.Namespace) -> dict[str, Any]:
    """Write the data, part by part."""
    import numpy as np

    import linspec as ls

    views = ls.datasets.planted_word_views(
        given.seed, n=given.n, p=given.columns, q=given.columns, per_row=given.per_row, dtype=given.dtype
    )
    for name, view in (("X", views.X), ("Y", views.Y)):
        for part in ("data", "indices", "indptr"):
            np.save(Path(given.folder) / f"{name}_{part}.npy", getattr(view, part))
    return {}


def read(given: argparse.Namespace, name: str) -> Any:
    """A view, with nothing left over from reading it."""
    import numpy as np
    import scipy.sparse

    parts = tuple(
        np.load(Path(given.folder) / f"{name}_{part}.npy") for part in ("data", "indices", "indptr")
    )
    return scipy.sparse.csr_matrix(parts, shape=(given.n, given.columns), copy=False)


def resident() -> float:
    """Mebibytes in use now."""
    import resource

    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * resource.getpagesize() / 2**20


def peak() -> float:
    """Mebibytes in use at most so far."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def solved(given: argparse.Namespace, X: Any, Y: Any, tol: float | None, callback: Any = None) -> Any:
    """One solve."""
    import warnings

    import linspec as ls

    warnings.simplefilter("ignore")
    problem = ls.CCA(X, Y, given.k, ridge=given.ridge, center=False)
    options = {"form": given.form, "oversample": given.oversample} | ({} if tol is None else {"tol": tol})
    return ls.solve(problem, given.solver, rng=given.seed, callback=callback, **options)


def plain(given: argparse.Namespace) -> dict[str, Any]:
    """Seconds and memory."""
    import linspec as ls

    small = ls.datasets.planted_word_views(0, n=500, p=100, q=100, shared=2, dtype=given.dtype)
    solved(argparse.Namespace(**{**vars(given), "k": 2}), small.X, small.Y, None)  # the imports
    imports = resident()
    X, Y = (read(given, name) for name in "XY")
    loaded = resident()
    cpu, begin = time.process_time(), time.perf_counter()
    s = solved(given, X, Y, given.tol)
    seconds, used = time.perf_counter() - begin, time.process_time() - cpu
    m, threads = given.k + given.oversample, ls.machine.cpu_count()
    words = 2 * given.columns * (9 * m + 2 * m * threads)
    return {
        "data": loaded - imports,
        "seconds": seconds,
        "cpu": used,
        "passes": s.passes,
        "memory": peak() - loaded,
        "bound": words * X.dtype.itemsize / 2**20,
        "m": m,
        "threads": threads,
        "correlations": s.correlations.tolist(),
        "bounds": float(s.bounds.max()) if s.bounds is not None else float("nan"),
        "residual": s.residual,
        "status": s.status.name,
    }


def curve(given: argparse.Namespace) -> dict[str, Any]:
    """How much was captured after how many passes."""
    import linspec as ls

    X, Y = (read(given, name) for name in "XY")
    seen: list[tuple[float, float]] = []

    def look(progress: Any) -> None:
        weights = progress.current()
        total = ls.metrics.tcc(X, Y, weights["x_weights"], weights["y_weights"], ridge=given.ridge)
        seen.append((progress.passes, total))

    s = solved(given, X, Y, given.reference, look)
    whole = float(s.correlations.sum())
    reached = {
        str(level): next((f"{passes:g}" for passes, total in seen if total >= level * whole), "never")
        for level in LEVELS
    }
    return {"reached": reached, "correlations": s.correlations.tolist(), "residual": s.residual}


def permuted(given: argparse.Namespace) -> dict[str, Any]:
    """What chance gives."""
    import numpy as np

    X, Y = (read(given, name) for name in "XY")
    order = np.random.default_rng(given.seed + 1).permutation(given.n)
    s = solved(given, X, Y[order], 1e-2)  # chance has no gaps, and its sum to a hundredth is enough
    return {"correlations": s.correlations.tolist(), "residual": s.residual}


WORK = {"make": make, "plain": plain, "curve": curve, "permuted": permuted}


if __name__ == "__main__":
    main()
