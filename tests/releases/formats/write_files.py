"""Files as other libraries write them, with the numbers that these libraries read back.

What writes a row of `ROWS` yields data, arguments of `linspec.open_rows`, and the exact numbers; or, where the data are
refused: data, arguments, words of the error, what follows from them, and the exact numbers.
"""

from __future__ import annotations

import gzip
import subprocess
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

X = np.round(20 * np.random.default_rng(0).standard_normal((30, 4))) + np.array([0, 0, 0, 100])
GAPS = np.where(np.arange(120).reshape(30, 4) == 0, np.nan, X)
COUNTS = np.where(abs(X) > 15, abs(X), 0.0)
NAMES, CELLS = ["a", "b", "c", "d"], [f"cell{i}" for i in range(30)]

ROWS: dict[str, tuple[str, Callable[[Path], Iterator[Any]]]] = {}


def rows(distributions: str, *kinds: str) -> Callable[[Any], Any]:
    """Add a row for each kind, named by the docstring of what writes it; {} is a distribution that a kind names."""

    def add(write: Any) -> Any:
        for kind in kinds:
            named = distributions.format(kind.partition(" ")[0])
            ROWS[f"{write.__doc__[:-1]} {kind}".strip()] = named, partial(write, kind)
        return write

    return add


def needed(*modules: str) -> Any:
    """Import modules that some environments lack."""
    got = [pytest.importorskip(name, reason="versions.toml does not name it here") for name in modules]
    return got[0] if len(got) == 1 else got


# ---- AnnData, 10x Genomics, loom ------------------------------------------------------------------------------

MATRICES = {"dense": np.asarray, "f4": np.float32, "csr": sp.csr_matrix, "csc": sp.csc_matrix}


@rows("anndata zarr", *(f"{end} {kind}" for end in (".h5ad", ".zarr") for kind in [*MATRICES, "sharded"]))
def annotated(kind: str, folder: Path) -> Iterator[Any]:
    """AnnData"""
    ad, pd = needed("anndata", "pandas")
    end, _, kind = kind.partition(" ")
    if ad.__version__ < "0.12" and (end == ".zarr" or kind == "sharded"):
        pytest.skip("anndata 0.11 needs zarr 2 for .zarr, and has none of these settings")
    make, path = MATRICES.get(kind, sp.csr_matrix), folder / f"a{end}"
    names = {"csr": pd.CategoricalIndex(NAMES), "sharded": pd.Index(NAMES, dtype="string")}.get(kind, NAMES)
    data = ad.AnnData(make(COUNTS), pd.DataFrame(index=CELLS), pd.DataFrame(index=names))
    data.layers["more"], data.obsm["X_pca"], data.raw = make(COUNTS + 1), X[:, :2], data.copy()
    data.obsm["frame"] = pd.DataFrame(X, CELLS, NAMES)
    flags = {"zarr_write_format": 3, "auto_shard_zarr_v3": True} if end == ".zarr" else {}
    flags |= {"allow_write_nullable_strings": True, "write_csr_csc_indices_with_min_possible_dtype": True}
    with ad.settings.override(**flags if kind == "sharded" else {}):
        data.write_h5ad(path, compression="gzip") if end == ".h5ad" else data.write_zarr(path)
    back = ad.read_h5ad(path) if end == ".h5ad" else ad.read_zarr(path)
    yield path, {}, back.X
    yield path, {"columns": ["c", "a"]}, back[:, ["c", "a"]].X
    yield path, {"part": "layers/more"}, back.layers["more"]
    yield path, {"part": "raw/X"}, back.raw.X
    yield path, {"part": "obsm/X_pca"}, back.obsm["X_pca"]
    yield path, {"part": "obsm/frame"}, "the library that wrote it", back.obsm["frame"], X
    yield back, {}, back.X
    if end == ".h5ad":
        backed = ad.read_h5ad(path, backed="r")
        yield backed, {}, back.X
        yield backed[5:20, ["d", "b"]], {}, back[5:20, ["d", "b"]].X
        backed.file.close()


