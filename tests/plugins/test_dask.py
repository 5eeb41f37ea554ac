"""Data of dask: the bits of arrays in memory, and clusters that fail by one error of linspec and never in a hang."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec import errors
from linspec.workers import BlockOperator

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")

from linspec_dask import engine  # noqa: E402  (it needs dask)

RNG = np.random.default_rng(0)
N, P, Q = 1200, 14, 9
SHARED = RNG.standard_normal((N, 3))
X = SHARED @ RNG.standard_normal((3, P)) + RNG.standard_normal((N, P)) + 2.0
Y = SHARED @ RNG.standard_normal((3, Q)) + RNG.standard_normal((N, Q))
WEIGHTS = RNG.random(N) + 0.5
EXACT = np.linalg.svd(X)[1][:3]
ROWS = (100, 250, 1, 349, 300, 200)
LOCAL = {"threads_per_worker": 1, "dashboard_address": ":0", "memory_limit": 0, "silence_logs": 50}
PATIENCE = 300.0
"""Seconds after which what a cluster does by itself is said to hang."""


def of(A: Any, rows: Any = ROWS, columns: int = -1) -> Any:
    return da.from_array(A, chunks=(rows, columns))


def csr(A: Any, rows: Any = ROWS) -> Any:
    return of(A, rows).map_blocks(scipy.sparse.csr_array)


def answers(problem: Any, solver: str, **given: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ls.solve(problem, solver, rng=0, **given)


def passes(data: Any, callback: Any = None, **given: Any) -> Any:
    """Singular values of many passes, so that there is a middle."""
    return answers(ls.SVD(data, 3), "block-krylov", form="implicit", callback=callback, **given).S


@contextlib.contextmanager
def cluster_of(processes: bool, **settings: Any) -> Iterator[tuple[Any, Any]]:
    """Two workers, which are processes or threads of this one, and a client, which leaves nothing behind."""
    before = dask.config.get("scheduler", None)
    stated = {
        "distributed.comm.timeouts.connect": "2s",  # for so long survivors look for a worker that is gone
        "distributed.scheduler.allowed-failures": 10,
        **settings,
    }
    with (
        dask.config.set(stated),
        distributed.LocalCluster(processes=processes, **{**LOCAL, "n_workers": 2}) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.wait_for_workers(2, timeout=60)
        yield cluster, client
    dask.config.config.pop("scheduler", None)
    if before is not None:
        dask.config.config["scheduler"] = before


@pytest.fixture
def threads() -> Iterator[tuple[Any, Any]]:
    """Tasks stay where they are put, also where others are idle."""
    with cluster_of(processes=False, **{"distributed.scheduler.work-stealing": False}) as both:
        yield both


@pytest.fixture
def client(threads: tuple[Any, Any]) -> Any:
    return threads[1]


@pytest.fixture
def mortal() -> Iterator[Any]:
    """Worker processes, which the test may kill."""
    with cluster_of(processes=True) as (_, client):
        yield client


# ---- answers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [of, csr])
@pytest.mark.parametrize("solver", ["gram", "block-krylov"])
def test_answers_without_a_client_are_those_of_arrays_in_memory(kind: Any, solver: str) -> None:
    confounds = RNG.standard_normal((N, 2))
    stated = {"center": True, "sample_weight": WEIGHTS, "confounds": confounds, "scale": True, "left": True}
    found, exact = answers(ls.SVD(kind(X), 3, **stated), solver), answers(ls.SVD(X, 3, **stated), "direct")
    np.testing.assert_allclose(found.S, exact.S, rtol=1e-10)
    np.testing.assert_allclose(np.abs(found.U.compute().T @ exact.U), np.eye(3), atol=1e-8)


@pytest.mark.parametrize("cluster_there", [False, True])
def test_frames_keep_the_names_of_their_columns(cluster_there: bool, request: pytest.FixtureRequest) -> None:
    pd, frames = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    if cluster_there:
        request.getfixturevalue("client")
    names = [f"gene {i}" for i in range(P)]
    frame = frames.from_pandas(pd.DataFrame(X, columns=names), npartitions=3)
    found = answers(ls.SVD(frame, 3, center=True), "gram")
    np.testing.assert_allclose(found.S, np.linalg.svd(X - X.mean(0))[1][:3], rtol=1e-10)
    assert found.column_names["A"] == tuple(names)
    target = answers(ls.LeastSquares(frame, frame["gene 3"]), "cg")
    np.testing.assert_allclose(target.x, np.eye(P)[3], atol=1e-6)


def test_columns_in_chunks_are_joined_and_unknown_sizes_computed() -> None:
    kept = of(X)[of(X[:, :1])[:, 0] > -np.inf]  # dask does not know its chunks
    assert np.isnan(kept.shape[0])
    for data in (of(X, 500, 4), kept):
        np.testing.assert_allclose(answers(ls.SVD(data, 3), "gram").S, EXACT, rtol=1e-10)
    unknown = of(X, 500, 4)
    unknown._chunks = (unknown.chunks[0], (np.nan,) * 4)
    with pytest.raises(errors.InvalidProblem, match="compute_chunk_sizes"):
        ls.as_operator(unknown)
    with pytest.raises(errors.InvalidProblem, match="two dimensions; got 3"):
        ls.as_operator(da.zeros((4, 3, 2)))


@pytest.mark.parametrize("where", ["client", "here"])
@pytest.mark.slow(keep=1)
def test_what_is_made_of_arrays_of_dask_is_arrays_of_dask(where: str, request: pytest.FixtureRequest) -> None:
    """In the order of the rows and with their chunks; chunks stay on the workers until somebody asks."""
    if where == "client":
        request.getfixturevalue("client")
    solution = answers(ls.CCA(X, Y, 2, ridge=1.0), "gram")
    line = answers(ls.LeastSquares(X, Y[:, 0], ridge=1.0), "direct")
    made = [*zip(solution.transform(of(X), of(Y)), solution.transform(X, Y), strict=True)]
    made += [(answers(ls.SVD(of(X), 3, left=True), "gram").U, answers(ls.SVD(X, 3, left=True), "gram").U)]
    for found, exact in [*made, (line.predict(csr(X)), line.predict(X))]:
        assert isinstance(found, da.Array)
        assert found.chunks[0] == of(X).chunks[0]
        np.testing.assert_allclose(found.compute(), exact, atol=1e-11 * np.abs(exact).max())
    assert solution.score(of(X), of(Y)).total == pytest.approx(solution.score(X, Y).total, rel=1e-10)


def test_rows_that_are_all_equal_have_no_left_vectors() -> None:
    found = ls.solve(ls.SVD(da.ones((9, 9), chunks=(5, 9)), k=4, center=True, left=True))
    assert (found.status.name, found.S.shape, tuple(found.U.shape)) == ("RANK_DEFICIENT", (0,), (9, 0))


def test_arrays_that_do_not_fit_into_memory_are_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "HELD_SHARE", 0.0)
    assert isinstance(ls.as_operator(of(X)), ls.operators.StreamedOperator)
    for solver in ("gram", "block-krylov"):
        np.testing.assert_allclose(answers(ls.SVD(of(X), 3), solver).S, EXACT, rtol=1e-10)


def test_labels_of_dask_are_to_be_computed() -> None:
    y = da.from_array(RNG.integers(0, 3, N), chunks=500)
    for targets in (ls.targets.lda, ls.targets.hsl):
        with pytest.raises(errors.UnsupportedData, match=r"y\.compute\(\)"):
            targets(y)
    with pytest.raises(errors.InvalidProblem, match=r"targets of classes with linspec\.targets\.lda"):
        ls.Discriminant(of(X), y, 1)


# ---- blocks that are wrong --------------------------------------------------------------------


def _broken(kind: type[Exception], text: str) -> Any:
    raise kind(text)


def test_delayed_targets_are_refused_as_delayed_rows_are() -> None:
    for stated in (
        lambda: ls.LeastSquares(X, dask.delayed(X[:, 0])),
        lambda: ls.Discriminant(X, dask.delayed(X)),
    ):
        with pytest.raises(ls.errors.UnsupportedData, match=r"pass `\[data\]`"):
            stated()


def test_what_a_block_makes_instead_of_rows_is_named(client: Any) -> None:
    blocks = [dask.delayed(X[:300]), dask.delayed(_broken)(KeyError, "no plate 7"), dask.delayed(X[300:])]
    with pytest.raises(errors.InvalidProblem, match=r"KeyError: 'no plate 7'") as caught:
        ls.as_operator(blocks)
    assert isinstance(caught.value.__cause__, KeyError)
    chunk = of(X).map_blocks(
        lambda rows, block_info=None: 1 / 0 if block_info[0]["chunk-location"][0] == 4 else rows, meta=X[:1]
    )
    with pytest.raises(errors.InvalidProblem, match="ZeroDivisionError"):
        ls.as_operator(chunk)
    with pytest.raises(errors.OutOfMemory, match="got MemoryError: 2 GiB"):
        ls.as_operator([dask.delayed(X), dask.delayed(_broken)(MemoryError, "2 GiB")])


# ---- the cluster goes -------------------------------------------------------------------------


def once(act: Callable[[], Any]) -> Callable[[Any], None]:
    """A callback that acts at its first call."""
    calls: list[Any] = []

    def callback(progress: Any) -> None:
        calls.append(progress)
        if len(calls) == 1:
            act()

    return callback


def test_a_scheduler_that_is_lost_in_mid_solve_is_one_error(threads: tuple[Any, Any]) -> None:
    cluster, A = threads[0], ls.as_operator(of(X))
    with pytest.raises(errors.ClusterLost, match=r"scheduler of dask .* Start a cluster"):
        passes(A, once(lambda: cluster.sync(cluster.scheduler.close)))
    with pytest.raises(errors.ClusterLost):
        passes(A)


def test_a_client_that_is_closed_in_mid_solve_is_one_error(client: Any) -> None:
    with pytest.raises(errors.ClusterLost, match="must stay open until the solve ends"):
        passes(ls.as_operator(of(X)), once(client.close))


def test_time_and_interrupts_end_a_wait_for_workers(
    threads: tuple[Any, Any], clock: Any, ctrl_c: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, client = threads
    looks: list[Callable[[], Any]] = []
    usual = engine.check

    def look(client: Any) -> None:
        """Whoever waits for the cluster looks after it."""
        for call in looks:
            call()
        usual(client)

    monkeypatch.setattr(engine, "SECONDS", 0.05)
    monkeypatch.setattr(engine, "check", look)
    A = ls.as_operator(of(X))

    def leave() -> None:
        """No worker any more, and what they held is lost."""
        cluster.scale(0)
        while client.nthreads():
            time.sleep(0.05)
        looks.append(lambda: clock.tick(0.4))

    with pytest.raises(errors.BudgetTooSmall, match="max_seconds=1 in pass"):
        passes(A, once(leave), max_seconds=1.0)
    looks[:] = [lambda: signal.raise_signal(signal.SIGINT)]
    with pytest.raises(KeyboardInterrupt):
        passes(A)
    looks.clear()
    cluster.scale(2)
    np.testing.assert_allclose(passes(A), EXACT, rtol=1e-6)


# ---- processes --------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", ["cca", "svd"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.slow
def test_the_bits_are_those_of_this_process_also_after_a_worker_was_killed(
    dtype: Any, problem: str, mortal: Any
) -> None:
    arrays = [A.astype(dtype) for A in (X, Y)]

    def solved(A: Any, B: Any, **given: Any) -> tuple[Any, ...]:
        given |= {"form": "implicit", "tol": 1e-12}
        if problem == "svd":
            found = answers(
                ls.SVD(A, 3, center=True, sample_weight=WEIGHTS), "block-krylov", block=3, **given
            )
            return found.S, found.Vh, found.mean
        found = answers(ls.CCA(A, B, 3, ridge=1.0), "lobpcg", **given)
        return found.x_weights, found.y_weights, found.correlations

    def kill() -> None:
        killer.args = next(iter(mortal.run(os.getpid).values())), signal.SIGKILL
        killer.start()

    killer = threading.Timer(0.02, os.kill)
    data = [of(A) for A in arrays]
    with mortal.as_current():
        found = [solved(*data), solved(*data, callback=once(kill))]
        killer.join()
        found.append(solved(*data))
    one = {**LOCAL, "n_workers": 1, "threads_per_worker": 2}
    with distributed.LocalCluster(processes=False, **one) as cluster, distributed.Client(cluster):
        found.append(solved(*data))
    edges = np.cumsum([0, *ROWS])
    here = solved(*(BlockOperator([A[a:b] for a, b in pairwise(edges)]) for A in arrays))
    for other in found:
        assert all(np.array_equal(a, b) for a, b in zip(other, here, strict=True))


@pytest.mark.slow
def test_blocks_that_nothing_can_make_again_are_an_error(mortal: Any) -> None:
    A = ls.as_operator(mortal.scatter([X[:400], X[400:800], X[800:]]))
    deadline = time.monotonic() + PATIENCE

    def until_it_is_noticed() -> None:
        while time.monotonic() < deadline:
            passes(A)
            time.sleep(0.1)

    os.kill(next(iter(mortal.run(os.getpid).values())), signal.SIGKILL)
    with pytest.raises(errors.DataLost, match=r"client\.scatter"):
        until_it_is_noticed()


@pytest.mark.slow
def test_a_task_that_kills_its_workers_is_one_error() -> None:
    with cluster_of(processes=True, **{"distributed.scheduler.allowed-failures": 1}):
        with pytest.raises(errors.ClusterLost, match=r"workers that died .* out of memory"):
            ls.as_operator([dask.delayed(X), dask.delayed(os._exit)(1)])
        np.testing.assert_allclose(passes(of(X)), EXACT, rtol=1e-6)
