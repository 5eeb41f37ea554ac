"""Small matrices on the host: eigenpairs, roots, bases of blocks, and nearest sparse vectors."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

from linspec.linalg import nearest_unit, orthonormal
from linspec.linalg.small_matrices import eigenpairs, inverse_root, leading_eigenpairs


def test_eigenpairs_where_divide_and_conquer_gives_up(monkeypatch):
    """LAPACK's dsyevd fails on some finite matrices; which ones, differs from build to build."""

    def fails(G):
        raise np.linalg.LinAlgError("Eigenvalues did not converge")

    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((30, 30)))[0]
    planted = np.repeat([1.0, 2.0, 5.0], 10)
    monkeypatch.setattr(np.linalg, "eigh", fails)
    values, vectors = eigenpairs((Q * planted) @ Q.T)
    np.testing.assert_allclose(values, planted, rtol=1e-13)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(30), atol=1e-13)
    with pytest.raises(np.linalg.LinAlgError):
        eigenpairs(np.full((3, 3), np.nan))


@pytest.mark.parametrize("noise", [0.0, 1e-17, 1e-16])
@pytest.mark.parametrize("k", [1, 3])
def test_leading_eigenpairs_near_a_multiple_of_the_identity(noise, k):
    """LAPACK's routine for some of the eigenvalues finds too few of them, or none."""
    for order in (64, 128, 256):
        E = noise * np.random.default_rng(order).standard_normal((order, order))
        G = 0.5 * np.eye(order) + (E + E.T) / 2
        values, vectors = leading_eigenpairs(G, k)
        assert vectors.shape == (order, k)
        np.testing.assert_allclose(values, np.full(k, 0.5), rtol=1e-14)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(k), atol=1e-12)


def test_inverse_root_is_that_of_scipy_and_leaves_out_what_is_not_there():
    rng = np.random.default_rng(0)
    B = rng.standard_normal((9, 4))
    T, size = inverse_root(B.T @ B)
    np.testing.assert_allclose(T, np.linalg.inv(scipy.linalg.sqrtm(B.T @ B)), atol=1e-12)
    assert size == pytest.approx(np.linalg.svd(B, compute_uv=False).sum())
    short = np.outer(B[:, 0], [1.0, 2.0])
    T, _ = inverse_root(short.T @ short)
    np.testing.assert_allclose(T @ (short.T @ short) @ T, np.outer([1, 2], [1, 2]) / 5, atol=1e-7)


def test_orthonormal_bases_leave_dependent_columns_out() -> None:
    rng = np.random.default_rng(0)
    columns = rng.standard_normal((50, 3)) * [1e-30, 1.0, 1e30]
    dependent = np.column_stack([columns, columns @ rng.standard_normal((3, 2))])
    for M, rank in ((columns, 3), (dependent, 3), (columns * 0, 0)):
        Q, tau = orthonormal(M)
        assert Q.shape[1] == rank
        assert np.allclose(Q.T @ Q, np.eye(rank), rtol=0, atol=1e-14)
        lengths = np.linalg.norm(M, axis=0)
        assert (np.linalg.norm(Q @ tau - M, axis=0) <= 1e-12 * lengths).all()


@pytest.mark.parametrize("bound", [1.0, 1.2, 2**0.5, 1.6])
@pytest.mark.parametrize("gap", [0.0, 2.0**-53, 2.0**-52, 1e-15, 1e-9])
def test_nearest_vectors_of_nearly_equal_entries_are_unit_vectors_within_the_bound(bound, gap):
    """Of two entries that differ by rounding, the nearest vector has the largest product, which is a formula."""
    w = nearest_unit(np.array([[1.0], [1.0 - gap]]), bound).ravel()
    assert np.linalg.norm(w) == pytest.approx(1.0, abs=1e-14)
    assert w.sum() <= bound + 1e-14
    assert w @ [1.0, 1.0 - gap] == pytest.approx(min(bound, 2**0.5), abs=1e-8)
