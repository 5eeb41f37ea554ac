"""Significance of canonical correlations, redundancy, bootstrap, permutations: peers, formulas, and loops by hand."""

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


def residual(V, Z):
    D = np.column_stack([np.ones(len(Z)), Z])
    return V - D @ np.linalg.lstsq(D, V, rcond=None)[0]


ROWS = {
    "wilks": "Wilks' lambda",
    "pillai": "Pillai's trace",
    "hotelling_lawley": "Hotelling-Lawley trace",
    "roy": "Roy's greatest root",
}


@pytest.mark.parametrize("shape", [(60, 6, 4), (60, 4, 6), (80, 5, 5), (50, 1, 3), (50, 2, 2)], ids=str)
def test_the_table_is_that_of_statsmodels(shape):
    cancorr = pytest.importorskip("statsmodels.multivariate.cancorr")
    n, p, q = shape
    X, Y = correlated(np.random.default_rng(n + p), n, p, q, (0.7,))
    found = ls.significance(ls.CCA(X, Y))
    other = cancorr.CanCorr(Y, X).corr_test()
    for name, row in ROWS.items():
        own = getattr(found, name)
        mine = [own.values[0], own.df[0], own.df_error[0], own.statistics[0], own.p_values[0]]
        np.testing.assert_allclose(mine, other.stats_mv.loc[row].to_numpy(float), rtol=1e-10)
    table, w = other.stats.to_numpy(float), found.wilks
    steps = np.column_stack([found.correlations, w.values, w.df, w.df_error, w.statistics, w.p_values])
    # Its table of steps has other degrees of freedom than its table of the whole where p is not q: a regression's F
    # (the next test) shows which ones are right.
    columns = slice(None) if p == q else slice(3)
    np.testing.assert_allclose(steps[:, columns], table[:, columns], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("confounds", [0, 3])
def test_of_one_column_all_tests_are_the_f_of_its_regression(confounds):
    rng = np.random.default_rng(1)
    n, p = 40, 5
    X, Y, Z = rng.standard_normal((n, p)), rng.standard_normal((n, 1)), rng.standard_normal((n, confounds))
    found = ls.significance(ls.CCA(X, Y, confounds=Z if confounds else None))
    A, b = residual(X, Z), residual(Y, Z)
    rest = b - A @ np.linalg.lstsq(A, b, rcond=None)[0]
    error = n - 1 - confounds - p
    F = (np.sum(b**2) - np.sum(rest**2)) / p / (np.sum(rest**2) / error)
    for name in ROWS:
        own = getattr(found, name)
        np.testing.assert_allclose([own.statistics[0], own.df_error[0]], [F, error], rtol=1e-10)
        np.testing.assert_allclose(own.p_values[0], scipy.stats.f.sf(F, p, error), rtol=1e-10)


def test_weights_are_repeated_rows_and_bartlett_is_the_printed_formula():
    rng = np.random.default_rng(2)
    X, Y = correlated(rng, 60)
    w = rng.integers(0, 4, 60)
    R = np.repeat(np.arange(60), w)
    one, other = ls.significance(ls.CCA(X, Y, sample_weight=w)), ls.significance(ls.CCA(X[R], Y[R]))
    np.testing.assert_allclose(one.bartlett.p_values, other.bartlett.p_values, rtol=1e-9)
    n, p, q = len(R), 5, 4  # Mardia, Kent & Bibby, equation 10.2.15
    rho = other.correlations
    chi = [-(n - (p + q + 3) / 2) * np.log(np.prod(1 - rho[s:] ** 2)) for s in range(4)]
    np.testing.assert_allclose(other.bartlett.statistics, chi, rtol=1e-10)
    np.testing.assert_array_equal(other.bartlett.df, [(p - s) * (q - s) for s in range(4)])


@pytest.mark.slow
def test_without_pairs_five_in_a_hundred_are_rejected():
    """Over 200 sets, within three standard deviations; the bound that others print for Roy's root is far off."""
    names = ("wilks", "bartlett", "pillai", "hotelling_lawley", "tracy_widom")
    rng = np.random.default_rng(3)
    found = [ls.significance(ls.CCA(*correlated(rng, 50, rho=()))) for _ in range(200)]
    for name in names:
        share = np.mean([getattr(test, name).p_values[0] <= 0.05 for test in found])
        assert abs(share - 0.05) <= 3 * np.sqrt(0.05 * 0.95 / 200), name
    assert np.mean([test.roy.p_values[0] <= 0.05 for test in found]) > 0.2


def test_the_table_counts_planted_pairs_beside_a_permutation_test():
    problem = ls.CCA(*correlated(np.random.default_rng(4)))
    permutation = ls.permutation_test(problem, permutations=19, rng=0)
    found = ls.significance(problem, permutation=permutation)
    assert found.components() == permutation.components() == 2
    assert "p permuted" in repr(found)
    with pytest.raises(InvalidOption, match="by must be one of"):
        found.components(by="roy")


def test_what_the_distributions_need_is_refused_with_the_other_test():
    X, Y = correlated(np.random.default_rng(5), 30)
    many = np.random.default_rng(0).standard_normal((30, 20))
    for problem, solution, words in (
        (ls.CCA(X, Y, ridge=1.0), None, "ridge 0; got.*permutation_test"),
        (ls.CCA(X, Y), ls.solve(ls.CCA(X, Y, 4, ridge=5.0)), "the ridge of the problem"),
        (ls.CCA(X, Y), ls.solve(ls.CCA(X, Y, 2)), "all 4 pairs; got 2.*permutation_test"),
        (ls.CCA(X[:10], Y[:10]), None, r"more than p \+ q = 9 rows.*got 9.*permutation_test"),
        (ls.CCA(X[:, [0, 1, 2, 2]], Y), None, "views of full rank 4 and 4.*permutation_test"),
        (ls.CCA(X, Y, confounds=many), None, "got 9.*permutation_test"),
        (ls.CCA(X, Y, sample_weight=np.full(30, 0.5)), None, r"got 0\.5 for row 0"),
    ):
        with pytest.raises(InvalidProblem, match=f"(?s){words}"):
            ls.significance(problem, solution=solution)


@pytest.mark.parametrize("ridge", [0.0, 5.0])
def test_cross_loadings_and_redundancy_are_their_formulas(ridge):
    rng = np.random.default_rng(6)
    X, Y = correlated(rng, 80)
    Z, w = rng.standard_normal((80, 2)), rng.integers(0, 3, 80)
    X, Y = X + Z @ rng.standard_normal((2, 5)) + 3.0, Y + Z @ rng.standard_normal((2, 4))
    rows, R = {"confounds": Z, "sample_weight": w}, np.repeat(np.arange(80), w)
    solution = ls.solve(ls.CCA(X, Y, 2, ridge=ridge, **rows))
    A, B = (residual(V[R], Z[R]) for V in (X, Y))
    P, Q = A @ solution.x_weights, B @ solution.y_weights

    def r(V, W):
        return V.T @ W / np.outer(np.linalg.norm(V, axis=0), np.linalg.norm(W, axis=0))

    found = [*solution.cross_loadings(X, Y, **rows), solution.loadings(Y=Y, **rows)]
    for own, wanted in zip(found, (r(A, Q), r(B, P), r(B, Q)), strict=True):
        np.testing.assert_allclose(own, wanted, atol=1e-12)
    extracted, redundancy = solution.variance_extracted(X, **rows), solution.redundancy(X, Y, **rows)
    for own, of in zip((*redundancy, extracted), (r(A, Q), r(B, P), r(A, P)), strict=True):
        np.testing.assert_allclose(own, np.mean(of**2, axis=0), atol=1e-12)
    # Stewart and Love's product is the share of variance for canonical pairs alone
    product = extracted * solution.correlations**2
    assert np.allclose(product, redundancy[0], rtol=1e-9) == (ridge == 0)


class Given(np.random.Generator):
    """A generator whose draws are listed."""

    def __init__(self, counts):
        super().__init__(np.random.PCG64(0))
        self.counts = list(counts)

    def multinomial(self, *_args, **_named):
        return self.counts.pop(0)


def test_draws_loadings_bias_and_agreement_are_those_of_the_same_draws_by_numpy():
    """Of one pair; agreement has the lengths over the rows of the draw."""
    n, rng = 400, np.random.default_rng(0)
    shared, generator = rng.standard_normal((n, 1)), np.random.default_rng(7)
    views = shared + rng.standard_normal((n, 4)), shared + 3 * rng.standard_normal((n, 3))

    def pair(w):
        """Weighted columns about their means, the weights of the first pair, its loadings and its correlation."""
        A = [np.sqrt(w)[:, None] * (V - w @ V / n) for V in views]
        roots = [np.linalg.qr(M) for M in A]
        U, rho, Vt = np.linalg.svd(roots[0].Q.T @ roots[1].Q)
        loaded = A[0].T @ (roots[0].Q @ U[:, 0]) / np.linalg.norm(A[0], axis=0)
        return A, [np.linalg.solve(roots[0].R, U[:, 0]), np.linalg.solve(roots[1].R, Vt[0])], loaded, rho[0]

    (A, whole, loadings, _), values, loaded, stated = pair(np.ones(n)), [], [], []
    for _ in range(20):
        B, drawn, of_draw, rho = pair(generator.multinomial(n, np.full(n, 1 / n)).astype(float))
        cosines = [
            (M @ u) @ (M @ v) / np.linalg.norm(M @ u) / np.linalg.norm(D @ v)
            for M, D, u, v in zip(A, B, whole, drawn, strict=True)
        ]
        stated.append(abs(sum(cosines)) / 2)
        values.append([rho])
        loaded.append(of_draw * np.sign(of_draw @ loadings) * np.sign(loadings.sum()))
    found = ls.bootstrap(ls.CCA(*views, k=1), "gram", draws=20, method="percentile", rng=7)
    np.testing.assert_allclose(found.drawn, values, atol=1e-10)
    ends = np.quantile(loaded, [0.025, 0.975], axis=0)
    np.testing.assert_allclose(found.x_loadings[..., 0], ends, atol=1e-9)
    np.testing.assert_allclose(found.bias, found.drawn.mean(axis=0) - found.solution.correlations)
    np.testing.assert_allclose(found.agreement, min(np.mean(stated), 1.0), rtol=1e-8)


def test_pairs_that_rows_do_not_tell_apart_are_a_group():
    """Correlations of .9 and .89 on 200 rows: the order is chance. The third, .3, is apart."""
    X, Y = correlated(np.random.default_rng(10), 200, 3, 3, (0.9, 0.89, 0.3))
    found = ls.bootstrap(ls.CCA(X, Y, 3), "gram", draws=40, rng=0)
    assert found.groups() == ((0, 1), (2,))
    assert "pairs 1 to 2  their canonical correlations may be equal" in repr(found)
    assert (found.gaps <= -np.diff(found.solution.correlations)).all()
    assert found.agreement[2] > 0.95 > found.agreement[0]
    assert (np.diff(found.drawn, axis=1) <= 0).all()
    with pytest.raises(InvalidOption, match="alpha must be between 0 and 1"):
        found.groups(5)


@pytest.mark.parametrize("method", ["corrected", "percentile"])
def test_pairs_that_a_draw_lacks_count_as_zero(method):
    """A column with one entry, which half of the draws leave out: then there is one pair."""
    rng = np.random.default_rng(24)
    X, Y = np.column_stack([rng.standard_normal(40), np.arange(40) == 7]), rng.standard_normal((40, 3))
    counts = np.array([[2, 1, 0] + [1] * 37, [1] * 7 + [0, 2] + [1] * 31] * 2)
    found = ls.bootstrap(ls.CCA(X, Y, 2), "gram", draws=4, method=method, rng=Given(counts))
    assert (found.drawn[1::2, 1] == 0).all()
    assert (found.drawn[::2, 1] > 0).all()
    for ends in (found.x_loadings, found.x_weights, found.y_weights):  # of two draws with, and two without
        np.testing.assert_array_equal(np.abs(ends[:, :, 1]).min(axis=0), 0)


def test_groups_are_drawn_whole_and_widen_intervals():
    """Each row three times: as if there were three times the rows, unless they are drawn together."""
    X, Y = correlated(np.random.default_rng(11), 80, 3, 3, (0.6,))
    R = np.repeat(np.arange(80), 3)
    widths = [
        np.diff(ls.bootstrap(ls.CCA(A, B, 1), "gram", draws=50, rng=0, groups=g).correlations[:, 0])[0]
        for A, B, g in ((X, Y, None), (X[R], Y[R], R), (X[R], Y[R], None))
    ]
    np.testing.assert_allclose(widths[0], widths[1], rtol=1e-6)  # the same draws of the same units
    assert widths[2] < 0.75 * widths[1]


@pytest.mark.slow
def test_corrected_intervals_hold_what_percentiles_miss():
    """200 rows, 8 + 8 columns, 24 sets: the second correlation, .4, is found too large."""
    rng, inside = np.random.default_rng(12), []
    for _ in range(24):
        X, Y = correlated(rng, 200, 8, 8, (0.8, 0.4))
        found = ls.bootstrap(ls.CCA(X, Y, 2), "gram", draws=20, rng=rng)
        plain = np.quantile(found.drawn, [0.025, 0.975], axis=0)
        inside.append([e[0, 1] <= 0.4 <= e[1, 1] for e in (found.correlations, plain)])
        assert found.bias[1] > 0
    corrected, percentiles = np.sum(inside, axis=0)
    assert corrected >= 20
    assert percentiles <= 16


# ---- permutations ------------------------------------------------------------------------------


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
    empty = ls.permutation_test(ls.CCA(np.ones((20, 3)), Y[:20]), permutations=19, rng=0)
    assert (empty.components(), len(empty.p_values)) == (0, 0)


def test_wide_data_are_refused_and_told_what_to_do():
    X, Y = noise(np.random.default_rng(0), n=50, p=40, q=30)
    words = r"span 40 .* 30, and 50 rows have 49.* 21 correlations are 1.*solution="
    with pytest.raises(InvalidProblem, match=words):
        ls.permutation_test(ls.CCA(X, Y))


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
        (test, ls.CCA(products(X), Y), {}, MissingCapability, "entries of X cannot be read"),
        (test, ls.CCA(X, Y), {"solution": "it"}, InvalidProblem, "must be a CCASolution; got 'it'"),
        (ls.null_correlations, ls.CCA(X, products(Y), 2), {}, MissingCapability, "has no row slices"),
    ):
        with pytest.raises(error, match=words):
            call(problem, **named)
    with pytest.raises(InvalidOption, match="alpha must be between 0 and 1; got 5"):
        test(ls.CCA(X, Y), permutations=19).components(5)
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
    with pytest.warns(ConvergenceWarning, match=r"no p-value can be below 0\.1 with 9 permutations.* 5 %"):
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


def test_a_solution_is_tested_on_rows_that_are_read_once():
    """Slices of both views come once: the test is that of the same rows in memory."""
    X, Y = planted(np.random.default_rng(0))
    solution = ls.solve(ls.CCA(X[:100], Y[:100], k=3, ridge=1.0))
    slices = [iter([V[100:150], V[150:]]) for V in (X, Y)]
    held, once = (
        ls.permutation_test(ls.CCA(*views), solution=solution, permutations=19, rng=0)
        for views in ((X[100:], Y[100:]), slices)
    )
    np.testing.assert_allclose(once.correlations, held.correlations, atol=1e-12)
    np.testing.assert_array_equal(once.uncorrected, held.uncorrected)
