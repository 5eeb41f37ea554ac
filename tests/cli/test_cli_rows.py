"""Rows of files: which belong together, which are left out, and what `linspec transform` says of new ones."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("click")

import scipy.sparse
from cli.running import IDS, KIND, NAMES, PEOPLE, WEIGHTS, N, X, Y, Z, refusal, rows_of, run, table

import linspec as ls
from linspec.cli import data

# ---- --ids --------------------------------------------------------------------------------------

WHO = np.array([f"p{i}" for i in range(N)])
SWAPPED = WHO[[0, 2, 1, *range(3, N)]]
COMMANDS = {
    "solve": "-k 1",
    "compare": "-k 1 --solvers gram,direct",
    "cross-validate": "-k 1 --ridges 0.1,1",
    "permute": "--permutations 5",
    "bootstrap": "-k 1 --draws 4",
}


@pytest.fixture
def named(folder):
    """Views and a confound with a column of ids, and the same with the ids in another order."""
    x, y = dict(zip("abcde", X.T, strict=True)), dict(zip("uvst", Y.T, strict=True))
    table("x.csv", {**x, "who": WHO})
    for name, who in (("y.csv", WHO), ("swapped.csv", SWAPPED)):
        table(name, {**y, "who": who})
    for name, who in (("age.csv", WHO), ("old.csv", SWAPPED)):
        table(name, {"age": Z[:, 0], "who": who})
    table("towns.csv", {"town": np.arange(N) // 6.0, "who": SWAPPED})


@pytest.mark.parametrize("command", COMMANDS)
def test_files_in_another_order_are_refused_by_every_command(named, command):
    for more in ("", "--drop-missing"):
        said = refusal(f"{command} cca x.csv swapped.csv {COMMANDS[command]} --ids who {more}")
        assert "differ in row 1, counted from 0. Sort both files alike" in said
    line = f"{command} cca x.csv y.csv {COMMANDS[command]} --ids who --confounds"
    for name in ("old.csv", "old.csv:age"):
        assert refusal(f"{line} {name}").startswith("Error: old.csv and x.csv must have the same ids")
    run(f"{line} age.csv")


def test_views_groups_and_new_rows_are_compared_too(named):
    run("solve cca x.csv y.csv -k 1 --ids who --out c.npz")
    for line, file in (
        ("solve multiset-cca x.csv y.csv old.csv -k 1", "old.csv"),
        ("cross-validate cca x.csv y.csv -k 1 --ridges 0.1,1 --groups towns.csv", "towns.csv"),
        ("transform c.npz x.csv swapped.csv", "swapped.csv"),
    ):
        assert refusal(f"{line} --ids who").startswith(f"Error: {file} and x.csv must have the same ids")


def test_ids_are_none_of_the_numbers_and_files_without_them_are_paired_by_places(named):
    _, said = run("solve cca x.csv:~a Y.npy -k 2 --ids who --out named.json")
    assert said.startswith("Warning: Y.npy has no column 'who'")
    found = json.loads(Path("named.json").read_text())
    assert found["column_names"] == {"X": [*"bcde"]}
    assert found["about"]["ids"] == "who"
    exact = ls.solve(ls.CCA(X[:, 1:], Y, 2))
    np.testing.assert_allclose(found["correlations"], exact.correlations, rtol=1e-9)
    np.savetxt("plain.csv", X, delimiter=",")
    for first in ("X.npy", "plain.csv"):
        said = refusal(f"solve cca {first} x.csv -k 1 --ids who")
        assert f"{first}: its columns have no names, so --ids 'who' names none of them. Put a line" in said


# ---- --drop-missing -----------------------------------------------------------------------------

GAPS = {"X": [0, 7, 59], "Y": [7, 20], "weights": [31], "confounds": [33, 0], "kind": [40]}
"""The rows of each input that lack a value."""


def without(*inputs: str) -> np.ndarray:
    """Which rows are complete in all of some inputs."""
    return ~np.isin(np.arange(N), [row for name in inputs for row in GAPS[name]])


def write(name: str, suffix: str, matrix: np.ndarray, rows: list[int]) -> str:
    """A file that lacks one value in each of these rows, in one of the ways of its format."""
    path, filled = f"{name}{suffix}", np.atleast_2d(matrix.T).T.astype(float).copy()
    for i, row in enumerate(rows):
        filled[row, i % filled.shape[1]] = np.nan
    names = [f"{name}{j}" for j in range(filled.shape[1])]
    if suffix == ".npy":
        np.save(path, filled)
    elif suffix == ".npz":
        scipy.sparse.save_npz(path, scipy.sparse.csr_array(filled))
    elif suffix == ".parquet":
        pa, pq = (pytest.importorskip(each) for each in ("pyarrow", "pyarrow.parquet"))
        pytest.importorskip("narwhals", reason="no narwhals")
        columns = [pa.array(column, from_pandas=True) for column in filled.T]
        pq.write_table(pa.table(columns, names), path, row_group_size=25)
    else:
        ways = iter((["NA", "?"] if len(names) == 1 else ["NA", "", "nan", "?", "NULL", "n/a"]) * 10)
        lines = [",".join(next(ways) if np.isnan(v) else repr(v) for v in row) for row in filled.tolist()]
        Path(path).write_text("\n".join([",".join(names), *lines]) + "\n")
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npy", ".npz"])
def test_rows_leave_all_files_together(folder, suffix):
    inputs = {"X": X, "Y": Y, "weights": WEIGHTS, "confounds": Z}
    x, y, w, z = (write(name, suffix, matrix, GAPS[name]) for name, matrix in inputs.items())
    keep = without(*inputs)
    line = f"solve cca {x} {y} -k 2 --ridge 1 --sample-weight {w} --confounds {z}"
    out, said = run(f"{line} --drop-missing --out r.npz")
    assert said == f"--drop-missing: {N - keep.sum()} of {N} rows lack a value and are left out.\n"
    assert f"{keep.sum()} x 5" in out
    exact = ls.solve(
        ls.CCA(X[keep], Y[keep], 2, ridge=1.0, sample_weight=WEIGHTS[keep], confounds=Z[keep]), "direct"
    )
    found = ls.load_solution("r.npz")
    np.testing.assert_allclose(found.correlations, exact.correlations, rtol=1e-9)
    np.testing.assert_allclose(found.x_weights, exact.x_weights, rtol=1e-6)
    _, said = run(f"transform r.npz {x} {y} --confounds {z} --drop-missing --out s.npy")
    some = without("X", "Y", "confounds")
    assert f"{N - some.sum()} of {N} rows" in said
    scores = np.hstack(found.transform(X[some], Y[some], confounds=Z[some]))
    np.testing.assert_allclose(np.load("s.npy"), scores, rtol=1e-12)
    assert "--drop-missing" in refusal(line)


def test_labels_and_columns_of_one_file(folder):
    """Rows count where a column that is read lacks a value, and not for others."""
    columns = {name: [*map(repr, values)] for name, values in zip("abcde", X.T.tolist(), strict=True)}
    columns |= {"kind": KIND.tolist(), "empty": [""] * N}
    for name, gaps, mark in (("b", GAPS["X"], ""), ("kind", GAPS["kind"], "NA")):
        for row in gaps:
            columns[name][row] = mark
    table("all.csv", columns)
    keep = without("X", "kind")
    labelled = "discriminant all.csv --columns a..e --target-column kind"
    compared, said = run(f"compare {labelled} --drop-missing --solvers direct,two-stage")
    assert said.count(f"4 of {N} rows lack a value") == 1
    exact = ls.solve(ls.Discriminant(X[keep], ls.targets.lda(KIND[keep])))
    assert f"{exact.eigenvalues.sum():.6g}" in compared
    assert "--drop-missing" in refusal(f"solve {labelled}")
    line = "solve svd all.csv -k 1 --drop-missing --columns"
    assert run(f"{line} c,d")[1] == f"--drop-missing: 0 of {N} rows lack a value and are left out.\n"
    assert "column 2 ('empty') holds no number in any row: leave it out" in refusal(f"{line} a,c,empty")
    assert "kind" in refusal(f"{line} a,kind")


def test_files_of_unequal_length_and_infinities_are_refused(folder):
    line = "solve cca X.npy Y.npy -k 1 --drop-missing"
    np.save("Y.npy", Y[:-1])
    assert f"equally many rows; got {N} of X, {N - 1} of Y" in refusal(line)
    np.save("Y.npy", np.where(np.eye(2)[np.arange(N) % 2] > 0, np.nan, Y[:, :2]))
    assert f"{N} of {N} rows lack a value" in refusal(line)
    np.save("Y.npy", np.where(np.arange(2 * N).reshape(N, 2) == 5, np.inf, Y[:, :2]))
    assert "finite" in run(line, code=2)[1]


@pytest.mark.parametrize("kind", [".parquet", "*.npy"])
def test_what_is_read_in_slices(folder, monkeypatch, kind):
    """Large files, and several, are filtered in every pass."""
    monkeypatch.setattr(data, "SHARE", 0.0)
    suffix = kind.removeprefix("*")
    name, keep = write("A", suffix, X, GAPS["X"]), without("X")
    if kind.startswith("*"):
        for i, (half, gaps) in enumerate([(X[:50], [0, 7]), (X[50:], [9])]):
            Path(write("A", suffix, half, gaps)).rename(f"part{i}{suffix}")
        name = f"part*{suffix}"
    out, said = run(f"solve svd {name} -k 2 --center --drop-missing --out r.npz")
    assert f"3 of {N} rows" in said
    assert "A=ChosenRows(" in out
    kept = X[keep] - X[keep].mean(axis=0)
    expected = np.linalg.svd(kept, compute_uv=False)[:2]
    np.testing.assert_allclose(ls.load_solution("r.npz").S, expected, rtol=1e-6)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_range_of_rows_is_that_of_every_file(folder, suffix):
    columns = {**{name: np.array(PEOPLE[name]) for name in NAMES}, "who": np.array(IDS)}
    if suffix == "csv":
        table("x.csv", columns)
    else:
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        pq.write_table(pa.table(columns), "x.parquet")
    np.save("target.npy", Y[:, 0])
    line = f"solve least-squares x.{suffix} target.npy --ids who --center"
    run(f"{line} --rows :-20 --out r.npz")
    expected = ls.solve(ls.LeastSquares(X[:-20], Y[:-20, 0], center=True))
    np.testing.assert_allclose(ls.load_solution("r.npz").x, expected.x, rtol=1e-6)
    out, _ = run(f"transform r.npz x.{suffix} --ids who --predict --rows -20:")
    assert [row[0] for row in csv.reader(out.splitlines()[1:])] == IDS[-20:]
    np.testing.assert_allclose(rows_of(out, start=1)[1][:, 0], expected.predict(X[-20:]).ravel(), rtol=1e-6)
    assert "must be FIRST:END" in run(f"{line} --rows 0-9", code=2)[1]
    assert "leaves no row of A, B" in run(f"{line} --rows {N}:", code=2)[1]


# ---- new rows: linspec transform -----------------------------------------------------------------

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
    expected = ls.load_solution("s.npz").transform(np.column_stack(list(LONG.values())))
    np.testing.assert_allclose(scores, expected, rtol=1e-9)
    out, _ = run(f"transform s.npz wide.{suffix} --ids number")
    assert [line.partition(",")[0] for line in out.splitlines()[1:]] == [str(2**60 + i) for i in range(N)]


def test_predictions_are_those_of_the_answer(folder):
    run("solve discriminant people.csv --columns age..score --target-column kind --out d.npz")
    found = ls.load_solution("d.npz")
    lines = run("transform d.npz people.csv --ids id --predict")[0].splitlines()
    assert lines[0] == "id,class"
    assert [line.partition(",")[2] for line in lines[1:]] == list(found.predict(X))
    head, probabilities = rows_of(run("transform d.npz people.csv --probabilities")[0])
    assert head == ["elm", "oak", "sea pine"]
    np.testing.assert_allclose(probabilities, found.probabilities(X), rtol=1e-9)
    run("transform d.npz people.csv --probabilities --out p.npy")
    np.testing.assert_allclose(np.load("p.npy"), found.probabilities(X), rtol=1e-12)
    run("solve cca people.csv --columns age..score --y-columns a -k 1 --out c.npz")
    head, predicted = rows_of(run("transform c.npz people.csv --ids id --predict")[0], start=1)
    assert head == ["id", "a"]
    np.testing.assert_allclose(predicted, ls.load_solution("c.npz").predict(X), rtol=1e-9)
    assert rows_of(run("transform c.npz people.csv people.csv:a --predict")[0])[0] == ["a", *NAMES]


def test_confounds_are_matched_by_their_names(folder):
    age, sex = Y[:, 0] + 20.0, (KIND == "elm").astype(float)
    table("z.csv", {"age": age, "sex": sex})
    table("turned.csv", {"note": IDS, "sex": sex, "age": age})
    table("other.csv", {"sex": sex, "years": age})
    run("solve svd X.npy -k 2 --center --confounds z.csv --out s.npz")
    expected = ls.load_solution("s.npz").transform(X, confounds=np.column_stack([age, sex]))
    for name in ("z.csv", "turned.csv", "turned.csv:age,sex"):
        _, scores = rows_of(run(f"transform s.npz X.npy --confounds {name}")[0])
        np.testing.assert_allclose(scores, expected, rtol=1e-9)
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
    out, said = run("transform path.npz new.csv --predict --targets z.csv")
    _, found = rows_of(out)
    for i, (ridge, line) in enumerate(zip((1, 100), said.splitlines(), strict=True)):
        predicted = found[:, 2 * i : 2 * i + 2]
        total = metrics.r2_score(Y[new, :2], predicted, multioutput="variance_weighted")
        assert line == f"R², ridge {ridge} {total:.6g}, on 40 rows"
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


def test_incomplete_components_read_missing_fields(folder):
    rows = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
    fields = [["" if np.isnan(entry) else repr(float(entry)) for entry in column] for column in rows.T]
    table("gaps.csv", dict(zip("abcde", fields, strict=True)))
    run("solve incomplete-pca gaps.csv -k 2 --seed 0 --tol 1e-8 --out gaps.npz")
    run("transform gaps.npz gaps.csv --out scores.npy")
    answer = ls.solve(ls.IncompletePCA(rows, 2), rng=0, tol=1e-8)
    assert ls.load_solution("gaps.npz").log_likelihood == pytest.approx(answer.log_likelihood)
    assert np.allclose(np.abs(np.load("scores.npy")), np.abs(answer.transform(rows)), atol=1e-5)
    assert refusal("solve svd gaps.csv -k 2").startswith("Error: gaps.csv, line ")
