"""Cross-validation: scores are those of an explicit loop over splits, ridges and k, also of problems that name none."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
import scipy.stats
from planted import sharing
from truths import adjusted, extended

import linspec as ls
from linspec.errors import AccuracyWarning, InvalidOption, InvalidProblem, MissingCapability, NonFiniteData
from tests.studies.paired_problems import MCA, related

RIDGES, KS = [0.0, 1e-3, 5.0, 300.0], [1, 2, 4]


def some_views(n=120, p=9, q=7):
    return sharing(n, (p, q), 4, mean=3.0)


LABELS = np.random.default_rng(1).permutation(np.arange(120) % 4)
CLASSES = np.random.default_rng(5).integers(0, 4, 120)


def splits_of(labels):
    return [(np.flatnonzero(labels != fold), np.flatnonzero(labels == fold)) for fold in np.unique(labels)]


DRAW = np.random.default_rng(2)
ROWS = {
    "centred": {"center": True},
    "as they are": {"center": False},
    "scaled": {"center": True, "scale": True},
    "weighted": {"center": True, "sample_weight": DRAW.integers(0, 4, 120) / 2.0},
    "confounded": {"center": True, "confounds": DRAW.standard_normal((120, 2)) + 5.0},
}
ROWS["all"] = {**ROWS["confounded"], "scale": True, "sample_weight": DRAW.random(120) + 0.1}


def weights_of(stated):
    return stated.get("sample_weight", np.ones(120))


def both(A, split, stated, *, scale=True):
    """Training and held-out rows, times the roots of their weights, less what training rows say of them."""
    training, held_out = split
    inside, Z = np.zeros(len(A)), stated.get("confounds")
    inside[training] = weights_of(stated)[training]
    scale = scale and stated.get("scale", False)
    Z = None if Z is None else extended(Z)
    part = adjusted(extended(A), inside, Z, center=stated["center"], scale=scale)
    left = (np.sqrt(weights_of(stated))[:, None] * part.rows).astype(float)
    return left[training], left[held_out]


def inverse_root(S, ridge):
    values, U = np.linalg.eigh(S + ridge * np.eye(len(S)))
    return U / np.sqrt(values) @ U.T


def of_cca(A, B, stated, split, ridge, k, score="tcc"):
    (F, H), (G, J) = both(A, split, stated), both(B, split, stated)
    rx, ry = np.broadcast_to(ridge, 2)
    Rx, Ry = inverse_root(F.T @ F, rx), inverse_root(G.T @ G, ry)
    U, _, Vt = np.linalg.svd(Rx @ F.T @ G @ Ry)
    P, Q = H @ Rx @ U[:, :k], J @ Ry @ Vt[:k].T
    if score == "tcc":
        return np.linalg.svd(np.linalg.qr(P)[0].T @ np.linalg.qr(Q)[0], compute_uv=False).sum()
    return np.sum(np.sum(P * Q, axis=0) / np.linalg.norm(P, axis=0) / np.linalg.norm(Q, axis=0))


def of_least_squares(A, B, stated, split, ridge, _=None, score="mse"):
    (F, H), (b, d) = both(A, split, stated), both(B, split, stated, scale=False)
    w, given = weights_of(stated)[split[1]], B[split[1]]
    error = np.sum((d - H @ np.linalg.solve(F.T @ F + ridge * np.eye(F.shape[1]), F.T @ b)) ** 2)
    if score == "mse":
        return error / w.sum() / B.shape[1]
    return 1 - error / np.sum(w[:, None] * (given - np.average(given, axis=0, weights=w)) ** 2)


def of_svd(A, _, stated, split, ridge, k, score):
    (F, H), (training, held_out) = both(A, split, stated), split
    _, S, Vt = np.linalg.svd(F, full_matrices=False)
    if score is None:
        return 1 - np.sum((H - H @ Vt[:k].T @ Vt[:k]) ** 2) / np.sum(H**2)
    variances, w = S**2 / weights_of(stated)[training].sum(), weights_of(stated)[held_out]
    model = np.r_[variances[:k], np.full(A.shape[1] - k, variances[k:].mean())]
    normal = scipy.stats.multivariate_normal(cov=(Vt.T * model) @ Vt)
    return np.average(normal.logpdf(H[w > 0] / np.sqrt(w[w > 0])[:, None]), weights=w[w > 0])


def of_discriminant(A, _, stated, split, ridge, k, score):
    (F, H), (training, held_out), one_hot = both(A, split, stated), split, np.eye(4)[CLASSES]
    w = weights_of(stated)
    root = np.sqrt(w)[:, None]
    C = F.T @ ((one_hot * root)[training] / np.sqrt(w[training] @ one_hot[training]))
    W = scipy.linalg.eigh(C @ C.T, F.T @ F + ridge * np.eye(F.shape[1]))[1][:, ::-1]
    P, T = H @ W[:, :k], (one_hot * root)[held_out]
    if stated["center"]:
        constant = root[held_out] / np.linalg.norm(root[held_out])
        P, T = P - constant @ (constant.T @ P), T - constant @ (constant.T @ T)
    bases = [scipy.linalg.orth(Z, rcond=1e-8) for Z in (P, T)]
    return np.sum((bases[0].T @ bases[1]) ** 2)


def discriminant(X, _, stated):
    X = X + np.random.default_rng(5).standard_normal((4, X.shape[1]))[CLASSES]
    targets = ls.targets.lda(CLASSES, sample_weight=stated.get("sample_weight"))
    return ls.Discriminant(X, targets, 3, **stated)


PAIRS = {"ridges": [*RIDGES, (5.0, 300.0)], "ks": KS}
FAMILIES = {
    "cca": (lambda X, Y, stated: ls.CCA(X, Y, 4, **stated), of_cca, PAIRS),
    "least-squares": (
        lambda X, Y, stated: ls.LeastSquares(X, Y, **stated),
        of_least_squares,
        {"ridges": RIDGES},
    ),
    "svd": (lambda X, Y, stated: ls.SVD(X, 4, **stated), of_svd, {"ks": [1, 3, 8]}),
    "discriminant": (discriminant, of_discriminant, {"ridges": RIDGES[1:], "ks": [1, 3]}),
}
SCORES = {"cca": ["tcc", "correlations"], "least-squares": ["mse", "r2"], "svd": [None, "log-likelihood"]}


@pytest.mark.parametrize("form", ["auto", "solve"])
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.slow(keep=32)
def test_scores_are_those_of_a_loop(family, name, form):
    (make, oracle, grid), stated, (X, Y) = FAMILIES[family], ROWS[name], some_views()
    problem, close = make(X, Y, stated), 1e-10 if form == "auto" else 1e-9
    X = next(iter(problem.matrices.values())).dense()
    options = {"solver": "direct"} if form == "solve" else {}
    cells = splits_of(LABELS), grid.get("ridges", [0.0]), grid.get("ks", [1])
    for score in SCORES.get(family, [None]):
        found = ls.cross_validate(problem, splitter=LABELS, score=score, form=form, **grid, **options)
        exact = [oracle(X, Y, stated, *cell, score) for cell in itertools.product(*cells)]
        np.testing.assert_allclose(found.scores.ravel(), exact, rtol=close, atol=close)
        assert found.one_pass == (form == "auto")
        assert (found.passes == 1) == (form == "auto")


def test_a_fold_ten_million_times_larger_costs_no_digit():
    larger = np.where(LABELS == 2, 1e7, 1.0)[:, None]
    X, Y = (A * larger for A in some_views())
    small = X, Y, ROWS["centred"], splits_of(LABELS)[2], 1.0  # trained on the small folds alone
    pairs = ls.cross_validate(ls.CCA(X, Y, 4), ridges=[1.0], ks=[4], splitter=LABELS, score="tcc")
    assert pairs.scores[2].item() == pytest.approx(of_cca(*small, 4), abs=1e-10)
    rows = ls.cross_validate(ls.LeastSquares(X, Y, center=True), ridges=[1.0], splitter=LABELS)
    assert rows.scores[2].item() == pytest.approx(of_least_squares(*small), rel=1e-10)


def test_splitters_of_scikit_learn_and_labels():
    selection = pytest.importorskip("sklearn.model_selection")
    X, Y = some_views()
    problem, groups, y = ls.LeastSquares(X, Y, center=True), np.arange(120) // 7, np.arange(120) % 3
    never = np.where(np.arange(120) < 30, -1, LABELS)  # these rows are in every training set
    for splitter, given in (
        (selection.KFold(5), {}),
        (selection.GroupKFold(4), {"groups": groups}),
        (selection.StratifiedKFold(3), {"y": y}),
        (selection.TimeSeriesSplit(4, gap=3), {}),
        (selection.ShuffleSplit(6, test_size=0.3, random_state=0), {}),
        (selection.PredefinedSplit(never), {}),
        (never, {}),
    ):
        found = ls.cross_validate(problem, ridges=[1.0], splitter=splitter, **given)
        by_peer = selection.PredefinedSplit(never) if splitter is never else splitter
        splits = list(by_peer.split(X, y, given.get("groups")))
        exact = [of_least_squares(X, Y, ROWS["centred"], split, 1.0) for split in splits]
        np.testing.assert_allclose(found.scores.ravel(), exact, rtol=1e-10)
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


def test_rules_choose_the_best_and_the_simplest_within_one_standard_error():
    found = ls.cross_validate(ls.CCA(*some_views(), 4), ridges=RIDGES, ks=KS, splitter=LABELS)
    mean = found.scores.mean(axis=0)
    i, j = np.unravel_index(np.argmax(mean), mean.shape)
    assert found.best == ((RIDGES[i], RIDGES[i]), KS[j])
    least = mean[i, j] - np.std(found.scores[:, i, j], ddof=1) / 2
    k, ridge = min((KS[b], -RIDGES[a]) for a, b in np.argwhere(mean >= least))
    assert found.one_standard_error == ((-ridge, -ridge), k)
    solution = found.solve("one-standard-error", "gram")
    again = ls.solve(ls.CCA(*some_views(), k, ridge=-ridge), "gram")
    np.testing.assert_array_equal(solution.correlations, again.correlations)
    assert len(found.rows) == found.scores.size
    assert found.rows[-1] == (3, (300.0, 300.0), 4, found.scores[-1, -1, -1])
    assert "sum of correlations" in repr(found)


def hat_matrices(A, B, stated, ridges):
    """Return the adjusted targets, the rows' weight, that less the directions removed, and hats."""
    every = np.arange(len(A)), np.arange(len(A))
    F, b = both(A, every, stated)[0], both(B, every, stated, scale=False)[0]
    n, p = weights_of(stated).sum(), F.shape[1]
    taken = stated["center"] + (stated["confounds"].shape[1] if "confounds" in stated else 0)
    return b, n, n - taken, [F @ np.linalg.solve(F.T @ F + r * np.eye(p), F.T) for r in ridges]


