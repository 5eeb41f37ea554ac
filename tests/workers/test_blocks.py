"""Rows in blocks that lie elsewhere: what stays there, what passes cost, and bits that do not depend on who works."""

from __future__ import annotations

import warnings
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from in_blocks import Sent

import linspec as ls
from linspec.errors import InvalidProblem, MissingCapability, NonFiniteData, UnsupportedData
from linspec.rows import on_workers
from linspec.testing import check_operator
from linspec.workers import BlockOperator, InProcess, brought_here

RNG = np.random.default_rng(0)
N, P, Q = 900, 12, 8
SHARED = RNG.standard_normal((N, 3))
X = SHARED @ RNG.standard_normal((3, P)) + RNG.standard_normal((N, P)) + 5.0
Y = SHARED @ RNG.standard_normal((3, Q)) + RNG.standard_normal((N, Q))
EDGES, OTHER_EDGES = [0, 250, 251, 600, N], [0, 400, N]
LABELS = RNG.permutation(np.arange(N) % 4)
KINDS = pytest.mark.parametrize("kind", [np.array, scipy.sparse.csr_array], ids=["dense", "sparse"])


class Posted(Sent):
    """It counts reductions, and knows the largest array that has come."""

    def __init__(self) -> None:
        self.rounds = self.largest = 0

    def reduce(self, work, calls, merge):
        self.rounds += 1
        return super().reduce(work, calls, merge)

    def taken(self, handle):
        value = super().taken(handle)
        self.largest = max(self.largest, size_of(value))
        return value


def size_of(value: Any) -> int:
    """The numbers of the largest array in a value."""
    if isinstance(value, tuple | list):
        return max(map(size_of, value), default=0)
    return getattr(value, "size", 1)


def blocks(A: Any, edges: Any = EDGES, engine: Any = None) -> BlockOperator:
    engine = engine or Posted()
    return BlockOperator(engine.hold([A[a:b] for a, b in pairwise(edges)]), engine)


def answer(problem: Any, solver: str, **given: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ls.solve(problem, solver, rng=0, **given)


@pytest.fixture
def small_head(monkeypatch):
    """A few rows that come here before a pass begins."""
    monkeypatch.setattr(on_workers, "ORIGIN_ROWS", 4)


@KINDS
def test_products_are_made_where_the_blocks_are(kind, small_head):
    rows, engine = kind(np.where(RNG.random((N, P)) < 0.5, X, 0.0)), Posted()
    A = blocks(rows, engine=engine)
    assert not check_operator(blocks(rows), entries=rows @ np.eye(P))
    V, U = RNG.standard_normal((P, 2)), RNG.standard_normal((N, 3))
    engine.largest = 0
    np.testing.assert_allclose(A.rmatmat(U), rows.T @ U, rtol=1e-12, atol=1e-9)
    assert engine.largest <= 4 * P
    np.testing.assert_allclose(A.matmat(V), rows @ V, rtol=1e-12, atol=1e-9)
    assert A.in_dtype(np.dtype(np.float32)).matmat(V).dtype == np.float32
    assert np.array_equal(brought_here(A), rows @ np.eye(P))


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ([], InvalidProblem, "must have rows"),
        ([X[:0], X[:0]], InvalidProblem, "must have rows"),
        ([X[:5], X[5:, :3]], InvalidProblem, "block 1 of data has 3 columns; the first has 12"),
        ([X[:5], scipy.sparse.csr_array(X[5:])], UnsupportedData, "block 1 of data is a sparse matrix"),
        ([X[:5].astype(complex)], UnsupportedData, "block 0 of data"),
    ],
)
def test_blocks_that_make_no_matrix_are_refused(given, error, said):
    with pytest.raises(error, match=said):
        BlockOperator(given)


def test_methods_that_read_rows_here_say_that_blocks_stay():
    with pytest.raises(MissingCapability, match="nystrom-pcg"):
        ls.solve(ls.LeastSquares(blocks(X), blocks(Y)), "sketch-precondition")
    with pytest.raises(MissingCapability, match="lies in blocks that are not brought"):
        list(blocks(X).blocks())
    with pytest.raises(UnsupportedData, match="Give both to one"):
        answer(ls.CCA(BlockOperator([X]), blocks(Y), 2), "lobpcg")


DRAWN = {"cca/stochastic-appgrad", "least-squares/svrg"}
"""Solvers that draw rows: of blocks they draw runs of rows, and so others."""

