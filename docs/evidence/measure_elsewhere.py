"""Print what solves take elsewhere than in memory and on this process's cores: on a GPU, on dask's workers, on files.

    python docs/evidence/measure_elsewhere.py gpu|dask|memory [--quick]

gpu: beside the same call on the host's cores, and beside CuPy's own routines, with 8 GB of the device's memory. Seconds
are of the clock with the device waited for, of turns after a first one. Errors are relative to the host's answer.

dask: a pass over two views of float32 rows, 240,000 x (400 + 100) in 12 blocks, in this process and by one and two
workers of one thread each, on this machine; then truncated SVDs beside those of dask. Needs distributed and psutil.

memory: a file of 5,000,000 x 200 float32 (4 GB in `--scratch`), two views of 100 columns, which is never loaded, and
sketches of its first quarter. Every run is a fresh process, whose peak resident set is its own.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from datasets import PROBLEMS, generated, write_planted
from showing import Claim, Report, Row, Table, arguments
from timing import Peak, apart

import linspec as ls
from linspec.arrays import to_host

# Family, k, rows, columns and entries a row, with the solvers that run; the second one is exact on the host.
TASKS: dict[tuple[Any, ...], tuple[str, ...]] = {
    ("SVD", 10, 1_000_000, 200, 0): ("auto", "gram", "block-krylov", "lanczos"),
    ("CCA", 10, 500_000, 200, 0): ("auto", "gram", "lobpcg", "als", "two-stage"),
    ("ridge", 1, 1_000_000, 200, 0): ("auto", "direct", "cg", "lsqr", "sketch-precondition"),
    ("LDA", 20, 1_000_000, 200, 0): ("auto", "direct", "two-stage"),
    ("triplets", 10, 400_000, 20_000, 60): ("auto", "block-krylov", "lanczos"),
    ("ridge", 1, 400_000, 20_000, 60): ("auto", "cg", "lsqr"),
}
FIGURES = {"SVD": "S", "triplets": "S", "CCA": "correlations", "ridge": "x", "LDA": "eigenvalues"}


def rivals(family: str, sparse: bool) -> dict[str, Callable[..., Any]]:
    """What one writes with CuPy."""
    import cupy as cp
    from cupyx.scipy.sparse.linalg import lsmr, svds

    def canonical(X: Any, Y: Any) -> Any:
        corner = (1e-3 * X.shape[0]) ** 0.5  # of the ridge
        rows = (cp.concatenate([M - M.mean(axis=0), corner * cp.eye(M.shape[1])]) for M in (X, Y))
        Qx, Qy = (cp.linalg.qr(M)[0][: X.shape[0]] for M in rows)
        return cp.linalg.svd(Qx.T @ Qy, compute_uv=False)[:10]

    if sparse and family == "ridge":
        return {"lsmr": lambda A, b: lsmr(A, b[:, 0], damp=1.0, atol=1e-8, btol=1e-8)[0][:, None]}
    known: dict[str, dict[str, Callable[..., Any]]] = {
        "SVD": {"svd": lambda A: cp.linalg.svd(A - A.mean(axis=0), full_matrices=False)[1][:10]},
        "triplets": {"svds": lambda A: svds(A, k=10, return_singular_vectors=False)[::-1]},
        "CCA": {"qr and svd": canonical},
        "ridge": {"normal equations": lambda A, b: cp.linalg.solve(A.T @ A + cp.eye(A.shape[1]), A.T @ b)},
    }
    return known.get(family, {})


def gpu(report: Report) -> None:
    try:
        import cupy as cp

        properties = cp.cuda.runtime.getDeviceProperties(0)
    except Exception as absent:  # noqa: BLE001 (CuPy has errors of its own)
        report.say([Claim("CuPy finds a device", None, str(absent).splitlines()[0])])
        return
    print(f"CuPy {cp.__version__}, {properties['name'].decode()}")
    head = "task", "method", "seconds::.4f", "worst::.4f", "error::.1e", "said", "x host::.1f"
    table = report.table(*head)
    for (family, k, n, p, each), solvers in TASKS.items():
        if report.given.quick:
            n, p = n // 100, p // 5
        data, name = generated(family, k, n, p, each), f"{family}, {n:,} x {p:,}{', sparse' * (each > 0)}"
        answer, seconds = waited(lambda: ls.solve(PROBLEMS[family](k, *data), solvers[1], rng=0))  # noqa: B023
        exact, best = to_host(getattr(answer, FIGURES[family])), {"linspec": np.inf}
        there = [on_device(array) for array in data]
        calls: dict[tuple[str, str], Callable[[], Any]] = {
            ("linspec", solver): partial(on_data, family, k, there, solver) for solver in solvers
        }
        calls |= {("CuPy", rival): partial(call, *there) for rival, call in rivals(family, each > 0).items()}
        for (who, method), call in calls.items():
            try:
                found, turns = waited(call)
            except Exception as refusal:  # noqa: BLE001 (CuPy has errors of its own)
                table.row(name, f"{who}, {method}", None, None, None, f"{refusal!r}"[:100])
                continue
            middle, own = statistics.median(turns), who == "linspec"
            best[who] = min(best.get(who, np.inf), middle)
            values = np.sort(to_host(getattr(found, FIGURES[family]) if own else found), axis=0)
            off = float(np.abs(values - np.sort(exact, axis=0)).max() / np.abs(exact).max())
            said = f"{found.solver} {found.status.name}, {found.passes:g} passes" if own else ""
            table.row(name, f"{who}, {method}", middle, max(turns), off, said, min(seconds) / middle)
        if "CuPy" in best:
            text = f"{name}: the fastest solver is no slower than CuPy"
            told = f"{best['linspec']:.4f} against {best['CuPy']:.4f} seconds"
            report.say([Claim(text, best["linspec"] <= best["CuPy"], told)])


def on_data(family: str, k: int, data: list[Any], solver: str) -> Any:
    return ls.solve(PROBLEMS[family](k, *data), solver, rng=0)


def on_device(array: Any) -> Any:
    import cupy as cp
    from cupyx.scipy import sparse

    return sparse.csr_matrix(array) if scipy.sparse.issparse(array) else cp.asarray(array)


def waited(call: Callable[[], Any]) -> tuple[Any, list[float]]:
    """Return the result of a call, and its seconds, with waits for the device; the first turn counts if it is alone."""
    import cupy as cp

    seconds: list[float] = []
    answer = None
    while len(seconds) <= 3 and sum(seconds) < 8.0:
        cp.cuda.Device().synchronize()
        began = time.perf_counter()
        answer = call()
        cp.cuda.Device().synchronize()
        seconds.append(time.perf_counter() - began)
    return answer, seconds[1:] or seconds


class Account:
    """CPU seconds of this process and of the workers, and megabytes on the loopback, since it was made."""

    HEAD = "", "this process, CPU s::.3f", "workers, CPU s::.3f", "MB::.2f", "residual::.1e"

    def __init__(self, client: Any) -> None:
        import psutil

        pids = client.run(os.getpid).values() if client else []
        self.processes, self.moved = [psutil.Process(), *map(psutil.Process, pids)], psutil.net_io_counters
        self.before = self._now()

    def _now(self) -> np.ndarray:
        times = [sum(process.cpu_times()[:2]) for process in self.processes]
        return np.array([times[0], sum(times[1:]), self.moved(pernic=True)["lo"].bytes_sent / 1e6])

    def read(self) -> np.ndarray:
        return self._now() - self.before


def dask(report: Report) -> None:
    import dask.array as da
    from distributed import Client, LocalCluster

    from linspec.workers import BlockOperator

    os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", LINSPEC_NUM_THREADS="1")
    quick = report.given.quick
    n, p, q, parts, k = (4800, 40, 10, 4, 5) if quick else (240_000, 400, 100, 12, 20)
    (rows,), sides = generated("SVD", k, n, p + q), (slice(0, p), slice(p, None))
    whole = np.array_split(rows.astype(np.float32), parts)
    views = [BlockOperator([np.ascontiguousarray(A[:, side]) for A in whole]) for side in sides]
    title = f"a pass of X and Y, {n} x ({p} + {q}) float32, k = {k} each"
    table = report.table(*Account.HEAD[:-1], title=title)
    swept(table, "no dask", views, None, k)
    for count in (1,) if quick else (1, 2):
        cluster = LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=":0")
        with cluster, Client(cluster) as client:
            lazy = da.concatenate([da.from_array(A) for A in whole])
            X, Y = (lazy[:, side].persist() for side in sides)
            swept(table, f"{count} workers", [X, Y], client, k)
            if count == (1 if quick else 2):
                decompositions(report, X[: n // 2].persist(), client, k)


def swept(table: Table, name: str, views: list[Any], client: Any, k: int) -> None:
    """The account of a pass of implicit products of both views, of 24 after the first two."""
    moments = ls.Moments(*views, center=True, form="implicit")
    blocks = [np.random.default_rng(0).standard_normal((A.shape[1], k)) for A in views]
    for turn in range(26):
        if turn == 2:
            account = Account(client)
        moments.products(*blocks)
    table.row(name, *account.read() / 24)


def decompositions(report: Report, X: Any, client: Any, k: int) -> None:
    """Truncated SVDs of linspec and of dask; the residual is ‖AᵀA V - V S²‖ / ‖S²‖, in float64."""
    import dask
    import dask.array as da

    compressed = partial(da.linalg.svd_compressed, X, k, iterator="QR", seed=0)
    calls: dict[str, Callable[[], Any]] = {
        "linspec block-krylov": lambda: ls.solve(ls.SVD(X, k), "block-krylov", rng=0, form="implicit"),
        "linspec gram, exact": lambda: ls.solve(ls.SVD(X, k), "gram", rng=0),
        "svd_compressed, 2 power iterations": lambda: dask.compute(*compressed(n_power_iter=2)[1:]),
        "svd_compressed, 6 power iterations": lambda: dask.compute(*compressed(n_power_iter=6)[1:]),
        "da.linalg.svd": lambda: dask.compute(*da.linalg.svd(X)[1:]),
    }
    table = report.table(*Account.HEAD, title=f"SVD, k = {k}")
    for name, call in calls.items():
        account, found = Account(client), call()
        costs = account.read()
        S, Vh = (found.S, found.Vh) if name.startswith("linspec") else found
        S, V = S[:k], np.asarray(Vh[:k].T, dtype=np.float64)
        gap = ls.Moments(X, form="implicit").gram(V) - V * S**2
        table.row(name, *costs, float(np.linalg.norm(gap) / np.linalg.norm(S**2)))


def of_file(path: Path, problem: str, solver: str, options: dict[str, Any]) -> Row:
    """CCA of the two halves of the file, or a sketch of its first quarter."""
    warnings.simplefilter("ignore")
    pair = ls.CCA(np.eye(99, 4), np.eye(99, 3), 1, ridge=1.0)
    ls.solve(pair if problem == "CCA" else ls.SVD(np.eye(99, 40), 1), solver, rng=0)  # imports
    with Peak() as peak:
        M = np.load(path, mmap_mode="r")
        half = M.shape[1] // 2
        if problem == "CCA":
            stated = ls.CCA(M[:, :half], M[:, half:], 10, ridge=1.0, center=True)
        else:
            stated = ls.SVD(M[: len(M) // 4], 10, center=True, left=False)
        s = ls.solve(stated, solver, rng=0, **options)
    said = f"{s.status.name}, {s.passes:g} passes, residual {s.residual:.1e}"
    return {"memory": peak.memory, "before": peak.before, "clock": peak.watch.clock, "said": said}


def memory(report: Report) -> None:
    rows = 50_000 if report.given.quick else 5_000_000
    table = report.table("run", "MiB::.0f", "beyond MiB::.0f", "clock::.2f", "said")
    few = {"form": "implicit", "max_iterations": 5}
    runs = ("CCA", "gram", {}), ("CCA", "appgrad", {}), ("CCA", "appgrad", few), ("SVD", "spca", {})
    with tempfile.TemporaryDirectory(dir=report.given.scratch) as folder:
        path = Path(folder) / "views.npy"
        write_planted(path, rows, 200)
        for problem, solver, options in (*runs, ("SVD", "lazy-spca", {})):
            found = apart(of_file, path, problem, solver, options)
            figures = (found.get(field) for field in ("memory", "before", "clock", "said"))
            table.row(f"{problem}, {solver}, {options}", *figures)


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("part", choices=("gpu", "dask", "memory"), help="where the solves run")
    parser.add_argument("--scratch", default=tempfile.gettempdir(), help="folder for the file of memory")
    report = Report(parser)
    {"gpu": gpu, "dask": dask, "memory": memory}[report.given.part](report)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
