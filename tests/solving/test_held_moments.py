"""Rows that come later: moments of batches in any order are those of all rows, and answers those for all rows.

The sums to compare with are formed in extended precision of all rows at once; answers are those of one solve on all
rows, and of scikit-learn where it is exact.
"""

from __future__ import annotations

import copy
import json
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from backends import backends

import linspec as ls
from linspec.arrays import Home, to_host
from linspec.errors import (
    InvalidFile,
    InvalidProblem,
    NonFiniteData,
    UnknownOption,
)
from linspec.estimators import CCA, PCA, Ridge
from linspec.operators import CombinedColumns
from linspec.workers import BlockOperator, InProcess


def correlated(rng, n, p):
    return rng.standard_normal((n, p)) @ (np.eye(p) + 0.3 * rng.standard_normal((p, p)))


def parts(rng, n, count):
    """The numbers of n rows in random order, cut at random places."""
    cuts = np.sort(rng.choice(np.arange(1, n), count - 1, replace=False))
    return np.split(rng.permutation(n), cuts)


def gram_and_mean(problem):
    """The Gram matrix about the mean, and the mean, that the few rows of a problem stand for."""
    Z, w = problem.A.array, problem.sample_weight
    mean = w @ Z / w.sum()
    return (w[:, None] * (Z - mean)).T @ (Z - mean), mean - problem.A.mean


# ---- sums --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mean", [0.0, 1e6])
@pytest.mark.parametrize("count", [1, 50, pytest.param(10_000, marks=pytest.mark.slow)])
def test_moments_of_any_partition_in_any_order_are_those_of_all_rows(mean, count):
    rng = np.random.default_rng(0)
    A = correlated(rng, 12_000, 6) + mean * (1 + rng.random(6))
    w = rng.random(len(A))
    wide, weights = A.astype(np.longdouble), w.astype(np.longdouble)
    middle = weights @ wide / weights.sum()
    G = (weights[:, None] * (wide - middle)).T @ (wide - middle)
    held = ls.HeldMoments(ls.SVD, k=1)
    for numbers in parts(rng, len(A), count):
        held.add(A[numbers], sample_weight=w[numbers])
    found, where = gram_and_mean(held.problem())
    lengths = np.sqrt(np.diag(G))
    assert np.abs((found - G) / lengths[:, None] / lengths).max() < 1e-12
    assert np.abs(where - middle).max() < 1e-15 * max(mean, 10) * 4
    assert held.rows == len(A)
    assert held.total == pytest.approx(w.sum(), rel=1e-13)


def test_a_first_row_far_from_all_others_costs_no_digits():
    rng = np.random.default_rng(0)
    A = correlated(rng, 2000, 4)
    A[0] += 1e6
    held = ls.HeldMoments("svd", k=4, center=True)
    for numbers in np.array_split(np.arange(len(A)), 400):
        held.add(A[numbers])
    wide = A.astype(np.longdouble) - A.astype(np.longdouble).mean(axis=0)
    G, lengths = wide.T @ wide, np.sqrt((wide**2).sum(axis=0))
    assert np.abs((gram_and_mean(held.problem())[0] - G) / lengths[:, None] / lengths).max() < 1e-12


def test_constant_columns_stay_exactly_constant():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((60, 3))
    A[:, 1] = 1e8 / 3
    held = ls.HeldMoments(ls.SVD, center=True, k=3)
    for rows in np.array_split(A, 7):
        held.add(rows)
    solution = ls.solve(held.problem())
    assert len(solution.S) == 2
    assert solution.mean[1] == 1e8 / 3


@pytest.mark.parametrize("name", ["svd", "least-squares"])
def test_means_far_above_the_deviations_cost_no_digits(name):
    rng = np.random.default_rng(0)
    A = correlated(rng, 500, 4) + 1e10
    b = A @ np.arange(4.0) + rng.standard_normal(500)
    held = ls.HeldMoments(name, center=True)
    for some in parts(rng, 500, 12):
        held.add(*(M[some] for M in ((A,) if name == "svd" else (A, b))))
    wide, right = (M.astype(np.longdouble) for M in (A, b))
    C = (wide - wide.mean(axis=0)).astype(np.float64)
    if name == "svd":
        found, wanted = ls.solve(held.problem(k=4)).S, np.linalg.svd(C, compute_uv=False)
    else:
        found = ls.solve(held.problem()).x
        wanted = np.linalg.lstsq(C, (right - right.mean()).astype(np.float64), rcond=None)[0]
    assert found == pytest.approx(wanted, rel=1e-12, abs=1e-12)


