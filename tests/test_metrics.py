"""Scores against exact oracles: principal angles of SciPy, planted angles, scikit-learn."""

from __future__ import annotations

import math

import array_api_strict
import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
from planted import sharing

import linspec
from linspec import metrics
from linspec.errors import InvalidProblem, NonFiniteData

ARRAYS = {
    "numpy": np.asarray,
    "array-api-strict": lambda a: array_api_strict.asarray(a, device=array_api_strict.Device("device1")),
}


@pytest.fixture(params=ARRAYS)
def array(request: pytest.FixtureRequest):
    return ARRAYS[request.param]


def a_pair(n=400):
    """Two correlated views and arbitrary weights."""
    rng = np.random.default_rng(0)
    return *sharing(n, (9, 7), 4, mean=1.0), rng.standard_normal((9, 3)), rng.standard_normal((7, 3))


def exact(X, Y, W, V, ridge=0.0, center=False):
    """Canonical correlations of XW and YV by QR of the rows, a ridge being some more of them."""
    if center:
        X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    (rx, ry), p, q = np.sqrt(np.broadcast_to(ridge, 2)), X.shape[1], Y.shape[1]
    X = np.vstack([X, rx * np.eye(p), np.zeros((q, p))])
    Y = np.vstack([Y, np.zeros((p, q)), ry * np.eye(q)])
    return np.cos(scipy.linalg.subspace_angles(X @ W, Y @ V))


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("ridge", [0.0, (5.0, 200.0)])
def test_tcc_is_the_sum_of_the_canonical_correlations_of_the_variates(array, ridge, center):
    X, Y, W, V = a_pair()
    wanted = pytest.approx(exact(X, Y, W, V, ridge, center).sum(), rel=1e-12)
    found = metrics.tcc(array(X), array(Y), array(W), array(V), ridge=ridge, center=center)
    assert found == wanted
    assert isinstance(found, float)
    moments = linspec.Moments(X, scipy.sparse.csr_array(Y), center=center)
    assert metrics.tcc(moments, None, W, V, ridge=ridge, center=center) == wanted


def test_correlations_of_each_pair(array):
    X, Y, W, V = a_pair()
    W[:, 1] = 0
    table = np.corrcoef(X @ W[:, [0, 2]], Y @ -V[:, [0, 2]], rowvar=False)
    found = metrics.correlations(array(X), array(Y), array(W), array(-V), center=True)
    np.testing.assert_allclose(found, [table[0, 2], 0.0, table[1, 3]], rtol=1e-11)
    best = linspec.solve(linspec.CCA(X, Y, 4, ridge=(5.0, 200.0)), "direct")
    weights = best.x_weights, best.y_weights
    found = metrics.correlations(X, Y, *weights, ridge=(5.0, 200.0), center=True)
    np.testing.assert_allclose(found, best.correlations, rtol=1e-12)


def test_lengths_do_not_count_and_nearly_parallel_columns_cost_their_condition_number_and_not_its_square():
    X, Y, W, V = a_pair()
    squeeze = np.array([[1.0, 1.0, 1.0], [0.0, 1e-6, 0.0], [0.0, 0.0, 1e-6]]) * [1e-9, 1.0, -1e9]
    found = metrics.tcc(X, Y, W @ squeeze, V @ squeeze)
    assert found == pytest.approx(exact(X, Y, W, V).sum(), rel=1e-8)  # squared, it would be 1e-4


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dependent_columns_count_for_nothing(dtype):
    X, Y, W, V = a_pair()
    wide = np.column_stack([W, W[:, 0], W @ [1.0, -2.0, 3.0], np.zeros(len(W))])
    full = np.column_stack([V, np.zeros((len(V), 3))])
    found, tol = metrics.tcc(*(M.astype(dtype) for M in (X, Y, wide, full))), float(80 * np.finfo(dtype).eps)
    assert found == pytest.approx(exact(X, Y, W, V).sum(), rel=tol)
    assert metrics.tcc(X, Y, 0 * W, V) == 0.0
    W, Z = planted([0.4, 0.2])
    wide = np.column_stack([W, W[:, 0], W @ [1.0, 3.0], np.zeros(len(W))]).astype(dtype)
    np.testing.assert_allclose(metrics.principal_angles(wide, Z), [0.4, 0.2], rtol=tol)


