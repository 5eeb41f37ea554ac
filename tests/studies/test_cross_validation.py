"""Cross-validation: every score is that of an explicit loop over splits, ridges and k; one reading is enough."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
import scipy.stats
from backends import backends

import linspec as ls
from linspec.errors import (
    InvalidOption,
    InvalidProblem,
    MissingCapability,
    NonFiniteData,
)

RIDGES, KS = [0.0, 1e-3, 5.0, 300.0], [1, 2, 4]


def some_views(n=120, p=9, q=7, seed=0):
    rng = np.random.default_rng(seed)
    shared = rng.standard_normal((n, 4)) * [2.0, 1.5, 1.0, 0.7]
    X = shared @ rng.standard_normal((4, p)) + rng.standard_normal((n, p)) + 3.0
    Y = shared @ rng.standard_normal((4, q)) + rng.standard_normal((n, q)) - 1.0
    return X, Y


LABELS = np.random.default_rng(1).permutation(np.arange(120) % 4)


def splits_of(labels):
    return [(np.flatnonzero(labels != fold), np.flatnonzero(labels == fold)) for fold in np.unique(labels)]


# ---- the loop, written out ----


@dataclass
class Rows:
    """The adjustment of rows, learnt from training rows: by textbook formulas, row by row."""

    center: bool = True
    scale: bool = False
    weights: np.ndarray | None = None
    confounds: np.ndarray | None = None

    def both(self, A, training, held_out):
        """Weighted training and held-out rows, and both roots of weights."""
        w = np.ones(len(A)) if self.weights is None else self.weights
        D = [np.ones((len(A), 1))] if self.center else []
        D = np.hstack([*D, *([] if self.confounds is None else [self.confounds])] or [np.zeros((len(A), 0))])
        root = np.sqrt(w)[:, None]
        slopes = np.linalg.lstsq((D * root)[training], (A * root)[training], rcond=None)[0]
        left = A - D @ slopes
        if self.scale:
            left /= np.sqrt(np.average(left[training] ** 2, axis=0, weights=w[training]))
        return (left * root)[training], (left * root)[held_out]

    def stated(self):
        return {
            "center": self.center,
            "scale": self.scale,
            "sample_weight": self.weights,
            "confounds": self.confounds,
        }


def inverse_root(S):
    values, U = np.linalg.eigh(S)
    return U / np.sqrt(values) @ U.T


def cca_weights(X, Y, rx, ry, k):
    Bx, By = inverse_root(X.T @ X + rx * np.eye(X.shape[1])), inverse_root(Y.T @ Y + ry * np.eye(Y.shape[1]))
    U, _, Vt = np.linalg.svd(Bx @ X.T @ Y @ By)
    return Bx @ U[:, :k], By @ Vt[:k].T


def of_cca(X, Y, rows, splits, ridges, ks, score):
    found = np.empty((len(splits), len(ridges), len(ks)))
    for s, (training, held_out) in enumerate(splits):
        (A, held_a), (B, held_b) = rows.both(X, training, held_out), rows.both(Y, training, held_out)
        for i, ridge in enumerate(ridges):
            rx, ry = ridge if isinstance(ridge, tuple) else (ridge, ridge)
            for j, k in enumerate(ks):
                P, Q = (Z @ W for Z, W in zip((held_a, held_b), cca_weights(A, B, rx, ry, k), strict=True))
                if score == "tcc":
                    bases = np.linalg.qr(P)[0], np.linalg.qr(Q)[0]
                    found[s, i, j] = np.linalg.svd(bases[0].T @ bases[1], compute_uv=False).sum()
                else:
                    lengths = np.linalg.norm(P, axis=0) * np.linalg.norm(Q, axis=0)
                    found[s, i, j] = np.sum(np.sum(P * Q, axis=0) / lengths)
    return found


def of_least_squares(A, B, rows, splits, ridges, score):
    found = np.empty((len(splits), len(ridges), 1))
    of_targets = Rows(rows.center, False, rows.weights, rows.confounds)
    for s, (training, held_out) in enumerate(splits):
        (F, H), (b, d) = rows.both(A, training, held_out), of_targets.both(B, training, held_out)
        w = np.ones(len(A)) if rows.weights is None else rows.weights
        about = B[held_out] - np.average(B[held_out], axis=0, weights=w[held_out])
        total = np.sum(w[held_out, None] * about**2)
        for i, ridge in enumerate(ridges):
            x = np.linalg.solve(F.T @ F + ridge * np.eye(F.shape[1]), F.T @ b)
            error = np.sum((d - H @ x) ** 2)
            found[s, i, 0] = 1 - error / total if score == "r2" else error / w[held_out].sum() / B.shape[1]
    return found


ROWS = {
    "centred": Rows(),
    "as they are": Rows(center=False),
    "scaled": Rows(scale=True),
    "weighted": Rows(weights=np.random.default_rng(2).integers(0, 4, 120) / 2.0),
    "confounded": Rows(confounds=np.random.default_rng(3).standard_normal((120, 2)) + 5.0),
    "all": Rows(
        scale=True,
        weights=np.random.default_rng(2).random(120) + 0.1,
        confounds=np.random.default_rng(3).standard_normal((120, 1)),
    ),
}


@pytest.fixture(params=ROWS)
def rows(request):
    return ROWS[request.param]


@pytest.mark.parametrize("score", ["tcc", "correlations"])
def test_cca_scores_are_those_of_a_loop(rows, score):
    X, Y = some_views()
    ridges = [*RIDGES, (5.0, 300.0)]
    found = ls.cross_validate(
        ls.CCA(X, Y, 4, **rows.stated()), ridges=ridges, ks=KS, splitter=LABELS, score=score
    )
    np.testing.assert_allclose(
        found.scores, of_cca(X, Y, rows, splits_of(LABELS), ridges, KS, score), atol=1e-10
    )
    assert found.one_pass
    assert found.passes == 1


@pytest.mark.parametrize("score", ["mse", "r2"])
def test_least_squares_scores_are_those_of_a_loop(rows, score):
    A, B = some_views()
    found = ls.cross_validate(
        ls.LeastSquares(A, B, **rows.stated()), ridges=RIDGES, splitter=LABELS, score=score
    )
    np.testing.assert_allclose(
        found.scores, of_least_squares(A, B, rows, splits_of(LABELS), RIDGES, score), rtol=1e-10
    )


def test_svd_scores_are_those_of_a_loop(rows):
    A, _ = some_views()
    problem, ks = ls.SVD(A, 4, **rows.stated()), [1, 3, 8]
    shares = ls.cross_validate(problem, ks=ks, splitter=LABELS).scores
    likelihoods = ls.cross_validate(problem, ks=ks, splitter=LABELS, score="log-likelihood").scores
    w = np.ones(len(A)) if rows.weights is None else rows.weights
    for s, (training, held_out) in enumerate(splits_of(LABELS)):
        F, H = rows.both(A, training, held_out)
        _, S, Vt = np.linalg.svd(F, full_matrices=False)
        variances = S**2 / w[training].sum()
        for j, k in enumerate(ks):
            rest = H - H @ Vt[:k].T @ Vt[:k]
            assert shares[s, 0, j] == pytest.approx(1 - np.sum(rest**2) / np.sum(H**2), abs=1e-10)
            model = np.r_[variances[:k], np.full(A.shape[1] - k, variances[k:].mean())]
            normal = scipy.stats.multivariate_normal(cov=(Vt.T * model) @ Vt)
            keep = w[held_out] > 0
            each = w[held_out][keep], H[keep] / np.sqrt(w[held_out][keep])[:, None]
            mean = np.average(normal.logpdf(each[1]), weights=each[0])
            assert likelihoods[s, 0, j] == pytest.approx(mean, rel=1e-10)


@pytest.mark.parametrize("name", ["centred", "as they are", "scaled", "weighted", "confounded"])
def test_discriminant_scores_are_those_of_a_loop(name):
    rows, rng = ROWS[name], np.random.default_rng(5)
    X, _ = some_views()
    y = rng.integers(0, 4, len(X))
    X = X + rng.standard_normal((4, X.shape[1]))[y]
    weights = rows.weights
    problem = ls.Discriminant(X, ls.targets.lda(y, sample_weight=weights), 3, **rows.stated())
    found = ls.cross_validate(problem, ridges=RIDGES[1:], ks=[1, 3], splitter=LABELS).scores
    w = np.ones(len(X)) if weights is None else weights
    one_hot = np.eye(4)[y]
    for s, (training, held_out) in enumerate(splits_of(LABELS)):
        F, H = rows.both(X, training, held_out)
        root = np.sqrt(w)[:, None]
        targets = (one_hot * root)[training] / np.sqrt(w[training] @ one_hot[training])
        for i, ridge in enumerate(RIDGES[1:]):
            C, M = F.T @ targets, F.T @ F + ridge * np.eye(F.shape[1])
            W = scipy.linalg.eigh(C @ C.T, M)[1][:, ::-1]
            for j, k in enumerate([1, 3]):
                P, T = H @ W[:, :k], (one_hot * root)[held_out]
                if rows.center:
                    constant = root[held_out] / np.linalg.norm(root[held_out])
                    P, T = P - constant @ (constant.T @ P), T - constant @ (constant.T @ T)
                bases = [scipy.linalg.orth(Z, rcond=1e-8) for Z in (P, T)]
                assert found[s, i, j] == pytest.approx(np.sum((bases[0].T @ bases[1]) ** 2), abs=1e-10)


# ---- splits ----


def test_a_fold_ten_million_times_larger_costs_no_digit():
    X, Y = some_views()
    X, Y = X.copy(), Y.copy()
    X[LABELS == 2] *= 1e7
    Y[LABELS == 2] *= 1e7
    found = ls.cross_validate(ls.CCA(X, Y, 4), ridges=[1.0], ks=[1, 4], splitter=LABELS, score="tcc")
    splits = splits_of(LABELS)
    exact = of_cca(X, Y, Rows(), splits, [1.0], [1, 4], "tcc")
    np.testing.assert_allclose(found.scores[2], exact[2], atol=1e-10)  # trained on the small folds alone
    by_rows = ls.cross_validate(ls.LeastSquares(X, Y, center=True), ridges=[1.0], splitter=LABELS)
    small = of_least_squares(X, Y, Rows(), splits, [1.0], "mse")[2]
    np.testing.assert_allclose(by_rows.scores[2], small, rtol=1e-10)


def test_splitters_of_scikit_learn():
    selection = pytest.importorskip("sklearn.model_selection")
    X, Y = some_views()
    groups, y = np.arange(120) // 7, np.arange(120) % 3
    for splitter, given in (
        (selection.KFold(5), {}),
        (selection.GroupKFold(4), {"groups": groups}),
        (selection.StratifiedKFold(3), {"y": y}),
        (selection.TimeSeriesSplit(4, gap=3), {}),
        (selection.ShuffleSplit(6, test_size=0.3, random_state=0), {}),
        (selection.PredefinedSplit(np.where(np.arange(120) < 30, -1, LABELS)), {}),
    ):
        problem = ls.CCA(X, Y, 2, ridge=5.0)
        found = ls.cross_validate(problem, ks=KS[:2], splitter=splitter, score="tcc", **given)
        splits = list(splitter.split(X, y, given.get("groups")))
        exact = of_cca(X, Y, Rows(), splits, [5.0], KS[:2], "tcc")
        np.testing.assert_allclose(found.scores, exact, atol=1e-10)
        assert found.sizes == tuple((len(a), len(b)) for a, b in splits)
        assert found.passes == 1


def test_a_number_of_folds_shuffles_and_keeps_groups_together():
    X, Y = some_views()
    groups = np.repeat(np.arange(40), 3)
    problem = ls.LeastSquares(X, Y)
    first, second = (ls.cross_validate(problem, splitter=3, groups=groups, rng=0).scores for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, ls.cross_validate(problem, splitter=3, groups=groups, rng=1).scores)
    seen = ls.cross_validate(problem, splitter=3, groups=groups, rng=0).sizes
    assert sorted(seen) == [(78, 42), (81, 39), (81, 39)]  # whole groups of three rows, as many in each fold


def test_rows_labelled_never_are_in_every_training_set():
    X, Y = some_views()
    labels = np.where(np.arange(120) < 20, -1, LABELS)
    found = ls.cross_validate(ls.LeastSquares(X, Y), ridges=[1.0], splitter=labels)
    splits = [(np.flatnonzero(labels != fold), np.flatnonzero(labels == fold)) for fold in range(4)]
    exact = of_least_squares(X, Y, Rows(center=False), splits, [1.0], "mse")
    np.testing.assert_allclose(found.scores, exact, rtol=1e-10)


# ---- data of any kind ----


@pytest.mark.parametrize("backend", [b for b in backends() if b.readable], ids=lambda backend: backend.name)
def test_data_of_any_kind_have_the_same_scores(backend):
    if backend.missing():
        pytest.skip(backend.missing())
    X, Y = (np.round(4 * A) / 4 * (np.abs(A) > 2) for A in some_views())  # exact in float32, and sparse
    before = [backend.wrap(A.astype(np.float64 if backend.float64 else np.float32)) for A in (X, Y)]
    content = [backend.snapshot(A) for A in before]
    found = ls.cross_validate(ls.CCA(*before, 2), ridges=[5.0], ks=[1, 2], splitter=LABELS, score="tcc")
    exact = of_cca(X, Y, Rows(), splits_of(LABELS), [5.0], [1, 2], "tcc")
    np.testing.assert_allclose(found.scores, exact, atol=1e-10)
    assert [backend.snapshot(A) for A in before] == content


# ---- without Gram matrices ----


@pytest.mark.parametrize("form", ["solve", "implicit"])
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.slow(keep=4)
def test_solving_each_ridge_and_split_gives_the_same_scores(name, form):
    X, Y = some_views()
    rows, y = ROWS[name].stated(), np.arange(120) % 3
    problems = [
        (ls.CCA(X, Y, 2, **rows), "direct", {"ridges": [1.0, (3.0, 30.0)], "ks": [1, 2]}),
        (ls.LeastSquares(X, Y[:, 0], **rows), "direct", {"ridges": [1.0, 30.0]}),
        (ls.SVD(X, 2, **rows), "direct", {"ks": [1, 3]}),
        (ls.SVD(X, 2, **rows), "direct", {"ks": [1, 3], "score": "log-likelihood"}),
        (
            ls.Discriminant(X, ls.targets.lda(y, sample_weight=rows["sample_weight"]), **rows),
            "direct",
            {"ridges": [1.0, 30.0], "ks": [1, 2]},
        ),
    ]
    for problem, solver, grid in problems:
        held = ls.cross_validate(problem, splitter=LABELS, **grid)
        solved = ls.cross_validate(problem, splitter=LABELS, form=form, solver=solver, **grid)
        np.testing.assert_allclose(solved.scores, held.scores, rtol=1e-9, atol=1e-9)
        assert held.one_pass
        assert not solved.one_pass
        assert solved.passes > 1


# ---- what is chosen ----


def test_rules_choose_the_best_and_the_simplest_within_one_standard_error():
    X, Y = some_views()
    found = ls.cross_validate(ls.CCA(X, Y, 4), ridges=RIDGES, ks=[1, 2, 4], splitter=LABELS)
    mean = found.scores.mean(axis=0)
    i, j = np.unravel_index(np.argmax(mean), mean.shape)
    assert found.best == ((RIDGES[i], RIDGES[i]), KS[j])
    error = np.std(found.scores[:, i, j], ddof=1) / 2
    within = [
        (k, -ridge)
        for a, ridge in enumerate(RIDGES)
        for b, k in enumerate(KS)
        if mean[a, b] >= mean[i, j] - error
    ]
    k, ridge = min(within)
    assert found.one_standard_error == ((-ridge, -ridge), k)
    solution = found.solve("one-standard-error", "gram")
    again = ls.solve(ls.CCA(X, Y, k, ridge=-ridge), "gram")
    np.testing.assert_array_equal(solution.correlations, again.correlations)
    assert len(found.rows) == found.scores.size
    assert found.rows[-1] == (3, (300.0, 300.0), 4, found.scores[-1, -1, -1])
    assert "sum of correlations" in repr(found)


def test_planted_numbers_are_found():
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((400, 3))
    X = shared @ rng.standard_normal((3, 30)) + rng.standard_normal((400, 30))
    Y = shared @ rng.standard_normal((3, 25)) + rng.standard_normal((400, 25))
    pairs = ls.cross_validate(ls.CCA(X, Y, 8), ridges=[1, 10, 100], ks=range(1, 9), rng=0)
    assert pairs.one_standard_error.k == 3
    vectors = ls.cross_validate(
        ls.SVD(X, 8, center=True), ks=range(1, 9), score="log-likelihood", splitter=10, rng=0
    )
    assert vectors.best.k == 3


def with_enough_rows(rows):
    """Weights that add up to more than the rows that count, or wide data leave no degree of freedom."""
    return rows if rows.weights is None else replace(rows, weights=2 * rows.weights)


def hat_matrices(A, B, rows, ridges):
    """Return the adjusted targets, the rows' weight, that less the directions removed, and hats."""
    every = np.arange(len(A))
    F = rows.both(A, every, every)[0]
    b = Rows(rows.center, False, rows.weights, rows.confounds).both(B, every, every)[0]
    n = len(A) if rows.weights is None else rows.weights.sum()
    taken = rows.center + (0 if rows.confounds is None else rows.confounds.shape[1])
    return b, n, n - taken, [F @ np.linalg.solve(F.T @ F + r * np.eye(F.shape[1]), F.T) for r in ridges]


