"""Scores against exact oracles: QR of the variates, explicit projectors, planted angles, scikit-learn."""

from __future__ import annotations

import math

import array_api_strict
import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st

import linspec
from linspec import metrics
from linspec.arrays import to_host
from linspec.errors import InvalidProblem, NonFiniteData


def readonly(a: np.ndarray) -> np.ndarray:
    a = np.array(a)
    a.flags.writeable = False
    return a


BACKENDS = {
    "numpy": np.asarray,
    "numpy-readonly": readonly,
    "array-api-strict": array_api_strict.asarray,
    "array-api-strict-device": lambda a: array_api_strict.asarray(
        a, device=array_api_strict.Device("device1")
    ),
}


@pytest.fixture(params=BACKENDS)
def array(request: pytest.FixtureRequest):
    return BACKENDS[request.param]


def a_pair(n=400, p=9, q=7, k=3, seed=0):
    """Two correlated views and arbitrary weights."""
    rng = np.random.default_rng(seed)
    shared = rng.standard_normal((n, 4))
    X = shared @ rng.standard_normal((4, p)) + rng.standard_normal((n, p)) + 1.0
    Y = shared @ rng.standard_normal((4, q)) + rng.standard_normal((n, q)) - 2.0
    return X, Y, rng.standard_normal((p, k)), rng.standard_normal((q, k))


def exact(X, Y, W, V, ridge=(0.0, 0.0), center=False):
    """Canonical correlations of XW and YV by QR of the rows, a ridge being some more of them."""
    if center:
        X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    p, q = X.shape[1], Y.shape[1]
    X = np.vstack([X, math.sqrt(ridge[0]) * np.eye(p), np.zeros((q, p))])
    Y = np.vstack([Y, np.zeros((p, q)), math.sqrt(ridge[1]) * np.eye(q)])
    Q, P = scipy.linalg.orth(X @ W), scipy.linalg.orth(Y @ V)
    return np.linalg.svd(Q.T @ P, compute_uv=False)


# ------------------------------------------------------------------------------------------------ correlations


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("ridge", [0.0, 30.0, (5.0, 200.0)])
def test_tcc_is_the_sum_of_the_canonical_correlations_of_the_variates(array, ridge, center):
    X, Y, W, V = a_pair()
    pair = ridge if isinstance(ridge, tuple) else (ridge, ridge)
    found = metrics.tcc(array(X), array(Y), array(W), array(V), ridge=ridge, center=center)
    assert found == pytest.approx(exact(X, Y, W, V, pair, center).sum(), rel=1e-12)
    assert isinstance(found, float)


@given(st.integers(0, 2**32 - 1))
def test_tcc_ignores_rotation_scale_and_sign(seed):
    X, Y, W, V = a_pair(n=60)
    rng = np.random.default_rng(seed)
    turned = [B @ rng.standard_normal((3, 3)) @ np.diag(10.0 ** rng.integers(-9, 9, 3)) for B in (W, V)]
    conditions = [np.linalg.cond(B / np.linalg.norm(B, axis=0)) for B in turned]
    assert metrics.tcc(X, Y, *turned, ridge=1.0) == pytest.approx(
        metrics.tcc(X, Y, W, V, ridge=1.0), rel=1e-13 * max(conditions)
    )


def test_nearly_parallel_columns_cost_their_condition_number_and_not_its_square():
    X, Y, W, V = a_pair()
    squeeze = np.array([[1.0, 1.0, 1.0], [0.0, 1e-6, 0.0], [0.0, 0.0, 1e-6]])
    found = metrics.tcc(X, Y, W @ squeeze, V @ squeeze)
    assert found == pytest.approx(exact(X, Y, W, V).sum(), rel=1e-8)  # squared, it would be 1e-4


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dependent_columns_count_for_nothing(dtype):
    X, Y, W, V = a_pair()
    X, Y = X.astype(dtype), Y.astype(dtype)
    wide = np.column_stack([W, W[:, 0], W @ [1.0, -2.0, 3.0], np.zeros(len(W))])
    full = np.column_stack([V, np.zeros((len(V), 3))])
    tol = 1e-5 if dtype == np.float32 else 1e-12
    assert metrics.tcc(X, Y, wide.astype(dtype), full.astype(dtype)) == pytest.approx(
        exact(X, Y, W, V).sum(), rel=tol
    )
    assert metrics.tcc(X, Y, 0 * W, V) == 0.0


