"""Tasks: pure functions of blocks of rows whose parts are merged in any partition, and who runs them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from backends import check_operator
from hypothesis import given
from hypothesis import strategies as st

import linspec as ls
from linspec import Moments, as_operator
from linspec.arrays import HOST
from linspec.errors import InvalidProblem
from linspec.moments.ways import settle
from linspec.operators import AdjustedOperator, DenseOperator, RowOperator
from linspec.operators.row_model import row_model
from linspec.sweeps import in_memory
from linspec.sweeps.finite import FirstNonFinite
from linspec.sweeps.gram_matrices import GramMatrices, SparseGramMatrices
from linspec.sweeps.images import Images
from linspec.sweeps.products import FusedProducts, Request
from linspec.sweeps.slices import common_blocks
from linspec.sweeps.statistics import Statistics
from linspec.sweeps.task import Task, Tree
from linspec.sweeps.views import View

RNG = np.random.default_rng(0)
N, P, Q, K = 60, 7, 5, 3
X = RNG.standard_normal((N, P)) + 10 * RNG.standard_normal(P)
Y = RNG.standard_normal((N, Q)) - 3
X[:, 2] = 0.1  # a constant that no number of two's powers holds
VX, VY = RNG.standard_normal((P, K)), RNG.standard_normal((Q, 2))
XC, YC = X - X.mean(axis=0), Y - Y.mean(axis=0)


def dense(A):
    return as_operator(A)


def sparse(A):
    return as_operator(scipy.sparse.csr_array(A))


ASKED = Request([VX, VY], [None, None], HOST)
W = np.hstack([X @ VX, Y @ VY])
WC = np.hstack([XC @ VX, YC @ VY])

TASKS: dict[str, tuple[Task[Any], Any, Any]] = {
    "products": (FusedProducts(ASKED, HOST, [None, None]), lambda s: s.products, [X.T @ W, Y.T @ W]),
    "centred": (
        FusedProducts(ASKED, HOST, [None, None], center=True, statistics=(0, 1)),
        lambda s: [*s.products, *s.means, *(s.statistics[i].spread for i in (0, 1))],
        [XC.T @ WC, YC.T @ WC, X.mean(0), Y.mean(0), (XC**2).sum(0), (YC**2).sum(0)],
    ),
    "about": (
        FusedProducts(ASKED, HOST, [X[3], Y[4]], means=True),
        lambda s: [*s.products, *s.means],
        [
            (X - X[3]).T @ np.hstack([(X - X[3]) @ VX, (Y - Y[4]) @ VY]),
            (Y - Y[4]).T @ np.hstack([(X - X[3]) @ VX, (Y - Y[4]) @ VY]),
            X.mean(0),
            Y.mean(0),
        ],
    ),
    "gram": (
        GramMatrices(HOST, [None, None], center=True),
        lambda g: [*g.gram.upper[0], *g.gram.upper[1], *g.means],
        [XC.T @ XC, XC.T @ YC, YC.T @ YC, X.mean(0), Y.mean(0)],
    ),
    "raw-gram": (
        GramMatrices(HOST, [None, None], means=True),
        lambda g: [*g.gram.upper[0], *g.gram.upper[1], *g.means],
        [X.T @ X, X.T @ Y, Y.T @ Y, X.mean(0), Y.mean(0)],
    ),
    "statistics": (
        Statistics(HOST),
        lambda found: [found[0].mean, found[1].mean, found[0].spread, np.array(found[0].count)],
        [X.mean(0), Y.mean(0), (XC**2).sum(0), np.array(N)],
    ),
}


def folded(task, operators, edges):
    """One block after the other, in the memory of the first."""
    part = None
    for a, b in pairwise(edges):
        part = task.part([A.rows(slice(a, b)) for A in operators], a, part)
    return part


def treed(task, operators, edges, order):
    """Each block by itself, done in some order and merged by the tree."""
    tree = Tree(task, len(edges) - 1)
    for number in order:
        a, b = edges[number], edges[number + 1]
        tree.add(number, task.part([A.rows(slice(a, b)) for A in operators], a))
    return tree.root()


@pytest.mark.parametrize("kind", [dense, sparse])
@pytest.mark.parametrize("name", list(TASKS))
@given(cuts=st.sets(st.integers(1, N - 1), max_size=9), seed=st.integers(0, 9))
@pytest.mark.slow(keep=5)
def test_any_partition_and_any_order_give_what_all_rows_give(name, kind, cuts, seed):
    task, read, exact = TASKS[name]
    edges = [0, *sorted(cuts), N]
    operators = [kind(X), kind(Y)]
    order = np.random.default_rng(seed).permutation(len(edges) - 1)
    made = treed(task, operators, edges, order)
    for found in (folded(task, operators, edges), made):
        for a, b in zip(read(found), exact, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * max(np.abs(b).max(), 1))
    again = treed(task, operators, edges, range(len(edges) - 1))
    assert all(np.array_equal(a, b) for a, b in zip(read(made), read(again), strict=True)), "the same bits"


def test_a_constant_column_is_constant_however_its_rows_are_cut():
    task = TASKS["gram"][0]
    gram = treed(task, [dense(X), dense(Y)], [0, 7, 30, 31, N], range(4)).gram
    assert not gram.upper[0][0][2].any()
    assert not gram.upper[0][1][2].any()


SIZES_OF_MEANS = {
    "none": 0,
    "a spread": 1,
    "a million": 1e6,
    "in later rows": np.repeat([0, 1e6], [9000, 1000])[:, None],
}


@pytest.mark.parametrize("size", list(SIZES_OF_MEANS))
@pytest.mark.parametrize("order", ["C", "F"])
def test_gram_matrices_about_means_of_any_size_are_those_of_long_doubles(size, order):
    rng = np.random.default_rng(3)
    A, B = (rng.uniform(-2, 2, (10_000, p)) + SIZES_OF_MEANS[size] for p in (5, 3))
    A[:, 2], B[:, 1] = 0, 7.1
    before = A.copy(), B.copy()
    task = GramMatrices(HOST, [None, None], center=True)
    part = task.part([dense(np.asarray(A, order=order)), dense(np.asarray(B, order=order))])
    exact = [Z.astype(np.longdouble) - Z.astype(np.longdouble).mean(axis=0) for Z in (A, B)]
    exact[1][:, 1] = 0
    for i, row in enumerate(part.gram.upper):
        for j, S in enumerate(row, i):
            lengths = np.linalg.norm(exact[i], axis=0)[:, None] * np.linalg.norm(exact[j], axis=0)
            error = np.abs(S - exact[i].T @ exact[j])
            assert (error <= 1e-13 * lengths).all()
    assert not part.gram.upper[0][0][2].any()
    assert not part.gram.upper[1][0][1].any()
    np.testing.assert_array_equal(A, before[0])
    np.testing.assert_array_equal(B, before[1])


def test_sparse_gram_matrices_images_and_the_first_entry_that_is_not_finite():
    operators, edges = [sparse(X), sparse(Y)], [0, 11, 40, N]
    (Sx, C), (Sy,) = treed(SparseGramMatrices(), operators, edges, [2, 0, 1])
    for S, exact in ((Sx, X.T @ X), (C, X.T @ Y), (Sy, Y.T @ Y)):
        np.testing.assert_allclose(S.toarray(), exact, rtol=1e-13)
    pieces = treed(Images(VX), [dense(X - X.mean(0))], edges, [1, 2, 0])
    np.testing.assert_allclose(np.vstack(pieces), XC @ VX, atol=1e-13)
    broken, other = X.copy(), Y.copy()
    broken[45, 3] = broken[50, 1] = np.inf
    other[12, 4] = np.nan
    found = treed(FirstNonFinite(), [dense(broken), sparse(other)], edges, [2, 1, 0])
    assert found[0] == (45, 3, np.inf)
    assert found[1][:2] == (12, 4)


def slices(A, length):
    return lambda: (A[i : i + length] for i in range(0, A.shape[0], length))


def streamed(name, A, length):
    return View(name, as_operator(slices(A, length), name), center=False)


@pytest.mark.parametrize("shorter", [0, 1])
def test_views_of_unequal_length_are_refused(shorter):
    data = [(X, Y[:50]), (X[:50], Y)][shorter]
    views = [streamed(name, A, 16) for name, A in zip("XY", data, strict=True)]
    with pytest.raises(InvalidProblem, match=f"{'YX'[shorter]} ended after 50, and {'XY'[shorter]} goes on"):
        list(common_blocks(views))


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("form", ["implicit", "dense"])
@pytest.mark.parametrize("kind", ["two", "first", "second", "sparse"])
def test_streamed_views_are_swept_together_in_one_pass(kind, form, center):
    data = {
        "two": (slices(X, 16), slices(Y, 9)),
        "first": (slices(X, 16), Y),
        "second": (X, slices(Y, 9)),
        "sparse": (slices(scipy.sparse.csr_array(X), 16), slices(scipy.sparse.csr_array(Y), 9)),
    }[kind]
    m = Moments(*data, center=center, form=form)
    assert m.cost.setup + m.cost.sweep == 1
    x, y = (XC, YC) if center else (X, Y)
    found = m.products(VX, VY)
    for a, b in zip(found, (x.T @ x @ VX, x.T @ y @ VY, y.T @ x @ VX, y.T @ y @ VY), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * np.abs(b).max())
    for d, view in zip(m.diagonal(), (x, y), strict=True):
        np.testing.assert_allclose(d, (view**2).sum(0), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(m.columns.means()[0], X.mean(0), rtol=1e-13)
    assert m.passes == 1


def test_what_centring_takes_out_of_products_of_sparse_slices_is_told():
    rows = scipy.sparse.random(2000, 300, 0.01, random_state=0, format="csr")
    m = Moments(slices(rows, 500), center=True, form="dense")
    assert m.columns.centring_error() == 0, "no sweep has been made"
    m.products(np.eye(300, 2))
    assert 0 < m.columns.centring_error() < 1e-13


class RowBlocks(RowOperator):
    """Rows in a list of arrays: all that a plugin's data have to say of themselves."""

    def __init__(self, blocks):
        self.held, self.edges = blocks, np.cumsum([0, *map(len, blocks)])
        self.shape, self.dtype = (int(self.edges[-1]), blocks[0].shape[1]), blocks[0].dtype

    def _rows(self, selection):
        numbers = np.arange(self.shape[0])[selection]
        at = np.searchsorted(self.edges, numbers, side="right") - 1
        pairs = zip(at, numbers - self.edges[at], strict=True)
        return DenseOperator(np.array([self.held[i][j] for i, j in pairs]).reshape(-1, self.shape[1]))


