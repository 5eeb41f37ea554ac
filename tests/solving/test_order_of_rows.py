"""Every function that takes several things with rows refuses the same labels in another order.

The truth is the order that was planted: the rows of one argument are turned around together with their labels. Aligned
frames and arrays give the answer of plain arrays.
"""

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


def frame(columns: str, numbers: Any) -> Any:
    return pd.DataFrame(numbers, columns=list(columns), index=INDEX)


X = frame("abc", RNG.standard_normal((N, 3)))
Z = frame("z", RNG.standard_normal((N, 1)))
Y = frame("uv", X.to_numpy()[:, :2] + 0.3 * RNG.standard_normal((N, 2)) + Z.to_numpy())
W = pd.Series(RNG.integers(1, 4, N).astype(float), index=INDEX)
CLASSES = pd.Series(np.where(X["a"] > 0, "up", "down"), index=INDEX)
MEMBERS = frame("st", np.eye(2)[(X["a"] > 0).astype(int)])
GROUPS = pd.Series(np.arange(N) % 6, index=INDEX)
NUMBERS = {name: table.to_numpy() for name, table in {"X": X, "Y": Y, "Z": Z, "W": W, "C": CLASSES}.items()}


def solved(problem: Any, solver: str = "auto") -> Any:
    return ls.solve(problem, solver, rng=0)


# Answers for arrays, so that no label comes from them.
SVD = solved(ls.SVD(NUMBERS["X"], 2, center=True))
SVD_Z = solved(ls.SVD(NUMBERS["X"], 2, center=True, confounds=NUMBERS["Z"]))
CCA = solved(ls.CCA(NUMBERS["X"], NUMBERS["Y"], 2))
CCA_Z = solved(ls.CCA(NUMBERS["X"], NUMBERS["Y"], 2, confounds=NUMBERS["Z"]))
LDA = solved(ls.Discriminant(NUMBERS["X"], ls.targets.lda(NUMBERS["C"])))
LDA_Z = solved(ls.Discriminant(NUMBERS["X"], ls.targets.lda(NUMBERS["C"]), confounds=NUMBERS["Z"]))
LSQ_Z = solved(ls.LeastSquares(NUMBERS["X"], NUMBERS["Y"], confounds=NUMBERS["Z"], center=True))
CLASSIFIER_Z = LDA_Z.classifier(NUMBERS["X"], NUMBERS["C"], confounds=NUMBERS["Z"])


def kernel() -> Any:
    return solved(ls.get_problem("kernel-cca")(NUMBERS["X"], NUMBERS["Y"], k=1, ridge=1.0))


def preimage() -> Any:
    return solved(ls.get_problem("preimage-cca")(NUMBERS["X"], NUMBERS["Y"], k=1))


def deep() -> Any:
    """An answer with nets of one layer, made without torch."""
    nets = pytest.importorskip("linspec_deep.nets")
    from dataclasses import MISSING, fields

    from linspec_deep.problem import DeepCCASolution

    def net(p: int) -> Any:
        return nets.Net(np.zeros(p), 1.0, (np.eye(p, 2),), (np.zeros(2),))

    own: dict[str, Any] = {
        "x_net": net(3),
        "y_net": net(2),
        "x_weights": np.eye(2),
        "y_weights": np.eye(2),
        "correlations": np.array([0.9, 0.5]),
        "x_feature_mean": np.zeros(2),
        "y_feature_mean": np.zeros(2),
        "rows": N,
    }
    for each in fields(DeepCCASolution):
        if each.default is MISSING and each.default_factory is MISSING:
            own.setdefault(each.name, CCA.__dict__.get(each.name))
    return DeepCCASolution(**own)


def estimator(name: str, *fitted: Any, **options: Any) -> Any:
    estimators = pytest.importorskip("linspec.estimators", reason="no scikit-learn")
    made = getattr(estimators, name)(**options)
    return made.fit(*fitted) if fitted else made


Call = Callable[[Any], Any]
"""A public function of the argument that is varied; the other arguments are aligned frames."""

