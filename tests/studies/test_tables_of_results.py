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
NAMED = ls.labelled(X, columns=X_NAMES), ls.labelled(Y, columns=Y_NAMES)
BOOTSTRAP = ls.bootstrap(ls.CCA(*NAMED, k=2), draws=30, rng=0)


def needs(library: str) -> None:
    if library:
        pytest.importorskip("narwhals", reason="frames are read by narwhals")
        pytest.importorskip(library)


def held_to(table: Any, wanted: dict[str, Any]) -> None:
    """Compare columns of a table of any library; the labels of a pandas frame count as a column."""
    for name, values in wanted.items():
        if isinstance(table, list):
            found = [row[name] for row in table]
        elif hasattr(table, "index") and name not in table:
            found = list(table.index)
        else:
            found = table[name].to_pylist() if hasattr(table[name], "to_pylist") else list(table[name])
        if isinstance(values[0], float):
            np.testing.assert_allclose(found, values, atol=1e-10)
        else:
            assert found == list(values)


def frame(values: Any, names: list[str], library: str, labels: list[str] | None = None) -> Any:
    """A frame of the library; the labels are the index of a pandas frame."""
    columns, module = {name: values[:, j] for j, name in enumerate(names)}, pytest.importorskip(library)
    if library == "pandas":
        return module.DataFrame(columns, index=labels)
    return module.DataFrame(columns) if library == "polars" else module.table(columns)


@pytest.mark.parametrize("library", LIBRARIES)
def test_intervals_of_columns_stand_beside_the_numbers_of_all_rows(library: str) -> None:
    """The loadings are Pearson's coefficients, by NumPy."""
    needs(library)
    scores, found = BOOTSTRAP.solution.transform(X, Y), BOOTSTRAP
    ends = {"X": (found.x_loadings, found.x_weights), "Y": (found.y_loadings, found.y_weights)}
    weights = {"X": found.solution.x_weights, "Y": found.solution.y_weights}
    for view, data, P, names in (("X", X, scores[0], X_NAMES), ("Y", Y, scores[1], Y_NAMES)):
        loadings = np.corrcoef(data.T, P.T)[: len(names), len(names) :]
        tables = found.loadings_table(view, library=library), found.weights_table(view, library=library)
        for table, values, (low, high) in zip(tables, (loadings, weights[view]), ends[view], strict=True):
            for i in (0, 1):
                columns = {"": values[:, i], " lower": low[:, i], " upper": high[:, i]}
                held_to(table, {"column": names, **{f"pair{i + 1}{end}": columns[end] for end in columns}})


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_tables_are_in_the_library_of_the_data(library: str) -> None:
    needs(library)
    views = frame(X, X_NAMES, library), frame(Y, Y_NAMES, library)
    problem = ls.CCA(*views, k=2)
    found = ls.bootstrap(problem, draws=5, rng=0)
    tables = [
        ls.permutation_test(problem, permutations=19, rng=0).table(),
        ls.significance(problem).table(),
        found.table(),
        found.loadings_table("Y"),
        ls.ridge_path(problem, [0.0, 1.0]).table(),
        ls.cross_validate(problem, ridges=[1.0], rng=0).table(),
    ]
    assert {type(table) for table in tables} == {type(views[0])}
    held_to(tables[3], {"column": Y_NAMES})


@pytest.mark.parametrize("library", LIBRARIES)
def test_tests_of_correlations_have_tables(library: str) -> None:
    needs(library)
    test = ls.permutation_test(ls.CCA(X, Y), permutations=19, rng=0)
    columns = {"component": [1, 2, 3], "canonical correlation": test.correlations, "p value": test.p_values}
    held_to(test.table(library=library), {**columns, "uncorrected": test.uncorrected})
    found = ls.significance(ls.CCA(X, Y), permutation=test)
    wanted = {
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
    }
    held_to(found.table(library=library), wanted)
    assert "p permuted" not in ls.significance(ls.CCA(X, Y)).table(library="")[0]


