"""Data frames of pandas, polars and pyarrow: numbers, names, labels, and what is refused by name."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import linspec as ls
from linspec.errors import (
    AccuracyWarning,
    InvalidOption,
    InvalidProblem,
    MissingPackage,
    NonFiniteData,
    UnsupportedData,
)
from linspec.operators import SparseOperator, as_operator

pytest.importorskip("narwhals", reason="frames are read by narwhals, the extra 'frames'")

LIBRARIES = ("pandas", "polars", "pyarrow")
HEIGHT = [1.5, 2.0, -1.0, 0.5, 3.0, 2.5]
AGE = [3, 1, 4, 1, 5, 9]
SMOKES = [True, False, True, True, False, False]
NUMBERS = np.column_stack([HEIGHT, AGE, SMOKES]).astype(float)
SPECIES = ["elm", "ash", "oak", "elm", "ash", "oak"]
NAMES = ("height", "age", "smokes")


def frame(library: str, **columns: Any) -> Any:
    """A frame; without columns that of the people above."""
    columns = columns or {"height": HEIGHT, "age": AGE, "smokes": SMOKES}
    if library == "pandas":
        return pytest.importorskip("pandas", reason="no pandas").DataFrame(columns)
    if library == "polars":
        return pytest.importorskip("polars", reason="no polars").DataFrame(columns)
    return pytest.importorskip("pyarrow", reason="no pyarrow").table(columns)


def series(library: str, values: list[Any], name: str = "y") -> Any:
    if library == "pandas":
        return pytest.importorskip("pandas", reason="no pandas").Series(values, name=name)
    if library == "polars":
        return pytest.importorskip("polars", reason="no polars").Series(name, values)
    return pytest.importorskip("pyarrow", reason="no pyarrow").array(values)


def selected(data: Any, names: list[str]) -> Any:
    return data.select(names) if hasattr(data, "select") else data[names]


def rows_of(table: Any) -> list[dict[str, Any]]:
    """Any table as a list of rows, the index of pandas as a column."""
    if isinstance(table, list):
        return table
    if hasattr(table, "to_pylist"):
        return table.to_pylist()
    if hasattr(table, "to_dicts"):
        return table.to_dicts()
    return table.reset_index().to_dict("records")


# ---- numbers and names ------------------------------------------------------------------------


@pytest.mark.parametrize("library", LIBRARIES)
def test_numbers_and_names_of_a_frame(library: str) -> None:
    A = as_operator(frame(library), "A")
    np.testing.assert_array_equal(A.dense(), NUMBERS)
    assert A.column_names == NAMES
    assert A.dtype == np.float64
    assert A.row_names is None


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_common_dtype_decides_the_precision(library: str) -> None:
    narrow = frame(library, a=np.array([1, 2], np.int8), b=np.array([True, False]))
    assert as_operator(narrow).dtype == np.float32
    mixed = frame(library, a=np.array([1, 2], np.int8), b=np.array([0.5, 1], np.float32))
    assert as_operator(mixed).dtype == np.float32
    assert as_operator(mixed, dtype="float64").dtype == np.float64
    assert as_operator(mixed, dtype="float64").column_names == ("a", "b")
    wide = frame(library, a=np.array([1, 2], np.float32), b=np.array([1, 2**40]))
    np.testing.assert_array_equal(as_operator(wide).dense(), [[1, 1], [2, 2.0**40]])


def test_names_of_pandas_that_are_no_texts() -> None:
    pd = pytest.importorskip("pandas", reason="no pandas")
    assert as_operator(pd.DataFrame(np.eye(3))).column_names is None
    assert as_operator(pd.DataFrame(np.eye(2), columns=[2020, 2021])).column_names == ("2020", "2021")
    levels = pd.MultiIndex.from_tuples([("left", "a"), ("right", "a")])
    assert as_operator(pd.DataFrame(np.eye(2), columns=levels)).column_names == ("left, a", "right, a")
    with pytest.raises(InvalidProblem, match="the columns of Z must have different names; got 'a' twice"):
        as_operator(pd.DataFrame(np.eye(2), columns=["a", "a"]), "Z")


def test_columns_of_extension_dtypes() -> None:
    pd = pytest.importorskip("pandas", reason="no pandas")
    whole = pd.DataFrame(
        {"a": pd.array([1, 2], dtype="Int64"), "b": pd.array([True, False], dtype="boolean")}
    )
    np.testing.assert_array_equal(as_operator(whole).dense(), [[1, 1], [2, 0]])
    whole.loc[1, "b"] = pd.NA
    np.testing.assert_array_equal(as_operator(whole).dense(), [[1, 1], [2, np.nan]])


def test_sparse_columns_of_pandas_stay_sparse() -> None:
    pd = pytest.importorskip("pandas", reason="no pandas")
    matrix = scipy.sparse.random_array((30, 5), density=0.3, rng=np.random.default_rng(0), format="csc")
    data = pd.DataFrame.sparse.from_spmatrix(matrix, columns=list("abcde"))
    A = as_operator(data)
    assert isinstance(A, SparseOperator)
    assert A.nnz == matrix.nnz
    assert A.column_names == tuple("abcde")
    np.testing.assert_array_equal(A.dense(), matrix.toarray())
    data["dense"] = np.arange(30.0)
    data["ones"] = pd.arrays.SparseArray(np.where(np.arange(30) == 3, 5.0, 1.0), fill_value=1.0)
    mixed = as_operator(data)
    assert isinstance(mixed, SparseOperator)
    wanted = np.column_stack([matrix.toarray(), np.arange(30.0), np.where(np.arange(30) == 3, 5.0, 1.0)])
    np.testing.assert_array_equal(mixed.dense(), wanted)
    data.loc[7, "dense"] = np.nan
    with pytest.raises(NonFiniteData, match="A must be finite; got nan at row 7, column 5"):
        ls.solve(ls.SVD(data, k=1))


# ---- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("data", ["text", "dates", "categories"])
def test_columns_without_numbers_are_named(library: str, data: str) -> None:
    import datetime as dt

    given = frame(library, a=[1.0, 2.0], day=[dt.date(2020, 1, 1)] * 2, b=["x", "y"])
    wanted = {"text": "in column 'b'", "dates": "in column 'day'", "categories": "in column 'c'"}
    if data == "text":
        given = frame(library, a=[1.0, 2.0], b=["x", "y"])
    if data == "categories":
        given = {
            "pandas": lambda: frame("pandas", a=[1, 2], c=["x", "y"]).astype({"c": "category"}),
            "polars": lambda: frame("polars", c=["x", "y"]).cast(pytest.importorskip("polars").Categorical),
            "pyarrow": lambda: frame(
                "pyarrow", c=pytest.importorskip("pyarrow").array(["x", "y"]).dictionary_encode()
            ),
        }[library]()
    with pytest.raises(UnsupportedData, match=f"^X must hold numbers; got .*{wanted[data]}") as caught:
        as_operator(given, "X")
    assert "Leave" in str(caught.value)


@pytest.mark.parametrize("library", LIBRARIES)
def test_missing_values_are_refused_by_the_first_pass(library: str) -> None:
    given = frame(library, a=[1.0, 2.0, None, 4.0], b=[1, None, 3, 4])
    np.testing.assert_array_equal(
        as_operator(given).dense(),
        [[1, 1], [2, np.nan], [np.nan, 3], [4, 4]],
    )
    with pytest.raises(NonFiniteData, match=r"^A must be finite; got nan at row 1, column 1\. Drop"):
        ls.solve(ls.LeastSquares(given, np.ones(4)))
    with pytest.raises(NonFiniteData, match="got inf at row 1, column 0"):
        ls.solve(ls.SVD(frame(library, a=[1.0, np.inf]), k=1))
    with pytest.raises(NonFiniteData, match="row 2"):
        ls.solve(ls.SVD(series(library, [1.0, 2.0, None]), k=1))


def test_a_lazy_frame_is_refused_with_its_remedy() -> None:
    given = frame("polars").lazy()
    with pytest.raises(UnsupportedData, match=r"LazyFrame of polars\. Pass X\.collect\(\)"):
        as_operator(given, "X")


def test_without_narwhals_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    given, imported = frame("pandas"), builtins.__import__

    def absent(name: str, *rest: Any) -> Any:
        if name == "narwhals":
            raise ImportError(name)
        return imported(name, *rest)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(MissingPackage, match=r"pip install 'linspec\[frames\]'"):
        as_operator(given)


# ---- new data ---------------------------------------------------------------------------------


def solved(data: Any) -> list[tuple[Any, Callable[[Any], Any]]]:
    """A solution of each family on three columns, and what it does with new rows."""
    y = ls.targets.lda(SPECIES)
    svd = ls.solve(ls.SVD(data, k=2, center=True))
    cca = ls.solve(ls.CCA(data, NUMBERS[:, :1], k=1, ridge=1.0))
    least = ls.solve(ls.LeastSquares(data, np.ones(6), ridge=1.0))
    discriminant = ls.solve(ls.Discriminant(data, y, ridge=1.0))
    return [
        (svd, svd.transform),
        (cca, cca.transform),
        (cca, lambda X: cca.score(X, NUMBERS[:, :1]).correlations),
        (cca, cca.predict),
        (cca, cca.loadings),
        (least, least.predict),
        (discriminant, discriminant.transform),
        (discriminant, discriminant.probabilities),
        (discriminant, discriminant.classifier(data, SPECIES).probabilities),
    ]


@pytest.mark.parametrize("library", LIBRARIES)
def test_new_frames_must_have_the_names_in_their_order(library: str) -> None:
    data = frame(library)
    for solution, use in solved(data):
        assert next(iter(solution.column_names.values())) == NAMES
        np.testing.assert_allclose(use(data), use(NUMBERS))  # an array has no names to compare
        with pytest.raises(InvalidProblem, match="another order: 'age' in place of 'height'"):
            use(selected(data, ["age", "height", "smokes"]))
        with pytest.raises(InvalidProblem, match="None in place of 'smokes'"):
            use(selected(data, ["height", "age"]))
        other = frame(library, height=HEIGHT, years=AGE, smokes=SMOKES)
        with pytest.raises(InvalidProblem, match="'years' in place of 'age'"):
            use(other)


def test_names_survive_a_file(tmp_path: Any) -> None:
    data = frame("polars")
    solution = ls.solve(ls.CCA(selected(data, ["height", "age"]), selected(data, ["smokes"]), k=1))
    solution.save(tmp_path / "pairs.npz")
    loaded = ls.load_solution(tmp_path / "pairs.npz")
    assert loaded.column_names == {"X": ("height", "age"), "Y": ("smokes",)}
    assert loaded.weights_table("X").equals(solution.weights_table("X"))
    with pytest.raises(InvalidProblem, match="another order"):
        loaded.transform(selected(data, ["age", "height"]))


def test_confounds_have_names_too() -> None:
    data, extra = frame("pandas"), frame("pandas", day=AGE, hour=HEIGHT)
    found = ls.solve(
        ls.CCA(data[["height"]], data[["age"]], k=1, confounds=extra[["hour"]].round(), ridge=1.0)
    )
    assert found.column_names == {"X": ("height",), "Y": ("age",), "confounds": ("hour",)}
    least = ls.solve(ls.LeastSquares(data[["smokes"]], np.ones(6), confounds=extra))
    svd = ls.solve(ls.SVD(data, k=1, confounds=extra))
    for use in (
        lambda Z: least.predict(data[["smokes"]], confounds=Z),
        lambda Z: svd.transform(data, confounds=Z),
        lambda Z: found.loadings(data[["height"]], confounds=Z),
    ):
        with pytest.raises(InvalidProblem, match="confounds must have the columns of the training rows; got"):
            use(extra[["hour", "day"]])
    np.testing.assert_allclose(
        svd.transform(data, confounds=extra), svd.transform(data, confounds=extra.to_numpy())
    )


def test_kernels_compare_names() -> None:
    data = frame("pandas")
    KernelCCA = ls.get_problem("kernel-cca")
    found = ls.solve(KernelCCA(data, NUMBERS[:, :1], k=1, ridge=1.0))
    np.testing.assert_allclose(found.transform(data), found.transform(NUMBERS))
    with pytest.raises(InvalidProblem, match="another order"):
        found.transform(data[["age", "height", "smokes"]])


# ---- chunks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("library", LIBRARIES)
def test_frames_as_slices(library: str) -> None:
    data = frame(library)
    chunks = [data[:2], data[2:3], data[3:]]
    exact = ls.solve(ls.SVD(NUMBERS, k=2, center=True))
    for source in (iter(chunks), chunks, lambda: iter(chunks)):
        found = ls.solve(ls.SVD(source, k=2, center=True), "gram")
        np.testing.assert_allclose(found.S, exact.S)
        np.testing.assert_allclose(found.Vh, exact.Vh, atol=1e-12)
        assert found.column_names == {"A": NAMES}
        assert found.frame_library == library
    assert as_operator(chunks).shape == (6, 3)
    X, Y = ls.paired(lambda: ((chunk, selected(chunk, ["age"])) for chunk in chunks))
    pair = ls.solve(ls.CCA(X, Y, k=1), "gram")
    assert pair.column_names == {"X": NAMES, "Y": ("age",)}


def test_chunks_with_other_names_are_refused_by_their_number() -> None:
    data = frame("pandas")
    chunks = [data[:2], data[2:4], data[4:][["age", "height", "smokes"]]]
    with pytest.raises(
        InvalidProblem, match=r"slice 2 \(from row 4\) must have the columns of the first; .*order"
    ):
        ls.solve(ls.SVD(iter(chunks), k=1), "gram")
    chunks[2] = data[4:].assign(height=[1.0, np.nan])
    with pytest.raises(NonFiniteData, match=r"^A must be finite; got nan at row 5, column 0"):
        ls.solve(ls.SVD(iter(chunks), k=1), "gram")


def test_lists_of_rows() -> None:
    np.testing.assert_array_equal(as_operator(NUMBERS.tolist()).dense(), NUMBERS)
    found = ls.solve(ls.LeastSquares([[1, 0], [0, 2], [0, 0]], [3, 4, 5]))
    np.testing.assert_allclose(found.x, [3, 2])
    with pytest.raises(InvalidProblem, match="rows of equally many numbers"):
        as_operator([[1, 2], [3]])
    with pytest.raises(UnsupportedData, match=r"^Z must hold numbers; got a list"):
        as_operator([[1, 2], [3, "a"]], "Z")
    with pytest.raises(NonFiniteData, match="got nan at row 0, column 1"):
        ls.solve(ls.SVD([[1, None], [3, 4]], k=1))
    with pytest.raises(InvalidProblem, match="two dimensions"):
        as_operator([1, 2, 3])


# ---- labels, targets, weights -----------------------------------------------------------------


@pytest.mark.parametrize("library", LIBRARIES)
def test_labels_of_a_series(library: str) -> None:
    wanted = ls.targets.lda(SPECIES).toarray()
    found = ls.targets.lda(series(library, SPECIES))
    np.testing.assert_array_equal(found.toarray(), wanted)
    np.testing.assert_array_equal(ls.targets.lda(frame(library, species=SPECIES)).toarray(), wanted)
    gaps = ls.targets.lda(series(library, [*SPECIES[:5], None])).toarray()
    np.testing.assert_array_equal(gaps, ls.targets.lda([*SPECIES[:5], None]).toarray())
    coded = ls.targets.opls(frame(library, a=[1, 0, 1], b=[0, 1, 1]))
    np.testing.assert_allclose(coded, ls.targets.opls(np.array([[1, 0], [0, 1], [1, 1]])))
    solution = ls.solve(ls.Discriminant(frame(library), found, ridge=1.0))
    assert solution.classes.tolist() == ["ash", "elm", "oak"]
    assert set(solution.predict(frame(library))) <= set(SPECIES)


# ---- tables -----------------------------------------------------------------------------------


@pytest.mark.parametrize("library", LIBRARIES)
def test_weights_in_a_table_of_the_library(library: str) -> None:
    data = frame(library)
    solution = ls.solve(ls.SVD(data, k=2, center=True))
    table = solution.weights_table()
    assert type(table) is type(data)
    rows = rows_of(table)
    assert [row["column"] for row in rows] == list(NAMES)
    np.testing.assert_allclose([[row["component1"], row["component2"]] for row in rows], solution.Vh.T)
    assert rows_of(solution.weights_table(library="")) == rows
    scores = solution.scores_table(data)
    assert type(scores) is type(data)
    np.testing.assert_allclose(
        [row["component2"] for row in rows_of(scores)], solution.transform(NUMBERS)[:, 1]
    )


def test_tables_of_pairs_directions_and_coefficients() -> None:
    pd = pytest.importorskip("pandas", reason="no pandas")
    data = frame("pandas").set_index(pd.Index(list("uvwxyz"), name="person"))
    cca = ls.solve(ls.CCA(data[["height"]], data[["age", "smokes"]], k=1))
    x, y = cca.loadings_table(data[["height"]], data[["age", "smokes"]])
    assert (list(x.index), list(y.index), list(y.columns)) == (["height"], ["age", "smokes"], ["pair1"])
    P = cca.transform(Y=data[["age", "smokes"]])[:, 0]
    np.testing.assert_allclose(y.loc["smokes", "pair1"], np.corrcoef(P, SMOKES)[0, 1])
    assert list(cca.weights_table("Y").index) == ["age", "smokes"]
    with pytest.raises(InvalidOption, match="matrix must be one of 'X', 'Y'"):
        cca.weights_table()
    with pytest.raises(InvalidOption, match="library must be"):
        cca.weights_table("X", library="excel")
    scores = cca.scores_table(X=data[["height"]])
    assert scores.index.equals(data.index)
    discriminant = ls.solve(ls.Discriminant(data, ls.targets.lda(SPECIES), ridge=1.0))
    assert list(discriminant.weights_table().columns) == ["direction1", "direction2"]
    assert list(discriminant.scores_table(data).index) == list("uvwxyz")
    least = ls.solve(ls.LeastSquares(data[["height", "age"]], data["smokes"]))
    assert least.weights_table().loc["age", "smokes"] == least.x[1]
    path = ls.solve(ls.LeastSquares(data[["height", "age"]], data["smokes"], ridge=[1.0, 2.0]))
    assert path.weights_table().loc["age", "smokes, ridge 2"] == path.x[1, 1]


# ---- rows in another order ---------------------------------------------------------------------------


def _people(pd: Any) -> tuple[Any, Any]:
    rng = np.random.default_rng(5)
    names = [f"person {i}" for i in range(40)]
    X = pd.DataFrame(rng.standard_normal((40, 3)), index=names, columns=["a", "b", "c"])
    Y = pd.DataFrame(X.to_numpy() @ rng.standard_normal((3, 2)), index=names, columns=["u", "v"])
    return X, Y + 0.1 * rng.standard_normal((40, 2))


MAKERS: dict[str, Callable[[Any, Any], Any]] = {
    "cca": lambda X, Y: ls.CCA(X, Y, k=1),
    "least-squares": ls.LeastSquares,
    "series": lambda X, Y: ls.LeastSquares(X, Y["u"]),
    "classes": lambda X, Y: ls.Discriminant(X, ls.targets.lda(Y["u"] > 0)),
    "class targets": lambda X, Y: ls.Discriminant(X, ls.targets.cca(Y["u"] > 0)),
    "weights": lambda X, Y: ls.SVD(X, k=1, sample_weight=Y["u"] ** 2),
    "confounds": lambda X, Y: ls.SVD(X, k=1, confounds=Y, center=True),
    "labelled": lambda X, Y: ls.CCA(X, ls.labelled(Y.to_numpy(), list(Y.index)), k=1),
    "kernel": lambda X, Y: ls.get_problem("kernel-cca")(X, Y, k=1, ridge=1.0),
}


def test_an_index_that_only_counts_has_an_order_too() -> None:
    pd = pytest.importorskip("pandas", reason="no pandas")
    X, Y = (frame.reset_index(drop=True) for frame in _people(pd))
    with pytest.raises(InvalidProblem, match="row 0 is 39 in Y and 0 in X"):
        ls.CCA(X, Y[::-1], k=1)
    with pytest.raises(InvalidProblem, match="in another order"):
        ls.CCA(X.sample(frac=1.0, random_state=0), Y, k=1)


def test_rows_without_common_labels_and_counted_rows_are_paired_by_position() -> None:
    pd = pytest.importorskip("pandas", reason="no pandas")
    X, Y = _people(pd)
    wanted = ls.solve(ls.CCA(X.to_numpy(), Y.to_numpy(), k=1)).correlations
    ls.CCA(X, Y.to_numpy()[::-1], k=1)  # arrays have no labels
    others = ([f"guest {i}" for i in range(40)], pd.RangeIndex(40), pd.RangeIndex(100, 140))
    for first, second in [(X.index, labels) for labels in others] + [(others[1], range(1, 41))]:
        second = pd.Index(list(second)) if isinstance(second, range) else second  # numbers of people from 1
        found = ls.solve(ls.CCA(X.set_axis(first), Y.set_axis(second), k=1))
        assert np.allclose(found.correlations, wanted)
    twice = ["a"] * 20 + ["b"] * 20
    ls.CCA(X.set_axis(twice), Y.set_axis(twice), k=1)
    with pytest.raises(InvalidProblem, match="in another order"):
        ls.CCA(X.set_axis(twice), Y.set_axis(twice[::-1]), k=1)


PARTLY: dict[str, Callable[[Any, Any], Any]] = {
    **MAKERS,
    "weights of both": lambda X, Y: ls.CCA(X, Y, k=1, sample_weight=Y["u"] ** 2, confounds=Y[["v"]]),
    "views": lambda X, Y: ls.get_problem("multiset-cca")([X.to_numpy(), X, Y], k=1),
    "groups": lambda X, Y: ls.cross_validate(
        ls.LeastSquares(X, X["a"]), groups=Y["u"].rank() // 5, ridges=[1.0]
    ),
    "folds": lambda X, Y: ls.cross_validate(ls.CCA(X, Y, k=1), ridges=[1.0, 2.0]),
    "score": lambda X, Y: ls.solve(ls.CCA(X.to_numpy(), Y.to_numpy(), k=1)).score(X, Y),
    "bootstrap": lambda X, Y: ls.bootstrap(ls.CCA(X, Y, k=1), draws=2, rng=0),
    "pairs": lambda X, Y: ls.CCA(*ls.paired(lambda: ((X[i : i + 20], Y[i : i + 20]) for i in (0, 20))), k=1),
}


def _solved(made: Any) -> Any:
    return ls.solve(made) if isinstance(made, ls.Problem) else made


@pytest.mark.parametrize("labels", ["days", "rows", "39 of 40"])
@pytest.mark.parametrize("made", PARTLY)
def test_labels_that_agree_in_part_are_warned_of_once(made: str, labels: str) -> None:
    pd = pytest.importorskip("pandas", reason="no pandas")
    X, Y = _people(pd)
    days = pd.date_range("2026-01-01", periods=41)
    first, second = {
        "days": (days[:-1], days[1:]),
        "rows": (pd.RangeIndex(40), pd.RangeIndex(1, 41)),
        "39 of 40": (X.index, [*X.index[:0:-1], "nobody"]),
    }[labels]
    if (made, labels) in {("labelled", "days"), ("labelled", "rows"), ("pairs", "39 of 40")}:
        pytest.skip("lists are other labels than days and counts, and slices in reverse share none")
    with pytest.warns(
        AccuracyWarning, match=r"(39|19) of (40|20) row labels in common.*intersection"
    ) as told:
        _solved(PARTLY[made](X.set_axis(first), Y.set_axis(second)))
    assert len([each for each in told if "in common" in str(each.message)]) == 1


# ---- numbers that NumPy has not ----------------------------------------------------------------------


def test_wide_integers_and_decimals_are_numbers() -> None:
    pl = pytest.importorskip("polars", reason="no polars")
    wide = pl.DataFrame({"a": pl.Series([1, 2**60, 2**70], dtype=pl.Int128), "b": [0.5, 1.5, 2.5]})
    entries = ls.as_operator(wide).dense()
    assert entries.dtype == np.float64
    assert entries.tolist() == [[1.0, 0.5], [2.0**60, 1.5], [2.0**70, 2.5]]
    prices = pl.DataFrame({"a": pl.Series([Decimal("0.125"), Decimal("-2.5")], dtype=pl.Decimal(10, 3))})
    assert ls.as_operator(prices).dense().tolist() == [[0.125], [-2.5]]
    classes = pl.Series([7, 7, 2**40], dtype=pl.Int128)
    assert ls.targets.lda(classes).toarray().astype(bool).tolist() == [
        [True, False],
        [True, False],
        [False, True],
    ]
