"""Columns by name, Parquet files, labels that are texts, several ridges, and saved answers on the command line."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("click")

from click.testing import CliRunner

import linspec as ls
from linspec.cli import data, main
from linspec.cli.columns import chosen_columns
from linspec.cli.data import described, read_named
from linspec.cli.failures import Failure
from linspec_files import delimited

NAMES = ["a", "b", "c", "d", "kind", "price"]
RNG = np.random.default_rng(0)
NUMBERS = RNG.standard_normal((60, 4))
KIND = ["oak" if value > 0 else "elm" for value in NUMBERS[:, 0] + 0.1 * NUMBERS[:, 1]]
PRICE = 2 * NUMBERS[:, 0] + RNG.standard_normal(60)


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


def refused(text: object, *, texts: bool = False) -> str:
    with pytest.raises(Failure) as caught:
        read_named(str(text), texts=texts)
    return str(caught.value.format_message())


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """A file with names, numbers and classes."""
    path = tmp_path / "people.csv"
    rows = [
        ",".join([*(f"{v:.17g}" for v in row), kind, f"{price:.17g}"])
        for row, kind, price in zip(NUMBERS, KIND, PRICE, strict=True)
    ]
    path.write_text("\n".join([",".join(NAMES), *rows]) + "\n")
    return path


@pytest.fixture
def as_parquet(people: Path) -> Path:
    pa, pq = pytest.importorskip("pyarrow", reason="no pyarrow"), pytest.importorskip("pyarrow.parquet")
    pytest.importorskip("narwhals", reason="no narwhals")
    path = people.with_suffix(".parquet")
    table = pa.table({name: NUMBERS[:, j] for j, name in enumerate("abcd")} | {"kind": KIND, "price": PRICE})
    pq.write_table(table, path, row_group_size=25)
    return path


# ---- picking ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("", [0, 1, 2, 3]),
        ("left, arm", [1]),
        ('"left, arm"', [1]),
        ("c,a", [2, 0]),
        ("a..c", [0, 1, 2]),
        ("~a", [1, 2, 3]),
        ("~a..c", [3]),
        ('"~d"', [3]),
        ("c..~d", [2, 3]),
    ],
)
def test_names_and_ranges(text: str, columns: list[int]) -> None:
    names = ["a", "left, arm", "c", "~d"]
    if text == "left, arm":
        with pytest.raises(Failure, match="no column is called 'left'"):
            chosen_columns(names, text, "f")
    else:
        assert chosen_columns(names, text, "f") == columns


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hieght", "Did you mean 'height'"),
        ("x9", "There are 'age', 'height', 'twin', 'twin'"),
        ("age,age", "picked twice"),
        ("height..age", "ends before it begins"),
        ("twin", "2 columns are called 'twin'"),
        ("~age,height", "2 columns"),
        (",", "no column is called ''"),
    ],
)
def test_what_cannot_be_picked(text: str, said: str) -> None:
    names = ["age", "height", "twin", "twin"]
    if text == "~age,height":
        assert chosen_columns(names, text, "f") == [2, 3]
    else:
        with pytest.raises(Failure, match=said):
            chosen_columns(names, text, "f")


def test_columns_of_text(people: Path) -> None:
    found = read_named(f"{people}:c,a")
    np.testing.assert_array_equal(found.values, NUMBERS[:, [2, 0]])
    assert found.names == ("c", "a")
    assert read_named(f"{people}:~kind").names == ("a", "b", "c", "d", "price")
    labels = read_named(f"{people}:kind", texts=True)
    assert labels.values.tolist() == KIND
    assert described(labels) == "60 texts"
    with pytest.raises(Failure, match="line 2, field 5: a number is needed; got 'oak' in column 'kind'"):
        read_named(f"{people}:kind")
    assert "field 5: a number is needed; got 'oak' in column 'kind'" in refused(f"{people}:kind,a")
    plain = people.with_name("plain.csv")
    plain.write_text("1,2,3\n4,5,6\n")
    np.testing.assert_array_equal(read_named(f"{plain}:2..3").values, [[2, 3], [5, 6]])
    assert read_named(f"{plain}:2..3").names is None


def test_a_line_without_a_field_is_named_though_it_is_not_read(people: Path) -> None:
    people.write_text("a,b,c\n1,2,3\n4,5\n7,8,9\n")
    assert "line 3: 3 fields are needed, as on the lines before; got 2" in refused(f"{people}:a")
    people.write_text("a,kind\n1,x\n2,\n")
    assert "line 3, field 2: a text is needed in column 'kind'; got an empty field" in refused(
        f"{people}:kind", texts=True
    )


def test_a_file_without_names_has_no_columns_to_pick(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", NUMBERS)
    assert "whose columns have no names, and has no part 'a..b'" in refusal(
        "solve", "svd", tmp_path / "a.npy", "--columns", "a..b", "-k", 1
    )


# ---- text by pyarrow --------------------------------------------------------------------------

TEXTS = [
    "1,2.5,-3\n0,4,1e-3\n",
    "one,two,three\n1,2.5,-3\n0,4,1e-3",
    "1;2.5;-3\r\n0;4;1e-3\r\n",
    "1,2\r3,4\r",
    "\ufeffa,b\n1,2\n",
    "\ufeff1,2\n3,4\n",
    "a,b\n\n1,2\n\n3,4\n\n",
    " 1 , 2 \n3,4\n",
    "+1.5,2\n-.5,3.\n",
    "1e400,2\n3,4e-400\n",
    "0.1234567890123456789,2.2250738585072011e-308\n5e-324,9007199254740993\n",
    "nan,inf\n1,-inf\n",
    "1,NA\n2,3\n",
    "1,null\n2,3\n",
    "1,\n2,3\n",
    "1,2\n3\n",
    "1,2\n3,4,5\n",
    "1_0,2\n3,4\n",
    "0x1,2\n3,4\n",
    "1,2\n3,red\n",
    "1,true\n3,4\n",
    "1,infinity\n3,4\n",
    "1,2\n   \n3,4\n",
    "a\tb\n1\t2\n",
    "a,b\n",
]


@pytest.mark.parametrize("text", TEXTS)
def test_pyarrow_reads_what_python_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Both read equal numbers to the last bit, and give equal errors."""
    pytest.importorskip("pyarrow", reason="no pyarrow")
    path = tmp_path / "a.csv"
    path.write_bytes(text.encode())
    found: list[Any] = []
    for least in (10**9, 0):
        monkeypatch.setattr(delimited, "LARGE", least)
        try:
            found.append(read_named(str(path)).values)
        except Failure as failure:
            found.append(failure.format_message())
    np.testing.assert_array_equal(*found)
    assert type(found[0]) is type(found[1])


