"""Least squares: steps that theory foretells, published iterates, wide sparse rows, hard numbers, starts, svrg."""

from __future__ import annotations

import itertools
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
from planted import factored, orthonormal, planted_svd

import linspec as ls
from linspec.errors import InvalidProblem, NonFiniteData
from linspec_lstsq.svrg import smoothness


def with_values(n, p, s):
    """A matrix with these singular values."""
    return planted_svd(n, p, s, 1).arrays["A"]


def ridge_answer(A, B, ridge):
    """Through the SVD of A; at ridge 0 the solution of least norm."""
    U, s, Vt = np.linalg.svd(A.toarray() if scipy.sparse.issparse(A) else A, full_matrices=False)
    keep = s > 1e-10 * s[0]
    return Vt[keep].T @ ((s[keep] / (s[keep] ** 2 + ridge))[:, None] * (U[:, keep].T @ B))


def iterates(problem, solver, count=None, **options):
    """The iterates of a run, or its first ones."""
    found = []

    def keep(progress):
        found.append(progress.current()["x"].copy())
        return len(found) == count

    ls.solve(problem, solver, callback=keep, **options)
    return found


def relative_gaps(A, B, x, ridge):
    """Lengths of the gradients over those of AᵀB."""
    return np.linalg.norm(A.T @ (B - A @ x) - ridge * x, axis=0) / np.linalg.norm(A.T @ B, axis=0)


@pytest.mark.parametrize("solver", ["cg", "lsqr"])
def test_as_many_steps_as_there_are_singular_values(solver):
    """Hestenes & Stiefel 1952: with m distinct eigenvalues the exact answer comes at step m."""
    A = with_values(120, 60, np.repeat([1.0, 2.0, 5.0, 7.0], 15))
    B = np.random.default_rng(0).standard_normal((120, 4))
    assert ls.solve(ls.LeastSquares(A, B), solver, tol=1e-12).iterations <= 5


def test_every_column_is_the_best_of_the_common_space_for_each_ridge():
    """The error in the norm of M is least over the block Krylov space, which does not depend on the ridge."""
    A, B = with_values(90, 40, np.geomspace(30, 1, 40)), np.random.default_rng(2).standard_normal((90, 3))
    S, AtB = A.T @ A, A.T @ B
    K = block = AtB
    for both in iterates(ls.LeastSquares(A, B, ridge=[0.1, 7.0]), "cg", 6, form="implicit")[1:]:
        Q = np.linalg.qr(K)[0]
        for x, ridge in zip(np.split(both, 2, axis=1), (0.1, 7.0), strict=True):
            best = Q @ np.linalg.solve(Q.T @ (S + ridge * np.eye(40)) @ Q, Q.T @ AtB)
            np.testing.assert_allclose(x, best, atol=1e-8)
        block = S @ np.linalg.qr(block)[0]
        K = np.hstack([Q, block])


def test_blocks_become_narrower_as_combinations_are_solved():
    """Two right-hand sides lie in a space of three eigenvectors: solved, they leave the block."""
    rng, A = np.random.default_rng(4), with_values(100, 50, np.linspace(5, 1, 50))
    easy = np.linalg.svd(A)[0][:, :3] @ rng.standard_normal((3, 2))
    B = np.hstack([easy, rng.standard_normal((100, 1))])
    found = ls.solve(ls.LeastSquares(scipy.sparse.linalg.aslinearoperator(A), B), "cg")
    assert found.converged
    assert found.columns < 2 * 3 * found.iterations


@pytest.mark.parametrize("shape", [(300, 80), (60, 400)])
def test_random_columns_find_the_large_singular_values(shape):
    """Twelve large values take many steps from one right-hand side, and one or two from a block that has them."""
    s = np.concatenate([np.geomspace(1e3, 30, 12), np.linspace(2, 1, 40)])
    A = scipy.sparse.csr_array(with_values(*shape, s))
    b = np.random.default_rng(9).standard_normal((shape[0], 1))
    ridges = list(np.geomspace(1, 1e3, 50))

    def solve(ridge, **options):
        problem = ls.LeastSquares(A, b, ridge=ridge)
        return ls.solve(problem, "cg", form="implicit", rng=3, **options)

    alone, path = solve(1.0), solve(ridges, random_columns=15)
    beside = solve(1.0, random_columns=15)
    for found in (beside, path):
        assert found.converged
        assert found.iterations <= alone.iterations / 1.7
    for x, ridge in zip((beside.x, *path.x), (1.0, *ridges), strict=True):
        np.testing.assert_allclose(x, ridge_answer(A, b, ridge), atol=1e-7)


