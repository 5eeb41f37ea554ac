"""Block conjugate gradients: what theory says of its steps, and of the path of ridges that it gives along."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse.linalg
from backends import CountingOperator

import linspec as ls
from linspec import cost
from linspec_lstsq.random_columns import MOST, SAVED, columns_beside


def with_singular_values(n, p, s, rng):
    U = np.linalg.qr(rng.standard_normal((n, len(s))))[0]
    V = np.linalg.qr(rng.standard_normal((p, len(s))))[0]
    return U * s @ V.T


def ridge_answer(A, B, ridge):
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    keep = s > 1e-12 * s[0]
    return Vt[keep].T @ ((s[keep] / (s[keep] ** 2 + ridge))[:, None] * (U[:, keep].T @ B))


def iterates(A, B, ridge, count):
    """The first iterates of a run on swept data."""
    found = []

    def keep(progress):
        found.append(progress.current()["x"].copy())
        return len(found) == count

    ls.solve(ls.LeastSquares(A, B, ridge=ridge), "cg", form="implicit", callback=keep)
    return found


def test_a_block_ends_after_as_many_steps_as_its_spaces_need():
    """O'Leary 1980: m right-hand sides span the whole space after p/m steps."""
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((200, 60)), rng.standard_normal((200, 12))
    assert ls.solve(ls.LeastSquares(A, B), "cg", tol=1e-11).iterations <= 60 / 12 + 1


def test_iterates_of_one_column_are_those_of_hestenes_and_stiefel():
    rng = np.random.default_rng(1)
    A, b = with_singular_values(90, 30, np.geomspace(20, 1, 30), rng), rng.standard_normal(90)
    M = A.T @ A + 0.5 * np.eye(30)
    for k, x in enumerate(iterates(A, b, 0.5, 9)):
        expected, _ = scipy.sparse.linalg.cg(M, A.T @ b, rtol=0, maxiter=k) if k else (np.zeros(30), 0)
        np.testing.assert_allclose(x[:, 0], expected, atol=1e-10 * np.linalg.norm(expected))


def test_every_column_is_the_best_of_the_common_space():
    """The error in the norm of M is least over the block Krylov space, which is built here explicitly."""
    rng = np.random.default_rng(2)
    A, B = with_singular_values(90, 40, np.geomspace(30, 1, 40), rng), rng.standard_normal((90, 3))
    M, AtB = A.T @ A + 2.0 * np.eye(40), A.T @ B
    K = block = AtB
    for x in iterates(A, B, 2.0, 6)[1:]:
        Q = np.linalg.qr(K)[0]
        np.testing.assert_allclose(x, Q @ np.linalg.solve(Q.T @ M @ Q, Q.T @ AtB), atol=1e-9)
        block = M @ np.linalg.qr(block)[0]
        K = np.hstack([Q, block])


def test_dependent_right_hand_sides_cost_no_products():
    rng = np.random.default_rng(3)
    A, C = with_singular_values(80, 30, np.geomspace(10, 1, 30), rng), rng.standard_normal((80, 3))
    B = np.hstack([C, C @ rng.standard_normal((3, 6)), 1e-9 * C[:, :1], np.zeros((80, 1))])
    few, many = (ls.solve(ls.LeastSquares(A, right), "cg", tol=1e-10, form="implicit") for right in (C, B))
    np.testing.assert_allclose(many.x, ridge_answer(A, B, 0.0), atol=1e-8)
    assert many.converged
    assert many.iterations == few.iterations
    multiplied = [np.ptp(found.history["columns"]) for found in (few, many)]
    assert multiplied[0] == multiplied[1]


def test_blocks_become_narrower_as_combinations_are_solved():
    """Two right-hand sides lie in a space of three eigenvectors: solved, they leave the block."""
    rng = np.random.default_rng(4)
    U, _ = np.linalg.qr(rng.standard_normal((100, 50)))
    V, _ = np.linalg.qr(rng.standard_normal((50, 50)))
    A = U * np.linspace(5, 1, 50) @ V.T
    easy = U[:, :3] @ rng.standard_normal((3, 2))
    operator = CountingOperator(A)
    found = ls.solve(ls.LeastSquares(operator, np.hstack([easy, rng.standard_normal((100, 1))])), "cg")
    assert found.converged
    assert found.columns < 2 * 3 * found.iterations


@pytest.mark.parametrize("ridges", [[1.0, 0.01, 30.0, 1e4], [0.0, 5.0]])
def test_a_path_costs_the_products_of_its_smallest_ridge(ridges):
    rng = np.random.default_rng(5)
    A, B = with_singular_values(120, 40, np.geomspace(50, 1, 40), rng), rng.standard_normal((120, 2))
    path = ls.solve(ls.LeastSquares(A, B, ridge=ridges), "cg", tol=1e-10, form="implicit")
    alone = ls.solve(ls.LeastSquares(A, B, ridge=min(ridges)), "cg", tol=1e-10, form="implicit")
    assert path.passes == alone.passes
    for x, ridge in zip(path.x, ridges, strict=True):
        np.testing.assert_allclose(x, ridge_answer(A, B, ridge), atol=1e-9)