def test_pyarrow_reads_random_numbers_exactly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow", reason="no pyarrow")
    monkeypatch.setattr(delimited, "LARGE", 0)
    monkeypatch.setattr(delimited, "BLOCK", 4096)
    monkeypatch.setattr(delimited, "_numbers", None)  # which would read what pyarrow could not
    values = np.frombuffer(np.random.default_rng(1).bytes(8 * 6000), np.float64)
    values = values[np.isfinite(values)][:5000].reshape(-1, 5)
    np.savetxt(tmp_path / "a.csv", values, fmt="%.17g", delimiter=",", header="v..w,b,c,d,e", comments="")
    np.testing.assert_array_equal(read_named(str(tmp_path / "a.csv")).values, values)
    np.testing.assert_array_equal(read_named(f"{tmp_path / 'a.csv'}:e,v..w").values, values[:, [4, 0]])


# ---- Parquet ----------------------------------------------------------------------------------


def test_parquet(as_parquet: Path) -> None:
    found = read_named(f"{as_parquet}:d,a..b")
    np.testing.assert_array_equal(found.values, NUMBERS[:, [3, 0, 1]])
    assert found.names == ("d", "a", "b")
    assert read_named(f"{as_parquet}:kind", texts=True).values.tolist() == KIND
    told = refusal("solve", "svd", as_parquet, "-k", 1)
    assert "the column 'kind' holds text" in told
    assert "'FILE:~kind'" in told
    assert "the column 'kind' holds text" in refusal("solve", "svd", as_parquet, "--columns", "kind", "-k", 1)


