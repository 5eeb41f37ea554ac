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
from decimal import Decimal
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

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


def needed(*modules: str) -> Any:
    """Import modules that some environments lack."""
    got = [pytest.importorskip(name, reason="versions.toml does not name it here") for name in modules]
    return got[0] if len(got) == 1 else got


UNWRITTEN = [f"{dtype} not written" for dtype in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")]
ATTRIBUTES = {"scale_factor": 0.5, "add_offset": 5.0, "valid_range": np.int16([-20, 99]), "_Unsigned": "true"}
OLD = ("NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET")


@rows("netCDF4", "f8", "f8 big", "f8 zlib", "i2 _FillValue", "f4 _FillValue", *UNWRITTEN)
@rows("netCDF4", *(f"i2 {key}" for key in ATTRIBUTES), *(f"f8 {style}" for style in OLD))
def netcdf(kind: str, folder: Path) -> Iterator[Any]:
    """Variable of netCDF4,"""
    netCDF4, xarray = needed("netCDF4", "xarray")
    dtype, _, kind = kind.partition(" ")
    path = folder / ("a.nc" if kind in OLD else "a.h5")
    with netCDF4.Dataset(path, "w", format=kind if kind in OLD else "NETCDF4") as file:
        file.createDimension("row", 30)
        file.createDimension("column", 4)
        options = {"fill_value": -99 if kind == "_FillValue" else None, "zlib": kind == "zlib"}
        options["endian"] = "big" if kind == "big" else "native"
        variable = file.createVariable("x", dtype, ("row", "column"), **options)
        variable.set_auto_maskandscale(False)
        count = 20 if "not" in kind or kind == "_FillValue" else 30
        variable[:count] = abs(X[:count]) if dtype[0] == "u" else X[:count]
        if kind in ATTRIBUTES:
            variable.setncattr(kind, ATTRIBUTES[kind])
    with netCDF4.Dataset(path) as file:
        exact = np.ma.filled(file["x"][:].astype(float), np.nan)
    if kind in (*ATTRIBUTES, *OLD):
        words = ELSEWHERE if kind in OLD else CHANGED
        yield path, {"part": "x"}, words, exact, exact
        with xarray.open_dataset(path) as opened:  # which does not heed a valid_range
            yield path, {"part": "x"}, words, opened["x"].load(), X if kind == "valid_range" else exact
    else:
        yield path, {"part": "x"}, exact
        with needed("h5py").File(path) as file:
            yield file["x"], {}, exact


ENCODED: dict[str, tuple[Any, dict[str, Any]]] = {
    "floats": (GAPS, {}),
    "integers": (X.astype("i4"), {}),
    "_FillValue -99": (GAPS, {"dtype": "i2", "_FillValue": -99}),
    "_FillValue 1e20": (GAPS.astype("f4"), {"_FillValue": np.float32(1e20)}),
    "missing_value": (GAPS, {"dtype": "i2", "missing_value": -99, "_FillValue": -99}),
    "scale_factor": (X, {"dtype": "i2", "scale_factor": 0.5, "add_offset": 5.0, "_FillValue": -999}),
}
ENGINES = {"netcdf4": "netCDF4", "h5netcdf": "h5netcdf", "zarr2": "zarr", "zarr3": "zarr"}


@rows("xarray", *(f"{engine} {kind}" for engine in ENGINES for kind in ENCODED))
def xarray_variable(kind: str, folder: Path) -> Iterator[Any]:
    """Variable of xarray,"""
    engine, _, kind = kind.partition(" ")
    xarray, path = needed("xarray", ENGINES[engine])[0], folder / f"a.{'zarr' if 'zarr' in engine else 'h5'}"
    data = xarray.Dataset({"x": (("row", "column"), ENCODED[kind][0])})
    if "zarr" in engine:
        pytest.importorskip("xarray", "2025.1", reason="xarray before 2025 needs zarr 2")
        data.to_zarr(path, encoding={"x": ENCODED[kind][1]}, zarr_format=int(engine[-1]))
    else:
        data.to_netcdf(path, encoding={"x": ENCODED[kind][1]}, engine=engine)
    with xarray.open_dataset(path, engine="zarr" if "zarr" in engine else engine) as opened:
        back = opened["x"].load()
    yield path, {"part": "x"}, *([CHANGED, back] if kind == "scale_factor" else []), back.to_numpy()


MATRICES = {"dense": np.asarray, "f4": np.float32, "csr": sp.csr_matrix, "csc": sp.csc_matrix}


@rows("anndata zarr", *(f"{end} {kind}" for end in (".h5ad", ".zarr") for kind in [*MATRICES, "settings"]))
def annotated(kind: str, folder: Path) -> Iterator[Any]:
    """AnnData,"""
    ad, pd = needed("anndata", "pandas")
    end, _, kind = kind.partition(" ")
    if ad.__version__ < "0.12" and (end == ".zarr" or kind == "settings"):
        pytest.skip("anndata 0.11 needs zarr 2 for .zarr, and has none of these settings")
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
    loompy, path = needed("loompy"), str(folder / "a.loom")
    layers = {"": COUNTS.T, "spliced": COUNTS.T + 1}
    loompy.create(path, layers, {"Gene": np.array(NAMES)}, {"CellID": np.array(CELLS)})
    with loompy.connect(path, "r") as file:
        yield path, {"columns": NAMES}, file[:, :].T
        yield path, {"part": "layers/spliced"}, file.layers["spliced"][:, :].T


HDF5: dict[str, dict[str, Any]] = {
    "gzip": {"compression": "gzip", "chunks": (7, 2)},
    "lzf, fletcher32": {"compression": "lzf", "shuffle": True, "fletcher32": True},
}


@rows("h5py", *HDF5, ">f4", "f2", "g", "?", "soft links")
def hdf5(kind: str, folder: Path) -> Iterator[Any]:
    """Dataset of h5py,"""
    h5py, path = needed("h5py"), folder / "a.h5"
    with h5py.File(path, "w", libver="latest") as file:
        values = X.astype(kind) if len(kind) < 3 else X
        file.create_dataset("x" if kind != "soft links" else "g/x", data=values, **HDF5.get(kind, {}))
        if kind == "soft links":
            file["gone"], file["x"] = h5py.SoftLink("/nowhere"), h5py.SoftLink("/g/x")
        file.swmr_mode = True
    with h5py.File(path, swmr=True) as file:
        yield file["x"], {}, file["x"][:]
        yield path, {"part": "x"}, file["x"][:]


PLUGINS = ("Blosc2", "Bitshuffle", "LZ4")  # netCDF4 brings others into its process


@rows("tables hdf5plugin", "array", "carray", "frame fixed", "frame table", "frame mixed", *PLUGINS)
@rows("hdf5storage", "MATLAB f8", "MATLAB f4", "MATLAB i2", "MATLAB bool")
def written_by_others(kind: str, folder: Path) -> Iterator[Any]:
    """HDF5 by others,"""
    path, told = folder / ("a.mat" if "MATLAB" in kind else "a.h5"), str(folder / "b.npy")
    if kind in PLUGINS:  # each in a process of its own: whoever imports hdf5plugin has its filters
        if find_spec("hdf5plugin") is None:
            pytest.skip("versions.toml does not name it here")
        write = f"h5py.File(sys.argv[1], 'w').create_dataset('x', data=X, chunks=(30, 4), **{kind}())"
        read = "import linspec; numpy.save(sys.argv[2], linspec.open_rows(sys.argv[1]).dense())"
        for code in (f"X = numpy.array({X.tolist()}); {write}", read):
            code = f"import h5py, numpy, sys; from hdf5plugin import *; {code}"
            subprocess.run([sys.executable, "-c", code, str(path), told], check=True)
        yield path, {}, "import hdf5plugin", told, X
    elif "MATLAB" in kind:
        storage, values = needed("hdf5storage"), (X > 0 if "bool" in kind else X).astype(kind.split()[1])
        storage.savemat(str(path), {"x": values}, format="7.3")
        yield path, {"part": "x"}, storage.loadmat(str(path))["x"]
    elif "frame" in kind:
        pd, _ = needed("pandas", "tables")
        frame = pd.DataFrame(X, columns=NAMES).astype({"a": "i8"} if "mixed" in kind else {})
        frame.to_hdf(path, key="k", format="table" if "table" in kind else "fixed")
        yield path, {"part": "k"}, r"pandas\.read_hdf", pd.read_hdf(path), X
    else:
        with needed("tables").open_file(path, "w") as file:
            getattr(file, f"create_{kind}")("/", "x", obj=X)
        yield path, {}, X


ZARR: dict[str, dict[str, Any]] = {
    "order F": {"order": "F"},
    "keys a/b": {"chunk_key_encoding": {"name": "v2", "separator": "/"}},
    "shards": {"shards": (14, 4)},
    "transposed": {"filters": {"name": "transpose", "configuration": {"order": [1, 0]}}},
    "rectilinear": {"chunks": [[10, 5, 15], [4]]},
}


@rows(
    "zarr", "2 f8", "2 >f8", "2 order F", "2 keys a/b", *(f"3 {kind}" for kind in ("f8", "f2", "bool", *ZARR))
)
def zarr_array(kind: str, folder: Path) -> Iterator[Any]:
    """Array of zarr 3, format"""
    zarr, (version, _, kind) = needed("zarr"), kind.partition(" ")
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
FILTERS = (
    "filters=[c.Delta('f8')]",
    "filters=[c.FixedScaleOffset(0, 10, 'f8', 'i4')]",
    "object_codec=c.Pickle()",
)


@rows("zarr", *COMPRESSORS, *FILTERS, "order='F'", "dimension_separator='/'", "fill_value=7.0")
def old_zarr(kind: str, folder: Path) -> Iterator[Any]:
    """Array of zarr 2,"""
    path, told, kept = folder / "a.zarr", folder / "b.npy", "object" if "object" in kind else "float"
    code = f"import sys, numpy, zarr, numcodecs as c; X = numpy.array({X.tolist()}, dtype={kept}); a = zarr.array"
    code += f"(X, chunks=(7, 4), store='{path}', {kind}); numpy.save('{told}', a[:].astype(float))"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": zarr_2()})
    yield path, {}, *(["a codec that linspec does not know", told] if "object" in kind else []), np.load(told)


ARROW: dict[str, Callable[[Any, Any], Any]] = {
    "row groups": lambda pa, column: pa.array(column),
    "dictionaries": lambda pa, column: pa.array(column).dictionary_encode(),
    "decimals": lambda pa, column: pa.array([Decimal(int(x)) for x in column], pa.decimal128(20, 2)),
    "integers with null": lambda pa, column: pa.array([2**53 + 1, None, *map(int, column)]),
}


@rows("pyarrow pandas", *ARROW)
def parquet(kind: str, folder: Path) -> Iterator[Any]:
    """Parquet of pyarrow,"""
    pa, pq, path = *needed("pyarrow", "pyarrow.parquet"), folder / "a.parquet"
    table = pa.table({name: ARROW[kind](pa, X[:, j]) for j, name in enumerate(NAMES)})
    pq.write_table(table, path, row_group_size=7)
    yield path, {"missing": "nan"}, pq.read_table(path).to_pandas().astype(float)


@rows("{} pandas", "pandas parquet", "pandas csv", "pyarrow csv", "fastparquet parquet", "polars parquet")
@rows("{} pandas", "polars csv", "duckdb csv", "duckdb parquet", "duckdb hive.parquet")
@rows("pyarrow", "pyarrow feather", "pyarrow orc")
def table(kind: str, folder: Path) -> Iterator[Any]:
    """Table of"""
    (library, end), pd, fs = kind.split(), needed("pandas"), needed("pyarrow.dataset")
    frame, path, writer, words = pd.DataFrame(X, columns=NAMES), folder / f"a.{end}", needed(library), []
    if library == "duckdb":
        into = f"'{path}' (format {end.removeprefix('hive.')}{', partition_by (b)' * ('hive' in end)})"
        writer.sql(f"copy (select * replace (a::decimal(9, 2) as a, b::int as b) from frame) to {into}")
        words = ["hive", fs.dataset(path, partitioning="hive")] if "hive" in end else []
        exact = words[1].to_table() if words else writer.sql(f"from '{path}'").df()
    elif library == "polars":
        getattr(writer.from_pandas(frame), f"write_{end}")(path)
        exact = getattr(writer, f"read_{end}")(path)
    elif library == "pyarrow":
        name = {"csv": "csv.write_csv", "feather": "feather.write_feather", "orc": "orc.write_table"}[end]
        module, _, function = name.partition(".")
        getattr(needed(f"pyarrow.{module}"), function)(writer.Table.from_pandas(frame), path)
        words = [] if end == "csv" else [ELSEWHERE, fs.dataset(path, format=end)]
        exact = fs.dataset(path, format=end).to_table()
    else:
        getattr(frame, f"to_{end}")(path, **({"engine": library} if library == "fastparquet" else {}))
        exact = pd.read_csv(path, index_col=0) if end == "csv" else pd.read_parquet(path)
    yield path, {}, *words, exact


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
    market = needed("scipy.io" if library == "scipy" else library)
    for path in (folder / "a.mtx", folder / "a.mtx.gz"):
        with (gzip.open if path.suffix == ".gz" else open)(path, "wb") as stream:
            market.mmwrite(stream, MARKET[kind][0], **MARKET[kind][1])
        back = needed("scipy.io").mmread(path)
        yield path, {}, *(["Split them into two matrices", back.real] if kind == "complex" else []), back.real


@rows("{}", *(f"nibabel {end}" for end in (".nii", ".nii.gz", ".func.gii", ".dtseries.nii")))
@rows("{}", "pyreadr .rds", "pyreadr .RData", "pyreadstat .sav", "pyreadstat .dta", "pyreadstat .xpt")
@rows("{}", "mne _raw.fif", "mne .edf", "mne .set", "bed_reader .bed")
def elsewhere(kind: str, folder: Path) -> Iterator[Any]:
    """What linspec does not read,"""
    (library, end), pd, numbers, exact = kind.split(), needed("pandas"), X.astype("f4"), X
    io, path, frame = needed(library), str(folder / f"a{end}"), pd.DataFrame(GAPS, columns=NAMES)
    if end == ".func.gii":
        arrays = [io.gifti.GiftiDataArray(column) for column in numbers.T]
        io.save(io.gifti.GiftiImage(darrays=arrays), path)
        told = np.column_stack(io.load(path).agg_data())
    elif end == ".dtseries.nii":
        axes = (
            io.cifti2.SeriesAxis(0, 1, 30),
            io.cifti2.BrainModelAxis.from_surface(range(4), 9, "CortexLeft"),
        )
        io.save(io.cifti2.Cifti2Image(numbers, axes), path)
        told = io.load(path).get_fdata()
    elif library == "nibabel":
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
    elif library == "mne":
        raw = io.io.RawArray(1e-6 * np.tile(X.T, 10), io.create_info(NAMES, 100.0, "eeg"))
        raw.save(path) if end == "_raw.fif" else io.export.export_raw(path, raw)
        told = io.io.read_raw(path).get_data()[:, :30].T / 1e-6
        exact = np.where(abs(told - X) < 1e-2, told, X)  # EDF holds 16 bits
    else:
        exact = np.where(np.isnan(GAPS), np.nan, abs(X) % 3)
        io.to_bed(path, exact)
        told = io.open_bed(path).read()
    yield Path(path), {}, ELSEWHERE, told, exact