def test_a_device_without_float64_array_api_strict():
    X, Y, W, V = a_pair()
    device = array_api_strict.Device("no_float64")
    single = [array_api_strict.asarray(a.astype(np.float32), device=device) for a in (X, Y, W, V)]
    expected = exact(X, Y, W, V, center=True).sum()
    assert metrics.tcc(*single, center=True) == pytest.approx(expected, rel=1e-5)
    assert metrics.pcc(*single, (W, V)) == pytest.approx(1.0, rel=1e-5)
    assert metrics.subspace_distance(single[2], W) < 1e-6


def test_pcc_is_a_ratio_on_the_same_rows(array):
    X, Y, W, V = a_pair()
    data, U = (array(X), array(Y)), (array(W), array(V))
    best = linspec.solve(linspec.CCA(*data, 3, center=False), "gram")
    weights = best.x_weights, best.y_weights
    share = exact(X, Y, W, V).sum() / best.correlations.sum()
    for reference in (best, weights):
        assert metrics.pcc(*data, *weights, reference) == pytest.approx(1.0, abs=1e-12)
        assert metrics.pcc(*data, *U, reference) == pytest.approx(share, rel=1e-10)
    # Fewer columns than the reference are a smaller share, and a poorer reference a share above 1.
    one = metrics.pcc(*data, *(W[:, :1] for W in weights), best)
    assert one == pytest.approx(best.correlations[0] / best.correlations.sum(), rel=1e-10)
    assert metrics.pcc(*data, *weights, U) == pytest.approx(1 / share, rel=1e-10)


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


GRADED = [math.pi / 2, 1.2, 0.3, 1e-4, 1e-7, 1e-9, 1e-12]


def test_angles_of_all_sizes_side_by_side(array):
    W, Z = planted(GRADED, mix=False)
    np.testing.assert_allclose(metrics.principal_angles(array(W), array(Z)), GRADED, atol=3e-15)
    lengths = np.array([1e-200, 1e120, 1, 1, 1, 1, 1])
    np.testing.assert_allclose(metrics.principal_angles(W * lengths, Z), GRADED, atol=3e-15)
    W, Z = planted(GRADED)
    np.testing.assert_allclose(metrics.principal_angles(W, Z), GRADED, atol=1e-13)
    assert metrics.subspace_distance(W, W) < 1e-15
    assert metrics.subspace_distance(np.eye(3), np.ones((3, 3)) + np.eye(3)) < 1e-15  # the whole space


A, B, U, V = a_pair(n=40)
W2, Z2 = planted([0.4, 0.2])


DISTANCE = metrics.subspace_distance


@pytest.mark.parametrize(
    ("score", "args", "words"),
    [
        (metrics.tcc, (A, B, V, V), "x_weights must have a row for each of the 9 columns"),
        (
            metrics.tcc,
            (np.where(A[0] == A, np.nan, A), B, U, V),
            "X must be finite; got nan at row 0, column 0",
        ),
        (metrics.pcc, (A, B, U, V, (0 * U, 0 * V)), "no correlation"),
        (DISTANCE, (W2, Z2[:, :1]), r"equally many dimensions; got 2 \(2 columns\) and 1"),
        (DISTANCE, (W2, 0 * Z2), "Z must have a column that is not of length zero; got 2 that are"),
    ],
)
def test_what_does_not_fit_is_refused(score, args, words):
    with pytest.raises((InvalidProblem, NonFiniteData), match=words):
        score(*args)
