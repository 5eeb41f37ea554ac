"""Tables of answers whose variates are functions of two views: kernel, preimage and deep CCA."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linspec as ls
from linspec.errors import InvalidOption

pd = pytest.importorskip("pandas", reason="no pandas")
pytest.importorskip("narwhals", reason="frames are read by narwhals")

RNG = np.random.default_rng(0)
SHARED = RNG.standard_normal(60)
PEOPLE = pd.Index([f"person {i}" for i in range(60)], name="who")
X = pd.DataFrame(
    {"near": SHARED + 0.1 * RNG.standard_normal(60), "far": RNG.standard_normal(60)}, index=PEOPLE
)
Y = pd.DataFrame({"far": RNG.standard_normal(60), "near": 2 * SHARED}, index=PEOPLE)


def solved(problem: str) -> Any:
    if problem == "deep-cca":
        pytest.importorskip("torch", reason="no torch")
        made = ls.get_problem(problem)(X, Y, k=1)
        return ls.solve(made, "dcca", rng=0, epochs=3, width=8)
    ridge = {"ridge": 1.0} if problem == "kernel-cca" else {}
    return ls.solve(ls.get_problem(problem)(X, Y, k=1, **ridge), rng=0)


@pytest.mark.parametrize("problem", ["kernel-cca", "preimage-cca", "deep-cca"])
def test_tables_of_columns_and_rows(problem: str) -> None:
    solution = solved(problem)
    tables = solution.loadings_table(X, Y)
    for table, data, scores in zip(tables, (X, Y), solution.transform(X, Y), strict=True):
        assert list(table.index) == list(data.columns)
        wanted = np.corrcoef(np.column_stack([data, scores]).T)[:2, 2:]
        np.testing.assert_allclose(table.to_numpy(), wanted, atol=1e-10)
    scores = solution.scores_table(Y=Y)
    assert scores.index.equals(PEOPLE)
    np.testing.assert_array_equal(scores["pair1"], solution.transform(Y=Y)[:, 0])
    assert len(solution.summary()) == 1
    assert any("correlation" in name for name in solution.summary()[0])


def test_coefficients_of_kernel_functions_belong_to_people(tmp_path: Path) -> None:
    solution = solved("kernel-cca")
    table = solution.coefficients_table("X")
    assert table.index.equals(PEOPLE)
    np.testing.assert_array_equal(table.to_numpy(), solution.x_dual)
    solution.save(tmp_path / "answer.npz")
    assert ls.load_solution(tmp_path / "answer.npz").coefficients_table("X").equals(table)
    with pytest.raises(InvalidOption, match="view must be 'X' or 'Y'"):
        solution.coefficients_table("Z")


def test_coefficients_of_landmarks_and_of_features() -> None:
    problem = ls.get_problem("kernel-cca")(X, Y, k=1, ridge=1.0)
    some = ls.solve(problem, "nystrom-kcca", rng=0, landmarks=10)
    assert list(some.coefficients_table("Y").index) == [PEOPLE[i] for i in some.y_landmarks]
    features = ls.solve(problem, "rff-kcca", rng=0)
    table = features.coefficients_table("X", library="")
    assert [row["feature"] for row in table] == list(range(features.x_map.map.columns))
    assert features.row_names is None


def test_points_have_the_names_of_columns() -> None:
    solution = solved("preimage-cca")
    table = solution.weights_table("Y")
    assert list(table.index) == ["far", "near"]
    assert table["pair1"].abs().idxmax() == "near"
    np.testing.assert_array_equal(table.to_numpy(), solution.y_preimages)
