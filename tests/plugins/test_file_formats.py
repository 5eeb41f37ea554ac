"""What is peculiar to a format of files: names and labels, gaps, parts, indices that count from 0 or 1, packages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
from written_files import (
    CSC,
    DENSE,
    GENES,
    SPARSE,
    N,
    P,
    entries,
    write_cells,
    write_h5,
    write_h5ad,
    write_matlab,
    write_parquet,
    write_svmlight,
    write_text,
)

pytest.importorskip("click")
pytest.importorskip("linspec_files")

from cli.running import refusal, run

import linspec as ls
from linspec import registry
from linspec.cli.data import names_in, read
from linspec.errors import InvalidOption, InvalidProblem, MissingPackage, NonFiniteData, UnsupportedData
from linspec.operators import RowFiles, names_of_columns, texts_of_column
from linspec.testing import check_operator

RNG = np.random.default_rng(0)


def test_a_vector_is_a_column_in_python_and_a_vector_on_the_command_line(tmp_path: Path) -> None:
    """Coefficients for a vector b are then a vector, too."""
    for name, save in (("b.npy", np.save), ("b.npz", np.savez)):
        save(tmp_path / name, DENSE[:, 0])
        np.testing.assert_array_equal(ls.open_rows(tmp_path / name).dense(), DENSE[:, :1])
    np.testing.assert_array_equal(read(str(tmp_path / "b.npy")), DENSE[:, 0])


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("a.h5ad:nothing", "no part 'nothing'"),
        ("days/*.parquet:c9", "no column is called 'c9'"),
        ("none*.parquet", "no file fits the pattern"),
        ("", "cannot be read as the rows of one matrix"),
    ],
)
def test_the_command_reads_parts_columns_and_folders(place: str, said: str, tmp_path: Path) -> None:
    """A folder of Parquet files is one matrix; what begins with an underscore is none of them."""
    write_h5ad(tmp_path / "a.h5ad", SPARSE)
    (tmp_path / "days").mkdir()
    for i in range(2):
        write_parquet(tmp_path / f"days/{i}.parquet", DENSE)
    (tmp_path / "days/_SUCCESS").touch()
    np.testing.assert_array_equal(read(f"{tmp_path}/a.h5ad:layers/dense").dense(), SPARSE.toarray())
    twice = np.vstack([DENSE, DENSE])
    np.testing.assert_array_equal(read(f"{tmp_path}/days").dense(), twice)
    picked = read(f"{tmp_path}/days/*.parquet:gene1,gene3")
    np.testing.assert_array_equal(picked.dense(), twice[:, [1, 3]])
    assert said in refusal(f"solve svd {tmp_path}/{place} -k 1")


# ---- what is missing, and what is no number ---------------------------------------------------


def gaps(folder: Path, suffix: str) -> Path:
    """A table of numbers and classes, each with a gap."""
    path = folder / f"gaps{suffix}"
    rows = [("1", "2", "oak"), ("3", "", "elm"), ("5", "6", ""), ("7", "8", "oak")]
    if suffix == ".csv":
        path.write_text("\n".join(["a,b,kind", *map(",".join, rows)]) + "\n")
        return path
    pa, pq = pytest.importorskip("pyarrow", reason="no pyarrow"), pytest.importorskip("pyarrow.parquet")
    a, b, kind = ([one or None for one in column] for column in zip(*rows, strict=True))
    numbers = {name: [None if one is None else int(one) for one in c] for name, c in {"a": a, "b": b}.items()}
    pq.write_table(pa.table({**numbers, "kind": kind}), path)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_missing_values_are_named_or_nan(tmp_path: Path, suffix: str) -> None:
    path = gaps(tmp_path, suffix)
    with pytest.raises(NonFiniteData, match="column 'b'"):
        ls.open_rows(path, columns=["a", "b"]).dense()
    found = ls.open_rows(path, columns=["a", "b"], missing="nan")
    np.testing.assert_array_equal(found.dense(), [[1, 2], [3, np.nan], [5, 6], [7, 8]])
    assert ls.open_rows(path, columns=["a"]).dense().ravel().tolist() == [1, 3, 5, 7]
    with pytest.raises(UnsupportedData, match=r"column 'kind'.*columns=, on the command line FILE:~NAME"):
        ls.open_rows(path, columns=["a", "kind"])


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_names_and_texts_of_tables(tmp_path: Path, suffix: str) -> None:
    files = RowFiles((str(gaps(tmp_path, suffix)),))
    assert tuple(names_of_columns(files) or ()) == ("a", "b", "kind")
    kind = RowFiles(files.paths, columns=("kind",), missing="nan")
    assert texts_of_column(kind) == ["oak", "elm", None, "oak"]
    with pytest.raises(NonFiniteData, match="'kind'"):
        texts_of_column(RowFiles(files.paths, columns=("kind",)))
    assert texts_of_column(RowFiles(files.paths, columns=("a",))) is None
    assert texts_of_column(RowFiles(files.paths, columns=("a", "kind"))) is None


def test_a_table_without_names_has_numbers_from_1_on(tmp_path: Path) -> None:
    path = tmp_path / "plain.csv"
    np.savetxt(path, DENSE, fmt="%.17g", delimiter=",")
    assert list(names_of_columns(RowFiles((str(path),))) or ()) == [*range(1, P + 1)]
    assert names_in(str(path)) == []
    np.testing.assert_array_equal(read(f"{path}:2..3").dense(), DENSE[:, 1:3])
    assert ls.open_rows(path).column_names is None


def test_names_that_occur_twice(tmp_path: Path) -> None:
    path = tmp_path / "twice.csv"
    path.write_text("a,b,a\n1,2,3\n4,5,6\n")
    assert ls.open_rows(path).column_names is None
    assert ls.open_rows(path, columns=["b"]).column_names == ("b",)
    np.testing.assert_array_equal(ls.open_rows(path, columns=[2]).dense(), [[3], [6]])
    with pytest.raises(InvalidProblem, match="'a', or several are"):
        ls.open_rows(path, columns=["a"])
    np.testing.assert_array_equal(read(f"{path}:~b").dense(), [[1, 3], [4, 6]])


# ---- AnnData ----------------------------------------------------------------------------------


def test_annotated_data_have_names_parts_and_columns_by_name(tmp_path: Path) -> None:
    path, exact = write_h5ad(tmp_path / "cells.h5ad", SPARSE), SPARSE.toarray()
    found = ls.solve(ls.SVD(ls.open_rows(path), k=2, center=True, left=True))
    assert found.column_names["A"] == GENES
    assert found.scores_table(library="")[0]["row"] == "cell0"
    for part in ("", "layers/dense"):
        assert ls.open_rows(path, part=part).column_names == GENES
        assert not check_operator(
            ls.open_rows(path, part=part, columns=["gene4", "gene2"]), entries=exact[:, [4, 2]]
        )
    embedding = ls.open_rows(path, part="obsm/X_pca")
    assert (embedding.shape, embedding.column_names) == ((N, 3), None)
    for given, said in (
        ({"columns": ["gen4"]}, "no column is called 'gen4'"),
        ({"part": "obsm/X_pca", "columns": ["gene4"]}, "no names"),
        ({"part": "layers/counts"}, "no part 'layers/counts'"),
    ):
        with pytest.raises(InvalidProblem, match=said):
            ls.open_rows(path, **given)


@pytest.mark.parametrize(
    ("lacking", "names"),
    [((), GENES[:3]), ((1,), ("gene0", "<NA>", "gene2")), ((0, 1), None)],  # equal names identify no columns
)
def test_nullable_names_are_read(lacking: Any, names: Any, tmp_path: Path) -> None:
    """The layout that anndata 0.13 writes by default, here without it: values, and a mask of those that lack."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5ad", "w") as file:
        file.attrs["encoding-type"] = "anndata"
        file["X"] = DENSE[:2, :3]
        for frame in ("obs", "var"):
            file.create_group(frame).attrs["_index"] = "labels"
        genes = file.create_group("var/labels")
        genes.attrs.update({"encoding-type": "nullable-string-array", "na-value": "NA"})
        genes["values"], genes["mask"] = GENES[:3], np.isin(np.arange(3), lacking)
        file["obs/labels/codes"] = np.array([1, 0], dtype=np.int8)  # categories that are nullable themselves
        cells = file.create_group("obs/labels/categories")
        cells.attrs["encoding-type"] = "nullable-string-array"
        cells["values"], cells["mask"] = ["cell0", "cell1"], np.zeros(2, dtype=bool)
    found = ls.open_rows(tmp_path / "a.h5ad")
    np.testing.assert_array_equal(found.dense(), DENSE[:2, :3])
    assert found.column_names == names
    assert list(found.row_names) == ["cell1", "cell0"]


