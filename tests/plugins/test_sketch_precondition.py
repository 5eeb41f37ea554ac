"""Sketch, precondition, iterate, refine: against numpy.linalg.lstsq, exact answers and the theory of sketches."""

from __future__ import annotations

import pickle
import warnings
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from backends import CountingOperator
from hypothesis import given, settings
from hypothesis import strategies as st

import linspec as ls
from linspec.arrays import HOST, Home, to_host
from linspec.moments.ways import settle
from linspec.operators import AdjustedOperator
from linspec.operators.row_model import row_model
from linspec.sweeps import RowSketch, SparseSigns, in_memory
from linspec.sweeps.task import Tree
from linspec_lstsq.golub_kahan import Stacked

NAME = "sketch-precondition"
EPS = np.finfo(float).eps


def orthonormal(n, k, rng):
    return np.linalg.qr(rng.standard_normal((n, k)))[0]


def with_singular_values(n, p, s, rng):
    return orthonormal(n, len(s), rng) * s @ orthonormal(p, len(s), rng).T


def ridge_answer(A, B, ridge):
    """Through the SVD of A; at ridge 0 the solution of least norm."""
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    keep = s > 1e-10 * s[0]
    weight = s[keep] / (s[keep] ** 2 + ridge)
    return Vt[keep].T @ (weight[:, None] * (U[:, keep].T @ B))


def sketch_of(A, size, nonzeros, seed, like=None):
    A = A if like is None else like.asarray(A)
    moments = ls.Moments(A, A[:, :1], form="implicit")
    signs = SparseSigns(A.shape[0], size, nonzeros, seed)
    found = moments.over_rows(RowSketch(signs, moments.home, cross=True), size)
    return *map(to_host, found.sketches), found.cross


# ---- the sketch -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dense", "spiky"])
def test_the_sketch_is_a_subspace_embedding(kind):
    """The singular values of S Q lie within 1 ± √(p/d) or a little more, as those of a Gaussian S would.

    Spiky: all the weight of some columns is in single rows, where a plain count sketch is at its worst.
    """
    rng = np.random.default_rng(0)
    n, p = 9000, 40
    Q = orthonormal(n, p, rng)
    if kind == "spiky":
        Q = np.zeros((n, p))
        Q[rng.choice(n, p, replace=False), np.arange(p)] = 1.0
    for size in (4 * p, 16 * p):
        SQ, _, _ = sketch_of(Q, size, 8, seed=1)
        s = np.linalg.svd(SQ, compute_uv=False)
        distortion = 1.2 * np.sqrt(p / size)
        assert s[0] < 1 + distortion
        assert s[-1] > 1 - distortion


