"""Data of dask: the answers of arrays in memory, the same bits wherever they come from, and workers that die."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec.errors import (
    DataLost,
    InvalidProblem,
    MissingCapability,
    NonFiniteData,
    UnsupportedData,
)

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
ROWS = (100, 250, 1, 349, 300, 200)
PATIENCE = 300.0
"""Seconds after which what a cluster does by itself is said to hang."""
SETTINGS = {
    "distributed.comm.timeouts.connect": "2s",  # for so long the survivors look for a worker that is gone
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 268435456,
    "distributed.scheduler.allowed-failures": 10,
}


def of(A: Any, rows: Any = ROWS, columns: int = -1) -> Any:
    return da.from_array(A, chunks=(rows, columns) if A.ndim == 2 else (rows,))


def csr(A: Any, rows: Any = ROWS) -> Any:
    return of(A, rows).map_blocks(scipy.sparse.csr_array)


def answers(problem: Any, solver: str, **given: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ls.solve(problem, solver, rng=0, **given)


@pytest.fixture
def mortal():
    """Two worker processes of one test, which may kill them: a nanny on a busy machine may lose its worker for good."""
    with (
        dask.config.set(SETTINGS),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", memory_limit=0, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.wait_for_workers(2, timeout=60)
        yield client


@pytest.fixture(scope="module")
def threads_cluster():
    """Two workers that are threads of this process; tasks stay where they are put, also where others are idle."""
    with (
        dask.config.set({"distributed.scheduler.work-stealing": False}),
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=False,
            dashboard_address=":0",
            memory_limit=0,
            silence_logs=50,
        ) as cluster,
    ):
        yield cluster


@pytest.fixture
def client(threads_cluster):
    with distributed.Client(threads_cluster) as client:
        client.wait_for_workers(2, timeout=60)
        yield client


STATED = {
    "cca": (lambda A, B: ls.CCA(A, B, 2, ridge=1.0), "correlations"),
    "svd": (lambda A, B: ls.SVD(A, 3, center=True), "S"),
    "least-squares": (lambda A, B: ls.LeastSquares(A, B, ridge=1.0), "x"),
    "discriminant": (lambda A, B: ls.Discriminant(A, B, 2, ridge=1.0), "eigenvalues"),
}
LONG = {name: {"max_iterations": 20} for name in ("cca/naive-gradient", "cca/sparse-appgrad")}
DRAWN = {"cca/stochastic-appgrad", "least-squares/svrg"}  # their batches depend on how rows lie
SOLVERS = [name for name in ls.solvers() if name.partition("/")[0] in STATED]


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.slow(keep=10)
def test_answers_and_passes_are_those_of_arrays_in_memory(name):
    """Without a client: dask in this process. Dense and sparse chunks; X and Y end at different rows."""
    state, value = STATED[name.partition("/")[0]]
    given = LONG.get(name, {"tol": 1e-11} if "tol" in {o.name for o in ls.describe(name).options} else {})
    for kind, chunked in ((np.array, of), (scipy.sparse.csr_array, csr)):
        A, B = kind(X), kind(Y)
        problem, needs = state(chunked(X), chunked(Y, 500)), ls.describe(name).needs
        if name in DRAWN:
            continue
        if needs.dense:
            with pytest.raises(MissingCapability, match="Solvers that can take what was passed: "):
                answers(problem, name)
            continue
        found = answers(problem, name, **given)
        exact = answers(state(A, B), name, **given)
        assert abs(found.passes - exact.passes) <= 1
        a, b = (np.asarray(getattr(one, value)) for one in (found, exact))
        np.testing.assert_allclose(a, b, rtol=0, atol=(1e-8 if exact.converged else 1e-6) * np.abs(b).max())


@pytest.mark.parametrize("kind", [of, csr])
@pytest.mark.parametrize("solver", ["gram", "direct", "block-krylov"])
@pytest.mark.parametrize("preprocessed", [False, True])
def test_singular_triplets_of_preprocessed_rows(kind, solver, preprocessed):
    """Against NumPy, which takes means and confounds out of the rows."""
    confounds, A, stated = RNG.standard_normal((N, 2)), X, {}
    if preprocessed:
        stated = {"center": True, "sample_weight": WEIGHTS, "confounds": confounds, "scale": True}
        roots = np.sqrt(WEIGHTS)[:, None]
        Q = np.linalg.qr(np.column_stack([np.ones(N), confounds]) * roots)[0]
        A = X * roots - Q @ (Q.T @ (X * roots))
        A = A / np.sqrt((A**2).sum(axis=0) / WEIGHTS.sum())
    found = answers(ls.SVD(kind(X), 3, left=True, **stated), solver)
    U = found.U.compute()
    np.testing.assert_allclose(found.S, np.linalg.svd(A)[1][:3], rtol=1e-12)
    np.testing.assert_allclose(U.T @ U, np.eye(3), atol=1e-13)
    np.testing.assert_allclose(A @ found.Vh.T, U * found.S, atol=1e-10)


# ---- kinds of data --------------------------------------------------------------------------------


@pytest.mark.parametrize("cluster_there", [False, True])
def test_frames_keep_the_names_of_their_columns(cluster_there, request):
    pd = pytest.importorskip("pandas")
    frames = pytest.importorskip("dask.dataframe")
    if cluster_there:
        request.getfixturevalue("client")
    names = [f"gene {i}" for i in range(P)]
    frame = frames.from_pandas(pd.DataFrame(X, columns=names), npartitions=3)
    found = answers(ls.SVD(frame, 3, center=True), "gram")
    np.testing.assert_allclose(found.S, np.linalg.svd(X - X.mean(0))[1][:3], rtol=1e-10)
    assert found.column_names["A"] == tuple(names)
    target = answers(ls.LeastSquares(frame, frame["gene 3"]), "cg")
    np.testing.assert_allclose(target.x, np.eye(P)[3], atol=1e-6)


def test_columns_in_chunks_are_joined_and_unknown_sizes_computed():
    exact = np.linalg.svd(X)[1][:3]
    np.testing.assert_allclose(answers(ls.SVD(of(X, 500, 4), 3), "gram").S, exact, rtol=1e-10)
    kept = of(X)[of(X[:, 0]) > -np.inf]  # dask does not know its chunks
    assert np.isnan(kept.shape[0])
    np.testing.assert_allclose(answers(ls.SVD(kept, 3), "gram").S, exact, rtol=1e-10)
    unknown = of(X, 500, 4)
    unknown._chunks = (unknown.chunks[0], (np.nan,) * 4)
    with pytest.raises(InvalidProblem, match="compute_chunk_sizes"):
        ls.as_operator(unknown)
    with pytest.raises(InvalidProblem, match="two dimensions; got 3"):
        ls.as_operator(da.zeros((4, 3, 2)))


@pytest.mark.parametrize("where", ["client", "here"])
@pytest.mark.slow(keep=1)
def test_what_is_made_of_arrays_of_dask_is_arrays_of_dask(where, request):
    """In the order of the rows and with their chunks; chunks stay on the workers until somebody asks."""
    if where == "client":
        request.getfixturevalue("client")
    solution = answers(ls.CCA(X, Y, 2, ridge=1.0), "gram")
    for found, exact in zip(solution.transform(of(X), of(Y)), solution.transform(X, Y), strict=True):
        assert isinstance(found, da.Array)
        assert found.chunks[0] == of(X).chunks[0]
        np.testing.assert_allclose(found.compute(), exact, atol=1e-12 * np.abs(exact).max())
    assert solution.score(of(X), of(Y)).total == pytest.approx(solution.score(X, Y).total, rel=1e-10)
    left = answers(ls.SVD(of(X), 3, left=True), "gram").U
    assert isinstance(left, da.Array)
    np.testing.assert_allclose(left.compute(), answers(ls.SVD(X, 3, left=True), "gram").U, atol=1e-12)
    line = answers(ls.LeastSquares(X, Y[:, 0], ridge=1.0), "direct")
    found = line.predict(csr(X))
    assert found.shape == (N,)
    np.testing.assert_allclose(found.compute(), line.predict(X), rtol=1e-9)


def test_arrays_that_do_not_fit_into_memory_are_slices(monkeypatch):
    monkeypatch.setattr(engine, "HELD_SHARE", 0.0)
    A = ls.as_operator(of(X))
    assert isinstance(A, ls.operators.StreamedOperator)
    for solver in ("gram", "block-krylov"):
        found = answers(ls.SVD(of(X), 3, center=True), solver)
        np.testing.assert_allclose(found.S, np.linalg.svd(X - X.mean(0))[1][:3], rtol=1e-10)


def test_what_is_not_finite_is_named(client):
    broken = X.copy()
    broken[351, 4] = np.inf
    with pytest.raises(NonFiniteData, match="X must be finite; got inf at row 351, column 4"):
        answers(ls.CCA(of(broken), of(Y), 2), "lobpcg")


def test_a_block_that_makes_no_matrix_is_named(client):
    with pytest.raises(InvalidProblem, match="block 1 of data has 3 columns; the first has 14"):
        ls.as_operator([dask.delayed(X), dask.delayed(Y[:, :3])])


# ---- the scheduler --------------------------------------------------------------------------------


def test_a_run_that_is_out_of_time_or_interrupted_ends(client, ctrl_c):
    def stop(progress: Any) -> None:
        signal.raise_signal(signal.SIGINT)

    problem = ls.CCA(of(X), of(Y), 2, ridge=1.0)
    assert (
        answers(problem, "lobpcg", form="implicit", tol=1e-15, callback=stop).status is ls.Status.INTERRUPTED
    )
    assert answers(problem, "gram").converged, "the client works on"


# ---- processes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("problem", ["cca", "svd"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.slow
def test_the_bits_are_those_of_this_process_also_after_a_worker_was_killed(dtype, problem, mortal):
    data = [of(A.astype(dtype)) for A in (X, Y)]

    def solved(**given: Any) -> Any:
        if problem == "svd":
            stated = ls.SVD(data[0], 3, center=True, sample_weight=WEIGHTS)
            found = answers(stated, "block-krylov", form="implicit", tol=1e-12, block=3, **given)
            return found.S, found.Vh, found.mean
        found = answers(ls.CCA(*data, 3, ridge=1.0), "lobpcg", form="implicit", tol=1e-12, **given)
        return found.x_weights, found.y_weights, found.correlations

    with mortal.as_current():
        by_two = solved()
        killed = []

        def kill(progress: Any) -> None:
            if not killed:
                killed.append(next(iter(mortal.run(os.getpid).values())))
                killer.args = killed[0], signal.SIGKILL
                killer.start()

        killer = threading.Timer(0.02, os.kill)
        after = solved(callback=kill)
        killer.join()
        by_survivors = solved()
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0", silence_logs=50
        ) as one,
        distributed.Client(one),
    ):
        by_one = solved()
    from linspec.workers import BlockOperator

    edges = np.cumsum([0, *ROWS])
    data = [BlockOperator([A.astype(dtype)[a:b] for a, b in pairwise(edges)]) for A in (X, Y)]
    here = solved()
    for found in (by_two, after, by_survivors, by_one):
        assert all(np.array_equal(a, b) for a, b in zip(found, here, strict=True))


def until_it_is_noticed(A: Any) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        answers(ls.SVD(A, 3), "block-krylov", form="implicit")
        time.sleep(0.1)


@pytest.mark.slow
def test_blocks_that_nothing_can_make_again_are_an_error(mortal):
    futures = mortal.scatter([X[:400], X[400:800], X[800:]])
    A = ls.as_operator(futures)
    pid = next(iter(mortal.run(os.getpid).values()))
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(DataLost, match=r"client\.scatter"):
        until_it_is_noticed(A)


# ---- labels ---------------------------------------------------------------------------------------


def test_rows_that_are_all_equal_have_no_left_vectors():
    rows = da.ones((9, 9), chunks=(5, 9))
    found = ls.solve(ls.SVD(rows, k=4, center=True, left=True))
    assert (found.status.name, found.S.shape, tuple(found.U.shape)) == ("RANK_DEFICIENT", (0,), (9, 0))


@pytest.mark.parametrize("kind", ["array", "series", "list"])
def test_labels_of_dask_are_brought_here(kind):
    letters = np.array(["a", "bb", "c"])[RNG.integers(0, 3, N)]
    if kind == "array":
        y = da.from_array(letters, chunks=500)
    elif kind == "list":
        y = [dask.delayed(letters[:700]), dask.delayed(letters[700:])]
    else:
        y = pytest.importorskip("dask.dataframe").from_pandas(
            pytest.importorskip("pandas").Series(letters), npartitions=3
        )
    with pytest.raises(UnsupportedData):
        ls.targets.lda(y)
    H = ls.targets.lda(letters)
    found, here = (answers(ls.Discriminant(A, H, 2, ridge=1.0), "two-stage") for A in (of(X), X))
    np.testing.assert_allclose(found.eigenvalues, here.eigenvalues, rtol=1e-8)
    assert found.predict(X).tolist() == here.predict(X).tolist()


def test_labels_are_no_numeric_target():
    y = da.from_array(RNG.integers(0, 3, N), chunks=500)
    with pytest.raises(InvalidProblem, match=r"targets of classes with linspec\.targets\.lda"):
        ls.Discriminant(of(X), y, 1)
    with pytest.raises(UnsupportedData, match=r"y\.compute\(\)"):
        ls.targets.hsl(y)
