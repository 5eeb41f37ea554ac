"""Which reader takes which data: files by their suffix, objects of other libraries by the names of their types.

The libraries, and the readers, are imported on the first use of such data, not before.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linspec import OperatorSpec, hookimpl
from linspec.errors import MissingPackage

if TYPE_CHECKING:
    pass

TEXT = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
MATRIX_MARKET = (".mtx", ".mtx.gz")
SVMLIGHT = (".svm", ".svmlight", ".libsvm", ".svm.gz", ".svmlight.gz", ".libsvm.gz")
PARQUET, ZARR, HDF5 = (".parquet", ".pq"), (".zarr",), (".h5", ".hdf5", ".h5ad")

BACKED = "_CSRDataset", "_CSCDataset", "CSRDataset", "CSCDataset", "SparseDataset"
"""Types of sparse matrices in files that anndata has opened."""

ARROW = "FileSystemDataset", "InMemoryDataset", "UnionDataset"

MAGIC = {".npy": b"\x93NUMPY", ".npz": b"PK"}
"""First bytes of files of NumPy. Others are taken by no reader, and linspec raises an error that says what they are."""

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
        kinds = {each.suffix for each in path.rglob("[!._]*") if each.is_file()}
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
        import_module("pyarrow.parquet" if module == "parquet_files" else __name__)
        return getattr(import_module(f"linspec_files.{module}"), function)(data)
    except ImportError as error:
        package = str(error.name).partition(".")[0]
        raise MissingPackage(
            f"{getattr(data, 'name', 'the data')} needs {package}, which is not installed. Install it with: pip "
            f"install 'linspec[{EXTRAS.get(package, package)}]'"
        ) from error


def _files(
    name: str, suffixes: tuple[str, ...], module: str, function: str, summary: str, *, table: bool = False
) -> OperatorSpec:
    """Make the record of a format of files, which a function of a module reads."""
    return OperatorSpec(
        name=name,
        matches=partial(is_files, suffixes),
        adapt=partial(read, module, function),
        suffixes=suffixes,
        column_names=partial(read, module, "names") if table else None,
        texts=partial(read, module, "texts") if table else None,
        summary=summary,
    )


def _objects(
    name: str, package: str, types: Sequence[str], module: str, function: str, summary: str
) -> OperatorSpec:
    """Make the record of some types of a package."""
    matches, adapt = partial(is_type, package, types), partial(read, module, function)
    return OperatorSpec(name=name, matches=matches, adapt=adapt, summary=summary)


@hookimpl
def linspec_operators() -> tuple[OperatorSpec, ...]:
    """Declare the adapters.

    Returns
    -------
    tuple of OperatorSpec
    """
    return (
        _files("delimited-text", TEXT, "delimited", "of_text",
               "Delimited text: .csv, .tsv, .txt, also with .gz; one file or several.", table=True),
        _files("matrix-market", MATRIX_MARKET, "sparse_text", "of_matrix_market",
               "Matrix Market files, .mtx and .mtx.gz: sparse ones by coordinates, or arrays."),
        _files("svmlight", SVMLIGHT, "sparse_text", "of_svmlight",
               "The text format of SVMlight and LIBSVM, also with .gz: features, labels, or classes."),
        _files("numpy-files", tuple(MAGIC), "arrays", "of_numpy",
               "Files of NumPy and of scipy.sparse, .npy and .npz; one file or several."),
        _files("parquet-files", PARQUET, "parquet_files", "of_parquet",
               "Parquet files, one, several, or a folder of them; columns by name.", table=True),
        _files("zarr-files", ZARR, "groups", "of_zarr",
               "Folders of zarr, dense, or sparse as AnnData writes them; one or several."),
        _files("hdf5-files", HDF5, "groups", "of_hdf5",
               "HDF5 files, .h5, .hdf5 and .h5ad, dense, or sparse as AnnData writes them; one or several."),
        _objects("zarr", "zarr", ("Array", "Group"), "groups", "of_object",
               "Arrays of zarr, dense, or sparse as AnnData writes them, decoded one slab ahead."),
        _objects("hdf5", "h5py", ("Dataset", "Group", "File"), "groups", "of_object",
               "Datasets of h5py, dense, or sparse as AnnData writes them, decoded one slab ahead."),
        _objects("anndata", "anndata", ("AnnData", *BACKED), "groups", "of_annotated",
                 "X of an AnnData, in memory or backed by a file, with its names; sparse layers of a backed one."),
        _objects(
            "arrow-data-set", "pyarrow", ARROW, "parquet_files", "of_data_set",
            "Data sets of Arrow: whatever it makes batches of.",
        ),
    )  # fmt: skip
