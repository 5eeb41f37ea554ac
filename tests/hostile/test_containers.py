"""Containers that name what decodes them, lead elsewhere, declare what they do not hold, or are damaged.

None runs code, with any release of its library that pyproject.toml permits: `nox -s lowest` runs these trials with the
lowest ones.
"""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hostile.outcomes import apart, refused

import linspec as ls
from linspec.errors import InvalidProblem, LinspecError, UnsupportedData

ROWS, COLUMNS = 20, 4
A = np.random.default_rng(0).standard_normal((ROWS, COLUMNS))
POSIX = pytest.mark.skipif(os.name != "posix", reason="pipes, devices and links of POSIX")


class Bomb:
    """An object that makes a folder when it is unpickled."""

    def __init__(self, place: Path) -> None:
        self.asarray = place

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.asarray),)


@pytest.fixture
def bomb(tmp_path: Path) -> Iterator[Bomb]:
    yield Bomb(tmp_path / "ran")
    assert not (tmp_path / "ran").exists(), "a file has run code"


def solved(path: Path) -> Any:
    """Everything that is read of a file: its description, its labels and its rows."""
    return ls.solve(ls.SVD(ls.open_rows(path), k=1))


# ---- zarr: what decodes an array --------------------------------------------------------------------------------


def write(place: Path, name: str, document: Any) -> None:
    place.mkdir(parents=True, exist_ok=True)
    (place / name).write_text(json.dumps(document))


def described(shape: list[int], dtype: Any, filters: Any = None, compressor: Any = None) -> dict[str, Any]:
    """An array of zarr of format 2 in one chunk."""
    return {
        "zarr_format": 2, "shape": shape, "chunks": shape, "dtype": dtype, "order": "C",
        "fill_value": "" if dtype == "|O" else 0, "filters": filters, "compressor": compressor,
    }  # fmt: skip


def group_of_2(folder: Path) -> Path:
    """An AnnData in zarr of format 2, written by hand: a matrix, and two frames of labels."""
    root = folder / "a.zarr"
    for place, kind in ((root, "anndata"), (root / "obs", "dataframe"), (root / "var", "dataframe")):
        write(place, ".zgroup", {"zarr_format": 2})
        write(place, ".zattrs", {"encoding-type": kind, "encoding-version": "0.1.0", "_index": "_index"})
    write(root / "X", ".zarray", described([ROWS, COLUMNS], "<f8"))
    (root / "X/0.0").write_bytes(A.tobytes())
    for axis, count in (("obs", ROWS), ("var", COLUMNS)):
        labels = [f"{axis}{i}".encode() for i in range(count)]
        write(root / axis / "_index", ".zarray", described([count], "|O", [{"id": "vlen-utf8"}]))
        packed = b"".join(len(one).to_bytes(4, "little") + one for one in labels)
        (root / axis / "_index/0").write_bytes(count.to_bytes(4, "little") + packed)
    return root


CODECS_OF_2: dict[str, tuple[Any, Any]] = {
    "compressor": (None, {"id": "pickle"}),
    "filter": ([{"id": "pickle"}], None),
    "last of a chain": ([{"id": "vlen-utf8"}, {"id": "pickle"}], None),
    "first of a chain": ([{"id": "pickle"}, {"id": "vlen-utf8"}], {"id": "zlib", "level": 1}),
    "categories": ([{"id": "categorize", "labels": ["a"], "dtype": "|O", "astype": "|u1"}], None),
    "a dtype of objects": ([{"id": "delta", "dtype": "|O", "astype": "|O"}], None),
    "no decoder of objects": (None, None),
    "unknown": (None, {"id": "nobody"}),
}


@pytest.mark.parametrize("codec", CODECS_OF_2)
@pytest.mark.parametrize(("array", "shape"), [("X", [ROWS, COLUMNS]), ("obs/_index", [ROWS])])
def test_no_codec_of_format_2_runs_code(
    tmp_path: Path, bomb: Bomb, array: str, shape: list[int], codec: str
) -> None:
    pytest.importorskip("zarr")
    root = group_of_2(tmp_path)
    dtype = "<f8" if array == "X" and codec != "no decoder of objects" else "|O"
    write(root / array, ".zarray", described(shape, dtype, *CODECS_OF_2[codec]))
    for chunk in (root / array).glob("[0-9]*"):
        chunk.write_bytes(pickle.dumps(bomb))
    with refused("a.zarr"):
        solved(root)


