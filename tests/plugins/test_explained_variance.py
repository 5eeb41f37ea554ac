"""Principal components and explained variance: as scikit-learn's PCA has them, without a pass of their own."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse.linalg import aslinearoperator

import linspec as ls

SOLVERS = ["direct", "gram", "block-krylov", "lanczos", "spca", "lazy-spca"]
SHAPES = [(300, 40), (40, 300)]
every_solver = pytest.mark.parametrize("solver", SOLVERS)


def uneven(n, p, rank=None, seed=0):
    """Sparse, its columns of very different density, size and mean; of a lower rank where asked."""
    rng = np.random.default_rng([seed, n, p])
    density = np.geomspace(0.9, 0.05, p)
    A = np.where(rng.random((n, p)) < density, rng.gamma(2.0, 1.0, (n, p)) * np.geomspace(20, 1, p), 0.0)
    if rank is None:
        return A
    mixing = np.where(rng.random((rank, p)) < 0.4, rng.standard_normal((rank, p)), 0.0)
    return A[:, :rank] @ mixing


def solved(data, k, solver, **given):
    tol = {"tol": 1e-12} if solver in {"block-krylov", "lanczos"} else {}
    powers = {"power_iterations": 4} if solver in {"spca", "lazy-spca"} else {}
    return ls.solve(ls.SVD(data, k, **given), solver, rng=0, **tol, **powers)


KINDS = {
    "dense": np.asarray,
    "sparse": scipy.sparse.csr_array,
    "read once": lambda A: (A[i : i + 23] for i in range(0, len(A), 23)),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("solver", "kind"),
    [(solver, kind) for solver in SOLVERS for kind in ("dense", "sparse")] + [("gram", "read once")],
)
def test_as_pca_of_scikit_learn(solver, kind, shape):
    """The randomized solvers on data of low rank, where they are exact."""
    PCA = pytest.importorskip("sklearn.decomposition").PCA
    k, left = 6, kind != "read once"
    A = uneven(*shape, rank=12 if solver in {"spca", "lazy-spca"} else None)
    found = solved(KINDS[kind](A), k, solver, center=True, left=left)
    peer = PCA(n_components=k, svd_solver="full").fit(A)
    np.testing.assert_allclose(found.S, peer.singular_values_, rtol=1e-8)
    turned = np.sign(np.sum(found.Vh * peer.components_, axis=1))[:, None]
    np.testing.assert_allclose(found.Vh, turned * peer.components_, atol=1e-8)
    np.testing.assert_allclose(found.mean, peer.mean_, rtol=1e-12)
    np.testing.assert_allclose(found.explained_variance_ratio, peer.explained_variance_ratio_, rtol=1e-8)
    np.testing.assert_allclose(found.explained_variance, peer.explained_variance_, rtol=1e-8)
    np.testing.assert_allclose(found.total_variance, A.var(axis=0, ddof=1).sum(), rtol=1e-11)
    if left:
        scores = peer.transform(A) * turned.T
        np.testing.assert_allclose(found.U * found.S, scores, atol=1e-8 * peer.singular_values_[0])


@every_solver
@pytest.mark.parametrize("shape", SHAPES)
def test_without_centring_about_zero(solver, shape):
    """All shares add up to one, and that of the first includes the means."""
    A = uneven(*shape)
    found = solved(scipy.sparse.csr_array(A), 40, solver)
    np.testing.assert_allclose(found.total_squares, np.sum(A**2), rtol=1e-12)
    np.testing.assert_allclose(found.explained_variance_ratio.sum(), 1, rtol=1e-7)
    assert (found.explained_variance, found.total_variance, found.rows) == (None, None, shape[0])


@pytest.mark.parametrize("center", [False, True])
def test_products_alone_do_not_tell_it(center):
    """Probes give column norms to about a quarter: nothing to put beside singular values."""
    A = uneven(300, 40)
    problem = ls.SVD(aslinearoperator(A), 3, center=center)
    found = ls.solve(problem, "block-krylov", rng=0, form="implicit")
    assert found.total_squares is None
    assert found.explained_variance_ratio is None
    assert found.total_variance is None
    assert (found.explained_variance is None) == (not center)
    formed = ls.solve(problem, "gram")  # which forms the Gram matrix
    np.testing.assert_allclose(formed.total_squares, np.sum((A - center * A.mean(axis=0)) ** 2))


@every_solver
def test_of_nothing_there_are_no_shares(solver):
    found = solved(np.ones((20, 6)), 2, solver, center=True)
    assert found.total_squares == 0
    assert found.explained_variance_ratio.shape == found.S.shape == (0,)


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
