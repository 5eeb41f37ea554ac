"""Rows that come later: moments of batches in any order are those of all rows, and answers those for all rows."""

from __future__ import annotations

import copy
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from backends import backends
from files_of_answers import changed_header
from planted import orthonormal, planted_case

import linspec as ls
from linspec.arrays import Device, to_host
from linspec.errors import InvalidFile, InvalidProblem, NonFiniteData
from linspec.estimators import CCA, PCA, Ridge
from linspec.operators import CombinedColumns
from linspec.workers import BlockOperator, InProcess


def correlated(rng, n, p):
    return rng.standard_normal((n, p)) @ (np.eye(p) + 0.3 * rng.standard_normal((p, p)))


def parts(rng, n, count):
    """The numbers of n rows in random order, cut at random places."""
    cuts = np.sort(rng.choice(np.arange(1, n), count - 1, replace=False))
    return np.split(rng.permutation(n), cuts)


def held_of(batches, problem=ls.SVD, **asked):
    """Moments that batches of one matrix are added to."""
    held = ls.HeldMoments(problem, **asked)
    for rows in batches:
        held.add(rows)
    return held


def singular_values(A):
    return np.linalg.svd(A - A.mean(axis=0), compute_uv=False)


def gram_and_mean(problem):
    """The Gram matrix about the mean, and the mean, that the few rows of a problem stand for."""
    Z, w = problem.A.array, problem.sample_weight
    mean = w @ Z / w.sum()
    return (w[:, None] * (Z - mean)).T @ (Z - mean), mean - problem.A.mean


@pytest.mark.parametrize("first", [0.0, 1e6])
@pytest.mark.parametrize("mean", [0.0, 1e6])
@pytest.mark.parametrize("count", [1, 50, 400])
def test_moments_of_any_partition_in_any_order_are_those_of_all_rows(mean, first, count):
    """Means of a million deviations, and a first row far from all others, cost no digits."""
    rng = np.random.default_rng(0)
    A, w = correlated(rng, 4_000, 6) + mean * (1 + rng.random(6)), rng.random(4_000)
    numbers = parts(rng, len(A), count)
    A[numbers[0][0]] += first
    wide, weights = A.astype(np.longdouble), w.astype(np.longdouble)
    middle = weights @ wide / weights.sum()
    G = (weights[:, None] * (wide - middle)).T @ (wide - middle)
    held = ls.HeldMoments(ls.SVD, k=1)
    for some in numbers:
        held.add(A[some], sample_weight=w[some])
    found, where = gram_and_mean(held.problem())
    lengths = np.sqrt(np.diag(G))
    assert np.abs((found - G) / lengths[:, None] / lengths).max() < 1e-12
    assert np.abs(where - middle).max() < 1e-15 * max(mean, first, 10) * 4
    assert held.rows == len(A)
    assert held.total == pytest.approx(w.sum(), rel=1e-13)


RNG = np.random.default_rng(0)
HARD = {
    "a constant column": (RNG.standard_normal((60, 3)) * [1, 0, 1] + [0, 1e8 / 3, 0], 7, True),
    "means of 1e10 deviations": (correlated(RNG, 500, 4) + 1e10, 12, True),
    "condition numbers are not squared": (
        correlated(RNG, 300, 8) * np.geomspace(1, 1e-9, 8) @ orthonormal(RNG, 8, 8),
        30,
        False,
    ),
    "fewer rows than columns": (RNG.standard_normal((3, 5)) + 3, 3, False),
    "fewer rows about their mean": (RNG.standard_normal((3, 5)) + 3, 3, True),
}


@pytest.mark.parametrize("case", HARD)
def test_no_digits_are_lost_between_batches(case):
    A, count, center = HARD[case]
    found = ls.solve(held_of(np.array_split(A, count), center=center).problem(), "direct")
    wide = A.astype(np.longdouble)
    exact = np.linalg.svd((wide - center * wide.mean(axis=0)).astype(float), compute_uv=False)
    assert pytest.approx(exact[: len(found.S)], rel=1e-6 if "squared" in case else 1e-12) == found.S
    still = np.ptp(A, axis=0) == 0
    assert len(found.S) == min(len(A) - center, A.shape[1] - still.sum())
    assert not still.any() or found.mean[still] == A[0, still]