def test_a_codec_that_is_installed_and_not_known_is_never_asked(tmp_path: Path) -> None:
    zarr, numcodecs = pytest.importorskip("zarr"), pytest.importorskip("numcodecs")

    class Unheard(numcodecs.Zlib):
        codec_id = "unheard-of"

        def decode(self, *_: Any) -> Any:
            pytest.fail("asked to decode")

    numcodecs.register_codec(Unheard)
    root = group_of_2(tmp_path)
    write(root / "X", ".zarray", described([ROWS, COLUMNS], "<f8", None, {"id": "unheard-of"}))
    for use in (solved, lambda root: ls.SVD(zarr.open(str(root), mode="r")["X"], k=1)):
        with refused("X", "unheard-of", kind=UnsupportedData):
            use(root)


def test_consolidated_metadata_name_codecs_as_well(tmp_path: Path, bomb: Bomb) -> None:
    """The check reads what zarr uses: the summary in the group, not the description of the array."""
    pytest.importorskip("zarr")
    root = group_of_2(tmp_path)
    documents = [path for path in root.rglob(".z*") if path.is_file()]
    summary = {str(path.relative_to(root)): json.loads(path.read_text()) for path in documents}
    summary["obs/_index/.zarray"] = described([ROWS], "|O", None, {"id": "pickle"})
    write(root, ".zmetadata", {"zarr_consolidated_format": 1, "metadata": summary})
    (root / "obs/_index/0").write_bytes(pickle.dumps(bomb))
    with refused("a.zarr"):
        solved(root)


PLAIN: list[Any] = [{"name": "bytes", "configuration": {"endian": "little"}}]


def sharded(**codecs: Any) -> list[Any]:
    shard = {"chunk_shape": [10, COLUMNS], "codecs": PLAIN, "index_codecs": PLAIN, "index_location": "end"}
    return [{"name": "sharding_indexed", "configuration": {**shard, **codecs}}]


CHAINS_OF_3: dict[str, Callable[[Any], list[Any]]] = {
    "outermost": lambda inner: [*PLAIN, inner],
    "filter": lambda inner: [inner, *PLAIN],
    "in a shard": lambda inner: sharded(codecs=[*PLAIN, inner]),
    "of the index": lambda inner: sharded(index_codecs=[*PLAIN, inner]),
}


@pytest.mark.parametrize("place", CHAINS_OF_3)
@pytest.mark.parametrize("codec", ["pickle", "numcodecs.pickle", "os.system"])
def test_no_codec_of_format_3_runs_code(tmp_path: Path, bomb: Bomb, place: str, codec: str) -> None:
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array(str(tmp_path / "a.zarr"), shape=A.shape, chunks=(10, COLUMNS), dtype="f8")
    array[:] = A
    document = json.loads((tmp_path / "a.zarr/zarr.json").read_text())
    document["codecs"] = CHAINS_OF_3[place]({"name": codec, "configuration": {}})
    write(tmp_path / "a.zarr", "zarr.json", document)
    for chunk in (tmp_path / "a.zarr/c").rglob("0"):
        if chunk.is_file():
            chunk.write_bytes(pickle.dumps(bomb))
    with refused("a.zarr", codec):
        solved(tmp_path / "a.zarr")


