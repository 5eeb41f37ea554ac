"""Lengths in the norm of S⁻¹ beside a solve with the matrix itself."""

from __future__ import annotations

import numpy as np
import pytest

from linspec.algebra.inverse_norm import FactorNorm, SketchNorm, galerkin
from linspec.algebra.preconditioner import preconditioner_from_sketch
from linspec.algebra.whitener import Whitener
from linspec.arrays import HOST

SEEDS = range(25)
ORDER = 40


def gram(seed, *, last=1e-3, columns=None):
    """XᵀX with singular values of X from 1 to `last`, its columns scaled by up to four orders of magnitude."""
    rng = np.random.default_rng(seed)
    p = ORDER if columns is None else columns
    Q, P = (np.linalg.qr(rng.standard_normal((p, p)))[0] for _ in range(2))
    X = Q * np.geomspace(1, last, p) @ P * 10 ** rng.uniform(-2, 2, p)
    return X.T @ X, rng


def exact(S, R):
    return np.einsum("ij,ij->j", R, np.linalg.solve(S, R))


def residuals(S, rng, columns=3):
    """Blocks as residuals are: along many eigenvectors, in any proportion."""
    values, vectors = np.linalg.eigh(S)
    return vectors @ (rng.standard_normal((len(S), columns)) * np.sqrt(values)[:, None] ** rng.uniform(0, 1))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_factor_gives_the_lengths_themselves(seed):
    S, rng = gram(seed)
    R = residuals(S, rng)
    norm = FactorNorm(Whitener(S, 0.0, 1e-14, HOST), HOST)
    found = norm.lengths(R)
    np.testing.assert_allclose(norm.squares(R), exact(S, R), rtol=1e-6)
    np.testing.assert_allclose(np.sum(np.asarray(norm.coordinates(R)) ** 2, axis=0), found)
    np.testing.assert_allclose(np.sum(R * norm.solve(R), axis=0), found, rtol=1e-6)


def test_galerkin_is_a_lower_bound_and_exact_where_the_block_has_the_answer():
    for seed in SEEDS:
        S, rng = gram(seed, last=1e-2)
        R = residuals(S, rng)
        truth = exact(S, R)
        Z = rng.standard_normal((ORDER, 6))
        below, rest = galerkin(R, Z, S @ Z, HOST)
        assert np.all(below <= truth)
        # What is lacking is the length of what is left.
        np.testing.assert_allclose(below + exact(S, rest), truth, rtol=1e-4)
        D = np.diag(1 / np.sqrt(np.diag(S)))
        E = np.hstack([np.linalg.solve(S, R), D @ Z])
        E = E / np.sqrt(np.sum(E * (S @ E), axis=0))
        np.testing.assert_allclose(galerkin(R, E, S @ E, HOST)[0], truth, rtol=1e-5)


@pytest.mark.parametrize("short", [1e-3, 1e-9])
def test_a_whitener_names_the_directions_that_it_cuts(short):
    """Squared, 1e-9 is rounding: it is left out, and handed over to be looked at."""
    rng = np.random.default_rng(0)
    Q, P = (np.linalg.qr(rng.standard_normal((m, 5)))[0] for m in (50, 5))
    X = Q * [1, 1, 1, 1, short] @ P.T
    found = Whitener(X.T @ X, 0.0, 5 * 2.2e-16, HOST)
    F = found.solve_adjoint(np.eye(found.rank))
    np.testing.assert_allclose(F.T @ X.T @ X @ F, np.eye(found.rank), atol=1e-8)
    if short == 1e-3:
        assert (found.rank, found.cut) == (5, None)
        assert found.condition == pytest.approx(np.linalg.cond(X / np.linalg.norm(X, axis=0)) ** 2, rel=5)
        return
    assert found.rank == 4
    assert np.linalg.norm(X @ found.cut) < 1e-7 * np.linalg.norm(found.cut)


@pytest.mark.parametrize("ridge", [1e-3, 1.0, 100.0])
def test_a_preconditioner_is_helped_by_products(ridge):
    """S ≥ FFᵀ + rI ≥ μP, whatever the random block; one more product narrows it."""
    for seed in SEEDS:
        S, rng = gram(seed, last=1e-2, columns=60)
        M = S + ridge * np.eye(60)
        Omega = rng.integers(0, 2, (60, 15)) * 2.0 - 1.0
        norm = SketchNorm(
            preconditioner_from_sketch(Omega, M @ Omega, ridge, np.diag(S), None, HOST), ridge, HOST
        )
        R = residuals(M, rng)
        truth, Z = exact(M, R), norm.solve(R)
        assert np.all(norm.squares(R) / norm.least >= truth * (1 - 1e-9))
        assert np.all(norm.lengths(R, Z, M @ Z) >= galerkin(R, Z, M @ Z, HOST)[0])