def test_large_parquet_is_read_in_slices(as_parquet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run("solve", "svd", as_parquet, "--columns", "a..d", "-k", 2, "--center")
    monkeypatch.setattr(data, "SHARE", 0.0)
    sliced = run("solve", "svd", as_parquet, "--columns", "a..d", "-k", 2, "--center")
    assert "60 x 4, float64, read in slices" in sliced
    label = "singular values"
    values = [next(line for line in out.splitlines() if line.startswith(label)) for out in (whole, sliced)]
    assert values[0] == values[1]
    assert "A, component1" in sliced


def test_broken_parquet(as_parquet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = as_parquet.read_bytes()
    for broken in (b"", b"PAR1", content[: len(content) // 2], b"PAR1" + bytes(200) + content[-200:]):
        as_parquet.write_bytes(broken)
        said = refusal("solve", "svd", as_parquet, "--columns", "a", "-k", 1)
        assert ("Parquet" if broken else "it is empty") in said
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    assert "linspec[parquet]" in refusal("solve", "svd", as_parquet, "-k", 1)


def test_missing_values_of_parquet_are_named(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow", reason="no pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"a": [1.0, 2.0], "b": [1, None], "k": ["x", None]}), tmp_path / "a.parquet")
    assert "a value is missing at row 1, column 'b'" in refusal(
        "solve", "svd", tmp_path / "a.parquet:a,b", "-k", 1
    )
    said = refusal("solve", "discriminant", tmp_path / "a.parquet", "--columns", "a", "--target-column", "k")
    assert "a value is missing at row 1, column 'k'" in said


# ---- problems ---------------------------------------------------------------------------------


def test_one_file_holds_both_views(people: Path, tmp_path: Path) -> None:
    out = run(
        "solve", "cca", people, "--columns", "a,b", "--y-columns", "c,d", "-k", 1, "--out", tmp_path / "r.npz"
    )
    exact = ls.solve(ls.CCA(NUMBERS[:, :2], NUMBERS[:, 2:], k=1))
    found = ls.load_solution(tmp_path / "r.npz")
    np.testing.assert_allclose(found.correlations, exact.correlations)
    assert found.column_names == {"X": ("a", "b"), "Y": ("c", "d")}
    heaviest = "ab"[int(np.abs(exact.x_weights[:, 0]).argmax())]
    assert next(line for line in out.splitlines() if line.startswith("X, pair1")).split()[2] == heaviest
    rest = run("solve", "least-squares", people, "--target-column", "~a..kind", "--columns", "a..d")
    assert "B, price" not in rest
    assert "A, price" in rest


def test_columns_are_named_behind_the_file_or_by_an_option(people: Path) -> None:
    """Both forms of naming work beside the option of the other matrix, and are refused together."""
    names = people.read_text().splitlines()[0].split(",")
    first, last = names[1], names[-1]
    arguments = ("solve", "least-squares")
    behind = run(*arguments, f"{people}:{first}", "--target-column", last)
    option = run(*arguments, people, "--columns", first, "--target-column", last)
    assert behind.split("seconds")[0] == option.split("seconds")[0]
    for files in ((f"{people}:{first}", "--columns", first), (people, f"{people}:{last}")):
        given = [*arguments, *map(str, files), "--target-column", last]
        result = CliRunner().invoke(main, given)
        assert result.exit_code == 2
        assert "Name them once" in result.stderr


def test_explained_variance(people: Path) -> None:
    views = ("--columns", "a,b", "--y-columns", "c,d")
    out = run("solve", "cca", people, *views, "-k", 2, "--explained")
    # Two variates of two columns explain all of them.
    shares = [float(line.split()[1]) for line in out.splitlines()[-2:]]
    assert sum(shares) == pytest.approx(100, abs=2e-3)
    exact = np.corrcoef(
        NUMBERS[:, :2].T, ls.solve(ls.CCA(NUMBERS[:, :2], NUMBERS[:, 2:], k=2)).transform(NUMBERS[:, :2]).T
    )
    assert shares == pytest.approx(100 * (exact[:2, 2:] ** 2).mean(axis=0), abs=1e-3)
    svd = run("solve", "svd", people, "--columns", "a..d", "-k", 2, "--center")
    s = np.linalg.svd(NUMBERS - NUMBERS.mean(axis=0), compute_uv=False) ** 2
    assert f"{100 * s[0] / s.sum():.3f} %" in svd
    assert f"together {100 * s[:2].sum() / s.sum():.3f} %" in svd


def test_text_labels_and_their_names(people: Path) -> None:
    out = run("solve", "discriminant", people, "--columns", "a..d", "--target-column", "kind")
    assert f"elm ({KIND.count('elm')} rows), oak ({KIND.count('oak')} rows)" in out
    compared = run(
        "compare",
        "discriminant",
        people,
        "--columns",
        "a..d",
        "--target-column",
        "kind",
        "--solvers",
        "direct",
    )
    assert "direct" in compared
    assert "Y-FILE holds text" in refusal(
        "solve", "discriminant", people, "--columns", "a", "--target-column", "kind", "--target", "none"
    )
    assert "a number is needed; got" in refusal(
        "solve", "least-squares", people, "--columns", "a", "--target-column", "kind"
    )
    assert "a number is needed; got" in refusal("solve", "svd", people, "-k", 1)


def test_several_ridges(people: Path, tmp_path: Path) -> None:
    out = run(
        "solve", "least-squares", people, "--columns", "a..d", "--target-column", "price", "--ridge", "1,10"
    )
    C, table = NUMBERS - NUMBERS.mean(axis=0), out.splitlines()[-2:]
    for line, ridge in zip(table, (1.0, 10.0), strict=True):
        x = np.linalg.solve(C.T @ C + ridge * np.eye(4), C.T @ PRICE)
        intercept = PRICE.mean() - NUMBERS.mean(axis=0) @ x
        assert line.split()[:3] == [f"{ridge:g}", f"{np.linalg.norm(x):.6g}", f"{intercept:.6g}"]
        largest = sorted(zip("abcd", x, strict=True), key=lambda pair: -abs(pair[1]))[:3]
        assert line.endswith(",  ".join(f"{name} {value:.4g}" for name, value in largest) + ",  …")
    assert "coefficients  2 x" not in out
    cca = ("solve", "cca", people, "--columns", "a,b", "--y-columns", "c,d", "-k", 1)
    table = run(*cca, "--ridge", "1,100").splitlines()[-2:]
    for line, ridge in zip(table, (1.0, 100.0), strict=True):
        exact = ls.solve(ls.CCA(NUMBERS[:, :2], NUMBERS[:, 2:], k=1, ridge=ridge))
        assert line.split()[:2] == [f"{ridge:g}", f"{exact.correlations[0]:.4f}"]
    assert "--out is for one answer" in refusal(*cca, "--ridge", "1,2", "--out", tmp_path / "r.npz")
    assert "--ridge-y stands beside one ridge" in refusal(*cca, "--ridge", "1,2", "--ridge-y", 3)
    compared = run("compare", *cca[1:], "--ridge", "1,100", "--solvers", "gram")
    assert "ridge 100" in compared
    held = run(*cca, "--ridge", "1,100", "--held-out", 0.25).splitlines()[-4]
    assert "held out" in held
    assert "not a valid float" in refusal(*cca, "--ridge", "1,,2")
    assert "at least 0" in refusal(*cca, "--ridge", "1,-2")


def test_transform(people: Path, tmp_path: Path) -> None:
    columns = ("--columns", "a,b", "--y-columns", "c,d")
    run("solve", "cca", people, *columns, "-k", 2, "--out", tmp_path / "r.npz")
    solution = ls.load_solution(tmp_path / "r.npz")
    new = tmp_path / "new.csv"  # other columns, in another order
    new.write_text("d,b,note,a,c\n4,2,x,1,3\n8,6,y,5,7\n")
    lines = run("transform", tmp_path / "r.npz", new).splitlines()
    assert lines[0] == "pair1,pair2"
    rows = np.array([[1.0, 2.0], [5.0, 6.0]])
    printed = np.array([line.split(",") for line in lines[1:]], float)
    np.testing.assert_array_equal(printed, solution.transform(rows))
    run("transform", tmp_path / "r.npz", new, new, "--out", tmp_path / "s.npy")
    both = solution.transform(rows, [[3.0, 4.0], [7.0, 8.0]])
    np.testing.assert_array_equal(np.load(tmp_path / "s.npy"), np.hstack(both))
    assert "another order: column 0 is 'b'" in refusal(
        "transform", tmp_path / "r.npz", new, "--columns", "b,a"
    )
    new.write_text("b,c\n1,2\n")
    assert "no column is called 'a'" in refusal("transform", tmp_path / "r.npz", new)
    assert "is read by this command" in refusal("transform", tmp_path / "r.npz", new, "--out", new)
    assert "no such file" in refusal("transform", tmp_path / "r.npz", tmp_path / "none.csv").lower()
    assert refusal("transform", people, new)


def test_transform_predicts_for_least_squares(people: Path, tmp_path: Path) -> None:
    problem = ("solve", "least-squares", people, "--target-column", "price", "--columns", "a..d", "--center")
    run(*problem, "--out", tmp_path / "x.npz")
    lines = run("transform", tmp_path / "x.npz", people).splitlines()
    assert lines[0] == "price"
    design = np.column_stack([np.ones(60), NUMBERS])
    wanted = design @ np.linalg.lstsq(design, PRICE, rcond=None)[0]
    np.testing.assert_allclose(np.array(lines[1:], float), wanted)
    assert "one file of rows" in refusal("transform", tmp_path / "x.npz", people, people)


def test_an_output_is_no_input_whatever_its_columns_are_called(people: Path) -> None:
    people.with_suffix(".npz").write_bytes(b"")
    odd = people.with_name("odd.csv")
    odd.write_text("a:1,b:2\n" + "1,2\n2,1\n3,5\n")
    found = read_named(f"{odd}:b:2")
    assert found.names == ("b:2",)
    target = odd.with_suffix(".npy")
    np.save(target, NUMBERS)
    run("solve", "svd", f"{odd}:a:1", "-k", 1, "--out", odd.with_name("r.npz"))
    said = refusal("transform", odd.with_name("r.npz"), f"{target}:x:y", "--out", target)
    assert "is read by this command" in said
    assert list(itertools.islice(odd.parent.glob(".linspec-*"), 1)) == []
