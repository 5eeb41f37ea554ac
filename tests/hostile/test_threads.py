"""Solves in several threads and in pools of processes.

An answer of a solve among others has the bits of the same solve alone, and the BLAS has its limits back at the end.
LINSPEC_HOSTILE=N makes N times as many solves.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg  # noqa: F401  # its BLAS is there from the beginning
import scipy.sparse as sp
import threadpoolctl
from hostile.outcomes import SECONDS, apart

import linspec as ls

TIMES = int(os.environ.get("LINSPEC_HOSTILE", "1"))
THREADS = 8
KINDS = ("dense", "sparse", "map")


def views(kind: str, folder: Path) -> tuple[Any, Any]:
    if kind == "sparse":
        X = sp.random(1500, 60, 0.06, random_state=0, format="csr")
        return X, sp.random(1500, 20, 0.2, random_state=1, format="csr")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 12)) @ np.diag(np.linspace(1, 3, 12))
    Y = X[:, :6] + rng.standard_normal((400, 6))
    if kind == "dense":
        return X, Y
    for name, view in (("X", X), ("Y", Y)):
        np.save(folder / f"{name}.npy", view)
    return tuple(np.load(folder / f"{name}.npy", mmap_mode="r") for name in "XY")


def jobs(kind: str, folder: Path) -> list[tuple[Any, str, dict[str, Any]]]:
    """Problems on the same data, with solvers that iterate, and one that does not."""
    X, Y = views(kind, folder)
    implicit = {"form": "implicit"}
    return [
        (ls.SVD(X, 3), "block-krylov", implicit),
        (ls.SVD(X, 3, center=True), "auto", {}),
        (ls.CCA(X, Y, 2, ridge=1.0), "lobpcg", implicit),
        (ls.LeastSquares(X, np.ones((X.shape[0], 2)), ridge=1.0), "lsqr", {}),
    ]


def bits(solution: Any) -> list[bytes]:
    """Everything of an answer that is an array, its passes and its status."""
    names = ("x", "S", "Vh", "x_weights", "y_weights", "correlations")
    found = [np.asarray(getattr(solution, name)).tobytes() for name in names if hasattr(solution, name)]
    return [*found, repr(solution.passes).encode(), solution.status.name.encode()]


def solved(job: tuple[Any, str, dict[str, Any]]) -> list[bytes]:
    problem, solver, options = job
    return bits(ls.solve(problem, solver, rng=0, max_passes=40, **options))


@pytest.mark.parametrize("kind", [*KINDS, "all"])
@pytest.mark.parametrize("blas", [1, 2])
@pytest.mark.slow(keep=3)
def test_eight_threads_have_the_bits_of_one(kind: str, blas: int, tmp_path: Path) -> None:
    """Different problems at once with one BLAS thread: a BLAS adds up otherwise with another number of them."""
    todo = [job for own in (KINDS if kind == "all" else (kind,)) for job in jobs(own, tmp_path)]
    orders: list[Any] = [[i] * THREADS * TIMES for i in range(len(todo))]
    if blas == 1:
        orders = [np.random.default_rng(0).integers(0, len(todo), 3 * THREADS * TIMES)]
    with threadpoolctl.threadpool_limits(blas, user_api="blas"):
        before = threadpoolctl.threadpool_info()
        alone = [solved(job) for job in todo]
        for order in orders:
            with ThreadPoolExecutor(THREADS) as pool:
                found = list(pool.map(lambda i: solved(todo[i]), order))
            assert all(answer == alone[i] for i, answer in zip(order, found, strict=True))
        assert threadpoolctl.threadpool_info() == before


@pytest.mark.parametrize("kind", KINDS)
def test_moments_that_threads_share_are_formed_once(kind: str, tmp_path: Path) -> None:
    X, Y = views(kind, tmp_path)
    alone = bits(ls.solve(ls.CCA(ls.Moments(X, Y, center=True, form="dense"), k=2, ridge=1.0), "gram"))
    shared = ls.Moments(X, Y, center=True, form="dense")
    problem, barrier = ls.CCA(shared, k=2, ridge=1.0), threading.Barrier(THREADS)

    def work(_: int) -> Any:
        barrier.wait(SECONDS)
        return bits(ls.solve(problem, "gram"))

    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(work, range(THREADS)))
    assert shared.passes == 1
    assert all(answer[:-2] == alone[:-2] for answer in found)
    assert sum(answer == alone for answer in found) == 1, "one run made the pass, and others count it, too"


POOL = """
import multiprocessing, sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from hostile.test_threads import jobs, solved

if __name__ == "__main__":
    todo = [*jobs("dense", Path()), *jobs("sparse", Path())]
    alone = [solved(job) for job in todo]
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(sys.argv[1])) as pool:
        assert list(pool.map(solved, todo)) == alone
"""


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
@pytest.mark.slow(keep=1)
def test_pools_of_processes(method: str, tmp_path: Path) -> None:
    """Problems go there, and answers have the same bits, also in a child that is forked after solves."""
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"the system has no {method}")
    (tmp_path / "pooled.py").write_text(POOL)  # a file, which child processes can import
    apart(tmp_path / "pooled.py", method, cwd=tmp_path)
