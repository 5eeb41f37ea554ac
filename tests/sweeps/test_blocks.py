"""Rows in blocks that lie elsewhere: every method, every task, any engine; the bits do not depend on who works."""

from __future__ import annotations

import importlib
import inspect
import pickle
import pkgutil
import signal
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from backends import check_operator
from planted import planted_case

import linspec as ls
from linspec import Moments, as_operator
from linspec.arrays import HOST
from linspec.cost import DENSE_RATE
from linspec.errors import (
    DataOutOfRange,
    InvalidProblem,
    LinspecError,
    MissingCapability,
    NonFiniteData,
    UnsupportedData,
)
from linspec.operators import Adjustment
from linspec.operators.row_model import PLAIN, row_model
from linspec.process import machine
from linspec.sweeps.adjusted_rows import AdjustedRows
from linspec.sweeps.blocks import BlockOperator, Call, Engine, InProcess, brought_here, map_reduce
from linspec.sweeps.blocks.fill import CountedColumns, Pattern
from linspec.sweeps.blocks.kept_rows import StepOverRows
from linspec.sweeps.blocks.runs import MOST_RUNS, PARTS_PER_RUN, cut_into_runs
from linspec.sweeps.cell_sums import CellRows, CellSums
from linspec.sweeps.finite import FirstNonFinite
from linspec.sweeps.first_sweep import Measured, Sizes
from linspec.sweeps.gradients import GradientOfSquares
from linspec.sweeps.gram_matrices import GramMatrices, SparseGramMatrices
from linspec.sweeps.held_rows import HeldRows
from linspec.sweeps.image_triangles import ImageTriangle
from linspec.sweeps.images import AdjointImages, ImageGram, Images
from linspec.sweeps.minibatches import RandomRows
from linspec.sweeps.products import FusedProducts, Request
from linspec.sweeps.row_sketches import RowSketch, SparseSigns
from linspec.sweeps.statistics import Statistics
from linspec.sweeps.task import Task
from linspec.sweeps.triangles import Triangle
from linspec.sweeps.witness import Together, Witnesses
from linspec_lstsq.golub_kahan import Residuals
from linspec_multiset.absent import PresentMatrices, PresentProducts

PLUGINS = Path(__file__).parents[2] / "plugins"

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


def test_blocks_are_described_by_their_sizes():
    A = BlockOperator([X[:10], X[10:10], X[10:]])
    assert A.shape == (N, P)
    assert A.layout == (10, N - 10), "blocks without rows are skipped"
    assert blocks(X.astype(np.float32)).dtype == np.float32
    assert BlockOperator([X[:10].astype(np.float32), X[10:]]).dtype == np.float64
    vector = BlockOperator([X[:10, 0], X[10:, 0]])
    assert vector.shape == (N, 1)


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ([], InvalidProblem, "must have rows"),
        ([X[:5], X[5:, :3]], InvalidProblem, "block 1 of data has 3 columns; the first has 12"),
        ([X[:5], scipy.sparse.csr_array(X[5:])], UnsupportedData, "block 1 of data is sparse"),
        ([X[:5].astype(complex)], UnsupportedData, "block 0 of data"),
    ],
)
def test_blocks_that_make_no_matrix_are_refused(given, error, said):
    with pytest.raises(error, match=said):
        BlockOperator(given)


def test_runs_cover_all_blocks_and_are_larger_than_what_they_give():
    assert cut_into_runs([1.0, 1.0, 1.0], 0.0) == [range(1), range(1, 2), range(2, 3)]
    runs = cut_into_runs([1.0] * 100, 1.0)
    assert [i for run in runs for i in run] == list(range(100))
    assert min(map(len, runs)) >= PARTS_PER_RUN
    assert len(cut_into_runs([1.0] * 10 * MOST_RUNS, 0.0)) <= MOST_RUNS
    assert cut_into_runs([1.0, 2.0], 100.0) == [range(2)]


# ---- every method ---------------------------------------------------------------------------------


LONG = {"preimage-cca/gradkcca", "preimage-cca/scca-hsic", "cca/sparse-appgrad", "cca/naive-gradient"}
"""Solvers whose cases take seconds; they go by the same products."""


@pytest.mark.parametrize("name", [name for name in ls.solvers() if name not in LONG])
@pytest.mark.slow(keep=5)
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
    np.testing.assert_allclose(m.diagonal()[0], (x**2).sum(axis=0), atol=1e-11 * (x**2).sum())


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


