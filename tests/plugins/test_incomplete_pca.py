"""Principal components with missing entries: the likelihood by SciPy, conditional normal laws, and odd rows."""

import numpy as np
import pytest
import scipy.sparse
from scipy.stats import multivariate_normal
from sklearn.exceptions import NotFittedError

import linspec as ls
from linspec import errors

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((80, 2)) @ RNG.standard_normal((2, 6)) + 0.3 * RNG.standard_normal((80, 6)) + 5.0
X = np.where(RNG.random(ROWS.shape) < 0.3, np.nan, ROWS)
X[7] = np.nan


def solved(data=X, k=2, solver="auto", tol=1e-9, **words):
    return ls.solve(ls.IncompletePCA(data, k), solver, tol=tol, rng=0, **words)


def law(answer):
    """The mean and the covariance of a row."""
    p = len(answer.mean)
    return answer.mean, answer.weights @ answer.weights.T + answer.noise_variance * np.eye(p)


def likelihood(mean, covariance, rows=X):
    parts = [(row[~np.isnan(row)], ~np.isnan(row)) for row in rows]
    return sum(
        multivariate_normal(mean[known], covariance[np.ix_(known, known)]).logpdf(part)
        for part, known in parts
        if known.any()
    )


def conditional(answer, row, known):
    """The mean and the covariance of a row if some of its entries are known."""
    mean, S = law(answer)
    B = S[:, known] @ np.linalg.inv(S[np.ix_(known, known)])
    return mean + B @ (row - mean)[known], S - B @ S[known]


def test_the_likelihood_is_that_of_the_definition_and_stationary():
    answer = solved()
    assert answer.converged
    assert answer.log_likelihood == pytest.approx(likelihood(*law(answer)), rel=1e-10)
    W, mean, noise = answer.weights, answer.mean, answer.noise_variance
    for _ in range(8):
        dW, dm, dn = RNG.standard_normal(W.shape), RNG.standard_normal(6), RNG.standard_normal() * noise

        def along(t, dW=dW, dm=dm, dn=dn):
            return likelihood(mean + t * dm, (W + t * dW) @ (W + t * dW).T + (noise + t * dn) * np.eye(6))

        assert abs(along(1e-5) - along(-1e-5)) / 2e-5 < 1e-4
        assert along(1e-2) < along(0) > along(-1e-2)


def test_sparse_rows_know_what_they_store_zeros_among_it():
    rows = np.where(RNG.random(X.shape) < 0.1, 0.0, X)
    i, j = np.nonzero(~np.isnan(rows))
    stored = scipy.sparse.coo_array((rows[i, j], (i, j)), shape=rows.shape)
    dense, sparse = solved(rows), solved(stored)
    assert np.allclose(dense.weights, sparse.weights, atol=1e-8)
    assert np.allclose(dense.impute(rows), sparse.impute(stored.tocsr()), equal_nan=True)
    assert sparse.score(stored.tocsr()) == pytest.approx(dense.score(rows))


@pytest.mark.parametrize("k", [1, 3, 5])
def test_complete_rows_have_the_closed_form(k):
    answer, svd = solved(ROWS, k, tol=1e-11), ls.solve(ls.SVD(ROWS, 6, center=True))
    values = svd.S**2 / len(ROWS)
    assert np.allclose(answer.explained_variance, values[:k], rtol=1e-8)
    assert answer.noise_variance == pytest.approx(values[k:].mean(), rel=1e-8)
    assert np.allclose(answer.weights / np.linalg.norm(answer.weights, axis=0), svd.Vh[:k].T, atol=1e-8)
    shrunk = (ROWS - ROWS.mean(axis=0)) @ answer.weights / values[:k]
    assert np.allclose(answer.transform(ROWS), shrunk, atol=1e-8)


@pytest.mark.parametrize(
    "rows", [np.eye(2)[:, :1] * [1.0, 1.0], np.outer(np.arange(9.0) ** 3, [3.0, -1.0, 1.0, 0.5])]
)
def test_components_that_meet_all_entries_have_their_variance(rows):
    """Where there is no noise, a step of EM hardly changes weights that are far too long."""
    answer = solved(rows, 1, tol=1e-5)
    assert answer.status is ls.Status.RANK_DEFICIENT
    variances = np.linalg.eigvalsh(np.cov(rows.T, bias=True))
    assert answer.explained_variance == pytest.approx(variances[-1:], rel=1e-4)


