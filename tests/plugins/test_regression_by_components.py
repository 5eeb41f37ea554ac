"""Partial least squares against peers and Krylov spaces in long double; reduced-rank regression by its definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from planted import orthonormal

import linspec as ls
from linspec.errors import InvalidProblem, UnsupportedData

PLS, PLSRegression = ls.get_problem("pls"), ls.get_problem("pls-regression")


def views(n: int, p: int, q: int, seed: int = 0) -> tuple[Any, Any]:
    """Views with five common causes, columns of different sizes, and means."""
    rng = np.random.default_rng(seed)
    causes = rng.standard_normal((n, 5)) * [3, 2, 1.5, 1.2, 1]
    return tuple(
        (causes @ rng.standard_normal((5, m)) + rng.standard_normal((n, m))) * rng.uniform(0.2, 4, m) + 3
        for m in (p, q)
    )


def with_cross_values(n: int, p: int, q: int, s: Any) -> tuple[Any, Any]:
    """Views whose cross product has these singular values."""
    rng, m = np.random.default_rng(1), len(s)
    Q = orthonormal(rng, n, m) * np.sqrt(s)
    return Q @ orthonormal(rng, p, m).T, Q @ orthonormal(rng, q, m).T


def test_the_basis_is_restarted() -> None:
    """Singular values without a gap need more steps than a small basis holds."""
    s = np.linspace(2, 1, 100)
    problem = PLS(*with_cross_values(300, 120, 110, s), 3, center=False)
    found = ls.solve(problem, "block-krylov", rng=0, block=4, basis=20, tol=1e-9)
    np.testing.assert_allclose(found.singular_values, s[:3], rtol=1e-12)
    assert found.iterations > 5


@pytest.mark.parametrize(("solver", "count"), [("gram", 6), ("block-krylov", 4)])
def test_small_singular_values_keep_their_digits(solver: str, count: int) -> None:
    """A method that squares XᵀY, as "block-krylov" does, finds nothing below 1e-8 of the largest."""
    s = 10.0 ** -np.arange(0, 12, 2)
    found = ls.solve(PLS(*with_cross_values(80, 12, 10, s), count, center=False), solver, rng=0)
    np.testing.assert_allclose(found.singular_values, s[:count], rtol=1e-3)


@pytest.mark.parametrize("solver", ["gram", "block-krylov"])
def test_weights_of_values_far_below_the_first_are_orthonormal(solver: str) -> None:
    s = np.array([1.0, 1e-9, 3e-10])
    found = ls.solve(PLS(*with_cross_values(80, 7, 3, s), 3, center=False), solver, rng=0)
    np.testing.assert_allclose(found.singular_values, s, rtol=1e-5)
    for W in (found.x_weights, found.y_weights):
        np.testing.assert_allclose(W.T @ W, np.eye(3), atol=1e-12)


@pytest.mark.parametrize("seed", [0, 3])
def test_values_that_rounding_of_narrow_entries_may_hide_are_spoken_of(seed: int) -> None:
    """A third value of 2e-3 of the first, beside confounds that explain all but a thousandth of the squares."""
    rng = np.random.default_rng(seed)
    U, Z = np.linalg.qr(rng.standard_normal((40, 4)))[0], rng.standard_normal((40, 1))
    U = U - Z @ np.linalg.lstsq(Z, U, rcond=None)[0]
    X, Y = U + 5 * Z, U[:, :3] * [1, 0.1, 2e-3] + 0.2 * Z
    narrow = ls.solve(PLS(X.astype(np.float32), Y.astype(np.float32), 3, center=False, confounds=Z), "gram")
    assert narrow.singular_values.shape == (2,)
    assert narrow.status is ls.Status.ILL_CONDITIONED
    assert "Rounding hides" in narrow.message
    right = np.linalg.svd(U.T @ (U[:, :3] * [1, 0.1, 2e-3]), compute_uv=False)
    found = ls.solve(PLS(X, Y, 3, center=False, confounds=Z), "gram")
    assert found.converged
    np.testing.assert_allclose(found.singular_values, right, rtol=1e-10)


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("solver", ["gram", "nipals"])
@pytest.mark.parametrize("columns", [1, 8])
def test_regression_is_that_of_scikit_learn(solver: str, columns: int, scale: bool) -> None:
    reference = pytest.importorskip("sklearn.cross_decomposition").PLSRegression
    X, Y = views(150, 30, columns)
    new = views(20, 30, columns, seed=1)[0]
    ours = ls.solve(PLSRegression(X, Y, k=10, scale=scale), solver)
    assert ours.converged
    for k in (1, 4, 10):
        theirs = reference(k, scale=scale, tol=1e-30, max_iter=20_000).fit(X, Y)
        right = theirs.predict(new).reshape(20, columns)
        np.testing.assert_allclose(ours.predict(new, k=k), right, rtol=0, atol=1e-10 * np.abs(right).max())
        wanted = theirs.coef_.reshape(columns, 30).T
        np.testing.assert_allclose(ours.coefficients(k), wanted, atol=1e-10 * np.abs(wanted).max())
    np.testing.assert_allclose(ours.x_weights, theirs.x_weights_, atol=1e-10)


def test_planted_factors_are_chosen_in_one_pass() -> None:
    rng = np.random.default_rng(3)
    factors = rng.standard_normal((300, 3)) * [3, 2, 1]
    X, Y = (
        factors @ rng.standard_normal((3, m)) + 0.1 * rng.standard_normal((300, m)) + rng.uniform(-1, 1, m)
        for m in (50, 4)
    )
    found = ls.cross_validate(PLSRegression(X, Y, k=8), ks=range(1, 9), rng=0, form="dense")
    assert found.passes == 1
    assert found.one_standard_error.k == 3
    solved = ls.cross_validate(PLSRegression(X, Y, k=8), ks=range(1, 9), rng=0, form="solve")
    np.testing.assert_allclose(found.scores, solved.scores, rtol=1e-9)


@pytest.mark.parametrize("solver", ["gram", "nipals"])
def test_fewer_components_where_y_is_used_up(solver: str) -> None:
    """y lies in the span of two eigenvectors of XᵀX, so its Krylov space has two dimensions."""
    Q = orthonormal(np.random.default_rng(6), 50, 5)
    problem = PLSRegression(Q * [5.0, 4.0, 3.0, 2.0, 1.0], Q[:, 0] + Q[:, 3], k=4, center=False)
    found = ls.solve(problem, solver)
    assert found.status is ls.Status.RANK_DEFICIENT
    np.testing.assert_allclose(found.coefficients(), [1 / 5, 0, 0, 1 / 2, 0], atol=1e-12)


@pytest.mark.parametrize("form", ["auto", "dense", "implicit"])
@pytest.mark.parametrize("seed", [178, 1])
def test_nipals_ends_where_there_are_no_more_components(seed: int, form: str) -> None:
    rng = np.random.default_rng(seed)
    _ = rng.choice([4, 5, 6, 8]), rng.choice([2, 3]), rng.integers(1, 3)
    X, y = rng.standard_normal((6, 1)) @ rng.standard_normal((1, 3)), rng.standard_normal((6, 1))
    problem = PLSRegression(X, y, k=3, sample_weight=10.0 ** rng.uniform(-6, 6, 6))
    found = ls.solve(problem, "nipals", form=form, max_seconds=20)
    assert (found.status, len(found.covariances)) == (ls.Status.RANK_DEFICIENT, 1)
    assert found.iterations < 5
    np.testing.assert_allclose(found.covariances, ls.solve(problem, "gram").covariances, rtol=1e-8)


def krylov(X: Any, y: Any, count: int) -> Any:
    """An orthonormal basis of the span of Xᵀy, XᵀX Xᵀy, ..., in extended precision: the weights of PLS of one y."""
    found: list[Any] = []
    w, X = X.T.astype(np.longdouble) @ y, X.astype(np.longdouble)
    for _ in range(count):
        for v in 2 * found:
            w = w - v * (v @ w)
        found.append(w / np.sqrt(w @ w))
        w = X.T @ (X @ found[-1])
    return np.column_stack(found)


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="extended precision judges")
@pytest.mark.parametrize("solver", ["gram", "nipals"])
@pytest.mark.parametrize(
    ("fall", "expected"),
    [(4.0, ("CONVERGED", 8)), (30.0, ("ILL_CONDITIONED", 8)), (100.0, ("ILL_CONDITIONED", 7))],
)
def test_components_far_below_the_first_are_right_or_left_out(
    solver: str, fall: float, expected: Any
) -> None:
    """Columns of falling size leave late components few digits; what is lost is said."""
    Q = orthonormal(np.random.default_rng(7), 60, 8)
    X, y = Q * fall ** -np.arange(8), Q.sum(axis=1)
    found = ls.solve(PLSRegression(X, y, k=8, center=False), solver)
    assert (found.status.name, found.x_weights.shape[1]) == expected
    exact = krylov(X, y, expected[1]).astype(np.float64)
    np.testing.assert_allclose(np.abs(found.x_weights), np.abs(exact), atol=1e-14)


# ---- reduced rank ------------------------------------------------------------------------------


ReducedRankRegression = ls.get_problem("reduced-rank-regression")

each_solver = pytest.mark.parametrize("solver", ["direct", "two-stage"])


def data(n: int = 200, p: int = 12, m: int = 8, rank: int = 3) -> tuple[Any, Any]:
    """Rows whose right-hand sides share a few combinations of the columns, with noise and means."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p)) * rng.uniform(0.3, 3, p) + 2
    Y = X @ rng.standard_normal((p, rank)) @ rng.standard_normal((rank, m)) + 3 * rng.standard_normal((n, m))
    return X, Y - 1