def test_p_values_are_printed_in_digits_that_tell() -> None:
    """2,499 permutations have the least p-value 1/2500, and strong pairs underflow the distributions."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((2500, 3))
    test = ls.permutation_test(ls.CCA(X, X + 1e-5 * rng.standard_normal((2500, 3))), permutations=2499, rng=0)
    assert repr(test).endswith("p 0.0004  0.0004  0.0004>")


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_path_has_a_row_for_each_ridge(library: str) -> None:
    needs(library)
    ridges, twice = [100.0, 0.0, (1.0, 10.0)], np.hstack([X[:60, :2], X[:60, :2]])
    path = ls.ridge_path(ls.CCA(X[:60], Y[:60], k=2), ridges, test=(X[60:], Y[60:]))
    exact = [ls.solve(ls.CCA(X[:60], Y[:60], k=2, ridge=r), "gram").correlations for r in ridges]
    wanted = {f"canonical correlation {i + 1}": [rho[i] for rho in exact] for i in (0, 1)}
    wanted |= {"ridge X": [100.0, 0.0, 1.0], "ridge Y": [100.0, 0.0, 10.0], "score": path.totals}
    best = [i == path.best for i in range(3)]
    held_to(path.table(library=library), {**wanted, "best": best, "converged": [True] * 3})
    plain = ls.ridge_path(ls.Discriminant(X, ls.targets.lda(np.arange(80) % 3)), [1.0, 2.0]).table(library="")
    assert [row["ridge"] for row in plain] == [1.0, 2.0]
    assert "score" not in plain[0]
    fewer, _ = ls.ridge_path(ls.CCA(twice, Y[:60], k=3), [0.0, 1.0]).table(
        library=""
    )  # rank 2, unless there is a ridge
    assert np.isnan(fewer["canonical correlation 3"])


@pytest.mark.parametrize("library", LIBRARIES)
def test_cross_validation_has_a_row_for_each_setting(library: str) -> None:
    needs(library)
    found = ls.cross_validate(ls.CCA(X, Y, k=2), ridges=[(1.0, 2.0), 10.0], ks=[1, 2], rng=0)
    mean = found.scores.mean(axis=0).ravel()
    wanted = {
        "ridge X": [1.0, 1.0, 10.0, 10.0],
        "ridge Y": [2.0, 2.0, 10.0, 10.0],
        "k": [1, 2, 1, 2],
        "mean": mean,
        "standard error": found.scores.std(axis=0, ddof=1).ravel() / np.sqrt(len(found.scores)),
        "best": [i == np.argmax(mean) for i in range(4)],
        "rounding": [False] * 4,
    }
    held_to(found.table(library=library), wanted)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_predictions_have_the_names_of_targets_and_the_labels_of_rows(library: str, tmp_path: Path) -> None:
    needs(library)
    people, wanted = [f"person {i}" for i in range(80)], X @ np.linalg.lstsq(X, Y)[0]
    A, B = frame(X, X_NAMES, library, people), frame(Y, Y_NAMES, library, people)
    A = A if library == "pandas" else ls.labelled(A, people)
    solution = ls.solve(ls.LeastSquares(A, B))
    solution.save(tmp_path / "answer.npz")
    for each in (solution, ls.load_solution(tmp_path / "answer.npz")):
        table = each.predictions_table(A)
        assert type(table) is type(B)
        held_to(table, {"row": people, **dict(zip(Y_NAMES, wanted.T, strict=True))})
    pairs = ls.solve(ls.CCA(A, B, k=2))
    of_y, of_x = pairs.predictions_table(A, B)
    held_to(of_y, {"pain": pairs.predict(X)[:, 1]})
    held_to(of_x, {"sun": pairs.predict(Y=Y)[:, 3]})


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("names", [["ash", "elm", "oak"], [3, 5, 7], [False, True]], ids=str)
def test_probabilities_have_the_names_of_classes(library: str, names: list[Any], tmp_path: Path) -> None:
    needs(library)
    codes, trees = np.arange(80) % len(names), [f"tree {i}" for i in range(80)]
    rows = X + 2 * np.eye(len(names), 4)[codes]
    solution = ls.solve(ls.Discriminant(rows, ls.targets.lda(np.array(names)[codes]), ridge=1.0))
    solution.save(tmp_path / "answer.npz")
    wanted, new = solution.probabilities(rows), ls.labelled(rows, trees)
    for each in (solution, ls.load_solution(tmp_path / "answer.npz"), solution.classifier()):
        of_each = {
            str(name): column for name, column in zip(names, wanted.T, strict=True)
        }  # sorted, as classes
        held_to(each.probabilities_table(new, library=library), {"row": trees, **of_each})
        best = {"class": solution.predict(rows).tolist(), "probability": wanted.max(axis=1)}
        held_to(each.predictions_table(new, library=library), best)
