"""`linspec cross-validate`, `permute` and `bootstrap`: their figures, files, refusals and endings."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats

pytest.importorskip("click")

from click.testing import CliRunner

import linspec as ls
from linspec.cli import main

N = 120
RNG = np.random.default_rng(5)
SHARED = RNG.standard_normal((N, 1))
X = SHARED @ RNG.standard_normal((1, 4)) + RNG.standard_normal((N, 4)) + 3.0
Y = np.hstack([SHARED + 0.5 * RNG.standard_normal((N, 1)), RNG.standard_normal((N, 2))])
GROUPS = np.repeat(["d", "a", "c", "b"], N // 4)
OWN = ["red", "green", "blue", "the, grey one"]


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


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of all tests, in which the commands run."""
    monkeypatch.chdir(tmp_path)
    np.save("X.npy", X)
    np.save("Y.npy", Y)
    np.save("y.npy", Y[:, 0])
    with Path("table.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow([*OWN, "target", "group", "kind"])
        for row, y, group in zip(X.tolist(), Y[:, 0].tolist(), GROUPS, strict=True):
            writer.writerow([*row, y, group, "high" if y > 0 else "low"])
    return tmp_path


# ---- cross-validate ---------------------------------------------------------------------------


def test_the_table_marks_the_setting_with_the_best_mean(folder: Path) -> None:
    out = run(
        *("cross-validate", "cca", "X.npy", "Y.npy", "--ks", "1,2", "--ridges", "0,1000", "--seed", 3),
        *("--out", "scores.json"),
    )
    saved = json.loads((folder / "scores.json").read_text())
    means: dict[Any, list[float]] = {}
    for row in saved["rows"]:
        means.setdefault((row["ridge"], row["k"]), []).append(row["score"])
    ridge, k = max(means, key=lambda setting: float(np.mean(means[setting])))
    (best,) = (line for line in out.splitlines() if line.endswith(" True"))
    assert best.split()[1:4] == [f"{ridge:g}", str(k), f"{np.mean(means[ridge, k]):.5g}"]
    assert float(best.split()[4]) == pytest.approx(scipy.stats.sem(means[ridge, k]), rel=0.05)
    assert f"The chosen setting: ridge {ridge:g}, {ridge:g} k {k}" in out


def test_a_rule_may_choose_the_simplest_setting(folder: Path) -> None:
    options = ("--scale", "--no-center", "--drop-missing", "--columns", "~kind,group,target", "--ridge-y", 2)
    out = run(
        *("cross-validate", "cca", "table.csv", *options, "--y-columns", "target"),
        *("-k", 1, "--ridges", "1,2.5", "--solver", "gram", "--rule", "one-standard-error"),
    )
    assert "The chosen setting: ridge 2.5, 2 k 1" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("cca", "X.npy", "Y.npy", "--ks", "1,x"), "'x' is not a valid integer"),
        (("cca", "X.npy", "Y.npy", "-k", 1, "--folds", 1), "--folds"),
        (("cca", "X.npy", "Y.npy", "-k", 1, "--folds", 500), "folds must be between 2 and"),
        (("cca", "X.npy", "Y.npy", "-k", 1, "--method", "gcv"), "least squares"),
        (
            ("least-squares", "X.npy", "y.npy", "--method", "gcv", "--folds", 7),
            "no rows; got splitter. Leave",
        ),
        (
            ("least-squares", "X.npy", "y.npy", "--method", "gcv", "--groups", "y.npy"),
            "no rows; got groups. Leave",
        ),
        (("cca", "X.npy", "Y.npy", "-k", 1, "--score", "fit"), "score must be one of correlations, tcc"),
        (("cca", "X.npy", "Y.npy", "-k", 1, "--groups", "y.npy:0"), "y.npy"),
        (("cca", "X.npy", "Y.npy", "-k", 1, "--out", "scores.npz"), "--out must end in .csv or .json"),
        (("svd", "X.npy", "-k", 9), "k must be"),
        (("least-squares", "X.npy", "y.npy", "--ridges", "-1"), "ridge"),
    ],
)
def test_cross_validate_refuses_in_one_line(folder: Path, arguments: tuple[object, ...], words: str) -> None:
    assert words in refusal("cross-validate", *arguments)


