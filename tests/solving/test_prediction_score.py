"""Accuracy and R² of answers, against those of scikit-learn and against their definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse.linalg

import linspec as ls
from linspec.errors import InvalidProblem, MissingCapability
from linspec.solving import score_of_predictions

N, TRAIN = 150, 90
RNG = np.random.default_rng(11)
A = RNG.standard_normal((N, 5)) + 3.0
B = A @ RNG.standard_normal((5, 2)) * [1.0, 5.0] + 2 * RNG.standard_normal((N, 2))
CLASS = np.array(["ash", "elm", "oak"])[np.argmax(A[:, :3] + RNG.standard_normal((N, 3)), axis=1)]
WEIGHT = RNG.integers(0, 4, N - TRAIN).astype(float)
NEW = slice(TRAIN, N)


def fitted(ridge: Any = 0.0) -> Any:
    return ls.solve(ls.LeastSquares(A[:TRAIN], B[:TRAIN], ridge, center=True))


@pytest.fixture
def lda() -> Any:
    return ls.solve(ls.Discriminant(A[:TRAIN], ls.targets.lda(CLASS[:TRAIN])))


@pytest.mark.parametrize(
    "problem",
    [
        ls.LeastSquares(A[:TRAIN], B[:TRAIN], center=True),
        ls.LeastSquares(A[:TRAIN], B[:TRAIN]),
        ls.PLSRegression(A[:TRAIN], B[:TRAIN], k=2),
    ],
)
@pytest.mark.parametrize("weights", [None, WEIGHT])
def test_r2_is_that_of_scikit_learn(problem: Any, weights: Any) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    solution, beside = ls.solve(problem), {"sample_weight": weights}
    predicted = solution.predict(A[NEW])
    score = score_of_predictions(solution, A[NEW], B[NEW], **beside)
    each, together = (
        metrics.r2_score(B[NEW], predicted, multioutput=how, **beside)
        for how in ("raw_values", "variance_weighted")
    )
    np.testing.assert_allclose(score.by_target, each, rtol=1e-10)
    assert score.total == pytest.approx(together, rel=1e-10)
    assert solution.score(A[NEW], B[NEW], **beside) == score.total
    assert (score.label, score.rows) == ("R²", N - TRAIN)


@pytest.mark.parametrize("weights", [None, WEIGHT])
def test_accuracy_is_that_of_scikit_learn(lda: Any, weights: Any) -> None:
    analysis = pytest.importorskip("sklearn.discriminant_analysis")
    other = analysis.LinearDiscriminantAnalysis(solver="lsqr").fit(A[:TRAIN], CLASS[:TRAIN])
    expected = other.score(A[NEW], CLASS[NEW], weights)
    assert 0.4 < expected < 1
    given = A[NEW], CLASS[NEW]
    assert lda.classifier().score(*given, sample_weight=weights) == pytest.approx(expected, abs=1e-12)
    if weights is None:
        assert (
            lda.score(*given) == lda.score(A[NEW], CLASS[NEW].tolist()) == pytest.approx(expected, abs=1e-12)
        )


def test_rows_without_a_class_do_not_count_and_other_classes_are_wrong(lda: Any) -> None:
    classifier = lda.classifier()
    right = classifier.predict(A[NEW]).astype(object)
    assert classifier.score(A[NEW], right) == 1.0
    right[:10], right[10:20] = None, "fir"
    score = score_of_predictions(classifier, A[NEW], right)
    assert (score.total, score.rows) == ((N - TRAIN - 20) / (N - TRAIN - 10), N - TRAIN - 10)


def test_a_target_that_does_not_vary_has_no_r2() -> None:
    score = score_of_predictions(fitted(), A[NEW], np.column_stack([B[NEW, 0], np.ones(N - TRAIN)]))
    np.testing.assert_array_equal(np.isnan(score.by_target), [False, True])


def test_scores_that_cannot_be_computed_are_refused(lda: Any) -> None:
    classes = r"class of the training data, .'ash', 'elm', 'oak'.* with classes \[0, 1\]"
    for solution, target, words in (
        (lda, np.arange(N - TRAIN) % 2, classes),
        (lda, CLASS[NEW][1:], "for each of 60 rows; got 59"),
        (fitted(), B[NEW, 0], r"shape of the predictions, \(60, 2\); got \(60, 1\)"),
        (fitted(ridge=[0.1, 1.0]), B[NEW], "got a path of 2"),
    ):
        with pytest.raises(InvalidProblem, match=words):
            solution.score(A[NEW], target)
    opls = ls.solve(ls.Discriminant(A, ls.targets.opls((CLASS[:, None] == np.unique(CLASS)).astype(float))))
    with pytest.raises(MissingCapability, match=r"classifier\(X, y\)"):
        opls.score(A, CLASS)
    assert opls.classifier(A, CLASS).score(A, CLASS) > 0.5


def regressions(X: Any, Y: Any, **options: Any) -> list[Any]:
    """An answer of each class that predicts, by different solvers, also the parts of a path of ridges."""
    least = ls.LeastSquares(X, Y, ridge=[0.5, 10.0], **options)
    problems = [
        (ls.LeastSquares(X, Y, ridge=0.5, **options), ("direct", "cg", "lsqr", "sketch-precondition")),
        (ls.PLSRegression(X, Y, k=2, **options), ("gram", "nipals")),
        (ls.ReducedRankRegression(X, Y, k=1, ridge=2.0, **options), ("direct", "two-stage")),
        (ls.RidgeManyTargets(X, Y, **options), ("gram", "kernel")),
    ]
    if options.get("confounds") is None and not options["scale"]:
        common = {name: options[name] for name in ("center", "sample_weight")}
        kernel = ls.KernelRidge(X, Y, ridge=[0.5, 1.0], **common)
        problems += [(ls.KernelRidge(X, Y, ridge=0.5, **common), ("direct",))]
        least = [*ls.solve(least).along_path(), *ls.solve(kernel).along_path()]
    else:
        least = ls.solve(least).along_path()
    return [*least, *(ls.solve(problem, name, rng=0) for problem, names in problems for name in names)]


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("confounded", [True, False])
@pytest.mark.parametrize("vector", [True, False])
def test_answers_keep_their_r_squared(center, scale, weighted, confounded, vector) -> None:
    """It is that of the predictions for the training rows, and costs no pass."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5)) * np.geomspace(0.1, 10, 5) + 3
    Y = X[:, :3] @ rng.standard_normal((3, 3)) + rng.standard_normal((60, 3)) * [1, 2, 3] + 5
    Y = Y[:, 0] if vector else Y
    w = rng.integers(0, 4, 60).astype(float) if weighted else np.ones(60)
    Z = {"confounds": rng.standard_normal((60, 2)) + 1} if confounded else {}
    answers = regressions(X, Y, center=center, scale=scale, sample_weight=w if weighted else None, **Z)
    for answer in answers:
        errors = w @ ((Y - answer.predict(X, **Z)).reshape(60, -1) ** 2)
        squares = w @ ((Y - np.average(Y, axis=0, weights=w)).reshape(60, -1) ** 2)
        np.testing.assert_allclose(answer.r_squared, 1 - errors / squares, rtol=0, atol=1e-10)
        assert answer.size == (w.sum(), 5)
        facts = dict(answer.summary().facts)
        assert float(facts["training R²"]) == pytest.approx(1 - errors.sum() / squares.sum(), rel=1e-5)
        if center and answer.problem != "kernel-ridge":
            at_zero = {"confounds": np.average(Z["confounds"], axis=0, weights=w)[None]} if Z else {}
            np.testing.assert_allclose(answer.intercept, answer.predict(np.zeros((1, 5)), **at_zero)[0])
        assert (answer.intercept is None) != center