CALLS: dict[str, tuple[Any, Call]] = {
    # problems
    "SVD, weights": (W, lambda w: ls.SVD(X, 2, sample_weight=w)),
    "SVD, confounds": (Z, lambda z: ls.SVD(X, 2, confounds=z)),
    "CCA, Y": (Y, lambda y: ls.CCA(X, y, 2)),
    "CCA, weights": (W, lambda w: ls.CCA(X, NUMBERS["Y"], 2, sample_weight=w)),
    "CCA, confounds": (Z, lambda z: ls.CCA(X, Y, 2, confounds=z)),
    "least squares, B": (Y, lambda b: ls.LeastSquares(X, b)),
    "least squares, a series": (Y["u"], lambda b: ls.LeastSquares(X, b)),
    "discriminant, classes": (CLASSES, lambda y: ls.Discriminant(X, ls.targets.lda(y))),
    "discriminant, weights beside targets": (
        W,
        lambda w: ls.Discriminant(NUMBERS["X"], ls.targets.lda(CLASSES), sample_weight=w),
    ),
    "kernel CCA": (Y, lambda y: ls.get_problem("kernel-cca")(X, y, k=1, ridge=1.0)),
    "preimage CCA": (Y, lambda y: ls.get_problem("preimage-cca")(X, y, k=1)),
    "deep CCA": (Y, lambda y: ls.get_problem("deep-cca")(X, y, k=1)),
    "Moments": (Y, lambda y: ls.Moments(X, y)),
    "labelled": (CLASSES, lambda labels: ls.labelled(X, labels)),
    "labelled matrices": (
        INDEX.to_series(),
        lambda labels: ls.CCA(ls.labelled(NUMBERS["X"], INDEX), ls.labelled(NUMBERS["Y"], list(labels)), 2),
    ),
    # targets
    "lda, weights": (W, lambda w: ls.targets.lda(CLASSES, sample_weight=w)),
    # answers
    "SVD.transform": (Z, lambda z: SVD_Z.transform(X, confounds=z)),
    "SVD.inverse_transform": (
        Z,
        lambda z: SVD_Z.inverse_transform(SVD_Z.scores_table(X, confounds=Z), confounds=z),
    ),
    "SVD.loadings, weights": (W, lambda w: SVD.loadings(X, sample_weight=w)),
    "CCA.transform, Y": (Y, lambda y: CCA.transform(X, y)),
    "CCA.transform, confounds": (Z, lambda z: CCA_Z.transform(X, confounds=z)),
    "CCA.predict": (Z, lambda z: CCA_Z.predict(X, confounds=z)),
    "LeastSquares.score, sample_weight": (
        W,
        lambda w: LSQ_Z.score(X, NUMBERS["Y"], confounds=NUMBERS["Z"], sample_weight=w),
    ),
    "CCA.score": (Y, lambda y: CCA.score(X, y)),
    "CCA.loadings": (Y, lambda y: CCA.loadings(X, y)),
    "CCA.loadings, weights": (W, lambda w: CCA.loadings(X, sample_weight=w)),
    "CCA.cross_loadings": (Y, lambda y: CCA.cross_loadings(X, y)),
    "CCA.variance_extracted": (Y, lambda y: CCA.variance_extracted(X, y)),
    "CCA.redundancy": (Y, lambda y: CCA.redundancy(X, y)),
    "LeastSquares.predict": (Z, lambda z: LSQ_Z.predict(X, confounds=z)),
    "Discriminant.transform": (Z, lambda z: LDA_Z.transform(X, confounds=z)),
    "Discriminant.score": (CLASSES, lambda y: LDA.score(X, ls.targets.lda(y))),
    "Discriminant.classifier": (CLASSES, lambda y: LDA.classifier(X, y)),
    "Discriminant.classifier, weights": (W, lambda w: LDA.classifier(X, NUMBERS["C"], sample_weight=w)),
    "Discriminant.predict": (Z, lambda z: LDA_Z.predict(X, confounds=z)),
    "LinearClassifier.predict": (Z, lambda z: CLASSIFIER_Z.predict(X, confounds=z)),
    **{
        f"{make.__name__} CCA.{method}": (
            Y,
            lambda y, make=make, method=method: getattr(make(), method)(X, y),
        )
        for make in (kernel, preimage, deep)
        for method in ("transform", "score", "scores_table", "loadings", "loadings_table")
    },
    **{
        f"{make.__name__} CCA.loadings, weights": (
            W,
            lambda w, make=make: make().loadings(X, sample_weight=w),
        )
        for make in (kernel, preimage, deep)
    },
    # measures and choices
    "metrics.tcc": (Y, lambda y: ls.metrics.tcc(X, y, CCA.x_weights, CCA.y_weights)),
    "metrics.correlations": (Y, lambda y: ls.metrics.correlations(X, y, CCA.x_weights, CCA.y_weights)),
    "metrics.pcc": (Y, lambda y: ls.metrics.pcc(X, y, CCA.x_weights, CCA.y_weights, CCA)),
    "ridge_path, test rows": (
        Y,
        lambda y: ls.ridge_path(ls.CCA(NUMBERS["X"], NUMBERS["Y"], 2), [1.0], test=(X, y)).totals,
    ),
    "ridge_path, test targets": (
        MEMBERS,
        lambda y: ls.ridge_path(ls.Discriminant(NUMBERS["X"], MEMBERS.to_numpy()), [1.0], test=(X, y)).totals,
    ),
    "cross_validate, labels of folds": (
        GROUPS,
        lambda g: ls.cross_validate(ls.LeastSquares(X, NUMBERS["Y"]), splitter=g).scores,
    ),
    "cross_validate, groups": (
        GROUPS,
        lambda g: ls.cross_validate(ls.LeastSquares(NUMBERS["X"], Y), splitter=3, groups=g, rng=0).scores,
    ),
    "cross_validate, y": (CLASSES, lambda y: ls.cross_validate(ls.LeastSquares(X, Y), y=y, rng=0).scores),
    "bootstrap, groups": (
        GROUPS,
        lambda g: ls.bootstrap(ls.CCA(X, Y, 1), groups=g, draws=3, rng=0).correlations,
    ),
    "compare, held-out rows": (
        Y,
        lambda y: (
            ls.compare(ls.CCA(NUMBERS["X"], NUMBERS["Y"], 1), ["direct"], held_out=(X, y), rng=0)
            .entries[0]
            .score
        ),
    ),
    # estimators
    "estimators.PCA, weights": (W, lambda w: estimator("PCA").fit(X, sample_weight=w).components_),
    "estimators.CCA, y": (Y, lambda y: estimator("CCA", X, y).correlations_),
    "estimators.CCA.score": (Y, lambda y: estimator("CCA", X, Y).score(X, y)),
    "estimators.Discriminant, y": (CLASSES, lambda y: estimator("Discriminant", X, y).eigenvalues_),
    "estimators.Discriminant.score": (CLASSES, lambda y: estimator("Discriminant", X, CLASSES).score(X, y)),
    "estimators.Ridge, y": (Y, lambda y: estimator("Ridge", X, y).coef_),
    "estimators.Ridge.score": (Y, lambda y: estimator("Ridge", X, Y).score(X, y)),
    "estimators.RidgeCV, y": (Y, lambda y: estimator("RidgeCV", X, y).coef_),
    "estimators.RidgeCV, groups": (
        GROUPS,
        lambda g: estimator("RidgeCV", cv=group_folds()).fit(X, Y, groups=g).errors_,
    ),
}


