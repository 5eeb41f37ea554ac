"""Print what solves take on a GPU: beside the same call on the host's cores, and beside CuPy's own routines.

Run `python docs/evidence/measure_gpu.py` where CuPy finds a device. It takes some minutes, 8 GB of the device's memory
and as much of the host's; `--quick` takes small data. Figures are seconds of the clock with the device waited for, the
median and, in brackets, the worst of the turns after a first one, which compiles kernels and does not count. The host's
BLAS has all of its cores. Errors are relative to what the host finds exactly: of singular values, of correlations, of
coefficients, of the ratios of discriminants. The rivals are what one writes with CuPy.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from showing import Claim, Report, arguments

import linspec as ls
from linspec.arrays import to_host

ENOUGH = 8.0
"""Seconds after which a method has no other turn."""


@dataclass
class Task:
    """Data of the host, the problem that they make, and how its answer is read and found otherwise."""

    data: tuple[Any, ...]
    problem: Callable[..., Any]
    figures: Callable[[Any], Any]
    solvers: tuple[str, ...]
    exact: str = "gram"
    rivals: dict[str, Callable[..., Any]] = field(default_factory=dict)
    float32: bool = False


def images(rng: np.random.Generator, n: int, p: int, r: int) -> np.ndarray:
    """Rows with r factors of falling size, noise, and means."""
    A = rng.standard_normal((n, p), dtype=np.float32).astype(np.float64)
    A *= 0.1
    A += (rng.standard_normal((n, r)) * np.geomspace(1.0, 0.1, r)) @ rng.standard_normal((r, p))
    A += rng.standard_normal(p)
    return A


def words(rng: np.random.Generator, n: int, p: int, per_row: int) -> scipy.sparse.csr_matrix:
    """Counts of words whose frequencies fall as in text; rows of two topics out of 30."""
    topics = rng.dirichlet(np.full(30, 0.1), size=p).T * (1.0 / np.arange(1, p + 1))
    sums = np.cumsum(topics / topics.sum(axis=1, keepdims=True), axis=1)
    topic = rng.integers(0, 30, (n, 2))
    columns = np.empty((n, per_row), dtype=np.int64)
    for t in range(30):
        for half in range(2):
            rows = np.flatnonzero(topic[:, half] == t)
            part = slice(half * per_row // 2, (half + 1) * per_row // 2)
            width = part.stop - part.start
            columns[rows, part] = np.searchsorted(sums[t], rng.random((len(rows), width))).clip(max=p - 1)
    counts = scipy.sparse.csr_matrix(
        (np.ones(n * per_row), columns.ravel(), np.arange(n + 1) * per_row), shape=(n, p)
    )
    counts.sum_duplicates()
    return counts


def tasks(quick: bool) -> dict[str, Task]:
    """Everything that is measured."""
    import cupy as cp

    rng = np.random.default_rng(0)
    n = 20_000 if quick else 1_000_000
    wide, text = (50, (5_000, 1_000)) if quick else (200, (400_000, 20_000))
    k, ridge = 10, 100.0

    A = images(rng, n, wide, 20)
    X, Y = A[: n // 2], images(rng, n // 2, wide, 20)
    Y[:, : wide // 2] += X[:, : wide // 2] * np.geomspace(1, 0.01, wide // 2)
    B = A @ rng.standard_normal((wide, 10)) + rng.standard_normal((n, 10))
    classes = rng.integers(0, 20, n)
    Z = A + rng.standard_normal((20, wide))[classes] * np.geomspace(0.3, 0.01, wide)
    counts = words(rng, *text, 60)
    b = rng.standard_normal((text[0], 1)) + counts[:, :1].toarray()

    def svd(A: Any) -> Any:
        return cp.linalg.svd(A - A.mean(axis=0), full_matrices=False)[1][:k]

    def squares(A: Any) -> Any:
        A = A - A.mean(axis=0)
        return cp.sqrt(cp.linalg.eigvalsh(A.T @ A)[::-1][:k])

    def canonical(X: Any, Y: Any) -> Any:
        Qx, Qy = (cp.linalg.qr(M - M.mean(axis=0))[0] for M in (X, Y))
        return cp.linalg.svd(Qx.T @ Qy, compute_uv=False)[:k]

    def normal(A: Any, B: Any) -> Any:
        return cp.linalg.solve(A.T @ A + ridge * cp.eye(A.shape[1]), A.T @ B)

    def lstsq(A: Any, B: Any) -> Any:
        A = cp.concatenate([A, ridge**0.5 * cp.eye(A.shape[1])])
        return cp.linalg.lstsq(A, cp.concatenate([B, cp.zeros((A.shape[1], B.shape[1]))]), rcond=None)[0]

    def truncated(A: Any) -> Any:
        from cupyx.scipy.sparse.linalg import svds

        return svds(A, k=k, return_singular_vectors=False)[::-1]

    def least(A: Any, b: Any) -> Any:
        from cupyx.scipy.sparse.linalg import lsmr

        return lsmr(A, b[:, 0], damp=10.0 * ridge**0.5, atol=1e-8, btol=1e-8)[0][:, None]

    return {
        f"PCA, {n} x {wide}": Task(
            (A,),
            lambda A: ls.SVD(A, k=k, center=True),
            lambda s: s.S,
            ("auto", "gram", "block-krylov", "lanczos"),
            rivals={"linalg.svd": svd, "eigvalsh of the Gram matrix": squares},
            float32=True,
        ),
        f"CCA, {n // 2} x ({wide} + {wide})": Task(
            (X, Y),
            lambda X, Y: ls.CCA(X, Y, k=k, center=True),
            lambda s: s.correlations,
            ("auto", "gram", "lobpcg", "als", "two-stage"),
            rivals={"linalg.qr and svd": canonical},
            float32=True,
        ),
        f"ridge, {n} x {wide}, 10 targets": Task(
            (A, B),
            lambda A, B: ls.LeastSquares(A, B, ridge=ridge),
            lambda s: s.x,
            ("auto", "direct", "cg", "lsqr", "sketch-precondition"),
            exact="direct",
            rivals={"linalg.lstsq": lstsq, "solve of the normal equations": normal},
        ),
        f"LDA, {n} x {wide}, 20 classes": Task(
            (Z, classes),
            lambda Z, y: ls.Discriminant(Z, ls.targets.lda(y), k=k),
            lambda s: s.eigenvalues,
            ("auto", "direct", "two-stage"),
            exact="direct",
        ),
        f"SVD of text, {text[0]} x {text[1]}": Task(
            (counts,),
            lambda A: ls.SVD(A, k=k),
            lambda s: s.S,
            ("auto", "block-krylov", "lanczos"),
            exact="block-krylov",
            rivals={"sparse.linalg.svds": truncated},
        ),
        f"ridge of text, {text[0]} x {text[1]}": Task(
            (counts, b),
            lambda A, b: ls.LeastSquares(A, b, ridge=100.0 * ridge),
            lambda s: s.x,
            ("auto", "cg", "lsqr"),
            exact="cg",
            rivals={"sparse.linalg.lsmr": least},
        ),
    }


def on_device(array: Any, dtype: Any = None) -> Any:
    """Data of the host as CuPy's."""
    import cupy as cp
    from cupyx.scipy import sparse

    if scipy.sparse.issparse(array):
        return sparse.csr_matrix(array)
    return cp.asarray(array, dtype=dtype if array.dtype.kind == "f" else None)


