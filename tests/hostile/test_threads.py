"""Solves in several threads, after a fork, in pools of processes, and while the interpreter shuts down.

An answer of a solve among others has the bits of the same solve alone, and the BLAS has its limits back at the end.
LINSPEC_HOSTILE=N makes N times as many solves.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
import scipy.linalg  # noqa: F401  # its BLAS is there from the beginning
import scipy.sparse as sp
import threadpoolctl
from hostile.outcomes import SECONDS, Leak, Raw, Silent, apart, holds

import linspec as ls
from linspec.process import machine

TIMES = int(os.environ.get("LINSPEC_HOSTILE", "1"))
THREADS = 8


def blas() -> list[int]:
    """The threads that each BLAS library may use."""
    return [found["num_threads"] for found in threadpoolctl.threadpool_info() if found["user_api"] == "blas"]


@pytest.fixture
def two_blas_threads():
    """A BLAS with several threads, which must have them again at the end."""
    with threadpoolctl.threadpool_limits(2, user_api="blas") as limits:
        for (
            library
        ) in limits._controller.lib_controllers:  # any thread may set a limit, as if this one had not
            getattr(library, "clear_controlling_thread", lambda force: None)(force=True)
        before = blas()
        yield
        after = blas()
        if after != before:
            raise Leak(f"the BLAS had {before} threads and has {after}")


def bits(solution: Any) -> list[bytes]:
    """Everything of an answer that is an array, its passes and its status."""
    names = ("x", "U", "S", "Vh", "x_weights", "y_weights", "correlations", "weights", "eigenvalues")
    arrays = [getattr(solution, name, None) for name in names]
    found = [np.ascontiguousarray(array).tobytes() for array in arrays if array is not None]
    return [*found, repr(solution.passes).encode(), solution.status.name.encode()]


def sparse_views() -> tuple[Any, Any]:
    X = sp.random(1500, 60, 0.06, random_state=0, format="csr")
    return X, sp.random(1500, 20, 0.2, random_state=1, format="csr")


def dense_views() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 12)) @ np.diag(np.linspace(1, 3, 12))
    return X, X[:, :6] + rng.standard_normal((400, 6))


def mapped_views(folder: Any) -> tuple[Any, Any]:
    for name, view in zip("XY", dense_views(), strict=True):
        np.save(folder / name, view)
    return tuple(np.load(folder / f"{name}.npy", mmap_mode="r") for name in "XY")


KINDS = ("dense", "sparse", "map")


def views(kind: str, folder: Any) -> tuple[Any, Any]:
    return {"dense": dense_views, "sparse": sparse_views, "map": lambda: mapped_views(folder)}[kind]()


def jobs(kind: str, folder: Any) -> list[tuple[Any, str, dict[str, Any]]]:
    """Problems on the same data, with solvers that iterate, and one that does not."""
    X, Y = views(kind, folder)
    B = np.random.default_rng(2).standard_normal((X.shape[0], 2))
    return [
        (ls.SVD(X, 3), "block-krylov", {"form": "implicit"}),
        (ls.SVD(X, 3, center=True), "auto", {}),
        (ls.CCA(X, Y, 2, ridge=1.0), "lobpcg", {"form": "implicit"}),
        (ls.CCA(X, Y, 2, ridge=1.0), "gram", {}),
        (ls.LeastSquares(X, B, ridge=1.0), "lsqr", {}),
    ]


def solved(job: tuple[Any, str, dict[str, Any]]) -> list[bytes]:
    problem, solver, options = job
    return bits(ls.solve(problem, solver, rng=0, max_passes=40, **options))


def in_eight_threads(todo: list[Any], order: list[int]) -> None:
    """Solve in this order, and compare with each solve alone."""
    alone = {i: solved(todo[i]) for i in set(order)}
    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(lambda i: solved(todo[i]), order))
    wrong = sum(answer != alone[i] for i, answer in zip(order, found, strict=True))
    holds(not wrong, f"{wrong} of {len(order)} answers differ from those of the same solve alone")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow(keep=1)
def test_eight_threads_on_one_problem_have_the_bits_of_one(kind, tmp_path, two_blas_threads):
    todo = jobs(kind, tmp_path)
    for i in range(len(todo)):
        in_eight_threads(todo, [i] * THREADS * TIMES)


@pytest.mark.parametrize("kind", [*KINDS, "all"])
@pytest.mark.slow(keep=1)
def test_eight_threads_on_the_same_data_have_the_bits_of_one(kind, tmp_path):
    """Different problems at once: with one BLAS thread, for a BLAS adds up otherwise with another number of them."""
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        todo = [job for own in (KINDS if kind == "all" else (kind,)) for job in jobs(own, tmp_path)]
        order = np.random.default_rng(0).integers(0, len(todo), 3 * THREADS * TIMES).tolist()
        in_eight_threads(todo, order)


@pytest.mark.parametrize("kind", KINDS)
def test_moments_that_threads_share_are_formed_once(kind, tmp_path):
    X, Y = views(kind, tmp_path)
    alone = bits(ls.solve(ls.CCA(ls.Moments(X, Y, center=True, form="dense"), k=2, ridge=1.0), "gram"))
    shared = ls.Moments(X, Y, center=True, form="dense")
    problem = ls.CCA(shared, k=2, ridge=1.0)
    together = threading.Barrier(THREADS)

    def solve(_: int) -> list[bytes]:
        together.wait(SECONDS)
        return bits(ls.solve(problem, "gram"))

    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(solve, range(THREADS)))
    holds(shared.passes == 1, f"the data were read {shared.passes:g} times")
    holds(all(answer[:-2] == alone[:-2] for answer in found), "answers differ")
    holds(sum(answer == alone for answer in found) == 1, "one run made the pass, and others count it, too")


# ---- streams -------------------------------------------------------------------------------------


def test_an_iterator_is_read_by_one_of_several_threads():
    X, _ = dense_views()
    alone = np.linalg.svd(X, compute_uv=False)[:3]
    for _ in range(5 * TIMES):
        problem = ls.SVD(iter(np.array_split(X, 20)), 3)
        together = threading.Barrier(THREADS)

        def solve(_: int, problem: Any = problem, together: Any = together) -> Any:
            together.wait(SECONDS)
            try:
                return ls.solve(problem, "auto", rng=0).S
            except ls.errors.SweptOnce:
                return None
            except Exception as error:
                raise Raw(f"{type(error).__name__}: {error}") from error

        with ThreadPoolExecutor(THREADS) as pool:
            found = [S for S in pool.map(solve, range(THREADS)) if S is not None]
        holds(len(found) == 1, f"{len(found)} threads had an answer of data that can be read once")
        holds(np.allclose(found[0], alone, rtol=1e-6), "the answer is wrong")


# ---- the limits of the BLAS ----------------------------------------------------------------------


def meeting(ends: list[threading.Event], i: int, *, raises: type[BaseException] | None) -> Any:
    """Make a callback that begins after the thread before, and ends when its event is set."""

    def callback(progress: Any) -> None:
        if progress.iteration == 1:
            ends[2 * i].set()
            ends[2 * i + 1].wait(SECONDS)
            if raises is not None:
                raise raises("the callback's own")

    return callback


@pytest.mark.parametrize(
    "order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)], ids=lambda order: "".join(map(str, order))
)
@pytest.mark.parametrize("raises", [None, ValueError, KeyboardInterrupt, SystemExit])
def test_overlapping_solves_leave_the_blas_as_it_was(order, raises, two_blas_threads):
    """Each begins while those before it are at work; they end in any order, the second by an error."""
    X, _ = sparse_views()
    events = [threading.Event() for _ in range(6)]
    ended = [threading.Event() for _ in range(3)]

    def solve(i: int) -> None:
        callback = meeting(events, i, raises=raises if i == 1 else None)
        try:
            ls.solve(ls.SVD(X, 3), "block-krylov", rng=0, form="implicit", callback=callback)
        except BaseException as error:
            if not isinstance(error, raises or ()):
                raise
        finally:
            ended[i].set()

    threads = [threading.Thread(target=solve, args=(i,)) for i in range(3)]
    for i, thread in enumerate(threads):
        thread.start()
        assert events[2 * i].wait(SECONDS)
    for i in order:
        events[2 * i + 1].set()
        assert ended[i].wait(SECONDS)
    for thread in threads:
        thread.join()


# ---- where there are no threads ------------------------------------------------------------------


def larger_sparse() -> Any:
    return sp.random(20_000, 300, 0.06, random_state=0, format="csr")


@pytest.mark.parametrize("started", [0, 1, 2])
@pytest.mark.slow(keep=1)
def test_a_system_that_gives_no_thread(started, monkeypatch):
    """The first threads start, and then none: what was handed to them is done once, and by the caller else."""
    problem = ls.SVD(larger_sparse(), 5)
    alone = bits(ls.solve(problem, "block-krylov", rng=0, form="implicit", max_passes=10))
    monkeypatch.setenv("LINSPEC_NUM_THREADS", str(os.cpu_count() or 1))
    usual, count = threading.Thread.start, 0

    def start(thread: threading.Thread) -> None:
        nonlocal count
        count += 1
        if count > started:
            raise RuntimeError("can't start new thread")
        usual(thread)

    machine._pool.cache_clear()
    monkeypatch.setattr(threading.Thread, "start", start)
    for _ in range(5):
        try:
            found = bits(ls.solve(problem, "block-krylov", rng=0, form="implicit", max_passes=10))
        except RuntimeError as error:
            raise Raw(f"RuntimeError: {error}") from error
        holds(found == alone, "the answer differs")
    monkeypatch.undo()
    machine._pool.cache_clear()


# ---- forks and pools of processes ----------------------------------------------------------------

SHARED = """
    import os, sys, threading, time, warnings
    warnings.simplefilter("ignore")
    import numpy as np, scipy.sparse as sp, threadpoolctl
    import linspec as ls

    def blas():
        return [f["num_threads"] for f in threadpoolctl.threadpool_info() if f["user_api"] == "blas"]

    S = sp.random(5000, 200, 0.02, random_state=0, format="csr")
    D = np.random.default_rng(0).standard_normal((1500, 20))
    T = S[:, :12].toarray()
    problems = [(ls.SVD(S, 3), "block-krylov"), (ls.CCA(S, T, 2, ridge=1.0), "lobpcg"), (ls.SVD(D, 3), "lanczos")]
    def solve(i):
        problem, solver = problems[i % 3]
        found = ls.solve(problem, solver, rng=0, max_passes=20, form="implicit")
        names = ("x_weights", "correlations") if i % 3 == 1 else ("S", "Vh")
        return [np.asarray(getattr(found, name)).tobytes() for name in names]