@pytest.mark.parametrize("weighted", [False, True])
def test_cg_takes_few_steps_where_lengths_of_columns_are_all_that_differs(weighted):
    """Orthogonal columns, and nearly orthogonal ones, of lengths from 1 to 100: van der Sluis 1969."""
    rng = np.random.default_rng(0)
    A = np.linalg.qr(rng.standard_normal((300, 40)))[0] * np.geomspace(1, 1e2, 40)
    y, w = rng.standard_normal(300), rng.random(300) + 0.5 if weighted else np.ones(300)
    exact = np.linalg.solve((A.T * w) @ A + 1e-3 * np.eye(40), (A.T * w) @ y)
    for wrap, start in itertools.product(
        (np.asarray, scipy.sparse.csr_array), (None, rng.standard_normal(40))
    ):
        problem = ls.LeastSquares(wrap(A), y, ridge=1e-3, sample_weight=w if weighted else None)
        found = ls.solve(problem, "cg", form="implicit", rng=0, start=start, tol=1e-10)
        assert found.converged
        assert found.iterations <= (30 if weighted else 2)
        np.testing.assert_allclose(found.x, exact, rtol=1e-6)


@pytest.mark.parametrize("ridge", [0.0, 4.0])
def test_lsqr_has_the_iterates_of_scipy(ridge):
    A, B = with_values(90, 25, np.linspace(3, 1, 25)), np.random.default_rng(1).standard_normal((90, 4))
    found = iterates(ls.LeastSquares(A, B, ridge=ridge), "lsqr", 10, tol=1e-14)
    for k in (1, 2, 5, 9):
        for j, b in enumerate(B.T):
            stop = {"iter_lim": k, "atol": 0, "btol": 0, "conlim": 0}
            theirs = scipy.sparse.linalg.lsqr(A, b, damp=np.sqrt(ridge), **stop)[0]
            np.testing.assert_allclose(found[k][:, j], theirs, atol=1e-10)


def test_pairs_of_column_and_ridge_may_be_done_in_any_order():
    """Left singular vectors are done at once, some ridges before others; nothing is mixed up."""
    rng, A = np.random.default_rng(8), with_values(50, 9, np.geomspace(4, 1, 9))
    U = np.linalg.svd(A, full_matrices=False)[0]
    B = np.column_stack([rng.standard_normal(50), U[:, 3], U[:, 1] + 1e-7 * U[:, 5], rng.standard_normal(50)])
    ridges = [1e6, 0.0, 30.0, 1e-2]
    found = ls.solve(ls.LeastSquares(A, B, ridge=ridges), "lsqr", tol=1e-10)
    assert found.converged
    for x, r in zip(found.x, ridges, strict=True):
        exact = ridge_answer(A, B, r)
        np.testing.assert_allclose(x, exact, atol=1e-9 * np.abs(exact).max())


def test_lsqr_waits_with_large_ridges_until_the_least_one_is_solved():
    """Where a ridge is solved to far below rounding, its numbers underflow, and it stands still."""
    rng = np.random.default_rng(0)
    A = scipy.sparse.random_array((600, 400), density=0.03, format="csr", rng=rng)
    A, b, ridges = A * np.geomspace(1, 0.03, 400), rng.standard_normal((600, 1)), [1e-4, 1e-2, 1e6]
    found = ls.solve(ls.LeastSquares(A.tocsr(), b, ridge=ridges), "lsqr", rng=0, tol=1e-9)
    assert found.converged
    assert found.iterations > 150
    for one, ridge in zip(found.along_path(), ridges, strict=True):
        assert relative_gaps(A, b, one.x, ridge).max() <= 1e-9


