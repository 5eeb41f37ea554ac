"""`whitened-svd` on rows with one entry: against a dense oracle, graph theory, and the whitener's own definition."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec_cca import whitened


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """The iterative way for small problems, too."""
    monkeypatch.setattr(whitened, "FEWEST_COLUMNS", 0)


def categories(seed=0, n=2500, p=70, q=50, values=False, empty=0.0):
    """Two sparse views with one entry a row at most, that depend on one another; one column is never met."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, p - 1, n)
    y = np.where(rng.random(n) < 0.6, (3 * x + rng.integers(0, 3, n)) % (q - 1), rng.integers(0, q - 1, n))

    def view(columns, width):
        kept = rng.random(n) >= empty
        numbers = rng.uniform(-2, 2, n) if values else np.ones(n)
        return scipy.sparse.csr_array((numbers[kept], (np.flatnonzero(kept), columns[kept])), (n, width))

    return view(x, p), view(y, q)


def solved(X, Y, k, tol=1e-11, **problem):
    """Correlations of the iterative way, and those by factorisation of the rows."""
    problem = ls.CCA(X, Y, k, **problem)
    found = ls.solve(problem, "whitened-svd", rng=0, tol=tol)
    exact = ls.solve(problem, "direct").correlations
    np.testing.assert_allclose(found.correlations, exact, atol=1e-9)
    return found


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("ridge", [(0.0, 0.0), (0.01, 30.0)])
@pytest.mark.parametrize("kind", [{}, {"values": True}, {"empty": 0.3}])
def test_the_correlations_are_exact_in_two_passes(center, ridge, kind):
    X, Y = categories(**kind)
    found = solved(X, Y, 6, ridge=ridge, center=center)
    scored = ls.metrics.tcc(X, Y, found.x_weights, found.y_weights, ridge=ridge, center=center)
    assert scored == pytest.approx(found.correlations.sum(), abs=1e-8)
    assert found.converged
    assert found.residual_kind == "exact"
    assert found.passes <= 2


@pytest.mark.parametrize("scale", [True, False])
def test_weights_confounds_and_scales_of_the_rows(scale):
    X, Y = categories(values=True)
    rng = np.random.default_rng(1)
    weights, confounds = rng.integers(0, 3, X.shape[0]) + 0.0, rng.standard_normal(X.shape[0])
    solved(X, Y, 5, ridge=1.0, scale=scale, sample_weight=weights, confounds=confounds)


def test_rows_with_more_entries_are_solved_as_gram_solves_them():
    X, Y = categories()
    solved(X, scipy.sparse.csr_array(Y @ np.random.default_rng(0).random((50, 9))), 4, ridge=1.0)


def test_all_copies_of_a_repeated_correlation_are_found():
    """Without a ridge, 1 is as often a correlation as the graph of the categories has components."""
    components, each, n = 23, 6, 6000
    rng = np.random.default_rng(0)
    group = rng.integers(0, components, n)
    x, y = (group * each + rng.integers(0, each, n) for _ in range(2))
    X, Y = (scipy.sparse.csr_array((np.ones(n), c, np.arange(n + 1)), (n, components * each)) for c in (x, y))
    found = solved(X, Y, components + 2, center=False)
    np.testing.assert_allclose(found.correlations[:components], 1.0, atol=1e-9)
    assert found.correlations[components] < 0.9


def test_copies_at_the_last_place_do_not_spoil_the_certificate():
    X, Y = (scipy.sparse.block_diag([A] * 12, format="csr") for A in categories())
    assert solved(X, Y, 20, tol=1e-9, ridge=1.0, center=False).converged
