"""Small data of each kind, on which the conformance kit tests the adapters."""

from __future__ import annotations

import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import scipy.io
import scipy.sparse

from linspec.arrays import HostArray
from linspec.errors import MissingPackage
from linspec.operators import RowFiles

ROWS, COLUMNS = 60, 7


def numbers() -> HostArray:
    """Make a matrix of numbers."""
    return np.random.default_rng(0).standard_normal((ROWS, COLUMNS))


def _package(name: str, extra: str = "") -> Any:
    """Import an optional package; the error names the extra, or else the package, to install."""
    try:
        return import_module(name)
    except ImportError as error:
        wanted = f"'linspec[{extra}]'" if extra else name
        raise MissingPackage(f"{name} is not installed: pip install {wanted}") from error


def zarr_array() -> Any:
    """Make a `zarr.Array` in memory, with chunks that do not divide its rows."""
    zarr = _package("zarr", "zarr")
    array = zarr.create_array({}, shape=(ROWS, COLUMNS), chunks=(16, 4), dtype="f8")
    array[:] = numbers()
    return array


def hdf5_dataset() -> Any:
    """Make an `h5py.Dataset` in memory."""
    h5py = _package("h5py", "hdf5")
    file = h5py.File(
        f"sample-{uuid4()}", "w", driver="core", backing_store=False
    )  # a file with a fixed name may be open
    return file.create_dataset("rows", data=numbers(), chunks=(16, 4))


def _place(name: str) -> Path:
    """Return a path in a new temporary folder, which is not removed."""
    return Path(tempfile.mkdtemp(prefix="linspec-sample-")) / name


def text_file() -> RowFiles:
    """Make a file of delimited text with a line of names."""
    path = _place("rows.csv")
    names = ",".join(f"c{j}" for j in range(COLUMNS))
    np.savetxt(path, numbers(), fmt="%.17g", delimiter=",", header=names, comments="")
    return RowFiles((str(path),))


def matrix_market_file() -> RowFiles:
    """Make a Matrix Market file of a sparse matrix by coordinates."""
    path = _place("rows.mtx")
    scipy.io.mmwrite(path, scipy.sparse.coo_array(numbers()))
    return RowFiles((str(path),))


def svmlight_file() -> RowFiles:
    """Make an svmlight file with a label and features in each line."""
    path = _place("rows.svm")
    lines = [" ".join(f"{j + 1}:{float(one)!r}" for j, one in enumerate(row)) for row in numbers()]
    path.write_text("\n".join(f"{i % 2} {line}" for i, line in enumerate(lines)) + "\n")
    return RowFiles((str(path),))


def npy_file() -> RowFiles:
    """Make a `.npy` file."""
    path = _place("rows.npy")
    np.save(path, numbers())
    return RowFiles((str(path),))


def zarr_folder() -> RowFiles:
    """Make an array of zarr in a folder."""
    zarr = _package("zarr", "zarr")
    path = _place("rows.zarr")
    zarr.create_array(str(path), shape=(ROWS, COLUMNS), chunks=(16, 4), dtype="f8")[:] = numbers()
    return RowFiles((str(path),))


def hdf5_file() -> RowFiles:
    """Make an HDF5 file with one dataset."""
    h5py = _package("h5py", "hdf5")
    path = _place("rows.h5")
    with h5py.File(path, "w") as file:
        file.create_dataset("rows", data=numbers(), chunks=(16, 4))
    return RowFiles((str(path),))


def parquet_file() -> RowFiles:
    """Make a Parquet file."""
    pa, pq = _package("pyarrow", "parquet"), _package("pyarrow.parquet", "parquet")
    path = _place("rows.parquet")
    table = pa.table({f"c{j}": column for j, column in enumerate(numbers().T)})
    pq.write_table(table, path, row_group_size=16)
    return RowFiles((str(path),))


def data_set() -> Any:
    """Make an Arrow data set of a Parquet file."""
    files = list(parquet_file().paths)
    return _package("pyarrow.dataset", "parquet").dataset(files)


def annotated() -> Any:
    """Make an AnnData in memory."""
    return _package("anndata").AnnData(numbers())


def annotated_sparse() -> Any:
    """Make a sparse matrix that anndata reads from a group of zarr in memory."""
    anndata, zarr = _package("anndata"), _package("zarr", "zarr")
    group = zarr.open_group({}, mode="w")
    anndata.io.write_elem(group, "X", scipy.sparse.csr_matrix(numbers()))
    return anndata.io.sparse_dataset(group["X"])
