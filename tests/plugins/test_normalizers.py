"""Normalizers: the law QᵀMQ = I, Q = VT on planted blocks, and what is special to each method."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st
from planted import factored

import linspec as ls
from linspec.registry import get_part
from linspec.registry.options import build

EPS = np.finfo(np.float64).eps
U = EPS / 2  # unit roundoff, in which theorems are stated
ALL = pytest.mark.parametrize("method", ls.normalizers())
ANY_CONDITION = pytest.mark.parametrize("method", ["cholesky-qr", "qr"])
BY_GRAM = ["inverse-sqrt", "rank-revealing"]


def orthonormalize(method, V, MV=None):
    return build(get_part("normalizer", method), {}).orthonormalize(V, MV)


def random_block(p, k, seed=0):
    return np.random.default_rng(seed).standard_normal((p, k))


def planted(p, k, condition):
    """V = U diag(s) W with condition number `condition`, and its range U."""
    return factored(p, k, np.logspace(0, -np.log10(condition), k))[:2]


def spd(p, condition):
    _, Z, _ = factored(p, p, np.ones(p), seed=9)
    return (Z * np.logspace(0, -np.log10(condition), p)) @ Z.T


def departure(Q, MQ=None):
    """‖QᵀMQ − I‖₂."""
    Q = np.asarray(Q, dtype=np.float64)
    off = Q.T @ (Q if MQ is None else MQ) - np.eye(Q.shape[1])
    return np.linalg.norm(off, 2) if off.size else 0.0  # NumPy 2.0 has no norm of nothing


def outside(A, Q):
    """How much of the orthonormal A is not in the range of the orthonormal Q: sine of the largest angle."""
    return np.linalg.norm(A - Q @ (Q.T @ A), 2)


def backward_error(Q, V, T):
    return np.linalg.norm(Q - V.astype(np.float64) @ T) / (np.linalg.norm(V) * np.linalg.norm(T))


@ANY_CONDITION
@pytest.mark.parametrize("condition", [1e8, 1e12, 1e15])
def test_any_condition_number_that_float64_can_express(method, condition):
    """No direction is dropped; orthogonality and residual keep the bounds that Fukaya et al. 2020 prove."""
    p, k = 5000, 30
    V, left = planted(p, k, condition)
    Q, T = orthonormalize(method, V)
    assert Q.shape == V.shape
    assert departure(Q) < min(1e-14, 6 * (p * k + k * (k + 1)) * U)
    assert np.linalg.norm(V - Q @ (Q.T @ V)) < 15 * k**2 * U * np.linalg.norm(V, 2)
    assert backward_error(Q, V, T) < 10 * EPS
    assert outside(left[:, :1], Q) < 10 * EPS * k


@pytest.mark.parametrize(
    ("method", "dtype"), [*((name, "f4") for name in ls.normalizers()), *((name, "f8") for name in BY_GRAM)]
)
def test_what_a_gram_matrix_or_float32_cannot_resolve_is_dropped(method, dtype):
    """Squares of singular values below kε of the largest are noise; those well above must be found."""
    k, values = 20, np.logspace(0, -15, 20)
    V, left = planted(2000, k, 1e15)
    Q, T = orthonormalize(method, V.astype(dtype))
    r, Q = Q.shape[1], Q.astype(float)
    assert np.sum(values > 1e-6) <= r <= np.sum(values > 1e-8)
    assert departure(Q) < (1e-14 if dtype == "f8" else 1e-6)
    if dtype == "f8":
        assert outside(left[:, : r - 1], Q) < 1e-1  # the last one kept is blurred by the ones dropped
        assert outside(left[:, :3], Q) < 1e-6
        assert backward_error(Q, V, T) < 4 * EPS


@ANY_CONDITION
@pytest.mark.parametrize("delta", [1e-3, 1e-9, 1e-13])
def test_near_dependent_leading_columns_cost_the_others_nothing(method, delta):
    """Multiplying by the inverse of a factor that is not graded would lose a factor 1/δ in later columns."""
    a, b, c, d = factored(400, 4, np.ones(4))[1].T
    V = np.stack([a, a + delta * b, c + b, d], axis=1)
    Q, T = orthonormalize(method, V)
    assert Q.shape == V.shape
    assert departure(Q) < 1e-14
    assert np.linalg.norm(V - Q @ (Q.T @ V)) < 20 * EPS
    assert backward_error(Q, V, T) < 10 * EPS


@ALL
@given(
    p=st.integers(1, 60),
    k=st.integers(1, 12),
    rank=st.integers(0, 12),
    decades=st.integers(0, 120),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_rank_shape_and_scale(method, p, k, rank, decades, seed):
    rng = np.random.default_rng(seed)
    V = rng.standard_normal((p, rank)) @ rng.standard_normal((rank, k))
    V = V * 10.0 ** rng.uniform(-decades, decades, k)
    Q, T = orthonormalize(method, V)
    # Not equality: a small square random factor may be ill-conditioned by bad luck.
    assert Q.shape[1] <= min(p, k, rank)
    assert Q.shape == (p, T.shape[1])
    assert departure(Q) < 1e-14
    size = np.linalg.norm(V / np.where(np.abs(V).max(axis=0) == 0, 1, np.abs(V).max(axis=0)))
    weight = np.linalg.norm(T * np.abs(V).max(axis=0, initial=0.0)[:, None])
    assert np.linalg.norm(Q - V @ T) <= 40 * EPS * max(size * weight, 1)


@ALL
@pytest.mark.parametrize("metric_condition", [1.0, 1e8])
@pytest.mark.parametrize("condition", [1.0, 1e5])
def test_metric(method, metric_condition, condition):
    V, left = planted(250, 10, condition)
    M = spd(250, metric_condition)
    MV = M @ V
    Q, T = orthonormalize(method, V, MV)
    assert Q.shape == V.shape
    gram_condition = np.sqrt(np.linalg.cond(V.T @ MV))
    # MV is known to rounding, so no method can do better than ε times the condition number of V in M.
    assert departure(Q, M @ Q) < 60 * EPS * max(gram_condition, condition)
    assert departure(Q, MV @ T) < 400 * EPS * max(gram_condition, condition)
    assert outside(left, scipy.linalg.qr(Q, mode="economic")[0]) < 200 * EPS * condition
    assert backward_error(Q, V, T) < 10 * EPS


@ALL
def test_singular_metric_lowers_the_rank(method):
    """M = SSᵀ of rank 3 sees three dimensions of five."""
    S = factored(80, 3, np.ones(3))[1]
    V = random_block(80, 5, seed=2)
    Q, T = orthonormalize(method, V, S @ (S.T @ V))
    assert (Q.shape, T.shape) == ((80, 3), (5, 3))
    np.testing.assert_allclose((S.T @ Q).T @ (S.T @ Q), np.eye(3), atol=1e-12)


@ALL
def test_metric_and_columns_of_any_size(method):
    V = random_block(70, 5)
    M = spd(70, 100.0) * 1e-30
    d = np.logspace(-120, 120, 5)
    Q, T = orthonormalize(method, V * d, (M @ V) * d)
    assert departure(Q, M @ Q) < 1e-12
    np.testing.assert_allclose((V * d) @ T, Q, rtol=1e-9, atol=1e-12 * np.abs(Q).max())


@pytest.mark.parametrize("condition", [1.0, 1e4])
def test_inverse_sqrt_is_the_polar_factor(condition):
    V, _ = planted(500, 9, condition)
    Q, T = orthonormalize("inverse-sqrt", V)
    factor, stretch = scipy.linalg.polar(V)
    np.testing.assert_allclose(Q, factor, atol=100 * EPS * condition)
    np.testing.assert_allclose(T, T.T, atol=1e-14 * np.abs(T).max())
    np.testing.assert_allclose(T @ stretch, np.eye(9), atol=200 * EPS * condition)
    assert np.linalg.eigvalsh(T)[0] > 0