def test_rows_that_do_not_count_leave_no_trace():
    A, far = correlated(np.random.default_rng(0), 80, 4), np.full((300, 4), 1e7)
    held = ls.HeldMoments(ls.SVD, center=True, k=4)
    held.add(np.vstack([far, A]), sample_weight=np.repeat([0, 1], [300, 80]))
    held.add(np.vstack([far[:1], A]), sample_weight=np.repeat([0, 1], [1, 80]))
    wanted = np.linalg.svd(A - A.mean(axis=0), compute_uv=False) * np.sqrt(2)
    assert pytest.approx(wanted, rel=1e-9) == ls.solve(held.problem()).S
    assert (held.rows, held.total) == (461, 160)


@pytest.mark.parametrize("rows", [1, 2, 3, 5])
def test_fewer_rows_than_columns(rows):
    A = np.random.default_rng(rows).standard_normal((rows, 5)) + 3
    for center in (False, True):
        held = ls.HeldMoments(ls.SVD, center=center)
        for row in A:
            held.add(row[None, :])
        if center and rows == 1:
            continue
        wanted = np.linalg.svd(A - center * A.mean(axis=0), compute_uv=False)[: rows - center]
        assert ls.solve(held.problem()).S[: len(wanted)] == pytest.approx(wanted, rel=1e-12)


def test_condition_numbers_are_not_squared():
    rng = np.random.default_rng(0)
    A = (
        rng.standard_normal((300, 8))
        @ np.diag(np.geomspace(1, 1e-9, 8))
        @ np.linalg.qr(rng.standard_normal((8, 8)))[0]
    )
    held = ls.HeldMoments(ls.SVD)
    for rows in np.array_split(A, 30):
        held.add(rows)
    found = ls.solve(held.problem(), "direct").S
    assert found == pytest.approx(
        np.linalg.svd(A, compute_uv=False), rel=1e-6
    )  # a Gram matrix has no digit of the last


# ---- answers -----------------------------------------------------------------------------------

PROBLEMS = {
    "svd": {"k": 3},
    "cca": {"k": 2},
    "cca-scaled": {"k": 2, "scale": True, "ridge": 0.5},
    "pls": {"k": 2},
    "pls-regression": {"k": 2},
    "multiset-cca": {"k": 2, "ridge": 1.0},
    "least-squares": {"ridge": 2.0},
    "least-squares-centred": {"ridge": [0.0, 1.0], "center": True},
}


