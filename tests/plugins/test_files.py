"""Rows in zarr, HDF5, AnnData and Parquet files: the answers of arrays in memory, in as many passes."""

from __future__ import annotations

import os
import pickle
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from backends import check_operator

import linspec as ls
from linspec.errors import AccuracyWarning, InvalidProblem, NonFiniteData
from linspec.operators import RowFiles

pytest.importorskip("linspec_files")

N, P = 900, 12


@pytest.fixture(autouse=True)
def _small_slabs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slabs of some dozen rows, so that small data have many."""
    monkeypatch.setattr("linspec_files.slabs.SLAB_BYTES", 8 * P * 64)


def dense() -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.standard_normal((N, 4)) @ rng.standard_normal((4, P)) + 0.1 * rng.standard_normal((N, P)) + 3.0


def sparse() -> Any:
    return scipy.sparse.random_array((N, P), density=0.2, rng=np.random.default_rng(1), format="csr")


def write_zarr(path: Path, A: np.ndarray, **more: Any) -> str:
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array(str(path), shape=A.shape, dtype=A.dtype, **{"chunks": (50, 5), **more})
    array[:] = A
    return str(path)


def _packed(values: np.ndarray) -> dict[str, Any]:
    return {"chunks": (min(100, values.size),), "compression": "gzip"} if values.size else {}


def write_sparse(group: Any, matrix: Any, make: Any) -> None:
    """A matrix as AnnData writes it, by rows or by columns."""
    group.attrs["encoding-type"] = f"{matrix.format}_matrix"
    group.attrs["encoding-version"] = "0.1.0"
    group.attrs["shape"] = list(matrix.shape) if make == "zarr" else np.asarray(matrix.shape)
    for part in ("data", "indices", "indptr"):
        values = getattr(matrix, part)
        if make == "zarr":
            array = group.create_array(
                part, shape=values.shape, chunks=(max(1, min(100, values.size)),), dtype=values.dtype
            )
            array[:] = values
        else:
            group.create_dataset(part, data=values, **_packed(values))


def write_h5ad(path: Path, matrix: Any) -> str:
    """An AnnData by its format: X sparse, a layer dense, an embedding, and the frames of labels."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file.attrs["encoding-type"] = "anndata"
        write_sparse(file.create_group("X"), matrix, "hdf5")
        file.create_group("layers").create_dataset("dense", data=matrix.toarray())
        file.create_group("obsm").create_dataset("X_pca", data=matrix.toarray()[:, :3])
        for name, count, label in (("obs", matrix.shape[0], "cell"), ("var", matrix.shape[1], "gene")):
            group = file.create_group(name)
            group.attrs["_index"] = "_index"
            group.create_dataset("_index", data=[f"{label}{i}" for i in range(count)])
    return str(path)


def write_parquet(path: Path, A: np.ndarray, group: int = 70, first: int = 0) -> str:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    table = pa.table({f"c{j + first}": A[:, j] for j in range(A.shape[1])})
    pq.write_table(table, path, row_group_size=group)
    return str(path)


def write(kind: str, folder: Path) -> tuple[Any, Any]:
    """Data of a kind, and the same in memory."""
    A = dense()
    if kind == "zarr2":
        return write_zarr(folder / "a.zarr", A, zarr_format=2), A
    if kind == "zarr3":
        return write_zarr(folder / "a.zarr", A), A
    if kind == "sharded":
        return write_zarr(folder / "a.zarr", A, shards=(150, 10)), A
    if kind == "zarr-csr":
        zarr = pytest.importorskip("zarr")
        write_sparse(zarr.open_group(str(folder / "a.zarr"), mode="w"), sparse(), "zarr")
        return str(folder / "a.zarr"), sparse()
    if kind in ("h5", "contiguous"):
        h5py = pytest.importorskip("h5py")
        with h5py.File(folder / "a.h5", "w") as file:
            file.create_dataset("a", data=A, chunks=(50, 5) if kind == "h5" else None)
        return str(folder / "a.h5"), A
    if kind == "h5-csr":
        h5py = pytest.importorskip("h5py")
        with h5py.File(folder / "a.h5", "w") as file:
            write_sparse(file.create_group("a"), sparse(), "hdf5")
        return str(folder / "a.h5"), sparse()
    if kind == "h5ad":
        return write_h5ad(folder / "a.h5ad", sparse()), sparse()
    if kind == "parquet":
        return write_parquet(folder / "a.parquet", A), A
    for i, (start, stop) in enumerate([(0, 100), (100, 650), (650, N)]):
        write_parquet(folder / f"part{i}.parquet", A[start:stop], group=17 if i else 1000)
    return str(folder / "part*.parquet"), A


