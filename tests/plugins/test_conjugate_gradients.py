"""Block conjugate gradients: what theory says of its steps, and of the path of ridges that it gives along."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse.linalg
from backends import CountingOperator

import linspec as ls


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


def test_the_shifted_iterates_are_those_of_their_own_ridge():
    """The spaces do not depend on the ridge, and each iterate is the best of them for its own."""
    rng = np.random.default_rng(6)
    A, B = with_singular_values(90, 40, np.geomspace(30, 1, 40), rng), rng.standard_normal((90, 3))
    together = iterates(A, B, [0.1, 7.0], 6)
    own = iterates(A, B, 7.0, 6)
    for both, x in zip(together, own, strict=True):
        np.testing.assert_allclose(both[:, 3:], x, atol=1e-9)


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