def plain_em(rows, k, steps):
    """The likelihood after some steps of EM by Tipping & Bishop, row by row, from random weights."""
    known, p = ~np.isnan(rows), rows.shape[1]
    W, mean, noise = np.random.default_rng(0).standard_normal((p, k)), np.nanmean(rows, axis=0), 1.0
    for _ in range(steps):
        A, b, parts = np.zeros((p, k + 1, k + 1)), np.zeros((p, k + 1)), []
        for row, O in zip(rows, known, strict=True):
            C = np.linalg.inv(np.eye(k) + W[O].T @ W[O] / noise)
            z = C @ W[O].T @ (row - mean)[O] / noise
            u, second = np.append(1.0, z), np.zeros((k + 1, k + 1))
            second[1:, 1:] = C
            A[O] += second + np.outer(u, u)
            b[O] += row[O, None] * u
            parts.append((O, u, second))
        V = np.linalg.solve(A, b[..., None])[..., 0]
        mean, W = V[:, 0], V[:, 1:]
        left = [
            np.sum((row[O] - V[O] @ u) ** 2) + np.trace(V[O] @ second @ V[O].T)
            for row, (O, u, second) in zip(rows, parts, strict=True)
        ]
        noise = sum(left) / known.sum()
    return likelihood(mean, W @ W.T + noise * np.eye(p), rows)


def test_the_likelihood_is_that_of_plain_em_in_a_fifth_of_its_passes():
    rows = RNG.standard_normal((300, 6)) * np.geomspace(8, 1, 6) @ RNG.standard_normal((6, 12))
    rows = np.where(RNG.random(rows.shape) < 0.4, np.nan, rows + RNG.standard_normal(rows.shape))
    answer = solved(rows, 5, tol=1e-5)
    assert answer.passes == 1
    assert plain_em(rows, 5, 5 * answer.iterations) < answer.log_likelihood * (1 + 1e-6)
    again = solved(rows, 5, start=answer, tol=1e-5)
    assert again.iterations < answer.iterations


@pytest.mark.parametrize("data", ["dense", "sparse", "slices"])
def test_more_rows_than_are_held_have_the_same_answer(monkeypatch, data):
    rows = np.tile(X, (8, 1)) + 0.1 * RNG.standard_normal((640, 6))
    i, j = np.nonzero(~np.isnan(rows))
    given = {
        "dense": rows,
        "sparse": scipy.sparse.csr_array((rows[i, j], (i, j)), shape=rows.shape),
        "slices": lambda: iter(np.split(rows, 5)),
    }[data]
    usual = solved(given)
    monkeypatch.setattr("linspec_svd.incomplete.em.HELD", 1200)
    answer = solved(given)
    assert usual.passes == 1 < answer.passes
    assert answer.log_likelihood == pytest.approx(usual.log_likelihood, rel=1e-10)
    assert np.allclose(answer.impute(rows), usual.impute(rows), equal_nan=True, atol=1e-6)


def test_scores_and_entries_are_those_of_the_conditional_law():
    answer = solved()
    rows, filled = X[:9], answer.impute(X[:9])
    scores, deviations = answer.transform(rows), answer.score_errors(rows)
    for row, full, z, error in zip(rows, filled, scores, deviations, strict=True):
        known = ~np.isnan(row)
        mean, _ = conditional(answer, row, known)
        assert np.allclose(full, np.where(known, row, mean))
        W = answer.weights[known]
        C = np.linalg.inv(np.eye(2) + W.T @ W / answer.noise_variance)
        assert np.allclose(z, C @ W.T @ (row - answer.mean)[known] / answer.noise_variance)
        assert np.allclose(error, np.sqrt(np.diag(C)))
    assert np.allclose(scores[7], 0)
    assert np.allclose(deviations[7], 1)
    assert np.allclose(answer.inverse_transform(scores), answer.mean + scores @ answer.weights.T)


