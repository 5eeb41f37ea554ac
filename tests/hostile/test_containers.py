"""Containers that name what decodes them, lead elsewhere, declare what they do not hold, or are damaged.

None runs code, with any release of its library that pyproject.toml permits: `nox -s lowest` runs these trials with the
lowest ones.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hostile.outcomes import Leak, apart, holds, refused

import linspec as ls
from linspec.errors import InvalidProblem, LinspecError, UnsupportedData

ROWS, COLUMNS = 20, 4
A = np.random.default_rng(0).standard_normal((ROWS, COLUMNS))
POSIX = pytest.mark.skipif(os.name != "posix", reason="pipes, devices and links of POSIX")


class Bomb:
    """An object that makes a folder when it is unpickled."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.place),)


def nothing_ran(place: Path) -> None:
    if place.exists():
        raise Leak("a file has run code")


def solved(path: Path, **how: Any) -> Any:
    """Everything that is read of a file: its description, its labels and its rows."""
    return ls.solve(ls.SVD(ls.open_rows(path, **how), k=1))


# ---- zarr: what decodes an array --------------------------------------------------------------------------------


def group_of_2(folder: Path) -> Path:
    """An AnnData in zarr of format 2, written by hand: a matrix, and two frames of labels."""

    def write(place: Path, name: str, document: Any) -> None:
        place.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(json.dumps(document))

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


def described(shape: list[int], dtype: Any, filters: Any = None, compressor: Any = None) -> dict[str, Any]:
    fill = "" if dtype == "|O" else 0
    return {
        "zarr_format": 2,
        "shape": shape,
        "chunks": shape,
        "dtype": dtype,
        "order": "C",
        "fill_value": fill,
        "filters": filters,
        "compressor": compressor,
    }


CODECS_OF_2: dict[str, tuple[Any, Any]] = {
    "compressor": (None, {"id": "pickle"}),
    "filter": ([{"id": "pickle"}], None),
    "last of a chain": ([{"id": "vlen-utf8"}, {"id": "pickle"}], None),
    "first of a chain": ([{"id": "pickle"}, {"id": "vlen-utf8"}], {"id": "zlib", "level": 1}),
    "beside an allowed compressor": ([{"id": "pickle", "protocol": 2}], {"id": "blosc", "cname": "lz4"}),
    "msgpack": (None, {"id": "msgpack2"}),
    "json": ([{"id": "json2"}], None),
    "categories": ([{"id": "categorize", "labels": ["a"], "dtype": "|O", "astype": "|u1"}], None),
    "numbers into objects": ([{"id": "astype", "encode_dtype": "<f8", "decode_dtype": "|O"}], None),
    "a dtype of objects": ([{"id": "delta", "dtype": "|O", "astype": "|O"}], None),
    "no decoder of objects": (None, None),
    "unknown": (None, {"id": "nobody"}),
}


@pytest.mark.parametrize("codec", CODECS_OF_2)
@pytest.mark.parametrize("array", ["X", "obs/_index", "var/_index"])
def test_no_codec_of_format_2_runs_code(tmp_path: Path, array: str, codec: str) -> None:
    pytest.importorskip("zarr")
    root = group_of_2(tmp_path)
    filters, compressor = CODECS_OF_2[codec]
    shape = [ROWS, COLUMNS] if array == "X" else [ROWS if array == "obs/_index" else COLUMNS]
    dtype = "<f8" if array == "X" and codec != "no decoder of objects" else "|O"
    (root / array / ".zarray").write_text(json.dumps(described(shape, dtype, filters, compressor)))
    for chunk in (root / array).glob("[0-9]*"):
        chunk.write_bytes(pickle.dumps(Bomb(tmp_path / "ran")))
    try:
        with refused("a.zarr"):
            solved(root)
    finally:
        nothing_ran(tmp_path / "ran")


