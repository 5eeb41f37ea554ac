"""Tables of answers whose variates are functions of two views: kernel, preimage and deep CCA."""

from __future__ import annotations

import numpy as np
import pytest

import linspec as ls
from linspec.errors import InvalidOption

pd = pytest.importorskip("pandas", reason="no pandas")
pytest.importorskip("narwhals", reason="frames are read by narwhals")

RNG = np.random.default_rng(0)
SHARED = RNG.standard_normal(60)
PEOPLE = pd.Index([f"person {i}" for i in range(60)], name="who")
X = pd.DataFrame({"near": SHARED + 0.1 * RNG.standard_normal(60), "far": RNG.standard_normal(60)}, PEOPLE)
Y = pd.DataFrame({"far": RNG.standard_normal(60), "near": 2 * SHARED}, PEOPLE)


@pytest.mark.parametrize("problem", ["kernel-cca", "preimage-cca", "deep-cca"])
def test_tables_of_columns_and_rows(problem):
    if problem == "deep-cca":
        pytest.importorskip("torch", reason="no torch")
    given = {"ridge": 1.0} if problem == "kernel-cca" else {}
    options = {"solver": "dcca", "epochs": 3, "width": 8} if problem == "deep-cca" else {}
    solution = ls.solve(ls.get_problem(problem)(X, Y, k=1, **given), rng=0, **options)
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
    if problem == "preimage-cca":  # points have the names of columns
        points = solution.weights_table("Y")
        assert points["pair1"].abs().idxmax() == "near"
        np.testing.assert_array_equal(points.to_numpy(), solution.y_preimages)


def test_coefficients_of_kernel_functions_belong_to_people_landmarks_or_features(tmp_path):
    problem = ls.get_problem("kernel-cca")(X, Y, k=1, ridge=1.0)
    solution = ls.solve(problem, rng=0)
    table = solution.coefficients_table("X")
    assert table.index.equals(PEOPLE)
    np.testing.assert_array_equal(table.to_numpy(), solution.x_dual)
    solution.save(tmp_path / "answer.npz")
    assert ls.load_solution(tmp_path / "answer.npz").coefficients_table("X").equals(table)
    with pytest.raises(InvalidOption, match="view must be 'X' or 'Y'"):
        solution.coefficients_table("Z")
    some = ls.solve(problem, "nystrom-kcca", rng=0, landmarks=10)
    assert list(some.coefficients_table("Y").index) == [PEOPLE[i] for i in some.y_landmarks]
    features = ls.solve(problem, "rff-kcca", rng=0)
    rows = features.coefficients_table("X", library="")
    assert [row["feature"] for row in rows] == list(range(features.x_map.map.columns))
    assert features.row_names is None