def scores_of_hat_matrices(b, n, freedom, hats):
    errors = [np.sum((b - hat @ b) ** 2) / b.shape[1] for hat in hats]
    return np.array([n * e / (freedom - np.trace(hat)) ** 2 for e, hat in zip(errors, hats, strict=True)])


def enough(stated):
    """Weights that add up to more than the rows that count, or wide data leave no degree of freedom."""
    return stated | {"sample_weight": 2 * weights_of(stated)} if "sample_weight" in stated else stated


@pytest.mark.parametrize("p", [9, 400], ids=["columns", "rows"])
@pytest.mark.parametrize("name", ROWS)
def test_generalized_cross_validation_is_its_formula(name, p):
    stated, ridges = enough(ROWS[name]), RIDGES if p == 9 else RIDGES[2:]
    A, B = some_views(p=p)
    found = ls.cross_validate(ls.LeastSquares(A, B, **stated), ridges=ridges, method="gcv")
    expected = scores_of_hat_matrices(*hat_matrices(A, B, stated, ridges))
    np.testing.assert_allclose(found.scores[0, :, 0], expected, rtol=1e-10 if p == 9 else 1e-8)
    assert found.passes == (1 if p == 9 else 2)
    assert found.reason.startswith("dense" if p == 9 else "rows")
    assert np.isnan(found.standard_error).all()
    assert found.best.ridge == ridges[int(np.argmin(found.scores))]
    with pytest.raises(MissingCapability, match="one standard error"):
        _ = found.one_standard_error
    with pytest.raises(MissingCapability, match="for least squares"):
        ls.cross_validate(ls.CCA(A, B, 2), method="gcv")