def test_consolidated_metadata_name_codecs_as_well(tmp_path: Path) -> None:
    """The check reads what zarr uses: the summary in the group, not the description of the array."""
    pytest.importorskip("zarr")
    root = group_of_2(tmp_path)
    summary = {}
    for place in (".", "obs", "var", "X", "obs/_index", "var/_index"):
        for name in (".zgroup", ".zattrs", ".zarray"):
            if (root / place / name).exists():
                key = name if place == "." else f"{place}/{name}"
                summary[key] = json.loads((root / place / name).read_text())
    summary["obs/_index/.zarray"] = described([ROWS], "|O", None, {"id": "pickle"})
    (root / ".zmetadata").write_text(json.dumps({"zarr_consolidated_format": 1, "metadata": summary}))
    (root / "obs/_index/0").write_bytes(pickle.dumps(Bomb(tmp_path / "ran")))
    try:
        with refused("a.zarr"):
            solved(root)
    finally:
        nothing_ran(tmp_path / "ran")


def codecs_of_3(inner: Any) -> dict[str, Any]:
    """Chains of format 3 that have a codec in them."""
    plain: list[Any] = [{"name": "bytes", "configuration": {"endian": "little"}}]
    shard = {"chunk_shape": [10, COLUMNS], "codecs": plain, "index_codecs": plain, "index_location": "end"}
    return {
        "outermost": [*plain, inner],
        "filter": [inner, *plain],
        "in a shard": [{"name": "sharding_indexed", "configuration": {**shard, "codecs": [*plain, inner]}}],
        "of the index": [
            {"name": "sharding_indexed", "configuration": {**shard, "index_codecs": [*plain, inner]}}
        ],
    }


@pytest.mark.parametrize("place", codecs_of_3(None))
@pytest.mark.parametrize("codec", ["pickle", "numcodecs.pickle", "numcodecs.msgpack2", "os.system"])
def test_no_codec_of_format_3_runs_code(tmp_path: Path, place: str, codec: str) -> None:
    zarr = pytest.importorskip("zarr")
    array = zarr.create_array(str(tmp_path / "a.zarr"), shape=A.shape, chunks=(10, COLUMNS), dtype="f8")
    array[:] = A
    document = json.loads((tmp_path / "a.zarr/zarr.json").read_text())
    document["codecs"] = codecs_of_3({"name": codec, "configuration": {}})[place]
    (tmp_path / "a.zarr/zarr.json").write_text(json.dumps(document))
    for chunk in (tmp_path / "a.zarr/c").rglob("0"):
        if chunk.is_file():
            chunk.write_bytes(pickle.dumps(Bomb(tmp_path / "ran")))
    try:
        with refused("a.zarr", codec):
            solved(tmp_path / "a.zarr")
    finally:
        nothing_ran(tmp_path / "ran")


def test_an_unknown_codec_is_refused_by_its_name_before_anything_is_decoded(tmp_path: Path) -> None:
    """Whoever has installed a codec that would decode the rows: one that counts how often it is asked."""
    pytest.importorskip("zarr")
    numcodecs = pytest.importorskip("numcodecs")
    asked = []

    class Counting(numcodecs.abc.Codec):
        codec_id = "counts-how-often-it-is-asked"

        def encode(self, buffer: Any) -> Any:
            return buffer

        def decode(self, buffer: Any, out: Any = None) -> Any:
            asked.append(1)
            return buffer

    numcodecs.register_codec(Counting)
    root = group_of_2(tmp_path)
    (root / "X/.zarray").write_text(
        json.dumps(described([ROWS, COLUMNS], "<f8", None, {"id": Counting.codec_id}))
    )
    with refused("X", Counting.codec_id, kind=UnsupportedData):
        solved(root)
    import zarr

    with refused(Counting.codec_id, kind=UnsupportedData):
        ls.SVD(zarr.open(str(root), mode="r")["X"], k=1)
    holds(not asked, "an unknown codec was asked to decode")


