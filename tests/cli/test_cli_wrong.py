"""Wrong command lines: whatever a user gets wrong ends with exit status 2 and one line, never as a defect."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("click")

from click.testing import CliRunner

import linspec as ls
from linspec.cli import main

pytestmark = pytest.mark.filterwarnings("default::RuntimeWarning")  # as where no test runs: of infinite steps

TEXTS = [
    "abc",
    "",
    "nan",
    "inf",
    "-inf",
    "-1",
    "0",
    "1e999",
    "1,2",
    "1,,2",
    "\0",
    "9" * 400,
    "[]",
    "0x10",
    "\udcff",
]
"""Texts in place of a number; some of them are numbers."""

FILES = [
    "missing.npy",
    "",
    "\0",
    "a\0b.npy",
    "folder",
    "folder.npy",
    "/dev/null",
    "empty.csv",
    "empty.npy",
    "empty.npz",
]
FILES += [
    "X.npy:1",
    "X.csv:zz",
    "X.csv:",
    "X.csv:~",
    "X.csv:..",
    "X.csv:a\nb",
    'X.csv:"',
    "r.npz:nothing",
    "*.none",
]
FILES += ["X.npy/", "X.npy/x", "~", "-", "\udcff.npy", "x" * 5000 + ".npy", "short.npy", "["]
"""Names in place of a file to read."""

OUTPUTS = [
    "missing/o.npz",
    "o.txt",
    "o",
    "",
    "folder",
    "folder.npz",
    "/dev/null",
    "\0.npz",
    "o.npz/",
    "X.npy",
    "/proc/o.npz",
]
OUTPUTS += ["x" * 300 + ".npz", "\udcff\ud800.npz"]
"""Names in place of a file to write."""

OPTIONS = ["-k", "--ridge", "--tol", "--seed", "--max-passes", "--max-seconds", "--held-out"]
PROBLEMS = {
    "svd": ("X.npy", "-k", "2"),
    "cca": ("X.npy", "Y.npy", "-k", "2"),
    "least-squares": ("X.npy", "Y.npy"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some sound files, and some that are not."""
    path = tmp_path_factory.mktemp("wrong")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 5))
    np.save(path / "X.npy", X)
    np.save(path / "Y.npy", X[:, :3] + rng.standard_normal((40, 3)))
    np.save(path / "short.npy", X[:7])
    np.savetxt(path / "X.csv", X, delimiter=",", header="a,b,c,d,e", comments="")
    for name in ("empty.csv", "empty.npy", "empty.npz"):
        (path / name).write_bytes(b"")
    for name in ("folder", "folder.npy", "folder.npz", "folder.png", "folder.csv", "folder.json"):
        (path / name).mkdir()
    ls.solve(ls.SVD(X, 2)).save(path / "r.npz")
    return path


def ended(*args: str) -> int:
    """The exit status that a user sees."""
    result = CliRunner().invoke(main, args)
    said = result.stderr
    assert result.exit_code in (0, 2), f"{args}: {result.exit_code}\n{said}\n{result.exc_info}"
    assert "Traceback" not in said
    if result.exit_code == 2:
        errors = [line for line in said.splitlines() if line.startswith("Error: ")]
        assert len(errors) == 1, f"{args}: {said}"
        assert len(errors[0]) < 5000
    return result.exit_code


@pytest.mark.parametrize("problem", PROBLEMS)
def test_numbers(folder: Path, monkeypatch: pytest.MonkeyPatch, problem: str) -> None:
    monkeypatch.chdir(folder)
    for option, text in itertools.product(OPTIONS, TEXTS):
        ended("solve", problem, *PROBLEMS[problem], option, text)
    for text in TEXTS:
        for given in (f"tol={text}", text, f"{text}=1", f"tol.{text}=1"):
            ended("solve", problem, *PROBLEMS[problem], "-o", given)
        assert ended("solve", problem, *PROBLEMS[problem], "--solver", text) == 2
    assert ended("solve", problem, *PROBLEMS[problem], "-o", "tol=abc") == 2
    assert ended("solve", problem, *PROBLEMS[problem], "-o", "tol=nan") == 2
    assert ended("solve", problem, *PROBLEMS[problem], "-o", "tol=0") == 2
    assert ended("solve", problem, *PROBLEMS[problem], "-o", "tol=1e-3") == 0


@pytest.mark.parametrize("problem", PROBLEMS)
def test_files(folder: Path, monkeypatch: pytest.MonkeyPatch, problem: str) -> None:
    monkeypatch.chdir(folder)
    first, *others = PROBLEMS[problem]
    for name in FILES:
        ended("solve", problem, name, *others)
        ended("solve", problem, first, *others, "--sample-weight", name)
        ended("solve", problem, first, *others, "--confounds", name)
        assert ended("solve", problem, first, *others, "--start", name) == 2
        ended("solve", problem, first, *others, "--columns", name)
        ended("solve", problem, name, *others, "--drop-missing")


def test_files_of_other_commands(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for name in FILES:
        assert ended("transform", name, "X.npy") == 2
        assert ended("transform", "r.npz", name) in (0, 2)
        assert ended("transform", "r.npz", "X.npy", "--confounds", name) == 2
        for command in ("solve", "compare", "describe", "solvers"):
            assert ended(command, name) == 2 or not name
    for text in TEXTS:
        ended("compare", "svd", "X.npy", "-k", text, "--solvers", "")
        assert ended("compare", "svd", "X.npy", "-k", "2", "--solvers", text) == 2


def test_outputs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for name in OUTPUTS:
        assert ended("solve", "svd", "X.npy", "-k", "2", "--out", name) == 2
        assert ended("solve", "svd", "X.npy", "-k", "2", "--plot", name.replace(".npz", ".png")) == 2
        assert ended("transform", "r.npz", "X.npy", "--out", name.replace(".npz", ".csv")) == 2
        assert ended("compare", "svd", "X.npy", "-k", "2", "--out", name.replace(".npz", ".json")) == 2
