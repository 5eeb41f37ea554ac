"""Objects that other libraries make: linspec reads the numbers that they state, or names the line that gives these.

A group yields the distribution and what the object is, the object, its numbers with NaN in the gaps, and the lines that
refusals name, one after the other: each is evaluated, and what it gives is passed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import dask.array
import dask.bag
import dask.dataframe
import h5py
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr
from pyarrow import dataset, parquet

import linspec as ls

RNG = np.random.default_rng(0)
A = RNG.standard_normal((25_000, 4))
GAPS = A > 3.5
G = np.where(GAPS, np.nan, A)
S = np.where(np.abs(A) > 1, A, 0.0)
NAMES = ["a", "b", "c", "d"]
FRAME = pd.DataFrame(A, columns=NAMES)
FILLED, RECORDS = "(data * 1.0).filled(numpy.nan)", "pandas.DataFrame(data[:])"
STACKED, FIRST = "numpy.stack(data[name].to_numpy())", "data[next(iter(data))]"
SLICES = "lambda: (data[i : i + 1000] for i in range(0, data.shape[0], 1000))"
MAGNITUDE, UNIT = "data.to(data.units).magnitude", "data.to_value(data.unit)"
MODULES = "awkward dask linspec numpy pandas pyarrow scipy torch xarray"


def of_arrays() -> Iterator[Any]:
    import awkward
    import pint
    import unyt
    from astropy import table, units
    from astropy.utils.masked import Masked

    yield "numpy MaskedArray", np.ma.array(A, mask=GAPS), G, FILLED
    yield "pandas dict of columns", dict(FRAME), A, "pandas.DataFrame(data)"
    yield "pandas list of Series, each a row", [row for _, row in FRAME[:9].iterrows()], A[:9]
    yield "pandas column of lists", pd.DataFrame({"name": list(A)}), A, STACKED
    image, line = pytest.importorskip("PIL.Image"), 'numpy.asarray(data.convert("F"))'
    levels = np.arange(6000).reshape(60, 100)
    yield "pillow Image, 16 bits", image.fromarray(np.uint16(levels)), levels, line
    palette = image.fromarray(np.uint8(levels)).convert("P", palette=image.Palette.ADAPTIVE)
    yield "pillow Image with a palette", palette, np.asarray(palette.convert("L")), line
    unit, quantity = pint.UnitRegistry(), "data.quantity.to_value(data.unit)"
    yield "pint Quantity with a mask", unit.Quantity(np.ma.array(A, mask=GAPS), "km"), G, MAGNITUDE, FILLED
    yield "unyt unyt_array", unyt.unyt_array(A, "km"), A, "data.to_value(data.units)"
    yield "astropy Masked of bool", Masked(A > 0, mask=GAPS), np.where(GAPS, np.nan, A > 0), FILLED
    yield "astropy MaskedQuantity", Masked(A * units.km, mask=GAPS), G, UNIT, FILLED
    yield "astropy MaskedColumn with a unit", table.MaskedColumn(A, mask=GAPS, unit="km"), G, FILLED, quantity
    yield "astropy Table", table.Table(np.ma.array(A, mask=GAPS), names=NAMES), G, "data.to_pandas()"
    yield "astropy QTable", table.QTable(A, names=NAMES, units=["m"] * 4), A, "data.to_pandas()"
    if hasattr(np, "__array_namespace_info__"):  # marray needs NumPy 2.1
        marray = pytest.importorskip("marray")
        masked = getattr(marray, "masked_namespace", getattr(marray, "get_namespace", None))(np)
        yield "marray MArray", masked.asarray(A, mask=GAPS), G, "numpy.where(data.mask, numpy.nan, data.data)"
    line = "awkward.to_numpy(awkward.fill_none(data, numpy.nan, axis=None))"
    gaps = np.array([[1.5, np.nan], [2.0, 3.0]])
    yield "awkward Array with None", awkward.Array([[1.5, None], [2.0, 3.0]]), gaps, line


def of_files() -> Iterator[Any]:
    import blosc2
    import netCDF4
    import tables

    file = netCDF4.Dataset("a.nc", "w")
    file.createDimension("t", len(A)), file.createDimension("x", 4)
    packed = file.createVariable("packed", "i2", ("t", "x"), fill_value=-999)
    packed.scale_factor = 0.5
    packed[:] = np.ma.array(A, mask=GAPS)
    truth = np.where(GAPS, np.nan, np.around(A / 0.5) * 0.5)
    slices = "(numpy.ma.filled(data[i : i + 1000] * 1.0, numpy.nan) for i in range(0, data.shape[0], 1000))"
    yield "netCDF4 Variable with gaps and a scale", packed, truth, "numpy.ma.filled(data[:] * 1.0, numpy.nan)"
    yield "netCDF4 Dataset", file, truth, "data.variables[next(iter(data.variables))]", f"lambda: {slices}"
    records = FRAME.to_records(index=False)
    with h5py.File("a.h5", "w") as hdf5:
        hdf5.create_dataset("g/a", data=A, chunks=(1000, 4))
        yield "h5py Group", hdf5["g"], A
        yield "h5py Dataset of records", hdf5.create_dataset("r", data=records), A, RECORDS
    with tables.open_file("t.h5", "w") as pytables:
        yield "tables EArray", pytables.create_earray("/", "e", obj=A), A, SLICES
        ragged = pytables.create_vlarray("/", "v", tables.Float64Atom())
        ragged.append(A[0]), ragged.append(A[1])
        yield "tables VLArray", ragged, A[:2], "numpy.stack(data[:])"
        line = "lambda: (pandas.DataFrame(data[i : i + 10000]) for i in range(0, data.nrows, 10000))"
        yield "tables Table", pytables.create_table("/", "t", records), A, line
    stored = blosc2.asarray(A, urlpath="a.b2nd", chunks=(1000, 4), mode="w")
    yield "blosc2 NDArray on disk", stored, stored[:], SLICES
    yield "blosc2 LazyExpr", stored + 1, A + 1, SLICES
    if hasattr(blosc2, "CTable"):
        table = blosc2.CTable.from_arrow(pa.table(FRAME).schema, pa.table(FRAME).to_batches())
        yield "blosc2 CTable", table, A, "data.iter_arrow_batches"


def of_labels() -> Iterator[Any]:
    plain = xr.DataArray(A, dims=("t", "x"), name="a")
    xr.DataArray(G, dims=("t", "x"), name="a").to_netcdf("x.nc", encoding={"a": {"_FillValue": -9.0}})
    yield "xarray DataArray of a lazy file", xr.open_dataset("x.nc").a, G
    yield "xarray DataArray of a file on dask", xr.open_dataset("x.nc", chunks={"t": 1000}).a, G
    yield "xarray Dataset", plain.to_dataset(), A, FIRST
    columns = xr.Dataset({name: ("t", A[:, j]) for j, name in enumerate(NAMES)})
    yield "xarray Dataset of columns", columns, A, "data.to_dataarray().T"
    if hasattr(xr, "DataTree"):
        yield "xarray DataTree", xr.DataTree(plain.to_dataset()), A, "data.dataset", FIRST
    within = f'xarray.apply_ufunc(lambda data: {MAGNITUDE}, data, dask="allowed")'
    yield "xarray DataArray of pint", plain.copy(data=import_module("pint").Quantity(A, "m")), A, within
    yield "dask Array", dask.array.from_array(A, (1000, 4)), A
    yield "dask DataFrame", dask.dataframe.from_pandas(FRAME, npartitions=5), A
    yield "dask Bag", dask.bag.from_sequence(FRAME[:99].to_dict("records")), A[:99], "data.to_dataframe()"
    anndata = pytest.importorskip("anndata", reason="none takes zarr 3.0", exc_type=ImportError)
    mudata = import_module("mudata").MuData({"rna": anndata.AnnData(A)})
    yield "mudata MuData", mudata, A, "data[next(iter(data.mod))]"


def of_tables() -> Iterator[Any]:
    import datasets
    import duckdb
    import lance
    import narwhals

    table = pa.table(FRAME)
    parquet.write_table(table, "p.parquet", row_group_size=1000)
    yield "pyarrow RecordBatchReader", lambda: table.to_reader(1000), A
    yield "pyarrow Dataset", dataset.dataset("p.parquet"), A
    yield "pyarrow Scanner", dataset.dataset("p.parquet").scanner(batch_size=1000), A, "data.to_batches"
    yield "pyarrow Fragment", next(dataset.dataset("p.parquet").get_fragments()), A, "data.to_batches"
    yield "pyarrow ParquetFile", parquet.ParquetFile("p.parquet"), A, "data.iter_batches"
    for kind in (pa.SparseCSRMatrix, pa.SparseCSCMatrix, pa.SparseCOOTensor):
        yield f"pyarrow {kind.__name__}", kind.from_dense_numpy(S), S, "data.to_scipy()"
    embedded = pa.table({"name": pa.FixedSizeListArray.from_arrays(A.ravel(), 4)})
    yield "pyarrow column of lists", embedded, A, STACKED
    stream = "lambda: pyarrow.RecordBatchReader.from_stream(data)"
    frame, scan = pl.DataFrame(A, schema=NAMES), pl.scan_parquet("p.parquet")
    yield "polars LazyFrame", scan, A, "data.collect()"
    if hasattr(scan, "collect_batches"):
        yield "polars LazyFrame, in slices", scan, A, "lambda: data.collect_batches(maintain_order=True)"
    yield "polars Array column", pl.DataFrame({"name": A}), A, STACKED
    yield "narwhals DataFrame", narwhals.from_native(frame), A, stream
    stored = lance.write_dataset(table, "a.lance", max_rows_per_file=10_000)
    yield "pylance LanceDataset", stored, A, "data.to_batches"
    yield "pylance LanceScanner", stored.scanner(batch_size=1000), A, "data.to_batches"
    yield "pylance LanceFragment", stored.get_fragments()[1], A[10_000:20_000], "data.to_batches"
    base = duckdb.connect().register("f", FRAME)
    yield "duckdb DuckDBPyRelation", base.sql("select * from f"), A, "data.df()"
    yield "duckdb DuckDBPyRelation, in slices", base.sql("select * from f"), A, stream
    yield "duckdb DuckDBPyConnection", base.execute("select * from f"), A, "data.df()"
    rows = datasets.Dataset.from_pandas(FRAME.assign(label=1))
    batches = 'lambda: data.with_format("arrow", columns=data.format["columns"]).iter(1000)'
    for style in (None, "numpy", "torch", "pandas", "arrow"):
        yield f"datasets Dataset in format {style}", rows.with_format(style, columns=NAMES), A, batches
    counts = [*range(2000), None, 3]
    gap = datasets.Dataset.from_dict({"n": counts})
    yield "datasets Dataset of integers with None", gap, np.array(counts, float)[:, None], batches
    line = 'lambda: data.with_format("arrow").iter(1000)'
    yield "datasets IterableDataset", rows.remove_columns("label").to_iterable_dataset(), A, line
    splits = datasets.DatasetDict(train=rows.with_format("numpy", columns=NAMES))
    yield "datasets DatasetDict", splits, A, FIRST, batches


def of_tensors() -> Iterator[Any]:
    import jax
    import sparse
    import torch
    from jax.experimental.sparse import BCOO, BCSR
    from torch.utils.data import DataLoader, Subset, TensorDataset

    dense, zeros = torch.from_numpy(A), torch.from_numpy(S)
    to_coo, batches = "data.detach().cpu().to_sparse_coo()", "lambda: iter(data)"
    for tensor in (zeros.to_sparse_bsr((2, 2)), zeros.to_sparse_bsc((2, 2))):
        yield f"torch {tensor.layout}", tensor, S, to_coo
    masked = torch.masked.masked_tensor(dense, torch.from_numpy(~GAPS))
    yield "torch MaskedTensor", masked, G, "data.to_tensor(numpy.nan)"
    yield "torch TensorDataset", TensorDataset(dense), A, "data.tensors[0]"
    part, line = Subset(dense, range(9)), "torch.utils.data.DataLoader(data, batch_size=1000)"
    yield "torch Subset in a DataLoader", part, A[:9], line, batches
    loader, line = DataLoader(TensorDataset(dense), batch_size=1000), "lambda: (batch[0] for batch in data)"
    yield "torch DataLoader of a TensorDataset", loader, A, line
    thin, truth = jax.numpy.asarray(S, dtype="float32"), np.float32(S)
    places = "(data.sum_duplicates().data, data.sum_duplicates().indices.T)"
    coo = f"scipy.sparse.coo_array({places}, data.shape)"
    csr = "scipy.sparse.csr_array((data.data, data.indices, data.indptr), data.shape)"
    for nse in (None, int((S != 0).sum()) + 5):
        yield f"jax BCOO, nse={nse}", BCOO.fromdense(thin, nse=nse), truth, coo
        yield f"jax BCSR, nse={nse}", BCSR.fromdense(thin, nse=nse), truth, csr
    yield "sparse COO", sparse.COO.from_numpy(S), S, "data.to_scipy_sparse()"
    yield "sparse DOK", sparse.DOK.from_numpy(S[:50]), S[:50], "data.to_coo().to_scipy_sparse()"


def of_signals() -> Iterator[Any]:
    import bed_reader
    import mne
    import nibabel

    mne.set_log_level("ERROR")
    info = mne.create_info(4, 100.0, "eeg")
    mne.io.RawArray(A.T, info).save("a_raw.fif", fmt="double")
    raw = mne.io.read_raw_fif("a_raw.fif", preload=False)
    epochs = mne.EpochsArray(A.T.reshape(4, 250, 100).swapaxes(0, 1), info)
    times = "lambda: (data.get_data(start=i, stop=i + 10000).T for i in range(0, data.n_times, 10000))"
    whole = epochs.get_data().reshape(250, -1)
    yield "mne Raw of a file", raw, raw.get_data().T, times
    yield "mne Epochs, rows are times", epochs, A, "lambda: (epoch.T for epoch in data.copy())"
    yield "mne Epochs, rows are epochs", epochs, whole, "numpy.array([epoch.ravel() for epoch in data])"
    yield "mne Evoked", epochs.average(), epochs.average().get_data().T, "data.data.T"
    nibabel.save(nibabel.Nifti1Image(A[:4800].reshape(8, 10, 12, 20), np.eye(4)), "a.nii")
    image = nibabel.load("a.nii")
    volumes = "(numpy.reshape(data.dataobj[..., i], (1, -1)) for i in range(data.shape[-1]))"
    yield "nibabel Nifti1Image of a file", image, image.get_fdata().reshape(-1, 20).T, f"lambda: {volumes}"
    counts = np.where(RNG.random((2500, 8)) < 0.01, np.nan, RNG.integers(0, 3, (2500, 8)))
    bed_reader.to_bed("a.bed", counts)
    people = "(data.read(numpy.s_[i : i + 1000, :]) for i in range(0, data.iid_count, 1000))"
    yield "bed-reader open_bed", bed_reader.open_bed("a.bed"), counts, f"lambda: {people}"


GROUPS = (of_arrays, of_files, of_labels, of_tables, of_tensors, of_signals)


@pytest.mark.parametrize("rows", GROUPS)
def test_objects_are_read_or_refused_with_the_line_that_reads_them(rows, tmp_path, monkeypatch, seen):
    monkeypatch.chdir(tmp_path)
    for what, data, truth, *lines in rows():
        for line in lines:
            with pytest.raises(ls.errors.LinspecError) as refused:
                ls.as_operator(data)
            assert f"`{line}`" in str(refused.value), what
            modules = {name: import_module(name) for name in MODULES.split() if name in line}
            data = eval(line, {**modules, "data": data, "name": "name"})
        parts = list(data()) if callable(data) else [data]
        assert len(parts) > 1 or not str(lines).endswith("000))']"), what
        operator, gaps = ls.as_operator(data), np.argwhere(np.isnan(truth)).tolist()
        if gaps:
            with pytest.raises(ls.errors.NonFiniteData, match="got nan at row") as refused:
                ls.solve(ls.SVD(operator, k=1), "gram")
            assert [*map(int, re.findall(r"\d+", str(refused.value)))] in gaps, what
        read = np.concatenate([*map(np.asarray, parts)]) if gaps else operator.matmat(np.eye(truth.shape[1]))
        np.testing.assert_array_equal(read, truth, err_msg=what)
        outcome = f"refused with {len(lines)} line(s), then equal" if lines else "taken, equal"
        seen(f"object: {what}", what.split()[0], f"{outcome}{f', {len(parts)} slices' * callable(data)}")


def test_a_loader_of_pairs_is_refused_with_the_line_that_makes_two_matrices(seen):
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    pairs = DataLoader(TensorDataset(torch.from_numpy(A), torch.from_numpy(A[:, :1])), batch_size=1000)
    with pytest.raises(ls.errors.UnsupportedData, match=r"`linspec\.paired\(lambda: iter\(data\)\)`"):
        ls.as_operator(pairs)
    with pytest.raises(ls.errors.UnsupportedData, match=r"linspec\.paired\(source\)"):
        ls.as_operator(iter(pairs))
    X, Y = ls.paired(lambda: iter(pairs))
    x = np.asarray(ls.solve(ls.LeastSquares(X, Y), "cg").x)[:, 0]
    np.testing.assert_allclose(x, [1, 0, 0, 0], atol=1e-12)
    seen("object: torch DataLoader of pairs", "torch", f"{np.abs(x - [1, 0, 0, 0]).max():.0e}")