@pytest.mark.parametrize("form", [2, 3])
def test_known_codecs_are_read(tmp_path: Path, form: int) -> None:
    """As the library writes them: each compressor that it has, filters of numbers, shards, texts."""
    zarr, of_2 = pytest.importorskip("zarr"), pytest.importorskip("numcodecs")
    of_3 = zarr.codecs
    packers: dict[int, list[dict[str, Any]]] = {
        2: [
            *({"compressors": one()} for one in (of_2.Blosc, of_2.Zlib, of_2.GZip, of_2.BZ2, of_2.LZ4)),
            {"compressors": of_2.Zstd(), "filters": [of_2.Delta("<f8")]},
            {"compressors": of_2.LZMA(), "filters": [of_2.AsType("<f8", "<f8"), of_2.Shuffle(8)]},
        ],
        3: [
            *({"compressors": one()} for one in (of_3.BloscCodec, of_3.GzipCodec, of_3.ZstdCodec)),
            {"shards": (20, 4)},
            {"filters": of_3.TransposeCodec(order=(1, 0))},
            {"compressors": None},
        ],
    }
    for number, packed in enumerate(packers[form]):
        path = str(tmp_path / f"a{number}.zarr")
        array = zarr.create_array(path, shape=A.shape, chunks=(10, 2), dtype="f8", zarr_format=form, **packed)
        array[:] = A
        np.testing.assert_allclose(ls.open_rows(path).dense(), A, atol=1e-12, err_msg=str(packed))
    found = ls.open_rows(group_of_2(tmp_path))
    assert found.column_names == tuple(f"var{i}" for i in range(COLUMNS))
    assert list(found.row_names) == [f"obs{i}" for i in range(ROWS)]


# ---- the same question to the other formats -----------------------------------------------------------------------


def test_no_other_file_runs_code(tmp_path: Path, bomb: Bomb) -> None:
    objects = np.array([[bomb]], dtype=object)
    for save, name in ((np.save, "a.npy"), (np.savez, "a.npz")):
        save(tmp_path / name, objects)
        with refused(name):
            solved(tmp_path / name)
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    names = {b"name": b"arrow.py_extension_type", b"metadata": pickle.dumps(bomb)}
    facts = {b"ARROW:extension:" + name: value for name, value in names.items()}
    schema = pa.schema([pa.field("a", pa.float64(), metadata=facts)])
    pq.write_table(pa.table([pa.array([1.0, 2.0, 3.0])], schema=schema), tmp_path / "a.parquet")
    with suppress(
        LinspecError
    ):  # a release of Arrow may read the numbers, and pass over the name of their type
        solved(tmp_path / "a.parquet")


# ---- HDF5 that leads elsewhere ------------------------------------------------------------------------------------


def elsewhere(kind: str, folder: Path) -> Path:
    """Make an HDF5 file whose matrix `a` is in another file."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "other.h5", "w") as file:
        file["secret"] = A
    (folder / "secret.txt").write_bytes(A.tobytes())
    with h5py.File(folder / "a.h5", "w") as file:
        if kind == "external storage":
            file.create_dataset("a", A.shape, "f8", external=[(str(folder / "secret.txt"), 0, A.nbytes)])
        elif kind == "virtual":
            layout = h5py.VirtualLayout(A.shape, "f8")
            layout[:] = h5py.VirtualSource(str(folder / "other.h5"), "secret", A.shape)
            file.create_virtual_dataset("a", layout)
        elif kind == "circle":
            file["b"], file["a"] = h5py.SoftLink("/a"), h5py.SoftLink("/b")
        elif kind == "soft link to an external link":
            file.create_group("b")["c"] = h5py.ExternalLink("other.h5", "/")
            file["a"] = h5py.SoftLink("/b/c/secret")
        else:
            os.mkfifo(folder / "pipe.h5")
            file["a"] = h5py.ExternalLink("pipe.h5", "/")
    return folder / "a.h5"


@POSIX
@pytest.mark.parametrize(
    "kind", ["external storage", "soft link to an external link", "virtual", "circle", "link to a pipe"]
)
@pytest.mark.slow(keep=2)
def test_a_path_reads_no_other_file(tmp_path: Path, kind: str) -> None:
    path = elsewhere(kind, tmp_path)
    program = f"""
import linspec as ls
from hostile.outcomes import refused
for part in ("", "a"):
    with refused("a.h5", {"link" if "link" in kind else "a"!r}):
        ls.SVD(ls.open_rows({str(path)!r}, part=part), k=1)
