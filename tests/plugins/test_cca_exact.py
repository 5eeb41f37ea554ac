"""Exact solvers of CCA, and what "auto" takes of them, where views are ill-conditioned or means far above spreads."""

from __future__ import annotations

import numpy as np
import pytest
from planted import Case, planted_cca
from truths import EPS, truth_of

import linspec as ls

RHO = np.array([0.9, 0.7, 0.4, 0.1])


def planted(condition):
    """Two centred views of 7 columns, whose condition no scaling of columns can mend."""
    values = np.geomspace(1, 1 / condition, 7)
    case = planted_cca(300, 7, 7, RHO, 4, values_x=values, values_y=values)
    return [A - A.mean(axis=0) for A in case.arrays.values()]


@pytest.mark.parametrize("condition", [1, 1e2, 1e5, 1e6, 1e9])
def test_direct_loses_one_power_of_the_condition_and_gram_two_and_says_so(condition):
    problem = ls.CCA(*planted(condition), 4)
    direct, gram, auto = (ls.solve(problem, name) for name in ("direct", "gram", "auto"))
    np.testing.assert_allclose(direct.correlations, RHO, atol=1e-13 * condition + 1e-13)
    assert direct.ranks == (7, 7)
    if gram.bounds is not None:
        error = np.abs(gram.correlations - RHO).max()
        assert error <= min(1e-14 * condition**2 + 1e-13, gram.bounds.max())
    if condition > 1e5:
        assert gram.status is ls.Status.ILL_CONDITIONED
        assert 'Choose "direct"' in gram.message
    elif condition < 1e3:
        assert gram.status is ls.Status.CONVERGED
    np.testing.assert_allclose(auto.correlations, RHO, atol=1e-13 * condition + 1e-9)
    assert auto.converged
    if condition == 1e9:
        assert auto.solver == "direct"
        assert "gram was tried first" in auto.message


@pytest.mark.skipif(EPS > 1e-18, reason="longdouble is float64 here: nothing can be decided")
@pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.slow(keep=2)
def test_bounds_hold_for_float32_with_a_ridge_below_its_rounding(seed):
    """The ridge keeps directions that are shorter than the rounding of float32; entries count as exact."""
    rng = np.random.default_rng(100 + seed)
    p, q = int(rng.integers(2, 5)), int(rng.integers(2, 5))
    condition = 10 ** rng.uniform(5.5, 7.5)
    spectrum = np.diag(np.logspace(0, -np.log10(condition), p))
    X = rng.standard_normal((60, p)) @ spectrum @ np.linalg.qr(rng.standard_normal((p, p)))[0]
    Y = X[:, :1] @ rng.standard_normal((1, q)) + rng.standard_normal((60, q))
    X, Y = X.astype(np.float32), Y.astype(np.float32)
    ridge, k = 10 ** rng.uniform(-16, -9), min(p, q)
    given = {"k": k, "ridge": ridge}
    exact = truth_of(Case("cca", {"X": X, "Y": Y}, given)).s[:k].astype(float)
    for solver in ("gram", "direct", "lobpcg"):
        found = ls.solve(ls.CCA(X, Y, k, ridge=ridge), solver, rng=0)
        if found.bounds is not None:
            off = np.abs(found.correlations[:, None] - exact[None, :]).min(axis=1)
            assert (off <= found.bounds + 1e-15).all()
        if found.converged:
            np.testing.assert_allclose(found.correlations, exact[: len(found.correlations)], atol=1e-6)
        if solver == "direct":
            np.testing.assert_allclose(found.correlations, exact, atol=1e-8)


# ---- what "auto" may take -------------------------------------------------------------------------
