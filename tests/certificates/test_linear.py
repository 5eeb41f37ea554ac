"""Claims of the linear certificate against errors in long double: never ten times too small; right answers stand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from in_blocks import rows_of
from truths import extended, svd

from linspec.certificates import certify_linear
from linspec.certificates.metric import SKETCH_ROWS
from linspec.linalg import block_cg
from linspec.rows import Moments, Preprocessing

rng = np.random.default_rng(5)
n = 300
grid = np.linspace(0, 1, n)


def spectrum(values: Any) -> Any:
    p = len(values)
    left, right = (np.linalg.qr(rng.standard_normal((size, p)))[0] for size in (n, p))
    return left * values @ right.T


near = rng.standard_normal((n, 6))
near[:, 1] = near[:, 0] + 1e-6 * rng.standard_normal(n)
same = rng.standard_normal((n, 6))
same[:, 4] = 2 * same[:, 1]
MATRICES = {
    "gauss": rng.standard_normal((n, 8)),
    "vandermonde": np.vander(grid, 8),
    "graded columns": rng.standard_normal((n, 8)) * np.logspace(0, -10, 8),
    "graded spectrum": spectrum(np.logspace(0, -5, 10)),
    "one tiny": spectrum(np.append(np.ones(9), 1e-6)),
    "near columns": near,
    "sparse": scipy.sparse.random_array((n, 20), density=0.2, rng=rng, format="csr"),
    "dependent columns": same,
}


def exact(A: Any, b: Any, ridge: float) -> Any:
    """The solution by singular values in long double."""
    p = A.shape[1]
    U, s, V = svd(extended(np.vstack([A, np.sqrt(ridge) * np.eye(p)])))
    return V @ (U.T @ extended(np.vstack([b, np.zeros((p, b.shape[1]))])) / s[:, None])


def judged(A: Any, b: Any, x: Any, ridge: float = 0.0, *, held: bool = False, **asked: Any) -> Any:
    pre = Preprocessing.of(**asked)
    moments = Moments([rows_of(A), rows_of(b)], pre, sketch_rows=0 if held else SKETCH_ROWS * A.shape[1])
    if held:
        moments.gram()
    return certify_linear(moments, x, ridge)


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("noise", [0.0, 1.0])
@pytest.mark.parametrize("name", MATRICES)
def test_claims_are_not_too_small(name: str, noise: float, *, held: bool) -> None:
    A = MATRICES[name]
    dense = A.toarray() if scipy.sparse.issparse(A) else A
    b = dense @ rng.standard_normal((dense.shape[1], 2)) + noise * rng.standard_normal((n, 2))
    if name == "dependent columns":
        x = truth = np.linalg.pinv(dense) @ b
    else:
        truth = exact(dense, b, 0.0)
        x = truth.astype(float)
    Vt = np.linalg.svd(dense, full_matrices=False)[2]
    answers = {"right": x, "along the shortest": x + Vt[-1][:, None] * np.linalg.norm(x, axis=0)}
    answers |= {
        f"noise {size}": x * (1 + size * rng.standard_normal(x.shape)) for size in (1e-12, 1e-6, 1e-2)
    }
    steps = block_cg(lambda V: dense.T @ (dense @ V), dense.T @ b)
    answers |= {f"{i} steps": X[0] for i, (X, _) in zip(range(8), steps, strict=False) if i % 3 == 1}
    for what, answer in answers.items():
        found = judged(A, b, answer, held=held)
        error = (answer - truth).astype(float)
        off = np.linalg.norm(error, axis=0) / np.linalg.norm(x, axis=0)
        fitted = np.linalg.norm(dense @ error, axis=0) / np.linalg.norm(b, axis=0)
        assert off.max() <= 10 * found.coefficients + 1e-13, what
        assert fitted.max() <= 10 * found.fitted + 1e-15, what
        if off.max() > 0.1:
            assert found.status not in {"CONVERGED", "RANK_DEFICIENT"} or found.share < 0.01, what
    assert judged(A, b, x, held=held).status == (
        "RANK_DEFICIENT" if name == "dependent columns" else "CONVERGED"
    )


def test_claims_with_preprocessing_and_a_ridge() -> None:
    A, b = near * 3 + 7, near @ rng.standard_normal((6, 2)) + rng.standard_normal((n, 2)) - 2
    w, Z = 3 * rng.random(n), np.column_stack([grid, grid**2])
    both = np.column_stack([np.ones(n), Z])
    roots = np.sqrt(w)[:, None]
    Q, _ = np.linalg.qr(both * roots)
    left = [M * roots - Q @ (Q.T @ (M * roots)) for M in (A, b)]
    D = np.sqrt(np.sum(left[0] ** 2, axis=0) / w.sum())
    for ridge in (0.0, 1e-3, 10.0):
        truth = exact(left[0] / D, left[1] / np.sqrt(np.sum(left[1] ** 2, axis=0) / w.sum()), ridge).astype(
            float
        )
        asked = {"center": True, "weights": w, "confounds": Z, "scale": True}
        assert judged(A, b, truth, ridge, **asked).status == "CONVERGED"
        short = np.array([1.0, -1, 0, 0, 0, 0])[:, None] / 10
        wrong = judged(A, b, truth + short * np.linalg.norm(truth, axis=0), ridge, **asked)
        assert wrong.status != "CONVERGED"
        assert wrong.coefficients > 0.03


def test_the_share_bounds_every_coefficient_in_its_standard_errors() -> None:
    A = MATRICES["graded spectrum"]
    b = A @ np.ones((10, 1)) + 0.1 * rng.standard_normal((n, 1))
    truth = exact(A, b, 0.0).astype(float)
    sigma = np.linalg.norm(b - A @ truth) / np.sqrt(n - 10)
    errors = sigma * np.sqrt(np.diag(np.linalg.inv(A.T @ A)))[:, None]
    for size in (1e-9, 1e-6, 1e-3):
        x = truth + size * rng.standard_normal(truth.shape)
        assert (np.abs(x - truth) / errors).max() <= judged(A, b, x).share


def test_words() -> None:
    A, b = MATRICES["gauss"], rng.standard_normal((n, 1))
    x = exact(A, b, 0.0).astype(float)
    assert judged(A, b, x).words.startswith("fitted values: about 15 digits; coefficients: about 1")
    stopped = judged(MATRICES["one tiny"], b, np.ones((10, 1)))
    assert stopped.status == "INACCURATE"
    deficient = judged(MATRICES["dependent columns"], b, np.linalg.pinv(same) @ b)
    assert (deficient.rank, deficient.status) == (5, "RANK_DEFICIENT")