@pytest.mark.parametrize("form", [2, 3])
def test_known_codecs_are_read(tmp_path: Path, form: int) -> None:
    """As the library writes them: each compressor that it has, filters of numbers, shards, texts."""
    zarr, numcodecs = pytest.importorskip("zarr"), pytest.importorskip("numcodecs")
    if form == 2:
        packers: list[dict[str, Any]] = [
            {"compressors": one()}
            for one in (numcodecs.Blosc, numcodecs.Zlib, numcodecs.GZip, numcodecs.BZ2, numcodecs.LZ4)
        ]
        packers += [
            {"compressors": numcodecs.Zstd(), "filters": [numcodecs.Delta("<f8")]},
            {
                "filters": [numcodecs.AsType("<f8", "<f8"), numcodecs.Shuffle(8)],
                "compressors": numcodecs.LZMA(),
            },
        ]
    else:
        codecs = zarr.codecs
        packers = [{"compressors": one()} for one in (codecs.BloscCodec, codecs.GzipCodec, codecs.ZstdCodec)]
        packers += [
            {"shards": (20, 4)},
            {"filters": codecs.TransposeCodec(order=(1, 0))},
            {"compressors": None},
        ]
    for number, packed in enumerate(packers):
        path = str(tmp_path / f"a{number}.zarr")
        array = zarr.create_array(path, shape=A.shape, chunks=(10, 2), dtype="f8", zarr_format=form, **packed)
        array[:] = A
        holds(np.allclose(ls.open_rows(path).dense(), A, rtol=1e-15), f"{packed} is read as other numbers")
    found = ls.open_rows(group_of_2(tmp_path))
    holds(found.column_names == tuple(f"var{i}" for i in range(COLUMNS)), "other names of columns")
    holds(list(found.row_names) == [f"obs{i}" for i in range(ROWS)], "other labels of rows")


# ---- the same question to the other formats -----------------------------------------------------------------------


def pickled(kind: str, path: Path, bomb: Bomb) -> Path:
    """A file of a format with a pickle wherever the format may have one."""
    objects = np.array([[bomb]], dtype=object)
    if kind == "npy":
        np.save(path / "a.npy", objects)
        return path / "a.npy"
    if kind == "npz":
        np.savez(path / "a.npz", a=objects)
        return path / "a.npz"
    if kind == "sparse npz":
        parts = {"format": np.array([bomb], dtype=object), "shape": [1, 1], "data": [1.0]}
        np.savez(path / "a.npz", **parts, indices=[0], indptr=[0, 1])
        return path / "a.npz"
    if kind == "header":
        header = b"{'descr': __import__('os').mkdir('ran') or '<f8', 'fortran_order': False, 'shape': (1, 1)}"
        header += b" " * (-(len(header) + 11) % 64) + b"\n"
        whole = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(8)
        (path / "a.npy").write_bytes(whole)
        return path / "a.npy"
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    facts = {
        b"ARROW:extension:name": b"arrow.py_extension_type",
        b"ARROW:extension:metadata": pickle.dumps(bomb),
    }
    field = pa.field("a", pa.float64(), metadata=facts)
    pq.write_table(pa.table([pa.array([1.0, 2.0, 3.0])], schema=pa.schema([field])), path / "a.parquet")
    return path / "a.parquet"


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("kind", ["npy", "npz", "sparse npz", "header", "parquet"])
def test_no_other_file_runs_code(tmp_path: Path, monkeypatch: Any, kind: str, several: bool) -> None:
    monkeypatch.chdir(tmp_path)
    path = pickled(kind, tmp_path, Bomb(tmp_path / "ran"))
    if several:
        shutil.copy(path, path.with_stem("b"))
    try:
        # A release of Arrow may read the numbers, and pass over the name of their type.
        with refused() if kind != "parquet" else suppress(LinspecError):
            solved(path.with_stem("*") if several else path)
    finally:
        nothing_ran(tmp_path / "ran")


