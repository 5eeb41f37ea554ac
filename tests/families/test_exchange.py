"""Which rows change places in a permutation test: levels of unrelated sets, loops by hand, and refusals."""

from __future__ import annotations

import numpy as np
import pytest

import linspec as ls
from linspec.errors import ConvergenceWarning, InvalidOption, InvalidProblem, MissingCapability, UnknownOption
from tests.families.test_inference import by_hand, residual


def rows_of_runs(seed, subjects=30, runs=3, columns=2):
    """Two unrelated matrices with runs of one subject that are alike, and the subject of each row."""
    rng = np.random.default_rng(seed)
    alike = np.repeat(rng.standard_normal((subjects, 2 * columns)), runs, axis=0)
    rows = alike + 0.1 * rng.standard_normal(alike.shape)
    return rows[:, :columns], rows[:, columns:], np.repeat(np.arange(subjects), runs)


def rows_of_sites(seed):
    """Two matrices that are unrelated within each of three sites, and the site of each row."""
    rng = np.random.default_rng(seed)
    site = np.arange(90) % 3
    shift = 3 * rng.standard_normal((3, 1))[site]
    return rng.standard_normal((90, 2)) + shift, rng.standard_normal((90, 2)) - shift, site


def runs(i):
    X, Y, subject = rows_of_runs(i)
    return ls.CCA(X, Y), {"groups": subject}


def flipped_runs(i):
    problem, known = runs(i)
    return problem, known | {"sign_flips": True}


def sites(i):
    X, Y, site = rows_of_sites(i)
    return ls.CCA(X, Y), {"blocks": site}


def covariances_of_runs(i):
    X, Y, subject = rows_of_runs(i)
    return ls.PLS(X, Y, k=1), {"groups": subject}


def runs_of_an_age(i):
    """An age of each subject is a confound of both matrices."""
    X, Y, subject = rows_of_runs(i)
    age = np.random.default_rng(1000 + i).standard_normal(30)[subject][:, None]
    return ls.CCA(X + 2 * age, Y - age, confounds=age), {"groups": subject}


def regression_of_runs(i):
    X, Y, subject = rows_of_runs(i)
    return ls.LeastSquares(X, Y[:, 0], center=True), {"groups": subject}


@pytest.mark.parametrize(
    "design", [runs, flipped_runs, sites, covariances_of_runs, runs_of_an_age, regression_of_runs]
)
@pytest.mark.slow(keep=1)
def test_what_is_known_of_rows_keeps_the_level(design):
    """Of 200 unrelated sets 5 % are significant, within three standard deviations, and far more in free orders."""
    hits = np.zeros(2)
    for i in range(200):
        problem, known = design(i)
        for j, given in enumerate((known, {})):
            hits[j] += ls.permutation_test(problem, permutations=39, rng=i, **given).p_values[0] <= 0.05
    assert abs(hits[0] / 200 - 0.05) <= 3 * np.sqrt(0.05 * 0.95 / 200)
    assert hits[1] > 60


@pytest.mark.slow
def test_weights_of_a_survey_that_depend_on_one_matrix_keep_the_level():
    hits = 0
    for i in range(200):
        rng = np.random.default_rng(i)
        X, Y = rng.standard_normal((60, 2)), rng.standard_normal((60, 2))
        problem = ls.CCA(X, Y, k=1, sample_weight=np.exp(X[:, 0]))
        hits += (
            ls.permutation_test(problem, "gram", permutations=39, weights="survey", rng=i).p_values[0] <= 0.05
        )
    assert abs(hits / 200 - 0.05) <= 3 * np.sqrt(0.05 * 0.95 / 200)


@pytest.mark.parametrize("first", [1.0, 10.0])
def test_signs_keep_the_level_where_the_first_row_is_large(first):
    """Means come back when signs change. They must not be spread from one row over all: that found 65 % here."""
    hits, sizes = 0, np.r_[first, np.ones(29)][:, None]
    for i in range(100):
        rng = np.random.default_rng(i)
        X, Y = (rng.standard_normal((30, 2)) * sizes for _ in range(2))
        hits += ls.permutation_test(ls.CCA(X, Y), sign_flips=True, permutations=39, rng=i).p_values[0] <= 0.05
    assert hits <= 15


