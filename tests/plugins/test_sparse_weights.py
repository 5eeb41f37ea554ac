"""Sparse weights of PLS, CCA and PCA: brute force, convex half steps by SciPy, the rule of PMA, planted supports."""

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse

import linspec as ls
from linspec.errors import InvalidProblem

BOUNDS = np.linspace(1, 2.5, 50)


def planted(seed=0, n=150, p=40, q=30):
    """Views whose first five columns share a variable, and the next five another one."""
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((n, p)), rng.standard_normal((n, q))
    for i, strength in enumerate((1.5, 1.0)):
        shared = strength * rng.standard_normal((n, 1))
        X[:, 5 * i : 5 * i + 5] += shared
        Y[:, 5 * i : 5 * i + 5] += shared
    return X - X.mean(axis=0), Y - Y.mean(axis=0)


def test_a_bound_of_one_keeps_the_best_single_columns():
    X, Y = planted()
    C = X.T @ Y
    largest = np.argsort(-np.abs(C), axis=None)[:3]
    pls = ls.solve(ls.SparsePLS(X, Y, 3, 1, 1), rng=0)
    np.testing.assert_array_equal(np.argmax(pls.x_weights != 0, axis=0), largest // C.shape[1])
    np.testing.assert_allclose(pls.values, np.abs(C).ravel()[largest])
    lengths = np.sum(X**2, axis=0)
    pca = ls.solve(ls.SparsePCA(X, 3, 1), rng=0)
    np.testing.assert_allclose(pca.values, np.sort(lengths)[::-1][:3])
    correlations = C / np.sqrt(np.outer(lengths, np.sum(Y**2, axis=0)))
    cca = ls.solve(ls.SparseCCA(X * np.geomspace(1e-3, 1e3, 40), Y, 1, 1, 1), rng=0)
    np.testing.assert_allclose(cca.values, np.abs(correlations).max())
    assert np.count_nonzero(cca.x_weights) == np.count_nonzero(cca.y_weights) == 1


def best_by_scipy(a, S, d, c):
    """max aᵀ(u − w) over u, w ≥ 0, the length in S and the sum of d(u + w), from several starts."""
    p = len(a)
    rules = [
        {"type": "ineq", "fun": lambda z: 1 - (z[:p] - z[p:]) @ S @ (z[:p] - z[p:])},
        {"type": "ineq", "fun": lambda z: c - d @ (z[:p] + z[p:])},
    ]
    start = np.maximum(np.concatenate([a, -a]), 0) / np.sqrt(a @ S @ a)
    options = {"maxiter": 500, "ftol": 1e-14}
    found = scipy.optimize.minimize(
        lambda z: -a @ (z[:p] - z[p:]), start, bounds=[(0, None)] * 2 * p, constraints=rules, options=options
    )
    return -found.fun


@pytest.mark.parametrize("kind", ["SparsePLS", "SparseCCA"])
@pytest.mark.parametrize("bound", [1.3, 2.0])
def test_each_side_is_the_best_with_the_other_one_held(kind, bound):
    X, Y = planted(1, 60, 12, 8)
    solution = ls.solve(getattr(ls, kind)(X, Y, 1, bound, bound), rng=0)
    assert solution.converged
    u, v = solution.x_weights[:, 0], solution.y_weights[:, 0]
    for A, a, w in ((X, X.T @ (Y @ v), u), (Y, Y.T @ (X @ u), v)):
        S, d = (
            (A.T @ A, np.linalg.norm(A, axis=0)) if kind == "SparseCCA" else (np.eye(len(a)), np.ones(len(a)))
        )
        assert w @ S @ w == pytest.approx(1)
        assert d @ np.abs(w) <= bound * (1 + 1e-9)
        assert a @ w == pytest.approx(best_by_scipy(a / (a @ w), S, d, bound) * (a @ w), rel=1e-6)


def test_later_components_are_those_of_deflated_data():
    X, Y = planted()
    pls, cca = (ls.solve(getattr(ls, kind)(X, Y, 2, 2.0, 2.0), rng=0) for kind in ("SparsePLS", "SparseCCA"))
    C = X.T @ Y
    u, v = pls.x_weights, pls.y_weights
    assert pls.values[1] == pytest.approx(
        u[:, 1] @ (C - pls.values[0] * np.outer(u[:, 0], v[:, 0])) @ v[:, 1]
    )
    u, v = cca.x_weights, cca.y_weights
    left = C - cca.values[0] * np.outer(X.T @ (X @ u[:, 0]), Y.T @ (Y @ v[:, 0]))
    assert cca.values[1] == pytest.approx(u[:, 1] @ left @ v[:, 1])
    pca = ls.solve(ls.SparsePCA(X, 2, 2.0), rng=0)
    w = pca.weights
    assert pca.values[1] == pytest.approx(np.sum((X @ (w[:, 1] - w[:, 0] * (w[:, 0] @ w[:, 1]))) ** 2))


def by_pma(C, c_x, c_y):
    """The rule of PMA: the leading singular vector, soft thresholds by bisection, until nothing changes."""

    def thresholded(a, c):
        low, high = 0.0, np.abs(a).max()
        soft = lambda level: np.sign(a) * np.maximum(np.abs(a) - level, 0)  # noqa: E731
        if np.abs(a).sum() <= c * np.linalg.norm(a):
            return a / np.linalg.norm(a)
        for _ in range(200):
            middle = (low + high) / 2
            w = soft(middle)
            low, high = (low, middle) if np.abs(w).sum() < c * np.linalg.norm(w) else (middle, high)
        return soft(high) / np.linalg.norm(soft(high))

    v = np.linalg.svd(C)[2][0]
    for _ in range(500):
        u = thresholded(C @ v, c_x)
        v = thresholded(C.T @ u, c_y)
    return u @ C @ v


@pytest.mark.parametrize("seed", range(8))
def test_no_value_is_below_that_of_pma(seed):
    rng = np.random.default_rng(seed)
    X, Y = planted(seed) if seed % 2 else (rng.standard_normal((60, 40)), rng.standard_normal((60, 30)))
    c = 1.2 + 0.5 * (seed % 4)
    value = ls.solve(ls.SparsePLS(X, Y, 1, c, c, center=False), rng=0, tol=1e-8).values[0]
    assert value >= by_pma(X.T @ Y, c, c) * (1 - 1e-8)


@pytest.mark.parametrize("kind", ["SparsePLS", "SparseCCA"])
def test_planted_columns_are_found_and_others_are_exactly_zero(kind):
    X, Y = planted(3, 1000)
    bound = 1.25 if kind == "SparseCCA" else 5**0.5  # the columns are correlated
    solution = ls.solve(getattr(ls, kind)(X.astype(np.float32), Y, 2, bound, bound), rng=0)
    for W in (solution.x_weights, solution.y_weights):
        first, second = (set(np.argsort(-np.abs(w))[:4].tolist()) for w in W.T)
        assert first < set(range(5))
        assert second < set(range(5, 10))
        assert np.all(np.sum(W != 0, axis=0) < 25)


@pytest.mark.parametrize("kind", ["SparsePLS", "SparseCCA"])
def test_groups_are_kept_or_left_out_as_a_whole(kind):
    X, Y = planted()
    problem, labels = getattr(ls, kind), np.repeat(np.arange(8), 5)
    bound = 1.25 if kind == "SparseCCA" else 2.4
    solution = ls.solve(problem(X, Y, 1, bound, 2.0, groups_x=labels), rng=0)
    kept = (solution.x_weights[:, 0] != 0).reshape(8, 5).sum(axis=1)
    assert solution.converged
    assert set(kept) == {0, 5}
    assert kept[0] == 5
    single = ls.solve(
        problem(X, Y, 1, 2.0, 2.0, groups_x=list("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN")), rng=0
    )
    np.testing.assert_allclose(single.values, ls.solve(problem(X, Y, 1, 2.0, 2.0), rng=0).values)


@pytest.mark.parametrize("bound", [1.0, 1.5, 2.0, 2.2])
def test_tight_groups_of_uncorrelated_columns_are_one_group_shorter_than_one(bound):
    rng = np.random.default_rng(0)
    X, Y = np.split(np.linalg.qr(rng.standard_normal((200, 40)))[0], 2, axis=1)
    Y = Y + X * np.linspace(1, 0.2, 20)
    groups = np.repeat(np.arange(4), 5)
    problem = ls.SparseCCA(X, Y, 1, bound, 1.3, groups_x=groups, center=False)
    solution = ls.solve(problem, rng=0)
    u = solution.x_weights[:, 0]
    a = (X.T @ Y @ solution.y_weights[:, 0]).reshape(4, 5)
    # |aᵀu| ≤ P(u) max rms(a), and one group reaches that at a length below 1
    assert solution.converged
    assert np.sqrt(5) * np.linalg.norm(u.reshape(4, 5), axis=1).sum() == pytest.approx(bound)
    assert solution.values[0] == pytest.approx(bound * np.sqrt(np.mean(a**2, axis=1)).max(), rel=1e-5)
    assert np.linalg.norm(X @ u) < 1


@pytest.mark.parametrize("gap", [1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 0.0])
@pytest.mark.parametrize("others", [1, 8])
@pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")
def test_nearly_dependent_columns_without_a_bound_are_right_or_said(gap, others):
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((60, others + 1)), rng.standard_normal((60, 3))
    hidden = rng.standard_normal(60)
    Y[:, 0] += 2 * hidden
    X[:, -1] = X[:, 0] + gap * hidden
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    columns = X[:, : others + (gap > 0)]
    exact = np.linalg.svd(np.linalg.qr(columns)[0].T @ np.linalg.qr(Y)[0], compute_uv=False)[0]
    solution = ls.solve(ls.SparseCCA(X, Y, 1), rng=0)
    assert solution.converged or 0 < gap < 1e-4
    assert abs(solution.values[0] / exact - 1) <= 10 * solution.residual + 1e-12 or gap == 1e-8
    if gap == 1e-8:  # is cut as null, and rows tell
        assert solution.status is ls.Status.ILL_CONDITIONED


def test_copies_of_columns_do_not_matter_within_a_bound():
    X, Y = planted(0, 80, 14, 12)
    bounded = ls.solve(ls.SparseCCA(np.hstack([X, X[:, :3]]), Y, 1, 1.5, 1.5), rng=0)
    assert bounded.converged
    assert bounded.values[0] == pytest.approx(ls.solve(ls.SparseCCA(X, Y, 1, 1.5, 1.5), rng=0).values[0])


@pytest.mark.parametrize("kind", ["SparsePLS", "SparseCCA"])
def test_a_path_of_bounds_takes_one_pass(kind):
    X, Y = planted(0, 80, 14, 12)
    shared, last, path = ls.Moments(X, Y, center=True), None, []
    for bound in BOUNDS:
        last = ls.solve(getattr(ls, kind)(shared, None, 1, bound, bound), start=last, rng=0)
        path.append(last)
    assert sum(solution.passes for solution in path) == 1
    values = np.array([solution.values[0] for solution in path])
    assert np.all(np.diff(values) > -1e-6 * values[:-1])
    apart = ls.solve(getattr(ls, kind)(X, Y, 1, BOUNDS[-1], BOUNDS[-1]), rng=0)
    assert values[-1] == pytest.approx(apart.values[0], rel=1e-4)


def test_wide_sparse_rows_form_no_square_matrix():
    A = scipy.sparse.random_array((500, 40_000), density=2e-3, rng=0, format="csr")
    A[:, :4] = 30 * A[:, [0]] * [[1, 1, 1, 1]]
    solution = ls.solve(ls.SparsePCA(A, 1, 2), "pmd", rng=0)
    assert solution.passes > 10
    assert set(np.flatnonzero(np.abs(solution.weights[:, 0]) > 0.3)) == set(range(4))
    with pytest.raises(InvalidProblem, match="SparsePLS takes more columns"):
        ls.solve(ls.SparseCCA(scipy.sparse.hstack([A] * 20), A, 1, 2, 2), "newton")


def test_an_answer_that_is_not_stationary_does_not_converge():
    X, Y = np.random.default_rng(0).standard_normal((2, 60, 40))
    with pytest.warns(ls.errors.ConvergenceWarning):
        early = ls.solve(ls.SparsePLS(X, Y, 1, 3, 3), "pmd", rng=0, max_iterations=2)
    assert early.residual > 1e-6


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"bound_x": 0.5}, "bound_x must be at least 1"),
        ({"bound_x": "2"}, "and '2'"),
        ({"bound_y": np.nan}, "bound_y"),
        ({"groups_x": [1, 2]}, "label for each of 40 columns"),
        ({"groups_x": np.zeros(40), "bound_x": 2}, "at least 6.325"),
    ],
)
def test_bounds_and_groups_that_do_not_fit_are_refused(wrong, text):
    with pytest.raises(InvalidProblem, match=text):
        ls.SparsePLS(*planted(), 1, **wrong)