def test_tcc_of_an_exact_solution_is_the_sum_of_its_correlations():
    X, Y, _, _ = a_pair()
    for ridge in (0.0, (3.0, 40.0)):
        solution = linspec.solve(linspec.CCA(X, Y, 4, ridge=ridge), "direct")
        weights = solution.x_weights, solution.y_weights
        assert metrics.tcc(X, Y, *weights, ridge=ridge, center=True) == pytest.approx(
            solution.correlations.sum(), rel=1e-12
        )
        np.testing.assert_allclose(
            metrics.correlations(X, Y, *weights, ridge=ridge, center=True), solution.correlations, rtol=1e-12
        )


def test_new_rows_are_scored_about_the_means_of_the_old_ones(array):
    X, Y, _, _ = a_pair(n=600)
    solution = linspec.solve(linspec.CCA(array(X[:400]), array(Y[:400]), 3, ridge=1.0), "gram")
    mx, my = X[:400].mean(axis=0), Y[:400].mean(axis=0)
    weights = solution.x_weights, solution.y_weights
    host = [to_host(w) for w in weights]
    expected = exact(X[400:] - mx, Y[400:] - my, *host)
    assert solution.score(array(X[400:]), array(Y[400:])).total == pytest.approx(expected.sum(), rel=1e-10)


def test_a_device_without_float64_array_api_strict():
    X, Y, W, V = a_pair()
    device = array_api_strict.Device("no_float64")
    single = [array_api_strict.asarray(a.astype(np.float32), device=device) for a in (X, Y, W, V)]
    expected = exact(X, Y, W, V, center=True).sum()
    assert metrics.tcc(*single, center=True) == pytest.approx(expected, rel=1e-5)
    assert metrics.pcc(*single, (W, V)) == pytest.approx(1.0, rel=1e-5)
    assert metrics.subspace_distance(single[2], W) < 1e-6
    whole = array_api_strict.asarray([[1, 0], [1, 1], [0, 3]], device=device)
    assert metrics.subspace_distance(whole, np.array([[2.0, 1], [2, 0], [0, -3]])) < 1e-15


@pytest.mark.parametrize("kind", [scipy.sparse.csr_array, linspec.as_operator, lambda A: A.astype(np.int8)])
def test_any_kind_of_data_and_moments(kind):
    rng = np.random.default_rng(1)
    X, Y = (rng.poisson(0.4, (200, p)).astype(float) for p in (12, 10))
    W, V = rng.standard_normal((12, 3)), rng.standard_normal((10, 3))
    expected = pytest.approx(exact(X, Y, W, V, center=True).sum(), rel=1e-6)
    assert metrics.tcc(kind(X), kind(Y), W, V, center=True) == expected
    assert metrics.tcc(linspec.Moments(X, Y, center=True), None, W, V, center=True) == expected


def test_pcc_is_a_ratio_on_the_same_rows(array):
    X, Y, W, V = a_pair()
    best = linspec.solve(linspec.CCA(array(X), array(Y), 3, center=False), "gram")
    data = array(X), array(Y)
    assert metrics.pcc(*data, best.x_weights, best.y_weights, best) == pytest.approx(1.0, abs=1e-12)
    found = metrics.pcc(*data, array(W), array(V), best)
    assert found == pytest.approx(exact(X, Y, W, V).sum() / best.correlations.sum(), rel=1e-10)
    assert 0 < found < 1
    again = metrics.pcc(*data, array(W), array(V), (best.x_weights, best.y_weights))
    assert again == found
    # Fewer columns than the reference are a smaller share, and a poorer reference a share above 1.
    one = metrics.pcc(*data, best.x_weights[:, :1], best.y_weights[:, :1], best)
    assert one == pytest.approx(best.correlations[0] / best.correlations.sum(), rel=1e-10)
    assert metrics.pcc(*data, best.x_weights, best.y_weights, (array(W), array(V))) > 1


