"""Tables of bootstraps, tests, paths, cross-validation and predictions: the arrays, by name, in every library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linspec as ls

LIBRARIES = ["pandas", "polars", "pyarrow", ""]
SHARED = np.random.default_rng(0).standard_normal((80, 2)) * [2.0, 1.0]
NOISE = np.random.default_rng(1).standard_normal((80, 7))
X = SHARED @ np.array([[1.0, 0.5, 0.0, -1.0], [0.0, 1.0, 1.0, 0.3]]) + NOISE[:, :4]
Y = SHARED @ np.array([[1.0, 0.0, -0.5], [0.2, 1.0, 0.0]]) + NOISE[:, 4:]
X_NAMES, Y_NAMES = ["age", "dose", "price", "sun"], ["pulse", "pain", "sleep"]
NAMED_X, NAMED_Y = ls.labelled(X, columns=X_NAMES), ls.labelled(Y, columns=Y_NAMES)


def needs(library: str) -> None:
    if library:
        pytest.importorskip("narwhals", reason="frames are read by narwhals")
        pytest.importorskip(library)


def column(table: Any, name: str) -> list[Any]:
    """One column of a table of any library; the labels of a pandas frame count as a column."""
    if isinstance(table, list):
        return [row[name] for row in table]
    if hasattr(table, "index") and table.index.name == name:
        return list(table.index)
    found = table[name]
    return found.to_pylist() if hasattr(found, "to_pylist") else list(found)


def frame(values: Any, names: list[str], library: str, labels: list[str] | None = None) -> Any:
    """A frame of the library; the labels are the index of a pandas frame."""
    columns = {name: values[:, j] for j, name in enumerate(names)}
    if library == "pandas":
        pd = pytest.importorskip("pandas")
        return pd.DataFrame(columns, index=labels)
    if library == "polars":
        return pytest.importorskip("polars").DataFrame(columns)
    return pytest.importorskip("pyarrow").table(columns)


# ---- bootstrap --------------------------------------------------------------------------------------


BOOTSTRAP = ls.bootstrap(ls.CCA(NAMED_X, NAMED_Y, k=2), draws=30, rng=0)


@pytest.mark.parametrize("library", LIBRARIES)
def test_intervals_of_columns_stand_beside_the_numbers_of_all_rows(library: str) -> None:
    """The loadings are Pearson's coefficients, by NumPy."""
    needs(library)
    P, Q = BOOTSTRAP.solution.transform(X, Y)
    for view, data, scores, names in (("X", X, P, X_NAMES), ("Y", Y, Q, Y_NAMES)):
        table = BOOTSTRAP.loadings_table(view, library=library)
        weights = BOOTSTRAP.weights_table(view, library=library)
        wanted = np.corrcoef(data.T, scores.T)[: data.shape[1], data.shape[1] :]
        ends = {
            "": getattr(BOOTSTRAP, f"{view.lower()}_loadings"),
            "w": getattr(BOOTSTRAP, f"{view.lower()}_weights"),
        }
        assert column(table, "column") == column(weights, "column") == names
        for i in (0, 1):
            np.testing.assert_allclose(column(table, f"pair{i + 1}"), wanted[:, i], atol=1e-10)
            np.testing.assert_array_equal(
                column(weights, f"pair{i + 1}"), getattr(BOOTSTRAP.solution, f"{view.lower()}_weights")[:, i]
            )
            for which, end in enumerate(("lower", "upper")):
                np.testing.assert_array_equal(column(table, f"pair{i + 1} {end}"), ends[""][which, :, i])
                np.testing.assert_array_equal(column(weights, f"pair{i + 1} {end}"), ends["w"][which, :, i])


