"""Print what sparse products take on one thread and on two, while a core is idle and while other work keeps it busy.

Run `OPENBLAS_NUM_THREADS=1 python asv_bench/measure_busy_core.py`; `--quick` takes a small matrix. No data are needed:
the matrix has the shape, the entries and the skewed columns of word counts of news groups. The four ways take turns,
and a figure is the median of the rounds, in milliseconds of the clock. "Busy" means that a process which does nothing
but count is bound to the last core of this process. SciPy's product on one thread is the yardstick.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy import sparse

from linspec import machine
from linspec.operators import sparse_kernels

ROWS, COLUMNS, ENTRIES = 18_846, 60_000, 2_400_000
QUICK = 2_000, 3_000, 100_000
WIDTHS = 1, 8, 30, 60


def counts(rows: int, columns: int, entries: int) -> Any:
    """Random rows whose entries crowd in the first columns, as words do, in float64."""
    rng = np.random.default_rng(0)
    found = np.minimum(rng.zipf(1.3, size=entries) - 1, columns - 1), rng.integers(rows, size=entries)
    A = sparse.csr_array((np.ones(entries), (found[1], found[0])), shape=(rows, columns))
    A.sum_duplicates()
    return A


def products(A: Any, k: int) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """Each product by SciPy and by linspec."""
    rng = np.random.default_rng(1)
    V, U = rng.standard_normal((A.shape[1], k)), rng.standard_normal((A.shape[0], k))
    return {
        "A V": (lambda: A @ V, lambda: sparse_kernels.matmat(A, V, np.float64)),
        "AᵀU": (lambda: A.T @ U, lambda: sparse_kernels.rmatmat(A, U, np.float64)),
        "AᵀA V": (
            lambda: A.T @ (A @ V),
            lambda: sparse_kernels.products(A, None, V, None, dtype_x=np.float64),
        ),
    }


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let linspec have so many threads."""
    before = os.environ.get(machine.THREADS_VARIABLE)
    os.environ[machine.THREADS_VARIABLE] = str(count)
    try:
        yield
    finally:
        del os.environ[machine.THREADS_VARIABLE]
        if before is not None:
            os.environ[machine.THREADS_VARIABLE] = before


def _count(core: int) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
    while True:
        pass


@contextmanager
def busy(*, wanted: bool) -> Iterator[None]:
    """Keep the last core busy."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
    process = multiprocessing.get_context("spawn").Process(target=_count, args=(cores[-1],), daemon=True)
    if wanted:
        process.start()
        time.sleep(1.0)
    try:
        yield
    finally:
        if wanted:
            process.kill()
            process.join()


def medians(ways: dict[str, tuple[int, Callable[[], Any]]], rounds: int) -> dict[str, float]:
    """Milliseconds of the clock of each way, which take turns."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds + 1):
        for name, (count, call) in ways.items():
            with threads(count):
                began = time.perf_counter()
                call()
                if turn:
                    times[name].append((time.perf_counter() - began) * 1e3)
    return {name: statistics.median(taken) for name, taken in times.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small matrix")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--columns", type=int, nargs="*", default=WIDTHS, help="columns of the blocks")
    given = parser.parse_args()
    A = counts(*(QUICK if given.quick else (ROWS, COLUMNS, ENTRIES)))
    sys.stdout.write(
        f"{A.shape[0]} x {A.shape[1]}, {A.nnz} entries, ms of the clock; "
        f"{len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()} cores\n"
    )
    sys.stdout.write(
        "| core | product | columns | SciPy | one thread | two threads | two / one |\n|---|---|---|---|---|---|---|\n"
    )
    for loaded in (False, True):
        with busy(wanted=loaded):
            for k in given.columns:
                for label, (theirs, ours) in products(A, k).items():
                    found = medians({"scipy": (1, theirs), "one": (1, ours), "two": (2, ours)}, given.rounds)
                    sys.stdout.write(
                        f"| {'busy' if loaded else 'idle'} | {label} | {k} | {found['scipy']:.1f} | {found['one']:.1f} "
                        f"| {found['two']:.1f} | {found['two'] / found['one']:.2f} |\n"
                    )
                    sys.stdout.flush()


if __name__ == "__main__":
    main()