KINDS = (
    "zarr2",
    "zarr3",
    "sharded",
    "zarr-csr",
    "h5",
    "contiguous",
    "h5-csr",
    "h5ad",
    "parquet",
    "glob",
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow(keep=2)
def test_the_laws_of_operators_hold(kind: str, tmp_path: Path) -> None:
    path, A = write(kind, tmp_path)
    operator = ls.open_rows(path)
    assert len(operator.source.edges) > 5  # several slabs; none ends where a block does
    assert not check_operator(operator, entries=A.toarray() if scipy.sparse.issparse(A) else A)
    assert operator.sparse == scipy.sparse.issparse(A)


@pytest.mark.parametrize(
    ("kind", "form"), [*((kind, "implicit") for kind in KINDS), ("zarr3", "auto"), ("h5-csr", "auto")]
)
def test_answers_and_passes_are_those_of_arrays(kind: str, form: str, tmp_path: Path) -> None:
    path, A = write(kind, tmp_path)
    exact = A.toarray() if scipy.sparse.issparse(A) else A
    singular = np.linalg.svd(exact - exact.mean(axis=0), compute_uv=False)[:3]
    settings: dict[str, Any] = {"form": form, "rng": 0, "tol": 1e-10}
    found = ls.solve(ls.SVD(ls.open_rows(path), k=3, center=True), "block-krylov", **settings)
    held = ls.solve(ls.SVD(exact, k=3, center=True), "block-krylov", **{**settings, "form": form})
    assert found.converged
    np.testing.assert_allclose(found.S, singular, rtol=1e-10)
    if form == "auto" or not scipy.sparse.issparse(A):
        assert found.passes == held.passes


def test_two_files_are_read_in_one_pass(tmp_path: Path) -> None:
    A = dense()
    zarr, parquet = write_zarr(tmp_path / "x.zarr", A[:, :7]), write_parquet(tmp_path / "y.parquet", A[:, 7:])
    files, arrays = (ls.open_rows(zarr), ls.open_rows(parquet)), (A[:, :7], A[:, 7:])
    moments = ls.Moments(*files, form="implicit")
    moments.products(np.eye(7), np.eye(A.shape[1] - 7))
    assert moments.passes == 1
    settings: dict[str, Any] = {"form": "implicit", "rng": 0, "tol": 1e-8}
    found, held = (ls.solve(ls.CCA(*views, k=2), "lobpcg", **settings) for views in (files, arrays))
    np.testing.assert_allclose(found.correlations, held.correlations, rtol=1e-12)
    assert found.passes == held.passes
    assert found.column_names["Y"] == ("c0", "c1", "c2", "c3", "c4")


def test_solvers_that_draw_rows_take_them(tmp_path: Path) -> None:
    A = dense()
    b = A @ np.arange(P)
    path = write_zarr(tmp_path / "a.zarr", A)
    found = ls.solve(ls.LeastSquares(ls.open_rows(path), b), "svrg", rng=0, tol=1e-3)
    assert found.converged
    assert np.linalg.norm(A.T @ (A @ found.x - b)) <= 1e-3 * np.linalg.norm(A.T @ b)


def test_rows_by_number_come_in_the_order_asked_for(tmp_path: Path) -> None:
    for kind in ("zarr3", "h5-csr", "glob"):
        folder = tmp_path / kind
        folder.mkdir()
        path, A = write(kind, folder)
        A = A.toarray() if scipy.sparse.issparse(A) else A
        numbers = np.random.default_rng(0).integers(0, N, 50)
        np.testing.assert_array_equal(ls.open_rows(path).rows(numbers).dense(), A[numbers])


@pytest.mark.parametrize("kind", ["zarr3", "h5", "h5ad", "glob"])
def test_operators_pickle(kind: str, tmp_path: Path) -> None:
    path, _ = write(kind, tmp_path)
    operator = ls.open_rows(path)
    product = operator.matmat(np.eye(P))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(operator)).matmat(np.eye(P)), product)


