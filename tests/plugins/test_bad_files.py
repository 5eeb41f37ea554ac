"""Files that are damaged, or hold no numbers: each is refused by one error that names it, never read as numbers."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from written_files import saved

import linspec as ls
from linspec.errors import InvalidProblem, NonFiniteData, UnsupportedData

pytest.importorskip("linspec_files")

A = np.random.default_rng(0).standard_normal((40, 3))
SPARSE = scipy.sparse.csr_array(np.where(np.abs(A) > 0.5, A, 0))
BANNER = "%%MatrixMarket matrix coordinate real general\n"
INTEGERS, SYMMETRIC = BANNER.replace("real", "integer"), BANNER.replace("general", "symmetric")
TABLE = "a,b\n" + "1,2\n3,4\n" * 500

TEXTS = {
    "a short row": ("csv", "a,b\n1,2\n3\n5,6\n", InvalidProblem, "line 3: 2 fields are needed.* got 1"),
    "a long row of tabs": ("tsv", "a\tb\n1\t2\n3\t4\t5\n", InvalidProblem, "line 3: 2 fields"),
    "a number with two points": ("csv", "a,b\n1,2\n3,1.5.2\n", UnsupportedData, "line 3, field 2: .*'1.5.2' in .*'b'"),
    "a decimal comma": ("csv", "a;b\n1.5;2\n1,5;4\n", UnsupportedData, "line 3, field 1: .*'1,5'"),
    "decimal commas between commas": ("csv", "a,b\n1,5,2,5\n2,5,3,5\n", InvalidProblem, "2 names, line 2 has 4"),
    "a missing field": ("csv", "a,b\n1,2\n,4\n", NonFiniteData, "line 3, field 1: .*empty field in column 'a'"),
    "a field NA": ("csv", "a,b\n1,2\n3,NA\n", NonFiniteData, "line 3, field 2: .*'NA'"),
    "an infinite field": ("csv", "a,b\n1,2\n3,-inf\n", NonFiniteData, "-inf at row 1, column 1"),
    "a quote not closed at the end": ("csv", 'a,b\n1,2\n3,"4\n', InvalidProblem, "line 3: a quote"),
    "two lines of names": ("csv", ",a,a\n,1,2\n0,3,4\n", InvalidProblem, "line 2: .*a second line of names"),
    "a name too few": ("csv", "a,b\n1,2,3\n4,5,6\n", InvalidProblem, "line 1 has 2 names, line 2 has 3 fields"),
    "a zero byte": ("csv", "a,b\n1,2\n3,\0\n", InvalidProblem, "zero"),
    "a column of texts": ("csv", "a,b\n1,oak\n2,elm\n", UnsupportedData, "line 2, field 2: .*'oak' in column 'b'"),
    "fewer entries than declared": ("mtx", BANNER + "2 2 3\n1 1 1\n2 2 1\n", InvalidProblem, "Matrix Market"),
    "far more entries declared": ("mtx", BANNER + "2 2 99\n1 1 1\n", InvalidProblem, "declares 99 entries"),
    "a row out of range": ("mtx", BANNER + "2 2 1\n3 1 1\n", InvalidProblem, "Matrix Market"),
    "a fractional column": ("mtx", BANNER + "2 2 1\n2 1.5 3\n", InvalidProblem, "line 3: an entry"),
    "an integer that overflows": ("mtx", INTEGERS + f"1 1 1\n1 1 {2**64}\n", InvalidProblem, "as real"),
    "complex entries": ("mtx", BANNER.replace("real", "complex") + "1 1 1\n1 1 1 1\n", UnsupportedData, "complex"),
    "a rectangle that is symmetric": ("mtx", SYMMETRIC + "3 2 1\n3 1 1\n", InvalidProblem, "square"),
    "an index twice": ("svm", "1 1:2\n1 2:1 2:3\n", InvalidProblem, "row 1: the index 2 occurs twice"),
    "a feature without a value": ("svm", "1 1:2\n1 2:\n", InvalidProblem, "line 2: 'index:value'"),
    "a value NaN": ("svm", "1 1:2\n1 2:nan\n", NonFiniteData, "nan"),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_a_bad_text_is_refused(name: str, tmp_path: Path) -> None:
    """Every second one is compressed."""
    suffix, text, kind, said = TEXTS[name]
    packed = [*TEXTS].index(name) % 2
    path = tmp_path / f"a.{suffix}{'.gz' * packed}"
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    refused(path, kind, said)


def refused(path: Any, kind: type[Exception], said: str, **how: Any) -> None:
    with pytest.raises(kind, match=said) as caught:
        ls.solve(ls.SVD(ls.open_rows(path, **how), k=1))
    assert type(caught.value) is kind
    if kind is not NonFiniteData:
        assert "a." in str(caught.value) or "b." in str(caught.value)  # the name of the file


def at(values: Any, place: int, value: Any) -> Any:
    return np.concatenate([values[:place], [value], values[place + 1 :]])


TEXT = TABLE.encode()
NPY = saved(np.save, A)
BYTES: dict[str, tuple[str, bytes, Any, str]] = {
    "a text of UTF-16": ("csv", TABLE.encode("utf-16"), InvalidProblem, "UTF-8"),
    "no gzip": ("mtx.gz", BANNER.encode(), InvalidProblem, "gzip"),
    "an array cut off": ("npy", NPY[:-8], InvalidProblem, "it has 1,080"),
    "complex numbers": ("npy", saved(np.save, A + 1j), UnsupportedData, "complex"),
    "a text called array": ("npy", TEXT, UnsupportedData, "the bytes are not"),
    "several arrays": ("npz", saved(np.savez, a=A, b=A), InvalidProblem, "or several.*part="),
}  # fmt: skip


@pytest.mark.parametrize("name", BYTES)
def test_bad_bytes_are_refused(name: str, tmp_path: Path) -> None:
    suffix, content, kind, said = BYTES[name]
    (tmp_path / f"a.{suffix}").write_bytes(content)
    refused(tmp_path / f"a.{suffix}", kind, said)


def test_bad_parquet_is_refused(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")

    def put(name: str, *columns: Any, names: str = "xy") -> Path:
        pq.write_table(
            pa.table(list(columns), list(names)), tmp_path / name, compression=None, use_dictionary=False
        )
        return tmp_path / name

    x, gap = A[:, 0], pa.array([1.0, None, 2.0])
    refused(put("a.null.parquet", A[:3, 0], gap), NonFiniteData, "missing at row 1, column 'y'")
    refused(put("a.text.parquet", x, ["oak"] * 40), UnsupportedData, "'y' holds text")
    refused(put("a.twice.parquet", x, x, names="xx"), InvalidProblem, r"'x' (, or several are|is another)")
    refused(put("a.no.parquet", x[:0], x[:0]), InvalidProblem, "must have rows")
    whole = put("a.good.parquet", x, x).read_bytes()
    for content in (whole[:-9], whole[: len(whole) // 2], b"none" + bytes(40)):
        (tmp_path / "a.cut.parquet").write_bytes(content)
        refused(tmp_path / "a.cut.parquet", InvalidProblem, "Parquet|cannot be read")
    (tmp_path / "a.page.parquet").write_bytes(whole[:4] + bytes(30) + whole[34:])
    refused(tmp_path / "a.page.parquet", InvalidProblem, "rows 0 to 39 cannot be read")


def test_bad_hdf5_is_refused(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    csr = {part: getattr(SPARSE, part) for part in ("data", "indices", "indptr")}

    def put(name: str, **members: Any) -> Path:
        with h5py.File(tmp_path / name, "w") as file:
            if "data" in members:
                file.attrs.update({"encoding-type": "csr_matrix", "shape": SPARSE.shape})
            for key, member in members.items():
                file[key] = member
        return tmp_path / name

    good = put("a.h5", a=A)
    refused(put("a.three.h5", a=A[None]), InvalidProblem, "two dimensions")
    refused(put("a.complex.h5", a=A + 1j), UnsupportedData, "complex")
    refused(put("a.two.h5", a=A, b=A), InvalidProblem, "2 matrices .*part=")
    refused(put("a.index.h5", **{**csr, "indices": at(SPARSE.indices, 4, 9)}), InvalidProblem, "ind")
    refused(put("a.ends.h5", **{**csr, "indptr": at(SPARSE.indptr, 4, 99)}), InvalidProblem, "indptr")
    (tmp_path / "a.cut.h5").write_bytes(good.read_bytes()[:-50])
    refused(tmp_path / "a.cut.h5", InvalidProblem, "HDF5")
    cells = {"X": A, "obs/_index": ["c"] * 40, "var/_index": ["g"] * 4}
    refused(put("a.h5ad", **cells), InvalidProblem, "3 columns, and the file names 4 variables")
    with h5py.File(good, "a") as file:
        file.create_dataset("gaps", A.shape, "f8", chunks=(10, 3))[:10] = A[:10]
    refused(good, InvalidProblem, "3 of its 4 chunks", part="gaps", missing="refuse")


def test_bad_zarr_is_refused(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")

    def put(name: str, values: Any = A, **more: Any) -> Path:
        array = zarr.create_array(
            str(tmp_path / name), shape=values.shape, chunks=(10, 3), dtype=values.dtype, **more
        )
        array[:] = values
        return tmp_path / name

    refused(put("a.complex.zarr", A + 1j), UnsupportedData, "complex")
    chunk = put("a.zarr") / "c/1/0"
    chunk.write_bytes(chunk.read_bytes()[:9])
    refused(tmp_path / "a.zarr", InvalidProblem, "rows .* cannot be read")
    (tmp_path / "a.zarr/zarr.json").write_text("{")
    refused(tmp_path / "a.zarr", InvalidProblem, "zarr")
