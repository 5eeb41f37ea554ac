"""Faults on a cluster of dask: each ends in one error of linspec or in the answer, and none in a hang."""

from __future__ import annotations

import os
import signal
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
)

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")

from linspec_dask import engine  # noqa: E402  (it needs dask)

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
def watched(monkeypatch):
    """Functions that are called whenever one who waits for the cluster looks after it."""
    calls, usual = [], engine.check

    def look(client: Any) -> None:
        for call in calls:
            call()
        usual(client)

    monkeypatch.setattr(engine, "SECONDS", 0.05)
    monkeypatch.setattr(engine, "check", look)
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


# ---- work fails -----------------------------------------------------------------------------------


def _broken(kind: type[Exception], text: str) -> Any:
    raise kind(text)


def test_an_error_of_a_users_function_is_named(client):
    blocks = [dask.delayed(X[:300]), dask.delayed(_broken)(KeyError, "no plate 7"), dask.delayed(X[300:])]
    with pytest.raises(InvalidProblem, match=r"KeyError: 'no plate 7'") as caught:
        ls.as_operator(blocks)
    assert isinstance(caught.value.__cause__, KeyError)
    chunk = chunks().map_blocks(
        lambda rows, block_info=None: 1 / 0 if block_info[0]["chunk-location"][0] == 4 else rows, meta=X[:1]
    )
    with pytest.raises(InvalidProblem, match="ZeroDivisionError"):
        ls.as_operator(chunk)


def test_a_worker_without_memory_for_a_block_is_named(client):
    blocks = [dask.delayed(X), dask.delayed(_broken)(MemoryError, "2 GiB")]
    with pytest.raises(OutOfMemory, match="got MemoryError: 2 GiB"):
        ls.as_operator(blocks)


# ---- nobody works ---------------------------------------------------------------------------------


def _retired(cluster: Any, client: Any) -> None:
    """No worker any more, and what they held is lost."""
    cluster.scale(0)
    while client.nthreads():
        time.sleep(0.05)


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
        with pytest.raises(ClusterLost, match=r"workers that died .* out of memory"):
            ls.as_operator([dask.delayed(X), dask.delayed(_die)()])
        np.testing.assert_allclose(solved(chunks()).S, EXACT, rtol=1e-6)
