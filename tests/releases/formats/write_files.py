"""Files as other libraries write them, with the numbers that these libraries read back.

Yielded are data, arguments of `linspec.open_rows`, for a refusal its words and what they tell to pass, and the numbers.
"""

from __future__ import annotations

import gzip
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.io
import scipy.sparse as sp
import xarray as xr
import zarr
from pyarrow import csv, dataset
from pyarrow import parquet as pq

X = np.round(20 * np.random.default_rng(0).standard_normal((30, 4))) + np.array([0, 0, 0, 100])
GAPS = np.where(np.arange(120).reshape(30, 4) == 0, np.nan, X)
COUNTS, SQUARE = np.where(abs(X) > 15, abs(X), 0.0), X[:4].T @ X[:4]
NAMES, CELLS = ["a", "b", "c", "d"], [f"cell{i}" for i in range(30)]
ELSEWHERE, CHANGED = "read them with what wrote them", "what xarray or netCDF4 makes of them"

ROWS: dict[str, tuple[str, Callable[[Path], Iterator[Any]]]] = {}


def rows(distributions: str, *kinds: str) -> Callable[[Any], Any]:
    """Add a row for each kind, named by the docstring of what writes it; {} is a distribution that a kind names."""

    def add(write: Any) -> Any:
        for kind in kinds:
            ROWS[f"{write.__doc__} {kind}"] = distributions.format(kind.split()[0]), partial(write, kind)
        return write

    return add


