"""LSQR on the bidiagonalisation against SciPy's, dense solutions, and the passes it takes."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
from in_blocks import rows_of

from linspec.arrays import to_host
from linspec.linalg import golub_kahan, lsqr
from linspec.rows import Moments, Preprocessing

rng = np.random.default_rng(0)
n, p, k = 400, 25, 3
A = rng.standard_normal((n, p)) * np.logspace(0, -1.5, p) + 1
b = A @ rng.standard_normal((p, k)) + rng.standard_normal((n, k))
ridges = (0.0, 0.1, 10.0)
ASKED: dict[str, dict[str, Any]] = {
    "plain": {},
    "center": {"center": True},
    "all": {
        "center": True,
        "scale": True,
        "weights": 3 * rng.random(n),
        "confounds": rng.standard_normal((n, 2)),
    },
}
KINDS = {
    "array": np.asarray,
    "csr": scipy.sparse.csr_array,
    "slices": lambda M: lambda: (M[i : i + 130] for i in range(0, n, 130)),
}


def run(data: Any, right: Any, asked: dict[str, Any]) -> Any:
    """Moments of both, the preprocessed matrices, and the steps."""
    moments = Moments([rows_of(data), rows_of(right)], Preprocessing.of(**asked))
    place = moments.operators[1].backend.blocks
    unit = place.eye(moments.widths[1])
    adjoint = moments.products(None, unit)[1][0]
    U = moments.operator(1).matmat(unit)
    dense, host = to_host(moments.operator(0).matmat(place.eye(p))), to_host(U).copy()
    steps = golub_kahan(moments.long_step, adjoint, U, np.linalg.norm(host, axis=0))
    return moments, dense, host, lsqr(steps, ridges)


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("kind", KINDS)
def test_iterates_are_those_of_lsqr(kind: str, asked: str) -> None:
    _, dense, right, steps = run(KINDS[kind](A), b, ASKED[asked])
    X, lengths = list(islice(steps, 5))[-1]
    for x, own, ridge in zip(X, lengths, ridges, strict=True):
        for j in range(k):
            peer = scipy.sparse.linalg.lsqr(
                dense, right[:, j], damp=ridge**0.5, iter_lim=4, atol=0, btol=0, conlim=0
            )[0]
            assert np.abs(x[:, j] - peer).max() <= 1e-9 * np.abs(peer).max()
        gradient = dense.T @ (right - dense @ x) - ridge * x
        assert np.linalg.norm(gradient, axis=0) == pytest.approx(own, rel=1e-6)


def test_answers_are_those_of_lapack_and_a_step_is_a_pass() -> None:
    moments, dense, right, steps = run(A, b, ASKED["all"])
    before = moments.read[0]
    X, lengths = list(islice(steps, 81))[-1]
    assert moments.read[0] - before == 80
    for x, ridge in zip(X, ridges, strict=True):
        exact = np.linalg.solve(dense.T @ dense + ridge * np.eye(p), dense.T @ right)
        assert np.abs(x - exact).max() <= 1e-10 * np.abs(exact).max()
    assert lengths.max() <= 1e-10


def test_columns_that_end_stand_still() -> None:
    right = np.column_stack([A[:, 0], np.zeros(n), b[:, 0]])
    _, dense, own, steps = run(A, right, {})
    X, _ = list(islice(steps, 120))[-1]
    assert np.isfinite(X[0]).all()
    assert not X[0][:, 1].any()
    assert np.linalg.norm(own - dense @ X[0], axis=0)[0] <= 1e-10
    exact = np.linalg.lstsq(dense, own, rcond=None)[0]
    assert np.abs(X[0] - exact).max() <= 1e-8


@pytest.mark.parametrize("library", ["array_api_strict", "torch"])
def test_arrays_of_other_libraries_stay_in_them(library: str) -> None:
    xp = pytest.importorskip(library)
    _, dense, right, steps = run(xp.asarray(A), xp.asarray(b), ASKED["center"])
    X, _ = list(islice(steps, 60))[-1]
    assert type(X[0]) is type(xp.asarray(A))
    exact = np.linalg.solve(dense.T @ dense + 10 * np.eye(p), dense.T @ right)
    assert np.abs(to_host(X[2]) - exact).max() <= 1e-10