def test_correlations_of_each_pair(array):
    X, Y, W, V = a_pair()
    found = metrics.correlations(array(X), array(Y), array(W), array(V), center=True)
    table = np.corrcoef(X @ W, Y @ V, rowvar=False)
    np.testing.assert_allclose(found, np.diag(table[:3, 3:]), rtol=1e-11)
    np.testing.assert_allclose(metrics.correlations(X, Y, W, -V, center=True), -found, rtol=1e-11)
    assert isinstance(found, np.ndarray)
    W[:, 1] = 0
    assert metrics.correlations(X, Y, W, V)[1] == 0.0


# ------------------------------------------------------------------------------------------------- subspaces


def planted(angles, p=40, seed=0, mix=True):
    """Two bases with given principal angles, neither of them orthonormal."""
    k = len(angles)
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((p, 2 * k)))[0]
    W = Q[:, :k]
    Z = W * np.cos(angles) + Q[:, k:] * np.sin(angles)
    if mix:
        W, Z = W @ rng.standard_normal((k, k)), Z @ rng.standard_normal((k, k))
    return W, Z


def a_metric(p=40, condition=1e2, seed=3):
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.standard_normal((p, p)))[0]
    root = (U * np.geomspace(1.0, math.sqrt(condition), p)) @ U.T
    return root @ root, np.linalg.inv(root)


@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_angles_agree_with_scipy(seed, k):
    rng = np.random.default_rng(seed)
    W, Z = rng.standard_normal((2, 15, k))
    expected = scipy.linalg.subspace_angles(W, Z)
    np.testing.assert_allclose(metrics.principal_angles(W, Z), expected, rtol=1e-9, atol=1e-13)
    assert metrics.subspace_distance(W, Z) == pytest.approx(np.sin(expected[0]), rel=1e-12)
    assert metrics.chordal_distance(W, Z) == pytest.approx(np.linalg.norm(np.sin(expected)), rel=1e-12)


def test_distances_are_norms_of_differences_of_projectors(array):
    W, Z = np.random.default_rng(5).standard_normal((2, 12, 3))
    P, Q = (B @ np.linalg.pinv(B) for B in (W, Z))
    assert metrics.subspace_distance(array(W), array(Z)) == pytest.approx(np.linalg.norm(P - Q, 2), rel=1e-13)
    assert metrics.chordal_distance(array(W), array(Z)) == pytest.approx(
        np.linalg.norm(P - Q) / math.sqrt(2), rel=1e-13
    )


@pytest.mark.parametrize("angle", [1e-12, 1e-9, 1e-6, 1e-3, 0.7, 1.5, math.pi / 2])
def test_a_planted_angle_is_found_to_rounding(array, angle):
    W, Z = planted([angle, angle / 3], mix=False)
    assert metrics.subspace_distance(array(W), array(Z)) == pytest.approx(math.sin(angle), abs=1e-15)
    assert metrics.principal_angles(array(W), array(Z))[0] == pytest.approx(angle, abs=2e-15)


GRADED = [math.pi / 2, 1.2, 0.3, 1e-4, 1e-7, 1e-9, 1e-12]


def test_angles_of_all_sizes_side_by_side():
    W, Z = planted(GRADED, mix=False)
    np.testing.assert_allclose(metrics.principal_angles(W, Z), GRADED, atol=3e-15)
    W, Z = planted(GRADED)
    np.testing.assert_allclose(metrics.principal_angles(W, Z), GRADED, atol=1e-13)


METRICS = {
    "array": np.asarray,
    "sparse": scipy.sparse.csr_array,
    "SciPy operator": scipy.sparse.linalg.aslinearoperator,
    "operator": linspec.as_operator,
    "function": lambda S: lambda V: S @ V,
    "list": lambda S: S.tolist(),
}