def scores_of_hat_matrices(b, n, freedom, hats):
    errors = [np.sum((b - hat @ b) ** 2) / b.shape[1] for hat in hats]
    return np.array([n * e / (freedom - np.trace(hat)) ** 2 for e, hat in zip(errors, hats, strict=True)])


@pytest.mark.parametrize("name", ROWS)
def test_generalized_cross_validation_is_its_formula(name):
    rows, (A, B) = ROWS[name], some_views()
    found = ls.cross_validate(ls.LeastSquares(A, B, **rows.stated()), ridges=RIDGES, method="gcv")
    expected = scores_of_hat_matrices(*hat_matrices(A, B, rows, RIDGES))
    np.testing.assert_allclose(found.scores[0, :, 0], expected, rtol=1e-10)
    assert found.passes == 1
    assert found.reason.startswith("dense")
    assert np.isnan(found.standard_error).all()
    assert found.best.ridge == RIDGES[int(np.argmin(found.scores))]
    with pytest.raises(MissingCapability, match="one standard error"):
        _ = found.one_standard_error
    with pytest.raises(MissingCapability, match="for least squares"):
        ls.cross_validate(ls.CCA(A, B, 2), method="gcv")


@pytest.mark.parametrize("backend", [b for b in backends() if b.readable], ids=lambda backend: backend.name)
@pytest.mark.parametrize("name", ["all", "as they are"])
def test_the_gram_matrix_of_fewer_rows_serves_as_well(name, backend):
    rows, ridges = with_enough_rows(ROWS[name]), [0.5, 5.0, 300.0]
    if backend.missing():
        pytest.skip(backend.missing())
    A, B = (np.round(4 * M) / 4 for M in some_views(p=400, q=2))  # exact in float32
    given = [backend.wrap(M.astype(np.float64 if backend.float64 else np.float32)) for M in (A, B)]
    found = ls.cross_validate(ls.LeastSquares(*given, **rows.stated()), ridges=ridges, method="gcv")
    assert found.reason.startswith("rows")
    expected = scores_of_hat_matrices(*hat_matrices(A, B, rows, ridges))
    np.testing.assert_allclose(found.scores[0, :, 0], expected, rtol=1e-8 if backend.float64 else 1e-4)


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("p", [25, 200])
def test_random_signs_estimate_the_trace_and_say_how_well(monkeypatch, name, p):
    """The variance of zᵀHz is 2 Σ H_ij² over i ≠ j."""
    monkeypatch.setattr("linspec.families.least_squares.held_out.PROBES", 200)
    rows, ridges = with_enough_rows(ROWS[name]), [1.0, 30.0, 1e3]
    A, B = some_views(p=p, q=2)
    problem = ls.LeastSquares(A, B, **rows.stated())
    found = ls.cross_validate(
        problem, ridges=ridges, method="gcv", form="solve", solver="cg", tol=1e-10, rng=0
    )
    b, n, freedom, hats = hat_matrices(A, B, rows, ridges)
    exact = scores_of_hat_matrices(b, n, freedom, hats)
    errors = []
    for hat, score in zip(hats, exact, strict=True):
        spread = np.sqrt(2 * np.sum((hat - np.diag(np.diag(hat))) ** 2) / 200)
        errors.append(2 * score * spread / (freedom - np.trace(hat)))
    assert np.all(np.abs(found.scores[0, :, 0] - exact) < 4 * np.array(errors))
    np.testing.assert_allclose(found.standard_error[:, 0], errors, rtol=0.4)
    assert found.passes >= 3  # a solve, its fitted values, and the right-hand sides
    with pytest.raises(MissingCapability, match="one standard error"):
        _ = found.one_standard_error


