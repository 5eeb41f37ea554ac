"""Frames of pandas and polars in and out of every transformer, alone and among the steps of scikit-learn."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse
import sklearn
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import StandardScaler

import linspec as ls
from linspec import estimators
from linspec.errors import InvalidOption, InvalidProblem

pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
pytestmark = pytest.mark.filterwarnings("ignore::linspec.errors.ConvergenceWarning")

N = 50
COLUMNS = [f"w{i}" for i in range(6)]
LABELS = [f"row {i}" for i in range(N)]
VIEWS = [["w0", "w1"], ["w2", "w3", "w4"], ["w5"]]
LISTS = {"MultisetCCA", "SumcorCCA"}
OF_PROBLEMS = [
    estimators.of(name)
    for name in ls.problems()
    if hasattr(ls.get_problem(name).solution, "transform") and name != "deep-cca"  # which needs torch
]
NAMED = [
    getattr(estimators, name)
    for name in [
        "PCA",
        "CCA",
        "KernelCCA",
        "Discriminant",
        "PLSRegression",
        "ReducedRankRegression",
        "MultisetCCA",
    ]
]


@pytest.fixture(scope="module")
def rows():
    """Six columns with a common part, two targets and three classes."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 1)) + rng.standard_normal((N, 6))
    return X, X[:, :2] + 0.3 * rng.standard_normal((N, 2)), rng.integers(0, 3, N).astype(float)


def frame_of(library, values, names):
    if library == "polars":
        return pl.DataFrame(values, schema=names, orient="row")
    return pd.DataFrame(values, columns=names, index=LABELS)


def has_names(frame):
    """Whether scikit-learn knows the names of columns; 1.6 to 1.8 know those of polars 1 alone."""
    return not isinstance(frame, np.ndarray) and hasattr(StandardScaler().fit(frame), "feature_names_in_")


def estimator_of(made):
    ridge = {"ridge": 1.0} if "ridge" in made().get_params() else {}
    return made(n_components=1, random_state=0, **ridge)


@pytest.mark.parametrize(
    "made", [*OF_PROBLEMS, *NAMED], ids=lambda made: f"{made.__module__}-{made.__name__}"
)
@pytest.mark.parametrize("goes_in", ["pandas", "polars"])
@pytest.mark.parametrize("comes_out", ["pandas", "polars"])
def test_scores_are_frames_with_names_and_labels(rows, made, goes_in, comes_out):
    X, Y, classes = rows
    frame, targets = frame_of(goes_in, X, COLUMNS), frame_of(goes_in, Y, ["u", "v"])
    estimator = estimator_of(made).set_output(transform=comes_out)
    two_views = "CCA" in made.__name__ and made.__name__ not in LISTS
    data = [frame, targets] if made.__name__ in LISTS else frame
    y = None if made.__name__ in LISTS else classes if made is estimators.Discriminant else targets
    scores = estimator.fit_transform(data, y)
    if two_views:
        pair = estimator.transform(frame, targets)
        assert [type(part) for part in pair] == [type(scores)] * 2
    again = pickle.loads(pickle.dumps(clone(estimator).fit(data, y))).set_output(transform="default")
    assert type(again) is made
    plain = again.transform(data)
    names = [f"{made.__name__.lower()}0"]
    assert estimator.get_feature_names_out().tolist() == names
    pairs = zip(scores, plain, strict=True) if made.__name__ in LISTS else [(scores, plain)]
    for part, values in pairs:
        assert type(part).__module__.startswith(comes_out)
        assert list(part.columns) == names
        np.testing.assert_allclose(part.to_numpy(), values, rtol=1e-7, atol=1e-9)
        if goes_in == comes_out == "pandas":
            assert part.index.tolist() == LABELS
    if has_names(frame) and made.__name__ not in LISTS:
        assert estimator.feature_names_in_.tolist() == COLUMNS
        with pytest.raises(ValueError, match="feature names should match"):
            estimator.transform(frame_of(goes_in, X, COLUMNS[::-1]))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_steps_beside_and_after_each_other(rows, library):
    X, _, _ = rows
    if not has_names(frame_of(library, X, COLUMNS)):
        pytest.skip("this scikit-learn does not join frames of this polars")
    y = 2 * X[:, 0] + 1.0
    frame = frame_of("pandas", X, COLUMNS).assign(sample="s")
    parts = [
        ("pls", estimators.PLSRegression(2), COLUMNS[:3]),
        ("views", estimators.MultisetCCA(columns=[["w3"], ["w4", "w5"]]), COLUMNS[3:]),
    ]
    wanted = ["pls__plsregression0", "pls__plsregression1", "views__multisetcca0", "views__multisetcca1"]
    with sklearn.config_context(transform_output=library):
        beside = ColumnTransformer(parts, remainder="passthrough").fit(frame, y)
        assert list(beside.transform(frame).columns) == [*wanted, "remainder__sample"]
        assert beside.get_feature_names_out().tolist() == [*wanted, "remainder__sample"]
        steps = [StandardScaler(), estimators.of("pls-regression")(n_components=6), LinearRegression()]
        after = make_pipeline(*steps).fit(frame[COLUMNS], y)
        np.testing.assert_allclose(after.predict(frame[COLUMNS]), y)
        union = make_union(estimators.PCA(1), estimators.ReducedRankRegression())
        joined = union.fit_transform(frame[COLUMNS], y)
    assert list(joined.columns) == ["pca__pca0", "reducedrankregression__reducedrankregression0"]
    short = ColumnTransformer(parts, verbose_feature_names_out=False).set_output(transform=library)
    assert list(short.fit_transform(frame, y).columns) == [name.split("__")[1] for name in wanted]


# ---- several views ------------------------------------------------------------------------------


