"""`--ids`: rows of several files are paired by their places only if their ids are the same, in every command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("click")

from click.testing import CliRunner

from linspec.cli import main

N = 60
RNG = np.random.default_rng(3)
SHARED = RNG.standard_normal((N, 1))
X, Y = SHARED + RNG.standard_normal((N, 3)), SHARED + RNG.standard_normal((N, 2))
AGE = RNG.standard_normal(N)
IDS = [f"p{i}" for i in RNG.permutation(N)]
SWAPPED = [IDS[0], IDS[2], IDS[1], *IDS[3:]]

COMMANDS = {
    "solve": ("cca", "-k", 1),
    "compare": ("cca", "-k", 1, "--solvers", "gram,direct"),
    "cross-validate": ("cca", "-k", 1, "--ridges", "0.1,1"),
    "permute": ("cca", "--permutations", 5),
    "bootstrap": ("cca", "-k", 1, "--draws", 4),
}


def write(name: str, ids: list[str], columns: dict[str, np.ndarray]) -> None:
    lines = [",".join([*columns, "who"])]
    lines += [
        ",".join([*map(repr, row), key])
        for row, key in zip(np.column_stack(list(columns.values())).tolist(), ids, strict=True)
    ]
    Path(name).write_text("\n".join(lines) + "\n")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    x, y = dict(zip("abc", X.T, strict=True)), dict(zip("uv", Y.T, strict=True))
    write("x.csv", IDS, x)
    write("y.csv", IDS, y)
    write("swapped.csv", SWAPPED, y)
    write("age.csv", IDS, {"age": AGE})
    write("old.csv", SWAPPED, {"age": AGE})
    np.save("x.npy", X)
    np.save("y.npy", Y)
    return tmp_path


def run(*args: object, code: int = 0) -> tuple[str, str]:
    result = CliRunner().invoke(main, [str(arg) for arg in args])
    assert result.exit_code == code, f"{result.output}\n{result.exc_info}"
    return result.stdout, result.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_files_in_another_order_are_refused_by_every_command(command: str) -> None:
    problem, *more = COMMANDS[command]
    for options in ((), ("--drop-missing",)):
        _, said = run(command, problem, "x.csv", "swapped.csv", *more, "--ids", "who", *options, code=2)
        assert "differ in row 1, counted from 0. Sort both files alike" in said
    for name in ("old.csv", "old.csv:age"):
        _, said = run(command, problem, "x.csv", "y.csv", *more, "--confounds", name, "--ids", "who", code=2)
        assert said.startswith("Error: old.csv and x.csv must have the same ids")
    run(command, problem, "x.csv", "y.csv", *more, "--confounds", "age.csv", "--ids", "who")


def test_ids_are_none_of_the_numbers() -> None:
    run("solve", "cca", "x.npy", "y.npy", "-k", 2, "--out", "plain.json")
    run("solve", "cca", "x.csv", "y.csv", "-k", 2, "--ids", "who", "--out", "named.json")
    plain, named = (json.loads(Path(name).read_text()) for name in ("plain.json", "named.json"))
    assert named["column_names"] == {"X": ["a", "b", "c"], "Y": ["u", "v"]}
    assert named["about"]["ids"] == "who"
    np.testing.assert_allclose(named["correlations"], plain["correlations"], rtol=1e-12)
    run("solve", "cca", "x.csv:~a", "y.csv", "-k", 2, "--ids", "who", "--out", "fewer.json")
    assert json.loads(Path("fewer.json").read_text())["column_names"]["X"] == ["b", "c"]


def test_files_without_the_column_are_paired_by_places_with_a_warning() -> None:
    _, said = run("solve", "cca", "x.csv", "y.npy", "-k", 1, "--ids", "who")
    assert said.startswith("Warning: y.npy has no column 'who'")
    _, said = run("solve", "cca", "y.npy", "x.csv", "-k", 1, "--ids", "who", code=2)
    assert "y.npy: its columns have no names" in said


def test_views_and_groups_are_compared_too() -> None:
    _, said = run("solve", "multiset-cca", "x.csv", "y.csv", "old.csv", "-k", 1, "--ids", "who", code=2)
    assert said.startswith("Error: old.csv and x.csv")
    write("groups.csv", SWAPPED, {"town": np.arange(N) // 6.0})
    arguments = ("x.csv", "y.csv", "-k", 1, "--ridges", "0.1,1", "--groups", "groups.csv", "--ids", "who")
    _, said = run("cross-validate", "cca", *arguments, code=2)
    assert said.startswith("Error: groups.csv and x.csv")
    run("solve", "cca", "x.csv", "y.csv", "-k", 1, "--ids", "who", "--out", "c.npz")
    _, said = run("transform", "c.npz", "x.csv", "swapped.csv", "--ids", "who", code=2)
    assert "differ in row 1, counted from 0" in said


@pytest.mark.parametrize("first", ["x.npy", "plain.csv"])
def test_a_file_without_names_has_no_column_of_ids(first: str) -> None:
    np.savetxt("plain.csv", X, delimiter=",")
    _, said = run("solve", "cca", first, "y.npy", "-k", 1, "--ids", "who", code=2)
    assert (
        f"{first}: its columns have no names, so --ids 'who' names none of them. Put a line of names" in said
    )
