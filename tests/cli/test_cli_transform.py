"""`linspec transform`: columns that are carried along, predictions, probabilities, and files with many names."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("click")

from cli.running import IDS, KIND, NAMES, PEOPLE, N, X, Y, refusal, rows_of, run, table

LONG = {
    f"a_name_of_a_column_that_says_much_{j}": np.random.default_rng(j).standard_normal(N) for j in range(40)
}
"""Columns whose names take more than a thousand letters."""


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_ids_stand_first_and_as_in_the_file_which_may_have_many_names(folder, suffix):
    columns = {"code": IDS, **LONG, "number": np.arange(N) + 2**60}
    if suffix == "parquet":
        pytest.importorskip("narwhals", reason="no narwhals")
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        pq.write_table(pa.table(columns), "wide.parquet")
    else:
        table("wide.csv", columns)
    run(f"solve svd wide.{suffix} --columns ~code,number -k 2 --center --out s.npz")
    out, _ = run(f"transform s.npz wide.{suffix} --ids code")
    head, scores = rows_of(out, start=1)
    assert head == ["code", "component1", "component2"]
    assert [row[0] for row in csv.reader(out.splitlines()[1:])] == IDS
    C = np.column_stack(list(LONG.values()))
    C = C - C.mean(axis=0)
    np.testing.assert_allclose(np.abs(scores), np.abs(C @ np.linalg.svd(C)[2][:2].T), atol=1e-8)
    out, _ = run(f"transform s.npz wide.{suffix} --ids number")
    assert [line.partition(",")[0] for line in out.splitlines()[1:]] == [str(2**60 + i) for i in range(N)]


def test_classes_and_probabilities_are_those_of_scikit_learn(folder):
    analysis = pytest.importorskip("sklearn.discriminant_analysis")
    run("solve discriminant people.csv --columns age..score --target-column kind --out d.npz")
    fitted = analysis.LinearDiscriminantAnalysis(solver="lsqr").fit(X, KIND)
    lines = run("transform d.npz people.csv --ids id --predict")[0].splitlines()
    assert lines[0] == "id,class"
    assert [line.partition(",")[2] for line in lines[1:]] == fitted.predict(X).tolist()
    head, found = rows_of(run("transform d.npz people.csv --probabilities")[0])
    assert head == ["elm", "oak", "sea pine"]
    np.testing.assert_allclose(found, fitted.predict_proba(X), atol=1e-8)
    run("transform d.npz people.csv --probabilities --out p.npy")
    np.testing.assert_allclose(np.load("p.npy"), fitted.predict_proba(X), atol=1e-8)


def test_the_other_view_is_predicted(folder):
    run("solve cca people.csv --columns age..score --y-columns a -k 1 --out c.npz")
    head, found = rows_of(run("transform c.npz people.csv --ids id --predict")[0], start=1)
    assert head == ["id", "a"]
    full = np.column_stack([np.ones(N), X])
    fitted = full @ np.linalg.lstsq(full, Y[:, 0], rcond=None)[0]  # one column: a regression of full rank
    np.testing.assert_allclose(found[:, 0], fitted, atol=1e-8)
    assert rows_of(run("transform c.npz people.csv people.csv:a --predict")[0])[0] == ["a", *NAMES]


def test_confounds_are_matched_by_their_names(folder):
    """Scores of rows less their regression on two confounds, whose columns stand in another order in the new file."""
    age, sex = Y[:, 0] + 20.0, (KIND == "elm").astype(float)
    table("z.csv", {"age": age, "sex": sex})
    table("turned.csv", {"note": IDS, "sex": sex, "age": age})
    table("other.csv", {"sex": sex, "years": age})
    run("solve svd X.npy -k 2 --center --confounds z.csv --out s.npz")
    Z = np.column_stack([np.ones(N), age, sex])
    rest = X - Z @ np.linalg.lstsq(Z, X, rcond=None)[0]
    expected = np.abs(rest @ np.linalg.svd(rest)[2][:2].T)
    for name in ("z.csv", "turned.csv", "turned.csv:age,sex"):
        _, scores = rows_of(run(f"transform s.npz X.npy --confounds {name}")[0])
        np.testing.assert_allclose(np.abs(scores), expected, atol=1e-8)
    assert "no column is called 'age'" in refusal("transform s.npz X.npy --confounds other.csv")
    said = refusal("transform s.npz X.npy --confounds turned.csv:sex,age")
    assert "confounds must have the columns of the training" in said


def test_r2_on_new_rows_is_that_of_scikit_learn(folder):
    metrics = pytest.importorskip("sklearn.metrics")
    old, new = slice(0, 80), slice(80, N)
    for name, rows in (("old.csv", old), ("new.csv", new)):
        table(name, {key: np.asarray(column)[rows] for key, column in PEOPLE.items()})
    table("y.csv", {"cost": Y[old, 0], "size": Y[old, 1]})
    table("z.csv", {"size": Y[new, 1], "note": IDS[80:], "cost": Y[new, 0]})
    run("solve least-squares old.csv:age..score y.csv --ridge 1,100 --out path.npz")
    run("solve pls-regression old.csv:age..score y.csv -k 3 --out pls.npz")
    for name, ridges in (("path.npz", ("1", "100")), ("pls.npz", ("",))):
        out, said = run(f"transform {name} new.csv --predict --targets z.csv")
        _, found = rows_of(out)
        for i, (ridge, line) in enumerate(zip(ridges, said.splitlines(), strict=True)):
            predicted = found[:, 2 * i : 2 * i + 2]
            total = metrics.r2_score(Y[new, :2], predicted, multioutput="variance_weighted")
            label = f"R², ridge {ridge}" if ridge else "R²"
            assert line == f"{label} {total:.6g}, on 40 rows"
    run("solve least-squares old.csv --columns age..score --target-column a --out one.npz")
    out, said = run("transform one.npz new.csv --target-column a")
    assert said == f"R² {metrics.r2_score(Y[new, 0], rows_of(out)[1]):.6g}, on 40 rows\n"
    assert run("transform one.npz new.csv --predict")[1] == ""


def test_ids_lose_the_rows_that_lack_a_value_and_may_be_empty(folder):
    run("solve svd people.csv --columns age..score -k 1 --out s.npz")
    lines = Path("people.csv").read_text().splitlines()
    lines[3] = lines[3].replace(f",{float(X[2, 0])!r},", ",,", 1)
    lines[5] = lines[5].removeprefix(IDS[4])
    Path("gaps.csv").write_text("\n".join(lines) + "\n")
    out, _ = run("transform s.npz gaps.csv --ids id --drop-missing")
    assert [line.partition(",")[0] for line in out.splitlines()[1:]] == [*IDS[:2], IDS[3], "", *IDS[5:]]