def in_blocks(A, length=250):
    return RowBlocks([A[i : i + length] for i in range(0, len(A), length)])


TALL = RNG.standard_normal((9000, 12)) @ np.diag(np.geomspace(1, 0.01, 12)) + 1
OTHER = TALL[:, :5] + RNG.standard_normal((9000, 5))


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize(
    ("build", "solver", "names"),
    [
        (lambda A, B, center: ls.SVD(A, 3, center=center), "gram", ("S", "Vh")),
        (lambda A, B, center: ls.SVD(A, 3, center=center), "block-krylov", ("S", "Vh")),
        (lambda A, B, center: ls.CCA(A, B, 2, ridge=1.0, center=center), "gram", ("x_weights",)),
        (lambda A, B, center: ls.CCA(A, B, 2, ridge=1.0, center=center), "lobpcg", ("x_weights",)),
        (lambda A, B, center: ls.CCA(A, B, 2, ridge=1.0, center=center), "two-stage", ("x_weights",)),
        (lambda A, B, center: ls.LeastSquares(A, B), "cg", ("x",)),
    ],
)
def test_data_of_a_plugin_are_swept_as_arrays_are(build, solver, names, center):
    """A type of ten lines: the bits of the array, in as many passes."""
    of_array = ls.solve(build(TALL, OTHER, center), solver, rng=0)
    of_blocks = ls.solve(build(in_blocks(TALL), in_blocks(OTHER), center), solver, rng=0)
    assert of_blocks.passes == of_array.passes
    assert of_blocks.status is of_array.status
    for name in names:
        assert np.array_equal(getattr(of_array, name), getattr(of_blocks, name))