# ---- HDF5 that leads elsewhere ------------------------------------------------------------------------------------


def elsewhere(kind: str, folder: Path) -> Path:
    """Make an HDF5 file whose matrix `a` is in another file."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "other.h5", "w") as file:
        file["secret"] = A
    (folder / "secret.txt").write_bytes(A.tobytes())
    path = folder / "a.h5"
    with h5py.File(path, "w") as file:
        if kind == "external storage":
            about = [(str(folder / "secret.txt"), 0, A.nbytes)]
            file.create_dataset("a", A.shape, "f8", external=about)
        elif kind == "external link":
            file["a"] = h5py.ExternalLink("other.h5", "/secret")
        elif kind == "soft link to an external link":
            file.create_group("b")["c"] = h5py.ExternalLink("other.h5", "/")
            file["a"] = h5py.SoftLink("/b/c/secret")
        elif kind == "virtual":
            layout = h5py.VirtualLayout(A.shape, "f8")
            layout[:] = h5py.VirtualSource(str(folder / "other.h5"), "secret", A.shape)
            file.create_virtual_dataset("a", layout)
        elif kind == "link to a pipe":
            os.mkfifo(folder / "pipe.h5")
            file["a"] = h5py.ExternalLink("pipe.h5", "/")
        elif kind == "circle":
            file["b"], file["a"] = h5py.SoftLink("/a"), h5py.SoftLink("/b")
    return path


OTHERS = ["external storage", "external link", "soft link to an external link", "virtual", "circle"]


@POSIX
@pytest.mark.parametrize("part", ["", "a"])
@pytest.mark.parametrize("kind", [*OTHERS, "link to a pipe"])
@pytest.mark.slow(keep=3)
def test_a_path_reads_no_other_file(tmp_path: Path, kind: str, part: str) -> None:
    path = elsewhere(kind, tmp_path)
    program = (
        "import linspec as ls\n"
        "from hostile.outcomes import refused\n"
        f"with refused('a.h5', {'link' if 'link' in kind else 'a'!r}):\n"
        f"    ls.SVD(ls.open_rows({str(path)!r}, part={part!r}), k=1)\n"
    )
    apart(program, seconds=30, env=with_trials())


def with_trials() -> dict[str, str]:
    """The environment of a process that finds these trials."""
    return {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])}


def test_links_within_the_file_and_datasets_of_h5py_are_read(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "soft.h5", "w") as file:
        file.create_group("b")["c"] = A
        file["b/d"] = h5py.SoftLink("c")
        file["a"] = h5py.SoftLink("/b/d")
    found = ls.open_rows(tmp_path / "soft.h5", part="a").dense()
    holds(np.array_equal(found, A), "a link within the file is read as other numbers")
    with h5py.File(elsewhere("virtual", tmp_path)) as file:  # who opens it has chosen it
        holds(np.array_equal(ls.as_operator(file["a"]).dense(), A), "a dataset is read as other numbers")


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


def spoilt(file: Any, fault: str) -> None:
    """Damage an AnnData."""
    if fault.startswith("no "):
        del file[fault[3:]]
    elif fault.startswith("code "):
        file["obs/_index/codes"][2] = int(fault[5:])
    elif fault == "fractional codes":
        del file["obs/_index/codes"]
        file["obs/_index/codes"] = np.arange(ROWS) + 0.5
    elif fault == "codes in two dimensions":
        del file["obs/_index/codes"]
        file["obs/_index/codes"] = np.zeros((ROWS, 1), int)
    elif fault == "an index that is a group":
        del file["obs/_index/codes"]
        file.create_group("obs/_index/codes")
    elif fault == "an index of another name":
        file["obs"].attrs["_index"] = "\x1b[31mnames"
    elif fault == "var is an array":
        del file["var"]
        file["var"] = np.zeros(COLUMNS)
    elif fault == "var without entries":
        del file["var/_index"]
        file["var/_index"] = np.array(0.0)


FAULTS = (
    *(
        "no obs",
        "no var",
        "no obs/_index",
        "no var/_index",
        "no obs/_index/codes",
        "no obs/_index/categories",
        "no X",
    ),
    *("code -1", "code -128", "code 20", "code 127", "fractional codes", "codes in two dimensions"),
    *("an index that is a group", "an index of another name", "var is an array", "var without entries"),
)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_damaged_file_of_anndata_is_named(tmp_path: Path, fault: str) -> None:
    h5py = pytest.importorskip("h5py")
    path = annotated(tmp_path / "cells.h5ad")
    holds(list(ls.open_rows(path).row_names) == [f"obs{i}" for i in range(ROWS)], "other labels")
    with h5py.File(path, "a") as file:
        spoilt(file, fault)
    with refused("cells.h5ad", kind=InvalidProblem):
        ls.open_rows(path)


@pytest.mark.parametrize("form", ["csr", "csc"])
@pytest.mark.parametrize("dtype", [">f8", ">f4", ">i2", "<f2", "<f4", "u1", "?"])
def test_compressed_matrices_of_any_byte_order(tmp_path: Path, form: str, dtype: str) -> None:
    h5py = pytest.importorskip("h5py")
    exact = np.round(3 * np.where(np.abs(A) > 0.5, A, 0)).clip(0 if dtype in ("u1", "?") else -9, 9)
    matrix = scipy.sparse.csr_array(exact.astype(bool) if dtype == "?" else exact).asformat(form)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        group = file.create_group("a")
        group.attrs["encoding-type"], group.attrs["shape"] = f"{form}_matrix", A.shape
        group["data"] = matrix.data.astype(dtype)
        group["indices"] = matrix.indices.astype(">i8" if dtype[0] == ">" else "i4")
        group["indptr"] = matrix.indptr.astype(">i4" if dtype[0] == ">" else "i8")
    found = ls.open_rows(tmp_path / "a.h5")
    holds(np.array_equal(found.dense(), matrix.toarray()), "other numbers")
    holds(np.allclose(found.matmat(np.eye(COLUMNS)), matrix.toarray()), "other products")


# ---- the door: what is no file, and what declares more than there is -----------------------------------------------


def whole(folder: Path) -> dict[str, Path]:
    """A good file or folder of each format that takes a library."""
    h5py, zarr = pytest.importorskip("h5py"), pytest.importorskip("zarr")
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for name in ("a.h5", "a.h5ad"):
        with h5py.File(folder / name, "w") as file:
            file["X"] = A
    pq.write_table(pa.table({f"c{j}": A[:, j] for j in range(COLUMNS)}), folder / "a.parquet")
    zarr.create_array(str(folder / "a.zarr"), shape=A.shape, chunks=(10, COLUMNS), dtype="f8")[:] = A
    group_of_2(folder / "cells")
    return {one.name: one for one in folder.iterdir()}


NO_FILES = ("a pipe", "/dev/zero", "a socket", "a folder", "nothing", "a circle", "no bytes")


def put(kind: str, path: Path) -> None:
    """Put something that is no file in the place of a path."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "/dev/zero":
        path.symlink_to(kind)
    elif kind == "a circle":
        path.symlink_to(path.name)
    elif kind == "a folder":
        path.mkdir()
    elif kind == "no bytes":
        path.touch()
    elif kind == "a socket":
        here = Path.cwd()
        os.chdir(path.parent)  # the names of sockets are short
        try:
            with socket.socket(socket.AF_UNIX) as server:
                server.bind(path.name)
        finally:
            os.chdir(here)