def test_the_shifted_iterates_are_those_of_their_own_ridge():
    """The spaces do not depend on the ridge, and each iterate is the best of them for its own."""
    rng = np.random.default_rng(6)
    A, B = with_singular_values(90, 40, np.geomspace(30, 1, 40), rng), rng.standard_normal((90, 3))
    together = iterates(A, B, [0.1, 7.0], 6)
    own = iterates(A, B, 7.0, 6)
    for both, x in zip(together, own, strict=True):
        np.testing.assert_allclose(both[:, 3:], x, atol=1e-9)


def test_a_start_is_taken_up():
    rng = np.random.default_rng(7)
    A, B = with_singular_values(80, 30, np.geomspace(10, 1, 30), rng), rng.standard_normal((80, 2))
    problem = ls.LeastSquares(A, B, ridge=0.3)
    solver = ls.get_solver("cg", problem)(tol=1e-10)
    run = ls.Run(problem, solver, "cg")
    state, exact = solver.prepare(run.problem.A, 0.3, run), ridge_answer(A, B, 0.3)
    before = run.passes
    np.testing.assert_allclose(state.solve(run.problem.B, x0=exact, AtB=A.T @ B), exact, atol=1e-12)
    assert run.passes - before == 1  # the gradient at the start


def test_the_residual_in_the_end_is_the_true_one():
    """κ(A) = 1e5: updated gradients drift; the tolerance is met by the arrays that are returned all the same."""
    rng = np.random.default_rng(8)
    A, B = with_singular_values(300, 60, np.geomspace(1e5, 1, 60), rng), rng.standard_normal((300, 20))
    found = ls.solve(ls.LeastSquares(A, B, ridge=[1e-2, 1.0]), "cg", tol=1e-9)
    x, ridge = found.x, [1e-2, 1.0]
    gaps = [np.linalg.norm(A.T @ (B - A @ x[i]) - ridge[i] * x[i], axis=0) for i in range(2)]
    assert max(np.max(gap / np.linalg.norm(A.T @ B, axis=0)) for gap in gaps) <= 1.001e-9


@pytest.mark.parametrize("shape", [(300, 80), (60, 400)])
def test_random_columns_find_the_large_singular_values(shape):
    """Twelve large values take many steps from one right-hand side, and one or two from a block that has them."""
    rng = np.random.default_rng(9)
    s = np.concatenate([np.geomspace(1e3, 30, 12), np.linspace(2, 1, 40)])
    A, b = scipy.sparse.csr_array(with_singular_values(*shape, s, rng)), rng.standard_normal((shape[0], 1))
    ridges = list(np.geomspace(1, 1e3, 50))

    def solve(ridge, **options):
        problem = ls.LeastSquares(A, b, ridge=ridge)
        return ls.solve(problem, "cg", form="implicit", rng=3, **options)

    alone, beside = solve(1.0), solve(1.0, random_columns=15)
    assert beside.converged
    assert beside.iterations <= alone.iterations / 1.7
    np.testing.assert_allclose(beside.x, ridge_answer(A.toarray(), b, 1.0), atol=1e-7)
    path = solve(ridges, random_columns=15)
    assert path.converged
    assert path.iterations <= alone.iterations / 1.7
    for x, ridge in zip(path.x, ridges, strict=True):
        np.testing.assert_allclose(x, ridge_answer(A.toarray(), b, ridge), atol=1e-7)
    np.testing.assert_array_equal(solve(1.0, random_columns=15).x, beside.x)


def test_random_columns_that_fill_the_space_and_no_right_hand_side():
    rng = np.random.default_rng(10)
    A, B = rng.standard_normal((50, 8)), np.hstack([rng.standard_normal((50, 1)), np.zeros((50, 1))])
    found = ls.solve(ls.LeastSquares(A, B), "cg", form="implicit", random_columns=30)
    np.testing.assert_allclose(found.x, ridge_answer(A, B, 0.0), atol=1e-8)
    assert found.converged
    assert not ls.solve(ls.LeastSquares(A, 0 * B), "cg", form="implicit", random_columns=3).x.any()


@pytest.mark.parametrize("shape", [(300, 80), (60, 400)])
def test_a_run_with_random_columns_goes_on_with_the_same_bits(shape, tmp_path):
    rng = np.random.default_rng(11)
    A, b = with_singular_values(*shape, np.geomspace(100, 1, 50), rng), rng.standard_normal((shape[0], 1))
    problem = ls.LeastSquares(scipy.sparse.csr_array(A), b, ridge=[0.1, 1.0])
    options = {"form": "implicit", "rng": 0, "random_columns": 3}
    whole = ls.solve(problem, "cg", **options)
    path = tmp_path / "run"
    part = ls.solve(
        problem, "cg", **options, checkpoint=path, callback=lambda progress: progress.iteration >= 4
    )
    assert part.iterations < whole.iterations
    on = ls.solve(problem, "cg", **options, checkpoint=path)
    assert on.iterations == whole.iterations
    np.testing.assert_array_equal(on.x, whole.x)