@pytest.mark.parametrize("confounded", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("case", PROBLEMS)
def test_answers_are_those_on_all_rows(case, weighted, confounded):
    rng = np.random.default_rng(0)
    cls, numbers = ls.get_problem(case.removesuffix("-scaled").removesuffix("-centred")), PROBLEMS[case]
    X = correlated(rng, 240, 5) + 10
    Y = X[:, :3] + correlated(rng, 240, 3)
    Z = rng.standard_normal((240, 2)) + 5 if confounded else None
    w = rng.random(240) * (rng.random(240) > 0.2) if weighted else None
    views = {"svd": (X,), "multiset-cca": ([X, Y, correlated(rng, 240, 4)],)}.get(case, (X, Y))
    two = [ls.HeldMoments(cls, **numbers) for _ in range(2)]
    for i, some in enumerate(parts(rng, 240, 20)):
        batch = [[V[some] for V in view] if isinstance(view, list) else view[some] for view in views]
        two[i % 2].add(
            *batch,
            sample_weight=None if w is None else w[some] + 0.0,
            confounds=None if Z is None else Z[some],
        )
    two[0].merge(two[1])
    wanted = ls.solve(cls(*views, **numbers, sample_weight=w, confounds=Z))
    found = ls.solve(two[0].problem())
    assert found.status is wanted.status
    for name in (
        *wanted.layout.arrays,
        "mean",
        "x_mean",
        "y_mean",
        "slopes",
        "confound_mean",
        "correlations",
    ):
        ours, theirs = (getattr(each, name, None) for each in (found, wanted))
        if theirs is None:
            assert ours is None
            continue
        ours, theirs = (value if isinstance(value, tuple) else (value,) for value in (ours, theirs))
        for one, other in zip(ours, theirs, strict=True):
            assert np.abs(one - other).max() < 1e-12 * max(1.0, np.abs(other).max())


@pytest.mark.parametrize("case", ["plain", "counted", "confounded"])
def test_significance_counts_all_rows(case):
    rng = np.random.default_rng(0)
    X = correlated(rng, 200, 4) + 10
    Y = X[:, :3] + 3 * rng.standard_normal((200, 3))
    w = rng.integers(4, size=200) if case == "counted" else None
    Z = rng.standard_normal((200, 2)) if case == "confounded" else None
    held = ls.HeldMoments(ls.CCA, k=1)
    for some in parts(rng, 200, 20):
        weights = None if w is None else np.maximum(w[some], 0)
        if weights is not None and not weights.any():
            continue
        held.add(X[some], Y[some], sample_weight=weights, confounds=None if Z is None else Z[some])
    wanted = ls.significance(ls.CCA(X, Y, k=1, sample_weight=w, confounds=Z))
    found = ls.significance(held.problem())
    for name, value in vars(wanted).items():
        if isinstance(value, np.ndarray):
            assert getattr(found, name) == pytest.approx(value, rel=1e-12, abs=1e-14), name


def test_significance_refuses_weights_that_count_no_rows_though_their_sum_is_an_integer():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((100, 3)), rng.standard_normal((100, 2))
    held = ls.HeldMoments(ls.CCA, k=1)
    for some in np.array_split(np.arange(100), 5):
        held.add(X[some], Y[some], sample_weight=np.full(len(some), 0.5))
    assert held.total == 50
    with pytest.raises(InvalidProblem, match="significance counts rows"):
        ls.significance(held.problem())


# ---- kinds of data -----------------------------------------------------------------------------


def test_batches_may_be_of_every_kind():
    rng = np.random.default_rng(0)
    A = (correlated(rng, 60, 4) * (rng.random((60, 4)) < 0.5)).astype(np.float32)
    kinds = [
        A,
        A.astype(np.float64),
        scipy.sparse.csr_array(A),
        lambda: iter([A[:20], A[20:]]),
        iter([A[:1], A[1:]]),
        CombinedColumns(ls.as_operator(A.astype(np.float64)), np.full(4, -7.0)),
        (A * 100).astype(np.int64),
    ]
    held = ls.HeldMoments(ls.SVD, center=True, k=2)
    for batch in kinds:
        held.add(batch)
    rows = np.vstack([*[A.astype(np.float64)] * 5, A.astype(np.float64) + 7, (A * 100).astype(np.int64)])
    found = ls.solve(held.problem())
    assert found.S.dtype == found.Vh.dtype == np.float64
    assert pytest.approx(np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False)[:2], rel=1e-12) == found.S


@pytest.mark.parametrize("backend", backends(), ids=lambda backend: backend.name)
def test_answers_are_in_the_library_of_the_first_batch(backend):
    if reason := backend.missing():
        pytest.skip(reason)
    A = correlated(np.random.default_rng(0), 90, 4) + 3
    given = [backend.wrap(A[:40].astype(np.float64 if backend.float64 else np.float32)), A[40:60], A[60:]]
    held, other = (ls.HeldMoments(ls.SVD, center=True, k=2) for _ in range(2))
    held.add(given[0])
    held.add(given[1])
    other.add(given[2])
    held.merge(other)
    rows = np.vstack([A[:40] if backend.float64 else A[:40].astype(np.float32).astype(np.float64), A[40:]])
    found = ls.solve(held.problem())
    wanted = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False)[:2]
    assert to_host(found.S) == pytest.approx(wanted, rel=1e-12)
    if backend.is_array and backend.float64:
        assert Home.of(found.Vh) == Home.of(ls.solve(ls.SVD(given[0], k=1)).Vh)