@pytest.mark.parametrize("names", [("features/name", "features/id"), ("gene_names", "genes")])
def test_cells_of_10x_genomics_have_names(names: tuple[str, str], tmp_path: Path) -> None:
    """The layout of Cell Ranger since 3, and before; names of genes may occur twice, and ids may not."""
    h5py = pytest.importorskip("h5py")
    path = write_cells(tmp_path / "a.h5", SPARSE, names)
    assert ls.open_rows(path).column_names == GENES
    assert list(ls.open_rows(path)[5:7].row_names) == ["cell5", "cell6"]
    with h5py.File(path, "r+") as file:
        file["matrix"][names[0]][1] = b"gene0"
        file.move("matrix", "GRCh38")
    assert ls.open_rows(path).column_names == tuple(f"id{j}" for j in range(P))
    np.testing.assert_array_equal(ls.open_rows(path, columns=["id4", 2]).dense(), SPARSE.toarray()[:, [4, 2]])


@pytest.mark.parametrize("word", ["scale_factor", "add_offset", "valid_range", "_Unsigned"])
def test_packed_numbers_are_not_taken_for_the_data(tmp_path: Path, word: str) -> None:
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("t", data=np.ones((N, P), "i2")).attrs[word] = 0.01
    with pytest.raises(UnsupportedData, match=r"t holds packed numbers.*xarray"):
        ls.open_rows(path)
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array(tmp_path / "a.zarr", data=np.ones((N, P), "i2"), attributes={word: 0.01})
    with pytest.raises(UnsupportedData, match="packed numbers"):
        ls.as_operator(array)


