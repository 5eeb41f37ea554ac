"""`linspec transform`: columns that are carried along, predictions, probabilities, and files with many names."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("click")

from click.testing import CliRunner

from linspec.cli import main

N, P = 90, 40
RNG = np.random.default_rng(8)
X = RNG.standard_normal((N, P)) + 1.0
CLASS = np.array(["elm", "oak", "sea pine"])[np.argmax(X[:, :3] + RNG.standard_normal((N, 3)), axis=1)]
PRICE = X[:, 0] - X[:, 1] + RNG.standard_normal(N) + 20.0
NAMES = [f"a_name_of_a_column_that_says_much_{j}" for j in range(P)]
IDS = [f"{i:04d}" for i in range(N - 1)] + ["12345678901234567890"]
OTHERS = "~code,class,price"


def run(*args: object, code: int = 0) -> str:
    result = CliRunner().invoke(main, [str(arg) for arg in args])
    assert result.exit_code == code, f"{result.output}\n{result.stderr}\n{result.exc_info}"
    return result.stdout


def refusal(*args: object) -> str:
    result = CliRunner().invoke(main, [str(arg) for arg in args])
    assert result.exit_code == 2, f"{result.output}\n{result.exc_info}"
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


def rows_of(text: str) -> tuple[list[str], list[list[str]]]:
    head, *rows = csv.reader(text.splitlines())
    return head, rows


def numbers_of(rows: list[list[str]], start: int = 1) -> np.ndarray:
    return np.array([[float(cell) for cell in row[start:]] for row in rows])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file of many named columns, in which the commands run."""
    monkeypatch.chdir(tmp_path)
    with Path("wide.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["code", *NAMES, "class", "price"])
        for name, row, kind, price in zip(IDS, X.tolist(), CLASS, PRICE.tolist(), strict=True):
            writer.writerow([name, *row, kind, price])
    np.save("X.npy", X)
    return tmp_path


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_ids_stand_first_and_as_in_the_file_which_may_have_many_names(folder: Path, suffix: str) -> None:
    if suffix == "parquet":
        pytest.importorskip("narwhals", reason="no narwhals")
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        columns = {"code": IDS, **dict(zip(NAMES, X.T, strict=True)), "class": CLASS, "price": PRICE}
        pq.write_table(pa.table({**columns, "number": np.arange(N) + 2**60}), "wide.parquet")
    assert sum(map(len, NAMES)) > 1000
    others = OTHERS + ",number" * (suffix == "parquet")
    run("solve", "svd", f"wide.{suffix}", "--columns", others, "-k", 2, "--center", "--out", "s.npz")
    head, rows = rows_of(run("transform", "s.npz", f"wide.{suffix}", "--ids", "code"))
    assert head == ["code", "component1", "component2"]
    assert [row[0] for row in rows] == IDS
    C = X - X.mean(axis=0)
    expected = C @ np.linalg.svd(C)[2][:2].T
    np.testing.assert_allclose(np.abs(numbers_of(rows)), np.abs(expected), atol=1e-8)
    if suffix == "parquet":
        _, rows = rows_of(run("transform", "s.npz", "wide.parquet", "--ids", "number"))
        assert [row[0] for row in rows] == [str(2**60 + i) for i in range(N)]


def test_ids_lose_the_rows_that_lack_a_value_and_may_be_empty(folder: Path) -> None:
    run("solve", "svd", "wide.csv", "--columns", OTHERS, "-k", 1, "--out", "s.npz")
    lines = Path("wide.csv").read_text().splitlines()
    lines[3] = lines[3].replace(f",{float(X[2, 0])!r},", ",,", 1)
    lines[5] = lines[5].removeprefix(IDS[4])
    Path("gaps.csv").write_text("\n".join(lines) + "\n")
    _, rows = rows_of(run("transform", "s.npz", "gaps.csv", "--ids", "code", "--drop-missing"))
    expected = [*IDS[:2], IDS[3], "", *IDS[5:]]
    assert [row[0] for row in rows] == expected


def test_classes_and_probabilities_are_those_of_scikit_learn(folder: Path) -> None:
    pytest.importorskip("sklearn")
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    arguments = ("--columns", OTHERS, "--target-column", "class")
    run("solve", "discriminant", "wide.csv", *arguments, "--out", "d.npz")
    fitted = LinearDiscriminantAnalysis(solver="lsqr").fit(X, CLASS)
    head, rows = rows_of(run("transform", "d.npz", "wide.csv", "--ids", "code", "--predict"))
    assert head == ["code", "class"]
    assert [row[1] for row in rows] == fitted.predict(X).tolist()
    head, rows = rows_of(run("transform", "d.npz", "wide.csv", "--probabilities"))
    assert head == ["elm", "oak", "sea pine"]
    np.testing.assert_allclose(numbers_of(rows, 0), fitted.predict_proba(X), atol=1e-8)
    run("transform", "d.npz", "wide.csv", "--probabilities", "--out", "p.npy")
    np.testing.assert_allclose(np.load("p.npy"), fitted.predict_proba(X), atol=1e-8)


def test_the_other_view_is_predicted(folder: Path) -> None:
    arguments = ("wide.csv", "--columns", OTHERS, "--y-columns", "price")
    run("solve", "cca", *arguments, "-k", 1, "--out", "c.npz")
    head, rows = rows_of(run("transform", "c.npz", "wide.csv", "--ids", "code", "--predict"))
    assert head == ["code", "price"]
    full = np.column_stack([np.ones(N), X])
    fitted = full @ np.linalg.lstsq(full, PRICE, rcond=None)[0]  # one column: a regression of full rank
    np.testing.assert_allclose(numbers_of(rows)[:, 0], fitted, atol=1e-8)
    head, _ = rows_of(run("transform", "c.npz", "wide.csv", "wide.csv:price", "--predict"))
    assert head == ["price", *NAMES]


@pytest.mark.parametrize(
    ("problem", "arguments", "words"),
    [
        ("svd", ["wide.csv", "--predict"], "answers to svd have no predictions"),
        (
            "svd",
            ["wide.csv", "--probabilities"],
            "answers to svd have no probabilities",
        ),
        ("svd", ["wide.csv", "--ids", "cod"], "no column is called 'cod'"),
        ("svd", ["X.npy", "--ids", "code"], "X.npy: its columns have no names"),
        ("svd", ["wide.csv", "--ids", "code", "--out", "s.npy"], "Name a .csv file"),
        ("lda", ["wide.csv", "--predict", "--probabilities"], "got both. Leave one of them out"),
        ("lda", ["wide.csv", "--predict", "--out", "s.npy"], "classes are texts"),
        ("opls", ["wide.csv", "--predict"], "the answer has no classes"),
        ("opls", ["wide.csv", "--probabilities"], "--target lda"),
    ],
)
def test_what_an_answer_cannot_give_is_refused(
    folder: Path, problem: str, arguments: list[str], words: str
) -> None:
    if problem == "svd":
        run("solve", "svd", "wide.csv", "--columns", OTHERS, "-k", 1, "--out", "s.npz")
    else:
        named = ("--columns", OTHERS, "--target-column", "class", "--target", problem)
        run("solve", "discriminant", "wide.csv", *named, "--out", "s.npz")
    assert words in refusal("transform", "s.npz", *arguments)
    assert not Path("s.npy").exists()


# ---- names and ids on both sides ----------------------------------------------------------------


def small(name: str, columns: dict[str, object]) -> None:
    """Write a file of a few named columns."""
    with Path(name).open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        writer.writerows(zip(*(list(column) for column in columns.values()), strict=True))


def test_confounds_are_matched_by_their_names(folder: Path) -> None:
    """Scores of rows less their regression on two confounds, whose columns stand in another order in the new file."""
    age, sex = PRICE, (CLASS == "elm").astype(float)
    small("z.csv", {"age": age, "sex": sex})
    small("turned.csv", {"note": IDS, "sex": sex, "age": age})
    small("other.csv", {"sex": sex, "years": age})
    run("solve", "svd", "X.npy", "-k", 2, "--center", "--confounds", "z.csv", "--out", "s.npz")
    Z = np.column_stack([np.ones(N), age, sex])
    rest = X - Z @ np.linalg.lstsq(Z, X, rcond=None)[0]
    expected = np.abs(rest @ np.linalg.svd(rest)[2][:2].T)
    for name in ("z.csv", "turned.csv", "turned.csv:age,sex"):
        _, rows = rows_of(run("transform", "s.npz", "X.npy", "--confounds", name))
        np.testing.assert_allclose(np.abs(numbers_of(rows, 0)), expected, atol=1e-8)
    assert "no column is called 'age'" in refusal("transform", "s.npz", "X.npy", "--confounds", "other.csv")
    said = refusal("transform", "s.npz", "X.npy", "--confounds", "turned.csv:sex,age")
    assert "confounds must have the columns of the training" in said


def parts(folder: Path) -> None:
    """Write the first 60 rows and the others into files of their own."""
    lines = Path("wide.csv").read_text().splitlines()
    Path("old.csv").write_text("\n".join(lines[:61]) + "\n")
    Path("new.csv").write_text("\n".join([lines[0], *lines[61:]]) + "\n")


def test_r2_on_new_rows_is_that_of_scikit_learn(folder: Path) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    parts(folder)
    truth = np.column_stack([PRICE, X[:, 5]])
    small("y.csv", {"cost": truth[:60, 0], "size": truth[:60, 1]})
    small("z.csv", {"size": truth[60:, 1], "note": IDS[60:], "cost": truth[60:, 0]})
    of_x = "old.csv:~code,class,price"
    run("solve", "least-squares", of_x, "y.csv", "--ridge", "1,100", "--out", "path.npz")
    run("solve", "pls-regression", of_x, "y.csv", "-k", 3, "--out", "pls.npz")
    for name, ridges in (("path.npz", ("1", "100")), ("pls.npz", ("",))):
        arguments = ["transform", name, "new.csv", "--predict", "--targets", "z.csv"]
        result = CliRunner().invoke(main, arguments)
        _, rows = rows_of(result.stdout)
        said = result.stderr.splitlines()
        for i, ridge in enumerate(ridges):
            predicted = numbers_of(rows, 0)[:, 2 * i : 2 * i + 2]
            total = metrics.r2_score(truth[60:], predicted, multioutput="variance_weighted")
            label = f"R², ridge {ridge}" if ridge else "R²"
            assert said[i] == f"{label} {total:.6g}, on 30 rows"
    run("solve", "least-squares", "old.csv:~code,class", "--target-column", "price", "--out", "one.npz")
    result = CliRunner().invoke(main, ["transform", "one.npz", "new.csv", "--target-column", "price"])
    predicted = numbers_of(rows_of(result.stdout)[1], 0)
    assert result.stderr == f"R² {metrics.r2_score(PRICE[60:], predicted):.6g}, on 30 rows\n"
    assert not CliRunner().invoke(main, ["transform", "one.npz", "new.csv", "--predict"]).stderr
