"""Devices without float64: products in float32 there, sums and answers as on the host, and one error for the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from backends import backends

import linspec as ls
from linspec.arrays import HOST, to_host
from linspec.errors import UnsupportedData
from linspec.registry.options import options_of

(device,) = backends(["array-api-strict-no-float64"])
RNG = np.random.default_rng(0)
N, P, Q = 900, 24, 18
SHARED = RNG.standard_normal((N, 8))
X = (SHARED @ RNG.standard_normal((8, P)) + 2 * RNG.standard_normal((N, P))).astype(np.float32)
Y = (SHARED @ RNG.standard_normal((8, Q)) + 2 * RNG.standard_normal((N, Q))).astype(np.float32)
W, Z = RNG.uniform(0.5, 2.0, N), RNG.standard_normal((N, 2))
ALL = {"center": True, "sample_weight": W, "confounds": Z}
SOLVERS = set(ls.solvers("cca")) - {
    "naive-gradient",
    "sparse-appgrad",
}  # which take seconds by the same products


@pytest.mark.parametrize(
    ("solver", "given"), [*((name, {}) for name in sorted(SOLVERS)), ("lobpcg", ALL), ("gram", ALL)]
)
@pytest.mark.filterwarnings(
    "ignore::linspec.errors.ConvergenceWarning", "ignore::linspec.errors.AccuracyWarning"
)
def test_answers_are_those_of_the_host(solver: str, given: dict[str, Any]) -> None:
    """An exact answer to the float32 data bounds the sum of the correlations; converged answers come near it."""
    stated = {"k": 3, "ridge": 1.0, **given}
    exact = ls.solve(ls.CCA(X.astype(float), Y.astype(float), **stated), "direct").correlations.sum()
    passes = (
        {"form": "implicit"} if "form" in {o.name for o in options_of(ls.get_solver(solver, "cca"))} else {}
    )
    found = ls.solve(ls.CCA(device.wrap(X), device.wrap(Y), **stated), solver, rng=0, **passes)
    total = float(np.sum(to_host(found.correlations), dtype=np.float64))
    assert total <= exact * (1 + 1e-7)
    if found.converged:
        assert total >= exact * (1 - 10 * found.tol)


@pytest.mark.parametrize("weights", [None, W])
def test_the_host_multiplies_what_float32_cannot(weights: Any) -> None:
    A = X * np.float32(1e13)
    wide, w = A.astype(np.float64), np.ones(N) if weights is None else weights
    C = (wide - np.average(wide, axis=0, weights=w)) * np.sqrt(w)[:, None]
    found = ls.solve(ls.SVD(device.wrap(A), k=P, center=True, sample_weight=weights))
    assert to_host(found.S) == pytest.approx(np.linalg.svd(C, compute_uv=False), rel=1e-6)


def test_data_that_need_float64_end_in_one_error() -> None:
    assert ls.as_operator(device.wrap(X)).device.blocks == HOST
    for numbers in (np.arange(12).reshape(4, 3), np.array([[2**40]])):
        with pytest.raises(UnsupportedData, match="need float64, which their device does not have"):
            ls.SVD(device.wrap(numbers), k=1)