def test_batches_may_be_in_blocks_elsewhere():
    A = correlated(np.random.default_rng(0), 90, 4) + 3
    engine = InProcess()
    held = ls.HeldMoments(ls.SVD, center=True, k=2)
    held.add(BlockOperator(engine.hold([A[:3], A[3:40], A[40:60]]), engine))
    held.add(A[60:])
    wanted = np.linalg.svd(A - A.mean(axis=0), compute_uv=False)[:2]
    assert pytest.approx(wanted, rel=1e-12) == ls.solve(held.problem()).S


def test_moments_that_were_merged_stay_as_they_are():
    A = correlated(np.random.default_rng(0), 90, 4)
    held, other = (ls.HeldMoments(ls.SVD, center=True, k=4) for _ in range(2))
    other.add(A)
    held.merge(other)
    for rows in np.array_split(A, 9):
        held.add(3 * rows)
    assert other.rows == 90
    wanted = np.linalg.svd(A - A.mean(axis=0), compute_uv=False)
    assert pytest.approx(wanted, rel=1e-12) == ls.solve(other.problem()).S


def test_columns_are_joined_by_name():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(correlated(rng, 80, 3), columns=["a", "b", "c"])
    Y = pd.DataFrame(X.to_numpy()[:, :2] + rng.standard_normal((80, 2)), columns=["u", "v"])
    held = ls.HeldMoments(ls.CCA, k=1)
    held.add(X[:30], Y[:30])
    held.add(X[30:60][["c", "a", "b"]], Y[30:60][["v", "u"]])
    held.add(X[60:].to_numpy(), Y[60:])
    found, wanted = ls.solve(held.problem()), ls.solve(ls.CCA(X, Y, k=1))
    assert found.x_weights == pytest.approx(wanted.x_weights, abs=1e-12)
    assert found.column_names == wanted.column_names
    assert type(found.weights_table("X")) is type(wanted.weights_table("X"))


# ---- a rank ------------------------------------------------------------------------------------


def held_with_rank(A, rank, batches, **numbers):
    held = ls.HeldMoments(ls.SVD, rank=rank, center=True, **numbers)
    for rows in np.array_split(A, batches):
        held.add(rows)
    return held


