"""Number of components: each permutation by hand, false-positive rates, and what is refused."""

from __future__ import annotations

import itertools
from functools import partial

import array_api_strict
import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
import scipy.stats
from planted import correlated

import linspec as ls
import linspec.families.cca.significance
from linspec.errors import (
    ConvergenceWarning,
    InvalidOption,
    InvalidProblem,
    MissingCapability,
    NoSuitableSolver,
)

noise = partial(correlated, n=60, p=6, q=4, rho=())


def planted(rng, n=200, p=8, q=6, rho=(0.9, 0.7)):
    """Population correlations rho and no others, the columns of both views mixed."""
    X, Y = correlated(rng, n, p, q, rho)
    return X @ rng.standard_normal((p, p)) + 5.0, Y @ rng.standard_normal((q, q)) - 2.0


def by_hand(X, Y, orders, statistic, center=True):
    """The stepwise test with nothing shared between permutations and steps: angles between spans of dense columns."""
    Qx, Qy = (scipy.linalg.orth(V - V.mean(axis=0) * center) for V in (X, Y))
    P, rho, Qt = np.linalg.svd(Qx.T @ Qy)
    U, V = Qx @ P, Qy @ Qt.T

    def value(order, k):
        permuted = U[order][:, k:]
        permuted -= V[:, :k] @ np.linalg.lstsq(V[:, :k], permuted, rcond=None)[0]  # which the data lack, too
        cosines = np.cos(scipy.linalg.subspace_angles(permuted, V[:, k:]))
        return 1 / np.prod(1 - cosines**2) if statistic == "wilks" else cosines.max() ** 2

    observed = np.array([value(np.arange(len(X)), k) for k in range(len(rho))])
    drawn = np.array([[value(order, k) for k in range(len(rho))] for order in orders])
    return rho, observed, (1 + np.sum(drawn >= observed, axis=0)) / (1 + len(orders))


@pytest.mark.parametrize("statistic", ["wilks", "roy"])
@pytest.mark.parametrize("shape", [(8, 6), (5, 7), (4, 4), (1, 3), (3, 1)])
@pytest.mark.parametrize("center", [True, False], ids=["centred", "uncentred"])
@pytest.mark.slow(keep=10)
def test_every_step_is_that_of_a_permutation_by_hand(statistic, shape, center):
    rng = np.random.default_rng(0)
    X, Y = planted(rng, 50, *shape, rho=(0.6,))
    generator = np.random.default_rng(7)
    orders = [generator.permutation(50) for _ in range(40)]
    rho, observed, p = by_hand(X, Y, orders, statistic, center)
    test = ls.permutation_test(ls.CCA(X, Y, center=center), permutations=40, rng=7, statistic=statistic)
    np.testing.assert_allclose(test.correlations, rho, atol=1e-12)
    np.testing.assert_array_equal(test.uncorrected, p)
    found = 1 / test.statistics if statistic == "wilks" else test.statistics
    np.testing.assert_allclose(found, observed, rtol=1e-10)
    np.testing.assert_array_equal(test.p_values, np.maximum.accumulate(p))


def test_a_correlation_of_one_counts_as_one():
    rng = np.random.default_rng(0)
    X, Y = noise(rng)
    Y[:, 0] = X @ rng.standard_normal(6)
    for statistic in ("wilks", "roy"):
        test = ls.permutation_test(ls.CCA(X, Y), permutations=99, statistic=statistic, rng=0)
        assert test.p_values[0] == 0.01
        assert test.components() == 1
        assert np.isfinite(test.statistics).all()


def test_exact_ties_are_counted():
    """Two groups and two groups: most permutations repeat the table, and those that do are as extreme."""
    x = np.repeat([0.0, 1.0], [3, 5])[:, None]
    y = np.array([0, 0, 1, 0, 1, 1, 1, 1.0])[:, None]
    exact = scipy.stats.fisher_exact([[2, 1], [1, 4]])[1]
    test = ls.permutation_test(ls.CCA(x, y), permutations=3000, rng=0)
    assert test.p_values[0] == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 3000))


@pytest.mark.parametrize(
    ("draw", "replicates", "step"),
    [
        (noise, 200, 0),
        (partial(planted, n=80, p=6, q=5, rho=(0.9, 0.8)), 200, 2),
        (partial(planted, n=30, p=10, q=10, rho=(0.99, 0.95)), 300, 2),
    ],
    ids=["nothing", "two", "few rows and strong pairs"],
)
@pytest.mark.slow
def test_one_pair_too_many_is_rare(draw, replicates, step):
    """With few rows and strong pairs the published test finds one too many twice as often as it may."""
    found = 0
    for i in range(replicates):
        test = ls.permutation_test(ls.CCA(*draw(np.random.default_rng(i))), rng=i, permutations=39)
        found += test.p_values[step] <= 0.05
    assert scipy.stats.binomtest(int(found), replicates, 0.05, alternative="greater").pvalue > 1e-3


def test_dependent_and_constant_columns_change_nothing():
    X, Y = planted(np.random.default_rng(0))
    more = np.hstack([X, X[:, :2] + X[:, 2:4], np.full((len(X), 1), 0.1), np.zeros((len(X), 1))])
    reference, test = (ls.permutation_test(ls.CCA(A, Y * 1e-7), permutations=30, rng=1) for A in (X, more))
    np.testing.assert_allclose(test.correlations, reference.correlations, atol=1e-10)
    np.testing.assert_array_equal(test.p_values, reference.p_values)
    empty = ls.permutation_test(ls.CCA(np.ones((20, 3)), Y[:20]), permutations=10, rng=0)
    assert (empty.components(), len(empty.p_values)) == (0, 0)