def hdf5_with(path: Path, values: Any, written: int | None = None, **attributes: Any) -> Path:
    """A dataset of which the first rows are written; the others are filled as netCDF fills them."""
    fill = {"i": -32767, "f": 9.969209968386869e36}[values.dtype.kind] if written else 0
    with pytest.importorskip("h5py").File(path, "w") as file:
        data = file.create_dataset("x", values.shape, values.dtype, fillvalue=fill)
        data[:written] = values[:written]
        data.attrs.update(attributes)
    return path


def zarr_with(path: Path, values: Any, style: int, fill: Any = 0, **attributes: Any) -> Path:
    zarr = pytest.importorskip("zarr")
    options = {"shape": values.shape, "dtype": values.dtype, "chunks": (100, P), "fill_value": fill}
    zarr.create_array(path, zarr_format=style, attributes=attributes, **options)[:] = values
    return path


WHOLE = np.arange(1, N * P + 1, dtype="i2").reshape(N, P) % 90
DECLARED = {
    "_FillValue": lambda path: hdf5_with(path, WHOLE, _FillValue=np.array([7], "i2")),
    "missing_value": lambda path: hdf5_with(path, WHOLE.astype("f4"), missing_value=7.0),
    "half precision": lambda path: hdf5_with(path, WHOLE.astype("f2"), missing_value=7.0),
    "R": lambda path: hdf5_with(path, np.where(WHOLE == 7, np.int32(-(2**31)), WHOLE), **{"rhdf5-NA.OK": 1}),
    "out of range": lambda path: hdf5_with(
        path, WHOLE.astype("f4"), missing_value=[[7, -1.7e308]], _FillValue=7
    ),
    "both": lambda path: hdf5_with(path, WHOLE, _FillValue=np.int16(7), missing_value=np.nan),
    "zarr 2 of xarray": lambda path: zarr_with(path, WHOLE, 2, 7, _ARRAY_DIMENSIONS=["row", "column"]),
    "zarr 3 of xarray, integers": lambda path: zarr_with(path, WHOLE, 3, _FillValue=7),
    "zarr 3 of xarray, floats": lambda path: zarr_with(path, WHOLE * 1.0, 3, _FillValue="AAAAAAAAHEA="),
}
"""Files in which 7 stands for a missing number. The text is that of struct.pack("<d", 7.0) in base64."""


@pytest.mark.parametrize("kind", DECLARED)
def test_numbers_that_stand_for_missing_ones_are_nan(kind: str, tmp_path: Path) -> None:
    path = DECLARED[kind](tmp_path / ("a.zarr" if "zarr" in kind else "a.h5"))
    exact = np.where(WHOLE == 7, np.nan, WHOLE)
    np.testing.assert_array_equal(ls.open_rows(path).dense(), exact)
    with pytest.raises(NonFiniteData, match="row 0, column 6"):
        ls.solve(ls.SVD(path, 2))