def test_lsqr_is_more_accurate_than_the_normal_equations():
    """κ = 1e7 and a consistent b: Cholesky of AᵀA (κ² = 1e14) loses x, LSQR finds it."""
    s = np.repeat(np.geomspace(1, 1e-7, 5), 3)  # five values: few steps, so that rounding is what is seen
    A, x = with_values(200, 15, s), np.random.default_rng(9).standard_normal(15)
    tries = iterates(ls.LeastSquares(A, A @ x), "lsqr", tol=1e-30, max_iterations=60)
    found = min(np.linalg.norm(y[:, 0] - x) for y in tries) / np.linalg.norm(x)
    squared = np.linalg.norm(np.linalg.solve(A.T @ A, A.T @ (A @ x)) - x) / np.linalg.norm(x)
    assert found < 1e-6
    assert found < squared / 100


@pytest.mark.parametrize(("solver", "n", "most"), [("lsqr", 300, 100), ("sketch-precondition", 3000, 60)])
def test_a_tolerance_below_rounding_ends_with_the_truth(solver, n, most):
    A = np.random.default_rng(11).standard_normal((n, 10)).astype(np.float32)
    found = ls.solve(ls.LeastSquares(A, A[:, 0] + 1), solver, rng=10, tol=1e-13)
    assert found.status is ls.Status.CONVERGED
    assert 1e-13 < found.tol < 1e-5
    assert found.residual <= found.tol
    assert found.iterations < most
    exact = np.linalg.lstsq(A.astype(float), A[:, 0].astype(float) + 1, rcond=None)[0]
    np.testing.assert_allclose(found.x, exact, atol=1e-5)


def wide(n=60, p=400):
    A = scipy.sparse.random(n, p, 0.1, random_state=0, format="csr") * 3
    return A, np.random.default_rng(0).standard_normal((n, 3))


@pytest.mark.parametrize("center", [False, True])
def test_the_answer_is_that_of_the_side_of_the_columns(center):
    """A mean of B that is not subtracted would take a step of its own, and means of A a pass."""
    A, B = wide()
    B[:, 1] = 0
    ridges = [5.0, 0.05, 300.0]
    problem = ls.LeastSquares(A, B + 100 * center, ridge=ridges, center=center)
    found = ls.solve(problem, "cg", form="implicit", tol=1e-11)
    assert found.converged
    X, Y = (M - center * M.mean(axis=0) for M in (A.toarray(), B))
    for x, ridge in zip(found.x, ridges, strict=True):
        np.testing.assert_allclose(x, ridge_answer(X, Y, ridge), atol=1e-8)
        assert (x[:, 1] == 0).all()


@pytest.mark.parametrize("seed", range(2))
def test_the_answer_is_the_iterate_that_met_the_tolerance(seed):
    """The gradient rises and falls: the next iterate may be ten times as far away."""
    rng = np.random.default_rng(seed)
    words = np.minimum(rng.zipf(1.3, 4000) - 1, 999)
    near = (words + rng.integers(0, 10, 200).repeat(20) * 100) % 1000
    columns = np.where(rng.random(4000) < 0.5, near, words)
    A = scipy.sparse.csr_array((np.ones(4000), columns, np.arange(0, 4001, 20)), shape=(200, 1000))
    B = A @ rng.standard_normal((1000, 1))
    found = ls.solve(ls.LeastSquares(A, B, ridge=1.0), "cg", form="implicit", tol=1e-9)
    assert found.converged
    assert relative_gaps(A, B, found.x, 1.0).max() <= 1e-9
    np.testing.assert_allclose(found.x, ridge_answer(A, B, 1.0), atol=1e-6)