@rows("loompy", "")
def loom(kind: str, folder: Path) -> Iterator[Any]:
    """Loom, whose genes are rows"""
    loompy, path = needed("loompy"), folder / "a.loom"
    names = {"Gene": np.array(NAMES)}, {"CellID": np.array(CELLS)}
    loompy.create(str(path), {"": COUNTS.T, "spliced": COUNTS.T + 1}, *names)
    with loompy.connect(str(path), "r") as file:
        yield path, {"columns": NAMES}, file[:, :].T
        yield path, {"part": "layers/spliced"}, file.layers["spliced"][:, :].T


# ---- HDF5: h5py, PyTables, pandas, MATLAB, netCDF -------------------------------------------------------------

HDF5: dict[str, dict[str, Any]] = {
    "gzip": {"compression": "gzip", "chunks": (7, 2)},
    "lzf, shuffle, fletcher32": {"compression": "lzf", "shuffle": True, "fletcher32": True},
    "scale-offset": {"scaleoffset": 2, "chunks": (7, 2)},
    "big-endian": {"dtype": ">f4"},
    "half precision": {"dtype": "f2"},
    "long double": {"dtype": "g"},
    "enumeration of bool": {"dtype": bool},
    "SWMR": {"maxshape": (None, 4)},
    "soft links": {},
}


@rows("h5py", *HDF5)
def hdf5(kind: str, folder: Path) -> Iterator[Any]:
    """Dataset of h5py,"""
    h5py, path = needed("h5py"), folder / "a.h5"
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("x" if kind != "soft links" else "g/x", data=X, **HDF5[kind])
        if kind == "soft links":
            file["gone"], file["x"] = h5py.SoftLink("/nowhere"), h5py.SoftLink("/g/x")
        file.swmr_mode = kind == "SWMR"
    with h5py.File(path, swmr=kind == "SWMR") as file:
        yield file["x"], {}, file["x"][:]
        yield path, {}, file["x"][:]


@rows("h5py", "")
def hdf5_elsewhere(kind: str, folder: Path) -> Iterator[Any]:
    """Virtual dataset of h5py"""
    h5py, path = needed("h5py"), folder / "a.h5"
    layout = h5py.VirtualLayout(X.shape, "f8")
    layout[:] = h5py.VirtualSource("b.h5", "x", X.shape)
    with h5py.File(folder / "b.h5", "w") as other, h5py.File(path, "w") as file:
        other["x"] = X
        file.create_virtual_dataset("x", layout)
    with h5py.File(path) as file:
        yield path, {}, "open it with h5py and pass the dataset", file["x"], X


@rows("h5py hdf5plugin", "Blosc", "Blosc2", "Zstd", "Bitshuffle", "LZ4")
def hdf5_filter(kind: str, folder: Path) -> Iterator[Any]:
    """Dataset of h5py, hdf5plugin not imported,"""
    path, told = str(folder / "a.h5"), str(folder / "b.npy")
    write = f"h5py.File(sys.argv[1], 'w').create_dataset('x', data=X, chunks=(30, 4), **hdf5plugin.{kind}())"
    read = "numpy.save(sys.argv[2], linspec.open_rows(sys.argv[1]).dense())"
    for code in (f"X = numpy.array({X.tolist()}); {write}", f"import linspec; {read}"):
        code = f"import h5py, hdf5plugin, numpy, sys; {code}"
        subprocess.run([sys.executable, "-c", code, path, told], check=True)
    yield path, {}, "import hdf5plugin", told, X


@rows("tables", "array", "carray", "earray", "frame fixed", "frame table", "frame of two dtypes")
def pytables(kind: str, folder: Path) -> Iterator[Any]:
    """PyTables,"""
    tables, pd, path = *needed("tables", "pandas"), folder / "a.h5"
    if "frame" in kind:
        frame = pd.DataFrame(X, columns=NAMES).astype({"a": "i8"} if "two" in kind else {})
        frame.to_hdf(path, key="k", format="table" if "table" in kind else "fixed")
        yield path, {"part": "k"}, r"pandas\.read_hdf", pd.read_hdf(path), X
        return
    with tables.open_file(path, "w", filters=tables.Filters(5, "zlib")) as file:
        getattr(file, f"create_{kind}")("/", "x", obj=X)
    yield path, {}, X