@pytest.mark.parametrize("problem", [ls.LeastSquares, ls.PLS])
def test_signs_change_residuals_which_lose_means_and_confounds_again(problem):
    rng = np.random.default_rng(1)
    X, Y, Z = rng.standard_normal((30, 2)), rng.standard_normal((30, 1)), rng.standard_normal((30, 3))
    number = {"center": True} if problem is ls.LeastSquares else {"k": 1}
    test = ls.permutation_test(problem(X, Y, confounds=Z, **number), sign_flips=True, permutations=19, rng=2)
    signs = np.random.default_rng(2)
    A, B = residual(X, Z), residual(Y, Z)
    for drawn in test.drawn:
        C = residual(B * signs.choice((-1.0, 1.0), 30)[:, None], Z)
        C *= np.linalg.norm(B) / np.linalg.norm(C)
        fit = A @ np.linalg.lstsq(A, C, rcond=None)[0]
        value = (fit**2).sum() / (C**2).sum() if problem is ls.LeastSquares else np.linalg.norm(A.T @ C)
        np.testing.assert_allclose(drawn[0], value, rtol=1e-8)


def test_weights_of_a_survey_stay_with_the_rows_of_the_first_matrix():
    rng = np.random.default_rng(0)
    X, Y, w = rng.standard_normal((40, 3)), rng.standard_normal((40, 2)), rng.random(40) + 0.5
    test = ls.permutation_test(
        ls.CCA(X, Y, k=2, sample_weight=w), "gram", permutations=19, weights="survey", rng=4
    )
    order = np.random.default_rng(4).permutation(40)
    expected = ls.solve(ls.CCA(X, Y[order], k=2, sample_weight=w), "direct").correlations
    np.testing.assert_allclose(test.drawn[0], expected, atol=1e-10)
    with pytest.raises(InvalidProblem, match='weights="survey"'):
        ls.permutation_test(ls.CCA(X, Y, k=2, sample_weight=w), permutations=19)
    with pytest.raises(InvalidProblem, match='solver="auto"'):
        ls.permutation_test(ls.CCA(X, Y, k=2, sample_weight=w), permutations=19, weights="survey")


def test_listed_orders_and_those_of_blocks_are_loops_by_hand():
    X, Y, site = rows_of_sites(0)
    generator = np.random.default_rng(3)
    orders = np.tile(np.arange(90), (40, 1))
    for order in orders:
        for rows in (np.flatnonzero(site == s) for s in range(3)):
            order[rows] = rows[generator.permutation(30)]
    _, _, p = by_hand(X, Y, orders, "wilks")
    problem = ls.CCA(X, Y, k=2)
    listed = ls.permutation_test(problem, permutations=orders)
    of_sites = ls.permutation_test(problem, permutations=40, blocks=site, rng=3)
    np.testing.assert_array_equal(listed.uncorrected, p)
    np.testing.assert_array_equal(of_sites.uncorrected, p)
    solved = ls.permutation_test(problem, "gram", permutations=orders)
    for order, values in zip(orders[:3], solved.drawn, strict=False):
        expected = ls.solve(ls.CCA(X, Y[order], k=2), "direct").correlations
        np.testing.assert_allclose(values, expected, atol=1e-10)


def test_residuals_of_confounds_move_as_rows_where_that_is_exact():
    """Dummies of the sites: the test is that of columns about the means of their sites."""
    X, Y, site = rows_of_sites(1)
    dummies = (site[:, None] == np.arange(2)).astype(float)
    found = ls.permutation_test(ls.CCA(X, Y, confounds=dummies), permutations=59, blocks=site, rng=2)
    centred = ls.CCA(residual(X, dummies), residual(Y, dummies))
    expected = ls.permutation_test(centred, permutations=59, blocks=site, rng=2)
    np.testing.assert_allclose(found.correlations, expected.correlations, atol=1e-10)
    np.testing.assert_array_equal(found.p_values, expected.p_values)


