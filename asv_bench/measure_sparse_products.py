"""Print what the threaded sparse products bring over SciPy's, with evidence of how idle the machine was.

Run `python asv_bench/measure_sparse_products.py` (minutes), or with `--quick` (seconds, smaller matrices).

The three products are A V, Aᵀ U and Aᵀ A V. Every variant of a product runs once in turn, and so on for a
number of rounds, so that whatever else the machine does meets all of them alike; a figure is the median of
the rounds. Beside each stands CPU/wall: processor seconds per second of the clock. A threaded product that
shows 1.3 there had 1.3 cores, whatever the number of its threads.

The last columns are a control that uses nothing of linspec: SciPy's product in one process, and in as many
processes at once as there are threads, each with its own data. Where that already slows each one down, the
machine lacks idle cores or the memory bandwidth for them, and no threaded product could have reached the
number of threads.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy
from scipy import sparse

from linspec import machine
from linspec.operators import sparse_kernels

if TYPE_CHECKING:
    from collections.abc import Callable


class Case(NamedTuple):
    """A random matrix: rows, columns, stored entries."""

    rows: int
    columns: int
    entries: int

    def __str__(self) -> str:
        return f"{self.rows:,} x {self.columns:,}, {self.entries / 1e6:.3g}M"


CASES = (
    Case(500_000, 10_000, 5_000_000),
    Case(100_000, 20_000, 2_000_000),
    Case(100_000, 20_000, 20_000_000),
)
QUICK_CASES = (Case(100_000, 10_000, 1_000_000), Case(20_000, 20_000, 400_000))
WIDTHS = (25, 100)
DTYPES = ("float32", "float64")


class Timing(NamedTuple):
    """Medians over the rounds, in seconds of the clock and of processors."""

    seconds: float
    cpu: float


def random_matrix(case: Case, dtype: str, zipf: bool = False) -> Any:
    """Make a CSR matrix whose entries lie at random; with `zipf`, most of them in few columns, as words
    do.
    """
    rng = np.random.default_rng(0)
    rows = rng.integers(case.rows, size=case.entries, dtype=np.int32)
    if zipf:
        columns = np.minimum(rng.zipf(1.3, size=case.entries) - 1, case.columns - 1).astype(np.int32)
    else:
        columns = rng.integers(case.columns, size=case.entries, dtype=np.int32)
    data = rng.standard_normal(case.entries).astype(dtype)
    return sparse.csr_array((data, (rows, columns)), shape=(case.rows, case.columns))


def variants(A: Any, k: int, dtype: str) -> dict[str, dict[str, Callable[[], Any]]]:
    """For each product the ways to form it, SciPy's first."""
    rng = np.random.default_rng(1)
    V = rng.standard_normal((A.shape[1], k)).astype(dtype)
    U = rng.standard_normal((A.shape[0], k)).astype(dtype)
    kernels = sparse_kernels
    return {
        "A V": {"scipy": lambda: A @ V, "linspec": lambda: kernels.matmat(A, V, dtype)},
        "Aᵀ U": {"scipy": lambda: A.T @ U, "linspec": lambda: kernels.rmatmat(A, U, dtype)},
        "Aᵀ A V": {
            "scipy": lambda: A.T @ (A @ V),
            "linspec": lambda: kernels.products(A, None, V, None, dtype_x=dtype, dtype_y=dtype),
            "linspec, two products": lambda: kernels.rmatmat(A, kernels.matmat(A, V, dtype), dtype),
        },
    }


def measure(functions: dict[str, Callable[[], Any]], rounds: int) -> dict[str, Timing]:
    """Time the functions in turn, after one unmeasured round."""
    timings: dict[str, list[Timing]] = {name: [] for name in functions}
    for _ in range(rounds + 1):
        for name, function in functions.items():
            wall, cpu = time.perf_counter(), time.process_time()
            function()
            timings[name].append(Timing(time.perf_counter() - wall, time.process_time() - cpu))
    return {
        name: Timing(*(statistics.median(figures) for figures in zip(*several[1:], strict=True)))
        for name, several in timings.items()
    }


def control(case: Case, k: int, dtype: str, zipf: bool, rounds: int, processes: int) -> dict[str, float]:
    """By which factor SciPy's products slow down when as many processes run them at once."""
    alone = _in_processes(case, k, dtype, zipf, rounds, 1)
    together = _in_processes(case, k, dtype, zipf, rounds, processes)
    return {name: together[name] / alone[name] for name in alone}


def _in_processes(
    case: Case, k: int, dtype: str, zipf: bool, rounds: int, processes: int
) -> dict[str, float]:
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(processes)
    results = context.SimpleQueue()
    arguments = (case, k, dtype, zipf, rounds, barrier, results)
    workers = [context.Process(target=_worker, args=arguments) for _ in range(processes)]
    for worker in workers:
        worker.start()
    times = [results.get() for _ in workers]
    for worker in workers:
        worker.join()
    return {name: statistics.mean(time[name] for time in times) for name in times[0]}


def _worker(case: Case, k: int, dtype: str, zipf: bool, rounds: int, barrier: Any, results: Any) -> None:
    products = variants(random_matrix(case, dtype, zipf), k, dtype)
    times = {}
    for name, functions in products.items():
        functions["scipy"]()
        barrier.wait()
        times[name] = measure({"scipy": functions["scipy"]}, rounds)["scipy"].seconds
    results.put(times)


def report(cases: tuple[Case, ...], rounds: int, zipf: bool, controls: bool) -> None:
    """Print the table as the figures come."""
    threads = machine.cpu_count()
    _line(
        f"{threads} threads, {machine.cache_size() >> 20} MiB of last-level cache, NumPy {np.__version__}, "
        f"SciPy {scipy.__version__}, {'Zipf' if zipf else 'uniform'} columns, median of {rounds} rounds; "
        f"control: by what factor SciPy slows down in {threads} processes at once"
    )
    _line(
        f"{'matrix':28}{'dtype':9}{'k':>4}  {'product':8}{'variant':22}{'ms':>8}{'CPU ms':>8}{'CPU/wall':>10}"
        f"{'speed-up':>10}{'control':>9}"
    )
    for case in cases:
        for dtype in DTYPES:
            A = random_matrix(case, dtype, zipf)
            for k in WIDTHS:
                slower = control(case, k, dtype, zipf, max(3, rounds // 2), threads) if controls else {}
                for product, functions in variants(A, k, dtype).items():
                    timings = measure(functions, rounds)
                    for name, timing in timings.items():
                        ratio = timings["scipy"].seconds / timing.seconds
                        extra = f"{slower[product]:>9.2f}" if controls and name == "scipy" else ""
                        _line(
                            f"{case!s:28}{dtype:9}{k:>4}  {product:8}{name:22}{timing.seconds * 1e3:>8.1f}"
                            f"{timing.cpu * 1e3:>8.1f}{timing.cpu / timing.seconds:>10.2f}"
                            f"{ratio:>10.2f}{extra}"
                        )


def _line(text: str) -> None:
    sys.stdout.write(text.rstrip() + "\n")
    sys.stdout.flush()


def main() -> None:
    """Read the options and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="smaller matrices, three rounds")
    parser.add_argument("--rounds", type=int, help="measured rounds (9; with --quick 3)")
    parser.add_argument("--zipf", action="store_true", help="most entries in few columns, as words have them")
    parser.add_argument("--no-control", action="store_true", help="leave out the control with processes")
    options = parser.parse_args()
    rounds = options.rounds or (3 if options.quick else 9)
    report(QUICK_CASES if options.quick else CASES, rounds, options.zipf, not options.no_control)


if __name__ == "__main__":
    main()