@pytest.mark.parametrize("values", [WHOLE, DENSE])
def test_rows_that_netcdf_never_wrote_are_nan(values: Any, tmp_path: Path) -> None:
    found = ls.open_rows(hdf5_with(tmp_path / "a.h5", values, written=800, DIMENSION_LIST=0)).dense()
    np.testing.assert_array_equal(np.isnan(found).all(axis=1), np.arange(N) >= 800)
    np.testing.assert_array_equal(found[:800], values[:800])


def test_a_text_that_names_no_number_is_refused(tmp_path: Path) -> None:
    named = zarr_with(tmp_path / "a.zarr", DENSE, 3, _FillValue="NaN")
    np.testing.assert_array_equal(ls.open_rows(named).dense(), DENSE)
    other = zarr_with(tmp_path / "b.zarr", DENSE, 3, missing_value="none")
    for data in (other, pytest.importorskip("zarr").open_array(other, mode="r")):
        with pytest.raises(InvalidProblem, match="its _FillValue or missing_value cannot be read"):
            ls.as_operator(data)


def test_a_fill_value_alone_declares_nothing_missing(tmp_path: Path) -> None:
    images = np.where(WHOLE == 7, 255, WHOLE).astype("u1")  # white, and the number of netCDF
    for style, values, fill, named in (
        (2, WHOLE, 7, ()),
        (3, WHOLE, 7, ("_ARRAY_DIMENSIONS",)),
        (3, images, 255, ()),
    ):
        path = zarr_with(tmp_path / f"{style} {fill}.zarr", values, style, fill, **dict.fromkeys(named, "ab"))
        np.testing.assert_array_equal(ls.open_rows(path).dense(), values)


def test_what_netcdf_writes_is_a_number_in_another_file(tmp_path: Path) -> None:
    values = np.where(WHOLE == 7, np.int16(-32767), WHOLE)
    np.testing.assert_array_equal(
        ls.open_rows(hdf5_with(tmp_path / "a.h5", values, written=N)).dense(), values
    )


def test_a_loom_file_has_cells_as_rows(tmp_path: Path) -> None:
    genes = SPARSE.toarray().T
    with pytest.importorskip("h5py").File(tmp_path / "a.loom", "w") as file:
        file.create_dataset("matrix", data=genes, chunks=(P, 100))
        file["layers/spliced"], file["row_attrs/Gene"] = 2 * genes, np.array(GENES, "S")
        file["col_attrs/CellID"] = [f"cell{i}" for i in range(N)]
        assert ls.as_operator(file["matrix"]).shape == (P, N)  # as h5py shows it
    cells = ls.open_rows(tmp_path / "a.loom", columns=["gene4", "gene2"])
    np.testing.assert_array_equal(cells.dense(), genes.T[:, [4, 2]])
    assert list(cells.row_names or ()) == [f"cell{i}" for i in range(N)]
    spliced = ls.open_rows(tmp_path / "a.loom", part="layers/spliced")
    np.testing.assert_array_equal(spliced.dense(), 2 * genes.T)


def test_a_matrix_of_octave_is_turned(tmp_path: Path) -> None:
    with pytest.importorskip("h5py").File(tmp_path / "a.h5", "w") as file:
        file.create_group("x").attrs["OCTAVE_NEW_FORMAT"] = np.uint8(1)
        file["x/type"], file["x/value"] = np.bytes_("matrix"), DENSE.T
    np.testing.assert_array_equal(ls.open_rows(tmp_path / "a.h5", part="x/value").dense(), DENSE)


def test_a_link_that_leads_nowhere_hides_no_matrix(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["gone"], file["x"] = h5py.SoftLink("/nowhere"), DENSE
    np.testing.assert_array_equal(ls.open_rows(tmp_path / "a.h5").dense(), DENSE)


def test_large_integers_with_a_gap_are_rounded_as_numpy_does(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"a": pa.array([2**53 + 1, None, 2**60 + 3])}), tmp_path / "a.parquet")
    found = ls.open_rows(tmp_path / "a.parquet", missing="nan").dense()
    np.testing.assert_array_equal(found, [[float(2**53 + 1)], [np.nan], [float(2**60 + 3)]])


# ---- MATLAB -----------------------------------------------------------------------------------