# ---- what is refused ----


@pytest.mark.parametrize(
    ("error", "words", "given"),
    [
        (InvalidProblem, "between 2 and the number of rows, 120", {"splitter": 1}),
        (
            InvalidProblem,
            "between 2 and the number of groups, 2",
            {"splitter": 3, "groups": np.arange(120) % 2},
        ),
        (InvalidProblem, "one for each of 120 rows; got 119", {"splitter": LABELS[1:]}),
        (InvalidProblem, "at least two different values", {"splitter": np.zeros(120)}),
        (InvalidProblem, "no held-out rows", {"splitter": [(range(100), [])]}),
        (InvalidProblem, "each on one side and once", {"splitter": [([0, 1, 2, 3, 4], [4])]}),
        (InvalidProblem, "from 0 to 119", {"splitter": [(range(60), [120])]}),
        (InvalidProblem, "each on one side and once", {"splitter": [([0, 0, 1, 2, 3], [4])]}),
        (InvalidOption, "splitter must be", {"splitter": "five"}),
        (InvalidOption, "kept together by", {"splitter": LABELS, "groups": LABELS}),
        (InvalidProblem, "one entry for each of 120 rows", {"groups": [1, 2]}),
        (InvalidProblem, "between 1 and 7 for .* 7 columns of Y; got 8", {"ks": [8]}),
        (InvalidProblem, "at most 4 on split 0", {"ks": [5], "splitter": [(range(5), range(5, 120))]}),
        (
            InvalidProblem,
            "at most 2 on split 0, whose 3 training rows",
            {"ks": [4], "splitter": [(range(3), [5])]},
        ),
        (InvalidProblem, "integers of at least 1", {"ks": [0]}),
        (InvalidProblem, "must be a sequence", {"ridges": 3.0}),
        (InvalidProblem, "at least one value", {"ridges": []}),
        (InvalidProblem, "at least 0", {"ridges": [-1.0]}),
        (InvalidOption, "score must be one of correlations, tcc", {"score": "r2"}),
        (InvalidOption, "method must be", {"method": "loo"}),
        (InvalidOption, "no solver runs", {"solver": "gram", "form": "dense"}),
        (InvalidProblem, "all have weight 0", {"sample_weight": (LABELS == 0) * 1.0, "splitter": LABELS}),
    ],
)
def test_what_cannot_be_is_refused_in_words(error, words, given):
    X, Y = some_views()
    problem = ls.CCA(X, Y, 2, sample_weight=given.pop("sample_weight", None))
    with pytest.raises(error, match=words):
        ls.cross_validate(problem, **given)