@pytest.mark.parametrize("columns", [3000, 300])
def test_targets_that_depend_on_each_other_up_to_rounding_cost_no_steps(columns):
    """Eight of rank seven span what seven do, so the block Krylov spaces are the same, on rows and on columns."""
    rng = np.random.default_rng(3)
    A = scipy.sparse.random_array((400, columns), density=0.02, rng=rng, format="csr")
    A = A @ scipy.sparse.diags_array(np.geomspace(5, 1, columns))
    B = (rng.integers(0, 8, 400)[:, None] == np.arange(8)[None, :]) - 1 / 8
    B += 1e-13 * rng.standard_normal(B.shape)
    of_all, of_seven = (
        ls.solve(ls.LeastSquares(A, targets, 0.1), "cg", form="implicit", tol=1e-9)
        for targets in (B, B[:, :7])
    )
    assert of_all.iterations <= of_seven.iterations + 1
    np.testing.assert_allclose(of_all.x, ridge_answer(A, B, 0.1), atol=1e-7)


def test_an_answer_in_doubt_is_finished_on_the_other_side():
    values = scipy.sparse.diags_array(np.geomspace(1e4, 1, 80))
    A = (values @ scipy.sparse.random(80, 500, 0.2, random_state=1)).tocsr()
    B = np.random.default_rng(1).standard_normal((80, 2))
    found = ls.solve(ls.LeastSquares(A, B, ridge=1e-3), "cg", form="implicit", tol=1e-11)
    assert found.converged
    assert relative_gaps(A, B, found.x, 1e-3).max() < 1.1e-11


def test_without_a_ridge_rows_that_depend_on_each_other_leave_the_solution_of_least_norm():
    """On the side of the rows they would leave residuals that nothing reduces."""
    A = scipy.sparse.vstack([wide(n=20, p=100)[0]] * 2).tocsr()
    B = np.random.default_rng(2).standard_normal((40, 2))
    found = ls.solve(ls.LeastSquares(A, B), "cg", form="implicit", tol=1e-11)
    np.testing.assert_allclose(found.x, np.linalg.lstsq(A.toarray(), B)[0], atol=1e-9)


@pytest.mark.parametrize("ridge", [0.0, 3.0])
def test_gd_contracts_as_kantorovich_says(ridge):
    """The gap of the objective shrinks a step by at least ((d₁² − d_p²)/(d₁² + d_p² + 2r))²."""
    A, b = with_values(60, 10, np.linspace(4, 1, 10)), np.random.default_rng(0).standard_normal((60, 1))
    objective = lambda x: np.sum((A @ x - b) ** 2) + ridge * np.sum(x**2)  # noqa: E731
    tries = iterates(ls.LeastSquares(A, b, ridge=ridge), "gd", tol=1e-7)
    gaps = [objective(x) - objective(ridge_answer(A, b, ridge)) for x in tries]
    factor = ((16 - 1) / (16 + 1 + 2 * ridge)) ** 2
    for before, after in pairwise(gaps):
        assert after <= factor * before + 1e-12 * gaps[0]


@pytest.mark.parametrize(("scales", "passes"), [(1.0, 2), (np.geomspace(1, 1e12, 20), 1)])
def test_direct_factorises_the_rows_where_squaring_would_cost_too_much(scales, passes):
    """κ = 1e7: the normal equations would lose 14 digits, orthogonal transformations 7. Scales of columns lose none."""
    A = with_values(200, 20, np.geomspace(1, 1e-7 if passes == 2 else 0.3, 20)) * scales
    x = np.random.default_rng(0).standard_normal(20) / scales
    found = ls.solve(ls.LeastSquares(A, A @ x), "direct")
    off = (found.x - x) * scales
    assert np.linalg.norm(off) < (1e-7 if passes == 2 else 1e-10) * np.linalg.norm(x * scales)
    assert found.passes == passes


@pytest.mark.parametrize("solver", ["cg", "nystrom-pcg", "ling", "lsqr"])
def test_a_singular_value_below_rounding_of_squares_is_left_alone(solver):
    rng, s = np.random.default_rng(5), np.geomspace(10, 1, 20)
    s[4] = 1e-8
    U, V = orthonormal(rng, 300, 20), orthonormal(rng, 20, 20)
    A, B = (U * s) @ V.T, rng.standard_normal((300, 15))
    solution = ls.solve(ls.LeastSquares(A, B), solver, rng=0)
    live = np.delete(U, 4, axis=1)
    seen = live @ (live.T @ B)  # fitted values without this direction
    assert np.linalg.norm(A @ solution.x - seen) <= 1e-3 * np.linalg.norm(seen)
    assert solution.status is ls.Status.ILL_CONDITIONED
    assert solution.iterations <= 100


