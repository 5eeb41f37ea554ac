"""Rows in files on the command line: by suffix, by part, by pattern and by column."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from click.testing import CliRunner

from linspec.cli import main

h5py, zarr = pytest.importorskip("h5py"), pytest.importorskip("zarr")
pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")

A = np.random.default_rng(0).standard_normal((300, 6)) * [5, 4, 3, 2, 1, 1]


def run(*arguments: object) -> str:
    result = CliRunner().invoke(main, [*map(str, arguments), "--seed", "0"])
    assert result.exit_code == 0, result.output
    return result.output


def refusal(*arguments: object) -> str:
    result = CliRunner().invoke(main, [*map(str, arguments)])
    assert result.exit_code == 2, result.output
    return result.output


def values(output: str) -> list[float]:
    lines = [line.split() for line in output.splitlines()]
    return [float(words[1]) for words in lines if words and words[0].isdigit()]


def expected(matrix: np.ndarray) -> np.ndarray:
    return np.linalg.svd(matrix - matrix.mean(axis=0), compute_uv=False)[:2]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    zarr.create_array(str(tmp_path / "a.zarr"), shape=A.shape, chunks=(70, 6), dtype="f8")[:] = A
    with h5py.File(tmp_path / "a.h5ad", "w") as file:
        file.attrs["encoding-type"] = "anndata"
        file["X"] = A[:, ::-1]
        file["layers/raw"] = A
        for name, count in (("obs", 300), ("var", 6)):
            file[f"{name}/_index"] = [f"{name}{i}" for i in range(count)]
    for i in range(3):
        table = pa.table({f"c{j}": A[100 * i : 100 * (i + 1), j] for j in range(6)})
        pq.write_table(table.append_column("name", pa.array(["x"] * 100)), tmp_path / f"part{i}.parquet")
    return tmp_path


@pytest.mark.parametrize("name", ["a.zarr", "a.h5ad:layers/raw", "part*.parquet:c0..c5"])
def test_answers_are_those_of_the_matrix(files: Path, name: str) -> None:
    out = run("solve", "svd", files / name, "-k", 2, "--center")
    np.testing.assert_allclose(values(out), expected(A), rtol=1e-4)
    assert "FileRows(300 x 6, float64)" in out


def test_columns_are_picked_from_several_files(files: Path) -> None:
    out = run("solve", "svd", files / "part*.parquet", "--columns", "c1,c3", "-k", 2, "--center")
    np.testing.assert_allclose(values(out), expected(A[:, [1, 3]]), rtol=1e-4)
    two = run(
        "solve", "cca", files / "part*.parquet", "--columns", "c0..c2", "--y-columns", "c3..c5", "-k", 1
    )
    assert "largest weights of X" in two


@pytest.mark.parametrize("suffix", ["zarr", "h5", "npy", "npz"])
def test_files_of_a_pattern_are_one_matrix(suffix: str, tmp_path: Path) -> None:
    for i in range(3):
        path, rows = tmp_path / f"day{i}.{suffix}", A[100 * i : 100 * (i + 1)]
        if suffix == "zarr":
            zarr.create_array(str(path), shape=rows.shape, chunks=(70, 6), dtype="f8")[:] = rows
        elif suffix == "h5":
            with h5py.File(path, "w") as file:
                file["a"] = rows
        else:
            np.save(path, rows) if suffix == "npy" else np.savez(path, a=rows, b=rows[:, :2])
    name = f"{tmp_path}/day*.{suffix}{':a' if suffix == 'npz' else ''}"
    out = run("solve", "svd", name, "-k", 2, "--center")
    np.testing.assert_allclose(values(out), expected(A), rtol=1e-4)
    assert f"{'DenseOperator' if suffix == 'npz' else 'FileRows'}(300 x 6, float64)" in out
    if suffix == "npy":
        np.save(tmp_path / "day9.npy", A[:, 1:])
        assert "day9.npy must have the columns of" in refusal("solve", "svd", name, "-k", 2)


def test_names_of_variables_are_kept(files: Path) -> None:
    out = run("solve", "svd", files / "a.h5ad", "-k", 1, "--center", "--out", files / "axes.npz")
    with np.load(files / "axes.npz") as saved:
        header = json.loads(saved["linspec"].tobytes())
    assert "var0" in json.dumps(header["fields"]["column_names"])
    assert "FileRows(300 x 6, float64)" in out


def test_faults_are_one_line(files: Path) -> None:
    assert "no part 'nothing'" in refusal("solve", "svd", files / "a.h5ad:nothing", "-k", 1)
    assert "no column is called 'c9'" in refusal("solve", "svd", files / "part*.parquet:c9", "-k", 1)
    assert "no file fits the pattern" in refusal("solve", "svd", files / "none*.parquet", "-k", 1)
    pq.write_table(pa.table({"other": [1.0]}), files / "part9.parquet")
    assert "part9.parquet must have the columns" in refusal(
        "solve", "svd", files / "part*.parquet:c0", "-k", 1
    )


def test_compressed_sparse_rows(tmp_path: Path) -> None:
    matrix = scipy.sparse.random_array((400, 8), density=0.3, rng=np.random.default_rng(1), format="csr")
    group = zarr.open_group(str(tmp_path / "counts.zarr"), mode="w")
    group.attrs.update({"encoding-type": "csr_matrix", "shape": [400, 8]})
    for part in ("data", "indices", "indptr"):
        array = getattr(matrix, part)
        group.create_array(part, shape=array.shape, dtype=array.dtype, chunks=(64,))[:] = array
    out = run("solve", "svd", tmp_path / "counts.zarr", "-k", 2, "--center")
    np.testing.assert_allclose(values(out), expected(matrix.toarray()), rtol=1e-4)


def test_the_index_of_a_frame_is_no_column(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(A, columns=[f"c{j}" for j in range(6)])
    frame[::-1].to_parquet(tmp_path / "a.parquet")
    out = run("solve", "svd", tmp_path / "a.parquet", "-k", 2, "--center")
    np.testing.assert_allclose(values(out), expected(A), rtol=1e-4)
    out = run("solve", "cca", tmp_path / "a.parquet", "--y-columns", "c0,c1", "-k", 1)
    assert "(300 x 4, float64)" in out


def test_a_folder_is_read_if_all_its_files_are_of_parquet(tmp_path: Path) -> None:
    for number in range(3):
        pq.write_table(pa.table({"a": A[number::3, 0], "b": A[number::3, 1]}), tmp_path / f"{number}.parquet")
    (tmp_path / "_SUCCESS").touch()
    output = run("solve", "svd", tmp_path, "-k", 2, "--center")
    np.testing.assert_allclose(values(output), expected(A[:, :2]), rtol=1e-4)
    np.save(tmp_path / "A.npy", A)
    output = refusal("solve", "svd", tmp_path, "-k", 2)
    assert f"{tmp_path} cannot be read as the rows of one matrix" in output
