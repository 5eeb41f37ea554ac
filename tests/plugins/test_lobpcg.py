"""`lobpcg`: planted pairs found on every kind of data, what a sweep is spent on, and the parts that it is made of."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse
from backends import CountingOperator
from planted import planted_cca
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import linspec as ls
from linspec.algebra.preconditioner import preconditioner_from_sketch, raised_diagonal
from linspec.arrays import HOST
from linspec.metrics import subspace_distance
from linspec_cca.search_space import SearchSpace, SubspaceView

RHO = (0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2)
TIED = (0.9, 0.8, 0.8, 0.8, 0.8, 0.3, 0.2)
GEOMETRIC = {"values_x": np.geomspace(3, 1, 80), "values_y": np.geomspace(1, 3, 60)}
NARROW = {"oversample": 4}
"""Few enough columns that the subspaces stay far smaller than the views, and are folded often."""


def planted(rho=RHO, k=4, **options):
    """300 x 80 and 300 x 60."""
    case = planted_cca(300, 80, 60, rho, k, **(GEOMETRIC | options))
    return case.arrays["X"], case.arrays["Y"], case


def products_only(A):
    """A SciPy operator that knows nothing but its products, with a count of them."""
    counts = {"forward": 0, "adjoint": 0}

    def forward(V):
        counts["forward"] += 1
        return A @ V

    def adjoint(U):
        counts["adjoint"] += 1
        return A.T @ U

    operator = LinearOperator(
        shape=A.shape, dtype=A.dtype, matvec=forward, matmat=forward, rmatvec=adjoint, rmatmat=adjoint
    )
    return operator, counts


def same_pairs(found, X, Y, k, atol=1e-9, angle=1e-5, **problem):
    """Correlations and spans are those of `direct`."""
    exact = ls.solve(ls.CCA(X, Y, k, **problem), "direct")
    np.testing.assert_allclose(found.correlations, exact.correlations, atol=atol)
    ridge = problem.get("ridge", 0.0)
    ridges = ridge if isinstance(ridge, tuple) else (ridge, ridge)
    for A, name, r in zip((X, Y), ("x_weights", "y_weights"), ridges, strict=True):
        A = A - A.mean(axis=0) * problem.get("center", True)
        S = A.T @ A + r * np.eye(A.shape[1])
        assert subspace_distance(getattr(found, name), getattr(exact, name), metric=S) < angle


# ---- right answers --------------------------------------------------------------------------------


@pytest.mark.parametrize("center", [True, False], ids=["centred", "uncentred"])
@pytest.mark.parametrize("form", ["implicit", "dense"])
@pytest.mark.parametrize("wrap", [np.asarray, scipy.sparse.csr_array, aslinearoperator])
@pytest.mark.slow(keep=4)
def test_planted_pairs_on_every_kind_of_data(wrap, form, center):
    X, Y, case = planted(center=center)
    problem = ls.CCA(wrap(X), wrap(Y), 4, center=center)
    found = ls.solve(problem, "lobpcg", rng=0, form=form, tol=1e-12, **NARROW)
    assert found.status is ls.Status.CONVERGED
    np.testing.assert_allclose(found.correlations, case.truth["correlations"], atol=1e-9)
    same_pairs(found, X, Y, 4, center=center)


def test_a_sparse_gram_is_the_same():
    rng = np.random.default_rng(0)
    X, Y = (scipy.sparse.random_array((400, p), density=0.05, rng=rng).tocsr() for p in (60, 50))
    Y = scipy.sparse.csr_array(Y + 0.7 * X[:, :50])
    found = ls.solve(
        ls.CCA(X, Y, 3, ridge=0.1, center=False), "lobpcg", form="sparse", rng=0, tol=1e-12, **NARROW
    )
    assert found.passes == 1
    same_pairs(found, X.toarray(), Y.toarray(), 3, ridge=0.1, center=False)


def test_every_form_goes_the_same_way():
    """Equal products give equal iterates, through many folds."""
    X, Y, _ = planted(k=3)
    sparse = scipy.sparse.csr_array(X), scipy.sparse.csr_array(Y)
    paths = [
        ls.solve(
            ls.CCA(*views, 3, center=False, ridge=0.1), "lobpcg", form=form, rng=0, oversample=2, depth=3
        ).history
        for views, form in ((sparse, "implicit"), (sparse, "sparse"), (sparse, "dense"), ((X, Y), "implicit"))
    ]
    for path in paths:
        assert len(path) > 10
        np.testing.assert_allclose(path["residual"][:10], paths[0]["residual"][:10], rtol=1e-5)


@pytest.mark.parametrize("form", ["implicit", "dense"])
def test_float32_data(form):
    X, Y, _ = planted()
    single = X.astype(np.float32), Y.astype(np.float32)
    found = ls.solve(ls.CCA(*single, 4), "lobpcg", rng=0, form=form, **NARROW)
    assert found.x_weights.dtype == np.float32
    assert found.status is ls.Status.CONVERGED
    same_pairs(found, *(A.astype(np.float64) for A in single), 4, atol=1e-4, angle=2e-2)


@pytest.mark.parametrize("oversample", [15, 25, 56])
def test_what_a_whole_subspace_leaves_of_a_block_is_rounding(oversample):
    """With float32 data it is long, and is not reported as columns that depend on others."""
    X, Y, _ = planted()
    problem = ls.CCA(X.astype(np.float32), Y.astype(np.float32), 4)
    found = ls.solve(problem, "lobpcg", rng=0, form="implicit", oversample=oversample)
    assert found.status is ls.Status.CONVERGED
    np.testing.assert_allclose(found.correlations, RHO[:4], atol=1e-5)


@pytest.mark.parametrize("ridge", [0.3, (0.5, 2.0), (0.0, 1.0), (10.0, 0.0)])
def test_ridges_of_both_views(ridge):
    X, Y, case = planted(ridge=ridge)
    found = ls.solve(ls.CCA(X, Y, 4, ridge=ridge), "lobpcg", rng=0, form="implicit", tol=1e-12, **NARROW)
    np.testing.assert_allclose(found.correlations, case.truth["correlations"], atol=1e-9)
    same_pairs(found, X, Y, 4, ridge=ridge)


@pytest.mark.parametrize("form", ["implicit", "dense"])
@pytest.mark.parametrize("condition", [1e2, 1e4, 1e8])
@pytest.mark.slow(keep=2)
def test_units_of_columns_do_not_matter(condition, form):
    """Columns from 1 to 1/condition long: what a scaling mends costs nothing."""
    X, Y, _ = planted()
    units = np.geomspace(1, 1 / condition, 80), np.geomspace(1 / condition, 1, 60)
    views = X * units[0], Y * units[1]
    plain = ls.solve(ls.CCA(X, Y, 4, center=False), "lobpcg", rng=0, form=form, tol=1e-10, **NARROW)
    found = ls.solve(ls.CCA(*views, 4, center=False), "lobpcg", rng=0, form=form, tol=1e-10, **NARROW)
    assert found.converged
    assert found.iterations <= plain.iterations + 10
    np.testing.assert_allclose(found.correlations, plain.correlations, atol=1e-8)
    ridge = 1e-9 / condition
    found = ls.solve(
        ls.CCA(*views, 4, center=False, ridge=ridge), "lobpcg", rng=0, form=form, tol=1e-10, **NARROW
    )
    exact = ls.solve(ls.CCA(*views, 4, center=False, ridge=ridge), "direct")
    np.testing.assert_allclose(found.correlations, exact.correlations, atol=1e-7)


# ---- hard spectra ---------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("oversample", [0, 2, 15])
@pytest.mark.slow(keep=3)
def test_all_copies_of_a_correlation_are_found(k, oversample):
    """Four equal ones; with k = 2 and 3 there is no gap behind the last, with k = 5 there is one."""
    X, Y, _ = planted(TIED, k)
    for seed in range(3):
        found = ls.solve(
            ls.CCA(X, Y, k), "lobpcg", rng=seed, form="implicit", oversample=oversample, tol=1e-10
        )
        np.testing.assert_allclose(found.correlations, TIED[:k], atol=1e-7)
        if k == 5:
            same_pairs(found, X, Y, 5, atol=1e-7, angle=1e-3)


@pytest.mark.parametrize("form", ["implicit", "dense"])
@pytest.mark.parametrize("oversample", [0, 4, 20, None])
def test_duplicate_columns_change_nothing(form, oversample):
    """Also where the block is nearly as wide as the rank, and all that is left beside the subspace is rounding."""
    X, Y, case = planted(values_x=np.geomspace(3, 1, 60), values_y=np.geomspace(1, 3, 50))
    options = {"form": form, "oversample": oversample, "tol": 1e-10}
    for seed in range(2):
        twice = np.hstack([X, X[:, :10]]), np.hstack([Y, Y[:, :10]])
        found = ls.solve(ls.CCA(*twice, 4), "lobpcg", rng=seed, **options)
        assert found.converged
        np.testing.assert_allclose(found.correlations, case.truth["correlations"], atol=1e-8)


@pytest.mark.parametrize("form", ["implicit", "dense"])
def test_correlations_of_one_are_found_and_said(form):
    X, Y, _ = planted((1.0, 1.0, 0.8, 0.5, 0.2))
    found = ls.solve(ls.CCA(X, Y, 4), "lobpcg", rng=0, form=form, tol=1e-10, **NARROW)
    np.testing.assert_allclose(found.correlations, [1, 1, 0.8, 0.5], atol=1e-8)
    assert found.status is ls.Status.DEGENERATE
    assert "2 of 4 correlations are 1" in found.message


@pytest.mark.parametrize("ridge", [0.0, 0.5])
@pytest.mark.parametrize("form", ["implicit", "dense"])
def test_columns_of_zeros_get_no_weight(form, ridge):
    X, Y, case = planted(ridge=ridge)
    X, Y = np.insert(X, [0, 7], 0.0, axis=1), np.insert(Y, [3], 2.5, axis=1)  # zero once it is centred
    found = ls.solve(ls.CCA(X, Y, 4, ridge=ridge), "lobpcg", rng=0, form=form, tol=1e-10, **NARROW)
    np.testing.assert_allclose(found.correlations, case.truth["correlations"], atol=1e-8)
    # A ridge makes the weight something to be found, to the tolerance; without one there is nothing to find.
    share = 1e-4 if ridge else 0.0
    assert np.abs(found.x_weights[[0, 8]]).max() <= share * np.abs(found.x_weights).max()
    assert np.abs(found.y_weights[3]).max() <= share * np.abs(found.y_weights).max()


@pytest.mark.parametrize("form", ["implicit", "dense"])
@pytest.mark.parametrize("k", [5, 6, 9, 12])
def test_no_more_pairs_than_the_rank(k, form):
    """Rank 9 of both: k below it, k + oversampling above it, k at it, and k above it."""
    values = {"values_x": np.geomspace(3, 1, 9), "values_y": np.geomspace(1, 3, 9)}
    X, Y, _ = planted(RHO, k, **values)
    found = ls.solve(ls.CCA(X, Y, k), "lobpcg", rng=0, form=form, tol=1e-10, **NARROW)
    np.testing.assert_allclose(found.correlations, RHO[: min(k, 9)], atol=1e-8)
    if k > 9:
        assert found.status is ls.Status.RANK_DEFICIENT
        assert "9 of the 12 asked for are returned" in found.message


def test_stopped_early_it_is_honest():
    """Correlations below the exact ones, each within its bound of one of them, a residual near the loss."""
    X, Y, _ = planted(ridge=1.0)
    exact = ls.solve(ls.CCA(X, Y, 60, ridge=1.0), "gram").correlations
    for stop in (1, 2, 3, 5, 8):
        options = {"form": "implicit", "max_iterations": stop, "tol": 1e-14, **NARROW}
        with pytest.warns(ls.errors.ConvergenceWarning):
            found = ls.solve(ls.CCA(X, Y, 4, ridge=1.0), "lobpcg", rng=0, **options)
        assert found.status is ls.Status.ITERATION_LIMIT
        assert (found.correlations <= exact[:4] + 1e-12).all()
        apart = np.abs(found.correlations[:, None] - exact).min(axis=1)
        assert (apart <= found.bounds + 1e-12).all()
        loss = 1 - found.correlations.sum() / exact[:4].sum()
        assert loss <= 10 * found.residual + 1e-13


# ---- what it costs --------------------------------------------------------------------------------


def test_one_forward_and_one_adjoint_product_a_view_and_iteration():
    """Two more products: with the first block, which gives the diagonals as well, and for the certificate."""
    X, Y, case = planted(center=False)
    (A, seen), (B, seen_too) = products_only(X), products_only(Y)
    found = ls.solve(ls.CCA(A, B, 4, center=False), "lobpcg", rng=0, form="implicit", **NARROW)
    np.testing.assert_allclose(found.correlations, case.truth["correlations"], atol=1e-4)
    assert found.converged
    assert found.iterations > 5
    for counts in (seen, seen_too):
        assert counts == {"forward": found.iterations + 2, "adjoint": found.iterations + 2}
    assert found.passes == 2 * (found.iterations + 2)


def test_one_sweep_an_iteration():
    X, Y, _ = planted(center=False)
    views = [CountingOperator(A, sliceable=True, readable=True) for A in (X, Y)]
    found = ls.solve(ls.CCA(*views, 4, center=False), "lobpcg", rng=0, form="implicit", **NARROW)
    assert found.iterations > 5
    assert found.passes == found.iterations + 2
    for view in views:
        assert view.passes == pytest.approx(found.passes)


@pytest.mark.parametrize(("dtype", "most"), [("float32", 7.15), ("float64", 14.3)])
@pytest.mark.slow
def test_memory_is_that_of_the_blocks_certificate_included(dtype, most):
    """At most 1.1 · (9m + 2m · 2 threads) numbers a column, in units of m float64 numbers."""
    p, k, m = 12_000, 20, 70
    views = ls.datasets.planted_word_views(0, n=4000, p=p, q=p, per_row=20, dtype=dtype)
    options = {"form": "implicit", "oversample": m - k, "max_iterations": 8, "rng": 0}
    tracemalloc.start()
    try:
        s = ls.solve(ls.CCA(views.X, views.Y, k, ridge=200.0, center=False), "lobpcg", tol=1e-3, **options)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert s.converged
    assert s.x_weights.dtype == dtype
    assert peak <= most * 8 * 2 * p * m


@pytest.mark.parametrize("center", [True, False])
def test_one_pass_in_all_where_gram_matrices_are_held(center):
    X, Y, _ = planted(center=center)
    views = [CountingOperator(A, sliceable=True, readable=True) for A in (X, Y)]
    found = ls.solve(ls.CCA(*views, 4, center=center), "lobpcg", rng=0, form="dense", **NARROW)
    assert found.passes == 1
    for view in views:
        assert view.passes == pytest.approx(1)


def test_begun_at_the_answer_it_is_done_at_once():
    X, Y, _ = planted(center=False, ridge=1.0)
    problem = ls.CCA(X, Y, 4, center=False, ridge=1.0)
    exact = ls.solve(problem, "direct")
    found = ls.solve(problem, "lobpcg", rng=0, start=exact, form="implicit", **NARROW)
    # One sweep shows that the correlations gain nothing more.
    assert found.iterations <= 1
    assert found.passes == found.iterations + 2
    np.testing.assert_allclose(found.correlations, exact.correlations, atol=1e-12)
    # Of another ridge it is near; and of fewer pairs, or more, some are there.
    other = ls.CCA(X, Y, 4, center=False, ridge=0.8)
    warm, cold = (
        ls.solve(other, "lobpcg", rng=0, start=s, form="implicit", tol=1e-8, **NARROW) for s in (exact, None)
    )
    assert warm.iterations < cold.iterations
    for k in (2, 20):
        given = ls.solve(ls.CCA(X, Y, k, center=False, ridge=1.0), "direct")
        again = ls.solve(problem, "lobpcg", rng=0, start=given, form="implicit", tol=1e-10, **NARROW)
        np.testing.assert_allclose(again.correlations, exact.correlations, atol=1e-8)


# ---- parts ----------------------------------------------------------------------------------------


def spread(P, S):
    """The least and the largest eigenvalue of P⁻¹S."""
    values = np.linalg.eigvals(P.solve(S.copy())).real
    return values.min(), values.max()


@pytest.mark.parametrize("ridge", [0.0, 1.0])
def test_low_rank_and_diagonal_are_inverted_together(ridge):
    """No scaling of columns helps there: the condition falls from thousands to a few."""
    rng = np.random.default_rng(0)
    U = np.linalg.qr(rng.standard_normal((200, 8)))[0]
    S = (U * np.geomspace(1e4, 1e2, 8)) @ U.T + np.diag(rng.uniform(0.5, 2, 200))
    Omega = rng.choice([-1.0, 1.0], (200, 30))
    full = S + ridge * np.eye(200)
    P = preconditioner_from_sketch(Omega, full @ Omega, ridge, np.diag(S), None, HOST)
    jacobi = preconditioner_from_sketch(Omega, full @ Omega, ridge, np.diag(S), 0, HOST)
    assert P.rank >= 8
    assert jacobi.rank == 0
    least, largest = spread(P, full)
    assert largest / least < 12
    least, largest = spread(jacobi, full)
    assert largest / least > 100


def test_exact_low_rank_and_ridge_are_inverted_exactly():
    """Nyström's approximation of what has the rank of the sketch is exact."""
    rng = np.random.default_rng(0)
    F = rng.standard_normal((100, 6)) * np.geomspace(100, 10, 6)
    S, Omega = F @ F.T, rng.standard_normal((100, 10))
    full = S + np.eye(100)
    P = preconditioner_from_sketch(Omega, full @ Omega, 1.0, np.diag(S), None, HOST)
    least, largest = spread(P, full)
    # The share of the diagonal that is always left adds to the ridge.
    assert 1 / (1 + 2e-4 * np.diag(S).max()) < least
    assert largest < 1 + 1e-6