@pytest.mark.parametrize("solver", ["ling", "pcr", "cg", "lsqr"])
def test_a_gram_matrix_of_narrow_products_has_their_rounding(solver):
    A = with_values(400, 20, np.geomspace(1, 1 / 3e3, 20)).astype(np.float32)
    b = A.astype(float) @ np.ones(20)
    found = ls.solve(ls.LeastSquares(scipy.sparse.linalg.aslinearoperator(A), b), solver, rng=0)
    assert found.status is not ls.Status.CONVERGED or np.abs(found.x - 1).max() <= 1e-2


# ---- starts ------------------------------------------------------------------------------------


SWEEPING = {"cg": {"form": "implicit"}, "lsqr": {}, "nystrom-pcg": {"form": "implicit", "rank": 10}}
"""Solvers that take a start, with options to pass the data, so that passes count their work."""

each_solver = pytest.mark.parametrize("name", SWEEPING)


def solve(name: str, problem: ls.LeastSquares, **named):
    return ls.solve(problem, name, rng=0, **SWEEPING[name], **named)


@pytest.fixture
def data() -> tuple[np.ndarray, np.ndarray]:
    """A matrix with unequal columns and two right-hand sides."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((300, 60)) * np.geomspace(1, 1e-2, 60), rng.standard_normal((300, 2))


@each_solver
def test_a_bad_start_changes_no_answer(data, name: str):
    A, B = data[0], data[1] * [1.0, 0.0]  # the answer of the second is zero, whatever the start
    start = np.random.default_rng(1).standard_normal((60, 2))
    found = solve(name, ls.LeastSquares(A, B, ridge=0.5), start=start)
    assert found.converged
    np.testing.assert_allclose(found.x, ridge_answer(A, B, 0.5), atol=1e-7)


@each_solver
def test_starts_of_paths(data, name: str):
    A, B = data
    ridges = (0.4, 0.5, 2.0)
    path = solve(name, ls.LeastSquares(A, B, ridge=ridges))
    again = solve(name, ls.LeastSquares(A, B, ridge=ridges), start=path)
    np.testing.assert_array_equal(again.x, path.x)
    one = solve(name, ls.LeastSquares(A, B, ridge=(0.5, 0.5)), start=path.x[1])
    vector = solve(name, ls.LeastSquares(A, B[:, 0], ridge=ridges), start=path.x[:, :, 0])
    assert again.iterations == one.iterations == vector.iterations == 0
    assert vector.x.shape == (3, 60)


@each_solver
@pytest.mark.parametrize("unit", [1.0, 1e55])
def test_a_start_is_in_the_units_and_columns_of_the_data(data, name: str, unit: float):
    """Also where columns are scaled, an intercept is fitted, and entries are divided by a power of two."""
    A, B = data
    ridge = 0.5 if unit == 1.0 else 0.0
    problem = ls.LeastSquares(A * unit + unit, B, ridge=ridge, center=True, scale=True)
    cold = solve(name, problem)
    assert cold.iterations > 1
    assert solve(name, problem, start=cold).iterations == 0


def test_without_a_ridge_what_the_data_do_not_see_of_a_start_stays():
    """The solution nearest the start: it differs from that of least norm by the start's part in the null space."""
    rng = np.random.default_rng(3)
    A, b, start = rng.standard_normal((20, 30)), rng.standard_normal(20), rng.standard_normal(30)
    nearest = start + np.linalg.pinv(A) @ (b - A @ start)
    for name in ("cg", "lsqr"):
        np.testing.assert_allclose(ls.solve(ls.LeastSquares(A, b), name, start=start).x, nearest, atol=1e-6)