class Weighed(Posted):
    """An engine that knows the bytes of what it was given to hold, and of the functions it was sent."""

    def __init__(self):
        self.held, self.works = [], []

    def hold(self, values):
        found = super().hold(values)
        self.held += [len(value) for value in found]
        return found

    def map(self, work, calls):
        self.works.append(len(pickle.dumps(work)))
        return super().map(work, calls)


@pytest.mark.parametrize("kind", [np.array, scipy.sparse.csr_array])
@pytest.mark.parametrize("solver", ["cca/lobpcg", "cca/direct", "cca/randomized"])
def test_weights_and_confounds_are_sent_to_the_blocks_once(solver, kind):
    engine, c = Weighed(), 25
    data = [posted(kind(A), engine=engine) for A in (X, Y)]
    problem = ls.CCA(*data, 2, ridge=1.0, sample_weight=RNG.random(N), confounds=RNG.standard_normal((N, c)))
    engine.held, engine.works = [], []
    given = {"form": "implicit"} if solver == "cca/lobpcg" else {}
    found = answers(problem, solver, **given)
    model = 8 * N * (1 + c)
    assert model <= sum(engine.held) < 1.1 * model, "the rows of each block, once"
    assert max(engine.works) < model / 4, "and nothing with n rows in a pass"
    assert len(engine.works) > 4 * (solver == "cca/lobpcg")
    exact = answers(
        ls.CCA(
            kind(X), kind(Y), 2, ridge=1.0, sample_weight=problem.sample_weight, confounds=problem.confounds
        ),
        solver,
        **given,
    )
    np.testing.assert_allclose(found.correlations, exact.correlations, atol=1e-8)


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


def test_weights_of_other_rows_are_refused_where_blocks_are():
    with pytest.raises(InvalidProblem, match="sample_weight must have a row for each of 900 rows; got 5"):
        blocks(X).model_alongside(row_model(center=False, weights=np.ones(5), confounds=None))


@pytest.mark.parametrize("kind", [np.array, scipy.sparse.csr_array])
@pytest.mark.parametrize("center", [False, True])
def test_blocks_to_multiply_travel_once_and_in_the_precision_of_the_rows(kind, center):
    p, k, engine = 500, 4, Weighed()
    rows = np.random.default_rng(0).standard_normal((400, p)).astype(np.float32)
    given = [kind(rows[i : i + 50]) for i in range(0, 400, 50)]
    moments = ls.Moments(BlockOperator(engine.hold(given), engine), center=center, form="implicit")
    V = np.random.default_rng(1).standard_normal((p, k))
    moments.gram(V)  # the first sweep computes the means as well
    engine.works.clear()
    found = moments.gram(V)
    exact = rows - rows.mean(axis=0, dtype=np.float64) * center
    np.testing.assert_allclose(found, exact.T @ (exact @ V), atol=1e-5 * np.abs(found).max())
    work, *merges = engine.works
    means = 8 * p * center
    assert work <= 4 * p * k + means + 2000
    assert merges
    assert max(merges) <= 2000


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


def test_only_weights_labels_and_confounds_of_its_rows_go_to_a_block_that_is_cross_validated():
    engine, c = Weighed(), 25
    problem = ls.CCA(
        posted(X, engine=engine), posted(Y, engine=engine), 2, confounds=RNG.standard_normal((N, c))
    )
    engine.held, engine.works = [], []
    ls.cross_validate(problem, splitter=LABELS, ks=[1, 2])
    assert sum(engine.held) < 1.1 * 8 * N * (1 + c)
    assert max(engine.works) < 8 * N


def test_what_is_not_finite_in_blocks_that_are_cross_validated_is_named():
    broken = X.copy()
    broken[601, 3] = np.inf
    with pytest.raises(NonFiniteData, match="X must be finite; got inf at row 601, column 3"):
        ls.cross_validate(ls.CCA(posted(broken), posted(Y), 2), splitter=LABELS)


def test_solves_for_each_split_of_blocks_are_refused_in_words():
    with pytest.raises(MissingCapability, match='form="dense"'):
        ls.cross_validate(ls.CCA(posted(X), posted(Y), 2), splitter=LABELS, form="solve")


class Pretended(InProcess):
    """An engine that says it has many workers, and that a round takes its time."""

    workers = 1

    def __init__(self, workers, round_seconds=0.05):
        self.workers, self.round_seconds = workers, round_seconds


