"""The cost of rows on workers of dask: CPU seconds of workers and of this process, moved bytes, tasks that are kept.

    python docs/evidence/measure_dask.py --rows 240000 --columns 400 --blocks 12 --workers 1 2

Prints, for one problem of two views, a pass in this process and with each number of workers; then the truncated SVD
beside those of dask, each with the residual of what it returns. Each worker has one thread; all of them run on this
machine, so that CPU counts, and wall time says nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", LINSPEC_NUM_THREADS="1")

import dask
import dask.array as da
import numpy as np
import psutil
from dask.array.linalg import svd_compressed
from distributed import Client, LocalCluster, wait
from showing import Report, Table, arguments

import linspec as ls
from linspec.workers import BlockOperator

MALLOC = {
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 268435456,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 67108864,
    "distributed.nanny.pre-spawn-environ.MALLOC_TOP_PAD_": 268435456,
    "distributed.nanny.pre-spawn-environ.LINSPEC_NUM_THREADS": 1,
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
    "distributed.worker.profile.interval": "1s",
    "distributed.admin.large-graph-warning-threshold": "1GB",
    "distributed.admin.low-level-log-length": 10,
}


def block(number: int, rows: int, columns: int, others: int) -> np.ndarray:
    """Rows of X and Y side by side, which share ten directions of falling strength; float32."""
    rng = np.random.default_rng(number)
    shared = rng.standard_normal((rows, 10), dtype=np.float32) * np.geomspace(2, 0.5, 10, dtype=np.float32)
    mixing = np.random.default_rng(2**31).standard_normal((10, columns + others), dtype=np.float32)
    noise = rng.standard_normal((rows, columns + others), dtype=np.float32)
    return shared @ mixing + noise * np.geomspace(3, 0.3, columns + others, dtype=np.float32)


def of_blocks(args: argparse.Namespace, first: int, last: int) -> Any:
    """Columns of the rows as an array of dask."""
    height = args.rows // args.blocks
    made = [
        da.from_delayed(
            dask.delayed(_columns)(number, height, args.columns, args.others, first, last),
            (height, last - first),
            np.float32,
        )
        for number in range(args.blocks)
    ]
    return da.concatenate(made)


def _columns(number: int, rows: int, columns: int, others: int, first: int, last: int) -> np.ndarray:
    return np.ascontiguousarray(block(number, rows, columns, others)[:, first:last])


ACCOUNT = ("this process, CPU s::.3f", "workers, CPU s::.3f", "MB::.2f")


class Account:
    """CPU seconds of this process and of the workers, and bytes on the loopback, since it was made."""

    def __init__(self, client: Client | None) -> None:
        pids = [] if client is None else list(client.run(os.getpid).values())
        self.workers = [psutil.Process(pid) for pid in pids]
        self.before = self._now()

    def _now(self) -> np.ndarray:
        times = [sum(process.cpu_times()[:2]) for process in [psutil.Process(), *self.workers]]
        return np.array([times[0], sum(times[1:]), psutil.net_io_counters(pernic=True)["lo"].bytes_sent])

    def read(self) -> tuple[float, float, float]:
        """Seconds of this process, seconds of all workers, bytes."""
        driver, workers, moved = self._now() - self.before
        return driver, workers, moved


def pass_of_products(
    table: Table, name: str, X: Any, Y: Any, client: Client | None, given: argparse.Namespace
) -> None:
    """A row for a pass of implicit products of both views, after the first two."""
    moments = ls.Moments(X, Y, center=True, form="implicit")
    rng = np.random.default_rng(0)
    V, W = (rng.standard_normal((A.shape[1], given.k)) for A in (X, Y))
    for _ in range(2):
        moments.products(V, W)
    held = _held(client)
    account = Account(client)
    for _ in range(given.passes):
        moments.products(V, W)
    driver, workers, moved = (figure / given.passes for figure in account.read())
    table.row(name, driver, workers, moved / 1e6, held, _held(client))


def _held(client: Client | None) -> int:
    """Return the number of tasks of the scheduler, once the last releases have reached it."""
    if client is None:
        return 0
    time.sleep(2.0)
    found: int = client.run_on_scheduler(_tasks)
    return found


def _tasks(dask_scheduler: Any = None) -> int:
    return len(dask_scheduler.tasks)


def residual(A: Any, V: np.ndarray, S: np.ndarray) -> float:
    """‖AᵀA V - V S²‖ / ‖S²‖, columns of V orthonormal, in float64."""
    product = ls.Moments(A, form="implicit").gram(np.asarray(V, dtype=np.float64))
    return float(np.linalg.norm(product - V * S**2) / np.linalg.norm(S**2))


def compared(
    table: Table, label: str, A: Any, client: Client, solved: Callable[[], tuple[np.ndarray, np.ndarray]]
) -> None:
    """CPU seconds of one SVD, and its residual by our products."""
    account = Account(client)
    S, V = solved()
    driver, workers, moved = account.read()
    table.row(label, driver, workers, moved / 1e6, residual(A, V, S))


def svds(report: Report, client: Client) -> None:
    """Truncated SVD of X by linspec and by dask."""
    args = report.given
    X = of_blocks(args, 0, args.columns).persist()
    wait(X)
    A = ls.as_operator(X)
    title = f"SVD, k = {args.k}, of {args.rows} x {args.columns}"
    table = report.table("", *ACCOUNT, "residual::.1e", title=title)

    def ours(solver: str, form: str) -> tuple[np.ndarray, np.ndarray]:
        found = ls.solve(ls.SVD(A, args.k), solver, rng=0, **({"form": form} if form else {}))
        return found.S, found.Vh.T

    def theirs(powers: int) -> tuple[np.ndarray, np.ndarray]:
        _, s, v = svd_compressed(X, args.k, n_power_iter=powers, iterator="QR", seed=0)
        S, V = dask.compute(s, v)
        return S, V.T

    def exact() -> tuple[np.ndarray, np.ndarray]:
        _, s, v = da.linalg.svd(X)
        S, V = dask.compute(s, v)
        return S[: args.k], V[: args.k].T

    compared(table, "linspec block-krylov, implicit", A, client, lambda: ours("block-krylov", "implicit"))
    compared(
        table, "linspec block-krylov, dense Gram matrix", A, client, lambda: ours("block-krylov", "dense")
    )
    compared(table, "linspec gram, exact", A, client, lambda: ours("gram", ""))
    for powers in args.powers:
        name = f"svd_compressed, QR, {powers} power iterations"
        compared(table, name, A, client, lambda powers=powers: theirs(powers))
    compared(table, "da.linalg.svd", A, client, exact)


def main() -> int:
    """All figures."""
    parser = arguments(__doc__)
    for name, default in (("rows", 240_000), ("columns", 400), ("others", 100), ("blocks", 12), ("k", 20)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--svd-rows", type=int, default=100_000, help="of the SVD; 0: none")
    parser.add_argument("--passes", type=int, default=48)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--powers", type=int, nargs="*", default=[2, 6])
    parser.add_argument("--nanny", action="store_true", help="with the malloc settings of the nanny")
    report = Report(parser)
    args = report.given
    if args.quick:
        args.rows, args.columns, args.others, args.blocks, args.k, args.svd_rows = 4800, 40, 10, 4, 5, 2000
        args.passes, args.workers = 3, [1]
    height = args.rows // args.blocks
    blocks = [block(i, height, args.columns, args.others) for i in range(args.blocks)]
    X, Y = (
        BlockOperator([np.ascontiguousarray(rows[:, columns]) for rows in blocks])
        for columns in (slice(0, args.columns), slice(args.columns, None))
    )
    del blocks
    title = f"a pass of X and Y, {args.rows} x ({args.columns} + {args.others}) float32, k = {args.k} each"
    held = ("tasks held after pass 2", f"after pass {args.passes + 2}")
    table = report.table("", *ACCOUNT, *held, title=title)
    pass_of_products(table, "no dask", X, Y, None, args)
    del X, Y
    for count in args.workers:
        with (
            dask.config.set({} if args.nanny else MALLOC),
            LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=":0") as cluster,
            Client(cluster) as client,
        ):
            data = (
                of_blocks(args, 0, args.columns),
                of_blocks(args, args.columns, args.columns + args.others),
            )
            pass_of_products(table, f"{count} workers", *data, client, args)
            del data
            if count == args.workers[-1] and args.svd_rows:
                args.rows = args.svd_rows
                svds(report, client)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