def test_objects_of_the_libraries_are_data(tmp_path: Path) -> None:
    zarr, h5py = pytest.importorskip("zarr"), pytest.importorskip("h5py")
    path, A = write("zarr3", tmp_path)
    assert np.array_equal(ls.as_operator(zarr.open(path, mode="r")).dense(), A)
    path, A = write("h5-csr", tmp_path)
    with h5py.File(path) as file:
        np.testing.assert_array_equal(ls.as_operator(file).dense(), A.toarray())
        np.testing.assert_array_equal(ls.as_operator(file["a"]).dense(), A.toarray())
        dataset = file["a"]
    with pytest.raises(InvalidProblem, match="closed"):
        ls.as_operator(dataset)


def test_paths_are_data(tmp_path: Path) -> None:
    path, A = write("glob", tmp_path)
    np.testing.assert_array_equal(ls.as_operator(str(tmp_path / "part0.parquet")).dense(), A[:100])
    path, A = write("zarr3", tmp_path)
    found = ls.solve(ls.SVD(path, k=2, center=True))
    np.testing.assert_allclose(found.S, ls.solve(ls.SVD(A, k=2, center=True)).S, rtol=1e-12)


def test_a_folder_of_zarr_needs_no_ending(tmp_path: Path) -> None:
    for version in (2, 3):
        A = dense()
        path = write_zarr(tmp_path / f"store{version}", A, zarr_format=version)
        np.testing.assert_array_equal(ls.as_operator(path).dense(), A)


# ---- AnnData ------------------------------------------------------------------------------------


def test_annotated_data_have_names(tmp_path: Path) -> None:
    path = write_h5ad(tmp_path / "cells.h5ad", sparse())
    found = ls.solve(ls.SVD(ls.open_rows(path), k=2, center=True, left=True))
    assert found.column_names["A"][:2] == ("gene0", "gene1")
    assert found.scores_table(library="")[0]["row"] == "cell0"
    layer, embedding = ls.open_rows(path, part="layers/dense"), ls.open_rows(path, part="obsm/X_pca")
    assert layer.column_names == tuple(f"gene{j}" for j in range(P))
    assert embedding.shape == (N, 3)
    assert embedding.column_names is None
    np.testing.assert_array_equal(layer.dense(), sparse().toarray())


@pytest.mark.parametrize("suffix", ["h5ad", "zarr"])
@pytest.mark.parametrize(
    ("lacking", "names"),
    [
        ((), ("gene0", "gene1", "gene2")),
        ((1,), ("gene0", "<NA>", "gene2")),  # as pandas shows it
        ((0, 1), None),  # two names that are equal identify no columns
    ],
)
def test_nullable_names_are_read(
    suffix: str, lacking: tuple[int, ...], names: tuple[str, ...] | None, tmp_path: Path
) -> None:
    """The layout that anndata 0.13 writes by default, here without it: values, and a mask of those that lack."""
    package = pytest.importorskip("h5py" if suffix == "h5ad" else "zarr")
    path = tmp_path / f"a.{suffix}"
    file = package.File(path, "w") if suffix == "h5ad" else package.open_group(str(path), mode="w")
    put = file.create_dataset if suffix == "h5ad" else file.create_array

    def text(*labels: str) -> np.ndarray:
        return np.array(labels, dtype=object if suffix == "h5ad" else np.dtypes.StringDType())

    file.attrs["encoding-type"] = "anndata"
    put("X", data=dense()[:2, :3])
    for frame in ("obs", "var"):
        file.create_group(frame).attrs["_index"] = "labels"
    genes = file.create_group("var/labels")
    genes.attrs["encoding-type"] = "nullable-string-array"
    genes.attrs["na-value"] = "NA"
    put("var/labels/values", data=text("gene0", "gene1", "gene2"))
    put("var/labels/mask", data=np.isin(np.arange(3), lacking))
    file.create_group("obs/labels")  # categories that are nullable themselves
    put("obs/labels/codes", data=np.array([1, 0], dtype=np.int8))
    file.create_group("obs/labels/categories").attrs["encoding-type"] = "nullable-string-array"
    put("obs/labels/categories/values", data=text("cell0", "cell1"))
    put("obs/labels/categories/mask", data=np.zeros(2, dtype=bool))
    if suffix == "h5ad":
        file.close()
    found = ls.open_rows(path)
    np.testing.assert_array_equal(found.dense(), dense()[:2, :3])
    assert found.column_names == names
    assert list(found.row_names) == ["cell1", "cell0"]