@pytest.mark.parametrize("known", ["groups", "blocks", "sign_flips"])
def test_entries_of_columns_move_as_rows_may(known):
    """Columns of whole groups keep the order in a group, those of blocks the block, and signs the sizes."""
    A = np.arange(12.0)[:, None] + 100 * np.arange(1, 4)
    labels = np.repeat(np.arange(4), 3)
    given = {"groups": {"groups": labels}, "blocks": {"blocks": labels}, "sign_flips": {"sign_flips": True}}
    from linspec.studies.inference.exchange import Exchange, with_columns_permuted

    settings = {"groups": None, "blocks": None, "flips": False, "orders": None}
    settings |= {"flips": True} if known == "sign_flips" else given[known]
    exchange = Exchange.of(12, **settings)
    moved = with_columns_permuted(ls.as_operator(A), exchange, np.random.default_rng(1)).dense()
    assert (moved != A).any()
    if known == "groups":
        np.testing.assert_array_equal(np.diff(moved.reshape(4, 3, 3), axis=1), 1)
    blocks = moved.reshape(4, 3, 3) if known == "blocks" else moved.reshape(1, 12, 3)
    np.testing.assert_array_equal(np.sort(np.abs(blocks), axis=1), A.reshape(blocks.shape))
    assert ls.permutation_test(ls.SVD(A + 0.1), permutations=19, rng=0, **given[known]).permutations == 19


def test_rows_that_cannot_change_places_are_refused():
    X, Y, subject = rows_of_runs(0)
    motion = np.random.default_rng(0).standard_normal((90, 1))
    orders, n = np.array([np.random.default_rng(i).permutation(90) for i in range(19)]), np.arange(90)
    problem, moving = ls.CCA(X, Y, k=1), ls.CCA(X, Y, k=1, confounds=motion)
    for of, error, words, given in (
        (moving, InvalidProblem, "confounds leave of the rows is exchangeable", {"groups": subject}),
        (moving, InvalidProblem, "confounds leave of the rows is exchangeable", {"permutations": orders}),
        (problem, InvalidProblem, "no two groups of one block", {"groups": n > 30}),
        (problem, InvalidProblem, "in several blocks", {"groups": subject, "blocks": n % 2}),
        (problem, InvalidProblem, "at least two labels", {"blocks": n * 0}),
        (problem, InvalidProblem, "each row from 0 to 89 once", {"permutations": orders * 0}),
        (problem, InvalidProblem, "integers of shape", {"permutations": orders[:, 1:]}),
        (problem, InvalidProblem, r"got \(0, 90\) of int64", {"permutations": orders[:0]}),
        (problem, InvalidProblem, r"got \(2,\) of object", {"permutations": [[0, 1], [2]]}),
        (problem, InvalidProblem, "a row without groups= is a group", {"blocks": n}),
        (problem, InvalidProblem, "must be True or False", {"sign_flips": "no"}),
        (problem, InvalidOption, "Leave one out", {"permutations": orders, "blocks": subject}),
        (problem, InvalidOption, "Leave one out", {"sign_flips": True, "blocks": subject}),
        (problem, InvalidOption, "weights must be one of counts, survey", {"weights": "some"}),
        (problem, InvalidOption, "weights must be one of counts, survey", {"weights": n % 2}),
        (problem, UnknownOption, "Pass permutations, or leave it out", {"n_permutations": 99}),
        (problem, UnknownOption, 'Pass solver="auto"', {"tol": 1e-9}),
        (ls.SVD(X), InvalidProblem, "each column has an order of its own", {"permutations": orders}),
        (ls.MultisetCCA([X, Y, Y], 1), InvalidProblem, "each of 2 matrices", {"permutations": orders}),
        (ls.CCA(X, Y, sample_weight=n % 2 + 1), InvalidProblem, "count equal rows", {"groups": subject}),
        (ls.PLS(sparse(X), Y, 1), MissingCapability, "sign_flips needs dense rows", {"sign_flips": True}),
    ):
        with pytest.raises(error, match=words):
            ls.permutation_test(of, **given)
    few = r"below 0\.17 with 999 permutations of so few units.*rows of more groups"
    with pytest.warns(ConvergenceWarning, match=few):
        ls.permutation_test(problem, groups=n // 30, rng=0)
    with pytest.warns(ConvergenceWarning, match=r"below 0\.1 with 9 permutations, so.*Ask for 999"):
        ls.permutation_test(problem, permutations=orders[:9])


def sparse(X):
    import scipy.sparse

    return scipy.sparse.csr_array(X)