def test_what_is_no_matrix_of_matlab_is_refused(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "a.mat"
    write_matlab(path, DENSE)
    with h5py.File(path, "r+") as file:
        file.create_dataset("note", data=np.ones((2, 1), "u2")).attrs["MATLAB_class"] = np.bytes_("char")
        assert ls.as_operator(file["a"]).shape == (P, N)  # as h5py shows it
    with pytest.raises(InvalidProblem, match="2 matrices"):
        ls.open_rows(path)
    with pytest.raises(UnsupportedData, match=r"note holds .* text or nothing of MATLAB"):
        ls.open_rows(path, part="note")
    scipy.io.savemat(path, {"X": DENSE})  # version 5
    with pytest.raises(UnsupportedData, match="bytes are not of that format"):
        ls.open_rows(path)


# ---- objects of anndata -----------------------------------------------------------------------


class AnnData:
    """The part of an `anndata.AnnData` that the adapter uses."""

    def __init__(self, X: Any, genes: Any = GENES) -> None:
        self.X, self.obs_names, self.var_names = X, [f"cell{i}" for i in range(N)], genes


class _CSCDataset:
    """A sparse matrix that anndata has opened."""

    def __init__(self, group: Any) -> None:
        self.group = group


AnnData.__module__, _CSCDataset.__module__ = "anndata._core.anndata", "anndata._core.sparse_dataset"


def test_annotated_objects_are_data(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    dense, csc = h5py.File(write_h5(tmp_path / "a.h5", DENSE)), h5py.File(write_h5(tmp_path / "b.h5", CSC))
    for matrix, exact in (
        (DENSE, DENSE),
        (SPARSE, SPARSE),
        (CSC, CSC),
        (dense["a"], DENSE),
        (_CSCDataset(csc["a"]), CSC),
    ):
        found = ls.as_operator(AnnData(matrix))
        np.testing.assert_array_equal(found.dense(), entries(exact))
        assert found.column_names == GENES
        assert found.row_names[1] == "cell1"
    with pytest.raises(InvalidProblem, match=r"must be an AnnData with X; got none"):
        ls.as_operator(AnnData(None))
    assert ls.as_operator(AnnData(DENSE, ["same"] * P)).column_names is None


def test_a_package_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_parquet(tmp_path / "a.parquet", DENSE)
    monkeypatch.delitem(__import__("sys").modules, "linspec_files.parquet_files", raising=False)
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    for ask in (ls.open_rows, lambda path: names_of_columns(RowFiles((str(path),)))):
        with pytest.raises(MissingPackage, match=r"linspec\[parquet\]"):
            ask(path)


def test_plain_text_needs_no_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from linspec_files import delimited

    path = write_text(tmp_path / "a.csv", DENSE)
    monkeypatch.setattr(delimited, "LARGE", 0)
    for package in ("pyarrow", "pandas", "narwhals"):
        monkeypatch.setitem(__import__("sys").modules, package, None)
    np.testing.assert_array_equal(ls.open_rows(path).dense(), DENSE)


# ---- svmlight in several files, and test files of another width -------------------------------

COUNTS = (RNG.random((40, 6)) < 0.5) * RNG.integers(1, 5, (40, 6)).astype(float)


@pytest.mark.parametrize("base", [0, 1])
@pytest.mark.parametrize("lacking", [0, 5, None])
def test_parts_share_base_and_width(base: int, lacking: int | None, tmp_path: Path) -> None:
    """One part lacks the first or the last feature."""
    rows = COUNTS.copy()
    if lacking is not None:
        rows[20:, lacking] = 0
    parts = [write_svmlight(tmp_path / f"part{i}.svm", rows[20 * i : 20 * i + 20], base) for i in range(2)]
    for given in (parts, str(tmp_path / "part*.svm")):
        np.testing.assert_array_equal(ls.open_rows(given).dense(), rows)
    np.testing.assert_array_equal(ls.open_rows(parts[::-1]).dense(), np.roll(rows, 20, axis=0))


def test_labels_and_classes_of_parts(tmp_path: Path) -> None:
    labels = [[0, 1, 0], [2, 0, 2]]
    parts = [write_svmlight(tmp_path / f"part{i}.svm", COUNTS[:3], 1, labels[i]) for i in range(2)]
    np.testing.assert_array_equal(ls.open_rows(parts, part="classes").dense(), np.eye(3)[[0, 1, 0, 2, 0, 2]])
    np.testing.assert_array_equal(ls.open_rows(parts, part="labels").dense().ravel(), [0, 1, 0, 2, 0, 2])
    with pytest.raises(InvalidProblem, match="'labels' and 'classes'; got 'names'"):
        ls.open_rows(parts, part="names")
    (tmp_path / "part2.svm").write_text("1 2:1\none 3:1\n")
    with pytest.raises(InvalidProblem, match=r"part2\.svm, row 1: one number"):
        ls.open_rows(tmp_path / "part*.svm", part="labels")


@pytest.mark.parametrize("base", [0, 1])
def test_test_rows_of_another_width(base: int, tmp_path: Path) -> None:
    train = write_svmlight(tmp_path / "train.svm", COUNTS, base, RNG.integers(0, 9, 40))
    found = ls.solve(ls.LeastSquares(train, ls.open_rows(train, part="labels"), center=True))
    narrow, wide = COUNTS[:9].copy(), np.column_stack([COUNTS[:9], np.ones(9)])
    narrow[:, [0, 5]] = 0
    for rows in (narrow, wide, np.zeros((3, 6))):
        path = write_svmlight(tmp_path / "test.svm", rows, base)
        with pytest.raises(
            InvalidProblem, match=r"6 columns .*\('.*test.svm', columns=range\(6\)\)|no features"
        ):
            found.predict(path)
        test = ls.open_rows(path, columns=range(6), base=base)
        np.testing.assert_allclose(found.predict(test), rows[:, :6] @ found.x + found.intercept, atol=1e-10)


def test_the_base_is_what_the_user_says(tmp_path: Path) -> None:
    path, zero = (
        write_svmlight(tmp_path / "a.svm", COUNTS[:, 1:], 1),
        write_svmlight(tmp_path / "b.svm", COUNTS, 0),
    )  # no index is 0
    np.testing.assert_array_equal(ls.open_rows(path, base=0).dense(), COUNTS * (np.arange(6) > 0))
    np.testing.assert_array_equal(ls.open_rows(path, base=1).dense(), COUNTS[:, 1:])
    for wrong in (2, True, "0"):
        with pytest.raises(InvalidOption, match="base must be 0, 1 or None"):
            ls.open_rows(path, base=wrong)
    with pytest.raises(InvalidProblem, match="base=1; got the index 0"):
        ls.open_rows(zero, base=1)


# ---- a format of one's own --------------------------------------------------------------------


@pytest.fixture
def own_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of words: numbers and a class, below names in capitals."""

    def names(files: RowFiles) -> list[str]:
        return Path(files.paths[0]).read_text().split("\n", 1)[0].split()

    def places(files: RowFiles) -> list[int]:
        return list(files.places(names(files), len(names(files))) or range(len(names(files))))

    def read(files: RowFiles) -> Any:
        rows = np.loadtxt(files.paths[0], skiprows=1, usecols=places(files), ndmin=2)
        return ls.labelled(rows, columns=[names(files)[j] for j in places(files)])

    def texts(files: RowFiles) -> Any:
        kinds = np.loadtxt(files.paths[0], dtype=str, skiprows=1, usecols=5).tolist()
        return kinds if places(files) == [5] else None

    spec = ls.OperatorSpec(
        name="words",
        matches=lambda data: isinstance(data, RowFiles) and data.suffix == ".words",
        adapt=read,
        summary="Lines of words.",
        suffixes=(".words",),
        column_names=names,
        texts=texts,
    )
    own = registry.Registry()
    monkeypatch.setattr("linspec.registry.queries.default_registry", lambda: own)
    ls.register(spec)


@pytest.mark.usefixtures("own_format")
def test_a_format_of_a_plugin_serves_the_command(tmp_path: Path) -> None:
    A = DENSE[:60, :5]
    kinds = ["oak" if value > 3 else "elm" for value in A[:, 0]]
    rows = [" ".join([*map(repr, row), kind]) for row, kind in zip(A.tolist(), kinds, strict=True)]
    path = tmp_path / "a.words"
    path.write_text("\n".join(["a b c d e kind", *rows]) + "\n")
    run(f"solve discriminant {path} --columns a..e --target-column kind --out {tmp_path}/r.npz")
    exact = ls.solve(ls.Discriminant(A, ls.targets.lda(kinds)))
    saved = ls.load_solution(tmp_path / "r.npz")
    np.testing.assert_allclose(saved.eigenvalues, exact.eigenvalues, rtol=1e-9)
    assert saved.column_names["X"] == tuple("abcde")
    (tmp_path / "a.xlsx").write_bytes(b"PK")
    assert ".words" in refusal(f"solve svd {tmp_path}/a.xlsx -k 1")