def test_entries_that_are_not_finite_are_named():
    X, _ = some_views()
    X[57, 3] = math.nan
    for data in (X, scipy.sparse.csr_matrix(X * (np.abs(X) > 4) + 0 * X)):
        with pytest.raises(NonFiniteData, match="A must be finite; got nan at row 57, column 3"):
            ls.cross_validate(ls.SVD(data, 2))


def test_operators_known_by_their_products_have_no_rows_to_hold_out():
    X, Y = (scipy.sparse.linalg.aslinearoperator(A) for A in some_views())
    for form in ("auto", "implicit"):
        with pytest.raises(MissingCapability, match="needs rows that can be taken"):
            ls.cross_validate(ls.CCA(X, Y, 2), form=form)


def test_accuracy_of_classes_is_that_of_scikit_learn_on_the_same_folds() -> None:
    analysis = pytest.importorskip("sklearn.discriminant_analysis")
    selection = pytest.importorskip("sklearn.model_selection")
    rng = np.random.default_rng(4)
    y = np.array(["ash", "elm", "oak"])[rng.integers(3, size=150)]
    X = rng.standard_normal((150, 5)) + 1.2 * (y[:, None] == ["ash", "elm", "oak"]) @ np.eye(3, 5)
    folds = selection.KFold(5, shuffle=True, random_state=0)
    problem = ls.Discriminant(X, ls.targets.lda(y), k=2)
    found = ls.cross_validate(problem, ks=[1, 2], splitter=folds, score="accuracy")
    peer = analysis.LinearDiscriminantAnalysis(solver="lsqr")
    expected = selection.cross_val_score(peer, X, y, cv=folds)
    assert [row.score for row in found.rows if row.k == 2] == pytest.approx(expected.tolist(), abs=1e-12)
    assert found.best.k == 2
    opls = ls.targets.opls((y[:, None] == np.unique(y)).astype(float))
    with pytest.raises(MissingCapability, match="accuracy needs the class of each row"):
        ls.cross_validate(ls.Discriminant(X, opls, k=2), ks=[1, 2], score="accuracy")