def by_definition(X: Any, Y: Any, k: int, ridge: float, center: bool = True) -> Any:
    """The full fit, with the ridge as more rows, projected on its leading right singular vectors."""
    X, Y = (A - A.mean(axis=0) if center else A for A in (X, Y))
    p, m = X.shape[1], Y.shape[1]
    X, Y = np.vstack([X, np.sqrt(ridge) * np.eye(p)]), np.vstack([Y, np.zeros((p, m))])
    full = np.linalg.lstsq(X, Y, rcond=None)[0]
    V = np.linalg.svd(X @ full, full_matrices=False)[2][:k].T
    return full @ V @ V.T


def solved(problem: Any, solver: str) -> Any:
    return ls.solve(problem, solver, rng=0, **({"tol": 1e-12} if solver == "two-stage" else {}))


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize(
    ("shape", "ridge"),
    [
        ((200, 12, 8), 0.0),
        ((100, 12, 400), 0.0),
        ((60, 300, 8), 4.0),
        ((40, 90, 120), 4.0),
    ],
)
@each_solver
def test_coefficients_are_those_of_the_definition(
    solver: str, shape: Any, center: bool, ridge: float
) -> None:
    X, Y = data(*shape)
    found = solved(ReducedRankRegression(X, Y, 4, ridge, center=center), solver)
    for k in range(1, 5):
        right = by_definition(X, Y, k, ridge, center)
        np.testing.assert_allclose(found.coefficients(k), right, rtol=0, atol=1e-9 * np.abs(right).max())


