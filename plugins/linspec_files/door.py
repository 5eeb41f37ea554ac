"""Which reader takes which data: files by their suffix, objects of other libraries by the names of their types.

The libraries, and the readers, are imported on the first use of such data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linspec.errors import InvalidProblem, MissingPackage, printable

if TYPE_CHECKING:
    from linspec.operators import LinearOperator, RowFiles
    from linspec_files.slabs import Source

TEXT = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
MATRIX_MARKET = (".mtx", ".mtx.gz")
SVMLIGHT = (".svm", ".svmlight", ".libsvm", ".svm.gz", ".svmlight.gz", ".libsvm.gz")
NUMPY = (".npy", ".npz")
PARQUET = (".parquet", ".pq")
ZARR = (".zarr",)
HDF5 = (".h5", ".hdf5", ".h5ad")

ZARR_MARKS = "zarr.json", ".zarray", ".zgroup"
"""Files by which a folder of any name is recognised as an array or a group of zarr, of format 3 and of format 2."""

BACKED = ("_CSRDataset", "_CSCDataset", "CSRDataset", "CSCDataset", "SparseDataset")
"""Types of sparse matrices in files that anndata has opened."""

MAGIC = {".npy": b"\x93NUMPY", ".npz": b"PK"}


def is_files(suffixes: Sequence[str], data: Any) -> bool:
    """Whether data are files in the format of one of some suffixes; a folder is of zarr or of Parquet.

    A single file of NumPy must also begin with the bytes of its format. Otherwise no adapter takes it, and linspec
    raises an error that says what it is.
    """
    if not is_type("linspec", ("RowFiles",), data):
        return False
    found, path = _format(data), Path(data.paths[0])
    if found not in suffixes or (path.is_dir() and found not in (*ZARR, *PARQUET)):
        return False
    if found not in MAGIC or len(data.paths) > 1:
        return True
    with path.open("rb") as file:
        return file.read(len(MAGIC[found])) == MAGIC[found]


def _format(files: RowFiles) -> str:
    """Return the suffix that stands for the format of the files; for a folder without one it follows from its files."""
    folder = Path(files.paths[0])
    if files.suffix in (*ZARR, *PARQUET) or not folder.is_dir():
        return files.suffix
    if any((folder / mark).is_file() for mark in ZARR_MARKS):
        return ZARR[0]
    return PARQUET[0] if any(folder.rglob(f"*{PARQUET[0]}")) else files.suffix


def is_type(package: str, names: Sequence[str], data: Any) -> bool:
    """Whether data are of one of some types of a package, which is not imported."""
    kind = type(data)
    return kind.__module__.partition(".")[0] == package and kind.__name__ in names


def _needed(files: RowFiles, package: str, extra: str) -> None:
    """Raise unless a package can be imported."""
    try:
        import_module(package)
    except ImportError as error:
        name = package.partition(".")[0]
        raise MissingPackage(
            f"{files.name} needs {name}, which is not installed. Install it with: pip install 'linspec[{extra}]'"
        ) from error


def _without_part(files: RowFiles, what: str) -> None:
    if files.part:
        raise InvalidProblem(f"{files.name} is {what} and has no part {files.part!r}. Leave it out.")


# ---- files ------------------------------------------------------------------------------------------------


def _each(files: RowFiles, read: Callable[[str, RowFiles], Source]) -> LinearOperator:
    """Make the operator of files that are read file by file."""
    from linspec_files.slabs import stacked

    def one(path: str) -> Source:
        source = read(path, replace(files, paths=(path,)))
        return source.picked(files.places(source.column_names, source.shape[1], source.name))

    return stacked(files.name, list(map(one, files.paths))).operator()


def of_text(files: RowFiles) -> LinearOperator:
    """Make the operator of delimited text."""
    from linspec_files.delimited import read_delimited
    from linspec_files.slabs import held, stacked

    _without_part(files, "a table, whose columns are chosen by name,")
    sources = [held(printable(path), *read_delimited(Path(path), files)) for path in files.paths]
    return stacked(files.name, sources).operator()


def names_of_text(files: RowFiles) -> tuple[str, ...] | range:
    """Return the names or numbers of the columns of delimited text, from the first of several files."""
    from linspec_files.delimited import names_in_text

    return names_in_text(Path(files.paths[0]), files)


def texts_of_text(files: RowFiles) -> list[str | None] | None:
    """Return the texts of a column of delimited text, or None if it holds numbers."""
    from linspec_files.delimited import read_texts

    texts = [read_texts(Path(path), files) for path in files.paths]
    return None if None in texts else [text for part in texts for text in part or ()]


def of_matrix_market(files: RowFiles) -> LinearOperator:
    """Make the operator of Matrix Market files."""
    from linspec_files.matrix_market import read_matrix_market
    from linspec_files.slabs import held

    _without_part(files, "one array, whose columns have no names,")
    return _each(files, lambda path, _: held(printable(path), read_matrix_market(Path(path))))


def of_svmlight(files: RowFiles) -> LinearOperator:
    """Make the operator of svmlight files, which are read together."""
    from linspec_files.slabs import held
    from linspec_files.svmlight import read_svmlight

    source = held(files.name, read_svmlight(files))
    return source.picked(files.places(None, source.shape[1], source.name)).operator()


def of_numpy(files: RowFiles) -> LinearOperator:
    """Make the operator of `.npy` or `.npz` files."""
    from linspec_files.numpy_files import npy_rows, npz_rows

    if files.suffix == ".npz":
        return _each(files, lambda path, _: npz_rows(path, files.part))
    _without_part(files, "one array, whose columns have no names,")
    return _each(files, lambda path, _: npy_rows(path))


def of_zarr(files: RowFiles) -> LinearOperator:
    """Make the operator of folders of zarr."""
    _needed(files, "zarr", "zarr")
    from linspec_files.containers import zarr_rows

    return _each(files, lambda path, one: zarr_rows(path, one.name, one.part, one.missing))


def of_hdf5(files: RowFiles) -> LinearOperator:
    """Make the operator of HDF5 files."""
    _needed(files, "h5py", "hdf5")
    from linspec_files.containers import hdf5_rows

    return _each(files, lambda path, one: hdf5_rows(path, one.name, one.part, one.missing))


def of_parquet(files: RowFiles) -> LinearOperator:
    """Make the operator of Parquet files."""
    _needed(files, "pyarrow.parquet", "parquet")
    _without_part(files, "a table, whose columns are chosen by name,")
    from linspec_files.parquet_files import parquet_rows

    return parquet_rows(files).operator()


def names_of_parquet(files: RowFiles) -> list[str]:
    """Return the names of the columns of Parquet files."""
    _needed(files, "pyarrow.parquet", "parquet")
    from linspec_files.parquet_files import names_in_parquet

    return names_in_parquet(files)


def texts_of_parquet(files: RowFiles) -> list[str | None] | None:
    """Return the texts of a column of Parquet files."""
    _needed(files, "pyarrow.parquet", "parquet")
    from linspec_files.parquet_files import texts_in_parquet

    return texts_in_parquet(files)


# ---- objects ----------------------------------------------------------------------------------------------


def of_object(data: Any) -> LinearOperator:
    """Make the operator of an array, a group, a dataset or a data set of another library, or of an AnnData."""
    package = type(data).__module__.partition(".")[0]
    if package == "anndata":
        return _of_annotated(data)
    if package == "pyarrow":
        from linspec_files.parquet_files import of_data_set

        return of_data_set(data)
    from linspec_files.containers import rows_of_hdf5, rows_of_zarr

    return (rows_of_zarr if package == "zarr" else rows_of_hdf5)(data).operator()


def _of_annotated(data: Any) -> LinearOperator:
    """Make the operator of X of an AnnData, or of a sparse matrix in a file that anndata has opened."""
    from linspec.operators import as_operator
    from linspec_files.groups import named_rows

    if hasattr(data, "group"):
        return of_object(data.group)
    if data.X is None:
        raise InvalidProblem("the AnnData has no X. Pass a layer, or an embedding of obsm.")
    return named_rows(data, as_operator(data.X))