def turns(call: Callable[[], Any], most: int) -> tuple[Any, list[float]]:
    """Return the result of a call, and its seconds, with waits for the device; the first turn counts only if it is
    alone.
    """
    import cupy as cp

    seconds: list[float] = []
    answer = None
    while len(seconds) <= most and sum(seconds) < ENOUGH:
        cp.cuda.Device().synchronize()
        began = time.perf_counter()
        answer = call()
        cp.cuda.Device().synchronize()
        seconds.append(time.perf_counter() - began)
    return answer, seconds[1:] or seconds


def error(found: Any, exact: Any) -> float:
    """The largest difference, relative to the largest entry."""
    found = to_host(found)
    return float(np.abs(np.sort(found, axis=0) - np.sort(exact, axis=0)).max() / np.abs(exact).max())


def solved(task: Task, data: tuple[Any, ...], solver: str) -> Any:
    """The problem, made and solved."""
    return ls.solve(task.problem(*data), solver, rng=0)


def measure(name: str, task: Task, table: Any, most: int) -> dict[str, float]:
    """Print the rows of one task; returns the medians of all methods."""
    import cupy as cp

    medians: dict[str, float] = {}
    answer, seconds = turns(partial(solved, task, task.data, task.exact), 1)
    exact, on_host = to_host(task.figures(answer)), min(seconds)

    def row(method: str, call: Callable[[], Any], read: Callable[[Any], Any]) -> None:
        try:
            answer, seconds = turns(call, most)
        except Exception as refusal:  # noqa: BLE001 (CuPy has errors of its own)
            table.row(name, method, None, None, None, None, f"{type(refusal).__name__}: {str(refusal)[:100]}")
            return
        medians[method] = statistics.median(seconds)
        said = f"{answer.solver} {answer.status.name}" if isinstance(answer, ls.Solution) else ""
        passes = answer.passes if isinstance(answer, ls.Solution) else None
        ratio = on_host / medians[method] if said.startswith(task.exact) and "32" not in method else None
        table.row(
            name, method, medians[method], max(seconds), passes, error(read(answer), exact), said, ratio
        )

    for dtype in (np.float64, np.float32) if task.float32 else (np.float64,):
        kind = "" if dtype is np.float64 else ", float32"
        there = tuple(on_device(array, dtype) for array in task.data)
        for solver in task.solvers:
            call = partial(solved, task, there, solver)
            row(f"`{solver}`{kind}", call, task.figures)
        for method, call in task.rivals.items():
            row(f"CuPy, {method}{kind}", partial(call, *there), lambda found: found)
        del there
        cp.get_default_memory_pool().free_all_blocks()
    return medians


def main() -> int:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--only", default="", help="only tasks with this text in their names")
    parser.add_argument("--turns", type=int, default=3, help="turns that count")
    report = Report(parser)
    try:
        import cupy as cp

        properties = cp.cuda.runtime.getDeviceProperties(0)
    except Exception as absent:  # noqa: BLE001 (CuPy has errors of its own)
        report.say([Claim("CuPy finds a device", None, str(absent).splitlines()[0])])
        return report.end()
    print(f"CuPy {cp.__version__}, {properties['name'].decode()}")
    columns = (
        "task",
        "method",
        "seconds::.4f",
        "worst::.4f",
        "passes",
        "error::.1e",
        "solver, status",
        "x host::.1f",
    )
    table = report.table(*columns)
    for name, task in tasks(report.given.quick).items():
        if report.given.only in name:
            medians = measure(name, task, table, report.given.turns)
            ours = min(
                seconds
                for method, seconds in medians.items()
                if method.startswith("`") and "32" not in method
            )
            theirs = [s for method, s in medians.items() if method.startswith("CuPy") and "32" not in method]
            if theirs:
                figures = f"{ours:.4f} against {min(theirs):.4f} seconds"
                report.say(
                    [
                        Claim(
                            f"{name}: the fastest solver is no slower than CuPy", ours <= min(theirs), figures
                        )
                    ]
                )
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
