"""Many columns with long and odd names on the command line: solved, saved, and picked again in other files."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("click")

from click.testing import CliRunner

import linspec as ls
from linspec.cli import main
from linspec.cli.columns import chosen_columns, in_quotes
from linspec.cli.data import column_names_in, read_named
from linspec.cli.failures import Failure
from linspec.errors import LinspecError
from linspec.process.paths import is_there

ROWS, COLUMNS, LENGTH = 40, 1000, 300

BEGINNINGS = (
    "plain ",
    "with, a comma ",
    'with "quotes" ',
    "~tilde ",
    "2019 income ",
    "größe é 漢字 ",
    "a..b ",
    "co:lon ",
    "sla/sh ",
    "back\\slash ",
    "# mark ",
    "semi;colon ",
    "tab\tin ",
    "it's ",
    "*star?[x] ",
    "-minus ",
    ".dot ",
    "%s {x} ",
)
NAMES = [f"{BEGINNINGS[j % len(BEGINNINGS)]}{j} ".ljust(LENGTH - 1, "x") + "y" for j in range(COLUMNS)]
NUMBERS = np.random.default_rng(0).standard_normal((ROWS, COLUMNS))


def run(*args: object, code: int = 0) -> str:
    result = CliRunner().invoke(main, [str(arg) for arg in args])
    assert result.exit_code == code, f"{result.output}\n{result.stderr}\n{result.exc_info}"
    return result.stdout if code == 0 else result.stderr


def quoted(names: list[str]) -> str:
    """A line of comma-separated values, by Python's own writer."""
    buffer = io.StringIO(newline="")
    csv.writer(buffer, quoting=csv.QUOTE_ALL, lineterminator="").writerow(names)
    return buffer.getvalue()


def written(folder: Path, suffix: str, names: list[str], numbers: np.ndarray) -> Path:
    """A file with names above numbers, by a program that is not ours."""
    path = folder / f"data{suffix}"
    if suffix == ".csv":
        lines = [quoted(names), *(",".join(map(repr, row)) for row in numbers.tolist())]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path
    pa = pytest.importorskip("pyarrow", reason="no pyarrow")
    pytest.importorskip("narwhals", reason="no narwhals")
    from pyarrow import parquet

    parquet.write_table(pa.table(dict(zip(names, numbers.T, strict=True))), path)
    return path