def write_h5(path: Path, matrix: Any) -> str:
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        if scipy.sparse.issparse(matrix):
            write_sparse(file.create_group("a"), matrix, "hdf5")
        else:
            file.create_dataset("a", data=matrix, chunks=(50, 5))
    return str(path)


def write_sparse_zarr(path: Path, matrix: Any) -> str:
    zarr = pytest.importorskip("zarr")
    write_sparse(zarr.open_group(str(path), mode="w"), matrix, "zarr")
    return str(path)


@pytest.mark.parametrize("kind", ["zarr", "h5", "h5ad"])
def test_compressed_columns_are_turned(kind: str, tmp_path: Path) -> None:
    matrix = sparse().tocsc()
    matrix.data[:5] = 0.0  # stored zeros stay stored
    makers = {"zarr": write_sparse_zarr, "h5": write_h5, "h5ad": write_h5ad}
    operator = ls.open_rows(makers[kind](tmp_path / f"a.{kind}", matrix))
    assert operator.sparse
    assert operator.nnz == matrix.nnz
    np.testing.assert_array_equal(operator.dense(), matrix.toarray())
    assert not check_operator(operator, entries=matrix.toarray())
    if kind == "h5ad":
        assert operator.column_names[-1] == f"gene{P - 1}"
        assert operator.row_names[-1] == f"cell{N - 1}"


@pytest.mark.parametrize("shape", [(0, 4), (5, 0), (1, 1), (40, 3), (3, 40)])
def test_compressed_columns_of_any_shape_are_turned(shape: tuple[int, int], tmp_path: Path) -> None:
    matrix = scipy.sparse.random_array(shape, density=0.3, rng=np.random.default_rng(2), format="csc")
    found = ls.open_rows(write_sparse_zarr(tmp_path / "a.zarr", matrix))
    np.testing.assert_array_equal(found.dense(), matrix.toarray())


class AnnData:
    """The part of an `anndata.AnnData` that the adapter uses."""

    def __init__(self, X: Any, genes: Any = None) -> None:
        self.X = X
        self.obs_names = [f"cell{i}" for i in range(N)]
        self.var_names = [f"gene{j}" for j in range(P)] if genes is None else genes


AnnData.__module__ = "anndata._core.anndata"


@pytest.mark.parametrize("kind", ["dense", "csr", "csc", "backed"])
def test_annotated_objects_are_data(kind: str, tmp_path: Path) -> None:
    matrix = dense() if kind in ("dense", "backed") else sparse().asformat(kind)
    exact = matrix.toarray() if scipy.sparse.issparse(matrix) else matrix
    if kind == "backed":
        h5py = pytest.importorskip("h5py")
        matrix = h5py.File(write_h5(tmp_path / "a.h5", matrix))["a"]
    found = ls.solve(ls.SVD(AnnData(matrix), k=2, center=True, left=True))
    np.testing.assert_allclose(found.S, np.linalg.svd(exact - exact.mean(axis=0))[1][:2], rtol=1e-6)
    assert found.column_names["A"] == tuple(f"gene{j}" for j in range(P))
    assert found.scores_table(library="")[0]["row"] == "cell0"


def test_annotated_objects_without_a_matrix_or_names() -> None:
    with pytest.raises(InvalidProblem, match=r"has no X\. Pass a layer"):
        ls.as_operator(AnnData(None))
    assert ls.as_operator(AnnData(dense(), ["same"] * P)).column_names is None


