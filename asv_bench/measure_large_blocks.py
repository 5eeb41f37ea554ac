"""What solves of many rows on two workers of dask cost: seconds, passes, and the memory of this process and of workers.

    python asv_bench/measure_large_blocks.py --parts dense sparse --apart
    python asv_bench/measure_large_blocks.py --parts engine svd

`dense`: two views of 4,000,000 rows, 400 and 40 columns of float32. `sparse`: 2,000,000 rows, 50,000 and 2,000 columns,
25 and 10 entries a row. Blocks are made on the workers, which have one thread each. `--apart` runs each solve in a
process of its own, so that its peaks are its own. `engine`: a pass of one worker beside one plain process, and of two
beside two plain processes that do the same work at the same time, in alternating rounds. `svd`: the truncated SVD
beside those of dask, each with the residual of what it returns. CPU counts here; the clock is that of a machine that
others use.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", LINSPEC_NUM_THREADS="1")

import dask
import dask.array as da
import numpy as np
import scipy.sparse
from dask.array.linalg import svd_compressed
from distributed import Client, LocalCluster, wait
from measure_dask import MALLOC, Account, residual

import linspec as ls
from linspec.blocks import BlockOperator

CLASSES = 12
"""Topics of the sparse rows, and parts of the dense ones."""


# ---- rows -----------------------------------------------------------------------------------------


@cache
def noise(rows: int, columns: int) -> np.ndarray:
    """What the blocks of a process have in common, in another order and with other signs each: drawn once."""
    found = np.random.default_rng(2**30).standard_normal((rows, columns), dtype=np.float32)
    return found * np.geomspace(3, 0.3, columns, dtype=np.float32)


def dense_rows(number: int, rows: int, columns: int, others: int, wanted: str) -> Any:
    """X, Y, the target or the labels of a block of dense rows, which share ten directions of falling strength."""
    rng = np.random.default_rng(number)
    shared = rng.standard_normal((rows, 10), dtype=np.float32) * np.geomspace(2, 0.5, 10, dtype=np.float32)
    mixing = np.random.default_rng(2**31).standard_normal((10, columns + others), dtype=np.float32)
    if wanted == "labels":
        return np.argmax(shared @ mixing[:, :CLASSES], axis=1)
    first, last = {"X": (0, columns), "Y": (columns, columns + others), "target": (columns, columns + 1)}[
        wanted
    ]
    signs = rng.choice(np.array([-1, 1], dtype=np.float32), columns + others)[first:last]
    turned = int(rng.integers(rows))
    found = shared @ mixing[:, first:last]
    drawn = noise(rows, columns + others)[:, first:last]
    found[turned:] += drawn[: rows - turned] * signs
    found[:turned] += drawn[rows - turned :] * signs
    return found


def sparse_rows(number: int, rows: int, columns: int, others: int, wanted: str) -> Any:
    """X, Y, the target or the labels of a block of counts: words of a topic among words of all."""
    rng = np.random.default_rng(number)
    topics = rng.integers(0, CLASSES, rows)
    X = _counts(rng, topics, columns, 25)
    Y = _counts(rng, topics, others, 10)
    if wanted == "labels":
        return topics
    if wanted == "target":
        return np.asarray(Y[:, :50].sum(axis=1), dtype=np.float32).reshape(-1, 1)
    return X if wanted == "X" else Y


def _counts(rng: np.random.Generator, topics: np.ndarray, columns: int, entries: int) -> Any:
    """Rows of some words each: common ones are frequent, and a third are of the topic."""
    rows = len(topics)
    words = (columns * rng.random((rows, entries), dtype=np.float32) ** 3).astype(np.int32)
    own = rng.random((rows, entries), dtype=np.float32) < 1 / 3
    words = np.where(own, (words // CLASSES) * CLASSES + topics[:, None], words) % columns
    data = np.ones(rows * entries, dtype=np.float32)
    edges = np.arange(0, rows * entries + 1, entries, dtype=np.int32)
    counts = scipy.sparse.csr_array((data, words.ravel().astype(np.int32), edges), shape=(rows, columns))
    counts.sum_duplicates()
    return counts


def blocks_of(part: str, args: argparse.Namespace, wanted: str) -> list[Any]:
    """Delayed blocks of what is wanted."""
    made = dask.delayed(dense_rows if part == "dense" else sparse_rows)
    rows, columns, others, count = sizes(part, args)
    return [made(number, rows // count, columns, others, wanted) for number in range(count)]


def sizes(part: str, args: argparse.Namespace) -> tuple[int, int, int, int]:
    """Rows, columns of X and of Y, and blocks."""
    if part == "dense":
        return args.rows, 400, 40, args.blocks
    return args.sparse_rows, args.sparse_columns, max(40, args.sparse_columns // 25), args.blocks


# ---- solves ---------------------------------------------------------------------------------------

SOLVES = {
    "gram": ("CCA by gram", "XY"),
    "lobpcg": ("CCA by lobpcg, by passes", "XY"),
    "block-krylov": ("SVD by block-krylov", "X"),
    "cg": ("ridge by cg", "XT"),
    "two-stage": ("LDA by two-stage", "XL"),
}


def stated(solver: str, part: str, args: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    """The problem of a solver, and its options; blocks are computed here."""
    X = ls.as_operator(blocks_of(part, args, "X"))
    if solver in ("gram", "lobpcg"):
        Y = ls.as_operator(blocks_of(part, args, "Y"))
        return ls.CCA(X, Y, args.k, ridge=10.0), {"form": "implicit"} if solver == "lobpcg" else {}
    if solver == "block-krylov":
        return ls.SVD(X, args.k), {}
    if solver == "cg":
        return ls.LeastSquares(X, ls.as_operator(blocks_of(part, args, "target")), ridge=10.0), {}
    H = ls.targets.lda(blocks_of(part, args, "labels"))
    return ls.Discriminant(X, H, min(args.k, CLASSES - 1), ridge=10.0), {}


@contextmanager
def cluster_of(workers: int) -> Iterator[Client]:
    """Workers of one thread, with the settings of the page."""
    with (
        dask.config.set(MALLOC),
        LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=":0", memory_limit=0, silence_logs=50
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def one(part: str, solver: str, args: argparse.Namespace) -> dict[str, Any]:
    """One solve."""
    with cluster_of(2) as client:
        problem, options = stated(solver, part, args)
        before, held = memory(), client.run(memory)
        reset_peak(), client.run(reset_peak)
        account, began = Account(client), time.perf_counter()
        try:
            found = ls.solve(problem, solver, rng=0, **options)
        except ls.errors.LinspecError as error:
            return {"label": SOLVES[solver][0], "refused": f"{type(error).__name__}: {error}"}
        seconds = time.perf_counter() - began
        driver, workers, moved = account.read()
        words = 20 * problem.matrices[next(iter(problem.matrices))].shape[1] * args.k * 8 / 1e6
        return {
            "label": SOLVES[solver][0],
            "workers": workers,
            "driver": driver,
            "wall": seconds,
            "passes": found.passes,
            "moved": moved / 1e6 / max(found.passes, 1),
            "before": before,
            "peak": peak(),
            "asked": 150 + words,
            "held": max(held.values()),
            "worker_peak": max(client.run(peak).values()),
            "status": found.status.name,
            "residual": found.residual,
        }


def memory() -> float:
    """Resident megabytes of the process that calls it."""
    return _status("VmRSS")


def peak() -> float:
    """The most of them since `reset_peak`."""
    return _status("VmHWM")


def _status(name: str) -> float:
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith(name + ":"))


def reset_peak() -> None:
    """From now on."""
    Path("/proc/self/clear_refs").write_text("5", "ascii")


def told(found: dict[str, Any]) -> None:
    """A line of the table."""
    if "refused" in found:
        print(f"| {found['label']} | {found['refused']} |", flush=True)
        return
    print(
        "| {label} | {workers:.1f} | {driver:.1f} | {wall:.1f} | {passes:g} | {moved:.1f} | {before:.0f} | {peak:.0f} "
        "(asked {asked:.0f}) | {held:.0f} | {worker_peak:.0f} | {status}, {residual:.1e} |".format(**found),
        flush=True,
    )


def solves(part: str, args: argparse.Namespace) -> None:
    """All solves of one kind of rows."""
    rows, columns, others, count = sizes(part, args)
    print(f"{part}: {rows} x ({columns} + {others}), {count} blocks, k = {args.k}, two workers")
    print(
        "| solve | workers, CPU s | this process, CPU s | wall s | passes | MB moved a pass | this process before, MB "
        "| its peak | a worker before, MB | its peak | ending, residual |",
        flush=True,
    )
    for solver in args.solvers:
        if not args.apart:
            told(one(part, solver, args))
            continue
        given = [f"--{name.replace('_', '-')}={value}" for name, value in vars(args).items()
                 if name in ("rows", "sparse_rows", "sparse_columns", "blocks", "k")]  # fmt: skip
        command = [sys.executable, __file__, "--one", part, solver, *given]
        answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603
        lines = answer.stdout.splitlines()
        told(json.loads(lines[-1]) if lines and not answer.returncode
             else {"label": SOLVES[solver][0], "refused": f"ended with {answer.returncode}"})  # fmt: skip


# ---- the engine beside plain processes ------------------------------------------------------------


def plain(args: argparse.Namespace, first: int, last: int) -> None:
    """Rounds of passes over some blocks in this process, one for each line that comes; CPU and wall seconds go out."""
    rows, columns, others, count = sizes("dense", args)
    X, Y = (
        BlockOperator([dense_rows(i, rows // count, columns, others, view) for i in range(first, last)])
        for view in "XY"
    )
    moments = ls.Moments(X, Y, center=True, form="implicit")
    V, W = starts(columns, others, args.k)
    moments.products(V, W)
    print("ready", flush=True)
    for _ in sys.stdin:
        cpu, wall = time.process_time(), time.perf_counter()
        for _ in range(args.passes):
            moments.products(V, W)
        print(time.process_time() - cpu, time.perf_counter() - wall, flush=True)


def starts(columns: int, others: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """What is multiplied."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((columns, k)), rng.standard_normal((others, k))