def group_folds() -> Any:
    from sklearn.model_selection import GroupKFold

    return GroupKFold(3)


def plain(found: Any) -> list[Any]:
    """The numbers in what a function returns, for a comparison."""
    if isinstance(found, list) and found and isinstance(found[0], dict):  # a table of rows without labels
        return [value for row in found for name, value in row.items() if name not in ("row", "column")]
    if isinstance(found, tuple | list):
        return [number for part in found for number in plain(part)]
    if isinstance(found, pd.DataFrame):
        return found.to_numpy().ravel().tolist()
    return np.asarray(found).ravel().tolist() if isinstance(found, np.ndarray | float | int) else []


@pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.slow(keep=30)
def test_the_same_labels_in_another_order_are_refused_and_others_taken(name: str) -> None:
    argument, call = CALLS[name]
    aligned = call(argument)
    with pytest.raises(
        InvalidProblem, match="in the same order; got the same labels in another order: row 0 is"
    ):
        call(argument.iloc[::-1])
    with pytest.raises(InvalidProblem, match="in the same order; got the same labels in another order"):
        call(argument.sample(frac=1.0, random_state=0))
    unlabelled = plain(call(argument.to_numpy()))
    assert plain(aligned) == unlabelled
    assert plain(call(argument.iloc[::-1].loc[INDEX])) == unlabelled  # the remedy of the message


def test_labels_that_are_not_the_same_are_paired_by_position() -> None:
    later = Y.set_axis([f"person {i}" for i in range(1, N + 1)])  # a lag
    with pytest.warns(AccuracyWarning, match="59 of 60 row labels in common"):
        assert CCA.score(X, later).total == CCA.score(NUMBERS["X"], NUMBERS["Y"]).total
    with pytest.warns(AccuracyWarning, match="59 of 60 row labels in common"):
        assert LSQ_Z.predict(X, confounds=Z.set_axis(later.index)).shape == (N, 2)
    assert CCA.score(X.reset_index(drop=True), Y).total == CCA.score(NUMBERS["X"], NUMBERS["Y"]).total


def test_labels_of_files_count_as_well() -> None:
    """Cells of an AnnData have names and no index."""
    first, other = (ls.as_operator(NUMBERS[name]) for name in "XY")
    first.row_names = other.row_names = list(INDEX)
    ls.CCA(first, other, 2)
    other.row_names = list(INDEX)[::-1]
    with pytest.raises(InvalidProblem, match="got the same labels in another order"):
        ls.CCA(first, other, 2)
    with pytest.raises(InvalidProblem, match="got the same labels in another order"):
        CCA.score(first, other)