@rows("hdf5storage", "f8", "f4", "i2", "bool")
def matlab(kind: str, folder: Path) -> Iterator[Any]:
    """MATLAB 7.3,"""
    storage, path = needed("hdf5storage"), folder / "a.mat"
    storage.savemat(str(path), {"x": (X > 0 if kind == "bool" else X).astype(kind)}, format="7.3")
    yield path, {"part": "x"}, storage.loadmat(str(path))["x"]


NETCDF: dict[str, dict[str, Any]] = {
    "f8": {},
    "zlib": {"zlib": True, "shuffle": True, "fletcher32": True},
    "big-endian": {"endian": "big"},
    "_FillValue i2": {"datatype": "i2", "fill_value": -99},
    "_FillValue f4": {"datatype": "f4", "fill_value": 1e20},
    "missing_value": {},
}
for integer in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"):
    NETCDF[f"rows not written {integer}"] = {"datatype": integer}
CHANGED = {
    "scale_factor": 0.1,
    "add_offset": 5.0,
    "valid_range": np.array([-20, 99], "i2"),
    "_Unsigned": "true",
}
OLD = ("NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET")


@rows("netCDF4", *NETCDF, *CHANGED, *OLD)
def netcdf(kind: str, folder: Path) -> Iterator[Any]:
    """Variable of netCDF4,"""
    netCDF4, xarray, path = needed("netCDF4"), needed("xarray"), folder / f"a.{'nc' if kind in OLD else 'h5'}"
    with netCDF4.Dataset(path, "w", format=kind if kind in OLD else "NETCDF4") as file:
        file.createDimension("row", 30)
        file.createDimension("column", 4)
        options = {"datatype": "i2" if kind in CHANGED else "f8", **NETCDF.get(kind, {})}
        variable = file.createVariable("x", dimensions=("row", "column"), **options)
        variable.setncatts({key: value for key, value in CHANGED.items() if key == kind})
        variable.set_auto_maskandscale(False)
        written = 20 if "not written" in kind else 30
        variable[:written] = abs(X[:written]) if " u" in kind else X[:written]
        if kind == "missing_value":
            variable.missing_value = X[0, 0]
        elif "_FillValue" in kind:
            variable[0, 0] = variable._FillValue
    with netCDF4.Dataset(path) as file:
        exact = np.ma.filled(file["x"][:].astype(float), np.nan)
    if kind in NETCDF:
        yield path, {"part": "x"}, exact
        with needed("h5py").File(path) as file:
            yield file["x"], {}, exact
        return
    words = "what wrote them" if kind in OLD else "what xarray or netCDF4 makes of them"
    yield path, {"part": "x"}, words, exact, exact
    with xarray.open_dataset(path) as opened:  # which does not heed a valid_range
        yield path, {"part": "x"}, words, opened["x"].load(), X if kind == "valid_range" else exact


# ---- xarray and zarr ------------------------------------------------------------------------------------------

ENCODED: dict[str, tuple[Any, dict[str, Any]]] = {
    "floats": (X, {}),
    "NaN": (GAPS, {}),
    "integers": (X.astype("i4"), {}),
    "_FillValue -99": (GAPS, {"dtype": "i2", "_FillValue": -99}),
    "_FillValue 1e20": (GAPS.astype("f4"), {"_FillValue": np.float32(1e20)}),
    "missing_value": (GAPS, {"dtype": "i2", "missing_value": -99, "_FillValue": -99}),
    "scale_factor": (X, {"dtype": "i2", "scale_factor": 0.5, "add_offset": 5.0, "_FillValue": -999}),
}
ENGINES = {"netcdf4": "netCDF4", "h5netcdf": "h5netcdf", "zarr2": "zarr", "zarr3": "zarr"}