UNWRITTEN = [f"{dtype} not written" for dtype in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")]
ATTRIBUTES = {"scale_factor": 0.5, "add_offset": 5.0, "valid_range": np.int16([-20, 99]), "_Unsigned": "true"}
OLD = ("NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET")
REFUSED = dict.fromkeys(ATTRIBUTES, CHANGED) | dict.fromkeys(OLD, ELSEWHERE)


@rows("netCDF4", "f8", "i2 _FillValue", "f4 _FillValue", *UNWRITTEN)
@rows("netCDF4", *(f"i2 {key}" for key in ATTRIBUTES), *(f"f8 {style}" for style in OLD))
def netcdf(kind: str, folder: Path) -> Iterator[Any]:
    """Variable of netCDF4,"""
    dtype, _, kind = kind.partition(" ")
    path = folder / ("a.nc" if kind in OLD else "a.h5")
    with netCDF4.Dataset(path, "w", format=kind if kind in OLD else "NETCDF4") as file:
        file.createDimension("row", 30)
        file.createDimension("column", 4)
        fill = -99 if kind == "_FillValue" else None
        variable = file.createVariable("x", dtype, ("row", "column"), fill_value=fill)
        variable.set_auto_maskandscale(False)
        count = 20 if "not" in kind or kind == "_FillValue" else 30
        variable[:count] = abs(X[:count]) if dtype[0] == "u" else X[:count]
        if kind in ATTRIBUTES:
            variable.setncattr(kind, ATTRIBUTES[kind])
    with netCDF4.Dataset(path) as file:
        exact = np.ma.filled(file["x"][:].astype(float), np.nan)
    if kind in REFUSED:  # xarray does not heed a valid_range
        told = exact if kind == "valid_range" else xr.load_dataset(path)["x"]
        yield path, {"part": "x"}, REFUSED[kind], told, exact
    else:
        yield path, {"part": "x"}, exact
        with h5py.File(path) as file:
            yield file["x"], {}, exact


ENCODED: dict[str, tuple[Any, dict[str, Any]]] = {
    "floats": (GAPS, {}),
    "integers": (X.astype("i4"), {}),
    "_FillValue -99": (GAPS, {"dtype": "i2", "_FillValue": -99}),
    "_FillValue 1e20": (GAPS.astype("f4"), {"_FillValue": np.float32(1e20)}),
    "missing_value": (GAPS, {"dtype": "i2", "missing_value": -99, "_FillValue": -99}),
    "scale_factor": (X, {"dtype": "i2", "scale_factor": 0.5, "add_offset": 5.0, "_FillValue": -999}),
}


@rows("xarray netCDF4", *(f"netcdf4 {kind}" for kind in ENCODED))
@rows("xarray h5netcdf", *(f"h5netcdf {kind}" for kind in ENCODED))
@rows("xarray zarr", *(f"zarr{version} {kind}" for version in (2, 3) for kind in ENCODED))
def xarray_variable(kind: str, folder: Path) -> Iterator[Any]:
    """Variable of xarray,"""
    engine, _, kind = kind.partition(" ")
    values, encoding = ENCODED[kind]
    data = xr.Dataset({"x": (("row", "column"), values)})
    if "zarr" in engine:
        pytest.importorskip("xarray", "2025.1", reason="xarray before 2025 needs zarr 2")
        path, reader = folder / "a.zarr", "zarr"
        data.to_zarr(path, encoding={"x": encoding}, zarr_format=int(engine[-1]))
    else:
        path, reader = folder / "a.h5", engine
        data.to_netcdf(path, encoding={"x": encoding}, engine=engine)
    back = xr.load_dataset(path, engine=reader)["x"]
    yield path, {"part": "x"}, *([CHANGED, back] if kind == "scale_factor" else []), back.to_numpy()


MATRICES = {"dense": np.asarray, "f4": np.float32, "csr": sp.csr_matrix, "csc": sp.csc_matrix}


@rows("anndata zarr", *(f"{end} {kind}" for end in (".h5ad", ".zarr") for kind in [*MATRICES, "settings"]))
def annotated(kind: str, folder: Path) -> Iterator[Any]:
    """AnnData,"""
    ad = pytest.importorskip("anndata", reason="0.11 takes no zarr 3", exc_type=ImportError)
    end, _, kind = kind.partition(" ")
    make, path = MATRICES.get(kind, sp.csr_matrix), folder / f"a{end}"
    names = {"csr": pd.CategoricalIndex(NAMES), "settings": pd.Index(NAMES, dtype="string")}.get(kind, NAMES)
    data = ad.AnnData(make(COUNTS), pd.DataFrame(index=CELLS), pd.DataFrame(index=names))
    data.layers["more"], data.obsm["X_pca"], data.raw = make(COUNTS + 1), X[:, :2], data.copy()
    data.obsm["frame"] = pd.DataFrame(X, CELLS, NAMES)
    flags = {"zarr_write_format": 3, "auto_shard_zarr_v3": True} if end == ".zarr" else {}
    flags |= {"allow_write_nullable_strings": True, "write_csr_csc_indices_with_min_possible_dtype": True}
    with ad.settings.override(**flags if kind == "settings" else {}):
        data.write_h5ad(path, compression="gzip") if end == ".h5ad" else data.write_zarr(path)
    back = ad.read_h5ad(path) if end == ".h5ad" else ad.read_zarr(path)
    yield path, {}, back.X
    yield path, {"columns": ["c", "a"]}, back[:, ["c", "a"]].X
    yield path, {"part": "layers/more"}, back.layers["more"]
    yield path, {"part": "raw/X"}, back.raw.X
    yield path, {"part": "obsm/frame"}, "the library that wrote it", back.obsm["frame"], X
    yield back, {}, back.X
    if end == ".h5ad":
        backed = ad.read_h5ad(path, backed="r")
        yield backed, {}, back.X
        yield backed[5:20, ["d", "b"]], {}, back[5:20, ["d", "b"]].X
        backed.file.close()


@rows("loompy", "whose genes are rows")
def loom(kind: str, folder: Path) -> Iterator[Any]:
    """Loom,"""
    import loompy

    path = str(folder / "a.loom")
    layers = {"": COUNTS.T, "spliced": COUNTS.T + 1}
    loompy.create(path, layers, {"Gene": np.array(NAMES)}, {"CellID": np.array(CELLS)})
    with loompy.connect(path, "r") as file:
        yield path, {"columns": NAMES}, file[:, :].T
        yield path, {"part": "layers/spliced"}, file.layers["spliced"][:, :].T


@rows("h5py", "f8", ">f4", "f2", "g", "?")
def hdf5(kind: str, folder: Path) -> Iterator[Any]:
    """Dataset of h5py, with filters and soft links,"""
    path = folder / "a.h5"
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("g/x", data=X.astype(kind), compression="lzf", shuffle=True, fletcher32=True)
        file["gone"], file["x"] = h5py.SoftLink("/nowhere"), h5py.SoftLink("/g/x")
        file.swmr_mode = True
    with h5py.File(path, swmr=True) as file:
        yield file["x"], {}, file["x"][:]
        yield path, {"part": "x"}, file["x"][:]


def run(code: str, **more: Any) -> None:
    """Run a line of Python in a process of its own, where X is the matrix."""
    code = f"import numpy; X = numpy.array({X.tolist()}); {code}"
    subprocess.run([sys.executable, "-c", code], check=True, **more)


@rows("tables", "array", "carray", "frame fixed", "frame table")
@rows("hdf5plugin", "Blosc2", "Bitshuffle", "LZ4")
@rows("hdf5storage", "MATLAB f8", "MATLAB bool")
def written_by_others(kind: str, folder: Path) -> Iterator[Any]:
    """HDF5 by others,"""
    path, told = folder / ("a.mat" if "MATLAB" in kind else "a.h5"), str(folder / "b.npy")
    if kind in ("Blosc2", "Bitshuffle", "LZ4"):  # whoever imports hdf5plugin has its filters
        write = f"h5py.File('{path}', 'w').create_dataset('x', data=X, chunks=(30, 4), **hdf5plugin.{kind}())"
        read = f"numpy.save('{told}', linspec.open_rows('{path}').dense())"
        run(f"import h5py, hdf5plugin, linspec; {write}; {read}")
        yield path, {}, "import hdf5plugin", told, X
    elif "MATLAB" in kind:
        storage = import_module("hdf5storage")
        storage.savemat(str(path), {"x": X.astype(kind.split()[1])}, format="7.3")
        yield path, {"part": "x"}, storage.loadmat(str(path))["x"]
    elif "frame" in kind:
        pd.DataFrame(X, columns=NAMES).to_hdf(path, key="k", format=kind.split()[1])
        yield path, {"part": "k"}, r"pandas\.read_hdf", pd.read_hdf(path), X
    else:
        with import_module("tables").open_file(path, "w") as file:
            getattr(file, f"create_{kind}")("/", "x", obj=X)
        yield path, {}, X


ZARR: dict[str, dict[str, Any]] = {
    "order F": {"order": "F"},
    "keys a/b": {"chunk_key_encoding": {"name": "v2", "separator": "/"}},
    "shards": {"shards": (14, 4)},
    "transposed": {"filters": {"name": "transpose", "configuration": {"order": [1, 0]}}},
    "rectilinear": {"chunks": [[10, 5, 15], [4]]},
}


@rows("zarr", "2 f8", "2 >f8", "2 order F", "2 keys a/b", "3 f8", "3 f2", *(f"3 {kind}" for kind in ZARR))
def zarr_array(kind: str, folder: Path) -> Iterator[Any]:
    """Array of zarr 3, format"""
    version, _, kind = kind.partition(" ")
    if kind == "rectilinear":
        pytest.importorskip("zarr", "3.4", reason="rectilinear chunks came with zarr 3.4")
        zarr.config.set({"array.rectilinear_chunks": True})
    more = {"dtype": "f8" if kind in ZARR else kind, "chunks": (7, 4), **ZARR.get(kind, {})}
    stores = folder / "a.zarr", zarr.storage.MemoryStore(), zarr.storage.ZipStore(folder / "a.zip", mode="w")
    for store in stores:
        array = zarr.create_array(store, shape=X.shape, zarr_format=int(version), **more)
        array[:] = X
        words = ["grid of chunks", [array[:9], array[9:]]] if kind == "rectilinear" else []
        yield array, {}, *words, array[:]
    yield stores[0], {}, *words, array[:]


@cache
def zarr_2() -> str:
    """Install zarr 2 where only a process that is told finds it."""
    folder = tempfile.mkdtemp()
    pins = tomllib.loads(Path(__file__).parents[1].joinpath("versions.toml").read_text("utf-8"))["writers"]
    command = [sys.executable, "-m", "pip", "install", "-q", "--target", folder, *pins["zarr2"]["packages"]]
    subprocess.run(command, check=True)
    return folder


COMPRESSORS = [f"compressor=c.{name}()" for name in ("Blosc", "Zlib", "Zstd", "LZ4", "BZ2")]
FILTERS = ("filters=[c.Delta('f8')]", "object_codec=c.Pickle()")


@rows("zarr", *COMPRESSORS, *FILTERS, "order='F'", "dimension_separator='/'", "fill_value=7.0")
def old_zarr(kind: str, folder: Path) -> Iterator[Any]:
    """Array of zarr 2,"""
    path, told, kept = folder / "a.zarr", folder / "b.npy", "object" if "object" in kind else "float"
    code = f"a = zarr.array(X.astype('{kept}'), chunks=(7, 4), store='{path}', {kind})"
    code += f"; numpy.save('{told}', a[:].astype(float))"
    run(f"import zarr, numcodecs as c; {code}", env={"PYTHONPATH": zarr_2()})
    yield path, {}, *(["decoded by 'pickle', a codec", told] if "object" in kind else []), np.load(told)


@rows("pyarrow pandas", "dictionaries, decimals, integers with null")
def parquet(kind: str, folder: Path) -> Iterator[Any]:
    """Parquet of pyarrow,"""
    path, (a, b, c, d) = folder / "a.parquet", map(pa.array, X.T)
    integers = pa.array([None, *c.cast("int64").to_pylist()[1:]])
    table = pa.table({"a": a.dictionary_encode(), "b": b.cast(pa.decimal128(20, 2)), "c": integers, "d": d})
    pq.write_table(table, path, row_group_size=7)
    yield path, {"missing": "nan"}, pq.read_table(path).to_pandas().astype(float)


@rows("{} pandas", "pandas parquet", "pandas csv", "pyarrow csv", "fastparquet parquet", "polars parquet")
@rows("{} pandas", "polars csv", "duckdb csv", "duckdb parquet", "pyarrow feather", "pyarrow orc")
def table(kind: str, folder: Path) -> Iterator[Any]:
    """Table of"""
    library, end = kind.split()
    frame, path, writer = pd.DataFrame(X, columns=NAMES), folder / f"a.{end}", import_module(library)
    if library == "duckdb":
        columns = "* replace (a::decimal(9, 2) as a, b::int as b)"
        writer.sql(f"copy (select {columns} from frame) to '{path}' (format {end})")
    elif library == "polars":
        getattr(writer.from_pandas(frame), f"write_{end}")(path)
    elif kind == "pyarrow csv":
        csv.write_csv(pa.table(frame), path)
    else:
        getattr(frame, f"to_{end}")(path, **({"engine": library} if library == "fastparquet" else {}))
    refused = [ELSEWHERE, dataset.dataset(path, format=end)] if end in ("feather", "orc") else []
    yield path, {}, *refused, getattr(pd, f"read_{end}")(path)[NAMES]


MARKET: dict[str, tuple[Any, dict[str, Any]]] = {
    "pattern": (sp.coo_array(COUNTS), {"field": "pattern"}),
    "symmetric": (sp.coo_array(SQUARE), {"symmetry": "symmetric"}),
    "skew": (sp.coo_array(X[:4] - X[:4].T), {"symmetry": "skew-symmetric"}),
    "complex": (sp.coo_array(COUNTS * (1 + 1j)), {}),
}


@rows("{}", *(f"{library} {kind}" for library in ("scipy", "fast_matrix_market") for kind in MARKET))
def matrix_market(kind: str, folder: Path) -> Iterator[Any]:
    """Matrix Market of"""
    library, _, kind = kind.partition(" ")
    market, path = scipy.io if library == "scipy" else import_module(library), folder / "a.mtx.gz"
    with gzip.open(path, "wb") as stream:
        market.mmwrite(stream, MARKET[kind][0], **MARKET[kind][1])
    back = scipy.io.mmread(path).real
    yield path, {}, *(["Split them into two matrices", back] if kind == "complex" else []), back


@rows("{}", "nibabel .nii", "nibabel .nii.gz", "pyreadr .rds", "pyreadr .RData")
@rows("{}", "pyreadstat .sav", "pyreadstat .dta", "pyreadstat .xpt")
@rows("mne edfio eeglabio", "mne _raw.fif", "mne .edf", "mne .set")
def elsewhere(kind: str, folder: Path) -> Iterator[Any]:
    """What linspec does not read,"""
    library, end = kind.split()
    io, path, frame = import_module(library), str(folder / f"a{end}"), pd.DataFrame(GAPS, columns=NAMES)
    if library == "nibabel":
        image = io.Nifti1Image(X.T.reshape(2, 2, 1, 30).astype("i2"), np.eye(4))
        image.header.set_slope_inter(0.5, 3)
        io.save(image, path)
        told, exact = io.load(path).get_fdata().reshape(4, 30).T, 0.5 * X + 3
    elif library == "pyreadr":
        io.write_rds(path, frame) if end == ".rds" else io.write_rdata(path, frame, df_name="x")
        told, exact = next(iter(io.read_r(path).values())), GAPS
    elif library == "pyreadstat":
        name, missing = {".sav": "sav", ".dta": "dta", ".xpt": "xport"}[end], float(X[0, 1])
        user = {"missing_ranges": {"b": [missing]}} if end == ".sav" else {}
        getattr(io, f"write_{name}")(frame, path, **user)
        told = getattr(io, f"read_{name}")(path)[0]
        exact = np.where((np.arange(4) == 1) & (missing == X) & bool(user), np.nan, GAPS)
    else:
        raw = io.io.RawArray(1e-6 * np.tile(X.T, 10), io.create_info(NAMES, 100.0, "eeg"))
        raw.save(path) if end == "_raw.fif" else io.export.export_raw(path, raw)
        told = io.io.read_raw(path).get_data()[:, :30].T / 1e-6
        exact = np.where(abs(told - X) < 1e-2, told, X)  # EDF holds 16 bits
    yield Path(path), {}, ELSEWHERE, told, exact