@pytest.mark.parametrize("seed", range(5))
def test_what_is_discarded_is_bounded(seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((200, 6)) * 5 @ rng.standard_normal((6, 40)) + rng.standard_normal((200, 40))
    held = held_with_rank(A, 8, 25, k=4)
    problem = held.problem()
    C = A - A.mean(axis=0)
    lacking = np.linalg.eigvalsh(C.T @ C - gram_and_mean(problem)[0])
    norm, trace = held.discarded
    assert lacking[0] > -1e-12 * trace  # E is positive semidefinite
    assert 0 < lacking[-1] <= norm
    assert lacking.sum() == pytest.approx(trace, rel=1e-12)
    found, exact = ls.solve(problem), np.linalg.svd(C, compute_uv=False)[:4]
    assert np.all(exact**2 * (1 + 1e-12) >= found.S**2)
    assert np.all(exact**2 <= found.S**2 + norm)
    v = found.Vh.T
    residuals = np.linalg.norm(C.T @ (C @ v) - v * found.S**2, axis=0)
    assert residuals.max() / found.S[0] ** 2 <= found.residual
    assert found.total_squares == pytest.approx(np.sum(C**2), rel=1e-12)


def test_rows_that_are_not_finite_are_refused_with_a_rank_too():
    A = np.random.default_rng(0).standard_normal((60, 30))
    bad = A.copy()
    bad[41, 3] = np.inf
    held = held_with_rank(A, 2, 3, k=1)
    for data in (bad, lambda: iter([bad[:20], bad[20:]])):
        with pytest.raises(NonFiniteData, match="row 41, column 3"):
            held.add(data)
    with pytest.raises(NonFiniteData):
        held.add(iter([bad[:20], bad[20:]]))
    assert held.rows == 60


@pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")
@pytest.mark.parametrize("solver", [*ls.solvers("svd"), "auto"])
@pytest.mark.parametrize("seed", range(3))
def test_a_direction_that_is_cut_in_each_batch_is_not_certified(seed, solver):
    # Each batch has its own r loud directions, and a soft one that all batches share: each cut drops it, although it is
    # the largest of all rows.
    rng = np.random.default_rng(seed)
    p, rank, batches = 400, 2, 60
    axes = np.linalg.qr(rng.standard_normal((p, p)))[0]
    rows = []
    for i in range(batches):
        loud = axes[:, 1 + 4 * i : 5 + 4 * i].T * 3.0
        rows.append(np.vstack([loud, -loud, axes[:, :1].T, -axes[:, :1].T]))
    A = np.vstack(rows)
    held = held_with_rank(A, rank, batches, k=1)
    exact = np.linalg.svd(A, compute_uv=False)[0]
    found = ls.solve(held.problem(), solver, rng=0)
    lost = found.S[0] < 0.9 * exact
    assert lost
    assert not found.converged
    assert found.status is not ls.Status.CONVERGED
    assert exact**2 <= found.S[0] ** 2 + held.discarded.norm


# ---- files -------------------------------------------------------------------------------------


@pytest.fixture
def eight_threads():
    """Call a function in eight threads that change places as often as they can, once with each number below 100."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def call(act):
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(act, range(100), timeout=120))

    yield call
    sys.setswitchinterval(usual)


def added(held, rows, other):
    held.add(rows)


def merged(held, rows, other):
    other.add(rows)
    held.merge(other)


def asked(held, rows, other):
    held.add(rows)
    held.problem(k=1)


@pytest.mark.parametrize("act", [added, merged, asked])
def test_threads_that_add_at_once_lose_no_row(act, eight_threads):
    A = correlated(np.random.default_rng(3), 4000, 6) + 5.0
    held = ls.HeldMoments(ls.SVD, center=True)
    eight_threads(lambda i: act(held, A[40 * i : 40 * i + 40], ls.HeldMoments(ls.SVD, center=True)))
    assert held.total == held.rows == 4000
    found = ls.solve(held.problem(k=6)).S
    np.testing.assert_allclose(found, np.linalg.svd(A - A.mean(axis=0), compute_uv=False), rtol=1e-11)
    for twin in (copy.deepcopy(held), pickle.loads(pickle.dumps(held))):
        twin.add(A[:1])
        assert (twin.total, held.total) == (4001, 4000)


def test_a_rank_is_kept_in_files(tmp_path):
    held = held_with_rank(np.random.default_rng(0).standard_normal((50, 30)), 3, 5, k=2)
    held.save(tmp_path / "a.npz")
    assert ls.HeldMoments.load(tmp_path / "a.npz").discarded == held.discarded
    assert ls.HeldMoments.load(tmp_path / "a.npz").rank == 3


def test_damaged_and_foreign_files(tmp_path):
    held = ls.HeldMoments(ls.SVD, k=1)
    with pytest.raises(InvalidProblem, match="got none so far"):
        held.save(tmp_path / "a.npz")
    held.add(np.eye(3))
    held.save(tmp_path / "a.npz")
    whole = (tmp_path / "a.npz").read_bytes()
    for cut in (0, 30, len(whole) // 2, len(whole) - 5):
        (tmp_path / "b.npz").write_bytes(whole[:cut])
        with pytest.raises((InvalidFile, InvalidProblem)):
            ls.HeldMoments.load(tmp_path / "b.npz")
    (tmp_path / "b.npz").write_bytes(whole.replace(b'"total": 3.0', b'"total": 4.0'))
    with pytest.raises(InvalidFile):
        ls.HeldMoments.load(tmp_path / "b.npz")
    solution = ls.solve(held.problem())
    solution.save(tmp_path / "c.npz")
    with pytest.raises(InvalidFile, match="moments of version None"):
        ls.HeldMoments.load(tmp_path / "c.npz")
    with pytest.raises(InvalidFile):
        ls.load_solution(tmp_path / "a.npz")


# ---- refused -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name, value", [("rank", 3), ("problem", "cca"), ("numbers", {"mapping": []})])
def test_a_changed_file_is_refused_in_one_line(name, value, tmp_path):
    rng = np.random.default_rng(0)
    held = ls.HeldMoments(ls.LeastSquares, ridge=1.0)
    held.add(pd.DataFrame(correlated(rng, 40, 3), columns=list("abc")), rng.standard_normal(40))
    path = tmp_path / "a.npz"
    held.save(path)
    with np.load(path) as file:
        arrays = {entry: file[entry] for entry in file.files}
    header = json.loads(arrays["linspec"].tobytes())
    header["fields"][name] = value
    np.savez(path, **{**arrays, "linspec": np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)})
    with pytest.raises(InvalidFile, match="has been changed") as refusal:
        ls.HeldMoments.load(path)
    assert "\n" not in str(refusal.value)


def test_a_refused_batch_adds_nothing():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((20, 3)), rng.standard_normal((20, 2))
    held = ls.HeldMoments(ls.CCA, k=1)
    held.add(X, Y)
    before = ls.solve(held.problem()).correlations
    bad = X.copy()
    bad[7, 1] = np.nan
    named = pd.DataFrame(X, columns=["a", "b", "c"])
    cases = [
        (NonFiniteData, "row 7", lambda: held.add(bad, Y)),
        (NonFiniteData, "X", lambda: held.add(scipy.sparse.csr_array(bad), Y)),
        (NonFiniteData, "X", lambda: held.add(lambda: iter([bad[:10], bad[10:]]), Y)),
        (InvalidProblem, "equally many rows", lambda: held.add(X, Y[:-1])),
        (InvalidProblem, "those have 3, got 2", lambda: held.add(X[:, :2], Y)),
        (InvalidProblem, "must have rows", lambda: held.add(X[:0], Y[:0])),
        (InvalidProblem, "got 1. Pass them", lambda: held.add(X)),
        (InvalidProblem, "shape", lambda: held.add(X, Y, sample_weight=np.ones(3))),
        (InvalidProblem, "zeros only", lambda: held.add(X, Y, sample_weight=np.zeros(20))),
        (InvalidProblem, "zero or more", lambda: held.add(X, Y, sample_weight=-np.ones(20))),
        (InvalidProblem, "confounds must have the columns", lambda: held.add(X, Y, confounds=X[:, 0])),
        (InvalidProblem, "got moments", lambda: held.add(ls.Moments(X, Y, center=True), None)),
        (InvalidProblem, "one problem and one rank", lambda: held.merge(ls.HeldMoments(ls.PLS, k=1))),
        (InvalidProblem, "one problem and one rank", lambda: held.merge(X)),
    ]
    for error, text, act in cases:
        with pytest.raises(error, match=text):
            act()
        assert (held.rows, held.total) == (20, 20.0)
    assert (ls.solve(held.problem()).correlations == before).all()
    held.add(named, Y)
    with pytest.raises(InvalidProblem, match="'z' in place of 'a'"):
        held.add(named.rename(columns={"a": "z"}), Y)
    with pytest.raises(InvalidProblem, match="k"):
        held.problem(k=3)
    with pytest.raises(UnknownOption):
        held.problem(ks=1)
    assert held.rows == 40


def test_confounds_must_stay_the_same():
    rng = np.random.default_rng(0)
    A, Z = rng.standard_normal((20, 3)), rng.standard_normal((20, 2))
    held = ls.HeldMoments(ls.SVD, k=1)
    held.add(A, confounds=Z)
    for other in (None, Z[:, 0]):
        with pytest.raises(InvalidProblem, match="confounds must have the columns"):
            held.add(A, confounds=other)


def test_what_needs_single_rows_is_refused():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((40, 3)), rng.standard_normal((40, 2))
    held = ls.HeldMoments(ls.CCA, k=1)
    held.add(X, Y)
    problem = held.problem()
    for act in (
        lambda: ls.bootstrap(problem, draws=10),
        lambda: ls.permutation_test(problem, permutations=10),
        lambda: ls.cross_validate(problem, ridges=[1.0]),
        lambda: ls.compare(problem, held_out=0.3),
        lambda: problem.on_rows(np.arange(3)),
    ):
        with pytest.raises(InvalidProblem, match="stand for others"):
            act()
    svd = ls.HeldMoments(ls.SVD, k=1, left=True)
    with pytest.raises(InvalidProblem, match="left singular vectors belong to rows"):
        svd.add(X)
    with pytest.raises(InvalidProblem, match="holds out rows"):
        ls.HeldMoments("ridge-many-targets").add(X, Y)
    ranked = ls.HeldMoments(ls.SVD, k=1, rank=2)
    with pytest.raises(InvalidProblem, match="confounds need all second moments"):
        ranked.add(X, confounds=Y)
    ranked.add(X)
    with pytest.raises(InvalidProblem, match="scale needs"):
        ranked.problem(scale=True)
    with pytest.raises(InvalidProblem, match="needs rows; got none"):
        ls.HeldMoments(ls.SVD, k=1).problem()


# ---- estimators --------------------------------------------------------------------------------


def test_partial_fit_is_fit_on_all_rows():
    rng = np.random.default_rng(0)
    X = correlated(rng, 150, 5) + 100
    y = X @ rng.standard_normal((5, 2)) + rng.standard_normal((150, 2))
    w = rng.random(150)
    for make, names in (
        (lambda: PCA(3), ("components_", "singular_values_", "mean_", "explained_variance_ratio_")),
        (lambda: Ridge(2.0), ("coef_", "intercept_")),
        (lambda: CCA(2, ridge=0.1), ("x_weights_", "y_weights_", "correlations_")),
    ):
        whole, some = make().fit(X, y, w), make()
        for numbers in parts(rng, 150, 13):
            some.partial_fit(X[numbers], y[numbers], w[numbers])
        for name in names:
            one, other = getattr(some, name), getattr(whole, name)
            assert np.abs(one - other).max() < 1e-12 * np.abs(other).max()


# ---- classes -----------------------------------------------------------------------------------


def test_discriminant_directions_by_indicators_of_classes():
    rng = np.random.default_rng(0)
    y = np.sort(rng.integers(3, size=200))  # most batches have one class
    X = correlated(rng, 200, 5) + 3 * np.eye(3, 5)[y]
    held = ls.HeldMoments(ls.CCA, k=2, ridge=(1.5, 0.0))
    for some in np.array_split(np.arange(200), 20):
        held.add(X[some], np.eye(3)[y[some]])
    found, wanted = (
        ls.solve(held.problem(), "gram"),
        ls.solve(ls.Discriminant(X, ls.targets.lda(y), 2, ridge=1.5)),
    )
    assert found.correlations**2 == pytest.approx(wanted.eigenvalues, rel=1e-12)
    assert np.abs(found.x_weights) == pytest.approx(np.abs(wanted.weights), abs=1e-12)


def test_targets_of_the_classes_of_a_batch_are_refused():
    rng = np.random.default_rng(0)
    X, y, w = rng.standard_normal((30, 4)), np.arange(30) % 3, rng.random(30)
    held = ls.HeldMoments(ls.Discriminant, ridge=1.0)
    for H in (
        ls.targets.lda(y),
        ls.targets.lda(y, sample_weight=w),
        ls.targets.cca(scipy.sparse.csr_array(np.eye(3)[y])),
        ls.targets.cca(np.eye(3)[y]),
    ):
        with pytest.raises(InvalidProblem, match="scaled by the rows of each class"):
            held.add(X, H)


def test_parameters_that_the_problem_lacks_are_refused_at_once():
    with pytest.raises(UnknownOption, match=r"CCA has no parameter 'center_'\. Did you mean 'center'"):
        ls.HeldMoments("cca", k=2, center_=True)