@pytest.mark.parametrize("form", ["dense", "solve"])
@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("problem", [ls.LeastSquares, ls.PLSRegression, ls.ReducedRankRegression])
def test_a_target_that_is_constant_in_training_has_the_error_of_its_mean(problem, scale, form):
    """It changes no fit of the other targets, and its prediction is its training mean, 2."""
    X, Y = some_views(q=3)
    Y[LABELS != 0, 1] = 2.0
    k = () if problem is ls.LeastSquares else (2,)
    given = {"splitter": LABELS, "form": form, "ridges": None if problem is ls.PLSRegression else [1.0]}
    of_all, of_others = (
        ls.cross_validate(problem(X, targets, *k, center=True, scale=scale), **given).scores[0]
        for targets in (Y, Y[:, [0, 2]])
    )
    of_mean = np.mean((Y[LABELS == 0, 1] - 2.0) ** 2)
    np.testing.assert_allclose(3 * of_all, 2 * of_others + of_mean, rtol=1e-9)


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("rows", ["fewer than columns", "dependent columns"])
@pytest.mark.parametrize("cls", ["least-squares", "reduced-rank-regression", "discriminant"])
def test_scores_of_moments_are_of_the_coefficients_that_a_solve_returns(cls, rows, scale):
    """Without a ridge, and of lower rank: coefficients of the least length, for columns of any length."""
    rng = np.random.default_rng(0)
    n = 60 if rows == "fewer than columns" else 300
    X = rng.standard_normal((n, 40)) * np.geomspace(1, 10, 40)
    X[:, 39] = X[:, 0] + X[:, 1]
    B = X[:, :3] @ rng.standard_normal((3, 4)) + rng.standard_normal((n, 4))
    H = ls.targets.lda(np.argmax(B[:, :3], axis=1)) if cls == "discriminant" else B
    more = () if cls == "least-squares" else (2,)
    problem = ls.get_problem(cls)(X, H, *more, center=True, scale=scale)
    found = [
        ls.cross_validate(problem, splitter=np.arange(n) % 2, form=form).scores for form in ("dense", "solve")
    ]
    np.testing.assert_allclose(*found, rtol=1e-6)