@rows("xarray", *(f"{engine}, {kind}" for engine in ENGINES for kind in ENCODED))
def xarray_variable(kind: str, folder: Path) -> Iterator[Any]:
    """Variable of xarray by"""
    engine, _, kind = kind.partition(", ")
    xarray, path = needed("xarray", ENGINES[engine])[0], folder / f"a.{'zarr' if 'zarr' in engine else 'h5'}"
    data = xarray.Dataset({"x": (("row", "column"), ENCODED[kind][0])})
    if "zarr" in engine:
        pytest.importorskip("xarray", "2025.1", reason="xarray before 2025 needs zarr 2")
        data.to_zarr(path, encoding={"x": ENCODED[kind][1]}, zarr_format=int(engine[-1]))
    else:
        data.to_netcdf(path, encoding={"x": ENCODED[kind][1]}, engine=engine)
    with xarray.open_dataset(path, engine=engine.rstrip("23") if "zarr" in engine else engine) as opened:
        back = opened["x"].load()
    words = ["what xarray or netCDF4 makes of them", back] if "scale_factor" in kind else []
    yield path, {"part": "x"}, *words, back.to_numpy()


ZARR: dict[str, dict[str, Any]] = {
    "plain": {},
    "big-endian": {"dtype": ">f8"},
    "half precision": {"dtype": "f2"},
    "bool": {"dtype": "bool"},
    "Fortran order": {"order": "F"},
    "keys a/b": {"chunk_key_encoding": {"name": "v2", "separator": "/"}},
    "uncompressed": {"compressors": None},
    "shards": {"shards": (14, 4)},
    "gzip": {"compressors": {"name": "gzip", "configuration": {"level": 3}}},
    "transposed": {"filters": {"name": "transpose", "configuration": {"order": [1, 0]}}},
}


@rows("zarr", *(f"2, {kind}" for kind in [*ZARR][:7]), *(f"3, {kind}" for kind in ZARR), "3, rectilinear")
def zarr_array(kind: str, folder: Path) -> Iterator[Any]:
    """Array of zarr 3, format"""
    zarr = needed("zarr")
    version, _, kind = kind.partition(", ")
    if kind == "rectilinear":
        pytest.importorskip("zarr", "3.4", reason="rectilinear chunks came with zarr 3.4")
        zarr.config.set({"array.rectilinear_chunks": True})
    chunks: Any = [[10, 5, 15], [4]] if kind == "rectilinear" else (7, 4)
    options = {
        "dtype": "f8",
        "shape": X.shape,
        "chunks": chunks,
        "zarr_format": int(version),
        **ZARR.get(kind, {}),
    }
    memory, zipped = zarr.storage.MemoryStore(), zarr.storage.ZipStore(folder / "a.zip", mode="w")
    for store in (folder / "a.zarr", memory, zipped):
        array = zarr.create_array(store, **options)
        array[:] = X
        yield array, {}, array[:]
    yield folder / "a.zarr", {}, zarr.open_array(folder / "a.zarr", mode="r")[:]


OLD_ZARR = """
import sys, numpy, zarr, numcodecs as c
X = numpy.load(sys.argv[1] + "/X.npy")
for name, options in {
    "blosc": {"compressor": c.Blosc()}, "zlib": {"compressor": c.Zlib()}, "zstd": {"compressor": c.Zstd()},
    "lz4": {"compressor": c.LZ4()}, "bz2": {"compressor": c.BZ2()}, "delta": {"filters": [c.Delta("f8")]},
    "fixed": {"filters": [c.FixedScaleOffset(0, 10, "f8", "i4")]}, "order": {"order": "F"},
    "nested": {"dimension_separator": "/"}, "fill": {"fill_value": 7.0}, "big": {"dtype": ">i4"}}.items():
    array = zarr.open(f"{sys.argv[1]}/{name}.zarr", "w", shape=X.shape, chunks=(7, 4), **{"dtype": "f8", **options})
    array[:] = X
    numpy.save(f"{sys.argv[1]}/{name}.npy", array[:])
zarr.array(X.astype(object), store=f"{sys.argv[1]}/object.zarr", object_codec=c.Pickle())
"""
"""Runs with zarr 2."""


# ---- tables ---------------------------------------------------------------------------------------------------

ARROW: dict[str, Callable[[Any, Any], Any]] = {
    "row groups": lambda pa, column: pa.array(column),
    "dictionaries": lambda pa, column: pa.array(column).dictionary_encode(),
    "decimals": lambda pa, column: pa.array([Decimal(int(x)) for x in column], pa.decimal128(20, 2)),
    "half precision": lambda pa, column: pa.array(column.astype("f2")),
    "integers with null": lambda pa, column: pa.array([2**53 + 1, None, *map(int, column)]),
    "lists": lambda pa, column: pa.array([[x] for x in column]),
}


