"""The growing basis against LAPACK: Ritz pairs, residuals, orthogonality, and that no step changes an earlier basis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from linspec.algebra import GrowingBasis, columns_outside, orthonormal_columns
from linspec.arrays import HOST, Home, to_host

RNG = np.random.default_rng(0)

VALUES = {
    "even": np.linspace(1.0, 0.01, 90),
    "falling": np.geomspace(1.0, 1e-12, 90),
    "repeated": np.repeat([3.0, 2.0, 1.0], 30),
    "of low rank": np.r_[np.linspace(2.0, 1.0, 12), np.zeros(78)],
    "of both signs": np.linspace(1.0, -0.9, 90),
}


def planted(values: Any) -> np.ndarray:
    Q = np.linalg.qr(np.random.default_rng(1).standard_normal((len(values), len(values))))[0]
    return Q * values @ Q.T


def begun(p: int, b: int = 5, most: int = 60, home: Home = HOST, **options: Any) -> GrowingBasis:
    first = home.place(np.random.default_rng(2).standard_normal((p, b)))
    return GrowingBasis.begin(orthonormal_columns(first, home), most=most, home=home, **options)


def grown(basis: GrowingBasis, M: np.ndarray, steps: int, keep: int = 12) -> GrowingBasis:
    for _ in range(steps):
        if basis.is_invariant:
            break
        if basis.is_full:
            basis = basis.restart(keep)
        basis = basis.grow(basis.home.place(M @ to_host(basis.next)))
    return basis


@pytest.mark.parametrize("steps", [1, 4, 11, 30])
@pytest.mark.parametrize("values", VALUES)
def test_what_it_says_of_its_span_is_so(values: str, steps: int) -> None:
    """H, the residuals and the orthogonality are those that products with M show, with restarts too."""
    M = planted(VALUES[values])
    size = np.abs(VALUES[values]).max()
    basis = grown(begun(90, bearable=1e-12), M, steps)
    V = basis.rows.T
    assert V.shape == (90, basis.count)
    np.testing.assert_allclose(V.T @ V, np.eye(basis.count), atol=1e-11)
    np.testing.assert_allclose(V.T @ basis.next, 0.0, atol=1e-11)
    np.testing.assert_allclose(basis.next.T @ basis.next, np.eye(basis.next.shape[1]), atol=1e-11)
    np.testing.assert_allclose(V.T @ M @ V, basis.H, atol=1e-11 * size)
    theta, _ = basis.ritz
    np.testing.assert_allclose(theta, np.linalg.eigvalsh(V.T @ M @ V)[::-1], atol=1e-11 * size)
    vectors = basis.vectors(4)
    rests = np.linalg.norm(M @ vectors - vectors * theta[:4], axis=0)
    np.testing.assert_allclose(basis.residuals(4), rests, atol=1e-11 * size)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(vectors.shape[1]), atol=1e-14)


def test_it_finds_the_leading_eigenvectors() -> None:
    M = planted(VALUES["falling"])
    basis = begun(90)
    while basis.count == 0 or basis.residuals(6).max() > 1e-13:
        basis = grown(basis, M, 1)
    values, vectors = np.linalg.eigh(M)
    np.testing.assert_allclose(basis.ritz[0][:6], values[::-1][:6], atol=1e-14)
    found = np.abs(vectors[:, ::-1][:, :6].T @ basis.vectors(6))
    np.testing.assert_allclose(found, np.eye(6), atol=1e-9)


def test_an_invariant_space_has_no_next_block() -> None:
    M = planted(VALUES["of low rank"])
    basis = grown(begun(90, unit=1e-14), M, 30)
    assert basis.is_invariant
    assert basis.restarts == 0
    V = basis.rows.T
    np.testing.assert_allclose(M @ V, V @ basis.H, atol=1e-13)
    np.testing.assert_allclose(basis.ritz[0][:12], VALUES["of low rank"][:12], rtol=1e-12)


def test_copies_of_a_repeated_value_come_with_another_random_block() -> None:
    """Blocks of five columns find five copies of the value 3; with five more of them in a new block there are ten."""
    M = planted(VALUES["repeated"])
    basis = grown(begun(90, unit=1e-14), M, 30)
    assert basis.is_invariant
    np.testing.assert_allclose(basis.ritz[0][:6], [3] * 5 + [2], rtol=1e-12)
    basis = grown(basis.restart(5, RNG.standard_normal((90, 5))), M, 30)
    np.testing.assert_allclose(basis.ritz[0][:11], [3] * 10 + [2], rtol=1e-12)


def test_arrays_of_another_library_stay_there() -> None:
    xp = pytest.importorskip("array_api_strict")
    home = Home(xp, xp.Device("device1"))
    M = planted(VALUES["even"])
    there, here = grown(begun(90, home=home), M, 20), grown(begun(90), M, 20)
    assert there.rows.device == there.next.device == home.device
    np.testing.assert_allclose(there.ritz[0], here.ritz[0], atol=1e-12)
    np.testing.assert_allclose(to_host(there.outside(there.next)), to_host(there.next), atol=1e-9)


def test_columns_outside_are_orthonormal_to_rounding() -> None:
    V = np.linalg.qr(RNG.standard_normal((50, 8)))[0].T
    Y = V.T @ RNG.standard_normal((8, 3)) + 1e-6 * RNG.standard_normal((50, 3))
    Q = columns_outside(Y, V, HOST)
    np.testing.assert_allclose(V @ Q, 0.0, atol=1e-15)
    np.testing.assert_allclose(Q.T @ Q, np.eye(3), atol=1e-14)