@pytest.mark.parametrize("name", ["centred", "all"])
@pytest.mark.parametrize("p", [25, 200])
def test_random_signs_estimate_the_trace_and_say_how_well(monkeypatch, name, p):
    """The variance of zᵀHz is 2 Σ H_ij² over i ≠ j."""
    monkeypatch.setattr("linspec.families.least_squares.held_out.PROBES", 200)
    stated, ridges, (A, B) = enough(ROWS[name]), [1.0, 30.0, 1e3], some_views(p=p, q=2)
    options = {"form": "solve", "solver": "cg", "tol": 1e-10, "rng": 0}
    found = ls.cross_validate(ls.LeastSquares(A, B, **stated), ridges=ridges, method="gcv", **options)
    b, n, freedom, hats = hat_matrices(A, B, stated, ridges)
    exact = scores_of_hat_matrices(b, n, freedom, hats)
    spreads = [np.sqrt(2 * np.sum((hat - np.diag(np.diag(hat))) ** 2) / 200) for hat in hats]
    errors = 2 * exact * spreads / (freedom - np.array([np.trace(hat) for hat in hats]))
    assert np.all(np.abs(found.scores[0, :, 0] - exact) < 4 * errors)
    np.testing.assert_allclose(found.standard_error[:, 0], errors, rtol=0.4)
    assert found.passes >= 3  # a solve, its fitted values, and the right-hand sides
    with pytest.raises(MissingCapability, match="one standard error"):
        _ = found.one_standard_error