@pytest.mark.parametrize("library", ["pandas", "polars", ""])
def test_views_are_a_list_or_columns_of_one_matrix(rows, library):
    X, _, _ = rows
    data = frame_of(library, X, COLUMNS) if library else X
    columns = VIEWS if has_names(data) else [[0, 1], slice(2, 5), np.arange(6) == 5]
    arrays = [X[:, :2], X[:, 2:5], X[:, 5:]]
    by_columns = estimators.MultisetCCA(2, columns=columns, ridge=0.5).fit(data)
    as_list = estimators.MultisetCCA(2, ridge=0.5).fit(arrays)
    solution = ls.solve(ls.MultisetCCA(arrays, k=2, ridge=0.5))
    for estimator in (by_columns, as_list):
        np.testing.assert_allclose(estimator.eigenvalues_, solution.eigenvalues, rtol=1e-12)
        assert estimator.n_features_in_ == 6
    np.testing.assert_allclose(by_columns.transform(data), np.hstack(as_list.transform(arrays)), atol=1e-10)
    assert by_columns.get_feature_names_out().tolist() == [f"multisetcca{i}" for i in range(6)]
    assert as_list.score(arrays) == pytest.approx(by_columns.score(data))


def test_columns_in_no_view_may_hold_anything_and_those_of_y_stay_in_order(rows):
    X, _, _ = rows
    frame = frame_of("pandas", X, COLUMNS)
    beside = frame.assign(site="north", weight=np.nan)
    fitted = estimators.MultisetCCA(columns=VIEWS).fit(beside)
    plain = estimators.MultisetCCA(columns=VIEWS).fit(frame)
    np.testing.assert_allclose(fitted.transform(beside), plain.transform(frame))
    left, right = frame[COLUMNS[:3]], frame[COLUMNS[3:]]
    for estimator in (estimators.CCA(), estimators.PLSRegression(), estimators.of("cca")()):
        estimator.fit(left, right)
        with pytest.raises(InvalidProblem, match="'w5' in place of 'w3'"):
            estimator.transform(left, right[right.columns[::-1]])
    for estimator in (estimators.Ridge(), estimators.PLSRegression(), estimators.KernelRidge()):
        estimator.fit(left, right)
        with pytest.raises(InvalidProblem, match="'w5' in place of 'w3'"):
            estimator.score(left, right[right.columns[::-1]])
    with pytest.raises(InvalidProblem, match="'w5' in place of 'w3'"):
        estimators.Ridge().partial_fit(left, right).partial_fit(left, right[right.columns[::-1]])


def test_cross_validation_cuts_the_rows_of_views(rows):
    X, _, _ = rows
    frame, folds = frame_of("pandas", X, COLUMNS), KFold(5)
    by_hand = []
    for train, test in folds.split(X):
        views = [[frame[names].iloc[numbers] for names in VIEWS] for numbers in (train, test)]
        scores = ls.solve(ls.MultisetCCA(views[0], k=1)).transform(views[1])
        units = [part / np.linalg.norm(part) for part in scores]  # about the means of the training rows
        by_hand.append(sum((units[i].T @ units[j]).item() for i, j in [(0, 1), (0, 2), (1, 2)]))
    estimator = estimators.MultisetCCA(columns=VIEWS)
    np.testing.assert_allclose(cross_val_score(estimator, frame, cv=folds), by_hand, rtol=1e-9)
    assert GridSearchCV(estimator, {"ridge": [0.0, 1e3]}, cv=folds).fit(frame).best_params_["ridge"] in (
        0,
        1e3,
    )
    with pytest.raises(ValueError, match="have to be passed as arrays"):  # a list would be cut into views
        cross_val_score(estimators.MultisetCCA(), [X[:, [i]] for i in range(4)], cv=2)


def test_what_is_no_list_of_views_is_refused(rows):
    X, _, _ = rows
    frame = frame_of("pandas", X, COLUMNS)
    fitted = estimators.MultisetCCA().fit([frame[names] for names in VIEWS])
    refused = [
        (InvalidProblem, "must be a list of views.*got ndarray", lambda: clone(fitted).fit(X)),
        (InvalidProblem, "the 3 views of the fit; got 2", lambda: fitted.transform([X[:, :2], X[:, 2:5]])),
        (InvalidOption, "columns must have a slice", lambda: fitted.set_params(columns=[0, 1]).fit(X)),
        (
            InvalidProblem,
            "got DenseOperator as X",
            lambda: fitted.set_params(columns=[[0], [1]]).fit(ls.as_operator(X)),
        ),
    ]
    with pytest.raises(InvalidProblem, match="'w1' in place of 'w0'"):
        fitted.transform([frame[["w1", "w0"]], *(frame[names] for names in VIEWS[1:])])
    for error, match, call in refused:
        with pytest.raises(error, match=match):
            call()


def test_duplicates_of_sparse_views_do_not_wrap():
    counts = np.random.default_rng(0).integers(0, 4, (N, 4))  # times 100: two are beyond int8

    def summed(columns):
        often = counts[:, columns]
        places = (np.repeat(numbers.ravel(), often.ravel()) for numbers in np.indices(often.shape))
        entries = np.full(often.sum(), 100, np.int8)
        return scipy.sparse.coo_array((entries, tuple(places)), shape=often.shape)

    wanted = np.hstack(estimators.MultisetCCA().fit_transform([100.0 * counts[:, :2], 100.0 * counts[:, 2:]]))
    as_list = estimators.MultisetCCA().fit_transform([summed([0, 1]), summed([2, 3])])
    by_columns = estimators.MultisetCCA(columns=[[0, 1], [2, 3]]).fit_transform(summed([0, 1, 2, 3]))
    for scores in (np.hstack(as_list), by_columns):
        np.testing.assert_allclose(scores, wanted, atol=1e-6)