@rows("pyarrow pandas", *ARROW)
def parquet(kind: str, folder: Path) -> Iterator[Any]:
    """Parquet of pyarrow,"""
    pa, pq, path = *needed("pyarrow", "pyarrow.parquet"), folder / "a.parquet"
    pq.write_table(
        pa.table({a: ARROW[kind](pa, X[:, j]) for j, a in enumerate(NAMES)}), path, row_group_size=7
    )
    exact = pq.read_table(path).to_pandas()
    if kind == "lists":
        yield path, {}, "numbers are needed", np.hstack([np.vstack(exact[name]) for name in NAMES]), X
    else:
        yield path, {"missing": "nan"}, exact.astype(float)


@rows(
    "{} pandas",
    "pandas parquet",
    "pandas csv",
    "pyarrow csv",
    "fastparquet parquet",
    "polars parquet",
    "polars csv",
)
@rows(
    "{} pandas",
    "duckdb csv",
    "duckdb parquet",
    "duckdb partitioned parquet",
    "pyarrow feather",
    "pyarrow orc",
)
def table(kind: str, folder: Path) -> Iterator[Any]:
    """Table of"""
    (library, *_, end), pd, fs = kind.split(), needed("pandas"), needed("pyarrow.dataset")
    frame, path, needs = pd.DataFrame(X, columns=NAMES, dtype="f4"), folder / f"a.{end}", needed(library)
    words: list[Any] = []
    if library == "duckdb":
        where = ", partition_by (b)" if "partitioned" in kind else ""
        needs.sql(
            f"copy (select * replace (a::decimal(9, 2) as a) from frame) to '{path}' (format {end}{where})"
        )
        words = ["hive", fs.dataset(path, partitioning="hive")] if where else []
        exact = needs.sql(f"from '{path}{'/*/*' if where else ''}'").df()
    elif library == "polars":
        getattr(needs.from_pandas(frame), f"write_{end}")(path)
        exact = getattr(needs, f"read_{end}")(path)
    elif library == "pyarrow":
        fs.write_dataset(
            needs.Table.from_pandas(frame), folder / "f", format=end, basename_template=f"{{i}}.{end}"
        )
        path = folder / f"f/0.{end}"
        exact = fs.dataset(path, format=end).to_table()
        words = [] if end == "csv" else [ELSEWHERE, fs.dataset(path, format=end)]
    else:
        getattr(frame, f"to_{end}")(path, **({"engine": library} if library == "fastparquet" else {}))
        exact = pd.read_csv(path, index_col=0) if end == "csv" else pd.read_parquet(path)
    yield path, {}, *words, exact