def test_means_a_billion_times_the_spread_are_taken_out_of_entries():
    given = TALL * 1e-3 + 1e6
    of_array = ls.solve(ls.CCA(given, OTHER, 2), "lobpcg", rng=0)
    of_blocks = ls.solve(ls.CCA(in_blocks(given), in_blocks(OTHER), 2), "lobpcg", rng=0)
    assert of_blocks.status is of_array.status is ls.Status.CONVERGED
    assert np.array_equal(of_blocks.correlations, of_array.correlations)


def test_data_of_a_plugin_keep_what_operators_promise():
    assert not check_operator(in_blocks(X, 13), entries=X)


# ---- tasks over the rows as they are multiplied -------------------------------------------------


class Rows(Task[list[Any]]):
    """All rows of all views side by side, with the numbers of the first of each block."""

    def part(self, rows, first_row=0, into=None):
        block = np.hstack([A.dense() for A in rows])
        return [*(into or []), (first_row, block)]

    def merge(self, left, right):
        return left + right

    def looked_at(self, part):
        return [block for _, block in part]


def adjusted(A, model, *, scale=False):
    return AdjustedOperator(as_operator(A), model, settle, scale=scale)


def left_by(A, weights, confounds, center):
    """By a QR factorisation: D A less its projection onto D [1 Z]."""
    roots = np.sqrt(weights)[:, None]
    Basis = np.linalg.qr(roots * np.hstack([np.ones((len(A), int(center))), confounds]))[0]
    return roots * A - Basis @ (Basis.T @ (roots * A))