def test_columns_in_another_order_have_their_intervals_in_this_order() -> None:
    order = [2, 0, 3, 1]
    named = ls.labelled(X[:, order], columns=[X_NAMES[j] for j in order])
    other = ls.bootstrap(ls.CCA(named, NAMED_Y, k=2), draws=30, rng=0)
    rows = {row["column"]: row for row in BOOTSTRAP.loadings_table("X")}
    moved = {row["column"]: row for row in other.loadings_table("X")}
    assert list(moved) == [X_NAMES[j] for j in order]
    for name in X_NAMES:
        found = sorted(abs(value) for key, value in moved[name].items() if key != "column")
        wanted = sorted(abs(value) for key, value in rows[name].items() if key != "column")
        np.testing.assert_allclose(found, wanted, atol=1e-8)  # a pair may have the other sign


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_tables_are_in_the_library_of_the_data(library: str) -> None:
    needs(library)
    views = frame(X, X_NAMES, library), frame(Y, Y_NAMES, library)
    problem = ls.CCA(*views, k=2)
    test = ls.permutation_test(problem, permutations=9, rng=0)
    found = ls.bootstrap(problem, draws=5, rng=0)
    tables = [
        test.table(),
        ls.significance(problem).table(),
        found.table(),
        found.loadings_table("Y"),
        ls.ridge_path(problem, [0.0, 1.0]).table(),
        ls.cross_validate(problem, ridges=[1.0], rng=0).table(),
    ]
    assert {type(table) for table in tables} == {type(views[0])}
    assert column(tables[3], "column") == Y_NAMES


# ---- tests ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", LIBRARIES)
def test_tests_of_correlations_have_tables(library: str) -> None:
    needs(library)
    problem = ls.CCA(X, Y)
    test = ls.permutation_test(problem, permutations=19, rng=0)
    table = test.table(library=library)
    assert column(table, "component") == [1, 2, 3]
    np.testing.assert_array_equal(column(table, "canonical correlation"), test.correlations)
    np.testing.assert_array_equal(column(table, "p value"), test.p_values)
    np.testing.assert_array_equal(column(table, "uncorrected"), test.uncorrected)
    found = ls.significance(problem, permutation=test)
    table = found.table(library=library)
    for name, values in {
        "canonical correlation": found.correlations,
        "Wilks": found.wilks.values,
        "F": found.wilks.statistics,
        "df": found.wilks.df,
        "df error": found.wilks.df_error,
        "p Rao": found.wilks.p_values,
        "p Bartlett": found.bartlett.p_values,
        "p Pillai": found.pillai.p_values,
        "p Hotelling": found.hotelling_lawley.p_values,
        "p Roy TW": found.tracy_widom.p_values,
        "p permuted": test.p_values,
    }.items():
        np.testing.assert_array_equal(column(table, name), values)
    assert "p permuted" not in ls.significance(problem).table()[0]