@pytest.mark.parametrize("kind", METRICS)
def test_angles_in_a_metric_are_those_of_the_mapped_spans(kind):
    S, inverse_root = a_metric()
    W, Z = (inverse_root @ B for B in planted(GRADED, mix=False))
    np.testing.assert_allclose(metrics.principal_angles(W, Z, METRICS[kind](S)), GRADED, atol=1e-13)
    assert metrics.subspace_distance(W[:, -1], Z[:, -1], METRICS[kind](S)) == pytest.approx(1e-12, rel=1e-2)
    expected = math.sqrt(sum(math.sin(a) ** 2 for a in GRADED))
    assert metrics.chordal_distance(W, Z, METRICS[kind](S)) == pytest.approx(expected, rel=1e-12)


def test_the_metric_is_used(array):
    """Orthogonal in one inner product, not in another."""
    W, Z, S = np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.array([[1.0, 0.6], [0.6, 1.0]])
    assert metrics.subspace_distance(array(W), array(Z)) == pytest.approx(1.0)
    assert metrics.subspace_distance(array(W), array(Z), array(S)) == pytest.approx(0.8)
    assert metrics.subspace_distance(array(W), array(Z), lambda V: array(S) @ V) == pytest.approx(0.8)


def test_equal_spans_and_shared_directions():
    W, Z = planted([0.5, 0.0, 0.0])
    np.testing.assert_allclose(metrics.principal_angles(W, Z), [0.5, 0.0, 0.0], atol=1e-14)
    assert metrics.subspace_distance(W, W) < 1e-15
    assert metrics.subspace_distance(np.eye(3), np.ones((3, 3)) + np.eye(3)) < 1e-15  # the whole space
    S, _ = a_metric()
    assert metrics.subspace_distance(W, 3 * W, S) < 1e-14


@pytest.mark.parametrize("metric", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dependent_columns_add_no_dimension(metric, dtype):
    W, Z = planted([0.4, 0.2])
    wide = np.column_stack([W, W[:, 0], W @ [1.0, 3.0], np.zeros(len(W))]).astype(dtype)
    S = np.eye(len(W)) if metric else None
    found = metrics.principal_angles(wide, Z, S)
    np.testing.assert_allclose(found, [0.4, 0.2], rtol=1e-5 if dtype == np.float32 else 1e-12)


def test_columns_of_very_different_length_count_alike():
    W, Z = planted([0.4, 0.2], mix=False)
    np.testing.assert_allclose(metrics.principal_angles(W * [1e-200, 1e120], Z), [0.4, 0.2], rtol=1e-12)


# --------------------------------------------------------------------------------------------------- support


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.05, 0.5]))
def test_support_scores_agree_with_scikit_learn(seed, threshold):
    rng = np.random.default_rng(seed)
    u = np.round(rng.standard_normal(30), 1)  # with ties
    truth = np.zeros(30, dtype=bool)
    truth[rng.choice(30, rng.integers(1, 30), replace=False)] = True
    chosen = np.abs(u) > threshold * np.abs(u).max()
    assert metrics.f1(u, truth, threshold) == pytest.approx(sklearn.metrics.f1_score(truth, chosen))
    assert metrics.auc(u, truth) == pytest.approx(sklearn.metrics.roc_auc_score(truth, np.abs(u)))
    indices = np.flatnonzero(truth)
    assert metrics.auc(-7 * u, indices) == metrics.auc(u, truth)
    assert metrics.f1(-7 * u, indices.tolist(), threshold) == metrics.f1(u, truth, threshold)


def test_support_scores_of_hand_made_vectors(array):
    u = array(np.array([0.0, -3.0, 2.0, 0.0, 1.0]))
    truth = array(np.array([False, True, True, False, False]))
    assert metrics.auc(u, truth) == 1.0
    assert metrics.f1(u, truth) == pytest.approx(0.8)  # precision 2/3, recall 1
    assert metrics.f1(u, truth, 0.5) == 1.0
    assert metrics.auc(u, [0, 3]) == 0.0
    assert metrics.auc(array(np.zeros(5)), truth) == 0.5
    assert metrics.f1(array(np.zeros(5)), truth) == 0.0