def test_a_file_of_scores_says_all_that_was_requested(folder: Path) -> None:
    files = ("cca", "X.npy", "Y.npy", "--ks", "2,1", "--ridges", "0,1000", "--ridge-y", 3)
    run("cross-validate", *files, "--folds", 3, "--rule", "one-standard-error", "--out", "s.json")
    about = json.loads(Path("s.json").read_text())["about"]
    expected = {
        "ks": [2, 1],
        "ridges": [0.0, 1000.0],
        "ridge_y": 3.0,
        "folds": 3,
        "method": "folds",
        "rule": "one-standard-error",
        "score": None,
        "groups": None,
        "drop_missing": False,
    }
    assert {name: about.get(name, "absent") for name in expected} == expected
    assert not {"k", "ridge"} & set(about)
    files = ("least-squares", "X.npy", "y.npy", "--ridges", "1,10", "--method", "gcv", "--drop-missing")
    run("cross-validate", *files, "--out", "g.json")
    about = json.loads(Path("g.json").read_text())["about"]
    assert about["ridges"] == [1.0, 10.0]
    assert about["method"] == "gcv"
    assert about["drop_missing"] is True
    assert not {"folds", "groups", "ks"} & set(about)
    run("permute", "cca", "X.npy", "Y.npy", "-k", 1, "--permutations", 19, "--out", "p.json")
    about = json.loads(Path("p.json").read_text())["about"]
    assert (about["k"], about["permutations"]) == (1, 19)


# ---- permute ----------------------------------------------------------------------------------


def test_one_planted_pair_is_found_and_its_p_value_is_no_bare_zero(folder: Path) -> None:
    out = run("permute", "cca", "X.npy", "Y.npy", "-k", 3, "--permutations", 199)
    assert "by wilks, 199 permutations: 1 of 3 canonical correlations at 5 %" in out
    (first,) = (line for line in out.splitlines() if line.split()[:1] == ["1"])
    assert re.search(r" 0\.005 +0\.005$", first)
    assert " 0\n" not in out
    found = run("permute", "cca", "X.npy", "Y.npy", "--permutations", 199)  # without -k
    assert "1 of 3 canonical correlations" in found


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("svd", "X.npy", "-k", 1, "--statistic", "sum"), "statistic must be one of ranked, largest"),
        (("least-squares", "X.npy", "y.npy"), "least-squares have no values of components"),
        (("cca", "X.npy", "Y.npy", "-k", 1, "--statistic", "largest"), "statistic must be one of wilks, roy"),
        (("cca", "X.npy", "Y.npy", "-k", 1, "--permutations", 0), "--permutations"),
        (
            ("deep-cca", "X.npy", "Y.npy"),
            "Missing option '-k'",
        ),
        (("kernel-cca", "X.npy", "Y.npy", "--ridge", 1), "Missing option '-k'"),
        (("cca", "X.npy", "Y.npy", "-k", 1, "--max-seconds", 0), "max_seconds must be a positive number"),
        (("cca", "X.npy", "Y.npy", "-k", 1, "--max-seconds", 1e-9), "Raise max_seconds"),
        (("cca", "X.npy", "Y.npy", "-k", 1, "--tol", 1e-3, "--statistic", "roy"), "has no option 'tol'"),
    ],
)
def test_permute_refuses_in_one_line(folder: Path, arguments: tuple[object, ...], words: str) -> None:
    assert words in refusal("permute", *arguments)


# ---- bootstrap --------------------------------------------------------------------------------


def test_intervals_of_all_weights_are_written_by_the_names_of_columns(folder: Path) -> None:
    arguments = ("table.csv", "--columns", "~target,group,kind", "-k", 2, "--center")
    options = ("--draws", 30, "--seed", 2, "--level", 0.8, "--groups", "table.csv:group")
    out = run("bootstrap", "svd", *arguments, *options, "--out", "b.csv")
    expected = ls.bootstrap(ls.SVD(X, 2, center=True), draws=30, rng=2, level=0.8, groups=GROUPS)
    rows = rows_of(folder / "b.csv")
    assert [(row["matrix"], row["column"]) for row in rows] == [("A", name) for name in OWN]
    for j, row in enumerate(rows):
        for i in range(2):
            ends = [float(row[f"component{i + 1} {end}"]) for end in ("lower", "upper")]
            np.testing.assert_allclose(ends, expected.weights["A"][:, j, i], rtol=1e-9)
    for i, value in enumerate(expected.solution.S):
        assert f"{value:.6g}" in out
        assert f"{expected.values[0, i]:.6g}" in out
    assert "80 %>" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("least-squares", "X.npy", "y.npy"), "least-squares have no values of components"),
        (
            ("kernel-cca", "X.npy", "Y.npy", "-k", 1, "--ridge", 1),
            "kernel-cca come from rows without weights",
        ),
        (("svd", "X.npy", "-k", 1, "--level", 2), "level must be between 0 and 1"),
        (("svd", "X.npy", "-k", 1, "--draws", 1), "--draws"),
        (("svd", "X.npy", "-k", 1, "--groups", "nowhere.csv"), "nowhere.csv"),
        (("svd", "X.npy", "-k", 1, "--solver", "lanczoz"), "Did you mean"),
    ],
)
def test_bootstrap_refuses_in_one_line(folder: Path, arguments: tuple[object, ...], words: str) -> None:
    assert words in refusal("bootstrap", *arguments)


# ---- all three --------------------------------------------------------------------------------
