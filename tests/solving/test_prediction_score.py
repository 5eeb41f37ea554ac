"""Accuracy and R² of answers, against those of scikit-learn and against their definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

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
