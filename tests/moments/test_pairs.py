"""Blocks of canonical pairs: normalised, and turned, from products of their columns or from the blocks themselves."""

from __future__ import annotations

import numpy as np
import pytest

import linspec as ls
from linspec.arrays import HOST
from linspec.moments import Basis, Metrics, Pairs
from linspec.registry import get_part

EPS = float(np.finfo(np.float64).eps)
X, Y = np.random.default_rng(0).standard_normal((2, 200, 12)) * np.geomspace(1, 0.1, 12)
Y = Y[:, :9] + X[:, :9]


def pair_of(phi, psi):
    """The pair of two blocks, with the products that a sweep would make."""
    Sx, Sy, C = X.T @ X, Y.T @ Y, X.T @ Y
    diagonals, cuts = (np.diag(Sx).copy(), np.diag(Sy).copy()), (12 * EPS, 9 * EPS)
    metrics = Metrics(HOST, (0.0, 0.0), diagonals, cuts, (None, None))
    return Pairs(metrics, (Basis(phi, Sx @ phi, (None, C.T @ phi)), Basis(psi, Sy @ psi, (C @ psi, None))))


def blocks(condition, k=4, seed=1):
    """Two blocks of k columns of unequal length, with a condition number."""
    rng = np.random.default_rng(seed)
    found = []
    for p in (12, 9):
        U = np.linalg.qr(rng.standard_normal((p, k)))[0]
        V = np.linalg.qr(rng.standard_normal((k, k)))[0]
        found.append(U * np.geomspace(1, 1 / condition, k) @ V.T * [1.0, 1e-3, 1e4, 2.0])
    return found


def cosines(A, B):
    """Return the cosines of the angles between the spans of two blocks, by Householder QR."""
    return np.linalg.svd(np.linalg.qr(A)[0].T @ np.linalg.qr(B)[0], compute_uv=False)


@pytest.mark.parametrize("name", ls.normalizers())
@pytest.mark.parametrize("condition", [1, 30, 1e6])
def test_blocks_become_orthonormal_in_their_metrics_and_keep_their_spans(name, condition):
    phi, psi = blocks(condition)
    found = pair_of(phi, psi).normalized(get_part("normalizer", name)())
    for V, W, A in ((found[0].V, phi, X), (found[1].V, psi, Y)):
        np.testing.assert_allclose((A @ V).T @ (A @ V), np.eye(4), atol=1e-11 * condition**0.5)
        np.testing.assert_allclose(cosines(V, W / np.linalg.norm(W, axis=0)), 1, atol=1e-12)
    np.testing.assert_allclose(
        found[0].SV, X.T @ (X @ found[0].V), atol=1e-12 * np.abs(found[0].SV).max() * condition
    )


@pytest.mark.parametrize("name", ls.normalizers())
@pytest.mark.parametrize("condition", [1, 1e6])
def test_canonical_pairs_of_two_spans(name, condition):
    phi, psi = blocks(condition)
    pair = pair_of(phi, psi).canonical(get_part("normalizer", name)())
    rho = pair.rho
    np.testing.assert_allclose(rho, cosines(X @ phi, Y @ psi), atol=1e-8)
    x, y = X @ pair[0].V, Y @ pair[1].V
    np.testing.assert_allclose(x.T @ y, np.diag(rho), atol=1e-8)
    np.testing.assert_allclose(pair.rho_there, rho)


def test_a_block_that_is_not_new_is_only_turned():
    phi, psi = blocks(1)
    normalizer = get_part("normalizer", "cholesky-qr")()
    old = pair_of(phi, psi).canonical(normalizer)
    other = blocks(1, seed=5)[0]
    fresh = pair_of(other, old[1].V)
    found = fresh.canonical(normalizer, new=(0,))
    np.testing.assert_allclose(found.rho, cosines(X @ other, Y @ psi), atol=1e-10)
    np.testing.assert_allclose((Y @ found[1].V).T @ (Y @ found[1].V), np.eye(4), atol=1e-10)


@pytest.mark.parametrize("name", ls.normalizers())
@pytest.mark.parametrize("spoil", ["repeated", "zero", "tiny"])
def test_missing_rank_leaves_columns_of_zeros(name, spoil):
    phi, psi = blocks(3)
    phi[:, 2] = {"repeated": phi[:, 0], "zero": 0.0, "tiny": phi[:, 2] * 1e-200}[spoil]
    found = pair_of(phi, psi).normalized(get_part("normalizer", name)())
    G = (X @ found[0].V).T @ (X @ found[0].V)
    expected = np.eye(4) if spoil == "tiny" and np.diag(G).min() > 0.5 else np.diag([1.0, 1.0, 1.0, 0.0])
    np.testing.assert_allclose(G, expected, atol=1e-10)
    rest = found[0].V[:, np.diag(expected) > 0]
    np.testing.assert_allclose(cosines(rest, np.delete(phi, 2, axis=1))[:3], 1, atol=1e-9)


def test_a_block_with_nan_is_refused():
    phi, psi = blocks(1)
    phi[3, 1] = np.nan
    with pytest.raises(ls.errors.NonFiniteData, match="must be finite"):
        pair_of(phi, psi).normalized(get_part("normalizer", "cholesky-qr")())
