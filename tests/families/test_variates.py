"""`transform`, `score` and `supported` of CCA solutions, on rows that were not fitted and on all kinds of them."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg

import linspec as ls
from linspec.arrays import to_host
from linspec.errors import InvalidProblem, MissingCapability, NonFiniteData, UnsupportedData

N = 400
FITTED, NEW = slice(0, 300), slice(300, N)


@pytest.fixture(scope="module")
def views():
    """Sparse enough to be worth it, with means far from zero."""
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((N, 3))
    X = shared @ rng.standard_normal((3, 8)) + rng.standard_normal((N, 8)) + 4.0
    Y = shared @ rng.standard_normal((3, 6)) + rng.standard_normal((N, 6)) - 3.0
    return np.where(X > 3, X, 0.0), np.where(Y < -2, Y, 0.0)


@pytest.fixture(scope="module", params=[True, False], ids=["centred", "uncentred"])
def solution(views, request):
    X, Y = views
    return ls.solve(ls.CCA(X[FITTED], Y[FITTED], k=3, ridge=1.0, center=request.param), "gram")


def oracle(solution, views, rows=NEW):
    """Variates of dense rows, centred by subtraction of the training means."""
    X, Y = (view[rows] for view in views)
    if solution.x_mean is not None:
        X, Y = X - views[0][FITTED].mean(axis=0), Y - views[1][FITTED].mean(axis=0)
    return X @ solution.x_weights, Y @ solution.y_weights


def slices(A):
    return lambda: (A[a : a + 30] for a in range(0, len(A), 30))


KINDS = {
    "numpy": np.asarray,
    "float32": lambda A: A.astype(np.float32),
    "fortran": np.asfortranarray,
    "csr": scipy.sparse.csr_array,
    "csc": scipy.sparse.csc_matrix,
    "strict": array_api_strict.asarray,
    "device": lambda A: array_api_strict.asarray(A, device=array_api_strict.Device("device1")),
    "operator": scipy.sparse.linalg.aslinearoperator,
    "slices": slices,
    "once": lambda A: iter([A[:20], A[20:]]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_rows_gives_the_same_variates_and_scores(solution, views, kind):
    X, Y = (KINDS[kind](view[NEW]) for view in views)
    P, Q = oracle(solution, views)
    exact = np.sum(P * Q, axis=0) / np.linalg.norm(P, axis=0) / np.linalg.norm(Q, axis=0)
    total = np.cos(scipy.linalg.subspace_angles(P, Q)).sum()
    close = 1e-5 if kind == "float32" else 1e-12
    if kind != "once":
        U, V = solution.transform(X, Y)
        np.testing.assert_allclose(to_host(U), P, atol=close)
        np.testing.assert_allclose(to_host(V), Q, atol=close)
        assert to_host(solution.transform(Y=Y)).dtype == (np.float32 if kind == "float32" else np.float64)
    score = solution.score(X, Y)
    np.testing.assert_allclose(score.correlations, exact, atol=close)
    assert score.total == pytest.approx(total, abs=close)
    assert score.rows == N - FITTED.stop
    assert type(score.correlations) is np.ndarray
    assert type(score.total) is float


def test_the_total_is_of_the_best_rotation(solution, views):
    """It does not depend on how the columns are turned; the correlations of the pairs do."""
    import dataclasses

    rng = np.random.default_rng(1)
    turns = [np.linalg.qr(rng.standard_normal((3, 3)))[0] * [1.0, 2.0, 30.0] for _ in range(2)]
    turned = dataclasses.replace(
        solution, x_weights=solution.x_weights @ turns[0], y_weights=solution.y_weights @ turns[1]
    )
    before, after = (s.score(*(view[NEW] for view in views)) for s in (solution, turned))
    assert after.total == pytest.approx(before.total, abs=1e-12)
    assert np.abs(after.correlations - before.correlations).max() > 0.1


def test_a_pair_found_by_chance_may_go_the_other_way():
    """Signs are kept: a mean of absolute values would call noise a correlation."""
    rng = np.random.default_rng(0)
    signs = []
    for _ in range(30):
        X, Y = rng.standard_normal((60, 5)), rng.standard_normal((60, 5))
        solution = ls.solve(ls.CCA(X[:30], Y[:30], k=1), "direct")
        assert solution.correlations[0] > 0.4
        signs.append(np.sign(solution.score(X[30:], Y[30:]).correlations[0]))
    assert 5 <= signs.count(-1.0) <= 25


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_variates_that_do_not_vary_correlate_with_nothing(views, dtype):
    X, Y = (view.astype(dtype) for view in views)
    solution = ls.solve(ls.CCA(X[FITTED], Y[FITTED], k=3, ridge=1.0), "gram")
    constant = np.repeat(X[310:311], N - FITTED.stop, axis=0)
    for rows in (constant, scipy.sparse.csr_array(constant)):
        score = solution.score(rows, Y[NEW])
        np.testing.assert_array_equal(score.correlations, 0.0)
        assert score.total == 0.0
    single = solution.score(X[310:311], Y[310:311])
    np.testing.assert_array_equal(single.correlations, 0.0)
    assert single.rows == 1


def test_what_cannot_be_scored_is_said(views):
    X, Y = views
    solution = ls.solve(ls.CCA(X, Y, k=3, ridge=1.0), "gram")
    with pytest.raises(InvalidProblem, match="X must have the 8 columns of the training data; got 6"):
        solution.score(Y, Y)
    with pytest.raises(InvalidProblem, match="equally many rows; got 10 and 9"):
        solution.score(X[:10], Y[:9])
    with pytest.raises(InvalidProblem, match="must have rows"):
        solution.score(X[:0], Y[:0])
    with pytest.raises(InvalidProblem, match="rows of both views"):
        solution.score(X, None)
    with pytest.raises(InvalidProblem, match="takes rows of X, Y"):
        solution.transform()
    bad = X.copy()
    bad[3, 2] = np.nan
    with pytest.raises(NonFiniteData, match="X must be finite; got nan at row 3, column 2"):
        solution.score(bad, Y)
    with pytest.raises(UnsupportedData, match="one library and device"):
        solution.score(array_api_strict.asarray(X), Y)


# ---- loadings ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("operator", "once")])
def test_loadings_are_correlations_of_columns_with_variates(solution, views, kind):
    close = 1e-5 if kind == "float32" else 1e-12
    W = np.asarray(solution.x_weights), np.asarray(solution.y_weights)
    exact = []
    for view, weights in zip(views, W, strict=True):
        A = view[NEW] - view[NEW].mean(axis=0) * (solution.x_mean is not None)
        U = A @ weights
        exact.append(A.T @ U / np.outer(np.linalg.norm(A, axis=0), np.linalg.norm(U, axis=0)))
    found = solution.loadings(*(KINDS[kind](view[NEW]) for view in views))
    for ours, theirs in zip(found, exact, strict=True):
        np.testing.assert_allclose(to_host(ours), theirs, atol=close)
    one = solution.loadings(Y=KINDS[kind](views[1][NEW]))
    np.testing.assert_array_equal(to_host(one), to_host(found[1]))
    assert to_host(one).dtype == (np.float32 if kind == "float32" else np.float64)


def test_loadings_of_what_does_not_vary_are_zero(views):
    X, Y = views
    solution = ls.solve(ls.CCA(X, Y, k=2, ridge=1.0), "gram")
    still = X.copy()
    still[:, 3] = 0.1
    found = solution.loadings(still)
    np.testing.assert_array_equal(found[3], 0.0)
    assert (np.abs(np.delete(found, 3, axis=0)).max(axis=0) > 0.1).all()
    np.testing.assert_array_equal(solution.loadings(np.full_like(X, 0.1)), 0.0)
    with pytest.raises(InvalidProblem, match="X must have the 8 columns"):
        solution.loadings(Y)
    with pytest.raises(InvalidProblem, match="got none"):
        solution.loadings()
    with pytest.raises(MissingCapability, match="lengths of the columns"):
        solution.loadings(scipy.sparse.linalg.aslinearoperator(X))


# ---- pairs that the certificate supports ------------------------------------------------------------


def test_supported_pairs_are_exact_ones_however_early_the_run_ended():
    """The i-th exact correlation is above the level for each of the pairs counted: seeds, budgets and levels."""
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((500, 6)) * np.geomspace(2, 0.3, 6)
    X = shared @ rng.standard_normal((6, 40)) + rng.standard_normal((500, 40))
    Y = shared @ rng.standard_normal((6, 30)) + rng.standard_normal((500, 30))
    for ridge in (0.0, 20.0):
        exact = ls.solve(ls.CCA(X, Y, 8, ridge=ridge), "direct").correlations
        counts = []
        for passes in (6, 15, 60):
            problem = ls.CCA(X, Y, 8, ridge=ridge)
            found = ls.solve(problem, "als", rng=0, form="implicit", max_passes=passes, tol=1e-13)
            assert found.residual == pytest.approx(
                found.residuals.sum() / found.correlations.sum(), rel=1e-12
            )
            for level in (0.2, 0.5, 0.8):
                assert (exact[: found.supported(level)] > level).all()
            counts.append(found.supported(0.5))
        assert counts == sorted(counts)
        assert counts[-1] == int(np.sum(exact > 0.5)) > 0