def test_at_ridge_0_dependent_columns_share_their_coefficients() -> None:
    """Of two equal columns each has half of the coefficient in the solution of least norm."""
    X, Y = data()
    twice = np.hstack([X, X[:, :1]])
    one, two = (ls.solve(ReducedRankRegression(A, Y, 3)) for A in (X, twice))
    right = one.coefficients()
    np.testing.assert_allclose(two.predict(twice), one.predict(X), atol=1e-9)
    for row in (0, -1):
        np.testing.assert_allclose(two.coefficients()[row] * 2, right[0], atol=1e-8 * np.abs(right).max())
    assert two.status is ls.Status.RANK_DEFICIENT


@each_solver
def test_the_next_singular_value_shows_the_gap_and_its_absence(solver: str) -> None:
    X, Y = data()
    every = ls.solve(ReducedRankRegression(X, Y, 8))
    found = ls.solve(ReducedRankRegression(X, Y, 3), solver, rng=0)
    assert np.isclose(found.next_singular_value, every.singular_values[3], rtol=1e-6)
    assert every.next_singular_value == 0
    Q = np.random.default_rng(0).standard_normal((60, 5))
    Q = np.linalg.qr(Q - Q.mean(axis=0))[0]
    found = ls.solve(ReducedRankRegression(Q, Q * [3, 2, 2, 1, 1], 2), solver, rng=0)
    np.testing.assert_allclose([*found.singular_values, found.next_singular_value], [3, 2, 2], rtol=1e-10)
    assert found.converged


@each_solver
def test_right_hand_sides_that_x_does_not_explain_have_no_component(solver: str) -> None:
    Q = np.random.default_rng(0).standard_normal((50, 8))
    Q = np.linalg.qr(Q - Q.mean(axis=0))[0]
    for X, Y in ((Q[:, :4], Q[:, 4:]), (Q[:, :4], np.ones((50, 3))), (np.ones((50, 3)), Q[:, 4:])):
        found = ls.solve(ReducedRankRegression(X, Y, 2, ridge=0.1), solver, rng=0)
        assert found.status is ls.Status.RANK_DEFICIENT
        assert len(found.singular_values) == 0
        np.testing.assert_allclose(found.predict(X), np.tile(Y.mean(axis=0), (50, 1)), atol=1e-12)