@POSIX
@pytest.mark.parametrize("kind", NO_FILES)
@pytest.mark.slow(keep=2)
def test_what_is_no_file_is_refused_by_every_call(tmp_path: Path, kind: str) -> None:
    """By paths, patterns and lists, in Python: none is opened, as to open a pipe waits for ever."""
    names = [
        f"a{suffix}" for suffix in (".npy", ".npz", ".parquet", ".pq", ".h5", ".hdf5", ".h5ad", ".zarr", "")
    ]
    for name in names:
        put(kind, tmp_path / name)
    program = f"""
import linspec as ls
from hostile.outcomes import refused
for name in {names!r}:
    for use in (ls.open_rows, ls.as_operator, lambda path: ls.SVD(path, k=1), lambda path: ls.open_rows([path, path])):
        with refused("a"):
            use(name)
    if {kind!r} not in ("nothing", "a circle") and name[1:]:
        with refused("a"):
            ls.open_rows("[a]" + name[1:])
"""
    apart(program, seconds=50, env=with_trials(), cwd=tmp_path)


PARTS_OF_ZARR = (
    *(
        "a.zarr/zarr.json",
        "a.zarr/c/0/0",
        "cells/a.zarr/.zgroup",
        "cells/a.zarr/.zattrs",
        "cells/a.zarr/X/.zarray",
    ),
    *(
        "cells/a.zarr/X/0.0",
        "cells/a.zarr/obs/_index/0",
        "cells/a.zarr/var/_index/.zarray",
        "cells/a.zarr/var/.zattrs",
    ),
    "cells/a.zarr/.zmetadata",
)


