"""Objects of other libraries that are refused as data, and the line of Python to pass instead of each.

Problem: a conversion that fits one library harms the data of another. `numpy.asarray` drops masks, units and fill
values, makes sparse arrays dense, and loads a file as a whole; the iterator of some objects yields rows that are none.
Method: a refusal looks for the class of the object in a table, by library and name, and names the line that gives the
right numbers: gaps as NaN, numbers in the unit of the data, what lies on a disk in slices. In a line, `data` is the
object. What the table does not know is told by its methods.
"""

from __future__ import annotations

from typing import Any

_LINES = {
    "PIL.Image": '`numpy.asarray(data.convert("F"))`, its grey values',
    "array.array builtins.memoryview": "`numpy.asarray(data)`",
    "astropy.Column": "`data.quantity.to_value(data.unit)`",
    "astropy.Masked astropy.MaskedColumn numpy.MaskedArray": "`(data * 1.0).filled(numpy.nan)`",
    "astropy.Quantity": "`data.to_value(data.unit)`",
    "astropy.Table": "`data.to_pandas()`, each column in the unit that it has",
    "awkward.Array": "`awkward.to_numpy(awkward.fill_none(data, numpy.nan, axis=None))`",
    "bed_reader.open_bed": (
        "`lambda: (data.read(numpy.s_[i : i + 1000, :]) for i in range(0, data.iid_count, 1000))`"
    ),
    "blosc2.C2Array blosc2.LazyArray blosc2.LazyExpr blosc2.NDArray tables.Array": (
        "`data[:]` of a vector, of a matrix `lambda: (data[i : i + 1000] for i in range(0, data.shape[0], 1000))`"
    ),
    "blosc2.CTable": "`data.iter_arrow_batches`, the method itself",
    "builtins.dict": "`pandas.DataFrame(data)`, if it has columns of numbers; of matrices, one",
    "builtins.list builtins.tuple": (
        "`numpy.asarray(data)`, if it has rows of numbers, or `data[0]`, if it is a batch with one tensor; of a source "
        "of pairs, `X, Y = linspec.paired(source)` makes two matrices"
    ),
    "dask.Array": "`data.compute()`",
    "dask.Bag": "`data.to_dataframe()`",
    "dask.Delayed": "`[data]`, if it is a block of rows",
    "datasets.Column": "`data[:]`",
    "datasets.Dataset": ('`lambda: data.with_format("arrow", columns=data.format["columns"]).iter(1000)`'),
    "datasets.DatasetDict datasets.IterableDatasetDict": "`data[next(iter(data))]`, one of its splits",
    "datasets.IterableDataset": '`lambda: data.with_format("arrow").iter(1000)`',
    "_duckdb.DuckDBPyConnection duckdb.DuckDBPyConnection": (
        "`data.df()`; a relation, `duckdb.sql(query)`, can be read in slices"
    ),
    "_duckdb.DuckDBPyRelation duckdb.DuckDBPyRelation": (
        "`data.df()`, or in slices, one at a time on a connection, "
        "`lambda: pyarrow.RecordBatchReader.from_stream(data)`"
    ),
    "_io._IOBase": "`linspec.open_rows(data.name)`, if it is a file on a disk",
    "jax.BCOO": (
        "`scipy.sparse.coo_array((data.sum_duplicates().data, data.sum_duplicates().indices.T), data.shape)`"
    ),
    "jax.BCSR": "`scipy.sparse.csr_array((data.data, data.indices, data.indptr), data.shape)`",
    "marray.MArray": "`numpy.where(data.mask, numpy.nan, data.data)`",
    "mne.BaseEpochs": (
        "`lambda: (epoch.T for epoch in data.copy())`, a row for each time, or "
        "`numpy.array([epoch.ravel() for epoch in data])`, a row for each epoch"
    ),
    "mne.BaseRaw": (
        "`lambda: (data.get_data(start=i, stop=i + 10000).T for i in range(0, data.n_times, 10000))`, a row for each "
        "time"
    ),
    "mne.Evoked": "`data.data.T`, a row for each time",
    "mudata.MuData": "`data[next(iter(data.mod))]`, one of its modalities",
    "netCDF4.Dataset": "`data.variables[next(iter(data.variables))]`, or another of its variables",
    "netCDF4.Variable": (
        "`numpy.ma.filled(data[:] * 1.0, numpy.nan)`, or in slices "
        "`lambda: (numpy.ma.filled(data[i : i + 1000] * 1.0, numpy.nan) for i in range(0, data.shape[0], 1000))`"
    ),
    "nibabel.DataobjImage": (
        "`lambda: (numpy.reshape(data.dataobj[..., i], (1, -1)) for i in range(data.shape[-1]))`, a row for each volume"
    ),
    "pandas.Series polars.Series": "`data.to_frame()`, if it is a column",
    "pint.Quantity": "`data.to(data.units).magnitude`",
    "polars.LazyFrame": (
        "`data.collect()`, or in slices `lambda: data.collect_batches(maintain_order=True)`"
    ),
    "pyarrow.Dataset pyarrow.Fragment pyarrow.Scanner": "`data.to_batches`, the method itself",
    "pyarrow.ParquetFile": "`data.iter_batches`, the method itself",
    "pyarrow.SparseCOOTensor pyarrow.SparseCSCMatrix pyarrow.SparseCSRMatrix": "`data.to_scipy()`",
    "sparse.DOK": "`data.to_coo().to_scipy_sparse()`",
    "sparse.SparseArray": "`data.to_scipy_sparse()`",
    "tables.Table": (
        "`lambda: (pandas.DataFrame(data[i : i + 10000]) for i in range(0, data.nrows, 10000))`"
    ),
    "tables.VLArray": "`numpy.stack(data[:])`, if its rows are equally long",
    "torch.DataLoader": (
        "`lambda: iter(data)`, if its batches are tensors, `lambda: (batch[0] for batch in data)`, if they are lists "
        "with one, or `linspec.paired(lambda: iter(data))`, if with two; without shuffle and drop_last"
    ),
    "torch.Dataset": "`torch.utils.data.DataLoader(data, batch_size=1000)`",
    "torch.MaskedTensor": "`data.to_tensor(numpy.nan)`",
    "torch.TensorDataset": "`data.tensors[0]`",
    "unyt.unyt_array": "`data.to_value(data.units)`",
    "xarray.DataTree": "`data.dataset`",
    "xarray.Dataset": (
        "`data[next(iter(data))]`, or another of its variables; if they are columns, `data.to_dataarray().T`"
    ),
}
LINES = {name: line for names, line in _LINES.items() for name in names.split()}
"""What to pass instead of objects of classes, each by library and name, which may be those of a base class."""

