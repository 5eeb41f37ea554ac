"""Data frames of pandas, polars and pyarrow: numbers, names, labels, and what is refused by name."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec.errors import (
    InvalidOption,
    InvalidProblem,
    MissingPackage,
    NonFiniteData,
    UnsupportedData,
)
from linspec.operators import SparseOperator, as_operator

pytest.importorskip("narwhals", reason="frames are read by narwhals, the extra 'frames'")

HEIGHT = [1.5, 2.0, -1.0, 0.5, 3.0, 2.5]
AGE = [3, 1, 4, 1, 5, 9]
SMOKES = [True, False, True, True, False, False]
PEOPLE = {"height": HEIGHT, "age": AGE, "smokes": SMOKES}
NUMBERS = np.column_stack([HEIGHT, AGE, SMOKES]).astype(float)
SPECIES = ["elm", "ash", "oak", "elm", "ash", "oak"]

of_each_library = pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])


def frame(library: str, **columns: Any) -> Any:
    """A frame; without columns that of the people above."""
    found = pytest.importorskip(library, reason=f"no {library}")
    return (found.table if library == "pyarrow" else found.DataFrame)(columns or PEOPLE)


def series(library: str, values: list[Any]) -> Any:
    found = pytest.importorskip(library, reason=f"no {library}")
    return (found.array if library == "pyarrow" else found.Series)(values)


@pytest.fixture
def pd() -> Any:
    return pytest.importorskip("pandas", reason="no pandas")


def selected(data: Any, *names: str) -> Any:
    return data.select(list(names)) if hasattr(data, "select") else data[list(names)]


# ---- numbers and names ------------------------------------------------------------------------


@of_each_library
def test_numbers_names_and_the_common_dtype(library):
    A = as_operator(frame(library), "A")
    np.testing.assert_array_equal(A.dense(), NUMBERS)
    assert (A.column_names, A.dtype, A.row_names) == (tuple(PEOPLE), np.float64, None)
    small = np.array([1, 2], np.int8)
    assert as_operator(frame(library, a=small, b=np.array([True, False]))).dtype == np.float32
    mixed = frame(library, a=small, b=np.array([0.5, 1], np.float32))
    assert as_operator(mixed).dtype == np.float32
    wide = as_operator(mixed, dtype="float64")
    assert (wide.dtype, wide.column_names) == (np.float64, ("a", "b"))
    wide = frame(library, a=np.array([1, 2], np.float32), b=np.array([1, 2**40]))
    np.testing.assert_array_equal(as_operator(wide).dense(), [[1, 1], [2, 2.0**40]])


def test_names_and_numbers_of_pandas_alone(pd):
    assert as_operator(pd.DataFrame(np.eye(3))).column_names is None
    assert as_operator(pd.DataFrame(np.eye(2), columns=[2020, 2021])).column_names == ("2020", "2021")
    levels = pd.MultiIndex.from_tuples([("left", "a"), ("right", "a")])
    assert as_operator(pd.DataFrame(np.eye(2), columns=levels)).column_names == ("left, a", "right, a")
    with pytest.raises(InvalidProblem, match="the columns of Z must have different names; got 'a' twice"):
        as_operator(pd.DataFrame(np.eye(2), columns=["a", "a"]), "Z")
    columns = {"a": pd.array([1, 2], dtype="Int64"), "b": pd.array([True, pd.NA], dtype="boolean")}
    np.testing.assert_array_equal(as_operator(pd.DataFrame(columns)).dense(), [[1, 1], [2, np.nan]])


def test_wide_integers_and_decimals_are_numbers():
    pl = pytest.importorskip("polars", reason="no polars")
    wide = pl.DataFrame({"a": pl.Series([1, 2**70], dtype=pl.Int128), "b": [0.5, 1.5]})
    assert as_operator(wide).dense().tolist() == [[1.0, 0.5], [2.0**70, 1.5]]
    prices = pl.DataFrame({"a": pl.Series([Decimal("0.125"), Decimal("-2.5")], dtype=pl.Decimal(10, 3))})
    assert as_operator(prices).dense().tolist() == [[0.125], [-2.5]]


def test_sparse_columns_of_pandas_stay_sparse(pd):
    matrix = scipy.sparse.random_array((30, 5), density=0.3, rng=np.random.default_rng(0), format="csc")
    data = pd.DataFrame.sparse.from_spmatrix(matrix, columns=list("abcde"))
    A = as_operator(data)
    assert isinstance(A, SparseOperator)
    assert (A.nnz, A.column_names) == (matrix.nnz, tuple("abcde"))
    np.testing.assert_array_equal(A.dense(), matrix.toarray())
    ones = np.where(np.arange(30) == 3, 5.0, 1.0)
    data["dense"] = np.arange(30.0)
    data["ones"] = pd.arrays.SparseArray(ones, fill_value=1.0)
    mixed = as_operator(data)
    assert isinstance(mixed, SparseOperator)
    np.testing.assert_array_equal(mixed.dense(), np.column_stack([matrix.toarray(), np.arange(30.0), ones]))
    data.loc[7, "dense"] = np.nan
    with pytest.raises(NonFiniteData, match="A must be finite; got nan at row 7, column 5"):
        ls.solve(ls.SVD(data, k=1))


# ---- what is refused --------------------------------------------------------------------------


@of_each_library
def test_columns_without_numbers_are_named(library):
    texts = frame(library, c=["x", "y"])
    coded = {
        "pandas": lambda: texts.astype("category"),
        "polars": lambda: texts.cast(pytest.importorskip("polars").Categorical),
        "pyarrow": lambda: frame("pyarrow", c=texts["c"].dictionary_encode()),
    }[library]()
    dates = frame(library, a=[1.0, 2.0], c=[dt.date(2020, 1, 1)] * 2, b=["x", "y"])
    for given in (frame(library, a=[1.0, 2.0], c=["x", "y"]), dates, coded):
        with pytest.raises(UnsupportedData, match=r"^X must hold numbers; got .*in column 'c'.*Leave"):
            as_operator(given, "X")


@of_each_library
def test_missing_values_are_refused_by_the_first_pass(library):
    given = frame(library, a=[1.0, 2.0, None, 4.0], b=[1, None, 3, 4])
    np.testing.assert_array_equal(as_operator(given).dense(), [[1, 1], [2, np.nan], [np.nan, 3], [4, 4]])
    with pytest.raises(NonFiniteData, match=r"^A must be finite; got nan at row 1, column 1\. Drop"):
        ls.solve(ls.LeastSquares(given, np.ones(4)))
    with pytest.raises(NonFiniteData, match="got inf at row 1, column 0"):
        ls.solve(ls.SVD(frame(library, a=[1.0, np.inf]), k=1))
    with pytest.raises(NonFiniteData, match="row 2"):
        ls.solve(ls.SVD(series(library, [1.0, 2.0, None]), k=1))


def test_what_cannot_be_read_says_what_to_do(monkeypatch):
    with pytest.raises(UnsupportedData, match=r"LazyFrame\. .*`data\.collect\(\)`"):
        as_operator(frame("polars").lazy(), "X")
    given = frame("pandas")
    monkeypatch.setitem(sys.modules, "narwhals", None)
    with pytest.raises(MissingPackage, match=r"pip install 'linspec\[frames\]'"):
        as_operator(given)


def test_lists_of_rows():
    np.testing.assert_array_equal(as_operator(NUMBERS.tolist()).dense(), NUMBERS)
    with pytest.raises(NonFiniteData, match="got nan at row 0, column 1"):
        ls.solve(ls.SVD([[1, None], [3, 4]], k=1))


# ---- new data ---------------------------------------------------------------------------------


def uses(data: Any) -> list[tuple[Any, Callable[[Any], Any]]]:
    """A solution of each family on three columns, and what it does with new rows."""
    svd = ls.solve(ls.SVD(data, k=2, center=True))
    cca = ls.solve(ls.CCA(data, NUMBERS[:, :1], k=1, ridge=1.0))
    least = ls.solve(ls.LeastSquares(data, np.ones(6), ridge=1.0))
    discriminant = ls.solve(ls.Discriminant(data, ls.targets.lda(SPECIES), ridge=1.0))
    kernel = ls.solve(ls.get_problem("kernel-cca")(data, NUMBERS[:, :1], k=1, ridge=1.0))
    return [
        (svd, svd.transform),
        (cca, cca.transform),
        (cca, lambda X: cca.score(X, NUMBERS[:, :1]).correlations),
        (cca, cca.predict),
        (cca, cca.loadings),
        (least, least.predict),
        (kernel, kernel.transform),
        (discriminant, discriminant.transform),
        (discriminant, discriminant.probabilities),
        (discriminant, discriminant.classifier(data, SPECIES).probabilities),
    ]


@of_each_library
def test_new_frames_must_have_the_names_in_their_order(library):
    data = frame(library)
    refused = {
        "another order: 'age' in place of 'height'": selected(data, "age", "height", "smokes"),
        "got 2 for 3, .*None in place of 'smokes'": selected(data, "height", "age"),
        "'years' in place of 'age'": frame(library, height=HEIGHT, years=AGE, smokes=SMOKES),
    }
    for solution, use in uses(data):
        assert next(iter(solution.column_names.values())) == tuple(PEOPLE)
        np.testing.assert_allclose(use(data), use(NUMBERS))  # an array has no names to compare
        for words, other in refused.items():
            with pytest.raises(InvalidProblem, match=words):
                use(other)


def test_names_of_pairs_and_confounds_survive_a_file(tmp_path):
    data, extra = frame("pandas"), frame("pandas", day=AGE, hour=HEIGHT)
    found = ls.solve(
        ls.CCA(data[["height"]], data[["age"]], k=1, confounds=extra[["hour"]].round(), ridge=1.0)
    )
    found.save(tmp_path / "pairs.npz")
    loaded = ls.load_solution(tmp_path / "pairs.npz")
    assert loaded.column_names == {"X": ("height",), "Y": ("age",), "confounds": ("hour",)}
    assert loaded.weights_table("X").equals(found.weights_table("X"))
    svd = ls.solve(ls.SVD(data, k=1, confounds=extra))
    np.testing.assert_allclose(
        svd.transform(data, confounds=extra), svd.transform(data, confounds=extra.to_numpy())
    )
    least = ls.solve(ls.LeastSquares(data[["smokes"]], np.ones(6), confounds=extra))
    for use, rows in (
        (svd.transform, data),
        (least.predict, data[["smokes"]]),
        (loaded.loadings, data[["height"]]),
    ):
        with pytest.raises(InvalidProblem, match="confounds must have the columns of the training rows; got"):
            use(rows, confounds=extra[["hour", "day"]])


# ---- chunks -----------------------------------------------------------------------------------


@of_each_library
def test_frames_as_slices(library):
    data = frame(library)
    chunks = [data[:2], data[2:3], data[3:]]
    exact = ls.solve(ls.SVD(NUMBERS, k=2, center=True))
    for source in (iter(chunks), chunks, lambda: iter(chunks)):
        found = ls.solve(ls.SVD(source, k=2, center=True), "gram")
        np.testing.assert_allclose(found.S, exact.S)
        np.testing.assert_allclose(found.Vh, exact.Vh, atol=1e-12)
        assert (found.column_names, found.frame_library) == ({"A": tuple(PEOPLE)}, library)
    X, Y = ls.paired(lambda: ((chunk, selected(chunk, "age")) for chunk in chunks))
    assert ls.solve(ls.CCA(X, Y, k=1), "gram").column_names == {"X": tuple(PEOPLE), "Y": ("age",)}


def test_chunks_with_other_names_are_refused_by_their_number():
    data = frame("pandas")
    chunks = [data[:2], data[2:4], data[4:][["age", "height", "smokes"]]]
    other = r"slice 2 \(from row 4\) must have the columns of the first; .*order"
    with pytest.raises(InvalidProblem, match=other):
        ls.solve(ls.SVD(iter(chunks), k=1), "gram")


# ---- labels and tables ------------------------------------------------------------------------


@of_each_library
def test_labels_of_a_series(library):
    wanted = ls.targets.lda(SPECIES).toarray()
    found = ls.targets.lda(series(library, SPECIES))
    np.testing.assert_array_equal(found.toarray(), wanted)
    np.testing.assert_array_equal(ls.targets.lda(frame(library, species=SPECIES)).toarray(), wanted)
    gaps = [*SPECIES[:5], None]
    np.testing.assert_array_equal(
        ls.targets.lda(series(library, gaps)).toarray(), ls.targets.lda(gaps).toarray()
    )
    coded = ls.targets.opls(frame(library, a=[1, 0, 1], b=[0, 1, 1]))
    np.testing.assert_allclose(coded, ls.targets.opls(np.array([[1, 0], [0, 1], [1, 1]])))
    solution = ls.solve(ls.Discriminant(frame(library), found, ridge=1.0))
    assert solution.classes.tolist() == ["ash", "elm", "oak"]
    assert set(solution.predict(frame(library))) <= set(SPECIES)


def test_tables_have_the_index_of_the_rows_and_the_names_of_the_columns(pd):
    data = frame("pandas").set_index(pd.Index(list("uvwxyz"), name="person"))
    X, Y = data[["height"]], data[["age", "smokes"]]
    cca = ls.solve(ls.CCA(X, Y, k=1))
    _, loadings = cca.loadings_table(X, Y)
    correlation = np.corrcoef(cca.transform(Y=Y)[:, 0], SMOKES)[0, 1]
    np.testing.assert_allclose(loadings.loc["smokes", "pair1"], correlation)
    assert cca.scores_table(X=X).index.equals(data.index)
    with pytest.raises(InvalidOption, match="library must be"):
        cca.weights_table("X", library="excel")
    discriminant = ls.solve(ls.Discriminant(data, ls.targets.lda(SPECIES), ridge=1.0))
    assert list(discriminant.weights_table().columns) == ["direction1", "direction2"]
    path = ls.solve(ls.LeastSquares(Y, data["height"], ridge=[1.0, 2.0]))
    assert path.weights_table().loc["age", "height, ridge 2"] == path.x[1, 0]


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
@pytest.mark.parametrize("kind", ["date", "timedelta"])
def test_times_are_labels_in_any_resolution(pd, unit, kind):
    first = "2020-01-01" if kind == "date" else "1D"
    times = getattr(pd, f"{kind}_range")(first, periods=6, freq="D").as_unit(unit)
    data, other = pd.DataFrame(NUMBERS, index=times), times.as_unit("ms")
    solution = ls.solve(ls.SVD(NUMBERS, k=1))
    for rows in (as_operator(data)[1:4], ls.labelled(NUMBERS, times)[1:4], as_operator(data)[[1, 2, 3]]):
        assert list(solution.scores_table(rows).index) == list(times[1:4])
        assert [row["row"] for row in solution.scores_table(rows, library="")] == list(times[1:4])
        ls.LeastSquares(rows, pd.Series(AGE, index=other)[1:4])
        with pytest.raises(InvalidProblem, match="the same labels in another order"):
            ls.LeastSquares(rows, pd.Series(AGE, index=other)[3:0:-1])
    with pytest.raises(InvalidProblem, match="the same labels in another order"):
        ls.LeastSquares(data, pd.Series(AGE, index=other)[::-1])


def test_labels_of_some_rows_stay_those_of_pandas(pd):
    numbers = pd.MultiIndex.from_product([["a", "b"], [1, 2, 3]])
    rows = as_operator(pd.DataFrame(NUMBERS, index=numbers))[4:]
    assert list(rows.row_names) == ["b, 2", "b, 3"]
    with pytest.raises(InvalidProblem, match="different names; got 'a' twice"):
        ls.drop_missing(pd.DataFrame(NUMBERS, columns=["a", "b", "a"]))
