"""Every function that takes several things with rows refuses the same labels in another order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import linspec as ls
from linspec.errors import AccuracyWarning, InvalidProblem

pd = pytest.importorskip("pandas", reason="no pandas")
pytest.importorskip("narwhals", reason="frames are read by narwhals")

N = 60
RNG = np.random.default_rng(11)
INDEX = pd.Index([f"person {i}" for i in range(N)])
x, z = RNG.standard_normal((N, 3)), RNG.standard_normal((N, 1))
y = x[:, :2] + 0.3 * RNG.standard_normal((N, 2)) + z
up = x[:, 0] > 0
classes = np.where(up, "up", "down")
X, Y, Z = (pd.DataFrame(each, index=INDEX, columns=list("abc")[: each.shape[1]]) for each in (x, y, z))
LATER = [f"person {i}" for i in range(1, N + 1)]
members = np.eye(2)[up.astype(int)]
MEMBERS = pd.DataFrame(members, columns=list("st"), index=INDEX)
CLASSES, GROUPS = pd.Series(classes, index=INDEX), pd.Series(np.arange(N) % 6, index=INDEX)
W = pd.Series(RNG.integers(1, 4, N).astype(float), index=INDEX)

# Answers for arrays, so that no label comes from them.
SVD, SVD_Z = (ls.solve(ls.SVD(x, 2, center=True, confounds=each)) for each in (None, z))
CCA, CCA_Z = (ls.solve(ls.CCA(x, y, 2, confounds=each)) for each in (None, z))
LDA, LDA_Z = (ls.solve(ls.Discriminant(x, ls.targets.lda(classes), confounds=each)) for each in (None, z))
LSQ_Z = ls.solve(ls.LeastSquares(x, y, confounds=z, center=True))
KERNEL = ls.solve(ls.KernelCCA(x, y, k=1, ridge=1.0), rng=0)


def estimator(name: str, *fitted: Any, **options: Any) -> Any:
    estimators = pytest.importorskip("linspec.estimators", reason="no scikit-learn")
    made = getattr(estimators, name)(**options)
    return made.fit(*fitted) if fitted else made


def ridge_cv() -> Any:
    return estimator("RidgeCV", cv=pytest.importorskip("sklearn.model_selection").GroupKFold(3))


def unscored(scores: Any) -> Any:
    return SVD_Z.inverse_transform(SVD_Z.scores_table(X, confounds=Z), confounds=scores)


def scores(X: Any, Y: Any, **given: Any) -> Any:
    return ls.cross_validate(ls.LeastSquares(X, Y), rng=0, **given).scores


def ridge_path(problem: Any, test: Any) -> Any:
    return ls.ridge_path(problem, [1.0], test=test).totals


def compared(held_out: Any) -> Any:
    return ls.compare(ls.CCA(x, y, 1), ["direct"], held_out=held_out, rng=0).entries[0].score


CALLS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    # problems
    "SVD, weights": (W, lambda w: ls.SVD(X, 2, sample_weight=w)),
    "CCA, Y": (Y, lambda y: ls.CCA(X, y, 2)),
    "CCA, confounds": (Z, lambda z: ls.CCA(X, Y, 2, confounds=z)),
    "least squares, B": (Y, lambda b: ls.LeastSquares(X, b)),
    "discriminant, classes": (CLASSES, lambda c: ls.Discriminant(X, ls.targets.lda(c))),
    "discriminant, weights": (W, lambda w: ls.Discriminant(x, ls.targets.lda(CLASSES), sample_weight=w)),
    "kernel CCA": (Y, lambda y: ls.KernelCCA(X, y, k=1, ridge=1.0)),
    "multiset CCA": (Y, lambda y: ls.get_problem("multiset-cca")([x, X, y], k=1)),
    "deep CCA": (Y, lambda y: ls.DeepCCA(X, y, k=1)),
    "Moments": (Y, lambda y: ls.Moments(X, y)),
    "labelled": (CLASSES, lambda labels: ls.labelled(X, labels)),
    "lda, weights": (W, lambda w: ls.targets.lda(CLASSES, sample_weight=w)),
    # answers
    "SVD.inverse_transform": (Z, unscored),
    "SVD.loadings, weights": (W, lambda w: SVD.loadings(X, sample_weight=w)),
    "CCA.transform, Y": (Y, lambda y: CCA.transform(X, y)),
    "CCA.transform, confounds": (Z, lambda z: CCA_Z.transform(X, confounds=z)),
    "CCA.score": (Y, lambda y: CCA.score(X, y)),
    "CCA.loadings": (Y, lambda y: CCA.loadings(X, y)),
    "CCA.loadings, weights": (W, lambda w: CCA.loadings(X, sample_weight=w)),
    "CCA.redundancy": (Y, lambda y: CCA.redundancy(X, y)),
    "LeastSquares.score": (W, lambda w: LSQ_Z.score(X, y, confounds=z, sample_weight=w)),
    "Discriminant.score": (CLASSES, lambda c: LDA.score(X, ls.targets.lda(c))),
    "Discriminant.classifier": (CLASSES, lambda c: LDA.classifier(X, c)),
    "Discriminant.predict": (Z, lambda z: LDA_Z.predict(X, confounds=z)),
    "KernelCCA.transform": (Y, lambda y: KERNEL.transform(X, y)),
    "KernelCCA.score": (Y, lambda y: KERNEL.score(X, y)),
    "KernelCCA.loadings": (Y, lambda y: KERNEL.loadings(X, y)),
    "KernelCCA.loadings, weights": (W, lambda w: KERNEL.loadings(X, sample_weight=w)),
    # measures and choices
    "metrics.tcc": (Y, lambda y: ls.metrics.tcc(X, y, CCA.x_weights, CCA.y_weights)),
    "ridge_path of CCA": (Y, lambda t: ridge_path(ls.CCA(x, y, 2), (X, t))),
    "ridge_path of a discriminant": (MEMBERS, lambda t: ridge_path(ls.Discriminant(x, members), (X, t))),
    "cross_validate, labels of folds": (GROUPS, lambda g: scores(X, y, splitter=g)),
    "cross_validate, groups": (GROUPS, lambda g: scores(x, Y, splitter=3, groups=g)),
    "cross_validate, y": (CLASSES, lambda c: scores(X, Y, y=c)),
    "bootstrap, groups": (
        GROUPS,
        lambda g: ls.bootstrap(ls.CCA(X, Y, 1), groups=g, draws=3, rng=0).correlations,
    ),
    "compare, held-out rows": (Y, lambda t: compared((X, t))),
    # estimators
    "estimators.PCA, weights": (W, lambda w: estimator("PCA").fit(X, sample_weight=w).components_),
    "estimators.CCA, y": (Y, lambda y: estimator("CCA", X, y).correlations_),
    "estimators.CCA.score": (Y, lambda y: estimator("CCA", X, Y).score(X, y)),
    "estimators.Discriminant.score": (CLASSES, lambda c: estimator("Discriminant", X, CLASSES).score(X, c)),
    "estimators.Discriminant, y": (CLASSES, lambda c: estimator("Discriminant", X, c).eigenvalues_),
    "estimators.Ridge.score": (Y, lambda y: estimator("Ridge", X, Y).score(X, y)),
    "estimators.RidgeCV, groups": (GROUPS, lambda g: ridge_cv().fit(X, Y, groups=g).errors_),
}


def plain(found: Any) -> list[Any]:
    """The numbers in what a function returns, for a comparison."""
    if isinstance(found, tuple | list):
        return [number for part in found for number in plain(part)]
    if isinstance(found, pd.DataFrame):
        return found.to_numpy().ravel().tolist()
    return np.asarray(found).ravel().tolist() if isinstance(found, np.ndarray | float | int) else []


@pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")
@pytest.mark.parametrize("name", CALLS)
def test_the_same_labels_in_another_order_are_refused_and_others_taken(name: str) -> None:
    argument, call = CALLS[name]
    with pytest.raises(
        InvalidProblem, match="in the same order; got the same labels in another order: row 0 is"
    ):
        call(argument.iloc[::-1])
    unlabelled = plain(call(argument.to_numpy()))
    assert plain(call(argument)) == unlabelled
    assert plain(call(argument.iloc[::-1].loc[INDEX])) == unlabelled  # the remedy of the message
    with pytest.warns(AccuracyWarning, match=r"59 of 60 row labels in common.*intersection") as told:
        call(argument.set_axis(LATER))
    messages = [str(each.message) for each in told if "in common" in str(each.message)]
    assert len(messages) == len({*messages})


def test_labels_of_files_count_as_well() -> None:
    """Cells of an AnnData have names and no index."""
    first, other = ls.as_operator(x), ls.as_operator(y)
    first.row_names = other.row_names = list(INDEX)
    ls.CCA(first, other, 2)
    other.row_names = list(INDEX)[::-1]
    for call in (lambda: ls.CCA(first, other, 2), lambda: CCA.score(first, other)):
        with pytest.raises(InvalidProblem, match="got the same labels in another order"):
            call()