@pytest.mark.parametrize(
    ("error", "words", "given"),
    [
        (InvalidProblem, "between 2 and the number of rows, 120", {"splitter": 1}),
        (InvalidProblem, "number of groups, 2", {"splitter": 3, "groups": np.arange(120) % 2}),
        (InvalidProblem, "a label for each row of 120", {"splitter": LABELS[1:]}),
        (InvalidProblem, "no held-out rows", {"splitter": [(range(100), [])]}),
        (InvalidProblem, "each on one side and once", {"splitter": [([0, 1, 2, 3, 4], [4])]}),
        (InvalidProblem, "from 0 to 119", {"splitter": [(range(60), [120])]}),
        (InvalidOption, "kept together by", {"splitter": LABELS, "groups": LABELS}),
        (InvalidProblem, "between 1 and 7 for .* 7 columns of Y; got 8", {"ks": [8]}),
        (InvalidProblem, "at most 2 on split 0, whose 3", {"ks": [4], "splitter": [(range(3), [5])]}),
        (InvalidOption, "score must be one of correlations, tcc", {"score": "r2"}),
    ],
)
def test_what_cannot_be_is_refused_in_words(error, words, given):
    with pytest.raises(error, match=words):
        ls.cross_validate(ls.CCA(*some_views(), 2), **given)


@pytest.mark.parametrize("kind", ["none", "nan", "no time", "pandas", "polars", "pyarrow"])
def test_labels_that_are_missing_are_refused(kind):
    (X, Y), labels = some_views(), [None, *LABELS[1:].tolist()]
    if kind == "nan":
        labels = [math.nan, *map(float, labels[1:])]
    elif kind == "no time":
        labels = np.array(["NaT", *(f"2024-01-0{i + 1}" for i in labels[1:])], dtype="M8[D]")
    elif kind != "none":
        library = pytest.importorskip(kind)
        labels = library.array(labels) if kind == "pyarrow" else library.Series(labels)
    problem = ls.LeastSquares(X, Y)
    for call, of, given in (
        (ls.cross_validate, problem, {"splitter": labels}),
        (ls.cross_validate, problem, {"splitter": 3, "groups": labels}),
        (ls.bootstrap, ls.CCA(X, Y, k=1), {"draws": 20, "groups": labels}),
    ):
        with pytest.raises(InvalidProblem, match="none missing"):
            call(of, **given)


def test_entries_that_are_not_finite_or_cannot_be_taken_are_refused():
    X, Y = some_views()
    products = ls.CCA(*map(scipy.sparse.linalg.aslinearoperator, (X, Y)), 2)
    for form in ("auto", "implicit"):
        with pytest.raises(MissingCapability, match=r"needs row(s that can be taken| slices)"):
            ls.cross_validate(products, form=form)
    X[57, 3] = math.nan
    for data in (X, scipy.sparse.csr_matrix(X * (np.abs(X) > 4) + 0 * X)):
        with pytest.raises(NonFiniteData, match="A must be finite; got nan at row 57, column 3"):
            ls.cross_validate(ls.SVD(data, 2))


@pytest.mark.parametrize("form", ["auto", "dense", "implicit"])
def test_a_score_that_depends_on_a_choice_is_uncertain(form):
    """Sixteen training rows and 12 + 9 columns: all correlations are 1, and any of them may come first."""
    few, many = (ls.CCA(*some_views(n, 12, 9), 1, center=True) for n in (20, 200))
    with pytest.warns(AccuracyWarning, match="the next component is as good"):
        assert ls.cross_validate(few, ks=[1], form=form).uncertain.all()
    assert not ls.cross_validate(many, ks=[1], form=form).uncertain.any()