def test_refusals(data):
    A, B = data
    problem, path = ls.LeastSquares(A, B), ls.LeastSquares(A, B, ridge=(1.0, 2.0))
    for of, start, error, text in (
        (problem, np.ones(60), InvalidProblem, r"shape \(60, 2\); got \(60,\)"),
        (path, np.ones((3, 60, 2)), InvalidProblem, r"\(60, 2\) or \(2, 60, 2\); got \(3, 60, 2\)"),
        (problem, np.full((60, 2), np.nan), NonFiniteData, "the x of start"),
    ):
        with pytest.raises(error, match=text):
            ls.solve(of, "cg", start=start)


# ---- svrg --------------------------------------------------------------------------------------


def random(seed=0):
    return np.random.default_rng(seed).standard_normal


@pytest.mark.parametrize("batch", [1, 2, 3, 6])
def test_smoothness_bounds_the_mean_square_over_all_batches(batch):
    """L_b AᵀA − E[H_S²] has no negative eigenvalue, over every subset of `batch` rows."""
    A = random(1)((6, 4)) * np.array([1, 1, 1, 2, 3, 0.1])[:, None]
    H = A.T @ A
    samples = [6 / batch * A[list(S)].T @ A[list(S)] for S in itertools.combinations(range(6), batch)]
    bound = smoothness(np.linalg.eigvalsh(H)[-1], np.max(np.sum(A**2, axis=1)), 6, batch)
    assert np.linalg.eigvalsh(bound * H - np.mean([M @ M for M in samples], axis=0))[0] > -1e-10 * bound
    if batch == 6:  # all rows: the constant of gradient descent
        assert bound == pytest.approx(np.linalg.eigvalsh(H)[-1])


def test_batches_of_all_rows_are_gradient_descent():
    A, b = random()((30, 5)), random(1)(30)
    step, seen = 0.5 / np.linalg.norm(A, 2) ** 2, []
    ls.solve(
        ls.LeastSquares(A, b, ridge=0.4), "svrg", batch=30, step=step, snapshot="last", rng=0,
        callback=lambda p: seen.append(p.current()["x"][:, 0]) or p.iteration == 3,
    )  # fmt: skip
    x = np.zeros(5)
    for found in seen:
        np.testing.assert_allclose(found, x, atol=1e-13)
        x = x + step * (A.T @ (b - A @ x) - 0.4 * x)


def test_tall_data_take_fewer_passes_than_gradient_descent():
    """The purpose of stochastic gradients: many similar rows, where a few determine nearly all."""
    A = random()((20_000, 20)) * np.geomspace(30, 1, 20)
    problem = ls.LeastSquares(A, A @ random(1)(20) + random(2)(20_000))
    stochastic = ls.solve(problem, "svrg", rng=0, tol=1e-7)
    full = ls.solve(problem, "gd", form="implicit", tol=1e-7, max_passes=400)
    assert stochastic.converged
    assert 5 * stochastic.passes < full.passes


@pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")
@pytest.mark.parametrize("snapshot", ["best", "last"])
@pytest.mark.parametrize(("dtype", "factor"), [(float, 5.0), (float, 1e200), ("f4", 1e3), ("f4", 1e12)])
def test_a_step_that_diverges_is_caught_and_said(snapshot, dtype, factor):
    """Also where it leaves the range of float32; the objective never rises from snapshot to snapshot."""
    s, seen = np.linspace(4, 1, 20), []
    A, U, V = factored(200, 20, s)
    A, b = A.astype(dtype), random()(200)
    watch = lambda p: seen.append(np.sum((A @ p.current()["x"][:, 0] - b) ** 2))  # noqa: E731
    options = {"step": factor, "snapshot": snapshot, "callback": watch}
    found = ls.solve(ls.LeastSquares(A, b), "svrg", rng=0, **options)
    assert found.converged
    assert "grew with this step=" in found.message
    best = V @ (U.T @ b / s)
    np.testing.assert_allclose(found.x, best, atol=1e-6 if dtype is float else 1e-4)
    if dtype is float:
        assert (np.diff(seen) <= 1e-13 * seen[0]).all()
        assert seen[-1] >= np.sum((A @ best - b) ** 2) * (1 - 1e-13)
        assert "step=" not in ls.solve(ls.LeastSquares(A, b), "svrg", rng=0).message