def test_the_score_predicts_each_entry_from_the_others_and_chooses_k():
    answer, errors_, total = solved(), 0.0, 0.0
    for row in X:
        for j in np.flatnonzero(~np.isnan(row)):
            others = ~np.isnan(row) & (np.arange(6) != j)
            errors_ += (row[j] - conditional(answer, row, others)[0][j]) ** 2
            total += (row[j] - answer.mean[j]) ** 2
    assert answer.score(X) == pytest.approx(1 - errors_ / total)
    assert ls.cross_validate(ls.IncompletePCA(X, 4), ks=[1, 2, 3, 4], rng=0).best.k == 2


def test_odd_rows_and_columns():
    odd = X.copy()
    odd[:, 1], odd[:, 3], odd[7] = 7.0, np.nan, np.nan
    answer = solved(odd, 1)
    assert answer.converged
    assert "No entry is known of 1 columns" in answer.message
    assert answer.mean[1] == pytest.approx(7.0)
    assert np.isnan(answer.mean[3])
    assert np.allclose(answer.weights[[1, 3]], 0)
    without = solved(np.delete(np.delete(odd, 7, axis=0), 3, axis=1), 1)
    assert without.log_likelihood == pytest.approx(answer.log_likelihood)
    low = np.where(np.isnan(X), np.nan, RNG.standard_normal((80, 1)) @ RNG.standard_normal((1, 6)))
    assert solved(low, 1).status is ls.Status.RANK_DEFICIENT
    assert np.allclose(
        solved(low, 1).impute(low)[9:], np.where(np.isnan(low), solved(low, 1).impute(low), low)[9:]
    )
    for data in (np.full((5, 4), np.nan), np.ones((5, 4)), X[:1]):
        with pytest.raises(errors.InvalidProblem, match="that vary"):
            solved(data, 1)
    with pytest.raises(errors.NonFiniteData, match="infinity"):
        solved(np.where(X > 7, np.inf, X))
    with pytest.raises(errors.InvalidProblem, match="columns but one"):
        solved(X, 6)
    for data in (X[:, :5], X[:0]):
        with pytest.raises(errors.InvalidProblem, match="6 columns"):
            answer.transform(data)
    wild = X.copy()
    wild[5, 4] = -np.inf
    for method in (answer.impute, answer.score):
        with pytest.raises(errors.NonFiniteData, match="got -inf at row 85, column 4"):
            method(lambda: iter([X, wild]))
    with pytest.raises(errors.SweptOnce, match="X must be readable several times; an iterator"):
        ls.IncompletePCA(iter([X]), 2)


@pytest.mark.parametrize("rank", [1, 3])
def test_without_noise_a_row_with_few_known_entries_is_predicted_from_the_others(rank):
    rng = np.random.default_rng(4)
    rows = 100 * rng.standard_normal((200, rank)) @ rng.standard_normal((rank, 6))
    answer = solved(np.where(rng.random(rows.shape) < 0.2, np.nan, rows), rank)
    assert answer.status is ls.Status.RANK_DEFICIENT
    alone = np.where(np.arange(6) == np.arange(200)[:, None] % 6, rows, np.nan)
    assert answer.score(alone) == pytest.approx(0, abs=1e-4)  # of no others: the mean
    enough = np.where((np.arange(200)[:, None] - np.arange(6)) % 6 <= rank, rows, np.nan)
    assert answer.score(enough) > 1 - 1e-4


@pytest.mark.parametrize("change", [lambda A: A.astype(np.float32), lambda A: 1e30 * A, lambda A: A + 1e5])
def test_units_precision_and_far_means(change):
    answer, usual = solved(change(X), tol=1e-6), solved()
    scores = answer.transform(change(X))
    assert answer.converged
    assert np.allclose(scores, usual.transform(X), atol=1e-3)


def test_rows_in_slices_and_in_files(tmp_path):
    np.save(tmp_path / "X.npy", X)
    for data in (lambda: iter([X[:30], X[30:]]), np.load(tmp_path / "X.npy", mmap_mode="r")):
        assert np.allclose(solved(data).weights, solved().weights, atol=1e-7)


def test_an_estimator_without_components_says_that_it_is_not_fitted():
    with pytest.raises(NotFittedError):
        ls.estimators.IncompletePCA().inverse_transform(np.zeros((2, 1)))