def test_rows_that_do_not_count_leave_no_trace():
    A, far = correlated(np.random.default_rng(0), 80, 4), np.full((300, 4), 1e7)
    held = ls.HeldMoments(ls.SVD, center=True, k=4)
    held.add(np.vstack([far, A]), sample_weight=np.repeat([0, 1], [300, 80]))
    held.add(np.vstack([far[:1], A]), sample_weight=np.repeat([0, 1], [1, 80]))
    assert pytest.approx(singular_values(A) * np.sqrt(2), rel=1e-9) == ls.solve(held.problem()).S
    assert (held.rows, held.total) == (461, 160)


BESIDE = ("mean", "x_mean", "y_mean", "slopes", "confound_mean", "correlations")


def arrays(solution, name):
    value = getattr(solution, name, None)
    return value if isinstance(value, tuple) else [] if value is None else [value]


MERGED = ("svd", "cca", "pls", "pls-regression", "multiset-cca", "least-squares")
ADJUSTED = {
    "as given": ({}, {}),
    "scaled": ({"scale": True, "center": True}, {}),
    "weighted": (
        {},
        {"sample_weight": RNG.random(60) * (RNG.random(60) > 0.2), "confounds": RNG.random((60, 2))},
    ),
}


@pytest.mark.parametrize("adjusted", ADJUSTED)
@pytest.mark.parametrize("problem", MERGED)
def test_answers_are_those_on_all_rows(problem, adjusted):
    """Of two halves of the batches that are merged."""
    case, (numbers, beside) = planted_case(problem), ADJUSTED[adjusted]
    numbers = {**case.parameters, **numbers}
    wanted = ls.solve(replace(case, parameters={**numbers, **beside}).state())
    two = [ls.HeldMoments(problem, **numbers) for _ in range(2)]
    for i, some in enumerate(parts(np.random.default_rng(1), 60, 6)):
        batch = [X[some] for X in case.arrays.values()]
        rows = {name: each[some] for name, each in beside.items()}
        two[i % 2].add(*([batch] if problem == "multiset-cca" else batch), **rows)
    two[0].merge(two[1])
    found = ls.solve(two[0].problem())
    assert found.status is wanted.status
    for name in (*wanted.layout.arrays, *BESIDE):
        for one, other in zip(arrays(found, name), arrays(wanted, name), strict=True):
            assert np.abs(one - other).max() < 1e-12 * max(1.0, np.abs(other).max())


def test_significance_counts_all_rows():
    X = correlated(RNG, 200, 4) + 10
    Y = X[:, :3] + 3 * RNG.standard_normal((200, 3))
    w, Z = RNG.integers(4, size=200), RNG.standard_normal((200, 2))
    held, uncounted = (ls.HeldMoments(ls.CCA, k=1) for _ in range(2))
    for some in parts(RNG, 200, 6):
        held.add(X[some], Y[some], sample_weight=w[some], confounds=Z[some])
        uncounted.add(X[some], Y[some], sample_weight=np.full(len(some), 0.5))
    wanted = ls.significance(ls.CCA(X, Y, k=1, sample_weight=w, confounds=Z))
    found = ls.significance(held.problem())
    for name, value in vars(wanted).items():
        if isinstance(value, np.ndarray):
            assert getattr(found, name) == pytest.approx(value, rel=1e-12, abs=1e-14), name
    with pytest.raises(InvalidProblem, match="significance counts rows"):  # though 0.5 * 200 is an integer
        ls.significance(uncounted.problem())


@pytest.mark.parametrize("make", [lambda: PCA(3), lambda: Ridge(2.0), lambda: CCA(2, ridge=0.1)])
def test_partial_fit_is_fit_on_all_rows(make):
    X, w = correlated(RNG, 150, 5) + 100, RNG.random(150)
    y = X @ RNG.standard_normal((5, 2)) + RNG.standard_normal((150, 2))
    whole, some = make().fit(X, y, w), make()
    for numbers in parts(RNG, 150, 13):
        some.partial_fit(X[numbers], y[numbers], w[numbers])
    learnt = [name for name, value in vars(whole).items() if isinstance(value, np.ndarray)]
    assert len(learnt) > 1
    for name in learnt:
        one, other = getattr(some, name), getattr(whole, name)
        assert np.abs(one - other).max() < 1e-12 * np.abs(other).max()