def test_one_fold_of_sparse_rows_may_be_unlike_the_others():
    """Its variation hides that means of the other folds are far above their deviations."""
    rng = np.random.default_rng(0)
    labels = np.arange(300) // 100
    G = rng.standard_normal((300, 4))
    A = np.where((labels == 1)[:, None], G * 1e8, G + 1e8)
    b = G.sum(axis=1) + 0.1 * rng.standard_normal(300)
    dense, sparse = (
        ls.cross_validate(ls.LeastSquares(D, b, center=True), splitter=labels)
        for D in (A, scipy.sparse.csr_array(A))
    )
    np.testing.assert_allclose(sparse.scores, dense.scores, rtol=1e-6)


@pytest.mark.parametrize("constant", [0.1, 1e3 + 0.1, 1e6 + 0.1, 1e8 + 0.1])
def test_a_constant_sparse_column_says_nothing(constant):
    """Weighted means of equal numbers differ in their last bits, by fold."""
    rng = np.random.default_rng(0)
    A, w, labels = (
        rng.standard_normal((300, 4)) * (rng.random((300, 4)) < 0.3),
        rng.random(300),
        np.arange(300) % 3,
    )
    A[:, 3] = constant
    stated = {"center": True, "scale": True, "sample_weight": w}
    dense, sparse = (
        ls.cross_validate(ls.SVD(D, k=2, **stated), splitter=labels).scores
        for D in (A[:, :3], scipy.sparse.csr_array(A))
    )
    np.testing.assert_allclose(sparse, dense, rtol=1e-6)