def of_shape(n: int, p: int, engine: Engine, *, cuts: int = 200) -> BlockOperator:
    """Make blocks of zeros; nobody reads more than a few of their rows."""
    heights = np.diff(np.linspace(0, n, cuts + 1).astype(int))
    return BlockOperator(
        [np.broadcast_to(np.zeros(1, np.float32), (height, p)) for height in heights], engine
    )


@pytest.fixture
def memory(monkeypatch):
    """As much as a choice needs, whoever else runs."""
    monkeypatch.setattr(machine, "available_memory", lambda: 64 * 2**30)


@pytest.mark.parametrize("workers", [1, 8, 100])
def test_auto_reckons_with_the_workers_that_share_a_pass(workers, memory):
    """Reading the rows takes a share of the time and a round; work on the Gram matrix takes as long as alone."""
    n, p = 100_000_000, 12_000
    problem = ls.SVD(of_shape(n, p, Pretended(workers)), 10)
    choice = ls.select(problem)
    assert f"shared by {workers} worker" in choice.reason
    assert "50 ms for a round" in choice.reason
    here = ls.get_solver("svd/gram").estimate(ls.SVD(of_shape(n, p, InProcess()), 10).sizes())
    there = ls.get_solver("svd/gram").estimate(problem.sizes())
    of_rows = n * p**2 / DENSE_RATE  # multiplications and additions of half a symmetric matrix
    assert here.seconds - there.seconds == pytest.approx(of_rows * (1 - 1 / workers) - 0.05, rel=1e-6)


@pytest.mark.parametrize(
    ("workers", "seconds", "name"),
    [
        (1, 0.0, "block-krylov"),  # 100 s for the Gram matrix, and 59 s for seven passes
        (1, 0.2, "block-krylov"),
        (8, 0.2, "block-krylov"),  # 13 s, and 7.4 s beside 1.4 s for rounds
        (100, 0.0, "block-krylov"),  # 1 s and .4 s here for the factors, and .6 s
        (100, 0.2, "gram"),  # .2 s beside these, and 1.4 s
    ],
)
def test_the_gram_matrix_or_passes_follow_from_workers_and_rounds(workers, seconds, name, memory):
    data = of_shape(2_000_000, 1000, Pretended(workers, seconds))
    assert ls.select(ls.SVD(data, 10)).name == name


def test_rounds_decide_whether_moments_are_held(memory):
    found = [
        Moments(of_shape(2_000_000, 5200, Pretended(100, seconds)), expect=(60, 20)).form
        for seconds in (0.0, 0.2)
    ]
    assert found == ["implicit", "dense"]


def test_blocks_in_this_process_are_reckoned_with_as_rows_in_memory():
    n, p = 100_000, 300
    here, there = (
        ls.SVD(A, 10).sizes() for A in (np.broadcast_to(np.zeros(1), (n, p)), of_shape(n, p, InProcess()))
    )
    assert (here.workers, here.round_seconds) == (there.workers, there.round_seconds) == (1, 0.0)
    assert "shared" not in ls.select(ls.SVD(of_shape(n, p, InProcess()), 10)).reason


def test_no_more_workers_share_a_pass_than_there_are_blocks():
    assert ls.SVD(of_shape(1000, 10, Pretended(100), cuts=3), 2).sizes().workers == 3


def _twice(number, block):
    return 2 * block


def test_rows_made_of_blocks_stay_where_the_blocks_are():
    A = posted(X).map_rows(_twice)
    assert isinstance(A.engine, Posted)
    np.testing.assert_allclose(A.matmat(np.eye(P)), 2 * X)


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
        for value in found:
            for one in value if isinstance(value, tuple | list) else [value]:
                self.largest = max(self.largest, getattr(one, "size", 1))
        return found