@pytest.mark.parametrize("nonzeros", [1, 4])
def test_every_row_is_added_with_signs_to_as_many_rows_of_the_sketch(nonzeros):
    """A = I shows S itself: `nonzeros` signs a column but where two cancel, and rows that get equally many."""
    n, size = 600, 50
    S, _, _ = sketch_of(np.eye(n), size, nonzeros, seed=2)
    hits = np.round(np.abs(S) * np.sqrt(nonzeros)).astype(int)
    np.testing.assert_allclose(np.abs(S) * np.sqrt(nonzeros), hits, atol=1e-12)
    a_column, a_row = hits.sum(axis=0), hits.sum(axis=1)
    assert (a_column <= nonzeros).all()
    assert (a_row <= n * nonzeros // size).all()
    assert (a_column == nonzeros).mean() > 1 - nonzeros**2 / size / 2
    assert a_row.mean() > 0.9 * n * nonzeros / size
    if nonzeros == 1:
        assert (a_row == n // size).all()
    assert 0.3 < (S[S != 0] > 0).mean() < 0.7


def test_the_sketch_is_the_same_wherever_the_data_are():
    strict = pytest.importorskip("array_api_strict")
    rng = np.random.default_rng(3)
    A = rng.standard_normal((5000, 7))
    here, there = sketch_of(A, 40, 8, seed=4), sketch_of(A, 40, 8, seed=4, like=strict)
    np.testing.assert_allclose(here[0], there[0], atol=1e-12)
    np.testing.assert_allclose(here[1], A_column := here[0][:, :1], atol=1e-12)
    np.testing.assert_allclose(there[1], A_column, atol=1e-12)
    np.testing.assert_allclose(to_host(there[2]), A.T @ A[:, :1], atol=1e-9)


def entries_of(signs):
    """S, from the definition: ±1/√ζ where the place of a row is, modulo the rows of S."""
    S = np.zeros((signs.size, signs.n))
    for number, inside, among in signs.pieces(0, signs.n):
        places, factors = (array[:, inside] for array in signs.group(number))
        for place, factor in zip(places, factors, strict=True):
            np.add.at(S, (place % signs.size, np.arange(among.start, among.stop)), factor)
    return S


def test_rows_that_do_not_fill_a_group_are_gathered_once():
    """Where the array API alone is used, places without a row must add nothing."""
    signs, other = SparseSigns(100, 64, 3, 5), Home(HOST.xp, "elsewhere")
    block = np.random.default_rng(6).standard_normal((100, 5))
    exact = entries_of(signs) @ block
    for cuts in ([0, 100], [0, 37, 64, 100]):
        pieces = [
            signs.times(*(array[:, a:b] for array in signs.group(0)), block[a:b], other)
            for a, b in pairwise(cuts)
        ]
        np.testing.assert_allclose(sum(pieces), exact, atol=1e-12)


def sketched(signs, data, edges, order):
    """Block by block, merged in the tree of any order."""
    tree = Tree(task := RowSketch(signs, HOST, cross=True), len(edges) - 1)
    for number in order:
        rows = slice(edges[number], edges[number + 1])
        tree.add(number, task.part([A.rows(rows) for A in data], rows.start))
    return tree.root()


@given(cuts=st.sets(st.integers(1, 8999), max_size=6), seed=st.integers(0, 9))
@settings(max_examples=15, deadline=None)
def test_blocks_in_any_partition_and_order_give_the_same_sketch(cuts, seed):
    rng = np.random.default_rng(20)
    A, B, signs = rng.standard_normal((9000, 4)), rng.standard_normal((9000, 2)), SparseSigns(9000, 30, 3, 7)
    S, data, edges = entries_of(signs), [ls.as_operator(A), ls.as_operator(B)], [0, *sorted(cuts), 9000]
    order = np.random.default_rng(seed).permutation(len(edges) - 1)
    found, again = sketched(signs, data, edges, order), sketched(signs, data, edges, range(len(edges) - 1))
    for a, b, exact in zip(
        (*found.sketches, found.cross), (*again.sketches, again.cross), (S @ A, S @ B, A.T @ B), strict=True
    ):
        assert np.array_equal(a, b)
        np.testing.assert_allclose(a, exact, atol=1e-10)


def test_a_merge_writes_into_neither_sketch_and_both_can_be_pickled():
    rng = np.random.default_rng(21)
    data = [ls.as_operator(rng.standard_normal((500, k))) for k in (4, 2)]
    task = RowSketch(SparseSigns(500, 20, 3, 1), HOST, cross=True)
    parts = [task.part([A.rows(slice(a, b)) for A in data], a) for a, b in ((0, 200), (200, 500))]
    before = [sketch.copy() for part in parts for sketch in part.sketches]
    merged = task.merge(*parts)
    after = [sketch for part in parts for sketch in part.sketches]
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    task, parts = pickle.loads(pickle.dumps((task, parts)))
    assert all(
        np.array_equal(a, b) for a, b in zip(merged.sketches, task.merge(*parts).sketches, strict=True)
    )


@pytest.mark.parametrize("center", [False, True])
def test_the_sketch_has_the_same_bits_on_any_number_of_threads_and_is_of_adjusted_rows(center, monkeypatch):
    """Weighted rows, less means and confounds: S times the matrix that LAPACK makes of them."""
    rng = np.random.default_rng(22)
    n = 60_000
    A, B = rng.standard_normal((n, 40)) + 3, rng.standard_normal((n, 2)) - 1
    w, Z = rng.uniform(0, 2, n), rng.standard_normal((n, 2))
    signs = SparseSigns(n, 200, 4, 11)
    model = row_model(center=center, weights=w, confounds=Z)
    S = entries_of(signs)
    D = np.sqrt(w)[:, None] * np.hstack([np.ones((n, int(center))), Z])
    Q = np.linalg.qr(D)[0]
    left = [M - Q @ (Q.T @ M) for M in (np.sqrt(w)[:, None] * A, np.sqrt(w)[:, None] * B)]
    found = []
    for threads in (1, 4):
        monkeypatch.setattr(in_memory, "usual_blas_threads", lambda threads=threads: threads)
        monkeypatch.setattr(in_memory.machine, "cpu_count", lambda: 4)
        data = [AdjustedOperator(ls.as_operator(M), model, settle) for M in (A, B)]
        found.append(
            ls.Moments(*data, form="implicit").over_rows(RowSketch(signs, HOST, cross=True), signs.size)
        )
    one, many = found
    for a, b, exact in zip(one.sketches, many.sketches, (S @ left[0], S @ left[1]), strict=True):
        assert np.array_equal(a, b)
        np.testing.assert_allclose(a, exact, atol=1e-9)
    assert np.array_equal(one.cross, many.cross)
    np.testing.assert_allclose(one.cross, left[0].T @ left[1], atol=1e-8)


# ---- answers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("ridge", [0.0, 2.5])
@pytest.mark.parametrize(
    ("n", "p", "rank"), [(900, 12, 12), (900, 12, 5), (30, 12, 12), (12, 80, 12), (12, 80, 7), (40, 40, 25)]
)
def test_exact(ridge, n, p, rank):
    rng = np.random.default_rng(0)
    A, B = with_singular_values(n, p, np.geomspace(3, 0.01, rank), rng), rng.standard_normal((n, 3))
    found = ls.solve(ls.LeastSquares(A, B, ridge=ridge), NAME, rng=1)
    exact = ridge_answer(A, B, ridge)
    np.testing.assert_allclose(found.x, exact, atol=1e-10 * np.linalg.norm(exact))
    assert found.converged
    assert (found.status is ls.Status.RANK_DEFICIENT) == (ridge == 0 and rank < min(n, p))


@pytest.mark.parametrize("rank", [15, 9])
def test_a_path_is_as_exact_as_separate_answers_from_one_sketch(rank):
    rng = np.random.default_rng(1)
    A, B = with_singular_values(2000, 15, np.geomspace(1e3, 1e-3, rank), rng), rng.standard_normal((2000, 2))
    ridges = [1e6, 0.0, 1e-4, 10.0]
    operator = CountingOperator(A, sliceable=True, readable=True)
    found = ls.solve(ls.LeastSquares(operator, B, ridge=ridges), NAME, rng=2)
    assert found.converged
    assert found.passes < 90  # one sketch, all ridges in one block
    for x, r in zip(found.x, ridges, strict=True):
        exact = ridge_answer(A, B, r)
        np.testing.assert_allclose(x, exact, atol=1e-7 * np.linalg.norm(exact))
    assert (found.status is ls.Status.RANK_DEFICIENT) == (rank < 15)


def backward_error(A, b, x):
    """An estimate, within √2, of the least relative change of A after which x is a solution (Karlson & Waldén)."""
    _, s, Vt = np.linalg.svd(A, full_matrices=False)
    r = b - A @ x
    mu = np.linalg.norm(r) / np.linalg.norm(x)
    return np.linalg.norm(Vt @ (A.T @ r) / np.sqrt(s**2 + mu**2)) / (np.linalg.norm(x) * s[0])


@pytest.mark.parametrize("condition", [1e2, 1e8, 1e10, 1e12])
@pytest.mark.parametrize("misfit", [1e-12, 1e-3, 1.0])
def test_as_accurate_as_householder_qr(condition, misfit):
    """Forward error, gradient and backward error beside those of LAPACK's SVD, on a rotated A.

    What rounding makes of one gradient spreads over two orders of magnitude, by LAPACK too: ten are compared.
    """
    rng = np.random.default_rng(2)
    n, p, m = 2000, 40, 10
    U = orthonormal(n, p, rng)
    A = U * np.geomspace(1, 1 / condition, p) @ orthonormal(p, p, rng).T
    X, R = rng.standard_normal((p, m)), rng.standard_normal((n, m))
    X /= np.linalg.norm(X, axis=0)
    for _ in range(2):
        R -= U @ (U.T @ R)
    B = A @ X + R * (misfit / np.linalg.norm(R, axis=0))
    theirs = np.linalg.lstsq(A, B, rcond=None)[0]
    found = ls.solve(ls.LeastSquares(A, B), NAME, rng=3)
    assert found.converged
    wedin = EPS * (condition + condition**2 * misfit)
    error, their_error = (np.linalg.norm(Y - X, axis=0).max() for Y in (found.x, theirs))
    assert error < max(10 * their_error, wedin)
    assert max(backward_error(A, b, x) for b, x in zip(B.T, found.x.T, strict=True)) < 30 * EPS
    residuals = [B - A @ Y for Y in (found.x, theirs)]
    gradients = [np.linalg.norm(A.T @ r / np.linalg.norm(r, axis=0)) for r in residuals]
    assert gradients[0] < max(20 * gradients[1], 10 * EPS * np.sqrt(m))


def test_the_refinement_is_what_makes_it_so():
    """κ = 1e12: stopped at the tolerance, x is orders of magnitude away from what the data determine."""
    rng = np.random.default_rng(3)
    n, p = 2000, 40
    A = with_singular_values(n, p, np.geomspace(1, 1e-12, p), rng)
    b = A @ rng.standard_normal(p) + 1e-9 * rng.standard_normal(n)
    errors = [
        backward_error(A, b, ls.solve(ls.LeastSquares(A, b), NAME, rng=4, refinements=times).x)
        for times in (0, 1)
    ]
    assert errors[1] < 10 * EPS
    assert errors[0] > 100 * errors[1]


def test_iterations_do_not_depend_on_the_condition():
    """The error shrinks an iteration by about √(p/d) = 1/2: 27 for eight digits, whatever A is like."""
    rng = np.random.default_rng(4)
    B = rng.standard_normal((3000, 1))
    counts = [
        ls.solve(
            ls.LeastSquares(with_singular_values(3000, 50, np.geomspace(1, 1 / k, 50), rng), B), NAME, rng=5
        ).iterations
        for k in (1.0, 1e3, 1e6)
    ]
    assert max(counts) <= 32
    fewer = ls.solve(
        ls.LeastSquares(with_singular_values(3000, 50, np.geomspace(1, 1e-6, 50), rng), B),
        NAME,
        rng=5,
        oversampling=16.0,
    )
    assert fewer.iterations < 0.7 * max(counts)


def test_badly_scaled_columns():
    """Lengths differ by more than 1/eps, so that the rank is unknown without scaling."""
    rng = np.random.default_rng(5)
    scale = np.geomspace(1, 1e18, 20)
    A, x = rng.standard_normal((600, 20)) * scale, rng.standard_normal(20) / scale
    found = ls.solve(ls.LeastSquares(A, A @ x), NAME, rng=6)
    np.testing.assert_allclose(found.x, x, rtol=1e-10)
    assert found.status is ls.Status.CONVERGED


@pytest.mark.parametrize("rows", [3000, 20])
def test_zero_and_orthogonal_right_hand_sides(rows):
    rng = np.random.default_rng(6)
    A, B = rng.standard_normal((rows, 8)), rng.standard_normal((rows, 3))
    B[:, 1] = 0
    found = ls.solve(ls.LeastSquares(A, B, ridge=[0.0, 1.0]), NAME, rng=7)
    assert found.converged
    assert (found.x[:, :, 1] == 0).all()
    assert ls.solve(ls.LeastSquares(A, np.zeros(rows)), NAME, rng=7).residual == 0


def test_float32_and_sparse_rows():
    rng = np.random.default_rng(7)
    A = rng.standard_normal((5000, 20)).astype(np.float32)
    found = ls.solve(ls.LeastSquares(A, A[:, 0] + 1), NAME, rng=8)
    assert found.converged
    assert found.x.dtype == np.float32
    exact = ridge_answer(A.astype(float), A[:, :1].astype(float) + 1, 0.0)[:, 0]
    np.testing.assert_allclose(found.x, exact, atol=1e-5)
    S = scipy.sparse.random(4000, 30, 0.1, format="csr", random_state=0)
    b = rng.standard_normal(4000)
    found = ls.solve(ls.LeastSquares(S, b, ridge=0.3), NAME, rng=8)
    np.testing.assert_allclose(found.x, ridge_answer(S.toarray(), b[:, None], 0.3)[:, 0], atol=1e-12)


def test_passes():
    """Sketch, start, an iteration each, the certificate and its check of the coefficients; never a product."""
    rng = np.random.default_rng(8)
    A, B = rng.standard_normal((3000, 30)), rng.standard_normal((3000, 2))
    operator = CountingOperator(A, sliceable=True, readable=True)
    plain = ls.solve(ls.LeastSquares(operator, B), NAME, rng=9, refinements=0)
    assert operator.passes == pytest.approx(plain.passes)
    assert plain.passes == pytest.approx(plain.iterations + 4)
    cut = ls.solve(ls.LeastSquares(A, B), NAME, rng=9, max_passes=40)
    assert cut.passes <= 40
    assert cut.status is ls.Status.CONVERGED


@pytest.mark.parametrize("ridge", [0.0, 0.7])
@pytest.mark.parametrize("rows", [800, 30])
def test_prepared_state(ridge, rows):
    rng = np.random.default_rng(9)
    A, B = with_singular_values(rows, 9, np.geomspace(1, 1e-3, 9), rng), rng.standard_normal((rows, 4))
    problem = ls.LeastSquares(A, B, ridge=ridge)
    instance = ls.get_solver(NAME, problem)()
    run = ls.Run(problem, instance, NAME, rng=0)
    state = instance.prepare(run.problem.A, ridge, run)
    exact = ridge_answer(A, B, ridge)
    scale = np.linalg.norm(exact)
    np.testing.assert_allclose(state.solve(run.problem.B, tol=1e-13), exact, atol=1e-9 * scale)
    other = state.solve(ls.as_operator(2 * B), x0=exact, tol=1e-13, AtB=2 * A.T @ B)
    np.testing.assert_allclose(other, 2 * exact, atol=1e-9 * scale)
    np.testing.assert_allclose(state.solve(run.problem.B, tol=1e-13), exact, atol=1e-9 * scale)


def test_a_tolerance_below_rounding_ends_with_the_truth():
    rng = np.random.default_rng(10)
    A = rng.standard_normal((3000, 10)).astype(np.float32)
    found = ls.solve(ls.LeastSquares(A, A[:, 0] + 1), NAME, rng=10, tol=1e-13)
    assert found.status is ls.Status.CONVERGED
    assert found.residual <= found.tol > 1e-13
    assert found.residual < 1e-5
    assert found.iterations < 60


def test_a_good_start_of_outer_methods():
    """L-CCA and its kin call the prepared form with products for right-hand sides."""
    rng = np.random.default_rng(11)
    X = rng.standard_normal((600, 8))
    Y = X[:, :6] @ rng.standard_normal((6, 6)) + rng.standard_normal((600, 6))
    exact = ls.solve(ls.CCA(X, Y, 2), "direct").correlations
    for form in ("dense", "implicit"):
        ours = ls.solve(ls.CCA(X, Y, 2), "als", lstsq=NAME, form=form, rng=0)
        assert ours.converged
        np.testing.assert_allclose(ours.correlations, exact, atol=1e-6)


@pytest.mark.parametrize("budget", range(6, 30, 2))
def test_budgets_hold_within_outer_methods(budget):
    rng = np.random.default_rng(15)
    X, Y = rng.standard_normal((300, 8)), rng.standard_normal((300, 6))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ls.errors.ConvergenceWarning)
        found = ls.solve(
            ls.CCA(X, Y, 2), "als", lstsq=NAME, form="implicit", rng=0, max_passes=budget, tol=1e-14
        )
    assert found.passes <= budget


@pytest.mark.parametrize("beyond", [1, 2, 5])
def test_a_run_that_is_cut_beyond_the_tolerance_has_the_answer_that_met_it(beyond, monkeypatch):
    """The tolerance is met, steps go on until they are rounding, and the memory ends one of them."""
    rng = np.random.default_rng(0)
    problem = ls.LeastSquares(rng.standard_normal((400, 20)), rng.standard_normal(400))
    advance, made, most = Stacked.advance, [0], [np.inf]

    def failing(*args):
        made[0] += 1
        if made[0] > most[0]:
            raise MemoryError
        return advance(*args)

    monkeypatch.setattr(Stacked, "advance", failing)
    met = ls.solve(problem, NAME, refinements=0, tol=1e-5, rng=0)
    made[0], most[0] = 0, made[0] + beyond - 1
    cut = ls.solve(problem, NAME, tol=1e-5, rng=0)
    assert cut.converged
    np.testing.assert_array_equal(cut.x, met.x)