def test_accuracy_of_classes_is_that_of_scikit_learn_on_the_same_folds():
    analysis = pytest.importorskip("sklearn.discriminant_analysis")
    selection = pytest.importorskip("sklearn.model_selection")
    names, rng = np.array(["ash", "elm", "oak"]), np.random.default_rng(4)
    y = names[rng.integers(3, size=150)]
    X = rng.standard_normal((150, 5)) + 1.2 * (y[:, None] == names) @ np.eye(3, 5)
    folds = selection.KFold(5, shuffle=True, random_state=0)
    given = {"ks": [1, 2], "splitter": folds, "score": "accuracy"}
    found = ls.cross_validate(ls.Discriminant(X, ls.targets.lda(y), k=2), **given)
    peer = analysis.LinearDiscriminantAnalysis(solver="lsqr")
    expected = selection.cross_val_score(peer, X, y, cv=folds)
    np.testing.assert_allclose(found.scores[:, 0, 1], expected, atol=1e-12)
    assert found.best.k == 2
    opls = ls.Discriminant(X, ls.targets.opls((y[:, None] == names).astype(float)), k=2)
    with pytest.raises(MissingCapability, match="accuracy needs the class of each row"):
        ls.cross_validate(opls, **given)


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
@pytest.mark.parametrize("n", [60, 300], ids=["fewer rows than columns", "dependent columns"])
@pytest.mark.parametrize("cls", ["least-squares", "reduced-rank-regression", "discriminant"])
def test_scores_of_moments_are_of_the_coefficients_that_a_solve_returns(cls, n, scale):
    """Without a ridge, and of lower rank: coefficients of the least length, for columns of any length."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 40)) * np.geomspace(1, 10, 40)
    X[:, 39] = X[:, 0] + X[:, 1]
    B = X[:, :3] @ rng.standard_normal((3, 4)) + rng.standard_normal((n, 4))
    H = ls.targets.lda(np.argmax(B[:, :3], axis=1)) if cls == "discriminant" else B
    more = () if cls == "least-squares" else (2,)
    problem, labels = ls.get_problem(cls)(X, H, *more, center=True, scale=scale), np.arange(n) % 2
    dense, solved = (ls.cross_validate(problem, splitter=labels, form=form) for form in ("dense", "solve"))
    np.testing.assert_allclose(dense.scores, solved.scores, rtol=1e-6)


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


# ---- fields ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Unscored(ls.CCA):
    """A CCA that names no scores; its answer has a method `score`."""

    held_out_scores: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True, eq=False, repr=False)
class Agreement(ls.MultisetCCA):
    """A CCA of several views that names no scores."""

    held_out_scores: ClassVar[dict[str, str]] = {}


@pytest.mark.parametrize("center", [True, False], ids=["centred", "uncentred"])
@pytest.mark.parametrize(("score", "named"), [("correlations", "correlations"), ("score", "tcc")])
def test_scores_by_fields_are_those_that_cca_names(center, score, named):
    (X, Y), rng = related(60, (5, 4), (2.0, 1.0), 0), np.random.default_rng(0)
    grid = {"ks": [1, 2, 3], "ridges": [1.0, (2.0, 3.0)], "form": "solve", "rng": 0}
    rows = {"sample_weight": rng.integers(0, 3, 60), "confounds": rng.standard_normal((60, 2))}
    rows["center"] = center
    expected = ls.cross_validate(ls.CCA(X, Y, k=3, **rows), score=named, **grid)
    found = ls.cross_validate(Unscored(X, Y, k=3, **rows), score=score, solver="gram", **grid)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-9)
    assert found.label == expected.label


def test_three_views_are_scored_by_the_correlations_of_their_pairs():
    """By hand: rows about training means, correlations with their signs, summed over pairs and components."""
    views, ridges, labels = related(50, (4, 3, 3), (2.0, 1.0), 1), [1.0, (1.0, 2.0, 3.0)], np.arange(50) % 2
    found = ls.cross_validate(Agreement(views, 3), ks=[1, 3], ridges=ridges, splitter=labels)
    for split in (0, 1):
        for i, ridge in enumerate(ridges):
            answer = ls.solve(Agreement([V[labels != split] for V in views], 3, ridge=ridge))
            parts = zip(views, answer.weights, strict=True)
            P = [(V[labels == split] - V[labels != split].mean(axis=0)) @ W for V, W in parts]
            units = [S / np.linalg.norm(S, axis=0) for S in P]
            by_hand = sum(np.sum(units[a] * units[b], axis=0) for a, b in ((0, 1), (0, 2), (1, 2)))
            np.testing.assert_allclose(found.scores[split, i], [by_hand[0], by_hand.sum()])


def test_what_has_no_score_is_refused():
    X, Y = related(20, (3, 3), (1.0,), 4)
    with pytest.raises(InvalidOption, match="score must be one of correlations for MCA; got 'mse'"):
        ls.cross_validate(MCA(X, Y, k=1), score="mse")
    halves = Unscored(X, Y, k=1, sample_weight=np.full(20, 0.5))
    with pytest.raises(InvalidProblem, match=r"takes no weights, so it permutes rows|Round the weights"):
        ls.cross_validate(halves, score="score", solver="gram", rng=0)


def test_test_rows_without_a_method_are_scored_by_correlations():
    views = related(80, (4, 3, 3), (1.5,), 6)
    fitted, rest = ([V[rows] for V in views] for rows in (slice(40), slice(40, None)))
    path = ls.ridge_path(Agreement(fitted, 2), [1.0, 100.0], test=rest)
    given = {"ridges": [1.0, 100.0], "splitter": [(np.arange(40), np.arange(40, 80))]}
    scores = ls.cross_validate(Agreement(views, 2), **given).scores
    np.testing.assert_allclose(path.totals, scores[0, :, 0])


def test_what_has_no_path_is_refused():
    X, Y = related(20, (3, 3), (1.0,), 7)
    with pytest.raises(InvalidProblem, match=r"takes a problem with one ridge.*; got MCA"):
        ls.ridge_path(MCA(X, Y, k=1), [1.0])


def test_sparse_ridges_are_solved_where_gram_matrices_take_longer_to_decompose() -> None:
    """The scores are those of normal equations by hand."""
    rng = np.random.default_rng(0)
    A = scipy.sparse.random_array((1500, 900), density=0.01, format="csr", rng=rng)
    b, fold, ridges = (
        A @ rng.standard_normal(900) + rng.standard_normal(1500),
        np.arange(1500) % 3,
        [0.3, 3.0],
    )
    found = ls.cross_validate(ls.LeastSquares(A, b), ridges=ridges, splitter=fold, score="mse", rng=0)
    assert found.passes > 10
    assert "decompose" in found.reason
    few = ls.cross_validate(ls.LeastSquares(A[:, :50], b), ridges=ridges, splitter=fold, rng=0)
    assert few.passes == 1
    for number in range(3):
        D, t = A[fold != number].toarray(), b[fold != number]
        for ridge, score in zip(ridges, found.scores[number, :, 0], strict=True):
            x = np.linalg.solve(D.T @ D + ridge * np.eye(900), D.T @ t)
            error = np.mean((b[fold == number] - A[fold == number] @ x) ** 2)
            np.testing.assert_allclose(abs(score), error, rtol=1e-7)


def test_weak_ridges_and_narrow_entries_are_scored_from_gram_matrices() -> None:
    """Iterations would not end there, or have too few digits."""
    rng = np.random.default_rng(1)
    A = scipy.sparse.random_array((900, 700), density=0.01, format="csr", rng=rng)
    b, fold = A @ rng.standard_normal(700) + rng.standard_normal(900), np.arange(900) % 3
    uneven = (A @ scipy.sparse.diags_array(np.geomspace(1, 1e-5, 700))).tocsr()
    for data, ridge in ((uneven, 1e-12), (A.astype(np.float32), 3.0)):
        found = ls.cross_validate(ls.LeastSquares(data, b), ridges=[ridge], splitter=fold, score="mse", rng=0)
        assert found.passes == 1
        D, t = data[fold != 0].toarray().astype(float), b[fold != 0]
        x = np.linalg.lstsq(np.vstack([D, ridge**0.5 * np.eye(700)]), np.append(t, np.zeros(700)))[0]
        error = np.mean((b[fold == 0] - data[fold == 0] @ x) ** 2)
        np.testing.assert_allclose(abs(found.scores[0, 0, 0]), error, rtol=1e-5)
