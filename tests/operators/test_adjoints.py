"""Operators that are no matrices: a wrong adjoint, products that are not linear; matrices are never accused."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.sparse.linalg
from backends import ProductsOnly

import linspec as ls
from linspec.rows import Passes
from linspec.solving.on_rows import moments_of

pytestmark = pytest.mark.filterwarnings(
    "ignore::linspec.errors.AccuracyWarning", "ignore::linspec.errors.ConvergenceWarning"
)
RNG = np.random.default_rng(3)
LIES = ("zero", "sign", "another", "twice", "affine", "absolute")
SOLVERS = {
    "least-squares": ("auto", "cg", "gd", "lsqr", "ling", "nystrom-pcg", "pcr"),
    "svd": ("auto", "gram", "block-krylov", "lanczos", "spca", "lazy-spca"),
    "cca": ("auto", "gram", "lobpcg", "als", "two-stage", "randomized"),
    "discriminant": ("auto", "two-stage"),
}
CASES = [(family, solver, "") for family, solvers in SOLVERS.items() for solver in solvers]
for taken in ("center", "weights", "confounds"):
    CASES += [("least-squares", "lsqr", taken), ("svd", "block-krylov", taken), ("cca", "lobpcg", taken)]


class Operator:
    """A matrix, or something that is none, by its products."""

    def __init__(self, A: Any, lie: str = "") -> None:
        self.A, self.lie, self.shape, self.dtype = A, lie, A.shape, A.dtype
        rng = np.random.default_rng(11)
        self.other = rng.standard_normal(A.shape).astype(A.dtype)
        self.offset = rng.standard_normal((A.shape[0], 1)).astype(A.dtype)

    def matmat(self, V: Any) -> Any:
        P = self.A @ V
        return {"affine": P + self.offset, "absolute": np.abs(P)}.get(self.lie, P)

    def rmatmat(self, U: Any) -> Any:
        P = self.A.T @ U
        return {"zero": 0 * P, "sign": -P, "twice": 2 * P, "another": self.other.T @ U}.get(self.lie, P)


def problem(family: str, A: Any, **settings: Any) -> Any:
    """A problem with an operator, of data that do not depend on it."""
    rng = np.random.default_rng(5)
    n = A.shape[0]
    Y, H = rng.standard_normal((n, 3)), np.eye(3)[np.arange(n) % 3]
    if family == "least-squares":
        return ls.LeastSquares(A, Y, ridge=0.1, **settings)
    if family == "svd":
        return ls.SVD(A, 2, **settings)
    if family == "cca":
        return ls.CCA(A, Y, 1, ridge=0.1, **settings)
    return ls.Discriminant(A, H, 1, ridge=0.1, **settings)


def solved(problem: Any, solver: Any) -> Any:
    return ls.solve(problem, solver, rng=0, max_passes=60)


def values(solution: Any) -> Any:
    for name in ("x", "S", "correlations", "eigenvalues"):
        if hasattr(solution, name):
            return np.asarray(getattr(solution, name))
    raise AssertionError


def given(settings: str, n: int) -> dict[str, Any]:
    """What is taken out of n rows."""
    stated: dict[str, dict[str, Any]] = {
        "": {},
        "center": {"center": True},
        "weights": {"sample_weight": np.arange(n) % 5 + 0.5},
        "confounds": {"confounds": np.arange(n) % 7, "center": True},
    }
    return stated[settings]


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize(("family", "solver", "settings"), CASES)
@pytest.mark.slow(keep=66)
def test_an_operator_that_is_no_matrix_is_named(family: str, solver: str, settings: str, lie: str) -> None:
    A, stated = RNG.standard_normal((60, 8)) + bool(settings), given(settings, 60)
    found = solved(problem(family, Operator(A, lie), **stated), solver)
    if found.status is ls.Status.INCONSISTENT:
        assert not found.converged
        assert "transpose" in found.message
        return
    # A run that makes forward products alone has a right answer, whatever the adjoint would be.
    assert lie not in ("affine", "absolute")
    assert not settings
    assert found.converged
    assert np.allclose(values(found), values(solved(problem(family, A), "direct")), atol=1e-6)


def matrices() -> list[Any]:
    """Matrices of all shapes and lengths of columns, of low rank, with large means, and zero."""
    found, rng = [], np.random.default_rng(3)
    for n, p in ((40, 9), (9, 40), (300, 2), (50, 1)):
        A = rng.standard_normal((n, p))
        found += [A, A * np.geomspace(1, 1e-12, p), A * np.geomspace(1e-8, 1, n)[:, None], A + 1e4, 0 * A]
        found += [np.outer(A[:, 0], np.ones(p)), A * (np.arange(p) == 0), 1e40 * A, 1e-40 * A]
    return found


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("settings", ["", "center", "weights", "confounds"])
@pytest.mark.slow(keep=2)
def test_matrices_are_never_accused(settings: str, dtype: Any) -> None:
    for A in matrices():
        if dtype == np.float32 and not 1e-30 < np.abs(A).max() < 1e30 and A.any():
            continue
        kinds = (Operator, ProductsOnly, scipy.sparse.linalg.aslinearoperator)
        for kind, k, held in itertools.product(kinds, (0, 3), (False, True)):
            stated = ls.SVD(kind(A.astype(dtype)), 1, **given(settings, len(A)))
            moments = moments_of(stated, Passes())
            if held:
                moments.gram()
            moments.products(RNG.standard_normal((A.shape[1], k)))
            assert moments.contradictions == ()


@pytest.mark.parametrize("mean", [1e3, 1e6])
@pytest.mark.parametrize("solver", ["cg", "lsqr"])
def test_digits_that_large_means_cost_are_said(mean: float, solver: str) -> None:
    """In float32, products lose the quotient of mean and deviation; the products are those of a matrix all the same."""
    A, y = (RNG.standard_normal((200, 6)) + mean).astype(np.float32), RNG.standard_normal((200, 1))
    found = solved(ls.LeastSquares(scipy.sparse.linalg.aslinearoperator(A), y, center=True), solver)
    X = A.astype(float) - A.mean(axis=0, dtype=float)
    exact = np.linalg.lstsq(X, y - y.mean(), rcond=None)[0]
    assert np.linalg.norm(found.x - exact) > 1e-5 * np.linalg.norm(exact)
    assert found.status is ls.Status.ILL_CONDITIONED
    assert "subtracted from products" in found.message