@POSIX
@pytest.mark.parametrize("kind", ["a pipe", "/dev/zero"])
@pytest.mark.slow(keep=1)
def test_a_part_of_a_folder_that_is_no_file_is_refused(tmp_path: Path, kind: str) -> None:
    trials = []
    for number, part in enumerate(PARTS_OF_ZARR):
        folder = tmp_path / str(number)
        folder.mkdir()
        whole(folder)
        put(kind, folder / part)
        trials.append(str(folder / part[: part.index(".zarr") + 5]))
    program = f"""
import linspec as ls
from hostile.outcomes import refused
for path in {trials!r}:
    with refused("a.zarr"):
        ls.solve(ls.SVD(ls.open_rows(path), k=1))
"""
    apart(program, env=with_trials())


def declared(folder: Path, shape: list[int], chunks: list[int]) -> Path:
    """An array of zarr that is described, and has no chunk."""
    codecs = [{"name": "bytes", "configuration": {"endian": "little"}}]
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": "float64",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0.0,
        "codecs": codecs,
        "attributes": {},
    }
    (folder / "a.zarr").mkdir()
    (folder / "a.zarr/zarr.json").write_text(json.dumps(document))
    return folder / "a.zarr"


SIZES = [
    ([10**8, 4], [1, 4]),
    ([10**8, 4], [10**8, 4]),
    ([2**36, 4], [1, 4]),
    ([2**36, 4], [10**6, 4]),
    ([2**62, 4], [1, 4]),
    ([2**70, 4], [2**70, 4]),
    ([10, 10**8], [10, 1]),
    ([10, 10**12], [1, 1]),
    ([10, 10**12], [10, 10**12]),
]


def test_a_small_file_that_declares_many_rows_ends_in_time(tmp_path: Path) -> None:
    """Some chunks are looked for at a time, and no memory is taken for what is only declared."""
    pytest.importorskip("zarr")
    paths = []
    for number, (shape, chunks) in enumerate(SIZES):
        (tmp_path / str(number)).mkdir()
        paths.append(str(declared(tmp_path / str(number), shape, chunks)))
    program = f"""
import resource, warnings
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
warnings.simplefilter("ignore")
import linspec as ls
from linspec.errors import LinspecError
for path in {paths!r}:
    try:
        ls.solve(ls.SVD(path, k=1), max_seconds=0.5)
    except LinspecError as error:
        print(error)
"""
    apart(program, env={**with_trials(), "OPENBLAS_NUM_THREADS": "1"})