STATED = {
    "cca": lambda A, B: ls.CCA(A, B, 2, ridge=1.0),
    "svd": lambda A, B: ls.SVD(A, 3, center=True),
    "least-squares": lambda A, B: ls.LeastSquares(A, B, ridge=[0.1, 10.0], center=True),
    "discriminant": lambda A, B: ls.Discriminant(A, B, 2, ridge=1.0),
}
NAMES = [name for name in ls.solvers() if name.partition("/")[0] in STATED and name not in DRAWN]


@KINDS
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.slow(keep=10)
def test_passes_are_those_of_arrays_in_memory(name, kind):
    state, described = STATED[name.partition("/")[0]], ls.describe(name)
    in_blocks = state(blocks(kind(X)), blocks(kind(Y), OTHER_EDGES))
    if described.needs.dense:
        with pytest.raises(MissingCapability, match="which the data cannot give"):
            answer(in_blocks, name)
        return
    given = {"tol": 1e-11} if "tol" in {option.name for option in described.options} else {}
    assert (
        abs(answer(in_blocks, name, **given).passes - answer(state(kind(X), kind(Y)), name, **given).passes)
        <= 1
    )


@KINDS
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.slow(keep=2)
def test_the_bits_are_those_of_any_engine_and_any_number_of_threads(kind, weighted, monkeypatch):
    named = {"sample_weight": RNG.random(N), "confounds": RNG.standard_normal((N, 2)), "scale": True}
    edges, found = np.linspace(0, N, 24).astype(int), []
    for threads, engine in (("1", InProcess()), ("5", InProcess()), ("5", Posted())):
        monkeypatch.setenv("LINSPEC_NUM_THREADS", threads)
        data = [blocks(kind(A.astype("f4")), edges, engine) for A in (X, Y)]
        problem = ls.CCA(*data, 3, ridge=1.0, **(named if weighted else {}))
        found.append(answer(problem, "lobpcg", form="implicit", tol=1e-10))
    assert all(np.array_equal(found[0].x_weights, other.x_weights) for other in found[1:])


@pytest.mark.parametrize("full", [0.0, 1e3])
def test_full_blocks_before_sparse_ones_are_centred_about_the_means_of_all_rows(full):
    few = np.where(RNG.random((3000, 200)) < 0.01, 1.0, 0.0)
    few[:, 0] += full  # a column that stores every entry, far from zero
    A = np.vstack([RNG.standard_normal((300, 200)) + 3.0, few])
    found = ls.solve(ls.SVD(blocks(scipy.sparse.csr_array(A), [0, 300, 3300]), 3, center=True), "gram")
    np.testing.assert_allclose(found.S, np.linalg.svd(A - A.mean(axis=0), compute_uv=False)[:3], rtol=1e-9)


NAMED = {
    "sample_weight": RNG.integers(0, 3, N) / 2.0,
    "confounds": RNG.standard_normal((N, 2)),
    "scale": True,
}
CLASSES = (SHARED[:, 0] > 0) + 2 * (SHARED[:, 1] > 0)
SCORED = {
    "cca": lambda A, B, **named: ls.CCA(A, B, 3, **named),
    "svd": lambda A, B, **named: ls.SVD(A, 3, center=True, **named),
    "least-squares": lambda A, B, **named: ls.LeastSquares(A, B, center=True, **named),
    "discriminant": lambda A, B, **named: ls.Discriminant(A, ls.targets.lda(CLASSES), 2, **named),
}  # fmt: skip


@pytest.mark.parametrize("named", [{}, NAMED], ids=["plain", "weighted and confounded"])
@KINDS
@pytest.mark.parametrize("name", SCORED)
def test_blocks_are_cross_validated_in_one_round(name, kind, named):
    """The scores are those of arrays in memory, of folds and of splits that are no partition of the rows."""
    state, engine = SCORED[name], Posted()
    named = {**named, "sample_weight": None} if name == "discriminant" and named else named
    grid = {"ks": [1, 2]} if name != "least-squares" else {}
    grid |= {"ridges": [0.1, 10.0]} if name != "svd" else {}
    there = state(blocks(kind(X), engine=engine), blocks(kind(Y), OTHER_EDGES, engine), **named)
    there.sizes()  # of sparse blocks, which are counted once
    drawn = [(np.arange(0, 500), np.arange(600, N, 2)), (np.arange(300, N), np.arange(100))]
    for splitter in (LABELS, drawn):
        engine.rounds = 0
        found = ls.cross_validate(there, splitter=splitter, form="dense", **grid)
        assert engine.rounds == found.passes == 1
        exact = ls.cross_validate(state(kind(X), kind(Y), **named), splitter=splitter, form="dense", **grid)
        np.testing.assert_allclose(found.scores, exact.scores, rtol=0, atol=1e-8)