def test_the_planted_rank_is_chosen_and_errors_that_are_rounding_are_marked() -> None:
    X, Y = data(400, 20, 15, 4)
    given = {"ridges": [0.1, 1.0], "ks": range(1, 16), "rng": 0}
    found, solved = (
        ls.cross_validate(ReducedRankRegression(X, Y, 15), form=form, **given) for form in ("auto", "solve")
    )
    assert found.best.k == 4
    assert found.passes == 1
    np.testing.assert_allclose(found.scores, solved.scores, rtol=1e-8)
    exact = X @ np.ones((20, 3))  # second moments of an exact fit show rounding alone
    with pytest.warns(ls.errors.AccuracyWarning):
        found = ls.cross_validate(ReducedRankRegression(X, exact, 1), splitter=np.arange(400) % 4)
    assert found.uncertain.all()


def test_the_rank_is_at_most_the_number_of_right_hand_sides() -> None:
    with pytest.raises(InvalidProblem, match="k must be between 1 and 8"):
        ReducedRankRegression(*data(), 9)


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_vip_and_what_components_explain(scale: bool, weighted: bool) -> None:
    """By NumPy from the scores, and where nothing is weighted by the formula with the attributes of scikit-learn."""
    X, Y = views(60, 9, 2)
    X[:, 4] = 2.5
    w = np.random.default_rng(1).integers(0, 3, 60).astype(float) if weighted else None
    found = ls.solve(PLSRegression(X, Y, k=3, scale=scale, sample_weight=w))
    root = np.ones((60, 1)) if w is None else np.sqrt(w)[:, None]
    T = root * found.transform(X)
    for M, explained in ((X, found.x_explained), (Y, found.y_explained)):
        M = root * (M - np.average(M, axis=0, weights=w))
        lengths = np.linalg.norm(M, axis=0)
        M = M / np.where(lengths > 1e-9, lengths, 1) if scale else M
        gone = [np.linalg.norm(M - np.outer(t, t @ M) / (t @ t)) ** 2 for t in T.T]
        np.testing.assert_allclose(explained, 1 - np.array(gone) / np.linalg.norm(M) ** 2, atol=1e-12)
    assert (found.vip**2).mean() == pytest.approx(1)
    assert found.vip_table(library="")[4] == {"column": 4, "VIP": 0.0}
    assert [*found.summary()[0]] == ["component", "covariance", "X explained", "Y explained"]
    if w is None:
        peers = pytest.importorskip("sklearn.cross_decomposition")
        peer = peers.PLSRegression(3, scale=scale, tol=1e-22, max_iter=10000).fit(X, Y)
        shares = (peer.x_scores_**2).sum(0) * (peer.y_loadings_**2).sum(0)
        wanted = np.sqrt(9 * (peer.x_weights_**2 @ shares) / shares.sum())
        np.testing.assert_allclose(found.vip, wanted, atol=1e-8)
        np.testing.assert_allclose(found.predict(X), peer.predict(X), atol=1e-8)
        np.testing.assert_allclose(X @ found.coefficients() + found.intercept, peer.predict(X), atol=1e-8)


def test_classes_are_indicator_columns_as_the_error_says() -> None:
    labels = np.array(list("abc") * 10)
    X = np.random.default_rng(0).standard_normal((30, 6)) + 3 * (labels[:, None] == np.array(list("abcabc")))
    for texts in (labels, list(labels), labels.astype(object)):
        with pytest.raises(UnsupportedData, match=r"== numpy.unique\(labels\); or see linspec.Discriminant"):
            PLSRegression(X, texts, k=2)
        classes = np.unique(texts)
        Y = np.reshape(texts, (-1, 1)) == classes
        found = ls.solve(PLSRegression(X, Y, k=2)).predict(X)
        assert np.mean(classes[found.argmax(axis=1)] == labels) > 0.9


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pls_takes_narrow_and_wide_entries_that_are_read_once(dtype: type) -> None:
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((400, 3))
    X, Y = (
        (shared @ rng.standard_normal((3, m)) + rng.standard_normal((400, m))).astype(dtype) for m in (12, 7)
    )
    found = ls.solve(ls.PLS(iter(np.split(X, 4)), iter(np.split(Y, 4)), k=2), "gram")
    C = (X - X.mean(axis=0, dtype=float)).T @ (Y - Y.mean(axis=0, dtype=float))
    assert (found.passes, found.residual_kind, found.status.name) == (1, "from-gram", "CONVERGED")
    np.testing.assert_allclose(found.singular_values, np.linalg.svd(C, compute_uv=False)[:2], rtol=1e-6)