class Plain:
    """A process that makes passes over some blocks when asked."""

    def __init__(self, args: argparse.Namespace, first: int, last: int) -> None:
        given = [f"--{name}={getattr(args, name)}" for name in ("rows", "blocks", "k", "passes")]
        command = [sys.executable, __file__, "--plain", str(first), str(last), *given]
        self.process: Any = subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.process.stdout.readline()

    def begin(self) -> None:
        """A round."""
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def read(self) -> tuple[float, float]:
        """CPU and wall seconds of the round that was begun."""
        cpu, wall = map(float, self.process.stdout.readline().split())
        return cpu, wall

    def end(self) -> None:
        """No more rounds."""
        self.process.stdin.close()
        self.process.wait()


def engine(args: argparse.Namespace) -> None:
    """A pass of one and of two workers beside as many plain processes with the same blocks."""
    args = argparse.Namespace(**{**vars(args), "rows": args.engine_rows, "blocks": 12, "k": 20})
    rows, columns, others, count = sizes("dense", args)
    print(
        f"engine: {rows} x ({columns} + {others}), {count} blocks, k = 20, {args.rounds} rounds of {args.passes} passes"
    )
    for workers in (1, 2):
        edges = [count * i // workers for i in range(workers + 1)]
        beside = [Plain(args, edges[i], edges[i + 1]) for i in range(workers)]
        figures = []
        with cluster_of(workers) as client:
            X, Y = (ls.as_operator(blocks_of("dense", args, view)) for view in "XY")
            moments = ls.Moments(X, Y, center=True, form="implicit")
            V, W = starts(columns, others, args.k)
            for _ in range(2):
                moments.products(V, W)
            for _ in range(args.rounds):
                for one_ in beside:
                    one_.begin()
                read = [one_.read() for one_ in beside]
                account, began = Account(client), time.perf_counter()
                for _ in range(args.passes):
                    moments.products(V, W)
                wall = time.perf_counter() - began
                driver, cpu, moved = account.read()
                figures.append(
                    [sum(c for c, _ in read), max(w for _, w in read), cpu, driver, wall, moved / 1e6]
                )
            partial = 8 * (columns + others) * 2 * args.k / 1e6
            limit = 2 * workers * (rows // count * (columns + others) * 4 / 1e6 + partial)
        for one_ in beside:
            one_.end()
        c0, w0, c1, d1, w1, mb = np.median(figures, axis=0) / args.passes
        print(
            f"  {workers} workers: CPU {c1:.3f} s a pass + {d1:.3f} s here, wall {w1:.3f} s; plain processes CPU "
            f"{c0:.3f} s, wall {w0:.3f} s: CPU {c1 / c0:.2f} times ({(c1 + d1) / c0:.2f} with this process), "
            f"wall {w1 / w0:.2f} times; {mb:.2f} MB moved (limit {limit:.0f})",
            flush=True,
        )


# ---- the SVD beside dask --------------------------------------------------------------------------


def svd(args: argparse.Namespace) -> None:
    """Truncated SVD: what dask reaches, and what linspec takes to get there."""
    k, rows = 20, args.svd_rows
    print(f"SVD, k = {k}, of {rows} x 400 in 10 blocks, two workers; CPU s of workers and this process")
    with cluster_of(2) as client:
        made = [
            da.from_delayed(
                dask.delayed(dense_rows)(i, rows // 10, 400, 40, "X"), (rows // 10, 400), np.float32
            )
            for i in range(10)
        ]
        X = da.concatenate(made).persist()
        wait(X)
        A = ls.as_operator(X)
        ls.solve(ls.SVD(A, k), "gram")  # every worker has imported everything

        def measured(label: str, work: Callable[[], tuple[Any, Any]]) -> tuple[float, float]:
            account = Account(client)
            S, V = work()
            driver, cpu, moved = account.read()
            error = residual(A, V, S)
            print(
                f"  {label:45s} {cpu:6.2f} + {driver:5.2f} s, {moved / 1e6:7.1f} MB, residual {error:.1e}",
                flush=True,
            )
            return cpu + driver, error

        def ours(solver: str, **given: Any) -> tuple[Any, Any]:
            found = ls.solve(ls.SVD(A, k), solver, rng=0, **given)
            return found.S, found.Vh.T

        def compressed(powers: int) -> tuple[Any, Any]:
            _, s, v = svd_compressed(X, k, n_power_iter=powers, iterator="QR", seed=0)
            S, V = dask.compute(s, v)
            return S, V.T

        def tall() -> tuple[Any, Any]:
            _, s, v = da.linalg.svd(X)
            S, V = dask.compute(s, v)
            return S[:k], V[:k].T

        exact, _ = measured("linspec gram", lambda: ours("gram"))
        for label, work in [
            ("dask.array.linalg.svd (dask-ml: tsqr)", tall),
            *(
                (f"svd_compressed, QR, {n} powers (dask-ml: randomized)", lambda n=n: compressed(n))
                for n in args.powers
            ),
        ]:
            cost, error = measured(label, work)
            least = exact, "gram"
            for form in ("dense", "implicit"):
                given = {"form": form, "tol": max(error, 1e-6)}
                mine, reached = measured(
                    f"    linspec block-krylov, {form}, tol {given['tol']:.1e}",
                    lambda given=given: ours("block-krylov", **given),
                )
                if reached <= error:
                    least = min(least, (mine, f"block-krylov, {form}"))
            print(
                f"    at this residual or a smaller one: {least[1]}, {least[0] / cost:.2f} of the CPU",
                flush=True,
            )


def main() -> None:
    """All figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--parts", nargs="+", default=["dense"], choices=["dense", "sparse", "engine", "svd"])
    parser.add_argument("--solvers", nargs="+", default=list(SOLVES), choices=list(SOLVES))
    parser.add_argument("--apart", action="store_true", help="each solve in a process of its own")
    for name, default in (("rows", 4_000_000), ("sparse-rows", 2_000_000), ("sparse-columns", 50_000),
                          ("engine-rows", 480_000), ("svd-rows", 500_000), ("blocks", 40), ("k", 10),
                          ("passes", 10), ("rounds", 5)):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--powers", type=int, nargs="*", default=[2, 6, 12])
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--plain", nargs=2, type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.plain:
        plain(args, *args.plain)
        return
    if args.one:
        print(json.dumps(one(*args.one, args)))
        return
    for part in args.parts:
        {"engine": engine, "svd": svd}.get(part, lambda args, part=part: solves(part, args))(args)


if __name__ == "__main__":
    main()