SQUARE = X[:4].T @ X[:4]
MARKET: dict[str, tuple[Any, dict[str, Any]]] = {
    "pattern": (sp.coo_array(COUNTS), {"field": "pattern"}),
    "integer": (sp.coo_array(COUNTS.astype(int)), {}),
    "symmetric": (sp.coo_array(SQUARE), {"symmetry": "symmetric"}),
    "skew-symmetric": (sp.coo_array(X[:4] - X[:4].T), {"symmetry": "skew-symmetric"}),
    "array": (X, {}),
    "symmetric array": (SQUARE, {"symmetry": "symmetric"}),
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


@rows("scipy scikit-learn", "csr", "csc", "coo", "bsr", "dia")
def sparse_files(kind: str, folder: Path) -> Iterator[Any]:
    """Sparse files, .npz of SciPy and svmlight of scikit-learn,"""
    sets, path = needed("sklearn.datasets"), folder / "a.svm"
    sp.save_npz(folder / "a.npz", sp.csr_array(COUNTS).asformat(kind))
    yield folder / "a.npz", {}, sp.load_npz(folder / "a.npz")
    sets.dump_svmlight_file(sp.csr_array(COUNTS), np.arange(30), str(path), zero_based=kind == "csr")
    features, labels = sets.load_svmlight_file(str(path))
    yield path, {}, features
    yield path, {"part": "labels"}, labels[:, None]


# ---- what linspec does not read -------------------------------------------------------------------------------

ELSEWHERE = "read them with what wrote them"


@rows("nibabel", ".nii", ".nii.gz", ".mgz", ".func.gii", ".dtseries.nii")
def brain(kind: str, folder: Path) -> Iterator[Any]:
    """Images of nibabel,"""
    nib, path, volumes = needed("nibabel"), folder / f"a{kind}", X.astype("f4").T.reshape(2, 2, 1, 30)
    if kind == ".func.gii":
        arrays = [nib.gifti.GiftiDataArray(column.astype("f4")) for column in X.T]
        nib.save(nib.gifti.GiftiImage(darrays=arrays), path)
        yield path, {}, ELSEWHERE, np.column_stack(nib.load(path).agg_data()), X
    elif kind == ".dtseries.nii":
        axes = (
            nib.cifti2.SeriesAxis(0, 1, 30),
            nib.cifti2.BrainModelAxis.from_surface(range(4), 9, "CortexLeft"),
        )
        nib.save(nib.cifti2.Cifti2Image(X.astype("f4"), axes), path)
        yield path, {}, ELSEWHERE, nib.load(path).get_fdata(), X
    elif kind == ".mgz":
        nib.save(nib.MGHImage(volumes, np.eye(4)), path)
        yield path, {}, ELSEWHERE, nib.load(path).get_fdata().reshape(4, 30).T, X
    else:
        image = nib.Nifti1Image(volumes.astype("i2"), np.eye(4))
        image.header.set_slope_inter(0.5, 3)
        nib.save(image, path)
        yield path, {}, ELSEWHERE, nib.load(path).get_fdata().reshape(4, 30).T, 0.5 * X + 3
        yield (
            path,
            {},
            ELSEWHERE,
            np.asarray(nib.load(path).dataobj[..., 5:9]).reshape(4, 4).T,
            0.5 * X[5:9] + 3,
        )


@rows("{}", "pyreadr .rds", "pyreadr .RData", "pyreadstat .sav", "pyreadstat .dta", "pyreadstat .xpt")
def statistics(kind: str, folder: Path) -> Iterator[Any]:
    """Frame of"""
    (library, end), pd = kind.split(), needed("pandas")
    reader, path, frame = needed(library), folder / f"a{end}", pd.DataFrame(GAPS, columns=NAMES)
    if end in (".rds", ".RData"):
        reader.write_rds(path, frame) if end == ".rds" else reader.write_rdata(path, frame, df_name="x")
        yield path, {}, ELSEWHERE, next(iter(reader.read_r(path).values())), GAPS
        return
    name = {".sav": "sav", ".dta": "dta", ".xpt": "xport"}[end]
    user = X[0, 1] if end == ".sav" else np.inf
    getattr(reader, f"write_{name}")(
        frame, path, **({"missing_ranges": {"b": [user]}} if end == ".sav" else {})
    )
    exact = np.where((np.arange(4) == 1) & (user == X), np.nan, GAPS)
    yield path, {}, ELSEWHERE, getattr(reader, f"read_{name}")(path)[0], exact


@rows("mne", "_raw.fif", ".edf", ".set")
def signals(kind: str, folder: Path) -> Iterator[Any]:
    """Signals of MNE,"""
    mne, path = needed("mne"), folder / f"a{kind}"
    raw = mne.io.RawArray(1e-6 * np.tile(X.T, 10), mne.create_info(NAMES, 100.0, "eeg"))
    mne.export.export_raw(path, raw) if kind != "_raw.fif" else raw.save(path)
    yield path, {}, ELSEWHERE, mne.io.read_raw(path).get_data()[:, :30].T / 1e-6, X


@rows("bed-reader", "")
def genotypes(kind: str, folder: Path) -> Iterator[Any]:
    """Genotypes of PLINK, .bed"""
    bed, path, calls = needed("bed_reader"), folder / "a.bed", np.where(np.isnan(GAPS), np.nan, abs(X) % 3)
    bed.to_bed(path, calls)
    yield path, {}, ELSEWHERE, bed.open_bed(path).read(), calls
