"""Discriminants by factorisation of wide matrices: precision of the weights, by products in extended precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linspec as ls


def wide(condition: float, dtype: Any, shift: float) -> tuple[Any, Any]:
    """Eight rows whose centred part has seven singular values from 1 to 1 / condition, and targets for them."""
    rng = np.random.default_rng(0)
    U = np.linalg.qr(np.column_stack([np.ones(8), rng.standard_normal((8, 7))]))[0][:, 1:]
    V = np.linalg.qr(rng.standard_normal((40, 7)))[0]
    X = (U * np.geomspace(1, 1 / condition, 7)) @ V.T + shift * rng.standard_normal(40)
    return X.astype(dtype), rng.standard_normal((8, 5)).astype(dtype)


@pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")
@pytest.mark.parametrize("shift", [0.0, 1.0])
@pytest.mark.parametrize("ridge", [0.0, 0.1])
@pytest.mark.parametrize(
    ("condition", "dtype"), [(3e3, np.float32), (1e5, np.float32), (1e5, np.float64), (1e8, np.float64)]
)
def test_weights_are_orthonormal_up_to_their_own_rounding(
    condition: float, dtype: Any, ridge: float, shift: float
) -> None:
    """A weight vector w in a dtype has rounding of eps ‖w‖, so the metric of two of them is off by eps ‖X‖ ‖w‖."""
    X, H = wide(condition, dtype, shift)
    ridge = ridge / condition**2
    found = ls.solve(ls.Discriminant(X, H, 3, ridge=ridge, center=True), "direct")
    W = found.weights.astype(np.longdouble)
    image = (X.astype(np.longdouble) - X.astype(np.longdouble).mean(axis=0)) @ W
    misfit = np.abs(image.T @ image + ridge * (W.T @ W) - np.eye(3)).max()
    longest = np.linalg.norm(found.weights.astype(float), axis=0).max()
    assert misfit <= 5 * np.finfo(dtype).eps * longest * (1 + shift)


@pytest.mark.parametrize("ridge", [0.0, 1e-17])
def test_a_condition_number_of_1e8_leaves_the_answer_within_the_tolerance(ridge: float) -> None:
    X, H = wide(1e8, np.float64, 0.0)
    found = ls.solve(ls.Discriminant(X, H, 3, ridge=ridge, center=True), "direct")
    assert found.converged


@pytest.mark.parametrize("solver", ["direct", "two-stage"])
def test_eigenvalues_that_short_directions_hide_are_said_to_be_missing(solver: str) -> None:
    # with kappa 1e6 and hardly a ridge, float32 does not know T, the second eigenvalue is 2 % of the first
    rng = np.random.default_rng(0)
    U, _ = np.linalg.qr(rng.standard_normal((12, 5)))
    V, _ = np.linalg.qr(rng.standard_normal((5, 5)))
    X = (U * np.geomspace(1.0, 1e-6, 5)) @ V.T
    H = U[:, [0, 1]] * [1.0, 0.14]
    narrow = ls.solve(ls.Discriminant(X.astype(np.float32), H, 2, ridge=1e-12, center=False), solver)
    wide = ls.solve(ls.Discriminant(X, H, 2, ridge=1e-12, center=False), solver)
    assert wide.eigenvalues == pytest.approx([1.0, 0.14**2], rel=1e-3)
    assert wide.converged
    lost = 1 - narrow.eigenvalues.sum() / (1 + 0.14**2)
    assert lost < 1e-3 or narrow.status is ls.Status.ILL_CONDITIONED
    assert lost > 1e-3, "the example must be hard enough"
