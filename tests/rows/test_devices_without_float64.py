"""Devices without float64: products in float32 there, sums and answers as on the host."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest

import linspec as ls
from linspec.arrays import to_host
from linspec.errors import UnsupportedData
from linspec.registry.options import options_of

N, P, Q, K = 900, 24, 18, 3
RNG = np.random.default_rng(0)
SHARED = RNG.standard_normal((N, 8))
X = SHARED @ RNG.standard_normal((8, P)) + 2 * RNG.standard_normal((N, P))
Y = SHARED @ RNG.standard_normal((8, Q)) + 2 * RNG.standard_normal((N, Q))
NARROW = X.astype(np.float32), Y.astype(np.float32)


def without_float64(A):
    """An array of a device that refuses float64 with an error."""
    return array_api_strict.asarray(A, device=array_api_strict.Device("no_float64"))


def swept(problem, solver, **options):
    """Solve by passes, where the solver has a choice."""
    known = {option.name for option in options_of(ls.get_solver(solver, problem))}
    own = {"form": "implicit"}
    return ls.solve(problem, solver, rng=0, **{k: v for k, v in own.items() if k in known}, **options)


@pytest.mark.parametrize("solver", ls.solvers("cca"))
@pytest.mark.filterwarnings(
    "ignore::linspec.errors.ConvergenceWarning", "ignore::linspec.errors.AccuracyWarning"
)
def test_answers_are_those_of_the_host(solver):
    """An exact answer to the float32 data bounds the sum of the correlations; converged answers come near it."""
    exact = ls.solve(
        ls.CCA(*(A.astype(np.float64) for A in NARROW), k=K, ridge=1.0), "direct"
    ).correlations.sum()
    found = swept(ls.CCA(*map(without_float64, NARROW), k=K, ridge=1.0), solver)
    total = float(np.sum(to_host(found.correlations), dtype=np.float64))
    assert total <= exact * (1 + 1e-7)
    if found.converged:
        assert total >= exact * (1 - 10 * found.tol)


def test_weights_and_confounds_are_applied_on_the_host_too():
    w, Z = RNG.uniform(0.5, 2.0, N), RNG.standard_normal((N, 2))
    problem = ls.CCA(*map(without_float64, NARROW), k=K, ridge=1.0, center=True, sample_weight=w, confounds=Z)
    found = swept(problem, "lobpcg")
    exact = ls.solve(
        ls.CCA(
            *(A.astype(np.float64) for A in NARROW),
            k=K,
            ridge=1.0,
            center=True,
            sample_weight=w,
            confounds=Z,
        ),
        "direct",
    )
    assert found.converged
    np.testing.assert_allclose(to_host(found.correlations), exact.correlations, rtol=1e-6)


def test_data_that_need_float64_end_in_one_error():
    with pytest.raises(UnsupportedData, match="need float64, which their device does not have"):
        ls.SVD(without_float64(np.arange(12).reshape(4, 3)), k=1)