def test_batches_may_be_of_every_kind():
    rng = np.random.default_rng(0)
    A = (correlated(rng, 60, 4) * (rng.random((60, 4)) < 0.5)).astype(np.float32)
    wide, engine = A.astype(np.float64), InProcess()
    held = held_of(
        [
            A,
            wide,
            scipy.sparse.csr_array(A),
            lambda: iter([A[:20], A[20:]]),
            iter([A[:1], A[1:]]),
            BlockOperator(engine.hold([A[:3], A[3:40], A[40:]]), engine),
            CombinedColumns(ls.as_operator(wide), np.full(4, -7.0)),
            (A * 100).astype(np.int64),
        ],
        center=True,
        k=2,
    )
    found = ls.solve(held.problem())
    assert found.S.dtype == found.Vh.dtype == np.float64
    rows = np.vstack([*[wide] * 6, wide + 7, (A * 100).astype(np.int64)])
    assert pytest.approx(singular_values(rows)[:2], rel=1e-12) == found.S


@pytest.mark.parametrize("backend", backends(), ids=lambda backend: backend.name)
def test_answers_are_in_the_library_of_the_first_batch(backend):
    if reason := backend.missing():
        pytest.skip(reason)
    A = correlated(np.random.default_rng(0), 90, 4) + 3
    if not backend.float64:
        A = A.astype(np.float32)
    first = backend.wrap(A[:40])
    held = held_of([first, A[40:60]], center=True, k=2)
    held.merge(held_of([A[60:]], center=True, k=2))
    found = ls.solve(held.problem())
    assert to_host(found.S) == pytest.approx(singular_values(A.astype(float))[:2], rel=1e-12)
    if backend.is_array and backend.float64:
        assert Device.of(found.Vh) == Device.of(ls.solve(ls.SVD(first, k=1)).Vh)


def test_moments_that_were_merged_stay_as_they_are():
    A = correlated(np.random.default_rng(0), 90, 4)
    held, other = (held_of(batches, center=True, k=4) for batches in ([], [A]))
    held.merge(other)
    held.add(3 * A)
    assert other.rows == 90
    assert pytest.approx(singular_values(A), rel=1e-12) == ls.solve(other.problem()).S


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
    with pytest.raises(InvalidProblem, match="'z' in place of 'a'"):
        held.add(X.rename(columns={"a": "z"}), Y)
    assert held.rows == 80


def test_threads_that_add_at_once_lose_no_row():
    """Eight threads that change places as often as they can."""
    A = correlated(np.random.default_rng(3), 4000, 6) + 5.0
    held, usual = ls.HeldMoments(ls.SVD, center=True), sys.getswitchinterval()

    def act(i):
        held.add(A[40 * i : 40 * i + 20])
        held.merge(held_of([A[40 * i + 20 : 40 * i + 40]], center=True))
        held.problem(k=1)

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(act, range(100), timeout=120))
    finally:
        sys.setswitchinterval(usual)
    assert held.total == held.rows == 4000
    np.testing.assert_allclose(ls.solve(held.problem(k=6)).S, singular_values(A), rtol=1e-11)
    for twin in (copy.deepcopy(held), pickle.loads(pickle.dumps(held))):
        twin.add(A[:1])
        assert (twin.total, held.total) == (4001, 4000)


def test_what_is_discarded_is_bounded():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((200, 6)) * 5 @ rng.standard_normal((6, 40)) + rng.standard_normal((200, 40))
    held = held_of(np.array_split(A, 25), rank=8, center=True, k=4)
    problem, C = held.problem(), A - A.mean(axis=0)
    lacking = np.linalg.eigvalsh(C.T @ C - gram_and_mean(problem)[0])
    norm, trace = held.discarded
    assert lacking[0] > -1e-12 * trace  # what is lacking is positive semidefinite
    assert 0 < lacking[-1] <= norm
    assert lacking.sum() == pytest.approx(trace, rel=1e-12)
    found, exact = ls.solve(problem), singular_values(A)[:4]
    assert np.all(exact**2 * (1 + 1e-12) >= found.S**2)
    assert np.all(exact**2 <= found.S**2 + norm)
    v = found.Vh.T
    residuals = np.linalg.norm(C.T @ (C @ v) - v * found.S**2, axis=0)
    assert residuals.max() / found.S[0] ** 2 <= found.residual
    assert found.total_squares == pytest.approx(np.sum(C**2), rel=1e-12)


@pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")
@pytest.mark.parametrize("solver", [*ls.solvers("svd"), "auto"])
def test_a_direction_that_is_cut_in_each_batch_is_not_certified(solver):
    """Each batch has loud directions of its own, and a soft one that all share: the largest of all rows, and cut."""
    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.standard_normal((400, 400)))[0].T
    batches = []
    for i in range(60):
        loud = axes[1 + 4 * i : 5 + 4 * i] * 3.0
        batches.append(np.vstack([loud, -loud, axes[:1], -axes[:1]]))
    held = held_of(batches, rank=2, center=True, k=1)
    exact = np.linalg.svd(np.vstack(batches), compute_uv=False)[0]
    found = ls.solve(held.problem(), solver, rng=0)
    assert found.S[0] < 0.9 * exact
    assert not found.converged
    assert found.status is not ls.Status.CONVERGED
    assert exact**2 <= found.S[0] ** 2 + held.discarded.norm


def test_files_keep_a_rank_and_are_refused_if_they_are_damaged_or_foreign(tmp_path):
    path, other = tmp_path / "a.npz", tmp_path / "b.npz"
    held = held_of(np.random.default_rng(0).standard_normal((5, 10, 30)), rank=3, center=True, k=2)
    held.save(path)
    again = ls.HeldMoments.load(path)
    assert (again.discarded, again.rank) == (held.discarded, 3)
    whole = path.read_bytes()
    for name, value in (("rank", 4), ("total", 4.0), ("problem", "cca"), ("numbers", {"mapping": []})):
        other.write_bytes(changed_header(whole, f"fields/{name}", value))
        with pytest.raises(InvalidFile, match="has been changed"):
            ls.HeldMoments.load(other)
    ls.solve(held.problem()).save(other)
    with pytest.raises(InvalidFile, match="moments of version None"):
        ls.HeldMoments.load(other)
    with pytest.raises(InvalidFile):
        ls.load_solution(path)


X, Y, y = RNG.standard_normal((20, 3)), RNG.standard_normal((20, 2)), np.arange(20) % 3
BAD = X.copy()
BAD[7, 1] = np.nan


def bad_slices():
    return iter([BAD[:5], BAD[5:]])


def classes(H):
    return ls.HeldMoments(ls.Discriminant, ridge=1.0).add(X, H)


def others():
    return held_of([X], k=1, rank=2)


BY_CLASS, STAND = "scaled by the rows of each class", "stand for others"
REFUSED = [
    (NonFiniteData, "row 7, column 1", lambda held: held.add(bad_slices, Y)),
    (NonFiniteData, "finite", lambda _: others().add(bad_slices())),
    (InvalidProblem, "equally many rows", lambda held: held.add(X, Y[:-1])),
    (InvalidProblem, "those have 3, got 2", lambda held: held.add(X[:, :2], Y)),
    (InvalidProblem, "got 1. Pass them", lambda held: held.add(X)),
    (InvalidProblem, "confounds must have the columns", lambda held: held.add(X, Y, confounds=X[:, 0])),
    (InvalidProblem, "got moments", lambda held: held.add(ls.Moments(X, Y, center=True), None)),
    (InvalidProblem, "one problem and one rank", lambda held: held.merge(ls.HeldMoments(ls.PLS, k=1))),
    (InvalidProblem, STAND, lambda held: ls.bootstrap(held.problem(), draws=10)),
    (InvalidProblem, STAND, lambda held: ls.permutation_test(held.problem(), permutations=19)),
    (InvalidProblem, STAND, lambda held: ls.cross_validate(held.problem(), ridges=[1.0])),
    (InvalidProblem, STAND, lambda held: ls.compare(held.problem(), held_out=0.3)),
    (InvalidProblem, BY_CLASS, lambda _: classes(ls.targets.lda(y))),
    (InvalidProblem, BY_CLASS, lambda _: classes(ls.targets.cca(scipy.sparse.csr_array(np.eye(3)[y])))),
    (InvalidProblem, "left singular vectors belong to rows", lambda _: held_of([X], k=1, left=True)),
    (InvalidProblem, "holds out rows", lambda _: ls.HeldMoments("ridge-many-targets").add(X, Y)),
    (InvalidProblem, "confounds need all second moments", lambda _: others().add(X, confounds=Y)),
    (InvalidProblem, "scale needs", lambda _: others().problem(scale=True)),
]


def test_what_is_refused_adds_nothing():
    held = ls.HeldMoments(ls.CCA, k=1)
    held.add(X, Y)
    before = ls.solve(held.problem()).correlations
    for error, text, act in REFUSED:
        with pytest.raises(error, match=text):
            act(held)
        assert (held.rows, held.total) == (20, 20.0)
    assert (ls.solve(held.problem()).correlations == before).all()