"""
    apart(program, seconds=60)


def test_links_within_the_file_and_datasets_of_h5py_are_read(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "soft.h5", "w") as file:
        file.create_group("b")["c"] = A
        file["b/d"] = h5py.SoftLink("c")
        file["a"] = h5py.SoftLink("/b/d")
    np.testing.assert_array_equal(ls.open_rows(tmp_path / "soft.h5", part="a").dense(), A)
    with h5py.File(elsewhere("virtual", tmp_path)) as file:  # who opens it has chosen it
        np.testing.assert_array_equal(ls.as_operator(file["a"]).dense(), A)


# ---- AnnData that is damaged --------------------------------------------------------------------------------------


def annotated(path: Path) -> Path:
    """An AnnData with categories as labels, in HDF5."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file.attrs["encoding-type"] = "anndata"
        file["X"] = A
        for axis, count in (("obs", ROWS), ("var", COLUMNS)):
            frame = file.create_group(axis)
            frame.attrs["_index"] = "_index"
            frame["_index/categories"] = [f"{axis}{i}" for i in range(count)]
            frame["_index/codes"] = np.arange(count, dtype="i1")
    return path


CODES = "obs/_index/codes"
FAULTS: dict[str, tuple[str, Any]] = {
    **{f"no {name}": (name, None) for name in ("obs", "var", "obs/_index", "var/_index", CODES, "X")},
    "no categories": ("obs/_index/categories", None),
    "a code below 0": (CODES, np.arange(-1, ROWS - 1)),
    "a code too large": (CODES, np.arange(1, ROWS + 1)),
    "fractional codes": (CODES, np.arange(ROWS) + 0.5),
}
"""What is removed, and what is written in its place."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_damaged_file_of_anndata_is_named(tmp_path: Path, fault: str) -> None:
    h5py = pytest.importorskip("h5py")
    path = annotated(tmp_path / "cells.h5ad")
    assert list(ls.open_rows(path).row_names) == [f"obs{i}" for i in range(ROWS)]
    with h5py.File(path, "a") as file:
        name, value = FAULTS[fault]
        del file[name]
        if value is not None:
            file[name] = value
    with refused("cells.h5ad", kind=InvalidProblem):
        ls.open_rows(path)


# ---- parts that are no files, and more declared than there is ------------------------------------------------------


def test_labels_and_row_ends_that_are_only_declared_are_not_made(tmp_path: Path) -> None:
    """A matrix with 20 rows declares 10^12 labels, and 10^12 ends of rows."""
    pytest.importorskip("zarr")
    root = group_of_2(tmp_path)
    for count in (10**12, 10**7):
        labels = described([count], "|O", [{"id": "vlen-utf8"}])
        write(root / "var/_index", ".zarray", {**labels, "chunks": [1]})
        with refused("a.zarr", str(count)):
            ls.open_rows(root)
    (root / "X/.zarray").unlink()
    write(root / "X", ".zgroup", {"zarr_format": 2})
    write(root / "X", ".zattrs", {"encoding-type": "csr_matrix", "shape": [10**12, COLUMNS]})
    for part, length in (("data", 0), ("indices", 0), ("indptr", 10**12 + 1)):
        chunks = [1] if length else [10]
        write(root / "X" / part, ".zarray", {**described([length], "<i8"), "chunks": chunks})
    with refused("a.zarr", "indptr"):
        ls.open_rows(root)


@pytest.mark.parametrize("kind", ["npy", "h5"])
@pytest.mark.slow(keep=1)
def test_more_files_than_a_process_may_open(tmp_path: Path, kind: str) -> None:
    """A pattern of 150 files where 64 may be open at once."""
    pytest.importorskip("resource")
    rows = np.random.default_rng(1).standard_normal((150, 2, COLUMNS))
    for number, part in enumerate(rows):
        path = tmp_path / f"part{number}.{kind}"
        if kind == "npy":
            np.save(path, part)
        else:
            with pytest.importorskip("h5py").File(path, "w") as file:
                file["X"] = part
    program = f"""
import resource
import linspec as ls
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
rows = ls.open_rows({str(tmp_path / f"part*.{kind}")!r})
print(rows.shape[0], ls.solve(ls.SVD(rows, k=1)).S[0])
"""
    count, largest = apart(program).split()
    assert int(count) == 300
    assert float(largest) == pytest.approx(np.linalg.norm(rows.reshape(-1, COLUMNS), 2), rel=1e-9)