METHODS = {
    "__arrow_c_stream__": "`lambda: pyarrow.RecordBatchReader.from_stream(data)`",
    "to_scipy_sparse": "`data.to_scipy_sparse()`",
    "to_pandas": "`data.to_pandas()`",
    "to_numpy": "`data.to_numpy()`",
}
"""What to pass instead of other objects that have a method; the first counts."""

WITHIN = {
    "dask": "data.map_blocks(lambda data: {})",
    "xarray": 'xarray.apply_ufunc(lambda data: {}, data, dask="allowed")',
}
"""What to pass instead of an object of a library that holds others, with the line for these."""


def line_for(x: Any, derived: bool = False) -> str:
    """What to pass instead of an object; "" if the table does not have its class.

    Lists, dicts and data sets of torch count where `derived`: a class that derives from one may be an iterator.
    """
    names = (f"{base.__module__.partition('.')[0]}.{base.__name__}" for base in type(x).__mro__)
    able = (name for name in names if derived or not name.startswith(("builtins", "torch.Dataset")))
    return next((LINES[name] for name in able if name in LINES), "")


def instead_of(x: Any, otherwise: str = "", within: str = "") -> str:
    """The end of a message that refuses an object: what to pass instead.

    Where the table does not have its class, it says `otherwise`, or else what the methods of the object tell. `within`
    is the line for what holds the object, one of `WITHIN`.
    """
    line = line_for(x, derived=True)
    if line and within:
        line = f"`{within.format(line.strip('`'))}`"
    methods = (line for method, line in METHODS.items() if hasattr(type(x), method))
    return f"Of such data pass {line or otherwise or next(methods, 'its numbers in an array')}."
