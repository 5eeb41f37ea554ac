"""Which reader takes which data: files by their suffix, objects of other libraries by the names of their types.

The libraries, and the readers, are imported on the first use of such data, not before.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from linspec import OperatorSpec, hookimpl
from linspec.errors import MissingPackage

TEXT = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
MATRIX_MARKET = (".mtx", ".mtx.gz")
SVMLIGHT = (".svm", ".svmlight", ".libsvm", ".svm.gz", ".svmlight.gz", ".libsvm.gz")
PARQUET, ZARR, HDF5 = (".parquet", ".pq"), (".zarr",), (".h5", ".hdf5", ".h5ad", ".loom", ".mat")

BACKED = "_CSRDataset", "_CSCDataset", "CSRDataset", "CSCDataset", "SparseDataset"
"""Types of sparse matrices in files that anndata has opened."""

ARROW = "FileSystemDataset", "InMemoryDataset", "UnionDataset"

NUMPY = (".npy", ".npz")
MAGIC = {".npy": b"\x93NUMPY", ".npz": b"PK", ".mat": b"MATLAB 7.3"}
"""First bytes of files of NumPy, and of those of MATLAB that are HDF5. Others are taken by no reader, and linspec
raises an error that says what they are."""

ZARR_MARKS = "zarr.json", ".zarray", ".zgroup"
"""Files by which a folder of any name is recognised as an array or a group of zarr, of format 3 and of format 2."""

EXTRAS = {"zarr": "zarr", "h5py": "hdf5", "pyarrow": "parquet"}
"""The extra that installs a package."""


def is_files(suffixes: Sequence[str], data: Any) -> bool:
    """Whether data are files of one of some formats; a folder is one of zarr, or of nothing but Parquet."""
    if not is_type("linspec", ("RowFiles",), data):
        return False
    path, suffix = Path(data.paths[0]), data.suffix
    if path.is_dir() and suffix not in (*ZARR, *PARQUET):
        zarr = any((path / mark).is_file() for mark in ZARR_MARKS)
        kinds = {entry.suffix for entry in path.rglob("[!._]*") if entry.is_file()}
        suffix = ZARR[0] if zarr else PARQUET[0] if kinds and kinds <= {*PARQUET} else ""
    if suffix in suffixes and suffix in MAGIC and len(data.paths) == 1:
        with path.open("rb") as file:
            return file.read(len(MAGIC[suffix])) == MAGIC[suffix]
    return suffix in suffixes


def is_type(package: str, names: Sequence[str], data: Any) -> bool:
    """Whether data are of one of some types of a package, which is not imported."""
    kind = type(data)
    return kind.__module__.partition(".")[0] == package and kind.__name__ in names


def read(module: str, function: str, data: Any) -> Any:
    """Call a function of a module of this package on data.

    Raises
    ------
    MissingPackage
        The library of the format is not installed.
    """
    try:
        return getattr(import_module(f"linspec_files.{module}"), function)(data)
    except ImportError as error:
        package = str(error.name).partition(".")[0]
        raise MissingPackage(
            f"{getattr(data, 'name', 'the data')} needs {package}, which is not installed. Install it with: pip "
            f"install 'linspec[{EXTRAS.get(package, package)}]'"
        ) from error


def _record(
    name: str,
    module: str,
    function: str,
    summary: str,
    *,
    suffixes: tuple[str, ...] = (),
    package: str = "",
    types: Sequence[str] = (),
    table: bool = False,
) -> OperatorSpec:
    """Make the record of a format of files, or of some types of a package, which a function of a module reads."""
    return OperatorSpec(
        name=name,
        matches=partial(is_files, suffixes) if suffixes else partial(is_type, package, types),
        adapt=partial(read, module, function),
        suffixes=suffixes,
        column_names=partial(read, module, "names") if table else None,
        texts=partial(read, module, "texts") if table else None,
        summary=summary,
    )  # fmt: skip


@hookimpl
def linspec_operators() -> tuple[OperatorSpec, ...]:
    """Declare the adapters.

    Returns
    -------
    tuple of OperatorSpec
    """
    return (
        _record("delimited-text", "delimited", "of_text",
                "Delimited text: .csv, .tsv, .txt, also with .gz; one file or several.", suffixes=TEXT, table=True),
        _record("matrix-market", "sparse_text", "of_matrix_market",
                "Matrix Market files, .mtx and .mtx.gz: sparse ones by coordinates, or arrays.",
                suffixes=MATRIX_MARKET),
        _record("svmlight", "sparse_text", "of_svmlight",
                "The text format of SVMlight and LIBSVM, also with .gz: features, labels, or classes.",
                suffixes=SVMLIGHT),
        _record("numpy-files", "arrays", "of_numpy",
                "Files of NumPy and of scipy.sparse, .npy and .npz; one file or several.", suffixes=NUMPY),
        _record("parquet-files", "parquet_files", "of_parquet",
                "Parquet files, one, several, or a folder of them; columns by name.", suffixes=PARQUET, table=True),
        _record("zarr-files", "arrays", "of_zarr",
                "Folders of zarr, dense, or sparse as AnnData writes them; one or several.", suffixes=ZARR),
        _record("hdf5-files", "arrays", "of_hdf5",
                "HDF5 files, .h5, .hdf5, .h5ad, .loom, .mat, dense, or sparse by AnnData, 10x Genomics, MATLAB.",
                suffixes=HDF5),
        _record("zarr", "arrays", "of_object",
                "Arrays of zarr, dense, or sparse as AnnData writes them, decoded one slab ahead.",
                package="zarr", types=("Array", "Group")),
        _record("hdf5", "arrays", "of_object",
                "Datasets of h5py, dense, or sparse as AnnData writes them, decoded one slab ahead.",
                package="h5py", types=("Dataset", "Group", "File")),
        _record("anndata", "arrays", "of_object",
                "Sparse X and layers of an AnnData that is backed by a file.", package="anndata", types=BACKED),
        _record("arrow-data-set", "parquet_files", "of_data_set",
                "Data sets of Arrow: whatever it makes batches of.", package="pyarrow", types=ARROW),
    )  # fmt: skip