def _made_of_rows(given: Any, with_confounds: bool) -> dict[str, tuple[Any, Any]]:
    """Return results of solutions on rows in blocks, and on the same rows in memory."""
    Z = RNG.standard_normal((N, 2)) if with_confounds else None
    named = {"confounds": Z}
    svd = answers(ls.SVD(X, 3, center=True, scale=True, **named), "gram")
    regression = answers(ls.LeastSquares(X, Y, ridge=1.0, center=True, **named), "direct")
    pairs = answers(ls.CCA(X, Y, 2, ridge=1.0, **named), "gram")
    directions = answers(ls.Discriminant(X, Y, 2, ridge=1.0, **named), "direct")
    scores = svd.transform(X, **named)
    return {
        "scores": (svd.transform(given(X), **named), scores),
        "rows restored": (
            svd.inverse_transform(given(scores), **named),
            svd.inverse_transform(scores, **named),
        ),
        "predictions": (regression.predict(given(X), **named), regression.predict(X, **named)),
        "variates": (pairs.transform(given(X), **named), pairs.transform(X, **named)),
        "other view": (pairs.predict(Y=given(Y), **named), pairs.predict(Y=Y, **named)),
        "directions": (directions.transform(given(X), **named), directions.transform(X, **named)),
    }


@pytest.mark.parametrize("with_confounds", [False, True])
def test_what_is_made_of_rows_in_blocks_stays_where_they_are(with_confounds):
    engine = Fetched()
    for what, (found, exact) in _made_of_rows(lambda A: blocks(A, engine=engine), with_confounds).items():
        assert isinstance(found, BlockOperator), what
        assert found.layout == (250, 1, 349, 300)
        assert engine.largest < 100, what  # of 900 rows none has come here
        np.testing.assert_allclose(brought_here(found), exact, atol=1e-12 * np.abs(exact).max(), err_msg=what)
        engine.largest = 0


@pytest.mark.parametrize("name", ["cca/als", "cca/l-cca", "cca/g-cca", "svd/spca", "least-squares/lsqr"])
def test_methods_whose_blocks_have_a_row_for_each_row_bring_none_here(name):
    """One number of a row would be 900; what comes are sums of p rows and their triangles."""
    state, _ = STATED[name.partition("/")[0]]
    engine = Fetched()
    answers(state(blocks(X, engine=engine), blocks(Y, engine=engine)), name)
    assert engine.largest <= (P + Q + 1) ** 2 < N


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("ridge", [0.0, 1.0])
def test_the_reduction_of_two_stage_stays_where_the_rows_are(ridge, center):
    """Columns of very different lengths make `two-stage` reduce the rows; at most p x (p + 1) numbers come here."""
    engine = Fetched()
    rows, H = X * np.geomspace(1, 1e-3, P), ls.targets.lda((X[:, 0] > 5) + 2 * (X[:, 1] > 5))
    found, exact = (
        answers(ls.Discriminant(A, H, 2, ridge=ridge, center=center), "two-stage")
        for A in (blocks(rows, range(0, N + 1, 50), engine), rows)
    )
    assert engine.largest <= (P + 1) * (P + 1)
    assert found.residual_kind == exact.residual_kind == "exact"  # the rows were reduced in both
    np.testing.assert_allclose(found.eigenvalues, exact.eigenvalues, rtol=1e-9)


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
    """And its long vectors stay there, also where columns converge one after the other."""
    rows = kind(np.where(RNG.random((N, P)) < 0.4, X, 0.0) * np.geomspace(1, 0.1, P))
    engine = Fetched()
    found = answers(ls.LeastSquares(blocks(rows, engine=engine), Y, **given), "lsqr", tol=1e-11)
    exact = answers(ls.LeastSquares(rows, Y, **given), "lsqr", tol=1e-11)
    assert abs(found.passes - exact.passes) <= 1
    assert engine.largest < N
    np.testing.assert_allclose(found.x, exact.x, rtol=0, atol=1e-8 * np.abs(exact.x).max())


@pytest.mark.parametrize(
    "given", [{}, {"sample_weight": RNG.integers(0, 3, N).astype(float)}], ids=["plain", "weighted"]
)
@pytest.mark.parametrize("kind", [np.array, scipy.sparse.csr_array])
@pytest.mark.slow(keep=1)
def test_minibatches_of_blocks(kind, given):
    """Rows come here a few at a time; what is drawn is what the certificate, which sweeps, finds good."""
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


@pytest.mark.parametrize("kind", [np.array, scipy.sparse.csr_array])
def test_rows_of_blocks_come_in_the_order_asked_for(kind):
    numbers = RNG.integers(0, N, 200)
    turned = (
        np.array([899, 0]),
        np.array([0, 700, 300, 899]),
        np.arange(N)[::-1],
    )  # exchanges that undo themselves
    for chosen in (
        numbers,
        np.sort(numbers),
        *turned,
        np.array([250]),
        np.array([], dtype=int),
        slice(240, 610),
    ):
        found = posted(kind(X)).rows(chosen)
        np.testing.assert_array_equal(found.dense(), X[chosen])