@pytest.fixture(params=[".csv", ".parquet"])
def suffix(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.slow
def test_a_thousand_long_names_go_through_every_command(tmp_path: Path, suffix: str) -> None:
    """The scores are those of NumPy's factors, and other columns in another order do not change them."""
    assert len(set(NAMES)) == COLUMNS
    assert {len(name) for name in NAMES} == {LENGTH}
    path = written(tmp_path, suffix, NAMES, NUMBERS)
    said = run("solve", "svd", path, "-k", 2, "--out", tmp_path / "r.npz")
    assert len(said) < 4000
    assert ls.load_solution(tmp_path / "r.npz").column_names["A"] == tuple(NAMES)

    order = np.random.default_rng(1).permutation(COLUMNS).tolist()
    (tmp_path / "new").mkdir()
    new = written(
        tmp_path / "new",
        suffix,
        ["another", *(NAMES[j] for j in order)],
        np.column_stack([np.full(ROWS, 1e6), NUMBERS[:, order]]),
    )
    run("transform", tmp_path / "r.npz", new, "--out", tmp_path / "s.npy")
    U, S, _ = np.linalg.svd(NUMBERS, full_matrices=False)
    np.testing.assert_allclose(np.abs(np.load(tmp_path / "s.npy")), np.abs(U[:, :2] * S[:2]), atol=1e-4)

    half = quoted(NAMES[: COLUMNS // 2])
    views = ("--columns", half, "--y-columns", f"~{half}")
    run("solve", "cca", path, *views, "-k", 1, "--ridge", 1, "--out", tmp_path / "c.npz")
    found = ls.load_solution(tmp_path / "c.npz")
    assert found.column_names == {"X": tuple(NAMES[: COLUMNS // 2]), "Y": tuple(NAMES[COLUMNS // 2 :])}
    run("transform", tmp_path / "c.npz", new, new, "--out", tmp_path / "s.npy")
    scores = np.hstack(found.transform(NUMBERS[:, : COLUMNS // 2], NUMBERS[:, COLUMNS // 2 :]))
    np.testing.assert_allclose(np.load(tmp_path / "s.npy"), scores, rtol=1e-9, atol=1e-12)

    compared = run("compare", "svd", path, "--columns", half, "-k", 1, "--solvers", "direct")
    assert "converged" in compared
    assert len(compared) < 4000
    missing = run("transform", tmp_path / "r.npz", path, "--columns", f"{half},{'z' * LENGTH}", code=2)
    assert "no column is called 'zzz" in missing
    assert len(missing) < 4000


#: A field of a text file ends on its line, and begins after its blanks.
IN_PARQUET = (" blanks ", "\N{NO-BREAK SPACE}", "a\nb ", "a\rb ")


@pytest.mark.parametrize(
    ("suffix", "beginning"),
    [
        *((each, one) for one in BEGINNINGS for each in (".csv", ".parquet")),
        *((".parquet", b) for b in IN_PARQUET),
    ],
)
def test_a_name_is_picked_whatever_it_holds(tmp_path: Path, suffix: str, beginning: str) -> None:
    names = [f"{beginning}1 ", f"{beginning}2", "other"]
    names = [name.strip() for name in names] if suffix == ".csv" else names
    path = written(tmp_path, suffix, names, NUMBERS[:, :3])
    assert column_names_in(str(path)) == tuple(names)
    for j, name in enumerate(names):
        found = read_named(f"{path}:{quoted([name])}")
        assert found.names == (name,)
        np.testing.assert_array_equal(found.values[:, 0], NUMBERS[:, j])
    assert read_named(f"{path}:~{quoted(names[:2])}").names == ("other",)
    assert chosen_columns(names, in_quotes(names[::-1]), "f") == [2, 1, 0]


@pytest.mark.parametrize(
    ("head", "names"),
    [
        ("1007_s_at,1053_at", ("1007_s_at", "1053_at")),
        ("1st;2nd", ("1st", "2nd")),
        ('"2019, income","2020, income"', ("2019, income", "2020, income")),
        ('"say ""a""",b', ('say "a"', "b")),
        ('"""",""', ('"', "")),
        ('a,""', ("a", "")),
    ],
)
def test_names_of_a_text_file(tmp_path: Path, head: str, names: tuple[str, ...]) -> None:
    path = tmp_path / "a.csv"
    path.write_text(head + "\n" + ("1;2\n" if ";" in head else "1,2\n"))
    if names == ('"', ""):  # no letters: nothing that can be a name
        assert column_names_in(str(path)) is None
        return
    found = read_named(str(path))
    assert found.names == names
    np.testing.assert_array_equal(found.values, [[1.0, 2.0]])


@pytest.mark.parametrize("text", ["1x\n2\n", "1,5,x\n", "1o,2\n3,4\n", "1_0,2\n3,4\n", "1o,-\n3,4\n"])
def test_a_misspelt_number_is_no_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(Failure, match=r"line 1, field [123]: a number is needed"):
        read_named(str(tmp_path / "a.csv"))


def test_names_that_cannot_be_taken_apart_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, ".csv", ["a", "b"], NUMBERS[:, :2])
    assert "are no names of columns" in run("solve", "svd", path, "--columns", "a\nb", "-k", 1, code=2)
    assert "no column is called" in run("solve", "svd", path, "--columns", "a" * 200_000, "-k", 1, code=2)


def test_twenty_thousand_names_are_picked_at_once() -> None:
    names = [f"gene {j}" for j in range(20_000)]
    assert chosen_columns(names, in_quotes(names[::-1]), "f") == list(range(19_999, -1, -1))


@pytest.mark.parametrize(
    "text", ["a" * 300, "a/" * 3000, "a\0b", "\0", "\udcff\ud800", "x.npy:" + "b," * 1000]
)
def test_what_no_file_can_be_called_is_not_there(text: str) -> None:
    assert not is_there(text)
    with pytest.raises(Failure, match="no such file"):
        read_named(text)
    with pytest.raises(LinspecError):
        ls.open_rows(text)
    with pytest.raises((LinspecError, FileNotFoundError)):
        ls.SVD(text, 1)
    with pytest.raises(LinspecError):
        ls.solve(ls.SVD(NUMBERS, 1), "lobpcg", start=text)


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="for the superuser every folder is open"
)
def test_a_closed_folder_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed").chmod(0)
    try:
        with pytest.raises(PermissionError):
            is_there(tmp_path / "closed" / "a.csv")
    finally:
        (tmp_path / "closed").chmod(0o700)
