"""The law of the truncated SVD on what a solver leaves out."""

import numpy as np
import pytest
import scipy.sparse

import linspec as ls

A = np.random.default_rng(0).standard_normal((30, 6)) * np.geomspace(9, 1, 6)


def test_every_solver_finds_the_left_vectors():
    U = np.linalg.svd(A, full_matrices=False)[0][:, :2]
    for solver in ls.solvers("svd"):
        found = ls.solve(ls.SVD(A, 2, left=True), solver, rng=0)
        assert found.U is not None, solver
        if found.converged:
            np.testing.assert_allclose(np.abs(U.T @ found.U), np.eye(2), atol=1e-4, err_msg=solver)


@pytest.mark.parametrize(
    "made", [np.asarray, scipy.sparse.csr_array, lambda X: lambda: iter([X[:70], X[70:]])]
)
def test_the_summary_says_that_the_first_component_is_the_means(made):
    X = np.random.default_rng(1).standard_normal((200, 5)) * [1, 2, 3, 4, 5]
    U = np.linalg.svd(X + 4, full_matrices=False)[0]
    share = np.sum(U[:, 0]) ** 2 / len(U)  # the squared cosine with the vector of ones
    found = ls.solve(ls.SVD(made(X + 4), k=2))
    assert np.isclose(found.share_of_means, share)
    assert f"{share:.0%} of component 1 is the column means" in str(found.summary())
    assert found.passes == ls.solve(ls.SVD(made(X + 4), k=2, center=True)).passes
    for quiet in (ls.SVD(made(X + 4), k=2, center=True), ls.SVD(made(X - X.mean(axis=0)), k=2)):
        assert "column means" not in str(ls.solve(quiet).summary())