def test_the_order_of_runs_has_every_row_once():
    A = blocks(RNG.standard_normal((N, 5000)).astype(np.float32))
    drawn = RandomRows([A], np.random.default_rng(0))
    for _ in range(2):
        rows = []
        while len(rows) < N:
            rows += drawn.draw(77).tolist()
        assert sorted(rows) == list(range(N))
        assert rows != sorted(rows)


LEFT = {
    "plain": {},
    "centred": {"center": True},
    "weighted": {"center": True, "sample_weight": RNG.random(N)},
}


@pytest.mark.parametrize("given", LEFT.values(), ids=LEFT)
@pytest.mark.parametrize("kind", [np.array, scipy.sparse.csr_array])
@pytest.mark.parametrize("solver", ["gram", "direct", "block-krylov", "lanczos", "spca", "lazy-spca"])
@pytest.mark.slow(keep=9)
def test_left_vectors_stay_where_the_rows_are(solver, kind, given, tmp_path):
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


def test_scores_and_classes_of_rows_in_blocks():
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


@pytest.mark.parametrize("exponent", [-300, 300])
def test_the_size_of_entries_is_known_where_the_blocks_are(exponent):
    with pytest.raises(DataOutOfRange, match="Multiply A by"):
        answers(ls.SVD(posted(X * 2.0**exponent), 3), "gram")
    exponent = exponent * 2 // 3 - exponent // abs(exponent) * 10
    found = answers(ls.SVD(posted(X * 2.0**exponent), 3), "gram")
    np.testing.assert_allclose(found.S * 2.0**-exponent, np.linalg.svd(X)[1][:3], rtol=1e-10)


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


def test_a_sparse_gram_matrix_that_would_fill_is_not_chosen():
    """Random columns meet in some row, nearly all; those of a band meet their neighbours alone."""
    n, p, m = 150_000, 3000, 8
    rng, rows = np.random.default_rng(0), np.repeat(np.arange(n), m)
    anywhere, near = rng.integers(0, p, m * n), rows * (p - 12) // n + rng.integers(0, 12, m * n)
    scattered, banded = (
        scipy.sparse.csr_array((np.ones(m * n), (rows, columns)), shape=(n, p))
        for columns in (anywhere, near)
    )
    for A, full in ((scattered, True), (banded, False)):
        pairs, filled = blocks(A, [0, 70_000, n]).gram_pairs()
        exact = (A.T @ A).nnz
        assert 0.7 * exact < filled < 1.4 * exact
        assert pairs >= exact
        chosen = Moments(blocks(A, [0, 70_000, n]), expect=(60, 20)).form
        assert chosen != "sparse" if full else chosen == "sparse"


def test_methods_that_read_rows_here_say_that_blocks_stay():
    with pytest.raises(MissingCapability, match="nystrom-pcg"):
        ls.solve(ls.LeastSquares(blocks(X), blocks(Y)), "sketch-precondition")
    with pytest.raises(MissingCapability, match="lies in blocks that are not brought"):
        list(blocks(X).blocks())
    with pytest.raises(LinspecError, match="float32"):
        ls.solve(ls.CCA(blocks(X), blocks(Y), 2), "lobpcg", form="implicit", sweeps="float32")
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


# ---- tasks ----------------------------------------------------------------------------------------

V, W = RNG.standard_normal((P, 3)), RNG.standard_normal((Q, 2))
MODEL = row_model(center=True, weights=RNG.random(N), confounds=RNG.standard_normal((N, 2)))
ADJUSTMENT = Adjustment(MODEL)
ADJUSTMENT.learn(HOST, float(N), mean=X.mean(axis=0))
DENSE, SPARSE = [as_operator(A) for A in (X, Y)], [as_operator(scipy.sparse.csr_array(A)) for A in (X, Y)]


CELL_ROWS = CellRows(N, (np.arange(0, N, 2), np.arange(400, N)), RNG.random(N), RNG.standard_normal((N, 2)))

ASKED = Request([V, W], [None, None], HOST)
SIGNS = SparseSigns(N, 64, 8, 0)