def test_wide_data_are_refused_and_told_what_to_do():
    X, Y = noise(np.random.default_rng(0), n=50, p=40, q=30)
    words = r"span 40 .* 30, and 50 rows have 49.* 21 correlations are 1.*solution="
    with pytest.raises(InvalidProblem, match=words):
        ls.permutation_test(ls.CCA(X, Y))
    # Without centring one more dimension is there.
    with pytest.raises(InvalidProblem, match="20 correlations are 1"):
        ls.permutation_test(ls.CCA(X, Y, center=False))


def test_a_solution_is_tested_on_rows_that_were_set_aside():
    """150 + 120 columns: the test is that of the variates of 200 rows, and finds the two pairs that are there."""
    rng = np.random.default_rng(0)
    X, Y = noise(rng, n=400, p=150, q=120)
    shared = 0.5 * rng.standard_normal((400, 2))
    X, Y = X + shared @ rng.standard_normal((2, 150)), Y + shared @ rng.standard_normal((2, 120))
    solution = ls.solve(ls.CCA(X[:200], Y[:200], k=4, ridge=500.0), "gram")
    test = ls.permutation_test(ls.CCA(X[200:], Y[200:]), solution=solution, permutations=59, rng=0)
    variates = ls.CCA(*solution.transform(X[200:], Y[200:]))
    of_variates = ls.permutation_test(variates, permutations=59, rng=0)
    np.testing.assert_array_equal(test.p_values, of_variates.p_values)
    assert test.components() == 2


@pytest.mark.parametrize("convert", [np.asarray, scipy.sparse.csr_array, array_api_strict.asarray])
def test_null_correlations_are_those_of_permuted_rows(convert):
    X, Y = planted(np.random.default_rng(0), rho=(0.95, 0.9))
    problem = ls.CCA(convert(X), convert(Y), k=3, ridge=2.0)
    found = ls.null_correlations(problem, permutations=3, rng=5)
    assert found.shape == (3, 3)
    order = np.random.default_rng(5).permutation(len(Y))
    first = ls.solve(ls.CCA(X, Y[order], k=3, ridge=2.0), "direct").correlations
    np.testing.assert_allclose(found[0], first, atol=1e-8)
    assert ls.solve(problem).supported(found.max()) == 2
    of_one = ls.null_correlations(ls.CCA(X[:, :2] @ np.ones((2, 5)), Y, k=4), "direct", rng=0)[0]
    assert of_one[0] > 0 == of_one[1:].max()  # deficient views end in zeros


def test_what_cannot_be_tested_is_said(monkeypatch):
    X, Y = planted(np.random.default_rng(0))
    products = scipy.sparse.linalg.aslinearoperator
    test = ls.permutation_test
    for call, problem, named, error, words in (
        (test, ls.CCA(X, Y), {"statistic": "pillai"}, InvalidOption, "wilks, roy; got 'pillai'"),
        (test, ls.CCA(products(X), Y), {}, MissingCapability, "entries of X cannot be read"),
        (ls.null_correlations, ls.SVD(X, 2), {}, InvalidProblem, r"takes a linspec\.CCA; got SVD"),
        (ls.null_correlations, ls.CCA(X, products(Y), 2), {}, MissingCapability, "has no row slices"),
    ):
        with pytest.raises(error, match=words):
            call(problem, **named)
    with pytest.raises(InvalidOption, match="alpha must be between 0 and 1; got 5"):
        test(ls.CCA(X, Y), permutations=1).components(5)
    monkeypatch.setattr("linspec.cost.ALWAYS_AVAILABLE", 0)
    monkeypatch.setattr("linspec.process.machine.available_memory", lambda: 1000)
    with pytest.raises(NoSuitableSolver, match="1 kB are available"):
        test(ls.CCA(X, Y))


def test_max_seconds_ends_a_test_with_the_permutations_made(monkeypatch):
    """It returns the test with the permutations made so far; the clock moves a second at every look."""
    X, Y = noise(np.random.default_rng(0))
    looks = itertools.count()
    monkeypatch.setattr("time.perf_counter", lambda: float(next(looks)))
    words = r"max_seconds=10 ended it after 9 of 50 permutations.* 0\.1\."
    with pytest.warns(ConvergenceWarning, match=words):
        ended = ls.permutation_test(ls.CCA(X, Y), permutations=50, max_seconds=10, rng=3)
    monkeypatch.undo()
    whole = ls.permutation_test(ls.CCA(X, Y), permutations=9, max_seconds=np.inf, rng=3)
    assert (ended.permutations, ended.interrupted) == (9, False)
    np.testing.assert_array_equal(ended.uncorrected, whole.uncorrected)


@pytest.mark.parametrize("solver", [None, "gram"])
def test_large_means_do_not_hide_what_confounds_leave(solver):
    """The test is that of columns about their means."""
    rng = np.random.default_rng(0)
    X, Y, Z = rng.standard_normal((60, 4)), rng.standard_normal((60, 3)), rng.standard_normal((60, 2))
    Y[:, 0] += X[:, 0]
    near, far = (
        ls.permutation_test(ls.CCA(X + mean, Y - mean, 3, confounds=Z), solver, permutations=19, rng=0)
        for mean in (0.0, 1e7)
    )
    np.testing.assert_allclose(far.values, near.values, atol=1e-6)
    np.testing.assert_array_equal(far.p_values, near.p_values)