def test_sparse_matrices_that_anndata_has_opened_are_data(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")

    class _CSCDataset:
        def __init__(self, group: Any) -> None:
            self.group = group

    _CSCDataset.__module__ = "anndata._core.sparse_dataset"
    with h5py.File(write_h5(tmp_path / "a.h5", sparse().tocsc())) as file:
        found = ls.as_operator(_CSCDataset(file["a"]))
        np.testing.assert_array_equal(found.dense(), sparse().toarray())


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("make", [scipy.sparse.csr_matrix, scipy.sparse.csc_matrix, np.asarray])
def test_the_package_itself_agrees(make: Any, tmp_path: Path) -> None:
    """With anndata, where it is installed: what it writes and opens is what it holds."""
    anndata = pytest.importorskip("anndata")
    exact = sparse().toarray()
    cells = anndata.AnnData(make(exact), layers={"counts": make(2 * exact)})
    cells.var_names = [f"gene{j}" for j in range(P)]
    cells.write_h5ad(tmp_path / "a.h5ad")
    cells.write_zarr(tmp_path / "a.zarr")
    backed = anndata.read_h5ad(tmp_path / "a.h5ad", backed="r")
    stored = [ls.open_rows(tmp_path / name) for name in ("a.h5ad", "a.zarr")]
    objects = [cells, cells[:, :], backed]
    for operator in (*stored, *map(ls.as_operator, objects)):
        np.testing.assert_array_equal(operator.dense(), exact)
        assert operator.column_names == tuple(cells.var_names)
    np.testing.assert_array_equal(ls.open_rows(tmp_path / "a.h5ad", part="layers/counts").dense(), 2 * exact)
    backed.file.close()
    some = ls.as_operator(cells[:, ["gene3", "gene1"]])
    np.testing.assert_array_equal(some.dense(), exact[:, [3, 1]])
    assert some.column_names == ("gene3", "gene1")


# ---- several files ------------------------------------------------------------------------------

CUTS = ((0, 100), (100, 100), (100, 650), (650, N))
"""The second file has no rows."""


def write_npz(path: Path, matrix: Any) -> str:
    if scipy.sparse.issparse(matrix):
        scipy.sparse.save_npz(path, matrix)
    else:
        np.savez_compressed(path, a=matrix)
    return str(path)


def write_npy(path: Path, matrix: Any) -> str:
    np.save(path, matrix)
    return str(path)


MANY: dict[str, tuple[Any, str]] = {
    "zarr": (write_zarr, "zarr"),
    "zarr-csr": (write_sparse_zarr, "zarr"),
    "zarr-csc": (write_sparse_zarr, "zarr"),
    "h5": (write_h5, "h5"),
    "h5ad-csr": (write_h5ad, "h5ad"),
    "h5ad-csc": (write_h5ad, "h5ad"),
    "npy": (write_npy, "npy"),
    "npz": (write_npz, "npz"),
    "npz-csr": (write_npz, "npz"),
    "npz-csc": (write_npz, "npz"),
}


def write_many(kind: str, folder: Path) -> tuple[str, np.ndarray]:
    make, suffix = MANY[kind]
    _, _, form = kind.partition("-")
    whole = sparse() if form else dense()
    for i, (start, stop) in enumerate(CUTS):
        if start < stop or form:  # zarr and HDF5 have no chunks of no rows
            rows = whole[start:stop]
            make(folder / f"day{i}.{suffix}", rows.asformat(form) if form else rows)
    return str(folder / f"day*.{suffix}"), whole.toarray() if form else whole


@pytest.mark.parametrize("kind", MANY)
@pytest.mark.slow(keep=2)
def test_files_of_a_pattern_are_one_matrix(kind: str, tmp_path: Path) -> None:
    pattern, exact = write_many(kind, tmp_path)
    operator = ls.open_rows(pattern)
    assert not check_operator(operator, entries=exact)
    again = pickle.loads(pickle.dumps(operator))
    np.testing.assert_array_equal(again.dense(), exact)
    found = ls.solve(ls.SVD(operator, k=2, center=True), "block-krylov", form="implicit", rng=0, tol=1e-10)
    np.testing.assert_allclose(found.S, np.linalg.svd(exact - exact.mean(axis=0))[1][:2], rtol=1e-9)
    if kind.startswith("h5ad"):
        assert operator.column_names[0] == "gene0"
        assert len(operator.row_names) == N


@pytest.mark.parametrize(
    "kind, other, what",
    [
        ("zarr", lambda A: A[:, 1:], "in their order"),
        ("zarr", lambda A: A.astype("f4"), "of one dtype"),
        ("npy", lambda A: A[:, 1:], "in their order"),
        ("h5", scipy.sparse.csr_array, "all dense or all sparse"),
    ],
)
def test_a_file_that_differs_is_named_before_any_pass(
    kind: str, other: Any, what: str, tmp_path: Path
) -> None:
    pattern, exact = write_many(kind, tmp_path)
    make, suffix = MANY[kind]
    make(tmp_path / f"day9.{suffix}", other(exact[:50]))
    with pytest.raises(InvalidProblem, match=rf"day9\.{suffix}.* must have the columns of .*day0.*{what}"):
        ls.open_rows(pattern)


def test_a_file_with_other_variables_is_named(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    pattern, _ = write_many("h5ad-csr", tmp_path)
    with h5py.File(tmp_path / "day3.h5ad", "a") as file:
        del file["var/_index"]
        file["var/_index"] = ["other", *(f"gene{j}" for j in range(1, P))]
    with pytest.raises(InvalidProblem, match=r"day3\.h5ad must have the columns of"):
        ls.open_rows(pattern)
    found = ls.open_rows(pattern, columns=["gene4", "gene2"])  # which all have
    np.testing.assert_array_equal(found.dense(), sparse().toarray()[:, [4, 2]])
    assert found.column_names == ("gene4", "gene2")


# ---- faults -------------------------------------------------------------------------------------


def test_chunks_that_are_not_there_are_told(tmp_path: Path) -> None:
    path = write_zarr(tmp_path / "a.zarr", dense())
    (tmp_path / "a.zarr/c/3/1").unlink()
    with pytest.warns(AccuracyWarning, match="lacks 1 of its 54 chunks"):
        ls.open_rows(path)
    with pytest.raises(InvalidProblem, match="lacks 1 of its 54 chunks"):
        ls.open_rows(path, missing="refuse")
    filled = ls.open_rows(path, missing="fill").dense()
    kept = np.ones((N, P), dtype=bool)
    kept[150:200, 5:10] = False
    np.testing.assert_array_equal(filled, np.where(kept, dense(), 0.0))


@pytest.mark.parametrize("missing", ["warn", "nan", "refuse"])
@pytest.mark.parametrize("part", ["data", "indices"])
def test_a_lost_chunk_of_a_sparse_matrix_is_refused(part: str, missing: str, tmp_path: Path) -> None:
    path, _ = write("zarr-csr", tmp_path)
    chunks = sorted(one for one in (Path(path) / part).rglob("*") if one.is_file() and one.suffix != ".json")
    chunks[0].unlink()
    with pytest.raises(InvalidProblem, match=f"{part} lacks 1 of its"):
        ls.open_rows(path, missing=missing)
    assert ls.open_rows(path, missing="fill").shape == (N, P)


def frames_in_parts(folder: Path, A: np.ndarray) -> list[str]:
    """Twelve Parquet files of pandas frames with an index, named as dask names them."""
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    folder.mkdir(parents=True)
    names = [f"c{j}" for j in range(A.shape[1])]
    for i, rows in enumerate(np.array_split(np.arange(len(A)), 12)):
        frame = pd.DataFrame(A[rows], columns=names, index=rows[::-1])
        frame.to_parquet(folder / f"part.{i}.parquet")
    return names


def test_numbers_in_names_count_by_their_value_and_an_index_is_no_column(tmp_path: Path) -> None:
    A = dense()
    names = frames_in_parts(tmp_path / "frames.parquet", A)
    (tmp_path / "frames.parquet" / "_metadata").write_bytes(b"")
    for path in ("frames.parquet", "frames.parquet/*.parquet"):
        found = ls.open_rows(tmp_path / path)
        assert found.column_names == tuple(names)
        np.testing.assert_array_equal(found.dense(), A)
    np.testing.assert_array_equal(ls.as_operator(str(tmp_path / "frames.parquet" / "*.parquet")).dense(), A)


def test_folders_named_by_values_are_not_read_without_them(tmp_path: Path) -> None:
    frames_in_parts(tmp_path / "all" / "year=2020", dense())
    with pytest.raises(InvalidProblem, match="partitioning"):
        ls.open_rows(tmp_path / "all")


@pytest.mark.parametrize("kind", ["filter", "schema", "keys", "in memory", "feather", "whole"])
def test_a_data_set_is_what_arrow_makes_of_it(kind: str, tmp_path: Path) -> None:
    """The rows that Arrow filters, casts and adds columns to, beside the table that it makes of them."""
    pa, ds = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.dataset")
    A = dense()
    frames_in_parts(tmp_path / "all" / "year=2020", A[:500])
    frames_in_parts(tmp_path / "all" / "year=2021", A[500:])
    data, table = ds.dataset(tmp_path / "all"), pa.table({f"c{j}": A[:, j] for j in range(P)})
    if kind == "filter":
        data = data.filter(ds.field("c0") > 3)
    if kind == "schema":
        data = ds.dataset(tmp_path / "all", schema=pa.schema([("c3", pa.float32()), ("c1", pa.float64())]))
    if kind == "keys":
        data = ds.dataset(tmp_path / "all", partitioning="hive")
    if kind == "in memory":
        data = ds.dataset(table)
    if kind == "feather":
        ds.write_dataset(table, tmp_path / "feather", format="feather")
        data = ds.dataset(tmp_path / "feather", format="feather")
    whole = data.to_table().to_pandas().reset_index(drop=True)  # the index is no column
    found = ls.as_operator(data)
    assert found.shape == whole.shape
    assert found.column_names == tuple(whole.columns)
    plain = ls.solve(ls.SVD(whole.to_numpy(), k=2, center=True), "gram")
    solved = ls.solve(ls.SVD(found, k=2, center=True), "gram")
    np.testing.assert_allclose(solved.S, plain.S, rtol=1e-6 if kind == "schema" else 1e-12)


def test_an_entry_that_is_not_finite_is_named(tmp_path: Path) -> None:
    A = dense()
    A[777, 5] = np.nan
    with pytest.raises(NonFiniteData, match="nan at row 777, column 5"):
        ls.solve(ls.SVD(write_zarr(tmp_path / "a.zarr", A), k=2))


def test_an_error_of_the_thread_ahead_is_raised_and_leaves_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = ls.open_rows(write_zarr(tmp_path / "a.zarr", dense()))
    read = operator.source.read

    def failing(start: int, stop: int) -> Any:
        if start >= 100:
            raise OSError("the disk has gone")
        return read(start, stop)

    monkeypatch.setattr(operator.source, "read", failing)
    with pytest.raises(
        InvalidProblem, match=r"rows 100 to \d+ cannot be read \(OSError: the disk has gone\)"
    ):
        operator.matmat(np.eye(P))
    monkeypatch.setattr(operator.source, "read", read)
    assert operator.matmat(np.eye(P)).shape == (N, P)  # and the operator can be used again


def test_a_run_that_is_given_up_leaves_no_thread(tmp_path: Path) -> None:
    operator = ls.open_rows(write_zarr(tmp_path / "a.zarr", dense()))

    def stop(progress: ls.Progress) -> bool:
        raise KeyError("enough")

    before = threading.active_count()
    with pytest.raises(KeyError):
        ls.solve(ls.SVD(operator, k=2), "block-krylov", form="implicit", rng=0, callback=stop)
    for thread in threading.enumerate():
        if thread.name.startswith("linspec-read-ahead"):
            thread.join()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("linspec-read-ahead")], (
        before
    )


def test_files_are_stated_before_they_are_opened(tmp_path: Path) -> None:
    with pytest.raises(InvalidProblem, match="no file fits the pattern"):
        ls.open_rows(tmp_path / "*.parquet")
    with pytest.raises(InvalidProblem, match="there is no such file"):
        ls.open_rows(tmp_path / "a.zarr")
    (tmp_path / "a.h5").write_bytes(b"any")
    (tmp_path / "b.parquet").write_bytes(b"any")
    with pytest.raises(
        InvalidProblem, match=r"must have one format; got files of the formats \.h5, \.parquet"
    ):
        ls.open_rows([tmp_path / "a.h5", tmp_path / "b.parquet"])
    assert RowFiles(("a.ZARR",)).suffix == ".zarr"


def test_a_large_row_group_is_read_in_parts(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    A = np.random.default_rng(0).standard_normal((60_000, P))
    table, path = pa.table({f"c{j}": A[:, j] for j in range(P)}), tmp_path / "a.parquet"
    pq.write_table(
        table, path, compression=None, use_dictionary=False, data_page_size=20_000, write_batch_size=100
    )
    del table
    operator, before = ls.open_rows(path), pa.total_allocated_bytes()
    most = 0
    for start in range(0, len(A), 2000):
        np.testing.assert_array_equal(
            operator.rows(slice(start, start + 2000)).dense(), A[start : start + 2000]
        )
        most = max(most, pa.total_allocated_bytes() - before)
    assert 0 < most < A.nbytes / 2
    picked = np.random.default_rng(1).integers(0, len(A), 50)
    np.testing.assert_array_equal(operator.rows(picked).dense(), A[picked])


@pytest.mark.parametrize("kind", ["zarr3", "h5", "parquet", "glob"])
def test_a_file_that_changes_between_passes_is_refused(kind: str, tmp_path: Path) -> None:
    path, _ = write(kind, tmp_path)
    operator = ls.open_rows(path)
    operator.matmat(np.eye(P))
    file = {"zarr3": tmp_path / "a.zarr/c/3/1", "glob": tmp_path / "part1.parquet"}.get(kind, Path(path))
    whole = file.read_bytes()
    file.write_bytes(whole + b"\0" * 100)
    with pytest.raises(InvalidProblem, match=r"has changed since|cannot be read"):
        operator.matmat(np.eye(P))
    file.unlink()
    with pytest.raises(InvalidProblem, match=r"has changed since|cannot be read"):
        operator.matmat(np.eye(P))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
@pytest.mark.parametrize("kind", ["zarr3", "parquet"])
def test_a_forked_child_decodes_by_itself(kind: str, tmp_path: Path) -> None:
    """Threads that decode ahead, and the place in an open file, are of the parent."""
    A = dense()
    path = (
        write_parquet(tmp_path / "a.parquet", A, group=N) if kind == "parquet" else write(kind, tmp_path)[0]
    )
    operator = ls.open_rows(path)
    np.testing.assert_array_equal(operator.rows(slice(0, 200)).dense(), A[:200])
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(operator.dense(), A) else 1)
    np.testing.assert_array_equal(operator.dense(), A)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_columns_are_picked_by_name(tmp_path: Path) -> None:
    path, exact = write_h5ad(tmp_path / "cells.h5ad", sparse()), sparse().toarray()
    for part in ("", "layers/dense"):
        found = ls.open_rows(path, part=part, columns=["gene4", "gene2"])
        assert not check_operator(found, entries=exact[:, [4, 2]])
    with pytest.raises(InvalidProblem, match=r"no column is called 'gen4'"):
        ls.open_rows(path, columns=["gen4"])
    with pytest.raises(InvalidProblem, match="no names"):
        ls.open_rows(path, part="obsm/X_pca", columns=["gene4"])
    with pytest.raises(InvalidProblem, match="no part 'layers/counts'"):
        ls.open_rows(path, part="layers/counts")


def test_every_slab_of_several_files_is_decoded_once_a_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = ls.open_rows(write_many("zarr", tmp_path)[0])
    read, asked = operator.source.read, []
    monkeypatch.setattr(operator.source, "read", lambda *rows: asked.append(rows) or read(*rows))
    moments = ls.Moments(operator, form="implicit")
    for _ in range(2):
        moments.products(np.eye(P))
    assert asked == 2 * list(pairwise(operator.source.edges.tolist()))


def test_slabs_are_smaller_where_memory_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    A = np.random.default_rng(0).standard_normal((60_000, 50))
    np.save(tmp_path / "A.npy", A)
    assert ls.open_rows(tmp_path / "A.npy").buffer_bytes >= A.nbytes  # slabs of 16 MiB
    monkeypatch.setenv("LINSPEC_MAX_MEMORY", "10M")
    few = ls.open_rows(tmp_path / "A.npy")
    assert few.buffer_bytes <= 2.5e6
    found = ls.solve(ls.SVD(few, k=2), "gram")
    assert pytest.approx(np.linalg.svd(A, compute_uv=False)[:2], rel=1e-12) == found.S