EXAMPLES: list[tuple[Task[Any], list[Any]]] = [
    (FusedProducts(ASKED, HOST, [None, None], center=True, model=MODEL, statistics=(0,), image=2), DENSE),
    (GramMatrices(HOST, [None, None], center=True, model=MODEL), DENSE),
    (SparseGramMatrices(MODEL), SPARSE),
    (Triangle(HOST, center=True, model=MODEL), DENSE),
    (HeldRows(HOST, center=True, model=MODEL, rank=1), DENSE),
    (ImageTriangle(V, None, True, MODEL), DENSE[:1]),
    (Statistics(HOST, MODEL), DENSE),
    (CellSums(HOST, [None, None], False, CELL_ROWS), DENSE),
    (Images(V), DENSE[:1]),
    (AdjointImages(), DENSE),
    (ImageGram(V, Adjustment(PLAIN, shift=X[0])), DENSE[:1]),
    (AdjustedRows(Statistics(HOST), [ADJUSTMENT, Adjustment(PLAIN)]), DENSE),
    (FirstNonFinite(), DENSE),
    (CountedColumns(), SPARSE),
    (Pattern(np.array([0, 3])), SPARSE),
    (RowSketch(SIGNS, HOST, cross=True), DENSE),
    (GradientOfSquares(np.ones((P, Q))), DENSE),
    (Witnesses((0, 1)), DENSE),
    (Together(Statistics(HOST, MODEL), Witnesses()), DENSE),
    (Sizes(MODEL), DENSE),
    (Measured(Statistics(HOST, MODEL), ("X", "Y"), (True, False), (False, True), MODEL), DENSE),
    (StepOverRows(Residuals(np.ones((P, Q)), Q, np.dtype(np.float64))), DENSE),
    (PresentProducts((np.ones((P, Q)), np.ones((Q, Q))), 1.0 + np.arange(N) % 2, HOST), DENSE),
    (PresentMatrices(1.0 + np.arange(N) % 2, HOST), DENSE),
]
"""A task of every class, and rows for it."""


def every_task() -> set[type]:
    """All classes of tasks of the library and its plugins that can be made."""
    packages = ["linspec", *(spec.name for spec in pkgutil.iter_modules([str(PLUGINS)]))]
    for package in packages:
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if "ernel" not in module.name and "Task[" in source(module):
                importlib.import_module(module.name)
    left, classes = [Task], set()
    while left:
        kind = left.pop()
        left += kind.__subclasses__()
        ours = kind.__module__.partition(".")[0].startswith("linspec")
        classes |= {kind} if ours and not inspect.isabstract(kind) else set()
    return classes


def source(module: Any) -> str:
    return Path(module.module_finder.find_spec(module.name).origin).read_text(encoding="utf-8")


def test_every_task_has_an_example_here():
    assert {type(task).__name__ for task, _ in EXAMPLES} == {kind.__name__ for kind in every_task()}


@pytest.mark.parametrize(("task", "rows"), EXAMPLES, ids=lambda given: type(given).__name__)
def test_a_task_that_was_sent_elsewhere_gives_the_same(task, rows):
    """And its parts come back whole: what is merged after the journey has the same bits."""
    sent = pickle.loads(pickle.dumps(task))
    halves = [[A.rows(slice(a, b)) for A in rows] for a, b in ((0, 500), (500, N))]
    found = []
    for used, way in ((task, lambda part: part), (sent, lambda part: pickle.loads(pickle.dumps(part)))):
        parts = [way(used.part(half, start)) for half, start in zip(halves, (0, 500), strict=True)]
        found.append(list(task.looked_at(used.merge(*parts))))
    assert len(found[0]) == len(found[1])
    for a, b in zip(*found, strict=True):
        assert np.array_equal(a, b)


def test_an_engine_needs_three_methods():
    """The methods that the page on scale names, `hold`, `map` and `fetch`, are all of them."""
    assert Engine.__abstractmethods__ == {"hold", "map", "fetch"}
    engine = Posted()
    (one, two) = engine.hold([np.ones(3), np.full(3, 2.0)])
    (total,) = engine.fetch(engine.map(_added, [Call(5, (one, two))]))
    assert total.tolist() == [8.0, 8.0, 8.0]


def _added(number, *values):
    return number + sum(values)


def test_rows_of_several_matrices_are_reduced_together():
    found = map_reduce(AdjointImages(), [posted(X), as_operator(Y)], Q)
    np.testing.assert_allclose(found, X.T @ Y, rtol=1e-12, atol=1e-9)