def test_summaries_name_the_largest_coefficients(tmp_path: Any) -> None:
    """In an answer that is read from a file, too; what is not known is left out."""
    rng = np.random.default_rng(1)
    X = ls.labelled(rng.standard_normal((50, 12)), columns=[f"x{i}" for i in range(12)])
    Y = ls.labelled(
        X.dense() @ np.diag([*range(12, 0, -1)])[:, ::6] + 7, columns=["price of it", "\x1b[1mred"]
    )
    for problem in (
        ls.LeastSquares(X, Y, center=True),
        ls.PLSRegression(X, Y, k=12),
        ls.ReducedRankRegression(X, Y, k=2),
        ls.RidgeManyTargets(X, Y, ridges=[1e-9]),
    ):
        answer = ls.solve(problem)
        answer.save(tmp_path / "answer.npz")
        again = ls.load_solution(tmp_path / "answer.npz")
        assert again.summary().facts == answer.summary().facts
        facts = again.summary().facts
        names = [name for name, _ in facts]
        at = names.index("largest coefficients")
        assert "price of it" in facts[at][1]
        assert "\x1b" not in facts[at][1]
        assert names[at + 1 : at + 3] == ["  x0", "  x6"]
        assert facts[at + 1][1].split()[0] == "12"
        assert sum(name.startswith("  x") for name in names) == 10
        assert dict(facts)["intercept"].split() == ["7", "7"]
        predicted = answer.predictions_table(X, library="")[0]
        assert predicted["price of it"] == pytest.approx(Y.dense()[0, 0])
    once = ls.solve(ls.LeastSquares(iter([X.dense()]), Y.dense(), center=True))
    np.testing.assert_allclose(once.r_squared, 1, rtol=1e-12)
    for count in (2, 12):  # products of few columns tell their squares, those of many give estimates
        products = scipy.sparse.linalg.aslinearoperator(np.tile(Y.dense(), 6)[:, :count])
        for problem in (ls.LeastSquares(X, products, center=True), ls.PLSRegression(X, products, k=12)):
            facts = dict(ls.solve(problem).summary().facts)
            assert facts.get("training R²") == {2: "1", 12: None}[count]
    far = ls.solve(ls.LeastSquares(X, Y.dense()[:, 0] + 1e9))  # the mean hides the variation
    assert "training R²" not in dict(far.summary().facts)


@pytest.mark.parametrize(
    "name", ["least-squares", "pls-regression", "reduced-rank-regression", "kernel-ridge"]
)
def test_targets_are_those_of_the_fit_in_their_order(name: str) -> None:
    pd = pytest.importorskip("pandas")
    targets = pd.DataFrame(B, columns=["width", "height"])
    numbers = {"k": 2} if name.startswith(("pls", "reduced")) else {"ridge": 1.0}
    solution = ls.solve(ls.get_problem(name)(A, targets, **numbers))
    assert solution.score(A, targets) == solution.score(A, B)
    with pytest.raises(InvalidProblem, match="'height' in place of 'width'"):
        solution.score(A, targets[["height", "width"]])
