"""Rows in blocks that lie elsewhere: every method, every task, any engine; the bits do not depend on who works."""

from __future__ import annotations

import pickle
import signal
import warnings
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from backends import check_operator
from planted import planted_case

import linspec as ls
from linspec import Moments, as_operator
from linspec.errors import (
    InvalidProblem,
    LinspecError,
    MissingCapability,
    NonFiniteData,
    UnsupportedData,
)
from linspec.process import machine
from linspec.rows import on_workers
from linspec.workers import BlockOperator, Engine, InProcess, brought_here

RNG = np.random.default_rng(0)
N, P, Q = 900, 12, 8
SHARED = RNG.standard_normal((N, 3))
X = SHARED @ RNG.standard_normal((3, P)) + RNG.standard_normal((N, P)) + 5.0
Y = SHARED @ RNG.standard_normal((3, Q)) + RNG.standard_normal((N, Q))
EDGES, OTHER_EDGES = [0, 250, 251, 600, N], [0, 400, N]


def cut(A: Any, edges: Any = EDGES) -> list[Any]:
    return [A[a:b] for a, b in pairwise(edges)]


def blocks(A: Any, edges: Any = EDGES, engine: Engine | None = None) -> BlockOperator:
    return BlockOperator(cut(A, edges), engine)


class Posted(InProcess):
    """An engine behind which everything is pickled, as on its way to a worker and back."""

    def hold(self, values):
        return [pickle.dumps(value) for value in values]

    def map(self, work, calls):
        work = pickle.dumps(work)
        found = [
            pickle.loads(work)(call.number, *map(pickle.loads, call.handles)) for call in reversed(calls)
        ]
        return [pickle.dumps(value) for value in reversed(found)]

    def taken(self, handle):
        return pickle.loads(handle)


def posted(A: Any, edges: Any = EDGES, engine: Engine | None = None) -> BlockOperator:
    engine = engine or Posted()
    return BlockOperator(engine.hold(cut(A, edges)), engine)


# ---- the operator ---------------------------------------------------------------------------------


def test_blocks_keep_what_operators_promise():
    assert not check_operator(blocks(X), entries=X)
    assert not check_operator(blocks(scipy.sparse.csr_array(X)), entries=X)


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ([], InvalidProblem, "must have rows"),
        ([X[:5], X[5:, :3]], InvalidProblem, "block 1 of data has 3 columns; the first has 12"),
        ([X[:5], scipy.sparse.csr_array(X[5:])], UnsupportedData, "block 1 of data is a sparse matrix"),
        ([X[:5].astype(complex)], UnsupportedData, "block 0 of data"),
    ],
)
def test_blocks_that_make_no_matrix_are_refused(given, error, said):
    with pytest.raises(error, match=said):
        BlockOperator(given)


@pytest.fixture
def small_head(monkeypatch):
    """A few rows that come here before a pass begins."""
    monkeypatch.setattr(on_workers, "ORIGIN_ROWS", 4)


@pytest.mark.parametrize("kind", [np.array, scipy.sparse.csr_array])
def test_products_are_made_where_the_blocks_are(kind, small_head):
    rows, engine = kind(np.where(RNG.random((N, P)) < 0.5, X, 0.0)), Fetched()
    A = blocks(rows, engine=engine)
    V, U = RNG.standard_normal((P, 2)), RNG.standard_normal((N, 3))
    np.testing.assert_allclose(A.rmatmat(U), rows.T @ U, rtol=1e-12, atol=1e-9)
    assert engine.largest <= 4 * P
    np.testing.assert_allclose(A.matmat(V), rows @ V, rtol=1e-12, atol=1e-9)
    assert A.in_dtype(np.dtype(np.float32)).matmat(V).dtype == np.float32
    assert np.array_equal(brought_here(A), rows @ np.eye(P))


# ---- every method ---------------------------------------------------------------------------------


LONG = {"preimage-cca/gradkcca", "preimage-cca/scca-hsic", "cca/sparse-appgrad", "cca/naive-gradient"}
"""Solvers whose cases take seconds; they go by the same products."""