def test_a_task_has_the_same_blocks_on_any_number_of_threads(monkeypatch):
    found = []
    monkeypatch.setattr(in_memory, "usual_blas_threads", lambda: 8)
    tall = np.tile(TALL, (8, 1))
    for threads in (1, 2, 8):
        monkeypatch.setattr(in_memory.machine, "cpu_count", lambda threads=threads: threads)
        found.append(Moments(tall, center=True).over_rows(Rows()))
    assert len(found[0]) >= 2 * in_memory.FEWEST_BLOCKS, "several runs"
    for other in found[1:]:
        pairs = zip(found[0], other, strict=True)
        assert all(a == b and np.array_equal(one, many) for (a, one), (b, many) in pairs)


def test_slices_with_a_model_of_their_own_are_swept_beside_rows_without_one():
    """Products and exact column norms take one sweep more than the one that learns the adjustment."""
    rng = np.random.default_rng(6)
    w, Z = rng.uniform(0, 2, N), rng.standard_normal((N, 2))
    A = adjusted(slices(X, 16), row_model(center=True, weights=w, confounds=Z))
    m, D = Moments(A, Y, form="implicit"), left_by(X, w, Z, center=True)
    found = m.products(VX, VY)
    for a, b in zip(found, (D.T @ D @ VX, D.T @ Y @ VY, Y.T @ D @ VX, Y.T @ Y @ VY), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-11 * np.abs(b).max())
    np.testing.assert_allclose(m.diagonal()[0], (D**2).sum(0), rtol=1e-10, atol=1e-10)
    assert m.passes == 1