def test_orthogonal_columns_are_merely_scaled():
    rng = np.random.default_rng(0)
    d = rng.uniform(1, 3, 500)
    Omega, R = rng.choice([-1.0, 1.0], (500, 20)), rng.standard_normal((500, 4))
    P = preconditioner_from_sketch(Omega, d[:, None] * Omega, 0.0, d, None, HOST)
    assert P.rank == 0
    np.testing.assert_allclose(P.solve(R.copy()), R / d[:, None])


def test_diagonals_from_signs_are_upper_estimates():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 300)) * np.geomspace(1, 1e-3, 300)
    X[:, 1:] += 0.3 * X[:, :-1]
    S = X.T @ X
    signs = rng.choice([-1.0, 1.0], (300, 60))
    found = raised_diagonal(signs, S @ signs + 2.0 * signs, 2.0, HOST)
    assert np.mean(found >= np.diag(S)) > 0.9
    assert np.median(found / np.diag(S)) < 10
    # For columns without common rows one sign gives the exact value.
    d = rng.uniform(1, 5, 300)
    np.testing.assert_allclose(raised_diagonal(signs, d[:, None] * signs, 0.0, HOST), d)
    d[3] = 0.0
    assert raised_diagonal(signs, d[:, None] * signs, 0.0, HOST)[3] == 0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_subspaces_stay_orthonormal(dtype):
    """Over forty folds, in S; products stay those of the vectors, and Ritz values never fall (Courant & Fischer)."""
    rng = np.random.default_rng(0)
    X, Y, _ = planted(values_x=np.geomspace(30, 1, 80), values_y=np.geomspace(1, 30, 60))
    Sx, Sy, C = X.T @ X, Y.T @ Y, X.T @ Y
    tiny = np.finfo(dtype).eps
    views = tuple(SubspaceView(HOST, np.dtype(dtype), np.diag(S).copy(), 100 * tiny) for S in (Sx, Sy))
    space, before = SearchSpace(views), np.zeros(3)
    for step in range(60):
        if step >= 2:
            space.shrink(6)
        Zx, Zy = space.directions([rng.standard_normal((v.rows, 6)) for v in views])
        space.append([Zx, Zy], [Sx @ Zx, C @ Zy, C.T @ Zx, Sy @ Zy])
        for view, S in zip(views, (Sx, Sy), strict=True):
            W = view.coordinates
            Q, SQ = view.combined([(0, W)]), view.combined([(1, W)])
            assert W.shape[1] == view.columns
            np.testing.assert_allclose(Q.T @ S @ Q, np.eye(W.shape[1]), atol=2e4 * tiny)
            np.testing.assert_allclose(SQ, S @ Q, atol=2e4 * tiny * np.abs(SQ).max())
        assert (space.correlations[:3] >= before - 1e3 * tiny).all()
        before = space.correlations[:3]
    exact = ls.solve(ls.CCA(X, Y, 3, center=False), "gram").correlations
    assert (before <= exact + 1e4 * tiny).all()


def test_what_lies_in_the_subspace_is_no_direction():
    rng = np.random.default_rng(0)
    S = np.diag(rng.uniform(1, 2, 50))
    view = SubspaceView(HOST, np.dtype(np.float64), np.diag(S).copy(), 1e-14)
    Z = view.directions(rng.standard_normal((50, 5)), view.coordinates)
    view.append([Z, S @ Z, np.zeros((50, 5))], *view.measured(Z, S @ Z))
    some = np.hstack([Z @ rng.standard_normal((5, 3)), rng.standard_normal((50, 1))])
    again = view.directions(some, view.coordinates)
    assert (again[:, :3] == 0).all()
    assert np.sqrt(np.sum(again[:, 3] ** 2 * np.diag(S))) == pytest.approx(1)
    assert np.abs(Z.T @ S @ again).max() < 1e-12