@pytest.mark.parametrize("name", [name for name in ls.solvers() if name not in LONG])
@pytest.mark.slow(keep=5)
@pytest.mark.filterwarnings("ignore::linspec.errors.AccuracyWarning")
def test_every_solver_takes_blocks_or_says_that_it_cannot(name):
    """What needs rows or entries is refused; whether an answer is right is asked by the fuzzer, of blocks as well."""
    problem, _, solver = name.partition("/")
    case, needs = planted_case(problem), ls.describe(name).needs
    cut = {key: A if A.ndim == 1 else blocks(A, [0, 20, 21, 31, len(A)]) for key, A in case.arrays.items()}
    options = {"width": 8, "epochs": 3} if problem == "deep-cca" else {}
    try:
        found = ls.solve(case.state(cut), solver, rng=0, **options)
    except LinspecError:
        assert needs.rows or needs.dense or needs.entries or needs.diagonal, "nothing else may be refused"
        return
    except ImportError:
        pytest.skip("no torch")
    for field, value in case.truth.items():
        if found.status is ls.Status.CONVERGED:
            np.testing.assert_allclose(np.abs(getattr(found, field)), np.abs(value), atol=1e-3)


def answers(problem: Any, solver: str, **given: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ls.solve(problem, solver, rng=0, **given)


DRAWN = {"cca/stochastic-appgrad", "least-squares/svrg"}
"""Solvers that draw rows: of blocks they draw runs of rows, and so others."""

STATED = {
    "cca": (lambda A, B: ls.CCA(A, B, 2, ridge=1.0), "correlations"),
    "svd": (lambda A, B: ls.SVD(A, 3, center=True), "S"),
    "least-squares": (lambda A, B: ls.LeastSquares(A, B, ridge=1.0), "x"),
    "discriminant": (lambda A, B: ls.Discriminant(A, B, 2, ridge=1.0), "eigenvalues"),
}


@pytest.mark.parametrize("kind", [np.array, scipy.sparse.csr_array])
@pytest.mark.parametrize("name", [name for name in ls.solvers() if name.partition("/")[0] in STATED])
@pytest.mark.slow(keep=10)
def test_answers_and_passes_are_those_of_arrays_in_memory(name, kind):
    state, value = STATED[name.partition("/")[0]]
    A, B = kind(X), kind(Y)
    needs = ls.describe(name).needs
    in_blocks = state(blocks(A), blocks(B, OTHER_EDGES))
    if name in DRAWN:
        return  # see test_minibatches_of_blocks
    if needs.dense:
        with pytest.raises(MissingCapability, match="which the data cannot give"):
            answers(in_blocks, name)
        return
    given = {"tol": 1e-11} if "tol" in {option.name for option in ls.describe(name).options} else {}
    of_blocks = answers(in_blocks, name, **given)
    of_arrays = answers(state(A, B), name, **given)
    assert abs(of_blocks.passes - of_arrays.passes) <= 1
    a, b = (np.asarray(getattr(found, value)) for found in (of_blocks, of_arrays))
    scale = 1e-8 if of_arrays.converged else 1e-6
    np.testing.assert_allclose(a, b, rtol=0, atol=scale * np.abs(b).max())


@pytest.mark.parametrize("form", ["implicit", "dense", "sparse"])
@pytest.mark.parametrize("center", [False, True])
def test_products_of_sparse_blocks_in_every_form(form, center):
    rows = scipy.sparse.random(N, 40, 0.05, random_state=0, format="csr") * 10
    others = scipy.sparse.random(N, 30, 0.05, random_state=1, format="csr")
    m = Moments(blocks(rows), blocks(others), center=center, form=form)
    x, y = (A.toarray() - center * A.toarray().mean(axis=0) for A in (rows, others))
    V, W = RNG.standard_normal((40, 3)), RNG.standard_normal((30, 2))
    exact = x.T @ x @ V, x.T @ y @ W, y.T @ x @ V, y.T @ y @ W
    for a, b in zip(m.products(V, W), exact, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-11 * np.abs(b).max())


@pytest.mark.parametrize("given", ["sample_weight", "confounds", "scale"])
def test_weights_confounds_and_scale_act_on_blocks(given):
    value = {"sample_weight": RNG.random(N), "confounds": RNG.standard_normal((N, 2)), "scale": True}[given]
    for solver in ("lobpcg", "gram", "als", "direct"):
        to = {"tol": 1e-10} if solver == "als" else {}
        a, b = (
            answers(ls.CCA(*data, 2, ridge=1.0, **{given: value}), solver, **to)
            for data in ((X, Y), (posted(X), Y))
        )
        np.testing.assert_allclose(a.correlations, b.correlations, atol=1e-8)


@pytest.mark.parametrize("kind", [np.array, scipy.sparse.csr_array])
def test_the_bits_with_weights_and_confounds_are_those_of_any_engine_and_any_number_of_threads(
    kind, monkeypatch
):
    named = {"sample_weight": RNG.random(N), "confounds": RNG.standard_normal((N, 2)), "scale": True}
    edges, found = np.linspace(0, N, 24).astype(int), []
    for threads, engine in (("1", InProcess()), ("5", InProcess()), ("5", Posted())):
        monkeypatch.setenv("LINSPEC_NUM_THREADS", threads)
        data = [BlockOperator(engine.hold(cut(kind(A), edges)), engine) for A in (X, Y)]
        found.append(answers(ls.CCA(*data, 3, ridge=1.0, **named), "lobpcg", form="implicit", tol=1e-10))
    for other in found[1:]:
        assert np.array_equal(found[0].x_weights, other.x_weights)


@pytest.mark.parametrize("full", [0.0, 1e3])
def test_full_blocks_before_sparse_ones_are_centred_about_the_means_of_all_rows(full):
    rng = np.random.default_rng(0)
    few = np.where(rng.random((3000, 200)) < 0.01, 1.0, 0.0)
    few[:, 0] += full  # a column that stores every entry, far from zero
    parts = [rng.standard_normal((300, 200)) + 3.0, few]
    A = np.vstack(parts)
    given = BlockOperator([scipy.sparse.csr_array(part) for part in parts])
    found = ls.solve(ls.SVD(given, 3, center=True), "gram")
    np.testing.assert_allclose(found.S, np.linalg.svd(A - A.mean(axis=0), compute_uv=False)[:3], rtol=1e-9)


def test_weights_of_other_rows_are_refused_where_blocks_are():
    with pytest.raises(InvalidProblem, match=r"one number for each of the .* rows; got shape \(5,\)"):
        ls.SVD(blocks(X), 2, sample_weight=np.ones(5))


class Rounds(Posted):
    """An engine that counts its reductions: rounds of the cluster in which rows are read."""

    rounds = 0

    def reduce(self, work, calls, merge):
        self.rounds += 1
        return super().reduce(work, calls, merge)


NAMED = {
    "sample_weight": RNG.integers(0, 3, N) / 2.0,
    "confounds": RNG.standard_normal((N, 2)),
    "scale": True,
}
LABELS = RNG.permutation(np.arange(N) % 4)
CLASSES = (SHARED[:, 0] > 0) + 2 * (SHARED[:, 1] > 0)
SCORED = {
    "cca": lambda A, B, **named: ls.CCA(A, B, 3, **named),
    "svd": lambda A, B, **named: ls.SVD(A, 3, center=True, **named),
    "least-squares": lambda A, B, **named: ls.LeastSquares(A, B, center=True, **named),
    "discriminant": lambda A, B, **named: ls.Discriminant(A, ls.targets.lda(CLASSES), 2, **named),
}


@pytest.mark.parametrize("named", [{}, NAMED], ids=["plain", "weighted and confounded"])
@pytest.mark.parametrize("kind", [np.array, scipy.sparse.csr_array])
@pytest.mark.parametrize("name", SCORED)
def test_blocks_are_cross_validated_in_one_round(name, kind, named):
    """The scores are those of arrays in memory, of folds and of splits that are no partition of the rows."""
    state, engine = SCORED[name], Rounds()
    named = {**named, "sample_weight": None} if name == "discriminant" and named else named
    grid = {"ks": [1, 2]} if name != "least-squares" else {}
    grid |= {"ridges": [0.1, 10.0]} if name != "svd" else {}
    drawn = [(np.arange(0, 500), np.arange(600, N, 2)), (np.arange(300, N), np.arange(100))]
    here = state(kind(X), kind(Y), **named)
    there = state(posted(kind(X), engine=engine), posted(kind(Y), OTHER_EDGES, engine), **named)
    there.sizes()  # of sparse blocks, which are counted once
    for splitter in (LABELS, drawn):
        engine.rounds = 0
        found = ls.cross_validate(there, splitter=splitter, form="dense", **grid)
        assert engine.rounds == 1
        assert found.passes == 1
        exact = ls.cross_validate(here, splitter=splitter, form="dense", **grid)
        np.testing.assert_allclose(found.scores, exact.scores, rtol=0, atol=1e-8)


def test_sparse_blocks_are_cross_validated_by_pairs_of_their_entries():
    rows = scipy.sparse.random(N, 40, 0.05, random_state=0, format="csr").toarray()
    rows[:, 0] = 1e4 + 1e-3 * RNG.standard_normal(N)  # a mean that its squares would drown
    rows = scipy.sparse.csr_array(rows)
    grid = {"ridges": [0.1, 10.0], "splitter": LABELS}
    found = ls.cross_validate(ls.LeastSquares(posted(rows), Y[:, :1], center=True), **grid)
    exact = ls.cross_validate(ls.LeastSquares(rows.toarray(), Y[:, :1], center=True), **grid)
    np.testing.assert_allclose(found.scores, exact.scores, rtol=1e-8)


def test_what_is_not_finite_in_blocks_that_are_cross_validated_is_named():
    broken = X.copy()
    broken[601, 3] = np.inf
    with pytest.raises(NonFiniteData, match="X must be finite; got inf at row 601, column 3"):
        ls.cross_validate(ls.CCA(posted(broken), posted(Y), 2), splitter=LABELS)


def test_solves_for_each_split_of_blocks_are_refused_in_words():
    with pytest.raises(MissingCapability, match='form="dense"'):
        ls.cross_validate(ls.CCA(posted(X), posted(Y), 2), splitter=LABELS, form="solve")


@pytest.fixture
def memory(monkeypatch):
    """As much as a choice needs, whoever else runs."""
    monkeypatch.setattr(machine, "available_memory", lambda: 64 * 2**30)


@pytest.mark.parametrize("first", [0, 1])
def test_rows_in_memory_stand_beside_blocks(first):
    data = [X, Y]
    data[first] = blocks(data[first])
    found = answers(ls.CCA(*data, 2, ridge=1.0), "lobpcg", form="implicit")
    exact = answers(ls.CCA(X, Y, 2, ridge=1.0), "gram")
    np.testing.assert_allclose(found.correlations, exact.correlations, atol=1e-8)


class Fetched(InProcess):
    """An engine that knows the largest array that has come here."""

    largest = 0

    def fetch(self, handles):
        found = super().fetch(handles)
        self.largest = max([self.largest, *map(size_of, found)])
        return found


def size_of(value: Any) -> int:
    """The numbers of the largest array in a value."""
    if isinstance(value, tuple | list):
        return max(map(size_of, value), default=0)
    return getattr(value, "size", 1)


LONG_ROWS = [
    {},
    {"center": True},
    {"ridge": [0.1, 10.0]},
    {"sample_weight": RNG.random(N), "center": True},
    {"confounds": RNG.standard_normal((N, 2)), "ridge": 0.5},
    {"scale": True, "center": True},
]


@pytest.mark.parametrize("given", LONG_ROWS, ids=lambda given: "-".join(given) or "plain")
@pytest.mark.parametrize("kind", [np.array, scipy.sparse.csr_array])
def test_lsqr_reads_rows_in_blocks_once_a_step(kind, given):
    """Also where columns converge one after the other."""
    rows = kind(np.where(RNG.random((N, P)) < 0.4, X, 0.0) * np.geomspace(1, 0.1, P))
    found = answers(ls.LeastSquares(blocks(rows), Y, **given), "lsqr", tol=1e-11)
    exact = answers(ls.LeastSquares(rows, Y, **given), "lsqr", tol=1e-11)
    assert abs(found.passes - exact.passes) <= 1
    np.testing.assert_allclose(found.x, exact.x, rtol=0, atol=1e-8 * np.abs(exact.x).max())


@pytest.mark.parametrize(
    "given", [{}, {"sample_weight": RNG.integers(0, 3, N).astype(float)}], ids=["plain", "weighted"]
)
@pytest.mark.parametrize("kind", [np.array, scipy.sparse.csr_array])
@pytest.mark.slow(keep=1)
def test_minibatches_of_blocks(kind, given):
    """Rows come here a few at a time; what is drawn is what the certificate, which passes, finds good."""
    A, B = kind(np.where(RNG.random((N, P)) < 0.5, X - 5.0, 0.0)), kind(Y)
    engine = Fetched()
    there = blocks(A, engine=engine), blocks(B, OTHER_EDGES, engine)
    exact = answers(ls.LeastSquares(A, B, ridge=1.0, **given), "direct")
    found = answers(ls.LeastSquares(*there, ridge=1.0, **given), "svrg", tol=1e-9)
    np.testing.assert_allclose(found.x, exact.x, rtol=0, atol=1e-7 * np.abs(exact.x).max())
    best = answers(ls.CCA(A, B, 2, ridge=1.0, **given), "gram").correlations.sum()
    near = answers(ls.CCA(*there, 2, ridge=1.0, **given), "stochastic-appgrad", epochs=30.0)
    assert 0.9 * best < near.correlations.sum() <= best * (1 + 1e-9)
    assert isinstance(there[0].rows(np.array([899, 3, 3])), type(as_operator(A)))


LEFT = {
    "plain": {},
    "centred": {"center": True},
    "weighted": {"center": True, "sample_weight": RNG.random(N)},
}


@pytest.mark.parametrize("given", LEFT.values(), ids=LEFT)
@pytest.mark.parametrize("kind", [np.array, scipy.sparse.csr_array])
@pytest.mark.parametrize("solver", ["gram", "direct", "block-krylov", "lanczos", "spca", "lazy-spca"])
@pytest.mark.slow(keep=9)
def test_left_vectors_stay_where_the_rows_are(solver, kind, given, tmp_path, small_head):
    """Orthonormal, and A V = U S to rounding, also for values far apart."""
    rows = kind(np.where(RNG.random((N, P)) < 0.6, X, 0.0) * np.geomspace(1, 1e-5, P))
    engine = Fetched()
    found = answers(ls.SVD(blocks(rows, engine=engine), 4, left=True, **given), solver)
    exact = answers(ls.SVD(rows, 4, left=True, **given), solver)
    assert isinstance(found.U, BlockOperator)
    assert engine.largest < N
    assert found.passes <= exact.passes + 1
    U = brought_here(found.U)
    np.testing.assert_allclose(U.T @ U, np.eye(4), atol=1e-12)
    image = found.transform(rows)
    roots = np.sqrt(given.get("sample_weight", np.ones(N)))[:, None]
    np.testing.assert_allclose(U * found.S, image * roots, atol=1e-11 * found.S[0])
    found.save(tmp_path / "a.npz")
    np.testing.assert_array_equal(ls.load_solution(tmp_path / "a.npz").U, U)
    assert len(found.scores_table()) == N


def test_scores_and_classes_of_rows_in_blocks(small_head):
    pairs = answers(ls.CCA(X, Y, 2, ridge=1.0), "gram")
    engine = Fetched()
    found, exact = pairs.score(blocks(X, engine=engine), blocks(Y, engine=engine)), pairs.score(X, Y)
    assert engine.largest < 100
    np.testing.assert_allclose(found.correlations, exact.correlations, rtol=1e-12)
    assert found.rows == exact.rows == N
    assert found.total == pytest.approx(exact.total, rel=1e-12)
    vector = answers(ls.LeastSquares(X, Y[:, 0], ridge=[1.0, 2.0]), "direct")
    np.testing.assert_allclose(
        vector.predict(blocks(X)), vector.predict(X), rtol=1e-10
    )  # for each ridge: here
    classes = answers(ls.Discriminant(X, ls.targets.lda((Y[:, 0] > 0).astype(int)), 1), "direct")
    assert classes.predict(blocks(X)).tolist() == classes.predict(X).tolist()
    table = pairs.variates_table(blocks(X)) if hasattr(pairs, "variates_table") else None
    assert table is None or len(table) == N


def test_means_that_are_large_beside_the_spread_lose_nothing():
    far = X + 1e6
    found = answers(ls.CCA(blocks(far), blocks(Y), 2), "lobpcg", form="implicit")
    exact = answers(ls.CCA(X, Y, 2), "direct")
    np.testing.assert_allclose(found.correlations, exact.correlations, atol=1e-8)


@pytest.mark.parametrize("kind", [np.array, scipy.sparse.csr_array])
def test_what_is_not_finite_is_named_by_row_and_column(kind):
    broken = X.copy()
    broken[601, 3] = np.nan
    with pytest.raises(NonFiniteData, match="X must be finite; got nan at row 601, column 3"):
        answers(ls.CCA(posted(kind(broken)), posted(kind(Y)), 2), "lobpcg")


@pytest.mark.parametrize("kind", [np.array, scipy.sparse.csr_array])
def test_new_rows_that_are_not_finite_are_named_as_those_in_memory(kind):
    """Rows in blocks and in memory have one error, for each function that takes new rows."""
    broken = X.copy()
    broken[601, 3] = np.nan
    svd, cca = ls.solve(ls.SVD(X, 3, center=True)), ls.solve(ls.CCA(X, Y, 2))
    least = ls.solve(ls.LeastSquares(X, Y))
    of_one = (svd.transform, svd.loadings, least.predict, lambda A: ls.project(A, 2, rng=0))
    for of in (posted, lambda A: A):
        A, B = of(kind(broken)), of(kind(Y))
        for made in of_one:
            with pytest.raises(NonFiniteData, match="A must be finite; got nan at row 601, column 3"):
                made(A)
        for made in (cca.transform, cca.score):
            with pytest.raises(NonFiniteData, match="X must be finite; got nan at row 601, column 3"):
                made(A, B)


@pytest.mark.parametrize("of", [np.array, posted], ids=["array", "blocks"])
def test_scores_that_are_not_finite_are_named(of):
    scores = np.ones((len(X), 3))
    scores[601, 2] = np.inf
    with pytest.raises(NonFiniteData, match="scores must be finite; got inf at row 601, column 2"):
        ls.solve(ls.SVD(X, 3, center=True)).inverse_transform(of(scores))


def test_methods_that_read_rows_here_say_that_blocks_stay():
    with pytest.raises(MissingCapability, match="nystrom-pcg"):
        ls.solve(ls.LeastSquares(blocks(X), blocks(Y)), "sketch-precondition")
    with pytest.raises(MissingCapability, match="lies in blocks that are not brought"):
        list(blocks(X).blocks())
    with pytest.raises(UnsupportedData, match="Give both to one"):
        answers(ls.CCA(blocks(X), posted(Y), 2), "lobpcg")


def test_a_run_ends_between_passes(ctrl_c):
    def stop(progress):
        signal.raise_signal(signal.SIGINT)

    problem = ls.CCA(posted(X), posted(Y), 2, ridge=1.0)
    found = answers(problem, "lobpcg", form="implicit", tol=1e-15, callback=stop)
    assert found.status is ls.Status.INTERRUPTED
    assert found.correlations.shape == (2,)
    found = answers(problem, "lobpcg", form="implicit", tol=1e-15, max_passes=5)
    assert found.passes <= 5


# ---- bits -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", [np.array, scipy.sparse.csr_array])
@pytest.mark.slow(keep=1)
def test_the_bits_are_those_of_any_engine_and_any_number_of_threads(kind, dtype, monkeypatch):
    A, B = kind(X.astype(dtype)), kind(Y.astype(dtype))
    found = []
    for threads, make in (("1", blocks), ("5", blocks), ("5", posted)):
        monkeypatch.setenv("LINSPEC_NUM_THREADS", threads)
        engine = Posted()
        data = [
            make(M, np.linspace(0, N, 24).astype(int), engine if make is posted else None) for M in (A, B)
        ]
        found.append(answers(ls.CCA(*data, 3, ridge=1.0), "lobpcg", form="implicit", tol=1e-10))
    for other in found[1:]:
        assert np.array_equal(found[0].x_weights, other.x_weights)
        assert np.array_equal(found[0].correlations, other.correlations)