"""


SLOW = [pytest.param(method, marks=pytest.mark.slow) for method in ("fork", "forkserver")]


@pytest.mark.parametrize("method", ["spawn", *SLOW])
def test_pools_of_processes(method, tmp_path):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"the system has no {method}")
    program = f"""
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor
        if __name__ == "__main__":
            alone = [solve(i) for i in range(3)]
            with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context({method!r})) as pool:
                print(list(pool.map(solve, range(6))) == alone * 2)
    """
    script = tmp_path / "pooled.py"
    script.write_text(dedent(SHARED) + dedent(program), encoding="utf-8")
    done = apart(script)  # a file, which child processes can import
    holds(
        done.stdout.strip() == "True", f"answers of child processes differ: {done.stdout}{done.stderr[-300:]}"
    )


@pytest.mark.slow
def test_processes_of_loky():
    joblib = pytest.importorskip("joblib")
    X, Y = sparse_views()
    problem = ls.CCA(X, Y, 2, ridge=1.0)
    alone = bits(ls.solve(problem, "lobpcg", rng=0))
    with warnings.catch_warnings(), joblib.parallel_config("loky", n_jobs=2):
        warnings.simplefilter("ignore")
        found = joblib.Parallel()(joblib.delayed(ls.solve)(problem, "lobpcg", rng=0) for _ in range(4))
    if not all(np.allclose(s.correlations, np.frombuffer(alone[2]), rtol=1e-8) for s in found):
        raise Silent("answers of child processes differ")
