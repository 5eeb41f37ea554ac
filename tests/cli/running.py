"""What the tests of the commands have in common: people in files, and a command that runs in this process."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from click.testing import CliRunner

from linspec.cli import main

N = 120
RNG = np.random.default_rng(0)
SHARED = RNG.standard_normal((N, 2))
X = SHARED @ RNG.standard_normal((2, 5)) + RNG.standard_normal((N, 5))
Y = SHARED @ RNG.standard_normal((2, 4)) + RNG.standard_normal((N, 4))
Z = RNG.standard_normal((N, 3))
WEIGHTS = np.arange(N) % 3 + 1.0
KIND = np.array(["elm", "oak", "sea pine"])[np.argmax(X[:, :3] + 0.3 * RNG.standard_normal((N, 3)), axis=1)]
TOWN = np.repeat(["d", "a", "c", "b"], N // 4)
IDS = [f"{i:04d}" for i in range(N - 1)] + ["12345678901234567890"]
NAMES = ["age", "height", "weight", "the, grey one", "score"]
PEOPLE = {
    "id": IDS,
    **dict(zip(NAMES, X.T, strict=True)),
    **dict(zip("abcd", Y.T, strict=True)),
    "kind": KIND,
    "town": TOWN,
}


def table(name: str, columns: dict[str, Any]) -> None:
    """Write a CSV file with a line of names."""
    with Path(name).open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        writer.writerows(zip(*(np.asarray(column).tolist() for column in columns.values()), strict=True))


def write_files() -> None:
    """Write the files of all tests into the working folder."""
    for name, matrix in {"X": X, "Y": Y, "Z": Z, "w": WEIGHTS, "y": Y[:, 0]}.items():
        np.save(f"{name}.npy", matrix)
    scipy.sparse.save_npz("S.npz", scipy.sparse.csr_array(np.where(abs(X) > 1, X, 0.0)))
    np.savez("both.npz", X=X, Y=Y)
    table("people.csv", PEOPLE)
    table("big.csv", {"big": 1000 * X[:, 0], "u": X[:, 1], "v": X[:, 2], "w": X[:, 3]})


def run(line: str | Iterable[object], code: int = 0) -> tuple[str, str]:
    """Output and errors of a command, which is words, or one text of words without blanks."""
    words = line.split() if isinstance(line, str) else [*map(str, line)]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == code, f"{result.output}\n{result.stderr}\n{result.exc_info}"
    return result.stdout, result.stderr


def refusal(line: str | Iterable[object], code: int = 2) -> str:
    """The one printable line with which a command refuses before it computes anything."""
    out, said = run(line, code)
    assert out == ""
    assert said.startswith("Error: ")
    assert said.count("\n") == 1
    assert said.strip().isprintable()
    return said


def rows_of(text: str, start: int = 0) -> tuple[list[str], np.ndarray]:
    """The head of a table of CSV, and the numbers from a column on."""
    head, *rows = csv.reader(text.splitlines())
    return head, np.array([[float(cell) for cell in row[start:]] for row in rows])
