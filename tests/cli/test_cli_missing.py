"""`--drop-missing`: the answer is that of files from which the rows were dropped by hand, whatever lacks a value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("click")

import scipy.sparse
from click.testing import CliRunner

import linspec as ls
from linspec.cli import data, main

N = 60
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 4))
Y = X[:, :2] + RNG.standard_normal((N, 2))
WEIGHTS = RNG.integers(1, 4, N).astype(float)
CONFOUNDS = RNG.standard_normal((N, 2))
KIND = np.array(["oak" if value > 0 else "elm" for value in X[:, 0]])

GAPS: dict[str, list[int]] = {
    "X": [0, 7, 59],
    "Y": [7, 20],
    "weights": [31],
    "confounds": [33, 0],
    "kind": [40],
}
"""The rows of each input that lack a value."""


def run(*args: object, code: int = 0) -> tuple[str, str]:
    result = CliRunner().invoke(main, [str(arg) for arg in args])
    assert result.exit_code == code, f"{result.output}\n{result.stderr}\n{result.exc_info}"
    return result.stdout, result.stderr


def without(*inputs: str) -> np.ndarray:
    """Which rows are complete in all of some inputs."""
    keep = np.ones(N, dtype=bool)
    keep[[row for name in inputs for row in GAPS[name]]] = False
    return keep


def with_gaps(matrix: np.ndarray, rows: list[int]) -> np.ndarray:
    """The matrix, with one number of each of these rows missing."""
    found = matrix.astype(float).copy()
    for i, row in enumerate(rows):
        found[(row, i % found.shape[1]) if found.ndim == 2 else row] = np.nan
    return found


def write(folder: Path, name: str, suffix: str, matrix: np.ndarray, rows: list[int]) -> Path:
    """A file that lacks a value in each of these rows, in one of the ways of its format."""
    path = folder / f"{name}{suffix}"
    columns = np.atleast_2d(matrix.T)
    names = [f"{name}{j}" for j in range(len(columns))] if len(columns) > 1 else [name]
    holes = {(row, i % len(columns)) for i, row in enumerate(rows)}
    if suffix == ".npy":
        np.save(path, with_gaps(matrix, rows))
    elif suffix == ".npz":
        scipy.sparse.save_npz(path, scipy.sparse.csr_array(np.atleast_2d(with_gaps(matrix, rows).T).T))
    elif suffix == ".parquet":
        pa = pytest.importorskip("pyarrow", reason="no pyarrow")
        pytest.importorskip("narwhals", reason="no narwhals")
        from pyarrow import parquet as pq

        lists = [
            [None if (i, j) in holes else v for i, v in enumerate(c.tolist())] for j, c in enumerate(columns)
        ]
        pq.write_table(pa.table(dict(zip(names, lists, strict=True))), path, row_group_size=25)
    else:
        ways = (
            iter(["NA", "", "nan", "?", "NULL", "n/a"] * 10) if len(columns) > 1 else iter(["NA", "?"] * 10)
        )
        lines = [
            ",".join(next(ways) if (i, j) in holes else str(c[i]) for j, c in enumerate(columns))
            for i in range(N)
        ]
        path.write_text("\n".join([",".join(names), *lines]) + "\n")
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npy", ".npz"])
def test_rows_leave_all_files_together(tmp_path: Path, suffix: str) -> None:
    files = {
        name: write(tmp_path, name, suffix, matrix, GAPS[name])
        for name, matrix in [("X", X), ("Y", Y), ("weights", WEIGHTS), ("confounds", CONFOUNDS)]
    }
    keep = without("X", "Y", "weights", "confounds")
    command = ("cca", files["X"], files["Y"], "-k", 2, "--ridge", 1)
    command += ("--sample-weight", files["weights"], "--confounds", files["confounds"])
    out, told = run("solve", *command, "--drop-missing", "--out", tmp_path / "r.npz")
    assert told == (f"--drop-missing: {N - keep.sum()} of {N} rows lack a value and are left out.\n")
    assert f"{keep.sum()} x 4" in out
    exact = ls.solve(
        ls.CCA(X[keep], Y[keep], 2, ridge=1.0, sample_weight=WEIGHTS[keep], confounds=CONFOUNDS[keep]),
        "direct",
    )
    found = ls.load_solution(tmp_path / "r.npz")
    np.testing.assert_allclose(found.correlations, exact.correlations, rtol=1e-9)
    np.testing.assert_allclose(found.x_weights, exact.x_weights, rtol=1e-6)

    both = ("transform", tmp_path / "r.npz", files["X"], files["Y"], "--confounds", files["confounds"])
    _, told = run(*both, "--drop-missing", "--out", tmp_path / "s.npy")
    some = without("X", "Y", "confounds")
    assert f"{N - some.sum()} of {N} rows" in told
    scores = np.hstack(found.transform(X[some], Y[some], confounds=CONFOUNDS[some]))
    np.testing.assert_allclose(np.load(tmp_path / "s.npy"), scores, rtol=1e-12)

    _, said = run("solve", *command, code=2)
    assert "--drop-missing" in said


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_labels_and_columns_of_one_file(tmp_path: Path, suffix: str) -> None:
    """Rows count where a column that is read lacks a value, and not for others."""
    rows = [[*(repr(float(v)) for v in X[i]), KIND[i], ""] for i in range(N)]
    for row in GAPS["X"]:
        rows[row][1] = ""
    for row in GAPS["kind"]:
        rows[row][4] = "NA"
    path = tmp_path / "all.csv"
    path.write_text("\n".join(["a,b,c,d,kind,empty", *(",".join(row) for row in rows)]) + "\n")
    if suffix == ".parquet":
        pq = pytest.importorskip("pyarrow.parquet", reason="no pyarrow")
        from pyarrow import csv

        nothing = csv.ConvertOptions(null_values=["", "NA"], strings_can_be_null=True)
        pq.write_table(csv.read_csv(path, convert_options=nothing), tmp_path / "all.parquet")
        path = tmp_path / "all.parquet"
    keep = without("X", "kind")
    named = ("discriminant", path, "--columns", "a..d", "--target-column", "kind")
    _, told = run("solve", *named, "--drop-missing", "--out", tmp_path / "r.npz")
    assert "4 of 60 rows lack a value" in told
    exact = ls.solve(ls.Discriminant(X[keep], ls.targets.lda(KIND[keep])))
    np.testing.assert_allclose(ls.load_solution(tmp_path / "r.npz").eigenvalues, exact.eigenvalues, rtol=1e-9)
    compared, told = run("compare", *named, "--drop-missing", "--solvers", "direct,two-stage")
    assert told.count("4 of 60 rows") == 1
    assert f"{exact.eigenvalues.sum():.6g}" in compared
    _, told = run("solve", "svd", path, "--columns", "c,d", "-k", 1, "--drop-missing")
    assert told == "--drop-missing: 0 of 60 rows lack a value and are left out.\n"
    _, said = run("solve", *named, code=2)
    assert "--drop-missing" in said
    _, said = run("solve", "svd", path, "--columns", "a,c,empty", "-k", 1, "--drop-missing", code=2)
    assert "60 of 60 rows lack a value" in said
    _, said = run("solve", "svd", path, "--columns", "a,kind", "-k", 1, "--drop-missing", code=2)
    assert "kind" in said


def test_files_of_unequal_length_are_not_paired(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", with_gaps(X, [1]))
    np.save(tmp_path / "Y.npy", Y[:-1])
    command = ("solve", "cca", tmp_path / "X.npy", tmp_path / "Y.npy", "-k", 1, "--drop-missing")
    assert "equally many rows: X, Y" in run(*command, code=2)[1]
    np.save(tmp_path / "Y.npy", np.full((N, 2), np.nan))
    assert "60 of 60 rows lack a value" in run(*command, code=2)[1]
    np.save(tmp_path / "Y.npy", np.where(np.arange(2 * N).reshape(N, 2) == 5, np.inf, Y))
    assert "finite" in run(*command, code=2)[1]


@pytest.mark.parametrize("kind", [".parquet", "*.parquet", ".npy", "*.npy"])
def test_what_is_read_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Large files, and several, are filtered in every pass."""
    monkeypatch.setattr(data, "SHARE", 0.0)
    monkeypatch.setattr(data, "BLOCK", 64)
    suffix = kind.removeprefix("*")
    path: Any = write(tmp_path, "X", suffix, X, GAPS["X"])
    if kind.startswith("*"):
        halves = [(X[:30], [0, 7], "1"), (X[30:], [29], "2")]
        path.unlink()
        for half, rows, number in halves:
            whole = np.vstack([half, half])  # `write` makes files of N rows
            made = write(tmp_path, "X", suffix, whole, rows)
            made.rename(tmp_path / f"part{number}{suffix}")
        matrix = np.vstack([X[:30], X[:30], X[30:], X[30:]])
        keep = np.ones(2 * N, dtype=bool)
        keep[[0, 7, N + 29]] = False
        path = tmp_path / f"part*{suffix}"
    else:
        matrix, keep = X, without("X")
    out, told = run("solve", "svd", path, "-k", 2, "--center", "--drop-missing", "--out", tmp_path / "r.npz")
    assert f"3 of {len(keep)} rows" in told
    assert "A=ChosenRows(" in out
    kept = matrix[keep] - matrix[keep].mean(axis=0)
    np.testing.assert_allclose(
        ls.load_solution(tmp_path / "r.npz").S, np.linalg.svd(kept, compute_uv=False)[:2], rtol=1e-6
    )