def test_labels_and_row_ends_that_are_only_declared_are_not_made(tmp_path: Path) -> None:
    """A matrix with 20 rows declares 10^12 labels, and 10^12 ends of rows."""
    pytest.importorskip("zarr")
    root = group_of_2(tmp_path)
    for count in (10**12, 10**7):
        (root / "var/_index/.zarray").write_text(
            json.dumps({**described([count], "|O", [{"id": "vlen-utf8"}]), "chunks": [1]})
        )
        with refused("a.zarr", str(count)):
            ls.open_rows(root)
    (root / "X/.zarray").rename(root / "X/.zgroup")
    (root / "X/.zgroup").write_text(json.dumps({"zarr_format": 2}))
    (root / "X/.zattrs").write_text(json.dumps({"encoding-type": "csr_matrix", "shape": [10**12, COLUMNS]}))
    for part, length in (("data", 0), ("indices", 0), ("indptr", 10**12 + 1)):
        (root / "X" / part).mkdir()
        chunks = [1] if length else [10]
        (root / "X" / part / ".zarray").write_text(
            json.dumps({**described([length], "<i8"), "chunks": chunks})
        )
    with refused("a.zarr", "indptr"):
        ls.open_rows(root)


@pytest.mark.parametrize("kind", ["npy", "h5", "h5ad", "parquet"])
@pytest.mark.slow(keep=1)
def test_more_files_than_a_process_may_open(tmp_path: Path, kind: str) -> None:
    """A pattern of 150 files where 64 may be open at once."""
    pytest.importorskip("resource")
    parts = 150
    rows = np.random.default_rng(1).standard_normal((parts, 2, COLUMNS))
    for number, part in enumerate(rows):
        path = tmp_path / f"part{number}.{kind}"
        if kind == "npy":
            np.save(path, part)
        elif kind == "parquet":
            pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
            pq.write_table(pa.table({f"c{j}": part[:, j] for j in range(COLUMNS)}), path)
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
    count, largest = apart(program, env={"OPENBLAS_NUM_THREADS": "1"}).stdout.split()
    expected = np.linalg.norm(rows.reshape(-1, COLUMNS), 2)
    holds(int(count) == 2 * parts and np.isclose(float(largest), expected, rtol=1e-9), "another answer")


# ---- descriptions that are broken --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", [b"{", b"[]", b"3", b'{"index_columns": 5}', b"\xff\xfe", b'{"index_columns": [[]]}']
)
def test_broken_metadata_of_pandas(tmp_path: Path, text: bytes) -> None:
    """They say which columns are the index: read, or refused by both, Python and the command."""
    pytest.importorskip("click")
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    from hostile.outcomes import command

    table = pa.table({f"c{j}": A[:, j] for j in range(COLUMNS)})
    pq.write_table(table.replace_schema_metadata({b"pandas": text}), tmp_path / "a.parquet")
    with suppress(LinspecError):
        found = ls.open_rows(tmp_path / "a.parquet").dense()
        holds(np.array_equal(found, A), "other numbers")
    command("solve", "svd", tmp_path / "a.parquet", "-k", 1)
    found = ls.open_rows(tmp_path / "a.parquet", columns=["c1"]).dense()
    holds(np.array_equal(found, A[:, [1]]), "a column by its name does not ask which is the index")


@pytest.mark.parametrize("kind", ["h5ad", "zarr"])
def test_names_with_a_null_character(tmp_path: Path, kind: str) -> None:
    pytest.importorskip("click")
    from linspec.cli.data import Failure, read
    from linspec.errors import LinspecError

    path = annotated(tmp_path / "a.h5ad") if kind == "h5ad" else group_of_2(tmp_path)
    for part in ("\0", "X\0", "obs/\0"):
        with refused(path.name):
            ls.open_rows(path, part=part)
        with pytest.raises((Failure, LinspecError)):
            read(f"{path}:{part}")
    for name in ("x.h5ad:\0", "x\0.h5ad", "\0"):
        with refused():
            ls.open_rows(name)
        with pytest.raises((Failure, LinspecError)):
            read(name)
