"""One row, one column, zeros and constants: every solver ends with an answer, and no error that is not linspec's."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import linspec as ls

RNG = np.random.default_rng(5)
SHAPES = [(1, 1, 1), (1, 3, 2), (2, 1, 1), (5, 3, 2), (3, 5, 4)]


def pairs() -> list[tuple[Any, Any]]:
    found = []
    for n, p, q in SHAPES:
        X, Y = RNG.standard_normal((n, p)), RNG.standard_normal((n, q))
        found += [(X, Y), (np.ones((n, p)), np.ones((n, q))), (np.zeros((n, p)), Y), (X, np.zeros((n, q)))]
    return found


PROBLEMS: dict[str, Any] = {
    "least-squares": lambda X, Y, center: ls.LeastSquares(X, Y),
    "svd": lambda X, Y, center: ls.SVD(X, min(X.shape), center=center),
    "cca": lambda X, Y, center: ls.CCA(X, Y, 1, center=center),
    "discriminant": lambda X, Y, center: ls.Discriminant(X, Y, 1, center=center),
}


@pytest.mark.parametrize(
    ("family", "solver"), [(family, name) for family in PROBLEMS for name in ("auto", *ls.solvers(family))]
)
@pytest.mark.slow(keep=5)
def test_little_or_nothing_to_find(family: str, solver: str) -> None:
    for X, Y in pairs():
        for center in (True, False):
            for data in (X, scipy.sparse.csr_array(X)):
                with warnings.catch_warnings():
                    warnings.simplefilter("error", RuntimeWarning)
                    warnings.simplefilter("ignore", ls.errors.ConvergenceWarning)
                    warnings.simplefilter("ignore", ls.errors.AccuracyWarning)
                    found = ls.solve(PROBLEMS[family](data, Y, center), solver, rng=0)
                assert np.isfinite(found.residual)
                C = (X - X.mean(axis=0) if center else X).T @ (Y - Y.mean(axis=0) if center else Y)
                if family == "cca" and np.abs(C).max() < 1e-12:
                    assert found.correlations.sum() < 1e-6
                if family == "least-squares":
                    exact = np.linalg.lstsq(X, Y, rcond=None)[0]
                    assert found.status is not ls.Status.CONVERGED or np.allclose(found.x, exact, atol=1e-5)