def falling(n=400, p=150):
    """Rows whose columns fall in variance, so that wide blocks save passes, and right-hand sides."""
    rng = np.random.default_rng(12)
    A = rng.standard_normal((n, p)) / np.arange(1, p + 1)
    return A, A @ rng.standard_normal((p, 20)) + rng.standard_normal((n, 20))


def test_random_columns_are_taken_where_rows_are_made_anew_for_each_pass():
    """A stream makes its slices in each pass; a pass with more columns in the block makes no more of them."""
    A, B = falling()
    made = []

    def slices():
        made.append(1)
        yield from np.array_split(A, 5)

    def solve(data, m, columns=None):
        problem = ls.LeastSquares(data, B[:, :m], ridge=1.0)
        return ls.solve(problem, "cg", form="implicit", random_columns=columns)

    alone = solve(slices, 1, 0)
    before = len(made)
    beside = solve(slices, 1)
    assert len(made) - before == beside.passes  # the first slice is read by the first of them
    assert beside.converged
    assert beside.passes <= alone.passes / 1.5
    np.testing.assert_allclose(beside.x, ridge_answer(A, B[:, :1], 1.0), atol=1e-6)
    np.testing.assert_array_equal(solve(slices, 1).x, beside.x)
    np.testing.assert_array_equal(solve(slices, 20).x, solve(slices, 20, 0).x)
    np.testing.assert_array_equal(solve(A, 1).x, solve(A, 1, 0).x)


def test_random_columns_of_files_by_whether_they_are_decoded(tmp_path):
    zarr, h5py = pytest.importorskip("zarr"), pytest.importorskip("h5py")
    A, B = falling()
    np.save(tmp_path / "a.npy", A)
    zarr.create_array(str(tmp_path / "a.zarr"), shape=A.shape, chunks=(50, A.shape[1]), dtype="f8")[:] = A
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["as it stands"] = A
        file.create_dataset("compressed", data=A, chunks=(50, A.shape[1]), compression="gzip")

    def columns(data):
        problem = ls.LeastSquares(data, B[:, :1], ridge=1.0)
        assert problem.sizes().decoded == problem.A.decoded_bytes
        return columns_beside(problem, ls.Moments(problem.A, form="implicit")), problem.A.decoded_bytes

    assert columns(str(tmp_path / "a.npy")) == (0, 0)
    assert columns(ls.open_rows(tmp_path / "a.h5", part="as it stands")) == (0, 0)
    for path in (tmp_path / "a.zarr", ls.open_rows(tmp_path / "a.h5", part="compressed")):
        found, decoded = columns(path)
        assert decoded == A.nbytes
        assert found > 0
    problem = ls.LeastSquares(str(tmp_path / "a.zarr"), B[:, :1], ridge=1.0)
    assert columns_beside(problem, ls.Moments(problem.A, form="dense")) == 0, "products take no pass"


def test_the_number_of_random_columns_is_the_best_of_its_formula(monkeypatch):
    """T(b) = b^-s (R + a b) is least at b = s/(1 - s) R/a, while the algebra between passes is small."""
    A, B = falling(n=50, p=20)
    made = ls.LeastSquares(lambda: iter([A]), B[:, :1])
    moments = ls.Moments(made.A, form="implicit")
    many = replace(
        made.sizes(), n=10**9, nnz=2 * 10**10, decoded=16 * 10**10
    )  # hours before the algebra counts
    monkeypatch.setattr(cost, "sizes_of", lambda matrices, k: replace(many, k=k))
    entry = many.decoded / many.nnz * cost.DECODING + cost.READING / cost.DENSE_RATE
    best = SAVED / (1 - SAVED) * entry / (4 / cost.DENSE_RATE)
    assert abs(1 + columns_beside(made, moments) - best) <= 1
    waiting = replace(
        many, decoded=0, workers=10, round_seconds=1e9
    )  # a pass costs a round, whatever the block
    monkeypatch.setattr(cost, "sizes_of", lambda matrices, k: replace(waiting, k=k))
    assert columns_beside(made, moments) == MOST


def test_random_columns_leave_memory_for_the_blocks(monkeypatch):
    A, B = falling()
    problem = ls.LeastSquares(lambda: iter([A]), B[:, :1], ridge=[1.0, 2.0])
    moments = ls.Moments(problem.A, form="implicit")
    assert columns_beside(problem, moments) > 4
    room = (
        4 * 2 * 8 * 8 * A.shape[1] * 5
    )  # a quarter of it for 8 blocks of 5 columns, float64, of both ridges
    monkeypatch.setattr(cost.Sizes, "free_memory", lambda sizes: room)
    assert columns_beside(problem, moments) in (0, 4)