def test_solves_for_each_split_of_blocks_are_refused_in_words():
    with pytest.raises(MissingCapability, match='form="dense"'):
        ls.cross_validate(ls.CCA(blocks(X), blocks(Y), 2), splitter=LABELS, form="solve")


@pytest.mark.parametrize(
    "named", [{}, {"center": True, "sample_weight": RNG.random(N)}], ids=["plain", "weighted"]
)
@KINDS
@pytest.mark.parametrize("solver", ["gram", "direct", "block-krylov", "lanczos", "spca", "lazy-spca"])
@pytest.mark.slow(keep=9)
def test_left_vectors_stay_where_the_rows_are(solver, kind, named, tmp_path, small_head):
    """Orthonormal, and A V = U S to rounding, also for values far apart."""
    rows = kind(np.where(RNG.random((N, P)) < 0.6, X, 0.0) * np.geomspace(1, 1e-5, P))
    engine = Posted()
    there = blocks(rows, engine=engine)
    engine.largest = 0
    found = answer(ls.SVD(there, 4, left=True, **named), solver)
    assert isinstance(found.U, BlockOperator)
    assert engine.largest < N
    assert found.passes <= answer(ls.SVD(rows, 4, left=True, **named), solver).passes + 1
    U = brought_here(found.U)
    np.testing.assert_allclose(U.T @ U, np.eye(4), atol=1e-12)
    roots = np.sqrt(named.get("sample_weight", np.ones(N)))[:, None]
    np.testing.assert_allclose(U * found.S, found.transform(rows) * roots, atol=1e-11 * found.S[0])
    found.save(tmp_path / "a.npz")
    np.testing.assert_array_equal(ls.load_solution(tmp_path / "a.npz").U, U)
    assert len(found.scores_table()) == N


def test_scores_and_classes_of_rows_in_blocks(small_head):
    pairs, engine = answer(ls.CCA(X, Y, 2, ridge=1.0), "gram"), Posted()
    there = blocks(X, engine=engine), blocks(Y, engine=engine)
    engine.largest = 0
    found, exact = pairs.score(*there), pairs.score(X, Y)
    assert engine.largest < 100
    np.testing.assert_allclose(found.correlations, exact.correlations, rtol=1e-12)
    assert found.rows == exact.rows == N
    assert found.total == pytest.approx(exact.total, rel=1e-12)
    vector = answer(ls.LeastSquares(X, Y[:, 0], ridge=[1.0, 2.0]), "direct")
    np.testing.assert_allclose(vector.predict(blocks(X)), vector.predict(X), rtol=1e-10)
    classes = answer(ls.Discriminant(X, ls.targets.lda((Y[:, 0] > 0).astype(int)), 1), "direct")
    assert classes.predict(blocks(X)).tolist() == classes.predict(X).tolist()


@KINDS
@pytest.mark.parametrize(
    "of",
    [blocks, lambda A: A, lambda A: ls.as_operator(lambda: iter([A[:250], A[250:]]), rows=N)],
    ids=["blocks", "memory", "slices"],
)
def test_what_is_not_finite_is_named_by_row_and_column(kind, of):
    """Rows in blocks, in memory and in slices have one error, for solves and for each function that takes new rows."""
    broken = X.copy()
    broken[601, 3] = np.nan
    A, B = of(kind(broken)), of(kind(Y))
    svd, cca = ls.solve(ls.SVD(X, 3, center=True)), ls.solve(ls.CCA(X, Y, 2))
    classify = ls.solve(ls.Discriminant(X, ls.targets.lda(CLASSES), 2)).predict
    predict, project = ls.solve(ls.LeastSquares(X, Y)).predict, lambda A: ls.project(A, 2, rng=0)
    for made in (svd.transform, svd.loadings, predict, project):
        with pytest.raises(NonFiniteData, match="A must be finite; got nan at row 601, column 3"):
            made(A)
    for made in (
        cca.transform,
        cca.score,
        lambda A, B: answer(ls.CCA(A, B, 2), "lobpcg"),
        lambda A, B: classify(A),
    ):
        with pytest.raises(NonFiniteData, match="X must be finite; got nan at row 601, column 3"):
            made(A, B)
    if kind is np.array:
        with pytest.raises(NonFiniteData, match="scores must be finite; got nan at row 601, column 2"):
            svd.inverse_transform(of(broken[:, 1:4]))
    for entry in (np.nan, np.inf):  # of which sums are not finite, and squares compare as none
        broken[601, 3] = entry
        with pytest.raises(NonFiniteData, match=f"X must be finite; got {entry} at row 601, column 3"):
            ls.cross_validate(ls.CCA(of(kind(broken)), B, 2), splitter=LABELS)