def test_support_scores_of_a_block_are_the_means_of_those_of_its_columns(array):
    U = array(np.array([[0.0, 4.0], [-3.0, 0.1], [2.0, 0.0], [0.0, 0.3], [1.0, 0.0]]))
    both = array(np.array([[False, True], [True, False], [True, False], [False, True], [False, False]]))
    # In column 2 three entries are above a hundredth of 4, two of them in the support: precision 2/3, recall 1.
    assert metrics.f1(U, both, 0.01) == pytest.approx(0.8)
    assert metrics.f1(U, both) == pytest.approx((0.8 + 1.0) / 2)
    assert metrics.f1(U, [1, 2]) == pytest.approx((0.8 + 0.0) / 2)
    assert metrics.auc(U, both) == 1.0
    # In column 2 the support {1, 2} has 0.1, above one of the three others, and 0, which ties with one.
    assert metrics.auc(U, [1, 2]) == pytest.approx((1.0 + (1 + 0.5) / 6) / 2)


# --------------------------------------------------------------------------------------------------- refusals

A, B, U, V = a_pair(n=40)
W2, Z2 = planted([0.4, 0.2])
LAW = {"X": A, "Y": B, "x_weights": U, "y_weights": V}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"x_weights": V}, "x_weights must have a row for each of the 9 columns"),
        ({"y_weights": V[:, :2]}, "equally many columns; got 3 and 2"),
        ({"X": A[:-1]}, "equally many rows"),
        ({"ridge": -1.0}, "ridge"),
        ({"X": np.where(np.arange(9) == 4, np.nan, A)}, "X must be finite; got nan at row 0, column 4"),
        ({"y_weights": V * np.inf}, "y_weights"),
    ],
)  # fmt: skip
def test_scores_refuse_data_that_do_not_fit(change, words):
    with pytest.raises((InvalidProblem, NonFiniteData), match=words):
        metrics.tcc(**(LAW | change))


@pytest.mark.parametrize(
    ("reference", "words"), [(U, "a CCASolution or a pair"), ((0 * U, 0 * V), "no correlation")]
)
def test_a_share_needs_a_reference_with_correlation(reference, words):
    with pytest.raises(InvalidProblem, match=words):
        metrics.pcc(A, B, U, V, reference)


@pytest.mark.parametrize(
    ("W", "Z", "metric", "words"),
    [
        (W2, Z2[:-1], None, "equally many rows"),
        (0 * W2, Z2, None, "W must have a column that is not of length zero"),
        (W2, Z2, np.zeros((40, 40)), "not of length zero"),
        (W2, Z2, np.eye(39), r"metric must have shape \(40, 40\)"),
        (W2, Z2, np.triu(np.ones((40, 40))), "symmetric"),
        (W2, Z2, -np.eye(40), "positive semidefinite"),
        (W2, Z2, lambda V: V[:, :1], "metric must return"),
        (W2, Z2, lambda V: V * math.nan, "metric"),
        (W2 * math.nan, Z2, None, "W must be finite"),
        (W2, Z2[:, :1], None, r"equally many dimensions; got 2 \(2 columns\) and 1"),
    ],
)
def test_distances_refuse_blocks_and_metrics(W, Z, metric, words):
    with pytest.raises((InvalidProblem, NonFiniteData), match=words):
        metrics.subspace_distance(W, Z, metric)


@pytest.mark.parametrize(
    ("u", "support", "words"),
    [
        (np.ones((3, 2, 1)), [0], "one vector of weights"),
        (np.ones((3, 2)), np.ones((3, 1), dtype=bool), r"shape \(3, 1\)"),
        (np.ones((3, 2)), np.eye(3, 2, 1, dtype=bool), "at least one entry"),
        (np.ones(3), [0, 3], "distinct indices below 3"),
        (np.ones(3), [1, 0, 0], "Convert a mask"),
        (np.ones(3), [0.5], "dtype float64"),
        (np.ones(3), [], "distinct indices"),
        (np.ones(3), [0, 1, 2], "must not contain every entry"),
        (np.ones(3) * 1j, [0], "real numbers"),
        (np.array([1.0, np.nan]), [0], "u must be finite"),
    ],
)
def test_support_scores_refuse(u, support, words):
    with pytest.raises((InvalidProblem, NonFiniteData), match=words):
        metrics.auc(u, support)
    with pytest.raises(InvalidProblem, match="threshold"):
        metrics.f1(np.ones(3), [0], 1.0)
