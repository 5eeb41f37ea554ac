"""Faults on a cluster of dask: each ends in one error of linspec or in the answer, and none in a hang."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

import linspec as ls
from linspec.errors import (
    BudgetTooSmall,
    ClusterLost,
    InvalidProblem,
    OutOfMemory,
    PerformanceWarning,
)

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")

from linspec_dask import engine, waiting  # noqa: E402  (it needs dask)

X = np.random.default_rng(0).standard_normal((600, 12)) * np.geomspace(3.0, 1.0, 12)
EXACT = np.linalg.svd(X)[1][:2]


def chunks() -> Any:
    return da.from_array(X, chunks=(100, -1))


def solved(data: Any, callback: Any = None, **given: Any) -> Any:
    """Many passes, so that there is a middle."""
    problem = ls.SVD(data, 2)
    return ls.solve(problem, "block-krylov", form="implicit", rng=0, callback=callback, **given)


def once(act: Any) -> Any:
    """A callback that acts at its first call."""
    calls = []

    def callback(progress: Any) -> None:
        calls.append(progress)
        if len(calls) == 1:
            act()

    return callback


@pytest.fixture(autouse=True)
def _no_client_afterwards():
    """A client that is closed in the midst of its work may leave itself behind as the scheduler of dask."""
    before = dask.config.get("scheduler", None)
    yield
    dask.config.config.pop("scheduler", None)
    if before is not None:
        dask.config.config["scheduler"] = before


@pytest.fixture
def cluster():
    """Two workers that are threads of this process, of one test alone."""
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0", silence_logs=50
        ) as cluster,
    ):
        yield cluster


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as client:
        yield client


@pytest.fixture
def quick(monkeypatch):
    """One who waits looks often."""
    for module, name, value in (
        (waiting, "SECONDS", 0.05),
        (engine, "SECONDS", 0.05),
        (waiting, "UNTIL_FREED", 3),
        (waiting, "PATIENCE", 0.2),
    ):
        monkeypatch.setattr(module, name, value)


@pytest.fixture
def watched(quick, monkeypatch):
    """Functions that are called whenever one who waits for the cluster looks after it."""
    calls, usual = [], waiting.Watch.look

    def look(watch: Any) -> None:
        for call in calls:
            call()
        usual(watch)

    monkeypatch.setattr(waiting.Watch, "look", look)
    return calls


# ---- the cluster goes -----------------------------------------------------------------------------


def test_a_scheduler_that_is_lost_in_mid_solve_is_one_error(cluster, client):
    A = ls.as_operator(chunks())
    with pytest.raises(ClusterLost, match=r"scheduler of dask .* Start a cluster"):
        solved(A, once(lambda: cluster.sync(cluster.scheduler.close)))
    with pytest.raises(ClusterLost):
        solved(A)


def test_a_client_that_is_closed_in_mid_solve_is_one_error(client):
    A = ls.as_operator(chunks())
    with pytest.raises(ClusterLost, match="must stay open until the solve ends"):
        solved(A, once(client.close))


def test_a_client_that_is_closed_while_one_waits_is_one_error(client, watched):
    blocks = [dask.delayed(_late)(X[:300]), dask.delayed(_late)(X[300:])]
    watched.append(client.close)
    GO_ON.clear()
    try:
        with pytest.raises(ClusterLost):
            ls.as_operator(blocks)
    finally:
        GO_ON.set()


GO_ON = threading.Event()
"""Event for which a late block waits; the workers are threads of this process."""


def _late(rows: Any) -> Any:
    GO_ON.wait()
    return rows


def test_blocks_that_somebody_cancels_or_a_cluster_that_starts_again_is_one_error(client):
    A = ls.as_operator(chunks())
    with pytest.raises(
        ClusterLost, match=r"[Ss]tate the problem again"
    ):  # dask may drop the connection at that
        solved(A, once(lambda: client.cancel([held.future for held in A.handles])))


# ---- work fails -----------------------------------------------------------------------------------


def _broken(kind: type[Exception], text: str) -> Any:
    raise kind(text)


def test_an_error_of_a_users_function_is_named_with_its_block(client):
    blocks = [dask.delayed(X[:300]), dask.delayed(_broken)(KeyError, "no plate 7"), dask.delayed(X[300:])]
    with pytest.raises(InvalidProblem, match=r"block 1 of the data .* KeyError: 'no plate 7'") as caught:
        ls.as_operator(blocks)
    assert isinstance(caught.value.__cause__, KeyError)
    chunk = chunks().map_blocks(
        lambda rows, block_info=None: 1 / 0 if block_info[0]["chunk-location"][0] == 4 else rows, meta=X[:1]
    )
    with pytest.raises(InvalidProblem, match=r"block 4 of the data .* ZeroDivisionError"):
        ls.as_operator(chunk)


def test_a_worker_without_memory_for_a_block_is_named(client):
    blocks = [dask.delayed(X), dask.delayed(_broken)(MemoryError, "2 GiB")]
    with pytest.raises(OutOfMemory, match="block 1 of the data; got MemoryError: 2 GiB"):
        ls.as_operator(blocks)


def test_a_worker_without_memory_in_a_pass_ends_the_solve(client, monkeypatch):
    A = ls.as_operator(chunks())
    monkeypatch.setattr(engine, "_called", lambda *_: _broken(MemoryError, "2 GiB"))
    with pytest.raises(OutOfMemory, match=r"a worker must have memory for .* MemoryError: 2 GiB"):
        solved(A)


def test_workers_without_linspec_are_told_what_they_lack(client):
    def lacking() -> Any:
        import linspec_that_nobody_has

        return linspec_that_nobody_has

    with pytest.raises(ModuleNotFoundError) as caught:
        client.submit(lacking).result()
    ours = waiting.as_ours(client, caught.value, "")
    assert isinstance(ours, InvalidProblem)
    assert "No module named 'linspec_that_nobody_has'. Install the same environment" in str(ours)


# ---- nobody works ---------------------------------------------------------------------------------


@pytest.fixture
def nobody():
    """A cluster without workers."""
    with (
        distributed.LocalCluster(
            n_workers=0, threads_per_worker=1, processes=False, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster),
    ):
        yield cluster


def test_who_has_no_workers_waits_and_says_so(nobody, quick, monkeypatch):
    said = []

    def say(message: str, kind: type[Warning]) -> None:
        said.append((message, kind))
        nobody.scale(1)

    monkeypatch.setattr(waiting, "warn", say)
    found = solved(chunks())
    assert [kind for _, kind in said] == [PerformanceWarning]
    assert "has no workers, and linspec waits" in said[0][0]
    np.testing.assert_allclose(found.S, EXACT, rtol=1e-6)


@pytest.mark.filterwarnings("ignore::linspec.errors.PerformanceWarning")  # while the first one starts
def test_a_cluster_that_starts_workers_for_its_tasks_has_work_to_do(nobody, quick):
    """It begins with none, and waits for tasks; linspec hands them in before it waits for workers."""
    nobody.adapt(minimum=0, maximum=2, interval="50ms")
    views = chunks(), da.from_array(X[:, :3], chunks=(250, -1))
    for stated, value, exact in (
        (lambda: ls.SVD(views[0], 2), "S", EXACT),
        (lambda: ls.LeastSquares(*views, ridge=1.0), "x", None),
    ):
        problem = stated()
        assert problem.sizes().round_seconds > 0, "its blocks are on the cluster"
        found = ls.solve(problem, rng=0)
        if exact is None:
            exact = np.linalg.solve(X.T @ X + np.eye(12), X.T @ X[:, :3])
        np.testing.assert_allclose(getattr(found, value), exact, rtol=1e-6)


def _retired(cluster: Any, client: Any) -> None:
    """No worker any more, and what they held is lost."""
    cluster.scale(0)
    while client.nthreads():
        time.sleep(0.05)


@pytest.mark.filterwarnings("ignore::linspec.errors.PerformanceWarning")
def test_time_and_interrupts_end_a_wait_for_workers(cluster, client, watched, clock, ctrl_c):
    A = ls.as_operator(chunks())

    def leave() -> None:
        _retired(cluster, client)
        watched.append(lambda: clock.tick(0.4))

    with pytest.raises(BudgetTooSmall, match="max_seconds=1 in pass"):
        solved(A, once(leave), max_seconds=1.0)
    watched[:] = [lambda: signal.raise_signal(signal.SIGINT)]
    with pytest.raises(KeyboardInterrupt):
        solved(A)
    watched.clear()
    cluster.scale(2)
    np.testing.assert_allclose(solved(A).S, EXACT, rtol=1e-6)


def test_a_scheduler_that_is_silent_is_told(monkeypatch):
    from concurrent.futures import Future

    class Client:
        scheduler = None

    monkeypatch.setattr(waiting, "SILENCE", -1.0)
    monkeypatch.setattr(waiting, "started", lambda *_: Future())  # which nobody ever answers
    watch = waiting.Watch(Client())
    with pytest.warns(PerformanceWarning, match="has not answered") as told:
        assert [watch.look() for _ in range(10)]
    assert len(told) == 1


# ---- processes ------------------------------------------------------------------------------------

MANY = {
    "distributed.comm.timeouts.connect": "2s",
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 268435456,
    "distributed.scheduler.allowed-failures": 1,
}


def _die() -> Any:
    os._exit(1)


@pytest.mark.slow
def test_a_task_that_kills_its_workers_is_one_error():
    with (
        dask.config.set(MANY),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", memory_limit=0, silence_logs=50
        ) as cluster,
        distributed.Client(cluster),
    ):
        with pytest.raises(ClusterLost, match=r"workers that died of block 1 .* out of memory"):
            ls.as_operator([dask.delayed(X), dask.delayed(_die)()])
        np.testing.assert_allclose(solved(chunks()).S, EXACT, rtol=1e-6)


def _ending(A: Any, callback: Any) -> ls.Status:
    try:
        return solved(A, callback, max_seconds=8.0).status
    except BudgetTooSmall:
        return ls.Status.BUDGET


@pytest.mark.slow
@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP])
def test_a_scheduler_process_that_is_killed_or_stopped(fault, ctrl_c, monkeypatch):
    """A killed one is an error at once; one that is stopped is waited for until the time is over."""
    monkeypatch.setattr(waiting, "SILENCE", 1.0)
    scheduler = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0", "--dashboard-address", ":0",
         "--host", "127.0.0.1"], stderr=subprocess.PIPE, text=True)  # fmt: skip
    worker = None
    try:
        lines = iter(scheduler.stderr.readline, "")
        address = next(line.split()[-1] for line in lines if "Scheduler at:" in line)
        threading.Thread(target=scheduler.stderr.read, daemon=True).start()
        worker = subprocess.Popen(
            [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny"],
            stderr=subprocess.DEVNULL)  # fmt: skip
        with distributed.Client(address, timeout=60) as client:
            client.wait_for_workers(1, timeout=60)
            A = ls.as_operator(chunks())
            stop = once(lambda: scheduler.send_signal(fault))
            if fault == signal.SIGKILL:
                with pytest.raises(ClusterLost, match="scheduler of dask"):
                    solved(A, stop)
            else:
                with pytest.warns(PerformanceWarning, match="has not answered"):
                    assert _ending(A, stop) is ls.Status.BUDGET
                scheduler.send_signal(signal.SIGCONT)
                np.testing.assert_allclose(solved(A).S, EXACT, rtol=1e-6)
    finally:
        for process in (worker, scheduler):
            if process is not None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()