def test_p_values_are_printed_in_digits_that_tell() -> None:
    """2,499 permutations have the least p-value 1/2500, and strong pairs underflow the distributions."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((2500, 3))
    Y = X + 1e-5 * rng.standard_normal((2500, 3))
    test = ls.permutation_test(ls.CCA(X, Y), permutations=2499, rng=0)
    assert repr(test).endswith("p 0.0004  0.0004  0.0004>")


# ---- paths and cross-validation ---------------------------------------------------------------------


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_path_has_a_row_for_each_ridge(library: str) -> None:
    needs(library)
    ridges = [100.0, 0.0, (1.0, 10.0)]
    path = ls.ridge_path(ls.CCA(X[:60], Y[:60], k=2), ridges, test=(X[60:], Y[60:]))
    table = path.table(library=library)
    assert column(table, "ridge X") == [100.0, 0.0, 1.0]
    assert column(table, "ridge Y") == [100.0, 0.0, 10.0]
    for i in (0, 1):
        wanted = [ls.solve(ls.CCA(X[:60], Y[:60], k=2, ridge=r), "gram").correlations[i] for r in ridges]
        np.testing.assert_allclose(column(table, f"canonical correlation {i + 1}"), wanted, atol=1e-9)
    np.testing.assert_array_equal(column(table, "score"), path.totals)
    assert column(table, "best") == [i == path.best for i in range(3)]
    assert column(table, "converged") == [True] * 3
    y = np.arange(80) % 3
    plain = ls.ridge_path(ls.Discriminant(X, ls.targets.lda(y)), [1.0, 2.0]).table()
    assert [row["ridge"] for row in plain] == [1.0, 2.0]
    assert "score" not in plain[0]


def test_values_that_a_ridge_lacks_are_not_a_number() -> None:
    twice = np.hstack([X[:, :2], X[:, :2]])  # rank 2, unless there is a ridge
    path = ls.ridge_path(ls.CCA(twice, Y, k=3), [0.0, 1.0])
    counts = [len(solution.correlations) for solution in path.solutions]
    table = path.table()
    for row, count in zip(table, counts, strict=True):
        found = [row[name] for name in row if name.startswith("canonical")]
        assert np.isfinite(found).sum() == count
        assert len(found) == max(counts)


@pytest.mark.parametrize("library", LIBRARIES)
def test_cross_validation_has_a_row_for_each_setting(library: str) -> None:
    needs(library)
    found = ls.cross_validate(ls.CCA(X, Y, k=2), ridges=[(1.0, 2.0), 10.0], ks=[1, 2], rng=0)
    table = found.table(library=library)
    assert column(table, "ridge X") == [1.0, 1.0, 10.0, 10.0]
    assert column(table, "ridge Y") == [2.0, 2.0, 10.0, 10.0]
    assert column(table, "k") == [1, 2, 1, 2]
    mean = [
        np.mean([row.score for row in found.rows if (row.ridge, row.k) == (ridge, k)])
        for ridge in found.ridges
        for k in (1, 2)
    ]
    np.testing.assert_allclose(column(table, "mean"), mean)
    np.testing.assert_array_equal(column(table, "standard error"), found.standard_error.ravel())
    best = column(table, "best")
    assert best.count(True) == 1
    assert best.index(True) == int(np.argmax(mean) if found.higher else np.argmin(mean))
    assert column(table, "rounding") == [False] * 4


# ---- coefficients and predictions -------------------------------------------------------------------


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_predictions_have_the_names_of_targets_and_the_labels_of_rows(library: str, tmp_path: Path) -> None:
    needs(library)
    people = [f"person {i}" for i in range(80)]
    A = frame(X, X_NAMES, library, people)
    A = A if library == "pandas" else ls.labelled(A, people)
    B = frame(Y, Y_NAMES, library, people)
    solution = ls.solve(ls.LeastSquares(A, B))
    solution.save(tmp_path / "answer.npz")
    wanted = X @ np.linalg.lstsq(X, Y)[0]
    for each in (solution, ls.load_solution(tmp_path / "answer.npz")):
        table = each.predictions_table(A)
        assert type(table) is type(B)
        assert (list(table.index) if library == "pandas" else column(table, "row")) == people
        for j, name in enumerate(Y_NAMES):
            np.testing.assert_allclose(column(table, name), wanted[:, j], atol=1e-10)
    pairs = ls.solve(ls.CCA(A, B, k=2))
    of_y, of_x = pairs.predictions_table(A, B)
    np.testing.assert_allclose(column(of_y, "pain"), pairs.predict(X)[:, 1], atol=1e-10)
    np.testing.assert_allclose(column(of_x, "sun"), pairs.predict(Y=Y)[:, 3], atol=1e-10)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("names", [["ash", "elm", "oak"], [3, 5, 7], [False, True]], ids=str)
def test_probabilities_have_the_names_of_classes(library: str, names: list[Any], tmp_path: Path) -> None:
    needs(library)
    y = np.array(names)[np.arange(80) % len(names)]
    rows = X + 2 * np.eye(len(names), 4)[np.arange(80) % len(names)]
    solution = ls.solve(ls.Discriminant(rows, ls.targets.lda(y), ridge=1.0))
    solution.save(tmp_path / "answer.npz")
    wanted = solution.probabilities(rows)
    new = ls.labelled(rows, [f"tree {i}" for i in range(80)])
    for each in (solution, ls.load_solution(tmp_path / "answer.npz"), solution.classifier()):
        table = each.probabilities_table(new, library=library)
        assert column(table, "row") == [f"tree {i}" for i in range(80)]
        for j, name in enumerate(names):  # in sorted order, like the classes
            np.testing.assert_array_equal(column(table, str(name)), wanted[:, j])
        table = each.predictions_table(new, library=library)
        assert column(table, "class") == solution.predict(rows).tolist()
        np.testing.assert_array_equal(column(table, "probability"), wanted.max(axis=1))
